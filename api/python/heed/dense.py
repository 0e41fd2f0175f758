"""Dense attention: ``heed.attention``, its plans and its gradients."""

from typing import Any, Unpack, overload

from heed import _heed
from heed._heed import Plan
from heed.options import (
    Array,
    ArrayT,
    CallOptions,
    GradientOptions,
    Options,
    ResultOptions,
    named,
    spelled_out,
)
from heed.results import Gradients, Result


@overload
def attention(
    query: ArrayT, key: Array, value: Array, **options: Unpack[CallOptions]
) -> ArrayT: ...


@overload
def attention(
    query: ArrayT, key: Array, value: Array, **options: Unpack[ResultOptions]
) -> Result[ArrayT]: ...


@spelled_out(ResultOptions)
def attention(query: Any, key: Any, value: Any, **options: Any) -> Any:
    """Attention: every query row's mean of the values, weighted by how its keys score.

        s     = scale * <q_i, k_j>
              = scale * act(q_i + k_j)                    with score="sum"
              = scale * <a_h, act(q_i + k_j)>             with score="additive"
              = scale * a_h * <q_i, k_j> / (|q_i| |k_j|)  with score="cosine"
        s     = softcap * tanh(s / softcap)               if softcap is given
        s     = s - alibi_slopes[h] * |i + offset - j|    if slopes are given
        s     = s + bias[b, h, i, j]                      if a bias is given
        s     = score_function(s, b, h, i, j)             if one is given
        s     = -inf                                      where a mask, causal, window or length
                                                          excludes j, or the bias is -inf
        p     = softmax(s / temperature)                  over j, sinks[h] in the denominator
        p     = p / (1 - dropout), or 0 if it is dropped  if dropout is given
        out_i = sum of p_j v_j

    for query row i and key j of head h in batch item b. A row that may attend no key gives 0.
    Nothing is copied: arrays are read where they lie, with any strides, and results come in the
    kind of array that ``query`` is. Query heads may be a multiple of key heads, which they then
    share in groups.

    Args:
        query: ``[batch, heads, rows, features]`` of float32, float64, float16 or bfloat16. Here and
            below the first one or two axes may be missing, or 1 where others have more.
        key: ``[batch, key heads, keys, features]``, also int8 or float8_e4m3fn with ``key_scales``.
        value: ``[batch, key heads, keys, value features]``, likewise. All types may be mixed, but
            for float64, which goes with itself alone.
        attn_mask: bool, True attends; or floating, added to the scores. Broadcast to
            ``[batch, heads, rows, keys]``, as PyTorch does. A tokenizer's mask of ones and zeros,
            ``[batch, keys]``, is given as ``(mask != 0)[:, None, None, :]``: as floats its ones and
            zeros would be added to the scores, and exclude nothing.
        bias: floating, added to the scores beside a boolean ``attn_mask``. Broadcast likewise.
        causal: False; True or ``"top_left"``, row i attends key j if ``j <= i`` (PyTorch's
            ``is_causal``); ``"bottom_right"``, if ``j <= i + keys - rows`` (FlashAttention,
            decoding). True beside ``alignment``: if ``j <= i + offset``.
        window: ``(left, right)``, row i attends keys from ``i + offset - left`` to
            ``i + offset + right``; None in it is no bound.
        alignment: offset, where rows stand among the keys, for ``causal=True``, ``window`` and
            ``alibi_slopes``: ``"top_left"`` (0), ``"bottom_right"`` (keys - rows) or an int. Must
            be given for the last two without ``causal`` where rows and keys differ in number.
        scale: of scores; ``1 / sqrt(features)`` unless given, 1 of other scores than ``"dot"``.
        softcap: bound of scores, above 0.
        alibi_slopes: ``[heads]``, how much scores lose by distance.
        sinks: ``[heads]``, logits that only take part in the denominator.
        temperature: above 0; infinity weighs all attended keys alike. 1 unless given.
        hard: weight 1 at the largest score, of equal ones at the first key.
        score: how query and key make a score; with ``"sum"`` both have one feature.
        activation: ``act``, of ``"sum"`` and ``"additive"``; ``"leaky_relu"`` unless given.
        slope: of leaky ReLU below 0; 0.2 unless given.
        score_weights: ``a``, ``[heads * features]``, with ``score="additive"``; ``[heads]``, or
            ones, with ``score="cosine"``.
        dropout: at least 0, less than 1: how likely a weight is dropped, in steps of 1 / 256; the
            others are divided by what is left, ``1 - dropout``. lse, weights and column sums do not
            know of it.
        seed: of dropout: an int, another for every call; or a pair of an int and such an offset.
            Which weights are dropped depends on it, and on batch item, head, row and key, on
            nothing else.
        dropout_origin: where the call computes a part of a larger problem, whose mask it shall
            have: the batch item, query head, row and key at which it begins there, 0 to ``2**40``
            each.
        key_lengths: ``[batch]``, how many keys each batch item has; others are not read.
        first_keys: ``[batch]``, the first key that rows of a batch item attend, where padding is on
            the left.
        cu_seqlens_q: ``[batch + 1]``, where sequences begin and end in a packed query
            ``[rows, heads, features]``; ``out`` is then packed too. Masks and weights are not.
            Rows of no sequence are 0 in new results, and stay as they are in the caller's ``out``.
        cu_seqlens_k: the same of key and value, ``[keys, key heads, features]``.
        max_seqlen_q: the most rows that a sequence of ``cu_seqlens_q`` has, or more. Needed only by
            plans, whose later calls may have longer ones.
        max_seqlen_k: the same of keys; with ``block_table`` as many as it has room for, or less.
        block_table: ``[batch, pages of a sequence]``, where key and value are pools
            ``[pages, key heads, rows of a page, features]``; rows of a page a multiple of 16.
        key_scales: float32 ``[batch, key heads, keys]``, what rows of an int8 key are multiplied
            with, in the axes of ``key``; of a float8_e4m3fn key one number.
        value_scales: the same of ``value``.
        score_function: a function pointer (``heed.ScoreFunction``), fast where numba or another
            compiler made it, slow where ctypes calls Python through it; or a pair of such a pointer
            and what is passed to it as ``user``; or a Python callable
            ``f(scores, batch, heads, rows, keys)``, which gets float32 or float64
            ``scores[rows, keys]``, an int, and int64 arrays that broadcast with it, and returns the
            scores to use. That is slow: it holds the GIL for every tile of scores.
        return_lse: also return the logarithm of the denominators, ``[batch, heads, rows]``, packed
            ``[heads, rows]``.
        return_weights: also return ``[batch, heads, rows, keys]``: ``"scores"`` (after scale),
            ``"capped"`` (after softcap), ``"masked"`` (before softmax) or ``"probabilities"``
            (True).
        weight_rows: rows of the weights that are wanted, increasing; all unless given.
        return_column_sums: also return the probabilities that each key received,
            ``[batch, heads, keys]``.
        out: where to write; any strides, and any floating type (float64 as above). It must not
            overlap an input.

    Returns:
        ``out``, ``[batch, heads, rows, value features]`` in the type of ``query``, without the axes
        that query, key and value all go without. Or, if more is asked for, a ``heed.Result``: a
        tuple of it, lse, weights and column sums, as far as asked for, with names. These are
        float32, or float64 if ``out`` is.

    >>> import heed, numpy as np
    >>> q = k = v = np.eye(3, 4, dtype=np.float32)
    >>> np.round(heed.attention(q, k, v, causal=True, scale=1.0), 2)
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.27, 0.73, 0.  , 0.  ],
           [0.21, 0.21, 0.58, 0.  ]], dtype=float32)
    >>> x = np.ones((2, 1, 3, 4), np.float32)  # [batch, heads, rows, features]; the second sequence
    >>> out = heed.attention(x, x, x, key_lengths=[3, 2])  # has 2 keys
    >>> words = np.array([[1, 1, 1], [1, 1, 0]])  # the same as a tokenizer says it
    >>> bool((heed.attention(x, x, x, attn_mask=(words != 0)[:, None, None, :]) == out).all())
    True

    In C: heed_attention.
    """
    return _heed.attention(query, key, value, options)


