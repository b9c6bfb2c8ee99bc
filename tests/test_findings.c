/* test_findings.c - tests the message that lists all missing settings: the options that it
 * contains, its JSON, groups of names that differ only in numbers, and the possible values of a
 * setting.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "conversion.h"
#include "layout/rules.h"
#include "model/findings.h"
#include "model/settings.h"
#include "os/os.h"
#include "test.h"

static void check_message(const findings *f, bool strict, const char *expected) {
    report r = report_make();
    CHECK(!findings_refuse(f, strict, &r) && is_refusal(r.text));
    CHECK_MSG(!strcmp(r.text, expected), "expected:\n%s\nfound:\n%s", expected, r.text);
}

static void test_messages(void) {
    findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
    report failure = report_make();
    CHECK(!findings_are_open(&f) && !findings_has_asked(&f, "pool"));
    CHECK(findings_assume(&f, "norm_eps=1e-05", "the usual", "--set norm_eps=N"));
    CHECK(!findings_are_open(&f));
    check_message(&f, true,
                  "--strict refuses to assume norm_eps=1e-05: the usual; give --set norm_eps=N");
    CHECK(
        findings_ask(&f, "pool", "why", "--set pool=token (the code's default) or --set pool=avg"));
    /* The question appears only once. */
    CHECK(findings_ask(&f, "pool", "again", "--set pool=max"));
    CHECK(findings_are_open(&f) && findings_has_asked(&f, "pool"));
    check_message(&f, false,
                  "pool: why; give --set pool=token (the code's default) or --set pool=avg");
    check_message(&f, true,
                  "2 things are not known:\n"
                  "  pool: why; give --set pool=token (the code's default) or --set pool=avg\n"
                  "  norm_eps=1e-05: the usual; give --set norm_eps=N\n"
                  "give your model's values, for example: --set pool=token --set norm_eps=1e-05");
    CHECK(findings_wrong(&f, "a is unknown", "--rename says what"));
    CHECK(findings_wrong(&f, "b is unknown", "--rename says what"));
    CHECK(!report_fail(&failure, "c is missing") && findings_take(&f, &failure));
    CHECK(!failure.failed && !report_fail(&failure, "b is") && findings_take(&f, &failure));
    check_message(&f, false,
                  "4 things are missing or not known:\n"
                  "  a is unknown\n"
                  "  b is unknown\n"
                  "  c is missing\n"
                  "  pool: why; give --set pool=token (the code's default) or --set pool=avg\n"
                  "--rename says what\n"
                  "give your model's values, for example: --set pool=token");
    findings_free(&f);
    CHECK(findings_wrong(&f, "one\nline", "advice"));
    check_message(&f, true, "one\\nline; advice");
    findings_free(&f);
    CHECK(findings_assume(&f, "a=1", "x", "--set a=N") &&
          findings_assume(&f, "has_final_norm=1", "y", "--set has_final_norm=0|1"));
    check_message(&f, true,
                  "2 things are assumed, which --strict refuses:\n"
                  "  a=1: x; give --set a=N\n"
                  "  has_final_norm=1: y; give --set has_final_norm=0|1\n"
                  "give your model's values, for example: --set has_final_norm=1");
    findings_free(&f);
}

/* Tests the order of assumptions. The most harmful assumption must come first, even if it was found
 * last. Equally harmful assumptions must keep the order in which they were found. A number of heads
 * that was read from the weights must come after the preprocessing. */
static void test_order(void) {
    static const char *const found[] = {
        "no configuration", "norm_eps=1e-05",
        "activation=gelu",  "one norm used twice in each block",
        "mean=0.5 std=0.5", "matrices outside layers as [inputs, outputs]",
        "weights=model",    "img_size=8x8",
        "norm_epsilon=1",   "num_heads=3",
    };
    static const char *const expected[] = {
        "num_heads=3",
        "mean=0.5 std=0.5",
        "weights=model",
        "activation=gelu",
        "img_size=8x8",
        "one norm used twice in each block",
        "matrices outside layers as [inputs, outputs]",
        "norm_epsilon=1",
        "norm_eps=1e-05",
        "no configuration",
    };
    findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
    size_t i;
    for (i = 0; i < sizeof found / sizeof *found; i++)
        CHECK(findings_assume(&f, found[i], "why", "--option"));
    CHECK(f.assumed.count == sizeof expected / sizeof *expected);
    for (i = 0; i < f.assumed.count; i++)
        CHECK_MSG(!strcmp(f.assumed.items[i].what, expected[i]), "%zu: %s expected, found %s", i,
                  expected[i], f.assumed.items[i].what);
    findings_free(&f);
    CHECK(findings_assume(&f, "num_heads=3",
                          "read from the weights (score 154; next best 6: score 95)", "") &&
          findings_assume(&f, "block_type=pre_norm", "read from the weights: norms and", "") &&
          findings_assume(&f, "mean=0.5 std=0.5", "as timm has it", ""));
    CHECK(!strncmp(f.assumed.items[0].what, "mean=", 5) &&
          !strcmp(f.assumed.items[1].what, "num_heads=3"));
    findings_free(&f);
}

