/* photos.h - finds and decodes the images of a command line: files, and folders with all images
 * below them. */
#ifndef PHOTOS_H
#define PHOTOS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"
#include "base/text.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct photo_list {
    char **paths;
    int count;
    int skipped;     /* number of unreadable images, whose paths come last */
    size_t capacity; /* private */
} photo_list;

/* Finds the images of operands. An operand is a file, whatever it contains, or a folder. A folder
 * stands for all images in it and below it, recognised by suffix, sorted by path, without hidden
 * files. Images in unreadable formats are included, because they must be reported. If there are
 * more than `max` images, keeps `max` of them, evenly spaced, which preserves the share of every
 * class. A folder without images is an error. */
bool photos_find(photo_list *list, const text_list *operands, int max, report *r);
void photos_free(photo_list *list);

/* Lists the names of the folders in a folder, sorted, without hidden folders. The list may be
 * empty. */
bool photos_subfolders(const char *folder, photo_list *names, report *r);

/* Lists the names of all entries of a folder, sorted, without hidden entries. The list may be
 * empty. */
bool photos_names(const char *folder, photo_list *names, report *r);

/* True if a name has an image's suffix: ".jpg", ".PNG". */
bool photos_is_name(const char *name);

/* True for a folder. False for a name that refers to standard input while standard input is
 * closed. */
bool photos_is_folder(const char *path);

/* Appends one more operand. A folder stands for its images, if any; any other name is appended
 * unchanged. Zero the list before the first call. */
bool photos_add(photo_list *list, const char *operand, report *r);
bool photos_add_some(photo_list *list, const char *operand, report *r); /* fails without images */
bool photos_append(photo_list *list, const char *name, report *r);

/* Options for decoding image files. If zeroed, files are decoded in confined processes, turned
 * upright, and may have up to 134 million pixels. */
typedef struct photo_options {
    bool no_exif;        /* ignore the EXIF orientation, like timm and Pillow */
    bool no_sandbox;     /* decode in this process, without protection from the file */
    int max_megapixels;  /* limit, 1 .. 500 million; 0: the default */
    bool exact;          /* decode at full size, even if it is much larger than the input */
    const char *command; /* command for other formats, see below; NULL: $VIT_DECODER */
} photo_options;

/* Decodes image files. All programs use such a decoder; no other code in tools/ includes
 * image_file.h. A decoder has confined processes (sandbox.h) for num_threads threads (0: one thread
 * per core), unless options disable them or the system has no sandbox. If the system has a sandbox
 * but no process can be made, no image is decoded, and the message has the reason. Open the decoder
 * before the program starts threads and allocates large data. */
typedef struct photo_decoder photo_decoder;

/* The command decodes files of other formats, which are recognised by their first bytes: HEIC,
 * WebP, AVIF, TIFF. The command is split into words as by a shell, but no shell runs it. %i stands
 * for the photo's file; without %i, the command gets the photo on standard input. %o stands for the
 * picture to write; without %o, the command writes to standard output. %% stands for %. The name of
 * %o ends in .png, but the file may be a PNG, JPEG or PPM. This picture is decoded like any other
 * photo, but its EXIF orientation is ignored, because the command must turn the picture upright.
 *
 * The command runs as this user. rlimits bound the memory and CPU time of each process and the size
 * of each file. After a minute the command is killed, with all processes that it has started. On
 * Linux, unless no_sandbox is set, the command has no sockets, hence no network, and cannot leave
 * its process group. The command can read and write all files of this user. */

/* Opens a decoder. On failure returns NULL, with the reason in the report. If there is no sandbox
 * on Linux, a line on stderr gives the reason. */
photo_decoder *photo_decoder_open(const photo_options *options, const char *program,
                                  int num_threads, report *r);
void photo_decoder_close(photo_decoder *decoder); /* NULL is allowed */

