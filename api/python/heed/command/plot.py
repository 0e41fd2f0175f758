"""Bars as an SVG, to be read on light and on dark paper."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

COLOUR = "#d9822b"
INK = "#737880"  # as far from white as from black
ROW = 34
LETTER = 7.6  # pixels of a letter of the text, at most about
PLOT = 420  # pixels of the axis
MARKS = 8  # numbers of the axis, at most


class Bar(NamedTuple):
    """A number, its name in two forms, and how sure it is."""

    key: str
    name: str
    value: float
    spread: tuple[float, float]
    warning: str  # beside the number; a bar that has one is pale


def bars(
    drawn: Sequence[Bar], name: str, label: str, notes: Sequence[str], line: float | None = None
) -> str:
    """A bar for each number, on a logarithmic axis that has room for all of them.

    They begin at ``line``, with which numbers are compared, or else at the end of the axis.
    """
    seen = [number for bar in drawn for number in (bar.value, *bar.spread)]
    marks = axis([*seen, line] if line is not None else seen)
    low, high = marks[0], marks[-1]

    def place(number: float) -> float:
        return left + PLOT * math.log(number / low) / math.log(high / low)

    left = 16 + round(LETTER * max((len(text) for bar in drawn for text in bar[:2]), default=0))
    bottom = 30 + ROW * len(drawn)
    ends = [left + PLOT + 90, *(left + LETTER * len(text) for text in (*notes, label))]
    wide, tall = round(max(ends)), bottom + 42 + 16 * len(notes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{tall}" '
        f'viewBox="0 0 {wide} {tall}" font-family="sans-serif" font-size="12" fill="{INK}">',
        f'<rect x="{left}" y="6" width="12" height="12" fill="{COLOUR}"/>',
        text(left + 18, 16, name),
    ]
    for mark in marks:
        x = place(mark)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="24" y2="{bottom}" stroke="{INK}" '
            f'stroke-opacity="0.3"/>'
        )
        parts.append(text(x, bottom + 14, f"{mark:,g}", "middle"))
    begin = place(low if line is None else line)
    for row, bar in enumerate(drawn):
        y = 30 + ROW * row
        x, (first, last) = place(bar.value), map(place, bar.spread)
        parts += [
            text(left - 8, y + (11 if bar.name else 18), bar.key, "end"),
            text(left - 8, y + 24, bar.name, "end"),
            f'<rect x="{min(begin, x):.1f}" y="{y + 3}" width="{abs(x - begin):.1f}" '
            f'height="{ROW - 12}" fill="{COLOUR}" fill-opacity="{0.35 if bar.warning else 1}"/>',
            f'<path d="M{first:.1f} {y + 9}v10m0 -5H{last:.1f}m0 -5v10" stroke="{INK}" '
            'stroke-width="1.5" fill="none"/>',
            text(max(x, last, begin) + 6, y + 18, f"{bar.value:.3g} {bar.warning}".rstrip()),
        ]
    if line is not None:
        parts.append(
            f'<line x1="{begin:.1f}" x2="{begin:.1f}" y1="24" y2="{bottom}" stroke="{INK}"/>'
        )
    parts += [text(left, bottom + 32 + 16 * i, note) for i, note in enumerate((label, *notes))]
    return "\n".join(part for part in parts if part) + "\n</svg>\n"


def axis(numbers: Sequence[float]) -> list[float]:
    """Powers of 2, or of more where these are too many, from below all numbers to above them."""
    for base in (2, 10, 100, 10**4, 10**8):
        low = math.floor(math.log(min(numbers, default=1.0), base))
        high = math.ceil(math.log(max(numbers, default=1.0), base))
        if high - low < MARKS:
            break
    return [float(base) ** power for power in range(low, max(high, low + 1) + 1)]


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    """Words at a place, or nothing."""
    end = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y}"{end}>{escape(words)}</text>' if words else ""
