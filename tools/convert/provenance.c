#define _POSIX_C_SOURCE 200809L

#include "convert/provenance.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/tensor.h"
#include "base/text.h"
#include "cli/progress.h"
#include "convert/match.h"
#include "os/os.h"

/* A line of its own. */
static void put_line(FILE *file, const char *key, const char *value)
{
    text_print(file, "%s%s%s\n", key, strncmp(key, "option", 6) ? ": " : " ", value);
}

typedef struct hashing {
    cli_progress progress;
    uint64_t done;
} hashing;

static void show_hashing(void *user, size_t bytes)
{
    hashing *h = user;
    cli_progress_update(&h->progress, h->done += bytes);
}

static bool put_sources(const conversion *c, FILE *file, report *r)
{
    uint64_t total = 0;
    hashing h;
    size_t count = checkpoint_file_count(c->checkpoint), i;
    bool good = true;
    for (i = 0; i < count; i++) total += checkpoint_file(c->checkpoint, i)->size;
    h.done = 0;
    cli_progress_start(&h.progress, "hashing", total);
    if (c->options->quiet) h.progress.active = false;
    for (i = 0; i < count; i++) {
        const char *path = checkpoint_file(c->checkpoint, i)->path;
        char hex[65];
        good = sha256_file(path, hex, show_hashing, &h) ||
               report_fail(r, "cannot be read: %s", strerror(errno)) || report_file(r, path);
        if (!good) break;
        put_line(file, "source", paths_file_name(path));
        put_line(file, "sha256", hex);
    }
    cli_progress_clear(&h.progress);
    return good;
}

/* What was told by hand, as one could type it again. */
static void put_overrides(const conversion *c, FILE *file)
{
    const convert_options *o = c->options;
    const vit_writer_keep keep = conversion_kept(c);
    int i;
    if (o->arch) put_line(file, "option: --arch", o->arch);
    if (o->img_size) put_line(file, "option: --img-size", o->img_size);
    if (o->patch_size) fprintf(file, "option: --patch-size %d\n", o->patch_size);
    if (o->in_chans) fprintf(file, "option: --in-chans %d\n", o->in_chans);
    if (o->dynamic) put_line(file, "option:", "--dynamic");
    for (i = 0; i < o->set.count; i++) put_line(file, "option: --set", o->set.items[i]);
    for (i = 0; i < o->rename.count; i++) put_line(file, "option: --rename", o->rename.items[i]);
    for (i = 0; i < o->ignore.count; i++) put_line(file, "option: --ignore", o->ignore.items[i]);
    for (i = 0; i < keep.count; i++) put_line(file, "option: --keep", keep.patterns[i]);
}

static void put_origin(const conversion *c, FILE *file)
{
    char name[256];
    put_line(file, "container", checkpoint_kind(c->checkpoint));
    put_line(file, "layout", c->map.layout->name);
    if (*checkpoint_wrapper(c->checkpoint))
        put_line(file, "wrapper", checkpoint_wrapper(c->checkpoint));
    if (*c->map.prefix) put_line(file, "prefix", c->map.prefix);
    if (c->has_arch) {
        arch_full_name(&c->arch, name, sizeof name);
        put_line(file, "architecture", name);
    } else if (c->arch_unknown) {
        put_line(file, "architecture", c->arch_unknown);
    }
    if (c->config_path) put_line(file, "config", c->all[FROM_CONFIG].origin);
    if (c->labels.count > 0) put_line(file, "labels", c->labels_origin);
}

static void put_assumptions(const conversion *c, FILE *file)
{
    size_t i;
    for (i = 0; i < c->found.assumed.count; i++) {
        const finding *item = &c->found.assumed.items[i];
        char text[1024];
        snprintf(text, sizeof text, "%s (%s)", item->what, item->why);
        put_line(file, "assumed", text);
    }
}

/* Weights that are not those of the checkpoint. */
static void put_changes(const conversion *c, FILE *file)
{
    const settings_stored *stored = &c->model.stored;
    const settings_notes *notes = &c->model.notes;
    char word[32];
    if (c->model.context_divisor > 0)
        fprintf(file, "folded: attn.proj.weight, divided by the root of embed_dim\n");
    if (c->model.config.attention == VIT_ATTENTION_SELF)
        fprintf(file, "folded: attn.proj, with the values of attn.qkv\n");
    if (notes->patches_adapted && c->model.config.stem)
        fprintf(file, "adapted: the stem, from %d channels\n", stored->chans);
    else if (notes->patches_adapted)
        fprintf(file, "adapted: patch_embed.proj.weight, from %d x %d x %d\n", stored->chans,
                stored->patch, stored->patch);
    if (notes->positions_resampled)
        fprintf(file, "resampled: %s, from a grid of %dx%d, as %s does\n",
                c->seen.position_rows > 0 ? "pos_embed" : "attn.rel_pos", stored->grid_height,
                stored->grid_width,
                setting_text(SETTING_POS_RESAMPLE, (int)notes->pos_resample, word));
}

static void put_provenance(const conversion *c, FILE *file)
{
    put_origin(c, file);
    put_line(file, "dtype", tensor_dtype_name(c->options->dtype));
    if (c->calibration.count > 0)
        fprintf(file, "calibrated: on %d images\n", c->calibration.count);
    put_overrides(c, file);
    match_put_provenance(c->match, file);
    put_assumptions(c, file);
    put_changes(c, file);
    fprintf(file, "converter: vit-convert %d.%d.%d\n", VIT_VERSION_MAJOR, VIT_VERSION_MINOR,
            VIT_VERSION_PATCH);
}

bool provenance_make(conversion *c, report *r)
{
    size_t size;
    FILE *file = os_memory_open(&c->provenance, &size);
    bool good;
    if (!file) return report_no_memory(r);
    good = put_sources(c, file, r);
    if (good) put_provenance(c, file);
    if (!os_memory_close(file, &c->provenance, &size) && good) return report_no_memory(r);
    return good;
}
