/* vit-evaluate.c - measures the accuracy of a model on a folder of labelled images.
 *
 *     vit-evaluate photos/                  photos/CLASS/IMAGE, with the bundled model
 *     vit-evaluate -m deit.vit --map classes.txt --confusion confusion.csv photos/
 *     vit-evaluate -m dino.vit --knn train/ test/    by the nearest embeddings of train/
 *     vit-evaluate -m tagger.vit --tags tags.csv photos/    several right classes
 *
 * infer_run gives the results in the order of the images. Sums follow this order, and the report is
 * therefore the same for any number of threads.
 */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/report.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "image/photo_source.h"
#include "infer/classes.h"
#include "infer/infer.h"
#include "infer/tags.h"
#include "infer/words.h"
#include "os/os.h"
#include "vit.h"

#define PROGRAM cli_name()

enum { TOP = 5, MATRIX_LIMIT = 16, CONFUSIONS_SHOWN = 10 };

/* The command line. */
typedef struct choices {
    const char *model, *map, *confusion, *predictions, *folder, *knn, *probe, *tags;
    cli_size img_size;
    int num_threads, batch, limit, neighbors;
    vit_isa isa;
    double above; /* threshold of --above; negative if not given */
    bool sigmoid, json, quiet, zero_shot;
    text_list templates;
    photo_options photos;
    photo_decoder *decoder; /* decoder that was opened with the options in `photos` */
} choices;

static bool out_of_memory(void) {
    report_error(PROGRAM, NULL, "out of memory");
    return false;
}

/* ------------------------------------------------------------------------- */
/* The images                                                                */
/* ------------------------------------------------------------------------- */

/* One image and its result. */
typedef struct sample {
    const char *path;
    bool unreadable;
    int true_class;
    int predicted;
    int rank;    /* rank of the true class, from 0; TOP if the class is not among the best TOP */
    float prob;  /* probability of the predicted class */
    double loss; /* cross-entropy of the softmax: -log(probability of the true class) */
} sample;

typedef struct dataset {
    labelled_photos photos;
    sample *samples;
    int count;
} dataset;

static void dataset_free(dataset *data) {
    free(data->samples);
    labelled_free(&data->photos);
}

/* Makes a sample for each image. classes has the class of each folder. */
static bool make_samples(dataset *data, const int *classes) {
    data->count = data->photos.photos.count;
    data->samples = calloc((size_t)data->count, sizeof *data->samples);
    if (!data->samples) return out_of_memory();
    for (int i = 0; i < data->count; i++) {
        data->samples[i].path = data->photos.photos.paths[i];
        data->samples[i].true_class = classes[data->photos.folder[i]];
    }
    return true;
}

static bool load_dataset(const vit_model *model, const choices *chosen, dataset *data) {
    class_map map = { { NULL, 0, 0, 0 }, NULL };
    report r = report_make();
    int *classes = NULL;
    bool good = (!chosen->map || class_map_read(&map, model, chosen->map, &r)) &&
                labelled_find(&data->photos, chosen->folder, chosen->limit, &r);
    if (good) {
        const photo_list *folders = &data->photos.folders;
        classes = malloc((size_t)folders->count * sizeof *classes);
        good = classes ? class_map_all(&map, model, folders, PROGRAM, classes) : out_of_memory();
    }
    if (r.failed) report_print(&r, PROGRAM);
    good = good && make_samples(data, classes);
    class_map_free(&map);
    free(classes);
    return good;
}

/* ------------------------------------------------------------------------- */
/* One image                                                                 */
/* ------------------------------------------------------------------------- */

/* Computes log(sum of exp(logit)) - logit of the true class. Computes in double, because a float
 * probability may become 0. */
static double cross_entropy(const float *logits, int count, int true_class) {
    double max = (double)logits[0], sum = 0;
    for (int i = 1; i < count; i++) {
        if ((double)logits[i] > max) max = (double)logits[i];
    }
    for (int i = 0; i < count; i++) sum += exp((double)logits[i] - max);
    return log(sum) + max - (double)logits[true_class];
}

/* Fills in the sample's results from the logits, and overwrites the logits. */
static void score(const vit_model *model, float *logits, sample *s) {
    const int count = model->config.num_classes;
    vit_prediction top[TOP];
    int found = vit_top_k(logits, count, TOP, top);
    s->predicted = top[0].index;
    s->rank = TOP;
    for (int i = found - 1; i >= 0; i--) {
        if (top[i].index == s->true_class) s->rank = i;
    }
    s->loss = cross_entropy(logits, count, s->true_class);
    vit_scores(model, logits);
    s->prob = logits[s->predicted];
}

