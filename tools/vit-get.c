/* vit-get.c - downloads a published model by its name and converts it.
 *
 *     vit-get --list
 *     vit-get vit_small_patch16_224.augreg_in21k_ft_in1k
 *     vit-get clip-vit-base-patch32 --dtype int8 -o clip.vit
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/json.h"
#include "base/report.h"
#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "os/os.h"

#define PROGRAM cli_name()

/* === The models === */

typedef enum purpose { CLASSES, EMBEDDINGS, WORDS } purpose;

/* A published model. Its repository on Hugging Face is OWNER/NAME. tools/bench/peers/figures.py
 * makes README's table of models from these rows. Parameters, input and top-1 come from timm
 * (results-imagenet.csv of 2025-10-30) or open_clip. A row has a SHA-256 if several public lists
 * agree on its value. */
typedef struct published {
    const char *name, *owner;
    /* names of the files to download, separated by spaces; the weights are first */
    const char *files;
    purpose purpose;
    const char *license; /* name of the license; NULL if the model's page names none */
    const char *about;
    double parameters; /* number of parameters in millions; the download has 4 bytes for each */
    double top1;       /* top-1 accuracy on ImageNet-1k in percent; 0 if it is not published */
    int input;         /* height and width of the input in pixels */
    const char *sha256;
} published;

#define SAFETENSORS      "model.safetensors "
#define CONFIGS          "config.json preprocessor_config.json"
#define CLIP_TOKENIZER   "vocab.json merges.txt tokenizer_config.json " CONFIGS
#define JSON_TOKENIZER   "tokenizer.json tokenizer_config.json " CONFIGS
#define SPIECE_TOKENIZER "spiece.model tokenizer_config.json " CONFIGS
#define TIMM             "timm", SAFETENSORS
#define APACHE           "apache-2.0"
#define MIT              "mit"

