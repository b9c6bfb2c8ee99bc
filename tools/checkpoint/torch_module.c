#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/torch_state_dict.h"

/* === Whole modules === */

/* This part reads modules that were pickled as objects. Such a pickle contains the names of the
 * modules' classes and the attributes of the modules. PyTorch would import the classes, but this
 * reader treats them only as data. Tensors get the names that state_dict() gives them. Simple
 * values become attributes of the checkpoint. */

enum { TORCH_MOST_NUMBERS = 8 };

/* === Values as text === */

/* Writes a number as the shortest text that is read back as the same number, such as 1e-05. */
void torch_show_number(double number, char *text, size_t size) {
    int digits = 1;
    do snprintf(text, size, "%.*g", digits, number);
    while (digits++ < 17 && strtod(text, NULL) != number);
}

static bool torch_show_scalar(const pickle_value *value, char text[TORCH_SHOWN]) {
    switch (value->kind) {
    case PICKLE_NONE: snprintf(text, TORCH_SHOWN, "none"); return true;
    case PICKLE_BOOL:
        snprintf(text, TORCH_SHOWN, "%s", value->u.integer ? "true" : "false");
        return true;
    case PICKLE_INT: snprintf(text, TORCH_SHOWN, "%lld", (long long)value->u.integer); return true;
    case PICKLE_FLOAT: torch_show_number(value->u.number, text, TORCH_SHOWN); return true;
    case PICKLE_STRING:
    case PICKLE_GLOBAL:
        if (value->count >= TORCH_SHOWN) return false;
        memcpy(text, value->u.text, value->count + (size_t)1);
        return true;
    default: return false;
    }
}

/* Writes a list or tuple of 1 to 8 numbers as text, such as "(16, 16)". Returns false for any other
 * value. */
bool torch_show_numbers(const pickle_value *value, char text[TORCH_SHOWN]) {
    char number[TORCH_SHOWN];
    size_t i, used = 1;
    if ((value->kind != PICKLE_TUPLE && value->kind != PICKLE_LIST) || value->count == 0 ||
        value->count > TORCH_MOST_NUMBERS)
        return false;
    text[0] = '(';
    for (i = 0; i < value->count; i++) {
        const pickle_kind kind = (pickle_kind)value->u.items[i]->kind;
        if ((kind != PICKLE_INT && kind != PICKLE_FLOAT) ||
            !torch_show_scalar(value->u.items[i], number))
            return false;
        used += (size_t)snprintf(text + used, TORCH_SHOWN - used, "%s%s", i ? ", " : "", number);
    }
    snprintf(text + used, TORCH_SHOWN - used, ")");
    return true;
}

/* === Attributes === */

/* Writes the name of a class without the parts that TorchScript adds. The name
 * "__torch__.torch.nn.modules.activation.___torch_mangle_5.GELU", for example, becomes
 * "torch.nn.modules.activation.GELU". */
static void torch_show_class(const char *class, char text[TORCH_SHOWN]) {
    static const char added[] = "__torch__.", mangle[] = "___torch_mangle_";
    char *at;
    if (strncmp(class, added, strlen(added)) == 0) class += strlen(added);
    snprintf(text, TORCH_SHOWN, "%.300s", class);
    at = strstr(text, mangle);
    if (at && strchr(at, '.')) memmove(at, strchr(at, '.') + 1, strlen(strchr(at, '.')));
}

static const char *torch_class_of(const pickle_value *value) {
    const pickle_value *class = torch_part(value, PICKLE_CALLABLE);
    if (pickle_is_text(class, PICKLE_GLOBAL, "copyreg._reconstructor") ||
        pickle_is_text(class, PICKLE_GLOBAL, "copy_reg._reconstructor"))
        class = torch_item(torch_part(value, PICKLE_ARGUMENTS), 0);
    if (class && class->kind == PICKLE_PERSISTENT) /* ("module", class, file, source code) */
        class = torch_item(class->u.items[0], 1);
    return class && class->kind == PICKLE_GLOBAL ? class->u.text : NULL;
}

static bool torch_add_entries(torch_reader *t, const char *module, const char *prefix,
                              const pickle_value *dict);

/* Adds a functools.partial as attributes. The value of the attribute is the name of the function.
 * The settings of the partial become attributes one level below. */
static bool torch_add_partial(torch_reader *t, const char *module, const char *name,
                              const pickle_value *value) {
    const pickle_value *state = torch_part(value, PICKLE_STATE);
    const pickle_value *function = torch_item(state, 0), *settings = torch_item(state, 2);
    char text[TORCH_SHOWN];
    if (!function || function->kind != PICKLE_GLOBAL || !torch_show_scalar(function, text))
        return true;
    return checkpoint_add_attribute(t->c, module, name, text, t->report) &&
           torch_add_entries(t, module, name, settings);
}

