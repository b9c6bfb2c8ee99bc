"""workers.py - starts the runtimes, each in a process that has loaded a model and waits.

Workers exchange lines with this program. A worker first prints "ready NAME" or "unavailable
REASON". It answers "run" with the milliseconds of a forward pass of a batch. It answers "logits
FILE" or "embedding FILE" with "ok" when FILE holds those of all images of the input, as f32.
"""
import array
import collections
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.relpath(__file__))
PEERS = "build/peers"
PYTHON = "/usr/bin/python3"     # Debian's Python, which imports Debian's packages
ONNXRUNTIME = "onnxruntime-node"
RUNS = 3                        # runs of a turn; the first, with cold caches, does not count
PAUSE = 0.03                    # seconds between turns: OpenMP's threads spin on for up to 10 ms
CALIBRATED = ("bf16", "int8", "int4")    # by vit-convert, with images

# For each --isa of vit.h: variables that limit PyTorch's libraries to an older instruction set, and
# options of ncnn's build. ONNX Runtime reads the CPU's features and has no switch;
# limit_onnxruntime patches it.
LIMITS = {
    "sse2": ({"ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41",
              "OPENBLAS_CORETYPE": "Prescott"}, "-DNCNN_AVX=OFF"),
    "avx2": ({"ATEN_CPU_CAPABILITY": "avx2", "DNNL_MAX_CPU_ISA": "AVX2",
              "OPENBLAS_CORETYPE": "Haswell"}, "-DNCNN_AVXVNNI=OFF -DNCNN_AVX512=OFF"),
    "avx512": ({"ATEN_CPU_CAPABILITY": "avx512", "DNNL_MAX_CPU_ISA": "AVX512_CORE",
                "OPENBLAS_CORETYPE": "SkylakeX"},
               " ".join("-DNCNN_%s=OFF" % part for part in (
                   "AVXVNNI", "AVX512VNNI", "AVX512BF16", "AVX512FP16"))),
}

# `arch` is timm's name, `sizes` has the words WIDTH DEPTH HEADS MLP_DIM PATCH IMAGE, and `folder`
# holds the model in all formats.
Model = collections.namedtuple("Model", "name arch sizes folder")


def say(*words):
    print(*words, file=sys.stderr, flush=True)


# === Installing ===

def is_installed(package, version):
    try:
        with open("%s/node_modules/%s/package.json" % (PEERS, package)) as f:
            return json.load(f)["version"] == version
    except OSError:
        return False


def install_onnxruntime():
    with open(HERE + "/package.json") as f:
        wanted = json.load(f)
    versions = wanted["dependencies"]
    if all(is_installed(*item) for item in versions.items()):
        return
    say("Installing with npm into %s: %s (430 MB)" % (PEERS, ", ".join(map(" ".join,
                                                                          versions.items()))))
    with open(PEERS + "/package.json", "w") as f:
        json.dump(wanted, f)
    # Scripts are off, because the package's own script would download the CUDA libraries.
    subprocess.run(["npm", "install", "--prefix", PEERS, "--ignore-scripts", "--no-audit",
                    "--no-fund", "--no-package-lock", "--loglevel=error"], check=True,
                   stdout=subprocess.DEVNULL)


def limit_onnxruntime():
    """Returns the name of a copy of the package that computes as on a CPU without AVX-512: its
    library no longer tests if the system keeps AVX-512's registers, and never calls these kernels.
    Returns None if this version of the library has another test."""
    asks = rb"\x48\xf7\xd0\xa8\xe0(\x0f\x84....)"       # not rax; test al, 0xe0; je
    name = "onnxruntime-node-avx2"
    folders = [PEERS + "/node_modules/" + folder for folder in (ONNXRUNTIME, name)]
    libraries = [folder + "/bin/napi-v6/linux/x64/libonnxruntime.so.1" for folder in folders]
    if not is_older(libraries[1], libraries[0], __file__):
        return name
    with open(libraries[0], "rb") as f:
        code = f.read()
    found = list(re.finditer(asks, code, re.DOTALL))
    if len(found) != 1:
        return None
    first, end = found[0].span(1)
    shutil.copytree(*folders, dirs_exist_ok=True)
    with open(libraries[1], "wb") as f:
        f.write(code[:first] + b"\x90" * (end - first) + code[end:])
    return name


def build_ncnn(checkout, isa):
    """Builds the worker; returns its path."""
    folder = PEERS + "/ncnn" + ("-" + isa if isa in LIMITS else "")
    log = folder + ".log"
    if not os.path.exists(folder + "/ncnn_worker"):
        say("Building ncnn in %s: some ten minutes, once; see %s" % (folder, log))
    with open(log, "w") as f:
        for command in (["cmake", "-S", HERE + "/ncnn", "-B", folder,
                         "-DNCNN=" + os.path.abspath(checkout)] +
                        (LIMITS[isa][1].split() if isa in LIMITS else []),
                        ["cmake", "--build", folder, "-j2"]):
            if subprocess.run(command, stdout=f, stderr=f).returncode:
                sys.exit("ncnn cannot be built; see " + log)
    return folder + "/ncnn_worker"


# === Models ===

def find_model(name):
    """Finds the model of timm's NAME; NAME@N is for images of N pixels."""
    arch, _, image = name.partition("@")
    table = subprocess.check_output(["tools/vit-convert", "--list-archs"], text=True)
    for line in table.splitlines():
        if line.split()[0] == arch:
            sizes = line.split()[1:]
            return Model(name, arch, sizes[:-1] + [image or sizes[-1]], PEERS + "/models/" + name)
    sys.exit("%s: tools/vit-convert --list-archs does not know it" % arch)


def is_older(path, *others):
    return not os.path.exists(path) or any(os.path.getmtime(path) < os.path.getmtime(other)
                                           for other in others)


