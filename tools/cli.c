/* cli.c - see cli.h. POSIX. */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700   /* realpath */

#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../vit.h"

/* ------------------------------------------------------------------------- */
/* Messages                                                                  */
/* ------------------------------------------------------------------------- */

/* Text of others (a path, an option) may hold control characters; a message must stay on one
 * line and must not steer the terminal. */
static void put_printable(const char *text, FILE *file) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        putc(c < 32 || c == 127 ? '?' : c, file);
    }
}

void cli_error(const char *program, const char *file, const char *format, ...) {
    char message[2 * CLI_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);

    fprintf(stderr, "%s: ", program);
    if (file) {
        put_printable(file, stderr);
        fputs(": ", stderr);
    }
    put_printable(message, stderr);
    putc('\n', stderr);
}

bool cli_fail(char *error, size_t error_size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, error_size, format, arguments);
    va_end(arguments);
    return false;
}

void cli_put_number(FILE *file, double value, int digits) {
    if (isfinite(value)) fprintf(file, "%.*g", digits, value);
    else fputs("null", file);
}

/* errno says why, or is 0 where it was lost with an earlier write. */
static bool stdout_lost(const char *program) {
    cli_error(program, "standard output", "%s", errno ? strerror(errno) : "write failed");
    clearerr(stdout);   /* said once */
    return false;
}

bool cli_flush(const char *program) {
    bool lost = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0) lost = true;
    return !lost || stdout_lost(program);
}

int cli_finish(const char *program, int status) {
    bool good = cli_flush(program);
    /* NFS and quotas report a full disk only when the file is closed. A duplicate is closed, so
     * that stdout itself stays usable; where there is none, nothing was written. */
    int copy = good ? dup(fileno(stdout)) : -1;
    errno = 0;
    if (copy >= 0 && close(copy) != 0) good = stdout_lost(program);
    return !good && status == CLI_OK ? CLI_FAILED : status;
}

/* ------------------------------------------------------------------------- */
/* Numbers                                                                   */
/* ------------------------------------------------------------------------- */

/* strtol and strtod skip leading white space and take hexadecimal; a number here begins with a
 * digit, a sign or a point. */
static bool looks_decimal(const char *text) {
    size_t length = strlen(text);
    return length > 0 && length < 64 && strspn(text, "0123456789+-.eE") == length;
}

bool cli_read_int(const char *text, long min, long max, long *value) {
    char *end;
    long parsed;
    if (!looks_decimal(text)) return false;
    errno = 0;
    parsed = strtol(text, &end, 10);
    if (*end || errno || parsed < min || parsed > max) return false;
    *value = parsed;
    return true;
}

bool cli_read_size(const char *text, long min, long max, int size[2]) {
    const char *x = strchr(text, 'x');
    size_t length = x ? (size_t)(x - text) : strlen(text);
    char first[32];
    long height, width;
    if (length >= sizeof first) return false;
    memcpy(first, text, length);
    first[length] = '\0';
    if (!cli_read_int(first, min, max, &height)) return false;
    if (!cli_read_int(x ? x + 1 : first, min, max, &width)) return false;
    size[0] = (int)height;
    size[1] = (int)width;
    return true;
}

bool cli_read_number(const char *text, double min, double max, double *value) {
    char *end;
    double parsed;
    if (!looks_decimal(text)) return false;
    parsed = strtod(text, &end);
    if (*end || !(parsed >= min && parsed <= max)) return false;
    *value = parsed;
    return true;
}

/* ------------------------------------------------------------------------- */
/* Options                                                                   */
/* ------------------------------------------------------------------------- */

/* Words of argv not looked at yet. */
typedef struct parser {
    const cli_program *program;
    char **words;
    int count;
    int next;
} parser;

/* "--top" or "-k", as the user wrote it; then the complaint and where to look. */
static bool usage_error(const parser *p, const char *format, ...) CLI_PRINTF(2, 3);

