"""Pure functions of text: the model's output becomes the suggestion, or nothing."""

from fastcoder_lsp.postprocess.finish import dropped_by, finish, whole_lines
from fastcoder_lsp.postprocess.fit import covered, inserted
from fastcoder_lsp.postprocess.rubbish import without_header
from fastcoder_lsp.postprocess.text_around import TextAround
from fastcoder_lsp.postprocess.useful import useful

__all__ = [
    "TextAround",
    "covered",
    "dropped_by",
    "finish",
    "inserted",
    "useful",
    "whole_lines",
    "without_header",
]
