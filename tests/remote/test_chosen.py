"""Where the settings name a server, that is opened; where they name another one, or none, the next place is."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.completion.protocol import Ask, HostListener, OpenHost, Use
from fastcoder_lsp.config import Settings
from fastcoder_lsp.host.address import made_from
from fastcoder_lsp.host.selector import BackendSelector
from fastcoder_lsp.workspace.document import OpenTexts
from tests.host.scripted import Heard, ScriptedHost, question

ALONE = replace(Settings(), host_enabled=False)
REMOTE = replace(ALONE, remote_url="http://127.0.0.1:1")


class Places:
    """A chosen host, and which kinds of hosts it has opened."""

    def __init__(self, settings: Settings, *, asks: bool = True) -> None:
        self.opened: list[str] = []
        self.heard = Heard()
        remote = self.opens("remote") if asks else None
        self.host = BackendSelector(
            self.opens("shared"), self.opens("alone"), self.heard, settings, {}, OpenTexts(), remote
        )
        self._number = 0

    def opens(self, kind: str) -> OpenHost:
        def open_one(
            listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
        ) -> ScriptedHost:
            self.opened.append(kind)
            return ScriptedHost(listener, settings, folders, texts)

        return open_one

    def after(self, settings: Settings | None = None) -> list[str]:
        """What was opened by the next answer, these settings having come before."""
        if settings is not None:
            self.host.send(Use(settings, {}))
        self._number += 1
        number = self._number
        self.host.send(Ask(question(number, "value = word")))
        self.heard.wait(lambda: number in self.heard.answers)
        return self.opened


def test_a_server_goes_before_the_models_of_this_machine() -> None:
    places = Places(REMOTE)
    assert places.after() == ["remote"]
    assert places.after(replace(REMOTE, power="saver")) == ["remote"]
    assert places.after(ALONE) == ["remote", "alone"]
    assert places.after(replace(ALONE, host_enabled=True)) == ["remote", "alone", "shared"]


@pytest.mark.parametrize("name", ["url", "allow", "kind", "model", "template", "key_file", "key_env", "fallback"])
def test_each_of_its_settings_makes_another_server(name: str) -> None:
    changed = {f"remote_{name}": False if name == "fallback" else "http://127.0.0.1:2"}
    other = replace(REMOTE, **changed)  # type: ignore[arg-type]
    assert made_from(other) != made_from(REMOTE)
    assert Places(REMOTE).after(other) == ["remote"]
    places = Places(REMOTE)
    places.after()
    assert places.after(other) == ["remote", "remote"]
    if name != "url":
        assert made_from(replace(other, remote_url="")) == made_from(ALONE)


def test_a_local_model_in_a_servers_place_asks_none() -> None:
    assert Places(REMOTE, asks=False).after() == ["alone"]
