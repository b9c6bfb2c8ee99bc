/* layout.c - which layout is it, which keys make up which tensor, and is nothing left over. The
 * layouts themselves are tables in tables/; the values are values.c's business.
 */
#define _POSIX_C_SOURCE 200809L

#include "layout/layout.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/views.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { LAYOUT_MAX_KEY = 1200, LAYOUT_MAX_LISTED = 10, LAYOUT_MAX_DEPTH = 1024 };

/* === Text === */

const char *layout_shape(const int64_t *dims, int ndim, char *text, size_t size)
{
    size_t used = 0;
    int i;
    text[0] = '\0';
    for (i = 0; i < ndim && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "[",
                                 (long long)dims[i]);
    if (used < size) snprintf(text + used, size - used, ndim ? "]" : "[]");
    return text;
}

static const char *info_shape(const checkpoint_tensor_info *info, char *text, size_t size)
{
    return layout_shape(info->dims, info->ndim, text, size);
}

const char *layout_item_name(const layout_item *item)
{
    int i;
    for (i = 0; i < item->part_count; i++)
        if (item->parts[i].info) return item->parts[i].info->name;
    return item->tensor.name;
}

/* === Keys === */

/* Length of a prefix without its last component: of "module.vit." that of "module.". */
static size_t parent_length(const char *prefix, size_t length)
{
    if (length > 0) length--;
    while (length > 0 && prefix[length - 1] != '.' && prefix[length - 1] != '/') length--;
    return length;
}

/* A block of a stem's stage has one number too. */
enum { LAYOUT_STAGE_BLOCKS = 100, LAYOUT_STAGES = 4 };

/* What stands for {letter}; -1 if nothing does. */
static int number_of(char letter, int block, int chunk)
{
    switch (letter) {
    case 'i': return block;
    case 'c': return chunk;
    case 's': return block / LAYOUT_STAGE_BLOCKS;
    case 'S': return block / LAYOUT_STAGE_BLOCKS + 1;
    case 'u': return block % LAYOUT_STAGE_BLOCKS;
    case 'U': return block % LAYOUT_STAGE_BLOCKS + 1;
    default: return -1;
    }
}

/* A path or a key with its numbers in place. */
static void put_numbers(const char *from, size_t length, int block, int chunk, char *text,
                        size_t size)
{
    const char *end = from + length;
    size_t used = 0;
    for (; from < end && used + 12 < size; from++) {
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

/* A key of a table as it stands in the checkpoint; false above the top. */
static bool make_key(const layout_map *map, const char *key, size_t length, int block, int chunk,
                     char *text, size_t size)
{
    char path[128] = "", name[256];
    size_t prefix = strlen(map->prefix);
    while (length >= 3 && !strncmp(key, "../", 3)) {
        if (prefix == 0) return false;
        prefix = parent_length(map->prefix, prefix);
        key += 3;
        length -= 3;
    }
    if (length >= 3 && !strncmp(key, "{b}", 3)) {
        put_numbers(map->blocks, strlen(map->blocks), block, chunk, path, sizeof path);
        key += 3;
        length -= 3;
    }
    put_numbers(key, length, block, chunk, name, sizeof name);
    snprintf(text, size, "%.*s%s%s", (int)prefix, map->prefix, path, name);
    return true;
}

static bool is_stacked(const layout_map *map)
{
    return !strstr(map->blocks, "{i}");
}

/* A part of a rule without its slice. */
static const checkpoint_tensor_info *find_key(const layout_map *map, const char *key, int block)
{
    const size_t length = strcspn(key, "#@");
    const bool chunked = strstr(map->blocks, "{c}") && !strncmp(key, "{b}", 3);
    const checkpoint_tensor_info *info = NULL;
    char text[LAYOUT_MAX_KEY];
    int chunk = 0;
    do {
        if (!make_key(map, key, length, block, chunk, text, sizeof text)) return NULL;
        info = checkpoint_find(map->checkpoint, text);
        if (info && info->count == 0) info = NULL;   /* a token that was left out */
    } while (!info && chunked && chunk++ < block);
    return info;
}

static bool has(const layout_map *map, const char *tensor);

static bool holds(const layout_map *map, const char *condition, int block)
{
    if (!condition) return true;
    if (*condition == ':') return has(map, condition + 1);
    if (*condition == '!') return !find_key(map, condition + 1, block);
    return find_key(map, condition, block) != NULL;
}

static bool all_hold(const layout_map *map, const char *const *when, int block)
{
    int i;
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++)
        if (!holds(map, when[i], block)) return false;
    return true;
}

/* === Rules === */

/* The number for which a pattern with stage and block, counted from 0 or 1, is this text; -1 if for
 * none. */
static int unit_of(const char *pattern, const char *text)
{
    int stage = 0, block = 0;
    for (; *pattern; pattern++) {
        const char letter = *pattern == '{' ? pattern[1] : '\0';
        const size_t digits = strspn(text, "0123456789");
        if (!letter && *pattern != *text++) return -1;
        if (!letter) continue;
        if (digits == 0 || digits > 3) return -1;
        *(strchr("sS", letter) ? &stage : &block) = atoi(text) - (letter < 'a');
        pattern += 2;
        text += digits;
    }
    return *text || stage < 0 || block < 0 || block >= LAYOUT_STAGE_BLOCKS
               ? -1
               : stage * LAYOUT_STAGE_BLOCKS + block;
}

static bool is_of_unit(const char *key)
{
    return strstr(key, "{s}") || strstr(key, "{S}");
}

/* Is this the rule's tensor? *block receives the number behind "blocks.", or -1. */
static bool names_tensor(const layout_rule *rule, const char *tensor, int *block)
{
    static const char path[] = "blocks.";
    const size_t head = sizeof path - 1;
    size_t digits;
    *block = -1;
    if (is_of_unit(rule->tensor)) return (*block = unit_of(rule->tensor, tensor)) >= 0;
    if (strncmp(rule->tensor, "{b}", 3) != 0) return !strcmp(rule->tensor, tensor);
    if (strncmp(tensor, path, head) != 0) return false;
    digits = strspn(tensor + head, "0123456789");
    *block = atoi(tensor + head);
    return !strcmp(rule->tensor + 3, tensor + head + digits + 1);
}

static bool is_zero_part(const char *part)
{
    return part[0] == '0' && !part[1];
}

static int count_parts(const layout_rule *rule)
{
    int count = 0;
    while (count < LAYOUT_MAX_PARTS && rule->parts[count]) count++;
    return count;
}

/* The source as it lies, but for blocks that are stacked. */
static bool raw_view(const layout_map *map, const char *part, int block, layout_part *out)
{
    out->info = find_key(map, part, block);
    if (!out->info) return false;
    out->view = *out->info;
    return strncmp(part, "{b}", 3) || !is_stacked(map) || layout_take_block(&out->view, block);
}

/* A linear layer over the numbers of a patch: as written, or in the order that was told. */
static const char *form_of(const layout_map *map, const layout_rule *rule)
{
    static const char *const forms[][3] = {   /* order open, chw, hwc */
        { "d(patch)>dcpq", "d(cpq)>dcpq", "d(pqc)>dcpq" },
        { "(patch)d>dcpq", "(cpq)d>dcpq", "(pqc)d>dcpq" }
    };
    size_t i;
    int order;
    for (i = 0; rule->form && i < COUNT(forms); i++)
        for (order = 0; order < 3; order++)
            if (!strcmp(rule->form, forms[i][order]))
                return map->patch_order ? forms[i][map->patch_order] : rule->form;
    return rule->form;
}

static bool form_fits(const layout_rule *rule, const layout_part *part)
{
    return !rule->form || layout_form_ndim(rule->form) == part->view.ndim;
}

static bool applies(const layout_map *map, const layout_rule *rule, int block, bool *form_good)
{
    const int count = count_parts(rule);
    layout_part part;
    int i;
    *form_good = true;
    if (!all_hold(map, rule->when, block)) return false;
    for (i = 0; i < count; i++) {
        if (is_zero_part(rule->parts[i])) continue;
        if (!raw_view(map, rule->parts[i], block, &part)) return false;
        if (i == (rule->method == LAYOUT_LINEAR)) *form_good = form_fits(rule, &part);
    }
    return true;
}

/* The rule for a tensor of the file. *found: its sources are there; without that it is the first
 * that might have been meant, or NULL if the layout has no such tensor. */
static const layout_rule *find_rule(const layout_map *map, const char *tensor, int *block,
                                    bool *found)
{
    const layout_rule *rule, *near = NULL, *misshapen = NULL;
    bool form_good;
    int number;
    *block = -1;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        if (!names_tensor(rule, tensor, &number)) continue;
        *block = number;
        if (!near) near = rule;
        if (!applies(map, rule, number, &form_good)) continue;
        if (form_good) return *found = true, rule;
        if (!misshapen) misshapen = rule;
    }
    *found = misshapen != NULL;
    return misshapen ? misshapen : near;
}

