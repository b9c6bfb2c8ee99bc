# shellcheck shell=bash
# checks.sh - the common parts of shell tests: the temporary folder $work, the counts of checks, and
# the line with the counts at the end. A test changes to the root of the repository and sources
# this: . tests/checks.sh
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) # in memory: tests write and sync much
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
declare -A assertions=() # key: the lines of its callers; value: 1 if it failed
added=0 skipped=0 case=
script=$PWD/tests/${0##*/}
only=("$@") # words of the command line; none: all
tried= # the command to report in the next failure, unless its line shows it

# Each line of the source that checks a result counts once, even if it runs often. A check in a loop
# over several cases (see `wanted`) counts once for each case. A check in a function counts once for
# each line that calls the function. Such a line has passed if it never failed.
pass() { : "${assertions["$case ${FUNCNAME[*]:1} ${BASH_LINENO[*]}"]:=0}"; }

fail() { # WHAT: prints it, with the program's $work/err and $work/out
    assertions["$case ${FUNCNAME[*]:1} ${BASH_LINENO[*]}"]=1
    echo "FAILED (line ${BASH_LINENO[1]}): $1"
    [ -z "$tried" ] || echo "    $tried"
    sed 's/^/    /' "$work/err" "$work/out" 2>/dev/null | cut -c1-300 | head -n 20
}

skip() { # WHAT WHY: a part that cannot run here
    skipped=$((skipped + 1))
    echo "SKIPPED $1: $2"
}

have() { # COMMAND WHAT: true if COMMAND is installed; else skips WHAT
    command -v "$1" >/dev/null && return
    skip "$2" "no $1 here"
    return 1
}

terminal() { # WHAT: true if `script` can make a terminal; else skips WHAT
    have script "$1" || return
    script -qec true /dev/null >/dev/null 2>&1 </dev/null && return
    skip "$1" "no pseudo-terminals here"
    return 1
}

check() { # WHAT COMMAND...: passes if the command succeeds
    local what=$1
    shift
    tried=$*
    if "$@" >"$work/out" 2>"$work/err"; then pass; else fail "$what"; fi
}

adds() { # COMMAND...: runs a test, and adds its counts; $work/log has its output
    local last
    tried=$*
    "$@" >"$work/log" 2>&1
    last=$(tail -n 1 "$work/log" | tr -d '\r')
    if [[ $last =~ ^([0-9]+)\ passed,\ 0\ failed ]]; then
        added=$((added + BASH_REMATCH[1]))
    else
        tail -n 20 "$work/log" >"$work/out"
        : >"$work/err"
        fail "$last"
    fi
}

trim() { # TEXT: prints it without spaces around it
    local text=$1
    text=${text#"${text%%[! ]*}"}
    echo "${text%"${text##*[! ]}"}"
}

wanted() { # NAME: true if the case is chosen; the next checks belong to it
    local name
    case=$1
    [ ${#only[@]} = 0 ] && return 0
    for name in "${only[@]}"; do [ "$1" = "$name" ] && return 0; done
    return 1
}

# sections: with words on the command line, runs only the sections "# --- TITLE ---" whose titles
# contain one of the words. A line "# After: TITLE" in a selected section adds the earlier section
# TITLE. Call this function after the code that all sections need.
sections() {
    local titles
    [ ${#only[@]} = 0 ] && return 0
    titles=$(printf '%s|' "${only[@]}")
    awk -v first="${BASH_LINENO[0]}" -v titles="${titles%|}" '
        /^# --- .* -*$/ && FNR > first { section = last = FNR }
        NR == FNR && section == FNR { title[section] = $0; if ($0 ~ titles) on[section] = found = 1 }
        NR == FNR && /^# After: / { after[section] = substr($0, 10) }
        NR == FNR { next }
        FNR == 1 {
            for (section = last; section > 0; section--)
                for (above in title)
                    if (section in on && section in after && index(title[above], "# --- " after[section] " -") == 1)
                        on[above] = 1
            section = 0
        }
        { print section in on ? $0 : "" } # omitted lines stay as empty lines
        END { exit !found }' "$script" "$script" >"$work/sections" ||
        { echo "${0##*/}: no section is called ${only[*]}:" && grep '^# --- ' "$script"; } >&2
    # shellcheck disable=SC1091
    . "$work/sections"
    summary
    exit
}

summary() {
    local place passed=$added failed=0
    for place in "${!assertions[@]}"; do
        [ "${assertions[$place]}" = 1 ] && failed=$((failed + 1)) || passed=$((passed + 1))
    done
    [ $skipped = 0 ] || skipped=", $skipped skipped"
    echo "$passed passed, $failed failed${skipped#0}"
    [ $failed = 0 ] && [ "$passed$skipped" != 00 ]
}

# posix: true unless the tests run on Windows, where tests/windows.sh sets WINDOWS. Use it for
# checks that require POSIX or the messages of POSIX systems.
posix() { [ -z "${WINDOWS-}" ]; }

# --- one command after another: its output and exit status -------------------------------------

# try COMMAND...: runs the command. Its exit status is in $status, and its output is in the files
# $work/out and $work/err.
try() {
    tried="$*"
    "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

# is STATUS: passes if the exit status is STATUS. A crash or a sanitizer's report gives a status
# that no test expects.
is() { if [ "$status" = "$1" ]; then pass; else fail "exit status $status, expected $1"; fi; }
# out|err REGEX: passes if a line of the output matches
out() { if grep -Eq -- "$1" "$work/out"; then pass; else fail "stdout lacks /$1/"; fi; }
err() { if grep -Eq -- "$1" "$work/err"; then pass; else fail "stderr lacks /$1/"; fi; }
quiet() { if [ ! -s "$work/$1" ]; then pass; else fail "std$1 is not empty"; fi; } # out|err
lines() { # out|err COUNT
    local count
    count=$(wc -l <"$work/$1")
    if [ "$count" = "$2" ]; then pass; else fail "$count lines on std$1, expected $2"; fi
}
same() { if cmp -s "$1" "$2"; then pass; else fail "$1 and $2 differ"; fi; }
differ() { if cmp -s "$1" "$2"; then fail "$1 and $2 are equal"; else pass; fi; }
exists() { if [ -e "$1" ]; then pass; else fail "$1 is missing"; fi; }
missing() { if [ -e "$1" ]; then fail "$1 exists"; else pass; fi; }

make_json_check() { # builds the program that json uses
    "${CC:-cc}" -std=c99 -O1 -Itools tests/json_check.c tools/base/{json,memory,report,text}.c \
        -o "$work/json_check" ||
        fail "json_check does not compile"
}
json() { # VALUE PATH...: passes if stdout's JSON object has VALUE at PATH
    local expected=$1 found
    shift
    found=$("$work/json_check" "$@" <"$work/out")
    [ -z "$(tail -c 1 "$work/out")" ] || found+=", without the end of a line"
    if [ "$found" = "$expected" ]; then pass; else fail "JSON at '$*': '$found', no '$expected'"; fi
}
