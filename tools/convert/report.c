#define _POSIX_C_SOURCE 200809L
#include "convert/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "cli/output.h"
#include "convert/match.h"
#include "layout/rules.h"
#include "model/card.h"
#include "model/findings.h"
#include "os/os.h"

/* === Notes === */

enum { MAX_NOTES = 12 }; /* There are 7 kinds of notes, and each occurs at most once. */

typedef struct note_list {
    /* The texts of the notes. An entry has space for the text of a report and a few words. */
    char text[MAX_NOTES][REPORT_SIZE + 32];
    int count;
} note_list;

static char *add_note(note_list *notes) { return notes->text[notes->count++]; }

static void collect_notes(const blueprint *b, note_list *notes) {
    const vit_config *config = &b->model.config;
    const settings_stored *stored = &b->model.stored;
    char word[32];
    notes->count = 0;
    if (b->facts.told.text[0])
        snprintf(add_note(notes), sizeof notes->text[0], "the checkpoint contains %s",
                 b->facts.told.text);
    if (b->facts.told.code[0])
        snprintf(add_note(notes), sizeof notes->text[0], "the code shows %s", b->facts.told.code);
    if (stored->first_rows)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "pos_embed has %d rows, of which the first %d are used",
                 b->facts.seen.position_rows, stored->position_rows);
    if (b->model.context_divisor > 0)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "the original divides attention by %.9g after the softmax; the converter divided "
                 "attn.proj.weight instead",
                 b->model.context_divisor);
    if (b->model.notes.patches_adapted && config->stem)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "first convolution of the stem adapted from %d to %d channels", stored->chans,
                 config->in_chans);
    else if (b->model.notes.patches_adapted)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "patch embedding adapted from %d x %d x %d to %d x %d x %d weights", stored->chans,
                 stored->patch, stored->patch, config->in_chans, config->patch_size,
                 config->patch_size);
    if (b->model.notes.positions_resampled)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "positions resampled from %dx%d to %dx%d patches, as %s does", stored->grid_height,
                 stored->grid_width, config->grid_height, config->grid_width,
                 setting_text(SETTING_POS_RESAMPLE, (int)b->model.notes.pos_resample, word));
}

/* === Lines that are always printed === */

/* Returns the longest name of an architecture that occurs in the file's name; NULL if there is
 * none. The result is only a hint, because file names may be wrong. */
static const char *name_in_file(const char *path) {
    const char *file = paths_file_name(path), *best = NULL;
    const arch *a;
    size_t i;
    for (i = 0; (a = arch_at(i)) != NULL; i++)
        if (strstr(file, a->name) && (!best || strlen(a->name) > strlen(best))) best = a->name;
    return best;
}

enum { EFFECT_SIZE = 224 };

/* Prints the unimportant assumptions in one line. If `measured` is true, prints those whose effect
 * was measured. Otherwise prints the others. */
static void print_minor(const finding_list *list, bool measured, const char *program) {
    char text[REPORT_SIZE / 2] = "";
    for (size_t i = 0; i < list->count; i++)
        if (findings_is_minor(&list->items[i]) && !list->items[i].otherwise == !measured)
            text_append(text, sizeof text, "%s%s", *text ? ", " : "", list->items[i].what);
    if (*text)
        report_error(program, NULL,
                     "assumed too (%s): %s (--set KEY=VALUE changes one; --json gives the reasons)",
                     measured ? "other values move the output by less than 0.01 %"
                              : "rarely important",
                     text);
}

/* Returns the effect of a wrong assumption as text, such as "relu moves the output by 14 %; ".
 * Returns "" if the effect was not measured. */
static const char *effect_text(const finding *item, char text[EFFECT_SIZE]) {
    const double percent = 100 * item->effect;
    *text = '\0';
    if (item->otherwise)
        snprintf(text, EFFECT_SIZE, "%.160s moves the output by %.*g %%; ", item->otherwise,
                 percent < 99.5 ? 2 : 3, percent);
    return text;
}

static bool assumes_colours(const finding_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (!strncmp(list->items[i].what, "mean=", 5) || !strncmp(list->items[i].what, "std=", 4))
            return true;
    return false;
}

/* Prints the options that would replace the assumptions by facts. Those for the preprocessing come
 * last. */
