/* vit-classify.c - classifies photos, and sorts them into folders by class.
 *
 *     vit-classify cat.jpg                               with the bundled model
 *     vit-classify -m vit_base.vit -k 3 photos/
 *     vit-classify -m vit_base.vit photos/ --sort by_class --move
 *     vit-classify -m clip.vit --classes text.npy --class-names words.txt cat.jpg
 *     ffmpeg -i cat.mp4 -f mjpeg - | vit-classify --frames auto
 *
 * infer.h runs the forward pass. Frames and small numbers of photos are computed one after the
 * other, each on all cores. Many photos are computed at once, each on one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/report.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "image/photo_source.h"
#include "image/sort.h"
#include "infer/classes.h"
#include "infer/infer.h"
#include "numbers/precision.h"
#include "os/os.h"
#include "vit.h"

#define PROGRAM cli_name()

/* The command line. */
typedef struct choices {
    const char *model;
    cli_size img_size;
    int k;        /* number of classes to print; 0 if not given */
    double above; /* classes below this probability are not printed; negative if not given */
    int num_threads, batch;
    vit_isa isa;
    bool json, csv, quiet;
    text_list lists; /* files with lists of photos */
    bool null;
    const char *sort;
    bool copy, move, dry_run;    /* options of --sort */
    zero_shot_options zero_shot; /* zero_shot.sigmoid also takes effect without --classes */
    photo_options photos;
    const char *frames, *pixels;
    vit_image raw; /* size and format of the frames, from --frames and --pixels */
    int every, smooth;
    bool realtime;
} choices;

typedef struct classifier {
    const choices *chosen;
    photo_paths photos;
    bool several; /* true if the text output names each photo */
    vit_model model;
    char *path;          /* path of the model */
    zero_shot zero_shot; /* for --classes, like the next member */
    embedding_choice choice;
    int num_classes; /* number of the model's classes, or of --classes */
    /* [num_classes]: logits of the latest image; `probs` has its probabilities */
    const float *logits;
    float *probs;
    float *cosines;            /* scaled cosines, which are the logits of --classes */
    vit_prediction *top;       /* the most likely classes; with --above, all classes */
    photo_sorter sorter;       /* for --sort, like the next member */
    int sorted[SORT_GONE + 1]; /* number of photos with each sort_result */
    int unlikely;
    photo_decoder *decoder;
    frame_reader reader; /* for --frames, like the members below */
    /* mean of the probabilities over the last frames */
    running_mean mean;
    /* all in ms; `latency` is the latency of the latest frame */
    double latency, sum_of_latencies, worst_latency;
} classifier;

/* Closes a classifier, which may be zeroed or partly open. */
static void classifier_close(classifier *c) {
    running_mean_close(&c->mean);
    photo_decoder_close(c->decoder);
    photo_paths_close(&c->photos);
    sort_close(&c->sorter);
    zero_shot_close(&c->zero_shot);
    free(c->top);
    free(c->cosines);
    free(c->probs);
    free(c->path);
    vit_model_close(&c->model);
}

static bool open_zero_shot(classifier *c, report *r) {
    const choices *chosen = c->chosen;
    const embedding_request asked = { PROGRAM,
                                      chosen->model,
                                      NULL,
                                      -1,
                                      { chosen->img_size[0], chosen->img_size[1],
                                        chosen->img_size[2] } };
    if (!zero_shot_open(&c->zero_shot, &chosen->zero_shot, &asked, &c->model, &c->path, &c->choice,
                        r))
        return false;
    c->num_classes = c->zero_shot.count;
    c->cosines = malloc((size_t)c->num_classes * sizeof *c->cosines);
    return c->cosines || report_no_memory(r);
}

static bool open_model(classifier *c, report *r) {
    const choices *chosen = c->chosen;
    if (!cli_model_choose(chosen->model, chosen->img_size, &c->model, &c->path, r)) return false;
    c->num_classes = c->model.config.num_classes;
    if (c->num_classes == 0) {
        (void)report_fail(r, "the model names no classes; give texts with --classes, or use "
                             "vit-embed for the model's embeddings");
        return report_file(r, c->path);
    }
    if (chosen->zero_shot.sigmoid) c->model.config.head_activation = VIT_HEAD_SIGMOID;
    return true;
}

