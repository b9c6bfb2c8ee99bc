"""backend.py - builds the Python package: the hooks of PEP 517, by Python's library and a C compiler.

    python3 -m build --no-isolation      or: pip wheel --no-build-isolation .
    python3 backend.py OUTDIR            the same two files, without either program

CC, CPPFLAGS, CFLAGS and LDFLAGS are as for make. Files have the times of SOURCE_DATE_EPOCH, or of
1980. The wheel's tag follows from its library: the largest version of glibc whose symbols it needs."""
import base64
import gzip
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
MODULES = ["__init__.py", "_model.py", "_native.py", "_photos.py", "py.typed"]
OLDEST_GLIBC = (2, 17)  # no Python 3.9 runs on an older glibc

# The members that _native.py accesses.
LAYOUT = {
    "vit_image": "pixels width height stride format",
    "vit_prediction": "index score",
    "vit_executor": "parallel_for user num_threads",
    "vit_params": "isa executor low_memory batch",
    "vit_answer": "scores embedding",
    "vit_input": "pixels batch mask ids",
    "vit_block_output": "tokens attention index norm",
    "vit_outputs": "logits embedding tokens blocks num_blocks merged",
    "vit_tokenizer": "context num_ids begin end pad bytes size",
    "vit_text_ids": "ids num_ids num_cut invalid_at",
    "vit_session": "isa",
    "vit_model": "detail config",
    "vit_config": "in_chans img_height img_width patch_size embed_dim depth num_heads num_classes "
                  "crop_mode vocab_size grid_height grid_width num_prefix_tokens num_tokens",
}

# glibc 2.33 and 2.34 gave these functions new versions. A library with the old versions runs with
# older and newer glibc. The old versions of the thread functions are in libpthread.so.0, which
# newer glibc keeps as an empty file.
SOURCE = r"""
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <pthread.h>
#if defined(__GLIBC__) && !defined(NEW_GLIBC) && (defined(__x86_64__) || defined(__aarch64__))
#    if defined(__x86_64__)
#        define OLD "GLIBC_2.2.5"
#        define STAT_VERSION 1
#    else
#        define OLD "GLIBC_2.17"
#        define STAT_VERSION 0
#    endif
__asm__(".symver pthread_create, pthread_create@" OLD);
__asm__(".symver pthread_join, pthread_join@" OLD);
extern int __fxstat(int version, int file, struct stat *status);
#    define fstat(file, status) __fxstat(STAT_VERSION, file, status)
#endif
#define VIT_TEXT_ENCODER
#define VIT_IMPLEMENTATION
#include "vit.h"
typedef struct layout { const char *name; unsigned offset, size; } layout;
#define STRUCT(type) { #type, 0, sizeof(type) },
#define MEMBER(type, member) { #type "." #member, offsetof(type, member), sizeof(((type *)0)->member) },
VIT_API const char vit_h_version[];
const char vit_h_version[] = "@VERSION@";
VIT_API const layout vit_h_layout[];
const layout vit_h_layout[] = {
@LAYOUT@    { NULL, 0, 0 }
};
/* One photo: the scores, the embedding and the k best classes to the addresses that are not NULL.
   After a forward pass little of the interpreter is left in the caches, so that one call in place of
   many saves most of what Python costs. */
VIT_API int vit_h_run(vit_session *session, const vit_model *model, const uint8_t *pixels, int width,
                      int height, int stride, int format, float *scores, float *embedding, int k,
                      vit_prediction *top);
int vit_h_run(vit_session *session, const vit_model *model, const uint8_t *pixels, int width,
              int height, int stride, int format, float *scores, float *embedding, int k,
              vit_prediction *top) {
    const vit_image image = { pixels, width, height, stride, (vit_pixel)format };
    const size_t classes = (size_t)model->config.num_classes, dim = (size_t)vit_embedding_dim(model);
    vit_answer answer;
    const vit_result result = vit_run(session, &image, 1, &answer);
    if (result) return (int)result;
    if (scores) memcpy(scores, answer.scores, classes * sizeof *scores);
    if (embedding) memcpy(embedding, answer.embedding, dim * sizeof *embedding);
    if (top) vit_top_k(answer.scores, (int)classes, k, top);
    return 0;
}
"""


def source(*names):
    """Returns the path of a file in this folder or, if it is not here, in the repository."""
    for folder in (HERE, ROOT):
        path = os.path.join(folder, *names)
        if os.path.exists(path):
            return path
    raise FileNotFoundError("%s is neither in %s nor in %s" % (os.path.join(*names), HERE, ROOT))


def read(*names):
    with open(source(*names), "rb") as file:
        return file.read()


def version():
    found = re.match(r"/\* vit\.h - v(\d+\.\d+\.\d+) ", read("vit.h").decode())
    if not found:
        raise RuntimeError("%s: its first line has no version" % source("vit.h"))
    return found[1]


# --- the library -----------------------------------------------------------------------------------


def run(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "LC_ALL": "C"}, check=False)
    except FileNotFoundError:
        raise RuntimeError("there is no program called %s; CC names the C compiler" % command[0]) from None
    return done.returncode, done.stdout.decode(errors="replace")


