#include "convert/report.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/paths.h"
#include "base/tensor.h"
#include "base/text.h"
#include "model/describe.h"
#include "model/parts.h"

/* === Notes === */

enum { MAX_NOTES = 16 };   /* there are 14 kinds of notes, and each comes once */

typedef struct note_list {
    char text[MAX_NOTES][512];
    int count;
} note_list;

static char *add_note(note_list *notes)
{
    return notes->text[notes->count++];
}

/* The architecture whose name is in the file's name. Only a hint: names may be wrong. */
static const char *name_in_file(const char *path)
{
    const char *file = paths_file_name(path), *best = NULL;
    const arch *a;
    size_t i;
    for (i = 0; (a = arch_at(i)) != NULL; i++)
        if (strstr(file, a->name) && (!best || strlen(a->name) > strlen(best))) best = a->name;
    return best;
}

static void note_ignored(const conversion *c, note_list *notes)
{
    const layout_plan *plan = &c->plan;
    char *text = add_note(notes);
    const size_t size = sizeof notes->text[0];
    size_t used, i;
    used = (size_t)snprintf(text, size, "dropped %zu tensor%s:", plan->ignored_count,
                            plan->ignored_count == 1 ? "" : "s");
    for (i = 0; i < plan->ignored_count && i < 8 && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, " %.80s", plan->ignored[i]);
    if (plan->ignored_count > 8 && used < size) snprintf(text + used, size - used, " ...");
}

static void note_heads(const conversion *c, char *text, size_t size)
{
    const vit_config *config = &c->model.config;
    const bool by_weights = c->model.notes.heads_by_weights;
    char why[HEADS_TEXT], width[80] = "";
    if (c->model.notes.heads_by_width)
        snprintf(width, sizeof width, "%swhat timm's models of width %d have",
                 by_weights ? ", and " : "", config->embed_dim);
    snprintf(text, size, "num_heads %d%s%s%s%s (--set num_heads=N)", config->num_heads,
             by_weights ? ", " : " is ", by_weights ? heads_why(&c->seen.heads, why) : "", width,
             by_weights ? "" : "; the tensors do not show it");
}

static void note_assumptions(const conversion *c, note_list *notes)
{
    const char *hint = name_in_file(c->options->checkpoint);
    if (c->model.notes.heads_by_weights || c->model.notes.heads_by_width)
        note_heads(c, add_note(notes), sizeof notes->text[0]);
    if (c->model.notes.chans_assumed)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "in_chans 1 is assumed, since a patch of %d x %d values is no square times three "
                 "(--set in_chans=N)", c->model.stored.patch, c->model.stored.patch);
    if (c->model.notes.preprocess_assumed)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "nothing says how images were prepared, so mean and std are assumed to be 0.5; "
                 "give --arch %s or --config FILE", hint ? hint : "NAME");
    if (c->config_file.processor)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "no preprocessor_config.json beside %s: images are prepared as transformers does "
                 "for a %s by default", paths_file_name(c->config_path),
                 c->config_file.processor);
    if (c->arch_unknown)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "%.200s in %s is no architecture of timm: the rest of that file and the tensors "
                 "decide", c->arch_unknown, c->arch_origin);
    if (c->has_arch && !c->arch.tag_known)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "tag %s is not known: the preprocessing is that of %s", c->arch.tag,
                 c->arch.arch->name);
    if (c->model.notes.eps_assumed || c->model.notes.activation_assumed)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "%s%s%s: timm's usual, as nothing says otherwise; give --arch %s or --config FILE",
                 c->model.notes.eps_assumed ? "norm_eps 1e-6" : "",
                 c->model.notes.eps_assumed && c->model.notes.activation_assumed ? " and " : "",
                 c->model.notes.activation_assumed ? "activation gelu" : "", hint ? hint : "NAME");
}

/* The defaults of the library, which may have been changed in training. */
static void note_defaults(const conversion *c, note_list *notes)
{
    const size_t size = sizeof notes->text[0];
    char *text = notes->text[notes->count], value[32];
    size_t used, start;
    int key;
    used = start = (size_t)snprintf(text, size, "as %s has them:", c->map.layout->name);
    for (key = 0; key < SETTING_COUNT && used < size; key++)
        if (c->seen.by_default[key])
            used += (size_t)snprintf(text + used, size - used, " %s=%s",
                                     setting_rows[key].name,
                                     setting_text((setting_key)key,
                                                  c->all[FROM_TENSORS].value[key], value));
    if (c->seen.mean_by_default && used < size)
        used += (size_t)snprintf(text + used, size - used, " mean std");
    if (used == start) return;
    if (used < size) snprintf(text + used, size - used, "; --set changes them");
    notes->count++;
}

