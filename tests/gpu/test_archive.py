"""The shipped file of kernels: complete, current, and the same from run to run."""

from __future__ import annotations

import dataclasses
import importlib.util
import lzma
import sys
from pathlib import Path
from typing import Any

import pytest

from gradplan.engines.cuda import archive
from gradplan.engines.cuda.archive import Binary, DamagedArchive, pack, unpack
from gradplan.engines.cuda.kernels.builds import build
from gradplan.engines.cuda.kernels.catalogue import catalogue, source_digest
from gradplan.engines.cuda.kernels.kernel import Kernel

TOOLS = Path(__file__).parents[2] / "tools"
MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def tools() -> Any:
    """tools/kernels.py."""
    spec = importlib.util.spec_from_file_location("kernels", TOOLS / "kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernels"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["kernels"]


def binary(key: str, ptx: bytes = b"ptx") -> Binary:
    return Binary(key, "entry", 128, 16, "ppi00", ptx, "source")


# What is shipped -----------------------------------------------------------------------------


def test_it_has_every_kernel_as_its_source_is_now() -> None:
    shipped = {key: b.source for key, b in archive.load().items()}
    assert shipped == {key: source_digest(kernel) for key, kernel in catalogue().items()}


def test_it_is_small() -> None:
    assert archive.PATH.stat().st_size < MOST_BYTES


def test_parameters_are_those_of_the_declared_kernel() -> None:
    for key, kernel in catalogue().items():
        shipped = archive.load()[key]
        assert shipped.parameters.rstrip("0") == kernel.parameters
        assert shipped.threads == 32 * kernel.warps


@pytest.mark.slow
def test_a_kernel_built_again_has_the_same_bytes() -> None:
    """The check of tools/kernels.py has another sample every day."""
    key = min(catalogue())
    assert build(key, catalogue()[key]) == archive.load()[key]


# The file ------------------------------------------------------------------------------------


def test_the_order_does_not_matter_and_nothing_is_lost() -> None:
    binaries = [binary("b", b"two"), binary("a", b"one")]
    data = pack(binaries)
    assert data == pack(binaries[::-1])
    assert unpack(data) == {"a": binaries[1], "b": binaries[0]}


def test_a_damaged_file_is_refused() -> None:
    data = bytearray(pack([binary("a", bytes(range(256)))]))
    data[len(data) // 2] ^= 1
    with pytest.raises(DamagedArchive):
        unpack(bytes(data))
    content = lzma.decompress(pack([binary("a", b"one")])).replace(b"one", b"two")
    with pytest.raises(DamagedArchive, match="the PTX of a is not the one that was written"):
        unpack(lzma.compress(content))


# Digests of sources --------------------------------------------------------------------------


def test_a_digest_covers_what_a_kernel_depends_on() -> None:
    kernel = catalogue()["lerp/f32/contiguous"]
    pointer = next(iter(kernel.signature))
    others = [
        dataclasses.replace(kernel, warps=8),
        dataclasses.replace(kernel, aligned=()),
        dataclasses.replace(kernel, signature={**kernel.signature, pointer: "*fp64"}),
        dataclasses.replace(kernel, constants={n: 512 for n in kernel.constants}),
        dataclasses.replace(catalogue()["lerp/f64/contiguous"]),
    ]
    digests = {source_digest(k) for k in (kernel, *others)}
    assert len(digests) == 1 + len(others)
    assert source_digest(dataclasses.replace(kernel)) == source_digest(kernel)


SOURCE = '''
"""A kernel for tests."""
import triton
import triton.language as tl

HALF = tl.constexpr({half})

@triton.jit
def helper(x):
    """{doc}"""
    return x * {factor}  {comment}

@triton.jit
def kernel(p, N: tl.constexpr):
    at = p + tl.arange(0, N)
    tl.store(at, helper(tl.load(at)) + HALF)
'''


def digest_of(folder: Path, **words: Any) -> str:
    text = SOURCE.format(**{"half": 0.5, "doc": "x", "factor": 2, "comment": "", **words})
    place = folder / f"k{abs(hash(text))}.py"
    place.write_text(text)
    spec = importlib.util.spec_from_file_location("kernel_for_tests", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return source_digest(Kernel(module.kernel, {"p": "*fp32"}, {"N": 32}))


def test_a_digest_covers_called_functions_and_constants_but_no_words(tmp_path: Path) -> None:
    same = digest_of(tmp_path)
    assert digest_of(tmp_path, doc="another", comment="# more") == same
    assert digest_of(tmp_path, factor=3) != same
    assert digest_of(tmp_path, half=0.25) != same


# The tool ------------------------------------------------------------------------------------


def test_a_sample_goes_through_all_kernels(tools: Any) -> None:
    keys = [f"k{i}" for i in range(20)]
    days = [tools.sample(keys, day) for day in range(20)]
    assert all(len(day) == tools.SAMPLE == len({*day}) for day in days)
    assert {key for day in days for key in day} == {*keys}
    assert tools.sample(["a", "b"], 7) in (["a", "b"], ["b", "a"])
    assert tools.sample([], 3) == []


def test_the_check_names_what_is_stale(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    key = min(catalogue())
    real = archive.load()
    shipped = {**real, key: dataclasses.replace(real[key], source="older"), "gone": binary("gone")}
    monkeypatch.setattr(tools.archive, "load", lambda: shipped)
    monkeypatch.setattr(tools, "build_all", lambda keys: iter(()))
    assert {*tools.problems(1)} == {
        "gone is shipped and has no source",
        f"{key} has changed since it was built",
    }


def test_the_check_notices_other_bytes(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [dataclasses.replace(b, ptx=b.ptx + b"\n") for b in archive.load().values()]
    monkeypatch.setattr(tools, "build_all", lambda keys: (b for b in changed if b.key == keys[0]))
    (found,) = tools.problems(2)
    assert found.endswith(": the same source gives other bytes")


# Declarations --------------------------------------------------------------------------------


def test_a_kernel_is_declared_with_its_arguments_in_order() -> None:
    kernel = catalogue()["lerp/f32/contiguous"]
    turned = dict(reversed(kernel.signature.items()))
    for wrong in (
        {"signature": turned},
        {"constants": {}},
        {"constants": {**kernel.constants, "more": 1}},
        {"aligned": ("nobody",)},
    ):
        with pytest.raises(ValueError):
            dataclasses.replace(kernel, **wrong)
