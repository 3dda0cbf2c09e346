"""PyTorch's private names: where they stand, which versions have them, what works without them."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from gradplan.torch import private  # noqa: E402
from gradplan.torch.fast_path import NATIVE  # noqa: E402

TESTS = Path(__file__).parent
SOURCES = Path(private.__file__).parent
INSTALLED = tuple(int(part) for part in torch.__version__.split(".")[:2])

SINCE = dict.fromkeys(private.NAMES, (2, 6)) | {"Tensor.__dlpack_c_exchange_api__": (2, 10)}
"""The first version that has each; releases up to 2.15 do."""


@pytest.mark.slow
def test_the_installed_version() -> None:
    """In a process of its own: tvm_ffi gives older tensors an exchange table when it meets them."""
    code = """
from gradplan.torch import private
print(*(name for name in private.NAMES if private.find(name) is None))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [name for name in SINCE if SINCE[name] > INSTALLED]


def _private_names(source: str) -> list[str]:
    attributes = r"(?<!gradplan\.)\btorch\.(?:\w+\.)*_[a-zA-Z]\w*"
    return re.findall(rf"{attributes}|from torch\b\S* import _\w+|\._cdata|\._backward_cls", source)


def test_private_names_stand_in_one_file() -> None:
    written = {path.name: _private_names(path.read_text()) for path in SOURCES.glob("*.py")}
    assert {name for name, found in written.items() if found} == {"private.py"}
    for source in ("torch._C._is_tracing()", "from torch.autograd import _x", "a.torch.cuda._b"):
        assert _private_names(source)


def test_the_module_in_c_is_there() -> None:
    """If it could be built."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")
    if headers.exists() and private.DISPATCHER is not None and not free_threaded:
        assert NATIVE is not None


WITHOUT = {
    "the module": 'sys.modules["gradplan.torch._fast_path"] = None',
    "private names": """
del torch._C._storage_Use_Count, torch._C._dynamo.guards._empty_strided_cpu
del torch.autograd.profiler._is_profiler_enabled
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("missing", WITHOUT)
def test_everything_works_without(missing: str) -> None:
    """Through the dispatcher: with an older PyTorch, in a build without Python's headers."""
    names = ["fast_path", "kept_memory"] if missing == "the module" else ["fast_path"]
    files = [str(TESTS / f"test_{name}.py") for name in names]
    code = f"""
import sys, pytest, torch.autograd.profiler
{WITHOUT[missing]}
from gradplan.torch import fast_path
assert fast_path.NATIVE is None
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *{files!r}]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
