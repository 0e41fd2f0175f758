"""The command ``heed``: what it computes, writes, says and refuses."""

import io
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cases import started

import heed
from heed.command import COMMANDS, bench, cost, parser, pieces
from heed.command.shapes import Shape
from heed.command.timing import Turns

RNG = np.random.default_rng(5)


@pytest.fixture
def tensors(run):
    """Query, key and value in files; grouped heads."""
    shapes = {"q": (2, 4, 5, 8), "k": (2, 2, 7, 8), "v": (2, 2, 7, 6)}
    arrays = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    np.savez("qkv.npz", **arrays)
    return arrays


QKV = ("q.npy", "k.npy", "v.npy")


def attended(tensors, **options):
    return heed.attention(tensors["q"], tensors["k"], tensors["v"], **options)


# ---- heed attend --------------------------------------------------------------------------------


# Arrays in files, by the options that name them.
GIVEN = {
    "attn_mask": RNG.integers(0, 2, (2, 1, 5, 7)).astype(bool),
    "bias": RNG.standard_normal((4, 1, 7)).astype(np.float32),
    "alibi_slopes": RNG.random(4, dtype=np.float32),
    "sinks": RNG.random(4, dtype=np.float32),
    "key_lengths": np.array([7, 3], np.int32),
    "first_keys": np.array([0, 2], np.int32),
}
WORDS = parser().parse_args(["attend", "q.npy"]).words
FILES = " ".join(f"{WORDS[name]} {name}.npy" for name in GIVEN)
OPTIONS = [
    ("", {}),
    ("--causal", {"causal": True}),
    ("--causal bottom-right", {"causal": "bottom_right"}),
    ("--causal bottom_right", {"causal": "bottom_right"}),
    ("--causal --alignment -2", {"causal": True, "alignment": -2}),
    ("--window 2, --alignment top-left", {"window": (2, None), "alignment": "top_left"}),
    ("--window 1,0 --alignment bottom-right", {"window": (1, 0), "alignment": "bottom_right"}),
    ("--causal --window -1,2", {"causal": True, "window": (None, 2)}),
    ("--causal --window 2,-1", {"causal": True, "window": (2, None)}),
    ("--scale 0.5 --softcap 3", {"scale": 0.5, "softcap": 3.0}),
    ("--temperature 2", {"temperature": 2.0}),
    ("--hard", {"hard": True}),
    ("--threads 1 --isa scalar", {"context": heed.Context(isa="scalar")}),
    (f"{FILES} --alignment top-left", {**GIVEN, "alignment": "top_left"}),
]


@pytest.mark.parametrize(("line", "options"), OPTIONS)
def test_options_of_attention(run, tensors, line, options):
    for name, array in GIVEN.items():
        np.save(f"{name}.npy", array)
    assert run("attend", *QKV, "-o", "out.npy", *line.split()).status == 0
    np.testing.assert_array_equal(np.load("out.npy"), attended(tensors, **options))


def test_bfloat16_is_read_and_written_as_numpy_has_it(run, tensors):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    narrow = {name: array.astype(ml_dtypes.bfloat16) for name, array in tensors.items()}
    for name, array in narrow.items():
        np.save(f"{name}.npy", array)
    ran = run("attend", *QKV, "-o", "out.npy")
    assert (ran.status, ran.out) == (0, "out [2, 4, 5, 6] bfloat16 in out.npy\n")
    np.testing.assert_array_equal(np.load("out.npy").view(ml_dtypes.bfloat16), attended(narrow))


# Axes that all tensors lack, that one lacks, or has one element of.
CUTS = {"all": {}, "no batch": dict.fromkeys("qkv", 0), "of values": {"v": 0}, "one": {"q": [0]}}


@pytest.mark.parametrize("cut", CUTS)
def test_all_results_in_one_file_and_in_pieces(run, tensors, monkeypatch, cut):
    arrays = {name: array[CUTS[cut].get(name, ...)] for name, array in tensors.items()}
    np.savez("qkv.npz", **arrays)
    given = {"bias": RNG.standard_normal((4, 5, 7)).astype(np.float32), "sinks": GIVEN["sinks"]}
    if cut != "no batch":
        given |= {name: GIVEN[name] for name in ("key_lengths", "first_keys")}
    words = ["attend", "qkv.npz", "-o", "all.npz"]
    for name, array in given.items():
        np.save(f"{name}.npy", array)
        words += (WORDS[name], f"{name}.npy")
    names = ("lse", "weights", "column_sums")
    want = attended(arrays, **given, **{f"return_{n}": True for n in names})
    words += ("--lse", "--weights", "--column-sums", "--progress", "always")
    for long in (pieces.LONG, 1.0):
        monkeypatch.setattr(pieces, "LONG", long)
        ran = run(*words)
        assert ran.status == 0
        got = np.load("all.npz")
        assert sorted(got.files) == sorted(["out", *names])
        for name in got.files:
            np.testing.assert_array_equal(got[name], getattr(want, name))
    assert f"weights {list(want.weights.shape)} float32" in ran.out


