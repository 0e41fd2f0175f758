// heed.h must need nothing before it, in C++ as in C (test_c99.c).
#include "heed.h"
