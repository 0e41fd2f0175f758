#!/usr/bin/env python3
"""Opens every page of the site of documents in a browser without a window: browse_site.py FOLDER [PICTURE]

  - Every page loads, without an error of a script and without asking another host.
  - The search finds functions of C and Python, and words.
  - Blocks of code are copied as they stand there, without prompts.
  - A page can be made light and dark.

It needs playwright, and Chromium as /usr/bin/chromium or where CHROMIUM says. PICTURE is a PNG of the
first page.
"""

import functools
import http.server
import os
import sys
import threading

sys.dont_write_bytecode = True
from check_site import files
from markdown import told
from playwright.sync_api import sync_playwright

FIRST = "index.html"
SEARCHES = {
    "heed_attention_plan_run": "reference/c.html",
    "graph_attention": "reference/python.html",
    "softcap": "reference/scores.html",
    "flashattention": "recipes/from_flashattention.html",
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def faults_of(browser, folder, address, picture):
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
    if picture:
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


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = sys.argv[1]
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"])
        faults = faults_of(browser, folder, f"http://127.0.0.1:{server.server_port}/",
                           sys.argv[2] if len(sys.argv) > 2 else None)
        browser.close()
    server.shutdown()
    return told(faults)


if __name__ == "__main__":
    sys.exit(main())
