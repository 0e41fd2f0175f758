/* From files to an attention problem. */
#ifndef HEED_EXAMPLES_ATTEND_PROBLEM_H
#define HEED_EXAMPLES_ATTEND_PROBLEM_H

#include <heed.h>
#include <stdbool.h>

#include "npy.h"
#include "options.h"

/* A tensor that is not there has no data. */
typedef struct attend_problem {
  npy_tensor query;
  npy_tensor key;
  npy_tensor value;
  npy_tensor expect;
  npy_tensor out; /* to be computed */
  heed_attention_desc desc;
} attend_problem;

/* Reads the files, sees that they fit together and makes room for the result. The
 * problem must be zeroed; after an error, which is then on stderr, release it all the same. */
bool attend_problem_read(const attend_options* options, attend_problem* problem);

/* The tensors of problem->desc. */
heed_attention_args attend_problem_args(const attend_problem* problem);

void attend_problem_release(attend_problem* problem);

/* Puts a message on stderr; false. */
bool attend_failed(const char* message);

/* True for success; else heed's own words are on stderr, with our options for its fields. */
bool attend_succeeded(heed_status status);

#endif /* HEED_EXAMPLES_ATTEND_PROBLEM_H */
