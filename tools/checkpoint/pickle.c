#include "checkpoint/pickle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    /* The bytes of memory per value on average: 24 for the value itself, and the rest for its items
     * and text. */
    PICKLE_VALUE_MEMORY = 36,
    PICKLE_MAX_OPCODES = 16000000,
    PICKLE_MAX_TEXT = 65536,
    PICKLE_MIN_MEMORY = 65536,
    /* The largest length of a number that is written as text, and of the module and the name of a
     * GLOBAL. */
    PICKLE_MAX_LINE = 512,
};

/* The state of the pickle's virtual machine. */
typedef struct pickle_machine {
    const source *source;
    /* The offset in the source of the first byte that is not in the buffer yet. */
    uint64_t position;
    /* The offset after the last byte of the pickle's source. */
    uint64_t end;
    uint8_t buffer[4096];
    size_t buffer_at, buffer_size;
    pickle_value **stack;
    size_t height, stack_capacity;
    size_t marks[PICKLE_MAX_DEPTH];
    size_t mark_count;
    pickle_value **memo;
    size_t memo_count, memo_capacity;
    size_t persistent_capacity;
    /* Memory for a line of text, PICKLE_MAX_TEXT + 2 bytes; NULL until it is needed. */
    uint8_t *line;
    size_t values, max_values;
    pickle_value *none;
    pickle_document *document;
    report *report;
} pickle_machine;

/* === Input === */

static uint64_t pickle_position(const pickle_machine *m) {
    return m->position - (m->buffer_size - m->buffer_at);
}

static bool pickle_fail(pickle_machine *m, const char *format, ...) REPORT_PRINTF(2, 3);

static bool pickle_fail(pickle_machine *m, const char *format, ...) {
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return report_fail(m->report, "pickle, byte %llu: %s", (unsigned long long)pickle_position(m),
                       text);
}

static bool pickle_fill(pickle_machine *m) {
    uint64_t left = m->end - m->position;
    m->buffer_at = 0;
    m->buffer_size = 0;
    if (left == 0) return pickle_fail(m, "truncated, no STOP opcode");
    if (left > sizeof m->buffer) left = sizeof m->buffer;
    if (!source_read(m->source, m->position, m->buffer, (size_t)left, m->report)) return false;
    m->buffer_size = (size_t)left;
    m->position += left;
    return true;
}

static bool pickle_take(pickle_machine *m, void *destination, size_t size) {
    uint8_t *to = destination;
    while (size > 0) {
        size_t piece = m->buffer_size - m->buffer_at;
        if (piece == 0) {
            if (!pickle_fill(m)) return false;
            continue;
        }
        if (piece > size) piece = size;
        memcpy(to, m->buffer + m->buffer_at, piece);
        m->buffer_at += piece;
        to += piece;
        size -= piece;
    }
    return true;
}

static bool pickle_has(pickle_machine *m, uint64_t size) {
    if (size <= m->end - pickle_position(m)) return true;
    return pickle_fail(m, "truncated, expected %llu bytes here", (unsigned long long)size);
}

static bool pickle_skip(pickle_machine *m, uint64_t size) {
    uint64_t buffered = m->buffer_size - m->buffer_at;
    if (!pickle_has(m, size)) return false;
    if (size <= buffered) {
        m->buffer_at += (size_t)size;
    } else {
        m->position += size - buffered;
        m->buffer_at = m->buffer_size;
    }
    return true;
}

/* Reads an unsigned little-endian number of `width` bytes, which is 1, 2, 4 or 8. */
static bool pickle_take_number(pickle_machine *m, unsigned width, uint64_t *number) {
    uint8_t bytes[8] = { 0 };
    if (!pickle_take(m, bytes, width)) return false;
    *number = bytes_load64(bytes);
    return true;
}

/* Reads a line. *length does not count the '\n'. */
static bool pickle_take_line(pickle_machine *m, char line[PICKLE_MAX_LINE], size_t *length) {
    for (*length = 0; *length < PICKLE_MAX_LINE; (*length)++) {
        if (!pickle_take(m, line + *length, 1)) return false;
        if (line[*length] == '\n') return true;
    }
    return pickle_fail(m, "line without an end");
}

