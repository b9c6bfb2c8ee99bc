/* embed_shards.h - one task: the shards that are its part, one after the other. */
#ifndef EMBED_SHARDS_H
#define EMBED_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "shards/shard_list.h"
#include "shards/shard_writer.h"

typedef struct shard_task {
    const char *program;      /* begins what is printed on stderr             */
    const char *folder;       /* of the output                                */
    const char *name;         /* what standard input is called; NULL: nothing */
    const shard_list *shards; /* all of them                                  */
    shard_part part;
    shard_recipe recipe;
    int num_threads, batch; /* as infer_settings'                           */
    vit_isa isa;
} shard_task;

typedef struct shard_totals {
    uint64_t shards, complete;   /* of the part; done before                     */
    uint64_t failed;             /* named on stderr                              */
    uint64_t images, unreadable; /* now                                          */
    double seconds;
} shard_totals;

/* A shard that is damaged or cannot be read is named, and the next one follows. False: the rest
 * would fail as well (no room, no memory, a model that was changed, an output of another model). */
bool shard_task_run(const shard_task *task, shard_totals *totals, report *r);

/* A line on stderr, or an object on stdout. */
void shard_totals_print(const shard_task *task, const shard_totals *totals, bool json);

/* === All tasks === */

/* What the tasks have left, as a whole: whether all of it is there, and its sums. */

typedef struct shard_collected {
    uint64_t complete, missing, damaged; /* shards                                        */
    uint64_t unrecorded;                 /* vectors that no record is of                  */
    uint64_t unfinished;                 /* temporary files of tasks that were killed     */
    int64_t images, unreadable, bytes;
    double seconds;   /* of all tasks                                  */
    char recipe[256]; /* that of all shards                            */
} shard_collected;

/* Verifies every shard that has a record in the folder, names on stderr what is missing, damaged or
 * of another recipe than the first, and adds up the rest. shards: those that are to be there; if it
 * is empty, gaps between the numbers are missing. False only if the folder cannot be read. */
bool shard_collect(const char *program, const char *folder, const shard_list *shards,
                   shard_collected *all, report *r);
bool shard_all_there(const shard_collected *all);

/* A line, or an object; what killed tasks have left is named on stderr. */
void shard_collected_print(const char *program, const char *folder, const shard_collected *all,
                           bool json);

#endif