/* Checks that the message contains `before`, and the example `expected`. If `expected` is "", the
 * message must contain no example. */
static void check_example(findings *f, bool strict, const char *before, const char *expected) {
    report r = report_make();
    char wanted[128];
    const char *example;
    CHECK(!findings_refuse(f, strict, &r));
    example = strstr(r.text, before);
    snprintf(wanted, sizeof wanted, "%s%s", before, expected);
    CHECK_MSG(*expected ? example && !strcmp(example, wanted) : !example, "%s", r.text);
    findings_free(f);
}

/* Tests the text that lists all assumed values as options, quoted for a shell. Assumptions that no
 * option can state are left out. */
static void test_assumed_given(void) {
    static const struct {
        const char *what, *expected;
    } cases[] = {
        { "img_size=8x12", " --img-size 8x12" },
        { "mean=0.5,0.25,1e-05 std=0.5 crop_mode=center",
          " --set mean=0.5,0.25,1e-05 --set std=0.5 "
          "--set crop_mode=center" },
        { "weights=model ema=1", " --weights 'model ema=1'" },
        { "weights=it's", "" },
        { "architecture=my_vit", "" },
        { "blocks as usual", "" },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
        CHECK(findings_assume(&f, cases[i].what, "?", "--set x=y") &&
              findings_assume(&f, "z", "?", "z"));
        check_example(&f, true, "for example:", cases[i].expected);
    }
}

/* Tests which options answer a question. If only spaces separate the options, all of them are
 * needed. If words or commas separate the options, one of them is enough. */
static void test_given(void) {
    static const struct {
        const char *options, *expected;
    } cases[] = {
        { "--set a=1|2, --arch NAME or --config FILE", " --set a=WORD" },
        { "--set a=1 --set b=N --set c=x|y", " --set a=1 --set b=N --set c=WORD" },
        { "--set a=1, --set a=2 (as b) or --set b=3", " --set a=1" },
        { "--img-size HxW (8x12, 12x8), --arch NAME", " --img-size HxW" },
        { "--set", "" },
        { "none (of --set a=1)", "" },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
        CHECK(findings_ask(&f, "a", "?", cases[i].options) && findings_ask(&f, "z", "?", "z"));
        check_example(&f, false, "give your model's values, for example:", cases[i].expected);
    }
}

/* Tests entries that do not fit into the message. They must be counted, and no line may be cut. */
static void test_many(void) {
    findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
    report r = report_make();
    char name[1024];
    int i;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (i = 0; i < 200; i++) CHECK(findings_wrong(&f, name, "--advice"));
    CHECK(findings_ask(&f, "pool", "why", "--set pool=token"));
    CHECK(!findings_refuse(&f, false, &r) && is_refusal(r.text));
    CHECK(!strncmp(r.text, "201 things are missing or not known:\n  nnn", 42));
    CHECK(strstr(r.text, "n\n  and 1") != NULL);
    CHECK(strstr(r.text, " more\n--advice\ngive your model's values, for example: --set "));
    CHECK(strlen(r.text) < REPORT_SIZE - 1);
    findings_free(&f);
}

