/* test_tar.c - reads archives of photos as streams: every form of names and sizes, samples, and all
 * archives that must be refused. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shards/tar.h"
#include "tar_memory.h"
#include "tar_writer.h"
#include "test.h"

/* Lists all members as lines "name size [refusal]". The last line is "end" or the message. */
static const char *list(const uint8_t *bytes, size_t size) {
    static char text[1 << 16];
    memory from = { bytes, size, 0 };
    tar_stream s;
    tar_member *m = malloc(sizeof *m);
    report r = report_make();
    size_t length = 0;
    if (!m) exit(2);
    text[0] = '\0';
    tar_begin(&s, read_memory, &from);
    while (tar_next(&s, m, &r)) {
        const size_t room = sizeof text - length;
        length += (size_t)snprintf(text + length, room, "%.200s %llu%s%s\n", m->name,
                                   (unsigned long long)m->size, m->refused ? " " : "",
                                   m->refused ? m->refused : "");
        if (length > sizeof text / 2) break;
    }
    snprintf(text + length, sizeof text - length, "%s", r.failed ? r.text : "end");
    CHECK(r.failed || s.offset + 1 > 1024);
    tar_end(&s);
    free(m);
    return text;
}

#define CHECK_LIST(t, expected)                                                                    \
    do {                                                                                           \
        const char *found = list((t).bytes, (t).size);                                             \
        CHECK_MSG(strcmp(found, expected) == 0, "found: %s", found);                               \
    } while (0)
/* Ends the archive, checks that it has exactly these members, and frees it. */
#define CHECK_ALL(t, expected)                                                                     \
    do {                                                                                           \
        tar_writer_end(&(t));                                                                      \
        CHECK_LIST(t, expected "end");                                                             \
        tar_writer_free(&(t));                                                                     \
    } while (0)
#define CHECK_REFUSED(t, part)                                                                     \
    do {                                                                                           \
        const char *found = list((t).bytes, (t).size);                                             \
        CHECK_MSG(strstr(found, part) != NULL, "found: %s", found);                                \
        tar_writer_free(&(t));                                                                     \
    } while (0)

static tar_writer empty(void) { return (tar_writer){ NULL, 0, 0 }; }

/* --- names and sizes ------------------------------------------------------------ */

static void test_names(void) {
    char name[300], expected[700], record[400];
    tar_writer t = empty();
    size_t at;
    tar_writer_text(&t, "a.jpg", "12345");
    tar_writer_text(&t, "folder/b.jpg", "");
    /* This name consists of a prefix and of a name field that is full, without a NUL. */
    at = tar_writer_header(&t, '0', "c.jpg", 0);
    memcpy(t.bytes + at + 345, "some/where", 10);
    memset(t.bytes + at, 'c', 100);
    tar_writer_sum(t.bytes + at);
    /* The format of GNU tar has no prefix, so the name must not include these bytes. */
    at = tar_writer_header(&t, '0', "gnu.jpg", 0);
    memcpy(t.bytes + at + 257, "ustar  ", 8);
    memcpy(t.bytes + at + 345, "12345670", 8);
    tar_writer_sum(t.bytes + at);
    at = tar_writer_header(&t, 0, "v7.jpg", 0);
    memset(t.bytes + at + 257, 0, 8);
    tar_writer_sum(t.bytes + at);
    (void)tar_writer_header(&t, '7', "contiguous.jpg", 0);
    memset(name, 'c', 100);
    name[100] = '\0';
    tar_writer_end(&t);
    snprintf(expected, sizeof expected,
             "a.jpg 5\nfolder/b.jpg 0\nsome/where/%s 0\ngnu.jpg 0\n"
             "v7.jpg 0\ncontiguous.jpg 0\nend",
             name);
    CHECK_LIST(t, expected);
    tar_writer_free(&t);

    memset(name, 'l', 250);
    name[250] = '\0';
    tar_writer_before(&t, 'L', name, 251);
    tar_writer_text(&t, "short", "1");
    tar_writer_text(&t, "next", "22"); /* The long name belongs to only one member. */
    snprintf(record, sizeof record, "path=%s", name);
    tar_writer_pax(&t, record);
    tar_writer_text(&t, "short", "333");
    tar_writer_before(&t, 'L', "of GNU", 7);
    tar_writer_pax(&t, "path=of PAX");
    tar_writer_text(&t, "short", "");
    tar_writer_pax(&t, "path=of PAX");
    tar_writer_before(&t, 'L', "of GNU", 7);
    tar_writer_pax(&t, "mtime=1.5");
    tar_writer_text(&t, "short", "");
    tar_writer_before(&t, 'g', "20 comment=a commit\n", 20);
    tar_writer_text(&t, "last", "");
    tar_writer_before(&t, 'x', "11 path=ab\n\0\0", 13); /* These records are padded with NULs. */
    tar_writer_text(&t, "short", "");
    tar_writer_pax(&t, "SCHILY.xattr.user=1");
    tar_writer_text(&t, "xattr", "");
    tar_writer_end(&t);
    snprintf(expected, sizeof expected,
             "%.200s 1\nnext 2\n%.200s 3\nof PAX 0\nof PAX 0\nlast 0\n"
             "ab 0\nxattr 0\nend",
             name, name);
    CHECK_LIST(t, expected);
    tar_writer_free(&t);
}

