"""gradplan.torch equals PyTorch: values, shapes, element types, refusals; modules and imports."""

from __future__ import annotations

import doctest
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from peers import peer_of  # noqa: E402
from torch_cases import CASES, SCANS, Case, scan_of  # noqa: E402

import gradplan as gp  # noqa: E402
from gradplan import torch as gpt  # noqa: E402
from gradplan.torch import functions, nn, operators  # noqa: E402

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OTHERS = [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]

# In units of the last place, beside PyTorch's own error; sums here are a few elements long.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 4e-2, torch.float32: 2e-5, torch.float64: 1e-12}


@pytest.mark.every_op("case")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case: Case, dtype: Any) -> None:
    inputs = case.inputs(dtype)
    limit = TOLERANCE[dtype]
    expected = case.theirs(*(x.double() for x in inputs)).to(dtype)
    torch.testing.assert_close(case.ours(*inputs), expected, atol=limit, rtol=limit)


# PyTorch's own sample inputs ------------------------------------------------------------------


def _lerp(a: Any, b: Any, weight: Any) -> Any:
    return gpt.lerp(a, b, weight)


OURS = {**{name: scan_of(name) for name in SCANS}, "lerp": _lerp}
OURS["nn.functional.embedding"] = lambda weight, indices, **kw: gpt.embedding(indices, weight, **kw)


def _samples(name: str, dtype: Any) -> list[Any]:
    invocations = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    op = next(op for op in invocations.op_db if op.name == name and not op.variant_test_name)
    return [op, list(op.sample_inputs("cpu", dtype))]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("dtype", [*FLOATS[1:], torch.int64], ids=str)
def test_pytorchs_samples(name: str, dtype: Any) -> None:
    if name in ("lerp", "logcumsumexp", "nn.functional.embedding") and dtype is torch.int64:
        pytest.skip("PyTorch has no samples for it")
    op, samples = _samples(name, dtype)
    compared = 0
    for sample in samples:
        options = dict(sample.kwargs)
        ignored = {"max_norm", "norm_type", "scale_grad_by_freq", "sparse"}
        if ignored & options.keys() or any(torch.is_tensor(x) for x in sample.args[1:]):
            continue  # not offered here; a tensor as weight of lerp
        expected = op.op(sample.input, *sample.args, **options)
        expected = expected if torch.is_tensor(expected) else expected.values
        result = OURS[name](sample.input, *sample.args, **options)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        limit = TOLERANCE.get(result.dtype, 0)
        torch.testing.assert_close(result, expected, atol=limit, rtol=limit, equal_nan=True)
        compared += 1
    assert compared


# Element types and refusals -------------------------------------------------------------------


def outcome(function: Any, *args: Any) -> Any:
    """The result, or what kind of error it is."""
    try:
        result = function(*args)
    except Exception as error:
        return "refused", type(error)
    return result.dtype, result.shape, result.tolist()


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("reverse", [False, True])
def test_integers_are_pytorchs(name: str, dtype: Any, reverse: bool) -> None:
    x = torch.tensor([[3, 1, 2], [1, 0, 1]]).to(dtype)
    theirs = outcome(peer_of("torch", name, axis=1), x.flip(1) if reverse else x)
    ours = outcome(scan_of(name), x.flip(1) if reverse else x, 1, False)
    assert ours == theirs
    back = outcome(scan_of(name), x, 1, True)
    if theirs[0] != "refused":
        assert back[:2] == theirs[:2]
        theirs = peer_of("torch", name, axis=1)(x.flip(1)).flip(1)
        assert torch.equal(scan_of(name)(x, 1, True), theirs)


def test_integer_rows_and_weights() -> None:
    ids = torch.tensor([1, 0, 1])
    assert gpt.segment_sum(torch.tensor([1, 2, 3]), ids, 2).tolist() == [2, 4]
    skipped = gpt.segment_sum(torch.tensor([1, 2, 3]), torch.tensor([1, 7, -1]), 2, bounds="skip")
    assert skipped.tolist() == [0, 1]
    assert gpt.embedding(ids, torch.tensor([[1], [2]])).tolist() == [[2], [1], [2]]
    with pytest.raises(RuntimeError):
        gpt.lerp(torch.tensor([1]), torch.tensor([2]), 0.5)


def test_dtype_of_sums() -> None:
    x = torch.tensor([1, 2, 3])
    assert gpt.cumsum(x, 0, dtype=torch.float32).dtype == torch.float32
    assert gpt.cumprod(torch.ones(3), 0, dtype=torch.int64).dtype == torch.int64


@pytest.mark.parametrize("name", [*SCANS, "sparsemax"])
def test_dims(name: str) -> None:
    function = gpt.sparsemax if name == "sparsemax" else scan_of(name)
    x = torch.randn(2, 3)
    assert torch.equal(function(x, -2), function(x, 0))
    for dim in (2, -3):
        with pytest.raises(IndexError, match=f"{name}: dim: expected -2 to 1 .* got {dim}"):
            function(x, dim)
    with pytest.raises(gp.InvalidProblem):
        function(x, 0.5)