/* Reads a decimal number of protocol 0. *fits becomes true if the number fits 64 bits. */
static bool pickle_take_decimal(pickle_machine *m, int64_t *number, bool *fits) {
    char line[PICKLE_MAX_LINE], *end;
    size_t length;
    if (!pickle_take_line(m, line, &length)) return false;
    line[length] = '\0';
    errno = 0;
    *number = strtoll(line, &end, 10);
    *fits = errno == 0;
    if (*end == 'L') end++;
    return (end != line && end == line + length) || pickle_fail(m, "not a number");
}

/* === Values === */

static pickle_value *pickle_new(pickle_machine *m, pickle_kind kind) {
    pickle_value *value = NULL;
    if (m->values++ < m->max_values) value = memory_take(&m->document->memory, sizeof *value);
    if (value) value->kind = (uint8_t)kind;
    else
        pickle_fail(m, "there are more than %lu values, or the values take too much memory",
                    (unsigned long)m->max_values);
    return value;
}

static bool pickle_nest(pickle_machine *m, pickle_value *parent, const pickle_value *child) {
    if (child->depth >= PICKLE_MAX_DEPTH)
        return pickle_fail(m, "nested deeper than %d", PICKLE_MAX_DEPTH);
    if (parent->depth <= child->depth) parent->depth = (uint8_t)(child->depth + 1);
    return true;
}

/* Makes sure that the value has memory for `more` more items. The memory doubles, so appending
 * takes linear time. */
static bool pickle_reserve(pickle_machine *m, pickle_value *value, size_t more) {
    size_t needed = value->count + more, capacity = (size_t)value->capacity * 2;
    pickle_value **items;
    if (needed <= value->capacity) return true;
    if (capacity < needed) capacity = needed;
    items = memory_take(&m->document->memory, capacity * sizeof *items);
    if (!items) return pickle_fail(m, "container too large");
    if (value->count > 0) memcpy(items, value->u.items, value->count * sizeof *items);
    value->u.items = items;
    value->capacity = (uint32_t)capacity;
    return true;
}

static bool pickle_add(pickle_machine *m, pickle_value *parent, pickle_value *const *items,
                       size_t count) {
    size_t i;
    if (!pickle_reserve(m, parent, count)) return false;
    for (i = 0; i < count; i++) {
        if (!pickle_nest(m, parent, items[i])) return false;
        parent->u.items[parent->count++] = items[i];
    }
    return true;
}

static bool pickle_set_text(pickle_machine *m, pickle_value *value, const char *text, size_t size) {
    value->u.text = memory_copy_text(&m->document->memory, text, size);
    if (!value->u.text) return pickle_fail(m, "too much text");
    value->count = (uint32_t)size;
    return true;
}

/* === Stack === */

static bool pickle_push(pickle_machine *m, pickle_value *value) {
    pickle_value **stack;
    if (!value) return false;
    if (m->height >= m->max_values) return pickle_fail(m, "stack overflow");
    stack = memory_grow(m->stack, sizeof *stack, m->height, &m->stack_capacity);
    if (!stack) return report_no_memory(m->report);
    m->stack = stack;
    stack[m->height++] = value;
    return true;
}

static bool pickle_push_integer(pickle_machine *m, pickle_kind kind, int64_t integer) {
    pickle_value *value = pickle_new(m, kind);
    if (value) value->u.integer = integer;
    return pickle_push(m, value);
}

/* Checks that the stack has `count` values above the topmost mark. An opcode may use only these
 * values. */
static bool pickle_needs(pickle_machine *m, size_t count) {
    size_t floor = m->mark_count ? m->marks[m->mark_count - 1] : 0;
    if (m->height - floor >= count) return true;
    return pickle_fail(m, "stack underflow");
}

static pickle_value *pickle_pop(pickle_machine *m) {
    return pickle_needs(m, 1) ? m->stack[--m->height] : NULL;
}

/* Removes the topmost mark. *items receives the values above the mark, and *count their number.
 * *items is valid until the next push. */
static bool pickle_pop_mark(pickle_machine *m, pickle_value ***items, size_t *count) {
    size_t floor;
    if (m->mark_count == 0) return pickle_fail(m, "stack underflow: no MARK");
    floor = m->marks[--m->mark_count];
    *count = m->height - floor;
    *items = *count ? m->stack + floor : NULL;
    m->height = floor;
    return true;
}

