"""chart.py - the bar chart of bench_peers.py as SVG text."""
from xml.sax.saxutils import escape

# Legible on any page: the chart brings its own background, light or dark as the viewer prefers.
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 }
  .group { font-weight: 600 }
  .small { font-size: 11px; fill: #59636e }
  .page { fill: #ffffff; stroke: #d1d9e0 }
  .bar0 { fill: #0969da } .bar1 { fill: #bf8700 } .bar2 { fill: #cf222e } .bar3 { fill: #1a7f37 }
  .bar4 { fill: #8250df } .bar5 { fill: #6e7781 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small { fill: #9198a1 }
    .page { fill: #0d1117; stroke: #3d444d }
    .bar0 { fill: #4493f8 } .bar1 { fill: #d29922 } .bar2 { fill: #f85149 } .bar3 { fill: #3fb950 }
    .bar4 { fill: #ab7df8 } .bar5 { fill: #9198a1 }
  }
"""
WIDTH, LEFT, RIGHT, BAR, STEP, GAP = 760, 240, 70, 15, 18, 12


def bar_chart(title, groups, caption):
    """groups: [(name, [(runtime, value)])]; a longer bar is better."""
    runtimes = []
    for _, bars in groups:
        runtimes += [name for name, _ in bars if name not in runtimes]
    longest = max(value for _, bars in groups for _, value in bars)
    body, y = [], 58

    def text(x, y, kind, words, anchor="start"):
        body.append('<text x="%.0f" y="%.0f" class="%s" text-anchor="%s">%s</text>'
                    % (x, y, kind, anchor, escape(words)))

    text(20, 30, "title", title)
    for group, bars in groups:
        text(20, y + 12, "group", group)
        for name, value in bars:
            length = (WIDTH - LEFT - RIGHT) * value / longest
            text(LEFT - 8, y + 12, "", name, "end")
            body.append('<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" class="bar%d"/>'
                        % (LEFT, y, length, BAR, min(runtimes.index(name), 5)))
            digits = 2 if value < 10 else 1 if value < 100 else 0
            text(LEFT + length + 6, y + 12, "", "%.*f" % (digits, value))
            y += STEP
        y += GAP
    for line in caption:
        text(20, y + 10, "small", line)
        y += 16
    height = y + 12
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">\n'
            % (WIDTH, height, WIDTH, height) +
            '<style>%s</style>\n<title>%s</title>\n' % (STYLE, escape(title)) +
            '<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" class="page"/>\n%s\n</svg>\n'
            % (WIDTH - 1, height - 1, "\n".join(body)))
