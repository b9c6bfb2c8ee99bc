/* detect.h - finds the layout of a checkpoint, and the settings that the checkpoint states or that
 * its tensors show.
 *
 * A layout is the table of one library's names and shapes of tensors (layout.h). A setting is a
 * property of the model, such as num_heads. all[FROM_TENSORS], all[FROM_NAME] and so on hold the
 * settings from one source each (model/settings.h). */
#ifndef DETECT_H
#define DETECT_H

#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "layout/rules.h"
#include "model/findings.h"
#include "model/resolve.h"

/* Finds the layout, the prefix, and the path and number of the blocks, and matches every tensor
 * that the rules name. On success free the map with layout_free_map. */
bool layout_detect(checkpoint *c, layout_map *map, report *r);

/* Does the same as layout_detect for a text encoder. If the checkpoint has no text encoder,
 * map->layout becomes NULL. */
bool layout_detect_text(checkpoint *c, layout_map *map, report *r);

/* Uses the layout `l` without searching for one. The names of the checkpoint must have no
 * prefix. */
bool layout_use(const layout *l, checkpoint *c, layout_map *map, report *r);

/* True if a tensor is unknown and a usual tensor is missing: names were changed, or the layout is
 * wrong. If the layout is_open, an unknown tensor suffices. */
bool layout_falls_short(const layout_map *map, const text_list *ignore);

/* True if the rules of the layout match at least half of the tensors. */
bool layout_knows_most(const layout_map *map);

/* === Checks === */

/* These functions refuse checkpoints whose conversion would give a model that computes something
 * else than the original. */

/* Refuses tensors of features that vit.h cannot run, unless --ignore names them. */
bool layout_check_features(const layout_map *map, const text_list *ignore, report *r);

/* Records in *f missing tensors that the layout or other tensors require, a lack of blocks, and
 * unknown tensors that `ignore` does not name. Call it before the settings are used: in these, a
 * missing tensor is an option that is off. Returns false if memory is exhausted. */
bool layout_check_names(const layout_map *map, const settings all[FROM_COUNT],
                        const text_list *ignore, findings *f, report *r);

/* Records a question for each setting that only the user can give, but has not given. */
bool layout_check_told(const layout_map *map, const settings all[FROM_COUNT],
                       const settings_seen *seen, findings *f, report *r);

/* === Settings from a model that was saved whole === */

/* attributes.c reads the classes and attributes of a pickled module, the code of TorchScript, and
 * the options that a training program stored with the weights. */

/* The last step of the original model, after the logits or the embedding that the .vit file
 * computes. */
typedef enum model_end {
    MODEL_END_NONE, /* the original model has no such last step, or the step is unknown */
    MODEL_END_SOFTMAX,
    MODEL_END_LOG_SOFTMAX,
    MODEL_END_SIGMOID,
    MODEL_END_UNIT, /* division of an embedding by its length */
} model_end;

typedef struct attributes_told {
    /* List of the settings found, such as "num_heads=3 (blocks.0.attn.num_heads), ..."; "" if there
     * are none. */
    char text[REPORT_SIZE];
    /* List of the settings found in the author's Python (--code), such as "activation=relu
     * (model.py:41: nn.ReLU()), ...". */
    char code[REPORT_SIZE];
    settings by_code; /* the values of the settings that `code` lists */
    /* True for an encoder layer of torch.nn without batch_first. With an input [batch, tokens, D]
     * such a layer attends over the batch; only the code of forward() shows the input's form. */
    bool batch_second;
    /* The reason why the user must give the activation. NULL if there is no doubt about the
     * activation. */
    const char *activation_doubt;
    model_end end;
    bool head_is_plain; /* true if the code calls no activation outside the blocks */
    /* If true, a stated input size that does not fit the tensors is ignored. */
    bool size_is_hint;
} attributes_told;

/* Puts the settings on which all statements agree into all[FROM_TENSORS]. Call this function before
 * layout_inspect: the tensors overrule these settings, and these settings overrule the layout's
 * defaults. `patch` is the checkpoint's name of the weight that reads the patches of the input;
 * NULL if there is none. If vit.h does not support the activation or the form of the patches, fails
 * unless a source of higher precedence gives another value. */
bool attributes_put(const checkpoint *c, const char *patch, settings all[FROM_COUNT],
                    attributes_told *told, report *r);

/* === Settings from the author's Python === */

/* The facts that convert/code.c read about the class that makes the tensors. */
typedef struct code_found {
    /* The attributes that the code sets, as in a model that was saved whole, with their lines in
     * the code. */
    checkpoint_attribute *items;
    size_t count, capacity;
    /* The call that makes the model, such as "model.py:90: ViT(dim=64)". NULL if no class fits the
     * checkpoint. */
    const char *model;
    /* True if the class makes tensors of other shapes than those in the checkpoint. In this case
     * the numbers of the class were not read. */
    bool shapes_differ;
    /* The numbers of values in the call of transforms.Normalize. Both are 0 if there is no call, or
     * if there are several. */
    int mean_count, std_count;
    double mean[VIT_MAX_CHANS], std[VIT_MAX_CHANS];
    const char *normalize; /* the line of the code that calls transforms.Normalize */
    struct code_names {
        const char **names;
        size_t count;
        const char *where;
    } names[8]; /* the lists in the code that look like names of classes */
    int name_count;
    memory_arena memory;
} code_found;

