#define _POSIX_C_SOURCE 200809L

#include "convert/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "checkpoint/rename.h"
#include "convert/match.h"
#include "convert/training.h"
#include "convert/vit_file.h"
#include "layout/attributes.h"
#include "layout/check.h"
#include "layout/detect.h"
#include "layout/inspect.h"
#include "model/assume.h"
#include "model/subject.h"
#include "os/os.h"

/* === The checkpoint === */

static bool open_checkpoint(conversion *c, report *r)
{
    const char *weights = c->weights ? c->weights : c->options->weights;
    return checkpoint_open_weights(c->options->checkpoint, weights, &c->checkpoint, r) &&
           (c->options->rename.count == 0 ||
            rename_tensors(c->checkpoint, &c->options->rename, r));
}

/* === Configuration and name === */

/* config.json beside the checkpoint, or in it where that is a folder. malloc'ed. */
static char *config_beside(const char *checkpoint_path)
{
    static const char name[] = "config.json";
    size_t length = strlen(checkpoint_path);
    char *path = malloc(length + sizeof name + 1);
    if (!path) return NULL;
    if (source_is_folder(checkpoint_path))
        snprintf(path, length + sizeof name + 1, "%s%s%s", checkpoint_path,
                 paths_slash(checkpoint_path), name);
    else
        snprintf(path, length + sizeof name + 1, "%.*s%s",
                 (int)paths_folder_length(checkpoint_path), checkpoint_path, name);
    return path;
}

static bool read_config(conversion *c, report *r)
{
    const char *given = c->options->config;
    size_t size = given ? strlen(given) + 1 : 0;
    settings_start(&c->all[FROM_CONFIG], "config.json");
    c->config_path = given ? malloc(size) : config_beside(c->options->checkpoint);
    if (!c->config_path) return report_no_memory(r);
    if (given) memcpy(c->config_path, given, size);
    if (given || os_kind_of(c->config_path) == OS_FILE) {
        c->all[FROM_CONFIG].origin = paths_file_name(c->config_path);
        if (!config_read(&c->config_file, &c->all[FROM_CONFIG], c->config_path,
                         given ? NULL : &c->config_foreign, r))
            return false;
        if (!c->config_foreign) return true;
    }
    free(c->config_path);
    c->config_path = NULL;
    c->all[FROM_CONFIG].origin = paths_file_name(c->options->checkpoint);
    return training_read(c->checkpoint, &c->config_file, c->all, r);
}

static void settings_from_arch(settings *s, const arch_choice *choice)
{
    vit_config config;
    rope_options rope;
    arch_config(choice, &config);
    settings_from_config(s, &config);
    arch_rope_options(choice, &rope);
    settings_from_rope(s, &rope);
    settings_put(s, SETTING_CROP_PCT, choice->crop_pct);
    arch_mean_std(choice->norm, s->mean, s->std);
    s->mean_count = s->std_count = 3;
}

/* --arch, or what the configuration says; a name given by hand wins. A configuration may name an
 * architecture of its author's own: then its other entries and the tensors must do. */
static bool find_arch(conversion *c, report *r)
{
    const bool given = c->options->arch != NULL;
    const char *name = given ? c->options->arch : c->config_file.architecture;
    arch_result result;
    settings_start(&c->all[FROM_NAME], "");
    if (!name) return true;
    c->arch_origin = given ? "--arch" : c->all[FROM_CONFIG].origin;
    result = arch_find(name, &c->arch, r);
    if (result == ARCH_UNKNOWN && !given) {
        *r = report_make();
        c->arch_unknown = name;
        return true;
    }
    if (result != ARCH_FOUND) return report_file(r, given ? "--arch" : c->config_path);
    c->has_arch = true;
    c->all[FROM_NAME].origin = c->arch.arch->name;
    settings_from_arch(&c->all[FROM_NAME], &c->arch);
    return true;
}

/* === Labels === */

