#define _POSIX_C_SOURCE 200809L

#include "infer/embedding.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "cli/options.h"
#include "os/os.h"

/* === The choice of the vector === */

static const char *const pool_names[EMBEDDING_POOLS] = { "head", "logits", "cls", "avg", "tokens" };

const char *embedding_pool_name(embedding_pool pool) { return pool_names[pool]; }

static bool find_pool(const char *text, embedding_pool *pool, report *r) {
    for (int i = 0; i < EMBEDDING_POOLS; i++) {
        if (strcmp(text, pool_names[i])) continue;
        *pool = (embedding_pool)i;
        return true;
    }
    return report_fail(r, "--pool: expected head, logits, cls, avg or tokens, found '%.40s'", text);
}

bool embedding_choose(embedding_choice *choice, const char *text, int block, const vit_model *model,
                      report *r) {
    const vit_config *config = &model->config;
    choice->block = block + 1;
    choice->pool = block < 0               ? EMBEDDING_HEAD
                   : config->has_cls_token ? EMBEDDING_CLS
                                           : EMBEDDING_AVG;
    if (text && !find_pool(text, &choice->pool, r)) return false;
    if (block >= config->depth)
        return report_fail(r, "--block: the model has blocks 0 to %d, found %d", config->depth - 1,
                           block);
    if (block >= 0 && (choice->pool == EMBEDDING_HEAD || choice->pool == EMBEDDING_LOGITS))
        return report_fail(r,
                           "--pool %s is the model's output; for a block, choose cls, avg or "
                           "tokens",
                           embedding_pool_name(choice->pool));
    if (choice->pool == EMBEDDING_LOGITS && config->num_classes == 0)
        return report_fail(r, "--pool logits: the model has no head; --pool head gives the vector "
                              "that a head would get");
    if (config->crop_mode == VIT_CROP_ASPECT && config->crop_rounding == VIT_ROUND_NEAREST &&
        choice->pool != EMBEDDING_HEAD && choice->pool != EMBEDDING_LOGITS)
        return report_fail(r,
                           "--pool %s: this model gives a photo any number of patches "
                           "(crop_rounding=nearest); limit the number by --max-patches N, or run "
                           "vit-run --tokens on one photo",
                           embedding_pool_name(choice->pool));
    if (choice->pool == EMBEDDING_CLS && !config->has_cls_token)
        return report_fail(r, "--pool cls: the model has no class token; choose avg");
    return true;
}

void embedding_ask(const embedding_choice *choice, infer_settings *settings) {
    settings->outputs |= choice->pool == EMBEDDING_HEAD     ? INFER_EMBEDDING
                         : choice->pool == EMBEDDING_LOGITS ? INFER_LOGITS
                                                            : INFER_TOKENS;
    settings->block = choice->block;
}

int embedding_shape(const embedding_choice *choice, const vit_model *model, int64_t dims[2]) {
    const vit_config *config = &model->config;
    dims[0] = choice->pool == EMBEDDING_HEAD     ? vit_embedding_dim(model)
              : choice->pool == EMBEDDING_LOGITS ? config->num_classes
              : choice->pool == EMBEDDING_TOKENS ? infer_num_tokens(config)
                                                 : config->embed_dim;
    dims[1] = config->embed_dim;
    return choice->pool == EMBEDDING_TOKENS ? 2 : 1;
}

/* Replaces the first token by the mean of the patch tokens. */
static void average(float *tokens, const vit_config *config, int patches) {
    const int dim = config->embed_dim, first = config->num_prefix_tokens;
    for (int d = 0; d < dim; d++) {
        double sum = 0;
        for (int t = first; t < first + patches; t++)
            sum += (double)tokens[(size_t)t * (size_t)dim + (size_t)d];
        tokens[d] = (float)(sum / patches);
    }
}

