"""The pages of the repository: their links lead somewhere, and their commands can be typed as printed."""

import re
import shlex
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from fastcoder_lsp.cli.main import COMMANDS, parser
from fastcoder_lsp.lsp.methods import METHODS

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks/README.md")
}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(page: str) -> set[str]:
    """The fragments that headings have on GitHub."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def broken_links(name: str) -> list[str]:
    """The links of a page that lead to no file or to no heading of it."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", PAGES[name])):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        is_there = target.exists() and (not anchor or anchor in anchors(target.read_text(encoding="utf-8")))
        broken += [] if is_there else [link]
    return broken


def commands(page: str) -> list[str]:
    """The lines and code spans that call fastcoder-lsp, but those that stand for several (`…`, `[…]`, `|`)."""
    lines = re.findall(r"^(?:\S+/)?fastcoder-lsp ([^#\n]+)", "\n".join(FENCE.findall(page)), re.MULTILINE)
    spans = re.findall(r"`(?:\S+/)?fastcoder-lsp ([^`]+)`", " ".join(FENCE.sub("", page).split()))
    found = (re.split(" && | >> ", command)[0].strip() for command in (*lines, *spans))
    return [command for command in found if not set("…[|") & set(command)]


def is_accepted(command: str) -> bool:
    """Whether the command line takes these words; a command's name alone is a mention of it."""
    words = shlex.split(command.replace("bench NAME", "bench engine"))
    if len(words) == 1 and not words[0].startswith("-"):
        return words[0] in COMMANDS
    try:
        parser(words[0]).parse_args(words)
    except SystemExit as ended:
        return ended.code == 0
    return True


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    assert broken_links(name) == []


@pytest.mark.parametrize("name", PAGES)
def test_commands_can_be_typed_as_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused = [command for command in commands(PAGES[name]) if not is_accepted(command)]
    assert refused == [], capsys.readouterr().err


@pytest.mark.parametrize("name", PAGES)
def test_files_that_are_named_exist(name: str) -> None:
    named = re.findall(r"`(?:\./)?((?:scripts|tests|fastcoder_lsp|benchmarks)/[\w./-]+)", PAGES[name])
    assert [path for path in named if "NAME" not in path and not (ROOT / path).exists()] == []


def test_modules_that_the_map_names_exist() -> None:
    named = re.findall(r"`([\w/]+/(?:\w+\.py)?)`", PAGES["ARCHITECTURE.md"])
    assert len(named) > 40
    assert [path for path in named if not any((ROOT / root / path).exists() for root in ("", "fastcoder_lsp"))] == []


def test_methods_of_our_own_are_on_the_page_of_the_protocol() -> None:
    ours = [name for name, _ in METHODS if name.startswith("fastcoder/")]
    assert [name for name in ours if f"`{name}`" not in PAGES["docs/editors/protocol.md"]] == []


def test_the_navigation_of_the_site_has_each_page_once() -> None:
    sections = tomllib.loads((ROOT / "docs/site/navigation.toml").read_text(encoding="utf-8"))
    assert sorted(page for section in sections.values() for page in section) == sorted(PAGES)


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/**/*.svg")), ids=lambda path: path.stem)
def test_pictures_run_and_load_nothing(path: Path) -> None:
    """GitHub shows SVG without scripts and without other files; a page must also stay quick to open."""
    text = path.read_text(encoding="utf-8")
    for element in ET.fromstring(text).iter():
        assert element.tag.rpartition("}")[2] not in {"script", "foreignObject", "image", "use"}
        assert [name for name in element.attrib if name.startswith("on") or name.endswith("href")] == []
    assert re.findall(r"@import|@font-face|url\((?!#)", text) == []
    assert len(text.encode()) <= 300_000


def test_a_broken_link_or_command_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = "# A [b](README.md#no-such)\n[c](#a-bno-such) [d](no.md)\n```\nfastcoder-lsp serve --no-such  # e\n```\n"
    monkeypatch.setitem(PAGES, "made-up.md", page)
    assert broken_links("made-up.md") == ["README.md#no-such", "#a-bno-such", "no.md"]
    assert [is_accepted(command) for command in commands(page)] == [False]
    assert "--no-such" in capsys.readouterr().err
