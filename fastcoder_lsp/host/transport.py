"""Messages of the connection between a client and the process that has the model, and their bytes.

Commands and events (`completion.protocol`) go as they are, but for what is better told otherwise: texts go as
differences beside the commands that hold them (`texts`), settings as a table of what was changed. Strings that hold
halves of surrogate pairs, which the format does not know, go in an `Escaped` message. Never pickles.
"""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from fastcoder_lsp.completion import protocol as p
from fastcoder_lsp.completion.protocol import HostFacts, Message
from fastcoder_lsp.config import Settings, SettingsLayer, resolve, specs
from fastcoder_lsp.core.bounds import MOST_EXTRAS, MOST_NAMES, MOST_TOLD, Name, Natural, Short

PROTOCOL: Final = 7
"""Grows with every change of a message. Clients and hosts of different versions never meet in the first place: the
build is a part of the address."""
MOST_BYTES: Final = 8_000_000
"""Of one message."""

Value: TypeAlias = bool | int | str | Annotated[list[str], Meta(max_length=MOST_NAMES)]
"""Of a setting, by its name in the table."""
Table: TypeAlias = dict[str, Value]
Some = TypeVar("Some")


class ProtocolError(Exception):
    """The other side sent an invalid message; the connection ends."""


class MessagePart(Struct, frozen=True, array_like=True):
    """A part of messages."""


class Escaped(Message, frozen=True):
    """A message with strings that UTF-8 cannot encode: `body` has all strings as their bytes, each byte a letter."""

    body: bytes


# Texts and places -----------------------------------------------------------------------------------------------------


class Difference(Message, frozen=True):
    """A text: `head` and `tail` characters of the one called `base`, and `middle` between; no base: all of it."""

    slot: Natural
    number: Natural
    base: Natural | None
    head: Natural
    tail: Natural
    middle: bytes
    hash: bytes = b""


class TextRef(MessagePart, frozen=True):
    """A text that was sent, by its document and its number."""

    slot: Natural
    number: Natural


class PlaceRef(MessagePart, frozen=True):
    """A place in a text that differs so from one that was sent; `cursor`: in its characters."""

    text: TextRef
    head: Natural
    tail: Natural
    middle: bytes
    cursor: Natural


class WithTexts(Message, frozen=True):
    """A command whose texts were sent before it, and are left out of it.

    Attributes:
        command: without its texts.
        text: the document's.
        neighbours: all of the snapshot's neighbours as one text, and `cells` their lengths.
        chunks: the texts of all extras as one text, and `lengths` theirs.
    """

    command: p.Ask | p.Expect | p.DocumentChanged
    text: TextRef
    neighbours: TextRef | None = None
    cells: Annotated[tuple[Natural, ...], Meta(max_length=MOST_NAMES)] = ()
    chunks: TextRef | None = None
    lengths: Annotated[tuple[Natural, ...], Meta(max_length=MOST_EXTRAS)] = ()


class WithPlaces(Message, frozen=True):
    """A suggestion without its places; `places`: its own, and those of the others, None where it is the first one."""

    made: p.Made
    places: tuple[PlaceRef | None, ...]


class Again(Message, frozen=True):
    """A text of this slot is missing: its document's whole text is to be sent, and whatever spoke of it."""

    slot: Natural


# Settings and facts ---------------------------------------------------------------------------------------------------


class UseTables(Message, frozen=True):
    """`Use`, with the settings that were changed; a client's first message after the greeting."""

    settings: Table
    folders: Annotated[dict[Name, Table], Meta(max_length=MOST_NAMES)]


class Facts(Message, frozen=True):
    """The facts of the host."""

    facts: HostFacts


# Greeting, liveness, command line -------------------------------------------------------------------------------------
# The command line speaks to hosts of any version: `Hello`, `Welcome`, `AskFronts`, `Fronts` and `Stop` never change.


class Hello(Message, frozen=True):
    """The first message of whoever connects; `role`: "front", or "control" for the command line."""

    protocol: Natural
    build: Short
    process_id: Natural
    role: Short


class Welcome(Message, frozen=True):
    """The first message of the host."""

    protocol: Natural
    build: Short
    process_id: Natural


class Ping(Message, frozen=True):
    """Is anybody there? Answered by the thread that reads, whatever the model does."""


class Pong(Message, frozen=True):
    """The reply to `Ping`."""


class AskFronts(Message, frozen=True):
    """From the command line: who is there?"""


class Stop(Message, frozen=True):
    """From the command line: end."""


class FrontAt(MessagePart, frozen=True):
    """A client, as `fastcoder-lsp host status` tells it.

    `asking`: whether it waits for an answer; `turn`: whether its question is worked on now.
    """

    process_id: Natural
    folders: tuple[Annotated[bytes, Meta(max_length=65_536)], ...]
    asking: bool
    connected_s: float
    turn: bool = False


