#define _POSIX_C_SOURCE 200809L

#include "image/photos.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/source.h"
#include "base/text.h"
#include "cli/output.h"
#include "image/frames.h"
#include "image/image_file.h"
#include "image/sandbox.h"
#include "os/os.h"

enum {
    /* The largest depth of nested folders. */
    MAX_FOLDERS = 32,
    /* The largest input of a model, in bytes, that the sandbox prepares. */
    MAX_INPUT_BYTES = 3 * 4 * 4096 * 4096,
};

static bool add_path(photo_list *list, char *path, report *r) {
    char **paths = path && list->count < 0x7fffffff
                       ? memory_grow(list->paths, sizeof *paths, (size_t)list->count,
                                     &list->capacity)
                       : NULL;
    if (!paths) {
        free(path);
        return report_no_memory(r);
    }
    list->paths = paths;
    paths[list->count++] = path;
    return true;
}

/* Returns "a/b", or "b" if a is NULL. The caller frees the text. */
static char *join(const char *a, const char *b) {
    size_t size = (a ? strlen(a) + 1 : 0) + strlen(b) + 1;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s%s%s", a ? a : "", a ? paths_slash(a) : "", b);
    return path;
}

bool photos_append(photo_list *list, const char *name, report *r) {
    return add_path(list, join(NULL, name), r);
}

