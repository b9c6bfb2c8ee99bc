/* python_eval.h - follows the Python of a constructor, as far as it uses plain numbers, names and
 * loops. All other values are unknown. */
#ifndef CONVERT_PYTHON_EVAL_H
#define CONVERT_PYTHON_EVAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"
#include "convert/python.h"

enum {
    PYTHON_MOST_WORK = 64000000, /* visited statements in all */
    PYTHON_MOST_ITEMS = 4096,    /* of a list */
};

typedef enum python_value_kind {
    VALUE_UNKNOWN,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_NUMBER,
    VALUE_TEXT,
    VALUE_NAME,     /* of a library: "nn.Linear" */
    VALUE_CLASS,    /* the author's */
    VALUE_FUNCTION, /* the author's function, with its module if it is a method */
    VALUE_PARTIAL,  /* a call of functools.partial, which is `node`, with its scope */
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

/* A named value: an item of a list or a dictionary, a part of a module, an argument or a
 * variable. */
typedef struct python_item {
    const char *key; /* NULL: by position */
    python_value value;
    bool is_repeated; /* made in a loop: stands for any number of such items */
    struct python_item *next;
} python_item;

typedef struct python_list {
    python_item *first, *last;
    int count;
    int times;        /* number of times that a comprehension makes its item; 0 if unknown */
    bool is_repeated; /* has a repeated item, after which positions are unknown */
    bool is_open;     /* for arguments: an unknown dictionary may add others */
} python_list;

typedef struct python_module {
    const char *kind;       /* the library's or the author's class */
    const python_node *own; /* the author's class, or NULL */
    const python_node *at;  /* the call that made the module */
    python_list parts;
} python_module;

/* The variables of a function that runs, or of a file. */
typedef struct python_scope {
    struct python_scope *outer;
    python_list names;
    const python_node *body; /* statements whose assignments are evaluated on demand, or NULL */
    const python_node *in_class;
    python_module *self;
    int file;
    bool is_busy;
} python_scope;

/* A call of a class, and the function that contains the call; NULL: none. */
typedef struct python_call_site {
    const python_node *call, *function;
    int file;
} python_call_site;

typedef struct python_reader {
    memory_arena nodes, values;
    const struct code_file *files; /* [count], with their statements and their scopes */
    python_node **roots;
    python_scope *globals;
    int count;
    python_call_site *sites;
    struct python_option *options;
    size_t site_count, site_capacity, option_count, option_capacity;
    int steps, modules; /* of one candidate */
    int work;           /* visited statements of all candidates */
    int depth, loops;   /* number of calls and loops around the current statement */
    bool is_full;
} python_reader;

/* Returns a value of this kind without contents. */
python_value python_of_kind(python_value_kind kind);

/* Returns zeroed memory for values; NULL, and sets r->is_full, if memory is exhausted. */
void *python_take(python_reader *r, size_t size);

/* Returns "Linear" for "nn.Linear". */
const char *python_last_part(const char *name);

/* Returns the item with this key; a repeated item stands for any number. NULL: none. */
python_item *python_find_item(const python_list *l, const char *key, size_t length);

/* Sets the item with this key, or appends one; NULL: without a key. */
void python_put_item(python_reader *r, python_list *l, const char *key, python_value v);

/* Returns 1 for true, 0 for false, -1 for unknown. */
int python_truth(const python_value *v);

/* Returns a variable's value in this scope or an outer one; VALUE_NAME if no file assigns it. */
python_value python_value_of_name(python_reader *r, python_scope *s, const char *name);

/* Collects the options of all files, sorted by name. False if memory is exhausted. */
bool python_find_options(python_reader *r);

/* Collects the arguments of a call, and spreads out "*" and "**". */
python_list python_collect(python_reader *r, python_scope *s, const python_node *arguments);

/* Returns the argument with this name or at this position. */
python_value python_argument(const python_list *all, const char *name, int place);

/* Stores the arguments, or their defaults, as the names of the scope. */
void python_bind(python_reader *r, python_scope *s, const python_node *function,
                 const python_list *all, bool has_self);

/* Finds a method of a class or of its bases. *of is the class that has it. NULL: none. */
const python_node *python_method_of(python_reader *r, const python_node *own, const char *name,
                                    const python_node **of);

/* Makes a module. Takes the attributes in the body of the class, then the attributes that the
 * constructor sets. */
python_value python_instantiate(python_reader *r, const python_node *own, const python_node *at,
                                const python_list *all);

/* Returns the value of an expression; unknown if it is not a plain one, or a limit is reached. */
python_value python_evaluate(python_reader *r, python_scope *s, const python_node *n);

#endif
