#define _POSIX_C_SOURCE 200809L /* makes the headers declare strdup */
#include "shards/embed_shards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/text.h"
#include "os/os.h"

/* === Ranges === */

typedef struct range {
    /* The positions of '{' and '}'. */
    const char *open, *close;
    unsigned long first, last;
    /* The number of digits, if numbers have leading zeros; otherwise 0. */
    int width;
} range;

enum { MAX_DIGITS = 9 };

/* Reads a number that ends at `end`. Returns false unless it has 1 to MAX_DIGITS digits and nothing
 * else. */
static bool read_digits(const char *from, const char *end, unsigned long *value) {
    *value = 0;
    if (from == end || end - from > MAX_DIGITS) return false;
    for (; from < end; from++) {
        if (*from < '0' || *from > '9') return false;
        *value = *value * 10 + (unsigned long)(*from - '0');
    }
    return true;
}

/* Parses a range such as "{00000..00999}" at `open`. As in a shell, a leading zero means that all
 * numbers have the same width. */
static bool find_range(const char *open, range *found, report *r) {
    const char *const first = open + 1, *const dots = strstr(first, "..");
    bool padded;
    int sizes[2];
    found->open = open;
    found->close = strchr(first, '}');
    if (!found->close || !dots || dots > found->close || !read_digits(first, dots, &found->first) ||
        !read_digits(dots + 2, found->close, &found->last) || found->first > found->last)
        return report_fail(r, "expected a range such as {00000..00999}, found %.80s", found->open);
    sizes[0] = (int)(dots - first);
    sizes[1] = (int)(found->close - dots) - 2;
    padded = (*first == '0' && sizes[0] > 1) || (dots[2] == '0' && sizes[1] > 1);
    found->width = padded ? sizes[sizes[1] > sizes[0]] : 0;
    return true;
}

static bool too_many(const shard_list *list, report *r) {
    return list->files.count < SHARD_LIST_MAX ||
           report_fail(r, "expected at most %d shards", SHARD_LIST_MAX);
}

static bool add_all(shard_list *list, const char *text, report *r);

static bool add_range(shard_list *list, const char *text, const char *open, report *r) {
    const size_t size = strlen(text) + MAX_DIGITS + 2;
    range from;
    char *one;
    bool good = true;
    if (!find_range(open, &from, r)) return false;
    one = malloc(size);
    if (!one) return report_no_memory(r);
    for (unsigned long i = from.first; good && i <= from.last; i++) {
        snprintf(one, size, "%.*s%0*lu%s", (int)(from.open - text), text, from.width, i,
                 from.close + 1);
        good = add_all(list, one, r);
    }
    free(one);
    return good;
}

/* Adds the shards that an argument of the program names. If a file with this name exists, it is
 * added even if its name looks like a range. */
static bool add_all(shard_list *list, const char *text, report *r) {
    const char *open = strchr(text, '{');
    if (open && !source_exists(text)) return add_range(list, text, open, r);
    return too_many(list, r) && photos_append(&list->files, text, r);
}

/* === Folders, lists === */

static bool ends_in_tar(const char *name) {
    const size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".tar") == 0;
}

