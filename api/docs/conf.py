"""The site of these documents: Sphinx reads Markdown where it lies, from the root of the tree."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

HEADER = (ROOT / "api" / "heed.h").read_text(encoding="utf-8")
project = "heed"
project_copyright = "the authors of heed, MIT licence"
version = release = ".".join(re.findall(r"#define HEED_VERSION_[MP]\w+ (\d+)", HEADER))

root_doc = "api/README"
include_patterns = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "api/*.md",
    "api/docs/**.md",
    "api/examples/README.md",
    "api/python/README.md",
    "engine/README.md",
    "perf/README.md",
]
exclude_patterns = ["build*", ".git", "tests", "cmake"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "contents",
    "declarations",
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
autodoc_typehints = "none"
autodoc_member_order = "bysource"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
highlight_language = "text"

smartquotes = False

html_theme = "furo"
html_title = f"heed {version}"
html_copy_source = False
html_show_sphinx = False
pygments_dark_style = "github-dark"
