"""Messages between a client and the shared process, and their encoding.

Commands and events (`completion.protocol`) are sent as they are, with two exceptions: texts are sent as differences
before their commands (`texts`), and settings as a table of changed values. Strings with lone surrogates, which the
format cannot encode, are sent in an `Escaped` message. Never pickles.
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

PROTOCOL: Final = 13
"""Incremented with every change of a message. Clients and hosts of different versions rarely meet, because the build is
part of the address."""
MOST_BYTES: Final = 8_000_000  # longest message

Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Value: TypeAlias = bool | int | Share | str | Annotated[list[str], Meta(max_length=MOST_NAMES)]
"""The value of a setting in a `Table`, by the setting's name."""
Table: TypeAlias = dict[str, Value]
Some = TypeVar("Some")


class ProtocolError(Exception):
    """The other side sent an invalid message; the connection ends."""


class MessagePart(Struct, frozen=True, array_like=True):
    """A struct within messages."""


class Escaped(Message, frozen=True):
    """A message with strings that UTF-8 cannot encode: `body` has each byte of a string as a character."""

    body: bytes


# Texts and places -----------------------------------------------------------------------------------------------------


class Difference(Message, frozen=True):
    """A text: `head` and `tail` characters of the text `base`, with `middle` between them; no base: `middle` alone."""

    slot: Natural
    number: Natural
    base: Natural | None
    head: Natural
    tail: Natural
    middle: bytes
    hash: bytes = b""


class TextRef(MessagePart, frozen=True):
    """A reference to a text that was sent."""

    slot: Natural
    number: Natural


class PlaceRef(MessagePart, frozen=True):
    """A place in a text, as a difference from one that was sent; `cursor`: its offset in characters."""

    text: TextRef
    head: Natural
    tail: Natural
    middle: bytes
    cursor: Natural


class WithTexts(Message, frozen=True):
    """A command without its texts, which were sent before it.

    `neighbours` and `chunks` are joined texts of the snapshot's neighbours and of the extras; `cells` and `lengths`
    their lengths.
    """

    command: p.Ask | p.Expect | p.DocumentChanged
    text: TextRef
    neighbours: TextRef | None = None
    cells: Annotated[tuple[Natural, ...], Meta(max_length=MOST_NAMES)] = ()
    chunks: TextRef | None = None
    lengths: Annotated[tuple[Natural, ...], Meta(max_length=MOST_EXTRAS)] = ()


class WithPlaces(Message, frozen=True):
    """A suggestion without its places; `places`: its own and those of the others, None if equal to the first."""

    made: p.Made
    places: tuple[PlaceRef | None, ...]


class Again(Message, frozen=True):
    """A text of this slot is missing: its document's whole text must be sent, then the commands that refer to it."""

    slot: Natural


# Settings and facts ---------------------------------------------------------------------------------------------------


class UseTables(Message, frozen=True):
    """`Use` with the changed settings; a client's first message after the greeting."""

    settings: Table
    folders: Annotated[dict[Name, Table], Meta(max_length=MOST_NAMES)]


class Facts(Message, frozen=True):
    """The facts of the host."""

    facts: HostFacts


# Greeting, liveness, command line -------------------------------------------------------------------------------------
# The command line talks to hosts of any version: `Hello`, `Welcome`, `AskFronts`, `Fronts` and `Stop` never change.


class Hello(Message, frozen=True):
    """The first message of a connecting process; `role`: "front", or "control" for the command line."""

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
    """A check that the host lives; its reader thread answers, whatever the model does."""


class Pong(Message, frozen=True):
    """The reply to `Ping`."""


class AskFronts(Message, frozen=True):
    """A request of the command line for the list of fronts."""


class Stop(Message, frozen=True):
    """A request of the command line to end."""


class FrontAt(MessagePart, frozen=True):
    """A client, for `fastcoder-lsp host status`; `turn`: the scheduler works on its question now."""

    process_id: Natural
    folders: tuple[Annotated[bytes, Meta(max_length=65_536)], ...]
    asking: bool
    connected_s: float
    turn: bool = False


class Fronts(Message, frozen=True):
    """The reply to `AskFronts`. `nice`: the process's niceness, if the system did not allow a reset."""

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
    | p.UserActive
    | p.Withdraw
    | p.Shown
    | p.Forget
    | p.Rename
    | p.Load
    | p.Reload
    | p.Enable
    | p.DocumentClosed
    | p.FilesChanged
    | p.SearchElsewhere
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
    | p.FoundElsewhere
    | p.Grew
    | p.StatusChanged
    | p.Indexing
    | p.Notice
    | p.Succession
    | p.EditModelChanged
    | p.LoadFinished
    | Pong
    | Fronts
)


class Codec:
    """Encodes and decodes messages. Creating one compiles the types, so use one for each process."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
        self._client: msgspec.msgpack.Decoder[FromClient] = msgspec.msgpack.Decoder(FromClient, dec_hook=_path)
        self._host: msgspec.msgpack.Decoder[FromHost] = msgspec.msgpack.Decoder(FromHost, dec_hook=_path)

    def encode(self, message: Message) -> bytes:
        """Encode a message."""
        try:
            return self._encoder.encode(message)
        except UnicodeEncodeError:
            return self._encoder.encode(Escaped(self._encoder.encode(_mapped(_builtins(message), _escaped))))

    def from_client(self, data: bytes) -> FromClient:
        """Decode a client's message; raises ProtocolError if it is invalid."""
        return _decoded(self._client, data)

    def from_host(self, data: bytes) -> FromHost:
        """Decode the host's message; raises ProtocolError if it is invalid."""
        return _decoded(self._host, data)


def _decoded(decoder: "msgspec.msgpack.Decoder[Some]", data: bytes) -> Some:
    try:
        message = decoder.decode(data)
        if isinstance(message, Escaped):
            message = decoder.decode(message.body)  # validates all else before unescaping strings
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
    """Parse a path of the other side; raises ProtocolError unless it is absolute."""
    found = Path(path)
    if not found.is_absolute() or "\0" in path or len(path) > 65_536:
        raise ProtocolError("a path that is not whole")
    return found


def encoded(text: str) -> bytes:
    """Encode a text that may have lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """Decode a text of `encoded`; raises ProtocolError if it is invalid."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ProtocolError("a text that is none") from error


def shortened(text: str) -> str:
    """A text for users as messages carry it: bounded, and without lone surrogates."""
    return text[:MOST_TOLD].encode("utf-8", "replace").decode()


def settings_table(settings: Settings) -> Table:
    """Settings by name, without those at their defaults."""
    values = {spec.name: (getattr(settings, spec.attribute), spec.default) for spec in specs().values()}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, (value, default) in values.items()
        if value != default
    }


def settings_of(table: Table) -> Settings:
    """The settings of a table; raises ProtocolError if a name or value is not allowed."""
    settings, problems = resolve([SettingsLayer("front", table, trusted=True)])
    if problems:
        raise ProtocolError(f"settings that are none: {problems[0].name}")
    return settings
