"""The HTTP server with the small model: every route, and what it refuses.

`recorded/http.json` holds the requests, too: add one without an answer and record it.
"""

import http.client
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.goldens.golden import Goldens, command, normal_for


def test_http(goldens: Goldens, small_model: Path, environment: dict[str, str], tmp_path: Path) -> None:
    normal = normal_for(environment, tmp_path, small_model)
    requests = goldens.recorded("http")
    arguments = [command(), "http", "--alone", "--port", "0", "--model", str(small_model)]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stderr is not None
            port = re.search(r"127\.0\.0\.1:(\d+)", server.stderr.readline())
            assert port is not None
            assert "ready" in server.stderr.readline()
            for request in requests:
                status, text = call(int(port[1]), request["path"], request["body"])
                request["answer"] = {"status": status, "body": normal(plain(text))}
        finally:
            server.kill()
    goldens.check("http", requests)


def call(port: int, path: str, body: Any) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    sent = None if body is None else body if isinstance(body, str) else json.dumps(body)
    connection.request("GET" if sent is None else "POST", path, sent, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def plain(text: str) -> Any:
    """JSON, or a list of a stream's events."""
    if text.startswith("data: "):
        return [plain(line.removeprefix("data: ")) for line in text.split("\n\n") if line]
    try:
        return json.loads(text)
    except ValueError:
        return text
