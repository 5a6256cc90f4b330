"""Whoever may connect may say anything: it costs that one the connection, and nobody else anything."""

import gc
import logging
import math
import os
import random
import socket
import struct
import threading
import time
from functools import partial
from typing import Any

import msgspec
import psutil
import pytest
from msgspec import inspect

from fastcoder_lsp.completion.protocol import Ask, Indexing, Load, LoadFinished, Made, Notice
from fastcoder_lsp.host import server
from fastcoder_lsp.host.client_connection import ClientConnection
from fastcoder_lsp.host.connection import Channel
from fastcoder_lsp.host.control import find_hosts
from fastcoder_lsp.host.transport import (
    MOST_BYTES,
    PROTOCOL,
    AskFronts,
    Codec,
    FromClient,
    Hello,
    Ping,
    ProtocolError,
    UseTables,
)
from fastcoder_lsp.scheduling.model import trim_heap
from tests.host.conftest import BUILD, Place
from tests.host.scripted import Heard, question

CODEC = Codec()
MESSAGES = inspect.type_info(FromClient)
assert isinstance(MESSAGES, inspect.UnionType)
HELLO = CODEC.encode(Hello(PROTOCOL, BUILD, 1, "front"))
USE = CODEC.encode(UseTables({}, {}))


LEAVES: dict[type[inspect.Type], list[Any]] = {
    inspect.IntType: [0, 1, 2, 7, -1, 2**31, 2**53, 2**63 - 1],
    inspect.FloatType: [0.0, -1.0, math.nan, math.inf, -math.inf, 1e300, 1e6],
    inspect.BytesType: [b"", b"/", b"/w", b"x\0y", b"\xff", "\ud800".encode("utf-8", "surrogatepass"), b"/" * 70_000],
    inspect.StrType: ["", "front", "control", "model", "\0", "x" * 11_000],
    inspect.BoolType: [False, True],
    inspect.NoneType: [None],
    inspect.CustomType: ["", "/", "/w", "w", "/x\0y", "/" * 70_000, 7, None],
}


def absurd(kind: inspect.Type, chance: random.Random) -> Any:
    """A value of a type, such as nobody would send."""
    match kind:
        case inspect.StructType():
            tag = [kind.tag] if kind.tag is not None else []
            return [*tag, *(absurd(field.type, chance) for field in kind.fields)]
        case inspect.UnionType():
            return absurd(chance.choice(kind.types), chance)
        case inspect.DataclassType():
            return {field.encode_name: absurd(field.type, chance) for field in kind.fields}
        case inspect.ListType() | inspect.VarTupleType():
            return [absurd(kind.item_type, chance)] * chance.choice([0, 1, 3, 6_000 if chance.random() < 0.1 else 2])
        case inspect.DictType():
            return {absurd(kind.key_type, chance): absurd(kind.value_type, chance) for _ in range(3)}
        case inspect.LiteralType():
            return chance.choice([*kind.values, "", "another", 7])
        case _:
            return chance.choice(LEAVES[type(kind)])


def bad_bytes(chance: random.Random) -> bytes:
    body = msgspec.msgpack.encode(absurd(MESSAGES, chance))
    match chance.randrange(7):
        case 0:
            return chance.randbytes(chance.randrange(200))
        case 1:
            return struct.pack("!I", chance.choice([MOST_BYTES + 1, 2**32 - 1, 2**31])) + body[:100]
        case 2:
            return struct.pack("!I", len(body)) + body[: chance.randrange(len(body) + 1)]
        case 3:
            spoilt = bytearray(body)
            for _ in range(3):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
            return struct.pack("!I", len(spoilt)) + bytes(spoilt)
        case 4:
            junk = chance.choice([b"\xc1", b"\xdd\xff\xff\xff\xff", b"\x91" * 5_000, b"", b"\xdf\xff\xff\xff\xff"])
            return struct.pack("!I", len(junk)) + junk
        case _:
            return struct.pack("!I", len(body)) + body


def say_badly(place: Place, chance: random.Random) -> None:
    try:
        connected = place.address.connect()
    except OSError:
        return  # too many at once
    with connected:
        connected.settimeout(5)
        try:
            if chance.random() < 0.7:
                frames = [HELLO, USE] if chance.random() < 0.8 else [HELLO]
                Channel(connected).send(frames)
            for _ in range(chance.randrange(1, 4)):
                connected.sendall(bad_bytes(chance))
            if chance.random() < 0.3:
                connected.shutdown(socket.SHUT_WR)
                while connected.recv(65_536):
                    pass
        except OSError:
            pass


