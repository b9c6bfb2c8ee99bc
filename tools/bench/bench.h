/* bench.h - measures the peak speed of this machine, counts the operations of a model, and makes a
 * model to measure. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* === The peak of this machine === */

/* The loops measure how fast this machine multiplies and adds. They use only registers, and the
 * main instruction of the matrix products for one instruction set and one type of weights.
 *
 *     const peak_loop *loop = peak_find("avx512", "f32");
 *     double best = peak_measure(loop, &executor, 30);     GFLOP/s of all its threads at once
 *
 * tools/bench owns the peak of this machine, the operations of a model, a model of random weights;
 * it may include base cli convert.
 */

typedef struct peak_loop {
    const char *name;             /* name of the instruction, such as "vfmadd231ps zmm" */
    double operations;            /* operations of one round, two for each multiply-add */
    void (*run)(uint64_t rounds); /* call it only if the CPU has the instruction */
} peak_loop;

/* Returns the loop for a tier and a type. isa is a name of vit_isa_name, and dtype a name of
 * `vit-convert --dtype`. Types that kernels widen to f32 have the loop of f32. The result is never
 * NULL: the fallback is plain C in vectors of four. */
const peak_loop *peak_find(const char *isa, const char *dtype);

/* Runs the loop on every thread of the executor for `ms`; returns the sum of the threads'
 * GFLOP/s. */
double peak_measure(const peak_loop *loop, const vit_executor *executor, double ms);

/* === The operations of a model === */

/* bench_operations counts the arithmetic operations of a forward pass. */

/* Counts the multiplications and additions of a forward pass for one image, if only the logits (or
 * the embedding) are computed. */
double bench_operations(const vit_config *config);

/* === A model of random weights === */

/* A model of random weights allows a measurement without a checkpoint. Its tensors have the same
 * types as in files of vit-convert. */

bool bench_write_random(FILE *file, const vit_config *config, vit_dtype dtype, report *r);

#endif
