#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/source.h"
#include "base/text.h"
#include "convert/conversion.h"
#include "convert/python.h"
#include "convert/python_eval.h"
#include "os/os.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* This file reads the model's Python code. It follows the constructor of each class that could be
 * the model. A module that a constructor makes counts only if tensors of the checkpoint have its
 * name. */

enum {
    /* The largest number of calls of one class that are followed. */
    MOST_CALLS = 16,
    /* The largest number of candidates that fit equally well and are kept. */
    MOST_BEST = 8,
    MOST_MEMORY = 96 << 20,
    /* The number of copies of a repeated module that are reported. It is large enough that the
     * copies look like a list. */
    COPIES = 3,
    SHOWN_TEXT = 96,
    WHERE_TEXT = 160,
};

/* === The checkpoint's tensors === */

typedef struct fit {
    /* The number of tensors whose names match a module, the number of compared sizes that differ,
     * and the number of all compared sizes. */
    int matched, wrong, checked;
} fit;

static bool has_kind(const python_module *m, const char *kind) {
    return !m->own && !strcmp(python_last_part(m->kind), kind);
}

static void check_size(const python_module *m, const char *key, int64_t size, fit *f) {
    const python_item *i = python_find_item(&m->parts, key, strlen(key));
    python_value v = i ? i->value : python_of_kind(VALUE_UNKNOWN);
    if (v.kind == VALUE_LIST && v.list->count == 1) v = v.list->first->value;
    if (v.kind != VALUE_NUMBER) return;
    f->checked++;
    if (v.number < (double)size || v.number > (double)size) f->wrong++;
}

static void check_shape(const python_module *m, const char *leaf, const checkpoint_tensor_info *t,
                        fit *f) {
    if (strcmp(leaf, "weight") != 0) return;
    if (has_kind(m, "Linear") && t->ndim == 2) {
        check_size(m, "out_features", t->dims[0], f);
        check_size(m, "in_features", t->dims[1], f);
    } else if (has_kind(m, "Conv2d") && t->ndim == 4) {
        check_size(m, "out_channels", t->dims[0], f);
        check_size(m, "in_channels", t->dims[1], f);
        check_size(m, "kernel_size", t->dims[2], f);
    } else if (has_kind(m, "LayerNorm") && t->ndim == 1) {
        check_size(m, "normalized_shape", t->dims[0], f);
    }
}

static void match_tensor(const python_module *m, const char *path, const checkpoint_tensor_info *t,
                         fit *f) {
    int level;
    for (level = 0; level < PYTHON_MOST_NESTING; level++) {
        const size_t length = strcspn(path, ".");
        const python_item *i;
        if (has_kind(m, "Parameter")) return;
        i = python_find_item(&m->parts, path, length);
        if (i && i->value.kind == VALUE_MODULE) {
            m = i->value.module;
            if (has_kind(m, "Parameter") && !path[length]) f->matched++;
            if (!path[length]) return;
            path += length + 1;
            continue;
        }
        if (m->own || has_kind(m, "Sequential") || has_kind(m, "ModuleList")) return;
        if (path[length] && !has_kind(m, "MultiheadAttention")) return;
        f->matched++;
        check_shape(m, path, t, f);
        return;
    }
}

/* Returns the length of the first `parts` parts of a tensor's name. Each part includes the dot at
 * its end. Returns 0 if the name has no further part after them. */
static size_t prefix_length(const char *name, int parts) {
    const char *at = name;
    for (; parts > 0; parts--) {
        at = strchr(at, '.');
        if (!at) return 0;
        at++;
    }
    return (size_t)(at - name);
}

/* Compares the module with all tensors whose names begin with this prefix. Only the rest of each
 * name is compared. */
static fit match_all(const checkpoint *c, const python_module *m, const char *prefix,
                     size_t length) {
    fit f = { 0, 0, 0 };
    size_t i;
    for (i = 0; i < checkpoint_count(c); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(c, i);
        if (!strncmp(t->name, prefix, length)) match_tensor(m, t->name + length, t, &f);
    }
    return f;
}

/* === Statements about the model === */

typedef struct writer {
    code_found *out;
    python_reader *reader;
    /* True if all compared sizes agree. Only then are the numbers in the code used. */
    bool has_numbers;
    int budget;
} writer;

/* Returns the place and the text of a line of the code, such as "model.py:41: nn.ReLU()". */
static const char *where_text(writer *w, const python_node *at) {
    char text[WHERE_TEXT];
    size_t used, from;
    const char *c;
    bool is_space = false;
    used = (size_t)snprintf(text, sizeof text, "%.60s:%d: ", w->reader->files[at->file].name,
                            at->line);
    from = used;
    if (!at->from && used + strlen(at->text) + 8 < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, "class %s", at->text);
    for (c = at->from; c && c < at->to && used + 4 < sizeof text; c++) {
        if (*c == ' ' || *c == '\n' || *c == '\r' || *c == '\t') {
            is_space = text[used - 1] != ' ' && text[used - 1] != '(';
            continue;
        }
        if (is_space && *c != ')') text[used++] = ' ';
        is_space = false;
        text[used++] = *c;
        if (used > from + 40 && c + 1 < at->to) {
            memcpy(text + used, "...", 3);
            used += 3;
            break;
        }
    }
    return memory_copy_text(&w->out->memory, text, used);
}

static void say(writer *w, const char *path, const char *name, const char *text,
                const python_node *where) {
    code_found *out = w->out;
    checkpoint_attribute *grown = memory_grow(out->items, sizeof *grown, out->count,
                                              &out->capacity);
    checkpoint_attribute a;
    if (!grown) {
        w->reader->is_full = true;
        return;
    }
    out->items = grown;
    a.module = out->count > 0 && !strcmp(grown[out->count - 1].module, path)
                   ? grown[out->count - 1].module
                   : memory_copy_text(&out->memory, path, strlen(path));
    a.name = memory_copy_text(&out->memory, name, strlen(name));
    a.value = memory_copy_text(&out->memory, text, strlen(text));
    a.where = where_text(w, where);
    if (!a.module || !a.name || !a.value || !a.where) w->reader->is_full = true;
    else out->items[out->count++] = a;
}

static bool show_value(const python_value *v, char text[SHOWN_TEXT]) {
    const python_item *i;
    *text = '\0';
    if (v->kind == VALUE_BOOL) snprintf(text, SHOWN_TEXT, "%s", v->number != 0 ? "true" : "false");
    if (v->kind == VALUE_NUMBER) snprintf(text, SHOWN_TEXT, "%.15g", v->number);
    if (v->kind == VALUE_TEXT || v->kind == VALUE_NAME)
        snprintf(text, SHOWN_TEXT, "%.90s", v->text);
    if (strpbrk(text, "\n\r")) *text = '\0';
    if (v->kind == VALUE_LIST && v->list->count > 0 && v->list->count < 4 &&
        !v->list->is_repeated) {
        for (i = v->list->first; i; i = i->next) {
            if (i->value.kind != VALUE_NUMBER) return false;
            text_append(text, SHOWN_TEXT, "%s%.9g", i == v->list->first ? "(" : ", ",
                        i->value.number);
        }
        text_append(text, SHOWN_TEXT, ")");
    }
    return *text != '\0';
}