/* The checkpoint's own labels; a list of the wrong length is ignored. */
static bool read_own_labels(conversion *c, report *r)
{
    const size_t count = checkpoint_label_count(c->checkpoint);
    if (count == 0 || count != (size_t)c->model.config.num_classes) return true;
    c->labels_origin = paths_file_name(c->options->checkpoint);
    return labels_from_list(&c->labels, checkpoint_labels(c->checkpoint), count, r);
}

static bool read_labels(conversion *c, report *r)
{
    const char *path = c->options->labels;
    bool good;
    if (c->labels_origin) return true;   /* already, for labelled pictures */
    if (path)
        good = labels_read_file(&c->labels, path, r);
    else
        good = c->model.config.num_classes == 0 ||   /* without a head there is nothing to name */
               labels_from_json(&c->labels, c->config_file.label_names,
                                c->config_file.label_descriptions, r);
    if (good && c->labels.count > 0 && c->labels.count != (size_t)c->model.config.num_classes)
        good = report_fail(r, "%zu labels for %d classes", c->labels.count,
                           c->model.config.num_classes);
    if (!good) return report_file(r, path ? path : c->config_path);
    c->labels_origin = path ? paths_file_name(path) : c->all[FROM_CONFIG].origin;
    return c->labels.count > 0 || read_own_labels(c, r);
}

/* === The model === */

/* The self-test's tolerance, unless a source gives one. Builds with fused multiply-add compute the
 * same bits; those without (VIT_NO_FMA) differ by a few roundings, and where inputs are rounded to
 * 8 or 16 bits, each rounding can move a value by a whole step. */
static void choose_tolerance(conversion *c)
{
    double given;
    if (settings_get(c->all, SETTING_SELFTEST_TOLERANCE, &given)) return;
    if (c->options->dtype == VIT_BF16) c->model.config.selftest_tolerance = 0.02f;
    if (c->options->dtype == VIT_I8 || c->options->dtype == VIT_I4)
        c->model.config.selftest_tolerance = 0.1f;
}

/* The layout of what was found by structure, and what its names and shapes show. */
static bool use_structure(conversion *c, report *r)
{
    const structure *s = &c->structure;
    *r = report_make();
    layout_free_map(&c->map);
    if (s->heads) settings_put(&c->all[FROM_TENSORS], SETTING_NUM_HEADS, s->heads);
    if (s->assignment && !settings_parse(&c->all[FROM_TENSORS], s->assignment, r)) return false;
    return layout_use(s->layout, c->checkpoint, &c->map, r);
}

/* By the tables, or by structure where no table explains all tensors. But where most names are
 * those of a published library, the user must say what was changed. Where no table comes close, the
 * message is about what the structure lacks. */
static bool find_layout(conversion *c, report *r)
{
    const text_list *ignore = &c->options->ignore;
    report by_structure = report_make();
    const bool detected = layout_detect(c->checkpoint, &c->map, r);
    bool is_close = c->map.layout != NULL;
    if (r->no_memory || (detected && !layout_check_features(&c->map, ignore, r))) return false;
    if (detected && !layout_falls_short(&c->map, ignore)) return true;
    if (detected) is_close = layout_knows_most(&c->map);
    if (is_close && !c->map.layout->is_open &&
        (!detected || layout_has(&c->map, "blocks.0.attn.qkv.weight")))
        return detected;
    if (structure_find(c->checkpoint, ignore, c->options->match_input != NULL, &c->structure,
                       &by_structure))
        return use_structure(c, r);
    if (is_close && !by_structure.no_memory) return detected;
    *r = by_structure;
    return false;
}

/* One of several state dicts is taken. That its logits match is more than an assumption. */
static bool assume_weights(conversion *c)
{
    const size_t count = checkpoint_choice_count(c->checkpoint);
    char what[256], why[1024];
    size_t i;
    if (count < 2 || c->options->weights || c->options->match_input) return true;
    snprintf(what, sizeof what, "weights=%.200s", checkpoint_wrapper(c->checkpoint));
    snprintf(why, sizeof why, "one of several state dicts:");
    for (i = 0; i < count; i++)
        text_append(why, sizeof why, " %.200s", checkpoint_choice(c->checkpoint, i));
    return findings_assume(&c->found, what, why, "--weights NAME");
}

