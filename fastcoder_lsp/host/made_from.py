"""The settings that determine what is loaded: the shared model, and a front's runtime."""

from typing import Final

from fastcoder_lsp.config import Settings

MODEL: Final = ("model", "engine", "threads", "context_tokens", "gpu_memory_percent", "gpu_strict", "memory_kv_mb")
"""Settings of the shared model: fronts that differ in one of them have separate hosts."""
FRONT: Final = ("drafter", "index_enabled", "context_enabled")
"""Settings of a front's runtime."""
REMOTE: Final = (
    *("remote_url", "remote_allow", "remote_kind", "remote_model", "remote_template", "remote_key_file"),
    *("remote_key_env", "remote_fallback"),
)
"""Settings of a remote server in the model's place."""


def model_part(settings: Settings) -> tuple[object, ...]:
    """The settings that a loaded model depends on."""
    return tuple(getattr(settings, name) for name in MODEL)


def front_part(settings: Settings) -> tuple[object, ...]:
    """The settings that a front's runtime depends on."""
    return tuple(getattr(settings, name) for name in FRONT)


def place_part(settings: Settings) -> tuple[object, ...]:
    """The settings that place the model: in this process, in the shared one, or on a remote server."""
    remote = tuple(getattr(settings, name) for name in REMOTE) if settings.remote_url else ()
    return (settings.host_enabled, *remote)


def made_from(settings: Settings) -> tuple[object, ...]:
    """All settings that determine a front's model and its place."""
    return (*model_part(settings), *front_part(settings), *place_part(settings))
