"""exp and log of the contract: errors against long double, special values, exact points, order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradplan.reference.elementary import exp, log

ROOT = Path(__file__).resolve().parents[2]
FLOATS = (np.float32, np.float64)
MAX_ULP = {np.float32: 1.0, np.float64: 2.0}
UNSIGNED: dict[Any, Any] = {np.float32: np.uint32, np.float64: np.uint64}
CANONICAL_NAN = {np.float32: 0x7FC00000, np.float64: 0x7FF8000000000000}
# Where the exponential is neither 0 nor infinity.
EXP_RANGE = {np.float32: (-103.97, 88.72), np.float64: (-745.13, 709.78)}
COUNT = 1 << 18

FloatType = type[Any]
needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double is not wider than double here"
)


def bits(x: NDArray[Any]) -> NDArray[Any]:
    return x.view(UNSIGNED[x.dtype.type])


def any_bits(float_type: FloatType, seed: int) -> NDArray[Any]:
    """Every kind of number: uniformly distributed bit patterns."""
    unsigned = UNSIGNED[float_type]
    top = np.iinfo(unsigned).max
    random = np.random.default_rng(seed)
    return random.integers(0, top, COUNT, dtype=unsigned, endpoint=True).view(float_type)


def exp_inputs(float_type: FloatType) -> NDArray[Any]:
    random = np.random.default_rng(1)
    spread = random.uniform(*EXP_RANGE[float_type], COUNT)
    small = random.uniform(-1, 1, COUNT) * 2.0 ** random.integers(-60, 6, COUNT)
    # n + 1/2, where the reduction changes its exponent
    ties = (np.arange(-140, 120) + 0.5) * np.log(2)
    x = np.concatenate([spread, small, ties]).astype(float_type)
    return np.concatenate([x, finite(any_bits(float_type, 2))])


def log_inputs(float_type: FloatType) -> NDArray[Any]:
    random = np.random.default_rng(3)
    near_one = 1 + random.uniform(-1, 1, COUNT) * 2.0 ** random.integers(-50, 0, COUNT)
    x = np.concatenate([random.uniform(0.3, 3, COUNT), near_one]).astype(float_type)
    info = np.finfo(float_type)
    subnormal = random.integers(1, 2**info.nmant, COUNT).astype(UNSIGNED[float_type])
    x = np.concatenate([x, subnormal.view(float_type), np.abs(finite(any_bits(float_type, 4)))])
    return x[x > 0]


def finite(x: NDArray[Any]) -> NDArray[Any]:
    return np.extract(np.isfinite(x), x)


def max_error(y: NDArray[Any], real: NDArray[np.longdouble]) -> float:
    """The largest |y - real| in units of the spacing of y's type at the real value.

    Infinity counts as the power of two that it stands for.
    """
    info = np.finfo(y.dtype)
    top = np.ldexp(np.longdouble(1), int(info.maxexp))
    real = np.clip(real, -top, top)
    exponent = np.clip(np.frexp(real)[1], info.minexp + 1, info.maxexp) - info.nmant - 1
    distance = np.abs(np.clip(y.astype(np.longdouble), -top, top) - real)
    return float(np.max(np.ldexp(distance, -exponent)))


@needs_long_double
@pytest.mark.parametrize("float_type", FLOATS)
@pytest.mark.parametrize(
    ("function", "oracle", "inputs"), [(exp, np.exp, exp_inputs), (log, np.log, log_inputs)]
)
def test_error_is_within_the_contract(
    function: Callable[..., NDArray[Any]],
    oracle: Callable[..., NDArray[Any]],
    inputs: Callable[[FloatType], NDArray[Any]],
    float_type: FloatType,
) -> None:
    x = inputs(float_type)
    with np.errstate(all="ignore"):
        real = oracle(x.astype(np.longdouble))
    y = function(x)
    assert y.dtype == x.dtype
    assert max_error(y, real) <= MAX_ULP[float_type]


@needs_long_double
def test_error_measure_sees_one_ulp() -> None:
    real = np.array([1.5, 2.0**-149, 2.0**128], dtype=np.longdouble)
    right = np.array([1.5, 2.0**-149, np.inf], dtype=np.float32)
    assert max_error(right, real) == 0
    for i, wrong in enumerate([np.nextafter(right[0], np.float32(2)), 0, np.finfo("f4").max]):
        y = right.copy()
        y[i] = wrong
        assert max_error(y, real) == 1


@pytest.mark.parametrize("float_type", FLOATS)
def test_special_values(float_type: FloatType) -> None:
    inf, nan, info = np.inf, np.nan, np.finfo(float_type)
    tiny = info.smallest_subnormal
    for function, table in (
        (exp, {0.0: 1, inf: inf, -inf: 0, info.max: inf, -info.max: 0, tiny: 1, -tiny: 1}),
        (log, {0.0: -inf, inf: inf, 1.0: 0, -1.0: nan, -inf: nan, -tiny: nan, -info.max: nan}),
    ):
        x = np.array([*table, -0.0, nan, -nan], dtype=float_type)
        expected = np.array(
            [*table.values(), 1 if function is exp else -inf, nan, nan], dtype=float_type
        )
        # As bits: this also tells the sign of zeros, and which NaN it is.
        expected_bits = bits(expected)
        expected_bits[np.isnan(expected)] = CANONICAL_NAN[float_type]
        np.testing.assert_array_equal(bits(function(x)), expected_bits)


@pytest.mark.parametrize("float_type", FLOATS)
def test_nan_is_canonical_whatever_came(float_type: FloatType) -> None:
    x = any_bits(float_type, 5)
    x = np.concatenate([x, -np.abs(finite(x)), np.full(3, np.nan, dtype=float_type)])
    bits(x)[-1] ^= UNSIGNED[float_type](1)  # another payload
    for function in (exp, log):
        y = function(x)
        assert np.all(bits(y)[np.isnan(y)] == CANONICAL_NAN[float_type])
        assert np.isnan(y[-1])


def test_ends_of_the_range() -> None:
    # The last results before overflow and underflow, and the first after it; rounded from the
    # real values.
    x = np.array([88.72283, 88.72284, -103.97207, -103.97209], dtype=np.float32)
    y = exp(x)
    assert np.isfinite(y[0]) and y[1] == np.inf
    assert y[2] == np.finfo(np.float32).smallest_subnormal and y[3] == 0
    z = exp(np.array([709.782712893384, 709.7827128933841, -745.1332191019411, -745.1332191019412]))
    assert np.isfinite(z[0]) and z[1] == np.inf
    assert z[2] == np.finfo(np.float64).smallest_subnormal and z[3] == 0


@pytest.mark.parametrize("float_type", FLOATS)
@pytest.mark.parametrize(("function", "inputs"), [(exp, exp_inputs), (log, log_inputs)])
def test_order_is_kept(
    function: Callable[..., NDArray[Any]],
    inputs: Callable[[FloatType], NDArray[Any]],
    float_type: FloatType,
) -> None:
    x = np.sort(inputs(float_type))
    y = function(x)
    assert np.all(y[1:] >= y[:-1])
    assert np.all(function(np.nextafter(x, float_type(np.inf))) >= y)


def test_shapes_and_strides() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::-1, ::2]
    for function in (exp, log):
        y = function(x)
        assert y.shape == x.shape
        np.testing.assert_array_equal(y.reshape(-1), function(x.reshape(-1)))
        assert function(np.array(2, dtype=np.float64)).shape == ()
        assert function(np.empty((0, 3), dtype=np.float32)).shape == (0, 3)


def test_other_types_are_refused() -> None:
    half: Any = np.zeros(1, dtype=np.float16)
    for function in (exp, log):
        with pytest.raises(TypeError, match="float16"):
            function(half)


@pytest.mark.parametrize(
    ("function", "float_type", "digest"),
    [
        (exp, np.float32, "307372909bbea9ce"),
        (exp, np.float64, "793e4d4968091b14"),
        (log, np.float32, "5431efcc356fc000"),
        (log, np.float64, "017326793fe13a3b"),
    ],
)
def test_bits_are_frozen(
    function: Callable[..., NDArray[Any]], float_type: FloatType, digest: str
) -> None:
    # Bit patterns by a multiplicative sequence: no random generator is part of the contract.
    unsigned = UNSIGNED[float_type]
    width = 8 * np.dtype(unsigned).itemsize
    odd = 0x9E3779B97F4A7C15 >> (64 - width) | 1
    patterns = (np.arange(COUNT, dtype=np.uint64) * np.uint64(odd)) & np.uint64(2**width - 1)
    grid = ((np.arange(COUNT) - COUNT // 2) / 1024).astype(float_type)
    x = np.concatenate([patterns.astype(unsigned).view(float_type), grid])
    little_endian = bits(function(x)).astype(np.dtype(unsigned).newbyteorder("<"))
    assert hashlib.sha256(little_endian.tobytes()).hexdigest()[:16] == digest


def test_constants_are_the_same_everywhere() -> None:
    def constants(path: str, heading: str = "") -> set[float]:
        text = (ROOT / path).read_text(encoding="utf-8")
        found = re.findall(r"-?0x1\.[0-9a-f]+p[+-]?\d+", text[text.index(heading) :])
        return {float.fromhex(number) for number in found}

    written = constants("docs/numerics.md", "## The two functions")
    assert len(written) == 32
    assert written == constants("src/gradplan/reference/elementary.py")
    assert written == constants("csrc/lanes/exp_log.h")
