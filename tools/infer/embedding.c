#define _POSIX_C_SOURCE 200809L

#include "infer/embedding.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "cli/model.h"
#include "os/os.h"

/* === Which vector === */

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
                           "--pool %s is the model's output; of a block, choose cls, avg or "
                           "tokens",
                           embedding_pool_name(choice->pool));
    if (choice->pool == EMBEDDING_LOGITS && config->num_classes == 0)
        return report_fail(r, "--pool logits: the model has no head; choose head, what one would "
                              "read");
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
              : choice->pool == EMBEDDING_TOKENS ? config->num_tokens
                                                 : config->embed_dim;
    dims[1] = config->embed_dim;
    return choice->pool == EMBEDDING_TOKENS ? 2 : 1;
}

/* Over the patches, from the first to the last, into the first token's place. */
static void average(float *tokens, const vit_config *config) {
    const int dim = config->embed_dim;
    for (int d = 0; d < dim; d++) {
        double sum = 0;
        for (int t = config->num_prefix_tokens; t < config->num_tokens; t++)
            sum += (double)tokens[(size_t)t * (size_t)dim + (size_t)d];
        tokens[d] = (float)(sum / config->num_patches);
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
    if (choice->pool == EMBEDDING_AVG) average(x, &model->config);
    for (int64_t i = 0; choice->normalize && i < count; i++)
        vit_normalize(x + i * dims[ndim - 1], (int)dims[ndim - 1]);
    return x;
}

/* === What made an index === */

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
    if (choice->block) json_put_integer(w, "layer", choice->block - 1);
    else json_put_text(w, "layer", NULL);
    json_put_text(w, "pool", embedding_pool_name(choice->pool));
    json_put_bool(w, "normalized", choice->normalize);
    free(real);
}

/* === Writing === */

/* "a.npy" -> "a.txt", "a" -> "a.txt"; malloc'ed. */
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
    if (!w->names_path || !w->json_path) return report_no_memory(r);
    return (names || cli_output_declare(w->names_path, r)) && cli_output_declare(w->json_path, r);
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

/* The number of rows is put in at the end, so that it must be possible to go back. */
bool embedding_begin(embedding_writer *w, const embedding_choice *choice, const vit_model *model,
                     report *r) {
    w->ndim = 1 + embedding_shape(choice, model, w->dims + 1);
    w->each = (size_t)w->dims[1] * (size_t)(w->ndim == 3 ? w->dims[2] : 1);
    if (!os_seek(w->npy.file, 0)) {
        (void)report_fail(r, "is a pipe; the number of images must be written at its beginning "
                             "when it is known, so give a file");
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
    memset(w, 0, sizeof *w);
}

void embedding_abandon(embedding_writer *w) {
    if (w->opened > 0) cli_output_abandon(&w->npy);
    if (w->opened > 1) cli_output_abandon(&w->names);
    if (w->opened > 2) cli_output_abandon(&w->json);
    w->opened = 0;
}

/* The names first and the vectors last: whoever waits for these finds the others complete. */
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

/* The lines of `size` bytes at text, which becomes theirs. */
static bool split_names(embedding_index *index, size_t size, report *r) {
    const size_t count = (size_t)index->vectors.dims[0];
    size_t found = 0;
    char *line = index->text, *end = index->text + size;
    index->names = malloc((count + 1) * sizeof *index->names);
    if (!index->names) return report_no_memory(r);
    while (line < end) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        if (!newline) newline = end; /* there is a byte more */
        *newline = '\0';
        embedding_read_name(line);
        if (found < count) index->names[found] = line;
        found++;
        line = newline + 1;
    }
    return found == count || report_fail(r, "has %zu names, of %zu vectors", found, count);
}

static bool read_names(embedding_index *index, const char *path, report *r) {
    unsigned char *data;
    size_t size;
    if (!source_read_all(path, SIZE_MAX / 4, &data, &size, r)) return false;
    index->text = (char *)data;
    return split_names(index, size, r) || report_file(r, path);
}

static bool read_description(embedding_index *index, const json_value *root, report *r) {
    const char *pool = json_string(json_get(root, "pool"), "?");
    const char *hash = json_string(json_get(root, "model_hash"), "");
    const char *model = json_string(json_get(root, "model"), NULL);
    if (!find_pool(pool, &index->choice.pool, r)) return false;
    index->choice.block = (int)json_integer(json_get(root, "layer"), -1) + 1;
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

/* Texts of CLIP are as wide as its projection, which is the head. */
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
    return report_fail(r, "makes vectors of %lld numbers%s; those of %.200s have %lld",
                       (long long)dims[0], logits, index->path, expected);
}

bool embedding_open_model(const embedding_request *asked, const embedding_index *index,
                          vit_model *model, char **path, embedding_choice *choice, report *r) {
    const char *given = asked->model ? asked->model : index->model_path;
    if (!cli_model_choose(given, asked->img_size, model, path, r)) return false;
    if (!choose_for(choice, asked, index, model, r) || !check_width(choice, index, model, r))
        return report_file(r, *path);
    choice->normalize = true;
    if (index->described && embedding_model_hash(model) != index->model_hash)
        report_error(asked->program, *path,
                     "is not the model that made %s: cosines may mean "
                     "nothing",
                     index->path);
    return true;
}
