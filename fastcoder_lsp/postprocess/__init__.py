"""Pure text: what the model said becomes what is shown, or nothing."""

from fastcoder_lsp.postprocess.finish import finish, whole_lines
from fastcoder_lsp.postprocess.overwrite import replaces

__all__ = ["finish", "replaces", "whole_lines"]
