#include "cli/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/report.h"
#include "base/tensor.h"
#include "cli/output.h"
#include "os/os.h"
#define VIT_TOOLS
#include "vit.h"

/* The words of argv. `next` is the index of the first word that is not parsed yet. */
typedef struct parser {
    const cli_program *program;
    char **words;
    int count;
    int next;
} parser;

/* === Names === */

enum { LONGEST_NAME = 60 };
static char called[LONGEST_NAME + 1] = "vit";

/* Takes the program's name from the last part of a path, without the suffix .exe of Windows.
 * Returns false if this part cannot be used as a name. */
static bool take_name(const char *path) {
    const char *name = path;
    size_t length;
    for (; *path; path++) {
        if (os_is_slash(*path)) name = path + 1;
    }
    length = (size_t)(path - name);
    if (length > 4 && (strcmp(path - 4, ".exe") == 0 || strcmp(path - 4, ".EXE") == 0)) length -= 4;
    if (length == 0 || length > LONGEST_NAME) return false;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] <= ' ' || (unsigned char)name[i] >= 0x7f) return false;
    }
    memcpy(called, name, length);
    called[length] = '\0';
    return true;
}

void cli_start(int *argc, char ***argv, const char *own) {
    os_start(argc, argv);
    if (*argc < 1 || !take_name((*argv)[0])) (void)take_name(own);
    os_on_lost(called);
}

const char *cli_name(void) { return called; }

/* === Usage errors === */

static void wrong(const char *program, const char *format, va_list arguments) {
    char message[REPORT_SIZE];
    vsnprintf(message, sizeof message, format, arguments);
    report_error(program, NULL, "%s (try '%s --help')", message, program);
}

int cli_wrong(const char *program, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    wrong(program, format, arguments);
    va_end(arguments);
    return CLI_USAGE;
}

/* Prints the error and how to get help. The error names an option as the user wrote it ("-k"). */
static bool usage_error(const parser *p, const char *format, ...) REPORT_PRINTF(2, 3);

static bool usage_error(const parser *p, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    wrong(p->program->name, format, arguments);
    va_end(arguments);
    return false;
}

/* Reports an unknown option. Most unknown options are typing errors, so the message also names the
 * nearest known option. */
static bool unknown_option(const parser *p, const char *word, const char *name) {
    const cli_option *nearest = NULL;
    int distance = 3; /* More distant names do not help. */
    for (const cli_option *o = p->program->options; o->name; o++) {
        int d = text_distance(name, o->name);
        if (d < distance) {
            distance = d;
            nearest = o;
        }
    }
    if (nearest) {
        return usage_error(p, "unknown option '%.80s', did you mean '--%s'?", word, nearest->name);
    }
    return usage_error(p, "unknown option '%.80s'", word);
}

static bool set_int(const parser *p, const cli_option *o, const char *word, const char *value) {
    long number;
    if (!text_read_int(value, (long)o->min, (long)o->max, &number)) {
        return usage_error(p, "%s: expected a whole number from %.0f to %.0f, found '%.80s'", word,
                           o->min, o->max, value);
    }
    *(int *)o->value = (int)number;
    return true;
}

static bool set_number(const parser *p, const cli_option *o, const char *word, const char *value) {
    if (text_read_number(value, o->min, o->max, (double *)o->value)) return true;
    return usage_error(p, "%s: expected a number from %g to %g, found '%.80s'", word, o->min,
                       o->max, value);
}

/* Stores the value of a CLI_SIZE option. `word` is the option as the user wrote it, for
 * messages. */
static bool set_size(const parser *p, const cli_option *o, const char *word, const char *text) {
    if (text_read_size(text, (long)o->min, (long)o->max, (int *)o->value)) return true;
    return usage_error(p, "%s: expected %s with sides from %.0f to %.0f, found '%.80s'", word,
                       o->argument, o->min, o->max, text);
}

/* Returns the name of value i of the type. Returns NULL after the last name. */
static const char *name_of(cli_type type, int i) {
    if (type == CLI_ISA) return i < VIT_NUM_ISAS ? vit_isa_name((vit_isa)i) : NULL;
    return i < VIT_NUM_DTYPES ? tensor_dtype_name((vit_dtype)i) : NULL;
}

