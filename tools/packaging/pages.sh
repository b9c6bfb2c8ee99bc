#!/bin/sh
# pages.sh FOLDER OUT VERSION DAY - makes man pages and completions for the programs in FOLDER from
# their --help: OUT/man/man1/NAME.1, OUT/bash-completion/completions/NAME and
# OUT/zsh/site-functions/_NAME. Each command of vit-look has its own page. Writes nothing if the
# programs are for another machine. `pages.sh names` prints the paths below OUT instead.
set -eu
umask 022
export LC_ALL=C
programs="vit-bench vit-classify vit-convert vit-embed vit-evaluate vit-get vit-info vit-learn vit-look vit-run vit-search"
looks="attention tokens similarity positions filters"

if [ "${1-}" = names ]; then
    for name in $programs; do
        echo "man/man1/$name.1 bash-completion/completions/$name zsh/site-functions/_$name"
    done
    for look in $looks; do echo "man/man1/vit-look-$look.1"; done
    exit
fi
folder=$1 out=$2 version=$3 day=$4
if ! "$folder/vit-info" --version >/dev/null 2>&1; then
    echo "pages.sh: the programs do not run on this machine: no man pages, no completions" >&2
    exit
fi

# Parses a --help: usage, description, options, notes. Each option becomes an index of the arrays
# letter, name, argument and help.
# shellcheck disable=SC2016 # awk's
parse='
/^usage: / { part = "usage"; sub(/^usage: /, "") }
part == "usage" && /^$/ { part = "text"; next }
part == "text" && /^options:$/ { part = "options"; next }
part == "options" && /^$/ { part = "notes"; next }
part == "usage" { sub(/^ +/, ""); usage[++usages] = $0 }
part == "text" { text[++texts] = $0 }
part == "notes" { note[++notes] = $0 }
part == "options" && match($0, /^  (-., |    )--[a-z0-9-]+/) {
    count++
    head = substr($0, 3, RLENGTH - 2)
    letter[count] = head ~ /^-[^-]/ ? substr(head, 2, 1) : ""
    sub(/^.*--/, "", head)
    name[count] = head
    rest = substr($0, RLENGTH + 1)
    argument[count] = help[count] = ""
    if (match(rest, /^ [^ ]+/)) { argument[count] = substr(rest, 2, RLENGTH - 1); rest = substr(rest, RLENGTH + 1) }
    sub(/^ +/, "", rest)
    help[count] = rest
    next
}
part == "options" { sub(/^ +/, ""); help[count] = help[count] (help[count] == "" ? "" : " ") $0 }
function is_file(word) {
    return word ~ /[.]/ || word ~ /^(FILE|DIR|TRAIN|OUT|IMAGES|FOLDER)$/
}
'

# shellcheck disable=SC2016
man='
function roff(line) {
    gsub(/\\/, "\\e", line)
    gsub(/-/, "\\-", line)
    if (line ~ /^[.\x27]/) line = "\\&" line
    return line
}
function fill(lines, n,    i, ended, kept) {
    for (i = 1; i <= n; i++) {
        if (lines[i] ~ /^Exit status: /) {
            if (kept) print ".fi"
            print ".SH EXIT STATUS"
            sub(/^Exit status: /, "", lines[i])
            kept = ended = 0
        }
        if (lines[i] == "") { ended = i > 1; continue }
        if (lines[i] ~ /^ / && !kept) { print ".PP"; print ".nf"; kept = 1; ended = 0 }
        else if (lines[i] !~ /^ / && kept) { print ".fi"; print ".PP"; kept = ended = 0 }
        if (ended && !kept) print ".PP"
        print roff(lines[i])
        ended = lines[i] ~ /[.:]$/
    }
    if (kept) print ".fi"
}
END {
    title = name_of
    gsub(/ /, "-", title)
    print ".TH " toupper(roff(title)) " 1 \"" day "\" \"vit.h " version "\" \"vit.h\""
    summary = text[1] " " text[2]
    sub(/[.:]( .*)?$/, "", summary)
    print ".SH NAME"
    print roff(title) " \\- " roff(tolower(substr(summary, 1, 1)) substr(summary, 2))
    print ".SH SYNOPSIS"
    print ".nf"
    for (i = 1; i <= usages; i++) print roff(usage[i])
    print ".fi"
    print ".SH DESCRIPTION"
    fill(text, texts)
    print ".SH OPTIONS"
    for (i = 1; i <= count; i++) {
        print ".TP"
        print (letter[i] ? "\\fB\\-" letter[i] "\\fR, " : "") "\\fB" roff("--" name[i]) "\\fR" \
              (argument[i] == "" ? "" : " \\fI" roff(argument[i]) "\\fR")
        print roff(help[i])
    }
    if (notes && note[1] !~ /^Exit status/) print ".SH NOTES"
    fill(note, notes)
}
'

