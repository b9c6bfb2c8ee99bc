#include "layout/detect.h"

#include <string.h>

#include "base/tensor.h"
#include "layout/names.h"

enum { MAX_DEPTH = 1024 };

/* === Detection === */

/* How much of the text is this prefix; 0: it begins otherwise. */
static size_t prefix_length(const char *prefix, const char *text, size_t size)
{
    const size_t length = strlen(prefix);
    const char *dot = memchr(text, '.', size);
    if (!strcmp(prefix, "*.")) return dot ? (size_t)(dot - text) + 1 : 0;
    return length <= size && !memcmp(text, prefix, length) ? length : 0;
}

/* True if text is made of prefixes alone: wrappers come in any order and number. */
static bool is_prefix(const layout *l, const char *text, size_t size)
{
    const char *const *prefix;
    if (size == 0) return true;
    for (prefix = l->prefixes; *prefix; prefix++) {
        const size_t length = prefix_length(*prefix, text, size);
        if (length > 0 && is_prefix(l, text + length, size - length)) return true;
    }
    return false;
}

/* Is this name the probe after a prefix, and do the layout's conditions hold there? The first
 * `common` letters, the path that all names are in, may be anything. */
static bool is_probe(const layout *l, checkpoint *c, const char *name, size_t common,
                     layout_map *candidate)
{
    const size_t length = strlen(name), probe = strlen(l->probe);
    const size_t prefix = length - probe;
    if (length < probe || strcmp(name + prefix, l->probe) != 0) return false;
    if (prefix >= sizeof candidate->prefix) return false;
    if (!is_prefix(l, name, prefix) &&
        !(common <= prefix && is_prefix(l, name + common, prefix - common)))
        return false;
    memset(candidate, 0, sizeof *candidate);
    candidate->layout = l;
    candidate->checkpoint = c;
    candidate->blocks = l->blocks[0];
    memcpy(candidate->prefix, name, length - probe);
    return layout_all_hold(candidate, l->when, 0);
}

/* Number of models in the checkpoint that have this layout; *map is the first, or the one
 * without a prefix, which beats every wrapped one. */
static int probe(const layout *l, checkpoint *c, layout_map *map, layout_map *second)
{
    const size_t common = layout_common_path(c);
    layout_map candidate;
    size_t i;
    int found = 0;
    for (i = 0; i < checkpoint_count(c); i++) {
        if (!is_probe(l, c, checkpoint_tensor(c, i)->name, common, &candidate)) continue;
        if (candidate.prefix[0] == '\0') {
            *map = candidate;
            return 1;
        }
        *(found ? second : map) = candidate;
        found++;
    }
    return found;
}

/* === Blocks === */

/* The first path that some tensor layout_has. */
static void find_blocks(layout_map *map)
{
    const char *const *path;
    size_t i;
    for (path = map->layout->blocks; *path; path++)
        for (i = 0; i < checkpoint_count(map->checkpoint); i++)
            if (layout_block_of(map, *path, checkpoint_tensor(map->checkpoint, i)->name) >= 0) {
                map->blocks = *path;
                return;
            }
}

/* Blocks that a tensor of this name shows: up to its own number, or all where they are stacked. */
static int64_t blocks_shown(const layout_map *map, const checkpoint_tensor_info *info)
{
    const int block = layout_block_of(map, map->blocks, info->name);
    if (block < 0) return 0;
    if (layout_is_stacked(map)) return info->ndim ? info->dims[0] : 1;
    return (int64_t)block + 1;
}

/* The highest one counts: a gap below it shows up as a missing tensor. */
static bool count_blocks(layout_map *map, report *r)
{
    size_t i;
    map->depth = 0;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        const int64_t blocks = blocks_shown(map, info);
        if (blocks > MAX_DEPTH)
            return report_fail(r, "%s: more than %d blocks", info->name, MAX_DEPTH);
        if (blocks > map->depth) map->depth = (int)blocks;
    }
    return true;
}

/* === Where none is recognised === */

/* How many tensors this layout would know under this prefix. */
static size_t count_known(const layout_map *map)
{
    size_t i, known = 0;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++)
        known += layout_is_known(map, checkpoint_tensor(map->checkpoint, i)->name);
    return known;
}

/* Takes as prefix whatever precedes a rule's key, that of the first block if it has blocks. */
static bool guess_prefix(layout_map *map, const layout_rule *rule)
{
    char key[LAYOUT_MAX_KEY];
    size_t length, i;
    map->prefix[0] = '\0';
    if (!rule->parts[0] || !layout_key(map, rule->parts[0], 0, 0, key)) return false;
    length = strlen(key);
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const char *name = checkpoint_tensor(map->checkpoint, i)->name;
        const size_t size = strlen(name);
        if (size < length || strcmp(name + size - length, key) != 0) continue;
        if (size - length >= sizeof map->prefix || !is_prefix(map->layout, name, size - length))
            continue;
        memcpy(map->prefix, name, size - length);
        map->prefix[size - length] = '\0';
        return true;
    }
    return false;
}

