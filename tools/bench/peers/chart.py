"""chart.py - writes results of bench_peers.py as Markdown, and the charts of figures.py as SVG."""
import math
from xml.sax.saxutils import escape


def threads_text(count):
    return "%d thread%s" % (count, "" if count == 1 else "s")


def unique(values):
    return list(dict.fromkeys(values))


def speed(results):
    """Returns a table: a row for each model, batch, dtype and number of threads; a column for each
    runtime."""
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
    """Returns a table of the fastest run, memory and agreement."""
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


# A chart has its own background, light or dark as the viewer prefers, and is legible on any page.
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 }
  .strong { font-weight: 600 }
  .small { font-size: 11px; fill: #59636e }
  .page { fill: #ffffff; stroke: #d1d9e0 }
  .grid { stroke: #d1d9e0 } .mark { stroke: #1f2328; stroke-dasharray: 3 3 }
  .a { fill: #0969da; stroke: #0969da } .b { fill: #bf8700; stroke: #bf8700 }
  .c { fill: #cf222e; stroke: #cf222e } .d { fill: #1a7f37; stroke: #1a7f37 }
  .e { fill: #8250df; stroke: #8250df }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small { fill: #9198a1 }
    .page { fill: #0d1117; stroke: #3d444d }
    .grid { stroke: #3d444d } .mark { stroke: #f0f6fc }
    .a { fill: #4493f8; stroke: #4493f8 } .b { fill: #d29922; stroke: #d29922 }
    .c { fill: #f85149; stroke: #f85149 } .d { fill: #3fb950; stroke: #3fb950 }
    .e { fill: #ab7df8; stroke: #ab7df8 }
  }
"""
COLOURS = {"vit.h": "a", "ONNX Runtime": "b", "onnxruntime-web": "b", "PyTorch": "c", "ncnn": "d"}
WIDTH, LEFT, RIGHT, BETWEEN, TOP = 760, 84, 34, 64, 92
BAR, STEP, GAP = 11, 13, 12


def colour(runtime):
    return COLOURS.get(runtime, "e")


def number(value):
    """Returns the value in a short form, for a tick."""
    return "%g" % round(value, 4)


def ticks(low, high):
    """Returns round numbers from low to high, at most nine."""
    step = next(step for power in range(-6, 7)
                for step in (10.0 ** power, 2 * 10.0 ** power, 5 * 10.0 ** power)
                if (high - low) / step <= 8)
    return [step * i for i in range(math.ceil(low / step - 1e-6), int(high / step + 1e-6) + 1)]


class Chart:
    def __init__(self, title, runtimes, panels):
        self.title, self.body, self.panels = title, [], panels
        self.text(20, 30, title, "title")
        x = 20
        for name in runtimes:
            self.body.append('<rect x="%d" y="45" width="10" height="10" class="%s"/>'
                             % (x, colour(name)))
            self.text(x + 16, 54, name)
            x += 34 + 7 * len(name)

    def text(self, x, y, words, kind="", anchor="start"):
        self.body.append('<text x="%.1f" y="%.1f"%s text-anchor="%s">%s</text>'
                         % (x, y, kind and ' class="%s"' % kind, anchor, escape(words)))

    def line(self, x1, y1, x2, y2, kind="grid"):
        self.body.append('<path d="M%.1f %.1fL%.1f %.1f" class="%s"/>' % (x1, y1, x2, y2, kind))

    def span(self, panel, left=LEFT):
        """Returns the left end of a panel, and its width."""
        width = (WIDTH - left - RIGHT - BETWEEN * (self.panels - 1)) / self.panels
        return left + panel * (width + BETWEEN), width

    def finish(self, y, caption):
        for words in caption:
            self.text(20, y, words, "small")
            y += 16
        return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" '
                'height="%d">\n<style>%s</style>\n<title>%s</title>\n'
                '<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" class="page"/>\n%s\n</svg>\n'
                % (WIDTH, y, WIDTH, y, STYLE, escape(self.title), WIDTH - 1, y - 1,
                   "\n".join(self.body)))


def ratio_bars(title, panels, caption):
    """panels: [(name, [(group, [(runtime, ms)])])], all with the same groups, where one runtime is
    vit.h. A bar is the speed of a runtime, relative to vit.h."""
    runtimes = unique(name for _, groups in panels for _, bars in groups for name, _ in bars)
    chart = Chart(title, runtimes, len(panels))
    scale = max(dict(bars)["vit.h"] / ms for _, groups in panels for _, bars in groups
                for _, ms in bars)
    heights = [STEP * max(map(len, same)) + GAP
               for same in zip(*([bars for _, bars in groups] for _, groups in panels))]
    bottom = TOP + sum(heights)
    for index, (name, groups) in enumerate(panels):
        x0, width = chart.span(index, LEFT + 20)
        unit, top = (width - 54) / scale, TOP
        chart.text(x0, TOP - 12, name, "strong")
        for tick in ticks(0, scale):
            chart.line(x0 + unit * tick, TOP, x0 + unit * tick, bottom)
            chart.text(x0 + unit * tick, bottom + 14, number(tick), "small", "middle")
        chart.text(x0 + unit * scale / 2, bottom + 30, "speed, vit.h = 1", "small", "middle")
        for (group, bars), height in zip(groups, heights):
            if index == 0:
                chart.text(20, top + 6 * len(bars) + 4, group, "strong")
            for y, (runtime, ms) in enumerate(bars):
                y = top + STEP * y
                length = unit * dict(bars)["vit.h"] / ms
                chart.body.append('<rect x="%.1f" y="%d" width="%.1f" height="%d" class="%s"/>'
                                  % (x0, y, length, BAR, colour(runtime)))
                chart.text(x0 + width, y + 9, "%.*f ms" % (ms < 100, ms), "small", "end")
            top += height
        chart.line(x0 + unit, TOP, x0 + unit, bottom, "mark")
    return chart.finish(bottom + 54, caption)


class Plane:
    """Axes with labels: x(value) and y(value) are places on the chart."""

    def __init__(self, chart, panel, name, x_axis, y_axis):
        """Draws the axes, each given as (label, low, high, ticks)."""
        self.x0, self.width = chart.span(panel)
        self.x_range, self.y_range = x_axis[1:3], y_axis[1:3]
        chart.text(self.x0, TOP - 12, name, "strong")
        for tick in y_axis[3]:
            chart.line(self.x0, self.y(tick), self.x0 + self.width, self.y(tick))
            chart.text(self.x0 - 6, self.y(tick) + 4, number(tick), "small", "end")
        for tick in x_axis[3]:
            chart.text(self.x(tick), TOP + 256, number(tick), "small", "middle")
        chart.text(self.x0 + self.width / 2, TOP + 274, x_axis[0], "small", "middle")
        x, y = self.x0 - 50, TOP + 120
        chart.body.append('<text x="%.1f" y="%.1f" class="small" text-anchor="middle" '
                          'transform="rotate(-90 %.1f %.1f)">%s</text>'
                          % (x, y, x, y, escape(y_axis[0])))

    def x(self, value):
        low, high = self.x_range
        return self.x0 + self.width * (value - low) / (high - low)

    def y(self, value):
        low, high = self.y_range
        return TOP + 240 * (high - value) / (high - low)


def lines(title, panels, x_label, y_label, caption):
    """panels: [(name, [(runtime, [(x, y)])])]; y begins at 0."""
    runtimes = unique(name for _, series in panels for name, _ in series)
    points = [point for _, series in panels for _, line in series for point in line]
    xs, top = sorted(set(x for x, _ in points)), 1.06 * max(y for _, y in points)
    chart = Chart(title, runtimes, len(panels))
    for index, (name, series) in enumerate(panels):
        plane = Plane(chart, index, name, (x_label, 0, 1.04 * xs[-1], xs),
                      (y_label, 0, top, ticks(0, top)))
        for runtime, line in series:
            places = [(plane.x(x), plane.y(y)) for x, y in line]
            chart.body.append('<path d="M%s" class="%s" style="fill:none;stroke-width:2"/>' % (
                "L".join("%.1f %.1f" % place for place in places), colour(runtime)))
            dots(chart, places, runtime)
    return chart.finish(TOP + 300, caption)


def dots(chart, places, runtime):
    for x, y in places:
        chart.body.append('<circle cx="%.1f" cy="%.1f" r="3.5" class="%s"/>'
                          % (x, y, colour(runtime)))


def scatter(title, panels, x_label, caption):
    """panels: [(y's label, highest y, [(runtime, label, x, y)])]; x begins at 0."""
    runtimes = unique(point[0] for _, _, points in panels for point in points)
    right = 1.15 * max(point[2] for _, _, points in panels for point in points)
    chart = Chart(title, runtimes, len(panels))
    for index, (y_label, highest, points) in enumerate(panels):
        low = min(y for *_, y in points)
        margin = 0.08 * (highest - low)
        plane = Plane(chart, index, "", (x_label, 0, right, ticks(0, right)),
                      (y_label, low - margin, highest + margin, ticks(low - margin, highest)))
        places = [(plane.x(x), plane.y(y)) for *_, x, y in points]
        for (runtime, label, *_), (x, y) in zip(points, places):
            dots(chart, [(x, y)], runtime)
            crowded = any(x < x2 < x + 40 and abs(y - y2) < 12 for x2, y2 in places)
            chart.text(x - 6 if crowded else x + 6, y + 4, label, "small",
                       "end" if crowded else "start")
    return chart.finish(TOP + 300, caption)
