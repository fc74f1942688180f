"""The site: it is built without a warning, its search finds the methods, and its internal links lead somewhere."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
READ = ("docs", "README.md", "GLOSSARY.md", "CHANGELOG.md")
EXAMPLES = 8  # at least

pytest.importorskip("sphinx_gallery", reason="needs pip install '.[site]'")
soup = pytest.importorskip("bs4", reason="needs pip install '.[site]'")
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The pages, built from a copy; examples that were executed before are taken as they are."""
    folder = tmp_path_factory.mktemp("site")
    for name in READ:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("build"))
        else:
            shutil.copy(path, folder / name)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "docs", "built"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "built"


@cache
def page_of(path: Path):
    """Return the parsed page, once."""
    return soup.BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def links_of(page: Path) -> Iterator[str]:
    """Yield the links of a page to files of the site."""
    for tag in page_of(page).find_all(("a", "img", "link", "script")):
        link = tag.get("href") or tag.get("src")
        if link and not urlsplit(link).scheme and not link.startswith("//"):
            yield link


def leads_nowhere(page: Path, link: str) -> bool:
    """Return whether a link's file, or its anchor in that file, is missing."""
    parts = urlsplit(link)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return True
    anchor = unquote(parts.fragment)
    return bool(anchor) and target.suffix == ".html" and page_of(target).find(id=anchor) is None


def test_the_search_finds_a_method(site):
    index = json.loads((site / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    found = [index[kind]["star"] for kind in ("terms", "titleterms")]  # a page, or a list of pages
    names = {index["docnames"][page] for pages in found for page in (pages if isinstance(pages, list) else [pages])}
    assert {"methods", "howto/choose_method"} <= names


def test_every_internal_link_leads_somewhere(site):
    pages = [page for page in sorted(site.rglob("*.html")) if "_static" not in page.parts]
    links = [(page, link) for page in pages for link in links_of(page)]
    assert len(pages) > 30
    assert len(links) > 1000
    assert [f"{page.relative_to(site)}: {link}" for page, link in links if leads_nowhere(page, link)] == []


def test_every_example_has_a_picture(site):
    examples = [path.stem for path in (ROOT / "docs" / "gallery").glob("plot_*.py")]
    assert len(examples) >= EXAMPLES
    assert [name for name in examples if not list((site / "_images").glob(f"sphx_glr_{name}_*.png"))] == []


def test_pages_made_from_the_code_are_complete(site):
    text = page_of(site / "reference" / "settings.html").get_text()
    assert "training.learning_rate" in text
    assert "dataset.target_transform" in text
    assert "dgpbench results redo" in page_of(site / "reference" / "commands.html").get_text()