/* === Calls in methods === */

typedef void visit(void *user, const python_node *n);

static void walk(const python_node *n, int depth, int *budget, visit *each, void *user) {
    for (; n && depth<4 * PYTHON_MOST_NESTING && * budget> 0; n = n->next) {
        --*budget;
        each(user, n);
        walk(n->a, depth + 1, budget, each, user);
        walk(n->b, depth + 1, budget, each, user);
        walk(n->c, depth + 1, budget, each, user);
    }
}

/* Facts about one class, collected from the calls in its methods. */
typedef struct method_calls {
    writer *writer;
    python_module *module;
    const char *path;
    /* The name of the attribute whose use is_mentioned reports. */
    const char *mentioned;
    bool is_mentioned, has_plus;
    /* pre: a norm runs before a layer. post: a norm runs after a sum. */
    bool pre, post;
    bool softmax, product, scale;
    const python_node *order_at, *softmax_at;
} method_calls;

/* For the expression self.x, returns the attribute x of the module. Returns NULL for other
 * expressions. */
static const python_item *own_part(const method_calls *c, const python_node *n) {
    if (!n || n->kind != NODE_MEMBER || !n->a || strcmp(python_name_of(n->a), "self") != 0)
        return NULL;
    return python_find_item(&c->module->parts, n->text, strlen(n->text));
}

static void see_plus(void *user, const python_node *n) {
    method_calls *c = user;
    if (n->kind == NODE_BINARY && !strcmp(n->text, "+")) c->has_plus = true;
}

static void see_number(void *user, const python_node *n) {
    const char **found = user;
    if (n->kind != NODE_NUMBER) return;
    if (n->number > 0.04471 && n->number < 0.04472) *found = "gelu_tanh";
    if (n->number > 1.7019 && n->number < 1.7021) *found = "quick_gelu";
}

/* Returns the form of GELU that the constants in a function show, such as "gelu_tanh". Returns NULL
 * if no constant shows a form. */
static const char *form_of(writer *w, const python_node *body) {
    const char *found = NULL;
    walk(body, 0, &w->budget, see_number, &found);
    return found;
}

