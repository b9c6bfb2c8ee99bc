/* npy.c - reads and writes .npy files. NumPy's NEP 1 describes the format. */
#define _POSIX_C_SOURCE 200809L

#include "base/npy.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/source.h"
#include "os/os.h"

#define MAGIC "\x93NUMPY"

enum { MAGIC_SIZE = 6, MAX_HEADER = 65536 };

/* ------------------------------------------------------------------------- */
/* Element types                                                             */
/* ------------------------------------------------------------------------- */

/* The types of elements. A dtype string such as "<f4" contains the letter and the size of the
 * type. */
typedef enum element {
    F2,
    F4,
    F8,
    I1,
    I2,
    I4,
    I8,
    U1,
    U2,
    U4,
    U8,
    BOOLEAN,
    BF2,
    NUM_ELEMENTS,
} element;

static const struct {
    char kind;
    unsigned char size;
} elements[NUM_ELEMENTS] = {
    { 'f', 2 }, { 'f', 4 }, { 'f', 8 }, { 'i', 1 }, { 'i', 2 }, { 'i', 4 }, { 'i', 8 },
    { 'u', 1 }, { 'u', 2 }, { 'u', 4 }, { 'u', 8 }, { 'b', 1 }, { 'V', 2 },
};

/* Loads the bits of one element. Works for any byte order of the file and of this machine. */
static uint64_t load_bits(const unsigned char *bytes, unsigned size, bool big_endian) {
    uint64_t bits = 0;
    for (unsigned i = 0; i < size; i++) {
        bits = bits << 8 | bytes[big_endian ? i : size - 1 - i];
    }
    return bits;
}

static float to_float(element type, uint64_t bits) {
    switch (type) {
    case F2: return bytes_half((uint16_t)bits);
    case F4: return bytes_float((uint32_t)bits);
    case F8: return bytes_double(bits);
    case I1:
    case I2:
    case I4:
    case I8: return (float)bytes_signed(bits, elements[type].size);
    case BOOLEAN: return bits ? 1.0f : 0.0f;
    case BF2: return bytes_bfloat((uint16_t)bits);
    default: return (float)bits; /* U1 to U8 */
    }
}

/* ------------------------------------------------------------------------- */
/* The header is a Python dictionary literal with three keys */
/* ------------------------------------------------------------------------- */

typedef struct header {
    element type;
    bool big_endian;
    bool fortran_order;
    int ndim;
    int64_t dims[NPY_MAX_DIMS];
} header;

/* The state of the reader. `next` and `end` delimit the part of the literal that was not read yet.
 * `report` keeps only the first error. */
typedef struct reader {
    const char *next, *end;
    report *report;
} reader;

#define damaged(r, ...) report_fail((r)->report, "damaged .npy header: " __VA_ARGS__)

static void skip_space(reader *r) {
    while (r->next < r->end && (*r->next == ' ' || *r->next == '\n' || *r->next == '\t')) {
        r->next++;
    }
}

/* If `c` is the next character, skips it and returns true. Otherwise returns false. */
static bool accept(reader *r, char c) {
    skip_space(r);
    if (r->next == r->end || *r->next != c) return false;
    r->next++;
    return true;
}

static bool expect(reader *r, char c) {
    if (accept(r, c)) return true;
    return damaged(r, "'%c' expected", c);
}

/* Reads a quoted string without escapes. A string that is too long for `text` is truncated. */
static bool read_string(reader *r, char *text, size_t size) {
    char quote;
    size_t length = 0;
    skip_space(r);
    if (r->next == r->end || (*r->next != '\'' && *r->next != '"')) {
        return damaged(r, "a string expected");
    }
    quote = *r->next++;
    while (r->next < r->end && *r->next != quote) {
        if (length + 1 < size) text[length++] = *r->next;
        r->next++;
    }
    text[length] = '\0';
    return expect(r, quote);
}

static bool read_bool(reader *r, bool *value) {
    static const char *const words[2] = { "False", "True" };
    skip_space(r);
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(r->end - r->next) >= length && memcmp(r->next, words[i], length) == 0) {
            r->next += length;
            *value = i == 1;
            return true;
        }
    }
    return damaged(r, "True or False expected");
}

/* Reads a dtype string such as "<f4", which consists of the byte order, the kind and the size.
 * Refuses a list in place of the string, because a list describes records. */
