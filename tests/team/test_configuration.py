"""The one file: what it says holds, and what it says wrong is said by its name."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.team.autoscaling import FIRST_TEXT, ScalingPolicy, wanted
from fastcoder_lsp.team.configuration import TeamConfig, parse_config, read_config

HERE = Path("/etc/fastcoder")


def test_nothing_said_is_two_replicas_on_loopback() -> None:
    config = parse_config("", HERE)
    assert (config.listen.host, config.replicas.least, config.most_replicas, config.keys) == ("127.0.0.1", 2, 2, "")
    assert not config.repositories
    assert not config.settings().index_enabled


def test_what_is_said_holds() -> None:
    text = """
    keys = "keys.json"
    [model]
    engine = "cpu-int8"
    "memory.kv_mb" = 300
    [replicas]
    least = 2
    most = 5
    [limits]
    open = 4
    [records]
    requests = "/var/log/requests.jsonl"
    """
    config = parse_config(text, HERE)
    assert config.keys == "/etc/fastcoder/keys.json"
    assert config.records.requests == "/var/log/requests.jsonl"
    assert (config.most_replicas, config.limits.open) == (5, 4)
    assert config.settings().engine == "cpu-int8"


@pytest.mark.parametrize(
    ("text", "at_a_time"),
    [
        ("least = 2", 1),
        ("least = 3\nat_once = 2", 2),
        ("least = 3\nat_once = 3", 3),
        ("least = 7\nat_once = 100", 7),
        ("least = 2\nsurge = false\nat_once = 2", 0),
    ],
)
def test_an_upgrade_begins_so_many_at_a_time(text: str, at_a_time: int) -> None:
    """Serve takes a share of all, of which it makes whole replicas, upwards; of a great many it is at least one."""
    replicas = parse_config(f"[replicas]\n{text}", HERE).replicas
    assert math.ceil(replicas.surge_percent * replicas.least / 100) == at_a_time
    assert parse_config("[replicas]\nleast = 1000", HERE).replicas.surge_percent == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen = 3", "listen"),
        ("[listen]\nprot = 3", "prot"),
        ("[replicas]\nleast = 0", "replicas.least"),
        ('[replicas]\nleast = "two"', "replicas.least"),
        ("[replicas]\nleast = 3\nmost = 2", "replicas.most"),
        ("[limits]\na_minute = 0", "limits.a_minute"),
        ('[model]\nengine = "steam"', "engine"),
        ("[model]\nmodels = 3", "models"),
        ('[[repositories]]\nname = "../x"\nurl = "https://example.org/x"', "repositories"),
        ("[[repositories]]\nname = 'x'\nurl = 'https://e.org/x'\n[[repositories]]\nname = 'x'\nurl = 'y'", "same name"),
        ("[listen", "team.toml"),
    ],
)
def test_what_is_wrong_is_said_by_its_name(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"team\.toml") as error:
        parse_config(text, HERE)
    assert said in str(error.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_config(tmp_path / "team.toml")


def test_off_loopback_it_takes_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["team", "--host", "0.0.0.0"]) == 2
    assert "--keys" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("replicas", "requests", "first_text_ms", "expected"),
    [
        (2, 0.0, 0.0, 0),  # nobody asks: as few as there may be
        (2, 6.0, 300.0, 2),  # as many open as aimed at
        (2, 7.0, 300.0, 3),  # more
        (2, 3.0, 900.0, 3),  # few open, but slow: half more for half more time
        (2, 2.0, 900.0, 1),  # slow with one open each: the machine is, and more replicas would not help
        (2, 90.0, 9000.0, 4),  # never more than twice as many at once
    ],
)
def test_how_many_replicas_are_wanted(replicas: int, requests: float, first_text_ms: float, expected: int) -> None:
    number = wanted(replicas, requests, target_open=3.0, first_text_ms=first_text_ms, target_ms=600.0)
    assert number == expected


def test_serve_is_told_a_number_within_its_bounds() -> None:
    context = SimpleNamespace(
        current_num_replicas=2,
        total_num_requests=4.0,
        aggregated_metrics={FIRST_TEXT: {"a": 100.0, "b": 900.0}},
        capacity_adjusted_min_replicas=2,
        capacity_adjusted_max_replicas=8,
    )
    assert ScalingPolicy(3.0, 600.0)(context) == (3, {})
    context.total_num_requests = 0.0
    assert ScalingPolicy(3.0, 600.0)(context) == (2, {})


def test_a_configuration_travels() -> None:
    """Serve hands it to other processes as it is."""
    import pickle

    config = parse_config("[replicas]\nleast = 3", HERE)
    again: TeamConfig = pickle.loads(pickle.dumps(config))
    assert again == config
