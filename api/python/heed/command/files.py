"""Arrays and texts from files and to them."""

import errno
import io
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from heed.command.ends import Failure, Misuse
from heed.command.shapes import numpy_type

Array = np.ndarray[Any, np.dtype[Any]]
MAGIC = ((".npy", b"\x93NUMPY"), (".npz", b"PK\x03\x04"), (".npz", b"PK\x05\x06"))
ARRAYS = (".npy", ".npz")


def read_array(path: str) -> Array:
    """The array of a .npy file."""
    return in_order(load(path, ".npy"))


def read_arrays(path: str) -> dict[str, Array]:
    """The arrays of a .npz file, by name."""
    return {name: in_order(array) for name, array in load(path, ".npz").items()}


def load(path: str, kind: str) -> Any:
    """Loads a file by NumPy; its first bytes must be the ones of its kind."""
    try:
        with open(path, "rb") as file:
            stream = file if file.seekable() else io.BytesIO(file.read())  # as of <(a command)
            first = stream.read(8)
            found = next((name for name, magic in MAGIC if first.startswith(magic)), None)
            if found != kind:
                wanted = f"it is not a {kind} file"
                raise Failure(f"{path}: {wanted}{f' but a {found} file' if found else ''}")
            stream.seek(0)
            loaded = np.load(stream, allow_pickle=False)
            return loaded if kind == ".npy" else dict(loaded)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from error
    except Failure:
        raise
    except Exception as error:  # of many kinds
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise Failure(f"{path}: it is a broken {kind} file: {reason}") from error


def in_order(array: Array) -> Array:
    """In this CPU's order of bytes; two bytes without a name are bfloat16, as NumPy writes it."""
    if array.dtype == np.dtype("V2"):
        return array.view(numpy_type("bf16"))
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def check_kind(subject: str, array: Array, kinds: str, words: str) -> None:
    """Refuses an array whose kind NumPy calls by none of these letters."""
    kind = "f" if array.dtype.name == "bfloat16" else array.dtype.kind
    if kind not in kinds:
        raise Failure(f"{subject}: it is {array.dtype}; it must be {words}")


def write(path: str, fill: Callable[[IO[bytes]], object]) -> None:
    """Replaces a file in one go: it is the old one, or the whole of the new one, at any moment."""
    where = Path(path)
    try:
        if is_device(where):
            whole = io.BytesIO()  # NumPy asks a file for its position, which a pipe has not
            fill(whole)
            with open(where, "wb") as stream:
                stream.write(whole.getbuffer())
            return
        target = Path(os.path.realpath(where))  # a link stays one
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


def write_results(path: str | None, results: dict[str, Array]) -> None:
    """All of them into a .npz file, out alone into any other, where one is asked for."""
    if path is None:
        return
    if path.endswith(".npz"):
        write(path, lambda stream: np.savez(stream, **results))  # type: ignore[arg-type]
    else:
        write(path, lambda stream: np.save(stream, results["out"], allow_pickle=False))


def told(path: str | None, results: dict[str, Array]) -> str:
    """Shapes and types of results and where they are, or else their numbers in short."""
    words = [f"{name} {list(array.shape)} {array.dtype}" for name, array in results.items()]
    if path is not None:
        return f"{', '.join(words)} in {path}"
    numbers = results["out"].astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if finite.size:
        words[0] += f", {finite.min():.3g} to {finite.max():.3g}, mean {finite.mean():.3g}"
    return f"{', '.join(words)}; -o FILE.npy keeps it"


def write_text(path: str, text: str) -> None:
    """UTF-8."""
    write(path, lambda stream: stream.write(text.encode()))


def read_lines(path: str) -> list[str]:
    """The lines of a text in UTF-8; - is stdin."""
    if path == "-" and sys.stdin is None:
        raise Failure(f"{path}: stdin is closed")
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
        return text.removesuffix("\n").split("\n") if text else []
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path}: it is not UTF-8: {error.reason} at byte {error.start}") from error


def check_results(
    results: dict[str, tuple[str | None, tuple[str, ...]]], inputs: dict[str, str | None]
) -> None:
    """Refuses, before the work, a result that would be lost or would replace what is read.

    A name must end with one of those given beside it, unless there are none.
    """
    seen = {os.path.realpath(path): name for name, path in inputs.items() if path is not None}
    for name, (path, endings) in results.items():
        if path is None or is_device(Path(path)):
            continue
        if endings and not path.endswith(endings):
            raise Misuse(f"{name} {path}: its name must end with {' or '.join(endings)}")
        target = os.path.realpath(path)
        if target in seen:
            raise Failure(f"{name} {path} would replace what {seen[target]} names")
        seen[target] = name
        problem = unwritable(Path(target))
        if problem:
            raise Failure(f"{path}: it cannot be written: {os.strerror(problem)}")


def is_device(path: Path) -> bool:
    """/dev/stdout and the like."""
    return path.exists() and not path.is_file() and not path.is_dir()


def unwritable(target: Path) -> int:
    """The errno that writing would end with, or 0."""
    if target.is_dir():
        return errno.EISDIR
    if not target.parent.is_dir():
        return errno.ENOENT
    there = [path for path in (target, target.parent) if path.exists()]
    return 0 if all(os.access(path, os.W_OK) for path in there) else errno.EACCES


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
