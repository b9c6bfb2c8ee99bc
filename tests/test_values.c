/* test_values.c - checks each enum of a model. The values of the enum must be accepted, and larger
 * values refused. No two values may give the same outputs, so the test reports a new value that has
 * no effect.
 */
#define VIT_TOOLS
#include "../vit.h"

#include "test.h"
#include "tiny_model.h"

enum { LARGEST = 8, NUM_LOGITS = 5 };

/* Computes the scores of a tiny model with these options in plain C. Returns false if the model
 * cannot run. */
static int run(const tiny_options *o, float scores[NUM_LOGITS]) {
    vit_model model;
    tiny_file file = tiny_build(o);
    float *output = tiny_selftest_output(&file);
    CHECK(output != NULL);
    if (output) {
        memcpy(scores, output, NUM_LOGITS * sizeof *scores);
        CHECK(vit_model_open_memory(file.data, file.size, 0, &model) == VIT_OK);
        vit_scores(&model, scores);
        vit_model_close(&model);
        CHECK(scores[0] - scores[0] == 0); /* The score is finite. */
    }
    free(output);
    tiny_free(&file);
    return output != NULL;
}

/* Sets the options that the field `name` requires for this value. */
static void prepare(vit_config *c, const char *name, int value) {
    c->num_reg_tokens = 1;
    c->has_qkv_bias = strcmp(name, "attention") != 0;
    c->representation_dim = strcmp(name, "representation_act") == 0 ? 12 : 0;
    if (strcmp(name, "pool") == 0 && value >= VIT_POOL_LAST) {
        c->vocab_size = 9;
        c->in_chans = c->img_height = c->patch_size = 1;
        c->has_patch_bias = 0;
    }
    if (strcmp(name, "stem") == 0 && value != VIT_STEM_NONE) {
        c->stem_width = 32;
        c->stem_stage1 = value == VIT_STEM_RESNET;
        c->patch_size = value == VIT_STEM_CONV ? 8 : 4;
    }
}

/* Tests the values 0 to count - 1 of one enum. The field must accept no value above `largest`. */
static void values(const char *name, size_t offset, int count, int largest) {
    float scores[LARGEST][NUM_LOGITS];
    CHECK_MSG(largest == count - 1 && count <= LARGEST, "%s: %d values, largest %d", name, count,
              largest);
    for (int value = 0; value <= count && count <= LARGEST; value++) {
        tiny_options o = tiny_defaults();
        char detail[VIT_MAX_DETAIL];
        prepare(&o.config, name, value);
        memcpy((char *)&o.config + offset, &value, sizeof value);
        if (value == count) {
            CHECK_MSG(vit_config_check(&o.config, detail) != VIT_OK && strstr(detail, name),
                      "%s %d: %s", name, value, detail);
        } else if (run(&o, scores[value])) {
            for (int i = 0; i < value; i++) {
                CHECK_MSG(memcmp(scores[i], scores[value], sizeof scores[i]) != 0,
                          "%s: %d does what %d does", name, value, i);
            }
        }
    }
}

static int largest_of(const char *field) {
#define LARGEST_OF(type, name, required, smallest, largest)                                        \
    if (strcmp(field, #name) == 0) {                                                               \
        return (int)(largest);                                                                     \
    }
    VIT_FIELD_LIST(LARGEST_OF)
#undef LARGEST_OF
    return -1;
}

int main(void) {
#define VALUES(name, count) values(#name, offsetof(vit_config, name), count, largest_of(#name))
    VALUES(positions, VIT_NUM_POSITIONS);
    VALUES(stem, VIT_NUM_STEMS);
    VALUES(norm_type, VIT_NUM_NORM_TYPES);
    VALUES(block_type, VIT_NUM_BLOCK_TYPES);
    VALUES(rope, VIT_NUM_ROPES);
    VALUES(activation, VIT_NUM_ACTIVATIONS);
    VALUES(representation_act, VIT_NUM_REPRESENTATIONS);
    VALUES(attention, VIT_NUM_ATTENTIONS);
    VALUES(patch_cut, VIT_NUM_CUTS);
    VALUES(pool, VIT_NUM_POOLS);
    VALUES(head_activation, VIT_NUM_HEAD_ACTIVATIONS);
#undef VALUES
    return test_summary();
}