def test_progress_fits_the_terminal(run, tensors, monkeypatch):
    monkeypatch.setattr(pieces, "LONG", 1.0)
    assert "heed attend █" in run("attend", *QKV, "--progress", "always").err
    monkeypatch.setenv("COLUMNS", "30")
    drawn = run("attend", *QKV, "--progress", "always").err.split("\r\x1b[2K")
    assert max(map(len, drawn)) == 29


def test_show(run, tensors):
    Path("words.txt").write_text("".join(f"w{i}\n" for i in range(7)))
    ran = run(
        "attend", *QKV, "--show", "3", "--rows", "1-2", "--tokens", "words.txt", "--svg", "a.svg"
    )
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[1] == "head 3"
    assert [line.partition("│")[0].strip() for line in lines[5:7]] == ["1", "2"]
    assert "\x1b" not in ran.out
    ElementTree.parse("a.svg")


KEPT_NOWHERE = r"float32, \S+ to \S+, mean \S+; -o FILE\.npy keeps it\n"
TOLD = [
    # The command line, where @ is q.npy k.npy v.npy, what stdout has, and how stderr ends.
    ("attend @", rf"^out \[2, 4, 5, 6\] {KEPT_NOWHERE}$", ""),
    ("graph edges.txt --features x.npy", r"^out \[2, 1, 4\] float32, 0 to 1, mean 0\.5; -o", ""),
    ("attend @ --expect want.npy --tolerance 0.3", r"max error 0\.25, mean 0\.25", ""),
    (
        "attend @ --expect want.npy --tolerance 0.1",
        "",
        "the error is 0.25; --tolerance allows 0.1\n",
    ),
    (
        "attend nan.npy k.npy v.npy",
        "",
        "NaN, 6 of its 240 numbers; NaN or infinity stands in QUERY\n",
    ),
    ("attend nan.npy k.npy inf.npy --bias b.npy --quiet", "^$", "stands in QUERY, VALUE\n"),
    ("attend @ --dtype f64", r"^out \[2, 4, 5, 6\] float64", ""),
    ("attend @ --dtype f16", r"^out \[2, 4, 5, 6\] float16", ""),
    ("attend @ --repeat 3", "ms, median of 3, ", ""),
    ("attend @ --repeat 3 --quiet", "^$", ""),
    ("attend @ --progress auto", "", ""),  # stderr is no terminal here
    ("attend @ --progress never", "", ""),
]


@pytest.mark.parametrize(("line", "out", "err"), TOLD)
def test_what_is_told(run, tensors, monkeypatch, line, out, err):
    query, value = tensors["q"].copy(), tensors["v"].copy()
    query[0, 0, 0, 0], value[1, 1, 0, 0] = np.nan, np.inf
    bias = np.where(np.arange(7) == 3, -np.inf, 0).astype(np.float32)
    want = attended(tensors) + np.float32(0.25)
    x = np.ones((2, 4), np.float32)
    for name, array in (("nan", query), ("inf", value), ("b", bias), ("want", want), ("x", x)):
        np.save(f"{name}.npy", array)
    Path("edges.txt").write_text("0 1\n")
    if "--progress" in line:
        monkeypatch.setattr(pieces, "LONG", 1.0)
    ran = run(*line.replace("@", " ".join(QKV)).split())
    assert ran.status == ("allows" in err)
    assert re.search(out, ran.out)
    assert ran.err.endswith(err) if err else ran.err == ""


