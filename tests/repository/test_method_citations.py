"""Citations of docs/methods.md: code, tests and configuration name sections that exist."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.docs.pages import references

ROOT = next(parent for parent in Path(__file__).resolve().parents if (parent / "pyproject.toml").exists())
PAGE = ROOT / "docs" / "methods.md"
FOLDERS = ("dgpbench", "tests", "conf")
FEWEST = 50  # citations; a renamed page or a changed form must not leave this test with nothing to look at

# A citation may be broken over two lines of a docstring or comment.
BREAK = r"\s+(?:#\s*)?"
MENTION = re.compile(r"docs/methods\.md")
CITATION = re.compile(rf'docs/methods\.md,{BREAK}"([^"]+)"(?:{BREAK}and{BREAK}"([^"]+)")?')
OLD = re.compile(r"\bMETHODS\b")


def titles() -> list[str]:
    """The page's section titles."""
    return re.findall(r"^#{2,3} (.+?)\s*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """(first line, text) of all comments and strings of a Python file, of the whole of any other; blocks of comment
    lines in one piece."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, text
        return
    block: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != block[-1][0] + 1:
                yield block[0][0], "\n".join(line for _, line in block)
                block = []
            block.append((token.start[0], token.string))
        elif token.type in {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}:
            yield token.start[0], token.string
    if block:
        yield block[0][0], "\n".join(line for _, line in block)


def passages() -> Iterator[tuple[str, str]]:
    """("file:line", text) of everything that may cite, without this file."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".yaml"} and path != Path(__file__).resolve():
                for line, text in prose(path):
                    yield f"{path.relative_to(ROOT)}:{line}", text


@pytest.mark.full
def test_every_citation_names_a_section_of_the_page():
    known, cited, wrong = set(titles()), 0, []
    for place, text in passages():
        named = [title for match in CITATION.finditer(text) for title in match.groups() if title]
        cited += len(CITATION.findall(text))
        wrong += [f'{place}: "{title}"' for title in named if " ".join(title.split()) not in known]
        if len(MENTION.findall(text)) != len(CITATION.findall(text)):
            wrong.append(f"{place}: docs/methods.md without a section title")
    assert not wrong, "\n".join(wrong)
    assert cited >= FEWEST


@pytest.mark.full
def test_no_citation_of_the_old_page_remains():
    left = [place for place, text in passages() if OLD.search(text)]
    left += [path.name for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")) if OLD.search(path.read_text("utf-8"))]
    assert not left, left


def test_section_titles_are_unique():
    assert len(titles()) == len(set(titles()))


def test_the_page_refers_to_its_own_sections_by_their_titles():
    text = PAGE.read_text(encoding="utf-8")
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles()}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
    quoted = set(re.findall(r'(?:of|in|see|by the moments of) "([A-Z][^"]+)"', text.replace("\n", " ")))
    assert quoted <= set(titles())


@pytest.mark.parametrize("method", sorted(path.stem for path in (ROOT / "conf" / "method").glob("*.yaml")))
def test_the_page_has_every_method(method):
    assert f"`{method}`" in PAGE.read_text(encoding="utf-8")


def test_the_papers_that_the_pages_cite_are_in_the_list_of_references():
    page = PAGE.read_text(encoding="utf-8")
    listed = references()
    assert listed in page
    explanation = PAGE.parent / "explanation"
    others = [(explanation / name).read_text(encoding="utf-8") for name in ("published_settings.md", "comparisons.md")]
    text = " ".join("\n".join([page.partition("## References")[0], *others]).split())
    cited = set(re.findall(r"([A-Z][\w'-]+)(?: et al\.| & [\w'-]+|, [\w'-]+ & [\w'-]+|'s)?,? \(?((?:19|20)\d\d)", text))
    lines = [line.replace("á", "a").replace("ñ", "n").replace("š", "s") for line in listed.splitlines()]
    missing = [
        f"{name} {year}"
        for name, year in sorted(cited)
        if not any(re.match(rf"- .*{re.escape(name)}.* \({year}\)", line) for line in lines)
    ]
    assert (missing, len(cited) > 20) == ([], True)
