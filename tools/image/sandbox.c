#define _GNU_SOURCE /* makes the headers declare prlimit and anonymous shared memory */

#include "image/sandbox.h"

/* The sandbox requires the headers of the Linux kernel, which may be missing if the C library is
 * not glibc. */
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__has_include)
#if __has_include(<linux/seccomp.h>) && __has_include(<linux/filter.h>)
#define HAS_SANDBOX
#endif
#endif

#ifdef HAS_SANDBOX

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

/* The first part of the memory that a child shares with its parent. The bytes of the image file
 * follow at EXCHANGE_SIZE, and then the memory for the pixels. */
typedef struct exchange {
    /* The parent sets the members from `size` to `parameters`. */
    uint64_t size, to_size;
    unsigned flags;
    uint64_t parameters_size;
    uint64_t parameters[SANDBOX_MAX_PARAMETERS / 8];
    /* The child sets all members from here on. `room` is the number of bytes that the child may
     * allocate; the child sets it once, when it starts. The members after it are the child's answer
     * about the latest image. */
    uint64_t room;
    int good, no_memory; /* `no_memory` is 1 if memory was exhausted */
    int64_t width, height;
    char text[512], note[SANDBOX_NOTE_SIZE];
} exchange;

enum { EXCHANGE_SIZE = 4096 };

/* A message is one packet on the socket. The parent numbers its commands, and the child repeats the
 * number of the command in its answer. If either process receives an unexpected number, it ends the
 * connection, because the message might belong to another image. */
typedef struct message {
    uint32_t what, number;
} message;

enum { READY = 'r', WORK = 'w', DONE = 'd' };

typedef struct child {
    /* The next child in the list of idle children. */
    struct child *next;
    exchange *shared;
    pid_t pid;
    int socket;
    /* The number of the latest command that was sent to this child. */
    uint32_t number;
    /* A copy of shared->room, made when the child was ready. */
    uint64_t room;
    /* The child's limit of CPU time in seconds, if it is too low for an image; otherwise 0. */
    rlim_t short_of;
} child;

struct sandbox {
    sandbox_settings settings;
    size_t input_size, output_size, shared_size;
    /* The largest number of children. */
    int most;
    /* This lock protects the members below. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    child *idle;
    /* The number of all children, idle or working. Only the idle children are in the list
     * `idle`. */
    int count;
};

/* sandbox_open returns the address of this struct if the sandbox cannot be allocated. */
static sandbox none;

/* === The child === */

#ifdef __x86_64__
#define THIS_ARCH AUDIT_ARCH_X86_64
#else
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
/* Each of these two macros loads one half of a 64-bit argument of the system call. The low half
 * comes first on both supported CPUs. */
#define LOAD_LOW(i)                 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[i]))
#define LOAD_HIGH(i)                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[i]) + 4)
#define PERMIT                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define IF_EQUAL_SKIP(value, n)     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, n, 0)
#define UNLESS_EQUAL_SKIP(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n)
#define ALLOW(call)                 UNLESS_EQUAL_SKIP(call, 1), PERMIT
#define DENY(call)                  UNLESS_EQUAL_SKIP(call, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
/* CLEAR clears bits of a loaded half. ALLOW_ONE and ALLOW_THREE test only the low half of an
 * argument, because the kernel takes their arguments as ints. */
#define CLEAR(bits) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~(uint32_t)(bits))
#define ALLOW_ONE(call, i, value)                                                                  \
    UNLESS_EQUAL_SKIP(call, 4), LOAD_LOW(i), UNLESS_EQUAL_SKIP(value, 1), PERMIT, KILL
#define ALLOW_THREE(call, i, ignored, a, b, c)                                                     \
    UNLESS_EQUAL_SKIP(call, 7), LOAD_LOW(i), CLEAR(ignored), IF_EQUAL_SKIP(a, 2),                  \
        IF_EQUAL_SKIP(b, 1), UNLESS_EQUAL_SKIP(c, 1), PERMIT, KILL
/* Kills the process if the 64-bit argument has any bit that is not in `bits`. This macro expands to
 * 5 instructions. */
