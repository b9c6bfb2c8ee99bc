/* stb.c - draws text by stb_easy_font, and writes PNGs by stb_image_write. Both are in Debian's
 * libstb-dev. */
#include "picture/picture.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

/* === Memory of stb_image_write === */

/* stb_image_write does not check whether its allocations succeed. After a failed allocation,
 * longjmp therefore leaves stb_image_write. All of its blocks are in a list, so that they can be
 * freed then. */

typedef struct block {
    struct block *previous, *next;
} block;

static struct {
    jmp_buf no_memory;
    /* The head of the list of blocks. This struct is not itself a block. */
    block blocks;
} png;

static void *png_realloc(void *old, size_t size) {
    block *b = realloc(old ? (block *)old - 1 : NULL, sizeof *b + size);
    if (!b) longjmp(png.no_memory, 1);
    if (!old) {
        b->previous = &png.blocks;
        b->next = png.blocks.next;
    }
    b->previous->next = b;
    if (b->next) b->next->previous = b;
    return b + 1;
}

static void png_free(void *old) {
    block *b = old ? (block *)old - 1 : NULL;
    if (!b) return;
    b->previous->next = b->next;
    if (b->next) b->next->previous = b->previous;
    free(b);
}

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wcast-align"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#define STBIW_MALLOC(size)       png_realloc(NULL, size)
#define STBIW_REALLOC(old, size) png_realloc(old, size)
#define STBIW_FREE(old)          png_free(old)
#include <stb/stb_image_write.h>

#include <stb/stb_easy_font.h>

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* MAX_TEXT is the largest size of a text with its NUL; MAX_QUADS is the largest number of lines of
 * a letter. */
enum { MAX_TEXT = 256, MAX_QUADS = 32 };

/* A corner of a quadrilateral. stb_easy_font writes four corners for each line of a letter. */
typedef struct corner {
    float x, y, z;
    unsigned char colour[4];
} corner;

/* Copies the text to `plain`. Characters that stb_easy_font cannot draw become '?'. The second and
 * later bytes of a UTF-8 character are left out. */
static char *plain_text(const char *text, char plain[MAX_TEXT]) {
    int length = 0;
    for (; *text && length < MAX_TEXT - 1; text++) {
        if (((unsigned char)*text & 0xC0) == 0x80) continue;
        plain[length++] = *text >= ' ' && *text <= '~' ? *text : '?';
    }
    plain[length] = '\0';
    return plain;
}

int picture_text_width(const char *text) {
    char plain[MAX_TEXT];
    return stb_easy_font_width(plain_text(text, plain));
}

/* Draws one letter at (x, y). Returns the x position of the next letter. */
static int draw_letter(picture *p, int x, int y, picture_colour colour, char letter) {
    char text[2] = { 0, 0 };
    corner quads[MAX_QUADS][4];
    int count;
    text[0] = letter;
    count = stb_easy_font_print(0, 0, text, NULL, quads, (int)sizeof quads);
    for (int i = 0; i < count; i++) {
        const corner *first = &quads[i][0], *last = &quads[i][2];
        const picture_box box = { x + (int)first->x, y + (int)first->y, (int)(last->x - first->x),
                                  (int)(last->y - first->y) };
        picture_fill(p, box, colour);
    }
    return x + stb_easy_font_width(text);
}

void picture_text(picture *p, int x, int y, picture_colour colour, const char *text) {
    char plain[MAX_TEXT];
    plain_text(text, plain);
    for (int i = 0; plain[i]; i++) x = draw_letter(p, x, y, colour, plain[i]);
}

static void write_bytes(void *file, void *data, int size) { fwrite(data, 1, (size_t)size, file); }

/* Writes the picture to the file as a PNG. Returns false if memory is exhausted. */
static bool write_png(const picture *p, FILE *file) {
    png.blocks.next = NULL;
    if (setjmp(png.no_memory)) {
        while (png.blocks.next) png_free(png.blocks.next + 1);
        return false;
    }
    return stbi_write_png_to_func(write_bytes, file, p->width, p->height, 3, p->pixels, 0) != 0;
}

bool picture_save(const picture *p, const char *path, report *r) {
    cli_output output;
    if (!cli_output_open(&output, path, r)) return false;
    if (!write_png(p, output.file)) {
        cli_output_abandon(&output);
        return report_no_memory(r);
    }
    return cli_output_commit(&output, r);
}
