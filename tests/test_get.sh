#!/usr/bin/env bash
# Tests vit-get with a folder and a server on this machine: the table of models, whole and
# interrupted downloads, wrong sums, and every error. The weights are random, or those of
# tests/data.
#
#     BIN=. bash tests/test_get.sh
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=$root/${BIN:-.}
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh
get=$bin/tools/vit-get convert=$bin/tools/vit-convert
tiny=deit_tiny_patch16_224.fb_in1k clip=CLIP-ViT-B-32-laion2B-s34B-b79K
pinned=vit_tiny_patch16_224.augreg_in21k_ft_in1k

tried=setup
: >"$work/out"
: >"$work/err"
"${CC:-cc}" -O1 -std=c99 tests/random_checkpoint.c -o "$work/random" -lm || fail "does not compile"
at() { # OWNER/NAME: makes its folder in the mirror
    mkdir -p "$work/mirror/$1/resolve/main"
    echo "$work/mirror/$1/resolve/main"
}
"$work/random" "$(at timm/$tiny)/model.safetensors" dim=192 depth=12 mlp=768 patch=16 rows=14 cols=14 classes=1000
echo wrong >"$(at timm/$pinned)/model.safetensors"
words=$(at laion/$clip)
cp tests/data/text/hf_clip/{model.safetensors,config.json} tests/data/text/tokenizer/* "$words"
echo '{}' >"$words/tokenizer_config.json"
echo '{"size": {"shortest_edge": 4}, "crop_size": 4}' >"$words/preprocessor_config.json"
weights=$words/model.safetensors
others=("$words"/{config.json,preprocessor_config.json,tokenizer_config.json,vocab.json,merges.txt})
sum=$(sha256sum "$weights" | cut -d ' ' -f 1)
cd "$work" || exit 2
export VIT_MIRROR=file://$work/mirror/
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy

sections

# --- the table -----------------------------------------------------------------------------------

try "$get" --list
is 0
quiet err
out '^vit_small_patch16_224.augreg_in21k_ft_in1k +81.4 % +22.1 M +224 +88  classes +apache-2.0; '
out '^clip-vit-base-patch32 +151.3 M +224 +605  words +unstated; '
cp out list
tail -n +2 list | awk '/  (classes|embeddings)  / { print $1 }' | sed 's/\..*//' | sort -u >wanted
"$convert" --list-archs | awk '{ print $1 }' | sort >known
check "vit-convert knows the $(wc -l <wanted) architectures" test -z "$(comm -23 wanted known)"
check "the list is not empty" test "$(wc -l <list)" -gt 40
# The rows of README contain the name, the millions of parameters, and the top-1 accuracy.
sed -n 's/^| \[\([^]]*\)\](https:\/\/huggingface.co\/timm\/\1) | \([0-9.]* M\) | \([^|]*\) |.*/\1 \2 \3/p' \
    "$root/README.md" | sed 's/ embeddings//' >readme
check "README's table has rows" test "$(wc -l <readme)" -ge 8
while read -r name parameters million top1; do
    check "README's row of $name" grep -qE "^$name +$top1 +$parameters $million " list
done <readme
try "$get" --list --json
is 0
out '^\{"models": \[\{"name": "deit_tiny_patch16_224.fb_in1k", "repository": "timm/deit_tiny_patch16_224.fb_in1k", '
out '"parameters_millions": 5.72, "top1_percent": 72.190, "input": 224, "download_megabytes": 22.9, '
out '"about": "many languages", "sha256": null\}'

# --- wrong command lines ---------------------------------------------------------------------------

try "$get"
is 2
err '^vit-get: missing NAME '
try "$get" dinov3
is 2
err "^vit-get: unknown model 'dinov3', did you mean vit_small_patch16_dinov3.lvd1689m, vit_base_patch16_dinov3.lvd1689m\?"
try "$get" vit_smal_patch16_224.dino
is 2
err 'did you mean vit_small_patch16_224.dino\?'
try "$get" "$(printf '%999s' x | tr ' ' x)"
is 2
try "$get" --list $clip
is 2
err "^vit-get: --list takes no NAME, found '$clip'"
try "$get" $clip -o -
is 2
err '^vit-get: -o: expected a file'
try "$get" $clip $tiny
is 2

# --- without curl ----------------------------------------------------------------------------------

try env PATH="$work/none" "$get" $clip
is 1
lines err 1
err "^vit-get: file:.*$clip/.*model.safetensors: curl is missing: install it"
missing $clip
if ! have curl "downloads"; then
    summary
    exit
fi

# --- a folder --------------------------------------------------------------------------------------

try "$get" $tiny
is 0
quiet err
out "^SHA-256 $(sha256sum mirror/timm/$tiny/resolve/main/model.safetensors | cut -d ' ' -f 1): no sum is published"
out 'labels +1000 from imagenet, the first "tench"$'
out "^  .*/vit-classify -m $tiny.vit photo.jpg$"
"$convert" mirror/timm/$tiny/resolve/main/model.safetensors --arch $tiny --labels imagenet -q -o direct.vit
same $tiny.vit direct.vit
missing $tiny
try "$get" $clip --keep-download -o clip.vit --dtype int8
is 0
out "^  .*/vit-search photos.npy --words \"a dog"
"$convert" "$words" -q --dtype int8 -o direct.vit 2>/dev/null
same clip.vit direct.vit
exists $clip/vocab.json
try env PATH="$work/none" VIT_MIRROR=file:///none "$get" $clip --json # from kept files
is 0
out "^\{\"name\": \"$clip\", \"output\": \"$clip.vit\", \"sha256\": \"$sum\", \"sum_by\": null\}$"
lines out 1
missing $clip
mkdir $clip
cp "${others[@]}" $clip # each would be another run of curl
head -c 10000 "$weights" >$clip/model.safetensors.part
echo mine >$clip/notes
try "$get" $clip -o resumed.vit
is 0
out 'model.safetensors: resumed after 10,000 bytes$'
same resumed.vit $clip.vit
exists $clip/notes # the folder has more files
rm -r $clip
try env VIT_MIRROR=file:///none "$get" $clip
is 1
err '^vit-get: file:///none/laion/.*/model.safetensors: curl ended with status '
missing $clip

