"""What one completion is made of: prompt → decode → post-processing, and the editor's popup selection around them.

Owns the order of the parts, none of them. Runs in the service's worker; no state outlives a call but the runtime's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fastcoder_lsp.completion.runtime import Runtime
from fastcoder_lsp.core import Completion, CompletionRequest, ShouldStop
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.decode.stop import choose
from fastcoder_lsp.decode.trace import Tracer
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.postprocess import finish, replaces, whole_lines


@dataclass(frozen=True, slots=True)
class Place:
    """The text on both sides of the cursor, the popup's selected entry already inserted."""

    before: str
    after: str


def place_of(request: CompletionRequest) -> Place:
    """Where `request` asks, as text."""
    text, selected = request.snapshot.text, request.selected
    if selected is None:
        return Place(text[: request.offset], text[request.offset :])
    return Place(text[: selected.start] + selected.text, text[selected.end :])


def suggestion(
    request: CompletionRequest, text: str, replaces: int, finish: str, ms: Mapping[str, float]
) -> Completion:
    """The completion that inserts `text` at the cursor, replacing `replaces` characters right of it.

    Where the popup has a selected entry, the completion replaces that entry's range and begins with its text.
    """
    start, end, head = request.offset, request.offset, ""
    if request.selected is not None:
        start, end, head = request.selected.start, request.selected.end, request.selected.text
    if not text:
        return Completion("", request.offset, request.offset, finish=finish, ms=ms)
    return Completion(head + text, start, end + replaces, finish=finish, ms=ms)


def suggest(
    runtime: Runtime, request: CompletionRequest, place: Place, should_stop: ShouldStop, spans: Spans
) -> Completion:
    """Make one completion; an empty one where there is nothing worth showing, or when stopped."""
    before, after, language = place.before, place.after, request.snapshot.language
    snapshot = replace(request.snapshot, text=before + after)
    with spans.measure("prompt"):
        prompt = runtime.prompts.build(snapshot, len(before))
    tracer = Tracer(runtime.tokenizer.piece, len(prompt.healing))
    decoded = decode(
        runtime.engine,
        runtime.drafter,
        DecodeRequest(
            prompt=prompt.tokens,
            max_tokens=request.max_tokens or runtime.limits.max_tokens,
            end_ids=runtime.tokenizer.end_ids,
            piece=runtime.tokenizer.piece,
            allow=runtime.allow,
            cut=choose(before, after, language).cut,
            healing=prompt.healing,
            document=snapshot.uri,
            nodes=runtime.limits.nodes,
        ),
        should_stop,
        spans,
        tracer,
    )
    text, over = "", 0
    if decoded.finish:
        with spans.measure("post"):
            cut_off = decoded.finish in {"length", "context"}
            said = whole_lines(decoded.text, before) if cut_off else decoded.text
            text = finish(said, before, after, language)
            over = replaces(text, before, after, language) if text else 0
    info = runtime.engine.info
    return replace(
        suggestion(request, text, over, decoded.finish or "cancelled", spans.close()),
        model=info.model,
        engine=info.name,
        steps=decoded.steps,
        tokens=len(decoded.tokens),
        accepted=decoded.accepted,
        prefilled=decoded.prefilled,
        reused=decoded.reused,
        accepted_by_source=decoded.accepted_by_source,
        trace=tracer.trace(len(decoded.tokens)),
    )
