"""Chosen four-bit weights: kept, found first, judged; never taken unjudged, whatever becomes of who chooses them."""

import dataclasses
import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from filelock import FileLock

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.engine import EngineOptions, calibrated
from fastcoder_lsp.engine.architecture import Shape, fast_shape
from fastcoder_lsp.engine.calibrated import MOST_LOSS, Loss, choose_weights, forget_chosen, known_loss, taken_by_auto
from fastcoder_lsp.engine.int4 import calibrate
from fastcoder_lsp.engine.int8 import packed_file, selftest, stored
from fastcoder_lsp.engine.int8.dot import AMX, AVX2, NEON_DOT, NEON_I8MM, VNNI_512, DotKind, in_four_bits
from fastcoder_lsp.engine.int8.packed_file import delete_unfinished
from fastcoder_lsp.engine.int8.stored import (
    WeightsRequest,
    calibrated_name,
    choosing_alone,
    form_of,
    load_arrays,
    write_chosen,
)
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.loader import load_engine
from fastcoder_lsp.errors import ResourceError, UsageError
from fastcoder_lsp.model.files import ModelFiles
from tests.engine.rows import prefill, run
from tests.engine.tiny_models import VOCABULARY, load, make_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("calibrated"), "qwen2")


def texts(count: int, seed: int = 0) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, (count, 60))


def job_of(folder: Path, cache: Path, kind: str = "cpu-int4") -> LoadJob:
    files = ModelFiles(folder.name, folder, "test", "", str(folder))
    options = EngineOptions(kind=kind, context=64, threads=1)  # type: ignore[arg-type]
    return LoadJob.of(files, options, cache, kernels_folder(), lambda _share, _what: None)


def test_chosen_weights_are_kept_found_first_and_closer(folder: Path, tmp_path: Path) -> None:
    plain = load(folder, tmp_path / "plain", "cpu-int4")
    path = take(write(job_of(folder, tmp_path), texts(40)))
    chosen, exact = load(folder, tmp_path, "cpu-int4"), load(folder, tmp_path, "cpu-fp32")
    assert [path] == list((tmp_path / "int4").glob("*.safetensors"))
    away = {}
    tokens = texts(1, seed=9)[0].tolist()
    expected = run(exact.backend, tokens, list(range(-1, len(tokens) - 1)), 0)
    for name, engine in (("plain", plain), ("chosen", chosen)):
        prefill(engine.backend, tokens[:1], [1])
        found = run(engine.backend, tokens, list(range(-1, len(tokens) - 1)), 0)
        away[name] = float(((found - expected) ** 2).mean())
        engine.close()
    exact.close()
    assert away["chosen"] < away["plain"]


def write(job: LoadJob, tokens_SC: npt.NDArray[np.int64]) -> Path:
    """Weights that were chosen and not judged."""
    shape = fast_shape(job.config)
    assert shape is not None
    kind = next(selftest.fitting_kinds(shape, 4))
    return write_chosen(
        WeightsRequest(job.folder, shape, kind, job.digest, job.cache),
        lambda weights: calibrate.calibrate(weights, shape, kind, tokens_SC, job.progress),
        job.progress,
    )


def take(unjudged: Path) -> Path:
    """Make them what an engine takes; their file."""
    path = unjudged.replace(unjudged.with_name(unjudged.name.partition(".safetensors")[0] + ".safetensors"))
    path.with_suffix(".json").write_text(json.dumps(dataclasses.asdict(Loss(0.01, 0.001, 9))), encoding="utf-8")
    return path