static void print_help(const convert_options *o, const blueprint *b, const char *program) {
    const facts *f = &b->facts;
    const char *hint = name_in_file(o->checkpoint);
    const bool lacks_settings = settings_origin(f->all, SETTING_NORM_EPS) < 0;
    const bool lacks_colours = !b->description.has_arch && assumes_colours(&b->found.assumed);
    char archs[ARCHS_TEXT];
    const bool some_fit = lacks_colours && archs_by_shape(f->all, &f->seen, &f->wanted, archs);
    if (lacks_settings && (hint || !lacks_colours))
        report_error(program, NULL, "--arch %s or --config FILE would add settings",
                     hint ? hint : "NAME");
    else if (b->found.assumed.count > 0 && f->map.layout->is_open && !b->description.has_arch &&
             !o->match_input && !(lacks_settings && some_fit))
        report_error(program, NULL,
                     "one input with the original's logits would settle all but the "
                     "preprocessing: --match-input x.npy --match-logits y.npy");
    if (some_fit)
        report_error(program, NULL,
                     "--arch NAME would settle the preprocessing; timm's names that fit the "
                     "tensors: %s",
                     archs);
    else if (lacks_colours && !o->match_folder)
        report_error(program, NULL,
                     "--config FILE, or --match-folder DIR with labelled pictures, would settle "
                     "the preprocessing; no --arch fits the tensors");
}

/* Prints the assumptions, those with the greatest expected harm first (findings_order). If there
 * are more than two, marks the first one. */
static void print_assumed(const convert_options *o, const blueprint *b, const char *program) {
    const finding_list *list = &b->found.assumed;
    char effect[EFFECT_SIZE];
    size_t i, minor = 0;
    for (i = 0; i < list->count; i++) minor += findings_is_minor(&list->items[i]);
    for (i = 0; i < list->count; i++) {
        const finding *item = &list->items[i];
        if (minor > 1 && findings_is_minor(item)) continue;
        report_error(program, NULL, "%sassumed %s: %s (%s%s)",
                     i == 0 && list->count > 2 ? "check first: " : "", item->what, item->why,
                     effect_text(item, effect), item->options);
    }
    if (minor > 1) print_minor(list, true, program);
    if (minor > 1) print_minor(list, false, program);
    if (b->is_unmeasured && list->count > 2)
        report_error(
            program, NULL,
            "assumed values are sorted by the usual effect of a wrong value, because the model is "
            "too large to measure the effect");
    print_help(o, b, program);
}

/* Prints the tensors that were dropped for the reason `why`. */
static void print_dropped(const name_groups *groups, const char *why, size_t count,
                          const char *program) {
    char text[REPORT_SIZE / 2] = "", name[GROUP_TEXT_SIZE];
    size_t i, used = 0, named = 0;
    for (i = 0; i < groups->count; i++) {
        const name_group *group = &groups->items[i];
        (void)group_text(group, name);
        if (used + strlen(name) + 3 > sizeof text) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", name);
        named += group->count;
    }
    if (named == count)
        report_error(program, NULL, "dropped %zu tensor%s %s: %s", count, count == 1 ? "" : "s",
                     why, text);
    else
        report_error(program, NULL, "dropped %zu tensors %s: %s and %zu more", count, why, text,
                     count - named);
}

enum { MAX_REASONS = 64 }; /* more reasons than any layout has */

/* Prints one line for each reason for which tensors were dropped. Returns false if memory is
 * exhausted. */
static bool print_all_dropped(const layout_plan *plan, name_groups *groups, const char *program) {
    const char *said[MAX_REASONS];
    size_t reasons = 0, first, i, count;
    for (first = 0; first < plan->dropped_count; first++) {
        const char *why = plan->dropped[first].why;
        for (i = 0; i < reasons && strcmp(said[i], why) != 0;) i++;
        if (i < reasons || reasons == MAX_REASONS) continue;
        said[reasons++] = why;
        for (count = 0, i = first; i < plan->dropped_count; i++) {
            if (strcmp(plan->dropped[i].why, why) != 0) continue;
            if (!groups_add(groups, plan->dropped[i].name, "")) return false;
            count++;
        }
        print_dropped(groups, why, count, program);
        groups_free(groups);
    }
    return true;
}

