"""python.py DATA TREE - uses an installed vit_h, for python.sh, which made the files in DATA. The last
line is "N passed, N failed", with the counts of checks."""
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import vit_h

DATA, TREE = sys.argv[1:3]
MODEL = os.path.join(TREE, "models/cifar10-vit.vit")
IMAGES = os.path.join(TREE, "tests/data/images")
count = {True: 0, False: 0}
skipped = 0


def check(what, good, found=""):
    count[bool(good)] += 1
    if not good:
        print("FAILED (line %d): %s %s" % (sys._getframe(1).f_lineno, what, found))


def skip(what, why):
    global skipped
    skipped += 1
    print("SKIPPED %s: %s" % (what, why))


def refuses(kind, text, call):
    try:
        found, good = "nothing, but %r" % (call(),), False
    except Exception as error:
        found = "%s: %s" % (type(error).__name__, error)
        good = isinstance(error, kind) and text in str(error)
    count[good] += 1
    if not good:
        print("FAILED (line %d): expected %s with '%s', found %s" %
              (sys._getframe(1).f_lineno, kind.__name__, text, found))


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def data(name):
    return os.path.join(DATA, name)


def load(name):
    return np.load(data(name))


def answers(name):
    with open(data(name)) as file:
        return [(t["index"], t["label"], np.float32(t["prob"])) for t in json.loads(file.readline())["top"]]


def told(predictions):
    return [(p.index, p.label, np.float32(p.score)) for p in predictions]


class WithoutPillow:
    def __enter__(self):
        self.kept = {n: sys.modules.pop(n) for n in list(sys.modules) if n.split(".")[0] == "PIL"}
        sys.modules["PIL"] = None

    def __exit__(self, *_):
        del sys.modules["PIL"]
        sys.modules.update(self.kept)


with open(data("cat.ppm"), "rb") as file:
    words = file.read().split(None, 4)
cat = np.frombuffer(words[4], np.uint8).reshape(int(words[2]), int(words[1]), 3)
model = vit_h.Model(MODEL)
one = vit_h.Model(MODEL, threads=1)
vector = model.embed(cat)

# --- the programs' answers, bit for bit ----------------------------------------------------------

check("vit-classify", told(model.classify(cat)) == answers("classes.json"), model.classify(cat))
check("the class", model.classify(cat, 1)[0].label == "cat")
check("vit-embed", same(vector, load("cat.npy")[0]))
check("vit-embed, on one thread", same(one.embed(cat), vector))
check("vit-embed --normalize", same(model.embed(cat, normalize=True), load("cat_normal.npy")[0]))
check("vit-embed --texts", same(model.text(["a cat", "a dog"], normalize=True), load("texts.npy")))
three = ["a kitten", "a puppy", "an empty street"]
for own, theirs in zip(model.classify(cat, words=three), answers("words.json")):  # of vectors of length 1
    check("vit-classify --classes", own.label == theirs[1] and abs(own.score - theirs[2]) < 1e-6, own)
tokens, attention = model.tokens(cat), model.attention(cat)
check("vit-run --tokens", same(tokens, load("tokens.npy")[0]))
check("vit-run --block-tokens", same(model.tokens(cat, block=2), load("block2.npy")[0]))
check("vit-run --attention", same(attention, load("attention.npy")[0]))
check("a block from the end", same(model.tokens(cat, block=2 - model.depth), load("block2.npy")[0]))
check("another block", not same(model.attention(cat, block=0), attention))

# --- shapes --------------------------------------------------------------------------------------

n = model.num_prefix_tokens + model.grid[0] * model.grid[1]
check("shapes", tokens.shape == (n, model.embed_dim) and attention.shape == (model.num_heads, n, n))
check("embedding_dim", vector.shape == (model.embedding_dim,) and vector.dtype == np.float32)
check("labels", len(model.labels) == model.num_classes == 10 and model.labels[3] == "cat")
check("img_size", model.img_size == (32, 32))
check("scores sum to 1", abs(model.scores(cat).sum() - 1) < 1e-5)

