#include "convert/python_eval.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    /* The largest number of expressions and statements evaluated for one candidate class. */
    MOST_STEPS = 400000,
    WORK_OF_STEP = 8,
    /* The largest number of iterations of a loop that counts as known. */
    MOST_TIMES = 128,
    /* The largest number of modules that one candidate class may make. */
    MOST_MODULES = 20000,
};

/* === Values === */

static bool execute(python_reader *r, python_scope *s, const python_node *body,
                    python_value *result);

python_value python_of_kind(python_value_kind kind) {
    python_value v = { VALUE_UNKNOWN, 0, NULL, NULL, NULL, NULL, NULL };
    v.kind = kind;
    return v;
}

static python_value of_number(double number) {
    python_value v = python_of_kind(VALUE_NUMBER);
    v.number = number;
    return isfinite(number) ? v : python_of_kind(VALUE_UNKNOWN);
}

static python_value of_text(python_value_kind kind, const char *text) {
    python_value v = python_of_kind(kind);
    v.text = text;
    return v;
}

void *python_take(python_reader *r, size_t size) {
    void *p = memory_take(&r->values, size);
    if (!p) r->is_full = true;
    return p;
}

const char *python_last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

python_item *python_find_item(const python_list *l, const char *key, size_t length) {
    python_item *i, *repeated = NULL;
    for (i = l->first; i; i = i->next) {
        if (i->key && strlen(i->key) == length && !strncmp(i->key, key, length)) return i;
        if (i->is_repeated) repeated = i;
    }
    return repeated && strspn(key, "0123456789") >= length ? repeated : NULL;
}

void python_put_item(python_reader *r, python_list *l, const char *key, python_value v) {
    python_item *i = key ? python_find_item(l, key, strlen(key)) : NULL;
    if (i && !i->is_repeated) {
        i->value = v;
        return;
    }
    if (l->count >= PYTHON_MOST_ITEMS || !(i = python_take(r, sizeof *i))) return;
    i->key = key;
    i->value = v;
    i->is_repeated = r->loops > 0 && (!key || isdigit((unsigned char)*key));
    if (i->is_repeated) l->is_repeated = true;
    if (l->last) l->last->next = i;
    else l->first = i;
    l->last = i;
    l->count++;
}

/* Adds a part to the list under the next number. After a repeated part this number is unknown, so
 * the new part is repeated too. */
static void put_next(python_reader *r, python_list *l, python_value v, bool is_repeated) {
    char number[16];
    const bool any = is_repeated || l->is_repeated;
    const char *key;
    snprintf(number, sizeof number, "%d", l->count);
    key = memory_copy_text(&r->values, number, strlen(number));
    if (!key) {
        r->is_full = true;
        return;
    }
    python_put_item(r, l, key, v);
    if (l->last && any) l->last->is_repeated = l->is_repeated = true;
}

static python_value new_list(python_reader *r, python_value_kind kind) {
    python_value v = python_of_kind(kind);
    v.list = python_take(r, sizeof *v.list);
    return v.list ? v : python_of_kind(VALUE_UNKNOWN);
}

static python_value new_module(python_reader *r, const char *kind, const python_node *own,
                               const python_node *at) {
    python_value v = python_of_kind(VALUE_MODULE);
    if (r->modules++ >= MOST_MODULES || !(v.module = python_take(r, sizeof *v.module)))
        return python_of_kind(VALUE_UNKNOWN);
    v.module->kind = kind;
    v.module->own = own;
    v.module->at = at;
    return v;
}

static bool is_same(const python_value *a, const python_value *b) {
    if (a->kind != b->kind) return false;
    if (a->text || b->text) return a->text && b->text && !strcmp(a->text, b->text);
    return a->number >= b->number && a->number <= b->number && a->node == b->node &&
           a->module == b->module && a->list == b->list;
}

int python_truth(const python_value *v) {
    switch (v->kind) {
    case VALUE_NONE: return 0;
    case VALUE_BOOL:
    case VALUE_NUMBER: return v->number != 0;
    case VALUE_TEXT: return *v->text != '\0';
    case VALUE_CLASS:
    case VALUE_FUNCTION:
    case VALUE_PARTIAL:
    case VALUE_MODULE: return 1;
    case VALUE_LIST:
    case VALUE_DICT: return v->list->count > 0;
    default: return -1;
    }
}

/* === Names === */

/* Evaluates all assignments to a name, including assignments in nested statements. If the assigned
 * values differ, the result is unknown. */
static void find_assigned(python_reader *r, python_scope *s, const python_node *body,
                          const char *name, python_value *found, int *count) {
    const python_node *n, *t;
    python_value v;
    for (n = body; n && r->work++ < PYTHON_MOST_WORK; n = n->next) {
        if ((n->kind == NODE_CLASS || n->kind == NODE_FUNCTION) && !strcmp(n->text, name)) {
            *found = python_of_kind(n->kind == NODE_CLASS ? VALUE_CLASS : VALUE_FUNCTION);
            found->node = n;
            *count = 1;
        } else if (n->kind == NODE_IF || n->kind == NODE_FOR || n->kind == NODE_BLOCK) {
            find_assigned(r, s, n->b, name, found, count);
            if (n->kind == NODE_IF) find_assigned(r, s, n->c, name, found, count);
        } else if (n->kind == NODE_ASSIGN && n->a && n->a->kind == NODE_NAME &&
                   !strcmp(n->a->text, name)) {
            v = *n->text == '+' ? python_of_kind(VALUE_UNKNOWN) : python_evaluate(r, s, n->b);
            if (++*count == 1) *found = v;
            else if (!is_same(found, &v)) *found = python_of_kind(VALUE_UNKNOWN);
        } else if (n->kind == NODE_ASSIGN && n->a && n->a->kind == NODE_TUPLE) {
            int place = 0;
            for (t = n->a->a; t; t = t->next, place++) {
                python_item *i;
                if (!t->a || t->a->kind != NODE_NAME || strcmp(t->a->text, name) != 0) continue;
                v = python_evaluate(r, s, n->b);
                for (i = v.kind == VALUE_LIST ? v.list->first : NULL; i && place > 0; place--)
                    i = i->next;
                *found = i && ++*count == 1 ? i->value : python_of_kind(VALUE_UNKNOWN);
                break;
            }
        }
    }
}