# Prints three lists: all options, options whose value is a file, options with any other value.
# shellcheck disable=SC2016
words='
END {
    for (i = 1; i <= count; i++) {
        both = "--" name[i] (letter[i] ? " -" letter[i] : "")
        all = all " " both
        gsub(/ /, "|", both)
        if (argument[i] != "" && is_file(argument[i])) files = files (files ? "|" : "") both
        else if (argument[i] != "") others = others (others ? "|" : "") both
    }
    print substr(all, 2)
    print files
    print others
}
'

# shellcheck disable=SC2016
arguments='
function plain(line) {
    gsub(/[\\\[\]:]/, "\\\\&", line)
    gsub(/\x27/, "\x27\\\x27\x27", line)
    return line
}
END {
    for (i = 1; i <= count; i++) {
        value = argument[i] == "" ? "" : ":" plain(argument[i]) ":" (is_file(argument[i]) ? "_files" : " ")
        line = letter[i] ? "\x27*\x27{-" letter[i] ",--" name[i] "}\x27" : "\x27*--" name[i]
        print "        " line "[" plain(help[i]) "]" value "\x27 \\"
    }
    print "        \x27*:file:_files\x27"
}
'

# help NAME [COMMAND] PROGRAM-OF-AWK
help() {
    # shellcheck disable=SC2086 # NAME may be "vit-look tokens"
    "$folder"/$1 --help | awk -v name_of="$1" -v day="$day" -v version="$version" "$parse$2"
}

# bash_case NAME: prints the code that completes a word of a program, or of one of its commands
bash_case() {
    help "$1" "$words" | {
        read -r all
        read -r files
        read -r others
        echo "    case \$before in"
        [ -z "$files" ] || echo "    $files) mapfile -t COMPREPLY < <(compgen -f -- \"\$word\"); return ;;"
        [ -z "$others" ] || echo "    $others) return ;;"
        echo "    esac"
        echo "    case \$word in"
        echo "    -*) mapfile -t COMPREPLY < <(compgen -W '$all' -- \"\$word\") ;;"
        echo "    *) mapfile -t COMPREPLY < <(compgen -f -- \"\$word\") ;;"
        echo "    esac"
    }
}

bash_file() { # NAME
    function=_$(echo "$1" | tr - _)
    echo "# bash completion of $1"
    echo "$function() {"
    echo "    local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]}"
    echo "    COMPREPLY=()"
    if [ "$1" = vit-look ]; then
        echo "    if [ \"\$COMP_CWORD\" = 1 ]; then"
        echo "    mapfile -t COMPREPLY < <(compgen -W '$looks --help --version' -- \"\$word\"); return; fi"
        echo "    case \${COMP_WORDS[1]} in"
        for look in $looks; do
            echo "    $look)"
            bash_case "vit-look $look"
            echo "    ;;"
        done
        echo "    esac"
    else
        bash_case "$1"
    fi
    echo "}"
    echo "complete -o filenames -F $function $1"
}

zsh_file() { # NAME
    echo "#compdef $1"
    if [ "$1" = vit-look ]; then
        echo "if (( CURRENT == 2 )); then compadd $looks -- --help --version; return; fi"
        echo "local command=\$words[2]"
        echo "shift words; (( CURRENT-- ))"
        echo "case \$command in"
        for look in $looks; do
            printf '%s)\n    _arguments -s \\\n' "$look"
            help "vit-look $look" "$arguments"
            echo "    ;;"
        done
        echo "esac"
    else
        printf '_arguments -s \\\n'
        help "$1" "$arguments"
    fi
}

mkdir -p "$out/man/man1" "$out/bash-completion/completions" "$out/zsh/site-functions"
for name in $programs; do
    help "$name" "$man" >"$out/man/man1/$name.1"
    bash_file "$name" >"$out/bash-completion/completions/$name"
    zsh_file "$name" >"$out/zsh/site-functions/_$name"
done
for look in $looks; do help "vit-look $look" "$man" >"$out/man/man1/vit-look-$look.1"; done