static bool read_type(reader *r, header *h) {
    char text[32];
    skip_space(r);
    if (r->next < r->end && *r->next == '[') {
        return report_fail(r->report,
                           "record arrays are not supported; expected an array of plain numbers");
    }
    if (!read_string(r, text, sizeof text)) return false;
    for (int i = 0; i < NUM_ELEMENTS; i++) {
        bool plain = elements[i].size == 1 || i == BF2;
        bool order = strchr(plain ? "|<>=" : "<>=", text[0]) != NULL;
        if (text[0] && order && text[1] == elements[i].kind &&
            text[2] == (char)('0' + elements[i].size) && text[3] == '\0') {
            h->type = (element)i;
            h->big_endian = text[0] == '>';
            return true;
        }
    }
    return report_fail(r->report,
                       "elements of type '%s' are not supported; the supported types are f2 f4 "
                       "f8, i1 to i8, u1 to u8 and b1",
                       text);
}

static bool read_dim(reader *r, int64_t *dim) {
    int64_t value = 0;
    const char *first;
    skip_space(r);
    first = r->next;
    while (r->next < r->end && *r->next >= '0' && *r->next <= '9') {
        if (value > ((int64_t)1 << 48)) return report_fail(r->report, "the shape is too large");
        value = value * 10 + (*r->next++ - '0');
    }
    if (r->next == first) return damaged(r, "a whole number expected in shape");
    if (r->next < r->end && *r->next == 'L') r->next++; /* Python 2 writes this letter. */
    *dim = value;
    return true;
}

/* Reads the shape: "()", "(3,)", "(2, 3)" or "(2, 3,)". */
static bool read_shape(reader *r, header *h) {
    h->ndim = 0;
    if (!expect(r, '(')) return false;
    while (!accept(r, ')')) {
        if (h->ndim == NPY_MAX_DIMS)
            return report_fail(r->report, "more than %d dimensions", NPY_MAX_DIMS);
        if (!read_dim(r, &h->dims[h->ndim++])) return false;
        if (!accept(r, ',')) {
            if (h->ndim == 1) return damaged(r, "',' expected in shape");
            if (!expect(r, ')')) return false;
            break;
        }
    }
    return true;
}

/* Reads one entry of the dictionary. The three keys may have any order, but each key must occur
 * once. `seen` has a bit for each key. */
static bool read_entry(reader *r, header *h, unsigned *seen) {
    static const char *const keys[3] = { "descr", "fortran_order", "shape" };
    char key[32];
    int which = 0;
    if (!read_string(r, key, sizeof key) || !expect(r, ':')) return false;
    while (which < 3 && strcmp(key, keys[which]) != 0) which++;
    if (which == 3) return damaged(r, "unknown key '%s'", key);
    if (*seen & 1u << which) return damaged(r, "'%s' twice", key);
    *seen |= 1u << which;
    if (which == 0) return read_type(r, h);
    return which == 1 ? read_bool(r, &h->fortran_order) : read_shape(r, h);
}

static bool read_header(reader *r, header *h) {
    unsigned seen = 0;
    if (!expect(r, '{')) return false;
    while (!accept(r, '}')) {
        if (!read_entry(r, h, &seen)) return false;
        if (accept(r, ',')) continue;
        if (!expect(r, '}')) return false;
        break;
    }
    skip_space(r);
    if (seen != 7) return damaged(r, "descr, fortran_order or shape is missing");
    if (r->next != r->end) return damaged(r, "text after '}'");
    return true;
}

/* Checks the magic number and the version of the format. After the call, r->next and r->end delimit
 * the dictionary, and *offset is the start of the elements. */
static bool find_header(reader *r, const unsigned char *bytes, size_t size, size_t *offset) {
    size_t prefix, length;
    if (size < MAGIC_SIZE + 2 || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0) {
        return report_fail(r->report, size == 0 ? "is empty" : "not a .npy file");
    }
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0) {
        return report_fail(
            r->report,
            ".npy version %d.%d is not supported; the supported versions are 1.0, 2.0 and 3.0",
            bytes[6], bytes[7]);
    }
    prefix = bytes[6] == 1 ? 10 : 12;
    if (size < prefix) return report_fail(r->report, "the file ends inside the .npy header");
    length = (size_t)load_bits(bytes + 8, bytes[6] == 1 ? 2 : 4, false);
    if (length > MAX_HEADER) {
        return report_fail(r->report, "the .npy header has %zu bytes, expected at most %d", length,
                           MAX_HEADER);
    }
    if (length > size - prefix) {
        return report_fail(r->report, "the file ends inside the .npy header");
    }
    r->next = (const char *)bytes + prefix;
    r->end = r->next + length;
    *offset = prefix + length;
    return true;
}

