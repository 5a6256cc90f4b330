"""Where a host is found: in a folder of the user's own, whatever others have put there before."""

import errno
import os
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.config.environment import host_environment
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.address import (
    LONGEST_PATH,
    address_of,
    build,
    keep_known,
    key_of,
    private_folder,
    runtime_folder,
)
from fastcoder_lsp.host.listening import ForeignError, LoopbackAddress, UnixAddress, peer_user

KEY = "k" * 16
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a user's own folders there are nobody else's")


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a name that is short enough for a socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_it_is_made_for_this_user_alone(short: Path) -> None:
    folder = private_folder([short / "new" / "run"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_installations_of_the_same_code_share_a_process(tmp_path: Path) -> None:
    for name in ("one", "two", "changed"):
        (tmp_path / name / "cli").mkdir(parents=True)
        (tmp_path / name / "cli" / "main.py").write_text("run = 1\n" if name != "changed" else "run = 2\n")
    os.utime(tmp_path / "two" / "cli" / "main.py", (0, 0))
    one, two, changed = (build(tmp_path / name) for name in ("one", "two", "changed"))
    assert one == two != changed


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_CPU"])
def test_a_limit_that_stays_is_its_owners_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    free, real = key_of(Settings(), "1"), resource.getrlimit

    def limited(number: int) -> tuple[int, int]:
        return (10**9, 10**9) if number == getattr(resource, name) else real(number)

    monkeypatch.setattr(resource, "getrlimit", limited)
    assert key_of(Settings(), "1") != free


def test_what_others_may_read_is_closed(short: Path) -> None:
    (short / "run").mkdir(mode=0o755)
    assert stat.S_IMODE(private_folder([short / "run"]).stat().st_mode) == 0o700


def make_link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def make_open(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def make_foreign(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give a folder away")
    folder.mkdir(mode=0o700)
    os.chown(folder, 12_345, 12_345)


def make_file(folder: Path) -> None:
    folder.write_text("")


def make_below_an_open_one(folder: Path) -> None:
    folder.parent.chmod(0o777)


@pytest.mark.parametrize("attack", [make_link, make_open, make_foreign, make_file, make_below_an_open_one])
def test_what_others_prepared_is_not_taken_nor_touched(short: Path, attack: object) -> None:
    assert callable(attack)
    there = short / "there"
    there.mkdir(mode=0o700)
    attack(there / "run")
    before = sorted(there.rglob("*"))
    assert private_folder([there / "run", short / "second"]) == short / "second"
    assert sorted(there.rglob("*")) == before
    with pytest.raises(UsageError, match="no folder is private to this user"):
        private_folder([there / "run"])


def test_a_folder_with_too_long_a_name_is_passed_over(short: Path) -> None:
    long = short / ("x" * LONGEST_PATH)
    assert runtime_folder([long, short / "run"]) == short / "run"
    with pytest.raises(UsageError, match="is too long"):
        runtime_folder([long])
    address = UnixAddress(short / "run", KEY)
    listening = address.listen()
    address.connect().close()
    listening.close()


def test_what_makes_another_model_makes_another_name(monkeypatch: pytest.MonkeyPatch, short: Path) -> None:
    here = Settings()
    keys = {
        key_of(here, "1"),
        key_of(here, "2"),
        key_of(Settings(model="other"), "1"),
        key_of(Settings(threads=1), "1"),
        key_of(Settings(engine="cpu-int8"), "1"),
    }
    monkeypatch.setenv("FASTCODER_CACHE", str(short))
    assert len(keys | {key_of(here, "1")}) == 6
    assert key_of(Settings(read_exclude=("x",), drafter="none", log_level="debug"), "1") == key_of(here, "1")
    assert address_of(here, "1", [short / "run"]).key == key_of(here, "1")


def test_a_socket_that_is_not_this_users_is_not_spoken_to(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = UnixAddress(short, KEY)
    listening = address.listen()
    os.chown(address.path, 12_345, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(FileNotFoundError):
        address.connect()
    listening.close()


def test_a_link_in_the_place_of_a_socket_is_not_followed(short: Path) -> None:
    real, link = UnixAddress(short, "r" * 16), UnixAddress(short, KEY)
    listening = real.listen()
    link.path.symlink_to(real.path)
    with pytest.raises(FileNotFoundError):
        link.connect()
    listening.close()


def test_another_users_process_is_told_apart(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    assert peer_user(one) == os.geteuid()
    address = UnixAddress(short, KEY)
    listening = address.listen()
    connected = address.connect()
    accepted = listening.accept()
    listening.admit(accepted)
    monkeypatch.setattr("fastcoder_lsp.host.listening.peer_user", lambda _: os.geteuid() + 1)
    with pytest.raises(ForeignError):
        listening.admit(accepted)
    with pytest.raises(ForeignError):
        address.connect()
    for opened in (one, other, connected, accepted):
        opened.close()
    listening.close()


def test_a_host_that_ends_takes_only_its_own_socket_away(short: Path) -> None:
    address = UnixAddress(short, KEY)
    first = address.listen()
    second = address.listen()  # the first one's lock was lost
    first.close()
    address.connect().close()
    second.close()
    assert not address.path.exists()


def test_on_loopback_a_connection_needs_the_token(short: Path) -> None:
    address = LoopbackAddress(short, KEY)
    listening = address.listen()
    assert stat.S_IMODE(address.path.stat().st_mode) == 0o600
    port = int(address.path.read_text().split()[0])
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        accepted = listening.accept()
        stranger.sendall(b"x" * 64)
        with pytest.raises(OSError, match="token"):
            listening.admit(accepted)
        accepted.close()
    listening.close()
    assert not address.path.exists()

    # Somebody else took the dead host's port, and waits for fronts.
    with socket.create_server(("127.0.0.1", 0)) as thief:
        address.path.write_text(f"{thief.getsockname()[1]} {'0' * 64}")
        thief.settimeout(60)
        caught: list[bytes] = []

        def steal() -> None:
            connected, _ = thief.accept()
            with connected:
                connected.sendall(b"y" * 64)
                while piece := connected.recv(1000):
                    caught.append(piece)

        thread = threading.Thread(target=steal)
        thread.start()
        with pytest.raises(ForeignError):
            address.connect()
        thread.join()
    assert b"0" * 64 not in b"".join(caught)


def test_a_host_gets_only_the_environment_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SSH_AUTH_SOCK",
        "GITHUB_TOKEN",
        "VSCODE_IPC_HOOK",
        "PYTHONSTARTUP",
        "LD_PRELOAD",
        "AWS_SECRET_ACCESS_KEY",
    ):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("FASTCODER_CACHE", "/somewhere")
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("FASTCODER_OWN_API_KEY", "secret")
    environment = host_environment()
    assert "secret" not in environment.values()
    assert environment["FASTCODER_CACHE"] == "/somewhere"
    assert environment["PATH"] == os.environ["PATH"]


def test_environments_with_other_models_share_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says where models are, and on what they run; what it says of a terminal is no matter."""
    before = key_of(Settings(), "test")
    monkeypatch.setenv("XDG_SESSION_ID", "17")
    assert key_of(Settings(), "test") == before
    monkeypatch.setenv("HF_HOME", "/elsewhere")
    assert key_of(Settings(), "test") != before


def test_a_folder_that_cannot_be_listed_ends_no_host(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many files open as may be, its files are seen to the next time."""
    lock = short / f"{KEY}.host.lock"
    lock.touch()
    os.utime(lock, (1.0, 1.0))

    def refused(_folder: Path, _pattern: str) -> Iterator[Path]:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as full:
        full.setattr(Path, "glob", refused)
        keep_known(UnixAddress(short, KEY))
    assert lock.stat().st_mtime == 1.0
    keep_known(UnixAddress(short, KEY))
    assert lock.stat().st_mtime > 1.0


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything can be written to")
def test_a_folder_that_cannot_be_written_to_is_not_taken(short: Path) -> None:
    (short / "first").mkdir(mode=0o500)
    assert private_folder([short / "first", short / "second"]) == short / "second"
