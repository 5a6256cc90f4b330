"""Corpora of common code where the disk refuses them."""

import threading
from pathlib import Path

from fastcoder_lsp.workspace.common_code import CommonCode, Installed
from tests.index.toy_encoder import ToyEncoder


def test_what_the_disk_refuses_is_tried_again_but_not_waited_for(tmp_path: Path) -> None:
    """One question is answered without it."""
    (tmp_path / "corpora").write_text("no folder", encoding="utf-8")
    common, told = CommonCode(tmp_path, ToyEncoder(), builds_installed=False), list[str]()
    user = Installed({}, told.append)
    common.join(user)
    waiting = threading.Thread(target=common.wait, args=(600.0,), daemon=True)
    waiting.start()
    waiting.join(60)
    builder = common.builder
    assert not waiting.is_alive()
    assert builder is not None
    assert builder.is_alive()
    assert common.stores(user) == ()
    assert common.leave(user)
    builder.join(60)
    assert not builder.is_alive()
