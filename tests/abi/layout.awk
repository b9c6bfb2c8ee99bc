# The declarations of vit.h, preprocessed -> a C program that prints what a compiled library and its
# users must agree on: the size of each struct, offset and size of each member, values of enums.

function print_member(text, name) {
    if (match(text, /\(\*[a-z_0-9]+\)/)) name = substr(text, RSTART + 2, RLENGTH - 3)
    else {
        sub(/\[.*/, "", text)
        if (!match(text, /[A-Za-z_0-9]+[ ]*$/)) return
        name = substr(text, RSTART, RLENGTH)
        gsub(/ /, "", name)
    }
    printf "    MEMBER(%s, %s)\n", type, name
}

function finish(    n, m, i, j, part, pieces) {
    if (kind == "enum") {
        n = split(body, part, ",")
        for (i = 1; i <= n; i++)
            if (match(part[i], /[A-Z][A-Z_0-9]+/)) printf "    VALUE(%s)\n", substr(part[i], RSTART, RLENGTH)
        return
    }
    printf "    STRUCT(%s)\n", type
    n = split(body, part, ";")
    for (i = 1; i <= n; i++) {
        if (part[i] ~ /\(\*/) print_member(part[i])
        else {
            m = split(part[i], pieces, ",")
            for (j = 1; j <= m; j++) print_member(pieces[j])
        }
    }
}

BEGIN {
    print "#include \"vit.h\"\n#include <stdio.h>"
    print "#define STRUCT(t) printf(#t \" %d\\n\", (int)sizeof(t));"
    print "#define MEMBER(t, m) printf(#t \".\" #m \" %d %d\\n\", (int)offsetof(t, m), (int)sizeof ((t *)0)->m);"
    print "#define VALUE(v) printf(#v \" = %d\\n\", (int)v);"
    print "int main(void) {"
}
{ gsub(/[ \t]+/, " ") }
/^ ?typedef (struct|enum) vit_[a-z_0-9]+ \{/ { kind = $2; type = $3; body = ""; inside = 1; next }
inside && /^ ?\} vit_/ { finish(); inside = 0 }
inside { body = body " " $0 }
END { print "    return 0;\n}" }
