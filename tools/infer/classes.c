#include "infer/classes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/model.h"
#include "infer/words.h"
#include "os/os.h"

/* === One name === */

/* True if the piece of a label equals the name, ignoring case and treating '_' as a space. */
static bool same_name(const char *piece, size_t length, const char *name) {
    if (strlen(name) != length) return false;
    for (size_t i = 0; i < length; i++) {
        int a = tolower((unsigned char)piece[i]), b = tolower((unsigned char)name[i]);
        if ((a == '_' ? ' ' : a) != (b == '_' ? ' ' : b)) return false;
    }
    return true;
}

/* ImageNet's labels are lists: "tabby, tabby cat". */
static bool is_alias(const char *label, const char *name) {
    while (*label) {
        size_t length = strcspn(label, ",");
        if (same_name(label, length, name)) return true;
        label += length;
        label += strspn(label, ", ");
    }
    return false;
}

typedef bool matcher(const vit_model *model, int index, const char *name);

static bool match_synset(const vit_model *model, int index, const char *name) {
    const char *synset = vit_synset(model, index);
    return synset && strcmp(synset, name) == 0;
}

static bool match_label(const vit_model *model, int index, const char *name) {
    const char *label = vit_label(model, index);
    return label && same_name(label, strlen(label), name);
}

static bool match_alias(const vit_model *model, int index, const char *name) {
    const char *label = vit_label(model, index);
    return label && is_alias(label, name);
}

static bool match_index(const vit_model *model, int index, const char *name) {
    (void)model;
    return strspn(name, "0123456789") == strlen(name) && strtol(name, NULL, 10) == index;
}

int class_find(const vit_model *model, const char *name) {
    static matcher *const matchers[] = { match_synset, match_label, match_alias, match_index };
    int found = CLASS_NONE;
    for (int m = 0; m < 4 && found == CLASS_NONE; m++) {
        for (int i = 0; i < model->config.num_classes; i++) {
            if (matchers[m](model, i, name)) found = found == CLASS_NONE ? i : CLASS_AMBIGUOUS;
        }
    }
    return found;
}

const char *class_name(const vit_model *model, int index, char *text, size_t size) {
    const char *label = vit_label(model, index);
    if (label) return label;
    snprintf(text, size, "class %d", index);
    return text;
}

/* === A map === */

void class_map_free(class_map *map) {
    photos_free(&map->folders);
    free(map->classes);
    map->classes = NULL;
}

/* Cuts "folder<TAB>class" in two; without a tab, at the first white space. False if there is only
   one part. */
static bool split_line(char *line, char **folder, char **name) {
    size_t length = strlen(line);
    char *gap;
    while (length && isspace((unsigned char)line[length - 1])) line[--length] = '\0';
    gap = strchr(line, '\t');
    if (!gap) gap = line + strcspn(line, " ");
    if (!*gap || gap == line) return false;
    *gap++ = '\0';
    gap += strspn(gap, " \t");
    *folder = line;
    *name = gap;
    return *gap != '\0';
}

