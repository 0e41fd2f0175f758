"""Sequence.save and Cache.load: bytes, paths, files of every kind, and what is refused."""

import contextlib
import gzip
import io
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from test_cache import HEADS, cache_of, filled, queries_of, rows_of

import heed


@pytest.fixture
def saved():
    """A cache, a sequence of it, and its bytes."""
    cache = cache_of()
    sequence, _ = filled(cache, 37)
    return cache, sequence, sequence.save()


def assert_same(sequence, other):
    query = queries_of(HEADS, 2)
    for layer in range(2):
        results = [s.cache.attention(s, query, layer=layer) for s in (sequence, other)]
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda x: np.frombuffer(x, "u1")])
def test_bytes(saved, make):
    cache, sequence, data = saved
    assert type(data) is bytes
    assert len(data) == sequence.saved_bytes()
    assert_same(cache.load(make(data)), sequence)
    other = cache_of(pages=9, page_rows=32)  # of other pages
    assert_same(other.load(make(data + b"more")), sequence)


def test_paths_and_another_process(saved, tmp_path):
    cache, sequence, data = saved
    for path in (tmp_path / "one", str(tmp_path / "two")):
        assert sequence.save(path) is None
        assert (tmp_path / path).read_bytes() == data
        assert_same(cache.load(path), sequence)
    program = (
        "import sys, heed; cache = heed.Cache(layers=2, key_heads=2, features=8, value_features=6,"
        "pages=3); sys.stdout.buffer.write(cache.load(sys.argv[1]).save())"
    )
    run = [sys.executable, "-c", program, path]
    assert subprocess.run(run, check=True, capture_output=True).stdout == data


def opened(how, path, mode):
    if how == "memory":
        return io.BytesIO()
    if how == "temporary":
        return tempfile.NamedTemporaryFile()
    if how == "gzip":
        return gzip.open(path, f"{mode}b")
    return open(path, f"{mode}b" if how == "one way" else f"{mode}b+", -(how != "raw"))


WAYS = ("raw", "buffered", "one way", "gzip", "memory", "temporary")


@pytest.mark.parametrize("how", WAYS)
def test_files_from_where_they_stand_on(saved, how, tmp_path):
    cache, sequence, data = saved
    with contextlib.ExitStack() as files:
        file = files.enter_context(opened(how, tmp_path / "file", "w"))
        for text in (b"head", b"middle"):
            file.write(text)
            sequence.save(file)
        file.write(b"tail")
        if how in ("memory", "temporary"):
            file.seek(0)
        else:
            file.close()
            file = files.enter_context(opened(how, tmp_path / "file", "r"))
        assert file.read() == b"head" + data + b"middle" + data + b"tail"
        file.seek(0)
        for text in (b"head", b"middle"):
            assert file.read(len(text)) == text
            assert_same(cache.load(file), sequence)
        assert file.read() == b"tail"


def test_pipes_and_sockets(saved):
    cache, sequence, data = saved
    pairs = [socket.socketpair(), [os.fdopen(end, mode, 0) for end, mode in make_pipe()]]
    for reader, writer in pairs:
        with reader, writer:
            thread = threading.Thread(target=sequence.save, args=(writer,))
            thread.start()
            assert_same(cache.load(reader), sequence)
            thread.join()
    reader, writer = (os.fdopen(end, mode) for end, mode in make_pipe())
    with reader, writer:
        sequence.save(writer)
        writer.write(b"more")
        writer.flush()
        with pytest.raises(ValueError, match="a buffered file that cannot seek, and may have read"):
            cache.load(reader)
        assert reader.read(len(data)) == data


def make_pipe():
    reader, writer = os.pipe()
    return (reader, "rb"), (writer, "wb")