static bool look_up(python_reader *r, python_scope *s, const char *name, python_value *found) {
    const python_item *i;
    int count = 0;
    for (i = s->names.first; i; i = i->next)
        if (!strcmp(i->key, name)) return *found = i->value, true;
    if (!s->body || s->is_busy) return false;
    s->is_busy = true;
    *found = python_of_kind(VALUE_UNKNOWN);
    find_assigned(r, s, s->body, name, found, &count);
    s->is_busy = false;
    return count > 0;
}

python_value python_value_of_name(python_reader *r, python_scope *s, const char *name) {
    python_value v = python_of_kind(VALUE_BOOL);
    int i;
    if (!strcmp(name, "None")) return python_of_kind(VALUE_NONE);
    if (!strcmp(name, "True")) return v.number = 1, v;
    if (!strcmp(name, "False")) return v;
    for (; s; s = s->outer) {
        const int file = s->file;
        if (look_up(r, s, name, &v)) return v;
        if (s->outer) continue;
        /* An import may have given this name to a global of another file. */
        for (i = 0; i < r->count; i++)
            if (i != file && look_up(r, &r->globals[i], name, &v)) return v;
    }
    return of_text(VALUE_NAME, name);
}

/* === Options of programs === */

/* A program option whose value the Python files give. The list of options is sorted by name. */
typedef struct python_option {
    const char *name;
    const python_node *stated;
} python_option;

static bool add_option(python_reader *r, const char *name, const python_node *stated) {
    python_option *grown = memory_grow(r->options, sizeof *grown, r->option_count,
                                       &r->option_capacity);
    if (!grown) return false;
    r->options = grown;
    grown[r->option_count].name = name;
    grown[r->option_count++].stated = stated;
    return true;
}

/* Adds the option and its default value from a call such as parser.add_argument("--num-heads",
 * default=4). */
static bool add_argparse(python_reader *r, const python_node *call) {
    const python_node *a, *given = NULL;
    for (a = call->b; a; a = a->next)
        if (a->text && !strcmp(a->text, "default")) given = a->a;
    for (a = given ? call->b : NULL; a; a = a->next) {
        char *name, *c;
        if (a->text || !a->a || a->a->kind != NODE_STRING || a->a->text[0] != '-') continue;
        name = memory_copy_text(&r->nodes, a->a->text, strlen(a->a->text));
        if (!name) return false;
        for (c = name; *c; c++)
            if (*c == '-' && c > name + 1) *c = '_';
        if (!add_option(r, name + strspn(name, "-"), given)) return false;
    }
    return true;
}

static bool has_methods(const python_node *own) {
    const python_node *n;
    for (n = own->b; n; n = n->next)
        if (n->kind == NODE_FUNCTION) return true;
    return false;
}

/* Collects the options in dictionaries, in attributes of classes without methods, and in calls of
 * add_argument. */
static bool find_options(python_reader *r, const python_node *n, bool in_plain, int depth) {
    for (; n && depth < 4 * PYTHON_MOST_NESTING; n = n->next) {
        const bool is_plain = n->kind == NODE_CLASS && !has_methods(n);
        bool good = true;
        if (n->kind == NODE_ASSIGN && in_plain && n->a && n->a->kind == NODE_NAME)
            good = add_option(r, n->a->text, n->b);
        if (n->kind == NODE_ARGUMENT && n->b && n->b->kind == NODE_STRING)
            good = add_option(r, n->b->text, n->a);
        if (n->kind == NODE_CALL && n->a && n->a->kind == NODE_MEMBER &&
            !strcmp(n->a->text, "add_argument"))
            good = add_argparse(r, n);
        if (!good || !find_options(r, n->a, false, depth + 1) ||
            !find_options(r, n->b, is_plain, depth + 1) || !find_options(r, n->c, false, depth + 1))
            return false;
    }
    return true;
}

static int compare_options(const void *a, const void *b) {
    return strcmp(((const python_option *)a)->name, ((const python_option *)b)->name);
}

bool python_find_options(python_reader *r) {
    int i;
    for (i = 0; i < r->count; i++)
        if (!find_options(r, r->roots[i], false, 0)) return false;
    if (r->option_count > 0)
        qsort(r->options, r->option_count, sizeof *r->options, compare_options);
    return true;
}

/* Returns the value of the option. If the files give different values, the result is unknown. */
static python_value value_of_option(python_reader *r, const char *name) {
    python_value found = python_of_kind(VALUE_UNKNOWN);
    size_t low = 0, high = r->option_count;
    int count = 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(r->options[middle].name, name) < 0) low = middle + 1;
        else high = middle;
    }
    for (; low < r->option_count && !strcmp(r->options[low].name, name); low++) {
        const python_node *stated = r->options[low].stated;
        const python_value v = stated ? python_evaluate(r, &r->globals[stated->file], stated)
                                      : python_of_kind(VALUE_UNKNOWN);
        if (v.kind == VALUE_UNKNOWN || v.kind == VALUE_NAME) continue;
        if (++count == 1) found = v;
        else if (!is_same(&found, &v)) found = python_of_kind(VALUE_UNKNOWN);
    }
    return found;
}

/* === Calls === */

