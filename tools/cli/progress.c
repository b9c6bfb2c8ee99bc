#include "cli/output.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "os/os.h"

double cli_now_ms(void) { return os_now_ms(); }

void cli_progress_start(cli_progress *progress, const char *label, uint64_t total) {
    progress->label = label;
    progress->unit = NULL;
    progress->interval = 60e3;
    progress->total = total;
    progress->started = cli_now_ms();
    progress->drawn = progress->started;
    progress->active = os_is_terminal(stderr);
    progress->visible = false;
    progress->note = NULL;
}

static void print_note(cli_progress *progress) {
    cli_progress_clear(progress);
    fprintf(stderr, "%s\n", progress->note);
    progress->note = NULL;
}

static double seconds_left(const cli_progress *progress, uint64_t done, double now) {
    const double share = (double)done / (double)progress->total;
    return share > 0 && share < 1 ? (now - progress->started) * (1 - share) / share / 1e3 : 0;
}

/* Prints a line of progress, such as "embed: 1,234 of 60,000 images, 35.2 images/s, 28 min
 * left". */
static void print_line(const cli_progress *progress, uint64_t done, double now) {
    char count[32], total[32];
    const double seconds = (now - progress->started) / 1e3;
    fprintf(stderr, "%s: %s", progress->label, text_grouped(done, count));
    if (progress->total) fprintf(stderr, " of %s", text_grouped(progress->total, total));
    fprintf(stderr, " %s, %.1f %s/s", progress->unit, (double)done / seconds, progress->unit);
    if (progress->total && done)
        fprintf(stderr, ", %.0f min left", ceil(seconds_left(progress, done, now) / 60));
    putc('\n', stderr);
}

void cli_progress_update(cli_progress *progress, uint64_t done) {
    enum { WIDTH = 30 };
    char bar[WIDTH + 1];
    double now, share;
    if (!progress->active && !progress->note && !progress->unit) return;
    now = cli_now_ms();
    if (progress->note && now - progress->started > 1000) print_note(progress);
    if (!progress->active && !progress->unit) return;
    if (now - progress->drawn < (progress->active ? 100 : progress->interval)) return;
    progress->drawn = now;
    if (!progress->active) {
        print_line(progress, done, now);
        return;
    }
    progress->visible = true;

    if (!progress->total) {
        fprintf(stderr, "\r%s: %llu \033[K", progress->label, (unsigned long long)done);
        fflush(stderr);
        return;
    }
    share = (double)done / (double)progress->total;
    if (share > 1) share = 1;
    for (int i = 0; i < WIDTH; i++) bar[i] = i < share * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    /* The bar must fit into one line, because the terminal can erase only the last line. */
    fprintf(stderr, "\r\033[?7l%s [%s] %3.0f %%  %.0f s left \033[K\033[?7h", progress->label, bar,
            100 * share, seconds_left(progress, done, now));
    fflush(stderr);
}

void cli_progress_clear(cli_progress *progress) {
    if (!progress->visible) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->visible = false;
}
