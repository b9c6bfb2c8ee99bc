#include "cli/output.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/text.h"
#include "os/os.h"

enum { LONGEST_PATH = 4096 };

/* === Standard output === */

/* Reports that standard output lost data. errno contains the reason, or is 0 if an earlier write
 * failed. */
static bool stdout_lost(const char *program) {
    report_error(program, "standard output", "%s", errno ? strerror(errno) : "write failed");
    clearerr(stdout); /* The loss is reported only once. */
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
    /* NFS and quotas report a full disk only when the file is closed. stdout must stay usable, so
     * os_close_copy closes a duplicate. */
    if (good && !os_close_copy(stdout)) good = stdout_lost(program);
    return !good && status == CLI_OK ? CLI_FAILED : status;
}

void cli_put_field(FILE *file, const char *text) {
    putc('"', file);
    for (; *text; text++) {
        if (*text == '"') putc('"', file);
        putc(*text, file);
    }
    putc('"', file);
}

/* === Files that are read and written, or written twice, are refused === */

/* A file that will be written. The outputs on the command line are declared before any input is
 * read. They stay declared to the end, because every input must be compared with them. */
typedef struct declared {
    /* The path of the output. The caller owns this memory. */
    const char *path;
    /* The identity of the file at this path, if the file exists. */
    os_identity file;
    /* exists: the file exists. is_late: the output stays declared only until it is written. */
    bool exists, is_late;
    /* is_named: a thread sets or has set read_as. was_read: the file was read as an input. Several
     * threads set both. */
    int is_named, was_read;
    char read_as[512];
} declared;

enum { MOST_OUTPUTS = 16 }; /* the number of outputs that can be declared at the same time */
static declared outputs[MOST_OUTPUTS];
static int num_outputs;

static bool is_same(const os_identity *a, const os_identity *b) {
    return a->volume == b->volume && a->number == b->number;
}

void cli_output_read(const char *path) {
    os_identity file;
    bool known = false;
    for (int i = 0; i < num_outputs; i++) {
        declared *d = &outputs[i];
        if (!d->exists || (!known && !os_identify(path, &file))) continue;
        known = true;
        if (!is_same(&file, &d->file)) continue;
        if (__atomic_exchange_n(&d->is_named, 1, __ATOMIC_RELAXED)) continue;
        snprintf(d->read_as, sizeof d->read_as, "%s", strcmp(path, "-") ? path : "standard input");
        __atomic_store_n(&d->was_read, 1, __ATOMIC_RELEASE);
    }
}

/* Fails if one of the declared outputs was read. In this case no output may be written. */
static bool outputs_spare(report *r) {
    for (int i = 0; i < num_outputs; i++) {
        const declared *d = &outputs[i];
        if (!__atomic_load_n(&d->was_read, __ATOMIC_ACQUIRE)) continue;
        if (strcmp(d->path, d->read_as) == 0)
            (void)report_fail(r,
                              "the output is an input: writing the output would destroy the input");
        else
            (void)report_fail(
                r, "the output is an input, %s: writing the output would destroy the input",
                d->read_as);
        return report_file(r, d->path);
    }
    return true;
}

bool cli_output_spares(const char *input, report *r) {
    cli_output_read(input);
    return outputs_spare(r);
}

/* True if two files that do not exist yet have the same folder and name. */
static bool is_same_place(const char *a, const char *b) {
    const char *const paths[2] = { a, b };
    os_identity folders[2];
    for (int i = 0; i < 2; i++) {
        const size_t length = paths_folder_length(paths[i]);
        char folder[LONGEST_PATH] = ".";
        if (length >= sizeof folder) return false;
        if (length) memcpy(folder, paths[i], length);
        if (length) folder[length] = '\0';
        if (!os_identify(folder, &folders[i])) return false;
    }
    return is_same(&folders[0], &folders[1]) &&
           os_same_name(paths_file_name(a), paths_file_name(b));
}

static declared *find(const char *path) {
    for (int i = 0; i < num_outputs; i++) {
        if (strcmp(outputs[i].path, path) == 0) return &outputs[i];
    }
    return NULL;
}

static bool is_one(const declared *a, const declared *b) {
    if (strcmp(a->path, b->path) == 0) return true;
    if (strcmp(a->path, "-") == 0 || strcmp(b->path, "-") == 0) return false;
    if (a->exists != b->exists) return false;
    return a->exists ? is_same(&a->file, &b->file) : is_same_place(a->path, b->path);
}

