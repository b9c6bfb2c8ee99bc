/* test_frames.c - tests frames.h and photo_source.h with streams of raw frames, JPEGs and PPMs:
 * truncated streams, damaged streams, streams in real time, JPEGs without Huffman tables, limits of
 * size, and the mean of the last frames.
 *
 *     test_frames [tests/data]
 */
#define _POSIX_C_SOURCE 200809L

#include "image/photo_source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/photos.h"
#include "numbers/precision.h"
#include "test.h"

static const char *data_folder = "tests/data";
static photo_decoder *decoder;

typedef struct bytes {
    unsigned char data[1 << 20];
    size_t size;
} bytes;

static void append(bytes *to, const void *data, size_t size) {
    if (size > sizeof to->data - to->size) exit(2);
    if (size) memcpy(to->data + to->size, data, size);
    to->size += size;
}

static void append_text(bytes *to, const char *text) { append(to, text, strlen(text)); }

static void append_file(bytes *to, const char *name) {
    char path[1024];
    FILE *file;
    snprintf(path, sizeof path, "%s/images/%s", data_folder, name);
    file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "%s", path);
    if (!file) return;
    to->size += fread(to->data + to->size, 1, sizeof to->data - to->size, file);
    fclose(file);
}

static const vit_image images = { NULL, 0, 0, 0, VIT_PIXEL_RGB8 };

/* Reads all frames of a stream. Returns their sizes as a text such as "12 7". If reading failed,
 * the message follows. */
static const char *sizes(const bytes *from, const vit_image *raw) {
    static char text[1024];
    static frame_stream stream;
    frame f = { 0 };
    report r = report_make();
    size_t length = 0;
    text[0] = '\0';
    frames_begin(&stream, raw, -1, -1);
    stream.next = from->data;
    stream.left = from->size;
    while (frames_read(&stream, &f, &r) && length < 900) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%zu", length ? " " : "",
                                   f.size);
        CHECK(f.number == stream.count && f.read_at > 0);
    }
    if (r.failed) snprintf(text + length, sizeof text - length, ": %.100s", r.text);
    frame_free(&f);
    return text;
}

#define SIZES(from, raw, expected)                                                                 \
    do {                                                                                           \
        const char *found = sizes(from, raw);                                                      \
        CHECK_MSG(strcmp(found, expected) == 0, "%s instead of %s", found, expected);              \
    } while (0)

/* --- raw -------------------------------------------------------------------- */

static vit_image raw_of(const char *name, const char *size) {
    vit_image raw;
    report r = report_make();
    CHECK_MSG(frames_choose(size, name, &raw, &r), "%s", r.text);
    return raw;
}

/* Returns the message about wrong options, or "" if the options are accepted. */
static const char *wrong(const char *size, const char *pixels) {
    static report r;
    vit_image raw;
    r = report_make();
    CHECK(frames_choose(size, pixels, &raw, &r) == !r.failed);
    return r.text;
}

static void test_choose(void) {
    static const char *const sides[] = { "", "x", "0x4", "4x", "4", "16385x1", "4x4x4", "-1x4" };
    vit_image raw = raw_of(NULL, "auto");
    CHECK(raw.width == 0);
    raw = raw_of(NULL, "640x480");
    CHECK(raw.width == 640 && raw.height == 480 && raw.format == VIT_PIXEL_RGB8);
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        CHECK_MSG(strstr(wrong(sides[i], NULL), "--frames: expected auto"), "%s", sides[i]);
    CHECK(strstr(wrong("auto", "gray"), "--pixels needs a size"));
    CHECK(strstr(wrong("4x4", "RGB24"), "--pixels: expected rgb24, bgr24"));
    CHECK(strstr(wrong("3x4", "yuyv"), "needs even sides, found 3x4"));
    CHECK(strstr(wrong("3x4", "nv12"), "even") && strstr(wrong("4x3", "nv12"), "even"));
}

