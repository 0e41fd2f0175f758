"""What functions refuse, and in which words. Outputs stay as they were.

C's own words for its fields are tested in C; here stand those of the package, each once, and what
becomes of C's in each function.
"""

import importlib
import inspect
import re
import sys

import numpy as np
import pytest
from cases import SLOPES
from kinds import OnlyDLPack
from test_cache import cache_of, filled, rows_of

import heed
from heed.options import _ELSEWHERE

F32 = np.float32


RANDOM = np.random.default_rng(5)


def f32(*shape):
    return RANDOM.standard_normal(shape).astype(F32)


def yes(*shape):
    return np.ones(shape, bool)


def product(*arrays):
    return arrays[0]


POINTER = heed.ScoreFunction(lambda *_: None)
GRADIENT_POINTER = heed.ScoreGradient(lambda *_: None)
GIVEN_PAIR = {"score_gradient": (GRADIENT_POINTER, None)}
masked = np.ma.masked_array
UNALIGNED = np.zeros(4 * 40 + 1, np.uint8)[1:].view(F32).reshape(5, 8)
APART = np.zeros((5, 8), np.dtype({"names": ["x"], "formats": ["<f4"], "itemsize": 6}))["x"]
QUERY, KEY, VALUE = f32(2, 4, 5, 8), f32(2, 2, 7, 8), f32(2, 2, 7, 6)
POOL, ROWS = f32(3, 2, 16, 8), f32(5, 4, 8)
POOLS = {"key": POOL, "value": POOL[..., :6]}
SHORT = {"key": POOL[:, :, :15], "value": POOL[:, :, :15], "block_table": [[0], [1]]}
PACKED = {"key": f32(7, 2, 8), "value": f32(7, 2, 6), "cu_seqlens_k": [0, 3, 7]}
PACKED_ROWS = {"query": ROWS, "cu_seqlens_q": [0, 3, 5]}
NO_ROWS = {"query": ROWS[:0], "key": f32(0, 2, 8), "value": f32(0, 2, 6)}
NO_ROWS |= {"cu_seqlens_q": [0, 0, 0], "cu_seqlens_k": [0, 0, 0]}
INT8, SCALES = KEY.astype(np.int8), f32(2, 2, 7)
OUT, LSE = f32(2, 4, 5, 8), f32(2, 4, 5)
INPUT, B, HALF = f32(2, 5, 12), f32(8), np.zeros(4, np.float16)
PREPARED = heed.Weights(f32(12, 8))
SOURCES, DESTINATIONS = np.array([0, 1, 2]), np.array([2, 2, 0])
NODES, DATA, W, W3 = f32(4, 2, 3), f32(4, 6), f32(6, 6), f32(3, 6, 6)
EDGE_DATA, W_EDGE, REPEATED = f32(3, 5), f32(5, 6), np.broadcast_to(F32(0), (3, 2))
CACHE = cache_of()
MINE, THEIRS, FREED = (filled(cache, 5)[0] for cache in (CACHE, cache_of(), CACHE))
FREED.free()
QUERIES, (NEW_KEY, NEW_VALUE) = f32(2, 4, 3, 8), rows_of(3)
DROPS = {"dropout": 0.1, "seed": 1}
TABLE, TURNED, EYE = f32(3, 4), f32(2, 5, 8), np.eye(3)

ATTENTION = {"query": QUERY, "key": KEY, "value": VALUE}
BLOCK = {
    "query": INPUT,
    "w_query": f32(12, 8),
    "w_key": f32(12, 4),
    "w_value": f32(12, 6),
    "w_out": f32(12, 7),
    "heads": 4,
    "key_heads": 2,
}
MEAN = {"combine": "mean", "w_out": None, "grad_out": f32(2, 5, 3)}
ONE_WAY, GRAPH = (heed.Graph(SOURCES, DESTINATIONS, nodes=4, reverse=x) for x in (False, True))
PROJECTED = {"graph": GRAPH, "query": NODES, "key": NODES, "value": NODES}
SHARED = {"graph": GRAPH, "data": DATA, "w_query": W, "w_key": W, "w_value": W, "heads": 2}
ATTENTION_PLAN = heed.plan(**ATTENTION, attn_mask=yes(5, 7))
STRIDED_OUT = f32(2, 4, 5, 12)[..., ::2]
PLAN_OUT = heed.plan(**ATTENTION, out=STRIDED_OUT)
PACK = dict.fromkeys(ATTENTION, ROWS) | {f"cu_seqlens_{x}": [0, 2, 5] for x in "qk"}
THREE = {name: [0, 2, 4, 5] for name in PACK if "cu" in name}
PLAN_PACKED = heed.plan(**PACK)
SOURCED = heed.Graph(SOURCES, DESTINATIONS, nodes=4, source_nodes=7)
MASKED = heed.multihead_plan(**BLOCK, attn_mask=yes(5, 5))
WITH_ALL = heed.multihead_plan(**BLOCK, key=INPUT, out=f32(2, 5, 7))


def planned(**given):
    """Some numbers are looked at by runs alone."""
    tensors = {name: given[name] for name in ("key_lengths", "cu_seqlens_q") if name in given}
    heed.multihead_plan(**given)(given["query"], out=given.get("out"), **tensors)


def append(rotary=None, **given):
    sequence, _ = filled(cache_of(rotary=rotary), 5)
    before = sequence.save()
    try:
        sequence.append(**given)
    finally:
        assert sequence.save() == before


