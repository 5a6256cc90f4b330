"""`fastcoder/answered`: how an answer came about, told to clients that asked for it (`client.reportsAnswers`).

For benchmarks: a keystroke's own times and counts, which `fastcoder/stats` holds as sums only. No text of the user's.
"""

from typing import Final

from fastcoder_lsp.core import Completion, Snapshot
from fastcoder_lsp.lsp.session import Session

METHOD: Final = "fastcoder/answered"


def tell_answered(session: Session, snapshot: Snapshot, completion: Completion) -> None:
    """Tell the client before the answer itself; `version` is the document's that was asked about."""
    if not session.client.reports_answers:
        return
    session.endpoint.notify(
        METHOD,
        {
            "uri": snapshot.uri,
            "version": snapshot.version,
            "finish": completion.finish,
            "ms": dict(completion.ms),
            "steps": completion.counts.steps,
            "tokens": completion.counts.tokens,
            "accepted": completion.counts.accepted,
            "accepted_by_source": dict(completion.counts.by_source),
            "prefilled": completion.counts.prefilled,
            "reused": completion.counts.reused,
        },
    )