/* Describes the original's output in words. Returns NULL if the output is logits. */
static const char *end_words(model_end end) {
    switch (end) {
    case MODEL_END_SOFTMAX: return "probabilities (softmax)";
    case MODEL_END_LOG_SOFTMAX: return "log-probabilities (log_softmax)";
    case MODEL_END_SIGMOID: return "a probability for each class (sigmoid)";
    case MODEL_END_UNIT: return "an embedding scaled to length 1";
    case MODEL_END_NONE: break;
    }
    return NULL;
}

static model_end end_of(const blueprint *b) { return match_end(b->match, b->facts.told.end); }

/* Explains how the original's output differs from the output of vit-run. */
static void print_end(const blueprint *b, const char *program) {
    const model_end end = end_of(b);
    if (match_is_by_embedding(b->match))
        report_error(program, NULL,
                     "--match-logits holds the embedding, which is the input of the head. vit-run "
                     "--embedding writes the embedding, and vit-run --logits writes the logits");
    if (end == MODEL_END_UNIT)
        report_error(program, NULL,
                     "the original gives %s: vit-run gives the embedding before it is divided by "
                     "its length",
                     end_words(end));
    else if (end != MODEL_END_NONE)
        report_error(program, NULL,
                     "the original gives %s: vit-run gives the logits before this last step, and "
                     "vit-classify gives probabilities",
                     end_words(end));
}

void convert_report_findings(const conversion *c, const char *program) {
    const layout_plan *plan = &c->blueprint.plan;
    name_groups *groups = calloc(1, sizeof *groups);
    print_assumed(c->options, &c->blueprint, program);
    print_end(&c->blueprint, program);
    if (!groups || !print_all_dropped(plan, groups, program))
        report_error(program, NULL, "dropped %zu tensors", plan->dropped_count);
    if (groups) groups_free(groups);
    free(groups);
}

/* === As text === */

static part_list list_parts(const layout_plan *plan) {
    /* The patch embedding comes first. */
    part_list list = { .items = { { "patch_embed", 0 } }, .count = 1 };
    size_t t;
    for (t = 0; t < plan->count; t++)
        if (layout_is_stored(&plan->items[t])) parts_add(&list, &plan->items[t].tensor);
    return list;
}

static void print_parts(const layout_plan *plan, int depth) {
    const part_list list = list_parts(plan);
    char whole[32], each[32];
    int i;
    for (i = 0; i < list.count; i++) {
        const part *p = &list.items[i];
        printf("%-15s %-14s %16s", i == 0 ? "parameters" : "", p->name,
               text_grouped(p->parameters, whole));
        if (!strcmp(p->name, "blocks"))
            printf("   %d x %s", depth, text_grouped(p->parameters / (uint64_t)depth, each));
        putchar('\n');
    }
    printf("%-15s %-14s %16s\n", "", "total", text_grouped(list.total, whole));
}

static void print_resize(const vit_config *c) {
    switch ((vit_crop_mode)c->crop_mode) {
    case VIT_CROP_CENTER: printf("shorter side to %d, crop the centre", c->resize_height); return;
    case VIT_CROP_BORDER: printf("longer side to %d, pad", c->resize_height); return;
    case VIT_CROP_ASPECT: break;
    case VIT_CROP_SQUASH:
    case VIT_NUM_CROP_MODES: break;
    }
    if (c->resize_height == c->img_height) printf("squash");
    else printf("squash to %d, crop the centre", c->resize_height);
}

/* Prints the values of all channels, or one value if all channels have the same value. */
static void print_vector(const char *name, const float *values, int n) {
    bool equal = true;
    int i;
    for (i = 1; i < n; i++) equal = equal && values[i] == values[0];
    printf(", %s", name);
    for (i = 0; i < (equal ? 1 : n); i++) printf(" %.6g", (double)values[i]);
}

static void print_preprocessing(const vit_config *c) {
    char filter[32];
    printf("%-15s ", "preprocessing");
    if (c->crop_mode == VIT_CROP_ASPECT && c->crop_rounding == VIT_ROUND_NEAREST)
        printf("any aspect ratio, whole patches, height near %d or width near %d", c->resize_height,
               c->resize_width);
    else if (c->crop_mode == VIT_CROP_ASPECT)
        printf("any aspect ratio, at most %d patches",
               (c->resize_height / c->patch_size) * (c->resize_width / c->patch_size));
    else if (c->resize_height == c->resize_width) print_resize(c);
    else
        printf("%s, %dx%d", c->crop_mode == VIT_CROP_SQUASH ? "squash" : "resize", c->resize_height,
               c->resize_width);
    if (c->crop_mode != VIT_CROP_ASPECT) printf(" to %dx%d", c->img_height, c->img_width);
    printf(", %s", setting_text(SETTING_INTERPOLATION, c->interpolation, filter));
    print_vector("mean", c->mean, c->in_chans);
    print_vector("std", c->std, c->in_chans);
    putchar('\n');
}

