"""With the real model and the drafter of everybody: what a tenant typed helps that tenant, and no other one."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.draft.auto.evidence import EvidenceCounts
from fastcoder_lsp.http.infill import InfillRequest
from fastcoder_lsp.team.calls import Call, ReplicaAnswer, Tenant, place_of
from fastcoder_lsp.team.configuration import parse_config
from fastcoder_lsp.team.replica import TeamReplica
from tests.team import steady

pytestmark = [pytest.mark.model, pytest.mark.ci]

TEXT = '''\
class Stack:
    """Last in, first out."""

    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        return self.items.pop()


def total_of_quarterly_zebra_invoices(invoices):
    """The sum of all zebra invoices."""
    return sum(invoice.zebra for invoice in invoices)


stack = Stack()
'''
REPOSITORY = '''\
def pop_or_none(items):
    """The last of the items; None where the stack has none."""
    if not items:
        return None
    item = items.pop()
    return item


def zebra_invoices(invoices):
    """Those invoices of the quarter that are of zebra."""
    return [invoice for invoice in invoices if invoice.zebra]
'''
PLACES = ("def pop(self):\n        ", "invoices):\n", '"""The sum of all zebra invoices."""\n    ', "stack = ")


def work(replica: TeamReplica, tenant: Tenant) -> list[tuple[str, int, int, int]]:
    async def asked() -> list[tuple[str, int, int, int]]:
        found = []
        for place in PLACES:
            at = TEXT.index(place) + len(place)
            ask = InfillRequest(TEXT[:at], TEXT[at:], language="python")
            answer = await replica.answer(Call(place_of(tenant.key, "a.py"), tenant, ask))
            assert isinstance(answer, ReplicaAnswer)
            counts = answer.said.completion.counts
            found.append((answer.said.text, counts.prefilled, counts.reused, counts.accepted))
        return found

    return asyncio.run(asked())


def test_other_tenants_do_not_change_the_work_for_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    steady.stop_the_clock(monkeypatch)
    written = list[object]()
    monkeypatch.setattr(EvidenceCounts, "save", lambda *told: written.append(told))
    replica = TeamReplica(parse_config("", Path("/")), "replica", lambda _: {}, steady.MODULE)
    try:
        ada = [work(replica, Tenant("ada", "work")) for _ in range(2)]
        eve = work(replica, Tenant("eve", "work"))
        other = work(replica, Tenant("ada", "play"))
    finally:
        replica.close()
    assert eve == ada[0] == other
    assert [text for text, *_ in ada[1]] == [text for text, *_ in ada[0]]
    assert sum(prefilled for _, prefilled, *_ in ada[1]) < sum(prefilled for _, prefilled, *_ in ada[0])
    assert sum(accepted for *_, accepted in ada[0]) > 0
    assert any(text for text, *_ in ada[0])
    assert not written


def test_only_readers_of_a_repository_have_it_in_prompts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steady.stop_the_clock(monkeypatch)
    tree = tmp_path / "core" / "0123abcd"
    tree.mkdir(parents=True)
    (tree / "totals.py").write_text(REPOSITORY, encoding="utf-8")
    config = parse_config("", Path("/"))
    shown = replace(config.settings(), context_enabled=True, index_enabled=False)
    replica = TeamReplica(config, "replica", lambda names: {tree: shown} if "core" in names else {}, steady.MODULE)
    try:
        assert replica._core.words.of(tree, shown).wait_idle(120.0)
        may, may_not = work(replica, Tenant("ada", "", ("core",))), work(replica, Tenant("eve"))
        none = work(replica, Tenant("ben", "", ("another",)))
    finally:
        replica.close()
    assert prompt_of(may) > prompt_of(may_not) + 20
    assert may_not == none


def prompt_of(found: list[tuple[str, int, int, int]]) -> int:
    return found[0][1] + found[0][2]