static void test_groups(void) {
    static const char *const names[] = {
        "blocks.0.attn.foo", "blocks.11.attn.foo", "head",
        "blocks.3.attn.foo", "fc1.weight",         "fc2.weight",
        "layer_3/kernel",    "layer_4/kernel",     "a.0.b.2",
        "a.1.b.0",           "v.12345678.x",       "v.12345679.x",
    };
    static const struct {
        const char *text;
        size_t count;
    } expected[] = {
        { "blocks.{0..11}.attn.foo", 3 },
        { "head", 1 },
        { "fc1.weight", 1 },
        { "fc2.weight", 1 },
        { "layer_{3..4}/kernel", 2 },
        { "a.{0..1}.b.{0..2}", 2 },
        { "v.12345678.x", 1 },
        { "v.12345679.x", 1 },
    };
    static name_groups groups;
    static char text[GROUP_TEXT_SIZE];
    char name[16];
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++) CHECK(groups_add(&groups, names[i], "[8]"));
    CHECK(groups_add(&groups, "blocks.4.attn.foo", "[9]")); /* This tensor has another shape. */
    CHECK(groups.count == sizeof expected / sizeof *expected + 1);
    for (i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK_MSG(!strcmp(group_text(&groups.items[i], text), expected[i].text) &&
                      groups.items[i].count == expected[i].count,
                  "%s", text);
    for (i = groups.count; i < GROUPS_MAX + 3; i++) {
        snprintf(name, sizeof name, "x%d", (int)i);
        CHECK(groups_add(&groups, name, ""));
    }
    CHECK(groups.count == GROUPS_MAX && groups.more == 3);
    groups_free(&groups);
    CHECK(groups.count == 0 && groups.more == 0);
}

static void check_choices(const char *text, const char *expected) {
    CHECK_MSG(!strcmp(text, expected), "expected %s, found %s", expected, text);
}

static void test_choices(void) {
    char text[CHOICES_SIZE];
    int side;
    check_choices(choices_of_heads(192, "", text),
                  "--set num_heads=N (1, 2, 3, 4, 6, 8, 12, 16 or 24)");
    check_choices(choices_of_heads(8, ", --arch NAME", text),
                  "--set num_heads=N (1, 2 or 4), --arch NAME");
    check_choices(choices_of_heads(1, "", text), "--set num_heads=N (1)");
    check_choices(choices_of_heads(4, "", text), "--set num_heads=N (1, 2 or 4)");
    check_choices(choices_of_chans(32, text), "--set in_chans=N (2, 8 or 32)");
    check_choices(choices_of_chans(49, text), "--set in_chans=N (1)");
    check_choices(choices_of_size(6, 4, 4, text), "--img-size HxW (4x24, 8x12, 12x8, 24x4)");
    check_choices(choices_of_size(4, 4, 2, text), "--img-size HxW (4x10, 6x6, 10x4)");
    check_choices(choices_of_size(0, 4, 4, text), "--img-size HxW");
    check_choices(choices_of_words(SETTING_INTERPOLATION, " or not", text),
                  "--set interpolation=bilinear|bicubic or not");
    CHECK(choices_is_square(49, &side) && side == 7 && !choices_is_square(48, &side));
    CHECK(!choices_is_square(0, &side) && !choices_is_square(-4, &side));
}

/* === As JSON === */

typedef void putter(json_writer *w, const findings *f);

static void check_json(putter *put, const findings *f, const char *expected) {
    char *text = NULL;
    size_t size;
    FILE *file = os_memory_open(&text, &size);
    json_writer w = json_write_to(file);
    put(&w, f);
    CHECK(os_memory_close(file, &text, &size));
    CHECK_MSG(strstr(text, expected), "expected:\n%s\nfound:\n%s", expected, text);
    free(text);
}

#define CHOICE(value) "{\"value\": \"" value "\", \"note\": null}"
#define CHOICES_2_TO_31                                                                                                                                                                       \
    CHOICE("2")                                                                                                                                                                               \
    ", " CHOICE("3") ", " CHOICE("4") ", " CHOICE("5") ", " CHOICE("6") ", " CHOICE("7") ", " CHOICE("8") ", " CHOICE("9") ", " CHOICE("10") ", " CHOICE("11") ", " CHOICE("12") ", " CHOICE( \
        "13") ", " CHOICE("14") ", " CHOICE("15") ", " CHOICE("16") ", " CHOICE("17") ", " CHOICE("18") ", " CHOICE("19") ", " CHOICE("20") ", " CHOICE("21") ", " CHOICE("22") ", " CHOICE("23") ", " CHOICE("24") ", " CHOICE("25") ", " CHOICE("26") ", " CHOICE("27") ", " CHOICE("28") ", " CHOICE("29") ", " CHOICE("30") ", " CHOICE("31")
