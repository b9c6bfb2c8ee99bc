/* test_math.c - tests exp, gelu, tanh, sqrt, fma, half floats, and the kernels of each tier, which
 * must agree to the last bit.
 *
 *     test_math [all]      `all` tests functions and half-float roundings over all 2^32 floats
 */
#define VIT_IMPLEMENTATION
#define VIT_TOOLS
#include "../vit.h"

#include "test.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 1;

static uint32_t random_bits(void) {
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

/* Returns a number in [-1, 1), uniformly distributed. */
static float random_float(void) { return (float)(random_bits() >> 8) / 8388608.0f - 1.0f; }

static bool same_float(float a, float b) {
    return vit__bits(a) == vit__bits(b) || (a != a && b != b);
}

/* Returns the distance between `got` and `wanted`, in units of the last place of `wanted`. */
static double ulps(float got, double wanted) {
    int exponent;
    frexp(wanted, &exponent);
    if (exponent < -125) {
        exponent = -125;
    }
    return fabs((double)got - wanted) / ldexp(1, exponent - 24);
}

/* --- functions ------------------------------------------------------------ */

/* The largest accepted error of exp in ulp. The measured errors are 0.882 with fused multiply-add
 * and 1.156 without. */
#if defined(VIT_NO_FMA)
static const double exp_error = 1.2;
#else
static const double exp_error = 1;
#endif

static float gelu(float x) { return vit__gelu_scalar(vit__splat_scalar(x)).r0; }

static void test_exp(void) {
    double worst = 0;
    for (int i = -87 * 20000; i <= 88 * 20000; i++) {
        float x = (float)i / 20000.0f;
        worst = fmax(worst, ulps(vit__exp_of_scalar(x), exp((double)x)));
    }
    printf("exp    %.3f ulp\n", worst);
    CHECK(worst < exp_error);
    CHECK(vit__exp_of_scalar(0) == 1);
    CHECK(vit__exp_of_scalar(-0.0f) == 1);
    for (float x = -87.5f; x > -3e38f; x *= 1.7f) {
        float y = vit__exp_of_scalar(x);
        CHECK(y >= 0 && y < 2e-38f);
    }
    CHECK(vit__exp_of_scalar(-(float)INFINITY) < 2e-38f);
    CHECK(vit__is_nan(vit__exp_of_scalar((float)NAN)));
}

/* Compares gelu with x / 2 (1 + erf(x / sqrt 2)) in double. The error is relative to |x|, because 1
 * + erf loses relative precision for negative x, also in PyTorch. */
static void test_gelu(void) {
    double worst = 0, tail = 0;
    for (int i = -400000; i <= 400000; i++) {
        float x = (float)i / 40000.0f;
        double wanted = 0.5 * (double)x * erfc(-(double)x * 0.70710678118654752440);
        double error = fabs((double)gelu(x) - wanted);
        if (x != 0) {
            worst = fmax(worst, error / fabs((double)x));
        }
    }
    for (float x = 4; x < 1e38f; x *= 1.01f) {
        tail = fmax(tail, fabs((double)gelu(-x)) / (double)x);
        CHECK(ulps(gelu(x), (double)x * 0.5 * erfc(-(double)x * 0.7071)) < 2);
    }
    printf("gelu   %.1e |x|, %.1e |x| below -4\n", worst, tail);
    CHECK(worst < 3e-7);
    CHECK(tail < 4e-5); /* |gelu(-4)| / 4 is 3.2e-5. test_gelu_far tests the rest. */
    CHECK(gelu(0) == 0);
    CHECK(vit__is_nan(gelu((float)NAN)));
    CHECK(gelu((float)INFINITY) == (float)INFINITY);
}

/* Tests gelu of large negative numbers. The erf of such a number is -1 in float, so the result must
 * be nearly 0. */
static void test_gelu_far(void) {
    double worst = 0;
    for (float x = 5.6f; x < 3e38f; x *= 1.003f) {
        worst = fmax(worst, fabs((double)gelu(-x)));
    }
    CHECK_MSG(worst < 1e-6, "gelu(x << 0) reaches %g", worst);
}

static void test_tanh(void) {
    double worst = 0, odd = 0;
    for (int i = -400000; i <= 400000; i++) {
        float x = (float)i / 40000.0f;
        float y = vit__tanh_of_scalar(x);
        worst = fmax(worst, ulps(y, tanh((double)x)));
        odd += vit__tanh_of_scalar(-x) != -y;
    }
    printf("tanh   %.3f ulp\n", worst);
    CHECK(worst < 8);
    CHECK(odd == 0);
    for (float x = 10; x < 3e38f; x *= 2) {
        CHECK(vit__tanh_of_scalar(x) == 1 && vit__tanh_of_scalar(-x) == -1);
    }
    for (float x = 0.2f; x > 1e-38f; x /= 1.7f) {
        CHECK(ulps(vit__tanh_of_scalar(x), tanh((double)x)) < 4);
    }
    CHECK(vit__tanh_of_scalar((float)INFINITY) == 1);
    CHECK(vit__is_nan(vit__tanh_of_scalar((float)NAN)));
}

static void test_sqrt(bool all) {
    long wrong = 0;
    uint32_t step = all ? 1 : 9973;
    for (uint64_t bits = 0; bits <= 0x7f800000u; bits += step) {
        float x = vit__float((uint32_t)bits);
        wrong += !same_float(vit__sqrt(x), sqrtf(x));
    }
    for (int i = -2000; i <= 2000; i++) { /* These numbers lie around squares and powers of two. */
        for (int exponent = -149; exponent <= 127; exponent++) {
            float x = vit__float(vit__bits((float)ldexp(1, exponent)) + (uint32_t)i);
            wrong += x >= 0 && !same_float(vit__sqrt(x), sqrtf(x));
        }
        float square = (float)i * (float)i;
        wrong += vit__sqrt(square) != fabsf((float)i);
    }
    CHECK_MSG(wrong == 0, "%ld square roots differ", wrong);
    CHECK(same_float(vit__sqrt(-1), (float)NAN) && same_float(vit__sqrt((float)NAN), (float)NAN));
    CHECK(vit__sqrt((float)INFINITY) == (float)INFINITY);
    CHECK(vit__bits(vit__sqrt(-0.0f)) == 0x80000000u && vit__bits(vit__sqrt(0.0f)) == 0);
}

/* Returns true if g is between -0.17 and max(x, 0) + |x| / 2^23, as gelu(x) is: erf may exceed 1 a
 * little. If x is minus infinity, g must be NaN, as in PyTorch. */
static bool gelu_in_range(float x, float g) {
    const double beyond = fabs((double)x) * 0x1p-23;
    if (vit__bits(x) == 0xff800000u) return g != g;
    return (double)g <= (x > 0 ? (double)x : 0) + beyond && g > -0.17f;
}

/* Finds the largest errors for every `step`-th float. The errors of exp (where it is not constant)
 * and of tanh are in ulp. The error of gelu is relative to |x|. */
static void test_every_float(uint32_t step) {
    double exp_worst = 0, tanh_worst = 0, gelu_worst = 0;
    /* The number of results that are NaN or out of range. */
    long wrong = 0;
    for (uint64_t bits = 0; bits <= 0xffffffffu; bits += step) {
        const float x = vit__float((uint32_t)bits), e = vit__exp_of_scalar(x);
        const float t = vit__tanh_of_scalar(x), g = gelu(x);
        if (x != x) {
            wrong += e == e || t == t || g == g;
            continue;
        }
        wrong += !(e > 0) || !(t >= -1 && t <= 1) || !gelu_in_range(x, g);
        if (x >= -87 && x <= 88) exp_worst = fmax(exp_worst, ulps(e, exp((double)x)));
        if (t != 0) tanh_worst = fmax(tanh_worst, ulps(t, tanh((double)x)));
        if (fabsf(x) > 1e-30f && fabsf(x) < 1e30f) { /* Half a subnormal may be inexact. */
            double wanted = 0.5 * (double)x * erfc(-(double)x * 0.70710678118654752440);
            gelu_worst = fmax(gelu_worst, fabs((double)g - wanted) / fabs((double)x));
        }
    }
    printf("of every %u floats: exp %.4f ulp, tanh %.4f ulp, gelu %.2e |x|\n", (unsigned)step,
           exp_worst, tanh_worst, gelu_worst);
    CHECK_MSG(wrong == 0, "%ld values out of range", wrong);
    CHECK(exp_worst < exp_error && tanh_worst < 8 && gelu_worst < 3e-7);
}

/* --- fused multiply-add ----------------------------------------------------- */

#if !defined(VIT_NO_FMA) && !defined(_WIN32) /* The fmaf of Windows is wrong in the last bit. */
static long wrong_fmas;

static void one_fma(float a, float b, float c) {
    float got = vit__fma_scalar(a, b, c), wanted = fmaf(a, b, c);
    if (!same_float(got, wanted)) {
        if (wrong_fmas++ < 20) {
            printf("fma(%a, %a, %a) = %a, not %a\n", (double)a, (double)b, (double)c, (double)got,
                   (double)wanted);
        }
    }
}

static void test_fma_random(void) {
    /* These are random bits, which may be NaN, infinite or subnormal. */
    for (int i = 0; i < 3000000; i++) {
        one_fma(vit__float(random_bits()), vit__float(random_bits()), vit__float(random_bits()));
    }
    /* These sums nearly cancel, so that double rounding would show. */
    for (int i = 0; i < 3000000; i++) {
        float a = random_float(), b = random_float(), product = a * b;
        one_fma(a, b, -product);
        one_fma(a, b, vit__float(vit__bits(-product) + random_bits() % 5 - 2));
        one_fma(a, b, (float)ldexp((double)random_float(), (int)(random_bits() % 80) - 60));
    }
    for (int i = 0; i < 1000000; i++) { /* These results lie below the smallest normal number. */
        float a = (float)ldexp((double)random_float(), -(int)(random_bits() % 80));
        float b = (float)ldexp((double)random_float(), -(int)(random_bits() % 80));
        one_fma(a, b, (float)ldexp((double)random_float(), -100 - (int)(random_bits() % 50)));
    }
}

/* Tests sums in the middle of two floats. A last term that is too small for the precision of double
 * decides how such a sum is rounded. */
static void test_fma_ties(void) {
    for (int i = 0; i < 200000; i++) {
        uint32_t odd = random_bits() & 0xfffffe;
        float a = 1 + (float)(random_bits() % 4096 + 1) / 8388608.0f;
        float b = 1 + (float)(random_bits() % 4096 + 1) / 8388608.0f;
        int exponent = (int)(random_bits() % 100);
        one_fma(a, b, (float)ldexp((double)(odd | 1), exponent));
        one_fma(a, -b, (float)ldexp((double)(odd | 1), exponent));
        one_fma((float)ldexp(1, 60), (float)ldexp(1, exponent - 50), a);
        one_fma((float)ldexp((double)(odd | 1), 3), (float)ldexp(1, exponent), b);
    }
}

static void test_fma_edges(void) {
    static const uint32_t edges[] = { 0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff,
                                      0x00800000, 0x00800001, 0x3f7fffff, 0x3f800000, 0xbf800000,
                                      0x3f800001, 0x7f7fffff, 0xff7fffff, 0x7f000000, 0x7f800000,
                                      0xff800000, 0x7fc00000, 0x4b000000, 0x4b7fffff, 0x33800000,
                                      0x33800001, 0x0c000000, 0x1a000000, 0x20000000, 0x5f800000,
                                      0x5f7fffff, 0x34000000, 0x40490fdb };
    enum { COUNT = sizeof edges / sizeof edges[0] };
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < COUNT; j++) {
            for (int k = 0; k < COUNT; k++) {
                one_fma(vit__float(edges[i]), vit__float(edges[j]), vit__float(edges[k]));
            }
        }
    }
}

