"""Runs the notebook of api/python/examples, and stores what its cells show: run_notebook.py"""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "api" / "python" / "examples" / "tour.ipynb"


def read():
    """The notebook, as it is stored."""
    return nbformat.read(NOTEBOOK, as_version=4)


def executed():
    """The notebook with new outputs, as Jupyter would make them."""
    notebook = read()
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
        record_timing=False,
    ).execute()
    notebook.metadata.language_info = {"name": "python"}  # of any version
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)
