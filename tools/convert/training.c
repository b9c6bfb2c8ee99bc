#include "convert/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/timm_names.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { TRAINING_TEXT = 8192, TRAINING_VALUE = 256 };

static const char *value_of(const checkpoint *c, const char *key)
{
    size_t i;
    for (i = 0; i < checkpoint_metadata_count(c); i++)
        if (!strcmp(checkpoint_metadata(c, i)->key, key)) return checkpoint_metadata(c, i)->value;
    return NULL;
}

/* Others than timm have names of their own, which say nothing here. */
static const char *find_architecture(const checkpoint *c)
{
    static const char *const keys[] = {
        "args.model", "arch", "args.arch", "hyper_parameters.model_name", "hyper_parameters.arch",
        "hyper_parameters.architecture", "hyper_parameters.model", "hyper_parameters.backbone",
        "args.model_name", "config.model_name", "config.model", "model_name"
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

static bool is_number(const char *text)
{
    double value;
    return text_read_number(text, -1e30, 1e30, &value);
}

/* "(0.5, 0.5, 0.5)": so many numbers at least. */
static bool is_list(const char *text, int least)
{
    int count = 1;
    if (text[0] != '(' || strspn(text + 1, "0123456789.e+-, )") != strlen(text + 1)) return false;
    for (; *text; text++) count += *text == ',';
    return count >= least;
}

/* Appends a number, true, false, a list or a word; drops a value that JSON would escape. */
static void put(char *json, const char *key, const char *value)
{
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
                        ? "%s\"%s\": %s" : "%s\"%s\": \"%s\"", between, key, value);
}

static bool is_word(setting_key key, const char *value)
{
    return setting_find_word(key, value) >= 0;
}

/* The options of timm's train.py that say how images are prepared, and DeiT's. None is refused: an
 * option that has no such value, as an interpolation of "random", says nothing. */
static void put_preprocessing(const checkpoint *c, char *json)
{
    static const char *const keys[] = {
        "mean", "std", "crop_pct", "eval_crop_ratio", "crop_mode", "interpolation"
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

static bool is_whole(const char *text)
{
    long number;
    return text_read_int(text, 1, 1 << 20, &number);
}

/* Reads the options that the named architecture was built with. */
static void put_model(const checkpoint *c, const char *architecture, char *json)
{
    static const char prefix[] = "args.model_kwargs.";
    static const struct { const char *path, *key; } arguments[] = {
        { "args.img_size", "img_size" }, { "args.input_size", "img_size" },
        { "args.in_chans", "in_chans" }, { "args.num_classes", "num_classes" }
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

bool training_read(const checkpoint *c, config_file *config, settings all[FROM_COUNT], report *r)
{
    const char *architecture = find_architecture(c);
    char *json = malloc(TRAINING_TEXT);
    if (!json) return report_no_memory(r);
    strcpy(json, "{");
    put_preprocessing(c, json);
    if (architecture) put_model(c, architecture, json);
    text_append(json, TRAINING_TEXT, "}");
    return config_read_json(config, &all[architecture ? FROM_CONFIG : FROM_TENSORS], json, r);
}
