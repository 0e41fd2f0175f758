"""Arrays and texts from files and to them."""

import os
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from heed.command.failure import Failure
from heed.command.shapes import numpy_type

Array = np.ndarray[Any, np.dtype[Any]]


def read_array(path: str) -> Array:
    """Of a .npy file."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise Failure(f"{path}: it is not a .npy file: {error}") from error
    if not isinstance(loaded, np.ndarray):
        raise Failure(f"{path}: it is a .npz file with several arrays; a .npy file is wanted here")
    return named(loaded)


def read_arrays(path: str) -> dict[str, Array]:
    """Of a .npz file, by name."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise Failure(f"{path}: it is a .npy file; a .npz file is wanted here")
        with loaded as archive:
            return {name: named(archive[name]) for name in archive.files}
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise Failure(f"{path}: it is not a .npz file: {error}") from error


def named(array: Array) -> Array:
    """Two bytes without a name are bfloat16, as NumPy writes it."""
    return array.view(numpy_type("bf16")) if array.dtype == np.dtype("V2") else array


def write(path: str, fill: Callable[[IO[bytes]], object]) -> None:
    """Replaces a file in one go: it is the old one, or the whole of the new one, at any moment."""
    where = Path(path)
    try:
        target = Path(os.path.realpath(where))  # a link stays one
        if target.exists() and not target.is_file():
            with open(target, "wb") as stream:  # /dev/stdout and the like
                fill(stream)
            return
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                fill(stream)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise Failure(f"{path}: it cannot be written: {error.strerror or error}") from error


def write_array(path: str, array: Array) -> None:
    """A .npy file."""
    write(path, lambda stream: np.lib.format.write_array(stream, array, allow_pickle=False))


def write_arrays(path: str, arrays: dict[str, Array]) -> None:
    """A .npz file."""
    write(path, lambda stream: np.savez(stream, **arrays))  # type: ignore[arg-type]


def write_text(path: str, text: str) -> None:
    """UTF-8."""
    write(path, lambda stream: stream.write(text.encode()))


def read_lines(path: str) -> list[str]:
    """Of a text in UTF-8; - is stdin."""
    try:
        if path == "-":
            return sys.stdin.read().splitlines()
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path}: it is not UTF-8: {error.reason} at byte {error.start}") from error


def check_apart(results: dict[str, str | None], inputs: dict[str, str | None]) -> None:
    """Refuses a result that would replace a file of the command line."""
    seen = {os.path.realpath(path): name for name, path in inputs.items() if path is not None}
    for name, path in results.items():
        if path is None or not os.path.isfile(path):
            continue
        real = os.path.realpath(path)
        if real in seen:
            raise Failure(f"{name} {path} would replace what {seen[real]} names")
        seen[real] = name


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
