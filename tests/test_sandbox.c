/* test_sandbox.c - tests attacks of a hostile image through a decoder. Each attack must be stopped
 * and reported, and must affect only its own image. */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/jpeg.h"
#include "image/photos.h"
#include "image/sandbox.h"
#include "os/os.h"
#include "test.h"

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { MAX_PIXELS = 1000000 };

/* The folder in which no file may appear. */
static char folder[64];
/* A file that the parent has open for writing, which no attack may change. */
static int witness = -1;

/* The state of a child that is killed from outside. The parent and the child share this memory. */
typedef struct victim {
    volatile pid_t pid;
    /* `tries` counts the decodings of the image. The first `kills` of them wait to be killed. */
    volatile int tries, kills;
    /* The process ids of the latest children. Child number n is at n % 64. */
    pid_t latest[64];
    volatile unsigned count;
} victim;
static victim *killed;
static pid_t own_pid;

static void note_pid(void) {
    own_pid = getpid();
    /* All children share this memory. */
    killed->latest[__sync_fetch_and_add(&killed->count, 1) % 64] = own_pid;
}

/* --- a decoder that executes the command in its image ---------------------------------------- */

/* The attack "taint" adds this to the grey value of later images that the same child decodes. */
static int tainted;

/* Decodes a grey image of four bytes: a letter, the width, the height and the grey value. Images of
 * another form, such as the name of an attack, do not come here. */
static bool paint(const uint8_t *bytes, vit_image *image) {
    const int width = bytes[1], height = bytes[2];
    uint8_t *pixels = malloc((size_t)(width * height) * 3 + 1);
    if (!pixels) return false;
    memset(pixels, bytes[3] + tainted, (size_t)(width * height) * 3);
    image->pixels = pixels;
    image->width = width;
    image->height = height;
    return true;
}

static void open_a_file(void) {
    char path[96];
    snprintf(path, sizeof path, "%s/written", folder);
    close(open(path, O_WRONLY | O_CREAT, 0666));
}

static void connect_somewhere(void) {
    struct sockaddr_in to;
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_port = htons(9);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)!connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof to);
}

static void write_to_others(void) {
    for (int i = 1; i < 64; i++) (void)!write(i, "harm", 4);
    (void)!write(witness, "harm", 4);
}

static void allocate_all(void) {
    for (;;) {
        char *block = malloc(1 << 20);
        if (!block) break;
        memset(block, 1, 1 << 20);
    }
    abort();
}

static void overflow_stack(volatile int *depth) {
    volatile char block[4096];
    block[0] = (char)*depth;
    (*depth)++;
    if (*depth > 0) overflow_stack(depth);
    *depth += block[0];
}