static void print_architecture(const description *d, const vit_config *k) {
    char name[256] = "not named", options[512];
    if (d->has_arch) arch_full_name(&d->arch, name, sizeof name);
    text_print(stdout, "%-15s %s", "architecture", name);
    if (d->has_arch) text_print(stdout, " (%s)", d->arch_origin);
    printf("\n%-15s embed_dim %d, depth %d, heads %d x %d, mlp_dim %d, patch %d\n", "",
           k->embed_dim, k->depth, k->num_heads, k->head_dim, k->mlp_dim, k->patch_size);
    printf("%-15s input %d x %d x %d, %d tokens, %d class%s\n", "", k->in_chans, k->img_height,
           k->img_width, k->num_tokens, k->num_classes, k->num_classes == 1 ? "" : "es");
    if (*settings_describe(k, options, sizeof options)) printf("%-15s %s\n", "", options);
}

static void print_labels(const class_names *names, size_t unused, int classes) {
    if (names->list.count == 0 && unused > 0)
        printf("%-15s none: the checkpoint names %zu classes, but the model has %d\n", "labels",
               unused, classes);
    else if (names->list.count == 0)
        printf("%-15s none%s\n", "labels",
               classes > 0 ? "; --labels FILE names the classes, one name per line" : "");
    else
        text_print(stdout, "%-15s %zu from %s, the first \"%s\"\n", "labels", names->list.count,
                   names->origin, names->list.labels[0]);
}

static void print_comparison(const comparison *k, bool by_calibration) {
    if (k->images == 0) return;
    printf("%-15s against f32 on %d images%s\n", "error", k->images,
           by_calibration ? ", the calibration images" : "");
    text_print(stdout, "%-15s cosine of the embeddings %.6f on average, %.6f at worst (%s)\n", "",
               k->mean_cosine, k->min_cosine, k->worst);
    if (!k->has_classes) return;
    printf("%-15s same best class for %d of %d images, %.2f %%\n", "", k->agree, k->images,
           100.0 * k->agree / k->images);
    printf("%-15s and for %d of %d images whose best class leads by 10 percentage points in "
           "f32\n",
           "", k->sure_agree, k->sure);
}

