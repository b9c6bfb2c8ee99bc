#define _POSIX_C_SOURCE 200809L
#include "convert/convert.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "cli/output.h"
#include "convert/calibrate.h"
#include "convert/match.h"
#include "convert/report.h"
#include "convert/runner.h"
#include "convert/vit_writer.h"
#include "convert/conversion.h"
#include "layout/attributes.h"
#include "layout/detect.h"
#include "layout/inspect.h"
#include "model/findings.h"
#include "model/resolve.h"
#include "model/timm_names.h"
#include "os/os.h"

/* === What a conversion keeps === */

photo_list *conversion_photos(conversion *c) {
    return c->photos.count > 0 ? &c->photos : &c->calibration;
}

vit_writer_keep conversion_kept(const conversion *c) {
    const convert_options *o = c->options;
    const vit_writer_keep asked = { o->keep.items, o->keep.count };
    return asked.count ? asked : vit_writer_kept(&c->model.config, o->dtype);
}

bool conversion_allows_nonfinite(const conversion *c) {
    return c->all[FROM_OPTIONS].value[SETTING_ALLOW_NONFINITE] != 0;
}

/* === The checkpoint === */

static bool open_checkpoint(conversion *c, report *r) {
    const char *weights = c->weights ? c->weights : c->options->weights;
    return checkpoint_open_weights(c->options->checkpoint, weights, &c->checkpoint, r) &&
           (c->options->rename.count == 0 || rename_tensors(c->checkpoint, &c->options->rename, r));
}

/* === Configuration and name === */

