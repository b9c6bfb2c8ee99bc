/* wasi.h - included before each source of vit-convert: a pool without threads, which vit.h lacks
 * here. wasi.c implements it.
 */
#ifndef WASI_H
#define WASI_H

/* wasi-libc has no pthread.h, only its types, and the host's must not take its place. */
#define _PTHREAD_H
#include <sys/types.h>

#include "vit.h"

typedef struct vit_threads vit_threads;
vit_result vit_threads_create(int num_threads, vit_threads **threads, vit_executor *executor);
void vit_threads_destroy(vit_threads *threads);

#endif
