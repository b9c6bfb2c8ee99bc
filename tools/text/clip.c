/* clip.c - reads CLIP's vocabulary and merges: bpe_simple_vocab_16e6.txt, or vocab.json with
 * merges.txt. A piece is a sequence of bytes with an id. A merge joins two neighbouring pieces to a
 * longer piece; merges of lower rank are applied first. */
#include "text/token_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/json.h"
#include "base/source.h"
#include "checkpoint/zip.h"

enum { MAX_FILE = 256 * 1024 * 1024, CLIP_MERGES = 49152 - 256 - 2 };

/* === Bytes as characters ===
 * The vocabularies of GPT-2 and CLIP write each byte as a printable character. */

static bool is_printable(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* Returns the byte that a character in a vocabulary stands for; -1 if the character stands for no
 * byte. */
static int byte_of_char(uint32_t code) {
    if (code < 256) return is_printable((int)code) ? (int)code : -1;
    code -= 256;
    if (code <= 32) return (int)code;
    if (code < 67) return 127 + (int)(code - 33);
    return code == 67 ? 0xad : -1;
}

/* Writes the bytes of a piece. The suffix at the end of a piece, such as "</w>", becomes
 * TPLAN_END_OF_WORD. Returns 0 if the piece has characters that stand for no byte. */
static size_t piece_bytes(const char *piece, size_t size, const char *suffix, unsigned char *to) {
    const size_t suffix_size = strlen(suffix);
    size_t n = 0;
    bool ends = false;
    if (suffix_size && size > suffix_size &&
        memcmp(piece + size - suffix_size, suffix, suffix_size) == 0) {
        size -= suffix_size;
        ends = true;
    }
    for (size_t i = 0, length; i < size; i += length) {
        int byte;
        length = text_utf8_length(piece + i, size - i);
        if (length == 0) return 0;
        byte = byte_of_char(text_utf8_value(piece + i, length));
        if (byte < 0) return 0;
        to[n++] = (unsigned char)byte;
    }
    if (ends) to[n++] = TPLAN_END_OF_WORD;
    return n;
}

/* True if the bytes can occur in a text. UTF-8 has no byte above 0xf4. As the last of several
 * bytes, 0xff is allowed, because it stands for the end of a word. */
static bool occurs(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i] > 0xf4 && !(bytes[i] == TPLAN_END_OF_WORD && i + 1 == size && i > 0))
            return false;
    return true;
}

bool clip_add_piece(tplan *p, const char *piece, size_t size, const char *suffix, uint32_t id) {
    unsigned char bytes[TPLAN_MAX_PIECE + 1];
    size_t n;
    if (size > TPLAN_MAX_PIECE) return false;
    n = piece_bytes(piece, size, suffix, bytes);
    if (n == 0) return false;
    if (n == 1 ? bytes[0] <= 0xf4 : occurs(bytes, n))
        tplan_add(p, &p->pieces, (const char *)bytes, n, 0, id);
    return true;
}

bool clip_add_merge(tplan *p, const char *left, size_t left_size, const char *right,
                    size_t right_size, const char *suffix, uint32_t rank) {
    unsigned char bytes[2 * TPLAN_MAX_PIECE + 2];
    size_t n, m;
    if (left_size > TPLAN_MAX_PIECE || right_size > TPLAN_MAX_PIECE) return false;
    n = piece_bytes(left, left_size, "", bytes);
    m = piece_bytes(right, right_size, suffix, bytes + n);
    if (n == 0 || m == 0) return false;
    if (occurs(bytes, n + m) && bytes[n - 1] <= 0xf4)
        tplan_add(p, &p->merges, (const char *)bytes, n + m, rank, (uint32_t)n);
    return true;
}

