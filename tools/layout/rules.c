#define _POSIX_C_SOURCE 200809L

#include "layout/rules.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/views.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === Keys === */

size_t layout_common_path(const checkpoint *c)
{
    const checkpoint_tensor_info *tensor = checkpoint_tensor(c, 0);
    const char *first = tensor ? tensor->name : "", *dot = strrchr(first, '.');
    size_t length = dot ? (size_t)(dot - first) + 1 : 0, i;
    for (i = 1; i < checkpoint_count(c); i++)
        while (length > 0 && strncmp(checkpoint_tensor(c, i)->name, first, length) != 0)
            for (length--; length > 0 && first[length - 1] != '.'; length--) continue;
    return length;
}

size_t layout_parent_length(const char *prefix, size_t length)
{
    if (length > 0) length--;
    while (length > 0 && prefix[length - 1] != '.' && prefix[length - 1] != '/') length--;
    return length;
}

const char *layout_strip(const layout_map *map, const char *name)
{
    const size_t length = strlen(map->prefix);
    return strncmp(name, map->prefix, length) ? name : name + length;
}

/* A block of a stem has one number for its stage and its place there. */
static int stage_of(int block) { return block / LAYOUT_STAGE_BLOCKS; }
static int unit_of(int block) { return block % LAYOUT_STAGE_BLOCKS; }

/* What {letter} stands for; -1 for any other letter. */
static int number_of(char letter, int block, int chunk)
{
    switch (letter) {
    case 'i': return block;
    case 'e': return 2 * block;
    case 'o': return 2 * block + 1;
    case 'c': return chunk;
    case 's': return stage_of(block);
    case 'S': return stage_of(block) + 1;
    case 'u': return unit_of(block);
    case 'U': return unit_of(block) + 1;
    default: return -1;
    }
}

/* Writes a path or a key with its numbers in place; cuts it where there is no room for one more. */
static void put_numbers(const char *from, size_t length, int block, int chunk, char *text,
                        size_t size)
{
    enum { DIGITS = 12 };   /* as many as an int has, and the NUL */
    const char *end = from + length;
    size_t used = 0;
    for (; from < end && used + DIGITS < size; from++) {
        const int number = *from == '{' ? number_of(from[1], block < 0 ? 0 : block, chunk) : -1;
        if (number < 0) {
            text[used++] = *from;
            continue;
        }
        used += (size_t)snprintf(text + used, size - used, "%d", number);
        from += 2;
    }
    text[used] = '\0';
}

/* Where a part's slice begins, or its end. */
static size_t key_length(const char *part)
{
    return strcspn(part, "#@");
}

bool layout_key(const layout_map *map, const char *key, int block, int chunk,
                char text[LAYOUT_MAX_KEY])
{
    char path[128] = "", name[256];   /* with the prefix and slashes fewer than LAYOUT_MAX_KEY */
    size_t prefix = strlen(map->prefix), length = key_length(key);
    while (length >= 3 && !strncmp(key, "../", 3)) {
        if (prefix == 0) return false;
        prefix = layout_parent_length(map->prefix, prefix);
        key += 3;
        length -= 3;
    }
    if (length >= 3 && !strncmp(key, "{b}", 3)) {
        put_numbers(map->blocks, strlen(map->blocks), block, chunk, path, sizeof path);
        key += 3;
        length -= 3;
    }
    put_numbers(key, length, block, chunk, name, sizeof name);
    snprintf(text, LAYOUT_MAX_KEY, "%.*s%s%s", (int)prefix, map->prefix, path, name);
    return true;
}

bool layout_is_stacked(const layout_map *map)
{
    return !strstr(map->blocks, "{i}") && !strstr(map->blocks, "{e}");
}

/* Which chunk a block is in is not told: chunks are tried from 0. None is above the block's own
 * number, since none is empty. */
const checkpoint_tensor_info *layout_find_key(const layout_map *map, const char *key, int block)
{
    const bool chunked = strstr(map->blocks, "{c}") && !strncmp(key, "{b}", 3);
    const checkpoint_tensor_info *info = NULL;
    char text[LAYOUT_MAX_KEY];
    int chunk = 0;
    do {
        if (!layout_key(map, key, block, chunk, text)) return NULL;
        info = checkpoint_find(map->checkpoint, text);
        if (info && info->count == 0) info = NULL;   /* a token that was left out */
    } while (!info && chunked && chunk++ < block);
    return info;
}