static void test_raw(void) {
    static const struct {
        const char *name, *size, *expected;
    } cases[] = {
        { "rgb24", "3x5", "45 45" }, { "bgr24", "3x5", "45 45" }, { "gray", "3x5", "15 15" },
        { "yuyv", "4x5", "40 40" },  { "nv12", "4x6", "36 36" },  { "rgb565", "3x5", "30 30" },
        { "rgba", "3x5", "60 60" },  { "bgra", "3x5", "60 60" },
    };
    static bytes data;
    vit_image raw;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        raw = raw_of(cases[i].name, cases[i].size);
        data.size = 2 * (size_t)atoi(cases[i].expected);
        /* A black frame consists of zeros, which must not count as padding. */
        SIZES(&data, &raw, cases[i].expected);
    }
    raw = raw_of("gray", "5x2");
    data.size = 0;
    append_text(&data, "0123456789abcdefghijJKL");
    SIZES(&data, &raw, "10 10: frame 3 is truncated: the stream ends after 3 bytes of 10");
    data.size = 20;
    SIZES(&data, &raw, "10 10");
    data.size = 1;
    SIZES(&data, &raw, ": frame 1 is truncated: the stream ends after 1 bytes of 10");
}

/* --- images ----------------------------------------------------------------- */

/* Appends a JPEG that contains another JPEG, like the thumbnail in an EXIF segment. */
static void append_with_thumbnail(bytes *to) {
    static bytes plain;
    const unsigned char head[] = { 0xff, 0xd8, 0xff, 0xff, 0xe1 };
    plain.size = 0;
    append_file(&plain, "grey.jpg");
    const size_t length = plain.size + 2;
    const unsigned char size[] = { (unsigned char)(length >> 8), (unsigned char)length };
    CHECK(length < 65536);
    append(to, head, sizeof head);
    append(to, size, sizeof size);
    append(to, plain.data, plain.size);
    append(to, plain.data + 2, plain.size - 2);
}

static void test_jpegs(void) {
    static const char *const names[] = { "baseline.jpg", "progressive.jpg", "exif6.jpg", "cmyk.jpg",
                                         "grey.jpg" };
    static bytes data, one;
    char expected[200] = "";
    for (size_t i = 0; i < 5; i++) {
        const size_t before = data.size, length = strlen(expected);
        append_file(&data, names[i]);
        snprintf(expected + length, sizeof expected - length, "%zu ", data.size - before);
    }
    const size_t before = data.size, length = strlen(expected);
    append_with_thumbnail(&data);
    snprintf(expected + length, sizeof expected - length, "%zu", data.size - before);
    SIZES(&data, &images, expected);
    append(&data, "\0\0\0", 3); /* Some cameras pad their JPEGs in this way. */
    SIZES(&data, &images, expected);

    append_with_thumbnail(&one);
    for (size_t size = 1; size < one.size; size++) {
        static bytes cut;
        memcpy(cut.data, one.data, cut.size = size);
        const char *found = sizes(&cut, &images);
        CHECK_MSG(strncmp(found, ": frame 1 is truncated", 22) == 0, "cut at %zu", size);
    }
    memcpy(data.data, "\xff\xd8\xff\xe0\0\1", data.size = 6);
    SIZES(&data, &images, ": frame 1 is damaged: a JPEG segment without a length after 6 bytes");
    memcpy(data.data, "\xff\xd8 and more", data.size = 11);
    SIZES(&data, &images, ": frame 1 is damaged: no JPEG segment after 3 bytes");
}

static void test_pnm(void) {
    static bytes data;
    append_text(&data, "P6 2 1 255\nabcdef");
    append_text(&data, "P5\n# two\n#\n3 1 # three\n65535\nabcdef");
    append_text(&data, "P6\n1\n1\n255 abc");
    SIZES(&data, &images, "17 35 14");
    data.size -= 2;
    SIZES(&data, &images, "17 35: frame 3 is truncated: the stream ends after 12 bytes of 14");
    data.size -= 3;
    SIZES(&data, &images,
          "17 35: frame 3 is truncated: the stream ends after 9 bytes of a PGM or PPM header");
    data.size = 17;
    append_text(&data, "P6 0 1 255\n");
    SIZES(&data, &images, "17: frame 2 is damaged: not a valid PGM or PPM header after 11 bytes");
    data.size = 17;
    append_text(&data, "P6 1000000 1000000 255\n");
    SIZES(&data, &images, "17: frame 2 is too large: 1000000 x 1000000");
    data.size = 17;
    append_text(&data, "GIF89a");
    CHECK(strstr(sizes(&data, &images), "17: frame 2 begins with the bytes 47 49: expected a JP"));
    data.size = 18;
    CHECK(strstr(sizes(&data, &images), "17: frame 2 is truncated"));
}