static pickle_value *pickle_top(pickle_machine *m) {
    return pickle_needs(m, 1) ? m->stack[m->height - 1] : NULL;
}

/* === Opcodes: each function takes its argument from its row in the table === */

static bool pickle_op_proto(pickle_machine *m, unsigned unused) {
    uint64_t version;
    (void)unused;
    if (!pickle_take_number(m, 1, &version)) return false;
    if (version <= 5) return true;
    return pickle_fail(m, "found protocol %u, expected at most 5", (unsigned)version);
}

static bool pickle_op_frame(pickle_machine *m, unsigned size) {
    return pickle_skip(m, size); /* A frame only helps a reader to buffer the pickle. */
}

static bool pickle_op_none(pickle_machine *m, unsigned unused) {
    (void)unused;
    return pickle_push(m, m->none);
}

static bool pickle_op_bool(pickle_machine *m, unsigned truth) {
    return pickle_push_integer(m, PICKLE_BOOL, (int64_t)truth);
}

static bool pickle_op_int(pickle_machine *m, unsigned width) {
    uint64_t number;
    if (!pickle_take_number(m, width, &number)) return false;
    if (width == 4 && number > INT32_MAX)
        return pickle_push_integer(m, PICKLE_INT, (int64_t)number - ((int64_t)1 << 32));
    return pickle_push_integer(m, PICKLE_INT, (int64_t)number);
}

/* Reads a two's complement number of any length. The value of a number with more than 64 bits is
 * dropped. */
static bool pickle_op_long(pickle_machine *m, unsigned width) {
    uint64_t size, number = 0;
    uint8_t bytes[8];
    if (!pickle_take_number(m, width, &size)) return false;
    if (size > 8) return pickle_skip(m, size) && pickle_push(m, pickle_new(m, PICKLE_OPAQUE));
    if (!pickle_take(m, bytes, (size_t)size)) return false;
    if (size > 0 && bytes[size - 1] & 0x80) number = UINT64_MAX;
    while (size-- > 0) number = number << 8 | bytes[size];
    if (number > INT64_MAX)
        return pickle_push_integer(m, PICKLE_INT, -(int64_t)(UINT64_MAX - number) - 1);
    return pickle_push_integer(m, PICKLE_INT, (int64_t)number);
}

static bool pickle_op_float(pickle_machine *m, unsigned unused) {
    uint8_t bytes[8];
    uint64_t bits = 0;
    pickle_value *value;
    int i;
    (void)unused;
    if (!pickle_take(m, bytes, sizeof bytes)) return false;
    /* This is the only big-endian number of the format. */
    for (i = 0; i < 8; i++) bits = bits << 8 | bytes[i];
    value = pickle_new(m, PICKLE_FLOAT);
    if (value) memcpy(&value->u.number, &bits, sizeof bits);
    return pickle_push(m, value);
}

/* Pushes a long text. Stores only the text's offset in the file, because the text may hold the
 * elements of an array. */
static bool pickle_push_long_text(pickle_machine *m, uint64_t at, uint64_t size,
                                  pickle_encoding encoding) {
    pickle_value *value = pickle_new(m, PICKLE_LONG_TEXT);
    if (!value) return false;
    value->encoding = (uint8_t)encoding;
    value->u.integer = (int64_t)at;
    value->count = (uint32_t)size;
    value->capacity = (uint32_t)(size >> 32);
    return pickle_push(m, value);
}

static bool pickle_op_text(pickle_machine *m, unsigned width) {
    uint64_t size, at;
    pickle_value *value;
    char *text;
    if (!pickle_take_number(m, width, &size)) return false;
    at = pickle_position(m);
    if (size > PICKLE_MAX_TEXT)
        return pickle_skip(m, size) && pickle_push_long_text(m, at, size, PICKLE_PLAIN);
    if (!pickle_has(m, size)) return false;
    value = pickle_new(m, PICKLE_STRING);
    if (!value) return false;
    text = memory_take(&m->document->memory, (size_t)size + 1);
    if (!text) return pickle_fail(m, "too much text");
    if (!pickle_take(m, text, (size_t)size)) return false;
    value->u.text = text;
    value->count = (uint32_t)size;
    return pickle_push(m, value);
}

/* Reads a line into m->line, without the '\n'. m->line keeps only the first PICKLE_MAX_TEXT + 2
 * bytes of a longer line. *size is the length of the whole line, *last its last character. */