void convert_report_skipped(const photo_list *photos, const char *program) {
    enum { NAMED = 8 };
    const char *const *names = (const char *const *)photos->paths + photos->count;
    char text[400];
    size_t used = 0;
    int i;
    if (photos->skipped == 0) return;
    for (i = 0; i < photos->skipped && i < NAMED && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", names[i]);
    report_error(program, NULL, "skipped %d unreadable images of %d: %s%s", photos->skipped,
                 photos->count + photos->skipped, text,
                 photos->skipped > NAMED && used < sizeof text ? ", ..." : "");
}

void convert_report_text(const conversion *c) {
    const convert_options *o = c->options;
    const blueprint *b = &c->blueprint;
    char a[32];
    note_list notes;
    int i;
    text_print(stdout, "%-15s %s: %s, %s%s", "checkpoint", paths_file_name(o->checkpoint),
               checkpoint_kind(b->checkpoint), b->structure.found ? "" : b->facts.map.layout->name,
               b->structure.found ? "matched by structure" : " layout");
    if (*checkpoint_wrapper(b->checkpoint))
        text_print(stdout, ", in the state dict %s", checkpoint_wrapper(b->checkpoint));
    if (*b->facts.map.prefix) text_print(stdout, ", names with the prefix %s", b->facts.map.prefix);
    putchar('\n');
    print_architecture(&b->description, &b->model.config);
    print_parts(&b->plan, b->model.config.depth);
    print_preprocessing(&b->model.config);
    print_labels(&b->labels, checkpoint_label_count(b->checkpoint), b->model.config.num_classes);
    if (!o->plan)
        text_print(stdout, "%-15s %s, %s, %s bytes\n", "output", o->output,
                   tensor_dtype_name(o->dtype), text_grouped(c->written.size, a));
    if (c->photos.calibration.count > 0)
        printf("%-15s on %d images\n", "calibrated", c->photos.calibration.count);
    print_comparison(&c->written.comparison, c->photos.compared.count == 0);
    match_report_text(b->match);
    collect_notes(b, &notes);
    for (i = 0; i < notes.count; i++) text_print(stdout, "%-15s %s\n", "note", notes.text[i]);
    if (o->plan) mapping_print(b);
}

/* === As JSON === */

static void put_config(json_writer *w, const vit_config *c) {
    json_put_begin(w, "config", '{');
    describe_put_fields(w, c);
    json_put_floats(w, "mean", c->mean, c->in_chans);
    json_put_floats(w, "std", c->std, c->in_chans);
    json_put_end(w, '}');
}

static void put_parameters(json_writer *w, const layout_plan *plan) {
    const part_list list = list_parts(plan);
    int i;
    json_put_begin(w, "parameters", '{');
    for (i = 0; i < list.count; i++)
        json_put_integer(w, list.items[i].name, (int64_t)list.items[i].parameters);
    json_put_integer(w, "total", (int64_t)list.total);
    json_put_end(w, '}');
}

static void put_notes(json_writer *w, const blueprint *b) {
    note_list notes;
    size_t t;
    int i;
    collect_notes(b, &notes);
    json_put_begin(w, "dropped", '[');
    for (t = 0; t < b->plan.dropped_count; t++) json_put_text(w, NULL, b->plan.dropped[t].name);
    json_put_end(w, ']');
    findings_put_assumed(w, &b->found);
    json_put_begin(w, "notes", '[');
    for (i = 0; i < notes.count; i++) json_put_text(w, NULL, notes.text[i]);
    json_put_end(w, ']');
}

static void put_comparison(json_writer *w, const comparison *k) {
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
        json_put_integer(w, "sure", k->sure);
        json_put_integer(w, "sure_agree", k->sure_agree);
    } else {
        json_put_text(w, "agree", NULL);
        json_put_text(w, "top1_agreement", NULL);
        json_put_text(w, "sure", NULL);
        json_put_text(w, "sure_agree", NULL);
    }
    json_put_end(w, '}');
}

void convert_report_json(const conversion *c) {
    const convert_options *o = c->options;
    const blueprint *b = &c->blueprint;
    json_writer w = json_write_to(stdout);
    char name[256];
    if (b->description.has_arch) arch_full_name(&b->description.arch, name, sizeof name);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "checkpoint", o->checkpoint);
    json_put_text(&w, "container", checkpoint_kind(b->checkpoint));
    json_put_text(&w, "layout", b->facts.map.layout->name);
    json_put_text(&w, "wrapper", checkpoint_wrapper(b->checkpoint));
    json_put_text(&w, "prefix", b->facts.map.prefix);
    json_put_text(&w, "architecture", b->description.has_arch ? name : NULL);
    put_config(&w, &b->model.config);
    put_parameters(&w, &b->plan);
    json_put_integer(&w, "labels", (int64_t)b->labels.list.count);
    json_put_text(&w, "dtype", tensor_dtype_name(o->dtype));
    json_put_text(&w, "output", o->output);
    json_put_integer(&w, "bytes", (int64_t)c->written.size);
    json_put_integer(&w, "calibrated", c->photos.calibration.count);
    put_comparison(&w, &c->written.comparison);
    json_put_text(&w, "original_gives", end_words(end_of(b)));
    match_report_json(b->match, &w);
    put_notes(&w, b);
    if (o->plan) mapping_put(&w, b);
    json_put_end(&w, '}');
    putchar('\n');
}

void convert_report_failure_json(const conversion *c, bool planned, const report *r) {
    const blueprint *b = &c->blueprint;
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "checkpoint", c->options->checkpoint);
    json_put_text(&w, "container", b->checkpoint ? checkpoint_kind(b->checkpoint) : NULL);
    json_put_text(&w, "layout", b->facts.map.layout ? b->facts.map.layout->name : NULL);
    json_put_text(&w, "failure", r->text);
    findings_put_wrong(&w, &b->found);
    findings_put_questions(&w, &b->found);
    findings_put_assumed(&w, &b->found);
    if (planned) mapping_put(&w, b);
    json_put_end(&w, '}');
    putchar('\n');
}