#define DIGITS             "1234567890123456789012345678901234567890123456789012345678901234567890"
#define NOTED(value, note) "{\"value\": \"" value "\", \"note\": \"" note "\"}"

/* Tests the choices that a question offers for its options, and the choice that it suggests. */
static void test_offers(void) {
    static const struct {
        const char *setting, *options, *choices, *suggested;
    } cases[] = {
        { "pool",
          "--set pool=token (the code's default, pool = 'cls') or --set pool=avg (pool = 'mean')",
          NOTED("token", "the code's default, pool = 'cls'") ", " NOTED("avg", "pool = 'mean'"),
          "\"token\"" },
        { "pool", "--set pool=avg|max, --arch NAME", CHOICE("avg") ", " CHOICE("max"), "null" },
        { "pool", "--set pool=avg|max (not with --set pool=map)", CHOICE("avg") ", " CHOICE("max"),
          "null" },
        { "pool", "--set block_type=pre_norm --set pool=max", CHOICE("max"), "\"max\"" },
        { "interpolation", "--config FILE", CHOICE("bilinear") ", " CHOICE("bicubic"), "null" },
        { "num_heads",
          "--set num_heads=N (1, 2 or 4; the weights hint at 4: score 6.2, then 2: score 3.1)",
          CHOICE("1") ", " CHOICE("2") ", " CHOICE("4"), "\"4\"" },
        { "num_heads", "--set num_heads=N", "", "null" },
        { "num_heads", "--set num_heads=N (some", "", "null" },
        { "num_heads", "--set num_heads=N (, 2)", "", "null" },
        { "norm_eps", "--set norm_eps=N (CLIP, AIMv2: 1e-5; most others: 1e-6), --arch NAME",
          NOTED("1e-5", "CLIP, AIMv2") ", " NOTED("1e-6", "most others"), "null" },
        { "img_size", "--img-size HxW (4x10, 6x6 or 10x4) or --set patch_stride=N",
          CHOICE("4x10") ", " CHOICE("6x6") ", " CHOICE("10x4"), "null" },
        { "has_fc_norm", "--arch NAME", CHOICE("0") ", " CHOICE("1"), "null" },
        { "a thing", "--set a=1", "", "null" },
        { "pool", "--settle pool=avg, --set pooling=token, --set pool=max or --set pool=max",
          CHOICE("max"), "\"max\"" },
        { "pool", "(one (of --set pool=avg) of them) --set pool=max", CHOICE("max"), "\"max\"" },
        { "num_heads", "--set num_heads=, --set num_heads=N (1), as the weights hint at 2: 9",
          CHOICE("1"), "\"1\"" },
        { "norm_eps", "--set norm_eps=N (CLIP; most: 1e-6; others: many; :; none: )",
          NOTED("1e-6", "most"), "\"1e-6\"" },
        { "norm_eps", "--set norm_eps=N (CLIP: 1" DIGITS "; most: 1e-6) or --set norm_eps=1" DIGITS,
          NOTED("1e-6", "most"), "\"1e-6\"" },
        { "num_heads",
          "--set num_heads=N (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, "
          "17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32 or 33)",
          CHOICE("1") ", " CHOICES_2_TO_31 ", " CHOICE("32"), "null" },
        { DIGITS, "--arch NAME", "", "null" },
    };
    char expected[2048];
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
        CHECK(findings_ask(&f, cases[i].setting, "why", cases[i].options));
        snprintf(expected, sizeof expected, "\"choices\": [%s]", cases[i].choices);
        check_json(findings_put_questions, &f, expected);
        snprintf(expected, sizeof expected, "\"suggested\": %s}", cases[i].suggested);
        check_json(findings_put_questions, &f, expected);
        findings_free(&f);
    }
}