/* ------------------------------------------------------------------------- */
/* The elements                                                              */
/* ------------------------------------------------------------------------- */

/* Checks that the file has exactly as many elements as the product of the dimensions. *count
 * becomes this product. */
static bool check_size(const reader *r, const header *h, uint64_t available, uint64_t *count) {
    const uint64_t most = SIZE_MAX / sizeof(float), expected = NPY_MAX_BYTES / sizeof(double);
    const uint64_t size = elements[h->type].size, limit = most < expected ? most : expected;
    bool empty = false;
    *count = 1;
    for (int i = 0; i < h->ndim; i++) {
        uint64_t dim = (uint64_t)h->dims[i];
        if (dim == 0) empty = true;
        else if (*count > limit / dim) return report_fail(r->report, "the shape is too large");
        else *count *= dim;
    }
    if (empty) *count = 0;
    if (*count * size != available) {
        return report_fail(r->report, "%llu bytes of elements expected, %llu found",
                           (unsigned long long)(*count * size), (unsigned long long)available);
    }
    return true;
}

/* Returns the position of an element in a file with Fortran order. `index` is the number of the
 * element in C order, and `count` is the number of all elements. */
static size_t fortran_position(const header *h, size_t index, size_t count) {
    size_t position = 0, stride = count;
    for (int i = h->ndim - 1; i >= 0; i--) {
        stride /= (size_t)h->dims[i];
        position += index % (size_t)h->dims[i] * stride;
        index /= (size_t)h->dims[i];
    }
    return position;
}

static void convert(const header *h, const unsigned char *bytes, float *data, size_t count) {
    unsigned size = elements[h->type].size;
    bool reorder = h->fortran_order && h->ndim > 1;
    for (size_t i = 0; i < count; i++) {
        size_t at = reorder ? fortran_position(h, i, count) : i;
        data[i] = to_float(h->type, load_bits(bytes + at * size, size, h->big_endian));
    }
}

bool npy_parse(const void *data, size_t size, npy_array *array, report *r) {
    reader in = { NULL, NULL, r };
    header h;
    size_t offset = 0;
    uint64_t count = 0;
    memset(array, 0, sizeof *array);
    memset(&h, 0, sizeof h);
    if (!find_header(&in, data, size, &offset) || !read_header(&in, &h) ||
        !check_size(&in, &h, size - offset, &count)) {
        return false;
    }
    array->data = malloc(count ? (size_t)count * sizeof(float) : 1);
    if (!array->data)
        return report_fail(r, "out of memory: %llu elements", (unsigned long long)count);
    array->count = (size_t)count;
    array->ndim = h.ndim;
    memcpy(array->dims, h.dims, sizeof array->dims);
    convert(&h, (const unsigned char *)data + offset, array->data, array->count);
    return true;
}

bool npy_read_header(const void *data, size_t available, uint64_t size, npy_header *out,
                     report *r) {
    reader in = { NULL, NULL, r };
    header h;
    memset(out, 0, sizeof *out);
    memset(&h, 0, sizeof h);
    if (!find_header(&in, data, available, &out->offset) || !read_header(&in, &h) ||
        !check_size(&in, &h, size - out->offset, &out->count)) {
        return false;
    }
    out->kind = elements[h.type].kind;
    out->size = elements[h.type].size;
    out->big_endian = h.big_endian;
    out->fortran_order = h.fortran_order;
    out->ndim = h.ndim;
    memcpy(out->dims, h.dims, sizeof out->dims);
    return true;
}

void npy_free(npy_array *array) {
    if (array->mapped) os_unmap(array->mapped, array->mapped_size);
    else free(array->data);
    memset(array, 0, sizeof *array);
}

/* ------------------------------------------------------------------------- */
/* Files                                                                     */
/* ------------------------------------------------------------------------- */

bool npy_read(const char *path, npy_array *array, report *r) {
    unsigned char *data;
    size_t size;
    bool good;
    memset(array, 0, sizeof *array);
    if (!source_read_all(path, SIZE_MAX / 4, &data, &size, r)) return false;
    good = npy_parse(data, size, array, r);
    free(data);
    return good || report_file(r, path);
}

