/* torch_script.c - the code in a TorchScript archive, as text: nothing runs it.
 *
 * A class lists its constants ("eps : Final[float] = 1.0000000000000001e-05"), and its functions
 * call PyTorch's operators by name, with numbers written out. That tells what no tensor shows: the
 * activation, the epsilon of the norms, often the number of heads. A frozen archive has no names
 * for its weights: they are called by the operator that reads them ("3.linear.weight").
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/torch_state_dict.h"

enum {
    TORCH_MAX_ARGUMENTS = 16,
    TORCH_MAX_ARGUMENT_TEXT = 2048,  /* of one call */
    TORCH_REMEMBERED = 16,           /* attributes that are not given again */
    TORCH_VALUE = 80
};

typedef struct torch_span {
    const char *text;
    size_t size;
} torch_span;

/* What was said of one module; each thing is said once. */
typedef struct torch_description {
    torch_reader *reader;
    const char *module;
    torch_span body;
    size_t first;                    /* of the attributes that it gave */
    int attentions;                  /* softmaxes and the like: 0, 1, or 2 for more */
    bool calls_relu, has_cube, has_quick_factor;
    const char *told;                /* a call that is part of what was said already */
} torch_description;

/* === Spans of text === */

static bool torch_span_is(torch_span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.text, text, span.size) == 0;
}

static torch_span torch_trim(torch_span span)
{
    while (span.size > 0 && span.text[0] == ' ') span.text++, span.size--;
    while (span.size > 0 && span.text[span.size - 1] == ' ') span.size--;
    return span;
}

static const char *torch_find(torch_span span, const char *text)
{
    const size_t size = strlen(text);
    const char *at = span.text, *last = span.text + span.size;
    for (; (size_t)(last - at) >= size; at++) {
        at = memchr(at, text[0], (size_t)(last - at) - size + 1);
        if (!at) return NULL;
        if (memcmp(at, text, size) == 0) return at;
    }
    return NULL;
}

