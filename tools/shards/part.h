/* part.h - which shards are one task's, of all: "3/8", or by what started it. */
#ifndef SHARD_PART_H
#define SHARD_PART_H

#include <stdbool.h>

#include "base/report.h"

typedef struct shard_part {
    long index, count;     /* every count-th shard, from index on */
} shard_part;

/* text: "I/N", I from 0 to N - 1; "auto"; or NULL: all. parts: of an array of jobs, 0 if not given.
 * "auto" asks, in this order:
 *
 *     OMPI_COMM_WORLD_RANK, _SIZE         mpirun of Open MPI
 *     PMI_RANK, PMI_SIZE                  other MPIs
 *     SLURM_PROCID, SLURM_STEP_NUM_TASKS  a task of srun, which SLURM_STEP_ID tells: a batch script
 *                                         alone has a SLURM_PROCID as well
 *
 * and, where parts is given, what numbers the jobs of an array: SLURM_ARRAY_TASK_ID (from 0), or
 * GNU parallel's PARALLEL_SEQ (from 1). An array of several tasks each has parts times as many. */
bool shard_part_choose(shard_part *part, const char *text, int parts, report *r);

#endif
