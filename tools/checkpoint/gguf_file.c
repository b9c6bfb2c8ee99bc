/* gguf_file.c - reads GGUF, versions 2 and 3: the files of llama.cpp (mmproj), clip.cpp and
 * dinov2.cpp, and other files whose tensors have known names. A pair is a key of the metadata and
 * its value. A GGUF file consists of three parts:
 *
 *     header: "GGUF", u32 version, u64 number of tensors, u64 number of pairs
 *     pairs: key, u32 type, value. A key or text is a u64 length and bytes. An array is the u32
 *         type of its values, the u64 number of values, and the values
 *     tensors: name, u32 number of dims, u64 dims (the fastest first), u32 type, u64 offset of the
 *         data from the first multiple of general.alignment (or 32) after this list
 *
 * The data of each tensor must begin at the first multiple of this alignment after the data of the
 * previous tensor, so no byte belongs to two tensors. The files of all known programs fulfil this
 * rule.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/report.h"
#include "base/source.h"
#include "base/text.h"
#include "checkpoint/container.h"

enum {
    GGUF_MAX_PAIRS = 65536,
    /* The most texts, such as a tokenizer's words, in all arrays of a file together. */
    GGUF_MAX_TEXTS = 1 << 21,
    /* The largest number of values in an array that is kept; longer arrays are skipped. */
    GGUF_MAX_KEPT = 16,
    GGUF_TEXT = 1025,
};

enum { GGUF_F32 = 6, GGUF_BOOL = 7, GGUF_STRING = 8, GGUF_ARRAY = 9, GGUF_F64 = 12 };

typedef struct gguf_reader {
    checkpoint *c;
    size_t file;
    uint64_t at;
    report *report;
    uint64_t alignment, texts;
    char architecture[GGUF_TEXT], projector[GGUF_TEXT];
    bool has_gelu, has_silu;
    /* The number of blocks that the file's metadata give; 0 if they give none. */
    long blocks;
} gguf_reader;

/* === Numbers and texts === */

static uint64_t rest_of(const gguf_reader *g) { return g->c->sources[g->file].size - g->at; }

static bool gguf_bytes(gguf_reader *g, void *to, size_t size) {
    if (!source_read(&g->c->sources[g->file], g->at, to, size, g->report)) return false;
    g->at += size;
    return true;
}

static bool gguf_number(gguf_reader *g, size_t size, uint64_t *number) {
    uint8_t bytes[8] = { 0 };
    if (!gguf_bytes(g, bytes, size)) return false;
    *number = bytes_load64(bytes);
    return true;
}

static bool skip(gguf_reader *g, uint64_t size) {
    if (size > rest_of(g)) return report_fail(g->report, "the file ends inside its header");
    g->at += size;
    return true;
}

/* Reads a text. A text of GGUF_TEXT bytes or more is skipped, and `text` becomes "". */
static bool gguf_text(gguf_reader *g, char text[GGUF_TEXT]) {
    uint64_t length;
    *text = '\0';
    if (!gguf_number(g, 8, &length)) return false;
    if (length >= GGUF_TEXT) return skip(g, length);
    if (!gguf_bytes(g, text, (size_t)length)) return false;
    text[length] = '\0';
    return true;
}

static bool gguf_name(gguf_reader *g, const char *what, char name[GGUF_TEXT]) {
    if (!gguf_text(g, name)) return false;
    return text_is_name(name, strlen(name)) ||
           report_fail(g->report, "%s is empty, too long or not printable UTF-8", what);
}

/* === Values === */

/* Returns the size in bytes of a number of this type. Returns 0 for a text, an array or an unknown
 * type. */
static size_t number_size(uint64_t type) {
    static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return type < sizeof sizes ? sizes[type] : 0;
}

/* Appends a number with enough digits to distinguish it from neighbouring float values. */
static void append_float(char text[GGUF_TEXT], float value) {
    char digits[32];
    float read;
    int count = 6;
    do {
        snprintf(digits, sizeof digits, "%.*g", count, (double)value);
        read = (float)strtod(digits, NULL);
    } while (!(read == value) && ++count <= 9); /* a NaN never equals itself */
    text_append(text, GGUF_TEXT, "%s", digits);
}

