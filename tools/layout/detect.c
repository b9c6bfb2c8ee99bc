#include "layout/detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "layout/rules.h"
#include "model/settings.h"

/* === Detection === */

enum { MAX_DEPTH = 1024 };

/* === Detection === */

/* Returns the length of this prefix if the text begins with it; otherwise 0. */
static size_t prefix_length(const char *prefix, const char *text, size_t size) {
    const size_t length = strlen(prefix);
    const char *dot = memchr(text, '.', size);
    if (!strcmp(prefix, "*.")) return dot ? (size_t)(dot - text) + 1 : 0;
    return length <= size && !memcmp(text, prefix, length) ? length : 0;
}

/* True if the text consists only of the layout's prefixes, in any order and any number. */
static bool is_prefix(const layout *l, const char *text, size_t size) {
    const char *const *prefix;
    if (size == 0) return true;
    for (prefix = l->prefixes; *prefix; prefix++) {
        const size_t length = prefix_length(*prefix, text, size);
        if (length > 0 && is_prefix(l, text + length, size - length)) return true;
    }
    return false;
}

/* True if the name consists of a prefix and the layout's probe, and the layout's conditions hold
 * under this prefix. The first `common` letters of the name, the path that all names share, need
 * not be a prefix of the layout. */
static bool is_probe(const layout *l, checkpoint *c, const char *name, size_t common,
                     layout_map *candidate) {
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

/* Returns the number of models of this layout in the checkpoint. Puts the first one into *map, and
 * the last of several into *second. If a model has no prefix, returns 1 and puts it into *map. */
static int probe(const layout *l, checkpoint *c, layout_map *map, layout_map *second) {
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

/* Finds the first of the layout's block paths that some tensor has. */
static void find_blocks(layout_map *map) {
    const char *const *path;
    size_t i;
    for (path = map->layout->blocks; *path; path++)
        for (i = 0; i < checkpoint_count(map->checkpoint); i++)
            if (layout_block_of(map, *path, checkpoint_tensor(map->checkpoint, i)->name) >= 0) {
                map->blocks = *path;
                return;
            }
}

/* Returns the number of blocks that this tensor proves to exist: the number of its own block plus
 * one, or the number of all blocks if they are stacked in the tensor. */
static int64_t blocks_shown(const layout_map *map, const checkpoint_tensor_info *info) {
    const int block = layout_block_of(map, map->blocks, info->name);
    if (block < 0) return 0;
    if (layout_is_stacked(map)) return info->ndim ? info->dims[0] : 1;
    return (int64_t)block + 1;
}

/* Sets the map's depth to the highest block number plus one. A gap in the numbers is reported later
 * as a missing tensor. */
static bool count_blocks(layout_map *map, report *r) {
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

/* === If no layout is recognised === */

/* Returns the number of tensors that the rules of the map's layout match under the map's prefix. */
static size_t count_known(const layout_map *map) {
    size_t i, known = 0;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++)
        known += layout_is_known(map, checkpoint_tensor(map->checkpoint, i)->name);
    return known;
}

/* Finds a tensor whose name ends with the rule's first key (block 0's, if each block has one). Sets
 * the map's prefix to the text in front of the key. Returns false if there is no such tensor. */
static bool guess_prefix(layout_map *map, const layout_rule *rule) {
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

/* Returns a key that the layout requires and the checkpoint lacks: the probe, or the key of a
 * condition. Returns NULL if there is none. */
static const char *absent_probe(const layout_map *map) {
    int i;
    if (!layout_find_key(map, map->layout->probe, 0)) return map->layout->probe;
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++)
        if (!layout_holds(map, map->layout->when[i], 0) && map->layout->when[i][0] != '!')
            return map->layout->when[i];
    return NULL;
}

/* True if the checkpoint has a key that excludes this layout. */
static bool is_excluded(const layout_map *map) {
    int i;
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++) {
        const char *condition = map->layout->when[i];
        if (condition && condition[0] == '!' && !layout_holds(map, condition, 0)) return true;
    }
    return false;
}

/* For each prefix of a key in the checkpoint, counts the tensors that the layout's rules match. If
 * the largest number exceeds *most, stores it in *most, and the map with its prefix in *best. */
static void guess_by(const layout *l, checkpoint *c, layout_map *best, size_t *most) {
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
        /* most rules have the same prefix as the previous rule, and that prefix was counted
         * already */
        strcpy(last, map.prefix);
        find_blocks(&map);
        known = absent_probe(&map) && !is_excluded(&map) ? count_known(&map) : 0;
        if (known <= *most) continue;
        *most = known;
        *best = map;
    }
}