REFUSED = [
    # The command line, where @ is q.npy k.npy v.npy, the exit status, and what is said of it.
    ("attend", 2, "the following arguments are required: QUERY"),
    ("attend q.npy k.npy", 2, "QUERY and KEY are given without VALUE; give all three, or one .npz"),
    ("attend q.npy", 2, "q.npy alone must be a .npz file; or give QUERY KEY VALUE"),
    ("attend nowhere.npy k.npy v.npy", 1, "nowhere.npy: No such file or directory"),
    ("attend text.npy k.npy v.npy", 1, "text.npy: it is not a .npy file\n"),
    ("attend qkv.npz k.npy v.npy", 1, "qkv.npz: it is not a .npy file but a .npz file\n"),
    ("attend text.npz", 1, "text.npz: it is not a .npz file\n"),
    ("attend false.npz", 1, "false.npz: it is not a .npz file but a .npy file\n"),
    ("attend other.npz", 1, "other.npz: it has a, k; it must have query or q"),
    ("attend q.npy v.npy k.npy", 1, "KEY "),
    ("attend @ --softcap 0", 2, "--softcap: '0' must be a number other than 0"),
    ("attend @ --softcap -1", 1, "--softcap is -1; it must be"),
    ("attend @ --temperature -2", 1, "--temperature is -2; it must be above 0"),
    ("attend @ --scale x", 2, "--scale: 'x' must be a number"),
    ("attend @ --causal left", 2, "--causal: 'left' must be top-left or bottom-right; see"),
    ("attend @ --causal 3", 2, "bottom-right; an offset is --causal --alignment 3; see heed att"),
    ("attend @ --causl", 2, "arguments: --causl; did you mean --causal? see heed attend --help"),
    ("attend @ --colour=red", 2, "arguments: --colour=red; see heed attend --help"),
    ("attend @ --window 5", 2, "--window: '5' must be LEFT,RIGHT, two numbers of keys"),
    ("attend @ --window -2,5", 2, "--window: '-2,5' must be LEFT,RIGHT, two numbers of keys"),
    ("attend @ --window 5,5", 1, "--alignment"),
    (
        "attend @ --causal top-left --alignment 3",
        1,
        "--alignment is given beside --causal, which is top-left and",
    ),
    ("attend one.npy k.npy v.npy", 1, "QUERY has shape [8]; it must have axes [batch, heads, rows"),
    ("attend @ --bias odd.npy", 1, "[2, 4, 5, 7]: batch, heads, rows, keys\n"),
    ("attend @ --mask q.npy", 1, "--mask q.npy: it is float32; it must be bool, where True att"),
    ("attend @ --mask m.npy", 1, "--mask has shape [2, 4, 5, 8]; it must broadcast to"),
    ("attend @ --alibi-slopes s.npy", 1, "say by --alignment, top-left, bottom-right or an int"),
    ("attend @ --sinks q.npy", 1, "--sinks has shape [2, 4, 5, 8]; it must have 1 axis"),
    ("attend @ --isa x86", 1, '--isa is "x86", which this build does not know; usable'),
    ("attend @ --threads 0", 2, "--threads: '0' must be a whole number, from 1 to 1024"),
    ("attend @ --executor x", 1, '--executor is "x"; this build has: serial, threads'),
    ("attend @ --lse -o a.npy", 2, "--lse is one more array; write all with -o FILE.npz"),
    ("attend @ --column-sums", 2, "--column-sums is one more array; write all with"),
    ("attend @ -o q.npy", 1, "-o q.npy would replace what query names"),
    ("attend @ --sinks s.npy -o s.npy", 1, "-o s.npy would replace what --sinks names"),
    ("attend @ -o no/where.npy", 1, "no/where.npy: it cannot be written: No such file"),
    ("attend @ -o folder.npy", 1, "folder.npy: it cannot be written: Is a directory"),
    ("attend @ -o q.npy/x.npy", 1, "q.npy/x.npy: it cannot be written: No such file"),
    ("attend @ -o out.txt", 2, "-o out.txt: its name must end with .npy or .npz"),
    ("attend @ --svg out.png", 2, "--svg out.png: its name must end with .svg"),
    ("attend @ --tolerance 1", 2, "--tolerance is given without --expect"),
    ("attend @ --rows 1", 2, "--rows is given without --show"),
    ("attend @ --batch 1", 2, "--batch is given without --show"),
    ("attend @ --tokens a", 2, "--tokens is given without --show"),
    ("attend @ --show --quiet", 2, "--show is given with --quiet"),
    ("attend @ --show 4", 1, "--show is 4; it must be 0 to 3"),
    ("attend @ --show --batch 2", 1, "--batch is 2; it must be 0 to 1"),
    ("attend @ --show --rows 4-5", 1, "--rows is 4-5; it must be within 0-4"),
    ("attend @ --show --rows ²", 2, "--rows is ²; it must be FIRST-LAST, from 0"),
    ("attend @ --show --tokens no.txt -o a.npy", 1, "no.txt: No such file or directory"),
    ("attend @ --expect q.npy --tolerance -1", 2, "--tolerance is -1; it must be at least 0"),
    ("attend @ --show --rows 4-x", 2, "--rows is 4-x; it must be FIRST-LAST, from 0"),
    ("attend @ --show --tokens q.npy", 1, "q.npy: it is not UTF-8: "),
    ("attend @ --expect k.npy", 1, "--expect k.npy: it is [2, 2, 7, 8]; out is [2, 4, 5, 6]"),
    ("attend @ --mas s.npy", 2, "unrecognized arguments: --mas s.npy"),
    ("bench D64", 2, "shape D64: L is missing"),
    ("bench Lkv3_D64", 2, "shape Lkv3_D64: Lq is missing"),
    ("bench L5", 2, "shape L5: D is missing"),
    ("bench L5_Lq6_D4", 2, "shape L5_Lq6_D4: L is both Lq and Lkv; give L, or the two"),
    ("bench L0_D4", 2, "shape L0_D4: L is 0; it must be 1 to 2^40"),
    ("bench L4_D4_L5", 2, "shape L4_D4_L5: L is given twice"),
    ("bench L4_D4_f16_f64", 2, "shape L4_D4_f16_f64: only one of f32, f16, bf16, f64 can be given"),
    ("bench H3_Hkv2_L4_D4", 2, "shape H3_Hkv2_L4_D4: Hkv is 2; it must divide H, 3"),
    ("bench L4_D4_mask", 2, "shape L4_D4_mask: it has 'mask'; it must be of BNUMBER, HNUMBER, "),
    (f"bench L{5000 * '1'}_D4", 2, "it must be of BNUMBER"),
    ("bench L4_D4 --plot a.png", 2, "--plot a.png: its name must end with .svg"),
    ("bench L4_D4 --plot a.svg --json a.svg", 1, "--plot a.svg would replace what --json names"),
    ("bench L4_D4 --json no/where.json", 1, "no/where.json: it cannot be written: No such file"),
    ("tune L100_D16 -o no/where", 1, "no/where: it cannot be written: No such file"),
    ("tune L100_D16 -o q.npy", 1, "q.npy: it is not UTF-8: "),
    ("bench L4_D4 --turns 0", 2, "--turns: '0' must be a whole number, from 1 to 10000"),
    ("tune", 2, "the following arguments are required: SHAPE"),
    ("tune H8_Lq1_Lkv64_D64", 1, "shape H8_Lq1_Lkv64_D64: so few rows are decoded, which has no"),
    ("graph edges.csv", 2, "the following arguments are required: --features"),
    ("graph nowhere.csv --features x.npy", 1, "nowhere.csv: No such file or directory"),
    ("graph edges.csv --features few.npy", 1, "--features has 4 nodes; edges.csv names node 4"),
    ("graph edges.csv --features x.npy --heads 3", 1, "--heads is 3; it must divide the 8"),
    ("graph edges.csv --features cube.npy --heads 3", 1, "--features is [5, 2, 4]; it must be"),
    ("graph edges.csv --features x.npy --weights", 2, "--weights is one more array; write all"),
    ("graph edges.csv --features x.npy --lse -o o.npy", 2, "--lse is one more array; write all"),
    ("graph edges.csv --features x.npy -o x.npy", 1, "-o x.npy would replace what --features"),
    ("graph edges.csv --features x.npy --show 5", 1, "--show is 5; it must be 0 to 4"),
    ("graph edges.csv --features x.npy --scale 0", 2, "--scale: '0' must be a number other than 0"),
    ("graph edges.csv --features x.npy --matrices x.npy", 1, "x.npy: it is not a .npz file but a"),
    ("graph edges.csv --features x.npy --matrices other.npz", 1, "--matrices other.npz: w_query"),
    ("graph edges.csv --features cube.npy --matrices other.npz", 1, "--features has 3 axes; with"),
    ("graph x.npy --features x.npy", 1, "x.npy: it is [5, 8] float32; edges are [2, edges] of"),
    ("completion csh", 2, "invalid choice: 'csh'"),
    ("attened", 2, "invalid choice: 'attened'"),
]