static bool is_activation(const char *name) {
    static const char *const names[] = {
        "gelu", "relu", "silu", "swish", "quick_gelu", "new_gelu", "leaky_relu",
        "elu",  "selu", "celu", "mish",  "hardswish",  "softplus", "relu6",
    };
    size_t i;
    for (i = 0; i < COUNT(names); i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

static void say_activation(method_calls *c, const python_node *call) {
    writer *w = c->writer;
    const python_item *part = own_part(c, call->a);
    const char *name = python_last_part(part && part->value.kind == VALUE_NAME ? part->value.text
                                        : part                                 ? ""
                                               : python_name_of(call->a));
    const python_node *a;
    if (call->a && call->a->kind == NODE_MEMBER && !part &&
        !strcmp(python_name_of(call->a->a), "self"))
        return;
    if (!is_activation(name)) return;
    if (call->a->kind == NODE_NAME) {
        const python_value v = python_value_of_name(w->reader, &w->reader->globals[call->file],
                                                    name);
        const char *form = v.kind == VALUE_FUNCTION ? form_of(w, v.node->b) : NULL;
        if (form) name = form;
    }
    for (a = call->b; a; a = a->next)
        if (a->text && !strcmp(a->text, "approximate") && a->a && a->a->kind == NODE_STRING &&
            !strcmp(a->a->text, "tanh"))
            name = "gelu_tanh";
    say(w, c->path, "code.activation", name, call);
}

static bool is_norm(const python_item *part) {
    const char *kind = part && part->value.kind == VALUE_MODULE
                           ? python_last_part(part->value.module->kind)
                           : "";
    return strstr(kind, "Norm") != NULL;
}

/* Finds out whether norms follow sums, as in norm(x + layer(x)), or precede layers, as in x +
 * layer(norm(x)). */
static void see_norm_order(method_calls *c, const python_node *call) {
    const python_item *part = own_part(c, call->a);
    const python_node *a, *inner;
    if (!part || !call->b) return;
    if (is_norm(part)) {
        c->has_plus = false;
        walk(call->b->a, 0, &c->writer->budget, see_plus, c);
        if (c->has_plus) c->post = true, c->order_at = call;
        return;
    }
    for (a = call->b; a; a = a->next) {
        inner = a->a;
        if (inner && inner->kind == NODE_CALL && is_norm(own_part(c, inner->a)))
            c->pre = true, c->order_at = call;
    }
}

static void see_scale(method_calls *c, const python_node *n) {
    const char *name = python_name_of(n->kind == NODE_CALL ? n->a : n);
    if (n->kind == NODE_CALL && !strcmp(name, "softmax")) c->softmax = true, c->softmax_at = n;
    if (n->kind == NODE_CALL &&
        (!strcmp(name, "matmul") || !strcmp(name, "einsum") || !strcmp(name, "bmm")))
        c->product = true;
    if (n->kind == NODE_BINARY && !strcmp(n->text, "@")) c->product = true;
    if ((n->kind == NODE_BINARY && (!strcmp(n->text, "/") || !strcmp(n->text, "**"))) ||
        (n->kind == NODE_ASSIGN && *n->text == '+') || strstr(name, "scale") ||
        strstr(name, "sqrt") || strstr(name, "temp") || !strcmp(name, "pow") ||
        !strcmp(name, "div"))
        c->scale = true;
    if (n->kind == NODE_CALL) {
        const python_item *part = own_part(c, n->a);
        if (part && part->value.kind == VALUE_MODULE && has_kind(part->value.module, "Softmax"))
            c->softmax = true, c->softmax_at = n;
        if (part && part->value.kind == VALUE_MODULE && part->value.module->own) c->scale = true;
    }
}

static void see_code(void *user, const python_node *n) {
    method_calls *c = user;
    if (n->kind == NODE_CALL) {
        say_activation(c, n);
        see_norm_order(c, n);
    }
    see_scale(c, n);
}

static void see_mention(void *user, const python_node *n) {
    static const char *const all[] = {
        "getattr", "children", "named_children", "modules", "named_modules", "_modules", "__dict__",
    };
    method_calls *c = user;
    size_t i;
    if (n->kind == NODE_MEMBER && !strcmp(n->text, c->mentioned)) c->is_mentioned = true;
    for (i = 0; i < COUNT(all); i++)
        if (!strcmp(python_name_of(n->kind == NODE_CALL ? n->a : n), all[i]))
            c->is_mentioned = true;
}

/* True if a method other than the constructor uses this attribute of the module, or uses getattr,
 * modules() or the like. Also true if the class has no forward method of its own. */
static bool is_used(writer *w, const python_module *m, const char *part) {
    const python_node *of, *n, *forward = python_method_of(w->reader, m->own, "forward", &of);
    method_calls c;
    memset(&c, 0, sizeof c);
    c.mentioned = part;
    if (!forward || of != m->own) return true;
    for (n = of->b; n; n = n->next)
        if (n->kind == NODE_FUNCTION && strcmp(n->text, "__init__") != 0)
            walk(n->b, 0, &w->budget, see_mention, &c);
    return c.is_mentioned;
}

/* === The root by which scores are divided === */

/* Returns the first number among the values of these attributes of the module. Returns 0 if no
 * value is a number. */
static double number_of(const python_module *m, const char *const *names, size_t count) {
    const python_item *i;
    size_t n;
    for (n = 0; n < count; n++) {
        i = python_find_item(&m->parts, names[n], strlen(names[n]));
        if (i && i->value.kind == VALUE_NUMBER) return i->value.number;
    }
    return 0;
}

static bool is_near(double a, double b) { return fabs(a - b) < 1e-6 * fabs(b); }

typedef struct root_search {
    writer *writer;
    python_module *module;
    python_scope *scope;
    double width, heads;
    /* A word of the setting attn_root. NULL if no root was found; "" if several different roots
     * were found. */
    const char *root;
    const python_node *at;
} root_search;

/* Returns the name of a width if the factor is 1 / sqrt(width) or sqrt(width). The name is
 * "head_dim" or "embed_dim". Returns NULL for any other factor. */
static const char *name_root(const root_search *s, double factor) {
    const double width = factor > 0 ? (factor < 1 ? 1 / (factor * factor) : factor * factor) : 0;
    if (s->heads <= 1) return NULL;
    if (is_near(width, s->width)) return "embed_dim";
    return is_near(width * s->heads, s->width) ? "head_dim" : NULL;
}

static void see_root(void *user, const python_node *n) {
    root_search *s = user;
    const bool divides = n->kind == NODE_BINARY && !strcmp(n->text, "/");
    const char *root;
    python_value v;
    if (!divides && (n->kind != NODE_BINARY || strcmp(n->text, "*") != 0)) return;
    v = python_evaluate(s->writer->reader, s->scope, n->b);
    if (v.kind != VALUE_NUMBER && !divides) v = python_evaluate(s->writer->reader, s->scope, n->a);
    root = v.kind == VALUE_NUMBER && (v.number < 1) != divides ? name_root(s, v.number) : NULL;
    if (root && divides && *root == 'e' && n->a && n->a->kind == NODE_CALL &&
        !strcmp(python_name_of(n->a->a), "softmax"))
        root = "embed_dim_after";
    if (!root) return;
    s->root = s->root && strcmp(s->root, root) != 0 ? "" : root;
    s->at = n;
}

/* Reports the root by which an attention module divides its scores, if its methods show the
 * root. */
static void say_root(writer *w, python_module *m, const python_node *of, const char *path,
                     const python_node *softmax) {
    static const char *const heads[] = {
        "num_heads", "heads", "n_heads", "n_head", "nhead", "h", "num_attention_heads", "nb_heads",
    };
    static const char *const widths[] = { "in_features" };
    root_search s = { NULL, NULL, NULL, 0, 0, NULL, NULL };
    const python_item *i;
    const python_node *n;
    python_value self = python_of_kind(VALUE_MODULE);
    s.writer = w;
    s.module = m;
    s.heads = number_of(m, heads, COUNT(heads));
    for (i = m->parts.first; i && s.width <= 0; i = i->next)
        if (i->value.kind == VALUE_MODULE && has_kind(i->value.module, "Linear"))
            s.width = number_of(i->value.module, widths, 1);
    s.scope = python_take(w->reader, sizeof *s.scope);
    if (!s.scope || !w->has_numbers) return;
    s.scope->outer = &w->reader->globals[of->file];
    s.scope->file = of->file;
    self.module = m;
    python_put_item(w->reader, &s.scope->names, "self", self);
    for (n = of->b; n; n = n->next) {
        if (n->kind != NODE_FUNCTION || !strcmp(n->text, "__init__")) continue;
        s.scope->body = n->b;
        walk(n->b, 0, &w->budget, see_root, &s);
    }
    if (s.root && *s.root) say(w, path, "code.attn_root", s.root, s.at->from ? s.at : softmax);
}

/* === Pooling === */

typedef struct pool_search {
    writer *writer;
    python_scope *scope;
    const python_node *token, *mean;
    /* The norms that run before and after the mean. */
    const python_node *norm_before, *norm_after;
    /* True if the slice "1:" occurs. The slice drops the class token. */
    bool skips;
    /* True if torch.cat is called, which shows that the model has a class token. */
    bool joins;
} pool_search;

static bool is_one(const python_node *n) {
    return n && n->kind == NODE_NUMBER && is_near(n->number, 1);
}

/* Records the slices x[:, 0] and x[:, 1:]. */
static void see_index(pool_search *s, const python_node *n) {
    const python_node *slice = n->b, *place = slice ? slice->next : NULL;
    if (!place || !slice->b || slice->b->kind != NODE_OTHER) return;
    if (!place->b && place->a && place->a->kind == NODE_NUMBER && !(place->a->number > 0))
        s->token = n;
    if (place->b && is_one(place->b)) s->skips = true;
}

/* Records calls of torch.cat and means over the tokens, such as x.mean(dim=1) or torch.mean(x,
 * 1). */
static void see_mean(pool_search *s, const python_node *n) {
    const python_node *a;
    if (!strcmp(python_name_of(n->a), "cat")) s->joins = true;
    if (strcmp(python_name_of(n->a), "mean") != 0 || n->a->kind != NODE_MEMBER) return;
    for (a = n->b; a; a = a->next)
        if (is_one(a->a) && (!a->text || !strcmp(a->text, "dim") || !strcmp(a->text, "axis")))
            s->mean = n;
}

/* Records a call of a norm, such as self.norm(x). */
static void see_norm(pool_search *s, const python_node *n) {
    python_value callee;
    if (!n->a || n->a->kind != NODE_MEMBER) return;
    callee = python_evaluate(s->writer->reader, s->scope, n->a);
    if (callee.kind == VALUE_MODULE && has_kind(callee.module, "LayerNorm"))
        *(s->mean ? &s->norm_after : &s->norm_before) = n;
}

/* Follows the statements in those branches that the constructor's arguments select. Visits the
 * arguments of a call before the call. */
static void search_pool(pool_search *s, const python_node *n, int depth) {
    for (; n && depth < PYTHON_MOST_NESTING && s->writer->budget-- > 0; n = n->next) {
        int known = -1;
        if (n->kind == NODE_CHOICE || n->kind == NODE_IF) {
            const python_value test = python_evaluate(s->writer->reader, s->scope, n->a);
            known = python_truth(&test);
        }
        if (n->kind == NODE_INDEX) see_index(s, n);
        if (known < 0) search_pool(s, n->a, depth + 1);
        if (known != 0) search_pool(s, n->b, depth + 1);
        if (known != 1) search_pool(s, n->c, depth + 1);
        if (n->kind != NODE_CALL) continue;
        see_norm(s, n);
        see_mean(s, n);
    }
}

/* Reports how a module turns its tokens into one vector, if its forward method shows this. */
static void say_pool(writer *w, python_module *m, const python_node *forward, const char *path) {
    pool_search s = { NULL, NULL, NULL, NULL, NULL, NULL, false, false };
    python_value self = python_of_kind(VALUE_MODULE);
    s.writer = w;
    s.scope = python_take(w->reader, sizeof *s.scope);
    if (!s.scope) return;
    s.scope->outer = &w->reader->globals[forward->file];
    s.scope->file = forward->file;
    self.module = m;
    python_put_item(w->reader, &s.scope->names, "self", self);
    search_pool(&s, forward->b, 0);
    if (!s.token == !s.mean) return;
    say(w, path, "code.pool", s.token ? "token" : "avg", s.token ? s.token : s.mean);
    if (s.mean && s.joins) say(w, path, "code.pool_prefix", s.skips ? "false" : "true", s.mean);
    if (!s.token && s.norm_after && !s.norm_before)
        say(w, path, "code.norm_after_pool", "true", s.norm_after);
}

/* Returns the last assignment to a name in these statements. */
static const python_node *last_assigned(const python_node *body, const char *name, int depth) {
    const python_node *n, *found = NULL, *inner;
    for (n = body; n && depth < PYTHON_MOST_NESTING; n = n->next) {
        if (n->kind == NODE_ASSIGN && n->a && n->a->kind == NODE_NAME && !strcmp(n->a->text, name))
            found = n->b;
        if (n->kind == NODE_IF || n->kind == NODE_FOR || n->kind == NODE_BLOCK) {
            inner = last_assigned(n->b, name, depth + 1);
            if (inner) found = inner;
        }
    }
    return found;
}

typedef struct ends {
    const python_node *function, *at;
    const char *end;
    bool disputed;
} ends;

static void see_return(void *user, const python_node *n) {
    ends *e = user;
    const python_node *call = n->a;
    const char *name;
    if (n->kind != NODE_RETURN) return;
    if (call && call->kind == NODE_NAME) call = last_assigned(e->function->b, call->text, 0);
    name = call && call->kind == NODE_CALL ? python_name_of(call->a) : "";
    if (call && call->kind == NODE_CALL && call->a && call->a->kind == NODE_MEMBER &&
        !strcmp(python_name_of(call->a->a), "self"))
        name = "";
    if (strcmp(name, "softmax") && strcmp(name, "log_softmax") && strcmp(name, "sigmoid"))
        name = "";
    if (e->end && strcmp(e->end, name) != 0) e->disputed = true;
    e->end = name;
    e->at = call;
}

/* Reports a softmax, log_softmax or sigmoid whose result the model returns. */
static void say_end(writer *w, const python_module *m, const char *path) {
    const python_node *of, *forward = python_method_of(w->reader, m->own, "forward", &of);
    ends e = { NULL, NULL, NULL, false };
    if (!forward) return;
    e.function = forward;
    walk(forward->b, 0, &w->budget, see_return, &e);
    if (!e.end || !*e.end || e.disputed) return;
    say(w, path, !strcmp(e.end, "sigmoid") ? "code.activation" : "code.softmax", e.end, e.at);
}

static void say_calls(writer *w, python_module *m, const char *path) {
    const python_node *n, *of, *forward = python_method_of(w->reader, m->own, "forward", &of);
    method_calls c;
    memset(&c, 0, sizeof c);
    c.writer = w;
    c.module = m;
    c.path = path;
    if (!forward) return;
    for (n = of->b; n; n = n->next) {
        if (n->kind != NODE_FUNCTION) continue;
        if (strcmp(n->text, "__init__") != 0) walk(n->b, 0, &w->budget, see_code, &c);
    }
    if (c.pre != c.post) say(w, path, "code.norm_first", c.pre ? "true" : "false", c.order_at);
    if (c.softmax && c.product && !c.scale) say(w, path, "code.attn_scale", "none", c.softmax_at);
    if (c.softmax && c.product && c.scale) say_root(w, m, of, path, c.softmax_at);
    if (!c.softmax) say_pool(w, m, forward, path);
}

/* === The modules === */

static bool has_weights(const python_module *m) {
    static const char *const kinds[] = {
        "Linear",
        "Conv2d",
        "LayerNorm",
        "Parameter",
        "MultiheadAttention",
        "BatchNorm2d",
        "Embedding",
        "TransformerEncoder",
        "TransformerEncoderLayer",
        "Sequential",
        "ModuleList",
    };
    size_t i;
    for (i = 0; i < COUNT(kinds); i++)
        if (m->own || has_kind(m, kinds[i])) return true;
    return false;
}

static void say_values(writer *w, const python_module *m, const char *path) {
    const char *form = m->own ? form_of(w, m->own->b) : NULL;
    char text[SHOWN_TEXT];
    const python_item *i;
    say(w, path, "class", form && strstr(m->kind, "GELU") ? form : m->kind, m->at ? m->at : m->own);
    for (i = m->parts.first; i; i = i->next) {
        if (!i->key || i->value.kind == VALUE_MODULE || !show_value(&i->value, text)) continue;
        if (!w->has_numbers && (i->value.kind == VALUE_NUMBER || i->value.kind == VALUE_LIST) &&
            strcmp(i->key, "eps") != 0)
            continue;
        say(w, path, i->key, text, m->at ? m->at : m->own);
    }
}

/* Reports a module and then the modules inside it. A repeated module is reported several times. */
static void say_module(writer *w, python_module *m, const char *path, int level) {
    const python_item *i;
    int copy;
    if (w->budget-- <= 0 || level > 24 || has_kind(m, "Parameter")) return;
    say_values(w, m, path);
    if (m->own && level == 0) say_end(w, m, path);
    if (m->own) say_calls(w, m, path);
    for (i = m->parts.first; i; i = i->next) {
        if (i->value.kind != VALUE_MODULE || !i->key) continue;
        const bool unused = m->own && !is_used(w, m, i->key);
        if (unused && !has_weights(i->value.module)) continue;
        for (copy = 0; copy < (i->is_repeated ? COPIES : 1); copy++) {
            char inner[400], number[16];
            snprintf(number, sizeof number, "%d", atoi(i->key) + copy);
            if (strlen(path) + strlen(i->key) + 20 > sizeof inner) return;
            snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "",
                     i->is_repeated ? number : i->key);
            if (unused) say(w, inner, "code.unused", "true", i->value.module->at);
            say_module(w, i->value.module, inner, level + 1);
        }
    }
}

/* === The class that fits === */

typedef struct candidate {
    const python_node *own;
    /* The call that makes the model. NULL if the constructor runs with its default arguments. */
    const python_call_site *site;
    /* The length of the prefix that the names of the model's tensors share. */
    size_t prefix;
    fit fit;
} candidate;

static python_value build(python_reader *r, const candidate *c) {
    static const python_list none = { NULL, NULL, 0, 0, false, false };
    python_scope *s;
    python_list all;
    r->steps = r->depth = r->loops = r->modules = 0;
    if (!c->site) return python_instantiate(r, c->own, NULL, &none);
    s = python_take(r, sizeof *s);
    if (!s) return python_of_kind(VALUE_UNKNOWN);
    s->outer = &r->globals[c->site->file];
    s->file = c->site->file;
    if (c->site->function) {
        python_bind(r, s, c->site->function, &none, false);
        s->body = c->site->function->b;
    }
    all = python_collect(r, s, c->site->call->b);
    return python_instantiate(r, c->own, c->site->call, &all);
}

static void try_candidate(python_reader *r, const checkpoint *c, candidate *t) {
    const char *name = checkpoint_tensor(c, checkpoint_count(c) / 2)->name;
    python_value v;
    int parts;
    if (r->work >= PYTHON_MOST_WORK) return;
    r->work += 1000 + 10 * (int)checkpoint_count(c);
    v = build(r, t);
    for (parts = 0; v.module && parts < 4; parts++) {
        const size_t length = prefix_length(name, parts);
        fit f;
        if ((parts > 0 && length == 0) || r->is_full) break;
        f = match_all(c, v.module, name, length);
        if (f.matched <= t->fit.matched) continue;
        t->fit = f;
        t->prefix = length;
    }
    memory_free(&r->values);
    r->values = memory_make(MOST_MEMORY);
}

/* Compares two candidates. Returns a positive number if `a` fits better, and a negative number if
 * `b` does. The criteria, in this order, are more matching names, a call rather than default
 * arguments, fewer differing sizes, and more compared sizes. */
static int compare_fit(const candidate *a, const candidate *b) {
    if (a->fit.matched != b->fit.matched) return a->fit.matched - b->fit.matched;
    if (!a->site != !b->site) return a->site ? 1 : -1;
    if (a->fit.wrong != b->fit.wrong) return b->fit.wrong - a->fit.wrong;
    return a->fit.checked - b->fit.checked;
}

typedef struct best_list {
    candidate items[MOST_BEST];
    int count;
} best_list;

static void keep_best(best_list *best, const candidate *t) {
    const int better = best->count ? compare_fit(t, &best->items[0]) : 1;
    if (t->fit.matched == 0 || better < 0) return;
    if (better > 0) best->count = 0;
    if (best->count < MOST_BEST) best->items[best->count++] = *t;
}

static void try_class(python_reader *r, const checkpoint *c, const python_node *own,
                      best_list *best) {
    candidate t;
    size_t i;
    int calls = 0;
    memset(&t, 0, sizeof t);
    t.own = own;
    try_candidate(r, c, &t);
    keep_best(best, &t);
    for (i = 0; i < r->site_count && t.fit.matched > 0 && calls < MOST_CALLS; i++) {
        candidate u;
        if (strcmp(python_name_of(r->sites[i].call->a), own->text) != 0) continue;
        memset(&u, 0, sizeof u);
        u.own = own;
        u.site = &r->sites[i];
        try_candidate(r, c, &u);
        keep_best(best, &u);
        calls++;
    }
}

static void try_classes(python_reader *r, const checkpoint *c, const python_node *body,
                        best_list *best) {
    const python_node *n;
    for (n = body; n; n = n->next) {
        if (n->kind == NODE_CLASS) try_class(r, c, n, best);
        if (n->kind == NODE_IF || n->kind == NODE_BLOCK) try_classes(r, c, n->b, best);
    }
}

/* === Normalize === */

static bool read_colours(const python_value *v, double out[VIT_MAX_CHANS], int *count) {
    const python_item *i;
    *count = 0;
    if (v->kind == VALUE_NUMBER) out[(*count)++] = v->number;
    for (i = v->kind == VALUE_LIST && !v->list->is_repeated ? v->list->first : NULL; i;
         i = i->next) {
        if (i->value.kind != VALUE_NUMBER || *count >= VIT_MAX_CHANS) return *count = 0, false;
        out[(*count)++] = i->value.number;
    }
    return *count > 0;
}

/* Reads the mean and the std of transforms.Normalize(mean, std). If several calls differ, the
 * result is unknown and *disputed becomes true. */
static void read_normalize(writer *w, const python_call_site *site, bool *disputed) {
    python_reader *r = w->reader;
    code_found *out = w->out;
    candidate c;
    double mean[VIT_MAX_CHANS], std[VIT_MAX_CHANS];
    int mean_count, std_count;
    python_value m, s;
    python_scope local;
    python_list all;
    memset(&c, 0, sizeof c);
    memset(&local, 0, sizeof local);
    r->steps = r->depth = r->loops = r->modules = 0;
    local.outer = &r->globals[site->file];
    local.file = site->file;
    local.body = site->function ? site->function->b : NULL;
    all = python_collect(r, &local, site->call->b);
    m = python_argument(&all, "mean", 0);
    s = python_argument(&all, "std", 1);
    if (!read_colours(&m, mean, &mean_count) || !read_colours(&s, std, &std_count)) return;
    if (out->mean_count && (out->mean_count != mean_count || out->std_count != std_count ||
                            memcmp(out->mean, mean, sizeof *mean * (size_t)mean_count) != 0 ||
                            memcmp(out->std, std, sizeof *std * (size_t)std_count) != 0))
        *disputed = true;
    memcpy(out->mean, mean, sizeof *mean * (size_t)mean_count);
    memcpy(out->std, std, sizeof *std * (size_t)std_count);
    out->mean_count = mean_count;
    out->std_count = std_count;
    out->normalize = where_text(w, site->call);
}

static void read_preparation(writer *w) {
    bool disputed = false;
    size_t i;
    for (i = 0; i < w->reader->site_count; i++)
        if (!strcmp(python_name_of(w->reader->sites[i].call->a), "Normalize"))
            read_normalize(w, &w->reader->sites[i], &disputed);
    if (disputed) w->out->mean_count = w->out->std_count = 0;
}

/* === Names of classes === */

/* True for names that usually belong to a list of classes, such as "classes", "CLASS_NAMES" and
 * "labels_map". */
static bool means_classes(const char *name) {
    static const char *const words[] = { "class", "label", "categor" };
    char low[40];
    size_t i;
    for (i = 0; name[i] && i + 1 < sizeof low; i++)
        low[i] = (char)(name[i] | (name[i] >= 'A' && name[i] <= 'Z' ? 0x20 : 0));
    low[i] = '\0';
    for (i = 0; i < COUNT(words); i++)
        if (strstr(low, words[i])) return true;
    return false;
}

/* Returns the name of the class with index `place`. Node n is an item of a list, or an entry of a
 * dictionary such as {0: "cat", 1: "dog"}. Returns NULL if the node is not the name of this
 * class. */
static const char *class_at(const python_node *n, size_t place) {
    const bool has_text = n->a && n->a->kind == NODE_STRING && !n->text &&
                          !strpbrk(n->a->text, "\\\n\r{");
    if (n->b && (n->b->kind != NODE_NUMBER || !is_near(n->b->number + 1, (double)place + 1)))
        return NULL;
    return has_text ? n->a->text : NULL;
}

static void see_names(void *user, const python_node *n) {
    writer *w = user;
    code_found *out = w->out;
    struct code_names *to = &out->names[out->name_count];
    const python_node *items, *i;
    size_t count = 0, k;
    if (n->kind != NODE_ASSIGN || !means_classes(python_name_of(n->a)) || !n->b ||
        out->name_count == (int)COUNT(out->names))
        return;
    if (n->b->kind != NODE_LIST && n->b->kind != NODE_TUPLE && n->b->kind != NODE_DICT) return;
    items = n->b->a;
    for (i = items; i; i = i->next) count++;
    if (count < 2 || count > PYTHON_MOST_ITEMS) return;
    to->names = memory_take(&out->memory, count * sizeof *to->names);
    for (k = 0, i = items; to->names && i; i = i->next, k++) {
        const char *text = class_at(i, k);
        to->names[k] = text ? memory_copy_text(&out->memory, text, strlen(text)) : NULL;
        if (!to->names[k]) return;
    }
    to->count = to->names ? count : 0;
    to->where = where_text(w, n->a);
    out->name_count++;
}

/* === Reading the whole code === */

/* Collects all calls of names that begin with a capital letter, as those of classes do. Records for
 * each call the function that contains it. */
static bool find_sites(python_reader *r, const python_node *n, const python_node *function,
                       int depth) {
    for (; n && depth < 4 * PYTHON_MOST_NESTING; n = n->next) {
        const python_node *inner = n->kind == NODE_FUNCTION ? n : function;
        if (n->kind == NODE_CALL && *python_name_of(n->a) >= 'A' && *python_name_of(n->a) <= 'Z') {
            python_call_site *grown = memory_grow(r->sites, sizeof *grown, r->site_count,
                                                  &r->site_capacity);
            if (!grown) return false;
            r->sites = grown;
            grown[r->site_count].call = n;
            grown[r->site_count].function = function;
            grown[r->site_count++].file = n->file;
        }
        if (!find_sites(r, n->a, inner, depth + 1) || !find_sites(r, n->b, inner, depth + 1) ||
            !find_sites(r, n->c, inner, depth + 1))
            return false;
    }
    return true;
}

static bool parse_files(python_reader *r, report *problem) {
    bool is_full;
    int i;
    for (i = 0; i < r->count; i++) {
        r->roots[i] = python_parse(&r->nodes, r->files[i].text, r->files[i].size, i, &is_full);
        r->globals[i].file = i;
        r->globals[i].body = r->roots[i];
        if (is_full)
            return report_fail(problem, "%s: the code is too long to be read", r->files[i].name);
    }
    for (i = 0; i < r->count; i++)
        if (!find_sites(r, r->roots[i], NULL, 0)) return report_no_memory(problem);
    return python_find_options(r) || report_no_memory(problem);
}

static void say_best(python_reader *r, const checkpoint *c, const best_list *best,
                     code_found *out) {
    writer w = { NULL, NULL, false, 4000000 };
    const char *name = checkpoint_tensor(c, checkpoint_count(c) / 2)->name;
    int i;
    w.out = out;
    w.reader = r;
    w.has_numbers = best->items[0].fit.wrong == 0;
    out->shapes_differ = !w.has_numbers;
    for (i = 0; i < best->count; i++) {
        const candidate *b = &best->items[i];
        char prefix[256];
        const python_value v = build(r, b);
        if (b->prefix >= sizeof prefix || !v.module) continue;
        snprintf(prefix, sizeof prefix, "%.*s", b->prefix ? (int)b->prefix - 1 : 0, name);
        say_module(&w, v.module, prefix, 0);
    }
    out->model = where_text(&w,
                            best->items[0].site ? best->items[0].site->call : best->items[0].own);
    read_preparation(&w);
    for (i = 0; i < r->count; i++) walk(r->roots[i], 0, &w.budget, see_names, &w);
    if (w.budget <= 0) r->is_full = true;
}

bool code_read(const checkpoint *c, const code_file *files, int count, code_found *out,
               report *problem) {
    python_reader r;
    best_list best;
    bool good;
    int i;
    memset(out, 0, sizeof *out);
    out->memory = memory_make(MOST_MEMORY);
    memset(&r, 0, sizeof r);
    best.count = 0;
    r.nodes = memory_make(MOST_MEMORY);
    r.values = memory_make(MOST_MEMORY);
    r.files = files;
    r.count = count;
    r.roots = calloc((size_t)count + 1, sizeof *r.roots);
    r.globals = calloc((size_t)count + 1, sizeof *r.globals);
    good = r.roots && r.globals ? parse_files(&r, problem) : report_no_memory(problem);
    for (i = 0; good && i < count && checkpoint_count(c) > 0; i++)
        try_classes(&r, c, r.roots[i], &best);
    /* If fewer than 70 % of the checkpoint's names match, the class may be another model that only
     * shares some of the names. */
    if (good && best.count > 0 && (size_t)best.items[0].fit.matched * 10 >= checkpoint_count(c) * 7)
        say_best(&r, c, &best, out);
    /* An incomplete search might miss facts, so it counts as a failure. */
    if (good && (r.work >= PYTHON_MOST_WORK || r.is_full))
        good = report_fail(problem, "%s: reading the code takes too much work or memory",
                           files[0].name);
    memory_free(&r.nodes);
    memory_free(&r.values);
    free(r.roots);
    free(r.globals);
    free(r.sites);
    free(r.options);
    return good;
}

void code_free(code_found *found) {
    free(found->items);
    memory_free(&found->memory);
    memset(found, 0, sizeof *found);
}

/* === Notebooks === */

/* Appends a line of code. Leaves out commands of the notebook itself, because they are not Python
 * code. */
static void put_line(char *out, size_t *used, const char *line) {
    const size_t length = strlen(line), start = strspn(line, " \t");
    if (line[start] != '%' && line[start] != '!' && line[start] != '?') {
        memcpy(out + *used, line, length);
        *used += length;
    } else if (length > 0 && line[length - 1] == '\n') {
        out[(*used)++] = '\n';
    }
}

/* Appends a text of several lines. Some programs write the code of a notebook cell in this form. */
static void put_lines(char *out, size_t *used, char *text) {
    char *next;
    for (; *text; text = next) {
        const char saved = (next = strchr(text, '\n')) ? next[1] : '\0';
        next = next ? next + 1 : text + strlen(text);
        *next = '\0';
        put_line(out, used, text);
        *next = saved;
    }
}

static void put_cell(char *out, size_t *used, const json_value *lines) {
    const json_value *line;
    if (!lines) return;
    if (lines->kind == JSON_STRING) put_lines(out, used, (char *)(size_t)lines->u.string);
    for (line = lines->kind == JSON_ARRAY ? json_first(lines) : NULL; line; line = line->next)
        if (line->kind == JSON_STRING) put_lines(out, used, (char *)(size_t)line->u.string);
    out[(*used)++] = '\n';
}

bool code_from_notebook(char *text, size_t *size) {
    json_document document;
    report ignored = report_make();
    const json_value *cell;
    char *out = malloc(*size + 1);
    size_t used = 0;
    if (!out || !json_parse(&document, text, *size, false, 0, &ignored)) {
        free(out);
        return false;
    }
    for (cell = json_first(json_get(document.root, "cells")); cell; cell = cell->next)
        if (!strcmp(json_string(json_get(cell, "cell_type"), ""), "code"))
            put_cell(out, &used, json_get(cell, "source"));
    json_free(&document);
    memcpy(text, out, used);
    *size = used;
    free(out);
    return used > 0;
}

/* === Files === */

enum { MOST_FILES = 64, MOST_FOLDERS = 64, MOST_LEVELS = 3, MOST_BYTES = 4 << 20 };

typedef struct source_list {
    /* The paths of all files that were tried. Files that could not be read are missing in
     * `files`. */
    char *paths[MOST_FILES];
    code_file files[MOST_FILES];
    /* The folders to read, in this order. */
    char *folders[MOST_FOLDERS];
    /* For each folder, the number of levels of subfolders to read. */
    int levels[MOST_FOLDERS];
    /* The path of each entry of `files`. */
    const char *places[MOST_FILES];
    int count, found, folder_count;
} source_list;

static bool ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), size = strlen(end);
    return length > size && !strcmp(name + length - size, end);
}