static void run_bytes(void) {
    (void)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void loop(void) {
    for (volatile unsigned i = 0;; i++) continue;
}

static void wait_on(void) {
    char byte;
    /* A child may read from its parent, so this read waits forever. */
    for (;;) (void)!read(0, &byte, 1);
}

static void crash(void) {
    volatile int *nothing = NULL;
    *nothing = 1;
}

static void advise(void) { (void)madvise(NULL, 0, 100); } /* 100 is MADV_HWPOISON. */
static void move_memory(void) {
    (void)mremap(NULL, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, NULL);
}
static void set_high_bits(void) {
    (void)syscall(SYS_mmap, NULL, 4096, PROT_READ, (1ll << 40) | MAP_PRIVATE | MAP_ANONYMOUS, -1,
                  0);
}
static void requeue(void) { (void)syscall(SYS_futex, NULL, 3, 1, NULL, NULL, 0); }
static void read_clock(void) { (void)syscall(SYS_clock_gettime, -6, NULL); }

/* Each of these functions sends an invalid answer to the parent, such as an answer about another
 * image. */
static void say_byte(void) { (void)!write(0, "d", 1); }
static void say_other(void) {
    const uint32_t other[2] = { 'd', 12345 };
    (void)!write(0, other, sizeof other);
}

static void taint(void) { tainted = 1; }

static void fork_off(void) { (void)fork(); }
static void kill_parent(void) { kill(getppid(), SIGKILL); }
static void trace_parent(void) { execl("/bin/true", "true", (char *)NULL); }
static void read_memory(void) { (void)open("/proc/self/mem", O_RDWR); }
static void remove_file(void) { unlink(folder); }
static void deep(void) {
    int depth = 0;
    overflow_stack(&depth);
}
static void leave(void) { _exit(0); }
static void break_heap(void) { raise(SIGABRT); }

static const struct {
    const char *name;
    void (*deed)(void);
    const char *message;
    /* True if builds with the address sanitizer omit the attack, because the sanitizer handles it
     * itself. */
    bool plain;
} deeds[] = {
    { "crash", crash, "the decoder of the image crashed (", false },
    { "abort", break_heap, "the decoder of the image ", false },
    { "exit", leave, "the decoder of the image crashed (exit status 0)", false },
    { "deep", deep, "the decoder of the image crashed (", false },
    { "loop", loop, NULL, false },     /* The function with_all_signals uses this. */
    { "sleep", wait_on, NULL, false }, /* The function test_sleep uses this. */
    { "open", open_a_file, "made a system call that decoding does not need", false },
    { "memory", read_memory, "made a system call", false },
    { "connect", connect_somewhere, "made a system call", false },
    { "write", write_to_others, "made a system call", false },
    { "execute", run_bytes, "made a system call", false },
    { "fork", fork_off, "made a system call", false },
    { "kill", kill_parent, "made a system call", false },
    { "program", trace_parent, "made a system call", false },
    { "advise", advise, "made a system call", false },
    { "move", move_memory, "made a system call", false },
    { "high bits", set_high_bits, "made a system call", false },
    { "requeue", requeue, "made a system call", false },
    { "clock", read_clock, "made a system call", false },
    { "byte", say_byte, "the decoder of the image sent an invalid answer", false },
    { "other", say_other, "the decoder of the image sent an invalid answer", false },
    { "taint", taint, "no image", true },
    { "unlink", remove_file, "made a system call", false },
    { "allocate", allocate_all, "the decoder of the image ", true },
};
enum { NUM_DEEDS = sizeof deeds / sizeof deeds[0] };

/* Waits to be killed, in the first killed->kills tries. */
static void be_killed(void) {
    killed->pid = own_pid;
    if (killed->tries++ < killed->kills) loop();
}

static bool work(const sandbox_request *request, vit_image *image, report *r) {
    const void *data = request->data;
    const size_t size = request->size;
    const unsigned flags = request->flags;
    const uint8_t *bytes = data;
    if (size == 4 && bytes[0] == 'v') {
        be_killed();
        return paint(bytes, image);
    }
    if (size == 4 && bytes[0] == 'h') {
        killed->pid = own_pid;
        while (!killed->tries) continue;
        return paint(bytes, image);
    }
    if (size == 4 && bytes[0] == 'g' && request->to) {
        snprintf(request->note, SANDBOX_NOTE_SIZE, "parameter %.*s", (int)request->parameters_size,
                 (const char *)request->parameters);
        memset(request->to, bytes[3] + tainted, request->to_size);
        return true;
    }
    if (size == 4 && bytes[0] == 'g') return paint(bytes, image);
    for (int i = 0; i < NUM_DEEDS; i++)
        if (size == strlen(deeds[i].name) && memcmp(data, deeds[i].name, size) == 0)
            deeds[i].deed();
    if (size == 6 && memcmp(data, "hungry", 6) == 0) return report_no_memory(r);
    if (size == 3 && memcmp(data, "lie", 3) == 0) {
        image->width = image->height = -5;
        return true;
    }
    if (size == 3 && memcmp(data, "big", 3) == 0) {
        image->width = MAX_PIXELS;
        image->height = MAX_PIXELS;
        return true;
    }
    return report_fail(r, "no image\n\033[2J, flags %u", flags);
}

static void release(vit_image *image) { free((void *)(uintptr_t)image->pixels); }

static sandbox_settings settings_of(void) {
    sandbox_settings s;
    memset(&s, 0, sizeof s);
    s.max_input = 1 << 20;
    s.max_pixels = MAX_PIXELS;
    s.memory = (uint64_t)64 << 20;
    s.children = 4;
    s.cpu_seconds = 1;
    s.seconds = 100;
    s.work = work;
    s.release = release;
    s.allocate = malloc;
    return s;
}

static bool decode(sandbox *box, const void *data, size_t size, unsigned flags, vit_image *image,
                   report *r) {
    char note[SANDBOX_NOTE_SIZE] = "";
    sandbox_request request = { 0 };
    request.data = data;
    request.size = size;
    request.flags = flags;
    request.note = note;
    return sandbox_decode(box, &request, image, r);
}

static bool is_grey(sandbox *box, int width, int height, int grey) {
    const uint8_t bytes[4] = { 'g', (uint8_t)width, (uint8_t)height, (uint8_t)grey };
    report r = report_make();
    vit_image image;
    bool good = decode(box, bytes, 4, 0, &image, &r);
    if (!good) {
        printf("    %s\n", r.text);
        return false;
    }
    good = image.width == width && image.height == height && image.format == VIT_PIXEL_RGB8;
    for (int i = 0; good && i < width * height * 3; i++) {
        good = ((const uint8_t *)image.pixels)[i] == grey;
    }
    release(&image);
    return good;
}

/* --- tests ------------------------------------------------------------------------------- */

static void test_deeds(sandbox *box) {
    struct stat status;
    for (int i = 0; i < NUM_DEEDS; i++) {
        report r = report_make();
        vit_image image;
        if ((SANITIZED && deeds[i].plain) || !deeds[i].message) continue;
        CHECK(!decode(box, deeds[i].name, strlen(deeds[i].name), 0, &image, &r));
        CHECK_MSG(strstr(r.text, SANITIZED ? "the decoder of the image " : deeds[i].message) !=
                      NULL,
                  "%s: %s", deeds[i].name, r.text);
        CHECK(!image.pixels && !r.no_memory);
        CHECK_MSG(is_grey(box, 10, 20, i), "the image after %s", deeds[i].name);
    }
    {
        char path[96];
        snprintf(path, sizeof path, "%s/written", folder);
        CHECK(stat(path, &status) != 0);
        CHECK(stat(folder, &status) == 0);
        CHECK(fstat(witness, &status) == 0 && status.st_size == 0);
    }
}

/* Tests a child that waits forever. */
static void test_sleep(void) {
    sandbox_settings settings = settings_of();
    report r = report_make();
    vit_image image;
    sandbox *box;
    settings.seconds = 1;
    settings.cpu_seconds = 100;
    box = sandbox_open(&settings, &r);
    CHECK(box && !decode(box, "sleep", 5, 0, &image, &r));
    CHECK_MSG(strstr(r.text, "took more than 1 seconds") != NULL, "%s", r.text);
    CHECK(is_grey(box, 2, 2, 2));
    sandbox_close(box);
}

/* Tests a job that is stopped during an image, for longer than the time limit. The time during
 * which the job is stopped must not count. The decoder waits until `tries` changes, as if it were
 * computing. */
static void test_stopped(void) {
    const struct timespec two = { 2, 0 };
    sandbox_settings settings = settings_of();
    int status = -1;
    pid_t job;
    settings.seconds = 1;
    settings.cpu_seconds = 100;
    killed->pid = 0;
    killed->tries = 0;
    killed->kills = 1;
    job = fork();
    if (job == 0) {
        report r = report_make();
        vit_image image;
        sandbox *box = setpgid(0, 0) == 0 ? sandbox_open(&settings, &r) : NULL;
        _exit(box && decode(box, "h\2\3\4", 4, 0, &image, &r) ? 0 : 1);
    }
    while (!killed->pid && waitpid(job, &status, WNOHANG) == 0) usleep(1000);
    CHECK(kill(-job, SIGSTOP) == 0);
    nanosleep(&two, NULL);
    kill(-job, SIGCONT);
    killed->tries = 1;
    if (status < 0) waitpid(job, &status, 0);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

static void *kill_all(void *arg) {
    for (int i = 0; i < killed->kills; i++) {
        while (killed->tries <= i) usleep(1000);
        kill(killed->pid, SIGKILL);
    }
    return arg;
}

/* Tests a decoder that is killed from outside, as happens when memory is exhausted. A second
 * decoder must then decode the image. If the second decoder is killed too, the image must be
 * reported as unreadable. */
static void test_killed(sandbox *box) {
    for (int kills = 1; kills <= 2; kills++) {
        report r = report_make();
        vit_image image;
        pthread_t killer;
        killed->tries = 0;
        killed->kills = kills;
        CHECK(pthread_create(&killer, NULL, kill_all, NULL) == 0);
        CHECK_MSG(decode(box, "v\2\3\4", 4, 0, &image, &r) == (kills == 1), "%s", r.text);
        pthread_join(killer, NULL);
        if (kills == 1) CHECK(image.width == 2 && image.height == 3);
        else CHECK(strstr(r.text, "the decoder of the image was killed twice") && !r.no_memory);
        release(&image);
    }
}

/* Kills all waiting children. */
static void test_killed_idle(void) {
    const sandbox_settings settings = settings_of();
    const unsigned first = killed->count;
    report r = report_make();
    sandbox *box = sandbox_open(&settings, &r);
    for (int i = 0; i < 10000 && killed->count < first + 4; i++)
        usleep(1000); /* Some of the children may not have begun yet. */
    CHECK(box != NULL && killed->count == first + 4);
    for (unsigned i = first; i < killed->count; i++)
        CHECK(kill(killed->latest[i % 64], SIGKILL) == 0);
    for (int i = 0; i < 5; i++) CHECK(is_grey(box, 3, 2, i));
    sandbox_close(box);
}

/* Tests a sandbox that cannot start a child. The message must not report the image as damaged. */
static void test_no_child(void) {
    sandbox_settings settings = settings_of();
    struct rlimit before, few;
    report r = report_make();
    vit_image image;
    sandbox *box;
    settings.children = 1;
    box = sandbox_open(&settings, &r);
    CHECK(box && !decode(box, "crash", 5, 0, &image, &r) && !r.no_memory);
    r = report_make();
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    few.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    CHECK(!decode(box, "g\2\2\2", 4, 0, &image, &r) && r.no_memory);
    CHECK_MSG(strstr(r.text, "no socket: ") != NULL, "%s", r.text);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(is_grey(box, 2, 2, 2));
    sandbox_close(box);
}

static void test_answers(sandbox *box) {
    report r = report_make();
    vit_image image;
    char *large = calloc(1, (1 << 20) + 1);
    CHECK(is_grey(box, 1, 1, 0) && is_grey(box, 255, 255, 7));
    CHECK(!decode(box, "none", 4, 5, &image, &r));
    CHECK_MSG(strcmp(r.text, "no image\\n\\x1b[2J, flags 5") == 0, "%s", r.text);
    r = report_make();
    CHECK(!decode(box, "lie", 3, 0, &image, &r) && strstr(r.text, "invalid size: -5 x -5"));
    r = report_make();
    CHECK(!decode(box, "big", 3, 0, &image, &r) && strstr(r.text, "invalid size: 1000000 x"));
    r = report_make();
    CHECK(large && !decode(box, large, (1 << 20) + 1, 0, &image, &r));
    CHECK(strstr(r.text, "is too large: above 1 MiB") != NULL);
    r = report_make();
    CHECK(!decode(box, "", 0, 0, &image, &r) && strstr(r.text, "no image"));
    CHECK(is_grey(box, 3, 3, 3));
    free(large);
}

/* --- settings of a parent process, in a separate process ------------------------------------- */

static bool in_process(bool (*test)(void)) {
    int status = 1;
    const pid_t pid = fork();
    if (pid == 0) _exit(test() ? 0 : 1);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return status == 0;
}

#define limit(resource, most) setrlimit(resource, &(const struct rlimit){ most, most })

/* Tests a parent without standard streams. The sandbox must not use the descriptors of the standard
 * streams, so writing to these descriptors must fail. */
static bool without_streams(void) {
    sandbox_settings settings = settings_of();
    report r = report_make();
    sandbox *box;
    bool good;
    settings.children = 1;
    for (int i = 0; i < 3; i++) close(i);
    box = sandbox_open(&settings, &r);
    good = is_grey(box, 2, 2, 1);
    for (int i = 0; i < 3; i++) good = good && write(i, "www", 3) < 0 && errno == EBADF;
    return good && is_grey(box, 2, 2, 2);
}

/* Tests a parent that ignores its children, so that a killed child has no exit status. */
static bool ignoring_children(void) {
    sandbox_settings settings = settings_of();
    report r = report_make();
    sandbox *box;
    signal(SIGCHLD, SIG_IGN);
    settings.children = 1;
    box = sandbox_open(&settings, &r);
    kill(killed->latest[(killed->count - 1) % 64], SIGKILL);
    return is_grey(box, 2, 2, 1);
}

static bool fails_with(sandbox *box, const char *deed, const char *message, bool no_memory) {
    report r = report_make();
    vit_image image;
    const bool good = !decode(box, deed, strlen(deed), 0, &image, &r) &&
                      strstr(r.text, message) != NULL && r.no_memory == no_memory;
    if (!good) fprintf(stderr, "    %s: %s\n", deed, r.text);
    return good;
}

/* Tests a parent that blocks all signals. SIGUSR1 must not end an idle child; limits must hold. */
static bool with_all_signals(void) {
    sandbox_settings settings = settings_of();
    report r = report_make();
    sigset_t all;
    sandbox *box;
    unsigned count;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGXCPU, SIG_IGN);
    signal(SIGSYS, SIG_IGN);
    settings.children = 1;
    box = sandbox_open(&settings, &r);
    count = killed->count;
    kill(killed->latest[(count - 1) % 64], SIGUSR1);
    return is_grey(box, 2, 2, 1) && killed->count == count &&
           fails_with(box, "loop", "took more than 1 seconds of a CPU", false) &&
           is_grey(box, 2, 2, 2) &&
           (SANITIZED || fails_with(box, "open", "made a system call", false));
}

/* Decodes a few images in a thread. The limits allow only one child, so the threads must wait for
 * it in turn. */
static void *decode_few(void *arg) {
    sandbox *box = arg;
    bool bad = false;
    for (int i = 0; i < 20; i++) bad = !is_grey(box, 50, 50, i) || bad;
    return bad ? box : NULL;
}

static bool with_few_files(void) {
    const sandbox_settings settings = settings_of();
    report r = report_make();
    pthread_t threads[4];
    sandbox *box;
    int lowest = dup(0);
    bool good = lowest > 2;
    close(lowest);
    limit(RLIMIT_NOFILE, (rlim_t)lowest + 2);
    box = sandbox_open(&settings, &r);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, decode_few, box);
    for (int i = 0; i < 4; i++) {
        void *bad = box;
        pthread_join(threads[i], &bad);
        good = good && !bad;
    }
    limit(RLIMIT_NOFILE, (rlim_t)lowest + 1);
    return good && is_grey(box, 1, 1, 1) &&
           /* The image "none" ends the only child, so the next image finds no sandbox. */
           fails_with(box, "none", "no image", false) &&
           fails_with(box, "none",
                      "no sandbox is available to decode the image: no socket: ", true);
}