#define ONLY_BITS(i, bits)                                                                         \
    LOAD_HIGH(i), UNLESS_EQUAL_SKIP(0, 2), LOAD_LOW(i),                                            \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, ~(uint32_t)(bits), 0, 1), KILL
#define ALLOW_BITS(call, i, bits) UNLESS_EQUAL_SKIP(call, 6), ONLY_BITS(i, bits), PERMIT

/* Installs the filter of system calls. It allows the child to allocate non-executable memory, to
 * use the socket (descriptor 0), and to make the few other calls that malloc and printf need.
 * AddressSanitizer also calls madvise for fresh memory, and queries the signal stack before longjmp
 * leaves libjpeg after an error. */
static bool confine(void) {
#if defined(__SANITIZE_ADDRESS__)
    enum { ADVICE = MADV_DONTDUMP, MORE_ADVICE = MADV_NOHUGEPAGE };
#else
    enum { ADVICE = MADV_HUGEPAGE, MORE_ADVICE = MADV_FREE };
#endif
    /* The private futex operations are PRIVATE_FUTEX + 0, which waits, and PRIVATE_FUTEX + 1, which
     * wakes. */
    enum { DATA = PROT_READ | PROT_WRITE, PRIVATE_FUTEX = 128 };
    static struct sock_filter rules[] = {
        LOAD(arch),
        IF_EQUAL_SKIP(THIS_ARCH, 1),
        KILL,
        LOAD(nr),
        ALLOW_ONE(SYS_read, 0, 0),
        ALLOW_ONE(SYS_write, 0, 0),
        ALLOW(SYS_brk),
        ALLOW(SYS_munmap),
        ALLOW(SYS_exit),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_getrandom),
        ALLOW(SYS_sched_yield),
#if defined(__SANITIZE_ADDRESS__)
        ALLOW(SYS_sigaltstack),
#endif
        ALLOW_THREE(SYS_madvise, 2, 0, MADV_DONTNEED, ADVICE, MORE_ADVICE),
        ALLOW_THREE(SYS_futex, 1, PRIVATE_FUTEX, 0, 1, 1),
        ALLOW_THREE(SYS_clock_gettime, 0, 0, CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC),
        ALLOW_BITS(SYS_mremap, 3, MREMAP_MAYMOVE),
        ALLOW_BITS(SYS_mprotect, 2, DATA),
        /* With GLIBC_TUNABLES, malloc may request huge pages. It also works without them. */
        UNLESS_EQUAL_SKIP(SYS_mmap, 15),
        LOAD_LOW(3),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_HUGETLB, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        ONLY_BITS(2, DATA),
        ONLY_BITS(3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED | MAP_STACK),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1),
        PERMIT,
        KILL,
    };
    const struct sock_fprog program = { sizeof rules / sizeof rules[0], rules };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* Confines the command of the user; see sandbox.h. Calls of the x32 ABI are fatal, because their
 * numbers, from 0x40000000, differ from those that the rules deny. */
bool sandbox_confine_command(void) {
    static struct sock_filter rules[] = {
        LOAD(arch),
        IF_EQUAL_SKIP(THIS_ARCH, 1),
        KILL,
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
        KILL,
        DENY(SYS_socket),
        DENY(SYS_setsid),
        DENY(SYS_setpgid),
        DENY(SYS_ptrace),
        DENY(SYS_process_vm_readv),
        DENY(SYS_process_vm_writev),
        DENY(SYS_unshare),
        DENY(SYS_setns),
        DENY(425), /* io_uring_setup is refused, because an io_uring can also open sockets. */
        PERMIT,
    };
    const struct sock_fprog program = { sizeof rules / sizeof rules[0], rules };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* Returns the size of this process's address space in bytes; 0 if it is unknown. */
static uint64_t address_space(void) {
    unsigned long long pages = 0;
    char text[64] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fgets(text, sizeof text, file)) pages = strtoull(text, NULL, 10);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

#if defined(__GLIBC__)
typedef __rlimit_resource_t resource_kind;
#else
typedef int resource_kind;
#endif

/* Lowers the limit of a resource to `most`. A limit that is already lower is kept, because some
 * batch systems set such limits. */
static bool lower(resource_kind resource, rlim_t most) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) return false;
    if (limit.rlim_cur > most) limit.rlim_cur = most;
    limit.rlim_max = limit.rlim_cur;
    return setrlimit(resource, &limit) == 0;
}