def compile_library(folder):
    """Compiles libvit.so in the folder; returns its bytes and its tag."""
    if sys.platform == "win32":
        raise RuntimeError("the package cannot be built on Windows yet")
    code, table = os.path.join(folder, "library.c"), ""
    for struct, members in LAYOUT.items():
        table += "    STRUCT(%s)\n" % struct
        table += "".join("    MEMBER(%s, %s)\n" % (struct, name) for name in members.split())
    with open(code, "w", encoding="ascii") as file:
        file.write(SOURCE.replace("@VERSION@", version()).replace("@LAYOUT@", table))
    words = {name: shlex.split(os.environ.get(name, default)) for name, default in
             (("CC", "cc"), ("CPPFLAGS", ""), ("CFLAGS", "-O2"), ("LDFLAGS", ""))}
    compiled, library = os.path.join(folder, "library.o"), os.path.join(folder, "libvit.so")
    compiler = words["CC"] + words["CFLAGS"]
    status, output = run(compiler + [
        "-std=c99", "-fPIC", "-fvisibility=hidden",
        '-DVIT_API=__attribute__((visibility("default"))) extern', *words["CPPFLAGS"],
        "-I" + os.path.dirname(source("vit.h")), "-c", code, "-o", compiled])
    if status == 0:
        link = compiler + ["-shared", compiled, "-o", library] + words["LDFLAGS"] + ["-lm", "-lpthread"]
        if sys.platform == "linux":
            link += ["-s", "-Wl,-z,defs"]
            status, output = run(link + ["-Wl,--no-as-needed", "-l:libpthread.so.0"])
        if sys.platform != "linux" or status != 0:  # musl has no such file
            status, output = run(link)
    if status != 0:
        raise RuntimeError("libvit.so cannot be compiled:\n" + output)
    with open(library, "rb") as file:
        return file.read(), platform_tag(library)


def platform_tag(library):
    """Returns manylinux_X_Y for a library that needs only glibc X.Y, otherwise this machine's
    tag."""
    local = re.sub(r"[-.]", "_", sysconfig.get_platform())
    if sys.platform != "linux":
        return local
    try:
        status, facts = run(["readelf", "-hdVW", library])
    except RuntimeError:
        status, facts = 1, ""
    if status != 0:
        print("no readelf here (binutils): the wheel's tag is this machine's", file=sys.stderr)
        return local
    machine = re.search(r"Machine: +(.*)", facts)
    names = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}
    name = names.get(machine[1].strip() if machine else "")
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", facts))
    glibc = [tuple(map(int, found)) for found in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", facts)]
    if not name:
        return local
    others = needed - {"libc.so.6", "libm.so.6", "libpthread.so.0"}
    if others or not glibc:
        print("not manylinux: the library needs %s" % (", ".join(sorted(others)) or "no glibc"),
              file=sys.stderr)
        return "linux_" + name
    return "manylinux_%d_%d_%s" % (*max(glibc + [OLDEST_GLIBC]), name)


# --- the files -------------------------------------------------------------------------------------


def metadata():
    head = [
        ("Metadata-Version", "2.1"), ("Name", "vit_h"), ("Version", version()),
        ("Summary", "Vision Transformers on the CPU: classes, embeddings, tokens, attention, words"),
        ("License", "MIT"), ("Requires-Python", ">=3.9"), ("Requires-Dist", "numpy"),
        ("Provides-Extra", "photos"), ("Requires-Dist", 'pillow; extra == "photos"'),
        ("Classifier", "License :: OSI Approved :: MIT License"),
        ("Classifier", "Operating System :: POSIX :: Linux"),
        ("Classifier", "Programming Language :: Python :: 3 :: Only"),
        ("Classifier", "Topic :: Scientific/Engineering :: Image Recognition"),
        ("Classifier", "Typing :: Typed"), ("Description-Content-Type", "text/markdown"),
    ]
    text = "".join("%s: %s\n" % line for line in head)
    return (text + "\n").encode() + readme()


def readme():
    with open(os.path.join(HERE, "README.md"), "rb") as file:
        return file.read()


def moment():
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", 315532800)), 315532800)  # zip's first day


def info_folder():
    return "vit_h-%s.dist-info" % version()


def info_files(tag):
    wheel = "Wheel-Version: 1.0\nGenerator: vit.h %s\nRoot-Is-Purelib: false\nTag: py3-none-%s\n"
    return {"METADATA": metadata(), "WHEEL": (wheel % (version(), tag)).encode(),
            "LICENSE": read("LICENSE")}


def write(directory, name, data):
    """Writes a file under a temporary name, and renames it."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)
    return name


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        library, tag = compile_library(folder)
    files = {"vit_h/" + name: read("vit_h", name) for name in MODULES}
    files["vit_h/libvit.so"] = library
    files.update((info_folder() + "/" + name, data) for name, data in info_files(tag).items())
    record, packed = "", io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(name, data):
            entry = zipfile.ZipInfo(name, time.gmtime(moment())[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes follow
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data)
        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
            add(name, data)
        record += info_folder() + "/RECORD,,\n"
        add(info_folder() + "/RECORD", record.encode())
    return write(wheel_directory, "vit_h-%s-py3-none-%s.whl" % (version(), tag), packed.getvalue())


def build_sdist(sdist_directory, config_settings=None):
    name, packed = "vit_h-" + version(), io.BytesIO()
    files = {"PKG-INFO": metadata(), "README.md": readme()}
    files.update((path, read(path)) for path in ("LICENSE", "backend.py", "pyproject.toml", "vit.h"))
    files.update(("vit_h/" + path, read("vit_h", path)) for path in MODULES)
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(name + "/" + path)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, moment()
            archive.addfile(entry, io.BytesIO(data))
    return write(sdist_directory, name + ".tar.gz",
                 gzip.compress(packed.getvalue(), compresslevel=9, mtime=moment()))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: backend.py OUTDIR", file=sys.stderr)
        sys.exit(2)
    try:
        print(build_sdist(sys.argv[1]))
        print(build_wheel(sys.argv[1]))
    except (OSError, RuntimeError) as error:
        sys.exit("backend.py: %s" % error)
