"""Four-bit weights calibrated on texts: made on request, stored, and judged by their loss.

Decides when `auto` uses them. `int4.calibrate` computes the numbers, `int8.stored` handles the files.
"""

import json
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fastcoder_lsp.core.arrays import Float64s, Int64s
from fastcoder_lsp.core.files import put_in_place, replace_file
from fastcoder_lsp.engine.architecture import Shape, fast_shape
from fastcoder_lsp.engine.backend import Backend, Rows
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.machine import require_memory
from fastcoder_lsp.model.store import write_error

if TYPE_CHECKING:
    from fastcoder_lsp.engine.int8.packing import Array
    from fastcoder_lsp.engine.int8.stored import WeightsRequest

Tokens = Int64s

MOST_LOSS = 0.03
"""Loss in nats a token, twice its standard error included, that `auto` accepts for half the bytes of a step."""
_ROWS = 128


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of four-bit weights against eight-bit ones, in nats a token, on texts not used to calibrate."""

    nats: float
    standard_error: float
    tokens: int

    @property
    def small(self) -> bool:
        """Whether `auto` accepts such weights."""
        return self.nats + 2 * self.standard_error <= MOST_LOSS


def known_loss(digest: str, cache: Path, shape: Shape | None = None) -> Loss | None:
    """The measured loss of the calibrated weights of the model with this hash; None if there are none.

    Weights in a layout of an earlier version or another machine do not count. With a `shape`, only the layout that runs
    it counts; without, every layout that this machine can read.
    """
    if next((cache / "int4").glob("*-calibrated-*.json"), None) is None:
        return None
    from fastcoder_lsp.engine.int8.dot import in_four_bits, kinds_here  # noqa: PLC0415 numba takes a while to import
    from fastcoder_lsp.engine.int8.selftest import fitting_kinds  # noqa: PLC0415
    from fastcoder_lsp.engine.int8.stored import calibrated_name, form_of  # noqa: PLC0415

    kinds = map(in_four_bits, kinds_here()) if shape is None else islice(fitting_kinds(shape, 4), 1)
    read_here = {f"{calibrated_name(digest)}-{form_of(kind)}" for kind in kinds}
    for path in (cache / "int4").glob(f"{calibrated_name(digest)}*.json"):
        if path.stem.rpartition("-")[0] not in read_here:  # after it: how embeddings are stored
            continue
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            loss = Loss(float(found["nats"]), float(found["standard_error"]), int(found["tokens"]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue
        if any(path.parent.glob(f"{path.stem}*.safetensors")):
            return loss
    return None


def taken_by_auto(digest: str, cache: Path, shape: Shape | None = None) -> Loss | None:
    """The loss of the four-bit weights that `auto` takes for a model on a CPU; None: it takes eight bits."""
    loss = known_loss(digest, cache, shape)
    return loss if loss is not None and loss.small else None


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """The losses of calibrated and of plainly rounded weights; the calibrated ones are kept if theirs is lower."""

    chosen: Loss
    plain: Loss

    @property
    def kept(self) -> bool:
        """Whether the calibrated weights are used from now on."""
        return self.chosen.nats < self.plain.nats


def choose_weights(job: LoadJob, guiding_SC: Tokens, judging_SC: Tokens) -> CalibrationResult:
    """Calibrate a model's four-bit weights, and keep them if they lose less than plain ones.

    Until it ends, and if it fails, the engine uses the weights that were calibrated before, or plain ones.

    Args:
        job: of the model.
        guiding_SC: tokens of equally long texts, no longer than the job's context, for the calibration.
        judging_SC: tokens of other texts, on which both are compared with eight bits.

    Raises:
        ModelInvalidError: the model's files are damaged.
        ResourceError: memory or disk does not suffice.
        UsageError: this machine or this model has no four-bit engine, or another process calibrates them.
    """
    from fastcoder_lsp.engine.int4.calibrate import calibrate  # noqa: PLC0415 numba takes a while to import
    from fastcoder_lsp.engine.int8.stored import choosing_alone, load_arrays, read_chosen, write_chosen  # noqa: PLC0415

    assert max(guiding_SC.shape[1], judging_SC.shape[1]) <= job.context, "no room in the KV cache"
    eight, four = (_wanted(job, bits) for bits in (8, 4))
    shape = four.shape
    numbers = shape.weight_count // 2 + 4 * guiding_SC.size * (2 * shape.width + shape.heads * shape.head_dim)
    require_memory(numbers + 4 * (guiding_SC.size * shape.inner + 3 * shape.inner * shape.inner))
    with choosing_alone(four):
        eight_T = _nats(job, eight, load_arrays(eight, job.progress), judging_SC)
        plain_T = _nats(job, four, load_arrays(four, job.progress, chosen=False), judging_SC)
        path = write_chosen(
            four, lambda weights: calibrate(weights, shape, four.kind, guiding_SC, job.progress), job.progress
        )
        try:
            chosen_T = _nats(job, four, read_chosen(four, path, job.progress), judging_SC)
            found = CalibrationResult(_loss(chosen_T - eight_T), _loss(plain_T - eight_T))
            _settle(job, path, found)
        finally:
            path.unlink(missing_ok=True)
    return found


def _settle(job: LoadJob, path: Path, found: CalibrationResult) -> None:
    """Replace the stored weights by the judged ones, or delete them if plain ones lose less."""
    place = path.with_name(path.name.partition(".safetensors")[0] + ".safetensors")
    told = place.with_suffix(".json")
    try:
        before = told.read_text(encoding="utf-8") if told.exists() else None
        # If the process is killed in between, weights remain without a loss, but never with the loss of others.
        told.unlink(missing_ok=True)
        if found.kept:
            try:
                put_in_place(path, place)
            except OSError:  # on Windows a server may have the old ones open: they stay, with their loss
                if before is not None:
                    replace_file(told, before.encode())
                raise
            replace_file(told, json.dumps(asdict(found.chosen)).encode())
        else:
            place.unlink(missing_ok=True)
    except OSError as error:
        raise write_error(error, job.cache / "int4", "storing calibrated weights") from error


def forget_chosen(digest: str, cache: Path) -> bool:
    """Delete the calibrated weights of the model with this hash; returns whether there were any.

    Raises:
        ResourceError: they cannot be deleted.
    """
    from fastcoder_lsp.engine.int8.stored import calibrated_name  # noqa: PLC0415 numba takes a while to import

    there = False
    try:
        for suffix in (".json", ".safetensors"):
            for path in (cache / "int4").glob(f"{calibrated_name(digest)}-*{suffix}"):
                path.unlink(missing_ok=True)
                there = True
    except OSError as error:
        raise write_error(error, cache / "int4", "deleting calibrated weights") from error
    return there


def _wanted(job: LoadJob, bits: int) -> "WeightsRequest":
    from fastcoder_lsp.engine.int8.packing import fits  # noqa: PLC0415 as above
    from fastcoder_lsp.engine.int8.selftest import exact_kind  # noqa: PLC0415
    from fastcoder_lsp.engine.int8.stored import WeightsRequest  # noqa: PLC0415

    shape = fast_shape(job.config)
    kind = exact_kind(shape, job.kernels, bits) if shape is not None and fits(shape, bits) else None
    if shape is None or kind is None:
        words = "eight" if bits == 8 else "four"
        raise UsageError(f"this model cannot run in {words} bits on this machine", "See `fastcoder-lsp doctor`.")
    return WeightsRequest(job.folder, shape, kind, job.digest, job.cache)


def _loss(more_T: Float64s) -> Loss:
    return Loss(float(more_T.mean()), float(more_T.std() / np.sqrt(len(more_T))), len(more_T))


def _nats(job: LoadJob, wanted: "WeightsRequest", arrays: "dict[str, Array]", texts_SC: Tokens) -> Float64s:
    """−log p of each token of the texts after their first ones."""
    from fastcoder_lsp.engine.int8.backend import Int8Backend  # noqa: PLC0415 as above
    from fastcoder_lsp.engine.int8.sync import default_threads  # noqa: PLC0415

    threads = job.options.threads or default_threads()
    backend = Int8Backend(
        wanted.shape, arrays, wanted.kind, capacity=job.capacity, threads=threads, kernels=job.kernels
    )
    try:
        backend.warm_up(job.progress)
        return np.concatenate([_nats_of(backend, tokens_C) for tokens_C in texts_SC])
    finally:
        backend.close()


def _nats_of(backend: Backend, tokens_C: Tokens) -> Float64s:
    """−log p of each token of a text after its first one."""
    found = list[Float64s]()
    for start in range(0, len(tokens_C) - 1, _ROWS):
        stop = min(start + _ROWS, len(tokens_C) - 1)
        chain = np.arange(stop - start)
        logits_RV = backend.forward(Rows(tokens_C[start:stop], chain - 1, chain, start, 0))
        assert logits_RV is not None, "all rows were asked for"
        peaks_R1 = logits_RV.max(axis=1, keepdims=True)
        whole_R = np.log(np.exp(logits_RV - peaks_R1).sum(axis=1, dtype=np.float64)) + peaks_R1[:, 0]
        found.append(whole_R - logits_RV[chain, tokens_C[start + 1 : stop + 1]])
    return np.concatenate(found)
