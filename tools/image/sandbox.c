#define _GNU_SOURCE   /* prlimit, memory that is shared and not of a file */

#include "image/sandbox.h"

/* The kernel's headers may be missing beside another C library. */
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__has_include)
#    if __has_include(<linux/seccomp.h>) && __has_include(<linux/filter.h>)
#        define HAS_SANDBOX
#    endif
#endif

#ifdef HAS_SANDBOX

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* At the beginning of the memory that a child shares with its parent; the input follows, then the
 * pixels. */
typedef struct exchange {
    uint64_t size;            /* to the child   */
    unsigned flags;
    int good, no_memory;      /* from the child */
    int64_t width, height;
    char text[512];
} exchange;

enum { EXCHANGE_SIZE = 4096 };

typedef struct child {
    struct child *next;       /* of the idle ones                  */
    exchange *shared;
    pid_t pid;
    int socket;
} child;

struct sandbox {
    sandbox_settings settings;
    size_t input_size, shared_size;
    pthread_mutex_t lock;     /* of the following                  */
    child *idle;
};

/* === The child === */

/* What it says on its socket. */
enum { READY = 'r', DONE = 'd' };

#ifdef __x86_64__
#    define THIS_ARCH AUDIT_ARCH_X86_64
#else
#    define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
/* The low half of an argument; on both CPUs it comes first. */
#define LOAD_ARGUMENT(i) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[i]))
#define PERMIT BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define UNLESS_EQUAL_SKIP(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n)
#define IF_ANY_BIT_SKIP(bits, n) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, n, 0)
#define ALLOW(call) UNLESS_EQUAL_SKIP(call, 1), PERMIT
/* With 0, the socket, as the first argument. */
#define ALLOW_ON_SOCKET(call)                                                                     \
    UNLESS_EQUAL_SKIP(call, 4), LOAD_ARGUMENT(0), UNLESS_EQUAL_SKIP(0, 1), PERMIT, KILL

/* Memory that no instruction can be in, and the socket. */
static bool confine(void)
{
    static struct sock_filter rules[] = {
        LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0), KILL,
        LOAD(nr),
        ALLOW_ON_SOCKET(SYS_read), ALLOW_ON_SOCKET(SYS_write),
        ALLOW(SYS_brk), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_madvise),
        ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_getrandom),
        ALLOW(SYS_clock_gettime), ALLOW(SYS_futex), ALLOW(SYS_sched_yield),
        UNLESS_EQUAL_SKIP(SYS_mmap, 6), LOAD_ARGUMENT(2), IF_ANY_BIT_SKIP(PROT_EXEC, 2),
        LOAD_ARGUMENT(3), IF_ANY_BIT_SKIP(MAP_ANONYMOUS, 1), KILL, PERMIT,
        UNLESS_EQUAL_SKIP(SYS_mprotect, 4), LOAD_ARGUMENT(2), IF_ANY_BIT_SKIP(PROT_EXEC, 1),
        PERMIT, KILL,
        KILL
    };
    const struct sock_fprog program = { sizeof rules / sizeof rules[0], rules };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* Bytes of this process's address space; 0: unknown. */
static uint64_t address_space(void)
{
    unsigned long long pages = 0;
    char text[64] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fgets(text, sizeof text, file)) pages = strtoull(text, NULL, 10);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* before: bytes of the address space. */
static bool bound(const sandbox *box, uint64_t before)
{
    const rlim_t most = (rlim_t)(before + box->settings.memory);
    const struct rlimit space = { most, most }, none = { 0, 0 }, one = { 1, 1 };
    return setrlimit(RLIMIT_AS, &space) == 0 && setrlimit(RLIMIT_CORE, &none) == 0 &&
           setrlimit(RLIMIT_FSIZE, &none) == 0 && setrlimit(RLIMIT_NOFILE, &one) == 0;
}

