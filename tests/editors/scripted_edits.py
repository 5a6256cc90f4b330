"""A language server that proposes the edits of a file, for editors that need a program: no model, no rules.

The file is JSON: `edits`, a list of [line, character, line, character, text], and `imports` as they are answered. It is
read at every question. Each message that comes is a line of the log.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

ACCEPT = "github.copilot.didAcceptCompletionItem"


def messages(stdin: BinaryIO) -> Iterator[dict[str, Any]]:
    """The messages until the input ends."""
    while header := stdin.readline():
        length = int(header.split(b":")[1])
        while stdin.readline().strip():
            pass
        yield json.loads(stdin.read(length))


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    sys.stdout.buffer.flush()


def proposed(edits: Path, document: dict[str, Any], command: str) -> dict[str, Any]:
    """The answer to a question about a document."""
    told = json.loads(edits.read_text())
    return {
        "edits": [
            {
                "text": text,
                "range": {"start": {"line": a, "character": b}, "end": {"line": c, "character": d}},
                "textDocument": document,
                "command": {"title": "", "command": command, "arguments": [f"edit-{number}"]},
            }
            for number, (a, b, c, d, text) in enumerate(told["edits"], 1)
        ],
        "imports": told["imports"],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--edits", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    arguments, _ = parser.parse_known_args()
    command = ACCEPT
    with arguments.log.open("a", buffering=1) as log:
        for message in messages(sys.stdin.buffer):
            log.write(json.dumps(message) + "\n")
            method, params = message.get("method"), message.get("params") or {}
            result: object = None
            if method == "exit":
                return
            if method == "initialize":
                command += params["initializationOptions"]["client"].get("commandSuffix", "")
                encodings = params["capabilities"]["general"]["positionEncodings"]
                capabilities = {
                    "positionEncoding": encodings[0],
                    "textDocumentSync": 2,
                    "executeCommandProvider": {"commands": [command]},
                    "experimental": {"fastcoderEdits": True},
                }
                result = {"capabilities": capabilities}
            elif method == "initialized":
                send({"method": "fastcoder/status", "params": {"state": "ready"}})
            elif method == "textDocument/copilotInlineEdit":
                result = proposed(arguments.edits, params["textDocument"], command)
            if "id" in message and method is not None:
                send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
