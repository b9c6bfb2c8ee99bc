/* kernels.c - compares the matrix products of each tier on a Cortex-M with simple loops, bit for
 * bit, and counts their instructions per multiply-accumulate.
 *
 * The program needs a board of examples/firmware under QEMU with -icount shift=0, so that the clock
 * counts instructions. tests/firmware.sh builds and runs it. Last line: "N passed, N failed".
 */
#define VIT_BARE_METAL
#define VIT_STATIC
#define VIT_IMPLEMENTATION
#define VIT_TOOLS
#include "../../vit.h"

#include "../../examples/firmware/board.h"

enum { MAX_ROWS = 4, MAX_DEPTH = 400, RUNS = 8 };

/* Panels and rows of any type, with the alignment that kernels require. */
static union {
    float align;
    unsigned char bytes[MAX_DEPTH * 64 + 128];
} panel;
static union {
    float numbers[MAX_DEPTH + 4];
    unsigned char bytes[4 * (MAX_DEPTH + 4)];
} rows[MAX_ROWS];
static float inputs[MAX_ROWS][MAX_DEPTH]; /* the values of `rows`, as the reference reads them */
static float tile[VIT__MAX_TILE_ROWS * 16];

static uint32_t seed = 1;
static unsigned passed, failed;

static uint32_t random_bits(void) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static float random_float(void) {
    return ((float)(int32_t)(random_bits() & 0xffffu) - 32768.0f) / 32768.0f;
}

/* --- output ------------------------------------------------------------------------------- */

static void print_int(uint32_t value) {
    char digits[12];
    int i = 11;
    digits[i] = 0;
    do {
        digits[--i] = (char)('0' + value % 10);
    } while (value /= 10);
    board_print(digits + i);
}

static const char *const dtype_names[VIT_NUM_DTYPES] = { "f32", "f16", "bf16", "int8", "int4" };

static void print_case(vit_isa isa, int dtype, int count, int depth) {
    board_print(vit_isa_name(isa));
    board_print(" ");
    board_print(dtype_names[dtype]);
    board_print(", ");
    print_int((uint32_t)count);
    board_print(" x 16 x ");
    print_int((uint32_t)depth);
}

/* --- inputs ------------------------------------------------------------------------------- */

/* If `extreme` is set, every weight and input is the smallest or the largest possible. */
static void fill_rows(vit__form form, int depth, int extreme) {
    int i, r;
    for (r = 0; r < MAX_ROWS; r++) {
        const int32_t zero = (int32_t)(random_bits() & 255) - (form == VIT__FORM_S8 ? 128 : 0);
        rows[r].numbers[0] = random_float();
        memcpy(rows[r].bytes + 4, &zero, 4);
        for (i = 0; i < (depth + 3) / 4 * 4; i++) {
            const uint32_t bits = random_bits();
            const uint32_t q = extreme ? (bits & 1 ? 255 : 0) : bits & 255;
            rows[r].bytes[8 + i] = (unsigned char)(form == VIT__FORM_S8 ? q ^ 128 : q);
        }
    }
}

static void fill_int8(int depth, int extreme) {
    const int quads = (depth + 3) / 4;
    int i;
    for (i = 0; i < quads * 64; i++) {
        const uint32_t bits = random_bits();
        const int weight = extreme ? (bits & 1 ? 127 : -128) : (int)(bits & 255) - 128;
        panel.bytes[i] = i / 64 * 4 + i % 4 < depth ? (unsigned char)weight : 0;
    }
    for (i = 0; i < 16; i++) {
        const float scale = random_float();
        const int32_t sum = (int32_t)(random_bits() & 0xffffu) - 32768;
        memcpy(panel.bytes + quads * 64 + i * 4, &scale, 4);
        memcpy(panel.bytes + quads * 64 + 64 + i * 4, &sum, 4);
    }
}

/* Fills the panel with random weights of int4, as a file stores them. Places beyond the last weight
 * contain 8, which stands for zero. */
static void fill_int4(int depth, int extreme) {
    const int size = (int)vit__panel_bytes(VIT_I4, depth);
    int i;
    for (i = 0; i < size; i++) { /* an upper byte that gives scales of ordinary size */
        const int group = i / VIT__I4_GROUP, at = i % VIT__I4_GROUP;
        const int k = 32 * group + (at - 32) / 64 * 4 + at % 4;
        const uint32_t bits = random_bits();
        uint32_t low = extreme ? bits & 8 : bits & 15, high = extreme ? bits >> 4 & 8 : bits >> 4;
        low = k < depth ? low : 8;
        high = k + 16 < depth ? high & 15 : 8;
        panel.bytes[i] = (unsigned char)(at >= 32 ? low | high << 4 : i % 2 ? 0x3a : bits);
    }
    for (i = 0; i < 16; i++) {
        const float sum = random_float();
        memcpy(panel.bytes + size - 64 + i * 4, &sum, 4);
    }
}

