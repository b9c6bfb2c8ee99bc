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
#include "os/os.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* This file parses an author's Python as text. It then follows the constructor of each class that
 * could be the model, as far as the constructor uses plain numbers, names and loops. The modules
 * that a constructor makes count only if tensors of the checkpoint have their names. */

enum {
    MOST_NESTING = 60,    /* nesting of expressions, suites and calls */
    MOST_STEPS = 400000,  /* of one candidate */
    MOST_WORK = 64000000, /* visited statements in all */
    WORK_OF_STEP = 8,
    MOST_ITEMS = 4096,    /* of a list */
    MOST_TIMES = 128,     /* copies of an item that is repeated */
    MOST_MODULES = 20000, /* of one candidate */
    MOST_CALLS = 16,      /* of one class */
    MOST_BEST = 8,        /* candidates that fit equally well */
    MOST_MEMORY = 96 << 20,
    COPIES = 3, /* copies of a repeated module that are reported: enough to look like a list */
    SHOWN_TEXT = 96,
    WHERE_TEXT = 160,
};

/* === Nodes === */

typedef enum node_kind {
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
} node_kind;

typedef struct node {
    node_kind kind;
    int line, file;
    const char *text;
    double number;
    struct node *a, *b, *c, *next;
    const char *from, *to; /* the source text, for calls */
} node;

/* === Tokens === */

typedef enum token_kind {
    TOKEN_END,
    TOKEN_LINE,
    TOKEN_NAME,
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_SIGN,
} token_kind;

typedef struct token {
    token_kind kind;
    const char *text;
    size_t size;
    int line, column; /* column of the first token of the line */
} token;

typedef struct parser {
    memory_arena *memory;
    const char *at, *end, *last; /* last: the end of the previous token */
    int line, file, depth, nesting, column;
    bool is_line_start, is_full;
    token now;
} parser;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Skips spaces, comments, line joints, and lines without tokens. */
static void skip_space(parser *p) {
    for (; p->at < p->end; p->at++) {
        const char c = *p->at;
        if (c == '#') {
            while (p->at + 1 < p->end && p->at[1] != '\n') p->at++;
        } else if (c == '\n') {
            if (p->depth == 0 && !p->is_line_start) return;
            p->line++;
            p->column = 0;
        } else if (c == '\\' && p->at + 1 < p->end && (p->at[1] == '\n' || p->at[1] == '\r')) {
            while (p->at + 1 < p->end && *p->at != '\n') p->at++;
            p->line++;
        } else if (c == '\t') {
            p->column = p->column / 8 * 8 + 8;
        } else if (c == ' ' || c == '\r' || c == '\f') {
            p->column++;
        } else {
            return;
        }
    }
}

static void read_string(parser *p) {
    const char quote = *p->at;
    const bool is_long = p->end - p->at >= 3 && p->at[1] == quote && p->at[2] == quote;
    const int length = is_long ? 3 : 1;
    p->at += length;
    p->now.kind = TOKEN_STRING;
    p->now.text = p->at;
    for (; p->at < p->end; p->at++) {
        if (*p->at == '\n') {
            if (!is_long) break; /* an unclosed string ends with its line */
            p->line++;
        }
        if (*p->at == '\\' && p->at + 1 < p->end && p->at[1] != '\n') p->at++;
        else if (*p->at == quote &&
                 (!is_long || (p->end - p->at >= 3 && p->at[1] == quote && p->at[2] == quote)))
            break;
    }
    p->now.size = (size_t)(p->at - p->now.text);
    if (p->at < p->end && *p->at == quote) p->at += length;
    if (p->at > p->end) p->at = p->end;
}

static void read_sign(parser *p) {
    static const char *const signs[] = {
        "**=", "//=", ">>=", "<<=", "...", "**", "//", "->", ":=", "==", "!=", "<=",
        ">=",  "<<",  ">>",  "+=",  "-=",  "*=", "/=", "%=", "@=", "&=", "|=", "^=",
    };
    const size_t left = (size_t)(p->end - p->at);
    size_t i;
    p->now.kind = TOKEN_SIGN;
    p->now.size = 1;
    for (i = 0; i < COUNT(signs); i++) {
        const size_t size = strlen(signs[i]);
        if (size > left || memcmp(p->at, signs[i], size) != 0) continue;
        p->now.size = size;
        break;
    }
    if (strchr("([{", *p->at) && *p->at) p->depth++;
    if (strchr(")]}", *p->at) && *p->at && p->depth > 0) p->depth--;
    p->at += p->now.size;
}

static void read_word(parser *p) {
    p->now.kind = TOKEN_NAME;
    while (p->at < p->end && (is_letter(*p->at) || is_digit(*p->at))) p->at++;
    p->now.size = (size_t)(p->at - p->now.text);
    if (p->now.size <= 2 && p->at < p->end && (*p->at == '"' || *p->at == '\'') &&
        strspn(p->now.text, "rRbBfFuU") >= p->now.size)
        read_string(p);
}

static void read_digits(parser *p) {
    p->now.kind = TOKEN_NUMBER;
    while (p->at < p->end &&
           (is_letter(*p->at) || is_digit(*p->at) || *p->at == '.' ||
            ((*p->at == '-' || *p->at == '+') && (p->at[-1] == 'e' || p->at[-1] == 'E'))))
        p->at++;
    p->now.size = (size_t)(p->at - p->now.text);
}

static void advance(parser *p) {
    p->last = p->at;
    skip_space(p);
    p->now.text = p->at;
    p->now.size = 0;
    p->now.line = p->line;
    if (p->is_line_start) p->now.column = p->column;
    if (p->at >= p->end) {
        p->now.kind = p->is_line_start ? TOKEN_END : TOKEN_LINE;
        p->is_line_start = true;
        p->now.column = p->now.kind == TOKEN_END ? -1 : p->now.column;
    } else if (*p->at == '\n') {
        p->now.kind = TOKEN_LINE;
        p->is_line_start = true;
        p->column = 0;
        p->line++;
        p->at++;
    } else {
        p->is_line_start = false;
        if (is_letter(*p->at)) read_word(p);
        else if (is_digit(*p->at) || (*p->at == '.' && p->at + 1 < p->end && is_digit(p->at[1])))
            read_digits(p);
        else if (*p->at == '"' || *p->at == '\'') read_string(p);
        else read_sign(p);
    }
}

static bool is_token(const parser *p, const char *text) {
    return (p->now.kind == TOKEN_NAME || p->now.kind == TOKEN_SIGN) &&
           strlen(text) == p->now.size && !memcmp(p->now.text, text, p->now.size);
}

static bool take_token(parser *p, const char *text) {
    if (!is_token(p, text)) return false;
    advance(p);
    return true;
}

static node *make_node(parser *p, node_kind kind) {
    node *n = p->is_full ? NULL : memory_take(p->memory, sizeof *n);
    if (!n) return p->is_full = true, NULL;
    n->kind = kind;
    n->line = p->now.line;
    n->file = p->file;
    return n;
}

static const char *copy_token(parser *p) {
    const char *text = p->is_full ? NULL : memory_copy_text(p->memory, p->now.text, p->now.size);
    if (!text) p->is_full = true;
    return text ? text : "";
}

/* === Expressions === Each function returns NULL only if memory is exhausted. */

static node *parse_test(parser *p);

static node *pair(parser *p, node_kind kind, const char *text, node *a, node *b) {
    node *n = make_node(p, kind);
    if (!n) return NULL;
    if (a) n->line = a->line;
    n->text = text;
    n->a = a;
    n->b = b;
    n->from = a ? a->from : NULL;
    n->to = p->last;
    return n;
}

/* Parses "for x in y if z" after an element, any number of times. */
static node *parse_each(parser *p, node *element) {
    node *n = element;
    while (n && (is_token(p, "for") || is_token(p, "async"))) {
        take_token(p, "async");
        advance(p);
        n = pair(p, NODE_EACH, NULL, n, NULL);
        if (!n) return NULL;
        n->b = make_node(p, NODE_OTHER);
        while (p->now.kind != TOKEN_END && p->now.kind != TOKEN_LINE && !is_token(p, "in"))
            advance(p);
        take_token(p, "in");
        n->c = parse_test(p);
        while (take_token(p, "if")) (void)parse_test(p);
    }
    return n;
}

static node *parse_argument(parser *p, bool has_values) {
    node *n = make_node(p, NODE_ARGUMENT);
    if (!n) return NULL;
    if (is_token(p, "*") || is_token(p, "**")) {
        n->text = is_token(p, "*") ? "*" : "**";
        advance(p);
        n->a = parse_test(p);
        return n;
    }
    n->a = parse_test(p);
    if (has_values && take_token(p, ":")) {
        n->b = n->a;
        n->a = parse_test(p);
    } else if (!has_values && n->a && n->a->kind == NODE_NAME && take_token(p, "=")) {
        n->text = n->a->text;
        n->a = parse_test(p);
    }
    n->a = parse_each(p, n->a);
    return n;
}

/* Parses arguments or items up to the closing bracket. */
static node *parse_items(parser *p, const char *close, bool has_values, bool *has_comma) {
    node *first = NULL, **last = &first;
    while (p->now.kind != TOKEN_END && p->now.kind != TOKEN_LINE && !is_token(p, close)) {
        const char *before = p->now.text;
        *last = parse_argument(p, has_values);
        if (!*last) break;
        last = &(*last)->next;
        if (take_token(p, ",")) {
            if (has_comma) *has_comma = true;
        } else if (!is_token(p, close) && p->now.text == before) {
            advance(p);
        }
    }
    take_token(p, close);
    return first;
}

static node *parse_bracket(parser *p) {
    const bool round = is_token(p, "("), square = is_token(p, "[");
    node *n = make_node(p, round ? NODE_TUPLE : square ? NODE_LIST : NODE_DICT);
    bool has_comma = false;
    if (!n) return NULL;
    advance(p);
    n->a = parse_items(p, round ? ")" : square ? "]" : "}", !round && !square, &has_comma);
    if (round && !has_comma && n->a && !n->a->text) return n->a->a;
    return n;
}

static node *parse_string(parser *p) {
    node *n = make_node(p, NODE_STRING);
    if (!n) return NULL;
    n->text = copy_token(p);
    advance(p);
    while (p->now.kind == TOKEN_STRING) { /* parts of one string */
        const char *rest = copy_token(p);
        const size_t size = strlen(n->text) + strlen(rest);
        char *both = memory_take(p->memory, size + 1);
        if (!both) return p->is_full = true, NULL;
        snprintf(both, size + 1, "%s%s", n->text, rest);
        n->text = both;
        advance(p);
    }
    return n;
}

