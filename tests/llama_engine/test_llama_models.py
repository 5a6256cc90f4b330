"""GGUFs that only llama.cpp runs: their tokenizer, marks, cache and slots, and what is said of them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fastcoder_lsp import engine as engines
from fastcoder_lsp.cli.doctor.machine import _gpu_without_torch
from fastcoder_lsp.config import Settings
from fastcoder_lsp.engine import loader as engine_loader
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.trial import TrialResult, compare
from fastcoder_lsp.errors import ModelInvalidError, ResourceError, UsageError
from fastcoder_lsp.llama_engine import library
from fastcoder_lsp.llama_engine import loader as llama_loader
from fastcoder_lsp.llama_engine.faults import CrashRecord
from fastcoder_lsp.llama_engine.vocabulary import read
from fastcoder_lsp.model.files import ModelFiles
from fastcoder_lsp.prompt import template_of
from fastcoder_lsp.runtime.costs import believable, measure
from fastcoder_lsp.runtime.edit_model import load_edit_model
from fastcoder_lsp.runtime.load import load_model
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine.tiny_models import make_model
from tests.llama_engine.conftest import OpenTiny
from tests.llama_engine.tiny_ggufs import KINDS, write_kind
from tests.prompt.toy_tokenizers import SAMPLE

TEXT = SAMPLE[:2000] + "<|fim_prefix|> ß 語 \U0001f642 \x00 abab\r\n\t"


def ignore(_share: float, _what: str) -> None:
    pass


def test_a_tokenizer_of_the_library_reads_as_ours_does(tiny: Callable[..., ModelFiles]) -> None:
    files = tiny("qwen2")
    ours = Tokenizer.load(files.folder)
    made, encoder = read(files.folder)
    assert encoder.encode(TEXT, add_special_tokens=False).ids == ours.encode(TEXT)
    assert dict(made.control) == dict(ours.control)
    assert made.pieces == b"".join(map(ours.piece, range(ours.vocabulary)))


def test_an_unknown_tokenizer_is_the_librarys(tiny: Callable[..., ModelFiles]) -> None:
    tokenizer = Tokenizer.load(tiny("qwen35", pre="qwen35").folder)
    ids = tokenizer.encode(TEXT)
    assert tokenizer.decode(ids) == TEXT
    assert not tokenizer.end_ids & set(ids)
    assert template_of(tokenizer).middle == "<|fim_middle|>"
    assert tokenizer.encode_many(["ab", "c"]) == [tokenizer.encode("ab"), tokenizer.encode("c")]


@pytest.mark.parametrize("pre", ["gpt-2", "glm4"])
def test_marks_of_an_unknown_family_are_those_that_the_library_knows(pre: str, tiny: Callable[..., ModelFiles]) -> None:
    template = template_of(Tokenizer.load(tiny("qwen35", pre=pre, marks="code").folder))
    assert template.marks == ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>")


def test_auto_takes_it_for_models_that_our_kernels_do_not_run(open_tiny: OpenTiny) -> None:
    for kind in KINDS:
        engine = open_tiny(kind, kind="auto")
        assert (engine.info.name == "llama") is (kind not in ("qwen2", "qwen3")), kind


@pytest.mark.parametrize("chosen", ["cpu-int8", "llama"])
def test_auto_takes_it_for_a_gpu_that_a_trial_finds_quicker(
    chosen: str, open_tiny: OpenTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def choose(_job: LoadJob, machine: str, *, kinds: tuple[str, str]) -> TrialResult:
        asked.append((machine, kinds))
        return TrialResult(chosen, f"{chosen} is quicker", {})

    monkeypatch.setattr(llama_loader, "gpu_name", lambda: "a GPU")
    monkeypatch.setattr(engine_loader, "choose_engine", choose)
    engine = open_tiny("qwen3", kind="auto")
    assert engine.info.name == chosen
    assert engine.info.notes[0] == f"{chosen} is quicker"
    assert asked == [("a GPU", ("cpu-int8", "llama"))]


def test_a_trial_times_it(tiny: Callable[..., ModelFiles], tmp_path: Path) -> None:
    options = engines.EngineOptions(context=256, threads=1)
    found = compare(LoadJob.of(tiny("qwen3"), options, tmp_path, tmp_path, ignore), ("cpu-fp32", "llama"))
    assert [name.partition(",")[0] for name in found.ms] == ["cpu-fp32"] * 3 + ["llama"] * 3


def test_a_trial_is_of_the_gpu_that_the_library_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "can_use_gpu", lambda: False)
    assert not library.gpu_name()
    monkeypatch.setattr(library, "can_use_gpu", lambda: True)
    monkeypatch.setattr(library, "_GPU_KINDS", (0,))  # a CPU's name is asked for in the same way
    version, _, name = library.gpu_name().partition(" ")
    assert version == library.library_version()
    assert name
    assert name in _gpu_without_torch().text


def test_it_says_where_drafts_may_change_the_text(open_tiny: OpenTiny) -> None:
    free, strict = open_tiny("qwen3", llama_strict=False), open_tiny("qwen3")
    assert "llama.strict is off" in free.info.notes[0]
    assert free.info.device != strict.info.device  # what one's steps cost is not the other's
    assert "drafts are off" in open_tiny("qwen35").info.notes[0]
    assert strict.info.notes == ()


def test_a_model_without_marks_is_refused(tiny: Callable[..., ModelFiles], tiny_folder: Path) -> None:
    tiny("gemma3", marks="extra")
    path = tiny_folder / "gemma3extra.gguf"
    with pytest.raises(ModelInvalidError, match="no marks for infilling"):
        load_model(Settings(model=str(path), engine="llama"), ignore, recorded=False)


def test_a_model_that_does_not_write_from_left_to_right_is_refused(open_tiny: OpenTiny) -> None:
    with pytest.raises(ModelInvalidError, match="does not write from left to right"):
        open_tiny("dream")


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_of_every_kind_can_be_timed(kind: str, open_tiny: OpenTiny) -> None:
    assert believable(measure(open_tiny(kind)))


def test_a_model_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    files = ModelFiles("tiny", make_model(tmp_path / "model", "qwen2"), "test", "", "digest")
    with pytest.raises(UsageError, match="runs GGUF files"):
        engines.load(files, engines.EngineOptions(kind="llama"), cache=tmp_path, progress=ignore)


def test_a_damaged_file_is_an_error_with_the_librarys_words(tiny: Callable[..., ModelFiles], tmp_path: Path) -> None:
    files = tiny("mellum")
    (tmp_path / "config.json").write_bytes((files.folder / "config.json").read_bytes())
    (tmp_path / "origin.json").write_text('{"gguf": "weights.gguf"}', encoding="utf-8")
    (tmp_path / "weights.gguf").write_bytes(b"GGUF" + bytes(60))
    damaged = ModelFiles("tiny", tmp_path, "test", "", "damaged")
    with pytest.raises(ModelInvalidError, match=r"llama\.cpp cannot load"):
        engines.load(damaged, engines.EngineOptions(kind="llama"), cache=tmp_path, progress=ignore)


@pytest.mark.parametrize("name", ["sweep-next-edit-0.5b", "zeta-2"])
def test_it_runs_edit_models(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    path = write_kind(tmp_path / f"{name}.gguf", "qwen2")
    settings = Settings(engine="llama", llama_strict=False, edits_model=str(path), threads=1)
    model = load_edit_model(settings, threading.Event())
    assert model.engines.info.name == "llama"
    assert "llama.strict is off" in model.engines.info.notes[0]
    assert name.startswith(model.format.name.removesuffix("-v1"))
    model.engines.close()


def test_documents_have_caches_of_their_own(tiny: Callable[..., ModelFiles], tiny_folder: Path) -> None:
    options = engines.EngineOptions(kind="llama", context=256, threads=1, kv_mb=2)
    several = engines.load_engines(tiny("qwen3"), options, cache=tiny_folder / "cache", progress=ignore)
    text = list(range(120))
    one, two = several.slot("one"), several.slot("two")
    assert one.prefill(text, lambda: False).computed == 120
    assert two.prefill([*text[:100], 7, 8, 9], lambda: False).reused == 100
    assert one.cached() == tuple(text)
    spare = several.second_cache("one")
    assert spare is not None
    assert spare.prefill([*text, 5], lambda: False).reused == 120
    several.exchange("one")
    assert several.slot("one").cached() == (*text, 5)
    stopped = two.prefill(list(range(50, 250)), lambda: True)
    assert (stopped.computed, stopped.done) == (0, False)
    several.close()


def test_a_model_that_crashed_the_library_twice_is_refused(tiny: Callable[..., ModelFiles], tmp_path: Path) -> None:
    files = tiny("granitehybrid", crashes=True)
    program = (
        "import sys; from pathlib import Path; from fastcoder_lsp import engine\n"
        "from fastcoder_lsp.model.files import ModelFiles\n"
        "files = ModelFiles('tiny', Path(sys.argv[1]), 'test', '', sys.argv[2])\n"
        "options = engine.EngineOptions(kind='llama')\n"
        "engine.load(files, options, cache=Path(sys.argv[3]), progress=lambda *_: None)\n"
    )
    for _ in range(2):
        command = [sys.executable, "-c", program, str(files.folder), files.digest, str(tmp_path)]
        ended = subprocess.run(command, check=False, capture_output=True)
        assert ended.returncode == -signal.SIGABRT
        assert ended.stdout == b""
    with pytest.raises(ResourceError, match=r"crashed 2 times with this model: .*d_inner"):
        engines.load(files, engines.EngineOptions(kind="llama"), cache=tmp_path, progress=ignore)


def test_a_crash_is_of_the_model_that_computed(tiny: Callable[..., ModelFiles], tmp_path: Path) -> None:
    program = (
        "import ctypes, sys; from pathlib import Path; from fastcoder_lsp import engine\n"
        "from fastcoder_lsp.llama_engine import backend; from fastcoder_lsp.model.files import ModelFiles\n"
        "cache, options = Path(sys.argv[1]), engine.EngineOptions(kind='llama', context=256, threads=1)\n"
        "files = (ModelFiles('tiny', Path(each), 'test', '', f'{at}') for at, each in enumerate(sys.argv[2:]))\n"
        "first, _ = [engine.load(each, options, cache=cache, progress=lambda *_: None) for each in files]\n"
        "backend.api.llama_decode = lambda *_: ctypes.string_at(0)\n"
        "first.prefill([1, 2, 3], lambda: False)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), *(str(tiny(kind).folder) for kind in ("qwen2", "qwen3"))]
    ended = subprocess.run(command, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGSEGV
    crashes = [CrashRecord.of(tmp_path, f"{library.library_version()} {number}") for number in range(2)]
    assert ["Segmentation fault" in each.path.read_text() for each in crashes] == [True, False]


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ("ctypes.CDLL('libstdc++.so.6')._ZSt9terminatev()", "Aborted"),
        ("ctypes.string_at(0)", "Segmentation fault"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="names glibc's C++ runtime")
def test_every_fatal_signal_is_recorded_as_a_crash(ends: str, reason: str, tmp_path: Path) -> None:
    program = (
        "import ctypes, sys; from pathlib import Path; from fastcoder_lsp.llama_engine.faults import CrashRecord\n"
        f"kept = CrashRecord.of(Path(sys.argv[1]), 'model').watch()\nkept()\n{ends}\n"
    )
    for _ in range(2):
        CrashRecord.of(tmp_path, "model").check()
        ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, capture_output=True)
        assert ended.returncode < 0
        assert ended.stdout == b""
    record = CrashRecord.of(tmp_path, "model")
    with pytest.raises(ResourceError, match=f"crashed 2 times with this model: {reason}"):
        record.check()
    os.utime(record.path, (0, 0))
    record.check()
