"""Why an answer is empty: every reason there is, in words a person can act on.

Owns the codes and the texts. The front uses it for what it decides itself (ignored, secret or too large files, off),
the service for the rest.
"""

from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Rule
from fastcoder_lsp.core import Reason

CODES = (
    "slow",  # the budget was missed; the text says by how much
    "loading",  # the model is being loaded or its code compiled; the text says what, and how far it is
    "secret",  # the line or the file looks like a secret
    "ignored",  # rules of the workspace or settings exclude the file
    "large",  # the file or a line of it is too large
    "in-word",  # the cursor stands in the middle of a word
    "off",  # completion is switched off
    "rejected",  # several suggestions in a row were not taken
    "nothing",  # the model said something, and nothing of it was worth showing
    "end",  # the model said that nothing follows here
    "error",  # something failed; the text says what
    "host",  # the process that has the model is gone, or does not answer; the text says which
    "remote-setting",  # the address or the key of the server that is asked cannot be used as they are set
    "remote-unallowed",  # nobody has allowed that code is sent to it
    "remote-key",  # it does not take the key (401)
    "remote-forbidden",  # it refuses who asks (403)
    "remote-model",  # it has no such model or address (404)
    "remote-rejected",  # it does not understand the question (other 4xx)
    "remote-busy",  # it takes no more questions at the moment (429)
    "remote-broken",  # it failed (5xx, or in the middle of an answer)
    "remote-moved",  # it points to another address (3xx)
    "remote-unreachable",  # nobody answers at its address
    "remote-silent",  # it took the question and did not answer in time
    "remote-cut",  # its answer broke off
    "remote-page",  # what came is a proxy's page, or another service's
    "remote-tls",  # it could not prove who it is
    "remote-name",  # its name has no address
    "remote-refused",  # nobody listens there
    "superseded",  # a newer question came first
    "cancelled",  # the editor took the question back
    "changed",  # the document has changed since
)

_BY_KEY = "Ask by the key for a suggestion: then it comes all the same."


def off() -> Reason:
    """Completion is switched off."""
    return Reason("off", "Completion is switched off.", "Switch it on with the command or the setting `enabled`.")


def ignored(rule: str) -> Reason:
    """The file is not read, by `rule`: which pattern of which file or setting."""
    return Reason(
        "ignored", f"This file is excluded: {rule}.", "Change that rule if suggestions are wanted in this file."
    )


def large(what: str) -> Reason:
    """The file or a line of it is over a limit; `what` says which, and by how much."""
    return Reason("large", f"Too large: {what}.", "")


def secret_file() -> Reason:
    """The file's name says that it holds secrets."""
    return Reason(
        "secret",
        "This file looks as if it held secrets, by its name.",
        "Such files are never read; there is no setting.",
    )


def secret_line() -> Reason:
    """What stands left of the cursor looks like a secret."""
    return Reason(
        "secret",
        "What stands left of the cursor looks like a secret.",
        "Suggestions are allowed here by the setting `where.secrets`.",
    )


def in_word() -> Reason:
    """The cursor stands in the middle of a word."""
    return Reason("in-word", "The cursor stands in the middle of a word.", _BY_KEY)


def rejected() -> Reason:
    """Several suggestions in a row were not taken."""
    return Reason("rejected", "The last suggestions were not taken: this line gets no more of them.", _BY_KEY)


def unfit(rule: Rule) -> Reason:
    """The rule that says that a suggestion would be in the way at a place."""
    return {"middle_of_word": in_word, "rejections": rejected, "secret": secret_line}[rule]()


def slow(allowed_ms: float, more_ms: float) -> Reason:
    """Nothing whole was there when the budget of `allowed_ms` was over; it takes about `more_ms` longer."""
    return Reason(
        "slow",
        f"This machine was too slow: {allowed_ms:.0f} ms were allowed, about {more_ms:.0f} ms more are needed.",
        "It is made now, and shown when you wait. The settings `budget.…` allow more time; other programs may be busy.",
    )


def loading(status: Status) -> Reason:
    """The model is not ready yet; `status` says what is being done, and how far it is."""
    percent = "" if status.percent is None else f" ({status.percent} %)"
    doing = status.message or "the model is being loaded"
    return Reason("loading", f"Not ready yet: {doing}{percent}.", "Wait until it is ready; later starts are quicker.")


def nothing_worth_showing() -> Reason:
    """The model said something, and nothing of it could be shown here."""
    return Reason("nothing", "What the model said was not worth showing here.", "")


def models_end() -> Reason:
    """The model said that nothing follows here."""
    return Reason("end", "The model says that nothing is missing here.", "")


def failed(status: Status) -> Reason:
    """Something failed; `status` says what, and what to do."""
    return Reason("error", status.message or "Something failed.", status.hint)


def host_lost(why: str) -> Reason:
    """The process that has the model is not there; `why` says what became of it."""
    return Reason("host", f"Not answered: {why}.", "It is started again by itself; `fastcoder-lsp host log` says more.")


def superseded() -> Reason:
    """A newer question came before this one was answered."""
    return Reason("superseded", "A newer question came first.", "")


def cancelled() -> Reason:
    """The editor took the question back."""
    return Reason("cancelled", "The editor took the question back, as it does with every key.", "")


def changed() -> Reason:
    """The document is not the one that was asked about any more."""
    return Reason("changed", "The document changed before the answer was there.", "")