static bool pickle_take_text_line(pickle_machine *m, uint64_t *size, uint8_t *last) {
    uint8_t byte = 0;
    if (!m->line && !(m->line = malloc(PICKLE_MAX_TEXT + 2))) return report_no_memory(m->report);
    for (*size = 0;; (*size)++) {
        *last = byte;
        if (!pickle_take(m, &byte, 1)) return false;
        if (byte == '\n') return true;
        if (*size < PICKLE_MAX_TEXT + 2) m->line[*size] = byte;
    }
}

static bool pickle_push_escaped(pickle_machine *m, const uint8_t *from, size_t size,
                                pickle_encoding encoding) {
    pickle_value *value = pickle_new(m, PICKLE_STRING);
    uint8_t *text = value ? memory_take(&m->document->memory, 2 * size + 1) : NULL;
    if (!text) return pickle_fail(m, "too much text");
    value->count = (uint32_t)pickle_decode(encoding, from, size, text);
    text[value->count] = 0;
    value->u.text = (const char *)text;
    return pickle_push(m, value);
}

/* Reads a text of protocol 0, which ends with the line. Python 2 puts the text in quotes. */
static bool pickle_op_text_line(pickle_machine *m, unsigned encoding) {
    const unsigned quotes = encoding == PICKLE_ESCAPED_BYTES;
    const uint64_t at = pickle_position(m) + quotes;
    uint64_t size = 0;
    uint8_t last = 0;
    if (!pickle_take_text_line(m, &size, &last)) return false;
    if (quotes && (size < 2 || m->line[0] != last || (last != '\'' && last != '"')))
        return pickle_fail(m, "text without quotes");
    size -= 2 * quotes;
    if (size > PICKLE_MAX_TEXT)
        return pickle_push_long_text(m, at, size, (pickle_encoding)encoding);
    return pickle_push_escaped(m, m->line + quotes, (size_t)size, (pickle_encoding)encoding);
}

/* Runs the opcodes I and L of protocol 0. For I, the texts 00 and 01 mean False and True. For L,
 * the number ends with the letter L. */
static bool pickle_op_int_line(pickle_machine *m, unsigned unused) {
    const uint64_t at = pickle_position(m);
    int64_t number;
    bool fits;
    (void)unused;
    if (!pickle_take_decimal(m, &number, &fits)) return false;
    if (!fits) return pickle_push(m, pickle_new(m, PICKLE_OPAQUE));
    return pickle_push_integer(
        m, pickle_position(m) - at == 3 && number >= 0 && number <= 1 ? PICKLE_BOOL : PICKLE_INT,
        number);
}

static bool pickle_op_float_line(pickle_machine *m, unsigned unused) {
    pickle_value *value = pickle_new(m, PICKLE_FLOAT);
    char line[PICKLE_MAX_LINE], *end;
    size_t length;
    (void)unused;
    if (!value || !pickle_take_line(m, line, &length)) return false;
    line[length] = '\0';
    value->u.number = strtod(line, &end);
    return end != line && end == line + length ? pickle_push(m, value)
                                               : pickle_fail(m, "not a number");
}

static bool pickle_op_empty(pickle_machine *m, unsigned kind) {
    return pickle_push(m, pickle_new(m, (pickle_kind)kind));
}

static bool pickle_op_mark(pickle_machine *m, unsigned unused) {
    (void)unused;
    if (m->mark_count == PICKLE_MAX_DEPTH)
        return pickle_fail(m, "nested deeper than %d", PICKLE_MAX_DEPTH);
    m->marks[m->mark_count++] = m->height;
    return true;
}

/* Runs TUPLE, LIST, FROZENSET and DICT, which take all values above the topmost mark. */
static bool pickle_op_collect(pickle_machine *m, unsigned kind) {
    pickle_value **items = NULL, *value = pickle_new(m, (pickle_kind)kind);
    size_t count = 0;
    if (!value || !pickle_pop_mark(m, &items, &count)) return false;
    if (kind == PICKLE_DICT && count % 2) return pickle_fail(m, "key without a value");
    return pickle_add(m, value, items, count) && pickle_push(m, value);
}