static bool has(const layout_map *map, const char *tensor)
{
    bool found;
    int block;
    return find_rule(map, tensor, &block, &found) && found;
}

/* === What is not there === */

/* The chunk that a block stands in, where blocks have two numbers. */
static int chunk_of(const layout_map *map, int block)
{
    char key[LAYOUT_MAX_KEY];
    size_t i;
    int chunk;
    for (chunk = block; chunk > 0; chunk--) {
        (void)make_key(map, "{b}", 3, block, chunk, key, sizeof key);
        for (i = 0; i < checkpoint_count(map->checkpoint); i++)
            if (!strncmp(checkpoint_tensor(map->checkpoint, i)->name, key, strlen(key)))
                return chunk;
    }
    return 0;
}

/* A key that is not there, or NULL if all of the rule's are. */
static const char *absent_key(const layout_map *map, const layout_rule *rule, int block,
                              char text[LAYOUT_MAX_KEY])
{
    int i;
    for (i = 0; i < count_parts(rule); i++)
        if (!is_zero_part(rule->parts[i]) && !find_key(map, rule->parts[i], block) &&
            make_key(map, rule->parts[i], strcspn(rule->parts[i], "#@"), block,
                     chunk_of(map, block), text, LAYOUT_MAX_KEY))
            return text;
    return NULL;
}

/* Does the module that a key is of have another tensor? */
static bool has_sibling(const layout_map *map, const char *key)
{
    const size_t length = parent_length(key, strlen(key));
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint) && length > 0; i++)
        if (!strncmp(checkpoint_tensor(map->checkpoint, i)->name, key, length)) return true;
    return false;
}

static int parts_there(const layout_map *map, const layout_rule *rule, int block)
{
    int i, there = 0;
    for (i = 0; i < count_parts(rule); i++)
        there += !is_zero_part(rule->parts[i]) && find_key(map, rule->parts[i], block);
    return there;
}

static bool is_required(const layout_rule *rule)
{
    return rule->when[0] && !strcmp(rule->when[0], LAYOUT_REQUIRED);
}

/* Of the rules for a tensor that is not there, the one that seems to be meant: parts of it are
 * there, another block has it, or its module has another tensor. */
static const layout_rule *meant_rule(const layout_map *map, const char *tensor)
{
    const layout_rule *rule, *best = NULL;
    char key[LAYOUT_MAX_KEY];
    int block, most = -1;
    bool good;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        int score;
        if (!names_tensor(rule, tensor, &block) || !all_hold(map, rule->when, block)) continue;
        score = 4 * parts_there(map, rule, block) + is_required(rule);
        if (block >= 0) score += 2 * applies(map, rule, block ? block - 1 : 1, &good);
        if (absent_key(map, rule, block, key)) score += has_sibling(map, key);
        if (score > most) best = rule;
        if (score > most) most = score;
    }
    return best;
}

/* The key that a tensor which is not there should come from. */
static const char *meant_key(const layout_map *map, const char *tensor, char text[LAYOUT_MAX_KEY])
{
    const layout_rule *rule = meant_rule(map, tensor);
    int block;
    if (rule && names_tensor(rule, tensor, &block) && absent_key(map, rule, block, text))
        return text;
    return tensor;
}

/* === Detection === */

/* How much of the text is this prefix; 0: it begins otherwise. */
static size_t prefix_length(const char *prefix, const char *text, size_t size)
{
    const size_t length = strlen(prefix);
    const char *dot = memchr(text, '.', size);
    if (!strcmp(prefix, "*.")) return dot ? (size_t)(dot - text) + 1 : 0;
    return length <= size && !memcmp(text, prefix, length) ? length : 0;
}

/* True if text is made of prefixes alone. */
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

/* Is this name the probe behind a prefix, and do the layout's conditions hold there? */
static bool is_probe(const layout *l, checkpoint *c, const char *name, layout_map *candidate)
{
    const size_t length = strlen(name), probe = strlen(l->probe);
    if (length < probe || strcmp(name + length - probe, l->probe) != 0) return false;
    if (length - probe >= sizeof candidate->prefix || !is_prefix(l, name, length - probe))
        return false;
    memset(candidate, 0, sizeof *candidate);
    candidate->layout = l;
    candidate->checkpoint = c;
    candidate->blocks = l->blocks[0];
    memcpy(candidate->prefix, name, length - probe);
    return all_hold(candidate, l->when, 0);
}

/* Number of models in the checkpoint that have this layout; *map is the first, or the one
 * without a prefix, which beats every wrapped one. */
static int probe(const layout *l, checkpoint *c, layout_map *map, layout_map *second)
{
    layout_map candidate;
    size_t i;
    int found = 0;
    for (i = 0; i < checkpoint_count(c); i++) {
        if (!is_probe(l, c, checkpoint_tensor(c, i)->name, &candidate)) continue;
        if (candidate.prefix[0] == '\0') {
            *map = candidate;
            return 1;
        }
        *(found ? second : map) = candidate;
        found++;
    }
    return found;
}

