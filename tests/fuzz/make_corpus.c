/* make_corpus.c - makes the seeds of the fuzzers: small valid files of every kind.
 *
 *     make_corpus tests/data FOLDER
 *
 * writes FOLDER/vit/..., FOLDER/pickle/... and so on. It makes models, pickles, arrays and labels,
 * and copies images, archives and configurations from tests/data.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <sys/stat.h>

#define VIT_TOOLS
#include "vit.h"

#include "../tar_writer.h"
#include "../tiny_model.h"
#include "base/source.h"
#include "text/token_plan.h"
#include "base/report.h"
#include "checkpoint/zip.h"
#include "fuzz_zip.h"

enum { MAX_SEED = 1 << 16 };

static const char *out_folder;
static int written;

/* --- writing ----------------------------------------------------------------- */

/* Writes a seed of the fuzzer. If `before` is not negative, it is the byte of switches at the start
 * of the seed. */
static void write_seed(const char *fuzzer, int before, const void *data, size_t size) {
    char path[512];
    const uint8_t first = (uint8_t)before;
    snprintf(path, sizeof path, "%s/%s", out_folder, fuzzer);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/seed%04d", out_folder, fuzzer, written++);
    FILE *file = fopen(path, "wb");
    if (!file || (before >= 0 && fwrite(&first, 1, 1, file) != 1) ||
        fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        printf("%s cannot be written\n", path);
        exit(1);
    }
}

/* Writes a seed of fuzz_web: eight numbers, then the file. */
static void write_web_seed(const tiny_file *f) {
    static const uint8_t numbers[8] = { 4 | 64, 7, 5, 1, 2, 3, 2, 0 };
    uint8_t *data = malloc(sizeof numbers + f->size);
    if (!data) exit(1);
    memcpy(data, numbers, sizeof numbers);
    memcpy(data + sizeof numbers, f->data, f->size);
    write_seed("web", -1, data, sizeof numbers + f->size);
    free(data);
}

/* --- models ------------------------------------------------------------------ */

static tiny_options smallest(void) {
    tiny_options o = tiny_defaults();
    vit_config *c = &o.config;
    c->img_height = c->img_width = 4;
    c->patch_size = 2;
    c->embed_dim = c->head_dim = c->mlp_dim = 4;
    c->num_heads = c->depth = 1;
    c->num_classes = 2;
    c->resize_height = c->resize_width = 5;
    return o;
}

#define VARIANT_LIST(X)                                                                            \
    X(c->num_classes = 2)                                                                          \
    X(o.labels = o.synsets = 1)                                                                    \
    X(o.mixed = 1)                                                                                 \
    X(o.dtype = VIT_I8)                                                                            \
    X((o.dtype = VIT_I8, o.fits16 = 1))                                                            \
    X(o.dtype = VIT_BF16)                                                                          \
    X((o.dtype = VIT_F16, c->has_layer_scale = c->has_qk_norm = 1))                                \
    X((o.dtype = VIT_I4, c->embed_dim = 32))                                                       \
    X(c->num_classes = 0)                                                                          \
    X(c->has_dist_token = 1)                                                                       \
    X(c->num_reg_tokens = 2)                                                                       \
    X((c->dynamic_img_size = 1, c->img_height = c->img_width = 8))                                 \
    X(c->rope = VIT_ROPE_HALVES)                                                                   \
    X((c->pool = VIT_POOL_MAP, c->pool_num_heads = 1))                                             \
    X((c->norm_type = VIT_RMS_NORM, c->has_gated_mlp = 1))                                         \
    X(c->has_rel_pos = 1)                                                                          \
    X(c->block_type = VIT_BLOCK_PARALLEL)                                                          \
    X((c->stem = VIT_STEM_CONV, c->stem_width = 2, c->patch_size = 8, c->img_height = 16,          \
       c->img_width = 16))                                                                         \
    X((o.extra_section = "mine", o.extra_field = "my_field"))

