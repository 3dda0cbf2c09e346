"""What a user would call instead: PyTorch, JAX (jit) and entmax, where they are installed.

Which of their functions that is stands in the declarations (`Peer`); here is how to time a call of
a library. It writes into preallocated outputs where the library can. A gradient without a peer of
its own goes through the library's differentiation of the forward's peer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from importlib import util
from types import SimpleNamespace
from typing import Any

import numpy as np

from gradplan.bench.board import Cell
from gradplan.cases import Array
from gradplan.declaration import Descriptor, Function, Op, Peer
from gradplan.engines.cpu import get_num_threads
from gradplan.signatures import signature_of
from gradplan.vocabulary import ElementKind

Call = Callable[[], Any]
Tensors = Mapping[str, Any]


def values(op: Op, function: Function, desc: Descriptor, tensors: Tensors) -> SimpleNamespace:
    """Inputs and options under the function layer's names, as peers take them."""
    signature = signature_of(op, function.name)
    inputs = {t.function_name: tensors.get(t.name) for t in signature.inputs}
    return SimpleNamespace(
        **inputs, **{p.name: getattr(desc, p.info.name) for p in signature.parameters}
    )


class Forward:
    """The forward function of a gradient's cell, on the cell's tensors."""

    sources: dict[str, str]
    """Its inputs, and which tensors of the cell they are."""
    leaves: list[str]
    """The inputs that the gradient is taken of."""
    cotangents: list[str]
    """The tensors of the cell that the gradient starts from."""

    def __init__(self, cell: Cell, op: Op, peer: Peer) -> None:
        desc = cell.descriptor()
        given = {o.name: (o.shape, o.kinds) for o in cell.op.operands(desc)}
        self._op, self._peer = op, peer
        self._function = op.sibling(cell.function)
        self._descriptor = op.descriptor(
            **{i.name: getattr(desc, i.name, i.default) for i in op.fields}
        )
        self.sources = {}
        for o in op.operands(self._descriptor):
            if o.is_required or (o.is_input and o.name in given):
                # What the backward does not have may be any tensor of that shape.
                alike = (name for name, kind in given.items() if kind == (o.shape, o.kinds))
                self.sources[o.name] = o.name if o.name in given else next(alike)
        assert op.gradient is not None
        self.leaves = list(op.gradient.grads.values())
        self.cotangents = list(op.gradient.cotangents)

    def __call__(self, tensors: Tensors, leaves: Sequence[Any]) -> Any:
        """The result for tensors of the cell, with `leaves` in place of what is differentiated."""
        inputs = {name: tensors[source] for name, source in self.sources.items()}
        inputs.update(zip(self.leaves, leaves, strict=True))
        v = values(self._op, self._function, self._descriptor, inputs)
        return self._peer.bind(importlib.import_module(self._peer.library), v, None)()


def alone(items: Sequence[Any]) -> Any:
    """One thing as itself, several as a tuple."""
    return items[0] if len(items) == 1 else tuple(items)


