"""One small model for all tests of training, and what each method makes of it, once a session, by the commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fastcoder_lsp import model as models
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.papers.train.options import RequestedOptions
from fastcoder_lsp.papers.train.session import Listener, Result, TrainingJob
from fastcoder_lsp.tokenizer import Tokenizer
from tests.papers.train import made_up


@dataclass(frozen=True, slots=True)
class Speaker:
    """A model of the made-up language, its tokenizer, and texts to learn from."""

    folder: Path
    texts: Path
    cache: Path
    tokenizer: Tokenizer


@contextmanager
def aside(cache: Path) -> Iterator[None]:
    """Commands use this cache folder; small models are no faster on two threads. Afterwards all is as it was before.

    The same process runs other tests after these.
    """
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTCODER_CACHE", str(cache))
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _aside(cache: Path) -> Iterator[None]:
    with aside(cache):
        yield


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def speaker(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Speaker:
    folder = made_up.write_speaker(tmp_path_factory.mktemp("base"))
    texts = made_up.write_texts(tmp_path_factory.mktemp("texts"), 120)
    return Speaker(folder, texts, cache, Tokenizer.load(folder))


Session = Callable[[TrainingJob, Path, Callable[[], bool], Listener], Any]
"""A kind of session: `run` trains."""


def train(
    kind: Session,
    speaker: Speaker,
    out: Path,
    asked: RequestedOptions,
    own: Any,
    steps: int | None = None,
    notes: Callable[[str], None] = lambda _: None,
    **more: Any,
) -> Result:
    """Train on the speaker's texts, stopped after `steps` where that is given; `more`: of the job."""
    made: list[int] = []
    job = TrainingJob(str(speaker.folder), (str(speaker.texts),), out, asked, own, **more)
    listener = Listener(notes, lambda _done, _wanted: None, lambda status: made.append(status.step))
    result: Result = kind(job, speaker.cache, lambda: steps is not None and len(made) >= steps, listener).run()
    return result


def check_same(whole: Path, parts: Path, *names: str) -> None:
    """Two runs ended at the same weights, to the bit, by the same curves."""
    for name in names:
        left, right = (load_file(run / name) for run in (whole, parts))
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left)
    assert (whole / "losses.jsonl").read_text() == (parts / "losses.jsonl").read_text()


def run(speaker: Speaker, method: str, out: Path, *options: str) -> Path:
    common = ["--model", str(speaker.folder), "--data", str(speaker.texts), "--out", str(out), "--device", "cpu"]
    with aside(speaker.cache):
        assert main(["train", method, *common, *options]) == 0
    assert models.find(str(out / "model"), speaker.cache).folder == out / "model"
    return out / "model"


@pytest.fixture(scope="session")
def sdsat(speaker: Speaker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ("--steps", "100", "--length", "128", "--batch", "8", "--rate", "3e-3", "--stream", "branches")
    return run(speaker, "sdsat", tmp_path_factory.mktemp("sdsat"), *options)


@pytest.fixture(scope="session")
def cllm(speaker: Speaker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ("--steps", "150", "--length", "96", "--batch", "4", "--rate", "1e-3", "--blocks", "5")
    return run(speaker, "cllm", tmp_path_factory.mktemp("cllm"), *options, "--trajectories", "96")
