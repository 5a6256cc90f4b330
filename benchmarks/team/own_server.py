"""A team's server of the benchmark's own, on this machine: begun, disturbed, ended.

It is set to suggest in the middle of words too, so that every key asks the model, and an upgrade begins all replicas at
once.

Owns its process, its configuration and what is done to it: a replica is killed, one is added, an upgrade is rolled
through.
"""

import os
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from fastcoder_lsp.config.programs import neutral_folder, python_command
from fastcoder_lsp.errors import ResourceError

_BEGIN_S = 180.0


class OwnServer:
    """It, while the block is entered.

    Args:
        model: what its replicas run.
        replicas: how many.
        rest: more of its configuration, as TOML.
    """

    def __init__(self, model: str, replicas: int, rest: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-team-")
        self._model, self.replicas, self._rest = model, replicas, rest
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._file = Path(self._folder.name) / "team.toml"

    def __enter__(self) -> Self:
        self._write()
        self.log = (Path(self._folder.name) / "log").open("w+", encoding="utf-8")
        command = python_command("fastcoder_lsp.cli.main", "team", "--config", str(self._file))
        self._process = subprocess.Popen(command, cwd=neutral_folder(), stdin=subprocess.DEVNULL, stderr=self.log)
        until = time.monotonic() + _BEGIN_S
        while not self.healthy():
            if self._process.poll() is not None or time.monotonic() > until:
                said = self.said()
                self.__exit__(None, None, None)
                raise ResourceError(
                    f"the team's server does not start: {said[-500:]}",
                    "Mend what the server names, and run the benchmark again.",
                )
            time.sleep(0.2)
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.log.close()
        self._folder.cleanup()

    def said(self) -> str:
        """Its standard error so far."""
        self.log.flush()
        return Path(self.log.name).read_text(encoding="utf-8")

    def healthy(self) -> bool:
        """Whether it says that it can answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        with suppress(OSError, HTTPException):
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False

    def kill_replica(self) -> int:
        """`kill -9` one; its process."""
        victim = min(self.replica_processes())
        os.kill(victim, signal.SIGKILL)
        return victim

    def replica_processes(self) -> list[int]:
        """The processes of the model's replicas."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        return [child.pid for child in children if _names_replica(child)]

    def cpu_s(self) -> dict[str, float]:
        """Seconds of CPU that its processes have used so far: Serve's proxy, the door, replicas, all of them."""
        used = {"proxy": 0.0, "door": 0.0, "replicas": 0.0, "all": 0.0}
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with suppress(psutil.Error):
                times, line = process.cpu_times(), (process.cmdline() or [""])[0]
                spent = times.user + times.system
                used["all"] += spent
                for name, part in (("proxy", "ProxyActor"), ("door", "Door"), ("replicas", "Model")):
                    used[name] += spent if part in line else 0.0
        return used

    def add_replica(self) -> None:
        """One more from now on."""
        self.replicas += 1
        self.upgrade()

    def upgrade(self) -> None:
        """Have the configuration read again: where it is as it was, every replica is replaced."""
        self._write()
        self._process.send_signal(signal.SIGHUP)

    def _write(self) -> None:
        self._file.write_text(
            f'{self._rest}\n[model]\nmodel = "{self._model}"\n"where.middle_of_word" = true\n'
            f"[listen]\nport = {self.port}\n[replicas]\nleast = {self.replicas}\nat_once = {self.replicas}\n",
            encoding="utf-8",
        )


def _names_replica(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        line = process.cmdline()
        return bool(line) and "ServeReplica" in line[0] and "Model" in line[0]
    return False