const float *embedding_of(const embedding_choice *choice, const vit_model *model,
                          infer_result *result) {
    float *x = choice->pool == EMBEDDING_HEAD     ? result->embedding
               : choice->pool == EMBEDDING_LOGITS ? result->logits
                                                  : result->tokens;
    int64_t dims[2];
    const int ndim = embedding_shape(choice, model, dims);
    const int64_t count = ndim == 2 ? dims[0] : 1;
    if (choice->pool == EMBEDDING_AVG)
        average(x, &model->config, result->grid.height * result->grid.width);
    for (int64_t i = 0; choice->normalize && i < count; i++)
        vit_normalize(x + i * dims[ndim - 1], (int)dims[ndim - 1]);
    return x;
}

/* === The model and the options of an index === */

uint64_t embedding_model_hash(const vit_model *model) {
    const uint64_t signature = vit_model_signature(model);
    unsigned char bytes[8];
    vit_hash hash;
    vit_tensor tensor;
    vit_hash_init(&hash);
    for (int b = 0; b < 8; b++) bytes[b] = (unsigned char)(signature >> 8 * b);
    vit_hash_update(&hash, bytes, sizeof bytes);
    for (int i = 0; vit_model_tensor(model, i, &tensor); i++) {
        for (int b = 0; b < 8; b++) bytes[b] = (unsigned char)(tensor.checksum >> 8 * b);
        vit_hash_update(&hash, bytes, sizeof bytes);
    }
    return vit_hash_final(&hash);
}

void embedding_put(json_writer *w, const embedding_choice *choice, const vit_model *model,
                   const char *path) {
    char hash[17], *real = os_real_path(path);
    snprintf(hash, sizeof hash, "%016" PRIx64, embedding_model_hash(model));
    json_put_text(w, "model", real ? real : path);
    json_put_text(w, "model_hash", hash);
    json_put_begin(w, "img_size", '[');
    json_put_integer(w, NULL, model->config.img_height);
    json_put_integer(w, NULL, model->config.img_width);
    json_put_end(w, ']');
    if (model->config.crop_mode == VIT_CROP_ASPECT &&
        model->config.crop_rounding != VIT_ROUND_NEAREST)
        json_put_integer(w, "max_patches",
                         infer_num_tokens(&model->config) - model->config.num_prefix_tokens);
    if (choice->block) json_put_integer(w, "layer", choice->block - 1);
    else json_put_text(w, "layer", NULL);
    json_put_text(w, "pool", embedding_pool_name(choice->pool));
    json_put_bool(w, "normalized", choice->normalize);
    free(real);
}

/* === Writing === */

/* Returns the path with another suffix. With ".txt", both "a.npy" and "a" become "a.txt". The
 * caller frees the path. */
static char *beside(const char *path, const char *suffix) {
    size_t length = strlen(path);
    char *name = malloc(length + strlen(suffix) + 1);
    if (length > 4 && strcmp(path + length - 4, ".npy") == 0) length -= 4;
    if (name) snprintf(name, length + strlen(suffix) + 1, "%.*s%s", (int)length, path, suffix);
    return name;
}

bool embedding_name(embedding_writer *w, const char *path, const char *names, report *r) {
    memset(w, 0, sizeof *w);
    w->path = path;
    w->names_path = names ? strdup(names) : beside(path, ".txt");
    w->json_path = beside(path, ".json");
    w->journal_path = os_kind_of(path) == OS_OTHER ? NULL : beside(path, ".rows");
    if (!w->names_path || !w->json_path) return report_no_memory(r);
    return (names || cli_output_declare(w->names_path, r)) && cli_output_declare(w->json_path, r) &&
           (!w->journal_path || cli_output_declare(w->journal_path, r));
}

bool embedding_create(embedding_writer *w, report *r) {
    cli_output *const outputs[3] = { &w->npy, &w->names, &w->json };
    const char *const paths[3] = { w->path, w->names_path, w->json_path };
    for (; w->opened < 3; w->opened++) {
        if (cli_output_open(outputs[w->opened], paths[w->opened], r)) continue;
        embedding_abandon(w);
        return false;
    }
    return true;
}

static bool write_failed(const cli_output *output, report *r) {
    (void)report_fail(r, "cannot be written: %s", strerror(errno ? errno : EIO));
    return report_file(r, output->name);
}

