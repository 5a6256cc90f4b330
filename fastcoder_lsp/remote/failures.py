"""Failures of a server: statuses and exceptions become reasons with a cause and a hint, and the server is left alone.

A server's own message is shortened and stripped of control characters, because it is not trusted.
"""

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

import httpx2

from fastcoder_lsp.core import Reason

_MAX_MESSAGE: Final = 160  # characters of a server's message that are shown
_MAX_CAUSES: Final = 12  # causes of an exception that are examined
_MAX_WAIT_S: Final = 3600.0


class RemoteError(Exception):
    """A server did not answer a question; it demands to be left alone for `wait_s`, 0 if it demands nothing."""

    def __init__(self, reason: Reason, wait_s: float = 0.0) -> None:
        super().__init__(reason.text)
        self.reason, self.wait_s = reason, wait_s


class NotSentError(RemoteError):
    """A rule forbids sending a document; the server is fine."""


PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0)


@dataclass(slots=True)
class Backoff:
    """How long a failing server is not asked: longer after each consecutive failure, or as long as it demands."""

    pauses_s: tuple[float, ...]  # after the first failure, the second, and so on; the last one repeats
    failure: RemoteError | None = None  # the last one; None after an answer
    until_ms: float = 0.0  # the server is not asked before
    _consecutive: int = 0

    def failed(self, error: RemoteError, now_ms: float) -> None:
        """Record a failure."""
        step_s = self.pauses_s[min(self._consecutive, len(self.pauses_s) - 1)]
        self._consecutive += 1
        self.failure, self.until_ms = error, now_ms + 1e3 * max(step_s, error.wait_s)

    def answered(self) -> None:
        """Record an answer, which ends the backoff."""
        self.failure, self._consecutive, self.until_ms = None, 0, 0.0

    def blocking_failure(self, now_ms: float) -> RemoteError | None:
        """The failure because of which the server is not asked now; None when it may be asked."""
        if self.failure is None or now_ms >= self.until_ms:
            return None
        return self.failure


_REFUSALS: Final[Mapping[int, str]] = {401: "remote-key", 403: "remote-forbidden", 404: "remote-model"}
_CAUSES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (ssl.SSLError, "remote-tls"),
    (socket.gaierror, "remote-name"),
    (ConnectionRefusedError, "remote-refused"),
)


def failed(name: str, host: str, what: object = "", message: str = "", wait_s: float = 0.0) -> RemoteError:
    """The failure `name` with the server's status or fault (`what`), its `message`, and its demanded pause."""
    reasons = (*_passing(host, what, message, wait_s), *_lasting(host, what, message))
    return RemoteError(next(reason for reason in reasons if reason.code == name), wait_s)


def _passing(host: str, what: object, message: str, wait_s: float) -> tuple[Reason, ...]:
    """Failures that may pass: the server is asked again without a change of the user's."""
    return (
        Reason(
            "remote-busy",
            f"{host} limits requests ({what}{message})" + (f" and asks to wait {wait_s:.0f} s." if wait_s else "."),
            'Wait: fastcoder tries again by itself. To send fewer requests, set `power` to "saver".',
        ),
        Reason(
            "remote-broken",
            f"{host} failed ({what}{message}).",
            "fastcoder tries again by itself. If it keeps failing, read the server's log.",
        ),
        Reason(
            "remote-silent",
            f"{host} did not answer in time.",
            "It may be loading its model, or be busy. fastcoder tries again by itself.",
        ),
        Reason(
            "remote-cut",
            f"{host} or a proxy closed the connection during the answer.",
            "fastcoder tries again by itself.",
        ),
        Reason(
            "remote-unreachable",
            f"{host} cannot be reached.",
            "Check the network, the VPN and the server. fastcoder tries again by itself.",
        ),
        Reason(
            "remote-refused",
            f"No server listens at {host}.",
            "Start the server, or correct the port in `remote.url`. fastcoder tries again by itself.",
        ),
    )


