/* test_checkpoint_memory.c - fails each allocation of the checkpoint readers in turn.
 *
 *     test_checkpoint_memory [tests/data]
 *
 * Whatever fails, the reader must say so, crash nowhere and give back what it took. The readers
 * are compiled into this file, so that their malloc can be replaced without help of the linker.
 */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include <stdlib.h>
#include <string.h>

#include "test.h"

static long memory_live, memory_calls, memory_fail_at;   /* fail_at 0: never */

static int memory_refuses(void)
{
    return ++memory_calls == memory_fail_at;
}

static void *memory_test_malloc(size_t size)
{
    void *p = memory_refuses() ? NULL : malloc(size);
    memory_live += p != NULL;
    return p;
}

static void *memory_test_calloc(size_t count, size_t size)
{
    void *p = memory_refuses() ? NULL : calloc(count, size);
    memory_live += p != NULL;
    return p;
}

static void *memory_test_realloc(void *old, size_t size)
{
    void *p = memory_refuses() ? NULL : realloc(old, size);
    memory_live += p != NULL && old == NULL;
    return p;
}

static void memory_test_free(void *p)
{
    memory_live -= p != NULL;
    free(p);
}

#define malloc memory_test_malloc
#define calloc memory_test_calloc
#define realloc memory_test_realloc
#define free memory_test_free

#include "../tools/base.c"
#include "../tools/json.c"
#include "../tools/inflate.c"
#include "../tools/zip.c"
#include "../tools/pickle.c"
#include "../tools/safetensors.c"
#include "../tools/torch_file.c"
#include "../tools/checkpoint.c"
#include "../tools/checkpoint_read.c"

static bool read_everything(const char *path, char *error)
{
    checkpoint *c;
    float values[64];
    size_t i;
    bool ok = checkpoint_open(path, &c, error, CHECKPOINT_ERROR_SIZE);
    for (i = 0; ok && i < checkpoint_count(c); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(c, i);
        ok = checkpoint_read(c, t, 0, t->count, values, error, CHECKPOINT_ERROR_SIZE);
    }
    ok = ok && checkpoint_verify(c, error, CHECKPOINT_ERROR_SIZE);
    checkpoint_close(c);
    return ok;
}

static void fail_each(const char *folder, const char *name)
{
    char path[1024], error[CHECKPOINT_ERROR_SIZE] = "";
    long total, silent = 0, leaked = 0, i;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    memory_fail_at = 0;
    memory_calls = 0;
    CHECK_MSG(read_everything(path, error), "%s", error);
    total = memory_calls;
    for (i = 1; i <= total; i++) {
        memory_fail_at = i;
        memory_calls = 0;
        error[0] = '\0';
        silent += read_everything(path, error) || error[0] == '\0';
        leaked += memory_live != 0;
        memory_live = 0;
    }
    CHECK_MSG(silent == 0 && leaked == 0, "%s: of %ld failures %ld silent, %ld leaked", name, total,
              silent, leaked);
}

int main(int count, char **arguments)
{
    static const char *const names[] = {
        "zip.pt", "legacy.pt", "legacy_protocol4.pt", "wrapped.pt", "nested.pt", "deflate.pt",
        "zip64.pt", "model.safetensors", "shards", "torchscript.pt", "complex.pt"
    };
    char folder[512];
    size_t i;
    snprintf(folder, sizeof folder, "%s/checkpoints", count > 1 ? arguments[1] : "tests/data");
    for (i = 0; i < sizeof names / sizeof *names; i++) fail_each(folder, names[i]);
    return test_summary();
}