static const uint8_t more[600] = { 1 }; /* These bytes take two blocks. */

static void test_sizes(void) {
    static const uint8_t binary[12] = { 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5 };
    tar_writer t = empty();
    size_t at = tar_writer_header(&t, '0', "binary", 0);
    memcpy(t.bytes + at + 124, binary, 12);
    tar_writer_sum(t.bytes + at);
    tar_writer_data(&t, "12345", 5);
    tar_writer_pax(&t, "size=600"); /* This size replaces the size in the header. */
    (void)tar_writer_header(&t, '0', "pax", 1);
    tar_writer_data(&t, more, sizeof more);
    at = tar_writer_header(&t, '0', "spaces", 0);
    memcpy(t.bytes + at + 124, "        17 ", 12);
    tar_writer_sum(t.bytes + at);
    tar_writer_data(&t, "123456789012345", 15);
    CHECK_ALL(t, "binary 5\npax 600\nspaces 15\n");
    /* The checksum of this header adds signed bytes, as old programs did. */
    t = empty();
    at = tar_writer_header(&t, '0', "\xe4.jpg", 0);
    {
        int sum = 0;
        char digits[8];
        memset(t.bytes + at + 148, ' ', 8);
        for (int i = 0; i < 512; i++) sum += (int8_t)t.bytes[at + (size_t)i];
        snprintf(digits, sizeof digits, "%06o", (unsigned)sum);
        memcpy(t.bytes + at + 148, digits, 7);
    }
    CHECK_ALL(t, "\xe4.jpg 0\n");
}

/* --- members that are not photo files --------------------------------------------- */

