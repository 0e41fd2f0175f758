"""Attention over the ranks of MPI, by mpi4py: sequences and graphs that outgrow one machine.

Every rank brings the rows that it has, and gets the rows of the result that belong to them. All
functions are collective: every rank of the communicator calls them, in the same order. An
error of one rank is raised on all of them, in a message that names it.

This needs mpi4py, and ``libheed_mpi`` for the same MPI as mpi4py's, which is found

- where ``HEED_MPI_LIBRARY`` says, a path,
- or by its name, where the system looks for libraries.

It is linked to ``libheed``, an engine of its own beside the one inside this package, and of the
same version. A ``heed.Context`` says what to compute with there, too: threads, instruction set and
so on. Weights are then rounded alike and results have the same bits, as far as both were built
for the same instruction sets.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Literal, TypeAlias, TypeVar, Unpack, overload

import numpy as np

from heed.needed import needed_by

with needed_by("heed.mpi"):
    from mpi4py import MPI

import heed.errors
from heed import _heed
from heed._heed import Context
from heed.errors import ArgumentError, UnsupportedError
from heed.graphs import GraphCallOptions, GraphResultOptions
from heed.options import Array, ArrayT, GradientOptions, ScoreOptions, named, spelled_out, taken
from heed.results import Gradients, Result

__all__ = [
    "Graph",
    "Options",
    "Placement",
    "Plan",
    "Positions",
    "ResultOptions",
    "attention",
    "attention_backward",
    "graph_attention",
    "library",
    "place",
    "plan",
]

Placement: TypeAlias = Literal["contiguous", "zigzag"]
Positions: TypeAlias = "Array | tuple[Array, Array]"
T = TypeVar("T")

_PLACEMENTS = ("contiguous", "zigzag")
_POSITIONS = 2


class Options(ScoreOptions, total=False):
    """Options of attention over ranks; ``heed.mpi.attention`` says what each means."""

    comm: MPI.Intracomm | None
    placement: Placement | Positions
    queries: Literal["split", "everywhere"]
    head_ranks: int | None
    flops_per_byte: float | None
    cu_seqlens_q: Array | Sequence[int] | None
    cu_seqlens_k: Array | Sequence[int] | None


class CallOptions(Options, total=False):
    """And where the result goes."""

    out: Array | None


class BackwardOptions(Options, GradientOptions, total=False):
    """Options of ``heed.mpi.attention_backward``."""


class ResultOptions(CallOptions, total=False):
    """And what else it gives back, in a ``heed.Result``."""

    return_lse: bool


_OVER_RANKS = ("comm", "placement", "queries")
_TENSORS = ("attn_mask", "bias", "alibi_slopes", "sinks", "key_lengths")


def place(
    length: int,
    comm: MPI.Intracomm | None = None,
    placement: Placement = "contiguous",
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Tell which rows of a sequence this rank has.

    Args:
        length: rows of the whole sequence.
        comm: whose ranks share it; ``COMM_WORLD`` unless given.
        placement: ``"contiguous"``, in order of ranks; or ``"zigzag"``: of twice as many chunks as
            ranks, rank i has chunk i and then chunk i from the end, which gives all the same share
            of causal attention.

    Returns:
        Their positions, int64, in the order that the rank's arrays have them:
        ``q = whole[:, heed.mpi.place(length)]``.

    Raises:
        heed.ArgumentError: there is no such placement or length.

    In C: heed_mpi_place.
    """
    comm = _communicator(comm)
    spans = library().place(_placement(placement), length, comm.size, comm.rank)
    return np.concatenate([np.arange(begin, begin + count) for begin, count in spans])


class Plan(_heed.MpiPlan):
    """Attention over ranks made ready, by ``heed.mpi.plan``.

    Calls take what the plan's maker did, as calls of a ``heed.Plan`` do, and are collective. So is
    the end of a with statement, which frees it.
    """

    def __init__(self, library: _heed.MpiLibrary, comm: MPI.Intracomm, part: _heed.MpiPart) -> None:
        """Takes the part that heed.mpi.plan has read; collective."""
        super().__init__(library, _handle(comm), part)
        self._comm = comm

    def __call__(
        self, query: Any, key: Any, value: Any, *, out: Any | None = None, **tensors: Any
    ) -> Any:
        """Compute what ``heed.mpi.attention`` would. In C: heed_mpi_attention_plan_run."""
        given = {"query": query, "key": key, "value": value, "out": out, **tensors}
        return self._run(given, partial(_agreed, self._comm))


