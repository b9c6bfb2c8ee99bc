/* test_image.c - tests image_file.h: compares every kind of image with Pillow's pixels, then tries
 * hostile images.
 *
 *     test_image [tests/data]
 */
#include "image/image_file.h"
#include "test.h"

static const char *data_folder = "tests/data", *images = "images";
/* Flags for the decoder: IMAGE_FILE_STB, or 0. */
static unsigned decoder;

/* ------------------------------------------------------------------------- */
/* Files                                                                     */
/* ------------------------------------------------------------------------- */

typedef struct bytes {
    /* The block has exactly `size` bytes, so that sanitizers detect reads beyond its end. It is
     * allocated with malloc. */
    unsigned char *data;
    size_t size;
} bytes;

static bytes copy_bytes(const void *data, size_t size) {
    bytes b = { malloc(size ? size : 1), size };
    if (!b.data) {
        printf("out of memory\n");
        exit(2);
    }
    if (size) memcpy(b.data, data, size);
    return b;
}

static void image_path(char *path, size_t size, const char *name) {
    snprintf(path, size, "%s/%s/%s", data_folder, images, name);
}

static bytes read_file(const char *name) {
    static unsigned char buffer[1 << 20];
    char path[1024];
    size_t size = 0;
    FILE *file;
    image_path(path, sizeof path, name);
    file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "%s", path);
    if (file) {
        size = fread(buffer, 1, sizeof buffer, file);
        fclose(file);
    }
    return copy_bytes(buffer, size);
}

/* Decodes a copy that ends where its block of memory ends. Returns true if the image was accepted.
 * An accepted image must have pixels, and a refused image must have a reason. */
static bool accepted(const void *data, size_t size, unsigned flags) {
    bytes exact = copy_bytes(data, size);
    report r = report_make();
    image_file image;
    bool good = image_file_decode(exact.data, size, flags | decoder, NULL, NULL, &image, &r);
    if (good) {
        unsigned sum = 0;
        CHECK(image.pixels && image.width > 0 && image.height > 0);
        for (size_t i = 0; i < (size_t)image.width * (size_t)image.height * 3; i++) {
            sum += image.pixels[i];
        }
        CHECK(sum != 1u || image.pixels); /* This reads every pixel. */
    } else {
        CHECK(r.text[0] && !image.pixels && image.width == 0 && image.height == 0);
    }
    image_file_free(&image);
    free(exact.data);
    return good;
}

/* Returns true if the image is refused with a message that contains this text. */
static bool refused(const void *data, size_t size, const char *text) {
    bytes exact = copy_bytes(data, size);
    report r = report_make();
    image_file image;
    bool good = image_file_decode(exact.data, size, decoder, NULL, NULL, &image, &r);
    bool right = !good && strstr(r.text, text);
    if (!right) printf("    expected '%s', found '%s'\n", text, good ? "accepted" : r.text);
    image_file_free(&image);
    free(exact.data);
    return right;
}

/* ------------------------------------------------------------------------- */
/* Pixels                                                                    */
/* ------------------------------------------------------------------------- */

static int orientation_of(const bytes *file) {
    image_file__job job = { file->data, file->size, NULL };
    return image_file__orientation(&job);
}

static int hex_byte(const char *text) {
    unsigned value = 0;
    sscanf(text, "%2x", &value);
    return (int)value;
}

/* Returns the largest difference between the image's bytes and those in `hex`, or 999 if the sizes
 * differ. */
static int difference(const image_file *image, int width, int height, const char *hex) {
    int worst = 0;
    if (image->width != width || image->height != height) return 999;
    for (size_t i = 0; i < (size_t)width * (size_t)height * 3; i++) {
        int d = abs(image->pixels[i] - hex_byte(hex + 2 * i));
        if (d > worst) worst = d;
    }
    return worst;
}

