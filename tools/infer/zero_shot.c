#include "infer/zero_shot.h"

#include <string.h>

enum { MOST_TEXTS = 1 << 20 };

const char *zero_shot_wrong(const zero_shot_options *options)
{
    const bool scaled = !isnan(options->scale), shifted = !isnan(options->bias);
    if (!options->classes) {
        if (options->names) return "--class-names needs --classes TEXT.npy";
        return scaled || shifted ? "--scale and --bias need --classes TEXT.npy" : NULL;
    }
    if (!options->names) return "--classes needs --class-names FILE, with a name a vector";
    if (shifted && !options->sigmoid) return "--bias needs --sigmoid";
    if (options->sigmoid && !scaled) return "--sigmoid needs the model's --scale";
    return NULL;
}

static const float *text_vector(const zero_shot *z, int i)
{
    return z->texts.vectors.data + (size_t)i * (size_t)z->texts.vectors.dims[1];
}

/* A vector without a direction has a cosine to itself that is not 1. */
static bool check_texts(const zero_shot *z, report *r)
{
    const int64_t count = z->texts.vectors.dims[0], dim = z->texts.vectors.dims[1];
    if (count < 1 || count > MOST_TEXTS || dim < 1)
        return report_fail(r, "expected 1 to %d vectors, found %lld of %lld numbers", MOST_TEXTS,
                           (long long)count, (long long)dim);
    for (int i = 0; i < z->count; i++) {
        const float *text = text_vector(z, i);
        if (vit_cosine(text, text, (int)dim) > 0) continue;
        return report_fail(r, "the vector of '%.80s', in row %d, is zeros or not finite",
                           z->texts.names[i], i);
    }
    return true;
}

bool zero_shot_open(zero_shot *z, const zero_shot_options *options, report *r)
{
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

void zero_shot_close(zero_shot *z)
{
    embedding_close(&z->texts);
    z->count = 0;
}

void zero_shot_logits(const zero_shot *z, const float *vector, float *logits)
{
    const int dim = (int)z->texts.vectors.dims[1];
    for (int i = 0; i < z->count; i++) {
        const float scaled = z->scale * vit_cosine(vector, text_vector(z, i), dim);
        logits[i] = scaled + z->bias;
    }
}

void zero_shot_scores(const zero_shot *z, float *x)
{
    if (z->sigmoid) vit_sigmoid(x, z->count);
    else vit_softmax(x, z->count);
}