static node *parse_number(parser *p) {
    node *n = make_node(p, NODE_NUMBER);
    char digits[40];
    size_t i, used = 0;
    char *end;
    if (!n) return NULL;
    for (i = 0; i < p->now.size && used + 1 < sizeof digits; i++)
        if (p->now.text[i] != '_') digits[used++] = p->now.text[i];
    digits[used] = '\0';
    n->number = strtod(digits, &end);
    if (*end || end == digits) n->kind = NODE_OTHER;
    advance(p);
    return n;
}

static node *parse_name(parser *p) {
    node *n = make_node(p, NODE_NAME);
    if (!n) return NULL;
    n->text = copy_token(p);
    n->from = p->now.text;
    n->to = p->now.text + p->now.size;
    advance(p);
    return n;
}

static node *parse_lambda(parser *p) {
    node *n = make_node(p, NODE_OTHER);
    int depth = p->depth;
    while (p->now.kind != TOKEN_END && p->now.kind != TOKEN_LINE &&
           !(is_token(p, ":") && p->depth <= depth))
        advance(p);
    take_token(p, ":");
    if (n) n->a = parse_test(p);
    return n;
}

static node *parse_atom(parser *p) {
    node *n;
    if (p->now.kind == TOKEN_STRING) return parse_string(p);
    if (p->now.kind == TOKEN_NUMBER) return parse_number(p);
    if (is_token(p, "(") || is_token(p, "[") || is_token(p, "{")) return parse_bracket(p);
    if (take_token(p, "await")) return parse_atom(p);
    if (is_token(p, "lambda")) return parse_lambda(p);
    if (p->now.kind == TOKEN_NAME) return parse_name(p);
    n = make_node(p, NODE_OTHER);
    if (p->now.kind == TOKEN_SIGN && !strchr(")]},:;=", *p->now.text)) advance(p);
    return n;
}

static node *parse_postfix(parser *p) {
    const char *from = p->now.text;
    node *n = parse_atom(p);
    while (n) {
        if (take_token(p, ".")) {
            n = pair(p, NODE_MEMBER, NULL, n, NULL);
            if (!n) break;
            n->line = p->now.line;
            n->text = p->now.kind == TOKEN_NAME ? copy_token(p) : "";
            if (p->now.kind == TOKEN_NAME) advance(p);
        } else if (take_token(p, "(")) {
            n = pair(p, NODE_CALL, NULL, n, NULL);
            if (!n) break;
            n->b = parse_items(p, ")", false, NULL);
            n->from = from;
            n->to = p->last;
        } else if (take_token(p, "[")) {
            n = pair(p, NODE_INDEX, NULL, n, NULL);
            if (!n) break;
            n->b = parse_items(p, "]", true, NULL);
            n->from = from;
            n->to = p->last;
        } else {
            break;
        }
    }
    return n;
}

/* Returns the precedence of an operator with two operands, 0 for other tokens. */
static int strength(const parser *p, const char **text) {
    static const struct {
        const char *text;
        int strength;
    } rows[] = {
        { "or", 1 }, { "and", 2 }, { "==", 4 },  { "!=", 4 }, { "<", 4 },   { ">", 4 },
        { "<=", 4 }, { ">=", 4 },  { "in", 4 },  { "is", 4 }, { "not", 4 }, { "|", 5 },
        { "^", 6 },  { "&", 7 },   { "<<", 8 },  { ">>", 8 }, { "+", 9 },   { "-", 9 },
        { "*", 10 }, { "/", 10 },  { "//", 10 }, { "%", 10 }, { "@", 10 },  { ":=", 1 },
    };
    size_t i;
    for (i = 0; i < COUNT(rows); i++)
        if (is_token(p, rows[i].text)) return *text = rows[i].text, rows[i].strength;
    return 0;
}

static node *parse_unary(parser *p) {
    static const char *const signs[] = { "-", "+", "~", "not", "*" };
    node *n, *power;
    size_t i;
    if (p->nesting >= MOST_NESTING) return advance(p), make_node(p, NODE_OTHER);
    p->nesting++;
    for (i = 0; i < COUNT(signs) && !is_token(p, signs[i]); i++) continue;
    if (i < COUNT(signs)) {
        advance(p);
        n = pair(p, NODE_UNARY, signs[i], parse_unary(p), NULL);
    } else {
        n = parse_postfix(p);
        if (n && take_token(p, "**")) {
            power = parse_unary(p);
            n = pair(p, NODE_BINARY, "**", n, power);
        }
    }
    p->nesting--;
    return n;
}

static node *parse_binary(parser *p, int least) {
    node *n = parse_unary(p), *right;
    const char *sign;
    int found;
    while (n && (found = strength(p, &sign)) >= least && found > 0) {
        advance(p);
        if (!strcmp(sign, "not")) take_token(p, "in");
        if (!strcmp(sign, "is") && take_token(p, "not")) sign = "is not";
        right = parse_binary(p, found + 1);
        n = pair(p, NODE_BINARY, sign, n, right);
    }
    return n;
}

static node *parse_test(parser *p) {
    node *n, *choice;
    if (p->nesting >= MOST_NESTING) return advance(p), make_node(p, NODE_OTHER);
    p->nesting++;
    n = parse_binary(p, 1);
    if (n && is_token(p, "if")) {
        advance(p);
        choice = pair(p, NODE_CHOICE, NULL, parse_binary(p, 1), n);
        n = choice;
        if (n && take_token(p, "else")) n->c = parse_test(p);
    }
    p->nesting--;
    return n;
}

/* Parses expressions. Several expressions with commas between them, as in "a, b = c", are a
 * tuple. */
static node *parse_row(parser *p) {
    node *n = parse_test(p), *tuple, **last;
    if (!n || !is_token(p, ",")) return n;
    tuple = pair(p, NODE_TUPLE, NULL, pair(p, NODE_ARGUMENT, NULL, n, NULL), NULL);
    if (!tuple || !tuple->a) return NULL;
    last = &tuple->a->next;
    while (take_token(p, ",") && p->now.kind != TOKEN_LINE && p->now.kind != TOKEN_END &&
           !is_token(p, "=")) {
        node *item = parse_test(p);
        *last = pair(p, NODE_ARGUMENT, NULL, item, NULL);
        if (!*last) return NULL;
        last = &(*last)->next;
    }
    return tuple;
}

/* === Statements === */

static node *parse_suite(parser *p, int column);

static void skip_line(parser *p) {
    while (p->now.kind != TOKEN_LINE && p->now.kind != TOKEN_END) advance(p);
    if (p->now.kind == TOKEN_LINE) advance(p);
}

/* Parses the parameters of a function, up to ")". */
static node *parse_parameters(parser *p) {
    node *first = NULL, **last = &first;
    while (p->now.kind != TOKEN_END && p->now.kind != TOKEN_LINE && !is_token(p, ")")) {
        node *n = make_node(p, NODE_ARGUMENT);
        if (!n) return NULL;
        n->text = "";
        if (is_token(p, "*") || is_token(p, "**")) {
            advance(p);
            n->number = 1; /* collects other arguments, so no argument has its name */
        }
        if (p->now.kind == TOKEN_NAME) {
            n->text = copy_token(p);
            advance(p);
        } else if (!is_token(p, ",") && !is_token(p, ")")) {
            advance(p);
        }
        if (take_token(p, ":")) (void)parse_test(p);
        if (take_token(p, "=")) n->a = parse_test(p);
        *last = n;
        last = &n->next;
        take_token(p, ",");
    }
    take_token(p, ")");
    return first;
}

/* Parses the body after ":", in the same line or indented. */
static node *parse_body(parser *p, int column) {
    while (p->now.kind != TOKEN_LINE && p->now.kind != TOKEN_END && !is_token(p, ":")) advance(p);
    take_token(p, ":");
    if (p->now.kind != TOKEN_LINE) return parse_suite(p, -2); /* up to the end of the line */
    advance(p);
    return p->now.column > column ? parse_suite(p, p->now.column) : NULL;
}

static node *parse_definition(parser *p, int column, bool is_class) {
    node *n = make_node(p, is_class ? NODE_CLASS : NODE_FUNCTION);
    if (!n) return NULL;
    advance(p);
    n->text = copy_token(p);
    advance(p);
    if (take_token(p, "("))
        n->a = is_class ? parse_items(p, ")", false, NULL) : parse_parameters(p);
    n->b = parse_body(p, column);
    return n;
}

static node *parse_if(parser *p, int column) {
    node *n = make_node(p, NODE_IF);
    if (!n) return NULL;
    advance(p);
    n->a = parse_test(p);
    n->b = parse_body(p, column);
    if (p->now.column != column) return n;
    if (is_token(p, "elif") && p->nesting < MOST_NESTING) {
        p->nesting++;
        n->c = parse_if(p, column);
        p->nesting--;
    } else if (is_token(p, "else")) {
        advance(p);
        n->c = parse_body(p, column);
    }
    return n;
}

static node *parse_for(parser *p, int column) {
    node *n = make_node(p, NODE_FOR);
    if (!n) return NULL;
    advance(p);
    n->a = make_node(p, NODE_OTHER);
    while (p->now.kind != TOKEN_END && p->now.kind != TOKEN_LINE && !is_token(p, "in")) advance(p);
    take_token(p, "in");
    n->c = parse_row(p);
    n->b = parse_body(p, column);
    return n;
}

static node *parse_simple(parser *p) {
    const bool returns = is_token(p, "return");
    node *n = make_node(p, returns ? NODE_RETURN : NODE_STATEMENT), *value;
    if (!n) return NULL;
    if (returns) advance(p);
    n->a = p->now.kind == TOKEN_LINE ? NULL : parse_row(p);
    if (take_token(p, ":") && n->a) (void)parse_test(p); /* a type */
    if (!returns && n->a && p->now.kind == TOKEN_SIGN && p->now.size <= 3 &&
        p->now.text[p->now.size - 1] == '=') {
        n->kind = NODE_ASSIGN;
        n->text = p->now.size == 1 ? "=" : "+=";
        advance(p);
        value = parse_row(p);
        while (value && take_token(p, "=")) value = parse_row(p); /* a = b = c: keeps only a */
        n->b = value;
    }
    if (!take_token(p, ";")) skip_line(p);
    return n;
}

