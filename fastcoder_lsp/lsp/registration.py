"""Capabilities that are registered while the server runs, where the client allows it."""

from lsprotocol import types

from fastcoder_lsp.lsp.capabilities import popup_registration, registrations
from fastcoder_lsp.lsp.client import Client
from fastcoder_lsp.lsp.endpoint import Endpoint


class Registrar:
    """Registers and takes back.

    Args:
        popup: whether suggestions in the completion menu were offered in `initialize` already.
    """

    def __init__(self, endpoint: Endpoint, client: Client, *, popup: bool) -> None:
        self._endpoint = endpoint
        self._client = client
        self._static_popup = popup
        self._popup = False

    def open(self) -> None:
        """The client takes requests from now on."""
        if wanted := registrations(self._client):
            self._register(wanted)

    def offer_popup(self, *, wanted: bool) -> None:
        """Settings changed: offer suggestions in the completion menu, or no longer."""
        if self._static_popup or not self._client.registers_completion or wanted == self._popup:
            return
        self._popup = wanted
        registration = popup_registration()
        if wanted:
            self._register([registration])
        else:
            undo = types.UnregistrationParams([types.Unregistration(registration.id, registration.method)])
            self._endpoint.ask("client/unregisterCapability", undo, _taken)

    def _register(self, wanted: list[types.Registration]) -> None:
        self._endpoint.ask("client/registerCapability", types.RegistrationParams(wanted), _taken)


def _taken(_: object) -> None:
    """Nothing depends on the answer; a refusal is in the log."""
