"""The model's files: finding, fetching, checking, converting them. Never runs a model, never downloads unasked."""

from fastcoder_lsp.model.choice import Choice, choose, current_choice
from fastcoder_lsp.model.downloads import Dialogue, DownloadOffer, ProgressStep
from fastcoder_lsp.model.files import ModelFiles
from fastcoder_lsp.model.find import find, prepare, require
from fastcoder_lsp.model.gguf_folder import count_parameters, require_checkpoint, unpacked_bytes
from fastcoder_lsp.model.inventory import Entry, entries, remove
from fastcoder_lsp.model.machine import gpu_memory_bytes
from fastcoder_lsp.model.pull import pull

__all__ = [
    "Choice",
    "Dialogue",
    "DownloadOffer",
    "Entry",
    "ModelFiles",
    "ProgressStep",
    "choose",
    "count_parameters",
    "current_choice",
    "entries",
    "find",
    "gpu_memory_bytes",
    "prepare",
    "pull",
    "remove",
    "require",
    "require_checkpoint",
    "unpacked_bytes",
]
