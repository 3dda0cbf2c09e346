"""Everybody's tensors: NumPy, PyTorch, JAX, CuPy and whatever else has DLPack or a buffer.

No framework is imported here: a tensor's type says which one it comes from, and then the framework
is in memory already. Three jobs: hand a tensor to an engine (`readable`, `writable`), allocate an
output beside an input (`framework_of`), and look at a tensor from Python (`view_of`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradplan._ffi import tvm_ffi
from gradplan.memory import LARGE, use_large_pages
from gradplan.vocabulary import ElementKind, InvalidProblem, MisalignedOperand, Unsupported

Array = np.ndarray[Any, Any]
Instead = Callable[[str], str]
"""What to use of a bridge ("gradplan.torch") in place of what was called, for messages."""
_Adapter = Callable[[Any, str, Instead], Any]
_BFLOAT16 = ElementKind.BF16.dtype
CPU_DEVICE = 1  # kDLCPU


def tensor_name(plan: str, name: str) -> str:
    """How messages call a tensor; the engines written in C++ say it the same way."""
    return f"{plan}: tensor '{name}'"


def describe(x: Any) -> str:
    """What somebody passed, for messages."""
    if x is None:
        return "None"
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    kind = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
    where = f", on {x.device}" if _is_torch(type(x)) and not x.is_cpu else ""
    return kind if dtype is None else f"{kind} of {dtype}, shape {list(shape or ())}{where}"


def how_to_convert(x: object) -> str:
    """The end of a message about something that is no tensor: how to make one of it, if known."""
    if isinstance(x, (list, tuple)):
        return "; convert it with numpy.asarray(x, 'float32')"
    if hasattr(x, "to_numpy"):  # pandas, polars, xarray
        return "; pass x.to_numpy()"
    return "; pass numpy.asarray(x)" if hasattr(x, "__array__") else ""


# Handing tensors over ------------------------------------------------------------------------


class _Adapters(dict[type, _Adapter]):
    """What to do with a tensor before it is handed over, by its type; found out at first sight."""

    def __init__(self, find: Callable[[type], _Adapter]) -> None:
        super().__init__()
        self.find = find

    def __missing__(self, cls: type) -> _Adapter:
        adapter = self[cls] = self.find(cls)
        return adapter


def readable(x: Any, what: str, instead: Instead = str) -> Any:
    """`x`, or something that shares its memory and exports DLPack or is an ndarray."""
    return READERS[type(x)](x, what, instead)


def writable(x: Any, what: str, instead: Instead = str) -> Any:
    """The same for a tensor that will be written."""
    return WRITERS[type(x)](x, what, instead)


def _root(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _as_it_is(x: Any, what: str, instead: Instead) -> Any:
    return x


def _as_ndarray(x: Any, what: str, instead: Instead) -> Array:
    return np.asarray(x)


def _refuse(x: Any, what: str, instead: Instead) -> Any:
    raise InvalidProblem(
        f"{what}: expected a tensor (DLPack or buffer protocol), got {describe(x)}"
        f"{how_to_convert(x)}"
    )


def _refuse_masked(x: Any, what: str, instead: Instead) -> Any:
    raise Unsupported(
        f"{what}: expected an array without a mask, got {describe(x)}; "
        "pass x.filled(value), or x.data if the mask does not matter"
    )


def _has_buffer(cls: type) -> bool:
    if hasattr(cls, "__array_interface__"):
        return True
    if sys.version_info >= (3, 12):
        return hasattr(cls, "__buffer__")
    # Before 3.12 the buffer protocol is invisible on the class. These are the ones people use.
    return issubclass(cls, (memoryview, bytearray, bytes)) or cls.__module__ in ("array", "mmap")


def _reader_for(cls: type) -> _Adapter:
    if issubclass(cls, np.ma.MaskedArray):
        return _refuse_masked
    if issubclass(cls, np.ndarray):
        return _as_it_is if cls is np.ndarray else _as_ndarray
    if _is_torch(cls):
        torch = sys.modules["torch"]
        plain = cls in (torch.Tensor, torch.nn.Parameter)
        CALL_GLOBALS["Tensor"] = torch.Tensor
        return _torch_reader if plain else _torch_subclass_reader
    if _is_tracer(cls):
        return _refuse_tracer
    if hasattr(cls, "__dlpack__"):
        return _as_it_is
    if issubclass(cls, np.generic) or _has_buffer(cls):
        return _as_ndarray
    return _refuse


def _writer_for(cls: type) -> _Adapter:
    reader = _reader_for(cls)
    if reader is _torch_reader:
        return _torch_writer
    if reader is _torch_subclass_reader:
        return _torch_subclass_writer
    if _root(cls) in ("jax", "jaxlib") and reader is _as_it_is:
        return _refuse_immutable
    if issubclass(cls, np.generic):
        return _refuse_immutable
    return reader


CALL_GLOBALS: dict[str, Any] = {"ndarray": np.ndarray, "Tensor": None}
"""The globals of generated calls; `Tensor` is PyTorch's, once one has been seen."""