# What is called, with what by default, and an output that a refused call leaves as it was.
FUNCTIONS = {
    "attention": (heed.attention, ATTENTION, {"out": (2, 4, 5, 6)}),
    "attention without out": (heed.attention, ATTENTION, {}),
    "Plan.__call__": (ATTENTION_PLAN, {**ATTENTION, "attn_mask": yes(5, 7)}, {}),
    "a plan with out": (PLAN_OUT, {**ATTENTION, "out": STRIDED_OUT}, {}),
    "a plan of packed rows": (PLAN_PACKED, PACK, {}),
    "attention_backward": (
        heed.attention_backward,
        {"query": QUERY, "key": KEY, "value": KEY, "out": OUT, "lse": LSE, "grad_out": OUT},
        {"grad_value": (2, 2, 7, 8)},
    ),
    "multihead": (heed.multihead, BLOCK, {"out": (2, 5, 7)}),
    "multihead_plan": (planned, BLOCK, {"out": (2, 5, 7)}),
    "MultiheadPlan.__call__": (MASKED, {"query": INPUT, "attn_mask": yes(5, 5)}, {}),
    "with key and out": (WITH_ALL, {"query": INPUT, "key": INPUT, "out": f32(2, 5, 7)}, {}),
    "multihead_backward": (
        heed.multihead_backward,
        {**BLOCK, "grad_out": f32(2, 5, 7)},
        {"grad_w_value": (12, 6)},
    ),
    "Weights": (heed.Weights, {"matrix": W}, {}),
    "project": (heed.project, {"x": DATA, "weights": heed.Weights(f32(6, 3))}, {"out": (4, 3)}),
    "Graph": (heed.Graph, {"sources": SOURCES, "destinations": DESTINATIONS, "nodes": 4}, {}),
    "Graph.from_csr": (heed.Graph.from_csr, {"offsets": [0, 1, 3], "sources": [0, 1, 1]}, {}),
    "graph_attention": (heed.graph_attention, PROJECTED, {"out": (4, 2, 3)}),
    "graph_attention of data": (heed.graph_attention, SHARED, {"out": (4, 6)}),
    "graph_attention_plan": (heed.graph_attention_plan, PROJECTED, {"out": (4, 2, 3)}),
    "graph_attention_backward": (
        heed.graph_attention_backward,
        {**PROJECTED, "grad_out": NODES},
        {"grad_value": (4, 2, 3)},
    ),
    "graph_attention_backward of data": (
        heed.graph_attention_backward,
        {**SHARED, "grad_out": DATA},
        {"grad_w_value": (6, 6)},
    ),
    "Cache": (heed.Cache, {"key_heads": 2, "features": 8, "pages": 3}, {}),
    "cache_bytes": (heed.cache_bytes, {"key_heads": 2, "features": 8, "pages": 3}, {}),
    "Sequence.append": (append, {"key": NEW_KEY, "value": NEW_VALUE}, {}),
    "Sequence.truncate": (MINE.truncate, {"length": 5}, {}),
    "Cache.attention": (
        CACHE.attention,
        {"sequences": [filled(CACHE, length)[0] for length in (5, 2)], "query": QUERIES},
        {"out": (2, 4, 3, 6)},
    ),
    "merge": (heed.merge, {"parts": [(OUT, LSE)]}, {}),
    "rotate": (heed.rotate, {"x": TURNED}, {"out": (2, 5, 8)}),
    "Context": (heed.Context, {}, {}),
    "show": (heed.show, {"weights": EYE}, {}),
}