static const published models[] = {
    { "deit_tiny_patch16_224.fb_in1k", TIMM, CLASSES, APACHE, "small and fast", 5.72, 72.19, 224,
      NULL },
    { "vit_tiny_patch16_224.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE, "small and fast", 5.72,
      75.452, 224, "fecf81b492bd13ee7a5297cb74d1d417aac8bf7e1b7d96aed89c4691984587ed" },
    { "vit_tiny_patch16_384.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE,
      "small, for larger pictures", 5.79, 78.438, 384, NULL },
    { "eva02_tiny_patch14_336.mim_in22k_ft_in1k", TIMM, CLASSES, MIT, "small, accurate", 5.76,
      80.648, 336, NULL },
    { "vit_wee_patch16_reg1_gap_256.sbb_in1k", TIMM, CLASSES, APACHE,
      "small, trained on ImageNet-1k alone", 13.42, 80.262, 256, NULL },
    { "deit_small_patch16_224.fb_in1k", TIMM, CLASSES, APACHE, "trained on ImageNet-1k alone",
      22.05, 79.856, 224, NULL },
    { "deit3_small_patch16_224.fb_in22k_ft_in1k", TIMM, CLASSES, APACHE, "accurate for its size",
      22.06, 83.082, 224, NULL },
    { "vit_small_patch32_224.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE, "the fastest", 22.88,
      76.01, 224, NULL },
    { "vit_small_patch16_224.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE, "the usual small model",
      22.05, 81.402, 224, "79c03c635cdfd798a364a9d8c4e5c0b7255b975ea2c9616046d4f77ab01435aa" },
    { "vit_small_patch16_384.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE, "larger pictures", 22.2,
      83.814, 384, NULL },
    { "flexivit_small.1200ep_in1k", TIMM, CLASSES, APACHE,
      "any patch size: --patch-size of vit-convert", 22.06, 82.576, 240, NULL },
    { "vit_little_patch16_reg1_gap_256.sbb_in12k_ft_in1k", TIMM, CLASSES, APACHE,
      "accurate for its size", 22.52, 83.8, 256, NULL },
    { "eva02_small_patch14_336.mim_in22k_ft_in1k", TIMM, CLASSES, MIT,
      "accurate for its size, slow", 22.13, 85.77, 336, NULL },
    { "vit_medium_patch16_reg4_gap_256.sbb_in12k_ft_in1k", TIMM, CLASSES, APACHE,
      "between small and base", 38.88, 84.956, 256, NULL },
    { "vit_mediumd_patch16_reg4_gap_384.sbb2_e200_in12k_ft_in1k", TIMM, CLASSES, APACHE,
      "accurate for its size", 64.27, 87.438, 384, NULL },
    { "vit_base_patch32_224.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE, "fast for its size",
      88.22, 80.732, 224, NULL },
    { "vit_base_patch32_clip_224.laion2b_ft_in12k_in1k", TIMM, CLASSES, APACHE, "fast for its size",
      88.22, 83.304, 224, NULL },
    { "deit_base_patch16_224.fb_in1k", TIMM, CLASSES, APACHE, "trained on ImageNet-1k alone", 86.57,
      81.98, 224, NULL },
    { "deit3_base_patch16_224.fb_in22k_ft_in1k", TIMM, CLASSES, APACHE, "the usual size", 86.59,
      85.728, 224, NULL },
    { "vit_base_patch16_224.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE, "the usual base model",
      86.57, 84.534, 224, NULL },
    { "vit_base_patch16_224.augreg2_in21k_ft_in1k", TIMM, CLASSES, APACHE, "the usual size", 86.57,
      85.108, 224, "32aa17d6e17b43500f531d5f6dc9bc93e56ed8841b8a75682e1bb295d722405b" },
    { "vit_base_patch16_clip_224.laion2b_ft_in12k_in1k", TIMM, CLASSES, APACHE,
      "accurate at this size", 86.57, 86.204, 224, NULL },
    { "beitv2_base_patch16_224.in1k_ft_in22k_in1k", TIMM, CLASSES, APACHE, "accurate at this size",
      86.53, 86.494, 224, NULL },
    { "vit_base_patch16_384.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE, "larger pictures", 86.86,
      86.01, 384, NULL },
    { "vit_base_patch16_clip_384.laion2b_ft_in12k_in1k", TIMM, CLASSES, APACHE, "larger pictures",
      86.86, 87.21, 384, NULL },
    { "vit_base_patch8_224.augreg2_in21k_ft_in1k", TIMM, CLASSES, APACHE, "fine detail, slow",
      86.58, 86.252, 224, NULL },
    { "eva02_base_patch14_448.mim_in22k_ft_in22k_in1k", TIMM, CLASSES, MIT, "accurate, slow", 87.12,
      88.678, 448, NULL },
    { "vit_large_patch16_224.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE, "large", 304.33, 85.856,
      224, NULL },
    { "vit_large_patch16_384.augreg_in21k_ft_in1k", TIMM, CLASSES, APACHE, "large, larger pictures",
      304.72, 87.096, 384, NULL },
    { "deit3_large_patch16_384.fb_in22k_ft_in1k", TIMM, CLASSES, APACHE, "large, larger pictures",
      304.76, 87.736, 384, NULL },
    { "vit_large_patch14_clip_336.openai_ft_in12k_in1k", TIMM, CLASSES, APACHE,
      "large, larger pictures", 304.53, 88.26, 336, NULL },
    { "eva02_large_patch14_448.mim_m38m_ft_in22k_in1k", TIMM, CLASSES, MIT,
      "the most accurate of timm's", 305.08, 90.056, 448, NULL },
    { "vit_small_patch16_224.dino", TIMM, EMBEDDINGS, APACHE, "attention maps", 21.67, 0, 224,
      NULL },
    { "vit_small_patch14_dinov2.lvd142m", TIMM, EMBEDDINGS, APACHE,
      "similar photos, parts of photos", 22.06, 0, 518,
      "04d27f3400d059fc0cfd7d17dd1909a75bf3ea8fb3eeb48b97cb99e57ee20081" },
    { "vit_small_patch14_reg4_dinov2.lvd142m", TIMM, EMBEDDINGS, APACHE,
      "similar photos, clean attention maps", 22.06, 0, 518, NULL },
    { "vit_small_patch16_dinov3.lvd1689m", TIMM, EMBEDDINGS, "dinov3-license",
      "similar photos, parts of photos", 21.59, 0, 256,
      "2a1ec16ae28ffa07bc0ead0241ee7df9fc26451fe6f9f839b7b3afa0a906b040" },
    { "vit_base_patch14_dinov2.lvd142m", TIMM, EMBEDDINGS, APACHE,
      "similar photos, parts of photos", 86.58, 0, 518, NULL },
    { "vit_base_patch14_reg4_dinov2.lvd142m", TIMM, EMBEDDINGS, APACHE,
      "similar photos, clean attention maps", 86.58, 0, 518, NULL },
    { "vit_base_patch16_dinov3.lvd1689m", TIMM, EMBEDDINGS, "dinov3-license",
      "similar photos, parts of photos", 85.64, 0, 256,
      "1f9ed8a2378d65e24bb710ba522ac9fa7be4e036d7aefb4384ce022833926332" },
    { "vit_large_patch14_dinov2.lvd142m", TIMM, EMBEDDINGS, APACHE,
      "similar photos, parts of photos", 304.37, 0, 518, NULL },
    { "clip-vit-base-patch32", "openai", "pytorch_model.bin " CLIP_TOKENIZER, WORDS, NULL,
      "the usual model for words", 151.28, 0, 224,
      "a63082132ba4f97a80bea76823f544493bffa8082296d62d71581a4feff1576f" },
    { "CLIP-ViT-B-32-laion2B-s34B-b79K", "laion", SAFETENSORS CLIP_TOKENIZER, WORDS, MIT,
      "trained on open data", 151.28, 0, 224, NULL },
    { "siglip-base-patch16-224", "google", SAFETENSORS SPIECE_TOKENIZER, WORDS, APACHE,
      "accurate for its size", 203.16, 0, 224, NULL },
    { "siglip2-base-patch16-224", "google", SAFETENSORS JSON_TOKENIZER, WORDS, APACHE,
      "many languages", 375.19, 0, 224, NULL },
    { "clip-vit-large-patch14", "openai", SAFETENSORS CLIP_TOKENIZER, WORDS, NULL, "accurate, slow",
      427.62, 0, 224, NULL },
};