# --- files that are not used -----------------------------------------------------------------------

echo old >$pinned.vit
try "$get" $pinned
is 1
err "^vit-get: $pinned/model.safetensors.part: expected SHA-256 fecf81b4.*, found $(echo wrong | sha256sum | cut -c 1-64); the file was not used, and is kept as $pinned/model.safetensors.part.wrong$"
check "the old model stays" grep -qx old $pinned.vit
exists $pinned/model.safetensors.part.wrong
missing $pinned/model.safetensors.part
echo wrong >$pinned/model.safetensors # kept by an earlier run
try env VIT_MIRROR=file:///none "$get" $pinned
is 1
err 'expected SHA-256 fecf81b4.*, found '
mv "$weights" good
echo '{}' >"$weights"
mkdir $clip
cp "${others[@]}" $clip
try "$get" $clip -o broken.vit
is 1
err "^vit-get: vit-convert ended with status 1; the download is kept in $clip/$"
missing broken.vit
mv good "$weights"
rm -r $clip

# --- a server --------------------------------------------------------------------------------------

have node "downloads from a server" || { summary; exit; }
# On the server, /FAULT/... redirects to /FAULT+/..., where the files are. The redirection states
# the size and the checksum of the file, as Hugging Face's redirection does.
cat >server.mjs <<'SERVER'
import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
const server = createServer((request, response) => {
    const [, fault, ...rest] = request.url.split('/'), path = `mirror/${rest.join('/')}`;
    const reply = (status, headers, body) => response.writeHead(status, headers).end(body);
    if (fault === 'login') return reply(403);
    if (!existsSync(path)) return reply(404);
    const body = readFileSync(path), size = body.length;
    if (!fault.endsWith('+')) {
        const sum = createHash('sha256').update(fault === 'forged' ? 'x' : body).digest('hex');
        return reply(302, { 'X-Linked-ETag': `"${sum}"`, 'X-Linked-Size': size + (fault === 'longer'),
            Location: `/${fault}+/${rest.join('/')}` });
    }
    const from = fault === 'whole+' ? 0 : Number(/bytes=(\d+)-/.exec(request.headers.range)?.[1] ?? 0);
    if (rest.at(-1) === 'model.safetensors') appendFileSync('requests', `${fault} ${from}\n`);
    if (from >= size) return reply(416, { 'Content-Range': `bytes */${size}` });
    response.writeHead(from ? 206 : 200, { 'Content-Length': size - from,
        ...from && { 'Content-Range': `bytes ${from}-${size - 1}/${size}` } });
    if (fault === 'cut+' && !from && size > 10000) response.write(body.subarray(0, 10000), () => response.destroy());
    else response.end(body.subarray(from));
});
server.listen(0, '127.0.0.1', () => writeFileSync('port', `${server.address().port}`));
SERVER
node server.mjs 2>server.log &
server=$!
trap 'kill $server; chmod -R u+w "$work"; rm -rf "$work"' EXIT
for _ in {1..100}; do
    [ ! -s port ] || break
    sleep 0.05
done
fetch() { # FAULT OPTION...: the weights
    local fault=$1
    shift
    : >requests
    rm -f got.vit
    mkdir -p $clip
    cp "${others[@]}" $clip
    try env VIT_MIRROR="http://127.0.0.1:$(cat port)/$fault" "$get" $clip -o got.vit "$@"
}

fetch plain
is 0
out "^SHA-256 $sum: as the server reports$"
same got.vit $clip.vit
fetch plain --json
out "\"sha256\": \"$sum\", \"sum_by\": \"server\"\}$"
fetch cut # the connection breaks
is 1
err "^vit-get: http.*/model.safetensors: curl ended with status 18; the same command resumes the download$"
check "the part is kept" test "$(wc -c <$clip/model.safetensors.part)" = 10000
missing $clip/model.safetensors.headers
fetch cut
is 0
out 'resumed after 10,000 bytes$'
check "only the rest was sent" grep -qx 'cut+ 10000' requests
same got.vit $clip.vit
mkdir $clip
cp "$weights" $clip/model.safetensors.part
fetch plain # stopped between the download and its check
is 0
check "no byte was sent again" sh -c "grep -q ' [1-9]' requests && ! grep -q ' 0$' requests"
same got.vit $clip.vit
mkdir $clip
head -c 10000 "$weights" >$clip/model.safetensors.part
fetch whole # this server cannot resume
is 0
same got.vit $clip.vit
fetch forged
is 1
err "model.safetensors.part: expected SHA-256 $(printf x | sha256sum | cut -c 1-64), found $sum; the file was not used"
missing got.vit
rm -r $clip
fetch longer
is 1
size=$(wc -c <"$weights")
err "expected $((size + 1)) bytes, found $size; the file was not used"
rm -r $clip
fetch login
is 1
err "the server's answer is 403: the owner requires a login"
mv "$weights" .
fetch plain -q
is 1
err "the server's answer is 404$"
quiet out
mv model.safetensors "$words"

if terminal "the bar on a terminal"; then
    try script -qec "VIT_MIRROR=http://127.0.0.1:$(cat port)/plain $get $clip -o got.vit" /dev/null
    is 0
    out '100\.0%'
fi

summary
