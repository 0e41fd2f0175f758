"""Every session that api/python/README.md shows runs, and prints what it says."""

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "api" / "python" / "README.md"
SESSIONS = re.findall(r"^```pycon\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def test_sessions_are_found():
    assert len(SESSIONS) > 5


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.splitlines()[1][4:40])
def test_session(session):
    for module in re.findall(r"\b(torch|transformers)\b", session):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    test = doctest.DocTestParser().get_doctest(session, {}, "README", str(README), 0)
    assert doctest.DocTestRunner().run(test).failed == 0
