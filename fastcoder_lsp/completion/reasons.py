"""Why an answer is empty: a code and a text that a person can act on for every reason.

The server uses it for its own decisions (ignored, secret or too large files, off), the service for the rest.
"""

import math

from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Rule
from fastcoder_lsp.core import Reason

_YOURS = "in your own settings file or in the editor's settings"
_MORE = 'To see it, press the key that requests one. To see all while you type, set `quiet.show` to "eager".'
_BY_KEY = "To get a suggestion anyway, press the key that requests one."


def off() -> Reason:
    """Completion is switched off."""
    return Reason("off", "Suggestions are off.", "Turn them on with the editor's command, or set `enabled` to true.")


def ignored(rule: str) -> Reason:
    """`rule` excludes the file: which pattern of which file or setting."""
    return Reason("ignored", f"This file is excluded: {rule}.", "To get suggestions here, change that rule.")


def large_file(size: int, limit: int) -> Reason:
    """The file exceeds its size limit, both in bytes."""
    return Reason(
        "large",
        f"This file is too large: {_in_units(size)}, and the limit is {_in_units(limit)}.",
        f"Raise `read.max_file_bytes` {_YOURS}.",
    )


def _in_units(size: int) -> str:
    """A size for people, rounded up, so that a size over a limit reads as one."""
    if size < 1_000_000:
        return f"{math.ceil(size / 1e3)} kB"
    return f"{math.ceil(size / 1e5) / 10:g} MB"


def long_line(length: int, limit: int) -> Reason:
    """A line of the file exceeds its length limit, both in characters."""
    return Reason(
        "large",
        f"A line of this file is too long: {length:,} characters, and the limit is {limit:,}.",
        f"Raise `read.max_line_length` {_YOURS}.",
    )


def secret_file() -> Reason:
    """The file's name marks it as a file of secrets."""
    return Reason(
        "secret",
        "The file's name suggests that it holds secrets.",
        "fastcoder never reads such files, and no setting changes that.",
    )


def secret_line() -> Reason:
    """The text left of the cursor looks like a secret."""
    return Reason(
        "secret",
        "The text before the cursor looks like a secret.",
        f"If it is not a secret, set `where.secrets` to true {_YOURS}.",
    )


def unread_line(limit: int) -> Reason:
    """The cursor's line is too long to be judged, so it is not sent to a remote server."""
    return Reason(
        "large",
        f"The line is longer than {limit:,} characters, so it is not sent to a remote server.",
        f"fastcoder looks for secrets in shorter lines only. If it has none, set `where.secrets` to true {_YOURS}.",
    )


def in_word() -> Reason:
    """The cursor is inside a word."""
    return Reason("in-word", "The cursor is inside a word.", _BY_KEY)


def rejected() -> Reason:
    """Several suggestions in a row were not taken."""
    return Reason("rejected", "Paused on this line: you did not accept the last suggestions.", _BY_KEY)


def in_region(code: str, where: str, setting: str) -> Reason:
    """The cursor is `where` the setting wants no suggestions."""
    hint = f"If `{setting}` is `invoked`, press the key that requests one. If it is `never`, change it."
    return Reason(code, f"The cursor is {where}, and `{setting}` allows no automatic suggestions there.", hint)


def deletion() -> Reason:
    """The last change removed text."""
    return Reason("deletion", "You deleted text, and `quiet.deletions` is on.", f"Type something. {_BY_KEY}")


def by_key() -> Reason:
    """Suggestions come by key only."""
    return Reason(
        "by-key", "Suggestions appear only when you request them by key, because `quiet.mode` is `invoked`.", _BY_KEY
    )


def snoozed() -> Reason:
    """The user wants no suggestions for some minutes."""
    return Reason("snoozed", "You snoozed suggestions.", f"To end the snooze, snooze for 0 minutes. {_BY_KEY}")


def short() -> Reason:
    """The suggestion is shorter than the user wants to see."""
    return Reason("short", "The suggestion has fewer characters than `quiet.min_characters`.", _BY_KEY)


def unfit(rule: Rule) -> Reason:
    """The rule that suppresses a suggestion at a place."""
    if (region := _REGIONS.get(rule)) is not None:
        return in_region(*region)
    return _RULES[rule]()


_REGIONS = {
    "comment": ("in-comment", "in a comment", "where.comments"),
    "string": ("in-string", "in a string", "where.strings"),
    "prose": ("in-prose", "in prose", "where.prose"),
}
_RULES = {
    "middle_of_word": in_word,
    "rejections": rejected,
    "secret": secret_line,
    "invoked": by_key,
    "snoozed": snoozed,
    "deletion": deletion,
}


def slow(who: str, allowed_ms: float, more_ms: float | None, *, invoked: bool) -> Reason:
    """No whole line was ready within the budget.

    Args:
        who: the server that was asked; empty where the model is on this machine.
        allowed_ms: the budget.
        more_ms: about how much longer it takes; None if unknown.
        invoked: whether a key requested it; each kind of request has a budget of its own.
    """
    late = f"{who} did not answer" if who else "The suggestion was not ready"
    text = f"{late} within {allowed_ms:.0f} ms."
    longer = "" if more_ms is None else f" It needs about {more_ms:.0f} ms more."
    setting = "budget.invoked_ms" if invoked else "budget.automatic_ms"
    return Reason("slow", text + longer, f"Pause while the model finishes, or raise `{setting}`.")


