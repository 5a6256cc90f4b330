"""What the files of a repository agree on: the one target that a name means."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePosixPath
from typing import Final

from fastcoder_lsp.edits.imports.facts import ImportableName, ImportTarget, NamedTarget

AGREED: Final = 0.9  # share of the files importing a name that import the same
_MOST_SAID: Final = 2_000  # importing files that are compared

Said = Sequence[tuple[str, NamedTarget]]


def agreed_target(
    said: Said,
    defined: Sequence[ImportableName],
    path: str,
    own: Collection[str] = (),
    known: Callable[[ImportTarget], bool] = lambda _: False,
) -> ImportTarget | None:
    """The target that the files in the nearest folder with two of them agree on, or all files, or the only definition.

    One file alone is believed where the repository defines the name, where the target is `known`, or where the file at
    `path` imports from the source already (`own`).
    """
    if not said:
        whole = len(defined) == 1 and defined[0].package
        return ImportTarget(defined[0].package, defined[0].member) if whole else None
    said = said[:_MOST_SAID]
    votes = [(where, _same(one.target, said, defined), one.target.kind) for where, one in said]
    own = {_same(ImportTarget(source), said, defined).source for source in own}
    for folder in (*map(str, PurePosixPath(path).parents),):
        near = [one for one in votes if folder == "." or one[0].startswith(folder + "/")]
        if len({where for where, _, _ in near}) > 1 and (found := _most(near, defined, own, path)) is not None:
            return found
    found = _most(votes, defined, own, path)
    if found is None or len({where for where, _, _ in votes}) > 1 or known(found) or found.source in own:
        return found
    return found if any(found.source in (one.package, "") or one.member == found.member for one in defined) else None


def _most(
    votes: Sequence[tuple[str, ImportTarget, str]], defined: Sequence[ImportableName], own: Collection[str], path: str
) -> ImportTarget | None:
    """The target of nearly all votes, unless as many other files define the name.

    Of a source and another one inside it, which hand on the same, it is the one that the file imports from already, or
    that most name; never one that the file at `path` is inside of.
    """
    counted = Counter(target for _, target in {(where, target) for where, target, _ in votes})
    best, most = counted.most_common(1)[0]
    alike = [target for target in counted if target.member == best.member and _inside(target, best)]
    same = sum(counted[target] for target in alike)
    outside = [target for target in alike if not f"/{path}".startswith(target.source + "/")]
    mine = [target for target in outside or alike if target.source in own]
    if same < AGREED * counted.total() or (2 * most <= same and len(mine) != 1):
        return None
    if len(mine) == 1:
        best = mine[0]
    elif best not in outside:
        inner = {one.package for one in defined if one.package.startswith(best.source + "/")}
        best = best._replace(source=inner.pop()) if len(inner) == 1 else max(outside or [best], key=counted.__getitem__)
    if most <= sum(not (one.package and _related(one.package, best.source)) for one in defined):
        return None
    kinds = [kind for _, target, kind in votes if target == best]
    return best._replace(kind="type") if 2 * kinds.count("type") > len(kinds) else best


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
    kind = "" if target.kind == "type" else target.kind
    if target.source.startswith("/"):
        return target._replace(kind=kind)
    tail = "/" + target.source.lstrip("@~#/").replace(".", "/")
    sources = (*(one.target.source for _, one in said), *(one.package for one in defined))
    whole = next((one for one in sources if one.startswith("/") and one.endswith(tail)), target.source)
    return ImportTarget(whole, target.member, kind)
