"""gradplan inside JAX: the same kernels under `jit`, `grad`, `vmap` and the rest.

Names and arguments are those of `jax.lax` and `jax.ops`; bits are those of the plain functions.

>>> import jax, jax.numpy as jnp
>>> import gradplan.jax as gpj
>>> jax.jit(gpj.cumsum)(jnp.float32([1, 2, 3]))
Array([1., 3., 6.], dtype=float32)
>>> jax.grad(lambda x: gpj.cumprod(x).sum())(jnp.float32([2, 0, 5]))
Array([ 1., 12.,  0.], dtype=float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradplan._ffi import tvm_ffi

tvm_ffi()  # before jax_tvm_ffi imports it, and PyTorch with it

try:
    import jax  # noqa: F401
    import jax_tvm_ffi  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"gradplan.jax needs JAX and jax-tvm-ffi ({error}); install both with: "
        "pip install 'gradplan[jax]'",
        name=error.name,
    ) from error

from gradplan.jax import autodiff, batching, functions  # noqa: E402
from gradplan.jax.functions import *  # noqa: E402, F403
from gradplan.public import public  # noqa: E402

__all__ = functions.__all__

autodiff.register()
batching.register()

if not TYPE_CHECKING:  # which would take every name for one of the module's
    __getattr__, __dir__ = public(__name__, (), functions)