bool photos_is_name(const char *name) {
    static const char *const suffixes[] = { "jpg",  "jpeg", "png",  "bmp",  "gif",
                                            "tga",  "pgm",  "ppm",  "pnm",  "tif",
                                            "tiff", "webp", "heic", "heif", "avif" };
    const char *dot = strrchr(name, '.');
    size_t i;
    for (i = 0; dot && i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (strcasecmp(dot + 1, suffixes[i]) == 0) return true;
    return false;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_from(photo_list *list, int first) {
    const int count = list->count - first;
    if (count > 1) qsort(list->paths + first, (size_t)count, sizeof *list->paths, compare_paths);
}

/* A function that is called for each entry of a folder, except for hidden entries. */
typedef bool visitor(photo_list *list, const char *folder, const char *name, int depth, report *r);

static bool each_entry(photo_list *list, const char *folder, visitor *visit, int depth, report *r) {
    os_folder *directory = os_folder_open(folder);
    const char *name;
    bool good = true;
    if (!directory) {
        (void)report_fail(r, "cannot be opened: %s", os_error(errno));
        return report_file(r, folder);
    }
    while (good && (errno = 0, name = os_folder_next(directory)) != NULL)
        if (name[0] != '.') good = visit(list, folder, name, depth, r);
    if (good && errno) good = report_fail(r, "cannot be read: %s", os_error(errno));
    os_folder_close(directory);
    return good || report_file(r, folder);
}

/* Adds an image to the list. If the entry is a folder, adds the images in the folder. Links to
 * folders are not followed, because such a link could lead back to a parent folder. An image that
 * cannot be inspected, such as a broken link, is added and reported when it is read. If any other
 * entry exists but cannot be inspected, the call fails, because it may be a folder of images. */
static bool visit_image(photo_list *list, const char *folder, const char *name, int depth,
                        report *r) {
    char *path = join(folder, name);
    bool good = true;
    os_kind kind;
    if (!path) return report_no_memory(r);
    kind = os_kind_of_link(path);
    if (kind == OS_FOLDER && depth < MAX_FOLDERS)
        good = each_entry(list, path, visit_image, depth + 1, r);
    else if (kind == OS_FOLDER)
        good = report_fail(r, "the folder is nested in more than %d folders", MAX_FOLDERS) ||
               report_file(r, path);
    else if (photos_is_name(name) && (kind == OS_FILE || kind == OS_NONE))
        return add_path(list, path, r);
    else if (kind == OS_NONE && errno != ENOENT && errno != ELOOP)
        good = report_fail(r, "cannot be opened: %s", os_error(errno)) || report_file(r, path);
    free(path);
    return good;
}

static bool visit_folder(photo_list *list, const char *folder, const char *name, int depth,
                         report *r) {
    char *path = join(folder, name);
    bool wanted;
    (void)depth;
    if (!path) return report_no_memory(r);
    wanted = source_is_folder(path);
    free(path);
    return !wanted || photos_append(list, name, r);
}

bool photos_subfolders(const char *folder, photo_list *names, report *r) {
    memset(names, 0, sizeof *names);
    if (!each_entry(names, folder, visit_folder, 0, r)) {
        photos_free(names);
        return false;
    }
    sort_from(names, 0);
    return true;
}

static bool visit_name(photo_list *list, const char *folder, const char *name, int depth,
                       report *r) {
    (void)folder;
    (void)depth;
    return photos_append(list, name, r);
}

bool photos_names(const char *folder, photo_list *names, report *r) {
    memset(names, 0, sizeof *names);
    if (!each_entry(names, folder, visit_name, 0, r)) {
        photos_free(names);
        return false;
    }
    sort_from(names, 0);
    return true;
}

bool photos_is_folder(const char *path) {
    os_identity folder, input;
    if (os_kind_of(path) != OS_FOLDER) return false;
    return !os_identify("-", &input) || !os_identify(path, &folder) ||
           folder.volume != input.volume || folder.number != input.number;
}

bool photos_add(photo_list *list, const char *operand, report *r) {
    const int before = list->count;
    if (photos_is_folder(operand)) {
        if (!each_entry(list, operand, visit_image, 0, r)) return false;
        sort_from(list, before);
        return true;
    }
    if (strcmp(operand, "-") != 0 && !source_exists(operand)) {
        (void)report_fail(r, "cannot be opened: %s", os_error(errno));
        return report_file(r, operand);
    }
    return photos_append(list, operand, r);
}

/* Keeps `max` paths at even distances in the list, and frees the other paths. */
static void thin_out(photo_list *list, int max) {
    const int all = list->count;
    int kept = 0, i;
    if (all <= max) return;
    for (i = 0; i < all; i++) {
        const bool wanted = kept < max && i == (int)((int64_t)kept * all / max);
        if (wanted) list->paths[kept++] = list->paths[i];
        else free(list->paths[i]);
    }
    list->count = kept;
}

bool photos_add_some(photo_list *list, const char *operand, report *r) {
    const int before = list->count;
    if (!photos_add(list, operand, r)) return false;
    if (list->count > before) return true;
    (void)report_fail(r, "the folder has no images in it");
    return report_file(r, operand);
}

bool photos_find(photo_list *list, const text_list *operands, int max, report *r) {
    bool good = true;
    int i;
    memset(list, 0, sizeof *list);
    for (i = 0; good && i < operands->count; i++)
        good = photos_add_some(list, operands->items[i], r);
    if (good) thin_out(list, max);
    else photos_free(list);
    return good;
}

void photos_free(photo_list *list) {
    int i;
    for (i = 0; i < list->count + list->skipped; i++) free(list->paths[i]);
    free(list->paths);
    memset(list, 0, sizeof *list);
}

static bool takes_photos(const vit_model *model, report *r) {
    const int channels = model->config.in_chans;
    return channels == 1 || channels == 3 ||
           report_fail(r, "only models of 1 or 3 channels take images, found %d", channels);
}

bool photos_prepare(const vit_model *model, const vit_image *image, float *input, report *r) {
    const vit_result result = vit_preprocess(model, image, input, NULL, 0);
    if (!takes_photos(model, r)) return false;
    if (model->config.crop_mode == VIT_CROP_ASPECT)
        return report_fail(
            r, "the model gives each photo a different size (crop_mode=aspect); only classes and "
               "embeddings support such models: convert with --set crop_mode=squash");
    if (result == VIT_ERROR_MEMORY)
        return report_no_memory(r); /* This failure is not the photo's fault. */
    return !result || report_fail(r, "%s", vit_result_string(result));
}

/* Moves an unreadable image from the list to the skipped images. Returns false if the list has no
 * other image, or if r->no_memory is true: the image is then not at fault. */
static bool skip(photo_list *list, int i, report *r) {
    char *path = list->paths[i];
    if (r->no_memory || list->count == 1) return false;
    memmove(&list->paths[i], &list->paths[i + 1],
            (size_t)(list->count + list->skipped - i - 1) * sizeof *list->paths);
    list->paths[--list->count + list->skipped++] = path;
    *r = report_make();
    return true;
}

static void take_pixels(const image_file *file, vit_image *image) {
    memset(image, 0, sizeof *image);
    image->pixels = file->pixels;
    image->width = file->width;
    image->height = file->height;
    image->format = VIT_PIXEL_RGB8;
}

static unsigned flags_of(const photo_options *options) {
    return (options->no_exif ? IMAGE_FILE_NO_EXIF : 0) |
           IMAGE_FILE_MEGAPIXELS(options->max_megapixels);
}

size_t photos_max_bytes(const photo_options *options) {
    return image_file_max_bytes(flags_of(options));
}

/* === Decoding in confined processes === */

/* The parameters that `work` receives. The model's pointers to weights may be invalid in `work`,
 * but vit_preprocess does not use them. */
typedef struct task {
    vit_model model;
    bool exact;
} task;

typedef char task_fits[sizeof(task) <= SANDBOX_MAX_PARAMETERS ? 1 : -1];

/* Returns the least size, in eighths of the full size, at which the sides of the decoded photo are
 * at least twice those of the resized photo; 8 if there is none. The decoder's box filter then
 * removes only detail that the resize also removes. */
static int least_eighths(const void *user, int width, int height) {
    const task *t = user;
    int eighths = 1;
    vit_crop crop;
    vit_find_crop(&t->model.config, width, height, &crop);
    while (eighths < 8 && ((int64_t)width * eighths < 16 * crop.width ||
                           (int64_t)height * eighths < 16 * crop.height))
        eighths *= 2;
    return eighths;
}

static bool work(const sandbox_request *request, vit_image *image, report *r) {
    const task *t = request->parameters;
    const bool whole = !t || t->exact;
    image_file file;
    bool good = image_file_decode(request->data, request->size, request->flags,
                                  whole ? NULL : least_eighths, t, &file, r);
    snprintf(request->note, SANDBOX_NOTE_SIZE, "%s", file.note);
    take_pixels(&file, image);
    if (good && request->to) {
        good = photos_prepare(&t->model, image, request->to, r);
        photos_free_image(image);
    }
    return good;
}

/* Allocates memory for pixels. photos_free_image frees this memory. */
static void *allocate_pixels(size_t size) {
    uint8_t *pixels;
    image_file__max_pixels = (int64_t)(size / 3);
    pixels = image_file__malloc(size);
    image_file__release_rest(pixels);
    return pixels;
}

/* === By a command === */

enum { MAX_WORDS = 30, COMMAND_SECONDS = 60 };

typedef struct command {
    /* The command as the user wrote it, or NULL if there is no command. */
    const char *text;
    /* The words of the command. Each word was allocated with malloc. */
    char *words[MAX_WORDS + 1];
    int count;
    /* The path of the program that the command runs. */
    char *program;
    /* `takes` is true if a word contains %i, and `writes` is true if a word contains %o. */
    bool takes, writes;
    /* The folder for temporary files. */
    char *folder;
    /* The number of times the command has been run. Several threads increment this number. */
    unsigned runs;
    /* The largest amount of memory, in bytes, that the command may use. */
    uint64_t memory;
    bool is_confined;
} command;

static const char *command_text(const photo_options *options) {
    const char *text = options->command ? options->command : getenv("VIT_DECODER");
    return text && *text ? text : NULL;
}

/* Returns the next word of the command and moves *at behind the word. Words are split as in a
 * shell, and quotes are removed. The caller frees the word. Returns NULL if a quote has no end, or
 * if memory is exhausted. */
static char *take_word(const char **at) {
    char *word = malloc(strlen(*at) + 1), *to = word, quote = 0;
    if (!word) return NULL;
    for (; **at && (quote || !strchr(" \t\n", **at)); ++*at) {
        if (!quote && (**at == '\'' || **at == '"')) quote = **at;
        else if (quote && **at == quote) quote = 0;
        else if (**at == '\\' && (*at)[1] && (!quote || (quote == '"' && strchr("\"\\", (*at)[1]))))
            *to++ = *++*at;
        else *to++ = **at;
    }
    *to = '\0';
    if (!quote) return word;
    free(word);
    return NULL;
}

static bool split_command(command *c, report *r) {
    const char *at = c->text;
    if (strlen(at) > PHOTOS_MAX_COMMAND)
        return report_fail(r, "--decoder: the command has more than %d bytes; put it into a script",
                           PHOTOS_MAX_COMMAND);
    while (at += strspn(at, " \t\n"), *at) {
        if (c->count == MAX_WORDS)
            return report_fail(r,
                               "--decoder: the command has too many words; put it into a script");
        c->words[c->count] = take_word(&at);
        if (!c->words[c->count]) return report_fail(r, "--decoder: a quote has no end");
        for (const char *s = c->words[c->count++]; (s = strchr(s, '%')) != NULL; s += 2) {
            if (!s[1] || !strchr("io%", s[1]))
                return report_fail(r, "--decoder: expected %%i, %%o or %%%%, found '%.10s'", s);
            c->takes = c->takes || s[1] == 'i';
            c->writes = c->writes || s[1] == 'o';
        }
    }
    return c->count > 0 || report_fail(r, "--decoder: the command names no program");
}

/* Prepares the command before the first photo, so that a wrong command is reported at once. */
static bool open_command(command *c, const photo_options *options, uint64_t memory, report *r) {
    c->text = command_text(options);
    c->memory = memory;
    c->is_confined = !options->no_sandbox;
    if (!c->text) return true;
    if (!split_command(c, r)) return false;
    c->program = os_find_program(c->words[0]);
    if (!c->program)
        return report_fail(r, "--decoder: '%.100s' cannot be run: %s", c->words[0],
                           os_error(errno));
    c->folder = os_make_temporary();
    if (!c->folder)
        return report_fail(r, "--decoder: a folder for temporary files cannot be made: %s",
                           os_error(errno));
    cli_temporary_folder(c->folder);
    return true;
}

static void close_command(command *c) {
    if (c->folder) os_remove_folder(c->folder);
    if (c->folder) cli_temporary_folder(NULL);
    for (int i = 0; i < c->count; i++) free(c->words[i]);
    free(c->program);
    free(c->folder);
}

/* Returns a copy of the word in which the paths `input` and `output` replace %i and %o. The caller
 * frees the copy. */
static char *fill_word(const char *word, const char *input, const char *output) {
    const size_t longest = strlen(input) > strlen(output) ? strlen(input) : strlen(output);
    char *filled = malloc(strlen(word) * (longest + 1) + 1), *to = filled;
    for (; filled && *word; word++) {
        const char *part = *word != '%'     ? NULL
                           : *++word == 'i' ? input
                           : *word == 'o'   ? output
                                            : "%";
        if (part) to += strlen(strcpy(to, part));
        else *to++ = *word;
    }
    if (filled) *to = '\0';
    return filled;
}

static bool write_file(const char *path, const void *data, size_t size, report *r) {
    FILE *file = os_create(path, NULL);
    bool good = file && fwrite(data, 1, size, file) == size;
    if (file && fclose(file) != 0) good = false;
    return good || report_fail(r, "the photo's copy for the --decoder cannot be written: %s",
                               os_error(errno));
}

/* Sets `line` to ": " and the last of the command's messages, which are the lines of the file
 * `path`. If there are none, `line` becomes "". */
static void last_line(const char *path, char *line, size_t line_size) {
    report r = report_make();
    unsigned char *data;
    size_t size, start;
    line[0] = '\0';
    if (!source_read_all(path, 1 << 16, &data, &size, &r)) return;
    while (size > 0 && strchr("\r\n \t", data[size - 1])) size--;
    for (start = size; start > 0 && !strchr("\r\n", data[start - 1]);) start--;
    data[size] = '\0';
    snprintf(line, line_size, ": %s", (char *)data + start);
    if (size == start) line[0] = '\0';
    free(data);
}

static bool judge(const command *c, os_end end, int status, const char *errors, size_t max_bytes,
                  report *r) {
    char said[300];
    last_line(errors, said, sizeof said);
    if (end == OS_ENDED && status == 0) return true;
    if (end == OS_NOT_STARTED)
        return report_fail(r, "'%s' cannot be run%s: %s", c->text,
                           c->is_confined ? " confined" : "", os_error(errno));
    if (end == OS_LATE)
        return report_fail(r, "'%s' was stopped: it took more than %d seconds%s", c->text,
                           COMMAND_SECONDS, said);
    if (end == OS_TOO_LARGE)
        return report_fail(r, "'%s' was stopped: it wrote more than %zu MiB", c->text,
                           max_bytes >> 20);
    if (end == OS_KILLED)
        return report_fail(r, "'%s' was ended by signal %d%s", c->text, status, said);
    return report_fail(r, "'%s' failed with status %d%s", c->text, status, said);
}

/* Runs the command on the file `photo`, and reads the picture that the command made. Temporary
 * files are created in `folder`. */
static bool run_files(const command *c, const char *folder, const char *photo, size_t max_bytes,
                      unsigned char **data, size_t *size, report *r) {
    char *picture = join(folder, "picture.png"), *output = join(folder, "output");
    char *errors = join(folder, "errors"), *arguments[MAX_WORDS + 1] = { NULL };
    const char *written = c->writes ? picture : output;
    os_command run;
    int status = 0;
    bool good = picture && output && errors;
    for (int i = 0; good && i < c->count; i++)
        good = (arguments[i] = fill_word(c->words[i], photo, picture)) != NULL;
    if (good) {
        memset(&run, 0, sizeof run);
        run.program = c->program;
        run.arguments = arguments;
        run.folder = folder;
        run.input = c->takes ? NULL : photo;
        run.output = output;
        run.errors = errors;
        run.memory = c->memory;
        run.file = max_bytes;
        run.cpu_seconds = COMMAND_SECONDS;
        run.seconds = COMMAND_SECONDS;
        run.confine = c->is_confined ? sandbox_confine_command : NULL;
        const os_end end = os_run(&run, &status);
        good = judge(c, end, status, errors, max_bytes, r);
        if (good && (os_kind_of_link(written) != OS_FILE ||
                     !source_read_all(written, max_bytes, data, size, r)))
            good = report_fail(r, "'%s' wrote no picture", c->text);
        if (good && !image_file_is_known(*data, *size))
            good = report_fail(r, "'%s' did not write a PNG, JPEG or PPM", c->text);
    } else {
        (void)report_no_memory(r);
    }
    for (int i = 0; i < c->count; i++) free(arguments[i]);
    free(picture);
    free(output);
    free(errors);
    return good;
}

/* Runs the command on a photo whose bytes are in memory. *made receives the bytes of the picture
 * that the command made. The caller frees them. */
static bool by_command(command *c, const void *data, size_t size, size_t max_bytes,
                       unsigned char **made, size_t *made_size, report *r) {
    const image_file_kind *kind = image_file_kind_of(data, size);
    char number[16], name[16];
    char *folder, *photo;
    bool good;
    snprintf(number, sizeof number, "%u", __atomic_fetch_add(&c->runs, 1, __ATOMIC_RELAXED));
    snprintf(name, sizeof name, "photo%s", kind ? kind->suffix : "");
    folder = join(c->folder, number);
    photo = folder ? join(folder, name) : NULL;
    if (!photo) good = report_no_memory(r);
    else if (!os_make_folder(folder))
        good = report_fail(r, "a folder for the --decoder cannot be made: %s", os_error(errno));
    else
        good = write_file(photo, data, size, r) &&
               run_files(c, folder, photo, max_bytes, made, made_size, r);
    if (folder) os_remove_folder(folder);
    free(folder);
    free(photo);
    return good;
}

struct photo_decoder {
    const char *program;
    unsigned flags;
    bool exact;
    size_t max_bytes;
    /* The sandbox, or NULL to decode in this process. */
    sandbox *box;
    command other;
    /* `lacked` counts the photos that needed a command although none was given. `said_grey16` is 1
     * once the note about 16-bit grey images was printed. Several threads change both. */
    int lacked, said_grey16;
};

const char *photos_library(void) { return jpeg_library() ? jpeg_library() : "stb_image 2.27"; }

const char *photos_decoding(const photo_options *options, char text[PHOTOS_DECODING_SIZE]) {
    const char *other = command_text(options);
    snprintf(text, PHOTOS_DECODING_SIZE, "%s%s%s%.*s%s", photos_library(),
             !jpeg_library()  ? ""
             : options->exact ? ", exact"
                              : ", reduced",
             other ? ", others by '" : "", PHOTOS_MAX_COMMAND, other ? other : "",
             other ? "'" : "");
    return text;
}

static int64_t max_pixels_of(const photo_options *options) {
    return options->max_megapixels ? (int64_t)options->max_megapixels * 1000000
                                   : IMAGE_FILE_MAX_PIXELS;
}

static uint64_t memory_of(const photo_options *options) {
    return (uint64_t)max_pixels_of(options) * 24 + ((uint64_t)256 << 20);
}

static sandbox *open_sandbox(const photo_options *options, int num_threads, report *r) {
    sandbox_settings settings;
    memset(&settings, 0, sizeof settings);
    settings.max_input = photos_max_bytes(options);
    settings.max_pixels = max_pixels_of(options);
    settings.memory = memory_of(options);
    settings.max_to = MAX_INPUT_BYTES;
    settings.children = num_threads;
    settings.cpu_seconds = 30;
    settings.seconds = 600;
    settings.work = work;
    settings.release = photos_free_image;
    settings.allocate = allocate_pixels;
    return sandbox_open(&settings, r);
}

photo_decoder *photo_decoder_open(const photo_options *options, const char *program,
                                  int num_threads, report *r) {
    report why = report_make();
    photo_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) {
        (void)report_no_memory(r);
        return NULL;
    }
    decoder->program = program;
    decoder->flags = flags_of(options);
    decoder->exact = options->exact;
    decoder->max_bytes = photos_max_bytes(options);
    if (!open_command(&decoder->other, options, memory_of(options), r)) {
        photo_decoder_close(decoder);
        return NULL;
    }
    if (!options->no_sandbox) decoder->box = open_sandbox(options, num_threads, &why);
    if (why.text[0])
        report_error(program, NULL, "images are decoded in this process, without a sandbox: %s",
                     why.text);
    return decoder;
}

void photo_decoder_close(photo_decoder *decoder) {
    if (!decoder) return;
    if (decoder->lacked > 1)
        report_error(decoder->program, NULL,
                     "%d images need a --decoder; the first message names a command",
                     decoder->lacked);
    sandbox_close(decoder->box);
    close_command(&decoder->other);
    free(decoder);
}

/* Fails if standard input holds more than one photo. An answer about only the first frame of a
 * stream would mislead the user. */
static bool check_stdin(const void *data, size_t size, report *r) {
    return !frames_follow(data, size) ||
           report_fail(r, "more images follow the first; vit-classify --frames auto reads a "
                          "stream of frames") ||
           report_file(r, "-");
}

/* The parent reads the bytes, because a process in the sandbox cannot open files. */
bool photos_bytes(const char *name, const photo_decoder *decoder, void **data, size_t *size,
                  report *r) {
    unsigned char *read;
    if (source_is_folder(name)) {
        (void)report_fail(r, "the path is a folder; name the images in it: %.200s/*.jpg", name);
        return report_file(r, name);
    }
    if (!source_read_all(name, decoder->max_bytes, &read, size, r)) return false;
    *data = read;
    if (strcmp(name, "-") != 0 || check_stdin(read, *size, r)) return true;
    free(read);
    return false;
}

/* Decodes in the sandbox or, if there is none, in this process. */
static bool answer(const photo_decoder *decoder, sandbox_request *request, vit_image *image,
                   report *r) {
    return decoder->box ? sandbox_decode(decoder->box, request, image, r) : work(request, image, r);
}

/* Runs the command on the photo, and then decodes the picture that the command made. */
static bool answer_by_command(photo_decoder *decoder, sandbox_request *request, vit_image *image,
                              report *r) {
    report found = report_make();
    unsigned char *made = NULL;
    bool good = by_command(&decoder->other, request->data, request->size, decoder->max_bytes, &made,
                           &request->size, r);
    if (!good) return false;
    request->data = made;
    request->flags |= IMAGE_FILE_NO_EXIF;
    good = answer(decoder, request, image, &found);
    free(made);
    if (good) return true;
    if (found.no_memory) *r = found;
    else (void)report_fail(r, "the output of '%s': %s", decoder->other.text, found.text);
    return false;
}

/* Reports that a photo needs the option --decoder, and returns false. Only the first such report
 * explains the option. */
static bool lack_command(photo_decoder *decoder, const image_file_kind *kind, report *r) {
    if (!kind || __atomic_fetch_add(&decoder->lacked, 1, __ATOMIC_RELAXED) == 0) return false;
    *r = report_make();
    return report_fail(r, "the file is %s, for which no --decoder is given", kind->name);
}

/* Decodes a photo. If the decoder ignored damage, the function succeeds and r->text describes the
 * damage. */
static bool ask(const char *name, photo_decoder *decoder, sandbox_request *request,
                vit_image *image, report *r) {
    const bool known = image_file_is_known(request->data, request->size);
    const image_file_kind *kind = known ? NULL : image_file_kind_of(request->data, request->size);
    const bool other = !known && request->size > 0 && decoder->other.text;
    char note[SANDBOX_NOTE_SIZE] = "";
    bool good;
    request->flags = decoder->flags;
    request->note = note;
    good = other ? answer_by_command(decoder, request, image, r)
                 : answer(decoder, request, image, r) || lack_command(decoder, kind, r);
    /* `note` is a local array, so the request must not keep a pointer to it. */
    request->note = NULL;
    if (!good) return report_file(r, name);
    if (strcmp(note, IMAGE_FILE_GREY16) == 0 &&
        __atomic_exchange_n(&decoder->said_grey16, 1, __ATOMIC_RELAXED))
        note[0] = '\0';
    if (note[0]) {
        (void)report_fail(r, "%s", note);
        (void)report_file(r, name);
        r->failed = false;
    }
    return true;
}

bool photos_decode_bytes(const char *name, const void *data, size_t size, photo_decoder *decoder,
                         vit_image *image, report *r) {
    sandbox_request request = { 0 };
    report found = report_make();
    request.data = data;
    request.size = size;
    if (!ask(name, decoder, &request, image, &found)) {
        *r = found;
        return false;
    }
    if (found.text[0]) report_print(&found, decoder->program);
    return true;
}

bool photos_decode(const char *name, photo_decoder *decoder, vit_image *image, report *r) {
    void *data;
    size_t size;
    bool good;
    memset(image, 0, sizeof *image);
    if (!photos_bytes(name, decoder, &data, &size, r)) return false;
    good = photos_decode_bytes(name, data, size, decoder, image, r);
    free(data);
    return good;
}

static bool input_of_bytes(const char *name, const void *data, size_t size, photo_decoder *decoder,
                           const vit_model *model, float *input, report *r) {
    const vit_config *c = &model->config;
    sandbox_request request = { 0 };
    vit_image none;
    task t;
    memset(&t, 0, sizeof t);
    t.model = *model;
    t.exact = decoder->exact;
    request.data = data;
    request.size = size;
    request.parameters = &t;
    request.parameters_size = sizeof t;
    request.to = input;
    request.to_size = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width *
                      sizeof *input;
    return ask(name, decoder, &request, &none, r);
}

bool photos_input(const char *name, const void *data, size_t size, photo_decoder *decoder,
                  const vit_model *model, float *input, report *r) {
    void *read;
    bool good;
    if (data) return input_of_bytes(name, data, size, decoder, model, input, r);
    if (!photos_bytes(name, decoder, &read, &size, r)) return false;
    good = input_of_bytes(name, read, size, decoder, model, input, r);
    free(read);
    return good;
}

void photos_free_image(vit_image *image) {
    image_file file;
    memset(&file, 0, sizeof file);
    /* The cast drops the const of `pixels`: allocate_pixels or the decoder allocated them. */
    file.pixels = (uint8_t *)(uintptr_t)image->pixels;
    image_file_free(&file);
    memset(image, 0, sizeof *image);
}

bool photos_read(const vit_model *model, photo_decoder *decoder, photo_list *list, int i,
                 float *input, vit_image *image, report *r) {
    if (i < list->count && !takes_photos(model, r)) return report_file(r, list->paths[i]);
    while (i < list->count) {
        report found = report_make();
        if (image ? photos_decode(list->paths[i], decoder, image, &found)
                  : photos_input(list->paths[i], NULL, 0, decoder, model, input, &found)) {
            if (found.text[0]) report_print(&found, decoder->program);
            return true;
        }
        *r = found;
        if (!skip(list, i, r)) return false;
    }
    return false;
}
