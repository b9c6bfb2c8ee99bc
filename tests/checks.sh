# shellcheck shell=bash
# checks.sh - what shell tests share: a folder to write in, $work, the counts and the last line. A
# test changes to the root of the repository and reads this: . tests/checks.sh
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) # much is written and synced
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
passed=0 failed=0
only=("$@") # what the command line names; nothing: all
tried= # the command that the next failure is about, if not seen from its line

pass() { passed=$((passed + 1)); }

fail() { # WHAT: and what the program said, to $work/err and $work/out
    failed=$((failed + 1))
    echo "FAILED (line ${BASH_LINENO[1]}): $1"
    [ -z "$tried" ] || echo "    $tried"
    sed 's/^/    /' "$work/err" "$work/out" 2>/dev/null | cut -c1-300 | head -n 20
}

trim() { # TEXT: without spaces around it
    local text=$1
    text=${text#"${text%%[! ]*}"}
    echo "${text%"${text##*[! ]}"}"
}

wanted() { # NAME: is it among them?
    local name
    [ ${#only[@]} = 0 ] && return 0
    for name in "${only[@]}"; do [ "$1" = "$name" ] && return 0; done
    return 1
}

summary() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}

# What only a POSIX system has, or says in these words; tests/windows.sh sets WINDOWS.
posix() { [ -z "${WINDOWS-}" ]; }