/* Limits the address space of this process to `before`, its present size in bytes, plus
 * settings.memory. *room receives the number of bytes that it may still allocate. */
static bool bound(const sandbox *box, uint64_t before, uint64_t *room) {
    struct rlimit space, data;
    if (!lower(RLIMIT_AS, (rlim_t)(before + box->settings.memory)) || !lower(RLIMIT_CORE, 0) ||
        !lower(RLIMIT_FSIZE, 0) || !lower(RLIMIT_NOFILE, 1) || getrlimit(RLIMIT_AS, &space) != 0 ||
        getrlimit(RLIMIT_DATA, &data) != 0)
        return false;
    *room = space.rlim_cur > before ? space.rlim_cur - before : 0;
    if (*room > data.rlim_cur) *room = data.rlim_cur;
    return true;
}

/* Moves the socket to descriptor 0 and closes all other files. *space receives the size of the
 * address space in bytes. */
static bool close_files(int socket, uint64_t *space) {
    /* The number of possible descriptors, RLIMIT_NOFILE, which `bound` lowers only later. */
    const long most = sysconf(_SC_OPEN_MAX);
    bool closed = false;
    if (dup2(socket, 0) != 0) return false;
#ifdef SYS_close_range
    closed = syscall(SYS_close_range, 1u, ~0u, 0u) == 0;
#endif
    for (int i = 1; !closed && i < most; i++) close(i);
    *space = address_space();
    return true;
}

static bool tell(uint32_t what, uint32_t number) {
    const message said = { what, number };
    return write(0, &said, sizeof said) == sizeof said;
}

/* Waits for the command with this number. Returns false if the parent has ended, or if it has sent
 * any other message. */
static bool is_told(uint32_t number) {
    /* The array holds two messages, so that `read` shows if the packet is too long. */
    message got[2];
    return read(0, got, sizeof got) == sizeof got[0] && got[0].what == WORK &&
           got[0].number == number;
}

/* Confines this process. Returns NULL on success, otherwise a text that names the feature which the
 * system lacks. */
static const char *lock_in(const sandbox *box, int socket, uint64_t *room) {
    uint64_t space;
    if (!close_files(socket, &space)) return "no socket";
    if (space == 0) return "/proc/self/statm cannot be read";
    if (!bound(box, space, room)) return "the limits of memory and files cannot be set";
    return confine() ? NULL : "no seccomp";
}

/* Decodes the image in the shared memory, and writes the result into the shared memory. */
static void serve(const sandbox *box, exchange *shared) {
    uint8_t *input = (uint8_t *)shared + EXCHANGE_SIZE, *output = input + box->input_size;
    const sandbox_request request = { input,
                                      (size_t)shared->size,
                                      shared->flags,
                                      shared->parameters_size ? shared->parameters : NULL,
                                      (size_t)shared->parameters_size,
                                      shared->to_size ? output : NULL,
                                      (size_t)shared->to_size,
                                      shared->note };
    report r = report_make();
    vit_image image;
    memset(&image, 0, sizeof image);
    shared->good = box->settings.work(&request, &image, &r);
    shared->no_memory = r.no_memory;
    shared->width = image.width;
    shared->height = image.height;
    snprintf(shared->text, sizeof shared->text, "%.500s", r.text);
    if (!shared->good || request.to) return;
    if (image.width > 0 && image.height > 0 &&
        (int64_t)image.width * image.height <= box->settings.max_pixels)
        memcpy(output, image.pixels, (size_t)image.width * (size_t)image.height * 3);
    box->settings.release(&image);
}

/* Resets the signals of the child. Signals that are caused by faults of the decoder end the child.
 * All other signals are ignored, because they are meant for the parent. When the parent ends, the
 * socket is closed, which also ends the child. The parent's signal handlers must not run in the
 * child, because they remove the parent's files. */
static void reset_signals(void) {
    static const int fatal[] = {
        SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU
    };
    sigset_t empty;
    for (int i = 1; i < NSIG; i++) signal(i, SIG_IGN);
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) signal(fatal[i], SIG_DFL);
    sigemptyset(&empty);
    sigprocmask(SIG_SETMASK, &empty, NULL);
}