@spelled_out(ResultOptions, see="heed.mpi.attention")
def plan(query: Array, key: Array, value: Array, **options: Unpack[ResultOptions]) -> Plan:
    """Attention over ranks made ready, for calls that have the same shapes again and again.

    Args:
        query: as of ``heed.mpi.attention``, as are all arguments.
        comm: see ``heed.mpi.attention``; it must outlive the plan.
        out: what form ``out`` will have, unless it is new, or contiguous in the type of ``query``.
        context: what the plan computes with; the default one of now unless given.

    Returns:
        A ``heed.mpi.Plan``. It keeps settings, but no tensor.

    Raises:
        heed.ArgumentError: shapes, types or values do not fit, or differ between ranks.

    In C: heed_mpi_attention_plan_create.
    """
    comm, found, part = _part(named(locals()))
    return Plan(found, comm, part)


@overload
def attention(
    query: ArrayT, key: Array, value: Array, **options: Unpack[CallOptions]
) -> ArrayT: ...


@overload
def attention(
    query: ArrayT, key: Array, value: Array, **options: Unpack[ResultOptions]
) -> Result[ArrayT]: ...


@spelled_out(ResultOptions, see="heed.attention")
def attention(query: Any, key: Any, value: Any, **options: Any) -> Any:
    """Attention of a sequence that is split over ranks: ``heed.attention`` of the whole.

    Causal, windows, ALiBi and key lengths go by positions in the whole sequence. Pages, 8-bit keys,
    hard attention, score functions, weights and column sums are not supported.

    Args:
        query: ``[batch, heads, rows, features]``, the rows of this rank, 0 too; the first axes may
            be missing as of ``heed.attention``, on all ranks alike.
        key: ``[batch, key heads, keys, features]``, the keys of this rank.
        value: ``[batch, key heads, keys, value features]``, likewise.
        comm: an ``mpi4py.MPI.Intracomm``; ``COMM_WORLD`` unless given.
        placement: which rows a rank has: ``"contiguous"``, those after the rank's before;
            ``"zigzag"``, see ``heed.mpi.place``; or their positions, int64, of queries and keys
            alike, or a pair: of queries, and of keys.
        queries: ``"split"``; or ``"everywhere"``, where all ranks bring the same queries, and get
            the same result: decoding with a cache that is split.
        head_ranks: ranks next to each other that share heads: 1 is a ring, all ranks an all-to-all
            over heads, between them a grid. Must divide the ranks and the key heads; the plan
            chooses unless given.
        flops_per_byte: to choose by: operations that a rank computes while the network brings it a
            byte; 160 unless given.
        cu_seqlens_q: of a packed batch, whose sequences lie one after the other in the rows of all
            ranks: where each begins, and the last ends, the same on all ranks; rows attend their
            own sequence. Tensors keep their axes, with a batch of 1. Placements, masks and biases
            count all rows, causal, windows and ALiBi those of a sequence.
        cu_seqlens_k: the same of keys, with ``cu_seqlens_q``.
        attn_mask: ``[batch, heads, rows, keys of all ranks]``, as of ``heed.attention``: the rows
            of this rank, and the keys in order of their positions.
        bias: likewise.
        causal: as of ``heed.attention``; ``alignment`` is of the whole.
        dropout: as of ``heed.attention``, whose mask of the whole it has however rows are split.
        seed: of dropout, the same on all ranks.
        key_lengths: ``[batch]``, of whole sequences; of a packed batch one of each.
        return_lse: also return the logarithm of the denominators.
        out: where to write the rows of this rank. It must not overlap an input.

    Returns:
        The rows of the result that belong to this rank's queries; a ``heed.Result`` if ``lse`` is
        asked for.

    Raises:
        heed.ArgumentError: shapes, types or values do not fit, or differ between ranks. As all
            errors of one rank it is raised on all.
        heed.UnsupportedError: an option is not supported, or there is no library.

    In C: heed_mpi_attention.
    """
    with plan(query, key, value, **options) as made:
        of_calls = (*_TENSORS, "seed")
        tensors = {name: options[name] for name in of_calls if options.get(name) is not None}
        return made(query, key, value, out=options.get("out"), **tensors)


