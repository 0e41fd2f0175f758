"""Pictures of weights."""

from xml.etree import ElementTree

import numpy as np
import pytest

import heed

EYE = np.eye(3)


def text_of(*arguments, **options):
    return heed.show(*arguments, **options).text(width=80, colour=False)


def test_text():
    assert text_of(np.array([[1.0, 0.0], [0.25, 0.75]]), ["I", "am"]) == "\n".join(
        ("      a", "    I m", "   ┌────┐", " I │██  │", "am │░░▓▓│", "   └────┘", "0   ░░▒▒▓▓██ 1")
    )


def test_heads_and_items():
    weights = np.stack([np.stack([EYE, np.zeros((3, 3))]), np.stack([np.zeros((3, 3)), 2 * EYE])])
    assert text_of(weights) == text_of(EYE / 2)  # the mean of all heads of item 0
    assert text_of(weights, batch=1, head=1) == text_of(2 * EYE)
    assert text_of(weights[0], head=0) == text_of(EYE)


def test_what_steers_a_terminal_is_not_printed():
    shown = text_of(EYE, ["\x1b[31m", "a\nb", "\t"], title="t")
    assert "\x1b" not in shown
    assert shown == text_of(EYE, ["·[31m", "a·b", "·"], title="t")


def test_many_keys_share_cells():
    weights = np.zeros((2, 1000))
    weights[0, 999] = 1
    shown = text_of(weights)
    assert max(map(len, shown.splitlines())) <= 80
    assert "27 keys a cell" in shown
    assert shown.splitlines()[2].endswith("██│")


def test_wide_letters_are_as_wide_as_terminals_have_them():
    lines = text_of(EYE, ["日本語", "a", "b"], key_tokens=["x", "y", "z"]).splitlines()
    row = next(line for line in lines if "日" in line)
    assert row.index("│") + 3 == next(line for line in lines if " a │" in line).index("│")


def test_marks_stay_with_their_letters():
    plain, marked = (text_of(EYE, [f"{e}a", "b", "c"]).splitlines() for e in ("e", "e\u0301"))
    assert [line.replace("\u0301", "") for line in marked] == plain


def test_infinities_and_nan():
    weights = np.array([[0.5, -np.inf], [np.nan, 1.0]])
    assert "??" in text_of(weights)
    ElementTree.fromstring(heed.show(weights).svg())


def test_colours_follow_the_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[48;5;231m" in repr(heed.show(EYE))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in repr(heed.show(EYE))


def test_svg():
    shown = heed.show(EYE, ["<a>", "b&", '"c"'], title="<t>")
    root = ElementTree.fromstring(shown._repr_svg_())
    cells = [one for one in root if one.tag.endswith("rect")]
    assert len(cells) == 9
    assert "<a> → b&: 0" in [one[0].text for one in cells]
    long = ElementTree.fromstring(heed.show(EYE, title=100 * "t").svg())
    assert float(long.attrib["width"]) > 700
    large = ElementTree.fromstring(heed.show(np.random.default_rng(0).random((500, 700))).svg())
    assert len([one for one in large if one.tag.endswith("rect")]) <= 160 * 160


def test_results_as_a_whole():
    found = heed.attention(EYE, EYE, EYE, return_lse=True, return_weights=True)
    assert text_of(found) == text_of(found.weights)


def test_weights_of_torch():
    torch = pytest.importorskip("torch")
    weights = torch.eye(3, dtype=torch.bfloat16, requires_grad=True)
    assert text_of(weights) == text_of(EYE)
