/* vit-look.c - draws a model's attention, tokens and weights.
 *
 *     vit-look attention cat.jpg -o heat.png          a heat map over the photo
 *     vit-look tokens a.jpg b.jpg -o tokens.png       similar patches have one colour
 *     vit-look similarity a.jpg b.jpg --at 200,120 -o similar.png
 *     vit-look positions -m vit.vit -o positions.png  cosines of the position embeddings
 *     vit-look filters -m vit.vit -o filters.png      principal components of the patch embedding
 *
 * --npy and --json give the values of each picture.
 */
#include <stdio.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "image/photo_source.h"
#include "look/look.h"
#include "os/os.h"

#define PROGRAM cli_name()

static const look_command commands[] = {
    { "attention", "[options] IMAGE|FOLDER... -o OUT.png", "IMAGE",
      "Shows which patches the class token attends to. In models without class token, the map is\n"
      "the mean of the maps of all tokens. The map covers the photo; parts that preprocessing cuts\n"
      "off are pale. In each map, the least value is dark, and the largest is bright. By default,\n"
      "the map is the mean of the heads of the last block.\n",
      0, CLI_MANY, true, 0.65, look_wrong_attention, look_prepare_attention, look_read_attention,
      look_draw_attention, look_put_attention },
    { "tokens", "[options] IMAGE|FOLDER... -o OUT.png", "IMAGE",
      "Shows the first three principal components of the patch tokens as red, green and blue.\n"
      "The components are computed from all photos together, so patches of the same colour are\n"
      "alike, also in different photos.\n",
      0, CLI_MANY, true, 1, NULL, look_prepare_tokens, look_read_tokens, look_draw_tokens,
      look_put_components },
    { "similarity", "[options] IMAGE [IMAGE|FOLDER...] --at X,Y -o OUT.png", "IMAGE",
      "Shows, for each patch token of all photos, its cosine with the token at a point of the\n"
      "first photo. All photos share one scale: the least cosine is dark, the largest is bright.\n",
      0, CLI_MANY, true, 0.65, look_wrong_similarity, look_prepare_tokens, look_read_tokens,
      look_draw_similarity, look_put_similarity },
    { "positions",
      "[options] -o OUT.png\n       @ [options] --compare A.vit B.vit... "
      "-o OUT.png",
      "MODEL",
      "Shows the cosine of each position to all others: each place of the grid holds a small grid\n"
      "of cosines. Positions are vectors of three kinds: embeddings (learned, or of sines and\n"
      "cosines), cosines and sines of rotary angles, and biases from a patch to all others.\n",
      0, CLI_MANY, false, 1, look_wrong_positions, NULL, NULL, look_draw_positions,
      look_put_positions },
    { "filters", "[options] -o OUT.png", NULL,
      "Shows the first principal components of the patch embedding's filters, and how much of\n"
      "the filters' variance each explains.\n",
      0, 0, false, 1, NULL, NULL, NULL, look_draw_filters, look_put_filters },
};
enum { COMMANDS = sizeof commands / sizeof commands[0], MAX_OPTIONS = 26 };

static const char notes[] =
    "Blocks and heads count from 0, as in timm. --npy writes [images, maps, rows, columns] for\n"
    "photos, [models, n, n] for positions, [count, channels, rows, columns] for filters; --json\n"
    "prints the same numbers. IMAGE '-' is standard input; OUT '-' is standard output.\n"
    "A photo that cannot be read is reported and left out.\n"
    "Exit status: 0 on success, 1 if a photo could not be read or something failed, 2 for a\n"
    "wrong command.\n";

static int append(cli_option *options, int count, const cli_option *more) {
    for (; more->name; more++) options[count++] = *more;
    return count;
}