python_list python_collect(python_reader *r, python_scope *s, const python_node *arguments) {
    python_list all = { NULL, NULL, 0, 0, false, false };
    const int loops = r->loops;
    for (; arguments; arguments = arguments->next) {
        const char *key = arguments->text;
        const python_value v = python_evaluate(r, s, arguments->a);
        const python_item *i;
        r->loops = 0;
        if (key && *key == '*') {
            if (!v.list) all.is_open = true;
            for (i = v.list ? v.list->first : NULL; i; i = i->next) {
                int times = i->is_repeated ? v.list->times : 0;
                do python_put_item(r, &all, v.kind == VALUE_DICT ? i->key : NULL, i->value);
                while (--times > 0);
                if (all.last && v.kind == VALUE_LIST && i->is_repeated && !v.list->times)
                    all.last->is_repeated = all.is_repeated = true;
            }
        } else {
            python_put_item(r, &all, key, v);
        }
        r->loops = loops;
    }
    return all;
}

python_value python_argument(const python_list *all, const char *name, int place) {
    const python_item *i;
    for (i = all->first; i; i = i->next)
        if (i->key ? !strcmp(i->key, name) : place-- == 0) return i->value;
    return python_of_kind(VALUE_UNKNOWN);
}

void python_bind(python_reader *r, python_scope *s, const python_node *function,
                 const python_list *all, bool has_self) {
    const python_node *n = function->a;
    const python_item *i;
    int place = 0;
    if (has_self && n) n = n->next;
    for (; n; n = n->next) {
        python_value v = python_of_kind(VALUE_UNKNOWN);
        bool is_given = false;
        int at = 0;
        if (n->number > 0) { /* *rest or **rest takes the keyword arguments */
            v = new_list(r, VALUE_DICT);
            for (i = all->first; v.list && i; i = i->next)
                if (i->key) python_put_item(r, v.list, i->key, i->value);
        } else {
            for (i = all->first; i && !is_given; i = i->next) {
                if (i->key ? strcmp(i->key, n->text) != 0 : at++ != place) continue;
                v = i->value;
                is_given = true;
            }
            if (!is_given && all->is_open) v = value_of_option(r, n->text);
            else if (!is_given && n->a) v = python_evaluate(r, &r->globals[function->file], n->a);
            place++;
        }
        python_put_item(r, &s->names, n->text, v);
    }
}

const python_node *python_method_of(python_reader *r, const python_node *own, const char *name,
                                    const python_node **of) {
    const python_node *n;
    int level;
    for (level = 0; own && level < 8; level++) {
        python_value base;
        for (n = own->b; n; n = n->next)
            if (n->kind == NODE_FUNCTION && !strcmp(n->text, name)) return *of = own, n;
        if (!own->a || !own->a->a || own->a->a->kind != NODE_NAME) return NULL;
        base = python_value_of_name(r, &r->globals[own->file], own->a->a->text);
        own = base.kind == VALUE_CLASS ? base.node : NULL;
    }
    return NULL;
}

/* Makes attributes of those arguments of a constructor that give the input's size or channels.
 * Attributes that exist already stay unchanged. */
static void keep_input(python_reader *r, const python_scope *s, python_module *m) {
    static const char *const kept[][2] = {
        { "channels", "in_chans" },   { "in_channels", "in_chans" },
        { "in_chans", "in_chans" },   { "num_channels", "in_chans" },
        { "n_channels", "in_chans" }, { "image_size", "image_size" },
        { "img_size", "img_size" },
    };
    const python_item *i;
    size_t k;
    for (i = s->names.first; i; i = i->next)
        for (k = 0; k < COUNT(kept); k++)
            if (!strcmp(i->key, kept[k][0]) &&
                !python_find_item(&m->parts, kept[k][1], strlen(kept[k][1])))
                python_put_item(r, &m->parts, kept[k][1], i->value);
}

static python_value call_function(python_reader *r, const python_node *function,
                                  const python_node *in_class, python_module *self,
                                  const python_list *all) {
    python_value result = python_of_kind(VALUE_UNKNOWN), me = python_of_kind(VALUE_MODULE);
    const int loops = r->loops;
    python_scope *s = python_take(r, sizeof *s);
    if (!s || r->depth >= PYTHON_MOST_NESTING) return result;
    r->depth++;
    r->loops = 0;
    s->outer = &r->globals[function->file];
    s->file = function->file;
    s->in_class = in_class;
    s->self = self;
    me.module = self;
    if (self && function->a) python_put_item(r, &s->names, function->a->text, me);
    python_bind(r, s, function, all, self != NULL);
    if (!execute(r, s, function->b, &result)) result = python_of_kind(VALUE_NONE);
    if (self && !strcmp(function->text, "__init__")) keep_input(r, s, self);
    r->loops = loops;
    r->depth--;
    return result;
}

python_value python_instantiate(python_reader *r, const python_node *own, const python_node *at,
                                const python_list *all) {
    python_value v = new_module(r, own->text, own, at);
    const python_node *n, *of, *constructor = python_method_of(r, own, "__init__", &of);
    const python_item *i;
    if (!v.module) return v;
    for (n = own->b; n; n = n->next)
        if (n->kind == NODE_ASSIGN && n->a && n->a->kind == NODE_NAME)
            python_put_item(r, &v.module->parts, n->a->text,
                            python_evaluate(r, &r->globals[own->file], n->b));
    if (constructor) (void)call_function(r, constructor, of, v.module, all);
    for (i = constructor ? NULL : all->first; i; i = i->next)
        if (i->key) python_put_item(r, &v.module->parts, i->key, i->value);
    return v;
}

/* Returns the parameters of one of PyTorch's own modules as text. The parameters have PyTorch's
 * order and default values. Returns "" for other modules. */
