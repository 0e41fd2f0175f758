"""The options of attention, which every function that attends takes, and the types of arrays."""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    get_args,
)

from heed._heed import Context

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SupportsDLPack(Protocol):
    """An array that other libraries may read: of NumPy, PyTorch, JAX and many others."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """Describe the array in a capsule."""


Array: TypeAlias = Union[SupportsDLPack, "Buffer"]
ArrayT = TypeVar("ArrayT", bound="SupportsDLPack | Buffer")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Score: TypeAlias = Literal["dot", "sum", "additive", "cosine"]
Activation: TypeAlias = Literal["identity", "leaky_relu", "tanh"]
Point: TypeAlias = Literal["scores", "capped", "masked", "probabilities"]
Start: TypeAlias = Literal["top_left", "bottom_right", "top-left", "bottom-right"]


@dataclass(frozen=True)
class Row:
    """An entry of the table of options, beside the option's type.

    The names that others have for it (PyTorch, FlashAttention, ONNX, transformers); and the help of
    ``heed attend``, None where it has no such option, and the option's name, if that is another.
    """

    elsewhere: str = ""
    told: str | None = None
    word: str | None = None


class ScoreOptions(TypedDict, total=False):
    """Options of attention, also over ranks; ``heed.attention`` says what each means."""

    attn_mask: Annotated[
        Array | None, Row("mask attention_mask", "bool: True attends", word="mask")
    ]
    bias: Annotated[
        Array | None, Row("attn_bias attention_bias position_bias", "added to the scores")
    ]
    causal: Annotated[
        bool | Start,
        Row(
            "is_causal",
            "attend no later key: top-left (row 0 sees key 0; the default), or bottom-right (the "
            "last row sees every key)",
        ),
    ]
    window: Annotated[
        tuple[int | None, int | None] | None,
        Row(
            "window_size sliding_window",
            "attend so many keys before a row and after it; an empty side is unbounded, as in 256,",
        ),
    ]
    alignment: Annotated[
        int | Start | None,
        Row(
            told="where rows stand among keys, for --causal, windows and slopes: top-left, "
            "bottom-right or the key of row 0"
        ),
    ]
    scale: Annotated[float | None, Row("softmax_scale", "of scores (1 / sqrt(features))")]
    softcap: Annotated[
        float | None,
        Row(
            "logits_soft_cap logit_softcap softcapping",
            "bound scores by softcap * tanh(s / softcap)",
        ),
    ]
    alibi_slopes: Annotated[Array | Sequence[float] | None, Row("alibi", "a slope for every head")]
    sinks: Annotated[
        Array | Sequence[float] | None,
        Row("attention_sinks s_aux", "a score for every head, without a value"),
    ]
    temperature: Annotated[float | None, Row(told="divide scores by this (1)")]
    dropout: Annotated[float | None, Row("dropout_p attn_drop attention_dropout")]
    seed: Annotated[int | tuple[int, int] | None, Row("rng_seed philox_seed")]
    key_lengths: Annotated[
        Array | Sequence[int] | None,
        Row("seqused_k cache_seqlens nonpad_kv_seqlen", "keys of every item of the batch"),
    ]
    context: Context | None


class Options(ScoreOptions, total=False):
    """And options of attention in one process."""

    hard: Annotated[bool, Row(told="weight 1 at the largest score alone")]
    first_keys: Annotated[
        Array | Sequence[int] | None,
        Row("leftpad_k cache_leftpad", "the first key of every item of the batch"),
    ]
    dropout_origin: Array | Sequence[int] | None
    score: Score
    activation: Activation | None
    slope: Annotated[float | None, Row("negative_slope")]
    score_weights: Array | None
    cu_seqlens_q: Annotated[Array | Sequence[int] | None, Row("cu_seq_q cu_seqlens")]
    cu_seqlens_k: Annotated[Array | Sequence[int] | None, Row("cu_seq_k")]
    max_seqlen_q: Annotated[int | None, Row("max_q")]
    max_seqlen_k: Annotated[int | None, Row("max_k")]
    block_table: Annotated[Array | Sequence[Sequence[int]] | None, Row("page_table block_tables")]
    key_scales: Annotated[Array | float | None, Row("k_descale")]
    value_scales: Annotated[Array | float | None, Row("v_descale")]
    score_function: Annotated[Any, Row("score_mod")]


class CallOptions(Options, total=False):
    """And where the result goes."""

    out: Array | None


class ResultOptions(CallOptions, total=False):
    """And what else it gives back, in a ``heed.Result``."""

    return_lse: Annotated[
        bool, Row("return_softmax_lse", "the log-sum-exp of every row", word="lse")
    ]
    return_weights: Annotated[
        bool | Point | None,
        Row(
            "need_weights output_attentions return_attn_probs",
            "the weights of every row and key (probabilities), or scores at another point",
            word="weights",
        ),
    ]
    weight_rows: Array | Sequence[int] | None
    return_column_sums: Annotated[
        bool, Row(told="the weights that every key gets, summed", word="column-sums")
    ]


# The whole table: of every option of attention its type, and what else there is to say.
TABLE: dict[str, tuple[Any, Row]] = {
    name: (get_args(hint)[0], hint.__metadata__[0])
    if hasattr(hint, "__metadata__")
    else (hint, Row())
    for name, hint in ResultOptions.__annotations__.items()
}


class GradientOptions(TypedDict, total=False):
    """Which gradients of attention are wanted, also over ranks."""

    grad_lse: Array | None
    grad_query: bool | Array
    grad_key: bool | Array
    grad_value: bool | Array
    grad_bias: bool | Array
    grad_sinks: bool | Array
    grad_alibi_slopes: bool | Array
    grad_scale: bool
    grad_temperature: bool
    accumulate: bool


_DEFAULTS = {
    **dict.fromkeys(("causal", "hard", "residual", "return_lse", "return_weights"), False),
    "return_column_sums": False,
    **dict.fromkeys(("grad_query", "grad_key", "grad_value"), True),
    **dict.fromkeys(("grad_bias", "grad_sinks", "grad_alibi_slopes", "grad_scale"), False),
    **dict.fromkeys(("grad_temperature", "grad_score_weights", "accumulate"), False),
    "combine": "concat",
    "placement": "contiguous",
    "queries": "split",
    "score": "dot",
    "steps": 1,
}
_LAST = {"out": 1, "context": 2, "keep": 3}  # in signatures

# Docstrings say this of parameters and errors, unless they say something else.
_PARAMETERS = """\
    grad_out: the gradient of ``out``, in its shape; any floating type, float64 as ``query``.
    grad_lse: the gradient of ``lse``, in its shape, where the loss depends on it.
    grad_query: True, the gradient of ``query`` is wanted, in a new array of its shape and type;
        an array, it is written there, and must not overlap another argument; False, it is not
        wanted, and costs nothing.
    grad_bias: the same of ``bias``, or of a floating ``attn_mask``: in its shape, summed over
        the axes that it repeats.
    grad_scale: the derivative by ``scale``, also where that is the default, is wanted.
    grad_temperature: the same by ``temperature``.
    accumulate: gradients are added to what the arrays given for them hold.
    context: where to compute; the default one of the process unless given.
