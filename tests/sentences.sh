#!/usr/bin/env bash
# sentences.sh [SEED [N [FILE...]]] - draws N sentences (150) for an editor to judge one by one. It
# prints FILE:LINE: SENTENCE. Without FILEs, 7 of 15 sentences come from pages, 4 from messages and
# help, 4 from comments outside vit.h. The same SEED draws the same sentences from the same files.
set -u
cd "$(dirname "$0")/.." || exit 2
seed=${1:-$RANDOM} n=${2:-150}
shift $(($# < 2 ? $# : 2))

# extract FILE...: prints a line for each sentence of five plain words or more: KIND, FILE:LINE,
# SENTENCE.
# The strings of tests do not count as messages.
extract() {
    awk '
    function add(text, line) { # to the current paragraph
        gsub(/[ \t]+/, " ", text)
        if (text == "" || text == " ") return
        starts[++parts] = length(all) + 1
        lines[parts] = line
        all = all text " "
    }
    function end(kind, i, at, rest, cut, word, words) { # of the paragraph: prints its sentences
        for (at = 1; at <= length(all); at += cut) {
            rest = substr(all, at)
            cut = match(rest, /[.?!][)"]? +["`(*[]?[A-Z`]/) ? RSTART + index(substr(rest, RSTART), " ") - 1 : length(rest)
            rest = substr(rest, 1, cut)
            for (i = 1; i < parts && starts[i + 1] <= at; i++) continue
            gsub(/^ +| +$/, "", rest)
            gsub(/  +/, " ", rest)
            line = lines[i]
            for (words = i = split(rest, word, " "); i > 0; i--)
                words -= word[i] !~ /^[("]?[A-Za-z][a-z]*[.,;:?!)"]*$/
            if (words >= 5)
                print (kind == "message" && FILENAME ~ /^tests/ ? "string" : kind) "\t" FILENAME ":" line "\t" rest
        }
        all = ""
        parts = 0
    }
    function page(cells, count, i) {
        if (/^ *```/) { code = !code; end("page"); return }
        if (code || /^<!--/ || /^\|[-:|]*$/) return
        if (/^\|/) {
            end("page")
            count = split($0, cells, "|")
            for (i = 1; i <= count; i++) { add(cells[i], FNR); end("page") }
            return
        }
        if (/^ *$/ || /^#/ || /^ *([-*]|[0-9]+\.) /) end("page")
        sub(/^ *([-*]|[0-9]+\.|#+) /, "")
        add($0, FNR)
    }
    function script() {
        if (!/^ *#[^!]/ || /^ *# [-=]/) { end("comment"); return }
        sub(/^ *# */, "")
        add($0, FNR)
    }
    function source(rest, text, before, stop) { # comments, and literals that follow one another
        rest = $0
        while (rest != "") {
            if (inside) {
                text = rest
                if ((stop = index(rest, "*/"))) text = substr(rest, 1, stop - 1)
                rest = stop ? substr(rest, stop + 2) : ""
                sub(/^ *\* ?/, "", text)
                if (text ~ /^[-=* ]*$/) end("comment")
                gsub(/===*|---*/, "", text)
                add(text, FNR)
                if (stop) { inside = 0; end("comment") }
            } else if (match(rest, /"([^"\\]|\\.)*"|\/\*|\/\/.*/)) {
                before = substr(rest, 1, RSTART - 1)
                text = substr(rest, RSTART, RLENGTH)
                rest = substr(rest, RSTART + RLENGTH)
                if (before !~ /^[ \t\\]*$/) end("message")
                if (text == "/*") { end("message"); inside = 1 }
                else if (text ~ /^"/) {
                    text = substr(text, 2, length(text) - 2)
                    gsub(/\\n/, " ", text)
                    gsub(/\\"/, "\"", text)
                    add(text, FNR)
                } else { end("message"); sub(/^\/\/ ?/, "", text); add(text, FNR); end("comment") }
            } else {
                if (rest !~ /^[ \t\\]*$/) end("message")
                rest = ""
            }
        }
    }
    FNR == 1 { all = ""; parts = code = inside = 0; type = FILENAME; sub(/.*\./, "", type) }
    type == "md" { page() }
    type == "sh" || type == "py" || type == "Makefile" { script() }
    type ~ /^(c|h|cpp|mjs|js|mts)$/ { source() }
    ' "$@"
}

# drawn KIND N: draws N of the sentences of that kind on standard input
drawn() {
    awk -F '\t' -v kind="$1" -v seed="$seed" '
        BEGIN { x = seed * 2654435761 % 4294967296 }
        kind == "" || $1 == kind {
            x = (x * 69069 + 12345) % 4294967296
            printf "%.0f\t%s: %s\n", x, $2, $3
        }' | sort -n | head -n "$2" | cut -f 2
}

sentences=$(if [ $# -gt 0 ]; then extract "$@"; else
    git ls-files '*.md' '*.c' '*.h' '*.cpp' '*.mjs' '*.sh' '*.py' Makefile |
        grep -v '^tests/data/\|^vit\.h$\|^models/COVERAGE' | xargs "$BASH" -c "$(declare -f extract); extract \"\$@\"" -
fi)
echo "seed $seed, $(grep -c . <<<"$sentences") sentences" >&2
if [ $# -gt 0 ]; then drawn "" "$n" <<<"$sentences"; else
    drawn page $((n * 7 / 15)) <<<"$sentences"
    drawn message $((n * 4 / 15)) <<<"$sentences"
    drawn comment $((n - n * 7 / 15 - n * 4 / 15)) <<<"$sentences"
fi
