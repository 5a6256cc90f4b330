"""Every empty answer has a reason: what is kept of it, when a silent minute is told, and `fastcoder/why`."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from pygls.lsp.server import LanguageServer

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.reasons import unfit
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Rule
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, Reason
from fastcoder_lsp.core.reason_codes import CODES
from fastcoder_lsp.lsp.capabilities import EditorFeatures
from fastcoder_lsp.lsp.endpoint import Endpoint, make_converter
from fastcoder_lsp.lsp.reasons import Reasons, of_rule
from fastcoder_lsp.lsp.requests.reports import _context, _described
from fastcoder_lsp.lsp.status import _INTENDED, PAUSE_S, SILENT_S, Outcomes, Reporter, SilenceWatch
from fastcoder_lsp.lsp.wire import Writer, read_bodies
from fastcoder_lsp.workspace import rules
from fastcoder_lsp.workspace.document import Position
from tests.lsp.raw_client import Brake, Json, RawClient, initialized, running

HERE = Position(3, 4)
SLOW = reasons.slow("", 150, 80, invoked=False)


def counting() -> Callable[[], float]:
    """A clock that goes on by a second each time it is read."""
    seconds = iter(range(10_000))
    return lambda: float(next(seconds))


def test_the_last_ones_are_kept_the_latest_first() -> None:
    kept = Reasons(counting())
    for line in range(30):
        kept.keep("file:///a", Position(line, 0), SLOW)
    assert [one.at.line for one in kept.silences("file:///a")] == list(range(29, 9, -1))
    for number in range(60):
        kept.keep(f"file:///{number}", HERE, SLOW)
    assert kept.silences("file:///a") == ()
    assert kept.silences("file:///9") == ()
    assert len(kept.silences("file:///10")) == 1
    assert kept.latest() == "file:///59"


def test_many_keys_do_not_push_out_what_tells_more() -> None:
    kept = Reasons(counting())
    kept.keep("file:///a", HERE, SLOW)
    for column in range(100):
        kept.keep("file:///a", Position(3, column), reasons.superseded())
    for _ in range(3):
        kept.keep("file:///a", HERE, SLOW)
    told = [(one.reason.code, one.times) for one in kept.silences("file:///a")]
    assert told == [("slow", 3), ("superseded", 100), ("slow", 1)]


def test_what_was_too_slow_gets_its_true_reason() -> None:
    kept = Reasons(counting())
    kept.keep("file:///a", HERE, SLOW)
    kept.replace_slow("file:///a", Position(9, 9), reasons.unsure())
    kept.replace_slow("file:///b", HERE, reasons.unsure())
    assert [one.reason for one in kept.silences("file:///a")] == [SLOW]
    for reason in (reasons.unsure(), reasons.models_end()):
        kept.replace_slow("file:///a", HERE, reason)
    assert [one.reason.code for one in kept.silences("file:///a")] == ["unsure"]


def test_they_follow_the_document() -> None:
    kept = Reasons(counting())
    kept.keep("file:///a", HERE, SLOW)
    kept.shown("file:///a", HERE)
    kept.rename("file:///a", "file:///b")
    kept.rename("file:///unknown", "file:///c")
    assert kept.silences("file:///a") == ()
    assert len(kept.silences("file:///b")) == 1
    assert kept.last_shown("file:///b") is not None
    kept.forget("file:///b")
    assert kept.silences("file:///b") == ()
    assert kept.last_shown("file:///b") is None


@pytest.mark.parametrize("rule", rules.ExclusionReason)
def test_every_rule_has_a_reason(rule: rules.ExclusionReason) -> None:
    reason = of_rule(rule, Settings(), 2_000_000, 6_000)
    assert reason.code in CODES
    assert reason.text
    assert reason.hint


def told(keys: int, *, every_s: float, reason: Callable[[int], Reason | None]) -> list[Reason]:
    """What is told while keys come at regular times; None as a reason: something is shown."""
    minute, found = SilenceWatch(), []
    for key in range(keys):
        answer = reason(key)
        if answer is None:
            minute.shown()
        elif (one := minute.empty(answer, key * every_s)) is not None:
            found.append(one)
    return found


def test_a_silent_minute_is_told_once_with_its_main_reason() -> None:
    loading = reasons.loading(Status("loading", 40, "weights"))
    mixed = (SLOW, reasons.superseded(), reasons.superseded(), loading, SLOW)
    assert told(600, every_s=1, reason=lambda key: mixed[key % 5]) == [SLOW]
    assert told(int(SILENT_S), every_s=1, reason=lambda _: SLOW) == []
    assert told(int(SILENT_S) + 1, every_s=1, reason=lambda _: SLOW) == [SLOW]


def test_overtaken_by_every_key_is_the_last_of_the_reasons() -> None:
    [only] = told(200, every_s=1, reason=lambda _: reasons.superseded())
    assert only.hint


def test_one_suggestion_in_a_minute_is_no_silence() -> None:
    assert told(600, every_s=1, reason=lambda key: None if key % 50 == 49 else SLOW) == []
    assert told(100, every_s=PAUSE_S + 1, reason=lambda _: SLOW) == []


@pytest.mark.parametrize("wanted", ["off", "ignored", "secret", "rejected", "in-word"])
def test_silence_that_the_user_wants_is_not_told(wanted: str) -> None:
    assert told(600, every_s=1, reason=lambda _: Reason(wanted, "text", "hint")) == []


def test_every_rule_has_a_reason_of_its_own_that_is_wanted() -> None:
    codes = [unfit(rule).code for rule in get_args(Rule)]
    assert len(set(codes)) == len(codes)
    assert set(codes) <= _INTENDED <= set(CODES)


URI = "file:///project/a.py"
PLACE = Position(0, 4)
MISSING = Status("error", message="the model is missing", hint="fastcoder-lsp model pull")


class Typing:
    """A session in which nothing is shown, a key a second."""

    def __init__(self) -> None:
        self._wire = io.BytesIO()
        server = LanguageServer("test", "0", protocol_cls=Endpoint, converter_factory=make_converter)
        endpoint = server.protocol
        assert isinstance(endpoint, Endpoint)
        endpoint.set_writer(Writer(self._wire, lambda: None), include_headers=False)
        self.reporter = Reporter(endpoint)
        self.reporter.open(EditorFeatures())
        self._now_s = 1000.0
        self.outcomes = Outcomes(self.reporter, lambda: self._now_s)

    def silent(self, seconds: int, reason: Reason) -> None:
        for _ in range(seconds):
            self._now_s += 1
            self.outcomes.empty(URI, PLACE, reason)

    def notices(self) -> list[str]:
        told = [json.loads(body) for body in read_bodies(io.BytesIO(self._wire.getvalue())) if isinstance(body, bytes)]
        return [message["params"]["message"] for message in told if message["method"] == "window/showMessage"]


@pytest.fixture
def typing() -> Typing:
    return Typing()


def test_it_is_told_once_with_what_to_do(typing: Typing) -> None:
    slow = reasons.slow("", 150, 80, invoked=False)
    typing.silent(300, slow)
    [notice] = typing.notices()
    assert slow.text in notice
    assert slow.hint in notice


def test_a_suggestion_begins_the_minute_anew(typing: Typing) -> None:
    for _ in range(5):
        typing.silent(50, reasons.models_end())
        typing.outcomes.shown(URI, PLACE)
    assert typing.notices() == []


def test_what_was_said_when_it_broke_is_not_said_again(typing: Typing) -> None:
    typing.reporter.status(MISSING)
    typing.silent(300, reasons.failed(MISSING))
    assert len(typing.notices()) == 1


KEY = 'api_key = "sk-live-0123456789abcdefghij'


async def why(client: RawClient, uri: str = URI) -> Json:
    result: Json = await client.call("fastcoder/why", {"textDocument": {"uri": uri}})
    return result


def codes(answer: Json) -> list[str]:
    return [item["code"] for item in answer["items"]]


async def test_what_is_said_before_a_question() -> None:
    """The editor's own settings may be why nobody asked. Neovim names a buffer without a name `file://`."""
    async with initialized() as client:
        client.open(URI, "x = ")
        answer = await why(client)
        assert answer["items"] == []
        assert "not requested a suggestion in a.py" in answer["text"]
        assert "inlineSuggest" in answer["text"]
        client.open("file://", "x = ")
        assert "not requested a suggestion in this document yet" in (await why(client, "file://"))["text"]
        answer = await why(client, "git:/a.py")
        assert "not opened this document" in answer["text"]
        assert answer["items"] == []