@pytest.mark.parametrize(("line", "status", "words"), REFUSED, ids=[row[0][:80] for row in REFUSED])
def test_refused_before_the_work(run, tensors, monkeypatch, line, status, words):
    def work(*_, **__):
        raise AssertionError("nothing may be computed")

    for module, name in ((heed, "attention"), (heed, "graph_attention"), (Turns, "run")):
        monkeypatch.setattr(module, name, work)
    np.save("s.npy", np.zeros(4, np.float32))
    np.save("m.npy", tensors["q"] > 0)
    np.save("one.npy", np.zeros(8, np.float32))
    np.save("odd.npy", np.zeros((9, 9), np.float32))
    np.savez("other.npz", a=1, k=tensors["k"])
    x = np.ones((5, 8), np.float32)
    for name, array in (("x", x), ("few", x[:4]), ("cube", x.reshape(5, 2, 4))):
        np.save(f"{name}.npy", array)
    Path("edges.csv").write_text("source,destination\n0,1\n4,4\n")
    for name in ("text.npy", "text.npz"):
        Path(name).write_text("not an array")
    Path("false.npz").write_bytes(Path("q.npy").read_bytes())
    before = {path: path.read_bytes() for path in Path().iterdir()}
    Path("folder.npy").mkdir()
    ran = run(*line.replace("@", " ".join(QKV)).split())
    assert ran.status == status
    assert ran.err.startswith(("heed:", f"heed {line.split()[0]}:"))
    assert words in ran.err
    assert ran.err.count("\n") == 1
    Path("folder.npy").rmdir()
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


