"""apache-tvm-ffi, imported without its side effect and with our errors registered."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any, cast

from gradplan import vocabulary
from gradplan.forks import LOCK


class _HideTorch:
    """Makes `import torch` fail in the thread that created it; other threads are not affected."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "torch" and threading.get_ident() == self.thread:
            raise ModuleNotFoundError("hidden while tvm_ffi is imported", name=fullname)


@functools.cache
def tvm_ffi() -> Any:
    """The module tvm_ffi.

    On import it imports PyTorch wherever that is installed, which takes seconds and which somebody
    with NumPy arrays did not ask for. It does not need to: PyTorch's tensors bring their own
    DLPack exchange table, found on their class at the first call.
    """
    with LOCK:
        return _imported()


def _imported() -> Any:
    finder = _HideTorch()
    sys.meta_path.insert(0, cast(Any, finder))
    try:
        import tvm_ffi as module
    finally:
        sys.meta_path.remove(cast(Any, finder))
    for name in vocabulary.__all__:
        error = getattr(vocabulary, name)
        if isinstance(error, type) and issubclass(error, vocabulary.Error):
            module.register_error(f"gradplan.{name}", error)
    return module
