"""gradplan.torch.scatter: torch_scatter's functions, against loops over the elements."""

from __future__ import annotations

import doctest
import functools
import inspect
import itertools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradplan as gp  # noqa: E402
from gradplan import torch as gpt  # noqa: E402
from gradplan.torch import scatter as ts  # noqa: E402

KINDS = ("sum", "mul", "mean", "min", "max")
# src, index, dim: shared by all lines, by some, or by none.
LAYOUTS = [
    ((7,), (7,), 0),
    ((4, 6), (6,), -1),
    ((6, 4), (6,), 0),
    ((3, 5, 2), (5,), 1),
    ((3, 5, 2), (3, 5), 1),
    ((3, 5, 2), (3, 5, 2), -2),
    ((4, 6), (4, 6), 1),
    ((4, 0, 2), (0,), 1),
]
TYPES = [torch.float64, torch.float32, torch.float16, torch.int64, torch.int32]


def problem(layout: Any, dtype: Any, seed: int = 0) -> tuple[Any, Any, Any, int]:
    """src, index, an `out` of 6 places, and the axis."""
    shape, index_shape, dim = layout
    g = torch.Generator().manual_seed(seed)
    src = torch.randint(-4, 5, shape, generator=g).to(dtype)
    index = torch.randint(0, 4, index_shape, generator=g)  # the last places stay empty
    start = list(shape)
    start[dim] = 6
    return src, index, torch.randint(-4, 5, start, generator=g).to(dtype), dim % len(shape)


def broadcast(index: Any, shape: Any, dim: int) -> Any:
    index = index.numpy()
    lead = (1,) * dim if index.ndim == 1 else ()
    return np.broadcast_to(
        index.reshape(*lead, *index.shape, *(1,) * (len(shape) - len(lead) - index.ndim)), shape
    )


def looped(kind: str, src: Any, index: Any, dim: int, size: int, out: Any = None) -> Any:
    """What torch_scatter says: one element after the other. And positions, of all kinds."""
    index = broadcast(index, src.shape, dim)
    x = src.double().numpy()
    shape = list(src.shape)
    shape[dim] = size
    found = np.full(shape, float(kind == "mul")) if out is None else out.double().numpy().copy()
    best = found.copy()
    if out is None and kind in ("min", "max"):
        best[...] = {"min": np.inf, "max": -np.inf}[kind]
    at, count = np.full(shape, src.shape[dim]), np.zeros(shape, int)
    for i in np.ndindex(x.shape):
        place = (*i[:dim], index[i], *i[dim + 1 :])
        count[place] += 1
        if kind in ("sum", "mean"):
            found[place] += x[i]
        elif kind == "mul":
            found[place] *= x[i]
        elif (x[i] < best[place]) if kind == "min" else (x[i] > best[place]):
            found[place] = best[place] = x[i]
            at[place] = i[dim]
    if kind == "mean":
        found = found / np.maximum(count, 1)
    return found, at


