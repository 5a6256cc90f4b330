"""Code that goes along with a prompt: its form, its budget, its exchange, what is told of it, and what clients give."""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import pytest

from fastcoder_lsp.core import Extra, Pieces, Snapshot, at_once
from fastcoder_lsp.prompt import ContextSnippet, PromptBuilder, PromptContext, PromptOptions
from fastcoder_lsp.prompt.context import GivenExtras
from fastcoder_lsp.prompt.retrieval import account, reasons
from tests.prompt.test_build import CURSOR, QWEN, build, cost, snapshot, told
from tests.prompt.toy_tokenizers import SAMPLE, byte_level, of_family


@dataclass
class Given:
    """A context that always finds the same, and remembers what was edited."""

    snippets: tuple[ContextSnippet, ...]
    asked: int = 0
    forbidden: frozenset[str] = frozenset()
    content: bool = False
    observed: list[str] = field(default_factory=list)
    parts: int = 0
    works: Callable[[], object] = lambda: None

    def observe(self, snapshot: Snapshot) -> None:
        self.observed.append(snapshot.text)

    def find(
        self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: PromptContext | None = None
    ) -> Pieces[PromptContext]:
        self.asked += 1
        for _ in range(self.parts):
            self.works()
            yield
        found = tuple(snippet for snippet in self.snippets if snippet.source not in self.forbidden)
        stays = kept is not None and self.content
        return kept if kept is not None and stays else PromptContext(found, "project", snapshot.path or "")

    def may_show(self, sources: Collection[str]) -> bool:
        return self.forbidden.isdisjoint(sources)


SNIPPETS = (
    ContextSnippet("lib/low.py", "def low():\n    return 1\n", 0.2),
    ContextSnippet("lib/high.py", "def high():\n    return 2\n", 0.9),
)


@pytest.mark.parametrize("family", ["Qwen2.5-Coder", "StarCoder2", "StarCoder, Granite Code", "CodeGemma", "CodeLlama"])
def test_context_stands_before_the_prefix(family: str) -> None:
    tokenizer = of_family(family)
    builder = PromptBuilder(tokenizer, PromptOptions(context_tokens=300), Given(SNIPPETS))
    parts = told(tokenizer, builder.template, build(builder, f"import high\nhigh.{CURSOR}\n"))
    assert ("project" in parts.context) == bool(builder.template.repository)
    assert parts.context.index("low.py") < parts.context.index("high.py")
    assert ("# def high" in parts.context) == (not builder.template.file)
    assert parts.prefix.strip() == "import high"


ABOVE = "def calculate_sum(a, b):\n"
BELOW = "\n\n# Test the function\nresult = calculate_sum(5, 10)\nprint(result)"
UTILS = "def multiply(x, y):\n    return x * y\n"
COMMENTS = "# Path: utils.py\n# def multiply(x, y):\n#     return x * y\n# Path: config.py\n# DEBUG = True\n"


@pytest.mark.parametrize(
    ("family", "files", "form"),
    [
        (
            "Mellum",
            f"<filename>utils.py\n{UTILS}<filename>config.py\nDEBUG = True\n<filename>example.py\n",
            "{files}<fim_suffix>{below}<fim_prefix>{above}<fim_middle>",
        ),
        ("Seed-Coder", COMMENTS, "<[fim-suffix]>{below}<[fim-prefix]>{files}{above}<[fim-middle]>"),
        ("Codestral", COMMENTS, "<s>[SUFFIX]{below}[PREFIX] {files}{above}"),
    ],
)
def test_prompts_with_the_suffix_first_are_as_published(family: str, files: str, form: str) -> None:
    snippets = (ContextSnippet("utils.py", UTILS, 0.2), ContextSnippet("config.py", "DEBUG = True\n", 0.9))
    for given, text in (((), ""), (snippets, files)):
        options = PromptOptions(lines_above=0, context_tokens=200)
        builder = PromptBuilder(of_family(family), options, Given(given))
        at_once(builder.build(snapshot(ABOVE + BELOW, "file://example.py"), len(ABOVE)))
        shown = builder.shown("file://example.py")
        assert shown is not None
        assert shown.text == form.format(files=text, above=ABOVE, below=BELOW)


def test_a_file_name_with_line_feeds_stays_in_the_comment() -> None:
    snippets = (ContextSnippet("a\nimport os", "DEBUG = True\n", 0.9),)
    builder = PromptBuilder(of_family("Seed-Coder"), PromptOptions(context_tokens=200), Given(snippets))
    at_once(builder.build(snapshot(ABOVE, "file://example.py"), len(ABOVE)))
    shown = builder.shown("file://example.py")
    assert shown is not None
    assert "# Path: a\n# import os\n# DEBUG = True\n" in shown.text


