#include <heed.h>
#include <stdio.h>

int main(void) {
  heed_context* context = NULL;
  if (heed_context_create(NULL, &context) != HEED_STATUS_OK) return 1;
  heed_context_destroy(context);
  printf("heed %s\n", heed_version_string());
  return 0;
}
