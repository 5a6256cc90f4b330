"""The trace as a page: self-contained, escaped, well formed, every token in its colour."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st

from fastcoder_lsp.cli.trace_page import TracePage, page
from fastcoder_lsp.core import DraftTree, StepTrace, TracedToken
from fastcoder_lsp.core.controls import visible

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Text by the class of the element around it; fails on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.links: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.text: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        found = dict(attrs)
        if tag == "a":
            self.links.append((str(found["class"]), str(found["href"]), str(found["title"])))
        if "id" in found:
            self.ids.append(str(found["id"]))
        if tag not in VOID:
            self.open.append((tag, found))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if any(tag == "pre" for tag, _ in self.open):
            self.text["pre"] = self.text.get("pre", "") + data
        if any(found.get("class") == "tree" for _, found in self.open):
            self.text["tree"] = self.text.get("tree", "") + data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


def a_step() -> StepTrace:
    """Two of three drafts accepted, a branch, the model's own token last."""
    tree = DraftTree((0, 1, 2, 3), (-1, 0, 1, 1), 1, ("", "repository", "cache", "prompt"), (0, 7, 3, 2))
    tokens = (TracedToken(b" <b>", "repository", 7), TracedToken(b"\n", "prompt", 2), TracedToken(b"&x"))
    return StepTrace(tokens, tree, (b"=", b" <b>", b"wrong", b"\n"), (1, 3))


def test_every_token_is_coloured_by_its_source() -> None:
    reader = read(page(TracePage("a.py:1:1", "note", "x =", "end", (a_step(),))))
    assert reader.links == [
        ("token datastore", "#step-1", "repository, match of 7, step 1"),
        ("token prompt", "#step-1", "prompt, match of 2, step 1"),
        ("token model", "#step-1", "the model's own, step 1"),
    ]
    assert reader.text["pre"] == "x = <b>↵\n&xend"
    assert "step-1" in reader.ids


def test_the_tree_shows_what_was_rejected_too() -> None:
    html = page(TracePage("t", "n", "", "", (a_step(),)))
    tree = read(html).text["tree"]
    assert [word for word in ("‘=’", "‘ <b>’", "‘wrong’", "‘\\n’") if word in tree] == [
        "‘=’", "‘ <b>’", "‘wrong’", "‘\\n’",
    ]  # fmt: skip
    assert html.count("rejected") - html.count(".rejected") == 2  # the class and the title of one node


@example("", "", "\r\n")
@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_text_becomes_markup(title: str, before: str, said: str) -> None:
    tree = DraftTree((0, 1), (-1, 0), 1, ("", '"><script>'), (0, 1))
    step = StepTrace((TracedToken(said.encode("utf-8", "replace"), '"><script>', 1),), tree, (b"", b"</pre>"), (1,))
    html = page(TracePage(title, "<script>", before, "</style>", (step,)))
    reader = read(html)
    assert reader.tags <= {
        "html", "head", "meta", "title", "style", "body", "h1", "p", "ul", "li", "pre", "a", "span", "details",
        "summary", "code", "div", "small",
    }  # fmt: skip
    assert not re.search(r"(src|href)=\"(?!#)", html)
    assert visible(html) == html


def test_marks_that_reorder_text_are_shown() -> None:
    step = replace(a_step(), tokens=(TracedToken("x\u202e\u2066".encode(), "repository", 7), *a_step().tokens[1:]))
    html = page(TracePage("\u202ea.py", "\u2067", "\u200f", "\x1b[2J", (step,)))
    assert visible(html) == html
    for shown in (r"\u202ea.py", r"\u2067", r"\u200f", r"\u001b[2J", r"x\u202e\u2066"):
        assert shown in html


def test_a_deep_draft_is_drawn() -> None:
    count = 3000
    tree = DraftTree(tuple(range(count)), tuple(range(-1, count - 1)), 1, ("",) * count, (0,) * count)
    twigs = DraftTree((*tree.tokens, 1), (*tree.parents, 5), 1, (*tree.sources, ""), (*tree.matches, 0))
    step = StepTrace((TracedToken(b"x"),), twigs, (b"n",) * (count + 1), ())
    assert read(page(TracePage("t", "n", "", "", (step,)))).text["tree"].count("‘n’") == count + 1


def test_a_completion_without_steps_is_a_page_too() -> None:
    html = page(TracePage("t", "n", "before", "after", ()))
    assert read(html).text["pre"] == "beforeafter"
    assert all(group in html for group in ("datastore", "cache", "prompt", "model"))
