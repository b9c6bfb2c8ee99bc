/* shard_source.h - the photos of an archive as they are read, and what the archive says of each. */
#ifndef SHARD_SOURCE_H
#define SHARD_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"
#include "image/photo_source.h"
#include "shards/samples.h"

struct shard_queued;

typedef struct shard_source {
    samples samples;
    bool failed;                         /* the archive was at fault                  */
    FILE *file;                          /* private, as what follows                  */
    const char *name;
    struct shard_queued *first, *last;   /* of the photos that are under way          */
} shard_source;

/* file: a path, or "-"; name: what the shard is called, which begins each photo's. Large: keep it
 * off the stack. To be closed, also after a failure. */
bool shard_source_open(shard_source *s, const char *file, const char *name, size_t max_bytes,
                       report *r);
void shard_source_close(shard_source *s);

photo_source shard_source_photos(shard_source *s);
/* Of the next photo in order, without its bytes; to be freed. */
sample shard_source_take(shard_source *s);

#endif
