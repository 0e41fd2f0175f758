"""Attention on CPUs."""

from heed._heed import Context, Plan, get_threads, set_threads
from heed._heed import version as __version__
from heed.dense import attention, plan
from heed.errors import ArgumentError, Error, OutOfMemoryError, UnsupportedError
from heed.information import info
from heed.merging import merge
from heed.results import Result
from heed.rotary import rotate
from heed.score_function import ScoreFunction, ScoreTile

__all__ = [
    "ArgumentError",
    "Context",
    "Error",
    "OutOfMemoryError",
    "Plan",
    "Result",
    "ScoreFunction",
    "ScoreTile",
    "UnsupportedError",
    "__version__",
    "attention",
    "get_threads",
    "info",
    "merge",
    "plan",
    "rotate",
    "set_threads",
]