/* The number of rows, which the header contains, is known only at the end. The function therefore
 * fails if the output is not seekable. */
bool embedding_begin(embedding_writer *w, const embedding_choice *choice, const vit_model *model,
                     report *r) {
    w->ndim = 1 + embedding_shape(choice, model, w->dims + 1);
    w->each = (size_t)w->dims[1] * (size_t)(w->ndim == 3 ? w->dims[2] : 1);
    if (!os_seek(w->npy.file, 0)) {
        (void)report_fail(r, "the output is a pipe, but the number of images at its beginning is "
                             "known only at the end; write to a file");
        return report_file(r, w->npy.name);
    }
    errno = 0;
    return npy_write_header(w->npy.file, w->type, w->dims, w->ndim) || write_failed(&w->npy, r);
}

static void put_name(FILE *file, const char *name) {
    const bool quoted = name[strcspn(name, "\\\n\r")] != '\0';
    if (quoted) putc('\\', file);
    for (; *name; name++) {
        if (*name == '\n') fputs("\\n", file);
        else if (*name == '\r') fputs("\\r", file);
        else if (*name == '\\') fputs("\\\\", file);
        else putc(*name, file);
    }
    putc('\n', file);
}

bool embedding_add(embedding_writer *w, const char *name, const float *row, report *r) {
    errno = 0;
    put_name(w->names.file, name);
    if (ferror(w->names.file)) return write_failed(&w->names, r);
    if (!npy_write_values(w->npy.file, w->type, row, w->each)) return write_failed(&w->npy, r);
    w->dims[0]++;
    return true;
}

void embedding_writer_free(embedding_writer *w) {
    free(w->names_path);
    free(w->json_path);
    free(w->journal_path);
    memset(w, 0, sizeof *w);
}

void embedding_abandon(embedding_writer *w) {
    if (w->opened > 0) cli_output_abandon(&w->npy);
    if (w->opened > 1) cli_output_abandon(&w->names);
    if (w->opened > 2) cli_output_abandon(&w->json);
    w->opened = 0;
}

/* Renames the file of names first and the file of vectors last. A program that waits for the
 * vectors then finds the other files complete. */
bool embedding_commit(embedding_writer *w, report *r) {
    cli_output *const outputs[3] = { &w->names, &w->json, &w->npy };
    bool good;
    errno = 0;
    good = (os_seek(w->npy.file, 0) && npy_write_header(w->npy.file, w->type, w->dims, w->ndim) &&
            fflush(w->npy.file) == 0) ||
           write_failed(&w->npy, r);
    if (!good) {
        embedding_abandon(w);
        return false;
    }
    w->opened = 0;
    return cli_outputs_commit(outputs, 3, r);
}

/* === The journal === */

/* The header of the journal. `each` is the number of floats in a row, and `recipe` lists the
 * options on which the rows depend. */
typedef struct journal_header {
    uint64_t magic, each;
    char recipe[JOURNAL_RECIPE_SIZE];
    /* The hash of all members above. */
    uint64_t hash;
} journal_header;

/* The header of one record. In the file, the values of the vector and the bytes of the name follow
 * the header. */
typedef struct journal_record {
    /* The hash of the position of the record and of all bytes of the record after this member. */
    uint64_t hash;
    journal_stamp stamp;
    uint64_t name_length;
} journal_record;

enum { LONGEST_NAME = 1 << 16, SYNC_MS = 5000 };

static const uint64_t journal_magic = 0x766974206a726e31u;
static const journal_stamp unknown_stamp = { UINT64_MAX, 0, 0 };

journal_stamp journal_stamp_of(const char *name) {
    journal_stamp stamp = unknown_stamp;
    int file;
    if (strcmp(name, "-") == 0 || os_kind_of(name) != OS_FILE || (file = os_open(name)) < 0)
        return stamp;
    if (os_file_size(file, &stamp.size)) stamp.time = os_file_time(file);
    else stamp = unknown_stamp;
    os_close(file);
    return stamp;
}

