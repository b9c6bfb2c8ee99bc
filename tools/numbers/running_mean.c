#include "numbers/running_mean.h"

#include <stdlib.h>
#include <string.h>

bool running_mean_open(running_mean *m, int length, int size)
{
    m->length = length;
    m->size = size;
    m->added = 0;
    m->last = malloc((size_t)length * (size_t)size * sizeof *m->last);
    return m->last != NULL;
}

/* Summed up anew each time: a sum that is kept would gather rounding errors. */
void running_mean_add(running_mean *m, float *values)
{
    const size_t size = (size_t)m->size;
    size_t count, i, k;
    memcpy(m->last + m->added++ % (uint64_t)m->length * size, values, size * sizeof *values);
    count = m->added < (uint64_t)m->length ? (size_t)m->added : (size_t)m->length;
    for (k = 0; k < size; k++) {
        double sum = 0;
        for (i = 0; i < count; i++) sum += (double)m->last[i * size + k];
        values[k] = (float)(sum / (double)count);
    }
}

void running_mean_close(running_mean *m)
{
    free(m->last);
    memset(m, 0, sizeof *m);
}
