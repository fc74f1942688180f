"""The site: ``make site``. Sphinx reads it; every warning is an error."""

import io
import os
import re
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path, PurePosixPath

from docutils import nodes
from latex2mathml.converter import convert

from dgpbench import __version__
from dgpbench.cli import COMMANDS, WITH_ACTIONS, main
from dgpbench.commands.run import settings_rows

HERE = Path(__file__).parent
REPOSITORY = "https://github.com/dgpbench/dgpbench"

project, release = "dgpbench", __version__
extensions = [
    "myst_parser",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx_autodoc_typehints",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["build", "gallery/README.rst"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = [
    "config.cache",  # the gallery's settings hold objects
    "sphinx_autodoc_typehints.forward_reference",  # types that are imported for type checkers alone
    "sphinx_autodoc_typehints.guarded_import",
]
autodoc_member_order = "bysource"
always_use_bars_union = True

html_theme = "pydata_sphinx_theme"
html_title = "dgpbench"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"*": []}  # pages at the top have no others beside them
html_show_sourcelink = False
html_theme_options = {
    "github_url": REPOSITORY,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "use_edit_page_button": False,
}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
}


def as_myst(app, name, source) -> None:
    """Read GitHub's mathematics, and link to files outside the site where they are."""
    del app
    text = re.sub(r"\$`(.+?)`\$", r"$\1$", source[0], flags=re.DOTALL)
    text = re.sub(r"^( *)```math$", r"\1```{math}", text, flags=re.MULTILINE)
    source[0] = re.sub(r"\]\(((?:\.\./)+[^)#\s]+)", lambda link: f"]({target(name, link[1])}", text)


SHOWN = {"GLOSSARY.md": "/reference/glossary.md", "CHANGELOG.md": "/reference/changelog.md", "README.md": "/index.md"}


def target(page: str, link: str) -> str:
    """Return the target of a page's relative link: the page of the site that shows the file, or its place on GitHub."""
    path = PurePosixPath(os.path.normpath(PurePosixPath("docs", page).parent / link))
    if path.is_relative_to("docs/gallery"):
        return link.replace("gallery/", "examples/").replace(".py", ".rst")
    if path.is_relative_to("docs"):
        return link
    return SHOWN.get(str(path), f"{REPOSITORY}/blob/main/{path}")


def inline_mathematics(writer, node) -> None:
    """Write MathML, which browsers show without a script."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def displayed_mathematics(writer, node) -> None:
    """Write MathML on lines of its own."""
    text = node.astext().replace("{aligned}", "{align*}")  # the name that latex2mathml knows
    writer.body.append(f"<p>{convert(text, display='block')}</p>\n")
    raise nodes.SkipNode


def help_of(*words: str) -> str:
    """Return the help text of a command."""
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        main([*words, "--help"])
    listed = re.compile(r"\nSettings \[.*?\n\n", re.DOTALL)
    text = listed.sub("\nSettings: see the page Settings.\n\n", printed.getvalue())
    return f"```text\n{text.rstrip()}\n```\n"


def write_commands(app) -> None:
    """Write the pages of commands and settings from the help texts and the declarations."""
    del app
    os.environ["COLUMNS"] = "80"
    pages = HERE / "reference"
    parts = ["# Command line\n", EXIT_CODES]
    for command in COMMANDS:
        parts += [f"## dgpbench {command}\n", help_of(command)]
        if command in WITH_ACTIONS:
            actions = import_module(f"dgpbench.commands.{command}").ACTIONS
            for action in actions:
                parts += [f"### dgpbench {command} {action}\n", help_of(command, action)]
    (pages / "commands.md").write_text("\n".join(parts))
    sections: dict[str, list[str]] = {}
    for key, meaning, accepted, default, owners in settings_rows():
        of = f" *Of {owners}.*" if owners else ""
        cells = [f"`{key}`", f"{meaning}.{of}", accepted, f"`{default}`"]
        row = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        section = key.partition(".")[0] if "." in key else "Any run"
        sections.setdefault(section, []).append(row)
    head = "| setting | meaning | values | default |\n| --- | --- | --- | --- |\n"
    tables = [f"## {name}\n\n{head}" + "\n".join(rows) for name, rows in sections.items()]
    (pages / "settings.md").write_text(f"{SETTINGS}\n" + "\n\n".join(tables) + "\n")


EXIT_CODES = """Exit codes: 0 done or skipped; 1 a run failed, diverged or timed out; 2 invalid input;
130 and 143 interrupted.
"""
SETTINGS = """# Settings

`dgpbench run KEY=VALUE ...`, and `DeepGPRegressor(settings={KEY: VALUE})` in Python. Defaults are those of
`protocol=lindinger2020 budget=paper`; `dgpbench run GROUP=NAME ... --cfg job` prints those of other choices. A setting
with owners exists in these families, optimisers, tasks or kinds of data alone.
"""


def setup(app) -> None:
    """Connect the above."""
    app.connect("builder-inited", write_commands)
    app.connect("source-read", as_myst)
    app.add_html_math_renderer("mathml", (inline_mathematics, None), (displayed_mathematics, None))


html_math_renderer = "mathml"