READERS = _Adapters(_reader_for)
WRITERS = _Adapters(_writer_for)


def _is_torch(cls: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(cls, torch.Tensor)


def _is_tracer(cls: type) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and issubclass(cls, jax.core.Tracer)


def _refuse_tracer(x: Any, what: str, instead: Instead) -> Any:
    raise Unsupported(
        f"{what}: a JAX tracer has no data yet (inside jit, grad or vmap); "
        f"use {instead('gradplan.jax')} there"
    )


def _refuse_immutable(x: Any, what: str, instead: Instead) -> Any:
    raise InvalidProblem(f"{what}: expected a tensor that can be written, got {describe(x)}")


def _torch_reader(x: Any, what: str, instead: Instead) -> Any:
    if x.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise Unsupported(
            f"{what}: requires grad, and this would record no gradient; use "
            f"{instead('gradplan.torch')}, or pass x.detach() or call under torch.no_grad()"
        )
    # The lazy negation of x.conj().imag is a flag beside the data, which DLPack does not carry.
    return x.resolve_neg() if x.is_neg() else x


def _torch_writer(x: Any, what: str, instead: Instead) -> Any:
    if x.is_neg():
        raise InvalidProblem(f"{what}: expected a plain tensor, got one with the negation flag set")
    if x.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise InvalidProblem(
            f"{what}: expected an output outside of autograd, got one that requires grad; use "
            f"{instead('gradplan.torch')}, or pass y.detach() or call under torch.no_grad()"
        )
    return x


def _torch_subclass_reader(x: Any, what: str, instead: Instead) -> Any:
    _check_torch(x, what)
    return _torch_reader(x, what, instead)


def _torch_subclass_writer(x: Any, what: str, instead: Instead) -> Any:
    _check_torch(x, what)
    return _torch_writer(x, what, instead)


def _check_torch(x: Any, what: str) -> None:
    """Plain tensors say themselves that they have no data; fake ones (a subclass) would crash."""
    if x.layout is not sys.modules["torch"].strided or x.is_meta or hasattr(x, "fake_mode"):
        raise Unsupported(f"{what}: expected a dense tensor with data, got {describe(x)}")


class _Memory:
    """A window on memory for `np.asarray`, which keeps the owner alive."""

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def _window(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, owner: object
) -> Array:
    """A writable array on that memory; strides in bytes."""
    words = np.dtype(f"u{dtype.itemsize}")
    interface = {
        "version": 3,
        "data": (address, False),
        "shape": shape,
        "strides": strides,
        "typestr": words.str,
    }
    return np.asarray(_Memory(interface, owner)).view(dtype)


def exportable(
    array: Array, what: str, dtype_names: Sequence[str], *, write: bool
) -> tuple[Array, bool]:
    """A view of an ndarray which NumPy exports through DLPack, and whether it stands for bfloat16.

    NumPy refuses bfloat16 (here viewed as uint16) and read-only arrays (here viewed as writable:
    the caller promises not to write). Of other things that it refuses this says why.
    """
    dtype = array.dtype
    if dtype.name not in dtype_names or not dtype.isnative:
        got = dtype.name if dtype.isnative else str(dtype)
        raise InvalidProblem(f"{what}: expected element type {' or '.join(dtype_names)}, got {got}")
    if any(s % dtype.itemsize and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
        raise MisalignedOperand(
            f"{what}: expected strides that are multiples of the element size {dtype.itemsize}, "
            f"got {list(array.strides)} bytes"
        )
    if not array.flags.writeable:
        if write:
            raise InvalidProblem(
                f"{what}: expected an array that can be written, got a read-only one"
            )
        address = array.__array_interface__["data"][0]
        array = _window(address, array.shape, array.strides, dtype, array)
    if dtype == _BFLOAT16:
        return array.view(np.uint16), True
    return array, False


# Devices -------------------------------------------------------------------------------------

_DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 8: "metal", 10: "rocm", 11: "cpu", 13: "cuda"}


class _DeviceKeys(dict[type, Callable[[Any], Any]]):
    """What tells the devices of two tensors of a type apart; found out at first sight."""

    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        if _is_torch(cls):
            found: Callable[[Any], Any] = operator.attrgetter("device")
        else:
            found = _dlpack_device if hasattr(cls, "__dlpack_device__") else _no_device
        self[cls] = found
        return found


def _no_device(x: Any) -> None:
    return None


def _dlpack_device(x: Any) -> Any:
    try:
        return x.__dlpack_device__()
    except Exception:  # a tracer, or several devices: whoever takes the tensor says so
        return None


DEVICE_KEYS = _DeviceKeys()


def check_one_device(what: str, tensors: Sequence[tuple[str, Any]]) -> None:
    """Raises unless all of them, with their names, are on one device."""
    places = [(name, _place(x)) for name, x in tensors]
    if len({place for _, place in places}) > 1:
        got = ", ".join(f"{name} on {place}" for name, place in places)
        raise InvalidProblem(f"{what}: expected tensors on one device; got {got}")


def _place(x: Any) -> str:
    """Where a tensor is; unlike `device_of` it tells one without data from others."""
    return "meta" if _is_torch(type(x)) and x.is_meta else device_of(x)


def device_of(x: Any) -> str:
    """Where a tensor is: "cpu", "cuda:1" and so on. One without data is nowhere: "cpu"."""
    device = DEVICE_KEYS[type(x)](x)
    if device is None:
        return "cpu"
    if isinstance(device, tuple):
        kind, index = _DLPACK_DEVICES.get(int(device[0]), f"dlpack-{int(device[0])}"), device[1]
    else:
        kind, index = device.type, device.index
    if kind in ("cpu", "meta"):
        return "cpu"
    return kind if index is None else f"{kind}:{index}"


# Allocation ----------------------------------------------------------------------------------


class Framework:
    """Where outputs come from; this one is NumPy, and serves everybody without a better home."""

    immutable = False
    """Whether outputs are written elsewhere and then `finished`."""

    def empty(self, shape: tuple[int, ...], kind: ElementKind, like: Any) -> Any:
        _check_near(like)
        return np.empty(shape, kind.dtype)

    def zeros(self, shape: tuple[int, ...], kind: ElementKind, like: Any) -> Any:
        _check_near(like)
        return np.zeros(shape, kind.dtype)

    def finished(self, output: Any) -> Any:
        """What the caller gets once `output` has been written."""
        return output

    def count_write(self, x: Any) -> None:
        """Tells the framework that a tensor of its has been written, if it wants to know."""

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(x, shape)

    def viewed(self, output: Any, shape: tuple[int, ...]) -> Any:
        """`output` in another shape, sharing its memory, or None where strides do not allow it."""
        view = np.asarray(output).reshape(shape)
        return view if np.may_share_memory(view, output) or view.size == 0 else None

    # On GPUs

    export: Callable[[Any], Any] | None = None
    """How to hand over a tensor that is used on the framework's own stream; None: as it is."""

    def current_stream(self, like: Any) -> int | None:
        """The handle of the stream that work on the device of `like` goes to; None: no idea."""
        return None

    def on_stream(self, handle: int | None, like: Any) -> contextlib.AbstractContextManager[Any]:
        """What is allocated there is safe for work on that stream (None: the current one)."""
        return contextlib.nullcontext()

    def scratch(self, size: int, like: Any) -> Any:
        """Bytes on the device of `like`, which are the stream's again when nobody has them."""
        raise Unsupported(
            f"expected a workspace of {size} bytes: {describe(like)} is of no framework that "
            "memory on a GPU could be asked of; pass workspace="
        )


def _check_near(like: Any) -> None:
    """Raises where NumPy's memory would not do."""
    device = "cpu" if isinstance(like, np.ndarray) else device_of(like)
    if device != "cpu":
        raise Unsupported(
            f"expected outputs to be given: {describe(like)} is on {device}, and of no framework "
            "that memory there could be asked of"
        )


@functools.cache
def torch_dtype(kind: ElementKind) -> Any:
    """PyTorch's name for an element type."""
    return getattr(sys.modules["torch"], kind.dtype_name)


class _Torch(Framework):
    # empty_like is the fastest of the ways to ask (1.1 us against 1.7 for new_empty).
    def empty(self, shape: tuple[int, ...], kind: ElementKind, like: Any) -> Any:
        torch = sys.modules["torch"]
        if torch_dtype(kind) is not like.dtype:
            made = like.new_empty(shape, dtype=torch_dtype(kind))
        elif like.shape == shape:
            made = torch.empty_like(like)
        else:
            made = like.new_empty(shape)
        try:
            if made.nbytes >= LARGE and made.is_cpu:
                use_large_pages(made.data_ptr(), made.nbytes)
        except RuntimeError:
            pass  # sparse, or without data: the call will say so
        return made

    def zeros(self, shape: tuple[int, ...], kind: ElementKind, like: Any) -> Any:
        return self.empty(shape, kind, like).zero_()

    def count_write(self, x: Any) -> None:
        """Whatever has saved it for a gradient raises then, as after PyTorch's own `out=`."""
        graph = sys.modules["torch"].autograd.graph
        try:
            graph.increment_version(x)
        except AttributeError:  # an old PyTorch; a write of no element counts as well
            x.detach().unsqueeze(0)[:0].zero_()

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.expand(shape)

    def viewed(self, output: Any, shape: tuple[int, ...]) -> Any:
        try:
            return output.view(shape)
        except RuntimeError:
            return None

    def current_stream(self, like: Any) -> int | None:
        return int(sys.modules["torch"].cuda.current_stream(like.device).cuda_stream)

    def on_stream(self, handle: int | None, like: Any) -> contextlib.AbstractContextManager[Any]:
        if handle is None or handle == self.current_stream(like):
            return contextlib.nullcontext()
        cuda = sys.modules["torch"].cuda
        entered: contextlib.AbstractContextManager[Any] = cuda.stream(
            cuda.ExternalStream(handle, device=like.device)
        )
        return entered

    def scratch(self, size: int, like: Any) -> Any:
        torch = sys.modules["torch"]
        return torch.empty(size, dtype=torch.uint8, device=like.device)


class _Unsynchronised:
    """Exports an array without making another stream wait for the current one.

    CuPy would do that for the default stream, which is nothing to do with us, and which cannot be
    part of a graph that is being captured.
    """

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**{**options, "stream": -1})

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class _CuPy(Framework):
    """Memory goes back to the stream that was current when it was asked for, as PyTorch's does."""

    export = _Unsynchronised

    def empty(self, shape: tuple[int, ...], kind: ElementKind, like: Any) -> Any:
        with like.device:
            return sys.modules["cupy"].empty(shape, kind.dtype)

    def zeros(self, shape: tuple[int, ...], kind: ElementKind, like: Any) -> Any:
        with like.device:
            return sys.modules["cupy"].zeros(shape, kind.dtype)

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return sys.modules["cupy"].broadcast_to(x, shape)

    def viewed(self, output: Any, shape: tuple[int, ...]) -> Any:
        view = output.view()
        try:
            view.shape = shape  # which refuses to copy
        except (AttributeError, ValueError):
            return None
        return view

    def current_stream(self, like: Any) -> int | None:
        with like.device:
            return int(sys.modules["cupy"].cuda.get_current_stream().ptr)

    def on_stream(self, handle: int | None, like: Any) -> contextlib.AbstractContextManager[Any]:
        if handle is None or handle == self.current_stream(like):
            return contextlib.nullcontext()
        entered: contextlib.AbstractContextManager[Any] = sys.modules["cupy"].cuda.ExternalStream(
            handle, like.device.id
        )
        return entered

    def scratch(self, size: int, like: Any) -> Any:
        with like.device:
            return sys.modules["cupy"].empty(size, np.uint8)


