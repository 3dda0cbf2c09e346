"""Elements by index along an axis, sums of elements with the same index, and their gradients.

    gather         y[.., i, ..] = x[.., indices[.., i, ..], ..]
    scatter_add    y[.., s, ..] = sum over i with indices[.., i, ..] == s of x[.., i, ..]
    index_select   y[.., i, ..] = x[.., indices[i], ..]
    index_add      y[.., s, ..] = sum over i with indices[i] == s of x[.., i, ..]

Of gather and scatter_add each line along the axis has indices of its own, of index_select and
index_add all lines share them. The gradient of a gather is the sum of the same indices, and the
other way around. Members are added in ascending i, in blocks of 256 (docs/numerics.md); a sum of
nothing is 0. Indices outside of [0, size) raise or are skipped, as `bounds` says: they give 0 and
add nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

from gradplan.declaration import (
    Arithmetic,
    AxisOf,
    Descriptor,
    Extent,
    Figure,
    Function,
    Gradient,
    Like,
    Op,
    Peer,
    Shape,
    Tensor,
    along,
    reads,
    reads_indices,
    replaced,
    writes,
)
from gradplan.vocabulary import Bounds, ElementKind, OpCategory


class _Fields(Descriptor):
    shape: Annotated[Shape, "the shape of what is picked, or added up"]
    axis: Annotated[int, AxisOf("shape"), "the axis that indices are along"]
    size: Annotated[Extent, "how many there are along the axis to point to"]
    element: Annotated[ElementKind, "the element type"]
    bounds: Annotated[Bounds, "skip indices outside of [0, size), or raise"] = Bounds.SKIP


class GatherDescriptor(_Fields):
    """Elements by index along an axis."""


class GatherBackwardDescriptor(_Fields):
    """The gradient of gather."""


class ScatterAddDescriptor(_Fields):
    """Sums of the elements with the same index along an axis."""


class ScatterAddBackwardDescriptor(_Fields):
    """The gradient of scatter_add."""


class IndexSelectDescriptor(_Fields):
    """Slices by index along an axis."""


class IndexSelectBackwardDescriptor(_Fields):
    """The gradient of index_select."""


class IndexAddDescriptor(_Fields):
    """Sums of the slices with the same index along an axis."""


class IndexAddBackwardDescriptor(_Fields):
    """The gradient of index_add."""


_TABLE = replaced("axis", "size")
_FIGURES = (Figure("square", None, "torch", 1), Figure("columns", None, "torch", 1))


def _indices(each: bool) -> Tensor:
    axes = "shape" if each else along("axis")
    return reads_indices("indices", axes, into="size", doc="positions along the axis")


def _pick(descriptor: type[Descriptor], each: bool, doc: str, names: Any, **rest: Any) -> Op:
    """Copies by index out of the tensor names[0] into names[1]."""
    return Op(
        descriptor,
        OpCategory.EMBEDDING,
        doc,
        tensors=(
            reads(names[0], _TABLE, doc=names[2]),
            _indices(each),
            writes(names[1], "shape", doc=names[3]),
        ),
        arithmetic=Arithmetic.COPY,
        **rest,
    )


def _add(descriptor: type[Descriptor], each: bool, doc: str, names: Any, **rest: Any) -> Op:
    """Sums by index of the tensor names[0] in names[1]."""
    return Op(
        descriptor,
        OpCategory.SEGMENT,
        doc,
        tensors=(
            reads(names[0], "shape", doc=names[2]),
            _indices(each),
            writes(names[1], _TABLE, doc=names[3]),
        ),
        **rest,
    )


_FORWARD = ("x", "output", "the values", "what is picked, 0 where an index is skipped")
_SUMS = ("x", "output", "the values", "the sums")
_TO_INPUT = ("d_output", "dx", "the gradient of the output", "the gradient of the values")


def _gradient(name: str) -> Gradient:
    return Gradient(f"{name}_backward", cotangents={"d_output": "output"}, grads={"dx": "x"})


# What others call them -----------------------------------------------------------------------


def others(shape: Any, index: Any, dim: int) -> tuple[tuple[int, int], ...]:
    """The axes along which a tensor is longer than the indices, and by how much it is too long."""
    return tuple(
        (d, index.shape[d]) for d in range(index.ndim) if d != dim and shape[d] != index.shape[d]
    )


def cut(x: Any, index: Any, dim: int) -> Any:
    """As much of x as has indices, apart from the axis."""
    for d, n in others(x.shape, index, dim):
        x = x.narrow(d, 0, n)
    return x


def line(x: Any) -> Any:
    """PyTorch takes a scalar for a line of one."""
    return x.reshape(1) if x.ndim == 0 else x


def axis_of(name: str, dim: Any, rank: int) -> int:
    from gradplan.declaration.fields import integer
    from gradplan.vocabulary import IndexOutOfRange, InvalidProblem

    try:
        axis = integer(dim)
    except TypeError:
        raise InvalidProblem(f"{name}: dim: expected an integer; got {dim!r}") from None
    rank = max(rank, 1)
    if not -rank <= axis < rank:
        raise IndexOutOfRange(f"{name}: dim: expected {-rank} to {rank - 1}; got {axis}")
    return axis % rank


def check_smaller(name: str, tensors: Any, index: Any, dim: int | None) -> None:
    """Raises for indices that reach beyond a tensor where they must not."""
    from gradplan.vocabulary import InvalidProblem

    for what, x in tensors:
        if x.ndim != index.ndim or any(
            n > x.shape[d] for d, n in enumerate(index.shape) if d != dim
        ):
            apart = "" if dim is None else f" apart from dimension {dim}"
            raise InvalidProblem(
                f"{name}: index: expected a shape inside of {what}'s {list(x.shape)}{apart}; "
                f"got {list(index.shape)}"
            )


def _torch_gather(torch: Any, gather: Any, input: Any, dim: Any, index: Any, bounds: str) -> Any:
    axis = axis_of("gather", dim, input.ndim)
    x, ids = line(input), line(index)
    check_smaller("gather", [("input", x)], ids, axis)
    if not input.is_floating_point():
        return torch.gather(input, dim, index)
    picked = gather(x=cut(x, ids, axis), indices=ids, axis=axis, bounds=bounds)
    return picked.reshape(index.shape)


def _torch_scatter_add(
    torch: Any, scatter: Any, input: Any, dim: Any, index: Any, src: Any, bounds: str
) -> Any:
    axis = axis_of("scatter_add", dim, input.ndim)
    start, ids, values = (line(x) for x in (input, index, src))
    check_smaller("scatter_add", [("input", start)], ids, axis)
    check_smaller("scatter_add", [("src", values)], ids, None)
    if not input.is_floating_point():
        return torch.scatter_add(input, dim, index, src)
    values = cut(values, ids, -1)
    sums = scatter(x=values, indices=ids, size=start.shape[axis], axis=axis, bounds=bounds)
    return _plus(torch, start, sums, ids, axis).reshape(input.shape)


def _plus(torch: Any, start: Any, sums: Any, index: Any, dim: int) -> Any:
    """start + sums, of which there are fewer where the indices end."""
    pad: list[int] = []
    for d in reversed(range(start.ndim)):
        pad += [0, start.shape[d] - sums.shape[d]]
    if any(pad):
        sums = torch.nn.functional.pad(sums, pad)
    return start + sums


def _torch_index_select(
    torch: Any, select: Any, input: Any, dim: Any, index: Any, bounds: str
) -> Any:
    axis = axis_of("index_select", dim, input.ndim)
    if not input.is_floating_point():
        return torch.index_select(input, dim, index)
    ids = line(index)
    picked = select(x=line(input), indices=ids, axis=axis, bounds=bounds)
    return picked.reshape(()) if input.ndim == 0 else picked


def _torch_index_add(
    torch: Any, add: Any, input: Any, dim: Any, index: Any, source: Any, alpha: Any, bounds: str
) -> Any:
    axis = axis_of("index_add", dim, input.ndim)
    if not input.is_floating_point():
        return torch.index_add(input, dim, index, source, alpha=alpha)
    start, values, ids = (line(x) for x in (input, source, index))
    sums = add(x=values, indices=ids, size=start.shape[axis], axis=axis, bounds=bounds)
    if start.shape != sums.shape:
        from gradplan.vocabulary import InvalidProblem

        raise InvalidProblem(
            f"index_add: source: expected input's shape {list(input.shape)} apart from dimension "
            f"{axis}; got {list(source.shape)}"
        )
    total = start + sums if alpha == 1 else torch.add(start, sums, alpha=alpha)
    return total.reshape(input.shape)


def from_start(jnp: Any, indices: Any, size: int) -> Any:
    """Indices that may count from the end, as JAX's do."""
    indices = jnp.asarray(indices)
    return jnp.where(indices < 0, indices + indices.dtype.type(size), indices)