static bool without_files_to_write(void) {
    const sandbox_settings settings = settings_of();
    report r = report_make();
    limit(RLIMIT_FSIZE, 0);
    return is_grey(sandbox_open(&settings, &r), 255, 255, 1);
}

/* Tests a limit of CPU time that is lower than the limit for an image. The message must not report
 * the image as damaged. */
static bool with_little_time(void) {
    sandbox_settings settings = settings_of();
    report r = report_make();
    sandbox *box;
    settings.cpu_seconds = 9;
    limit(RLIMIT_CPU, 1);
    box = sandbox_open(&settings, &r);
    return is_grey(box, 2, 2, 1) &&
           fails_with(box, "loop", "than 1 seconds of a CPU, the limit", true);
}

static bool with_little_memory(void) {
    sandbox_settings settings = settings_of();
    report r = report_make();
    sandbox *box;
    settings.memory = (uint64_t)2 << 40;
    limit(RLIMIT_AS, (rlim_t)1 << 30);
    box = sandbox_open(&settings, &r);
    return is_grey(box, 2, 2, 1) && fails_with(box, "hungry", "the limit of this process", true);
}

static bool without_memory(void) {
    const sandbox_settings settings = settings_of();
    report r = report_make();
    limit(RLIMIT_AS, 1 << 20);
    return fails_with(sandbox_open(&settings, &r), "g\2\2\2",
                      "no sandbox is available to decode the image: ", true);
}