noise = np.random.default_rng(1).integers(0, 256, (70, 40, 50, 3), np.uint8)
vectors = model.embed(noise)
check("a batch as an array", vectors.shape == (70, model.embedding_dim))
check("a batch has the bits of its photos", all(same(vectors[i], model.embed(noise[i])) for i in (0, 31, 32, 69)))
check("a generator", same(model.embed(photo for photo in noise), vectors))
check("sizes may differ", same(model.embed([noise[3], cat])[1], vector))
check("a batch of tokens", same(model.tokens([noise[0], cat])[1], tokens))
check("a batch of attention", same(model.attention([noise[0], cat])[1], attention))
check("a batch of scores", same(model.scores(noise[:5])[4], model.scores(noise[4])))
check("a batch of scores of words", same(model.scores([noise[0], cat], words=three)[1],
                                         model.scores(cat, words=three)))
check("a batch of classes", model.classify([noise[0], cat])[1] == model.classify(cat))
check("no photos", model.embed([]).shape == (0, model.embedding_dim) and model.classify([]) == [])
check("no photos, tokens", model.tokens([]).shape == (0, *tokens.shape))
best = np.argsort(-model.scores(cat), kind="stable")
check("the order", [p.index for p in model.classify(cat, 10)] == best.tolist() ==
      [p.index for p in model.classify([cat], 10)[0]])
check("a prediction", [type(v) for v in vars(model.classify(cat)[0]).values()] == [str, float, int])
check("k", len(model.classify(cat, 3)) == 3 and len(model.classify(cat, 99)) == 10)
check("a text", same(model.text("a cat"), model.text(["a cat"])[0]))
check("other words", model.classify(cat, words=["a truck", "a cat"])[0].index == 1)

# --- pixels --------------------------------------------------------------------------------------

alpha = np.dstack([cat, np.full(cat.shape[:2], 7, np.uint8)])
grey = cat[:, :, 1]
check("four channels", same(model.embed(alpha), vector))
check("grey", same(model.embed(grey), model.embed(np.dstack([grey] * 3))))
check("grey of one channel", same(model.embed(grey[:, :, None]), model.embed(grey)))
wide = np.zeros((cat.shape[0], cat.shape[1] + 9, 3), np.uint8)
wide[:, :-9] = cat
check("rows with gaps", same(model.embed(wide[:, :-9]), vector))
check("columns first", same(model.embed(np.asfortranarray(cat)), vector))
check("mirrored", same(model.embed(cat[::-1, ::-1]), model.embed(cat[::-1, ::-1].copy())))
check("blue first", same(model.embed(cat[:, :, ::-1]), model.embed(cat[:, :, ::-1].copy())))
check("every second row", same(model.embed(cat[::2]), model.embed(cat[::2].copy())))
row = np.broadcast_to(cat[:1], cat.shape)
check("a row repeated", same(model.embed(row), model.embed(row.copy())))
check("one pixel", model.embed(np.zeros((1, 1, 3), np.uint8)).shape == vector.shape)
locked = cat.copy()
locked.flags.writeable = False
check("read-only", same(model.embed(locked), vector))

# --- files, by Pillow ----------------------------------------------------------------------------

try:
    from PIL import Image
except ImportError:
    Image = None
    skip("image files", "no Pillow here")
if Image:
    check("a path", same(model.embed(data("cat.ppm")), vector))
    check("bytes of a path", same(model.embed(os.fsencode(data("cat.ppm"))), vector))
    check("an image of Pillow", same(model.embed(Image.fromarray(cat)), vector))
    check("paths", same(model.embed([data("cat.ppm"), cat]), [vector, vector]))
    names = ["exif%d.png" % i for i in range(2, 9)] + ["grey.png", "palette.png", "grey_alpha.png"]
    for name, row in zip(names, load("exif.npy")):
        check("%s as vit-embed" % name, same(model.embed(os.path.join(IMAGES, name)), row))
    with Image.open(os.path.join(IMAGES, "exif6.png")) as image:
        check("an image of Pillow is turned, too", same(model.embed(image), load("exif.npy")[4]))
        refuses(TypeError, "mode F", lambda: model.embed(image.convert("F")))
    check("a JPEG", model.classify(os.path.join(TREE, "examples/cat.jpg"))[0].label == "cat")
    refuses(FileNotFoundError, "no.jpg", lambda: model.embed("no.jpg"))
    refuses(OSError, "cut.jpg", lambda: model.embed(data("cut.jpg")))
    refuses(OSError, "README.md", lambda: model.embed(os.path.join(TREE, "README.md")))
    refuses(OSError, "examples", lambda: model.embed(os.path.join(TREE, "examples")))
    refuses(TypeError, "grey16.png: an image of 8 bits", lambda: model.embed(os.path.join(IMAGES, "grey16.png")))