/* The number of the block that a name belongs to, -1 if to none. */
static int block_of(const layout_map *map, const char *path, const char *name)
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
        if (path[1] == 'i') block = digits < 5 ? atoi(name) : INT_MAX - 1;
        name += digits;
        path += 2;
    }
    return block;
}

/* The first path that some tensor has. */
static void find_blocks(layout_map *map)
{
    const char *const *path;
    size_t i;
    for (path = map->layout->blocks; *path; path++)
        for (i = 0; i < checkpoint_count(map->checkpoint); i++)
            if (block_of(map, *path, checkpoint_tensor(map->checkpoint, i)->name) >= 0) {
                map->blocks = *path;
                return;
            }
}

/* === Features === */

static bool matches_any(const text_list *patterns, const char *name)
{
    int i;
    for (i = 0; i < patterns->count; i++)
        if (!fnmatch(patterns->items[i], name, 0)) return true;
    return false;
}

/* The key without the prefix; the whole name where the prefix is not there. */
static const char *strip(const layout_map *map, const char *name)
{
    size_t length = strlen(map->prefix);
    return strncmp(name, map->prefix, length) ? name : name + length;
}

static bool is_ignored(const layout_map *map, const text_list *ignore, const char *name)
{
    return matches_any(ignore, name) || matches_any(ignore, strip(map, name));
}

/* A pattern that begins with "../" is for names outside the prefix. */
static const layout_extra *find_extra(const layout_map *map, const layout_extra *extras,
                                      const char *name)
{
    const bool inside = !strncmp(name, map->prefix, strlen(map->prefix));
    const size_t parent = parent_length(map->prefix, strlen(map->prefix));
    const char *above = strncmp(name, map->prefix, parent) ? name : name + parent;
    for (; extras->pattern; extras++) {
        if (!strncmp(extras->pattern, "../", 3)) {
            if ((!inside || !*map->prefix) && !fnmatch(extras->pattern + 3, above, 0))
                return extras;
        } else if (!fnmatch(extras->pattern, strip(map, name), 0)) {
            return extras;
        }
    }
    return NULL;
}

bool layout_check_features(const layout_map *map, const text_list *ignore, report *r)
{
    char shape[128];
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        const layout_extra *lacking = find_extra(map, map->layout->lacking, info->name);
        if (!lacking || is_ignored(map, ignore, info->name)) continue;
        return report_fail(r, "%.200s %s: this version of vit.h lacks %s", info->name,
                           info_shape(info, shape, sizeof shape), lacking->meaning);
    }
    return true;
}

/* === Names that no rule knows === */

typedef struct extras {
    char text[REPORT_SIZE];
    size_t used;
    int count;
} extras;

static void add_extra(extras *list, const checkpoint_tensor_info *info)
{
    char shape[128];
    int written;
    if (list->count++ >= LAYOUT_MAX_LISTED || list->used >= sizeof list->text) return;
    written = snprintf(list->text + list->used, sizeof list->text - list->used, "%s%.100s %s",
                       list->used ? ", " : "", info->name, info_shape(info, shape, sizeof shape));
    if (written > 0) list->used += (size_t)written;
}

static bool refuse_extras(const extras *list, report *r)
{
    const bool one = list->count == 1;
    return report_fail(r, "%d unknown tensor%s: %.340s%s; --rename THEIRS=OURS says what %s, "
                       "--ignore PATTERN drops %s", list->count, one ? "" : "s", list->text,
                       list->count > LAYOUT_MAX_LISTED ? ", ..." : "", one ? "it is" : "they are",
                       one ? "it" : "them");
}

/* Is this the name behind a part of a rule? Most are told apart by their ends. */
static bool is_part(const layout_map *map, const char *part, const char *name, int block)
{
    const char *end = part;
    const size_t length = strlen(name);
    const checkpoint_tensor_info *info;
    size_t size;
    while (!strncmp(end, "../", 3) || !strncmp(end, "{b}", 3)) end += 3;
    size = strcspn(end, "#@");
    if (is_of_unit(part)) block = unit_of(part, strip(map, name));
    else if (size > length || memcmp(name + length - size, end, size) != 0) return false;
    if (is_of_unit(part) && block < 0) return false;
    info = find_key(map, part, block);
    return info && info->name == name;
}

/* May any rule read it? */
static bool is_known(const layout_map *map, const char *name)
{
    const layout_rule *rule;
    const int block = block_of(map, map->blocks, name);
    int i;
    for (rule = map->layout->rules; rule->tensor; rule++)
        for (i = 0; i < count_parts(rule); i++)
            if (is_part(map, rule->parts[i], name, block)) return true;
    return false;
}

static void find_unknown(const layout_map *map, const text_list *ignore, extras *list)
{
    size_t i;
    memset(list, 0, sizeof *list);
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        if (!is_known(map, info->name) && !is_ignored(map, ignore, info->name) &&
            info->count > 0 && !find_extra(map, map->layout->harmless, info->name))
            add_extra(list, info);
    }
}

/* === Inspection === */

/* The i-th source of a tensor, its slice taken; false if there is none such. */
static bool peek_part(const layout_map *map, const char *tensor, int i, layout_part *part,
                      const char **form)
{
    bool found;
    int block;
    const layout_rule *rule = find_rule(map, tensor, &block, &found);
    if (!rule || !found || i >= count_parts(rule)) return false;
    if (is_zero_part(rule->parts[i]) || !raw_view(map, rule->parts[i], block, part)) return false;
    *form = form_of(map, rule);
    return layout_slice(&part->view, rule->parts[i] + strcspn(rule->parts[i], "#@"),
                        map->embed_dim);
}

/* How many numbers all sources of a tensor have; 0 without them. */
static int64_t count_of(const layout_map *map, const char *tensor)
{
    layout_part part;
    const char *form;
    int64_t count = 0;
    int i;
    for (i = 0; i < LAYOUT_MAX_PARTS; i++)
        if (peek_part(map, tensor, i, &part, &form)) count += part.view.count;
    return count;
}

/* Rows of a tensor, by the first letter of its form or its first dimension. */
static int64_t rows_of(const layout_map *map, const char *tensor)
{
    layout_part part;
    const char *form;
    if (!peek_part(map, tensor, 0, &part, &form) || part.view.ndim < 1) return 0;
    return form ? layout_letter(form, &part.view, strchr(form, '>')[1]) : part.view.dims[0];
}

static void put_size(settings *s, setting_key key, int64_t value)
{
    if (value > 0) settings_put(s, key, (double)value);
}

/* The flags that a tensor shows. Without blocks nothing shows those of a block. */
static void inspect_flags(const layout_map *map, settings *s, bool has_blocks)
{
    int key;
    for (key = 0; key < SETTING_COUNT; key++) {
        const char *tensor = setting_rows[key].shown_by;
        if (tensor && (has_blocks || strncmp(tensor, "blocks.", 7) != 0))
            settings_put(s, (setting_key)key, has(map, tensor));
    }
}

