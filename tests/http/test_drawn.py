"""Texts that are drawn: a seed gives one text whatever is drafted, and the choices of a prompt differ."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastcoder_lsp.draft.base import Drafter, NoDrafter
from fastcoder_lsp.draft.registry import make
from tests.draft.test_exactness import parts
from tests.engine import tiny_models
from tests.http.drawing_server import INFILL, DrawingServer
from tests.http.toy_server import PREFIX

SEEDS = 300
ASK = {"prompt": PREFIX, "suffix": "\n"}
HOT = {"temperature": 0.8, "top_p": 0.95}


Open = Callable[[Drafter], DrawingServer]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    folder = tiny_models.make_model(tmp_path_factory.mktemp("tiny"), "qwen2")
    cache, servers = tmp_path_factory.mktemp("cache"), list[DrawingServer]()

    def start(drafter: Drafter) -> DrawingServer:
        servers.append(DrawingServer(tiny_models.load(folder, cache, "cpu-int8"), drafter))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def plain(serve: Open) -> DrawingServer:
    return serve(NoDrafter())


def test_a_seed_gives_the_same_text_with_and_without_drafts(plain: DrawingServer, serve: Open) -> None:
    drafted = serve(make("auto", parts(3, tiny_models.VOCABULARY)))
    texts, accepted = dict[int, str](), 0
    for seed in range(SEEDS):
        texts[seed] = plain.text(**HOT, seed=seed)
        for _ in range(2):  # the second time, drafts know the first text
            code, reply = drafted.call("/infill", INFILL | HOT | {"seed": seed})
            assert (code, reply["content"]) == (200, texts[seed])
            accepted += reply["timings"]["draft_n_accepted"]
    assert len(set(texts.values())) > 0.9 * SEEDS
    assert accepted > SEEDS


def test_choices_differ_and_repeat_with_their_seed(plain: DrawingServer) -> None:
    asked = ASK | HOT | {"n": 4, "seed": 11}
    first, second = (plain.call("/v1/completions", asked)[1] for _ in range(2))
    texts = [choice["text"] for choice in first["choices"]]
    assert [choice["index"] for choice in first["choices"]] == [0, 1, 2, 3]
    assert len(set(texts)) == 4
    assert texts == [choice["text"] for choice in second["choices"]]
    assert texts == [plain.text(**HOT, seed=11 + number) for number in range(4)]
    assert first["usage"]["completion_tokens"] == sum(map(len, texts))


def test_a_seed_may_be_any_int64_from_0_on(plain: DrawingServer) -> None:
    largest = 2**63 - 1
    assert plain.text(**HOT, seed=largest) != plain.text(**HOT, seed=largest - 1)
    bodies = plain.call("/completion", {"prompt": PREFIX, "n": 2, "seed": largest, **HOT})[1]
    assert [body["generation_settings"]["seed"] for body in bodies] == [largest, 0]


def test_without_a_seed_every_text_is_another_one_and_its_seed_is_told(plain: DrawingServer) -> None:
    first, second = (plain.call("/infill", INFILL | HOT)[1] for _ in range(2))
    assert first["content"] != second["content"]
    assert plain.text(**HOT, seed=first["generation_settings"]["seed"]) == first["content"]
    assert plain.text(**HOT, seed=-1) not in (first["content"], second["content"])


def test_greedy_texts_neither_serve_nor_follow_drawn_ones(plain: DrawingServer) -> None:
    greedy = plain.text()
    drawn = plain.text(**HOT, seed=5)
    assert drawn != greedy == plain.text()
    assert plain.text(temperature=0, seed=5, top_p=0.1) == greedy
    assert plain.text(temperature=2, top_k=1, seed=5) == plain.text(temperature=2, min_p=1, seed=6) == greedy
    assert plain.text(**HOT, seed=5) == drawn
    choices = plain.call("/v1/completions", ASK | {"n": 3})[1]["choices"]
    assert [choice["text"] for choice in choices] == [greedy] * 3


def test_every_route_draws(plain: DrawingServer) -> None:
    expected = plain.text(**HOT, seed=7)
    marked = {"prompt": f"<|fim_prefix|>{PREFIX}<|fim_suffix|>\n<|fim_middle|>"}
    assert plain.call("/completion", marked | HOT | {"seed": 7})[1]["content"] == expected
    mistral = plain.call("/v1/fim/completions", ASK | HOT | {"random_seed": 7})[1]
    assert mistral["choices"][0]["message"]["content"] == expected
    ollama = plain.call("/api/generate", ASK | {"stream": False, "options": {**HOT, "seed": 7}})[1]
    assert ollama["response"] == expected


def test_several_prompts_and_choices_are_numbered(plain: DrawingServer) -> None:
    asked = {"prompt": [PREFIX, PREFIX], "n": 2, "seed": 3, **HOT}
    bodies = plain.call("/completion", asked)[1]
    assert [body["index"] for body in bodies] == [0, 1, 2, 3]
    assert [body["generation_settings"]["seed"] for body in bodies] == [3, 4, 5, 6]
    assert len({body["content"] for body in bodies}) == 4
    equal = plain.call("/completion", asked | {"temperature": 0})[1]
    assert [body["index"] for body in equal] == [0, 1, 2, 3]
    assert len({body["content"] for body in equal}) == 1


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("temperature", -0.1),
        ("temperature", 2.5),
        ("temperature", "hot"),
        ("top_p", 1.5),
        ("top_p", "x"),
        ("top_k", 1.5),
        ("top_k", -2),
        ("min_p", -1),
        ("seed", 1.5),
        ("seed", 2**63),
        ("seed", -2),
        ("n", 0),
        ("n", 17),
        ("alternatives", 2),
    ],
)
def test_values_out_of_range_are_errors_that_name_the_field(plain: DrawingServer, name: str, wrong: Any) -> None:
    code, reply = plain.call("/infill", INFILL | HOT | {name: wrong})
    assert code == 400
    assert reply["error"]["message"].startswith(f"{name}: ")