/* True if the elements can be used directly in the mapped file, without a conversion. */
static bool is_plain(const npy_header *h, bool halves) {
    const float one = 1;
    unsigned char bytes[4];
    bytes_store_floats(bytes, &one, 1);
    return h->kind == 'f' && (h->size == 4 || (halves && h->size == 2)) && !h->big_endian &&
           (!h->fortran_order || h->ndim < 2) && h->offset % sizeof one == 0 &&
           memcmp(bytes, &one, sizeof one) == 0; /* true on a little-endian CPU */
}

static bool map(const char *path, bool halves, npy_array *array, report *r) {
    report unread = report_make();
    npy_header h;
    size_t size = 0;
    /* If the file cannot be mapped, data is NULL, and the file is read instead. */
    void *data = os_map(path, &size);
    memset(array, 0, sizeof *array);
    if (data && npy_read_header(data, size, size, &h, &unread) && is_plain(&h, halves)) {
        array->ndim = h.ndim;
        memcpy(array->dims, h.dims, sizeof array->dims);
        array->count = (size_t)h.count;
        if (h.size == 2) array->halves = (const void *)((const char *)data + h.offset);
        else array->data = (float *)(void *)((char *)data + h.offset);
        array->mapped = data;
        array->mapped_size = size;
        return true;
    }
    if (data) os_unmap(data, size);
    return npy_read(path, array, r); /* npy_read also reports the error. */
}

bool npy_map(const char *path, npy_array *array, report *r) { return map(path, false, array, r); }

bool npy_map_rows(const char *path, npy_array *array, report *r) {
    return map(path, true, array, r);
}

/* Writes the header with its dictionary. Spaces at the end make the elements start at a multiple of
 * 64 bytes. They also leave space for a larger first dimension, which can thus be changed later. */
static size_t format_header(char *text, size_t size, npy_type type, const int64_t *dims, int ndim) {
    enum { LARGEST = 21 }; /* NumPy also reserves 21 digits for the first dimension. */
    size_t length = MAGIC_SIZE + 4;
    memset(text, ' ', size);
    memcpy(text, MAGIC "\x01\x00", MAGIC_SIZE + 2);
    length += (size_t)snprintf(text + length, size - length,
                               "{'descr': '<f%d', 'fortran_order': False, 'shape': (",
                               type == NPY_F16 ? 2 : 4);
    for (int i = 0; i < ndim; i++) {
        length += (size_t)snprintf(text + length, size - length, "%s%lld%s", i ? " " : "",
                                   (long long)dims[i], i + 1 < ndim || ndim == 1 ? "," : "");
    }
    length += (size_t)snprintf(text + length, size - length, "), }");
    text[length] = ' ';
    length += ndim ? LARGEST - (size_t)snprintf(NULL, 0, "%lld", (long long)dims[0]) : 0;
    length = (length + 1 + 63) / 64 * 64;
    text[length - 1] = '\n';
    text[8] = (char)((length - 10) & 255);
    text[9] = (char)((length - 10) >> 8);
    return length;
}

bool npy_write_values(FILE *file, npy_type type, const float *values, size_t count) {
    const size_t each = type == NPY_F16 ? 2 : 4;
    unsigned char block[4096];
    for (size_t done = 0; done < count;) {
        size_t n = count - done < sizeof block / each ? count - done : sizeof block / each;
        if (type == NPY_F16) bytes_store_halves(block, values + done, n);
        else bytes_store_floats(block, values + done, n);
        if (fwrite(block, each, n, file) != n) return false;
        done += n;
    }
    return true;
}

bool npy_write_header(FILE *file, npy_type type, const int64_t *dims, int ndim) {
    char text[512];
    size_t length;
    if (ndim < 0 || ndim > NPY_MAX_DIMS) return false;
    length = format_header(text, sizeof text, type, dims, ndim);
    return fwrite(text, 1, length, file) == length;
}

bool npy_write(FILE *file, const float *data, const int64_t *dims, int ndim) {
    size_t count = 1;
    if (!npy_write_header(file, NPY_F32, dims, ndim)) return false;
    for (int i = 0; i < ndim; i++) count *= (size_t)dims[i];
    return npy_write_values(file, NPY_F32, data, count);
}