static const char *parameters_of(const char *kind) {
    static const char *const rows[][2] = {
        { "Linear", "in_features out_features" },
        { "Conv2d", "in_channels out_channels kernel_size stride=1 padding" },
        { "LayerNorm", "normalized_shape eps=1e-5" },
        { "RMSNorm", "normalized_shape eps" },
        { "GELU", "approximate" },
        { "Unfold", "kernel_size dilation padding stride=1" },
        { "MultiheadAttention",
          "embed_dim num_heads dropout bias add_bias_kv add_zero_attn kdim vdim "
          "batch_first=False" },
        { "TransformerEncoderLayer",
          "d_model nhead dim_feedforward=2048 dropout activation=relu layer_norm_eps=1e-5 "
          "batch_first=False norm_first=False" },
        { "TransformerEncoder", "encoder_layer num_layers norm" },
        { "Rearrange", "pattern" },
    };
    size_t i;
    for (i = 0; i < COUNT(rows); i++)
        if (!strcmp(rows[i][0], kind)) return rows[i][1];
    return "";
}

static python_value default_of(const char *text, size_t length, python_reader *r) {
    const char *copy = memory_copy_text(&r->values, text, length);
    python_value v = python_of_kind(VALUE_BOOL);
    double number;
    if (!copy) return r->is_full = true, python_of_kind(VALUE_UNKNOWN);
    if (!strcmp(copy, "False")) return v;
    return text_read_number(copy, -1, 1e9, &number) ? of_number(number) : of_text(VALUE_TEXT, copy);
}

static void put_parameters(python_reader *r, python_module *m, const python_list *all) {
    const char *row = parameters_of(python_last_part(m->kind));
    int place = 0;
    while (*row) {
        const size_t length = strcspn(row, " "), name = strcspn(row, "= ");
        const char *key = memory_copy_text(&r->values, row, name);
        const python_item *i;
        bool is_given = false;
        int at = 0;
        if (!key) {
            r->is_full = true;
            return;
        }
        for (i = all->first; i && !is_given; i = i->next) {
            if (i->key ? strcmp(i->key, key) != 0 : at++ != place) continue;
            python_put_item(r, &m->parts, key, i->value);
            is_given = true;
        }
        if (!is_given && name < length)
            python_put_item(r, &m->parts, key, default_of(row + name + 1, length - name - 1, r));
        row += length + (row[length] == ' ');
        place++;
    }
}

static python_module *add_part(python_reader *r, python_module *m, const char *key,
                               const char *kind) {
    const python_value v = new_module(r, kind, NULL, m->at);
    if (v.module) python_put_item(r, &m->parts, key, v);
    return v.module;
}

static void copy_part(python_reader *r, python_module *to, const char *key,
                      const python_module *from, const char *name) {
    const python_item *i = python_find_item(&from->parts, name, strlen(name));
    if (to && i) python_put_item(r, &to->parts, key, i->value);
}

/* Adds the modules that one of PyTorch's own modules contains. */
static void put_inner(python_reader *r, python_module *m) {
    const char *kind = python_last_part(m->kind);
    const python_item *layer;
    python_module *inner;
    char name[8];
    int i;
    if (!strcmp(kind, "TransformerEncoderLayer")) {
        inner = add_part(r, m, "self_attn", "nn.MultiheadAttention");
        copy_part(r, inner, "num_heads", m, "nhead");
        copy_part(r, inner, "batch_first", m, "batch_first");
        for (i = 1; i <= 2; i++) {
            snprintf(name, sizeof name, "norm%d", i);
            inner = add_part(r, m, i == 1 ? "norm1" : "norm2", "nn.LayerNorm");
            copy_part(r, inner, "eps", m, "layer_norm_eps");
            (void)add_part(r, m, i == 1 ? "linear1" : "linear2", "nn.Linear");
        }
    } else if (!strcmp(kind, "TransformerEncoder")) {
        layer = python_find_item(&m->parts, "encoder_layer", 13);
        inner = layer && layer->value.kind == VALUE_MODULE ? add_part(r, m, "layers", "ModuleList")
                                                           : NULL;
        if (inner) put_next(r, &inner->parts, layer->value, true);
        /* the encoder has copies of this layer, but does not store the layer itself */
        python_put_item(r, &m->parts, "encoder_layer", python_of_kind(VALUE_UNKNOWN));
    }
}

static void fill_container(python_reader *r, python_module *m, bool is_list,
                           const python_list *all) {
    const python_list *from = all;
    const python_item *i;
    if (all->first && (is_list || all->first->value.kind == VALUE_DICT) && all->first->value.list)
        from = all->first->value.list;
    for (i = from->first; i; i = i->next) {
        const int loops = r->loops;
        r->loops = 0;
        if (i->key && !isdigit((unsigned char)*i->key))
            python_put_item(r, &m->parts, i->key, i->value);
        else put_next(r, &m->parts, i->value, i->is_repeated);
        r->loops = loops;
    }
}

/* Evaluates a call such as dict(a=1) or OrderedDict([("a", 1)]). */
static python_value call_dict(python_reader *r, const python_list *all) {
    python_value v = new_list(r, VALUE_DICT);
    const python_item *i;
    for (i = all->first; v.list && i; i = i->next) {
        const python_item *pair = i->value.kind == VALUE_LIST ? i->value.list->first : NULL;
        if (i->key) python_put_item(r, v.list, i->key, i->value);
        for (; pair; pair = pair->next) {
            const python_item *key = pair->value.kind == VALUE_LIST ? pair->value.list->first
                                                                    : NULL;
            if (key && key->next && key->value.kind == VALUE_TEXT)
                python_put_item(r, v.list, key->value.text, key->next->value);
        }
    }
    return v;
}