async def test_too_slow_says_by_how_much_and_what_to_do() -> None:
    async with initialized("--step-ms", "100", "--budget-ms", "150") as client:
        client.open(URI, "🦀\nx = ")
        assert await client.inline(URI, 1, 4) == []
        answer = await why(client)
        [item] = answer["items"]
        assert (item["code"], item["line"], item["character"]) == ("slow", 1, 4)
        assert item["secondsAgo"] >= 0
        first, hint, *_ = answer["text"].split("\n")
        assert "a.py, line 2" in first
        assert "150 ms" in first
        assert hint == item["hint"] != ""
        client.change(URI, 2, [{"text": KEY}])
        assert await client.inline(URI, 0, len(KEY)) == []
        before = (await why(client))["text"].partition("Before:\n")[2]
        assert before.startswith("- line 2, ")
        assert before.endswith(f"{item['text']} {hint}")


async def test_after_a_suggestion_that_is_said_first() -> None:
    async with initialized() as client:
        client.open(URI, "x = ")
        client.ask_inline(URI, 0, 0)
        assert await client.inline(URI, 0, 4)
        answer = await why(client)
        assert answer["text"].startswith("The last answer in a.py was a suggestion, in line 1")
        assert "No code of other files was in the prompt." in answer["text"]
        assert "Now: " in answer["text"]
        client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        assert "prompt" not in (await why(client))["text"]


