"""What another process could not use says so, and what to do instead."""

import copy
import pickle

import numpy as np
import pytest

import heed

X = np.ones((4, 4), np.float32)
GRAPH = heed.Graph([0, 1], [1, 2], nodes=4)
CACHE = heed.Cache(key_heads=1, features=4, pages=1)
BLOCK = dict.fromkeys(("w_query", "w_key", "w_value"), X)
OBJECTS = {
    "Weights": (heed.Weights(X), "pickle the matrix and the bias"),
    "Kept": (heed.Kept(), "compute it anew with heed.multihead"),
    "MultiheadPlan": (
        heed.multihead_plan(X, **BLOCK, w_out=X, heads=2),
        "make it anew with heed.multihead_plan",
    ),
    "Graph": (GRAPH, "pickle sources and destinations"),
    "GraphAttentionPlan": (
        heed.graph_attention_plan(GRAPH, data=X, **BLOCK, heads=2),
        "make it anew with heed.graph_attention_plan",
    ),
    "Cache": (CACHE, "save its sequences, by Sequence.save"),
    "Sequence": (CACHE.sequence(), "pickle what Sequence.save gives"),
}


@pytest.mark.parametrize("use", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", OBJECTS)
def test_refused(use, name):
    made, instead = OBJECTS[name]
    with pytest.raises(
        TypeError, match=rf"^heed.{name} cannot be pickled or copied: .*: {instead}$"
    ):
        use(made)
