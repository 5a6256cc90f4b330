"""The one file that says how a team's server runs: read, checked, and resolved into frozen values.

Owns the form of `team.toml`. What it does not know it refuses, by the name of what is wrong: a limit that was misspelt
would not be one.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fastcoder_lsp.config import Settings, SettingsLayer, resolve
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.team.git import check_url

PORT = 8020
_HINT = "See docs/team.md for an example and all fields."
_Count = Annotated[int, Meta(ge=1, le=10_000)]
_Positive = Annotated[float, Meta(gt=0, le=86_400)]
_Share = Annotated[float, Meta(ge=0, le=1024)]
_Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Listen(Struct, frozen=True, forbid_unknown_fields=True):
    """Where editors reach it.

    Attributes:
        host: the address; off loopback it takes keys.
        port: the port.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] = PORT


class ReplicaConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How many hosts of the model there are, and what each takes.

    Attributes:
        least: so many are always there.
        most: so many at most; `least` where it is 0.
        open: requests that one works on at a time, by turns.
        waiting: requests that wait for a free place, of all replicas together; what is beyond is refused.
        target_open: open requests a replica that autoscaling aims at.
        first_text_ms: milliseconds until text that autoscaling keeps the 95th of a hundred below.
        cpus: cores that Ray sets aside for one; 0: as many replicas fit a machine as are asked for.
        gpus: GPUs that Ray sets aside for one.
        tenants: whose sessions a replica keeps at a time; the one that asked least recently gives way.
        drain_s: how long requests have that are open when a replica ends.
        surge: whether an upgrade begins a new replica before it ends an old one; false where there is no room for it.
        at_once: so many it begins at a time; with all of them documents move once, and there are twice as many a while.
    """

    least: _Count = 2
    most: Annotated[int, Meta(ge=0, le=10_000)] = 0
    open: _Count = 8
    waiting: Annotated[int, Meta(ge=0, le=10_000)] = 4
    target_open: _Positive = 3.0
    first_text_ms: _Positive = 600.0
    cpus: _Share = 0.0
    gpus: _Share = 0.0
    tenants: _Count = 64
    drain_s: _Positive = 30.0
    surge: bool = True
    at_once: _Count = 1

    @property
    def surge_percent(self) -> int:
        """Of a hundred replicas, those that an upgrade begins before it ends as many; 0: none."""
        return max(1, 100 * min(self.at_once, self.least) // self.least) if self.surge else 0


class KeyLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """What one key may ask for; a key may have limits of its own.

    Attributes:
        open: requests at a time.
        a_minute: requests in a minute, in the long run; a fifth of that may come at once.
    """

    open: _Count = 16
    a_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = 1200


class Records(Struct, frozen=True, forbid_unknown_fields=True):
    """What is written down of requests: never a text, a name of a document, or a key.

    Attributes:
        requests: the file of a line a request; "": none.
        traces: the address of an OpenTelemetry collector (OTLP over HTTP); "": none.
    """

    requests: str = ""
    traces: str = ""


class RepositoryConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A git repository whose code drafts, and is shown to the model where that is wanted, for those who may read it.

    Attributes:
        name: in keys' rights.
        url: where git fetches it: https, ssh, or a folder of this machine by `file:`.
        branch: of it.
        every_s: seconds between two fetches.
        context: whether pieces of it go along with prompts.
    """

    name: _Name
    url: str
    branch: str = "HEAD"
    every_s: Annotated[float, Meta(ge=10)] = 300.0
    context: bool = False


class TeamConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """All of it.

    Attributes:
        listen: where editors reach it.
        keys: the file of keys; "": none, which takes loopback.
        model: settings of the language server that concern the model, by their names ("model", "engine", …).
        replicas: of the model.
        limits: of a key.
        records: what is written down.
        repositories: that draft; none by default.
    """

    listen: Listen = Listen()
    keys: str = ""
    model: dict[str, Any] = {}
    replicas: ReplicaConfig = ReplicaConfig()
    limits: KeyLimits = KeyLimits()
    records: Records = Records()
    repositories: tuple[RepositoryConfig, ...] = ()

    @property
    def most_replicas(self) -> int:
        """So many at most."""
        return max(self.replicas.least, self.replicas.most)

    def of_a_replica(self) -> "TeamConfig":
        """What of it concerns a replica: the same where a change needs none to be replaced."""
        own = self.replicas
        kept = ReplicaConfig(open=own.open, tenants=own.tenants, drain_s=own.drain_s, cpus=own.cpus, gpus=own.gpus)
        return TeamConfig(model=self.model, replicas=kept, repositories=self.repositories)

    def settings(self) -> Settings:
        """The settings of every replica.

        Raises:
            UsageError: there is no such setting, or no such value.
        """
        values = {"context.enabled": True, "index.enabled": bool(self.repositories), **self.model}
        settings, problems = resolve([SettingsLayer("team.toml", values, trusted=True)])
        if problems:
            raise UsageError(f"[model]: {problems[0]}", _HINT)
        return settings


def read_config(path: Path) -> TeamConfig:
    """The file at `path`.

    Raises:
        UsageError: it cannot be read, or something in it is wrong; says what, and where.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", _HINT) from None
    return parse_config(text, path.parent, str(path))


def parse_config(text: str, folder: Path, name: str = "team.toml") -> TeamConfig:
    """A file's text. Paths in it are meant from `folder`.

    Raises:
        UsageError: something in it is wrong.
    """
    try:
        config = msgspec.convert(tomllib.loads(text), TeamConfig)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as wrong:
        raise UsageError(f"{name}: {wrong}", _HINT) from None
    config.settings()
    if config.replicas.most and config.replicas.most < config.replicas.least:
        raise UsageError(f"{name}: replicas.most is less than replicas.least", _HINT)
    names = [one.name for one in config.repositories]
    if len(set(names)) < len(names):
        raise UsageError(f"{name}: two repositories have the same name", _HINT)
    records = msgspec.structs.replace(config.records, requests=_whole(config.records.requests, folder))
    for repository in config.repositories:
        check_url(repository.url)
    return msgspec.structs.replace(config, keys=_whole(config.keys, folder), records=records)


def _whole(path: str, folder: Path) -> str:
    return str(folder / Path(path).expanduser()) if path else ""
