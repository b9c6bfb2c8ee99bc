#if defined(__linux__)
#define _GNU_SOURCE /* for O_PATH */
#endif
#if !defined(_WIN32)
#define _DEFAULT_SOURCE /* for madvise */
#define _DARWIN_C_SOURCE
#define _POSIX_C_SOURCE   200809L
#define _XOPEN_SOURCE     700 /* for realpath */
#define _FILE_OFFSET_BITS 64
#endif

#include "os/os.h"

#if !defined(_WIN32)

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif
#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#if !defined(O_PATH)
#define O_PATH 0
#endif

/* === The beginning === */

/* Opens the root folder at the descriptor of a standard stream that is closed. Otherwise, the next
 * file to be opened would get this descriptor, and messages would be written into it. The stream
 * then leads to a folder, so reading and writing it fail, and so does opening /dev/stdout. */
static void keep_closed(int descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && open("/", O_RDONLY | O_PATH) != descriptor) {
        perror("standard streams");
        _exit(1);
    }
}

/* Restores the default handling of child processes, because a parent process may have disabled
 * their exit status. Also keeps files from the descriptors of closed standard streams. */
void os_start(int *argc, char ***argv) {
    (void)argc, (void)argv;
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) keep_closed(i);
    signal(SIGCHLD, SIG_DFL);
}

static void (*before_end)(void);
static const char *lost_program;

/* Handles SIGBUS and ends the program. Several threads may call this function at once. The first of
 * them ends the program, and the others wait. */
static void on_lost(int number) {
    static const char text[] = ": a file was truncated while it was in use, or its disk failed\n";
    static int lost;
    (void)number;
    while (__atomic_exchange_n(&lost, 1, __ATOMIC_RELAXED)) pause();
    if (before_end) before_end();
    if (write(STDERR_FILENO, lost_program, strlen(lost_program)) >= 0)
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

/* Sets the handler of SIGBUS. If there already is a handler, such as a sanitizer's, it stays. */
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

/* Returns 2 MB. Linux (ext4 since 6.16, XFS since 5.18) caches a file in pages that are as large as
 * the writes, up to 2 MB. With such large pages, a program that maps a file of 300 MB starts 20 ms
 * sooner. */
size_t os_write_size(void) { return 2 << 20; }

/* True if the path no longer leads to the opened file. This happens if another process replaced the
 * file before the lock was taken. */
static bool is_gone(int descriptor, const char *path) {
    struct stat locked, named;
    return fstat(descriptor, &locked) == 0 &&
           (stat(path, &named) != 0 || named.st_ino != locked.st_ino ||
            named.st_dev != locked.st_dev);
}

/* Opens a file and locks it. The locks are those of fcntl, which work on NFS and which child
 * processes do not inherit. On a file system without locks, the file is opened without a lock. */
FILE *os_open_alone(const char *path) {
    struct flock lock;
    int descriptor = -1, why;
    FILE *file;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    do {
        if (descriptor >= 0) close(descriptor);
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (descriptor < 0) return NULL;
        if (fcntl(descriptor, F_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES)) {
            close(descriptor);
            errno = EAGAIN;
            return NULL;
        }
    } while (is_gone(descriptor, path));
    file = fdopen(descriptor, "r+b");
    if (file) return file;
    why = errno;
    close(descriptor);
    errno = why;
    return NULL;
}

bool os_cut(FILE *file, uint64_t size) {
    return fflush(file) == 0 && ftruncate(fileno(file), (off_t)size) == 0;
}

bool os_close_copy(FILE *file) {
    const int copy = dup(fileno(file));
    errno = 0;
    /* If dup fails, there is no copy whose closing could report an error. */
    return copy < 0 || close(copy) == 0;
}

bool os_make_folder(const char *path) { return mkdir(path, 0777) == 0; }

static volatile sig_atomic_t is_soft, stopped_by;

/* Handles a signal. After os_stop_softly, the first SIGINT, SIGTERM or SIGHUP is only noted. Any
 * other signal ends the program, after a call of the function that os_before_end set. */
static void on_signal(int number) {
    const bool asks = number == SIGINT || number == SIGTERM || number == SIGHUP;
    if (is_soft && !stopped_by && asks) {
        stopped_by = number;
        return;
    }
    if (before_end) before_end();
    signal(number, SIG_DFL);
    raise(number);
}

/* Sets on_signal as the handler of the signals that would end the program. A signal that is
 * ignored, for example under nohup, stays ignored. */
static void catch_signals(void) {
    static const int numbers[] = { SIGHUP,  SIGINT,  SIGTERM, SIGQUIT, SIGPIPE,
                                   SIGXFSZ, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2 };
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], NULL, &old);
        if (old.sa_handler == SIG_DFL) sigaction(numbers[i], &action, NULL);
    }
}

