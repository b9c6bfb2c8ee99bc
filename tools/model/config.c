#include "model/config.h"

#include <stdlib.h>
#include <string.h>

#include "model/config_open_clip.h"
#include "model/config_timm.h"
#include "model/config_transformers.h"

/* Has it anything that timm's files have, and others hardly? */
static bool is_timm(const json_value *root)
{
    static const char *const keys[] = {
        "architecture", "pretrained_cfg", "model_args", "input_size", "mean", "std", "crop_pct",
        "interpolation", "global_pool"
    };
    size_t i;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_get(root, keys[i])) return true;
    return false;
}

static bool config_parse(config_file *config, settings *s, const char *path, bool *foreign,
                         report *r)
{
    const json_value *root;
    size_t size = 0;
    if (!config_read_text(path, &config->text, &size, r)) return false;
    if (!json_parse(&config->document, config->text, size, false, 0, r)) return false;
    root = config->document.root;
    if (root->kind != JSON_OBJECT) return report_fail(r, "expected a JSON object");
    if (config_open_clip_is(root)) return config_open_clip_apply(config, s, r);
    if (config_hf_is(root)) {
        if (foreign && !config_hf_knows(root)) return *foreign = true;
        return config_hf_apply(config, s, path, r);
    }
    if (foreign && !is_timm(root)) return *foreign = true;
    return config_timm_apply(config, s, r);
}

bool config_read(config_file *config, settings *s, const char *path, bool *foreign, report *r)
{
    memset(config, 0, sizeof *config);
    if (foreign) *foreign = false;
    if (config_parse(config, s, path, foreign, r)) return true;
    config_free(config);
    return report_file(r, path);
}

bool config_read_json(config_file *config, settings *s, char *text, report *r)
{
    config_free(config);
    config->text = text;
    if (json_parse(&config->document, text, strlen(text), false, 0, r) &&
        config_timm_apply(config, s, r))
        return true;
    config_free(config);
    return false;
}

void config_free(config_file *config)
{
    json_free(&config->document);
    free(config->text);
    memset(config, 0, sizeof *config);
}