/* One more than the highest block; a gap below shows up as a missing tensor. */
static bool count_blocks(const layout_map *map, int *depth, report *r)
{
    size_t i;
    *depth = 0;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        int block = block_of(map, map->blocks, info->name);
        if (block >= 0 && is_stacked(map)) block = info->ndim ? (int)info->dims[0] - 1 : 0;
        if (block >= LAYOUT_MAX_DEPTH)
            return report_fail(r, "%.200s: more than %d blocks", info->name, LAYOUT_MAX_DEPTH);
        if (block >= *depth) *depth = block + 1;
    }
    return true;
}

/* The patches are not there, or not what they should be; *part is what was found. */
static bool refuse_patch(const layout_map *map, const char *tensor, const layout_part *part,
                         const char *form, report *r)
{
    static const text_list nothing;
    char key[LAYOUT_MAX_KEY], shape[128];
    extras unknown;
    const char *then;
    find_unknown(map, &nothing, &unknown);
    then = unknown.count > 0 ? "; unknown: " : "";
    if (!part)
        return report_fail(r, "%.200s is missing%s%.200s", meant_key(map, tensor, key), then,
                           unknown.text);
    return report_fail(r, "%.200s: expected [%s], found %s%s%.120s", part->info->name,
                       strchr(form, 'p') < strchr(form, 'd') ? "P, P, C, D" : "D, C, P, P",
                       info_shape(part->info, shape, sizeof shape), then, unknown.text);
}

/* A linear layer over the numbers of a patch leaves its side and channels to be told. */
static bool inspect_patch(const layout_map *map, settings *s, settings_seen *seen, report *r)
{
    static const char name[] = "patch_embed.proj.weight";
    layout_part part;
    const char *form;
    char shape[128];
    if (!peek_part(map, name, 0, &part, &form)) return refuse_patch(map, name, NULL, NULL, r);
    if (layout_form_ndim(form) != part.view.ndim ||
        layout_letter(form, &part.view, 'p') != layout_letter(form, &part.view, 'q'))
        return refuse_patch(map, name, &part, form, r);
    if (strstr(form, "(patch)"))
        return report_fail(r, "%.200s %s: which of a patch's numbers come first is not to be seen; "
                           "give --set patch_order=chw (channel by channel, as unfold has them) or "
                           "--set patch_order=hwc (pixel by pixel)", part.info->name,
                           info_shape(part.info, shape, sizeof shape));
    put_size(s, SETTING_EMBED_DIM, layout_letter(form, &part.view, 'd'));
    if (s->value[SETTING_STEM] == VIT_STEM_NONE)
        put_size(s, SETTING_IN_CHANS, layout_letter(form, &part.view, 'c'));
    put_size(s, SETTING_PATCH_SIZE,
             layout_letter(form, &part.view, 'p') * settings_stem_stride(s));
    if (strchr(form, '('))
        seen->patch_depth = part.view.count / layout_letter(form, &part.view, 'd');
    return true;
}

/* Blocks of a stage of the stem, up to the first that is not there. */
static int count_units(const layout_map *map, int stage)
{
    char name[80];   /* whatever the numbers */
    int count = 0;
    do
        snprintf(name, sizeof name, "patch_embed.backbone.stages.%d.blocks.%d.conv1.weight", stage,
                 count);
    while (count < LAYOUT_STAGE_BLOCKS && has(map, name) && ++count);
    return count;
}

/* The first convolution of a stem. */
static const struct { const char *tensor; int stem, pixels; } stems[] = {
    { "patch_embed.backbone.stem.conv.weight", VIT_STEM_RESNET, 7 * 7 },
    { "patch_embed.backbone.0.conv.weight", VIT_STEM_CONV, 4 * 4 }
};

/* Type and sizes of a stem; and the channels of its input. */
static void inspect_stem(const layout_map *map, settings *s)
{
    size_t i;
    int stage;
    settings_put(s, SETTING_STEM, VIT_STEM_NONE);
    for (i = 0; i < COUNT(stems); i++) {
        const int64_t width = rows_of(map, stems[i].tensor);
        if (width == 0) continue;
        settings_put(s, SETTING_STEM, stems[i].stem);
        put_size(s, SETTING_STEM_WIDTH, width);
        put_size(s, SETTING_IN_CHANS,
                 count_of(map, stems[i].tensor) / (width * stems[i].pixels));
    }
    for (stage = 0; stage < LAYOUT_STAGES; stage++)
        settings_put(s, (setting_key)(SETTING_STEM_STAGE1 + stage), count_units(map, stage));
}

static void inspect_norm_type(const layout_map *map, settings *s)
{
    static const char *const biases[] = {
        "blocks.0.norm1.bias", "norm.bias", "fc_norm.bias", "norm_pre.bias",
        "patch_embed.pre_norm.bias", "patch_embed.norm.bias", "attn_pool.norm.bias"
    };
    size_t i;
    for (i = 0; i < COUNT(biases); i++)
        if (has(map, biases[i])) settings_put(s, SETTING_NORM_TYPE, VIT_LAYER_NORM);
}

/* Some libraries keep the heads apart; a table of relative positions has a column for each. */
static void inspect_heads(const layout_map *map, settings *s, settings_seen *seen)
{
    const int64_t heads = rows_of(map, "blocks.0.attn.rel_pos");
    layout_part part;
    const char *form;
    put_size(s, SETTING_NUM_HEADS, heads);
    if (heads > 0)
        seen->relative_positions = (int)(count_of(map, "blocks.0.attn.rel_pos") / heads);
    if (!peek_part(map, "blocks.0.attn.qkv.weight", 0, &part, &form) || !form) return;
    put_size(s, SETTING_NUM_HEADS, layout_letter(form, &part.view, 'h'));
    put_size(s, SETTING_HEAD_DIM, layout_letter(form, &part.view, 'k'));
}

static void inspect_block(const layout_map *map, settings *s, settings_seen *seen, int64_t width)
{
    const int64_t fc1 = count_of(map, "blocks.0.mlp.fc1.weight") / width;
    const int64_t fc2 = count_of(map, "blocks.0.mlp.fc2.weight") / width;
    seen->qkv_rows = count_of(map, "blocks.0.attn.qkv.weight") / width;
    put_size(s, SETTING_MLP_DIM, fc2 ? fc2 : fc1);
    settings_put(s, SETTING_GATED_MLP, fc2 > 0 && fc1 == 2 * fc2);
    inspect_heads(map, s, seen);
}

