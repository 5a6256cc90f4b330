"""A GGUF that only transformers can read becomes a transformers folder, whole or not at all; by the real worker."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from fastcoder_lsp import model
from fastcoder_lsp.errors import ModelInvalidError, ModelMissingError, ResourceError
from fastcoder_lsp.model.convert_worker import require_memory
from fastcoder_lsp.model.gguf_folder import make_ready
from fastcoder_lsp.model.store import ModelStore, require_space
from fastcoder_lsp.tokenizer import Tokenizer
from tests.fake_engine import silent
from tests.model.tiny import write_gguf

pytestmark = pytest.mark.usefixtures("without_llama")
UNKNOWN = "some-new-way"
"""To cut texts: such a file is left to transformers."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "tiny.gguf"
    write_gguf(place, pre=UNKNOWN)
    return place


def leftovers(cache: Path) -> list[Path]:
    return list((cache / "models" / "converted").glob("*"))


def test_conversion_keeps_values_and_runs_once(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    weights = write_gguf(path, pre=UNKNOWN)
    shares: list[float] = []
    files = model.prepare(str(path), tmp_path / "cache", lambda share, _: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    loaded = load_file(files.folder / "model.safetensors")
    assert np.array_equal(loaded["model.embed_tokens.weight"], weights["token_embd.weight"])
    assert np.array_equal(loaded["model.layers.1.mlp.down_proj.weight"], weights["blk.1.ffn_down.weight"])
    tokenizer = Tokenizer.load(files.folder)
    assert tokenizer.decode(tokenizer.encode("def f():\n\treturn 'ß'")) == "def f():\n\treturn 'ß'"

    copy = path.rename(tmp_path / "renamed.gguf")
    shares.clear()
    again = model.prepare(str(copy), tmp_path / "cache", lambda share, _: shares.append(share))
    assert (again.folder, again.digest, shares) == (files.folder, files.digest, [])


def test_bytes_that_are_no_gguf_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_text("this is text")
    with pytest.raises(ModelInvalidError, match="not a GGUF"):
        model.prepare(str(path), tmp_path / "cache", silent)
    assert not leftovers(tmp_path / "cache")


def test_an_unknown_architecture_is_said_to_be(path: Path, tmp_path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"llama", b"lemma"))
    with pytest.raises(ModelInvalidError, match="cannot be converted"):
        model.prepare(str(path), tmp_path / "cache", silent)
    assert not leftovers(tmp_path / "cache")


def test_too_little_disk_or_memory_names_the_need_and_the_place(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"needs 1000000\.0 GB in .*free"):
        require_space(tmp_path, 10**15, "fetching")
    with pytest.raises(ResourceError, match=r"needs 1000000\.0 GB of memory"):
        require_memory(10**15, tmp_path / "tiny.gguf")


@pytest.mark.ci
def test_a_killed_conversion_leaves_nothing_half_made(path: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    program = (
        "import sys; from pathlib import Path; from fastcoder_lsp import model\n"
        "def told(share, _):\n"
        "    print(share, flush=True)\n"
        "    share < 0.1 or sys.stdin.readline()\n"  # to be killed there, however long that takes
        "model.prepare(sys.argv[1], Path(sys.argv[2]), told)\n"
    )
    command = [sys.executable, "-c", program, str(path), str(cache)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        while float(parent.stdout.readline()) < 0.1:
            pass
        os.kill(parent.pid, signal.SIGKILL)
    assert not leftovers(cache)
    with pytest.raises(ModelMissingError):
        model.find(str(path), cache)
    files = model.prepare(str(path), cache, silent)
    assert files.folder.is_dir()
    assert not [left for left in (cache / "models" / "work").iterdir() if left.is_dir()]


def test_the_worker_ends_when_its_parent_does(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    command = [sys.executable, "-m", "fastcoder_lsp.model.convert_worker", str(path), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdout.readline()
        worker.stdin.close()
        end = time.monotonic() + 60
        while worker.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        assert worker.returncode == 1


@pytest.mark.ci
def test_two_at_once_convert_once(path: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from fastcoder_lsp import model\n"
        "print(model.prepare(sys.argv[1], Path(sys.argv[2]), lambda *_: None).digest)\n"
    )
    command = [sys.executable, "-c", program, str(path), str(tmp_path / "cache")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate()[0] for process in both]
    assert answers[0] == answers[1] != ""
    assert len(leftovers(tmp_path / "cache")) == 1


def test_a_conversion_replaces_a_broken_one(path: Path, tmp_path: Path) -> None:
    store = ModelStore.at(tmp_path)
    store.open()
    store.converted("abc").mkdir()
    (store.converted("abc") / "config.json").write_text("{")
    make_ready(path, "abc", "test", store, silent)
    assert (store.converted("abc") / "tokenizer.json").is_file()