static node *parse_statement(parser *p, int column) {
    static const char *const blocks[] = { "with", "try", "except", "finally", "while", "else" };
    node *n;
    size_t i;
    if (take_token(p, "@")) return skip_line(p), make_node(p, NODE_OTHER);
    take_token(p, "async");
    if (is_token(p, "class")) return parse_definition(p, column, true);
    if (is_token(p, "def")) return parse_definition(p, column, false);
    if (is_token(p, "if")) return parse_if(p, column);
    if (is_token(p, "for")) return parse_for(p, column);
    for (i = 0; i < COUNT(blocks); i++) {
        if (!is_token(p, blocks[i])) continue;
        n = make_node(p, NODE_BLOCK);
        if (n) n->b = parse_body(p, column);
        return n;
    }
    if (is_token(p, "import") || is_token(p, "from") || is_token(p, "%") || is_token(p, "!"))
        return skip_line(p), make_node(p, NODE_OTHER);
    return parse_simple(p);
}

/* Parses the statements at this column or deeper. For column -2, parses the statements in the rest
 * of a line. */
static node *parse_suite(parser *p, int column) {
    node *first = NULL, **last = &first;
    const int line = p->now.line;
    if (p->nesting >= MOST_NESTING) return skip_line(p), NULL;
    p->nesting++;
    while (p->now.kind != TOKEN_END && !p->is_full) {
        if (p->now.kind == TOKEN_LINE) {
            advance(p);
            continue;
        }
        if (column == -2 ? p->now.line != line : p->now.column < column) break;
        *last = parse_statement(p, column == -2 ? 1 << 20 : p->now.column);
        if (!*last) break;
        last = &(*last)->next;
    }
    p->nesting--;
    return first;
}

/* === Values === */

typedef enum value_kind {
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
} value_kind;

typedef struct value {
    value_kind kind;
    double number;
    const char *text;
    const node *node;
    struct scope *scope;
    struct module *module;
    struct list *list;
} value;

/* A named value: an item of a list or a dictionary, a part of a module, an argument or a
 * variable. */
typedef struct item {
    const char *key; /* NULL: by position */
    value value;
    bool is_repeated; /* made in a loop: stands for any number of such items */
    struct item *next;
} item;

typedef struct list {
    item *first, *last;
    int count;
    int times;        /* number of times that a comprehension makes its item; 0 if unknown */
    bool is_repeated; /* has a repeated item, after which positions are unknown */
    bool is_open;     /* for arguments: an unknown dictionary may add others */
} list;

typedef struct module {
    const char *kind; /* the library's or the author's class */
    const node *own;  /* the author's class, or NULL */
    const node *at;   /* the call that made the module */
    list parts;
} module;

typedef struct scope {
    struct scope *outer;
    list names;
    const node *body; /* statements whose assignments are evaluated on demand, or NULL */
    const node *in_class;
    module *self;
    int file;
    bool is_busy;
} scope;

typedef struct call_site {
    const node *call, *function;
    int file;
} call_site;

typedef struct reader {
    memory_arena nodes, values;
    const code_file *files;
    node **roots;
    scope *globals;
    int count;
    call_site *sites;
    struct option *options;
    size_t site_count, site_capacity, option_count, option_capacity;
    int steps, work, depth, loops, modules;
    bool is_full;
} reader;

static const char *name_of(const node *n) {
    return n && (n->kind == NODE_NAME || n->kind == NODE_MEMBER) ? n->text : "";
}

static value evaluate(reader *r, scope *s, const node *n);
static bool execute(reader *r, scope *s, const node *body, value *result);

static value of_kind(value_kind kind) {
    value v = { VALUE_UNKNOWN, 0, NULL, NULL, NULL, NULL, NULL };
    v.kind = kind;
    return v;
}

static value of_number(double number) {
    value v = of_kind(VALUE_NUMBER);
    v.number = number;
    return isfinite(number) ? v : of_kind(VALUE_UNKNOWN);
}

static value of_text(value_kind kind, const char *text) {
    value v = of_kind(kind);
    v.text = text;
    return v;
}

static void *take(reader *r, size_t size) {
    void *p = memory_take(&r->values, size);
    if (!p) r->is_full = true;
    return p;
}

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static item *find_item(const list *l, const char *key, size_t length) {
    item *i, *repeated = NULL;
    for (i = l->first; i; i = i->next) {
        if (i->key && strlen(i->key) == length && !strncmp(i->key, key, length)) return i;
        if (i->is_repeated) repeated = i;
    }
    return repeated && strspn(key, "0123456789") >= length ? repeated : NULL;
}

static void put_item(reader *r, list *l, const char *key, value v) {
    item *i = key ? find_item(l, key, strlen(key)) : NULL;
    if (i && !i->is_repeated) {
        i->value = v;
        return;
    }
    if (l->count >= MOST_ITEMS || !(i = take(r, sizeof *i))) return;
    i->key = key;
    i->value = v;
    i->is_repeated = r->loops > 0 && (!key || is_digit(*key));
    if (i->is_repeated) l->is_repeated = true;
    if (l->last) l->last->next = i;
    else l->first = i;
    l->last = i;
    l->count++;
}

/* Adds a part under the next number. After a repeated part the number is unknown. */
static void put_next(reader *r, list *l, value v, bool is_repeated) {
    char number[16];
    const bool any = is_repeated || l->is_repeated;
    const char *key;
    snprintf(number, sizeof number, "%d", l->count);
    key = memory_copy_text(&r->values, number, strlen(number));
    if (!key) {
        r->is_full = true;
        return;
    }
    put_item(r, l, key, v);
    if (l->last && any) l->last->is_repeated = l->is_repeated = true;
}

static value new_list(reader *r, value_kind kind) {
    value v = of_kind(kind);
    v.list = take(r, sizeof *v.list);
    return v.list ? v : of_kind(VALUE_UNKNOWN);
}

static value new_module(reader *r, const char *kind, const node *own, const node *at) {
    value v = of_kind(VALUE_MODULE);
    if (r->modules++ >= MOST_MODULES || !(v.module = take(r, sizeof *v.module)))
        return of_kind(VALUE_UNKNOWN);
    v.module->kind = kind;
    v.module->own = own;
    v.module->at = at;
    return v;
}

static bool is_same(const value *a, const value *b) {
    if (a->kind != b->kind) return false;
    if (a->text || b->text) return a->text && b->text && !strcmp(a->text, b->text);
    return a->number >= b->number && a->number <= b->number && a->node == b->node &&
           a->module == b->module && a->list == b->list;
}

