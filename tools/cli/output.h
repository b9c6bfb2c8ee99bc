/* output.h - handles the results of a program: its exit status, complete standard output, and files
 * that appear whole or not at all.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"

/* Exit status of every program. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* Flushes stdout. Returns false if output was lost (full disk, closed pipe). The loss has been
 * reported, and the program should end. */
bool cli_flush(const char *program);

/* Flushes stdout, and returns the exit status for main. If output was lost, reports the loss and
 * turns status 0 into 1. */
int cli_finish(const char *program, int status);

/* Writes a field of a CSV file (RFC 4180): in quotes, with inner quotes doubled. */
void cli_put_field(FILE *file, const char *text);

/* A file that appears whole or not at all. It is written under a temporary name in the same folder,
 * and cli_output_commit renames it to the target. "-" is standard output; devices and pipes are
 * written directly. */
typedef struct cli_output {
    FILE *file;       /* write here */
    bool is_new;      /* set by the caller; if true, an existing file is not replaced */
    const char *name; /* memory of the caller; private, like the members below */
    char *path;
    char *temporary; /* the temporary file; NULL if the target is written directly */
    char *buffer;    /* buffer of the file */
} cli_output;

/* Makes a folder, unless it exists. */
bool cli_output_folder(const char *path, report *r);

/* A program never writes a file that it reads, and never writes a file twice, even under different
 * paths.
 *
 * Declares an output, before any input is read; cli_parse does so for options of type CLI_OUTPUT.
 * Returns false if another output has this path. */
bool cli_output_declare(const char *path, report *r);
/* Registers a file that is read. os_open, os_fopen, os_map and, for operands, cli_parse call this
 * function. Call it for files that other functions open, on any thread. */
void cli_output_read(const char *path);
/* Calls cli_output_read. Returns false if this or an earlier input is an output; the program must
 * then stop. */
bool cli_output_spares(const char *input, report *r);

/* Opens an output. Fails if any output was read. Declares an output that was not declared before;
 * the caller must then first pass all inputs to cli_output_spares. */
bool cli_output_open(cli_output *output, const char *path, report *r);
/* Checks that every write succeeded and that no output was read, syncs the file, and renames it.
 * The output is closed and freed in any case. */
bool cli_output_commit(cli_output *output, report *r);
/* Commits several outputs. Renames all outputs, in this order, if all outputs are complete;
 * otherwise renames no output. */
bool cli_outputs_commit(cli_output *const all[], int count, report *r);
/* Closes the file and removes the bytes written so far. */
void cli_output_abandon(cli_output *output);
/* Sets a folder to remove if a signal or the keyboard ends the program. There is one such folder at
 * a time; NULL means none. */
void cli_temporary_folder(const char *path);
/* Returns the path under which flushed data can be read again; NULL if there is none. */
const char *cli_output_written(const cli_output *output);

/* === A clock, and a progress bar for long steps === */

/* Returns the milliseconds since some fixed moment; they never decrease. */
double cli_now_ms(void);

typedef struct cli_progress {
    const char *label;
    const char *unit;      /* such as "images"; if set, lines replace a missing bar */
    uint64_t total;        /* 0 if unknown */
    double started, drawn; /* ms */
    double interval;       /* time between lines, in ms: a minute */
    bool active;           /* stderr is a terminal */
    bool visible;
    const char *note; /* text printed once after a second, even without a bar; or NULL */
} cli_progress;

/* Draws a bar on stderr, or a number if the total is unknown, at most ten times a second. If stderr
 * is no terminal, prints a line per minute if a unit is set, and otherwise nothing. */
void cli_progress_start(cli_progress *progress, const char *label, uint64_t total);
void cli_progress_update(cli_progress *progress, uint64_t done);
/* Erases the bar. Call it before other output, and at the end. */
void cli_progress_clear(cli_progress *progress);

#endif