/* Returns the label of a class; NULL if the class has no label. */
static const char *label_of(const classifier *c, int index) {
    return c->cosines ? c->zero_shot.texts.names[index] : vit_label(&c->model, index);
}

static bool open_sorter(classifier *c, report *r) {
    const choices *chosen = c->chosen;
    const char **labels;
    bool good;
    if (!chosen->sort) return true;
    labels = malloc((size_t)c->num_classes * sizeof *labels);
    if (!labels) return report_no_memory(r);
    for (int i = 0; i < c->num_classes; i++) labels[i] = label_of(c, i);
    c->sorter.folder = chosen->sort;
    c->sorter.way = chosen->copy ? SORT_COPY : chosen->move ? SORT_MOVE : SORT_LINK;
    c->sorter.dry = chosen->dry_run;
    good = sort_open(&c->sorter, labels, c->num_classes, r);
    free(labels);
    return good;
}

/* Opens the classifier. Close it even after a failure. */
static bool classifier_open(classifier *c, report *r) {
    const choices *chosen = c->chosen;
    size_t classes, listed;
    if (!(chosen->zero_shot.classes ? open_zero_shot(c, r) : open_model(c, r)) ||
        !open_sorter(c, r))
        return false;
    classes = (size_t)c->num_classes;
    listed = chosen->above >= 0 ? classes : (size_t)chosen->k;
    c->probs = malloc(classes * sizeof *c->probs);
    c->top = malloc(listed * sizeof *c->top);
    return (c->probs && c->top && running_mean_open(&c->mean, chosen->smooth, c->num_classes)) ||
           report_no_memory(r);
}

/* ------------------------------------------------------------------------- */
/* The answer of the classifier                                              */
/* ------------------------------------------------------------------------- */

/* Computes the logits and the probabilities of a photo. */
static void score(classifier *c, infer_result *result) {
    const size_t size = (size_t)c->num_classes * sizeof *c->probs;
    if (c->cosines) {
        zero_shot_logits(&c->zero_shot, embedding_of(&c->choice, &c->model, result), c->cosines);
        c->logits = c->cosines;
    } else {
        c->logits = result->logits;
    }
    memcpy(c->probs, c->logits, size);
    if (c->cosines) zero_shot_scores(&c->zero_shot, c->probs);
    else vit_scores(&c->model, c->probs);
}

/* Writes the best classes by `scores` to c->top; returns how many of them to print. */
static int rank(const classifier *c, const float *scores) {
    int classes = c->num_classes, count = 0;
    if (c->chosen->above < 0) return vit_top_k(scores, classes, c->chosen->k, c->top);
    vit_top_k(scores, classes, classes, c->top);
    while (count < classes && (double)c->probs[c->top[count].index] >= c->chosen->above) count++;
    return count;
}

/* Prints a line for each class or, for a frame, a single line. */
static void print_text(const classifier *c, int count) {
    const char *end = c->chosen->frames ? ";" : "\n";
    if (count == 0) printf("        no class reaches the probability of --above");
    for (int i = 0; i < count; i++) {
        int index = c->top[i].index;
        const char *label = label_of(c, index);
        printf("%s%5.1f %%  ", i ? end : "", 100.0 * (double)c->probs[index]);
        if (label) text_print(stdout, "%s", label);
        else printf("class %d", index);
    }
    putchar('\n');
}

static void print_csv(const classifier *c, const infer_result *result, int count,
                      const char *place) {
    for (int i = 0; i < count; i++) {
        const int index = c->top[i].index;
        const char *label = label_of(c, index);
        if (c->chosen->frames) printf("%lld", (long long)c->reader.current.number);
        else cli_put_field(stdout, result->name);
        printf(",%d,%d,", i + 1, index);
        cli_put_field(stdout, label ? label : "");
        printf(",%.9g,%.9g", (double)c->probs[index], (double)c->logits[index]);
        if (c->chosen->sort) putchar(',');
        if (place) cli_put_field(stdout, place);
        putchar('\n');
    }
}