static bool journal_failed(const embedding_journal *j, const char *what, report *r) {
    (void)report_fail(r, "cannot be %s: %s", what, os_error(errno ? errno : EIO));
    return report_file(r, j->path ? j->path : "a temporary file");
}

static uint64_t hash_header(const journal_header *h) {
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, h, offsetof(journal_header, hash));
    return vit_hash_final(&hash);
}

/* Returns the hash of the record in j->record, which has `size` bytes and lies at position `at` of
 * the file. */
static uint64_t hash_record(const embedding_journal *j, uint64_t at, size_t size) {
    const size_t first = sizeof(uint64_t);
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, &at, sizeof at);
    vit_hash_update(&hash, j->record + first, size - first);
    return vit_hash_final(&hash);
}

static bool record_room(embedding_journal *j, size_t size, report *r) {
    char *grown;
    if (size <= j->record_size) return true;
    grown = realloc(j->record, size);
    if (!grown) return report_no_memory(r);
    j->record = grown;
    j->record_size = size;
    return true;
}

/* Reads the record at position `at` into j->record. Returns the size of the record in bytes, or 0
 * if the record is incomplete or damaged. */
static size_t read_record(embedding_journal *j, uint64_t at, report *r) {
    journal_record head;
    size_t size;
    errno = 0;
    if (!os_seek(j->file, at) || fread(&head, sizeof head, 1, j->file) != 1 ||
        head.name_length > LONGEST_NAME)
        return 0;
    size = sizeof head + (size_t)head.name_length + j->each * sizeof(float);
    if (!record_room(j, size, r)) return 0;
    memcpy(j->record, &head, sizeof head);
    if (fread(j->record + sizeof head, size - sizeof head, 1, j->file) != 1 ||
        hash_record(j, at, size) != head.hash)
        return 0;
    return size;
}

static bool write_header(embedding_journal *j, FILE *file) {
    journal_header h;
    memset(&h, 0, sizeof h);
    h.magic = journal_magic;
    h.each = j->each;
    strcpy(h.recipe, j->recipe);
    h.hash = hash_header(&h);
    return fwrite(&h, sizeof h, 1, file) == 1;
}

static bool begin_journal(embedding_journal *j, report *r) {
    errno = 0;
    j->end = sizeof(journal_header);
    if (os_cut(j->file, 0) && os_seek(j->file, 0) && write_header(j, j->file) &&
        fflush(j->file) == 0 && os_sync(j->file))
        return true;
    return journal_failed(j, "written", r);
}

/* Reports the parts in which two recipes differ, and returns false. A recipe is a text "A, B, ..."
 * of all options on which the vectors depend. */
static bool other_recipe(const embedding_journal *j, const char *found, report *r) {
    const char *mine = j->recipe;
    size_t begin = 0, a = strlen(mine), b = strlen(found);
    for (size_t i = 0; mine[i] && mine[i] == found[i]; i++)
        if (mine[i] == ',') begin = i + 2;
    while (a > begin && b > begin && mine[a - 1] == found[b - 1]) a--, b--;
    a += strcspn(mine + a, ",");
    b += strcspn(found + b, ",");
    (void)report_fail(r,
                      "the file was made with '%.*s', this run uses '%.*s': choose another -o, or "
                      "--overwrite to start over",
                      (int)(b - begin), found + begin, (int)(a - begin), mine + begin);
    return report_file(r, j->path);
}

static bool keep_row(embedding_journal *j, report *r) {
    journal_record head;
    journal_row *row, *grown;
    memcpy(&head, j->record, sizeof head);
    if (head.stamp.size == UINT64_MAX) return true;
    grown = memory_grow(j->rows, sizeof *grown, j->count, &j->capacity);
    if (!grown) return report_no_memory(r);
    j->rows = grown;
    row = &grown[j->count];
    row->name = malloc((size_t)head.name_length + 1);
    if (!row->name) return report_no_memory(r);
    memcpy(row->name, j->record + sizeof head + j->each * sizeof(float), (size_t)head.name_length);
    row->name[head.name_length] = '\0';
    row->stamp = head.stamp;
    row->at = j->end;
    j->count++;
    return true;
}

