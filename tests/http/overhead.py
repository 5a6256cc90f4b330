"""What HTTP adds to an answer: `python -P -m tests.http.overhead` asks a scripted model by a service and by each route.

Writes medians, of wall time and of the process' CPU time, which other work on the machine does not touch. The client is
in the same process, so that its own part is counted, too: what HTTP adds is less than what is written.
"""

import http.client
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.core import CompletionRequest, Snapshot
from tests.http.toy_server import ToyServer

REQUESTS = 400
TEXT = "".join(f"line_{number} = {number}\n" for number in range(200))
SAYS = "total\n"


def measured(ask: Callable[[str], object]) -> tuple[float, float]:
    wall, cpu = [], []
    for number in range(REQUESTS):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        ask(f"{TEXT}name_{number} = ")
        wall.append(time.perf_counter() - wall_s)
        cpu.append(time.process_time() - cpu_s)
    return 1e3 * statistics.median(wall), 1e3 * statistics.median(cpu)


def by_service(service: CompletionService) -> Callable[[str], object]:
    def ask(before: str) -> object:
        request = CompletionRequest(Snapshot("file:///a.py", "/a.py", "python", 1, before + "\n"), len(before))
        return service.submit(request, Policy(background_ms=1, ahead=False)).result(20)

    return ask


def by_route(server: ToyServer, path: str, body: Callable[[str], dict[str, Any]]) -> Callable[[str], object]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)

    def ask(before: str) -> object:
        connection.request("POST", path, json.dumps(body(before)).encode(), {"content-type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        return response.read()

    return ask


def main() -> None:
    server, other = ToyServer(SAYS), ToyServer(SAYS)
    service = CompletionService(other.open, lambda _: None)
    ways = {
        "the host's own answer": by_service(service),
        "/infill": by_route(server, "/infill", lambda text: {"input_prefix": text, "input_suffix": "\n"}),
        "/v1/completions": by_route(server, "/v1/completions", lambda text: {"prompt": text, "suffix": "\n"}),
    }
    took = dict[str, tuple[float, float]]()
    for name, ask in ways.items():
        measured(ask)
        wall_ms, cpu_ms = took[name] = measured(ask)
        sys.stdout.write(f"{name:24} {wall_ms:6.2f} ms, {cpu_ms:6.2f} ms of CPU time\n")
    (own_ms, own_cpu_ms), *routes = took.values()
    wall_ms, cpu_ms = (max(times) for times in zip(*routes, strict=True))
    sys.stdout.write(
        f"HTTP adds p50 {wall_ms - own_ms:.2f} ms of wall time, {cpu_ms - own_cpu_ms:.2f} ms of CPU time, "
        f"the dearer route, over the host's own answer ({REQUESTS} requests a way)\n"
    )
    service.shutdown()
    server.close()
    other.close()


if __name__ == "__main__":
    main()