/* Adds an attribute if its value is simple. At the top level, also adds the simple values in a dict
 * or an object. */
static bool torch_add_entry(torch_reader *t, const char *module, const char *prefix,
                            const pickle_value *key, const pickle_value *value) {
    const pickle_value *inner = torch_as_object(value);
    char name[TORCH_SHOWN], text[TORCH_SHOWN];
    snprintf(name, sizeof name, "%.100s%s%.100s", prefix, prefix[0] ? "." : "", key->u.text);
    if (torch_show_scalar(value, text) || torch_show_numbers(value, text))
        return checkpoint_add_attribute(t->c, module, name, text, t->report);
    if (prefix[0] || torch_is_tensor(t, value) || torch_as_module(value)) return true;
    if (pickle_is_text(torch_part(value, PICKLE_CALLABLE), PICKLE_GLOBAL, "functools.partial"))
        return torch_add_partial(t, module, name, value);
    if (!inner) inner = torch_as_dict(value);
    return torch_add_entries(t, module, name, inner);
}

/* Adds all simple attributes of a module. Skips "training", and names that begin with '_', because
 * PyTorch uses them internally. Lightning's hyperparameters (_hparams) are an exception. In
 * TorchScript, also skips the inner modules, which are attributes too. */
static bool torch_add_entries(torch_reader *t, const char *module, const char *prefix,
                              const pickle_value *dict) {
    size_t i;
    for (i = 0; dict && dict->kind == PICKLE_DICT && i + 1 < dict->count; i += 2) {
        const pickle_value *key = dict->u.items[i], *value = dict->u.items[i + 1];
        if (!torch_step(t)) return false;
        if (key->kind != PICKLE_STRING || pickle_is_text(key, PICKLE_STRING, "training")) continue;
        if (key->u.text[0] == '_' && !pickle_is_text(key, PICKLE_STRING, "_hparams")) continue;
        if (t->torchscript && value->kind == PICKLE_CALL) continue;
        if (!torch_add_entry(t, module, prefix, key, value)) return false;
    }
    return true;
}

bool torch_add_attributes(torch_reader *t, const char *module, const pickle_value *value) {
    const char *class = torch_class_of(value);
    char text[TORCH_SHOWN];
    if (class) {
        torch_show_class(class, text);
        if (!checkpoint_add_attribute(t->c, module, "class", text, t->report)) return false;
    }
    return torch_add_entries(t, module, "", torch_as_object(value)) &&
           (!class || !t->describe || t->describe(t, module, class));
}

/* === Tensors === */

/* True if a set of strings contains the key. Pickle protocols before 4 write the set as a call of
 * set(). */
static bool torch_set_has(torch_reader *t, const pickle_value *set, const pickle_value *key) {
    size_t i;
    if (set && set->kind == PICKLE_CALL) set = torch_item(torch_part(set, PICKLE_ARGUMENTS), 0);
    if (!set || (set->kind != PICKLE_SET && set->kind != PICKLE_LIST)) return false;
    for (i = 0; i < set->count && torch_step(t); i++)
        if (pickle_is_text(set->u.items[i], PICKLE_STRING, key->u.text)) return true;
    return false;
}

/* Adds the contents of a module's _parameters, _buffers or _modules. Leaves out the names in the
 * set `without`. */
static bool torch_flatten_part(torch_reader *t, char *name, size_t name_size,
                               const pickle_value *part, const pickle_value *without, int depth) {
    const pickle_value *dict = torch_as_dict(part);
    size_t i, size;
    for (i = 0; dict && i + 1 < dict->count; i += 2) {
        const pickle_value *key = dict->u.items[i], *value = dict->u.items[i + 1];
        if (!torch_step(t)) return false;
        if (key->kind != PICKLE_STRING || value->kind != PICKLE_CALL) continue;
        if (torch_set_has(t, without, key)) continue;
        if (!torch_append_name(t, name, name_size, key, &size)) return false;
        if (torch_as_object(value) && !torch_as_module(value) && !torch_is_tensor(t, value) &&
            !torch_add_attributes(t, name, value))
            return false;
        if (!torch_flatten(t, name, size, value, depth + 1)) return false;
        name[name_size] = '\0';
    }
    return true;
}

/* Adds tensors that are plain attributes of a module, neither parameters nor buffers, if "pos" is
 * in their names: they may be positions that are computed once. */