# What is changed, and how the message begins.
ARGUMENTS = {
    "attention": [
        (dict(key=KEY[..., :7]), "query is ..., key is ...: their features, 8 and 7, must be the"),
        (dict(key=f32(3, 2, 7, 8)), "query is ..., key is ...: their batches, 2 and 3, must be"),
        (dict(query=QUERY[:, :3]), "query has 3 heads and key 2; each must serve the same number"),
        (
            dict.fromkeys(("key", "value"), f32(2, 7, 4, 8)) | {"query": f32(2, 5, 4, 8)},
            "query has 5 heads and key 7; ... give x.swapaxes(1, 2)",
        ),
        (dict(PACKED_ROWS, key=f32(7, 3, 8), value=f32(7, 3, 8)), "...; without cu_seqlens_k key"),
        (dict(query=QUERY[..., :0], key=KEY[..., :0]), "key is ...; it must have features"),
        (dict(query=QUERY.astype(float)), "query is float64 but key is float32; query, key,"),
        (dict(query=QUERY.astype(np.int8)), "query is int8; it must be float32, float64, float16"),
        (dict(query=QUERY.astype(complex)), "query is of complex128; heed"),
        (dict(query=QUERY.astype(object)), "query is of object; heed knows"),
        (dict(query=QUERY.astype(">f4")), "query has elements in another"),
        (dict(query=QUERY[None]), "query has 5 axes; it may have at most 4"),
        (dict(query=QUERY[0, 0, 0]), "query has shape [8]; it must"),
        (dict(query=UNALIGNED), "query begins at an address that is no multiple of the 4"),
        (dict(query=APART), "query has a stride of 6 bytes, no multiple of the"),
        (
            dict(query=OnlyDLPack(QUERY, (2, 1))),
            "query lies on device CUDA, number 1; heed",
        ),
        (
            dict(query=OnlyDLPack(QUERY, (9, 0))),
            "query lies on device of DLPack's type 9",
        ),
        (dict(query=masked(QUERY)), "query is a masked array, whose mask heed"),
        (dict(attn_mask=masked(yes(5, 7))), "attn_mask is a masked array, whose mask heed"),
        (dict(out=masked(f32(2, 4, 5, 6))), "out is a masked array, whose mask heed"),
        (dict(key=KEY.astype(bool)), "key is bool; it must be float32, float64, float16 or"),
        (dict(attn_mask=yes(4, 7)), "attn_mask has shape [4, 7]; it must broadcast to"),
        (dict(attn_mask=yes(2, 7)), "attn_mask has shape [2, 7]; ...; of [batch, keys] give it as"),
        (dict(attn_mask=np.ones((5, 7), np.int32)), "attn_mask is int32; it must be bool (True"),
        (dict(attn_mask=np.ones((5, 7), np.uint8)), "attn_mask is uint8; it must be bool (True"),
        (dict(attn_mask=f32(5, 7), bias=f32(5, 7)), "attn_mask is float32, a bias, but bias is"),
        (dict(causal="left"), "causal is 'left'; it must be False, True, \"top_left\" or"),
        (dict(alignment="left"), 'alignment is \'left\'; it must be "top_left", "bottom_right" or'),
        (dict(causal="top_left", alignment=1), 'alignment is given beside causal, which is "top_'),
        (dict(causal=True, alignment="left"), "alignment is 'left'; it must be \"top_left\","),
        (dict(causal=True, alignment=2**70), "alignment is 1180591620717411303424; it must fit in"),
        (dict(window=(1, 2)), "window is given with 5 query rows and 7 keys: say by alignment,"),
        (dict(window=(1, -2), alignment=0), "window[1] is -2; it must be a number of keys, at"),
        (dict(window=(1, 2, 3)), "window has 3 entries; it must be a pair (left, right)"),
        (dict(scale=0), "scale is 0; for weights that no score changes give"),
        (dict(scale=np.nan), "scale is nan; it must be finite"),
        (dict(scale=1e300), "scale is 1e+300; with it scores would be multiplied by 1.4427e+300,"),
        (dict(softcap=0), "softcap is 0; None is no cap"),
        (dict(temperature=0), "temperature is 0; it must be above 0 (hard=True is its limit)"),
        (dict(hard=True, temperature=2), "temperature is given with hard, which has no"),
        (dict(sinks=[0, -1e39, 0, 0]), "sinks[1] is -1e+39; it must be at most 3.4"),
        (dict(alibi_slopes=[0, -1e39, 0, 0]), "alibi_slopes[1] is -1e+39; it must be at most 3.4"),
        (dict(hard=True, sinks=[0.0] * 4), "sinks is given with hard, which has no denominator"),
        (dict(hard=True, return_lse=True), "return_lse is given with hard, which has no"),
        (dict(alibi_slopes=[1.0] * 3, causal=True), "alibi_slopes has 3 numbers; it must have"),
        (dict(sinks=f32(4, 1)), "sinks has shape [4, 1]; it must have 1 axis"),
        (dict(key_lengths=[8, 2]), "key_lengths[0] is 8; it must be 0 to 7"),
        (dict(key_lengths=[7]), "key_lengths has 1 numbers; it must have one for each of the 2"),
        (dict(query=ROWS, cu_seqlens_q=[]), "cu_seqlens_q is empty; it must hold one number more"),
        (dict(query=ROWS, cu_seqlens_q=[0, 2, 3, 5]), "key is ..., a batch of 2, but cu_seqlens_q"),
        (dict(cu_seqlens_q=[0, 5]), "query has shape [2, 4, 5, 8]; it must have axes [rows,"),
        (dict(**PACKED_ROWS, max_seqlen_q=2), "max_seqlen_q is 2; cu_seqlens_q has 3 rows for a"),
        (dict(max_seqlen_q=5), "max_seqlen_q is given without cu_seqlens_q"),
        (dict(max_seqlen_k=5), "max_seqlen_k is given without cu_seqlens_k or block_table"),
        (dict(**PACKED, max_seqlen_k=-3), "max_seqlen_k is -3; it must be at least 0"),
        (dict(**PACKED, query=ROWS, cu_seqlens_q=[0, 5]), "cu_seqlens_k is for 2 sequences, but"),
        (dict(**POOLS, block_table=[[0, 1], [1, 3]]), "block_table[1][1] is 3; it must be 0 to 2,"),
        (dict(**POOLS, block_table=[[0, 1], [1]]), "block_table has rows of 2 and 1 entries"),
        (dict(**POOLS, block_table=[[0], [1]], cu_seqlens_k=[0, 1]), "block_table and"),
        (SHORT, "key is ..., pages of 15 rows; that must be a multiple of 16"),
        (dict(key=INT8), "key is int8, so key_scales must be given: float32 [batch, key heads,"),
        (dict(key=INT8, key_scales=SCALES[:1]), "key_scales is ...; it must be ..., a number for"),
        (dict(key_scales=SCALES), "key_scales is given, but key is float32; scales belong to int8"),
        (dict(dropout=1), "dropout is 1; it must be at least 0 and less than 1"),
        (dict(dropout=0.1), "dropout is 0.1 without seed; it must be an int, another one for"),
        (dict(dropout=0.1, seed=(1, 2, 3)), "seed has 3 entries; as a tuple it must be a pair of"),
        (dict(DROPS, dropout_origin=[1, 2]), "dropout_origin has 2 numbers; it must ... 4 axes: b"),
        (dict(DROPS, dropout_origin=(0, 0, 0, -1)), "dropout_origin[3] is -1; it must be 0 to 2"),
        (dict(return_weights="all"), "return_weights is 'all'; it must be False, True,"),
        (dict(weight_rows=[1]), "weight_rows is given without return_weights"),
        (dict(return_weights=True, weight_rows=[]), "weight_rows is empty; None is all rows"),
        (dict(return_weights=True, weight_rows=[3, 1]), "weight_rows[1] is 1; it must be 4 to 4:"),
        (dict(out=np.broadcast_to(F32(7), (2, 4, 5, 6))), "out is read-only; the result could not"),
        (dict(out=f32(2, 4, 5, 7)), "out has shape [2, 4, 5, 7]; the result has [2, 4, 5, 6]"),
        (dict(out=np.zeros((2, 4, 5, 6))), "out is float64 but query is float32; what is given"),
    ],
    "attention without out": [
        (dict(NO_ROWS, cu_seqlens_q=[0, 0, 2]), "cu_seqlens_q[2] is 2; it must be 0"),
        (dict(NO_ROWS, cu_seqlens_k=[0, 0, 2]), "cu_seqlens_k[2] is 2; it must be 0"),
    ],
    "Plan.__call__": [
        (dict(key=KEY.astype(np.float16)), "key is float16 ...; the plan was made for float32"),
        (dict(value=VALUE[..., ::-1]), "value has strides [84, 42, 6, -1]; the plan was made for"),
        (dict(attn_mask=yes(4, 5, 7)), "attn_mask is bool [4, 5, 7]; the plan was"),
        (dict(out=STRIDED_OUT), "out is float32 ... with strides ...; the plan was made without"),
        (dict(out=np.zeros((2, 4, 5, 6), np.float16)), "out is float16 ... the plan was"),
    ],
    "a plan with out": [
        (dict(out=f32(2, 4, 5, 6)), "out has strides ...; the plan was made for"),
    ],
    "a plan of packed rows": [
        (dict(cu_seqlens_q=[0, 1, 5]), "max_seqlen_q is 3; cu_seqlens_q has 4 rows for a sequence"),
        (dict(cu_seqlens_k=[0, 1, 5]), "max_seqlen_k is 3; cu_seqlens_k has 4 rows for a sequence"),
        (THREE, "cu_seqlens_k is for 3 sequences; the plan was made"),
    ],
    "attention_backward": [
        (dict(out=OUT[:, :, :4]), "out has shape [2, 4, 4, 8]; it must have [2, 4, 5, 8], as the"),
        (dict(out=OUT.astype(float)), "out is float64 but query is float32; they must both be"),
        (dict(lse=LSE.astype(np.float16)), "lse is float16; it must be float32 or float64"),
        (dict(grad_query=OUT[:1].copy()), "grad_query has shape [1, 4, 5, 8]; the gradient has"),
        (dict(grad_key=np.broadcast_to(F32(0), (2, 2, 7, 8))), "grad_key is read-only; the result"),
        (dict(grad_bias=True), "grad_bias is wanted, but neither bias nor a floating attn_mask is"),
        (dict(grad_sinks=True), "grad_sinks is wanted, but no sinks are given"),
        (dict(grad_sinks=f32(8)[::2], sinks=SLOPES), "grad_sinks is ...; it must be contiguous"),
    ],
    "multihead": [
        (dict(query=INPUT[..., :8]), "w_query is ...; it must be [in, out] with in 8, as query (a"),
        (dict(key=INPUT[:1]), "key is for 1 sequences, but query for 2"),
        (dict(key=INPUT.astype(float)), "key is float64 but query is not; all must be float64, or"),
        (dict(w_query=f32(12, 10)), "w_query has 10 columns, which 4 heads cannot share"),
        (dict(w_key=f32(12, 6)), "w_key has 6 columns; it must have 4, for 2 heads of 2 features"),
        (dict(w_key=f32(12, 0)), "w_key is float32 [12, 0]; it must have numbers"),
        (dict(w_key=heed.Weights(np.zeros((12, 4)))), "w_key is prepared for float64 arithmetic"),
        (dict(combine="tensor", w_out=f32(3, 4, 7)), "w_out is ...; it must be [4, 3, out]:"),
        (dict(combine="mean"), 'w_out is given, but combine is neither "concat" nor "tensor", so'),
        (dict(combine="sum"), 'combine is \'sum\'; it must be "concat", "weighted", "mean", "max"'),
        (dict(combine="weighted", w_out=None), 'head_weights is None; combine="weighted" needs a'),
        (dict(heads=0), "heads is 0; it must be at least 1"),
        (dict(key_heads=3), "heads is 4 and key_heads 3; each key head must serve the same number"),
        (dict(b_query=f32(7)), "b_query has shape [7]; it must have [8], a number for each column"),
        (dict(b_query=f32(16)[::2]), "b_query has a stride of 2 elements; its numbers must lie"),
        (dict(b_query=B, b_key=HALF), "b_query and b_key are of different types; biases must all"),
        (dict(w_query=PREPARED, b_query=B), "b_query is given, but w_query is heed.Weights, which"),
        (dict(combine="mean", w_out=None, b_out=f32(3)), "b_out is given without w_out"),
        (dict(cu_seqlens_k=[0, 5]), "cu_seqlens_k is given without key and cu_seqlens_q"),
    ],
    "MultiheadPlan.__call__": [
        (dict(query=INPUT[:, :4], attn_mask=yes(4, 4)), "query is ...; the plan was made for ..."),
        (dict(query=np.asfortranarray(INPUT)), "query has strides [1, 2, 10]; the plan was made"),
        (dict(attn_mask=f32(5, 5)), "attn_mask is floating; the plan was made for one that is"),
    ],
    "multihead_backward": [
        (dict(keep=heed.Kept()), "keep holds nothing; give it to heed.multihead"),
        (dict(grad_key=True), "grad_key is wanted, but no key is given: grad_query is the sum of"),
        (dict(MEAN, grad_w_out=True), "grad_w_out is wanted, but there is no w_out"),
        (dict(grad_head_weights=True), "grad_head_weights is wanted, but no head_weights are"),
        (dict(b_query=B, grad_b_query=True, grad_b_key=HALF), "grad_b_query and grad_b_key are of"),
    ],
    "Graph": [
        (dict(sources=[0, 1]), "sources has 2 entries and destinations 3; an edge is one of each"),
        (dict(sources=SOURCES.astype(F32)), "sources is float32; it must be int32 or int64"),
        (dict(nodes=0), "sources[0] is 0; nodes is 0"),
        (dict(source_nodes=0), "source_nodes is 0; it must be at least 1, or None: edges lead"),
        (dict(duplicates="drop"), 'duplicates is \'drop\'; it must be "remove" or "keep"'),
    ],
    "Graph.from_csr": [
        (dict(offsets=[]), "offsets is empty; it must hold one number more than there are nodes"),
        (dict(offsets=[1, 2, 3]), "offsets[0] is 1; it must be 0"),
        (dict(offsets=[0, 1, 2]), "offsets[2] is 2; the last must be the number of edges, 3"),
    ],
    "graph_attention": [
        (dict(query=NODES[:3]), "query is ...; it must have a row for each of the 4 nodes"),
        (dict(key=NODES[:, :1]), "query is ..., key is ..., value is ...; heads, and features of"),
        (dict(w_key=W), "w_key is given beside query, key and value; it belongs to data"),
        (dict(b_key=W[0]), "b_key is given; only matrices that all nodes share have biases"),
        (dict(heads=3), "heads is 3; query is float32 [4, 2, 3]"),
        (dict(steps=2), "steps is 2; query, key and value do not change, so it must be 1: give"),
        (dict(steps=0), "steps is 0; it must be at least 1"),
        (dict(residual=True, data=DATA[:, :5]), "data has 5 features; with residual it must have"),
        (dict(edge_bias=f32(3, 4)), "edge_bias is ...; it must have a number for each of the 2"),
        (dict(w_edge_key=W_EDGE), "w_edge_key is given without edge_data"),
        (dict(graph=SOURCED), "key is ...a row for each of the 7 source"),
        (dict(DROPS, dropout_edges=[1, 2]), "dropout_edges has 2 numbers; ...the 3 edges given"),
        (dict(score="dots"), 'score is \'dots\'; it must be "dot", "sum", "additive" or "cosine"'),
        (dict(slope=0.1), 'slope is given; only score="sum" and score="additive" have it'),
        (dict(activation="tanh"), 'activation is given; only score="sum" and score="additive"'),
        (dict(score="sum"), 'query and key have 3 features; with score="sum" they are one number'),
        (
            dict(score="additive"),
            'score_weights is None; score="additive" needs [heads * features]',
        ),
        (dict(score_weights=[1] * 6), 'score_weights is given; only score="additive" and'),
        (dict(score="cosine", score_weights=[1] * 6), "score_weights has 6 numbers; it must have"),
        (
            dict(score="cosine", edge_data=EDGE_DATA, w_edge_key=W_EDGE),
            'w_edge_key is given; score="cosine" compares nodes alone',
        ),
        (
            dict(score="additive", score_weights=[1.0]),
            "score_weights has 1 numbers; it must have one for each of the 6 features of all heads",
        ),
        (
            dict(score="additive", activation="relu", score_weights=[1.0] * 6),
            'activation is \'relu\'; it must be "identity", "leaky_relu" or "tanh"',
        ),
        (
            dict(score="additive", activation="tanh", slope=0.1, score_weights=[1.0] * 6),
            'slope is given; only activation="leaky_relu" has one',
        ),
    ],
    "graph_attention of data": [
        (dict(w_query=W3, w_key=W3, w_value=W3), "w_query is ...; it must have a matrix for each"),
    ],
    "graph_attention_backward": [
        (dict(graph=ONE_WAY), "graph was made without reverse=True, which gradients need"),
        (dict(grad_data=True), "grad_data is wanted, but no data is given"),
        (dict(edge_bias=REPEATED), "grad_edge_bias is wanted, but edge_bias repeats a number for"),
    ],
    "Cache": [
        (dict(pages=0), "pages is 0; it must be at least 1"),
        (dict(page_rows=24), "page_rows is 24; it must be a multiple of 16"),
        (dict(sequences=2**20 + 1), "sequences is 1048577; it must be at most 1048576"),
        (dict(pages=2**40), "the number of pages is 1099511627776; it must be at most"),
        (dict(dtype="float64"), "dtype is float64; it must be float32, float16, bfloat16, int8 or"),
        (dict(key_scale=2.0), 'key_scale is given; only dtype="float8_e4m3fn" has one'),
        (dict(value_scale=0, dtype="float8_e4m3fn"), "value_scale is 0; it must be above 0"),
        (dict(rotary="quarters"), 'pairs is \'quarters\'; it must be "halves" or "interleaved"'),
        (dict(rotary={"features": 10}), "rotary has 10 features; keys have 8"),
        (dict(rotary={"base": -1.0}), "base is -1; it must be finite and at least 1e-256"),
        (dict(rotary="halves", features=7), "rotary turns pairs, but features is 7; give rotary"),
        (dict(rotary={"cosines": TABLE}), "cosines is given without sines"),
        (dict(rotary={"cosines": TABLE, "sines": TABLE[:2]}), "cosines is ..., sines ...; they"),
    ],
    "Sequence.append": [
        (dict(key=NEW_KEY[:1]), "key has shape [1, 3, 8]; it must have [2, rows, 8]: the cache's"),
        (dict(value=NEW_VALUE[:, :2]), "key is ..., value is ...; both must have the same rows"),
        (dict(key=NEW_KEY.astype(float)), "key is float64; it must be float32, float16 or"),
        (dict(layer=2), "layer is 2; it must be 0 to 1, for the cache's layers"),
        (dict(positions=[1, 2, 3]), "positions is given, but the cache has no rotary embedding"),
        (dict(rotary="halves", positions=[1, 2]), "positions has shape [2]; it must have [3] or"),
        (dict(rotary="halves", positions=[1, 2, 3], position_offset=4), "position_offset is given"),
        (dict(rotary="halves", position_offset=-9), "position_offset is -9; rows that lie at 5 to"),
    ],
    "Sequence.truncate": [
        (dict(length=6), "length is 6; it must be 0 to 5, the rows of lay"),
        (dict(length=-1), "length is -1; it must be 0 to 5"),
    ],
    "Cache.attention": [
        (dict(query=QUERIES[..., :4]), "query is ...; it must have 8 features, as the cache's"),
        (dict(query=QUERIES[:, :3]), "query has 3 heads and the cache 2; each must serve the same"),
        (dict(query=QUERIES.astype(float)), "query is float64; it must be float32, float16 or"),
        (dict(max_seqlen_k=4), "max_seqlen_k is 4; the longest of sequences has 5 rows"),
        (dict(sequences=[MINE, THEIRS]), "sequences[1] is of another cache"),
        (dict(sequences=THEIRS, query=QUERIES[0]), "sequences is of another cache"),
        (dict(sequences=[FREED], query=QUERIES[:1]), "sequences[0] was freed"),
    ],
    "merge": [
        (dict(parts=[]), "parts is empty; there must be at least one part"),
        (dict(parts=[OUT]), "parts[0][1] has shape [4, 5, 8]; it must have [4, 5], as parts[0][0]"),
        (dict(parts=[(OUT, LSE.astype(np.float16))]), "parts[0][1] is float16; it must be float32"),
        (dict(parts=[(OUT.astype(np.int8), LSE)]), "parts[0][0] is int8; it must be float32,"),
        (dict(parts=[(OUT, LSE), (OUT[::-1], LSE)]), "parts[1][0] is ...; it must be as of the"),
        (dict(out=(OUT[:1], LSE[:1])), "out[0] has shape [1, 4, 5, 8]; the parts have [2, 4, 5,"),
        (dict(packed=True), "parts[0][0] has shape [2, 4, 5, 8]; it must have axes [rows, heads,"),
    ],
    "rotate": [
        (dict(x=TURNED[0, 0]), "x has shape [8]; it must have axes [batch, heads, rows,"),
        (dict(x=TURNED[..., :7]), "x has 7 features; features must say how many, an even number,"),
        (dict(features=3), "features is 3; it must be even, at least 2"),
        (dict(features=10), "features is 10; x has 8"),
        (dict(base=2.0, cosines=TABLE, sines=TABLE), "base is given beside cosines and sines,"),
        (dict(cosines=TABLE.T, sines=TABLE.T), "cosines is ...; it must be float32 [positions,"),
        (dict(cosines=TABLE, sines=TABLE, features=4), "cosines has 4 pairs; features, 4, are 2"),
        (dict(cosines=TABLE, sines=TABLE), "position + rows - 1 is 4; it must be 0 to 2, which"),
        (dict(position=1, positions=[1] * 5), "position is 1 beside positions, which say where"),
        (dict(out=TURNED[:1]), "out has shape [1, 5, 8]; x has [2, 5, 8]"),
        (dict(out=TURNED.astype(float)), "out is float64, x float32; float64 goes with float64,"),
    ],
    "Context": [
        (dict(threads=0), "threads is 0; it must be at least 1"),
        (dict(isa="mmx"), 'isa is "mmx", which this build does not know; usable here: scalar'),
        (dict(executor="fibres"), 'executor is "fibres"; this build has: serial'),
        (dict(tile_kv=-1), "tile_kv is -1; it must be at least 1"),
        (dict(precision="highest"), 'precision is "highest"; it must be exact, default, high or'),
    ],
    "project": [
        (dict(x=DATA[:, :5]), "x is float32 [4, 5]; it must have 6 features, as weights have"),
        (dict(weights=heed.Weights(np.ones((6, 3)))), "x is float32 but weights is float64; all"),
    ],
}

