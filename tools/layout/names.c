#define _POSIX_C_SOURCE 200809L

#include "layout/names.h"

#include <stdio.h>
#include <string.h>

#include "base/tensor.h"
#include "base/text.h"

/* === Missing === */

/* The chunk that a block is in, where blocks have two numbers: another tensor of it shows that. */
static int chunk_of(const layout_map *map, int block)
{
    char key[LAYOUT_MAX_KEY];
    size_t i;
    int chunk;
    for (chunk = block; chunk > 0; chunk--) {
        (void)layout_key(map, "{b}", block, chunk, key);
        for (i = 0; i < checkpoint_count(map->checkpoint); i++)
            if (!strncmp(checkpoint_tensor(map->checkpoint, i)->name, key, strlen(key)))
                return chunk;
    }
    return 0;
}

const char *names_absent_part(const layout_map *map, const layout_rule *rule, int part, int block,
                              char text[LAYOUT_MAX_KEY])
{
    const char *key = rule->parts[part];
    if (layout_is_zeros(key) || layout_find_key(map, key, block)) return NULL;
    return layout_key(map, key, block, chunk_of(map, block), text) ? text : NULL;
}

const char *names_absent_key(const layout_map *map, const layout_rule *rule, int block,
                             char text[LAYOUT_MAX_KEY])
{
    int i;
    for (i = 0; i < layout_part_count(rule); i++)
        if (names_absent_part(map, rule, i, block, text)) return text;
    return NULL;
}

/* Does the module that a key belongs to have another tensor? */
static bool has_sibling(const layout_map *map, const char *key)
{
    const size_t length = layout_parent_length(key, strlen(key));
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint) && length > 0; i++)
        if (!strncmp(checkpoint_tensor(map->checkpoint, i)->name, key, length)) return true;
    return false;
}

int names_parts_present(const layout_map *map, const layout_rule *rule, int block)
{
    int i, present = 0;
    for (i = 0; i < layout_part_count(rule); i++)
        present += !layout_is_zeros(rule->parts[i]) && layout_find_key(map, rule->parts[i], block);
    return present;
}

bool names_is_required(const layout_rule *rule)
{
    return rule->when[0] && !strcmp(rule->when[0], LAYOUT_REQUIRED);
}

const layout_rule *names_meant_rule(const layout_map *map, const char *tensor)
{
    const layout_rule *rule, *best = NULL;
    char key[LAYOUT_MAX_KEY];
    int block, most = -1;
    bool fits;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        int score;
        if (!layout_names(rule->tensor, tensor, &block)) continue;
        if (!layout_all_hold(map, rule->when, block)) continue;
        /* parts that are there say most, then the block before, then the rest of the module */
        score = 4 * names_parts_present(map, rule, block) + names_is_required(rule);
        if (block >= 0) score += 2 * layout_applies(map, rule, block ? block - 1 : 1, &fits);
        if (names_absent_key(map, rule, block, key)) score += has_sibling(map, key);
        if (score > most) best = rule;   /* of equals the first, as where all is there */
        if (score > most) most = score;
    }
    return best;
}

const char *names_meant_key(const layout_map *map, const char *tensor, char text[LAYOUT_MAX_KEY])
{
    const layout_rule *rule = names_meant_rule(map, tensor);
    int block;
    if (rule && layout_names(rule->tensor, tensor, &block) &&
        names_absent_key(map, rule, block, text))
        return text;
    return tensor;
}

/* === Unknown === */

bool names_match(const text_list *patterns, const char *name)
{
    int i;
    for (i = 0; i < patterns->count; i++)
        if (text_matches(patterns->items[i], name)) return true;
    return false;
}

bool names_is_ignored(const layout_map *map, const text_list *ignore, const char *name)
{
    return names_match(ignore, name) || names_match(ignore, layout_strip(map, name));
}

