"""Modules that take the place of PyTorch's."""

from __future__ import annotations

from typing import Any

import torch

from gradplan.torch import functions
from gradplan.vocabulary import Unsupported

__all__ = ["Embedding", "Sparsemax"]


class Embedding(torch.nn.Embedding):
    """`torch.nn.Embedding` with a gradient that is the same on every run; the same state dict.

    `max_norm`, `scale_grad_by_freq` and `sparse` are refused.

    >>> torch.manual_seed(0) and None
    >>> table = Embedding(10, 3, padding_idx=0)
    >>> table(torch.tensor([[1, 0, 9]])).shape
    torch.Size([1, 3, 3])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for option in ("max_norm", "scale_grad_by_freq", "sparse"):
            if getattr(self, option):
                raise Unsupported(
                    f"Embedding: {option}: expected it not to be set; got {getattr(self, option)!r}"
                )

    def forward(self, input: Any) -> Any:
        return functions.embedding(input, self.weight, self.padding_idx)


class Sparsemax(torch.nn.Module):
    """`sparsemax` along `dim`, as `torch.nn.Softmax` is softmax.

    >>> Sparsemax(dim=1)(torch.tensor([[1.0, 0.5, -1.0]]))
    tensor([[0.7500, 0.2500, 0.0000]])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Any) -> Any:
        return functions.sparsemax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
