/* tar.h - reads a tar archive as a stream, member after member, and never unpacks anything.
 *
 *     tar_stream s;
 *     tar_member m;
 *     tar_begin(&s, tar_read_file, file);
 *     while (tar_next(&s, &m, &r))
 *         if (!m.refused && !tar_data(&s, bytes, m.size, &r)) break;
 *     tar_end(&s);
 *
 * Supports V7, ustar, PAX (path, size) and GNU's long names and sizes. Archives may be hostile: a
 * member that is not a plain file, or whose name leads out of the archive, is refused with a reason
 * and skipped. An archive that is damaged, truncated or followed by more than zeros is a failure,
 * because members may be missing.
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

/* Works like fread: returns fewer bytes than requested at the end, or after an error. */
typedef size_t tar_read(void *user, void *to, size_t size);
size_t tar_read_file(void *file, void *to, size_t size); /* reads a FILE */

typedef struct tar_member {
    char name[TAR_MAX_NAME + 1]; /* name; '?' replaces control characters of a refused member */
    uint64_t size;
    const char *refused; /* reason why there are no data, such as "is a symbolic link" */
    bool folder;         /* true for a folder, also refused */
} tar_member;

typedef struct tar_stream {
    uint64_t offset;        /* bytes read so far */
    uint64_t left, padding; /* private, like the rest of the struct */
    tar_read *read;
    void *user;
    bool long_name, resized, sparse, name_too_long; /* values from the headers before a member */
    uint64_t size;
    char name[TAR_MAX_NAME + 1];
    char *text; /* text of an extended header */
} tar_stream;

void tar_begin(tar_stream *s, tar_read *read, void *user);
void tar_end(tar_stream *s);

/* Goes to the next member. Returns false after the last member, when the end of the archive has
 * been read, and after a failure, with a message in *r. */
bool tar_next(tar_stream *s, tar_member *m, report *r);
/* Reads the next bytes of the member, at most as many as are left. */
bool tar_data(tar_stream *s, void *to, size_t size, report *r);

/* === Samples === */

/* Reads the photos of a tar archive in webdataset's form, with their texts.
 *
 * Consecutive members KEY.jpg, KEY.txt, KEY.cls and KEY.json are a sample; KEY ends at the first
 * dot of the file's name. Each image comes with a caption (KEY.txt, or "caption" in KEY.json), a
 * label (KEY.cls, or "label") and a "url". An archive that holds only photos has this form too.
 */

/* A sample. Its texts are malloc'ed, and NULL if missing. */
typedef struct sample {
    char *key, *name; /* whole name of the image in the archive */
    char *caption, *label, *url;
    char *note;  /* text: the texts that could not be used, and why */
    char *error; /* reason why there are no bytes */
    void *data;
    size_t size;
} sample;

void sample_free(sample *s);

enum {
    SAMPLE_MAX_IMAGES = 64,    /* images of one sample */
    SAMPLE_MAX_TEXT = 1 << 20, /* largest size of KEY.txt, KEY.cls, KEY.json */
};

typedef struct samples {
    uint64_t others;              /* number of members of other kinds */
    char other[TAR_MAX_NAME + 1]; /* name of the first of these members */
    uint64_t without_image;       /* number of samples without an image */
    size_t max_bytes;             /* private, like the members below */
    tar_stream tar;
    tar_member member;
    bool pending, ended; /* the current member belongs to the next sample */
    sample images[SAMPLE_MAX_IMAGES];
    int count, next;
    sample shared; /* key and texts of the current sample */
} samples;

/* Begins to read; `max_bytes` limits the images of a sample together. */
void samples_begin(samples *s, tar_read *read, void *user, size_t max_bytes);
void samples_end(samples *s);

/* Gives the next image, which the caller frees. Returns false after the last image, and after a
 * failure, with a message in *r. */
bool samples_next(samples *s, sample *image, report *r);

#endif
