/* embed_shards.h - computes the embeddings of the photos in shards. A shard is a tar archive of
 * photos. Several tasks, which are runs of vit-embed, may share the shards; each task embeds its
 * part of them, one shard after the other. */
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
    photo_list files; /* paths of the shards; "-" is standard input */
    /* [files.count]: the digits at the end of each file's name, before ".tar"; if there are no
     * digits, the name without ".tar"; "0" for standard input without a name */
    char **numbers;
} shard_list;

enum { SHARD_LIST_MAX = 10 * 1000 * 1000 };

/* Lists the shards of operands. An operand is a file, a text with ranges as in a shell
 * ("{0..3}/{00..99}.tar"), or a folder, which stands for its files whose names end in .tar, sorted.
 * Each line of the files in `lists` is an operand. `name` is the name that standard input gets in
 * outputs; NULL if it has none. On failure there is nothing to free. */
bool shard_list_open(shard_list *list, const text_list *operands, const text_list *lists,
                     const char *name, report *r);
void shard_list_close(shard_list *list);

/* Returns the name of a shard in records and metadata: its file name without folders. For standard
 * input, returns `name`, or "-" if `name` is NULL. */
const char *shard_name(const char *file, const char *name);

/* === One task's part === */

/* Each task embeds a part of all shards. The part is given as "3/8", or by environment variables
 * that the launcher of the tasks sets. */

typedef struct shard_part {
    long index, count; /* the part is every count-th shard, beginning with shard `index` (from 0) */
} shard_part;

/* Chooses the part of a task. `text` is "I/N", with I from 0 to N - 1; "auto"; or NULL for all
 * shards. `parts` is the number of jobs in a job array; 0 if it is not given. "auto" tries, in this
 * order:
 *
 *     OMPI_COMM_WORLD_RANK, _SIZE         mpirun of Open MPI
 *     PMI_RANK, PMI_SIZE                  other MPIs
 *     SLURM_PROCID, SLURM_STEP_NUM_TASKS a task of srun, if SLURM_STEP_ID is set: a lone batch
 *                                         script has a SLURM_PROCID too
 *
 * If `parts` is given, the number of the job in its array is used too. This number is
 * SLURM_ARRAY_TASK_ID (from 0), or GNU parallel's PARALLEL_SEQ (from 1). If each job of an array
 * has several tasks, each task has its own part. */
bool shard_part_choose(shard_part *part, const char *text, int parts, report *r);

/* === Photos of a shard === */

/* A shard_source reads an archive from beginning to end. It gives one photo after the other, and
 * keeps their metadata until shard_source_take returns it. */

struct shard_queued;

typedef struct shard_source {
    samples samples;
    bool failed; /* true if reading failed because the archive is damaged or unreadable */
    FILE *file;  /* private, like the members below */
    const char *name;
    /* a queue of the samples whose photos were given, but not yet taken by shard_source_take */
    struct shard_queued *first, *last;
} shard_source;

/* Opens an archive. `file` is a path, or "-" for standard input. `name` is the name of the shard,
 * with which the names of its photos begin. `max_bytes` limits the total size of all images of a
 * sample. The struct is large: do not put it on the stack. Close the source even after a
 * failure. */
bool shard_source_open(shard_source *s, const char *file, const char *name, size_t max_bytes,
                       report *r);
void shard_source_close(shard_source *s);

photo_source shard_source_photos(shard_source *s);
/* Returns the sample of the first photo whose sample was not yet taken, without the bytes of the
 * photo. The caller frees the sample. */
sample shard_source_take(shard_source *s);

/* === Embedding === */

typedef struct shard_task {
    const char *program;      /* name of the program, which begins messages on stderr */
    const char *folder;       /* folder for the output files */
    const char *name;         /* name of the shard on standard input; NULL if not given */
    const shard_list *shards; /* the shards of all tasks */
    shard_part part;
    shard_recipe recipe;
    int num_threads, batch; /* as in infer_settings */
    vit_isa isa;
} shard_task;

typedef struct shard_totals {
    /* number of shards in the task's part; number of those that were complete before this run */
    uint64_t shards, complete;
    uint64_t failed;             /* number of shards that failed; messages on stderr name them */
    uint64_t images, unreadable; /* numbers of images in this run */
    double seconds;
} shard_totals;

/* Embeds the shards of the part. A damaged or unreadable shard is reported, and the run continues
 * with the next shard. Returns false if all later shards would fail too, for example because the
 * disk is full, the model's file has changed, or the folder has the output of another model. */
bool shard_task_run(const shard_task *task, shard_totals *totals, report *r);

/* Prints the totals as a line on stderr or, if `json` is true, as a JSON object on stdout. */
void shard_totals_print(const shard_task *task, const shard_totals *totals, bool json);

/* === All tasks === */

/* shard_collect combines the results of all tasks: it finds complete shards, and adds up totals. */

typedef struct shard_collected {
    uint64_t complete, missing, damaged; /* numbers of shards */
    uint64_t unrecorded;                 /* number of files of vectors that have no record */
    /* number of temporary files of tasks that were killed or still run */
    uint64_t unfinished;
    int64_t images, unreadable, bytes;
    double seconds;   /* sum of the times of all shards */
    char recipe[256]; /* the common recipe of all shards */
} shard_collected;

/* Verifies the shards and adds up the results. Prints a line on stderr for each shard that is
 * missing, damaged, or made with another recipe than the first shard, and for each gap. `shards`
 * lists the expected shards. If it is empty, every shard with a record in the folder is verified,
 * and gaps between their numbers count as missing. Returns false if the folder cannot be read or,
 * without expected shards, has no records. */
bool shard_collect(const char *program, const char *folder, const shard_list *shards,
                   shard_collected *all, report *r);
bool shard_all_there(const shard_collected *all);

/* Prints the results as a line or, if `json` is true, as a JSON object. Temporary files are
 * reported on stderr. */
void shard_collected_print(const char *program, const char *folder, const shard_collected *all,
                           bool json);

#endif
