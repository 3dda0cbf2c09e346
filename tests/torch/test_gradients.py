"""gradplan.torch: derivatives of first and second order, reverse and forward."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from operator_arguments import arguments_of, before_it_came, first_option, option_of  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402
from torch_cases import CASES, Case  # noqa: E402

import gradplan as gp  # noqa: E402
from gradplan import torch as gpt  # noqa: E402
from gradplan.torch.operators import OPERATORS  # noqa: E402

LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0) if x.ndim > 1 else x,
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
}


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_derivatives(case: Case, layout: str) -> None:
    inputs = case.inputs(grad=True)

    def function(*tensors: Any) -> Any:
        return case.ours(*(LAYOUTS[layout](x) for x in tensors))

    assert gradcheck(function, inputs, check_forward_ad=True)
    assert gradgradcheck(function, inputs, check_fwd_over_rev=True)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_are_pytorchs(case: Case, dtype: Any) -> None:
    inputs = case.inputs(dtype, grad=True)
    expected = case.theirs(*inputs)
    cotangent = torch.randn(expected.shape, dtype=torch.float64).to(dtype)
    ours = torch.autograd.grad(case.ours(*inputs), inputs, cotangent)
    theirs = torch.autograd.grad(expected, inputs, cotangent)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("reverse", [False, True])
def test_ties_and_nan_go_where_pytorch_sends_them(name: str, reverse: bool) -> None:
    x = torch.tensor([1.0, 3.0, 3.0, 2.0, 3.0, torch.nan, 1.0, torch.nan], requires_grad=True)
    x = torch.where(x == 2, x, x)
    cotangent = torch.arange(1.0, 9.0)
    scan = getattr(torch, name)
    expected = scan(x.flip(0), 0).values.flip(0) if reverse else scan(x, 0).values
    (theirs,) = torch.autograd.grad(expected, x, cotangent)
    (ours,) = torch.autograd.grad(getattr(gpt, name)(x, 0, reverse).values, x, cotangent)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp"])
def test_third_order(name: str) -> None:
    x = torch.tensor([0.5, 0.0, -1.5, 0.0, 2.0], dtype=torch.float64, requires_grad=True)

    def second(x: Any) -> Any:
        y = getattr(gpt, name)(x, 0)
        (g,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad((g * torch.arange(1, 6)).sum(), x, create_graph=True)
        return h

    assert gradcheck(second, (x,))


def test_third_order_of_linear_scan() -> None:
    a = torch.tensor([0.5, 0.0, -1.5, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    b, initial = torch.ones_like(a, requires_grad=True), a.detach()[0].clone().requires_grad_()

    def second(*given: Any) -> Any:
        h = gpt.linear_scan(*given)
        first = torch.autograd.grad((h**2).sum(), given, create_graph=True)
        weighted = [(x.ravel() * torch.arange(1, x.numel() + 1)).sum() for x in first]
        return torch.autograd.grad(sum(weighted), given, create_graph=True)

    assert gradcheck(second, (a, b, initial))


def test_second_derivatives_of_logcumsumexp_far_apart() -> None:
    """Naive recurrences overflow here: neighbours differ by more than exp can hold."""
    x = torch.tensor([-torch.inf, 800.0, -800.0, 0.0], dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(gpt.logcumsumexp(x, 0).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad((g * torch.arange(4.0)).sum(), x)
    assert torch.isfinite(g).all() and torch.isfinite(h).all()
    assert g.tolist() == [0.0, 3.0, 0.0, 0.0]


def test_padding_receives_no_gradient() -> None:
    indices = torch.tensor([[1, 2], [1, 0]])
    for padding in (1, -3):
        ours, theirs = (torch.ones(4, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
        y = gpt.embedding(indices, ours, padding)
        assert (y == 1).all()  # the row itself is returned, as in PyTorch
        y.sum().backward()
        torch.nn.functional.embedding(indices, theirs, padding).sum().backward()
        assert torch.equal(ours.grad, theirs.grad)


def test_what_has_no_gradient_says_so() -> None:
    """Parts of scans, which functions with gradients are made of (gradplan.torch.distributed)."""
    last = [o for o in OPERATORS.values() if o.op.gradient is None and o.differentiable]
    without = [o for o in last if not o.op.forwards()]
    assert {o.name.partition("_part")[0] for o in without} == {"scan"}
    for operator in without:
        x, *rest = arguments_of(operator)
        with pytest.raises(gp.Unsupported, match="no gradient is declared"):
            operator.call(x.requires_grad_(), *rest)


@pytest.mark.parametrize("choose", [first_option, before_it_came, option_of])
def test_every_backward_operator_has_derivatives_of_its_own(choose: Any) -> None:
    last = [o for o in OPERATORS.values() if o.op.gradient is None and o.differentiable]
    backward = [o for o in last if o.op.forwards()]
    assert {o.name for o in backward} == {n for n in OPERATORS if n.endswith("_backward")}
    for operator in backward:
        arguments = arguments_of(operator, torch.float64, choose=choose)
        floats = [
            x.abs_().add_(0.1).requires_grad_()
            for x in arguments
            if torch.is_tensor(x) and x.is_floating_point()
        ]

        def run(*given: Any, operator: Any = operator, arguments: Any = tuple(arguments)) -> Any:
            fresh = iter(given)
            return operator.call(
                *(
                    next(fresh) if torch.is_tensor(x) and x.is_floating_point() else x
                    for x in arguments
                )
            )

        skipped = operator.name.startswith(("cummax", "cummin", "sparsemax"))
        if skipped:  # constant in what they saved: only the cotangent has a derivative
            floats[1].requires_grad_(False)
        assert gradcheck(run, floats, check_forward_ad=True), operator.name