def test_what_is_better_is_kept_and_auto_takes_what_loses_little(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(folder, tmp_path)
    for better in (True, False):
        if not better:  # weights of plain rounding are no better than themselves
            monkeypatch.setattr(calibrated, "_nats", plain_nats(tmp_path))
        found = choose_weights(job, texts(8), texts(3, seed=5))
        assert found.plain.tokens == found.chosen.tokens == 3 * 59
        assert bool(chosen_files(tmp_path)) == (known_loss(str(folder), tmp_path) is not None) == found.kept
        assert better or not found.kept
    monkeypatch.undo()
    assert known_loss(str(folder), tmp_path) is None
    path = take(write(job, texts(8)))
    for nats, expected in ((MOST_LOSS / 2, "cpu-int4"), (MOST_LOSS * 2, "cpu-int8")):
        told = Loss(nats, MOST_LOSS / 8, 1000)
        path.with_suffix(".json").write_text(json.dumps(dataclasses.asdict(told)), encoding="utf-8")
        assert known_loss(str(folder), tmp_path) == told
        engine = load_engine(job_of(folder, tmp_path, "auto"))
        assert engine.info.name == expected
        assert any("four-bit weights" in note for note in engine.info.notes) == (expected == "cpu-int4")
        engine.close()
    path.with_suffix(".json").write_text("{}", encoding="utf-8")
    assert known_loss(str(folder), tmp_path) is None
    path.with_suffix(".json").write_text(json.dumps(dataclasses.asdict(Loss(0, 0, 1))), encoding="utf-8")
    assert taken_by_auto(str(folder), tmp_path) is not None
    for kept in (path, path.with_suffix(".json")):  # of a layout that nothing here reads
        shutil.copyfile(kept, kept.with_name(kept.name.replace("-x", "-x9")))
    path.unlink()
    assert known_loss(str(folder), tmp_path) is None


@pytest.mark.parametrize(
    ("kinds", "chose", "width", "read"),
    [
        ((AMX, VNNI_512), VNNI_512, 128, False),
        ((AMX, VNNI_512), VNNI_512, 96, True),
        ((AVX2,), NEON_I8MM, 128, False),
        ((AVX2,), NEON_DOT, 128, True),
    ],
)
def test_weights_of_a_layout_that_another_kind_reads_count_as_gone(
    kinds: tuple[DotKind, ...],
    chose: DotKind,
    width: int,
    *,
    read: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine with tiles shares a cache with one without: what that one chose is for models that do not fit tiles."""
    monkeypatch.setattr(selftest, "kinds_here", lambda: kinds)
    shape = Shape("qwen2", 1, width, 2, 1, 64, 2 * width, 100, 1e-6, 64, np.ones(32))
    name = f"{calibrated_name('a model')}-{form_of(in_four_bits(chose))}-f16"
    (tmp_path / "int4").mkdir()
    (tmp_path / "int4" / f"{name}.safetensors").touch()
    told = Loss(0.01, 0.001, 1000)
    (tmp_path / "int4" / f"{name}.json").write_text(json.dumps(dataclasses.asdict(told)), encoding="utf-8")
    assert known_loss("a model", tmp_path, shape) == (told if read else None)


Nats = Callable[..., npt.NDArray[np.float64]]


def plain_nats(cache: Path) -> Nats:
    lost = calibrated._nats

    def nats(
        job: LoadJob, wanted: WeightsRequest, arrays: Any, texts_SC: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        if list((cache / "int4").glob("*.unjudged.partial")):
            arrays = load_arrays(wanted, job.progress, chosen=False)
        return lost(job, wanted, arrays, texts_SC)

    return nats


def taken(folder: Path, cache: Path, kind: str) -> str:
    engine = load_engine(job_of(folder, cache, kind))
    engine.close()
    return " ".join(note for note in (engine.info.name, *engine.info.notes))


@pytest.mark.parametrize("before", [False, True])
def test_weights_that_nobody_judged_are_never_taken(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    job, seen = job_of(folder, tmp_path), list[str]()
    load_engine(job).close()
    if before:
        take(write(job, texts(8)))
    expected = {kind: taken(folder, tmp_path, kind) for kind in ("auto", "cpu-int4")}
    assert ("model calibrate --undo" in expected["cpu-int4"]) == before
    assert ("not calibrated" in expected["cpu-int4"]) == (not before)
    assert ("0.010 nats" in expected["auto"]) == ("0.010 nats" in expected["cpu-int4"]) == before
    lost, others = calibrated._nats, list[npt.NDArray[np.float64]]()

    def nats(*arguments: Any) -> npt.NDArray[np.float64]:
        for unjudged in (tmp_path / "int4").glob("*.unjudged.partial"):
            seen.extend(taken(folder, tmp_path, kind) for kind in expected)
            assert unjudged.exists(), "what is being judged was deleted"
            shutil.copyfile(unjudged, tmp_path / unjudged.name)
            raise KeyboardInterrupt
        others.append(lost(*arguments))
        return others[-1]

    monkeypatch.setattr(calibrated, "_nats", nats)
    with pytest.raises(KeyboardInterrupt):
        choose_weights(job, texts(8), texts(1, seed=5))
    assert seen == list(expected.values())
    left = next(tmp_path.glob("*.unjudged.partial"))
    shutil.move(left, tmp_path / "int4" / left.name)  # as a process leaves it that was killed
    assert {kind: taken(folder, tmp_path, kind) for kind in expected} == expected
    assert not list((tmp_path / "int4").glob("*.partial"))
    plain = load(folder, tmp_path / "empty", "cpu-int4").backend
    tokens = texts(1, seed=5)[0]
    assert np.array_equal(others[1], calibrated._nats_of(plain, tokens)), "others were compared with than plain ones"
    plain.close()


def test_weights_of_which_nobody_said_what_they_lose_are_not_taken(folder: Path, tmp_path: Path) -> None:
    """Killed between the two, or by a version that judged what was taken already: plain ones, for doctor says so."""
    path = take(write(job_of(folder, tmp_path), texts(2)))
    assert "model calibrate --undo" in taken(folder, tmp_path, "cpu-int4")
    path.with_suffix(".json").unlink()
    assert "not calibrated" in taken(folder, tmp_path, "cpu-int4")


def test_one_process_chooses_at_a_time(folder: Path, tmp_path: Path) -> None:
    job = job_of(folder, tmp_path)
    shape = fast_shape(job.config)
    assert shape is not None
    wanted = WeightsRequest(folder, shape, next(selftest.fitting_kinds(shape, 4)), job.digest, tmp_path)
    with choosing_alone(wanted), pytest.raises(UsageError, match="another process"):
        choose_weights(job, texts(2), texts(1))
    left = write(job, texts(2))
    with choosing_alone(wanted):
        assert not left.exists()
        said = left.with_name(f"{left.name.partition('.safetensors')[0]}.json.abc.partial")  # another file at work
        said.touch()
        delete_unfinished(said.parent)
        assert said.exists()
    delete_unfinished(said.parent)
    assert not said.exists()
    assert not list(said.parent.glob("*.partial*"))


def test_a_folder_that_cannot_be_written_is_not_taken_for_another_process(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def refused(*_: object, **_named: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(FileLock, "acquire", refused)
    monkeypatch.setattr(calibrate, "calibrate", lambda *_: pytest.fail("chosen for nothing"))
    with pytest.raises(ResourceError, match="is not writable"):
        choose_weights(job_of(folder, tmp_path), texts(2), texts(1))


def test_a_full_disk_is_found_before_anything_is_chosen(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Choosing takes minutes: what it needs of the disk is asked for first, and what was kept stays."""
    path = take(write(job_of(folder, tmp_path), texts(2)))

    def full(place: Path, _size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(place))

    monkeypatch.setattr(stored, "check_room", full)
    monkeypatch.setattr(calibrate, "calibrate", lambda *_: pytest.fail("chosen for nothing"))
    with pytest.raises(ResourceError, match="no space left"):
        choose_weights(job_of(folder, tmp_path), texts(2), texts(1))
    assert chosen_files(tmp_path) == [path]


def test_weights_that_cannot_be_replaced_stay_with_what_they_lose(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows a server may have their file open: what was chosen before is taken on, and the error is said."""
    path = take(write(job_of(folder, tmp_path), texts(8)))
    told = known_loss(str(folder), tmp_path)

    def refused(_made: Path, place: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(place))

    monkeypatch.setattr(calibrated, "put_in_place", refused)
    monkeypatch.setattr(calibrated.CalibrationResult, "kept", True)
    with pytest.raises(ResourceError):
        choose_weights(job_of(folder, tmp_path), texts(8), texts(3, seed=5))
    assert known_loss(str(folder), tmp_path) == told is not None
    assert chosen_files(tmp_path) == [path]
    assert not list((tmp_path / "int4").glob("*.partial"))


def test_interrupted_at_the_end_of_writing_nothing_is_left(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has its name, and nobody else knows of it yet."""
    whole = packed_file.write_packed

    def interrupted(*arguments: Any, **named: Any) -> None:
        whole(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(stored, "write_packed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(job_of(folder, tmp_path), texts(2))
    assert not list((tmp_path / "int4").glob("*.partial"))


def test_going_back_deletes_what_was_chosen(folder: Path, tmp_path: Path) -> None:
    path = take(write(job_of(folder, tmp_path), texts(2)))
    other = path.with_name(f"{calibrated_name('another')}{path.name.partition('-calibrated')[2]}")
    shutil.copyfile(path, other)
    assert forget_chosen(str(folder), tmp_path)
    assert not forget_chosen(str(folder), tmp_path)
    assert chosen_files(tmp_path) == [other]
    assert not path.with_suffix(".json").exists()
    assert "not calibrated" in taken(folder, tmp_path, "cpu-int4")


def chosen_files(cache: Path) -> list[Path]:
    return [path for path in (cache / "int4").glob("*.safetensors") if "calibrated" in path.name]