static bool usage_error(const parser *p, const char *format, ...) {
    char message[CLI_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    cli_error(p->program->name, NULL, "%s (try '%s --help')", message, p->program->name);
    return false;
}

/* Letters to change, insert or delete to turn a into b, the name of an option. */
static int edit_distance(const char *a, const char *b) {
    int row[40];
    int width = (int)strlen(b);
    for (int j = 0; j <= width; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= width; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[width];
}

/* An unknown option is mostly a typing error: names the nearest known one. */
static bool unknown_option(const parser *p, const char *word, const char *name) {
    const cli_option *nearest = NULL;
    int distance = 3;   /* further away is no help */
    for (const cli_option *o = p->program->options; o->name; o++) {
        int d = edit_distance(name, o->name);
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

/* cli_list grows by doubling at powers of two. */
static bool list_append(cli_list *list, const char *item) {
    if ((list->count & (list->count - 1)) == 0) {
        size_t capacity = list->count ? (size_t)list->count * 2 : 1;
        const char **items = realloc(list->items, capacity * sizeof *items);
        if (!items) return false;
        list->items = items;
    }
    list->items[list->count++] = item;
    return true;
}

void cli_list_free(cli_list *list) {
    free(list->items);
    list->items = NULL;
    list->count = 0;
}

static bool set_int(const parser *p, const cli_option *o, const char *word, const char *value) {
    long number;
    if (!cli_read_int(value, (long)o->min, (long)o->max, &number)) {
        return usage_error(p, "%s: expected a whole number from %.0f to %.0f, found '%.80s'", word,
                           o->min, o->max, value);
    }
    *(int *)o->value = (int)number;
    return true;
}

static bool set_number(const parser *p, const cli_option *o, const char *word,
                       const char *value) {
    if (cli_read_number(value, o->min, o->max, (double *)o->value)) return true;
    return usage_error(p, "%s: expected a number from %g to %g, found '%.80s'", word, o->min,
                       o->max, value);
}

/* Stores one value; word is the option as written, for messages. */
static bool set_size(const parser *p, const cli_option *o, const char *word, const char *text) {
    if (cli_read_size(text, (long)o->min, (long)o->max, (int *)o->value)) return true;
    return usage_error(p, "%s: expected %s with sides from %.0f to %.0f, found '%.80s'", word,
                       o->argument, o->min, o->max, text);
}

static bool set_value(const parser *p, const cli_option *o, const char *word,
                      const char *value) {
    switch (o->type) {
    case CLI_FLAG: *(bool *)o->value = true; return true;
    case CLI_TEXT: *(const char **)o->value = value; return true;
    case CLI_INT: return set_int(p, o, word, value);
    case CLI_NUMBER: return set_number(p, o, word, value);
    case CLI_SIZE: return set_size(p, o, word, value);
    default: /* CLI_LIST */
        if (list_append((cli_list *)o->value, value)) return true;
        cli_error(p->program->name, NULL, "out of memory");
        return false;
    }
}

/* attached is the value in the same word, or NULL; otherwise the next word is the value. */
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

/* -k5, -k 5, or several flags in one word (-vq). */
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

/* --help and --version work wherever they stand before "--", even behind a mistake. */
static bool asks_for(int argc, char **argv, const char *name, const char *letter) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (is_any(argv[i], name, letter)) return true;
    }
    return false;
}

/* One line of --help; continuation lines of the text are indented alike. */
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

static void print_help(const cli_program *program) {
    printf("usage: %s %s\n\n%s\noptions:\n", program->name, program->synopsis,
           program->description);
    for (const cli_option *o = program->options; o->name; o++) {
        print_option(o->letter, o->name, o->argument, o->help);
    }
    print_option('h', "help", NULL, "print this text");
    print_option(0, "version", NULL, "print the version");
    printf("\n%s", program->notes);
}

static void print_version(const cli_program *program) {
    printf("%s (vit.h %d.%d.%d)\n", program->name, VIT_VERSION_MAJOR, VIT_VERSION_MINOR,
           VIT_VERSION_PATCH);
}

static bool take_word(parser *p, cli_list *operands, bool *only_operands) {
    const char *word = p->words[p->next++];
    if (*only_operands || word[0] != '-' || word[1] == '\0') {
        if (list_append(operands, word)) return true;
        cli_error(p->program->name, NULL, "out of memory");
        return false;
    }
    if (strcmp(word, "--") == 0) {
        *only_operands = true;
        return true;
    }
    return word[1] == '-' ? take_long(p, word) : take_short(p, word);
}

static bool check_count(const parser *p, const cli_list *operands) {
    if (operands->count < p->program->min_operands) {
        return usage_error(p, "missing %s", p->program->operand);
    }
    if (operands->count > p->program->max_operands) {
        return usage_error(p, "unexpected '%.80s'", operands->items[p->program->max_operands]);
    }
    return true;
}

static void free_lists(const cli_program *program, cli_list *operands) {
    for (const cli_option *o = program->options; o->name; o++) {
        if (o->type == CLI_LIST) cli_list_free((cli_list *)o->value);
    }
    cli_list_free(operands);
}

bool cli_parse(const cli_program *program, int argc, char **argv, cli_list *operands,
               int *status) {
    parser p = { program, argv, argc, argc > 0 ? 1 : 0 };
    cli_list own = { NULL, 0 };
    bool only_operands = false, good = true;

    if (asks_for(argc, argv, "--help", "-h")) {
        print_help(program);
    } else if (asks_for(argc, argv, "--version", "--version")) {
        print_version(program);
    } else {
        while (good && p.next < p.count) good = take_word(&p, &own, &only_operands);
        good = good && check_count(&p, &own);
        if (!good) free_lists(program, &own);
        else if (operands) *operands = own;
        else cli_list_free(&own);
        *status = good ? CLI_OK : CLI_USAGE;
        return good;
    }
    *status = cli_finish(program->name, CLI_OK);
    return false;
}

/* ------------------------------------------------------------------------- */
/* Progress and time                                                         */
/* ------------------------------------------------------------------------- */

double cli_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

void cli_progress_start(cli_progress *progress, const char *label, uint64_t total) {
    const char *terminal = getenv("TERM");
    bool dumb = terminal && strcmp(terminal, "dumb") == 0;   /* cannot erase a line */
    progress->label = label;
    progress->total = total;
    progress->started = cli_now_ms();
    progress->drawn = progress->started;
    progress->active = !dumb && isatty(STDERR_FILENO) != 0;
    progress->visible = false;
}

void cli_progress_update(cli_progress *progress, uint64_t done) {
    enum { WIDTH = 30 };
    char bar[WIDTH + 1];
    double now, share, left;
    if (!progress->active) return;
    now = cli_now_ms();
    if (now - progress->drawn < 100) return;
    progress->drawn = now;
    progress->visible = true;

    share = progress->total ? (double)done / (double)progress->total : 0;
    if (share > 1) share = 1;
    for (int i = 0; i < WIDTH; i++) bar[i] = i < share * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    left = share > 0 ? (now - progress->started) * (1 - share) / share / 1e3 : 0;
    fprintf(stderr, "\r%s [%s] %3.0f %%  %.0f s left \033[K", progress->label, bar,
            100 * share, left);
    fflush(stderr);
}

void cli_progress_clear(cli_progress *progress) {
    if (!progress->visible) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->visible = false;
}

/* ------------------------------------------------------------------------- */
/* Output files                                                              */
/* ------------------------------------------------------------------------- */

static char *copy_text(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

/* Same device and inode: the same file, whatever it is called. Missing inputs are no match. */
static bool is_input(const struct stat *target, const char *const *inputs, int num_inputs) {
    struct stat input;
    for (int i = 0; i < num_inputs; i++) {
        if (inputs[i] && stat(inputs[i], &input) == 0 && input.st_dev == target->st_dev &&
            input.st_ino == target->st_ino) {
            return true;
        }
    }
    return false;
}

/* The temporary file being written, for the signal handler; "" while there is none. */
static char unfinished[PATH_MAX];

/* Ctrl-C shall not leave gigabytes behind. The signal's own action, restored by SA_RESETHAND,
 * follows when this returns. */
static void remove_unfinished(int number) {
    unlink(unfinished);
    raise(number);
}

/* Ignored signals stay ignored (nohup). One file is watched at a time: the latest. */
static void watch_signals(const char *temporary) {
    static const int numbers[] = { SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGXFSZ };
    struct sigaction action, old;
    strcpy(unfinished, temporary); /* which was created, so it is no longer than a path may be */
    memset(&action, 0, sizeof action);
    action.sa_handler = remove_unfinished;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], NULL, &old);
        if (old.sa_handler == SIG_DFL) sigaction(numbers[i], &action, NULL);
    }
}

