"""The documentation site builds in strict mode, and every link and anchor inside it leads somewhere."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from glasshouse.cli.rooms import HOMES, room

build = pytest.importorskip("mkdocs.commands.build", reason="MkDocs is not installed: pip install 'glasshouse[docs]'")

ROOT = Path(__file__).parents[1]


class Reader(HTMLParser):
    """What a page leads to, what can be led to in it, and what it says."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.words: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.links |= {found[name] for name in ("href", "src") if found.get(name)}
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))  # raises on any warning: strict
    return folder


def broken(site: Path) -> list[str]:
    """Every link of the site that leads nowhere, as page and link."""
    read = cache(Reader)
    found = []
    for page in sorted(site.rglob("*.html")):
        for link in read(page).links if page.name != "404.html" else ():  # that page knows no place of its own
            path, anchor = urldefrag(unquote(link))
            target = (page.parent / path).resolve() if path else page
            if "://" in link or link.startswith(("data:", "mailto:")):
                continue
            if not target.is_file() or (target.suffix == ".html" and anchor not in read(target).anchors):
                found.append(f"{page.relative_to(site)}: {link}")
    return found


def test_the_site_is_whole(site):
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    assert not list(site.rglob("*.py.html"))
    assert not list(site.glob("*.py"))
    assert pages >= {f"{kind}/{name}.html" for kind in HOMES for name in room(kind).names()}
    assert pages >= {f"examples/{path.stem}.html" for path in (ROOT / "examples").glob("*.ipynb")}
    assert broken(site) == []
    for kind in HOMES:  # the overviews hold what the code says, to the last setting
        text = "".join(Reader(site / kind / "index.html").words)
        for name in room(kind).names():
            assert name in text
            assert all(setting.meaning.replace("`", "") in text for setting in room(kind).settings(name)), name
    assert "Attack the gradients a model would share" in "".join(Reader(site / "reference" / "python.html").words)


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "one.html").write_text('<h1 id="top"></h1><a href="two.html#there">x</a><a href="two.html#no">y</a>')
    (tmp_path / "two.html").write_text('<p id="there"><a href="one.html#top">z</a><img src="gone.png">')
    assert broken(tmp_path) == ["one.html: two.html#no", "two.html: gone.png"]