def _lasting(host: str, what: object, message: str) -> tuple[Reason, ...]:
    """Failures that last until the user changes something."""
    return (
        Reason(
            "remote-moved",
            f"{host} redirects to another address ({what}). fastcoder sends no code there.",
            "If the new address is right, set `remote.url` to it.",
        ),
        Reason(
            "remote-page",
            f"{host} did not answer as a completion server: {what}.",
            "Check `remote.url`, and whether a proxy or a sign-in page stands in between.",
        ),
        Reason(
            "remote-setting",  # no address: it may contain a password
            f"The system's proxy for {host} cannot be used.",
            "Set HTTPS_PROXY or HTTP_PROXY to an address that begins with http:// or https://. To use no proxy for "
            "this host, add it to NO_PROXY.",
        ),
        Reason(
            "remote-key",
            f"{host} rejects the key ({what}{message}).",
            "Put the right key into the file that `remote.key_file` names, or the variable that `remote.key_env` "
            "names.",
        ),
        Reason(
            "remote-forbidden",
            f"{host} denies access ({what}{message}).",
            "Check that your key may use this model, and that the server allows your address.",
        ),
        Reason(
            "remote-model",
            f"{host} has no such model or address ({what}{message}).",
            "Check `remote.model`, `remote.kind`, and `remote.url`, which ends before `/v1`.",
        ),
        Reason(
            "remote-rejected",
            f"{host} rejects the request ({what}{message}).",
            "Set `remote.kind` and `remote.template` to the form that the server expects.",
        ),
        Reason(
            "remote-tls",
            f"The certificate of {host} is not valid (TLS), so nothing was sent.",
            "Check the certificate, the name in `remote.url`, and this machine's clock. If your company has its own "
            "certificate authority, install it in the system.",
        ),
        Reason(
            "remote-name",
            f"The host name {host} cannot be resolved.",
            "Check the name in `remote.url`, and whether it needs a VPN.",
        ),
    )


def not_sent(host: str, code: str, rule: str) -> NotSentError:
    """`rule` keeps a document on this machine; `code` is the reason's."""
    return NotSentError(
        Reason(
            code,
            f"This file is not sent to {host}: {rule}.",
            "To get suggestions from a local model, run `fastcoder-lsp model pull` and leave `remote.fallback` on.",
        )
    )


def from_status(host: str, code: int, headers: Mapping[str, str], body: bytes, now_s: float) -> RemoteError:
    """The failure for a status other than 200; `now_s`, since the epoch, for a date in `Retry-After`."""
    message = _server_message(headers.get("content-type", ""), body)
    if 300 <= code < 400:
        return failed("remote-moved", host, code)
    if code == 407:
        return not_a_server(host, "a proxy requires a user name and a password (407)")
    if code == 429 or (code == 503 and "retry-after" in headers):
        return failed("remote-busy", host, code, message, _retry_after_s(headers.get("retry-after", ""), now_s))
    if code >= 500 and code != 501:  # 501: the server does not implement the request
        return failed("remote-broken", host, code, message)
    return failed(_REFUSALS.get(code, "remote-rejected"), host, code, message)


def from_exception(host: str, error: BaseException, *, begun: bool) -> RemoteError:
    """The failure for an exception of the transport; `begun`: a response had begun."""
    causes = list(_causes(error))
    for kinds, code in _CAUSES:
        if any(isinstance(cause, kinds) for cause in causes):
            return failed(code, host)
    if isinstance(error, httpx2.ProxyError):
        return not_a_server(host, "the proxy refused the request")
    if isinstance(error, (httpx2.ConnectTimeout, httpx2.PoolTimeout)):
        return failed("remote-unreachable", host)
    if isinstance(error, httpx2.TimeoutException):
        return timed_out(host)
    if begun or isinstance(error, (httpx2.RemoteProtocolError, httpx2.ReadError)):
        return failed("remote-cut", host)
    return failed("remote-unreachable", host)


def timed_out(host: str) -> RemoteError:
    """The server accepted the request and sent nothing for too long."""
    return failed("remote-silent", host)


def not_a_server(host: str, what: str) -> RemoteError:
    """The answer is not a completion server's."""
    return failed("remote-page", host, what)


def failed_mid_answer(host: str, value: object) -> RemoteError:
    """The server reported an error in the middle of an answer."""
    message = _clean(value if isinstance(value, str) else json.dumps(value))
    return RemoteError(Reason("remote-broken", f"{host} failed ({message}).", "Read the server's log."))


def _server_message(kind: str, body: bytes) -> str:
    """The error message in a JSON body, with a colon before it; "" if there is none."""
    if "json" not in kind:
        return ""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(name):
            value = value[name]
    return f": {_clean(value)}" if isinstance(value, str) else ""


def _clean(text: str) -> str:
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:1000]).split())
    return words if len(words) <= _MAX_MESSAGE else words[: _MAX_MESSAGE - 1] + "…"


def _retry_after_s(text: str, now_s: float) -> float:
    """Seconds that the header `Retry-After` demands: a number, or a date."""
    try:
        wait_s = float(text)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(text).timestamp() - now_s
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return min(wait_s, _MAX_WAIT_S) if wait_s > 0 else 0.0


def _causes(error: BaseException) -> Iterator[BaseException]:
    todo, seen = [error], 0
    while todo and seen < _MAX_CAUSES:
        one = todo.pop()
        seen += 1
        yield one
        if isinstance(one, BaseExceptionGroup):
            todo.extend(one.exceptions)
        todo.extend(cause for cause in (one.__cause__, one.__context__) if cause is not None)
