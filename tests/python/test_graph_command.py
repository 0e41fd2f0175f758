"""``heed graph``: edges from files, attention over them as heed.graph_attention has it."""

from pathlib import Path

import numpy as np
import pytest

import heed
from heed.command.ends import Failure
from heed.command.graph import MOST_NODES, Edges, read_edges

RNG = np.random.default_rng(3)
NODES = 5
EDGES = [(0, 1), (2, 1), (3, 1), (1, 0), (4, 4), (1, 2), (0, 1)]  # the last is given again
WEIGHTS = [1, 2, 0.5, 1, 3, 0, 7]
BOTH = sorted({*EDGES, *((d, s) for s, d in EDGES), *((n, n) for n in range(NODES))})


@pytest.fixture
def files(run):
    """Edges and features in files."""
    features = RNG.standard_normal((NODES, 8)).astype(np.float32)
    np.save("x.npy", features)
    Path("edges.csv").write_text("source,destination\n" + "".join(f"{s},{d}\n" for s, d in EDGES))
    lines = "".join(f"{s} {d} {w}\n" for (s, d), w in zip(EDGES, WEIGHTS, strict=True))
    Path("w.txt").write_text("# weighted\n" + lines)
    np.save("edges.npy", np.array(EDGES).T)
    return features


def expected_of(features, pairs, heads=1, weights=None):
    """What every node gets, and the weight of every edge and head."""
    graph = heed.Graph(*np.transpose(pairs), nodes=NODES, duplicates="keep")
    x = features.reshape(NODES, heads, -1)
    bias = None if weights is None else np.log(weights, dtype=np.float32)
    found = heed.graph_attention(graph, x, x, x, edge_bias=bias, return_weights=True)
    return found.out, found.weights


def close(got, want):
    np.testing.assert_allclose(got.reshape(want.shape), want, atol=2e-6)


COMPUTED = [
    # The command line, which edges it leaves, and what weighs them.
    ("edges.csv", EDGES[:-1], None),
    ("edges.npy", EDGES[:-1], None),
    ("edges.npy --duplicates keep", EDGES, None),
    ("edges.csv --undirected --self-loops", BOTH, None),
    ("w.txt", [*EDGES[:5]], WEIGHTS[:5]),
]


@pytest.mark.parametrize(("line", "pairs", "weights"), COMPUTED)
def test_edges(run, files, line, pairs, weights):
    assert run("graph", *line.split(), "--features", "x.npy", "-o", "out.npy").status == 0
    close(np.load("out.npy"), expected_of(files, pairs, weights=weights)[0])


def test_heads_weights_and_lse(run, files):
    words = ("--heads", "4", "--weights", "--lse", "-o", "all.npz")
    ran = run("graph", "edges.csv", "--features", "x.npy", *words)
    assert ran.status == 0
    got = np.load("all.npz")
    out, shares = expected_of(files, EDGES[:-1], heads=4)
    close(got["out"], out)
    close(got["weights"][:-1], shares)
    assert got["lse"].size == NODES * 4
    assert "weights [7, 4] float32" in ran.out


def test_matrices(run, files):
    widths = {"w_query": 6, "w_key": 6, "w_value": 4}
    given = {name: RNG.standard_normal((8, n)).astype(np.float32) for name, n in widths.items()}
    given["b_value"] = np.ones(4, np.float32)
    np.savez("w.npz", **given)
    words = ("--matrices", "w.npz", "--heads", "2", "-o", "out.npy")
    assert run("graph", "edges.csv", "--features", "x.npy", *words).status == 0
    graph = heed.Graph(*np.transpose(EDGES), nodes=NODES)
    close(np.load("out.npy"), heed.graph_attention(graph, data=files, **given, heads=2))


def test_show(run, files):
    shown = [run("graph", "edges.csv", "--features", "x.npy", "--show", n) for n in (1, 3)]
    lines = shown[0].out.splitlines()
    assert lines[1] == "node 1 attends 4 edges, most"
    shares = [float(line.split()[1]) for line in lines[2:]]
    assert shares == sorted(shares, reverse=True)
    assert abs(sum(shares) - 1) < 0.003
    assert "node 3 attends 0 edges" in shown[1].out


READ = [
    # A file, and what is wrong with it; None: it has the edges 0 to 1 and 2 to 3.
    ("0 1\n1\n", "line 2 has 1 columns; it must have 2"),
    ("0 1 2 3\n", "line 1 has 4 columns; it must have 2 or 3"),
    ("0 1\n0 1 2\n", "line 2 has 3 columns; it must have 2"),
    ("0 1\na b\n", "line 2 is 'a b'; it must be two nodes, whole numbers from 0"),
    ("0 1\n0.5 1\n", "line 2 is '0.5 1'; it must be two nodes"),
    ("0 1 x\n", "line 1 is '0 1 x'; it must be two nodes"),
    ("0 -1\n", "edge 0 has the node -1; it must be 0 to 2147483646"),
    ("0 99999999999999999999\n", "edge 0 has the node 99999999999999999999; it must be 0 to"),
    ("0 2147483647\n", "edge 0 has the node 2147483647; it must be 0 to 2147483646"),
    ("0 1 -2\n", "edge 0 has the weight -2; it must be finite, at least 0"),
    ("0 1 nan\n", "edge 0 has the weight nan; it must be finite, at least 0"),
    ("0 1\n2 3\n", None),
    ("# c\n0,1\n\n2, 3 % c\n", None),
    ("from;to\n0;1\n2;3\n", None),
    ("\ufeff0\t1\r\n2\t3\r\n", None),
]


@pytest.mark.parametrize(("text", "words"), READ)
def test_files_of_edges(tmp_path, text, words):
    path = tmp_path / "e.txt"
    path.write_text(text)
    if words is None:
        read = read_edges(str(path))
        assert (read.sources.tolist(), read.destinations.tolist()) == ([0, 2], [1, 3])
        return
    with pytest.raises(Failure, match=words.replace("(", r"\(")):
        read_edges(str(path))


def test_loops_and_opposites_have_weights(tmp_path):
    made = Edges(np.array([0, 1]), np.array([0, 2]), np.array([5.0, 7.0])).both_ways().with_loops(3)
    triples = sorted(zip(made.sources, made.destinations, made.weights, strict=True))
    assert triples == [(0, 0, 5), (1, 1, 1), (1, 2, 7), (2, 1, 7), (2, 2, 1)]
    assert MOST_NODES == 2**31 - 1
    (tmp_path / "none.txt").write_text("")
    assert read_edges(str(tmp_path / "none.txt")).nodes == 0