with WithoutPillow():
    refuses(ImportError, "cat.ppm: reading image files needs Pillow", lambda: model.embed(data("cat.ppm")))
    check("arrays need no Pillow", same(model.embed(cat), vector))

# --- errors --------------------------------------------------------------------------------------

refuses(vit_h.Error, "no.vit: cannot be opened: No such file", lambda: vit_h.Model("no.vit"))
refuses(vit_h.Error, "cut.vit: ", lambda: vit_h.Model(data("cut.vit")))
refuses(vit_h.Error, "flipped.vit: ", lambda: vit_h.Model(data("flipped.vit"), verify=True))
refuses(vit_h.Error, "README.md: ", lambda: vit_h.Model(os.path.join(TREE, "README.md")))
refuses(vit_h.Error, "models: ", lambda: vit_h.Model(os.path.join(TREE, "models")))
refuses(vit_h.Error, "its input size is fixed", lambda: vit_h.Model(MODEL, img_size=64))
refuses(ValueError, "zero byte", lambda: vit_h.Model("a\0b"))
refuses(TypeError, "", lambda: vit_h.Model(3))
refuses(ValueError, "threads: 0 to 256 expected, found -1", lambda: vit_h.Model(MODEL, threads=-1))
refuses(TypeError, "uint8 expected, found float32; for values from 0 to 1", lambda: model.embed(cat / np.float32(255)))
refuses(TypeError, "uint8 expected, found int64", lambda: model.embed(cat.astype(np.int64)))
refuses(TypeError, "uint8 expected, found bool", lambda: model.embed(cat > 3))
refuses(ValueError, "found (3, ", lambda: model.embed(np.ascontiguousarray(cat.transpose(2, 0, 1))))
refuses(ValueError, "found (9,)", lambda: model.embed(np.zeros(9, np.uint8)))
refuses(ValueError, "found (0, 5, 3)", lambda: model.embed(np.zeros((0, 5, 3), np.uint8)))
refuses(ValueError, "found (1, 1048577, 3)", lambda: model.embed(np.zeros((1, 1048577, 3), np.uint8)))
refuses(ValueError, "found (1, 2, 3, 3, 3)", lambda: model.embed(np.zeros((1, 2, 3, 3, 3), np.uint8)))
refuses(ValueError, "photo 1: a photo of shape", lambda: model.embed([cat, cat[0, 0]]))
refuses(TypeError, "photo 1: a photo is a NumPy array, an image of Pillow or a path, found int", lambda: model.embed([cat, 3]))
refuses(TypeError, "found int", lambda: model.embed(3))
refuses(TypeError, "found NoneType", lambda: model.embed(None))
refuses(ValueError, "an array of four dimensions", lambda: model.classify(noise))
refuses(ValueError, "k: 1 or more expected, found 0", lambda: model.classify(cat, 0))
refuses(ValueError, "block: -7 to 6 expected, found 7", lambda: model.attention(cat, block=7))
refuses(ValueError, "block: -7 to 6 expected, found -8", lambda: model.tokens(cat, block=-8))
refuses(TypeError, "found one text", lambda: model.classify(cat, words="a cat"))
refuses(ValueError, "at least one", lambda: model.classify(cat, words=[]))
refuses(TypeError, "a text of type str expected, found int", lambda: model.text([1]))
refuses(ValueError, "text 0: a zero byte", lambda: model.text("a\0b"))
refuses(UnicodeEncodeError, "", lambda: model.text("\ud800"))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    model.text("a cat")
    check("a short text does not warn", not seen)
    model.text(["a cat", "a cat and a dog " * 100])
    check("a long text warns", len(seen) == 1 and "text 1 is too long" in str(seen[0].message) and
          seen[0].filename == __file__, seen)