TYPES = {
    "attention": [
        (dict(enable_gqa=True), "attention() got ... 'enable_gqa': query heads may be a multiple"),
        (dict(causal=1.5), 'causal must be False, True, "top_left" or "bottom_right", not float'),
        *(
            (
                dict(causal=given),
                "causal must be ...not int...: give bool(flag) for a flag, and causal=True",
            )
            for given in (0, 1, -2, 2**70, np.int64(1))
        ),
        (dict(alignment=None, window=3), "window must be a pair (left, right), not int"),
        (dict(window=("1", 2)), "window[0] must be an int, not str"),
        (dict(alignment=1.5), 'alignment must be "top_left", "bottom_right" or an int, not float'),
        (dict(alignment=True), 'alignment must be "top_left", "bottom_right" or an int, not bool'),
        (dict(alignment=np.True_), 'alignment must be "top_left", "bottom_right" or an int, not'),
        (dict(scale="1"), "scale must be a number, not str"),
        (dict(sinks=["a"] * 4), "sinks[0] must be a number, not str"),
        (dict(query=[[1.0]]), "query must be an array, of NumPy, PyTorch or another"),
        (dict(query=None), "query must be an array, ...protocol, not NoneType"),
        (dict(hard=1), "hard must be True or False, not 1"),
        (dict(context=3), "context must be a heed.Context, not int"),
        (dict(return_weights=3), 'return_weights must be False, True, "scores", "capped",'),
        (dict(attn_mask=[[True]]), "attn_mask must be an array, of NumPy, PyTorch or another"),
        (dict(**POOLS, block_table=[0, 1]), "block_table must be an array, or a sequence of rows,"),
        (dict(score_function=(POINTER, 1.5)), "score_function[1] must be an address, or a pointer"),
        (dict(score_function=3), "score_function must be a callable, a function pointer of ctypes"),
    ],
    "attention without out": [
        (dict(score_function=lambda s: s), "...positional argument"),
    ],
    "Plan.__call__": [
        (dict(causal=True), "causal is the plan's: give it to heed.plan"),
    ],
    "attention_backward": [
        (dict(grad_query=1), "grad_query must be True, False or an array to write to, not 1"),
        (dict(score_function=product), "score_function is given, so score_gradient must be: what"),
        (dict(score_gradient=product), "score_gradient is given without score_function"),
        (dict(score_function=product, score_gradient=GRADIENT_POINTER), "score_gradient is a"),
        (
            dict(GIVEN_PAIR, score_function=POINTER),
            "score_gradient must be a callable or a function",
        ),
    ],
    "multihead": [
        (dict(w_query=None), "w_query must be an array or heed.Weights, not None"),
        (dict(combine="tensor", w_out=None), "w_out must be ..., not None; only combine="),
        (dict(combine=1), 'combine must be "concat", "weighted", "mean", "max" or "tensor", not'),
        (dict(block_table=[[0]]), "block_table is given; a block makes its keys and values itself"),
    ],
    "MultiheadPlan.__call__": [
        (dict(key=INPUT), "key is given, but the plan was made without"),
        (dict(attn_mask=None), "the plan was made with attn_mask: give it"),
        (dict(causal=True), "causal is the plan's: give it to heed.multihead_plan"),
    ],
    "a plan with out": [
        (dict(out=None), "the plan was made with out: give it"),
    ],
    "with key and out": [
        (dict(key=None), "the plan was made with key: give it"),
        (dict(out=None), "the plan was made with out: give it"),
    ],
    "Weights": [
        (dict(matrix=heed.Weights(INPUT[0])), "matrix must be an array, not heed.Weights"),
    ],
    "Graph": [
        (dict(nodes=None), "nodes must be an int, not NoneType"),
        (dict(reverse=1), "reverse must be True or False, not 1"),
    ],
    "Graph.from_csr": [
        (dict(reverse=1), "reverse must be True or False, not 1"),
    ],
    "graph_attention": [
        (dict(graph=3), "graph must be a heed.Graph, not int"),
        (dict(key=None), "query is given but key is None; give query, key and value, or none of"),
        (dict(data=DATA), "data is given beside query, key and value, which only residual=True"),
        (dict(residual=True), "data is None; residual=True adds to it"),
        (dict(edge_data=EDGE_DATA), "edge_data is given without w_edge_key or w_edge_value"),
        (dict(edge_data=EDGE_DATA, w_edge_key=heed.Weights(W_EDGE)), "w_edge_key must be an array"),
    ],
    "graph_attention of data": [
        (dict(data=None), "data is None; w_query, w_key and w_value are multiplied with it"),
        (dict(w_key=None), "w_key is None; give query, key and value, or data with w_query, w_key"),
        (dict(heads=None), "heads is None; it must be given with data"),
        (dict(graph=SOURCED), "query is None; a graph with source_nodes takes query, key and"),
    ],
    "Cache": [
        (dict(rotary=3), 'rotary must be "halves", "interleaved", a dict or None, not int'),
        (dict(rotary={"pair": 1}), "rotary has 'pair'; it may have pairs, base, features, cosines"),
    ],
    "Sequence.truncate": [
        (dict(length="5"), "length must be an int, not str"),
    ],
    "Cache.attention": [
        (dict(key_lengths=[1, 2]), "key_lengths is given; the cache knows its keys and values"),
        (dict(sequences=3), "sequences must be a heed.Sequence, or a list of them, not int"),
        (dict(sequences=[3]), "sequences[0] must be a heed.Sequence, not int"),
    ],
    "merge": [
        (dict(parts=3), "parts must be a sequence of pairs (out, lse), not int"),
        (dict(parts=[(OUT,)]), "parts[0] must be a pair (out, lse), not tuple"),
    ],
    "Context": [
        (dict(threads="2"), "threads must be an int, not str"),
        (dict(isa=3), "isa must be a str, not int"),
        (dict(check=1), "check must be True or False, not 1"),
        (dict(precision=2), "precision must be a str, not int"),
    ],
    "project": [
        (dict(weights=f32(6, 3)), "weights must be heed.Weights, not ndarray"),
    ],
}

