"""Pictures of attention weights: a heat map in a terminal, an SVG in a notebook."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHADES = " ░▒▓█"
COLOURS = (16, 17, 54, 90, 126, 162, 198, 205, 218, 231)  # of the 256 of terminals, dark to light
LABEL = 16  # columns of a token's name, at most
CELLS = 160  # of a side of an SVG; more keys or rows share one
CELL = 14  # its pixels

Floats = NDArray[np.float64]


class HeatMap:
    """The weights of one head, [rows, keys], drawn wherever they are shown.

    ``repr`` is the map for a terminal as wide as this one, in colours where it has them; notebooks
    show :meth:`svg`.
    """

    def __init__(
        self,
        weights: Any,
        tokens: Sequence[str] | None,
        key_tokens: Sequence[str] | None,
        head: int | None,
        batch: int,
        title: str,
    ) -> None:
        """Takes the arguments of heed.show; draws nothing yet."""
        self.weights = _matrix(_floats(weights), head, batch)
        rows, keys = self.weights.shape
        if key_tokens is None and rows == keys:
            key_tokens = tokens
        self.rows = _clean("tokens", tokens, rows, "rows")
        self.keys = _clean("key_tokens", key_tokens, keys, "keys")
        self.title = title

    def text(self, *, width: int | None = None, colour: bool | None = None) -> str:
        """The map in at most ``width`` columns (the terminal's); ``colour``: with ANSI escapes."""
        if width is None:
            width = shutil.get_terminal_size().columns
        if colour is None:
            colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        names = _names(self.rows, len(self.weights))
        margin = max((_columns(name) for name in names), default=0) + 1
        cells, per_cell = _shared(self.weights, max((width - margin - 2) // 2, 1))
        lines = [self.title] if self.title else []
        lines += _header(self.keys, margin, per_cell, cells.shape[1])
        lines.append(" " * margin + "┌" + "──" * cells.shape[1] + "┐")
        for name, row in zip(names, _levels(cells), strict=True):
            drawn = "".join(_cell(level, colour) for level in row)
            lines.append(" " * (margin - 1 - _columns(name)) + name + " │" + drawn + "│")
        lines.append(" " * margin + "└" + "──" * cells.shape[1] + "┘")
        low, high = _range(cells)
        scale = "".join(_cell(level, colour) for level in np.linspace(0, 1, 5))
        lines.append(f"{low:.3g} {scale} {high:.3g}")
        return "\n".join(lines)

    def svg(self) -> str:
        """The map as an SVG, with the weight of a cell where the mouse is."""
        cells, keys_each = _shared(self.weights, CELLS)
        turned, rows_each = _shared(cells.T, CELLS)
        cells = turned.T / rows_each  # a mean over rows, a sum over keys
        rows = _names(self.rows, len(self.weights))[::rows_each]  # the first name of each cell
        keys = _names(self.keys, self.weights.shape[1])[::keys_each]
        left = 7 * max((len(name) for name in rows), default=0) + 8
        top = 7 * max((len(name) for name in keys), default=0) + (26 if self.title else 8)
        wide = max(left + CELL * cells.shape[1] + 8, 16 + 8 * len(self.title))
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" '
            f'height="{top + CELL * cells.shape[0] + 8}" font-family="sans-serif" font-size="11" '
            'fill="#737880">'
        ]
        if self.title:
            parts.append(f'<text x="8" y="14" font-size="13">{escape(self.title)}</text>')
        for j, name in enumerate(keys):
            x = left + CELL * j + 10
            parts.append(
                f'<text transform="translate({x} {top - 4}) rotate(-90)">{escape(name)}</text>'
            )
        for i, (name, row, levels) in enumerate(zip(rows, cells, _levels(cells), strict=True)):
            y = top + CELL * i
            parts.append(
                f'<text x="{left - 4}" y="{y + 11}" text-anchor="end">{escape(name)}</text>'
            )
            for j, (weight, level) in enumerate(zip(row, levels, strict=True)):
                colour = f'#b8320f" fill-opacity="{level:.3f}' if not np.isnan(level) else "#3d8fd1"
                parts.append(
                    f'<rect x="{left + CELL * j}" y="{y}" width="{CELL}" height="{CELL}" '
                    f'fill="{colour}"><title>{escape(name)} → {escape(keys[j])}: {weight:.3g}'
                    "</title></rect>"
                )
        return "".join(parts) + "</svg>"

    def __repr__(self) -> str:
        """The map for a terminal."""
        return self.text()

    def _repr_svg_(self) -> str:
        return self.svg()


def _floats(weights: Any) -> Floats:
    """As NumPy's, wherever they come from."""
    if hasattr(weights, "detach"):  # PyTorch's, of which NumPy takes neither bfloat16 nor gradients
        weights = weights.detach().double().cpu()
    try:
        numbers = np.asarray(_opened(weights))
    except ValueError:  # lists of different lengths
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "biuf" and numbers.dtype.name != "bfloat16":
        raise ValueError(f"weights is {numbers.dtype}; it must be an array of numbers")
    return numbers.astype(np.float64)


def _opened(weights: Any, depth: int = 4) -> Any:
    """NumPy takes whatever a __buffer__ of Python's raises for an object that has none."""
    if isinstance(weights, list | tuple) and depth > 0:
        return [_opened(row, depth - 1) for row in weights]
    if hasattr(type(weights), "__buffer__") and not isinstance(
        weights, bytes | np.ndarray | np.generic
    ):
        return memoryview(weights)
    return weights


def _matrix(weights: Floats, head: int | None, batch: int) -> Floats:
    """The weights of one head, or the mean of all."""
    if not 2 <= weights.ndim <= 4:
        raise ValueError(f"weights has {weights.ndim} axes; it must have 2 to 4")
    if weights.ndim == 4:
        if not 0 <= batch < len(weights):
            raise ValueError(f"batch is {batch}; it must be 0 to {len(weights) - 1}")
        weights = weights[batch]
    if weights.ndim == 2:
        weights = weights[None]
    if 0 in weights.shape:
        raise ValueError(f"weights is {list(weights.shape)}; there is nothing to show")
    if head is None:
        return np.asarray(weights.mean(axis=0))
    if not 0 <= head < len(weights):
        raise ValueError(f"head is {head}; it must be 0 to {len(weights) - 1}")
    return np.asarray(weights[head])


def _clean(of: str, names: Sequence[str] | None, count: int, what: str) -> list[str] | None:
    """Without what could steer a terminal."""
    if names is None:
        return None
    if len(names) != count:
        raise ValueError(
            f"{of} has {len(names)} names; it must have one for each of {count} {what}"
        )
    return ["".join(c if c.isprintable() else "·" for c in str(name)) for name in names]


def _columns(name: str) -> int:
    """How many columns of a terminal it takes."""
    return sum(_width(c) for c in name)


def _width(c: str) -> int:
    return 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1


def _names(names: Sequence[str] | None, count: int) -> list[str]:
    """Cut to what a margin holds; numbers where there are none."""
    cut = []
    for name in names or map(str, range(count)):
        kept, columns = "", 0
        for c in name:
            columns += _width(c)
            if columns > LABEL:
                kept = kept[:-1] + "…"
                break
            kept += c
        cut.append(kept)
    return cut


def _shared(weights: Floats, most: int) -> tuple[Floats, int]:
    """At most so many columns, each the sum of neighbours; and of how many."""
    rows, keys = weights.shape
    each = -(-keys // most)
    wide = np.zeros((rows, -(-keys // each) * each))
    wide[:, :keys] = weights
    return wide.reshape(rows, -1, each).sum(axis=2), each


def _range(cells: Floats) -> tuple[float, float]:
    """The smallest number, 0 unless there are negative ones, and the largest."""
    finite = cells[np.isfinite(cells)]
    return min(finite.min(initial=0.0), 0.0), finite.max(initial=0.0)


def _levels(cells: Floats) -> Floats:
    """0 to 1, from the smallest to the largest."""
    low, high = _range(cells)
    levels = np.clip((cells - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return np.where(np.isneginf(cells), 0.0, levels)


def _cell(level: float, colour: bool) -> str:
    """Two columns, which are about as wide as high."""
    if np.isnan(level):
        return "??"
    if colour:
        return f"\x1b[48;5;{COLOURS[round(level * (len(COLOURS) - 1))]}m  \x1b[0m"
    return SHADES[round(level * (len(SHADES) - 1))] * 2


def _header(keys: Sequence[str] | None, margin: int, per_cell: int, cells: int) -> list[str]:
    """The names of keys, from top to bottom; numbers of keys that share cells."""
    if keys is None or per_cell > 1:
        return [] if per_cell == 1 else [" " * margin + f" {per_cell} keys a cell"]
    names = [_letters(name)[:LABEL] for name in keys[:cells]]
    high = max(map(len, names))
    columns = [[" "] * (high - len(name)) + name for name in names]
    lines = (
        "".join(x + " " * (2 - _columns(x)) for x in line) for line in zip(*columns, strict=True)
    )
    return [" " * (margin + 1) + line.rstrip() for line in lines]


def _letters(name: str) -> list[str]:
    """Each with the marks that combine with it."""
    letters: list[str] = []
    for c in name:
        if letters and _width(c) == 0:
            letters[-1] += c
        else:
            letters.append(c)
    return letters
