"""What heed.attention should compute, in float64, as it is defined."""

import math

import numpy as np

POINTS = ("scores", "capped", "masked", "probabilities")


def attention(query, key, value, **options):
    """out, log-sum-exp, and weights by point, of tensors that have four axes."""
    heads = max(x.shape[1] for x in (query, key, value))
    q, k, v = (np.repeat(x.astype(np.float64), heads // x.shape[1], 1) for x in (query, key, value))
    rows, keys = q.shape[2], k.shape[2]
    lengths = np.reshape(options.get("key_lengths", keys), (-1, 1, 1, 1))
    distance = np.arange(keys) - np.arange(rows)[:, None] - offset_of(options, rows, lengths)
    weights = {}
    s = weights["scores"] = options.get("scale", 1 / math.sqrt(q.shape[-1])) * (
        q @ k.swapaxes(2, 3)
    )
    if "softcap" in options:
        s = options["softcap"] * np.tanh(s / options["softcap"])
    weights["capped"] = s
    if "alibi_slopes" in options:
        s = s - np.reshape(options["alibi_slopes"], (-1, 1, 1)) * np.abs(distance)
    allowed = (np.arange(keys) < lengths) & allowed_by_place(options, distance)
    for mask in (options.get("attn_mask", True), options.get("bias", True)):
        if np.asarray(mask).dtype == bool:
            allowed = allowed & mask
        else:
            s = s + mask
    if "score_function" in options:
        s = options["score_function"](s, *np.ogrid[tuple(slice(n) for n in s.shape)])
    s = weights["masked"] = np.where(allowed, s, -np.inf)
    weights["probabilities"], lse = softmax(s, options)
    return weights["probabilities"] @ v, lse, weights


def offset_of(options, rows, lengths):
    where = options.get("causal", False)
    if where is False:
        where = options.get("alignment")
    if where is True or where is None or where == "top_left":
        return 0
    return lengths - rows if where == "bottom_right" else where


def allowed_by_place(options, distance):
    allowed = (distance <= 0) | (options.get("causal", False) is False)
    left, right = options.get("window", (None, None))
    if left is not None:
        allowed = allowed & (distance >= -left)
    return allowed if right is None else allowed & (distance <= right)


def softmax(s, options):
    if options.get("hard"):
        first = np.arange(s.shape[-1]) == s.argmax(-1)[..., None]
        return np.where(first & (s > -np.inf), 1.0, 0.0), None
    temperature = options.get("temperature", 1.0)
    # Of an infinite one every key that is attended weighs alike.
    z = np.where(s > -np.inf, 0 if temperature == np.inf else s / temperature, -np.inf)
    sinks = np.reshape(options.get("sinks", -np.inf), (-1, 1))
    lse = np.logaddexp(np.logaddexp.reduce(z, -1, initial=-np.inf), sinks)
    return np.exp(z - np.where(lse > -np.inf, lse, 0)[..., None]), lse