VALUES = {
    "attention without out": [
        (dict(score_function=lambda *_: "x"), "could not convert string to float"),
        (dict(score_function=lambda *_: np.zeros(3)), "...broadcast"),
    ],
    "show": [
        (dict(weights="abc"), "weights is <U3; it must be an array of numbers"),
        (dict(weights=None), "weights is object; it must be an array of numbers"),
        (dict(weights=[[1], [2, 3]]), "weights is object; it must be an array of numbers"),
        (dict(weights=EYE * 1j), "weights is complex128; it must be an array of numbers"),
        (dict(weights=EYE[0]), "weights has 1 axes; it must have 2 to 4"),
        (dict(weights=EYE[:, :0]), "weights is [1, 3, 0]; there is nothing to show"),
        (dict(tokens=["a"]), "tokens has 1 names; it must have one for each of 3 rows"),
        (dict(key_tokens=["a"]), "key_tokens has 1 names; it must have one for each of 3 keys"),
        (dict(weights=heed.Result(EYE)), "weights is a result without weights: ask for them by"),
        (dict(head=1), "head is 1; it must be 0 to 0"),
        (dict(weights=np.zeros((2, 1, 3, 3)), batch=2), "batch is 2; it must be 0 to 1"),
    ],
}

UNSUPPORTED = {
    "attention_backward": [
        (dict(hard=True), "hard is True; it must be False: hard attention is not differentiable"),
        (dict(key=INT8, key_scales=SCALES), "key is int8; gradients of 8-bit numbers are not"),
        (dict(key=POOL, value=POOL, block_table=[[0], [1]]), "block_table is given; gradients of"),
    ],
    "Graph": [
        (dict(source_nodes=7, reverse=True), "reverse is True; it must be False with sour"),
    ],
    "graph_attention_backward of data": [
        (dict(w_value=heed.Weights(W)), "w_value is heed.Weights; gradients need the array that"),
    ],
}


