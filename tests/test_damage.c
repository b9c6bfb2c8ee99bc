/* test_damage.c - damages a checkpoint of every layout in many ways. The file is cut, bits are
 * flipped, and keys are shuffled, renamed, removed, repeated or wrapped. Shapes and types are
 * changed, and two models are written into one file. The damaged file must give the same model as
 * before, or must be refused by one line with the file and the reason. A refusal must leave no
 * other file. tests/data/layouts/cases.txt lists the cases.
 *
 *     test_damage tests/data [SHARE [CASE...]]
 *
 * With a SHARE above 1, each case tries only every SHARE-th damage. Each case starts at a different
 * damage.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/report.h"
#include "base/text.h"
#include "conversion.h"
#include "convert/conversion.h"
#include "os/os.h"
#include "test.h"
#define VIT_TOOLS
#include "vit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { TRUNCATIONS = 1000, FLIPS = 100, SHUFFLES = 3, MAX_OPTIONS = 24 };

/* One line of cases.txt. */
typedef struct damage_case {
    char name[64], file[64];
    /* The options of the conversion. This text is cut into words. */
    char options[512];
    const char *set[MAX_OPTIONS];
    /* The number of words that follow --set. */
    int set_count;
    char twin_options[512];
    /* Options that replace the metadata of a GGUF file, because changed files have no metadata. */
    const char *told[MAX_OPTIONS];
    int told_count;
    const char *rename_items[MAX_OPTIONS];
    text_list rename;
    const char *img_size, *arch, *weights;
    /* If true, even the undamaged file must be refused, and only cuts and flips are tried. */
    bool refused;
} damage_case;

/* The result of a conversion. */
typedef struct outcome {
    bool good;
    /* A hash of the settings and the tensors. */
    uint64_t signature;
    /* The message of the refusal. */
    char text[REPORT_SIZE];
    int num_heads;
    const char *layout;
} outcome;

/* The damages of a case are numbered. The test tries the numbers `chosen`, `chosen` + `share`,
 * `chosen` + 2 `share` and so on. */
static int share = 1, chosen;
static uint32_t random_state;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(random_state >> 8) * n) >> 24);
}

/* === A folder to work in === */

static char folder[64];
/* The paths of the damaged file and of the output in the folder. */
static char damaged[160], output[160];
/* The number of files in the folder before the test writes the damaged file. */
static int files_beside;

static void path_of(char path[160], const char *name) {
    snprintf(path, 160, "%s/%s", folder, name);
}

static unsigned char *read_whole(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    long length;
    *size = 0;
    if (!file) return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0) {
        rewind(file);
        bytes = malloc((size_t)length + 1);
        *size = bytes ? fread(bytes, 1, (size_t)length, file) : 0;
    }
    fclose(file);
    return bytes;
}

static void write_whole(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size);
    if (file) fclose(file);
}

static int count_files(bool remove_them) {
    DIR *directory = opendir(folder);
    struct dirent *entry;
    char path[160];
    int count = 0;
    if (!directory) return -1;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        count++;
        snprintf(path, sizeof path, "%s/%.80s", folder, entry->d_name);
        if (remove_them) unlink(path);
    }
    closedir(directory);
    return count;
}

static void copy_beside(const char *data, const damage_case *t, const char *name) {
    char path[512], to[160];
    size_t size;
    unsigned char *bytes;
    snprintf(path, sizeof path, "%s/layouts/%s/%s", data, t->name, name);
    bytes = read_whole(path, &size);
    path_of(to, name);
    if (bytes) write_whole(to, bytes, size);
    free(bytes);
}

/* === Conversions === */

static uint64_t signature_of(const char *path) {
    vit_model model;
    vit_tensor tensor;
    vit_hash hash;
    const vit_result opened = vit_model_open(path, VIT_OPEN_VERIFY, &model);
    int i;
    CHECK_MSG(opened == VIT_OK, "%s: %s", path, model.detail);
    if (opened) return 0;
    vit_hash_init(&hash);
#define X(type, field, kind, smallest, largest)                                                    \
    vit_hash_update(&hash, &model.config.field, sizeof model.config.field);
    VIT_FIELD_LIST(X)
#undef X
    for (i = 0; vit_model_tensor(&model, i, &tensor); i++)
        vit_hash_update(&hash, &tensor.checksum, sizeof tensor.checksum);
    vit_model_close(&model);
    return vit_hash_final(&hash);
}

