"""The prompt benchmark: it types as a person does."""

import io
import json
import tarfile
from pathlib import Path

from benchmarks.datasets import histories
from benchmarks.prompt import keystrokes, replay
from fastcoder_lsp.prompt import PromptOptions
from tests.prompt.toy_tokenizers import of_family

RUN = histories.TypedRun("a.py", "python", "a = 1\nz = 9\n", 6, "if a:\n    b = 2\n")


def test_keystrokes_make_the_run() -> None:
    """The line is opened first; the blanks of an indentation come with Enter; at the end the run stands there."""
    strokes = list(keystrokes(RUN, auto_indent=True))
    assert strokes[0] == ("open", "a = 1\n\nz = 9\n", 6)
    assert strokes[-1][1] == "a = 1\nif a:\n    b = 2\nz = 9\n"
    assert [kind for kind, _, _ in strokes].count("enter") == 1
    assert ("enter", "a = 1\nif a:\n    \nz = 9\n", 16) in strokes
    slow = list(keystrokes(RUN, auto_indent=False))
    assert len(slow) == len(strokes) + 4


def test_replay_counts_every_keystroke() -> None:
    """One cost a keystroke, at least the one token whose logits are wanted; the plain order costs more."""
    tokenizer = of_family("Qwen2.5-Coder")
    anchored = replay(tokenizer, PromptOptions(), [RUN], auto_indent=True).summary()
    plain = replay(tokenizer, PromptOptions(anchored=False), [RUN], auto_indent=True).summary()
    assert anchored["line"]["keystrokes"] == len("if a:b = 2")
    assert anchored["line"]["median"] == 1
    assert plain["line"]["mean"] > 3 * anchored["line"]["mean"]


def test_histories(tmp_path: Path) -> None:
    """Steps are applied in order; what a run replaced is gone when it is typed."""
    with tarfile.open(tmp_path / "h.base.tar.gz", "w:gz") as archive:
        for name, text in (("h/a.py", b"one\ntwo\n"),):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    steps = [
        {"kind": "edit", "path": "a.py", "offset": 0, "delete": 0, "text": "zero\n", "typed": False},
        {"kind": "save", "path": "a.py"},
        {"kind": "edit", "path": "a.py", "offset": 5, "delete": 4, "text": "1\n", "typed": True},
        {"kind": "create", "path": "b.ts", "text": ""},
        {"kind": "edit", "path": "b.ts", "offset": 0, "delete": 0, "text": "let b\n", "typed": True},
        {"kind": "remove", "path": "a.py"},
    ]
    (tmp_path / "h.steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    assert list(histories.typed_runs(tmp_path, "h")) == [
        histories.TypedRun("a.py", "python", "zero\ntwo\n", 5, "1\n"),
        histories.TypedRun("b.ts", "typescript", "", 0, "let b\n"),
    ]