# Options that name a file, a shape of theirs, and the types that they take.
TAKES = [
    ("attend @ --mask x.npy", (5, 7), "?"),
    ("attend @ --bias x.npy", (5, 7), "f2 f4 f8 >f4"),
    ("attend @ --alibi-slopes x.npy --alignment top-left", (4,), "i1 i4 >i4 i8 f2 f4 f8 >f4"),
    ("attend @ --sinks x.npy", (4,), "i1 i4 >i4 i8 f2 f4 f8 >f4"),
    ("attend @ --key-lengths x.npy", (2,), "i1 i4 >i4 i8"),
    ("attend @ --first-keys x.npy", (2,), "i1 i4 >i4 i8"),
    ("attend @ --expect x.npy", (2, 4, 5, 6), "? i1 i4 >i4 i8 u1 u8 f2 f4 f8 >f4"),
    ("attend x.npy k.npy v.npy", (2, 4, 5, 8), "f2 f4 >f4"),
    ("attend q.npy x.npy v.npy", (2, 2, 7, 8), "f2 f4 >f4"),
    ("attend q.npy k.npy x.npy", (2, 2, 7, 6), "f2 f4 >f4"),
    ("graph edges.txt --features x.npy", (3, 4), "f2 f4 f8 >f4"),
    ("graph x.npy --features features.npy", (2, 3), "i1 i4 >i4 i8 u1 u8"),
]
TYPES = "? i1 i4 >i4 i8 u1 u8 f2 f4 f8 >f4 c8 S3 U3 m8[s] V5"


@pytest.mark.parametrize(("line", "shape", "types"), TAKES, ids=[row[0] for row in TAKES])
def test_files_of_any_kind_are_taken_or_refused(run, tensors, line, shape, types):
    Path("edges.txt").write_text("0 1\n1 2\n")
    np.save("features.npy", np.ones((3, 4), np.float32))
    words = line.replace("@", " ".join(QKV)).split()
    for name in TYPES.split():
        np.save("x.npy", np.zeros(shape, name) if name == "V5" else np.ones(shape).astype(name))
        ran = run(*words)
        refused = name not in types.split()
        assert (name, ran.status, ran.err.count("\n")) == (name, refused, refused)
    for ranks in ((), (0,), (1,), (3,), (*shape, 2), (1,) * 6, (0,) * len(shape), (*shape[:-1], 0)):
        np.save("x.npy", np.ones(ranks, types.split()[0]))
        ran = run(*words)
        assert (ran.status, ran.err.count("\n")) in ((0, 0), (1, 1)), ranks


@pytest.mark.parametrize("name", ["q.npy", "qkv.npz"])
def test_broken_files_are_refused(run, tensors, name):
    whole = Path(name).read_bytes()
    for _ in range(150):
        broken = bytearray(whole[: RNG.integers(len(whole))] if RNG.random() < 0.2 else whole)
        for at in RNG.integers(max(1, min(len(broken), 300)), size=RNG.integers(1, 4)):
            broken[at : at + 1] = bytes(RNG.integers(256, size=1, dtype=np.uint8))
        Path("x" + name[-4:]).write_bytes(broken)
        ran = run("attend", "x" + name[-4:], *(QKV[1:] if name == "q.npy" else ()))
        assert ran.status in (0, 1)
        assert ran.err.count("\n") == (1 if ran.status else ran.err.count("has NaN"))


# ---- what takes long, or more memory than there is ----------------------------------------------