static bool map_line(class_map *map, const vit_model *model, int number, char *line, report *r) {
    char *folder, *name;
    int *classes, index;
    if (line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0') return true;
    if (!split_line(line, &folder, &name))
        return report_fail(r, "line %d: expected 'FOLDER CLASS'", number);
    index = class_find(model, name);
    if (index < 0)
        return report_fail(r, "line %d: the model has no%s class '%.80s'", number,
                           index == CLASS_AMBIGUOUS ? " single" : "", name);
    classes = realloc(map->classes, ((size_t)map->folders.count + 1) * sizeof *classes);
    if (!classes) return report_no_memory(r);
    map->classes = classes;
    classes[map->folders.count] = index;
    return photos_append(&map->folders, folder, r);
}

/* Lines above 4095 bytes are cut, and then match nothing. */
bool class_map_read(class_map *map, const vit_model *model, const char *path, report *r) {
    char line[4096];
    int number = 0;
    FILE *file = os_fopen(path, "rb");
    bool good = file || report_fail(r, "cannot be opened: %s", os_error(errno));
    memset(map, 0, sizeof *map);
    while (good && fgets(line, sizeof line, file)) good = map_line(map, model, ++number, line, r);
    if (good && ferror(file)) good = report_fail(r, "cannot be read: %s", strerror(errno));
    if (good && map->folders.count == 0)
        good = report_fail(r, "expected lines 'FOLDER<tab>CLASS', found none");
    if (file) fclose(file);
    if (good) return true;
    class_map_free(map);
    return report_file(r, path);
}

int class_map_find(const class_map *map, const vit_model *model, const char *folder) {
    for (int i = 0; i < map->folders.count; i++) {
        if (strcmp(map->folders.paths[i], folder) == 0) return map->classes[i];
    }
    return class_find(model, folder);
}

bool class_map_all(const class_map *map, const vit_model *model, const photo_list *folders,
                   const char *program, int *classes) {
    enum { SHOWN = 10 };
    int wrong = 0;
    for (int i = 0; i < folders->count; i++) {
        classes[i] = class_map_find(map, model, folders->paths[i]);
        if (classes[i] >= 0 || ++wrong > SHOWN) continue;
        report_error(program, folders->paths[i],
                     "%s; name it in a file for --map, with a line 'FOLDER<tab>class index or "
                     "label'",
                     classes[i] == CLASS_AMBIGUOUS ? "matches several of the model's classes"
                                                   : "is not a class of the model");
    }
    if (wrong > SHOWN) report_error(program, NULL, "and %d more folders like these", wrong - SHOWN);
    return wrong == 0;
}

/* === Classes by texts === */

enum { MOST_TEXTS = 1 << 20 };

/* True for a file of vectors, false for texts. */
static bool are_vectors(const zero_shot_options *options) {
    const char *dot = strrchr(options->classes, '.');
    return dot && !strcmp(dot, ".npy");
}

const char *zero_shot_wrong(const zero_shot_options *options) {
    const bool scaled = !isnan(options->scale), shifted = !isnan(options->bias);
    if (!options->classes) {
        if (options->names) return "--class-names needs --classes TEXT.npy";
        if (options->templates.count) return "--template needs --classes TEXTS";
        return scaled || shifted ? "--scale and --bias need --classes TEXT.npy" : NULL;
    }
    if (!are_vectors(options))
        return options->names ? "--class-names is for vectors, --classes TEXT.npy" : NULL;
    if (options->templates.count) return "--template is for texts, not for --classes TEXT.npy";
    if (!options->names) return "--classes needs --class-names FILE, with a name for each vector";
    if (shifted && !options->sigmoid) return "--bias needs --sigmoid";
    if (options->sigmoid && !scaled) return "--sigmoid needs the model's --scale";
    return NULL;
}

static const float *text_vector(const zero_shot *z, int i) {
    return z->texts.vectors.data + (size_t)i * (size_t)z->texts.vectors.dims[1];
}

/* A vector without a direction has no cosine of 1 with itself. */
static bool check_texts(const zero_shot *z, report *r) {
    const int64_t count = z->texts.vectors.dims[0], dim = z->texts.vectors.dims[1];
    if (count < 1 || count > MOST_TEXTS || dim < 1)
        return report_fail(r, "expected 1 to %d vectors, found %lld of %lld numbers", MOST_TEXTS,
                           (long long)count, (long long)dim);
    for (int i = 0; i < z->count; i++) {
        const float *text = text_vector(z, i);
        if (vit_cosine(text, text, (int)dim) > 0) continue;
        return report_fail(r, "the vector of '%.80s', in row %d, is all zeros or not finite",
                           z->texts.names[i], i);
    }
    return true;
}

bool zero_shot_open_vectors(zero_shot *z, const zero_shot_options *options, report *r) {
    memset(z, 0, sizeof *z);
    if (!embedding_open(&z->texts, options->classes, options->names, r)) return false;
    z->count = (int)z->texts.vectors.dims[0];
    z->scale = isnan(options->scale) ? 100 : (float)options->scale;
    z->bias = isnan(options->bias) ? 0 : (float)options->bias;
    z->sigmoid = options->sigmoid;
    if (check_texts(z, r)) return true;
    zero_shot_close(z);
    return report_file(r, options->classes);
}

/* === Texts === */

/* Two classes of the same text share their probability. */
static bool check_names(const zero_shot *z, report *r) {
    for (int i = 0; i < z->count; i++)
        for (int k = 0; z->count <= 10000 && k < i; k++)
            if (!strcmp(z->texts.names[i], z->texts.names[k]))
                return report_fail(r, "--classes: '%.80s' is there twice", z->texts.names[i]);
    return true;
}

static bool embed_texts(zero_shot *z, const zero_shot_options *options, words *w, report *r) {
    bool good = true;
    z->own = malloc((size_t)z->count * (size_t)w->dim * sizeof *z->own);
    if (!z->own) return report_no_memory(r);
    for (int i = 0; good && i < z->count; i++)
        good = words_embed_in(w, z->texts.names[i], &options->templates,
                              z->own + (size_t)i * (size_t)w->dim, r);
    z->texts.vectors.ndim = 2;
    z->texts.vectors.dims[0] = z->count;
    z->texts.vectors.dims[1] = w->dim;
    z->texts.vectors.data = z->own;
    z->scale = isnan(options->scale) ? w->text.config.logit_scale : (float)options->scale;
    z->bias = isnan(options->bias) ? w->text.config.logit_bias : (float)options->bias;
    z->sigmoid = options->sigmoid || w->text.config.head_activation == VIT_HEAD_SIGMOID;
    return good && check_texts(z, r);
}

static bool open_texts(zero_shot *z, const zero_shot_options *options,
                       const embedding_request *asked, vit_model *model, char **path,
                       embedding_choice *choice, report *r) {
    words w = { 0 };
    bool good;
    z->texts.path = options->classes;
    if (!words_read(options->classes, &z->list, &z->texts.names, &z->count, r) ||
        !check_names(z, r) || !cli_model_choose(asked->model, asked->img_size, model, path, r))
        return false;
    good = words_open(&w, model, VIT_ISA_AUTO, asked->program, r) &&
           embed_texts(z, options, &w, r) && embedding_choose_joint(choice, asked, w.dim, model, r);
    words_close(&w);
    return good || report_file(r, *path);
}

bool zero_shot_open(zero_shot *z, const zero_shot_options *options, const embedding_request *asked,
                    vit_model *model, char **path, embedding_choice *choice, report *r) {
    memset(z, 0, sizeof *z);
    if (!are_vectors(options)) return open_texts(z, options, asked, model, path, choice, r);
    return zero_shot_open_vectors(z, options, r) &&
           embedding_open_model(asked, &z->texts, model, path, choice, r);
}

void zero_shot_close(zero_shot *z) {
    if (z->own) z->texts.vectors.data = NULL;
    embedding_close(&z->texts);
    free(z->own);
    free(z->list);
    z->own = NULL;
    z->list = NULL;
    z->count = 0;
}

void zero_shot_logits(const zero_shot *z, const float *vector, float *logits) {
    const int dim = (int)z->texts.vectors.dims[1];
    for (int i = 0; i < z->count; i++) {
        const float scaled = z->scale * vit_cosine(vector, text_vector(z, i), dim);
        logits[i] = scaled + z->bias;
    }
}

void zero_shot_scores(const zero_shot *z, float *x) {
    if (z->sigmoid) vit_sigmoid(x, z->count);
    else vit_softmax(x, z->count);
}
