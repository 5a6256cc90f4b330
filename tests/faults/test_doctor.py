"""`doctor` under every fault: it names it, says what to do, and survives; people run it when nothing else does."""

import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.cli.doctor import check_last_start
from fastcoder_lsp.cli.doctor.check import Check, show
from fastcoder_lsp.cli.doctor.machine import check_cache, check_indexes, check_kernels
from fastcoder_lsp.config import Settings
from fastcoder_lsp.errors import ModelMissingError
from fastcoder_lsp.runtime.costs import CONTEXT_TOKENS
from fastcoder_lsp.runtime.start_record import StartRecord, start_path
from tests.faults.stranger import Ended, Stranger

NO_MODEL = ("doctor", "--json", "--model", "./nothing")
"""Looks at everything but the model: seconds less."""


def found(ended: Ended) -> dict[str, Any]:
    """Checks by name; of several of one name the last."""
    return {check["name"]: check for check in json.loads(ended.out)["checks"]}


def test_all_is_right_with_a_model_that_is_whole(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("--model", str(stranger.model), "--engine", "cpu-fp32", "--json")
    checks = found(stranger.run("doctor", *arguments))
    wrong = {name for name, check in checks.items() if check["state"] == "wrong"}
    assert not wrong - {"memory", "cache"}, checks  # the machine of the test may have little of both
    assert checks["completion"]["details"]["engine"] == "cpu-fp32"
    assert 0 <= checks["completion"]["details"]["context_tokens"] <= CONTEXT_TOKENS
    assert "last start" not in checks
    monkeypatch.setenv("FASTCODER_CACHE", str(stranger.cache))
    start = next(iter(check_last_start(Settings())))
    assert (start.state, start.details["state"]) == ("ok", "ready")


@pytest.mark.ci
def test_many_faults_at_once_are_each_named(stranger: Stranger, explanations: dict[str, str]) -> None:
    cache, stranger.environment = stranger.cache, {"FASTCODER_KERNELS": ""}
    assert stranger.run(*stranger.completion).code == ModelMissingError.exit_code
    (cache / "kernels").mkdir(exist_ok=True)
    (cache / "kernels").chmod(0o777)
    index = cache / "index" / "0123" / "4567"
    index.mkdir(parents=True)
    (index / "manifest.json").write_text("{")
    for folder, name in (
        ("models/gguf", "some.gguf.partial"),
        ("models/work/convert-1-abcdefgh", "weights"),
        ("int4", "a.partial"),
        ("int8", "a.partial"),
    ):
        (cache / folder).mkdir(parents=True, exist_ok=True)
        (cache / folder / name).write_bytes(bytes(5000))
    ended = stranger.run(*NO_MODEL)
    checks = found(ended)
    assert ended.code == 1
    for name, text, hint in (
        ("kernels", "other users can write to", "chmod go-w"),
        ("indexes", "1 of 1 index damaged", "rebuilds an index"),
        ("download", "some.gguf.partial 5 kB", "fastcoder-lsp model pull"),
        ("unfinished", "15 kB of unfinished conversions", "next start deletes"),
        ("last start", "failed", "fastcoder-lsp model pull"),
        ("model", "nothing", "Name a folder"),
    ):
        assert text in checks[name]["text"], checks[name]
        assert hint in checks[name]["hint"], checks[name]
        explanations[f"doctor: {name}"] = checks[name]["text"]
    assert (cache / "models" / "gguf" / "some.gguf.partial").exists(), "doctor changes nothing"
    assert (cache / "models" / "work" / "convert-1-abcdefgh").exists()


def test_damaged_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, explanations: dict[str, str]) -> None:
    kernels = tmp_path / "kernels" / "1"
    kernels.mkdir(parents=True, mode=0o700)
    kernels.parent.chmod(0o700)
    (kernels / "search.kernel").write_bytes(b"fastcoder kernel 1\n" + bytes(100))
    index = tmp_path / "index" / "0123" / "4567"
    index.mkdir(parents=True)
    body = {"identity": "a", "source": "b", "generation": 1, "segments": [{"name": "1.seg", "dead": []}]}
    text = json.dumps(body | {"complete": True})
    frame = {"version": 1, "crc": zlib.crc32(text.encode()), "body": text}
    (index / "manifest.json").write_text(json.dumps(frame))
    (index / "1.seg").write_bytes(b"FCLSPSEG" + bytes(20))
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    monkeypatch.delenv("FASTCODER_KERNELS", raising=False)
    [of_kernels], [of_indexes] = check_kernels(), check_indexes()
    assert "1 of 1 compiled function damaged: search.kernel" in of_kernels.text
    assert "compiles them again" in of_kernels.hint
    assert "1.seg is cut short" in of_indexes.text
    explanations["damaged kernels"], explanations["damaged index"] = (of_kernels.text, of_indexes.text)