void os_before_end(void (*clean)(void)) {
    before_end = clean;
    catch_signals();
}

void os_stop_softly(void) {
    is_soft = 1;
    catch_signals();
}

bool os_stopped(void) { return stopped_by != 0; }

void os_end_stopped(void) {
    if (!stopped_by) return;
    signal(stopped_by, SIG_DFL);
    raise(stopped_by);
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
    /* The cast removes const, but the bytes are never written. */
#if defined(MADV_DONTNEED)
    if (size > page) madvise((void *)begin, size - page, MADV_DONTNEED);
#else
    if (size > page) posix_madvise((void *)begin, size - page, POSIX_MADV_DONTNEED);
#endif
}

/* === This process and others === */

bool os_is_terminal(FILE *file) {
    const char *terminal = getenv("TERM");
    /* A dumb terminal cannot erase a line. */
    const bool dumb = terminal && strcmp(terminal, "dumb") == 0;
    return !dumb && isatty(fileno(file)) != 0;
}

static char *copy_text(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    if (copy) strcpy(copy, text);
    return copy;
}

/* Returns the path of this program. Reads a link on Linux, FreeBSD and NetBSD, and calls a function
 * on macOS. */
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
    FILE *file = fopen("/proc/self/smaps_rollup", "r"); /* This file exists only on Linux. */
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

/* Runs another program in the child process after fork. Does not return. */
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

/* === Commands with limits === */

extern char **environ;

/* Returns the path as an absolute path. The caller frees it. Symbolic links stay in the path,
 * because a program may depend on the name under which it is called. */
static char *from_root(const char *path) {
    char folder[PATH_MAX] = "", *whole;
    if (*path != '/' && !getcwd(folder, sizeof folder)) return NULL;
    whole = malloc(strlen(folder) + strlen(path) + 2);
    if (whole) strcat(strcat(strcpy(whole, folder), *folder ? "/" : ""), path);
    return whole;
}

char *os_find_program(const char *name) {
    const char *from = getenv("PATH");
    char path[PATH_MAX];
    if (strchr(name, '/')) return access(name, X_OK) == 0 ? from_root(name) : NULL;
    for (from = from ? from : "/usr/bin:/bin"; *from;) {
        const size_t length = strcspn(from, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)length, from, name);
        if (length > 0 && access(path, X_OK) == 0 && os_kind_of(path) == OS_FILE)
            return from_root(path);
        from += length + (from[length] == ':');
    }
    errno = ENOENT;
    return NULL;
}

bool os_call(const char *const *arguments, int *status) {
    char *program = os_find_program(arguments[0]);
    const pid_t child = program ? fork() : -1;
    int why = errno;
    if (child == 0) {
        execv(program, (char **)(uintptr_t)arguments);
        _exit(127);
    }
    free(program);
    while (child > 0 && waitpid(child, status, 0) < 0) {
        if (errno != EINTR) return false;
    }
    if (child > 0) *status = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
    errno = why;
    return child > 0;
}

/* Returns a malloc'ed copy of the environment in which TMPDIR is `folder`. */
static char **other_environment(const char *folder) {
    size_t count = 0, kept = 1;
    char **all;
    while (environ[count]) count++;
    all = malloc((count + 2) * sizeof *all + strlen(folder) + sizeof "TMPDIR=");
    if (!all) return NULL;
    all[0] = (char *)(all + count + 2);
    strcat(strcpy(all[0], "TMPDIR="), folder);
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0) all[kept++] = environ[i];
    all[kept] = NULL;
    return all;
}

static bool stream(const char *path, int flags, int as) {
    const int file = open(path, flags, 0600);
    return file >= 0 && (file == as || (dup2(file, as) == as && close(file) == 0));
}

#if defined(__GLIBC__)
typedef __rlimit_resource_t resource_kind;
#else
typedef int resource_kind;
#endif

/* Sets a resource limit of this process. A lower limit that already exists stays. */
static bool bound(resource_kind resource, uint64_t most) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) return false;
    if (limit.rlim_cur > most) limit.rlim_cur = (rlim_t)most;
    limit.rlim_max = limit.rlim_cur;
    return setrlimit(resource, &limit) == 0;
}