static bool append_number(gguf_reader *g, uint64_t type, char text[GGUF_TEXT]) {
    static const bool is_signed[] = { 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0 };
    const size_t size = number_size(type);
    uint64_t number;
    if (!gguf_number(g, size, &number)) return false;
    if (type == GGUF_F32) append_float(text, bytes_float((uint32_t)number));
    else if (type == GGUF_F64) append_float(text, bytes_double(number));
    else if (type == GGUF_BOOL) text_append(text, GGUF_TEXT, number ? "true" : "false");
    else if (is_signed[type])
        text_append(text, GGUF_TEXT, "%lld", (long long)bytes_signed(number, (unsigned)size));
    else text_append(text, GGUF_TEXT, "%llu", (unsigned long long)number);
    return true;
}

static bool skip_texts(gguf_reader *g, uint64_t count) {
    uint64_t length;
    if (count > GGUF_MAX_TEXTS - g->texts)
        return report_fail(g->report, "the arrays hold more than %d strings", GGUF_MAX_TEXTS);
    for (g->texts += count; count > 0; count--)
        if (!gguf_number(g, 8, &length) || !skip(g, length)) return false;
    return true;
}

/* Reads an array. Writes a short array of numbers into `text` as "(0.5, 0.5, 0.5)". For any other
 * array, `text` becomes "". */
static bool gguf_array(gguf_reader *g, const char *key, char text[GGUF_TEXT]) {
    uint64_t type, count, size, i;
    if (!gguf_number(g, 4, &type) || !gguf_number(g, 8, &count)) return false;
    if (type == GGUF_STRING) return skip_texts(g, count);
    if (!number_size(type))
        return report_fail(g->report, "%.200s: an array of type %llu cannot be read", key,
                           (unsigned long long)type);
    if (count > GGUF_MAX_KEPT)
        return bytes_multiply(count, number_size(type), &size) ? skip(g, size)
                                                               : skip(g, UINT64_MAX);
    for (i = 0; i < count; i++) {
        text_append(text, GGUF_TEXT, i == 0 ? "(" : ", ");
        if (!append_number(g, type, text)) return false;
    }
    if (count > 0) text_append(text, GGUF_TEXT, ")");
    return true;
}

static bool gguf_value(gguf_reader *g, const char *key, uint64_t type, char text[GGUF_TEXT]) {
    *text = '\0';
    if (type == GGUF_STRING) return gguf_text(g, text);
    if (type == GGUF_ARRAY) return gguf_array(g, key, text);
    if (number_size(type)) return append_number(g, type, text);
    return report_fail(g->report, "%.200s: a value of type %llu cannot be read", key,
                       (unsigned long long)type);
}

/* === The pairs === */

/* A possible value of the key clip.projector_type. If the image encoder of files with this value is
 * not a plain ViT, `why` is the reason. The flag clip.use_gelu stands for the activation
 * "gelu_pytorch_tanh" if `is_tanh` is true, and otherwise for "gelu". */
typedef struct gguf_projector {
    const char *name, *why;
    bool is_tanh;
} gguf_projector;

#define ROTARY   "rotary positions in two dimensions"
#define QWEN3_VL "qwen3vl_merger"