static void write_model(const tiny_options *options) {
    tiny_options o = *options;
    char detail[VIT_MAX_DETAIL];
    if (vit_config_check(&o.config, detail) != VIT_OK) {
        printf("a seed is no model: %s\n", detail);
        exit(1);
    }
    tiny_file f = tiny_build(&o);
    write_seed("vit", 0, f.data, f.size);
    write_seed("vit", 4 | 8, f.data, f.size);       /* verified and run, ... */
    write_seed("vit", 8 | 16 | 32, f.data, f.size); /* ... with little memory, resized */
    write_web_seed(&f);
    tiny_free(&f);
}

static void write_models(void) {
#define VARIANT(change)                                                                            \
    {                                                                                              \
        tiny_options o = smallest();                                                               \
        vit_config *c = &o.config;                                                                 \
        (void)(change);                                                                            \
        (void)c;                                                                                   \
        write_model(&o);                                                                           \
    }
    VARIANT_LIST(VARIANT)
#undef VARIANT
}

/* --- arrays ------------------------------------------------------------------- */

static void write_npy(const char *descr, bool fortran, const char *shape, size_t bytes) {
    uint8_t file[512] = "\x93NUMPY\x01";
    char header[128];
    int length = snprintf(header, sizeof header,
                          "{'descr': '%s', 'fortran_order': %s, 'shape': "
                          "%s, }",
                          descr, fortran ? "True" : "False", shape);
    while ((length + 11) % 64 != 0) header[length++] = ' ';
    header[length++] = '\n';
    fuzz_put(file + 8, (uint64_t)length, 2);
    memcpy(file + 10, header, (size_t)length);
    write_seed("npz", -1, file, 10 + (size_t)length + bytes);
}

static void write_arrays(void) {
    static const struct {
        const char *descr;
        size_t size;
    } types[] = {
        { "<f4", 4 }, { ">f4", 4 }, { "<f2", 2 }, { "<f8", 8 },  { "<i8", 8 }, { "|u1", 1 },
        { "|b1", 1 }, { "|V2", 2 }, { "<u2", 2 }, { "<U3", 12 }, { "|O", 8 },
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        write_npy(types[i].descr, false, "(2, 3)", 6 * types[i].size);
        write_npy(types[i].descr, true, "(3,)", 3 * types[i].size);
    }
    write_npy("<f4", false, "()", 4);
    write_npy("<f4", false, "(0, 7)", 0);
}

/* --- pickles ------------------------------------------------------------------ */

#define FLOATS                                                                                     \
    "(U\7storagectorch\nFloatStorage\nU\1"                                                         \
    "0U\3cpuK\4NtQ"
#define TENSOR "ctorch._utils\n_rebuild_tensor_v2\n(" FLOATS "K\1K\3\x85K\1\x85\x89NtR"
#define SEED(text)                                                                                 \
    { text, sizeof(text) - 1 }

/* Nested modules with attributes, an array of NumPy, and a storage as bytes. */
#define FLOAT4 "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40"
#define ARRAY                                                                                      \
    "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85"                              \
    "C\1btR(K\1K\2K\2\x86"                                                                         \
    "cnumpy\ndtype\nU\2"                                                                           \
    "f4\x89\x88\x87R"                                                                              \
    "(K\3U\1<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89"                                       \
    "C\x10" FLOAT4 "tb"
#define NESTED                                                                                     \
    "ctorch.storage\n_load_from_bytes\nC\x67"                                                      \
    "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.\x80\2}."                \
    "\x80\2" FLOATS ".\x80\2]U\1"                                                                  \
    "0a."                                                                                          \
    "\4\0\0\0\0\0\0\0" FLOAT4 "\x85R"