/* === The mapping === */

/* A line of the mapping table. An item is one tensor of the .vit file. Items that differ only in
 * the number of their block share a line. */
typedef struct mapping_row {
    name_groups *ours;
    name_groups *theirs[LAYOUT_MAX_PARTS];
    char shape[SHAPE_TEXT_SIZE];
    const char *why;
} mapping_row;

/* Returns the reason why an item has its name: "computed", the reason that the search by structure
 * found for its first tensor, or the name of a known layout. */
static const char *reason_of(const blueprint *b, const layout_item *item) {
    const checkpoint_tensor_info *info = item->part_count ? item->parts[0].info : NULL;
    const size_t index = info ? (size_t)(info - checkpoint_tensor(b->checkpoint, 0)) : 0;
    if (!info) return "computed";
    return b->structure.found && index < b->structure.reason_count ? b->structure.reasons[index]
                                                                   : b->facts.map.layout->name;
}

static const char *part_name(const layout_part *p) {
    return p->info ? p->info->stored_name : "zeros";
}

/* === As text === */

static void free_row(mapping_row *row) {
    int i;
    if (row->ours) groups_free(row->ours);
    free(row->ours);
    for (i = 0; i < LAYOUT_MAX_PARTS; i++) {
        if (row->theirs[i]) groups_free(row->theirs[i]);
        free(row->theirs[i]);
    }
    memset(row, 0, sizeof *row);
}

static bool add_name(name_groups **groups, const char *name) {
    if (!*groups) *groups = calloc(1, sizeof **groups);
    return *groups && groups_add(*groups, name, "");
}

static bool add_item(mapping_row *row, const blueprint *b, const layout_item *item) {
    int i;
    shape_text(item->dims, item->tensor.ndim, row->shape, sizeof row->shape);
    row->why = reason_of(b, item);
    for (i = 0; i < item->part_count; i++)
        if (!add_name(&row->theirs[i], part_name(&item->parts[i]))) return false;
    return add_name(&row->ours, item->tensor.name);
}

/* True if the items are the same tensor of some blocks, and are made from equally many parts. */
static bool is_same_item(const layout_item *a, const layout_item *b) {
    const char *x = strchr(a->tensor.name + strlen("blocks."), '.');
    const char *y = strchr(b->tensor.name + strlen("blocks."), '.');
    return a->block >= 0 && b->block >= 0 && x && y && !strcmp(x, y) &&
           a->part_count == b->part_count && layout_is_stored(b);
}

static void print_row(const mapping_row *row) {
    char name[GROUP_TEXT_SIZE];
    int i;
    text_print(stdout, "  %-32s %-16s ", group_text(&row->ours->items[0], name), row->shape);
    for (i = 0; i < LAYOUT_MAX_PARTS && row->theirs[i]; i++)
        text_print(stdout, "%s%s", i ? " + " : "", group_text(&row->theirs[i]->items[0], name));
    text_print(stdout, "%s(%s)\n", i ? "  " : "", row->why);
}

/* Prints one line for all blocks if the names in the checkpoint follow one pattern. Otherwise
 * prints one line for each block. */
static bool print_blocks(const blueprint *b, const layout_item *first) {
    mapping_row row = { 0 };
    const layout_item *item = first, *end = b->plan.items + b->plan.count;
    bool good = true;
    int i, differ = 0;
    for (; good && item < end; item++)
        if (is_same_item(first, item)) good = add_item(&row, b, item);
    for (i = 0; i < LAYOUT_MAX_PARTS && row.theirs[i]; i++)
        differ += row.theirs[i]->count > 1 || row.theirs[i]->more > 0;
    if (good && differ == 0) print_row(&row);
    for (item = first; good && differ > 0 && item < end; item++) {
        if (!is_same_item(first, item)) continue;
        free_row(&row);
        good = add_item(&row, b, item);
        if (good) print_row(&row);
    }
    free_row(&row);
    return good;
}

/* True if an earlier block has the same item. The line of that block then covers this item. */
static bool is_printed(const blueprint *b, const layout_item *item) {
    const layout_item *other;
    for (other = b->plan.items; item->block > 0 && other < item; other++)
        if (is_same_item(item, other)) return true;
    return false;
}