/* Creates "TARGET.tmp-PID" (or -PID-1, ...) with the permissions of a new file, or of the file
 * that it will replace. */
static bool open_temporary(cli_output *output, const struct stat *replaced) {
    size_t size = strlen(output->path) + 48;
    output->temporary = malloc(size);
    if (!output->temporary) return false;
    for (int attempt = 0; attempt < 100; attempt++) {
        int descriptor;
        snprintf(output->temporary, size, "%s.tmp-%ld-%d", output->path, (long)getpid(), attempt);
        descriptor = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno == EEXIST) continue;
        if (descriptor < 0) break;
        if (replaced) (void)!fchmod(descriptor, replaced->st_mode & 0777);
        output->file = fdopen(descriptor, "wb");
        if (output->file) {
            watch_signals(output->temporary);
            return true;
        }
        close(descriptor);
        unlink(output->temporary);
        break;
    }
    free(output->temporary);
    output->temporary = NULL;
    return false;
}

/* Frees everything; the file must be closed, and renamed or removed, by then. */
static void output_clear(cli_output *output) {
    if (output->temporary && strcmp(output->temporary, unfinished) == 0) unfinished[0] = '\0';
    free(output->path);
    free(output->temporary);
    output->file = NULL;
    output->path = NULL;
    output->temporary = NULL;
}

