/* samples.h - the photos of a tar archive in the form of webdataset, and what is said of each.
 *
 * The members KEY.jpg, KEY.txt, KEY.cls and KEY.json that follow each other are a sample; KEY ends
 * at the first dot of the file's name. Every image of a sample is given, with the text of KEY.txt,
 * or "caption" of KEY.json, the text of KEY.cls, or "label", and "url". An archive of photos alone
 * is of this form as well.
 */
#ifndef SHARDS_SAMPLES_H
#define SHARDS_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#include "shards/tar.h"

/* malloc'ed texts; NULL where there is none. */
typedef struct sample {
    char *key, *name;               /* of the image: its whole name in the archive           */
    char *caption, *label, *url;
    char *note;                     /* what could not be used of these, and why              */
    char *error;                    /* why there are no bytes                                */
    void *data;
    size_t size;
} sample;

void sample_free(sample *s);

enum {
    SAMPLE_MAX_IMAGES = 64,         /* of one sample                                         */
    SAMPLE_MAX_TEXT = 1 << 20       /* bytes of KEY.txt, KEY.cls, KEY.json                   */
};

typedef struct samples {
    uint64_t others;                /* members that are none of these                        */
    char other[TAR_MAX_NAME + 1];   /* the first of them                                     */
    uint64_t without_image;         /* samples                                               */
    size_t max_bytes;               /* private, as what follows                              */
    tar_stream tar;
    tar_member member;
    bool pending, ended;            /* member is of the next sample                          */
    sample images[SAMPLE_MAX_IMAGES];
    int count, next;
    sample shared;                  /* key and texts of the sample                           */
} samples;

/* max_bytes: of all images of a sample. */
void samples_begin(samples *s, tar_read *read, void *user, size_t max_bytes);
void samples_end(samples *s);

/* The next image, to be freed. False after the last one, or with a message in *r. */
bool samples_next(samples *s, sample *image, report *r);

#endif
