"""A norm of gradients whose bits depend neither on the ranks nor on any order.

Squares are cut into three integers of 24 bits below the largest one, and sums of integers are
exact: whoever adds which of them first makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from gradplan.torch.distributed.ranks import Ranks
from gradplan.vocabulary import Unsupported

_SLICES, _BITS = 3, 24  # 2^39 elements fit a sum of 63 bits
_PIECE = 1 << 20  # elements that are cut at a time


def _local(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient


def _reduce(x: torch.Tensor, gradient: torch.Tensor, operation: Any) -> torch.Tensor:
    """Over the ranks that have other parts of the gradient."""
    if not isinstance(gradient, DTensor):
        return x
    for dimension, placement in enumerate(gradient.placements):
        if placement.is_partial():
            raise Unsupported(f"grad_norm: expected gradients that are summed; got {placement}")
        if placement.is_shard():
            Ranks(gradient.device_mesh.get_group(dimension), "grad_norm").all_reduce(x, operation)
    return x


def _slices(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """The sum of (x / 2^exponent)^2 as integers: units of 2^-24, 2^-48 and 2^-72."""
    total = torch.zeros(_SLICES, dtype=torch.int64, device=x.device)
    for piece in x.reshape(-1).split(_PIECE):
        rest = torch.ldexp(piece.double(), -exponent).square()
        for k in range(_SLICES):
            rest = rest * 2.0**_BITS
            whole = rest.floor()
            total[k] += whole.to(torch.int64).sum()
            rest = rest - whole
    return total


@torch.no_grad()
def grad_norm(parameters: Iterable[torch.Tensor] | torch.Tensor) -> torch.Tensor:
    """The 2-norm of all gradients together, as a tensor of f64: the same for any number of ranks.

    Parameters that are no DTensors are taken for the same on every rank. An infinity or NaN among
    the gradients is the norm.
    """
    given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    gradients = [p.grad for p in given if p.grad is not None]
    if not gradients:
        return torch.zeros((), dtype=torch.float64)
    largest = []
    for gradient in gradients:
        local = _local(gradient)
        top = local.abs().amax() if local.numel() else local.new_zeros(())
        # NaN has no place among extremes: it is told apart.
        state = torch.stack([top.nan_to_num(0.0, posinf=float("inf")).double(), top.isnan()])
        largest.append(_reduce(state, gradient, dist.ReduceOp.MAX))
    top, is_nan = torch.stack(largest).amax(0)
    if bool(is_nan):
        return torch.full_like(top, float("nan"))
    if not bool(top.isfinite()) or not bool(top):
        return top
    exponent = torch.frexp(top).exponent  # so that every element is below 1
    total = sum(
        _reduce(_slices(_local(gradient), exponent), gradient, dist.ReduceOp.SUM)
        for gradient in gradients
    )
    assert isinstance(total, torch.Tensor)
    units = 2.0 ** (-_BITS * torch.arange(1, _SLICES + 1, dtype=torch.float64, device=total.device))
    parts = total.double() * units
    return torch.ldexp((parts[0] + (parts[1] + parts[2])).sqrt(), exponent)


@torch.no_grad()
def clip_grad_norm_(
    parameters: Iterable[torch.Tensor] | torch.Tensor, max_norm: float
) -> torch.Tensor:
    """`torch.nn.utils.clip_grad_norm_` with `grad_norm`: the same bits for any number of ranks."""
    given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    norm = grad_norm(given)
    factor = float((max_norm / (norm + 1e-6)).clamp(max=1.0))
    for parameter in given:
        if parameter.grad is not None:
            _local(parameter.grad).mul_(factor)
    return norm