class Fronts(Message, frozen=True):
    """The reply to `AskFronts`. `nice`: the process' niceness, where the system did not let it be otherwise."""

    process_id: Natural
    build: Short
    model: Short
    engine: Short
    resident_bytes: Natural
    running_s: float
    fronts: tuple[FrontAt, ...]
    nice: Natural = 0


# ----------------------------------------------------------------------------------------------------------------------

FromClient: TypeAlias = (
    Hello
    | Escaped
    | Difference
    | WithTexts
    | UseTables
    | p.Noticed
    | p.Withdraw
    | p.Forget
    | p.Rename
    | p.Load
    | p.Reload
    | p.Enable
    | p.DocumentClosed
    | p.FilesChanged
    | Ping
    | AskFronts
    | Stop
)
FromHost: TypeAlias = (
    Welcome
    | Escaped
    | Again
    | WithPlaces
    | Facts
    | p.Answered
    | p.Forgotten
    | p.Counted
    | p.Worked
    | p.StatusChanged
    | p.Indexing
    | p.Notice
    | p.LoadFinished
    | Pong
    | Fronts
)


class Codec:
    """Messages as bytes, and bytes as messages. Making one compiles the types: once a process is enough."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
        self._client: msgspec.msgpack.Decoder[FromClient] = msgspec.msgpack.Decoder(FromClient, dec_hook=_path)
        self._host: msgspec.msgpack.Decoder[FromHost] = msgspec.msgpack.Decoder(FromHost, dec_hook=_path)

    def encode(self, message: Message) -> bytes:
        """As bytes."""
        try:
            return self._encoder.encode(message)
        except UnicodeEncodeError:
            return self._encoder.encode(Escaped(self._encoder.encode(_mapped(_builtins(message), _escaped))))

    def from_client(self, data: bytes) -> FromClient:
        """Decode a client's message.

        Raises:
            ProtocolError: it is no message.
        """
        return _decoded(self._client, data)

    def from_host(self, data: bytes) -> FromHost:
        """Decode the host's message.

        Raises:
            ProtocolError: it is no message.
        """
        return _decoded(self._host, data)


def _decoded(decoder: "msgspec.msgpack.Decoder[Some]", data: bytes) -> Some:
    try:
        message = decoder.decode(data)
        if isinstance(message, Escaped):
            message = decoder.decode(message.body)  # all else is checked before any string is unescaped
            if isinstance(message, Escaped):
                raise ProtocolError("a message that is escaped twice")
            plain = _mapped(_builtins(message), _unescaped)
            return msgspec.convert(plain, decoder.type, builtin_types=(bytes,), dec_hook=_path)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"no message: {type(error).__name__}") from error
    return message


def _builtins(message: object) -> Any:
    return msgspec.to_builtins(message, builtin_types=(bytes,), enc_hook=_plain)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A value made of builtins, with every string changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_mapped(one, change) for one in value]
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(one, change) for key, one in value.items()}
    return value


def _escaped(text: str) -> str:
    return encoded(text).decode("latin-1")


def _unescaped(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "surrogatepass")


def _plain(value: Any) -> object:
    return str(value) if isinstance(value, Path) else operator.index(value)  # numpy's integers


def _path(kind: type, value: object) -> object:
    if kind is not Path or not isinstance(value, str):
        raise ProtocolError(f"no {kind.__name__}")
    return whole_path(value)


def whole_path(path: str) -> Path:
    """A path that the other side tells.

    Raises:
        ProtocolError: it is not a whole one.
    """
    found = Path(path)
    if not found.is_absolute() or "\0" in path or len(path) > 65_536:
        raise ProtocolError("a path that is not whole")
    return found


def encoded(text: str) -> bytes:
    """A text, which may hold halves of surrogate pairs, as bytes."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """The text again.

    Raises:
        ProtocolError: it is none.
    """
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ProtocolError("a text that is none") from error


def told(text: str) -> str:
    """A text for people as messages have it: bounded, and only letters that an encoding knows."""
    return text[:MOST_TOLD].encode("utf-8", "replace").decode()


def settings_table(settings: Settings) -> Table:
    """Settings by name, without those that have their defaults."""
    values = {spec.name: (getattr(settings, spec.attribute), spec.default) for spec in specs().values()}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, (value, default) in values.items()
        if value != default
    }


def settings_of(table: Table) -> Settings:
    """The settings again.

    Raises:
        ProtocolError: they are not what the table of settings allows.
    """
    settings, problems = resolve([SettingsLayer("front", table, trusted=True)])
    if problems:
        raise ProtocolError(f"settings that are none: {problems[0].name}")
    return settings