int layout_block_of(const layout_map *map, const char *path, const char *name)
{
    const size_t prefix = strlen(map->prefix);
    int block = 0;
    if (strncmp(name, map->prefix, prefix) != 0) return -1;
    for (name += prefix; *path; path++) {
        size_t digits;
        if (*path != '{') {
            if (*name++ != *path) return -1;
            continue;
        }
        digits = strspn(name, "0123456789");
        if (digits == 0) return -1;
        /* far above every limit, and atoi does not overflow */
        if (path[1] != 'c') block = digits < 5 ? atoi(name) : INT_MAX - 1;
        if (path[1] == 'e') block /= 2;
        name += digits;
        path += 2;
    }
    return block;
}

bool layout_holds(const layout_map *map, const char *condition, int block)
{
    if (!condition) return true;
    if (*condition == ':') return layout_has(map, condition + 1);
    if (*condition == '!') return !layout_find_key(map, condition + 1, block);
    return layout_find_key(map, condition, block) != NULL;
}

bool layout_all_hold(const layout_map *map, const char *const *when, int block)
{
    int i;
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++)
        if (!layout_holds(map, when[i], block)) return false;
    return true;
}

/* === Rules === */

static bool has_units(const char *key)
{
    return strstr(key, "{s}") || strstr(key, "{S}");
}

static bool has_blocks(const char *key)
{
    return !strncmp(key, "{b}", 3);
}

/* The block of a stem for which a key with {s} and {u}, or {S} and {U}, is this text; -1: none. */
static int find_unit(const char *key, const char *text)
{
    int stage = 0, unit = 0;
    for (; *key; key++) {
        const char letter = *key == '{' ? key[1] : '\0';
        const size_t digits = strspn(text, "0123456789");
        if (!letter && *key != *text++) return -1;
        if (!letter) continue;
        if (digits == 0 || digits > 3) return -1;
        *(strchr("sS", letter) ? &stage : &unit) = atoi(text) - (letter < 'a');   /* {S}: from 1 */
        key += 2;
        text += digits;
    }
    return *text || stage < 0 || unit < 0 || unit >= LAYOUT_STAGE_BLOCKS
               ? -1
               : stage * LAYOUT_STAGE_BLOCKS + unit;
}

/* Tensors are named as in vit.h's list: digits follow "blocks." and a dot follows them. */
bool layout_names(const char *rule_tensor, const char *tensor, int *block)
{
    static const char path[] = "blocks.";
    const size_t head = sizeof path - 1;
    size_t digits;
    *block = -1;
    if (!strchr(rule_tensor, '{')) return !strcmp(rule_tensor, tensor);
    if (!has_blocks(rule_tensor)) return (*block = find_unit(rule_tensor, tensor)) >= 0;
    if (strncmp(tensor, path, head) != 0) return false;
    digits = strspn(tensor + head, "0123456789");
    *block = atoi(tensor + head);
    return !strcmp(rule_tensor + 3, tensor + head + digits + 1);
}

bool layout_is_zeros(const char *part)
{
    return part[0] == '0' && !part[1];
}

int layout_part_count(const layout_rule *rule)
{
    int count = 0;
    while (count < LAYOUT_MAX_PARTS && rule->parts[count]) count++;
    return count;
}

/* A source as it is stored, or one block of it if blocks are stacked. */
static bool find_view(const layout_map *map, const char *part, int block, layout_part *out)
{
    out->info = layout_find_key(map, part, block);
    if (!out->info) return false;
    out->view = *out->info;
    return !has_blocks(part) || !layout_is_stacked(map) || layout_take_block(&out->view, block);
}