/* Returns 1 for true, 0 for false, -1 for unknown. */
static int truth(const value *v) {
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

/* Evaluates all assignments to a name, also in nested statements. The result is unknown if their
 * values differ. */
static void find_assigned(reader *r, scope *s, const node *body, const char *name, value *found,
                          int *count) {
    const node *n, *t;
    value v;
    for (n = body; n && r->work++ < MOST_WORK; n = n->next) {
        if ((n->kind == NODE_CLASS || n->kind == NODE_FUNCTION) && !strcmp(n->text, name)) {
            *found = of_kind(n->kind == NODE_CLASS ? VALUE_CLASS : VALUE_FUNCTION);
            found->node = n;
            *count = 1;
        } else if (n->kind == NODE_IF || n->kind == NODE_FOR || n->kind == NODE_BLOCK) {
            find_assigned(r, s, n->b, name, found, count);
            if (n->kind == NODE_IF) find_assigned(r, s, n->c, name, found, count);
        } else if (n->kind == NODE_ASSIGN && n->a && n->a->kind == NODE_NAME &&
                   !strcmp(n->a->text, name)) {
            v = *n->text == '+' ? of_kind(VALUE_UNKNOWN) : evaluate(r, s, n->b);
            if (++*count == 1) *found = v;
            else if (!is_same(found, &v)) *found = of_kind(VALUE_UNKNOWN);
        } else if (n->kind == NODE_ASSIGN && n->a && n->a->kind == NODE_TUPLE) {
            int place = 0;
            for (t = n->a->a; t; t = t->next, place++) {
                item *i;
                if (!t->a || t->a->kind != NODE_NAME || strcmp(t->a->text, name) != 0) continue;
                v = evaluate(r, s, n->b);
                for (i = v.kind == VALUE_LIST ? v.list->first : NULL; i && place > 0; place--)
                    i = i->next;
                *found = i && ++*count == 1 ? i->value : of_kind(VALUE_UNKNOWN);
                break;
            }
        }
    }
}

static bool look_up(reader *r, scope *s, const char *name, value *found) {
    const item *i;
    int count = 0;
    for (i = s->names.first; i; i = i->next)
        if (!strcmp(i->key, name)) return *found = i->value, true;
    if (!s->body || s->is_busy) return false;
    s->is_busy = true;
    *found = of_kind(VALUE_UNKNOWN);
    find_assigned(r, s, s->body, name, found, &count);
    s->is_busy = false;
    return count > 0;
}

static value value_of_name(reader *r, scope *s, const char *name) {
    value v = of_kind(VALUE_BOOL);
    int i;
    if (!strcmp(name, "None")) return of_kind(VALUE_NONE);
    if (!strcmp(name, "True")) return v.number = 1, v;
    if (!strcmp(name, "False")) return v;
    for (; s; s = s->outer) {
        const int file = s->file;
        if (look_up(r, s, name, &v)) return v;
        if (s->outer) continue;
        for (i = 0; i < r->count; i++) /* the name may be imported */
            if (i != file && look_up(r, &r->globals[i], name, &v)) return v;
    }
    return of_text(VALUE_NAME, name);
}

/* === Options of programs === */

/* An option that the files give. Options are sorted by name. */
typedef struct option {
    const char *name;
    const node *stated;
} option;

static bool add_option(reader *r, const char *name, const node *stated) {
    option *grown = memory_grow(r->options, sizeof *grown, r->option_count, &r->option_capacity);
    if (!grown) return false;
    r->options = grown;
    grown[r->option_count].name = name;
    grown[r->option_count++].stated = stated;
    return true;
}

/* Collects an option from parser.add_argument("--num-heads", default=4). */
static bool add_argparse(reader *r, const node *call) {
    const node *a, *given = NULL;
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

static bool has_methods(const node *own) {
    const node *n;
    for (n = own->b; n; n = n->next)
        if (n->kind == NODE_FUNCTION) return true;
    return false;
}

/* Collects options from dictionaries, from attributes of classes without methods, and from
 * argparse. */
static bool find_options(reader *r, const node *n, bool in_plain, int depth) {
    for (; n && depth < 4 * MOST_NESTING; n = n->next) {
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
    return strcmp(((const option *)a)->name, ((const option *)b)->name);
}

/* Returns the value of the option. The value is unknown if the files give several. */
static value value_of_option(reader *r, const char *name) {
    value found = of_kind(VALUE_UNKNOWN);
    size_t low = 0, high = r->option_count;
    int count = 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(r->options[middle].name, name) < 0) low = middle + 1;
        else high = middle;
    }
    for (; low < r->option_count && !strcmp(r->options[low].name, name); low++) {
        const node *stated = r->options[low].stated;
        const value v = stated ? evaluate(r, &r->globals[stated->file], stated)
                               : of_kind(VALUE_UNKNOWN);
        if (v.kind == VALUE_UNKNOWN || v.kind == VALUE_NAME) continue;
        if (++count == 1) found = v;
        else if (!is_same(&found, &v)) found = of_kind(VALUE_UNKNOWN);
    }
    return found;
}

/* === Calls === */

/* Collects the arguments of a call, and spreads out "*" and "**". */
static list collect(reader *r, scope *s, const node *arguments) {
    list all = { NULL, NULL, 0, 0, false, false };
    const int loops = r->loops;
    for (; arguments; arguments = arguments->next) {
        const char *key = arguments->text;
        const value v = evaluate(r, s, arguments->a);
        const item *i;
        r->loops = 0;
        if (key && *key == '*') {
            if (!v.list) all.is_open = true;
            for (i = v.list ? v.list->first : NULL; i; i = i->next) {
                int times = i->is_repeated ? v.list->times : 0;
                do put_item(r, &all, v.kind == VALUE_DICT ? i->key : NULL, i->value);
                while (--times > 0);
                if (all.last && v.kind == VALUE_LIST && i->is_repeated && !v.list->times)
                    all.last->is_repeated = all.is_repeated = true;
            }
        } else {
            put_item(r, &all, key, v);
        }
        r->loops = loops;
    }
    return all;
}

/* Returns the argument with this name or at this position. */
static value argument(const list *all, const char *name, int place) {
    const item *i;
    for (i = all->first; i; i = i->next)
        if (i->key ? !strcmp(i->key, name) : place-- == 0) return i->value;
    return of_kind(VALUE_UNKNOWN);
}

static void bind(reader *r, scope *s, const node *function, const list *all, bool has_self) {
    const node *n = function->a;
    const item *i;
    int place = 0;
    if (has_self && n) n = n->next;
    for (; n; n = n->next) {
        value v = of_kind(VALUE_UNKNOWN);
        bool is_given = false;
        int at = 0;
        if (n->number > 0) { /* *rest or **rest: keywords */
            v = new_list(r, VALUE_DICT);
            for (i = all->first; v.list && i; i = i->next)
                if (i->key) put_item(r, v.list, i->key, i->value);
        } else {
            for (i = all->first; i && !is_given; i = i->next) {
                if (i->key ? strcmp(i->key, n->text) != 0 : at++ != place) continue;
                v = i->value;
                is_given = true;
            }
            if (!is_given && all->is_open) v = value_of_option(r, n->text);
            else if (!is_given && n->a) v = evaluate(r, &r->globals[function->file], n->a);
            place++;
        }
        put_item(r, &s->names, n->text, v);
    }
}

static const node *method_of(reader *r, const node *own, const char *name, const node **of) {
    const node *n;
    int level;
    for (level = 0; own && level < 8; level++) {
        value base;
        for (n = own->b; n; n = n->next)
            if (n->kind == NODE_FUNCTION && !strcmp(n->text, name)) return *of = own, n;
        if (!own->a || !own->a->a || own->a->a->kind != NODE_NAME) return NULL;
        base = value_of_name(r, &r->globals[own->file], own->a->a->text);
        own = base.kind == VALUE_CLASS ? base.node : NULL;
    }
    return NULL;
}

/* Stores a constructor's arguments for the input's size or channels, even if no attribute holds
 * them. */
static void keep_input(reader *r, const scope *s, module *m) {
    static const char *const kept[][2] = {
        { "channels", "in_chans" },   { "in_channels", "in_chans" },
        { "in_chans", "in_chans" },   { "num_channels", "in_chans" },
        { "n_channels", "in_chans" }, { "image_size", "image_size" },
        { "img_size", "img_size" },
    };
    const item *i;
    size_t k;
    for (i = s->names.first; i; i = i->next)
        for (k = 0; k < COUNT(kept); k++)
            if (!strcmp(i->key, kept[k][0]) &&
                !find_item(&m->parts, kept[k][1], strlen(kept[k][1])))
                put_item(r, &m->parts, kept[k][1], i->value);
}

static value call_function(reader *r, const node *function, const node *in_class, module *self,
                           const list *all) {
    value result = of_kind(VALUE_UNKNOWN), me = of_kind(VALUE_MODULE);
    const int loops = r->loops;
    scope *s = take(r, sizeof *s);
    if (!s || r->depth >= MOST_NESTING) return result;
    r->depth++;
    r->loops = 0;
    s->outer = &r->globals[function->file];
    s->file = function->file;
    s->in_class = in_class;
    s->self = self;
    me.module = self;
    if (self && function->a) put_item(r, &s->names, function->a->text, me);
    bind(r, s, function, all, self != NULL);
    if (!execute(r, s, function->b, &result)) result = of_kind(VALUE_NONE);
    if (self && !strcmp(function->text, "__init__")) keep_input(r, s, self);
    r->loops = loops;
    r->depth--;
    return result;
}

/* Makes a module. Takes the attributes in the body of the class, then the attributes that the
 * constructor sets. */
static value instantiate(reader *r, const node *own, const node *at, const list *all) {
    value v = new_module(r, own->text, own, at);
    const node *n, *of, *constructor = method_of(r, own, "__init__", &of);
    const item *i;
    if (!v.module) return v;
    for (n = own->b; n; n = n->next)
        if (n->kind == NODE_ASSIGN && n->a && n->a->kind == NODE_NAME)
            put_item(r, &v.module->parts, n->a->text, evaluate(r, &r->globals[own->file], n->b));
    if (constructor) (void)call_function(r, constructor, of, v.module, all);
    for (i = constructor ? NULL : all->first; i; i = i->next)
        if (i->key) put_item(r, &v.module->parts, i->key, i->value);
    return v;
}

/* Returns the parameters of one of PyTorch's modules, in their order and with their defaults. */
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

static value default_of(const char *text, size_t length, reader *r) {
    const char *copy = memory_copy_text(&r->values, text, length);
    value v = of_kind(VALUE_BOOL);
    double number;
    if (!copy) return r->is_full = true, of_kind(VALUE_UNKNOWN);
    if (!strcmp(copy, "False")) return v;
    return text_read_number(copy, -1, 1e9, &number) ? of_number(number) : of_text(VALUE_TEXT, copy);
}

static void put_parameters(reader *r, module *m, const list *all) {
    const char *row = parameters_of(last_part(m->kind));
    int place = 0;
    while (*row) {
        const size_t length = strcspn(row, " "), name = strcspn(row, "= ");
        const char *key = memory_copy_text(&r->values, row, name);
        const item *i;
        bool is_given = false;
        int at = 0;
        if (!key) {
            r->is_full = true;
            return;
        }
        for (i = all->first; i && !is_given; i = i->next) {
            if (i->key ? strcmp(i->key, key) != 0 : at++ != place) continue;
            put_item(r, &m->parts, key, i->value);
            is_given = true;
        }
        if (!is_given && name < length)
            put_item(r, &m->parts, key, default_of(row + name + 1, length - name - 1, r));
        row += length + (row[length] == ' ');
        place++;
    }
}

static module *add_part(reader *r, module *m, const char *key, const char *kind) {
    const value v = new_module(r, kind, NULL, m->at);
    if (v.module) put_item(r, &m->parts, key, v);
    return v.module;
}

static void copy_part(reader *r, module *to, const char *key, const module *from,
                      const char *name) {
    const item *i = find_item(&from->parts, name, strlen(name));
    if (to && i) put_item(r, &to->parts, key, i->value);
}

/* Adds the modules that a module of torch.nn contains. */
static void put_inner(reader *r, module *m) {
    const char *kind = last_part(m->kind);
    const item *layer;
    module *inner;
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
        layer = find_item(&m->parts, "encoder_layer", 13);
        inner = layer && layer->value.kind == VALUE_MODULE ? add_part(r, m, "layers", "ModuleList")
                                                           : NULL;
        if (inner) put_next(r, &inner->parts, layer->value, true);
        put_item(r, &m->parts, "encoder_layer", of_kind(VALUE_UNKNOWN)); /* not kept */
    }
}

static void fill_container(reader *r, module *m, bool is_list, const list *all) {
    const list *from = all;
    const item *i;
    if (all->first && (is_list || all->first->value.kind == VALUE_DICT) && all->first->value.list)
        from = all->first->value.list;
    for (i = from->first; i; i = i->next) {
        const int loops = r->loops;
        r->loops = 0;
        if (i->key && !is_digit(*i->key)) put_item(r, &m->parts, i->key, i->value);
        else put_next(r, &m->parts, i->value, i->is_repeated);
        r->loops = loops;
    }
}

/* Evaluates dict(a=1) and OrderedDict([("a", 1)]). */
static value call_dict(reader *r, const list *all) {
    value v = new_list(r, VALUE_DICT);
    const item *i;
    for (i = all->first; v.list && i; i = i->next) {
        const item *pair = i->value.kind == VALUE_LIST ? i->value.list->first : NULL;
        if (i->key) put_item(r, v.list, i->key, i->value);
        for (; pair; pair = pair->next) {
            const item *key = pair->value.kind == VALUE_LIST ? pair->value.list->first : NULL;
            if (key && key->next && key->value.kind == VALUE_TEXT)
                put_item(r, v.list, key->value.text, key->next->value);
        }
    }
    return v;
}

static value call_isinstance(const value *v, const value *kind) {
    value result = of_kind(VALUE_BOOL);
    if (v->kind == VALUE_UNKNOWN || v->kind == VALUE_NAME || kind->kind != VALUE_NAME)
        return of_kind(VALUE_UNKNOWN);
    if (!strcmp(kind->text, "int") || !strcmp(kind->text, "float"))
        result.number = v->kind == VALUE_NUMBER;
    else if (!strcmp(kind->text, "tuple") || !strcmp(kind->text, "list"))
        result.number = v->kind == VALUE_LIST;
    else if (!strcmp(kind->text, "str")) result.number = v->kind == VALUE_TEXT;
    else return of_kind(VALUE_UNKNOWN);
    return result;
}