/* The socket becomes 0, and nothing else stays open. */
static bool close_files(int socket, uint64_t *space)
{
    const long most = sysconf(_SC_OPEN_MAX);   /* RLIMIT_NOFILE, which is lowered after this */
    *space = address_space();
    if (dup2(socket, 0) != 0) return false;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 1u, ~0u, 0u) == 0) return true;
#endif
    for (int i = 1; i < most; i++) close(i);
    return true;
}

static bool tell(char what) { return write(0, &what, 1) == 1; }

/* What the system lacks; NULL: nothing. */
static const char *lock_in(const sandbox *box, int socket)
{
    uint64_t space;
    if (!close_files(socket, &space)) return "no socket";
    if (space == 0) return "/proc/self/statm cannot be read";
    if (!bound(box, space)) return "no limit of memory or files can be set";
    return confine() ? NULL : "no seccomp";
}

/* One image, from the exchange and back to it. */
static void serve(const sandbox *box, exchange *shared)
{
    uint8_t *input = (uint8_t *)shared + EXCHANGE_SIZE;
    report r = report_make();
    vit_image image;
    memset(&image, 0, sizeof image);
    shared->good = box->settings.work(input, (size_t)shared->size, shared->flags, &image, &r);
    shared->no_memory = r.no_memory;
    shared->width = image.width;
    shared->height = image.height;
    snprintf(shared->text, sizeof shared->text, "%.500s", r.text);
    if (!shared->good) return;
    if (image.width > 0 && image.height > 0 &&
        (int64_t)image.width * image.height <= box->settings.max_pixels)
        memcpy(input + box->input_size, image.pixels,
               (size_t)image.width * (size_t)image.height * 3);
    box->settings.release(&image);
}

static void live(const sandbox *box, exchange *shared, int socket)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    const char *lacking;
    char command;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], SIG_IGN);   /* they are its parent's: with it, the socket ends */
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1);   /* or it would look up how many CPUs there are, in a file */
#endif
    errno = 0;
    lacking = lock_in(box, socket);
    if (lacking) {
        snprintf(shared->text, sizeof shared->text, "%s: %s", lacking,
                 strerror(errno ? errno : EIO));
        _exit(1);
    }
    if (!tell(READY)) _exit(1);
    while (read(0, &command, 1) == 1) {
        serve(box, shared);
        if (!tell(DONE)) break;
    }
    _exit(0);
}

/* === The parent === */

static void end_child(child *c)
{
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    if (c->socket >= 0) close(c->socket);
    free(c);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Waits for a byte. False: the child has ended, or the time is over. That comes in slices, of which
 * each counts no more than its length: a job may be stopped for hours, and its decoders with it. */
static bool hear(child *c, int seconds, char expected)
{
    static const double slice = 0.1;
    struct pollfd ready = { c->socket, POLLIN, 0 };
    double waited = 0, start, took;
    char said = 0;
    int found;
    do {
        start = now();
        found = poll(&ready, 1, (int)(slice * 1000));
        took = now() - start;
        waited += took < slice ? took : slice;
    } while (found <= 0 && (found == 0 || errno == EINTR) && waited < seconds);
    return found > 0 && recv(c->socket, &said, 1, 0) == 1 && said == expected;
}

/* Both ends of a socket, and the memory; then the child. */
static bool begin_child(sandbox *box, child *c, report *r)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return report_fail(r, "no socket: %s", strerror(errno));
    c->socket = ends[0];
    c->pid = fork();
    if (c->pid == 0) live(box, c->shared, ends[1]);
    close(ends[1]);
    if (c->pid < 0) return report_fail(r, "no process: %s", strerror(errno));
    return hear(c, 60, READY) ||
           report_fail(r, "%s", c->shared->text[0] ? c->shared->text : "its process has ended");
}

