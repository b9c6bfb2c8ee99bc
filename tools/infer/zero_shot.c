#include "infer/classes.h"
#include "infer/words.h"

#include <stdlib.h>
#include <string.h>

#include "cli/options.h"

enum { MOST_TEXTS = 1 << 20 };

/* Returns true if options->classes is a file of vectors, and false if it contains texts. */
static bool are_vectors(const zero_shot_options *options) {
    const char *dot = strrchr(options->classes, '.');
    return dot && !strcmp(dot, ".npy");
}

const char *zero_shot_wrong(const zero_shot_options *options) {
    const bool scaled = !isnan(options->scale), shifted = !isnan(options->bias);
    if (!options->classes) {
        if (options->names) return "--class-names needs --classes TEXT.npy";
        if (options->templates.count) return "--template needs --classes TEXTS";
        return scaled || shifted ? "--scale and --bias need --classes" : NULL;
    }
    if (!are_vectors(options))
        return options->names ? "--class-names is only for the vectors of --classes TEXT.npy"
                              : NULL;
    if (options->templates.count) return "--template is for texts, not for --classes TEXT.npy";
    if (!options->names)
        return "--classes TEXT.npy needs --class-names FILE, with a name for each vector";
    if (shifted && !options->sigmoid) return "--bias needs --sigmoid";
    if (options->sigmoid && !scaled) return "--sigmoid needs the model's --scale";
    return NULL;
}

static const float *text_vector(const zero_shot *z, int i) {
    return z->texts.vectors.data + (size_t)i * (size_t)z->texts.vectors.dims[1];
}

/* Refuses a vector of zeros or of values that are not finite, because such a vector has no
 * cosine. */
static bool check_texts(const zero_shot *z, report *r) {
    const int64_t count = z->texts.vectors.dims[0], dim = z->texts.vectors.dims[1];
    if (count < 1 || count > MOST_TEXTS || dim < 1)
        return report_fail(r, "expected 1 to %d vectors, found %lld (each of %lld numbers)",
                           MOST_TEXTS, (long long)count, (long long)dim);
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

/* Refuses equal texts of two classes, which would share one probability. If there are more than
 * 10000 texts, compares none of them. */
static bool check_names(const zero_shot *z, report *r) {
    for (int i = 0; i < z->count; i++)
        for (int k = 0; z->count <= 10000 && k < i; k++)
            if (!strcmp(z->texts.names[i], z->texts.names[k]))
                return report_fail(r, "--classes: '%.80s' occurs twice", z->texts.names[i]);
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