static bool parse_options(const damage_case *t, int num_heads, settings *s, report *r) {
    int i;
    settings_start(s, "--img-size");
    if (t->img_size && !settings_parse_size(s, t->img_size, r)) return false;
    s->origin = "--set";
    for (i = 0; i < t->set_count; i++)
        if (!settings_parse(s, t->set[i], r)) return false;
    if (num_heads > 0) settings_put(s, SETTING_NUM_HEADS, num_heads);
    settings_put(s, SETTING_SELFTEST_TOLERANCE, 0);
    return true;
}

/* Converts the damaged file in the folder, and checks the rules that every result must obey. */
static void convert_damaged(const damage_case *t, int num_heads, const char *what, outcome *o) {
    report r = report_make();
    convert_options options;
    conversion *c = calloc(1, sizeof *c);
    memset(&options, 0, sizeof options);
    o->text[0] = '\0';
    o->signature = 0;
    o->good = false;
    if (!c) return;
    options.checkpoint = damaged;
    options.output = output;
    options.arch = t->arch;
    options.weights = t->weights;
    options.rename = t->rename;
    options.quiet = true;
    o->good = parse_options(t, num_heads, &options.given, &r) && convert_run(&options, c, &r);
    o->num_heads = c->blueprint.model.config.num_heads;
    o->layout = c->blueprint.facts.map.layout ? c->blueprint.facts.map.layout->name : "";
    memcpy(o->text, r.text, sizeof o->text);
    convert_free(c);
    free(c);
    if (o->good) {
        o->signature = signature_of(output);
        unlink(output);
    } else if (strncmp(o->text, folder, strlen(folder)) || !is_refusal(o->text) || !r.failed) {
        if (t->refused && !strncmp(o->text, "--", 2)) return; /* This message is about an option. */
        CHECK_MSG(false, "%s, %s: no refusal that names the file: %s", t->name, what, o->text);
    }
    CHECK_MSG(count_files(false) == files_beside + 1, "%s, %s: left something", t->name, what);
}

/* === Options left out === */

static bool names_option(const char *text, const char *assignment) {
    char option[80];
    report r = report_make();
    settings s;
    int key;
    settings_start(&s, "--set");
    if (!settings_parse(&s, assignment, &r)) return false;
    for (key = 0; key < SETTING_COUNT; key++) {
        snprintf(option, sizeof option, "--set %s=", setting_rows[key].name);
        if (s.given[key] && strstr(text, option)) return true;
    }
    return false;
}

/* Converts without options. If this is refused, a single message must list all missing settings.
 * The conversion must then succeed with those options of cases.txt that the message lists.
 * test_defaults.c tests the values that vit-convert assumes instead. */
static void test_questions(const damage_case *t, const outcome *base) {
    damage_case asked = *t;
    outcome o;
    int i;
    asked.set_count = 0;
    convert_damaged(&asked, 0, "options left out", &o);
    if (!o.good) {
        for (i = 0; i < t->set_count; i++)
            if (names_option(o.text, t->set[i])) asked.set[asked.set_count++] = t->set[i];
        CHECK_MSG(asked.set_count > 0, "%s: asks for no option of cases.txt: %s", t->name, o.text);
        convert_damaged(&asked, 0, "with what it asks for", &o);
    }
    CHECK_MSG(o.good, "%s: asks again: %s", t->name, o.text);
    if (asked.set_count == t->set_count)
        CHECK_MSG(o.signature == base->signature, "%s: another model", t->name);
}

/* === Tensors === */

