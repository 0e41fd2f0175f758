"""Sequences of caches in paths and files: ``Sequence.save`` and ``Cache.load``."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from heed._heed import Cache, Sequence
from heed.errors import Error

_BUFFERED = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)


def save(sequence: Sequence, file: Any) -> None:
    """Write a sequence to a path, or to a binary file from where it stands on."""
    if isinstance(file, str | os.PathLike):
        sequence.saved_bytes()  # refuses what cannot be saved before the file is emptied
    with _descriptor("file", file, "write") as descriptor:
        if descriptor is None:
            _write_all(file, sequence.save())
        else:
            sequence.save_descriptor(descriptor)


def load(cache: Cache, source: Any) -> Sequence:
    """Read a sequence from a path, or from a binary file from where it stands on."""
    with _descriptor("source", source, "read") as descriptor:
        if descriptor is not None:
            return cache.load_descriptor(descriptor)
    seekable = getattr(source, "seekable", lambda: False)()
    start = source.tell() if seekable else None
    sequence = cache.load(_read_all(source))
    if start is not None:
        source.seek(start + sequence.saved_bytes())
    return sequence


@contextmanager
def _descriptor(name: str, file: Any, method: str) -> Iterator[int | None]:
    """The descriptor of a file; None where its bytes are not the ones that its method moves."""
    if isinstance(file, str | os.PathLike):
        mode = "rb" if method == "read" else "wb"
        with open(file, mode, buffering=0) as opened, _named(file, opened.fileno()):
            yield opened.fileno()
        return
    if isinstance(file, io.TextIOBase):
        raise TypeError(f"{name} must be a binary file, not one of text")
    if not hasattr(file, method) and not hasattr(file, "fileno"):
        other = " bytes," if name == "source" else ""
        raise TypeError(f"{name} must be{other} a path or a binary file, not {type(file).__name__}")
    raw = file.raw if isinstance(file, _BUFFERED) else file
    if not isinstance(raw, io.FileIO) and hasattr(file, method):  # which sockets have not
        yield None
        return
    descriptor = int(raw.fileno())
    with _in_step(file, descriptor), _named(getattr(file, "name", name), descriptor):
        yield descriptor


def _write_all(file: Any, data: bytes) -> None:
    """Raw files may take a part; what returns None, and is none of them, has taken all."""
    done = 0
    rest: bytes | memoryview = data
    while done < len(data):
        taken = file.write(rest)
        if taken is None and not isinstance(file, io.RawIOBase):
            return
        if taken is None:
            message = f"file would have to wait after {done} of {len(data)} bytes"
            raise BlockingIOError(errno.EAGAIN, message, done)
        if not isinstance(taken, int):
            raise TypeError(f"file.write must return an int or None, not {type(taken).__name__}")
        if not 0 < taken <= len(rest):
            raise OSError(errno.EIO, f"file.write wrote {taken} of {len(rest)} bytes that it got")
        done += taken
        rest = memoryview(data)[done:]


def _read_all(source: Any) -> bytes | bytearray | memoryview:
    read = source.read()
    if read is None:
        raise BlockingIOError(errno.EAGAIN, "source has no bytes yet; a read would have to wait")
    if not isinstance(read, bytes | bytearray | memoryview):
        raise TypeError(f"source.read must return bytes, not {type(read).__name__}")
    return read


@contextmanager
def _named(file: Any, descriptor: int) -> Iterator[None]:
    """Calls the file in refusals what the caller does."""
    try:
        yield
    except Error as error:
        message = str(error).replace(f"descriptor {descriptor}", str(file))
        raise type(error)(message) from None


@contextmanager
def _in_step(file: Any, descriptor: int) -> Iterator[None]:
    """Lets the descriptor stand where the file does, and the file where that stands at last."""
    if not isinstance(file, _BUFFERED):
        yield
        return
    if not file.seekable():
        if file.readable():
            raise ValueError(
                "source is a buffered file that cannot seek, and may have read ahead: open it with "
                "buffering=0"
            )
        file.flush()
        yield
        return
    file.flush()
    # The buffer must stay right about where the descriptor stands.
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, file.tell(), os.SEEK_SET)
    try:
        yield
    finally:
        after = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, before, os.SEEK_SET)
        file.seek(after)
