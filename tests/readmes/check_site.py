#!/usr/bin/env python3
"""A site of documents is whole and asks no other host: check_site.py FOLDER

  - What a page loads (scripts, styles, pictures, fonts) lies in the folder, and so does what styles load.
  - Links lead to pages and to places in them that are there.
  - The search knows functions of C and Python, and words of the text.
"""

import os
import re
import sys
import tempfile
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag

sys.dont_write_bytecode = True
from markdown import told

FOUND = ("heed_attention_plan_run", "heed.graph_attention", "alibi", "workspac")


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("next", "prev", "index", "search", "author", "canonical"):
            self.loads.append(given["href"])
        elif given.get("src"):
            self.loads.append(given["src"])


def files(folder, *ends):
    return sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names
                  if name.endswith(ends))


def faults_of(folder):
    pages = {os.path.normpath(path): Page(path) for path in files(folder, ".html")}
    faults = [] if pages else ["there are no pages"]
    for path, page in pages.items():
        def there(target):
            return os.path.normpath(os.path.join(os.path.dirname(path), unquote(target)))
        for target in page.loads:
            if "//" in target or not os.path.exists(there(target.partition("?")[0])):
                faults.append(f"{path} loads {target}")
        for target in page.links:
            file, anchor = urldefrag(target)
            if re.match(r"\w+:", file):
                continue
            leads = there(file) if file else path
            if not os.path.exists(leads) or anchor and leads in pages and \
                    unquote(anchor) not in pages[leads].ids:
                faults.append(f"{path} has a link that leads nowhere: {target}")
    for path in files(folder, ".css"):
        with open(path, encoding="utf-8") as file:
            faults += [f"{path} loads {target}" for target in
                       re.findall(r"(?:url\(|@import )['\"]?((?:https?:)?//[^'\")]+)", file.read())]
    index = os.path.join(folder, "searchindex.js")
    words = ""
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            words = file.read()
    return faults + [f"the search does not know {word}" for word in FOUND
                     if not all(part in words for part in word.split("."))]


def self_test():
    """A page that does what none may."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "a.html"), "w", encoding="utf-8") as file:
            file.write('<script src="https://example.org/a.js"></script><a href="b.html">b</a>'
                       '<a href="#c">c</a><img src="d.png">')
        said = "\n".join(faults_of(folder))
        return [f"a page that has {wrong} passes" for wrong in
                ("loads https://example.org/a.js", "leads nowhere: b.html", "leads nowhere: #c",
                 "loads d.png", "does not know alibi") if wrong not in said]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(told(faults_of(sys.argv[1]) + self_test()))