#define LAYER                                                                                      \
    "ctorch.nn\nLayer\n)\x81}(U\x0b_parameters}U\6weightctorch._utils\n_rebuild_parameter\n"       \
    "(" TENSOR "\x88NtRsU\x08_buffers}U\1b" TENSOR "sU\x1b_non_persistent_buffers_set"             \
    "c__builtin__\nset\n]U\1ba\x85RU\x08_modules}U\x03numK\2"                                      \
    "U\3"                                                                                          \
    "epsG\x3e\xe4\xf8\xb5\x88\xe3\x68\xf1"                                                         \
    "U\4sizeK\4K\4\x86"                                                                            \
    "U\3"                                                                                          \
    "actcfunctools\npartial\nctorch\ngelu\n\x85R"                                                  \
    "(ctorch\ngelu\n)}U\x0b"                                                                       \
    "approximateU\4tanhsNtbub"
#define MODULE                                                                                     \
    "cmy\nModel\n)\x81}(U\x0b_parameters}U\x08_modules}U\6"                                        \
    "blocksctorch.nn\nList\n)\x81}("                                                               \
    "U\x0b_parameters}U\x08_modules}(U\1"                                                          \
    "0" LAYER "U\1"                                                                                \
    "1" LAYER "uubsub"

static void write_pickles(void) {
    static const struct {
        const char *text;
        size_t size;
    } seeds[] = {
        SEED("\x80\2}U\1t" TENSOR "s."),
        SEED("\x80\2ccollections\nOrderedDict\n)R(U\1t" TENSOR "U\1u" TENSOR "u."),
        SEED("\x80\2}U\5modelq\0}q\1U\1t" TENSOR "q\2sh\2."),
        SEED("\x80\2}(U\5epochK\7U\4args}U\2lrG\x3f\xb9\x99\x99\x99\x99\x99\x9as"
             "U\nstate_dict}U\1t" TENSOR "su."),
        SEED("\x80\4\x95\4\0\0\0\0\0\0\0}\x94\x8c\1a\x94K\1s."),
        SEED("\x80\2](K\1M\2\1J\3\0\1\0\x8a\2\1\2\x88\x89NX\2\0\0\0abT\1\0\0\0xe."),
        SEED("\x80\2]\x94(K\1K\2\x86K\1K\2K\3\x87\x85"
             "0e2."),
        SEED("\x80\2" MODULE "."),
        SEED("\x80\2}(U\5model" MODULE "U\3"
             "ema}U\1t" TENSOR "sU\4"
             "args}U\5headsK\2su."),
        SEED("\x80\2}U\1a" ARRAY "s."),
        SEED("\x80\2}U\1tctorch._utils\n_rebuild_tensor_v2\n(" NESTED "K\0K\4\x85K\1\x85\x89NtRs."),
        SEED("(dp0\nVt\np1\nctorch._utils\n_rebuild_tensor_v2\n(" FLOATS "I1\n(I3\ntp2\n(L1L\nt"
             "I00\nNtRsS'\\x61\\n'\nF1e-5\nsVx\\u00e9\n(K\1imy\nOld\n}bsg1\n(cmy\nOld\no0."),
        SEED("(dS'a'\n"
             "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
             "(I1\n(I2\ntcnumpy\ndtype\n(S'f4'\nI00\nI01\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb"
             "I00\nS'\\x00\\x00\\x80?\\x00\\x00\\x00@'\ntbs."),
    };
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        for (int container = 0; container < 4; container++)
            write_seed("pickle", container, seeds[i].text, seeds[i].size);
}

/* --- vit.cpp ------------------------------------------------------------------ */

static void write_ggml(uint32_t type, size_t bytes) {
    static const char name[] = "head.weight";
    uint8_t file[512] = "lmgg";
    size_t at = 32;
    for (size_t i = 4; i < 32; i++) file[i] = i % 4 == 0;
    fuzz_put(file + at, 1, 4); /* one label, "cat", of class 0 */
    fuzz_put(file + at + 4, 0, 4);
    fuzz_put(file + at + 8, 3, 4);
    memcpy(file + at + 12, "cat", 3);
    at += 15;
    fuzz_put(file + at, 2, 4); /* [2, 32] */
    fuzz_put(file + at + 4, sizeof name - 1, 4);
    fuzz_put(file + at + 8, type, 4);
    fuzz_put(file + at + 12, 32, 4);
    fuzz_put(file + at + 16, 2, 4);
    memcpy(file + at + 20, name, sizeof name - 1);
    write_seed("ggml", -1, file, at + 20 + sizeof name - 1 + bytes);
}