static python_value call_isinstance(const python_value *v, const python_value *kind) {
    python_value result = python_of_kind(VALUE_BOOL);
    if (v->kind == VALUE_UNKNOWN || v->kind == VALUE_NAME || kind->kind != VALUE_NAME)
        return python_of_kind(VALUE_UNKNOWN);
    if (!strcmp(kind->text, "int") || !strcmp(kind->text, "float"))
        result.number = v->kind == VALUE_NUMBER;
    else if (!strcmp(kind->text, "tuple") || !strcmp(kind->text, "list"))
        result.number = v->kind == VALUE_LIST;
    else if (!strcmp(kind->text, "str")) result.number = v->kind == VALUE_TEXT;
    else return python_of_kind(VALUE_UNKNOWN);
    return result;
}

/* Evaluates the call of a function or class that the files do not define. */
static python_value call_library(python_reader *r, python_scope *s, const char *name,
                                 const python_node *call, const python_list *all) {
    const char *last = python_last_part(name);
    const python_value first = python_argument(all, "", 0), second = python_argument(all, "", 1);
    python_value v;
    if (!strcmp(last, "partial")) {
        v = python_of_kind(VALUE_PARTIAL);
        v.node = call;
        v.scope = s;
        return v;
    }
    if (!strcmp(last, "Sequential") || !strcmp(last, "ModuleList") || !strcmp(last, "ModuleDict")) {
        v = new_module(r, name, NULL, call);
        if (v.module) fill_container(r, v.module, !strcmp(last, "ModuleList"), all);
        return v;
    }
    if (!strcmp(last, "dict") || !strcmp(last, "OrderedDict")) return call_dict(r, all);
    if (!strcmp(last, "isinstance")) return call_isinstance(&first, &second);
    if (!strcmp(last, "sqrt") && first.kind == VALUE_NUMBER) return of_number(sqrt(first.number));
    if (!strcmp(name, "int") && first.kind == VALUE_NUMBER) return of_number(trunc(first.number));
    if (!strcmp(name, "float") || !strcmp(name, "tuple") || !strcmp(name, "list") ||
        !strcmp(last, "deepcopy") || !strcmp(name, "str"))
        return first;
    if (!strcmp(name, "len") && first.kind == VALUE_LIST && !first.list->is_repeated)
        return of_number(first.list->count);
    if (*last < 'A' || *last > 'Z') return python_of_kind(VALUE_UNKNOWN);
    v = new_module(r, name, NULL, call);
    if (!v.module) return v;
    put_parameters(r, v.module, all);
    put_inner(r, v.module);
    return v;
}

static python_value call_value(python_reader *r, python_scope *s, python_value *callee,
                               const python_node *call, python_list *all) {
    python_value inner;
    python_list joined;
    const python_item *i;
    switch (callee->kind) {
    case VALUE_CLASS: return python_instantiate(r, callee->node, call, all);
    case VALUE_FUNCTION: return call_function(r, callee->node, NULL, callee->module, all);
    case VALUE_NAME: return call_library(r, s, callee->text, call, all);
    case VALUE_PARTIAL:
        if (r->depth >= PYTHON_MOST_NESTING || !callee->node->b) break;
        r->depth++;
        inner = python_evaluate(r, callee->scope, callee->node->b->a);
        joined = python_collect(r, callee->scope, callee->node->b->next);
        for (i = all->first; i; i = i->next) python_put_item(r, &joined, i->key, i->value);
        inner = call_value(r, s, &inner, call, &joined);
        if (inner.module) inner.module->at = callee->node;
        r->depth--;
        return inner;
    default: break;
    }
    return python_of_kind(VALUE_UNKNOWN);
}

static bool is_super(const python_node *n) {
    return n->kind == NODE_CALL && n->a && n->a->kind == NODE_NAME && !strcmp(n->a->text, "super");
}

/* Evaluates super().method(...) if the base class is in the files, or if it is nn.Sequential. */
static python_value call_super(python_reader *r, python_scope *s, const python_node *call,
                               const python_list *all) {
    python_value base;
    const python_node *own = s->in_class, *of, *method;
    if (!own || !s->self || !own->a || !own->a->a) return python_of_kind(VALUE_UNKNOWN);
    base = python_evaluate(r, &r->globals[own->file], own->a->a);
    if (base.kind == VALUE_NAME && !strcmp(python_last_part(base.text), "Sequential"))
        fill_container(r, s->self, false, all);
    method = base.kind == VALUE_CLASS ? python_method_of(r, base.node, call->a->text, &of) : NULL;
    return method ? call_function(r, method, of, s->self, all) : python_of_kind(VALUE_UNKNOWN);
}

static python_value call_method(python_reader *r, python_scope *s, const python_value *base,
                                const python_node *call, python_list *all) {
    const char *name = call->a->text;
    const python_value first = python_argument(all, "name", 0),
                       second = python_argument(all, "module", 1);
    const python_node *of, *method;
    python_list *l = base->kind == VALUE_MODULE ? &base->module->parts : base->list;
    const python_item *i;
    (void)s;
    if (base->kind == VALUE_DICT && !strcmp(name, "get") && first.kind == VALUE_TEXT) {
        i = python_find_item(l, first.text, strlen(first.text));
        return i ? i->value : second;
    }
    if (base->kind == VALUE_TEXT) return *base;
    method = base->kind == VALUE_MODULE ? python_method_of(r, base->module->own, name, &of) : NULL;
    if (method) return call_function(r, method, of, base->module, all);
    if (!strcmp(name, "append") && l) {
        if (base->kind == VALUE_MODULE) put_next(r, l, first, r->loops > 0);
        else python_put_item(r, l, NULL, first);
    } else if (!strcmp(name, "extend") && l && first.kind == VALUE_LIST && first.list != l) {
        for (i = first.list->first; i; i = i->next) {
            if (base->kind == VALUE_MODULE) put_next(r, l, i->value, i->is_repeated);
            else python_put_item(r, l, NULL, i->value);
        }
    } else if (base->kind == VALUE_MODULE && first.kind == VALUE_TEXT &&
               (!strcmp(name, "add_module") || !strcmp(name, "register_module") ||
                !strcmp(name, "register_parameter") || !strcmp(name, "register_buffer"))) {
        python_put_item(r, l, first.text,
                        strchr(name, 'm') && strstr(name, "module")
                            ? second
                            : new_module(r, "Parameter", NULL, call));
    } else if (base->kind == VALUE_MODULE) {
        return *base; /* a method that returns its own object, such as .to(device) or .eval() */
    }
    return python_of_kind(VALUE_UNKNOWN);
}