static void test_inherited(void) {
    CHECK(in_process(without_streams));
    CHECK(in_process(ignoring_children));
    CHECK(in_process(with_all_signals));
    CHECK(in_process(without_files_to_write));
    CHECK(in_process(with_little_time));
    if (SANITIZED) return; /* Sanitizers need additional memory and files. */
    CHECK(in_process(with_few_files));
    CHECK(in_process(with_little_memory));
    CHECK(in_process(without_memory));
}

/* Tests the memory of the children. Each child must share only the memory of its own images with
 * this process. */
static void test_alone(void) {
    const sandbox_settings settings = settings_of();
    const unsigned first = killed->count;
    report r = report_make();
    sandbox *box = sandbox_open(&settings, &r);
    CHECK(box != NULL && killed->count == first + 4);
    for (unsigned i = first; i < killed->count; i++) {
        char path[64], line[512];
        int shared = 0;
        FILE *maps;
        snprintf(path, sizeof path, "/proc/%d/maps", (int)killed->latest[i % 64]);
        maps = fopen(path, "r");
        CHECK(maps != NULL);
        while (maps && fgets(line, sizeof line, maps)) shared += strstr(line, "rw-s ") != NULL;
        if (maps) fclose(maps);
        /* One is the memory of its images, the other is `killed`. */
        CHECK_MSG(shared == 2, "%d", shared);
    }
    sandbox_close(box);
}

