/* photos.h - images on the command line: files, and folders with all that lies below them. */
#ifndef PHOTOS_H
#define PHOTOS_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "vit.h"

typedef struct photo_list {
    char **paths;
    int count;
} photo_list;

/* A file is taken as it is; of a folder and those below it, the images by their suffix, sorted
 * by their path, hidden ones left out. Where there are more than `max`, that many of them, evenly
 * spaced, so that every class has its share. An operand without any image is an error. */
bool photos_find(photo_list *list, const text_list *operands, int max, report *r);
void photos_free(photo_list *list);

/* Decodes and preprocesses for a model; keeps its memory for the next one. */
typedef struct photo_reader {
    const vit_model *model;
    void *scratch;
    size_t scratch_size;
} photo_reader;

bool photos_read(photo_reader *reader, const char *path, float *input, report *r);
void photos_reader_free(photo_reader *reader);

#endif
