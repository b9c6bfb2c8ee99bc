/* torch_array.c - NumPy's arrays in a pickle, and bytes in a pickle.
 *
 * An array is _reconstruct(...) with the state (version, shape, dtype, fortran order, bytes), or
 * _frombuffer(bytes, dtype, shape, order) in protocol 5. Protocols before 3 have no bytes: they
 * write a text whose characters are the bytes, and call _codecs.encode(text, "latin1").
 */
#include <string.h>

#include "checkpoint/torch_state_dict.h"

/* === Bytes === */

static const char *torch_callable(const pickle_value *value)
{
    const pickle_value *callable = torch_part(value, PICKLE_CALLABLE);
    return callable && callable->kind == PICKLE_GLOBAL ? callable->u.text : "";
}

/* As long-lived as the checkpoint; an encoded text is first read into the end of its block. */
static bool torch_copy_text(torch_reader *t, const pickle_value *value, torch_bytes *bytes)
{
    const pickle_encoding encoding = (pickle_encoding)value->encoding;
    const uint64_t size = bytes->size, before = encoding == PICKLE_PLAIN ? 0 : size;
    uint8_t *copy = checkpoint_add_block(t->c, before + size, t->report);
    if (!copy) return false;
    bytes->memory = copy;
    bytes->offset = 0;
    if (value->kind == PICKLE_STRING) {
        memcpy(copy, value->u.text, (size_t)size);
        return true;
    }
    if (!source_read(t->source, (uint64_t)value->u.integer, copy + before, (size_t)size,
                     t->report)) return false;
    bytes->size = pickle_decode(encoding, copy + before, (size_t)size, copy);
    return true;
}

/* UTF-8 of characters up to 255 becomes bytes, in place. */
static bool torch_decode_latin1(torch_bytes *bytes)
{
    uint8_t *text = bytes->memory;
    uint64_t i, used = 0;
    for (i = 0; i < bytes->size; i++) {
        uint8_t byte = text[i];
        if (byte >= 0x80) {
            if ((byte != 0xC2 && byte != 0xC3) || ++i == bytes->size || text[i] >> 6 != 2)
                return false;
            byte = (uint8_t)((byte & 3) << 6 | (text[i] & 0x3F));
        }
        text[used++] = byte;
    }
    bytes->size = used;
    return true;
}

bool torch_read_bytes(torch_reader *t, const char *name, const pickle_value *value,
                      torch_bytes *bytes)
{
    const bool encoded = strcmp(torch_callable(value), "_codecs.encode") == 0;
    if (encoded || strstr(torch_callable(value), ".bytearray"))
        value = torch_item(torch_part(value, PICKLE_ARGUMENTS), 0);
    if (!value || (value->kind != PICKLE_STRING && value->kind != PICKLE_LONG_TEXT))
        return report_fail(t->report, "%.200s: bytes expected in the pickle", name);
    bytes->memory = NULL;
    bytes->offset = value->kind == PICKLE_LONG_TEXT ? (uint64_t)value->u.integer : 0;
    bytes->size = value->kind == PICKLE_LONG_TEXT ? pickle_long_size(value) : value->count;
    if (value->kind == PICKLE_LONG_TEXT && value->encoding == PICKLE_PLAIN && !encoded
        && t->source == &t->c->sources[t->file]) return true;
    if (!torch_copy_text(t, value, bytes)) return false;
    return !encoded || torch_decode_latin1(bytes)
        || report_fail(t->report, "%.200s: its bytes are not Latin-1", name);
}

/* === Arrays === */

typedef enum torch_array_form {
    TORCH_NO_ARRAY,
    TORCH_RECONSTRUCTED,
    TORCH_FROM_BUFFER
} torch_array_form;

