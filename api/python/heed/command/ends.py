"""How the command ends: by what fails, by its streams, by its user."""

import codecs
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

FAILED = 1  # a file, a refusal of heed's, a result that is not as expected
USAGE = 2  # the command line
INTERRUPTED = 130
PLAIN = str.maketrans("░▒▓█│─┌┐└┘…→·", ".:+#|-++++~>.")  # of pictures, where there is only ASCII
# Words before and after the name of an argument that is told of, or that another is told by.
SUBJECT = (
    re.compile(r"(^|[:;,] |\b(and|but|or|so|if|that) )$"),
    re.compile(r" (is|are|has|have|must|does|do|was|\d)\b"),
)
REFERRED = (
    re.compile(r"\b(as|beside|by|with|without|than|neither|nor) $"),
    re.compile(r"$|[;,.:)]| (is|are|has|does|do|and|or|nor|\()"),
)
PATIENCE = 1.0  # seconds that an interrupt may take to become an exception


class Failure(Exception):  # noqa: N818
    """Ends the command with a message and exit status 1."""


class Misuse(Failure):
    """Ends it with exit status 2: the command line makes no sense."""


@contextmanager
def in_words_of(options: dict[str, str]) -> Iterator[None]:
    """Turns what heed refuses into a failure that names options of the command for arguments."""
    try:
        yield
    except (ValueError, TypeError, NotImplementedError, MemoryError, OSError) as error:
        raise Failure(renamed(str(error) or type(error).__name__, options)) from error


def renamed(message: str, options: dict[str, str]) -> str:
    """The message with options where it names arguments.

    Names that are words too, as heads and threads, are arguments where something is said of them.
    """
    names = "|".join(sorted(map(re.escape, options), key=len, reverse=True))
    if not names:
        return message
    message = re.sub('"(top|bottom)_(left|right)"', r"\1-\2", message)

    def option(found: re.Match[str]) -> str:
        name = found["name"]
        before, after = message[: found.start()], message[found.end() :]
        subject = SUBJECT[0].search(before) and SUBJECT[1].match(after)
        referred = REFERRED[0].search(before) and REFERRED[1].match(after)
        return options[name] if "_" in name or subject or referred else name

    return re.sub(rf"(?<![\w\"'-])(?P<name>{names})(?![\w\"'])", option, message)


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
    """Other letters in the place of the ones that the encoding lacks."""
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
