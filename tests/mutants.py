#!/usr/bin/env python3
"""mutants.py - changes vit.h and tools/ in small ways and prints the changes that no test notices.

    mutants.py [-n 200] [-s SEED] [-j JOBS] [FILE...]      make mutants N= SEED= FILES=

A mutant has one changed constant, comparison, operator or return value, or lacks one statement. It
is built in a copy of the tree, in build/mutants/. The tests of its folder run until one fails,
quick ones first. A test also notices the mutant if a process takes twice the CPU time of the whole
test. A mutant that does not compile, or whose object file is the same, does not count.
"""
import argparse
import concurrent.futures
import glob
import hashlib
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import time

# The tests of each folder, quick ones first: "x" is test_x.c, "x.sh" is test_x.sh.
TESTS = {
    "vit.h": "values load text threads tokens versions infer random preprocess api math parity.sh cores "
             "random.simde",
    "tools/os": "base frames sandbox cli.sh environment.sh tools_disk.sh shards.sh",
    "tools/base": "base json npy tar findings checkpoint options.sh convert.sh names.sh cli.sh tools_memory.sh",
    "tools/text": "tokens words.sh",
    "tools/cli": "progress options.sh cli.sh names.sh search.sh convert.sh look.sh environment.sh tools_disk.sh",
    "tools/numbers": "tags frames look learn nearest look.sh search.sh cli.sh",
    "tools/image": "frames look image infer sandbox look.sh cli.sh names.sh formats.sh tools_memory.sh "
                   "confined.sh",
    "tools/picture": "look look.sh",
    "tools/infer": "zero_shot tags frames learn infer words.sh learning.sh resume.sh search.sh cli.sh look.sh shards.sh "
                   "names.sh",
    "tools/shards": "tar nearest shards.sh search.sh names.sh",
    "tools/look": "look look.sh names.sh",
    "tools/checkpoint": "npy checkpoint modules damage checkpoint_memory onnx.sh layouts.sh own.sh modules.sh "
                        "convert.sh",
    "tools/model": "settings findings arch convert_units defaults coverage options.sh own.sh convert.sh proposals.sh cli.sh",
    "tools/layout": "layout_units layout_tables heads convert_units defaults coverage own.sh layouts.sh structure "
                    "modules layout_damage match onnx.sh words.sh convert.sh proposals.sh parity.sh",
    "tools/convert": "convert_units defaults coverage options.sh match own.sh layouts.sh convert.sh words.sh "
                     "onnx.sh proposals.sh learning.sh converter_memory parity.sh",
    "tools/bench": "convert_units bench.sh",
    "tools/vit-bench.c": "bench.sh options.sh names.sh",
    "tools/vit-convert.c": "options.sh convert.sh own.sh names.sh cli.sh",
    "tools/vit-embed.c": "words.sh resume.sh search.sh shards.sh names.sh cli.sh",
    "tools/vit-search.c": "search.sh words.sh names.sh cli.sh",
    "tools/vit-classify.c": "cli.sh words.sh names.sh sort.sh environment.sh",
    "tools/vit-get.c": "get.sh cli.sh",
    "tools/vit-learn.c": "learning.sh names.sh",
    "tools/vit-look.c": "look.sh names.sh cli.sh",
    "tools": "cli.sh names.sh search.sh words.sh environment.sh",  # the other programs
}
ARGUMENTS = {"damage": "10", "match": "12", "random": "120 20 40", "converter_memory": "60",
             "random.simde": "120 6 24"}

# The replacements apply to a source without comments, strings and preprocessor lines.
SWAPS = [(r"(?<![<>=!+\-*/%&|^-])<(?![<=])", "<="), (r"(?<!<)<=", "<"),
         (r"(?<![>\-=])>(?![>=])", ">="), (r"(?<!>)>=", ">"), (r"==", "!="), (r"!=", "=="),
         (r"&&", "||"), (r"\|\|", "&&"), (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " / "),
         (r" / ", " * "), (r" % ", " / "), (r" << ", " >> "), (r" >> ", " << "), (r" \+= ", " -= "),
         (r" & ", " | "), (r" \| ", " & "), (r"(?<![\w)\]])!(?=[\w(])", ""),
         (r"\breturn true;", "return false;"), (r"\breturn false;", "return true;")]
NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
# The script does not change array sizes. A larger array changes nothing, and only the sanitizers
# notice a smaller array.
ARRAY = re.compile(r"^\s+(?!return\b)(?:\w+ )+\**\w+(?:\[[^\]]*\])+[,;]")
RETURN = re.compile(r"\breturn ((?!true;|false;|0;)[^;{}]+);")
STATEMENT = re.compile(r"^\s+(?!return\b|const\b|static\b|typedef\b|extern\b|else\b|case\b|default\b|goto\b"
                       r"|struct\b|enum\b|union\b)(?:[\w\->.\[\]*(&]+ ?(?:[-+*/|&^]?=[^=]|\()[^{};]*|break"
                       r"|continue|[\w\->.\[\]]+(?:\+\+|--));$")


def masked(text):
    """The text with comments, strings and preprocessor lines as spaces of the same length."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def mutants_of(line):
    """(start, end, text) for each way to change a masked line."""
    for pattern, text in SWAPS:
        for m in re.finditer(pattern, line):
            yield m.start(), m.end(), text
    for m in NUMBER.finditer("" if ARRAY.match(line) else line):
        for change in (1, -1):
            yield m.start(), m.end(), str(int(m.group()) + change)
    for m in RETURN.finditer(line):
        yield m.start(1), m.end(1), "0"
    if STATEMENT.match(line):
        yield len(line) - len(line.lstrip()), len(line), ";"


def tests_of(path):
    while path:
        if path in TESTS:
            return TESTS[path].split()
        path = os.path.dirname(path)
    raise SystemExit("mutants.py: no test covers " + path)


class Tree:
    """Makes a copy of the tracked files, and of the files that were built of them."""

    times = {}  # of the tests, without a mutant

    def __init__(self, folder):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder + "/build")
        for top in ("vit.h", "Makefile", "README.md", "LICENSE", "examples", "models", "tools", "tests"):
            subprocess.run(["cp", "-a", top, folder], check=True)
        subprocess.run(["cp", "-a", "build/plain", folder + "/build"], check=True)
        self.implementations = subprocess.run(
            ["grep", "-rl", "--include=*.c", "define VIT_IMPLEMENTATION", "tools/base", "tests"], cwd=folder,
            stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        self.run("make -s all", None)

    def run(self, command, limit):
        """Returns the exit status. A process may take `limit` seconds of CPU time, because a busy
        machine makes the clock useless; the clock only ends processes that wait for ever."""
        if limit:
            command = "ulimit -t %d; %s" % (limit, command)
        with open(self.folder + "/build/mutant.log", "wb") as log:
            process = subprocess.Popen(["bash", "-c", command], cwd=self.folder, stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, start_new_session=True,
                                       env=dict(os.environ, BUILT="yes", BIN=".", MAKEFLAGS="", MAKELEVEL="0"))
            end = time.time() + 60 + 30 * limit if limit else float("inf")
            pid = 0
            while not pid:
                time.sleep(0.02)
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if not pid and time.time() > end:
                    os.killpg(process.pid, 9)
        self.took = usage.ru_utime + usage.ru_stime
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode

    def test(self, name, limit):
        if name.endswith(".sh"):
            targets = "all" + (" build/plain/tests/test_parity" if name == "parity.sh" else "")
            command = "bash tests/test_" + name
            if name == "confined.sh":
                targets += " build/evil/programs"
        else:
            targets = "build/%s/tests/test_%s" % ("simde" if name.endswith(".simde") else "plain",
                                                  name.replace(".simde", ""))
            command = targets + " tests/data " + ARGUMENTS.get(name, "")
        if self.run("make -s " + targets, None) != 0:
            return "does not compile"
        return "fails" if self.run(command, limit) else ""

    def limit(self, name):
        """Returns a test's limit, by its time without a mutant; None if it fails then, too."""
        if name not in self.times:
            said = self.test(name, None)
            self.times[name] = None if said else 3 + 2 * int(self.took)
            if said:
                print("%s %s without a mutant: not used" % (name, said), flush=True)
        return self.times[name]

    def objects(self, path):
        return ["build/plain/tools/base/vit.o" if path == "vit.h" else "build/plain/" + path[:-1] + "o"]

    def digest(self, path):
        with open(self.folder + "/" + self.objects(path)[0], "rb") as file:
            return hashlib.sha256(file.read()).digest()

    def judge(self, path, text):
        """Returns the name of the test that notices the file with this text; "" for none; None if
        the mutant does not count."""
        target = self.folder + "/" + path
        compile = "make -s " + " ".join(self.objects(path))
        with open(target, encoding="utf-8") as file:
            original = file.read()
        age = os.stat(target).st_mtime_ns

        def become(content):
            with open(target, "w", encoding="utf-8") as file:
                file.write(content)
            if path == "vit.h":  # only what compiles the implementation
                os.utime(target, ns=(age, age))
                for name in self.implementations:
                    for built in glob.glob(self.folder + "/build/*/" + name[:-1] + "o"):
                        os.utime(built, (1, 1))  # one that is missing need not be made anew: .SECONDARY

        try:
            self.run(compile, None)
            before = self.digest(path)
            become(text)
            if self.run(compile, None) != 0 or self.digest(path) == before:
                return None
            for name in tests_of(path):
                if name not in self.times:  # most mutants do not get as far as the slow tests
                    become(original)
                    self.limit(name)
                    become(text)
                said = self.limit(name) and self.test(name, self.limit(name))
                if said == "does not compile":
                    return None
                if said:
                    return name
            return ""
        finally:
            become(original)