@pytest.mark.parametrize(
    ("place", "messages"),
    [
        ("unix", 400),
        pytest.param("unix", 2_000, marks=pytest.mark.ci),
        pytest.param("unix", 10_000, marks=pytest.mark.long),
        ("loopback", 40),
    ],
    indirect=["place"],
)
def test_bad_messages_leave_nothing_and_others_are_served(
    place: Place, messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("fastcoder_lsp.host.server"), "disabled", True)  # pytest keeps every line
    chance, heard = random.Random(messages), Heard()
    front = place.front(heard)
    front.send(Ask(question(1, "say x")))
    heard.wait(lambda: 1 in heard.answers)
    for _ in range(20):
        say_badly(place, chance)
    settled(place, 1)
    place.hosts[1:] = []
    gc.collect()
    trim_heap()  # how much the C library keeps is a matter of how many threads lived at once
    process = psutil.Process()
    files, memory, fronts = process.num_fds(), process.memory_info().rss, fronts_in_memory()
    for number in range(2, messages):
        say_badly(place, chance)
        place.hosts[1:] = []
        if number % 50 == 0:
            front.send(Ask(question(number, f"say word{number}")))
            heard.wait(partial(heard.answers.__contains__, number))
    front.send(Ask(question(messages, "say last")))
    heard.wait(lambda: messages in heard.answers)

    assert all(answers[0].outcome == "shown" and len(answers) == 1 for answers in heard.answers.values())
    settled(place, 1)
    place.hosts[1:] = []
    gc.collect()
    trim_heap()
    assert process.num_fds() <= files + 2
    assert fronts_in_memory() <= fronts
    assert process.memory_info().rss < memory + 60_000_000


def fronts_in_memory() -> int:
    """Whoever else's tests ran in this process may have left some, and proxies of what is gone have no class to ask."""
    return sum(type(one) is ClientConnection for one in gc.get_objects())


def settled(place: Place, fronts: int) -> None:
    """Wait until all but the good ones are gone, and their threads with them."""
    ends_s = time.monotonic() + 30
    while time.monotonic() < ends_s:
        readers = [thread for thread in threading.enumerate() if thread.name.startswith("fastcoder-front")]
        if place.server.fronts() == fronts and len(readers) <= 2 * fronts:
            return
        time.sleep(0.02)
    raise AssertionError((place.server.fronts(), [thread.name for thread in threading.enumerate()]))


@pytest.mark.parametrize("first", [Ping(), AskFronts(), UseTables({}, {}), Hello(PROTOCOL, BUILD, 1, "other")])
@pytest.mark.parametrize("place", ["unix"], indirect=True)
def test_a_connection_without_a_greeting_is_closed(place: Place, first: Any) -> None:
    channel = Channel(place.address.connect())
    channel.send([CODEC.encode(first)])
    assert channel.receive() is None


@pytest.mark.parametrize("place", ["unix"], indirect=True)
def test_a_front_of_another_version_is_told_and_sent_away(place: Place) -> None:
    channel = Channel(place.address.connect())
    channel.send([CODEC.encode(Hello(PROTOCOL + 1, BUILD, 1, "front"))])
    assert channel.receive() is not None
    assert channel.receive() is None


@pytest.mark.parametrize("place", ["unix"], indirect=True)
def test_a_request_before_the_settings_closes_the_connection(place: Place) -> None:
    channel = Channel(place.address.connect())
    channel.send([HELLO, CODEC.encode(Load(1))])
    while (data := channel.receive()) is not None:
        assert not isinstance(CODEC.from_host(data), LoadFinished)


@pytest.mark.parametrize("place", ["unix"], indirect=True)
def test_many_fronts_leave_room_for_the_command_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_FRONTS", 2)
    fronts = [Channel(place.address.connect()) for _ in range(2)]
    for front in fronts:
        front.send([HELLO, USE])
    settled(place, 2)
    late = Channel(place.address.connect())
    late.send([HELLO])
    while late.receive() is not None:
        pass
    (found,) = find_hosts([place.address.folder])
    assert found.report is not None
    assert len(found.report.fronts) == 2
    fronts.pop().close()
    settled(place, 1)
    fronts.append(Channel(place.address.connect()))
    fronts[-1].send([HELLO, USE])
    settled(place, 2)
    for front in fronts:
        front.close()


def test_a_length_is_a_claim() -> None:
    here, there = socket.socketpair()
    channel = Channel(here)
    there.sendall(struct.pack("!I", MOST_BYTES) + b"x")
    there.close()
    with pytest.raises(ProtocolError):
        channel.receive()
    channel.close()


@pytest.mark.parametrize("place", ["unix"], indirect=True)
def test_a_front_that_reads_nothing_costs_bounded_memory(place: Place) -> None:
    silent = Channel(place.address.connect())
    silent.send([HELLO, USE])
    heard = Heard()
    front = place.front(heard)
    heard.wait(lambda: len(place.hosts) == 2)
    listener = place.hosts[0].listener
    asked = question(1, "x" * 1000)
    for number in range(20_000):
        listener(Indexing(number, 20_000, building=True))
        listener(Notice(f"{number % 10}"))
        listener(Made("file:///w/a.py", asked_suggestion(asked.place)))
    front.send(Ask(question(1, "say x")))
    heard.wait(lambda: 1 in heard.answers)
    assert os.getpid() in {one.process_id for one in place.server._fronts}
    silent.close()


def asked_suggestion(place: Any) -> Any:
    from fastcoder_lsp.completion.suggestions import Suggestion

    return Suggestion(place, "text")
