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

typedef struct convert_options {
    const char *checkpoint, *output;
    const char *config, *arch, *labels; /* NULL if not given */
    const char *weights;                /* name of one of several state dicts, or NULL */
    const char *code;         /* the author's Python: a path; "none"; NULL: search for it */
    const char *tokenizer;    /* a file or folder; "none"; NULL: beside the checkpoint */
    const char *img_size;     /* as the user gave it, for the provenance; or NULL */
    int in_chans, patch_size; /* 0: the checkpoint's */
    bool dynamic;             /* other sizes at run time */
    vit_dtype dtype;
    text_list set, rename, ignore, keep;
    settings given;                 /* by set, img_size and dynamic */
    text_list calibrate, compare;   /* photos for calibration; photos for the error report */
    int calibrate_max, compare_max; /* largest number of each */
    const char *match_input, *match_logits, *match_folder; /* see match.h */
    double match_tolerance, match_seconds;
    int match_max;
    photo_options decoding;
    bool quiet;
    bool plan;   /* print the plan, write nothing */
    bool strict; /* refuse assumptions */
} convert_options;

/* The facts about a model before its settings are resolved. */
typedef struct facts {
    layout_map map;
    settings all[FROM_COUNT]; /* what each source says */
    settings_seen seen;       /* from the tensors */
    attributes_told told;     /* from the model, besides its tensors */
    patch_request wanted;     /* by options */
    code_found code;          /* in the author's Python */
} facts;

/* Facts from a configuration and a name, apart from settings. */
typedef struct description {
    config_file config;
    char *path;      /* NULL if none was read */
    bool is_foreign; /* the file exists, but its form is unknown */
    arch_choice arch;
    bool has_arch;
    const char *arch_origin;  /* "--arch" or "config.json" */
    const char *arch_unknown; /* name in the configuration, if it is unknown */
} description;

typedef struct class_names {
    label_list list;
    const char *origin; /* NULL: not looked for */
} class_names;

/* The contents of a .vit file, except the weights. */
typedef struct blueprint {
    checkpoint *checkpoint;
    structure structure; /* the matching by structure, if no table has the names */
    facts facts;
    description description;
    settings_resolved model; /* the result of all settings */
    findings found;          /* assumptions; also questions, until they are resolved */
    bool is_unmeasured;      /* the model is too large to measure effects */
    layout_plan plan;
    class_names labels;
    text_encoder text;   /* text.map.layout NULL: none is written */
    struct match *match; /* NULL if nothing is to be matched */
} blueprint;

typedef struct conversion_photos {
    photo_decoder *decoder; /* NULL before and after convert_run */
    photo_list calibration; /* none: quantise the weights unchanged */
    photo_list compared;    /* photos for the error report; none: the calibration photos */
} conversion_photos;

/* The file that was written. */
typedef struct written {
    char *provenance; /* lines "key: value" */
    uint64_t size;
    comparison comparison; /* no images: not requested */
} written;

/* One run of vit-convert. The report describes it. */
typedef struct conversion {
    const convert_options *options;
    blueprint blueprint;
    conversion_photos photos;
    written written;
} conversion;

/* === code.c: reads the author's Python as text and never runs it ===
 * It follows the constructor of each class, with the arguments of the calls. The model is the class
 * with modules for the names of most tensors. If no class has at least 70 % of the names, nothing
 * is read. */

typedef struct code_file {
    const char *name; /* for messages */
    const char *text;
    size_t size;
} code_file;

/* Reads code. False if the code is too long or memory is exhausted. Free *out with code_free in any
 * case. */
bool code_read(const checkpoint *c, const code_file *files, int count, code_found *out, report *r);
void code_free(code_found *found);

/* Turns a notebook into the lines of its code cells, in place. False if the text is no notebook. */
bool code_from_notebook(char *text, size_t *size);

/* Reads --code, or the files beside the checkpoint and in the folder above. Call it while the
 * tensors have their original names. */
bool code_find(const convert_options *o, const checkpoint *c, code_found *found, report *r);
/* Puts the facts from the code into f->all and f->told. Call it after attributes_put and before
 * layout_inspect. */
void code_use(const convert_options *o, const checkpoint *c, facts *f);
/* Compares the code with the tensors. Call it after layout_inspect. An input and its logits may
 * overrule the code. */
void code_compare(const convert_options *o, facts *f);
/* Reports the settings for which another source overruled the code. Call it at the end. */
void code_conclude(facts *f);
/* Takes the list of names with the length `classes`, if there is exactly one such list. */
bool code_labels(facts *f, int classes, label_list *names, const char **origin, report *r);

/* === weights.c: writes the plan's tensors, from the checkpoint or a calibration ===
 * Memory holds at most 16 rows, or one resampled tensor. */

/* Returns the tensors that stay in 16 bits, or in int8. */
vit_writer_keep convert_kept(const convert_options *o, const vit_config *config);

typedef struct weights_source {
    const char *path; /* of the checkpoint */
    checkpoint *checkpoint;
    const layout_plan *plan;
    const settings_resolved *model;
    vit_dtype dtype; /* the requested type; some tensors have another */
    bool allows_nonfinite, quiet;
    bool is_calibrated;       /* photos calibrate the weights, here or in a later step */
    calibration *calibration; /* NULL: the weights as they are */
} weights_source;

/* Writes and finishes a file that the writer has started. Refuses values outside the range of the
 * file's type. */
bool weights_write(const weights_source *from, vit_writer *writer, report *r);

/* Writes the tensors of the plan for which `wanted` is true, in any order. Does not finish the
 * file. */
bool weights_rewrite(const weights_source *from, const bool *wanted, vit_writer *writer, report *r);

/* === A conversion, from opening to renaming === */

/* Runs a conversion. c must be zeroed. Free c in any case. */
bool convert_run(const convert_options *o, conversion *c, report *r);
void convert_free(conversion *c);

/* Prints --help for a topic: settings, match, types, names. Returns false if there is no such
 * topic. */
bool convert_help(const char *topic);

#endif
