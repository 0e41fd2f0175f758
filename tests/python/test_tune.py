"""``heed tune``, and the files that it writes."""

import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

import heed
from heed.command import tune
from heed.command.shapes import parse
from heed.command.tune import Found, Tiles, about, candidates, found, halvings

SHAPE = "H4_Hkv2_L100_D16_causal"


@pytest.fixture
def finds(monkeypatch):
    """Makes the search find what it is told, because a test cannot make tiles faster."""

    def set_found(tile_q, tile_kv, gain=1.25):
        best = Found(Tiles(tile_q, tile_kv), Tiles(96, 512), gain, (gain - 0.05, gain + 0.05))
        monkeypatch.setattr(tune, "search", lambda *_: best)

    return set_found


def plan_of(**context):
    array = np.zeros((1, 4, 100, 16), np.float32)
    key = array[:, :2]
    return heed.plan(array, key, key, causal=True, context=heed.Context(**context)).describe()


def test_what_it_writes_gives_tiles_to_any_program(run, finds, monkeypatch):
    finds(48, 128)
    status, out, err = run("tune", SHAPE, "-o", "a.tuning", "--threads", "2")
    assert (status, err) == (0, "")
    head, row, *_ = out.splitlines()
    assert head.split() == ["shape", "automatic", "best", "times", "as", "fast"]
    assert row.split("  ") == [SHAPE, " 96 x 512", "48 x 128", "1.250 (1.200-1.300)"]
    assert f"\n{SHAPE}: export HEED_TILE_Q=48 HEED_TILE_KV=128\n" in out
    assert out.endswith(f"export HEED_TUNING_FILE={Path('a.tuning').resolve()}\n")
    assert Path("a.tuning").read_text().startswith("heed-tuning 1\n")
    assert plan_of(threads=2)["tuning_line"] == 0
    monkeypatch.setenv("HEED_TUNING_FILE", "a.tuning")
    said = plan_of(threads=2)
    assert (said["tile_q"], said["tile_kv"], said["tuning_line"]) == (48, 128, 5)
    assert plan_of(threads=1)["tuning_line"] == 0  # it was found with two


def test_it_adds_to_what_is_there(run, finds):
    """Notes and lines of other CPUs stay, and the mode of the file."""
    here = heed.Context().describe()
    old = "heed-tuning 1\n# mine\ncpu=other isa=avx2\nrows=5 tile_q=8\n"
    Path("a.tuning").write_text(old)
    os.chmod("a.tuning", 0o640)
    for shape, *tiles in ((SHAPE, 48, 128), ("H2_L300_D32", 96, 256), (SHAPE, 144, 384, 1.5)):
        finds(*tiles)
        run("tune", shape, "-o", "a.tuning")
    text = Path("a.tuning").read_text()
    assert text.startswith(old)
    assert f"\ncpu={here['cpu']} isa={here['isa']}\nkey=f32 " in text
    assert len(re.findall("^key=", text, re.MULTILINE)) == 2
    assert "tile_q=48" not in text
    assert "tile_q=96" in text
    assert "tile_q=144 tile_kv=384  # 1.50 times as fast as 96 x 512; " + SHAPE in text
    assert stat.S_IMODE(os.stat("a.tuning").st_mode) == 0o640
    assert os.listdir() == ["a.tuning"]


def test_a_file_that_is_none_stays(run, finds):
    finds(48, 128)
    for old, words in (
        ("shopping list\n", 'line 1: it begins with "shopping"'),
        ("heed-tuning 1\ncpu=a isa=b\nrow=1 tile_q=8\n", 'line 3: it has "row="'),
        ("heed-tuning 2\n", 'line 1: the version is "2"; this library reads 1'),
    ):
        Path("a.tuning").write_text(old)
        status, _, err = run("tune", SHAPE, "-o", "a.tuning")
        assert status == 1
        assert err.startswith(f"heed tune: a.tuning is not a tuning file: {words}")
        assert Path("a.tuning").read_text() == old


def test_where_it_writes(run, finds, monkeypatch):
    finds(48, 128)
    run("tune", SHAPE, "--dry-run")
    assert os.listdir() == []
    run("tune", SHAPE)
    assert os.listdir() == ["heed.tuning"]
    monkeypatch.setenv("HEED_TUNING_FILE", "b.tuning")
    run("tune", SHAPE)
    assert sorted(os.listdir()) == ["b.tuning", "heed.tuning"]