/* Like attributes_put, but puts settings from the code into all[FROM_TENSORS], and only those that
 * the checkpoint itself does not give. Call this function after attributes_put and before
 * layout_inspect. */
void code_put(const checkpoint *c, const char *patch, const code_found *found,
              settings all[FROM_COUNT], attributes_told *told);

/* === Settings that the tensors show === */

/* Fills all[FROM_TENSORS] with the settings that the tensors show. The defaults of the layout's
 * library fill the rest. Call this function after the settings of all other sources are filled in.
 * Also fills *seen, and the map's patch_order and embed_dim, because slices and axes depend on
 * both. */
bool layout_inspect(layout_map *map, settings all[FROM_COUNT], settings_seen *seen, report *r);

/* Makes layout_rule_axes use the settings for the order of a tensor's elements. A second call
 * replaces these settings for later plans. */
void layout_take_orders(layout_map *map, const settings all[FROM_COUNT]);

/* Returns the name, in the .vit file, of the weight that reads the channels of the input. */
const char *layout_input_weight(vit_stem stem);

/* Returns the name, in the checkpoint, of the weight that reads the patches directly from the
 * input; NULL if a stem reads the input. */
const char *layout_patch_weight(const layout_map *map);

/* === Evidence of trained weights for facts that no name shows === */

/* === Stacked matrices === */

/* A matrix of the .vit file, described as parts that lie one below the other. Functions that
 * inspect the weights use this type before a plan exists. */

typedef struct stacked {
    layout_part parts[LAYOUT_MAX_PARTS];
    int part_count;
    int64_t count; /* number of values in all parts together */
} stacked;

/* Finds the parts of the matrix `name` of a block; `width` is the width of attention. Attention is
 * treated as a single head, so the rows have the order of the file. Returns false unless the tensor
 * is made of floats by LAYOUT_STACK. Also returns false if the known settings do not divide it into
 * rows of `columns` values. */
bool stacked_find(const layout_map *map, int block, const char *name, int64_t width,
                  int64_t columns, stacked *out);

/* Reads values `first` .. `first` + `count` - 1 of the matrix as float. They must belong to one
 * row, because each row lies within a single part. */
bool stacked_read(const layout_map *map, const stacked *matrix, int64_t first, int64_t count,
                  float *to, report *r);

/* === The number of heads === */

/* heads_read reads the number of heads from trained weights. No tensor's shape shows this number,
 * and a model with a wrong number runs without an error.
 *
 * Row i of q and row i of k affect a model only through their product q_i k_i^T, and the products
 * are summed over the rows of a head. Likewise, row i of v and column i of proj affect a model only
 * through their product. Training moves all products of one head in the same direction, so they
 * resemble each other. Products of different heads do not resemble each other. If the rows are
 * divided into a wrong number of heads, the products within a supposed head therefore resemble each
 * other less.
 */

/* Fills *out with the possible numbers of heads for attention of this width, the best supported
 * number first. Call this function after embed_dim is known. out->count is 0 if there are no
 * blocks, if the width is below 4 or above 4096, or if q, k and v cannot be read without the number
 * of heads. Returns false if the weights cannot be read. */
bool heads_read(const layout_map *map, int64_t width, heads_evidence *out, report *r);

/* === The order of queries, keys and values === */

/* key_bias_read finds out from trained biases whether query, key and value are stored head by head,
 * or all queries first. It is used if no name shows the order.
 *
 * The bias of a key adds the same number to all scores of a query, and softmax removes this number
 * again. Therefore the bias of a key stays as small as its initial value, or shrinks. Training
 * makes the biases of queries and values grow.
 */

/* Reads the biases blocks.N.attn.stacked.bias of the first 64 blocks N, and fills *out. Returns
 * false if the biases cannot be read. */
bool key_bias_read(const layout_map *map, int heads, key_bias_evidence *out, report *r);

/* === The order of normalisations === */

/* norm_order_read finds out from trained weights whether the norms of a block come before attention
 * and the MLP, or after their outputs are added.
 *
 * The model does not change if a norm's output is multiplied by numbers, and the columns of the
 * matrix that reads this output are divided by the same numbers. Training therefore moves the norm
 * and the columns in the same direction. As a result, the weights of a norm correlate with the
 * column lengths of the matrix that reads the norm. They hardly correlate with the column lengths
 * of other matrices.
 */

/* Fills *out with the evidence for both orders; `width` is the width of attention. Call this
 * function after embed_dim is known. Returns false if the weights cannot be read. */
bool norm_order_read(const layout_map *map, int64_t width, norm_order_evidence *out, report *r);

/* === The order of a patch === */

/* patch_order_read finds out from trained weights in which order the values of a patch are
 * flattened.
 *
 * The filters of a trained patch embedding are smooth: the weights of neighbouring pixels resemble
 * each other. Neighbours stay next to each other only in the right order.
 */

typedef struct patch_order_evidence {
    bool found;
    int order; /* the best order: one of PATCH_ORDER_... */
    /* The mean correlation of neighbouring pixels: `best` in the order `order`, `next` in the next
     * best order. */
    double best, next;
} patch_order_evidence;

/* Reads the matrix of patch_embed.proj.weight, whose axes have "(patch)". If `chans` is 0, the
 * number of channels is unknown: 3 channels are assumed if this makes the patches square, otherwise
 * 1 channel. With one channel the orders are the same. */
bool patch_order_read(const layout_map *map, int64_t chans, patch_order_evidence *evidence,
                      report *r);

#endif