/* Decodes many images in a thread. There is a child for each thread, and some children crash. With
 * the address sanitizer none crashes, because its malloc may be unusable in a child that is forked
 * while other threads run. */
static void *decode_many(void *arg) {
    sandbox *box = arg;
    long bad = 0;
    for (int i = 0; i < 100; i++) {
        report r = report_make();
        vit_image image;
        if (i % 25 == 10 && !SANITIZED) bad += decode(box, "crash", 5, 0, &image, &r);
        else bad += !is_grey(box, 100, i + 1, i);
    }
    return (void *)bad;
}

static void test_threads(void) {
    const sandbox_settings settings = settings_of();
    report r = report_make();
    sandbox *box = sandbox_open(&settings, &r);
    pthread_t threads[4];
    CHECK(box != NULL);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, decode_many, box) == 0);
    for (int i = 0; i < 4; i++) {
        void *bad = box;
        pthread_join(threads[i], &bad);
        CHECK(bad == NULL);
    }
    sandbox_close(box);
}

/* Waits until all orphaned children, which become children of this process, have ended. Returns
 * their number, or -1 if one still runs after a minute. */
static int count_ended(void) {
    int ended = 0;
    for (int i = 0; i < 6000; i++) {
        const pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0) return ended; /* No child is left. */
        if (pid > 0) ended++;
        else usleep(10000);
    }
    return -1;
}

