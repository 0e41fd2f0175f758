"""What ends a command."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

FAILED = 1  # a file, a refusal of heed's, a result that is not as expected
USAGE = 2  # the command line
INTERRUPTED = 130


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
    """The message with options where it names arguments."""
    names = "|".join(sorted(map(re.escape, options), key=len, reverse=True))
    if not names:
        return message
    message = re.sub('"(top|bottom)_(left|right)"', r"\1-\2", message)
    return re.sub(rf"(?<![\w\"'-])({names})(?![\w\"'])", lambda found: options[found[1]], message)
