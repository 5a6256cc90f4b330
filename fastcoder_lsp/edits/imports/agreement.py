"""The one target that the files of a repository agree a name means."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final

from fastcoder_lsp.edits.imports.facts import TYPE_KINDS, ImportableName, ImportTarget, NamedTarget

AGREED: Final = 0.9  # share of the files importing a name that import the same
_CLEAR: Final = 3  # votes that decide between a file and another that hands its names on
_RIVAL: Final = 4 / 3  # so many times its votes has a target together with those that hand on the same
_STANDARD: Final = ("java.", "javax.", "kotlin.", "std::", "core::", "alloc::", "node:", *sys.stdlib_module_names)
"""Beginnings of sources that every part of a repository may use."""
_MOST_SAID: Final = 2_000  # importing files that are compared

_Vote = tuple[str, ImportTarget, str]  # a file, its target, and the kind that it gives this
Said = Sequence[tuple[str, NamedTarget]]


def agreed_target(
    said: Said,
    defined: Sequence[ImportableName],
    path: str,
    own: Collection[str] = (),
    known: Callable[[ImportTarget], bool] = lambda _: False,
    everywhere: Callable[[ImportTarget], bool] = lambda _: False,
) -> ImportTarget | None:
    """The target that the files in the nearest folder with two of them agree on, or all files, or the only definition.

    One file alone is believed where the repository defines the name, where the target is `known`, or where the file at
    `path` imports from the source already (`own`). `everywhere`: whether every part of a repository may use a target
    that several files name.
    """
    if not said:
        whole = len(defined) == 1 and defined[0].package
        return ImportTarget(defined[0].package, defined[0].member) if whole else None
    said = said[:_MOST_SAID]
    votes = [(where, _same(one.target, said, defined), one.target.kind) for where, one in said]
    own = {_same(ImportTarget(source), said, defined).source for source in own}
    for folder in (*map(str, PurePosixPath(path).parents),):
        near = [one for one in votes if folder == "." or one[0].startswith(folder + "/")]
        if len({where for where, _, _ in near}) < 2:
            continue
        if (found := _most(near, votes, defined, own, path, everywhere)) is not None:
            return found
    found = _most(votes, votes, defined, own, path, everywhere)
    if found is None or len({where for where, _, _ in votes}) > 1 or known(found) or found.source in own:
        return found
    return found if any(found.source in (one.package, "") or one.member == found.member for one in defined) else None


def _most(
    near: Sequence[_Vote],
    votes: Sequence[_Vote],
    defined: Sequence[ImportableName],
    own: Collection[str],
    path: str,
    everywhere: Callable[[ImportTarget], bool],
) -> ImportTarget | None:
    """The target of nearly all votes of some files, unless as many other files define the name, or one that is nearer.

    Of a source and another one inside it, which hand on the same, it is the one that the file imports from already, or
    that most name; never one that the file at `path` is inside of, unless others in there name it.
    """
    counted = Counter(target for _, target in {(where, target) for where, target, _ in near})
    best, most = counted.most_common(1)[0]
    alike = [target for target in counted if target.member == best.member and _inside(target, best)]
    same = sum(counted[target] for target in alike)
    if same < AGREED * counted.total():
        return None
    named = {target for where, target, _ in votes if not _holds(target.source, path) or _holds(target.source, where)}
    mine = {
        target for target in named if target.source in own and target.member == best.member and _inside(target, best)
    }
    passed_on = {one.package for one in defined if one.package != best.source and _related(one.package, best.source)}
    if len(mine) == 1:
        best = mine.pop()
    elif (passed_on and best.source.startswith("/") and most < _CLEAR) or _RIVAL * most <= same:
        return None
    elif best not in named:
        inner = {one.package for one in defined if _holds(best.source, one.package[1:])}
        outside = [target for target in alike if target in named]
        if len(inner) != 1 and not outside:
            return None
        best = max(outside, key=counted.__getitem__) if outside else best._replace(source=inner.pop())
    others = [one for one in defined if not (one.package and _related(one.package, best.source))]
    if most <= len(others) or any(_is_nearer(one.package, best.source, path) for one in others):
        return None
    anywhere = best.source.startswith(("/", *_STANDARD)) or (most > 1 and everywhere(best))
    if not anywhere and len(others) == len(defined):
        area = _area(path)
        if all(_area(where) != area for where, target, _ in votes if target == best):
            return None
    kinds = [kind for _, target, kind in near if target == best]
    typed = Counter(kind for kind in kinds if kind in TYPE_KINDS)
    return best._replace(kind=typed.most_common(1)[0][0]) if 2 * typed.total() > len(kinds) else best


def _area(path: str) -> tuple[str, ...]:
    """The part of a repository that a file is in: parts may use libraries that others do not."""
    return PurePosixPath(path).parts[:-1][:2]


def _holds(folder: str, path: str) -> bool:
    return f"/{path}".startswith(folder + "/")


def _is_nearer(one: str, other: str, path: str) -> bool:
    """Whether a source is nearer to a file than another; than one with dots, if it is beside the file."""
    if not other.startswith("/"):
        return PurePosixPath(one).parent == PurePosixPath("/", path).parent
    return _shared(one, path) > _shared(other, path)


def _shared(source: str, path: str) -> int:
    """How many folders a source's path has in common with a file's; none of a name with dots."""
    if not source.startswith("/"):
        return 0
    return sum(
        1
        for _ in takewhile(lambda pair: pair[0] == pair[1], zip(source.split("/"), f"/{path}".split("/"), strict=False))
    )


def _inside(one: ImportTarget, other: ImportTarget) -> bool:
    return one == other or (bool(one.member) and one.kind == other.kind and _related(one.source, other.source))


def _related(one: str, other: str) -> bool:
    """Whether one source contains the other, and may hand on its names."""
    if one.startswith("/") != other.startswith("/"):
        whole, dotted = (one, other) if one.startswith("/") else (other, one)
        return f"/{dotted.lstrip('@~#/').replace('.', '/')}/" in f"{whole}/"
    return bool(one and other) and (one.startswith(other) or other.startswith(one))


def _same(target: ImportTarget, said: Said, defined: Sequence[ImportableName]) -> ImportTarget:
    """A target as all say it: without the kind of a type, and with a path where others say the path."""
    kind = "" if target.kind in TYPE_KINDS else target.kind
    if target.source.startswith("/"):
        return target._replace(kind=kind)
    tail = "/" + target.source.lstrip("@~#/").replace(".", "/")
    sources = (*(one.target.source for _, one in said), *(one.package for one in defined))
    whole = next((one for one in sources if one.startswith("/") and one.endswith(tail)), target.source)
    return ImportTarget(whole, target.member, kind)