static bool refuse_name(const parser *p, const cli_option *o, const char *word, const char *value) {
    char names[256] = "";
    size_t length = 0;
    for (int i = 0; name_of(o->type, i) && length < sizeof names; i++) {
        const char *comma = i == 0 ? "" : name_of(o->type, i + 1) ? ", " : " or ";
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", comma,
                                   name_of(o->type, i));
    }
    return usage_error(p, "%s: expected %s, found '%.40s'", word, names, value);
}

static bool set_name(const parser *p, const cli_option *o, const char *word, const char *value) {
    int i = o->type == CLI_DTYPE ? tensor_find_dtype(value) : 0;
    while (o->type == CLI_ISA && name_of(o->type, i) && strcmp(name_of(o->type, i), value)) i++;
    if (i < 0 || !name_of(o->type, i)) return refuse_name(p, o, word, value);
    if (o->type == CLI_ISA) *(vit_isa *)o->value = (vit_isa)i;
    else *(vit_dtype *)o->value = (vit_dtype)i;
    return true;
}

static bool set_value(const parser *p, const cli_option *o, const char *word, const char *value) {
    switch (o->type) {
    case CLI_FLAG: *(bool *)o->value = true; return true;
    case CLI_TEXT:
    case CLI_OUTPUT: *(const char **)o->value = value; return true;
    case CLI_INT: return set_int(p, o, word, value);
    case CLI_NUMBER: return set_number(p, o, word, value);
    case CLI_SIZE: return set_size(p, o, word, value);
    case CLI_DTYPE:
    case CLI_ISA: return set_name(p, o, word, value);
    case CLI_LIST: break;
    }
    if (text_list_append((text_list *)o->value, value)) return true;
    report_error(p->program->name, NULL, "out of memory");
    return false;
}

/* Stores the value of an option. `attached` is the value if it was in the same word as the option.
 * If `attached` is NULL, the next word is the value. */
static bool take_option(parser *p, const cli_option *o, const char *word, const char *attached) {
    if (o->type == CLI_FLAG && attached) {
        return usage_error(p, "option '%.80s' takes no value", word);
    }
    if (o->type != CLI_FLAG && !attached) {
        if (p->next == p->count) {
            return usage_error(p, "option '%.80s' needs a value: %s", word, o->argument);
        }
        attached = p->words[p->next++];
    }
    return set_value(p, o, word, attached);
}

static bool take_long(parser *p, const char *word) {
    char name[40];
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;
    if (length < sizeof name) {
        memcpy(name, word + 2, length);
        name[length] = '\0';
        for (const cli_option *o = p->program->options; o->name; o++) {
            if (strcmp(o->name, name) == 0) {
                return take_option(p, o, word, equals ? equals + 1 : NULL);
            }
        }
        return unknown_option(p, word, name);
    }
    return unknown_option(p, word, "");
}

/* Parses a word of short options: -k5, -k 5, or several flags such as -vq. */
static bool take_short(parser *p, const char *word) {
    for (const char *letter = word + 1; *letter; letter++) {
        const cli_option *o = p->program->options;
        while (o->name && o->letter != *letter) o++;
        if (!o->name) return unknown_option(p, word, word + 1);
        if (o->type != CLI_FLAG) return take_option(p, o, word, letter[1] ? letter + 1 : NULL);
        take_option(p, o, word, NULL);
    }
    return true;
}

static bool is_any(const char *word, const char *a, const char *b) {
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* True if a word before "--" is this option. --help and --version are found in this way before the
 * words are parsed. They therefore work even after a mistake. */
static bool asks_for(int argc, char **argv, const char *name, const char *letter) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (is_any(argv[i], name, letter)) return true;
    }
    return false;
}