/* Checks the image of one line of expected.txt. */
static void check_line(const char *line) {
    static char hex[16384];
    char name[64];
    report r = report_make();
    int width, height, tolerance, d;
    image_file image;
    bytes file;
    if (sscanf(line, "%63s %d %d %d %16383s", name, &width, &height, &tolerance, hex) != 5) {
        CHECK_MSG(false, "damaged line in expected.txt");
        return;
    }
    file = read_file(name);
    if (!image_file_decode(file.data, file.size, decoder, NULL, NULL, &image, &r)) {
        CHECK_MSG(false, "%s: %s", name, r.text);
        free(file.data);
        return;
    }
    d = difference(&image, width, height, hex);
    /* The expected pixels are from the same decoder, because Pillow also uses libjpeg-turbo. */
    if (jpeg_library() && !decoder) tolerance = 0;
    CHECK_MSG(d <= tolerance, "%s: %d x %d, differs by %d, allowed %d", name, image.width,
              image.height, d, tolerance);
    image_file_free(&image);
    free(file.data);
}

/* Calls `check` with each line of expected.txt. */
static int for_each_line(void (*check)(const char *line)) {
    static char line[32768];
    char path[1024];
    int count = 0;
    FILE *file;
    image_path(path, sizeof path, "expected.txt");
    file = fopen(path, "r");
    CHECK_MSG(file != NULL, "%s", path);
    while (file && fgets(line, sizeof line, file)) {
        check(line);
        count++;
    }
    if (file) fclose(file);
    return count;
}

/* Checks a damaged JPEG. Both decoders must refuse the files that Pillow refuses. If Pillow repairs
 * the file, libjpeg-turbo must give the same pixels. It must also warn, but not about the damage of
 * the files in `unseen`. stb_image may refuse these files. */
static void check_damaged(const char *line) {
    static const char *const unseen[] = { "bits.jpg", "bits_at_start.jpg", "garbage_behind.jpg",
                                          "no_table.jpg" };
    const bool turbo = jpeg_library() && !decoder;
    char name[64] = "", verdict[16] = "";
    bool seen = true;
    report r = report_make();
    image_file image;
    bytes file;
    sscanf(line, "%63s %15s", name, verdict);
    if (strcmp(verdict, "refused") != 0 && turbo) check_line(line);
    file = read_file(name);
    for (size_t i = 0; i < sizeof unseen / sizeof unseen[0]; i++)
        seen = seen && strcmp(unseen[i], name) != 0;
    if (image_file_decode(file.data, file.size, decoder, NULL, NULL, &image, &r)) {
        CHECK_MSG(strcmp(verdict, "refused") != 0, "%s is accepted", name);
        CHECK_MSG(!turbo || (image.note[0] != 0) == seen, "%s: '%s'", name, image.note);
    } else {
        CHECK_MSG(strcmp(verdict, "refused") == 0 || !turbo, "%s: %s", name, r.text);
        CHECK_MSG(strstr(r.text, "is truncated") || strstr(r.text, "is damaged"), "%s: %s", name,
                  r.text);
    }
    image_file_free(&image);
    free(file.data);
}

/* Tests the orientations of Exif. Only orientations 5 to 8 swap the sides. With IMAGE_FILE_NO_EXIF,
 * no orientation swaps them. */
static void test_exif(void) {
    for (int orientation = 1; orientation <= 8; orientation++) {
        char name[32];
        report r = report_make();
        image_file image;
        bytes file;
        snprintf(name, sizeof name, "exif%d.jpg", orientation);
        file = read_file(name);
        CHECK(image_file_decode(file.data, file.size, decoder, NULL, NULL, &image, &r));
        CHECK(image.width == (orientation > 4 ? 16 : 24));
        image_file_free(&image);
        CHECK(image_file_decode(file.data, file.size, IMAGE_FILE_NO_EXIF | decoder, NULL, NULL,
                                &image, &r));
        CHECK(image.width == 24 && image.height == 16);
        image_file_free(&image);
        free(file.data);
    }
}

/* ------------------------------------------------------------------------- */
/* Portable maps, written by hand                                            */
/* ------------------------------------------------------------------------- */

static bool pnm_is(const char *text, size_t size, int width, int height, const char *hex) {
    report r = report_make();
    image_file image;
    bool good = image_file_decode(text, size, decoder, NULL, NULL, &image, &r) &&
                difference(&image, width, height, hex) == 0;
    image_file_free(&image);
    return good;
}