typedef struct entry {
    char name[256];
    const char *dtype;
    int ndim;
    int64_t dims[CHECKPOINT_MAX_DIMS];
    int64_t count;
    /* The values of the tensor. Copies of the entry share them. */
    float *values;
    /* True if the undamaged model uses the tensor. */
    bool matters;
    bool omitted;
} entry;

enum { MAX_ENTRIES = 400 };

typedef struct entry_list {
    entry items[MAX_ENTRIES];
    int count;
} entry_list;

/* The tensors of the undamaged file, and those of the damaged file. */
static entry_list whole, changed;
/* The tensors of the undamaged file of the previous case. */
static entry_list other;
static const char *other_layout = "";

/* === The file itself === */

static int compare_sizes(const void *a, const void *b) {
    const size_t *x = a, *y = b;
    return *x < *y ? 1 : *x > *y ? -1 : 0;
}

/* Tests prefixes of random lengths, from the longest to the shortest, so that each one is made by
 * cutting the file further. */
static void test_truncated(const damage_case *t, const unsigned char *bytes, size_t size) {
    static size_t sizes[TRUNCATIONS];
    const int count = (t->refused ? TRUNCATIONS / 10 : TRUNCATIONS) / share;
    int i;
    outcome o;
    for (i = 0; i < count; i++) sizes[i] = random_below((uint32_t)size);
    qsort(sizes, (size_t)count, sizeof *sizes, compare_sizes);
    write_whole(damaged, bytes, size);
    for (i = 0; i < count; i++) {
        CHECK(truncate(damaged, (off_t)sizes[i]) == 0);
        convert_damaged(t, 0, "truncated", &o);
        CHECK_MSG(!o.good, "%s: accepted with %zu of %zu bytes", t->name, sizes[i], size);
    }
}

/* Cuts the file where a tensor begins. In the files of vit.cpp, the name of a tensor precedes its
 * data, so such a cut gives a valid file with fewer tensors. In all other formats, the cut gives a
 * truncated file. */
static void test_cut_between(const damage_case *t, const unsigned char *bytes, size_t size) {
    outcome o;
    int i;
    for (i = chosen; i < whole.count; i += share) {
        const char *name = whole.items[i].name;
        const size_t length = strlen(name), before = 12 + 4 * (size_t)whole.items[i].ndim;
        size_t at = before;
        while (at + length < size && memcmp(bytes + at, name, length) != 0) at++;
        if (at + length >= size) continue;
        write_whole(damaged, bytes, at - before);
        convert_damaged(t, 0, "cut between tensors", &o);
        CHECK_MSG(!o.good, "%s: accepted without %s and what follows", t->name, name);
    }
}

/* Flips single bits. If the bit belongs to a weight, the result may be another model. No flipped
 * bit may cause a crash or leave other files. */
static void test_flipped(const damage_case *t, unsigned char *bytes, size_t size) {
    int i;
    outcome o;
    for (i = 0; i < FLIPS / share; i++) {
        const size_t at = random_below((uint32_t)size);
        const unsigned char bit = (unsigned char)(1u << random_below(8));
        bytes[at] ^= bit;
        write_whole(damaged, bytes, size);
        convert_damaged(t, 0, "flipped", &o);
        bytes[at] ^= bit;
    }
}

/* === Changed keys, in new safetensors files === */

