"""The contents of the site, as api/README.md lists them, and the package by its docstrings.

A page says `<!-- docstrings of heed -->` where the names of a module come, and
`<!-- declarations of api/heed.h -->` where those of a header do; the repository shows nothing.
"""

import importlib
import os
import re

from declarations import declarations


def docstrings(module):
    """What autodoc is told to show of a module."""
    found = importlib.import_module(module)
    lines = ["```{eval-rst}", f".. currentmodule:: {module}", ""]
    for name in found.__all__:
        value = getattr(found, name)
        if isinstance(value, type):
            kind = "exception" if issubclass(value, Exception) else "class"
            lines += [f".. auto{kind}:: {name}", "   :members:", ""]
        elif callable(value):
            lines += [f".. autofunction:: {name}", ""]
    return "\n".join([*lines, "```"])


def literal_blocks(app, what, name, object, options, lines):  # noqa: A002
    """Formulas that docstrings indent are code, not quotations."""
    indents = [len(line) - len(line.lstrip()) for line in lines]
    for i in range(len(lines) - 2, 0, -1):
        starts = not lines[i].strip() and lines[i + 1].startswith("    ") and indents[i - 1] == 0
        if starts and lines[i - 1].strip() and not re.match(r"\w+:$|\.\.|>>>|:", lines[i - 1]):
            lines[i:i] = ["", "::"]


def skipped(app, what, name, object, skip, options):  # noqa: A002
    """Fields of tuples say nothing that their class does not."""
    return True if str(getattr(object, "__doc__", "")).startswith("Alias for field") else None


def contents(text):
    """What api/README.md lists, as the navigation: a section of it is a part."""
    _, *sections = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    parts = []
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        pages = [
            os.path.normpath("api/" + page) for page in re.findall(r"\]\(([^)#]+)\.md\)", body)
        ]
        listed = "\n".join(f"/{page}" for page in pages)
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{listed}\n```\n")
    return "\n".join([text, *parts])


def read(app, docname, source):
    """Pages as Sphinx shall see them."""
    for made in (docstrings, declarations):
        source[0] = re.sub(
            rf"^<!-- {made.__name__} of (\S+) -->$",
            lambda match, made=made: made(match[1]),
            source[0],
            flags=re.MULTILINE,
        )
    if docname == app.config.root_doc:
        source[0] = contents(source[0])


def first_page(app, exception):
    """The folder opens with the first page."""
    if exception is None:
        with open(os.path.join(app.outdir, "index.html"), "w", encoding="utf-8") as file:
            file.write(
                f'<!doctype html><meta charset="utf-8"><title>{app.config.html_title}</title>'
                f'<meta http-equiv="refresh" content="0; url={app.config.root_doc}.html">\n'
            )


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", literal_blocks, priority=400)
    app.connect("autodoc-skip-member", skipped)
    app.connect("build-finished", first_page)
    return {"parallel_read_safe": True, "version": "1"}
