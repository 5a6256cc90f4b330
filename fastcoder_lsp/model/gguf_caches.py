"""GGUFs in the caches of llama.cpp, Ollama and the hub's client, by the names that those programs give them.

`owner/name:Q4_K_M` or, as Ollama writes it, `hf.co/owner/name:Q4_K_M` is a repository's file of that precision;
`name:tag` is a model of Ollama's library. The files are used where they lie. Only the former can be downloaded.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from fastcoder_lsp.core.files import read_json
from fastcoder_lsp.model import hub

_TAGGED = re.compile(r"(?:(?:hf\.co/)?([A-Za-z0-9][\w.-]*)/)?([A-Za-z0-9][\w.-]*):([A-Za-z0-9][\w.-]*)")
_MODEL_LAYER = "application/vnd.ollama.image.model"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def is_tagged(name: str) -> bool:
    """Whether a name has the form of these."""
    return _TAGGED.fullmatch(name) is not None


def repository_of(name: str) -> tuple[str, str] | None:
    """The repository and the precision of `owner/name:precision`; None for a name without an owner."""
    matched = _TAGGED.fullmatch(name)
    return (f"{matched[1]}/{matched[2]}", matched[3]) if matched is not None and matched[1] else None


def find_tagged(name: str, ollama: Path | None = None, llama: Path | None = None) -> Path | None:
    """The file of such a name; None if none of the caches has it.

    Args:
        name: `owner/name:precision` or `name:tag`.
        ollama: Ollama's folder of models; None for its usual place.
        llama: llama.cpp's cache; None for its usual place.
    """
    matched = _TAGGED.fullmatch(name)
    if matched is None:
        return None
    owner, model, tag = matched.groups()
    ollama = ollama or Path.home() / ".ollama" / "models"
    llama = llama or platformdirs.user_cache_path("llama.cpp", appauthor=False)
    places = [*_of_ollama(ollama, owner, model, tag), *(_of_repository(owner, model, tag, llama) if owner else ())]
    return next((place for place in places if place.is_file()), None)


def _of_ollama(folder: Path, owner: str | None, model: str, tag: str) -> Iterator[Path]:
    under = [Path("registry.ollama.ai", owner or "library", model), *([Path("hf.co", owner, model)] if owner else [])]
    for place in under:
        layers = read_json(folder / "manifests" / place / tag).get("layers")
        for layer in layers if isinstance(layers, list) else ():
            if isinstance(layer, dict) and layer.get("mediaType") == _MODEL_LAYER:
                digest = _DIGEST.fullmatch(str(layer.get("digest")))
                if digest is not None:
                    yield folder / "blobs" / f"sha256-{digest[1]}"


def _of_repository(owner: str, model: str, tag: str, llama: Path) -> Iterator[Path]:
    """The repository's files of this precision: in the hub's cache, then in llama.cpp's own."""
    snapshots = hub.repository_folder(f"{owner}/{model}") / "snapshots"
    for place in (*sorted(snapshots.glob("*/*.gguf")), *sorted(llama.glob(f"{owner}_{model}_*.gguf"))):
        if hub.is_of_precision(place.name, tag):
            yield place