static bool add_in_folder(shard_list *list, const char *folder, const char *name, report *r) {
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    bool good;
    if (!path) return report_no_memory(r);
    snprintf(path, size, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    good = too_many(list, r) && photos_append(&list->files, path, r);
    free(path);
    return good;
}

static bool add_folder(shard_list *list, const char *folder, report *r) {
    const int before = list->files.count;
    photo_list names;
    bool good = true;
    if (!photos_names(folder, &names, r)) return false;
    for (int i = 0; good && i < names.count; i++)
        if (ends_in_tar(names.paths[i])) good = add_in_folder(list, folder, names.paths[i], r);
    photos_free(&names);
    return good && (list->files.count > before || report_fail(r, "has no .tar file"));
}

static bool add_operand(shard_list *list, const char *operand, report *r) {
    const bool good = source_is_folder(operand) ? add_folder(list, operand, r)
                                                : add_all(list, operand, r);
    return good || report_file(r, operand);
}

static bool add_list(shard_list *list, const char *file, report *r) {
    const int before = list->files.count;
    unsigned char *data;
    size_t size;
    bool good = true;
    char *line, *end;
    if (!source_read_all(file, (size_t)1 << 30, &data, &size, r)) return false;
    for (line = (char *)data; good && line < (char *)data + size; line = end + 1) {
        end = line + strcspn(line, "\n");
        if (end > line && end[-1] == '\r') end[-1] = '\0';
        *end = '\0';
        if (*line) good = add_operand(list, line, r);
    }
    free(data);
    if (!good || list->files.count > before) return good;
    return report_fail(r, "has no shard") || report_file(r, file);
}

/* === Numbers === */

const char *shard_name(const char *file, const char *name) {
    if (strcmp(file, "-") == 0) return name ? name : "-";
    return paths_file_name(file);
}

/* Returns the number of a shard: "00017" for "part-00017.tar", "birds" for "birds.tar", and "0" for
 * "-". The caller frees it. */
static char *number_of(const char *file, const char *name) {
    const char *text = shard_name(file, name);
    size_t length = strlen(text), first;
    char *number;
    if (strcmp(text, "-") == 0) return strdup("0");
    if (ends_in_tar(text)) length -= 4;
    for (first = length; first > 0 && text[first - 1] >= '0' && text[first - 1] <= '9'; first--)
        continue;
    if (first == length) first = 0;
    number = malloc(length - first + 1);
    if (!number) return NULL;
    memcpy(number, text + first, length - first);
    number[length - first] = '\0';
    return number;
}

/* Compares the numbers of two files. Files with equal numbers keep their order. */
static int compare_numbers(const void *a, const void *b) {
    char **const x = *(char **const *)a, **const y = *(char **const *)b;
    const int order = strcmp(*x, *y);
    return order != 0 ? order : (x > y) - (x < y);
}

/* Fails if two shards have the same number, because they would write the same files. */
static bool check_numbers(const shard_list *list, report *r) {
    const int count = list->files.count;
    char ***sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    bool good = true;
    if (!sorted) return report_no_memory(r);
    for (int i = 0; i < count; i++) sorted[i] = &list->numbers[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_numbers);
    for (int i = 1; good && i < count; i++) {
        if (strcmp(*sorted[i - 1], *sorted[i])) continue;
        good = report_fail(r,
                           "%.300s and %.300s would both write img_emb_%.100s.npy: give them "
                           "different numbers, or separate outputs",
                           list->files.paths[sorted[i - 1] - list->numbers],
                           list->files.paths[sorted[i] - list->numbers], *sorted[i]);
    }
    free(sorted);
    return good;
}

static bool add_numbers(shard_list *list, const char *name, report *r) {
    list->numbers = calloc((size_t)list->files.count + 1, sizeof *list->numbers);
    for (int i = 0; list->numbers && i < list->files.count; i++) {
        list->numbers[i] = number_of(list->files.paths[i], name);
        if (!list->numbers[i]) return report_no_memory(r);
    }
    return list->numbers ? check_numbers(list, r) : report_no_memory(r);
}

bool shard_list_open(shard_list *list, const text_list *operands, const text_list *lists,
                     const char *name, report *r) {
    bool good = true;
    memset(list, 0, sizeof *list);
    for (int i = 0; good && i < operands->count; i++)
        good = add_operand(list, operands->items[i], r);
    for (int i = 0; good && i < lists->count; i++) good = add_list(list, lists->items[i], r);
    good = good && add_numbers(list, name, r);
    if (!good) shard_list_close(list);
    return good;
}

void shard_list_close(shard_list *list) {
    for (int i = 0; list->numbers && i < list->files.count; i++) free(list->numbers[i]);
    free(list->numbers);
    photos_free(&list->files);
    memset(list, 0, sizeof *list);
}

/* === One task's part === */

enum { MOST = 100 * 1000 * 1000 };

static bool read_part(shard_part *part, const char *text, report *r) {
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

/* Reads the rank and the number of tasks from two environment variables. *found becomes true if
 * both exist. One variable alone is ignored, because batch scripts of Slurm have a rank without a
 * number of tasks. */
static bool read_pair(const char *rank_name, const char *size_name, shard_part *part, bool *found,
                      report *r) {
    const char *rank = getenv(rank_name), *size = getenv(size_name);
    *found = rank && size;
    if (!*found) return true;
    if (text_read_int(size, 1, MOST, &part->count) &&
        text_read_int(rank, 0, part->count - 1, &part->index))
        return true;
    return report_fail(r,
                       "--part auto: %s is '%.40s' and %s is '%.40s': expected a rank "
                       "below the size; give --part I/N",
                       rank_name, rank, size_name, size);
}

/* Reads the rank of this process among the tasks that were started together. *found becomes true if
 * there is a rank. */
static bool read_rank(shard_part *part, bool *found, report *r) {
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

/* Reads the number of this job in an array of jobs. `first` is the number of the first job. */
static bool read_job(const char *name, long first, int parts, long *job, report *r) {
    const char *text = getenv(name);
    if (!parts)
        return report_fail(
            r,
            "--part auto: %s is set, but no variable gives the number of all jobs; give "
            "--parts N",
            name);
    if (!text_read_int(text, first, first + parts - 1, job))
        return report_fail(r, "--part auto: %s is '%.40s'; with --parts %d, expected %ld to %ld",
                           name, text, parts, first, first + parts - 1);
    *job -= first;
    return true;
}

static bool read_engine(shard_part *part, int parts, report *r) {
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
        return report_fail(r,
                           "--parts is for an array of jobs, but neither SLURM_ARRAY_TASK_ID nor "
                           "PARALLEL_SEQ is set");
    if (!ranked && !slurm && !parallel)
        return report_fail(r, "--part auto: no variable of Open MPI, PMI, srun, a Slurm array or "
                              "GNU parallel is set; give --part I/N");
    part->index += job * part->count;
    if (parts) part->count *= parts;
    return true;
}

bool shard_part_choose(shard_part *part, const char *text, int parts, report *r) {
    part->index = 0;
    part->count = 1;
    if (text && strcmp(text, "auto") == 0) return read_engine(part, parts, r);
    if (parts) return report_fail(r, "--parts needs --part auto");
    return !text || read_part(part, text, r);
}

/* === Photos of a shard === */

struct shard_queued {
    sample of;
    struct shard_queued *next;
};

bool shard_source_open(shard_source *s, const char *file, const char *name, size_t max_bytes,
                       report *r) {
    memset(s, 0, sizeof *s);
    s->name = name;
    s->file = strcmp(file, "-") == 0 ? stdin : os_fopen(file, "rb");
    s->failed = !s->file;
    if (!s->file) return report_fail(r, "cannot be opened: %s", os_error(errno));
    samples_begin(&s->samples, tar_read_file, s->file, max_bytes);
    return true;
}

sample shard_source_take(shard_source *s) {
    struct shard_queued *first = s->first;
    const sample taken = first->of;
    s->first = first->next;
    if (!s->first) s->last = NULL;
    free(first);
    return taken;
}

void shard_source_close(shard_source *s) {
    while (s->first) {
        sample taken = shard_source_take(s);
        sample_free(&taken);
    }
    samples_end(&s->samples);
    if (s->file && s->file != stdin) fclose(s->file);
    s->file = NULL;
}

static bool queue(shard_source *s, sample *one, report *r) {
    struct shard_queued *queued = calloc(1, sizeof *queued);
    if (!queued) return report_no_memory(r);
    queued->of = *one;
    memset(one, 0, sizeof *one);
    if (s->last) s->last->next = queued;
    else s->first = queued;
    s->last = queued;
    return true;
}

/* Sets the name of the photo, such as "part-00017.tar/a/000.jpg". The photo takes over the bytes of
 * the sample, or the reason why it has no bytes. */
static bool fill(const shard_source *s, sample *one, photo *p, report *r) {
    const size_t size = strlen(s->name) + strlen(one->name) + 2;
    p->name = malloc(size);
    if (!p->name) return report_no_memory(r);
    snprintf(p->name, size, "%s/%s", s->name, one->name);
    p->data = one->data;
    p->size = one->size;
    p->refused = one->error;
    one->data = NULL;
    one->error = NULL;
    return true;
}

/* Gives the next photo of the shard. This function implements photo_source.next. */
static bool next_photo(void *user, photo *p, report *r) {
    shard_source *s = user;
    sample one;
    if (samples_next(&s->samples, &one, r)) {
        if (fill(s, &one, p, r) && queue(s, &one, r)) return true;
        sample_free(&one);
        return false;
    }
    /* Without this test, an error of the disk would look like a truncated archive. */
    if (ferror(s->file)) {
        *r = report_make();
        (void)report_fail(r, "cannot be read at byte %llu",
                          (unsigned long long)s->samples.tar.offset);
    }
    s->failed = r->failed && !r->no_memory;
    return false;
}

photo_source shard_source_photos(shard_source *s) {
    photo_source from;
    from.user = s;
    from.count = 0;
    from.next = next_photo;
    return from;
}