/* config.json beside the checkpoint, or in it where that is a folder. malloc'ed. */
static char *config_beside(const char *checkpoint_path) {
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

static bool read_config(conversion *c, report *r) {
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

static void settings_from_arch(settings *s, const arch_choice *choice) {
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

/* --arch, or what the configuration says; a name given by hand wins. If a configuration names
 * its author's own architecture, its other entries and the tensors must suffice. */
static bool find_arch(conversion *c, report *r) {
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

static const char labels_none[] = "none", labels_imagenet[] = "imagenet";

/* The checkpoint's own labels; a list of the wrong length is ignored. */
static bool read_own_labels(conversion *c, report *r) {
    const size_t count = checkpoint_label_count(c->checkpoint);
    if (count == 0 || count != (size_t)c->model.config.num_classes) return true;
    c->labels_origin = paths_file_name(c->options->checkpoint);
    return labels_from_list(&c->labels, checkpoint_labels(c->checkpoint), count, r);
}

/* --labels none, or imagenet. */
static bool read_known_labels(conversion *c, const char *name, report *r) {
    c->labels_origin = name;
    if (!strcmp(name, labels_none)) return true;
    if (c->model.config.num_classes == IMAGENET_CLASSES)
        return labels_from_imagenet(&c->labels, r) || report_file(r, "--labels");
    (void)report_fail(r,
                      "imagenet: expected a model of the %d classes of ImageNet-1k, found %d; "
                      "give a FILE with their names",
                      IMAGENET_CLASSES, c->model.config.num_classes);
    return report_file(r, "--labels");
}

static bool read_labels(conversion *c, report *r) {
    const char *path = c->options->labels;
    bool good;
    if (c->labels_origin) return true; /* already, for labelled pictures or as an assumption */
    if (path && (!strcmp(path, labels_none) || !strcmp(path, labels_imagenet)))
        return read_known_labels(c, path, r);
    if (path) good = labels_read_file(&c->labels, path, r);
    else
        good = c->model.config.num_classes == 0 || /* without a head there is nothing to name */
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
static void choose_tolerance(conversion *c) {
    double given;
    if (settings_get(c->all, SETTING_SELFTEST_TOLERANCE, &given)) return;
    if (c->options->dtype == VIT_BF16) c->model.config.selftest_tolerance = 0.02f;
    if (c->options->dtype == VIT_I8 || c->options->dtype == VIT_I4)
        c->model.config.selftest_tolerance = 0.1f;
}

/* The layout of what was found by structure, and what its names and shapes show. */
static bool use_structure(conversion *c, report *r) {
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
static bool find_layout(conversion *c, report *r) {
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
static bool assume_weights(conversion *c) {
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
static bool is_told(const conversion *c, const char *what) {
    subject s;
    return subject_find(what, strcspn(what, "="), &s) && s.row &&
           settings_origin(c->all, (setting_key)(s.row - setting_rows)) > FROM_TENSORS;
}

/* What the matching by structure rests on, unless logits that match have proved it. */
static bool assume_structure(conversion *c) {
    const structure *s = &c->structure;
    int i;
    if (c->options->match_input) return true;
    for (i = 0; i < s->note_count; i++)
        if (!is_told(c, s->notes[i].what) &&
            !findings_assume(&c->found, s->notes[i].what, s->notes[i].why, s->notes[i].option))
            return false;
    return true;
}

/* A model of 1,000 classes in the size of one that is published for ImageNet-1k, which names no
 * classes: false, if memory is lacking. */
static bool assume_imagenet(conversion *c) {
    const vit_config *config = &c->model.config;
    const int patch = c->options->patch_size ? c->model.stored.patch : config->patch_size;
    const arch *like = c->has_arch ? c->arch.arch : arch_of_size(config, patch);
    const json_value *names = c->config_file.label_names;
    report r = report_make();
    char why[256];
    if (!imagenet_classes() || config->num_classes != IMAGENET_CLASSES || !like) return true;
    if (c->options->labels || c->labels.count > 0 || (names && names->count > 0) ||
        checkpoint_label_count(c->checkpoint) > 0)
        return true;
    c->labels_origin = "ImageNet-1k";
    snprintf(why, sizeof why,
             "the checkpoint names none of its %d classes, and has the size of "
             "%.100s, which is published for ImageNet-1k",
             IMAGENET_CLASSES, like->name);
    return labels_from_imagenet(&c->labels, &r) &&
           findings_assume(&c->found, "labels=imagenet", why, "--labels FILE|none");
}

/* What is assumed beyond single settings. */
static bool assume_sources(conversion *c) {
    char what[512], why[512];
    if (!assume_weights(c) || !assume_structure(c) || !assume_imagenet(c)) return false;
    if (c->config_file.processor) {
        snprintf(what, sizeof what, "preprocessing of a %.100s", c->config_file.processor);
        snprintf(why, sizeof why,
                 "transformers' default, as no preprocessor_config.json is beside "
                 "%.200s",
                 paths_file_name(c->config_path));
        if (!findings_assume(&c->found, what, why, "--set mean=M --set std=S --set crop_pct=N"))
            return false;
    }
    if (c->arch_unknown) {
        snprintf(what, sizeof what, "architecture=%.200s", c->arch_unknown);
        snprintf(why, sizeof why,
                 "%.200s names it, but timm has no such model: the rest of that "
                 "file and the tensors decide",
                 c->arch_origin);
        if (!findings_assume(&c->found, what, why, "--arch NAME")) return false;
    }
    if (c->has_arch && !c->arch.tag_known) {
        snprintf(what, sizeof what, "preprocessing of %.200s", c->arch.arch->name);
        snprintf(why, sizeof why, "tag %.200s is not known", c->arch.tag);
        if (!findings_assume(&c->found, what, why, "--arch NAME")) return false;
    }
    return !c->config_foreign || findings_assume(&c->found, "no configuration",
                                                 "config.json beside the checkpoint is "
                                                 "not in timm's form and was not read",
                                                 "--config FILE");
}

/* Folders of labelled pictures may be called as the classes are. */
static bool match_settings(conversion *c, report *r) {
    double classes = 0;
    settings_get(c->all, SETTING_NUM_CLASSES, &classes);
    c->model.config.num_classes = (int)classes;
    if (c->options->match_folder && !read_labels(c, r)) return false;
    return match_run(c, r) && (match_assume(c->match, &c->found) || report_no_memory(r));
}

/* Everything but the weights themselves. What stands in the way comes in one message. */
static bool resolve(conversion *c, report *r) {
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
static bool resolve_others(conversion *c, const conversion *start) {
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
        c->weights = NULL; /* was c's own */
    }
    free(other);
    return good;
}

/* If there is an input with its logits to decide, any of the state dicts may be the right one. */
static bool open_and_resolve(conversion *c, report *r) {
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

static bool find_photos(conversion *c, report *r) {
    const convert_options *o = c->options;
    return photos_find(&c->calibration, &o->calibrate, o->calibrate_max, r) &&
           photos_find(&c->photos, &o->compare, o->compare_max, r);
}

/* === Everything === */

static bool run(conversion *c, report *r) {
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
bool convert_run(conversion *c, report *r) {
    const convert_options *o = c->options;
    photo_options decoding = o->decoding;
    bool good = true;
    decoding.exact = true;
    if (o->calibrate.count || o->compare.count || o->match_folder) {
        c->decoder = photo_decoder_open(&decoding, "vit-convert", 1, r);
        good = c->decoder != NULL;
    }
    good = good && run(c, r);
    photo_decoder_close(c->decoder);
    c->decoder = NULL;
    return good;
}

void convert_free(conversion *c) {
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

/* === What training left === */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { TRAINING_TEXT = 8192, TRAINING_VALUE = 256 };

static const char *value_of(const checkpoint *c, const char *key) {
    size_t i;
    for (i = 0; i < checkpoint_metadata_count(c); i++)
        if (!strcmp(checkpoint_metadata(c, i)->key, key)) return checkpoint_metadata(c, i)->value;
    return NULL;
}

/* Others than timm have names of their own, which say nothing here. */
static const char *find_architecture(const checkpoint *c) {
    static const char *const keys[] = {
        "args.model",
        "arch",
        "args.arch",
        "hyper_parameters.model_name",
        "hyper_parameters.arch",
        "hyper_parameters.architecture",
        "hyper_parameters.model",
        "hyper_parameters.backbone",
        "args.model_name",
        "config.model_name",
        "config.model",
        "model_name",
    };
    size_t i;
    for (i = 0; i < COUNT(keys); i++) {
        const char *name = value_of(c, keys[i]);
        report ignored = report_make();
        arch_choice choice;
        if (name && arch_find(name, &choice, &ignored) == ARCH_FOUND) return name;
    }
    return NULL;
}

/* === As JSON === */

static bool is_number(const char *text) {
    double value;
    return text_read_number(text, -1e30, 1e30, &value);
}

/* "(0.5, 0.5, 0.5)": so many numbers at least. */
static bool is_list(const char *text, int least) {
    int count = 1;
    if (text[0] != '(' || strspn(text + 1, "0123456789.e+-, )") != strlen(text + 1)) return false;
    for (; *text; text++) count += *text == ',';
    return count >= least;
}

/* Appends a number, true, false, a list or a word; drops a value that JSON would escape. */
static void put(char *json, const char *key, const char *value) {
    const size_t length = strlen(value);
    const char *between = json[strlen(json) - 1] == '{' ? "" : ", ";
    if (length == 0 || length > TRAINING_VALUE || strlen(key) > 64 || strpbrk(key, "\"\\") ||
        strpbrk(value, "\"\\") || strlen(json) + 2 * (size_t)TRAINING_VALUE > TRAINING_TEXT)
        return;
    if (is_list(value, 1))
        text_append(json, TRAINING_TEXT, "%s\"%s\": [%.*s]", between, key, (int)length - 2,
                    value + 1);
    else
        text_append(json, TRAINING_TEXT,
                    is_number(value) || !strcmp(value, "true") || !strcmp(value, "false")
                        ? "%s\"%s\": %s"
                        : "%s\"%s\": \"%s\"",
                    between, key, value);
}

static bool is_word(setting_key key, const char *value) {
    return setting_find_word(key, value) >= 0;
}

/* The options of timm's train.py that say how images are prepared, and DeiT's. None is refused: an
 * option that has no such value, as an interpolation of "random", says nothing. */
static void put_preprocessing(const checkpoint *c, char *json) {
    static const char *const keys[] = {
        "mean", "std", "crop_pct", "eval_crop_ratio", "crop_mode", "interpolation",
    };
    size_t i;
    for (i = 0; i < COUNT(keys); i++) {
        const char *key = keys[i], *value;
        char path[64];
        snprintf(path, sizeof path, "args.%s", key);
        value = value_of(c, path);
        if (!value) continue;
        if ((!strcmp(key, "mean") || !strcmp(key, "std")) && is_list(value, 1))
            put(json, key, value);
        else if ((!strcmp(key, "crop_pct") || !strcmp(key, "eval_crop_ratio")) && is_number(value))
            put(json, "crop_pct", value);
        else if (!strcmp(key, "crop_mode") && is_word(SETTING_CROP_MODE, value))
            put(json, key, value);
        else if (!strcmp(key, "interpolation") && is_word(SETTING_INTERPOLATION, value))
            put(json, key, value);
    }
}

static bool is_whole(const char *text) {
    long number;
    return text_read_int(text, 1, 1 << 20, &number);
}

/* Reads the options that the named architecture was built with. */
static void put_model(const checkpoint *c, const char *architecture, char *json) {
    static const char prefix[] = "args.model_kwargs.";
    static const struct {
        const char *path, *key;
    } arguments[] = {
        { "args.img_size", "img_size" },
        { "args.input_size", "img_size" },
        { "args.in_chans", "in_chans" },
        { "args.num_classes", "num_classes" },
    };
    const char *size = value_of(c, "args.input_size"), *pool = value_of(c, "args.gp");
    size_t i;
    put(json, "architecture", architecture);
    if (size && is_list(size, 3)) put(json, "input_size", size);
    if (pool && is_word(SETTING_POOL, pool)) put(json, "global_pool", pool);
    text_append(json, TRAINING_TEXT, ", \"model_args\": {");
    for (i = 0; i < COUNT(arguments); i++) {
        const char *value = value_of(c, arguments[i].path);
        if (value && is_whole(value)) put(json, arguments[i].key, value);
    }
    for (i = 0; i < checkpoint_metadata_count(c); i++) {
        const checkpoint_metadata_entry *entry = checkpoint_metadata(c, i);
        if (!strncmp(entry->key, prefix, strlen(prefix)))
            put(json, entry->key + strlen(prefix), entry->value);
    }
    text_append(json, TRAINING_TEXT, "}");
}

bool training_read(const checkpoint *c, config_file *config, settings all[FROM_COUNT], report *r) {
    const char *architecture = find_architecture(c);
    char *json = malloc(TRAINING_TEXT);
    if (!json) return report_no_memory(r);
    strcpy(json, "{");
    put_preprocessing(c, json);
    if (architecture) put_model(c, architecture, json);
    text_append(json, TRAINING_TEXT, "}");
    return config_read_json(config, &all[architecture ? FROM_CONFIG : FROM_TENSORS], json, r);
}

/* === The output === */

static bool open_output(conversion *c, cli_output *output, report *r) {
    if (!cli_output_open(output, c->options->output, r)) return false;
    if (output->temporary) return true;
    cli_output_abandon(output);
    return report_fail(r, "expected the name of a file, found a pipe or a device");
}

/* A file that was just written, under its temporary name. */
static bool open_written(const cli_output *output, vit_model *model, report *r) {
    return vit_model_open(output->temporary, 0, model) == VIT_OK || report_detail(r, model->detail);
}

/* === Self-test === */

static void drop_pages(void *user, const char *name, const float *data, const int shape[4]) {
    (void)name, (void)data, (void)shape;
    pages_drop(user);
}

static bool check_outputs(const conversion *c, const runner *run, report *r) {
    if (conversion_allows_nonfinite(c) || tensor_values_are_finite(run->output, run->output_size))
        return true;
    (void)report_fail(r, "the outputs of the self-test are not finite: the weights overflow");
    return report_file(r, c->options->checkpoint);
}

/* The file has its tensors in the order of the plan. */
static size_t selftest_index(const layout_plan *plan) {
    return (size_t)(layout_selftest(plan) - plan->items);
}

/* Runs the file just written, and writes what came out into it. */
static bool add_selftest(const conversion *c, const cli_output *output, vit_writer *writer,
                         report *r) {
    vit_model model;
    runner run;
    bool good;
    if (!open_written(output, &model, r)) return false;
    good = runner_open(&run, &model, drop_pages, &model, r);
    if (good) vit_selftest_input(&model.config, run.input);
    good = good && runner_forward(&run, r) && check_outputs(c, &run, r) &&
           vit_writer_replace(writer, selftest_index(&c->plan), run.output, r) &&
           vit_writer_finish(writer, r);
    runner_close(&run);
    vit_model_close(&model);
    return good;
}

/* === One file === */

/* What is written is opened: for the self-test, to compare with, to calibrate on. */
static bool can_be_opened(const vit_writer *writer, report *r) {
    return writer->file_size <= SIZE_MAX ||
           report_fail(r, "the model has %llu bytes, this program can open %llu",
                       (unsigned long long)writer->file_size, (unsigned long long)SIZE_MAX);
}

/* The checkpoint, or what the calibration makes of it, in the given type. */
static bool write_model(conversion *c, vit_dtype dtype, calibration *calibrated,
                        const cli_output *output, report *r) {
    vit_writer writer;
    vit_writer_contents contents;
    bool good;
    contents.config = &c->model.config;
    contents.dtype = dtype;
    contents.keep = conversion_kept(c);
    contents.num_labels = c->labels.count;
    contents.labels = c->labels.labels;
    contents.synsets = c->labels.synsets;
    contents.provenance = c->provenance;
    if (!vit_writer_start(&writer, output->file, &contents, r)) return false;
    good = can_be_opened(&writer, r) && weights_write(c, calibrated, &writer, r) &&
           (!layout_selftest(&c->plan) || add_selftest(c, output, &writer, r));
    c->output_size = writer.file_size;
    vit_writer_free(&writer);
    return good;
}

/* === With the model in f32, to calibrate on and to compare with === */

static bool wants_reference(const conversion *c) {
    return c->calibration.count > 0 || c->photos.count > 0;
}

/* The model as f32 in a temporary file beside the output, which is removed once it is mapped. */
static bool open_reference(conversion *c, vit_model *model, report *r) {
    cli_output output;
    bool good;
    if (!open_output(c, &output, r)) return false;
    good = write_model(c, VIT_F32, NULL, &output, r) && open_written(&output, model, r);
    cli_output_abandon(&output);
    return good;
}

static bool compare(conversion *c, const vit_model *reference, const cli_output *output,
                    report *r) {
    vit_model model;
    bool good;
    if (!open_written(output, &model, r)) return false;
    good = compare_models(reference, &model, c->decoder, conversion_photos(c), c->options->quiet,
                          &c->comparison, r);
    vit_model_close(&model);
    return good;
}

static bool write_with_reference(conversion *c, const cli_output *output, report *r) {
    const vit_dtype dtype = c->options->dtype;
    const bool wanted = c->calibration.count > 0;
    calibration *calibrated = NULL;
    vit_model reference;
    bool good;
    if (!open_reference(c, &reference, r)) return false;
    if (wanted)
        calibrated = calibrate_start(&reference, dtype, c->decoder, &c->calibration,
                                     c->options->quiet, r);
    good = (calibrated || !wanted) && provenance_make(c, r) &&
           write_model(c, dtype, calibrated, output, r);
    calibrate_free(calibrated);
    good = good && compare(c, &reference, output, r);
    vit_model_close(&reference);
    return good;
}

static bool write_plainly(conversion *c, const cli_output *output, report *r) {
    return provenance_make(c, r) && write_model(c, c->options->dtype, NULL, output, r);
}

bool vit_file_write(conversion *c, report *r) {
    cli_output output;
    if (!open_output(c, &output, r)) return false;
    /* a zip's checksums: a damaged weight must not become a model that looks healthy */
    if (!checkpoint_verify(c->checkpoint, r) ||
        !(wants_reference(c) ? write_with_reference(c, &output, r)
                             : write_plainly(c, &output, r))) {
        cli_output_abandon(&output);
        return false;
    }
    return cli_output_commit(&output, r);
}
