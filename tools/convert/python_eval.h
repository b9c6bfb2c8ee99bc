/* python_eval.h - evaluates the Python of a constructor, as far as it uses plain numbers, names and
 * loops. All other values are unknown.
 *
 * A module is an nn.Module that the Python code makes. A scope is a set of variables. A repeated
 * item stands for any number of equal items, because it was made in a loop. */
#ifndef CONVERT_PYTHON_EVAL_H
#define CONVERT_PYTHON_EVAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"
#include "convert/python.h"

enum {
    /* Limit of all candidates' work, to which each evaluated expression adds WORK_OF_STEP. */
    PYTHON_MOST_WORK = 64000000,
    PYTHON_MOST_ITEMS = 4096, /* largest number of items in a list */
};

typedef enum python_value_kind {
    VALUE_UNKNOWN,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_NUMBER,
    VALUE_TEXT,
    VALUE_NAME,     /* a name from a library, such as "nn.Linear" */
    VALUE_CLASS,    /* a class of the author */
    VALUE_FUNCTION, /* a function of the author; for a method, `module` is the object */
    VALUE_PARTIAL,  /* a call of functools.partial; `node` is this call and `scope` is its scope */
    VALUE_MODULE,
    VALUE_LIST,
    VALUE_DICT,
} python_value_kind;

typedef struct python_value {
    python_value_kind kind;
    double number;
    const char *text;
    const python_node *node;
    struct python_scope *scope;
    struct python_module *module;
    struct python_list *list;
} python_value;

/* A value with a name: an item of a list or a dictionary, a part of a module, an argument or a
 * variable. */
typedef struct python_item {
    const char *key; /* NULL for an item without a name, which its position identifies */
    python_value value;
    /* True for an item made in a loop, which stands for any number of such items. */
    bool is_repeated;
    struct python_item *next;
} python_item;

typedef struct python_list {
    python_item *first, *last;
    int count;
    /* The number of items that a comprehension makes from its expression; 0 if unknown. */
    int times;
    /* True if an item is repeated. The positions of later items are then unknown. */
    bool is_repeated;
    bool is_open; /* for a list of arguments: true if an unknown dictionary may add arguments */
} python_list;

/* A module that the Python makes. */
typedef struct python_module {
    const char *kind;       /* name of its class, from a library or by the author */
    const python_node *own; /* the class if it is the author's, otherwise NULL */
    const python_node *at;  /* the call that made the module */
    python_list parts;
} python_module;

/* The variables of a file, or of a function while it is evaluated. */
typedef struct python_scope {
    /* The scope that contains this scope; NULL for a file. */
    struct python_scope *outer;
    python_list names;
    /* Statements whose assignments are evaluated when a variable is needed. NULL if there are
     * none. */
    const python_node *body;
    const python_node *in_class;
    python_module *self;
    int file;
    bool is_busy;
} python_scope;

/* A call of a class, and the function that contains this call. `function` is NULL if the call is
 * outside all functions. */
typedef struct python_call_site {
    const python_node *call, *function;
    int file;
} python_call_site;

typedef struct python_reader {
    memory_arena nodes, values;
    /* The files to read; `roots` and `globals` have the statements and the scope of each file. */
    const struct code_file *files;
    python_node **roots;
    python_scope *globals;
    int count;
    python_call_site *sites;
    struct python_option *options;
    size_t site_count, site_capacity, option_count, option_capacity;
    int steps, modules; /* numbers of evaluated nodes and of modules for the current candidate */
    int work;           /* work for all candidates together (PYTHON_MOST_WORK) */
    int depth, loops;   /* number of calls and of loops around the current statement */
    /* True if memory is exhausted. */
    bool is_full;
} python_reader;

/* Returns a value of this kind whose other members are zero. */
python_value python_of_kind(python_value_kind kind);

/* Allocates zeroed memory for values. If memory is exhausted, returns NULL and sets r->is_full. */
void *python_take(python_reader *r, size_t size);

/* Returns the part of a name after the last dot: "Linear" for "nn.Linear". */
const char *python_last_part(const char *name);

/* Returns the item with this key; NULL if there is none. A number that is no item's key gives the
 * last repeated item, if there is one. */
python_item *python_find_item(const python_list *l, const char *key, size_t length);

/* Sets the value of the item with this key, or appends such an item. If `key` is NULL, appends an
 * item without a key. */
void python_put_item(python_reader *r, python_list *l, const char *key, python_value v);

/* Returns 1 if the value is true in Python, 0 if it is false, and -1 if this is unknown. */
int python_truth(const python_value *v);

/* Returns the value of a variable in this scope or in a scope that contains it. Returns a
 * VALUE_NAME if no file assigns the variable. */
python_value python_value_of_name(python_reader *r, python_scope *s, const char *name);

/* Collects the options of all files, sorted by name. Returns false if memory is exhausted. */
bool python_find_options(python_reader *r);

/* Evaluates the arguments of a call, and replaces "*" and "**" by the items of their values. */
python_list python_collect(python_reader *r, python_scope *s, const python_node *arguments);

/* Returns the argument with this name or at position `place`; an unknown value if there is none. */
python_value python_argument(const python_list *all, const char *name, int place);

/* Sets the variables of the scope to the arguments of a function, or to their defaults. */
void python_bind(python_reader *r, python_scope *s, const python_node *function,
                 const python_list *all, bool has_self);

/* Finds a method of a class or of its base classes. *of becomes the class that has the method.
 * Returns NULL if no class has it. */
const python_node *python_method_of(python_reader *r, const python_node *own, const char *name,
                                    const python_node **of);

/* Makes a module of the author's class `own`. Evaluates the attributes in the body of the class,
 * then the attributes that the constructor sets. `all` has the arguments of the call `at`. */
python_value python_instantiate(python_reader *r, const python_node *own, const python_node *at,
                                const python_list *all);

/* Evaluates an expression. Returns an unknown value if the expression is too complex, or if a limit
 * is reached. */
python_value python_evaluate(python_reader *r, python_scope *s, const python_node *n);

#endif
