#define _POSIX_C_SOURCE 200112L /* fileno, isatty */
#define _DARWIN_C_SOURCE        /* TIOCGWINSZ, which other systems declare anyway */

#include "heat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* As many shades with characters as with colours, so that both show the same. The colours are
 * those of the map "inferno", black to pale yellow, in the 256 that terminals know by number. */
#define SHADES 10
static const char characters[SHADES + 1] = " .:-=+*#%@";
static const int backgrounds[SHADES] = {16, 17, 53, 89, 125, 166, 208, 214, 221, 229};

/* The first background on which black reads better than white. */
#define FIRST_BRIGHT 6

bool heat_in_colour(void) {
  const char* const refused = getenv("NO_COLOR"); /* no-color.org */
  const char* const terminal = getenv("TERM");
  return isatty(STDOUT_FILENO) && (refused == NULL || *refused == '\0') && terminal != NULL &&
         strcmp(terminal, "dumb") != 0;
}

int heat_width(void) {
  const char* const columns = getenv("COLUMNS");
  const long wanted = columns == NULL ? 0 : strtol(columns, NULL, 10);
  if (wanted > 0 && wanted < 10000) return (int)wanted;
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

static int shade_of(double level) {
  if (isnan(level) || level <= 0) return 0;
  return level >= 1 ? SHADES - 1 : (int)(level * (SHADES - 1) + 0.5);
}

void heat_cell(double level, const char* text) {
  const int shade = shade_of(level);
  const bool colour = heat_in_colour();
  const char fill = isnan(level) ? '?' : colour ? ' ' : characters[shade];
  if (colour) {
    printf("\033[38;5;%d;48;5;%dm", shade < FIRST_BRIGHT ? 231 : 16, backgrounds[shade]);
  }
  for (const char* c = text; *c != '\0'; ++c) putchar(*c == ' ' ? fill : *c);
  if (colour) printf("\033[0m");
}
