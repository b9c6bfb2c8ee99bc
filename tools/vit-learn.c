/* vit-learn.c - learns your own classes from a few photos of each class, and writes a new head for
 * a model.
 *
 *     learn -m dinov2.vit photos/ -o mine.vit          photos/CLASS/IMAGE
 *     learn -m mine.vit --add more/ -o mine2.vit       more photos, without the old ones
 *     learn -m mine.vit --forget cat -o less.vit
 *     learn -m dinov2.vit mine.vit hers.vit -o both.vit
 *     learn -m dinov2.vit photos.npy -o mine.vit       from a file of vit-embed
 *     classify -m mine.vit photo.jpg
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/report.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "convert/unpack.h"
#include "infer/learned.h"
#include "model/card.h"
#include "numbers/precision.h"
#include "vit.h"

#define PROGRAM cli_name()

enum { MATRIX_LIMIT = 16, LINES_SHOWN = 10 };

/* The command line. */
typedef struct choices {
    const char *model, *output;
    text_list operands, forget;
    int num_threads, batch, folds;
    double known;
    vit_isa isa;
    bool add, several, ridge, json, quiet;
    photo_options photos;
} choices;

/* The state of one run of the program. */
typedef struct job {
    const choices *chosen;
    vit_model model;
    char *path; /* path of the model */
    photo_decoder *decoder;
    learned_set set;
    learned_head head;
    /* hash of the model without its head; size of the written file in bytes */
    uint64_t backbone, bytes;
    size_t record; /* size in bytes of the embeddings in the written file */
    /* number of classes of the model's old head that the new head does not have */
    int dropped;
    double seconds; /* time of learning, in seconds */
    int *doubts, num_doubts;
} job;

/* === The photos and embeddings to learn from === */

/* Adds the embeddings and classes that a model of vit-learn contains. *any becomes false if the
 * model contains none. */
static bool add_learnt(job *j, const vit_model *model, const char *path, bool *any, report *r) {
    learned_record record = { NULL, 0, 0, model, j->backbone };
    record.data = head_learned(model, &record.size, &record.count);
    *any = record.data != NULL;
    return !*any || learned_add_stored(&j->set, &record, r) || report_file(r, path);
}

static bool add_own(job *j, report *r) {
    size_t size, count;
    bool any;
    if (j->chosen->add || j->chosen->forget.count) {
        if (!add_learnt(j, &j->model, j->path, &any, r)) return false;
        if (any) return true;
        (void)report_fail(r, "the model has no learnt classes: leave out --add and --forget");
        return report_file(r, j->path);
    }
    if (head_learned(&j->model, &size, &count)) j->dropped = j->model.config.num_classes;
    return true;
}

static bool ends_in(const char *path, const char *suffix) {
    const size_t length = strlen(path), end = strlen(suffix);
    return length > end && !strcmp(path + length - end, suffix);
}

static bool add_other(job *j, const char *path, report *r) {
    vit_model other;
    bool any, good;
    if (!cli_model_open(path, 0, &other, r)) return false;
    good = add_learnt(j, &other, path, &any, r);
    vit_model_close(&other);
    if (!good || any) return good;
    (void)report_fail(r,
                      "the model has learnt nothing: expected a file that vit-learn has written");
    return report_file(r, path);
}

static bool gather(job *j, report *r) {
    const choices *c = j->chosen;
    infer_settings settings;
    memset(&settings, 0, sizeof settings);
    settings.model = &j->model;
    settings.program = PROGRAM;
    settings.num_threads = c->num_threads;
    settings.batch = c->batch;
    settings.isa = c->isa;
    settings.decoder = j->decoder;
    settings.progress = !c->quiet;
    j->set.several = c->several;
    if (!add_own(j, r)) return false;
    for (int i = 0; i < c->operands.count; i++) {
        const char *path = c->operands.items[i];
        if (!(ends_in(path, ".vit")   ? add_other(j, path, r)
              : ends_in(path, ".npy") ? learned_add_rows(&j->set, path, &j->model, r)
                                      : learned_add_photos(&j->set, path, &settings, r)))
            return false;
    }
    for (int i = 0; i < c->forget.count; i++)
        if (!learned_forget(&j->set, c->forget.items[i], r)) return false;
    return learned_sort(&j->set, PROGRAM, r);
}