static python_value evaluate_call(python_reader *r, python_scope *s, const python_node *n) {
    python_list all;
    python_value callee;
    if (n->a && n->a->kind == NODE_MEMBER && is_super(n->a->a)) {
        all = python_collect(r, s, n->b);
        return call_super(r, s, n, &all);
    }
    if (n->a && n->a->kind == NODE_MEMBER) {
        const python_value base = python_evaluate(r, s, n->a->a);
        if (base.kind == VALUE_MODULE || base.list || base.kind == VALUE_TEXT) {
            const python_item *part = base.kind == VALUE_MODULE
                                          ? python_find_item(&base.module->parts, n->a->text,
                                                             strlen(n->a->text))
                                          : NULL;
            all = python_collect(r, s, n->b);
            if (!part) return call_method(r, s, &base, n, &all);
            callee = part->value;
            return call_value(r, s, &callee, n, &all);
        }
    }
    callee = python_evaluate(r, s, n->a);
    all = python_collect(r, s, n->b);
    return call_value(r, s, &callee, n, &all);
}

/* === Expressions and statements === */

static python_value evaluate_numbers(const char *sign, double a, double b) {
    python_value v = python_of_kind(VALUE_BOOL);
    if (!strcmp(sign, "+")) return of_number(a + b);
    if (!strcmp(sign, "-")) return of_number(a - b);
    if (!strcmp(sign, "*")) return of_number(a * b);
    if (!strcmp(sign, "/")) return of_number(a / b);
    if (!strcmp(sign, "//")) return of_number(floor(a / b));
    if (!strcmp(sign, "%")) return of_number(a - b * floor(a / b));
    if (!strcmp(sign, "**")) return of_number(pow(a, b));
    if (!strcmp(sign, "<")) return v.number = a < b, v;
    if (!strcmp(sign, ">")) return v.number = a > b, v;
    if (!strcmp(sign, "<=")) return v.number = a <= b, v;
    if (!strcmp(sign, ">=")) return v.number = a >= b, v;
    return python_of_kind(VALUE_UNKNOWN);
}

/* Evaluates "==" and "is" or, if `is_not` is true, "!=" and "is not". */
static python_value evaluate_same(const python_value *a, const python_value *b, bool is_not) {
    python_value v = python_of_kind(VALUE_BOOL);
    if (a->kind == VALUE_UNKNOWN || b->kind == VALUE_UNKNOWN || a->kind == VALUE_NAME ||
        b->kind == VALUE_NAME)
        return python_of_kind(VALUE_UNKNOWN);
    v.number = is_same(a, b) != is_not;
    return v;
}

/* Evaluates operators on lists, such as [a] * n and a + b. */
static python_value evaluate_lists(python_reader *r, const char *sign, const python_value *a,
                                   const python_value *b) {
    python_value v = new_list(r, VALUE_LIST);
    const python_item *i;
    if (!v.list) return v;
    for (i = a->list->first; i; i = i->next) {
        python_put_item(r, v.list, NULL, i->value);
        if (v.list->last && (i->is_repeated || *sign == '*'))
            v.list->last->is_repeated = v.list->is_repeated = true;
    }
    for (i = *sign == '+' && b->list ? b->list->first : NULL; i; i = i->next) {
        python_put_item(r, v.list, NULL, i->value);
        if (v.list->last && i->is_repeated) v.list->last->is_repeated = v.list->is_repeated = true;
    }
    return v;
}

static python_value evaluate_binary(python_reader *r, python_scope *s, const python_node *n) {
    const python_value a = python_evaluate(r, s, n->a);
    python_value b;
    if (!strcmp(n->text, "or") || !strcmp(n->text, "and")) {
        const int known = python_truth(&a);
        b = python_evaluate(r, s, n->b);
        if (known < 0) return python_of_kind(VALUE_UNKNOWN);
        return known == (*n->text == 'o') ? a : b;
    }
    b = python_evaluate(r, s, n->b);
    if (!strcmp(n->text, "==") || !strcmp(n->text, "is")) return evaluate_same(&a, &b, false);
    if (!strcmp(n->text, "!=") || !strcmp(n->text, "is not")) return evaluate_same(&a, &b, true);
    if (a.kind == VALUE_NUMBER && b.kind == VALUE_NUMBER)
        return evaluate_numbers(n->text, a.number, b.number);
    if (a.kind == VALUE_LIST && (b.kind == VALUE_LIST || *n->text == '*'))
        return evaluate_lists(r, n->text, &a, &b);
    return python_of_kind(VALUE_UNKNOWN);
}

static python_value evaluate_unary(python_reader *r, python_scope *s, const python_node *n) {
    python_value v = python_evaluate(r, s, n->a);
    int known;
    if (!strcmp(n->text, "not")) {
        known = python_truth(&v);
        v = python_of_kind(known < 0 ? VALUE_UNKNOWN : VALUE_BOOL);
        v.number = known == 0;
        return v;
    }
    if (*n->text == '-' && v.kind == VALUE_NUMBER) return of_number(-v.number);
    return *n->text == '*' ? v : python_of_kind(VALUE_UNKNOWN);
}

