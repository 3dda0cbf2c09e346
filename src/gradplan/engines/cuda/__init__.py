"""The GPU engine: shipped kernels, launched through NVIDIA's driver.

Nothing of CUDA is imported or linked: the driver is found when somebody asks for a GPU. A family
(`launches/<family>.py`) says what is to be launched for a problem and the layout of its tensors;
csrc/cuda keeps that, puts in the addresses of a call and launches. `GRADPLAN_LIBCUDA` names another
library than the system's libcuda.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import os
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradplan.declaration import Descriptor, Kind, Op
from gradplan.engines import ENGINES, BoundKernel, Engine
from gradplan.engines.checks import ANY_DEVICE, common, described, direct, recover
from gradplan.engines.cuda import launches
from gradplan.engines.cuda.crossing import describe_program, layouts_from
from gradplan.engines.cuda.launches.choices import CHOICES, chosen
from gradplan.engines.cuda.launches.errors import offence
from gradplan.engines.cuda.memory import DeviceArray
from gradplan.engines.cuda.program import Layout, Program
from gradplan.forks import LOCK
from gradplan.streams import stream_handle
from gradplan.tensors import framework_of
from gradplan.vocabulary import Error, InvalidProblem, Unsupported

if TYPE_CHECKING:
    from gradplan.engines.cuda.archive import Binary

__all__ = ["ENGINE", "CudaEngine", "Gpu", "check"]

_LIBRARY = "libcuda.so.1"
LEAST_CAPABILITY = (8, 0)
"""What the PTX is compiled for; the driver makes code of it for every newer GPU."""
LEAST_DRIVER = (12, 0)
"""The first version of CUDA whose drivers know version 8.0 of PTX."""

# Families ------------------------------------------------------------------------------------

MakeProgram = Callable[[Descriptor, Mapping[str, Layout]], Program]


@functools.cache
def families() -> tuple[Mapping[str, MakeProgram], Mapping[str, Callable[[Descriptor], int]]]:
    """By op, what makes its program and says how much workspace that may need: what is there."""
    programs: dict[str, MakeProgram] = {}
    workspace: dict[str, Callable[[Descriptor], int]] = {}
    for module in pkgutil.iter_modules(launches.__path__):
        family = importlib.import_module(f"{launches.__name__}.{module.name}")
        if hasattr(family, "PROGRAMS"):
            programs |= family.PROGRAMS
            workspace |= family.WORKSPACE
    return programs, workspace


# Devices -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A device, as the driver describes it."""

    name: str
    capability: tuple[int, int]

    @property
    def arch(self) -> str:
        return "sm_{}{}".format(*self.capability)