/* Calls a function or a class that the files do not define. */
static value call_library(reader *r, scope *s, const char *name, const node *call,
                          const list *all) {
    const char *last = last_part(name);
    const value first = argument(all, "", 0), second = argument(all, "", 1);
    value v;
    if (!strcmp(last, "partial")) {
        v = of_kind(VALUE_PARTIAL);
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
    if (*last < 'A' || *last > 'Z') return of_kind(VALUE_UNKNOWN);
    v = new_module(r, name, NULL, call);
    if (!v.module) return v;
    put_parameters(r, v.module, all);
    put_inner(r, v.module);
    return v;
}

static value call_value(reader *r, scope *s, value *callee, const node *call, list *all) {
    value inner;
    list joined;
    const item *i;
    switch (callee->kind) {
    case VALUE_CLASS: return instantiate(r, callee->node, call, all);
    case VALUE_FUNCTION: return call_function(r, callee->node, NULL, callee->module, all);
    case VALUE_NAME: return call_library(r, s, callee->text, call, all);
    case VALUE_PARTIAL:
        if (r->depth >= MOST_NESTING || !callee->node->b) break;
        r->depth++;
        inner = evaluate(r, callee->scope, callee->node->b->a);
        joined = collect(r, callee->scope, callee->node->b->next);
        for (i = all->first; i; i = i->next) put_item(r, &joined, i->key, i->value);
        inner = call_value(r, s, &inner, call, &joined);
        if (inner.module) inner.module->at = callee->node;
        r->depth--;
        return inner;
    default: break;
    }
    return of_kind(VALUE_UNKNOWN);
}

static bool is_super(const node *n) {
    return n->kind == NODE_CALL && n->a && n->a->kind == NODE_NAME && !strcmp(n->a->text, "super");
}

/* Follows super().__init__(...) if the author wrote the base class. */
static value call_super(reader *r, scope *s, const node *call, const list *all) {
    value base;
    const node *own = s->in_class, *of, *method;
    if (!own || !s->self || !own->a || !own->a->a) return of_kind(VALUE_UNKNOWN);
    base = evaluate(r, &r->globals[own->file], own->a->a);
    if (base.kind == VALUE_NAME && !strcmp(last_part(base.text), "Sequential"))
        fill_container(r, s->self, false, all);
    method = base.kind == VALUE_CLASS ? method_of(r, base.node, call->a->text, &of) : NULL;
    return method ? call_function(r, method, of, s->self, all) : of_kind(VALUE_UNKNOWN);
}

static value call_method(reader *r, scope *s, const value *base, const node *call, list *all) {
    const char *name = call->a->text;
    const value first = argument(all, "name", 0), second = argument(all, "module", 1);
    const node *of, *method;
    list *l = base->kind == VALUE_MODULE ? &base->module->parts : base->list;
    const item *i;
    (void)s;
    if (base->kind == VALUE_DICT && !strcmp(name, "get") && first.kind == VALUE_TEXT) {
        i = find_item(l, first.text, strlen(first.text));
        return i ? i->value : second;
    }
    if (base->kind == VALUE_TEXT) return *base;
    method = base->kind == VALUE_MODULE ? method_of(r, base->module->own, name, &of) : NULL;
    if (method) return call_function(r, method, of, base->module, all);
    if (!strcmp(name, "append") && l) {
        if (base->kind == VALUE_MODULE) put_next(r, l, first, r->loops > 0);
        else put_item(r, l, NULL, first);
    } else if (!strcmp(name, "extend") && l && first.kind == VALUE_LIST && first.list != l) {
        for (i = first.list->first; i; i = i->next) {
            if (base->kind == VALUE_MODULE) put_next(r, l, i->value, i->is_repeated);
            else put_item(r, l, NULL, i->value);
        }
    } else if (base->kind == VALUE_MODULE && first.kind == VALUE_TEXT &&
               (!strcmp(name, "add_module") || !strcmp(name, "register_module") ||
                !strcmp(name, "register_parameter") || !strcmp(name, "register_buffer"))) {
        put_item(r, l, first.text,
                 strchr(name, 'm') && strstr(name, "module")
                     ? second
                     : new_module(r, "Parameter", NULL, call));
    } else if (base->kind == VALUE_MODULE) {
        return *base; /* .to(device), .eval() */
    }
    return of_kind(VALUE_UNKNOWN);
}

static value evaluate_call(reader *r, scope *s, const node *n) {
    list all;
    value callee;
    if (n->a && n->a->kind == NODE_MEMBER && is_super(n->a->a)) {
        all = collect(r, s, n->b);
        return call_super(r, s, n, &all);
    }
    if (n->a && n->a->kind == NODE_MEMBER) {
        const value base = evaluate(r, s, n->a->a);
        if (base.kind == VALUE_MODULE || base.list || base.kind == VALUE_TEXT) {
            const item *part = base.kind == VALUE_MODULE
                                   ? find_item(&base.module->parts, n->a->text, strlen(n->a->text))
                                   : NULL;
            all = collect(r, s, n->b);
            if (!part) return call_method(r, s, &base, n, &all);
            callee = part->value;
            return call_value(r, s, &callee, n, &all);
        }
    }
    callee = evaluate(r, s, n->a);
    all = collect(r, s, n->b);
    return call_value(r, s, &callee, n, &all);
}

/* === Expressions and statements === */

static value evaluate_numbers(const char *sign, double a, double b) {
    value v = of_kind(VALUE_BOOL);
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
    return of_kind(VALUE_UNKNOWN);
}

/* Evaluates "==", "is" and their opposites. */
static value evaluate_same(const value *a, const value *b, bool is_not) {
    value v = of_kind(VALUE_BOOL);
    if (a->kind == VALUE_UNKNOWN || b->kind == VALUE_UNKNOWN || a->kind == VALUE_NAME ||
        b->kind == VALUE_NAME)
        return of_kind(VALUE_UNKNOWN);
    v.number = is_same(a, b) != is_not;
    return v;
}

/* Evaluates [a] * n and a + b. */
static value evaluate_lists(reader *r, const char *sign, const value *a, const value *b) {
    value v = new_list(r, VALUE_LIST);
    const item *i;
    if (!v.list) return v;
    for (i = a->list->first; i; i = i->next) {
        put_item(r, v.list, NULL, i->value);
        if (v.list->last && (i->is_repeated || *sign == '*'))
            v.list->last->is_repeated = v.list->is_repeated = true;
    }
    for (i = *sign == '+' && b->list ? b->list->first : NULL; i; i = i->next) {
        put_item(r, v.list, NULL, i->value);
        if (v.list->last && i->is_repeated) v.list->last->is_repeated = v.list->is_repeated = true;
    }
    return v;
}

static value evaluate_binary(reader *r, scope *s, const node *n) {
    const value a = evaluate(r, s, n->a);
    value b;
    if (!strcmp(n->text, "or") || !strcmp(n->text, "and")) {
        const int known = truth(&a);
        b = evaluate(r, s, n->b);
        if (known < 0) return of_kind(VALUE_UNKNOWN);
        return known == (*n->text == 'o') ? a : b;
    }
    b = evaluate(r, s, n->b);
    if (!strcmp(n->text, "==") || !strcmp(n->text, "is")) return evaluate_same(&a, &b, false);
    if (!strcmp(n->text, "!=") || !strcmp(n->text, "is not")) return evaluate_same(&a, &b, true);
    if (a.kind == VALUE_NUMBER && b.kind == VALUE_NUMBER)
        return evaluate_numbers(n->text, a.number, b.number);
    if (a.kind == VALUE_LIST && (b.kind == VALUE_LIST || *n->text == '*'))
        return evaluate_lists(r, n->text, &a, &b);
    return of_kind(VALUE_UNKNOWN);
}

static value evaluate_unary(reader *r, scope *s, const node *n) {
    value v = evaluate(r, s, n->a);
    int known;
    if (!strcmp(n->text, "not")) {
        known = truth(&v);
        v = of_kind(known < 0 ? VALUE_UNKNOWN : VALUE_BOOL);
        v.number = known == 0;
        return v;
    }
    if (*n->text == '-' && v.kind == VALUE_NUMBER) return of_number(-v.number);
    return *n->text == '*' ? v : of_kind(VALUE_UNKNOWN);
}

static value evaluate_items(reader *r, scope *s, const node *n) {
    value v = new_list(r, n->kind == NODE_DICT ? VALUE_DICT : VALUE_LIST);
    const node *i;
    for (i = n->a; v.list && i; i = i->next) {
        const int loops = r->loops;
        value key = i->b ? evaluate(r, s, i->b) : of_kind(VALUE_UNKNOWN), item_value;
        const bool is_each = i->a && i->a->kind == NODE_EACH;
        if (is_each) r->loops++;
        item_value = evaluate(r, s, i->a);
        if (!is_each) r->loops = 0;
        if (i->text && *i->text == '*' && item_value.list) {
            const item *inner;
            for (inner = item_value.list->first; inner; inner = inner->next)
                put_item(r, v.list, inner->key, inner->value);
        } else if (n->kind == NODE_DICT) {
            if (key.kind == VALUE_TEXT) put_item(r, v.list, key.text, item_value);
        } else {
            put_item(r, v.list, NULL, item_value);
        }
        r->loops = loops;
    }
    return v;
}

/* Returns the number of iterations of "for x in range(...)", 0 if unknown. */
static int turns_of(reader *r, scope *s, const node *range) {
    value first, last;
    if (!range || range->kind != NODE_CALL || strcmp(name_of(range->a), "range") != 0 || !range->b)
        return 0;
    first = evaluate(r, s, range->b->a);
    last = first;
    first.number = 0;
    if (range->b->next) {
        first = evaluate(r, s, range->b->a);
        last = evaluate(r, s, range->b->next->a);
        if (range->b->next->next) return 0;
    }
    if (first.kind != VALUE_NUMBER || last.kind != VALUE_NUMBER) return 0;
    return last.number - first.number >= 1 && last.number - first.number <= MOST_TIMES
               ? (int)(last.number - first.number)
               : 0;
}

/* Evaluates a comprehension, but its element only once. */
static value evaluate_each(reader *r, scope *s, const node *n) {
    value v = new_list(r, VALUE_LIST), element;
    const int loops = r->loops++;
    element = evaluate(r, s, n->a);
    if (v.list) {
        put_item(r, v.list, NULL, element);
        v.list->times = turns_of(r, s, n->c);
    }
    r->loops = loops;
    return v;
}

static value evaluate_index(reader *r, scope *s, const node *n) {
    const value base = evaluate(r, s, n->a);
    const value key = n->b ? evaluate(r, s, n->b->a) : of_kind(VALUE_UNKNOWN);
    const item *i;
    double place;
    if (base.kind == VALUE_DICT && key.kind == VALUE_TEXT) {
        i = find_item(base.list, key.text, strlen(key.text));
        return i ? i->value : of_kind(VALUE_UNKNOWN);
    }
    if (base.kind == VALUE_LIST && key.kind == VALUE_NUMBER && !base.list->is_repeated) {
        place = key.number < 0 ? key.number + base.list->count : key.number;
        for (i = base.list->first; i; i = i->next)
            if (place-- < 0.5) return i->value;
    }
    if (key.kind == VALUE_TEXT && (base.kind == VALUE_UNKNOWN || base.kind == VALUE_NAME))
        return value_of_option(r, key.text);
    return of_kind(VALUE_UNKNOWN);
}

/* Returns the value of a constant in the body of a class. */
static value value_in_class(reader *r, const node *own, const char *name) {
    const node *n;
    for (n = own->b; n; n = n->next)
        if (n->kind == NODE_ASSIGN && n->a && n->a->kind == NODE_NAME && !strcmp(n->a->text, name))
            return evaluate(r, &r->globals[own->file], n->b);
    return of_kind(VALUE_UNKNOWN);
}

static value evaluate_member(reader *r, scope *s, const node *n) {
    const value base = evaluate(r, s, n->a);
    const node *of;
    const item *i;
    value v;
    char *name;
    size_t size;
    if (base.kind == VALUE_MODULE) {
        i = find_item(&base.module->parts, n->text, strlen(n->text));
        if (i) return i->value;
        v = of_kind(VALUE_FUNCTION);
        v.module = base.module;
        v.node = method_of(r, base.module->own, n->text, &of);
        if (v.node) return v;
        return base.module->own ? of_kind(VALUE_UNKNOWN) : value_of_option(r, n->text);
    }
    if (base.kind == VALUE_CLASS) return value_in_class(r, base.node, n->text);
    if (base.kind != VALUE_UNKNOWN && base.kind != VALUE_NAME) return of_kind(VALUE_UNKNOWN);
    v = value_of_option(r, n->text);
    if (v.kind != VALUE_UNKNOWN || base.kind != VALUE_NAME) return v;
    if (!strcmp(base.text, "self")) return of_kind(VALUE_UNKNOWN);
    size = strlen(base.text) + strlen(n->text) + 2;
    if (size > 200 || !(name = take(r, size))) return of_kind(VALUE_UNKNOWN);
    snprintf(name, size, "%s.%s", base.text, n->text);
    return of_text(VALUE_NAME, name);
}

static value evaluate_choice(reader *r, scope *s, const node *n) {
    const value test = evaluate(r, s, n->a);
    const int known = truth(&test);
    const value yes = known != 0 ? evaluate(r, s, n->b) : of_kind(VALUE_UNKNOWN);
    const value no = known != 1 && n->c ? evaluate(r, s, n->c) : of_kind(VALUE_UNKNOWN);
    if (known >= 0) return known ? yes : no;
    return is_same(&yes, &no) ? yes : of_kind(VALUE_UNKNOWN);
}

static value evaluate_plain(reader *r, scope *s, const node *n) {
    switch (n->kind) {
    case NODE_NAME: return value_of_name(r, s, n->text);
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
    default: return of_kind(VALUE_UNKNOWN);
    }
}

static value evaluate(reader *r, scope *s, const node *n) {
    value v = of_kind(VALUE_UNKNOWN);
    if (!n || r->is_full || r->steps++ >= MOST_STEPS || (r->work += WORK_OF_STEP) >= MOST_WORK ||
        r->depth >= MOST_NESTING)
        return v;
    r->depth++;
    v = evaluate_plain(r, s, n);
    r->depth--;
    return v;
}

static void assign(reader *r, scope *s, const node *target, value v) {
    const node *t;
    const item *i;
    value base;
    if (target->kind == NODE_NAME) {
        put_item(r, &s->names, target->text, v);
    } else if (target->kind == NODE_MEMBER) {
        base = evaluate(r, s, target->a);
        if (base.kind == VALUE_MODULE) put_item(r, &base.module->parts, target->text, v);
    } else if (target->kind == NODE_TUPLE) {
        i = v.kind == VALUE_LIST && !v.list->is_repeated ? v.list->first : NULL;
        for (t = target->a; t; t = t->next) {
            if (t->a) assign(r, s, t->a, i ? i->value : of_kind(VALUE_UNKNOWN));
            i = i ? i->next : NULL;
        }
    }
}

static void execute_assign(reader *r, scope *s, const node *n) {
    value v = evaluate(r, s, n->b), old;
    if (!n->a) return;
    if (*n->text == '+') {
        old = evaluate(r, s, n->a);
        if (old.kind == VALUE_LIST && v.kind == VALUE_LIST) {
            v = evaluate_lists(r, "+", &old, &v);
            if (v.list && r->loops > 0) v.list->is_repeated = true;
        } else {
            v = of_kind(VALUE_UNKNOWN);
        }
    }
    assign(r, s, n->a, v);
}

/* Runs both branches if a condition is unknown; the result is unknown if one of them returns. */
static bool execute_if(reader *r, scope *s, const node *n, value *result) {
    const value test = evaluate(r, s, n->a);
    const int known = truth(&test);
    bool returned = false;
    if (known == 1) return execute(r, s, n->b, result);
    if (known == 0) return execute(r, s, n->c, result);
    returned = execute(r, s, n->c, result);
    returned = execute(r, s, n->b, result) || returned;
    if (returned) *result = of_kind(VALUE_UNKNOWN);
    return returned;
}

/* Executes statements. True after a return. */
static bool execute(reader *r, scope *s, const node *body, value *result) {
    const node *n;
    bool returned = false;
    value v;
    if (r->depth >= MOST_NESTING) return false;
    r->depth++;
    for (n = body; n && !returned && !r->is_full && r->steps++ < MOST_STEPS; n = n->next) {
        if (n->kind == NODE_ASSIGN) execute_assign(r, s, n);
        else if (n->kind == NODE_STATEMENT) (void)evaluate(r, s, n->a);
        else if (n->kind == NODE_IF) returned = execute_if(r, s, n, result);
        else if (n->kind == NODE_BLOCK) returned = execute(r, s, n->b, result);
        else if (n->kind == NODE_FOR) {
            r->loops++;
            returned = execute(r, s, n->b, result);
            r->loops--;
        } else if (n->kind == NODE_CLASS || n->kind == NODE_FUNCTION) {
            v = of_kind(n->kind == NODE_CLASS ? VALUE_CLASS : VALUE_FUNCTION);
            v.node = n;
            put_item(r, &s->names, n->text, v);
        } else if (n->kind == NODE_RETURN) {
            *result = n->a ? evaluate(r, s, n->a) : of_kind(VALUE_NONE);
            returned = true;
        }
    }
    r->depth--;
    return returned;
}

/* === The checkpoint's tensors === */

typedef struct fit {
    int matched, wrong, checked; /* number of names; of shapes that differ; of compared shapes */
} fit;

static bool has_kind(const module *m, const char *kind) {
    return !m->own && !strcmp(last_part(m->kind), kind);
}

static void check_size(const module *m, const char *key, int64_t size, fit *f) {
    const item *i = find_item(&m->parts, key, strlen(key));
    value v = i ? i->value : of_kind(VALUE_UNKNOWN);
    if (v.kind == VALUE_LIST && v.list->count == 1) v = v.list->first->value;
    if (v.kind != VALUE_NUMBER) return;
    f->checked++;
    if (v.number < (double)size || v.number > (double)size) f->wrong++;
}

static void check_shape(const module *m, const char *leaf, const checkpoint_tensor_info *t,
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

static void match_tensor(const module *m, const char *path, const checkpoint_tensor_info *t,
                         fit *f) {
    int level;
    for (level = 0; level < MOST_NESTING; level++) {
        const size_t length = strcspn(path, ".");
        const item *i;
        if (has_kind(m, "Parameter")) return;
        i = find_item(&m->parts, path, length);
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

/* Returns the length of the first `parts` parts of a name, with their dots; 0 if the name has no
 * more parts. */
static size_t prefix_length(const char *name, int parts) {
    const char *at = name;
    for (; parts > 0; parts--) {
        at = strchr(at, '.');
        if (!at) return 0;
        at++;
    }
    return (size_t)(at - name);
}

/* Compares the modules with the names after this prefix. */
static fit match_all(const checkpoint *c, const module *m, const char *prefix, size_t length) {
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
    reader *reader;
    bool has_numbers; /* the shapes agree, so other numbers in the code are used too */
    int budget;
} writer;

/* Returns a line of the code and its text: "model.py:41: nn.ReLU()". */
static const char *where_text(writer *w, const node *at) {
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
                const node *where) {
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

static bool show_value(const value *v, char text[SHOWN_TEXT]) {
    const item *i;
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

typedef void visit(void *user, const node *n);

static void walk(const node *n, int depth, int *budget, visit *each, void *user) {
    for (; n && depth<4 * MOST_NESTING && * budget> 0; n = n->next) {
        --*budget;
        each(user, n);
        walk(n->a, depth + 1, budget, each, user);
        walk(n->b, depth + 1, budget, each, user);
        walk(n->c, depth + 1, budget, each, user);
    }
}

/* The facts that the methods of one class show. */
typedef struct method_calls {
    writer *writer;
    module *module;
    const char *path;
    const char *mentioned; /* a part to look for */
    bool is_mentioned, has_plus;
    bool pre, post; /* a norm runs before a layer; after a sum */
    bool softmax, product, scale;
    const node *order_at, *softmax_at;
} method_calls;

/* Returns the part x of the module for the expression self.x; NULL for other expressions. */
static const item *own_part(const method_calls *c, const node *n) {
    if (!n || n->kind != NODE_MEMBER || !n->a || strcmp(name_of(n->a), "self") != 0) return NULL;
    return find_item(&c->module->parts, n->text, strlen(n->text));
}

static void see_plus(void *user, const node *n) {
    method_calls *c = user;
    if (n->kind == NODE_BINARY && !strcmp(n->text, "+")) c->has_plus = true;
}

static void see_number(void *user, const node *n) {
    const char **found = user;
    if (n->kind != NODE_NUMBER) return;
    if (n->number > 0.04471 && n->number < 0.04472) *found = "gelu_tanh";
    if (n->number > 1.7019 && n->number < 1.7021) *found = "quick_gelu";
}

/* Returns the form of GELU, if the constants in a function show it; otherwise NULL. */
static const char *form_of(writer *w, const node *body) {
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

static void say_activation(method_calls *c, const node *call) {
    writer *w = c->writer;
    const item *part = own_part(c, call->a);
    const char *name = last_part(part && part->value.kind == VALUE_NAME ? part->value.text
                                 : part                                 ? ""
                                                                        : name_of(call->a));
    const node *a;
    if (call->a && call->a->kind == NODE_MEMBER && !part && !strcmp(name_of(call->a->a), "self"))
        return;
    if (!is_activation(name)) return;
    if (call->a->kind == NODE_NAME) {
        const value v = value_of_name(w->reader, &w->reader->globals[call->file], name);
        const char *form = v.kind == VALUE_FUNCTION ? form_of(w, v.node->b) : NULL;
        if (form) name = form;
    }
    for (a = call->b; a; a = a->next)
        if (a->text && !strcmp(a->text, "approximate") && a->a && a->a->kind == NODE_STRING &&
            !strcmp(a->a->text, "tanh"))
            name = "gelu_tanh";
    say(w, c->path, "code.activation", name, call);
}

static bool is_norm(const item *part) {
    const char *kind = part && part->value.kind == VALUE_MODULE
                           ? last_part(part->value.module->kind)
                           : "";
    return strstr(kind, "Norm") != NULL;
}

/* Distinguishes post-norm, norm(x + layer(x)), from pre-norm, x + layer(norm(x)). */
static void see_norm_order(method_calls *c, const node *call) {
    const item *part = own_part(c, call->a);
    const node *a, *inner;
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

static void see_scale(method_calls *c, const node *n) {
    const char *name = name_of(n->kind == NODE_CALL ? n->a : n);
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
        const item *part = own_part(c, n->a);
        if (part && part->value.kind == VALUE_MODULE && has_kind(part->value.module, "Softmax"))
            c->softmax = true, c->softmax_at = n;
        if (part && part->value.kind == VALUE_MODULE && part->value.module->own) c->scale = true;
    }
}

static void see_code(void *user, const node *n) {
    method_calls *c = user;
    if (n->kind == NODE_CALL) {
        say_activation(c, n);
        see_norm_order(c, n);
    }
    see_scale(c, n);
}

static void see_mention(void *user, const node *n) {
    static const char *const all[] = {
        "getattr", "children", "named_children", "modules", "named_modules", "_modules", "__dict__",
    };
    method_calls *c = user;
    size_t i;
    if (n->kind == NODE_MEMBER && !strcmp(n->text, c->mentioned)) c->is_mentioned = true;
    for (i = 0; i < COUNT(all); i++)
        if (!strcmp(name_of(n->kind == NODE_CALL ? n->a : n), all[i])) c->is_mentioned = true;
}

/* True if a method besides the constructor uses this part, or if the class has no forward. */
static bool is_used(writer *w, const module *m, const char *part) {
    const node *of, *n, *forward = method_of(w->reader, m->own, "forward", &of);
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

/* Returns the value of the first of these attributes that is a number; 0 if none is. */
static double number_of(const module *m, const char *const *names, size_t count) {
    const item *i;
    size_t n;
    for (n = 0; n < count; n++) {
        i = find_item(&m->parts, names[n], strlen(names[n]));
        if (i && i->value.kind == VALUE_NUMBER) return i->value.number;
    }
    return 0;
}

static bool is_near(double a, double b) { return fabs(a - b) < 1e-6 * fabs(b); }

typedef struct root_search {
    writer *writer;
    module *module;
    scope *scope;
    double width, heads;
    const char *root; /* a word of attn_root; "": several */
    const node *at;
} root_search;

/* Returns the name of a width, "head_dim" or "embed_dim", if the factor is one over the root of
 * this width; otherwise NULL. */
static const char *name_root(const root_search *s, double factor) {
    const double width = factor > 0 ? (factor < 1 ? 1 / (factor * factor) : factor * factor) : 0;
    if (s->heads <= 1) return NULL;
    if (is_near(width, s->width)) return "embed_dim";
    return is_near(width * s->heads, s->width) ? "head_dim" : NULL;
}

static void see_root(void *user, const node *n) {
    root_search *s = user;
    const bool divides = n->kind == NODE_BINARY && !strcmp(n->text, "/");
    const char *root;
    value v;
    if (!divides && (n->kind != NODE_BINARY || strcmp(n->text, "*") != 0)) return;
    v = evaluate(s->writer->reader, s->scope, n->b);
    if (v.kind != VALUE_NUMBER && !divides) v = evaluate(s->writer->reader, s->scope, n->a);
    root = v.kind == VALUE_NUMBER && (v.number < 1) != divides ? name_root(s, v.number) : NULL;
    if (root && divides && *root == 'e' && n->a && n->a->kind == NODE_CALL &&
        !strcmp(name_of(n->a->a), "softmax"))
        root = "embed_dim_after";
    if (!root) return;
    s->root = s->root && strcmp(s->root, root) != 0 ? "" : root;
    s->at = n;
}

/* Reports the root by which an attention divides its scores, as its methods show it. */
static void say_root(writer *w, module *m, const node *of, const char *path, const node *softmax) {
    static const char *const heads[] = {
        "num_heads", "heads", "n_heads", "n_head", "nhead", "h", "num_attention_heads", "nb_heads",
    };
    static const char *const widths[] = { "in_features" };
    root_search s = { NULL, NULL, NULL, 0, 0, NULL, NULL };
    const item *i;
    const node *n;
    value self = of_kind(VALUE_MODULE);
    s.writer = w;
    s.module = m;
    s.heads = number_of(m, heads, COUNT(heads));
    for (i = m->parts.first; i && s.width <= 0; i = i->next)
        if (i->value.kind == VALUE_MODULE && has_kind(i->value.module, "Linear"))
            s.width = number_of(i->value.module, widths, 1);
    s.scope = take(w->reader, sizeof *s.scope);
    if (!s.scope || !w->has_numbers) return;
    s.scope->outer = &w->reader->globals[of->file];
    s.scope->file = of->file;
    self.module = m;
    put_item(w->reader, &s.scope->names, "self", self);
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
    scope *scope;
    const node *token, *mean;
    const node *norm_before, *norm_after; /* the mean */
    bool skips;                           /* the slice "1:" occurs, which drops the class token */
    bool joins;                           /* torch.cat: with a class token */
} pool_search;

static bool is_one(const node *n) { return n && n->kind == NODE_NUMBER && is_near(n->number, 1); }

/* Notes the slices x[:, 0] and x[:, 1:]. */
static void see_index(pool_search *s, const node *n) {
    const node *slice = n->b, *place = slice ? slice->next : NULL;
    if (!place || !slice->b || slice->b->kind != NODE_OTHER) return;
    if (!place->b && place->a && place->a->kind == NODE_NUMBER && !(place->a->number > 0))
        s->token = n;
    if (place->b && is_one(place->b)) s->skips = true;
}

/* Notes torch.cat, and means over tokens: x.mean(dim=1), torch.mean(x, 1). */
static void see_mean(pool_search *s, const node *n) {
    const node *a;
    if (!strcmp(name_of(n->a), "cat")) s->joins = true;
    if (strcmp(name_of(n->a), "mean") != 0 || n->a->kind != NODE_MEMBER) return;
    for (a = n->b; a; a = a->next)
        if (is_one(a->a) && (!a->text || !strcmp(a->text, "dim") || !strcmp(a->text, "axis")))
            s->mean = n;
}

/* Notes a norm: self.norm(x). */
static void see_norm(pool_search *s, const node *n) {
    value callee;
    if (!n->a || n->a->kind != NODE_MEMBER) return;
    callee = evaluate(s->writer->reader, s->scope, n->a);
    if (callee.kind == VALUE_MODULE && has_kind(callee.module, "LayerNorm"))
        *(s->mean ? &s->norm_after : &s->norm_before) = n;
}

/* Follows the statements in the branches that the constructor's arguments choose. The arguments of
 * a call come before the call. */
static void search_pool(pool_search *s, const node *n, int depth) {
    for (; n && depth < MOST_NESTING && s->writer->budget-- > 0; n = n->next) {
        int known = -1;
        if (n->kind == NODE_CHOICE || n->kind == NODE_IF) {
            const value test = evaluate(s->writer->reader, s->scope, n->a);
            known = truth(&test);
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

/* Reports how a module turns its tokens into one vector. The module is no block. */
static void say_pool(writer *w, module *m, const node *forward, const char *path) {
    pool_search s = { NULL, NULL, NULL, NULL, NULL, NULL, false, false };
    value self = of_kind(VALUE_MODULE);
    s.writer = w;
    s.scope = take(w->reader, sizeof *s.scope);
    if (!s.scope) return;
    s.scope->outer = &w->reader->globals[forward->file];
    s.scope->file = forward->file;
    self.module = m;
    put_item(w->reader, &s.scope->names, "self", self);
    search_pool(&s, forward->b, 0);
    if (!s.token == !s.mean) return;
    say(w, path, "code.pool", s.token ? "token" : "avg", s.token ? s.token : s.mean);
    if (s.mean && s.joins) say(w, path, "code.pool_prefix", s.skips ? "false" : "true", s.mean);
    if (!s.token && s.norm_after && !s.norm_before)
        say(w, path, "code.norm_after_pool", "true", s.norm_after);
}

/* Returns the last assignment to a name in these statements. */
static const node *last_assigned(const node *body, const char *name, int depth) {
    const node *n, *found = NULL, *inner;
    for (n = body; n && depth < MOST_NESTING; n = n->next) {
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
    const node *function, *at;
    const char *end;
    bool disputed;
} ends;

static void see_return(void *user, const node *n) {
    ends *e = user;
    const node *call = n->a;
    const char *name;
    if (n->kind != NODE_RETURN) return;
    if (call && call->kind == NODE_NAME) call = last_assigned(e->function->b, call->text, 0);
    name = call && call->kind == NODE_CALL ? name_of(call->a) : "";
    if (call && call->kind == NODE_CALL && call->a && call->a->kind == NODE_MEMBER &&
        !strcmp(name_of(call->a->a), "self"))
        name = "";
    if (strcmp(name, "softmax") && strcmp(name, "log_softmax") && strcmp(name, "sigmoid"))
        name = "";
    if (e->end && strcmp(e->end, name) != 0) e->disputed = true;
    e->end = name;
    e->at = call;
}

/* Reports a softmax or log_softmax if the model returns its result. */
static void say_end(writer *w, const module *m, const char *path) {
    const node *of, *forward = method_of(w->reader, m->own, "forward", &of);
    ends e = { NULL, NULL, NULL, false };
    if (!forward) return;
    e.function = forward;
    walk(forward->b, 0, &w->budget, see_return, &e);
    if (!e.end || !*e.end || e.disputed) return;
    say(w, path, !strcmp(e.end, "sigmoid") ? "code.activation" : "code.softmax", e.end, e.at);
}

static void say_calls(writer *w, module *m, const char *path) {
    const node *n, *of, *forward = method_of(w->reader, m->own, "forward", &of);
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

static bool has_weights(const module *m) {
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

static void say_values(writer *w, const module *m, const char *path) {
    const char *form = m->own ? form_of(w, m->own->b) : NULL;
    char text[SHOWN_TEXT];
    const item *i;
    say(w, path, "class", form && strstr(m->kind, "GELU") ? form : m->kind, m->at ? m->at : m->own);
    for (i = m->parts.first; i; i = i->next) {
        if (!i->key || i->value.kind == VALUE_MODULE || !show_value(&i->value, text)) continue;
        if (!w->has_numbers && (i->value.kind == VALUE_NUMBER || i->value.kind == VALUE_LIST) &&
            strcmp(i->key, "eps") != 0)
            continue;
        say(w, path, i->key, text, m->at ? m->at : m->own);
    }
}

/* Reports a module, then its parts. A repeated part is reported several times. */
static void say_module(writer *w, module *m, const char *path, int level) {
    const item *i;
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
    const node *own;
    const call_site *site; /* NULL: with its defaults */
    size_t prefix;         /* length of the prefix in the names of the tensors */
    fit fit;
} candidate;

static value build(reader *r, const candidate *c) {
    static const list none = { NULL, NULL, 0, 0, false, false };
    scope *s;
    list all;
    r->steps = r->depth = r->loops = r->modules = 0;
    if (!c->site) return instantiate(r, c->own, NULL, &none);
    s = take(r, sizeof *s);
    if (!s) return of_kind(VALUE_UNKNOWN);
    s->outer = &r->globals[c->site->file];
    s->file = c->site->file;
    if (c->site->function) {
        bind(r, s, c->site->function, &none, false);
        s->body = c->site->function->b;
    }
    all = collect(r, s, c->site->call->b);
    return instantiate(r, c->own, c->site->call, &all);
}

static void try_candidate(reader *r, const checkpoint *c, candidate *t) {
    const char *name = checkpoint_tensor(c, checkpoint_count(c) / 2)->name;
    value v;
    int parts;
    if (r->work >= MOST_WORK) return;
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

/* Returns a positive number if `a` fits better. The order is: more equal names, a call instead of
 * defaults, fewer shapes that differ, more compared shapes. */
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

static void try_class(reader *r, const checkpoint *c, const node *own, best_list *best) {
    candidate t;
    size_t i;
    int calls = 0;
    memset(&t, 0, sizeof t);
    t.own = own;
    try_candidate(r, c, &t);
    keep_best(best, &t);
    for (i = 0; i < r->site_count && t.fit.matched > 0 && calls < MOST_CALLS; i++) {
        candidate u;
        if (strcmp(name_of(r->sites[i].call->a), own->text) != 0) continue;
        memset(&u, 0, sizeof u);
        u.own = own;
        u.site = &r->sites[i];
        try_candidate(r, c, &u);
        keep_best(best, &u);
        calls++;
    }
}

static void try_classes(reader *r, const checkpoint *c, const node *body, best_list *best) {
    const node *n;
    for (n = body; n; n = n->next) {
        if (n->kind == NODE_CLASS) try_class(r, c, n, best);
        if (n->kind == NODE_IF || n->kind == NODE_BLOCK) try_classes(r, c, n->b, best);
    }
}

/* === Normalize === */

static bool read_colours(const value *v, double out[VIT_MAX_CHANS], int *count) {
    const item *i;
    *count = 0;
    if (v->kind == VALUE_NUMBER) out[(*count)++] = v->number;
    for (i = v->kind == VALUE_LIST && !v->list->is_repeated ? v->list->first : NULL; i;
         i = i->next) {
        if (i->value.kind != VALUE_NUMBER || *count >= VIT_MAX_CHANS) return *count = 0, false;
        out[(*count)++] = i->value.number;
    }
    return *count > 0;
}

/* Reads transforms.Normalize(mean, std). The result is unknown if the calls differ. */
static void read_normalize(writer *w, const call_site *site, bool *disputed) {
    reader *r = w->reader;
    code_found *out = w->out;
    candidate c;
    double mean[VIT_MAX_CHANS], std[VIT_MAX_CHANS];
    int mean_count, std_count;
    value m, s;
    scope local;
    list all;
    memset(&c, 0, sizeof c);
    memset(&local, 0, sizeof local);
    r->steps = r->depth = r->loops = r->modules = 0;
    local.outer = &r->globals[site->file];
    local.file = site->file;
    local.body = site->function ? site->function->b : NULL;
    all = collect(r, &local, site->call->b);
    m = argument(&all, "mean", 0);
    s = argument(&all, "std", 1);
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
        if (!strcmp(name_of(w->reader->sites[i].call->a), "Normalize"))
            read_normalize(w, &w->reader->sites[i], &disputed);
    if (disputed) w->out->mean_count = w->out->std_count = 0;
}

/* === Names of classes === */

/* True for names such as "classes", "CLASS_NAMES" and "labels_map". */
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

/* Returns the name of a class: an item of a list, or of {0: "cat", 1: "dog"}. */
static const char *class_at(const node *n, size_t place) {
    const bool has_text = n->a && n->a->kind == NODE_STRING && !n->text &&
                          !strpbrk(n->a->text, "\\\n\r{");
    if (n->b && (n->b->kind != NODE_NUMBER || !is_near(n->b->number + 1, (double)place + 1)))
        return NULL;
    return has_text ? n->a->text : NULL;
}

static void see_names(void *user, const node *n) {
    writer *w = user;
    code_found *out = w->out;
    struct code_names *to = &out->names[out->name_count];
    const node *items, *i;
    size_t count = 0, k;
    if (n->kind != NODE_ASSIGN || !means_classes(name_of(n->a)) || !n->b ||
        out->name_count == (int)COUNT(out->names))
        return;
    if (n->b->kind != NODE_LIST && n->b->kind != NODE_TUPLE && n->b->kind != NODE_DICT) return;
    items = n->b->a;
    for (i = items; i; i = i->next) count++;
    if (count < 2 || count > MOST_ITEMS) return;
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

/* === Everything === */

/* Collects all calls, and the function that contains each call. */
static bool find_sites(reader *r, const node *n, const node *function, int depth) {
    for (; n && depth < 4 * MOST_NESTING; n = n->next) {
        const node *inner = n->kind == NODE_FUNCTION ? n : function;
        if (n->kind == NODE_CALL && *name_of(n->a) >= 'A' && *name_of(n->a) <= 'Z') {
            call_site *grown = memory_grow(r->sites, sizeof *grown, r->site_count,
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

static bool parse_files(reader *r, report *problem) {
    int i;
    for (i = 0; i < r->count; i++) {
        parser p;
        memset(&p, 0, sizeof p);
        p.memory = &r->nodes;
        p.at = r->files[i].text;
        p.end = p.at + r->files[i].size;
        p.last = p.at;
        p.line = 1;
        p.file = i;
        p.is_line_start = true;
        advance(&p);
        r->roots[i] = parse_suite(&p, 0);
        r->globals[i].file = i;
        r->globals[i].body = r->roots[i];
        if (p.is_full) return report_fail(problem, "%s: too long to be read", r->files[i].name);
    }
    for (i = 0; i < r->count; i++)
        if (!find_sites(r, r->roots[i], NULL, 0) || !find_options(r, r->roots[i], false, 0))
            return report_no_memory(problem);
    if (r->option_count > 0)
        qsort(r->options, r->option_count, sizeof *r->options, compare_options);
    return true;
}

static void say_best(reader *r, const checkpoint *c, const best_list *best, code_found *out) {
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
        const value v = build(r, b);
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
    reader r;
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
    /* with fewer than 70 % of the names, the class may be another model that shares some of them */
    if (good && best.count > 0 && (size_t)best.items[0].fit.matched * 10 >= checkpoint_count(c) * 7)
        say_best(&r, c, &best, out);
    if (good && (r.work >= MOST_WORK || r.is_full)) /* an incomplete search shows only some facts */
        good = report_fail(problem, "%s: takes too long to be read", files[0].name);
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

/* Appends a line of code. Leaves out commands of the notebook itself, because they are no
 * Python. */
static void put_line(char *out, size_t *used, const char *line) {
    const size_t length = strlen(line), start = strspn(line, " \t");
    if (line[start] != '%' && line[start] != '!' && line[start] != '?') {
        memcpy(out + *used, line, length);
        *used += length;
    } else if (length > 0 && line[length - 1] == '\n') {
        out[(*used)++] = '\n';
    }
}

/* Appends a text of several lines. Some programs write a cell in this form. */
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
    char *paths[MOST_FILES]; /* paths of the files; files that cannot be read are not in `files` */
    code_file files[MOST_FILES];
    char *folders[MOST_FOLDERS];    /* folders that are not listed yet, in this order */
    int levels[MOST_FOLDERS];       /* of folders inside them */
    const char *places[MOST_FILES]; /* paths of `files` */
    int count, found, folder_count;
} source_list;

static bool ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), size = strlen(end);
    return length > size && !strcmp(name + length - size, end);
}

static bool is_code(const char *name) {
    return (ends_with(name, ".py") || ends_with(name, ".ipynb")) && *name != '.';
}

/* True for folders of libraries and of programs that a project uses. */
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

/* Joins the parts of a path. The result is malloc'ed; NULL if memory is exhausted. */
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

/* Lists the Python files in a folder, sorted by name. "" is the current folder. */
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

/* Adds a file. A file that cannot be read is an error only if --code names it. */
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
    for (i = 0; good && i < l->count; i++) /* the same file by another path */
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

/* Adds the file of a module, such as "models.vit", if the file is below this folder. */
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

/* Follows "from .blocks import Block" or "import models.vit as vit": looks below the file's folder,
 * and below the folder above. */
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

/* Adds the files that the added files import, and so on. */
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

/* True if the folder two levels above is the root of a repository, as for model/mnist/vit.pt. */
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

/* Handles a last norm that does not run, because no method of its class mentions it. */
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
                    ? ". Its shapes differ from those of the weights, so its numbers were not used"
                    : "");
}

static bool is_same_number(const settings *a, const settings *b, int key) {
    return a->value[key] >= b->value[key] && a->value[key] <= b->value[key];
}

void code_compare(const convert_options *o, facts *f) {
    const settings *code = &f->told.by_code;
    settings *tensors = &f->all[FROM_TENSORS];
    int key;
    /* the tensors show that there is one norm, and the code shows where it runs */
    if (code->given[SETTING_FC_NORM] && tensors->value[SETTING_FINAL_NORM] > 0 &&
        !(tensors->value[SETTING_FC_NORM] > 0)) {
        settings_put(tensors, SETTING_FINAL_NORM, 0);
        settings_put(tensors, SETTING_FC_NORM, 1);
    }
    if (code->given[SETTING_FINAL_NORM] && !code->given[SETTING_FC_NORM])
        settings_put(tensors, SETTING_FINAL_NORM, 0); /* it is stored, but does not run */
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
                    : from == FROM_MATCH ? "the pair shows"
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