#define PNM_IS(text, width, height, hex) CHECK(pnm_is(text, sizeof text - 1, width, height, hex))
#define REFUSED(text, message)           CHECK(refused(text, sizeof text - 1, message))

static void test_pnm(void) {
    PNM_IS("P5 2 1 255\n\x01\xff", 2, 1, "010101ffffff");
    PNM_IS("P5\n#a\n2#b\n 1\t255\r\x01\xff", 2, 1, "010101ffffff");
    PNM_IS("P5 2 1 15\n\x01\x0f", 2, 1, "111111ffffff");
    /* The second value is above the stated maximum, 15. */
    PNM_IS("P5 2 1 15\n\x01\x7f", 2, 1, "111111ffffff");
    PNM_IS("P6 1 1 255\nabc", 1, 1, "616263");
    PNM_IS("P6 1 1 255\nabcdef", 1, 1, "616263"); /* There is a second image after the first. */
    PNM_IS("P5 1 1 1023\n\x03\xff", 1, 1, "ffffff");
    REFUSED("P5 2 1 255\n\x01", "truncated");
    REFUSED("P5 2 1 65535\n\x01\x02\x03", "truncated");
    REFUSED("P5 2 1 65536\n\x01\x02\x03\x04", "header");
    REFUSED("P5 2 1 0\n\x01\x02", "header");
    REFUSED("P5 2 1", "header");
    REFUSED("P5 2 -1 255\n\x01\x02", "header");
    REFUSED("P5 0 5 255\n\x01", "no pixels: found 0 x 5");
    REFUSED("P5 99999999999999999999 1 255\n\x01", "header");
    REFUSED("P6 65536 65536 255\n\x01", "too large: found 65536 x 65536, limit");
    REFUSED("P6 2000000 1 255\n\x01", "too large: found 2000000 x 1, limit");
    REFUSED("P5 # no end of comment", "header");
    REFUSED("P5", "header");
    REFUSED("P7", "not an image");
    REFUSED("P", "not an image");
}

/* ------------------------------------------------------------------------- */
/* Hostile files                                                             */
/* ------------------------------------------------------------------------- */

static uint32_t random_state = 1;

static uint32_t next_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* Checks that no prefix of a file is accepted as an image. Exceptions are prefixes with the first
 * frame of an animation, or without the end of a GIF or Pillow's TGA footer (26 bytes). */
static void check_truncated(const char *line) {
    char name[64] = "";
    bytes file;
    size_t enough;
    int wrong = 0;
    sscanf(line, "%63s", name);
    file = read_file(name);
    enough = file.size;
    if (strcmp(name + strlen(name) - 4, ".tga") == 0) enough -= 26;
    if (strcmp(name, "animated.gif") == 0) enough = 300;
    /* A GIF ends with a 0 and the end mark. Both may be missing. */
    if (strcmp(name + strlen(name) - 4, ".gif") == 0) enough -= 2;
    for (size_t size = 0; size < file.size; size++) {
        if (accepted(file.data, size, 0) && size < enough) {
            if (wrong++ == 0) printf("    %s accepted at %zu of %zu\n", name, size, file.size);
        }
    }
    CHECK_MSG(wrong == 0, "%s: %d truncations accepted", name, wrong);
    free(file.data);
}

/* Checks files with one to four changed bytes. They may be accepted or refused, but must never
 * cause an access to other memory. */
static void check_mutated(const char *line) {
    char name[64] = "";
    bytes file;
    sscanf(line, "%63s", name);
    file = read_file(name);
    for (int round = 0; round < 300; round++) {
        bytes changed = copy_bytes(file.data, file.size);
        int changes = 1 + (int)(next_random() % 4);
        for (int i = 0; i < changes; i++) {
            changed.data[next_random() % changed.size] = (unsigned char)next_random();
        }
        accepted(changed.data, changed.size, 0);
        free(changed.data);
    }
    free(file.data);
}

