/* test_threads.c - checks that one model gives the same bits with 1 to 16 threads, with any
 * executor, with other users of the model, and in a child process.
 *
 *     test_threads [tests/data [without-pool]]
 *
 * The test also runs under the thread sanitizer. helgrind reports the atomics of vit.h's pool as
 * races, so under helgrind the test runs without the pool.
 */
#define _POSIX_C_SOURCE 200809L

#define VIT_TOOLS
#include "../vit.h"

#include "test.h"
#include "tiny_model.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_POOL = 16, BATCH = 3, CLASSES = 5, PIXELS = 3 * 8 * 8, USERS = 6, ROUNDS = 4 };

/* The path of a model that lies beside the program. */
static char path[256];

static void fill_input(float input[BATCH * PIXELS]) {
    uint32_t state = 5;
    for (int i = 0; i < BATCH * PIXELS; i++) {
        input[i] = tiny_random(&state);
    }
}

/* Runs a model once, with a new session. Returns true on success. */
static bool run(const vit_model *model, const vit_executor *executor, int together,
                float logits[BATCH * CLASSES]) {
    float input[BATCH * PIXELS];
    vit_params params;
    vit_session session;
    vit_outputs outputs;
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    params.batch = together;
    if (executor) {
        params.executor = *executor;
    }
    outputs.logits = logits;
    fill_input(input);
    const size_t size = vit_workspace_size(model, &params);
    void *workspace = tiny_allocate(size);
    const bool good = vit_session_init(&session, model, &params, workspace, size) == VIT_OK &&
                      vit_forward(&session, &(vit_input){ .pixels = input, .batch = BATCH },
                                  &outputs) == VIT_OK;
    free(workspace);
    return good;
}

static void same(const char *what, const float *a, const float *b) {
    CHECK_MSG(memcmp(a, b, BATCH * CLASSES * sizeof(float)) == 0, "%s: other bits", what);
}

/* --- pools of 1 to 16 --------------------------------------------------------- */

static void test_pools(const vit_model *model, const float *expected) {
    for (int n = 1; n <= MAX_POOL; n++) {
        float logits[BATCH * CLASSES];
        char what[32];
        vit_threads *pool;
        vit_executor executor;
        snprintf(what, sizeof what, "%d threads", n);
        CHECK(vit_threads_create(n, &pool, &executor) == VIT_OK);
        for (int batch = 1; batch <= BATCH; batch++) {
            CHECK(run(model, &executor, batch, logits));
            same(what, logits, expected);
        }
        vit_threads_destroy(pool);
    }
}

/* --- a caller's executor ------------------------------------------------------- */

typedef struct job {
    vit_task *task;
    void *arg;
    int index;
} job;

static void *run_job(void *user) {
    const job *j = user;
    j->task(j->arg, j->index);
    return NULL;
}

/* An executor that runs each task on a new thread, a few at a time. The last tasks run first. */
static void on_new_threads(void *user, int count, vit_task *task, void *arg) {
    const int at_once = *(const int *)user;
    for (int end = count; end > 0; end -= at_once) {
        pthread_t threads[MAX_POOL];
        job jobs[MAX_POOL];
        const int n = end < at_once ? end : at_once;
        for (int i = 0; i < n; i++) {
            jobs[i] = (job){ task, arg, end - 1 - i };
            CHECK(pthread_create(&threads[i], NULL, run_job, &jobs[i]) == 0);
        }
        for (int i = 0; i < n; i++) {
            pthread_join(threads[i], NULL);
        }
    }
}

/* An executor that runs the tasks in a shuffled order. The order is different each time. */
static void shuffled(void *user, int count, vit_task *task, void *arg) {
    uint32_t *state = user;
    int *order = tiny_allocate((size_t)count * sizeof *order);
    for (int i = 0; i < count; i++) {
        *state = *state * 1664525u + 1013904223u;
        const int k = (int)((*state >> 8) % (uint32_t)(i + 1));
        order[i] = order[k];
        order[k] = i;
    }
    for (int i = 0; i < count; i++) {
        task(arg, order[i]);
    }
    free(order);
}

