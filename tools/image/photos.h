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
    /* number of unreadable images, whose paths are the last of `paths`; `count` excludes them */
    int skipped;
    size_t capacity; /* private */
} photo_list;

/* Finds the images that the operands name. An operand is a file, whatever it contains, or a folder,
 * which stands for all images in it and in its subfolders. Images in folders are recognised by
 * their suffixes and sorted by path; hidden files are left out. Images of formats that cannot be
 * decoded are included, because the program must report them. If there are more than `max` images,
 * keeps `max` of them, evenly spaced, so that each folder keeps its share. A folder without images
 * is an error. */
bool photos_find(photo_list *list, const text_list *operands, int max, report *r);
void photos_free(photo_list *list);

/* Lists the names of the subfolders of a folder, sorted. Hidden subfolders are left out. The list
 * may be empty. */
bool photos_subfolders(const char *folder, photo_list *names, report *r);

/* Lists the names of the files and subfolders in a folder, sorted. Hidden files and subfolders are
 * left out. The list may be empty. */
bool photos_names(const char *folder, photo_list *names, report *r);

/* True if a file name has the suffix of an image, such as ".jpg" or ".PNG". */
bool photos_is_name(const char *name);

/* True if the path is a folder. If standard input is closed, returns false for a path that refers
 * to standard input, such as /dev/stdin. */
bool photos_is_folder(const char *path);

/* The next 3 functions append to a list; zero the list before the first call. photos_add appends
 * the path of a file unchanged, or the paths of all images in a folder, which may have none.
 * photos_append appends a name without reading anything. */
bool photos_add(photo_list *list, const char *operand, report *r);
/* Works like photos_add, but fails if no image is found. */
bool photos_add_some(photo_list *list, const char *operand, report *r);
bool photos_append(photo_list *list, const char *name, report *r);

/* Options for decoding image files. If all members are zero, files are decoded in confined
 * processes and turned upright, and an image may have up to 134 million pixels. */
typedef struct photo_options {
    bool no_exif;    /* ignore the EXIF orientation, like timm and Pillow */
    bool no_sandbox; /* decode in this process, without protection from malicious files */
    /* limit of an image's pixels in millions, 1 to 500; 0 is the default, 134 */
    int max_megapixels;
    /* decode every JPEG at full size, even if it is much larger than the model's input */
    bool exact;
    /* command for other formats, described below; if NULL, the value of $VIT_DECODER */
    const char *command;
} photo_options;

/* Decodes image files for all programs: in tools/, only photos.c includes image_file.h. A decoder
 * has a confined process (sandbox.h) for each of num_threads threads (0: one thread per core). It
 * has none if no_sandbox is set, or if the system has no sandbox. If the system has a sandbox but
 * no confined process can be started, no image is decoded, and the message gives the reason. Open
 * the decoder before the program starts threads or allocates large data. */
typedef struct photo_decoder photo_decoder;

/* photo_options.command decodes files of all formats that photos.c does not recognise by the first
 * bytes, such as HEIC, WebP, AVIF and TIFF. The command is split into words as by a shell, but no
 * shell runs it. %i stands for the photo's file; without %i, the command gets the photo on standard
 * input. %o stands for the picture to write; without %o, the command writes to standard output. %%
 * stands for %. The name of %o ends in .png, but the file may be a PNG, JPEG or PPM. The picture is
 * decoded like any photo, but its EXIF orientation is ignored, because the command must turn the
 * picture upright.
 *
 * The command runs as the user of the program. rlimits bound the memory and CPU time of each
 * process and the size of each file. After a minute the command is killed, with all processes that
 * it has started. On Linux, unless no_sandbox is set, the command cannot open sockets (so it has no
 * network) or leave its process group. It can read and write all the user's files. */

/* Opens a decoder. Returns NULL on failure, with the reason in the report. If Linux offers no
 * sandbox, the function prints a line on stderr with the reason, and the decoder works without a
 * sandbox. `program` begins messages on stderr. */
photo_decoder *photo_decoder_open(const photo_options *options, const char *program,
                                  int num_threads, report *r);
void photo_decoder_close(photo_decoder *decoder); /* NULL is allowed */

