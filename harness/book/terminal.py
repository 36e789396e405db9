"""Draws a terminal session as SVG, for the front pages."""

from __future__ import annotations

from html import escape

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


def draw(session: list[tuple[str, list[str]]], label: str) -> str:
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