def loading(status: Status) -> Reason:
    """The model is not ready yet; `status` says what it is doing, and the progress."""
    percent = "" if status.percent is None else f" ({status.percent} %)"
    doing = status.message or "loading the model"
    return Reason(
        "loading", f"The model is not ready: {doing}{percent}.", "Wait until it is ready. Later starts are faster."
    )


_UNFIT = {
    "comment": "It is a comment in front of code.",
    "control": "It begins with a control token of the model.",
    "fence": "It begins with a Markdown fence.",
    "repetition": "It repeats itself or the code above.",
    "indentation": "Its indentation fits no block.",
    "right": "It repeats the text right of the cursor, or runs into it.",
    "below": "It repeats the lines below.",
    "brackets": "It closes a bracket that is not open.",
    "blanks": "It is blank.",
    "nothing": "It repeats a line nearby, or says nothing.",
}


def nothing_worth_showing(rule: str = "") -> Reason:
    """The model generated text, and none of it fits here; `rule`: which rule dropped it (`postprocess.dropped_by`)."""
    cause = f" {_UNFIT[rule]}" if rule in _UNFIT else ""
    return Reason("nothing", f"The model's text does not fit here.{cause}", "")


def unsure() -> Reason:
    """The suggestion is a mark or two, or the model is unsure of it: only a request by key shows it."""
    return Reason("unsure", "The suggestion is too short or too uncertain to show while you type.", _MORE)


def models_end() -> Reason:
    """The model ended its answer at once."""
    return Reason("end", "The model has nothing to add here.", "")


def failed(status: Status) -> Reason:
    """Something failed; `status` says what, and what to do."""
    return Reason("error", status.message or "Something failed.", status.hint)


def host_lost(why: str) -> Reason:
    """The shared model process is gone; `why` says what happened to it."""
    return Reason(
        "host", f"No answer: {why}.", "The process restarts by itself. For details, run: fastcoder-lsp host log"
    )


def superseded() -> Reason:
    """A newer request came before this one was answered."""
    return Reason("superseded", "A newer request replaced this one.", "")


def cancelled(*, invoked: bool) -> Reason:
    """The editor cancelled the request; after one by key, that need not be because of typing."""
    if invoked:
        return Reason(
            "cancelled",
            "The editor cancelled the request before the answer came.",
            "Request it again, and wait: typing and moving the cursor cancel it.",
        )
    return Reason("cancelled", "The editor cancelled the request, because you kept typing or moved the cursor.", "")


def changed() -> Reason:
    """The document changed since the request."""
    return Reason("changed", "The text changed before the answer came.", "")


def no_edit_model(*, repeated: bool = False) -> Reason:
    """No setting names an edit model; `repeated`: changes that the user made twice are suggested, and none fits."""
    hint = "Get one with `fastcoder-lsp model pull --edits`, and name it in `edits.model`."
    if repeated:
        return Reason(
            "edit-none",
            "No rename, and no change that you made twice, fits another place near here.",
            f"An edit model suggests other edits. {hint}",
        )
    return Reason("edit-model", "No edit model is set.", hint)


def edit_model_failed(status: Status) -> Reason:
    """The edit model cannot be loaded; `status` says why."""
    return Reason("edit-model", f"No edits: {status.message}", status.hint)


def no_remote_edits() -> Reason:
    """A server in the model's place suggests no edits, and is not asked for any."""
    return Reason("edit-remote", "The remote server suggests no edits.", "Remove `remote.url` to use a local model.")


def no_edit_here() -> Reason:
    """The format of the edit model has no prompt for this place."""
    return Reason(
        "edit-place",
        "The edit model cannot read this place: the line is too long, or contains the model's control tokens.",
        "",
    )


def no_edit() -> Reason:
    """The edit model suggests no change."""
    return Reason("edit-none", "The edit model suggests no change.", "")


def changed_elsewhere() -> Reason:
    """The user changed other files only, and their code may not be in prompts."""
    return Reason(
        "edit-unmodified",
        "You made no change in this file lately, and `context.enabled` keeps other files out of prompts.",
        "Change this file, or set `context.enabled` to true.",
    )


def no_edit_elsewhere() -> Reason:
    """No other file wants the user's changes."""
    return Reason("edit-none", "No other place of this repository wants your last changes.", "")


def still_reading() -> Reason:
    """The files that may want the user's changes are not all known yet."""
    return Reason("edit-none", "The workspace is still being read; ask again in a moment.", "")


def edits_by_key() -> Reason:
    """Settings let edits be suggested only by key."""
    return Reason(
        "edit-key",
        "Edits appear only when you request them by key.",
        "Press the key, or change `edits.automatic`, `quiet.mode` or `power`.",
    )


def ghost_text() -> Reason:
    """The edit only inserts text at the cursor."""
    return Reason("edit-ghost", "The edit only inserts text at the cursor. Ghost text shows such edits.", "")