/* Orders rows by name. If several records have the same name, the latest comes last. */
static int compare_rows(const void *a, const void *b) {
    const journal_row *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static int compare_content(const void *a, const void *b) {
    const journal_stamp *x = &((const journal_row *)a)->stamp;
    const journal_stamp *y = &((const journal_row *)b)->stamp;
    if (x->content != y->content) return x->content < y->content ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size);
}

static bool sort_rows(embedding_journal *j, report *r) {
    const size_t size = j->count * sizeof *j->rows;
    j->by_content = malloc(size + 1);
    if (!j->by_content) return report_no_memory(r);
    if (!j->count) return true;
    qsort(j->rows, j->count, sizeof *j->rows, compare_rows);
    memcpy(j->by_content, j->rows, size);
    qsort(j->by_content, j->count, sizeof *j->by_content, compare_content);
    return true;
}

static bool load_rows(embedding_journal *j, const char *program, report *r) {
    size_t size;
    j->end = sizeof(journal_header);
    while ((size = read_record(j, j->end, r)) > 0) {
        if (!keep_row(j, r)) return false;
        j->end += size;
        j->records++;
    }
    if (r->failed) return false;
    if (os_seek(j->file, j->end) && getc(j->file) != EOF) {
        report_error(program, j->path, "the file is damaged after %llu images; the rest is dropped",
                     (unsigned long long)j->records);
        return os_cut(j->file, j->end) || journal_failed(j, "written", r);
    }
    return !ferror(j->file) || journal_failed(j, "read", r);
}

/* Returns true if the new recipe is `found`, the recipe of the file, with a decoder added. The
 * decoder reads only photos that could not be read before, so both recipes give the same
 * vectors. */
static bool adds_decoder(const embedding_journal *j, const char *found) {
    const size_t length = strlen(found);
    return !strstr(found, ", others by ") && strncmp(j->recipe, found, length) == 0 &&
           strncmp(j->recipe + length, ", others by ", 12) == 0;
}

static bool load_journal(embedding_journal *j, const char *program, report *r) {
    journal_header h;
    const size_t got = os_seek(j->file, 0) ? fread(&h, 1, sizeof h, j->file) : 0;
    if (ferror(j->file)) return journal_failed(j, "read", r);
    /* The file is new, or the process that made it ended before it wrote the header. */
    if (got < sizeof h) return begin_journal(j, r);
    if (h.magic != journal_magic || h.hash != hash_header(&h)) {
        (void)report_fail(r, "the file is not from vit-embed, or its beginning is damaged: choose "
                             "another -o, or --overwrite to replace it");
        return report_file(r, j->path);
    }
    h.recipe[sizeof h.recipe - 1] = '\0';
    if (h.each == j->each && strcmp(h.recipe, j->recipe) == 0) return load_rows(j, program, r);
    if (h.each != j->each || !adds_decoder(j, h.recipe)) return other_recipe(j, h.recipe, r);
    if (!load_rows(j, program, r)) return false;
    return (os_seek(j->file, 0) && write_header(j, j->file) && fflush(j->file) == 0) ||
           journal_failed(j, "written", r);
}

static void free_journal(embedding_journal *j) {
    if (j->file) fclose(j->file);
    for (size_t i = 0; i < j->count; i++) free(j->rows[i].name);
    free(j->rows);
    free(j->by_content);
    free(j->record);
    memset(j, 0, sizeof *j);
}

bool journal_open(embedding_journal *j, const char *program, const char *path, const char *recipe,
                  size_t each, bool anew, report *r) {
    bool good;
    memset(j, 0, sizeof *j);
    j->path = path;
    j->each = each;
    snprintf(j->recipe, sizeof j->recipe, "%s", recipe);
    j->file = path ? os_open_alone(path) : tmpfile();
    if (!j->file && errno == EAGAIN) {
        (void)report_fail(r, "another process is writing this file: wait, or choose another -o");
        return report_file(r, path);
    }
    if (!j->file) return journal_failed(j, "created", r);
    good = (anew ? begin_journal(j, r) : load_journal(j, program, r)) && sort_rows(j, r);
    j->synced_ms = os_now_ms();
    if (!good) free_journal(j);
    return good;
}