static void test_refused_members(void) {
    static const struct {
        char type;
        const char *why;
    } kinds[] = {
        { '1', "is a hard link" },        { '2', "is a symbolic link" }, { '3', "is a device" },
        { '4', "is a device" },           { '5', "is a folder" },        { '6', "is a pipe" },
        { 'V', "is of an unknown kind" }, { 'S', "is a sparse file" },
    };
    static const char *const names[] = {
        "/etc/passwd.jpg", "../a.jpg",     "a/../../b.jpg", "..", "a/..",
        "\\a.jpg",         "a\\..\\b.jpg", "C:\\a.jpg",     "c:a"
    };
    static const char *const fine[] = { "..a.jpg", "a..", "a/..b/c", ".../a", "7:a",
                                        ":",       "./a", "{:a",     ".b/c",  "ab/c" };
    tar_writer t = empty();
    char expected[256];
    size_t at;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        (void)tar_writer_header(&t, kinds[i].type, "x.jpg", 0);
        tar_writer_text(&t, "after.jpg", "1");
        tar_writer_end(&t);
        snprintf(expected, sizeof expected, "x.jpg 0 %s\nafter.jpg 1\nend", kinds[i].why);
        CHECK_LIST(t, expected);
        tar_writer_free(&t);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tar_writer_text(&t, names[i], "123");
        tar_writer_end(&t);
        snprintf(expected, sizeof expected, "%s 3 has a name that leads out of the archive\nend",
                 names[i]);
        CHECK_LIST(t, expected);
        tar_writer_free(&t);
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        tar_writer_text(&t, fine[i], "123");
        tar_writer_end(&t);
        snprintf(expected, sizeof expected, "%s 3\nend", fine[i]);
        CHECK_LIST(t, expected);
        tar_writer_free(&t);
    }
    tar_writer_text(&t, "a\033[2J\n.jpg", "");
    tar_writer_text(&t, "a\177.jpg", "");
    tar_writer_pax(&t, "path=");
    tar_writer_text(&t, "", "");
    /* This is a folder in the oldest format, which has no types. */
    (void)tar_writer_header(&t, '0', "folder/", 0);
    CHECK_ALL(t, "a?[2J?.jpg 0 has control characters in its name\n"
                 "a?.jpg 0 has control characters in its name\n 0 has no name\n"
                 "folder/ 0 is a folder\n");
    /* A link has no data, whatever its size field contains. */
    tar_writer_before(&t, 'K', "a long target", 14);
    (void)tar_writer_header(&t, '1', "link.jpg", 1000);
    tar_writer_text(&t, "after.jpg", "");
    CHECK_ALL(t, "link.jpg 1000 is a hard link\nafter.jpg 0\n");
    /* Sparse files have two forms. The old form has two additional blocks for the map. The new form
     * is that of PAX. */
    at = tar_writer_header(&t, 'S', "old.jpg", 600);
    t.bytes[at + 482] = 1;
    tar_writer_sum(t.bytes + at);
    tar_writer_grow(&t, 512)[504] = 1;
    (void)tar_writer_grow(&t, 512);
    tar_writer_data(&t, more, sizeof more);
    tar_writer_pax(&t, "GNU.sparse.major=1");
    tar_writer_text(&t, "new.jpg", "12");
    CHECK_ALL(t, "old.jpg 600 is a sparse file\nnew.jpg 2 is a sparse file\n");
    {
        static char longest[TAR_MAX_NAME + 3];
        memset(longest, 'n', TAR_MAX_NAME + 1);
        tar_writer_before(&t, 'L', longest, TAR_MAX_NAME + 2);
        tar_writer_text(&t, "a", "");
        longest[200] = '\0';
        tar_writer_end(&t);
        snprintf(expected, sizeof expected, "%.200s 0 has a name of ", longest);
        CHECK(strncmp(list(t.bytes, t.size), expected, strlen(expected)) == 0);
        tar_writer_free(&t);
    }
}

/* --- files that are not archives, or truncated ------------------------------------------ */

