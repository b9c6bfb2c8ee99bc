/* random_checkpoint - writes a safetensors checkpoint of a small ViT with random weights, whole or
 * broken in a chosen way. It needs only a C compiler. test_convert.sh builds and runs it.
 *
 *     random_checkpoint OUT [KEY=VALUE]...
 *
 *     dim=16 depth=2 mlp=64 patch=4 chans=3 rows=3 cols=3 classes=5 seed=1     sizes
 *     repr=0 dist=0 patchnorm=0 bias=1       pre_logits width, distillation, norm, qkv bias
 *     dtype=F32                              or F16, BF16, I8 (of every tensor)
 *     flat=0                                 1: patch weight as a matrix, as timm once had it
 *     smooth=                                chw, hwc: filters whose values show that order in
 *                                            flat=1: each has one value in each channel
 *     prefix=                                in front of every name
 *     sorted=0                               1: by their names
 *     shards=1                               OUT-00001.., and OUT becomes the index
 *     skip=NAME                              leave a tensor out
 *     shape=NAME:2,3                         give it another shape
 *     extra=NAME:2,3                         add one (up to 16)
 *     nan=NAME  inf=NAME  big=NAME           put NaN, infinity, 70000 into it
 *
 * Tensors have the order of .vit files, and the header has the form that `vit-convert --to
 * safetensors` writes, so a round trip gives the same file.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 4096, MAX_EXTRAS = 16 };

typedef struct tensor {
    char name[160];
    int dims[8], ndim;
    uint64_t begin, end;
} tensor;

static int dim = 16, depth = 2, mlp = 64, patch = 4, chans = 3, rows = 3, cols = 3, classes = 5;
static int seed = 1, repr = 0, dist = 0, patchnorm = 0, bias = 1, flat = 0, shards = 1;
static int sorted = 0;
static const char *dtype = "F32", *prefix = "", *skip = "", *shape = "", *nan_name = "";
static const char *inf_name = "", *big_name = "", *smooth = "", *extras[MAX_EXTRAS];
static int num_extras;

static tensor tensors[MAX_TENSORS];
static int count;

/* === Arguments === */

static const struct {
    const char *key;
    int *number;
    const char **text;
} keys[] = {
    { "dim", &dim, NULL },      { "depth", &depth, NULL },     { "mlp", &mlp, NULL },
    { "patch", &patch, NULL },  { "chans", &chans, NULL },     { "rows", &rows, NULL },
    { "cols", &cols, NULL },    { "classes", &classes, NULL }, { "seed", &seed, NULL },
    { "repr", &repr, NULL },    { "dist", &dist, NULL },       { "patchnorm", &patchnorm, NULL },
    { "bias", &bias, NULL },    { "flat", &flat, NULL },       { "shards", &shards, NULL },
    { "dtype", NULL, &dtype },  { "prefix", NULL, &prefix },   { "skip", NULL, &skip },
    { "shape", NULL, &shape },  { "nan", NULL, &nan_name },    { "inf", NULL, &inf_name },
    { "big", NULL, &big_name }, { "smooth", NULL, &smooth },   { "sorted", &sorted, NULL },
};

static int take_argument(const char *argument) {
    const char *equals = strchr(argument, '=');
    size_t length = equals ? (size_t)(equals - argument) : 0, i;
    if (equals && length == 5 && !strncmp(argument, "extra", 5) && num_extras < MAX_EXTRAS) {
        extras[num_extras++] = equals + 1;
        return 1;
    }
    for (i = 0; equals && i < sizeof keys / sizeof keys[0]; i++) {
        if (strlen(keys[i].key) != length || strncmp(keys[i].key, argument, length)) continue;
        if (keys[i].number) *keys[i].number = atoi(equals + 1);
        else *keys[i].text = equals + 1;
        return 1;
    }
    fprintf(stderr, "random_checkpoint: what is %s?\n", argument);
    return 0;
}

/* === The tensors === */

/* Parses a text "NAME:2,3". If NAME is equal to `name`, stores the dimensions in `dims` and returns
 * how many there are. Otherwise returns 0. */