headless = vit_h.Model(data("headless.vit"))
refuses(vit_h.Error, "headless.vit: the model has no classes, only embeddings", lambda: headless.classify(cat))
refuses(vit_h.Error, "headless.vit: the file has no text encoder", lambda: headless.text("a"))
refuses(vit_h.Error, "headless.vit: the file has no text encoder", lambda: headless.classify(cat, words=["a"]))
check("a headless model", headless.labels == [] and not headless.has_text and model.has_text)
check("its embedding", headless.embed(cat).shape == (headless.embedding_dim,))
error = pickle.loads(pickle.dumps(vit_h.Error("text", -2)))
check("an error can be pickled", str(error) == "text" and error.code == -2)

# --- other models --------------------------------------------------------------------------------

dynamic = vit_h.Model(data("dynamic.vit"), img_size=(32, 24))
check("img_size of a dynamic model", dynamic.img_size == (32, 24) and
      dynamic.tokens(cat).shape[0] == dynamic.num_prefix_tokens + dynamic.grid[0] * dynamic.grid[1])
check("vit-embed --img-size", same(dynamic.embed(cat), load("dynamic.npy")[0]))
aspect = vit_h.Model(data("naflex.vit"))
check("a model of the photo's aspect ratio", same(aspect.embed([cat, noise[0]]), load("naflex.npy")))
tall = aspect.tokens(cat[:, :9])
check("its tokens", tall.ndim == 2 and np.isfinite(tall).all() and
      aspect.attention(cat[:, :9]).shape[1:] == (len(tall), len(tall)) and tall.shape != aspect.tokens(cat).shape)
refuses(ValueError, "pass one photo at a time", lambda: aspect.tokens([cat, cat]))
check("copy", same(vit_h.Model(MODEL, copy=True, verify=True).embed(cat), vector))

# --- threads -------------------------------------------------------------------------------------

many = np.repeat(noise[:32], 4, axis=0)
gap = ticks = 0.0
stop = False


def tick():
    global gap, ticks
    last = time.perf_counter()
    while not stop:
        now = time.perf_counter()
        gap, last, ticks = max(gap, now - last), now, ticks + 1
        time.sleep(0.001)


ticker = threading.Thread(target=tick)
ticker.start()
start = time.perf_counter()
one.tokens(many[:32])
took = time.perf_counter() - start
stop = True
ticker.join()
print("RAN a thread ticked %d times during a call of %.0f ms; the longest gap: %.0f ms" %
      (ticks, 1e3 * took, 1e3 * gap))
check("Python's threads run during a call", gap < took / 3 and ticks > 10)

results = {}


def work(name, shared):
    results[name] = [shared.embed(noise[i]) for i in range(12)]


