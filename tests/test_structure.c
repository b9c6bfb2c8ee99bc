/* test_structure.c - tests the matching by structure on random models, and on checkpoints that have
 * the largest number of tensors and the names that take longest to match.
 *
 *     test_structure tests/data [MODELS]
 */
#include "layout/structure.h"

#include <time.h>

#include "named_tensors.h"
#include "test.h"

static const text_list none;

/* Matches the tensors by structure, and reads the result. Returns true if a model was found. */
static bool match(named_tensors *tensors, report *r) {
    size_t size, i;
    uint8_t *file = named_file(tensors, &size);
    structure found;
    checkpoint *c;
    bool good = false;
    *r = report_make();
    if (checkpoint_open_memory("random", file, size, &c, r)) {
        good = structure_find(c, &none, false, &found, r);
        CHECK(good != r->failed);
        for (i = 0; good && i < checkpoint_count(c); i++) {
            const checkpoint_tensor_info *t = checkpoint_tensor(c, i);
            float value;
            CHECK(checkpoint_read(c, t, t->count - 1, 1, &value, r));
        }
        structure_free(&found);
    }
    checkpoint_close(c);
    free(file);
    return good;
}

static void test_random(int models, bool unnamed) {
    uint64_t state = 1;
    uint8_t bytes[160];
    int i, found = 0;
    size_t k;
    for (i = 0; i < models; i++) {
        named_bytes source = { bytes, 0 };
        named_tensors tensors = { 0 };
        report r;
        for (k = 0; k < sizeof bytes; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = (uint8_t)(state >> 56);
        }
        source.size = 20 + (size_t)(state >> 33) % (sizeof bytes - 20);
        if (unnamed) named_unnamed(&source, &tensors);
        else named_model(&source, &tensors);
        found += match(&tensors, &r);
    }
    printf("%d of %d random models were found%s\n", found, models, unnamed ? " by order" : "");
    /* Matching recognizes 37 % of the models with names, and 0.5 % of those without names. A much
     * lower or higher share would mean that the rules of matching have changed. */
    CHECK(found >= models * (unnamed ? 2 : 300) / 1000);
    CHECK(found <= models * (unnamed ? 10 : 450) / 1000);
}

/* Matches the largest number of tensors. Their numbered names form many groups. In every
 * `vectors`-th group, the tensors have only one dimension. */
static void test_many(const char *what, const char *format, int modulus, int vectors) {
    named_tensors tensors = { 0 };
    char name[200];
    clock_t start;
    report r;
    int i;
    for (i = 0; i < 8192; i++) {
        const int dims[4] = { 2, i / modulus % vectors == 0 ? 0 : 2, 0, 0 };
        snprintf(name, sizeof name, format, i % modulus, i / modulus);
        named_add(&tensors, name, dims);
    }
    start = clock();
    (void)match(&tensors, &r);
    printf("%s: %.2f s: %.60s\n", what, (double)(clock() - start) / CLOCKS_PER_SEC, r.text);
    /* Without sanitizers, matching takes much less time. */
    CHECK(clock() - start < 20 * CLOCKS_PER_SEC);
}

int main(int argc, char **argv) {
    const int models = argc > 2 ? atoi(argv[2]) * 100 : 20000;
    test_random(models, false);
    test_random(models, true);
    test_many("no names", "%d.%d", 8192, 3);
    test_many("the same many times", "a.%d.b.%d.norm", 90, 1);
    test_many("one list", "l.%d.w%d.weight", 8192, 1);
    test_many("many blocks", "l.%d.w%d.weight", 1024, 4);
    test_many("many places", "l.%d.w%d.weight", 8, 3);
    test_many("too many places", "l.%d.w%d.weight", 2, 3);
    test_many("places as numbers", "l.%d.%d.weight", 8, 3);
    test_many("one block of lists", "block.q.%d.%d.weight", 90, 3);
    test_many("numbers everywhere", "0.1.2.3.%d.0.%d.1.weight", 90, 3);
    test_many("many lists", "%d.w%d.attn.q.weight", 16, 3);
    test_many("no numbers", "w%da%d.weight", 90, 2);
    test_many("no numbers, vectors alone", "n%da%d.weight", 8192, 1);
    test_many("words", "attn.q.k.v.norm.mlp.head.w%da%d.weight", 16, 2);
    test_many("words of a block", "l.%d.attn.q.k.v.norm.mlp.head.w%d.weight", 16, 3);
    test_many("biases", "w%da%d.bias", 8192, 1);
    return test_summary();
}
