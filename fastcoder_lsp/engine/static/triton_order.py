"""Programmatic dependent launch: a kernel is launched while the one before it still runs, and waits by itself.

Owns the waiting, which every Triton kernel of ours begins with. Nothing that another kernel reads or writes may be
touched before it; the next kernel is let in at once, for it waits in its turn until this one is done and seen.
"""

import triton
import triton.language as tl

OVERLAPS = hasattr(getattr(tl.extra, "cuda", None), "gdc_wait")
"""Whether this Triton has it; a GPU has it from compute capability 9.0 on."""


@triton.jit
def after_the_last(PDL: tl.constexpr) -> None:
    """Wait for the kernel before and let the next one in; nothing at all where kernels are launched one by one."""
    if PDL:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


def launch_order(*, overlapped: bool) -> dict[str, bool]:
    """What every launch is given beside its arguments; raises RuntimeError where Triton cannot launch early."""
    if overlapped and not OVERLAPS:
        raise RuntimeError("this Triton has no programmatic dependent launch")
    # A Triton without it knows no such option, and must not be given one.
    return {"PDL": True, "launch_pdl": True} if overlapped else {"PDL": False}