def same(got: Any, expected: Any, src: Any, whole: Any = np.floor) -> None:
    assert got.dtype == src.dtype
    if not src.is_floating_point():
        np.testing.assert_array_equal(got.numpy(), whole(expected))
        return
    assert list(got.shape) == list(expected.shape)
    torch.testing.assert_close(got, torch.from_numpy(expected).to(src.dtype), rtol=2e-3, atol=0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_scatter(layout: Any, dtype: Any) -> None:
    for kind in KINDS:
        src, index, start, dim = problem(layout, dtype)
        for dim_size in (None, 6):
            size = dim_size or (int(index.max()) + 1 if index.numel() else 0)
            expected, at = looped(kind, src, index, dim, size)
            got = ts.scatter(src, index, layout[2], dim_size=dim_size, reduce=kind)
            same(got, expected, src)
            one = getattr(ts, f"scatter_{kind}")(src, index, layout[2], None, dim_size)
            if kind in ("min", "max"):
                np.testing.assert_array_equal(one[1].numpy(), at)
                one = one[0]
            assert torch.equal(one, got)
        expected, at = looped(kind, src, index, dim, 6, start)
        out = start.clone()
        result = getattr(ts, f"scatter_{kind}")(src, index, layout[2], out)
        if kind in ("min", "max"):
            np.testing.assert_array_equal(result[1].numpy(), at)
            result = result[0]
        assert result is out
        same(out, expected, src)


# src and the index of segment_coo, of which the last dimension is reduced.
SEGMENTED = [
    ((7,), (7,)),
    ((6, 4), (6,)),
    ((3, 5, 2), (1, 5)),
    ((3, 5, 2), (3, 5)),
    ((3, 5), (3, 5)),
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", SEGMENTED, ids=str)
def test_segments(layout: Any, dtype: Any) -> None:
    shape, index_shape = layout
    dim = len(index_shape) - 1
    src, index, start, _ = problem((shape, index_shape, dim), dtype, seed=1)
    index = index.sort().values
    full = index.expand(*shape[:dim], index_shape[-1])
    counts = torch.zeros(*index_shape[:-1], 6, dtype=torch.int64)
    counts.scatter_add_(-1, index, torch.ones_like(index))
    indptr = torch.nn.functional.pad(counts.cumsum(-1), (1, 0))
    for kind in ("sum", "mean", "min", "max"):
        expected, at = looped(kind, src, full, dim, 6)
        added, added_at = looped(kind, src, full, dim, 6, start)
        for name, given, more in (("coo", index, {"dim_size": 6}), ("csr", indptr, {})):
            got = getattr(ts, f"segment_{name}")(src, given, reduce=kind, **more)
            same(got, expected, src, np.trunc)
            out = start.clone()
            result = getattr(ts, f"segment_{kind}_{name}")(src, given, out)
            if kind in ("min", "max"):
                position = added_at if name == "coo" else at
                np.testing.assert_array_equal(result[1].numpy(), position)
                result = result[0]
            assert result is out
            same(out, added if name == "coo" else expected, src, np.trunc)
    # And the way back: every element of a table for its members.
    rows = start
    picked = torch.gather(rows, dim, torch.from_numpy(broadcast_rows(full, shape).copy()))
    assert torch.equal(ts.gather_coo(rows, index), picked)
    assert torch.equal(ts.gather_csr(rows, indptr), picked)
    out = torch.empty_like(picked)
    assert ts.gather_csr(rows, indptr, out) is out and torch.equal(out, picked)


def broadcast_rows(index: Any, shape: Any) -> Any:
    return np.broadcast_to(
        index.numpy().reshape(*index.shape, *[1] * (len(shape) - index.ndim)), shape
    )


def test_pointers_may_leave_out_the_ends() -> None:
    src, indptr = torch.arange(1.0, 8.0), torch.tensor([2, 4, 4, 6])
    assert ts.segment_csr(src, indptr).tolist() == [7, 0, 11]
    assert ts.segment_max_csr(src, indptr)[1].tolist() == [3, 7, 5]
    whole = ts.segment_csr(src.long().expand(2, 7), indptr.expand(2, 4), reduce="min")
    assert whole.tolist() == [[3, 0, 5]] * 2


@pytest.mark.parametrize("layout", LAYOUTS[:-1], ids=str)
def test_composed(layout: Any) -> None:
    src, index, start, dim = problem(layout, torch.float64)
    full = torch.from_numpy(broadcast(index, src.shape, dim).copy())
    e = src.exp()
    total = ts.scatter_sum(e, index, dim, dim_size=6)
    torch.testing.assert_close(ts.scatter_softmax(src, index, dim), e / total.gather(dim, full))
    torch.testing.assert_close(
        ts.scatter_log_softmax(src, index, dim, dim_size=6), src - total.log().gather(dim, full)
    )
    torch.testing.assert_close(
        ts.scatter_logsumexp(src, index, dim, dim_size=6),
        torch.where(total == 0, 0.0, total.log()),
    )
    out = start.clone()
    assert ts.scatter_logsumexp(src, index, dim, out) is out
    torch.testing.assert_close(out, (total + start.exp()).log())
    for unbiased, squares in itertools.product((True, False), (None, start.square())):
        x, at = src.numpy(), full.numpy()
        expected = np.zeros(start.shape) if squares is None else squares.numpy().copy()
        for place in np.ndindex(expected.shape):
            line = (*place[:dim], slice(None), *place[dim + 1 :])
            members = x[line][at[line] == place[dim]]
            count = max(len(members), 1)
            deviations = ((members - members.mean()) ** 2).sum() if len(members) else 0.0
            free = max(count - 1, 1) if unbiased else count
            expected[place] = ((expected[place] + deviations) / (free + 1e-6)) ** 0.5
        out = None if squares is None else squares.clone()
        got = ts.scatter_std(src, index, dim, out, 6, unbiased)
        torch.testing.assert_close(got, torch.from_numpy(expected))


CALLS = {
    **{f"scatter_{kind}": getattr(ts, f"scatter_{kind}") for kind in KINDS},
    "scatter_softmax": ts.scatter_softmax,
    "scatter_log_softmax": ts.scatter_log_softmax,
    "scatter_logsumexp": ts.scatter_logsumexp,
    "scatter_std": ts.scatter_std,
}


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("index_shape", [(5,), (5, 2)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_derivatives(name: str, index_shape: Any) -> None:
    src = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    src.requires_grad_()
    index = torch.tensor([0, 2, 0, 2, 0])
    index = index if len(index_shape) == 1 else torch.stack([index, index.flip(0)], 1)

    def call(x: Any) -> Any:
        return first(CALLS[name](x, index, 0, dim_size=3))

    assert torch.autograd.gradcheck(call, src)
    assert torch.autograd.gradgradcheck(call, src)
    if name in ("scatter_sum", "scatter_mul", "scatter_mean", "scatter_max"):
        start = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

        def added(x: Any, out: Any) -> Any:
            return first(CALLS[name](x, index, 0, out.clone()))

        assert torch.autograd.gradcheck(added, (src, start))
        assert torch.autograd.gradgradcheck(added, (src, start))


def test_derivatives_of_segments() -> None:
    src = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    index, indptr = torch.tensor([[0, 0, 1, 1, 1]]), torch.tensor([[0, 2, 5, 5]])
    for kind in ("sum", "mean", "min", "max"):
        for function, given in ((ts.segment_coo, index), (ts.segment_csr, indptr)):
            made: Any = function
            call = functools.partial(made, reduce=kind)
            assert torch.autograd.gradcheck(lambda x, f=call, g=given: f(x, g), src)
    rows = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: ts.gather_coo(x, index), rows)
    assert torch.autograd.gradcheck(lambda x: ts.gather_csr(x, indptr), rows)


def test_the_first_of_equals_receives_the_gradient() -> None:
    src, index = torch.tensor([3.0, 3.0, 1.0]), torch.tensor([0, 0, 0])
    for given in (index, index[:, None].expand(3, 2).contiguous()):
        x = src.reshape(3, *[1] * (given.ndim - 1)).expand(given.shape).clone().requires_grad_()
        ts.scatter_max(x, given, 0)[0].sum().backward()
        assert x.grad is not None and x.grad.reshape(3, -1)[:, 0].tolist() == [1, 0, 0]


@pytest.mark.parametrize("name", CALLS)
def test_compiled_and_batched(name: str) -> None:
    src, index = torch.randn(3, 6, 2), torch.tensor([0, 2, 0, 2, 0, 1])

    def call(x: Any) -> Any:
        return first(CALLS[name](x, index, 0, dim_size=4))

    expected = torch.stack([call(x) for x in src])
    assert torch.equal(torch.vmap(call)(src), expected)
    torch._dynamo.reset()
    assert torch.equal(
        torch.compile(call, fullgraph=True, backend="aot_eager")(src[0]), expected[0]
    )


def test_bits_do_not_depend_on_threads() -> None:
    g = torch.Generator().manual_seed(0)
    src, index = torch.randn(4000, 3, generator=g), torch.randint(0, 40, (4000,), generator=g)
    full = torch.randint(0, 40, src.shape, generator=g)
    threads = gp.get_num_threads()
    digests = set()
    try:
        for count in (1, 2, 3):
            gp.set_num_threads(count)
            made = []
            for name, given in itertools.product(CALLS, (index, full)):
                x = src.clone().requires_grad_()
                y = first(CALLS[name](x, given, 0))
                y.square().sum().backward()
                assert x.grad is not None
                made += [y.detach().numpy().tobytes(), x.grad.numpy().tobytes()]
            digests.add(hash(b"".join(made)))
    finally:
        gp.set_num_threads(threads)
    assert len(digests) == 1


def test_what_is_wrong_is_refused() -> None:
    src, index = torch.ones(4, 3), torch.tensor([0, 1, 2, 5])
    with pytest.raises(gp.IndexOutOfRange, match=r"5.*\[0, 3\)"):
        ts.scatter(src, index, 0, dim_size=3)
    with pytest.raises(gp.IndexOutOfRange):
        ts.scatter_softmax(src, torch.full((4, 3), -1), 0, dim_size=2)
    with pytest.raises(gp.InvalidProblem, match=r"scatter: index: expected a shape .* \[4, 3\]"):
        ts.scatter(src, torch.zeros(4, dtype=torch.int64), 1)
    with pytest.raises(gp.InvalidProblem, match=r"scatter: reduce: .* did you mean 'mean'"):
        ts.scatter(src, index, 0, reduce="meen")
    with pytest.raises(ValueError, match="segment_coo: reduce"):
        ts.segment_coo(src, index, reduce="mul")
    with pytest.raises(IndexError, match="scatter_sum: dim: expected -2 to 1"):
        ts.scatter_sum(src, index, 2)
    with pytest.raises(gp.InvalidProblem, match="segment_ids"):  # they descend
        ts.segment_coo(src, index.flip(0))
    with pytest.raises(gp.InvalidProblem, match="indptr: expected ascending pointers"):
        ts.segment_csr(src, torch.tensor([0, 3, 2, 4]))
    with pytest.raises(gp.InvalidProblem, match="gather_csr: indptr: expected 5 pointers"):
        ts.gather_csr(src, torch.tensor([0, 2, 4]))
    with pytest.raises(gp.InvalidProblem, match="floating-point type"):
        ts.scatter_softmax(src.long(), index, 0)
    out = torch.full((3, 3), 7.0)
    with pytest.raises(gp.IndexOutOfRange):
        ts.scatter(src, index, 0, out)
    with pytest.raises(gp.InvalidProblem, match="out: expected the shape"):
        ts.segment_csr(src, torch.tensor([0, 2, 4]), out)
    assert (out == 7).all()


def test_signatures() -> None:
    """torch_scatter's, and texts with examples that are run."""
    scattered = "(src, index, dim=-1, out=None, dim_size=None)"
    expected = {
        "scatter": "(src, index, dim=-1, out=None, dim_size=None, reduce='sum')",
        "segment_coo": "(src, index, out=None, dim_size=None, reduce='sum')",
        "segment_csr": "(src, indptr, out=None, reduce='sum')",
        "gather_coo": "(src, index, out=None)",
        "gather_csr": "(src, indptr, out=None)",
        "scatter_softmax": "(src, index, dim=-1, dim_size=None)",
        "scatter_log_softmax": "(src, index, dim=-1, eps=1e-12, dim_size=None)",
        "scatter_logsumexp": "(src, index, dim=-1, out=None, dim_size=None, eps=1e-12)",
        "scatter_std": "(src, index, dim=-1, out=None, dim_size=None, unbiased=True)",
        **{f"scatter_{kind}": scattered for kind in (*KINDS, "add")},
        **{
            f"segment_{kind}_{name}": arguments
            for kind in ("sum", "add", "mean", "min", "max")
            for name, arguments in (
                ("coo", "(src, index, out=None, dim_size=None)"),
                ("csr", "(src, indptr, out=None)"),
            )
        },
    }
    assert sorted(expected) == ts.__all__
    for name, arguments in expected.items():
        signature = inspect.signature(getattr(ts, name))
        plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        shown = signature.replace(parameters=plain, return_annotation=signature.empty)
        assert str(shown) == arguments, name
        assert f">>> {name}(" in getattr(ts, name).__doc__
    result = doctest.testmod(ts)
    assert not result.failed and result.attempted >= len(expected)


def test_options_of_a_gradient_reach_it() -> None:
    """`ties` of segment_max is an option of the gradient alone."""
    ids = torch.zeros(3, dtype=torch.int64)
    for name in ("segment_max", "segment_min"):
        for ties, expected in (("first", [1, 0, 0]), ("last", [0, 0, 1]), ("share", [0.5, 0, 0.5])):
            x = torch.tensor([5.0, 1.0, 5.0]) * (1 if name == "segment_max" else -1)
            x.requires_grad_()
            for in_order in (False, True):
                y = getattr(gpt, name)(x, ids, 1, in_order, ties=ties)
                assert torch.autograd.grad(y.sum(), x)[0].tolist() == expected