static void put32(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Makes a PNG whose header states this size and has a correct checksum. Returns true if the PNG is
 * refused with this message. */
static bool png_refused(uint32_t width, uint32_t height, const char *message) {
    bytes file = read_file("rgb.png");
    bool right;
    put32(file.data + 16, width);
    put32(file.data + 20, height);
    put32(file.data + 29, crc32_add(0, file.data + 12, 17));
    right = refused(file.data, file.size, message);
    free(file.data);
    return right;
}

static void test_sizes(void) {
    static const unsigned char bmp[54] = { 'B',  'M',  54, 0, 0,  0,    0, 0, 0,    0,
                                           54,   0,    0,  0, 40, 0,    0, 0, 0xff, 0xff,
                                           0xff, 0x7f, 0,  0, 0,  0x80, 1, 0, 24 };
    CHECK(png_refused(0, 0, "no pixels: found 0 x 0"));
    CHECK(png_refused(0, 7, "no pixels: found 0 x 7"));
    CHECK(png_refused(20000, 20000, "too large: found 20000 x 20000, limit"));
    CHECK(png_refused(0x7fffffff, 1, "too large: found 2147483647 x 1,"));
    CHECK(png_refused(0xffffffff, 0xffffffff, "too large: found 4294967295 x 4294967295,"));
    CHECK(png_refused(11000, 12000, "damaged or truncated: 11000 x 12000 pixels in 115 bytes"));
    /* The file has fewer rows than its header announces. */
    CHECK(png_refused(11, 5000, "damaged"));
    CHECK(refused(bmp, sizeof bmp, "too large: found 2147483647 x 2147483648"));
}

static void test_png_damage(void) {
    bytes file = read_file("rgb.png");
    file.data[24] ^= 1;
    CHECK(refused(file.data, file.size, "checksum"));
    file.data[24] ^= 1;
    memcpy(file.data + 37, "IDAX", 4);
    CHECK(refused(file.data, file.size, "unknown PNG chunk"));
    put32(file.data + 33, 0xffffffffu);
    CHECK(refused(file.data, file.size, "truncated"));
    free(file.data);
}

static void test_no_image(void) {
    unsigned char noise[256];
    REFUSED("", "empty");
    REFUSED("\n", "not an image");
    REFUSED("<html>not an image, though its name ends in .jpg</html>", "not an image");
    for (int round = 0; round < 2000; round++) {
        size_t size = next_random() % sizeof noise;
        for (size_t i = 0; i < size; i++) noise[i] = (unsigned char)next_random();
        accepted(noise, size, 0);
    }
    /* This covers every file of one byte, and some files of two and three bytes. */
    for (int a = 0; a < 256; a++) {
        unsigned char small[3] = { (unsigned char)a, 0xd8, 0xff };
        for (size_t size = 1; size <= 3; size++) CHECK(!accepted(small, size, 0));
    }
}

/* Tests the Exif chunk of a PNG, which has a checksum. If the chunk is too short, or if the file
 * ends inside the chunk, the orientation must be 1. */
static void test_png_exif(void) {
    bytes file = read_file("exif6.png");
    size_t chunk = 0;
    for (size_t i = 0; i + 8 < file.size; i++)
        if (memcmp(file.data + i, "eXIf", 4) == 0) chunk = i;
    CHECK(chunk > 0 && orientation_of(&file) == 6);
    file.data[chunk + 22] = 8;
    CHECK(orientation_of(&file) == 8);
    CHECK(refused(file.data, file.size, "checksum"));
    for (size_t size = 0; size < chunk + 42; size++) {
        bytes cut = copy_bytes(file.data, size);
        CHECK(orientation_of(&cut) == 1 || size >= chunk + 38);
        free(cut.data);
    }
    /* The stated length of this chunk is too small or too large. */
    for (int length = 0; length < 256; length++) {
        file.data[chunk - 1] = (unsigned char)length;
        CHECK(orientation_of(&file) == (length < 20 ? 1 : 8) || length > 34);
        accepted(file.data, file.size, 0);
    }
    put32(file.data + chunk - 4, 0xffffffffu);
    CHECK(orientation_of(&file) == 1);
    free(file.data);
}

/* Tests the warning about 16-bit grey images. No other image may cause the warning, because only
 * 16-bit grey images look different in Pillow. */
static void test_grey16(void) {
    static const struct {
        const char *name;
        bool differs;
    } files[] = { { "grey16.png", true }, { "rgb16.png", false }, { "grey.png", false },
                  { "rgb16.ppm", false }, { "grey.pgm", false },  { "baseline.jpg", false } };
    static const char wide[] = "P5 1 1 65535\nab";
    report r = report_make();
    image_file image;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        bytes file = read_file(files[i].name);
        CHECK(image_file_decode(file.data, file.size, decoder, NULL, NULL, &image, &r));
        CHECK_MSG(strcmp(image.note, files[i].differs ? IMAGE_FILE_GREY16 : "") == 0, "%s: '%s'",
                  files[i].name, image.note);
        image_file_free(&image);
        free(file.data);
    }
    CHECK(image_file_decode(wide, sizeof wide - 1, 0, NULL, NULL, &image, &r));
    CHECK(strcmp(image.note, IMAGE_FILE_GREY16) == 0);
    image_file_free(&image);
}

