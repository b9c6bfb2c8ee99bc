#define _POSIX_C_SOURCE 200809L   /* strdup */

#include "shards/shard_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"

struct shard_queued {
    sample of;
    struct shard_queued *next;
};

bool shard_source_open(shard_source *s, const char *file, const char *name, size_t max_bytes,
                       report *r)
{
    memset(s, 0, sizeof *s);
    s->name = name;
    s->file = strcmp(file, "-") == 0 ? stdin : os_fopen(file, "rb");
    s->failed = !s->file;
    if (!s->file) return report_fail(r, "cannot be opened: %s", os_error(errno));
    samples_begin(&s->samples, tar_read_file, s->file, max_bytes);
    return true;
}

sample shard_source_take(shard_source *s)
{
    struct shard_queued *first = s->first;
    const sample taken = first->of;
    s->first = first->next;
    if (!s->first) s->last = NULL;
    free(first);
    return taken;
}

void shard_source_close(shard_source *s)
{
    while (s->first) {
        sample taken = shard_source_take(s);
        sample_free(&taken);
    }
    samples_end(&s->samples);
    if (s->file && s->file != stdin) fclose(s->file);
    s->file = NULL;
}

static bool queue(shard_source *s, sample *one, report *r)
{
    struct shard_queued *queued = calloc(1, sizeof *queued);
    if (!queued) return report_no_memory(r);
    queued->of = *one;
    memset(one, 0, sizeof *one);
    if (s->last) s->last->next = queued;
    else s->first = queued;
    s->last = queued;
    return true;
}

/* "part-00017.tar/a/000.jpg", and the bytes or why there are none. */
static bool fill(const shard_source *s, sample *one, photo *p, report *r)
{
    const size_t size = strlen(s->name) + strlen(one->name) + 2;
    p->name = malloc(size);
    if (!p->name) return report_no_memory(r);
    snprintf(p->name, size, "%s/%s", s->name, one->name);
    p->data = one->data;
    p->size = one->size;
    p->refused = one->error;
    one->data = NULL;
    one->error = NULL;
    return true;
}

/* photo_source.next */
static bool next_photo(void *user, photo *p, report *r)
{
    shard_source *s = user;
    sample one;
    if (samples_next(&s->samples, &one, r)) {
        if (fill(s, &one, p, r) && queue(s, &one, r)) return true;
        sample_free(&one);
        return false;
    }
    if (ferror(s->file)) {   /* which looks like an archive that is cut short */
        *r = report_make();
        (void)report_fail(r, "cannot be read at byte %llu",
                          (unsigned long long)s->samples.tar.offset);
    }
    s->failed = r->failed && !r->no_memory;
    return false;
}

photo_source shard_source_photos(shard_source *s)
{
    photo_source source;
    source.user = s;
    source.count = 0;
    source.next = next_photo;
    return source;
}
