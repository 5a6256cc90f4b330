"""A front and its host over a socket: what is said on one side arrives on the other, as it was."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import structs

from fastcoder_lsp.completion.protocol import (
    Answered,
    Ask,
    Counted,
    DocumentChanged,
    DocumentClosed,
    Enable,
    Expect,
    FilesChanged,
    Forget,
    Forgotten,
    Indexing,
    Load,
    Made,
    Notice,
    Reload,
    Rename,
    StatusChanged,
    Use,
    UserActive,
    Withdraw,
    Worked,
)
from fastcoder_lsp.completion.question import Answer
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import CachedSuffix, Suggestion, Work
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import (
    Change,
    CompletionRequest,
    Counts,
    Definition,
    DraftTree,
    Draw,
    Extra,
    Proposal,
    Reason,
    SelectedCompletion,
    Snapshot,
    StepTrace,
    TracedToken,
    Yank,
)
from fastcoder_lsp.edits.values import Edit, EditAnswer, EditQuestion
from fastcoder_lsp.host.transport import WithTexts
from tests.host.conftest import Place
from tests.host.scripted import Heard, question

HALF = "half \ud800 of a pair, é, 𝄞"


def test_a_question_comes_as_it_was_asked(place: Place) -> None:
    heard = Heard()
    front = place.front(heard)
    snapshot = Snapshot("file:///w/\udcff.ipynb", "/w/\udcff.ipynb", "python", -3, HALF, (HALF, "", "two"))
    request = CompletionRequest(snapshot, 4, True, SelectedCompletion(2, 5, "\ud800x"), 7)
    policy = replace(question(1, "").policy, invoked_ms=80.0, alternatives=3, in_words=False)
    asked = structs.replace(question(2, HALF), request=request, policy=policy)
    asked = structs.replace(asked, place=type(asked.place)(HALF[:2] + "\ud800x", HALF[5:]))

    heard.wait(lambda: place.hosts)
    front.send(Expect(asked, known=True, unserved=False))
    front.send(Ask(asked))
    heard.wait(lambda: 2 in heard.answers)

    calls = place.hosts[0].calls
    assert ("ask", asked) in calls
    assert ("expect", asked, True, False) in calls


def test_an_edit_and_its_answer_cross_the_socket_unchanged(place: Place) -> None:
    heard = Heard()
    front = place.front(heard)
    heard.wait(lambda: place.hosts)
    change = Change("a.py", 3, HALF, "", HALF, "", accepted=True)
    asked = EditQuestion(4, "file:///w/a.py", "a.py", "python", 7, HALF * 20_000, 5, (change,), invoked=True)
    front.send(DocumentChanged(Path("/w/a.py"), asked.text))
    front.send(Ask(asked))
    heard.wait(lambda: 4 in heard.edits)
    assert place.hosts[0].calls[-1] == ("ask", asked)
    assert heard.edits[4] == EditAnswer((Edit(0, len(asked.text), asked.text.upper()),), 0.5, "scripted")

    front.send(Ask(structs.replace(asked, number=5, text="hang", offset=4)))
    front.send(Withdraw(5))
    hanging = structs.replace(asked, number=6, text="hang on", offset=4)
    front.send(Ask(hanging))
    heard.wait(lambda: place.hosts[0].calls[-1] == ("ask", hanging))
    next(iter(place.server._fronts))._channel.close()
    heard.wait(lambda: 6 in heard.edits)
    reason = heard.edits[6].reason
    assert (reason and reason.code) == "host"
    assert sorted(heard.edits) == [4, 6]


def test_typed_text_is_sent_as_differences_and_comes_whole(place: Place) -> None:
    heard = Heard()
    front = place.front(heard)
    text = HALF * 20_000
    for number in range(1, 80):
        text = text[:300_000] + f" word{number}" + text[300_000:]
        asked = question(number, text, offset=300_000 + len(f" word{number}"))
        front.send(DocumentChanged(Path("/w/a.py"), text))
        front.send(Ask(asked))
        heard.wait(partial(heard.answers.__contains__, number))
        assert place.hosts[0].calls[-1] == ("ask", asked)
        assert heard.makes[-1] == ("file:///w/a.py", Suggestion(asked.place, f"WORD{number}", 0, ()))


def test_what_a_client_gives_along_comes_with_each_question(place: Place) -> None:
    heard, sent = Heard(), list[object]()
    front = place.front(heard)
    heard.wait(lambda: place.hosts)
    ring = [Extra(f"{HALF}{number}.py", f"{HALF} {number}\n" * 500) for number in range(20)]
    for number in range(1, 12):
        given = ring[:5] if number < 6 else ring[number : number + 9]
        if number == 9:
            given = [Extra("", ""), *given, Extra("empty.py", "")]
        plain = question(number, f"value = word{number}", uri="http-client:/document/0")
        places = tuple(Definition(HALF * (number % 2), f"/w/{HALF}{line}.py", line) for line in range(number))
        yanks = tuple(Yank(f"/w/{HALF}.py", line, f"{HALF}\n{line}") for line in range(number % 3))
        along = replace(plain.request.snapshot, extras=tuple(given), definitions=places, yanks=yanks)
        snapshot = replace(along, edited=number % 2 > 0)
        asked = structs.replace(plain, request=replace(plain.request, snapshot=snapshot))
        if number == 8:
            next(iter(place.server._fronts))._texts._of.clear()
        front.send(Ask(asked))
        heard.wait(partial(heard.answers.__contains__, number))
        assert place.hosts[0].calls[-1] == ("ask", asked)
        sent.append([type(one) for one in front._builder.messages(Ask(asked))])
    assert sent == [[WithTexts]] * 11, "the host has all of it"


def test_what_comes_of_it_is_told_as_it_was(place: Place) -> None:
    heard = Heard()
    front = place.front(heard)
    asked = question(5, "x hang")
    front.send(Ask(asked))
    heard.wait(lambda: place.hosts and place.hosts[0].calls[-1] == ("ask", asked))
    listener = place.hosts[0].listener
    trace = StepTrace((TracedToken(b"\xff", "auto", 2),), DraftTree.chain([1, 2]), (b"a", b"b"), (1,))
    counts = Counts(3, 5, 2, 9, 100, {"auto": 2})
    answer = Answer(
        "shown",
        (CachedSuffix(HALF, 2), CachedSuffix("other", 0)),
        "stop",
        Reason("slow", "text", "hint"),
        counts,
        {"queue": 0.25, "total": 3.5},
        "model",
        "engine",
        (trace,),
    )
    suggestion = Suggestion(asked.place, HALF, 1, (Suggestion(asked.place, "other"),), Work(counts, (trace,)))
    listener(Counted("ahead", 2))
    listener(Worked(counts, {"steps_shown": 0.5, "steps_unseen": -0.5}))
    listener(Made(asked.uri, suggestion))
    listener(Made(asked.uri, Suggestion(asked.place, "", reason=answer.reason)))
    listener(Forgotten(None))
    listener(Forgotten(asked.uri))
    listener(Indexing(3, 5, building=True))
    listener(Notice("no\udcff disk"))
    listener(StatusChanged(Status("error", None, "message", "hint")))
    drawn = replace(trace.tree, draws=(Draw(1, Proposal(np.array([2]), np.array([1.0]))),))  # no matter of a front's
    listener(Answered(5, structs.replace(answer, trace=(replace(trace, tree=drawn),))))

    heard.wait(lambda: 5 in heard.answers)
    assert heard.answers[5] == [answer]
    assert heard.makes == [(asked.uri, suggestion), (asked.uri, Suggestion(asked.place, ""))]
    assert (heard.makes[0][1].work, heard.makes[1][1].reason) == (suggestion.work, answer.reason)
    assert heard.statuses[-1] == Status("error", None, "message", "hint")
    assert heard.others == [
        ("counted", "ahead", 2),
        ("worked", counts, {"steps_shown": 0.5, "steps_unseen": -0.5}),
        ("forgotten", None),
        ("forgotten", asked.uri),
        ("indexing", 3, 5, True),
        ("notice", "no? disk"),
    ]


def test_verbs_arrive_in_their_order(place: Place) -> None:
    heard = Heard()
    settings = Settings(model="toy", threads=2, read_exclude=("a", "é*"))
    folders = {Path("/w"): Settings(read_max_files=3), Path("/w/\udcff"): Settings()}
    front = place.front(heard, settings, folders)
    heard.wait(lambda: place.hosts)
    front.send(DocumentChanged(Path("/w/b.py"), "b"))
    front.send(UserActive(12.5, answered=True))
    front.send(Withdraw(8))
    front.send(Rename("untitled:a", "untitled:b"))
    front.send(Forget("untitled:b"))
    front.send(FilesChanged(tuple(Path(f"/w/{n}") for n in range(3))))
    front.send(DocumentClosed(Path("/w/b.py")))
    front.send(Enable(enabled=False))
    front.send(Reload())
    front.send(Use(settings, {}))
    front.send(Load(1))
    heard.wait(lambda: ("load",) in place.hosts[0].calls)

    calls = place.hosts[0].calls
    assert calls[0] == ("open", settings, folders)
    expected: list[tuple[object, ...]] = [
        ("user_active", 12.5, True),
        ("withdraw", 8),
        ("rename", "untitled:a", "untitled:b"),
        ("forget", "untitled:b"),
        ("files_changed", (Path("/w/0"), Path("/w/1"), Path("/w/2"))),
        ("document_closed", Path("/w/b.py")),
        ("enable", False),
        ("reload",),
        ("use", settings, {}),
        ("load",),
    ]
    assert [call for call in calls if call[0] in {name for name, *_ in expected}] == expected


def test_a_front_that_ends_frees_its_share_and_others_learn(place: Place) -> None:
    first, second = Heard(), Heard()
    leaving, staying = place.front(first), place.front(second)
    second.wait(lambda: staying.facts().fronts == 2 and len(place.hosts) == 2, 20)  # who opens is counted before
    leaving.close(1)

    second.wait(lambda: staying.facts().fronts == 1, 20)
    second.wait(lambda: sum(host.closed.is_set() for host in place.hosts) == 1, 20)
    assert staying.facts().shared
    second.wait(lambda: staying.facts().model == "scripted", 20)


def test_a_status_goes_with_whose_turn_it_is(place: Place) -> None:
    heard, others = Heard(), Heard()
    front, other = place.front(heard), place.front(others)
    front.send(Ask(question(1, "value = word")))
    other.send(Ask(question(1, "value = word")))
    heard.wait(lambda: front.facts().fronts == 2 and 1 in heard.answers)
    others.wait(lambda: 1 in others.answers)
    before = len(heard.statuses)
    for host in place.hosts:
        host.turn = "other"
    front.send(Ask(question(2, "value = hang")))
    # A status that was under way before is one more, too.
    heard.wait(lambda: len(heard.statuses) > before and front.facts().turn == "other")
    assert heard.statuses[-1] == heard.statuses[before - 1]
    assert [one.turn for one in place.server._all_fronts().fronts] == [False, False]
    place.hosts[0].turn = "own"
    assert sorted(one.turn for one in place.server._all_fronts().fronts) == [False, True]


def test_the_idle_time_counts_from_the_last_connection(place: Place) -> None:
    """A process that ends at once after its last editor has to wait for its first one."""
    assert place.server.alone_s() < -10
    heard = Heard()
    front = place.front(heard)
    heard.wait(lambda: place.server.fronts() == 1)
    assert place.server.alone_s() == 0
    front.close(1)
    heard.wait(lambda: place.server.fronts() == 0)
    assert place.server.alone_s() >= 0
