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