static const gguf_projector projectors[] = {
    { "", NULL, false },
    { "mlp", NULL, false },
    { "ldp", NULL, false },
    { "ldpv2", NULL, false },
    { "internvl", NULL, false },
    { "janus_pro", NULL, false },
    { "adapter", NULL, true },
    { "gemma3", NULL, true },
    { "idefics3", NULL, true },
    { "lfm2", NULL, true },
    { "phi4", NULL, true },
    { "qwen2vl_merger", ROTARY, false },
    { "qwen2.5*", "attention in windows", false },
    { QWEN3_VL, NULL, true },
    { "youtuvl", "attention in windows", false },
    { "resampler", "positions that depend on the photo's aspect ratio", false },
    { "pixtral", ROTARY, false },
    { "lightonocr", ROTARY, false },
    { "dots_ocr", ROTARY, false },
    { "paddleocr", ROTARY, false },
    { "kimi*", ROTARY, false },
    { "llama4", ROTARY, false },
    { "glm4v", ROTARY, false },
    { "step3vl", ROTARY, false },
    { "gemma3n*", "a MobileNet", false },
    { "gemma4*", "four norms in a block", false },
    { "cogvlm", "norms after attention and MLP", false },
    { "deepseekocr*", "SAM in front of the ViT", false },
    { "yasa2", "a ConvNeXt", false },
    { "nemotron_v2_vl", "several class tokens", false },
};

static const gguf_projector *find_projector(const gguf_reader *g) {
    size_t i;
    for (i = 0; i < sizeof projectors / sizeof *projectors; i++)
        if (text_matches(projectors[i].name, g->projector)) return &projectors[i];
    return NULL;
}

static bool check_projector(const gguf_reader *g) {
    const gguf_projector *known = find_projector(g);
    if (known && !known->why) return true;
    return report_fail(
        g->report, "clip.projector_type %.40s: expected the image encoder of a plain ViT, found %s",
        g->projector, known ? known->why : "a type that this version does not support");
}

/* The metadata keys and the names of the settings that they give. The names of the settings occur
 * in settings.h, in ggml_file.c or in a training program. The keys of dinov2.cpp come last. */
static const struct {
    const char *key, *setting;
} told[] = {
    { "clip.vision.image_size", "img_size" },
    { "clip.vision.patch_size", "patch_size" },
    { "clip.vision.embedding_length", "embed_dim" },
    { "clip.vision.feed_forward_length", "mlp_dim" },
    { "clip.vision.block_count", "depth" },
    { "clip.vision.attention.head_count", "num_heads" },
    { "clip.vision.attention.layer_norm_epsilon", "norm_eps" },
    { "clip.vision.image_mean", "args.mean" },
    { "clip.vision.image_std", "args.std" },
    { "hidden_size", "embed_dim" },
    { "num_hidden_layers", "depth" },
    { "num_attention_heads", "num_heads" },
    { "num_classes", "num_classes" },
    { "patch_size", "patch_size" },
    { "img_size", "img_size" },
    { "num_register_tokens", "num_reg_tokens" },
};

/* Stores a value as metadata of the checkpoint. A key of the table is replaced by the setting's
 * name, and is left out if its value is empty or is 0 ("of any size" or "none"). Any other key is
 * stored only if it has a dot, because metadata keys without a dot count as settings. */
static bool put_pair(gguf_reader *g, const char *key, const char *value) {
    size_t i;
    for (i = 0; i < sizeof told / sizeof *told; i++)
        if (!strcmp(told[i].key, key)) {
            if (!strcmp(told[i].setting, "depth")) g->blocks = strtol(value, NULL, 10);
            return !strcmp(value, "0") || !*value ||
                   checkpoint_add_metadata(g->c, told[i].setting, value, g->report);
        }
    return !strchr(key, '.') || checkpoint_add_metadata(g->c, key, value, g->report);
}

static bool take_alignment(gguf_reader *g, const char *value) {
    long alignment;
    if (!text_read_int(value, 1, 1 << 16, &alignment) || (alignment & (alignment - 1)))
        return report_fail(g->report,
                           "general.alignment: expected a power of two up to 65536, found %.40s",
                           value);
    g->alignment = (uint64_t)alignment;
    return true;
}

