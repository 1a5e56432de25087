"""Lays out the sources of the book, and looks over the links of the book that was built.

Usage: book.py stage FOLDER     every page as it lies in the repository, docs/SUMMARY.md on top, and what pages link to
       book.py check FOLDER     each link of each HTML page leads to a file there, and to an anchor if it names one
"""

import html.parser
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def is_elsewhere(target):
    return not target or "://" in target or target.startswith(("mailto:", "#"))


def stage(out):
    shutil.rmtree(out, ignore_errors=True)
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    pages = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for page in filter(None, pages):
        if page == "docs/SUMMARY.md":
            continue
        put(out / page, shown(out, page, (ROOT / page).read_text()))
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    put(out / "SUMMARY.md", LINK.sub(lambda link: f"[{link[1]}]({posixpath.normpath('docs/' + link[2])})", summary))


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def shown(out, page, text):
    """The text of a page: a file that it links to goes along. A folder and the table of contents have no page, so
    their links become words."""

    def replace(link):
        target = link[2].split("#")[0]
        if is_elsewhere(link[2]):
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if (ROOT / path).is_dir() or path == "docs/SUMMARY.md":
            return link[1]
        if not path.endswith(".md"):
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, out / path)
        # mdBook makes an index of a README, and leaves links to it as they are.
        return link[0].replace("README.md", "index.html")

    return LINK.sub(replace, text)


class Page(html.parser.HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def check(out):
    # The page of everything for printers repeats the others' links; the one for lost readers has absolute ones.
    paths = [path for path in out.rglob("*.html") if path.name not in ("print.html", "404.html", "toc.html")]
    pages = {path.resolve(): Page(path) for path in paths}
    broken, links = [], 0
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = urllib.parse.unquote(link).partition("#")
            if is_elsewhere(link) and not link.startswith("#"):
                continue
            links += 1
            to = (path.parent / target).resolve() if target else path
            lacks_anchor = anchor and to in pages and anchor not in pages[to].anchors
            if not to.is_file() or lacks_anchor:
                broken.append(f"{path.relative_to(out.resolve())}: {link}")
    print(f"book: {len(pages)} pages, {links} links, {len(broken)} broken")
    if broken or len(pages) < 10:
        raise SystemExit("\n".join(sorted(set(broken))) or "there are hardly any pages")


if __name__ == "__main__":
    {"stage": stage, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
