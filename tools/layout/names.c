#define _POSIX_C_SOURCE 200809L

#include "layout/names.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/tensor.h"

enum { MAX_LISTED = 10 };

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

const char *names_absent_key(const layout_map *map, const layout_rule *rule, int block,
                             char text[LAYOUT_MAX_KEY])
{
    int i;
    for (i = 0; i < layout_part_count(rule); i++)
        if (!layout_is_zeros(rule->parts[i]) && !layout_find_key(map, rule->parts[i], block) &&
            layout_key(map, rule->parts[i], block, chunk_of(map, block), text))
            return text;
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

/* Patterns as of a shell, in which * also stands for dots. */
static bool matches_any(const text_list *patterns, const char *name)
{
    int i;
    for (i = 0; i < patterns->count; i++)
        if (!fnmatch(patterns->items[i], name, 0)) return true;
    return false;
}

bool names_is_ignored(const layout_map *map, const text_list *ignore, const char *name)
{
    return matches_any(ignore, name) || matches_any(ignore, layout_strip(map, name));
}

/* A pattern that begins with "../" is for names outside the prefix. */
const layout_extra *names_find_extra(const layout_map *map, const layout_extra *extras,
                                     const char *name)
{
    const bool inside = !strncmp(name, map->prefix, strlen(map->prefix));
    const size_t parent = layout_parent_length(map->prefix, strlen(map->prefix));
    const char *above = strncmp(name, map->prefix, parent) ? name : name + parent;
    for (; extras && extras->pattern; extras++) {
        if (!strncmp(extras->pattern, "../", 3)) {
            if ((!inside || !*map->prefix) && !fnmatch(extras->pattern + 3, above, 0))
                return extras;
        } else if (!fnmatch(extras->pattern, layout_strip(map, name), 0)) {
            return extras;
        }
    }
    return NULL;
}

/* Each name is cut at 100 characters, so that a list has several in one line. */
void names_add(name_list *list, const checkpoint_tensor_info *info)
{
    char shape[SHAPE_TEXT_SIZE];
    int written;
    if (list->count++ >= MAX_LISTED || list->used >= sizeof list->text) return;
    written = snprintf(list->text + list->used, sizeof list->text - list->used, "%s%.100s %s",
                       list->used ? ", " : "", info->name,
                       shape_text(info->dims, info->ndim, shape, sizeof shape));
    if (written > 0) list->used += (size_t)written;
}

bool names_refuse(const name_list *unknown, report *r)
{
    const bool one = unknown->count == 1;
    return report_fail(r, "%d unknown tensor%s: %.340s%s; --rename THEIRS=OURS says what %s, "
                       "--ignore PATTERN drops %s", unknown->count, one ? "" : "s", unknown->text,
                       unknown->count > MAX_LISTED ? ", ..." : "", one ? "it is" : "they are",
                       one ? "it" : "them");
}

void names_find_unknown(const layout_map *map, const text_list *ignore, name_list *unknown)
{
    size_t i;
    memset(unknown, 0, sizeof *unknown);
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        if (!layout_is_known(map, info->name) && !names_is_ignored(map, ignore, info->name) &&
            info->count > 0 && !names_find_extra(map, map->layout->harmless, info->name))
            names_add(unknown, info);
    }
}
