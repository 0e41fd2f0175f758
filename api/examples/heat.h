/* Heat maps on terminals: cells whose colour tells a number from 0 to 1. Where standard output
 * takes no colours (it goes to a file, NO_COLOR is set or TERM is dumb) characters tell it. */
#ifndef HEED_EXAMPLES_HEAT_H
#define HEED_EXAMPLES_HEAT_H

#include <stdbool.h>

/* Whether standard output takes colours. */
bool heat_in_colour(void);

/* How many characters a line of standard output holds: the environment variable COLUMNS, the
 * terminal's own width, else 80. */
int heat_width(void);

/* Prints a cell with a text, say " 0.88 ". In colour the text stands on it; otherwise its spaces
 * become characters that are the darker the closer `level` is to 1. Below 0 is 0, above 1 is 1,
 * and NaN is a question mark. */
void heat_cell(double level, const char* text);

#endif /* HEED_EXAMPLES_HEAT_H */
