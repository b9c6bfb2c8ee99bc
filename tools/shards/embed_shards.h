/* embed_shards.h - runs a task that embeds its part of the shards, one after the other. */
#ifndef EMBED_SHARDS_H
#define EMBED_SHARDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"
#include "base/text.h"
#include "image/photo_source.h"
#include "image/photos.h"
#include "shards/shard_writer.h"
#include "shards/tar.h"

/* === The shards named on a command line === */

/* The shards of a command line, and for each shard the number in the names of its outputs. */
typedef struct shard_list {
    photo_list files; /* "-": standard input */
    char **numbers;   /* the digits at the end of the file's name, before its suffix; */
                      /* without digits, the whole name without the suffix */
} shard_list;

enum { SHARD_LIST_MAX = 10 * 1000 * 1000 };

/* Lists the shards of operands. An operand is a file, a text with ranges as in a shell
 * ("{0..3}/{00..99}.tar"), or a folder, which stands for its files that end in .tar, sorted. A list
 * has an operand in each line. `name` is the name of standard input, or NULL. On failure there is
 * nothing to free. */
bool shard_list_open(shard_list *list, const text_list *operands, const text_list *lists,
                     const char *name, report *r);
void shard_list_close(shard_list *list);

/* Returns the name of a shard in records and metadata: its file name, without folders. */
const char *shard_name(const char *file, const char *name);

/* === One task's part === */

/* A task embeds a part of all shards. The part is given as "3/8", or by variables of the
 * launcher. */

typedef struct shard_part {
    long index, count; /* every count-th shard, beginning with shard `index` */
} shard_part;

/* Chooses the part of a task. `text` is "I/N", with I from 0 to N - 1; "auto"; or NULL for all
 * shards. `parts` is the size of an array of jobs, or 0 if not given. "auto" tries, in this order:
 *
 *     OMPI_COMM_WORLD_RANK, _SIZE         mpirun of Open MPI
 *     PMI_RANK, PMI_SIZE                  other MPIs
 *     SLURM_PROCID, SLURM_STEP_NUM_TASKS a task of srun, if SLURM_STEP_ID is set: a lone batch
 *                                         script has a SLURM_PROCID too
 *
 * and, if parts is given, the number of a job in an array: SLURM_ARRAY_TASK_ID (from 0), or GNU
 * parallel's PARALLEL_SEQ (from 1). If each job of an array has several tasks, each task has its
 * own part. */
bool shard_part_choose(shard_part *part, const char *text, int parts, report *r);

/* === Photos of a shard === */

/* A shard_source gives the photos of an archive, with their metadata, while it reads the
 * archive. */

struct shard_queued;

typedef struct shard_source {
    samples samples;
    bool failed; /* true if the archive was at fault */
    FILE *file;  /* private, like the members below */
    const char *name;
    struct shard_queued *first, *last; /* the samples of photos that are in progress */
} shard_source;

/* Opens an archive. `file` is a path, or "-". The names of its photos begin with `name`, the name
 * of the shard. The struct is large: keep it off the stack. Close it even after a failure. */
bool shard_source_open(shard_source *s, const char *file, const char *name, size_t max_bytes,
                       report *r);
void shard_source_close(shard_source *s);

photo_source shard_source_photos(shard_source *s);
/* Returns the sample of the next photo in order, without the photo's bytes. The caller frees the
 * sample. */
sample shard_source_take(shard_source *s);

/* === Embedding === */

typedef struct shard_task {
    const char *program;      /* begins messages on stderr */
    const char *folder;       /* folder of the output */
    const char *name;         /* name of standard input; NULL for none */
    const shard_list *shards; /* the shards of all tasks */
    shard_part part;
    shard_recipe recipe;
    int num_threads, batch; /* as in infer_settings */
    vit_isa isa;
} shard_task;

typedef struct shard_totals {
    uint64_t shards, complete;   /* number of shards in the part; number of complete shards */
    uint64_t failed;             /* number of failed shards, named on stderr */
    uint64_t images, unreadable; /* numbers in this run */
    double seconds;
} shard_totals;

/* Embeds the shards of the part. A damaged or unreadable shard is reported, and the run continues
 * with the next shard. Returns false if all later shards would fail too (no room, no memory, a
 * changed model, an output of another model). */
bool shard_task_run(const shard_task *task, shard_totals *totals, report *r);

/* Prints a line on stderr, or an object on stdout. */
void shard_totals_print(const shard_task *task, const shard_totals *totals, bool json);

/* === All tasks === */

/* shard_collect combines the results of all tasks: it finds complete shards, and adds up totals. */

typedef struct shard_collected {
    uint64_t complete, missing, damaged; /* shards */
    uint64_t unrecorded;                 /* number of files of vectors without a record */
    uint64_t unfinished;                 /* number of temporary files of killed tasks */
    int64_t images, unreadable, bytes;
    double seconds;   /* time of all tasks */
    char recipe[256]; /* the common recipe of all shards */
} shard_collected;

/* Verifies every shard that has a record in the folder, and adds up the results. Lists on stderr
 * the shards that are missing or damaged, or have another recipe than the first. `shards` lists the
 * expected shards. If `shards` is empty, gaps between the numbers count as missing. Returns false
 * only if the folder cannot be read. */
bool shard_collect(const char *program, const char *folder, const shard_list *shards,
                   shard_collected *all, report *r);
bool shard_all_there(const shard_collected *all);

/* Prints a line or an object. Reports leftovers of killed tasks on stderr. */
void shard_collected_print(const char *program, const char *folder, const shard_collected *all,
                           bool json);

#endif