/* Declares an output. Returns NULL on failure. Also returns NULL, without a failure, for a device
 * or a folder: several outputs may write to the same device, and opening a folder as an output will
 * fail later. */
static declared *declare(const char *path, report *r) {
    const os_kind kind = strcmp(path, "-") ? os_kind_of(path) : OS_NONE;
    declared *d = &outputs[num_outputs];
    if (kind == OS_OTHER || kind == OS_FOLDER) return NULL;
    if (num_outputs == MOST_OUTPUTS) {
        (void)report_fail(r, "too many outputs at a time");
        return NULL;
    }
    memset(d, 0, sizeof *d);
    d->path = path;
    d->exists = kind == OS_FILE && os_identify(path, &d->file);
    for (int i = 0; i < num_outputs; i++) {
        if (!is_one(d, &outputs[i])) continue;
        (void)report_fail(
            r, "this output is the same file as the output %s; each output needs its own file",
            outputs[i].path);
        (void)report_file(r, path);
        return NULL;
    }
    num_outputs++;
    os_on_read(cli_output_read);
    cli_output_read("-");
    return d;
}

bool cli_output_declare(const char *path, report *r) {
    (void)declare(path, r);
    return !r->failed;
}

/* Updates the declaration of an output after the output was written. The file may now exist. If the
 * declaration was late, it is removed, and another output may then write the file. */
static void undeclare(const char *path) {
    declared *d = find(path);
    if (!d) return;
    if (d->is_late) *d = outputs[--num_outputs];
    else if (strcmp(path, "-")) d->exists = os_identify(path, &d->file);
}

/* === Files === */

static char *copy_text(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

/* The paths of the temporary files that are being written. If a signal ends the program,
 * remove_unfinished removes these files. "" marks a free slot. */
enum { UNFINISHED = 4 };
static char unfinished[UNFINISHED][LONGEST_PATH];

static char temporary_folder[LONGEST_PATH];

/* Removes the unfinished temporary files, because Ctrl-C must not leave gigabytes of data
 * behind. */
static void remove_unfinished(void) {
    for (int i = 0; i < UNFINISHED; i++) {
        if (unfinished[i][0]) os_remove(unfinished[i]);
    }
    if (temporary_folder[0]) os_remove_folder_late(temporary_folder);
}

void cli_temporary_folder(const char *path) {
    temporary_folder[0] = '\0';
    if (path && strlen(path) < LONGEST_PATH) strcpy(temporary_folder, path);
    if (path) os_before_end(remove_unfinished);
}

/* Returns the slot that contains this path. For "", returns a free slot. If there is no such slot,
 * returns the last slot. */
static char *unfinished_place(const char *temporary) {
    int i = 0;
    while (i < UNFINISHED - 1 && strcmp(unfinished[i], temporary) != 0) i++;
    return unfinished[i];
}

static void watch(const char *temporary) {
    char *place = unfinished_place("");
    if (strlen(temporary) >= LONGEST_PATH) return;
    strcpy(place, temporary);
    os_before_end(remove_unfinished);
}

/* Returns the number of bytes of the path with which the temporary file's path begins. A long file
 * name is cut, because the suffix needs space. UTF-8 characters are not split. A name that is too
 * long for the system is not cut, so that creating the file fails at once. */
static int kept_of(const char *path) {
    const char *name = path;
    size_t length;
    for (const char *c = path; *c; c++) {
        if (os_is_slash(*c)) name = c + 1;
    }
    length = strlen(name);
    if (length > 200 && length <= 255) {
        length = 200;
        while (length > 190 && ((unsigned char)name[length] & 0xc0) == 0x80) length--;
    }
    return (int)(name - path + (ptrdiff_t)length);
}

/* Creates a temporary file beside the target. Its name is the target's name with
 * ".tmp-PROCESS-ATTEMPT". It has the permissions of a new file or, if `replaced` is not NULL, of
 * the file to replace. */
static bool open_temporary(cli_output *output, const char *replaced) {
    size_t size = strlen(output->path) + 48;
    output->temporary = malloc(size);
    output->buffer = malloc(os_write_size());
    if (!output->temporary || !output->buffer) return false;
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(output->temporary, size, "%.*s.tmp-%ld-%d", kept_of(output->path), output->path,
                 os_process(), attempt);
        output->file = os_create(output->temporary, replaced);
        if (output->file) {
            setvbuf(output->file, output->buffer, _IOFBF, os_write_size());
            watch(output->temporary);
            return true;
        }
        if (errno != EEXIST) break;
    }
    free(output->temporary);
    output->temporary = NULL;
    return false;
}