static int parse_shape(const char *text, const char *name, int dims[8]) {
    const char *colon = strrchr(text, ':');
    int ndim = 0;
    if (!colon || strlen(name) != (size_t)(colon - text) || strncmp(text, name, strlen(name)))
        return 0;
    while (*colon && ndim < 8) {
        dims[ndim++] = atoi(colon + 1);
        colon += 1 + strcspn(colon + 1, ",");
    }
    return ndim;
}

static void add(const char *name, int ndim, int a, int b, int c, int d) {
    tensor *t = &tensors[count];
    int given;
    if (!strcmp(name, skip) || count == MAX_TENSORS) return;
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
    t->ndim = ndim;
    t->dims[0] = a, t->dims[1] = b, t->dims[2] = c, t->dims[3] = d;
    given = parse_shape(shape, name, t->dims);
    if (given) t->ndim = given;
    count++;
}

static void add_pair(const char *stem, const char *name, int ndim, int a, int b) {
    char full[160];
    snprintf(full, sizeof full, "%s%s.weight", stem, name);
    add(full, ndim, a, b, 0, 0);
    snprintf(full, sizeof full, "%s%s.bias", stem, name);
    if (bias || strcmp(name, "attn.qkv") != 0) add(full, 1, a, 0, 0, 0);
}

static void add_block(int i) {
    char stem[32];
    snprintf(stem, sizeof stem, "blocks.%d.", i);
    add_pair(stem, "norm1", 1, dim, 0);
    add_pair(stem, "attn.qkv", 2, 3 * dim, dim);
    add_pair(stem, "attn.proj", 2, dim, dim);
    add_pair(stem, "norm2", 1, dim, 0);
    add_pair(stem, "mlp.fc1", 2, mlp, dim);
    add_pair(stem, "mlp.fc2", 2, dim, mlp);
}

static void add_extra(const char *text) {
    char name[160];
    int dims[8] = { 0 }, ndim;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    ndim = parse_shape(text, name, dims);
    add(name, ndim, dims[0], dims[1], dims[2], dims[3]);
}

static void list_tensors(void) {
    int i;
    add("cls_token", 3, 1, 1, dim, 0);
    if (dist) add("dist_token", 3, 1, 1, dim, 0);
    add("pos_embed", 3, 1, 1 + dist + rows * cols, dim, 0);
    if (flat) add("patch_embed.proj.weight", 2, dim, chans * patch * patch, 0, 0);
    else add("patch_embed.proj.weight", 4, dim, chans, patch, patch);
    add("patch_embed.proj.bias", 1, dim, 0, 0, 0);
    if (patchnorm) add_pair("patch_embed.", "norm", 1, dim, 0);
    for (i = 0; i < depth; i++) add_block(i);
    add_pair("", "norm", 1, dim, 0);
    if (repr) add_pair("", "pre_logits.fc", 2, repr, dim);
    if (classes) add_pair("", "head", 2, classes, repr ? repr : dim);
    if (classes && dist) add_pair("", "head_dist", 2, classes, dim);
    for (i = 0; i < num_extras; i++) add_extra(extras[i]);
}

/* === Bytes === */

static int element_size(void) {
    if (!strcmp(dtype, "F32")) return 4;
    return !strcmp(dtype, "I8") ? 1 : 2;
}

static uint64_t elements(const tensor *t) {
    uint64_t n = 1;
    int i;
    for (i = 0; i < t->ndim; i++) n *= (uint64_t)t->dims[i];
    return n;
}