def test_refusals() -> None:
    x = torch.randn(3)
    with pytest.raises(gp.Unsupported, match="complex64"):
        gpt.cumsum(torch.ones(3, dtype=torch.complex64), 0)
    with pytest.raises(gp.Unsupported, match="int64"):
        gpt.sparsemax(torch.tensor([1, 2]))
    with pytest.raises(gp.Unsupported, match="weight"):
        gpt.lerp(x, x, torch.tensor(0.5))
    with pytest.raises(gp.InvalidProblem, match="one element type"):
        gpt.lerp(x, x.double(), 0.5)
    with pytest.raises(RuntimeError):
        gpt.lerp(x, torch.randn(4), 0.5)
    with pytest.raises(gp.InvalidProblem, match="padding_idx"):
        gpt.embedding(torch.tensor([0]), torch.randn(3, 2), 3)
    with pytest.raises(gp.InvalidProblem, match="weight"):
        gpt.embedding(torch.tensor([0]), x)


@pytest.mark.parametrize("bad", [-1, 3])
def test_indices_out_of_range(bad: int) -> None:
    indices, weight = torch.tensor([0, bad]), torch.ones(3, 2)
    with pytest.raises(IndexError):
        gpt.embedding(indices, weight)
    assert gpt.embedding(indices, weight, bounds="skip").tolist() == [[1, 1], [0, 0]]
    with pytest.raises(IndexError):
        gpt.segment_sum(torch.ones(2), indices, 3)
    assert gpt.segment_sum(torch.ones(2), indices, 3, bounds="skip").tolist() == [1, 0, 0]


def test_views_with_a_pending_negation() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j]).conj().imag
    assert x.is_neg()
    assert gpt.cumsum(x, 0).tolist() == [-2.0, -1.0]


# Devices --------------------------------------------------------------------------------------


def test_devices_without_an_engine_are_refused() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no such device here")
    try:
        y = gpt.cumsum(torch.ones(4, device="cuda"), 0)
    except gp.Unsupported as error:
        assert "cuda" in str(error).lower() or "device" in str(error)
    else:
        assert y.is_cuda and y.tolist() == [1, 2, 3, 4]


# Modules --------------------------------------------------------------------------------------


def test_embedding_module_shares_state_dicts() -> None:
    theirs = torch.nn.Embedding(5, 3, padding_idx=-1)
    ours = nn.Embedding(5, 3, padding_idx=-1)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    indices = torch.tensor([[0, 4], [2, 2]])
    assert torch.equal(ours(indices), theirs(indices))
    for module in (ours, theirs):
        module(indices).square().sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    assert (ours.weight.grad[4] == 0).all()
    assert nn.Embedding.from_pretrained(torch.ones(2, 2))(torch.tensor([1])).tolist() == [[1, 1]]


@pytest.mark.parametrize("option", ["max_norm", "scale_grad_by_freq", "sparse"])
def test_embedding_module_refuses(option: str) -> None:
    with pytest.raises(gp.Unsupported, match=option):
        nn.Embedding(3, 2, **{option: 1})


def test_sparsemax_module() -> None:
    x = torch.randn(3, 4)
    module = nn.Sparsemax(dim=0)
    assert repr(module) == "Sparsemax(dim=0)" and not module.state_dict()
    assert torch.equal(module(x), gpt.sparsemax(x, 0))


# The package ----------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [functions, nn, operators, gpt])
def test_docstrings(module: Any) -> None:
    assert not doctest.testmod(module).failed


def _python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_import_gradplan_does_not_import_torch() -> None:
    code = "import sys, gradplan as gp, numpy as np; gp.cumsum(np.ones(3)); "
    code += "print('torch' in sys.modules)"
    assert _python(code).strip() == "False"


def test_import_without_pytorch_says_how_to_install_it() -> None:
    code = """
import sys
sys.modules["torch"] = None
try:
    import gradplan.torch
except ModuleNotFoundError as error:
    print(error)
"""
    assert "pip install 'gradplan[torch]'" in _python(code)


# Values and indices ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_values_and_indices_are_pytorchs(name: str, dtype: Any, dim: int) -> None:
    x = torch.randint(-3, 4, (40, 700)).to(dtype)  # many ties, and rows that are cut
    if dtype.is_floating_point:
        x[torch.rand(x.shape) < 0.001] = torch.nan
    for _ in range(2):  # the dispatcher, and the fast path
        ours, theirs = getattr(gpt, name)(x, dim), getattr(torch, name)(x, dim)
        torch.testing.assert_close(ours.values, theirs.values, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(ours.indices, theirs.indices)
        assert ours.indices.dtype == torch.int64
    values, indices = getattr(gpt, name)(x, dim, reverse=True)
    back = getattr(torch, name)(x.flip(dim), dim)
    torch.testing.assert_close(values, back.values.flip(dim), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(indices, x.shape[dim] - 1 - back.indices.flip(dim))


def test_indices_come_along_with_gradients_and_transforms() -> None:
    x = torch.randn(5, 30, requires_grad=True)
    values, indices = gpt.cummax(x, 1)
    assert values.requires_grad and not indices.requires_grad
    assert torch.equal(x.gather(1, indices), values)
    only = gpt.cummax(x, 1, return_indices=False)
    assert isinstance(only, torch.Tensor) and torch.equal(only, values)
    many = torch.func.vmap(lambda row: gpt.cummax(row, 0))(x)
    assert torch.equal(many.values, values) and torch.equal(many.indices, indices)
    compiled = torch.compile(lambda x: gpt.cummax(x, 1), fullgraph=True, backend="eager")(x)
    assert torch.equal(compiled.values, values) and torch.equal(compiled.indices, indices)
    tangent = torch.randn(5, 30)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), tangent)
        pushed = gpt.cummax(dual, 1)
        moved = torch.autograd.forward_ad.unpack_dual(pushed.values).tangent
        assert torch.equal(pushed.indices, indices)
    assert torch.equal(moved, tangent.gather(1, indices))
