/* evaluate.c - how often is a model right? Accuracy over a folder of labelled images.
 *
 *     evaluate photos/                      photos/CLASS/IMAGE, with the bundled model
 *     evaluate -m deit.vit --map classes.txt --csv confusion.csv photos/
 *
 * Demonstrates many images at once: one model, shared; one session for each thread, which takes
 * whole images. That is the fastest way for small models, and since a session's results do not
 * depend on the others, and sums are taken in the order of the images, the report is the same
 * for any number of threads.
 */
#define _POSIX_C_SOURCE 200809L

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/paths.h"
#include "base/report.h"
#include "base/text.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "image/image_file.h"
#include "vit.h"

#define PROGRAM "evaluate"

enum { TOP = 5, MATRIX_LIMIT = 16, CONFUSIONS_SHOWN = 10 };

/* The command line. */
typedef struct choices {
    const char *model, *map, *csv, *predictions, *folder;
    int num_threads, limit;
    bool json, no_exif;
} choices;

static bool out_of_memory(void) {
    report_error(PROGRAM, NULL, "out of memory");
    return false;
}

/* ------------------------------------------------------------------------- */
/* Sorted folders                                                            */
/* ------------------------------------------------------------------------- */

typedef struct names {
    char **items;
    int count;
} names;

static void names_free(names *list) {
    for (int i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
    list->items = NULL;
    list->count = 0;
}

/* Keeps a copy of "a/b", or of b if a is NULL. */
static bool names_add(names *list, const char *a, const char *b) {
    size_t size = (a ? strlen(a) : 0) + strlen(b) + 2;
    char *text = malloc(size);
    if (text && (list->count & (list->count - 1)) == 0) {   /* full at powers of two */
        size_t capacity = list->count ? (size_t)list->count * 2 : 1;
        char **items = realloc(list->items, capacity * sizeof *items);
        if (items) {
            list->items = items;
        } else {
            free(text);
            text = NULL;
        }
    }
    if (!text) return out_of_memory();
    snprintf(text, size, "%s%s%s", a ? a : "", a ? "/" : "", b);
    list->items[list->count++] = text;
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Images by their suffix. Kinds that cannot be read here are taken as well, so that they are
 * reported instead of silently left out. */
static bool is_image_name(const char *name) {
    static const char *const suffixes[] = { "jpg", "jpeg", "png", "bmp", "gif", "tga", "pgm",
                                            "ppm", "pnm", "tif", "tiff", "webp" };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (strcasecmp(dot + 1, suffixes[i]) == 0) return true;
    }
    return false;
}

static bool is_folder(const char *folder, const char *name) {
    char path[4096];
    struct stat status;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length < (int)sizeof path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The subfolders, or the images, of a folder, sorted by their bytes; hidden ones left out. */
static bool list_folder(const char *folder, bool subfolders, names *list) {
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    bool good = directory != NULL;
    if (!directory) {
        report_error(PROGRAM, folder, "cannot be opened: %s", strerror(errno));
        return false;
    }
    while (good && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        if (!subfolders && !is_image_name(entry->d_name)) continue;
        if (is_folder(folder, entry->d_name) != subfolders) continue;
        good = names_add(list, NULL, entry->d_name);
    }
    closedir(directory);
    if (list->count) qsort(list->items, (size_t)list->count, sizeof *list->items, compare_names);
    return good;
}

/* ------------------------------------------------------------------------- */
/* Which class a folder is                                                   */
/* ------------------------------------------------------------------------- */

enum { NO_CLASS = -1, AMBIGUOUS = -2 };

/* Whether the piece of a label equals the name: letters of either case, '_' as good as ' '. */
static bool same_name(const char *piece, size_t length, const char *name) {
    if (strlen(name) != length) return false;
    for (size_t i = 0; i < length; i++) {
        int a = tolower((unsigned char)piece[i]), b = tolower((unsigned char)name[i]);
        if ((a == '_' ? ' ' : a) != (b == '_' ? ' ' : b)) return false;
    }
    return true;
}

/* ImageNet's labels are lists: "tabby, tabby cat". */
static bool is_alias(const char *label, const char *name) {
    while (*label) {
        size_t length = strcspn(label, ",");
        if (same_name(label, length, name)) return true;
        label += length;
        label += strspn(label, ", ");
    }
    return false;
}

typedef bool matcher(const vit_model *model, int index, const char *name);

static bool match_synset(const vit_model *model, int index, const char *name) {
    const char *synset = vit_synset(model, index);
    return synset && strcmp(synset, name) == 0;
}

static bool match_label(const vit_model *model, int index, const char *name) {
    const char *label = vit_label(model, index);
    return label && same_name(label, strlen(label), name);
}

static bool match_alias(const vit_model *model, int index, const char *name) {
    const char *label = vit_label(model, index);
    return label && is_alias(label, name);
}

static bool match_index(const vit_model *model, int index, const char *name) {
    (void)model;
    return strspn(name, "0123456789") == strlen(name) &&
           strtol(name, NULL, 10) == index;
}

/* The class that a name stands for: the first kind of match that finds one decides. */
static int find_class(const vit_model *model, const char *name) {
    static matcher *const matchers[] = { match_synset, match_label, match_alias, match_index };
    int found = NO_CLASS;
    for (int m = 0; m < 4 && found == NO_CLASS; m++) {
        for (int i = 0; i < model->config.num_classes; i++) {
            if (matchers[m](model, i, name)) found = found == NO_CLASS ? i : AMBIGUOUS;
        }
    }
    return found;
}

/* Lines of a --map file. */
typedef struct mapping {
    names folders;
    int *classes;
} mapping;

static void mapping_free(mapping *map) {
    names_free(&map->folders);
    free(map->classes);
    map->classes = NULL;
}

/* Cuts "folder<TAB>class" in two; without a tab, at the first white space. False: not two. */
static bool split_line(char *line, char **folder, char **class_name) {
    size_t length = strlen(line);
    char *gap;
    while (length && isspace((unsigned char)line[length - 1])) line[--length] = '\0';
    gap = strchr(line, '\t');
    if (!gap) gap = line + strcspn(line, " ");
    if (!*gap || gap == line) return false;
    *gap++ = '\0';
    gap += strspn(gap, " \t");
    *folder = line;
    *class_name = gap;
    return *gap != '\0';
}

static bool map_line(const vit_model *model, const char *path, int number, char *line,
                     mapping *map) {
    char *folder, *class_name;
    int *classes, index;
    if (line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0') return true;
    if (!split_line(line, &folder, &class_name)) {
        report_error(PROGRAM, path, "line %d: expected 'FOLDER CLASS'", number);
        return false;
    }
    index = find_class(model, class_name);
    if (index < 0) {
        report_error(PROGRAM, path, "line %d: the model has no%s class '%.80s'", number,
                     index == AMBIGUOUS ? " single" : "", class_name);
        return false;
    }
    classes = realloc(map->classes, ((size_t)map->folders.count + 1) * sizeof *classes);
    if (!classes) return out_of_memory();
    map->classes = classes;
    classes[map->folders.count] = index;
    return names_add(&map->folders, NULL, folder);
}

/* Lines above 4095 bytes are cut and will hardly match anything. */
static bool read_map(const vit_model *model, const char *path, mapping *map) {
    char line[4096];
    int number = 0;
    bool good = true;
    FILE *file = fopen(path, "r");
    if (!file) {
        report_error(PROGRAM, path, "cannot be opened: %s", strerror(errno));
        return false;
    }
    while (good && fgets(line, sizeof line, file)) {
        good = map_line(model, path, ++number, line, map);
    }
    if (good && ferror(file)) {
        report_error(PROGRAM, path, "cannot be read: %s", strerror(errno));
        good = false;
    }
    fclose(file);
    return good;
}

static int folder_class(const vit_model *model, const mapping *map, const char *folder) {
    for (int i = 0; i < map->folders.count; i++) {
        if (strcmp(map->folders.items[i], folder) == 0) return map->classes[i];
    }
    return find_class(model, folder);
}

/* ------------------------------------------------------------------------- */
/* The images                                                                */
/* ------------------------------------------------------------------------- */

/* One image and what became of it. */
typedef struct sample {
    const char *path;        /* of names                                                  */
    char *error;             /* malloc'ed: which file could not be read, and why; or NULL   */
    int true_class;
    int predicted;
    int rank;                /* of the true class among the best TOP; TOP if not there    */
    float prob;              /* of the predicted class                                    */
    double loss;             /* cross-entropy: -log(probability of the true class)        */
} sample;

typedef struct dataset {
    names paths;
    sample *samples;
    int count;
} dataset;

static void dataset_free(dataset *data) {
    for (int i = 0; data->samples && i < data->count; i++) free(data->samples[i].error);
    free(data->samples);
    names_free(&data->paths);
}

/* Adds the images of one folder; classes receives the folder's class for each. */
static bool add_folder(const char *root, const char *folder, int class_index, dataset *data,
                       int **classes) {
    names images = { NULL, 0 }, parent = { NULL, 0 };
    int *larger;
    bool good = names_add(&parent, root, folder) && list_folder(parent.items[0], false, &images);
    for (int i = 0; good && i < images.count; i++) {
        good = names_add(&data->paths, parent.items[0], images.items[i]);
    }
    if (good && data->paths.count) {
        larger = realloc(*classes, (size_t)data->paths.count * sizeof **classes);
        if (larger) {
            *classes = larger;
            for (int i = 0; i < images.count; i++) {
                larger[data->paths.count - images.count + i] = class_index;
            }
        } else {
            good = out_of_memory();
        }
    }
    names_free(&images);
    names_free(&parent);
    return good;
}

/* The first few folders that are no class are all named, so that one look at the map is enough. */
static bool check_folders(const vit_model *model, const mapping *map, const names *folders) {
    int wrong = 0;
    for (int i = 0; i < folders->count; i++) {
        int class_index = folder_class(model, map, folders->items[i]);
        if (class_index >= 0 || ++wrong > 10) continue;
        report_error(PROGRAM, folders->items[i], "%s; name it in a file for --map, with a line "
                     "'FOLDER<tab>class index or label'",
                     class_index == AMBIGUOUS ? "matches several of the model's classes"
                                           : "is none of the model's classes");
    }
    if (wrong > 10) report_error(PROGRAM, NULL, "and %d more folders like these", wrong - 10);
    return wrong == 0;
}

/* All images of all folders, sorted. */
static bool find_images(const vit_model *model, const mapping *map, const char *root,
                        dataset *data, int **classes) {
    names folders = { NULL, 0 };
    bool good = list_folder(root, true, &folders) && check_folders(model, map, &folders);
    for (int i = 0; good && i < folders.count; i++) {
        good = add_folder(root, folders.items[i], folder_class(model, map, folders.items[i]),
                          data, classes);
    }
    if (good && data->paths.count == 0) {
        report_error(PROGRAM, root, "has no images in subfolders; expected DIR/CLASS/IMAGE");
        good = false;
    }
    names_free(&folders);
    return good;
}

/* With a limit, that many of them, evenly spaced, so that every class has its share. */
static bool choose_images(dataset *data, const int *classes, int limit) {
    int64_t all = data->paths.count;
    data->count = limit > 0 && limit < all ? limit : (int)all;
    data->samples = calloc((size_t)data->count, sizeof *data->samples);
    if (!data->samples) return out_of_memory();
    for (int i = 0; i < data->count; i++) {
        int64_t at = (int64_t)i * all / data->count;
        data->samples[i].path = data->paths.items[at];
        data->samples[i].true_class = classes[at];
    }
    return true;
}

static bool load_dataset(const vit_model *model, const choices *chosen, dataset *data) {
    mapping map = { { NULL, 0 }, NULL };
    int *classes = NULL;
    bool good = (!chosen->map || read_map(model, chosen->map, &map)) &&
                find_images(model, &map, chosen->folder, data, &classes) &&
                choose_images(data, classes, chosen->limit);
    mapping_free(&map);
    free(classes);
    return good;
}

/* ------------------------------------------------------------------------- */
/* One worker                                                                */
/* ------------------------------------------------------------------------- */

/* What the workers share. */
typedef struct job {
    const vit_model *model;
    const choices *chosen;
    dataset *data;
    pthread_mutex_t lock;    /* of the rest                                               */
    int next;                /* image to be taken                                         */
    int done;
    cli_progress progress;
    vit_result failed;       /* the latest failure that is no image's fault               */
} job;

/* What a worker has for itself. */
typedef struct worker {
    vit_session session;
    void *workspace, *scratch;
    size_t scratch_size;
    float *input, *logits;
} worker;

static void worker_free(worker *w) {
    free(w->workspace);
    free(w->scratch);
    free(w->input);
    free(w->logits);
}

static vit_result worker_init(worker *w, const vit_model *model) {
    const vit_config *config = &model->config;
    size_t pixels = (size_t)config->img_height * (size_t)config->img_width;
    size_t size = vit_workspace_size(model, NULL);
    memset(w, 0, sizeof *w);
    w->workspace = malloc(size);
    w->input = malloc((size_t)config->in_chans * pixels * sizeof(float));
    w->logits = malloc((size_t)config->num_classes * sizeof(float));
    if (!w->workspace || !w->input || !w->logits) return VIT_ERROR_MEMORY;
    return vit_session_init(&w->session, model, NULL, w->workspace, size);
}

static vit_result preprocess(worker *w, const vit_model *model, const image_file *file) {
    vit_image image = { file->pixels, file->width, file->height, 0, VIT_PIXEL_RGB8 };
    size_t size = vit_preprocess_size(model, &image);
    if (size > w->scratch_size) {
        void *larger = realloc(w->scratch, size);
        if (!larger) return VIT_ERROR_MEMORY;
        w->scratch = larger;
        w->scratch_size = size;
    }
    return vit_preprocess(model, &image, w->input, w->scratch, w->scratch_size);
}

/* log(sum of exp(logit)) - logit of the true class, in double: no probability vanishes. */
static double cross_entropy(const float *logits, int count, int true_class) {
    double max = (double)logits[0], sum = 0;
    for (int i = 1; i < count; i++) {
        if ((double)logits[i] > max) max = (double)logits[i];
    }
    for (int i = 0; i < count; i++) sum += exp((double)logits[i] - max);
    return log(sum) + max - (double)logits[true_class];
}

/* Fills in the sample's results from the logits; they are lost thereby. */
static void score(float *logits, int count, sample *s) {
    vit_prediction top[TOP];
    int found = vit_top_k(logits, count, TOP, top);
    s->predicted = top[0].index;
    s->rank = TOP;
    for (int i = found - 1; i >= 0; i--) {
        if (top[i].index == s->true_class) s->rank = i;
    }
    s->loss = cross_entropy(logits, count, s->true_class);
    vit_softmax(logits, count);
    s->prob = logits[s->predicted];
}

/* Only failures that would hit every image are returned; an unreadable one is noted in s. */
static vit_result look_at(worker *w, const job *j, sample *s) {
    report r = report_make();
    image_file file;
    vit_outputs outputs = { 0 };
    vit_result result;
    if (!image_file_load(s->path, j->chosen->no_exif ? IMAGE_FILE_NO_EXIF : 0, &file, &r)) {
        s->error = malloc(strlen(r.text) + 1);
        if (!s->error) return VIT_ERROR_MEMORY;
        strcpy(s->error, r.text);
        return VIT_OK;
    }
    result = preprocess(w, j->model, &file);
    image_file_free(&file);
    outputs.logits = w->logits;
    if (result == VIT_OK) result = vit_forward(&w->session, w->input, 1, &outputs);
    if (result == VIT_OK) score(w->logits, j->model->config.num_classes, s);
    return result;
}

/* Reports `finished` images, and takes the next; NULL: there is none, or all is lost. */
static sample *take_image(job *j, int finished, vit_result result) {
    sample *next = NULL;
    pthread_mutex_lock(&j->lock);
    j->done += finished;
    if (result != VIT_OK) j->failed = result;
    if (j->failed == VIT_OK && j->next < j->data->count) next = &j->data->samples[j->next++];
    cli_progress_update(&j->progress, (uint64_t)j->done);
    pthread_mutex_unlock(&j->lock);
    return next;
}

/* vit_task: takes images until none is left. One worker would do; several are faster. */
static void work(void *arg, int index) {
    job *j = arg;
    worker w;
    vit_result result = worker_init(&w, j->model);
    sample *s = take_image(j, 0, result);
    (void)index;
    while (s) {
        result = look_at(&w, j, s);
        s = take_image(j, 1, result);
    }
    worker_free(&w);
}

/* All images on all threads. False: the reason is on stderr. */
static bool evaluate(const vit_model *model, const choices *chosen, dataset *data) {
    job j;
    vit_threads *threads = NULL;
    vit_executor executor;
    memset(&j, 0, sizeof j);
    j.model = model;
    j.chosen = chosen;
    j.data = data;
    j.failed = vit_threads_create(chosen->num_threads, &threads, &executor);
    if (j.failed == VIT_OK && pthread_mutex_init(&j.lock, NULL) != 0) j.failed = VIT_ERROR_MEMORY;
    if (j.failed == VIT_OK) {
        cli_progress_start(&j.progress, PROGRAM, (uint64_t)data->count);
        executor.parallel_for(executor.user, executor.num_threads, work, &j);
        cli_progress_clear(&j.progress);
        pthread_mutex_destroy(&j.lock);
    }
    vit_threads_destroy(threads);
    if (j.failed != VIT_OK) report_error(PROGRAM, NULL, "%s", vit_result_string(j.failed));
    return j.failed == VIT_OK;
}

/* ------------------------------------------------------------------------- */
/* The sums                                                                  */
/* ------------------------------------------------------------------------- */

/* Images of class `truth` that were taken for `predicted`. */
typedef struct confusion {
    int truth, predicted, count;
} confusion;

typedef struct totals {
    int images, unreadable;
    int right[TOP + 1];      /* [r]: true class at rank r; [TOP]: not among the best      */
    int top5;                /* how many ranks count: less where there are fewer classes  */
    double loss;             /* mean                                                      */
    double seconds;
    confusion *confusions;   /* sorted by truth, then predicted                           */
    int num_confusions;
} totals;

static int compare_confusions(const void *a, const void *b) {
    const confusion *x = a, *y = b;
    if (x->truth != y->truth) return x->truth < y->truth ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

/* A list, not a matrix: 21,843 classes would make one of 2 GB. */
static bool count_confusions(const dataset *data, totals *sum) {
    confusion *list = calloc((size_t)data->count, sizeof *list);
    int n = 0, kinds = 0;
    if (!list) return out_of_memory();
    for (int i = 0; i < data->count; i++) {
        const sample *s = &data->samples[i];
        if (!s->error) list[n++] = (confusion){ s->true_class, s->predicted, 1 };
    }
    qsort(list, (size_t)n, sizeof *list, compare_confusions);
    for (int i = 0; i < n; i++) {
        if (kinds && compare_confusions(&list[kinds - 1], &list[i]) == 0) list[kinds - 1].count++;
        else list[kinds++] = list[i];
    }
    sum->confusions = list;
    sum->num_confusions = kinds;
    return true;
}

/* In the order of the images: the same bits for any number of threads. */
static bool add_up(const dataset *data, totals *sum) {
    double loss = 0;
    for (int i = 0; i < data->count; i++) {
        const sample *s = &data->samples[i];
        if (s->error) {
            sum->unreadable++;
            report_error(PROGRAM, NULL, "%s", s->error);
            continue;
        }
        sum->images++;
        sum->right[s->rank]++;
        loss += s->loss;
    }
    for (int r = 0; r < TOP; r++) sum->top5 += sum->right[r];
    sum->loss = sum->images ? loss / sum->images : 0;
    return count_confusions(data, sum);
}

/* ------------------------------------------------------------------------- */
/* As text                                                                   */
/* ------------------------------------------------------------------------- */

/* A class by its label, or by its number: "class 7", in text of `size` bytes. */
static const char *class_name(const vit_model *model, int index, char *text, size_t size) {
    const char *label = vit_label(model, index);
    if (label) return label;
    snprintf(text, size, "class %d", index);
    return text;
}

static double percent(int part, int whole) { return whole ? 100.0 * part / whole : 0; }

static int confusion_count(const totals *sum, int truth, int predicted) {
    confusion key = { truth, predicted, 0 };
    const confusion *found = bsearch(&key, sum->confusions, (size_t)sum->num_confusions,
                                     sizeof key, compare_confusions);
    return found ? found->count : 0;
}

static void print_matrix(const vit_model *model, const totals *sum) {
    int classes = model->config.num_classes;
    char text[32];
    printf("\nconfusion (a row for each true class, a column for each answer)\n%-16s", "");
    for (int i = 0; i < classes; i++) printf(" %6d", i);
    printf("\n");
    for (int truth = 0; truth < classes; truth++) {
        printf("%3d %-12.12s", truth, class_name(model, truth, text, sizeof text));
        for (int i = 0; i < classes; i++) printf(" %6d", confusion_count(sum, truth, i));
        printf("\n");
    }
}

/* For more classes than a screen is wide: the mistakes made most often. Finds each by a pass
 * over the list, below the one before it in the order of count, then of place. */
static void print_worst(const vit_model *model, const totals *sum) {
    char a[32], b[32];
    int last = -1;
    printf("\nmost frequent confusions\n");
    for (int shown = 0; shown < CONFUSIONS_SHOWN; shown++) {
        int best = -1;
        for (int i = 0; i < sum->num_confusions; i++) {
            const confusion *c = &sum->confusions[i];
            if (c->truth == c->predicted) continue;
            if (last >= 0 && (c->count > sum->confusions[last].count ||
                              (c->count == sum->confusions[last].count && i <= last))) {
                continue;
            }
            if (best < 0 || c->count > sum->confusions[best].count) best = i;
        }
        if (best < 0) break;
        last = best;
        printf("  %5d  %s taken for %s\n", sum->confusions[best].count,
               class_name(model, sum->confusions[best].truth, a, sizeof a),
               class_name(model, sum->confusions[best].predicted, b, sizeof b));
    }
}

static void print_text(const vit_model *model, const totals *sum) {
    printf("images         %d", sum->images);
    if (sum->unreadable) printf("  (and %d unreadable)", sum->unreadable);
    printf("\ntop-1          %.2f %%  (%d)\n", percent(sum->right[0], sum->images), sum->right[0]);
    printf("top-5          %.2f %%  (%d)\n", percent(sum->top5, sum->images), sum->top5);
    printf("cross-entropy  %.6f\n", sum->loss);
    printf("images/s       %.1f\n", sum->images / sum->seconds);
    if (model->config.num_classes <= MATRIX_LIMIT) print_matrix(model, sum);
    else print_worst(model, sum);
}

/* ------------------------------------------------------------------------- */
/* As JSON and CSV                                                           */
/* ------------------------------------------------------------------------- */

/* Classes that occur: label, images, how many of them were named rightly. */
static void put_classes(json_writer *w, const vit_model *model, const totals *sum) {
    json_put_begin(w, "classes", '[');
    for (int i = 0, n = sum->num_confusions; i < n;) {
        int truth = sum->confusions[i].truth, images = 0;
        for (; i < n && sum->confusions[i].truth == truth; i++) images += sum->confusions[i].count;
        json_put_begin(w, NULL, '{');
        json_put_integer(w, "index", truth);
        json_put_text(w, "label", vit_label(model, truth));
        json_put_integer(w, "images", images);
        json_put_integer(w, "correct", confusion_count(sum, truth, truth));
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}

/* Lists of true class, predicted class, images. */
static void put_confusions(json_writer *w, const totals *sum) {
    json_put_begin(w, "confusion", '[');
    for (int i = 0; i < sum->num_confusions; i++) {
        const confusion *c = &sum->confusions[i];
        json_put_begin(w, NULL, '[');
        json_put_integer(w, NULL, c->truth);
        json_put_integer(w, NULL, c->predicted);
        json_put_integer(w, NULL, c->count);
        json_put_end(w, ']');
    }
    json_put_end(w, ']');
}

static void print_json(const vit_model *model, const choices *chosen, const totals *sum) {
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "model", chosen->model);
    json_put_text(&w, "folder", chosen->folder);
    json_put_integer(&w, "images", sum->images);
    json_put_integer(&w, "unreadable", sum->unreadable);
    json_put_integer(&w, "correct", sum->right[0]);
    json_put_integer(&w, "correct5", sum->top5);
    json_put_decimals(&w, "top1", percent(sum->right[0], sum->images) / 100, 6);
    json_put_decimals(&w, "top5", percent(sum->top5, sum->images) / 100, 6);
    json_put_number(&w, "cross_entropy", sum->loss, 9);
    json_put_decimals(&w, "seconds", sum->seconds, 3);
    json_put_decimals(&w, "images_per_second", sum->images / sum->seconds, 1);
    put_classes(&w, model, sum);
    put_confusions(&w, sum);
    json_put_end(&w, '}');
    putchar('\n');
}

/* A field of a CSV file (RFC 4180): quoted, quotes doubled. */
static void put_field(FILE *file, const char *text) {
    putc('"', file);
    for (; *text; text++) {
        if (*text == '"') putc('"', file);
        putc(*text, file);
    }
    putc('"', file);
}

/* The matrix of the classes that occur, as truth or as answer; occurs is [num_classes]. */
static void write_matrix(FILE *file, const vit_model *model, const totals *sum,
                         const bool *occurs) {
    int classes = model->config.num_classes;
    char text[32];
    put_field(file, "true \\ predicted");
    for (int i = 0; i < classes; i++) {
        if (!occurs[i]) continue;
        putc(',', file);
        put_field(file, class_name(model, i, text, sizeof text));
    }
    putc('\n', file);
    for (int truth = 0; truth < classes; truth++) {
        if (!occurs[truth]) continue;
        put_field(file, class_name(model, truth, text, sizeof text));
        for (int i = 0; i < classes; i++) {
            if (occurs[i]) fprintf(file, ",%d", confusion_count(sum, truth, i));
        }
        putc('\n', file);
    }
}

/* Opens, lets `what` be written, closes; failures are on stderr. */
static bool write_csv(const char *path, const vit_model *model, const choices *chosen,
                      const totals *sum) {
    report r = report_make();
    const char *const inputs[2] = { chosen->model, chosen->map };
    bool *occurs = calloc((size_t)model->config.num_classes, sizeof *occurs);
    cli_output output;
    bool good;
    if (!occurs) return out_of_memory();
    for (int i = 0; i < sum->num_confusions; i++) {
        occurs[sum->confusions[i].truth] = true;
        occurs[sum->confusions[i].predicted] = true;
    }
    good = cli_output_open(&output, path, inputs, 2, &r);
    if (good) {
        write_matrix(output.file, model, sum, occurs);
        good = cli_output_commit(&output, &r);
    }
    if (!good) report_print(&r, PROGRAM);
    free(occurs);
    return good;
}

/* Class indices; the last two fields are empty for an unreadable image. */
static bool write_predictions(const char *path, const choices *chosen, const dataset *data) {
    report r = report_make();
    const char *const inputs[2] = { chosen->model, chosen->map };
    cli_output output;
    bool good = cli_output_open(&output, path, inputs, 2, &r);
    if (good) {
        fprintf(output.file, "path,true,predicted,prob\n");
        for (int i = 0; i < data->count; i++) {
            const sample *s = &data->samples[i];
            put_field(output.file, s->path);
            if (s->error) fprintf(output.file, ",%d,,\n", s->true_class);
            else fprintf(output.file, ",%d,%d,%.9g\n", s->true_class, s->predicted,
                         (double)s->prob);
        }
        good = cli_output_commit(&output, &r);
    }
    if (!good) report_print(&r, PROGRAM);
    return good;
}

/* ------------------------------------------------------------------------- */
/* The command line                                                          */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Classifies every image DIR/CLASS/IMAGE and reports top-1 and top-5 accuracy, mean\n"
    "cross-entropy and the confusion matrix. CLASS is a label of the model, one of the names in\n"
    "a label such as 'tabby, tabby cat', a synset id (n02123045) or a class index. Upper and\n"
    "lower case are the same, and so are '_' and ' '.\n";

static const char notes[] =
    "A --map file has lines 'FOLDER<tab>CLASS', or with a space if FOLDER contains none; lines\n"
    "that start with '#' are comments. Images are files that end in .jpg, .jpeg, .png, .bmp,\n"
    ".gif, .tga, .pgm, .ppm or .pnm; .tif, .tiff and .webp are reported as unreadable. timm\n"
    "ignores the EXIF orientation; use --no-exif for the same results. The number of threads\n"
    "does not change any result.\n"
    "Exit status: 0, 1 if an image could not be read or something failed, 2 for a wrong command\n"
    "line.\n";

static bool choose(int argc, char **argv, choices *c, int *status) {
    const cli_option options[] = {
        { 'm', "model", "MODEL.vit", "the model (default: the bundled cifar10-vit.vit)", CLI_TEXT,
          &c->model, 0, 0 },
        { 0, "map", "FILE", "the classes of folders with other names", CLI_TEXT, &c->map, 0, 0 },
        { 0, "limit", "N", "use only N images, evenly spaced", CLI_INT, &c->limit, 1, 2147483647 },
        { 't', "threads", "N", "threads, one image each (default 0: one per core)", CLI_INT,
          &c->num_threads, 0, 256 },
        { 0, "json", NULL, "print one JSON object", CLI_FLAG, &c->json, 0, 0 },
        { 0, "csv", "FILE", "write the confusion matrix as CSV", CLI_TEXT, &c->csv, 0, 0 },
        { 0, "predictions", "FILE", "write path, true class, predicted class and probability\n"
          "of each image as CSV", CLI_TEXT, &c->predictions, 0, 0 },
        { 0, "no-exif", NULL, "ignore the EXIF orientation", CLI_FLAG, &c->no_exif, 0, 0 },
        CLI_END
    };
    const cli_program program = { PROGRAM, "[options] DIR", description, options, notes, 1, 1,
                                  "DIR" };
    text_list operands;
    if (!cli_parse(&program, argc, argv, &operands, status)) return false;
    c->folder = operands.items[0];
    text_list_free(&operands);
    return true;
}

static bool open_model(const char *path, vit_model *model) {
    report r = report_make();
    if (!path) {
        report_error(PROGRAM, NULL, "the bundled model was not found; give one with -m MODEL.vit");
        return false;
    }
    if (!cli_model_open(path, 0, model, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    if (model->config.num_classes > 0) return true;
    report_error(PROGRAM, path, "names no classes, so it cannot be right or wrong");
    return false;
}

/* Everything of the report that was asked for; false if some of it could not be written. */
static bool tell_all(const vit_model *model, const choices *chosen, const dataset *data,
                 const totals *sum) {
    bool good = true;
    if (chosen->csv && !write_csv(chosen->csv, model, chosen, sum)) good = false;
    if (chosen->predictions && !write_predictions(chosen->predictions, chosen, data)) good = false;
    if (chosen->json) print_json(model, chosen, sum);
    else print_text(model, sum);
    return good && sum->unreadable == 0;
}

/* Reasons of failures are on stderr. */
static bool run(const choices *chosen) {
    vit_model model;
    dataset data = { { NULL, 0 }, NULL, 0 };
    totals sum;
    bool good;
    double start;
    memset(&model, 0, sizeof model);
    memset(&sum, 0, sizeof sum);
    good = open_model(chosen->model, &model) && load_dataset(&model, chosen, &data);
    start = cli_now_ms();
    good = good && evaluate(&model, chosen, &data);
    sum.seconds = (cli_now_ms() - start) / 1e3 + 1e-9;
    good = good && add_up(&data, &sum) && tell_all(&model, chosen, &data, &sum);
    free(sum.confusions);
    dataset_free(&data);
    vit_model_close(&model);
    return good;
}

int main(int argc, char **argv) {
    choices chosen;
    char *bundled = NULL;
    int status;
    memset(&chosen, 0, sizeof chosen);
    if (!choose(argc, argv, &chosen, &status)) return status;
    if (!chosen.model) {
        bundled = paths_find_model("cifar10-vit.vit");
        chosen.model = bundled;
    }
    status = run(&chosen) ? CLI_OK : CLI_FAILED;
    free(bundled);
    return cli_finish(PROGRAM, status);
}
