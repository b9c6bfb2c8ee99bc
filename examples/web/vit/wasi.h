/* wasi.h - included before each source of vit-convert: a pool without threads, which vit.h lacks
 * here. wasi.c implements it.
 */
#ifndef WASI_H
#define WASI_H

#include "vit.h"

typedef struct vit_threads vit_threads;
vit_result vit_threads_create(int num_threads, vit_threads **threads, vit_executor *executor);
void vit_threads_destroy(vit_threads *threads);

#endif