static void print_json(const classifier *c, const infer_result *result, int count,
                       const char *place) {
    char decoding[PHOTOS_DECODING_SIZE];
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    if (c->chosen->frames) json_put_integer(&w, "frame", c->reader.current.number);
    else json_put_text(&w, "image", result->name);
    if (c->cosines) json_put_text(&w, "classes", c->zero_shot.texts.path);
    json_put_begin(&w, "top", '[');
    for (int i = 0; i < count; i++) {
        int index = c->top[i].index;
        json_put_begin(&w, NULL, '{');
        json_put_integer(&w, "index", index);
        json_put_text(&w, "label", label_of(c, index));
        json_put_number(&w, "prob", (double)c->probs[index], 9);
        json_put_number(&w, "logit", (double)c->logits[index], 9);
        json_put_end(&w, '}');
    }
    json_put_end(&w, ']');
    if (c->chosen->sort) json_put_text(&w, "sorted", place);
    json_put_text(&w, "isa", vit_isa_name(c->chosen->isa ? c->chosen->isa : vit_detect_isa()));
    json_put_text(&w, "decoder", photos_decoding(&c->chosen->photos, decoding));
    json_put_begin(&w, "ms", '{');
    json_put_decimals(&w, "load", result->load_ms + c->reader.current.decode_ms, 3);
    json_put_decimals(&w, "forward", result->forward_ms, 3);
    if (c->chosen->frames) json_put_decimals(&w, "latency", c->latency, 3);
    json_put_end(&w, '}');
    json_put_end(&w, '}');
    putchar('\n');
}

/* Measures the time from a frame's last byte to its result. */
static void take_latency(classifier *c) {
    c->latency = cli_now_ms() - c->reader.current.read_at;
    c->sum_of_latencies += c->latency;
    if (c->latency > c->worst_latency) c->worst_latency = c->latency;
}

/* Sorts the image into the folder of its most likely class. *place receives the image's new path,
 * malloc'ed, and stays NULL if there is none. */
static bool sort_image(classifier *c, const char *image, int count, char **place, report *r) {
    sort_result done;
    if (count == 0) { /* --above excludes all classes */
        c->unlikely++;
        return true;
    }
    done = sort_place(&c->sorter, image, c->top[0].index, place, r);
    c->sorted[done]++;
    if (done == SORT_GONE)
        report_error(PROGRAM, image,
                     "the image no longer exists: it was moved or removed, or it was given twice");
    return done != SORT_FAILED;
}

static void print_photo(const classifier *c, const infer_result *result, int count,
                        const char *place) {
    if (c->chosen->csv) {
        print_csv(c, result, count, place);
    } else if (c->chosen->json) {
        print_json(c, result, count, place);
    } else if (c->chosen->sort) {
        if (place) text_print(stdout, "%s -> %s\n", result->name, place);
    } else {
        if (c->chosen->frames) printf("%6lld  ", (long long)c->reader.current.number);
        else if (c->several) text_print(stdout, "%s\n", result->name);
        print_text(c, count);
    }
}

/* An infer_take that prints the result of an image and sorts the image. */
static bool print_result(void *user, infer_result *result, report *r) {
    classifier *c = user;
    char *place = NULL;
    int count;
    bool good = true;
    if (result->error) return true;
    score(c, result);
    running_mean_add(&c->mean, c->probs);
    count = rank(c, c->chosen->smooth > 1 ? c->probs : c->logits);
    if (c->chosen->frames) take_latency(c);
    if (c->chosen->sort) good = sort_image(c, result->name, count, &place, r);
    if (good) print_photo(c, result, count, place);
    free(place);
    return good && cli_flush(PROGRAM);
}

/* ------------------------------------------------------------------------- */
/* All images                                                                */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Prints the most likely classes of each IMAGE: a JPEG, PNG, BMP, GIF (its first frame), TGA,\n"
    "PGM or PPM file, or '-' for standard input. A FOLDER stands for all images in it and below\n"
    "it, sorted. Grey, palette and alpha images are converted to RGB. JPEGs are rotated by their\n"
    "EXIF orientation. For a tagger, --above 0.35 prints all labels with a probability of at least\n"
    "0.35. With --classes, the classes are texts, or vectors of texts.\n"
    "--sort puts each image into the folder of its most likely class, and prints the new path.\n"
    "--frames reads a STREAM (default: standard input) and prints a line for each frame: the number\n"
    "of the frame, counted from 1, and the most likely class.\n";

