"""Which family's marks a server's model reads, by what the user says or by the model's name.

A model on this machine is recognised by its tokenizer; of one elsewhere nothing but the name is known.
"""

from collections.abc import Mapping
from typing import Final

from fastcoder_lsp.prompt.templates import TEMPLATES, Template

_BY_SETTING: Final[Mapping[str, str]] = {
    "qwen": "Qwen2.5-Coder",
    "codegemma": "CodeGemma",
    "granite": "fim_prefix with bars",
    "starcoder": "StarCoder, Granite Code",
    "starcoder2": "StarCoder2",
    "santacoder": "SantaCoder",
    "deepseek": "DeepSeek-Coder",
    "codellama": "CodeLlama",
}
"""The choices of `remote.template` but for `auto` and `suffix` → the template's name."""
_IN_NAMES: Final = (
    ("codegemma", "codegemma"),
    ("starcoder2", "starcoder2"),
    ("starcoder-2", "starcoder2"),
    ("starcoder", "starcoder"),
    ("stable-code", "starcoder"),
    ("granite-3b-code", "starcoder"),
    ("granite-8b-code", "starcoder"),
    ("granite-20b-code", "starcoder"),
    ("granite-34b-code", "starcoder"),
    ("granite", "granite"),
    ("santacoder", "santacoder"),
    ("deepseek-coder", "deepseek"),
    ("codellama", "codellama"),
    ("code-llama", "codellama"),
    ("qwen", "qwen"),
)
"""What a model's name holds → whose marks it reads; the first that fits."""


def chosen_template(setting: str) -> Template:
    """The template that a value of `remote.template` names."""
    name = _BY_SETTING[setting]
    return next(template for template in TEMPLATES if template.name == name)


def template_for(model: str) -> Template | None:
    """The template of the family that a model's name tells; None where it tells none."""
    name = model.lower().replace("_", "-")
    return next((chosen_template(setting) for part, setting in _IN_NAMES if part in name), None)