/* Finds the layout whose rules match the most tensors. Used for checkpoints that contain no
 * layout's probe. */
static bool guess_layout(checkpoint *c, layout_map *best) {
    /* a layout that matches at most half of the tensors matches them by coincidence */
    size_t most = checkpoint_count(c) / 2, i;
    best->layout = NULL;
    for (i = 0; layout_all[i]; i++) guess_by(layout_all[i], c, best, &most);
    return best->layout != NULL;
}

static bool no_layout(checkpoint *c, layout_map *map, report *r) {
    const checkpoint_tensor_info *first = checkpoint_count(c) ? checkpoint_tensor(c, 0) : NULL;
    char shape[SHAPE_TEXT_SIZE], key[LAYOUT_MAX_KEY];
    layout_map near;
    memset(map, 0, sizeof *map);
    if (guess_layout(c, &near) && layout_key(&near, absent_probe(&near), 0, 0, key)) {
        map->layout = near.layout;
        return report_fail(r, "%s is missing: most tensors have names of the %s layout", key,
                           near.layout->name);
    }
    if (!first) return report_fail(r, "expected the tensors of a ViT, found no tensors");
    return report_fail(r,
                       "expected timm's layout (patch_embed.proj.weight) or another known "
                       "layout, found %zu tensors such as %s %s",
                       checkpoint_count(c), first->name,
                       shape_text(first->dims, first->ndim, shape, sizeof shape));
}

/* === The search for a layout === */

bool layout_use(const layout *l, checkpoint *c, layout_map *map, report *r) {
    memset(map, 0, sizeof *map);
    map->layout = l;
    map->checkpoint = c;
    map->blocks = l->blocks[0];
    return count_blocks(map, r) && layout_match_all(map, r);
}

bool layout_falls_short(const layout_map *map, const text_list *ignore) {
    static const char *const usual[] = {
        "patch_embed.proj.weight",
        "pos_embed",
        "blocks.0.norm1.weight",
        "blocks.0.attn.qkv.weight",
        "blocks.0.attn.proj.weight",
        "blocks.0.norm2.weight",
        "blocks.0.mlp.fc1.weight",
        "blocks.0.mlp.fc2.weight",
        "head.weight",
    };
    size_t i;
    if (!names_has_unknown(map, ignore)) return false;
    if (map->layout->is_open) return true;
    for (i = 0; i < sizeof usual / sizeof *usual; i++)
        if (!layout_has(map, usual[i])) return true;
    return !layout_has(map, "norm.weight") && !layout_has(map, "fc_norm.weight");
}

bool layout_knows_most(const layout_map *map) {
    return 2 * count_known(map) >= checkpoint_count(map->checkpoint);
}

/* Finds the first of these layouts whose probe is in the checkpoint. *is_one becomes true if there
 * is such a layout, and false if there is none. */
static bool detect(const layout *const *layouts, checkpoint *c, layout_map *map, bool *is_one,
                   report *r) {
    *is_one = true;
    memset(map, 0, sizeof *map);
    for (; *layouts; layouts++) {
        layout_map second;
        int found = probe(*layouts, c, map, &second);
        if (found == 0) continue;
        if (found > 1)
            return report_fail(r, "expected one model, found several: %s* and %s*", map->prefix,
                               second.prefix);
        find_blocks(map);
        return count_blocks(map, r) && layout_match_all(map, r);
    }
    *is_one = false;
    return true;
}