enum { COUNT = sizeof models / sizeof *models, LONG_NAME = 57 };

static const char *const purposes[] = { "classes", "embeddings", "words" };

static double megabytes(const published *m) { return 4 * m->parameters; }

static const published *find(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(models[i].name, name)) return &models[i];
    return NULL;
}

/* Prints up to 5 names of models that contain the word or, if there are none, the most similar
 * name. */
static int refuse(const char *word) {
    char near[512] = "";
    const char *nearest = models[0].name;
    for (int i = 0, found = 0; i < COUNT; i++) {
        const char *name = models[i].name;
        if (strstr(name, word) && ++found <= 5)
            text_append(near, sizeof near, "%s%s", found > 1 ? ", " : "", name);
        if (text_distance(word, name) < text_distance(word, nearest)) nearest = name;
    }
    return cli_wrong(PROGRAM, "unknown model '%.80s', did you mean %s?", word,
                     *near ? near : nearest);
}

static void print_list(void) {
    printf("%-*s %6s %7s %5s %7s  %-10s  %s\n", LONG_NAME, "name", "top-1", "params", "input", "MB",
           "for", "license; good for");
    for (int i = 0; i < COUNT; i++) {
        const published *m = &models[i];
        char top1[16] = "";
        if (m->top1 > 0) snprintf(top1, sizeof top1, "%.1f %%", m->top1);
        printf("%-*s %6s %5.1f M %5d %7.0f  %-10s  %s; %s\n", LONG_NAME, m->name, top1,
               m->parameters, m->input, megabytes(m), purposes[m->purpose],
               m->license ? m->license : "unstated", m->about);
    }
}

static void print_list_json(void) {
    json_writer json = json_write_to(stdout);
    json_put_begin(&json, NULL, '{');
    json_put_begin(&json, "models", '[');
    for (int i = 0; i < COUNT; i++) {
        const published *m = &models[i];
        char repository[128];
        snprintf(repository, sizeof repository, "%s/%s", m->owner, m->name);
        json_put_begin(&json, NULL, '{');
        json_put_text(&json, "name", m->name);
        json_put_text(&json, "repository", repository);
        json_put_text(&json, "license", m->license);
        json_put_decimals(&json, "parameters_millions", m->parameters, 2);
        if (m->top1 > 0) json_put_decimals(&json, "top1_percent", m->top1, 3);
        else json_put_text(&json, "top1_percent", NULL);
        json_put_integer(&json, "input", m->input);
        json_put_decimals(&json, "download_megabytes", megabytes(m), 1);
        json_put_text(&json, "for", purposes[m->purpose]);
        json_put_text(&json, "about", m->about);
        json_put_text(&json, "sha256", m->sha256);
        json_put_end(&json, '}');
    }
    json_put_end(&json, ']');
    json_put_end(&json, '}');
    putchar('\n');
}

