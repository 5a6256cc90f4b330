"""The fill-in-the-middle form of each family of models.

A template is recognised by the tokenizer's control tokens and, if two families share them, by `config.json`, never by a
model's name. Sources: each model's card or paper, named in its row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fastcoder_lsp.tokenizer import Tokenizer

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Template:
    """Names of control tokens around the parts of a prompt; empty if the family has none."""

    name: str  # for `doctor`
    prefix: str = ""
    suffix: str = ""
    middle: str = ""
    """The marks before each part, empty for a plain model; only `middle` is empty if it needs no mark."""
    suffix_first: bool = False  # whether the suffix precedes the prefix
    lead: str = ""  # text that the family's training put before the prefix
    repository: str = ""  # mark before the repository's name, if the family has a form for snippets of other files
    file: str = ""  # mark before each file's path; empty if the family has no such form: snippets are comments then
    path_inside: bool = False  # whether the current file's path follows the prefix mark instead of preceding it
    tokens: tuple[str, ...] = ()  # further control tokens that distinguish this family from another with the same marks
    unbiased: tuple[str, ...] = ()
    """Values of `model_type` that do the same; such a model also has no biases in its attention."""

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of a prompt, in its order; none for a model that only continues text."""
        around = (self.suffix, self.prefix) if self.suffix_first else (self.prefix, self.suffix)
        return tuple(mark for mark in (*around, self.middle) if mark)

    @property
    def shows_in_prefix(self) -> bool:
        """Whether code of other files begins the prefix as comments, since a prompt must begin with the suffix."""
        return self.suffix_first and not self.file

    def in_order(self, prefix: Part, suffix: Part) -> tuple[Part, Part]:
        """Both parts in the prompt's order."""
        return (suffix, prefix) if self.suffix_first else (prefix, suffix)

    def matches(self, control: Mapping[str, int], config: Mapping[str, Any]) -> bool:
        """Whether a tokenizer with these control tokens has this template, in a model with this `config.json`."""
        if self.unbiased and (config.get("model_type") not in self.unbiased or config.get("attention_bias")):
            return False
        return all(name in control for name in (*self.marks, *self.tokens))


PLAIN = Template("prefix only")

TEMPLATES = (
    # CodeGemma's report, section 2.3: the marks are Qwen's, files are separated by <|file_separator|>.
    Template("CodeGemma", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", tokens=("<|file_separator|>",)),
    # Qwen2.5-Coder's README, "File-Level" and "Repository-Level Code Completion".
    Template(
        "Qwen2.5-Coder",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        repository="<|repo_name|>",
        file="<|file_sep|>",
        tokens=("<|repo_name|>", "<|file_sep|>"),
    ),
    # The marks alone: Granite 3 and 4, and Qwen-like tokenizers without the repository's tokens.
    Template("fim_prefix with bars", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    # StarCoder 2's paper, section 5.1: the path belongs to the prefix.
    Template(
        "StarCoder2",
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        repository="<repo_name>",
        file="<file_sep>",
        path_inside=True,
        tokens=("<repo_name>", "<file_sep>"),
    ),
    # Mellum-4b-base's README, "Fill in the middle with additional files as context generation"; Mellum 2's is the same.
    # The tokenizer has StarCoder's marks, but StarCoder is no Llama, and Granite Code is one with biases.
    Template(
        "Mellum",
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        suffix_first=True,
        file="<filename>",
        tokens=("<reponame>", "<filename>"),
        unbiased=("llama", "mellum"),
    ),
    # StarCoder's paper, section 3.2; Granite Code (3B to 34B) has the same tokenizer and the same form.
    Template(
        "StarCoder, Granite Code",
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        repository="<reponame>",
        file="<filename>",
        tokens=("<reponame>", "<filename>"),
    ),
    # SantaCoder's spelling.
    Template("SantaCoder", "<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    Template("fim_prefix", "<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    # DeepSeek-Coder's README, "Code Insertion"; other files stand before it as "#path" and their text.
    Template("DeepSeek-Coder", "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    # Seed-Coder-8B-Base's README, "Fill-in-the-Middle (FIM) Example".
    Template("Seed-Coder", "<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", suffix_first=True),
    # mistral-common, `encode_fim` of the SentencePiece tokenizers: only the prefix begins with SentencePiece's blank.
    Template("Codestral", "[PREFIX]", "[SUFFIX]", suffix_first=True, lead=" "),
    # codellama/llama/generation.py, `infilling_prompt_tokens`: the prefix is encoded as a sentence of its own, which
    # SentencePiece begins with a blank; suffix and middle are encoded without.
    Template("CodeLlama", "▁<PRE>", "▁<SUF>", "▁<MID>", lead=" "),
    PLAIN,
)


def template_of(tokenizer: Tokenizer) -> Template:
    """The first template of the table that matches; else that of the file's own marks, or `PLAIN`."""
    found = next(template for template in TEMPLATES if template.matches(tokenizer.control, tokenizer.config))
    marks = tokenizer.config.get("infill_marks")
    if found is not PLAIN or not isinstance(marks, Mapping):
        return found
    prefix, suffix, middle = (str(marks.get(part)) for part in ("prefix", "suffix", "middle"))
    own = Template("the file's own marks", prefix, suffix, middle)
    return own if own.matches(tokenizer.control, tokenizer.config) else PLAIN