def prepare(model, dtypes, checkpoint=None, calibrate=None):
    """Writes the model in every format; returns the dtypes that vit-convert refuses, with reasons.
    For a checkpoint, the caller gives the images."""
    source, scripts = model.folder + "/model.pth", [HERE + "/prepare.py", HERE + "/ncnn_model.py"]
    if is_older(source, *scripts):
        say("Writing %s for every runtime into %s" % (model.name, model.folder))
        os.makedirs(model.folder, exist_ok=True)
        subprocess.run([PYTHON, "-B", scripts[0], model.folder] + model.sizes +
                       ([checkpoint] if checkpoint else []), check=True)
    # Random images must not be resized.
    settings = ["--set", "img_size=" + model.sizes[-1]] + ([] if checkpoint
                                                           else ["--set", "crop_pct=1"])
    refused = {}
    for dtype in dtypes:
        vit = "%s/%s.vit" % (model.folder, dtype)
        if not is_older(vit, source, "tools/vit-convert"):
            continue
        say("Converting it to", dtype)
        done = subprocess.run(
            ["tools/vit-convert", "-q", source, "--arch", model.arch, "--dtype", dtype, "-o", vit] +
            settings + (["--calibrate", calibrate or model.folder + "/calibrate"]
                        if dtype in CALIBRATED else []), stderr=subprocess.PIPE, text=True)
        if done.returncode:
            refused[dtype] = done.stderr.strip()
    return refused


# === Workers ===

class Worker:
    def __init__(self, runtime, dtype, command, isa, log):
        self.runtime, self.dtype, self.times = runtime, dtype, []
        env = dict(os.environ)
        if runtime == "PyTorch":
            # OpenBLAS with OpenMP shares PyTorch's threads; otherwise OpenBLAS would start its own
            # threads, which would compete with PyTorch's.
            env["LD_LIBRARY_PATH"] = ":".join(glob.glob("/usr/lib/*/openblas-openmp"))
            env.update(LIMITS[isa][0] if isa in LIMITS else {})
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, text=True, bufsize=1, env=env)
        word, _, self.name = self.process.stdout.readline().strip().partition(" ")
        self.problem = None if word == "ready" else self.name or "it ended; see worker.log"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        answer = self.process.stdout.readline().strip()
        if not answer or answer == "failed":
            sys.exit("%s %s failed while it ran; see %s/worker.log"
                     % (self.runtime, self.dtype, PEERS))
        return answer

    def turn(self):
        time.sleep(PAUSE)
        self.times += [float(self.ask("run")) for _ in range(RUNS)][1:]

    def outputs(self, what, count):
        """Returns the logits or the embeddings of `count` images: a list of arrays."""
        path, values = "%s/outputs.%d" % (PEERS, self.process.pid), array.array("f")
        self.ask("%s %s" % (what, path))
        with open(path, "rb") as f:
            values.frombytes(f.read())
        os.remove(path)
        width = len(values) // count
        return [values[i * width:(i + 1) * width] for i in range(count)]

    def memory(self):
        """Returns (MiB resident now, at most so far), with mapped weights."""
        with open("/proc/%d/status" % self.process.pid) as f:
            fields = dict(line.split(":", 1) for line in f)
        return tuple(int(fields[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def input_for(batch):
    """Returns the file of images for these workers, and the number of its images."""
    return ("input32.f32", 32) if batch > 8 else ("input.f32", 8)


def native_commands(model, dtype, threads, batch, options):
    """Gives (runtime, command) of each runtime that may have this dtype."""
    stem, checkpoint, image = model.folder + "/", model.folder + "/model.pth", model.sizes[-1]
    images, tail = stem + input_for(batch)[0], [str(threads), str(batch)]
    yield "vit.h", [PEERS + "/vit_worker", stem + dtype + ".vit", images] + tail + [options.isa]
    if dtype in ("f32", "int8"):
        yield "ONNX Runtime", ["node", HERE + "/ort_worker.mjs", options.onnxruntime,
                               stem + dtype + ".onnx", images, image] + tail
    if dtype in ("f32", "bf16", "int8"):
        yield "PyTorch", [PYTHON, "-B", HERE + "/torch_worker.py", dtype, checkpoint,
                          images] + model.sizes + tail
    if dtype in ("f32", "bf16", "int8") and options.ncnn:
        net = stem + ("int8" if dtype == "int8" else "f32")
        yield "ncnn", [options.ncnn, net + ".param", net + ".bin", images, image] + tail + [dtype]
    for name, command in options.extra:
        yield name, shlex.split(command.format(
            arch=model.arch, checkpoint=checkpoint, dtype=dtype, image=image, input=images,
            threads=threads, batch=batch))


def web_commands(model, dtype, threads, node):
    """Gives the same for the runtimes in WebAssembly."""
    stem, tail = model.folder + "/" + dtype, [model.folder + "/input.f32", model.sizes[-1],
                                              str(threads)]
    yield "vit.h", node + [HERE + "/vit_web_worker.mjs", stem + ".vit"] + tail
    if dtype in ("f32", "int8"):
        yield "onnxruntime-web", node + [HERE + "/ort_worker.mjs", "onnxruntime-web",
                                         stem + ".onnx"] + tail + ["1"]


def commands(model, refused, threads, batch, options):
    """Gives (runtime, dtype, command) of all; options.ncnn is the path of ncnn's worker."""
    for dtype in options.dtypes:
        for runtime, command in (web_commands(model, dtype, threads, options.wasm) if options.wasm
                                 else native_commands(model, dtype, threads, batch, options)):
            if (runtime in (options.runtimes or [runtime]) and
                    (runtime != "vit.h" or dtype not in refused)):
                yield runtime, dtype, command
