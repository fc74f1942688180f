"""The site: ``make site``. Sphinx reads it; every warning is an error."""

import re
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

from dgpbench import __version__
from dgpbench.cli import COMMANDS

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
    del app, name
    text = re.sub(r"\$`(.+?)`\$", r"$\1$", source[0], flags=re.DOTALL)
    text = re.sub(r"^( *)```math$", r"\1```{math}", text, flags=re.MULTILINE)
    text = text.replace("](../GLOSSARY.md", "](reference/glossary.md").replace("](../README.md", "](index.md")
    source[0] = re.sub(r"\]\((?:\.\./)+(?=results/|conf|scripts|data|CONTRIBUTING)", f"]({REPOSITORY}/blob/main/", text)


def inline_mathematics(writer, node) -> None:
    """Write MathML, which browsers show without a script."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def displayed_mathematics(writer, node) -> None:
    """Write MathML on lines of its own."""
    writer.body.append(f"<p>{convert(node.astext(), display='block')}</p>\n")
    raise nodes.SkipNode


def write_commands(app) -> None:
    """Write the page of the command line from the help texts."""
    del app
    parts = [
        "# Command line\n",
        "Every command with its options. Settings of `run` are listed at the end of its help.\n",
    ]
    for command in COMMANDS:
        words = [sys.executable, "-m", "dgpbench", command, "--help"]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        parts.append(f"## dgpbench {command}\n\n```text\n{text.rstrip()}\n```\n")
    (HERE / "reference" / "commands.md").write_text("\n".join(parts))


def setup(app) -> None:
    """Connect the above."""
    app.connect("builder-inited", write_commands)
    app.connect("source-read", as_myst)
    app.add_html_math_renderer("mathml", (inline_mathematics, None), (displayed_mathematics, None))


html_math_renderer = "mathml"
