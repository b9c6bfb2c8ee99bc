/* test_json.c - tests the inputs and outputs of tools/base/json.c and checksum.c. */
#define _XOPEN_SOURCE 700 /* mkstemp */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/json.h"
#include "base/report.h"
#include "test.h"

/* Parses a copy of the text. The caller frees *text, and the document if the copy is accepted. */
static bool parse(json_document *document, const char *json, char **text, report *r) {
    size_t size = strlen(json);
    *r = report_make();
    *text = malloc(size + 1);
    if (!*text) abort();
    memcpy(*text, json, size);
    return json_parse(document, *text, size, true, 0, r);
}

static void test_refused(void) {
    static const struct {
        const char *text, *word;
    } rows[] = {
        { "", "ends" },
        { "  ", "ends" },
        { "nul", "value" },
        { "True", "value" },
        { "[1,]", "value" },
        { "[1 2]", "',' or ']'" },
        { "{\"a\":1,}", "'\"'" },
        { "{a:1}", "'\"'" },
        { "{\"a\" 1}", "':'" },
        { "{\"a\":1 \"b\":2}", "',' or '}'" },
        { "01", "after the end" },
        { "-", "digit" },
        { "1.", "digit" },
        { ".5", "value" },
        { "1e", "exponent" },
        { "1e+", "exponent" },
        { "+1", "value" },
        { "0x10", "after the end" },
        { "NaN", "value" },
        { "Infinity", "value" },
        { "\"a", "inside a string" },
        { "\"\\x\"", "escape" },
        { "\"\\u12g4\"", "hexadecimal" },
        { "\"\\u12", "hexadecimal" },
        { "\"\\", "escape" },
        { "\"\\ud800\\n\"", "high surrogate" },
        { "\"\\u0000\"", "u0000" },
        { "\"\\ud800\"", "high surrogate" },
        { "\"\\ud800\\u0041\"", "high surrogate" },
        { "\"\\udc00\"", "low surrogate" },
        { "\"a\nb\"", "control" },
        { "\"\xff\"", "UTF-8" },
        { "\"\xc0\x80\"", "UTF-8" },
        { "\"\xed\xa0\x80\"", "UTF-8" },
        { "\"\xf4\x90\x80\x80\"", "UTF-8" },
        { "\"\xe2\x82\"", "UTF-8" },
        { "{\"a\":1,\"b\":2,\"a\":3}", "duplicate" },
        { "{\"a\":1,\"\\u0061\":3}", "duplicate" },
        { "[] []", "after the end" },
        { "[", "ends" },
        { "{\"a\":", "ends" },
        { "/* */ 1", "value" },
        { "'a'", "value" },
    };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_document document;
        report r;
        char *text;
        bool ok = parse(&document, rows[i].text, &text, &r);
        CHECK_MSG(!ok && strstr(r.text, rows[i].word), "%s: %s", rows[i].text, r.text);
        if (ok) json_free(&document);
        free(text);
    }
}

static void test_access(void) {
    static const char json[] =
        " {\"name\" : \"vit\", \"n\": [1, -2.5e1, 9223372036854775807, 9223372036854775808, -0],"
        "\"min\": -9223372036854775808, \"yes\": true, \"no\": false, \"none\": null,"
        "\"text\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\uE000\\ud83d\\ude00\","
        "\"empty\": {}, \"large\": 1E5 } ";
    json_document d;
    report r;
    char *text;
    const json_value *n;
    CHECK_MSG(parse(&d, json, &text, &r), "%s", r.text);
    n = json_get(d.root, "n");
    CHECK(d.root->count == 9 && n && n->count == 5);
    CHECK(strcmp(json_string(json_get(d.root, "name"), ""), "vit") == 0);
    CHECK(json_integer(json_at(n, 0), 0) == 1 && json_number(json_at(n, 0), 0) == 1.0);
    CHECK(json_number(json_at(n, 1), 0) == -25.0 && json_integer(json_at(n, 1), 7) == 7);
    CHECK(json_integer(json_at(n, 2), 0) == INT64_MAX);
    CHECK(!json_at(n, 3)->integral && json_number(json_at(n, 3), 0) == 9223372036854775808.0);
    CHECK(json_integer(json_at(n, 4), 1) == 0 && json_at(n, 5) == NULL);
    CHECK(json_integer(json_get(d.root, "min"), 0) == INT64_MIN);
    CHECK(json_bool(json_get(d.root, "yes"), false) && !json_bool(json_get(d.root, "no"), true));
    CHECK(json_bool(json_get(d.root, "none"), true) && json_get(d.root, "none")->kind == JSON_NULL);
    CHECK(strcmp(json_string(json_get(d.root, "text"), ""),
                 "\"\\/\b\f\n\r\t\xC3\xA9\xE2\x82\xAC\xEE\x80\x80\xF0\x9F\x98\x80") == 0);
    CHECK(json_first(json_get(d.root, "empty")) == NULL);
    CHECK(json_get(d.root, "missing") == NULL && json_get(NULL, "a") == NULL);
    CHECK(json_get(json_get(d.root, "name"), "a") == NULL);
    CHECK(json_number(json_get(d.root, "large"), 0) == 1e5);
    CHECK(json_first(json_get(d.root, "name")) == NULL);
    CHECK(json_integer(json_get(d.root, "name"), 7) == 7 && json_integer(NULL, 7) == 7);
    CHECK(json_string(NULL, NULL) == NULL && json_number(NULL, 3) == 3.0);
    json_free(&d);
    free(text);
}

