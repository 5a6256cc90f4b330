"""Which server is asked, and whether it may be: nothing is sent before its name was allowed.

The consent is a setting that names the host once more. Every editor has settings, while a dialog cannot be shown in
all of them; a setting can be looked up and taken back, it is the user's own (scope *machine*), and it holds for one
host: another one in `remote.url` is not allowed with it.
"""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Reason
from fastcoder_lsp.remote.excerpt import AFTER, BEFORE, REACH
from fastcoder_lsp.remote.failures import RemoteError

_ENDINGS = ("/v1/completions", "/v1", "/infill", "/completion", "")
"""Of addresses that people copy from a server's page; the server's own beginning stands before them."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server.

    Attributes:
        base: its address, to which paths are appended; no slash at its end.
        host: its name, in small letters.
        is_local: whether it is this machine, so that nothing leaves it.
    """

    base: str
    host: str
    is_local: bool


def target_of(settings: Settings) -> Target:
    """The server that the settings name.

    Raises:
        RemoteError: there is no such address, or nobody has allowed that code is sent there.
    """
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
    """The server that an address names.

    Raises:
        RemoteError: it is none.
    """
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
    return Target(f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{path}", host, _is_here(host))


def host_of(url: str) -> str:
    """The name of the server that an address names; the address itself where it names none."""
    try:
        return read_url(url).host
    except RemoteError:
        return url


def not_allowed(host: str) -> Reason:
    """The error for a server to which the user has not allowed code to be sent."""
    return Reason(
        "remote-unallowed",
        f"Nothing was sent: `remote.allow` does not name {host}.",
        f'To allow it, set `remote.allow` to "{host}". Each request then sends {sent_text()}.',
    )


def sent_text() -> str:
    """A description of the text that a question sends."""
    return (
        f"up to {BEFORE:,} characters before the cursor and {AFTER:,} after it (to a fastcoder-lsp server {REACH:,} on "
        "both sides), the file's name and language, and, where `context.enabled` is on, code of other files with their "
        "names; lines that look like secrets stay here"
    )


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(why: str) -> Reason:
    return Reason("remote-setting", f"`remote.url` cannot be used: {why}.", "Example: http://127.0.0.1:8012")