@pytest.mark.parametrize(
    ("options", "uri", "text", "code", "words"),
    [
        ({"enabled": False}, URI, "x = ", "off", "off"),
        ({"languages": {"exclude": ["python"]}}, URI, "x = ", "ignored", "language"),
        ({"read": {"max_line_length": 200}}, URI, "x" * 201, "large", "read.max_line_length"),
        ({}, "file:///project/.env", "KEY=", "secret", "secret"),
        ({}, URI, KEY, "secret", "secret"),
        ({"model": "the/missing"}, URI, "x = ", "error", "model pull"),
    ],
)
async def test_the_front_and_the_service_tell_their_reasons(
    options: Json, uri: str, text: str, code: str, words: str
) -> None:
    async with initialized(initializationOptions=options) as client:
        client.open(uri, text)
        assert await client.inline(uri, 0, len(text)) == []
        answer = await why(client, uri)
        assert codes(answer) == [code]
        assert words in answer["text"]


YOURS = "in your own settings file or in the editor's settings."
LARGE = f"too large: 20 MB, and the limit is 1 MB. Raise `read.max_file_bytes` {YOURS}"
LONG = f"too long: 500,000 characters, and the limit is 5,000. Raise `read.max_line_length` {YOURS}"


@pytest.mark.parametrize(
    ("text", "says"), [("{}, \n" * 4_000_000, LARGE), ("x" * 500_000, LONG)], ids=["20 MB", "line"]
)
async def test_a_key_in_a_refused_document_explains_once(text: str, says: str) -> None:
    """Typing shows nothing; further keys, also that for edits, do not say it again, nor does a minute of silence."""
    async with initialized() as client:
        client.open(URI, text)
        assert await client.inline(URI, 0, 4) == []
        assert client.notices() == []
        for column in (4, 5):
            assert await client.inline(URI, 0, column, triggerKind=1) == []
        place = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 4}}
        await client.call("textDocument/copilotInlineEdit", place | {"context": {"triggerKind": 1}})
        [notice] = client.notices()
        assert notice.startswith("fastcoder: No suggestions in a.py: ")
        assert notice.endswith(says)
        assert says in " ".join((await why(client))["text"].split("\n"))
        assert (await client.call("fastcoder/stats"))["summary"] == notice.removeprefix("fastcoder: ")


async def test_a_key_for_edits_tells_it_too() -> None:
    async with initialized() as client:
        client.open(URI, "x" * 6_000)
        place = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 4}}
        await client.call("textDocument/copilotInlineEdit", place)
        assert client.notices() == []
        await client.call("textDocument/copilotInlineEdit", place | {"context": {"triggerKind": 1}})
        assert f"Raise `read.max_line_length` {YOURS}" in client.notices()[0]


async def test_a_key_where_the_user_wants_no_suggestions_tells_nothing() -> None:
    async with initialized(initializationOptions={"languages": {"exclude": ["python"]}}) as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4, triggerKind=1) == []
        assert client.notices() == []


def test_what_a_key_told_no_minute_of_silence_tells_again(typing: Typing) -> None:
    large = reasons.large_file(2_000_000, 1_000_000)
    typing.outcomes.refused(URI, PLACE, large, invoked=True)
    typing.silent(300, large)
    assert len(typing.notices()) == 1


