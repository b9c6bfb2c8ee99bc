/* --help TOPIC of vit-convert, which a page does without. */
#include "convert/convert.h"

#include <stdio.h>
#include <string.h>

#include "cli/options.h"

static const char help_match[] =
    "--match-input X --match-logits Y finds out what the checkpoint does not say: the model\n"
    "runs on the input until it gives these logits, or the embedding where it has no head.\n"
    "Two lines of PyTorch write both files:\n"
    "  x = torch.randn(1, 3, 224, 224); np.save('x.npy', x.numpy())\n"
    "  np.save('y.npy', model.eval()(x).detach().numpy())\n"
    "--match-tolerance bounds the largest difference / the largest logit.\n"
    "--match-folder DIR holds labelled pictures, a folder for each class. It finds the\n"
    "preprocessing that suits them best and, without --match-input, all else that is open.\n";

static const char help_types[] =
    "--dtype is the type of the matrices; vectors stay f32.\n"
    "--calibrate takes images or folders, a few dozen or hundred images like those that the\n"
    "model will see: int4 loses less with them, int8 is faster with AVX2. Unreadable ones are\n"
    "left out.\n"
    "--report compares with f32 on images of its own instead of those of --calibrate.\n"
    "--keep PATTERN keeps tensors in bf16 with int8, in int8 with int4: 'blocks.0.*'. Models\n"
    "up to 256 wide keep blocks.[01].attn.qkv.*, blocks.[01].mlp.* and head.weight with int8,\n"
    "blocks.0.* and blocks.*.attn.* with int4, unless --keep says otherwise; --keep none\n"
    "keeps nothing.\n";

static const char help_names[] =
    "--labels takes a file with a name a line, or \"n01440764 tench\", or a tagger's\n"
    "selected_tags.csv; imagenet: the names of ImageNet-1k, which a checkpoint of 1,000\n"
    "classes that names none gets if its size is that of a published model; none: no names at\n"
    "all. Names of ImageNet-21k and -22k do not come with @.\n"
    "--rename A=B renames layers or tensors, as in fc=head. * stands for any text:\n"
    "'stem.*=patch_embed.proj.*'. The first match is used.\n"
    "--ignore PATTERN drops tensors that no layout knows, with * and ? as in a shell.\n"
    "--weights NAME chooses one of several state dicts in the file: model, model_ema ...\n";

static void print_settings(void) {
    int key;
    printf("--set KEY=VALUE overrides what is found otherwise.\n\n"
           "  img_size=N or HxW, mean=M[,M...], std=S[,S...]\n");
    for (key = 0; key < SETTING_COUNT; key++) {
        const setting_row *row = &setting_rows[key];
        printf("  %-20s %s%s%s\n", row->name, row->help, row->choices ? ": " : "",
               row->choices ? row->choices : "");
    }
}

bool convert_help(const char *topic) {
    static const struct {
        const char *name, *text;
    } topics[] = {
        { "match", help_match },
        { "types", help_types },
        { "names", help_names },
    };
    const char *c;
    size_t i;
    if (!strcmp(topic, "settings")) {
        print_settings();
        return true;
    }
    for (i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (strcmp(topic, topics[i].name) != 0) continue;
        for (c = topics[i].text; *c; c++) {
            if (*c == '@') fputs(cli_name(), stdout);
            else putchar(*c);
        }
        return true;
    }
    return false;
}