/* A pattern that begins with "../" is for names outside the prefix. */
static bool matches_extra(const layout_map *map, const char *pattern, const char *name)
{
    const bool inside = !strncmp(name, map->prefix, strlen(map->prefix));
    const size_t parent = layout_parent_length(map->prefix, strlen(map->prefix));
    const char *above = strncmp(name, map->prefix, parent) ? name : name + parent;
    if (strncmp(pattern, "../", 3)) return text_matches(pattern, layout_strip(map, name));
    return (!inside || !*map->prefix) && text_matches(pattern + 3, above);
}

const layout_extra *names_find_extra(const layout_map *map, const layout_extra *extras,
                                     const char *name)
{
    for (; extras && extras->pattern; extras++)
        if (matches_extra(map, extras->pattern, name)) return extras;
    return NULL;
}

/* Without a prefix, what is above it is beside the model. */
static bool has_beside(const layout_map *map, const char *key)
{
    if (!*map->prefix && !strncmp(key, "../", 3)) key += 3;
    return layout_find_key(map, key, 0) != NULL;
}

const char *names_why_harmless(const layout_map *map, const char *name)
{
    const layout_extra *extra = names_find_extra(map, map->layout->harmless, name);
    const layout_company *company = map->layout->company;
    if (extra) return extra->meaning;
    for (; company && company->pattern; company++)
        if (matches_extra(map, company->pattern, name) && has_beside(map, company->beside))
            return company->meaning;
    return NULL;
}

/* Could it be a part of the model under another name? One outside the blocks that has no number, no
 * side as wide as a token and none of the usual words is no likely one. */
static bool may_matter(const layout_map *map, const checkpoint_tensor_info *info)
{
    static const char *const words[] = {
        "attn", "att.", "mlp", "norm", "ln", "head", "fc", "class", "cls", "token", "pos", "emb",
        "patch", "proj", "qkv", "query", "key", "value", "block", "layer", "conv", "linear"
    };
    const char *name = layout_strip(map, info->name);
    size_t i;
    int d;
    for (i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i])) return true;
    for (d = 0; d < info->ndim; d++)
        if (info->dims[d] == map->embed_dim) return true;
    for (i = 0; name[i]; i++)
        if (name[i] == '.' && name[i + 1] >= '0' && name[i + 1] <= '9') return true;
    return map->embed_dim == 0;
}

bool names_add_unknown(const layout_map *map, const checkpoint_tensor_info *info,
                       name_groups *unknown)
{
    char shape[SHAPE_TEXT_SIZE], note[SHAPE_TEXT_SIZE + 40];
    shape_text(info->dims, info->ndim, shape, sizeof shape);
    snprintf(note, sizeof note, "%s%s", shape,
             may_matter(map, info) ? "" : " (--ignore PATTERN drops it)");
    return groups_add(unknown, info->name, note);
}

bool names_put_unknown(const name_groups *unknown, findings *f)
{
    static const char advice[] = "--rename THEIRS=OURS says what an unknown tensor is";
    char name[GROUP_TEXT_SIZE], text[GROUP_TEXT_SIZE + SHAPE_TEXT_SIZE + 80];
    size_t i;
    for (i = 0; i < unknown->count; i++) {
        const name_group *group = &unknown->items[i];
        snprintf(text, sizeof text, "%zu unknown tensor%s: %s %s", group->count,
                 group->count == 1 ? "" : "s", group_text(group, name), group->note);
        if (!findings_wrong(f, text, advice)) return false;
    }
    snprintf(text, sizeof text, "%zu more unknown tensors", unknown->more);
    return unknown->more == 0 || findings_wrong(f, text, advice);
}

static bool is_unknown(const layout_map *map, const text_list *ignore,
                       const checkpoint_tensor_info *info)
{
    return !layout_is_known(map, info->name) && !names_is_ignored(map, ignore, info->name) &&
           info->count > 0 && !names_why_harmless(map, info->name);
}

bool names_find_unknown(const layout_map *map, const text_list *ignore, name_groups *unknown)
{
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        if (is_unknown(map, ignore, info) && !names_add_unknown(map, info, unknown)) return false;
    }
    return true;
}

bool names_has_unknown(const layout_map *map, const text_list *ignore)
{
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++)
        if (is_unknown(map, ignore, checkpoint_tensor(map->checkpoint, i))) return true;
    return false;
}
