/* test_converter_memory.c - runs whole conversions. In each run, one allocation, one read or one
 * write of a file fails.
 *
 *     test_converter_memory tests/data [MOST]
 *
 * After any failure the converter must print one line and free all memory. It must not crash,
 * change the old output or leave other files. The converter may also succeed with the usual output,
 * because some allocations are not essential: stb_image makes such an allocation to check whether a
 * PNG is a JPEG. The linker replaces malloc, fread and similar functions by those below (Makefile).
 * If MOST is given, at most MOST calls of each conversion fail, evenly spaced; otherwise each call
 * fails once.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/npy.h"
#include "base/report.h"
#include "base/source.h"
#include "conversion.h"
#include "convert/conversion.h"
#include "convert/unpack.h"
#include "test.h"
#define VIT_TOOLS
#include "vit.h"

/* === Memory that can fail === */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *p);

enum { MAX_LIVE = 1 << 16, PHOTOS = 8 };

/* A hash table of all blocks that are not freed yet. It does not contain blocks that the C library
 * allocates for its caller, such as those of realpath and open_memstream. */
static void *live[MAX_LIVE];
/* The number of live blocks, the number of calls, and the number of the call that fails. If fail_at
 * is 0, no call fails. */
static long live_count, calls, fail_at;

static size_t find_live(const void *p) {
    size_t i = ((uintptr_t)p >> 4) * 2654435761u % MAX_LIVE;
    while (live[i] && live[i] != p) i = (i + 1) % MAX_LIVE;
    return i;
}

static void *add_live(void *p) {
    if (!p) return NULL;
    live[find_live(p)] = p;
    live_count++;
    return p;
}

/* Removes a block from the hash table. Entries that a collision had moved are moved back. */
static void remove_live(const void *p) {
    size_t i = find_live(p);
    if (!p || !live[i]) return;
    live[i] = NULL;
    live_count--;
    for (i = (i + 1) % MAX_LIVE; live[i]; i = (i + 1) % MAX_LIVE) {
        void *moved = live[i];
        live[i] = NULL;
        live[find_live(moved)] = moved;
    }
}

static bool refuses(void) { return ++calls == fail_at; }

void *__wrap_malloc(size_t size) { return refuses() ? NULL : add_live(__real_malloc(size)); }

