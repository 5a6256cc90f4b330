"""With the real model and the drafter of everybody: what a tenant typed helps that tenant, and no other one."""

import asyncio
from pathlib import Path

import pytest

from fastcoder_lsp.draft import kept_counts
from fastcoder_lsp.http.ask import Ask
from fastcoder_lsp.team.configuration import parse_config
from fastcoder_lsp.team.places import place_of
from fastcoder_lsp.team.replica import TeamReplica, no_folders
from fastcoder_lsp.team.values import Answered, Call, Tenant
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
PLACES = ("def pop(self):\n        ", "invoices):\n", '"""The sum of all zebra invoices."""\n    ', "stack = ")


def work(replica: TeamReplica, tenant: Tenant) -> list[tuple[str, int, int, int]]:
    """What a tenant is answered at each place, and the work for it: computed, found, and drafts that were taken."""

    async def asked() -> list[tuple[str, int, int, int]]:
        found = []
        for place in PLACES:
            at = TEXT.index(place) + len(place)
            ask = Ask(TEXT[:at], TEXT[at:], language="python")
            answer = await replica.answer(Call(place_of(tenant.key, "a.py"), tenant, ask))
            assert isinstance(answer, Answered)
            counts = answer.said.completion.counts
            found.append((answer.said.text, counts.prefilled, counts.reused, counts.accepted))
        return found

    return asyncio.run(asked())


def test_the_work_for_a_tenant_is_the_same_whoever_was_there_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Token by token and draft by draft, though another one has just asked the very same; and nothing is written."""
    steady.stop_the_clock(monkeypatch)
    written = list[object]()
    monkeypatch.setattr(kept_counts, "save", lambda *told: written.append(told))
    replica = TeamReplica(parse_config("", Path("/")), "replica", no_folders, steady.MODULE)
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
