#include "image/jpeg.h"

#include <string.h>

#ifdef JPEG_TURBO

#include <limits.h>
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>
#include <jerror.h>

/* The largest accepted number of scans in a progressive file. Each scan passes over all
 * coefficients of the image, and a small file may contain thousands of scans. */
enum { MAX_SCANS = 500 };

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *jpeg_library(void) {
#ifdef LIBJPEG_TURBO_VERSION
    return "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION);
#else
    return "libjpeg " TEXT(JPEG_LIB_VERSION);
#endif
}

typedef struct decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    /* `whole` is true if all rows of the image have been decoded. */
    bool good, whole;
    const jpeg_request *request;
    jpeg_image *image;
    report *r;
} decoder;

/* === What libjpeg calls === */

static void fail(j_common_ptr info) {
    decoder *d = info->client_data;
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    if (info->err->msg_code == JERR_OUT_OF_MEMORY) (void)report_no_memory(d->r);
    else (void)report_fail(d->r, "the image is damaged, or of an unsupported kind: %s", text);
    longjmp(d->failed, 1);
}

/* Keeps the text of the first warning. libjpeg reports warnings with a negative level, and traces
 * with any other level. */
static void warn(j_common_ptr info, int level) {
    decoder *d = info->client_data;
    char text[JMSG_LENGTH_MAX];
    if (level >= 0 || info->err->num_warnings++ > 0) return;
    info->err->format_message(info, text);
    snprintf(d->image->repaired, sizeof d->image->repaired, "%s", text);
}

static void print_nothing(j_common_ptr info) { (void)info; }

static void count_scans(j_common_ptr info) {
    decoder *d = info->client_data;
    if (d->info.input_scan_number <= MAX_SCANS) return;
    (void)report_fail(d->r, "the image is damaged: it has more than %d scans", MAX_SCANS);
    longjmp(d->failed, 1);
}

/* libjpeg calls these functions to get more bytes. The whole file is already in memory, so a
 * request for more bytes means that the file has ended. As in Pillow, an image whose rows are all
 * decoded is accepted without its end mark. */
static void start_source(j_decompress_ptr info) { (void)info; }
static void end_source(j_decompress_ptr info) { (void)info; }

static boolean refill(j_decompress_ptr info) {
    decoder *d = info->client_data;
    if (d->whole) {
        snprintf(d->image->repaired, sizeof d->image->repaired, "it has no end mark");
        longjmp(d->failed, 2);
    }
    (void)report_fail(d->r, "the image is truncated");
    longjmp(d->failed, 1);
}

static void skip(j_decompress_ptr info, long count) {
    if (count <= 0) return;
    if ((size_t)count > info->src->bytes_in_buffer) (void)refill(info);
    info->src->next_input_byte += count;
    info->src->bytes_in_buffer -= (size_t)count;
}

/* === Pixels === */

static void prepare(decoder *d) {
    struct jpeg_decompress_struct *info = &d->info;
    jpeg_std_error(&d->errors);
    d->errors.error_exit = fail;
    d->errors.emit_message = warn;
    d->errors.output_message = print_nothing;
    info->err = &d->errors;
    info->client_data = d;
}

static void begin(decoder *d) {
    struct jpeg_decompress_struct *info = &d->info;
    jpeg_create_decompress(info);
    info->client_data = d;
    d->source.init_source = start_source;
    d->source.fill_input_buffer = refill;
    d->source.skip_input_data = skip;
    d->source.resync_to_restart = jpeg_resync_to_restart;
    d->source.term_source = end_source;
    d->source.next_input_byte = d->request->data;
    d->source.bytes_in_buffer = d->request->size;
    info->src = &d->source;
    d->progress.progress_monitor = count_scans;
    info->progress = &d->progress;
}

/* Converts one row from Adobe's inverted CMYK to RGB, like Pillow: each colour is the product of
 * its stored ink and the stored black, divided by 255. `to` and `row` may be the same memory, which
 * must have four bytes for each pixel. */
static void rgb_from_cmyk(uint8_t *to, const uint8_t *row, int width) {
    for (int x = 0; x < width; x++)
        for (int i = 0; i < 3; i++) {
            const int light = row[4 * x + 3], ink = 255 - row[4 * x + i];
            const int product = ink * light + 128;
            to[3 * x + i] = (uint8_t)(light - (((product >> 8) + product) >> 8));
        }
}

static void rgb_from_grey(uint8_t *row, int width) {
    for (int x = width - 1; x >= 0; x--) memset(row + 3 * x, row[x], 3);
}

static void read_rows(decoder *d) {
    struct jpeg_decompress_struct *info = &d->info;
    const int width = d->image->width, channels = info->output_components;
    JSAMPARRAY wide = NULL;
    if (channels == 4)
        wide = info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE, (JDIMENSION)width * 4, 1);
    while (info->output_scanline < info->output_height) {
        uint8_t *to = d->image->pixels + (size_t)info->output_scanline * (size_t)width * 3;
        JSAMPROW row = wide ? wide[0] : to;
        if (jpeg_read_scanlines(info, &row, 1) != 1) (void)refill(info);
        if (wide) rgb_from_cmyk(to, row, width);
        else if (channels == 1) rgb_from_grey(to, width);
    }
}

static bool decode(decoder *d) {
    struct jpeg_decompress_struct *info = &d->info;
    int eighths;
    jpeg_read_header(info, TRUE);
    if (info->image_width > INT_MAX || info->image_height > INT_MAX)
        return report_fail(d->r, "the image is damaged: its sides are too long");
    eighths = d->request->eighths(d->request->user, (int)info->image_width, (int)info->image_height,
                                  d->r);
    if (!eighths) return false;
    info->scale_num = (unsigned)eighths;
    info->scale_denom = 8;
    info->out_color_space = info->num_components == 4   ? JCS_CMYK
                            : info->num_components == 1 ? JCS_GRAYSCALE
                                                        : JCS_RGB;
    jpeg_start_decompress(info);
    d->image->width = (int)info->output_width;
    d->image->height = (int)info->output_height;
    d->image->pixels = d->request->allocate((size_t)info->output_width *
                                            (size_t)info->output_height * 3);
    if (!d->image->pixels) return report_no_memory(d->r);
    read_rows(d);
    d->whole = true;
    return jpeg_finish_decompress(info) || report_fail(d->r, "the image is truncated");
}

bool jpeg_decode(const jpeg_request *request, jpeg_image *image, report *r) {
    decoder d;
    memset(&d, 0, sizeof d);
    memset(image, 0, sizeof *image);
    d.request = request;
    d.image = image;
    d.r = r;
    prepare(&d);
    switch (setjmp(d.failed)) {
    case 0:
        begin(&d);
        d.good = decode(&d);
        break;
    case 2: d.good = true; break;
    }
    jpeg_destroy_decompress(&d.info);
    return d.good;
}

#else

const char *jpeg_library(void) { return NULL; }

bool jpeg_decode(const jpeg_request *request, jpeg_image *image, report *r) {
    (void)request;
    memset(image, 0, sizeof *image);
    return report_fail(r, "this program has no libjpeg-turbo");
}

#endif
