"""Every session that api/python/README.md shows runs, and prints what it says."""

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

from heed import command

README = Path(__file__).parents[2] / "api" / "python" / "README.md"
SESSIONS = re.findall(r"^```pycon\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def test_sessions_are_found():
    assert len(SESSIONS) > 5


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.splitlines()[1][4:40])
def test_session(session):
    for module in re.findall(r"\b(torch|torch_geometric|transformers)\b", session):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    test = doctest.DocTestParser().get_doctest(session, {}, "README", str(README), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_command_is_the_one_of_its_help():
    lines = command.EXAMPLES.partition("examples:\n")[2].partition("\n\n")[0].splitlines()
    assert len(lines) == len(command.COMMANDS)
    assert "```text\n" + "".join(f"{line[2:]}\n" for line in lines) + "```" in README.read_text()


def test_the_picture_of_speed_is_of_the_shapes_that_bench_measures():
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", (README.parent / "speed.svg").read_text())
    assert texts[0].startswith("PyTorch ")
    assert [text for text in texts if re.match(r"B\d", text)] == list(command.bench.SHAPES)
