#include "model/config_values.h"

#include <stdlib.h>

#include "base/source.h"

enum { CONFIG_MAX_FILE = 64 * 1024 * 1024 };

bool config_read_text(const char *path, char **text, size_t *size, report *r)
{
    source file;
    bool good;
    *text = NULL;
    if (!source_open_file(&file, path, r)) return false;
    *size = (size_t)file.size;
    good = file.size <= CONFIG_MAX_FILE || report_fail(r, "too large for a configuration");
    if (good) *text = malloc(*size + 1);
    if (good) good = *text ? source_read(&file, 0, *text, *size, r) : report_no_memory(r);
    source_close(&file);
    return good;
}

bool config_is_null(const json_value *value)
{
    return !value || value->kind == JSON_NULL;
}

bool config_is_size(const json_value *value)
{
    const int64_t size = json_integer(value, 0);
    return size >= 1 && size <= 1 << 20;
}

bool config_put_size(settings *s, setting_key setting, const json_value *object, const char *key,
                     report *r)
{
    const json_value *value = json_get(object, key);
    if (config_is_null(value)) return true;
    if (!config_is_size(value)) return report_fail(r, "%s: expected a whole number", key);
    settings_put(s, setting, json_number(value, 0));
    return true;
}
