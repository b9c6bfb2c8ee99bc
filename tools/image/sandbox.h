/* sandbox.h - decodes untrusted images in child processes that cannot do anything else.
 *
 *     sandbox *box = sandbox_open(&settings, &r);   NULL if there is none (Linux: reason in r)
 *     ...
 *     sandbox_decode(box, &request, &image, &r)             on any thread
 *     ...
 *     sandbox_close(box);
 *
 * A sandbox exists only on Linux. Each thread that decodes uses a child process, whose only open
 * file is a socket to the parent. seccomp ends the child at any system call, except those for this
 * socket, for non-executable memory, and a few harmless ones, such as exit. rlimits bound the
 * child's memory and time; lower limits that already exist remain. Child and parent exchange bytes
 * and pixels, or a model's input, through memory that only these two processes share. The parent
 * checks everything that the child reports. If a child ends or refuses its image, only that image
 * is lost, and the next image gets a new child. If no child can be made, no image is decoded. Open
 * the sandbox before there are threads, because the malloc of a child may stay locked if another
 * thread held the lock at the fork.
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

/* An image file to decode, and the memory for the result. The caller owns everything to which the
 * pointers point. */
typedef struct sandbox_request {
    const void *data;
    size_t size;
    unsigned flags;
    /* data for the function `work`, which are copied to the child unchanged */
    const void *parameters;
    size_t parameters_size; /* at most SANDBOX_MAX_PARAMETERS */
    /* receives the result, to_size bytes; NULL if the result is the pixels */
    void *to;
    size_t to_size;
    /* [SANDBOX_NOTE_SIZE]: receives a text about damage that the decoder ignored; "" if there is
     * none */
    char *note;
} sandbox_request;

typedef struct sandbox_settings {
    size_t max_input;   /* largest size of an image file in bytes */
    int64_t max_pixels; /* largest number of pixels of an image */
    size_t max_to;      /* largest to_size of a request */
    /* bytes that a child may allocate in addition to the memory it inherits from the parent */
    uint64_t memory;
    int cpu_seconds; /* limit of the CPU time for an image, in seconds */
    int children;    /* expected number of threads that decode; 0 means one for each CPU */
    int seconds;     /* limit of the elapsed time for an image, in seconds */
    /* `work` and `release` run in the child. `work` fills request->to. If request->to is NULL,
     * `work` returns RGB pixels in *image instead, in rows of width * 3 bytes, and `release` frees
     * these pixels. */
    bool (*work)(const sandbox_request *request, vit_image *image, report *r);
    void (*release)(vit_image *image);
    void *(*allocate)(size_t size); /* allocates the memory for the pixels in the parent */
} sandbox_settings;

typedef struct sandbox sandbox;

sandbox *sandbox_open(const sandbox_settings *settings, report *r);
void sandbox_close(sandbox *box); /* NULL is allowed */

/* Decodes an image. If request->to is NULL, *image receives pixels that settings.allocate has
 * allocated, and the caller frees them. If request->to is not NULL, or if decoding fails, *image is
 * empty. If r->no_memory is true, the image is not at fault: no child could be started, or the
 * limits of the child are too low. */
bool sandbox_decode(sandbox *box, const sandbox_request *request, vit_image *image, report *r);

/* Confines the command of --decoder; os_run calls it in the new process (os_command.confine). The
 * command can then open no socket, cannot leave its process group, and cannot trace other
 * processes. Returns false if the system cannot confine the command. Does nothing on systems
 * without a sandbox. */
bool sandbox_confine_command(void);

#endif