@dataclasses.dataclass(frozen=True)
class State:
    """What there is to run on."""

    reason: str | None = None
    """Why there is nothing."""
    driver: tuple[int, int] = (0, 0)
    """The CUDA version that the driver goes up to."""
    gpus: tuple[Gpu, ...] = ()


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _inquire(library: str) -> State:
    try:
        found = common().gradplan_cuda_inquire(library)
    except Error as error:
        return State(str(error))
    version = int(found["version"])
    gpus = tuple(Gpu(str(n), (int(major), int(minor))) for n, major, minor in found["devices"])
    return State(
        None if gpus else "the driver finds no GPU",
        (version // 1000, version % 1000 // 10),
        gpus,
    )


# The engine ----------------------------------------------------------------------------------


class CudaEngine(Engine):
    """Kernels for GPUs from compute capability 8.0 on; `device` is one of them, None all."""

    name = "cuda"
    devices = frozenset({"cuda"})
    has_threads = False

    def __init__(
        self,
        library: str | None = None,
        kernels: Callable[[], Mapping[str, Binary]] | None = None,
        device: int | None = None,
    ) -> None:
        self._library = library
        self._load = kernels
        self.device = device
        self._others: dict[str, CudaEngine] = {}

    @property
    def library(self) -> str:
        """Where the driver is."""
        return self._library or os.environ.get("GRADPLAN_LIBCUDA") or _LIBRARY

    @property
    def arch(self) -> str:
        return "sm_{}{}".format(*LEAST_CAPABILITY)

    @property
    def facts(self) -> Mapping[str, Any]:
        state = self.state
        if state.reason is not None:
            return {}
        gpus = {
            f"cuda:{i}": {"name": gpu.name, "arch": gpu.arch} for i, gpu in enumerate(state.gpus)
        }
        facts = {"driver": f"CUDA {_dotted(state.driver)}", "gpus": gpus}
        made = {
            name: chosen(name) for name, each in CHOICES.items() if chosen(name) != each.default
        }
        return {**facts, "choices": made} if made else facts

    @property
    def place(self) -> str:
        return f"cuda:{self.device or 0}"

    def on(self, device: str) -> CudaEngine:
        kind, _, index = device.partition(":")
        if kind not in self.devices or not index:
            return self
        with LOCK:
            if device not in self._others:
                number = int(index) if index.isdecimal() else ANY_DEVICE
                self._others[device] = CudaEngine(self._library, self._load, number)
            return self._others[device]

    @functools.cached_property
    def state(self) -> State:
        """Of this machine, when it was first asked for."""
        with LOCK:
            return _inquire(self.library)

    @functools.cached_property
    def kernels(self) -> Mapping[str, Binary]:
        """By key; those that are shipped are read when they are needed."""
        if self._load is not None:
            return self._load()
        from gradplan.engines.cuda.archive import load

        return load()

    # What it can do

    def has(self, op: Op) -> bool:
        return op.name in families()[0]

    def why_not(self, op: Op, desc: Descriptor) -> str | None:
        return self._why_no_device() or self._why_no_kernel(op, desc)

    def _why_no_device(self) -> str | None:
        if self.state.reason is not None:
            return self.state.reason
        if self.state.driver < LEAST_DRIVER:
            has, needs = _dotted(self.state.driver), _dotted(LEAST_DRIVER)
            return f"the driver is for CUDA {has}, needed is {needs}"
        gpus = dict(enumerate(self.state.gpus))
        if self.device is not None:
            if self.device not in gpus:
                there = ", ".join(f"cuda:{i}" for i in gpus)
                return f"there is no such device; the driver finds {there}"
            gpus = {self.device: gpus[self.device]}
        if any(gpu.capability >= LEAST_CAPABILITY for gpu in gpus.values()):
            return None
        index, gpu = next(iter(gpus.items()))
        has, needs = _dotted(gpu.capability), _dotted(LEAST_CAPABILITY)
        return f"cuda:{index} ({gpu.name}) has compute capability {has}, needed is {needs}"

    def _why_no_kernel(self, op: Op, desc: Descriptor) -> str | None:
        if not self.has(op):
            return f"no kernel for {op.name}"
        try:
            kernels = self.kernels
        except Exception as error:  # a damaged file, or a Python that cannot read it
            return f"the package's kernels cannot be read: {error}"
        try:
            program = families()[0][op.name](desc, packed(op, desc))
        except Unsupported as error:
            return str(error)
        missing = [each.kernel for each in program.launches if each.kernel not in kernels]
        return f"the package has no kernel {missing[0]}" if missing else None

    # A plan

    def bind(self, op: Op, desc: Descriptor) -> BoundKernel:
        programs, workspace = families()
        operands = op.operands(desc)

        def describe(given: Sequence[Any]) -> list[Any]:
            program = programs[op.name](desc, layouts_from(given, operands))
            try:
                return describe_program(program, operands, self.kernels, _report_name(op, desc))
            except KeyError as error:
                raise Unsupported(
                    f"{op.plan_name}: the package has no kernel {error.args[0]}"
                ) from None

        bound = common().gradplan_cuda_bind(
            self.library,
            op.plan_name,
            described(operands),
            ANY_DEVICE if self.device is None else self.device,
            workspace[op.name](desc),
            describe,
            functools.partial(_explain, op, desc),
        )
        size = int(bound["workspace_size"])
        return BoundKernel(
            _on_streams(op.plan_name, len(operands), direct(bound["run"], operands), size),
            size,
            functools.partial(recover, op.plan_name, operands),
            takes_stream=True,
            ffi=bound["foreign"],
        )

    def run_arrays(self, plan: Any, arrays: Mapping[str, Any]) -> None:
        device = self.device or 0
        moved: dict[int, DeviceArray] = {}  # one that is given twice is one there
        for array in arrays.values():
            moved.setdefault(id(array), DeviceArray(array, self.library, device))
        scratch = np.full(plan.workspace_size, 0xFF, np.uint8)
        plan.run(
            **{name: moved[id(array)].tensor for name, array in arrays.items()},
            workspace=DeviceArray(scratch, self.library, device).tensor if scratch.size else None,
        )
        for operand in plan.op.operands(plan.descriptor):
            if not operand.is_input:
                array = arrays[operand.name]
                np.copyto(array, moved[id(array)].fetched(), casting="no")


def _on_streams(
    plan: str, count: int, launch: Callable[..., Any], workspace_size: int
) -> Callable[..., Any]:
    """`launch` with the stream that is meant, and memory of the tensors' framework."""

    def run(*args: Any) -> None:
        tensors = args[:count]
        workspace, stream = (*args[count:], None)[:2]
        first = tensors[0]
        framework = framework_of(first)
        given = stream is not None
        handle = stream_handle(plan, stream) if given else framework.current_stream(first)
        export = framework.export or _as_it_is
        tensors = tuple(x if x is None else export(x) for x in tensors)
        if workspace is not None:
            workspace = export(workspace)
        elif workspace_size:

            def allocate(size: int) -> Any:  # asked for only if this layout needs any
                try:
                    with framework.on_stream(handle, first):
                        return export(framework.scratch(size, first))
                except Unsupported as error:
                    raise Unsupported(f"{plan}: workspace: {error}") from None

            workspace = allocate
        launch(*tensors, workspace, handle)

    return run


def _as_it_is(x: Any) -> Any:
    return x


def packed(op: Op, desc: Descriptor) -> dict[str, Layout]:
    """The layout that most calls have."""
    layouts = {}
    for operand in op.operands(desc):
        shape = operand.shape
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        dtype = operand.kinds[0].dtype_name
        layouts[operand.name] = Layout(dtype, shape, strides, aligned=True)
    return layouts


# Errors of indices ---------------------------------------------------------------------------


def _checked_indices(op: Op, desc: Descriptor) -> tuple[str, int, tuple[int, ...]]:
    """The indices that kernels check, how many there are to choose from, and their shape."""
    tensor = next(t for t in op.tensors if t.kind is Kind.INDEX and t.is_input)
    rows: int = getattr(desc, tensor.into)
    shape = next(o.shape for o in op.operands(desc) if o.name == tensor.name)
    return tensor.name, rows, shape


def _report_name(op: Op, desc: Descriptor) -> str:
    """Plans whose errors read the same share the words for them; nothing without indices."""
    if not op.reads_indices:
        return ""
    name, rows, shape = _checked_indices(op, desc)
    where = "" if len(shape) == 1 else f" {shape}"
    return f"{op.plan_name} {name} {rows}{where}"


def _explain(op: Op, desc: Descriptor, words: Sequence[int]) -> list[str]:
    """The class and the text of an error."""
    error = offence(words, *_checked_indices(op, desc))
    text = f"{op.plan_name}: {error} (found by an earlier call, whose result is as for skip)"
    return [type(error).__name__, text]


def check(device: Any = "cuda:0") -> None:
    """Waits for a device, and raises what kernels have found wrong with indices there.

    Calls do not wait for their kernels: without this, `bounds="raise"` raises in the next call on
    that device. `device` is a number, a name such as "cuda:1", or PyTorch's device.
    """
    engine = ENGINES["cuda"]
    assert isinstance(engine, CudaEngine)
    kind, _, index = str(device).partition(":")
    number = kind if kind.isdecimal() else index or "0"
    if not (kind == "cuda" or kind.isdecimal()) or not number.isdecimal():
        raise InvalidProblem(f"check: expected a device such as 'cuda:0'; got {device!r}")
    common().gradplan_cuda_check(engine.library, int(number))


ENGINE = CudaEngine()