static void test_fma(void) {
    test_fma_edges();
    test_fma_ties();
    test_fma_random();
    CHECK_MSG(wrong_fmas == 0, "%ld fused multiply-adds differ", wrong_fmas);
}
#endif

/* --- half floats ------------------------------------------------------------ */

static double half_value(uint32_t h) {
    double sign = h >> 15 ? -1 : 1;
    int exponent = (int)(h >> 10 & 31);
    double fraction = (double)(h & 1023);
    if (exponent == 31) {
        return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    }
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static void test_f16_all(void) {
    long wrong = 0, back = 0;
    for (uint32_t h = 0; h < 65536; h++) {
        double wanted = half_value(h);
        float got = vit__f16_to_f32((uint16_t)h);
        bool nan = wanted != wanted;
        wrong += nan ? got == got : (double)got != wanted || vit__bits(got) >> 31 != h >> 15;
        uint16_t again = vit__f32_to_f16(got);
        back += nan ? (again & 0x7c00) != 0x7c00 || (again & 0x3ff) == 0 : again != h;
    }
    CHECK_MSG(wrong == 0, "%ld halves widen wrongly", wrong);
    CHECK_MSG(back == 0, "%ld halves do not come back", back);
}

/* Tests numbers between two neighbouring halves. The middle is rounded to the even half, and any
 * other number to the nearer half. */
static void test_f16_rounding(void) {
    long wrong = 0;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double low = half_value(h), high = h + 1 < 0x7c00 ? half_value(h + 1) : 65536;
        float tie = (float)((low + high) / 2);
        uint32_t even = h & 1 ? h + 1 : h;
        for (uint32_t s = 0; s <= 0x8000; s += 0x8000) {
            uint32_t sign = s << 16, bits = vit__bits(tie);
            wrong += vit__f32_to_f16(vit__float(sign | bits)) != (s | even);
            wrong += vit__f32_to_f16(vit__float(sign | (bits + 1))) != (s | (h + 1));
            wrong += vit__f32_to_f16(vit__float(sign | (bits - 1))) != (s | h);
        }
    }
    CHECK_MSG(wrong == 0, "%ld roundings to f16 are wrong", wrong);
    CHECK(vit__f32_to_f16(65520) == 0x7c00 && vit__f32_to_f16(65519.996f) == 0x7bff);
    CHECK(vit__f32_to_f16(3e38f) == 0x7c00 && vit__f32_to_f16(-(float)INFINITY) == 0xfc00);
    CHECK((vit__f32_to_f16(vit__float(0x7f800001)) & 0x7fff) > 0x7c00);
    CHECK((vit__f32_to_f16(vit__float(0xffffffff)) & 0x7fff) > 0x7c00);
    CHECK(vit__f32_to_f16(vit__float(1)) == 0 && vit__f32_to_f16(vit__float(0x80000001)) == 0x8000);
}

