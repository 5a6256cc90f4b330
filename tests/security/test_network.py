"""Nothing leaves the machine: a session in a network namespace, whose kernel counts what anything there tried to send.

SECURITY.md shows the same by hand.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.own_cache import own_cache

pytestmark = [pytest.mark.model, pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")]

ROOT = Path(__file__).parents[2]
NAMESPACE = ("unshare", "--user", "--map-root-user", "--net")
SENT = "grep -h -e ^Ip: -e OutRequests -e OutNoRoutes /proc/net/snmp /proc/net/snmp6"
SESSION = """
import asyncio, sys
from pathlib import Path
from fastcoder_lsp.client.client import LanguageClient

async def main(root):
    client = LanguageClient(lambda _: None, lambda _: None, lambda _: None, name="test")
    await client.start([sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve"], root, {}, None)
    path = root / "sums.py"
    path.write_text("def add(first, second):\\n    return ")
    uri, text, found = path.as_uri(), path.read_text(), None
    client.open(uri, "python", 1, text)
    for _ in range(200):
        if (found := await client.suggest(uri, text, len(text), invoked=True)) is not None:
            break
        await asyncio.sleep(0.5)
    client.save(uri)
    print(await client.why(uri), await client.stats(), file=sys.stderr)
    await client.stop()
    print(found.text)

asyncio.run(main(Path(sys.argv[1])))
"""
PLANTED = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))"


def sent_by(folder: Path, *command: str) -> tuple[str, int]:
    """What a command prints, and how many packets were sent, or had no way out, in its network namespace."""
    (folder / "run").mkdir(mode=0o700)
    environment = os.environ | {
        "FASTCODER_CACHE": str(own_cache(folder / "cache")),
        "XDG_RUNTIME_DIR": str(folder / "run"),  # no shared process of the user's outside the namespace
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", f'"$@"; echo; {SENT}', "sh", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(done.stderr)
    printed, _, counts = done.stdout.rpartition("\nIp: Forwarding")
    names, values, *six = counts.splitlines()
    by_name = dict(zip(names.split(), values.split()[2:], strict=True))
    numbers = [by_name["OutRequests"], by_name["OutNoRoutes"], *(line.split()[1] for line in six)]
    assert len(numbers) == 4, done.stdout
    return printed, sum(map(int, numbers))


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_a_session_sends_nothing(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    printed, packets = sent_by(tmp_path, sys.executable, "-P", "-c", SESSION, str(tmp_path / "w"))
    assert "first" in printed
    assert packets == 0


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_one_packet_is_counted(tmp_path: Path) -> None:
    assert sent_by(tmp_path, sys.executable, "-c", PLANTED)[1] > 0