def _jax_take(jax: Any, gather: Any, arr: Any, indices: Any, axis: int, bounds: str) -> Any:
    jnp = jax.numpy
    arr, indices = jnp.asarray(arr), jnp.asarray(indices)
    axis = axis_of("take_along_axis", axis, arr.ndim)
    size = arr.shape[axis]
    common = list(
        jnp.broadcast_shapes(
            (*arr.shape[:axis], 1, *arr.shape[axis + 1 :]),
            (*indices.shape[:axis], 1, *indices.shape[axis + 1 :]),
        )
    )
    whole, picked = ([*common[:axis], n, *common[axis + 1 :]] for n in (size, indices.shape[axis]))
    return gather(
        x=jnp.broadcast_to(arr, whole),
        indices=from_start(jnp, jnp.broadcast_to(indices, picked), size),
        axis=axis,
        bounds=bounds,
    )


def _jax_scatter(
    jax: Any, scatter: Any, operand: Any, indices: Any, updates: Any, axis: int, bounds: str
) -> Any:
    jnp = jax.numpy
    operand = jnp.asarray(operand)
    size = operand.shape[axis_of("scatter_add", axis, operand.ndim)]
    ids = from_start(jnp, indices, size)
    return operand + scatter(x=updates, indices=ids, size=size, axis=axis, bounds=bounds)


