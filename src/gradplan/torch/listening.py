"""Whether PyTorch's dispatcher would notice anything about a call with plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from gradplan.torch import native

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""The types whose tensors have memory of their own; others go through PyTorch's dispatcher."""

is_transforming = torch._C._are_functorch_transforms_active

Quiet = Callable[..., bool]
Question = Callable[[], Any]


def make_quiet(floats: Sequence[int], *questions: Question) -> Quiet:
    """`quiet(*tensors)`: no subclass, mode, tracing, forward mode or turned sign.

    And a no to all `questions`. `floats` are the positions of tensors that are not indices.
    """
    asked = (torch._C._len_torch_dispatch_stack, torch._C._is_tracing, *questions)
    if native.MODULE is None:
        return _quiet_in_python(floats, asked)
    made: Quiet = native.MODULE.make_quiet(
        tuple(PLAIN),
        tuple(floats),
        asked,
        torch.Tensor.is_neg,
        torch.empty(0).is_neg,
        vars(forward_ad),
        "_current_level",
    )
    return made


def _quiet_in_python(floats: Sequence[int], questions: Sequence[Question]) -> Quiet:
    # Without generators: this is the way of every call where the module in C is missing.
    def quiet(*tensors: Any) -> bool:
        for x in tensors:
            if type(x) not in PLAIN:
                return False
        for question in questions:
            if question():
                return False
        for i in floats:
            if tensors[i].is_neg():
                return False
        return bool(forward_ad._current_level < 0)

    return quiet
