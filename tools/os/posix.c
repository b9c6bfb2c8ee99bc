#if defined(__linux__)
#define _GNU_SOURCE /* O_PATH */
#endif
#if !defined(_WIN32)
#define _DEFAULT_SOURCE /* madvise */
#define _DARWIN_C_SOURCE
#define _POSIX_C_SOURCE   200809L
#define _XOPEN_SOURCE     700 /* realpath */
#define _FILE_OFFSET_BITS 64
#endif

#include "os/os.h"

#if !defined(_WIN32)

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

#if !defined(O_PATH)
#define O_PATH 0
#endif

/* === The beginning === */

/* A standard stream that is closed stays so for who reads or writes, but no file can take its place:
 * messages would be written to it. The root folder can be opened anew neither for the one nor for
 * the other, under names like /dev/stdout. */
static void keep_closed(int descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && open("/", O_RDONLY | O_PATH) != descriptor) {
        perror("standard streams");
        _exit(1);
    }
}

/* Children that are ignored, as whoever starts a program may have it, have no exit status. */
void os_start(int *argc, char ***argv) {
    (void)argc, (void)argv;
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) keep_closed(i);
    signal(SIGCHLD, SIG_DFL);
}

static void (*before_end)(void);
static const char *lost_program;

/* Several threads may come here at a time; the first ends them all. */
static void on_lost(int number) {
    static const char text[] =
        ": a file was cut short while it was in use, or its disk has failed\n";
    static int lost;
    (void)number;
    while (__atomic_exchange_n(&lost, 1, __ATOMIC_RELAXED)) pause();
    if (before_end) before_end();
    if (write(STDERR_FILENO, lost_program, strlen(lost_program)) >= 0)
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

/* A sanitizer's handler stays. */
void os_on_lost(const char *program) {
    struct sigaction old;
    lost_program = program;
    if (sigaction(SIGBUS, NULL, &old) == 0 && old.sa_handler == SIG_DFL) signal(SIGBUS, on_lost);
}

/* === Files === */

os_kind os_kind_of_link(const char *path) {
    struct stat status;
    const os_kind found = os_kind_of(path);
    const bool is_link = lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
    return is_link && found == OS_FOLDER ? OS_OTHER : found;
}

bool os_has_links(void) { return true; }

bool os_link(const char *to, const char *path) { return symlink(to, path) == 0; }

void os_copy_time(const char *from, const char *to) {
    struct stat status;
    struct timespec times[2];
    if (stat(from, &status) != 0) return;
#if defined(__APPLE__)
    times[0] = status.st_atimespec, times[1] = status.st_mtimespec;
#else
    times[0] = status.st_atim, times[1] = status.st_mtim;
#endif
    (void)utimensat(AT_FDCWD, to, times, 0);
}

char *os_real_path(const char *path) { return realpath(path, NULL); }

FILE *os_create(const char *path, const char *like) {
    struct stat status;
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file;
    if (descriptor < 0) return NULL;
    if (like && stat(like, &status) == 0) (void)!fchmod(descriptor, status.st_mode & 0777);
    file = fdopen(descriptor, "wb");
    if (file) return file;
    close(descriptor);
    unlink(path);
    return NULL;
}

/* Linux (ext4 from 6.16 on, XFS from 5.18) keeps a file in pages as large as what was written at a
 * time, up to 2 MB. A program that maps 300 MB of it starts 20 ms sooner. */
size_t os_write_size(void) { return 2 << 20; }

bool os_close_copy(FILE *file) {
    const int copy = dup(fileno(file));
    errno = 0;
    return copy < 0 || close(copy) == 0; /* what cannot be duplicated was not written to */
}

bool os_make_folder(const char *path) { return mkdir(path, 0777) == 0; }

/* The signal's default action, restored by SA_RESETHAND, follows when this returns. */
static void on_signal(int number) {
    before_end();
    raise(number);
}

/* Ignored signals stay ignored (nohup). */
void os_before_end(void (*clean)(void)) {
    static const int numbers[] = { SIGHUP,  SIGINT,  SIGTERM, SIGQUIT, SIGPIPE,
                                   SIGXFSZ, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2 };
    struct sigaction action, old;
    before_end = clean;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], NULL, &old);
        if (old.sa_handler == SIG_DFL) sigaction(numbers[i], &action, NULL);
    }
}