/* === Downloading === */

typedef struct request {
    const char *output;
    bool keep, list, json, quiet;
    vit_dtype dtype;
    const char *called; /* argv[0] */
    const published *model;
} request;

/* The URL and the paths of a file to download. If a model has several files, they are downloaded
 * into one folder, which vit-convert can read. */
enum { PATH_SIZE = 512, URL_SIZE = 4096 };
typedef struct place {
    char url[URL_SIZE];
    char whole[PATH_SIZE], part[PATH_SIZE + 8], headers[PATH_SIZE + 8];
} place;

static void set_place(place *p, const published *m, const char *file) {
    const char *mirror = getenv("VIT_MIRROR");
    int length;
    if (!mirror || !*mirror) mirror = "https://huggingface.co";
    length = (int)strlen(mirror);
    while (length > 0 && mirror[length - 1] == '/') length--;
    snprintf(p->url, sizeof p->url, "%.*s/%s/%s/resolve/main/%s", length, mirror, m->owner, m->name,
             file);
    snprintf(p->whole, sizeof p->whole, "%s/%s", m->name, file);
    snprintf(p->part, sizeof p->part, "%s.part", p->whole);
    snprintf(p->headers, sizeof p->headers, "%s.headers", p->whole);
}

/* The answer of a server about a file. Hugging Face sends the size and the SHA-256 of files in Git
 * LFS. */
typedef struct answer {
    int status; /* status code of HTTP; 0 if unknown */
    uint64_t size;
    char sha256[65]; /* "" if the server has not sent it */
} answer;

/* Returns the value of a header line "NAME: VALUE", without a quote at its beginning. Returns NULL
 * if the line has another name. */
static const char *header(const char *line, const char *name) {
    for (; *name; line++, name++)
        if ((*line >= 'A' && *line <= 'Z' ? *line + ('a' - 'A') : *line) != *name) return NULL;
    while (*line == ':' || *line == ' ' || *line == '"') line++;
    return line;
}

/* Reads the headers of the answer, and of the redirections before it, from the file `path`, and
 * removes the file. */
static void read_answer(const char *path, answer *a) {
    char line[4096];
    const char *value;
    FILE *file = os_fopen(path, "rb");
    memset(a, 0, sizeof *a);
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, "HTTP/", 5) && strchr(line, ' ')) a->status = atoi(strchr(line, ' '));
        if ((value = header(line, "x-linked-size:")) != NULL) a->size = strtoull(value, NULL, 10);
        if ((value = header(line, "x-linked-etag:")) != NULL &&
            strspn(value, "0123456789abcdef") == 64)
            memcpy(a->sha256, value, 64);
    }
    if (file) fclose(file);
    os_remove(path);
}

static uint64_t size_of(const char *path) {
    const int file = os_open(path);
    uint64_t size = 0;
    if (file < 0) return 0;
    if (!os_file_size(file, &size)) size = 0;
    os_close(file);
    return size;
}

enum { CURL_HTTP_ERROR = 22, CURL_RANGE = 33, CURL_RESUME = 36 };

/* Runs curl. Returns false if curl did not run. */
static bool call_curl(const place *p, bool quiet, int *status, answer *a, report *r) {
    const bool bar = !quiet && os_is_terminal(stderr), https = !strncmp(p->url, "https:", 6);
    const char *const words[] = { "curl",
                                  "--fail",
                                  "--location",
                                  "--show-error",
                                  bar ? "--progress-bar" : "--silent",
                                  "--connect-timeout",
                                  "30",
                                  "--speed-limit",
                                  "1",
                                  "--speed-time",
                                  "60", /* curl fails after this number of seconds without a byte */
                                  "--proto-redir",
                                  https ? "=https" : "=http,https",
                                  "--continue-at",
                                  "-",
                                  "--dump-header",
                                  p->headers,
                                  "--output",
                                  p->part,
                                  "--url",
                                  p->url,
                                  NULL };
    if (os_call(words, status)) {
        read_answer(p->headers, a);
        return true;
    }
    if (errno != ENOENT) return report_fail(r, "curl cannot be run: %s", os_error(errno));
    return report_fail(r,
                       "curl is missing: install it (Debian: apt install curl), or download this "
                       "file to %s",
                       p->whole);
}

