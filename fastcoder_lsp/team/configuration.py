"""Reads and checks `team.toml`, the configuration of a team's server; an unknown name may be misspelt: an error."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fastcoder_lsp.config import Settings, SettingsLayer, resolve
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.git import check_url

PORT = 8020
_HINT = "See docs/team.md for an example and all fields."
_Count = Annotated[int, Meta(ge=1, le=10_000)]
_Positive = Annotated[float, Meta(gt=0, le=86_400)]
_Share = Annotated[float, Meta(ge=0, le=1024)]
_Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Listen(Struct, frozen=True, forbid_unknown_fields=True):
    """The address for editors; one that is not loopback requires keys."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] = PORT


class ReplicaConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of replicas, and the resources and limits of each."""

    least: _Count = 2  # least number of replicas
    most: Annotated[int, Meta(ge=0, le=10_000)] = 0  # most replicas; 0: `least`
    open: _Count = 8  # most requests that a replica works on at a time, in turns
    waiting: Annotated[int, Meta(ge=0, le=10_000)] = 4
    """Most requests that wait for all replicas together; more are refused."""
    target_open: _Positive = 3.0  # autoscaling's target of open requests a replica
    first_text_ms: _Positive = 600.0
    """Autoscaling's target for the 95th percentile of the time to first text, in milliseconds."""
    cpus: _Share = 0.0  # cores that Ray reserves for a replica; 0: none, so that any number of replicas fits a machine
    gpus: _Share = 0.0  # GPUs that Ray reserves for a replica
    tenants: _Count = 64  # most tenants with sessions in a replica; the least recently used one gives way
    drain_s: _Positive = 30.0  # seconds for open requests when a replica ends
    surge: bool = True
    """Whether an upgrade starts a new replica before it ends an old one; false if there is no room for it."""
    at_once: _Count = 1
    """Replicas that an upgrade starts at a time; with all at once, twice as many run for a while."""

    @property
    def surge_percent(self) -> int:
        """Percentage of the replicas that an upgrade starts before it ends as many; 0: none."""
        return max(1, 100 * min(self.at_once, self.least) // self.least) if self.surge else 0


class KeyLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """The default limits of a key: open requests, and requests a minute in the long run, a fifth of them at once."""

    open: _Count = 16
    a_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = 1200


class Records(Struct, frozen=True, forbid_unknown_fields=True):
    """Records of requests, which never have a text, a document's name, or a key."""

    requests: str = ""  # the file with a line for each request
    traces: str = ""  # the address of an OpenTelemetry collector (OTLP over HTTP). "": none.


class RepositoryConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A git repository that drafts, and optionally enters prompts, for keys that may read it."""

    name: _Name  # the repository's name in keys
    url: str  # the address to fetch from: https, ssh, or a folder of this machine by `file:`
    branch: str = "HEAD"
    every_s: Annotated[float, Meta(ge=10)] = 300.0  # seconds between two fetches
    context: bool = False  # whether prompts may have pieces of it


class TeamConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole configuration."""

    listen: Listen = Listen()
    keys: str = ""  # the file of keys; "": no keys, which requires loopback
    model: dict[str, Any] = {}  # the language server's settings of the model, by name ("model", "engine", …)
    replicas: ReplicaConfig = ReplicaConfig()
    limits: KeyLimits = KeyLimits()
    records: Records = Records()
    repositories: tuple[RepositoryConfig, ...] = ()

    @property
    def most_replicas(self) -> int:
        """The largest number of replicas."""
        return max(self.replicas.least, self.replicas.most)

    def of_a_replica(self) -> "TeamConfig":
        """The part that concerns replicas: if a change leaves it equal, none needs to be replaced."""
        own = self.replicas
        kept = ReplicaConfig(open=own.open, tenants=own.tenants, drain_s=own.drain_s, cpus=own.cpus, gpus=own.gpus)
        return TeamConfig(model=self.model, replicas=kept, repositories=self.repositories)

    def settings(self) -> Settings:
        """The settings of every replica; raises UsageError if a setting or its value is invalid."""
        values = {"context.enabled": True, "index.enabled": bool(self.repositories), **self.model}
        settings, problems = resolve([SettingsLayer("team.toml", values, trusted=True)])
        if problems:
            raise UsageError(f"[model]: {problems[0]}", _HINT)
        return settings


def read_config(path: Path) -> TeamConfig:
    """Read the configuration at `path`; UsageError says what is wrong, and where."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", _HINT) from None
    return parse_config(text, path.parent, str(path))


def parse_config(text: str, folder: Path, name: str = "team.toml") -> TeamConfig:
    """Parse a configuration. Paths in it are relative to `folder`. Raises UsageError for an error in it."""
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
