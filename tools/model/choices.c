#include "model/choices.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { MAX_CHOICES = 12, WIDEST = 8 };   /* an input is at most so many times as wide as high */

/* " (1, 2 or 4)" */
static void append_numbers(char text[CHOICES_SIZE], const int *numbers, int count)
{
    int i;
    for (i = 0; i < count; i++)
        text_append(text, CHOICES_SIZE, "%s%d%s", i == 0 ? " (" : i + 1 < count ? ", " : " or ",
                    numbers[i], i + 1 < count ? "" : ")");
}

const char *choices_of_words(setting_key key, const char *others, char text[CHOICES_SIZE])
{
    const setting_word *word = setting_rows[key].words;
    snprintf(text, CHOICES_SIZE, "--set %s=", setting_rows[key].name);
    for (; word->word; word++)
        text_append(text, CHOICES_SIZE, "%s%s", word->word, word[1].word ? "|" : "");
    text_append(text, CHOICES_SIZE, "%s", others);
    return text;
}

const char *choices_of_heads(int64_t width, const char *others, char text[CHOICES_SIZE])
{
    const int64_t narrowest = width < 8 ? 1 : width < 64 ? 2 : 8;   /* heads in practice */
    int numbers[MAX_CHOICES], count = 0, heads;
    for (heads = 1; heads <= 64 && count < MAX_CHOICES; heads++)
        if (width % heads == 0 && width / heads >= narrowest) numbers[count++] = heads;
    snprintf(text, CHOICES_SIZE, "--set num_heads=N");
    append_numbers(text, numbers, count);
    text_append(text, CHOICES_SIZE, "%s", others);
    return text;
}

const char *choices_of_chans(int64_t values, char text[CHOICES_SIZE])
{
    int numbers[MAX_CHOICES], count = 0, chans, side;
    for (chans = 1; chans <= VIT_MAX_CHANS && count < MAX_CHOICES; chans++)
        if (values % chans == 0 && choices_is_square(values / chans, &side))
            numbers[count++] = chans;
    snprintf(text, CHOICES_SIZE, "--set in_chans=N");
    append_numbers(text, numbers, count);
    return text;
}

const char *choices_of_size(int patches, int patch_size, int stride, char text[CHOICES_SIZE])
{
    int height, count = 0;
    snprintf(text, CHOICES_SIZE, "--img-size HxW");
    for (height = 1; height <= patches && count < MAX_CHOICES; height++) {
        const int width = patches / height;
        if (patches % height || height / WIDEST > width || width / WIDEST > height) continue;
        text_append(text, CHOICES_SIZE, "%s%lldx%lld", count++ ? ", " : " (",
                    (long long)(height - 1) * stride + patch_size,
                    (long long)(width - 1) * stride + patch_size);
    }
    text_append(text, CHOICES_SIZE, "%s", count ? ")" : "");
    return text;
}

bool choices_is_square(int64_t n, int *side)
{
    *side = n > 0 && n < INT_MAX ? (int)(sqrt((double)n) + 0.5) : 0;
    return *side > 0 && (int64_t)*side * *side == n;
}
