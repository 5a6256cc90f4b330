"""A dozen injected faults, each with an explanation of its own that says what to do; real commands, real faults."""

import asyncio
import errno
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.errors import understood
from fastcoder_lsp.model.catalogue import wheel_model
from fastcoder_lsp.model.store import folder_bytes
from tests.faults.stranger import Stranger
from tests.lsp.raw_client import RawClient, running
from tests.model.tiny import write_gguf

PULL = "fastcoder-lsp model pull"


def test_no_model(stranger: Stranger) -> None:
    ended = stranger.run(*stranger.completion)
    stranger.explained("no model", ended, 3, ("default model is not on this machine",), PULL)
    assert stranger.run("model", "list").code == 0
    assert PULL in stranger.run("model", "path").advice


def test_half_a_download(stranger: Stranger) -> None:
    known = wheel_model("qwen2.5-coder-0.5b")
    half = stranger.cache / "models" / "gguf" / f"{known.file}.partial"
    half.parent.mkdir(parents=True, mode=0o700)
    with half.open("wb") as file:
        file.truncate(200_000_000)
    ended = stranger.run(*stranger.completion)
    stranger.explained("half a download", ended, 3, ("only partly downloaded: 200 MB of 491 MB",), "To continue, run: ")
    assert half.stat().st_size == 200_000_000


@pytest.mark.parametrize("share", [0.3, 0.97])
def test_a_gguf_cut_short(stranger: Stranger, share: float) -> None:
    path = stranger.folder / "own.gguf"
    write_gguf(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    ended = stranger.run(*stranger.completion, "--model", str(path))
    says = ("own.gguf", "cut short" if share > 0.5 else "")
    stranger.explained(f"GGUF cut at {share}", ended, 4, says, "Download it again")
    assert not list((stranger.cache / "models" / "converted").glob("*"))


@pytest.mark.ci
def test_a_garbled_tokenizer(stranger: Stranger) -> None:
    path = stranger.model / "tokenizer.json"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace('"pre_tokenizer": {"type": "ByteLevel"', '"pre_tokenizer": {"type": "Nobody"'))
    ended = stranger.run(*stranger.completion, "--model", str(stranger.model))
    stranger.explained("unknown pre-tokenizer", ended, 4, (str(path), "cannot be used"), "Download the model again")
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    ended = stranger.run(*stranger.completion, "--model", str(stranger.model))
    stranger.explained(
        "tokenizer cut short", ended, 4, (str(path), "not a tokenizer's JSON"), "Download the model again"
    )
    path.write_text(whole, encoding="utf-8")
    stranger.works()


def test_absurd_sizes(stranger: Stranger) -> None:
    path = stranger.model / "config.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(whole | {"hidden_size": 10**9}), encoding="utf-8")
    ended = stranger.run(*stranger.completion, "--model", str(stranger.model))
    stranger.explained("absurd sizes", ended, 4, ("config.json",), "model pull")


@pytest.mark.ci
def test_no_memory(stranger: Stranger) -> None:
    config = stranger.model / "config.json"
    whole = config.read_text(encoding="utf-8")
    # Half a million rows of vocabulary: the engine asks for some gigabytes before it reads anything.
    config.write_text(json.dumps(json.loads(whole) | {"vocab_size": 4_000_000}), encoding="utf-8")
    limit = 4 << 30
    prefix = ("prlimit", f"--as={limit}")
    ended = stranger.run(*stranger.completion, "--model", str(stranger.model), prefix=prefix)
    stranger.explained("no memory", ended, 6, ("needs", "GB of memory"), "Close other programs")


@pytest.mark.ci
def test_a_full_disk(stranger: Stranger) -> None:
    path = stranger.folder / "own.gguf"
    write_gguf(path, pre="some-new-way")  # which has to be converted
    before = folder_bytes(stranger.cache)
    prefix = ("prlimit", "--fsize=40000")
    ended = stranger.run(*stranger.completion, "--model", str(path), prefix=prefix)
    stranger.explained("full disk", ended, 6, ("no space left", str(stranger.cache)), "Free some space")
    assert folder_bytes(stranger.cache) - before < 40_000, "only small records are left"
    assert stranger.run("model", "path", str(path)).code == 3
    assert stranger.run("model", "pull", str(path)).code == 0, "and it can be tried again"


def test_a_disk_without_room_is_found_before_it_is_filled(stranger: Stranger) -> None:
    path = stranger.folder / "own.gguf"
    write_gguf(path, pre="some-new-way")  # which has to be converted
    mount = f"mount -t tmpfs -o size=3m,mode=700 none {stranger.cache}"
    ended = stranger.run_after(mount, *stranger.completion, "--model", str(path))
    stranger.explained("no room on the disk", ended, 6, ("needs", "free"), "FASTCODER_CACHE")


