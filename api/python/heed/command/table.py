"""Lines of cells, one below the other."""

from collections.abc import Sequence


def columns(lines: Sequence[Sequence[str]], words: Sequence[int]) -> list[str]:
    """Lines whose cells have a column each: ``words`` begin where it does, numbers end there."""
    wide = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, wide, strict=True))
        ).rstrip()
        for line in lines
    ]
