"""The start of a session, and changes of folders and settings."""

import logging
from functools import partial

from lsprotocol import types

from fastcoder_lsp.lsp.configuration import SECTION
from fastcoder_lsp.lsp.session import Session

logger = logging.getLogger(__name__)


def initialized(session: Session, _: types.InitializedParams) -> None:
    """The client accepts notifications and requests from now on."""
    session.reporter.open(session.client)
    session.registrar.open()
    pull_settings(session)


def did_change_folders(session: Session, params: types.DidChangeWorkspaceFoldersParams) -> None:
    """Folders were added or removed."""
    added, removed = params.event.added, params.event.removed
    session.folders.change(added=[folder.uri for folder in added], removed=[folder.uri for folder in removed])
    session.refresh()
    pull_settings(session)


def did_change_configuration(session: Session, params: types.DidChangeConfigurationParams) -> None:
    """The client sends settings, or null: they must be requested."""
    if params.settings is not None:
        session.configuration.set_pushed(params.settings, trusted=session.client.protects_machine_settings)
        session.refresh()
    pull_settings(session)


def pull_settings(session: Session) -> None:
    """Request the client's settings for every folder and for none, if it supports that."""
    if session.client.configuration:
        scopes = [None, *(folder.uri for folder in session.folders)]
        items = [types.ConfigurationItem(scope_uri=scope, section=SECTION) for scope in scopes]
        params = types.ConfigurationParams(items)
        session.endpoint.ask("workspace/configuration", params, partial(_pulled, session, scopes))


def _pulled(session: Session, scopes: list[str | None], answer: object) -> None:
    if not isinstance(answer, list):
        logger.warning("the client's answer to workspace/configuration is not a list")
        return
    for scope, values in zip(scopes, answer, strict=False):
        session.configuration.set_pulled(scope, values, trusted=session.client.protects_machine_settings)
    session.refresh()