static bool learn(job *j, report *r) {
    vit_threads *threads = NULL;
    vit_executor executor;
    const learned_choice choice = { 0, j->chosen->known, j->chosen->folds, &executor };
    const vit_result result = vit_threads_create(j->chosen->num_threads, &threads, &executor);
    const double start = cli_now_ms();
    bool good;
    if (result) return report_fail(r, "%s", vit_result_string(result));
    good = j->chosen->ridge
               ? learned_fit_sums(&j->set, &j->model, &j->chosen->operands, &choice, &j->head, r)
               : learned_fit(&j->set, &choice, &j->head, r);
    vit_threads_destroy(threads);
    j->seconds = (cli_now_ms() - start) / 1000;
    j->doubts = malloc(((size_t)j->set.count + 1) * sizeof *j->doubts);
    if (good && !j->doubts) return report_no_memory(r);
    if (good) j->num_doubts = learned_doubts(&j->set, &j->head, j->doubts);
    return good;
}

/* === The file === */

static int num_photos(const job *j) { return j->set.added ? j->set.added : j->set.count; }

/* Returns a malloc'ed text about the origin of the backbone and about the learnt classes. */
static char *provenance(const job *j) {
    const char *line = vit_source(&j->model);
    const size_t size = strlen(line) + 512;
    char *text = malloc(size);
    if (!text) return NULL;
    text[0] = '\0';
    while (*line) {
        const size_t length = strcspn(line, "\n") + 1;
        if (strncmp(line, "learned", 7) != 0) text_append(text, size, "%.*s", (int)length, line);
        line += length - (line[length - 1] == '\0');
    }
    text_append(text, size, "learned: %d photos of %d classes, %s\n", num_photos(j),
                j->set.classes.count,
                j->set.several  ? "any number of classes per photo"
                : j->set.added  ? "one class per photo, Gaussians with one covariance"
                : j->head.alone ? "recognised by their mean"
                                : "one class per photo");
    text_append(text, size, "learned_backbone: %016llx\n", (unsigned long long)j->backbone);
    return text;
}

static bool write_model(job *j, report *r) {
    const size_t classes = (size_t)j->set.classes.count;
    const char **labels = malloc((classes + 1) * sizeof *labels);
    char *source = provenance(j);
    /* --ridge keeps only sums; the file then has no embeddings for a later --add */
    const bool keeps = !j->set.added;
    unsigned char *record = keeps ? learned_store(&j->set, j->backbone, &j->record) : NULL;
    head_contents head = {
        j->head.num_classes, j->head.weights,     j->set.several, labels, source, record,
        j->record,           (size_t)j->set.count
    };
    bool good = (labels && source && (record || !keeps)) || report_no_memory(r);
    if (good) {
        memcpy(labels, j->set.classes.paths, classes * sizeof *labels);
        labels[classes] = LEARNED_NONE;
        good = head_write(&j->model, &head, j->chosen->output, &j->bytes, r);
    }
    free(labels);
    free(source);
    free(record);
    return good;
}

/* === The report === */

static double percent(double some, double whole) { return whole > 0 ? 100 * some / whole : 0; }

static const char *class_at(const job *j, int index) {
    return index < j->set.classes.count ? j->set.classes.paths[index] : LEARNED_NONE;
}

static int own_class(const job *j, int i) {
    const learned_photo *p = &j->set.photos[i];
    return p->count ? j->set.labels[p->first] : -1;
}

static const char *photo_name(const job *j, int i) {
    const char *path = j->set.photos[i].path;
    return path ? path : "(a photo learnt earlier)";
}

/* Returns the class that the head answers for held-out photo i. LEARNED_NONE is the last class. */
static int answer_at(const job *j, int i) {
    const learned_answer *a = &j->head.answers[i];
    return j->head.has_none && !j->head.alone && (double)a->score < j->head.none
               ? j->set.classes.count
               : a->best;
}

/* Returns a malloc'ed matrix that counts how often photos of each class received each answer:
 * [number of classes, head.num_classes]. */
static int *count_confusions(const job *j) {
    const size_t width = (size_t)j->head.num_classes;
    int *counts = calloc((size_t)j->set.classes.count * width, sizeof *counts);
    for (int i = 0; counts && i < j->set.count; i++)
        if (j->head.answers[i].best >= 0 && own_class(j, i) >= 0)
            counts[(size_t)own_class(j, i) * width + (size_t)answer_at(j, i)]++;
    return counts;
}