/* The rows of a program's options (cli/options.h) that concern decoding. */
#define PHOTO_OPTIONS(photos)                                                                      \
    { 0,        "no-exif",          NULL, "ignore the EXIF orientation, as timm does",             \
      CLI_FLAG, &(photos)->no_exif, 0,    0 },                                                     \
        { 0,       "max-pixels",                                                                   \
          "N",     "read images of up to N million pixels (default 134)",                          \
          CLI_INT, &(photos)->max_megapixels,                                                      \
          1,       500 },                                                                          \
        PHOTO_DECODING_OPTIONS(photos)
/* The row of --exact, for programs whose results hardly depend on small differences of
 * brightness. */
#define PHOTO_EXACT_OPTION(photos)                                                                 \
    {                                                                                              \
        0, "exact", NULL,                                                                          \
            "decode JPEGs at full size; by default, a JPEG more than twice\n"                      \
            "as large as the model's input is decoded at 1/2, 1/4 or 1/8",                         \
            CLI_FLAG, &(photos)->exact, 0, 0                                                       \
    }
#define PHOTO_DECODING_OPTIONS(photos)                                                             \
    { 0,                                                                                           \
      "decoder",                                                                                   \
      "COMMAND",                                                                                   \
      "command that reads HEIC, WebP, AVIF or TIFF from %i or standard\n"                          \
      "input, and writes an upright PNG, JPEG or PPM to %o or standard\n"                          \
      "output; such as 'heif-convert %i %o' (default: $VIT_DECODER)",                              \
      CLI_TEXT,                                                                                    \
      &(photos)->command,                                                                          \
      0,                                                                                           \
      0 },                                                                                         \
    {                                                                                              \
        0, "no-sandbox", NULL, "decode images in this process, not in confined processes (Linux)", \
            CLI_FLAG, &(photos)->no_sandbox, 0, 0                                                  \
    }

/* Returns the largest size of an image file in bytes; larger files are refused. */
size_t photos_max_bytes(const photo_options *options);

/* Returns the name of the decoder of JPEGs, for --version: "libjpeg-turbo 2.1.5" or "stb_image
 * 2.27". */
const char *photos_library(void);
/* Describes how photos are decoded, for records and --json: "libjpeg-turbo 2.1.5, reduced" (or
 * "exact"), or "stb_image 2.27". With a command for other formats, the text ends with that command:
 * "stb_image 2.27, others by 'heif-convert %i %o'". */
enum { PHOTOS_MAX_COMMAND = 200, PHOTOS_DECODING_SIZE = 64 + PHOTOS_MAX_COMMAND };
const char *photos_decoding(const photo_options *options, char text[PHOTOS_DECODING_SIZE]);

/* photos_decode decodes a file, and photos_decode_bytes the bytes of a file. Any thread may call
 * them. The file "-" is standard input, which must contain one image and not a stream of frames.
 * For bytes in memory, messages contain `name` in place of the path. Free the image with
 * photos_free_image; on failure the image is empty. If the decoder ignores damage in the file, a
 * message is printed on stderr. */
bool photos_decode(const char *name, photo_decoder *decoder, vit_image *image, report *r);
bool photos_decode_bytes(const char *name, const void *data, size_t size, photo_decoder *decoder,
                         vit_image *image, report *r);
void photos_free_image(vit_image *image);

/* Preprocesses a decoded image for a model. `input` [in_chans, img_height, img_width] receives the
 * result. */
bool photos_prepare(const vit_model *model, const vit_image *image, float *input, report *r);

/* Reads the bytes of an image file. *data is malloc'ed, and the caller frees it. The file "-" is
 * standard input. */
bool photos_bytes(const char *name, const photo_decoder *decoder, void **data, size_t *size,
                  report *r);

/* Decodes and preprocesses an image file in one step. This is faster than two steps, because the
 * confined process returns only the model's input. In addition, a JPEG much larger than the input
 * is decoded at a fraction of its size, unless photo_options.exact is set. `data` has the bytes of
 * the file; if `data` is NULL, the file `name` is read. If the decoder ignored damage, r->text
 * describes it, and r->failed is false. */
bool photos_input(const char *name, const void *data, size_t size, photo_decoder *decoder,
                  const vit_model *model, float *input, report *r);

/* Reads image i of the list. If `image` is NULL, computes the model's input; otherwise only decodes
 * into *image, which the caller frees. If the image is unreadable, its path moves to the skipped
 * images at the end of the list, and the next image becomes image i. If no image would be left, the
 * call fails. Returns false after the last image, and on failure with a message in *r. */
bool photos_read(const vit_model *model, photo_decoder *decoder, photo_list *list, int i,
                 float *input, vit_image *image, report *r);

#endif