/* Appends a JPEG without the segments of its Huffman tables. */
static void append_without_tables(bytes *to, const bytes *jpeg) {
    const unsigned char *d = jpeg->data;
    size_t at = 2;
    append(to, d, 2);
    while (d[at + 1] != 0xda) {
        const size_t size = 2 + (size_t)d[at + 2] * 256 + d[at + 3];
        if (d[at + 1] != 0xc4) append(to, d + at, size);
        at += size;
    }
    append(to, d + at, jpeg->size - at);
}

/* Tests JPEGs without Huffman tables. The decoder must use the standard tables, which most encoders
 * write. */
static void test_tables(void) {
    static const char *const names[] = { "baseline.jpg", "grey.jpg", "cmyk.jpg" };
    static bytes whole, bare;
    for (size_t i = 0; i < 3; i++) {
        vit_image a, b;
        report r = report_make();
        whole.size = bare.size = 0;
        append_file(&whole, names[i]);
        append_without_tables(&bare, &whole);
        CHECK(bare.size + 200 < whole.size);
        CHECK(photos_decode_bytes("whole", whole.data, whole.size, decoder, &a, &r));
        CHECK_MSG(photos_decode_bytes("bare", bare.data, bare.size, decoder, &b, &r), "%s", r.text);
        CHECK(a.width == b.width && a.height == b.height);
        CHECK(!memcmp(a.pixels, b.pixels, (size_t)a.width * (size_t)a.height * 3));
        photos_free_image(&a);
        photos_free_image(&b);
        for (size_t size = 1; size < bare.size; size += 7) {
            report cut = report_make();
            CHECK(!photos_decode_bytes("cut", bare.data, size, decoder, &b, &cut) && cut.failed);
        }
    }
}

static void test_limit(void) {
    static const char text[] = "P5 1001 1000 255\n";
    static bytes data;
    photo_options options = { false, true, 1, false, NULL };
    report r = report_make();
    photo_decoder *strict = photo_decoder_open(&options, "test", 1, &r), *other;
    vit_image image;
    append_text(&data, text);
    memset(data.data + data.size, 7, 1001000);
    data.size += 1001000;
    CHECK(!photos_decode_bytes("a", data.data, data.size, strict, &image, &r));
    CHECK_MSG(strstr(r.text, "a: the image is too large: found 1001 x 1000, limit 1000000 "), "%s",
              r.text);
    options.max_megapixels = 2;
    r = report_make();
    other = photo_decoder_open(&options, "test", 1, &r);
    CHECK(photos_decode_bytes("a", data.data, data.size, other, &image, &r));
    photos_free_image(&image);
    photo_decoder_close(strict);
    photo_decoder_close(other);
}

static void test_paths(void) {
    report r = report_make();
    vit_image image;
    CHECK(!photos_decode("no/such/file.png", decoder, &image, &r));
    CHECK(strstr(r.text, "cannot be opened: "));
    r = report_make();
    CHECK(!photos_decode(data_folder, decoder, &image, &r));
    CHECK(strstr(r.text, "is a folder; name the images in it: "));
    r = report_make();
    CHECK(!photos_decode("/dev/null", decoder, &image, &r));
    CHECK(strcmp(r.text, "/dev/null: is empty") == 0);
}