bool cli_output_open(cli_output *output, const char *path, const char *const *inputs,
                     int num_inputs, char *error, size_t error_size) {
    struct stat target;
    bool exists = strcmp(path, "-") != 0 && stat(path, &target) == 0;
    bool special = exists && !S_ISREG(target.st_mode);
    output->file = NULL;
    output->path = NULL;
    output->temporary = NULL;

    if (exists && S_ISDIR(target.st_mode)) {
        return cli_fail(error, error_size, "is a folder");
    }
    if (exists && is_input(&target, inputs, num_inputs)) {
        return cli_fail(error, error_size, "is an input: writing it would destroy it");
    }
    /* A symbolic link stays one: its target is replaced. */
    output->path = exists ? realpath(path, NULL) : copy_text(path);
    errno = output->path ? 0 : errno;
    if (!output->path) {
        /* errno says why */
    } else if (strcmp(path, "-") == 0) {
        output->file = stdout;
    } else if (special) {
        output->file = fopen(output->path, "wb");
    } else {
        open_temporary(output, exists ? &target : NULL);
    }
    if (output->file) return true;
    cli_fail(error, error_size, "cannot be created: %s", strerror(errno ? errno : ENOMEM));
    output_clear(output);
    return false;
}

/* Everything written has reached the disk. Leaves errno. */
static bool flush_file(FILE *file, bool regular) {
    if (ferror(file)) {
        errno = errno ? errno : EIO;
        return false;
    }
    return fflush(file) == 0 && (!regular || fsync(fileno(file)) == 0);
}

bool cli_output_commit(cli_output *output, char *error, size_t error_size) {
    bool good = flush_file(output->file, output->temporary != NULL);
    int reason = errno;
    if (output->file != stdout && fclose(output->file) != 0 && good) {
        good = false;
        reason = errno;
    }
    if (good && output->temporary && rename(output->temporary, output->path) != 0) {
        good = false;
        reason = errno;
    }
    if (!good) {
        cli_fail(error, error_size, "cannot be written: %s", strerror(reason));
        if (output->temporary) unlink(output->temporary);
    }
    output_clear(output);
    return good;
}

void cli_output_abandon(cli_output *output) {
    if (output->file != stdout) fclose(output->file);
    if (output->temporary) unlink(output->temporary);
    output_clear(output);
}

/* Nothing is known of a pipe's size, so the block doubles until it holds everything. */
static unsigned char *read_stream(FILE *file, size_t limit, size_t *size) {
    size_t capacity = 1 << 16;
    unsigned char *data = malloc(capacity);
    *size = 0;
    while (data) {
        *size += fread(data + *size, 1, capacity - *size, file);
        if (*size < capacity || capacity > limit) break;
        unsigned char *larger = capacity <= SIZE_MAX / 2 ? realloc(data, capacity * 2) : NULL;
        if (!larger) free(data);
        data = larger;
        capacity *= 2;
    }
    return data;
}

bool cli_read_all(const char *path, size_t limit, unsigned char **data, size_t *size, char *error,
                  size_t error_size) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    *data = NULL;
    if (!file) {
        snprintf(error, error_size, "cannot be opened: %s", strerror(errno));
        return false;
    }
    *data = read_stream(file, limit, size);
    if (!*data) {
        snprintf(error, error_size, "out of memory");
    } else if (ferror(file)) {
        snprintf(error, error_size, "cannot be read: %s", strerror(errno));
        free(*data);
        *data = NULL;
    }
    if (file != stdin) fclose(file);
    return *data != NULL;
}

/* ------------------------------------------------------------------------- */
/* The bundled model                                                         */
/* ------------------------------------------------------------------------- */

/* "FOLDER/BETWEEN/NAME" if such a file can be read, else NULL. */
static char *readable(const char *folder, size_t length, const char *between, const char *name) {
    size_t size = length + strlen(between) + strlen(name) + 3;
    char *path = malloc(size);
    if (!path) return NULL;
    snprintf(path, size, "%.*s/%s%s", (int)length, folder, between, name);
    if (access(path, R_OK) == 0) return path;
    free(path);
    return NULL;
}

char *cli_find_model(const char *name) {
    char executable[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    char *path = NULL;
    if (length > 0) {
        size_t folder;
        executable[length] = '\0';
        folder = (size_t)(strrchr(executable, '/') - executable);
        path = readable(executable, folder, "../models/", name);
        if (!path) path = readable(executable, folder, "../share/vit/", name);
    }
    if (!path) path = readable(".", 1, "models/", name);
#ifdef VIT_MODEL_DIR
    if (!path) path = readable(VIT_MODEL_DIR, strlen(VIT_MODEL_DIR), "", name);
#endif
    return path;
}