/* Checks that a file which begins like a readable format is never passed to a decoder command. */
static void check_known(const char *line) {
    char name[64] = "";
    bytes file;
    sscanf(line, "%63s", name);
    file = read_file(name);
    CHECK_MSG(image_file_is_known(file.data, file.size), "%s", name);
    CHECK(!image_file_kind_of(file.data, file.size));
    free(file.data);
}

static void test_known(void) {
    static const struct {
        /* The number of bytes at the start of a file by which the format is recognised. */
        size_t enough;
        const char *file;
    } others[] = { { 12, "RIFF\x10\0\0\0WEBPVP8 ...." },
                   { 4, "II*\0\x08\0\0\0............" },
                   { 4, "MM\0*\0\0\0\x08............" },
                   { 11, "\0\0\0\x18\146typheic........" },
                   { 11, "\0\0\0\x18\146typavif........" } };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        for (size_t size = 0; size <= 20; size++) {
            bytes file = copy_bytes(others[i].file, size);
            CHECK(!image_file_is_known(file.data, size));
            CHECK((image_file_kind_of(file.data, size) != NULL) == (size >= others[i].enough));
            free(file.data);
        }
}

/* Replaces bytes in the Exif block of exif6.jpg, and cuts the file. The orientation found must be 1
 * to 8. It must be 1, upright, if the directory cannot be found. */
static void test_exif_damage(void) {
    bytes file = read_file("exif6.jpg");
    size_t tiff = 0;
    for (size_t i = 0; i + 6 < file.size; i++) {
        if (memcmp(file.data + i, "Exif\0\0", 6) == 0) tiff = i + 6;
    }
    CHECK(tiff > 0 && orientation_of(&file) == 6);
    for (size_t at = tiff; at + 1 < tiff + 40; at++) {
        for (int value = 0; value < 256; value++) {
            bytes changed = copy_bytes(file.data, file.size);
            int found;
            changed.data[at] = (unsigned char)value;
            found = orientation_of(&changed);
            CHECK(found >= 1 && found <= 8);
            changed.data[at + 1] = 255;
            found = orientation_of(&changed);
            CHECK(found >= 1 && found <= 8);
            free(changed.data);
        }
    }
    for (size_t size = 0; size < tiff + 40; size++) {
        bytes cut = copy_bytes(file.data, size);
        int found = orientation_of(&cut);
        CHECK(found == 1 || found == 6);
        free(cut.data);
    }
    put32(file.data + tiff + 4, 0x00000000); /* The directory is the header itself. */
    CHECK(orientation_of(&file) == 1);
    put32(file.data + tiff + 4, 0xffffffff); /* The directory lies far outside the block. */
    CHECK(orientation_of(&file) == 1);
    free(file.data);
}

