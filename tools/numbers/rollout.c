#include "numbers/rollout.h"

#include <stddef.h>
#include <string.h>

void rollout_begin(double *shares, int num_tokens, int from)
{
    for (int i = 0; i < num_tokens; i++)
        shares[i] = from < 0 ? 1.0 / num_tokens : i == from ? 1.0 : 0.0;
}

/* Row `query` of the mean of the heads, plus the identity; returns its sum. */
static double mean_row(const float *maps, int num_heads, int num_tokens, int query, double *row)
{
    const size_t n = (size_t)num_tokens;
    double sum = 0;
    memset(row, 0, n * sizeof *row);
    for (int h = 0; h < num_heads; h++) {
        const float *map = maps + ((size_t)h * n + (size_t)query) * n;
        for (size_t i = 0; i < n; i++) row[i] += (double)map[i] / num_heads;
    }
    row[query] += 1;
    for (size_t i = 0; i < n; i++) sum += row[i];
    return sum;
}

void rollout_block(double *shares, const float *maps, int num_heads, int num_tokens,
                   double *scratch)
{
    double *next = scratch, *row = scratch + num_tokens;
    memset(next, 0, (size_t)num_tokens * sizeof *next);
    for (int query = 0; query < num_tokens; query++) {
        double factor;
        if (shares[query] == 0) continue;
        factor = shares[query] / mean_row(maps, num_heads, num_tokens, query, row);
        for (int i = 0; i < num_tokens; i++) next[i] += factor * row[i];
    }
    memcpy(shares, next, (size_t)num_tokens * sizeof *next);
}

void rollout_head(double *shares, const float *map, int num_tokens, double *scratch)
{
    memset(scratch, 0, (size_t)num_tokens * sizeof *scratch);
    for (int query = 0; query < num_tokens; query++, map += num_tokens)
        for (int i = 0; i < num_tokens; i++) scratch[i] += shares[query] * (double)map[i];
    memcpy(shares, scratch, (size_t)num_tokens * sizeof *scratch);
}