static void test_bf16(void) {
    long wrong = 0;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = vit__bf16_to_f32((uint16_t)h);
        bool nan = (h & 0x7fff) > 0x7f80;
        wrong += vit__bits(x) != h << 16;
        wrong += nan ? (vit__f32_to_bf16(x) & 0x7fff) <= 0x7f80 : vit__f32_to_bf16(x) != h;
        /* This bf16 number is finite, so the middle is rounded to the even neighbour. */
        if ((h & 0x7fff) < 0x7f80) {
            wrong += vit__f32_to_bf16(vit__float(h << 16 | 0x8000)) != (h & 1 ? h + 1 : h);
            wrong += vit__f32_to_bf16(vit__float(h << 16 | 0x8001)) != h + 1;
            wrong += vit__f32_to_bf16(vit__float(h << 16 | 0x7fff)) != h;
        }
    }
    CHECK_MSG(wrong == 0, "%ld conversions of bf16 are wrong", wrong);
    CHECK((vit__f32_to_bf16(vit__float(0x7f800001)) & 0x7fff) > 0x7f80);
    CHECK((vit__f32_to_bf16(vit__float(0x7fffffff)) & 0x7fff) > 0x7f80);
}

/* --- kernels: compares every tier with the scalar tier --------------------------------- */

enum { MAX_N = 65, PAD = 16 };

/* Fills x with random numbers. If `special` is not negative, one number is NaN, infinite, subnormal
 * or -0. */
static void fill(float *x, int n, float scale, int special) {
    static const uint32_t specials[] = { 0x7fc00000, 0x7f800000, 0xff800000, 0x00000001,
                                         0x80000000 };
    for (int i = 0; i < n; i++) {
        x[i] = scale * random_float();
    }
    if (special >= 0 && n > 0) {
        x[random_bits() % (uint32_t)n] = vit__float(specials[special]);
    }
}

/* Fills x with weights as a file stores them. */
static void fill_stored(float *x, int n) {
    float numbers[MAX_N + PAD];
    fill(numbers, n, 1, -1);
    vit__copy_stored(x, numbers, (size_t)n);
}

/* Returns true if both arrays have NaNs in the same places, and all other numbers have the same
 * bits. */
static bool same_floats(const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++) {
        if (!same_float(a[i], b[i])) {
            return false;
        }
    }
    return true;
}

