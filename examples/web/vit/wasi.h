/* wasi.h - declares the pool of wasi.c, which has no threads. vit.h has no pool for WebAssembly.
 * This header is included before each source file of vit-convert and vit-learn.
 */
#ifndef WASI_H
#define WASI_H

/* wasi-libc has the types of pthread.h but not the header, and the host's header must not be used
 * instead. */
#define _PTHREAD_H
#include <sys/types.h>

#include "vit.h"

typedef struct vit_threads vit_threads;
vit_result vit_threads_create(int num_threads, vit_threads **threads, vit_executor *executor);
void vit_threads_destroy(vit_threads *threads);

#endif