static const char notes[] =
    "--sort DIR makes DIR/CLASS/IMAGE: a symbolic link, or a file with --copy or --move. Windows\n"
    "needs --copy or --move. No file is ever replaced: a second cat.jpg becomes cat-2.jpg. An\n"
    "image that is already in its folder stays there, so an interrupted run can be started again.\n"
    "--above P leaves out images whose most likely class has a probability below P. CLASS is the\n"
    "label; '_' replaces / \\ : * ? \" < > | and a dot at either end. If two labels become equal,\n"
    "each label is followed by the number of its class. If a file cannot be written, the run ends.\n"
    "--csv has the columns image (or frame), rank, index, label, prob, logit and, with --sort,\n"
    "sorted.\n"
    "Streams: ffmpeg -i cat.mp4 -f mjpeg - | @ --frames auto\n"
    "    ffmpeg -i cat.mp4 -f rawvideo -pix_fmt nv12 - | @ --frames 640x480 --pixels nv12\n"
    "Latency (printed in --json and at the end) is the time from a frame's last byte to its result.\n" ZERO_SHOT_NOTES
    "timm and Pillow ignore the EXIF orientation. --no-exif gives the same results as they do.\n"
    "Exit status: 0 on success, 1 if an image could not be read or sorted, 2 for a wrong\n"
    "command.\n";

static const char *wrong_sort(const choices *c, const text_list *images) {
    if (!c->sort)
        return c->copy || c->move || c->dry_run ? "--copy, --move and --dry-run need --sort DIR"
                                                : NULL;
    if (!*c->sort) return "--sort: the folder has an empty name";
    if (c->frames) return "--sort is for image files, not for --frames";
    if (c->copy && c->move) return "either --copy or --move, not both";
    for (int i = 0; i < images->count; i++)
        if (strcmp(images->items[i], "-") == 0) return "--sort cannot sort standard input";
    return c->copy || c->move || sort_can_link()
               ? NULL
               : "--sort: this system allows links only to administrators; add --copy or --move";
}

/* Checks rules that the table of options cannot express. */
static bool check_command(choices *c, const text_list *images, report *r) {
    const int operands = images->count;
    const char *wrong = zero_shot_wrong(&c->zero_shot);
    if (!wrong) wrong = wrong_sort(c, images);
    if (wrong) return report_fail(r, "%s", wrong);
    if (c->json && c->csv) return report_fail(r, "either --json or --csv, not both");
    if (c->null && !c->lists.count) return report_fail(r, "--null needs --list FILE");
    if (c->above >= 0 && c->k > 0) return report_fail(r, "either --top or --above, not both");
    if (c->frames) {
        if (operands + c->lists.count > 1) return report_fail(r, "--frames reads one stream");
        if (c->lists.count) return report_fail(r, "--list is for images, not for --frames");
        if (c->batch)
            return report_fail(r, "--frames takes one frame at a time and excludes --batch");
        return frames_choose(c->frames, c->pixels, &c->raw, r);
    }
    if (operands + c->lists.count == 0) return report_fail(r, "missing IMAGE");
    return !(c->pixels || c->every > 1 || c->smooth > 1 || c->realtime) ||
           report_fail(r, "--pixels, --every, --smooth and --realtime need --frames");
}

