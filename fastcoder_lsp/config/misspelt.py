"""Which settings a wrong name may mean: no setting of another table, which has another purpose however alike it is."""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Final

from fastcoder_lsp.config.table import Spec

_ALIKE: Final = 0.75  # two letters of four swapped
_SHORTEST: Final = 3  # a shorter beginning tells nothing
_MOST: Final = 2
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|-")


def meant(name: str, table: Mapping[str, Spec]) -> list[str]:
    """The settings that the unknown dotted name may mean; none if that is not clear."""
    if name.startswith("languages.") and name.count(".") > 1:
        language, plain = name.removeprefix("languages.").split(".", 1)
        by_language = {one: spec for one, spec in table.items() if spec.by_language}
        return [f"languages.{language}.{one}" for one in meant(plain, by_language)]
    name = _CAMEL.sub("_", name.removeprefix("fastcoder.")).lower()
    same = [one for one in table if one.replace(".", "_") == name.replace(".", "_")]
    if same:
        return same
    head, dot, last = name.partition(".")
    return _in_table(head, last, table) if dot else _without_table(name, table)


def _without_table(name: str, table: Mapping[str, Spec]) -> list[str]:
    tables = {one.partition(".")[0] for one in table if "." in one}
    if name in tables:
        return [one for one in table if one == f"{name}.enabled"]
    head, _, last = name.partition("_")
    inside = [one for one in table if one.partition(".")[2] == name]
    outside = _near(name, [one for one in table if "." not in one], table)
    return [*outside, *(_in_table(head, last, table) if head in tables else inside)][:_MOST]


def _in_table(head: str, last: str, table: Mapping[str, Spec]) -> list[str]:
    """The nearest in the table `head`, or in one of nearly that name; else a setting of no table.

    Keys that follow the wrong header have such names. But `enabled` and `model` mean something else in each table.
    """
    found = get_close_matches(head, {one.partition(".")[0] for one in table if "." in one}, n=1, cutoff=_ALIKE)
    if near := _near(last, [one for one in table if found and one.startswith(f"{found[0]}.")], table):
        return near
    elsewhere = any(one.endswith(f".{last}") for one in table)
    if found == ["completion"] and (last in table or not elsewhere):  # suggestions as such, as settings of no table
        return _near(last, [one for one in table if "." not in one], table)
    return [last] if last in table and not elsewhere else []


def _near(word: str, among: Collection[str], table: Mapping[str, Spec]) -> list[str]:
    """Those `among` the settings whose last part begins as `word` does, or else is spelt nearly so.

    A word that is right elsewhere is not misspelt.
    """
    words = {one.rpartition(".")[2]: one for one in among}
    begun = [one for one in words if (one.startswith(word) or word.startswith(one)) and len(word) >= _SHORTEST]
    if not begun and not any(one.rpartition(".")[2] == word for one in table):
        begun = get_close_matches(word, words, n=1, cutoff=_ALIKE)
    return [words[one] for one in begun] if len(begun) <= _MOST else []