static bool pickle_op_tuple(pickle_machine *m, unsigned count) {
    pickle_value *value = pickle_new(m, PICKLE_TUPLE);
    if (!value || !pickle_needs(m, count)) return false;
    m->height -= count;
    return pickle_add(m, value, m->stack + m->height, count) && pickle_push(m, value);
}

static bool pickle_extend_list(pickle_machine *m, pickle_value *const *items, size_t count) {
    pickle_value *list = pickle_top(m);
    if (!list) return false;
    if (list->kind == PICKLE_LIST || list->kind == PICKLE_SET)
        return pickle_add(m, list, items, count);
    if (list->kind == PICKLE_CALL)
        return true; /* This is a list of an unknown class. Its contents are not used. */
    return pickle_fail(m, "items are added to something that is not a list");
}

static bool pickle_extend_dict(pickle_machine *m, pickle_value *const *items, size_t count) {
    pickle_value *dict = pickle_top(m), **contents;
    if (!dict) return false;
    if (count % 2) return pickle_fail(m, "key without a value");
    if (dict->kind == PICKLE_DICT) return pickle_add(m, dict, items, count);
    if (dict->kind != PICKLE_CALL)
        return pickle_fail(m, "entries are added to something that is not a dict");
    contents = &dict->u.items[PICKLE_CONTENTS]; /* This is a dict of an unknown class. */
    if (!*contents && !(*contents = pickle_new(m, PICKLE_DICT))) return false;
    return pickle_add(m, *contents, items, count) && pickle_nest(m, dict, *contents);
}

static bool pickle_extend(pickle_machine *m, unsigned kind, pickle_value *const *items,
                          size_t count) {
    return kind == PICKLE_DICT ? pickle_extend_dict(m, items, count)
                               : pickle_extend_list(m, items, count);
}

static bool pickle_op_extend_marked(pickle_machine *m, unsigned kind) {
    pickle_value **items = NULL;
    size_t count = 0;
    return pickle_pop_mark(m, &items, &count) && pickle_extend(m, kind, items, count);
}

static bool pickle_op_extend_one(pickle_machine *m, unsigned kind) {
    size_t count = kind == PICKLE_DICT ? 2 : 1;
    if (!pickle_needs(m, count + 1)) return false;
    m->height -= count;
    return pickle_extend(m, kind, m->stack + m->height, count);
}

static bool pickle_op_pop(pickle_machine *m, unsigned unused) {
    (void)unused;
    if (m->mark_count && m->marks[m->mark_count - 1] == m->height) {
        m->mark_count--; /* A POP right after a MARK removes the mark. */
        return true;
    }
    return pickle_pop(m) != NULL;
}

static bool pickle_op_pop_mark(pickle_machine *m, unsigned unused) {
    pickle_value **items = NULL;
    size_t count = 0;
    (void)unused;
    return pickle_pop_mark(m, &items, &count);
}

static bool pickle_op_dup(pickle_machine *m, unsigned unused) {
    (void)unused;
    return pickle_push(m, pickle_top(m));
}

/* === Memo === */

static bool pickle_memo_put(pickle_machine *m, uint64_t i) {
    pickle_value *value = pickle_top(m);
    if (!value) return false;
    if (i >= m->max_values)
        return pickle_fail(m, "memo index %llu is out of range", (unsigned long long)i);
    while (m->memo_capacity <= i) {
        size_t old = m->memo_capacity;
        pickle_value **memo = memory_grow(m->memo, sizeof *memo, old, &m->memo_capacity);
        if (!memo) return report_no_memory(m->report);
        memset(memo + old, 0, (m->memo_capacity - old) * sizeof *memo);
        m->memo = memo;
    }
    if (!m->memo[i]) m->memo_count++;
    m->memo[i] = value;
    return true;
}

/* Reads an index into the memo. The index has `width` bytes or, if `width` is 0, is a decimal
 * number up to the end of the line. A negative number becomes an index that is out of range. */
static bool pickle_take_index(pickle_machine *m, unsigned width, uint64_t *i) {
    int64_t number;
    bool fits;
    if (width > 0) return pickle_take_number(m, width, i);
    if (!pickle_take_decimal(m, &number, &fits)) return false;
    *i = (uint64_t)number;
    return true;
}

static bool pickle_op_put(pickle_machine *m, unsigned width) {
    uint64_t i;
    return pickle_take_index(m, width, &i) && pickle_memo_put(m, i);
}

