#define _POSIX_C_SOURCE 200809L /* strdup */

#include "cli/options.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "cli/output.h"
#include "os/os.h"

enum { HEAD = 64 }; /* the number of bytes at the beginning of a file that show its kind */

/* Returns what a zip archive contains, in words. The name of its first entry, at byte 30, shows
 * this. */
static const char *kind_of_zip(const unsigned char *head) {
    char name[HEAD - 30 + 1] = "";
    const size_t length = head[26] + 256u * head[27];
    memcpy(name, head + 30, length < HEAD - 30 ? length : HEAD - 30);
    return strstr(name, ".npy") ? "an .npz of NumPy arrays" : "a PyTorch checkpoint";
}

/* Returns the kind of a checkpoint in words. The first bytes of the file show the kind. Returns
 * NULL if they show none of these kinds. */
static const char *kind_of(const unsigned char *head) {
    int i;
    if (!memcmp(head, "PK\3\4", 4)) return kind_of_zip(head);
    if (!memcmp(head, "GGUF", 4)) return "a GGUF file";
    if (head[0] == 0x80 && head[1] >= 2 && head[1] <= 5) return "a PyTorch checkpoint";
    for (i = 4; i < 8; i++) /* In safetensors, the high bytes of the header's length are 0. */
        if (head[i] != 0) return NULL;
    return head[8] == '{' ? "a safetensors checkpoint" : NULL;
}

static bool refuse_checkpoint(const char *path, const char *kind, report *r) {
    const char *file = paths_file_name(path), *dot = strrchr(file, '.');
    const int stem = (int)(dot && dot > file ? (size_t)(dot - file) : strlen(file));
    return report_fail(r, "the file is %s; convert it first: vit-convert %.150s -o %.*s.vit", kind,
                       path, stem < 150 ? stem : 150, file);
}

static bool refuse(const char *path, const char *detail, report *r) {
    unsigned char head[HEAD] = { 0 };
    FILE *file;
    size_t size;
    if (source_is_folder(path)) return report_fail(r, "the path is a folder, not a .vit file");
    file = os_fopen(path, "rb");
    if (!file) return report_fail(r, "cannot be opened: %s", os_error(errno));
    size = fread(head, 1, sizeof head, file);
    fclose(file);
    if (size > 0 && kind_of(head)) return refuse_checkpoint(path, kind_of(head), r);
    return report_detail(r, detail);
}

bool cli_model_open(const char *path, unsigned flags, vit_model *model, report *r) {
    cli_output_read(path);
    if (vit_model_open(path, flags, model) == VIT_OK) return true;
    (void)refuse(path, model->detail, r);
    return report_file(r, path);
}

char *cli_model_path(const char *given, report *r) {
    char *path = given ? strdup(given) : paths_find_model("cifar10-vit.vit");
    if (!path && given) (void)report_no_memory(r);
    else if (!path)
        (void)report_fail(r, "the bundled model was not found; give a model with -m MODEL.vit");
    return path;
}

/* Changes the model: each photo then keeps its aspect ratio and has at most `most` patches. */
static bool keep_aspect(vit_model *model, int most, report *r) {
    vit_config c = model->config;
    int sides[2];
    tensor_split(most, sides);
    if (!c.dynamic_img_size)
        return report_fail(r,
                           "--max-patches: the model's input size is fixed; convert the model with "
                           "--dynamic");
    if (sides[1] > 32768 / c.patch_size)
        return report_fail(
            r,
            "--max-patches: expected a product of two whole numbers, each at most %d, found "
            "%d",
            32768 / c.patch_size, most);
    c.crop_mode = VIT_CROP_ASPECT;
    c.crop_rounding = VIT_ROUND_EVEN;
    c.resize_height = sides[0] * c.patch_size;
    c.resize_width = sides[1] * c.patch_size;
    c.crop_pct = 1;
    if (vit_config_check(&c, model->detail) != VIT_OK)
        return report_fail(r, "--max-patches: %s", model->detail);
    model->config = c;
    return true;
}

bool cli_model_resize(vit_model *model, const cli_size size, report *r) {
    const vit_config *c = &model->config;
    const bool same = size[0] == c->img_height && size[1] == c->img_width;
    if (size[0] && !same && vit_model_resize(model, size[0], size[1]) != VIT_OK)
        return report_fail(r, "--img-size: %s", model->detail);
    if (c->crop_mode == VIT_CROP_ASPECT && c->crop_rounding != VIT_ROUND_NEAREST &&
        (c->resize_height / c->patch_size) * (c->resize_width / c->patch_size) == size[2])
        return true;
    return !size[2] || keep_aspect(model, size[2], r);
}

bool cli_model_choose(const char *given, const cli_size size, vit_model *model, char **path,
                      report *r) {
    bool good;
    memset(model, 0, sizeof *model);
    *path = cli_model_path(given, r);
    if (!*path) return false;
    good = cli_model_open(*path, 0, model, r);
    if (good && !cli_model_resize(model, size, r)) {
        vit_model_close(model);
        good = report_file(r, *path);
    }
    if (good) return true;
    free(*path);
    *path = NULL;
    return false;
}
