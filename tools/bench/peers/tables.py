"""tables.py - results of bench_peers.py as Markdown."""


def threads_text(count):
    return "%d thread%s" % (count, "" if count == 1 else "s")


def unique(values):
    return list(dict.fromkeys(values))


def speed(results):
    """A row for each model, batch, dtype and number of threads; a column for each runtime."""
    runtimes, rows = unique(r["runtime"] for r in results), {}
    for r in results:
        rows.setdefault((r["arch"], r["batch"], r["dtype"], r["threads"]), {})[r["runtime"]] = r
    lines = ["| model | batch | weights | threads | %s |" % " | ".join(runtimes),
             "|---|--:|---|--:|%s" % ("--:|" * len(runtimes))]
    for key, row in rows.items():
        cells = []
        for name in runtimes:
            cell = "%.1f ms" % row[name]["ms"] if name in row else "-"
            if name in row and name != "vit.h" and "vit.h" in row:
                cell += " (%.2f)" % (row[name]["ms"] / row["vit.h"]["ms"])
            cells.append(cell)
        lines.append("| %s | %s | %s | %s | %s |" % (*key, " | ".join(cells)))
    return lines


def details(results):
    """Fastest run, memory and agreement."""
    lines = ["| model | batch | weights | threads | runtime | fastest | resident | peak "
             "| logits differ | cosine |", "|---|--:|---|--:|---|--:|--:|--:|--:|--:|"]
    for r in results:
        lines.append("| %(arch)s | %(batch)d | %(dtype)s | %(threads)d | %(version)s "
                     "| %(ms_min).1f ms | %(resident_mib)d MiB | %(peak_mib)d MiB "
                     "| %(difference).1e | %(cosine).5f |" % r)
    return lines


def cold(results):
    lines = ["| model | weights | threads | runtime | cold start | fastest | forward pass | more |",
             "|---|---|--:|---|--:|--:|--:|--:|"]
    for r in results:
        lines.append("| %s | %s | %d | %s | %.1f ms | %.1f ms | %.1f ms | %.1f ms |" % (
            r["arch"], r["dtype"], r["threads"], r["version"], r["ms"], r["ms_min"],
            r["forward_ms"], r["ms"] - r["forward_ms"]))
    return lines
