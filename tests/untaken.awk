# untaken.awk - compares gcovr's report of branches (its second file) with tests/untaken.txt (its
# first), and fails unless each line that has branches which no test takes is in the list, and each
# line of the list has such branches.

function trimmed(text) {
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    return text
}

function complain(text) {
    print text
    failed++
}

# "..." stands for any text.
function matches(text, pattern,    pieces, count, i, at) {
    count = split(pattern, pieces, /\.\.\./)
    at = length(pieces[1])
    if (substr(text, 1, at) != pieces[1]) return 0
    text = substr(text, at + 1)
    for (i = 2; i < count; i++) {
        at = index(text, pieces[i])
        if (!at) return 0
        text = substr(text, at + length(pieces[i]))
    }
    at = length(text) - length(pieces[count]) + 1
    return at > 0 && substr(text, at) == pieces[count]
}

# The entry that explains a line of a file: its own, unless another line has it, or a pattern.
function explanation(file, text,    i) {
    for (i = 1; i <= entries; i++)
        if (files[i] == file && texts[i] == text && !used[i]) return i
    for (i = 1; i <= entries; i++)
        if (files[i] == file && texts[i] ~ /\.\.\./ && matches(text, texts[i])) return i
    return 0
}

function read_source(file,    line) {
    if (file in read) return
    read[file] = 1
    while ((getline line < file) > 0) source[file, ++lines[file]] = trimmed(line)
    close(file)
}

FNR == NR && /^#/ { if (!reason) luck = /^#\?/; reason = 1; next }
FNR == NR && /^[^ ]/ { section = $0; reason = explained = 0; next }
FNR == NR && NF {
    if (reason) explained = section
    reason = 0
    if (!section || explained != section) complain(FILENAME ":" FNR ": no file, or no reason")
    entries++
    files[entries] = section
    texts[entries] = trimmed($0)
    places[entries] = FILENAME ":" FNR
    by_luck[entries] = luck
}
FNR == NR { next }

NF == 5 && $5 ~ /^[0-9,]+$/ {
    read_source($1)
    count = split($5, numbers, ",")
    for (i = 1; i <= count; i++) {
        text = source[$1, numbers[i]]
        entry = explanation($1, text)
        if (entry) used[entry] = 1
        else complain($1 ":" numbers[i] ": untaken, without a reason: " text)
    }
}

END {
    for (i = 1; i <= entries; i++)
        if (!used[i] && !by_luck[i])
            complain(places[i] ": no such line with an untaken branch in " files[i] ": " texts[i])
    printf "%d lines have untaken branches and no reason, or reasons and no untaken branches\n",
           failed
    exit failed > 0
}
