/* sandbox.h - images of strangers are decoded in processes that can do nothing else.
 *
 *     sandbox *box = sandbox_open(&settings, &r);   NULL: this system has none; on Linux, why
 *     ...
 *     sandbox_decode(box, &request, &image, &r)             on any thread
 *     ...
 *     sandbox_close(box);
 *
 * Linux alone has it. Each thread that decodes has a child. It has no open file but a socket to its
 * parent; seccomp leaves it that socket and memory of its own that is not executable, and any other
 * system call is its end; rlimits bound its memory and its time, and lower ones stay. Bytes go in and
 * pixels, or a model's input, come out through memory that the two share and no other child has, and
 * what it says of them is checked. A child that ends, or refuses its image, costs that image, and the next image has a new
 * child. Where no child can be made, no image is decoded. Open it before there are threads: a child
 * that is forked beside them relies on the C library's malloc to be whole in it.
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

/* An image file, and what becomes of it. All pointers are the caller's. */
typedef struct sandbox_request {
    const void *data;
    size_t size;
    unsigned flags;
    const void *parameters; /* of the work, as it is                                        */
    size_t parameters_size; /* at most SANDBOX_MAX_PARAMETERS                               */
    void *to;               /* where to_size bytes go; NULL: pixels are wanted              */
    size_t to_size;
    char *note; /* [SANDBOX_NOTE_SIZE]: damage that was passed over; "": none   */
} sandbox_request;

typedef struct sandbox_settings {
    size_t max_input;   /* bytes of an image file                                        */
    int64_t max_pixels; /* of an image                                                   */
    size_t max_to;      /* the largest to_size                                           */
    uint64_t memory;    /* bytes that a child may ask for beyond those of its parent     */
    int cpu_seconds;    /* for an image                                                  */
    int children;       /* to begin with; 0: one for each CPU                            */
    int seconds;        /* as a clock on the wall has them: for an image                 */
    /* In the child: fills `to`, or gives RGB pixels of width * 3 bytes a row; and frees these. */
    bool (*work)(const sandbox_request *request, vit_image *image, report *r);
    void (*release)(vit_image *image);
    void *(*allocate)(size_t size); /* the memory of the pixels in the parent               */
} sandbox_settings;

typedef struct sandbox sandbox;

sandbox *sandbox_open(const sandbox_settings *settings, report *r);
void sandbox_close(sandbox *box); /* NULL is allowed */

/* The pixels are to be freed as what settings.allocate returns; without them, image stays empty. On
 * failure image is empty, and r->no_memory says that the photo is not at fault: this process has no
 * child for it, or too low limits. */
bool sandbox_decode(sandbox *box, const sandbox_request *request, vit_image *image, report *r);

/* For the command that the user names (os_command.confine): no socket, no way out of its process
 * group, nothing of other processes. False: the system cannot; one without a sandbox does nothing. */
bool sandbox_confine_command(void);

#endif
