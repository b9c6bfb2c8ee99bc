/* shard_list.h - the shards that a command line names: "part-{00000..00999}.tar", folders. */
#ifndef SHARD_LIST_H
#define SHARD_LIST_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "image/photos.h"

/* The parallel array of a photo_list: what the outputs of a shard are called by. */
typedef struct shard_list {
    photo_list files;      /* "-": standard input                                       */
    char **numbers;        /* the digits that end the file's name, before its suffix;   */
                           /* if there are none, all of it without the suffix           */
} shard_list;

enum { SHARD_LIST_MAX = 10 * 1000 * 1000 };

/* An operand is a file, a range as in a shell, which may be one of several ("{0..3}/{00..99}.tar"),
 * or a folder: all files in it that end in .tar, sorted. A list has an operand in each line. name
 * is what standard input is called, or NULL. On failure there is nothing to free. */
bool shard_list_open(shard_list *list, const text_list *operands, const text_list *lists,
                     const char *name, report *r);
void shard_list_close(shard_list *list);

/* The shard's name in records and metadata: of its file, without folders. */
const char *shard_name(const char *file, const char *name);

#endif