static bool download(const place *p, bool quiet, answer *a, report *r) {
    int status;
    for (int i = 0;; i++) {
        if (!call_curl(p, quiet, &status, a, r)) return false;
        if (status == 0) return true;
        /* The file is accepted if no bytes are missing. If bytes are missing and the server cannot
         * send only the missing part, the download begins anew. */
        if (a->size > 0 && size_of(p->part) == a->size) return true;
        if (i > 0 || size_of(p->part) == 0 ||
            !((status == CURL_HTTP_ERROR && a->status == 416) || status == CURL_RANGE ||
              status == CURL_RESUME))
            break;
        os_remove(p->part);
    }
    if (a->status >= 400)
        return report_fail(r, "the server's answer is %d%s", a->status,
                           a->status == 401 || a->status == 403
                               ? ": the owner requires a login, so download it in a browser"
                               : "");
    return report_fail(r, "curl ended with status %d; the same command resumes the download",
                       status);
}

/* === Checking === */

typedef struct hashing {
    cli_progress progress;
    uint64_t done;
} hashing;

static void hashed(void *user, size_t bytes) {
    hashing *h = user;
    h->done += bytes;
    cli_progress_update(&h->progress, h->done);
}

static bool hash(const char *path, bool quiet, char sum[65], report *r) {
    hashing h;
    bool good;
    h.done = 0;
    cli_progress_start(&h.progress, "SHA-256", size_of(path));
    h.progress.active = h.progress.active && !quiet;
    good = sha256_file(path, sum, hashed, &h);
    cli_progress_clear(&h.progress);
    return good || report_fail(r, "cannot be read: %s", os_error(errno)) || report_file(r, path);
}

/* Renames a file that has a wrong size or checksum. The file is not used, and the next run
 * downloads it anew. */
static bool put_aside(const char *path, const char *found, const char *expected, report *r) {
    char aside[PATH_SIZE + 16];
    snprintf(aside, sizeof aside, "%s.wrong", path);
    if (!os_replace(path, aside)) snprintf(aside, sizeof aside, "%s", path);
    (void)report_fail(r, "expected %s, found %s; the file was not used, and is kept as %s",
                      expected, found, aside);
    return report_file(r, path);
}

/* The SHA-256 of the downloaded weights, and the source of the SHA-256 with which it was
 * compared. */
typedef struct sums {
    char found[65];
    const char *told_by; /* "published" or "server"; NULL if there is no SHA-256 to compare with */
} sums;

static bool check(const char *path, const char *published_sum, const answer *a, bool quiet, sums *s,
                  report *r) {
    const uint64_t size = size_of(path);
    char expected[96], found[96];
    const char *sum = published_sum ? published_sum : a->sha256[0] ? a->sha256 : NULL;
    if (a->size > 0 && size != a->size) {
        snprintf(expected, sizeof expected, "%llu bytes", (unsigned long long)a->size);
        snprintf(found, sizeof found, "%llu", (unsigned long long)size);
        return put_aside(path, found, expected, r);
    }
    if (!hash(path, quiet, s->found, r)) return false;
    s->told_by = published_sum ? "published" : sum ? "server" : NULL;
    if (!sum || !strcmp(sum, s->found)) return true;
    snprintf(expected, sizeof expected, "SHA-256 %s", sum);
    return put_aside(path, s->found, expected, r);
}

/* Downloads a file of the model, unless an earlier run has downloaded it. */
static bool get_file(const request *q, const char *file, const char *sum, sums *s, report *r) {
    place p;
    answer a;
    memset(&a, 0, sizeof a);
    set_place(&p, q->model, file);
    if (os_kind_of(p.whole) == OS_FILE) return check(p.whole, sum, &a, q->quiet, s, r);
    if (!q->quiet && !q->json) {
        const uint64_t size = size_of(p.part);
        char n[32];
        if (size > 0)
            text_print(stdout, "%s: resumed after %s bytes\n", p.url, text_grouped(size, n));
        else text_print(stdout, "%s\n", p.url);
        fflush(stdout);
    }
    if (!download(&p, q->quiet, &a, r)) return report_file(r, p.url);
    if (!check(p.part, sum, &a, q->quiet, s, r)) return false;
    if (os_replace(p.part, p.whole)) return true;
    (void)report_fail(r, "cannot be renamed to %s: %s", p.whole, os_error(errno));
    return report_file(r, p.part);
}