static void kernel_norm(const vit__kernels *k, int n, int special) {
    float x[MAX_N], weight[MAX_N], bias[MAX_N], a[MAX_N + PAD] = { 0 }, b[MAX_N + PAD] = { 0 };
    fill(x, n, 3, special);
    fill_stored(weight, n);
    fill_stored(bias, n);
    for (int rms = 0; rms < 2; rms++) {
        const vit__norm_spec norm = { weight, rms ? NULL : bias, n, 1e-6f };
        vit__kernels_scalar.norm(a, x, &norm);
        k->norm(b, x, &norm);
        CHECK_MSG(same_floats(a, b, n + PAD), "norm of %d, %s", n, vit_isa_name(k->isa));
    }
    for (int i = n; i < n + PAD; i++) {
        CHECK(b[i] == 0);
    }
}

static void kernel_softmax(const vit__kernels *k, int n, int special, bool scaled) {
    float a[MAX_N + PAD], b[MAX_N + PAD], numbers[MAX_N + PAD];
    const float *const steps = scaled ? numbers : NULL;
    const int room = vit__round_up(n, 16);
    double sum = 0;
    fill(a, n, 10, special);
    fill(numbers, n + PAD, 1, -1);
    memset(a + n, 0, PAD * sizeof(float));
    memcpy(b, a, sizeof a);
    float x = vit__kernels_scalar.softmax(a, steps, n, 0.35f), y = k->softmax(b, steps, n, 0.35f);
    CHECK_MSG(same_floats(a, b, n) && same_floats(a + room, b + room, n + PAD - room) &&
                  same_float(x, y),
              "softmax of %d, %s", n, vit_isa_name(k->isa));
    for (int i = 0; i < n; i++) {
        sum += (double)b[i] * (double)y;
    }
    if (special < 0) {
        CHECK(fabs(sum - 1) < 1e-6);
    } else if (special == 0) {
        CHECK(sum != sum);
    }
}

/* Tests softmax of finite numbers, from the smallest to the largest floats. The results must be
 * from 0 to 1, and their sum must be 1. */
static void kernel_softmax_range(const vit__kernels *k, int n) {
    for (int exponent = -149; exponent <= 127; exponent += 4) {
        float x[MAX_N + PAD] = { 0 };
        double sum = 0;
        int bad = 0;
        for (int i = 0; i < n; i++) {
            x[i] = (float)ldexp((double)random_float(), exponent);
        }
        x[0] = exponent > 120 ? -FLT_MAX : x[0];
        x[n - 1] = exponent > 120 ? FLT_MAX : x[n - 1];
        const float factor = k->softmax(x, NULL, n, 1);
        for (int i = 0; i < n; i++) {
            const double weight = (double)x[i] * (double)factor;
            bad += !(weight >= 0 && weight <= 1.000001);
            sum += weight;
        }
        CHECK_MSG(bad == 0 && fabs(sum - 1) < 1e-6, "softmax of %d by 2^%d, %s: sum %.8f", n,
                  exponent, vit_isa_name(k->isa), sum);
    }
}

/* Tests the norm of equal numbers, which have no deviation. If the mean is exact, the result must
 * be exactly the bias. If the mean is rounded, the result may differ from the bias by up to the
 * weight, because the norm enlarges rounding errors. */
static void kernel_norm_constant(const vit__kernels *k, int n) {
    static const float values[] = { 0, 1, -3, 0.125f, 1024, 0.1f, -7e-5f, 1e-30f, 3.3e10f, -1e15f };
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        float x[MAX_N], weight[MAX_N], bias[MAX_N], out[MAX_N + PAD];
        int exact = v < 5, bad = 0;
        fill_stored(weight, n);
        fill_stored(bias, n);
        for (int i = 0; i < n; i++) {
            x[i] = values[v];
        }
        k->norm(out, x, &(vit__norm_spec){ weight, bias, n, 1e-6f });
        for (int i = 0; i < n; i++) {
            const float w = vit__stored(weight + i);
            const float most = exact && (n & (n - 1)) == 0 ? 0 : 1.001f * fabsf(w);
            bad += !(fabsf(out[i] - vit__stored(bias + i)) <= most);
        }
        CHECK_MSG(bad == 0, "norm of %d times %g, %s: %d off", n, (double)values[v],
                  vit_isa_name(k->isa), bad);
    }
}

static void kernel_scale_add(const vit__kernels *k, int n, int special) {
    float x[MAX_N], y[MAX_N], a[MAX_N + PAD] = { 0 }, b[MAX_N + PAD] = { 0 };
    fill(x, n, 3, special);
    fill(y, n, 3, special);
    vit__kernels_scalar.scale(a, x, n, 0.7f);
    k->scale(b, x, n, 0.7f);
    CHECK_MSG(same_floats(a, b, n + PAD), "scale of %d, %s", n, vit_isa_name(k->isa));
    for (int scaled = 0; scaled < 2; scaled++) {
        vit__kernels_scalar.add(a, x, y, scaled ? x : NULL, n);
        k->add(b, x, y, scaled ? x : NULL, n);
        CHECK_MSG(same_floats(a, b, n + PAD), "add of %d, %s", n, vit_isa_name(k->isa));
    }
}

static void kernel_gate(const vit__kernels *k, int n, int special) {
    float x[2 * MAX_N], a[2 * MAX_N], b[2 * MAX_N];
    for (int activation = VIT_GELU; activation < VIT_NUM_ACTIVATIONS; activation++) {
        fill(x, 2 * n, 3, special);
        memcpy(a, x, sizeof a);
        memcpy(b, x, sizeof b);
        vit__kernels_scalar.gate((vit_activation)activation, a, n);
        k->gate((vit_activation)activation, b, n);
        CHECK_MSG(same_floats(a, b, 2 * n), "gate %d of %d, %s", activation, n,
                  vit_isa_name(k->isa));
    }
}

