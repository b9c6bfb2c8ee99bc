/* tar.h - a tar archive as a stream, member after member; nothing is ever unpacked.
 *
 *     tar_stream s;
 *     tar_member m;
 *     tar_begin(&s, tar_read_file, file);
 *     while (tar_next(&s, &m, &r))
 *         if (!m.refused && !tar_data(&s, bytes, m.size, &r)) break;
 *     tar_end(&s);
 *
 * V7, ustar, PAX (path, size) and GNU's long names and sizes. Archives of strangers: a member that
 * is no plain file, or whose name leads out of the archive, is refused with a reason and passed
 * over. What is damaged, cut short or followed by more than zeros is a failure, since nobody can
 * tell what is missing.
 *
 * tools/shards owns tar archives of photos, one task's part of them, the output shard of each,
 * searching a folder of shards; it may include os base cli numbers image infer.
 */
#ifndef SHARDS_TAR_H
#define SHARDS_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"

enum { TAR_MAX_NAME = 4095, TAR_MAX_EXTENDED = 1 << 20 };

/* As fread: fewer bytes than asked for are the end, or an error. */
typedef size_t tar_read(void *user, void *to, size_t size);
size_t tar_read_file(void *file, void *to, size_t size); /* of a FILE */

typedef struct tar_member {
    char name[TAR_MAX_NAME + 1]; /* control characters of a refused one are '?'           */
    uint64_t size;
    const char *refused; /* why there is no data to take: "is a symbolic link"    */
    bool folder;         /* then refused as well                                  */
} tar_member;

typedef struct tar_stream {
    uint64_t offset;        /* bytes read so far                                     */
    uint64_t left, padding; /* private, as what follows: of the member               */
    tar_read *read;
    void *user;
    bool long_name, resized, sparse, name_too_long; /* by the headers that precede a member */
    uint64_t size;
    char name[TAR_MAX_NAME + 1];
    char *text; /* of an extended header                                 */
} tar_stream;

void tar_begin(tar_stream *s, tar_read *read, void *user);
void tar_end(tar_stream *s);

/* False after the last member, whose end has been read, or with a message in *r. */
bool tar_next(tar_stream *s, tar_member *m, report *r);
/* The next bytes of the member, no more than it has left. */
bool tar_data(tar_stream *s, void *to, size_t size, report *r);

/* === Samples === */

/* The photos of a tar archive in the form of webdataset, and what is said of each.
 *
 * The members KEY.jpg, KEY.txt, KEY.cls and KEY.json that follow each other are a sample; KEY ends
 * at the first dot of the file's name. Every image of a sample is given, with the text of KEY.txt,
 * or "caption" of KEY.json, the text of KEY.cls, or "label", and "url". An archive of photos alone
 * is of this form as well.
 */

/* malloc'ed texts; NULL where there is none. */
typedef struct sample {
    char *key, *name; /* of the image: its whole name in the archive           */
    char *caption, *label, *url;
    char *note;  /* what could not be used of these, and why              */
    char *error; /* why there are no bytes                                */
    void *data;
    size_t size;
} sample;

void sample_free(sample *s);

enum {
    SAMPLE_MAX_IMAGES = 64,    /* of one sample                                         */
    SAMPLE_MAX_TEXT = 1 << 20, /* bytes of KEY.txt, KEY.cls, KEY.json                   */
};

typedef struct samples {
    uint64_t others;              /* members that are none of these                        */
    char other[TAR_MAX_NAME + 1]; /* the first of them                                     */
    uint64_t without_image;       /* samples                                               */
    size_t max_bytes;             /* private, as what follows                              */
    tar_stream tar;
    tar_member member;
    bool pending, ended; /* member is of the next sample                          */
    sample images[SAMPLE_MAX_IMAGES];
    int count, next;
    sample shared; /* key and texts of the sample                           */
} samples;

/* max_bytes: of all images of a sample. */
void samples_begin(samples *s, tar_read *read, void *user, size_t max_bytes);
void samples_end(samples *s);

/* The next image, to be freed. False after the last one, or with a message in *r. */
bool samples_next(samples *s, sample *image, report *r);

#endif