static python_value evaluate_items(python_reader *r, python_scope *s, const python_node *n) {
    python_value v = new_list(r, n->kind == NODE_DICT ? VALUE_DICT : VALUE_LIST);
    const python_node *i;
    for (i = n->a; v.list && i; i = i->next) {
        const int loops = r->loops;
        python_value key = i->b ? python_evaluate(r, s, i->b) : python_of_kind(VALUE_UNKNOWN),
                     item_value;
        const bool is_each = i->a && i->a->kind == NODE_EACH;
        if (is_each) r->loops++;
        item_value = python_evaluate(r, s, i->a);
        if (!is_each) r->loops = 0;
        if (i->text && *i->text == '*' && item_value.list) {
            const python_item *inner;
            for (inner = item_value.list->first; inner; inner = inner->next)
                python_put_item(r, v.list, inner->key, inner->value);
        } else if (n->kind == NODE_DICT) {
            if (key.kind == VALUE_TEXT) python_put_item(r, v.list, key.text, item_value);
        } else {
            python_put_item(r, v.list, NULL, item_value);
        }
        r->loops = loops;
    }
    return v;
}

/* Returns the number of iterations of a loop such as "for x in range(...)". Returns 0 if the number
 * is unknown or above MOST_TIMES. */
static int turns_of(python_reader *r, python_scope *s, const python_node *range) {
    python_value first, last;
    if (!range || range->kind != NODE_CALL || strcmp(python_name_of(range->a), "range") != 0 ||
        !range->b)
        return 0;
    first = python_evaluate(r, s, range->b->a);
    last = first;
    first.number = 0;
    if (range->b->next) {
        first = python_evaluate(r, s, range->b->a);
        last = python_evaluate(r, s, range->b->next->a);
        if (range->b->next->next) return 0;
    }
    if (first.kind != VALUE_NUMBER || last.kind != VALUE_NUMBER) return 0;
    return last.number - first.number >= 1 && last.number - first.number <= MOST_TIMES
               ? (int)(last.number - first.number)
               : 0;
}

/* Evaluates a comprehension: evaluates its element only once, and makes a repeated item of it. */
static python_value evaluate_each(python_reader *r, python_scope *s, const python_node *n) {
    python_value v = new_list(r, VALUE_LIST), element;
    const int loops = r->loops++;
    element = python_evaluate(r, s, n->a);
    if (v.list) {
        python_put_item(r, v.list, NULL, element);
        v.list->times = turns_of(r, s, n->c);
    }
    r->loops = loops;
    return v;
}

static python_value evaluate_index(python_reader *r, python_scope *s, const python_node *n) {
    const python_value base = python_evaluate(r, s, n->a);
    const python_value key = n->b ? python_evaluate(r, s, n->b->a) : python_of_kind(VALUE_UNKNOWN);
    const python_item *i;
    double place;
    if (base.kind == VALUE_DICT && key.kind == VALUE_TEXT) {
        i = python_find_item(base.list, key.text, strlen(key.text));
        return i ? i->value : python_of_kind(VALUE_UNKNOWN);
    }
    if (base.kind == VALUE_LIST && key.kind == VALUE_NUMBER && !base.list->is_repeated) {
        place = key.number < 0 ? key.number + base.list->count : key.number;
        for (i = base.list->first; i; i = i->next)
            if (place-- < 0.5) return i->value;
    }
    if (key.kind == VALUE_TEXT && (base.kind == VALUE_UNKNOWN || base.kind == VALUE_NAME))
        return value_of_option(r, key.text);
    return python_of_kind(VALUE_UNKNOWN);
}

/* Returns the value of a constant that is assigned in the body of a class. */
static python_value value_in_class(python_reader *r, const python_node *own, const char *name) {
    const python_node *n;
    for (n = own->b; n; n = n->next)
        if (n->kind == NODE_ASSIGN && n->a && n->a->kind == NODE_NAME && !strcmp(n->a->text, name))
            return python_evaluate(r, &r->globals[own->file], n->b);
    return python_of_kind(VALUE_UNKNOWN);
}

static python_value evaluate_member(python_reader *r, python_scope *s, const python_node *n) {
    const python_value base = python_evaluate(r, s, n->a);
    const python_node *of;
    const python_item *i;
    python_value v;
    char *name;
    size_t size;
    if (base.kind == VALUE_MODULE) {
        i = python_find_item(&base.module->parts, n->text, strlen(n->text));
        if (i) return i->value;
        v = python_of_kind(VALUE_FUNCTION);
        v.module = base.module;
        v.node = python_method_of(r, base.module->own, n->text, &of);
        if (v.node) return v;
        return base.module->own ? python_of_kind(VALUE_UNKNOWN) : value_of_option(r, n->text);
    }
    if (base.kind == VALUE_CLASS) return value_in_class(r, base.node, n->text);
    if (base.kind != VALUE_UNKNOWN && base.kind != VALUE_NAME) return python_of_kind(VALUE_UNKNOWN);
    v = value_of_option(r, n->text);
    if (v.kind != VALUE_UNKNOWN || base.kind != VALUE_NAME) return v;
    if (!strcmp(base.text, "self")) return python_of_kind(VALUE_UNKNOWN);
    size = strlen(base.text) + strlen(n->text) + 2;
    if (size > 200 || !(name = python_take(r, size))) return python_of_kind(VALUE_UNKNOWN);
    snprintf(name, size, "%s.%s", base.text, n->text);
    return of_text(VALUE_NAME, name);
}

