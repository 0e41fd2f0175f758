"""How the command ends where its streams or its user end it."""

import codecs
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from heed.command.failure import FAILED, INTERRUPTED, Failure

PLAIN = str.maketrans("░▒▓█│─┌┐└┘…→·", ".:+#|-++++~>.")  # of pictures, where there is only ASCII
PATIENCE = 1.0  # seconds that an interrupt may take to become an exception


@contextmanager
def streams() -> Iterator[None]:
    """Flushes stdout, which may be a closed pipe, a full disk or in an encoding of few letters."""
    codecs.register_error("heed", plain)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="heed")
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if sys.stdout is not None:  # it flushes again when the program ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # as of `heed info | head -1`
            raise SystemExit(FAILED) from None
        raise Failure(f"{error.filename or 'stdout'}: {error.strerror or error}") from error


def plain(error: UnicodeError) -> tuple[str, int]:
    """What stands for letters that the encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end].translate(PLAIN)
    return "".join(c if c.isascii() else "?" for c in letters), error.end


@contextmanager
def interruptible(name: str) -> Iterator[None]:
    """Lets an interrupt end a call of heed that takes long: Python waits for its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    ended = threading.Event()

    def watch() -> None:
        while signals := os.read(reader, 1):  # nothing when the command has ended
            if signals[0] == signal.SIGINT and not ended.wait(PATIENCE):
                print(f"\n{name}: interrupted", file=sys.stderr, flush=True)
                os._exit(INTERRUPTED)
        os.close(reader)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        os.close(writer)
