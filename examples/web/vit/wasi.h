/* wasi.h - what the sources of vit-convert use of POSIX and wasi-libc does not declare; included
 * before each of them. wasi.c says what becomes of it.
 */
#ifndef WASI_H
#define WASI_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "vit.h"

/* No signal ever comes. */
typedef struct wasi_no_signals { char none; } sigset_t;
struct sigaction {
    void (*sa_handler)(int);
    sigset_t sa_mask;
    int sa_flags;
};
enum { SA_RESETHAND = 1 };
int sigaction(int number, const struct sigaction *action, struct sigaction *old);
int sigemptyset(sigset_t *set);

/* One process, one folder without links and permissions. */
int dup(int descriptor);
int fchmod(int descriptor, mode_t mode);
char *realpath(const char *restrict path, char *restrict resolved);

/* What is not mapped cannot be given back. */
enum { MADV_DONTNEED = 4 };
int madvise(void *address, size_t size, int advice);

/* A pool without threads: vit.h has none here. */
typedef struct vit_threads vit_threads;
vit_result vit_threads_create(int num_threads, vit_threads **threads, vit_executor *executor);
void vit_threads_destroy(vit_threads *threads);

#endif