static void check_nesting(int depth, bool accepted) {
    json_document d;
    report r;
    char json[300], *text;
    bool ok;
    memset(json, '[', (size_t)depth);
    memset(json + depth, ']', (size_t)depth);
    json[2 * depth] = '\0';
    ok = parse(&d, json, &text, &r);
    CHECK_MSG(ok == accepted, "depth %d", depth);
    if (ok) json_free(&d);
    free(text);
}

static void test_limits(void) {
    size_t size = 2200001, i;
    char *text = malloc(size + 1);
    report r = report_make();
    json_document d;
    check_nesting(64, true);
    check_nesting(65, false);
    if (!text) abort();
    text[0] = '[';
    for (i = 1; i < size; i += 2) memcpy(text + i, i + 2 < size ? "1," : "1]", 2);
    CHECK(!json_parse(&d, text, size, true, 0, &r) && strstr(r.text, "1000000"));
    memset(text, '1', 500);
    r = report_make();
    CHECK(!json_parse(&d, text, 500, true, 0, &r) && strstr(r.text, "400"));
    free(text);
}

static void test_writer(void) {
    static const char expected[] =
        "\"a\\\"\\\\\\n\\u0001\\u007f\xC3\xA9\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD"
        "\\u009b\\u202e\xC2\xA0\"";
    char got[100] = "";
    FILE *file = tmpfile();
    CHECK(file != NULL);
    if (!file) return;
    json_write_string(file, "a\"\\\n\x01\x7f\xC3\xA9\xFFz\xC3\xE2\xC2\x9B\xE2\x80\xAE\xC2\xA0");
    rewind(file);
    got[fread(got, 1, sizeof got - 1, file)] = '\0';
    fclose(file);
    CHECK_MSG(strcmp(got, expected) == 0, "%s", got);
}

static void check_digest(const char *data, size_t size, size_t repeat, size_t piece,
                         const char *expected) {
    sha256 s;
    uint8_t digest[32];
    char text[65];
    size_t i, at;
    sha256_init(&s);
    for (i = 0; i < repeat; i++)
        for (at = 0; at < size; at += piece)
            sha256_update(&s, data + at, size - at < piece ? size - at : piece);
    sha256_final(&s, digest);
    sha256_hex(digest, text);
    CHECK_MSG(strcmp(text, expected) == 0, "%s", text);
}

/* Tests the examples of FIPS 180-4. */
static void test_sha256(void) {
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check_digest("", 0, 1, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_digest("abc", 3, 1, 3,
                 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_digest(two_blocks, 56, 1, 56,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_digest(two_blocks, 56, 1, 3,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_digest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 64, 15625, 64,
                 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    check_digest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 64, 15625, 37,
                 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Tests the hash of a file, with progress reports. A file that cannot be read has no hash. */
static void add_read(void *user, size_t size) { *(size_t *)user += size; }

static void test_sha256_file(void) {
    char text[65], path[] = "/tmp/sha256XXXXXX";
    const int descriptor = mkstemp(path);
    size_t total = 0;
    CHECK(descriptor >= 0 && write(descriptor, "abc", 3) == 3 && close(descriptor) == 0);
    CHECK(sha256_file(path, text, add_read, &total) && total == 3);
    CHECK(strncmp(text, "ba7816bf8f01cfea", 16) == 0);
    CHECK(sha256_file(path, text, NULL, NULL) && strncmp(text, "ba7816bf8f01cfea", 16) == 0);
    unlink(path);
    CHECK(!sha256_file(path, text, NULL, NULL));
    CHECK(!sha256_file("/", text, NULL, NULL));
}

static void test_values(void) {
    static const char expected[] =
        "{\"list\": [1, -2, null, [], {}], \"half\": 0.5, \"none\": null, \"third\": 0.3333, "
        "\"fixed\": 0.500, \"tenth\": 0.1, \"nine\": 0.0100000035, \"far\": null}";
    char text[256] = "";
    FILE *file = tmpfile();
    json_writer w = json_write_to(file);
    if (!file) abort();
    json_put_begin(&w, NULL, '{');
    json_put_begin(&w, "list", '[');
    json_put_integer(&w, NULL, 1);
    json_put_integer(&w, NULL, -2);
    json_put_text(&w, NULL, NULL);
    json_put_begin(&w, NULL, '[');
    json_put_end(&w, ']');
    json_put_begin(&w, NULL, '{');
    json_put_end(&w, '}');
    json_put_end(&w, ']');
    json_put_number(&w, "half", 0.5, 9);
    json_put_number(&w, "none", HUGE_VAL, 9);
    json_put_number(&w, "third", 1 / 3.0, 4);
    json_put_decimals(&w, "fixed", 0.5, 3);
    json_put_float(&w, "tenth", 0.1f);
    json_put_float(&w, "nine", 0.0100000035f);
    json_put_decimals(&w, "far", HUGE_VAL, 3);
    json_put_end(&w, '}');
    rewind(file);
    CHECK_MSG(fread(text, 1, sizeof text - 1, file) == strlen(expected) && !strcmp(text, expected),
              "%s", text);
    fclose(file);
}

int main(void) {
    test_refused();
    test_access();
    test_limits();
    test_writer();
    test_values();
    test_sha256();
    test_sha256_file();
    return test_summary();
}
