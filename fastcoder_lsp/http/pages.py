"""The pages that describe the server, for clients that look before they ask."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastcoder_lsp import __version__
from fastcoder_lsp.http.responses import RequestError

MODELS = "/v1/models", "/models"
HEALTH = "/health", "/v1/health"
SHOW = "/api/show"  # the only page that clients ask for by POST
_OTHERS = "/props", "/api/tags", "/api/ps", "/api/version"
PAGES = (*MODELS, *_OTHERS, f"{MODELS[0]}/{{name:path}}")


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a server: its model, when it started, the longest prompt in tokens, and requests at a time."""

    model: str
    started: int
    context_tokens: int
    slots: int

    def page(self, path: str) -> Any:
        """The page at a path; RequestError if there is none."""
        models = {"object": "list", "data": [self._openai_model()]}
        pages = {
            **dict.fromkeys(MODELS, models),
            f"{MODELS[0]}/{self.model}": self._openai_model(),
            "/props": self._props(),
            "/api/tags": {"models": [self._ollama_model()]},
            "/api/ps": {"models": [self._ollama_model()]},
            "/api/version": {"version": __version__},
        }
        if path in pages:
            return pages[path]
        if path.startswith(f"{MODELS[0]}/"):
            raise RequestError(404, f"there is no such model here; this server runs {self.model}")
        raise RequestError(404, "Not Found")

    def show(self) -> Any:
        """Ollama's `/api/show`. Clients look in the template whether the model takes a suffix."""
        return {
            "modelfile": "",
            "parameters": f"num_ctx {self.context_tokens}\ntemperature 0",
            "template": "{{ .Prompt }}{{ if .Suffix }}{{ .Suffix }}{{ end }}",
            "details": _DETAILS,
            "model_info": {"general.architecture": "fastcoder", "fastcoder.context_length": self.context_tokens},
            "capabilities": ["completion", "insert"],
        }

    def _openai_model(self) -> dict[str, Any]:
        return {"id": self.model, "object": "model", "created": self.started, "owned_by": "fastcoder-lsp"}

    def _ollama_model(self) -> dict[str, Any]:
        modified = datetime.fromtimestamp(self.started, UTC).isoformat().replace("+00:00", "Z")
        named = {"name": self.model, "model": self.model}
        return {**named, "modified_at": modified, "size": 0, "digest": "", "details": _DETAILS}

    def _props(self) -> dict[str, Any]:
        return {
            "default_generation_settings": {"n_ctx": self.context_tokens, "params": {"temperature": 0.0}},
            "total_slots": self.slots,
            "model_path": self.model,
            "chat_template": "",
            "build_info": f"fastcoder-lsp {__version__}",
        }


_DETAILS = {
    "parent_model": "",
    "format": "",
    "family": "",
    "families": list[str](),
    "parameter_size": "",
    "quantization_level": "",
}