static uint32_t random_bits(void) {
    static uint64_t state;
    if (!state) state = (uint64_t)seed * 2 + 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* Returns the bits of a random number from -0.25 to 0.25. The numbers are small so that activations
 * stay small. */
static uint32_t weight_bits(void) {
    uint32_t r = random_bits();
    if (!strcmp(dtype, "F16")) return (r & 0x8000u) | (9 + r % 4) << 10 | (r >> 16 & 0x3ff);
    if (!strcmp(dtype, "BF16")) return (r & 0x8000u) | (121 + r % 4) << 7 | (r >> 16 & 0x7f);
    return (r & 0x80000000u) | (121 + r % 4) << 23 | (r >> 4 & 0x7fffff);
}

static void put_little(FILE *file, uint64_t value, int bytes) {
    int i;
    for (i = 0; i < bytes; i++) fputc((int)(value >> 8 * i & 255), file);
}

static uint32_t special_bits(const char *name, uint32_t otherwise) {
    int f32 = !strcmp(dtype, "F32"), f16 = !strcmp(dtype, "F16");
    if (!strcmp(name, nan_name)) return f32 ? 0x7fc00000u : f16 ? 0x7e00u : 0x7fc0u;
    if (!strcmp(name, inf_name)) return f32 ? 0xff800000u : f16 ? 0xfc00u : 0xff80u;
    if (!strcmp(name, big_name)) return f32 ? 0x4788b800u : f16 ? 0x7bffu : 0x4789u;
    return otherwise;
}

/* Each filter has one value for all weights of a channel (of up to four), in both orders. */
static void put_smooth(FILE *file) {
    int row, i, values = chans * patch * patch;
    for (row = 0; row < dim; row++) {
        uint32_t bits[4];
        for (i = 0; i < chans && i < 4; i++) bits[i] = weight_bits();
        for (i = 0; i < values; i++) {
            int channel = !strcmp(smooth, "hwc") ? i % chans : i / (patch * patch);
            put_little(file, bits[channel % 4], element_size());
        }
    }
}

static void put_data(FILE *file, const tensor *t) {
    const char *name = t->name + strlen(prefix);
    uint64_t n = elements(t), i;
    if (*smooth && !strcmp(name, "patch_embed.proj.weight")) {
        put_smooth(file);
        return;
    }
    for (i = 0; i < n; i++) {
        uint32_t bits = weight_bits();
        if (i == n / 2) bits = special_bits(name, bits);
        put_little(file, bits, element_size());
    }
}

static void put_header(FILE *file, int first, int last) {
    static char text[MAX_TENSORS * 320];
    size_t used = (size_t)sprintf(text, "{\"__metadata__\":{\"format\":\"pt\"}");
    uint64_t offset = 0;
    int i, d;
    for (i = first; i < last; i++) {
        tensor *t = &tensors[i];
        t->begin = offset;
        t->end = offset += elements(t) * (uint64_t)element_size();
        used += (size_t)sprintf(text + used, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name,
                                dtype);
        for (d = 0; d < t->ndim; d++)
            used += (size_t)sprintf(text + used, "%s%d", d ? "," : "", t->dims[d]);
        used += (size_t)sprintf(text + used, "],\"data_offsets\":[%llu,%llu]}",
                                (unsigned long long)t->begin, (unsigned long long)t->end);
    }
    text[used++] = '}';
    while (used % 8 != 0) text[used++] = ' ';
    put_little(file, used, 8);
    fwrite(text, 1, used, file);
}

static int write_file(const char *path, int first, int last) {
    FILE *file = fopen(path, "wb");
    int i;
    if (!file) return perror(path), 1;
    put_header(file, first, last);
    for (i = first; i < last; i++) put_data(file, &tensors[i]);
    return fclose(file) ? perror(path), 1 : 0;
}

static int write_shards(const char *path) {
    FILE *file = fopen(path, "wb");
    int i, t, first = 0, status = 0;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    if (!file) return perror(path), 1;
    fputs("{\"metadata\": {\"total_size\": 0}, \"weight_map\": {", file);
    for (i = 0; i < shards; i++) {
        char name[512];
        int last = count * (i + 1) / shards;
        snprintf(name, sizeof name, "%s-%05d", path, i + 1);
        status |= write_file(name, first, last);
        for (t = first; t < last; t++)
            fprintf(file, "%s\"%s\": \"%s-%05d\"", t ? ", " : "", tensors[t].name, base, i + 1);
        first = last;
    }
    fputs("}}", file);
    return fclose(file) ? perror(path), 1 : status;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const tensor *)a)->name, ((const tensor *)b)->name);
}

int main(int argc, char **argv) {
    int i;
    if (argc < 2) return fputs("random_checkpoint OUT [KEY=VALUE]...\n", stderr), 2;
    for (i = 2; i < argc; i++)
        if (!take_argument(argv[i])) return 2;
    list_tensors();
    if (sorted) qsort(tensors, (size_t)count, sizeof *tensors, by_name);
    return shards > 1 ? write_shards(argv[1]) : write_file(argv[1], 0, count);
}