static bool print_item(const blueprint *b, const layout_item *item) {
    mapping_row row = { 0 };
    bool good;
    if (is_printed(b, item)) return true;
    if (item->block >= 0) return print_blocks(b, item);
    good = add_item(&row, b, item);
    if (good) print_row(&row);
    free_row(&row);
    return good;
}

/* Makes an item of a plan from a tensor to which the search by structure gave a name. */
static layout_item name_item(const checkpoint_tensor_info *info) {
    layout_item item;
    memset(&item, 0, sizeof item);
    snprintf(item.tensor.name, sizeof item.tensor.name, "%s", info->name);
    item.tensor.ndim = info->ndim;
    memcpy(item.dims, info->dims, sizeof item.dims);
    item.kind = SOURCE_CHECKPOINT;
    item.block = -1;
    (void)sscanf(info->name, "blocks.%d.", &item.block);
    item.part_count = 1;
    item.parts[0].info = info;
    return item;
}

bool mapping_plan_names(blueprint *b) {
    const size_t count = b->structure.found ? b->structure.reason_count : 0;
    size_t i;
    if (b->plan.count > 0 || count == 0) return b->plan.count > 0;
    b->plan.items = calloc(count, sizeof *b->plan.items);
    for (i = 0; b->plan.items && i < count; i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(b->checkpoint, i);
        if (info->ndim <= 4) b->plan.items[b->plan.count++] = name_item(info);
    }
    return b->plan.items != NULL;
}

void mapping_print(const blueprint *b) {
    bool good = true;
    size_t i;
    puts("mapping");
    for (i = 0; good && i < b->plan.count; i++)
        if (layout_is_stored(&b->plan.items[i])) good = print_item(b, &b->plan.items[i]);
    if (!good) puts("  ...: out of memory");
    if (b->plan.dropped_count > 0) puts("dropped");
    for (i = 0; i < b->plan.dropped_count; i++)
        text_print(stdout, "  %s  (%s)\n", b->plan.dropped[i].name, b->plan.dropped[i].why);
}

/* === As JSON === */

static void put_item(json_writer *w, const blueprint *b, const layout_item *item) {
    int i;
    json_put_begin(w, NULL, '{');
    json_put_text(w, "tensor", item->tensor.name);
    json_put_begin(w, "shape", '[');
    for (i = 0; i < item->tensor.ndim; i++) json_put_integer(w, NULL, item->dims[i]);
    json_put_end(w, ']');
    json_put_begin(w, "from", '[');
    for (i = 0; i < item->part_count; i++) json_put_text(w, NULL, part_name(&item->parts[i]));
    json_put_end(w, ']');
    json_put_text(w, "reason", reason_of(b, item));
    json_put_end(w, '}');
}

void mapping_put(json_writer *w, const blueprint *b) {
    size_t i;
    json_put_begin(w, "mapping", '[');
    for (i = 0; i < b->plan.count; i++)
        if (layout_is_stored(&b->plan.items[i])) put_item(w, b, &b->plan.items[i]);
    json_put_end(w, ']');
}

/* === Provenance === */

/* Writes the line "KEY: VALUE", or "KEY VALUE" for a key such as "option: --set". */
static void put_line(FILE *file, const char *key, const char *value) {
    text_print(file, "%s%s%s\n", key, strncmp(key, "option", 6) ? ": " : " ", value);
}

typedef struct hashing {
    cli_progress progress;
    uint64_t done;
} hashing;

static void show_hashing(void *user, size_t bytes) {
    hashing *h = user;
    cli_progress_update(&h->progress, h->done += bytes);
}

