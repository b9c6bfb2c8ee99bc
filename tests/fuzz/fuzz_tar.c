/* fuzz_tar.c - reads the input as an archive of photos: its members, and the samples that they
 * form. The fuzzer first corrects the checksums of the headers. */
#include "base/source.h"
#include "fuzz.h"
#include "../tar_memory.h"
#include "shards/tar.h"

/* Corrects the checksum of every block with a tar header's "ustar". */
static void correct(uint8_t *bytes, size_t size) {
    for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK) {
        uint8_t *block = bytes + at;
        unsigned sum = 0;
        bool zero = true;
        for (int i = 0; i < TAR_BLOCK; i++) {
            sum += i >= 148 && i < 156 ? ' ' : block[i];
            zero = zero && !block[i];
        }
        if (zero || memcmp(block + 257, "ustar", 5) != 0) continue;
        for (int i = 5; i >= 0; i--, sum /= 8) block[148 + i] = (uint8_t)('0' + sum % 8);
        block[154] = 0;
    }
}

static void check_message(const report *r, bool good) {
    fuzz_require(good || r->text[0], "a refusal says why");
    fuzz_require(!strpbrk(r->text, "\n\033"), "in one line, without control characters");
}

static void read_members(const uint8_t *bytes, size_t size) {
    static tar_member m;
    memory from = { bytes, size, 0 };
    tar_stream s;
    report r = report_make();
    uint8_t some[64];
    tar_begin(&s, read_memory, &from);
    while (tar_next(&s, &m, &r)) {
        fuzz_require(strlen(m.name) <= TAR_MAX_NAME, "a name within its limit");
        fuzz_require(!m.folder || m.refused, "a folder has no data");
        for (const char *c = m.name; *c; c++)
            fuzz_require((unsigned char)*c >= ' ' && *c != 127, "no control characters");
        fuzz_require(m.refused || (m.name[0] && m.name[0] != '/' && !strstr(m.name, "/../") &&
                                   strncmp(m.name, "../", 3) != 0 && strcmp(m.name, "..") != 0),
                     "a name within the archive");
        if (!m.refused && m.size > 0 &&
            !tar_data(&s, some, m.size < sizeof some ? (size_t)m.size : sizeof some, &r))
            break;
    }
    check_message(&r, !r.failed);
    fuzz_require(s.offset <= size, "no more bytes than there are");
    tar_end(&s);
}

static void read_samples(const uint8_t *bytes, size_t size) {
    static samples s;
    memory from = { bytes, size, 0 };
    report r = report_make();
    sample one;
    samples_begin(&s, read_memory, &from, 4096);
    while (samples_next(&s, &one, &r)) {
        fuzz_require(one.key && one.name && one.key[0], "a key and a name");
        fuzz_require(strncmp(one.key, one.name, strlen(one.key)) == 0, "the name begins with it");
        fuzz_require(one.error ? !one.data : one.data && one.size <= 4096, "bytes, or why not");
        if (one.data && one.size > 0) (void)((const volatile uint8_t *)one.data)[one.size - 1];
        sample_free(&one);
    }
    check_message(&r, !r.failed);
    samples_end(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = fuzz_copy(data, size);
    correct(copy, size);
    read_members(copy, size);
    read_samples(copy, size);
    free(copy);
    return 0;
}