/* Sets the choices from the command line. Returns false if the program should exit with *status. */
static bool choose(int argc, char **argv, choices *c, text_list *images, int *status) {
    const cli_option options[] = {
        CLI_OPTION_MODEL(&c->model),
        CLI_OPTION_IMG_SIZE(c->img_size),
        PHOTO_LIST_OPTIONS(&c->lists, &c->null),
        CLI_OPTION_TOP(&c->k, "how many classes to print (default 5; 1 with --frames)", 1000),
        { 0, "above", "P", "print all classes with a probability of at least P, not the top N",
          CLI_NUMBER, &c->above, 0, 1 },
        { 0, "sigmoid", NULL,
          "give each class an independent probability: for SigLIP, and\n"
          "for taggers whose file lacks this setting",
          CLI_FLAG, &c->zero_shot.sigmoid, 0, 0 },
        ZERO_SHOT_OPTIONS(&c->zero_shot),
        { 0, "sort", "DIR", "put each image into the folder DIR/CLASS: see below", CLI_TEXT,
          &c->sort, 0, 0 },
        { 0, "copy", NULL, "sort copies of the images, not links to them", CLI_FLAG, &c->copy, 0,
          0 },
        { 0, "move", NULL, "move the images, instead of linking them", CLI_FLAG, &c->move, 0, 0 },
        { 0, "dry-run", NULL, "print the folder of each image, but write nothing", CLI_FLAG,
          &c->dry_run, 0, 0 },
        CLI_OPTION_BATCH(&c->batch, "4 on each thread"),
        CLI_OPTION_THREADS(&c->num_threads),
        CLI_OPTION_ISA(&c->isa),
        CLI_OPTION_JSON(&c->json, "print one JSON object per line, for each image"),
        CLI_OPTION_CSV(&c->csv, "print comma-separated values, with a header line"),
        CLI_OPTION_QUIET(&c->quiet),
        PHOTO_EXACT_OPTION(&c->photos),
        PHOTO_OPTIONS(&c->photos),
        { 0, "frames", "WxH|auto",
          "classify a stream: raw video of this width and height;\n"
          "auto: consecutive JPEGs (MJPEG), PPMs or PGMs",
          CLI_TEXT, &c->frames, 0, 0 },
        { 0, "pixels", "NAME",
          "pixels of raw video: rgb24 (default), bgr24, gray, yuyv, nv12,\n"
          "rgb565, rgba or bgra; YUV as BT.601, limited range",
          CLI_TEXT, &c->pixels, 0, 0 },
        { 0, "every", "N", "only frames 1, 1 + N, 1 + 2 N, ...", CLI_INT, &c->every, 1, 1000000 },
        { 0, "smooth", "N", "print each probability as its mean over the last N frames", CLI_INT,
          &c->smooth, 1, 1000 },
        { 0, "realtime", NULL, "skip to the latest frame; drop and count the skipped frames",
          CLI_FLAG, &c->realtime, 0, 0 },
        CLI_END,
    };
    const cli_program program = {
        PROGRAM,         "[options] (IMAGE|FOLDER... | --frames WxH|auto [STREAM])",
        description,     options,
        notes,           0,
        CLI_MANY,        "IMAGE",
        photos_library()
    };
    report r = report_make();
    if (!cli_parse(&program, argc, argv, images, status)) return false;
    if (check_command(c, images, &r)) {
        if (c->k == 0) c->k = c->frames || (c->sort && !c->json && !c->csv) ? 1 : 5;
        return true;
    }
    *status = cli_wrong(PROGRAM, "%s", r.text);
    text_list_free(images);
    return false;
}

/* True if all threads work together on one image, for the shortest delay. */
static bool is_few(const classifier *c) {
    return c->chosen->frames ||
           (!c->chosen->batch && !c->chosen->lists.count && c->photos.list.count < INFER_BATCH);
}

/* Classifies all photos of the source. Photos that fail are reported, and the function then returns
 * false at the end. */
static bool classify(classifier *c, photo_source *source, infer_counts *counts) {
    infer_settings settings;
    report r = report_make();
    bool good;
    memset(&settings, 0, sizeof settings);
    settings.model = &c->model;
    settings.program = PROGRAM;
    settings.num_threads = c->chosen->num_threads;
    settings.batch = c->chosen->batch;
    settings.isa = c->chosen->isa;
    settings.together = is_few(c);
    settings.progress = !c->chosen->quiet && !c->chosen->frames && !os_is_terminal(stdout);
    settings.decoder = c->decoder;
    if (c->cosines) embedding_ask(&c->choice, &settings);
    else settings.outputs = INFER_LOGITS;
    settings.take = print_result;
    settings.user = c;
    good = infer_run(&settings, source, counts, &r);
    if (r.failed) report_print(&r, PROGRAM);
    return good && counts->unreadable == 0;
}

/* Finds the images. A missing image counts as unreadable, and the run continues with the other
 * images. */
