// heed.h must need nothing before it, in C++ as in C (api/examples).
#include "heed.h"
