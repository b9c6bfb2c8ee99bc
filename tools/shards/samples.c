#define _POSIX_C_SOURCE 200809L   /* strdup, strcasecmp */

#include "shards/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/paths.h"
#include "image/photos.h"

void sample_free(sample *s)
{
    free(s->key);
    free(s->name);
    free(s->caption);
    free(s->label);
    free(s->url);
    free(s->note);
    free(s->error);
    free(s->data);
    memset(s, 0, sizeof *s);
}

void samples_begin(samples *s, tar_read *read, void *user, size_t max_bytes)
{
    memset(s, 0, sizeof *s);
    s->max_bytes = max_bytes;
    tar_begin(&s->tar, read, user);
}

static void clear(samples *s)
{
    for (int i = s->next; i < s->count; i++) sample_free(&s->images[i]);
    sample_free(&s->shared);
    s->count = s->next = 0;
}

void samples_end(samples *s)
{
    clear(s);
    tar_end(&s->tar);
}

/* === Names === */

/* Length of the key, without the dot that ends it; 0: no member of a sample. */
static size_t key_length(const char *name)
{
    const char *file = paths_file_name(name), *dot = strchr(file, '.');
    return dot && dot > file ? (size_t)(dot - name) : 0;
}

/* Is it of the sample that was begun? */
static bool is_of(const samples *s, const char *name)
{
    const size_t length = key_length(name);
    return length == strlen(s->shared.key) && memcmp(name, s->shared.key, length) == 0;
}

/* Which text of a sample a member is; NULL: none. */
static char **text_of(samples *s, const char *name)
{
    const char *suffix = name + key_length(name);
    return strcasecmp(suffix, ".txt") == 0    ? &s->shared.caption
           : strcasecmp(suffix, ".cls") == 0  ? &s->shared.label
           : strcasecmp(suffix, ".json") == 0 ? &s->shared.url   /* for a while: all of it */
                                              : NULL;
}

/* === Taking members === */

static bool copy_text(char **to, const char *text, report *r)
{
    *to = strdup(text);
    return *to || report_no_memory(r);
}

/* The first thing that is wrong with the texts. */
static bool put_note(samples *s, const char *what, report *r)
{
    char text[256];
    if (s->shared.note) return true;
    snprintf(text, sizeof text, "%.100s %.150s", paths_file_name(s->member.name), what);
    return copy_text(&s->shared.note, text, r);
}

static bool take_text(samples *s, char **to, report *r)
{
    const tar_member *m = &s->member;
    const size_t size = (size_t)m->size;
    if (m->refused) return put_note(s, m->refused, r);
    if (*to) return put_note(s, "is there twice", r);
    if (m->size > SAMPLE_MAX_TEXT) return put_note(s, "has more than 1 MiB", r);
    *to = malloc(size + 1);
    if (!*to) return report_no_memory(r);
    if (!tar_data(&s->tar, *to, size, r)) {
        (*to)[0] = '\0';
        return false;
    }
    (*to)[size] = '\0';
    if (strlen(*to) == size) return true;
    free(*to);
    *to = NULL;
    return put_note(s, "has a NUL in it", r);
}

static size_t bytes_held(const samples *s)
{
    size_t sum = 0;
    for (int i = 0; i < s->count; i++) sum += s->images[i].size;
    return sum;
}

static bool take_bytes(samples *s, sample *image, report *r)
{
    image->size = (size_t)s->member.size;
    image->data = malloc(image->size + 1);
    return image->data ? tar_data(&s->tar, image->data, image->size, r) : report_no_memory(r);
}

static bool take_image(samples *s, report *r)
{
    const tar_member *m = &s->member;
    const size_t room = s->max_bytes - bytes_held(s);
    sample *image = &s->images[s->count];
    char text[128];
    memset(image, 0, sizeof *image);
    s->count++;   /* freed from here on, whatever fails */
    if (!copy_text(&image->name, m->name, r) || !copy_text(&image->key, s->shared.key, r))
        return false;
    if (m->refused) return copy_text(&image->error, m->refused, r);
    if (m->size <= room) return take_bytes(s, image, r);
    snprintf(text, sizeof text, "is too large: %llu bytes, limit %llu%s",
             (unsigned long long)m->size, (unsigned long long)s->max_bytes,
             m->size > s->max_bytes ? "" : " of a sample's images");
    return copy_text(&image->error, text, r);
}

