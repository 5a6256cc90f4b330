"""What is sent to a server: nothing before its host is allowed, and then the prompt alone."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.config import Settings, SettingsLayer, resolve
from fastcoder_lsp.config.remote_access import proxy_for, read_remote_key
from fastcoder_lsp.core import Change, CompletionRequest, Snapshot
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt.templates import TEMPLATES, Template
from fastcoder_lsp.remote.client import NetworkOptions
from fastcoder_lsp.remote.dialects import Fastcoder, LlamaCpp, Suffix, fim_prompt
from fastcoder_lsp.remote.excerpt import AFTER, BEFORE, REACH, Excerpt, ExcerptSnippet
from fastcoder_lsp.remote.failures import RemoteError
from fastcoder_lsp.remote.target import sent_text, target_of
from tests.remote.front import URI, Fronts
from tests.remote.scripted_server import LlamaServer, Serve, as_json

KEY = "sk-" + "a" * 30


def target(url: str, **settings: str) -> str:
    values = {f"remote_{name}": value for name, value in settings.items()}
    try:
        return target_of(replace(Settings(), remote_url=url, **values)).base  # type: ignore[arg-type]
    except RemoteError as error:
        return error.reason.code


def test_a_host_is_named_twice() -> None:
    for url in ("http://localhost:8012", "http://127.0.0.1:8012/", "http://[::1]:8012/v1", "http://127.9.9.9"):
        assert target(url).startswith("http://")
    assert target("https://models.example/v1", allow="Models.Example ") == "https://models.example"
    for allow in ("", "example", "*", "models.example:443", "https://models.example"):
        assert target("https://models.example", allow=allow) == "remote-unallowed"
    for host in ("localhost.attacker.example", "127.0.0.1.attacker.example", "0.0.0.0", "models.example.attacker.test"):
        assert target(f"https://{host}", allow="models.example") == "remote-unallowed"


@pytest.mark.parametrize(
    "url",
    [
        "models.example",
        "ftp://127.0.0.1",
        "http://",
        "http://user:key@127.0.0.1",
        "http://127.0.0.1/?key=1",
        "http://127.0.0.1:99999",
        "http://[::1",
        "file:///etc/passwd",
        "http://мodels.example",
    ],
)
def test_what_is_no_address_is_said(url: str) -> None:
    assert target(url) == "remote-setting"


def test_a_path_before_the_api_stays() -> None:
    for ending in ("", "/", "/v1", "/v1/", "/v1/completions", "/infill"):
        assert target(f"http://127.0.0.1:80/llama{ending}") == "http://127.0.0.1:80/llama"


def test_a_key_goes_to_no_other_machine_in_the_open() -> None:
    named = {"allow": "models.example", "key_env": "KEY"}
    assert target("http://models.example", **named) == "remote-setting"
    assert target("http://models.example", allow="models.example") == "http://models.example"
    assert target("https://models.example", **named) == "https://models.example"
    assert target("http://127.0.0.1:1", key_env="KEY") == "http://127.0.0.1:1"


def test_a_repository_names_no_server() -> None:
    values: dict[str, object] = {"url": "http://attacker.example", "allow": "attacker.example", "kind": "openai"}
    values |= {"model": "x", "template": "qwen", "key_file": "/etc/passwd", "fallback": False, "key_env": "HOME"}
    settings, problems = resolve([SettingsLayer("fastcoder.toml", {"remote": values}, trusted=False)])
    assert settings == Settings()
    assert len(problems) == len(values)


def test_nothing_is_sent_unallowed(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    # A name for this machine that does not say so.
    asking = front(f"http://0.0.0.0:{server.port}")
    reason = asking.reason("x = ")
    assert reason.code == "remote-unallowed"
    assert 'remote.allow` to "0.0.0.0"' in reason.hint
    assert sent_text() in reason.hint
    assert server.requests == []
    allowed = front(f"http://0.0.0.0:{server.port}", remote_allow="0.0.0.0")
    assert allowed.ask("x = ").text == "1"


def test_the_prompt_alone_is_sent(serve: Serve, front: Fronts) -> None:
    def cookies(request: object) -> object:
        answer = b"".join(LlamaServer(lambda _: "1\n")(request))  # type: ignore[arg-type]
        return iter([answer.replace(b"content-type", b"set-cookie: id=7\r\ncontent-type", 1)])

    server = serve(cookies)
    lines = [f"line_{number} = {number}\n" for number in range(2000)]
    before, after = "".join(lines[:1000]) + "here = ", "\n" + "".join(lines[1000:])
    asking = front(server.url)
    for typed in ("", "z"):
        asking.ask(before + typed, after, uri="file:///home/jane/secret-project/a.py")
    for request in server.requests:
        assert set(request.headers) <= {
            *("host", "accept", "accept-encoding", "connection", "user-agent", "content-length", "content-type")
        }
        assert re.fullmatch(r"fastcoder-lsp/[\w.]+", request.headers["user-agent"])
        assert not {"jane", "secret-project"} & set(re.findall(r"[\w-]+", json.dumps(request.body)))
    body = server.asked("/infill")[0].body
    sent = body["input_prefix"] + body["prompt"]
    assert before.endswith(sent)
    assert BEFORE / 2 < len(sent) <= BEFORE
    assert sent.startswith("line_")
    assert after.startswith(body["input_suffix"])
    assert AFTER / 2 < len(body["input_suffix"]) <= AFTER
    assert body["input_suffix"].endswith("\n")
    again = server.asked("/infill")[1].body
    assert again["input_prefix"] == body["input_prefix"], "a key moves no beginning"


def test_lines_that_look_like_secrets_stay_here(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking = front(server.url)
    secret = f'API_KEY = "{KEY}"\n'
    asking.ask(f"a = 1\n{secret}b = 2\nc = ", f"\n{secret}d = 3\n")
    asking.ask("a = 1\n", f"{secret}e = 4\n")
    assert KEY not in json.dumps([request.body for request in server.requests])
    first, second = (request.body for request in server.asked("/infill"))
    assert (first["input_prefix"], first["prompt"]) == ("a = 1\nb = 2\n", "c = ")
    assert first["input_suffix"] == "\nd = 3\n"
    assert second["input_suffix"] == "\ne = 4\n"


def test_a_secret_left_of_the_cursor_stays_here(serve: Serve, front: Fronts) -> None:
    """It would go with the cursor's line, whose beginning every server has to see; `where.secrets` allows it."""
    server = serve(LlamaServer(lambda _: "1\n"))
    asking, careful = front(server.url), Policy(in_secrets=False)
    line = f'client = Client(api_key="{KEY}", '
    assert asking.code(line, ")\n", careful) == "secret"
    assert asking.ask("x = ", "", careful).text == "1"
    # What was accepted is asked about ahead, without a request.
    for before in (line, f'PASSWORD = "{KEY}'):
        request = CompletionRequest(Snapshot(URI, None, "python", 9, before), len(before))
        asking.service.accepted(request, Policy(in_secrets=False))
    assert asking.ask("y = ", "", careful).text == "1"
    assert KEY not in json.dumps([request.body for request in server.requests])
    assert asking.ask(line, ")\n").text.strip() == "1"