int64_t journal_find(const embedding_journal *j, const char *name, const journal_stamp *stamp) {
    size_t first = 0, end = j->count;
    /* Finds the last record whose name does not come after the requested name. */
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (strcmp(j->rows[middle].name, name) <= 0) first = middle + 1;
        else end = middle;
    }
    if (first == 0 || stamp->size == UINT64_MAX) return -1;
    first--;
    if (strcmp(j->rows[first].name, name) || j->rows[first].stamp.size != stamp->size ||
        j->rows[first].stamp.time != stamp->time)
        return -1;
    return (int64_t)j->rows[first].at;
}

int64_t journal_find_content(const embedding_journal *j, uint64_t content, uint64_t size) {
    const journal_row wanted = { NULL, { size, content, 0 }, 0 };
    const journal_row *found = j->count ? bsearch(&wanted, j->by_content, j->count, sizeof wanted,
                                                  compare_content)
                                        : NULL;
    return found ? (int64_t)found->at : -1;
}

const float *journal_read(embedding_journal *j, int64_t at, report *r) {
    if (read_record(j, (uint64_t)at, r))
        return (const float *)(void *)(j->record + sizeof(journal_record));
    if (r->failed) return NULL;
    (void)report_fail(r, "the file has changed since it was read: run the command again");
    (void)report_file(r, j->path);
    return NULL;
}

/* Gives each row to the system at once, so that no row is lost if the process is killed. A call of
 * os_sync every few seconds writes the rows to the disk. */
bool journal_add(embedding_journal *j, const char *name, const journal_stamp *stamp,
                 const float *row, int64_t known, int64_t *at, report *r) {
    const size_t length = strlen(name), bytes = j->each * sizeof *row;
    const size_t size = sizeof(journal_record) + bytes + length;
    const double now = os_now_ms();
    journal_record head = { 0, *stamp, length };
    if (!row && !journal_read(j, known, r)) return false;
    if (!record_room(j, size, r)) return false;
    if (row) memcpy(j->record + sizeof head, row, bytes);
    memcpy(j->record + sizeof head + bytes, name, length);
    memcpy(j->record, &head, sizeof head);
    head.hash = hash_record(j, j->end, size);
    memcpy(j->record, &head.hash, sizeof head.hash);
    errno = 0;
    if (!os_seek(j->file, j->end) || fwrite(j->record, size, 1, j->file) != 1 ||
        fflush(j->file) != 0)
        return journal_failed(j, "written", r);
    if (now - j->synced_ms > SYNC_MS) {
        if (!os_sync(j->file)) return journal_failed(j, "written", r);
        j->synced_ms = now;
    }
    *at = (int64_t)j->end;
    j->end += size;
    j->records++;
    return true;
}

/* Replaces the journal by a new journal that contains only the records at the positions at[0] to
 * at[count - 1]. Negative positions stand for no record. */
static bool write_anew(embedding_journal *j, const int64_t *at, size_t count, report *r) {
    cli_output output;
    uint64_t end = sizeof(journal_header);
    bool good;
    if (!cli_output_open(&output, j->path, r)) return false;
    errno = 0;
    good = write_header(j, output.file) || write_failed(&output, r);
    for (size_t i = 0; good && i < count; i++) {
        const float *row;
        journal_record head;
        size_t size;
        if (at[i] < 0) continue;
        row = journal_read(j, at[i], r);
        if (!row) break;
        memcpy(&head, j->record, sizeof head);
        size = sizeof head + j->each * sizeof *row + (size_t)head.name_length;
        head.hash = hash_record(j, end, size);
        memcpy(j->record, &head, sizeof head.hash);
        good = fwrite(j->record, size, 1, output.file) == 1 || write_failed(&output, r);
        end += size;
    }
    if (r->failed) {
        cli_output_abandon(&output);
        return false;
    }
    /* Some systems cannot replace a file while it is open. */
    fclose(j->file);
    j->file = NULL;
    return cli_output_commit(&output, r);
}