/* Is it a setting that a higher source gives? */
static bool is_told(const conversion *c, const char *what)
{
    subject s;
    return subject_find(what, strcspn(what, "="), &s) && s.row &&
           settings_origin(c->all, (setting_key)(s.row - setting_rows)) > FROM_TENSORS;
}

/* What the matching by structure rests on, unless logits that match have proved it. */
static bool assume_structure(conversion *c)
{
    const structure *s = &c->structure;
    int i;
    if (c->options->match_input) return true;
    for (i = 0; i < s->note_count; i++)
        if (!is_told(c, s->notes[i].what) &&
            !findings_assume(&c->found, s->notes[i].what, s->notes[i].why, s->notes[i].option))
            return false;
    return true;
}

/* What is assumed beyond single settings. */
static bool assume_sources(conversion *c)
{
    char what[512], why[512];
    if (!assume_weights(c) || !assume_structure(c)) return false;
    if (c->config_file.processor) {
        snprintf(what, sizeof what, "preprocessing of a %.100s", c->config_file.processor);
        snprintf(why, sizeof why, "transformers' default, as no preprocessor_config.json is beside "
                 "%.200s", paths_file_name(c->config_path));
        if (!findings_assume(&c->found, what, why, "--set mean=M --set std=S --set crop_pct=N"))
            return false;
    }
    if (c->arch_unknown) {
        snprintf(what, sizeof what, "architecture=%.200s", c->arch_unknown);
        snprintf(why, sizeof why, "%.200s names it, but timm has no such model: the rest of that "
                 "file and the tensors decide", c->arch_origin);
        if (!findings_assume(&c->found, what, why, "--arch NAME")) return false;
    }
    if (c->has_arch && !c->arch.tag_known) {
        snprintf(what, sizeof what, "preprocessing of %.200s", c->arch.arch->name);
        snprintf(why, sizeof why, "tag %.200s is not known", c->arch.tag);
        if (!findings_assume(&c->found, what, why, "--arch NAME")) return false;
    }
    return !c->config_foreign ||
           findings_assume(&c->found, "no configuration", "config.json beside the checkpoint is "
                           "not in timm's form and was not read", "--config FILE");
}

/* Folders of labelled pictures may be called as the classes are. */
static bool match_settings(conversion *c, report *r)
{
    double classes = 0;
    settings_get(c->all, SETTING_NUM_CLASSES, &classes);
    c->model.config.num_classes = (int)classes;
    if (c->options->match_folder && !read_labels(c, r)) return false;
    return match_run(c, r) && (match_assume(c->match, &c->found) || report_no_memory(r));
}

/* Everything but the weights themselves. What stands in the way comes in one message. */
static bool resolve(conversion *c, report *r)
{
    const convert_options *o = c->options;
    const patch_request wanted = { o->in_chans, o->patch_size };
    findings *f = &c->found;
    report failure = report_make();
    size_t i;
    bool inspected;
    settings_start(&c->all[FROM_TENSORS], "the tensors");
    if (!find_layout(c, r)) return false;
    if (!read_config(c, r) || !find_arch(c, r) || !match_prepare(c, r)) return false;
    if (!attributes_put(c->checkpoint, layout_patch_weight(&c->map), c->all, &c->told, r))
        return false;
    inspected = layout_inspect(&c->map, c->all, &c->seen, &failure);
    c->seen.is_batch_second = c->told.batch_second;
    c->seen.activation_doubt = c->told.activation_doubt;
    if (!layout_check_names(&c->map, c->all, &o->ignore, f, r)) return false;
    if (!inspected && !findings_take(f, &failure)) return report_no_memory(r);
    if (inspected && f->wrong.count == 0 && !match_settings(c, r)) return false;
    if (!layout_check_told(&c->map, c->all, &c->seen, f, r)) return false;
    if (inspected && !settings_resolve(c->all, &c->seen, &wanted, &c->model, f, r)) {
        if (!findings_take(f, r)) return false;
    } else if (inspected && !assume_settings(c->all, &c->seen, &c->model, f)) {
        return report_no_memory(r);
    }
    if (!assume_sources(c)) return report_no_memory(r);
    if (findings_are_open(f)) return findings_refuse(f, o->strict, r);
    choose_tolerance(c);
    if (!layout_make_plan(&c->map, &c->model, &o->ignore, &c->plan, f, r)) return false;
    for (i = 0; i < c->structure.dropped_count; i++)
        if (!layout_add_dropped(&c->plan, c->structure.dropped[i].name,
                                c->structure.dropped[i].why))
            return report_no_memory(r);
    return !o->strict || f->assumed.count == 0 || findings_refuse(f, true, r);
}

