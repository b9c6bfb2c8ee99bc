/* choices.h - the values that a setting may have, as an option to copy:
 * "--set num_heads=N (1, 2, 4 or 8)".
 */
#ifndef CHOICES_H
#define CHOICES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/settings.h"

enum { CHOICES_SIZE = 256 };

/* "--set activation=gelu|relu", of all words; `others` comes after it. */
const char *choices_of_words(setting_key key, const char *others, char text[CHOICES_SIZE]);

/* Heads that attention of this width may have. */
const char *choices_of_heads(int64_t width, const char *others, char text[CHOICES_SIZE]);

/* Channels of a square patch of so many values. */
const char *choices_of_chans(int64_t values, char text[CHOICES_SIZE]);

/* Input sizes of so many patches. */
const char *choices_of_size(int patches, int patch_size, int stride, char text[CHOICES_SIZE]);

/* Is n the square of *side? */
bool choices_is_square(int64_t n, int *side);

#endif