def test_an_unwritable_cache(stranger: Stranger) -> None:
    path = stranger.folder / "own.gguf"
    write_gguf(path)
    closed = f"mount --bind {stranger.cache} {stranger.cache} && mount -o remount,ro,bind {stranger.cache}"
    ended = stranger.run_after(closed, *stranger.completion, "--model", str(path))
    stranger.explained(
        "unwritable cache", ended, 6, (str(stranger.cache), "is not writable", "Read-only"), "FASTCODER_CACHE"
    )


@pytest.mark.ci
def test_a_read_only_home(stranger: Stranger) -> None:
    stranger.environment = {"FASTCODER_CACHE": str(stranger.home / "cache"), "FASTCODER_KERNELS": ""}
    closed = f"mount --bind {stranger.home} {stranger.home} && mount -o remount,ro,bind {stranger.home}"
    ended = stranger.run_after(closed, *stranger.completion, "--model", str(stranger.model))
    assert (ended.code, ended.out) == (0, "max()\n"), ended
    said = stranger.looked_after(closed, "machine.check_home")
    assert "home is not writable" in said
    stranger.explanations["read-only home"] = said


def test_no_home_at_all(stranger: Stranger) -> None:
    variables = {k: v for k, v in stranger.variables().items() if k not in ("HOME", "FASTCODER_CACHE")}
    prefix = ("unshare", "--user", "--map-user=12345")
    ended = stranger.run(*stranger.completion, prefix=prefix, variables=variables)
    if ended.code == 1 and "unshare" in ended.err:
        pytest.skip(ended.err)
    stranger.explained("no home", ended, 2, ("cache folder",), "FASTCODER_CACHE")


def test_a_model_that_always_says_the_end(stranger: Stranger) -> None:
    from tests.faults.small_model import write_model

    silent = write_model(stranger.folder / "silent", says="")
    ended = stranger.run(*stranger.completion, "--model", str(silent), "--json")
    told = json.loads(ended.out)
    assert (ended.code, told["text"], told["reason"]["code"], told["steps"]) == (0, "", "end", 1), ended
    stranger.explanations["end"] = told["reason"]["text"]


def test_all_explanations_differ(explanations: dict[str, str]) -> None:
    if len(explanations) < 10:
        pytest.skip("only with the tests before")
    by_words: dict[str, set[str]] = {}
    for fault, text in explanations.items():
        # A file cut at another place, another package broken: the same fault once more.
        kind = re.split(r" cut at |(?<=broken) ", fault)[0]
        by_words.setdefault(re.sub(r"(/[^\s:;,]+)+|\d+([.,]\d+)?", "…", text), set()).add(kind)
    assert [kinds for kinds in by_words.values() if len(kinds) > 1] == []


SERVE = (sys.executable, "-m", "fastcoder_lsp.cli.main", "serve", "--engine", "cpu-fp32")
WAIT_S = 200.0


async def answer(client: RawClient, file: Path, line: int) -> list[Any]:
    """What is suggested at the beginning of a line."""
    asked = client.ask_inline(file.as_uri(), line, 0)
    await client.until(lambda: asked in client.answers, WAIT_S)
    result = client.answers[asked][0]["result"]
    items: list[Any] = result["items"]
    return items


async def test_a_model_that_cannot_be_loaded_and_then_can(stranger: Stranger) -> None:
    path = stranger.model / "tokenizer.json"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    command = (*SERVE, "--model", str(stranger.model))
    async with running(command=command, environment=dict(stranger.variables())) as client:
        await client.initialize(initializationOptions={"drafter": "none"})
        client.open(stranger.file.as_uri(), stranger.file.read_text(encoding="utf-8"))
        assert await answer(client, stranger.file, 0) == []
        statuses = [message["params"] for message in client.told if message["method"] == "fastcoder/status"]
        told = next(status for status in statuses if status["state"] == "error")
        assert str(path) in told["message"]
        assert "model pull" in json.dumps(told)
        why = await client.call("fastcoder/why", {"textDocument": {"uri": stranger.file.as_uri()}})
        assert str(path) in why["text"]

        path.write_text(whole, encoding="utf-8")
        items: list[Any] = []
        until = time.monotonic() + WAIT_S
        while not items and time.monotonic() < until:  # it is tried again some seconds after it failed
            await asyncio.sleep(0.5)
            items = await answer(client, stranger.file, 0)
        assert items[0]["insertText"] == "max()"
        assert await client.leave() == 0
        assert b"Traceback" not in client.stderr


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), BlockingIOError(errno.EAGAIN, "try again")])
def test_too_few_threads_are_named(error: Exception) -> None:
    explained = understood(error)
    assert "threads" in explained.message
    assert "ulimit -u" in explained.hint