/* Prints the help of one option. All lines of the help text have the same indentation. */
static void print_option(char letter, const char *name, const char *argument, const char *help) {
    char left[64];
    char shortcut[8] = "    ";
    if (letter) snprintf(shortcut, sizeof shortcut, "-%c, ", letter);
    snprintf(left, sizeof left, "%s--%s%s%s", shortcut, name, argument ? " " : "",
             argument ? argument : "");
    if (strlen(left) > 22) printf("  %s\n  %-22s  ", left, "");
    else printf("  %-22s  ", left);
    for (; *help; help++) {
        putchar(*help);
        if (*help == '\n') printf("%26s", "");
    }
    putchar('\n');
}

/* Prints a text, with the program's name in place of each @. */
static void print_text(const char *text, const char *name) {
    for (; *text; text++) {
        if (*text == '@') fputs(name, stdout);
        else putchar(*text);
    }
}

static void print_help(const cli_program *program) {
    printf("usage: %s ", program->name);
    print_text(program->synopsis, program->name);
    printf("\n\n");
    print_text(program->description, program->name);
    printf("\noptions:\n");
    for (const cli_option *o = program->options; o->name; o++) {
        print_option(o->letter, o->name, o->argument, o->help);
    }
    print_option('h', "help", NULL, "print this text");
    print_option(0, "version", NULL, "print the version");
    if (program->notes) printf("\n");
    print_text(program->notes ? program->notes : "", program->name);
}

static void print_version(const cli_program *program) {
    printf("%s (vit.h %d.%d.%d%s%s)\n", program->name, VIT_VERSION_MAJOR, VIT_VERSION_MINOR,
           VIT_VERSION_PATCH, program->decoder ? "; JPEGs by " : "",
           program->decoder ? program->decoder : "");
}

static bool take_word(parser *p, text_list *operands, bool *only_operands) {
    const char *word = p->words[p->next++];
    if (*only_operands || word[0] != '-' || word[1] == '\0') {
        if (text_list_append(operands, word)) return true;
        report_error(p->program->name, NULL, "out of memory");
        return false;
    }
    if (strcmp(word, "--") == 0) {
        *only_operands = true;
        return true;
    }
    return word[1] == '-' ? take_long(p, word) : take_short(p, word);
}

static bool check_count(const parser *p, const text_list *operands) {
    if (operands->count < p->program->min_operands) {
        return usage_error(p, "missing %s", p->program->operand);
    }
    if (operands->count > p->program->max_operands) {
        return usage_error(p, "unexpected '%.80s'", operands->items[p->program->max_operands]);
    }
    return true;
}

/* Declares the outputs among the options, and records the operands as inputs. An output that is
 * also an operand is refused later, when it is opened. */
static bool declare_files(const parser *p, const text_list *operands) {
    report r = report_make();
    for (const cli_option *o = p->program->options; o->name; o++) {
        const char *path = o->type == CLI_OUTPUT ? *(const char **)o->value : NULL;
        if (path && !cli_output_declare(path, &r)) return usage_error(p, "%s", r.text);
    }
    for (int i = 0; i < operands->count; i++) cli_output_read(operands->items[i]);
    return true;
}

static void free_lists(const cli_program *program, text_list *operands) {
    for (const cli_option *o = program->options; o->name; o++) {
        if (o->type == CLI_LIST) text_list_free((text_list *)o->value);
    }
    text_list_free(operands);
}

bool cli_parse(const cli_program *program, int argc, char **argv, text_list *operands,
               int *status) {
    parser p = { program, argv, argc, argc > 0 ? 1 : 0 };
    text_list own = { NULL, 0 };
    bool only_operands = false, good = true;

    if (asks_for(argc, argv, "--help", "-h")) {
        print_help(program);
    } else if (asks_for(argc, argv, "--version", "--version")) {
        print_version(program);
    } else {
        while (good && p.next < p.count) good = take_word(&p, &own, &only_operands);
        good = good && check_count(&p, &own) && declare_files(&p, &own);
        if (!good) free_lists(program, &own);
        else if (operands) *operands = own;
        else text_list_free(&own);
        *status = good ? CLI_OK : CLI_USAGE;
        return good;
    }
    *status = cli_finish(program->name, CLI_OK);
    return false;
}