static void write_ggmls(void) {
    static const struct {
        uint32_t type;
        size_t block;
    } types[] = {
        { 0, 128 }, { 1, 64 }, { 2, 18 }, { 3, 20 }, { 6, 22 }, { 7, 24 }, { 8, 34 },
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        write_ggml(types[i].type, 2 * types[i].block);
}

/* --- GGUF ---------------------------------------------------------------------- */

static size_t put_gguf_text(uint8_t *to, const char *text) {
    fuzz_put(to, strlen(text), 8);
    memcpy(to + 8, text, strlen(text));
    return 8 + strlen(text);
}

/* Writes a GGUF file with a pair of each type. It has two tensors: a bias of shape [1, 2], and a
 * weight of shape [2, row] and of type `type`. */
static void write_gguf(uint32_t type, uint64_t row, size_t bytes) {
    static const struct {
        const char *key;
        uint32_t type, size;
    } pairs[] = {
        { "clip.vision.block_count", 4, 4 },
        { "clip.vision.attention.layer_norm_epsilon", 6, 4 },
        { "clip.use_gelu", 7, 1 },
        { "num_classes", 10, 8 },
        { "a.signed", 5, 4 },
        { "a.double", 12, 8 },
    };
    static const char *const texts[][2] = {
        { "general.architecture", "clip" },
        { "clip.projector_type", "mlp" },
        { "0", "cat" },
    };
    enum { PAIRS = sizeof pairs / sizeof *pairs, TEXTS = sizeof texts / sizeof *texts };
    uint8_t file[2048] = "GGUF";
    size_t at = 24, i;
    fuzz_put(file + 4, 3, 4);
    fuzz_put(file + 8, 2, 8);
    fuzz_put(file + 16, PAIRS + TEXTS + 2, 8);
    for (i = 0; i < PAIRS; i++) {
        at += put_gguf_text(file + at, pairs[i].key);
        fuzz_put(file + at, pairs[i].type, 4);
        file[at + 4] = 1;
        at += 4 + pairs[i].size;
    }
    for (i = 0; i < TEXTS; i++) {
        at += put_gguf_text(file + at, texts[i][0]);
        fuzz_put(file + at, 8, 4);
        at += 4;
        at += put_gguf_text(file + at, texts[i][1]);
    }
    at += put_gguf_text(file + at, "clip.vision.image_mean");
    fuzz_put(file + at, 9, 4);
    fuzz_put(file + at + 4, 6, 4);
    fuzz_put(file + at + 8, 3, 8);
    at += 16 + 12;
    at += put_gguf_text(file + at, "tokenizer.ggml.tokens");
    fuzz_put(file + at, 9, 4);
    fuzz_put(file + at + 4, 8, 4);
    fuzz_put(file + at + 8, 2, 8);
    at += 16;
    at += put_gguf_text(file + at, "a");
    at += put_gguf_text(file + at, "b");
    at += put_gguf_text(file + at, "v.patch_embd.bias");
    fuzz_put(file + at, 2, 4); /* [1, 2] */
    fuzz_put(file + at + 4, 2, 8);
    fuzz_put(file + at + 12, 1, 8);
    fuzz_put(file + at + 20, 0, 4);
    at += 32;
    at += put_gguf_text(file + at, "v.blk.0.ffn_up.weight");
    fuzz_put(file + at, 2, 4);
    fuzz_put(file + at + 4, row, 8);
    fuzz_put(file + at + 12, 2, 8);
    fuzz_put(file + at + 20, type, 4);
    fuzz_put(file + at + 24, 32, 8);
    at = (at + 32 + 31) / 32 * 32;
    write_seed("ggml", -1, file, at + 32 + bytes);
}

static void write_ggufs(void) {
    static const struct {
        uint32_t type;
        uint64_t row;
        size_t block;
    } types[] = {
        { 0, 3, 12 },     { 1, 3, 6 },      { 30, 3, 6 },     { 2, 32, 18 },
        { 3, 32, 20 },    { 6, 32, 22 },    { 7, 32, 24 },    { 8, 32, 34 },
        { 12, 256, 144 }, { 13, 256, 176 }, { 14, 256, 210 },
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        write_gguf(types[i].type, types[i].row, 2 * types[i].block);
}

/* --- texts and numbers --------------------------------------------------------- */

static void write_labels(void) {
    static const char *const texts[] = {
        "cat\ndog\n",
        "n01440764 tench, Tinca tinca\nn01443537 goldfish\n",
        "\xef\xbb\xbf\145ins\r\n",
        "n01440764\nn01443537\n",
        "K\xc3\xa4tzchen\n\xe7\x8c\xab\n",
        "one\n\n\n",
        "a\tb \n c\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        write_seed("labels", -1, texts[i], strlen(texts[i]));
}

/* === tokenizers: a small one of each algorithm, with a step of each kind; the small files === */

static void take_tokens(const char *path, int kind) {
    static const char text[] = "a Cat &amp; \xce\xa3!";
    unsigned char *data;
    size_t size;
    report r = report_make();
    if (!source_read_all(path, 7000, &data, &size, &r)) exit(1);
    if (size <= 7000) {
        data = realloc(data, size + sizeof text);
        if (!data) exit(1);
        memcpy(data + size, text, sizeof text - 1);
        write_seed("tokens", kind | (int)(sizeof text - 1) << 2, data, size + sizeof text - 1);
    }
    free(data);
}

static void write_tokens(int algorithm, uint32_t kind) {
    static const char text[] = "ab &#65; a<x> e\xcc\x81 b\xce\xa3 \xe2\x96\x81"
                               "aab";
    static const char *const pieces[] = { "a", "b",     "ab",   "aab", "\xe2\x96\x81",
                                          "e", "b\xff", "a\xff" };
    tokenizer_blob blob;
    report r = report_make();
    tplan p;
    tplan_start(&p);
    p.algorithm = algorithm;
    p.flags = TPLAN_FUSES;
    p.context = 16;
    p.num_ids = 40;
    p.begin = 30;
    p.end = 31;
    p.unknown = 32;
    for (uint32_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const float score = -1.0f - (float)i;
        uint32_t bits;
        memcpy(&bits, &score, 4);
        tplan_add(&p, &p.pieces, pieces[i], strlen(pieces[i]), bits, i);
        if (i == 2 || i == 3) tplan_add(&p, &p.merges, pieces[i], strlen(pieces[i]), i, i - 1);
    }
    tplan_add(&p, &p.words, "'s", 2, UINT32_MAX, 0);
    tplan_add(&p, &p.raw, "<x>", 3, 33, 0);
    tplan_add(&p, &p.cleaned, "!", 1, 34, 0);
    tplan_step_replace(&p, &p.first, "e\xcc\x81", "\xc3\xa9");
    tplan_step_collapse_spaces(&p, &p.steps, 1);
    tplan_step_prepend(&p, &p.steps, "\xe2\x96\x81", true);
    p.first.rows[0][0] = kind;
    if (!tplan_write(&p, &blob, &r)) exit(1);
    blob.data[16] = (unsigned char)(kind % 3); /* splits words without the large table */
    if (blob.size < 8000) {
        unsigned char *data = realloc(blob.data, blob.size + sizeof text);
        if (!data) exit(1);
        memcpy(data + blob.size, text, sizeof text - 1);
        write_seed("tokens", (int)(sizeof text - 1) << 2, data, blob.size + sizeof text - 1);
        blob.data = data;
    }
    free(blob.data);
    tplan_free(&p);
}

static void write_all_tokens(const char *tests_data) {
    static const struct {
        const char *name;
        int kind;
    } files[] = { { "siglip/spiece.model", 1 }, { "bpe.txt", 3 }, { "bpe.txt.gz", 3 } };
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"}]},\"pre_tokenizer\":null,"
        "\"added_tokens\":[{\"id\":7,\"content\":\"<x>\",\"normalized\":false}],\"post_processor\":{"
        "\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{"
        "\"id\":\"<x>\"}}],\"special_tokens\":{\"<x>\":{\"ids\":[7]}}},\"model\":{\"type\":\"BPE\","
        "\"unk_token\":\"u\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"u\":3},\"merges\":[\"a b\"]}}ab <x>";
    char path[512];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/tokens/%s", tests_data, files[i].name);
        take_tokens(path, files[i].kind);
    }
    write_seed("tokens", 2 | 6 << 2, json, sizeof json - 1);
    for (int algorithm = 0; algorithm < 3; algorithm++)
        for (uint32_t kind = 1; kind <= 6; kind++) {
            write_tokens(algorithm, kind);
            write_tokens(algorithm, kind | 1 << 8);
        }
}

static void write_jsons(void) {
    static const char *const texts[] = {
        "{\"a\": [1, -2.5e3, true, false, null, \"\\u00e4\\n\"], \"b\": {}}",
        "[[[[[[]]]]]]",
        "\"\\ud83d\\ude00\"",
        "[0.1, 1e308, -0, 9223372036854775807, 9223372036854775808]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (int unique = 0; unique < 2; unique++)
            write_seed("json", unique, texts[i], strlen(texts[i]));
}

static void write_numbers(void) {
    uint32_t state = 1;
    for (int i = 0; i < 24; i++) {
        uint8_t bytes[256];
        for (size_t k = 0; k < sizeof bytes; k++) {
            state = state * 1664525u + 1013904223u;
            bytes[k] = (uint8_t)(state >> 24);
        }
        write_seed("preprocess", -1, bytes, sizeof bytes);
    }
}

/* --- archives of photos ---------------------------------------------------------- */

static void write_archive(tar_writer *t) {
    tar_writer_end(t);
    write_seed("tar", -1, t->bytes, t->size);
    tar_writer_free(t);
}

static void write_archives(void) {
    tar_writer t = { NULL, 0, 0 };
    size_t at;
    for (const char *type = "0L12345678xgKSV"; *type; type++) {
        (void)tar_writer_header(&t, *type, "a/1.jpg", 0);
        write_archive(&t);
    }
    tar_writer_text(&t, "a/1.jpg", "image");
    tar_writer_text(&t, "a/1.txt", "caption");
    tar_writer_text(&t, "a/1.cls", "7");
    tar_writer_text(&t, "a/1.json", "{\"caption\": \"a\", \"url\": \"b\", \"label\": 3}");
    tar_writer_text(&t, "a/2.left.png", "image");
    tar_writer_text(&t, "a/2.right.png", "image");
    write_archive(&t);
    tar_writer_before(&t, 'L', "long/name.jpg", 14);
    tar_writer_text(&t, "short", "1");
    tar_writer_pax(&t, "path=of/pax.jpg");
    tar_writer_text(&t, "short", "1");
    tar_writer_pax(&t, "size=5");
    tar_writer_text(&t, "5.jpg", "12345");
    tar_writer_pax(&t, "GNU.sparse.major=1");
    tar_writer_text(&t, "sparse.jpg", "12345");
    write_archive(&t);
    at = tar_writer_header(&t, 'S', "old.jpg", 3);
    t.bytes[at + 482] = 1;
    tar_writer_grow(&t, 512)[504] = 1;
    (void)tar_writer_grow(&t, 512);
    tar_writer_data(&t, "123", 3);
    at = tar_writer_header(&t, '0', "binary.jpg", 0);
    memcpy(t.bytes + at + 124, "\x80\0\0\0\0\0\0\0\0\0\0\3", 12);
    tar_writer_data(&t, "123", 3);
    at = tar_writer_header(&t, '0', "c.jpg", 0);
    memcpy(t.bytes + at + 345, "prefix", 6);
    write_archive(&t);
}

/* --- the tests' own files ------------------------------------------------------- */

/* The class is called M, as in the archive of fuzz_script.c. */
static void write_script(const uint8_t *code, size_t size) {
    char text[MAX_SEED] = "class M";
    const uint8_t *bracket = memchr(code, '(', size);
    if (!bracket) return;
    size -= (size_t)(bracket - code);
    if (size > sizeof text - 8) return;
    memcpy(text + 7, bracket, size);
    write_seed("script", 0, text, size + 7);
    write_seed("script", 1, text, size + 7);
}

static void take_file(const char *fuzzer, int before, const char *path) {
    static uint8_t bytes[MAX_SEED];
    FILE *file = fopen(path, "rb");
    if (!file) return;
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    if (size > 0 && size < sizeof bytes) write_seed(fuzzer, before, bytes, size);
}

/* Writes data.pkl of an archive, and the code of TorchScript. */
static void take_pickle(const char *path) {
    report r = report_make();
    source s;
    zip_archive zip;
    if (!source_open_file(&s, path, &r)) return;
    if (zip_open(&zip, &s, &r)) {
        for (size_t i = 0; i < zip.count; i++) {
            const zip_entry *e = &zip.entries[i];
            uint8_t *bytes = malloc((size_t)e->size + 1);
            if (bytes && strstr(e->name, "data.pkl") && zip_read(&s, e, bytes, &r))
                write_seed("pickle", 0, bytes, (size_t)e->size);
            if (bytes && strstr(e->name, "/code/") && zip_read(&s, e, bytes, &r))
                write_script(bytes, (size_t)e->size);
            free(bytes);
        }
        zip_close(&zip);
    }
    source_close(&s);
}

static bool ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), size = strlen(end);
    return length >= size && strcmp(name + length - size, end) == 0;
}

static void take_checkpoint(const char *path) {
    if (ends_with(path, ".safetensors")) {
        take_file("safetensors", 0, path);
        take_file("safetensors", 1, path);
    } else if (ends_with(path, ".pt")) {
        take_file("zip", -1, path);
        take_pickle(path);
    }
}

static void take_onnx(const char *path) { take_file("onnx", -1, path); }

static void take_image(const char *path) { take_file("image", -1, path); }

static void take_config(const char *path) {
    char file[700];
    snprintf(file, sizeof file, "%.600s/config.json", path);
    take_file("json", 2, file);
    snprintf(file, sizeof file, "%.600s/open_clip_config.json", path);
    take_file("json", 2, file);
}

static void take_code(const char *path) {
    char file[700];
    snprintf(file, sizeof file, "%.600s/model.py", path);
    take_file("code", 0, file);
    snprintf(file, sizeof file, "%.600s/Train.ipynb", path);
    take_file("code", 1, file);
}

/* Calls `take` for each file in tests/data/NAME. */
static void take_all(const char *data, const char *name, void (*take)(const char *path)) {
    char path[600];
    struct dirent **entries = NULL;
    snprintf(path, sizeof path, "%.200s/%s", data, name);
    const int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%.200s/%s/%.255s", data, name, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') take(path);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        printf("usage: make_corpus tests/data FOLDER\n");
        return 2;
    }
    out_folder = argv[2];
    mkdir(out_folder, 0777);
    write_models();
    write_arrays();
    write_pickles();
    write_ggmls();
    write_ggufs();
    write_labels();
    write_jsons();
    write_all_tokens(argv[1]);
    write_numbers();
    write_archives();
    take_all(argv[1], "checkpoints", take_checkpoint);
    take_all(argv[1], "modules", take_checkpoint);
    take_all(argv[1], "onnx/seeds", take_onnx);
    take_all(argv[1], "images", take_image);
    take_all(argv[1], "layouts", take_config);
    take_all(argv[1], "coverage", take_config);
    take_all(argv[1], "code", take_code);
    printf("%d seeds\n", written);
    return 0;
}