static void test_refused_archives(void) {
    tar_writer t = empty();
    size_t at;
    CHECK(strcmp(list(t.bytes, 0), "is empty") == 0);
    CHECK(strcmp(list((const uint8_t *)"hello", 5), "the file is not a tar archive") == 0);
    memset(tar_writer_grow(&t, 2048), 'x', 2048);
    CHECK_REFUSED(t, "the file is not a tar archive");
    memcpy(tar_writer_grow(&t, 2048), "\x1f\x8b\x08", 3);
    CHECK_REFUSED(t, "the archive is compressed by gzip; give it unpacked: gzip -dc");
    memcpy(tar_writer_grow(&t, 2048), "\x28\xb5\x2f\xfd", 4);
    CHECK_REFUSED(t, "the archive is compressed by Zstandard");
    tar_writer_text(&t, "a.jpg", "1");
    CHECK_REFUSED(
        t, "the archive is cut short at byte 1024: the zeros that end an archive are missing");
    tar_writer_text(&t, "a.jpg", "1");
    t.size -= 100;
    CHECK_REFUSED(t, "the archive is cut short: it ends at byte 924, inside a member");
    tar_writer_text(&t, "a.jpg", "1");
    (void)tar_writer_grow(&t, 100);
    CHECK_REFUSED(t, "the archive is cut short: it ends at byte 1124, inside a header");
    tar_writer_text(&t, "a.jpg", "1");
    tar_writer_end(&t);
    tar_writer_text(&t, "b.jpg", "1");
    CHECK_REFUSED(t, "the archive has data after its end");
    tar_writer_text(&t, "a.jpg", "1");
    at = tar_writer_header(&t, '0', "b.jpg", 0);
    t.bytes[at + 3]++;
    CHECK_REFUSED(t, "the archive is damaged: the checksum of the header at byte 1024 is wrong");
    at = tar_writer_header(&t, 'S', "map.jpg", 600); /* The rest of the sparse map is missing. */
    t.bytes[at + 482] = 1;
    tar_writer_sum(t.bytes + at);
    CHECK_REFUSED(t, "the archive is cut short");
    /* These members have wrong sizes. */
    at = tar_writer_header(&t, '0', "b.jpg", 0);
    memset(t.bytes + at + 124, 0xff, 12);
    tar_writer_sum(t.bytes + at);
    CHECK_REFUSED(t, "the file is not a tar archive");
    at = tar_writer_header(&t, '0', "b.jpg", 0);
    memcpy(t.bytes + at + 124, "12x4567", 7);
    tar_writer_sum(t.bytes + at);
    CHECK_REFUSED(t, "the file is not a tar archive");
    at = tar_writer_header(&t, '0', "b.jpg", 0); /* The size is 2^60 bytes. */
    memcpy(t.bytes + at + 124, "\x80\0\0\0\x10\0\0\0\0\0\0", 12);
    tar_writer_sum(t.bytes + at);
    tar_writer_end(&t);
    CHECK_REFUSED(t, "b.jpg 1152921504606846976\nthe archive is cut short: it ends at byte 1536");
    tar_writer_pax(&t, "size=9223372036854775808");
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a size");
    tar_writer_pax(&t, "size=99999999999999999999");
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a size");
    tar_writer_pax(&t, "size=1/");
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a size");
    tar_writer_pax(&t, "size=1:");
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a size");
    tar_writer_pax(&t, "size=");
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a size");
    /* These PAX records are wrong. */
    tar_writer_before(&t, 'x', "9 path=a\n", 9);
    tar_writer_end(&t);
    CHECK_REFUSED(t, "the archive ends after an extended header");
    tar_writer_before(&t, 'x', "99 path=a\n", 10);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a record");
    tar_writer_before(&t, 'x', "8 path=a\n", 9);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a record");
    tar_writer_before(&t, 'x', "1 path=a\n", 9);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a record");
    tar_writer_before(&t, 'x', "1234", 4);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a record");
    tar_writer_before(&t, 'x', "9_path=a\n", 9);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a record");
    tar_writer_before(&t, 'x', "9:path=a\n", 9);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a record");
    tar_writer_before(&t, 'g', "9 path\n", 7);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a record");
    tar_writer_before(&t, 'x', "path=a\n", 7);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected a record");
    tar_writer_before(&t, 'x', "6 abc\n", 6);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected '='");
    tar_writer_before(&t, 'x', "5 =a\n", 5);
    CHECK_REFUSED(t, "the archive has a damaged PAX header: expected '='");
    tar_writer_before(&t, 'x', "10 path=\0\n", 10);
    CHECK_REFUSED(t, "the archive has a PAX path with a NUL in it");
    tar_writer_before(&t, 'g', "10 size=9\n", 10);
    CHECK_REFUSED(t, "the archive has a global PAX header with a path or a size");
    tar_writer_before(&t, 'g', "9 path=a\n", 9);
    CHECK_REFUSED(t, "the archive has a global PAX header with a path or a size");
    tar_writer_before(&t, 'g', "22 GNU.sparse.major=1\n", 22);
    CHECK_REFUSED(t, "the archive has a global PAX header with a path or a size");
    (void)tar_writer_header(&t, 'g', "", TAR_MAX_EXTENDED + 1);
    CHECK_REFUSED(t, "the archive has an extended header of 1048577 bytes, limit 1048576");
    (void)tar_writer_header(&t, 'x', "", TAR_MAX_EXTENDED + 1);
    CHECK_REFUSED(t, "the archive has an extended header of 1048577 bytes, limit 1048576");
}

/* Tests archives that are cut short. Each prefix of a valid archive must be refused, unless it has
 * at least the first of the two blocks of zeros at the end. */
