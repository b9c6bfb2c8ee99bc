/* running_mean.h - the mean of the last few vectors: what a stream shows, without its noise. */
#ifndef RUNNING_MEAN_H
#define RUNNING_MEAN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct running_mean {
    int length, size;   /* of how many vectors, of how many numbers            */
    uint64_t added;     /* vectors so far                                      */
    float *last;        /* [length, size]: vector i at i % length; private     */
} running_mean;

/* False: out of memory, and there is nothing to close. */
bool running_mean_open(running_mean *m, int length, int size);
/* Adds a vector [size], which becomes the mean of the last `length`, or of all while there are not
 * so many; of one it stays as it is. */
void running_mean_add(running_mean *m, float *values);
void running_mean_close(running_mean *m);

#endif