bool journal_close(embedding_journal *j, const int64_t *at, size_t count, report *r) {
    bool good = true;
    if (!j->file) return true;
    if (j->records == 0 && j->path) os_remove(j->path);
    else if (at && j->path && j->records > 2 * (uint64_t)count) good = write_anew(j, at, count, r);
    else if (!os_sync(j->file)) good = journal_failed(j, "written", r);
    free_journal(j);
    return good;
}

/* === Reading === */

void embedding_read_name(char *line) {
    char *to = line, *end = line + strlen(line);
    if (end > line && end[-1] == '\r') end[-1] = '\0';
    if (*line != '\\') return;
    for (line++; *line; line++) {
        if (*line == '\\' && line[1]) {
            line++;
            *to++ = *line == 'n' ? '\n' : *line == 'r' ? '\r' : *line;
        } else {
            *to++ = *line;
        }
    }
    *to = '\0';
}

/* Splits the text of the index into lines. The names point into the text, which the index owns. */
static bool split_names(embedding_index *index, size_t size, report *r) {
    const size_t count = (size_t)index->vectors.dims[0];
    size_t found = 0;
    char *line = index->text, *end = index->text + size;
    index->names = malloc((count + 1) * sizeof *index->names);
    if (!index->names) return report_no_memory(r);
    while (line < end) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        /* The text has one more byte than `size`; it becomes the NUL of the last line. */
        if (!newline) newline = end;
        *newline = '\0';
        embedding_read_name(line);
        if (found < count) index->names[found] = line;
        found++;
        line = newline + 1;
    }
    return found == count || report_fail(r, "has %zu names for %zu vectors", found, count);
}

static bool read_names(embedding_index *index, const char *path, report *r) {
    unsigned char *data;
    size_t size;
    if (!source_read_all(path, SIZE_MAX / 4, &data, &size, r)) return false;
    index->text = (char *)data;
    return split_names(index, size, r) || report_file(r, path);
}

static void read_size(const json_value *root, cli_size size) {
    const json_value *both = json_get(root, "img_size"), *height = json_first(both);
    if (!both || both->kind != JSON_ARRAY || both->count != 2) return;
    size[0] = (int)json_integer(height, 0);
    size[1] = (int)json_integer(height->next, 0);
    size[2] = (int)json_integer(json_get(root, "max_patches"), 0);
}

static bool read_description(embedding_index *index, const json_value *root, report *r) {
    const char *pool = json_string(json_get(root, "pool"), "?");
    const char *hash = json_string(json_get(root, "model_hash"), "");
    const char *model = json_string(json_get(root, "model"), NULL);
    if (!find_pool(pool, &index->choice.pool, r)) return false;
    index->choice.block = (int)json_integer(json_get(root, "layer"), -1) + 1;
    index->choice.normalize = json_bool(json_get(root, "normalized"), false);
    read_size(root, index->img_size);
    index->model_hash = strtoull(hash, NULL, 16);
    index->model_path = model ? strdup(model) : NULL;
    if (model && !index->model_path) return report_no_memory(r);
    index->described = true;
    return true;
}

bool embedding_describe(embedding_index *index, const char *path, report *r) {
    json_document document;
    unsigned char *data;
    size_t size;
    bool good;
    if (!source_exists(path)) return true;
    if (!source_read_all(path, 1 << 20, &data, &size, r)) return false;
    good = json_parse(&document, (char *)data, size, false, 0, r);
    if (good) {
        good = read_description(index, document.root, r);
        json_free(&document);
    }
    free(data);
    return good || report_file(r, path);
}

