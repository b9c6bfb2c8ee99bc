/* peak.h - how fast this machine can multiply and add: loops that use only registers and the
 * instruction that matrix products of a given tier and type consist of.
 *
 *     const peak_loop *loop = peak_find("avx512", "f32");
 *     double best = peak_measure(loop, &executor, 30);     GFLOP/s of all its threads at once
 *
 * tools/bench owns the peak of this machine, the operations of a model, a model of random weights;
 * it may include base cli convert.
 */
#ifndef PEAK_H
#define PEAK_H

#include <stdint.h>

#define VIT_TOOLS
#include "vit.h"

typedef struct peak_loop {
    const char *name;              /* "vfmadd231ps zmm"                             */
    double operations;             /* of one round: two for each multiply-add       */
    void (*run)(uint64_t rounds);  /* only where the CPU has the instruction        */
} peak_loop;

/* isa and dtype by name, as vit_isa_name and `vit-convert --dtype` have them. Types that are
 * widened to f32 get the loop of f32. Never NULL: plain C in vectors of four if nothing else. */
const peak_loop *peak_find(const char *isa, const char *dtype);

/* Runs the loop on every thread of the executor for that many ms; returns the sum of their
 * GFLOP/s. */
double peak_measure(const peak_loop *loop, const vit_executor *executor, double ms);

#endif