void clip_add_words(tplan *p, bool ignore_case) {
    static const char *const words[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        tplan_add(p, &p->words, words[i], strlen(words[i]), (uint32_t)TPLAN_NONE, 0);
    if (!ignore_case) return;
    tplan_add(p, &p->words, "'\xc5\xbf", 3, (uint32_t)TPLAN_NONE, 0);
    tplan_add(p, &p->words, "<|\xc5\xbftartoftext|>", 16, (uint32_t)TPLAN_NONE, 0);
    tplan_add(p, &p->words, CLIP_BEGIN, strlen(CLIP_BEGIN), (uint32_t)p->begin, 0);
    tplan_add(p, &p->words, CLIP_END, strlen(CLIP_END), (uint32_t)p->end, 0);
}

/* === Lines of merges === */

/* Cuts the first line, "left right", off the text. Returns false at the end of the text. *left is
 * NULL if the line has another form. */
static bool take_merge(char **at, char **left, char **right) {
    char *line = *at, *end = strchr(line, '\n'), *space;
    if (!*line) return false;
    *at = end ? end + 1 : line + strlen(line);
    if (end) *end = '\0';
    if (end && end > line && end[-1] == '\r') end[-1] = '\0';
    space = strchr(line, ' ');
    *left = space && space > line && space[1] && !strchr(space + 1, ' ') ? line : NULL;
    if (*left) {
        *space = '\0';
        *right = space + 1;
    }
    return true;
}

/* Reads at most `most` merges. If `id` is not NULL, each merge also makes a piece. These pieces get
 * the ids from *id on. */
static bool read_merges(tplan *p, char *text, uint32_t most, uint32_t *id, report *r) {
    char *left, *right;
    uint32_t rank = 0;
    int line = 0;
    for (char *start = text; rank < most && take_merge(&text, &left, &right); start = text) {
        char piece[2 * TPLAN_MAX_PIECE];
        line++;
        if (line == 1 && (id || !left || strncmp(left, "#version", 8) == 0)) continue;
        if (!*start && !*text) break; /* the last line is empty */
        if (!left || strlen(left) + strlen(right) > TPLAN_MAX_PIECE ||
            !clip_add_merge(p, left, strlen(left), right, strlen(right), "</w>", rank))
            return report_fail(r, "line %d: expected two pieces, as in \"t h\"", line);
        if (id) {
            strcpy(piece, left);
            strcat(piece, right);
            (void)clip_add_piece(p, piece, strlen(piece), "</w>", (*id)++);
        }
        rank++;
    }
    if (rank == 0) return report_fail(r, "expected one merge on each line, found no merges");
    return true;
}

/* === Files === */

bool read_text(const char *path, char **text, size_t *size, report *r) {
    unsigned char *data;
    if (!source_read_all(path, MAX_FILE, &data, size, r)) return false;
    *text = (char *)data;
    if (*size > MAX_FILE) {
        free(data);
        return report_fail(r, "%s: has more than %d bytes", path, MAX_FILE);
    }
    return true;
}

/* Inflates a .gz file with one member (RFC 1952). Replaces *text, which holds the compressed bytes,
 * by the result. */
static bool gunzip(char **text, size_t *size, report *r) {
    const unsigned char *bytes = (const unsigned char *)*text;
    const size_t all = *size;
    size_t at = 10, inflated;
    unsigned char *stream, *to;
    bool good;
    if (all < 18 || bytes[0] != 0x1f || bytes[1] != 0x8b || bytes[2] != 8 || bytes[3] & 0xe0)
        return report_fail(r, "is not a .gz file");
    if (bytes[3] & 4) at += 2 + (size_t)bytes_load16(bytes + 10);
    for (int bit = 8; bit <= 16; bit *= 2) { /* skips a name and a comment */
        if (!(bytes[3] & bit)) continue;
        while (at < all && bytes[at]) at++;
        at++;
    }
    if (bytes[3] & 2) at += 2;
    if (at + 8 > all) return report_fail(r, "the .gz file is cut short");
    inflated = bytes_load32(bytes + all - 4);
    if (inflated > MAX_FILE || inflated / 1100 > all)
        return report_fail(r, "inflates to %zu bytes, expected at most %d", inflated, MAX_FILE);
    stream = calloc(all - 8 - at + INFLATE_PADDING, 1);
    to = malloc(inflated + 1);
    if (!stream || !to) {
        free(stream);
        free(to);
        return report_no_memory(r);
    }
    memcpy(stream, bytes + at, all - 8 - at);
    good = inflate_whole(stream, all - 8 - at, to, inflated) &&
           crc32_add(0, to, inflated) == bytes_load32(bytes + all - 8);
    free(stream);
    if (!good) {
        free(to);
        return report_fail(r, "the .gz file is damaged");
    }
    to[inflated] = '\0';
    free(*text);
    *text = (char *)to;
    *size = inflated;
    return true;
}

bool clip_read_bpe(tplan *p, const char *path, report *r) {
    char *text;
    size_t size;
    uint32_t id = 0;
    bool good = true;
    if (!read_text(path, &text, &size, r)) return false;
    if (size > 2 && (unsigned char)text[0] == 0x1f) good = gunzip(&text, &size, r);
    for (int end = 0; end < 2;
         end++) /* first single bytes, in GPT-2's order; then bytes that end a word */
        for (int k = 0; k < 2; k++)
            for (int byte = 0; byte < 256; byte++) {
                char bytes[2] = { (char)byte, (char)TPLAN_END_OF_WORD };
                if (is_printable(byte) == (k != 0)) continue;
                if (byte <= 0xf4) tplan_add(p, &p->pieces, bytes, (size_t)end + 1, 0, id);
                id++;
            }
    good = good && read_merges(p, text, CLIP_MERGES, &id, r);
    free(text);
    if (!good) return report_file(r, path);
    p->num_ids = (int)id + 2;
    p->begin = (int)id;
    p->end = (int)id + 1;
    return true;
}

bool clip_read_vocab(tplan *p, const char *vocab, const char *merges, report *r) {
    json_document document;
    char *text;
    size_t size;
    bool good = true;
    if (!read_text(vocab, &text, &size, r)) return false;
    if (!json_parse(&document, text, size, true, 0, r)) {
        free(text);
        return report_file(r, vocab);
    }
    if (document.root->kind != JSON_OBJECT)
        good = report_fail(r, "expected an object of pieces and ids");
    for (const json_value *v = json_first(document.root); v && good; v = v->next) {
        const int64_t id = v->integral ? json_integer(v, -1) : -1;
        if (id < 0 || id >= 0x1000000) {
            good = report_fail(r, "the piece '%s' has no id in 0 to 16777215", v->key);
            break;
        }
        if (id >= p->num_ids) p->num_ids = (int)id + 1;
        if (strcmp(v->key, CLIP_BEGIN) == 0) p->begin = (int)id;
        else if (strcmp(v->key, CLIP_END) == 0) p->end = (int)id;
        else if (!clip_add_piece(p, v->key, strlen(v->key), "</w>", (uint32_t)id))
            good = report_fail(r, "the piece '%s' is not written in GPT-2's characters for bytes",
                               v->key);
    }
    if (good && (p->begin < 0 || p->end < 0))
        good = report_fail(r, "lacks %s or %s", CLIP_BEGIN, CLIP_END);
    json_free(&document);
    free(text);
    if (!good) return report_file(r, vocab);
    if (!read_text(merges, &text, &size, r)) return false;
    good = read_merges(p, text, UINT32_MAX, NULL, r);
    free(text);
    return good || report_file(r, merges);
}
