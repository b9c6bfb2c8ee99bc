#define _POSIX_C_SOURCE 200809L
#include "layout/rules.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "layout/views.h"

/* === Rules === */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === Keys === */

size_t layout_common_path(const checkpoint *c) {
    const checkpoint_tensor_info *tensor = checkpoint_tensor(c, 0);
    const char *first = tensor ? tensor->name : "", *dot = strrchr(first, '.');
    size_t length = dot ? (size_t)(dot - first) + 1 : 0, i;
    for (i = 1; i < checkpoint_count(c); i++)
        while (length > 0 && strncmp(checkpoint_tensor(c, i)->name, first, length) != 0)
            for (length--; length > 0 && first[length - 1] != '.'; length--) continue;
    return length;
}

size_t layout_parent_length(const char *prefix, size_t length) {
    if (length > 0) length--;
    while (length > 0 && prefix[length - 1] != '.' && prefix[length - 1] != '/') length--;
    return length;
}

const char *layout_strip(const layout_map *map, const char *name) {
    const size_t length = strlen(map->prefix);
    return strncmp(name, map->prefix, length) ? name : name + length;
}

/* In a stem, the number of a block has two parts: the number of its stage, and the place of the
 * block in that stage. */
static int stage_of(int block) { return block / LAYOUT_STAGE_BLOCKS; }
static int unit_of(int block) { return block % LAYOUT_STAGE_BLOCKS; }

