/* json_check.c - reads one JSON value, and prints the value at a path, for the shell tests.
 *
 *     json_check top 0 label < answer.json
 *
 * Prints a string, a number, true, false, null, or the number of children of an array or object.
 * Exit status: 0 on success, 1 if the text is invalid JSON (with the reason), 2 if the path does not exist.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/report.h"

static char text[1 << 22];

static const json_value *step(const json_value *value, const char *word) {
    if (value && value->kind == JSON_ARRAY) return json_at(value, (size_t)atoi(word));
    return json_get(value, word);
}

static void print(const json_value *value) {
    switch (value->kind) {
    case JSON_NULL: puts("null"); break;
    case JSON_FALSE: puts("false"); break;
    case JSON_TRUE: puts("true"); break;
    case JSON_NUMBER: printf("%.9g\n", json_number(value, 0)); break;
    case JSON_STRING: puts(json_string(value, "")); break;
    default: printf("%u\n", (unsigned)value->count); break;
    }
}

int main(int argc, char **argv) {
    size_t size = fread(text, 1, sizeof text - 1, stdin);
    report r = report_make();
    json_document document;
    const json_value *value;
    int status = 2;
    if (!json_parse(&document, text, size, true, 0, &r)) {
        puts(r.text);
        return 1;
    }
    value = document.root;
    for (int i = 1; i < argc; i++) value = step(value, argv[i]);
    if (value) {
        print(value);
        status = 0;
    }
    json_free(&document);
    return status;
}