def _long(x: Any) -> Any:
    return x.long()


def _peer_sum(name: str) -> Peer:
    def bind(torch: Any, v: Any, out: Any) -> Any:
        axis = v.axis % max(v.x.ndim, 1)
        shape = list(v.x.shape) or [1]
        shape[axis] = v.size
        ids, x = _long(v.indices), v.x if v.x.ndim else v.x[None]
        ids = ids if v.x.ndim else ids[None]
        if out is not None:
            return lambda: getattr(out.zero_(), f"{name}_")(axis, ids, x)
        return lambda: getattr(x.new_zeros(shape), name)(axis, ids, x)

    return Peer("torch", f"x.new_zeros(shape).{name}(axis, indices, x)", bind)


def _peer_pick(name: str) -> Peer:
    def bind(torch: Any, v: Any, out: Any) -> Any:
        ids = _long(v.indices)
        return lambda: getattr(torch, name)(v.x, v.axis, ids, out=out)

    return Peer("torch", f"torch.{name}", bind)


GATHER = _pick(
    GatherDescriptor,
    True,
    "Elements by index along an axis; every line has indices of its own.",
    _FORWARD,
    functions=(
        Function(
            "gather",
            """Elements by index along an axis, as `np.take_along_axis`.

            >>> x = np.float32([[1, 2, 3], [4, 5, 6]])
            >>> gp.gather(x, np.array([[2, 0], [1, 1]]))
            array([[3., 1.],
                   [5., 5.]], dtype=float32)
            """,
            torch=Like(
                "torch.gather",
                arguments="input, dim, index, *, bounds='raise'",
                names={"input": "x", "index": "indices"},
                adapts=_torch_gather,
                doc="""Elements by index along `dim`; elsewhere the indices may end earlier.

                >>> gather(torch.tensor([[1.0, 2.0, 3.0]]), 1, torch.tensor([[2, 0]]))
                tensor([[3., 1.]])
                """,
            ),
            jax=Like(
                "jnp.take_along_axis",
                name="take_along_axis",
                arguments="arr, indices, axis=-1, *, bounds='skip'",
                names={"arr": "x"},
                adapts=_jax_take,
                doc="""Elements by index, as in JAX; what is out of range gives zeros.

                >>> take_along_axis(jnp.float32([[1, 2, 3]]), jnp.array([[2, -3]]), axis=1)
                Array([[3., 1.]], dtype=float32)
                """,
                differs="what is out of range gives 0, not NaN",
            ),
            peers=(_peer_pick("gather"),),
            figures=_FIGURES,
        ),
    ),
    gradient=_gradient("gather"),
)