static void test_cuts(void) {
    tar_writer t = empty();
    size_t whole;
    tar_writer_pax(&t, "path=longer.jpg");
    tar_writer_text(&t, "a.jpg", "12345");
    tar_writer_before(&t, 'L', "name.jpg", 9);
    tar_writer_text(&t, "b", "");
    whole = t.size;
    tar_writer_end(&t);
    for (size_t size = 0; size < t.size; size++) {
        /* This block has exactly the needed size, so that sanitizers detect reads beyond its
         * end. */
        uint8_t *copy = malloc(size ? size : 1);
        const char *found;
        if (!copy) exit(2);
        memcpy(copy, t.bytes, size);
        found = list(copy, size);
        CHECK_MSG((strstr(found, "\nend") != NULL) == (size >= whole + 512), "%zu: %s", size,
                  found);
        free(copy);
    }
    tar_writer_free(&t);
}

/* --- samples --------------------------------------------------------------------- */

static const char *or_none(const char *text) { return text ? text : "-"; }

/* Lists all images as lines "key|name|size|caption|label|url|note|error". */
static const char *group(const tar_writer *t, size_t max_bytes, samples *s) {
    static char text[1 << 16];
    memory from = { t->bytes, t->size, 0 };
    report r = report_make();
    sample one;
    size_t length = 0;
    text[0] = '\0';
    samples_begin(s, read_memory, &from, max_bytes);
    while (samples_next(s, &one, &r)) {
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "%s|%s|%zu|%s|%s|%s|%s|%s\n", one.key, one.name, one.size,
                                   or_none(one.caption), or_none(one.label), or_none(one.url),
                                   or_none(one.note), or_none(one.error));
        CHECK(one.error ? !one.data : one.data != NULL);
        sample_free(&one);
        if (length > sizeof text / 2) break;
    }
    snprintf(text + length, sizeof text - length, "%s", r.failed ? r.text : "end");
    samples_end(s);
    return text;
}

static void test_samples(void) {
    static samples s; /* This struct is too large for the stack. */
    tar_writer t = empty();
    const char *found;
    tar_writer_text(&t, "./", "");
    tar_writer_text(&t, "a/000.jpg", "jpeg");
    tar_writer_text(&t, "a/000.txt", "a caption");
    tar_writer_text(&t, "a/000.json",
                    "{\"caption\": \"not this\", \"url\": \"http://x/\", \"label\": 7}");
    tar_writer_text(&t, "a/000.npy", "of others");
    tar_writer_text(&t, "a/001.json", "{\"caption\": \"this\", \"width\": 3}");
    tar_writer_text(&t, "a/001.left.PNG", "left");
    tar_writer_text(&t, "a/001.right.png", "right!");
    tar_writer_text(&t, "a/001.cls", "12");
    tar_writer_text(&t, "b/001.jpg", "other folder");
    tar_writer_text(&t, "b/._001.jpg", "of a Mac");
    tar_writer_text(&t, "readme", "no dot");
    tar_writer_text(&t, "b/002.txt", "no image");
    tar_writer_text(&t, "b/003.jpg", "");
    tar_writer_text(&t, "b/003.json", "{");
    tar_writer_text(&t, "b/004.jpg", "4");
    tar_writer_file(&t, "b/004.txt", "a\0b", 3);
    tar_writer_text(&t, "b/005.jpg", "5");
    tar_writer_text(&t, "b/005.txt", "one");
    tar_writer_text(&t, "b/005.txt", "two");
    tar_writer_text(&t, "../006.jpg", "6");
    (void)tar_writer_header(&t, '2', "b/007.jpg", 0);
    (void)tar_writer_header(&t, '2', "b/007.txt", 0);
    tar_writer_text(&t, "b/008.jpg", "more than fits: 21 bytes");
    tar_writer_text(&t, "b/009.a.jpg", "sixteen bytes...");
    tar_writer_text(&t, "b/009.b.jpg", "sixteen bytes...");
    tar_writer_text(&t, "b/010.json", "[\"caption\"]");
    tar_writer_text(&t, "b/010.webp", "w");
    tar_writer_end(&t);
    found = group(&t, 20, &s);
    CHECK_MSG(strcmp(found,
                     "a/000|a/000.jpg|4|a caption|7|http://x/|-|-\n"
                     "a/001|a/001.left.PNG|4|this|12|-|-|-\n"
                     "a/001|a/001.right.png|6|this|12|-|-|-\n"
                     "b/001|b/001.jpg|12|-|-|-|-|-\n"
                     "b/003|b/003.jpg|0|-|-|-|its .json is invalid|-\n"
                     "b/004|b/004.jpg|1|-|-|-|004.txt has a NUL in it|-\n"
                     "b/005|b/005.jpg|1|one|-|-|005.txt is there twice|-\n"
                     "../006|../006.jpg|0|-|-|-|-|has a name that leads out of the archive\n"
                     "b/007|b/007.jpg|0|-|-|-|007.txt is a symbolic link|is a symbolic link\n"
                     "b/008|b/008.jpg|0|-|-|-|-|is too large: 24 bytes, limit 20\n"
                     "b/009|b/009.a.jpg|16|-|-|-|-|-\n"
                     "b/009|b/009.b.jpg|0|-|-|-|-|is too large: 16 bytes, limit 20 for "
                     "all images of a sample together\n"
                     "b/010|b/010.webp|1|-|-|-|-|-\n"
                     "end") == 0,
              "found: %s", found);
    CHECK(s.others == 3 && strcmp(s.other, "a/000.npy") == 0);
    CHECK(s.without_image == 1);
    tar_writer_free(&t);
}