static bool torch_add_positions(torch_reader *t, char *name, size_t name_size,
                                const pickle_value *state) {
    size_t i, size;
    for (i = 0; i + 1 < state->count; i += 2) {
        const pickle_value *key = state->u.items[i], *value = state->u.items[i + 1];
        if (!torch_step(t)) return false;
        if (key->kind != PICKLE_STRING || !torch_is_tensor(t, value) || !strstr(key->u.text, "pos"))
            continue;
        if (!torch_append_name(t, name, name_size, key, &size) || !torch_add_call(t, name, value))
            return false;
        name[name_size] = '\0';
    }
    return true;
}

/* Adds the tensors of a module in the order of state_dict(). If a module is used twice, its tensors
 * are added twice. */
bool torch_flatten_module(torch_reader *t, char *name, size_t name_size, const pickle_value *module,
                          int depth) {
    const pickle_value *state = torch_as_module(module);
    return torch_add_attributes(t, name, module) &&
           torch_flatten_part(t, name, name_size, pickle_get(state, "_parameters"), NULL, depth) &&
           torch_flatten_part(t, name, name_size, pickle_get(state, "_buffers"),
                              pickle_get(state, "_non_persistent_buffers_set"), depth) &&
           torch_add_positions(t, name, name_size, state) &&
           torch_flatten_part(t, name, name_size, pickle_get(state, "_modules"), NULL, depth);
}

/* === Arrays === */

/* This part reads NumPy's arrays and bytes in a pickle.
 *
 * An array is stored as a call of _reconstruct(...) with the state (version, shape, dtype, fortran
 * order, bytes). In protocol 5, the array is stored as a call of _frombuffer(bytes, dtype, shape,
 * order). Protocols before 3 have no type for bytes. In these protocols, the bytes are stored as a
 * call of _codecs.encode(text, "latin1"). The text has one character for each byte.
 */

/* === Bytes === */

static const char *torch_callable(const pickle_value *value) {
    const pickle_value *callable = torch_part(value, PICKLE_CALLABLE);
    return callable && callable->kind == PICKLE_GLOBAL ? callable->u.text : "";
}

/* Copies a text to memory that lives as long as the checkpoint. An encoded text is first read into
 * the end of the same memory and then decoded. */
static bool torch_copy_text(torch_reader *t, const pickle_value *value, torch_bytes *bytes) {
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
    if (!source_read(t->source, (uint64_t)value->u.integer, copy + before, (size_t)size, t->report))
        return false;
    bytes->size = pickle_decode(encoding, copy + before, (size_t)size, copy);
    return true;
}

/* Converts UTF-8 text to bytes in place. Each character must be at most 255 and becomes one
 * byte. */
static bool torch_decode_latin1(torch_bytes *bytes) {
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
                      torch_bytes *bytes) {
    const bool encoded = strcmp(torch_callable(value), "_codecs.encode") == 0;
    if (encoded || strstr(torch_callable(value), ".bytearray"))
        value = torch_item(torch_part(value, PICKLE_ARGUMENTS), 0);
    if (!value || (value->kind != PICKLE_STRING && value->kind != PICKLE_LONG_TEXT))
        return report_fail(t->report, "%.200s: expected bytes in the pickle", name);
    bytes->memory = NULL;
    bytes->offset = value->kind == PICKLE_LONG_TEXT ? (uint64_t)value->u.integer : 0;
    bytes->size = value->kind == PICKLE_LONG_TEXT ? pickle_long_size(value) : value->count;
    if (value->kind == PICKLE_LONG_TEXT && value->encoding == PICKLE_PLAIN && !encoded &&
        t->source == &t->c->sources[t->file])
        return true;
    if (!torch_copy_text(t, value, bytes)) return false;
    return !encoded || torch_decode_latin1(bytes) ||
           report_fail(t->report, "%.200s: its bytes are not Latin-1", name);
}

/* === Arrays === */

typedef enum torch_array_form {
    TORCH_NO_ARRAY,
    TORCH_RECONSTRUCTED,
    TORCH_FROM_BUFFER,
} torch_array_form;

/* Returns the kind of call that creates an array. NumPy 2 writes numpy._core instead of
 * numpy.core. */
static torch_array_form torch_form_of(const pickle_value *value) {
    const char *name = torch_callable(value);
    if (strcmp(name, "numpy.core.multiarray._reconstruct") == 0 ||
        strcmp(name, "numpy._core.multiarray._reconstruct") == 0)
        return TORCH_RECONSTRUCTED;
    if (strcmp(name, "numpy.core.numeric._frombuffer") == 0 ||
        strcmp(name, "numpy._core.numeric._frombuffer") == 0)
        return TORCH_FROM_BUFFER;
    return TORCH_NO_ARRAY;
}

