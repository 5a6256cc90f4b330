"""The server as it is installed, with its real model, by an ordinary client library: what an editor's user gets."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities, make_test_lsp_client

pytestmark = pytest.mark.model

CODE = '''\
def count_lines(path):
    """How many lines the file at `path` has."""
    with open(path) as file:
        return \n
'''


def make_client() -> LanguageClient:
    client = make_test_lsp_client()
    client.feature("client/registerCapability")(lambda _: None)
    return client


@pytest_lsp.fixture(  # type: ignore[untyped-decorator]
    config=ClientServerConfig(
        server_command=[sys.executable, "-m", "fastcoder_lsp.cli.main", "serve"], client_factory=make_client
    )
)
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    capabilities = client_capabilities("visual-studio-code")
    assert capabilities.text_document is not None
    capabilities.text_document.inline_completion = types.InlineCompletionClientCapabilities()
    # Nothing is tested of how quick this machine is, nor of how sure the model.
    options = {"budget": {"automatic_ms": 60_000}, "quiet": {"show": "eager"}}
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=capabilities, initialization_options=options)
    )
    yield
    await lsp_client.shutdown_session()


def opened(client: LanguageClient, folder: Path, text: str) -> str:
    uri = (folder / "lines.py").as_uri()
    item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    return uri


def params(uri: str, line: int, character: int) -> types.InlineCompletionParams:
    context = types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic)
    return types.InlineCompletionParams(context, types.TextDocumentIdentifier(uri), types.Position(line, character))


@pytest.mark.asyncio(loop_scope="function")
async def test_ghost_text_comes_and_is_typed_through(client: LanguageClient, tmp_path: Path) -> None:
    uri = opened(client, tmp_path, CODE)
    answer = await client.text_document_inline_completion_async(params(uri, 3, 15))
    assert isinstance(answer, types.InlineCompletionList)
    [item] = answer.items
    assert isinstance(item.insert_text, str)
    assert "file" in item.insert_text
    assert item.range == types.Range(types.Position(3, 15), types.Position(3, 15))
    place = types.Range(types.Position(3, 15), types.Position(3, 15))
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(uri=uri, version=2),
            [types.TextDocumentContentChangePartial(range=place, text=item.insert_text[0])],
        )
    )
    answer = await client.text_document_inline_completion_async(params(uri, 3, 16))
    assert isinstance(answer, types.InlineCompletionList)
    assert answer.items[0].insert_text == item.insert_text[1:]


@pytest.mark.ci
@pytest.mark.asyncio(loop_scope="function")
async def test_literal_control_tokens_stay_text(client: LanguageClient, tmp_path: Path) -> None:
    uri = opened(client, tmp_path, 'MARKS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|endoftext|>"]\n' + CODE)
    answer = await client.text_document_inline_completion_async(params(uri, 4, 15))
    assert isinstance(answer, types.InlineCompletionList)
    assert "file" in str(answer.items[0].insert_text)
    assert "<|" not in str(answer.items[0].insert_text)