for TABLES in (ARGUMENTS, TYPES):
    TABLES["multihead_plan"] = TABLES["multihead"]
    TABLES["graph_attention_plan"] = TABLES["graph_attention"]
    TABLES["cache_bytes"] = TABLES["Cache"]
TYPES["multihead_plan"] = [
    *TYPES["multihead"],
    (dict(keep=heed.Kept()), "multihead_plan() got an unexpected keyword argument 'keep'"),
]
ALL = [
    pytest.param(name, changes, message, kind, id=f"{name}-{message[:40]}")
    for kind, tables in (
        (heed.ArgumentError, ARGUMENTS),
        (heed.UnsupportedError, UNSUPPORTED),
        (ValueError, VALUES),
        (TypeError, TYPES),
    )
    for name, rows in tables.items()
    for changes, message in rows
]


@pytest.mark.parametrize(("name", "changes", "message", "kind"), ALL)
def test_refused(name, changes, message, kind):
    function, given, written = FUNCTIONS[name]
    room = {n: np.full(shape, 7, F32) for n, shape in written.items() if n not in changes}
    with pytest.raises(kind) as raised:
        function(**{**given, **room, **changes})
    first, *others = message.split("...")
    assert str(raised.value).startswith(first)
    assert all(part in str(raised.value) for part in others)
    assert all((x == 7).all() for x in room.values())


