/* shard_writer.h - the three files of a shard (record.h), which appear when all of it is done. */
#ifndef SHARD_WRITER_H
#define SHARD_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#include "cli/output.h"
#include "shards/record.h"
#include "shards/samples.h"

typedef struct shard_writer {
    const shard_recipe *recipe;
    shard_paths paths;
    cli_output metadata, vectors, stats;
    int opened;                        /* of the outputs, in this order */
    int64_t dims[3];
    int ndim;
    size_t each;                       /* floats of a row               */
    sample *unreadable;                /* their lines come at the end   */
    size_t num_unreadable, capacity;
} shard_writer;

/* shard: the archive, which must not be written. On failure nothing is open. */
bool shard_writer_open(shard_writer *w, const shard_recipe *recipe, const char *folder,
                       const char *number, const char *shard, report *r);

/* The next row and its line; top: the best classes, recipe->classes of them or fewer. path is what
 * the metadata call the image. */
bool shard_writer_add(shard_writer *w, const sample *s, const char *path, const float *row,
                      const vit_prediction *top, int num_top, report *r);
/* Instead: takes the sample, which has an error, and path is kept as its name. */
bool shard_writer_add_unreadable(shard_writer *w, sample *s, const char *path, report *r);

/* Writes and checks all, then puts "shape", "vectors" and "metadata" into the record, an object
 * that shard_writer_record has begun and the caller may have added to; renames all. Closed either
 * way. */
bool shard_writer_commit(shard_writer *w, json_writer *record, report *r);
json_writer shard_writer_record(shard_writer *w);
void shard_writer_abandon(shard_writer *w);

#endif
