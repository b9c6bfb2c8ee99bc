/* progress.h - a clock, and a progress bar for long steps. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Milliseconds since some fixed moment; never goes back. */
double cli_now_ms(void);

typedef struct cli_progress {
    const char *label;
    const char *unit;      /* such as "images"; if set, lines are printed where there is no bar */
    uint64_t total;        /* 0: unknown */
    double started, drawn; /* ms */
    double interval;       /* between lines, ms: a minute */
    bool active;           /* stderr is a terminal */
    bool visible;
    const char *note; /* printed once after a second, even without a bar; or NULL */
} cli_progress;

/* Draws a bar on stderr, or a number if the total is unknown, at most ten times a second. If stderr
 * is no terminal, prints a line per minute if there is a unit, and nothing otherwise. */
void cli_progress_start(cli_progress *progress, const char *label, uint64_t total);
void cli_progress_update(cli_progress *progress, uint64_t done);
/* Erases it. Call it before printing anything else, and at the end. */
void cli_progress_clear(cli_progress *progress);

#endif
