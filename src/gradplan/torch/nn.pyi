# Written by tools/stubs.py from the declarations; do not edit.
from typing import SupportsIndex

import torch

class Embedding(torch.nn.Embedding):
    """`torch.nn.Embedding` with a gradient that is the same on every run.

    The state dict is the same. `max_norm`, `scale_grad_by_freq` and `sparse` are
    refused.

    >>> torch.manual_seed(0) and None
    >>> table = Embedding(10, 3, padding_idx=0)
    >>> table(torch.tensor([[1, 0, 9]])).shape
    torch.Size([1, 3, 3])
    """

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor: ...

class Sparsemax(torch.nn.Module):
    """`sparsemax` along `dim`, as `torch.nn.Softmax` is softmax.

    >>> Sparsemax(dim=1)(torch.tensor([[1.0, 0.5, -1.0]]))
    tensor([[0.7500, 0.2500, 0.0000]])
    """

    def __init__(self, dim: SupportsIndex = -1) -> None: ...
    def forward(self, *tensors: torch.Tensor) -> torch.Tensor: ...