def test_context_keeps_its_budget() -> None:
    few = PromptBuilder(QWEN, PromptOptions(context_tokens=25), Given(SNIPPETS))
    assert "high" in told(QWEN, few.template, build(few, f"x\n{CURSOR}")).context
    assert "low" not in told(QWEN, few.template, build(few, f"x\n{CURSOR}")).context
    off = PromptBuilder(QWEN, context=Given(SNIPPETS))
    assert told(QWEN, off.template, build(off, f"x\n{CURSOR}")).context == ""


def test_context_stays_while_typing() -> None:
    """Other snippets at every keystroke would void the whole cache: those of the window stay."""
    given = Given(SNIPPETS)
    builder = PromptBuilder(QWEN, PromptOptions(context_tokens=300), given)
    first = build(builder, f"x = 1\ny{CURSOR}\n")
    given.snippets = SNIPPETS[:1]
    second = build(builder, f"x = 1\ny ={CURSOR}\n")
    assert second.tokens[: len(first.tokens)] == first.tokens
    assert given.asked == 1, "the disk is not looked at for a keystroke"


SECOND = (ContextSnippet("lib/second.py", "def second():\n    return 2\n", 0.9),)


@pytest.mark.parametrize(
    ("code", "content", "exchanged"),
    [
        (f"x = 1\ny = 2\n{CURSOR}\nz = 3\n", False, True),
        (f"x = 1\ny = 2\n    {CURSOR}\nz = 3\n", False, True),
        (f"x = 1\ny = 2\n{CURSOR}\nz = 3\n", True, False),
        (f"x = 1\ny = 2{CURSOR}\n\nz = 3\n", False, False),
    ],
)
def test_context_is_exchanged_in_a_pause_and_never_within_a_line(code: str, content: bool, exchanged: bool) -> None:
    given = Given(SNIPPETS)
    builder = PromptBuilder(QWEN, PromptOptions(context_tokens=300), given)
    first = build(builder, f"x = 1\ny = 2{CURSOR}\n\nz = 3\n")
    given.snippets, given.content = SECOND, content
    before, _, after = code.partition(CURSOR)
    here = snapshot(before + after)
    typed = at_once(builder.build(here, len(before)))
    assert "high" in QWEN.decode(typed.tokens)
    settled = at_once(builder.move_anchor(here, len(before)))
    assert ("second" in QWEN.decode(settled.tokens)) == exchanged
    assert ("high" in QWEN.decode(settled.tokens)) != exchanged
    assert first.tokens[:5] == typed.tokens[:5]
    # Whatever was decided stands for the keys that follow: each costs a token.
    key = at_once(builder.build(snapshot(f"{before}q{after}"), len(before) + 1))
    assert cost(settled, key) <= 2


def test_a_new_place_of_a_known_document_keeps_its_context() -> None:
    builder = PromptBuilder(QWEN, PromptOptions(limit=900, context_tokens=300), Given(SNIPPETS))
    lines = [f"value_{number} = compute({number})\n" for number in range(400)]
    prompts = []
    for at in (20, 380, 200):
        text = "".join(lines)
        prompts.append(at_once(builder.build(snapshot(text), len("".join(lines[:at])))))
    told_first = told(QWEN, builder.template, prompts[0]).context
    assert "high" in told_first
    assert [told(QWEN, builder.template, one).context for one in prompts] == [told_first] * 3


