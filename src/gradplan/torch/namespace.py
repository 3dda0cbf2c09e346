"""PyTorch's tensors for the formulas of the declarations (`gradplan.declaration.Namespace`)."""

from __future__ import annotations

from typing import Any

import torch

Tensor = Any


class TorchNamespace:
    """What rules are written in."""

    def call(self, function: str, **values: Any) -> Any:
        from gradplan.torch.operators import OPERATORS

        return OPERATORS[function].invoke(values)

    def where(self, condition: Tensor, a: Any, b: Any) -> Tensor:
        return torch.where(condition, a, b)

    def full_like(self, x: Tensor, value: float) -> Tensor:
        return torch.full_like(x, value)

    def isnan(self, x: Tensor) -> Tensor:
        return torch.isnan(x)

    def stop_gradient(self, x: Tensor) -> Tensor:
        return x.detach()

    def new_axis(self, x: Tensor) -> Tensor:
        return x[None]

    def first(self, x: Tensor) -> Tensor:
        return x[0]

    def shift(self, x: Tensor, axis: int, by: int, fill: float | Tensor) -> Tensor:
        if isinstance(fill, float):
            fill = torch.full_like(self.edge(x, axis, last=False), fill)
        if x.ndim == 0:
            return fill
        n = x.shape[axis]
        if n == 0:
            return x
        edge = fill.unsqueeze(axis)
        kept = x.narrow(axis, 0 if by > 0 else 1, n - 1)
        return torch.cat([edge, kept] if by > 0 else [kept, edge], axis)

    def edge(self, x: Tensor, axis: int, last: bool) -> Tensor:
        if x.ndim == 0:
            return x
        n = x.shape[axis]
        return x.select(axis, n - 1 if last else 0) if n else x.sum(axis)

    def latest(self, mask: Tensor, axis: int, reverse: bool) -> Tensor:
        if mask.ndim == 0:
            return torch.zeros_like(mask, dtype=torch.int64)
        n = mask.shape[axis]
        place = torch.ones_like(mask, dtype=torch.int64).cumsum(axis) - 1  # a DTensor, if it is one
        if not reverse:
            return torch.where(mask, place, 0).cummax(axis).values
        return torch.where(mask, place, n - 1).flip(axis).cummin(axis).values.flip(axis)

    def order(self, ids: Tensor) -> Tensor:
        return torch.argsort(ids, stable=True)

    def rows(self, x: Tensor, positions: Tensor) -> Tensor:
        return x[positions]

    def segment_ids(self, indptr: Tensor, rows: int) -> Tensor:
        if hasattr(indptr, "full_tensor"):  # a DTensor: searchsorted has no rule
            ids = self.segment_ids(indptr.full_tensor(), rows)
            return type(indptr).from_local(ids, indptr.device_mesh)  # the same on every rank
        places = torch.arange(rows, dtype=indptr.dtype, device=indptr.device)
        return torch.searchsorted(indptr.contiguous(), places, right=True) - 1

    def take_along(self, x: Tensor, positions: Tensor, axis: int) -> Tensor:
        return x.clone() if x.ndim == 0 else x.gather(axis, positions)


XP = TorchNamespace()
