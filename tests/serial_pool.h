/* serial_pool.h - a vit_threads_create for builds without threads. Tests use it to check results
 * that must not depend on the thread that computes them. Tasks run on the calling thread, the last
 * task first.
 *
 * Include vit.h before this header.
 */
#ifndef SERIAL_POOL_H
#define SERIAL_POOL_H

#if defined(VIT_NO_THREADS)

typedef struct vit_threads vit_threads;

static inline void serial_pool_for(void *user, int count, vit_task *task, void *arg) {
    (void)user;
    while (count-- > 0) {
        task(arg, count);
    }
}

static inline vit_result vit_threads_create(int num_threads, vit_threads **threads,
                                            vit_executor *executor) {
    executor->parallel_for = serial_pool_for;
    executor->user = *threads = NULL;
    executor->num_threads = num_threads;
    return VIT_OK;
}

static inline void vit_threads_destroy(vit_threads *threads) { (void)threads; }

#endif

#endif
