/* embed_shards.h - a task: embeds its part of the shards, one after the other. */
#ifndef EMBED_SHARDS_H
#define EMBED_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "shards/shard_list.h"
#include "shards/shard_writer.h"

typedef struct shard_task {
    const char *program;      /* begins messages on stderr */
    const char *folder;       /* of the output */
    const char *name;         /* name of standard input; NULL for none */
    const shard_list *shards; /* all of them */
    shard_part part;
    shard_recipe recipe;
    int num_threads, batch; /* as in infer_settings */
    vit_isa isa;
} shard_task;

typedef struct shard_totals {
    uint64_t shards, complete;   /* shards of the part; shards already complete */
    uint64_t failed;             /* named on stderr */
    uint64_t images, unreadable; /* now */
    double seconds;
} shard_totals;

/* A shard that is damaged or unreadable is named, and the next one follows. False if the rest would
 * fail too (no room, no memory, a changed model, an output of another model). */
bool shard_task_run(const shard_task *task, shard_totals *totals, report *r);

/* Prints a line on stderr, or an object on stdout. */
void shard_totals_print(const shard_task *task, const shard_totals *totals, bool json);

/* === All tasks === */

/* The combined results of all tasks: which shards are complete, and totals. */

typedef struct shard_collected {
    uint64_t complete, missing, damaged; /* shards */
    uint64_t unrecorded;                 /* vectors without a record */
    uint64_t unfinished;                 /* temporary files of killed tasks */
    int64_t images, unreadable, bytes;
    double seconds;   /* of all tasks */
    char recipe[256]; /* the common recipe of all shards */
} shard_collected;

/* Verifies every shard with a record in the folder and adds them up. Names on stderr the shards
 * that are missing, damaged or of another recipe than the first. `shards` lists the expected ones;
 * if it is empty, gaps between the numbers count as missing. False only if the folder cannot be
 * read. */
bool shard_collect(const char *program, const char *folder, const shard_list *shards,
                   shard_collected *all, report *r);
bool shard_all_there(const shard_collected *all);

/* Prints a line, or an object; leftovers of killed tasks are named on stderr. */
void shard_collected_print(const char *program, const char *folder, const shard_collected *all,
                           bool json);

#endif