static void print_matrix(const job *j, const int *counts) {
    const int width = j->head.num_classes;
    char label[64];
    printf("\nconfusion of photos held out (a row for each class, a column for each answer)\n");
    printf("%-20s", "");
    for (int i = 0; i < width; i++)
        if (i < j->set.classes.count) printf(" %6d", i);
        else printf("   none");
    printf("\n");
    for (int c = 0; c < j->set.classes.count; c++) {
        const int shown = text_show(label, sizeof label, 16, class_at(j, c));
        printf("%3d %s%*s", c, label, 16 - shown, "");
        for (int i = 0; i < width; i++) printf(" %6d", counts[c * width + i]);
        printf("\n");
    }
}

/* Prints the most frequent mistakes, sorted by count and then by position in the matrix. */
static void print_worst(const job *j, const int *counts) {
    const int width = j->head.num_classes, size = j->set.classes.count * width;
    int last = -1;
    printf("\nmost frequent confusions of photos held out\n");
    for (int shown = 0; shown < LINES_SHOWN; shown++) {
        int best = -1;
        for (int i = 0; i < size; i++) {
            if (i / width == i % width || !counts[i]) continue;
            if (last >= 0 && (counts[i] > counts[last] || (counts[i] == counts[last] && i <= last)))
                continue;
            if (best < 0 || counts[i] > counts[best]) best = i;
        }
        if (best < 0) break;
        last = best;
        text_print(stdout, "  %5d  %s taken for %s\n", counts[best], class_at(j, best / width),
                   class_at(j, best % width));
    }
}

static void print_doubts(const job *j) {
    if (!j->num_doubts) return;
    printf("\nphotos to check: each looks more like another class than like its own\n");
    for (int i = 0; i < j->num_doubts && i < 2 * LINES_SHOWN; i++) {
        const int at = j->doubts[i];
        const learned_answer *a = &j->head.answers[at];
        text_print(stdout, "  %s: %s %.0f %%, %s %.0f %%\n", photo_name(j, at),
                   class_at(j, own_class(j, at)), 100 * (double)a->own, class_at(j, a->best),
                   100 * (double)a->highest);
    }
    if (j->num_doubts > 2 * LINES_SHOWN)
        printf("  and %d more; --json names all\n", j->num_doubts - 2 * LINES_SHOWN);
}

/* The figures of held-out photos that may have several classes: mean average precision, and F1 at
 * the threshold 0.5. */
typedef struct several_figures {
    double mean_average_precision, f1;
    int classes;
} several_figures;

static bool figure_several(const job *j, several_figures *figures, report *r) {
    const int classes = j->set.classes.count;
    precision_score *column = malloc(((size_t)j->set.count + 1) * sizeof *column);
    precision_counts all = { 0, 0, 0 };
    memset(figures, 0, sizeof *figures);
    if (!column) return report_no_memory(r);
    for (int c = 0; c < classes; c++) {
        int count = 0, right = 0;
        for (int i = 0; i < j->set.count; i++) {
            const learned_photo *p = &j->set.photos[i];
            const float held = j->head.held[(size_t)i * (size_t)classes + (size_t)c];
            bool has = false;
            for (int k = 0; k < p->count; k++) has |= j->set.labels[p->first + k] == c;
            if (j->head.answers[i].best < 0) continue;
            column[count++] = (precision_score){ held, has };
            right += has;
            all.found += has && held >= 0.5f;
            all.wrong += !has && held >= 0.5f;
            all.missed += has && held < 0.5f;
        }
        if (!right) continue;
        figures->mean_average_precision += precision_average(column, count);
        figures->classes++;
    }
    if (figures->classes) figures->mean_average_precision /= figures->classes;
    figures->f1 = precision_f1(&all);
    free(column);
    return true;
}