GATHER_BACKWARD = _add(
    GatherBackwardDescriptor,
    True,
    "The gradient of gather: sums in a fixed order.",
    _TO_INPUT,
    functions=(
        Function(
            "gather_backward",
            """Gradient of `gather`: the sum of what was picked from each element.

            >>> gp.gather_backward(np.float32([1, 2, 4]), np.array([1, 0, 1]), 3)
            array([2., 5., 0.], dtype=float32)
            """,
            figures=_FIGURES,
        ),
    ),
)

SCATTER_ADD = _add(
    ScatterAddDescriptor,
    True,
    "Sums of elements with the same index along an axis; every line has indices of its own.",
    _SUMS,
    functions=(
        Function(
            "scatter_add",
            """Sums of the elements with the same index along an axis.

            >>> x = np.float32([[1, 2, 4], [8, 16, 32]])
            >>> gp.scatter_add(x, np.array([[1, 0, 1], [0, 0, 0]]), 2)
            array([[ 2.,  5.],
                   [56.,  0.]], dtype=float32)
            """,
            torch=Like(
                "torch.scatter_add",
                arguments="input, dim, index, src, *, bounds='raise'",
                names={"index": "indices", "src": "x"},
                takes={"input": "what the sums are added to"},
                adapts=_torch_scatter_add,
                doc="""input, with the elements of `src` added where `index` says along `dim`.

                >>> scatter_add(torch.zeros(3), 0, torch.tensor([1, 0, 1]), torch.ones(3))
                tensor([1., 2., 0.])
                """,
            ),
            jax=Like(
                "operand.at[indices].add(updates)",
                arguments="operand, indices, updates, axis=-1, *, bounds='skip'",
                names={"updates": "x"},
                takes={"operand": "what the sums are added to"},
                adapts=_jax_scatter,
                doc="""operand, with updates added by index, as in JAX; one out of range is dropped.

                >>> scatter_add(jnp.zeros(3), jnp.array([1, 0, -2]), jnp.ones(3))
                Array([1., 2., 0.], dtype=float32)
                """,
            ),
            peers=(_peer_sum("scatter_add"),),
            figures=_FIGURES,
        ),
    ),
    gradient=_gradient("scatter_add"),
)

SCATTER_ADD_BACKWARD = _pick(
    ScatterAddBackwardDescriptor,
    True,
    "The gradient of scatter_add.",
    _TO_INPUT,
    functions=(
        Function(
            "scatter_add_backward",
            """Gradient of `scatter_add`: that of the sum which each element went into.

            >>> gp.scatter_add_backward(np.float32([1, 2]), np.array([1, 0, 1]))
            array([2., 1., 2.], dtype=float32)
            """,
            figures=_FIGURES,
        ),
    ),
)

