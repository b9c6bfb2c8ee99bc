/* test_progress.c - tests the progress bar of cli/output.h without a terminal: a line in each
 * interval, with the remaining time.
 *
 *     test_progress
 */
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "test.h"

static const char said[] = "build/progress.txt";

/* Returns the contents of stderr. In this test, stderr is a file. */
static const char *lines(void) {
    static char text[4096];
    FILE *file = fopen(said, "rb");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[size] = '\0';
    return text;
}

static void begin(cli_progress *p, const char *unit, uint64_t total) {
    if (!freopen(said, "wb", stderr)) exit(2);
    setvbuf(stderr, NULL, _IONBF, 0);
    cli_progress_start(p, "embed", total);
    CHECK(!p->active && p->interval == 60e3);
    p->unit = unit;
}

/* Reports progress as if this number of seconds had passed since the start. */
static void pass(cli_progress *p, double seconds, uint64_t done) {
    p->started = cli_now_ms() - 1e3 * seconds;
    cli_progress_update(p, done);
}

int main(void) {
    cli_progress p;
    begin(&p, "images", 60000);
    pass(&p, 1, 35); /* Less than a minute has passed since the start. */
    CHECK(lines()[0] == '\0');
    p.interval = 0;
    pass(&p, 59, 2000);
    CHECK_MSG(!strcmp(lines(), "embed: 2,000 of 60,000 images, 33.9 images/s, 29 min left\n"), "%s",
              lines());
    p.interval = 60e3;
    pass(&p, 61, 2030);
    CHECK(!strcmp(lines(), "embed: 2,000 of 60,000 images, 33.9 images/s, 29 min left\n"));
    p.drawn -= 61e3;
    pass(&p, 119, 4030);
    CHECK(strstr(lines(), "left\nembed: 4,030 of 60,000 images, 33.9 images/s, 28 min left\n"));
    cli_progress_clear(&p);
    begin(&p, "images", 0); /* The total is unknown. */
    p.interval = 0;
    pass(&p, 100, 50);
    CHECK_MSG(!strcmp(lines(), "embed: 50 images, 0.5 images/s\n"), "%s", lines());
    begin(&p, NULL, 60000); /* The bar has no unit. */
    p.interval = 0;
    pass(&p, 100, 50);
    CHECK(lines()[0] == '\0');
    remove(said);
    return test_summary();
}