static void print_photos(const job *j) {
    const learned_set *set = &j->set;
    printf("photos          %d of %d %s, ", num_photos(j), set->classes.count,
           set->classes.count == 1 ? "class" : "classes");
    printf(set->least == set->most ? "%d each\n" : "%d to %d each\n", set->least, set->most);
    if (set->stored) printf("                %d of them learnt earlier\n", set->stored);
    if (set->twice)
        printf("                %d left out, because %s given twice\n", set->twice,
               set->twice == 1 ? "it was" : "they were");
    if (set->counts.unreadable)
        printf("                %d unreadable and left out\n", (int)set->counts.unreadable);
    if (j->dropped)
        text_print(
            stdout,
            "                the classes that %s had learnt are left out; --add keeps them\n",
            j->path);
}

static void print_promise(const job *j, const several_figures *several) {
    const learned_head *head = &j->head;
    const double p = head->held_out ? (double)head->right / head->held_out : 0;
    if (head->alone) {
        printf(
            "alone           There is only one class: a photo belongs to the class if its embedding\n"
            "                is close to the mean of the class. The accuracy on other photos is\n"
            "                unknown: add a folder \"%s\" with photos of other things.\n",
            LEARNED_NONE);
        return;
    }
    if (!head->held_out) {
        printf("right           unknown: every class has one photo, so none can be held out\n");
        return;
    }
    if (j->set.several) {
        printf(
            "found           mAP %.1f %%, F1 %.1f %% at 0.5, of %d photos held out, in %d folds\n",
            100 * several->mean_average_precision, 100 * several->f1, head->held_out, head->folds);
        return;
    }
    printf("right           %.1f %% (+-%.1f) of %d photos held out, in %d %s\n", 100 * p,
           100 * sqrt(p * (1 - p) / head->held_out), head->held_out, head->folds,
           head->folds == 1 ? "fold" : "folds");
    printf("                the mean probability of the answers is %.1f %%\n",
           100 * head->expected);
    if (head->held_out < j->set.count)
        printf("                %d not held out: the only photo of a class is never held out\n",
               j->set.count - head->held_out);
    if (head->has_none)
        printf(
            "none            %d of the photos held out (%.1f %%) get the answer \"%s\"; for %d of "
            "these, the most likely other class is right\n",
            head->refused, percent(head->refused, head->held_out), LEARNED_NONE,
            head->right_refused);
}

static bool print_text(const job *j, report *r) {
    const learned_head *head = &j->head;
    int *counts = j->set.several || j->head.alone ? NULL : count_confusions(j);
    several_figures several;
    if (j->set.several && !figure_several(j, &several, r)) return false;
    print_photos(j);
    print_promise(j, &several);
    if (counts && j->head.held_out) {
        if (j->set.classes.count <= MATRIX_LIMIT) print_matrix(j, counts);
        else print_worst(j, counts);
    }
    print_doubts(j);
    if (j->set.added)
        printf("\nkept            nothing for --add; covariance shrunk by %g\n", head->share);
    else
        printf("\nkept            %llu bytes for --add, %llu per photo: embeddings, no photos\n",
               (unsigned long long)j->record,
               (unsigned long long)(j->record / (size_t)j->set.count));
    printf("time            %.2f s to embed, %.2f s to learn\n", j->set.counts.seconds, j->seconds);
    text_print(stdout, "output          %s, %llu bytes\n", j->chosen->output,
               (unsigned long long)j->bytes);
    free(counts);
    return true;
}

