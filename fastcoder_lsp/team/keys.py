"""The file of keys with hashed secrets, and each key's use of its limits.

A key is `fck_ID_SECRET`. The secret is 32 bytes from the system's generator, so a plain salted hash of it is as hard to
invert as the key is to guess, and a slow one (scrypt) would only slow every request down. The secret is shown once,
when the key is made. A token bucket limits requests a minute.
"""

import base64
import hashlib
import hmac
import math
import os
import secrets
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import filelock
import msgspec
from msgspec import Meta, Struct

from fastcoder_lsp.core.files import replace_file
from fastcoder_lsp.errors import UsageError

_PREFIX = "fck"
_PERSON = b"fastcoder-team"
_SECRET_BYTES = 32
_SALT_BYTES = 16
_LOOK_S = 1.0  # seconds between two checks whether the file has changed
_BURST = 0.2  # size of the bucket, as a share of a minute's requests
_FORGET = 10_000  # most keys with counts; the buckets of others are full again anyway


class Key(Struct, frozen=True, forbid_unknown_fields=True):
    """One key, without its secret.

    `id` identifies it in the key; `salt` and `hash` (of the secret) are in base64; `made` is in Unix seconds. `open`
    and `a_minute` are limits; None: the default. `repositories` may draft for it.
    """

    id: str
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    salt: str
    hash: str
    made: int
    open: Annotated[int, Meta(ge=1)] | None = None
    a_minute: Annotated[int, Meta(ge=1)] | None = None
    repositories: tuple[str, ...] = ()
    metrics: bool = False  # it may read the metrics, which cover all keys


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    keys: tuple[Key, ...]


class KeyFile:
    """The keys in one file, which is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys: dict[str, Key] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._looked_s = -_LOOK_S
        self._unusable: UsageError | None = None
        """Why the file was unusable at the last check; keys that were read before do not count any more."""

    def find(self, presented: str, now_s: float) -> Key | None:
        """The key with the secret in `presented`, or None; `now_s` is monotonic. UsageError for an unusable file."""
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s, self._unusable = now_s, None
            try:
                self.load()
            except UsageError as error:
                self._unusable = error
        if self._unusable is not None:
            raise UsageError(self._unusable.message, self._unusable.hint)
        _, _, rest = presented.partition("_")
        identity, _, secret = rest.partition("_")
        key = self._keys.get(identity)
        # An unknown id takes as long as a wrong secret.
        salt, expected = (_plain(key.salt), _plain(key.hash)) if key else (b"", b"")
        right = hmac.compare_digest(_hashed(secret, salt), expected)
        return key if right and presented.startswith(f"{_PREFIX}_") else None

    def load(self) -> tuple[Key, ...]:
        """Read all keys; raises UsageError if the file cannot be read, others may read it, or it is damaged."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                # A file of another owner was mounted for a group of ours, as secrets of Kubernetes are.
                closed = 0o077 if sys.platform == "win32" or found.st_uid == os.getuid() else 0o037
                if stat.S_IMODE(found.st_mode) & closed and sys.platform != "win32":
                    raise UsageError(f"other users can read {self._path}", f"Run: chmod 600 {self._path}")
                read = msgspec.json.decode(self._path.read_bytes(), type=_File)
                self._keys, self._stamp = {key.id: key for key in read.keys}, stamp
        except FileNotFoundError:
            self._keys, self._stamp = {}, None
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(
                f"{self._path} cannot be used: {error}",
                "Correct it. Or delete it, and make new keys: fastcoder-lsp team key add",
            ) from None
        return tuple(self._keys.values())

    def add(
        self,
        name: str,
        *,
        open_: int | None = None,
        a_minute: int | None = None,
        repositories: tuple[str, ...] = (),
        metrics: bool = False,
    ) -> str:
        """Make a key; returns all of it, which is not stored. UsageError if that fails, or the name is in use."""
        identity, secret = secrets.token_hex(4), base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        secret = secret.rstrip("=").lower()
        salt = secrets.token_bytes(_SALT_BYTES)
        key = Key(
            identity,
            name,
            _text(salt),
            _text(_hashed(secret, salt)),
            int(time.time()),
            open_,
            a_minute,
            repositories,
            metrics,
        )
        try:
            msgspec.convert(msgspec.to_builtins(key), Key)
        except msgspec.ValidationError as wrong:
            raise UsageError(f"the key is invalid: {wrong}") from None
        with self._locked():
            keys = self.load()
            if any(one.name == name for one in keys):
                raise UsageError(f"{name} already has a key", "Revoke it first, or use another name.")
            if any(one.id == identity for one in keys):  # one of four billion; two keys must not share an id
                raise UsageError("the new key equals an existing one", "Try again.")
            self._write((*keys, key))
        return f"{_PREFIX}_{identity}_{secret}"

    def revoke(self, name: str) -> None:
        """Revoke the key with this name or id; raises UsageError if there is no such key."""
        with self._locked():
            keys = self.load()
            left = tuple(key for key in keys if name not in (key.name, key.id))
            if len(left) == len(keys):
                raise UsageError(f"{name} has no key", "List the keys: fastcoder-lsp team key list")
            self._write(left)

    def _locked(self) -> filelock.BaseFileLock:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self._path.parent} cannot be created: {error}") from None
        return filelock.FileLock(f"{self._path}.lock")

    def _write(self, keys: tuple[Key, ...]) -> None:
        try:
            replace_file(self._path, msgspec.json.format(msgspec.json.encode(_File(1, keys)), indent=1) + b"\n")
        except OSError as error:
            raise UsageError(f"{self._path} cannot be written: {error}") from None


def _hashed(secret: str, salt: bytes) -> bytes:
    return hashlib.blake2b(secret.encode(), salt=salt, person=_PERSON, digest_size=32).digest()


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _plain(value: str) -> bytes:
    return base64.b64decode(value)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused now; another attempt may succeed in `after_s` whole seconds."""

    message: str
    after_s: int


@dataclass(slots=True)
class _Account:
    left: float
    filled_s: float
    open: int = 0


class Ledger:
    """The use of each key's limits."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def enter(self, key: str, *, most_open: int, a_minute: int, now_s: float) -> Refusal | None:
        """Begin a request of a key; returns why it may not begin, else None. `leave` must follow if it began."""
        most = max(1.0, a_minute * _BURST)
        account = self._accounts.setdefault(key, _Account(most, now_s))
        account.left = min(most, account.left + (now_s - account.filled_s) * a_minute / 60.0)
        account.filled_s = now_s
        if account.open >= most_open:
            return Refusal(f"too many requests: this key has {account.open} open", 1)
        if account.left < 1.0:
            return Refusal(
                f"too many requests: this key may send {a_minute} a minute",
                math.ceil((1.0 - account.left) * 60.0 / a_minute),
            )
        account.left -= 1.0
        account.open += 1
        self._trim()
        return None

    def leave(self, key: str) -> None:
        """End a request that began."""
        self._accounts[key].open -= 1

    def _trim(self) -> None:
        if len(self._accounts) > _FORGET:
            idle = [key for key, account in self._accounts.items() if not account.open]
            for key in idle[: len(idle) // 2]:
                del self._accounts[key]