static void test_executors(const vit_model *model, const float *expected) {
    float logits[BATCH * CLASSES];
    int at_once = 4;
    uint32_t state = 1;
    vit_executor threads = { on_new_threads, &at_once, 4 }, order = { shuffled, &state, 1 };
    CHECK(run(model, &threads, 2, logits));
    same("tasks on new threads", logits, expected);
    at_once = 1;
    threads.num_threads = 1;
    CHECK(run(model, &threads, 2, logits));
    same("one new thread after the other", logits, expected);
    for (int i = 0; i < 8; i++) {
        order.num_threads = 1 + i;
        CHECK(run(model, &order, 2, logits));
        same("a shuffled order", logits, expected);
    }
}

/* --- many users of one model ----------------------------------------------------- */

typedef struct user {
    const vit_model *shared;
    const vit_executor *executor;
    const float *expected;
    int failures;
} user;

/* One of several threads. In each round, runs the shared model, and opens and runs a second one. */
static void *use(void *arg) {
    user *u = arg;
    for (int i = 0; i < ROUNDS; i++) {
        float logits[BATCH * CLASSES];
        vit_model own;
        u->failures += !run(u->shared, i % 2 ? u->executor : NULL, 1 + i % 2, logits) ||
                       memcmp(logits, u->expected, sizeof logits) != 0;
        u->failures += vit_model_open(path, i % 2 ? VIT_OPEN_COPY : 0, &own) != VIT_OK;
        u->failures += !run(&own, NULL, 1, logits) ||
                       memcmp(logits, u->expected, sizeof logits) != 0;
        vit_model_close(&own);
    }
    return NULL;
}

static void test_users(const vit_model *model, const float *expected,
                       const vit_executor *executor) {
    pthread_t threads[USERS];
    user users[USERS];
    for (int i = 0; i < USERS; i++) {
        users[i] = (user){ model, executor, expected, 0 };
        CHECK(pthread_create(&threads[i], NULL, use, &users[i]) == 0);
    }
    for (int i = 0; i < USERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_MSG(users[i].failures == 0, "user %d: %d failures", i, users[i].failures);
    }
}

/* Starts sessions in one order, and runs and frees them in another order. */
static void test_any_order(const vit_model *model, const float *expected) {
    enum { COUNT = 6 };
    float input[BATCH * PIXELS], logits[COUNT][BATCH * CLASSES];
    vit_session sessions[COUNT];
    void *workspaces[COUNT];
    vit_params params;
    memset(&params, 0, sizeof params);
    fill_input(input);
    for (int i = 0; i < COUNT; i++) {
        params.batch = 1 + i % BATCH;
        params.low_memory = i % 2;
        const size_t size = vit_workspace_size(model, &params);
        workspaces[i] = tiny_allocate(size);
        CHECK(vit_session_init(&sessions[i], model, &params, workspaces[i], size) == VIT_OK);
    }
    for (int round = 0; round < COUNT; round++) {
        const int i = (round * 5 + 2) % COUNT;
        vit_outputs outputs;
        memset(&outputs, 0, sizeof outputs);
        outputs.logits = logits[i];
        CHECK(vit_forward(&sessions[i], &(vit_input){ .pixels = input, .batch = BATCH },
                          &outputs) == VIT_OK);
        same("sessions in any order", logits[i], expected);
        free(workspaces[i]); /* Other sessions are still in use here. */
    }
}

/* --- children -------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
enum { CHILD_STARTS_THREADS = 0 }; /* TSan cannot follow threads in a child process. */
#else
enum { CHILD_STARTS_THREADS = 1 };
#endif

