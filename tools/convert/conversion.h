/* conversion.h - turns a checkpoint into a .vit file. It has the state of one conversion, from the
 * options to the report.
 *
 * tools/convert owns the way from a checkpoint to a .vit file and back: quantising, comparing,
 * writing; it may include os base cli image checkpoint text model layout.
 */
#ifndef CONVERT_CONVERSION_H
#define CONVERT_CONVERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "convert/calibrate.h"
#include "convert/text.h"
#include "convert/vit_writer.h"
#include "layout/detect.h"
#include "layout/plan.h"
#include "layout/structure.h"
#include "model/config.h"
#include "model/findings.h"
#include "model/labels.h"
#include "model/resolve.h"
#include "model/settings.h"
#include "model/timm_names.h"

/* The options of vit-convert. */
typedef struct convert_options {
    const char *checkpoint, *output;
    const char *config, *arch, *labels; /* NULL if the option is not given */
    /* Path, within the checkpoint, of the state dict to convert. NULL selects the default one. */
    const char *weights;
    /* Path of the author's Python. "none" reads no Python; NULL searches for the author's files. */
    const char *code;
    /* Path of a tokenizer's file or folder. "none" reads no tokenizer; NULL searches beside the
     * checkpoint. */
    const char *tokenizer;
    /* The input size as the user wrote it, for the provenance. NULL if it is not given. */
    const char *img_size;
    int in_chans, patch_size; /* 0 keeps the checkpoint's value */
    bool dynamic;             /* true if the model must accept other input sizes at run time */
    vit_dtype dtype;
    text_list set, rename, ignore, keep;
    settings given; /* the settings that --set, --img-size and --dynamic give */
    /* Paths of photos for calibration, and of photos for the error report. */
    text_list calibrate, compare;
    /* Largest number of photos for calibration and for the error report. */
    int calibrate_max, compare_max;
    const char *match_input, *match_logits, *match_folder; /* see match.h; NULL if not given */
    double match_tolerance, match_seconds;
    int match_max;
    photo_options decoding;
    bool quiet;
    bool plan;   /* true to print the plan and write nothing */
    bool strict; /* true to refuse assumptions */
} convert_options;

/* All facts about a model that are known before its settings are resolved. */
typedef struct facts {
    layout_map map;
    settings all[FROM_COUNT]; /* the settings from each source */
    settings_seen seen;       /* evidence from the tensors */
    attributes_told told;     /* facts from a model that was saved whole, and from its code */
    patch_request wanted;     /* changes of the patch embedding that the user requests */
    code_found code;          /* facts from the author's Python */
} facts;

/* Facts other than settings, from a configuration file and from an architecture's name. */
typedef struct description {
    config_file config;
    char *path;      /* path of the configuration file; NULL if none was read */
    bool is_foreign; /* true if the file is no configuration that config_read supports */
    arch_choice arch;
    bool has_arch;
    const char *arch_origin; /* the source of the name: "--arch" or "config.json" */
    /* The name in the configuration, if timm has no such name; otherwise NULL. */
    const char *arch_unknown;
} description;

typedef struct class_names {
    label_list list;
    const char *origin; /* the source of the class names; NULL if no source was searched */
} class_names;

/* Everything that is known about the .vit file before its weights are written. */
typedef struct blueprint {
    checkpoint *checkpoint;
    /* The result of the search by structure, if no layout has the names of the tensors. */
    structure structure;
    facts facts;
    description description;
    settings_resolved model; /* the model that all settings together give */
    findings found;          /* the assumptions, and the questions that are not answered yet */
    /* True if the effects of assumptions were not measured, because the model is too large. */
    bool is_unmeasured;
    layout_plan plan;
    class_names labels;
    text_encoder text;   /* text.map.layout is NULL if no text encoder is written */
    struct match *match; /* the search of match.h; NULL without --match options */
} blueprint;

