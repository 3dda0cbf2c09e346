"""Whether PyTorch's dispatcher would notice anything, in C and in Python."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from gradplan.torch.listening import is_transforming, make_quiet  # noqa: E402


class Subclass(torch.Tensor):  # type: ignore[misc]
    pass


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


pytestmark = pytest.mark.usefixtures("way")


def test_plain_tensors_are_quiet() -> None:
    quiet = make_quiet((0, 1), is_transforming)
    x = torch.randn(2, 3)
    for a in (x, x.T.T, torch.nn.Parameter(x), x.clone().requires_grad_(), x[:0], x[0, 0]):
        assert quiet(a, x) is True
        assert quiet(x, a) is True
    with torch.no_grad(), torch.autocast("cpu"):
        assert quiet(x, x)


def test_subclasses_are_heard() -> None:
    x = torch.randn(2, 3)
    rows = torch.tensor([1, 0])
    quiet = make_quiet((0,))
    assert quiet(x, rows)
    assert not quiet(x.as_subclass(Subclass), rows)
    assert not quiet(x, rows.as_subclass(Subclass))
    assert not quiet(x, None)
    assert not quiet(x, 3.0)


def test_modes_are_heard() -> None:
    x = torch.randn(2, 3)
    quiet = make_quiet((0,))
    with Mode():
        assert not quiet(x)
    assert quiet(x)


def test_transforms_are_heard_by_those_who_ask() -> None:
    x = torch.randn(2, 3)
    asking, other = make_quiet((0,), is_transforming), make_quiet((0,))
    seen: list[bool] = []

    def watch(y: Any) -> Any:
        seen.extend((asking(x), other(x)))
        return y

    torch.func.vmap(watch)(x)
    assert seen == [False, True]


def test_tracing_is_heard() -> None:
    x = torch.randn(2, 3)
    quiet = make_quiet((0,))
    seen: list[bool] = []

    def watch(y: Any) -> Any:
        seen.append(quiet(x))
        return y + 1

    torch.jit.trace(watch, (x,), check_trace=False)
    assert seen == [False]


def test_forward_mode_is_heard() -> None:
    x = torch.randn(2, 3)
    quiet = make_quiet((0,))
    with forward_ad.dual_level():
        assert not quiet(x)
    assert quiet(x)


def test_a_turned_sign_is_heard() -> None:
    x = torch.randn(2, 3)
    negated = torch._neg_view(x)
    imaginary = torch.complex(x, x).conj().imag
    for y in (negated, imaginary):
        assert not make_quiet((0, 1))(y, x)
        assert not make_quiet((0, 1))(x, y)
        assert not make_quiet((1,))(x, y)
    assert make_quiet((0,))(x, negated)  # nobody asked about the second
    assert make_quiet((0, 1))(x, negated.resolve_neg())


def test_questions_are_asked_each_time() -> None:
    x = torch.randn(2, 3)
    quiet = make_quiet((0,), torch.is_grad_enabled)
    assert not quiet(x)
    with torch.no_grad():
        assert quiet(x)
    answers: list[Any] = [False, 0, True, 1, None, [], "yes"]
    quiet = make_quiet((0,), lambda: answers.pop(0))
    assert [quiet(x) for _ in range(7)] == [True, True, False, False, True, True, False]
