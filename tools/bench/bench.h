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

/* These loops measure how fast this machine multiplies and adds. Their operands are only in
 * registers. Each loop runs the main instruction of the matrix products for one instruction set and
 * one type of weights.
 *
 *     const peak_loop *loop = peak_find("avx512", "f32");
 *     double best = peak_measure(loop, &executor, 30);     GFLOP/s of all its threads at once
 *
 * tools/bench owns the peak of this machine, the operations of a model, a model of random weights;
 * it may include base cli convert.
 */

typedef struct peak_loop {
    const char *name; /* name of the instruction, such as "vfmadd231ps zmm" */
    /* number of operations of one round; a multiply-add counts as two */
    double operations;
    void (*run)(uint64_t rounds); /* runs the loop; call it only if the CPU has the instruction */
} peak_loop;

/* Returns the loop for an instruction set and a type of weights. isa is a name that vit_isa_name
 * returns, and dtype is a name for `vit-convert --dtype`. For types that the kernels convert to f32
 * before they multiply, this is the loop of f32. The result is never NULL: if there is no other
 * loop, it is a loop in plain C. */
const peak_loop *peak_find(const char *isa, const char *dtype);

/* Runs the loop on every thread of the executor for `ms` milliseconds. Returns the sum of the
 * speeds of all threads in GFLOP/s. */
double peak_measure(const peak_loop *loop, const vit_executor *executor, double ms);

/* === The operations of a model === */

/* bench_operations counts the arithmetic operations of a forward pass. */

/* Returns the number of multiplications and additions in a forward pass for one image. The pass
 * computes only the logits or, if the model has no classes, the embedding. */
double bench_operations(const vit_config *config);

/* === A model of random weights === */

/* A model of random weights allows a measurement without a checkpoint. Each tensor has the type
 * that vit-convert would give it. */

bool bench_write_random(FILE *file, const vit_config *config, vit_dtype dtype, report *r);

#endif
