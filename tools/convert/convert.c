#define _POSIX_C_SOURCE 200809L
#include "convert/conversion.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/container.h"
#include "cli/output.h"
#include "convert/calibrate.h"
#include "convert/match.h"
#include "convert/report.h"
#include "convert/vit_writer.h"
#include "layout/detect.h"
#include "model/findings.h"
#include "model/resolve.h"
#include "model/timm_names.h"
#include "os/os.h"

/* === The checkpoint === */

static bool open_checkpoint(const convert_options *o, const char *weights, checkpoint **c,
                            report *r) {
    return checkpoint_open_weights(o->checkpoint, weights, c, r) &&
           (o->rename.count == 0 || rename_tensors(*c, &o->rename, r));
}

/* === Options of the training program === */

/* This part reads the options that a training program saved with the weights. The program may be
 * that of timm or DeiT ("arch", "args.model", "args.mean") or a program with Lightning
 * ("hyper_parameters"). */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { TRAINING_TEXT = 8192, TRAINING_VALUE = 256 };

static const char *value_of(const checkpoint *c, const char *key) {
    size_t i;
    for (i = 0; i < checkpoint_metadata_count(c); i++)
        if (!strcmp(checkpoint_metadata(c, i)->key, key)) return checkpoint_metadata(c, i)->value;
    return NULL;
}

/* Returns the value that a training program saved for an option in the group "args" or, if it is
 * not there, in another group, as in "config.model". Returns NULL if no group has the option. */
static const char *option_of(const checkpoint *c, const char *option) {
    char path[64];
    const char *value, *dot;
    size_t i;
    snprintf(path, sizeof path, "args.%s", option);
    value = value_of(c, path);
    for (i = 0; !value && i < checkpoint_metadata_count(c); i++) {
        dot = strrchr(checkpoint_metadata(c, i)->key, '.');
        if (dot && !strcmp(dot + 1, option)) value = checkpoint_metadata(c, i)->value;
    }
    return value;
}

/* Finds timm's name of the architecture among the saved options. Returns NULL if there is none.
 * Names that other programs use are ignored. */
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

/* True if the text is a list of at least `least` numbers, such as "(0.5, 0.5, 0.5)". */
static bool is_list(const char *text, int least) {
    int count = 1;
    if (text[0] != '(' || strspn(text + 1, "0123456789.e+-, )") != strlen(text + 1)) return false;
    for (; *text; text++) count += *text == ',';
    return count >= least;
}

/* Appends one entry to the JSON text. The value is a number, true, false, a list or a word. Leaves
 * out a value that JSON would have to escape. */
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

/* Adds the options of timm's and DeiT's train.py that determine how images are prepared. Leaves out
 * an option whose value cannot be used, such as the interpolation "random". */