static bool gguf_pair(gguf_reader *g) {
    char key[GGUF_TEXT], value[GGUF_TEXT], class[32];
    uint64_t type;
    if (!gguf_name(g, "a key", key) || !gguf_number(g, 4, &type) ||
        !gguf_value(g, key, type, value))
        return false;
    snprintf(class, sizeof class, "%llu", (unsigned long long)checkpoint_label_count(g->c));
    if (type == GGUF_STRING && !strcmp(key, class))
        return checkpoint_add_label(g->c, value, g->report);
    if (!strcmp(key, "general.alignment") && !take_alignment(g, value)) return false;
    if (!strcmp(key, "general.architecture")) strcpy(g->architecture, value);
    if (!strcmp(key, "clip.projector_type") || !strcmp(key, "clip.vision.projector_type"))
        strcpy(g->projector, value);
    if (!strcmp(key, "clip.use_gelu")) g->has_gelu = !strcmp(value, "true");
    if (!strcmp(key, "clip.use_silu")) g->has_silu = !strcmp(value, "true");
    if (!strcmp(key, "clip.has_vision_encoder") && strcmp(value, "true") != 0)
        return report_fail(g->report, "%s is %.40s: expected an image encoder", key, value);
    return put_pair(g, key, value);
}

/* === The tensors === */

static const char *type_name(uint64_t type) {
    static const char *const names[] = {
        "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
        "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
        "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
        "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
        "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
        "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",
    };
    return type < sizeof names / sizeof *names ? names[type] : "a newer one";
}

static uint64_t align(const gguf_reader *g, uint64_t at) {
    return (at + g->alignment - 1) & ~(g->alignment - 1);
}

/* Reads the list entry of a tensor. *end, relative to the first byte of data, is the end of all
 * earlier tensors' data. *end becomes the end of this tensor's data. */
static bool gguf_tensor(gguf_reader *g, uint64_t *end) {
    char name[GGUF_TEXT];
    checkpoint_tensor_info t;
    uint64_t ndim, dims[4], type, offset, size;
    int i;
    memset(&t, 0, sizeof t);
    if (!gguf_name(g, "a tensor's name", name) || !gguf_number(g, 4, &ndim)) return false;
    if (ndim > 4)
        return report_fail(g->report, "%.200s: found %llu dimensions, expected at most 4", name,
                           (unsigned long long)ndim);
    for (i = 0; i < (int)ndim; i++) {
        if (!gguf_number(g, 8, &dims[i])) return false;
        if (dims[i] > INT64_MAX)
            return report_fail(g->report, "%.200s: the shape is too large", name);
    }
    if (!gguf_number(g, 4, &type) || !gguf_number(g, 8, &offset)) return false;
    if (!strcmp(name, "token_embd.weight"))
        return report_fail(
            g->report, "a language model (%.40s): expected the file of its image encoder (mmproj)",
            g->architecture);
    t.name = name;
    t.ndim = (int)ndim;
    for (i = 0; i < t.ndim; i++) t.dims[i] = (int64_t)dims[t.ndim - 1 - i];
    if (!ggml_find_type((uint32_t)type, &t.dtype))
        return report_fail(g->report, "%.200s: type %llu (%s) cannot be read", name,
                           (unsigned long long)type, type_name(type));
    if (offset != align(g, *end))
        return report_fail(g->report, "%.200s: the data begin at byte %llu, expected %llu", name,
                           (unsigned long long)offset, (unsigned long long)align(g, *end));
    if (!ggml_data_size(&t, &size, g->report)) return false;
    *end = offset + size;
    return ggml_add_tensor(g->c, g->file, offset, size, &t, g->report);
}

static bool gguf_tensors(gguf_reader *g, uint64_t count) {
    uint64_t end = 0, start;
    size_t i;
    if (count > CHECKPOINT_MAX_TENSORS)
        return report_fail(g->report, "more than %d tensors", CHECKPOINT_MAX_TENSORS);
    for (; count > 0; count--)
        if (!gguf_tensor(g, &end)) return false;
    start = align(g, g->at);
    if (end > 0 &&
        (start > g->c->sources[g->file].size || end > g->c->sources[g->file].size - start))
        return report_fail(g->report, "the file ends inside its last tensor");
    for (i = 0; i < g->c->storage_count; i++)
        if (g->c->storages[i].file == g->file) g->c->storages[i].bytes.offset += start;
    return true;
}

/* === Changes after all tensors are listed === */

