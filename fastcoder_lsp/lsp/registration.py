"""Capabilities that are registered while the server runs, where the client allows it."""

import logging

from lsprotocol import types

from fastcoder_lsp.lsp.capabilities import popup_registration, registrations
from fastcoder_lsp.lsp.client import Client
from fastcoder_lsp.lsp.endpoint import Endpoint, RpcError, background

logger = logging.getLogger(__name__)


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
            background(self._call("client/unregisterCapability", undo), "unregistering")

    def _register(self, wanted: list[types.Registration]) -> None:
        background(self._call("client/registerCapability", types.RegistrationParams(wanted)), "registering")

    async def _call(self, method: str, params: object) -> None:
        try:
            await self._endpoint.call(method, params)
        except RpcError as error:
            logger.info("the client refused %s: %s", method, error.message)