HUGE = [
    ("bench B1_H1_L10000000_D64 --no-torch", "shape B1_H1_L10000000_D64: a call takes about "),
    ("bench L4_D4 L1000000000_D64 --no-torch", "shape L1000000000_D64: 1 TiB are needed, 93.1 GiB"),
    ("bench B1099511627776_H1099511627776_L1099511627776_D9", "TiB are needed, 93.1 GiB of memory"),
    ("tune B1_H1_L10000000_D64 -o a.tuning", "shape B1_H1_L10000000_D64: a call takes about "),
    ("tune L100_D64 L1000000000_D64", "shape L1000000000_D64: 1 TiB are needed, 93.1 GiB of"),
    ("attend x.npy x.npy x.npy --weights -o w.npz", "results: 4 TiB are needed, 93.1 GiB of"),
    ("attend x.npy x.npy x.npy --show --rows 0-99999", "results: 391 GiB are needed, 93.1 GiB of"),
    ("attend x.npy x.npy x.npy", "x.npy: a call takes about "),
]


@pytest.mark.parametrize(("line", "words"), HUGE, ids=[row[0] for row in HUGE])
def test_huge_work_is_refused(run, monkeypatch, line, words):
    monkeypatch.setattr(cost, "free_memory", lambda: 1e11)
    monkeypatch.setattr(cost, "rate", lambda *_: cost.SLOW)
    np.save("x.npy", np.zeros((1 << 20, 4), np.float32))
    ran = run(*line.split())
    assert (ran.status, ran.out, os.listdir()) == (1, "", ["x.npy"])
    assert words in ran.err
    assert ran.err.endswith("; --yes goes on nevertheless\n")


@pytest.mark.parametrize("command", ["bench", "tune"])
def test_memory_that_is_missing_in_spite_of_yes(run, monkeypatch, command):
    def fails(_):
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setattr(Shape, "tensors", fails)
    ran = run(command, "L100_D16", "--yes")
    assert (ran.status, ran.err) == (1, f"heed {command}: Unable to allocate 1 TiB\n")
    assert run(command, f"B{1 << 40}_H{1 << 40}_L9_D9", "--yes").status == 1


SMALL = ["attend @ -o out.npy", "attend @ --weights --lse -o out.npz", "bench L4_D4 --turns 1"]
SMALL += ["graph edges.txt --features x.npy --show 1"]


@pytest.mark.parametrize("line", SMALL)
@pytest.mark.parametrize("limit", ["memory", "time"])
def test_long_work_is_asked_about(run, tensors, monkeypatch, line, limit):
    if limit == "memory":
        monkeypatch.setattr(cost, "free_memory", lambda: 0)
    elif "graph" in line:
        pytest.skip("edges that fit into memory take no minute")
    monkeypatch.setattr(cost, "LONG", 0.0 if limit == "time" else cost.LONG)
    Path("edges.txt").write_text("0 1\n")
    np.save("x.npy", np.ones((2, 4), np.float32))
    before = sorted(Path().iterdir())
    words = line.replace("@", " ".join(QKV)).split()
    ran = run(*words)
    assert (ran.status, ran.out, sorted(Path().iterdir())) == (1, "", before)
    assert ran.err.endswith("; --yes goes on nevertheless\n")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for answer, status in (("n\n", 1), ("", 1), ("y\n", 0), ("Yes\n", 0)):
        typed = io.StringIO(answer)
        typed.isatty = lambda: True
        monkeypatch.setattr("sys.stdin", typed)
        ran = run(*words)
        assert ran.status == status
        assert "; go on? [y/N] " in ran.err
    assert run(*words, "--yes").status == 0


# ---- heed bench ---------------------------------------------------------------------------------


def test_bench(run):
    shapes = ("H2_L20_D16_f16", "B2_H4_Hkv2_Lq3_Lkv9_D8_Dv4_causalBR_f64")
    words = ("H2_L20_D16", shapes[1], "--dtype", "f16", "--turns", "2", "--no-torch")
    ran = run("bench", *words, "--json", "a.json")
    assert ran.status == 0
    for name in shapes:
        assert f"\n{name} " in ran.out
    assert "torch" not in ran.out
    results = json.loads(Path("a.json").read_text())
    assert [row["shape"] for row in results["shapes"]] == list(shapes)
    assert all(row["seconds"]["heed"] > 0 for row in results["shapes"])


# Shapes, how fast they are, and the quartiles of that.
CALM = [("B32_H12_L128_D64", 1.5, (1.4, 1.6)), ("B8_H12_L197_D64", 0.25, (0.2, 0.26))]
NOISY = [("L4_D4", 2400.23, (58.73, 43424.25))]