typedef struct evaluation {
    const vit_model *model;
    dataset *data;
} evaluation;

/* An infer_take that fills in the next sample. */
static bool take_result(void *user, infer_result *result, report *r) {
    evaluation *e = user;
    sample *s = &e->data->samples[result->index];
    (void)r;
    s->unreadable = result->error != NULL;
    if (!s->unreadable) score(e->model, result->logits, s);
    return true;
}

static infer_settings make_settings(const vit_model *model, const choices *chosen) {
    infer_settings settings;
    memset(&settings, 0, sizeof settings);
    settings.model = model;
    settings.program = PROGRAM;
    settings.num_threads = chosen->num_threads;
    settings.batch = chosen->batch;
    settings.isa = chosen->isa;
    settings.decoder = chosen->decoder;
    settings.progress = !chosen->quiet;
    return settings;
}

/* Runs the model on all images, on all threads. On failure, prints the reason on stderr and returns
 * false. */
static bool evaluate(const vit_model *model, const choices *chosen, dataset *data,
                     infer_counts *counts) {
    evaluation e = { model, data };
    infer_settings settings = make_settings(model, chosen);
    photo_paths paths;
    photo_source source;
    report r = report_make();
    bool good;
    memset(&paths, 0, sizeof paths);
    paths.list = data->photos.photos;
    source = photo_paths_source(&paths);
    settings.outputs = INFER_LOGITS;
    settings.take = take_result;
    settings.user = &e;
    good = infer_run(&settings, &source, counts, &r);
    if (r.failed) report_print(&r, PROGRAM);
    return good;
}

/* ------------------------------------------------------------------------- */
/* The sums                                                                  */
/* ------------------------------------------------------------------------- */

/* The number of images of class `truth` that were classified as `predicted`. */
typedef struct confusion {
    int truth, predicted, count;
} confusion;

typedef struct totals {
    int images, unreadable;
    /* right[r]: number of images whose true class has rank r; right[TOP]: number of images whose
     * true class is not among the best TOP */
    int right[TOP + 1];
    /* number of images whose true class is among the best TOP */
    int top5;
    double loss; /* mean loss */
    double seconds;
    confusion *confusions; /* sorted by truth, then predicted */
    int num_confusions;
} totals;