static void pass_member(samples *s)
{
    if (!s->member.folder && s->others++ == 0) strcpy(s->other, s->member.name);
}

static bool take_member(samples *s, report *r)
{
    char **text = text_of(s, s->member.name);
    return text ? take_text(s, text, r) : take_image(s, r);
}

static bool is_wanted(samples *s)
{
    const char *name = s->member.name;
    return !s->member.folder && key_length(name) > 0 &&
           (text_of(s, name) || photos_is_name(name));
}

/* === KEY.json === */

static bool from_json(char **to, const json_value *root, const char *key, char **note, report *r)
{
    const json_value *value = json_get(root, key);
    char number[32];
    if (*to || !value) return true;
    if (value->kind == JSON_STRING) return copy_text(to, value->u.string, r);
    if (value->kind == JSON_NULL) return true;
    if (value->kind != JSON_NUMBER || !value->integral) {
        char text[80];
        snprintf(text, sizeof text, "%s of its .json is no text and no whole number", key);
        return *note || copy_text(note, text, r);
    }
    snprintf(number, sizeof number, "%lld", (long long)value->u.integer);
    return copy_text(to, number, r);
}

static bool read_json(samples *s, report *r)
{
    char *text = s->shared.url;
    report unread = report_make();
    json_document document;
    bool good;
    s->shared.url = NULL;
    if (!text) return true;
    if (!json_parse(&document, text, strlen(text), false, 0, &unread)) {
        free(text);
        if (unread.no_memory) return report_no_memory(r);
        return s->shared.note || copy_text(&s->shared.note, "its .json is no JSON", r);
    }
    good = from_json(&s->shared.caption, document.root, "caption", &s->shared.note, r) &&
           from_json(&s->shared.label, document.root, "label", &s->shared.note, r) &&
           from_json(&s->shared.url, document.root, "url", &s->shared.note, r);
    json_free(&document);
    free(text);
    return good;
}

/* === A sample === */

static bool begin_sample(samples *s, report *r)
{
    const char *name = s->member.name;
    const size_t length = key_length(name);
    s->shared.key = malloc(length + 1);
    if (!s->shared.key) return report_no_memory(r);
    memcpy(s->shared.key, name, length);
    s->shared.key[length] = '\0';
    return true;
}

/* All members up to the first of another sample; or as many as fit, and the rest is one of its
 * own. */
static bool read_sample(samples *s, report *r)
{
    while (s->count < SAMPLE_MAX_IMAGES && (s->pending || tar_next(&s->tar, &s->member, r))) {
        s->pending = false;
        if (!is_wanted(s)) {
            pass_member(s);
            continue;
        }
        s->pending = s->shared.key && !is_of(s, s->member.name);
        if (s->pending) return read_json(s, r);
        if (!s->shared.key && !begin_sample(s, r)) return false;
        if (!take_member(s, r)) return false;
    }
    if (r->failed) return false;
    s->ended = s->count < SAMPLE_MAX_IMAGES;
    return read_json(s, r);
}

/* The texts of the sample are those of each of its images. */
static bool share(const sample *from, sample *to, report *r)
{
    return (!from->caption || copy_text(&to->caption, from->caption, r)) &&
           (!from->label || copy_text(&to->label, from->label, r)) &&
           (!from->url || copy_text(&to->url, from->url, r)) &&
           (!from->note || copy_text(&to->note, from->note, r));
}

bool samples_next(samples *s, sample *image, report *r)
{
    while (s->next == s->count) {
        clear(s);
        if (s->ended || !read_sample(s, r)) return false;
        if (s->count == 0 && s->shared.key) s->without_image++;
    }
    *image = s->images[s->next];
    memset(&s->images[s->next++], 0, sizeof *image);
    if (share(&s->shared, image, r)) return true;
    sample_free(image);
    return false;
}