static void put_doubts(json_writer *w, const job *j) {
    json_put_begin(w, "doubts", '[');
    for (int i = 0; i < j->num_doubts; i++) {
        const learned_answer *a = &j->head.answers[j->doubts[i]];
        json_put_begin(w, NULL, '{');
        json_put_text(w, "path", j->set.photos[j->doubts[i]].path);
        json_put_text(w, "class", class_at(j, own_class(j, j->doubts[i])));
        json_put_float(w, "probability", a->own);
        json_put_text(w, "best", class_at(j, a->best));
        json_put_float(w, "best_probability", a->highest);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}

static void put_confusions(json_writer *w, const job *j, const int *counts) {
    const int width = j->head.num_classes;
    json_put_begin(w, "confusion", '[');
    for (int i = 0; counts && i < j->set.classes.count * width; i++) {
        if (!counts[i]) continue;
        json_put_begin(w, NULL, '[');
        json_put_integer(w, NULL, i / width);
        json_put_integer(w, NULL, i % width);
        json_put_integer(w, NULL, counts[i]);
        json_put_end(w, ']');
    }
    json_put_end(w, ']');
}

static bool print_json(const job *j, report *r) {
    int *counts = j->set.several || j->head.alone ? NULL : count_confusions(j);
    const learned_head *head = &j->head;
    const bool promised = head->held_out && !head->alone;
    several_figures several;
    json_writer w = json_write_to(stdout);
    if (j->set.several && !figure_several(j, &several, r)) return false;
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "model", j->path);
    json_put_text(&w, "output", j->chosen->output);
    json_put_integer(&w, "bytes", (int64_t)j->bytes);
    json_put_integer(&w, "photos", num_photos(j));
    json_put_integer(&w, "stored", j->set.stored);
    json_put_integer(&w, "twice", j->set.twice);
    json_put_integer(&w, "unreadable", (int64_t)j->set.counts.unreadable);
    json_put_bool(&w, "several", j->set.several);
    json_put_begin(&w, "classes", '[');
    for (int c = 0; c < head->num_classes; c++) json_put_text(&w, NULL, class_at(j, c));
    json_put_end(&w, ']');
    json_put_integer(&w, "folds", head->folds);
    json_put_integer(&w, "held_out", promised ? head->held_out : 0);
    if (j->set.several) {
        json_put_number(&w, "mean_average_precision", several.mean_average_precision, 9);
        json_put_number(&w, "f1", several.f1, 9);
    } else {
        json_put_number(&w, "top1", promised ? (double)head->right / head->held_out : (double)NAN,
                        9);
        json_put_number(&w, "expected", promised ? head->expected : (double)NAN, 9);
        json_put_integer(&w, "none", head->refused);
        json_put_integer(&w, "none_right", head->right_refused);
    }
    json_put_number(&w, "temperature", head->temperature, 9);
    if (j->set.added) json_put_number(&w, "shrinkage", head->share, 9);
    json_put_integer(&w, "kept_bytes", (int64_t)j->record);
    json_put_decimals(&w, "embed_seconds", j->set.counts.seconds, 3);
    json_put_decimals(&w, "learn_seconds", j->seconds, 3);
    put_confusions(&w, j, counts);
    put_doubts(&w, j);
    json_put_end(&w, '}');
    putchar('\n');
    free(counts);
    return true;
}

/* === The command line === */

static const char description[] =
    "Learns the classes of photos PHOTOS/CLASS/IMAGE and writes a model of these classes: the\n"
    "backbone of MODEL.vit (-m) with a new head. Every program that takes a model can use it.\n"
    "PHOTOS may also be a file with lines 'PATH,CLASS'. A line 'PATH,CLASS;CLASS' gives a photo\n"
    "several classes, and 'PATH,' gives it none. PHOTOS may also be a model that vit-learn wrote:\n"
    "the classes of this model are added, and their photos are not needed. PHOTOS may also be an\n"
    "OUT.npy that vit-embed wrote: the photos listed in its OUT.txt are added, and the folder of a\n"
    "photo is its class. @ prints how many held-out photos get the right class, which photos look\n"
    "mislabelled, and which classes are mistaken for each other.\n";

static const char notes[] =
    "The head is scikit-learn's LogisticRegression(C=1) of embeddings scaled to a variance of 1,\n"
    "with probabilities calibrated on photos held out. A last class, \"" LEARNED_NONE "\", is the\n"
    "answer for photos that are like none of the classes. A folder of that name may hold examples\n"
    "of such photos. Without examples, this answer is rare for photos that look like a learnt\n"
    "class. DeiT-Ti learnt nine of CIFAR-10's ten classes from ten photos each. It then mistook 72\n"
    "to 97 % of the photos of the tenth class for one of the nine classes (the bundled model: 6 to\n"
    "59 %). A single class is recognised by the mean of its photos.\n"
    "OUT.vit keeps the embedding of each photo, 2 bytes a number, for --add and --forget.\n"
    "The order of the photos, the number of threads and the number of runs do not change the file.\n"
    "A second copy of a photo is left out; copies in two classes are an error.\n"
    "The time of logistic regression grows with photos times classes. --ridge learns a million\n"
    "photos of a thousand classes in minutes. With --ridge, OUT.vit keeps no embeddings for --add,\n"
    "copies of a photo are not left out, and the order of the rows changes the last bits of the\n"
    "weights. --ridge holds out one row in ten, at most 5,000, and does not learn from these rows.\n"
    "Exit status: 0 on success, 1 if an image could not be read or something failed, 2 for a\n"
    "wrong command.\n";

