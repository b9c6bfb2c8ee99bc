#include "shards/part.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { MOST = 100 * 1000 * 1000 };

static bool read_part(shard_part *part, const char *text, report *r)
{
    char first[16];
    const char *slash = strchr(text, '/');
    const size_t length = slash ? (size_t)(slash - text) : sizeof first;
    if (length < sizeof first) {
        memcpy(first, text, length);
        first[length] = '\0';
        if (text_read_int(slash + 1, 1, MOST, &part->count) &&
            text_read_int(first, 0, part->count - 1, &part->index))
            return true;
    }
    return report_fail(r, "--part: expected auto or I/N, with I from 0 to N - 1, found '%.40s'",
                       text);
}

/* Both or neither; *found says which. */
static bool read_pair(const char *rank_name, const char *size_name, shard_part *part, bool *found,
                      report *r)
{
    const char *rank = getenv(rank_name), *size = getenv(size_name);
    *found = rank && size;
    if (!*found) return true;
    if (text_read_int(size, 1, MOST, &part->count) &&
        text_read_int(rank, 0, part->count - 1, &part->index))
        return true;
    return report_fail(r, "--part auto: %s is '%.40s' and %s '%.40s'", rank_name, rank, size_name,
                       size);
}

/* Of the tasks that were started together; *found: there are such. */
static bool read_rank(shard_part *part, bool *found, report *r)
{
    long step;
    part->index = 0;
    part->count = 1;
    if (!read_pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", part, found, r)) return false;
    if (*found) return true;
    if (!read_pair("PMI_RANK", "PMI_SIZE", part, found, r)) return false;
    if (*found || !getenv("SLURM_STEP_ID")) return true;
    if (!text_read_int(getenv("SLURM_STEP_ID"), 0, MOST, &step)) return true;
    return read_pair("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", part, found, r);
}

/* The number of an array's job. */
static bool read_job(const char *name, long first, int parts, long *job, report *r)
{
    const char *text = getenv(name);
    if (!parts)
        return report_fail(r, "--part auto: %s is set, but how many jobs there are in all must be "
                           "said: --parts N", name);
    if (!text_read_int(text, first, first + parts - 1, job))
        return report_fail(r, "--part auto: %s is '%.40s'; with --parts %d, expected %ld to %ld",
                           name, text, parts, first, first + parts - 1);
    *job -= first;
    return true;
}

static bool read_engine(shard_part *part, int parts, report *r)
{
    const bool slurm = getenv("SLURM_ARRAY_TASK_ID") != NULL;
    const bool parallel = getenv("PARALLEL_SEQ") != NULL;
    bool ranked;
    long job = 0;
    if (!read_rank(part, &ranked, r)) return false;
    if (slurm && parallel)
        return report_fail(r, "--part auto: both SLURM_ARRAY_TASK_ID and PARALLEL_SEQ are set; "
                           "give --part I/N");
    if (slurm && !read_job("SLURM_ARRAY_TASK_ID", 0, parts, &job, r)) return false;
    if (parallel && !(ranked && !parts) && !read_job("PARALLEL_SEQ", 1, parts, &job, r))
        return false;
    if (parts && !slurm && !parallel)
        return report_fail(r, "--parts is of an array, but neither SLURM_ARRAY_TASK_ID nor "
                           "PARALLEL_SEQ is set");
    if (!ranked && !slurm && !parallel)
        return report_fail(r, "--part auto: nothing says which part: not Open MPI, PMI, srun, an "
                           "array of Slurm or GNU parallel; give --part I/N");
    part->index += job * part->count;
    if (parts) part->count *= parts;
    return true;
}

bool shard_part_choose(shard_part *part, const char *text, int parts, report *r)
{
    part->index = 0;
    part->count = 1;
    if (text && strcmp(text, "auto") == 0) return read_engine(part, parts, r);
    if (parts) return report_fail(r, "--parts needs --part auto");
    return !text || read_part(part, text, r);
}