static int common_options(cli_option *options, int count, look_choices *c) {
    const cli_option more[] = {
        CLI_OPTION_MODEL(&c->model),
        { 'o', "output", "OUT.png", "the picture to write", CLI_OUTPUT, &c->output, 0, 0 },
        { 0, "npy", "OUT.npy", "write the values of the picture", CLI_OUTPUT, &c->npy, 0, 0 },
        CLI_OPTION_JSON(&c->json, "print the values as one JSON object"),
        { 0, "size", "N",
          "longer side of each photo in the picture (default 320);\n"
          "grids of positions are twice as wide, filters a fifth as wide",
          CLI_INT, &c->side, 16, 8192 },
        { 0, "columns", "N", "columns of the contact sheet", CLI_INT, &c->columns, 1, 1000 },
        CLI_END,
    };
    return append(options, count, more);
}

static int options_of_photos(cli_option *options, int count, look_choices *c) {
    const cli_option more[] = {
        PHOTO_LIST_OPTIONS(&c->lists, &c->null),
        CLI_OPTION_IMG_SIZE(c->img_size),
        CLI_OPTION_THREADS(&c->num_threads),
        CLI_OPTION_ISA(&c->isa),
        PHOTO_OPTIONS(&c->photos),
        CLI_END,
    };
    return append(options, count, more);
}

static int own_options(cli_option *options, int count, const look_command *command,
                       look_choices *c) {
    const cli_option of_attention[] = {
        { 0, "block", "B", "use this block (default: the last)", CLI_INT, &c->block, 0, 1023 },
        { 0, "head", "H", "show only this head", CLI_INT, &c->head, 0, 1023 },
        { 0, "heads", "WHICH",
          "mean: the mean of the heads (default); all: a picture for each head", CLI_TEXT,
          &c->heads, 0, 0 },
        { 0, "rollout", NULL, "attention rollout through all blocks (Abnar and Zuidema 2020)",
          CLI_FLAG, &c->rollout, 0, 0 },
        { 0, "at", "X,Y", "show the attention of the patch at this pixel of each photo", CLI_TEXT,
          &c->at, 0, 0 },
        CLI_END,
    };
    const cli_option of_tokens[] = {
        { 0, "block", "B", "use the output tokens of block B (default: those of the final norm)",
          CLI_INT, &c->block, 0, 1023 },
        { 0, "foreground", NULL,
          "leave out the background, as the DINOv2 paper does: all patches whose first\n"
          "principal component has the same sign as its mean along the photos' borders",
          CLI_FLAG, &c->foreground, 0, 0 },
        CLI_END,
    };
    const cli_option of_similarity[] = {
        { 0, "at", "X,Y", "a pixel of the first photo, counted from the photo's top left corner",
          CLI_TEXT, &c->at, 0, 0 },
        { 0, "block", "B", "use the output tokens of block B (default: those of the final norm)",
          CLI_INT, &c->block, 0, 1023 },
        CLI_END,
    };
    const cli_option of_positions[] = {
        { 0, "compare", NULL, "show all given models side by side", CLI_FLAG, &c->compare, 0, 0 },
        { 0, "kind", "KIND",
          "embedding, rotary or relative (default: the first of these that\n"
          "the model has)",
          CLI_TEXT, &c->kind, 0, 0 },
        { 0, "block", "B", "use the positions of block B, if blocks differ (default 0)", CLI_INT,
          &c->block, 0, 1023 },
        CLI_END,
    };
    const cli_option of_filters[] = {
        { 0, "count", "N", "how many components to show (default 28)", CLI_INT, &c->count, 1,
          1024 },
        CLI_END,
    };
    const cli_option *const own[COMMANDS] = { of_attention, of_tokens, of_similarity, of_positions,
                                              of_filters };
    return append(options, count, own[command - commands]);
}

/* Reads a point such as "120,80", in pixels of the photo. */
static bool read_point(const char *text, double point[2]) {
    const char *comma = strchr(text, ',');
    char x[32];
    if (!comma || (size_t)(comma - text) >= sizeof x) return false;
    memcpy(x, text, (size_t)(comma - text));
    x[comma - text] = '\0';
    return text_read_number(x, 0, 1 << 20, &point[0]) &&
           text_read_number(comma + 1, 0, 1 << 20, &point[1]);
}