/* Query, key and value in one tensor, whose rows are in the order that was told. */
static const char *qkv_axes(const layout_map *map, const layout_rule *rule)
{
    static const char *const weight[] = { "(zhk)d>zhkd", "(hzk)d>zhkd", "(hkz)d>zhkd" };
    static const char *const bias[] = { "(zhk)>zhk", "(hzk)>zhk", "(hkz)>zhk" };
    const bool is_weight = !strcmp(rule->tensor, "{b}attn.qkv.weight");
    const bool is_told = map->qkv_interleave || (map->qkv_order && !rule->axes);
    if (!is_weight && strcmp(rule->tensor, "{b}attn.qkv.bias") != 0) return rule->axes;
    if (layout_part_count(rule) != 1 || !is_told) return rule->axes;
    return (is_weight ? weight : bias)[map->qkv_interleave ? map->qkv_interleave - 1 : 0];
}

/* A linear layer or a norm of the pixels of a patch: as written, or in the order that was told. */
static const char *patch_axes(const layout_map *map, const layout_rule *rule)
{
    enum {   /* as map->patch_order */
        CHW = 1 + PATCH_ORDER_CHW, HWC = 1 + PATCH_ORDER_HWC, CWH = 1 + PATCH_ORDER_CWH,
        WHC = 1 + PATCH_ORDER_WHC, COUNT_OF_ORDERS
    };
    static const char *const orders[][COUNT_OF_ORDERS] = {
        { "d(patch)>dcpq", [CHW] = "d(cpq)>dcpq", [HWC] = "d(pqc)>dcpq", [CWH] = "d(cqp)>dcpq",
          [WHC] = "d(qpc)>dcpq" },
        { "(patch)d>dcpq", [CHW] = "(cpq)d>dcpq", [HWC] = "(pqc)d>dcpq", [CWH] = "(cqp)d>dcpq",
          [WHC] = "(qpc)d>dcpq" },
        { "(patch)>cpq", [CHW] = "(cpq)>cpq", [HWC] = "(pqc)>cpq", [CWH] = "(cqp)>cpq",
          [WHC] = "(qpc)>cpq" }
    };
    size_t i;
    int order;
    for (i = 0; rule->axes && i < COUNT(orders); i++)
        for (order = 0; order < COUNT_OF_ORDERS; order++)
            if (!strcmp(rule->axes, orders[i][order]))
                return map->patch_order ? orders[i][map->patch_order] : rule->axes;
    return rule->axes;
}

const char *layout_rule_axes(const layout_map *map, const layout_rule *rule)
{
    return has_blocks(rule->tensor) ? qkv_axes(map, rule) : patch_axes(map, rule);
}

bool layout_applies(const layout_map *map, const layout_rule *rule, int block, bool *fits)
{
    const int count = layout_part_count(rule);
    const int shaped = rule->method == LAYOUT_LINEAR;   /* its weight is the second part */
    layout_part part;
    int i;
    *fits = true;
    if (!layout_all_hold(map, rule->when, block)) return false;
    for (i = 0; i < count; i++) {
        if (layout_is_zeros(rule->parts[i])) continue;
        if (!find_view(map, rule->parts[i], block, &part)) return false;
        if (i == shaped && rule->axes) *fits = layout_axes_ndim(rule->axes) == part.view.ndim;
    }
    return true;
}

/* Is this the tensor that a part of a rule names? Comparing the ends is enough to rule out most. */
static bool is_part(const layout_map *map, const char *part, const char *name, int block)
{
    const char *numbers = strrchr(part, '}'), *end = numbers ? numbers + 1 : part;
    const size_t length = strlen(name);
    const checkpoint_tensor_info *info;
    size_t size;
    while (!strncmp(end, "../", 3)) end += 3;
    size = key_length(end);
    if (has_units(part)) block = find_unit(part, layout_strip(map, name));
    else if (size > length || memcmp(name + length - size, end, size) != 0) return false;
    if (has_units(part) && block < 0) return false;
    info = layout_find_key(map, part, block);
    return info && info->name == name;
}

bool layout_is_known(const layout_map *map, const char *name)
{
    const layout_rule *rule;
    const int block = layout_block_of(map, map->blocks, name);
    int i;
    for (rule = map->layout->rules; rule->tensor; rule++)
        for (i = 0; i < layout_part_count(rule); i++)
            if (is_part(map, rule->parts[i], name, block)) return true;
    return false;
}

/* === Matches === */

/* The first rule that applies and whose axes fit; else the first that applies, whose shape will be
 * refused; else the first at all. */