typedef struct conversion_photos {
    photo_decoder *decoder; /* exists only while convert_run runs; otherwise NULL */
    /* Photos for calibration. If there are none, the weights are quantised without calibration. */
    photo_list calibration;
    /* Photos for the error report. If there are none, the report uses the calibration photos. */
    photo_list compared;
} conversion_photos;

/* Facts about the file that was written. */
typedef struct written {
    char *provenance; /* lines "key: value" */
    uint64_t size;
    comparison comparison; /* the error report; comparison.images is 0 if none was requested */
} written;

/* One run of vit-convert. convert/report.h prints its results. */
typedef struct conversion {
    const convert_options *options;
    blueprint blueprint;
    conversion_photos photos;
    written written;
} conversion;

/* === code.c: reads the author's Python as text and never runs it ===
 *
 * It follows the constructor of each class, with the arguments of the calls. The model is the class
 * that has modules for the names of most tensors. If no class has at least 70 % of the names,
 * nothing is read.
 */

typedef struct code_file {
    const char *name; /* name of the file in messages */
    const char *text;
    size_t size;
} code_file;

/* Reads the code of all files, and finds the model in it. Returns false if the code is too long or
 * memory is exhausted. Free *out with code_free in any case. */
bool code_read(const checkpoint *c, const code_file *files, int count, code_found *out, report *r);
void code_free(code_found *found);

/* Replaces the text of a notebook by the lines of its code cells. Returns false if the text is no
 * notebook with cells of code. */
bool code_from_notebook(char *text, size_t *size);

/* Reads the files that --code names, or the Python files beside the checkpoint and in the folder
 * above. Call this function before the search by structure, which renames the tensors. */
bool code_find(const convert_options *o, const checkpoint *c, code_found *found, report *r);
/* Puts the facts from f->code into f->all and f->told. Call this function after attributes_put and
 * before layout_inspect. */
void code_use(const convert_options *o, const checkpoint *c, facts *f);
/* Compares the facts from the code with the tensors. Call this function after layout_inspect. An
 * input and its logits (match.h) may overrule the code. */
void code_compare(const convert_options *o, facts *f);
/* Reports the settings for which another source overruled the code. Call this function at the
 * end. */
void code_conclude(facts *f);
/* Takes the names of the classes from the code, if the code has exactly one list of names with the
 * length `classes`. *origin receives the place of the list. */
bool code_labels(facts *f, int classes, label_list *names, const char **origin, report *r);

/* === weights.c: writes the plan's tensors, from the checkpoint or a calibration ===
 *
 * Memory holds 16 rows or 65,536 values at a time, or one tensor that is resampled or computed.
 */

/* Returns the patterns of the tensors that stay in bf16 in an int8 file, or in int8 in an int4
 * file. */
vit_writer_keep convert_kept(const convert_options *o, const vit_config *config);

typedef struct weights_source {
    const char *path; /* path of the checkpoint */
    checkpoint *checkpoint;
    const layout_plan *plan;
    const settings_resolved *model;
    vit_dtype dtype; /* the type that the user requests; some tensors have another type */
    bool allows_nonfinite, quiet;
    bool is_calibrated; /* true if photos calibrate the weights, now or in a later step */
    /* The calibration that changes the weights; NULL to write them unchanged. */
    calibration *calibration;
} weights_source;

/* Writes all tensors of the plan and finishes the file. The caller must have started the writer.
 * Refuses values outside the range of the file's type. */
bool weights_write(const weights_source *from, vit_writer *writer, report *r);

/* Writes again the tensors for which `wanted` is true; wanted[i] belongs to item i of the plan.
 * Does not finish the file. */
bool weights_rewrite(const weights_source *from, const bool *wanted, vit_writer *writer, report *r);

/* === A whole conversion, from opening the checkpoint to renaming the finished file === */

/* Runs a conversion. Zero *c before the call, and free it with convert_free in any case. */
bool convert_run(const convert_options *o, conversion *c, report *r);
void convert_free(conversion *c);

/* Prints --help for one of the topics settings, match, types and names. Returns false for any other
 * topic. */
bool convert_help(const char *topic);

#endif