static const char *find_wrong(const look_command *command, look_choices *c, int operands) {
    const char *wrong = command->wrong ? command->wrong(c, operands) : NULL;
    const bool image = c->output && strcmp(c->output, "-") == 0;
    const bool array = c->npy && strcmp(c->npy, "-") == 0;
    if (wrong) return wrong;
    if (command->photos && operands + c->lists.count == 0) return "missing IMAGE";
    if (c->null && c->lists.count == 0) return "--null needs --list FILE";
    if (c->at && !read_point(c->at, c->point)) return "--at expects X,Y in pixels, such as 120,80";
    if (c->output && photos_is_name(c->output) && !text_matches("*.png", c->output) &&
        !text_matches("*.PNG", c->output))
        return "-o: the picture is a PNG; its name must end in .png";
    if (!c->output && !c->npy && !c->json) return "missing -o OUT.png, --npy OUT.npy or --json";
    return image + array + c->json > 1 ? "only one output can go to standard output" : NULL;
}

static bool choose(const look_command *command, int argc, char **argv, look_choices *c,
                   text_list *operands, int *status) {
    cli_option options[MAX_OPTIONS + 1];
    char name[80];
    const cli_program program = { name,
                                  command->synopsis,
                                  command->description,
                                  options,
                                  notes,
                                  command->min_operands,
                                  command->max_operands,
                                  command->operand,
                                  photos_library() };
    const char *wrong;
    int count = own_options(options, 0, command, c);
    snprintf(name, sizeof name, "%s %s", PROGRAM, command->name);
    count = common_options(options, count, c);
    if (command->photos) count = options_of_photos(options, count, c);
    options[count] = (cli_option)CLI_END;
    if (!cli_parse(&program, argc, argv, operands, status)) return false;
    wrong = find_wrong(command, c, operands->count);
    if (!wrong) return true;
    *status = cli_wrong(name, "%s", wrong);
    text_list_free(operands);
    return false;
}

/* Handles a command line without a command: prints --help, --version, or the error. */
static int without_command(int argc, char **argv) {
    static const char description[] =
        "Draws what a model attends to and computes. The COMMANDs are\n\n"
        "  attention    which patches the class token attends to, as a heat map over the photo\n"
        "  tokens       principal components of the patch tokens, as colours\n"
        "  similarity   the cosine of every patch to one chosen patch\n"
        "  positions    the cosine of every position to all others\n"
        "  filters      principal components of the patch embedding's filters\n\n"
        "'@ COMMAND --help' lists the options of a command.\n";
    const cli_option none[] = { CLI_END };
    const cli_program program = {
        PROGRAM,   "COMMAND [options] ...", description, none, notes, 1, CLI_MANY,
        "COMMAND", photos_library()
    };
    text_list operands;
    int status;
    if (!cli_parse(&program, argc, argv, &operands, &status)) return status;
    status = cli_wrong(PROGRAM, "there is no command '%.80s'", operands.items[0]);
    text_list_free(&operands);
    return status;
}

static const look_command *find_command(int argc, char **argv) {
    for (int i = 0; argc > 1 && i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) return &commands[i];
    return NULL;
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-look");
    look_choices chosen;
    text_list operands;
    report r = report_make();
    look_job j;
    bool good;
    int status;
    memset(&chosen, 0, sizeof chosen);
    memset(&j, 0, sizeof j);
    chosen.block = chosen.head = -1;
    chosen.side = 320;
    chosen.count = 28;
    j.command = find_command(argc, argv);
    if (!j.command) return without_command(argc, argv);
    if (!choose(j.command, argc - 1, argv + 1, &chosen, &operands, &status)) {
        text_list_free(&chosen.lists);
        return status;
    }
    j.chosen = &chosen;
    j.operands = &operands;
    good = look_run(&j, &r);
    if (r.failed) report_print(&r, PROGRAM);
    good = good && j.unreadable == 0;
    look_free(&j);
    text_list_free(&operands);
    text_list_free(&chosen.lists);
    return cli_finish(PROGRAM, good ? CLI_OK : CLI_FAILED);
}
