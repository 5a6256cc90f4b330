"""Access to a remote server: its key, from a file or the environment, and the system's proxy."""

import ipaddress
import os
import stat
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from fastcoder_lsp.config.table import Settings
from fastcoder_lsp.errors import UsageError

_LONGEST = 4096


def read_remote_key(settings: Settings) -> str:
    """The key from `remote.key_file` or `remote.key_env`, read at each call, or ""; UsageError if it is unusable."""
    if settings.remote_key_file:
        return _checked(_of_file(settings.remote_key_file), settings.remote_key_file)
    if settings.remote_key_env:
        named = os.environ.get(settings.remote_key_env)
        if named is None:
            raise UsageError(
                f"the environment variable {settings.remote_key_env} is not set",
                "Set it and restart the editor, or use `remote.key_file`.",
            )
        return _checked(named, settings.remote_key_env)
    return ""


def proxy_for(url: str) -> str | None:
    """The system's proxy for an address; None if there is none, and for this machine."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname or ""
    except ValueError:  # invalid; the connection reports it
        return None
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    named = urllib.request.getproxies()
    proxy = named.get(parts.scheme) or named.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _of_file(name: str) -> str:
    path = Path(name)
    try:
        path = path.expanduser()
    except RuntimeError as error:  # an unknown user without HOME
        raise UsageError(f"{name}: this user has no home folder", "Use an absolute path.") from error
    if not path.is_absolute():
        raise UsageError(
            f"`remote.key_file` is a relative path: {name}", "Use an absolute path, or one that begins with ~."
        )
    return read_key_file(path, _LONGEST + 1)


def read_key_file(path: Path, most: int = -1) -> str:
    """A key file, at most `most` characters; UsageError if it is unreadable, not ASCII, or readable by others."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077 and sys.platform != "win32":
            raise UsageError(f"other users can read {path}", f"Run: chmod 600 {path}")
        with path.open(encoding="ascii") as file:
            return file.read(most)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise UsageError(
            f"{path} cannot be read: {reason}", "Name a file that holds the key as one line of ASCII."
        ) from None


def _checked(text: str, where: str) -> str:
    key = text.strip()
    if not key or len(key) > _LONGEST or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{where} holds no valid key", "A key is one line of ASCII characters.")
    return key
