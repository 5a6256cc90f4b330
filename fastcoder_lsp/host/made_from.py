"""Which settings decide what is loaded: those that make another model, and those that make one front's part of it."""

from typing import Final

from fastcoder_lsp.config import Settings

MODEL: Final = ("model", "engine", "threads", "context_tokens", "gpu_memory_percent", "gpu_strict", "memory_kv_mb")
"""Of the model that fronts share: fronts that differ in one of them have hosts of their own."""
FRONT: Final = ("drafter", "index_enabled", "context_enabled")
"""Of what a front has of a model."""
REMOTE: Final = (
    *("remote_url", "remote_allow", "remote_kind", "remote_model", "remote_template", "remote_key_file"),
    *("remote_key_env", "remote_fallback"),
)
"""Of the server that is asked in a model's place."""


def model_part(settings: Settings) -> tuple[object, ...]:
    """The settings that a loaded model depends on."""
    return tuple(getattr(settings, name) for name in MODEL)


def front_part(settings: Settings) -> tuple[object, ...]:
    """The settings that a front's part of a loaded model depends on."""
    return tuple(getattr(settings, name) for name in FRONT)


def place_part(settings: Settings) -> tuple[object, ...]:
    """Where the model lives: in this process, in the shared one, or behind which server."""
    remote = tuple(getattr(settings, name) for name in REMOTE) if settings.remote_url else ()
    return (settings.host_enabled, *remote)


def made_from(settings: Settings) -> tuple[object, ...]:
    """All that decides by which model a front is answered, and where that lives."""
    return (*model_part(settings), *front_part(settings), *place_part(settings))
