"""Programs for several devices: axes of independent problems stay cut, all others are whole.

A kernel is a custom call, of which XLA knows nothing: by itself it gathers every operand on every
device. So each call says how it may be cut (`gradplan.separable`, from the declaration), in the
rules of Shardy. `custom_partitioning` has neither derivatives nor batching, therefore it is put
below the primitives, where they are lowered.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jax.experimental.custom_partitioning import custom_partitioning
from jax.interpreters import mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gradplan.declaration import TensorAxis
from gradplan.jax.private import is_partitioned
from gradplan.separable import extents_of, separable_axes

if TYPE_CHECKING:
    from gradplan.jax.problems import Family, Problem

Spec = tuple[Any, ...]
"""For each axis of a tensor the axes of the mesh that it is cut over: None, a name or several."""

_KNOWN = {"sharding_rule", "need_replication_factors"} <= set(
    inspect.signature(custom_partitioning.def_partition).parameters
)


class Axes:
    """The axes of a call's tensors, and which of them may be cut."""

    def __init__(self, family: Family, problem: Problem) -> None:
        self.family, self.problem = family, problem
        self.op, self.desc = family.of(problem)
        self.inputs, self.outputs = family.inputs(problem), family.outputs(problem)
        self.separable = separable_axes(self.op, self.desc, self.inputs, self.outputs)
        self.of_inputs = [self.op.axes_of(t, self.desc) for t in self.inputs]
        self.of_outputs = [self.op.axes_of(t, self.desc) for t in self.outputs]
        self.extents = {
            axis: extent
            for t, axes in zip(
                (*self.inputs, *self.outputs), (*self.of_inputs, *self.of_outputs), strict=True
            )
            for axis, extent in zip(axes, t.shape(self.desc), strict=True)
        }
        self.indexed = frozenset(
            axis
            for t, axes in zip(self.inputs, self.of_inputs, strict=True)
            if t.index
            for axis in axes
        )

    def may_be(self, axis: TensorAxis, parts: int) -> bool:
        """Whether an axis may be cut into so many parts."""
        # XLA fills up a last part that is smaller. As a number anything will do; as an index it
        # could be out of range, or out of order, and raise.
        return axis in self.separable and (
            axis not in self.indexed or self.extents[axis] % parts == 0
        )

    def rule(self) -> tuple[str, tuple[str, ...]]:
        """Shardy's rule, and the names in it that are not cut."""
        names = {axis: f"a{number}" for number, axis in enumerate(self.extents)}

        def side(tensors: Sequence[Sequence[TensorAxis]]) -> str:
            return ", ".join(" ".join(names[axis] for axis in axes) for axes in tensors)

        whole = tuple(name for axis, name in names.items() if axis not in self.separable)
        return f"{side(self.of_inputs)} -> {side(self.of_outputs)}", whole

    def specs(
        self, mesh: Mesh, inputs: Sequence[Spec], outputs: Sequence[Spec]
    ) -> tuple[list[Spec], list[Spec]]:
        """How inputs and outputs are cut, from how they come and are asked for."""
        cut: dict[TensorAxis, tuple[str, ...]] = {}
        taken: set[str] = set()
        for axes, spec in zip(
            (*self.of_inputs, *self.of_outputs), (*inputs, *outputs), strict=True
        ):
            for axis, over in zip(axes, spec, strict=False):
                names = (over,) if isinstance(over, str) else tuple(over or ())
                parts = math.prod(mesh.shape[name] for name in names)
                free = names and axis not in cut and taken.isdisjoint(names)
                if free and self.may_be(axis, parts):
                    cut[axis] = names
                    taken.update(names)

        def of(tensors: Sequence[Sequence[TensorAxis]]) -> list[Spec]:
            return [tuple(cut.get(axis) for axis in axes) for axes in tensors]

        return of(self.of_inputs), of(self.of_outputs)

    def local(self, args: Sequence[Any]) -> Problem:
        """The problem of the parts that one device has."""
        shapes = [x.shape for x in args]
        return self.problem.replace(**extents_of(self.op, self.desc, self.inputs, shapes))


def _spec(x: Any) -> Spec:
    return tuple(getattr(x.sharding, "spec", ()))


@functools.lru_cache(maxsize=4096)
def _partitioned(family: Family, problem: Problem) -> Any:
    """The kernel's call, with the rule for XLA."""
    axes = Axes(family, problem)

    @custom_partitioning  # type: ignore[untyped-decorator]
    def call(*args: Any) -> Any:
        return tuple(family.local.bind(*args, problem=problem))

    def shardings(mesh: Any, args: Any, results: Any) -> tuple[Any, ...]:
        mesh = next((m for m in (getattr(x.sharding, "mesh", None) for x in args) if m), mesh)
        sides = axes.specs(mesh, [_spec(x) for x in args], [_spec(x) for x in results])
        return mesh, *(
            tuple(NamedSharding(mesh, PartitionSpec(*spec)) for spec in side) for side in sides
        )

    def partition(mesh: Any, args: Any, results: Any) -> Any:
        mesh, given, made = shardings(mesh, args, results)

        def run(*parts: Any) -> Any:
            return tuple(family.local.bind(*parts, problem=axes.local(parts)))

        return mesh, run, made, given

    def infer(mesh: Any, args: Any, results: Any) -> Any:
        return shardings(mesh, args, ())[2]

    rule, whole = axes.rule()
    call.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        sharding_rule=rule,
        need_replication_factors=whole,
    )
    return call


def lower(family: Family, ctx: Any, args: Sequence[Any], problem: Problem) -> Any:
    """A call that XLA may cut; None where there is nothing to cut."""
    if not (_KNOWN and family.knows_devices and is_partitioned(ctx)):
        return None
    call = _partitioned(family, problem)
    return mlir.lower_fun(lambda *xs: call(*xs), multiple_results=True)(ctx, *args)