bool layout_detect(checkpoint *c, layout_map *map, report *r) {
    bool is_one;
    if (!detect(layout_all, c, map, &is_one, r)) return false;
    return is_one || no_layout(c, map, r);
}

bool layout_detect_text(checkpoint *c, layout_map *map, report *r) {
    bool is_one;
    if (!detect(layout_texts, c, map, &is_one, r)) return false;
    if (!is_one) memset(map, 0, sizeof *map);
    return true;
}

/* === Checks === */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === Features === */

bool layout_check_features(const layout_map *map, const text_list *ignore, report *r) {
    char shape[SHAPE_TEXT_SIZE];
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        const layout_extra *lacking = names_find_extra(map, map->layout->lacking, info->name);
        if (!lacking || names_is_ignored(map, ignore, info->name)) continue;
        return report_fail(r, "%s %s: this version of vit.h lacks %s", info->name,
                           shape_text(info->dims, info->ndim, shape, sizeof shape),
                           lacking->meaning);
    }
    return true;
}

/* === Settings that the user must give === */

/* True if the setting has no effect: num_heads, if each token attends only to itself. */
static bool plays_no_part(const settings all[FROM_COUNT], setting_key key) {
    double attention = VIT_ATTENTION_ALL;
    settings_get(all, SETTING_ATTENTION, &attention);
    return key == SETTING_NUM_HEADS && attention == VIT_ATTENTION_SELF;
}

/* Returns the options with which the user can answer the question. If the question is about
 * num_heads, they depend on the model. */
static const char *options_of(const layout_map *map, const layout_question *q,
                              const settings_seen *seen, char text[HEADS_TEXT]) {
    const int64_t width = seen->qkv_rows ? seen->qkv_rows / 3 : map->embed_dim;
    if (q->setting != SETTING_NUM_HEADS || width == 0) return q->options;
    if (seen->heads.count > 0) return heads_option(&seen->heads, text);
    return choices_of_heads(width, "", text);
}

bool layout_check_told(const layout_map *map, const settings all[FROM_COUNT],
                       const settings_seen *seen, findings *f, report *r) {
    const layout_question *q = map->layout->questions;
    char why[160], text[HEADS_TEXT];
    snprintf(why, sizeof why, "not stored in a checkpoint of %s", map->layout->name);
    for (; q && q->options; q++) {
        if (!layout_holds(map, q->when, 0) || settings_origin(all, q->setting) >= 0) continue;
        if (plays_no_part(all, q->setting)) continue;
        if (!findings_ask(f, setting_rows[q->setting].name, why, options_of(map, q, seen, text)))
            return report_no_memory(r);
    }
    return true;
}

/* === Completeness === A missing or renamed tensor must not look like an option that is off. */

/* If a model has the setting `key` with this value, the model lacks the tensor. */
typedef struct absence {
    const char *tensor;
    setting_key key;
    int value;
} absence;

static const absence *find_absence(const char *tensor) {
    static const absence table[] = {
        { "norm.weight", SETTING_FINAL_NORM, 0 },
        { "norm.bias", SETTING_FINAL_NORM, 0 },
        { "patch_embed.proj.bias", SETTING_PATCH_BIAS, 0 },
        { "pos_embed", SETTING_POSITIONS, VIT_POS_NONE },
        { "head.weight", SETTING_NUM_CLASSES, 0 },
    };
    size_t i;
    for (i = 0; i < COUNT(table); i++)
        if (!strcmp(table[i].tensor, tensor)) return &table[i];
    return NULL;
}

static bool is_told_absent(const settings all[FROM_COUNT], const char *tensor) {
    const absence *known = find_absence(tensor);
    int from;
    for (from = FROM_NAME; known && from < FROM_COUNT; from++)
        if (all[from].given[known->key] && (int)all[from].value[known->key] == known->value)
            return true;
    return false;
}