/* Rows of a program's options (cli/options.h) for decoding. */
#define PHOTO_OPTIONS(photos)                                                                      \
    { 0,        "no-exif",          NULL, "ignore the EXIF orientation, as timm does",             \
      CLI_FLAG, &(photos)->no_exif, 0,    0 },                                                     \
        { 0,       "max-pixels",                                                                   \
          "N",     "read images of up to N million pixels (default 134)",                          \
          CLI_INT, &(photos)->max_megapixels,                                                      \
          1,       500 },                                                                          \
        PHOTO_DECODING_OPTIONS(photos)
/* The option of programs whose results do not change with small differences of brightness. */
#define PHOTO_EXACT_OPTION(photos)                                                                 \
    {                                                                                              \
        0, "exact", NULL,                                                                          \
            "decode JPEGs at full size; otherwise, a JPEG more than twice\n"                       \
            "as large as the model's input is decoded at 1/2, 1/4 or 1/8",                         \
            CLI_FLAG, &(photos)->exact, 0, 0                                                       \
    }
#define PHOTO_DECODING_OPTIONS(photos)                                                             \
    { 0,                                                                                           \
      "decoder",                                                                                   \
      "COMMAND",                                                                                   \
      "converts HEIC, WebP, AVIF or TIFF, from %i or standard input, to an\n"                      \
      "upright PNG, JPEG or PPM, in %o or standard output, such as\n"                              \
      "'heif-convert %i %o' (default: $VIT_DECODER)",                                              \
      CLI_TEXT,                                                                                    \
      &(photos)->command,                                                                          \
      0,                                                                                           \
      0 },                                                                                         \
    {                                                                                              \
        0, "no-sandbox", NULL, "decode images in this process, not in confined ones (Linux)",      \
            CLI_FLAG, &(photos)->no_sandbox, 0, 0                                                  \
    }

/* Returns the largest size of an image file in bytes; larger files are refused. */
size_t photos_max_bytes(const photo_options *options);

/* Names the decoder of JPEGs, for --version: "libjpeg-turbo 2.1.5" or "stb_image 2.27". */
const char *photos_library(void);
/* Describes how photos are decoded, for records and --json: "libjpeg-turbo 2.1.5, reduced" (or
 * "exact"), or "stb_image 2.27". If there is a command, ", others by 'heif-convert %i %o'"
 * follows. */
enum { PHOTOS_MAX_COMMAND = 200, PHOTOS_DECODING_SIZE = 64 + PHOTOS_MAX_COMMAND };
const char *photos_decoding(const photo_options *options, char text[PHOTOS_DECODING_SIZE]);

/* Decodes an image file, on any thread. "-" is standard input, which must hold one image, not a
 * stream of frames. Bytes in memory are called `name` in messages. Free the image with
 * photos_free_image; on failure it is empty. Ignored damage is printed. */
bool photos_decode(const char *name, photo_decoder *decoder, vit_image *image, report *r);
bool photos_decode_bytes(const char *name, const void *data, size_t size, photo_decoder *decoder,
                         vit_image *image, report *r);
void photos_free_image(vit_image *image);

/* Preprocesses an image for a model; `input` is [in_chans, img_height, img_width]. */
bool photos_prepare(const vit_model *model, const vit_image *image, float *input, report *r);

/* Reads the bytes of an image file for the decoder; data is malloc'ed. "-" is standard input. */
bool photos_bytes(const char *name, const photo_decoder *decoder, void **data, size_t *size,
                  report *r);

/* Decodes and preprocesses in one step. This is faster, because only the input leaves the sandbox.
 * Also, much larger photos are decoded at a fraction of their size, unless the options are `exact`.
 * `data` has the bytes of the file; if `data` is NULL, the file is read. If the decoder ignored
 * damage, r->text describes it, and r->failed is false. */
bool photos_input(const char *name, const void *data, size_t size, photo_decoder *decoder,
                  const vit_model *model, float *input, report *r);

/* Prepares image i of the list for the model, or only decodes it, if image is not NULL; the caller
 * then frees the image. An unreadable image moves to the skipped images, and the next image takes
 * its place. If no image would be left, the call fails. Returns false after the last image, and
 * after a failure, with a message in *r. */
bool photos_read(const vit_model *model, photo_decoder *decoder, photo_list *list, int i,
                 float *input, vit_image *image, report *r);

#endif