async def test_a_file_that_a_rule_excludes_is_told_without_a_question(tmp_path: Path) -> None:
    (tmp_path / ".fastcoderignore").write_text("a.py\n")
    uri = (tmp_path / "a.py").as_uri()
    async with initialized(rootUri=tmp_path.as_uri()) as client:
        client.open(uri, "x = ")
        assert ".fastcoderignore" in (await why(client, uri))["text"]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status("ready"), "ready"),
        (Status("loading", 7, "reading weights"), "loading 7 %: reading weights"),
        (Status("error", message="It broke.", hint="Try again."), "error: It broke. Try again."),
        (Status("error", message="no memory", hint="Close programs."), "error: no memory. Close programs."),
    ],
)
def test_the_state_is_told_in_sentences(status: Status, text: str) -> None:
    assert _described(status) == text


async def test_overtaken_cancelled_and_outdated_ones_have_reasons(brake: Brake) -> None:
    async with initialized(*brake.held) as client:
        client.open(URI, "x = ")
        client.ask_inline(URI, 0, 2)
        await client.until(lambda: "thinking" in client.statuses())  # the model is loaded
        first = client.ask_inline(URI, 0, 0)
        second = client.ask_inline(URI, 0, 4)
        await client.answer(first)
        client.notify("$/cancelRequest", {"id": second})
        assert "error" in await client.answer(second)
        told = await why(client)
        assert codes(told)[:2] == ["cancelled", "superseded"]
        assert "kept typing" in told["items"][0]["text"]
        by_key = client.ask_inline(URI, 0, 3, triggerKind=1)
        client.notify("$/cancelRequest", {"id": by_key})
        await client.answer(by_key)
        item = (await why(client))["items"][0]
        assert (item["code"], item["times"]) == ("cancelled", 1)
        assert "typing" not in item["text"]
        third = client.ask_inline(URI, 0, 3)
        place = {"line": 0, "character": 0}
        client.change(URI, 2, [{"range": {"start": place, "end": place}, "text": "y"}])
        await client.call("fastcoder/stats")  # by now it has been told
        brake.release()
        assert (await client.answer(third))["result"]["items"] == []
        assert codes(await why(client))[0] == "changed"


async def test_bad_params_get_a_clear_error() -> None:
    async with initialized() as client:
        bad: tuple[Any, ...] = (None, {}, [], {"uri": URI}, {"textDocument": {"uri": 7}}, {"textDocument": []})
        for params in bad:
            answer = await client.answer(client.ask("fastcoder/why", params))
            assert answer["error"]["code"] == -32602
            assert "textDocument.uri" in answer["error"]["message"]


async def test_names_of_files_add_no_lines() -> None:
    """A repository chooses its files' names."""
    async with initialized() as client:
        answer = await client.call("fastcoder/why", {"textDocument": {"uri": "file:///a%0ANow%3A%1B%20b.py"}})
        assert "No suggestions in a·Now:· b.py: " in answer["text"]
    completion = Completion("x", 0, 0, context=("a\nNow: b.py:3", "c.py:1"))
    session: Any = SimpleNamespace(traces={URI: completion}, documents={URI: "open"})
    assert _context(session, URI) == ["Code of other files in the prompt: c.py:1, a·Now: b.py:3."]


async def test_the_command_shows_it_as_a_message() -> None:
    """For editors without a client of ours (Helix): without arguments the document that was asked about last."""
    async with running() as client:
        result = await client.initialize(initializationOptions={"languages": {"exclude": ["python"]}})
        assert "fastcoder.why" in result["capabilities"]["executeCommandProvider"]["commands"]
        told = await client.call("workspace/executeCommand", {"command": "fastcoder.why"})
        assert "not requested a suggestion" in told["text"]
        client.open(URI, "x = ")
        await client.inline(URI, 0, 4)
        for arguments in ([], [URI], [{"textDocument": {"uri": URI}}]):
            await client.call("workspace/executeCommand", {"command": "fastcoder.why", "arguments": arguments})
        assert all("language" in notice.split("\n")[0] for notice in client.notices()[1:])
        assert len(client.notices()) == 4
        bad = client.ask("workspace/executeCommand", {"command": "fastcoder.why", "arguments": [7]})
        assert (await client.answer(bad))["error"]["code"] == -32602


async def test_reasons_follow_a_rename_and_end_with_the_document() -> None:
    other = "file:///project/b.py"
    async with initialized("--says", "") as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4) == []
        assert codes(await why(client)) == ["end"]
        client.notify("workspace/didRenameFiles", {"files": [{"oldUri": URI, "newUri": other}]})
        client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        client.open(other, "x = ")
        assert codes(await why(client, other)) == ["end"]
        assert codes(await why(client)) == []
