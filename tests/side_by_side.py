"""How pytest-xdist shares out the tests: by groups. Its own groups (`loadgroup`) do nothing with pytest 9."""

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.groups import group


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """A group goes to one process, whole and in the order of its tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
