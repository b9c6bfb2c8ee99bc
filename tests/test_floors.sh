#!/usr/bin/env bash
# The folders of tools/ are floors: no #include leads up. tools/README.md has the list of floors and
# of what each may include; here every #include is held against it, and no two files include each
# other, however many stand between them. The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
. tests/checks.sh

# verdict DESCRIPTION FINDINGS: passes if there are none
verdict() {
    if [ -z "$2" ]; then pass; else fail "$1"$'\n'"$2"; fi
}

# "FLOOR MAY MAY ..." for each row of the table, from the lowest floor up
floors=$(sed -n 's/^| `\([^`]*\)` |.*| *\([^|]*\) |$/\1 \2/p' tools/README.md | tr -d '`,')

folder() { # of a file, as the table calls it: "base", "vit-*.c", "../examples"
    case $1 in
    tools/vit-*.c) echo 'vit-*.c' ;;
    tools/*) dirname "${1#tools/}" ;;
    examples/*) echo ../examples ;;
    *) dirname "$1" ;;
    esac
}

# "FILE INCLUDED" for each #include "..." of a file of this project, both from the root
includes() {
    local file name path
    for file in tools/*.c tools/*/*.[ch] tools/*/*/*.[ch] examples/*.[ch] examples/*/*.[ch]; do
        sed -n 's/^ *# *include *"\(.*\)".*/\1/p' "$file" | while read -r name; do
            for path in "$(dirname "$file")/$name" "$name" "tools/$name"; do
                [ -e "$path" ] || continue # a header that is generated is nowhere
                echo "$file $(realpath --relative-to=. "$path")"
                break
            done
        done
    done
}
all=$(includes)

declare -A may
while read -r floor rest; do may[$floor]=" $floor $rest "; done <<<"$floors"

verdict "each folder of tools/ has a row in tools/README.md" "$(
    for file in tools/*/*.[ch] tools/*/*/*.[ch]; do
        [ -n "${may[$(folder "$file")]-}" ] || folder "$file"
    done | sort -u
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
verdict "every #include stays on its floor, or leads to one that the table allows" "$(
    while read -r file included; do
        [ "$included" = vit.h ] && continue
        from=$(folder "$file")
        [[ ${may[$from]-} == *" $(folder "$included") "* ]] || echo "$file includes $included"
    done <<<"$all"
)"
verdict "photos.c alone decodes images, where its sandbox says" "$(
    grep ' tools/image/image_file.h$' <<<"$all" | grep -v '^tools/image/photos.c '
    grep -lE 'stbi_(load|info)|stbi__' tools/*.c tools/*/*.[ch] tools/*/*/*.[ch] |
        grep -vx tools/image/image_file.h
)"
# "tools/base owns ...; it may include ..."
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
# a source and its header are one
circles=$(sed 's/\.[ch]\( \|$\)/\1/g' <<<"$all" | awk '$1 != $2' | tsort 2>&1 >/dev/null)
verdict "no two files include each other" "$circles"

summary