@spelled_out(BackwardOptions, see="heed.mpi.attention")
def attention_backward(
    query: ArrayT,
    key: Array,
    value: Array,
    out: Array,
    lse: Array,
    grad_out: Array,
    **options: Unpack[BackwardOptions],
) -> Gradients[ArrayT]:
    """Gradients of ``heed.mpi.attention``, as of ``heed.attention_backward``: of this rank's rows.

    All ranks get the same gradients of what they have together: of sinks, slopes, weights of
    scores, scale and temperature, of a bias that repeats over rows, and of queries that are
    everywhere. Which gradients are wanted is the same on all ranks.

    Args:
        query: as the forward call had it, as were ``key``, ``value`` and all options.
        out: what ``heed.mpi.attention`` gave this rank.
        lse: what it gave with ``return_lse``.
        grad_lse: the gradient of ``lse``, in its shape, on ranks where the loss depends on it.
        grad_bias: the same of ``bias``, or of a floating ``attn_mask``: this rank's rows.
        **options: the options of ``heed.mpi.attention``, except ``return_lse``.

    Returns:
        A ``heed.Gradients``, None where one is not wanted.

    Raises:
        heed.ArgumentError: shapes, types or values do not fit, or differ between ranks.
        heed.UnsupportedError: an option is not supported, or there is no library.

    In C: heed_mpi_attention_backward.
    """
    comm, found, part = _part(named(locals()), Gradients._fields)
    gradients: Gradients[ArrayT] = part.gradients(found, _handle(comm), partial(_agreed, comm))
    return gradients


class Graph(_heed.MpiGraph):
    """A graph whose nodes are split over ranks, over which ``heed.mpi.graph_attention`` attends.

    A rank has the rows of its own nodes, in order of their numbers, and the edges that end there.
    Which rows of others it needs is found out once, here; each call exchanges just those. The end
    of a with statement, collective too, frees it.
    """

    def __init__(
        self,
        sources: Array | Sequence[int] = (),
        destinations: Array | Sequence[int] = (),
        *,
        path: str | os.PathLike[str] | None = None,
        nodes: int | None = None,
        owners: Array | Sequence[int] | None = None,
        duplicates: Literal["remove", "keep"] | None = None,
        comm: MPI.Intracomm | None = None,
        context: Context | None = None,
    ) -> None:
        """Split a graph; collective.

        Args:
            sources: of the edges that this rank brings, whichever, each from 0 to nodes - 1.
            destinations: likewise.
            path: of a text file that all ranks can read, instead: "source destination" a line.
            nodes: how many there are; with a path they are counted unless given.
            owners: ``[nodes]``, the rank that has each, the same on all ranks; ranges of nodes with
                even work unless given.
            duplicates: what becomes of edges with the ends of an earlier one: ``"remove"``, the
                default, or ``"keep"``.
            comm: whose ranks share it; ``COMM_WORLD`` unless given. It must outlive the graph.
            context: what to sort and to compute with; the default one unless given.

        Raises:
            heed.ArgumentError: an edge is none, or ranks differ; on all ranks.

        In C: heed_mpi_graph_create.
        """
        self._comm = _communicator(comm)
        found = _agreed(self._comm, library)
        given = sources, destinations, path, nodes, owners, duplicates, context
        agree = partial(_agreed, self._comm)
        super().__init__(found, _handle(self._comm), agree, *given)


@overload
def graph_attention(
    graph: Graph,
    query: ArrayT | None = None,
    key: Array | None = None,
    value: Array | None = None,
    *,
    data: ArrayT | None = None,
    **options: Unpack[GraphCallOptions],
) -> ArrayT: ...


@overload
def graph_attention(
    graph: Graph,
    query: ArrayT | None = None,
    key: Array | None = None,
    value: Array | None = None,
    *,
    data: ArrayT | None = None,
    **options: Unpack[GraphResultOptions],
) -> Result[ArrayT]: ...