/* Rotates n pairs, each by its own angle, and compares with double precision. */
static void kernel_rotate(const vit__kernels *k, int n, int special) {
    float x[2 * MAX_N], a[2 * MAX_N], b[2 * MAX_N], cosine[MAX_N + PAD], sine[MAX_N + PAD];
    fill_stored(cosine, n);
    fill_stored(sine, n);
    for (int rope = VIT_ROPE_HALVES; rope <= VIT_ROPE_PAIRS; rope++) {
        int step = rope == VIT_ROPE_PAIRS ? 2 : 1, apart = rope == VIT_ROPE_PAIRS ? 1 : n;
        fill(x, 2 * n, 3, special);
        memcpy(a, x, sizeof x);
        memcpy(b, x, sizeof x);
        vit__kernels_scalar.rotate((vit_rope)rope, a, cosine, sine, n);
        k->rotate((vit_rope)rope, b, cosine, sine, n);
        CHECK_MSG(same_floats(a, b, 2 * n), "rotation %d of %d, %s", rope, n, vit_isa_name(k->isa));
        for (int i = 0; i < n && special < 0; i++) {
            double p = (double)x[i * step], q = (double)x[i * step + apart];
            double co = (double)vit__stored(cosine + i), si = (double)vit__stored(sine + i);
            CHECK(fabs((double)b[i * step] - (p * co - q * si)) < 1e-6);
            CHECK(fabs((double)b[i * step + apart] - (q * co + p * si)) < 1e-6);
        }
    }
}

/* Tests the form FORM_U8. The bytes must be those of plain C, followed by zeros. The floats after
 * them must not change. */
static void kernel_convert_bytes(const vit__kernels *k, int n, int special) {
    float a[MAX_N + PAD], b[MAX_N + PAD];
    fill(a, n + PAD, 3, special);
    memcpy(b, a, sizeof a);
    vit__kernels_scalar.convert(VIT__FORM_U8, a, n);
    k->convert(VIT__FORM_U8, b, n);
    CHECK_MSG(memcmp(a, b, VIT__U8_HEADER + (size_t)(n + 3) / 4 * 4) == 0 &&
                  same_floats(a + n, b + n, PAD),
              "int8 of %d, %s", n, vit_isa_name(k->isa));
}

/* Tests the form FORM_S8. Each byte must be the byte of FORM_U8 minus 128. Zeros must follow, and
 * the floats after them must not change. */
static void kernel_convert_signed(const vit__kernels *k, int n) {
    enum { HEADER = VIT__U8_HEADER };
    float u[MAX_N + PAD], s[MAX_N + PAD];
    unsigned char uq[4 * (MAX_N + PAD)], sq[4 * (MAX_N + PAD)];
    int32_t u_zero, s_zero;
    int wrong = 0, size = HEADER + (n + 7) / 8 * 8;
    fill(u, n + PAD, 3, -1);
    memcpy(s, u, sizeof u);
    k->convert(VIT__FORM_U8, u, n);
    k->convert(VIT__FORM_S8, s, n);
    memcpy(uq, u, sizeof u);
    memcpy(sq, s, sizeof s);
    memcpy(&u_zero, uq + 4, 4);
    memcpy(&s_zero, sq + 4, 4);
    for (int i = HEADER; i < size; i++) {
        wrong += sq[i] != (i < HEADER + n ? uq[i] ^ 128 : 0);
    }
    CHECK_MSG(wrong == 0, "int8 of %d, signed, %s: %d wrong", n, vit_isa_name(k->isa), wrong);
    CHECK(memcmp(uq, sq, 4) == 0 && s_zero == u_zero - 128);
    CHECK(same_floats(u + n, s + n, PAD));
}

#if VIT__HAS_I16
static double quantised(vit__form form, const float *row, int i) {
    const unsigned char *pair = (const unsigned char *)row + 2 * i;
    return form == VIT__FORM_I16 ? (double)(int16_t)(pair[0] | pair[1] << 8) : (double)row[i];
}

/* Tests the integer rows of attention. They must equal the rows of plain C. Without `steps`, the
 * Euclidean length of a row must be below 4096. */
static void kernel_quantise(const vit__kernels *k, int n, int special) {
    const vit__form form = k->gemm[VIT__I16].run ? VIT__FORM_I16 : VIT__FORM_F32;
    float x[MAX_N + PAD], steps[MAX_N + PAD], a[MAX_N + PAD], b[MAX_N + PAD];
    for (int scaled = 0; scaled < 2; scaled++) {
        double squares = 0;
        int wrong = 0;
        fill(x, n + PAD, 3, special);
        fill(steps, n + PAD, 1, -1);
        memcpy(a, x, sizeof a);
        memcpy(b, x, sizeof b);
        float p = vit__kernels_scalar.quantise(VIT__FORM_I16, a, scaled ? steps : NULL, n, 77.0f);
        float q = k->quantise(form, b, scaled ? steps : NULL, n, 77.0f);
        for (int i = 0; i < n && special < 0; i++) {
            const double x_i = quantised(VIT__FORM_I16, a, i);
            wrong += x_i != quantised(form, b, i);
            squares += x_i * x_i;
        }
        CHECK_MSG(wrong == 0 && same_float(p, q), "%d quantised, %s: %d wrong", n,
                  vit_isa_name(k->isa), wrong);
        CHECK(scaled || squares < 4096.0 * 4096.0);
    }
}
#endif

