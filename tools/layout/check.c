#include "layout/check.h"

#include <stdio.h>
#include <string.h>

#include "base/tensor.h"
#include "layout/names.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === Features === */

bool layout_check_features(const layout_map *map, const text_list *ignore, report *r)
{
    char shape[SHAPE_TEXT_SIZE];
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        const layout_extra *lacking = names_find_extra(map, map->layout->lacking, info->name);
        if (!lacking || names_is_ignored(map, ignore, info->name)) continue;
        return report_fail(r, "%.200s %s: this version of vit.h lacks %s", info->name,
                           shape_text(info->dims, info->ndim, shape, sizeof shape),
                           lacking->meaning);
    }
    return true;
}

/* === What somebody must tell === */

/* Attention of each token to itself alone has no heads. */
static bool plays_no_part(const settings all[FROM_COUNT], setting_key key)
{
    double attention = VIT_ATTENTION_ALL;
    settings_get(all, SETTING_ATTENTION, &attention);
    return key == SETTING_NUM_HEADS && attention == VIT_ATTENTION_SELF;
}

/* All questions at once: nobody wants one error after the other. */
bool layout_check_told(const layout_map *map, const settings all[FROM_COUNT], report *r)
{
    const layout_question *q = map->layout->questions;
    char names[128] = "", options[640] = "";
    bool asked[SETTING_COUNT] = { false };
    int count = 0;
    for (; q && q->options; q++) {
        const size_t at = strlen(options), named = strlen(names);
        if (!layout_holds(map, q->when, 0) || settings_origin(all, q->setting) >= 0) continue;
        if (asked[q->setting] || plays_no_part(all, q->setting)) continue;
        asked[q->setting] = true;
        snprintf(names + named, sizeof names - named, "%s%s", count ? ", " : "",
                 setting_rows[q->setting].name);
        snprintf(options + at, sizeof options - at, "%s%s", count ? "; and " : "", q->options);
        count++;
    }
    return !count || report_fail(r, "%s cannot be seen in a checkpoint of %s; give %s", names,
                                 map->layout->name, options);
}

/* === Completeness ===
 * A tensor that is missing or has another name must not look like an option that is off. */

/* A setting that says that a model has no such tensor. */
typedef struct absence {
    const char *tensor;
    setting_key key;
    int value;
} absence;

static const absence *find_absence(const char *tensor)
{
    static const absence table[] = {
        { "norm.weight", SETTING_FINAL_NORM, 0 }, { "norm.bias", SETTING_FINAL_NORM, 0 },
        { "patch_embed.proj.bias", SETTING_PATCH_BIAS, 0 },
        { "pos_embed", SETTING_POSITIONS, VIT_POS_NONE },
        { "head.weight", SETTING_NUM_CLASSES, 0 }
    };
    size_t i;
    for (i = 0; i < COUNT(table); i++)
        if (!strcmp(table[i].tensor, tensor)) return &table[i];
    return NULL;
}

static bool is_told_absent(const settings all[FROM_COUNT], const char *tensor)
{
    const absence *known = find_absence(tensor);
    int from;
    for (from = FROM_NAME; known && from < FROM_COUNT; from++)
        if (all[from].given[known->key] && (int)all[from].value[known->key] == known->value)
            return true;
    return false;
}

/* One that was renamed shows up among the unknown. */
static bool refuse_missing(const char *key, const char *why, const char *tensor,
                           const name_list *unknown, report *r)
{
    const absence *known = find_absence(tensor);
    char hint[80] = "";
    if (known)
        snprintf(hint, sizeof hint, "; --set %s=%s if this one has none",
                 setting_rows[known->key].name, known->key == SETTING_POSITIONS ? "none" : "0");
    return report_fail(r, "%.200s is missing: %s%s%s%.120s", key, why, hint,
                       unknown->count > 0 ? "; unknown: " : "", unknown->text);
}

/* Why a missing tensor should be there; NULL: it need not, since options are off in most models. */
static const char *why_missed(const layout_map *map, const settings all[FROM_COUNT],
                              const char *tensor)
{
    const layout_rule *rule;
    char weight[128];
    const size_t length = strlen(tensor);
    int block;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        if (!layout_names(rule->tensor, tensor, &block)) continue;
        if (!layout_all_hold(map, rule->when, block)) continue;
        if (names_parts_present(map, rule, block) > 0) return "other parts of it are there";
        if (names_is_required(rule) && !is_told_absent(all, tensor))
            return "every model of this layout has it";
    }
    /* a weight without a bias is common, a bias without its weight an accident */
    if (length <= 7 || strcmp(tensor + length - 7, ".weight")) return NULL;
    snprintf(weight, sizeof weight, "%.*s.bias", (int)(length - 7), tensor);
    return layout_has(map, weight) ? "its bias is there" : NULL;
}

/* The first of the rules that any block uses; NULL if none uses any. */
static const layout_rule *rule_of_blocks(const layout_target *target)
{
    const layout_rule *first = NULL;
    int i;
    for (i = 0; i < target->count; i++) {
        const layout_match *match = &target->matches[i];
        if (match->found && (!first || match->rule < first)) first = match->rule;
    }
    return first;
}

/* What one block has, all must have, by the same rule: else one of them has lost or renamed it. */
static bool check_blocks(const layout_map *map, const layout_target *target,
                         const settings all[FROM_COUNT], const name_list *unknown, report *r)
{
    const layout_rule *first = rule_of_blocks(target);
    char tensor[128], key[LAYOUT_MAX_KEY];
    const char *why;
    int i;
    for (i = 0; i < target->count; i++) {
        const layout_match *match = &target->matches[i];
        snprintf(tensor, sizeof tensor, "blocks.%d.%s", i, target->tensor + strlen("{b}"));
        if (first && !(match->found && match->rule == first) &&
            names_absent_key(map, first, i, key))
            return refuse_missing(key, "other blocks have it", tensor, unknown, r);
        why = first ? NULL : why_missed(map, all, tensor);
        if (why) return refuse_missing(names_meant_key(map, tensor, key), why, tensor, unknown, r);
    }
    return true;
}

/* Tensors of a stem's stages are not checked here: how many blocks a stage has is counted by one
 * of them, and the plan misses the others. */
static bool check_missing(const layout_map *map, const settings all[FROM_COUNT],
                          const name_list *unknown, report *r)
{
    char key[LAYOUT_MAX_KEY];
    const char *why;
    size_t i;
    for (i = 0; i < map->target_count; i++) {
        const layout_target *target = &map->targets[i];
        const char *tensor = target->tensor;
        if (!strncmp(tensor, "{b}", 3)) {
            if (!check_blocks(map, target, all, unknown, r)) return false;
        } else if (!layout_has(map, tensor)) {
            why = why_missed(map, all, tensor);
            if (why)
                return refuse_missing(names_meant_key(map, tensor, key), why, tensor, unknown, r);
        }
    }
    return true;
}

bool layout_check_names(const layout_map *map, const settings all[FROM_COUNT],
                        const text_list *ignore, report *r)
{
    name_list unknown;
    names_find_unknown(map, ignore, &unknown);
    return check_missing(map, all, &unknown, r) &&
           (unknown.count == 0 || names_refuse(&unknown, r));
}