static void inspect_head(const layout_map *map, settings *s, int64_t width)
{
    const int64_t classes = rows_of(map, "head.weight");
    settings_put(s, SETTING_NUM_CLASSES, (double)classes);
    settings_put(s, SETTING_REPRESENTATION_DIM, (double)rows_of(map, "pre_logits.fc.weight"));
    put_size(s, SETTING_POOL_MLP_DIM, rows_of(map, "attn_pool.mlp.fc1.weight"));
    if (has(map, "attn_pool.q")) settings_put(s, SETTING_POOL, VIT_POOL_MAP);
    else if (classes > 0 && count_of(map, "head.weight") == 2 * width * classes &&
             !has(map, "pre_logits.fc.weight"))
        settings_put(s, SETTING_POOL, VIT_POOL_TOKEN_AVG);
}

/* Takes over what nobody else says; *seen notes what that was. */
static void fill_gaps(settings all[FROM_COUNT], const settings *told, settings_seen *seen)
{
    settings *tensors = &all[FROM_TENSORS];
    bool mean = told->mean_count > 0, std = told->std_count > 0;
    size_t key;
    int from;
    for (key = 0; key < SETTING_COUNT; key++) {
        if (!told->given[key] || settings_origin(all, (setting_key)key) >= 0) continue;
        if (key == SETTING_HEAD_DIM && settings_origin(all, SETTING_NUM_HEADS) >= 0) continue;
        settings_put(tensors, (setting_key)key, told->value[key]);
        seen->by_default[key] = true;
    }
    for (from = 0; from < FROM_COUNT; from++) {
        mean = mean && all[from].mean_count == 0;
        std = std && all[from].std_count == 0;
    }
    if (mean) memcpy(tensors->mean, told->mean, sizeof told->mean);
    if (mean) tensors->mean_count = told->mean_count;
    seen->mean_by_default = mean;
    if (std) memcpy(tensors->std, told->std, sizeof told->std);
    if (std) tensors->std_count = told->std_count;
}

/* Some containers say settings beside the tensors, which must agree. */
static bool put_metadata(const layout_map *map, settings *s, report *r)
{
    settings told;
    size_t i;
    int key;
    if (strcmp(checkpoint_kind(map->checkpoint), "vit.cpp") != 0) return true;
    settings_start(&told, "the header");
    for (i = 0; i < checkpoint_metadata_count(map->checkpoint); i++) {
        const checkpoint_metadata_entry *entry = checkpoint_metadata(map->checkpoint, i);
        char text[64];
        snprintf(text, sizeof text, "%.20s=%.40s", entry->key, entry->value);
        if (!settings_parse(&told, text, r)) return false;
    }
    for (key = 0; key < SETTING_COUNT; key++) {
        if (!told.given[key]) continue;
        if (s->given[key] && (int64_t)s->value[key] != (int64_t)told.value[key])
            return report_fail(r, "the header says %s %.0f, the tensors say %.0f",
                               setting_rows[key].name, told.value[key], s->value[key]);
        settings_put(s, (setting_key)key, told.value[key]);
    }
    return true;
}

/* What the library's own code does, and no tensor shows. */
static bool put_defaults(const layout_map *map, settings all[FROM_COUNT], settings_seen *seen,
                         report *r)
{
    const layout_default *d = map->layout->defaults;
    settings told;
    settings_start(&told, map->layout->name);
    for (; d && d->assignment; d++)
        if (holds(map, d->when, 0) && !settings_parse(&told, d->assignment, r)) return false;
    fill_gaps(all, &told, seen);
    return true;
}

bool layout_inspect(layout_map *map, settings all[FROM_COUNT], settings_seen *seen, report *r)
{
    settings *s = &all[FROM_TENSORS];
    double order;
    int64_t width;
    int depth;
    memset(seen, 0, sizeof *seen);
    if (settings_get(all, SETTING_PATCH_ORDER, &order)) map->patch_order = 1 + (int)order;
    inspect_stem(map, s);
    if (!inspect_patch(map, s, seen, r) || !count_blocks(map, &depth, r)) return false;
    width = (int64_t)s->value[SETTING_EMBED_DIM];
    map->embed_dim = width;
    settings_put(s, SETTING_DEPTH, depth);
    settings_put(s, SETTING_REG_TOKENS, (double)(count_of(map, "reg_token") / width));
    inspect_norm_type(map, s);
    inspect_flags(map, s, depth > 0);
    if (depth > 0) inspect_block(map, s, seen, width);
    inspect_head(map, s, width);
    if (count_of(map, "pos_embed") / width > 1048576)
        return report_fail(r, "pos_embed has more than 1048576 rows");
    seen->position_rows = (int)(count_of(map, "pos_embed") / width);
    return put_metadata(map, s, r) && put_defaults(map, all, seen, r);
}

/* All at once: nobody wants to be asked one thing after the other. */
bool layout_check_told(const layout_map *map, const settings all[FROM_COUNT], report *r)
{
    const layout_question *q = map->layout->questions;
    char names[128] = "", options[640] = "";
    bool asked[SETTING_COUNT] = { false };
    int count = 0;
    for (; q && q->options; q++) {
        const size_t at = strlen(options), named = strlen(names);
        if (!holds(map, q->when, 0) || settings_origin(all, q->setting) >= 0) continue;
        if (asked[q->setting]) continue;
        asked[q->setting] = true;
        snprintf(names + named, sizeof names - named, "%s%s", count ? ", " : "",
                 setting_rows[q->setting].name);
        snprintf(options + at, sizeof options - at, "%s%s", count ? "; and " : "", q->options);
        count++;
    }
    return !count || report_fail(r, "%s %s not to be seen in a checkpoint of %s; give %s", names,
                                 count == 1 ? "is" : "are", map->layout->name, options);
}

/* === Completeness ===
 * A tensor that is missing or has another name must not look like an option that is off. */

/* What tells that a model has no such tensor. */
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
                           const extras *unknown, report *r)
{
    const absence *known = find_absence(tensor);
    char hint[80] = "";
    if (known)
        snprintf(hint, sizeof hint, "; --set %s=%s if this one has none",
                 setting_rows[known->key].name, known->key == SETTING_POSITIONS ? "none" : "0");
    return report_fail(r, "%.200s is missing: %s%s%s%.120s", key, why, hint,
                       unknown->count > 0 ? "; unknown: " : "", unknown->text);
}

/* "{b}norm1.weight" -> "blocks.3.norm1.weight" */
static void put_tensor(const layout_rule *rule, int block, char text[128])
{
    snprintf(text, 128, "blocks.%d.%s", block, rule->tensor + 3);
}

/* Why a tensor that is not there should be; NULL: it need not. */
static const char *why_missed(const layout_map *map, const settings all[FROM_COUNT],
                              const char *tensor)
{
    const layout_rule *rule;
    char weight[128];
    const size_t length = strlen(tensor);
    int block;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        if (!names_tensor(rule, tensor, &block) || !all_hold(map, rule->when, block)) continue;
        if (parts_there(map, rule, block) > 0) return "other parts of it are there";
        if (is_required(rule) && !is_told_absent(all, tensor))
            return "every model of this layout has it";
    }
    if (length <= 7 || strcmp(tensor + length - 7, ".weight")) return NULL;
    snprintf(weight, sizeof weight, "%.*s.bias", (int)(length - 7), tensor);
    return has(map, weight) ? "its bias is there" : NULL;
}