static void put_preprocessing(const checkpoint *c, char *json) {
    static const char *const keys[] = {
        "mean", "std", "crop_pct", "eval_crop_ratio", "crop_mode", "interpolation",
    };
    size_t i;
    for (i = 0; i < COUNT(keys); i++) {
        const char *key = keys[i], *value = option_of(c, key);
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

/* Adds the options with which the training program built the named architecture. */
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

/* Looks for an architecture of timm among the training program's options. If it finds one, fills
 * *config and all[FROM_CONFIG] as the model's config.json would. Otherwise puts the options that
 * prepare images into all[FROM_TENSORS]. Missing options get no default values there, because the
 * defaults of training programs differ. */
static bool training_read(const checkpoint *c, config_file *config, settings all[FROM_COUNT],
                          report *r) {
    const char *architecture = find_architecture(c);
    char *json = malloc(TRAINING_TEXT);
    if (!json) return report_no_memory(r);
    strcpy(json, "{");
    put_preprocessing(c, json);
    if (architecture) put_model(c, architecture, json);
    text_append(json, TRAINING_TEXT, "}");
    return config_read_json(config, &all[architecture ? FROM_CONFIG : FROM_TENSORS], json, r);
}

/* === Configuration and name === */

/* Returns the path of a file in the same folder as the checkpoint. If the checkpoint is itself a
 * folder, the path leads into that folder. The caller frees the path. */
static char *config_beside(const char *checkpoint_path, const char *name) {
    const size_t size = strlen(checkpoint_path) + strlen(name) + 2;
    char *path = malloc(size);
    if (!path) return NULL;
    if (source_is_folder(checkpoint_path))
        snprintf(path, size, "%s%s%s", checkpoint_path, paths_slash(checkpoint_path), name);
    else
        snprintf(path, size, "%.*s%s", (int)paths_folder_length(checkpoint_path), checkpoint_path,
                 name);
    return path;
}

/* A configuration file in a form that the model's author invented. Its settings count as if they
 * were stored with the weights. */
typedef struct own_file {
    checkpoint *checkpoint;
    const char *name;
    report *report;
} own_file;

static bool take_own(void *user, const char *key, const char *value) {
    const own_file *file = user;
    char name[200];
    snprintf(name, sizeof name, "%s.%.160s", file->name, key);
    return checkpoint_add_metadata(file->checkpoint, name, value, file->report);
}

static bool read_own(const char *path, own_file *file) {
    enum { MOST = 1 << 20 };
    report ignored = report_make();
    char *text = NULL;
    size_t size = 0;
    const bool is_read = os_kind_of(path) == OS_FILE &&
                         config_read_text(path, &text, &size, &ignored);
    const bool good = !is_read || size > MOST || config_read_own(text, size, take_own, file);
    free(text);
    return good;
}

/* Reads the author's own configuration files in the checkpoint's folder. Reads config.json in this
 * way only if it has no known form. */
static bool read_own_files(const convert_options *o, checkpoint *c, bool is_foreign, report *r) {
    static const char *const names[] = {
        "config.json",
        "config.yaml",
        "config.yml",
        "hparams.yaml",
    };
    bool good = true;
    size_t i;
    for (i = is_foreign ? 0 : 1; good && i < COUNT(names); i++) {
        char *path = config_beside(o->checkpoint, names[i]);
        own_file file = { c, names[i], r };
        good = path ? read_own(path, &file) : report_no_memory(r);
        free(path);
    }
    return good || report_no_memory(r);
}

/* Uses the image size of the processor's configuration, unless the command line gives a size. */
static void use_input(settings all[FROM_COUNT], config_file *config) {
    settings *options = &all[FROM_OPTIONS], *s = &all[FROM_CONFIG];
    if (options->given[SETTING_IMG_HEIGHT] || options->given[SETTING_IMG_WIDTH]) {
        config->input_height = 0;
        s->given[SETTING_RESIZE_HEIGHT] = s->given[SETTING_RESIZE_WIDTH] = false;
    }
    if (config->input_height == 0) return;
    settings_put(options, SETTING_IMG_HEIGHT, config->input_height);
    settings_put(options, SETTING_IMG_WIDTH, config->input_width);
}

static bool read_config(const convert_options *o, checkpoint *c, settings all[FROM_COUNT],
                        description *d, report *r) {
    settings *s = &all[FROM_CONFIG];
    size_t size = o->config ? strlen(o->config) + 1 : 0;
    settings_start(s, "config.json");
    d->path = o->config ? malloc(size) : config_beside(o->checkpoint, "config.json");
    if (!d->path) return report_no_memory(r);
    if (o->config) memcpy(d->path, o->config, size);
    if (o->config || os_kind_of(d->path) == OS_FILE) {
        s->origin = paths_file_name(d->path);
        if (!config_read(&d->config, s, d->path, o->config ? NULL : &d->is_foreign, r))
            return false;
        use_input(all, &d->config);
        if (!d->is_foreign) return true;
    }
    free(d->path);
    d->path = NULL;
    s->origin = paths_file_name(o->checkpoint);
    if (!o->config && !read_own_files(o, c, d->is_foreign, r)) return false;
    return training_read(c, &d->config, all, r);
}

/* Takes the architecture's name from --arch. Without --arch, takes it from the configuration. If
 * timm does not know the name in the configuration, the rest of the configuration and the tensors
 * must suffice. */
static bool find_arch(const convert_options *o, settings all[FROM_COUNT], description *d,
                      report *r) {
    const char *name = o->arch ? o->arch : d->config.architecture;
    arch_result result;
    settings_start(&all[FROM_NAME], "");
    if (!name) return true;
    d->arch_origin = o->arch ? "--arch" : all[FROM_CONFIG].origin;
    result = arch_find(name, &d->arch, r);
    if (result == ARCH_UNKNOWN && !o->arch) {
        *r = report_make();
        d->arch_unknown = name;
        return true;
    }
    if (result != ARCH_FOUND) return report_file(r, o->arch ? "--arch" : d->path);
    d->has_arch = true;
    all[FROM_NAME].origin = d->arch.arch->name;
    settings_from_arch(&all[FROM_NAME], &d->arch);
    return true;
}

/* === Labels === */

static const char labels_none[] = "none", labels_imagenet[] = "imagenet";

/* Uses the labels in the checkpoint. Ignores a list whose length is not the number of classes. */
static bool read_own_labels(const convert_options *o, const checkpoint *c, int classes,
                            class_names *labels, report *r) {
    const size_t count = checkpoint_label_count(c);
    if (count == 0 || count != (size_t)classes) return true;
    labels->origin = paths_file_name(o->checkpoint);
    return labels_from_list(&labels->list, checkpoint_labels(c), count, r);
}

/* Takes the labels for "none" or "imagenet", the values of --labels that are not paths of files. */
static bool read_known_labels(const char *name, int classes, class_names *labels, report *r) {
    labels->origin = name;
    if (!strcmp(name, labels_none)) return true;
    if (classes == IMAGENET_CLASSES)
        return labels_from_imagenet(&labels->list, r) || report_file(r, "--labels");
    (void)report_fail(r,
                      "imagenet: expected a model of the %d classes of ImageNet-1k, found %d "
                      "classes; give a FILE with the names of the classes",
                      IMAGENET_CLASSES, classes);
    return report_file(r, "--labels");
}

static bool read_labels(const convert_options *o, facts *f, const description *d, int classes,
                        class_names *labels, report *r) {
    const char *path = o->labels;
    label_list *list = &labels->list;
    bool good;
    if (labels->origin) return true; /* The labels were already read or assumed. */
    if (path && (!strcmp(path, labels_none) || !strcmp(path, labels_imagenet)))
        return read_known_labels(path, classes, labels, r);
    if (path) good = labels_read_file(list, path, r);
    else
        good = classes == 0 || /* without a head, there are no classes to name */
               labels_from_json(list, d->config.label_names, d->config.label_descriptions, r);
    if (good && list->count > 0 && list->count != (size_t)classes)
        good = report_fail(r, "%zu labels for %d classes", list->count, classes);
    if (!good) return report_file(r, path ? path : d->path);
    labels->origin = path ? paths_file_name(path) : f->all[FROM_CONFIG].origin;
    return list->count > 0 ||
           (read_own_labels(o, f->map.checkpoint, classes, labels, r) &&
            (list->count > 0 || code_labels(f, classes, &labels->list, &labels->origin, r)));
}

/* === The model === */

/* Sets the tolerance of the self-test, unless a setting gives the tolerance. Builds with fused
 * multiply-add compute identical bits. Builds with VIT_NO_FMA differ by a few roundings. If inputs
 * are rounded to 8 or 16 bits, one different rounding can move a value by a whole step. */
static void choose_tolerance(const settings all[FROM_COUNT], vit_dtype dtype, float *tolerance) {
    double given;
    if (settings_get(all, SETTING_SELFTEST_TOLERANCE, &given)) return;
    if (dtype == VIT_BF16) *tolerance = 0.02f;
    if (dtype == VIT_I8 || dtype == VIT_I4) *tolerance = 0.1f;
}

/* Uses the layout that the search by structure found. Also uses the settings that the names and
 * shapes of the tensors show. */
static bool use_structure(const structure *s, checkpoint *c, facts *f, report *r) {
    *r = report_make();
    layout_free_map(&f->map);
    if (s->heads) settings_put(&f->all[FROM_TENSORS], SETTING_NUM_HEADS, s->heads);
    if (s->assignment && !settings_parse(&f->all[FROM_TENSORS], s->assignment, r)) return false;
    if (*s->head_why)
        settings_put(&f->all[FROM_TENSORS], SETTING_REPRESENTATION_ACTIVATION,
                     VIT_REPRESENTATION_NONE);
    return layout_use(s->layout, c, &f->map, r);
}

/* Finds the layout of the tensors. The tables of known layouts come first. If no table explains all
 * tensors, the search by structure follows. If most of the names are those of a published library,
 * the search by structure is left out, and the user must give the changed names. If the search by
 * structure fails and no table is close, the message lists the problems that this search found. */
static bool find_layout(const convert_options *o, checkpoint *c, structure *s, facts *f,
                        report *r) {
    report by_structure = report_make();
    const bool detected = layout_detect(c, &f->map, r);
    bool is_close = f->map.layout != NULL;
    if (r->no_memory || (detected && !layout_check_features(&f->map, &o->ignore, r))) return false;
    if (detected && !layout_falls_short(&f->map, &o->ignore)) return true;
    if (detected) is_close = layout_knows_most(&f->map);
    if (is_close && !f->map.layout->is_open &&
        (!detected || layout_has(&f->map, "blocks.0.attn.qkv.weight")))
        return detected;
    if (structure_find(c, &o->ignore, o->match_input != NULL, s, &by_structure))
        return use_structure(s, c, f, r);
    if (is_close && !by_structure.no_memory) return detected;
    *r = by_structure;
    return false;
}

/* Records that one of several state dicts was chosen. The choice counts as an assumption, unless
 * --weights gave it or --match-input confirmed it. */
static bool assume_weights(const convert_options *o, const checkpoint *c, findings *found) {
    const size_t count = checkpoint_choice_count(c);
    char what[256], why[1024];
    size_t i;
    if (count < 2 || o->weights || o->match_input) return true;
    snprintf(what, sizeof what, "weights=%.200s", checkpoint_wrapper(c));
    snprintf(why, sizeof why, "one of several state dicts:");
    for (i = 0; i < count; i++) text_append(why, sizeof why, " %.200s", checkpoint_choice(c, i));
    return findings_assume(found, what, why, "--weights NAME");
}

/* True if a source that is more trusted than the tensors gives this setting. */
static bool is_told(const settings all[FROM_COUNT], const char *what) {
    subject s;
    return subject_find(what, strcspn(what, "="), &s) && s.row &&
           settings_origin(all, (setting_key)(s.row - setting_rows)) > FROM_TENSORS;
}

/* Records the assumptions that the search by structure made. */
static bool assume_structure(const structure *s, const settings all[FROM_COUNT], findings *found) {
    int i;
    for (i = 0; i < s->note_count; i++)
        if (!is_told(all, s->notes[i].what) &&
            !findings_assume(found, s->notes[i].what, s->notes[i].why, s->notes[i].option))
            return false;
    return true;
}

/* Assumes ImageNet's class names if the model has 1,000 unnamed classes and the size of a published
 * ImageNet-1k model. Returns false if memory is exhausted. */
static bool assume_imagenet(const settings_resolved *model, int patch, const description *d,
                            class_names *labels, findings *found) {
    const arch *like = d->has_arch ? d->arch.arch : arch_of_size(&model->config, patch);
    const json_value *names = d->config.label_names;
    report r = report_make();
    char why[256];
    if (!imagenet_classes() || model->config.num_classes != IMAGENET_CLASSES || !like) return true;
    if (labels->list.count > 0 || (names && names->count > 0)) return true;
    labels->origin = "ImageNet-1k";
    snprintf(why, sizeof why,
             "the checkpoint names none of its %d classes. It has the size of %.100s, which is "
             "published for ImageNet-1k",
             IMAGENET_CLASSES, like->name);
    return labels_from_imagenet(&labels->list, &r) &&
           findings_assume(found, "labels=imagenet", why, "--labels FILE|none");
}

/* Records the assumptions that replace missing parts of the configuration or of the architecture's
 * name. */
static bool assume_description(const description *d, const attributes_told *told, findings *found) {
    char what[512], why[512];
    if (d->config.processor) {
        snprintf(what, sizeof what, "preprocessing of a %.100s", d->config.processor);
        snprintf(why, sizeof why,
                 "transformers' default, because no preprocessor_config.json is beside %.200s",
                 paths_file_name(d->path));
        if (!findings_assume(found, what, why, "--set mean=M --set std=S --set crop_pct=N"))
            return false;
    }
    if (d->config.input_height > 0) {
        snprintf(what, sizeof what, "img_size=%dx%d", d->config.input_height,
                 d->config.input_width);
        if (!findings_assume(
                found, what,
                "preprocessor_config.json sets this size, which differs from the model's "
                "image_size",
                "--img-size HxW"))
            return false;
    }
    if (d->arch_unknown) {
        snprintf(what, sizeof what, "architecture=%.200s", d->arch_unknown);
        snprintf(
            why, sizeof why,
            "%.200s names this architecture, but timm has no such model; the other settings of "
            "this file and the tensors are used",
            d->arch_origin);
        if (!findings_assume(found, what, why, "--arch NAME")) return false;
    }
    if (d->has_arch && !d->arch.tag_known) {
        snprintf(what, sizeof what, "preprocessing of %.200s", d->arch.arch->name);
        snprintf(why, sizeof why, "tag %.200s is not known", d->arch.tag);
        if (!findings_assume(found, what, why, "--arch NAME")) return false;
    }
    return !d->is_foreign || strstr(told->text, "config.json.") ||
           findings_assume(found, "no configuration",
                           "config.json beside the checkpoint is "
                           "not in timm's form and was not read",
                           "--config FILE");
}

/* Records the assumptions that concern more than a single setting. The assumptions of the search by
 * structure are left out if the logits match, because matching logits prove them. */
static bool assume_sources(const convert_options *o, blueprint *b) {
    const int patch = o->patch_size ? b->model.stored.patch : b->model.config.patch_size;
    const bool has_labels = o->labels || checkpoint_label_count(b->checkpoint) > 0;
    return assume_weights(o, b->checkpoint, &b->found) &&
           (o->match_input || assume_structure(&b->structure, b->facts.all, &b->found)) &&
           (has_labels ||
            assume_imagenet(&b->model, patch, &b->description, &b->labels, &b->found)) &&
           assume_description(&b->description, &b->facts.told, &b->found);
}

/* Finds uncertain settings with the logits or the labelled pictures of the --match options. For
 * pictures, first reads the names of the classes, which may be the folders' names. */
static bool match_settings(const convert_options *o, photo_decoder *decoder, blueprint *b,
                           report *r) {
    double classes = 0;
    if (!b->match) return true;
    settings_get(b->facts.all, SETTING_NUM_CLASSES, &classes);
    if (o->match_folder && !read_labels(o, &b->facts, &b->description, (int)classes, &b->labels, r))
        return false;
    return match_run(b->match, &b->facts, decoder, &b->labels.list, &b->found, r) &&
           (match_assume(b->match, &b->found) || report_no_memory(r));
}

/* Adds the failure of settings_resolve to the problems. If an architecture's name contradicts the
 * tensors, the message lists the names that fit the tensors. */
static bool take_failure(blueprint *b, report *r) {
    const facts *f = &b->facts;
    const char *name = f->all[FROM_NAME].origin;
    char advice[ARCHS_TEXT + 64], archs[ARCHS_TEXT];
    if (!b->description.has_arch || r->no_memory || strncmp(r->text, name, strlen(name)) != 0)
        return findings_take(&b->found, r);
    snprintf(advice, sizeof advice, "--arch: %s%s",
             archs_by_shape(f->all, &f->seen, &f->wanted, archs) ? "names that fit the tensors: "
                                                                 : "",
             archs);
    if (!findings_wrong(&b->found, r->text, advice)) return report_no_memory(r);
    *r = report_make();
    return true;
}

/* If the code or the positions of the layers show it, records that the two layers of a head follow
 * each other directly, without an activation between them. */
static void see_head(const structure *s, facts *f) {
    settings *tensors = &f->all[FROM_TENSORS];
    const int from = settings_origin(f->all, SETTING_REPRESENTATION_ACTIVATION);
    const int act = (int)tensors->value[SETTING_REPRESENTATION_ACTIVATION];
    const bool by_place = from == FROM_TENSORS && *s->head_why && act == VIT_REPRESENTATION_NONE;
    const bool by_code = from < 0 && f->told.head_is_plain && f->seen.is_open &&
                         tensors->value[SETTING_REPRESENTATION_DIM] > 0;
    if (!by_place && !by_code) return;
    settings_put(tensors, SETTING_REPRESENTATION_ACTIVATION, VIT_REPRESENTATION_NONE);
    f->seen.by_default[SETTING_REPRESENTATION_ACTIVATION] = true;
    f->seen.head_why = by_code ? "the code calls no activation outside the blocks" : s->head_why;
}

/* If photos keep their aspect ratio, checks that the configuration rounds the sides of images to
 * multiples of the patch size. vit_find_crop supports no other multiples. */
static bool check_multiple(const blueprint *b, report *r) {
    const vit_config *c = &b->model.config;
    const int multiple = b->description.config.multiple;
    if (!multiple || multiple == c->patch_size || c->crop_mode != VIT_CROP_ASPECT ||
        c->crop_rounding != VIT_ROUND_NEAREST)
        return true;
    return report_fail(r,
                       "preprocessor_config.json: ensure_multiple_of %d: expected the patch size, "
                       "%d, if photos keep their aspect ratio; --set crop_mode=squash makes all "
                       "inputs %dx%d",
                       multiple, c->patch_size, c->resize_height, c->resize_width);
}

/* Resolves all settings and plans the tensors. On failure, one message contains all reasons. */
static bool resolve(const convert_options *o, photo_decoder *decoder, blueprint *b, report *r) {
    facts *f = &b->facts;
    findings *found = &b->found;
    report failure = report_make();
    size_t i;
    bool inspected;
    settings_start(&f->all[FROM_TENSORS], "the tensors");
    if (!code_find(o, b->checkpoint, &f->code, r) ||
        !find_layout(o, b->checkpoint, &b->structure, f, r) ||
        !read_config(o, b->checkpoint, f->all, &b->description, r) ||
        !find_arch(o, f->all, &b->description, r) || !match_prepare(o, f, &b->match, r) ||
        !attributes_put(b->checkpoint, layout_patch_weight(&f->map), f->all, &f->told, r))
        return false;
    code_use(o, b->checkpoint, f);
    inspected = layout_inspect(&f->map, f->all, &f->seen, &failure);
    f->seen.is_batch_second = f->told.batch_second;
    f->seen.size_is_hint = f->told.size_is_hint;
    f->seen.activation_doubt = f->told.activation_doubt;
    code_compare(o, f);
    see_head(&b->structure, f);
    if (!layout_check_names(&f->map, f->all, &o->ignore, found, r)) return false;
    if (!inspected && !findings_take(found, &failure)) return report_no_memory(r);
    if (inspected && found->wrong.count == 0 && !match_settings(o, decoder, b, r)) return false;
    if (!layout_check_told(&f->map, f->all, &f->seen, found, r)) return false;
    if (inspected && !settings_resolve(f->all, &f->seen, &f->wanted, &b->model, found, r)) {
        if (!take_failure(b, r)) return false;
    } else if (inspected && !assume_settings(f->all, &f->seen, &b->model, found)) {
        return report_no_memory(r);
    }
    if (!assume_sources(o, b)) return report_no_memory(r);
    if (findings_are_open(found)) return findings_refuse(found, o->strict, r);
    if (!check_multiple(b, r)) return false;
    choose_tolerance(f->all, o->dtype, &b->model.config.selftest_tolerance);
    if (!layout_make_plan(&f->map, &b->model, &o->ignore, &b->plan, found, r)) return false;
    for (i = 0; i < b->structure.dropped_count; i++)
        if (!layout_add_dropped(&b->plan, b->structure.dropped[i].name,
                                b->structure.dropped[i].why))
            return report_no_memory(r);
    if (!match_measure(o, f, &b->model, found, &b->is_unmeasured, r)) return false;
    return !o->strict || found->assumed.count == 0 || findings_refuse(found, true, r);
}

/* === Trying one state dict after the other === */

/* Works out the whole conversion with the state dict of this name. If `weights` is NULL, uses the
 * default state dict. */
static bool draw(const convert_options *o, const char *weights, photo_decoder *decoder,
                 blueprint *b, report *r) {
    b->facts.all[FROM_OPTIONS] = o->given;
    b->facts.wanted = (patch_request){ o->in_chans, o->patch_size };
    return open_checkpoint(o, weights, &b->checkpoint, r) && resolve(o, decoder, b, r);
}

static void free_blueprint(blueprint *b) {
    match_free(b->match);
    text_free(&b->text);
    layout_free_plan(&b->plan);
    layout_free_map(&b->facts.map);
    structure_free(&b->structure);
    code_free(&b->facts.code);
    findings_free(&b->found);
    config_free(&b->description.config);
    labels_free(&b->labels.list);
    checkpoint_close(b->checkpoint);
    free(b->description.path);
}

/* Tries all state dicts except the default one. The first state dict that fits replaces *b. */
static bool draw_others(const convert_options *o, photo_decoder *decoder, blueprint *b) {
    blueprint *other = malloc(sizeof *other);
    bool good = false;
    size_t i;
    for (i = 0; other && !good && i < checkpoint_choice_count(b->checkpoint); i++) {
        const char *weights = checkpoint_choice(b->checkpoint, i);
        report r = report_make();
        if (!strcmp(weights, checkpoint_wrapper(b->checkpoint))) continue;
        memset(other, 0, sizeof *other);
        good = draw(o, weights, decoder, other, &r);
        if (!good) free_blueprint(other);
    }
    if (good) {
        free_blueprint(b);
        *b = *other;
    }
    free(other);
    return good;
}

/* Works out the conversion with the default state dict. If that fails and --match gives an input
 * with its logits, tries the other state dicts. The logits can show which state dict is right. */
static bool draw_any(const convert_options *o, photo_decoder *decoder, blueprint *b, report *r) {
    if (draw(o, o->weights, decoder, b, r)) return true;
    if (!b->checkpoint || !o->match_input || o->weights || !draw_others(o, decoder, b))
        return report_file(r, o->checkpoint);
    *r = report_make();
    return true;
}

/* === The text encoder === */

/* True for a tensor of a text encoder that is not a weight. */
static bool is_no_weight(const char *name) {
    return text_matches("*position_ids", name) || text_matches("*attn_mask", name);
}

/* Removes the text encoder's tensors from the list of dropped tensors, because the file will
 * contain them. Fails if the text encoder has a weight that vit.h does not support. */
static bool keep_text(blueprint *b, report *r) {
    layout_plan *plan = &b->plan;
    size_t i, kept = 0;
    for (i = 0; i < plan->dropped_count; i++) {
        const layout_dropped *dropped = &plan->dropped[i];
        if (text_holds(&b->text, dropped->name) || text_matches("*logit_scale", dropped->name) ||
            text_matches("*logit_bias", dropped->name))
            continue;
        if (!strcmp(dropped->why, "of a text tower") && !is_no_weight(dropped->name))
            return report_fail(r,
                               "%s: this version of vit.h has no text encoder with such a tensor",
                               dropped->name);
        plan->dropped[kept++] = *dropped;
    }
    plan->dropped_count = kept;
    return true;
}

/* Turns the projection of the image encoder into the last layer of the embedding. The projection is
 * not a head with classes. It gives the embeddings of images and texts the same width. */
static void embed_projection(blueprint *b) {
    vit_config *c = &b->model.config;
    const int width = b->text.model.config.representation_dim;
    size_t i;
    if (c->num_classes == 0 || c->num_classes != width || c->representation_dim) return;
    c->representation_dim = width;
    c->representation_act = VIT_REPRESENTATION_NONE;
    c->num_classes = c->head_activation = 0;
    for (i = 0; i < b->plan.count; i++) {
        char *name = b->plan.items[i].tensor.name;
        if (!strcmp(name, "head.weight")) strcpy(name, "pre_logits.fc.weight");
        if (!strcmp(name, "head.bias")) strcpy(name, "pre_logits.fc.bias");
    }
}

static bool check_width(const vit_config *image, const vit_config *text, report *r) {
    const int width = image->representation_dim           ? image->representation_dim
                      : image->pool == VIT_POOL_TOKEN_AVG ? 2 * image->embed_dim
                                                          : image->embed_dim;
    const int found = text->representation_dim ? text->representation_dim : text->embed_dim;
    return width == found ||
           report_fail(
               r,
               "the embedding of a text: expected %d values, like the embedding of an image, "
               "found %d",
               width, found);
}

/* Returns the path of the checkpoint's folder. If the checkpoint is itself a folder, returns its
 * path. The caller frees the path. */
static char *folder_of(const char *checkpoint_path) {
    const size_t length = source_is_folder(checkpoint_path) ? strlen(checkpoint_path)
                                                            : paths_folder_length(checkpoint_path);
    char *path = malloc(length + 2);
    if (path)
        snprintf(path, length + 2, "%.*s", length ? (int)length : 1,
                 length ? checkpoint_path : ".");
    return path;
}

/* Reads the tokenizer that --tokenizer names. Without --tokenizer, reads the tokenizer in the
 * checkpoint's folder. */
static bool find_tokenizer(const convert_options *o, blueprint *b, report *r) {
    char *beside = o->tokenizer ? NULL : folder_of(o->checkpoint);
    const char *path = o->tokenizer ? o->tokenizer : beside;
    bool good;
    if (!path) return report_no_memory(r);
    if (o->tokenizer || tokenizer_exists(path)) {
        good = text_read_tokenizer(&b->text, path, b->description.config.document.root, r);
    } else {
        text_free(&b->text);
        memset(&b->text, 0, sizeof b->text);
        good = findings_assume(&b->found, "no text encoder", tokenizer_absence(),
                               "--tokenizer FILE|none") ||
               report_no_memory(r);
    }
    free(beside);
    return good;
}

/* Finds the text encoder of models such as CLIP and SigLIP. */
static bool find_text(const convert_options *o, blueprint *b, report *r) {
    vit_config *config = &b->text.model.config;
    if (o->tokenizer && !strcmp(o->tokenizer, "none")) return true;
    if (!text_find(b->checkpoint, b->description.config.document.root, &b->model.config, &b->text,
                   &b->found, r) ||
        (b->text.map.layout && !find_tokenizer(o, b, r)) ||
        (b->text.map.layout && !keep_text(b, r)))
        return report_file(r, "text encoder (--tokenizer none leaves it out)");
    if (!b->text.map.layout) return true;
    choose_tolerance(b->facts.all, o->dtype, &config->selftest_tolerance);
    embed_projection(b);
    return check_width(&b->model.config, config, r);
}

/* === The output === */

static bool open_output(const char *path, cli_output *output, report *r) {
    if (!cli_output_open(output, path, r)) return false;
    if (output->temporary) return true;
    cli_output_abandon(output);
    return report_fail(r, "expected the name of a file, found a pipe or a device");
}

/* Opens a new .vit file, which still has its temporary name. */
static bool open_written(const cli_output *output, vit_model *model, report *r) {
    return vit_model_open(output->temporary, 0, model) == VIT_OK || report_detail(r, model->detail);
}

/* === Self-test === */

static void drop_pages(void *user, const char *name, const float *data, const int shape[4]) {
    (void)name, (void)data, (void)shape;
    pages_drop(user);
}

static bool check_outputs(const weights_source *from, const runner *run, report *r) {
    if (from->allows_nonfinite || tensor_values_are_finite(run->output, run->output_size))
        return true;
    (void)report_fail(r, "the outputs of the self-test are NaN or infinite: the weights are "
                         "probably too large");
    return report_file(r, from->path);
}

/* Returns the index of the self-test's tensor in the file. The tensors in the file have the same
 * order as in the plan. */
static size_t selftest_index(const layout_plan *plan) {
    return (size_t)(layout_selftest(plan) - plan->items);
}

/* Runs the model in the new file, and writes its outputs into the file as the self-test. */
static bool add_selftest(const weights_source *from, const cli_output *output, vit_writer *writer,
                         report *r) {
    vit_model model;
    runner run;
    bool good;
    if (!open_written(output, &model, r)) return false;
    good = runner_open(&run, &model, drop_pages, &model, r);
    if (good) vit_selftest_input(&model.config, run.input);
    good = good && runner_forward(&run, r) && check_outputs(from, &run, r) &&
           vit_writer_replace(writer, selftest_index(from->plan), run.output, r) &&
           vit_writer_finish(writer, r);
    runner_close(&run);
    vit_model_close(&model);
    return good;
}

/* === Writing one file === */

/* Fails if the output is too large to be mapped into memory. The self-test, the comparison and the
 * calibration map it. */
static bool can_be_opened(const vit_writer *writer, report *r) {
    return writer->file_size <= SIZE_MAX ||
           report_fail(r, "the model has %llu bytes, but this program can open at most %llu",
                       (unsigned long long)writer->file_size, (unsigned long long)SIZE_MAX);
}

static bool write_model(const weights_source *from, const vit_writer_contents *contents,
                        const cli_output *output, uint64_t *size, report *r) {
    vit_writer writer;
    bool good;
    if (!vit_writer_start(&writer, output->file, contents, r)) return false;
    good = can_be_opened(&writer, r) && weights_write(from, &writer, r) &&
           (!layout_selftest(from->plan) || add_selftest(from, output, &writer, r));
    *size = writer.file_size;
    vit_writer_free(&writer);
    return good;
}

/* === The model in f32, for calibration and comparison === */

/* Writes the model as f32 into a temporary file next to the output, and opens it. Removes the file
 * as soon as it is mapped. */
static bool open_reference(const char *path, const weights_source *from,
                           vit_writer_contents contents, vit_model *model, report *r) {
    cli_output output;
    uint64_t size;
    bool good;
    contents.dtype = VIT_F32;
    if (!open_output(path, &output, r)) return false;
    good = write_model(from, &contents, &output, &size, r) && open_written(&output, model, r);
    cli_output_abandon(&output);
    return good;
}

static bool compare(const vit_model *reference, const cli_output *output, conversion_photos *p,
                    bool quiet, comparison *result, report *r) {
    vit_model model;
    bool good;
    if (!open_written(output, &model, r)) return false;
    good = compare_models(reference, &model, p->decoder,
                          p->compared.count > 0 ? &p->compared : &p->calibration, quiet, result, r);
    vit_model_close(&model);
    return good;
}

/* Writes the text encoder into a separate temporary file and opens it. The caller closes the model
 * and deletes the file. */
static bool write_text(const convert_options *o, const blueprint *b, cli_output *output,
                       vit_model *model, report *r) {
    const vit_config *config = &b->text.model.config;
    const weights_source from = { .path = o->checkpoint,
                                  .checkpoint = b->checkpoint,
                                  .plan = &b->text.plan,
                                  .model = &b->text.model,
                                  .dtype = o->dtype,
                                  .quiet = o->quiet };
    const vit_writer_contents contents = { .config = config,
                                           .dtype = o->dtype,
                                           .keep = convert_kept(o, config),
                                           .tokenizer = b->text.tokenizer.data,
                                           .tokenizer_size = b->text.tokenizer.size };
    uint64_t size;
    if (!open_output(o->output, output, r)) return false;
    if (write_model(&from, &contents, output, &size, r) && open_written(output, model, r))
        return true;
    cli_output_abandon(output);
    return false;
}

/* Writes the finished .vit file with the provenance, the weights and the outputs of the self-test.
 * Calibrates the weights if there are calibration photos. If there are any photos, *w receives the
 * distance from the f32 model. After a failure no file remains. */
static bool vit_file_write(const convert_options *o, const blueprint *b, conversion_photos *p,
                           written *w, report *r) {
    const bool has_reference = p->calibration.count > 0 || p->compared.count > 0;
    const vit_config *config = &b->model.config;
    const label_list *names = &b->labels.list;
    weights_source from = { .path = o->checkpoint, .checkpoint = b->checkpoint, .plan = &b->plan };
    vit_writer_contents contents = { .config = config,
                                     .dtype = o->dtype,
                                     .keep = convert_kept(o, config),
                                     .num_labels = names->count,
                                     .labels = names->labels,
                                     .synsets = names->synsets };
    cli_output output, text;
    vit_model reference = { 0 }, encoder = { 0 };
    bool good, has_text = false;
    from.model = &b->model;
    from.dtype = o->dtype;
    from.allows_nonfinite = o->given.value[SETTING_ALLOW_NONFINITE] != 0;
    from.is_calibrated = p->calibration.count > 0;
    from.quiet = o->quiet;
    if (!open_output(o->output, &output, r)) return false;
    /* Verifies a zip's checksums, because damaged weights must not become a model that looks
     * undamaged. */
    good = checkpoint_verify(b->checkpoint, r) &&
           (!has_reference || open_reference(o->output, &from, contents, &reference, r));
    if (good && from.is_calibrated)
        good = (from.calibration = calibrate_start(&reference, o->dtype, p->decoder,
                                                   &p->calibration, o->quiet, r)) != NULL;
    good = good && provenance_make(o, b, p->calibration.count, &w->provenance, r);
    contents.provenance = w->provenance;
    if (good && b->text.map.layout) {
        good = has_text = write_text(o, b, &text, &encoder, r);
        contents.text = encoder.data;
        contents.text_size = encoder.size;
    }
    good = good && write_model(&from, &contents, &output, &w->size, r);
    vit_model_close(&encoder);
    if (has_text) cli_output_abandon(&text);
    calibrate_free(from.calibration);
    if (good && has_reference) good = compare(&reference, &output, p, o->quiet, &w->comparison, r);
    vit_model_close(&reference);
    if (good) return cli_output_commit(&output, r);
    cli_output_abandon(&output);
    return false;
}

/* === A whole conversion === */

static bool run(const convert_options *o, blueprint *b, conversion_photos *p, written *w,
                report *r) {
    if (!draw_any(o, p->decoder, b, r)) return false;
    code_conclude(&b->facts);
    return read_labels(o, &b->facts, &b->description, b->model.config.num_classes, &b->labels, r) &&
           find_text(o, b, r) && photos_find(&p->calibration, &o->calibrate, o->calibrate_max, r) &&
           photos_find(&p->compared, &o->compare, o->compare_max, r) &&
           (o->plan || vit_file_write(o, b, p, w, r) || report_file(r, o->output));
}

/* Runs the whole conversion. The decoder process must start before threads and models exist. */
bool convert_run(const convert_options *o, conversion *c, report *r) {
    photo_options decoding = o->decoding;
    bool good = true;
    c->options = o;
    decoding.exact = true;
    if (o->calibrate.count || o->compare.count || o->match_folder) {
        c->photos.decoder = photo_decoder_open(&decoding, "vit-convert", 1, r);
        good = c->photos.decoder != NULL;
    }
    good = good && run(o, &c->blueprint, &c->photos, &c->written, r);
    photo_decoder_close(c->photos.decoder);
    c->photos.decoder = NULL;
    return good;
}

void convert_free(conversion *c) {
    free_blueprint(&c->blueprint);
    photos_free(&c->photos.calibration);
    photos_free(&c->photos.compared);
    free(c->written.provenance);
}