static layout_match match_rule(const layout_map *map, const char *tensor, int block)
{
    layout_match match = { NULL, block, false };
    const layout_rule *rule;
    bool fits;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        if (strcmp(rule->tensor, tensor) != 0) continue;
        if (!match.rule) match.rule = rule;
        if (!layout_applies(map, rule, block, &fits)) continue;
        if (fits || !match.found) match.rule = rule;
        match.found = true;
        if (fits) break;
    }
    return match;
}

/* One more than the highest block of a stem; 0: none. */
static int count_units(const layout_map *map)
{
    const layout_rule *rule;
    size_t i;
    int count = 0;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        if (!has_units(rule->tensor)) continue;
        for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
            const char *name = checkpoint_tensor(map->checkpoint, i)->name;
            const int unit = find_unit(rule->parts[0], layout_strip(map, name));
            if (unit >= count && unit < LAYOUT_STAGES * LAYOUT_STAGE_BLOCKS) count = unit + 1;
        }
    }
    return count;
}

/* Lists the tensors that rules name, each once. Returns the number of all their matches. */
static size_t list_targets(layout_map *map)
{
    const int units = count_units(map);
    const layout_rule *rule;
    size_t total = 0;
    map->target_count = 0;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        layout_target *target = map->targets;
        layout_target *end = target + map->target_count;
        while (target < end && strcmp(target->tensor, rule->tensor) != 0) target++;
        if (target < end) continue;
        map->target_count++;
        target->tensor = rule->tensor;
        target->count = has_units(rule->tensor) ? units : has_blocks(rule->tensor) ? map->depth : 1;
        total += (size_t)target->count;
    }
    return total;
}

static size_t count_rules(const layout *l)
{
    size_t count = 0;
    while (l->rules[count].tensor) count++;
    return count;
}

bool layout_match_all(layout_map *map, report *r)
{
    layout_match *next;
    size_t total, i;
    int block;
    map->targets = calloc(count_rules(map->layout) + 1, sizeof *map->targets);
    if (!map->targets) return report_no_memory(r);
    total = list_targets(map);
    map->matches = malloc((total + 1) * sizeof *map->matches);
    if (!map->matches) return layout_free_map(map), report_no_memory(r);
    next = map->matches;
    for (i = 0; i < map->target_count; i++) {
        layout_target *target = &map->targets[i];
        const bool is_single = !has_units(target->tensor) && !has_blocks(target->tensor);
        target->matches = next;
        for (block = 0; block < target->count; block++)
            *next++ = match_rule(map, target->tensor, is_single ? -1 : block);
    }
    return true;
}

void layout_free_map(layout_map *map)
{
    free(map->matches);
    free(map->targets);
    map->matches = NULL;
    map->targets = NULL;
    map->target_count = 0;
}

/* Blocks above those that the checkpoint has are not found. */
layout_match layout_find(const layout_map *map, const char *tensor)
{
    layout_match match = { NULL, -1, false };
    size_t i;
    for (i = 0; i < map->target_count; i++) {
        const layout_target *target = &map->targets[i];
        if (!layout_names(target->tensor, tensor, &match.block)) continue;
        if (match.block < target->count) return target->matches[match.block < 0 ? 0 : match.block];
        match.rule = map->layout->rules;
        while (strcmp(match.rule->tensor, target->tensor) != 0) match.rule++;
        return match;
    }
    return match;
}

bool layout_has(const layout_map *map, const char *tensor)
{
    return layout_find(map, tensor).found;
}

bool layout_find_part(const layout_map *map, const layout_match *match, int i, layout_part *part)
{
    if (!match->found || i >= layout_part_count(match->rule)) return false;
    if (layout_is_zeros(match->rule->parts[i])) return false;
    return find_view(map, match->rule->parts[i], match->block, part);
}

bool layout_slice_part(const layout_map *map, const layout_match *match, int i, layout_part *part)
{
    const char *key = match->rule->parts[i];
    return layout_slice(&part->view, key + key_length(key), map->embed_dim);
}

bool layout_peek(const layout_map *map, const char *tensor, int i, layout_part *part,
                 const char **axes)
{
    const layout_match match = layout_find(map, tensor);
    if (!layout_find_part(map, &match, i, part)) return false;
    *axes = layout_rule_axes(map, match.rule);
    return layout_slice_part(map, &match, i, part);
}