/* Fills the panel with random weights of a floating-point type, and the rows with random inputs.
 * All weights are finite and of ordinary size. */
static void fill_floats(vit_dtype dtype, vit__form form, int depth) {
    const int size = (int)vit__panel_bytes(dtype, depth);
    int i, r;
    for (i = 0; i < size; i++) {
        panel.bytes[i] = (unsigned char)random_bits();
    }
    for (i = 0; i < size / 4 && dtype == VIT_F32; i++) {
        const float weight = random_float();
        memcpy(panel.bytes + i * 4, &weight, 4);
    }
    for (i = 1; i < size && dtype != VIT_F32; i += 2) { /* the upper bytes of f16 and bf16 */
        panel.bytes[i] = (unsigned char)(0x3a + i % 5 / 4 * 0x80);
    }
    for (r = 0; r < MAX_ROWS; r++) {
        for (i = 0; i < depth; i++) {
            inputs[r][i] = rows[r].numbers[i] = random_float();
        }
        if (dtype == VIT_BF16) {
            vit__convert_bf16_scalar(VIT__FORM_ROUNDED, inputs[r], depth);
            vit__convert_scalar(form, rows[r].numbers, depth);
        }
    }
}

/* --- the reference ------------------------------------------------------------------------ */

static float int8_wanted(vit__form form, int row, int column, int depth) {
    const unsigned char *tail = panel.bytes + (depth + 3) / 4 * 64 + 4 * column;
    float scale;
    int32_t zero, sums;
    uint32_t sum = 0;
    int k;
    for (k = 0; k < depth; k++) {
        const int byte = rows[row].bytes[8 + k];
        const int q = form == VIT__FORM_S8 && byte > 127 ? byte - 256 : byte;
        const int weight = panel.bytes[k / 4 * 64 + column * 4 + k % 4];
        sum += (uint32_t)(q * (weight > 127 ? weight - 256 : weight));
    }
    memcpy(&scale, tail, 4);
    memcpy(&sums, tail + 64, 4);
    memcpy(&zero, rows[row].bytes + 4, 4);
    return (float)(int32_t)(sum - (uint32_t)zero * (uint32_t)sums) * (rows[row].numbers[0] * scale);
}

static float int4_wanted(vit__form form, int row, int column, int depth) {
    const unsigned char *group = panel.bytes;
    const int below = form == VIT__FORM_S8 ? 128 : 0;
    float chain = 0, weights;
    int32_t zero;
    int first, k;
    for (first = 0; first < depth; first += 32, group += VIT__I4_GROUP) {
        int32_t sum = 0;
        for (k = first; k < first + 32 && k < depth; k++) {
            const int byte = rows[row].bytes[8 + k];
            const int q = byte ^ below;
            const int both = group[32 + k % 16 / 4 * 64 + column * 4 + k % 4];
            sum += q * ((k % 32 < 16 ? both & 15 : both >> 4) - 8);
        }
        chain = vit__fma_scalar(
            (float)sum, vit__f16_to_f32((uint16_t)(group[2 * column] | group[2 * column + 1] << 8)),
            chain);
    }
    memcpy(&weights, group + 4 * column, 4);
    memcpy(&zero, rows[row].bytes + 4, 4);
    return vit__fma_scalar(-(float)(zero + below), weights, chain) * rows[row].numbers[0];
}

static float float_wanted(vit_dtype dtype, int row, int column, int depth) {
    float sum = 0;
    int i;
    for (i = 0; i < depth; i++) {
        const int k = dtype == VIT_BF16 && (i ^ 1) < depth ? i ^ 1 : i;
        const float weight = vit__weight(dtype, panel.bytes, column, k);
        sum = vit__fma_scalar(inputs[row][k], weight, sum);
    }
    return sum;
}

/* --- runs one product several times and counts the instructions ------------------------ */

/* Counts the instructions in 1000 ticks of the clock, with a loop of 2 instructions. */
static uint32_t instructions_per_1000_ticks(void) {
    const uint32_t start = board_clock();
    uint32_t turns = 2000000;
    __asm__ volatile("1:\n\tsubs %0, #1\n\tbne 1b" : "+l"(turns) : : "cc");
    return (uint32_t)(4000000000u / (board_clock() - start));
}

