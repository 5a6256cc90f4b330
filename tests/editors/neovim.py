"""A real Neovim, typed into over its RPC interface; what the tests and the pictures of the documentation share."""

from pathlib import Path
from typing import Any

import pynvim

from tests.editors.conftest import wait_for

ATTACHED = "return vim.tbl_count(vim.lsp.get_clients({ bufnr = 0, name = ... })) > 0"


class Neovim:
    """A running editor with `file` open, `configuration` as its init.lua in `home`, and nothing of the user's."""

    def __init__(self, program: str, configuration: str, file: Path, home: Path, client: str = "fastcoder") -> None:
        init = home / "init.lua"
        init.write_text(configuration)
        self.rpc: Any = pynvim.attach(
            "child", argv=[program, "--embed", "--headless", "-n", "-i", "NONE", "-u", str(init), str(file)]
        )
        self.pid: int = self.rpc.funcs.getpid()
        wait_for(lambda: self.lua(ATTACHED, client), "the server attaches")

    def lua(self, code: str, *arguments: object) -> Any:
        return self.rpc.exec_lua(code, *arguments)

    def type(self, keys: str) -> None:
        self.rpc.input(keys)

    def text(self) -> str:
        return "\n".join(self.rpc.api.buf_get_lines(0, 0, -1, False)) + "\n"

    def line(self) -> str:
        return str(self.rpc.api.get_current_line())

    def mode(self) -> str:
        return str(self.rpc.api.get_mode()["mode"])

    def ghost(self) -> str:
        """The ghost text as it is drawn; empty where there is none."""
        namespace = self.rpc.api.create_namespace("fastcoder")
        marks = self.rpc.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True})
        inline = [chunk for *_, details in marks for chunk in details.get("virt_text", ())]
        lines = [line for *_, details in marks for line in details.get("virt_lines", ())]
        return "\n".join("".join(chunk[0] for chunk in line) for line in [inline, *lines])

    def status(self) -> str:
        return str(self.lua("return require('fastcoder').statusline()"))

    def messages(self) -> str:
        return str(self.rpc.command_output("messages"))

    def server_text(self) -> str:
        code = """
            local client, buffer = vim.lsp.get_clients({ bufnr = 0 })[1], vim.api.nvim_get_current_buf()
            local params = { uri = vim.uri_from_bufnr(buffer) }
            return client:request_sync('fastcoder/debug/text', params, 5000, buffer).result.text
        """
        return str(self.lua(code))

    def quit(self) -> None:
        try:
            self.rpc.command("qall!", async_=True)
            self.rpc.close()
        except OSError:
            pass