"""
_ERRORS = """\
    heed.ArgumentError: shapes, types or values do not fit.
    TypeError: an argument is of a wrong Python type.
    heed.OutOfMemoryError: there is no memory.
"""

# The names that others, and PyTorch Geometric, have for other parameters.
_OTHERS = {
    "heads": "num_heads q_num_heads nhead",
    "key_heads": "kv_num_heads num_kv_heads num_key_value_heads",
    "features": "head_dim",
    "nodes": "num_nodes",
    "edge_data": "edge_attr",
    "layers": "num_layers",
    "page_rows": "block_size page_size",
    "pages": "num_blocks num_pages",
    "threads": "num_threads",
}
_ELSEWHERE = {
    other: own
    for own, others in {
        **{name: row.elsewhere for name, (_, row) in TABLE.items()},
        **_OTHERS,
    }.items()
    for other in others.split()
}
_NOT_HERE = {
    "enable_gqa": "query heads may be a multiple of key heads without it",
}


def unexpected(function: str, name: str, known: Iterable[str]) -> str:
    """The message for a keyword that a function does not know: perhaps another one was meant."""
    import heed  # of which this is a part

    message = f"{function}() got an unexpected keyword argument {name!r}"
    if name in _NOT_HERE:
        return f"{message}: {_NOT_HERE[name]}"
    called = getattr(heed, function, None)
    parameters = inspect.signature(called).parameters if inspect.isfunction(called) else ()
    names = dict.fromkeys([*known, *parameters])
    meant = _ELSEWHERE.get(name)
    close = [meant] if meant in names else difflib.get_close_matches(name, names, 1)
    return f"{message}; did you mean {close[0]}?" if close else message


def spelled_out(options: type, see: str | None = None) -> Callable[[FunctionT], FunctionT]:
    """Spells options out in the signature and the docstring that ``help`` and editors show.

    ``see`` is the function that describes parameters of which the docstring says nothing.
    """

    def decorate(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        positional = [p for p in own if p.kind is not p.KEYWORD_ONLY]
        defaults = {name: _DEFAULTS.get(name) for name in options.__annotations__}
        for name in getattr(options, "__required_keys__"):  # noqa: B009
            defaults[name] = inspect.Parameter.empty
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in defaults.items()
        ]
        rest = [p for p in own if p.kind is p.KEYWORD_ONLY]
        keywords = sorted([*added, *rest], key=lambda p: _LAST.get(p.name, 0))
        signature = signature.replace(parameters=[*positional, *keywords])
        function.__signature__ = signature  # type: ignore[attr-defined]
        if function.__doc__ is not None:  # as it is with python -OO
            written = [p.name for p in own]
            function.__doc__ = _completed(function.__doc__, signature.parameters, written, see)
        return function

    return decorate


def _completed(
    docstring: str, parameters: Iterable[str], written: list[str], see: str | None
) -> str:
    """The docstring with what it does not say itself of parameters and errors.

    One that says nothing of ``**options`` refers to ``see`` for all but the ``written`` parameters.
    """
    match = re.fullmatch(
        r"(.*?\n\n)Args:\n(.*?\n)\n(Returns:\n.*?\n\n)(?:Raises:\n(.*?\n)\n)?(.*)",
        inspect.cleandoc(docstring),
        re.DOTALL,
    )
    assert match is not None, docstring
    begin, args, returns, raises, end = match.groups(default="")
    described, shared = _paragraphs(args), _paragraphs(_PARAMETERS)
    order = list(described)
    at = 0
    for name in parameters:
        if name in described:
            at = order.index(name) + 1
            continue
        if name in shared:
            described[name] = shared[name]
        elif name.startswith("grad_"):
            described[name] = f"the same of ``{name.removeprefix('grad_')}``.\n"
        elif name in written and see is not None:
            described[name] = f"see ``{see}``.\n"
        else:
            continue
        order.insert(at, name)
        at += 1
    if see is not None and "**options" not in described:
        described["**options"] = f"see ``{see}``.\n"
        order.append("**options")
    errors = {**_paragraphs(_ERRORS), **_paragraphs(raises)}
    args, raises = _section({name: described[name] for name in order}), _section(errors)
    return f"{begin}Args:\n{args}\n{returns}Raises:\n{raises}\n{end}"


def _paragraphs(section: str) -> dict[str, str]:
    return dict(re.findall(r"^ {4}(\S+): (.*?\n)(?=^ {4}\S|\Z)", section, re.DOTALL | re.MULTILINE))


def _section(paragraphs: dict[str, str]) -> str:
    return "".join(f"    {name}: {text}" for name, text in paragraphs.items())


def named(given: dict[str, Any]) -> dict[str, Any]:
    """All arguments of a function by name, as the compiled part takes them, from its locals()."""
    return {**given.pop("options"), **given}


def taken(options: dict[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """Takes options out of those that were given: defaults where they were not, or are None."""
    values = (options.pop(name, None) for name in names)
    return tuple(
        _DEFAULTS.get(name) if value is None else value
        for name, value in zip(names, values, strict=True)
    )
