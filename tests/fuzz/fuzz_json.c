/* fuzz_json.c - reads the input as JSON, as the config.json beside a checkpoint, and as an author's
 * own configuration, in JSON or YAML. */
#define _GNU_SOURCE
#include "base/report.h"
#include "fuzz_path.h"
#include "model/config.h"
#include "model/labels.h"

static uint32_t count_values(const json_value *value) {
    uint32_t count = 1, children = 0;
    if (value->kind == JSON_STRING)
        fuzz_require(strlen(value->u.string) < SIZE_MAX, "a string ends");
    for (const json_value *child = json_first(value); child; child = child->next) {
        count += count_values(child);
        children++;
    }
    if (value->kind == JSON_ARRAY || value->kind == JSON_OBJECT)
        fuzz_require(children == value->count, "the children are as many as it says");
    return count;
}

static void parse(const uint8_t *data, size_t size, bool unique_keys) {
    report r = report_make();
    json_document document;
    char *text = malloc(size + 1);
    if (!text) exit(1);
    if (size > 0) memcpy(text, data, size);
    if (json_parse(&document, text, size, unique_keys, 0, &r)) {
        fuzz_require(count_values(document.root) <= 1000000, "values are limited");
        json_free(&document);
    } else {
        fuzz_require(r.text[0] != '\0', "a refusal says why");
    }
    free(text);
}

static void configure(const uint8_t *data, size_t size) {
    report r = report_make();
    config_file config;
    settings s;
    label_list list;
    settings_start(&s, "config.json");
    memset(&config, 0, sizeof config);
    if (config_read(&config, &s, fuzz_path(data, size), NULL, &r)) {
        if (labels_from_json(&list, config.label_names, config.label_descriptions, &r))
            labels_free(&list);
        config_free(&config);
    } else {
        fuzz_require(r.text[0] != '\0', "a refusal says why");
    }
}

static bool take(void *user, const char *key, const char *value) {
    (*(int *)user)++;
    fuzz_require(*key && *value, "a setting has a name and a value");
    return true;
}

/* Reads the input as an author's own configuration. The reader must accept any text. */
static void read_own(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    int count = 0;
    if (!text) exit(1);
    if (size > 0) memcpy(text, data, size);
    fuzz_require(config_read_own(text, size, take, &count), "nothing stops the reader");
    fuzz_require((size_t)count <= size, "a setting takes a letter");
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    parse(data + 1, size - 1, data[0] & 1);
    if (data[0] & 2) configure(data + 1, size - 1);
    if (data[0] & 4) read_own(data + 1, size - 1);
    return 0;
}
