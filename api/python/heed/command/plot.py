"""Bars as an SVG, to be read on light and on dark paper."""

from collections.abc import Mapping
from html import escape

COLOUR = "#d9822b"
INK = "#737880"  # as far from white as from black
ROW = 26
LETTER = 7.6  # pixels of the font's letters, at most about
PLOT = 420  # pixels of the longest bar
MOST = 3.0  # bars past so many times the line are cut, and say so


def bars(values: Mapping[str, float], name: str, label: str, line: float | None = None) -> str:
    """A bar for each value, with its number; ``line`` marks what they are compared with."""
    longest = max(values.values(), default=1.0)
    if line is not None:
        longest = min(max(longest, 1.2 * line), MOST * line)
    left = round(LETTER * max((len(key) for key in values), default=0)) + 12
    high = ROW * len(values) + 52
    wide = max(left + PLOT + 70, left + round(LETTER * len(label)) + 10)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
        f'viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="12" fill="{INK}">',
        f'<rect x="{left}" y="6" width="12" height="12" fill="{COLOUR}"/>'
        f'<text x="{left + 18}" y="16">{escape(name)}</text>',
    ]
    for row, (key, value) in enumerate(values.items()):
        y = 26 + ROW * row
        length = PLOT * min(value, longest) / longest
        cut = " →" if value > longest else ""
        parts.append(
            f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(key)}</text>'
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{ROW - 7}" fill="{COLOUR}"/>'
            f'<text x="{left + length + 6:.1f}" y="{y + 14}">{value:.3g}{cut}</text>'
        )
    bottom = 26 + ROW * len(values)
    if line is not None:
        x = left + PLOT * line / longest
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="22" y2="{bottom}" stroke="{INK}"/>')
    parts.append(f'<text x="{left}" y="{bottom + 18}">{escape(label)}</text></svg>')
    return "\n".join(parts) + "\n"
