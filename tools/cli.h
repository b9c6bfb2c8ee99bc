/* cli.h - what every program here shares: options, messages, progress, clock, output files.
 *
 *     static bool quiet;   static int top = 5;   static const char *model;
 *     const cli_option options[] = {
 *         { 'm', "model", "FILE", "the model to use", CLI_TEXT, &model, 0, 0 },
 *         { 'k', "top", "N", "how many classes to print (default 5)", CLI_INT, &top, 1, 1000 },
 *         { 'q', "quiet", NULL, "say nothing", CLI_FLAG, &quiet, 0, 0 },
 *         CLI_END
 *     };
 *     const cli_program program = { "classify", "[options] IMAGE...", "Names what it sees.\n",
 *                                   options, NULL, 1, CLI_MANY, "IMAGE" };
 *     cli_list images;
 *     int status;
 *     if (!cli_parse(&program, argc, argv, &images, &status)) return status;
 *     ...
 *     cli_list_free(&images);
 *     return cli_finish(program.name, failed ? CLI_FAILED : CLI_OK);
 *
 * Messages go to stderr as "PROGRAM: FILE: what is wrong". Functions that can fail return false
 * and leave one line in error; nothing here ends the process.
 */
#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#    define CLI_PRINTF(format_index, first_argument)                           \
        __attribute__((format(printf, format_index, first_argument)))
#else
#    define CLI_PRINTF(format_index, first_argument)
#endif

/* Exit statuses of every program. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

#define CLI_ERROR_SIZE 512   /* enough for every message; a smaller buffer truncates */

/* === Options ===
 * `--name value`, `--name=value`, `-n value`, `-nvalue`; a lone `-` is an operand (standard
 * input) and `--` ends the options. --help and --version come by themselves. */

typedef struct cli_list {   /* of words that belong to argv; free with cli_list_free */
    const char **items;
    int count;
} cli_list;

typedef enum cli_type {
    CLI_FLAG,     /* no value:      bool *         */
    CLI_TEXT,     /* any value:     const char **  */
    CLI_INT,      /* min .. max:    int *          */
    CLI_NUMBER,   /* min .. max:    double *       */
    CLI_SIZE,     /* N or HxW:      int[2], height and width, each min .. max */
    CLI_LIST      /* may be given several times: cli_list *, zeroed by the caller */
} cli_type;

typedef struct cli_option {
    char letter;              /* 'k' for -k; 0 for none                               */
    const char *name;         /* "top" for --top                                      */
    const char *argument;     /* what --help calls the value; NULL for a flag         */
    const char *help;         /* one sentence; further lines after '\n'               */
    cli_type type;
    void *value;              /* receives the value; untouched where the option is absent */
    double min, max;          /* of CLI_INT, CLI_NUMBER and CLI_SIZE                  */
} cli_option;

#define CLI_END { 0, NULL, NULL, NULL, CLI_FLAG, NULL, 0, 0 }
#define CLI_MANY 0x7fffffff

typedef struct cli_program {
    const char *name;         /* begins every message                                 */
    const char *synopsis;     /* after the name: "[options] IMAGE..."                 */
    const char *description;  /* of --help, above the options; ends with '\n'         */
    const cli_option *options;
    const char *notes;        /* of --help, below the options                        */
    int min_operands, max_operands;
    const char *operand;      /* what a missing one is called: "IMAGE"                */
} cli_program;

/* Sets the options' values and collects the operands (may be NULL if there can be none).
 * False when the program should end with *status: --help, --version, or a usage error, which is
 * on stderr by then. Then there is nothing to free. */
bool cli_parse(const cli_program *program, int argc, char **argv, cli_list *operands,
               int *status);
void cli_list_free(cli_list *list);

/* Strict: the whole text is one number within [min, max]. */
bool cli_read_int(const char *text, long min, long max, long *value);
bool cli_read_number(const char *text, double min, double max, double *value);
/* "384", or "384x256": height, then width. */
bool cli_read_size(const char *text, long min, long max, int size[2]);

/* === Messages === */

/* "PROGRAM: FILE: message" on stderr; file may be NULL. */
void cli_error(const char *program, const char *file, const char *format, ...) CLI_PRINTF(3, 4);

/* Sends what was printed so far on its way. False: it was lost (full disk, closed pipe), which is
 * on stderr by then, and there is no point in going on. */
bool cli_flush(const char *program);

/* For main's return: flushes stdout and closes the books. Where output was lost (full disk,
 * closed pipe) it says so and a status of 0 becomes 1. */
int cli_finish(const char *program, int status);

/* Formats into error and returns false, for `return cli_fail(...)`. */
bool cli_fail(char *error, size_t error_size, const char *format, ...) CLI_PRINTF(3, 4);

/* A number for JSON, which knows neither NaN nor infinity: those become null. */
void cli_put_number(FILE *file, double value, int digits);

/* === Progress and time === */

/* Milliseconds since some fixed moment, never going back. */
double cli_now_ms(void);

typedef struct cli_progress {
    const char *label;
    uint64_t total;           /* 0: unknown                                           */
    double started, drawn;    /* ms                                                   */
    bool active;              /* stderr is a terminal                                 */
    bool visible;
} cli_progress;

/* A bar on stderr, drawn at most ten times a second; silent unless stderr is a terminal. */
void cli_progress_start(cli_progress *progress, const char *label, uint64_t total);
void cli_progress_update(cli_progress *progress, uint64_t done);
/* Erases it: call before printing anything else, and at the end. */
void cli_progress_clear(cli_progress *progress);

/* === Files === */

/* A file that appears whole or not at all: written under a temporary name in the same folder,
 * renamed over the target by cli_output_commit. "-" is standard output; devices and pipes are
 * written directly. */
typedef struct cli_output {
    FILE *file;               /* write here                                           */
    char *path;               /* private                                              */
    char *temporary;          /* what is being written; NULL: the target directly     */
} cli_output;

/* Refuses a target that is one of the inputs, under whatever name. */
bool cli_output_open(cli_output *output, const char *path, const char *const *inputs,
                     int num_inputs, char *error, size_t error_size);
/* Checks every write, syncs, renames. Either way the output is closed and freed. */
bool cli_output_commit(cli_output *output, char *error, size_t error_size);
/* Closes, and removes what was written so far. */
void cli_output_abandon(cli_output *output);

/* All of a file or pipe ("-": standard input), malloc'ed. Reading ends soon after `limit` bytes,
 * so *size above it shows that there is too much. On failure *data is NULL and error says why. */
bool cli_read_all(const char *path, size_t limit, unsigned char **data, size_t *size, char *error,
                  size_t error_size);

/* The bundled model, wherever the program is run from: beside the executable (../models, or
 * ../share/vit where it is installed), in ./models, or in VIT_MODEL_DIR if that was defined.
 * malloc'ed; NULL: not found, or no memory. */
char *cli_find_model(const char *name);

#endif