int64_t os_file_time(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return -1;
#if defined(__APPLE__)
    return (int64_t)status.st_mtimespec.tv_sec * 1000000000 + status.st_mtimespec.tv_nsec;
#else
    return (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
#endif
}

bool os_pipe(int ends[2]) { return pipe(ends) == 0; }

ptrdiff_t os_read_until(int descriptor, int stop, void *to, size_t size) {
    struct pollfd files[2] = { { descriptor, POLLIN, 0 }, { stop, POLLIN, 0 } };
    ssize_t got;
    do {
        got = poll(files, 2, -1);
        if (got > 0) got = files[1].revents ? 0 : read(descriptor, to, size);
    } while (got < 0 && errno == EINTR);
    return got;
}

os_folder *os_folder_open(const char *path) { return (os_folder *)(void *)opendir(path); }

const char *os_folder_next(os_folder *folder) {
    const struct dirent *entry = readdir((DIR *)(void *)folder);
    return entry ? entry->d_name : NULL;
}

void os_folder_close(os_folder *folder) { closedir((DIR *)(void *)folder); }

/* === Memory === */

void *os_map(const char *path, size_t *size) {
    const int file = os_open(path);
    void *data = MAP_FAILED;
    uint64_t bytes;
    if (file < 0) return NULL;
    if (os_file_size(file, &bytes) && bytes > 0 && bytes <= SIZE_MAX) {
        *size = (size_t)bytes;
        data = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    }
    close(file);
    return data == MAP_FAILED ? NULL : data;
}

void os_unmap(void *data, size_t size) { munmap(data, size); }

void os_drop_pages(const void *data, size_t size) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
    /* the address as an integer: the bytes themselves are never written */
#if defined(MADV_DONTNEED)
    if (size > page) madvise((void *)begin, size - page, MADV_DONTNEED);
#else
    if (size > page) posix_madvise((void *)begin, size - page, POSIX_MADV_DONTNEED);
#endif
}

/* === This process and others === */

bool os_is_terminal(FILE *file) {
    const char *terminal = getenv("TERM");
    const bool dumb = terminal && strcmp(terminal, "dumb") == 0; /* cannot erase a line */
    return !dumb && isatty(fileno(file)) != 0;
}

static char *copy_text(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    if (copy) strcpy(copy, text);
    return copy;
}

/* Linux's, FreeBSD's and NetBSD's links to it; macOS has a function. */
char *os_executable(void) {
    char path[PATH_MAX];
#if defined(__APPLE__)
    uint32_t size = sizeof path;
    return _NSGetExecutablePath(path, &size) == 0 ? copy_text(path) : NULL;
#else
    static const char *const links[] = { "/proc/self/exe", "/proc/curproc/file",
                                         "/proc/curproc/exe" };
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        const ssize_t length = readlink(links[i], path, sizeof path - 1);
        if (length <= 0) continue;
        path[length] = '\0';
        return copy_text(path);
    }
    return NULL;
#endif
}

char *os_temporary_folder(void) {
    const char *folder = getenv("TMPDIR");
    return copy_text(folder && *folder ? folder : "/tmp");
}

long os_process(void) { return (long)getpid(); }

double os_private_bytes(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r"); /* of Linux alone */
    char line[128];
    double bytes = (double)NAN;
    long kilobytes;
    if (!file) return bytes;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "Anonymous: %ld kB", &kilobytes) == 1) bytes = 1024.0 * (double)kilobytes;
    }
    fclose(file);
    return bytes;
}

/* Called in the child of fork; does not return. */
static void become(char **arguments, const char *executable, int output) {
    if (dup2(output, STDOUT_FILENO) >= 0) {
        if (executable) execv(executable, arguments);
        execvp(arguments[0], arguments);
    }
    _exit(127);
}

bool os_run_again(char **arguments, void *output, size_t size) {
    char *executable = os_executable();
    int ends[2], status = -1;
    bool good = pipe(ends) == 0;
    FILE *from;
    pid_t child;
    if (!good) {
        free(executable);
        return false;
    }
    child = fork();
    if (child == 0) become(arguments, executable, ends[1]);
    close(ends[1]);
    from = fdopen(ends[0], "rb");
    good = child > 0 && from && fread(output, size, 1, from) == 1;
    if (child > 0) waitpid(child, &status, 0);
    if (from) fclose(from);
    else close(ends[0]);
    free(executable);
    return good && status == 0;
}

#endif