static void put_header(FILE *file, const entry *e, bool first, size_t *offset) {
    int i;
    fprintf(file, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", first ? "{" : ",", e->name, e->dtype);
    for (i = 0; i < e->ndim; i++) fprintf(file, "%s%lld", i ? "," : "", (long long)e->dims[i]);
    fprintf(file, "],\"data_offsets\":[%zu,%zu]}", *offset, *offset + (size_t)e->count * 4);
    *offset += (size_t)e->count * 4;
}

static void write_entries(const entry_list *list) {
    char *header = NULL;
    size_t header_size = 0, offset = 0;
    unsigned char size[8];
    FILE *file = os_memory_open(&header, &header_size);
    bool first = true;
    int i;
    if (!file) return;
    for (i = 0; i < list->count; i++) {
        if (list->items[i].omitted) continue;
        put_header(file, &list->items[i], first, &offset);
        first = false;
    }
    fputs(first ? "{}" : "}", file);
    CHECK(os_memory_close(file, &header, &header_size));
    for (i = 0; i < 8; i++) size[i] = (unsigned char)((uint64_t)header_size >> 8 * i);
    file = fopen(damaged, "wb");
    CHECK(file && fwrite(size, 1, 8, file) == 8 &&
          fwrite(header, 1, header_size, file) == header_size);
    for (i = 0; file && i < list->count; i++)
        if (!list->items[i].omitted)
            fwrite(list->items[i].values, 4, (size_t)list->items[i].count, file);
    if (file) fclose(file);
    free(header);
}

static bool take_entry(checkpoint *c, const checkpoint_tensor_info *info, entry *e) {
    report r = report_make();
    memset(e, 0, sizeof *e);
    snprintf(e->name, sizeof e->name, "%s", info->name);
    e->dtype = checkpoint_is_float(info->dtype) ? "F32" : "I32";
    e->ndim = info->ndim;
    memcpy(e->dims, info->dims, sizeof e->dims);
    e->count = info->count;
    e->values = malloc((size_t)info->count * sizeof(float) + 1);
    return e->values && checkpoint_read(c, info, 0, info->count, e->values, &r);
}

static bool take_entries(const char *path, entry_list *list) {
    report r = report_make();
    checkpoint *c;
    size_t i;
    bool good = true;
    list->count = 0;
    if (!checkpoint_open(path, &c, &r)) return false;
    for (i = 0; i < checkpoint_count(c) && good; i++)
        good = list->count < MAX_ENTRIES &&
               take_entry(c, checkpoint_tensor(c, i), &list->items[list->count++]);
    checkpoint_close(c);
    return good;
}

static void free_entries(entry_list *list) {
    int i;
    for (i = 0; i < list->count; i++) free(list->items[i].values);
    list->count = 0;
}

/* --- the change of the keys --- */

/* In a model with torch.nn's encoder, returns true for tensors outside the encoder, because each
 * author names these tensors differently. */
static bool is_ones_own(const outcome *base, const char *name) {
    return !strncmp(base->layout, "torch.nn.TransformerEncoder", 27) && !strstr(name, "layers.");
}

static bool ends_with(const char *name, const char *ending) {
    const size_t length = strlen(name), end = strlen(ending);
    return length >= end && !strcmp(name + length - end, ending);
}

/* Returns true if the absence of the tensor cannot be detected, because some valid models have no
 * such tensor and are equal in everything else. */
static bool may_be_absent(const outcome *base, const char *name) {
    static const char *const ends[] = {
        "register_tokens",                     /* DINOv2's files may have none */
        "storage_tokens",                      /* DINOv3's files may have none */
        "embeds.reg_token",                    /* NaFlexViT may have none */
        "head.proj.weight",                    /* this is open_clip's timm_proj */
        "visual_projection.weight",            /* AIMv2 may have no text encoder */
        "image_encoder.model.cls_token",       /* without it, MobileCLIP takes the mean */
        "image_encoder.model.classifier.proj", /* without it, MobileCLIP has no head */
    };
    size_t i;
    if (is_ones_own(base, name)) return true;
    for (i = 0; i < COUNT(ends); i++)
        if (ends_with(name, ends[i])) return true;
    return false;
}

/* True for Qwen3-VL without --set merge_size=2. */
static bool drops_merger;

/* Returns true if the values of the tensor are read. Some tensors are only recognised by their
 * names, and their values are not read. */
static bool is_read(const entry *e) {
    return e->matters && !ends_with(e->name, "rope.freqs_cos") &&
           !ends_with(e->name, "token_embedding.weight") &&
           !ends_with(e->name, "last_layer.weight_g") &&
           !ends_with(e->name, "depth_head.projects.0.weight") &&
           !ends_with(e->name, "reassemble_stage.layers.0.projection.weight") &&
           !(drops_merger && (strstr(e->name, "merger.") || strstr(e->name, "post_ln.") ||
                              !strncmp(e->name, "mm.", 3)));
}

static bool same(const outcome *o, const outcome *base) {
    return o->good && o->signature == base->signature;
}

/* Returns true if the file was refused with a message that contains the key. If --rename may have
 * changed the key, any message will do. */
static bool names_key(const damage_case *t, const outcome *o, const char *key) {
    return !o->good && (t->rename.count > 0 || strstr(o->text, key));
}

/* Returns true if no table of layouts has the keys, so that the tensors were matched by structure.
 * Matching by structure may find the same tensors, or may require settings that only the table
 * fixed. */
static bool is_by_structure(const outcome *o) {
    return o->layout && strstr(o->layout, "hand-written");
}

/* Writes the changed list of tensors as a file, and converts the file. */
static void convert_changed(const damage_case *t, const outcome *base, const char *what,
                            outcome *o) {
    write_entries(&changed);
    convert_damaged(t, base->num_heads, what, o);
}

static void test_shuffled(const damage_case *t, const outcome *base) {
    outcome o;
    int round, i;
    changed = whole;
    for (round = 0; round <= SHUFFLES; round++) {
        convert_changed(t, base, "shuffled", &o);
        CHECK_MSG(same(&o, base), "%s: shuffled %d times: %s", t->name, round, o.text);
        for (i = changed.count - 1; i > 0; i--) {
            const int j = (int)random_below((uint32_t)i + 1);
            const entry e = changed.items[i];
            changed.items[i] = changed.items[j];
            changed.items[j] = e;
        }
    }
}

/* Leaves out each tensor in turn, and notes whether it affects the model. If it does, the file must
 * be refused, unless the tensor may be absent. */
static void test_missing(const damage_case *t, const outcome *base) {
    outcome o;
    int i;
    for (i = chosen; i < whole.count; i += share) {
        changed = whole;
        changed.items[i].omitted = true;
        convert_changed(t, base, "missing", &o);
        whole.items[i].matters = !same(&o, base);
        CHECK_MSG(!o.good || same(&o, base) || may_be_absent(base, whole.items[i].name),
                  "%s: accepted without %s", t->name, whole.items[i].name);
    }
}

/* Changes one letter of a key. If the tensor's values are read, the message must contain the old
 * key or the new key, or state which layout most names belong to. Exceptions are tensors that are
 * matched by structure. */
static void test_renamed(const damage_case *t, const outcome *base) {
    outcome o;
    int i;
    for (i = chosen; i < whole.count; i += share) {
        char *name = changed.items[i].name;
        changed = whole;
        name[strlen(name) - 1] ^= 1;
        convert_changed(t, base, "renamed", &o);
        if (is_read(&whole.items[i]))
            CHECK_MSG(names_key(t, &o, name) || names_key(t, &o, whole.items[i].name) ||
                          names_key(t, &o, "missing: most tensors have names of") ||
                          is_by_structure(&o),
                      "%s: %s renamed: %s", t->name, whole.items[i].name, o.text);
        else
            CHECK_MSG(!o.good || same(&o, base) || is_by_structure(&o), "%s: %s", t->name,
                      whole.items[i].name);
    }
}

static void test_doubled(const damage_case *t, const outcome *base) {
    outcome o;
    int i;
    for (i = chosen; i < whole.count; i += share) {
        entry *copy = &changed.items[whole.count];
        changed = whole;
        changed.count++;
        *copy = whole.items[i];
        convert_changed(t, base, "doubled", &o);
        CHECK_MSG(names_key(t, &o, copy->name) && strstr(o.text, "duplicate"), "%s: %s twice: %s",
                  t->name, copy->name, o.text);
        snprintf(copy->name, sizeof copy->name, "model.%.200s", whole.items[i].name);
        convert_changed(t, base, "doubled behind a prefix", &o);
        CHECK_MSG(!o.good || (!is_read(&whole.items[i]) && (same(&o, base) || is_by_structure(&o))),
                  "%s: %s", t->name, copy->name);
    }
    changed = whole;
    for (i = 0; i < whole.count && changed.count < MAX_ENTRIES; i++) {
        entry *copy = &changed.items[changed.count++];
        *copy = whole.items[i];
        snprintf(copy->name, sizeof copy->name, "model.%.200s", whole.items[i].name);
    }
    convert_changed(t, base, "all doubled", &o);
    CHECK_MSG(!o.good, "%s: the whole model twice", t->name);
}

static bool has_entry(const entry_list *list, const char *name) {
    int i;
    for (i = 0; i < list->count; i++)
        if (!strcmp(list->items[i].name, name)) return true;
    return false;
}

/* Adds the tensors of the previous case to the file, unless both cases have the same layout. */
static void test_two_models(const damage_case *t, const outcome *base) {
    outcome o;
    int i;
    if (other.count == 0 || !strcmp(other_layout, base->layout)) return;
    changed = whole;
    for (i = 0; i < other.count && changed.count < MAX_ENTRIES; i++)
        if (!has_entry(&whole, other.items[i].name))
            changed.items[changed.count++] = other.items[i];
    convert_changed(t, base, "two models", &o);
    CHECK_MSG(!o.good, "%s: a second model in it", t->name);
}

/* Returns true for tensors that may have any number of rows: projections without a bias, and tokens
 * without a position. */
static bool may_be_cut(const char *name) {
    return ends_with(name, "visual_projection.weight") || ends_with(name, "head.proj.weight") ||
           ends_with(name, "register_tokens") || ends_with(name, "patch_generator.cls_token.token");
}

/* Swaps the first and last dimension of a tensor, or removes a row. Neither change may give another
 * model. */
static void test_misshapen(const damage_case *t, const outcome *base) {
    outcome o;
    int i;
    for (i = chosen; i < whole.count; i += share) {
        entry *e = &changed.items[i];
        const int last = whole.items[i].ndim - 1;
        if (last < 0 || whole.items[i].dims[0] < 2) continue;
        changed = whole;
        e->dims[0] = whole.items[i].dims[last];
        e->dims[last] = whole.items[i].dims[0];
        convert_changed(t, base, "transposed", &o);
        CHECK_MSG(!o.good || same(&o, base), "%s: %s transposed", t->name, e->name);
        e->dims[last] = whole.items[i].dims[last];
        e->dims[0] = whole.items[i].dims[0] - 1;
        e->count = e->count / whole.items[i].dims[0] * e->dims[0];
        convert_changed(t, base, "cut", &o);
        if (!may_be_cut(e->name) && !is_ones_own(base, e->name))
            CHECK_MSG(is_read(&whole.items[i]) ? !o.good : same(&o, base), "%s: %s cut: %s",
                      t->name, e->name, o.text);
    }
}

static void test_mistyped(const damage_case *t, const outcome *base) {
    outcome o;
    int i;
    for (i = chosen; i < whole.count; i += share) {
        entry *e = &changed.items[i];
        changed = whole;
        e->dtype = "I32";
        convert_changed(t, base, "mistyped", &o);
        if (is_read(&whole.items[i]) && whole.items[i].ndim > 0)
            CHECK_MSG(names_key(t, &o, e->name) && strstr(o.text, "found I32"), "%s: %s as I32: %s",
                      t->name, e->name, o.text);
    }
}

static void test_keys(const damage_case *t, const outcome *base) {
    test_shuffled(t, base);
    test_missing(t, base);
    test_renamed(t, base);
    test_doubled(t, base);
    test_two_models(t, base);
    test_misshapen(t, base);
    test_mistyped(t, base);
}

/* === Cases === */

static char *trimmed(char **line) {
    char *start = *line, *end = strchr(start, '|');
    *line = end ? end + 1 : start + strlen(start);
    if (!end) end = start + strcspn(start, "\n");
    while (*start == ' ') start++;
    while (end > start && end[-1] == ' ') end--;
    *end = '\0';
    return start;
}

static void parse_case(char *line, damage_case *t) {
    char *word;
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", trimmed(&line));
    snprintf(t->file, sizeof t->file, "%s", trimmed(&line));
    snprintf(t->options, sizeof t->options, "%s", trimmed(&line));
    t->refused = !*trimmed(&line);
    t->rename.items = t->rename_items;
    snprintf(t->twin_options, sizeof t->twin_options, "%s", trimmed(&line));
    word = strncmp(t->name, "gguf_", 5) || t->refused ? NULL : strtok(t->twin_options, " ");
    for (; word && t->told_count < MAX_OPTIONS / 2; word = strtok(NULL, " "))
        if (strcmp(word, "--set") != 0) t->told[t->told_count++] = word;
    for (word = strtok(t->options, " "); word; word = strtok(NULL, " ")) {
        const char *value = strtok(NULL, " ");
        if (!strcmp(word, "--img-size")) t->img_size = value;
        else if (!strcmp(word, "--arch")) t->arch = value;
        else if (!strcmp(word, "--weights")) t->weights = value;
        else if (!strcmp(word, "--set") && t->set_count < MAX_OPTIONS)
            t->set[t->set_count++] = value;
        else if (!strcmp(word, "--rename") && t->rename.count < MAX_OPTIONS)
            t->rename_items[t->rename.count++] = value;
        else CHECK_MSG(false, "%s: %s is no option that this test knows", t->name, word);
    }
}

static void test_case(const char *data, const damage_case *t) {
    char path[512];
    outcome base;
    size_t size;
    unsigned char *bytes;
    int i;
    drops_merger = strstr(t->name, "qwen3") && !strstr(t->name, "merger");
    count_files(true);
    copy_beside(data, t, "config.json");
    copy_beside(data, t, "preprocessor_config.json");
    files_beside = count_files(false);
    path_of(damaged, t->file);
    path_of(output, "out.vit");
    snprintf(path, sizeof path, "%s/layouts/%s/%s", data, t->name, t->file);
    bytes = read_whole(path, &size);
    CHECK_MSG(bytes && size > 0, "%s", path);
    if (!bytes) return;
    write_whole(damaged, bytes, size);
    convert_damaged(t, 0, "as it is", &base);
    CHECK_MSG(base.good == !t->refused, "%s: %s", t->name, base.text);
    if (base.good) test_questions(t, &base);
    test_truncated(t, bytes, size);
    test_flipped(t, bytes, size);
    if (base.good && take_entries(path, &whole)) {
        damage_case keys = *t;
        test_cut_between(t, bytes, size);
        for (i = 0; i < t->told_count; i++) keys.set[keys.set_count++] = t->told[i];
        test_keys(&keys, &base);
    }
    free(bytes);
    CHECK_MSG(!base.good || whole.count > 0, "%s: no tensors to damage", t->name);
    if (!base.good) return;
    free_entries(&other);
    other = whole;
    other_layout = base.layout;
    whole.count = 0;
}

static bool wanted(const char *name, int argc, char **argv) {
    int i;
    for (i = 3; i < argc; i++)
        if (!strcmp(argv[i], name)) return true;
    return argc <= 3;
}

int main(int argc, char **argv) {
    const char *data = argc > 1 ? argv[1] : "tests/data";
    char path[512], line[1024];
    damage_case t;
    FILE *file;
    if (argc > 2) share = atoi(argv[2]) > 1 ? atoi(argv[2]) : 1;
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/vitXXXXXX" : "/tmp/vitXXXXXX");
    snprintf(path, sizeof path, "%s/layouts/cases.txt", data);
    file = fopen(path, "r");
    if (!file || !mkdtemp(folder)) {
        CHECK_MSG(false, "no %s, or no folder to write in", path);
        return test_summary();
    }
    while (fgets(line, sizeof line, file)) {
        parse_case(line, &t);
        random_state = 1;
        chosen = (chosen + 1) % share;
        if (wanted(t.name, argc, argv)) test_case(data, &t);
    }
    fclose(file);
    free_entries(&other);
    count_files(true);
    CHECK(rmdir(folder) == 0);
    return test_summary();
}