static void live(const sandbox *box, exchange *shared, int socket) {
    const char *lacking;
    reset_signals();
#ifdef M_ARENA_MAX
    /* Without this call, malloc would open a file to read the number of CPUs. */
    mallopt(M_ARENA_MAX, 1);
#endif
    errno = 0;
    lacking = lock_in(box, socket, &shared->room);
    if (lacking) {
        snprintf(shared->text, sizeof shared->text, "%s: %s", lacking,
                 strerror(errno ? errno : EIO));
        _exit(1);
    }
    if (!tell(READY, 0)) _exit(1);
    for (uint32_t number = 1; is_told(number); number++) {
        serve(box, shared);
        if (!tell(DONE, number)) break;
    }
    _exit(0);
}

/* === The parent === */

static void free_child(const sandbox *box, child *c) {
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    if (c->socket >= 0) close(c->socket);
    if (c->shared != MAP_FAILED) munmap(c->shared, box->shared_size);
    free(c);
}

typedef enum heard { ANSWER, ENDED, LATE, NONSENSE } heard;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Waits for a message of the child for at most `seconds`, in slices of 0.1 s. A slice that takes
 * longer counts as 0.1 s, so that hours during which a job is suspended do not count. */
static heard hear(const child *c, int seconds, uint32_t what, uint32_t number) {
    static const double slice = 0.1;
    struct pollfd ready = { c->socket, POLLIN, 0 };
    /* As in is_told, the array holds two messages to show if the packet is too long. */
    message got[2];
    double waited = 0, start, took;
    ssize_t size;
    int found;
    do {
        start = now();
        found = poll(&ready, 1, (int)(slice * 1000));
        took = now() - start;
        waited += took < slice ? took : slice;
    } while (found <= 0 && (found == 0 || errno == EINTR) && waited < seconds);
    if (found <= 0) return LATE;
    size = recv(c->socket, got, sizeof got, MSG_DONTWAIT);
    if (size <= 0) return ENDED;
    return size == sizeof got[0] && got[0].what == what && got[0].number == number ? ANSWER
                                                                                   : NONSENSE;
}

/* Makes a pair of connected sockets. Their descriptors are above those of the standard streams,
 * because output to a standard stream must never reach a decoder. */
static bool make_socket(int ends[2]) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
    for (int i = 0; i < 2; i++) {
        const int low = ends[i];
        if (low > STDERR_FILENO) continue;
        ends[i] = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        close(low);
    }
    if (ends[0] >= 0 && ends[1] >= 0) return true;
    close(ends[0]);
    close(ends[1]);
    return false;
}

/* Makes the shared memory and the child process. This function runs on one thread at a time,
 * because no other child may inherit the shared memory. Signals are blocked during the fork,
 * because the parent's signal handlers must not run in the child. */
static bool fork_child(const sandbox *box, child *c, const int ends[2], report *r) {
    static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
    sigset_t all, before;
    bool good = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&alone);
    c->shared = mmap(NULL, box->shared_size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->shared == MAP_FAILED) {
        (void)report_fail(r, "no shared memory: %s", strerror(errno));
    } else {
        c->pid = fork();
        if (c->pid == 0) live(box, c->shared, ends[1]);
        good = c->pid > 0 && madvise(c->shared, box->shared_size, MADV_DONTFORK) == 0;
        if (!good) (void)report_fail(r, "no process: %s", strerror(errno));
    }
    pthread_mutex_unlock(&alone);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return good;
}

static bool begin_child(const sandbox *box, child *c, report *r) {
    int ends[2];
    bool good;
    if (!make_socket(ends)) return report_fail(r, "no socket: %s", strerror(errno));
    c->socket = ends[0];
    good = fork_child(box, c, ends, r);
    close(ends[1]);
    if (!good) return false;
    if (hear(c, 60, READY, 0) != ANSWER)
        return report_fail(r, "%s", c->shared->text[0] ? c->shared->text : "its process has ended");
    c->room = c->shared->room;
    return true;
}