static void collect_notes(const conversion *c, note_list *notes)
{
    const vit_config *config = &c->model.config;
    const settings_stored *stored = &c->model.stored;
    char word[32];
    notes->count = 0;
    note_assumptions(c, notes);
    note_defaults(c, notes);
    if (stored->first_rows)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "pos_embed has %d rows, of which the first %d are used", c->seen.position_rows,
                 stored->position_rows);
    if (c->model.context_divisor > 0)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "attention is divided by %.9g after the softmax: attn.proj.weight is divided "
                 "instead",
                 c->model.context_divisor);
    if (c->model.notes.patches_adapted && config->stem)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "first convolution of the stem adapted from %d to %d channels", stored->chans,
                 config->in_chans);
    else if (c->model.notes.patches_adapted)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "patch embedding adapted from %d x %d x %d to %d x %d x %d weights",
                 stored->chans, stored->patch, stored->patch, config->in_chans, config->patch_size,
                 config->patch_size);
    if (c->model.notes.positions_resampled)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "positions resampled from %dx%d to %dx%d patches, as %s does",
                 stored->grid_height, stored->grid_width, config->grid_height, config->grid_width,
                 setting_text(SETTING_POS_RESAMPLE, (int)c->model.notes.pos_resample, word));
    if (c->config_foreign)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "config.json beside the checkpoint is not in timm's form and was not read");
    if (c->plan.ignored_count > 0) note_ignored(c, notes);
}

/* === As text === */

static part_list list_parts(const conversion *c)
{
    part_list list = { .items = { { "patch_embed", 0 } }, .count = 1 };   /* comes first */
    size_t t;
    for (t = 0; t < c->plan.count; t++)
        if (layout_is_stored(&c->plan.items[t])) parts_add(&list, &c->plan.items[t].tensor);
    return list;
}

static void print_parts(const conversion *c)
{
    const part_list list = list_parts(c);
    char a[32], b[32];
    int i, depth = c->model.config.depth;
    for (i = 0; i < list.count; i++) {
        const part *p = &list.items[i];
        printf("%-15s %-14s %16s", i == 0 ? "parameters" : "", p->name,
               text_grouped(p->parameters, a));
        if (!strcmp(p->name, "blocks"))
            printf("   %d x %s", depth, text_grouped(p->parameters / (uint64_t)depth, b));
        putchar('\n');
    }
    printf("%-15s %-14s %16s\n", "", "total", text_grouped(c->parameters, a));
}

static void print_resize(const vit_config *c)
{
    switch ((vit_crop_mode)c->crop_mode) {
    case VIT_CROP_CENTER: printf("shorter side to %d, crop the centre", c->resize_height); return;
    case VIT_CROP_BORDER: printf("longer side to %d, pad", c->resize_height); return;
    case VIT_CROP_SQUASH:
    case VIT_NUM_CROP_MODES: break;
    }
    printf("both sides to %d", c->resize_height);
}

/* One value where all channels agree. */
static void print_vector(const char *name, const float *values, int n)
{
    bool equal = true;
    int i;
    for (i = 1; i < n; i++) equal = equal && values[i] == values[0];
    printf(", %s", name);
    for (i = 0; i < (equal ? 1 : n); i++) printf(" %.6g", (double)values[i]);
}

static void print_preprocessing(const vit_config *c)
{
    char filter[32];
    printf("%-15s ", "preprocessing");
    if (c->resize_height == c->resize_width)
        print_resize(c);
    else
        printf("%s, %dx%d", c->crop_mode == VIT_CROP_SQUASH ? "squash" : "resize",
               c->resize_height, c->resize_width);
    printf(" to %dx%d, %s", c->img_height, c->img_width,
           setting_text(SETTING_INTERPOLATION, c->interpolation, filter));
    print_vector("mean", c->mean, c->in_chans);
    print_vector("std", c->std, c->in_chans);
    putchar('\n');
}

static void print_architecture(const conversion *c)
{
    const vit_config *k = &c->model.config;
    char name[256] = "not named", options[512];
    if (c->has_arch) arch_full_name(&c->arch, name, sizeof name);
    printf("%-15s %s", "architecture", name);
    if (c->has_arch) printf(" (%s)", c->arch_origin);
    printf("\n%-15s embed_dim %d, depth %d, heads %d x %d, mlp_dim %d, patch %d\n", "",
           k->embed_dim, k->depth, k->num_heads, k->head_dim, k->mlp_dim, k->patch_size);
    printf("%-15s input %d x %d x %d, %d tokens, %d classes", "", k->in_chans, k->img_height,
           k->img_width, k->num_tokens, k->num_classes);
    putchar('\n');
    if (*settings_describe(k, options, sizeof options)) printf("%-15s %s\n", "", options);
}

static void print_labels(const conversion *c)
{
    if (c->labels.count == 0)
        printf("%-15s none\n", "labels");
    else
        printf("%-15s %zu from %s, the first \"%s\"\n", "labels", c->labels.count,
               c->labels_origin, c->labels.labels[0]);
}

static void print_comparison(const conversion *c)
{
    const comparison *k = &c->comparison;
    if (k->images == 0) return;
    printf("%-15s against f32 on %d images%s\n", "error", k->images,
           c->photos.count > 0 ? "" : ", those of the calibration");
    printf("%-15s cosine of the %s %.6f on average, %.6f at worst (%s)\n", "",
           k->has_classes ? "logits" : "embeddings", k->mean_cosine, k->min_cosine,
           k->worst);
    if (k->has_classes)
        printf("%-15s same best class for %d of %d, %.2f %%\n", "", k->agree, k->images,
               100.0 * k->agree / k->images);
}

