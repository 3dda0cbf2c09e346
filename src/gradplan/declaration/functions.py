"""Functions: an op with some descriptor fields fixed, and what other libraries call them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from gradplan.declaration.derivatives import Rule


@dataclasses.dataclass(frozen=True)
class Module:
    """A layer of `gradplan.torch.nn`: the function with its other arguments as attributes."""

    name: str
    doc: str
    base: str = ""
    """The class of torch.nn that it extends, which then has those attributes."""
    refuses: tuple[str, ...] = ()
    """Options of that class that must not be set."""


@dataclasses.dataclass(frozen=True)
class Like:
    """How a bridge offers a function: like the one of its framework that it takes the place of.

    What is not said follows from the declaration: the function layer's name, its tensors and
    options in order (`axis` is `dim` in PyTorch), its defaults.
    """

    peer: str = ""
    """The function that it replaces, such as "torch.cumsum"."""
    name: str = ""
    """Its name in the bridge, if it is another one."""
    aliases: tuple[str, ...] = ()
    """Further names."""
    arguments: str = ""
    """Its signature, such as "x, dim, reverse=False, *, dtype=None"."""
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What the signature's names are in the function layer, where they differ."""
    doc: str = ""
    """Its docstring, with an example."""
    differs: str = ""
    """What somebody who replaces the peer should know."""
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The framework's conventions, for options that its signature does not have: ties, bounds."""
    only_gradient: tuple[str, ...] = ()
    """Options that only the gradient obeys."""
    operator: str = ""
    """The name of the operator for that."""
    chooses: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Flags of the signature, and the function that takes over where they are set."""
    adds: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Flags of the signature, and the function that takes over and gives indices as well."""
    inferred: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Sizes that may be None, and the indices whose largest one says it then."""
    ranks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Tensors of which the framework's function takes only this rank."""
    takes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Arguments that the function layer does not have, and what they are."""
    adapts: Callable[..., Any] | None = None
    """Makes the framework's function of this one, where it takes more than names: is given the
    framework's module, this function by the function layer's names, and the arguments."""
    module: Module | None = None
    float32_under_autocast: bool = False
    """Whether the framework's autocast wants it in float32 (on GPUs)."""
    other_elements: Callable[..., Any] | None = None
    """Serves element types that gradplan has no kernels for: takes the framework's module and
    then the arguments by the bridge's names. What it answers with NotImplemented is refused."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """The same function elsewhere: for tests of values and gradients, benchmarks and tables.

    `bind(module, v, out)` gives a call without arguments. `v` has the tensors and options under the
    function layer's names, `out` is a tensor to write into where the library can, or None.
    """

    library: str
    """The module to import: "torch", "jax" or "entmax"."""
    name: str
    """What a user would write."""
    bind: Callable[..., Any]
    on_board: bool = True
    """Whether the speed board has it: not if nobody would write it, but only measure against it."""
    has_gradient: bool = True
    """Whether the library can differentiate it."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """A line of the speed board: a problem of bench/board.py and what is to be reached there."""

    problem: str
    score: float | None
    """The share of the speed of copying the same memory."""
    peer: str
    factor: float
    """At least this many times faster than the peer."""


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of the function layer: the op with some descriptor fields fixed."""

    name: str
    doc: str
    fixed: Mapping[str, object] = dataclasses.field(default_factory=dict)
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Descriptor fields that are called differently here."""
    rule: Rule | None = None
    """The derivatives of its gradient, unless it is linear."""
    torch: Like | None = Like()
    """How PyTorch's bridge offers it; None: only through another function (`chooses`)."""
    jax: Like | None = Like()
    part_of: str = ""
    """A function that gives the same among its results: for a bridge that offers that one alone."""
    peers: tuple[Peer, ...] = ()
    figures: tuple[Figure, ...] = ()
    near_one: bool = False
    """Whether it multiplies many values, so that only those near 1 are of use to measure on."""
    beside_other_work: bool = False
    """Whether it stands for the others where calls on a busy machine are measured."""
