/* python.h - reads Python as a tree. python_eval.h follows the tree; neither runs the Python. */
#ifndef CONVERT_PYTHON_H
#define CONVERT_PYTHON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"

enum { PYTHON_MOST_NESTING = 60 }; /* nesting of expressions, suites and calls */

typedef enum python_node_kind {
    NODE_OTHER,
    NODE_NAME,
    NODE_NUMBER,
    NODE_STRING,
    NODE_MEMBER, /* a.text */
    NODE_CALL,   /* a(b, ...) */
    NODE_INDEX,  /* a[b] */
    NODE_BINARY, /* a text b */
    NODE_UNARY,  /* text a */
    NODE_LIST,   /* [a, ...] */
    NODE_TUPLE,
    NODE_DICT,      /* {a, ...}: the arguments, with their keys in b */
    NODE_EACH,      /* a for b in c */
    NODE_CHOICE,    /* b if a else c */
    NODE_ARGUMENT,  /* text=a; "*" and "**" */
    NODE_CLASS,     /* class `text` with the arguments a and the body b */
    NODE_FUNCTION,  /* function `text` with the parameters a and the body b */
    NODE_ASSIGN,    /* a = b; text "=" or "+=" */
    NODE_STATEMENT, /* the expression a */
    NODE_RETURN,
    NODE_FOR, /* b for a in c */
    NODE_IF,  /* if a: b, else: c */
    NODE_BLOCK,
} python_node_kind;

typedef struct python_node {
    python_node_kind kind;
    int line, file;
    const char *text;
    double number;
    struct python_node *a, *b, *c, *next;
    const char *from, *to; /* the source text, for calls */
} python_node;

/* Reads a file's text. Returns its statements, linked by `next`, in this memory. Text that is no
 * Python becomes nodes of other kinds. Sets *is_full if memory is exhausted. */
python_node *python_parse(memory_arena *memory, const char *text, size_t size, int file,
                          bool *is_full);

/* Returns the name of a variable or a member; "" for other nodes and for NULL. */
const char *python_name_of(const python_node *n);

#endif