/* Tests children whose parent is killed: three that wait, and one that computes until its time
 * limit. All four must end. */
static void test_orphans(void) {
    int ends[2];
    char byte;
    pid_t parent;
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    CHECK(pipe(ends) == 0);
    parent = fork();
    if (parent == 0) {
        sandbox_settings settings = settings_of();
        report r = report_make();
        vit_image image;
        sandbox *box = sandbox_open(&settings, &r);
        (void)!write(ends[1], box ? "y" : "n", 1);
        decode(box, "loop", 4, 0, &image, &r);
        _exit(0);
    }
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'y');
    usleep(100000); /* The child is computing now. */
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    CHECK(count_ended() == 4);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    close(ends[0]);
    close(ends[1]);
}

/* Tests work whose result is bytes. The bytes must be written to the requested memory, and no byte
 * after it may change. */
static void test_bytes(sandbox *box) {
    char note[SANDBOX_NOTE_SIZE] = "", to[5001] = { 0 };
    sandbox_request request = { "g\2\2\7", 4, 0, "seven", 5, to, 5000, note };
    report r = report_make();
    vit_image image;
    bool equal = true;
    CHECK(sandbox_decode(box, &request, &image, &r) && !image.pixels);
    for (int i = 0; i < 5000; i++) equal = equal && to[i] == 7;
    CHECK(equal && to[5000] == 0);
    CHECK(strcmp(note, "parameter seven") == 0);
    request.data = "none";
    CHECK(!sandbox_decode(box, &request, &image, &r) && strstr(r.text, "no image"));
    request.to_size = (size_t)MAX_PIXELS * 3 + 1;
    r = report_make();
    CHECK(!sandbox_decode(box, &request, &image, &r) && strstr(r.text, "too large"));
    request.to_size = 1;
    request.parameters_size = SANDBOX_MAX_PARAMETERS + 1;
    r = report_make();
    CHECK(!sandbox_decode(box, &request, &image, &r) && strstr(r.text, "too large"));
    CHECK(is_grey(box, 3, 3, 3));
}

