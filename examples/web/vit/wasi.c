/* wasi.c - replaces tools/os/posix.c and the pool of threads. There is one process with one folder,
 * and there are no links, permissions, signals or mapped files.
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

/* === Files === */

char *os_real_path(const char *path) { return strdup(path); }

FILE *os_create(const char *path, const char *like) {
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    (void)like;
    return descriptor < 0 ? NULL : fdopen(descriptor, "wb");
}

size_t os_write_size(void) { return 1 << 16; }

bool os_close_copy(FILE *file) {
    (void)file;
    return true;
}

void os_start(int *argc, char ***argv) { (void)argc, (void)argv; }

void os_before_end(void (*clean)(void)) { (void)clean; }

void os_remove_folder_late(const char *path) { (void)path; }

void os_on_lost(const char *program) { (void)program; }

/* === Memory === */

/* Maps nothing, so that the caller reads the file instead. */
void *os_map(const char *path, size_t *size) {
    (void)path, (void)size;
    return NULL;
}

void os_unmap(void *data, size_t size) { (void)data, (void)size; }

void os_drop_pages(const void *data, size_t size) { (void)data, (void)size; }

/* === This process === */

/* True for standard error if the caller of convert() can show progress bars (see wasi.mjs). */
bool os_is_terminal(FILE *file) { return isatty(fileno(file)) != 0; }

char *os_executable(void) { return NULL; }

long os_process(void) { return 1; }

/* === Threads === */

vit_result vit_threads_create(int num_threads, vit_threads **threads, vit_executor *executor) {
    (void)num_threads;
    *threads = NULL;
    memset(executor, 0, sizeof *executor);
    return VIT_OK;
}

void vit_threads_destroy(vit_threads *threads) { (void)threads; }