/* Takes the next word of a list with spaces between the words. Returns false after the last
 * word. */
static bool next_word(const char **words, char word[64]) {
    size_t length;
    *words += strspn(*words, " ");
    length = strcspn(*words, " ");
    if (length == 0 || length >= 64) return false;
    memcpy(word, *words, length);
    word[length] = '\0';
    *words += length;
    return true;
}

static bool get_files(const request *q, sums *s, report *r) {
    const char *files = q->model->files;
    char file[64];
    sums other;
    if (!cli_output_folder(q->model->name, r)) return false;
    for (bool weights = true; next_word(&files, file); weights = false)
        if (!get_file(q, file, weights ? q->model->sha256 : NULL, weights ? s : &other, r))
            return false;
    return true;
}

static void remove_files(const published *m) {
    const char *files = m->files;
    char file[64];
    place p;
    while (next_word(&files, file)) {
        set_place(&p, m, file);
        os_remove(p.whole);
    }
    os_remove_empty(m->name);
}

/* === Converting === */

/* Returns the malloc'ed path of a program beside this program. */
static char *beside(const char *name) {
    char *own = os_executable();
    const size_t folder = own ? paths_folder_length(own) : 0, length = own ? strlen(own) : 0;
    const bool exe = length > 4 && !strcmp(own + length - 4, ".exe");
    char *path = own ? malloc(folder + strlen(name) + 5) : NULL;
    if (path) sprintf(path, "%.*s%s%s", (int)folder, own, name, exe ? ".exe" : "");
    free(own);
    return path;
}

static bool convert(const request *q, report *r) {
    const published *m = q->model;
    char *program = beside("vit-convert"), from[PATH_SIZE];
    const char *words[16];
    int count = 0, status = 0;
    bool good;
    if (!program) return report_no_memory(r);
    snprintf(from, sizeof from, "%s%s", m->name, m->purpose == WORDS ? "" : "/model.safetensors");
    words[count++] = program;
    words[count++] = from;
    words[count++] = "-o";
    words[count++] = q->output;
    words[count++] = "--dtype";
    words[count++] = tensor_dtype_name(q->dtype);
    /* Python files in the user's folder are not read, because they belong to other models. */
    words[count++] = "--code";
    words[count++] = "none";
    if (q->quiet || q->json) words[count++] = "--quiet";
    if (m->purpose == CLASSES) {
        words[count++] = "--labels";
        words[count++] = "imagenet";
    }
    if (m->purpose != WORDS) {
        words[count++] = "--arch";
        words[count++] = m->name;
    }
    words[count] = NULL;
    good = os_call(words, &status);
    if (!good) (void)report_fail(r, "%s cannot be run: %s", program, os_error(errno));
    else if (status != 0)
        good = report_fail(r, "vit-convert ended with status %d; the download is kept in %s/",
                           status, m->name);
    free(program);
    return good;
}

/* === The result === */

static void print_sum(const request *q, const sums *s) {
    text_print(stdout, "SHA-256 %s: %s\n", s->found,
               !s->told_by        ? "no sum is published, so this SHA-256 was not compared"
               : q->model->sha256 ? "as published"
                                  : "as the server reports");
}

/* Prints commands to try. Each command begins with the folder of this program, in the form in which
 * the user has typed it. */
static void print_use(const request *q) {
    const purpose p = q->model->purpose;
    const int folder = (int)paths_folder_length(q->called);
    const char *at = q->called, *model = q->output;
    text_print(stdout, "\nTo try it:\n");
    if (p == CLASSES) text_print(stdout, "  %.*svit-classify -m %s photo.jpg\n", folder, at, model);
    if (p == WORDS)
        text_print(stdout, "  %.*svit-classify -m %s --classes \"a cat, a dog\" photo.jpg\n",
                   folder, at, model);
    text_print(stdout, "  %.*svit-embed -m %s photos/ -o photos.npy\n", folder, at, model);
    text_print(stdout, "  %.*svit-search photos.npy %s\n", folder, at,
               p == WORDS ? "--words \"a dog on a beach\"" : "photo.jpg");
}

