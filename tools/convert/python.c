#include "convert/python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

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
    /* The number of the line, and the column in which the first token of this line begins. */
    int line, column;
} token;

typedef struct parser {
    memory_arena *memory;
    /* The next character, the end of the text, and the end of the previous token. */
    const char *at, *end, *last;
    int line, file, depth, nesting, column;
    bool is_line_start, is_full;
    token now;
} parser;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Skips spaces, comments, backslashes that join two lines, and lines without tokens. */
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
            if (!is_long) break; /* An unclosed string ends with its line. */
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

static python_node *make_node(parser *p, python_node_kind kind) {
    python_node *n = p->is_full ? NULL : memory_take(p->memory, sizeof *n);
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

/* === Expressions === A parsed expression is NULL only if memory is exhausted. */

static python_node *parse_test(parser *p);

static python_node *pair(parser *p, python_node_kind kind, const char *text, python_node *a,
                         python_node *b) {
    python_node *n = make_node(p, kind);
    if (!n) return NULL;
    if (a) n->line = a->line;
    n->text = text;
    n->a = a;
    n->b = b;
    n->from = a ? a->from : NULL;
    n->to = p->last;
    return n;
}

/* Parses any number of clauses "for x in y if z" after the element of a comprehension. */
static python_node *parse_each(parser *p, python_node *element) {
    python_node *n = element;
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

static python_node *parse_argument(parser *p, bool has_values) {
    python_node *n = make_node(p, NODE_ARGUMENT);
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

/* Parses arguments or items up to the closing bracket `close`. */
static python_node *parse_items(parser *p, const char *close, bool has_values, bool *has_comma) {
    python_node *first = NULL, **last = &first;
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

static python_node *parse_bracket(parser *p) {
    const bool round = is_token(p, "("), square = is_token(p, "[");
    python_node *n = make_node(p, round ? NODE_TUPLE : square ? NODE_LIST : NODE_DICT);
    bool has_comma = false;
    if (!n) return NULL;
    advance(p);
    n->a = parse_items(p, round ? ")" : square ? "]" : "}", !round && !square, &has_comma);
    if (round && !has_comma && n->a && !n->a->text) return n->a->a;
    return n;
}

static python_node *parse_string(parser *p) {
    python_node *n = make_node(p, NODE_STRING);
    if (!n) return NULL;
    n->text = copy_token(p);
    advance(p);
    while (p->now.kind == TOKEN_STRING) { /* Adjacent strings are parts of one string. */
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

static python_node *parse_number(parser *p) {
    python_node *n = make_node(p, NODE_NUMBER);
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

static python_node *parse_name(parser *p) {
    python_node *n = make_node(p, NODE_NAME);
    if (!n) return NULL;
    n->text = copy_token(p);
    n->from = p->now.text;
    n->to = p->now.text + p->now.size;
    advance(p);
    return n;
}

static python_node *parse_lambda(parser *p) {
    python_node *n = make_node(p, NODE_OTHER);
    int depth = p->depth;
    while (p->now.kind != TOKEN_END && p->now.kind != TOKEN_LINE &&
           !(is_token(p, ":") && p->depth <= depth))
        advance(p);
    take_token(p, ":");
    if (n) n->a = parse_test(p);
    return n;
}

static python_node *parse_atom(parser *p) {
    python_node *n;
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

static python_node *parse_postfix(parser *p) {
    const char *from = p->now.text;
    python_node *n = parse_atom(p);
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

/* Returns the precedence of an operator with two operands. Returns 0 if the token is not such an
 * operator. */
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

static python_node *parse_unary(parser *p) {
    static const char *const signs[] = { "-", "+", "~", "not", "*" };
    python_node *n, *power;
    size_t i;
    if (p->nesting >= PYTHON_MOST_NESTING) return advance(p), make_node(p, NODE_OTHER);
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

static python_node *parse_binary(parser *p, int least) {
    python_node *n = parse_unary(p), *right;
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

static python_node *parse_test(parser *p) {
    python_node *n, *choice;
    if (p->nesting >= PYTHON_MOST_NESTING) return advance(p), make_node(p, NODE_OTHER);
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

/* Parses one or more expressions with commas between them. Several expressions, as in "a, b = c",
 * become a tuple. */
static python_node *parse_row(parser *p) {
    python_node *n = parse_test(p), *tuple, **last;
    if (!n || !is_token(p, ",")) return n;
    tuple = pair(p, NODE_TUPLE, NULL, pair(p, NODE_ARGUMENT, NULL, n, NULL), NULL);
    if (!tuple || !tuple->a) return NULL;
    last = &tuple->a->next;
    while (take_token(p, ",") && p->now.kind != TOKEN_LINE && p->now.kind != TOKEN_END &&
           !is_token(p, "=")) {
        python_node *item = parse_test(p);
        *last = pair(p, NODE_ARGUMENT, NULL, item, NULL);
        if (!*last) return NULL;
        last = &(*last)->next;
    }
    return tuple;
}

/* === Statements === */

static python_node *parse_suite(parser *p, int column);

static void skip_line(parser *p) {
    while (p->now.kind != TOKEN_LINE && p->now.kind != TOKEN_END) advance(p);
    if (p->now.kind == TOKEN_LINE) advance(p);
}

/* Parses the parameters of a function up to the closing bracket. */
static python_node *parse_parameters(parser *p) {
    python_node *first = NULL, **last = &first;
    while (p->now.kind != TOKEN_END && p->now.kind != TOKEN_LINE && !is_token(p, ")")) {
        python_node *n = make_node(p, NODE_ARGUMENT);
        if (!n) return NULL;
        n->text = "";
        if (is_token(p, "*") || is_token(p, "**")) {
            advance(p);
            /* a parameter such as *args collects arguments, so a call cannot give it by name */
            n->number = 1;
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

/* Parses the body of a statement after the ":". The body is on the same line, or on indented lines
 * below it. */
static python_node *parse_body(parser *p, int column) {
    while (p->now.kind != TOKEN_LINE && p->now.kind != TOKEN_END && !is_token(p, ":")) advance(p);
    take_token(p, ":");
    /* The body is the rest of this line. */
    if (p->now.kind != TOKEN_LINE) return parse_suite(p, -2);
    advance(p);
    return p->now.column > column ? parse_suite(p, p->now.column) : NULL;
}

static python_node *parse_definition(parser *p, int column, bool is_class) {
    python_node *n = make_node(p, is_class ? NODE_CLASS : NODE_FUNCTION);
    if (!n) return NULL;
    advance(p);
    n->text = copy_token(p);
    advance(p);
    if (take_token(p, "("))
        n->a = is_class ? parse_items(p, ")", false, NULL) : parse_parameters(p);
    n->b = parse_body(p, column);
    return n;
}

static python_node *parse_if(parser *p, int column) {
    python_node *n = make_node(p, NODE_IF);
    if (!n) return NULL;
    advance(p);
    n->a = parse_test(p);
    n->b = parse_body(p, column);
    if (p->now.column != column) return n;
    if (is_token(p, "elif") && p->nesting < PYTHON_MOST_NESTING) {
        p->nesting++;
        n->c = parse_if(p, column);
        p->nesting--;
    } else if (is_token(p, "else")) {
        advance(p);
        n->c = parse_body(p, column);
    }
    return n;
}

static python_node *parse_for(parser *p, int column) {
    python_node *n = make_node(p, NODE_FOR);
    if (!n) return NULL;
    advance(p);
    n->a = make_node(p, NODE_OTHER);
    while (p->now.kind != TOKEN_END && p->now.kind != TOKEN_LINE && !is_token(p, "in")) advance(p);
    take_token(p, "in");
    n->c = parse_row(p);
    n->b = parse_body(p, column);
    return n;
}

static python_node *parse_simple(parser *p) {
    const bool returns = is_token(p, "return");
    python_node *n = make_node(p, returns ? NODE_RETURN : NODE_STATEMENT), *value;
    if (!n) return NULL;
    if (returns) advance(p);
    n->a = p->now.kind == TOKEN_LINE ? NULL : parse_row(p);
    if (take_token(p, ":") && n->a) (void)parse_test(p); /* a type annotation */
    if (!returns && n->a && p->now.kind == TOKEN_SIGN && p->now.size <= 3 &&
        p->now.text[p->now.size - 1] == '=') {
        n->kind = NODE_ASSIGN;
        n->text = p->now.size == 1 ? "=" : "+=";
        advance(p);
        value = parse_row(p);
        /* Reads a = b = c as a = c. */
        while (value && take_token(p, "=")) value = parse_row(p);
        n->b = value;
    }
    if (!take_token(p, ";")) skip_line(p);
    return n;
}

static python_node *parse_statement(parser *p, int column) {
    static const char *const blocks[] = { "with", "try", "except", "finally", "while", "else" };
    python_node *n;
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

/* Parses the statements that begin in this column or further right. If `column` is -2, parses the
 * statements on the rest of the line. */
static python_node *parse_suite(parser *p, int column) {
    python_node *first = NULL, **last = &first;
    const int line = p->now.line;
    if (p->nesting >= PYTHON_MOST_NESTING) return skip_line(p), NULL;
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

/* === Parsing a whole file === */

python_node *python_parse(memory_arena *memory, const char *text, size_t size, int file,
                          bool *is_full) {
    python_node *root;
    parser p;
    memset(&p, 0, sizeof p);
    p.memory = memory;
    p.at = p.last = text;
    p.end = text + size;
    p.line = 1;
    p.file = file;
    p.is_line_start = true;
    advance(&p);
    root = parse_suite(&p, 0);
    *is_full = p.is_full;
    return root;
}

const char *python_name_of(const python_node *n) {
    return n && (n->kind == NODE_NAME || n->kind == NODE_MEMBER) ? n->text : "";
}
