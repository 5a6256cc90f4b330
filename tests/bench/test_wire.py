"""`bench wire` measures what it says: both ways of each question, of a host in a process of its own."""

import json
from pathlib import Path

from benchmarks.wire import Options, run


def test_each_question_has_its_way_there_and_its_way_back(tmp_path: Path) -> None:
    target = tmp_path / "wire.json"
    assert run(Options(requests=20, lines=50, pause_ms=0.0, json=target)) == 0
    told = json.loads(target.read_text())
    assert {len(told[name]) for name in ("question", "answer", "both")} == {20}
    assert all(there > 0 and back > 0 for there, back in zip(told["question"], told["answer"], strict=True))
