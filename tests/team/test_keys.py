"""Keys: made once, hashed at rest, revoked at once; and the limits of each."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.team.keys import KeyFile, Ledger


def test_a_key_opens_until_it_is_revoked(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    door, office = KeyFile(path), KeyFile(path)
    assert door.find("fck_00000000_x", 0.0) is None
    key = office.add("ada")
    assert (found := door.find(key, 10.0)) is not None
    assert found.name == "ada"
    office.revoke("ada")
    assert door.find(key, 20.0) is None


def test_the_file_tells_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = KeyFile(path)
    made = [keys.add(name) for name in ("ada", "ben")]
    text = path.read_text(encoding="utf-8")
    assert not any(key.rpartition("_")[2] in text for key in made)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len({key.salt for key in keys.load()}) == 2


def test_what_is_no_key_opens_nothing(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    ada, ben = keys.add("ada"), keys.add("ben")
    mixed = "_".join([*ada.split("_")[:2], ben.split("_")[2]])
    for wrong in ("", "fck", "fck__", mixed, ada[:-1], f"{ada}a", ada.replace("fck", "fcx"), ada.upper(), "é_é_é"):
        assert keys.find(wrong, 10.0) is None, wrong
    assert keys.find(ben, 10.0) is not None


@pytest.mark.parametrize("text", ["", "{}", '{"version":1,"keys":[{"id":"x"}]}', '{"version":1,"keys":[],"more":1}'])
def test_a_damaged_file_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(UsageError, match="cannot be used"):
        KeyFile(path).load()


def test_a_damaged_key_file_admits_no_client_between_reads(tmp_path: Path) -> None:
    """By the keys that it held before: one of them may have been revoked."""
    path = tmp_path / "keys.json"
    keys = KeyFile(path)
    ada = keys.add("ada")
    assert keys.find(ada, 10.0) is not None
    good = path.read_bytes()
    path.write_bytes(good[:20])
    for now_s in (20.0, 20.5, 20.9):
        with pytest.raises(UsageError, match="cannot be used"):
            keys.find(ada, now_s)
    path.write_bytes(good)
    assert keys.find(ada, 30.0) is not None


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    KeyFile(path).add("ada")
    path.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        KeyFile(path).load()


def test_the_command_makes_lists_and_revokes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ["--keys", str(tmp_path / "keys.json")]
    assert main(["team", "key", "add", "ada", "--open", "3", "--repository", "core", *file]) == 0
    key = capsys.readouterr().out.strip()
    assert key.startswith("fck_")
    assert main(["team", "key", "add", "ada", *file]) == 2
    assert main(["team", "key", "list", *file]) == 0
    listed = capsys.readouterr().out
    assert "ada" in listed
    assert "open 3" in listed
    assert "core" in listed
    assert key.rpartition("_")[2] not in listed
    assert main(["team", "key", "revoke", "ada", *file]) == 0
    assert main(["team", "key", "revoke", "ada", *file]) == 2


@given(st.lists(st.floats(0.0, 5.0), max_size=60), st.integers(1, 600))
def test_a_minute_never_sees_more_than_its_requests(pauses: list[float], a_minute: int) -> None:
    ledger, now_s, taken = Ledger(), 0.0, list[float]()
    for pause in pauses:
        now_s += pause
        refusal = ledger.enter("ada", most_open=1000, a_minute=a_minute, now_s=now_s)
        if refusal is None:
            taken.append(now_s)
        else:
            assert refusal.after_s >= 1
            again = now_s + refusal.after_s
            assert Ledger.enter(_copy(ledger), "ada", most_open=1000, a_minute=a_minute, now_s=again) is None
    for first, begun in enumerate(taken):
        for last in range(first, len(taken)):
            allowed = max(1.0, 0.2 * a_minute) + (taken[last] - begun) * a_minute / 60.0
            assert last - first + 1 <= allowed + 1e-6


def _copy(ledger: Ledger) -> Ledger:
    import copy

    return copy.deepcopy(ledger)


def test_open_requests_are_bounded_by_key() -> None:
    ledger = Ledger()
    asks = {"most_open": 2, "a_minute": 10_000, "now_s": 0.0}
    assert [ledger.enter("ada", **asks) is None for _ in range(3)] == [True, True, False]  # type: ignore[arg-type]
    assert ledger.enter("ben", **asks) is None  # type: ignore[arg-type]
    ledger.leave("ada")
    assert ledger.enter("ada", **asks) is None  # type: ignore[arg-type]
