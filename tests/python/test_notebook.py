"""The notebook of api/python/examples runs, and shows what is stored in it.

python test_notebook.py        stores what its cells show now
"""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
import nbformat  # noqa: E402

NOTEBOOK = Path(__file__).parents[2] / "api" / "python" / "examples" / "tour.ipynb"
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)")


def read():
    """The notebook, as it is stored."""
    return nbformat.read(NOTEBOOK, as_version=4)


def executed():
    """The notebook with new outputs, as Jupyter would make them."""
    notebook = read()
    where = {"metadata": {"path": str(NOTEBOOK.parent)}}
    options = {"timeout": 300, "kernel_name": "python3", "record_timing": False}
    nbclient.NotebookClient(notebook, resources=where, **options).execute()
    notebook.metadata.language_info = {"name": "python"}  # of any version
    return notebook


def shown(cell):
    """What a cell shows, by kind."""
    found = {}
    for output in cell.get("outputs", []):
        assert output.output_type != "error", output
        found |= output.get("data", {output.get("name"): output.get("text")})
    return found


def assert_same(new, stored):
    """But for the last digits of numbers, which differ between instruction sets."""
    news, olds = NUMBER.split(new), NUMBER.split(stored)
    assert news[::2] == olds[::2]
    numbers = [float(number) for number in olds[1::2]]
    assert [float(number) for number in news[1::2]] == pytest.approx(numbers, rel=1e-2, abs=2e-3)


def test_outputs_are_those_that_are_stored():
    drawn = 0
    for new, stored in zip(executed().cells, read().cells, strict=True):
        new_shows, stored_shows = shown(new), shown(stored)
        assert new_shows.keys() == stored_shows.keys()
        for kind, text in stored_shows.items():
            if kind == "image/svg+xml":
                ElementTree.fromstring(text)
                drawn += 1
            assert_same(new_shows[kind], text)
    assert drawn == 3


def test_stored_is_what_belongs_to_no_machine():
    assert not re.search(r"/(home|root|tmp|work|usr)/", NOTEBOOK.read_text())
    assert read().metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)