static bool read_beside(embedding_index *index, const char *path, const char *names, report *r) {
    char *names_path = names ? strdup(names) : beside(path, ".txt"), *json = beside(path, ".json");
    bool good = names_path && json ? true : report_no_memory(r);
    good = good && read_names(index, names_path, r) && embedding_describe(index, json, r);
    free(names_path);
    free(json);
    return good;
}

bool embedding_open(embedding_index *index, const char *path, const char *names, report *r) {
    memset(index, 0, sizeof *index);
    index->path = path;
    if (!npy_map(path, &index->vectors, r)) return false;
    if (index->vectors.ndim != 2) {
        (void)report_fail(r, "expected vectors [n, dim], found %d dimensions", index->vectors.ndim);
        (void)report_file(r, path);
    } else if (read_beside(index, path, names, r)) {
        return true;
    }
    embedding_close(index);
    return false;
}

void embedding_close(embedding_index *index) {
    npy_free(&index->vectors);
    free(index->names);
    free(index->text);
    free(index->model_path);
    memset(index, 0, sizeof *index);
}

/* === The model === */

/* Chooses the vectors of the model that can be compared with the vectors of the index. An index
 * without a description may contain vectors of CLIP's texts. These are as wide as the output of the
 * model's head, CLIP's projection, so the logits are chosen. */
static bool choose_for(embedding_choice *choice, const embedding_request *asked,
                       const embedding_index *index, const vit_model *model, report *r) {
    const bool given = asked->pool || asked->block >= 0;
    if (index->described && !given)
        return embedding_choose(choice, embedding_pool_name(index->choice.pool),
                                index->choice.block - 1, model, r);
    if (!embedding_choose(choice, asked->pool, asked->block, model, r)) return false;
    if (!given && index->vectors.dims[1] == model->config.num_classes)
        choice->pool = EMBEDDING_LOGITS;
    return true;
}

static bool check_width(const embedding_choice *choice, const embedding_index *index,
                        const vit_model *model, report *r) {
    const long long expected = (long long)index->vectors.dims[1];
    char logits[40] = "";
    int64_t dims[2];
    if (embedding_shape(choice, model, dims) == 2)
        return report_fail(r, "--pool tokens gives many vectors for a photo; choose cls or avg");
    if (dims[0] == expected) return true;
    if (choice->pool == EMBEDDING_HEAD && model->config.num_classes)
        snprintf(logits, sizeof logits, " and logits of %d", model->config.num_classes);
    return report_fail(r, "the model makes vectors of %lld values%s; those of %.200s have %lld",
                       (long long)dims[0], logits, index->path, expected);
}

/* Sets the image size of the model to the image size that the index was made with. Does nothing if
 * the user requests a size, or if another model made the index. */
static bool resize_for(const embedding_request *asked, const embedding_index *index,
                       vit_model *model, report *r) {
    if (asked->img_size[0] || asked->img_size[2] || !index->described ||
        embedding_model_hash(model) != index->model_hash)
        return true;
    return cli_model_resize(model, index->img_size, r);
}

bool embedding_open_model(const embedding_request *asked, const embedding_index *index,
                          vit_model *model, char **path, embedding_choice *choice, report *r) {
    const char *given = asked->model ? asked->model : index->model_path;
    if (!cli_model_choose(given, asked->img_size, model, path, r)) return false;
    if (!resize_for(asked, index, model, r) || !choose_for(choice, asked, index, model, r) ||
        !check_width(choice, index, model, r))
        return report_file(r, *path);
    choice->normalize = true;
    if (index->described && embedding_model_hash(model) != index->model_hash)
        report_error(asked->program, *path,
                     "this is not the model that made %s, so cosines may be meaningless",
                     index->path);
    return true;
}

bool embedding_choose_joint(embedding_choice *choice, const embedding_request *asked, int dim,
                            const vit_model *model, report *r) {
    embedding_index texts = { 0 };
    texts.path = "its text encoder";
    texts.vectors.dims[1] = dim;
    choice->normalize = true;
    return choose_for(choice, asked, &texts, model, r) && check_width(choice, &texts, model, r);
}