def test_a_shape_without_other_tiles_keeps_the_automatic_ones(run):
    status, out, err = run("tune", "B1_H1_L16_D8", "--dry-run", "--turns", "3")
    assert (status, err) == (0, "")
    assert "no gain: the automatic choice stays" in out


def test_no_gain_is_not_written_and_a_line_without_it_goes(run, finds):
    for gain in (1.005, 0.9):
        finds(48, 128, gain)
        status, out, _ = run("tune", SHAPE)
        assert status == 0
        assert "  no gain: the automatic choice stays\n" in out
        assert out.endswith("\nnothing to write to heed.tuning\n")
        assert "export" not in out
    assert os.listdir() == []
    for gain, written in ((1.25, True), (1.0, False)):
        finds(48, 128, gain)
        out = run("tune", SHAPE, "-o", "a.tuning").out
        assert out.endswith(f"export HEED_TUNING_FILE={Path('a.tuning').resolve()}\n")
        assert (plan_of(tuning_file="a.tuning")["tuning_line"] > 0) == written
    assert run("tune", SHAPE, "-o", "a.tuning").out.endswith("\nnothing to write to a.tuning\n")


def test_where_another_line_is_for_a_shape_too(run, finds):
    finds(48, 128)
    out = run("tune", "H2_L300_D32", "H2_L300_D32", "-o", "a.tuning").out
    assert out.count(" 48 x 128") == 1
    finds(96, 512, 1.0)
    out = run("tune", "H2_L290_D32", "-o", "a.tuning").out
    words = "\nH2_L290_D32: line 5 of a.tuning is for these sizes too, 48 x 128\nnothing to write"
    assert words in out
    finds(96, 256)  # the new line comes first
    assert "is for these sizes too" not in run("tune", "H2_L290_D32", "-o", "a.tuning").out


def test_tiles_of_the_environment_are_in_the_way(run, monkeypatch):
    monkeypatch.setenv("HEED_TILE_Q", "48")
    status, _, err = run("tune", SHAPE)
    assert status == 2
    assert err == "heed tune: HEED_TILE_Q is 48, which wins over a tuning file; unset it\n"


def test_a_search_of_several_shapes_leaves_a_file_that_heed_reads(run, monkeypatch):
    monkeypatch.setattr(tune.Found, "better", True)  # what is faster here, a test cannot say
    monkeypatch.setattr(tune, "candidates", lambda *_: [Tiles(24, 32), Tiles(48, 64)])
    shapes = ("H2_L60_D16", "H2_L90_D16_causal")
    status, out, err = run("tune", *shapes, "--turns", "3", "--progress", "always")
    assert status == 0
    for shape in shapes:
        assert re.search(rf"\n{shape} +\d+ x \d+ +\d+ x \d+ +\d\.\d{{3}} \(\d\.\d+-\d\.\d+\)", out)
        assert f"heed tune {shape} █" in err
    monkeypatch.setenv("HEED_TUNING_FILE", "heed.tuning")
    for length, causal in ((60, False), (90, True)):
        x = np.zeros((1, 2, length, 16), np.float32)
        assert heed.plan(x, x, x, causal=causal, context=heed.Context()).describe()["tuning_line"]


def test_rounds_end_with_one_that_is_judged():
    for count in (1, 2, 5, 48):
        rounds = list(halvings(count, 9))
        assert rounds[-1] == (1, 27)
        assert all(turns >= 3 for _, turns in rounds)
        left = count
        for size, _ in rounds:
            assert size == left
            left = -(-left // 2)


def test_candidates_are_tiles():
    for tiles in candidates(Tiles(24, 128), parse("H4_Hkv2_L100_D16")):
        assert 1 <= tiles.tile_q <= 200  # of both heads that share a key head
        assert 1 <= tiles.tile_kv <= 128
    largest = {(t.tile_q, t.tile_kv) for t in candidates(Tiles(144, 128), parse("L100_D16"))}
    assert max(largest) == (144, 128)


def test_what_is_better():
    one, other = Tiles(48, 128), Tiles(96, 128)
    assert found(one, other, [1.02, 1.03, 1.04, 1.05]).better
    assert not found(one, other, [0.97, 0.99, 1.04, 1.05]).better
    assert not found(one, other, [1.001, 1.002, 1.003]).better
    assert not found(one, one, [1.02, 1.03, 1.04]).better


def test_sizes_that_are_powers_of_two_share_all_others():
    ranges = [about(1 << i) for i in range(12)]
    covered = []
    for text in ranges:
        low, _, high = text.partition("-")
        covered += range(int(low), int(high or low) + 1)
    assert covered == list(range(1, covered[-1] + 1))