static void print_json(const request *q, const sums *s) {
    json_writer json = json_write_to(stdout);
    json_put_begin(&json, NULL, '{');
    json_put_text(&json, "name", q->model->name);
    json_put_text(&json, "output", q->output);
    json_put_text(&json, "sha256", s->found);
    json_put_text(&json, "sum_by", s->told_by);
    json_put_end(&json, '}');
    putchar('\n');
}

static bool get(const request *q, report *r) {
    sums s;
    if (!get_files(q, &s, r)) return false;
    if (!q->quiet && !q->json) print_sum(q, &s);
    fflush(stdout);
    if (!convert(q, r)) return false;
    if (!q->keep) remove_files(q->model);
    if (q->json) print_json(q, &s);
    else if (!q->quiet) print_use(q);
    return true;
}

static int run(request *q, const text_list *operands) {
    char output[PATH_SIZE];
    report r = report_make();
    if (q->list && operands->count > 0)
        return cli_wrong(PROGRAM, "--list takes no NAME, found '%.80s'", operands->items[0]);
    if (q->list && q->json) return print_list_json(), CLI_OK;
    if (q->list) return print_list(), CLI_OK;
    if (operands->count < 1) return cli_wrong(PROGRAM, "missing NAME");
    q->model = find(operands->items[0]);
    if (!q->model) return refuse(operands->items[0]);
    if (q->output && !strcmp(q->output, "-"))
        return cli_wrong(PROGRAM, "-o: expected a file, found '-'");
    snprintf(output, sizeof output, "%s.vit", q->model->name);
    if (!q->output) q->output = output;
    if (get(q, &r)) return CLI_OK;
    report_print(&r, PROGRAM);
    os_remove_empty(q->model->name);
    return CLI_FAILED;
}

static const char notes[] =
    "The files are downloaded to the folder NAME/ and removed after the conversion. The same\n"
    "command resumes a download that was interrupted. The system's curl downloads, with its\n"
    "settings (~/.curlrc, https_proxy). VIT_MIRROR=URL replaces https://huggingface.co.\n"
    "The SHA-256 of the weights must equal the published sum. Most models have no published sum;\n"
    "the SHA-256 must then equal the sum that the server sends. The server's sum detects damage but\n"
    "not forgery. A file with another sum is kept as FILE.wrong and never used. If the server sends\n"
    "no sum either, @ prints the sum of the file.\n"
    "The licenses are those on the models' pages. Read the license of a model before you use the\n"
    "model.\n"
    "\n"
    "Exit status: 0 on success, 1 if something failed, 2 for a wrong command.\n";

int main(int argc, char **argv) {
    static request q;
    q.called = argc > 0 ? argv[0] : "";
    cli_start(&argc, &argv, "vit-get");
    const cli_option options[] = {
        { 'o', "output", "FILE", "the file to write (default: NAME.vit)", CLI_OUTPUT, &q.output, 0,
          0 },
        { 0, "dtype", "TYPE", "type of the matrices: f32 (default), f16, bf16, int8 or int4",
          CLI_DTYPE, &q.dtype, 0, 0 },
        { 0, "keep-download", NULL, "keep the downloaded files in the folder NAME/", CLI_FLAG,
          &q.keep, 0, 0 },
        { 0, "list", NULL, "print the models and end", CLI_FLAG, &q.list, 0, 0 },
        CLI_OPTION_JSON(&q.json, "print the result, or the list, as JSON"),
        CLI_OPTION_QUIET(&q.quiet),
        CLI_END,
    };
    const cli_program program = {
        PROGRAM,
        "[options] NAME",
        "Downloads a published model by its name and converts it to a .vit file.\n",
        options,
        notes,
        0,
        1,
        "NAME",
        NULL
    };
    text_list operands;
    int status;
    q.dtype = VIT_F32;
    if (cli_parse(&program, argc, argv, &operands, &status)) {
        status = cli_finish(PROGRAM, run(&q, &operands));
        text_list_free(&operands);
    }
    return status;
}
