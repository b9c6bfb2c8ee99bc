#include "bench/operations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Multiply-adds of a block that computes its first `queries` tokens; k and v are of all tokens. */
static double block_products(const vit_config *c, double queries) {
    double tokens = c->num_tokens, dim = c->embed_dim;
    double width = (double)c->num_heads * c->head_dim;
    if (c->attention == VIT_ATTENTION_SELF) return queries * dim * (dim + 2 * c->mlp_dim);
    double kv = tokens * dim * 2 * width, attention = queries * tokens * 2 * width;
    return kv + attention + queries * (2 * dim * width + 2 * dim * c->mlp_dim);
}

/* Pixels of the feature map that the named convolution of the stem produces. */
static double map_pixels(const vit_config *c, const char *name) {
    int stage = 0, block = 0, stride = 4;
    char layer[64] = "";
    if (sscanf(name, "stages.%d.blocks.%d.%63s", &stage, &block, layer) == 3) {
        stride = 4 << stage;
        if (stage > 0 && block == 0 && strcmp(layer, "conv1.weight") == 0) stride /= 2;
    } else if (strncmp(name, "stem.", 5) == 0) {
        stride = 2;
    } else if (name[0] == '1') {
        stride = 8;
    }
    return ceil((double)c->img_height / stride) * ceil((double)c->img_width / stride);
}

/* Multiply-adds of the stem and the patch embedding. */
static double patch_products(const vit_config *c) {
    static const char stem[] = "patch_embed.backbone.";
    vit_tensor t;
    double products = 0;
    for (int i = 0; vit_architecture_tensor(c, VIT_F32, i, &t); i++) {
        double weights = (double)t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3];
        if (t.layout == VIT_LAYOUT_PLAIN || t.ndim != 4) continue;
        products += weights * (strncmp(t.name, stem, sizeof stem - 1) == 0
                                   ? map_pixels(c, t.name + sizeof stem - 1)
                                   : c->num_patches);
    }
    return products;
}

double bench_operations(const vit_config *c) {
    double read = c->num_prefix_tokens ? c->num_prefix_tokens : c->num_tokens;
    double embedding = c->representation_dim ? c->representation_dim : c->embed_dim;
    double products = patch_products(c);
    for (int i = 0; i < c->depth; i++)
        products += block_products(c, i < c->depth - 1 ? c->num_tokens : read);
    if (c->representation_dim) products += (double)c->embed_dim * embedding;
    products += embedding * c->num_classes * (1 + c->has_dist_token);
    return 2 * products;
}