static const checkpoint_tensor_info *find(const gguf_reader *g, const char *end) {
    const size_t length = strlen(end);
    size_t i;
    for (i = 0; i < g->c->tensor_count; i++) {
        const checkpoint_tensor_info *t = &g->c->tensors[i];
        const size_t size = strlen(t->name);
        if (!strncmp(t->name, "v.", 2) && size >= length && !strcmp(t->name + size - length, end))
            return t;
    }
    return NULL;
}

/* Gives the two layers of each MLP their right names. Files of clip.cpp, and of programs with its
 * names, call the first layer ffn_down. Files of newer programs call it ffn_up. The shapes decide:
 * the first layer reads as many values as a token has. */
static bool name_mlp(gguf_reader *g) {
    const checkpoint_tensor_info *up = find(g, ".ffn_up.weight"), *token = find(g, ".ln2.weight");
    size_t i;
    if (!up || !token || up->ndim != 2 || token->ndim != 1) return true;
    if (up->dims[0] == up->dims[1])
        return report_fail(
            g->report,
            "%.200s: the matrix is square, so its shape does not tell the first layer of the MLP "
            "from the second",
            up->name);
    if (up->dims[0] != token->dims[0]) return true;
    for (i = 0; i < g->c->tensor_count; i++) {
        char name[GGUF_TEXT + 8];
        const char *old = g->c->tensors[i].name, *at = strstr(old, ".ffn_");
        const bool is_up = at && !strncmp(at + 5, "up.", 3);
        if (strncmp(old, "v.", 2) || !at || (!is_up && strncmp(at + 5, "down.", 5))) continue;
        snprintf(name, sizeof name, "%.*s.ffn_%s%s", (int)(at - old), old, is_up ? "down" : "up",
                 at + 5 + (is_up ? 2 : 4));
        if (!checkpoint_rename(g->c, i, name, g->report)) return false;
    }
    return true;
}

/* Checks that a file of Qwen3-VL has the tensor of a second frame, and that no other file has it.
 * Qwen3-VL uses its positions differently from other models, and no other tensor shows this. */
static bool check_frames(const gguf_reader *g) {
    static const char second[] = "v.patch_embd.weight.1";
    const bool is_qwen = !strcmp(g->projector, QWEN3_VL);
    if (is_qwen == (find(g, second + 1) != NULL)) return true;
    return report_fail(g->report,
                       is_qwen
                           ? "%s is missing: every image encoder with clip.projector_type " QWEN3_VL
                             " has this tensor"
                           : "%s: expected clip.projector_type " QWEN3_VL " beside this tensor",
                       second);
}

/* Stores the activation that the file's flags give. If neither flag is set, a file with a class
 * token is CLIP's, which uses quick_gelu. A file without one is SigLIP's. For SigLIP nothing is
 * stored, because older writers had no name for its activation. */
static bool put_activation(gguf_reader *g) {
    const char *word = g->has_silu             ? "silu"
                       : g->has_gelu           ? find_projector(g)->is_tanh ? "gelu_tanh" : "gelu"
                       : find(g, "class_embd") ? "quick_gelu"
                                               : NULL;
    if (g->has_silu && g->has_gelu)
        return report_fail(g->report, "clip.use_gelu and clip.use_silu exclude each other");
    return !word || strcmp(g->architecture, "clip") != 0 ||
           checkpoint_add_metadata(g->c, "activation", word, g->report);
}

/* Renames the blocks from index block_count on. The language model does not read their results, so
 * they do not belong to the image encoder. */
static bool name_later_blocks(gguf_reader *g) {
    static const char path[] = "v.blk.";
    size_t i;
    for (i = 0; g->blocks > 0 && i < g->c->tensor_count; i++) {
        char name[GGUF_TEXT + 8];
        const char *old = g->c->tensors[i].name;
        if (strncmp(old, path, sizeof path - 1) ||
            strtol(old + sizeof path - 1, NULL, 10) < g->blocks)
            continue;
        snprintf(name, sizeof name, "later.%s", old + 2);
        if (!checkpoint_rename(g->c, i, name, g->report)) return false;
    }
    return true;
}

