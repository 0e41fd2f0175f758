#!/usr/bin/env python3
"""A site of documents is whole and asks no other host: check_site.py FOLDER [PICTURE]

  - What a page loads (scripts, styles, pictures, fonts) lies in the folder, and so does what styles load.
  - Links lead to pages and to places in them that are there.
  - The search knows functions of C and Python, and words of the text.

With PICTURE, a PNG of the first page, all pages are opened in a browser without a window:

  - Every page loads, without an error of a script and without asking another host.
  - The search finds functions of C and Python, and words.
  - Blocks of code are copied as they stand there, without prompts.
  - A page can be made light and dark.

That needs playwright, and Chromium as /usr/bin/chromium or where CHROMIUM says.
"""

import functools
import http.server
import os
import re
import sys
import tempfile
import threading
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag

sys.dont_write_bytecode = True
from markdown import told

FIRST = "index.html"
SEARCHES = {
    "heed_attention_plan_run": "reference/c.html",
    "graph_attention": "reference/python.html",
    "softcap": "reference/scores.html",
    "flashattention": "recipes/from_flashattention.html",
}
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


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def faults_in_browser(browser, folder, address, picture):
    faults = []
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.on("request", lambda request: request.url.startswith((address, "data:")) or
            faults.append(f"{page.url} asks {request.url}"))
    page.on("response", lambda response: response.ok or response.status == 304 or
            faults.append(f"{page.url}: {response.url} has status {response.status}"))
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    for path in files(folder, ".html"):
        name = os.path.relpath(path, folder)
        if name == FIRST:  # which leads on by itself, and is opened below
            continue
        page.goto(address + name, wait_until="load")
        if name != "search.html" and not page.locator("h1").count():
            faults.append(f"{page.url} has no heading")

    page.goto(address + FIRST)
    page.wait_for_url("**/README.html")
    page.screenshot(path=picture)
    if page.locator("article a[href$='start.html']").count() == 0:
        faults.append("the first page does not lead to the start")

    for word, leads in SEARCHES.items():
        page.goto(f"{address}search.html?q={word}")
        page.wait_for_selector("#search-results li a", timeout=20000)
        page.wait_for_function("!document.querySelector('#search-progress')?.textContent.includes('...')")
        if page.locator(f"#search-results a[href*='{leads}']").count() == 0:
            faults.append(f"the search for {word} does not find {leads}")

    page.goto(address + "api/python/README.html")
    block = page.locator("div.highlight-pycon").first
    block.hover()
    block.locator("button.copybtn").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    if "import heed, numpy as np" not in copied or ">>>" in copied:
        faults.append(f"a block is copied as {copied!r}")

    button, seen = page.locator("button.theme-toggle:visible").first, set()
    for _ in range(3):
        seen.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        button.click()
    if len(seen) != 2:
        faults.append(f"a page is not light and dark: {seen}")
    context.close()
    return faults


def browsed(folder, picture):
    from playwright.sync_api import sync_playwright

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"])
        faults = faults_in_browser(browser, folder, f"http://127.0.0.1:{server.server_port}/", picture)
        browser.close()
    server.shutdown()
    return faults


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    faults = faults_of(sys.argv[1]) + self_test()
    sys.exit(told(faults + (browsed(*sys.argv[1:]) if len(sys.argv) == 3 else [])))