static bool put_sources(const checkpoint *c, bool quiet, FILE *file, report *r) {
    uint64_t total = 0;
    hashing h;
    size_t count = checkpoint_file_count(c), i;
    bool good = true;
    for (i = 0; i < count; i++) total += checkpoint_file(c, i)->size;
    h.done = 0;
    cli_progress_start(&h.progress, "hashing", total);
    if (quiet) h.progress.active = false;
    for (i = 0; i < count; i++) {
        const char *path = checkpoint_file(c, i)->path;
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

/* Writes the settings that the user gave, as command-line options. */
static void put_overrides(const convert_options *o, FILE *file) {
    int i;
    if (o->arch) put_line(file, "option: --arch", o->arch);
    if (o->img_size) put_line(file, "option: --img-size", o->img_size);
    if (o->patch_size) fprintf(file, "option: --patch-size %d\n", o->patch_size);
    if (o->in_chans) fprintf(file, "option: --in-chans %d\n", o->in_chans);
    if (o->dynamic) put_line(file, "option:", "--dynamic");
    for (i = 0; i < o->set.count; i++) put_line(file, "option: --set", o->set.items[i]);
    for (i = 0; i < o->rename.count; i++) put_line(file, "option: --rename", o->rename.items[i]);
    for (i = 0; i < o->ignore.count; i++) put_line(file, "option: --ignore", o->ignore.items[i]);
    for (i = 0; i < o->keep.count; i++) put_line(file, "option: --keep", o->keep.items[i]);
}

static void put_origin(const blueprint *b, FILE *file) {
    const description *d = &b->description;
    char name[256];
    put_line(file, "container", checkpoint_kind(b->checkpoint));
    put_line(file, "layout", b->facts.map.layout->name);
    if (*checkpoint_wrapper(b->checkpoint))
        put_line(file, "wrapper", checkpoint_wrapper(b->checkpoint));
    if (*b->facts.map.prefix) put_line(file, "prefix", b->facts.map.prefix);
    if (d->has_arch) {
        arch_full_name(&d->arch, name, sizeof name);
        put_line(file, "architecture", name);
    } else if (d->arch_unknown) {
        put_line(file, "architecture", d->arch_unknown);
    }
    if (d->path) put_line(file, "config", b->facts.all[FROM_CONFIG].origin);
    if (b->labels.list.count > 0) put_line(file, "labels", b->labels.origin);
}

static void put_assumptions(const finding_list *list, FILE *file) {
    size_t i;
    for (i = 0; i < list->count; i++) {
        const finding *item = &list->items[i];
        char text[1024];
        snprintf(text, sizeof text, "%s (%s)", item->what, item->why);
        put_line(file, "assumed", text);
    }
}

/* Writes a line for each kind of change that the converter made to tensors. */
static void put_changes(const blueprint *b, FILE *file) {
    const settings_stored *stored = &b->model.stored;
    const settings_notes *notes = &b->model.notes;
    char word[32];
    if (b->model.context_divisor > 0)
        fprintf(file, "folded: attn.proj.weight, divided by the root of embed_dim\n");
    if (b->model.config.attention == VIT_ATTENTION_SELF)
        fprintf(file, "folded: attn.proj, with the values of attn.qkv\n");
    if (notes->patches_adapted && b->model.config.stem)
        fprintf(file, "adapted: the stem, from %d channels\n", stored->chans);
    else if (notes->patches_adapted)
        fprintf(file, "adapted: patch_embed.proj.weight, from %d x %d x %d\n", stored->chans,
                stored->patch, stored->patch);
    if (notes->positions_resampled)
        fprintf(file, "resampled: %s, from a grid of %dx%d, as %s does\n",
                b->facts.seen.position_rows > 0 ? "pos_embed" : "attn.rel_pos", stored->grid_height,
                stored->grid_width,
                setting_text(SETTING_POS_RESAMPLE, (int)notes->pos_resample, word));
}

static void put_provenance(const convert_options *o, const blueprint *b, int calibrated,
                           FILE *file) {
    put_origin(b, file);
    put_line(file, "dtype", tensor_dtype_name(o->dtype));
    if (calibrated > 0) fprintf(file, "calibrated: on %d images\n", calibrated);
    put_overrides(o, file);
    if (end_of(b) != MODEL_END_NONE)
        fprintf(file, "original: gives %s; this file gives the values before this last step\n",
                end_words(end_of(b)));
    match_put_provenance(b->match, file);
    put_assumptions(&b->found.assumed, file);
    put_changes(b, file);
    fprintf(file, "converter: vit-convert %d.%d.%d\n", VIT_VERSION_MAJOR, VIT_VERSION_MINOR,
            VIT_VERSION_PATCH);
}

bool provenance_make(const convert_options *o, const blueprint *b, int calibrated, char **text,
                     report *r) {
    size_t size;
    FILE *file = os_memory_open(text, &size);
    bool good;
    if (!file) return report_no_memory(r);
    good = put_sources(b->checkpoint, o->quiet, file, r);
    if (good) put_provenance(o, b, calibrated, file);
    if (!os_memory_close(file, text, &size) && good) return report_no_memory(r);
    return good;
}