bool gguf_open(checkpoint *c, size_t file, report *r) {
    gguf_reader *g = calloc(1, sizeof *g);
    uint64_t version = 0, tensors = 0, pairs = 0;
    bool good;
    if (!g) return report_no_memory(r);
    g->c = c;
    g->file = file;
    g->at = 4;
    g->report = r;
    g->alignment = 32;
    good = gguf_number(g, 4, &version);
    if (good && version != 2 && version != 3)
        good = report_fail(r, "GGUF: expected version 2 or 3, little-endian, found %llu",
                           (unsigned long long)version);
    good = good && gguf_number(g, 8, &tensors) && gguf_number(g, 8, &pairs);
    if (good && pairs > GGUF_MAX_PAIRS)
        good = report_fail(r, "found %llu key-value pairs, expected at most %d",
                           (unsigned long long)pairs, GGUF_MAX_PAIRS);
    for (; good && pairs > 0; pairs--) good = gguf_pair(g);
    good = good && check_projector(g) && gguf_tensors(g, tensors) && check_frames(g) &&
           name_mlp(g) && name_later_blocks(g) && put_activation(g);
    free(g);
    return good;
}

/* === Blocks of 256 values === */

/* Multiplies *scale and *minimum by the two factors of the i-th eighth of a block. Each factor has
 * 6 bits. For the last four eighths, the 6 bits are split over two bytes. */
static void unpack_scale(const uint8_t *packed, int i, float *scale, float *minimum) {
    const int low = i < 4 ? packed[i] & 63 : (packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4;
    const int high = i < 4 ? packed[i + 4] & 63 : packed[i + 4] >> 4 | (packed[i] >> 6) << 4;
    *scale *= (float)low;
    *minimum *= (float)high;
}

/* Unpacks a block of Q4_K or, if has_fifth is true, of Q5_K. A block begins with a scale and a
 * minimum as half-precision numbers. 12 bytes of factors for the scale and the minimum follow. In
 * Q5_K, the next 32 bytes are the fifth bits of the values. Each of the remaining bytes holds 4
 * bits of a value of an even eighth and 4 bits of a value of the next, odd eighth. */
static void unpack_4_or_5(bool has_fifth, const uint8_t *raw, float *values) {
    const uint8_t *fifth = raw + 16;
    int i, j;
    for (i = 0; i < 8; i++) {
        const uint8_t *quants = raw + 16 + (has_fifth ? 32 : 0) + i / 2 * 32;
        float scale = bytes_half(bytes_load16(raw)), minimum = bytes_half(bytes_load16(raw + 2));
        unpack_scale(raw + 4, i, &scale, &minimum);
        for (j = 0; j < 32; j++) {
            const int q = (quants[j] >> i % 2 * 4 & 15) +
                          (has_fifth ? (fifth[j] >> i & 1) * 16 : 0);
            values[32 * i + j] = scale * (float)q - minimum;
        }
    }
}

/* Unpacks a block of Q6_K. A block has 128 bytes with the low 4 bits of the values and 64 bytes
 * with their 2 high bits. 16 factors follow, each for 16 values, and then the scale. */
static void unpack_6(const uint8_t *raw, float *values) {
    const float scale = bytes_half(bytes_load16(raw + 208));
    int i;
    for (i = 0; i < 256; i++) {
        const int half = i / 128, quarter = i / 32 % 4, j = i % 32;
        const int low = raw[half * 64 + quarter % 2 * 32 + j] >> quarter / 2 * 4 & 15;
        const int high = raw[128 + half * 32 + j] >> quarter * 2 & 3;
        const float factor = (float)bytes_signed(raw[192 + i / 16], 1);
        values[i] = scale * factor * (float)((low | high << 4) - 32);
    }
}

void gguf_unpack_block(checkpoint_dtype dtype, const uint8_t *raw, float *values) {
    if (dtype == CHECKPOINT_Q6_K) unpack_6(raw, values);
    else unpack_4_or_5(dtype == CHECKPOINT_Q5_K, raw, values);
}