static void test_follow(void) {
    static bytes data;
    append_text(&data, "P6 2 1 255\nabcdef");
    CHECK(!frames_follow(data.data, 0) && !frames_follow(data.data, data.size));
    append_text(&data, "\n");
    CHECK(!frames_follow(data.data, data.size));
    data.size--;
    append_text(&data, "P6");
    CHECK(frames_follow(data.data, data.size));
    data.size = 0;
    append_with_thumbnail(&data);
    CHECK(!frames_follow(data.data, data.size));
    append_with_thumbnail(&data);
    CHECK(frames_follow(data.data, data.size));
    /* The search finds these bytes too, although they lie in the thumbnail. */
    memcpy(data.data + 20, "MPF", 4);
    CHECK(!frames_follow(data.data, data.size));
}

/* --- readers ---------------------------------------------------------------- */

/* Writes the bytes to a file. Returns its path. */
static const char *write_file(const bytes *data) {
    static char path[] = "/tmp/test_frames.XXXXXX";
    /* True once mkstemp has chosen the path. The path does not show this, because it may still
     * contain an X. */
    static bool named;
    FILE *file;
    if (!named && close(mkstemp(path))) exit(2);
    named = true;
    file = fopen(path, "wb");
    if (!file || fwrite(data->data, 1, data->size, file) != data->size || fclose(file)) exit(2);
    return path;
}

static frame_reader reader_of(vit_image raw, int every, bool realtime) {
    frame_reader reader;
    memset(&reader, 0, sizeof reader);
    reader.raw = raw;
    reader.decoder = decoder;
    reader.every = every;
    reader.realtime = realtime;
    return reader;
}

static void test_every(void) {
    static bytes data;
    const char *path;
    photo p;
    report r = report_make();
    append_text(&data, "0123456789");
    path = write_file(&data);
    for (int every = 1; every <= 11; every++) {
        frame_reader reader = reader_of(raw_of("gray", "1x1"), every, false);
        photo_source source = frame_reader_source(&reader);
        int64_t next = 1;
        CHECK(frame_reader_open(&reader, path, &r) && source.count == 0);
        for (; memset(&p, 0, sizeof p), source.next(source.user, &p, &r); next += every) {
            CHECK(reader.current.number == next && p.image.pixels[0] == '0' + next - 1);
            CHECK(atoi(p.name + 6) == next);
            photo_free(&p);
        }
        CHECK(next > 10 && !r.failed && reader.dropped == 0);
        frame_reader_close(&reader);
    }
    remove(path);
}

/* Tests images that are decoded ahead. photo_decode must report the images that cannot be
 * decoded. */
static void test_images(void) {
    static bytes data;
    const char *path;
    photo p = { 0 };
    report r = report_make();
    append_text(&data, "P5 2 1 255\nab");
    append(&data, "\xff\xd8\xff\xd9", 4);
    append_file(&data, "baseline.jpg");
    path = write_file(&data);
    for (int realtime = 0; realtime < 2; realtime++) {
        frame_reader reader = reader_of(images, 1, realtime);
        photo_source source = frame_reader_source(&reader);
        int64_t last = 0;
        CHECK(frame_reader_open(&reader, path, &r));
        for (; source.next(source.user, &p, &r); memset(&p, 0, sizeof p)) {
            report why = report_make();
            last = reader.current.number;
            CHECK((p.image.pixels != NULL) == (!realtime && last != 2));
            CHECK(photo_decode(&p, decoder, &why) == (last != 2));
            CHECK(last != 1 || !memcmp(p.image.pixels, "aaabbb", 6));
            CHECK_MSG(last != 2 || !strncmp(why.text, "frame 2: the image is damaged", 29), "%s",
                      why.text);
            photo_free(&p);
        }
        CHECK(last == 3 && !r.failed);
        frame_reader_close(&reader);
    }
    remove(path);
}

