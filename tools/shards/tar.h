/* tar.h - reads a tar archive from beginning to end, member after member. A member is a file in the
 * archive. Nothing is unpacked to the disk.
 *
 *     tar_stream s;
 *     tar_member m;
 *     tar_begin(&s, tar_read_file, file);
 *     while (tar_next(&s, &m, &r))
 *         if (!m.refused && !tar_data(&s, bytes, m.size, &r)) break;
 *     tar_end(&s);
 *
 * Supports V7, ustar, PAX (path, size) and GNU's long names and sizes. Archives may be hostile. A
 * member is refused with a reason and skipped if it is not a plain file, or if its name leads out
 * of the archive, as "../x" does. Reading fails if the archive is damaged or truncated, or if
 * anything but zeros follows it: members may then be missing.
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

/* A function that reads bytes from the archive, like fread. It returns the number of bytes that it
 * has read, which is less than `size` only at the end or after an error. */
typedef size_t tar_read(void *user, void *to, size_t size);
size_t tar_read_file(void *file, void *to, size_t size); /* reads from a FILE * */

typedef struct tar_member {
    /* name of the member; if it is refused, '?' replaces control characters in the name */
    char name[TAR_MAX_NAME + 1];
    uint64_t size;
    /* reason why the member is refused, such as "is a symbolic link"; NULL if it can be read */
    const char *refused;
    bool folder; /* true if the member is a folder; it is then also refused */
} tar_member;

typedef struct tar_stream {
    uint64_t offset;        /* number of bytes read so far */
    uint64_t left, padding; /* private, like all members below */
    tar_read *read;
    void *user;
    /* values from the extended headers before the current member */
    bool long_name, resized, sparse, name_too_long;
    uint64_t size;
    char name[TAR_MAX_NAME + 1];
    char *text; /* text of an extended header, malloc'ed */
} tar_stream;

void tar_begin(tar_stream *s, tar_read *read, void *user);
void tar_end(tar_stream *s);

/* Goes to the next member, and describes it in *m. Returns false after the last member, when the
 * end of the archive has been read. Also returns false on failure, with a message in *r. */
bool tar_next(tar_stream *s, tar_member *m, report *r);
/* Reads the next `size` bytes of the current member. At least `size` bytes must still be unread. */
bool tar_data(tar_stream *s, void *to, size_t size, report *r);

/* === Samples === */

/* These functions read the photos of a tar archive in the format of webdataset, with their texts.
 *
 * A sample consists of consecutive members KEY.jpg, KEY.txt, KEY.cls and KEY.json; KEY ends at the
 * first dot of the file's name. An image may have a caption (KEY.txt, or "caption" in KEY.json), a
 * label (KEY.cls, or "label" in KEY.json) and a URL ("url" in KEY.json). An archive that has only
 * photos also has this format.
 */

/* An image of a sample, with the texts of the sample. All pointers are malloc'ed, and NULL if the
 * sample lacks the text. */
typedef struct sample {
    char *key, *name; /* KEY; the whole name of the image in the archive */
    char *caption, *label, *url;
    char *note;  /* a message about the first text that could not be used, with the reason */
    char *error; /* reason why the image's bytes could not be read */
    void *data;
    size_t size;
} sample;

void sample_free(sample *s);

enum {
    SAMPLE_MAX_IMAGES = 64,    /* largest number of images in a sample */
    SAMPLE_MAX_TEXT = 1 << 20, /* largest size of KEY.txt, KEY.cls and KEY.json in bytes */
};

typedef struct samples {
    /* number of members that are neither folders nor images or texts of samples */
    uint64_t others;
    char other[TAR_MAX_NAME + 1]; /* name of the first of these members */
    uint64_t without_image;       /* number of samples without an image */
    size_t max_bytes;             /* private, like the members below */
    tar_stream tar;
    tar_member member;
    bool pending, ended; /* pending: the current member belongs to the next sample */
    sample images[SAMPLE_MAX_IMAGES];
    int count, next;
    sample shared; /* KEY and the texts of the current sample */
} samples;

/* Begins to read an archive. `max_bytes` limits the total size of all images of a sample. */
void samples_begin(samples *s, tar_read *read, void *user, size_t max_bytes);
void samples_end(samples *s);

/* Reads the next image into *image, which the caller frees by sample_free. Returns false after the
 * last image, and on failure with a message in *r. */
bool samples_next(samples *s, sample *image, report *r);

#endif
