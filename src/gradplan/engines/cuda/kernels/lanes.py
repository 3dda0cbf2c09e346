"""Elements of a thread as separate values, and values that go from lane to lane of a warp.

A tensor's layout is the compiler's choice, and so is the order in which it reduces or scans one.
Where the order is part of the contract, a thread's elements are taken apart into a tuple of values,
and every operation between them is written out; between lanes there are only gathers.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def columns(x, V: tl.constexpr):
    """[R, L, V] as a tuple of V tensors [R, L], in order."""
    if V == 1:
        return (tl.reshape(x, [x.shape[0], x.shape[1]]),)
    else:
        e, o = tl.split(tl.reshape(x, [x.shape[0], x.shape[1], V // 2, 2]))
        if V == 2:
            shape: tl.constexpr = [x.shape[0], x.shape[1]]
            return (tl.reshape(e, shape), tl.reshape(o, shape))
        else:
            a = columns(e, V // 2)
            b = columns(o, V // 2)
            out = (a[0], b[0])
            for i in tl.static_range(1, V // 2):
                out = out + (a[i], b[i])
            return out


@triton.jit
def together(c, V: tl.constexpr):
    """The inverse of `columns`."""
    if V == 1:
        return tl.reshape(c[0], [c[0].shape[0], c[0].shape[1], 1])
    elif V == 2:
        return tl.join(c[0], c[1])
    else:
        e = (c[0],)
        o = (c[1],)
        for i in tl.static_range(1, V // 2):
            e = e + (c[2 * i],)
            o = o + (c[2 * i + 1],)
        a = together(e, V // 2)
        b = together(o, V // 2)
        return tl.reshape(tl.join(a, b), [a.shape[0], a.shape[1], V])


@triton.jit
def backwards(c, N: tl.constexpr):
    """A tuple in the other order."""
    out = (c[N - 1],)
    for i in tl.static_range(1, N):
        out = out + (c[N - 1 - i],)
    return out


@triton.jit
def lane(v, which: tl.constexpr):
    """[R, L]: what one lane of each row holds, in all of its lanes."""
    return tl.gather(v, tl.full(v.shape, which, tl.int32), 1)