@spelled_out(ResultOptions, see="heed.attention")
def plan(query: Array, key: Array, value: Array, **options: Unpack[ResultOptions]) -> Plan:
    """Attention made ready, for calls that have the same shapes again and again.

    Checks arguments and chooses tiles once. The plan is made for the shapes, strides and types of
    what it is given here, and keeps all settings, but no tensor: calls are given ``query``, ``key``
    and ``value``, and exactly the tensors among the options that were given here.

    Args:
        query: as of ``heed.attention``, as are ``key``, ``value`` and all options.
        out: what form ``out`` will have, unless it is new, or contiguous in the type of ``query``.
        context: where the plan computes; the default one of now unless given.

    Returns:
        A ``heed.Plan``, which any threads may call at once.

    >>> import heed, numpy as np
    >>> q = k = v = np.eye(3, 4, dtype=np.float32)
    >>> step = heed.plan(q, k, v, causal=True)
    >>> bool((step(q, k, v) == heed.attention(q, k, v, causal=True)).all())
    True
    >>> step.describe()["strategy"]
    'prefill'

    In C: heed_attention_plan_create.
    """
    return _heed.plan(query, key, value, options)


class BackwardOptions(Options, GradientOptions, total=False):
    """Options of ``heed.attention_backward``."""

    grad_score_weights: bool | Array
    score_gradient: Any