@spelled_out(GraphResultOptions, see="heed.graph_attention")
def graph_attention(
    graph: Graph,
    query: Any | None = None,
    key: Any | None = None,
    value: Any | None = None,
    *,
    data: Any | None = None,
    **options: Any,
) -> Any:
    """Attention over a graph whose nodes are split: ``heed.graph_attention`` of the whole.

    Tensors over nodes have the rows of ``graph.nodes()``, those over edges of ``graph.edges()``;
    matrices that nodes share are the same on all ranks, and arrays, not ``heed.Weights``. Results
    have the same bits however nodes are split.

    Args:
        graph: a ``heed.mpi.Graph``.
        query: ``[own nodes, heads, features]``, as of ``heed.graph_attention``, as are all options.
        steps: see ``heed.graph_attention``; rows are exchanged in each.
        seed: of dropout, the same on all ranks; an edge counts as ``graph.edges()`` says.
        dropout_edges: not supported over ranks, which know the numbers of edges.
        out: where to write the rows of this rank. It must not overlap an input.
        context: what to compute with; the graph's unless given.

    Returns:
        The rows of this rank's nodes; a ``heed.Result`` if more is asked for.

    Raises:
        heed.ArgumentError: shapes, types or values do not fit, or differ between ranks; on all.
        heed.UnsupportedError: there is no library, a matrix is ``heed.Weights``, or a tensor of
            PyTorch requires gradients.

    In C: heed_mpi_graph_attention.
    """
    given = named(locals())
    if not isinstance(graph, Graph):
        raise TypeError(f"graph must be a heed.mpi.Graph, not {type(graph).__name__}")

    def agree(step: Callable[[], None]) -> None:
        def checked() -> None:
            _refuse_gradients(given)
            step()

        _agreed(graph._comm, checked)

    return graph._attention(given, agree)