/* Tests the texts of a sample. Only the first error is reported. A number in JSON can be a caption.
 * A label of another form is reported, and a url of another form is ignored. */
static void test_texts(void) {
    static const uint8_t large[SAMPLE_MAX_TEXT + 1] = { 1 };
    static samples s;
    tar_writer t = empty();
    const char *found;
    tar_writer_text(&t, "0.jpg", "0");
    tar_writer_file(&t, "0.txt", large, sizeof large);
    tar_writer_file(&t, "0.cls", "1\0", 2);
    tar_writer_text(&t, "0.json", "{");
    tar_writer_text(&t, "1.jpg", "1");
    tar_writer_text(&t, "1.json", "{\"caption\": 12, \"label\": 1.5, \"url\": [\"http://x/\"]}");
    tar_writer_text(&t, "2", "no key, having no dot");
    tar_writer_text(&t, "1.b.jpg", "after it");
    tar_writer_end(&t);
    found = group(&t, 20, &s);
    CHECK_MSG(strcmp(found,
                     "0|0.jpg|1|-|-|-|0.txt has more than 1 MiB|-\n"
                     "1|1.jpg|1|12|-|-|label of its .json is neither text nor a whole number|-\n"
                     "1|1.b.jpg|8|12|-|-|label of its .json is neither text nor a whole "
                     "number|-\n"
                     "end") == 0,
              "found: %s", found);
    tar_writer_free(&t);
    /* The text is cut short. */
    tar_writer_text(&t, "0.jpg", "0");
    (void)tar_writer_header(&t, '0', "0.txt", 600);
    (void)tar_writer_grow(&t, 512);
    found = group(&t, 20, &s);
    CHECK_MSG(strstr(found, "is cut short") != NULL, "found: %s", found);
    tar_writer_free(&t);
}

/* Tests a key that has too many images for one sample. The other images must become further
 * samples, and no image may be lost. */
static void test_many_images(void) {
    static samples s;
    tar_writer t = empty();
    const char *found;
    int lines = 0;
    for (int i = 0; i < 2 * SAMPLE_MAX_IMAGES + 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "key.%d.jpg", i);
        tar_writer_text(&t, name, "1");
    }
    tar_writer_text(&t, "key.txt", "late");
    tar_writer_end(&t);
    found = group(&t, 1000, &s);
    for (const char *p = found; *p; p++) lines += *p == '\n';
    CHECK(lines == 2 * SAMPLE_MAX_IMAGES + 5);
    CHECK(strstr(found, "key|key.132.jpg|1|late|") != NULL && strstr(found, "\nend") != NULL);
    t.size -= 1024;
    CHECK(strstr(group(&t, 1000, &s), "is cut short") != NULL);
    tar_writer_free(&t);
}

int main(void) {
    test_names();
    test_sizes();
    test_refused_members();
    test_refused_archives();
    test_cuts();
    test_samples();
    test_texts();
    test_many_images();
    return test_summary();
}
