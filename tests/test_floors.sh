#!/usr/bin/env bash
# The folders of tools/ are layers, which tools/README.md calls floors. No #include may lead to a
# higher floor. tools/README.md lists the floors, and for each floor the floors that it may include.
# This test checks every #include against the list, and every symbol that an object file uses from
# another one. No files may include each other, directly or through others. All files except vit.h
# have the style of .clang-format. No formatter preserves vit.h's comments and tables of macros.
# The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
. tests/built.sh programs
. tests/checks.sh

# verdict DESCRIPTION FINDINGS: passes if there are no findings
verdict() {
    if [ -z "$2" ]; then pass; else fail "$1"$'\n'"$2"; fi
}

# Each line is "FLOOR MAY MAY ...", a floor and the floors that it may include. The lowest floor
# comes first.
floors=$(sed -n 's/^| `\([^`]*\)` |.*| *\([^|]*\) |$/\1 \2/p' tools/README.md | tr -d '`,')

# includes: prints "FILE INCLUDED" for each #include "..." of a file of this project. Both paths
# begin at the root
includes() {
    local file name path folder
    while IFS=: read -r file name; do
        folder=${file%/*}
        for path in "$folder/$name" "$name" "tools/$name"; do
            [ -e "$path" ] || continue # a generated header does not exist here
            echo "$file $path"
            break
        done
    done < <(grep -H '^ *# *include *"' tools/*.c tools/*/*.[ch] tools/*/*/*.[ch] examples/*.[ch] \
        examples/*/*.[ch] | sed 's/:[^"]*"\(.*\)".*/:\1/') >"$work/includes"
    cut -d ' ' -f 2 "$work/includes" | xargs realpath --relative-to=. |
        paste -d ' ' <(cut -d ' ' -f 1 "$work/includes") -
}
all=$(includes)

# leading_up: reads lines "FROM TO ...", and prints those that the table does not allow. Floors are
# named as in the table: "base", "vit-*.c", "../examples"
leading_up() {
    awk 'function floor(file) {
            if (file ~ /^tools\/vit-.*\.c$/) return "vit-*.c"
            if (file ~ /^examples\//) return "../examples"
            sub(/^tools\//, "", file)
            sub(/\/[^\/]*$/, "", file)
            return file
        }
        NR == FNR { for (i = 1; i <= NF; i++) may[$1, $i]; next }
        !((floor($1), floor($2)) in may) && $2 != "vit.h"' <(echo "$floors") -
}

verdict "includes are found: $(wc -l <<<"$all")" "$([ "$(wc -l <<<"$all")" -gt 500 ] || echo "too few")"
verdict "each folder of tools/ has a row in tools/README.md" "$(
    comm -13 <(cut -d ' ' -f 1 <<<"$floors" | sort) <(
        for file in tools/*/*.[ch] tools/*/*/*.[ch]; do
            file=${file#tools/}
            echo "${file%/*}"
        done | sort -u)
)"
verdict "a row names only floors below it" "$(
    below=' '
    while read -r floor rest; do
        for name in $rest; do
            [[ $below == *" $name "* ]] || echo "$floor: $name"
        done
        below+="$floor "
    done <<<"$floors"
)"
verdict "every #include stays on its floor, or leads to one that the table allows" \
    "$(leading_up <<<"$all")"
verdict "photos.c alone decodes images, where its sandbox says" "$(
    grep ' tools/image/image_file.h$' <<<"$all" | grep -v '^tools/image/photos.c '
    grep -lE 'stbi_(load|info)|stbi__' tools/*.c tools/*/*.[ch] tools/*/*/*.[ch] |
        grep -vx tools/image/image_file.h
)"
# For each row of the table in tools/README.md, a header of that folder must contain the sentence
# "tools/FOLDER owns ...; it may include ..." with the words of the row.
verdict "a header of each folder says what its row says" "$(
    sed -n 's/^| `\([^`]*\)` | *\(.*\) | *\([^|]*\)|$/\1|\2|\3/p' tools/README.md | tr -d '`' |
        while IFS='|' read -r floor owns rest; do
            headers=(tools/"$floor"/*.h)
            [ -e "${headers[0]}" ] || continue
            rest=${rest% }
            text="tools/$floor owns $owns; it may include ${rest:-no other floor}."
            sed 's/^ \* //' "${headers[@]}" | tr '\n' ' ' | grep -qF "$text" ||
                echo "missing: $text"
        done
)"
# references: prints "FILE OTHER SYMBOL" for each symbol that an object uses from another object.
# Every object may use the symbols of vit.h
references() {
    local object
    for object in build/plain/tools/*.o build/plain/tools/*/*.o build/plain/tools/*/*/*.o; do
        object=${object#build/plain/}
        [ ! -e "${object%.o}.c" ] || echo "build/plain/$object" # its source still exists
    done | xargs nm -A -P | sed 's/^build\/plain\/\(.*\)\.o: /\1.c /' |
        awk '$3 == "U" { used[$1 " " $2] } $3 ~ /^[TDBRC]$/ && $1 != "tools/base/vit.c" { where[$2] = $1 }
        END {
            for (use in used) {
                split(use, of, " ")
                if (of[2] in where) print of[1], where[of[2]], of[2]
            }
        }'
}
references >"$work/references"
verdict "references are found: $(wc -l <"$work/references")" \
    "$([ "$(wc -l <"$work/references")" -gt 1000 ] || echo "too few")"
verdict "every symbol is of the same floor, or of one that the table allows" \
    "$(leading_up <"$work/references")"
# A source and its header count as one file.
circles=$(sed 's/\.[ch]\( \|$\)/\1/g' <<<"$all" | awk '$1 != $2' | tsort 2>&1 >/dev/null)
verdict "no two files include each other" "$circles"

# clang-format 14 checks the style. Other versions of clang-format give different results.
formatter=$(command -v clang-format-14 || command -v clang-format)
if [[ $($formatter --version 2>/dev/null) == *"version 14."* ]]; then
    verdict "not as clang-format writes it" \
        "$(git ls-files tools tests examples | grep -E '\.(c|h|cpp)$' |
            xargs "$formatter" -n 2>&1 | grep -o '^[^:]*:[0-9]*:[0-9]*: warning' | cut -d: -f1 | sort -u)"
else
    skip "the style of .clang-format" "no clang-format 14 here"
fi

summary
