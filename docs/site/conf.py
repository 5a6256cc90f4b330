"""The site: Sphinx builds it from the pages where they lie, which the code host shows too. scripts/site calls it.

The source folder is the repository, so that links between pages, to pictures and to files are what they are on the
code host. All links are relative: a site stands in any folder, one a release.
"""

import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Final

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT: Final = Path(__file__).parents[2]
NAVIGATION: Final = tomllib.loads(Path(__file__).with_name("navigation.toml").read_text(encoding="utf-8"))

project = "fastcoder-lsp"
release = re.findall(r'__version__.* = "(.+)"', (ROOT / "fastcoder_lsp/__init__.py").read_text(encoding="utf-8"))[0]
root_doc = "README"
include_patterns = ["*.md", "benchmarks/README.md", "docs/**.md"]
# Folders without pages are not searched for any.
exclude_patterns = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in {"benchmarks", "docs"}]
extensions = ["myst_parser"]
myst_heading_anchors = 4
nitpicky = True
smartquotes = False  # they would change `--` too

html_theme = "furo"
html_title = f"fastcoder-lsp {release}"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["motion.css"]
html_show_copyright = False
highlight_language = "none"  # of blocks that name no language
pygments_style = "default"
pygments_dark_style = "github-dark"


def add_navigation(_app: Sphinx, name: str, source: list[str]) -> None:
    """Sphinx has its navigation from directives in the first page; the code host would show them."""
    if name != root_doc:
        return
    for section, pages in NAVIGATION.items():
        entries = [f"{title} <{'self' if page == 'README.md' else f'/{page}'}>" for page, title in pages.items()]
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {section}", "", *entries, "```", ""])


class FolderLinks(SphinxPostTransform):
    """Makes a link to a folder of the repository download it as an archive; Sphinx itself does so for a file."""

    default_priority = 8  # MyST's own, which warns about folders, has 9

    def run(self) -> None:
        """Replace such links in one page."""
        for link in list(self.document.findall(addnodes.pending_xref)):
            folder = (ROOT / link["refdoc"]).parent / link["reftarget"]
            if link["reftype"] != "myst" or link["refdomain"] == "doc" or not folder.is_dir():
                continue
            output = self.app.outdir
            name = folder.resolve().name
            archive = shutil.make_archive(str(output / "_downloads" / name), "zip", folder.parent, folder.name)
            page = output / self.app.builder.get_target_uri(link["refdoc"])
            address = Path(os.path.relpath(archive, page.parent)).as_posix()
            link.replace_self(nodes.reference("", "", *link.children, refuri=address, internal=True))


def add_index(app: Sphinx, _error: Exception | None) -> None:
    """Servers look for index.html."""
    first = app.outdir / f"{root_doc}.html"
    if first.exists():
        shutil.copy(first, app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", add_navigation)
    app.add_post_transform(FolderLinks)
    app.connect("build-finished", add_index)