static bool is_code(const char *name) {
    return (ends_with(name, ".py") || ends_with(name, ".ipynb")) && *name != '.';
}

/* True for folders that usually hold libraries or programs rather than the project's own code. */
static bool is_foreign(const char *name) {
    static const char *const names[] = {
        "venv", "env", "site-packages", "node_modules", "__pycache__", "build", "dist", "wandb",
    };
    size_t i;
    for (i = 0; i < COUNT(names); i++)
        if (!strcmp(name, names[i])) return true;
    return *name == '.';
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Joins the parts of a path. The caller frees the result. Returns NULL if memory is exhausted. */
static char *join(const char *folder, const char *name, const char *end) {
    char *path = malloc(strlen(folder) + strlen(name) + strlen(end) + 1);
    if (path) sprintf(path, "%s%s%s", folder, name, end);
    return path;
}

static void add_folder(source_list *l, char *path, int levels) {
    if (!path || l->folder_count == MOST_FOLDERS) {
        free(path);
        return;
    }
    l->levels[l->folder_count] = levels;
    l->folders[l->folder_count++] = path;
}

/* Adds the Python files in a folder, sorted by name. The folder "" is the current folder. */
static void list_folder(source_list *l, const char *folder, int levels) {
    const int first = l->found, first_folder = l->folder_count;
    os_folder *entries = os_folder_open(*folder ? folder : ".");
    const char *name;
    while (entries && l->found < MOST_FILES && (name = os_folder_next(entries)) != NULL) {
        char *path = join(folder, name, "");
        const bool goes_in = path && levels > 0 && !is_foreign(name) &&
                             os_kind_of_link(path) == OS_FOLDER;
        if (path && is_code(name)) l->paths[l->found++] = path;
        else free(path);
        if (goes_in) add_folder(l, join(folder, name, "/"), levels - 1);
    }
    if (entries) os_folder_close(entries);
    qsort(l->paths + first, (size_t)(l->found - first), sizeof *l->paths, compare_paths);
    qsort(l->folders + first_folder, (size_t)(l->folder_count - first_folder), sizeof *l->folders,
          compare_paths);
}

/* Adds a file to the list. If the file cannot be read, the function fails only if --code names the
 * file (is_asked). */
static bool add_source(source_list *l, const char *path, bool is_asked, report *r) {
    report why = report_make();
    char *text = NULL;
    size_t size = 0;
    int i;
    bool good = (is_asked || os_kind_of(path) == OS_FILE) &&
                config_read_text(path, &text, &size, &why) &&
                (size <= MOST_BYTES || report_fail(&why, "expected at most 4 MiB of Python"));
    if (good && ends_with(path, ".ipynb") && !code_from_notebook(text, &size))
        good = report_fail(&why, "expected a notebook with cells of code");
    /* A file with the same text may already be listed under another path. */
    for (i = 0; good && i < l->count; i++)
        if (l->files[i].size == size && !memcmp(l->files[i].text, text, size)) break;
    if (good && i < l->count) {
        free(text);
        return true;
    }
    if (good) {
        l->places[l->count] = path;
        l->files[l->count].name = paths_file_name(path);
        l->files[l->count].text = text;
        l->files[l->count++].size = size;
        return true;
    }
    free(text);
    if (!is_asked) return true;
    *r = why;
    return report_file(r, path);
}

/* Adds the file of the Python module `name`, such as "models.vit", if the file is inside this
 * folder. */
static void add_module(source_list *l, const char *folder, const char *name, report *r) {
    char *path = l->found < MOST_FILES ? join(folder, name, ".py") : NULL, *c;
    int i;
    for (c = path ? path + strlen(folder) : NULL; c && strcmp(c, ".py") != 0; c++)
        if (*c == '.') *c = '/';
    for (i = 0; path && i < l->found; i++)
        if (!strcmp(l->paths[i], path)) break;
    if (path && i == l->found && os_kind_of(path) == OS_FILE) {
        l->paths[l->found++] = path;
        (void)add_source(l, path, false, r);
        return;
    }
    free(path);
}

/* Follows an import such as "from .blocks import Block" or "import models.vit as vit". Searches the
 * folder of the importing file and the folder above it. */
static void follow_import(source_list *l, const char *folder, const char *line, const char *end,
                          report *r) {
    char name[128], above[8] = "";
    size_t size = 0;
    const bool is_from = end - line > 5 && !strncmp(line, "from ", 5);
    if (!is_from && (end - line < 8 || strncmp(line, "import ", 7) != 0)) return;
    line += is_from ? 5 : 7;
    while (line < end && *line == ' ') line++;
    if (line < end && *line == '.' && line++ < end && *line == '.' && line++ < end)
        strcpy(above, "../");
    if (end - line > 8 && !strncmp(line, " import ", 8)) line += 8;
    while (line < end && size + 1 < sizeof name &&
           (isalnum((unsigned char)*line) || *line == '_' || *line == '.'))
        name[size++] = *line++;
    name[size] = '\0';
    if (!size || *name == '.') return;
    for (int i = 0; i < 2; i++, strcpy(above, "../")) {
        char *place = join(folder, above, "");
        if (place) add_module(l, place, name, r);
        free(place);
    }
}

/* Adds the files that the listed files import, then the files that those files import, and so
 * on. */
static void follow_imports(source_list *l, report *r) {
    int i;
    for (i = 0; i < l->count; i++) {
        const char *at = l->files[i].text, *end = at + l->files[i].size, *next;
        char *folder = join("", l->places[i], "");
        if (!folder) return;
        folder[paths_folder_length(folder)] = '\0';
        for (; at < end; at = next) {
            next = memchr(at, '\n', (size_t)(end - at));
            follow_import(l, folder, at, next ? next : end, r);
            next = next ? next + 1 : end;
        }
        free(folder);
    }
}

/* True if the path `folder`/../.. is the root of a Git repository. For the file model/mnist/vit.pt,
 * `folder` is model/mnist, so this root is the folder that contains `model`. */
static bool is_repository(const char *folder) {
    char *path = join(folder, "../../.git", "");
    const bool found = path && source_exists(path);
    free(path);
    return found;
}

static bool find_sources(const convert_options *o, source_list *l, report *r) {
    const bool is_given = o->code && source_is_folder(o->code);
    const char *from = is_given ? o->code : o->checkpoint;
    char *folder = join(from, source_is_folder(from) ? paths_slash(from) : "", "");
    bool good = true;
    int i;
    if (o->code && !is_given) {
        good = add_source(l, o->code, true, r);
    } else if (folder) {
        folder[paths_folder_length(folder)] = '\0';
        add_folder(l, join(folder, "", ""), is_given ? MOST_LEVELS : 0);
        if (!o->code) add_folder(l, join(folder, "../", ""), 0);
    }
    for (i = 0; i < l->folder_count; i++) {
        list_folder(l, l->folders[i], l->levels[i]);
        if (folder && !o->code && i == 1 && !l->found && is_repository(folder))
            add_folder(l, join(folder, "../../", ""), 0);
    }
    free(folder);
    for (i = 0; good && i < l->found; i++) good = add_source(l, l->paths[i], false, r);
    if (good) follow_imports(l, r);
    return good;
}

bool code_find(const convert_options *o, const checkpoint *c, code_found *found, report *r) {
    source_list *l;
    report why = report_make();
    bool good;
    int i;
    if (o->code && !strcmp(o->code, "none")) return true;
    l = calloc(1, sizeof *l);
    if (!l) return report_no_memory(r);
    good = find_sources(o, l, r);
    if (good && l->count > 0 && !code_read(c, l->files, l->count, found, &why)) {
        code_free(found);
        good = !o->code && !why.no_memory;
        if (!good) *r = why;
    }
    for (i = 0; i < l->count; i++) free((void *)(size_t)l->files[i].text);
    for (i = 0; i < l->found; i++) free(l->paths[i]);
    for (i = 0; i < l->folder_count; i++) free(l->folders[i]);
    free(l);
    return good;
}

/* Handles a final norm that the model's class stores but never uses. Such a norm does not run. */
static void use_unused(facts *f) {
    const code_found *found = &f->code;
    layout_part part;
    const char *axes;
    size_t i;
    if (!layout_peek(&f->map, "norm.weight", 0, &part, &axes) || !part.info) return;
    for (i = 0; i < found->count; i++) {
        const checkpoint_attribute *a = &found->items[i];
        const size_t length = strlen(a->module);
        if (strcmp(a->name, "code.unused") != 0 || !length ||
            strncmp(part.info->stored_name, a->module, length) != 0 ||
            strcmp(part.info->stored_name + length, ".weight") != 0)
            continue;
        settings_put(&f->all[FROM_TENSORS], SETTING_FINAL_NORM, 0);
        settings_put(&f->told.by_code, SETTING_FINAL_NORM, 0);
        text_append(f->told.code, sizeof f->told.code,
                    "%shas_final_norm=0 (%s, which is never used)", *f->told.code ? ", " : "",
                    a->where);
        return;
    }
}

void code_use(const convert_options *o, const checkpoint *c, facts *f) {
    attributes_told *told = &f->told;
    const code_found *found = &f->code;
    if (!found->model) {
        if (o->code && strcmp(o->code, "none") != 0)
            text_append(told->code, sizeof told->code,
                        "nothing: no class of %.200s has modules with the names of the tensors",
                        o->code);
        return;
    }
    code_put(c, layout_patch_weight(&f->map), found, f->all, told);
    use_unused(f);
    text_append(told->code, sizeof told->code, "%sthe model is %s%s", *told->code ? "; " : "",
                found->model,
                found->shapes_differ
                    ? ". The code's shapes differ from those of the weights, so no numbers of the "
                      "code were used"
                    : "");
}

static bool is_same_number(const settings *a, const settings *b, int key) {
    return a->value[key] >= b->value[key] && a->value[key] <= b->value[key];
}

void code_compare(const convert_options *o, facts *f) {
    const settings *code = &f->told.by_code;
    settings *tensors = &f->all[FROM_TENSORS];
    int key;
    /* The tensors show that there is one norm, and the code shows where this norm runs. */
    if (code->given[SETTING_FC_NORM] && tensors->value[SETTING_FINAL_NORM] > 0 &&
        !(tensors->value[SETTING_FC_NORM] > 0)) {
        settings_put(tensors, SETTING_FINAL_NORM, 0);
        settings_put(tensors, SETTING_FC_NORM, 1);
    }
    if (code->given[SETTING_FINAL_NORM] && !code->given[SETTING_FC_NORM])
        settings_put(tensors, SETTING_FINAL_NORM, 0); /* The norm is stored but does not run. */
    for (key = 0; key < SETTING_COUNT; key++)
        if (code->given[key] && o->match_input && is_same_number(tensors, code, key))
            f->seen.by_default[key] = true;
}

void code_conclude(facts *f) {
    const settings *code = &f->told.by_code;
    char told[32], seen[32];
    int key;
    for (key = 0; key < SETTING_COUNT; key++) {
        const int from = settings_origin(f->all, (setting_key)key);
        if (!code->given[key] || from < 0 || is_same_number(&f->all[from], code, key)) continue;
        text_append(f->told.code, sizeof f->told.code, "; but %s %s=%s, not %s",
                    from == FROM_TENSORS ? "the weights have"
                    : from == FROM_MATCH ? "the input and output show"
                                         : f->all[from].origin,
                    setting_rows[key].name,
                    setting_text((setting_key)key, f->all[from].value[key], seen),
                    setting_text((setting_key)key, code->value[key], told));
    }
}

bool code_labels(facts *f, int classes, label_list *names, const char **origin, report *r) {
    const struct code_names *found = NULL;
    int i, count = 0;
    for (i = 0; i < f->code.name_count; i++) {
        if (f->code.names[i].count != (size_t)classes) continue;
        found = &f->code.names[i];
        count++;
    }
    if (count != 1) return true;
    *origin = found->where;
    text_append(f->told.code, sizeof f->told.code, "; the names of the classes: %s", found->where);
    return labels_from_list(names, found->names, found->count, r);
}