/* Returns the number that {letter} stands for in a key; -1 if the letter stands for none. */
static int number_of(char letter, int block, int chunk) {
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

/* Copies a path or a key, with numbers in place of its letters in braces. Stops if a number might
 * not fit into `text`. */
static void put_numbers(const char *from, size_t length, int block, int chunk, char *text,
                        size_t size) {
    enum { DIGITS = 12 }; /* the most characters of an int, and the NUL */
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

/* Returns the length of a part's key without its slice. */
static size_t key_length(const char *part) { return strcspn(part, "#@"); }

bool layout_key(const layout_map *map, const char *key, int block, int chunk,
                char text[LAYOUT_MAX_KEY]) {
    char path[128] = "", name[256]; /* `name` fits into LAYOUT_MAX_KEY together with the prefix */
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

bool layout_is_stacked(const layout_map *map) {
    return !strstr(map->blocks, "{i}") && !strstr(map->blocks, "{e}");
}

/* If the path of a block has a chunk {c}, its number is unknown, so all numbers from 0 on are
 * tried. No chunk is empty, so the number of a chunk is at most the number of the block. */
const checkpoint_tensor_info *layout_find_key(const layout_map *map, const char *key, int block) {
    const bool chunked = strstr(map->blocks, "{c}") && !strncmp(key, "{b}", 3);
    const checkpoint_tensor_info *info = NULL;
    char text[LAYOUT_MAX_KEY];
    int chunk = 0;
    do {
        if (!layout_key(map, key, block, chunk, text)) return NULL;
        info = checkpoint_find(map->checkpoint, text);
        /* an empty tensor stands for a token that the model lacks */
        if (info && info->count == 0) info = NULL;
    } while (!info && chunked && chunk++ < block);
    return info;
}

int layout_block_of(const layout_map *map, const char *path, const char *name) {
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
        /* a number of five or more digits is above every limit, and atoi could overflow on it */
        if (path[1] != 'c') block = digits < 5 ? atoi(name) : INT_MAX - 1;
        if (path[1] == 'e') block /= 2;
        name += digits;
        path += 2;
    }
    return block;
}

bool layout_holds(const layout_map *map, const char *condition, int block) {
    if (!condition) return true;
    if (*condition == ':') return layout_has(map, condition + 1);
    if (*condition == '!') return !layout_find_key(map, condition + 1, block);
    return layout_find_key(map, condition, block) != NULL;
}

bool layout_all_hold(const layout_map *map, const char *const *when, int block) {
    int i;
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++)
        if (!layout_holds(map, when[i], block)) return false;
    return true;
}

/* === Rules === */

static bool has_units(const char *key) { return strstr(key, "{s}") || strstr(key, "{S}"); }

static bool has_blocks(const char *key) { return !strncmp(key, "{b}", 3); }

/* Returns the number of the block of a stem for which the key is equal to this text. The numbers of
 * the text stand at {s} and {u}, or at {S} and {U}. Returns -1 if the key does not fit. */
static int find_unit(const char *key, const char *text) {
    int stage = 0, unit = 0;
    for (; *key; key++) {
        const char letter = *key == '{' ? key[1] : '\0';
        const size_t digits = strspn(text, "0123456789");
        if (!letter && *key != *text++) return -1;
        if (!letter) continue;
        if (digits == 0 || digits > 3) return -1;
        /* {S} and {U} count from 1 */
        *(strchr("sS", letter) ? &stage : &unit) = atoi(text) - (letter < 'a');
        key += 2;
        text += digits;
    }
    return *text || stage < 0 || unit < 0 || unit >= LAYOUT_STAGE_BLOCKS
               ? -1
               : stage * LAYOUT_STAGE_BLOCKS + unit;
}

/* `tensor` is a name of vit.h's list, in which a number and a dot always follow "blocks.". */
bool layout_names(const char *rule_tensor, const char *tensor, int *block) {
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

bool layout_is_zeros(const char *part) { return part[0] == '0' && !part[1]; }

int layout_part_count(const layout_rule *rule) {
    int count = 0;
    while (count < LAYOUT_MAX_PARTS && rule->parts[count]) count++;
    return count;
}

/* Finds the source of a part as it is stored. If the source holds all blocks, takes the view of
 * this block. */
static bool find_view(const layout_map *map, const char *part, int block, layout_part *out) {
    out->info = layout_find_key(map, part, block);
    if (!out->info) return false;
    out->view = *out->info;
    return !has_blocks(part) || !layout_is_stacked(map) || layout_take_block(&out->view, block);
}

/* Returns the axes of a tensor that holds query, key and value, for the row order in the map's
 * settings. */
static const char *qkv_axes(const layout_map *map, const layout_rule *rule) {
    static const char *const weight[] = { "(zhk)d>zhkd", "(hzk)d>zhkd", "(hkz)d>zhkd" };
    static const char *const bias[] = { "(zhk)>zhk", "(hzk)>zhk", "(hkz)>zhk" };
    const bool is_weight = !strcmp(rule->tensor, "{b}attn.qkv.weight");
    const bool is_told = map->qkv_interleave || (map->qkv_order && !rule->axes);
    if (!is_weight && strcmp(rule->tensor, "{b}attn.qkv.bias") != 0) return rule->axes;
    if (layout_part_count(rule) != 1 || !is_told) return rule->axes;
    return (is_weight ? weight : bias)[map->qkv_interleave ? map->qkv_interleave - 1 : 0];
}

/* Returns the axes of a linear layer or a norm over the pixels of a patch. If a setting gives the
 * order of the pixels, the axes have this order. Otherwise they are the axes of the rule. */
static const char *patch_axes(const layout_map *map, const layout_rule *rule) {
    enum { /* the values of map->patch_order */
           CHW = 1 + PATCH_ORDER_CHW,
           HWC = 1 + PATCH_ORDER_HWC,
           CWH = 1 + PATCH_ORDER_CWH,
           WHC = 1 + PATCH_ORDER_WHC,
           COUNT_OF_ORDERS,
    };
    static const char *const orders[][COUNT_OF_ORDERS] = {
        { "d(patch)>dcpq", [CHW] = "d(cpq)>dcpq", [HWC] = "d(pqc)>dcpq", [CWH] = "d(cqp)>dcpq",
          [WHC] = "d(qpc)>dcpq" },
        { "(patch)d>dcpq", [CHW] = "(cpq)d>dcpq", [HWC] = "(pqc)d>dcpq", [CWH] = "(cqp)d>dcpq",
          [WHC] = "(qpc)d>dcpq" },
        { "(patch)>cpq", [CHW] = "(cpq)>cpq", [HWC] = "(pqc)>cpq", [CWH] = "(cqp)>cpq",
          [WHC] = "(qpc)>cpq" },
    };
    size_t i;
    int order;
    for (i = 0; rule->axes && i < COUNT(orders); i++)
        for (order = 0; order < COUNT_OF_ORDERS; order++)
            if (!strcmp(rule->axes, orders[i][order]))
                return map->patch_order ? orders[i][map->patch_order] : rule->axes;
    return rule->axes;
}

const char *layout_rule_axes(const layout_map *map, const layout_rule *rule) {
    return has_blocks(rule->tensor) ? qkv_axes(map, rule) : patch_axes(map, rule);
}

bool layout_applies(const layout_map *map, const layout_rule *rule, int block, bool *fits) {
    const int count = layout_part_count(rule);
    /* index of the part that has the axes: the weight of LAYOUT_LINEAR is its second part */
    const int shaped = rule->method == LAYOUT_LINEAR;
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

/* True if this part of a rule, in this block, is the tensor with this name. The last letters are
 * compared first, because most keys differ there. */
static bool is_part(const layout_map *map, const char *part, const char *name, int block) {
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

bool layout_is_known(const layout_map *map, const char *name) {
    const layout_rule *rule;
    const int block = layout_block_of(map, map->blocks, name);
    int i;
    for (rule = map->layout->rules; rule->tensor; rule++)
        for (i = 0; i < layout_part_count(rule); i++)
            if (is_part(map, rule->parts[i], name, block)) return true;
    return false;
}

/* === Matches === */

/* Returns the first rule for the tensor that applies and whose axes fit. If no axes fit, returns
 * the first rule that applies; its shape is refused later. If no rule applies, returns the first
 * rule for the tensor. */
static layout_match match_rule(const layout_map *map, const char *tensor, int block) {
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

/* Returns the number of the stem's highest block plus one; 0 if there are no such blocks. */
static int count_units(const layout_map *map) {
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

/* Lists the tensors that the rules make, each only once. Returns the total number of matches that
 * these tensors need. */
static size_t list_targets(layout_map *map) {
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

static size_t count_rules(const layout *l) {
    size_t count = 0;
    while (l->rules[count].tensor) count++;
    return count;
}

bool layout_match_all(layout_map *map, report *r) {
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

void layout_free_map(layout_map *map) {
    free(map->matches);
    free(map->targets);
    map->matches = NULL;
    map->targets = NULL;
    map->target_count = 0;
}

/* If the block's number is not below the depth, nothing is found. */
layout_match layout_find(const layout_map *map, const char *tensor) {
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

bool layout_has(const layout_map *map, const char *tensor) {
    return layout_find(map, tensor).found;
}

bool layout_find_part(const layout_map *map, const layout_match *match, int i, layout_part *part) {
    if (!match->found || i >= layout_part_count(match->rule)) return false;
    if (layout_is_zeros(match->rule->parts[i])) return false;
    return find_view(map, match->rule->parts[i], match->block, part);
}

bool layout_slice_part(const layout_map *map, const layout_match *match, int i, layout_part *part) {
    const char *key = match->rule->parts[i];
    return layout_slice(&part->view, key + key_length(key), map->embed_dim);
}

bool layout_peek(const layout_map *map, const char *tensor, int i, layout_part *part,
                 const char **axes) {
    const layout_match match = layout_find(map, tensor);
    if (!layout_find_part(map, &match, i, part)) return false;
    *axes = layout_rule_axes(map, match.rule);
    return layout_slice_part(map, &match, i, part);
}

/* === Groups === */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Returns the length of a number that stands alone, as in "blocks.3." and "layer_3."; otherwise 0,
 * as in "fc3". Numbers of more than six digits do not count. */
static size_t number_at(const char *name, size_t at) {
    size_t length = 0;
    if (at > 0 && !strchr("._/", name[at - 1])) return 0;
    while (is_digit(name[at + length])) length++;
    return length <= 6 && (!name[at + length] || strchr("._/", name[at + length])) ? length : 0;
}

/* True if the two names differ only in their numbers. `numbers` receives the numbers of `name`. */
static bool is_alike(const char *a, const char *name, long numbers[GROUP_NUMBERS]) {
    size_t i = 0, j = 0;
    int count = 0;
    while (a[i] && name[j]) {
        const size_t left = number_at(a, i), right = number_at(name, j);
        if (left > 0 && right > 0 && count < GROUP_NUMBERS) {
            numbers[count++] = strtol(name + j, NULL, 10);
            i += left;
            j += right;
        } else if (a[i++] != name[j++]) {
            return false;
        }
    }
    return !a[i] && !name[j];
}

static void widen(name_group *group, const long numbers[GROUP_NUMBERS]) {
    int i;
    for (i = 0; i < GROUP_NUMBERS; i++) {
        if (group->count == 0 || numbers[i] < group->first[i]) group->first[i] = numbers[i];
        if (group->count == 0 || numbers[i] > group->last[i]) group->last[i] = numbers[i];
    }
    group->count++;
}

static bool start(name_group *group, const char *name, const char *note) {
    const size_t size = strlen(name) + 1, note_size = strlen(note) + 1;
    group->name = malloc(size);
    group->note = malloc(note_size);
    if (group->name) memcpy(group->name, name, size);
    if (group->note) memcpy(group->note, note, note_size);
    return group->name && group->note;
}

bool groups_add(name_groups *groups, const char *name, const char *note) {
    long numbers[GROUP_NUMBERS] = { 0 };
    size_t i;
    for (i = 0; i < groups->count; i++)
        if (!strcmp(groups->items[i].note, note) &&
            is_alike(groups->items[i].name, name, numbers)) {
            widen(&groups->items[i], numbers);
            return true;
        }
    if (groups->count == GROUPS_MAX) {
        groups->more++;
        return true;
    }
    (void)is_alike(name, name, numbers);
    widen(&groups->items[groups->count++], numbers);
    return start(&groups->items[groups->count - 1], name, note);
}

void groups_free(name_groups *groups) {
    size_t i;
    for (i = 0; i < groups->count; i++) {
        free(groups->items[i].name);
        free(groups->items[i].note);
    }
    memset(groups, 0, sizeof *groups);
}

const char *group_text(const name_group *group, char text[GROUP_TEXT_SIZE]) {
    const char *name = group->name;
    size_t i = 0, used = 0;
    int count = 0;
    text[0] = '\0';
    while (name[i] && used + 64 < GROUP_TEXT_SIZE) {
        const size_t length = number_at(name, i);
        const bool varies = length > 0 && count < GROUP_NUMBERS &&
                            group->first[count] < group->last[count];
        if (varies)
            used += (size_t)snprintf(text + used, GROUP_TEXT_SIZE - used, "{%ld..%ld}",
                                     group->first[count], group->last[count]);
        else
            used += (size_t)snprintf(text + used, GROUP_TEXT_SIZE - used, "%.*s",
                                     length > 0 ? (int)length : 1, name + i);
        i += length > 0 ? length : 1;
        count += length > 0 && count < GROUP_NUMBERS;
    }
    return text;
}

/* === Missing === */

/* Returns the number of the chunk that holds a block, if blocks have two numbers. Another tensor of
 * the block shows this number. */
static int chunk_of(const layout_map *map, int block) {
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
                              char text[LAYOUT_MAX_KEY]) {
    const char *key = rule->parts[part];
    if (layout_is_zeros(key) || layout_find_key(map, key, block)) return NULL;
    return layout_key(map, key, block, chunk_of(map, block), text) ? text : NULL;
}

const char *names_absent_key(const layout_map *map, const layout_rule *rule, int block,
                             char text[LAYOUT_MAX_KEY]) {
    int i;
    for (i = 0; i < layout_part_count(rule); i++)
        if (names_absent_part(map, rule, i, block, text)) return text;
    return NULL;
}

/* True if the checkpoint has another tensor of the module that the key belongs to. */
static bool has_sibling(const layout_map *map, const char *key) {
    const size_t length = layout_parent_length(key, strlen(key));
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint) && length > 0; i++)
        if (!strncmp(checkpoint_tensor(map->checkpoint, i)->name, key, length)) return true;
    return false;
}

int names_parts_present(const layout_map *map, const layout_rule *rule, int block) {
    int i, present = 0;
    for (i = 0; i < layout_part_count(rule); i++)
        present += !layout_is_zeros(rule->parts[i]) && layout_find_key(map, rule->parts[i], block);
    return present;
}

bool names_is_required(const layout_rule *rule) {
    return rule->when[0] && !strcmp(rule->when[0], LAYOUT_REQUIRED);
}

const layout_rule *names_meant_rule(const layout_map *map, const char *tensor) {
    const layout_rule *rule, *best = NULL;
    char key[LAYOUT_MAX_KEY];
    int block, most = -1;
    bool fits;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        int score;
        if (!layout_names(rule->tensor, tensor, &block)) continue;
        if (!layout_all_hold(map, rule->when, block)) continue;
        /* parts that exist count most, then the same rule in a neighbouring block, then other
         * tensors of the module */
        score = 4 * names_parts_present(map, rule, block) + names_is_required(rule);
        if (block >= 0) score += 2 * layout_applies(map, rule, block ? block - 1 : 1, &fits);
        if (names_absent_key(map, rule, block, key)) score += has_sibling(map, key);
        /* if two rules have the same score, the first one is kept, as match_rule does */
        if (score > most) best = rule;
        if (score > most) most = score;
    }
    return best;
}

const char *names_meant_key(const layout_map *map, const char *tensor, char text[LAYOUT_MAX_KEY]) {
    const layout_rule *rule = names_meant_rule(map, tensor);
    int block;
    if (rule && layout_names(rule->tensor, tensor, &block) &&
        names_absent_key(map, rule, block, text))
        return text;
    return tensor;
}

/* === Unknown === */

bool names_match(const text_list *patterns, const char *name) {
    int i;
    for (i = 0; i < patterns->count; i++)
        if (text_matches(patterns->items[i], name)) return true;
    return false;
}

bool names_is_ignored(const layout_map *map, const text_list *ignore, const char *name) {
    return names_match(ignore, name) || names_match(ignore, layout_strip(map, name));
}

/* True if the pattern matches the name without the prefix. A pattern that begins with "../" matches
 * only names outside the prefix. */
static bool matches_extra(const layout_map *map, const char *pattern, const char *name) {
    const bool inside = !strncmp(name, map->prefix, strlen(map->prefix));
    const size_t parent = layout_parent_length(map->prefix, strlen(map->prefix));
    const char *above = strncmp(name, map->prefix, parent) ? name : name + parent;
    if (strncmp(pattern, "../", 3)) return text_matches(pattern, layout_strip(map, name));
    return (!inside || !*map->prefix) && text_matches(pattern + 3, above);
}

const layout_extra *names_find_extra(const layout_map *map, const layout_extra *extras,
                                     const char *name) {
    for (; extras && extras->pattern; extras++)
        if (matches_extra(map, extras->pattern, name)) return extras;
    return NULL;
}

/* True if the checkpoint has this key. If the map has no prefix, "../" stands for the top level. */
static bool has_beside(const layout_map *map, const char *key) {
    if (!*map->prefix && !strncmp(key, "../", 3)) key += 3;
    return layout_find_key(map, key, 0) != NULL;
}

const char *names_why_harmless(const layout_map *map, const char *name) {
    const layout_extra *extra = names_find_extra(map, map->layout->harmless, name);
    const layout_company *company = map->layout->company;
    if (extra) return extra->meaning;
    for (; company && company->pattern; company++)
        if (matches_extra(map, company->pattern, name) && has_beside(map, company->beside))
            return company->meaning;
    return NULL;
}

/* True if the tensor could be a renamed part of the model, or a factor that the model applies. A
 * tensor of several values is unlikely to be either if its name has no number and no usual word,
 * and none of its dimensions is the width of a token. */
static bool may_matter(const layout_map *map, const checkpoint_tensor_info *info) {
    static const char *const words[] = {
        "attn",  "att.",  "mlp",   "norm",   "ln",   "head",  "fc",    "class", "cls",
        "token", "pos",   "emb",   "patch",  "proj", "qkv",   "query", "key",   "value",
        "block", "layer", "conv",  "linear", "freq", "theta", "rope",  "rot",   "bias",
        "scale", "temp",  "gamma", "alpha",  "mask", "slope",
    };
    const char *name = layout_strip(map, info->name);
    size_t i;
    int d;
    if (info->count == 1 && checkpoint_is_float(info->dtype)) return true;
    for (i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i])) return true;
    for (d = 0; d < info->ndim; d++)
        if (info->dims[d] == map->embed_dim) return true;
    for (i = 0; name[i]; i++)
        if (name[i] == '.' && name[i + 1] >= '0' && name[i + 1] <= '9') return true;
    return map->embed_dim == 0;
}

bool names_add_unknown(const layout_map *map, const checkpoint_tensor_info *info,
                       name_groups *unknown) {
    char shape[SHAPE_TEXT_SIZE], note[SHAPE_TEXT_SIZE + 40];
    shape_text(info->dims, info->ndim, shape, sizeof shape);
    snprintf(note, sizeof note, "%s%s", shape,
             may_matter(map, info) ? "" : " (--ignore PATTERN drops it)");
    return groups_add(unknown, info->name, note);
}

bool names_put_unknown(const name_groups *unknown, findings *f) {
    static const char advice[] = "--rename THEIRS=OURS names an unknown tensor";
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
                       const checkpoint_tensor_info *info) {
    return !layout_is_known(map, info->name) && !names_is_ignored(map, ignore, info->name) &&
           info->count > 0 && !names_why_harmless(map, info->name);
}

bool names_find_unknown(const layout_map *map, const text_list *ignore, name_groups *unknown) {
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        if (is_unknown(map, ignore, info) && !names_add_unknown(map, info, unknown)) return false;
    }
    return true;
}

bool names_has_unknown(const layout_map *map, const text_list *ignore) {
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++)
        if (is_unknown(map, ignore, checkpoint_tensor(map->checkpoint, i))) return true;
    return false;
}