static bool pickle_op_memoize(pickle_machine *m, unsigned unused) {
    (void)unused;
    return pickle_memo_put(m, m->memo_count);
}

static bool pickle_op_get(pickle_machine *m, unsigned width) {
    uint64_t i;
    if (!pickle_take_index(m, width, &i)) return false;
    if (i >= m->memo_capacity || !m->memo[i])
        return pickle_fail(m, "memo %llu was never set", (unsigned long long)i);
    return pickle_push(m, m->memo[i]);
}

/* === Globals, calls, persistent ids === */

static bool pickle_push_global(pickle_machine *m, const char *module, size_t module_size,
                               const char *name, size_t name_size) {
    char text[2 * PICKLE_MAX_LINE + 1];
    pickle_value *value = pickle_new(m, PICKLE_GLOBAL);
    if (!value) return false;
    memcpy(text, module, module_size);
    text[module_size] = '.';
    memcpy(text + module_size + 1, name, name_size);
    return pickle_set_text(m, value, text, module_size + 1 + name_size) && pickle_push(m, value);
}

static bool pickle_op_global(pickle_machine *m, unsigned unused) {
    char module[PICKLE_MAX_LINE], name[PICKLE_MAX_LINE];
    size_t module_size, name_size;
    (void)unused;
    return pickle_take_line(m, module, &module_size) && pickle_take_line(m, name, &name_size) &&
           pickle_push_global(m, module, module_size, name, name_size);
}

static bool pickle_op_stack_global(pickle_machine *m, unsigned unused) {
    pickle_value *name = pickle_pop(m), *module = pickle_pop(m);
    (void)unused;
    if (!name || !module) return false;
    if (name->kind != PICKLE_STRING || module->kind != PICKLE_STRING ||
        name->count >= PICKLE_MAX_LINE || module->count >= PICKLE_MAX_LINE)
        return pickle_fail(m, "STACK_GLOBAL needs two short strings");
    return pickle_push_global(m, module->u.text, module->count, name->u.text, name->count);
}

/* Pushes the result of OrderedDict() or OrderedDict([(key, value), ...]). Python 2 writes the
 * second form. */
static bool pickle_push_dict(pickle_machine *m, const pickle_value *arguments) {
    pickle_value *dict = pickle_new(m, PICKLE_DICT);
    const pickle_value *pairs = arguments->count == 1 ? arguments->u.items[0] : NULL;
    size_t i, count = pairs && (pairs->kind == PICKLE_LIST || pairs->kind == PICKLE_TUPLE)
                          ? pairs->count
                          : 0;
    if (!dict) return false;
    for (i = 0; i < count; i++) {
        const pickle_value *pair = pairs->u.items[i];
        if ((pair->kind != PICKLE_LIST && pair->kind != PICKLE_TUPLE) || pair->count != 2)
            return pickle_fail(m, "OrderedDict: expected pairs of a key and a value");
        if (!pickle_add(m, dict, pair->u.items, 2)) return false;
    }
    return pickle_push(m, dict);
}

static bool pickle_push_call(pickle_machine *m, pickle_value *callable, pickle_value *arguments) {
    pickle_value *call = pickle_new(m, PICKLE_CALL);
    if (!call || !pickle_reserve(m, call, PICKLE_CALL_ITEMS)) return false;
    call->count = PICKLE_CALL_ITEMS;
    call->u.items[PICKLE_CALLABLE] = callable;
    call->u.items[PICKLE_ARGUMENTS] = arguments;
    return pickle_nest(m, call, callable) && pickle_nest(m, call, arguments) &&
           pickle_push(m, call);
}

/* Runs REDUCE and NEWOBJ, which differ only in the function that Python would call. */
static bool pickle_op_call(pickle_machine *m, unsigned unused) {
    pickle_value *arguments = pickle_pop(m), *callable = pickle_pop(m);
    (void)unused;
    if (!arguments || !callable) return false;
    if (arguments->kind != PICKLE_TUPLE)
        return pickle_fail(m, "the arguments of a call are not a tuple");
    if (pickle_is_text(callable, PICKLE_GLOBAL, "collections.OrderedDict"))
        return pickle_push_dict(m, arguments);
    if (pickle_is_text(callable, PICKLE_GLOBAL, "collections.defaultdict"))
        return pickle_op_empty(m, PICKLE_DICT);
    if (pickle_is_text(callable, PICKLE_GLOBAL, "torch.Size") && arguments->count == 1)
        return pickle_push(m, arguments->u.items[0]);
    return pickle_push_call(m, callable, arguments);
}

