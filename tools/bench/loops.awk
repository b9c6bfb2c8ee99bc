# loops.awk - finds the loops that add up products of vectors, in assembly by gcc or clang for
# x86-64 or AArch64. Prints for each loop a line "FUNCTION MULTIPLICATIONS INSTRUCTIONS STACK",
# where STACK counts the instructions that touch the stack. Then prints the instructions, each after
# a tab.
#
# Such a loop begins at a label, ends with a branch back to this label, and contains no other loop.

# True for a multiplication of full vectors whose products are added up, by the same instruction or
# a later one.
function multiplies(line) {
    return line ~ /[\t ](v?(fn?m(add|sub)[123]+ps|dpbf16ps|p(dpbusd|madd(ubsw|wd)))|mulps)\t/ ||
        line ~ /\t(fml[as]|[su]ml[as]l2?|[su]mull2?|(us|s|u)(dot|mmla)|bf(dot|mmla|mlal[bt]))\tv/
}

# True for an access by the stack pointer, or by the frame pointer if the function has a frame
# pointer.
function on_stack(line) {
    return line ~ /\(%rsp|\[sp[],]/ || (framed && line ~ /\(%rbp[,)]|\[x29[],]/)
}

function report(from, to,    i, count, all, stack, text) {
    for (i = from + 1; i <= to; i++) {
        if (code[i] ~ /^\tret/) return # the label is the end of the function
        if (code[i] !~ /^\t/) continue
        all++
        count += multiplies(code[i])
        stack += on_stack(code[i])
        text = text code[i] "\n"
    }
    if (count) printf "%s %d %d %d\n%s", name, count, all, stack, text
}

function end_of_function(    i, label, at, inner) {
    for (i = 1; i <= lines; i++)
        if (code[i] ~ /:$/) at[substr(code[i], 1, length(code[i]) - 1)] = i
        else if (code[i] ~ /^\t(j|b|[ct]bn?z).*\.L[A-Za-z0-9_]+$/) {
            label = code[i]
            sub(/.*[ \t]/, "", label)
            if (at[label] > inner) report(at[label], inner = i)
        }
    lines = framed = 0
}

/^[A-Za-z_][A-Za-z0-9_.]*:/ {
    name = $1
    sub(/[.:].*/, "", name)
    next
}
/^[ \t]+\.size/ { end_of_function() }
{ sub(/^[ \t]*#.*|[ \t]*(\/\/|# ).*/, "") } # comments
/^[ \t]*$|^[ \t]+\./ { next }
/^[ \t]+mov.*(%rsp, %rbp|x29, sp)$/ { framed = 1 }
/^[ \t]/ { # one tab before the name and one behind it
    sub(/^[ \t]+/, "\t")
    match($0, /^\t([{]vex[}] )?[^ \t]+/)
    $0 = substr($0, 1, RLENGTH) "\t" substr($0, RLENGTH + 2)
}
{ code[++lines] = $0 }