for shared in (one, model):
    threads = [threading.Thread(target=work, args=(i, shared)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    check("four threads share a model", all(same(results[i], vectors[:12]) for i in range(4)))

brief = vit_h.Model(MODEL)
closing = threading.Thread(target=lambda: results.update(closed=brief.embed(many)))
closing.start()
time.sleep(0.05)
brief.close()
closing.join()
check("closed during a call", same(results["closed"][0], vectors[0]))
refuses(ValueError, "the model is closed", lambda: brief.embed(cat))
brief.close()
with vit_h.Model(MODEL) as other:
    check("with", same(other.embed(cat), vector))
refuses(ValueError, "the model is closed", lambda: other.labels)
check("repr", repr(other).endswith("closed") and MODEL in repr(model))

child = os.fork()
if child == 0:
    signal.alarm(60)
    good = same(model.embed(noise[:4]), vectors[:4])
    os._exit(0 if good else 1)
check("a forked process computes the same", os.waitpid(child, 0)[1] == 0)


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


for _ in range(20):
    vit_h.Model(MODEL, threads=2).embed(cat)
before, folder = resident(), "/proc/self/task"
tasks = len(os.listdir(folder))
for _ in range(100):
    vit_h.Model(MODEL, threads=2).embed(cat)
check("models are freed", resident() - before < 4 << 20, resident() - before)
check("threads end", len(os.listdir(folder)) == tasks)

# --- beside PyTorch ------------------------------------------------------------------------------

try:
    import torch
except ImportError:
    torch = None
    skip("PyTorch", "no torch here")
if torch:
    with open(os.path.join(TREE, "tests/data/fixtures/plain/model.safetensors"), "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        table, body = json.loads(file.read(size)), file.read()
    weight = {name: torch.from_numpy(np.frombuffer(body[slice(*t["data_offsets"])], np.float32).reshape(t["shape"]).copy())
              for name, t in table.items() if name != "__metadata__"}
    plain = vit_h.Model(data("plain.vit"))
    photo = noise[0, :13, :13]  # the size before the crop: no resampling
    mean, std = [torch.tensor(v)[:, None, None] for v in ([0.5, 0.49, 0.48], [0.3125, 0.3113, 0.31])]
    functional = torch.nn.functional

    def linear(x, name):
        return functional.linear(x, weight[name + ".weight"], weight[name + ".bias"])

    def norm(x, name):
        return functional.layer_norm(x, (24,), weight[name + ".weight"], weight[name + ".bias"], 1e-6)

    with torch.no_grad():
        x = (torch.from_numpy(photo[:12, :12].copy()).permute(2, 0, 1) / 255 - mean) / std
        x = functional.conv2d(x[None], weight["patch_embed.proj.weight"], weight["patch_embed.proj.bias"], stride=4)
        x = torch.cat([weight["cls_token"][0], x[0].flatten(1).T]) + weight["pos_embed"][0]
        for i in range(2):
            name = "blocks.%d." % i
            q, k, v = linear(norm(x, name + "norm1"), name + "attn.qkv").reshape(10, 3, 2, 12).permute(1, 2, 0, 3)
            maps = (q @ k.transpose(1, 2) / 12 ** 0.5).softmax(-1)
            x = x + linear((maps @ v).transpose(0, 1).reshape(10, 24), name + "attn.proj")
            x = x + linear(functional.gelu(linear(norm(x, name + "norm2"), name + "mlp.fc1")), name + "mlp.fc2")
        x = norm(x, "norm")
        scores = linear(x[0], "head").softmax(-1)
    for what, own, peer in (("tokens", plain.tokens(photo), x), ("embedding", plain.embed(photo), x[0]),
                            ("attention", plain.attention(photo), maps), ("scores", plain.scores(photo), scores)):
        difference = float(np.abs(own - peer.numpy()).max() / np.abs(peer.numpy()).max())
        print("RAN PyTorch %s, %s: largest difference %.1e" % (torch.__version__, what, difference))
        check("PyTorch's " + what, difference < 2e-6)
    check("the same bits beside PyTorch", same(model.embed(cat), vector))

# --- time ----------------------------------------------------------------------------------------

# ViT-Ti/16 runs in Python and in a C program, by turns. The times vary by more than the cost of
# Python. So the cost is also measured alone: the time of a call outside the library.
from vit_h import _native  # noqa: E402

library, inside, outside = _native._run_one, [0.0], {"scores": [], "classify": []}
tiny = vit_h.Model(data("tiny.vit"), threads=1)


def timed(*arguments):
    begin = time.thread_time()
    result = library(*arguments)
    inside[0] = time.thread_time() - begin
    return result


_native._run_one = timed
native = python = 1e30
for _ in range(6):
    command = [data("native"), data("tiny.vit"), data("cat.ppm"), "10"]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    native = min(native, float(output.split()[0]))
    for name, costs in 10 * list(outside.items()):
        start = time.thread_time()
        getattr(tiny, name)(cat)
        took = time.thread_time() - start
        python = min(python, 1e3 * took)
        costs.append(1e3 * (took - inside[0]))
_native._run_one = library
cost = max(float(np.median(costs)) for costs in outside.values())
print("RAN ViT-Ti/16, CPU time of an image: %.2f ms, of a C program %.2f ms; outside of the library at most %.3f ms, "
      "%.1f %%" % (python, native, cost, 100 * cost / native))
check("Python adds at most 3 %", cost < 0.03 * native)  # other processes empty the caches, too
check("an image takes at most 10 % longer than in C", python < 1.1 * native)

print("%d passed, %d failed%s" % (count[True], count[False], ", %d skipped" % skipped if skipped else ""))
sys.exit(count[False] > 0)
