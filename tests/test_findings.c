/* test_findings.c - one message about everything that is missing, what it says to give, names that
 * differ in their numbers as one, and the values that a setting may have.
 */
#include <string.h>

#include "base/report.h"
#include "conversion.h"
#include "layout/groups.h"
#include "model/choices.h"
#include "model/findings.h"
#include "test.h"

static void check_message(const findings *f, bool strict, const char *expected)
{
    report r = report_make();
    CHECK(!findings_refuse(f, strict, &r) && is_refusal(r.text));
    CHECK_MSG(!strcmp(r.text, expected), "expected:\n%s\nfound:\n%s", expected, r.text);
}

static void test_messages(void)
{
    findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
    report failure = report_make();
    CHECK(!findings_are_open(&f) && !findings_has_asked(&f, "pool"));
    CHECK(findings_assume(&f, "norm_eps=1e-05", "the usual", "--set norm_eps=N"));
    CHECK(!findings_are_open(&f));
    check_message(&f, true,
                  "--strict refuses to assume norm_eps=1e-05: the usual; give --set norm_eps=N");
    CHECK(findings_ask(&f, "pool", "why", "--set pool=token (its default) or --set pool=avg"));
    CHECK(findings_ask(&f, "pool", "again", "--set pool=max"));   /* asked once */
    CHECK(findings_are_open(&f) && findings_has_asked(&f, "pool"));
    check_message(&f, false, "pool: why; give --set pool=token (its default) or --set pool=avg");
    check_message(&f, true,
                  "2 things are not known:\n"
                  "  pool: why; give --set pool=token (its default) or --set pool=avg\n"
                  "  norm_eps=1e-05: the usual; give --set norm_eps=N\n"
                  "give your model's values, for example: --set pool=token --set norm_eps=N");
    CHECK(findings_wrong(&f, "a is unknown", "--rename says what"));
    CHECK(findings_wrong(&f, "b is unknown", "--rename says what"));
    CHECK(!report_fail(&failure, "c is missing") && findings_take(&f, &failure));
    CHECK(!failure.failed && !report_fail(&failure, "b is") && findings_take(&f, &failure));
    check_message(&f, false,
                  "4 things are missing or not known:\n"
                  "  a is unknown\n"
                  "  b is unknown\n"
                  "  c is missing\n"
                  "  pool: why; give --set pool=token (its default) or --set pool=avg\n"
                  "--rename says what\n"
                  "give your model's values, for example: --set pool=token");
    findings_free(&f);
    CHECK(findings_wrong(&f, "one\nline", "advice"));
    check_message(&f, true, "one?line; advice");
    findings_free(&f);
    CHECK(findings_assume(&f, "a=1", "x", "--set a=N") && findings_assume(&f, "b=1", "y", "b"));
    check_message(&f, true, "2 things are assumed, which --strict refuses:\n"
                  "  a=1: x; give --set a=N\n"
                  "  b=1: y; give b\n"
                  "give your model's values, for example: --set a=N");
    findings_free(&f);
}

/* Options that follow each other are all needed; of others one is. */
static void test_given(void)
{
    static const struct { const char *options, *expected; } cases[] = {
        { "--set a=1|2, --arch NAME or --config FILE", " --set a=1" },
        { "--set a=1 --set b=N --set c=x|y", " --set a=1 --set b=N --set c=x" },
        { "--set a=1, --set a=2 (as b) or --set b=3", " --set a=1" },
        { "--img-size HxW (8x12, 12x8), --arch NAME", " --img-size HxW" },
        { "--set", "" },
        { "none (of --set a=1)", "" }
    };
    char expected[128];
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        findings f = { { NULL, 0, 0 }, { NULL, 0, 0 }, { NULL, 0, 0 } };
        report r = report_make();
        const char *give;
        CHECK(findings_ask(&f, "a", "?", cases[i].options) && findings_ask(&f, "z", "?", "z"));
        CHECK(!findings_refuse(&f, false, &r));
        give = strstr(r.text, "give your model's values, for example:");
        snprintf(expected, sizeof expected, "give your model's values, for example:%s",
                 cases[i].expected);
        if (*cases[i].expected) CHECK_MSG(give && !strcmp(give, expected), "%s", r.text);
        else CHECK_MSG(!give, "%s", r.text);
        findings_free(&f);
    }
}

/* What does not fit is counted; no line is cut. */
static void test_many(void)
{
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

static void test_groups(void)
{
    static const char *const names[] = {
        "blocks.0.attn.foo", "blocks.11.attn.foo", "head", "blocks.3.attn.foo", "fc1.weight",
        "fc2.weight", "layer_3/kernel", "layer_4/kernel", "a.0.b.2", "a.1.b.0", "v.12345678.x",
        "v.12345679.x"
    };
    static const struct { const char *text; size_t count; } expected[] = {
        { "blocks.{0..11}.attn.foo", 3 }, { "head", 1 }, { "fc1.weight", 1 }, { "fc2.weight", 1 },
        { "layer_{3..4}/kernel", 2 }, { "a.{0..1}.b.{0..2}", 2 }, { "v.12345678.x", 1 },
        { "v.12345679.x", 1 }
    };
    static name_groups groups;
    static char text[GROUP_TEXT_SIZE];
    char name[16];
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++) CHECK(groups_add(&groups, names[i], "[8]"));
    CHECK(groups_add(&groups, "blocks.4.attn.foo", "[9]"));   /* of another shape */
    CHECK(groups.count == sizeof expected / sizeof *expected + 1);
    for (i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK_MSG(!strcmp(group_text(&groups.items[i], text), expected[i].text) &&
                  groups.items[i].count == expected[i].count, "%s", text);
    for (i = groups.count; i < GROUPS_MAX + 3; i++) {
        snprintf(name, sizeof name, "x%d", (int)i);
        CHECK(groups_add(&groups, name, ""));
    }
    CHECK(groups.count == GROUPS_MAX && groups.more == 3);
    groups_free(&groups);
    CHECK(groups.count == 0 && groups.more == 0);
}

static void check_choices(const char *text, const char *expected)
{
    CHECK_MSG(!strcmp(text, expected), "expected %s, found %s", expected, text);
}

static void test_choices(void)
{
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

int main(void)
{
    test_messages();
    test_given();
    test_many();
    test_groups();
    test_choices();
    return test_summary();
}