# Names of other libraries and misspelt ones, and what may be meant.
MEANT = {
    "attention": {
        "is_causal": "causal",
        "softmax_scale": "scale",
        "window_size": "window",
        "need_weights": "return_weights",
        "causl": "causal",
        "dropout_p": "dropout",
        "contxt": "context",
        "num_heads": None,
    },
    "Plan.__call__": {"mask": "attn_mask"},
    "attention_backward": {"grad_bia": "grad_bias"},
    "multihead": {"num_heads": "heads"},
    "multihead_plan": {"kv_num_heads": "key_heads"},
    "multihead_backward": {"is_causal": "causal"},
    "Graph": {"num_nodes": "nodes"},
    "Graph.from_csr": {"source_node": "source_nodes"},
    "graph_attention": {"edge_attr": "edge_data", "causal": None},
    "Cache": {"page": "pages", "num_layers": "layers"},
    "Sequence.append": {"layers": "layer"},
    "Cache.attention": {"is_causal": "causal"},
    "Context": {"num_threads": "threads"},
}


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if " " not in name])
def test_unknown_arguments(name):
    function, given, _ = FUNCTIONS[name]
    for unknown, meant in {"colour": None, **MEANT.get(name, {})}.items():
        with pytest.raises(TypeError) as raised:
            function(**{**given, unknown: 1})
        words = f"{name}() got an unexpected keyword argument '{unknown}'"
        assert str(raised.value) == words + (f"; did you mean {meant}?" if meant else "")