/* Decodes a real image with and without a sandbox. Decoding a folder must fail. */
static void test_photos(const char *data) {
    char path[256];
    const photo_options confined = { 0 }, here = { false, true, 0, false, NULL };
    report r = report_make();
    photo_decoder *boxed = photo_decoder_open(&confined, "test", 1, &r);
    photo_decoder *plain = photo_decoder_open(&here, "test", 1, &r);
    vit_image a, b;
    CHECK(boxed && plain);
    snprintf(path, sizeof path, "%.200s/images/cmyk.jpg", data);
    CHECK(photos_decode(path, plain, &a, &r) && photos_decode(path, boxed, &b, &r));
    CHECK(a.width == b.width && a.height == b.height && a.width > 0);
    CHECK(memcmp(a.pixels, b.pixels, (size_t)a.width * (size_t)a.height * 3) == 0);
    photos_free_image(&a);
    photos_free_image(&b);
    CHECK(!photos_decode(data, boxed, &a, &r) && strstr(r.text, "is a folder; name the images"));
    r = report_make();
    snprintf(path, sizeof path, "%.200s/fixtures/plain/config.json", data);
    CHECK(!photos_decode(path, boxed, &a, &r) && strstr(r.text, "is not an image of a"));
    CHECK(!strncmp(r.text, path, strlen(path)));
    photo_decoder_close(boxed);
    photo_decoder_close(plain);
}

/* Tests the decoding of a photo directly to a model's input. The input must be the same with and
 * without a sandbox. If libjpeg-turbo decodes the photo at a fraction of its size, the input must
 * be nearly that of all pixels. */