/* The state of searching for missing tensors. */
typedef struct missing {
    const layout_map *map;
    const settings *all;
    name_groups groups;
    uint64_t *keys;     /* hashes of the missing keys recorded so far */
    size_t count, most; /* number of these keys; the largest number to record */
} missing;

/* Records the key and returns true if m->keys has space and does not contain the key. */
static bool is_new(missing *m, const char *key) {
    vit_hash hash;
    uint64_t sum;
    size_t i = 0;
    vit_hash_init(&hash);
    vit_hash_update(&hash, key, strlen(key));
    sum = vit_hash_final(&hash);
    while (i < m->count && m->keys[i] != sum) i++;
    if (i < m->count || m->count == m->most) return false;
    m->keys[m->count++] = sum;
    return true;
}

static bool add_key(missing *m, const char *key, const char *why, const char *tensor) {
    const absence *known = find_absence(tensor);
    char note[160];
    int used = snprintf(note, sizeof note, "missing: %s", why);
    if (known)
        snprintf(note + used, sizeof note - (size_t)used,
                 "; give --set %s=%s if the model has no such tensor",
                 setting_rows[known->key].name, known->key == SETTING_POSITIONS ? "none" : "0");
    return !is_new(m, key) || groups_add(&m->groups, key, note);
}

/* Adds every missing part of the rule to the missing names. If there is no such part, adds the name
 * of the tensor. */
static bool add_missing(missing *m, const layout_rule *rule, int block, const char *why,
                        const char *tensor) {
    char key[LAYOUT_MAX_KEY];
    int i, absent = 0;
    for (i = 0; rule && i < layout_part_count(rule); i++) {
        if (!names_absent_part(m->map, rule, i, block, key)) continue;
        if (!add_key(m, key, why, tensor)) return false;
        absent++;
    }
    return absent > 0 || add_key(m, tensor, why, tensor);
}

/* Returns the reason why a missing tensor should exist; NULL if the tensor is optional. Tensors of
 * options are optional, because most models leave options off. */
static const char *why_missed(const layout_map *map, const settings all[FROM_COUNT],
                              const char *tensor) {
    const layout_rule *rule;
    char weight[128];
    const size_t length = strlen(tensor);
    int block;
    for (rule = map->layout->rules; rule->tensor; rule++) {
        if (!layout_names(rule->tensor, tensor, &block)) continue;
        if (!layout_all_hold(map, rule->when, block)) continue;
        if (names_parts_present(map, rule, block) > 0)
            return "other parts of the same tensor exist";
        if (names_is_required(rule) && !is_told_absent(all, tensor))
            return "every model of this layout has it";
    }
    /* a weight without a bias is common, but a bias without a weight is an accident */
    if (length <= 7 || strcmp(tensor + length - 7, ".weight")) return NULL;
    snprintf(weight, sizeof weight, "%.*s.bias", (int)(length - 7), tensor);
    return layout_has(map, weight) ? "its bias exists" : NULL;
}

/* Returns the rule by which the blocks have this tensor; NULL if no block has it. If blocks use
 * different rules, returns the first of them in the layout. */
static const layout_rule *rule_of_blocks(const layout_target *target) {
    const layout_rule *first = NULL;
    int i;
    for (i = 0; i < target->count; i++) {
        const layout_match *match = &target->matches[i];
        if (match->found && (!first || match->rule < first)) first = match->rule;
    }
    return first;
}

/* If one block has a tensor, the same rule must make it in every block. Otherwise records the
 * missing keys: the other blocks have lost or renamed the tensor. */
static bool check_blocks(missing *m, const layout_target *target) {
    const layout_rule *first = rule_of_blocks(target);
    char tensor[128], key[LAYOUT_MAX_KEY];
    const char *why;
    int i;
    for (i = 0; i < target->count && m->count < m->most; i++) {
        const layout_match *match = &target->matches[i];
        snprintf(tensor, sizeof tensor, "blocks.%d.%s", i, target->tensor + strlen("{b}"));
        if (first && !(match->found && match->rule == first) &&
            names_absent_key(m->map, first, i, key) &&
            !add_missing(m, first, i, "other blocks have it", tensor))
            return false;
        why = first ? NULL : why_missed(m->map, m->all, tensor);
        if (why && !add_missing(m, names_meant_rule(m->map, tensor), i, why, tensor)) return false;
    }
    return true;
}