static void test_row_kernels(const vit__kernels *k) {
    for (int n = VIT__SIMD && VIT__HAS_INT8 ? 4 : MAX_N + 1; n <= MAX_N; n++) {
        kernel_convert_signed(k, n);
        for (int special = -1; special < 5; special++) {
            kernel_convert_bytes(k, n, special);
        }
    }
    for (int n = 0; n <= MAX_N; n++) {
        for (int special = -1; special < 5; special++) {
            kernel_scale_add(k, n, special);
            kernel_gate(k, n, special);
            kernel_rotate(k, n, special);
            if (n > 0) {
                kernel_norm(k, n, special);
                kernel_softmax(k, n, special, false);
#if VIT__HAS_I16
                kernel_softmax(k, n, special, true);
                kernel_quantise(k, n, special);
#endif
            }
        }
        if (n > 0) {
            kernel_softmax_range(k, n);
            kernel_norm_constant(k, n);
        }
    }
}

/* --- matrix product ------------------------------------------------------------- */

/* The kernels of the instruction set that is being tested. */
static const vit__kernels *kernels_here;
static int rounds_twice;

static float fma_here(float a, float b, float c) {
    if (rounds_twice) {
        return vit__multiply_add(a, b, c);
    }
#if defined(VIT_NO_FMA)
    return fmaf(a, b, c);
#else
    return vit__fma_scalar(a, b, c);
#endif
}

static float activate_here(int activation, float x) {
    float pair[2] = { x, 1 };
    kernels_here->gate((vit_activation)activation, pair, 1);
    return pair[0];
}

enum { GEMM_ROWS = 19, GEMM_COLS = 67, GEMM_DEPTH = 41 };

typedef struct gemm_case {
    float a[GEMM_ROWS * GEMM_DEPTH], w[GEMM_COLS * GEMM_DEPTH];
    /* These have the byte order of a file. */
    float bias[GEMM_COLS], gamma[GEMM_COLS];
    /* Matrix a in the form that the kernel reads. */
    float form[GEMM_ROWS * GEMM_DEPTH];
    VIT__ALIGNED_64 unsigned char panels[(GEMM_COLS + 15) / 16 * 16 * (GEMM_DEPTH + 3) * 4];
    /* The weights with the values that the panels contain. */
    float wide[GEMM_COLS * GEMM_DEPTH];
} gemm_case;

static void gemm_prepare(gemm_case *g, vit_dtype dtype, int cols, int depth, int rows,
                         int special) {
    size_t stride = vit_pack_panel(dtype, g->w, 1, depth, NULL);
    vit_tensor t;
    fill(g->a, rows * depth, 1, special);
    fill(g->w, cols * depth, 1, -1);
    fill_stored(g->bias, cols);
    fill_stored(g->gamma, cols);
    memset(&t, 0, sizeof t);
    t.dtype = dtype;
    t.layout = dtype == VIT_I4 ? VIT_LAYOUT_GROUPS : VIT_LAYOUT_PANELS;
    t.ndim = 2;
    t.dims[0] = cols;
    t.dims[1] = depth;
    t.data = g->panels;
    for (int n = 0; n < cols; n += 16) {
        vit_pack_panel(dtype, g->w + n * depth, cols - n < 16 ? cols - n : 16, depth,
                       g->panels + (size_t)(n / 16) * stride);
    }
    for (int n = 0; n < cols; n++) {
        vit_unpack_row(&t, n, g->wide + n * depth);
    }
}

/* Converts the rows of matrix a to the form that the kernels of this type read. */
static void gemm_convert(const vit__kernels *kernels, gemm_case *g, vit_dtype dtype, int rows,
                         int depth) {
    memcpy(g->form, g->a, sizeof g->a);
    for (int r = 0; r < rows; r++) {
        kernels->convert(kernels->gemm[dtype].form, g->form + r * depth, depth);
    }
}

/* The reference for floating-point types: one chain of fma over k. For bf16, the inputs are
 * rounded, and k has the order 1, 0, 3, 2. */
static float gemm_chain(const gemm_case *g, vit_dtype dtype, int r, int n, int depth) {
    float sum = 0;
    for (int i = 0; i < depth; i++) {
        int k = dtype == VIT_BF16 && (i ^ 1) < depth ? i ^ 1 : i;
        float x = g->a[r * depth + k];
        x = dtype == VIT_BF16 ? vit__bf16_to_f32(vit__f32_to_bf16(x)) : x;
        sum = fma_here(x, g->wide[n * depth + k], sum);
    }
    return sum;
}

/* A row of inputs, quantised as section ">>kernels" of vit.h describes. */
typedef struct gemm_inputs {
    int q[GEMM_DEPTH], zero;
    float scale;
} gemm_inputs;

static gemm_inputs gemm_quantise(const gemm_case *g, int r, int depth) {
    const float *x = g->a + r * depth;
    float low = 0, high = 0, inverse = 0;
    gemm_inputs in;
    in.scale = 0;
    for (int k = 0; k < depth; k++) {
        low = x[k] < low ? x[k] : low;
        high = x[k] > high ? x[k] : high;
    }
    if (high - low > 1e-30f) {
        in.scale = (high - low) / 254.99f;
        inverse = 254.99f / (high - low);
    }
    in.zero = (int)nearbyint(test_scaled(-low, inverse, rounds_twice));
    for (int k = 0; k < depth; k++) {
        double q = nearbyint(test_scaled(x[k], inverse, rounds_twice) + in.zero);
        in.q[k] = (int)(q < 0 ? 0 : q > 255 ? 255 : q);
    }
    return in;
}

