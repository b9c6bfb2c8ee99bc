/* compare_npy.c - prints, for the shell tests, the distance between two arrays of float32.
 *
 *     compare_npy OURS.npy THEIRS.npy TOLERANCE
 *
 * Prints the largest difference, relative to the largest value of THEIRS. Exit status: 0 on
 * success, 1 if the difference is above TOLERANCE or the sizes differ, 2 if an array cannot be
 * read.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZE = 1 << 20 };

/* Reads the values of an .npy file of version 1. *count receives their number. */
static float *read_values(const char *path, size_t *count) {
    static unsigned char bytes[MAX_SIZE];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0, start;
    float *values;
    if (file) fclose(file);
    if (size < 10 || memcmp(bytes, "\x93NUMPY\x01", 7) != 0) return NULL;
    start = 10 + bytes[8] + 256u * bytes[9];
    if (start > size || !strstr((char *)bytes + 10, "<f4")) return NULL;
    *count = (size - start) / sizeof *values;
    values = malloc(size);
    if (values) memcpy(values, bytes + start, *count * sizeof *values);
    return values;
}

int main(int argc, char **argv) {
    size_t counts[2] = { 0, 0 }, i;
    float *ours = argc == 4 ? read_values(argv[1], &counts[0]) : NULL;
    float *theirs = argc == 4 ? read_values(argv[2], &counts[1]) : NULL;
    double most = 0, largest = 0;
    int status = 2;
    if (ours && theirs) {
        for (i = 0; i < counts[0] && i < counts[1]; i++) {
            const double difference = fabs((double)ours[i] - (double)theirs[i]);
            /* This condition is also true if the difference is NaN. */
            if (!(difference <= most)) most = difference;
            if (fabs((double)theirs[i]) > largest) largest = fabs((double)theirs[i]);
        }
        most /= largest;
        status = counts[0] != counts[1] || !(most <= atof(argv[3]));
        printf("%.2g\n", most);
    }
    free(ours);
    free(theirs);
    return status;
}