static python_value evaluate_choice(python_reader *r, python_scope *s, const python_node *n) {
    const python_value test = python_evaluate(r, s, n->a);
    const int known = python_truth(&test);
    const python_value yes = known != 0 ? python_evaluate(r, s, n->b)
                                        : python_of_kind(VALUE_UNKNOWN);
    const python_value no = known != 1 && n->c ? python_evaluate(r, s, n->c)
                                               : python_of_kind(VALUE_UNKNOWN);
    if (known >= 0) return known ? yes : no;
    return is_same(&yes, &no) ? yes : python_of_kind(VALUE_UNKNOWN);
}

static python_value evaluate_plain(python_reader *r, python_scope *s, const python_node *n) {
    switch (n->kind) {
    case NODE_NAME: return python_value_of_name(r, s, n->text);
    case NODE_NUMBER: return of_number(n->number);
    case NODE_STRING: return of_text(VALUE_TEXT, n->text);
    case NODE_MEMBER: return evaluate_member(r, s, n);
    case NODE_CALL: return evaluate_call(r, s, n);
    case NODE_INDEX: return evaluate_index(r, s, n);
    case NODE_BINARY: return evaluate_binary(r, s, n);
    case NODE_UNARY: return evaluate_unary(r, s, n);
    case NODE_LIST:
        if (n->a && !n->a->next && n->a->a && n->a->a->kind == NODE_EACH)
            return evaluate_each(r, s, n->a->a);
        return evaluate_items(r, s, n);
    case NODE_TUPLE:
    case NODE_DICT: return evaluate_items(r, s, n);
    case NODE_EACH: return evaluate_each(r, s, n);
    case NODE_CHOICE: return evaluate_choice(r, s, n);
    default: return python_of_kind(VALUE_UNKNOWN);
    }
}

python_value python_evaluate(python_reader *r, python_scope *s, const python_node *n) {
    python_value v = python_of_kind(VALUE_UNKNOWN);
    if (!n || r->is_full || r->steps++ >= MOST_STEPS ||
        (r->work += WORK_OF_STEP) >= PYTHON_MOST_WORK || r->depth >= PYTHON_MOST_NESTING)
        return v;
    r->depth++;
    v = evaluate_plain(r, s, n);
    r->depth--;
    return v;
}

static void assign(python_reader *r, python_scope *s, const python_node *target, python_value v) {
    const python_node *t;
    const python_item *i;
    python_value base;
    if (target->kind == NODE_NAME) {
        python_put_item(r, &s->names, target->text, v);
    } else if (target->kind == NODE_MEMBER) {
        base = python_evaluate(r, s, target->a);
        if (base.kind == VALUE_MODULE) python_put_item(r, &base.module->parts, target->text, v);
    } else if (target->kind == NODE_TUPLE) {
        i = v.kind == VALUE_LIST && !v.list->is_repeated ? v.list->first : NULL;
        for (t = target->a; t; t = t->next) {
            if (t->a) assign(r, s, t->a, i ? i->value : python_of_kind(VALUE_UNKNOWN));
            i = i ? i->next : NULL;
        }
    }
}

static void execute_assign(python_reader *r, python_scope *s, const python_node *n) {
    python_value v = python_evaluate(r, s, n->b), old;
    if (!n->a) return;
    if (*n->text == '+') {
        old = python_evaluate(r, s, n->a);
        if (old.kind == VALUE_LIST && v.kind == VALUE_LIST) {
            v = evaluate_lists(r, "+", &old, &v);
            if (v.list && r->loops > 0) v.list->is_repeated = true;
        } else {
            v = python_of_kind(VALUE_UNKNOWN);
        }
    }
    assign(r, s, n->a, v);
}

/* Executes an if statement. Runs both branches if the condition is unknown. If one of these
 * branches returns, the result of the function is unknown. */
static bool execute_if(python_reader *r, python_scope *s, const python_node *n,
                       python_value *result) {
    const python_value test = python_evaluate(r, s, n->a);
    const int known = python_truth(&test);
    bool returned = false;
    if (known == 1) return execute(r, s, n->b, result);
    if (known == 0) return execute(r, s, n->c, result);
    returned = execute(r, s, n->c, result);
    returned = execute(r, s, n->b, result) || returned;
    if (returned) *result = python_of_kind(VALUE_UNKNOWN);
    return returned;
}

/* Executes statements. Returns true if a return statement was executed. */
static bool execute(python_reader *r, python_scope *s, const python_node *body,
                    python_value *result) {
    const python_node *n;
    bool returned = false;
    python_value v;
    if (r->depth >= PYTHON_MOST_NESTING) return false;
    r->depth++;
    for (n = body; n && !returned && !r->is_full && r->steps++ < MOST_STEPS; n = n->next) {
        if (n->kind == NODE_ASSIGN) execute_assign(r, s, n);
        else if (n->kind == NODE_STATEMENT) (void)python_evaluate(r, s, n->a);
        else if (n->kind == NODE_IF) returned = execute_if(r, s, n, result);
        else if (n->kind == NODE_BLOCK) returned = execute(r, s, n->b, result);
        else if (n->kind == NODE_FOR) {
            r->loops++;
            returned = execute(r, s, n->b, result);
            r->loops--;
        } else if (n->kind == NODE_CLASS || n->kind == NODE_FUNCTION) {
            v = python_of_kind(n->kind == NODE_CLASS ? VALUE_CLASS : VALUE_FUNCTION);
            v.node = n;
            python_put_item(r, &s->names, n->text, v);
        } else if (n->kind == NODE_RETURN) {
            *result = n->a ? python_evaluate(r, s, n->a) : python_of_kind(VALUE_NONE);
            returned = true;
        }
    }
    r->depth--;
    return returned;
}
