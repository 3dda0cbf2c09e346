"""What a user would call instead: PyTorch, JAX (jit) and entmax, where they are installed.

The only place that knows how others spell our functions. Each call gets the tensors of `run` by
name and writes into preallocated outputs where the peer can.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib import util
from typing import Any

import numpy as np

from gradplan.bench.board import WEIGHT, Cell
from gradplan.cases import Array
from gradplan.engines.cpu import get_num_threads
from gradplan.vocabulary import ElementKind

Call = Callable[[], Any]
Tensors = Mapping[str, Any]


class Peer:
    """Another library."""

    name: str
    distribution: str

    def installed(self) -> bool:
        """Whether it can be imported."""
        return util.find_spec(self.name) is not None

    def calls(self, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        """The call to time, or None if it has nothing for this cell."""
        raise NotImplementedError


def as_torch(array: Array) -> Any:
    """The same memory as a PyTorch tensor."""
    torch = importlib.import_module("torch")
    if array.dtype == ElementKind.BF16.dtype:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


# PyTorch -------------------------------------------------------------------------------------


def _torch_scan(torch: Any, name: str, x: Any, axis: int) -> Any:
    result = getattr(torch, name)(x, axis)
    return result if isinstance(result, torch.Tensor) else result.values


def _torch_gradient(torch: Any, forward: Callable[..., Any], inputs: list[Any], dy: Any) -> Call:
    """Only the backward is timed: the graph is there."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    y = forward(*leaves)
    return lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)


class Torch(Peer):
    """PyTorch, eager, with as many threads as ours."""

    name = distribution = "torch"

    def calls(self, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        torch = importlib.import_module("torch")
        if torch.get_num_threads() != get_num_threads():
            torch.set_num_threads(get_num_threads())
        t = {name: as_torch(array) for name, array in tensors.items()}
        name, axis = cell.function.name, cell.problem.axis
        scan = name.removesuffix("_backward")
        if "kind" in cell.function.fixed and scan != "lerp":
            if name == scan:
                return self._scan(torch, name, t, axis)
            x = t.get("x", t["dy"])
            return _torch_gradient(
                torch, lambda leaf: _torch_scan(torch, scan, leaf, axis), [x], t["dy"]
            )
        own = getattr(self, f"_{name}", None)
        call: Call | None = own(torch, t) if own is not None else None
        return call

    def _scan(self, torch: Any, name: str, t: Tensors, axis: int) -> Call:
        function = getattr(torch, name)
        out = t["y"]
        if name in ("cummax", "cummin"):
            out = (out, torch.empty(out.shape, dtype=torch.int64))
        return lambda: function(t["x"], axis, out=out)

    def _lerp(self, torch: Any, t: Tensors) -> Call:
        return lambda: torch.lerp(t["a"], t["b"], WEIGHT, out=t["y"])

    def _lerp_backward(self, torch: Any, t: Tensors) -> Call:
        inputs = [torch.zeros_like(t["dy"]), torch.ones_like(t["dy"])]
        return _torch_gradient(torch, lambda a, b: torch.lerp(a, b, WEIGHT), inputs, t["dy"])

    def _segment_sum(self, torch: Any, t: Tensors) -> Call:
        return lambda: t["output"].zero_().index_add_(0, t["segment_ids"], t["input"])

    _unsorted_segment_sum = _segment_sum

    def _segment_sum_backward(self, torch: Any, t: Tensors) -> Call:
        return lambda: torch.index_select(t["d_output"], 0, t["segment_ids"], out=t["d_input"])

    def _embedding(self, torch: Any, t: Tensors) -> Call:
        return lambda: torch.index_select(t["weight"], 0, t["indices"], out=t["output"])

    def _embedding_backward(self, torch: Any, t: Tensors) -> Call:
        backward = torch.ops.aten.embedding_dense_backward
        rows = len(t["dweight"])
        return lambda: backward(t["dout"], t["indices"], rows, -1, False)


# entmax --------------------------------------------------------------------------------------


class Entmax(Peer):
    """entmax, on PyTorch."""

    name = distribution = "entmax"

    def calls(self, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        if cell.function.name not in ("sparsemax", "sparsemax_backward"):
            return None
        torch = importlib.import_module("torch")
        if torch.get_num_threads() != get_num_threads():
            torch.set_num_threads(get_num_threads())
        sparsemax = importlib.import_module("entmax").sparsemax
        axis = cell.problem.axis
        t = {name: as_torch(array) for name, array in tensors.items()}
        if cell.function.name == "sparsemax":

            def call() -> Any:
                with torch.no_grad():
                    return sparsemax(t["x"], dim=axis)

            return call
        return _torch_gradient(torch, lambda x: sparsemax(x, dim=axis), [t["dy"]], t["dy"])


# JAX -----------------------------------------------------------------------------------------


class Jax(Peer):
    """JAX under jit; f32 only, as it comes."""

    name = distribution = "jax"

    def calls(self, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        if cell.element is not ElementKind.F32:
            return None
        jax = importlib.import_module("jax")
        name, axis = cell.function.name, cell.problem.axis
        scan = name.removesuffix("_backward")
        function: Callable[..., Any] | None
        if "kind" in cell.function.fixed and scan != "lerp":
            function = self._scan(jax, name, scan, axis % len(cell.problem.shape))
        else:
            own = getattr(self, f"_{name}", None)
            function = own(jax, tensors) if own is not None else None
        if function is None:
            return None
        inputs = [o.name for o in cell.op.operands(cell.descriptor()) if o.is_input]
        arrays = [jax.numpy.asarray(tensors[i]) for i in inputs]
        if name.endswith("_backward") and scan in ("cumsum",):
            arrays = arrays[:1]
        compiled = jax.jit(function)
        return lambda: jax.block_until_ready(compiled(*arrays))

    def _scan(self, jax: Any, name: str, scan: str, axis: int) -> Callable[..., Any]:
        primitive = getattr(jax.lax, {"logcumsumexp": "cumlogsumexp"}.get(scan, scan))

        def forward(x: Any) -> Any:
            return primitive(x, axis=axis)

        def backward(dy: Any, x: Any = None, y: Any = None) -> Any:
            return jax.vjp(forward, dy if x is None else x)[1](dy)

        return forward if name == scan else backward

    def _lerp(self, jax: Any, tensors: Tensors) -> Callable[..., Any]:
        return lambda a, b: a + WEIGHT * (b - a)

    def _lerp_backward(self, jax: Any, tensors: Tensors) -> Callable[..., Any]:
        return lambda dy: ((1 - WEIGHT) * dy, WEIGHT * dy)

    def _segment_sum(self, jax: Any, tensors: Tensors) -> Callable[..., Any]:
        rows = len(tensors["output"])
        return lambda x, ids: jax.ops.segment_sum(x, ids, rows, indices_are_sorted=True)

    def _unsorted_segment_sum(self, jax: Any, tensors: Tensors) -> Callable[..., Any]:
        rows = len(tensors["output"])
        return lambda x, ids: jax.ops.segment_sum(x, ids, rows)

    def _segment_sum_backward(self, jax: Any, tensors: Tensors) -> Callable[..., Any]:
        return lambda rows, ids: jax.numpy.take(rows, ids, axis=0, mode="clip")

    _embedding = _segment_sum_backward

    def _embedding_backward(self, jax: Any, tensors: Tensors) -> Callable[..., Any]:
        shape = tensors["dweight"].shape
        return lambda dout, ids: jax.numpy.zeros(shape, dout.dtype).at[ids].add(dout)


PEERS: tuple[Peer, ...] = (Torch(), Jax(), Entmax())
