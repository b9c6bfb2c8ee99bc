#include "cli/progress.h"

#include <stdio.h>

#include "os/os.h"

double cli_now_ms(void) { return os_now_ms(); }

void cli_progress_start(cli_progress *progress, const char *label, uint64_t total) {
    progress->label = label;
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

void cli_progress_update(cli_progress *progress, uint64_t done) {
    enum { WIDTH = 30 };
    char bar[WIDTH + 1];
    double now, share, left;
    if (!progress->active && !progress->note) return;
    now = cli_now_ms();
    if (progress->note && now - progress->started > 1000) print_note(progress);
    if (!progress->active) return;
    if (now - progress->drawn < 100) return;
    progress->drawn = now;
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
    left = share > 0 ? (now - progress->started) * (1 - share) / share / 1e3 : 0;
    /* Without wrapping: of two lines only the last one could be erased. */
    fprintf(stderr, "\r\033[?7l%s [%s] %3.0f %%  %.0f s left \033[K\033[?7h", progress->label, bar,
            100 * share, left);
    fflush(stderr);
}

void cli_progress_clear(cli_progress *progress) {
    if (!progress->visible) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->visible = false;
}
