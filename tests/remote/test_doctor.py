"""`fastcoder-lsp doctor --remote`: what goes where, and whether anybody answers there."""

from pathlib import Path

import pytest

from fastcoder_lsp.cli.doctor import check_remote
from fastcoder_lsp.cli.doctor.model import SAMPLE
from fastcoder_lsp.config import Settings, resolve
from fastcoder_lsp.config.resolve import SettingsLayer
from tests.remote.scripted_server import LlamaServer, Reply, Request, Serve, as_json, event, events_head


def settings(url: str, **more: str) -> Settings:
    values = {"remote.url": url, **{f"remote.{name}": value for name, value in more.items()}}
    return resolve([SettingsLayer("command line", values, trusted=True)])[0]


def test_it_says_what_goes_where(serve: Serve) -> None:
    server = serve(LlamaServer(lambda _: "numbers[-1])\n"))
    leaves, answers = check_remote(settings(server.url))
    assert (leaves.state, answers.state) == ("ok", "ok")
    assert "8,000 characters before the cursor" in leaves.text
    assert answers.text == "llama.cpp, with toy-gguf, completed a sample"
    assert answers.details["completion"] == "numbers[-1])\n"
    body = server.asked("/infill")[0].body
    assert body["input_prefix"] + body["prompt"] == SAMPLE
    named = list(check_remote(settings(server.url.replace("127.0.0.1", "0.0.0.0"), allow="0.0.0.0")))
    assert (named[0].state, named[1].state) == ("note", "ok")


@pytest.mark.parametrize(
    ("url", "code"), [("https://models.example", "remote-unallowed"), ("models", "remote-setting")]
)
def test_what_may_not_be_asked_is_wrong(url: str, code: str) -> None:
    (check,) = check_remote(settings(url))
    assert (check.state, check.details["code"]) == ("wrong", code)
    assert check.hint


def test_a_server_that_fails_is_wrong(serve: Serve) -> None:
    server = serve(lambda _: iter([as_json({"error": "no key"}, 401)]))
    leaves, answers = check_remote(settings(server.url))
    assert (leaves.state, answers.state, answers.details["code"]) == ("ok", "wrong", "remote-key")
    server.handler = LlamaServer(lambda _: "")
    assert [check.state for check in check_remote(settings(server.url))] == ["ok", "wrong"]


def test_a_server_that_speaks_for_ever_is_left(serve: Serve) -> None:
    def for_ever(request: Request) -> Reply:
        if request.path != "/infill":
            yield from LlamaServer(lambda _: "")(request)
            return
        yield events_head()
        while True:
            yield event({"content": "numbers", "stop": False})

    _, answers = check_remote(settings(serve(for_ever).url))
    assert answers.state == "ok"
    assert len(str(answers.details["completion"])) < 1000


def test_what_failed_is_said_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    from fastcoder_lsp.cli.main import main

    assert main(["doctor", "--remote", "https://models.example", "--model", "/nowhere/at/all"]) == 1
    *_, check, hint, _, summary = capsys.readouterr().out.splitlines()
    assert check.startswith("✗ remote ")
    assert hint.lstrip().startswith("→ ")
    assert summary.endswith("model, remote.")


def test_a_report_names_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is attached to an issue that everybody reads."""
    from fastcoder_lsp.cli.main import main

    report = tmp_path / "report.json"
    url = "https://models.company.example/v1"
    main(["doctor", "--report", str(report), "--remote", url, "--model", "/nowhere/at/all"])
    assert "models.company.example" in capsys.readouterr().out
    assert "remote-unallowed" in report.read_text()
    assert "company" not in report.read_text()
