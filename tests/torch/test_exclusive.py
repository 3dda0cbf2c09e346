"""Exclusive scans under PyTorch: values and derivatives of any order against shifted ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gradplan as gp
from gradplan import torch as gpt

KINDS = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]
START = {"cumprod": 1.0, "cummax": -torch.inf, "cummin": torch.inf, "logcumsumexp": -torch.inf}


def inclusive(name: str, x: Any, dim: int, **options: Any) -> Any:
    more = {"return_indices": False} if name in ("cummax", "cummin") else {}
    return getattr(gpt, name)(x, dim, **options, **more)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives(name: str, reverse: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)

    def exclusive(x: Any) -> Any:
        y = inclusive(name, x, 1, reverse=reverse, exclusive=True)
        return y.narrow(1, 0 if reverse else 1, 4)  # without what no input changes

    def shifted(x: Any) -> Any:
        return inclusive(name, x.narrow(1, 1 if reverse else 0, 4), 1, reverse=reverse)

    assert torch.equal(exclusive(x), shifted(x))
    whole = inclusive(name, x, 1, reverse=reverse, exclusive=True)
    assert (whole.select(1, -1 if reverse else 0) == START.get(name, 0.0)).all()
    assert torch.autograd.gradcheck(exclusive, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(exclusive, x)
    batch = torch.randn(3, 2, 5, dtype=torch.float64)
    assert torch.equal(torch.vmap(exclusive)(batch), torch.stack(list(map(exclusive, batch))))


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_the_recurrence(reverse: bool) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(2, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    start = torch.randn(2, dtype=torch.float64, requires_grad=True)

    def exclusive(*tensors: Any) -> Any:
        return gpt.linear_scan(*tensors, dim=1, reverse=reverse, exclusive=True)

    for given in ((a, b), (a, b, start)):
        assert torch.autograd.gradcheck(exclusive, given, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(exclusive, given)


def test_integers_and_what_has_no_positions() -> None:
    x = torch.tensor([3, 1, 2])
    assert gpt.cumsum(x, 0, exclusive=True).tolist() == [0, 3, 4]
    assert gpt.cumprod(x, 0, reverse=True, exclusive=True).tolist() == [2, 2, 1]
    least = torch.iinfo(torch.int64).min
    assert gpt.cummax(x, 0, exclusive=True, return_indices=False).tolist() == [least, 3, 3]
    for _ in range(2):  # the second call would take the fast path
        with pytest.raises(gp.Unsupported, match="needs return_indices=False"):
            gpt.cummax(x.float(), 0, exclusive=True)
        gpt.cummax(x.float(), 0)