static void test_input(const char *data) {
    static float input[4][3 * 32 * 32];
    char photo[256], path[256];
    vit_model model;
    double furthest = 0;
    snprintf(path, sizeof path, "%.200s/../../models/cifar10-vit.vit", data);
    snprintf(photo, sizeof photo, "%.200s/../../examples/cat.jpg", data);
    CHECK(vit_model_open(path, 0, &model) == VIT_OK);
    for (int i = 0; i < 4; i++) {
        const photo_options options = { false, i & 1, 0, i & 2, NULL };
        report r = report_make();
        photo_decoder *decoder = photo_decoder_open(&options, "test", 1, &r);
        CHECK(decoder && photos_input(photo, NULL, 0, decoder, &model, input[i], &r));
        CHECK(!r.text[0]);
        CHECK(!photos_input(path, NULL, 0, decoder, &model, input[i], &r));
        CHECK(strstr(r.text, "is a model, not an image"));
        photo_decoder_close(decoder);
    }
    vit_model_close(&model);
    CHECK(memcmp(input[0], input[1], sizeof input[0]) == 0);
    CHECK(memcmp(input[2], input[3], sizeof input[0]) == 0);
    for (int i = 0; i < 3 * 32 * 32; i++) {
        const double apart = fabs((double)input[0][i] - (double)input[2][i]);
        if (apart > furthest) furthest = apart;
    }
    CHECK(jpeg_library() ? furthest > 0 : furthest == 0);
    CHECK_MSG(furthest < 0.2, "an eighth differs by %g", furthest);
}

/* Tests the processes that a command has started. If the command hangs, these processes must end at
 * the command's time limit. If the command ends earlier, these processes must end with it. */
static void test_command(void) {
    static const char *const scripts[] = { "sleep 1000 & echo $! >&2; sleep 1000",
                                           "sleep 1000 & echo $! >&2; exit 7" };
    char output[96], errors[96], text[32] = "";
    for (int i = 0; i < 2; i++) {
        char *const arguments[] = { "sh", "-c", (char *)(uintptr_t)scripts[i], NULL };
        os_command command = { "/bin/sh",
                               arguments,
                               folder,
                               NULL,
                               output,
                               errors,
                               1u << 30,
                               1u << 20,
                               10,
                               1,
                               sandbox_confine_command };
        pid_t left = 0;
        int status = -1, tries = 0;
        FILE *file;
        snprintf(output, sizeof output, "%s/output", folder);
        snprintf(errors, sizeof errors, "%s/errors", folder);
        CHECK(os_run(&command, &status) == (i == 0 ? OS_LATE : OS_ENDED));
        CHECK(i == 0 || status == 7);
        file = fopen(errors, "r");
        if (file && fgets(text, sizeof text, file)) left = (pid_t)atoi(text);
        if (file) fclose(file);
        CHECK(left > 1);
        /* The loop waits until the process has been reaped. */
        while (left > 1 && tries < 500 && kill(left, 0) == 0) {
            usleep(10000);
            tries++;
        }
        CHECK_MSG(tries < 500, "process %d is left", (int)left);
        unlink(output);
        unlink(errors);
        command.folder = "/nowhere";
        CHECK(os_run(&command, &status) == OS_NOT_STARTED && errno == ENOENT);
        unlink(output);
        unlink(errors);
    }
}

int main(int argc, char **argv) {
    const char *data = argc > 1 ? argv[1] : "tests/data";
    sandbox_settings settings = settings_of();
    char path[96];
    report r = report_make();
    sandbox *box;
    snprintf(folder, sizeof folder, "/tmp/sandbox-XXXXXX");
    if (!mkdtemp(folder)) return 2;
    snprintf(path, sizeof path, "%s/witness", folder);
    witness = open(path, O_WRONLY | O_CREAT, 0666);
    killed = mmap(NULL, sizeof *killed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (killed == MAP_FAILED || pthread_atfork(NULL, NULL, note_pid)) return 2;
    box = sandbox_open(&settings, &r);
    if (box) {
        test_answers(box);
        /* The address sanitizer's malloc may be unusable after a fork while another thread runs. */
        if (!SANITIZED) test_killed(box);
        test_killed_idle();
        test_no_child();
        test_deeds(box);
        test_bytes(box);
        test_alone();
        test_inherited();
        test_sleep();
        test_stopped();
        test_threads();
        sandbox_close(box);
        test_orphans();
        test_photos(data);
        test_input(data);
        test_command();
    } else { /* A system without a sandbox must report this. */
        printf("no sandbox here: %s\n", r.text);
        CHECK(r.text[0] != '\0');
    }
    close(witness);
    unlink(path);
    rmdir(folder);
    return test_summary();
}