@pytest.mark.parametrize("rows", [CALM, NOISY + CALM, NOISY, CALM[:1]])
def test_wide_spreads_are_marked(run, rows):
    ran = run("bench", "L4_D4", "--turns", "1", "--no-torch", "--json", "-")
    results = json.loads(ran.out)
    said = results["shapes"][0]
    results["shapes"] = [
        said
        | {
            "shape": name,
            "name": bench.SHAPES.get(name, ""),
            "gflops": speed,
            "gflops_quartiles": spread,
        }
        for name, speed, spread in rows
    ]
    noisy = rows[0] == NOISY[0]
    lines = bench.table(results).splitlines()
    assert [line.split()[0] for line in lines if line.endswith("  unsteady")] == ["L4_D4"] * noisy
    assert lines[-1].startswith("unsteady: ") == noisy
    if find_spec("matplotlib") is None:
        return
    drawn = ElementTree.fromstring(bench.picture(results))
    words = [one.text for one in drawn.iter() if one.tag.endswith("text")]
    assert sum(word.endswith(" unsteady") for word in words) == noisy
    assert {"GFLOP/s", bench.measured(results)} <= set(words)
    for name, speed, _ in rows:
        assert {name, bench.SHAPES.get(name, name)} <= set(words)
        assert any(word.startswith(f"{speed:.3g}") for word in words)


def test_bench_beside_torch(run):
    torch = pytest.importorskip("torch")
    plot = ("--plot", "a.svg") if find_spec("matplotlib") else ()
    ran = run("bench", "H2_Lq5_Lkv9_D16_causalBR", "--turns", "3", "--json", "-", *plot)
    assert ran.status == 0
    results = json.loads(ran.out)
    assert results["programs"]["torch"] == torch.__version__
    row = results["shapes"][0]
    low, high = row["quartiles"]["torch"]
    assert low <= row["times_as_long"]["torch"] <= high
    assert not plot or "PyTorch" in Path("a.svg").read_text()


# ---- heed info and the rest ---------------------------------------------------------------------


def test_info_has_all_that_a_report_needs():
    chosen = {"HEED_ISA": "scalar", "HEED_THREADS": "2", "HEED_THREAD": "3"}  # one is misspelt

    def told(*words):
        return started(sys.executable, "-m", "heed", "info", *words, **chosen).stdout

    table, _, how = told().partition("\n\n")
    assert how.startswith("To report a problem, send these lines")
    assert " HEED_CHECK=1 " in how
    lines = {line.split()[0]: line for line in table.splitlines()}
    known = heed.info()
    assert lines["heed"].split()[1] == known["version"]
    assert re.search(r" compiled by (g\+\+|clang) \d+\.", lines["heed"])
    assert lines["isa"].split()[1:] == ["scalar", "HEED_ISA=scalar"]
    assert lines["threads"].endswith(" HEED_THREADS=2")
    assert platform.release() in lines["system"]
    assert platform.python_version() in lines["python"]
    assert lines["numpy"].split()[1] == np.__version__
    assert {"cpu", "executor", *known["packages"]} <= lines.keys()
    assert ("torch" in lines) == (find_spec("torch") is not None)
    assert lines["HEED_THREADS"].split() == ["HEED_THREADS", "2"]
    assert lines["HEED_THREAD"].endswith("heed reads no variable of this name")
    assert json.loads(told("--json"))["context"]["isa"] == "scalar"


def test_version_and_help(run):
    assert run("--version").out == f"heed {heed.info()['version']}\n"
    assert run().status == 2
    for command in COMMANDS:
        ran = run(command.__name__.rpartition(".")[2], "--help")
        assert ran.status == 0
        assert "\nexamples:\n" in ran.out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_examples_of_help_are_command_lines(command):
    line = r"""^  (?:eval "\$\()?(?:\w+=\S+ )?heed (.+?)(?=  | > |\)"|$)"""
    examples = re.findall(line, command.EXAMPLES, re.MULTILINE)
    assert len(examples) > 1
    for example in examples:
        assert parser().parse_args(shlex.split(example)).run == command.run, example


