"""Every op that is declared, its inputs cut along each of their axes in turn."""

from __future__ import annotations

from typing import Any

import jax
import jax_ops
import numpy as np
from device_programs import assert_same_bits, collectives, run_checks
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from samples import sample_descriptor, sample_inputs
from six_ops import SIX, declared

import gradplan.jax  # noqa: F401
from gradplan.declaration import OPS, AxisRole, Descriptor, Op
from gradplan.declaration.fields import ShapeField, SizeField
from gradplan.jax.problems import Family, Problem, backward, forward
from gradplan.separable import separable_axes

MESH = Mesh(np.array(jax.devices()[:2]), ("d",))
MANY = 64
"""Cases that there are at least, so that the test is not about nothing."""
done: list[str] = []


def _cut(number: int | None) -> NamedSharding:
    spec = PartitionSpec() if number is None else PartitionSpec(*[None] * number, "d")
    return NamedSharding(MESH, spec)


def _even(op: Op, fixed: Any) -> Descriptor:
    """A problem whose axes are all of different, even sizes."""
    sizes: dict[str, Any] = {}
    for position, info in enumerate(op.fields):
        if isinstance(info.field, SizeField):
            sizes[info.name] = 4 + 2 * position
        elif isinstance(info.field, ShapeField):
            sizes[info.name] = (4, 18, 6)
        elif info.field.is_axis:
            sizes[info.name] = 1
    return sample_descriptor(op, "f32", **{**sizes, **fixed})


def _problem(op: Op, desc: Descriptor) -> tuple[Family, Problem]:
    if op.forwards():
        return backward, Problem.of_gradient(op, desc)
    return forward, Problem.make(op, desc, {})


def _check_function(op: Op, desc: Descriptor) -> None:
    family, problem = _problem(op, desc)
    tensors = family.inputs(problem)
    values = sample_inputs(op, desc)
    given = [values[t.name] for t in tensors]
    run = jax.jit(lambda *xs: family(problem, *xs))
    wanted = run(*given)
    may = separable_axes(op, desc, tensors, family.outputs(problem))
    places = {t.name: op.axes_of(t, desc) for t in tensors}
    for axis in dict.fromkeys(a for axes in places.values() for a in axes):
        cut = [axes.index(axis) if axis in axes else None for axes in places.values()]
        if any(x.shape[k] % 2 for x, k in zip(given, cut, strict=True) if k is not None):
            continue  # one more than a size
        args = [jax.device_put(x, _cut(k)) for x, k in zip(given, cut, strict=True)]
        what = f"{desc} along {axis}"
        for got, want in zip(run(*args), wanted, strict=True):
            assert_same_bits(got, want, what)
        sent = collectives(run, *args)
        assert not sent or axis not in may, f"{what}: {sent}"
        assert sent or axis.role is not AxisRole.ALONG, f"{what} is not whole"
        done.append(what)


def check_every_op() -> None:
    jax.config.update("jax_enable_x64", True)
    with declared(*jax_ops.ALL, *SIX):
        for op in OPS.values():
            for function in op.functions:
                _check_function(op, _even(op, function.fixed))
    assert len(done) >= MANY, len(done)


if __name__ == "__main__":
    run_checks(globals())
