"""Every session that api/python/README.md shows runs, and prints what it says."""

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

from heed import command

README = Path(__file__).parents[2] / "api" / "python" / "README.md"
TEXT = README.read_text()
SESSIONS = re.findall(r"^```pycon\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
OVER_RANKS = [session for session in SESSIONS if "heed.mpi" in session]  # for over_ranks.py


def test_sessions_are_found():
    assert len(SESSIONS) > 5


@pytest.mark.parametrize(
    "session",
    [s for s in SESSIONS if s not in OVER_RANKS],
    ids=lambda session: session.splitlines()[1][4:40],
)
def test_session(session):
    for module in re.findall(r"\b(torch|torch_geometric|transformers)\b", session):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    check_session(session)


def check_session(session):
    test = doctest.DocTestParser().get_doctest(session, {}, "README", str(README), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_command_is_the_one_of_its_help():
    lines = command.EXAMPLES.partition("examples:\n")[2].partition("\n\n")[0].splitlines()
    assert len(lines) == len(command.COMMANDS)
    assert "```text\n" + "".join(f"{line[2:]}\n" for line in lines) + "```" in TEXT


def test_pictures_of_speed_are_of_the_shapes_that_the_readme_says():
    commands = re.findall(r"^heed (bench .*--plot .*)$", TEXT.replace("\\\n", ""), re.MULTILINE)
    pictures = set()
    for words in commands:
        given = command.parser().parse_args(words.split())
        picture = README.parents[2] / given.plot
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text())
        assert texts[0].startswith("PyTorch ")
        assert texts[1:-1:2] == command.bench.names(given)
        pictures.add(picture.name)
    assert pictures == set(re.findall(r"!\[[^]]*\]\(([^)]+)\)", TEXT))