static child *new_child(sandbox *box, report *r)
{
    child *c = calloc(1, sizeof *c);
    if (!c) {
        (void)report_no_memory(r);
        return NULL;
    }
    c->socket = -1;
    c->shared = mmap(NULL, box->shared_size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->shared == MAP_FAILED) {
        (void)report_fail(r, "no shared memory: %s", strerror(errno));
        free(c);
        return NULL;
    }
    if (begin_child(box, c, r)) return c;
    munmap(c->shared, box->shared_size);
    end_child(c);
    return NULL;
}

static void drop_child(sandbox *box, child *c)
{
    munmap(c->shared, box->shared_size);
    end_child(c);
}

static child *take_child(sandbox *box, report *r)
{
    child *c;
    pthread_mutex_lock(&box->lock);
    c = box->idle;
    if (c) box->idle = c->next;
    pthread_mutex_unlock(&box->lock);
    return c ? c : new_child(box, r);
}

/* What a large image has used is given back: a child may live for millions of them. */
static void return_child(sandbox *box, child *c, size_t used_input, size_t used_pixels)
{
    enum { LARGE = 8 << 20 };
    if (used_input + used_pixels > LARGE)
        madvise(c->shared, box->shared_size, MADV_REMOVE);
    pthread_mutex_lock(&box->lock);
    c->next = box->idle;
    box->idle = c;
    pthread_mutex_unlock(&box->lock);
}

sandbox *sandbox_open(const sandbox_settings *settings, report *r)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    sandbox *box = calloc(1, sizeof *box);
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const int children = settings->children ? settings->children : cpus > 0 ? (int)cpus : 1;
    if (!box) {
        (void)report_no_memory(r);
        return NULL;
    }
    box->settings = *settings;
    box->input_size = (settings->max_input + page) / page * page;
    box->shared_size = EXCHANGE_SIZE + box->input_size + 3 * (size_t)settings->max_pixels;
    pthread_mutex_init(&box->lock, NULL);   /* cannot fail on Linux */
    for (int i = 0; i < children; i++) {   /* the first shows whether there can be some */
        child *c = new_child(box, r);
        if (!c) break;
        return_child(box, c, 0, 0);
    }
    if (box->idle) return box;
    sandbox_close(box);
    return NULL;
}

void sandbox_close(sandbox *box)
{
    if (!box) return;
    while (box->idle) {
        child *c = box->idle;
        box->idle = c->next;
        drop_child(box, c);
    }
    pthread_mutex_destroy(&box->lock);
    free(box);
}

/* The kernel ends a child that computes on and on, also if its parent is gone by then. */
static void limit_time(const child *c, int seconds)
{
    struct timespec used = { 0, 0 };
    struct rlimit limit;
    clockid_t clock;
    if (clock_getcpuclockid(c->pid, &clock) == 0) clock_gettime(clock, &used);
    if (prlimit(c->pid, RLIMIT_CPU, NULL, &limit) != 0) return;   /* it is gone: seen below */
    limit.rlim_cur = (rlim_t)used.tv_sec + (rlim_t)seconds + 1;
    if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
    prlimit(c->pid, RLIMIT_CPU, &limit, NULL);
}

