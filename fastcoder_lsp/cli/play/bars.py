"""The lines around the editor pane: the open files above; messages, the server's state and the keys below.

Pure: a session and a width in, styled text out.
"""

from prompt_toolkit.formatted_text import StyleAndTextTuples

from fastcoder_lsp.cli.play.session import AnswerSummary, PlaySession
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.observe import percentile

SIGNS = {"starting": "◌", "loading": "◔", "ready": "●", "thinking": "◐", "off": "○", "error": "✖"}
KEYS = (
    ("Tab", "accept"),
    ("^→", "word"),
    ("Esc", "dismiss"),
    ("^Space", "ask"),
    ("^N", "next file"),
    ("^R", "reset"),
    ("^Q", "quit"),
)
LOADING_CELLS = 10
SHORT_NAME = 18
ENOUGH_ANSWERS = 3
"""A median of fewer says nothing."""
LONG_MS = 300.0
"""The prompt's share of an answer that took longer is shown."""


def tabs(session: PlaySession) -> StyleAndTextTuples:
    """The open files; the one in view is marked, changed ones have a dot."""
    fragments: StyleAndTextTuples = []
    for file in session.files:
        shown = file is session.current
        style = "class:tab.current" if shown else "class:tab"
        fragments.append((style, f" {file.path.name}{'•' if file.text != file.original else ''} "))
        if shown:
            fragments.append(("[SetCursorPosition]", ""))
        fragments.append(("class:tab", " "))
    return fragments


def message(session: PlaySession) -> str:
    """What the user has to know, with what to do about it; empty most of the time."""
    status = session.status
    if status.state == "error":
        return f"{status.message or 'The server reports an error.'}\n{status.hint}".strip()
    return session.notice


def status_line(session: PlaySession, width: int) -> StyleAndTextTuples:
    """The server's state on the left, the last answer on the right; the less important parts give way."""
    sign, state = SIGNS[session.status.state], _state(session.status)
    engine = [part for part in (session.work.model.rpartition("/")[2], session.work.engine) if part]
    short = [f"{name[:SHORT_NAME]}…" if len(name) > SHORT_NAME else name for name in engine[:1]]
    answer = _answer(session)
    for left, right in (
        (engine, answer),
        (engine[:1], answer),
        (short, answer),
        (short, answer[:3]),
        ([], answer[:3]),
        ([], answer[:2]),
        ([], answer[:1]),
        ([], []),
    ):
        texts = (" · ".join([state, *left]), " · ".join(right))
        free = width - len(texts[0]) - len(texts[1]) - 5
        if free >= 0:
            break
    return [
        (f"class:status class:state.{session.status.state}", f" {sign} "),
        ("class:status", f"{texts[0]}{' ' * max(free + 1, 0)}{texts[1]} "),
    ]


def keys_line(width: int) -> StyleAndTextTuples:
    """The keys, as many as there is room for."""
    fragments: StyleAndTextTuples = []
    used = 0
    for key, action in KEYS:
        used += len(key) + len(action) + 3
        if used > width:
            break
        fragments += [("class:key", f" {key}"), ("class:keys", f" {action} ")]
    return fragments


def work_of(answer: AnswerSummary) -> list[str]:
    """What the model did for an answer: reading the prompt, then generating; nothing where the text was known."""
    took = f" in {milliseconds(answer.prefill_ms)}" if answer.ms > LONG_MS else ""
    read = [f"read {answer.prefilled} prompt tokens{took}"] if answer.prefilled else []
    return [*read, f"{answer.tokens} tokens in {answer.steps} steps"] if answer.steps else read


def milliseconds(ms: float) -> str:
    """`ms` with as many digits as matter."""
    return f"{ms:.1f} ms" if ms < 10 else f"{ms:,.0f} ms"


def _state(status: Status) -> str:
    if status.state != "loading":
        return status.state
    done = (status.percent or 0) * LOADING_CELLS // 100
    bar = "▰" * done + "▱" * (LOADING_CELLS - done)
    return f"{bar} {status.percent or 0} % {status.message or 'loading the model'}"


def _answer(session: PlaySession) -> list[str]:
    """Time of the last answer, what the model did for it, and the median time."""
    last = session.last
    if last is None:
        return []
    parts = [milliseconds(last.ms), *work_of(last)] if last.shown else [milliseconds(last.ms), "nothing to suggest"]
    if len(session.answers) < ENOUGH_ANSWERS:
        return parts
    return [*parts, f"median {milliseconds(percentile([answer.ms for answer in session.answers], 0.5))}"]
