/* options.h - parses the options of a program, including --help and --version.
 *
 *     static bool quiet;   static int top = 5;   static const char *model;
 *     const cli_option options[] = {
 *         { 'm', "model", "FILE", "the model to use", CLI_TEXT, &model, 0, 0 },
 *         { 'k', "top", "N", "how many classes to print (default 5)", CLI_INT, &top, 1, 1000 },
 *         { 'q', "quiet", NULL, "print nothing", CLI_FLAG, &quiet, 0, 0 },
 *         CLI_END
 *     };
 *     const cli_program program = { "classify", "[options] IMAGE...", "Names what it sees.\n",
 *                                   options, NULL, 1, CLI_MANY, "IMAGE", NULL };
 *     text_list images;
 *     int status;
 *     if (!cli_parse(&program, argc, argv, &images, &status)) return status;
 *     ...
 *     text_list_free(&images);
 *     return cli_finish(program.name, failed ? CLI_FAILED : CLI_OK);
 *
 * tools/cli owns the common parts of all programs: options, progress, output files, exit status; it
 * may include os base.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"
#include "base/text.h"
#define VIT_TOOLS
#include "vit.h"

/* Options are `--name value`, `--name=value`, `-n value` or `-nvalue`. A lone `-` is an operand
 * (standard input), and `--` ends the options. --help and --version are built in.
 *
 * To add a type of option, add a row in cli_type and a case in set_value (options.c). The compiler
 * reports a missing case. */

typedef enum cli_type {
    CLI_FLAG,   /* no value; cli_option.value is a bool * */
    CLI_TEXT,   /* any text; const char ** */
    CLI_OUTPUT, /* path of a file to write (output.h); const char ** */
    CLI_INT,    /* integer from min to max; int * */
    CLI_NUMBER, /* number from min to max; double * */
    CLI_SIZE,   /* N or HxW, each from min to max; int[2], the height and the width */
    CLI_DTYPE,  /* name of a type of weights; vit_dtype * */
    CLI_ISA,    /* name of an instruction set; vit_isa * */
    CLI_LIST    /* may be repeated; text_list *, which the caller zeroes */
} cli_type;

typedef struct cli_option {
    char letter;          /* such as 'k' for -k; 0 if the option has no letter */
    const char *name;     /* such as "top" for --top */
    const char *argument; /* the value's name in --help; NULL for a flag */
    const char *help;     /* one sentence for --help; '\n' separates its lines */
    cli_type type;
    void *value;     /* receives the value; keeps its old content if the option is absent */
    double min, max; /* allowed values of CLI_INT, CLI_NUMBER and CLI_SIZE */
} cli_option;

/* Several programs use these macros as rows of their tables of options. An option thus has the same
 * letter and the same name in all programs. test_cli.sh compares the --help of all programs.
 * Programs that decode photos also use the rows in image/photos.h. */
#define CLI_OPTION_MODEL(value)                                                                    \
    {                                                                                              \
        'm', "model", "MODEL.vit", "the model (default: the bundled cifar10-vit.vit)", CLI_TEXT,   \
            value, 0, 0                                                                            \
    }
/* These two rows set the three numbers of a cli_size. */
#define CLI_OPTION_IMG_SIZE(value)                                                                 \
    { 0,        "img-size", "N|HxW", "input size, for models converted with --dynamic",            \
      CLI_SIZE, value,      1,       16384 },                                                      \
    {                                                                                              \
        0, "max-patches", "N",                                                                     \
            "keep the aspect ratio of each photo, and use at most N patches; for\n"                \
            "models converted with --dynamic",                                                     \
            CLI_INT, (value) + 2, 1, 1 << 20                                                       \
    }
#define CLI_OPTION_THREADS(value)                                                                  \
    { 't', "threads", "N", "threads (default 0: one per core)", CLI_INT, value, 0, 256 }
#define CLI_OPTION_BATCH(value, usual)                                                             \
    { 'b', "batch", "N", "images computed together (default " usual ")", CLI_INT, value, 1, 65536 }
#define CLI_OPTION_ISA(value)                                                                      \
    {                                                                                              \
        0, "isa", "NAME",                                                                          \
            "instruction set: auto (default), scalar, sse2, avx2 ...; all sets with\n"             \
            "FMA give the same bits",                                                              \
            CLI_ISA, value, 0, 0                                                                   \
    }

#define CLI_OPTION_TOP(value, help, most)                                                          \
    { 'k', "top", "N", help, CLI_INT, value, 1, most }
#define CLI_OPTION_JSON(value, help)                                                               \
    { 0, "json", NULL, help, CLI_FLAG, value, 0, 0 }
#define CLI_OPTION_CSV(value, help)                                                                \
    { 0, "csv", NULL, help, CLI_FLAG, value, 0, 0 }
#define CLI_OPTION_QUIET(value)                                                                    \
    {                                                                                              \
        'q', "quiet", NULL, "print only results and errors, no progress and no summary", CLI_FLAG, \
            value, 0, 0                                                                            \
    }

#define CLI_END                                                                                    \
    { 0, NULL, NULL, NULL, CLI_FLAG, NULL, 0, 0 }
#define CLI_MANY 0x7fffffff

typedef struct cli_program {
    /* name of the program, which begins every message; an @ in the texts below stands for it */
    const char *name;
    const char *synopsis;    /* text after the name in --help: "[options] IMAGE..." */
    const char *description; /* text in --help above the options; ends with '\n' */
    const cli_option *options;
    const char *notes; /* text in --help below the options; NULL if there is none */
    int min_operands, max_operands;
    const char *operand; /* name of an operand in the message that an operand is missing: "IMAGE" */
    /* name of the JPEG decoder, for --version; NULL if the program reads no JPEGs */
    const char *decoder;
} cli_program;

/* Begins every program. Calls os_start, and stores the name under which the program was called.
 * Messages use this name. If argv[0] is not usable as a name, stores `own` instead. cli_name
 * returns the stored name. */
void cli_start(int *argc, char ***argv, const char *own);
const char *cli_name(void);

/* Prints a message about an error in the command line. The message also mentions --help. Returns
 * CLI_USAGE. */
int cli_wrong(const char *program, const char *format, ...) REPORT_PRINTF(2, 3);

/* Sets the options' values, and collects the operands in the list `operands`, which is NULL if the
 * program takes no operands. Returns false if the program should exit with *status, because
 * cli_parse has printed --help, --version or a usage error. There is then nothing to free. */
bool cli_parse(const cli_program *program, int argc, char **argv, text_list *operands, int *status);

/* === The model of a program, with more helpful messages than those of vit.h === */

/* Calls vit_model_open. On failure, the message gives the reason, or states that the file is a
 * checkpoint, which must be converted first. */
bool cli_model_open(const char *path, unsigned flags, vit_model *model, report *r);

/* Returns the path of the model, malloc'ed. `given` is the value of -m, or NULL if -m is absent;
 * the path is then that of the bundled model. Returns NULL on failure, such as when there is no
 * bundled model. */
char *cli_model_path(const char *given, report *r);

/* The height and width that --img-size gives, and the number of patches that --max-patches gives. A
 * 0 means the model's own value. */
typedef int cli_size[3];

/* Sets the input size of the model. If the model already has this size, the call changes nothing
 * and succeeds, even if the model has a fixed size. */
bool cli_model_resize(vit_model *model, const cli_size size, report *r);

/* Opens the model of -m, or the bundled model if `given` is NULL, and sets its input size. *path
 * becomes the path of the file, malloc'ed; NULL on failure. */
bool cli_model_choose(const char *given, const cli_size size, vit_model *model, char **path,
                      report *r);

#endif
