"""Compiles functions that only compiled code calls, as far as their callers need them: into LLVM's language.

numba optimises each of them and emits its machine code, although every caller takes in a copy, and optimises that. On a
first start this took a quarter of the time of compiling.
"""

from typing import Any, cast

from numba.core import codegen
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

_register: Any = register_pass
_lowering: Any = NativeLowering
_passes: Any = DefaultPassBuilder
"""Untyped: numba has no types for these."""


class LinkedLibrary(codegen.JITCodeLibrary):
    """One function in LLVM's language, to be linked into its callers' libraries, which are optimised as a whole."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True


class EntryMark:
    """Stands for the address of a function without machine code; numba finds the function by it."""


@_register(mutates_CFG=True, analysis_only=False)
class LinkedLowering(NativeLowering):
    """numba's last pass, without machine code."""

    _name = "linked_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower the function of `state`; returns that it has changed."""
        target, library = state.targetctx, cast("Any", LinkedLibrary)
        state.library = library(target.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        _lowering.run_pass(self, state)
        mark, lowered = EntryMark(), state["cr"]
        target.insert_user_function(mark, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=mark)
        return True


class LinkedCompiler(CompilerBase):
    """numba's compiler, whose last pass is `LinkedLowering`."""

    def define_pipelines(self) -> list[Any]:
        """The passes; numba takes the first pipeline that succeeds."""
        passes = _passes.define_nopython_pipeline(self.state)
        passes.passes = [(LinkedLowering, why) if one is NativeLowering else (one, why) for one, why in passes.passes]
        passes.finalize()
        return [passes]
