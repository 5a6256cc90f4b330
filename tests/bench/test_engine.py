"""`bench engine` without torch."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from fastcoder_lsp.bench import engine
from fastcoder_lsp.engine.int8.dot import AVX2, PLAIN, kinds_here, kinds_of_cpu
from fastcoder_lsp.errors import UsageError


def test_weights_are_unpacked_only_where_an_option_allows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "missing_packages", lambda *_: ())
    monkeypatch.setattr(engine, "unpacked_bytes", lambda _folder: 2_500_000_000)
    for options, compared, said in (
        (engine.Options(), False, "run with --transformers: it writes 2.5 GB"),
        (engine.Options(transformers=True), True, "Writing 2.5 GB of unpacked weights to "),
        (engine.Options(no_transformers=True), False, ""),
    ):
        assert engine._compares(Path("converted"), options) == compared
        told = capsys.readouterr().err
        assert said in told
        assert told.count("\n") == bool(said)
    monkeypatch.setattr(engine, "unpacked_bytes", lambda _folder: 0)
    assert engine._compares(Path("converted"), engine.Options())
    assert capsys.readouterr().err == ""


def test_kinds_are_measured_each_in_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment names the kind, and the table has the share of the nearer limit."""
    shares = {"step of 1": 0.5, "step of 64": 0.1}

    def measured(command: list[str], env: dict[str, str], **_: object) -> SimpleNamespace:
        limits = {"limits": {"gb_s": 10.0, "ghz": 3.0, "products": 40.0}, "bandwidth": shares}
        rates = {"step of 1": 4.0, "step of 64": 32.0}
        report = {
            "settings": {"model": "M", "engine": "cpu-int4" if env["FASTCODER_KIND"] == "avx2" else "cpu-int8"},
            "forward_ms": {"1": 5.0, "64": 30.0},
            "prefill_ms": {},
            "limits": limits | {"products": rates},
            "kind": env["FASTCODER_KIND"],
        }
        Path(command[command.index("--json") + 1]).write_text(json.dumps(report), encoding="utf-8")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(engine, "subprocess", SimpleNamespace(run=measured, DEVNULL=None))
    monkeypatch.setattr(engine, "WIDTHS", (1, 64))
    monkeypatch.setattr(engine, "PREFILLS", ())
    monkeypatch.setattr(engine, "kinds_of_cpu", lambda: (AVX2, PLAIN))
    assert engine.run(engine.Options(kinds="all", json=tmp_path / "all.json")) == 0
    printed = capsys.readouterr().out
    assert "50% m" in printed
    assert "80% p" in printed
    assert json.loads((tmp_path / "all.json").read_text())["kinds"]["avx2"]["kind"] == "avx2"
    with pytest.raises(UsageError, match="cannot run 'vnni-512'"):
        engine.run(engine.Options(kinds="avx2,vnni-512"))
    assert "M: cpu-int4; ms" in printed
    assert engine.run(engine.Options(kinds="avx2, plain,avx2")) == 0
    printed = capsys.readouterr().out
    assert "M; ms" in printed
    assert printed.count("cpu-int4") == printed.count("cpu-int8") == 1  # each kind's own precision
    monkeypatch.setattr(engine, "kinds_of_cpu", lambda: (PLAIN,))  # a CPU without any of the fast instructions
    assert engine.run(engine.Options(kinds="all")) == 0
    assert "plain" in capsys.readouterr().out


def test_a_forced_kind_hides_no_other_from_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kinds_of_cpu()
    monkeypatch.setenv("FASTCODER_KIND", "plain")
    assert kinds_of_cpu() == before
    assert kinds_here() == (PLAIN,)
