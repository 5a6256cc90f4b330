r"""Texts whose lines end in `\r\n`: they are read with `\n`, and new text gets the ends of theirs."""

from msgspec import structs

from fastcoder_lsp.edits.values import Edit, EditQuestion


def is_crlf(text: str) -> bool:
    r"""Whether every line of a text ends in `\r\n`."""
    return 0 < text.count("\n") == text.count("\r\n")


def with_unix_ends(question: EditQuestion) -> EditQuestion:
    r"""The question about the same text with `\n`."""
    before = question.text[: question.offset].replace("\r\n", "\n").removesuffix("\r")
    return structs.replace(question, text=question.text.replace("\r\n", "\n"), offset=len(before))


def crlf_offset(unix: str, offset: int) -> int:
    r"""The offset with `\r\n` of one in the text with `\n`."""
    return offset + unix.count("\n", 0, offset)


def with_crlf(unix: str, edit: Edit) -> Edit:
    r"""The edit with `\r\n` of one of the text with `\n`."""
    return Edit(crlf_offset(unix, edit.start), crlf_offset(unix, edit.end), edit.text.replace("\n", "\r\n"))