class _Jax(Framework):
    """JAX arrays are immutable: write NumPy memory, then give it to JAX."""

    immutable = True

    def empty(self, shape: tuple[int, ...], kind: ElementKind, like: Any) -> Any:
        if device_of(like) != "cpu":
            raise Unsupported(
                f"expected arrays on the CPU: {describe(like)} is on {device_of(like)}, where JAX "
                "alone allocates; use gradplan.jax"
            )
        # XLA takes over memory without a copy only if it is aligned to 64 bytes.
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        raw = np.empty(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        return raw[start : start + size].view(kind.dtype).reshape(shape)

    def zeros(self, shape: tuple[int, ...], kind: ElementKind, like: Any) -> Any:
        array = self.empty(shape, kind, like)
        array.fill(0)
        return array

    def finished(self, output: Any) -> Any:
        jax = sys.modules["jax"]
        if output.dtype == _BFLOAT16:  # NumPy does not export it
            return jax.numpy.asarray(output)
        return jax.numpy.from_dlpack(output)


_NUMPY, TORCH, _CUPY, _JAX = Framework(), _Torch(), _CuPy(), _Jax()
_BY_MODULE = {"cupy": _CUPY, "jax": _JAX, "jaxlib": _JAX}
_FRAMEWORKS: dict[type, Framework] = {}


def framework_of(x: Any) -> Framework:
    """The framework that `x` comes from."""
    cls = type(x)
    framework = _FRAMEWORKS.get(cls)
    if framework is None:
        framework = TORCH if _is_torch(cls) else _BY_MODULE.get(_root(cls), _NUMPY)
        _FRAMEWORKS[cls] = framework
    return framework


def count_writes(tensors: Sequence[Any]) -> None:
    """Tells the frameworks of these tensors that they have been written."""
    for x in tensors:
        framework_of(x).count_write(x)


# Looking at tensors from Python --------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor as an engine sees it. Strides count elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype_name: str
    device_type: int
    address: int
    owner: Any
    readonly: bool = False

    def array(self, dtype: np.dtype[np.generic]) -> Array:
        """The memory as an ndarray of `dtype`, which must be the view's own."""
        strides = tuple(stride * dtype.itemsize for stride in self.strides)
        return _window(self.address, self.shape, strides, dtype, self.owner)


def view_of(x: Any, what: str, dtype_names: Sequence[str]) -> View:
    """A view of anything that `readable` or `writable` returned."""
    if isinstance(x, np.ndarray):
        array, bfloat16 = exportable(x, what, dtype_names, write=False)
        itemsize = array.dtype.itemsize
        return View(
            array.shape,
            tuple(stride // itemsize for stride in array.strides),
            "bfloat16" if bfloat16 else array.dtype.name,
            CPU_DEVICE,
            array.__array_interface__["data"][0],
            x,
            not x.flags.writeable,
        )
    try:
        tensor = tvm_ffi().from_dlpack(x)
    except Exception as error:
        if _is_torch(type(x)):
            _check_torch(x, what)
        reason = str(error).partition("\n")[0]
        raise InvalidProblem(f"{what}: cannot be exported through DLPack: {reason}") from None
    device, _ = tensor.__dlpack_device__()
    return View(
        tuple(tensor.shape),
        tuple(tensor.strides),
        str(tensor.dtype),
        int(device),
        tensor.data_ptr(),
        tensor,
    )


def dtype_name_of(x: Any, what: str) -> str:
    """The name of a tensor's element type, such as "float32", without touching its data."""
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        return str(np.asarray(readable(x, what)).dtype.name)
    return str(dtype).rpartition(".")[2]


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of anything that `readable` accepts."""
    shape = getattr(x, "shape", None)
    return tuple(np.asarray(x).shape) if shape is None else tuple(shape)
