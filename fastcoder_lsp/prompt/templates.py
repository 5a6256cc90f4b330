"""One table: the fill-in-the-middle form of each family of models.

A template is recognised by the tokenizer's own control tokens, never by a model's name. All families here use the order
prefix, suffix, middle. Sources: each model's card or paper, named in its row.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """Names of control tokens around the parts of a prompt; empty if the family has none.

    Attributes:
        name: as `doctor` shows it.
        prefix, suffix, middle: the marks before each part; all empty for a model that only continues text.
        lead: text that the family's training put before the prefix.
        repository: mark before the repository's name, if snippets of other files have a form in the family.
        file: mark before each file's path; empty if the family has no such form, then snippets are comments.
        path_inside: whether the current file's path follows the prefix mark instead of preceding it.
        tokens: further control tokens that distinguish this family from another with the same marks.
    """

    name: str
    prefix: str = ""
    suffix: str = ""
    middle: str = ""
    lead: str = ""
    repository: str = ""
    file: str = ""
    path_inside: bool = False
    tokens: tuple[str, ...] = ()

    def matches(self, control: Mapping[str, int]) -> bool:
        """Whether a tokenizer with these control tokens has this template."""
        return all(name in control for name in (self.prefix, self.suffix, self.middle, *self.tokens) if name)


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
    # codellama/llama/generation.py, `infilling_prompt_tokens`: the prefix is encoded as a sentence of its own, which
    # SentencePiece begins with a blank; suffix and middle are encoded without.
    Template("CodeLlama", "▁<PRE>", "▁<SUF>", "▁<MID>", lead=" "),
    PLAIN,
)


def template_of(control: Mapping[str, int]) -> Template:
    """The first template of the table whose tokens are all in `control` (`Tokenizer.control`); else `PLAIN`."""
    return next(template for template in TEMPLATES if template.matches(control))