static void test_realtime(void) {
    static bytes data;
    const char *path;
    frame_reader reader = reader_of(raw_of("gray", "1x1"), 3, true);
    photo_source source = frame_reader_source(&reader);
    photo p = { 0 };
    report r = report_make();
    int64_t got = 0, last = 0;
    for (int i = 0; i < 1000; i++) append_text(&data, "0123456789");
    path = write_file(&data);
    CHECK(frame_reader_open(&reader, path, &r));
    for (; source.next(source.user, &p, &r); got++) {
        CHECK(reader.current.number > last);
        last = reader.current.number;
        photo_free(&p);
    }
    frame_reader_close(&reader);
    CHECK_MSG(last == 10000 && got + reader.dropped == 3334, "%d + %d, last %d", (int)got,
              (int)reader.dropped, (int)last);
    remove(path);
}

/* Tests a truncated stream. The failure must come after the last whole frame. */
static void test_truncated(void) {
    static bytes data;
    const char *path;
    append_text(&data, "012345678");
    path = write_file(&data);
    for (int realtime = 0; realtime < 2; realtime++) {
        frame_reader reader = reader_of(raw_of("gray", "2x1"), 1, realtime);
        photo_source source = frame_reader_source(&reader);
        photo p = { 0 };
        report r = report_make();
        CHECK(frame_reader_open(&reader, path, &r));
        while (source.next(source.user, &p, &r)) {
            CHECK(!r.failed);
            photo_free(&p);
        }
        CHECK(reader.current.number == 4 && strstr(r.text, ": frame 5 is truncated"));
        CHECK(!strncmp(r.text, path, strlen(path)));
        frame_reader_close(&reader);
    }
    remove(path);
}

/* Tests closing a reader. Closing must not wait for a frame that never arrives, nor for a caller
 * that never takes a frame. */
static void test_close(void) {
    static bytes data;
    const char *path;
    report r = report_make();
#if !defined(_WIN32)
    char name[32];
    int ends[2];
#endif
    frame_reader reader = reader_of(raw_of("gray", "1x1"), 1, false);
    CHECK(!frame_reader_open(&reader, "no/such", &r) && strstr(r.text, "no/such: cannot be op"));
    append_text(&data, "0123456789");
    path = write_file(&data);
    r = report_make();
    CHECK(frame_reader_open(&reader, path, &r));
    frame_reader_close(&reader);
    remove(path);
/* Under Wine, this test would use Wine's own pipe, which loses bytes. */
#if !defined(_WIN32)
    if (pipe(ends)) exit(2);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    reader = reader_of(raw_of("gray", "1x1"), 1, true);
    CHECK(frame_reader_open(&reader, name, &r));
    frame_reader_close(&reader);
    close(ends[0]);
    close(ends[1]);
#endif
    data.size = 0;
    reader = reader_of(images, 1, false);
    photo_source source = frame_reader_source(&reader);
    photo p = { 0 };
    CHECK(frame_reader_open(&reader, "/dev/null", &r));
    CHECK(!source.next(source.user, &p, &r) && !strcmp(r.text, "/dev/null: has no frames"));
    frame_reader_close(&reader);
}

/* --- means ------------------------------------------------------------------ */

static void test_mean(void) {
    for (int length = 1; length <= 4; length++) {
        running_mean m;
        CHECK(running_mean_open(&m, length, 2));
        for (int i = 0; i < 12; i++) {
            const int first = i < length ? 0 : i - length + 1;
            float values[2] = { (float)(i * i), -1.5f };
            double sum = 0;
            for (int k = first; k <= i; k++) sum += k * k;
            running_mean_add(&m, values);
            CHECK(values[0] == (float)(sum / (i - first + 1)) && values[1] == -1.5f);
        }
        running_mean_close(&m);
    }
}

int main(int argc, char **argv) {
    const photo_options confined = { 0 };
    report r = report_make();
    if (argc > 1) data_folder = argv[1];
    decoder = photo_decoder_open(&confined, "test", 1, &r);
    CHECK_MSG(decoder, "%s", r.text);
    test_choose();
    test_raw();
    test_jpegs();
    test_pnm();
    test_tables();
    test_limit();
    test_paths();
    test_follow();
    test_every();
    test_images();
    test_realtime();
    test_truncated();
    test_close();
    test_mean();
    photo_decoder_close(decoder);
    return test_summary();
}
