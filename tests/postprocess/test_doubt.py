"""What is held back while somebody types, by what the model itself made of it."""

import pytest

from fastcoder_lsp.core.certainty import Certainty, Row
from fastcoder_lsp.postprocess import TextAround
from fastcoder_lsp.postprocess.useful import unsure_at


@pytest.mark.parametrize(
    ("above", "held"),
    [("orders = 1\n", True), ("orders = orderset = 1\n", False), ("", False)],
    ids=["a word of the document", "both are", "neither is"],
)
def test_a_word_that_the_model_did_not_expect(above: str, held: bool) -> None:
    """It goes on with what was typed because it has to: a word of the document is not made one that is none."""
    certainty = Certainty([Row(b"orderset", ((b"total", 1.0),))], b"orders")
    assert (0 in unsure_at("et", certainty, TextAround(f"{above}return orders", "\n", "python"))) is held


def _first(says: str, probable: float, other: str) -> Certainty:
    """Of a text of one token, which the model found so probable, and `other` as the rest."""
    return Certainty([Row(says.encode(), ((says.encode(), probable), (other.encode(), 1 - probable)))], b"")


@pytest.mark.parametrize(
    ("says", "probable", "held"),
    [(")", 0.99, True), ("()", 0.99, True), ("\n    }", 0.99, True), ("...", 0.99, False), ("...", 0.8, True)],
)
def test_few_marks_alone_save_no_key(says: str, probable: float, held: bool) -> None:
    around = TextAround("x = ", "\n", "python")
    assert (0 in unsure_at(says, _first(says, probable, "a"), around)) is held


def test_few_marks_at_the_end_of_what_is_typed_along() -> None:
    """However long the text is."""
    text = f"first({'a' * 200})"
    unsure = unsure_at(text, _first(text, 0.99, "b"), TextAround("x = ", "\n", "python"))
    assert unsure == (len(text) - 1,)


@pytest.mark.parametrize(
    ("above", "other", "probable", "held"),
    [
        ("price = 1\n", ":", 0.73, True),
        ("price = 1\n", ":", 0.9, False),
        ("", ":", 0.73, False),
        ("price = 1\n# ", ":", 0.73, False),
        ("price = 1\n", "priced", 0.5, True),
        ("price = prices = 1\n", "priced", 0.5, False),
        ("", ":", 0.6, True),
    ],
    ids=[
        "likely",
        "surely",
        "no word of the file",
        "in prose",
        "to a new word, another was as likely",
        "to one of the file",
        "not twice as likely as its end",
    ],
)
def test_a_word_of_the_file_is_made_longer(above: str, other: str, probable: float, held: bool) -> None:
    """It is a whole word; the model has to be surer than of others, and of a word that is nowhere in the file."""
    said, healing = (b"prices", b"price") if other == "priced" else (b"s", b"")
    certainty = Certainty([Row(said, ((said, probable), (other.encode(), 1 - probable)))], healing)
    assert (0 in unsure_at("s", certainty, TextAround(f"{above}f(price", "\n", "python"))) is held
