/* read_memory.c FILE THREADS RUNS - measures how fast threads can read FILE from memory, which
 * bounds the speed of a search. The threads map the file, share its bytes, and add up the bytes as
 * integers. Prints the milliseconds of each run, for search_speed.py.
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, SUMS = 32 };

typedef struct part {
    const uint64_t *from;
    size_t count;
    uint64_t sum;
} part;

static void *add_up(void *arg) {
    part *p = arg;
    uint64_t sums[SUMS] = { 0 };
    size_t i;
    int k;
    for (i = 0; i + SUMS <= p->count; i += SUMS)
        for (k = 0; k < SUMS; k++) sums[k] += p->from[i + (size_t)k];
    for (k = 0; k < SUMS; k++) p->sum += sums[k];
    return NULL;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
    const int threads = argc == 4 ? atoi(argv[2]) : 0;
    int runs = argc == 4 ? atoi(argv[3]) : 0;
    const int file = threads > 0 && threads <= MOST ? open(argv[1], O_RDONLY) : -1;
    volatile uint64_t sum = 0; /* prevents the compiler from removing the loops */
    struct stat about;
    const uint64_t *words;
    if (file < 0 || fstat(file, &about) != 0) {
        fprintf(stderr, "usage: read_memory FILE THREADS RUNS\n");
        return 2;
    }
    words = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (words == MAP_FAILED) return 1;
    for (; runs > 0; runs--) {
        const size_t each = (size_t)about.st_size / sizeof *words / (size_t)threads;
        const double start = now_ms();
        pthread_t thread[MOST];
        part parts[MOST];
        int i;
        for (i = 0; i < threads; i++) {
            parts[i].from = words + (size_t)i * each;
            parts[i].count = each;
            parts[i].sum = 0;
            if (pthread_create(&thread[i], NULL, add_up, &parts[i]) != 0) return 1;
        }
        for (i = 0; i < threads; i++) {
            pthread_join(thread[i], NULL);
            sum += parts[i].sum;
        }
        printf("%.3f\n", now_ms() - start);
    }
    return 0;
}
