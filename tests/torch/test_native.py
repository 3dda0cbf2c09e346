"""The module in C itself: what Python's callers never do to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gradplan.torch.listening import make_quiet  # noqa: E402


def test_quiet_leaves_errors_to_the_dispatcher(in_c: Any) -> None:
    x = torch.randn(2, 3)

    def fail(*_: Any) -> bool:
        raise RuntimeError("no answer")

    class Undecided:
        def __bool__(self) -> bool:
            raise RuntimeError("neither yes nor no")

    outside = {"level": -1}
    bound = torch.empty(0).is_neg

    def heard(
        questions: Any = (), is_neg: Any = torch.Tensor.is_neg, variables: Any = outside
    ) -> Any:
        way_of_asking = bound if is_neg is torch.Tensor.is_neg else is_neg
        made = in_c.make_quiet(
            (torch.Tensor,), (0,), questions, is_neg, way_of_asking, variables, "level"
        )
        return not made(x)

    assert not heard()
    assert heard((fail,))
    assert heard((Undecided,))
    assert heard(is_neg=fail)
    assert heard(variables={})
    assert heard(variables={"level": "high"})
    assert heard(variables={"level": 0})
    assert not heard(is_neg=lambda tensor: tensor is not x)  # written in Python


def test_quiet_and_arguments_that_make_no_sense(in_c: Any) -> None:
    x = torch.randn(2, 3)
    rest = ((), torch.Tensor.is_neg, torch.empty(0).is_neg, {"level": -1}, "level")
    with pytest.raises(TypeError, match="expected 2 tensors, got 1"):
        in_c.make_quiet((torch.Tensor,), (1,), *rest)(x)
    for floats in ((1, 0), (0, 0), (-1,)):
        with pytest.raises(ValueError, match="ascend"):
            in_c.make_quiet((torch.Tensor,), floats, *rest)
    with pytest.raises(TypeError):
        in_c.make_quiet((torch.Tensor,), ("0",), *rest)


def test_tables_and_arguments_that_make_no_sense(in_c: Any) -> None:
    x = torch.randn(2, 3)
    quiet = make_quiet((0, 1))
    find, enter, add, _ = in_c.make_table(torch.Tensor, quiet, 2, 1, 10)
    for function, count in ((find, 3), (enter, 3), (add, 4)):
        with pytest.raises(TypeError, match=f"expected {count} arguments, got 2"):
            function(x, x)
    with pytest.raises(ValueError, match="at least 2 tensors"):
        in_c.make_table(torch.Tensor, quiet, 1, 1, 10)
    with pytest.raises(ValueError, match="invalid PyCapsule"):
        in_c.make_table(torch.Tensor, len, 1, 1, 10)
    with pytest.raises(ValueError, match="incorrect name"):
        in_c.make_table(torch.Tensor, find, 2, 1, 10)


def test_tables_and_what_is_no_tensor(in_c: Any) -> None:
    quiet = in_c.make_quiet((int, torch.Tensor), (), (), len, len, {"level": -1}, "level")
    find, enter, add, _ = in_c.make_table(torch.Tensor, quiet, 1, 0, 10)
    for impostor in (None, 7, [1.0], object(), torch.Tensor):
        assert find(impostor) is None
        assert enter(impostor) is False
        add(object(), impostor)
        assert find(impostor) is None
    long = torch.randn([1] * 60)
    add(object(), long)
    assert find(long) is not None
    assert find(torch.randn([1] * 64)) is None  # no room for it
    find, _, add, _ = in_c.make_table(torch.Tensor, quiet, 8, 0, 10)
    add(object(), *[long] * 8)
    assert find(*[long] * 8) is None


def test_everything_works_without_it() -> None:
    """The way of a PyTorch without the exchange table, or of a build without Python's headers."""
    tests = str(Path(__file__).with_name("test_short_way.py"))
    code = f"""
import sys
sys.modules["gradplan.torch._launch"] = None
import pytest
from gradplan.torch import native
assert native.MODULE is None
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", {tests!r}]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
