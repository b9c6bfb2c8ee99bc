/* output.h - what a program leaves behind: its exit status, all of its standard output, and files
 * that appear whole or not at all.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/report.h"

/* Exit statuses of every program. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* Sends what was printed so far on its way. False: it was lost (full disk, closed pipe), which is
 * on stderr by then, and there is no point in going on. */
bool cli_flush(const char *program);

/* For main's return: flushes stdout and closes the books. Where output was lost (full disk,
 * closed pipe) it says so and a status of 0 becomes 1. */
int cli_finish(const char *program, int status);

/* A file that appears whole or not at all: written under a temporary name in the same folder,
 * renamed over the target by cli_output_commit. "-" is standard output; devices and pipes are
 * written directly. */
typedef struct cli_output {
    FILE *file;               /* write here                                           */
    const char *name;         /* as the caller wrote it; private, as the following    */
    char *path;
    char *temporary;          /* what is being written; NULL: the target directly     */
} cli_output;

/* Refuses a target that is one of the inputs, under whatever name. */
bool cli_output_open(cli_output *output, const char *path, const char *const *inputs,
                     int num_inputs, report *r);
/* Checks every write, syncs, renames. Either way the output is closed and freed. */
bool cli_output_commit(cli_output *output, report *r);
/* Closes, and removes what was written so far. */
void cli_output_abandon(cli_output *output);

#endif
