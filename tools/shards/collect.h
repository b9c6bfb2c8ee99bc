/* collect.h - what the tasks have left, as a whole: whether all of it is there, and its sums. */
#ifndef SHARD_COLLECT_H
#define SHARD_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "shards/shard_list.h"

typedef struct shard_collected {
    uint64_t complete, missing, damaged;   /* shards                                        */
    uint64_t unrecorded;                   /* vectors that no record is of                  */
    uint64_t unfinished;                   /* temporary files of tasks that were killed     */
    int64_t images, unreadable, bytes;
    double seconds;                        /* of all tasks                                  */
    char recipe[256];                      /* that of all shards                            */
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
