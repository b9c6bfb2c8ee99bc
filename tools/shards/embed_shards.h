/* embed_shards.h - one task: the shards that are its part, one after the other. */
#ifndef EMBED_SHARDS_H
#define EMBED_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "shards/part.h"
#include "shards/record.h"
#include "shards/shard_list.h"

typedef struct shard_task {
    const char *program;          /* begins what is printed on stderr             */
    const char *folder;           /* of the output                                */
    const char *name;             /* what standard input is called; NULL: nothing */
    const shard_list *shards;     /* all of them                                  */
    shard_part part;
    shard_recipe recipe;
    int num_threads, batch;       /* as infer_settings'                           */
    vit_isa isa;
} shard_task;

typedef struct shard_totals {
    uint64_t shards, complete;    /* of the part; done before                     */
    uint64_t failed;              /* named on stderr                              */
    uint64_t images, unreadable;  /* now                                          */
    double seconds;
} shard_totals;

/* A shard that is damaged or cannot be read is named, and the next one follows. False: the rest
 * would fail as well (no room, no memory, a model that was changed, an output of another model). */
bool shard_task_run(const shard_task *task, shard_totals *totals, report *r);

/* A line on stderr, or an object on stdout. */
void shard_totals_print(const shard_task *task, const shard_totals *totals, bool json);

#endif