/* === One state dict after the other === */

/* Tries those that are not taken by default; the first that fits takes the place of c. */
static bool resolve_others(conversion *c, const conversion *start)
{
    conversion *other = malloc(sizeof *other);
    bool good = false;
    size_t i;
    for (i = 0; other && !good && i < checkpoint_choice_count(c->checkpoint); i++) {
        report r = report_make();
        *other = *start;
        other->weights = checkpoint_choice(c->checkpoint, i);
        if (!strcmp(other->weights, checkpoint_wrapper(c->checkpoint))) continue;
        good = open_checkpoint(other, &r) && resolve(other, &r);
        if (!good) convert_free(other);
    }
    if (good) {
        convert_free(c);
        *c = *other;
        c->weights = NULL;   /* was c's own */
    }
    free(other);
    return good;
}

/* Where an input and its logits are there to tell, any state dict may be the one. */
static bool open_and_resolve(conversion *c, report *r)
{
    conversion *start = malloc(sizeof *start);
    bool good;
    if (!start) return report_no_memory(r);
    *start = *c;
    good = open_checkpoint(c, r) && resolve(c, r);
    if (!good && c->checkpoint && c->options->match_input && !c->options->weights &&
        resolve_others(c, start)) {
        *r = report_make();
        good = true;
    }
    free(start);
    return good || report_file(r, c->options->checkpoint);
}

/* === Photos === */

static bool find_photos(conversion *c, report *r)
{
    const convert_options *o = c->options;
    return photos_find(&c->calibration, &o->calibrate, o->calibrate_max, r) &&
           photos_find(&c->photos, &o->compare, o->compare_max, r);
}

/* === Everything === */

static bool run(conversion *c, report *r)
{
    size_t i;
    if (!open_and_resolve(c, r)) return false;
    if (!read_labels(c, r) || !find_photos(c, r)) return false;
    for (i = 0; i < c->plan.count; i++)
        if (layout_is_stored(&c->plan.items[i]))
            c->parameters += tensor_count(&c->plan.items[i].tensor);
    if (c->options->plan) return true;
    return vit_file_write(c, r) || report_file(r, c->options->output);
}

/* The decoder comes first, before there are threads and a model. */
bool convert_run(conversion *c, report *r)
{
    const convert_options *o = c->options;
    bool good = true;
    if (o->calibrate.count || o->compare.count || o->match_folder) {
        c->decoder = photo_decoder_open(&o->decoding, "vit-convert", 1, r);
        good = c->decoder != NULL;
    }
    good = good && run(c, r);
    photo_decoder_close(c->decoder);
    c->decoder = NULL;
    return good;
}

void convert_free(conversion *c)
{
    match_free(c->match);
    layout_free_plan(&c->plan);
    layout_free_map(&c->map);
    structure_free(&c->structure);
    findings_free(&c->found);
    config_free(&c->config_file);
    labels_free(&c->labels);
    photos_free(&c->calibration);
    photos_free(&c->photos);
    checkpoint_close(c->checkpoint);
    free(c->config_path);
    free(c->provenance);
}