/* Marks all descriptors above 2, so that they close when execve starts the command. */
static void close_others(void) {
    const long count = sysconf(_SC_OPEN_MAX);
#if defined(__linux__) && defined(SYS_close_range)
    /* The flag 4 is CLOSE_RANGE_CLOEXEC. */
    if (syscall(SYS_close_range, 3u, ~0u, 4u) == 0) return;
#endif
    for (int i = 3; i < count; i++) (void)fcntl(i, F_SETFD, FD_CLOEXEC);
}

/* Runs a command in the child process after fork. Makes only system calls, because other threads of
 * the parent may have held locks. Writes errno to the pipe `say` if the command cannot be
 * started. */
static void become_command(const os_command *c, char **environment, int say) {
    const int create = O_WRONLY | O_CREAT | O_EXCL;
    sigset_t none;
    int why;
    (void)setpgid(0, 0);
#if defined(__linux__)
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    for (int i = 1; i < 32; i++) (void)signal(i, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (stream(c->input ? c->input : "/dev/null", O_RDONLY, STDIN_FILENO) &&
        stream(c->output, create, STDOUT_FILENO) && stream(c->errors, create, STDERR_FILENO) &&
        chdir(c->folder) == 0 && bound(RLIMIT_AS, c->memory) && bound(RLIMIT_FSIZE, c->file) &&
        bound(RLIMIT_CPU, (uint64_t)c->cpu_seconds) && bound(RLIMIT_CORE, 0) &&
        (close_others(), !c->confine || c->confine()))
        execve(c->program, c->arguments, environment);
    why = errno;
    (void)!write(say, &why, sizeof why);
    _exit(127);
}

/* Starts a command and returns its process number, or -1 on failure. The handlers of this process
 * must not run in the child, because they remove files. All signals are therefore blocked during
 * fork. The pipe contains errno only if the command could not be started. */
static pid_t start_command(const os_command *c) {
    char **environment = other_environment(c->folder);
    int ends[2], why = ENOMEM;
    sigset_t all, before;
    pid_t child = -1;
    if (environment && pipe(ends) == 0) {
        (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
        (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        child = fork();
        if (child == 0) become_command(c, environment, ends[1]);
        why = errno;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        close(ends[1]);
        if (child > 0 && read(ends[0], &why, sizeof why) == (ssize_t)sizeof why) {
            waitpid(child, NULL, 0);
            child = -1;
        }
        close(ends[0]);
    }
    free(environment);
    errno = why;
    return child;
}

/* True if the child ends in time. Waits in short naps and adds up their intended lengths, so that
 * hours in which both processes are stopped do not count. The child's process number stays reserved
 * until waitpid, so kill is safe. */
static bool ends_in_time(pid_t child, int seconds) {
    int64_t nap = 1000000, waited = 0; /* in nanoseconds */
    for (;; waited += nap, nap = nap < 20000000 ? nap * 13 / 10 : nap) {
        const struct timespec time = { 0, (long)nap };
        siginfo_t info;
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            return true;
        if (waited > seconds * INT64_C(1000000000)) return false;
        nanosleep(&time, NULL);
    }
}

os_end os_run(const os_command *command, int *status) {
    const pid_t child = start_command(command);
    bool in_time;
    if (child < 0) return OS_NOT_STARTED;
    in_time = ends_in_time(child, command->seconds);
    kill(-child, SIGKILL);
    while (waitpid(child, status, 0) < 0 && errno == EINTR) continue;
    if (!in_time) return OS_LATE;
    if (WIFEXITED(*status)) return *status = WEXITSTATUS(*status), OS_ENDED;
    *status = WTERMSIG(*status);
    return *status == SIGXFSZ ? OS_TOO_LARGE : OS_KILLED;
}

char *os_make_temporary(void) {
    char *parent = os_temporary_folder(), *root = parent ? from_root(parent) : NULL;
    char *path = root ? malloc(strlen(root) + 16) : NULL;
    if (path) strcat(strcpy(path, root), "/vit-XXXXXX");
    free(parent);
    free(root);
    if (path && mkdtemp(path)) return path;
    free(path);
    return NULL;
}

void os_remove_empty(const char *path) { (void)rmdir(path); }

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)status, (void)at;
    if (kind == FTW_DNR) (void)chmod(path, 0700); /* The next pass removes this folder. */
    else (void)remove(path);
    return 0;
}

/* Removes a folder and its contents in several passes, because processes that are being killed may
 * still write into the folder. */
void os_remove_folder(const char *path) {
    const struct timespec nap = { 0, 10000000 };
    for (int i = 0; i < 50 && os_kind_of(path) == OS_FOLDER; i++) {
        if (i > 0) nanosleep(&nap, NULL);
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

void os_remove_folder_late(const char *path) {
    if (fork() == 0) {
        execl("/bin/rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(1);
    }
}

#endif
