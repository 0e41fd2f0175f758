"""Attention on CPUs."""

from heed._heed import (
    Cache,
    Context,
    Graph,
    GraphAttentionPlan,
    Kept,
    MultiheadPlan,
    Plan,
    Sequence,
    Weights,
    cache_bytes,
    get_threads,
    set_threads,
)
from heed._heed import version as __version__
from heed.blocks import multihead, multihead_backward, multihead_plan
from heed.dense import attention, attention_backward, plan
from heed.errors import (
    ArgumentError,
    BusyError,
    CorruptError,
    Error,
    FileError,
    OutOfMemoryError,
    UnsupportedError,
)
from heed.graphs import graph_attention, graph_attention_backward, graph_attention_plan
from heed.information import info
from heed.results import Gradients, GraphGradients, MultiheadGradients, Result
from heed.rows import merge, project, rotate
from heed.score_function import ScoreFunction, ScoreGradient, ScoreTile
from heed.show import show

__all__ = [
    "ArgumentError",
    "BusyError",
    "Cache",
    "Context",
    "CorruptError",
    "Error",
    "FileError",
    "Gradients",
    "Graph",
    "GraphAttentionPlan",
    "GraphGradients",
    "Kept",
    "MultiheadGradients",
    "MultiheadPlan",
    "OutOfMemoryError",
    "Plan",
    "Result",
    "ScoreFunction",
    "ScoreGradient",
    "ScoreTile",
    "Sequence",
    "UnsupportedError",
    "Weights",
    "__version__",
    "attention",
    "attention_backward",
    "cache_bytes",
    "get_threads",
    "graph_attention",
    "graph_attention_backward",
    "graph_attention_plan",
    "info",
    "merge",
    "multihead",
    "multihead_backward",
    "multihead_plan",
    "plan",
    "project",
    "rotate",
    "set_threads",
    "show",
]
