/* python.h - parses Python source into a tree of nodes. python_eval.h evaluates the tree. No Python
 * interpreter is needed. */
#ifndef CONVERT_PYTHON_H
#define CONVERT_PYTHON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"

/* The largest depth to which expressions, suites and calls may be nested. */
enum { PYTHON_MOST_NESTING = 60 };

typedef enum python_node_kind {
    NODE_OTHER,
    NODE_NAME,
    NODE_NUMBER,
    NODE_STRING,
    NODE_MEMBER, /* a.text; in the comments below, a, b, c and text are members of python_node */
    NODE_CALL,   /* a(b, ...) */
    NODE_INDEX,  /* a[b] */
    NODE_BINARY, /* a text b */
    NODE_UNARY,  /* text a */
    NODE_LIST,   /* [a, ...] */
    NODE_TUPLE,
    NODE_DICT,      /* {a, ...}: a is a list of arguments, each with its key in its `b` */
    NODE_EACH,      /* a for b in c */
    NODE_CHOICE,    /* b if a else c */
    NODE_ARGUMENT,  /* text=a; for "*a" and "**a" the text is "*" and "**" */
    NODE_CLASS,     /* class `text` with the arguments a and the body b */
    NODE_FUNCTION,  /* function `text` with the parameters a and the body b */
    NODE_ASSIGN,    /* a = b; `text` is "=" or "+=" */
    NODE_STATEMENT, /* an expression a that is used as a statement */
    NODE_RETURN,
    NODE_FOR, /* for a in c: b */
    NODE_IF,  /* if a: b, and c after else */
    NODE_BLOCK,
} python_node_kind;

typedef struct python_node {
    python_node_kind kind;
    int line, file;
    const char *text;
    double number;
    struct python_node *a, *b, *c, *next;
    const char *from, *to; /* begin and end of the source text of a call */
} python_node;

/* Parses the text of a file. Returns the first statement; `next` links the statements. The nodes
 * are in `memory`. Text that is not Python gives meaningless nodes, but no error. `file` is stored
 * in each node. *is_full becomes true if memory is exhausted. */
python_node *python_parse(memory_arena *memory, const char *text, size_t size, int file,
                          bool *is_full);

/* Returns the name of a variable or a member; "" for other nodes and for NULL. */
const char *python_name_of(const python_node *n);

#endif