@spelled_out(BackwardOptions, see="heed.attention")
def attention_backward(
    query: ArrayT,
    key: Array,
    value: Array,
    out: Array,
    lse: Array,
    grad_out: Array,
    **options: Unpack[BackwardOptions],
) -> Gradients[ArrayT]:
    """Gradients of ``heed.attention``, from its inputs, its results and the gradient of ``out``.

        delta_i      = <grad_out_i, out_i> - grad_lse_i
        grad_value_j = sum over i of p_ij grad_out_i
        grad_z_ij    = p_ij (<grad_out_i, v_j> - delta_i)         z = s / temperature
        grad_s_ij    = grad_z_ij / temperature, back through score function, bias, slopes, softcap
        grad_query_i = scale * sum over j of grad_s_ij k_j
        grad_key_j   = scale * sum over i of grad_s_ij q_i
        (of other scores than "dot": scale * sum of grad_s_ij a_h act'(q_i + k_j))

    Probabilities are computed again from ``lse``: nothing of size rows times keys is kept. Rows
    that attend nothing, and keys that nobody attends, get exactly 0. Gradients are summed in
    float32 or float64, over query heads that share a key head and over axes that a tensor repeats,
    and rounded once. Their bits do not depend on threads. Hard attention is not differentiable;
    pages and 8-bit keys and values have no gradients.

    Args:
        query: as the forward call had it, as were ``key``, ``value`` and all options.
        out: what ``heed.attention`` gave.
        lse: what it gave with ``return_lse``.
        grad_query: True, the gradient of ``query`` is wanted, in a new array of its shape and type;
            an array, it is written there, except packed rows of no sequence, and must not overlap
            another argument; False, it is not wanted, and costs nothing.
        grad_sinks: the same of ``sinks``, ``[heads]`` of float32, or float64 if ``query`` is.
        score_gradient: of ``score_function``, and needed with it: a callable
            ``f(gradients, scores, batch, heads, rows, keys)`` beside a callable, which returns
            ``gradients``, those of the scores that the function made, times its derivative at the
            ``scores`` that it was given, which may be anything where they are masked; a function
            pointer (``heed.ScoreGradient``) beside a function pointer, which gets the same
            ``user``.
        **options: of ``heed.attention``, except the ones that ask for results.

    Returns:
        A ``heed.Gradients``, None where one is not wanted: arrays of the kind that ``query`` is,
        and ``scale`` and ``temperature`` as float.

    Raises:
        heed.UnsupportedError: there are no gradients of this.

    >>> import heed, numpy as np
    >>> q = k = v = np.eye(3, 4, dtype=np.float32)
    >>> out, lse, *_ = heed.attention(q, k, v, causal=True, scale=1.0, return_lse=True)
    >>> ones = np.ones_like(out)
    >>> found = heed.attention_backward(q, k, v, out, lse, ones, causal=True, scale=1.0)
    >>> np.round(found.value[:, 0], 2)
    array([1.48, 0.94, 0.58], dtype=float32)
    >>> found.bias is None
    True

    In C: heed_attention_backward.
    """
    found: Gradients[ArrayT] = _heed.attention_backward(named(locals()))
    return found
