"""What docstrings and README say runs, names C's functions, and lists every option."""

import doctest
import importlib
import importlib.util
import inspect
import operator
import pkgutil
import re
from pathlib import Path

import pytest
from test_bits import GRADIENTS

import heed
from heed import command, information
from heed.blocks import ResultBlock
from heed.graphs import GraphResultOptions
from heed.options import ResultOptions

HEADER = Path(__file__).parents[2] / "api" / "heed.h"
NEEDS = {  # what modules import beside NumPy
    "linear": ["torch"],
    "pyg": ["torch", "torch_geometric"],
    "torch": ["torch"],
    "torch_ops": ["torch"],
    "transformers": ["torch", "transformers"],
}
# These start MPI; their functions are compared with what they say in over_ranks.py.
STARTING = ("mpi", "torch_mpi")
MODULES = [m.name for m in pkgutil.iter_modules(heed.__path__) if m.name not in STARTING]
PUBLIC = [
    value
    for name in heed.__all__
    if getattr(value := getattr(heed, name), "__module__", "").startswith("heed")
]


def docstrings(of):
    """Of everything in a compiled module, and in its classes."""
    for name, value in vars(of).items():
        if callable(value):
            yield name, value.__doc__
        if inspect.isclass(value) and value is not type:
            yield from docstrings(value)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    for library in NEEDS.get(name, []):
        pytest.importorskip(library)
    module = importlib.import_module(f"heed.{name}")
    tests = doctest.DocTestFinder(exclude_empty=True).find(module)
    if name == "_heed":  # whose functions doctest does not look into
        parser = doctest.DocTestParser()
        tests = [
            parser.get_doctest(text, {}, name, None, None)
            for name, text in docstrings(module)
            if text and ">>>" in text
        ]
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test)
    assert runner.failures == 0


@pytest.mark.parametrize("public", PUBLIC, ids=lambda x: x.__name__)
def test_documented(public):
    assert inspect.getdoc(public)
    functions = re.findall(r"heed_\w+", public.__doc__.partition("In C:")[2])
    header = HEADER.read_text()
    for function in functions:
        assert re.search(rf"\b{function}\b", header), function


def described(function):
    """Parameters that the docstring, or that of the function it refers to, says something of."""
    text = inspect.getdoc(function)
    names = set(re.findall(r"^    (\w+):", text, re.MULTILINE))
    for name in re.findall(r"\*\*options: [^:]*``heed\.([\w.]+)``", text):
        names |= described(operator.attrgetter(name)(heed))
    return names


@pytest.mark.parametrize(
    "function", [*filter(inspect.isfunction, PUBLIC)], ids=lambda x: x.__name__
)
def test_every_parameter_is_documented(function):
    assert set(inspect.signature(function).parameters) <= described(function)


@pytest.mark.parametrize(
    ("function", "options", "tensors"),
    [
        (heed.attention, ResultOptions, {"query", "key", "value"}),
        (heed.multihead, ResultBlock, {"query", "key", "keep"}),
        (heed.graph_attention, GraphResultOptions, {"graph", "query", "key", "value", "data"}),
    ],
)
def test_the_module_knows_the_options_of_the_tables(monkeypatch, function, options, tensors):
    monkeypatch.setattr("heed.options.unexpected", lambda *given: " ".join(given[2]))
    with pytest.raises(TypeError) as raised:
        function(*[None] * 3 if function is heed.attention else [None], colour=1)
    assert {*str(raised.value).split()} == {*options.__annotations__, *tensors}


def test_the_environment_is_what_the_header_says():
    said = re.findall(r"^ \*   (HEED_[A-Z_]+)  ", HEADER.read_text(), re.MULTILINE)
    assert list(information._VARIABLES) == said


@pytest.mark.parametrize("name", GRADIENTS)
def test_every_gradient_can_be_asked_for(name):
    asked = {n for n in inspect.signature(getattr(heed, name)).parameters if n.startswith("grad_")}
    assert asked == {f"grad_{n}" for n in (*GRADIENTS[name]._fields, "out", "lse")}


WRITING = ("attention", "multihead", "graph_attention", "project", "rotate", "merge")
WRITING += ("attention_backward", "multihead_backward", "graph_attention_backward")


@pytest.mark.parametrize("function", [*(getattr(heed, n) for n in WRITING), heed.Cache.attention])
def test_outputs_say_what_they_must_not_overlap(function):
    """Nobody looks, but for contexts that check."""
    text = re.sub(r"\s+", " ", function.__doc__)
    assert re.search(r" (out|grad_query):? [^:]*must not overlap", text)


def test_all_is_there():
    assert heed.__all__ == sorted(heed.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+", heed.__version__)
    assert heed.info()["version"] == heed.__version__


# ---- api/python/README.md ----

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
        assert "PyTorch" in texts
        names = command.bench.names(given)
        assert [text for text in texts if text in names] == names
        pictures.add(picture.name)
    assert pictures == set(re.findall(r"!\[[^]]*\]\(([^)]+)\)", TEXT))
