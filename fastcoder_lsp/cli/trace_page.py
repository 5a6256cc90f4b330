"""A completion's trace as an HTML page: the code, each token coloured by its source, and every step's draft tree.

The page loads nothing and runs no script; colours follow the reader's light or dark setting, and each source also has
an underline of its own.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from fastcoder_lsp.core import StepTrace
from fastcoder_lsp.core.controls import visible
from fastcoder_lsp.decode.trace import token_texts
from fastcoder_lsp.draft.base import Group
from fastcoder_lsp.draft.registry import group_of

CONTEXT_LINES: Final = 16  # lines of code shown above and below the completion
LEGEND: Final[dict[Group, str]] = {
    "datastore": "the workspace's code and common code",
    "cache": "earlier output in this document",
    "prompt": "the prompt and the running output",
    "other": "another guesser",
    "model": "computed by the model, without an accepted draft",
}
_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1f2328;--faint:#6e7781;--back:#fff;--panel:#f6f8fa;--line:#d0d7de;
--datastore:#cfe5ff;--cache:#d6f5d6;--prompt:#fff0b8;--other:#eadcff;--model:transparent}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--faint:#8b949e;--back:#0d1117;--panel:#161b22;--line:#30363d;
--datastore:#123d6b;--cache:#174a26;--prompt:#5a4708;--other:#43276b}}
body{margin:2rem auto;max-width:72rem;padding:0 1rem;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.15rem;margin:0}p{margin:.3rem 0 1rem;color:var(--faint)}
pre,.tree{font:13px/1.7 ui-monospace,Menlo,Consolas,monospace}
pre{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:1rem;overflow-x:auto}
.around,.end{color:var(--faint)}
.token{color:inherit;text-decoration:none;border-radius:3px;border-bottom:2px none var(--ink)}
a.token:hover{outline:1px solid var(--ink)}
.datastore{background:var(--datastore);border-bottom-style:solid}
.cache{background:var(--cache);border-bottom-style:dashed}
.prompt{background:var(--prompt);border-bottom-style:dotted}
.other{background:var(--other);border-bottom-style:double;border-bottom-width:3px}
.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.4rem 1.4rem}
.legend .token,.tree .token{padding:0 .35em}.legend .model{border:1px solid var(--line)}
details{border-top:1px solid var(--line);padding:.35rem 0}summary{cursor:pointer}
.tree ul{list-style:none;margin:0;padding-left:1.3rem;border-left:1px solid var(--line)}
.tree>ul{border:0;padding-left:.4rem}.tree{overflow-x:auto}.tree li{white-space:nowrap}
.tree .rejected{opacity:.55}.tree .accepted{font-weight:bold}.tree small{color:var(--faint)}
"""


@dataclass(frozen=True, slots=True)
class TracePage:
    """The content of a page: a completion's steps between the texts around it, below `title` and `note`."""

    title: str
    note: str
    before: str
    after: str
    steps: tuple[StepTrace, ...]


def page(shown: TracePage) -> str:
    """The page, complete and self-contained."""
    texts = token_texts(shown.steps)
    steps = [_step(number, step, said) for number, (step, said) in enumerate(zip(shown.steps, texts, strict=True), 1)]
    return "\n".join(
        (
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{_escaped(shown.title)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<style>{_STYLE}</style></head><body>",
            f"<h1>{_escaped(shown.title)}</h1><p>{_escaped(shown.note)}</p>",
            _legend(shown.steps),
            _code(shown, texts),
            *steps,
            "</body></html>\n",
        )
    )


def _legend(steps: Sequence[StepTrace]) -> str:
    """Every group with its number of tokens; the paper's four always, the fifth if it occurs."""
    counts = Counter(group_of(token.source) for step in steps for token in step.tokens)
    entries = [
        f'<li><span class="token {group}">{group}</span> {counts[group]} · {meaning}</li>'
        for group, meaning in LEGEND.items()
        if counts[group] or group != "other"
    ]
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _code(shown: TracePage, texts: Sequence[Sequence[str]]) -> str:
    above = "\n".join(shown.before.split("\n")[-CONTEXT_LINES:])
    below = "\n".join(shown.after.split("\n")[:CONTEXT_LINES])
    spans = [
        f'<a class="token {group_of(token.source)}" href="#step-{number}" '
        f'title="{_escaped(_origin(token.source, token.match))}, step {number}">{_visible(text)}</a>'
        for number, (step, said) in enumerate(zip(shown.steps, texts, strict=True), 1)
        for token, text in zip(step.tokens, said, strict=True)
    ]
    around = [f'<span class="around">{_escaped(text)}</span>' for text in (above, below)]
    return f"<pre>{around[0]}{''.join(spans)}{around[1]}</pre>"


def _step(number: int, step: StepTrace, said: Sequence[str]) -> str:
    """One forward pass, folded: its tokens; unfolded: the tree that it verified."""
    first = step.tree.pending
    drafts, accepted = len(step.tree) - first, len(step.path)
    text = _escaped(_quoted("".join(said)))
    summary = f"step {number} · {accepted} of {drafts} drafts accepted · <code>{text}</code>"
    root = f'<span class="token accepted">{_escaped(_quoted(_text(step.pieces[first - 1])))}</span> <small>root</small>'
    return (
        f'<details><summary>{summary}</summary><div class="tree" id="step-{number}"><ul><li>{root}'
        f"{_branches(step, first - 1)}</li></ul></div></details>"
    )


def _branches(step: StepTrace, node: int) -> str:
    """The tree below `node`, a chain as one line; by an explicit stack, since a draft may exceed Python's own."""
    below: dict[int, list[int]] = {}
    for child in range(step.tree.pending, len(step.tree)):
        below.setdefault(step.tree.parents[child], []).append(child)
    parts: list[str] = []
    waiting: list[int | str] = [node]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, str):
            parts.append(entry)
            continue
        if entry != node:
            parts.append(_node(step, entry))
        children = below.get(entry, [])
        if len(children) == 1 and entry != node:
            waiting.append(children[0])
        elif children:
            parts.append("<ul>")
            waiting.append("</ul>")
            for child in reversed(children):
                waiting += ["</li>", child, "<li>"]
    return "".join(parts)


def _node(step: StepTrace, node: int) -> str:
    source, match = step.tree.sources[node], step.tree.matches[node]
    state = "accepted" if node in step.path else "rejected"
    return (
        f' <span class="token {group_of(source)} {state}" title="{_escaped(_origin(source, match))}, {state}">'
        f"{_escaped(_quoted(_text(step.pieces[node])))}</span>"
    )


def _origin(source: str, match: int) -> str:
    return f"{source}, match of {match}" if source else "the model's own"


def _visible(text: str) -> str:
    """Escaped; a line end gets a mark, so that a token of nothing else can be seen and pointed at."""
    return _escaped(text.replace("\r\n", "\n")).replace("\n", '<span class="end">↵</span>\n')


def _escaped(text: str) -> str:
    """For HTML; control characters are shown, because some of them reorder the page's own text."""
    return escape(visible(text))


def _quoted(text: str) -> str:
    """The text on one line, quoted so that its ends can be seen."""
    return "‘" + text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + "’"


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", errors="replace")
