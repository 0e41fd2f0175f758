"""Tables of what is refused, as parameters of a test."""

import pytest

import heed


def refusals(arguments, unsupported, types):
    """Rows that end with a message, and the kind of error behind it."""
    kinds = (
        (heed.ArgumentError, arguments),
        (heed.UnsupportedError, unsupported),
        (TypeError, types),
    )
    return [pytest.param(*row, kind, id=row[-1][:40]) for kind, rows in kinds for row in rows]