/* Finds all missing tensors outside the stages of a stem. In a stage, one tensor of each block
 * shows how many blocks the stage has, and the plan detects the other missing tensors. */
static bool find_missing(missing *m) {
    const char *why;
    size_t i;
    for (i = 0; i < m->map->target_count && m->count < m->most; i++) {
        const layout_target *target = &m->map->targets[i];
        const char *tensor = target->tensor;
        if (!strncmp(tensor, "{b}", 3)) {
            if (!check_blocks(m, target)) return false;
        } else if (!layout_has(m->map, tensor)) {
            why = why_missed(m->map, m->all, tensor);
            if (why && !add_missing(m, names_meant_rule(m->map, tensor), -1, why, tensor))
                return false;
        }
    }
    return true;
}

static bool put_missing(const name_groups *groups, findings *f) {
    char name[GROUP_TEXT_SIZE], text[GROUP_TEXT_SIZE + 256];
    size_t i;
    for (i = 0; i < groups->count; i++) {
        const name_group *group = &groups->items[i];
        if (group->count == 1)
            snprintf(text, sizeof text, "%s is %s", group_text(group, name), group->note);
        else
            snprintf(text, sizeof text, "%s (%zu tensors) are %s", group_text(group, name),
                     group->count, group->note);
        if (!findings_wrong(f, text, "")) return false;
    }
    return groups->more == 0 || findings_wrong(f, "more tensors are missing", "");
}

static bool check_missing(const layout_map *map, const settings all[FROM_COUNT], findings *f) {
    /* limited, because the search for each key compares all names */
    enum { MOST = 1000000, MOST_KEYS = 4096 };
    missing *m = calloc(1, sizeof *m);
    bool good;
    if (!m) return false;
    m->map = map;
    m->all = all;
    m->most = MOST / (checkpoint_count(map->checkpoint) + 1) + 1;
    if (m->most > MOST_KEYS) m->most = MOST_KEYS;
    m->keys = calloc(m->most, sizeof *m->keys);
    good = m->keys && find_missing(m) && put_missing(&m->groups, f);
    groups_free(&m->groups);
    free(m->keys);
    free(m);
    return good;
}

static bool check_unknown(const layout_map *map, const text_list *ignore, findings *f) {
    name_groups *unknown = calloc(1, sizeof *unknown);
    const bool good = unknown && names_find_unknown(map, ignore, unknown) &&
                      names_put_unknown(unknown, f);
    if (unknown) groups_free(unknown);
    free(unknown);
    return good;
}

/* Refuses a model without blocks, unless a source other than the tensors gives depth=0. */
static bool check_depth(const layout_map *map, const settings all[FROM_COUNT], findings *f) {
    const char *const *path = map->layout->blocks;
    char text[256];
    int from;
    if (map->depth > 0) return true;
    for (from = FROM_NAME; from < FROM_COUNT; from++)
        if (all[from].given[SETTING_DEPTH] && all[from].value[SETTING_DEPTH] == 0) return true;
    while (path[1]) path++; /* the last path is the plainest, so the message shows it */
    snprintf(text, sizeof text,
             "there are no blocks: expected tensors called %s%s*; give --set depth=0 if the model "
             "has no blocks",
             map->prefix, *path);
    return findings_wrong(f, text, "");
}

bool layout_check_names(const layout_map *map, const settings all[FROM_COUNT],
                        const text_list *ignore, findings *f, report *r) {
    return (check_depth(map, all, f) && check_missing(map, all, f) &&
            check_unknown(map, ignore, f)) ||
           report_no_memory(r);
}