ENDS = [
    # A line of a shell where heed is the command, the exit status of heed, and what is on stderr.
    ("heed info | true", 1, ""),
    ("heed --help | true", 1, ""),
    ("heed attend @ --show | true", 1, ""),
    ("heed --help > /dev/full", 1, "heed: stdout: No space left on device\n"),
    ("heed info > /dev/full", 1, "heed info: stdout: No space left on device\n"),
    ("heed info >&-", 0, ""),
    ("heed graph - --features x.npy <&-", 1, "heed graph: -: stdin is closed\n"),
    ("COLUMNS=wide heed attend --help", 0, ""),
    ("heed bench --help >&-", 0, "usage: heed bench "),
    ("heed attend @ --quiet -o /dev/stdout | cmp - out.npy", 0, ""),
    ("heed attend <(cat q.npy) k.npy v.npy --expect out.npy --tolerance 0", 0, ""),
    ("PYTHONIOENCODING=ascii heed attend @ --show", 0, ""),
    ("PYTHONIOENCODING=latin-1 heed attend @ --show --progress always", 0, ""),
    ("PYTHONIOENCODING=ascii heed attend $'\\xff' k.npy v.npy", 1, "heed attend: ?: No such file"),
]


@pytest.mark.parametrize(("line", "status", "words"), ENDS, ids=[row[0] for row in ENDS])
def test_streams_of_any_kind(run, tensors, line, status, words):
    run("attend", *QKV, "-o", "out.npy")
    np.save("x.npy", np.ones((5, 8), np.float32))
    script = f'heed() {{ {shlex.quote(sys.executable)} -m heed "$@"; }}\n'
    script += line.replace("@", " ".join(QKV)) + "\nexit ${PIPESTATUS[0]}"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr.decode()[: len(words) or None]) == (status, words)
    if "ascii" in line:
        assert ended.stdout.decode("ascii") == "" or ended.stdout.count(b"|") == 10


WORK = """
import sys, numpy, heed
attention = heed.attention
def begins(*given, **options):
    print("it is at work", file=sys.stderr, flush=True)
    return attention(*given, **options)
heed.attention = begins
from heed.command import main
sys.exit(main())
"""


@pytest.mark.parametrize(("rows", "words"), [(300, "--repeat 1000000"), (1 << 20, "--yes")])
def test_interrupt(run, rows, words):
    """Between calls, and within one that takes minutes."""
    np.save("x.npy", np.zeros((rows, 4), np.float32))
    line = f"attend x.npy x.npy x.npy -o out.npy {words} --progress never"

    def heeds_interrupts():  # which what runs in a shell's background ignores
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(
        (sys.executable, "-c", WORK, *line.split()),
        stderr=subprocess.PIPE,
        preexec_fn=heeds_interrupts,
    ) as started:
        started.stderr.readline()
        started.send_signal(signal.SIGINT)
        try:
            said = started.communicate(timeout=60)[1]
        finally:
            started.kill()
    assert started.returncode == 130
    assert said.endswith(b"heed attend: interrupted\n")
    assert not Path("out.npy").exists()


COMPLETED = [
    # Words, the last of which is completed, and what it may become.
    ("heed attend q.npy --alib", ["--alibi-slopes"]),
    ("heed attend --bias q", ["q.npy", "qkv.npz"]),
    ("heed attend --scale q", []),
    ("heed attend --weights c", ["capped"]),
    ("heed t", ["tune"]),
    ("heed attend --isa sca", ["scalar"]),
    ("heed bench --executor ser", ["serial"]),
    ("heed attend --causal t", ["top-left"]),
    ("heed attend --alignment b", ["bottom-right"]),
    ("heed tune B32_", ["B32_H12_L128_D64"]),
]


def test_completion(run, tensors):
    argcomplete = pytest.importorskip("argcomplete")
    for shell in ("bash", "zsh", "fish"):
        ran = run("completion", shell)
        assert (ran.status, ran.out) == (0, argcomplete.shellcode(["heed"], shell=shell))
    for words, found in COMPLETED:
        asked = {"_ARGCOMPLETE": "1", "COMP_LINE": words, "COMP_POINT": str(len(words))}
        line = f"{shlex.quote(sys.executable)} -m heed 8>&1 9>&1 >/dev/null"
        told = started("bash", "-c", line, **asked, _ARGCOMPLETE_IFS="\n")
        assert sorted(told.stdout.split()) == found


@pytest.mark.parametrize(
    ("line", "library"),
    [("completion bash", "argcomplete"), ("bench L4_D4 --plot a.svg", "matplotlib")],
)
def test_without_a_library(run, monkeypatch, line, library):
    monkeypatch.setitem(sys.modules, library, None)
    ran = run(*line.split())
    message = f"heed {line.split()[0]}: {library} is missing: pip install {library}\n"
    assert (ran.status, ran.out, ran.err) == (1, "", message)
