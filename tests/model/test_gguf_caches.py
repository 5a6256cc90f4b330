"""Files of Ollama's and llama.cpp's caches are found by the names that those programs give them."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from fastcoder_lsp import model
from fastcoder_lsp.errors import ModelMissingError
from fastcoder_lsp.model.files import gguf_of
from fastcoder_lsp.model.gguf_caches import find_tagged, is_tagged
from tests.fake_engine import silent
from tests.model.tiny import write_gguf

DIGEST = "ab" * 32


def ollama_with(folder: Path, place: str, digest: str = f"sha256:{DIGEST}") -> Path:
    manifest = folder / "manifests" / place
    manifest.parent.mkdir(parents=True)
    layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "00" * 32}]
    layers.append({"mediaType": "application/vnd.ollama.image.model", "digest": digest})
    manifest.write_text(json.dumps({"layers": layers}), encoding="utf-8")
    (folder / "blobs").mkdir()
    write_gguf(folder / "blobs" / f"sha256-{DIGEST}")
    return folder


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("coder:7b", "registry.ollama.ai/library/coder/7b"),
        ("you/coder:latest", "registry.ollama.ai/you/coder/latest"),
        ("you/coder:Q4_K_M", "hf.co/you/coder/Q4_K_M"),
        ("hf.co/you/coder:Q4_K_M", "hf.co/you/coder/Q4_K_M"),
    ],
)
def test_a_model_of_ollama_is_found(name: str, place: str, tmp_path: Path) -> None:
    folder = ollama_with(tmp_path / "ollama", place)
    assert find_tagged(name, folder, tmp_path) == folder / "blobs" / f"sha256-{DIGEST}"
    assert find_tagged("other:7b", folder, tmp_path) is None


def test_a_manifest_leads_nowhere_else(tmp_path: Path) -> None:
    folder = ollama_with(tmp_path / "ollama", "registry.ollama.ai/library/coder/7b", "sha256:../../secret")
    assert find_tagged("coder:7b", folder, tmp_path) is None


def test_a_file_of_llama_cpps_cache_is_found_by_its_precision(tmp_path: Path) -> None:
    write_gguf(tmp_path / "you_coder-GGUF_coder-q4_k_m.gguf")
    write_gguf(tmp_path / "you_coder-GGUF_coder-q8_0.gguf")
    assert (
        find_tagged("you/coder-GGUF:Q8_0", tmp_path / "none", tmp_path) == tmp_path / "you_coder-GGUF_coder-q8_0.gguf"
    )
    assert find_tagged("you/coder-GGUF:Q5_0", tmp_path / "none", tmp_path) is None


def test_a_found_file_is_used_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = ollama_with(tmp_path / "ollama", "registry.ollama.ai/library/coder/7b") / "blobs" / f"sha256-{DIGEST}"
    monkeypatch.setattr(import_module("fastcoder_lsp.model.find"), "find_tagged", {"coder:7b": blob}.get)
    files = model.prepare("coder:7b", tmp_path / "cache", silent)
    assert gguf_of(files.folder) == blob
    monkeypatch.setattr(import_module("fastcoder_lsp.model.find"), "find_tagged", {"coder:latest": blob}.get)
    assert gguf_of(model.prepare("coder", tmp_path / "cache", silent).folder) == blob
    with pytest.raises(ModelMissingError, match="Ollama's cache has no model"):
        model.find("coder:8b", tmp_path / "cache")


def test_other_names_have_another_form() -> None:
    for name in ("auto", "you/coder", "./coder:7b", "C:\\models\\a.gguf", "/a/b:c", "a/b/c:d", ""):
        assert not is_tagged(name)
