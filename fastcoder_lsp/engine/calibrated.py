"""Four-bit weights chosen by what a model computes on texts: made when asked for, kept, and judged by what they lose.

Owns the judgement and when `auto` relies on it. The numbers are `int4.calibrate`'s, the files `int8.stored`'s.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.backend import Backend, Rows
from fastcoder_lsp.engine.job import Job
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.memory import require_memory
from fastcoder_lsp.model.store import write_small

MOST_LOSS = 0.03
"""Nats a token, twice its standard error included, that `auto` gives up for half the bytes of a step."""
_ROWS = 128


@dataclass(frozen=True, slots=True)
class Loss:
    """What four-bit weights lose against eight-bit ones, in nats a token, on texts that did not guide the rounding."""

    nats: float
    standard_error: float
    tokens: int

    @property
    def small(self) -> bool:
        """Whether `auto` takes such weights."""
        return self.nats + 2 * self.standard_error <= MOST_LOSS


def known_loss(digest: str, cache: Path, shape: Shape | None = None) -> Loss | None:
    """What was measured for the model with this hash; None: its weights were never chosen so, or are gone.

    Those that an earlier version or another machine laid out otherwise are not read here, so they count as gone: of a
    model of this `shape`, all but those of the layout that runs it; None: those that nothing here reads.
    """
    from fastcoder_lsp.engine.int8.dot import in_four_bits, kinds_here  # noqa: PLC0415 numba takes a while to import
    from fastcoder_lsp.engine.int8.selftest import fitting_kinds  # noqa: PLC0415
    from fastcoder_lsp.engine.int8.stored import calibrated_name, form_of  # noqa: PLC0415

    kinds = map(in_four_bits, kinds_here()) if shape is None else islice(fitting_kinds(shape, 4), 1)
    read_here = {f"{calibrated_name(digest)}-{form_of(kind)}" for kind in kinds}
    for path in (cache / "int4").glob(f"{calibrated_name(digest)}*.json"):
        if path.stem.rpartition("-")[0] not in read_here:  # behind it: how embeddings are kept
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
    """What is given up by the four-bit weights that `auto` takes for a model on a CPU; None: it takes eight bits."""
    loss = known_loss(digest, cache, shape)
    return loss if loss is not None and loss.small else None


def choose_weights(job: Job, texts_SC: npt.NDArray[np.int64]) -> Path:
    """Choose a model's four-bit weights by what it computes on `texts_SC`, tokens of equally long texts; their file.

    Raises:
        ModelInvalidError: the model's files are damaged.
        ResourceError: memory or disk does not suffice.
        UsageError: this machine or this model has no four-bit engine.
    """
    from fastcoder_lsp.engine.int4.calibrate import calibrate  # noqa: PLC0415 as above
    from fastcoder_lsp.engine.int8.packing import fits  # noqa: PLC0415
    from fastcoder_lsp.engine.int8.selftest import exact_kind  # noqa: PLC0415
    from fastcoder_lsp.engine.int8.stored import Wanted, keep_calibrated  # noqa: PLC0415

    shape = fast_shape(read_config(job.folder))
    kind = exact_kind(shape, job.kernels, 4) if shape is not None and fits(shape, 4) else None
    if shape is None or kind is None:
        raise UsageError("this model cannot run in four bits on this machine", "take it as it is: cpu-int8 runs it")
    numbers = shape.weight_count // 2 + 4 * texts_SC.size * (2 * shape.width + shape.heads * shape.head_dim)
    require_memory(numbers + 4 * (texts_SC.size * shape.inner + 3 * shape.inner * shape.inner))
    wanted = Wanted(job.folder, shape, kind, job.digest, job.cache)
    return keep_calibrated(
        wanted, lambda weights: calibrate(weights, shape, kind, texts_SC, job.progress), job.progress
    )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What chosen weights lose, and what plainly rounded ones do; chosen ones are kept where they lose less."""

    chosen: Loss
    plain: Loss

    @property
    def kept(self) -> bool:
        """Whether the chosen ones are taken from now on."""
        return self.chosen.nats < self.plain.nats


def judge(
    job: Job, backends: Callable[[str], Backend], choose: Callable[[], Path], texts_SC: npt.NDArray[np.int64]
) -> Judgement:
    """Have weights chosen and compare them on `texts_SC`; they stay where they lose less than plainly rounded ones.

    What was chosen before is deleted first.

    Args:
        job: of the model.
        backends: kind of engine → one that is ready; it is closed before the next one is asked for.
        choose: has them chosen: `choose_weights`.
        texts_SC: tokens of equally long texts, which do not guide the rounding.

    Raises:
        UsageError: one of the two engines cannot run the model on this machine.
    """
    from fastcoder_lsp.engine.int8.stored import calibrated_name  # noqa: PLC0415 numba takes a while to import

    def nats(kind: str) -> npt.NDArray[np.float64]:
        backend = backends(kind)
        try:
            if backend.name != kind:
                raise UsageError(f"{kind} cannot run here", "see `fastcoder-lsp doctor`")
            return np.concatenate([_nats(backend, tokens_C) for tokens_C in texts_SC])
        finally:
            backend.close()

    for path in (job.cache / "int4").glob(f"{calibrated_name(job.digest)}*"):
        if path.suffix in (".json", ".safetensors"):
            path.unlink(missing_ok=True)
    eight_T, plain_T = nats("cpu-int8"), nats("cpu-int4")
    path = choose()
    try:
        found = Judgement(_loss(nats("cpu-int4") - eight_T), _loss(plain_T - eight_T))
    except BaseException:  # interrupted, too: weights that nobody judged would be taken at the next start
        path.unlink(missing_ok=True)
        raise
    if found.kept:
        write_small(path.with_suffix(".json"), json.dumps(asdict(found.chosen)))
    else:
        path.unlink()
    return found


def _loss(more_T: npt.NDArray[np.float64]) -> Loss:
    return Loss(float(more_T.mean()), float(more_T.std() / np.sqrt(len(more_T))), len(more_T))


def _nats(backend: Backend, tokens_C: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """−log p of each token of a text after its first one."""
    found = list[npt.NDArray[np.float64]]()
    for start in range(0, len(tokens_C) - 1, _ROWS):
        stop = min(start + _ROWS, len(tokens_C) - 1)
        logits_RV = backend.forward(Rows(tokens_C[start:stop], *_chain(stop - start), start, 0))
        assert logits_RV is not None, "all rows were asked for"
        peaks_R1 = logits_RV.max(axis=1, keepdims=True)
        whole_R = np.log(np.exp(logits_RV - peaks_R1).sum(axis=1, dtype=np.float64)) + peaks_R1[:, 0]
        found.append(whole_R - logits_RV[np.arange(stop - start), tokens_C[start + 1 : stop + 1]])
    return np.concatenate(found)


def _chain(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    return np.arange(count) - 1, np.arange(count)