INDEX_SELECT = _pick(
    IndexSelectDescriptor,
    False,
    "Slices by index along an axis.",
    _FORWARD,
    functions=(
        Function(
            "index_select",
            """Slices by index along an axis.

            >>> x = np.float32([[1, 2, 3], [4, 5, 6]])
            >>> gp.index_select(x, np.array([2, 0]))
            array([[3., 1.],
                   [6., 4.]], dtype=float32)
            """,
            torch=Like(
                "torch.index_select",
                arguments="input, dim, index, *, bounds='raise'",
                names={"input": "x", "index": "indices"},
                adapts=_torch_index_select,
                doc="""Slices by index along `dim`.

                >>> index_select(torch.tensor([[1.0, 2.0, 3.0]]), 1, torch.tensor([2, 0]))
                tensor([[3., 1.]])
                """,
            ),
            jax=Like(
                "jnp.take(x, indices, axis)",
                doc="""Slices by index along an axis, as in JAX; one out of range gives zeros.

                >>> index_select(jnp.float32([[1, 2, 3]]), jnp.array([2, 0]))
                Array([[3., 1.]], dtype=float32)
                """,
                differs="negative indices are out of range, and those give zeros, not NaN",
            ),
            peers=(_peer_pick("index_select"),),
            figures=_FIGURES,
        ),
    ),
    gradient=_gradient("index_select"),
)

INDEX_SELECT_BACKWARD = _add(
    IndexSelectBackwardDescriptor,
    False,
    "The gradient of index_select: sums in a fixed order.",
    _TO_INPUT,
    functions=(
        Function(
            "index_select_backward",
            """Gradient of `index_select`: the sum of what was picked from each slice.

            >>> gp.index_select_backward(np.float32([[1, 2, 4]]), np.array([1, 0, 1]), 3)
            array([[2., 5., 0.]], dtype=float32)
            """,
            figures=_FIGURES,
        ),
    ),
)

INDEX_ADD = _add(
    IndexAddDescriptor,
    False,
    "Sums of the slices with the same index along an axis.",
    _SUMS,
    functions=(
        Function(
            "index_add",
            """Sums of the slices with the same index along an axis.

            >>> gp.index_add(np.float32([[1, 2, 4], [8, 16, 32]]), np.array([1, 0, 1]), 2)
            array([[ 2.,  5.],
                   [16., 40.]], dtype=float32)
            """,
            torch=Like(
                "torch.index_add",
                arguments="input, dim, index, source, *, alpha=1, bounds='raise'",
                names={"index": "indices", "source": "x"},
                takes={"input": "what the sums are added to", "alpha": "a factor of the sums"},
                adapts=_torch_index_add,
                doc="""input, with the slices of `source` added where `index` says along `dim`.

                >>> index_add(torch.zeros(3), 0, torch.tensor([1, 0, 1]), torch.ones(3))
                tensor([1., 2., 0.])
                """,
            ),
            jax=Like(
                doc="""Sums of slices with the same index; one out of range is dropped, as in JAX.

                >>> index_add(jnp.float32([[1, 2, 4]]), jnp.array([1, 0, 1]), 2)
                Array([[2., 5.]], dtype=float32)
                """,
            ),
            peers=(_peer_sum("index_add"),),
            figures=_FIGURES,
        ),
    ),
    gradient=_gradient("index_add"),
)

INDEX_ADD_BACKWARD = _pick(
    IndexAddBackwardDescriptor,
    False,
    "The gradient of index_add.",
    _TO_INPUT,
    functions=(
        Function(
            "index_add_backward",
            """Gradient of `index_add`: that of the sum which each slice went into.

            >>> gp.index_add_backward(np.float32([[1, 2]]), np.array([1, 0, 1]))
            array([[2., 1., 2.]], dtype=float32)
            """,
            figures=_FIGURES,
        ),
    ),
)