static int compare_confusions(const void *a, const void *b) {
    const confusion *x = a, *y = b;
    if (x->truth != y->truth) return x->truth < y->truth ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

/* Counts confusions in a list, because a matrix for 21,843 classes would take 2 GB. */
static bool count_confusions(const dataset *data, totals *sum) {
    confusion *list = calloc((size_t)data->count, sizeof *list);
    int n = 0, kinds = 0;
    if (!list) return out_of_memory();
    for (int i = 0; i < data->count; i++) {
        const sample *s = &data->samples[i];
        if (!s->unreadable) list[n++] = (confusion){ s->true_class, s->predicted, 1 };
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

/* Adds up the results in the order of the images. Any number of threads thus gives the same
 * bits. */
static bool add_up(const dataset *data, const infer_counts *counts, totals *sum) {
    double loss = 0;
    sum->images = (int)counts->read;
    sum->unreadable = (int)counts->unreadable;
    sum->seconds = counts->seconds;
    for (int i = 0; i < data->count; i++) {
        const sample *s = &data->samples[i];
        if (s->unreadable) continue;
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

static double percent(int part, int whole) { return whole ? 100.0 * part / whole : 0; }

static int confusion_count(const totals *sum, int truth, int predicted) {
    confusion key = { truth, predicted, 0 };
    const confusion *found = bsearch(&key, sum->confusions, (size_t)sum->num_confusions, sizeof key,
                                     compare_confusions);
    return found ? found->count : 0;
}

static void print_matrix(const vit_model *model, const totals *sum) {
    int classes = model->config.num_classes;
    char text[32], label[64];
    printf("\nconfusion (a row for each true class, a column for each answer)\n%-16s", "");
    for (int i = 0; i < classes; i++) printf(" %6d", i);
    printf("\n");
    for (int truth = 0; truth < classes; truth++) {
        const int width = text_show(label, sizeof label, 12,
                                    class_name(model, truth, text, sizeof text));
        printf("%3d %s%*s", truth, label, 12 - width, "");
        for (int i = 0; i < classes; i++) printf(" %6d", confusion_count(sum, truth, i));
        printf("\n");
    }
}

/* Prints the most frequent mistakes, for models with too many classes for a printed matrix. Each
 * pass over the list finds the next mistake, by count and then by place in the list. */
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
        text_print(stdout, "  %5d  %s taken for %s\n", sum->confusions[best].count,
                   class_name(model, sum->confusions[best].truth, a, sizeof a),
                   class_name(model, sum->confusions[best].predicted, b, sizeof b));
    }
}

static bool has_softmax(const vit_model *model) {
    return model->config.head_activation == VIT_HEAD_SOFTMAX;
}

static void print_text(const vit_model *model, const totals *sum) {
    printf("images         %d", sum->images);
    if (sum->unreadable) printf("  (and %d unreadable)", sum->unreadable);
    printf("\ntop-1          %.2f %%  (%d)\n", percent(sum->right[0], sum->images), sum->right[0]);
    printf("top-5          %.2f %%  (%d)\n", percent(sum->top5, sum->images), sum->top5);
    if (has_softmax(model)) printf("cross-entropy  %.6f\n", sum->loss);
    printf("images/s       %.1f\n", sum->images / sum->seconds);
    if (model->config.num_classes <= MATRIX_LIMIT) print_matrix(model, sum);
    else print_worst(model, sum);
}

/* ------------------------------------------------------------------------- */
/* As JSON and CSV                                                           */
/* ------------------------------------------------------------------------- */

/* Writes the label, the number of images, and the number of correct answers of each class that has
 * images. */
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

/* Writes a list for each confusion: the true class, the predicted class, and the number of
 * images. */
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
    json_put_number(&w, "cross_entropy", has_softmax(model) ? sum->loss : (double)NAN, 9);
    json_put_decimals(&w, "seconds", sum->seconds, 3);
    json_put_decimals(&w, "images_per_second", sum->images / sum->seconds, 1);
    put_classes(&w, model, sum);
    put_confusions(&w, sum);
    json_put_end(&w, '}');
    putchar('\n');
}

/* Writes the matrix of confusions. The matrix has a row and a column for each class that occurs as
 * truth or as answer. occurs [num_classes] marks these classes. */
static void write_matrix(FILE *file, const vit_model *model, const totals *sum,
                         const bool *occurs) {
    int classes = model->config.num_classes;
    char text[32];
    cli_put_field(file, "true \\ predicted");
    for (int i = 0; i < classes; i++) {
        if (!occurs[i]) continue;
        putc(',', file);
        cli_put_field(file, class_name(model, i, text, sizeof text));
    }
    putc('\n', file);
    for (int truth = 0; truth < classes; truth++) {
        if (!occurs[truth]) continue;
        cli_put_field(file, class_name(model, truth, text, sizeof text));
        for (int i = 0; i < classes; i++) {
            if (occurs[i]) fprintf(file, ",%d", confusion_count(sum, truth, i));
        }
        putc('\n', file);
    }
}

/* Writes the matrix of confusions to a file. Failures are printed on stderr. */
static bool write_csv(const char *path, const vit_model *model, const totals *sum) {
    report r = report_make();
    bool *occurs = calloc((size_t)model->config.num_classes, sizeof *occurs);
    cli_output output;
    bool good;
    if (!occurs) return out_of_memory();
    for (int i = 0; i < sum->num_confusions; i++) {
        occurs[sum->confusions[i].truth] = true;
        occurs[sum->confusions[i].predicted] = true;
    }
    good = cli_output_open(&output, path, &r);
    if (good) {
        write_matrix(output.file, model, sum, occurs);
        good = cli_output_commit(&output, &r);
    }
    if (!good) report_print(&r, PROGRAM);
    free(occurs);
    return good;
}

/* Writes two fields: the number of a class, and its label. */
static void put_class(FILE *file, const vit_model *model, int index) {
    char text[32];
    fprintf(file, ",%d,", index);
    cli_put_field(file, class_name(model, index, text, sizeof text));
}

static void write_samples(FILE *file, const vit_model *model, const dataset *data) {
    fprintf(file, "path,true,true_label,predicted,predicted_label,prob\n");
    for (int i = 0; i < data->count; i++) {
        const sample *s = &data->samples[i];
        cli_put_field(file, s->path);
        put_class(file, model, s->true_class);
        if (s->unreadable) {
            fprintf(file, ",,,\n");
        } else {
            put_class(file, model, s->predicted);
            fprintf(file, ",%.9g\n", (double)s->prob);
        }
    }
}

/* Writes a line for each image. If an image is unreadable, the last three fields of its line are
 * empty. */
static bool write_predictions(const vit_model *model, const choices *chosen, const dataset *data) {
    report r = report_make();
    cli_output output;
    bool good = cli_output_open(&output, chosen->predictions, &r);
    if (good) {
        write_samples(output.file, model, data);
        good = cli_output_commit(&output, &r);
    }
    if (!good) report_print(&r, PROGRAM);
    return good;
}

/* ------------------------------------------------------------------------- */
/* Measuring the embedding by nearest neighbours or a linear classifier      */
/* ------------------------------------------------------------------------- */

static void print_probe_json(const choices *chosen, const probe_counts *sum) {
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "model", chosen->model);
    if (!chosen->zero_shot) json_put_text(&w, "train", chosen->knn ? chosen->knn : chosen->probe);
    json_put_text(&w, "folder", chosen->folder);
    if (!chosen->zero_shot) json_put_integer(&w, "train_images", sum->train);
    json_put_integer(&w, "images", sum->test);
    json_put_integer(&w, "unreadable", sum->unreadable);
    if (chosen->knn) {
        json_put_integer(&w, "neighbors", chosen->neighbors);
        json_put_number(&w, "temperature", PROBE_TEMPERATURE, 3);
    } else if (!chosen->zero_shot) {
        json_put_number(&w, "c", PROBE_C, 3);
        json_put_integer(&w, "steps", sum->steps);
    }
    json_put_integer(&w, "correct", sum->right);
    json_put_integer(&w, "correct5", sum->top5);
    json_put_decimals(&w, "top1", percent(sum->right, sum->test) / 100, 6);
    json_put_decimals(&w, "top5", percent(sum->top5, sum->test) / 100, 6);
    json_put_end(&w, '}');
    putchar('\n');
}

static void print_probe_text(const choices *chosen, const probe_counts *sum) {
    char rule[16] = "linear";
    if (chosen->knn) snprintf(rule, sizeof rule, "%3d-NN", chosen->neighbors);
    if (chosen->zero_shot) snprintf(rule, sizeof rule, "texts ");
    else printf("training images  %d\n", sum->train);
    printf("images           %d", sum->test);
    if (sum->unreadable) printf("  (and %d unreadable)", sum->unreadable);
    printf("\n%s top-1     %.2f %%  (%d)\n", rule, percent(sum->right, sum->test), sum->right);
    printf("%s top-5     %.2f %%  (%d)\n", rule, percent(sum->top5, sum->test), sum->top5);
}

static bool evaluate_embedding(const vit_model *model, const choices *chosen) {
    const probe_choice choice = { chosen->knn ? chosen->knn : chosen->probe, chosen->folder,
                                  chosen->limit, chosen->knn ? chosen->neighbors : 0 };
    infer_settings settings = make_settings(model, chosen);
    probe_counts sum;
    report r = report_make();
    if (!probe_evaluate(&settings, &choice, &sum, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    if (chosen->json) print_probe_json(chosen, &sum);
    else print_probe_text(chosen, &sum);
    return sum.unreadable == 0;
}

/* ------------------------------------------------------------------------- */
/* Names of folders as texts                                                 */
/* ------------------------------------------------------------------------- */

typedef struct zero_shot_run {
    const vit_model *model;
    const labelled_photos *photos;
    embedding_choice choice;
    int dim, count;
    float *texts;  /* [count, dim]: the vector of each folder's name */
    float *scores; /* [count]: the score of each name for the present image */
    probe_counts sum;
} zero_shot_run;

/* An infer_take that counts an image. */
static bool take_zero_shot(void *user, infer_result *result, report *r) {
    zero_shot_run *z = user;
    vit_prediction top[TOP];
    const float *vector;
    int found;
    (void)r;
    if (result->error) {
        z->sum.unreadable++;
        return true;
    }
    vector = embedding_of(&z->choice, z->model, result);
    for (int i = 0; i < z->count; i++)
        z->scores[i] = vit_cosine(vector, z->texts + (size_t)i * (size_t)z->dim, z->dim);
    found = vit_top_k(z->scores, z->count, TOP, top);
    z->sum.test++;
    for (int i = 0; i < found; i++) {
        if (top[i].index != z->photos->folder[result->index]) continue;
        z->sum.top5++;
        z->sum.right += i == 0;
    }
    return true;
}

/* Computes the vector of each folder's name. A '_' in a name stands for a space. */
static bool embed_folders(zero_shot_run *z, const choices *chosen, report *r) {
    words w = { 0 };
    bool good = words_open(&w, z->model, chosen->isa, PROGRAM, r);
    const embedding_request asked = { PROGRAM, NULL, NULL, -1, { 0, 0, 0 } };
    z->dim = w.dim;
    z->count = z->photos->folders.count;
    good = good && embedding_choose_joint(&z->choice, &asked, w.dim, z->model, r);
    z->texts = good ? malloc((size_t)z->count * (size_t)z->dim * sizeof *z->texts) : NULL;
    z->scores = malloc((size_t)z->count * sizeof *z->scores);
    if (good && !(z->texts && z->scores)) good = report_no_memory(r);
    for (int i = 0; good && i < z->count; i++) {
        char *name = strdup(z->photos->folders.paths[i]), *at;
        for (at = name; at && (at = strchr(at, '_')) != NULL;) *at = ' ';
        good = name ? words_embed_in(&w, name, &chosen->templates,
                                     z->texts + (size_t)i * (size_t)z->dim, r)
                    : report_no_memory(r);
        free(name);
    }
    words_close(&w);
    return good || report_file(r, chosen->model);
}

static bool evaluate_zero_shot(const vit_model *model, const choices *chosen) {
    zero_shot_run z = { .model = model };
    infer_settings settings = make_settings(model, chosen);
    infer_counts counts;
    labelled_photos photos;
    photo_paths paths = { 0 };
    photo_source source;
    report r = report_make();
    bool good = labelled_find(&photos, chosen->folder, chosen->limit, &r);
    z.photos = &photos;
    if (good) {
        paths.list = photos.photos;
        source = photo_paths_source(&paths);
        settings.take = take_zero_shot;
        settings.user = &z;
        good = embed_folders(&z, chosen, &r);
        embedding_ask(&z.choice, &settings);
        good = good && infer_run(&settings, &source, &counts, &r);
        labelled_free(&photos);
    }
    if (good && chosen->json) print_probe_json(chosen, &z.sum);
    else if (good) print_probe_text(chosen, &z.sum);
    if (r.failed) report_print(&r, PROGRAM);
    free(z.texts);
    free(z.scores);
    return good && z.sum.unreadable == 0;
}

/* ------------------------------------------------------------------------- */
/* Models with several right classes                                         */
/* ------------------------------------------------------------------------- */

static void put_tagged_classes(json_writer *w, const vit_model *model, const tagged_results *t) {
    json_put_begin(w, "classes", '[');
    for (int c = 0; c < t->num_classes; c++) {
        const tagged_class *class = &t->classes[c];
        if (!class->photos && !class->counts.wrong) continue;
        json_put_begin(w, NULL, '{');
        json_put_integer(w, "index", c);
        json_put_text(w, "label", vit_label(model, c));
        json_put_integer(w, "images", class->photos);
        json_put_integer(w, "found", class->counts.found);
        json_put_integer(w, "wrong", class->counts.wrong);
        json_put_number(w, "average_precision", class->average_precision, 9);
        json_put_number(w, "f1", class->f1, 9);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}

static void print_tagged_json(const vit_model *model, const choices *chosen, const tag_lists *lists,
                              const tagged_results *t) {
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "model", chosen->model);
    json_put_text(&w, "tags", chosen->tags);
    json_put_text(&w, "folder", chosen->folder);
    json_put_integer(&w, "images", (int64_t)t->photos.read);
    json_put_integer(&w, "unreadable", (int64_t)t->photos.unreadable);
    json_put_integer(&w, "unknown_tags", lists->unknown);
    json_put_integer(&w, "dropped", lists->dropped);
    json_put_integer(&w, "occurring_classes", t->occurring);
    json_put_number(&w, "mean_average_precision", t->mean_average_precision, 9);
    json_put_number(&w, "above", chosen->above, 9);
    json_put_number(&w, "precision", precision_of(&t->all), 9);
    json_put_number(&w, "recall", precision_recall(&t->all), 9);
    json_put_number(&w, "f1_micro", precision_f1(&t->all), 9);
    json_put_number(&w, "f1_macro", t->mean_f1, 9);
    json_put_decimals(&w, "seconds", t->photos.seconds, 3);
    put_tagged_classes(&w, model, t);
    json_put_end(&w, '}');
    putchar('\n');
}

static void print_tagged_text(const choices *chosen, const tag_lists *lists,
                              const tagged_results *t) {
    printf("images          %d", (int)t->photos.read);
    if (t->photos.unreadable) printf("  (and %d unreadable)", (int)t->photos.unreadable);
    printf("\nclasses         %d of %d occur\n", t->occurring, t->num_classes);
    if (lists->unknown) {
        printf("left out        %d tags that are not classes of the model; they occur %d times\n",
               lists->unknown, lists->dropped);
    }
    printf("mAP             %.2f %%\n", 100 * t->mean_average_precision);
    printf("above %.4g\n", chosen->above);
    printf("  precision     %.2f %%\n", 100 * precision_of(&t->all));
    printf("  recall        %.2f %%\n", 100 * precision_recall(&t->all));
    printf("  F1, micro     %.2f %%\n", 100 * precision_f1(&t->all));
    printf("  F1, macro     %.2f %%\n", 100 * t->mean_f1);
    printf("images/s        %.1f\n", (double)t->photos.read / t->photos.seconds);
}

/* Writes each class that an image has or that the model found in it. Writes nothing for an
 * unreadable image. */
static void write_tags_of(FILE *file, const vit_model *model, const choices *chosen,
                          const tag_lists *lists, const tagged_results *t, int i) {
    const float *scores = tagged_scores(t, i);
    int at = lists->first[i];
    for (int c = 0; t->read[i] && c < t->num_classes; c++) {
        const bool right = at < lists->first[i + 1] && lists->classes[at] == c;
        const bool found = (double)scores[c] >= chosen->above;
        at += right;
        if (!right && !found) continue;
        cli_put_field(file, lists->photos.paths[i]);
        put_class(file, model, c);
        fprintf(file, ",%d,%d,%.9g\n", right, found, (double)scores[c]);
    }
}

static bool write_tags(const vit_model *model, const choices *chosen, const tag_lists *lists,
                       const tagged_results *t) {
    report r = report_make();
    cli_output output;
    bool good = cli_output_open(&output, chosen->predictions, &r);
    if (good) {
        fprintf(output.file, "path,class,label,true,found,score\n");
        for (int i = 0; i < lists->photos.count; i++) {
            write_tags_of(output.file, model, chosen, lists, t, i);
        }
        good = cli_output_commit(&output, &r);
    }
    if (!good) report_print(&r, PROGRAM);
    return good;
}

static bool tell_tags(const vit_model *model, const choices *chosen, const tag_lists *lists,
                      const tagged_results *t) {
    const bool good = !chosen->predictions || write_tags(model, chosen, lists, t);
    if (chosen->json) print_tagged_json(model, chosen, lists, t);
    else print_tagged_text(chosen, lists, t);
    return good && t->photos.unreadable == 0;
}

static bool evaluate_tags(const vit_model *model, const choices *chosen) {
    const tag_lists_choice choice = { chosen->tags, chosen->folder, chosen->limit, PROGRAM };
    infer_settings settings = make_settings(model, chosen);
    tag_lists lists;
    tagged_results results;
    report r = report_make();
    bool good = tag_lists_read(&lists, &choice, model, &r);
    memset(&results, 0, sizeof results);
    good = good && tagged_evaluate(&settings, &lists, chosen->above, &results, &r);
    if (r.failed) report_print(&r, PROGRAM);
    good = good && tell_tags(model, chosen, &lists, &results);
    tagged_free(&results);
    tag_lists_free(&lists);
    return good;
}

/* ------------------------------------------------------------------------- */
/* The command line                                                          */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Classifies every image DIR/CLASS/IMAGE and reports top-1 and top-5 accuracy, mean\n"
    "cross-entropy and the confusion matrix. CLASS is a label of the model, one of the names in a\n"
    "label such as 'tabby, tabby cat', a synset id (n02123045) or a class index. Case is\n"
    "ignored, and '_' equals ' '.\n"
    "--tags FILE is for models that find several classes in an image (sigmoid). Each line of FILE\n"
    "has the path of an image in DIR and its tags. The report has mean average precision and F1.\n"
    "--knn TRAIN classifies each image of DIR by the images of TRAIN whose embeddings are nearest\n"
    "by cosine. --probe TRAIN classifies by a linear classifier that is learnt from the embeddings\n"
    "of TRAIN. For --knn and --probe, the model needs no classes.\n"
    "--zero-shot uses the name of each folder as a text, for CLIP and SigLIP.\n";

static const char notes[] =
    "A --map file has lines 'FOLDER<tab>CLASS'. A space may replace the tab if FOLDER contains no\n"
    "space. Lines that start with '#' are comments. Images are files that end in .jpg, .jpeg,\n"
    ".png, .bmp, .gif, .tga, .pgm, .ppm or .pnm. Files that end in .heic, .heif, .avif, .webp, .tif\n"
    "or .tiff need --decoder, and are unreadable without it. timm ignores the EXIF orientation;\n"
    "--no-exif gives timm's results. The number of threads does not change any result.\n"
    "--tags takes lines 'PATH,TAGS' or 'PATH<tab>TAGS', with or without a first line 'path,tags'.\n"
    "Tags are separated by ';', '|', ',' or, if none of these occurs, by spaces. '_' stands for a\n"
    "space in a tag. Tags that are not classes of the model are reported and left out. mAP and\n"
    "macro F1 are means over the classes that occur in FILE. For F1, the model finds a class in an\n"
    "image if the class has a probability of at least --above.\n"
    "--knn is DINO's method: each of 20 neighbors votes with exp(cosine / 0.07). --probe is\n"
    "scikit-learn's LogisticRegression(C=10) of embeddings scaled to length 1.\n"
    "Exit status: 0 on success, 1 if an image could not be read or something failed, 2 for a\n"
    "wrong command.\n";

/* Returns a message if the command line breaks a rule that the table of options cannot express;
 * otherwise NULL. */
static const char *check(const choices *c) {
    const bool files = c->map || c->confusion;
    if (!!c->knn + !!c->probe + !!c->tags + c->zero_shot > 1)
        return "--knn, --probe, --tags and --zero-shot exclude each other";
    if (c->zero_shot && (files || c->predictions || c->sigmoid))
        return "--zero-shot excludes --map, --confusion, --predictions and --sigmoid";
    if (c->templates.count && !c->zero_shot) return "--template needs --zero-shot";
    if (c->knn && (files || c->predictions))
        return "--knn excludes --map, --confusion and --predictions";
    if (c->probe && (files || c->predictions))
        return "--probe excludes --map, --confusion and --predictions";
    if (c->tags && files) return "--tags excludes --map and --confusion";
    if (!c->knn && c->neighbors) return "--neighbors needs --knn TRAIN";
    if (!c->tags && c->above >= 0) return "--above needs --tags FILE";
    if (c->sigmoid && (c->knn || c->probe))
        return "--sigmoid excludes --knn and --probe, which compute no scores";
    return NULL;
}

static bool choose(int argc, char **argv, choices *c, int *status) {
    const cli_option options[] = {
        CLI_OPTION_MODEL(&c->model),
        { 0, "map", "FILE", "classes for the folders whose names are not labels", CLI_TEXT, &c->map,
          0, 0 },
        { 0, "limit", "N", "use at most N images of DIR and N of TRAIN, evenly spaced", CLI_INT,
          &c->limit, 1, 2147483647 },
        { 0, "tags", "FILE", "the tags of each image: see below; '-': standard input", CLI_TEXT,
          &c->tags, 0, 0 },
        { 0, "above", "P", "lowest probability at which a tag is found (default 0.5)", CLI_NUMBER,
          &c->above, 0, 1 },
        { 0, "sigmoid", NULL,
          "give each class an independent probability: for taggers\n"
          "whose file lacks this setting",
          CLI_FLAG, &c->sigmoid, 0, 0 },
        { 0, "knn", "TRAIN", "accuracy of the nearest neighbors in TRAIN/CLASS/IMAGE", CLI_TEXT,
          &c->knn, 0, 0 },
        { 0, "probe", "TRAIN", "accuracy of a linear classifier learnt from TRAIN/CLASS/IMAGE",
          CLI_TEXT, &c->probe, 0, 0 },
        { 0, "neighbors", "N", "how many neighbors vote (default 20)", CLI_INT, &c->neighbors, 1,
          1000 },
        { 0, "zero-shot", NULL, "classify by texts: the names of the folders", CLI_FLAG,
          &c->zero_shot, 0, 0 },
        { 0, "template", "T",
          "text in which {} is a class, as in 'a photo of a {}'; may be repeated", CLI_LIST,
          &c->templates, 0, 0 },
        CLI_OPTION_IMG_SIZE(c->img_size),
        CLI_OPTION_BATCH(&c->batch, "4 on each thread"),
        CLI_OPTION_THREADS(&c->num_threads),
        CLI_OPTION_ISA(&c->isa),
        CLI_OPTION_JSON(&c->json, "print one JSON object"),
        CLI_OPTION_QUIET(&c->quiet),
        { 0, "confusion", "FILE", "write the confusion matrix as CSV", CLI_OUTPUT, &c->confusion, 0,
          0 },
        { 0, "predictions", "FILE",
          "write a CSV row for each image: path, true class, predicted\n"
          "class, probability; with --tags, a row for each class that an\n"
          "image has, or that the model finds in it",
          CLI_OUTPUT, &c->predictions, 0, 0 },
        PHOTO_OPTIONS(&c->photos),
        CLI_END,
    };
    const cli_program program = { PROGRAM, "[options] DIR", description,     options, notes, 1,
                                  1,       "DIR",           photos_library() };
    const char *wrong;
    text_list operands;
    if (!cli_parse(&program, argc, argv, &operands, status)) return false;
    c->folder = operands.items[0];
    text_list_free(&operands);
    wrong = check(c);
    if (!c->neighbors) c->neighbors = PROBE_NEIGHBORS;
    if (c->above < 0) c->above = 0.5;
    if (!wrong) return true;
    *status = cli_wrong(PROGRAM, "%s", wrong);
    return false;
}

static bool open_model(choices *chosen, vit_model *model, char **path) {
    report r = report_make();
    if (!cli_model_choose(chosen->model, chosen->img_size, model, path, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    chosen->model = *path;
    if (model->config.num_classes == 0 && !chosen->knn && !chosen->probe && !chosen->zero_shot) {
        report_error(
            PROGRAM, *path,
            "the model names no classes: use --knn, --probe or --zero-shot, or a model with classes");
        return false;
    }
    if (chosen->sigmoid) model->config.head_activation = VIT_HEAD_SIGMOID;
    if (!chosen->tags || model->config.head_activation == VIT_HEAD_SIGMOID) return true;
    report_error(PROGRAM, *path,
                 "the model gives each image one class (softmax), but --tags needs a model that "
                 "gives several; add --sigmoid if the model was trained to give several");
    return false;
}

/* Prints the requested parts of the report. Returns false if a part could not be written, or if an
 * image was unreadable. */
static bool tell_all(const vit_model *model, const choices *chosen, const dataset *data,
                     const totals *sum) {
    bool good = true;
    if (chosen->confusion && !write_csv(chosen->confusion, model, sum)) good = false;
    if (chosen->predictions && !write_predictions(model, chosen, data)) good = false;
    if (chosen->json) print_json(model, chosen, sum);
    else print_text(model, sum);
    return good && sum->unreadable == 0;
}

/* Classifies all images and prints the report. The reasons for failures are printed on stderr. */
static bool evaluate_classes(const vit_model *model, const choices *chosen) {
    dataset data;
    totals sum;
    infer_counts counts;
    bool good;
    memset(&data, 0, sizeof data);
    memset(&sum, 0, sizeof sum);
    good = load_dataset(model, chosen, &data) && evaluate(model, chosen, &data, &counts) &&
           add_up(&data, &counts, &sum) && tell_all(model, chosen, &data, &sum);
    free(sum.confusions);
    dataset_free(&data);
    return good;
}

static bool open_decoder(choices *chosen) {
    report r = report_make();
    chosen->decoder = photo_decoder_open(&chosen->photos, PROGRAM, chosen->num_threads, &r);
    if (!chosen->decoder) report_print(&r, PROGRAM);
    return chosen->decoder != NULL;
}

static bool run(choices *chosen) {
    vit_model model;
    char *path = NULL;
    bool good = open_model(chosen, &model, &path) && open_decoder(chosen) &&
                (chosen->knn || chosen->probe ? evaluate_embedding(&model, chosen)
                 : chosen->tags               ? evaluate_tags(&model, chosen)
                 : chosen->zero_shot          ? evaluate_zero_shot(&model, chosen)
                                              : evaluate_classes(&model, chosen));
    photo_decoder_close(chosen->decoder);
    vit_model_close(&model);
    free(path);
    return good;
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-evaluate");
    choices chosen;
    int status;
    memset(&chosen, 0, sizeof chosen);
    chosen.photos
        .exact = true; /* published accuracies were measured on images decoded at full size */
    chosen.above = -1;
    if (choose(argc, argv, &chosen, &status))
        status = cli_finish(PROGRAM, run(&chosen) ? CLI_OK : CLI_FAILED);
    text_list_free(&chosen.templates);
    return status;
}
