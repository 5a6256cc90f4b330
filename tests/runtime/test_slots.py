"""A front's KV caches: its own by name, carried along with a document, kept a while after it was closed."""

from dataclasses import dataclass, field

from fastcoder_lsp.core import Engine, EngineInfo
from fastcoder_lsp.documents import CLOSED_AT_MOST, Slots


@dataclass
class Named:
    """`core.Engines` that keeps what it is asked for; a slot is its name when it was made."""

    info: EngineInfo = field(default_factory=lambda: EngineInfo("toy", "toy", "here", "none", 256, 100, 8))
    held: dict[str, object] = field(default_factory=dict)

    def slot(self, name: str) -> Engine:
        return self.held.setdefault(name, object())  # type: ignore[return-value]

    def beside(self, name: str) -> Engine | None:
        """None of it is held."""

    def exchange(self, name: str) -> None:
        """There is nothing to exchange."""

    def swap(self, name: str) -> None:
        """There is nothing to swap."""

    def forget(self, name: str) -> None:
        del self.held[name]

    def rename(self, old: str, new: str) -> None:
        self.held[new] = self.held.pop(old)

    def close(self) -> None:
        self.held.clear()


def test_two_fronts_have_a_document_of_one_name_each_for_itself() -> None:
    engines = Named()
    one, two = Slots(engines, "one"), Slots(engines, "two")
    assert one.of("a.py") is one.of("a.py")
    assert one.of("a.py") is not two.of("a.py")
    one.close()
    assert len(engines.held) == 1
    assert two.of("a.py") in engines.held.values()


def test_a_closed_document_s_cache_serves_who_opens_it_again() -> None:
    """Of so many that were closed last; the others' are given up, and none of an open one."""
    engines = Named()
    slots = Slots(engines)
    kept_open = slots.of("open.py")
    first, second = slots.of("0.py"), slots.of("1.py")
    slots.forget("0.py")
    slots.forget("1.py")
    assert slots.of("0.py") is first
    for number in range(2, CLOSED_AT_MOST + 2):
        slots.of(f"{number}.py")
        slots.forget(f"{number}.py")
    assert second not in engines.held.values()
    assert {slots.of("0.py"), slots.of("open.py")} == {first, kept_open}
    assert len(engines.held) == CLOSED_AT_MOST + 2
    assert slots.forget("never opened.py") == ("never opened.py",)
    assert slots.forget("open.py") == ("2.py",), "its prompt goes with it"
    slots.close()
    assert not engines.held


def test_a_renamed_document_takes_its_cache_along() -> None:
    """Closed or not; what went by the new name before is gone with it."""
    engines = Named()
    slots = Slots(engines)
    first = slots.of("a.py")
    slots.of("b.py")
    slots.forget("b.py")
    slots.rename("a.py", "b.py")
    for number in range(CLOSED_AT_MOST + 1):
        slots.of(f"{number}.py")
        slots.forget(f"{number}.py")
    assert slots.of("b.py") is first
    slots.forget("b.py")
    slots.rename("b.py", "c.py")
    slots.rename("never.py", "c.py")
    slots.rename("c.py", "c.py")
    assert slots.of("c.py") is first
    slots.close()
    assert not engines.held