static const layout_rule *rule_in_use(const layout_map *map, const char *tensor)
{
    bool found;
    int block;
    const layout_rule *rule = find_rule(map, tensor, &block, &found);
    return found ? rule : NULL;
}

/* What one block has, all must have, under the same names. */
static bool check_blocks(const layout_map *map, const layout_rule *rule, int depth,
                         const settings all[FROM_COUNT], const extras *unknown, report *r)
{
    const layout_rule *first = NULL;
    char tensor[128], key[LAYOUT_MAX_KEY];
    const char *why;
    int i;
    for (i = 0; i < depth; i++) {
        const layout_rule *used;
        put_tensor(rule, i, tensor);
        used = rule_in_use(map, tensor);
        if (used && (!first || used < first)) first = used;
    }
    for (i = 0; i < depth; i++) {
        put_tensor(rule, i, tensor);
        if (first && rule_in_use(map, tensor) != first && absent_key(map, first, i, key))
            return refuse_missing(key, "other blocks have it", tensor, unknown, r);
        why = first ? NULL : why_missed(map, all, tensor);
        if (why) return refuse_missing(meant_key(map, tensor, key), why, tensor, unknown, r);
    }
    return true;
}

static bool is_first_for_tensor(const layout_map *map, const layout_rule *rule)
{
    const layout_rule *earlier = map->layout->rules;
    while (earlier < rule && strcmp(earlier->tensor, rule->tensor) != 0) earlier++;
    return earlier == rule;
}

static bool check_missing(const layout_map *map, const settings all[FROM_COUNT],
                          const extras *unknown, report *r)
{
    const int depth = (int)all[FROM_TENSORS].value[SETTING_DEPTH];
    const layout_rule *rule;
    char key[LAYOUT_MAX_KEY];
    const char *why;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        if (!is_first_for_tensor(map, rule)) continue;
        if (!strncmp(rule->tensor, "{b}", 3)) {
            if (!check_blocks(map, rule, depth, all, unknown, r)) return false;
        } else if (!has(map, rule->tensor)) {
            why = why_missed(map, all, rule->tensor);
            if (why)
                return refuse_missing(meant_key(map, rule->tensor, key), why, rule->tensor,
                                      unknown, r);
        }
    }
    return true;
}

bool layout_check_names(const layout_map *map, const settings all[FROM_COUNT],
                        const text_list *ignore, report *r)
{
    extras unknown;
    find_unknown(map, ignore, &unknown);
    return check_missing(map, all, &unknown, r) &&
           (unknown.count == 0 || refuse_extras(&unknown, r));
}

/* === Detection of the whole === */

/* How many tensors this layout would know under this prefix. */
static size_t count_known(const layout_map *map)
{
    size_t i, known = 0;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++)
        known += is_known(map, checkpoint_tensor(map->checkpoint, i)->name);
    return known;
}

/* The prefix before the key of a rule, of the first block or of none. */
static bool guess_prefix(layout_map *map, const layout_rule *rule)
{
    char key[LAYOUT_MAX_KEY];
    size_t length, i;
    map->prefix[0] = '\0';
    if (!rule->parts[0] ||
        !make_key(map, rule->parts[0], strcspn(rule->parts[0], "#@"), 0, 0, key, sizeof key))
        return false;
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

/* The key that the layout is known by and that is not there. */
static const char *absent_probe(const layout_map *map)
{
    int i;
    if (!find_key(map, map->layout->probe, 0)) return map->layout->probe;
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++)
        if (!holds(map, map->layout->when[i], 0) && map->layout->when[i][0] != '!')
            return map->layout->when[i];
    return NULL;
}

/* Is a key there that the layout must not have? */
static bool is_excluded(const layout_map *map)
{
    int i;
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++) {
        const char *condition = map->layout->when[i];
        if (condition && condition[0] == '!' && !holds(map, condition, 0)) return true;
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
        strcpy(last, map.prefix);
        find_blocks(&map);
        known = absent_probe(&map) && !is_excluded(&map) ? count_known(&map) : 0;
        if (known <= *most) continue;
        *most = known;
        *best = map;
    }
}

/* The layout that most tensors are of although it was not recognised. */
static bool guess_layout(checkpoint *c, layout_map *best)
{
    size_t most = checkpoint_count(c) / 2, i;
    best->layout = NULL;
    for (i = 0; layout_all[i]; i++) guess_by(layout_all[i], c, best, &most);
    return best->layout != NULL;
}

static bool no_layout(checkpoint *c, report *r)
{
    const checkpoint_tensor_info *first = checkpoint_count(c) ? checkpoint_tensor(c, 0) : NULL;
    char shape[128], key[LAYOUT_MAX_KEY];
    layout_map near;
    if (guess_layout(c, &near) && make_key(&near, absent_probe(&near),
                                           strlen(absent_probe(&near)), 0, 0, key, sizeof key))
        return report_fail(r, "%.200s is missing: most tensors are those of the %s layout", key,
                           near.layout->name);
    if (!first) return report_fail(r, "expected the tensors of a ViT, found no tensors");
    return report_fail(r, "expected timm's layout (patch_embed.proj.weight) or another that is "
                       "known, found %zu tensors such as %.200s %s", checkpoint_count(c),
                       first->name, info_shape(first, shape, sizeof shape));
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
        return true;
    }
    return no_layout(c, r);
}

/* === The plan === */

static bool is_made_here(const char *name)
{
    return !strncmp(name, "preprocess.", 11) || !strncmp(name, "selftest.", 9);
}

/* What the tensor's sources have to hold: other patches and another grid of positions are made
 * from them later. */
static int wanted_dims(const layout_item *item, const settings_resolved *model, int64_t dims[4])
{
    const vit_config *config = &model->config;
    int i;
    for (i = 0; i < item->tensor.ndim; i++) dims[i] = item->tensor.dims[i];
    if (item->reads_input) dims[1] = model->stored.chans;
    if (item->reads_input && !config->stem) dims[2] = dims[3] = model->stored.patch;
    if (item->is_positions)
        dims[1] = model->stored.patch_rows +
                  (config->positions == VIT_POS_ALL ? config->num_prefix_tokens : 0);
    if (item->is_relative)
        dims[1] = (2 * (int64_t)model->stored.grid_height - 1) *
                      (2 * (int64_t)model->stored.grid_width - 1) + 3;
    return item->tensor.ndim;
}

/* The patch embedding's weight as the file has it, which is for the map that a stem makes. */
static void put_map_sizes(const vit_config *config, layout_sizes *sizes)
{
    vit_tensor weight;
    int i = 0;
    while (vit_architecture_tensor(config, VIT_F32, i, &weight) &&
           strcmp(weight.name, "patch_embed.proj.weight"))
        i++;
    sizes->chans = weight.dims[1];
    sizes->patch = weight.dims[2];
}