/* Runs INST, which calls a class that is given by its name. The arguments are all values above the
 * topmost mark. */
static bool pickle_op_instance(pickle_machine *m, unsigned unused) {
    if (!pickle_op_collect(m, PICKLE_TUPLE) || !pickle_op_global(m, unused)) return false;
    m->height -= 2;
    return pickle_push_call(m, m->stack[m->height + 1], m->stack[m->height]);
}

/* Runs OBJ, which also calls a class. The class is the first value above the topmost mark, and the
 * arguments are the other values. */
static bool pickle_op_object(pickle_machine *m, unsigned unused) {
    pickle_value **items = NULL, *arguments;
    size_t count = 0;
    (void)unused;
    if (!pickle_pop_mark(m, &items, &count)) return false;
    if (count == 0) return pickle_fail(m, "stack underflow: no class");
    arguments = pickle_new(m, PICKLE_TUPLE);
    return arguments && pickle_add(m, arguments, items + 1, count - 1) &&
           pickle_push_call(m, items[0], arguments);
}

/* Runs NEWOBJ_EX. This opcode also has keyword arguments on top of the stack, which are ignored. */
static bool pickle_op_call_keywords(pickle_machine *m, unsigned unused) {
    return pickle_pop(m) && pickle_op_call(m, unused);
}

static bool pickle_op_build(pickle_machine *m, unsigned unused) {
    pickle_value *state = pickle_pop(m), *object = pickle_top(m);
    (void)unused;
    if (!state || !object) return false;
    if (object->kind != PICKLE_CALL) return true; /* The attributes of a dict are not needed. */
    object->u.items[PICKLE_STATE] = state;
    return pickle_nest(m, object, state);
}

static bool pickle_op_persistent(pickle_machine *m, unsigned unused) {
    pickle_document *d = m->document;
    pickle_value *id = pickle_pop(m), *value = id ? pickle_new(m, PICKLE_PERSISTENT) : NULL;
    pickle_value **all;
    (void)unused;
    if (!value || !pickle_add(m, value, &id, 1)) return false;
    all = memory_grow(d->persistent, sizeof *all, d->persistent_count, &m->persistent_capacity);
    if (!all) return report_no_memory(m->report);
    d->persistent = all;
    all[d->persistent_count++] = value;
    return pickle_push(m, value);
}

static bool pickle_op_persistent_line(pickle_machine *m, unsigned unused) {
    (void)unused;
    return pickle_fail(
        m,
        "a file of torch.save with pickle_protocol=0, which PyTorch cannot load either; save the "
        "model with the default protocol");
}

/* === The machine === */

typedef struct pickle_operation {
    uint8_t code;
    bool (*run)(pickle_machine *m, unsigned argument);
    unsigned argument;
} pickle_operation;

