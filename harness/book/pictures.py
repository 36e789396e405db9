"""Pictures of the front pages, as SVG: a terminal session, and the timeline of a report."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

HTML = Path(__file__).resolve().parent.parent / "suite" / "src" / "html"
"""The style sheets of reports."""

WIDTH = 86
"""Columns; longer lines are cut."""
LINE = 20
"""Pixels of a line."""
LETTER = 8.43
"""Pixels of a letter of 14 pixels."""

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" \
aria-label="{label}">
<style>
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dce2;
  white-space: pre; animation: shown 0.2s both }}
.typed {{ fill: #ffffff }}
.prompt {{ fill: #6cc38b }}
@keyframes shown {{ from {{ opacity: 0 }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none }} }}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#17212b"/>
<circle cx="18" cy="16" r="5" fill="#e0655c"/><circle cx="36" cy="16" r="5" fill="#e2b44f"/>\
<circle cx="54" cy="16" r="5" fill="#6cc38b"/>
"""


def terminal(session: list[tuple[str, list[str]]], label: str) -> str:
    """Returns the picture of commands with their output; a command appears some time after the output before it."""
    lines: list[tuple[float, str]] = []
    time = 0.0
    for command, output in session:
        time += 0.8
        for index, line in enumerate(command.splitlines()):
            shown = escape(line[:WIDTH])
            prompt = '<tspan class="prompt">$</tspan> ' if index == 0 else "  "
            lines.append((time, f'{prompt}<tspan class="typed">{shown}</tspan>'))
        time += 0.6
        lines.extend((time, escape(line[:WIDTH])) for line in output)
    width, height = round(WIDTH * LETTER + 2 * 16), (len(lines) + 1) * LINE + 32
    text = [
        f'<text x="16" y="{54 + index * LINE}" style="animation-delay: {time:.1f}s">{line}</text>'
        for index, (time, line) in enumerate(lines)
    ]
    return HEAD.format(width=width, height=height, label=escape(label)) + "\n".join(text) + "\n</svg>\n"


LABELS = 96
"""Pixels of the column with the names of the rows."""


def timeline(page: str) -> str:
    """Returns the first timeline of a report, as the browser has drawn it, with the names of its rows."""
    drawn = re.search(r'<svg class="timeline" width="(\d+)" height="(\d+)".*?</svg>', page, re.DOTALL)
    assert drawn, "the page has a timeline"
    width, height = int(drawn[1]), int(drawn[2])
    column = page[page.index('class="labels"') : drawn.start()]
    names = re.findall(r'<div class="label[^>]*>([^<]*)</div>', column)
    rows = [45, *map(int, re.findall(r'<line class="lane" [^>]*y1="(\d+)"', drawn[0]))]
    assert len(names) == len(rows), (names, rows)
    # Browsers differ in the last digits, and a picture needs no keys.
    body = re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", drawn[0])
    body = re.sub(r' (role|tabindex|aria-[a-z]+|width|height)="[^"]*"', "", body[: body.index(">")]) + re.sub(
        r' (role|tabindex|aria-[a-z]+)="[^"]*"|<title>[^<]*</title>', "", body[body.index(">") :]
    )
    body = body.replace("<svg ", f'<svg x="{LABELS}" width="{width}" height="{height}" ', 1)
    labels = "\n".join(
        f'<text x="8" y="{row + 4}" class="name">{escape(name)}</text>' for name, row in zip(names, rows)
    )
    colours = re.findall(r":root \{.*?\}", (HTML / "page.css").read_text(encoding="utf-8"), re.DOTALL)[0]
    style = (HTML / "timeline.css").read_text(encoding="utf-8")
    label = "A run as a timeline: checks, and the events of each actor"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width + LABELS}" height="{height}" \
viewBox="0 0 {width + LABELS} {height}" role="img" aria-label="{label}">
<style>
{colours}
{style}
svg {{ font: 13px system-ui, sans-serif; overflow: hidden }}
[hidden] {{ display: none }}
.hit {{ fill: none }}
</style>
<rect width="100%" height="100%" fill="#fff"/>
{labels}
{body}
</svg>
"""