static layout_sizes sizes_of(const settings_resolved *model)
{
    const vit_config *config = &model->config;
    layout_sizes sizes;
    sizes.patch = model->stored.patch;
    sizes.chans = model->stored.chans;
    sizes.heads = config->num_heads;
    sizes.head_dim = config->head_dim;
    if (config->stem) put_map_sizes(config, &sizes);
    return sizes;
}

static bool missing_part(const layout_map *map, const char *name, const char *expected, report *r)
{
    const layout_rule *rule = meant_rule(map, name);
    char key[LAYOUT_MAX_KEY];
    if (rule && count_parts(rule) == 1 && !rule->form)
        return report_fail(r, "%.200s is missing: expected %s", meant_key(map, name, key),
                           expected);
    return report_fail(r, "%.200s is missing: a part of %s %s", meant_key(map, name, key), name,
                       expected);
}

static bool misshapen_part(const layout_rule *rule, const layout_item *item,
                           const layout_part *part, const char *expected, report *r)
{
    char found[128];
    info_shape(part->info, found, sizeof found);
    if (count_parts(rule) == 1 && !rule->form && !strpbrk(rule->parts[0], "#@"))
        return report_fail(r, "%.200s: expected %s, found %s", part->info->name, expected, found);
    return report_fail(r, "%.200s %s does not fit %s %s", part->info->name, found,
                       item->tensor.name, expected);
}

/* Finds one source and brings it into the order of the file. */
static bool plan_part(const layout_map *map, const layout_rule *rule, int i, int block,
                      const layout_sizes *sizes, layout_part *part, bool *fits, report *r)
{
    const char *key = rule->parts[i];
    const bool is_constant = rule->method == LAYOUT_LINEAR && i != 1;
    (void)raw_view(map, key, block, part);   /* it is there: the rule was found */
    if (!checkpoint_is_float(part->info->dtype))
        return report_fail(r, "%.200s: expected floating-point weights, found %s",
                           part->info->name, checkpoint_dtype_name(part->info->dtype));
    *fits = layout_slice(&part->view, key + strcspn(key, "#@"), map->embed_dim);
    if (*fits && rule->form && !is_constant)
        *fits = layout_apply_form(&part->view, form_of(map, rule), sizes);
    return true;
}

/* The rows of a stack; zeros among them are as many as each other part has. */
static bool stack_fits(layout_item *item, const layout_rule *rule, const int64_t *dims, int ndim,
                       int *culprit)
{
    int64_t left = dims[0], depth = 1, rows;
    bool has_zeros = false;
    int zeros = -1, i;
    for (i = 1; i < ndim; i++) depth *= dims[i];
    for (i = 0; i < item->part_count; i++) has_zeros = has_zeros || !item->parts[i].info;
    for (i = 0; i < item->part_count; i++) {
        layout_part *part = &item->parts[i];
        *culprit = i;
        if (!part->info) {
            zeros = i;
            continue;
        }
        if (!rule->form && part->view.ndim > ndim) return false;
        if (!layout_rows(&part->view, dims, ndim, &rows)) return false;
        if (has_zeros && rows * item->part_count != dims[0]) return false;
        left -= rows;
    }
    if (zeros >= 0) item->parts[zeros].view.count = left * depth;
    return zeros >= 0 ? left > 0 : left == 0;
}

/* Periods for the pairs of one axis, or for both axes frequencies of every block and head. */
static bool rope_fits(const layout_item *item, const vit_config *config)
{
    const checkpoint_tensor_info *view = &item->parts[0].view;
    const int64_t pairs = config->head_dim / 2;
    if (item->part_count == 0) return true;
    if (item->tensor.ndim == 2) return view->count == pairs / 2;
    return view->ndim > 1 && view->dims[0] == 2 && view->dims[1] == config->depth &&
           view->count == 2 * config->depth * config->num_heads * pairs;
}

static bool parts_fit(layout_item *item, const layout_rule *rule, const int64_t *dims, int ndim,
                      const vit_config *config, int *culprit)
{
    const int64_t width = config->embed_dim;
    int64_t row[2], rows;
    *culprit = 0;
    switch (item->method) {
    case LAYOUT_STACK:
    case LAYOUT_REL_POS:
    case LAYOUT_STANDARD:
        return stack_fits(item, rule, dims, ndim, culprit);
    case LAYOUT_SUM:
    case LAYOUT_PRODUCT:
        for (; *culprit < item->part_count; ++*culprit)
            if (!layout_rows(&item->parts[*culprit].view, dims, ndim, &rows) || rows != dims[0])
                return false;
        return true;
    case LAYOUT_LINEAR:
        if (item->parts[0].view.count != width) return false;
        row[0] = dims[0];
        row[1] = width;
        *culprit = 1;
        if (!layout_rows(&item->parts[1].view, row, 2, &rows) || rows != dims[0]) return false;
        *culprit = 2;
        return item->part_count < 3 || item->parts[2].view.count == dims[0];
    case LAYOUT_COS:
    case LAYOUT_SIN:
        return rope_fits(item, config);
    case LAYOUT_LAMBDA:
        for (; *culprit < item->part_count; ++*culprit)
            if (item->parts[*culprit].view.count != config->head_dim / 2) return false;
        return true;
    case LAYOUT_LESS_LAMBDA:
        return item->parts[0].view.count == dims[0];
    case LAYOUT_BATCH_NORM:
        if (!layout_rows(&item->parts[0].view, dims, ndim, &rows) || rows != dims[0]) return false;
        ++*culprit;
        break;
    case LAYOUT_BATCH_SHIFT:
    case LAYOUT_ZERO:
    case LAYOUT_IDENTITY:
        break;
    }
    while (*culprit < item->part_count && item->parts[*culprit].view.count == dims[0]) ++*culprit;
    return *culprit == item->part_count;
}

static bool plan_sources(const layout_map *map, const layout_rule *rule, int block,
                         const settings_resolved *model,
                         layout_item *item, const char *expected, report *r)
{
    const vit_config *config = &model->config;
    const layout_sizes sizes = sizes_of(model);
    int64_t dims[4] = { 0 };
    const int count = count_parts(rule), ndim = wanted_dims(item, model, dims);
    int i, culprit;
    bool fits;
    item->method = rule->method;
    if (item->method == LAYOUT_IDENTITY && (config->num_heads != 1 || dims[0] != dims[1]))
        return report_fail(r, "%s %s is missing: only one head as wide as a token does without it",
                           item->tensor.name, expected);
    for (i = 0; i < count; i++) {
        layout_part *part = &item->parts[item->part_count];
        item->part_count++;
        if (is_zero_part(rule->parts[i])) continue;
        if (!plan_part(map, rule, i, block, &sizes, part, &fits, r)) return false;
        if (!fits) return misshapen_part(rule, item, part, expected, r);
        if (item->is_positions && model->stored.first_rows)
            layout_first_rows(&part->view, model->stored.position_rows);
    }
    if (parts_fit(item, rule, dims, ndim, config, &culprit)) return true;
    return misshapen_part(rule, item, &item->parts[culprit], expected, r);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length > tail && !strcmp(name + length - tail, end);
}

