#!/usr/bin/env bash
# instructions.sh PROGRAM... - fails if a program has an instruction that the oldest CPU lacks
# (x86-64: SSE2 is the newest allowed; 64-bit ARM: ARMv8.0). The kernels that vit.h chooses at run
# time may have the instructions of their own tier, such as avx2. objdump disassembles the program,
# and an assembler assembles each distinct instruction for the oldest CPU or the tier. Programs must
# still have their symbols, because the name of a function shows its tier.
set -euo pipefail
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# choose PROGRAM: sets objdump and the assembler. Sets for each tier its name, the CPU for the
# assembler, and a pattern of its kernels' names. The first tier is for functions that are no
# kernels.
#
# endbr64 (ibt) and hints are no-ops on older CPUs.
choose() {
    local format
    format=$(od -An -tx1 -j0 -N20 "$1" | tr -d ' \n')
    tail='(_[0-9x]+)?([.](isra|part|constprop|cold|lto_priv)[.0-9]*)*$'
    case $format in
    7f454c46*3e00) prefix='' ;;                  # ELF, x86-64
    4d5a*) prefix=x86_64-w64-mingw32- ;;         # PE
    7f454c46*b700) prefix=aarch64-linux-gnu- ;;  # ELF, 64-bit ARM
    *)
        echo "$1: expected a program for x86-64 or 64-bit ARM (ELF), or for Windows (PE)" >&2
        exit 2
        ;;
    esac
    if [ "$prefix" = aarch64-linux-gnu- ]; then
        [ "$(uname -m)" != aarch64 ] || prefix=
        comment=' *//.*'
        tiers="base armv8-a .
            dotprod armv8.2-a+dotprod ^vit__.*_dotprod$tail
            i8mm armv8.2-a+i8mm ^vit__.*_i8mm$tail
            bf16 armv8.2-a+bf16 ^vit__tile_dot_neon$tail"
    else
        comment=' *#.*'
        tiers="base generic64+ibt .
            avx2 generic64+avx2+fma+f16c+popcnt _avx2$tail|^run_(fma|add16)_256$tail
            avxvnni generic64+avx2+fma+f16c+popcnt+avx_vnni _avxvnni$tail|^run_vnni_256$tail
            avx512 generic64+avx2+fma+f16c+popcnt+avx512f+avx512bw+avx512dq+avx512vl+avx512_vnni+avx512_bf16 _avx512(_vnni|_bf16)?$tail|^run_.*_512$tail"
    fi
    for tool in objdump as; do
        command -v "$prefix$tool" >/dev/null && continue
        echo "instructions.sh: $1 needs $prefix$tool (Debian: binutils, binutils-aarch64-linux-gnu," \
            "binutils-mingw-w64-x86-64)" >&2
        exit 2
    done
}

# Lists each instruction of a tier once, as "INSTRUCTION<tab>FUNCTION". Leaves out jumps and no-ops,
# whose targets and prefixes the assembler does not accept. Leaves out xgetbv where vit.h runs it
# only on CPUs that have it, and the constants (one, limit) and addresses that MinGW puts between
# functions. Replaces tzcnt by `rep bsf`, which has the same code and runs on every CPU.
collect() {
    "$prefix"objdump -d --no-show-raw-insn "$1" | awk -v tiers="$tiers" -v comment="$comment" -v work="$work" '
        BEGIN {
            FS = "\t"
            count = split(tiers, word, /[ \n]+/) / 3
            for (i = 1; i <= count; i++) { name[i] = word[3 * i - 2]; pattern[i] = word[3 * i] }
        }
        /^[0-9a-f]+ <.*>:$/ {
            function_name = $0
            gsub(/^.*<|>:$/, "", function_name)
            tier = 1
            for (i = 2; i <= count; i++) if (function_name ~ pattern[i]) tier = i
            if (tier > 1) kernels++
            next
        }
        /^ *[0-9a-f]+:\t/ {
            total++
            text = $2
            for (i = 3; i <= NF; i++) text = text " " $i
            sub(comment, "", text)
            gsub(/<[^>]*>/, "", text)
            if (text ~ /^(bnd |notrack |rex[.][A-Z]+ )*(j[a-z]+|call|loop[a-z]*)(,p[nt])? / || text ~ /nop[wl] /) next
            if (text ~ /^(b|bl|b[.][a-z]+|adrp?|ldr(sw)? [a-z0-9]+,|prfm [a-z0-9]+,) [0-9a-f]+ *$/) next
            if (text ~ /^(cbn?z|tbn?z|ldr(sw)?|adrp?) .*, (0x)?[0-9a-f]+ *$/) next
            if (function_name ~ /^(__[CD]TOR_LIST__|[.][cd]tors[.].*)$/) next
            if (text ~ /[(]bad[)]/ && function_name ~ /^(one|limit)$/) next
            sub(/^tzcnt/, "rep bsf", text)
            if (text ~ /^xgetbv/ && function_name ~ /^vit__(choose_kernels|detect_x86|xgetbv)/) next
            if (!((tier, text) in seen)) print text "\t" function_name > (work "/" name[tier])
            seen[tier, text] = 1
        }
        END { print total, kernels + 0 > (work "/counts") }'
}

status=0
for program in "$@"; do
    choose "$program"
    rm -f "$work"/*
    collect "$program"
    read -r total kernels <"$work/counts"
    while read -r name cpu _; do
        [ -e "$work/$name" ] || continue
        cut -f 1 "$work/$name" >"$work/source"
        "$prefix"as -march="$cpu" "$work/source" -o /dev/null 2>"$work/said" && continue
        status=1
        sed -n 's/^[^:]*:\([0-9]*\): Error: .*/\1/p' "$work/said" | sort -un >"$work/lines"
        echo "$program: $(wc -l <"$work/lines") instructions that $cpu lacks, such as" >&2
        awk -F '\t' 'NR == FNR { bad[$1] = 1; next } FNR in bad && !seen[$2]++ { print "    " $2 ": " $1 }' \
            "$work/lines" "$work/$name" | head -n 12 >&2
        [ -s "$work/lines" ] || sed 's/^/    /' "$work/said" | head -n 5 >&2
    done <<<"$tiers"
    if [ "$total" -lt 1000 ] || [ "$kernels" = 0 ]; then
        echo "$program: $total instructions, $kernels kernels with a name: is it stripped?" >&2
        status=1
    fi
    [ $status != 0 ] || echo "$program: $total instructions, $kernels kernels"
done
exit $status