bool torch_is_array(const pickle_value *value) { return torch_form_of(value) != TORCH_NO_ARRAY; }

/* Reads a call such as numpy.dtype("f4", ...) whose state is (3, "<", ...). Returns false if the
 * type is not supported. */
static bool torch_read_dtype(const pickle_value *value, checkpoint_dtype *dtype, bool *big_endian) {
    static const struct {
        const char *name;
        checkpoint_dtype dtype;
    } dtypes[] = {
        { "f4", CHECKPOINT_F32 }, { "f2", CHECKPOINT_F16 }, { "f8", CHECKPOINT_F64 },
        { "i8", CHECKPOINT_I64 }, { "i4", CHECKPOINT_I32 }, { "i2", CHECKPOINT_I16 },
        { "i1", CHECKPOINT_I8 },  { "u1", CHECKPOINT_U8 },  { "b1", CHECKPOINT_BOOL },
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

static void torch_fortran_strides(checkpoint_tensor_info *info) {
    uint64_t stride = 1;
    int i;
    for (i = 0; i < info->ndim; i++) {
        /* checkpoint_check_dims refuses an overflow */
        info->strides[i] = (int64_t)(stride & INT64_MAX);
        stride *= (uint64_t)info->dims[i];
    }
}

static bool torch_place_bytes(torch_reader *t, const torch_bytes *bytes, bool big_endian,
                              size_t *index) {
    checkpoint_storage storage = { 0 };
    storage.file = t->file;
    storage.bytes.name = "(pickle)";
    storage.bytes.offset = bytes->offset;
    storage.bytes.size = storage.bytes.stored_size = bytes->size;
    storage.memory = bytes->memory;
    storage.big_endian = big_endian;
    return checkpoint_add_storage(t->c, &storage, index, t->report);
}

bool torch_add_array(torch_reader *t, const char *name, const pickle_value *value) {
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
    if (!torch_read_sizes(t, &info, shape, shape) ||
        !torch_read_bytes(t, name, torch_item(from, whole ? 4 : 0), &bytes) ||
        !torch_place_bytes(t, &bytes, big_endian, &info.storage))
        return false;
    if (fortran) torch_fortran_strides(&info);
    else checkpoint_contiguous_strides(&info);
    return checkpoint_add_tensor(t->c, &info, bytes.size / checkpoint_dtype_size(info.dtype),
                                 t->report);
}

/* === The code of TorchScript === */

/* This part reads the code in a TorchScript archive as text, and never runs it.
 *
 * A class lists its constants, as in "eps : Final[float] = 1.0000000000000001e-05". Its functions
 * call PyTorch's operators by name, with literal numbers. The code thus shows settings that no
 * tensor shows: the activation, the epsilon of the norms, and often the number of heads. A frozen
 * archive has no names for its weights. This reader names such a weight after the operator that
 * reads the weight, such as "3.linear.weight".
 */

enum {
    TORCH_MAX_ARGUMENTS = 16,
    /* The most characters of the arguments of one call. */
    TORCH_MAX_ARGUMENT_TEXT = 2048,
    /* A module's new attribute is compared with this many latest ones. A duplicate is dropped. */
    TORCH_REMEMBERED = 16,
    TORCH_VALUE = 80,
};

typedef struct torch_span {
    const char *text;
    size_t size;
} torch_span;

/* The facts that the code shows about one module. Each fact is reported once. */
typedef struct torch_description {
    torch_reader *reader;
    const char *module;
    torch_span body;
    /* The index of the module's first attribute in the checkpoint. */
    size_t first;
    /* The number of calls of softmax and scaled_dot_product_attention; 2 means 2 or more. */
    int attentions;
    bool calls_relu, has_cube, has_quick_factor;
    /* The text of a sigmoid that was reported as a part of SiLU. It is not reported again. */
    const char *told;
} torch_description;

/* === Spans of text === */

static bool torch_span_is(torch_span span, const char *text) {
    return span.size == strlen(text) && memcmp(span.text, text, span.size) == 0;
}

static torch_span torch_trim(torch_span span) {
    while (span.size > 0 && span.text[0] == ' ') span.text++, span.size--;
    while (span.size > 0 && span.text[span.size - 1] == ' ') span.size--;
    return span;
}

static const char *torch_find(torch_span span, const char *text) {
    const size_t size = strlen(text);
    const char *at = span.text, *last = span.text + span.size;
    for (; (size_t)(last - at) >= size; at++) {
        at = memchr(at, text[0], (size_t)(last - at) - size + 1);
        if (!at) return NULL;
        if (memcmp(at, text, size) == 0) return at;
    }
    return NULL;
}

/* Splits a text at its commas, up to the closing bracket of the call. Returns the number of
 * items. */
static size_t torch_split(torch_span text, torch_span items[TORCH_MAX_ARGUMENTS]) {
    size_t i, start = 0, count = 0;
    int depth = 0;
    if (text.size > TORCH_MAX_ARGUMENT_TEXT) text.size = TORCH_MAX_ARGUMENT_TEXT;
    for (i = 0; i < text.size && depth >= 0; i++) {
        const char c = text.text[i];
        depth += (c == '(' || c == '[') - (c == ')' || c == ']');
        if (depth >= 0 && (c != ',' || depth > 0)) continue;
        if (count < TORCH_MAX_ARGUMENTS) {
            items[count].text = text.text + start;
            items[count].size = i - start;
            items[count] = torch_trim(items[count]);
        }
        if (count < TORCH_MAX_ARGUMENTS && items[count].size > 0) count++;
        start = i + 1;
    }
    return count;
}

/* Converts a value from Python's syntax to the form of checkpoint.h, such as 1e-05, true, none, (4)
 * or a text. */
static void torch_value(torch_span span, char value[TORCH_VALUE]) {
    char *end;
    double number;
    if (span.size >= 2 && (span.text[0] == '"' || span.text[0] == '\''))
        span.text++, span.size -= 2;
    snprintf(value, TORCH_VALUE, "%.*s", span.size < TORCH_VALUE ? (int)span.size : 0, span.text);
    if (strcmp(value, "True") == 0 || strcmp(value, "False") == 0 || strcmp(value, "None") == 0)
        value[0] = (char)(value[0] | 0x20);
    if (strlen(value) > 3 && strcmp(value + strlen(value) - 2, ",)") == 0)
        memcpy(value + strlen(value) - 2, ")", 2);
    number = strtod(value, &end);
    if (end != value && *end == '\0' && strpbrk(value, ".e"))
        torch_show_number(number, value, TORCH_VALUE);
}

static bool torch_is_number(torch_span span, bool whole) {
    size_t i;
    for (i = 0; i < span.size; i++)
        if (!strchr(whole ? "0123456789" : "0123456789.e+-", span.text[i])) return false;
    return span.size > 0 && span.size < TORCH_VALUE && span.text[0] >= '0' && span.text[0] <= '9';
}

/* === What a module's code says === */

static bool torch_say(torch_description *d, const char *name, const char *value) {
    checkpoint *c = d->reader->c;
    size_t i = d->first;
    if (value[0] == '\0') return true;
    if (c->attribute_count - i > TORCH_REMEMBERED) i = c->attribute_count - TORCH_REMEMBERED;
    for (; i < c->attribute_count; i++)
        if (strcmp(c->attributes[i].name, name) == 0 && strcmp(c->attributes[i].value, value) == 0)
            return true;
    return checkpoint_add_attribute(c, d->module, name, value, d->reader->report);
}

static bool torch_say_span(torch_description *d, const char *name, torch_span span) {
    char value[TORCH_VALUE];
    torch_value(span, value);
    return torch_say(d, name, value);
}

static int torch_count_attentions(torch_span body) {
    static const char *const names[] = { "softmax(", "scaled_dot_product_attention(" };
    const char *end = body.text + body.size, *at;
    size_t i;
    int count = 0;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        torch_span rest = body;
        while (count < 2 && (at = torch_find(rest, names[i])) != NULL) {
            rest.text = at + 1;
            rest.size = (size_t)(end - rest.text);
            count++;
        }
    }
    return count;
}

/* Recognises the shape that splits the result of a layer into q, k, v and heads: [batch, tokens, 3,
 * heads, width]. The 3 may be on any of the last three axes. If the code computes attention once,
 * the shape [batch, tokens, heads, width] counts too. Only the number of heads must be a literal,
 * because the other sizes are often computed. The list leaves out the first `before` axes. */
static bool torch_say_heads(torch_description *d, torch_span list, size_t before) {
    torch_span items[TORCH_MAX_ARGUMENTS], heads = { NULL, 0 };
    size_t count;
    if (list.size < 2 || list.text[0] != '[') return true;
    list.text++, list.size--;
    count = torch_split(list, items);
    if (count + before == 5) {
        const torch_span *last = items + count - 3;
        if (torch_span_is(last[0], "3")) heads = last[1];
        else if (torch_span_is(last[1], "3") || torch_span_is(last[2], "3")) heads = last[0];
    } else if (count + before == 4 && d->attentions == 1) {
        heads = items[count - 2];
    }
    return !torch_is_number(heads, true) || torch_say_span(d, "code.num_heads", heads);
}

/* Reports that the scores have no scale if the class that splits the heads calls none of the
 * functions that could apply one. */
static bool torch_say_scale(torch_description *d) {
    static const char *const others[] = {
        "torch.mul", "torch.div", "torch.pow", "sqrt", "scaled_dot", "baddbmm",
    };
    const checkpoint *c = d->reader->c;
    size_t i = d->first;
    while (i < c->attribute_count && strcmp(c->attributes[i].name, "code.num_heads") != 0) i++;
    if (d->attentions != 1 || i == c->attribute_count) return true;
    for (i = 0; i < sizeof others / sizeof *others; i++)
        if (torch_find(d->body, others[i])) return true;
    return torch_say(d, "code.attn_scale", "1");
}

/* Reports the epsilon of a call of layer_norm. PyTorch omits trailing arguments that have their
 * default values. */
static bool torch_say_layer_norm(torch_description *d, const torch_span *a, size_t count) {
    if (count < 5) return torch_say(d, "code.layer_norm_eps", "1e-05");
    return !torch_is_number(a[4], false) || torch_say_span(d, "code.layer_norm_eps", a[4]);
}

/* Reports the settings of a call that runs a whole layer of nn.TransformerEncoder. */
static bool torch_say_encoder_layer(torch_description *d, const torch_span *a, size_t count) {
    if (count < 10 || !torch_is_number(a[2], true) || !torch_is_number(a[9], false)) return true;
    return torch_say_span(d, "code.num_heads", a[2]) &&
           torch_say(d, "code.activation", torch_span_is(a[7], "True") ? "gelu" : "relu") &&
           torch_say_span(d, "code.norm_first", a[8]) &&
           torch_say_span(d, "code.layer_norm_eps", a[9]);
}

/* Functions that are always activations. Sigmoid, tanh and erf are not in the list, because they
 * may be parts of a formula (torch_say_formula). */
static const char *const torch_activations[] = {
    "relu",       "silu",        "gelu",      "mish",        "elu",      "celu",
    "selu",       "leaky_relu",  "prelu",     "rrelu",       "relu6",    "hardtanh",
    "hardswish",  "hardsigmoid", "softplus",  "log_sigmoid", "softsign", "softshrink",
    "hardshrink", "tanhshrink",  "threshold",
};

static bool torch_begins(torch_span span, const char *text) {
    const size_t size = strlen(text);
    return span.size >= size && memcmp(span.text, text, size) == 0;
}

static bool torch_same(torch_span a, torch_span b) {
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

/* True if the text is "torch.sigmoid(x)" for this x. */
static bool torch_is_sigmoid_of(torch_span span, torch_span x) {
    static const char start[] = "torch.sigmoid(";
    torch_span inner;
    if (!torch_begins(span, start) || span.size != strlen(start) + x.size + 1) return false;
    inner.text = span.text + strlen(start);
    inner.size = x.size;
    return torch_same(inner, x);
}

/* Recognises an activation that is written as a product: x sigmoid(x) is SiLU, and the square of a
 * ReLU is squared_relu. */
static bool torch_say_product(torch_description *d, const torch_span *a) {
    const bool first = torch_is_sigmoid_of(a[0], a[1]);
    if (first || torch_is_sigmoid_of(a[1], a[0])) {
        d->told = a[first ? 0 : 1].text;
        return torch_say(d, "code.activation", "silu");
    }
    return !d->calls_relu || !torch_same(a[0], a[1]) ||
           torch_say(d, "code.activation", "squared_relu");
}

/* Recognises GELU with erf, GELU with tanh of a cube, x sigmoid(1.702 x), a plain sigmoid or tanh,
 * a squared ReLU, and the products above. */
static bool torch_say_formula(torch_description *d, torch_span name, const torch_span *a,
                              size_t count) {
    if (count == 0) return true;
    if (torch_span_is(name, "erf")) return torch_say(d, "code.activation", "gelu");
    if (torch_span_is(name, "sigmoid") && name.text - strlen("torch.") != d->told)
        return torch_say(d, "code.activation", d->has_quick_factor ? "quick_gelu" : "sigmoid");
    if (torch_span_is(name, "tanh"))
        return torch_say(d, "code.activation", d->has_cube ? "gelu_tanh" : "tanh");
    if ((torch_span_is(name, "square") || torch_span_is(name, "pow")) &&
        torch_begins(a[0], "torch.relu("))
        return torch_say(d, "code.activation", "squared_relu");
    return !torch_span_is(name, "mul") || count != 2 || torch_say_product(d, a);
}

static bool torch_say_activation(torch_description *d, torch_span name, const torch_span *a,
                                 size_t count) {
    size_t i;
    if (torch_span_is(name, "gelu") && count > 1 && torch_find(a[1], "tanh"))
        return torch_say(d, "code.activation", "gelu_tanh");
    /* the name of a function that works in place, such as "relu_" */
    if (name.size > 0 && name.text[name.size - 1] == '_') name.size--;
    for (i = 0; i < sizeof torch_activations / sizeof *torch_activations; i++)
        if (torch_span_is(name, torch_activations[i]))
            return torch_say(d, "code.activation", torch_activations[i]);
    return torch_say_formula(d, name, a, count);
}

static bool torch_say_call(torch_description *d, torch_span name, const torch_span *a,
                           size_t count) {
    if (!torch_say_activation(d, name, a, count)) return false;
    if (torch_span_is(name, "softmax") || torch_span_is(name, "log_softmax"))
        return torch_say_span(d, "code.softmax", name);
    if (torch_span_is(name, "layer_norm")) return torch_say_layer_norm(d, a, count);
    if (torch_span_is(name, "_transformer_encoder_layer_fwd"))
        return torch_say_encoder_layer(d, a, count);
    if (torch_span_is(name, "_native_multi_head_attention") && count > 4 &&
        torch_is_number(a[4], true))
        return torch_say_span(d, "code.num_heads", a[4]);
    if ((torch_span_is(name, "view") || torch_span_is(name, "reshape")) && count == 2)
        return torch_say_heads(d, a[1], 0);
    if (torch_span_is(name, "unflatten") && count == 3) return torch_say_heads(d, a[2], 2);
    return true;
}

/* Finds the next call of one of PyTorch's operators, "torch.NAME(...)". *rest becomes the text
 * after the opening bracket. */
static bool torch_next_call(torch_span *rest, torch_span *name,
                            torch_span arguments[TORCH_MAX_ARGUMENTS], size_t *count) {
    static const char start[] = "torch.";
    const char *end = rest->text + rest->size, *at;
    while ((at = torch_find(*rest, start)) != NULL) {
        name->text = at + strlen(start);
        for (name->size = 0; name->text + name->size < end; name->size++)
            if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_", name->text[name->size])) break;
        rest->text = name->text + name->size;
        rest->size = (size_t)(end - rest->text);
        if (rest->size == 0 || *rest->text != '(') continue;
        rest->text++, rest->size--;
        *count = torch_split(*rest, arguments);
        return true;
    }
    return false;
}

/* Reports the constants of a class from lines such as " eps : Final[float] =
 * 1.0000000000000001e-05". */
static bool torch_say_constants(torch_description *d) {
    static const char sign[] = " : Final[";
    torch_span rest = d->body;
    const char *at, *end = rest.text + rest.size;
    while ((at = torch_find(rest, sign)) != NULL) {
        const char *name = at, *line = memchr(at, '\n', (size_t)(end - at));
        char text[TORCH_VALUE];
        torch_span value;
        if (!line) line = end;
        while (name > d->body.text && name[-1] != ' ' && name[-1] != '\n') name--;
        snprintf(text, sizeof text, "%.*s", at - name < TORCH_VALUE ? (int)(at - name) : 0, name);
        value.text = at;
        value.size = (size_t)(line - at);
        at = torch_find(value, "] = ");
        value.text = at ? at + 4 : line;
        value.size = (size_t)(line - value.text);
        if (!torch_step(d->reader) || (text[0] && !torch_say_span(d, text, value))) return false;
        rest.text = line;
        rest.size = (size_t)(end - line);
    }
    return true;
}

/* Reports calls of torch.nn.functional. TorchScript first assigns each such function to a variable,
 * on a line of its own. */
static bool torch_say_others(torch_description *d) {
    static const char start[] = "torch.nn.functional.";
    torch_span rest = d->body;
    const char *at, *end = rest.text + rest.size;
    size_t i;
    while ((at = torch_find(rest, start)) != NULL) {
        torch_span name = { at + strlen(start), 0 };
        while (name.text + name.size < end && name.text[name.size] != '\n') name.size++;
        if ((torch_span_is(name, "softmax") || torch_span_is(name, "log_softmax")) &&
            !torch_say_span(d, "code.softmax", name))
            return false;
        for (i = 0; i < sizeof torch_activations / sizeof *torch_activations; i++)
            if (torch_span_is(name, torch_activations[i]) &&
                !torch_say(d, "code.activation", torch_activations[i]))
                return false;
        if (!torch_step(d->reader)) return false;
        rest.text = name.text + name.size;
        rest.size = (size_t)(end - rest.text);
    }
    return true;
}

/* Finds the body of a class: the text from "class NAME(Module):" to the next line that is not
 * indented. */
static bool torch_find_class_body(const char *class, const char *code, torch_span *body) {
    const char *dot = strrchr(class, '.');
    char head[300];
    const char *at;
    snprintf(head, sizeof head, "class %.250s(Module):\n", dot ? dot + 1 : class);
    at = strstr(code, head);
    if (!at || (at != code && at[-1] != '\n')) return false;
    body->text = at + strlen(head);
    for (at = body->text; at && (*at == ' ' || *at == '\n'); at = at ? at + 1 : NULL)
        at = strchr(at, '\n');
    body->size = at ? (size_t)(at - body->text) : strlen(body->text);
    return true;
}

bool torch_describe_code(torch_reader *t, const char *module, const char *class, const char *code) {
    torch_description d = { 0 };
    torch_span rest, name = { NULL, 0 }, arguments[TORCH_MAX_ARGUMENTS];
    size_t count = 0;
    d.reader = t;
    d.module = module;
    d.first = t->c->attribute_count;
    if (!torch_find_class_body(class, code, &d.body)) return true;
    d.attentions = torch_count_attentions(d.body);
    d.calls_relu = torch_find(d.body, "torch.relu(") != NULL;
    d.has_cube = torch_find(d.body, ", 3)") || torch_find(d.body, "0.0447");
    d.has_quick_factor = torch_find(d.body, "1.702") != NULL;
    for (rest = d.body; torch_next_call(&rest, &name, arguments, &count);)
        if (!torch_step(t) || !torch_say_call(&d, name, arguments, count)) return false;
    return torch_say_scale(&d) && torch_say_constants(&d) && torch_say_others(&d);
}

/* === Constants === */

/* Returns the number of a constant, such as 12 for "CONSTANTS.c12". Returns -1 for any other
 * text. */
static long torch_constant_index(torch_span span) {
    static const char start[] = "CONSTANTS.c";
    const size_t size = strlen(start);
    torch_span digits;
    if (span.size <= size || span.size > size + 6 || memcmp(span.text, start, size) != 0) return -1;
    digits.text = span.text + size;
    digits.size = span.size - size;
    return torch_is_number(digits, true) ? strtol(digits.text, NULL, 10) : -1;
}

/* Returns the last part of a constant's name. The operator that uses the constant determines it. A
 * constant that is expanded to the batch is a class token. A constant that is added is a table of
 * positions. All other constants belong to layers. */
static const char *torch_name_part(torch_span operator, size_t part) {
    static const char *const parts[] = { "weight", "bias", "running_mean", "running_var" };
    if (operator.size == 6 && memcmp(operator.text, "expand", 6) == 0) return "cls_token";
    if (operator.size >= 3 && memcmp(operator.text, "add", 3) == 0) return "pos_embed";
    return parts[part < 3 ? part : 3];
}

/* Adds a constant under a name that shows its role. The name "3.linear.weight", for example,
 * belongs to the first constant of the fourth call that has constants. A constant that is used
 * twice is added twice, like shared weights. */
static bool torch_add_constant(torch_reader *t, torch_span operator, size_t place, size_t part,
                               long index) {
    const pickle_value *value = torch_item(t->pickle.root, (size_t)index);
    char name[TORCH_VALUE];
    if (!value || !torch_is_tensor(t, value)) return true;
    snprintf(name, sizeof name, "%lu.%.*s.%s", (unsigned long)place,
             operator.size < 40 ? (int)operator.size : 40, operator.text,
             torch_name_part(operator, part));
    return part > 3 || torch_add_call(t, name, value);
}

bool torch_add_constants(torch_reader *t, const char *code) {
    torch_span rest, operator= { NULL, 0 }, arguments[TORCH_MAX_ARGUMENTS];
    size_t i, count = 0, place = 0;
    rest.text = code;
    rest.size = strlen(code);
    while (torch_next_call(&rest, &operator, arguments, &count)) {
        size_t part = 0;
        if (!torch_step(t)) return false;
        for (i = 0; i < count; i++) {
            const long index = torch_constant_index(arguments[i]);
            if (index >= 0 && !torch_add_constant(t, operator, place, part++, index)) return false;
        }
        place += part > 0;
    }
    if (t->c->tensor_count > 0) return true;
    return report_fail(t->report, "neither the modules nor the constants contain a tensor");
}
