/* output.h - handles the results of a program: its exit status, its standard output, which must be
 * complete, and its files, which appear whole or not at all.
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

/* Flushes stdout. Returns false if output was lost, for example because the disk is full or a pipe
 * is closed. The function has then printed a message, and the program should end. */
bool cli_flush(const char *program);

/* Flushes stdout, and returns `status` as the exit status for main. If output was lost, the
 * function prints a message, and returns 1 in place of a `status` of 0. */
int cli_finish(const char *program, int status);

/* Writes a field of a CSV file (RFC 4180). The field is put in quotes, and each quote inside it is
 * doubled. */
void cli_put_field(FILE *file, const char *text);

/* A file that appears whole or not at all. It is written under a temporary name in the same folder,
 * and cli_output_commit renames it to the target. "-" is standard output; devices and pipes are
 * written directly. */
typedef struct cli_output {
    FILE *file; /* the caller writes to this file */
    /* set by the caller after opening; if true, committing fails if a file with this path exists */
    bool is_new;
    const char *name; /* private, like the members below; the caller owns this text */
    char *path;
    char *temporary; /* path of the temporary file; NULL if the target is written directly */
    char *buffer;    /* buffer of `file` */
} cli_output;

/* Makes a folder, unless it exists. */
bool cli_output_folder(const char *path, report *r);

/* A program never writes a file that it reads, and never writes a file twice, even under different
 * paths.
 *
 * cli_output_declare declares an output. Call it before any input is read; cli_parse calls it for
 * options of type CLI_OUTPUT. Returns false if another output is the same file. */
bool cli_output_declare(const char *path, report *r);
/* Registers an input, which is a file that the program reads. os_open, os_fopen and os_map call
 * this function, and cli_parse calls it for operands. Also call this function for files that other
 * functions open. Any thread may call this function. */
void cli_output_read(const char *path);
/* Registers an input as cli_output_read does. Returns false if this input or an earlier input is
 * also an output; the program must then stop. */
bool cli_output_spares(const char *input, report *r);

/* Opens an output. Fails if the program has read any of its outputs. If the output is not declared,
 * declares it. In this case the caller must already have passed all inputs to cli_output_spares. */
bool cli_output_open(cli_output *output, const char *path, report *r);
/* Checks that every write succeeded and that the program has read none of its outputs. Then writes
 * the file to the disk (fsync), and renames it to the target. The output is closed and freed in any
 * case. */
bool cli_output_commit(cli_output *output, report *r);
/* Commits `count` outputs. If all of them are complete, renames them in the order of `all`, up to
 * the first failure; otherwise renames none of them. */
bool cli_outputs_commit(cli_output *const all[], int count, report *r);
/* Closes the file, and removes it if it is temporary. The output is freed. */
void cli_output_abandon(cli_output *output);
/* Sets the folder that is removed if a signal, such as that of Ctrl-C, ends the program. There is
 * one such folder at a time. NULL means that there is no such folder. */
void cli_temporary_folder(const char *path);
/* Returns the path from which the flushed data of an open output can be read; NULL if there is no
 * such path. */
const char *cli_output_written(const cli_output *output);

/* === A clock, and a progress bar for long steps === */

/* Returns the time in milliseconds since some fixed moment. The time never decreases. */
double cli_now_ms(void);

typedef struct cli_progress {
    const char *label;
    /* such as "images"; if not NULL, a line is printed per minute when there is no bar */
    const char *unit;
    uint64_t total;        /* number of units in the whole step; 0 if it is unknown */
    double started, drawn; /* ms */
    double interval;       /* time between two lines, in ms: a minute */
    bool active;           /* true if stderr is a terminal */
    bool visible;
    /* text that is printed once after a second, even without a bar; NULL if there is none */
    const char *note;
} cli_progress;

/* Begins a step. A bar is drawn on stderr at most ten times a second; if the total is unknown, a
 * number is drawn instead. If stderr is not a terminal, a line is printed per minute instead or, if
 * `unit` is NULL, nothing. */
void cli_progress_start(cli_progress *progress, const char *label, uint64_t total);
void cli_progress_update(cli_progress *progress, uint64_t done);
/* Erases the bar. Call it before other output, and at the end. */
void cli_progress_clear(cli_progress *progress);

#endif
