#include "look/look.h"

#include <stdio.h>
#include <string.h>

#include "infer/attention.h"
#include "picture/grids.h"

const char *look_wrong_attention(const look_choices *c, int operands)
{
    (void)operands;
    if (c->heads && strcmp(c->heads, "all") != 0 && strcmp(c->heads, "mean") != 0)
        return "--heads is all or mean";
    if (c->heads && c->head >= 0) return "--head and --heads exclude each other";
    if (c->rollout && (c->heads || c->head >= 0 || c->block >= 0))
        return "--rollout is of all heads and blocks: without --block, --head and --heads";
    return NULL;
}

/* The block that is shown, from 0 on. */
static int shown_block(const look_job *j)
{
    return j->chosen->block < 0 ? j->model.config.depth - 1 : j->chosen->block;
}

bool look_prepare_attention(look_job *j, report *r)
{
    const vit_config *c = &j->model.config;
    if (!attention_check(c, r) || !look_check_block(j, r)) return false;
    if (j->chosen->head >= c->num_heads)
        return report_fail(r, "--head %d: the model has heads 0 to %d", j->chosen->head,
                           c->num_heads - 1);
    j->each = (size_t)(j->chosen->rollout ? 1 : c->num_heads) * (size_t)c->num_tokens;
    return true;
}

bool look_read_attention(look_job *j, look_photo *s, report *r)
{
    const vit_config *c = &j->model.config;
    attention_choice choice = { shown_block(j), c->has_cls_token ? 0 : -1, j->chosen->rollout };
    if (j->chosen->at) {
        if (!look_patch_at(j, &s->shown, &s->marked, r)) return false;
        choice.from = c->num_prefix_tokens + s->marked;
    }
    return attention_read(&j->session, j->input, &choice, s->values, r);
}

/* Who attends. */
static const char *query_name(const look_job *j)
{
    return j->chosen->at ? "patch" : j->model.config.has_cls_token ? "class token" : "mean of all";
}

static bool all_heads(const look_choices *c)
{
    return c->heads && strcmp(c->heads, "all") == 0;
}

/* "class token, block 11, head 2" */
static void name_map(const look_job *j, int map, char *text, size_t size)
{
    const look_choices *c = j->chosen;
    const int heads = j->model.config.num_heads, head = all_heads(c) ? map : c->head;
    snprintf(text, size, "%s, ", query_name(j));
    if (c->rollout) text_append(text, size, "rollout");
    else if (head >= 0) text_append(text, size, "block %d, head %d", shown_block(j), head);
    else text_append(text, size, "block %d, mean of %d heads", shown_block(j), heads);
}

/* One head, or the mean of all. */
static void take_map(const look_job *j, const look_photo *s, int map, float *values)
{
    const vit_config *c = &j->model.config;
    const int only = all_heads(j->chosen) ? map : j->chosen->head;
    attention_map(c, s->values, j->chosen->rollout ? 1 : c->num_heads, only, values);
}

bool look_draw_attention(look_job *j, report *r)
{
    const vit_grid grid = look_grid_of(&j->model);
    const int maps = all_heads(j->chosen) ? j->model.config.num_heads : 1;
    if (!look_take_numbers(j, j->num_seen, maps, grid.height, grid.width, r)) return false;
    for (int i = 0; i < j->num_seen; i++) {
        for (int m = 0; m < maps; m++) {
            char caption[128];
            double range[2];
            take_map(j, &j->seen[i], m, look_map_of(j, i, m));
            (void)grids_range(look_map_of(j, i, m), (size_t)j->model.config.num_patches, range);
            name_map(j, m, caption, sizeof caption);
            text_append(caption, sizeof caption, "\n%.2g to %.2g", range[0], range[1]);
            if (!look_add_heat(j, &j->seen[i], look_map_of(j, i, m), range, caption, r))
                return false;
        }
    }
    return true;
}

void look_put_attention(const look_job *j, json_writer *w)
{
    json_put_text(w, "query", query_name(j));
    json_put_begin(w, "maps", '[');
    for (int m = 0; m < (int)j->dims[1]; m++) {
        char text[128];
        name_map(j, m, text, sizeof text);
        json_put_text(w, NULL, text);
    }
    json_put_end(w, ']');
}