def sources(wanted):
    found = subprocess.run(["git", "ls-files", "vit.h", "tools"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split()
    found = [f for f in found if f == "vit.h" or f.endswith(".c") and not
             re.match(r"tools/(bench/peers|packaging)/|tools/os/windows|tools/base/vit\.c", f)]
    return [f for f in found if not wanted or any(f.startswith(w) for w in wanted)]


def draw(files, seed):
    """Yields mutants without end, each place once: (path, line number, old line, new line, text of
    the file)."""
    places = []
    texts = {}
    for path in files:
        with open(path, encoding="utf-8") as file:
            texts[path] = file.read()
        code = masked(texts[path])
        if path == "vit.h":  # the implementation alone
            at = code.find("\n", texts[path].find("if defined(VIT_IMPLEMENTATION)"))
            code = re.sub(r"[^\n]", " ", code[:at]) + code[at:]
        places += [(path, i, line) for i, line in enumerate(code.split("\n")) if line.startswith(" ")
                   and line.strip()]
    chance = random.Random(seed)
    chance.shuffle(places)
    for path, i, line in places:
        ways = list(mutants_of(line))
        # Without sanitizers, no test notices a leak, or a block of memory that is too small.
        if not ways or "free" in line or "alloc(" in line:
            continue
        start, end, new = chance.choice(ways)
        lines = texts[path].split("\n")
        old = lines[i]
        lines[i] = old[:start] + new + old[end:]
        yield path, i + 1, old, lines[i], "\n".join(lines)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("-n", type=int, default=200, help="how many that count")
    options.add_argument("-s", "--seed", type=int, default=1)
    options.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    options.add_argument("-m", "--minutes", type=float, default=1e9, help="begin none later than that")
    options.add_argument("files", nargs="*", help="tools/layout: only what begins so")
    o = options.parse_args()
    os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/..")
    files = sources(o.files)
    if not files:
        raise SystemExit("mutants.py: no such file: " + " ".join(o.files))
    trees = queue.Queue()
    for i in range(o.jobs):
        trees.put(Tree("build/mutants/%d" % i))
    end = time.time() + 60 * o.minutes
    noticed, survivors = 0, []

    def work(mutant):
        if noticed + len(survivors) >= o.n or time.time() > end:
            return mutant, None
        tree = trees.get()
        try:
            return mutant, tree.judge(mutant[0], mutant[4])
        finally:
            trees.put(tree)

    mutants = draw(files, o.seed)
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        running = set()
        for mutant in mutants:
            running.add(pool.submit(work, mutant))
            if len(running) < o.jobs:
                continue
            done, running = concurrent.futures.wait(running, return_when="FIRST_COMPLETED")
            for future in done:
                (path, number, old, new, _), who = future.result()
                noticed += bool(who)
                if who == "":
                    survivors.append(path)
                    print("%s:%d: nobody noticed\n-%s\n+%s" % (path, number, old, new), flush=True)
                elif who:
                    print("%s:%d: %s (%s)" % (path, number, who, new.strip()), flush=True)
            if noticed + len(survivors) >= o.n or time.time() > end:
                break
        for future in concurrent.futures.as_completed(running):
            (path, number, old, new, _), who = future.result()
            noticed += bool(who)
            if who == "":
                survivors.append(path)
                print("%s:%d: nobody noticed\n-%s\n+%s" % (path, number, old, new), flush=True)
    shutil.rmtree("build/mutants", ignore_errors=True)
    total = noticed + len(survivors)
    print("%d mutants, nobody noticed %d: %.1f %%" % (total, len(survivors), 100 * len(survivors) / max(total, 1)))
    return 0 if total else 1


if __name__ == "__main__":
    sys.exit(main())
