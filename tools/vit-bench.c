/* vit-bench.c - measures the speed of a model on this machine, relative to the peak speed of the
 * machine, and the time of each phase of a forward pass.
 *
 *     vit-bench --arch vit_base_patch16_224                random weights, without a file
 *     vit-bench -m deit.vit -t 1 --json
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/report.h"
#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "bench/bench.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/timm_names.h"
#include "os/os.h"
#define VIT_TOOLS
#include "vit.h"

#define PROGRAM cli_name()

enum { MAX_RUNS = 100000, MIN_RUNS = 5, MAX_PEAKS = 10000, PEAK_MS = 30, COLD_STARTS = 3 };

typedef struct choices {
    const char *model, *arch;
    vit_dtype dtype; /* type of the weights; VIT_NUM_DTYPES if not given */
    vit_isa isa;
    int num_threads, batch, runs;
    double seconds;
    bool json, list_archs;
} choices;

/* The time of each phase of the forward passes, which on_phase adds up. */
typedef struct stopwatch {
    vit_phase phase;
    double since;
    /* time of each phase; ms[VIT_PHASE_END] is the time between passes */
    double ms[VIT_NUM_PHASES];
} stopwatch;

/* The result of a cold start. The child process that computes one pass sends this struct through a
 * pipe. */
typedef struct cold_start {
    double open_ms;
    /* time of the first logits, by cli_now_ms(), from which the parent computes a duration */
    double ready_ms;
    double private_bytes; /* bytes of private memory of the child; NaN if unknown */
} cold_start;

/* The state of one run of the program. The struct is zeroed, then filled in step by step.
 * bench_free accepts it in any state. */
typedef struct bench {
    const choices *chosen;
    const char *executable; /* argv[0] */
    cli_output random;      /* file of random weights; random.file is NULL without --arch */
    const char *path;       /* path of the model */
    /* path of the bundled model, malloc'ed; NULL if another model was given */
    char *bundled;
    char name[256];
    vit_model model;
    vit_params params;
    int batch;
    vit_threads *threads;
    vit_session session;
    void *workspace;
    size_t workspace_size;
    float *input, *output;
    stopwatch watch;
    const peak_loop *loop;
    double runs[MAX_RUNS], peaks[MAX_PEAKS]; /* time of each batch in ms; peak speeds in GFLOP/s */
    int num_runs, num_peaks;
    cold_start cold;
} bench;

static void bench_free(bench *b) {
    free(b->bundled);
    free(b->output);
    free(b->input);
    free(b->workspace);
    vit_threads_destroy(b->threads);
    vit_model_close(&b->model);
    if (b->random.file) cli_output_abandon(&b->random);
}

static bool out_of_memory(void) {
    report_error(PROGRAM, NULL, "out of memory");
    return false;
}

/* ------------------------------------------------------------------------- */
/* A model of random weights                                                 */
/* ------------------------------------------------------------------------- */

/* Writes the model of random weights into a file. Opening this file takes as long as opening any
 * other model, and the child processes can open it too. The file keeps its temporary name.
 * cli_output removes it at the end of the program, or on Ctrl-C. */
