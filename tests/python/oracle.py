"""What heed should compute: attention in float64, a sequence at a time, as it is defined."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

POINTS = ("scores", "capped", "masked", "probabilities")


@dataclass
class Expected:
    """Per batch item; rows and keys count from the beginning of its sequence."""

    out: list[np.ndarray] = field(default_factory=list)
    lse: list[np.ndarray] = field(default_factory=list)
    weights: dict[str, list[np.ndarray]] = field(default_factory=lambda: {p: [] for p in POINTS})


def four_axes(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def sequences(query, key, value, options):
    """Yields (query, key, value) of each sequence, [heads, rows, features]."""
    cu_q, cu_k = options.get("cu_seqlens_q"), options.get("cu_seqlens_k")
    table = options.get("block_table")
    if table is not None:
        batch = len(table)
    elif cu_q is not None or cu_k is not None:
        batch = len(cu_q if cu_q is not None else cu_k) - 1
    else:
        batch = max(four_axes(x).shape[0] for x in (query, key, value))

    def item(x, cu, b):
        if cu is not None:
            return np.swapaxes(np.asarray(x)[cu[b] : cu[b + 1]], 0, 1)
        x = four_axes(x)
        return x[b if x.shape[0] > 1 else 0]

    for b in range(batch):
        if table is None:
            k, v = item(key, cu_k, b), item(value, cu_k, b)
        else:
            k, v = (np.concatenate([x[page] for page in table[b]], 1) for x in (key, value))
        yield item(query, cu_q, b), k, v


def offset_of(how, rows, keys):
    if how is True or how is None or how == "top_left":
        return 0
    return keys - rows if how == "bottom_right" else int(how)


def attention(query, key, value, **options) -> Expected:
    expected = Expected()
    lengths = options.get("key_lengths")
    for b, (q, k, v) in enumerate(sequences(query, key, value, options)):
        used = k.shape[1] if lengths is None else lengths[b]
        one_item(b, q, k[:, :used], v[:, :used], options, expected)
    return expected


def one_item(b, q, k, v, options, expected):
    heads = max(q.shape[0], k.shape[0], v.shape[0])
    q, k, v = (np.repeat(x.astype(np.float64), heads // x.shape[0], 0) for x in (q, k, v))
    rows, keys = q.shape[1], k.shape[1]
    causal = options.get("causal", False)
    where = options.get("alignment") if causal is False else causal
    distance = np.arange(keys) - (np.arange(rows)[:, None] + offset_of(where, rows, keys))

    scale = options.get("scale") or 1 / math.sqrt(q.shape[-1])
    s = scale * (q @ np.swapaxes(k, 1, 2))
    expected.weights["scores"].append(s)
    if options.get("softcap"):
        s = options["softcap"] * np.tanh(s / options["softcap"])
    expected.weights["capped"].append(s)
    if options.get("alibi_slopes") is not None:
        slopes = np.asarray(options["alibi_slopes"], np.float64)
        s = s - slopes[:, None, None] * np.abs(distance)
    allowed = np.ones((heads, rows, keys), bool)
    for name in ("attn_mask", "bias"):
        if options.get(name) is None:
            continue
        mask = four_axes(options[name])
        mask = np.broadcast_to(mask[b if mask.shape[0] > 1 else 0], (heads, *of_axes(mask, q, k)))
        mask = mask[:, :rows, :keys]
        if mask.dtype == bool:
            allowed &= mask
        else:
            s = s + mask.astype(np.float64)
            allowed &= mask != -np.inf
    if options.get("score_function") is not None:
        function, s = options["score_function"], s.copy()
        for h in range(heads):
            s[h] = function(
                s[h], b, np.full((rows, 1), h), np.arange(rows)[:, None], np.arange(keys)[None]
            )
    if causal is not False:
        allowed &= distance <= 0
    left, right = options.get("window") or (None, None)
    if left not in (None, -1):
        allowed &= distance >= -left
    if right not in (None, -1):
        allowed &= distance <= right
    s = np.where(allowed, s, -np.inf)
    expected.weights["masked"].append(s)
    softmax(s, v, options, expected)


def of_axes(mask, q, k):
    """The rows and keys of a mask, which may have more than the sequence, or one."""
    return (max(mask.shape[2], q.shape[1]), max(mask.shape[3], k.shape[1]))


def softmax(s, v, options, expected):
    heads = s.shape[0]
    if options.get("hard"):
        p = np.zeros_like(s)
        if s.shape[2]:
            np.put_along_axis(p, s.argmax(-1, keepdims=True), 1, -1)
        p[~np.isfinite(s.max(-1, initial=-np.inf))] = 0
        lse = np.full(s.shape[:2], np.nan)
    else:
        sinks = np.asarray(options.get("sinks", np.full(heads, -np.inf)), np.float64)
        # inf * 0 weighs every attended key alike
        temperature = options.get("temperature", 1.0)
        logits = np.where(s > -np.inf, 0 if temperature == np.inf else s / temperature, -np.inf)
        with_sink = np.concatenate(
            [logits, np.broadcast_to(sinks[:, None, None], (*s.shape[:2], 1))], -1
        )
        top = np.maximum(with_sink.max(-1, keepdims=True), -1e300)
        total = np.exp(with_sink - top).sum(-1, keepdims=True)
        p = np.exp(logits - top) / np.where(total > 0, total, 1)
        with np.errstate(divide="ignore"):
            lse = (top + np.log(total))[..., 0]
        lse[total[..., 0] == 0] = -np.inf
    expected.weights["probabilities"].append(p)
    expected.lse.append(lse)
    expected.out.append(p @ v)
