/* check.c - checks, on the microcontroller itself, that the size of the arena is exact, that the
 * weights stay in flash, and that this build gives the converter's results. A damaged update must
 * be refused with the right code. Prints the checks that failed. The build makes small_model.h.
 */
#define VIT_BARE_METAL
#define VIT_NO_PREPROCESS
#define VIT_NO_TEXT
#define VIT_NO_TRACE
#define VIT_IMPLEMENTATION
#include "../../vit.h"

#include "board.h"
#include "small_model.h"

enum { CANARIES = 32, CANARY = 0x5a, INPUT = 64, CLASSES = 3 };

static vit_model model;
static unsigned char arena[CANARIES + SMALL_MODEL_WORKSPACE + CANARIES];
static float input[INPUT], logits[CLASSES], again[CLASSES];
static int failed;

/* RAM for an update that was received over the air. */
static __attribute__((aligned(VIT_ALIGN))) unsigned char update[SMALL_MODEL_SIZE];

static void print_number(int number) {
    char text[12], *p = text + sizeof text;
    unsigned rest = number < 0 ? 0u - (unsigned)number : (unsigned)number;
    *--p = '\0';
    do *--p = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) *--p = '-';
    board_print(p);
}

static void expect(const char *what, int found, int expected) {
    if (found == expected) return;
    failed = 1;
    board_print(what);
    board_print(": ");
    print_number(found);
    board_print(" instead of ");
    print_number(expected);
    board_print("\n");
}

/* --- the arena ------------------------------------------------------------------------------ */

static int canaries_live(const unsigned char *start) {
    const unsigned char *p;
    for (p = arena; p < arena + sizeof arena; p++)
        if ((p < start || p >= start + SMALL_MODEL_WORKSPACE) && *p != CANARY) return 0;
    return 1;
}

/* A session whose arena has exactly the needed number of bytes, at any address, must write only
 * into the arena. */
static void check_arena(void) {
    vit_session session;
    vit_outputs outputs;
    int i;
    memset(&outputs, 0, sizeof outputs);
    outputs.logits = again;
    expect("workspace", (int)vit_workspace_size(&model, NULL), SMALL_MODEL_WORKSPACE);
    expect("one byte less",
           vit_session_init(&session, &model, NULL, arena, SMALL_MODEL_WORKSPACE - 1),
           VIT_ERROR_MEMORY);
    for (i = 0; i < CANARIES; i++) {
        memset(arena, CANARY, sizeof arena);
        expect("session",
               vit_session_init(&session, &model, NULL, arena + i, SMALL_MODEL_WORKSPACE), VIT_OK);
        expect("forward", vit_forward(&session, &(vit_input){ .pixels = input }, &outputs), VIT_OK);
        expect("canaries", canaries_live(arena + i), 1);
        if (i) expect("the same bits", memcmp(logits, again, sizeof logits), 0);
        memcpy(logits, again, sizeof logits);
    }
}

static void check_selftest(void) {
    vit_session session;
    expect("session", vit_session_init(&session, &model, NULL, arena, sizeof arena), VIT_OK);
    expect("self-test", vit_selftest(&session, input, logits, NULL), VIT_OK);
}

/* --- the weights ---------------------------------------------------------------------------- */

static void check_weights(void) {
    const unsigned char *start = small_model_data, *end = start + SMALL_MODEL_SIZE;
    vit_tensor tensor;
    int i;
    for (i = 0; vit_model_tensor(&model, i, &tensor); i++) {
        const unsigned char *data = (const unsigned char *)tensor.data;
        expect("a tensor lies in the array", data >= start && data + tensor.size <= end, 1);
    }
}

/* --- damaged updates ------------------------------------------------------------------------ */

static void restore(void) { memcpy(update, small_model_data, SMALL_MODEL_SIZE); }

static int open_update(size_t size) {
    static vit_model damaged;
    return vit_model_open_memory(update, size, VIT_OPEN_VERIFY, &damaged);
}

/* Opens the update with the bits `flip` of one byte inverted. */
static int open_with(int at, int flip) {
    int result;
    update[at] = (unsigned char)(update[at] ^ flip);
    result = open_update(SMALL_MODEL_SIZE);
    update[at] = (unsigned char)(update[at] ^ flip);
    return result;
}

static void check_cuts(void) {
    expect("whole", open_update(SMALL_MODEL_SIZE), VIT_OK);
    expect("nothing", open_update(0), VIT_ERROR_TRUNCATED);
    expect("a header less a byte", open_update(VIT_HEADER_SIZE - 1), VIT_ERROR_TRUNCATED);
    expect("a header", open_update(VIT_HEADER_SIZE), VIT_ERROR_TRUNCATED);
    expect("half", open_update(SMALL_MODEL_SIZE / 2), VIT_ERROR_TRUNCATED);
    expect("all but a byte", open_update(SMALL_MODEL_SIZE - 1), VIT_ERROR_TRUNCATED);
}

static void check_damage(void) {
    int i, accepted = 0;
    expect("magic", open_with(0, 1), VIT_ERROR_MAGIC);
    expect("text-mode transfer", open_with(4, '\r' ^ '\n'), VIT_ERROR_MAGIC);
    expect("version", open_with(VIT_HEADER_VERSION, 3), VIT_ERROR_VERSION);
    expect("a later version", open_with(VIT_HEADER_VERSION + 1, 1), VIT_ERROR_VERSION);
    expect("checksum", open_with(VIT_HEADER_CHECKSUM, 1), VIT_ERROR_CORRUPT);
    expect("reserved", open_with(VIT_HEADER_RESERVED, 1), VIT_ERROR_CORRUPT);
    expect("the last weight", open_with(SMALL_MODEL_SIZE - 60, 1), VIT_ERROR_CORRUPT);
    for (i = 0; i < SMALL_MODEL_SIZE; i++) accepted += open_with(i, 1 << i % 8) == VIT_OK;
    expect("accepted images with a wrong bit", accepted, 0);
}

static void check_erased(void) {
    memset(update, 0xff, SMALL_MODEL_SIZE);
    expect("erased flash", open_update(SMALL_MODEL_SIZE), VIT_ERROR_MAGIC);
    memset(update, 0, SMALL_MODEL_SIZE);
    expect("zeros", open_update(SMALL_MODEL_SIZE), VIT_ERROR_MAGIC);
}

static void check_alignment(void) {
    vit_model unaligned;
    expect("an address of 8 modulo 16",
           vit_model_open_memory(small_model_data + 8, SMALL_MODEL_SIZE - 8, 0, &unaligned),
           VIT_ERROR_ALIGNMENT);
    expect("no address", vit_model_open_memory(NULL, 0, 0, &unaligned), VIT_ERROR_ARGUMENT);
}

int main(void) {
    expect("open",
           vit_model_open_memory(small_model_data, SMALL_MODEL_SIZE, VIT_OPEN_VERIFY, &model),
           VIT_OK);
    expect("input", model.config.img_height * model.config.img_width, INPUT);
    expect("classes", model.config.num_classes, CLASSES);
    if (failed) return 1;
    vit_selftest_input(&model.config, input);
    check_arena();
    check_selftest();
    check_weights();
    restore();
    check_cuts();
    check_damage();
    check_erased();
    check_alignment();
    return failed;
}