/* Runs in a child process. The child uses the parent's model, and makes its own pool. */
static int be_child(const vit_model *model, const float *expected) {
    float logits[BATCH * CLASSES];
    vit_threads *pool;
    vit_executor executor;
    if (!run(model, NULL, 1, logits) || memcmp(logits, expected, sizeof logits) != 0) {
        return 1;
    }
    if (!CHILD_STARTS_THREADS) {
        return 0;
    }
    if (vit_threads_create(2, &pool, &executor) != VIT_OK) {
        return 2;
    }
    memset(logits, 0, sizeof logits);
    const bool good = run(model, &executor, 2, logits);
    vit_threads_destroy(pool);
    return good && memcmp(logits, expected, sizeof logits) == 0 ? 0 : 3;
}

static void test_fork(const vit_model *model, const float *expected) {
    float logits[BATCH * CLASSES];
    vit_threads *pool;
    vit_executor executor;
    pid_t children[3];
    CHECK(vit_threads_create(3, &pool, &executor) == VIT_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(run(model, &executor, 2, logits));
        children[i] = fork();
        if (children[i] == 0) {
            _exit(be_child(model, expected));
        }
    }
    CHECK(run(model, &executor, 2, logits));
    same("the parent of children", logits, expected);
    for (int i = 0; i < 3; i++) {
        int status = -1;
        CHECK(children[i] > 0 && waitpid(children[i], &status, 0) == children[i]);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d: %d", i, status);
    }
    vit_threads_destroy(pool);
}

/* The argument of run_nested: each task of a pool runs the model on the same pool. */
typedef struct nested {
    const vit_model *model;
    const vit_executor *executor;
    const float *expected;
    bool good[BATCH];
} nested;

static void run_nested(void *arg, int index) {
    nested *n = arg;
    float logits[BATCH * CLASSES];
    n->good[index] = run(n->model, n->executor, 2, logits) &&
                     memcmp(logits, n->expected, sizeof logits) == 0;
}

static void test_nested(const vit_model *model, const float *expected) {
    vit_threads *pool;
    vit_executor executor;
    CHECK(vit_threads_create(3, &pool, &executor) == VIT_OK);
    for (int round = 0; round < 20; round++) {
        nested n = { model, &executor, expected, { false } };
        executor.parallel_for(executor.user, BATCH, run_nested, &n);
        for (int i = 0; i < BATCH; i++) {
            CHECK_MSG(n.good[i], "a task in a task: %d", i);
        }
    }
    vit_threads_destroy(pool);
}

static void test_with_pools(const vit_model *model, const float *expected) {
    vit_threads *pool;
    vit_executor executor;
    test_pools(model, expected);
    test_nested(model, expected);
    CHECK(vit_threads_create(3, &pool, &executor) == VIT_OK);
    test_users(model, expected, &executor);
    vit_threads_destroy(pool);
    test_fork(model, expected);
}

static void write_model(vit_dtype dtype) {
    tiny_options o = tiny_defaults();
    o.dtype = dtype;
    tiny_file f = tiny_build(&o);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(f.data, 1, f.size, file) == f.size && fclose(file) == 0);
    tiny_free(&f);
}

int main(int argc, char **argv) {
    static const vit_dtype dtypes[] = { VIT_F32, VIT_I8 };
    snprintf(path, sizeof path, "%s.vit", argc ? argv[0] : "test_threads");
    for (int i = 0; i < 2; i++) {
        float expected[BATCH * CLASSES];
        vit_model model;
        write_model(dtypes[i]);
        CHECK(vit_model_open(path, VIT_OPEN_VERIFY, &model) == VIT_OK);
        CHECK(run(&model, NULL, 1, expected));
        test_executors(&model, expected);
        test_any_order(&model, expected);
        test_users(&model, expected, NULL);
        if (argc < 3) {
            test_with_pools(&model, expected);
        }
        vit_model_close(&model);
    }
    unlink(path);
    return test_summary();
}
