"""What MkDocs asks while it builds the site: overviews from the registries, notebooks as pages, folders in the menu."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from glasshouse.cli.rooms import HOMES, room, summary
from glasshouse.cli.show import described

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
#: A link to an example: it lies beside docs/ in the repository, and inside the site.
EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/([^)]+)\)")
#: A link to a folder: in the repository a listing, in the site an overview.
FOLDER = re.compile(r"\]\(([^):]+/)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what no page of docs/ holds, and write out the folders of the menu."""
    for name, text in {**dict(overviews()), **dict(notebooks())}.items():
        files.append(File.generated(config, name, content=text))
    for example in sorted(one for one in EXAMPLES.rglob("*") if one.suffix in {".py", ".toml", ".ipynb"}):
        name = example.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(example)))
    config.nav = written_out(config.nav, files)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to examples into the site, where a notebook is a page, and links to folders to their overviews."""
    home = "../" * page.file.src_uri.count("/") + "examples/"
    markdown = EXAMPLE.sub(lambda link: f"]({home}{link[1].replace('.ipynb', '.md')})", markdown)
    return FOLDER.sub(r"](\1index.md)", markdown)


def written_out(entry: Any, files: Files) -> Any:
    """An entry of the menu; one that ends in a slash becomes the pages of its folder, the overview first."""
    if isinstance(entry, dict):
        return {title: written_out(inside, files) for title, inside in entry.items()}
    if isinstance(entry, list):
        parts = [written_out(one, files) for one in entry]
        return [one for part in parts for one in (part if isinstance(part, list) else [part])]
    if not entry.endswith("/"):
        return entry
    pages = [file.src_uri for file in files.documentation_pages() if file.src_uri.startswith(entry)]
    return sorted(pages, key=lambda name: (not name.endswith("/index.md"), name))


def overviews() -> Iterator[tuple[str, str]]:
    """For each registry a page that holds all its names, with what the classes say of themselves."""
    for kind in HOMES:
        names = room(kind).names()
        lines = [f"| [{name}]({name}.md) | {plain(summary(room(kind).get(name)))} |" for name in names]
        table = "\n".join(["| name | what it is |", "|---|---|", *lines])
        head = f"# {kind.capitalize()}\n\nMade from the code. `glasshouse list {kind}` prints the names, "
        head += f"`glasshouse show {kind} {names[0]}` one of the sections below.\n"
        yield f"{kind}/index.md", "\n\n".join([head, table, *(section(kind, name) for name in names)])


def section(kind: str, name: str) -> str:
    """One registered thing: what it is, its facts, its settings."""
    facts = described(kind, name)
    settings = facts.pop("settings")
    lines = [f"## {facts.pop('name')}\n", f"{plain(facts.pop('what'))} [Its page]({name}.md).\n"]
    for fact, value in facts.items():
        text = ", ".join(value) if isinstance(value, list) else value
        lines.append(f"- {fact.replace('_', ' ')}: {plain(text)}")
    if settings:
        lines += ["", "| setting | type | default | meaning |", "|---|---|---|---|"]
    for one in settings:
        cells = (f"`{one['name']}`", plain(one["type"]), f"`{one['default']}`", plain(one["meaning"]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def notebooks() -> Iterator[tuple[str, str]]:
    """Each notebook as a page."""
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        title, *rest = (cell_text(cell) for cell in cells)
        link = f"[The notebook itself]({path.name}) can be run."
        yield f"examples/{path.stem}.md", "\n\n".join([title, link, *rest])


def cell_text(cell: dict[str, Any]) -> str:
    """A cell as Markdown."""
    text = "".join(cell["source"])
    return text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"


def plain(text: str) -> str:
    """Text that means itself in Markdown, also in a cell of a table; code between backticks stays code."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(part if part[:1] == "`" else re.sub(r"([*_<>|\[\]])", r"\\\1", part) for part in parts)