static bool make_model(bench *b, const arch_choice *choice) {
    char *folder, path[1024], detail[VIT_MAX_DETAIL];
    report r = report_make();
    vit_config config;
    arch_config(choice, &config);
    config.num_classes = 1000;
    if (vit_config_check(&config, detail) != VIT_OK) {
        report_error(PROGRAM, choice->arch->name, "%s", detail);
        return false;
    }
    folder = os_temporary_folder();
    snprintf(path, sizeof path, "%.900s/vit-bench.vit", folder ? folder : ".");
    free(folder);
    if (!cli_output_open(&b->random, path, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    b->path = b->random.temporary;
    arch_full_name(choice, b->name, sizeof b->name);
    if (bench_write_random(b->random.file, &config, b->chosen->dtype, &r)) return true;
    (void)report_file(&r, b->path);
    report_print(&r, PROGRAM);
    return false;
}

/* ------------------------------------------------------------------------- */
/* Model and session                                                         */
/* ------------------------------------------------------------------------- */

/* Returns the type of most weights. Some weights are f32 in every file. */
static const char *dtype_of(const vit_model *model) {
    enum { MAX_DTYPES = 16 };
    double counts[MAX_DTYPES] = { 0 };
    int most = VIT_F32;
    vit_tensor tensor;
    for (int i = 0; vit_model_tensor(model, i, &tensor); i++) {
        int dtype = (int)tensor.dtype;
        if (dtype < MAX_DTYPES) counts[dtype] += (double)tensor_count(&tensor);
        if (dtype < MAX_DTYPES && counts[dtype] > counts[most]) most = dtype;
    }
    return tensor_dtype_name((vit_dtype)most);
}

/* Sets b->name to the name of the architecture in the file or, if there is none, to the name of the
 * file. */
static void name_model(bench *b) {
    static const char key[] = "architecture: ";
    const char *line = strstr(vit_source(&b->model), key);
    if (b->name[0]) return;
    if (line) {
        line += strlen(key);
        snprintf(b->name, sizeof b->name, "%.*s", (int)strcspn(line, "\n"), line);
    } else {
        snprintf(b->name, sizeof b->name, "%s", paths_file_name(b->path));
    }
}

static bool open_model(bench *b) {
    report r = report_make();
    if (!cli_model_open(b->path, 0, &b->model, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    name_model(b);
    return true;
}

/* Opens a session. The measurement and each cold start need a session. The model must be open, and
 * b->params must be set. */
static bool start_session(bench *b, int num_threads) {
    const vit_config *c = &b->model.config;
    size_t image = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    size_t batch = (size_t)b->batch;
    int width = c->num_classes ? c->num_classes : vit_embedding_dim(&b->model);
    vit_result result = vit_threads_create(num_threads, &b->threads, &b->params.executor);
    if (result == VIT_OK) {
        b->workspace_size = vit_workspace_size(&b->model, &b->params);
        b->workspace = malloc(b->workspace_size);
        b->input = malloc(batch * image * sizeof(float));
        b->output = malloc(batch * (size_t)width * sizeof(float));
        if (!b->workspace || !b->input || !b->output) return out_of_memory();
        vit_selftest_input(c, b->input);
        for (size_t i = 1; i < batch; i++)
            memcpy(b->input + i * image, b->input, image * sizeof(float));
        result = vit_session_init(&b->session, &b->model, &b->params, b->workspace,
                                  b->workspace_size);
    }
    if (result != VIT_OK) report_error(PROGRAM, NULL, "%s", vit_result_string(result));
    return result == VIT_OK;
}

static bool forward(bench *b) {
    vit_outputs outputs = { 0 };
    vit_result result;
    if (b->model.config.num_classes) outputs.logits = b->output;
    else outputs.embedding = b->output;
    result = vit_forward(&b->session, &(vit_input){ .pixels = b->input, .batch = b->batch },
                         &outputs);
    if (result != VIT_OK) report_error(PROGRAM, NULL, "%s", vit_result_string(result));
    return result == VIT_OK;
}

/* ------------------------------------------------------------------------- */
/* Cold start                                                                */
/* ------------------------------------------------------------------------- */

/* The first argument of a child process that measures a cold start. The command line of the child
 * is PROGRAM COLD MODEL ISA THREADS BATCH, with decimal numbers. */
#define COLD "--cold-start"

/* Runs in the child process, and classifies one batch as any program would. */
static int run_cold(char **arguments) {
    static bench b;
    cold_start cold;
    double start = cli_now_ms();
    bool good;
    b.path = arguments[0];
    b.params.isa = (vit_isa)atoi(arguments[1]);
    b.batch = atoi(arguments[3]);
    good = open_model(&b);
    cold.open_ms = cli_now_ms() - start;
    good = good && start_session(&b, atoi(arguments[2])) && forward(&b);
    cold.ready_ms = cli_now_ms();
    /* The number of private bytes includes workspace, buffers and stacks. It excludes the mapped
     * weights, even if their file was written just before. */
    cold.private_bytes = os_private_bytes();
    bench_free(&b);
    if (!good) return CLI_FAILED;
    return fwrite(&cold, sizeof cold, 1, stdout) == 1 && fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
}

/* Measures one cold start. The model's file is in the cache of the operating system, as for a
 * program that is started often. */
static bool start_cold(const bench *b, cold_start *cold) {
    const double start = cli_now_ms();
    char numbers[3][16];
    char *arguments[] = { (char *)(uintptr_t)b->executable,
                          (char *)(uintptr_t)COLD,
                          (char *)(uintptr_t)b->path,
                          numbers[0],
                          numbers[1],
                          numbers[2],
                          NULL };
    snprintf(numbers[0], sizeof numbers[0], "%d", (int)b->params.isa);
    snprintf(numbers[1], sizeof numbers[1], "%d", b->chosen->num_threads);
    snprintf(numbers[2], sizeof numbers[2], "%d", b->chosen->batch);
    if (!os_run_again(arguments, cold, sizeof *cold)) return false;
    cold->ready_ms -= start;
    return true;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the median, and sorts the values. */
static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static bool measure_cold(bench *b) {
    double open_ms[COLD_STARTS], ready_ms[COLD_STARTS];
    for (int i = 0; i < COLD_STARTS; i++) {
        errno = 0;
        if (!start_cold(b, &b->cold)) {
            report_error(PROGRAM, NULL, "a second process for the cold start cannot be run: %s",
                         errno ? strerror(errno) : "it failed");
            return false;
        }
        open_ms[i] = b->cold.open_ms;
        ready_ms[i] = b->cold.ready_ms;
    }
    b->cold.open_ms = median(open_ms, COLD_STARTS);
    b->cold.ready_ms = median(ready_ms, COLD_STARTS);
    return true;
}

/* ------------------------------------------------------------------------- */
/* Runs                                                                      */
/* ------------------------------------------------------------------------- */

/* The vit_on_phase of every run. It is called some hundred times per pass, and each call takes at
 * most 50 ns, which is negligible. */
static void on_phase(void *user, vit_phase phase) {
    stopwatch *watch = user;
    double now = cli_now_ms();
    watch->ms[watch->phase] += now - watch->since;
    watch->phase = phase;
    watch->since = now;
}

static void measure_peak(bench *b) {
    if (b->num_peaks == MAX_PEAKS) return;
    b->peaks[b->num_peaks++] = peak_measure(b->loop, &b->params.executor, PEAK_MS);
}

static bool enough_runs(const bench *b, double run_ms) {
    if (b->num_runs == MAX_RUNS) return true;
    if (b->chosen->runs) return b->num_runs >= b->chosen->runs;
    return b->num_runs >= MIN_RUNS && run_ms >= b->chosen->seconds * 1e3;
}

/* Alternates forward passes with measurements of the peak, so a slowdown of the machine affects
 * both. The measurements of the peak take about a fifth of the time. */
static bool measure_runs(bench *b) {
    double run_ms = 0, peak_ms = 0;
    cli_progress progress;
    /* this pass is not timed: it maps the pages of the weights, and raises the clock of the CPU */
    if (!forward(b)) return false;
    memset(&b->watch, 0, sizeof b->watch);
    cli_progress_start(&progress, "measuring",
                       b->chosen->runs ? (uint64_t)b->chosen->runs
                                       : (uint64_t)(b->chosen->seconds * 1e3));
    do {
        double start;
        if (peak_ms <= run_ms / 4) {
            measure_peak(b);
            peak_ms += PEAK_MS;
        }
        start = cli_now_ms();
        if (!forward(b)) return false;
        b->runs[b->num_runs] = cli_now_ms() - start;
        run_ms += b->runs[b->num_runs++];
        cli_progress_update(&progress, b->chosen->runs ? (uint64_t)b->num_runs : (uint64_t)run_ms);
    } while (!enough_runs(b, run_ms));
    measure_peak(b);
    cli_progress_clear(&progress);
    return true;
}

/* ------------------------------------------------------------------------- */
/* Report                                                                    */
/* ------------------------------------------------------------------------- */

typedef struct phase_share {
    const char *name;
    double share; /* share of the time of all runs */
} phase_share;

typedef struct figures {
    const char *dtype, *isa;
    double median, min, max; /* time of one image in ms */
    double operations;       /* number of operations of one image */
    double gflops, peak;     /* speed at the median time; median of the peak speeds */
    phase_share phases[VIT_NUM_PHASES];
    int num_phases;
} figures;

/* Computes the share of each phase. Phases that took no time stay in the list, so that all models
 * have the same list. */
static void share_phases(const stopwatch *watch, figures *f) {
    double sum = 0;
    for (int i = 0; i < VIT_NUM_PHASES; i++) sum += i == VIT_PHASE_END ? 0 : watch->ms[i];
    for (int i = 0; i < VIT_NUM_PHASES; i++) {
        phase_share *p = &f->phases[f->num_phases];
        if (i == VIT_PHASE_END) continue;
        p->name = vit_phase_name((vit_phase)i);
        p->share = sum > 0 ? watch->ms[i] / sum : 0;
        f->num_phases++;
    }
}

static void compute_figures(bench *b, figures *f) {
    memset(f, 0, sizeof *f);
    f->dtype = dtype_of(&b->model);
    f->isa = vit_isa_name(b->session.isa);
    f->median = median(b->runs, b->num_runs) / b->chosen->batch;
    f->min = b->runs[0] / b->chosen->batch;
    f->max = b->runs[b->num_runs - 1] / b->chosen->batch;
    f->operations = bench_operations(&b->model.config);
    f->gflops = f->operations / f->median * 1e-6;
    f->peak = median(b->peaks, b->num_peaks);
    share_phases(&b->watch, f);
}

static void print_text(const bench *b, const figures *f) {
    int threads = b->params.executor.num_threads;
    text_print(stdout, "%s, %s, %s, %d thread%s, batch of %d\n", b->name, f->dtype, f->isa, threads,
               threads == 1 ? "" : "s", b->chosen->batch);
    printf("  time an image %11.3f ms    median of %d run%s; min %.3f, max %.3f\n", f->median,
           b->num_runs, b->num_runs == 1 ? "" : "s", f->min, f->max);
    printf("  speed         %11.1f GFLOP/s    %.2f GFLOP an image\n", f->gflops,
           f->operations * 1e-9);
    printf("  peak          %11.1f GFLOP/s    %s in registers; the model reaches %.1f %%\n",
           f->peak, b->loop->name, 100 * f->gflops / f->peak);
    printf("  workspace     %11.2f MB\n", (double)b->workspace_size * 1e-6);
    if (!isnan(b->cold.private_bytes))
        printf("  private memory%11.2f MB    of a process that opens the model and runs it once\n",
               b->cold.private_bytes * 1e-6);
    printf("  open          %11.3f ms\n", b->cold.open_ms);
    printf("  cold start    %11.3f ms    from the start of a process to its first %s\n",
           b->cold.ready_ms, b->model.config.num_classes ? "logits" : "embedding");
    for (int i = 0; i < f->num_phases; i++) {
        printf("  %-14s%11.3f ms %6.1f %%\n", f->phases[i].name, f->phases[i].share * f->median,
               100 * f->phases[i].share);
    }
}

/* Writes a number. A whole number is written with all its digits. */
static void put_figure(json_writer *w, const char *name, double value) {
    json_put_number(w, name, value, value == floor(value) ? 15 : 9);
}

static void print_json(const bench *b, const figures *f) {
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "arch", b->name);
    json_put_text(&w, "dtype", f->dtype);
    json_put_text(&w, "isa", f->isa);
    json_put_integer(&w, "threads", b->params.executor.num_threads);
    json_put_integer(&w, "batch", b->chosen->batch);
    json_put_integer(&w, "runs", b->num_runs);
    put_figure(&w, "ms_median", f->median);
    put_figure(&w, "ms_min", f->min);
    put_figure(&w, "ms_max", f->max);
    put_figure(&w, "gflop", f->operations * 1e-9);
    put_figure(&w, "gflops", f->gflops);
    json_put_text(&w, "peak_loop", b->loop->name);
    put_figure(&w, "peak_gflops", f->peak);
    put_figure(&w, "percent_of_peak", 100 * f->gflops / f->peak);
    put_figure(&w, "workspace_bytes", (double)b->workspace_size);
    put_figure(&w, "private_bytes", b->cold.private_bytes);
    put_figure(&w, "open_ms", b->cold.open_ms);
    put_figure(&w, "cold_ms", b->cold.ready_ms);
    json_put_begin(&w, "phases", '{');
    for (int i = 0; i < f->num_phases; i++) {
        json_put_begin(&w, f->phases[i].name, '{');
        json_put_number(&w, "ms", f->phases[i].share * f->median, 6);
        json_put_number(&w, "percent", 100 * f->phases[i].share, 4);
        json_put_end(&w, '}');
    }
    json_put_end(&w, '}');
    json_put_end(&w, '}');
    putchar('\n');
}

/* ------------------------------------------------------------------------- */
/* From end to end                                                           */
/* ------------------------------------------------------------------------- */

/* Sets the parameters of all sessions. If the machine cannot run the instruction set, names it in a
 * message and fails. Must run before threads and processes are started. */
static bool check_machine(bench *b) {
    b->params.isa = b->chosen->isa;
    b->batch = b->chosen->batch;
    b->params.on_phase = on_phase;
    b->params.phase_user = &b->watch;
    if (vit_workspace_size(&b->model, &b->params)) return true;
    report_error(PROGRAM, NULL,
                 "this machine cannot run the model with --isa %s; the machine's best is %s",
                 vit_isa_name(b->chosen->isa), vit_isa_name(vit_detect_isa()));
    return false;
}

static bool find_bundled(bench *b) {
    report r = report_make();
    b->path = b->bundled = cli_model_path(NULL, &r);
    if (!b->path) report_print(&r, PROGRAM);
    return b->path != NULL;
}

/* Runs all steps and reports failures. */
static bool run_all(bench *b, const arch_choice *choice) {
    figures f;
    b->path = b->chosen->model;
    if (b->chosen->arch ? !make_model(b, choice) : !b->path && !find_bundled(b)) return false;
    if (!open_model(b) || !check_machine(b) || !measure_cold(b)) return false;
    if (!start_session(b, b->chosen->num_threads)) return false;
    b->loop = peak_find(vit_isa_name(b->session.isa), dtype_of(&b->model));
    if (!measure_runs(b)) return false;
    compute_figures(b, &f);
    if (b->chosen->json) print_json(b, &f);
    else print_text(b, &f);
    return true;
}

/* ------------------------------------------------------------------------- */
/* The command line                                                          */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Measures a model on this machine: time, speed relative to the machine's peak, memory, and\n"
    "the time of each phase. --arch makes random weights, in a temporary file under TMPDIR.\n";

static const char notes[] =
    "GFLOP/s counts two operations for a multiply-add, in patch embedding, linear layers and both\n"
    "products of attention. A run computes the logits and no other output. The last block thus\n"
    "computes k and v of all tokens, but q, proj, fc1 and fc2 only of the class and distillation\n"
    "tokens. The peak is the median speed of a loop that repeats the instruction of the matrix\n"
    "products in registers, on as many threads as the model. The loop runs between the measured\n"
    "runs. For int8 and int4, the loop repeats the 8-bit instruction, although attention computes\n"
    "in 16 bits. For f16, the loop repeats the instruction of f32. The lines \"open\" and\n"
    "\"cold start\" are medians of 3 processes; the file is in the system's cache. Private memory\n"
    "is memory that no file backs. The times of the phases add up to the median time. The share of\n"
    "a phase is the sum of its times in all runs, divided by the time of all runs.\n"
    "Exit status: 0 on success, 1 if something failed, 2 for a wrong command.\n";

static bool complain(const char *text) { return cli_wrong(PROGRAM, "%s", text), false; }

static bool check_arch(const choices *c, arch_choice *choice) {
    report r = report_make();
    if (!c->arch || arch_find(c->arch, choice, &r) == ARCH_FOUND) return true;
    return complain(r.text);
}

/* Checks rules that the table of options cannot express. */
static bool check_command(choices *c, arch_choice *choice) {
    if (c->model && c->arch) return complain("either -m or --arch, not both");
    if (!c->arch && c->dtype != VIT_NUM_DTYPES)
        return complain("--dtype needs --arch: the matrices of a file have a fixed type");
    if (c->dtype == VIT_NUM_DTYPES) c->dtype = VIT_F32;
    return check_arch(c, choice);
}

static void print_archs(void) {
    const arch *a;
    for (size_t i = 0; (a = arch_at(i)) != NULL; i++) puts(a->name);
}

/* Parses the command line. Returns false if the program should exit with *status. */
static bool choose(int argc, char **argv, choices *c, arch_choice *choice, int *status) {
    const cli_option options[] = {
        CLI_OPTION_MODEL(&c->model),
        { 0, "arch", "NAME", "timm's name of an architecture: vit_base_patch16_224", CLI_TEXT,
          &c->arch, 0, 0 },
        { 0, "list-archs", NULL, "print the names that --arch accepts", CLI_FLAG, &c->list_archs, 0,
          0 },
        { 0, "dtype", "TYPE", "type of --arch's matrices: f32 (default), f16, bf16, int8 or int4",
          CLI_DTYPE, &c->dtype, 0, 0 },
        CLI_OPTION_BATCH(&c->batch, "1"),
        CLI_OPTION_THREADS(&c->num_threads),
        CLI_OPTION_ISA(&c->isa),
        { 0, "seconds", "S", "measure for S seconds (default 2), and at least 5 runs", CLI_NUMBER,
          &c->seconds, 0, 3600 },
        { 0, "runs", "N", "measure N runs, instead of S seconds", CLI_INT, &c->runs, 1, MAX_RUNS },
        CLI_OPTION_JSON(&c->json, "print one JSON object"),
        CLI_END,
    };
    const cli_program program = {
        PROGRAM, "[options] [-m MODEL.vit | --arch NAME]", description, options, notes, 0, 0, NULL,
        NULL
    };
    if (!cli_parse(&program, argc, argv, NULL, status)) return false;
    if (c->list_archs) print_archs();
    else if (check_command(c, choice)) return true;
    *status = c->list_archs ? cli_finish(PROGRAM, CLI_OK) : CLI_USAGE;
    return false;
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-bench");
    static bench b; /* too large for a stack */
    choices chosen;
    arch_choice choice;
    int status;
    if (argc == 6 && strcmp(argv[1], COLD) == 0) return run_cold(argv + 2);
    memset(&chosen, 0, sizeof chosen);
    chosen.isa = VIT_ISA_AUTO;
    chosen.dtype = VIT_NUM_DTYPES;
    chosen.batch = 1;
    chosen.seconds = 2;
    if (!choose(argc, argv, &chosen, &choice, &status)) return status;

    b.chosen = &chosen;
    b.executable = argv[0];
    status = run_all(&b, &choice) ? CLI_OK : CLI_FAILED;
    bench_free(&b);
    return cli_finish(PROGRAM, status);
}