void *__wrap_calloc(size_t count, size_t size) {
    return refuses() ? NULL : add_live(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size) {
    if (refuses()) return NULL;
    remove_live(old);
    return add_live(__real_realloc(old, size));
}

void __wrap_free(void *p) {
    remove_live(p);
    __real_free(p);
}

/* === Files that can fail === */

size_t __real_fread(void *to, size_t size, size_t count, FILE *file);
size_t __real_fwrite(const void *from, size_t size, size_t count, FILE *file);
int __real_fflush(FILE *file);
int __real_fclose(FILE *file);
int __real_fsync(int file);
int __real_rename(const char *from, const char *to);
FILE *__real_open_memstream(char **text, size_t *size);
DIR *__real_opendir(const char *path);
bool __real_source_read(const source *s, uint64_t at, void *to, size_t size, report *r);
vit_result __real_vit_model_open_as(unsigned abi, const char *path, unsigned flags,
                                    vit_model *model);
size_t __wrap_fread(void *to, size_t size, size_t count, FILE *file);
size_t __wrap_fwrite(const void *from, size_t size, size_t count, FILE *file);
int __wrap_fflush(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fsync(int file);
int __wrap_rename(const char *from, const char *to);
FILE *__wrap_open_memstream(char **text, size_t *size);
DIR *__wrap_opendir(const char *path);
bool __wrap_source_read(const source *s, uint64_t at, void *to, size_t size, report *r);
vit_result __wrap_vit_model_open_as(unsigned abi, const char *path, unsigned flags,
                                    vit_model *model);

static bool breaks(void) {
    if (!refuses()) return false;
    errno = EIO;
    return true;
}

/* The next two functions make ferror return true. They write to a file that is open for reading, or
 * read from a file that is open for writing. This does not work for streams in memory, where only
 * allocations can fail. */
size_t __wrap_fread(void *to, size_t size, size_t count, FILE *file) {
    if (!breaks()) return __real_fread(to, size, count, file);
    fputc(0, file);
    errno = EIO;
    return 0;
}

size_t __wrap_fwrite(const void *from, size_t size, size_t count, FILE *file) {
    if (fileno(file) < 0 || !breaks()) return __real_fwrite(from, size, count, file);
    fgetc(file);
    errno = EIO;
    return 0;
}

int __wrap_fflush(FILE *file) { return fileno(file) >= 0 && breaks() ? EOF : __real_fflush(file); }

int __wrap_fclose(FILE *file) {
    const bool fails = fileno(file) >= 0 && breaks();
    const int result = __real_fclose(file);
    if (fails) errno = EIO;
    return fails ? EOF : result;
}

int __wrap_fsync(int file) { return breaks() ? -1 : __real_fsync(file); }

int __wrap_rename(const char *from, const char *to) {
    return breaks() ? -1 : __real_rename(from, to);
}

FILE *__wrap_open_memstream(char **text, size_t *size) {
    return breaks() ? NULL : __real_open_memstream(text, size);
}

DIR *__wrap_opendir(const char *path) { return breaks() ? NULL : __real_opendir(path); }

bool __wrap_source_read(const source *s, uint64_t at, void *to, size_t size, report *r) {
    return breaks() ? report_fail(r, "cannot be read") : __real_source_read(s, at, to, size, r);
}

vit_result __wrap_vit_model_open_as(unsigned abi, const char *path, unsigned flags,
                                    vit_model *model) {
    if (!breaks()) return __real_vit_model_open_as(abi, path, flags, model);
    memset(model, 0, sizeof *model);
    strcpy(model->detail, "cannot be opened: Input/output error");
    return VIT_ERROR_IO;
}

/* === What is done === */

static const char *data;
static char folder[64], output[96], model[96], labels[96];

#define PLAIN "norm_eps=1e-6 activation=gelu"

typedef struct job {
    /* The path of the checkpoint in tests/data. */
    const char *checkpoint;
    vit_dtype dtype;
    /* True if photos are used for calibration and comparison. */
    bool photos;
    bool labels;
    /* The settings for --set, with spaces between them. */
    const char *settings;
    /* The values of --in-chans and --patch-size, or 0. */
    int chans, patch;
    const char *rename;
} job;

static bool put_settings(settings *s, const char *words, report *r) {
    char word[64];
    for (; words && *words; words += strcspn(words, " "), words += *words == ' ') {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(words, " "), words);
        if (!settings_parse(s, word, r)) return false;
    }
    return true;
}

/* True if a photo could not be read. The calibration without this photo may give other bytes. */
static bool skipped;

static bool convert(const job *j, report *r) {
    static const char *const photos[PHOTOS] = {
        "palette.png",     "plain.gif", "baseline.jpg", "rgb.ppm",
        "progressive.jpg", "rgb16.png", "rle.tga",      "exif6.jpg",
    };
    char path[512], photo_paths[PHOTOS][512];
    const char *items[PHOTOS], *renamings[1];
    convert_options options;
    conversion c;
    bool good;
    int i;
    memset(&options, 0, sizeof options);
    memset(&c, 0, sizeof c);
    renamings[0] = j->rename;
    snprintf(path, sizeof path, "%.300s/%s", data, j->checkpoint);
    for (i = 0; i < PHOTOS; i++) {
        snprintf(photo_paths[i], sizeof photo_paths[i], "%.300s/images/%s", data, photos[i]);
        items[i] = photo_paths[i];
    }
    options.checkpoint = path;
    options.output = output;
    options.dtype = j->dtype;
    options.quiet = true;
    /* The processes of a sandbox would have their own counters, so the sandbox is off. */
    options.decoding.no_sandbox = true;
    options.labels = j->labels ? labels : NULL;
    options.calibrate.items = options.compare.items = items;
    options.calibrate.count = options.compare.count = j->photos ? PHOTOS : 0;
    options.calibrate_max = options.compare_max = PHOTOS;
    options.in_chans = j->chans;
    options.patch_size = j->patch;
    options.rename.items = renamings;
    options.rename.count = j->rename != NULL;
    settings_start(&options.given, "--set");
    settings_put(&options.given, SETTING_NUM_HEADS, 2);
    good = put_settings(&options.given, j->settings, r) && convert_run(&options, &c, r);
    skipped = c.photos.calibration.skipped + c.photos.compared.skipped > 0;
    convert_free(&c);
    return good;
}

static bool unpack(const job *j, report *r) {
    unpack_result result;
    (void)j;
    return unpack_to_safetensors(model, output, true, &result, r);
}

static bool to_array(const job *j, report *r) {
    c_array_result result;
    (void)j;
    return c_array_write(model, output, true, &result, r);
}

static bool read_array(const job *j, report *r) {
    static const char npy[] = "\x93NUMPY\1\0\x37\0{'descr': '<f4', 'fortran_order': True, "
                              "'shape': (1,)}\n\0\0\x80\x3f";
    npy_array array;
    const bool good = npy_parse(npy, sizeof npy - 1, &array, r);
    (void)j;
    npy_free(&array);
    return good;
}

/* === What must hold afterwards === */

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void write_old(void) { write_text(output, "what was there before"); }

static int count_files(void) {
    DIR *directory = opendir(folder);
    struct dirent *entry;
    int count = 0;
    while (directory && (entry = readdir(directory)) != NULL) count += entry->d_name[0] != '.';
    if (directory) closedir(directory);
    return count;
}

typedef bool operation(const job *j, report *r);

static void fail_once(const char *what, operation *perform, const job *j, long at,
                      uint64_t wanted) {
    report r = report_make();
    const long before = live_count;
    const int files = count_files();
    const uint64_t old = hash_file(output);
    bool good;
    calls = 0;
    fail_at = at;
    skipped = false;
    good = perform(j, &r);
    fail_at = 0;
    CHECK_MSG(good || (r.failed && r.text[0] && !strchr(r.text, '\n')), "%s, call %ld: %s", what,
              at, r.text);
    CHECK_MSG(live_count == before, "%s, call %ld: %ld blocks lost", what, at, live_count - before);
    CHECK_MSG((hash_file(output) == (good ? wanted : old) || (good && skipped)) &&
                  count_files() == files,
              "%s, call %ld: files changed", what, at);
    if (good) write_old();
}

static void fail_each(const char *what, operation *perform, const job *j, long most) {
    report r = report_make();
    const long before = live_count;
    long total, tried, i;
    uint64_t wanted;
    /* The old output exists, as in the runs that fail. Finding it may allocate memory. */
    write_old();
    calls = 0;
    CHECK_MSG(perform(j, &r), "%s: %s", what, r.text);
    total = calls;
    tried = most > 0 && most < total ? most : total;
    CHECK_MSG(total > 0 && live_count == before, "%s: %ld calls, %ld blocks lost", what, total,
              live_count - before);
    wanted = hash_file(output);
    write_old();
    for (i = 0; i < tried; i++) fail_once(what, perform, j, 1 + i * total / tried, wanted);
    printf("%s: %ld calls, %ld failed in turn\n", what, total, tried);
}

static void test_conversions(long most) {
    static const job jobs[] = {
        { .checkpoint = "coverage/option_qk_norm" },
        { .checkpoint = "fixtures/plain/model.safetensors", .dtype = VIT_F16 },
        { .checkpoint = "fixtures/dist/model_legacy.pth" },
        { .checkpoint = "layouts/torchvision/model.pth", .dtype = VIT_BF16, .labels = true },
        { .checkpoint = "layouts/jax/model.npz" },
        { .checkpoint = "layouts/vit_cpp/model.gguf", .dtype = VIT_I4 },
        { .checkpoint = "layouts/gguf_llava/model.gguf", .dtype = VIT_F32 },
        { .checkpoint = "fixtures/plain/model.safetensors", .dtype = VIT_I8, .photos = true },
        { .checkpoint = "layouts/hf_vit/model.safetensors" },
        { .checkpoint = "layouts/open_clip_config/model.safetensors" },
        { .checkpoint = "layouts/mobileclip/model.safetensors" },
        { .checkpoint = "layouts/simple_vit/model.safetensors", .settings = "img_size=4" },
        { .checkpoint = "layouts/beit_original/model.pth",
          .settings = PLAIN " pool=avg img_size=6" },
        { .checkpoint = "layouts/timm_diff/model.safetensors", .settings = PLAIN },
        { .checkpoint = "layouts/timm_map/model.safetensors", .settings = PLAIN },
        { .checkpoint = "layouts/timm_hybrid/model.safetensors", .settings = PLAIN, .chans = 1 },
        { .checkpoint = "layouts/deit3/model.pth", .settings = PLAIN " positions=patches" },
        { .checkpoint = "layouts/rope_vit_mixed/model.pth", .settings = PLAIN " img_size=4" },
        { .checkpoint = "fixtures/plain/model.safetensors",
          .chans = 1,
          .patch = 8,
          .settings = "pos_resample=flexivit img_size=32",
          .rename = "head.*=head.*" },
        { .checkpoint = "own/heads_lists/model.safetensors", .settings = "num_heads=2" },
        { .checkpoint = "own/before_multihead/model.safetensors", .settings = "num_heads=2" },
        { .checkpoint = "own/conv_linear/model.safetensors", .settings = "num_heads=2" },
        { .checkpoint = "own/linear_positions/model.safetensors", .settings = "num_heads=2" },
        { .checkpoint = "own/integers/model.safetensors", .settings = "num_heads=2" },
        { .checkpoint = "own/no_projection/model.safetensors", .settings = "num_heads=2" },
    };
    size_t i;
    for (i = 0; i < sizeof jobs / sizeof *jobs; i++)
        fail_each(jobs[i].checkpoint, convert, &jobs[i], most);
}

int main(int argc, char **argv) {
    const job small = { .checkpoint = "coverage/option_qk_norm", .dtype = VIT_I8 };
    const long most = argc > 2 ? atol(argv[2]) : 0;
    report r = report_make();
    data = argc > 1 ? argv[1] : "tests/data";
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/vitXXXXXX" : "/tmp/vitXXXXXX");
    if (!mkdtemp(folder)) return 2;
    snprintf(output, sizeof output, "%s/out", folder);
    snprintf(model, sizeof model, "%s/model.vit", folder);
    snprintf(labels, sizeof labels, "%s/labels", folder);
    write_text(labels, "a\nb\nc\nd\ne\n");
    test_conversions(most);
    CHECK_MSG(convert(&small, &r) && rename(output, model) == 0, "%s", r.text);
    fail_each("unpacking", unpack, NULL, most);
    fail_each("C array", to_array, NULL, most);
    fail_each("npy", read_array, NULL, most);
    unlink(output);
    unlink(model);
    unlink(labels);
    CHECK(rmdir(folder) == 0);
    return test_summary();
}
