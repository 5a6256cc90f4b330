"""What a text leaves open of brackets and strings."""

from dataclasses import dataclass

from fastcoder_lsp.syntax.lexer import lex


@dataclass(frozen=True, slots=True)
class Brackets:
    """What a text leaves open.

    Attributes:
        closers: (offset, sign) of those that nothing in the text opened.
        openers: (offset, sign) of those that it left open, outermost first.
        quote: what ends the string in which the text ends, or "".
    """

    closers: tuple[tuple[int, str], ...]
    openers: tuple[tuple[int, str], ...]
    quote: str = ""

    @property
    def complete(self) -> bool:
        """Whether a statement that ends here has closed what it opened."""
        return not self.openers and not self.quote


def signs(text: str, language: str) -> tuple[list[tuple[int, str]], str]:
    """(offset, sign) of brackets outside strings and comments, and what would end a string that is open at the end."""
    lexed = lex(text, language)
    return lexed.signs, lexed.quote


def scan(text: str, language: str) -> Brackets:
    """The brackets of `text` outside strings and comments; a closer that does not fit is one that nothing opened."""
    lexed = lex(text, language)
    return Brackets(tuple(lexed.closers), lexed.openers, lexed.quote)