/* The reference for int8. It adds integers exactly, and scales the sum once. */
static float gemm_integers(const gemm_case *g, int r, int n, int depth) {
    const gemm_inputs in = gemm_quantise(g, r, depth);
    const size_t stride = vit_pack_panel(VIT_I8, g->a, 1, depth, NULL);
    const unsigned char *panel = g->panels + (size_t)(n / 16) * stride;
    long long sum = 0;
    float column;
    for (int k = 0; k < depth; k++) {
        sum += (in.q[k] - in.zero) * (signed char)panel[k / 4 * 64 + n % 16 * 4 + k % 4];
    }
    vit__copy_stored(&column, panel + (depth + 3) / 4 * 64 + n % 16 * 4, 1);
    return (float)sum * (in.scale * column);
}

/* The reference for int4. It scales the integer sum of each group, and adds the groups in a
 * chain. */
static float gemm_groups(const gemm_case *g, int r, int n, int depth) {
    const gemm_inputs in = gemm_quantise(g, r, depth);
    const size_t stride = vit_pack_panel(VIT_I4, g->a, 1, depth, NULL);
    const unsigned char *panel = g->panels + (size_t)(n / 16) * stride;
    float chain = 0, weights;
    for (int first = 0; first < depth; first += 32, panel += 288) {
        const float scale = vit__f16_to_f32(
            (uint16_t)(panel[n % 16 * 2] | panel[n % 16 * 2 + 1] << 8));
        long long sum = 0;
        for (int k = first; k < depth && k < first + 32; k++) {
            const int byte = panel[32 + k % 16 / 4 * 64 + n % 16 * 4 + k % 4];
            sum += in.q[k] * ((k % 32 < 16 ? byte & 15 : byte >> 4) - 8);
        }
        chain = fma_here((float)sum, scale, chain);
    }
    vit__copy_stored(&weights, panel + n % 16 * 4, 1);
    return fma_here(-(float)in.zero, weights, chain) * in.scale;
}

static void gemm_reference(const gemm_case *g, vit_dtype dtype, int rows, int cols, int depth,
                           int mode, float *c) {
    for (int r = 0; r < rows; r++) {
        for (int n = 0; n < cols; n++) {
            float sum = dtype == VIT_I8   ? gemm_integers(g, r, n, depth)
                        : dtype == VIT_I4 ? gemm_groups(g, r, n, depth)
                                          : gemm_chain(g, dtype, r, n, depth);
            sum += vit__stored(&g->bias[n]);
            if (mode == 4) {
                sum = fma_here(sum, vit__stored(&g->gamma[n]), c[r * cols + n]);
            } else if (mode >= 5) {
                sum = activate_here(mode - 5, sum);
            }
            c[r * cols + n] = mode == 2 ? sum + c[r * cols + n] : sum;
        }
    }
}

/* Tests one product. Mode 2 tests the residual, mode 3 a special value in matrix a, mode 4
 * LayerScale, and modes from 5 on the activations. */
static void gemm_one(const vit__kernels *kernels, gemm_case *g, vit_dtype dtype, int rows, int cols,
                     int depth, int mode) {
    static float wanted[GEMM_ROWS * GEMM_COLS + 1], got[GEMM_ROWS * GEMM_COLS + 1];
    const void *panels = g->panels;
    const vit__layer layer = { (const float *)panels, g->bias, dtype, 0, cols, depth };
    vit__linear l;
    gemm_prepare(g, dtype, cols, depth, rows, mode == 3 && dtype < VIT_I8 ? 0 : -1);
    gemm_convert(kernels, g, dtype, rows, depth);
    for (int i = 0; i <= rows * cols; i++) {
        wanted[i] = got[i] = random_float();
    }
    vit__linear_init(&l, kernels, &layer);
    vit__linear_rows(&l, rows);
    l.a = g->form;
    l.lda = (size_t)depth * sizeof(float);
    l.out.c = got;
    l.out.ldc = (size_t)cols;
    l.out.act = mode >= 5 ? VIT__ACT(mode - 5) : VIT__NO_ACT;
    l.out.add = mode == 2 || mode == 4;
    l.out.gamma = mode == 4 ? g->gamma : NULL;
    gemm_reference(g, dtype, rows, cols, depth, mode, wanted);
    vit__gemm(&l, 0, l.num_tiles, 0, l.end_panel);
    CHECK_MSG(same_floats(wanted, got, rows * cols + 1), "%s, dtype %d, %dx%dx%d, mode %d",
              vit_isa_name(kernels->isa), (int)dtype, rows, cols, depth, mode);
}

static void test_gemm(const vit__kernels *kernels) {
    static gemm_case g;
    static const int cols[] = { 1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 67 };
    static const int depths[] = { 1, 2, 3, 4, 7, 16, 27, 41 };
    for (int dtype = 0; dtype < VIT_NUM_DTYPES; dtype++) {
        for (int rows = 1; rows <= GEMM_ROWS; rows++) {
            for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++) {
                int depth = depths[(c + (size_t)rows) % 8];
                depth = dtype == VIT_I8 && depth < 4 ? 4 : depth;
                depth = dtype == VIT_I4 && depth < 16 ? depth + 31 : depth;
                gemm_one(kernels, &g, (vit_dtype)dtype, rows, cols[c], depth,
                         (int)((c + (size_t)rows) % (5 + VIT_NUM_ACTIVATIONS)));
            }
        }
    }
}

/* Fills in extreme values of int8: inputs of 0 and 255, and lanes with the largest sums that fit 16
 * bits. If fits16 is 0, some lanes of -127 and 127 have sums that do not fit. */