def test_a_line_too_long_to_judge_stays_here(serve: Serve, front: Fronts) -> None:
    """And the reason does not call it a secret."""
    asking, careful = front(serve(LlamaServer(lambda _: "1\n")).url), Policy(in_secrets=False)
    assert asking.code(f"x = '{'word ' * 300}' + ", "\n", careful) == "large"


def test_a_secret_that_began_above_the_cursor_stays_here(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking, careful = front(server.url), Policy(in_secrets=False)
    for above, below in (('TOKEN = """\nhidden\nhid', '\nhidden\n"""\n'), ('PASSWORD = (\n    "hid', 'den"\n)\n')):
        assert asking.code(f"a = 1\n{above}", below, careful) == "secret"
    for above in ('TOKEN = """\nhidden\n"""\nb = ', "if token:\n    b = "):
        assert asking.ask(above, "\n", careful).text == "1"
    assert "hid" not in json.dumps([request.body for request in server.requests])


@pytest.mark.parametrize("kind", ["fastcoder", "llama.cpp"])
def test_a_secret_that_is_cut_stays_here(serve: Serve, front: Fronts, kind: str) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking = front(server.url, remote_kind=kind)
    before_most, after_most = (REACH, REACH) if kind == "fastcoder" else (BEFORE, AFTER)
    hidden = "correct horse battery staple"
    line = f'PASSWORD = "{hidden}"  # {"-" * 60}\n'
    block = "-----BEGIN PRIVATE KEY-----\n" + f"{hidden}\n" * 200 + "-----END PRIVATE KEY-----\n"
    sent = 0
    for secret in (line, block):
        for inside in (14, 20, 30, 60):
            room = before_most - len(secret) + inside - len("c = ")
            before = "a = 1\n" + secret + ("b = 2\n" * 9000)[-room:] + "c = "
            below = after_most - inside - 1
            asking.ask(before, "\n" + ("d = 3\n" * 9000)[-below:] + line + "e = 4\n")
            body = server.asked("/infill")[-1].body
            whole = json.dumps(body)
            assert not any(word in whole for word in hidden.split()), (secret[:9], inside, kind)
            assert (body["input_prefix"] + body.get("prompt", "")).endswith("b = 2\nc = ")
            assert body["input_suffix"].endswith("d = 3\n")
            sent += 1
    assert len(server.asked("/infill")) == sent


def test_halves_of_characters_are_asked_about_as_well(serve: Serve, front: Fronts) -> None:
    """An editor may leave them; no UTF-8 can say them."""
    server = serve(LlamaServer(lambda _: "1\n"))
    assert front(server.url).ask("a = '\ud83d'\nb = ", "\n# \ude00\n").text == "1"
    assert "'\ufffd'" in server.asked("/infill")[0].body["input_prefix"]


def test_the_name_of_a_host_is_told(front: Fronts, serve: Serve) -> None:
    server = serve(lambda _: iter([as_json({})]))
    assert front(server.url).service.host.facts().asks == "127.0.0.1"


def test_keys_are_read_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    by_file = replace(Settings(), remote_key_file=str(file))
    by_name = replace(Settings(), remote_key_env="MY_KEY")
    assert read_remote_key(Settings()) == ""
    for settings in (by_file, by_name, replace(Settings(), remote_key_file="key")):
        with pytest.raises(UsageError):
            read_remote_key(settings)
    for text, mode in ((KEY, 0o644), ("", 0o600), ("two words", 0o600), ("é" * 9, 0o600), ("k" * 5000, 0o600)):
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
        with pytest.raises(UsageError):
            read_remote_key(by_file)
    file.write_text(f"{KEY}\n")
    monkeypatch.setenv("MY_KEY", KEY)
    assert read_remote_key(by_file) == read_remote_key(by_name) == KEY
    monkeypatch.setenv("MY_KEY", "a\r\nX-Header: 1")
    with pytest.raises(UsageError):
        read_remote_key(by_name)


def test_the_systems_proxy_leads_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert proxy_for("https://models.example") == "http://proxy.example:3128"
    for url in ("https://inside.example", "http://models.example", "https://127.0.0.1", "https://localhost:1"):
        assert proxy_for(url) is None
    monkeypatch.setenv("HTTP_PROXY", "proxy.example:3128")
    assert proxy_for("http://models.example") == "http://proxy.example:3128"
    for url in ("http://127.9.9.9:1", "http://[::1]:1", "http://LOCALHOST", "http://[::1"):
        assert proxy_for(url) is None


@pytest.mark.parametrize("proxy", ["socks4://user:password@127.0.0.1:1", "no scheme"])
def test_a_proxy_that_cannot_be_used_is_said(front: Fronts, proxy: str) -> None:
    asking = front("http://127.0.0.1:1", network=NetworkOptions(lambda: "", proxy=proxy))
    assert asking.service.preload().result(20) is False
    reason = asking.reason("x = ")
    assert reason.code == "remote-setting"
    assert "password" not in reason.text + reason.hint


def test_an_editors_uri_is_not_sent(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking = front(server.url, remote_kind="fastcoder")
    asking.ask("x = ")
    body = server.asked("/infill")[0].body
    assert (body["filename"], body["language"]) == ("a.py", "python")
    assert URI not in json.dumps(body)


def test_a_question_for_an_edit_is_not_sent(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    edits = front(server.url, edits_model="zed-industries/zeta-2").service.edits
    question = EditQuestion(0, URI, "a.py", "python", 1, "only_here = 1\n", 3, (Change("a.py", 0, "", "x\n"),))
    reason = edits.submit(question).result(20).reason
    assert (reason and reason.code) == "edit-remote"
    assert "only_here" not in json.dumps([request.body for request in server.requests])


@pytest.mark.parametrize("template", [one for one in TEMPLATES if one.prefix], ids=lambda one: one.name)
def test_marks_in_a_text_are_none(template: Template) -> None:
    marks = (template.prefix, template.suffix, template.middle, template.repository, template.file, *template.tokens)
    names = tuple(mark.removeprefix("▁") for mark in marks if mark)
    text = "".join(f"# {name}\n" for name in (*names, "<|endoftext|>", "<|im_start|>", "</s>")) + "<pre><b>x |> y</b>\n"
    plain = Excerpt("a\n" * 8 + "b", "c\n", (ExcerptSnippet("d.py", "e\n"),), "f.py", "python", 9)
    hostile = replace(
        plain,
        before=text + plain.before + names[0],
        after=text,
        snippets=(ExcerptSnippet(names[0], text),),
        name=names[-1],
    )

    def counts(excerpt: Excerpt) -> list[int]:
        prompt = fim_prompt(template, excerpt)
        return [prompt.count(name) for name in (*names, "<|endoftext|>", "<|im_start|>", "</s>")]

    assert counts(hostile) == counts(plain)
    assert "<pre><b>x |> y</b>\n" in fim_prompt(template, hostile)
    for dialect in (LlamaCpp(), Suffix()):
        body = dialect.body(hostile, "", 0, 1)
        assert not any(name in body["prompt"] for name in names)
    assert Fastcoder().body(hostile, "", 0, 1)["input_suffix"] == text
