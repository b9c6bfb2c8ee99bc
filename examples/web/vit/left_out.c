/* left_out.c - replaces the parts of vit-convert that a page omits to keep the download small:
 * decoders of images and their users, C headers, topics of --help, the names of ImageNet's classes,
 * tokenizers, GGUF, ONNX and Python. A request for an omitted part prints a message.
 */
#include <string.h>

#include "checkpoint/container.h"
#include "convert/calibrate.h"
#include "convert/conversion.h"
#include "convert/match.h"
#include "convert/text.h"
#include "convert/unpack.h"
#include "image/photos.h"
#include "model/labels.h"

static bool refuse_photos(report *r) {
    return report_fail(r, "--calibrate, --report and --match-folder: this build reads no photos");
}

/* === Functions that open an omitted part fail; those that would use the part are empty === */

photo_decoder *photo_decoder_open(const photo_options *options, const char *program,
                                  int num_threads, report *r) {
    (void)options, (void)program, (void)num_threads;
    (void)refuse_photos(r);
    return NULL;
}

const char *photos_library(void) { return NULL; }

bool photos_find(photo_list *list, const text_list *operands, int max, report *r) {
    (void)max;
    memset(list, 0, sizeof *list);
    return operands->count == 0 || refuse_photos(r);
}

bool match_pictures_read(match_pictures *pictures, photo_decoder *decoder, const char *folder,
                         int max, double seconds, const label_list *labels, int num_classes,
                         report *r) {
    (void)pictures, (void)decoder, (void)folder, (void)max, (void)seconds;
    (void)labels, (void)num_classes;
    return refuse_photos(r);
}

bool gguf_open(checkpoint *c, size_t file, report *r) {
    (void)c, (void)file;
    return report_fail(
        r, "GGUF: not supported by this build; give the weights from which this file was "
           "made, in safetensors, PyTorch's .pth, .pt or .bin, or .npz");
}

void gguf_unpack_block(checkpoint_dtype dtype, const uint8_t *raw, float *values) {
    (void)dtype, (void)raw, (void)values;
}

bool c_array_write(const char *input, const char *output, bool quiet, c_array_result *result,
                   report *r) {
    (void)input, (void)output, (void)quiet, (void)result;
    return report_fail(r, "--c-array: this build writes no C headers");
}

calibration *calibrate_start(const vit_model *reference, vit_dtype dtype, photo_decoder *decoder,
                             photo_list *photos, bool quiet, report *r) {
    (void)reference, (void)dtype, (void)decoder, (void)photos, (void)quiet;
    (void)refuse_photos(r);
    return NULL;
}

const float *calibrate_tensor(calibration *c, int index, vit_dtype written, report *r) {
    (void)c, (void)index, (void)written;
    (void)refuse_photos(r);
    return NULL;
}

bool compare_models(const vit_model *reference, const vit_model *model, photo_decoder *decoder,
                    photo_list *photos, bool quiet, comparison *result, report *r) {
    (void)reference, (void)model, (void)decoder, (void)photos, (void)quiet, (void)result;
    return refuse_photos(r);
}

bool match_sorting_run(match_sorting *s, report *r) {
    (void)s;
    return refuse_photos(r);
}

bool onnx_open(checkpoint *c, size_t file, report *r) {
    (void)c, (void)file;
    return report_fail(r, "ONNX: this build reads no graphs; use the vit-convert program");
}

const char *const *imagenet_classes(void) { return NULL; }

bool convert_help(const char *topic) {
    (void)topic;
    return false;
}

/* This build does not convert text encoders. A message names their tensors, which are dropped. */
bool text_find(checkpoint *c, const json_value *root, const vit_config *image, text_encoder *text,
               findings *f, report *r) {
    (void)c, (void)root, (void)image, (void)text, (void)f, (void)r;
    return true;
}

bool text_read_tokenizer(text_encoder *text, const char *path, const json_value *root, report *r) {
    (void)text, (void)path, (void)root;
    return report_fail(r, "%s", tokenizer_absence());
}

bool text_holds(const text_encoder *text, const char *name) {
    (void)text, (void)name;
    return false;
}

bool tokenizer_exists(const char *path) {
    (void)path;
    return false;
}

const char *tokenizer_absence(void) { return "this build reads no tokenizers"; }

bool code_find(const convert_options *o, const checkpoint *c, code_found *found, report *r) {
    (void)c, (void)found;
    return !o->code || report_fail(r, "--code: this build reads no Python");
}

void code_use(const convert_options *o, const checkpoint *c, facts *f) {
    (void)o, (void)c, (void)f;
}

void code_compare(const convert_options *o, facts *f) { (void)o, (void)f; }

void code_conclude(facts *f) { (void)f; }

bool code_labels(facts *f, int classes, label_list *names, const char **origin, report *r) {
    (void)f, (void)classes, (void)names, (void)origin, (void)r;
    return true;
}

/* === There is nothing to free === */

void code_free(code_found *found) { (void)found; }

void photo_decoder_close(photo_decoder *decoder) { (void)decoder; }

void photos_free(photo_list *list) { (void)list; }

void calibrate_free(calibration *c) { (void)c; }

void match_pictures_free(match_pictures *pictures) { (void)pictures; }

void match_sorting_free(match_sorting *s) { (void)s; }

void text_free(text_encoder *text) { (void)text; }