/* Tests failures of stb_image's callbacks. Before its first failure, stb_image states no reason. */
static void test_guards(void) {
    static const uint8_t file[3] = { 'a', 'b', 'c' };
    char got[4] = "";
    report r = report_make();
    image_file__job job = { file, sizeof file, &r };
    image_file__stream stream;
    image_file image;
    CHECK(!image_file__stb_failed(&job) && strstr(r.text, "unknown reason"));
    CHECK(!image_file__malloc(IMAGE_FILE_MAX_BLOCK + 1));
    memset(&stream, 0, sizeof stream);
    stream.data = file;
    stream.size = sizeof file;
    CHECK(image_file__read(&stream, got, -1) == 0 && stream.starved && stream.at == 0);
    stream.starved = false;
    image_file__skip(&stream, -1);
    CHECK(stream.starved && stream.at == 3);
    r = report_make();
    CHECK(!image_file_decode(file, ((size_t)256 << 20) + 1, 0, NULL, NULL, &image, &r));
    CHECK(strstr(r.text, "above 256 MiB") && !image.pixels);
    CHECK(image_file_decode("P5\n# a comment\r1 1\n255\nx", 25, 0, NULL, NULL, &image, &r));
    CHECK(image.width == 1 && image.height == 1);
    image_file_free(&image);
}

/* Tests reduced images. A reduced image must have the scaled sides, rounded up, the same
 * orientation, and about the same mean. */
static int fraction_of(const void *user, int width, int height) {
    const int *sides = user;
    CHECK(width == sides[1] && height == sides[2]);
    return sides[0];
}

static double mean_of(const image_file *image) {
    const size_t count = (size_t)image->width * (size_t)image->height * 3;
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += image->pixels[i];
    return sum / (double)count;
}

static void test_fractions(void) {
    static const char *const names[] = { "baseline.jpg", "progressive.jpg", "grey.jpg", "cmyk.jpg",
                                         "exif6.jpg" };
    for (size_t i = 0; jpeg_library() && i < sizeof names / sizeof names[0]; i++) {
        bytes file = read_file(names[i]);
        report r = report_make();
        image_file whole, part;
        CHECK(image_file_decode(file.data, file.size, 0, NULL, NULL, &whole, &r));
        for (int eighths = 1; eighths <= 8; eighths *= 2) {
            const int sides[3] = { eighths, whole.width, whole.height };
            double apart;
            CHECK(image_file_decode(file.data, file.size, 0, fraction_of, sides, &part, &r));
            CHECK(part.width == (whole.width * eighths + 7) / 8);
            CHECK(part.height == (whole.height * eighths + 7) / 8);
            apart = mean_of(&part) - mean_of(&whole);
            CHECK_MSG(apart > -3 && apart < 3, "%s: %d/8 is off by %g", names[i], eighths, apart);
            image_file_free(&part);
        }
        image_file_free(&whole);
        free(file.data);
    }
}

/* Tests images that Pillow repairs. They must be decoded with a warning. All other damaged images
 * must be refused. */
static void test_repairs(void) {
    bytes file = read_file("baseline.jpg");
    report r = report_make();
    image_file image;
    if (!jpeg_library()) return;
    CHECK(!image_file_decode(file.data, file.size - 2, 0, NULL, NULL, &image, &r));
    CHECK(strstr(r.text, "is truncated"));
    memcpy(file.data + file.size - 60, "\xff\xd3\xff\xd9", 4); /* The image ends early. */
    CHECK(image_file_decode(file.data, file.size, 0, NULL, NULL, &image, &r));
    CHECK_MSG(strstr(image.note, "nevertheless: Corrupt JPEG data: premature end of data segment"),
              "found '%s'", image.note);
    image_file_free(&image);
    free(file.data);
}

static void test_all(void) {
    CHECK(for_each_line(check_line) >= 40);
    images = "damaged";
    CHECK(for_each_line(check_damaged) >= 24);
    images = "images";
    test_exif();
    test_pnm();
    test_sizes();
    test_png_damage();
    test_no_image();
    test_exif_damage();
    test_png_exif();
    test_grey16();
    for_each_line(check_truncated);
    for_each_line(check_mutated);
}

int main(int argc, char **argv) {
    if (argc > 1) data_folder = argv[1];
    test_guards();
    for_each_line(check_known);
    test_known();
    test_all();
    test_fractions();
    test_repairs();
    decoder = IMAGE_FILE_STB;
    if (jpeg_library()) test_all();
    return test_summary();
}