def changed(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


MAGIC = "the first 8 bytes are 0x.*; those of a saved sequence are 0x"
CHECKSUM = "the checksum of the saved sequence is .*, so they have been altered"
REFUSED = [
    (lambda d: d[:50], "the number of bytes is 50; it must be at", "file ends after 50 bytes; it"),
    (lambda d: d[:-1], r"bytes is \d+; .* sequence is not whole", r"file ends after \d+ b"),
    (lambda _: b"not what was saved" * 20, MAGIC, MAGIC),
    (lambda d: changed(d, len(d) // 2), CHECKSUM, CHECKSUM),
]


@pytest.mark.parametrize(("change", "of_bytes", "of_file"), REFUSED)
def test_what_is_not_a_sequence(saved, tmp_path, change, of_bytes, of_file):
    cache, _, data = saved
    before = cache.describe()
    with pytest.raises(heed.CorruptError, match=of_bytes):
        cache.load(change(data))
    path = tmp_path / "file"
    path.write_bytes(change(data))
    with pytest.raises(heed.CorruptError, match=of_file):
        cache.load(path)
    assert cache.describe() == before


class Partly(io.RawIOBase):
    """A raw file, which may take a part of what it gets, or none."""

    def __init__(self, takes):
        self.takes, self.data = takes, b""

    def write(self, data):
        taken = self.takes(data)
        self.data += bytes(data)[: taken or 0]
        return taken


class Duck:
    """Which has two methods, and answers as it was told."""

    def __init__(self, answer):
        self.answer, self.data = answer, []

    def write(self, data):
        self.data.append(bytes(data))
        return self.answer

    def read(self):
        return self.answer


def test_files_that_take_a_part(saved):
    cache, sequence, data = saved
    for takes in (len, lambda rest: min(len(rest), 1000), lambda rest: (len(rest) + 1) // 2):
        file = Partly(takes)
        sequence.save(file)
        assert file.data == data
    file = Duck(None)  # as what takes all may answer
    sequence.save(file)
    assert file.data == [data]
    assert_same(cache.load(Duck(bytearray(data))), sequence)


def of_cache(**changes):
    return lambda cache, sequence, data: cache_of(**changes).load(data)


def to(file):
    return lambda cache, sequence, data: sequence.save(file)


def source(given):
    return lambda cache, sequence, data: cache.load(given)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (of_cache(layers=3), ValueError, "layers of the saved sequence is 2; it must be the cache"),
        (of_cache(pages=2), MemoryError, "37 rows takes 3 pages; the cache has 2"),
        (to(3), TypeError, "file must be a path or a binary file, not int"),
        (to(None), TypeError, "file must be a path or a binary file, not NoneType"),
        (source(None), TypeError, "source must be bytes, a path or a binary file, not NoneT"),
        (to(io.StringIO()), TypeError, "file must be a binary file, not one of text"),
        (source("/nowhere"), FileNotFoundError, "No such file"),
        (to("/dev/full"), heed.FileError, "No space left"),
        (to(Partly(lambda _: None)), BlockingIOError, "file would have to wait after 0 of"),
        (to(Partly(lambda _: 0)), OSError, "file.write wrote 0 of"),
        (to(Duck(10**9)), OSError, "file.write wrote 1000000000 of"),
        (to(Duck("all")), TypeError, "file.write must return an int or None, not str"),
        (source(Duck(None)), BlockingIOError, "source has no bytes yet"),
        (source(Duck("/etc/hostname")), TypeError, "source.read must return bytes, not str"),
        (source(Duck(Path("/etc"))), TypeError, "source.read must return bytes, not PosixPath"),
    ],
)
def test_what_cannot_be_saved_or_loaded(saved, call, kind, message):
    with pytest.raises(kind, match=message):
        call(*saved)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
def test_what_files_raise_comes_out(saved, kind):
    def fail(*_):
        raise kind

    class Named:
        __fspath__ = fail

    cache, sequence, _ = saved
    file = Duck(None)
    file.read = file.write = fail
    for source in (file, Named()):
        for step in (sequence.save, cache.load):
            with pytest.raises(kind):
                step(source)


def test_layers_of_different_lengths_keep_the_file(saved, tmp_path):
    _, sequence, _ = saved
    path = tmp_path / "file"
    path.write_bytes(b"what was there")
    sequence.append(*rows_of(1), layer=1)
    for save in (sequence.save, lambda: sequence.save(path)):
        with pytest.raises(heed.ArgumentError, match="layer 1 of the sequence has 38 rows; it mus"):
            save()
    assert path.read_bytes() == b"what was there"
