"""From a kernel's source to PTX, ahead of time: Triton as a compiler and nothing else.

One PTX serves every GPU from compute capability 8.0 on: Triton's own output for newer ones is for
one generation each. What would change from run to run or from machine to machine is switched off
or fixed here, so that the same source gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import triton
from triton import knobs
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from .kernel import NULL, Kernel

CAPABILITY = 80
PTX_VERSION = 80
VERSION: str = triton.__version__
NVIDIA = GPUTarget("cuda", CAPABILITY, 32)
AMD = {
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx1100": GPUTarget("hip", "gfx1100", 32),
}


@dataclasses.dataclass(frozen=True)
class Compiled:
    entry: str
    """The kernel's name in the PTX."""
    threads: int
    """Of one program."""
    shared: int
    """Bytes of shared memory that a launch has to ask for."""
    parameters: str
    """A letter per parameter of the PTX; see kernel.py."""
    ptx: bytes


def compile(kernel: Kernel, *, fusion: bool = False) -> Compiled:
    """`fusion` is for the test that shows that contraction would be noticed."""
    options = {"ptx_version": PTX_VERSION, "enable_fp_fusion": fusion}
    assembly, metadata = _run_stages(kernel, NVIDIA, "ptx", options)
    ptx = _without_comments(assembly)
    scratch = metadata["global_scratch_size"] or metadata["profile_scratch_size"]
    if scratch:
        raise ValueError(f"{kernel.function.__name__} needs {scratch} bytes of Triton's scratch")
    added = len(re.findall(r"\.param ", ptx)) - len(kernel.parameters)
    return Compiled(
        entry=metadata["name"],
        threads=32 * metadata["num_warps"],
        shared=metadata["shared"],
        parameters=kernel.parameters + NULL * added,
        ptx=ptx.encode(),
    )


def compile_for_amd(kernel: Kernel, target: GPUTarget) -> bytes:
    """A code object: that there is one is all that is known of it."""
    code, _ = _run_stages(kernel, target, "hsaco", {"enable_fp_fusion": False})
    assert isinstance(code, bytes)
    return code


def _run_stages(
    kernel: Kernel, target: GPUTarget, last: str, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """What triton.compile does, up to a stage: without ptxas, and without its cache on disk."""
    function = kernel.function
    types = {
        name: "constexpr" if name in kernel.constants else kernel.signature[name]
        for name in function.arg_names
    }
    attributes = {
        (function.arg_names.index(name),): [["tt.divisibility", 16]] for name in kernel.aligned
    }
    source = ASTSource(function, types, constexprs=dict(kernel.constants), attrs=attributes)
    backend = make_backend(target)
    parsed = backend.parse_options({"num_warps": kernel.warps, **options})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    metadata = {"target": target, **vars(parsed)}
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        module = source.make_ir(
            target,
            parsed,
            backend.get_codegen_implementation(parsed),
            backend.get_module_map(),
            context,
        )
        for name, stage in stages.items():
            module = stage(module, metadata)
            if name == last:
                return module, metadata
    raise ValueError(f"{target} has no stage {last}")


def _without_comments(ptx: str) -> str:
    """Comments name the compiler's revision and values; they are a third of the text."""
    lines = (re.sub(r"\s*//.*", "", line).strip() for line in ptx.splitlines())
    return "\n".join(line for line in lines if line) + "\n"