static bool reads_input(const char *name, int stem)
{
    size_t i;
    for (i = 0; i < COUNT(stems); i++)
        if (stems[i].stem == stem) return !strcmp(name, stems[i].tensor);
    return !strcmp(name, "patch_embed.proj.weight");
}

static rope_grid rope_of(const settings_resolved *model)
{
    const vit_config *config = &model->config;
    rope_grid grid;
    grid.options = model->rope;
    grid.height = config->grid_height;
    grid.width = config->grid_width;
    grid.pairs = config->head_dim / 2;
    return grid;
}

/* The tensor's sources, found and of the right shape. */
static bool plan_item(const layout_map *map, const settings_resolved *model, layout_item *item,
                      report *r)
{
    const vit_config *config = &model->config;
    const char *name = item->tensor.name;
    char expected[128];
    int64_t dims[4];
    bool found;
    int block;
    const layout_rule *rule;
    item->is_positions = !strcmp(name, "pos_embed");
    item->own = is_made_here(name) || (item->is_positions && model->pos_sincos);
    if (item->own) return true;
    item->reads_input = reads_input(name, config->stem);
    item->is_relative = ends_with(name, ".attn.rel_pos");
    item->divisor = ends_with(name, ".attn.proj.weight") ? model->context_divisor : 0;
    item->rope = rope_of(model);
    rule = find_rule(map, name, &block, &found);
    item->block = block;
    layout_shape(dims, wanted_dims(item, model, dims), expected, sizeof expected);
    if (!rule)
        return report_fail(r, "%s %s: the %s layout has no such tensor", name, expected,
                           map->layout->name);
    if (!found) return missing_part(map, name, expected, r);
    return plan_sources(map, rule, block, model, item, expected, r);
}

static bool plan_items(const layout_map *map, const settings_resolved *model, vit_dtype dtype,
                       layout_plan *plan, report *r)
{
    const vit_config *config = &model->config;
    vit_tensor tensor;
    size_t i;
    int count = 0;
    while (vit_architecture_tensor(config, dtype, count, &tensor)) count++;
    plan->count = (size_t)count;
    plan->items = calloc(plan->count + 1, sizeof *plan->items);
    if (!plan->items) return report_no_memory(r);
    for (i = 0; i < plan->count; i++) {
        vit_architecture_tensor(config, dtype, (int)i, &plan->items[i].tensor);
        if (!plan_item(map, model, &plan->items[i], r)) return false;
    }
    return true;
}

/* --- tensors that nobody asked for --- */

static int compare_pointers(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static bool is_source_of(const layout_map *map, const char *tensor, const char *name)
{
    layout_part part;
    const char *form;
    int i;
    for (i = 0; i < LAYOUT_MAX_PARTS; i++)
        if (peek_part(map, tensor, i, &part, &form) && !strcmp(part.info->name, name)) return true;
    return false;
}

/* What a setting such as --set num_classes=0 or pool=avg asked to drop. */
static bool dropped_on_request(const layout_map *map, const vit_config *config, const char *name)
{
    static const char *const heads[] = {
        "head.weight", "head.bias", "head_dist.weight", "head_dist.bias"
    };
    static const char *const layers[] = { "pre_logits.fc.weight", "pre_logits.fc.bias" };
    static const char *const pools[] = {
        "attn_pool.q", "attn_pool.kv.weight", "attn_pool.kv.bias", "attn_pool.proj.weight",
        "attn_pool.proj.bias", "attn_pool.norm.weight", "attn_pool.norm.bias",
        "attn_pool.mlp.fc1.weight", "attn_pool.mlp.fc1.bias", "attn_pool.mlp.fc2.weight",
        "attn_pool.mlp.fc2.bias"
    };
    static const char *const norms[] = { "norm.weight", "norm.bias" };
    static const char *const fc_norms[] = { "fc_norm.weight", "fc_norm.bias" };
    const struct { bool dropped; const char *const *tensors; size_t count; } groups[] = {
        { config->num_classes == 0, heads, COUNT(heads) },
        { config->representation_dim == 0, layers, COUNT(layers) },
        { config->pool != VIT_POOL_MAP, pools, COUNT(pools) },
        { !config->has_final_norm, norms, COUNT(norms) },
        { !config->has_fc_norm, fc_norms, COUNT(fc_norms) }
    };
    size_t i, j;
    for (i = 0; i < COUNT(groups); i++)
        for (j = 0; groups[i].dropped && j < groups[i].count; j++)
            if (is_source_of(map, groups[i].tensors[j], name)) return true;
    return false;
}

static bool plan_extras(const layout_map *map, const vit_config *config, const text_list *ignore,
                        const char *const *used, size_t used_count, layout_plan *plan, report *r)
{
    size_t total = checkpoint_count(map->checkpoint), i;
    extras list;
    memset(&list, 0, sizeof list);
    for (i = 0; i < total; i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        const char *name = info->name;
        if (bsearch(&name, used, used_count, sizeof *used, compare_pointers)) continue;
        if (find_extra(map, map->layout->harmless, name) || is_ignored(map, ignore, name) ||
            info->count == 0 || dropped_on_request(map, config, name))
            plan->ignored[plan->ignored_count++] = name;
        else
            add_extra(&list, info);
    }
    return list.count == 0 || refuse_extras(&list, r);
}

/* Names of all sources, sorted. */
static size_t list_used(const layout_plan *plan, const char **used)
{
    size_t count = 0, i;
    int j;
    for (i = 0; i < plan->count; i++)
        for (j = 0; j < plan->items[i].part_count; j++)
            if (plan->items[i].parts[j].info) used[count++] = plan->items[i].parts[j].info->name;
    qsort(used, count, sizeof *used, compare_pointers);
    return count;
}

static bool check_extras(const layout_map *map, const vit_config *config, const text_list *ignore,
                         layout_plan *plan, report *r)
{
    const char **used = calloc(LAYOUT_MAX_PARTS * plan->count + 1, sizeof *used);
    bool good = false;
    plan->ignored = calloc(checkpoint_count(map->checkpoint) + 1, sizeof *plan->ignored);
    if (used && plan->ignored)
        good = plan_extras(map, config, ignore, used, list_used(plan, used), plan, r);
    else
        (void)report_no_memory(r);
    free(used);
    return good;
}

bool layout_make_plan(const layout_map *map, const settings_resolved *model, vit_dtype dtype,
                      const text_list *ignore, layout_plan *plan, report *r)
{
    memset(plan, 0, sizeof *plan);
    if (plan_items(map, model, dtype, plan, r) &&
        check_extras(map, &model->config, ignore, plan, r))
        return true;
    layout_free_plan(plan);
    return false;
}

void layout_free_plan(layout_plan *plan)
{
    free(plan->items);
    free(plan->ignored);
    memset(plan, 0, sizeof *plan);
}
