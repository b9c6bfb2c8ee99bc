/* output.h - what a program leaves: its exit status, complete standard output, and files that
 * appear whole or not at all.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/report.h"

/* Exit status of every program. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* Flushes stdout. False: output was lost (full disk, closed pipe), which has been reported, and
 * there is no point in going on. */
bool cli_flush(const char *program);

/* What main returns: flushes stdout; if output was lost, reports it and turns status 0 into 1. */
int cli_finish(const char *program, int status);

/* A field of a CSV file (RFC 4180): in quotes, which are doubled in it. */
void cli_put_field(FILE *file, const char *text);

/* A file that appears whole or not at all: it is written under a temporary name in the same folder
 * and renamed to the target by cli_output_commit. "-" is standard output; devices and pipes are
 * written directly. */
typedef struct cli_output {
    FILE *file;       /* write here                                           */
    bool is_new;      /* set by the caller: to be written over nothing        */
    const char *name; /* the caller's; private, like the following            */
    char *path;
    char *temporary; /* being written; NULL: the target itself is            */
    char *buffer;    /* of the file                                          */
} cli_output;

/* Makes a folder, unless it is there. */
bool cli_output_folder(const char *path, report *r);

/* No file that the command reads is written, and none is written twice, under whatever names.
 *
 * Declares a file that will be written, before any is read; cli_parse does for options of type
 * CLI_OUTPUT. False: it is another output's. */
bool cli_output_declare(const char *path, report *r);
/* Tells of a file that is read. os_open, os_fopen and os_map tell by themselves, cli_parse of all
 * operands, so this is for what other functions open. Any thread may call it. */
void cli_output_read(const char *path);
/* cli_output_read, and a check. False: this input, or an earlier one, is an output; stop. */
bool cli_output_spares(const char *input, report *r);

/* Refuses if any output was read. An output that was not declared is declared here, so the caller
 * must pass what it has read before to cli_output_spares. */
bool cli_output_open(cli_output *output, const char *path, report *r);
/* Checks that every write succeeded and that no output was read, syncs, renames. The output is
 * closed and freed either way. */
bool cli_output_commit(cli_output *output, report *r);
/* The same of several. None is renamed unless all are whole; then they are, in this order. */
bool cli_outputs_commit(cli_output *const all[], int count, report *r);
/* Closes the file and removes what was written so far. */
void cli_output_abandon(cli_output *output);
/* A folder that is removed, too, if the program is ended from outside; NULL: there is none any more.
 * One at a time. */
void cli_temporary_folder(const char *path);
/* Where what was written so far can be read again, once it is flushed; NULL: nowhere. */
const char *cli_output_written(const cli_output *output);

#endif