/* A child that has ended, or that must. True: somebody killed it, which it cannot do itself. */
static bool was_killed(sandbox *box, child *c, report *r)
{
    int status = 0;
    pid_t ended = waitpid(c->pid, &status, WNOHANG);
    if (ended == 0) {   /* closing its socket comes a moment before its end */
        const struct timespec moment = { 0, 50 * 1000 * 1000 };
        nanosleep(&moment, NULL);
        ended = waitpid(c->pid, &status, WNOHANG);
    }
    if (ended != 0) c->pid = 0;
    drop_child(box, c);
    if (ended == 0)
        return report_fail(r, "its decoder was stopped: it took more than %d seconds",
                           box->settings.seconds);
    if (ended > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
    if (ended > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return report_fail(r, "its decoder was stopped: it took more than %d seconds of a CPU",
                           box->settings.cpu_seconds);
    if (ended > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        return report_fail(r, "its decoder was stopped: it asked the system for what decoding "
                           "does not need");
    return report_fail(r, "its decoder crashed (%s %d)",
                       WIFSIGNALED(status) ? "signal" : "exit status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Its text, whatever it is, as a line. */
static bool say_text(const sandbox *box, exchange *answer, report *r)
{
    answer->text[sizeof answer->text - 1] = '\0';
    for (char *c = answer->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    if (answer->no_memory)
        return report_fail(r, "its decoder wanted more than %llu MiB",
                           (unsigned long long)(box->settings.memory >> 20));
    return report_fail(r, "%s", answer->text[0] ? answer->text : "cannot be decoded");
}

/* answer: a copy, which the child cannot change any more. */
static bool take_pixels(const sandbox *box, const child *c, exchange *answer, vit_image *image,
                        report *r)
{
    const uint8_t *pixels = (const uint8_t *)c->shared + EXCHANGE_SIZE + box->input_size;
    const int64_t most = box->settings.max_pixels, width = answer->width, height = answer->height;
    void *copy;
    if (!answer->good) return say_text(box, answer, r);
    if (width < 1 || height < 1 || width > most || height > most || width > most / height)
        return report_fail(r, "its decoder said %lld x %lld", (long long)width, (long long)height);
    copy = box->settings.allocate((size_t)(width * height) * 3);
    if (!copy) return report_no_memory(r);
    memcpy(copy, pixels, (size_t)(width * height) * 3);
    image->pixels = copy;
    image->width = (int)width;
    image->height = (int)height;
    image->format = VIT_PIXEL_RGB8;
    return true;
}

/* False: the child has ended, or must. */
static bool ask(const sandbox *box, child *c, const void *data, size_t size, unsigned flags)
{
    const char work = 'w';
    memset(c->shared, 0, sizeof *c->shared);
    c->shared->size = size;
    c->shared->flags = flags;
    if (size > 0) memcpy((char *)c->shared + EXCHANGE_SIZE, data, size);
    limit_time(c, box->settings.cpu_seconds);
    return send(c->socket, &work, 1, MSG_NOSIGNAL) == 1 && hear(c, box->settings.seconds, DONE);
}

bool sandbox_decode(sandbox *box, const void *data, size_t size, unsigned flags,
                    vit_image *image, report *r)
{
    exchange answer;
    child *c;
    bool good;
    memset(image, 0, sizeof *image);
    if (size > box->settings.max_input)
        return report_fail(r, "is too large: above %zu MiB", box->settings.max_input >> 20);
    /* Who ends a job may come upon its children first: of the idle ones, several may be gone. */
    for (int kills = 0;; kills++) {
        c = kills == 0 ? take_child(box, r) : new_child(box, r);
        r->no_memory = !c;            /* of the system, which is not the image's fault */
        if (!c) return false;
        if (ask(box, c, data, size, flags)) break;
        if (!was_killed(box, c, r)) return false;
        if (kills > 0)
            return report_fail(r, "its decoder was killed twice, as the system does when memory "
                               "is short");
    }
    answer = *c->shared;
    good = take_pixels(box, c, &answer, image, r);
    return_child(box, c, size, good ? (size_t)image->width * (size_t)image->height * 3 : 0);
    return good;
}

#else

sandbox *sandbox_open(const sandbox_settings *settings, report *r)
{
    (void)settings;
    (void)r;
#if defined(__linux__)
    (void)report_fail(r, "only Linux on x86-64 and ARM64 has one, if its headers were there");
#endif
    return NULL;
}

void sandbox_close(sandbox *box) { (void)box; }

bool sandbox_decode(sandbox *box, const void *data, size_t size, unsigned flags,
                    vit_image *image, report *r)
{
    (void)box;
    (void)data;
    (void)size;
    (void)flags;
    (void)image;
    return report_fail(r, "no sandbox");
}

#endif
