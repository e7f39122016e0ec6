"""Measure pages as a phone shows them: no title and no code wider than its box, and no page wider than the screen.

    python docs/_ext/phone.py docs/_build/html [--width 390] [--screenshots FOLDER]

Needs Chromium, or Chrome, and no network. Exits with 1 and one line for each fault.
"""

import argparse
import functools
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
SECONDS_A_PAGE = 5

# Pages are shown one after the other in a frame of a phone's width, and what is too wide is written into the document.
MEASURE = """<!doctype html><meta charset="utf-8"><body><script>
const pages = PAGES, found = [];
async function measure(page) {
  const frame = document.createElement("iframe");
  frame.style.cssText = "width:WIDTHpx;height:1200px;border:0";
  const loaded = new Promise((done) => { frame.onload = done; });
  frame.src = page;
  document.body.append(frame);
  await loaded;
  const inside = frame.contentDocument;
  const wide = inside.documentElement.scrollWidth;
  if (wide > WIDTH) found.push([page, "the page", wide, WIDTH]);
  for (const title of inside.querySelectorAll("article h1, article h2, article h3, article h4, article dt.sig, article pre")) {
    const range = inside.createRange();
    range.selectNodeContents(title);
    const text = range.getBoundingClientRect(), box = title.getBoundingClientRect();
    const over = title.tagName != "PRE" && text.right > WIDTH;  // blanks at the ends of lines of code hang over, unseen
    if (title.scrollWidth > title.clientWidth + 1 || box.right > WIDTH || over)
      found.push([page, title.textContent.trim().slice(0, 60), Math.round(text.width), title.clientWidth]);
  }
  frame.remove();
}
(async () => {
  for (const page of pages) await measure(page);
  document.body.innerHTML = "<pre id=found></pre>";
  document.getElementById("found").textContent = JSON.stringify({pages: pages.length, found});
})();
</script>"""


def browser() -> str:
    """Return the path of a browser, or leave with a sentence."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    sys.exit(f"None of {', '.join(BROWSERS)} was found; install one to measure pages.")


class Quiet(SimpleHTTPRequestHandler):
    """Serve a folder without a line for each file."""

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def measured(site: Path, width: int) -> dict:
    """Return the number of pages, and what is too wide in them."""
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if not {"_static", "_modules"} & set(path.parts))
    text = MEASURE.replace("PAGES", json.dumps([f"/{page}" for page in pages])).replace("WIDTH", str(width))
    with tempfile.NamedTemporaryFile("w", suffix=".html", dir=site, encoding="utf-8") as harness:
        harness.write(text)
        harness.flush()
        server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{Path(harness.name).name}"
        waits = f"--virtual-time-budget={1000 * SECONDS_A_PAGE * len(pages)}"
        shown = subprocess.run([browser(), *FLAGS, waits, "--dump-dom", address], capture_output=True, text=True, check=True).stdout
        server.shutdown()
    match = re.search(r'<pre id="found">(.*?)</pre>', shown, flags=re.DOTALL)
    if match is None:
        sys.exit(f"The browser did not finish {len(pages)} pages; raise SECONDS_A_PAGE.")
    result: dict = json.loads(html.unescape(match[1]))
    return result


def take_screenshots(site: Path, width: int, folder: Path) -> None:
    """Write a picture of each page of prose, as a phone shows its first screens."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(site.glob("*.html")):
        frame = f'<iframe src="{page.as_uri()}" style="width:{width}px;height:2400px;border:0"></iframe>'
        with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as holder:
            holder.write(f'<body style="margin:0">{frame}')
            holder.flush()
            picture = f"--screenshot={(folder / page.stem).resolve()}.png"
            size = f"--window-size={max(width, 500)},2400"
            subprocess.run([browser(), *FLAGS, size, picture, Path(holder.name).as_uri()], capture_output=True, check=True)


def main() -> int:
    """Measure, and print what is too wide."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--width", type=int, default=390)
    parser.add_argument("--screenshots", type=Path)
    given = parser.parse_args()
    result = measured(given.site.resolve(), given.width)
    for page, what, wide, box in result["found"]:
        print(f"{page}: {what!r} is {wide} px wide, in {box}")
    print(f"{result['pages']} pages measured at {given.width} px: {len(result['found'])} too wide")
    if given.screenshots:
        take_screenshots(given.site.resolve(), given.width, given.screenshots)
    return bool(result["found"])


if __name__ == "__main__":
    sys.exit(main())
