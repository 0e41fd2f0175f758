"""Files with tiles, which ``HEED_TUNING_FILE`` loads; the format: docs/reference/precision.md."""

import os
import tempfile

import heed
from heed.command import files
from heed.command.ends import Failure
from heed.command.shapes import Shape

FIRST = "heed-tuning 1"
# Tiles, and a note, by the problems that they are for; None: the automatic ones.
Entries = dict[str, str | None]


def problems(shape: Shape, threads: int) -> str:
    """What a line says about the problems that it is for: those of about the shape's sizes."""
    rows = shape.queries * (shape.heads // shape.key_heads)
    return " ".join(
        (
            f"key={shape.dtype} value={shape.dtype}",
            f"features={shape.features} value_features={shape.value_features}",
            f"rows={about(rows)} keys={about(shape.keys)}",
            f"heads={about(shape.batch * shape.key_heads)}",
            f"threads={threads} causal={'no' if shape.causal is None else 'yes'}",
        )
    )


def about(size: int) -> str:
    """What is less than a factor of sqrt(2) away: sizes that are powers of two share all others."""
    low, high = int(size / 2**0.5) + 1, int(size * 2**0.5)
    return f"{low}-{high}" if low < high else str(size)


def merged(text: str, cpu: str, isa: str, entries: Entries) -> str:
    """The text of a tuning file with these entries, in place of lines for the same problems."""
    lines = text.splitlines()
    section = f"cpu={cpu} isa={isa}"
    new = [f"{of} {tiles}" for of, tiles in entries.items() if tiles is not None]
    replaced = {conditions_of(of.split()) for of in entries}
    kept: list[str] = []
    here = False
    begins = None
    for line in lines:
        words = line.partition("#")[0].split()
        if words[:1] and words[0].startswith("cpu="):
            here = " ".join(words) == section
        elif here and conditions_of(words) in replaced:
            continue
        kept.append(line)
        if here and begins is None:
            begins = len(kept)
    if not new:
        return "".join(f"{line}\n" for line in kept)
    if not kept:
        kept = [
            FIRST,
            "# Written by `heed tune`; of the lines that cover a problem the first counts.",
        ]
    if begins is None:
        kept += ["", section]
        begins = len(kept)
    kept[begins:begins] = new
    return "\n".join(kept) + "\n"


def conditions_of(words: list[str]) -> frozenset[str]:
    """What a line says of problems, without tiles."""
    return frozenset(word for word in words if not word.startswith("tile_"))


def update(path: str, context: heed.Context, entries: Entries, dry_run: bool = False) -> bool:
    """Merges into a file, which may not be there yet, once heed has read the result.

    Returns whether the file has changed.
    """
    before = ""
    if os.path.exists(path):
        before = "".join(f"{line}\n" for line in files.read_lines(path))
    said = context.describe()
    isa = str(said["isa"])
    text = merged(before, str(said["cpu"]), isa, entries)
    if not text:
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".tuning", encoding="utf-8") as tried:
        tried.write(text)
        tried.flush()
        try:
            heed.Context(isa=isa, executor="serial", tuning_file=tried.name)
        except (ValueError, heed.UnsupportedError) as error:
            raise Failure(
                f"{path} is not a tuning file: {str(error).partition('; ')[2]}"
            ) from error
    if text != before and not dry_run:
        files.write_text(path, text)
    return text != before
