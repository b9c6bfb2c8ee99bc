/* help.c - the texts that vit-convert --help TOPIC prints. */
#include "convert/conversion.h"

#include <stdio.h>
#include <string.h>

#include "cli/options.h"

static const char help_match[] =
    "--match-input X --match-logits Y finds the settings that the checkpoint leaves open. X is an\n"
    "input, and Y is the original's output for X: the logits or the embedding. The model runs on\n"
    "X with one choice of settings after the other, until it gives Y. Y may also be a softmax,\n"
    "log_softmax or sigmoid of the logits, or an embedding scaled to length 1. @ then reports\n"
    "that the model file leaves out this last step. Two lines of PyTorch write X and Y:\n"
    "  x = torch.randn(1, 3, 224, 224); np.save('x.npy', x.numpy())\n"
    "  np.save('y.npy', model.eval()(x).detach().numpy())\n"
    "--match-tolerance T accepts an output if no number differs from Y by more than T times the\n"
    "largest number in Y.\n"
    "--match-folder DIR finds the best preprocessing by labelled pictures; without --match-input,\n"
    "it also finds all other open settings. DIR has a folder of pictures for each class.\n";

static const char help_types[] =
    "--dtype is the type of the matrices; vectors stay f32.\n"
    "--calibrate takes images or folders: a few dozen or hundred unlabelled images like those\n"
    "for which the model is used. int4 models then lose less accuracy than without --calibrate,\n"
    "and int8 models run faster on CPUs with AVX2.\n"
    "Unreadable images are left out.\n"
    "--report takes images or folders too, and compares the new model on these images with the\n"
    "same model in f32; the default is the images of --calibrate. Images that were not used to\n"
    "calibrate give a fairer figure.\n"
    "--keep PATTERN keeps tensors such as 'blocks.0.*' in a larger type: in bf16 with\n"
    "--dtype int8, and in int8 with int4. By default, models that are at most 256 wide keep\n"
    "blocks.[01].attn.qkv.*, blocks.[01].mlp.* and head.weight with int8. They keep blocks.0.*\n"
    "and blocks.*.attn.* with int4. --keep overrides this default; --keep none keeps no tensor.\n";

static const char help_names[] =
    "--labels takes a file with one name per line, as \"tench\" or \"n01440764 tench\", or a\n"
    "tagger's selected_tags.csv. --labels imagenet takes the names of ImageNet-1k, which are also\n"
    "the default for a checkpoint of 1,000 unnamed classes with the size of a published model.\n"
    "--labels none leaves the classes unnamed. @ contains no names of ImageNet-21k and -22k.\n"
    "--rename A=B renames layers or tensors, as in fc=head. * stands for any text:\n"
    "'stem.*=patch_embed.proj.*'. If several --rename fit a tensor, the first one is used.\n"
    "--ignore PATTERN drops the tensors whose names match. * and ? work as in a shell.\n"
    "--weights NAME chooses one of several state dicts in the file: model, model_ema ...\n";

static void print_settings(void) {
    int key;
    printf("--set KEY=VALUE overrides the value from files and tensors.\n"
           "\n"
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