/* The key that the layout is recognised by and that is missing. */
static const char *absent_probe(const layout_map *map)
{
    int i;
    if (!layout_find_key(map, map->layout->probe, 0)) return map->layout->probe;
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++)
        if (!layout_holds(map, map->layout->when[i], 0) && map->layout->when[i][0] != '!')
            return map->layout->when[i];
    return NULL;
}

/* Does the checkpoint have a key that this layout must not have? */
static bool is_excluded(const layout_map *map)
{
    int i;
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++) {
        const char *condition = map->layout->when[i];
        if (condition && condition[0] == '!' && !layout_holds(map, condition, 0)) return true;
    }
    return false;
}

/* Counts what a layout knows under every prefix; *best is the map that knows the *most. */
static void guess_by(const layout *l, checkpoint *c, layout_map *best, size_t *most)
{
    const layout_rule *rule;
    layout_map map;
    char last[sizeof map.prefix] = "?";
    memset(&map, 0, sizeof map);
    map.layout = l;
    map.checkpoint = c;
    for (rule = l->rules; rule->tensor; rule++) {
        size_t known;
        map.blocks = l->blocks[0];
        if (!guess_prefix(&map, rule) || !strcmp(map.prefix, last)) continue;
        strcpy(last, map.prefix);   /* most rules have the prefix of the one before */
        find_blocks(&map);
        known = absent_probe(&map) && !is_excluded(&map) ? count_known(&map) : 0;
        if (known <= *most) continue;
        *most = known;
        *best = map;
    }
}

/* The layout that knows most of the tensors although its probe is missing. */
static bool guess_layout(checkpoint *c, layout_map *best)
{
    size_t most = checkpoint_count(c) / 2, i;   /* fewer are a coincidence */
    best->layout = NULL;
    for (i = 0; layout_all[i]; i++) guess_by(layout_all[i], c, best, &most);
    return best->layout != NULL;
}

static bool no_layout(checkpoint *c, layout_map *map, report *r)
{
    const checkpoint_tensor_info *first = checkpoint_count(c) ? checkpoint_tensor(c, 0) : NULL;
    char shape[SHAPE_TEXT_SIZE], key[LAYOUT_MAX_KEY];
    layout_map near;
    memset(map, 0, sizeof *map);
    if (guess_layout(c, &near) && layout_key(&near, absent_probe(&near), 0, 0, key)) {
        map->layout = near.layout;
        return report_fail(r, "%s is missing: most tensors are those of the %s layout", key,
                           near.layout->name);
    }
    if (!first) return report_fail(r, "expected the tensors of a ViT, found no tensors");
    return report_fail(r, "expected timm's layout (patch_embed.proj.weight) or another that is "
                       "known, found %zu tensors such as %s %s", checkpoint_count(c),
                       first->name, shape_text(first->dims, first->ndim, shape, sizeof shape));
}

/* === All of it === */

bool layout_use(const layout *l, checkpoint *c, layout_map *map, report *r)
{
    memset(map, 0, sizeof *map);
    map->layout = l;
    map->checkpoint = c;
    map->blocks = l->blocks[0];
    return count_blocks(map, r) && layout_match_all(map, r);
}

bool layout_falls_short(const layout_map *map, const text_list *ignore)
{
    static const char *const usual[] = {
        "patch_embed.proj.weight", "pos_embed", "blocks.0.norm1.weight",
        "blocks.0.attn.qkv.weight", "blocks.0.attn.proj.weight", "blocks.0.norm2.weight",
        "blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc2.weight", "head.weight"
    };
    size_t i;
    if (!names_has_unknown(map, ignore)) return false;
    if (map->layout->is_open) return true;
    for (i = 0; i < sizeof usual / sizeof *usual; i++)
        if (!layout_has(map, usual[i])) return true;
    return !layout_has(map, "norm.weight") && !layout_has(map, "fc_norm.weight");
}

bool layout_knows_most(const layout_map *map)
{
    return 2 * count_known(map) >= checkpoint_count(map->checkpoint);
}

bool layout_detect(checkpoint *c, layout_map *map, report *r)
{
    size_t i;
    memset(map, 0, sizeof *map);
    for (i = 0; layout_all[i]; i++) {
        layout_map second;
        int found = probe(layout_all[i], c, map, &second);
        if (found == 0) continue;
        if (found > 1)
            return report_fail(r, "expected one model, found several: %s* and %s*",
                               map->prefix, second.prefix);
        find_blocks(map);
        return count_blocks(map, r) && layout_match_all(map, r);
    }
    return no_layout(c, map, r);
}
