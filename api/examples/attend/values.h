/* The values of options. Each function takes the whole text; false after an error, which names the
 * option, the text and what it should have been. */
#ifndef HEED_EXAMPLES_ATTEND_VALUES_H
#define HEED_EXAMPLES_ATTEND_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An integer in [least, most]. */
bool value_integer(const char* name, const char* text, int64_t least, int64_t most, int64_t* value);

/* Two of them, A,B. `meaning` names them in the error. */
bool value_pair(const char* name, const char* text, const char* meaning, int64_t least,
                int64_t* first, int64_t* second);

/* A finite number. */
bool value_number(const char* name, const char* text, double* value);

/* top-left, bottom-right or an offset: 1, 2 or 3, as in heed_causal. */
bool value_offset(const char* name, const char* text, int* kind, int64_t* offset);

#endif /* HEED_EXAMPLES_ATTEND_VALUES_H */