static child *new_child(const sandbox *box, report *r) {
    child *c = calloc(1, sizeof *c);
    if (!c) {
        (void)report_no_memory(r);
        return NULL;
    }
    c->socket = -1;
    c->shared = MAP_FAILED;
    if (begin_child(box, c, r)) return c;
    free_child(box, c);
    return NULL;
}

static void drop_child(sandbox *box, child *c) {
    free_child(box, c);
    pthread_mutex_lock(&box->lock);
    box->count--;
    pthread_cond_signal(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

/* Sets the CPU time after which the kernel ends the child. A child that computes forever then ends
 * even if its parent is gone. Returns false if the child has less CPU time left than an image may
 * take, because its hard limit (ulimit -t) is lower. */
static bool limit_time(child *c, int seconds) {
    struct timespec used = { 0, 0 };
    struct rlimit limit;
    clockid_t clock;
    c->short_of = 0;
    if (clock_getcpuclockid(c->pid, &clock) == 0) clock_gettime(clock, &used);
    if (prlimit(c->pid, RLIMIT_CPU, NULL, &limit) != 0)
        return true; /* The child has ended; a later call detects its end. */
    limit.rlim_cur = (rlim_t)used.tv_sec + (rlim_t)seconds + 1;
    if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = c->short_of = limit.rlim_max;
    prlimit(c->pid, RLIMIT_CPU, &limit, NULL);
    return !c->short_of;
}

/* Takes an idle child, but replaces it if `must_be_new` is true or its CPU time is short. If none
 * is idle, makes a new child, or waits if box->most children exist. Returns NULL on failure. */
static child *take_child(sandbox *box, bool must_be_new, report *r) {
    const int seconds = box->settings.cpu_seconds;
    child *c;
    bool others;
    do {
        *r = report_make();
        pthread_mutex_lock(&box->lock);
        while (!box->idle && box->count >= box->most) pthread_cond_wait(&box->changed, &box->lock);
        c = box->idle;
        if (c) box->idle = c->next;
        else box->count++;
        pthread_mutex_unlock(&box->lock);
        if (c && !must_be_new && limit_time(c, seconds)) return c;
        if (c) free_child(box, c); /* The new child replaces this child. */
        c = new_child(box, r);
        if (c) {
            (void)limit_time(c, seconds);
            return c;
        }
        pthread_mutex_lock(&box->lock);
        others = --box->count > 0;
        if (others) box->most = box->count;
        pthread_cond_broadcast(&box->changed);
        pthread_mutex_unlock(&box->lock);
    } while (others);
    return NULL;
}

/* Makes a child idle again. The shared memory of a large image is returned to the system, because
 * the child may live for millions of images. The memory of a 12-megapixel photo is kept, because
 * mapping it again would take a tenth of the decoding time. */
static void return_child(sandbox *box, child *c, size_t used_input, size_t used_pixels) {
    enum { LARGE = 32 << 20 };
    if (used_input + used_pixels > LARGE) madvise(c->shared, box->shared_size, MADV_REMOVE);
    pthread_mutex_lock(&box->lock);
    c->next = box->idle;
    box->idle = c;
    pthread_cond_signal(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

/* Returns the largest number of children, which is at least 1. If the address space is limited, the
 * shared memory of all children may take half of the remaining address space. */
static int most_children(const sandbox *box) {
    struct rlimit limit;
    uint64_t left;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT_MAX;
    left = address_space();
    left = left < limit.rlim_cur ? (limit.rlim_cur - left) / 2 / box->shared_size : 0;
    return left < 1 ? 1 : left < INT_MAX ? (int)left : INT_MAX;
}

sandbox *sandbox_open(const sandbox_settings *settings, report *r) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    sandbox *box = calloc(1, sizeof *box);
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const int children = settings->children ? settings->children : cpus > 0 ? (int)cpus : 1;
    (void)r;
    if (!box) return &none;
    box->settings = *settings;
    box->input_size = (settings->max_input + page) / page * page;
    box->output_size = 3 * (size_t)settings->max_pixels;
    if (box->output_size < settings->max_to) box->output_size = settings->max_to;
    box->shared_size = EXCHANGE_SIZE + box->input_size + box->output_size;
    box->most = most_children(box);
    pthread_mutex_init(&box->lock, NULL); /* This call and the next call cannot fail on Linux. */
    pthread_cond_init(&box->changed, NULL);
    while (box->count < children && box->count < box->most) {
        report failure = report_make();
        /* If no child can be made here, sandbox_decode reports the reason. */
        child *c = new_child(box, &failure);
        if (!c) break;
        box->count++;
        return_child(box, c, 0, 0);
    }
    return box;
}

void sandbox_close(sandbox *box) {
    if (!box || box == &none) return;
    while (box->idle) {
        child *c = box->idle;
        box->idle = c->next;
        free_child(box, c);
    }
    pthread_cond_destroy(&box->changed);
    pthread_mutex_destroy(&box->lock);
    free(box);
}

/* Returns true if the child was ended for a reason other than the image, so that another child may
 * succeed. *r receives the reason in any case. */
static bool was_killed(const sandbox *box, child *c, heard last, report *r) {
    const double limit = c->short_of ? (double)c->short_of : box->settings.cpu_seconds;
    struct rusage used;
    int status = 0, signal_number;
    pid_t ended;
    double seconds;
    if (last == LATE)
        return report_fail(r, "the decoder of the image was stopped: it took more than %d seconds",
                           box->settings.seconds);
    if (last == NONSENSE) return report_fail(r, "the decoder of the image sent an invalid answer");
    do ended = wait4(c->pid, &status, 0, &used);
    while (ended < 0 && errno == EINTR);
    c->pid = 0;
    if (ended < 0)
        return !report_fail(r, "the decoder of the image ended twice, for an unknown reason");
    signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
              1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    /* The kernel counts CPU time in ticks, so its limit of 2 s may end a process after 1.9 s. */
    if (signal_number == SIGXCPU ||
        (signal_number == SIGKILL && c->short_of && seconds >= 0.75 * limit)) {
        r->no_memory = c->short_of > 0;
        return report_fail(
            r, "the decoder of the image was stopped: it took more than %.0f seconds of a CPU%s",
            limit, c->short_of ? ", the limit of this process (ulimit -t)" : "");
    }
    if (signal_number == SIGKILL)
        return !report_fail(
            r, "the decoder of the image was killed twice; the system kills processes when memory "
               "is short");
    if (signal_number == SIGSYS)
        return report_fail(
            r, "the decoder of the image was stopped: it made a system call that decoding does "
               "not need");
    return report_fail(r, "the decoder of the image crashed (%s %d)",
                       signal_number ? "signal" : "exit status",
                       signal_number ? signal_number : WEXITSTATUS(status));
}

static bool say_text(const sandbox *box, const child *c, exchange *answer, report *r) {
    /* `limited` is true if the child has less memory than an image may need. */
    const bool limited = c->room < box->settings.memory;
    answer->text[sizeof answer->text - 1] = '\0';
    if (answer->no_memory) {
        r->no_memory = limited;
        return report_fail(r, "the decoder of the image needed more than %llu MiB%s",
                           (unsigned long long)((limited ? c->room : box->settings.memory) >> 20),
                           limited ? ", the limit of this process (ulimit -v, -d)" : "");
    }
    return report_fail(r, "%s", answer->text[0] ? answer->text : "cannot be decoded");
}

/* Copies the result of a child to the caller. `answer` is the parent's own copy, which the child
 * cannot change. */
static bool take_answer(const sandbox *box, const child *c, exchange *answer,
                        const sandbox_request *request, vit_image *image, report *r) {
    const uint8_t *pixels = (const uint8_t *)c->shared + EXCHANGE_SIZE + box->input_size;
    const int64_t most = box->settings.max_pixels, width = answer->width, height = answer->height;
    void *copy;
    if (!answer->good) return say_text(box, c, answer, r);
    answer->note[sizeof answer->note - 1] = '\0';
    memcpy(request->note, answer->note, sizeof answer->note);
    if (request->to) {
        memcpy(request->to, pixels, request->to_size);
        return true;
    }
    if (width < 1 || height < 1 || width > most || height > most || width > most / height)
        return report_fail(r, "the decoder of the image sent an invalid size: %lld x %lld pixels",
                           (long long)width, (long long)height);
    copy = box->settings.allocate((size_t)(width * height) * 3);
    if (!copy) return report_no_memory(r);
    memcpy(copy, pixels, (size_t)(width * height) * 3);
    image->pixels = copy;
    image->width = (int)width;
    image->height = (int)height;
    image->format = VIT_PIXEL_RGB8;
    return true;
}

static heard ask(const sandbox *box, child *c, const sandbox_request *request) {
    const message work = { WORK, ++c->number };
    exchange *shared = c->shared;
    memset(shared, 0, sizeof *shared);
    shared->size = request->size;
    shared->to_size = request->to ? request->to_size : 0;
    shared->flags = request->flags;
    shared->parameters_size = request->parameters_size;
    if (request->parameters_size)
        memcpy(shared->parameters, request->parameters, request->parameters_size);
    if (request->size > 0) memcpy((char *)shared + EXCHANGE_SIZE, request->data, request->size);
    if (send(c->socket, &work, sizeof work, MSG_NOSIGNAL) != (ssize_t)sizeof work) {
        kill(c->pid, SIGKILL); /* A send fails if the child was killed while it was idle. */
        return ENDED;
    }
    return hear(c, box->settings.seconds, DONE, c->number);
}

/* Lets a child decode the image, and returns the child. Returns NULL after a failure, with the
 * reason in *r. If a child was killed, the function tries once more with a new child. It takes no
 * other idle child, because a signal that ends a job may have killed all children. */
static child *answered(sandbox *box, const sandbox_request *request, report *r) {
    bool again = false;
    do {
        report failure;
        child *c = take_child(box, again, &failure);
        heard last;
        if (!c) {
            (void)report_fail(
                r,
                "no sandbox is available to decode the image: %s (--no-sandbox decodes "
                "without a sandbox)",
                failure.text);
            r->no_memory = true; /* No child could be started, so the image is not at fault. */
            return NULL;
        }
        last = ask(box, c, request);
        if (last == ANSWER) return c;
        failure = report_make();
        const bool killed = was_killed(box, c, last, &failure);
        drop_child(box, c);
        again = killed && !again;
        if (!again) *r = failure;
    } while (again);
    return NULL;
}

/* A child that refused an image is normally replaced before the next image (KEEPS_REFUSERS is 0),
 * because the refused image may control it. AddressSanitizer is the exception: its malloc may stay
 * locked in a child that was forked while other threads were running. */
#if defined(__SANITIZE_ADDRESS__)
enum { KEEPS_REFUSERS = 1 };
#else
enum { KEEPS_REFUSERS = 0 };
#endif

bool sandbox_decode(sandbox *box, const sandbox_request *request, vit_image *image, report *r) {
    exchange answer;
    size_t used;
    child *c;
    bool good;
    memset(image, 0, sizeof *image);
    if (box == &none) return report_no_memory(r);
    if (request->size > box->settings.max_input)
        return report_fail(r, "is too large: above %zu MiB", box->settings.max_input >> 20);
    if (request->parameters_size > SANDBOX_MAX_PARAMETERS ||
        (request->to && request->to_size > box->output_size))
        return report_fail(r, "the output of the decoder would be too large");
    c = answered(box, request, r);
    if (!c) return false;
    answer = *c->shared;
    good = take_answer(box, c, &answer, request, image, r);
    used = request->to ? request->to_size : (size_t)image->width * (size_t)image->height * 3;
    if (good || KEEPS_REFUSERS) return_child(box, c, request->size, used);
    else drop_child(box, c);
    return good;
}

#else

sandbox *sandbox_open(const sandbox_settings *settings, report *r) {
    (void)settings;
    (void)r;
#if defined(__linux__)
    (void)report_fail(
        r, "a sandbox needs Linux on x86-64 or ARM64, and a build with the kernel's headers");
#endif
    return NULL;
}

void sandbox_close(sandbox *box) { (void)box; }

bool sandbox_decode(sandbox *box, const sandbox_request *request, vit_image *image, report *r) {
    (void)box;
    (void)request;
    (void)image;
    return report_fail(r, "no sandbox");
}

bool sandbox_confine_command(void) { return true; }

#endif