def _refuse_gradients(tensors: dict[str, Any]) -> None:
    """Refuse tensors of PyTorch whose gradients would be lost."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return
    for name, tensor in tensors.items():
        if getattr(tensor, "requires_grad", False) is True:
            raise UnsupportedError(
                f"{name} requires gradients, which attention over a graph that is split over ranks "
                f"does not have: call it under torch.no_grad(), or give it {name}.detach(); "
                "heed.graph_attention_backward has those of one process"
            )


@cache
def library() -> _heed.MpiLibrary:
    """Load ``libheed_mpi``, once.

    Returns:
        The library that was found: its ``path``, and what its ``mpi`` says of itself.

    Raises:
        heed.UnsupportedError: there is none, or it is for another MPI or of another version.
    """
    vendor = MPI.get_vendor()[0]
    own = MPI.Get_library_version().rstrip("\0")
    given = os.environ.get("HEED_MPI_LIBRARY")
    version = _heed.version.rpartition(".")[0]
    names = [given] if given else [f"libheed_mpi.so.{version}", "libheed_mpi.so"]
    problems = []
    for name in names:
        try:
            found = _heed.MpiLibrary(name)
        except UnsupportedError as problem:
            problems.append(str(problem))
            continue
        if found.mpi.rstrip("\0") == own:
            return found
        theirs, ours = found.mpi.splitlines()[0], own.splitlines()[0]
        problems.append(f"{name} is for {theirs}; mpi4py uses {ours}")
    raise UnsupportedError(
        f"no libheed_mpi for mpi4py's MPI, {vendor} (HEED_MPI_LIBRARY names one): "
        + "; ".join(problems)
    )


def _part(
    given: dict[str, Any], gradients: tuple[str, ...] = ()
) -> tuple[MPI.Intracomm, _heed.MpiLibrary, _heed.MpiPart]:
    """The part of a rank, found good on all; collective. All must want the same ``gradients``."""
    over, placement, queries = taken(given, _OVER_RANKS)
    comm = _communicator(over)
    found = _agreed(comm, library)

    def read() -> tuple[_heed.MpiPart, int, Any, Any]:
        part = _heed.MpiPart(given, bool(gradients))
        if queries not in ("split", "everywhere"):
            raise ArgumentError(f'queries is {queries!r}; it must be "split" or "everywhere"')
        kind, of_queries, of_keys = _positions(placement)
        return part, kind, None if queries == "everywhere" else of_queries, of_keys

    part, kind, of_queries, of_keys = _agreed(comm, read)
    of_gradients = [f"grad_{name}" for name in gradients]
    same = {
        **part.types(),
        **{
            n: not isinstance(w, bool | np.bool_) or bool(w)
            for n, w in zip(of_gradients, taken({**given}, of_gradients), strict=True)
        },
        "accumulate": bool(given.get("accumulate")),
        "placement": (*_PLACEMENTS, "positions")[kind],
        "queries": queries,
        **_places(given),
        **{name: "given" if given.get(name) is not None else None for name in _TENSORS},
    }
    keys = _compared(comm, same, part.keys)
    everywhere = queries == "everywhere"
    _agreed(
        comm,
        lambda: part.finish(found, keys, kind, of_queries, of_keys, everywhere, not gradients),
    )
    return comm, found, part


def _handle(comm: MPI.Intracomm) -> tuple[int, int]:
    return MPI._addressof(comm), MPI._sizeof(comm)


def _communicator(comm: MPI.Intracomm | None) -> MPI.Intracomm:
    if comm is None:
        return MPI.COMM_WORLD
    if comm == MPI.COMM_NULL:
        raise ArgumentError("comm is MPI.COMM_NULL")
    if not isinstance(comm, MPI.Intracomm):
        raise TypeError(f"comm must be an mpi4py.MPI.Intracomm, not {type(comm).__name__}")
    return comm


def _placement(placement: str) -> int:
    if placement not in _PLACEMENTS:
        raise ArgumentError(f'placement is {placement!r}; it must be "contiguous" or "zigzag"')
    return _PLACEMENTS.index(placement)


def _positions(placement: Any) -> tuple[int, Any, Any]:
    """Tell the kind of placement that C knows, and the positions of queries and keys."""
    if isinstance(placement, str):
        return _placement(placement), None, None
    if isinstance(placement, tuple):
        if len(placement) != 2:
            raise ArgumentError(
                f"placement has {len(placement)} entries; as a tuple it must be a pair: "
                "positions of queries, and of keys"
            )
        return _POSITIONS, *placement
    return _POSITIONS, placement, placement


def _places(given: dict[str, Any]) -> dict[str, str | None]:
    """Tell what causal and alignment are, in one of the ways in which they may be said."""
    causal, alignment = (
        None if value is None else str(value).replace("-right", "_right").replace("-left", "_left")
        for value in (given.get("causal"), given.get("alignment"))
    )
    if causal == "True" and alignment not in (None, "top_left", "bottom_right"):
        return {"causal": f"True with alignment={alignment}", "alignment": None}
    if causal == "True":
        return {"causal": alignment or "top_left", "alignment": None}
    return {"causal": None if causal == "False" else causal, "alignment": alignment}


def _agreed(comm: MPI.Intracomm, step: Callable[[], T]) -> T:
    """Returns what step does; where it raises on a rank, all raise the same that the lowest did.

    A rank that is interrupted tells the others, too, which would wait for it.
    """
    problem: BaseException | None = None
    try:
        result = step()
    except BaseException as raised:
        problem = raised
    own = np.array([comm.size if problem is None else comm.rank])
    first = np.empty_like(own)
    comm.Allreduce(own, first, MPI.MIN)
    rank = int(first[0])
    if rank == comm.size:
        return result
    kind = type(problem).__name__
    name, message = comm.bcast((kind, str(problem) or kind) if comm.rank == rank else None, rank)
    if problem is not None and not isinstance(problem, Exception):
        raise problem
    kinds = {**vars(heed.errors), "TypeError": TypeError, "MemoryError": MemoryError}
    raise kinds.get(name, heed.errors.Error)(f"rank {rank}: {message}") from problem


def _compared(comm: MPI.Intracomm, own: dict[str, Any], keys: int) -> int:
    """The keys of all ranks; raises where what must be the same on all ranks is not."""
    all_ranks = comm.allgather((own, keys))
    first = all_ranks[0][0]
    for rank, (theirs, _) in enumerate(all_ranks):
        for name, value in theirs.items():
            if value == first[name]:
                continue
            if name in _TENSORS:
                given, not_given = (rank, 0) if value else (0, rank)
                raise ArgumentError(
                    f"rank {given}: {name} is given; on rank {not_given} it is not, and must be too"
                )
            raise ArgumentError(
                f"rank {rank}: {name} is {value}; on rank 0 it is {first[name]}, and must be the "
                "same"
            )
    return sum(theirs for _, theirs in all_ranks)