static const pickle_operation pickle_operations[] = {
    { 0x80, pickle_op_proto, 0 },
    { 0x95, pickle_op_frame, 8 },
    { 'N', pickle_op_none, 0 },
    { 'F', pickle_op_float_line, 0 },
    { 0x88, pickle_op_bool, 1 },
    { 0x89, pickle_op_bool, 0 },
    { 'K', pickle_op_int, 1 },
    { 'M', pickle_op_int, 2 },
    { 'J', pickle_op_int, 4 },
    { 'I', pickle_op_int_line, 0 },
    { 'L', pickle_op_int_line, 0 },
    { 'S', pickle_op_text_line, PICKLE_ESCAPED_BYTES },
    { 'V', pickle_op_text_line, PICKLE_ESCAPED_TEXT },
    { 0x8a, pickle_op_long, 1 },
    { 0x8b, pickle_op_long, 4 },
    { 'G', pickle_op_float, 0 },
    { 'U', pickle_op_text, 1 },
    { 'T', pickle_op_text, 4 },
    { 0x8c, pickle_op_text, 1 },
    { 'X', pickle_op_text, 4 },
    { 0x8d, pickle_op_text, 8 },
    { 'C', pickle_op_text, 1 },
    { 'B', pickle_op_text, 4 },
    { 0x8e, pickle_op_text, 8 },
    { 0x96, pickle_op_text, 8 },
    { ')', pickle_op_empty, PICKLE_TUPLE },
    { ']', pickle_op_empty, PICKLE_LIST },
    { '}', pickle_op_empty, PICKLE_DICT },
    { 0x8f, pickle_op_empty, PICKLE_SET },
    { '(', pickle_op_mark, 0 },
    { 't', pickle_op_collect, PICKLE_TUPLE },
    { 'l', pickle_op_collect, PICKLE_LIST },
    { 'd', pickle_op_collect, PICKLE_DICT },
    { 0x91, pickle_op_collect, PICKLE_SET },
    { 0x85, pickle_op_tuple, 1 },
    { 0x86, pickle_op_tuple, 2 },
    { 0x87, pickle_op_tuple, 3 },
    { 'a', pickle_op_extend_one, PICKLE_LIST },
    { 'e', pickle_op_extend_marked, PICKLE_LIST },
    { 's', pickle_op_extend_one, PICKLE_DICT },
    { 'u', pickle_op_extend_marked, PICKLE_DICT },
    { 0x90, pickle_op_extend_marked, PICKLE_SET },
    { '0', pickle_op_pop, 0 },
    { '1', pickle_op_pop_mark, 0 },
    { '2', pickle_op_dup, 0 },
    { 'q', pickle_op_put, 1 },
    { 'r', pickle_op_put, 4 },
    { 'p', pickle_op_put, 0 },
    { 0x94, pickle_op_memoize, 0 },
    { 'h', pickle_op_get, 1 },
    { 'j', pickle_op_get, 4 },
    { 'g', pickle_op_get, 0 },
    { 'c', pickle_op_global, 0 },
    { 0x93, pickle_op_stack_global, 0 },
    { 'R', pickle_op_call, 0 },
    { 0x81, pickle_op_call, 0 },
    { 0x92, pickle_op_call_keywords, 0 },
    { 'b', pickle_op_build, 0 },
    { 'i', pickle_op_instance, 0 },
    { 'o', pickle_op_object, 0 },
    { 'Q', pickle_op_persistent, 0 },
    { 'P', pickle_op_persistent_line, 0 },
};

enum {
    PICKLE_STOP = '.',
    PICKLE_OPERATION_COUNT = sizeof pickle_operations / sizeof *pickle_operations,
};

static bool pickle_run(pickle_machine *m) {
    /* the row of each opcode in the table, plus 1; 0 for an unknown opcode */
    uint8_t row_of[256] = { 0 };
    size_t i, steps;
    for (i = 0; i < PICKLE_OPERATION_COUNT; i++)
        row_of[pickle_operations[i].code] = (uint8_t)(i + 1);
    for (steps = 0; steps < PICKLE_MAX_OPCODES; steps++) {
        const pickle_operation *operation;
        uint8_t code;
        if (!pickle_take(m, &code, 1)) return false;
        if (code == PICKLE_STOP) return true;
        if (row_of[code] == 0) return pickle_fail(m, "opcode 0x%02x is not supported", code);
        operation = &pickle_operations[row_of[code] - 1];
        if (!operation->run(m, operation->argument)) return false;
    }
    return pickle_fail(m, "more than %d opcodes", PICKLE_MAX_OPCODES);
}

bool pickle_load(pickle_document *document, const source *s, uint64_t start, uint64_t end,
                 size_t max_values, report *r) {
    pickle_machine m = { 0 };
    memset(document, 0, sizeof *document);
    document->memory = memory_make(PICKLE_MIN_MEMORY + max_values * PICKLE_VALUE_MEMORY);
    m.source = s;
    m.position = start;
    m.end = end < start ? start : end;
    m.document = document;
    m.max_values = max_values;
    m.report = r;
    m.none = pickle_new(&m, PICKLE_NONE);
    if (m.none && pickle_run(&m)) document->root = pickle_pop(&m);
    document->end = pickle_position(&m);
    free(m.stack);
    free(m.memo);
    free(m.line);
    if (!document->root) pickle_free(document);
    return document->root != NULL;
}

void pickle_free(pickle_document *document) {
    memory_free(&document->memory);
    free(document->persistent);
    document->persistent = NULL;
    document->root = NULL;
}
