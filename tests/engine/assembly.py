"""The machine code that LLVM makes here of our intrinsics, for whatever CPU."""

import re
from dataclasses import dataclass
from typing import Any

from llvmlite import binding, ir

ARM, X86 = "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"
I64 = ir.IntType(64)


@dataclass(frozen=True, slots=True)
class Code:
    """Instructions of a function, and of the loop that most of a kind are in; `spills`: its operands on the stack."""

    whole: list[str]
    loop: list[str]

    @property
    def spills(self) -> int:
        return sum("[sp" in line or "(%rsp)" in line for line in self.loop)


def code_of(maker: Any, features: str, inner: str, triple: str = ARM, cpu: str = "generic") -> Code:
    """What an intrinsic becomes on a CPU with `features`; the loop is the block with most instructions `inner`."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    signature, generate = maker._defn(*[None] * (maker._defn.__code__.co_argcount))
    module = ir.Module("code")
    module.triple = triple
    returned = I64 if str(signature.return_type) == "int64" else ir.VoidType()
    function = ir.Function(module, ir.FunctionType(returned, [I64] * len(signature.args)), "code")
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    class Context:
        def get_dummy_value(self) -> None:
            return None

    value = generate(Context(), builder, signature, list(function.args))
    builder.ret(value) if returned is I64 else builder.ret_void()
    parsed = binding.parse_assembly(str(module))
    machine = binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, codemodel="jitdefault"
    )
    options = binding.create_pipeline_tuning_options(speed_level=3)
    binding.create_pass_builder(machine, options).getModulePassManager().run(
        parsed, binding.create_pass_builder(machine, options)
    )
    assembly = re.split(r"^(?=\.LBB\w+:)", machine.emit_assembly(parsed), flags=re.MULTILINE)
    blocks = [instructions(block) for block in assembly]
    busiest = max(blocks, key=lambda block: sum(line.startswith(inner) for line in block))
    return Code([line for block in blocks for line in block], busiest)


def instructions(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines() if line.startswith("\t"))
    return [line for line in lines if not line.startswith((".", "//", "#"))]
