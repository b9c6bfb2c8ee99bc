#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700   /* realpath */

#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* === Standard output === */

/* errno says why, or is 0 if an earlier write failed. */
static bool stdout_lost(const char *program) {
    report_error(program, "standard output", "%s", errno ? strerror(errno) : "write failed");
    clearerr(stdout);   /* so that it is said once */
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
     * that stdout itself stays usable; if it cannot be duplicated, nothing was written. */
    int copy = good ? dup(fileno(stdout)) : -1;
    errno = 0;
    if (copy >= 0 && close(copy) != 0) good = stdout_lost(program);
    return !good && status == CLI_OK ? CLI_FAILED : status;
}

/* === Files === */

static char *copy_text(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

/* Same device and inode: the same file, under whatever name. Missing inputs do not match. */
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

/* The temporary files being written, for the signal handler; "" where there is none. */
static char unfinished[4][PATH_MAX];
enum { UNFINISHED = sizeof unfinished / sizeof unfinished[0] };

/* Ctrl-C must not leave gigabytes behind. The signal's default action, restored by SA_RESETHAND,
 * follows when this returns. */
static void remove_unfinished(int number) {
    for (int i = 0; i < UNFINISHED; i++) {
        if (unfinished[i][0]) unlink(unfinished[i]);
    }
    raise(number);
}

/* The place of a temporary file among the unfinished; "" finds a free one. Beyond so many files at
 * a time, the last place. */
static char *unfinished_place(const char *temporary) {
    int i = 0;
    while (i < UNFINISHED - 1 && strcmp(unfinished[i], temporary) != 0) i++;
    return unfinished[i];
}

/* Ignored signals stay ignored (nohup). */
static void watch_signals(const char *temporary) {
    static const int numbers[] = { SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGXFSZ };
    struct sigaction action, old;
    strcpy(unfinished_place(""), temporary); /* fits: a file that exists has a shorter path */
    memset(&action, 0, sizeof action);
    action.sa_handler = remove_unfinished;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], NULL, &old);
        if (old.sa_handler == SIG_DFL) sigaction(numbers[i], &action, NULL);
    }
}

/* How much of a path a temporary file's begins with: not all of a long name, to which nothing could
 * be added; all of one that is too long, to fail at once. Letters of UTF-8 stay whole. */
static int kept_of(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (length > 200 && length <= 255) {
        length = 200;
        while (length > 190 && ((unsigned char)name[length] & 0xc0) == 0x80) length--;
    }
    return (int)(name - path + (ptrdiff_t)length);
}

/* Creates "TARGET.tmp-PID" (or -PID-1, ...) with the permissions of a new file, or of the file
 * that it will replace. */
static bool open_temporary(cli_output *output, const struct stat *replaced) {
    size_t size = strlen(output->path) + 48;
    output->temporary = malloc(size);
    if (!output->temporary) return false;
    for (int attempt = 0; attempt < 100; attempt++) {
        int descriptor;
        snprintf(output->temporary, size, "%.*s.tmp-%ld-%d", kept_of(output->path), output->path,
                 (long)getpid(), attempt);
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

/* Frees everything. The file must have been closed, and renamed or removed. */
static void output_clear(cli_output *output) {
    if (output->temporary) {
        char *place = unfinished_place(output->temporary);
        if (strcmp(place, output->temporary) == 0) place[0] = '\0';
    }
    free(output->path);
    free(output->temporary);
    output->file = NULL;
    output->path = NULL;
    output->temporary = NULL;
}

bool cli_output_folder(const char *path, report *r) {
    struct stat status;
    if (mkdir(path, 0777) == 0) return true;
    if (errno == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return true;
    (void)report_fail(r, "cannot be made: %s", strerror(errno));
    return report_file(r, path);
}

const char *cli_output_written(const cli_output *output) { return output->temporary; }

bool cli_output_open(cli_output *output, const char *path, const char *const *inputs,
                     int num_inputs, report *r) {
    struct stat target;
    bool exists = strcmp(path, "-") != 0 && stat(path, &target) == 0;
    bool special = exists && !S_ISREG(target.st_mode);
    memset(output, 0, sizeof *output);
    output->name = path;

    if (exists && S_ISDIR(target.st_mode)) {
        (void)report_fail(r, "is a folder");
        return report_file(r, path);
    }
    if (exists && is_input(&target, inputs, num_inputs)) {
        (void)report_fail(r, "is an input: writing it would destroy it");
        return report_file(r, path);
    }
    /* A symbolic link is kept: its target is replaced. */
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
    (void)report_fail(r, "cannot be created: %s", strerror(errno ? errno : ENOMEM));
    output_clear(output);
    return report_file(r, path);
}

/* Brings everything to the disk. On failure errno says why. */
static bool flush_file(FILE *file, bool regular) {
    if (ferror(file)) {
        errno = errno ? errno : EIO;
        return false;
    }
    return fflush(file) == 0 && (!regular || fsync(fileno(file)) == 0);
}

bool cli_output_commit(cli_output *output, report *r) {
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
        (void)report_fail(r, "cannot be written: %s", strerror(reason));
        (void)report_file(r, output->name);
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