/* NumPy 2 has an underscore before core. */
static torch_array_form torch_form_of(const pickle_value *value)
{
    const char *name = torch_callable(value);
    if (strcmp(name, "numpy.core.multiarray._reconstruct") == 0
        || strcmp(name, "numpy._core.multiarray._reconstruct") == 0) return TORCH_RECONSTRUCTED;
    if (strcmp(name, "numpy.core.numeric._frombuffer") == 0
        || strcmp(name, "numpy._core.numeric._frombuffer") == 0) return TORCH_FROM_BUFFER;
    return TORCH_NO_ARRAY;
}

bool torch_is_array(const pickle_value *value)
{
    return torch_form_of(value) != TORCH_NO_ARRAY;
}

/* numpy.dtype("f4", ...) with the state (3, "<", ...); false: not one that can be read. */
static bool torch_read_dtype(const pickle_value *value, checkpoint_dtype *dtype, bool *big_endian)
{
    static const struct { const char *name; checkpoint_dtype dtype; } dtypes[] = {
        { "f4", CHECKPOINT_F32 }, { "f2", CHECKPOINT_F16 }, { "f8", CHECKPOINT_F64 },
        { "i8", CHECKPOINT_I64 }, { "i4", CHECKPOINT_I32 }, { "i2", CHECKPOINT_I16 },
        { "i1", CHECKPOINT_I8 }, { "u1", CHECKPOINT_U8 }, { "b1", CHECKPOINT_BOOL }
    };
    const pickle_value *name = torch_item(torch_part(value, PICKLE_ARGUMENTS), 0);
    size_t i;
    *big_endian = pickle_is_text(torch_item(torch_part(value, PICKLE_STATE), 1), PICKLE_STRING,
                                 ">");
    for (i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        *dtype = dtypes[i].dtype;
        if (pickle_is_text(name, PICKLE_STRING, dtypes[i].name)) return true;
    }
    return false;
}

static void torch_fortran_strides(checkpoint_tensor_info *info)
{
    uint64_t stride = 1;
    int i;
    for (i = 0; i < info->ndim; i++) {
        info->strides[i] = (int64_t)(stride & INT64_MAX);   /* overflows: refused by dims */
        stride *= (uint64_t)info->dims[i];
    }
}

static bool torch_place_bytes(torch_reader *t, const torch_bytes *bytes, bool big_endian,
                              size_t *index)
{
    checkpoint_storage storage = { 0 };
    storage.file = t->file;
    storage.bytes.name = "(pickle)";
    storage.bytes.offset = bytes->offset;
    storage.bytes.size = storage.bytes.stored_size = bytes->size;
    storage.memory = bytes->memory;
    storage.big_endian = big_endian;
    return checkpoint_add_storage(t->c, &storage, index, t->report);
}

bool torch_add_array(torch_reader *t, const char *name, const pickle_value *value)
{
    const bool whole = torch_form_of(value) == TORCH_RECONSTRUCTED;
    const pickle_value *from = torch_part(value, whole ? PICKLE_STATE : PICKLE_ARGUMENTS);
    const pickle_value *shape = torch_item(from, whole ? 1 : 2);
    const pickle_value *order = torch_item(from, 3);
    checkpoint_tensor_info info = { 0 };
    torch_bytes bytes;
    bool big_endian, fortran;
    info.name = name;
    info.container_name = "(pickle)";
    fortran = whole ? order && order->kind == PICKLE_BOOL && order->u.integer
                    : pickle_is_text(order, PICKLE_STRING, "F");
    if (!torch_read_dtype(torch_item(from, whole ? 2 : 1), &info.dtype, &big_endian))
        return checkpoint_add_skipped(t->c, name, "NumPy dtype", t->report);
    if (!torch_read_sizes(t, &info, shape, shape)
        || !torch_read_bytes(t, name, torch_item(from, whole ? 4 : 0), &bytes)
        || !torch_place_bytes(t, &bytes, big_endian, &info.storage)) return false;
    if (fortran) torch_fortran_strides(&info);
    else checkpoint_contiguous_strides(&info);
    return checkpoint_add_tensor(t->c, &info, bytes.size / checkpoint_dtype_size(info.dtype),
                                 t->report);
}
