/* conversion.h - what is known of one conversion, from its options to the report. */
#ifndef CONVERT_CONVERSION_H
#define CONVERT_CONVERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "convert/calibrate.h"
#include "convert/vit_writer.h"
#include "layout/attributes.h"
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
    const char *config, *arch, *labels; /* NULL where not given */
    const char *weights;                /* which of several state dicts, or NULL */
    const char *img_size;               /* as given, for the provenance; or NULL */
    int in_chans, patch_size;           /* other than the checkpoint's, or 0 */
    bool dynamic;                       /* other sizes at run time */
    vit_dtype dtype;
    text_list set, rename, ignore, keep;
    text_list calibrate, compare;   /* photos: to calibrate with, to report the error on */
    int calibrate_max, compare_max; /* at most this many of them */
    const char *match_input, *match_logits, *match_folder; /* see match.h */
    double match_tolerance, match_seconds;
    int match_max;
    photo_options decoding;
    bool quiet;
    bool plan;   /* print what would be done, write nothing */
    bool strict; /* refuse what would be assumed */
} convert_options;

/* One run of vit-convert: what each stage found out, for those after it and for the report. */
typedef struct conversion {
    const convert_options *options;
    photo_decoder *decoder; /* of all photos, while convert_run does its work */
    const char *weights;    /* which of several state dicts is tried; NULL: the usual one */
    checkpoint *checkpoint;
    layout_map map;
    structure structure; /* where no table knows the names */
    layout_plan plan;
    settings all[FROM_COUNT]; /* [FROM_OPTIONS] is filled by the caller */
    settings_seen seen;       /* in the tensors */
    attributes_told told;     /* by the model, beside its tensors */
    settings_resolved model;  /* what follows from it and the settings */
    findings found;           /* what is assumed, and on the way what is asked */
    config_file config_file;
    char *config_path;   /* NULL where none was read */
    bool config_foreign; /* there was one, but in no known form */
    arch_choice arch;
    bool has_arch;
    const char *arch_origin;  /* "--arch" or "config.json" */
    const char *arch_unknown; /* the configuration's name for it, if unknown */
    struct match *match;      /* NULL: nothing is to be matched */
    label_list labels;
    const char *labels_origin;
    char *provenance;       /* lines "key: value" */
    photo_list calibration; /* none: quantise as the weights are */
    photo_list photos;      /* of the error's report; none: those of the calibration */
    comparison comparison;  /* without images: was not requested */
    uint64_t parameters, output_size;
} conversion;

/* The photos that c->comparison is about. */
photo_list *conversion_photos(conversion *c);

/* Tensors that stay in 16 bits. */
vit_writer_keep conversion_kept(const conversion *c);

bool conversion_allows_nonfinite(const conversion *c);

/* === weights.c: the tensors of the plan into a .vit file, from the checkpoint or a calibration ===
 * Never more in memory than 16 rows, or one tensor that is resampled. */

/* Writes and finishes a file that the writer has started. calibrated: NULL takes the weights as
 * they are. Refuses values that the file's type cannot hold. */
bool weights_write(const conversion *c, calibration *calibrated, vit_writer *writer, report *r);

/* Writes the tensors of the plan for which `wanted` is true, in any order, without finishing. */
bool weights_rewrite(const conversion *c, const bool *wanted, vit_writer *writer, report *r);

#endif