static void compare(const vit__kernels *kernels, vit_dtype dtype, int count, int depth) {
    const vit__form form = kernels->gemm[dtype].form;
    int r, n, wrong = 0;
    for (r = 0; r < count; r++) {
        for (n = 0; n < 16; n++) {
            const float wanted = dtype == VIT_I8   ? int8_wanted(form, r, n, depth)
                                 : dtype == VIT_I4 ? int4_wanted(form, r, n, depth)
                                                   : float_wanted(dtype, r, n, depth);
            wrong += vit__bits(wanted) != vit__bits(tile[16 * r + n]);
        }
    }
    passed += !wrong;
    failed += wrong != 0;
    if (wrong) {
        print_case(kernels->isa, (int)dtype, count, depth);
        board_print(": FAILED\n");
    }
}

static void run(const vit__kernels *kernels, vit_dtype dtype, int count, int depth) {
    vit__operands o;
    o.a = rows[0].bytes;
    o.lda = sizeof rows[0];
    o.rows = count;
    o.panel = panel.bytes;
    o.depth = depth;
    o.panels = 1;
    o.ldt = 16;
    o.fits16 = 0;
    kernels->gemm[dtype].run(tile, &o);
}

static void check(const vit__kernels *kernels, vit_dtype dtype, int count, int depth, int extreme) {
    const vit__form form = kernels->gemm[dtype].form;
    if (dtype >= VIT_I8) {
        fill_rows(form, depth, extreme);
        if (dtype == VIT_I8) {
            fill_int8(depth, extreme);
        } else {
            fill_int4(depth, extreme);
        }
    } else {
        fill_floats(dtype, form, depth);
    }
    run(kernels, dtype, count, depth);
    compare(kernels, dtype, count, depth);
}

/* The largest number of instructions per multiply-accumulate, in thousandths. 0 means no limit. */
static uint32_t limit_of(vit_isa isa, vit_dtype dtype) {
#if defined(__ARM_FEATURE_FMA)
    const uint32_t f32 = 4000;
#else
    const uint32_t f32 = 0; /* a call each */
#endif
    if (dtype == VIT_F32) {
        return f32;
    }
    if (dtype != VIT_I8) {
        return 0;
    }
    return isa == VIT_ISA_HELIUM ? 250 : isa == VIT_ISA_SMLAD ? 2000 : 4000;
}

static void measure(const vit__kernels *kernels, vit_dtype dtype, int depth) {
    const int count = kernels->gemm[dtype].tile_rows;
    const uint32_t macs = (uint32_t)(RUNS * count * 16 * depth);
    const uint32_t limit = limit_of(kernels->isa, dtype);
    uint32_t ticks = board_clock(), thousandths;
    unsigned good;
    int i;
    for (i = 0; i < RUNS; i++) {
        run(kernels, dtype, count, depth);
    }
    ticks = board_clock() - ticks;
    thousandths = (uint32_t)((uint64_t)ticks * instructions_per_1000_ticks() / macs);
    good = !limit || thousandths <= limit;
    passed += good;
    failed += !good;
    print_case(kernels->isa, (int)dtype, count, depth);
    board_print(": ");
    print_int(thousandths);
    board_print(good ? " thousandths of an instruction per multiply-accumulate\n"
                     : " thousandths of an instruction per multiply-accumulate: FAILED\n");
}

static const int depths[] = { 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 64, 100, 192, MAX_DEPTH };

int main(void) {
    const int num_depths = (int)(sizeof depths / sizeof depths[0]);
    int isa, dtype, i, count;
    board_clock_start();
    for (isa = VIT_ISA_SCALAR; isa < VIT_NUM_ISAS; isa++) {
        const vit__kernels *kernels = vit__choose_kernels((vit_isa)isa);
        for (dtype = 0; kernels && dtype < VIT_NUM_DTYPES; dtype++) {
            for (i = 0; i < num_depths; i++) {
                for (count = 1; count <= MAX_ROWS; count++) {
                    check(kernels, (vit_dtype)dtype, count, depths[i], count % 2);
                }
            }
            measure(kernels, (vit_dtype)dtype, 192);
        }
    }
    print_int(passed);
    board_print(" passed, ");
    print_int(failed);
    board_print(" failed\n");
    return failed != 0;
}