static bool find_images(classifier *c, const text_list *images, report *r) {
    photo_paths *photos = &c->photos;
    bool good = true;
    photos->lists = c->chosen->lists;
    photos->separator = c->chosen->null ? '\0' : '\n';
    for (int i = 0; good && i < images->count; i++) {
        const char *image = images->items[i];
        good = photos_is_folder(image) ? photos_add_some(&photos->list, image, r)
                                       : photos_append(&photos->list, image, r);
    }
    c->several = photos->list.count != 1 || photos->lists.count;
    return good;
}

static void print_sums(const classifier *c) {
    static const char *const done[] = { "linked", "copied", "moved" };
    fprintf(stderr, "%s: %d %s", PROGRAM, c->sorted[SORT_PLACED],
            c->sorter.dry ? "to be sorted" : done[c->sorter.way]);
    if (c->sorted[SORT_THERE]) fprintf(stderr, ", %d there already", c->sorted[SORT_THERE]);
    if (c->unlikely) fprintf(stderr, ", %d below the probability of --above", c->unlikely);
    if (c->sorted[SORT_GONE]) fprintf(stderr, ", %d gone", c->sorted[SORT_GONE]);
}

static bool classify_images(classifier *c) {
    infer_counts counts;
    photo_source source = photo_paths_source(&c->photos);
    const bool good = classify(c, &source, &counts);
    if (c->chosen->sort && !c->chosen->quiet) {
        print_sums(c);
        if (counts.unreadable) fprintf(stderr, ", %.0f unreadable", (double)counts.unreadable);
        fputc('\n', stderr);
    }
    return good && c->sorted[SORT_GONE] == 0;
}

static void print_summary(const classifier *c, const infer_counts *counts) {
    const double read = (double)counts->read;
    fprintf(stderr, "%s: %.0f frames", PROGRAM, read);
    if (c->chosen->realtime) fprintf(stderr, ", %lld dropped", (long long)c->reader.dropped);
    if (counts->unreadable) fprintf(stderr, ", %.0f unreadable", (double)counts->unreadable);
    if (counts->read) {
        fprintf(stderr, "; %.1f a second; latency %.1f ms on average, %.1f ms at most",
                read / counts->seconds, c->sum_of_latencies / read, c->worst_latency);
    }
    fputc('\n', stderr);
}

static bool classify_frames(classifier *c, const char *path) {
    photo_source source = frame_reader_source(&c->reader);
    infer_counts counts;
    report r = report_make();
    bool good;
    c->reader.raw = c->chosen->raw;
    c->reader.decoder = c->decoder;
    c->reader.every = c->chosen->every;
    c->reader.realtime = c->chosen->realtime;
    if (!frame_reader_open(&c->reader, path, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    good = classify(c, &source, &counts);
    frame_reader_close(&c->reader);
    if (!c->chosen->quiet) print_summary(c, &counts);
    return good;
}

static void print_columns(const choices *c) {
    printf("%s,rank,index,label,prob,logit%s\n", c->frames ? "frame" : "image",
           c->sort ? ",sorted" : "");
}

static bool run(classifier *c, const text_list *images) {
    const choices *chosen = c->chosen;
    report r = report_make();
    bool good = chosen->frames || find_images(c, images, &r);
    if (good)
        c->decoder = photo_decoder_open(&chosen->photos, PROGRAM,
                                        is_few(c) ? 1 : chosen->num_threads, &r);
    if (!c->decoder || !classifier_open(c, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    if (chosen->csv) print_columns(chosen);
    if (!chosen->frames) return classify_images(c);
    return classify_frames(c, images->count ? images->items[0] : "-");
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-classify");
    const zero_shot_options none = ZERO_SHOT_NONE;
    choices chosen;
    classifier c;
    text_list images;
    bool good;
    int status;

    memset(&chosen, 0, sizeof chosen);
    chosen.above = -1;
    chosen.every = chosen.smooth = 1;
    chosen.zero_shot = none;
    if (!choose(argc, argv, &chosen, &images, &status)) {
        text_list_free(&chosen.lists);
        text_list_free(&chosen.zero_shot.templates);
        return status;
    }
    memset(&c, 0, sizeof c);
    c.chosen = &chosen;
    good = run(&c, &images);
    classifier_close(&c);
    text_list_free(&images);
    text_list_free(&chosen.lists);
    text_list_free(&chosen.zero_shot.templates);
    return cli_finish(PROGRAM, good ? CLI_OK : CLI_FAILED);
}