def test_no_free_watches(stranger: Stranger, explanations: dict[str, str]) -> None:
    said = stranger.looked_after("echo 0 >/proc/sys/user/max_inotify_instances", "machine.check_watches")
    assert "state='wrong'" in said
    assert "few are left" in said
    assert "sysctl fs.inotify" in said
    explanations["no watches"] = said


@pytest.mark.ci
@pytest.mark.parametrize("package", ["numba", "torch"])
def test_a_broken_package(stranger: Stranger, package: str, explanations: dict[str, str]) -> None:
    broken = stranger.folder / "broken" / package
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text('raise ImportError("libbroken.so: cannot open shared object file")\n')
    variables = dict(stranger.variables())
    variables["PYTHONPATH"] = f"{broken.parent}{os.pathsep}{variables['PYTHONPATH']}"
    ended = stranger.run(*NO_MODEL, variables=variables)
    checks = found(ended)
    name = "torch" if package == "torch" else "packages"
    assert f"{package} cannot be loaded" in checks[name]["text"]
    assert "scripts/run" in checks[name]["hint"]
    assert "model" in checks, "it went on to the end"
    if package != "torch":
        assert checks[name]["state"] == "wrong"
    ended = stranger.run(*stranger.completion, "--model", str(stranger.model), variables=variables)
    assert ended.code != 0
    assert "libbroken.so" in ended.err
    explanations[f"broken {package}"] = ended.explanation


def test_a_full_disk_and_a_closed_cache(stranger: Stranger) -> None:
    full = f"mount -t tmpfs -o size=64k,mode=700 none {stranger.cache}"
    closed = f"mount --bind {stranger.cache} {stranger.cache} && mount -o remount,ro,bind {stranger.cache}"
    for setup, text in ((full, "nearly full"), (closed, "not writable")):
        said = stranger.looked_after(setup, "(lambda: [machine.check_cache()])")
        assert "state='wrong'" in said
        assert text in said


def test_each_folder_that_is_not_writable_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    (tmp_path / "models").mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and access(path, mode))
    assert check_cache().text.endswith(f"; {tmp_path} is not writable")
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    check = check_cache()
    assert check.text.endswith(f"; these are not writable:\n{tmp_path}\n{tmp_path / 'models'}")
    show(check)
    shown = capsys.readouterr().out.split("\n")
    assert shown[1:3] == [f"{'':16}{tmp_path}", f"{'':16}{tmp_path / 'models'}"]
    show(Check("python", "ok", "3.11"))
    assert capsys.readouterr().out == "✓ python        3.11\n"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is there on Linux only")
def test_a_cache_in_a_system_folder_is_no_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", "/proc/fastcoder")
    monkeypatch.setattr(os, "access", lambda _path, _mode: True)
    check = check_cache()
    assert (check.state, check.text) == ("wrong", "/proc has no space for files")


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache" / "fastcoder"))
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    check = check_cache()
    assert (check.state, check.text) == (
        "wrong",
        f"{tmp_path / 'cache' / 'fastcoder'} cannot be created: {tmp_path} is not writable",
    )
    assert check.hint.startswith(f"Make {tmp_path / 'cache' / 'fastcoder'} and")


def test_a_start_that_was_killed_is_told_from_one_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its process, and by when that began: numbers of processes come again."""
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    record = StartRecord(tmp_path, "auto")
    record.enter("weights")
    [check] = check_last_start(Settings())
    assert (check.state, "now: weights" in check.text) == ("note", True)
    row = json.loads(start_path(tmp_path).read_text())
    start_path(tmp_path).write_text(json.dumps(row | {"process": 999_999_999}))
    [check] = check_last_start(Settings())
    assert check.state == "wrong"
    assert "its process ended during “weights”" in check.text
    assert "Start it again" in check.hint
    start_path(tmp_path).write_text(json.dumps(row | {"began": 1000.0}))
    [check] = check_last_start(Settings())
    assert check.state == "wrong", "a process that began later is another one"
    start_path(tmp_path).write_text("{")
    assert list(check_last_start(Settings())) == []


def test_a_failed_start_of_another_model_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    StartRecord(tmp_path, "./other").end("failed", "it has no marks", "Choose another model.")
    for model, state in (("auto", "note"), ("./other", "wrong")):
        [check] = check_last_start(Settings(model=model))
        assert (check.state, check.hint) == (state, "Choose another model.")