/* Frees the memory of an output. The caller must first close the file, and then rename or remove
 * it. */
static void output_clear(cli_output *output) {
    undeclare(output->name);
    if (output->temporary) {
        char *place = unfinished_place(output->temporary);
        if (strcmp(place, output->temporary) == 0) place[0] = '\0';
    }
    free(output->path);
    free(output->temporary);
    free(output->buffer);
    output->file = NULL;
    output->path = NULL;
    output->temporary = NULL;
    output->buffer = NULL;
}

bool cli_output_folder(const char *path, report *r) {
    if (os_make_folder(path)) return true;
    if (errno == EEXIST && os_kind_of(path) == OS_FOLDER) return true;
    if (errno == EEXIST) (void)report_fail(r, "the path exists and is not a folder");
    else (void)report_fail(r, "cannot be made: %s", os_error(errno));
    return report_file(r, path);
}

const char *cli_output_written(const cli_output *output) { return output->temporary; }

bool cli_output_open(cli_output *output, const char *path, report *r) {
    const os_kind kind = strcmp(path, "-") != 0 ? os_kind_of(path) : OS_NONE;
    const bool exists = kind != OS_NONE;
    memset(output, 0, sizeof *output);
    output->name = path;

    if (kind == OS_FOLDER) {
        (void)report_fail(r, "is a folder");
        return report_file(r, path);
    }
    if (!*path) return report_fail(r, "an output has an empty name");
    if (!find(path)) {
        declared *late = declare(path, r);
        if (late) late->is_late = true;
    }
    if (r->failed) return false;
    if (!outputs_spare(r)) {
        undeclare(path);
        return false;
    }
    /* If the path is a symbolic link, the link stays, and its target is replaced. */
    output->path = kind == OS_FILE ? os_real_path(path) : copy_text(path);
    errno = output->path ? 0 : errno;
    if (!output->path) {
        /* errno contains the reason. */
    } else if (strcmp(path, "-") == 0) {
        output->file = stdout;
    } else if (kind == OS_OTHER) {
        output->file = os_fopen(output->path, "wb");
    } else {
        open_temporary(output, exists ? output->path : NULL);
    }
    if (output->file) return true;
    (void)report_fail(r, "cannot be created: %s", os_error(errno ? errno : ENOMEM));
    output_clear(output);
    return report_file(r, path);
}

/* Writes all data of the file to the disk. On failure, errno contains the reason. */
static bool flush_file(FILE *file, bool regular) {
    if (ferror(file)) {
        errno = errno ? errno : EIO;
        return false;
    }
    return fflush(file) == 0 && (!regular || os_sync(file));
}

static bool not_written(const cli_output *output, report *r) {
    (void)report_fail(r, "cannot be written: %s", os_error(errno));
    return report_file(r, output->name);
}

static bool close_output(cli_output *output, report *r) {
    bool good = flush_file(output->file, output->temporary != NULL) || not_written(output, r);
    if (output->file != stdout && fclose(output->file) != 0 && good) good = not_written(output, r);
    return good;
}

static bool give_name(const cli_output *output) {
    return output->is_new ? os_rename_new(output->temporary, output->path)
                          : os_replace(output->temporary, output->path);
}

bool cli_outputs_commit(cli_output *const all[], int count, report *r) {
    bool good = outputs_spare(r);
    for (int i = 0; i < count; i++) good = close_output(all[i], r) && good;
    for (int i = 0; i < count; i++) {
        cli_output *o = all[i];
        if (good && o->temporary && !give_name(o)) good = not_written(o, r);
        if (!good && o->temporary) os_remove(o->temporary);
        output_clear(o);
    }
    return good;
}

bool cli_output_commit(cli_output *output, report *r) { return cli_outputs_commit(&output, 1, r); }

void cli_output_abandon(cli_output *output) {
    if (output->file != stdout) fclose(output->file);
    if (output->temporary) os_remove(output->temporary);
    output_clear(output);
}
