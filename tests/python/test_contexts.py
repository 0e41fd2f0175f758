"""Contexts, threads and forks."""

import multiprocessing
import os
import signal
import sys
import sysconfig
import threading

import cases
import numpy as np
import pytest

import heed


def tensors(rows=64):
    return cases.tensors(rows=rows, keys=rows, features=32)


def test_describe():
    given = {"threads": 1, "isa": "scalar", "executor": "serial", "check": True}
    given["precision"] = "high"
    context = heed.Context(**given)
    said = context.describe()
    assert {n: said[n] for n in given} == given
    assert heed.plan(*tensors(), context=context).describe()["isa"] == "scalar"
    assert said["l1_bytes"] > 0
    assert said["l2_bytes"] > 0
    # Tiles are rounded up to what kernels do.
    few, many = (
        heed.plan(*tensors(1000), context=heed.Context(tile_q=tile, tile_kv=tile)).describe()
        for tile in (1000, 1)
    )
    assert few["tasks"] < many["tasks"]
    assert few["tile_kv"] > many["tile_kv"]


def test_threads_of_the_default_context():
    before = heed.get_threads()
    q, k, v = tensors()
    expected = heed.attention(q, k, v)
    try:
        heed.set_threads(1)
        assert heed.get_threads() == 1
        assert heed.plan(q, k, v).describe()["threads"] == 1
        np.testing.assert_array_equal(heed.attention(q, k, v), expected)
        with pytest.raises(heed.ArgumentError, match="threads is 0"):
            heed.set_threads(0)
        assert heed.get_threads() == 1
    finally:
        heed.set_threads(None)
    assert heed.get_threads() == before


def run(program, **environment):
    return cases.started(sys.executable, "-c", program, **environment)


def test_environment():
    done = run(
        "import heed; print(heed.get_threads(), heed.info()['environment'])",
        HEED_THREADS="1",
        HEED_ISA="scalar",
    )
    assert done.stdout == "1 {'HEED_ISA': 'scalar', 'HEED_THREADS': '1'}\n"
    done = run("import heed; heed.get_threads()", HEED_THREADS="many")
    assert 'heed.errors.ArgumentError: HEED_THREADS is "many"' in done.stderr


FIRST_USES = """
import sys, threading
import numpy as np
import heed

x = np.random.default_rng(0).standard_normal((2, 30, 16), dtype=np.float32)
eye = np.eye(16, dtype=np.float32)
matrices = dict(w_query=eye, w_key=eye, w_value=eye, w_out=eye, heads=2)
barrier = threading.Barrier(8)
found = [None] * 8

def use(i):
    barrier.wait()
    for _ in range(30):
        graph = heed.Graph([0, 1, 2], [2, 2, 0], nodes=30)
        cache = heed.Cache(key_heads=2, features=16, pages=4, page_rows=16)
        sequence = cache.sequence()
        sequence.append(x, x)
        found[i] = [
            heed.attention(x, x, x, causal=True),
            heed.plan(x, x, x)(x, x, x),
            heed.multihead(x, **matrices),
            heed.graph_attention(graph, x.swapaxes(0, 1), x.swapaxes(0, 1), x.swapaxes(0, 1)),
            cache.attention([sequence], x),
        ]
        if i == 0:
            heed.set_threads(2)
        try:
            heed.attention(x, x, x[:, 1:])
        except heed.ArgumentError:
            pass

threads = [threading.Thread(target=use, args=(i,)) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for row in found[1:]:
    for one, other in zip(found[0], row):
        assert (one == other).all()
print(getattr(sys, "_is_gil_enabled", lambda: True)())
"""


def test_the_first_uses_may_all_be_at_once():
    """And where CPython is free-threaded, heed leaves it so."""
    ran = run(FIRST_USES, OMP_WAIT_POLICY="passive", PYTHON_GIL=None)
    assert (ran.returncode, ran.stderr) == (0, "")
    free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert ran.stdout == f"{not free}\n"


def long():
    """A call that takes a while."""
    query, key = (np.ones((1, 1, n, 64), np.float32) for n in (2000, 20000))
    return {"query": query, "key": key, "value": key, "context": heed.Context(threads=1)}


def test_other_threads_run_during_a_call():
    """The interpreter is free: a thread that only counts gets its turns."""
    given = long()
    seen, done = [], threading.Event()

    def count():
        while not done.is_set():
            seen.append(len(seen))
            done.wait(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    during = 0
    for _ in range(20):  # a busy computer may give it none in one of them
        before = len(seen)
        heed.attention(**given)
        during = max(during, len(seen) - before)
        if during > 2:
            break
    done.set()
    counter.join()
    assert during > 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_after_use():
    """As multiprocessing and gunicorn do: with what was made before, on several threads."""
    given = tensors(200)
    expected = heed.attention(*given)
    plan = heed.plan(*given)
    plan(*given)

    def same():
        return all(np.array_equal(call(*given), expected) for call in (heed.attention, plan))

    child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(not same()))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert same()


@pytest.mark.parametrize("before", [False, True])
def test_fork_beside_pytorch(before):
    """PyTorch has threads of OpenMP in the parent; heed has some, or none."""
    pytest.importorskip("torch")
    executor = "openmp" if "openmp" in heed.info()["executors"] else "threads"
    done = run(
        "import os, signal, numpy as np, torch, heed; x = np.ones((4, 300, 64), np.float32)\n"
        f"context = heed.Context(executor={executor!r}, threads=2)\n"
        "def both():\n"
        "    torch.randn(400, 400) @ torch.randn(400, 400)\n"
        "    assert (heed.attention(x, x, x, context=context) == 1).all()\n"
        f"torch.set_num_threads(2); both() if {before} else torch.randn(400, 400).sum()\n"
        "if (child := os.fork()) == 0:\n"
        "    signal.alarm(60)\n"
        "    heed.attention(x, x, x, context=context)\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "both()"
    )
    assert done.returncode == 0, done.stderr


def test_ends_well_with_everything_alive():
    done = run(
        "import heed, numpy as np; x = np.ones((2, 300, 64), np.float32); "
        "p = heed.plan(x, x, x); p(x, x, x); c = heed.Context(); heed.set_threads(2)"
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_interrupt_comes_right_after_a_call():
    """A call cannot be broken off, but nothing of an interrupt is lost, nor is the result."""
    given = long()
    out = np.zeros_like(given["query"])

    def interrupted():
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        heed.attention(**given, out=out)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (out == 1).all()