static void fill_corners(gemm_case *g, int rows, int depth, int fits16) {
    static const signed char codes[2][8][4] = { { { -127, -127, -127, -127 },
                                                  { 127, 127, 127, 127 },
                                                  { 127, 127, 0, -127 },
                                                  { -127, -127, 0, 1 },
                                                  { 127, 1, 1, 0 },
                                                  { -127, -1, -1, 0 },
                                                  { -127, 127, -127, 127 },
                                                  { 127, 127, -127, -127 } },
                                                { { 127, 0, 0, 0 },
                                                  { 64, 63, 0, 0 },
                                                  { 1, 0, 63, 63 },
                                                  { 32, 32, 32, 31 },
                                                  { -127, 127, 0, 0 },
                                                  { -64, -63, 127, 0 },
                                                  { -32, -31, -32, -32 },
                                                  { 126, -126, 1, -1 } } };
    unsigned char *tail = g->panels + (depth + 3) / 4 * 64;
    for (int i = 0; i < rows * depth; i++) {
        g->a[i] = i < depth || random_bits() % 2 ? 1 : 0;
    }
    memset(g->panels, 0, sizeof g->panels);
    for (int n = 0; n < 16; n++) {
        const float scale = 1;
        int32_t sum = 0;
        for (int lane = 0; lane < (depth + 7) / 8 * 2; lane++) {
            const signed char *q = codes[fits16][n < 8 ? (uint32_t)n : random_bits() % 8];
            for (int i = 0; i < 4 && vit__lane_k(lane, i) < depth; i++) {
                g->panels[vit__panel_index(VIT_I8, n, vit__lane_k(lane, i))] = (unsigned char)q[i];
                sum += q[i];
            }
        }
        vit__copy_stored(tail + 4 * n, &scale, 1);
        vit__copy_stored(tail + 64 + 4 * n, &sum, 1);
    }
}

static void test_gemm_corners(const vit__kernels *kernels, int depth, int fits16) {
    enum { ROWS = 4 };
    static gemm_case g;
    static float wanted[ROWS * 16], got[ROWS * 16];
    const void *panels = g.panels;
    const vit__layer layer = {
        (const float *)panels, NULL, VIT_I8, (unsigned char)fits16, 16, depth
    };
    vit__linear l;
    memset(&g, 0, sizeof g);
    fill_corners(&g, ROWS, depth, fits16);
    CHECK(vit_fits16(g.panels, depth) == fits16);
    gemm_convert(kernels, &g, VIT_I8, ROWS, depth);
    vit__linear_init(&l, kernels, &layer);
    vit__linear_rows(&l, ROWS);
    l.a = g.form;
    l.lda = (size_t)depth * sizeof(float);
    l.out.c = got;
    l.out.ldc = 16;
    gemm_reference(&g, VIT_I8, ROWS, 16, depth, 0, wanted);
    vit__gemm(&l, 0, l.num_tiles, 0, l.end_panel);
    CHECK_MSG(same_floats(wanted, got, ROWS * 16), "%s, int8, depth %d, fits %d",
              vit_isa_name(kernels->isa), depth, fits16);
}

/* Multiplies each half float, as a weight, by one. */
static void test_gemm_f16(const vit__kernels *kernels) {
    static float tile[VIT__MAX_TILE_ROWS * VIT__MAX_TILE_COLS];
    unsigned char panel[32];
    const float one = 1;
    vit__operands o = { 0 };
    long wrong = 0;
    o.a = (const unsigned char *)&one;
    o.lda = sizeof one;
    o.rows = o.depth = o.panels = 1;
    o.panel = panel;
    o.ldt = 16;
#if VIT__SHAPES
    o.shape = kernels->gemm[VIT_F16].shape;
#endif
    for (uint32_t first = 0; first < 65536; first += 16) {
        for (uint32_t n = 0; n < 16; n++) {
            panel[2 * n] = (unsigned char)((first + n) & 255);
            panel[2 * n + 1] = (unsigned char)((first + n) >> 8);
        }
        kernels->gemm[VIT_F16].run(tile, &o);
        for (uint32_t n = 0; n < 16; n++) {
            float wanted = vit__f16_to_f32((uint16_t)(first + n));
            wrong += !same_float(tile[n], fma_here(one, wanted, 0));
        }
    }
    CHECK_MSG(wrong == 0, "%ld halves, %s", wrong, vit_isa_name(kernels->isa));
}

/* Tests the number of rows that im2col makes at once, which must fit into its buffer. */
static void test_im2col_rows(void) {
    for (int depth = 1; depth < 1 << 20; depth += 1 + depth / 100) {
        long long floats = (long long)vit__im2col_rows(depth) * depth;
        CHECK_MSG(floats > 0 && floats <= (depth < 1 << 15 ? 1 << 19 : 16 * depth), "depth %d",
                  depth);
    }
}

int main(int argc, char **argv) {
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    test_exp();
    test_gelu();
    test_gelu_far();
    test_tanh();
    test_every_float(all ? 1 : 4099);
    test_sqrt(all);
#if !defined(VIT_NO_FMA) && !defined(_WIN32)
    test_fma();
#endif
    test_f16_all();
    test_f16_rounding();
    test_bf16();
    test_im2col_rows();
    FOR_EACH_ISA(isa) {
        kernels_here = vit__choose_kernels((vit_isa)isa);
        rounds_twice = TEST_ROUNDS_TWICE(isa);
        if (rounds_twice == TEST_ROUNDS_TWICE(VIT_ISA_SCALAR)) {
            test_row_kernels(vit__choose_kernels((vit_isa)isa));
        }
        test_gemm(vit__choose_kernels((vit_isa)isa));
        test_gemm_f16(vit__choose_kernels((vit_isa)isa));
        for (int depth = 4; depth <= GEMM_DEPTH; depth++) {
            test_gemm_corners(vit__choose_kernels((vit_isa)isa), depth, 0);
            test_gemm_corners(vit__choose_kernels((vit_isa)isa), depth, 1);
        }
    }
    return test_summary();
}