class Library:
    """Another library."""

    eager = True
    """Whether its functions are called one by one, and not compiled first."""

    def __init__(self, name: str) -> None:
        self.name = name

    def installed(self) -> bool:
        """Whether it can be imported."""
        return util.find_spec(self.name) is not None

    def peer(self, op: Op, function: Function) -> Peer | None:
        """Its function for one of ours."""
        return next((p for p in function.peers if p.library == self.name and p.on_board), None)

    def calls(self, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        """The call to time, or None if it has nothing for this cell."""
        peer = self.peer(cell.op, cell.function)
        if peer is not None:
            return self.own(peer, cell, tensors)
        for op in cell.op.forwards_of(cell.function):
            peer = self.peer(op, op.sibling(cell.function))
            # A forward that wants sorted indices cannot have those of a gradient that does not.
            unsorted = {t.name for t in cell.op.inputs if t.index and not t.ascending}
            if peer is None or not peer.has_gradient:
                continue
            if not any(t.ascending and t.name in unsorted for t in op.inputs):
                return self.gradient(Forward(cell, op, peer), cell, tensors)
        return None

    def own(self, peer: Peer, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        """A call of its function."""
        raise NotImplementedError

    def gradient(self, forward: Forward, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        """A call of its derivative of a forward function."""
        raise NotImplementedError


def as_torch(array: Array) -> Any:
    """The same memory as a PyTorch tensor."""
    torch = importlib.import_module("torch")
    if array.dtype == ElementKind.BF16.dtype:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


class OnTorch(Library):
    """A library on PyTorch's tensors, eager, with as many threads as ours."""

    def tensor(self, array: Array) -> Any:
        """An array as it takes it."""
        return as_torch(array)

    def calls(self, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        torch = importlib.import_module("torch")
        if torch.get_num_threads() != get_num_threads():
            torch.set_num_threads(get_num_threads())
        return super().calls(cell, tensors)

    def own(self, peer: Peer, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        desc = cell.descriptor()
        given = {name: self.tensor(array) for name, array in tensors.items()}
        out = [given[o.name] for o in cell.op.operands(desc) if not o.is_input]
        v = values(cell.op, cell.function, desc, given)
        call: Call = peer.bind(importlib.import_module(peer.library), v, alone(out))
        return call

    def gradient(self, forward: Forward, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        """Only the backward is timed: the graph is there."""
        torch = importlib.import_module("torch")
        given = {name: self.tensor(array) for name, array in tensors.items()}
        leaves = [given[forward.sources[n]].detach().requires_grad_() for n in forward.leaves]
        results = forward(given, leaves)
        cotangents = alone([given[name] for name in forward.cotangents])
        return lambda: torch.autograd.grad(results, leaves, cotangents, retain_graph=True)


class OnJax(Library):
    """JAX under jit; f32 only, as it comes."""

    eager = False

    def calls(self, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        return super().calls(cell, tensors) if cell.element is ElementKind.F32 else None

    def own(self, peer: Peer, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        module, desc = importlib.import_module(peer.library), cell.descriptor()

        def function(given: Tensors) -> Any:
            return peer.bind(module, values(cell.op, cell.function, desc, given), None)()

        inputs = [o.name for o in cell.op.operands(desc) if o.is_input]
        return self.compiled(function, {name: tensors[name] for name in inputs})

    def gradient(self, forward: Forward, cell: Cell, tensors: Mapping[str, Array]) -> Call | None:
        jax = importlib.import_module("jax")

        def function(given: Tensors) -> Any:
            leaves = [given[forward.sources[name]] for name in forward.leaves]
            pull = jax.vjp(lambda *x: forward(given, x), *leaves)[1]
            return pull(alone([given[name] for name in forward.cotangents]))

        used = {*forward.cotangents, *forward.sources.values()}
        return self.compiled(function, {n: x for n, x in tensors.items() if n in used})

    def compiled(self, function: Callable[[Tensors], Any], tensors: Mapping[str, Array]) -> Call:
        """The jitted call of a function that takes arrays by name."""
        jax = importlib.import_module("jax")
        arrays = [jax.numpy.asarray(x) for x in tensors.values()]
        jitted = jax.jit(lambda *given: function(dict(zip(tensors, given, strict=True))))
        return lambda: jax.block_until_ready(jitted(*arrays))


PEERS: tuple[Library, ...] = (OnTorch("torch"), OnJax("jax"), OnTorch("entmax"))


def parallel_operator() -> Call:
    """A call of one of PyTorch's own parallel operators, as programs have them between ours.

    Such programs have imported the bridge, with which PyTorch's threads serve our calls.
    """
    torch = importlib.import_module("torch")
    importlib.import_module("gradplan.torch")
    z = torch.ones(2**20)
    return lambda: z.mul_(1.0)
