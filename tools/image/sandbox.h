/* sandbox.h - decodes untrusted images in processes that can do nothing else.
 *
 *     sandbox *box = sandbox_open(&settings, &r);   NULL if this system has none; on Linux, r has
                                                     the reason
 *     ...
 *     sandbox_decode(box, &request, &image, &r)             on any thread
 *     ...
 *     sandbox_close(box);
 *
 * A sandbox exists only on Linux. Each thread that decodes has a child process, whose only open
 * file is a socket to the parent. seccomp allows the child to use this socket and the child's own
 * non-executable memory. Any other system call ends the child. rlimits bound the child's memory and
 * time; existing limits that are lower stay. Child and parent exchange bytes and pixels, or a
 * model's input, through memory that only these two processes share. The parent checks everything
 * that the child reports. If a child ends or refuses its image, only that image is lost, and the
 * next image gets a new child. If no child can be made, no image is decoded. Open the sandbox
 * before there are threads, because a child that is forked next to threads depends on an intact
 * malloc.
 */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

enum { SANDBOX_MAX_PARAMETERS = 2048, SANDBOX_NOTE_SIZE = 200 };

/* An image file, and the place of its result. All pointers are the caller's. */
typedef struct sandbox_request {
    const void *data;
    size_t size;
    unsigned flags;
    const void *parameters; /* parameters of the work, passed unchanged */
    size_t parameters_size; /* at most SANDBOX_MAX_PARAMETERS */
    void *to;               /* receives to_size bytes; NULL requests pixels */
    size_t to_size;
    char *note; /* [SANDBOX_NOTE_SIZE]: ignored damage; "" for none */
} sandbox_request;

typedef struct sandbox_settings {
    size_t max_input;   /* largest size of an image file in bytes */
    int64_t max_pixels; /* largest number of pixels of an image */
    size_t max_to;      /* the largest to_size */
    uint64_t memory;    /* bytes that a child may allocate beyond the parent's */
    int cpu_seconds;    /* CPU time limit for an image */
    int children;       /* expected number of threads; 0: one for each CPU */
    int seconds;        /* wall-clock limit for an image */
    /* Both functions run in the child. `work` fills `to`, or returns RGB pixels with rows of width
     * * 3 bytes, which the second function frees. */
    bool (*work)(const sandbox_request *request, vit_image *image, report *r);
    void (*release)(vit_image *image);
    void *(*allocate)(size_t size); /* allocates the memory of the pixels in the parent */
} sandbox_settings;

typedef struct sandbox sandbox;

sandbox *sandbox_open(const sandbox_settings *settings, report *r);
void sandbox_close(sandbox *box); /* NULL is allowed */

/* Decodes an image. The caller frees the pixels like any memory of settings.allocate. If decoding
 * fails, or if the request is not for pixels, *image is empty. r->no_memory means that the photo is
 * not at fault: no child could be started, or the limits of the child are too low. */
bool sandbox_decode(sandbox *box, const sandbox_request *request, vit_image *image, report *r);

/* Confines the user's command (os_command.confine): the command gets no socket, cannot leave its
 * process group and cannot access other processes. Returns false if the system cannot confine it.
 * Does nothing on systems without a sandbox. */
bool sandbox_confine_command(void);

#endif