void convert_report_skipped(const photo_list *photos, const char *program)
{
    enum { NAMED = 8 };
    const char *const *names = (const char *const *)photos->paths + photos->count;
    char text[400];
    size_t used = 0;
    int i;
    if (photos->skipped == 0) return;
    for (i = 0; i < photos->skipped && i < NAMED && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", names[i]);
    report_error(program, NULL, "skipped %d of %d images, which cannot be read: %s%s",
                 photos->skipped, photos->count + photos->skipped, text,
                 photos->skipped > NAMED && used < sizeof text ? ", ..." : "");
}

void convert_report_text(const conversion *c)
{
    char a[32];
    note_list notes;
    int i;
    printf("%-15s %s: %s, %s layout", "checkpoint", paths_file_name(c->options->checkpoint),
           checkpoint_kind(c->checkpoint), c->map.layout->name);
    if (*checkpoint_wrapper(c->checkpoint)) printf(", in %s", checkpoint_wrapper(c->checkpoint));
    if (*c->map.prefix) printf(", under %s", c->map.prefix);
    putchar('\n');
    print_architecture(c);
    print_parts(c);
    print_preprocessing(&c->model.config);
    print_labels(c);
    printf("%-15s %s, %s, %s bytes\n", "output", c->options->output,
           tensor_dtype_name(c->options->dtype), text_grouped(c->output_size, a));
    if (c->calibration.count > 0)
        printf("%-15s on %d images\n", "calibrated", c->calibration.count);
    print_comparison(c);
    collect_notes(c, &notes);
    for (i = 0; i < notes.count; i++) printf("%-15s %s\n", "note", notes.text[i]);
}

/* === As JSON === */

static void put_config(json_writer *w, const vit_config *c)
{
    json_put_begin(w, "config", '{');
    describe_put_fields(w, c);
    json_put_floats(w, "mean", c->mean, c->in_chans);
    json_put_floats(w, "std", c->std, c->in_chans);
    json_put_end(w, '}');
}

static void put_parameters(json_writer *w, const conversion *c)
{
    const part_list list = list_parts(c);
    int i;
    json_put_begin(w, "parameters", '{');
    for (i = 0; i < list.count; i++)
        json_put_integer(w, list.items[i].name, (int64_t)list.items[i].parameters);
    json_put_integer(w, "total", (int64_t)c->parameters);
    json_put_end(w, '}');
}

static void put_notes(json_writer *w, const conversion *c)
{
    note_list notes;
    size_t t;
    int i;
    collect_notes(c, &notes);
    json_put_begin(w, "dropped", '[');
    for (t = 0; t < c->plan.ignored_count; t++) json_put_text(w, NULL, c->plan.ignored[t]);
    json_put_end(w, ']');
    json_put_begin(w, "notes", '[');
    for (i = 0; i < notes.count; i++) json_put_text(w, NULL, notes.text[i]);
    json_put_end(w, ']');
}

static void put_comparison(json_writer *w, const conversion *c)
{
    const comparison *k = &c->comparison;
    json_put_integer(w, "calibrated", c->calibration.count);
    if (k->images == 0) {
        json_put_text(w, "error", NULL);
        return;
    }
    json_put_begin(w, "error", '{');
    json_put_integer(w, "images", k->images);
    json_put_number(w, "mean_cosine", k->mean_cosine, 9);
    json_put_number(w, "min_cosine", k->min_cosine, 9);
    json_put_text(w, "worst_image", k->worst);
    if (k->has_classes) {
        json_put_integer(w, "agree", k->agree);
        json_put_decimals(w, "top1_agreement", (double)k->agree / k->images, 6);
    } else {
        json_put_text(w, "agree", NULL);
        json_put_text(w, "top1_agreement", NULL);
    }
    json_put_end(w, '}');
}

void convert_report_json(const conversion *c)
{
    json_writer w = json_write_to(stdout);
    char name[256];
    if (c->has_arch) arch_full_name(&c->arch, name, sizeof name);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "checkpoint", c->options->checkpoint);
    json_put_text(&w, "container", checkpoint_kind(c->checkpoint));
    json_put_text(&w, "layout", c->map.layout->name);
    json_put_text(&w, "wrapper", checkpoint_wrapper(c->checkpoint));
    json_put_text(&w, "prefix", c->map.prefix);
    json_put_text(&w, "architecture", c->has_arch ? name : NULL);
    put_config(&w, &c->model.config);
    put_parameters(&w, c);
    json_put_integer(&w, "labels", (int64_t)c->labels.count);
    json_put_text(&w, "dtype", tensor_dtype_name(c->options->dtype));
    json_put_text(&w, "output", c->options->output);
    json_put_integer(&w, "bytes", (int64_t)c->output_size);
    put_comparison(&w, c);
    put_notes(&w, c);
    json_put_end(&w, '}');
    putchar('\n');
}