def test_what_other_libraries_names_stand_for_is_there():
    known = {*inspect.signature(heed.multihead).parameters, "threads", "edge_data"}
    for one in (heed.Cache, heed.Graph):
        known |= set(re.findall(r"(\w+):", one.__init__.__doc__))
    assert set(_ELSEWHERE.values()) <= known | {"block_table", "key_scales", "value_scales"}


@pytest.mark.parametrize("name", ["attention", "multihead", "graph_attention", "Cache.attention"])
def test_words_of_c(name):
    function, given, _ = FUNCTIONS[name]
    with pytest.raises(
        heed.ArgumentError, match="^softcap is -1; it must be finite and at least 0"
    ):
        function(**given, softcap=-1)


def test_errors_are_what_programs_expect():
    for kind, builtin in (
        (heed.ArgumentError, ValueError),
        (heed.UnsupportedError, NotImplementedError),
        (heed.OutOfMemoryError, MemoryError),
        (heed.BusyError, BlockingIOError),
        (heed.FileError, OSError),
        (heed.CorruptError, ValueError),
    ):
        assert issubclass(kind, heed.Error)
        assert issubclass(kind, builtin)


def test_memory_that_there_is_not():
    row = np.broadcast_to(F32(1), (1, 1, 2**36, 8))
    with pytest.raises(MemoryError):
        heed.attention(row, KEY[:1, :1], VALUE[:1, :1])
    with pytest.raises(MemoryError, match="there is no memory for"):
        heed.Cache(key_heads=1024, features=2**20, pages=2**14)


@pytest.mark.parametrize(
    ("module", "library", "words"),
    [
        *((name, "torch", "PyTorch: pip install torch") for name in ("torch", "linear", "pyg")),
        ("transformers", "torch", "PyTorch: pip install torch"),
        ("mpi", "mpi4py", "mpi4py, and an MPI: pip install mpi4py"),
    ],
)
def test_modules_without_their_library(monkeypatch, module, library, words):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"heed.{module}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=f"^heed.{module} needs {words}$") as raised:
        importlib.import_module(f"heed.{module}")
    assert raised.value.name == library
