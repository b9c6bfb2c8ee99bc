#include "model/patch_request.h"

#include "model/settings.h"

/* Other patches are made from squares, side by side. */
static bool check_cut(const vit_config *c, int chans, int patch, report *r)
{
    const char *option = patch != c->patch_size ? "--patch-size" : "--in-chans";
    char word[32];
    if (chans == c->in_chans && patch == c->patch_size) return true;
    if (c->patch_cut != VIT_CUT_SQUARES)
        return report_fail(r, "%s: expected patches that are squares of the input, found "
                           "patch_cut=%s", option,
                           setting_text(SETTING_PATCH_CUT, c->patch_cut, word));
    if (patch != c->patch_size && c->patch_stride)
        return report_fail(r, "--patch-size: expected patches side by side, found patch_stride=%d",
                           c->patch_stride);
    if (c->has_patch_pre_norm || (c->stem && patch != c->patch_size))
        return report_fail(r, "%s: expected patches that are cut out of the input as it is, found "
                           "%s before them", option, c->stem ? "a convolutional stem" : "a norm");
    return true;
}

bool patch_request_apply(const patch_request *wanted, vit_config *c, report *r)
{
    const int chans = wanted->chans ? wanted->chans : c->in_chans;
    const int patch = wanted->patch ? wanted->patch : c->patch_size;
    if (!check_cut(c, chans, patch, r)) return false;
    if (chans != c->in_chans && c->in_chans != 3)
        return report_fail(r, "--in-chans %d: expected a checkpoint of 3 channels, found %d", chans,
                           c->in_chans);
    if (chans > VIT_MAX_CHANS || patch > 1024 || c->patch_size > 1024)
        return report_fail(r, "in_chans or patch_size is out of range");
    c->in_chans = chans;
    c->patch_size = patch;
    return true;
}
