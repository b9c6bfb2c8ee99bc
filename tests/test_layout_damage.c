/* test_layout_damage.c - opens checkpoints of many layouts, in which each tensor in turn has
 * another name, another shape or no elements.
 *
 *     test_layout_damage tests/data [N]     with every Nth layout
 *
 * If a tensor has another name, the reader must not conclude that the model lacks an option. The
 * file must be refused, or give the same bytes because the tensor belongs to a text model and is
 * dropped. After any other damage, the converter must write a file or refuse the checkpoint. The
 * linker replaces the reader's functions by those below (Makefile).
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/report.h"
#include "conversion.h"
#include "convert/conversion.h"
#include "test.h"
#include "vit.h"

const checkpoint_tensor_info *__real_checkpoint_tensor(const checkpoint *c, size_t i);
const checkpoint_tensor_info *__wrap_checkpoint_tensor(const checkpoint *c, size_t i);
const checkpoint_tensor_info *__real_checkpoint_find(const checkpoint *c, const char *name);
const checkpoint_tensor_info *__wrap_checkpoint_find(const checkpoint *c, const char *name);

typedef enum damage { SOUND, RENAMED, JOINED, SPLIT, TURNED, EMPTY, DAMAGES } damage;

/* The damage that is done to the tensor with the number `victim`. */
static damage what;
/* The number of the damaged tensor. */
static size_t victim;
static checkpoint_tensor_info damaged;
static char damaged_name[1100];

static void put_dims(checkpoint_tensor_info *t, int ndim, int64_t a, int64_t b) {
    t->ndim = ndim;
    t->dims[0] = a;
    t->dims[1] = b;
    t->strides[0] = ndim > 1 ? b : 1;
    t->strides[1] = 1;
}

/* Gives the tensor another name, or another shape with as many elements, or no elements. */
static void apply_damage(checkpoint_tensor_info *t) {
    const int64_t rows = t->ndim > 0 && t->dims[0] > 0 ? t->dims[0] : 1;
    switch (what) {
    case RENAMED:
        snprintf(damaged_name, sizeof damaged_name, "%.1000s_of_another_kind", t->name);
        t->name = damaged_name;
        break;
    case JOINED: put_dims(t, 1, t->count, 1); break;
    case SPLIT: put_dims(t, 2, t->count, 1); break;
    case TURNED: put_dims(t, 2, t->count / rows, rows); break;
    default: put_dims(t, 1, 0, 1); t->count = 0;
    }
}

const checkpoint_tensor_info *__wrap_checkpoint_tensor(const checkpoint *c, size_t i) {
    const checkpoint_tensor_info *info = __real_checkpoint_tensor(c, i);
    if (what == SOUND || i != victim || !info) return info;
    damaged = *info;
    apply_damage(&damaged);
    return &damaged;
}

const checkpoint_tensor_info *__wrap_checkpoint_find(const checkpoint *c, const char *name) {
    const checkpoint_tensor_info *t;
    if (what == SOUND) return __real_checkpoint_find(c, name);
    t = __wrap_checkpoint_tensor(c, victim);
    if (!strcmp(t->name, name)) return t;
    if (!strcmp(__real_checkpoint_tensor(c, victim)->name, name)) return NULL;
    return __real_checkpoint_find(c, name);
}

typedef struct job {
    const char *checkpoint, *settings;
} job;

static char folder[64], output[96];

static bool put_settings(settings *s, const char *words, report *r) {
    char word[64];
    for (; *words; words += strcspn(words, " "), words += *words == ' ') {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(words, " "), words);
        if (!settings_parse(s, word, r)) return false;
    }
    return true;
}

/* Converts the checkpoint. *count receives the number of its tensors. */
static bool convert(const char *data, const job *j, size_t *count, report *r) {
    char path[512];
    convert_options options;
    conversion c;
    bool good;
    memset(&options, 0, sizeof options);
    memset(&c, 0, sizeof c);
    snprintf(path, sizeof path, "%.300s/layouts/%s", data, j->checkpoint);
    options.checkpoint = path;
    options.output = output;
    options.quiet = true;
    settings_start(&options.given, "--set");
    good = put_settings(&options.given, j->settings, r) && convert_run(&options, &c, r);
    if (count) *count = checkpoint_count(c.blueprint.checkpoint);
    convert_free(&c);
    return good;
}

static void damage_all(const char *data, const job *j) {
    report r = report_make();
    size_t count = 0;
    uint64_t sound;
    int kind;
    what = SOUND;
    CHECK_MSG(convert(data, j, &count, &r) && count > 0, "%s: %s", j->checkpoint, r.text);
    sound = hash_file(output);
    for (kind = RENAMED; kind < DAMAGES; kind++)
        for (victim = 0; victim < count; victim++) {
            bool good;
            what = (damage)kind;
            r = report_make();
            unlink(output);
            good = convert(data, j, NULL, &r);
            CHECK_MSG(good || (r.failed && is_refusal(r.text)), "%s, tensor %d: %s", j->checkpoint,
                      (int)victim, r.text);
            CHECK_MSG(!good || kind != RENAMED || hash_file(output) == sound, "%s: %s is accepted",
                      j->checkpoint, damaged_name);
            CHECK_MSG((hash_file(output) != 0) == good, "%s, tensor %d", j->checkpoint,
                      (int)victim);
        }
    what = SOUND;
}

int main(int argc, char **argv) {
#define PLAIN "num_heads=2 norm_eps=1e-6 activation=gelu"
    static const job jobs[] = {
        { "beit_original/model.pth", PLAIN " pool=avg" },
        { "timm_diff/model.safetensors", PLAIN },
        { "timm_map/model.safetensors", PLAIN },
        { "timm_hybrid/model.safetensors", PLAIN },
        { "mobileclip/model.safetensors", PLAIN },
        { "deit3/model.pth", PLAIN " positions=patches" },
        { "rope_vit_mixed/model.pth", PLAIN " img_size=4" },
        { "dinov3_original/model.pth", PLAIN " img_size=4" },
        { "q_bias_v_bias/model.safetensors", PLAIN " rope_type=none" },
        { "hf_dinov2_reg/model.safetensors", PLAIN },
        { "hf_siglip/model.safetensors", PLAIN },
        { "jax_map/model.npz", PLAIN },
        { "einops_separate/model.pth", PLAIN },
        { "lucidrains_identity/model.safetensors", "num_heads=1 pool=avg" },
        { "simple_vit/model.safetensors", PLAIN " img_size=4" },
        { "openai/model.pt", PLAIN },
        { "beit3/model.pth", PLAIN },
        { "vit_cpp/model.gguf", PLAIN },
        { "gguf_clip/model.gguf", PLAIN },
    };
    const char *data = argc > 1 ? argv[1] : "tests/data";
    size_t i, step = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    if (step == 0) return 2;
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/vitXXXXXX" : "/tmp/vitXXXXXX");
    if (!mkdtemp(folder)) return 2;
    snprintf(output, sizeof output, "%s/out", folder);
    for (i = 0; i < sizeof jobs / sizeof *jobs; i += step) damage_all(data, &jobs[i]);
    unlink(output);
    CHECK(rmdir(folder) == 0);
    return test_summary();
}