static bool choose(int argc, char **argv, choices *c, int *status) {
    const cli_option options[] = {
        CLI_OPTION_MODEL(&c->model),
        { 'o', "output", "OUT.vit", "the file to write", CLI_OUTPUT, &c->output, 0, 0 },
        { 0, "add", NULL, "add PHOTOS to what MODEL.vit has learnt before", CLI_FLAG, &c->add, 0,
          0 },
        { 0, "forget", "CLASS", "leave out a class that MODEL.vit has learnt", CLI_LIST, &c->forget,
          0, 0 },
        { 0, "several", NULL, "a photo may have any number of classes (sigmoid)", CLI_FLAG,
          &c->several, 0, 0 },
        { 0, "known", "P",
          "share of held-out photos for which the answer is not\n"
          "\"" LEARNED_NONE "\" (default 0.95); 1: the model lacks this class",
          CLI_NUMBER, &c->known, 0.5, 1 },
        { 0, "folds", "N",
          "hold out the photos in N parts (default 10, or 3 if 10 would take long)", CLI_INT,
          &c->folds, 2, 1000 },
        { 0, "ridge", NULL,
          "learn from files OUT.npy in one pass, for any number of photos, by one\n"
          "Gaussian for each class instead of logistic regression",
          CLI_FLAG, &c->ridge, 0, 0 },
        CLI_OPTION_BATCH(&c->batch, "4 on each thread"),
        CLI_OPTION_THREADS(&c->num_threads),
        CLI_OPTION_ISA(&c->isa),
        CLI_OPTION_JSON(&c->json, "print one JSON object"),
        CLI_OPTION_QUIET(&c->quiet),
        PHOTO_EXACT_OPTION(&c->photos),
        PHOTO_OPTIONS(&c->photos),
        CLI_END,
    };
    const cli_program program = { PROGRAM,         "[options] PHOTOS... -o OUT.vit",
                                  description,     options,
                                  notes,           0,
                                  CLI_MANY,        "PHOTOS",
                                  photos_library() };
    const char *wrong = NULL;
    if (!cli_parse(&program, argc, argv, &c->operands, status)) return false;
    if (!c->output) wrong = "missing -o OUT.vit";
    else if (!c->operands.count && !c->forget.count)
        wrong = c->add ? "--add needs PHOTOS" : "missing PHOTOS";
    for (int i = 0; c->ridge && !wrong && i < c->operands.count; i++)
        if (!ends_in(c->operands.items[i], ".npy"))
            wrong = "--ridge takes only files OUT.npy of vit-embed";
    if (!wrong && c->ridge && (c->add || c->several || c->forget.count || c->folds))
        wrong = "--ridge takes neither --add, --forget, --several nor --folds";
    if (!wrong) return true;
    *status = cli_wrong(PROGRAM, "%s", wrong);
    return false;
}

static bool run(job *j, report *r) {
    static const cli_size own_size = { 0, 0, 0 };
    const choices *c = j->chosen;
    if (!cli_model_choose(c->model, own_size, &j->model, &j->path, r)) return false;
    j->backbone = card_backbone(&j->model);
    j->decoder = photo_decoder_open(&c->photos, PROGRAM, c->num_threads, r);
    return j->decoder && (c->ridge || gather(j, r)) && learn(j, r) && write_model(j, r) &&
           (c->json ? print_json(j, r) : c->quiet || print_text(j, r));
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-learn");
    choices chosen;
    report r = report_make();
    job j;
    int status;
    bool good;
    memset(&chosen, 0, sizeof chosen);
    memset(&j, 0, sizeof j);
    chosen.known = 0.95;
    j.chosen = &chosen;
    if (choose(argc, argv, &chosen, &status)) {
        good = run(&j, &r);
        if (r.failed) report_print(&r, PROGRAM);
        status = cli_finish(PROGRAM, good && !j.set.counts.unreadable ? CLI_OK : CLI_FAILED);
    }
    learned_head_free(&j.head);
    learned_free(&j.set);
    free(j.doubts);
    photo_decoder_close(j.decoder);
    vit_model_close(&j.model);
    free(j.path);
    text_list_free(&chosen.operands);
    text_list_free(&chosen.forget);
    return status;
}
