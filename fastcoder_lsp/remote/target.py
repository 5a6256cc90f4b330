"""Which server is asked, and whether the user allows it; nothing is sent before that.

Consent is a setting (`remote.allow`) that repeats the host's name. Not every editor can show a dialog, but all have
settings; the user can look a setting up and revoke it. It is the user's own (scope *machine*) and holds for one host,
so that a changed `remote.url` needs new consent.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from fastcoder_lsp.config import Settings
from fastcoder_lsp.config.remote_access import is_loopback
from fastcoder_lsp.core import Reason
from fastcoder_lsp.remote.excerpt import AFTER, BEFORE, REACH
from fastcoder_lsp.remote.failures import RemoteError

_ENDINGS = ("/v1/completions", "/v1", "/infill", "/completion", "")
"""Endings of addresses that people copy from a server's page."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server's address without a slash at its end, its host in lower case, and whether it is this machine."""

    base: str
    host: str
    is_local: bool


def target_of(settings: Settings) -> Target:
    """The server that the settings name; RemoteError if it is invalid, or the user has not allowed to send there."""
    target = read_url(settings.remote_url)
    if not target.is_local and settings.remote_allow.strip().lower() != target.host:
        raise RemoteError(not_allowed(target.host))
    if (
        not target.is_local
        and target.base.startswith("http:")
        and (settings.remote_key_file or settings.remote_key_env)
    ):
        raise RemoteError(
            Reason(
                "remote-setting",
                f"Nothing was sent: `remote.url` begins with http, so the key for {target.host} would go unencrypted.",
                "Use https, or a tunnel that ends at 127.0.0.1.",
            )
        )
    return target


def read_url(url: str) -> Target:
    """Parse a server's address; raises RemoteError if it is invalid."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise RemoteError(_wrong("it is not a URL")) from None
    if parts.scheme not in {"http", "https"} or not host or not host.isascii():
        raise RemoteError(_wrong("it must begin with https:// or http://, and a host name"))
    if parts.username is not None or parts.query or parts.fragment:
        raise RemoteError(
            _wrong("it must not contain a user name, key or question mark; put a key into `remote.key_file`")
        )
    path = parts.path.rstrip("/")
    path = next(path.removesuffix(ending) for ending in _ENDINGS if path.endswith(ending))
    name = f"[{host}]" if ":" in host else host
    return Target(f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{path}", host, is_loopback(host))


def host_of(url: str) -> str:
    """The host in an address; the address itself if it is invalid."""
    try:
        return read_url(url).host
    except RemoteError:
        return url


def not_allowed(host: str) -> Reason:
    """The reason for a server that `remote.allow` does not name."""
    return Reason(
        "remote-unallowed",
        f"Nothing was sent: `remote.allow` does not name {host}.",
        f'To allow it, set `remote.allow` to "{host}". Each request then sends {sent_text()}.',
    )


def sent_text() -> str:
    """Describe what a question sends."""
    return (
        f"up to {BEFORE:,} characters before the cursor and {AFTER:,} after it (to a fastcoder-lsp server {REACH:,} on "
        "both sides), the file's name and language, and, where `context.enabled` is on, code of other files with their "
        "names, all without lines that look like secrets"
    )


def _wrong(why: str) -> Reason:
    return Reason("remote-setting", f"`remote.url` cannot be used: {why}.", "Example: http://127.0.0.1:8012")
