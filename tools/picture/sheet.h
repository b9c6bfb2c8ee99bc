/* sheet.h - a contact sheet: pictures in rows and columns, with captions below.
 *
 *     sheet s = { 0 };
 *     good = sheet_add_photo(&s, "cat.jpg", decoder, 160, "0.93\ncat.jpg", &r) && ... &&
 *            sheet_draw(&s, 6, &p, &r) && picture_save(&p, "out.png", &r);
 */
#ifndef SHEET_H
#define SHEET_H

#include "image/photos.h"
#include "picture/picture.h"

typedef struct sheet_cell {
    picture shown;
    char *caption;            /* malloc'ed; lines end with '\n', and are cut to the width */
} sheet_cell;

/* Zeroed before the first picture is added. */
typedef struct sheet {
    sheet_cell *cells;
    int count;
    size_t capacity;          /* private */
} sheet;

/* Takes the picture over, also if it fails, and copies the caption. */
bool sheet_add(sheet *s, picture *shown, const char *caption, report *r);

/* Decodes a photo, its longer side as long as `side`. One that cannot be read is an empty grey
 * square: its caption says what it is. False: out of memory. */
bool sheet_add_photo(sheet *s, const char *path, photo_decoder *decoder, int side,
                     const char *caption, report *r);

/* Rows of so many columns, 0 for about as many rows as columns; each column as wide and each row as
 * high as what is in it. The result is the caller's. */
bool sheet_draw(const sheet *s, int columns, picture *drawn, report *r);
void sheet_free(sheet *s);

#endif