/* The items between commas from `text` on, up to the bracket that ends them; their number. */
static size_t torch_split(torch_span text, torch_span items[TORCH_MAX_ARGUMENTS])
{
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

/* Python's text of a value as checkpoint.h gives it: 1e-05, true, none, (4), text. */
static void torch_value(torch_span span, char value[TORCH_VALUE])
{
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

static bool torch_is_number(torch_span span, bool whole)
{
    size_t i;
    for (i = 0; i < span.size; i++)
        if (!strchr(whole ? "0123456789" : "0123456789.e+-", span.text[i])) return false;
    return span.size > 0 && span.size < TORCH_VALUE && span.text[0] >= '0' && span.text[0] <= '9';
}

/* === What a module's code says === */

static bool torch_say(torch_description *d, const char *name, const char *value)
{
    checkpoint *c = d->reader->c;
    size_t i = d->first;
    if (value[0] == '\0') return true;
    if (c->attribute_count - i > TORCH_REMEMBERED) i = c->attribute_count - TORCH_REMEMBERED;
    for (; i < c->attribute_count; i++)
        if (strcmp(c->attributes[i].name, name) == 0
            && strcmp(c->attributes[i].value, value) == 0) return true;
    return checkpoint_add_attribute(c, d->module, name, value, d->reader->report);
}

static bool torch_say_span(torch_description *d, const char *name, torch_span span)
{
    char value[TORCH_VALUE];
    torch_value(span, value);
    return torch_say(d, name, value);
}

static int torch_count_attentions(torch_span body)
{
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

/* The meaning of [batch, tokens, 3 x heads x width] becomes: of the last three, 3 may stand anywhere. Where
 * there is one softmax, also [batch, tokens, heads, width]: that is often computed. `before`: the
 * axes that the list leaves out. */
static bool torch_say_heads(torch_description *d, torch_span list, size_t before)
{
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

/* PyTorch leaves trailing arguments out where they have their default value. */
static bool torch_say_layer_norm(torch_description *d, const torch_span *a, size_t count)
{
    if (count < 5) return torch_say(d, "code.layer_norm_eps", "1e-05");
    return !torch_is_number(a[4], false) || torch_say_span(d, "code.layer_norm_eps", a[4]);
}

/* The whole layer of nn.TransformerEncoder as one call. */
static bool torch_say_encoder_layer(torch_description *d, const torch_span *a, size_t count)
{
    if (count < 10 || !torch_is_number(a[2], true) || !torch_is_number(a[9], false)) return true;
    return torch_say_span(d, "code.num_heads", a[2])
        && torch_say(d, "code.activation", torch_span_is(a[7], "True") ? "gelu" : "relu")
        && torch_say_span(d, "code.norm_first", a[8])
        && torch_say_span(d, "code.layer_norm_eps", a[9]);
}

/* Functions that are nothing else than an activation. */
static const char *const torch_activations[] = {
    "relu", "silu", "gelu", "mish", "elu", "celu", "selu", "leaky_relu", "prelu", "rrelu", "relu6",
    "hardtanh", "hardswish", "hardsigmoid", "softplus", "log_sigmoid", "softsign", "softshrink",
    "hardshrink", "tanhshrink", "threshold"
};

static bool torch_begins(torch_span span, const char *text)
{
    const size_t size = strlen(text);
    return span.size >= size && memcmp(span.text, text, size) == 0;
}

static bool torch_same(torch_span a, torch_span b)
{
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

/* Is it "torch.sigmoid(x)"? */
static bool torch_is_sigmoid_of(torch_span span, torch_span x)
{
    static const char start[] = "torch.sigmoid(";
    torch_span inner;
    if (!torch_begins(span, start) || span.size != strlen(start) + x.size + 1) return false;
    inner.text = span.text + strlen(start);
    inner.size = x.size;
    return torch_same(inner, x);
}

/* x sigmoid(x) is SiLU, the square of a ReLU none that is known. */
static bool torch_say_product(torch_description *d, const torch_span *a)
{
    const bool first = torch_is_sigmoid_of(a[0], a[1]);
    if (first || torch_is_sigmoid_of(a[1], a[0])) {
        d->told = a[first ? 0 : 1].text;
        return torch_say(d, "code.activation", "silu");
    }
    return !d->calls_relu || !torch_same(a[0], a[1]) ||
           torch_say(d, "code.activation", "squared_relu");
}

/* An activation that is written out: GELU by erf or by tanh of a cube, x sigmoid(1.702 x). */
static bool torch_say_formula(torch_description *d, torch_span name, const torch_span *a,
                              size_t count)
{
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
                                 size_t count)
{
    size_t i;
    if (torch_span_is(name, "gelu") && count > 1 && torch_find(a[1], "tanh"))
        return torch_say(d, "code.activation", "gelu_tanh");
    if (name.size > 0 && name.text[name.size - 1] == '_') name.size--;   /* in place */
    for (i = 0; i < sizeof torch_activations / sizeof *torch_activations; i++)
        if (torch_span_is(name, torch_activations[i]))
            return torch_say(d, "code.activation", torch_activations[i]);
    return torch_say_formula(d, name, a, count);
}

static bool torch_say_call(torch_description *d, torch_span name, const torch_span *a,
                           size_t count)
{
    if (!torch_say_activation(d, name, a, count)) return false;
    if (torch_span_is(name, "layer_norm")) return torch_say_layer_norm(d, a, count);
    if (torch_span_is(name, "_transformer_encoder_layer_fwd"))
        return torch_say_encoder_layer(d, a, count);
    if (torch_span_is(name, "_native_multi_head_attention") && count > 4
        && torch_is_number(a[4], true)) return torch_say_span(d, "code.num_heads", a[4]);
    if ((torch_span_is(name, "view") || torch_span_is(name, "reshape")) && count == 2)
        return torch_say_heads(d, a[1], 0);
    if (torch_span_is(name, "unflatten") && count == 3) return torch_say_heads(d, a[2], 2);
    return true;
}

/* The next call of an operator, "torch.NAME(...)"; *rest: what comes after its bracket. */
static bool torch_next_call(torch_span *rest, torch_span *name,
                            torch_span arguments[TORCH_MAX_ARGUMENTS], size_t *count)
{
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

/* "  eps : Final[float] = 1.0000000000000001e-05" */
static bool torch_say_constants(torch_description *d)
{
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

/* Functions of torch.nn.functional are called by a variable, which a line names. */
static bool torch_say_others(torch_description *d)
{
    static const char start[] = "torch.nn.functional.";
    torch_span rest = d->body;
    const char *at, *end = rest.text + rest.size;
    size_t i;
    while ((at = torch_find(rest, start)) != NULL) {
        torch_span name = { at + strlen(start), 0 };
        while (name.text + name.size < end && name.text[name.size] != '\n') name.size++;
        for (i = 0; i < sizeof torch_activations / sizeof *torch_activations; i++)
            if (torch_span_is(name, torch_activations[i])
                && !torch_say(d, "code.activation", torch_activations[i])) return false;
        if (!torch_step(d->reader)) return false;
        rest.text = name.text + name.size;
        rest.size = (size_t)(end - rest.text);
    }
    return true;
}

/* The text from "class NAME(Module):" to the next line that is not indented. */
static bool torch_find_class_body(const char *class, const char *code, torch_span *body)
{
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

bool torch_describe_code(torch_reader *t, const char *module, const char *class, const char *code)
{
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
    return torch_say_constants(&d) && torch_say_others(&d);
}

/* === Constants === */

/* "CONSTANTS.c12" -> 12; -1: something else. */
static long torch_constant_index(torch_span span)
{
    static const char start[] = "CONSTANTS.c";
    const size_t size = strlen(start);
    torch_span digits;
    if (span.size <= size || span.size > size + 6 || memcmp(span.text, start, size) != 0) return -1;
    digits.text = span.text + size;
    digits.size = span.size - size;
    return torch_is_number(digits, true) ? strtol(digits.text, NULL, 10) : -1;
}

/* A token is expanded to the batch, positions are added; the rest are layers. */
static const char *torch_name_part(torch_span operator, size_t part)
{
    static const char *const parts[] = { "weight", "bias", "running_mean", "running_var" };
    if (operator.size == 6 && memcmp(operator.text, "expand", 6) == 0) return "cls_token";
    if (operator.size >= 3 && memcmp(operator.text, "add", 3) == 0) return "pos_embed";
    return parts[part < 3 ? part : 3];
}

/* Adds a constant by what an operator takes it for: "3.linear.weight" for the first constant of the
 * fourth call that has any. One that is used twice is there twice, as trained weights would be. */
static bool torch_add_constant(torch_reader *t, torch_span operator, size_t place, size_t part,
                               long index)
{
    const pickle_value *value = torch_item(t->pickle.root, (size_t)index);
    char name[TORCH_VALUE];
    if (!value || !torch_is_tensor(t, value)) return true;
    snprintf(name, sizeof name, "%lu.%.*s.%s", (unsigned long)place,
             operator.size < 40 ? (int)operator.size : 40, operator.text,
             torch_name_part(operator, part));
    return part > 3 || torch_add_call(t, name, value);
}

bool torch_add_constants(torch_reader *t, const char *code)
{
    torch_span rest, operator = { NULL, 0 }, arguments[TORCH_MAX_ARGUMENTS];
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
    return report_fail(t->report, "no tensors, neither of modules nor among the constants");
}