static void test_json(void) {
    findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
    CHECK(findings_ask(&f, "img_size", "why", "--img-size HxW"));
    check_json(findings_put_questions, &f,
               "\"questions\": [{\"setting\": \"img_size\", \"why\": \"why\", \"means\": "
               "\"height and width of the input in pixels\", \"option\": \"--img-size\", "
               "\"prefix\": \"\", "
               "\"type\": \"size\", \"choices\": [], \"text\": \"--img-size HxW\", "
               "\"suggested\": null}]");
    CHECK(findings_assume(&f, "mean=0.5,0.25 crop_mode=center odd", "as it is",
                          "--set mean=M --set crop_mode=center|squash|border"));
    CHECK(findings_assume(&f, "weights=model ema=1", "of several", "--weights NAME"));
    CHECK(findings_assume(&f, "no configuration", "not read", "--config FILE"));
    check_json(findings_put_assumed, &f,
               "{\"setting\": \"mean\", \"value\": \"0.5,0.25\", \"why\": \"as it is\"");
    check_json(findings_put_assumed, &f, "{\"setting\": \"crop_mode\", \"value\": \"center\"");
    check_json(findings_put_assumed, &f,
               "\"option\": \"--set\", \"prefix\": \"crop_mode=\", "
               "\"type\": \"word\", \"choices\": [" CHOICE("center") ", " CHOICE(
                   "squash") ", " CHOICE("border") "]");
    check_json(findings_put_assumed, &f, "{\"setting\": \"odd\", \"value\": null");
    check_json(findings_put_assumed, &f, "{\"setting\": \"weights\", \"value\": \"model ema=1\"");
    check_json(findings_put_assumed, &f,
               "{\"setting\": \"no configuration\", \"value\": null, "
               "\"why\": \"not read\", \"means\": null, \"option\": null, \"prefix\": null, "
               "\"type\": null, \"choices\": [], \"text\": \"--config FILE\", "
               "\"otherwise\": null, \"effect\": null}]");
    CHECK(findings_wrong(&f, "a is unknown", "--rename") && findings_wrong(&f, "b", ""));
    check_json(findings_put_wrong, &f,
               "\"wrong\": [{\"what\": \"a is unknown\", \"advice\": "
               "\"--rename\"}, {\"what\": \"b\", \"advice\": null}]");
    findings_free(&f);
}

/* Tests measured effects, which replace the usual effects of assumptions. An effect below 1e-4
 * counts as minor. An assumption with a smaller effect may come first, because the order also
 * depends on how often an assumption is wrong. */
static void test_effects(void) {
    static const struct {
        const char *what, *otherwise;
        double effect;
    } found[] = {
        { "activation=gelu", "relu", 0.14 }, { "block_type=pre_norm", "post_norm", 0.9 },
        { "pool=token", "pool=avg", 1.6 },   { "attn_root=head_dim", "embed_dim", 0.00005 },
        { "norm_eps=1e-06", "1e-05", 0.01 }, { "img_size=8x8", NULL, 0 },
    };
    static const char *const expected[] = {
        "activation=gelu", "pool=token",     "block_type=pre_norm",
        "img_size=8x8",    "norm_eps=1e-06", "attn_root=head_dim",
    };
    findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
    size_t i, k;
    for (i = 0; i < sizeof found / sizeof *found; i++)
        CHECK(findings_assume(&f, found[i].what, "why", "--option"));
    CHECK(findings_is_minor(&f.assumed.items[f.assumed.count - 1])); /* This entry is norm_eps. */
    for (i = 0; i < sizeof found / sizeof *found; i++)
        for (k = 0; found[i].otherwise && k < f.assumed.count; k++)
            if (!strcmp(f.assumed.items[k].what, found[i].what))
                CHECK(findings_measure(&f, k, "again", 2) &&
                      findings_measure(&f, k, found[i].otherwise, found[i].effect));
    findings_order(&f);
    for (i = 0; i < f.assumed.count; i++) {
        const finding *item = &f.assumed.items[i];
        CHECK_MSG(!strcmp(item->what, expected[i]), "%zu: %s expected, found %s", i, expected[i],
                  item->what);
        CHECK(findings_is_minor(item) == !strcmp(item->what, "attn_root=head_dim"));
    }
    check_json(findings_put_assumed, &f,
               "\"text\": \"--option\", \"otherwise\": \"relu\", \"effect\": 0.14}");
    findings_free(&f);
}

int main(void) {
    test_messages();
    test_order();
    test_effects();
    test_assumed_given();
    test_offers();
    test_json();
    test_given();
    test_many();
    test_groups();
    test_choices();
    return test_summary();
}
