"""The declarations of heed.h as a page, and names in code that link to them.

Each comes with the comment that stands above it.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).parents[2]
HEADERS = ("api/heed.h", "api/heed_mpi.h")
SECTION = re.compile(r"/\* -{4} (.*?) -+(?: \*/)?\n")
MACRO = r"#(?:[^\n]*\\\n)*[^\n]*"  # over as many lines as end with a backslash
OTHER = r"\w[^;{]*(?:\{.*?^\}[^;]*)?;[^\n]*"
INIT = rf"(?:\n(?=#define \w+_INIT ){MACRO})*"  # belong to the struct before them
ENTRY = re.compile(
    rf"^(?=\S)(?P<comment>/\*.*?\*/\n)?(?P<code>(?:{MACRO}|{OTHER}{INIT})\n)?",
    re.MULTILINE | re.DOTALL,
)
DECLARED = {}  # name: the declaration that it is part of


# ---- Headers ----------------------------------------------------------------------------------


def entries_of(header):
    """(comment, code) of every declaration, in order; (title, None) of every section.

    A comment is what stands right above; one before an empty line is an entry of its own.
    """
    _, _, body = header.partition('extern "C" {\n#endif\n')
    body, _, _ = body.partition("\n#ifdef __cplusplus\n")
    for found in ENTRY.finditer(f"{body}\n"):
        comment, code = found["comment"] or "", found["code"] or ""
        if title := SECTION.match(comment):
            yield title[1].strip(), None
            comment = comment[title.end() :]
        if comment.strip(" */\n") or code:
            yield comment.strip("\n"), code.strip("\n")


def escaped(text):
    """As Markdown shows it, names as code."""
    parts = re.split(r"\b((?:heed|HEED)_\w+(?:\(\))?)", text)
    return "".join(
        f"`{part}`" if i % 2 else re.sub(r"([\\`*_{}\[\]<>|#~$])", r"\\\1", part)
        for i, part in enumerate(parts)
    )


def markdown_of(comment):
    """Paragraphs and lists stay what they are; what is indented is code."""
    found, before = [], ""
    for line in re.sub(r"\s*\*/$", "", comment).splitlines():
        line = re.sub(r"^(/\*| \*) ?", "", line).rstrip()
        if line.lstrip().startswith("- "):
            kind, line = "list", "- " + escaped(line.lstrip()[2:])
        elif line.startswith("  ") and before == "list":
            kind, line = "list", "  " + escaped(line.strip())
        elif line.startswith("  "):
            kind, line = "code", "    " + line
        else:
            kind, line = "text" if line else before, escaped(line)
        if line and before and kind != before:
            found.append("")
        found.append(line)
        before = kind if line or kind == "code" else ""
    return "\n".join(found).strip("\n")


def names_of(code):
    """(kind of Sphinx's C domain, signature, name, whether its body is shown)."""
    flat = " ".join(re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL).replace("\\\n", "").split())
    if match := re.match(r"typedef (struct|enum) (\w+) ", flat):
        return match.group(1), match.group(2), match.group(2), "{" in flat
    if match := re.match(r"#define (\w+)", flat):
        return "macro", match.group(1), match.group(1), True
    signature = re.sub(r"^HEED_(MPI_)?API |^typedef |;$", "", flat)
    name = re.search(r"\b(heed_\w+)\)?(\(|$)", signature).group(1)
    return ("type" if flat.startswith("typedef") else "function"), signature, name, False


def declarations(path):
    """A header as Markdown, a part of a page for each of its sections."""
    header = (ROOT / path).read_text(encoding="utf-8")
    text = [markdown_of(header.partition("#ifndef")[0].rstrip()) + "\n"]
    for comment, code in entries_of(header):
        if code is None:
            text.append(f"## {comment}\n")
        elif not code:
            text.append(markdown_of(comment) + "\n")
        else:
            kind, signature, _, shown = names_of(code)
            body = f"\n```c\n{code}\n```\n" if shown else ""
            text.append(f":::{{c:{kind}}} {signature}\n\n{markdown_of(comment)}\n{body}:::\n")
    return "\n".join(text)


def note_names():
    """Fills DECLARED."""
    for path in HEADERS:
        for _, code in entries_of((ROOT / path).read_text(encoding="utf-8")):
            if code:
                _, _, name, _ = names_of(code)
                within = re.findall(r"^  (HEED_\w+)", code, re.MULTILINE)
                DECLARED.update(dict.fromkeys([*within, name], name))


class Linked(SphinxTransform):
    """Names of heed.h in code link to their declarations."""

    default_priority = 500

    def apply(self):
        """Of every page."""
        for node in list(self.document.findall(nodes.literal)):
            name = node.astext().removesuffix("()")
            if name in DECLARED and not isinstance(
                node.parent, (nodes.reference, addnodes.pending_xref)
            ):
                link = addnodes.pending_xref(
                    "",
                    refdomain="c",
                    reftype="identifier",
                    refwarn=False,
                    reftarget=DECLARED[name],
                    refdoc=self.env.docname,
                )
                node.replace_self(link)
                link += node


def setup(app):
    """Called by Sphinx."""
    note_names()
    app.add_transform(Linked)
    return {"parallel_read_safe": True, "version": "1"}