def test_typing_costs_the_same_with_other_code_along() -> None:
    costs: dict[int, list[int]] = {0: [], 300: []}
    exchanges = 0
    for budget, keys in costs.items():
        given = Given(SNIPPETS)
        builder, draw = (
            PromptBuilder(QWEN, PromptOptions(limit=1000 + budget, context_tokens=budget), given),
            random.Random(3),
        )
        text, last = SAMPLE[:3000], build(PromptBuilder(QWEN), CURSOR)
        for place in range(8):
            at = text.index("\n", draw.randrange(len(text) - 500)) + 1
            text = text[:at] + "\n" + text[at:]
            if place % 3 == 2:  # a pause on the empty line, with other code at hand
                given.snippets = SECOND if given.snippets is SNIPPETS else SNIPPETS
                last = at_once(builder.move_anchor(snapshot(text), at))
                exchanges += bool(budget)
            for char in "    value = compute(first, second)":
                text = text[:at] + char + text[at:]
                at += 1
                now = at_once(builder.build(snapshot(text), at))
                keys.append(cost(last, now))
                last = now
    assert exchanges == 2
    assert sorted(costs[0])[len(costs[0]) // 2] <= 1
    assert costs[300][1:] == costs[0][1:]
    assert costs[300][0] - costs[0][0] <= 300


def test_what_may_no_longer_be_shown_is_in_no_prompt_any_more() -> None:
    secret = ContextSnippet("a.py", "def forbidden_one(): ...", 2.0, "/w/a.py")
    given = Given((secret, ContextSnippet("b.py", "def allowed_one(): ...", 1.0, "/w/b.py")))
    for settles in (False, True):
        given.forbidden = frozenset()
        builder = PromptBuilder(QWEN, PromptOptions(context_tokens=300), given)
        assert "forbidden_one" in QWEN.decode(build(builder, f"x = 1\ny{CURSOR}\n").tokens)
        given.forbidden = frozenset({"/w/a.py"})
        text = "x = 1\ny =\n"
        make = builder.move_anchor if settles else builder.build
        after = at_once(make(Snapshot("u", "main.py", "python", 1, text), 9))
        assert "forbidden_one" not in QWEN.decode(after.tokens)
        assert "allowed_one" in QWEN.decode(after.tokens)


@pytest.mark.parametrize("parts", range(5))
def test_a_file_forbidden_during_a_search_is_not_shown(parts: int) -> None:
    secret = ContextSnippet("a.py", "def forbidden_one(): ...", 2.0, "/w/a.py")
    given = Given((secret, ContextSnippet("b.py", "def allowed_one(): ...", 1.0, "/w/b.py")), parts=2)
    builder = PromptBuilder(QWEN, PromptOptions(context_tokens=300), given)
    building = builder.build(snapshot("x = 1\ny\n"), 7)
    for _ in range(parts):
        next(building)
    given.forbidden = frozenset({"/w/a.py"})
    assert "forbidden_one" not in QWEN.decode(at_once(building).tokens)


LATER = PromptOptions(context_tokens=300, context_later=True)


def test_a_hurried_first_prompt_looks_for_no_context() -> None:
    for options, hurried, expected in (
        (LATER, True, 0),
        (LATER, False, 1),
        (PromptOptions(context_tokens=300), True, 1),
    ):
        given = Given(SNIPPETS)
        builder = PromptBuilder(QWEN, options, given)
        first = at_once(builder.build(snapshot("x = 1\ny\n"), 7, hurried=hurried))
        assert (given.asked, "high" in QWEN.decode(first.tokens)) == (expected, bool(expected))
        assert builder.is_partial("file:///a.py") != bool(expected)


@pytest.mark.parametrize("family", ["Qwen2.5-Coder", "CodeLlama", "no marks"])
def test_what_is_planned_is_shown_from_its_exchange_on(family: str) -> None:
    tokenizer = byte_level(True, ("<|endoftext|>",)) if family == "no marks" else of_family(family)
    given = Given(SNIPPETS)
    builder, without = PromptBuilder(tokenizer, LATER, given), PromptBuilder(tokenizer, PromptOptions(limit=1100))
    text = "x = 1\ny = 2\n"
    at_once(builder.build(snapshot(text), 6, hurried=True))
    assert builder.planned(snapshot(text), 6) is None
    at_once(builder.plan(snapshot(text), 6))
    assert not builder.is_partial("file:///a.py")
    for typed in ("x = 1\n", "x = 1\nz", "x = 1\nz = "):
        now = snapshot(typed + "y = 2\n"), len(typed)
        assert at_once(builder.build(*now, hurried=True)).tokens == at_once(without.build(*now)).tokens
        planned = builder.planned(*now)
        assert planned is not None
        assert "high" in tokenizer.decode(planned.tokens)
        assert planned.typed == at_once(builder.build(*now, hurried=True)).typed
    assert builder.exchange(*now) == planned == at_once(builder.build(*now, hurried=True))
    assert builder.planned(*now) is None
    given.content = True
    at_once(builder.plan(*now))
    assert builder.planned(*now) is None, "what goes along is good enough"


def test_a_plan_goes_with_its_document_and_with_the_rules() -> None:
    given = Given((ContextSnippet("a.py", "def one(): ...", 2.0, "/w/a.py"),))

    def planning(options: PromptOptions = LATER) -> PromptBuilder:
        builder = PromptBuilder(QWEN, options, given)
        at_once(builder.build(snapshot("x\n", "file:///x"), 2, hurried=True))
        at_once(builder.plan(snapshot("x\n", "file:///x"), 2))
        return builder

    assert planning().planned(snapshot("x\n", "file:///x"), 2)
    assert planning(PromptOptions()).planned(snapshot("x\n", "file:///x"), 2) is None
    renamed = planning()
    renamed.rename("file:///x", "file:///y")
    assert renamed.planned(snapshot("x\n", "file:///x"), 2) is None
    assert renamed.planned(snapshot("x\n", "file:///y"), 2)
    forgotten = planning()
    forgotten.forget("file:///x")
    assert forgotten.planned(snapshot("x\n", "file:///x"), 2) is None
    at_once(forgotten.plan(snapshot("x\n", "file:///x"), 2))
    assert forgotten.planned(snapshot("x\n", "file:///x"), 2) is None, "there is no prompt that it could follow"
    ruled = planning()
    given.forbidden = frozenset({"/w/a.py"})
    assert ruled.planned(snapshot("x\n", "file:///x"), 2) is None
    exchanged = ruled.exchange(snapshot("x\n", "file:///x"), 2)
    assert "one" not in QWEN.decode(exchanged.tokens)
    given.forbidden = frozenset()
    assert ruled.planned(snapshot("x\n", "file:///x"), 2) is None, "it is looked for anew"


QWENS = of_family("Qwen2.5-Coder")
TEXT = "def job(rows):\n    store = open_store(rows)\n    store."


def test_the_prompt_as_it_was_built() -> None:
    budget = 25
    builder = PromptBuilder(QWENS, PromptOptions(context_tokens=budget), Given(SNIPPETS))
    assert builder.shown("u") is None
    prompt = at_once(builder.build(Snapshot("u", "main.py", "python", 0, TEXT), len(TEXT)))
    shown = builder.shown("u")
    assert shown is not None
    assert shown.tokens == len(prompt.tokens)
    assert shown.text.startswith("<|repo_name|>project\n<|file_sep|>lib/high.py\ndef high():")
    assert shown.text.count("<|fim_middle|>") == 1
    assert [piece.path for piece in shown.found.snippets] == ["lib/high.py"]
    assert 0 < shown.found.snippets[0].tokens <= budget
    builder.rename("u", "v")
    assert builder.shown("v") == shown
    builder.forget("v")
    assert builder.shown("v") is None


def test_lines_for_a_person() -> None:
    builder = PromptBuilder(QWENS, PromptOptions(context_tokens=300), Given(()))
    at_once(builder.build(Snapshot("u", "main.py", "python", 0, TEXT), len(TEXT)))
    shown = builder.shown("u")
    assert shown is not None
    assert "0 pieces" in next(account(shown, TEXT, len(TEXT)))
    pieces = (
        ContextSnippet("a.py", "x = open_store(y)\n", 2.5, "/w/a.py", 7, line=12),
        ContextSnippet("main.py", "def rows_of(): ...", 1.0, "", 5),
        ContextSnippet("b.py", "unlike = 1", 0.0, "/w/b.py", 3),
    )
    told = list(account(type(shown)(shown.text, shown.tokens, PromptContext(pieces)), TEXT, len(TEXT)))
    assert told[0].endswith("including 15 of other code in 3 pieces")
    assert told[1] == "  a.py:12: 7 tokens, score 2.5: open_store, store"
    assert told[2].startswith("  main.py (this file, beyond what the prompt shows of it): 5 tokens")
    assert told[3].endswith("recently edited, visited or copied, or its tests")
    found = PromptContext(pieces, copied=("/w/a.py", 12))
    assert list(account(type(shown)("", 9, found), TEXT, len(TEXT)))[1].endswith("score 2.5: copied just now")
    costing = replace(shown, found=PromptContext(pieces), prefill_ms=2.0)
    assert next(account(costing, TEXT, len(TEXT))).endswith("in 3 pieces (read once, about 30 ms)")


def test_reasons_are_the_longest_shared_names() -> None:
    piece = ContextSnippet("a.py", "open_store(key)")
    assert reasons(piece, TEXT, len(TEXT)) == ["open_store", "store"]


def chunked(text: str, *names: str) -> Snapshot:
    extras = tuple(Extra(name, f"{name} = 1\n" if name else "") for name in names)
    return Snapshot("a", None, "python", 1, text, extras=extras)


def test_the_latest_chunk_is_best_and_empty_ones_are_left_out() -> None:
    found = at_once(GivenExtras(Given(SNIPPETS)).find(chunked("x", "first", "", "last"), 0, (0, 0)))
    assert [one.path for one in sorted(found.snippets, key=lambda one: -one.score)] == ["last", "first"]
    assert {one.source for one in found.snippets} == {""}


def test_what_is_shown_stays_while_it_is_given() -> None:
    context = GivenExtras()
    shown = PromptContext(at_once(context.find(chunked("x", "a", "b"), 0, (0, 0))).snippets[:1])
    assert at_once(context.find(chunked("x", "c", "a"), 0, (0, 0), shown)) is shown
    assert [one.path for one in at_once(context.find(chunked("x", "c", "b"), 0, (0, 0), shown)).snippets] == ["c", "b"]


def test_without_chunks_the_repositorys_context_is_used() -> None:
    repository = Given(SNIPPETS, forbidden=frozenset({"/w/secret.py"}))
    context = GivenExtras(repository)
    for each in (chunked("one"), chunked("two", "a")):
        context.observe(each)
    assert at_once(context.find(chunked("one"), 0, (0, 0))).snippets == SNIPPETS
    assert repository.observed == ["one"]
    assert context.may_show({"/w/own.py"})
    assert not context.may_show({"/w/secret.py"})
