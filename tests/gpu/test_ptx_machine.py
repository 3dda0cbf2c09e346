"""The executor's memory, warps, branches and barriers; and what each of them refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx.errors import Divergent, Misaligned, OutOfBounds, PtxError, Race, Unsupported, Unwritten
from ptx.machine import Kernel
from ptx.parse import parse
from ptx_snippets import launch, memory_of, module

Array = np.ndarray[Any, Any]
POINTERS = "ld.param.b64 %rd1, [at_0]; ld.param.b64 %rd2, [at_1];"
WORD_AT = "mad.wide.u32 %rd3, %r12, 4, %rd1; mad.wide.u32 %rd4, %r12, 4, %rd2;"


def words(count: int) -> Array:
    return np.random.default_rng(7).integers(0, 2**32, count, np.uint32)


def aligned(count: int, dtype: Any) -> Array:
    memory = np.zeros(count * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count * np.dtype(dtype).itemsize].view(dtype)


# Memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
def test_vectors_of_words(count: int) -> None:
    x, y = aligned(32 * count, np.uint32), aligned(32 * count, np.uint32)
    x[:] = words(32 * count)
    vector = f".v{count}" if count > 1 else ""
    registers = "{" + ", ".join(f"%r{k}" for k in range(count)) + "}" if count > 1 else "%r0"
    launch(
        f"""{POINTERS}
        mad.wide.u32 %rd3, %r12, {4 * count}, %rd1; mad.wide.u32 %rd4, %r12, {4 * count}, %rd2;
        ld.global.L1::evict_last{vector}.b32 {registers}, [%rd3];
        st.global{vector}.b32 [%rd4 + 0], {registers};""",
        [x, y],
    )
    assert y.tolist() == x.tolist()


def test_narrow_loads_extend_and_narrow_stores_cut() -> None:
    x, y = np.arange(-16, 16, dtype=np.int8), np.zeros(32, np.int32)
    launch(
        f"""{POINTERS} cvt.u64.u32 %rd5, %r12; add.s64 %rd3, %rd1, %rd5;
        mad.wide.u32 %rd4, %r12, 4, %rd2;
        ld.global.s8 %r1, [%rd3]; st.global.b32 [%rd4], %r1;""",
        [x, y],
    )
    assert y.tolist() == x.tolist()
    launch(
        f"""{POINTERS} cvt.u64.u32 %rd5, %r12; add.s64 %rd3, %rd1, %rd5;
        mad.wide.u32 %rd4, %r12, 4, %rd2;
        ld.global.u8 %h1, [%rd3]; cvt.u32.u16 %r1, %h1; add.s32 %r1, %r1, 257;
        st.global.b8 [%rd3], %r1; st.global.b32 [%rd4], %r1;""",
        [x, y],
    )
    before = np.arange(-16, 16, dtype=np.int8).view(np.uint8).astype(int)
    assert y.tolist() == (before + 257).tolist()
    assert x.view(np.uint8).tolist() == ((before + 257) % 256).tolist()


@pytest.mark.parametrize("offset", [-4, 128])
@pytest.mark.parametrize(
    "line", ["ld.global.b32 %r1, [%rd1 + {}]", "st.global.b32 [%rd1 + {}], %r12"]
)
def test_beside_the_arguments(line: str, offset: int) -> None:
    around = np.zeros(34, np.uint32)
    body = "ld.param.b64 %rd1, [at_0]; mad.wide.u32 %rd1, %r12, 4, %rd1; "
    launch(body + line.format(0) + ";", [around[1:-1]])
    with pytest.raises(OutOfBounds, match=r"4 bytes at 0x.*: (ld|st)\.global"):
        launch(body + line.format(offset) + ";", [around[1:-1]])
    one = "setp.eq.u32 %p1, %r12, 31; @%p1 " + line.format(4) + ";"
    with pytest.raises(OutOfBounds):
        launch(body + one, [around[1:-1]])


def test_a_vector_may_not_reach_over_the_end() -> None:
    x = aligned(6, np.uint32)
    body = "ld.param.b64 %rd1, [at_0]; ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1 + 16];"
    with pytest.raises(OutOfBounds):
        launch(body, [x])


@pytest.mark.parametrize(
    "line",
    [
        "ld.global.b32 %r1, [%rd1 + 2]",
        "st.global.b64 [%rd1 + 4], %rd1",
        "ld.global.v2.b32 {%r1, %r2}, [%rd1 + 4]",
        "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1 + 8]",
    ],
)
def test_misaligned_accesses(line: str) -> None:
    with pytest.raises(Misaligned):
        launch(f"ld.param.b64 %rd1, [at_0]; {line};", [aligned(64, np.uint32)])


def test_arrays_in_several_places() -> None:
    """One load whose lanes go to two arrays, and a store back, crosswise."""
    x, y = words(32), words(64)[32:]
    before = x.copy(), y.copy()
    launch(
        f"""{POINTERS} and.b32 %r1, %r12, 1; setp.eq.u32 %p1, %r1, 1;
        selp.b64 %rd5, %rd1, %rd2, %p1; mad.wide.u32 %rd3, %r12, 4, %rd5;
        ld.global.b32 %r2, [%rd3]; add.s32 %r2, %r2, 1; st.global.b32 [%rd3], %r2;""",
        [x, y],
    )
    odd = np.arange(32) % 2 == 1
    assert x.tolist() == (before[0] + odd.astype(np.uint32)).tolist()
    assert y.tolist() == (before[1] + (~odd).astype(np.uint32)).tolist()


def test_two_threads_may_store_the_same_value_and_no_other() -> None:
    body = "ld.param.b64 %rd1, [at_0]; mov.b32 %r1, 7; st.global.b32 [%rd1], {};"
    x = np.zeros(1, np.uint32)
    launch(body.format("%r1"), [x])
    assert x.tolist() == [7]
    with pytest.raises(Race):
        launch(body.format("%r12"), [x])


def test_atomics_of_integers() -> None:
    x = np.array([5, 5, 2**32 - 1, 0], np.uint32)
    launch(
        """ld.param.b64 %rd1, [at_0]; add.s32 %r1, %r12, 3;
        red.global.gpu.relaxed.add.u32 [%rd1], %r1;
        atom.global.gpu.acq_rel.min.s32 %r2, [%rd1 + 4], %r1;
        atom.global.min.u32 _, [%rd1 + 8], %r1;
        atom.global.or.b32 %r3, [%rd1 + 12], %r12;""",
        [x],
        programs=2,
    )
    assert x.tolist() == [5 + sum(range(3, 67)), 3, 3, 63]


def test_registers_have_to_be_written_first() -> None:
    with pytest.raises(Unwritten, match="%r5"):
        launch("add.s32 %r1, %r5, 1;", [])


def test_lanes_that_did_not_write_a_register_hold_poison() -> None:
    x = np.zeros(32, np.uint32)
    launch(
        """ld.param.b64 %rd1, [at_0]; mad.wide.u32 %rd1, %r12, 4, %rd1;
        setp.lt.u32 %p1, %r12, 3; @%p1 mov.b32 %r1, %r12; st.global.b32 [%rd1], %r1;""",
        [x],
    )
    assert x.tolist() == [0, 1, 2] + [0xCDCDCDCD] * 29


# Shared memory and barriers ------------------------------------------------------------------

TURN = """ld.param.b64 %rd1, [at_0]; mad.wide.u32 %rd1, %r12, 4, %rd1;
shl.b32 %r1, %r11, 2; st.shared.b32 [%r1], %r12; {barrier}
xor.b32 %r2, %r1, 252; ld.shared.b32 %r3, [%r2]; st.global.b32 [%rd1], %r3;"""


@pytest.mark.parametrize("warp_by_warp", [False, True])
def test_shared_memory_belongs_to_a_program(warp_by_warp: bool) -> None:
    x = np.zeros(192, np.uint32)
    body = TURN.format(barrier="bar.sync 0;")
    launch(body, [x], programs=3, threads=64, shared=256, warp_by_warp=warp_by_warp)
    assert x.reshape(3, 64)[:, ::-1].reshape(-1).tolist() == list(range(192))


def test_a_missing_barrier_shows_when_warps_take_turns() -> None:
    x = np.zeros(64, np.uint32)
    launch(TURN.format(barrier=""), [x], threads=64, shared=256, warp_by_warp=True)
    assert x.tolist() != list(range(64))[::-1]


def test_shared_memory_has_an_end() -> None:
    body = TURN.format(barrier="bar.sync 0;")
    with pytest.raises(OutOfBounds, match="4 bytes of 252 of shared memory"):
        launch(body, [np.zeros(64, np.uint32)], threads=64, shared=252)


@pytest.mark.parametrize("condition", ["lt.u32 %p1, %r11, 7", "lt.u32 %p1, %r11, 32"])
def test_a_barrier_is_for_all_threads(condition: str) -> None:
    body = f"setp.{condition}; @%p1 bra $skip; bar.sync 0; $skip: mov.b32 %r1, 0;"
    with pytest.raises(Divergent, match="not all threads of a program"):
        launch(body, [], threads=64)
    launch(body.replace("%r11, 7", "%r11, 0").replace("%r11, 32", "%r11, 0"), [], threads=64)


def test_two_barriers_are_not_one() -> None:
    body = """setp.lt.u32 %p1, %r11, 32; @%p1 bra $other; bar.sync 0; bra.uni $end;
    $other: bar.sync 0; $end: mov.b32 %r1, 0;"""
    with pytest.raises(Divergent):
        launch(body, [], threads=64)


# Warps ---------------------------------------------------------------------------------------

SEND = f"{POINTERS} {WORD_AT} ld.global.b32 %r1, [%rd3]; {{}} st.global.b32 [%rd4], %r2;"


def warp_result(line: str, x: Array) -> list[int]:
    y = np.zeros_like(x)
    launch(SEND.format(line), [x, y], programs=len(x) // 32)
    return y.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("width", [32, 16, 8])
@pytest.mark.parametrize(
    ("mode", "by"), [("idx", 3), ("idx", 13), ("bfly", 4), ("up", 1), ("up", 5), ("down", 2)]
)
def test_shuffles(mode: str, by: int, width: int) -> None:
    x = words(64)
    clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
    got = warp_result(f"shfl.sync.{mode}.b32 %r2, %r1, {by}, {clamp}, -1;", x)
    want = []
    for lane in range(64):
        warp, own = lane - lane % 32, lane % 32
        first = own - own % width
        other = {"idx": first + by % width, "bfly": own ^ by, "up": own - by, "down": own + by}[
            mode
        ]
        inside = first <= other < first + width
        want.append(int(x[warp + (other if inside else own)]))
    assert got == want


def test_a_shuffle_says_whether_there_was_a_lane() -> None:
    x = words(32)
    got = warp_result("shfl.sync.up.b32 %r3|%p1, %r1, 4, 0, -1; selp.b32 %r2, %r3, 0, %p1;", x)
    assert got == [0] * 4 + x[:-4].tolist()


def test_a_shuffle_by_what_a_lane_says() -> None:
    x = words(64) % 32
    assert warp_result("shfl.sync.idx.b32 %r2, %r12, %r1, 31, -1;", x) == (
        (np.arange(64) // 32 * 32 + x).tolist()
    )


def test_votes() -> None:
    x = words(96) % 3
    x[32:64] = 1
    test = "setp.eq.u32 %p1, %r1, 1; "
    ballots = warp_result(test + "vote.sync.ballot.b32 %r2, %p1, -1;", x)
    any_ = warp_result(test + "vote.sync.any.pred %p2, %p1, -1; selp.b32 %r2, 1, 0, %p2;", x)
    all_ = warp_result(test + "vote.sync.all.pred %p2, %p1, -1; selp.b32 %r2, 1, 0, %p2;", x)
    for warp in range(3):
        ones = x[32 * warp : 32 * warp + 32] == 1
        assert ballots[32 * warp] == sum(1 << k for k in range(32) if ones[k])
        assert any_[32 * warp] == ones.any() and all_[32 * warp] == ones.all()


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_reductions(kind: str) -> None:
    x = words(64)
    signed = x.view(np.int32) if kind == "s32" else x
    for name, function in (("min", min), ("max", max), ("add", sum)):
        got = warp_result(f"redux.sync.{name}.{kind} %r2, %r1, -1;", x)
        for warp in range(2):
            want = function(signed[32 * warp : 32 * warp + 32].tolist()) % 2**32
            assert got[32 * warp : 32 * warp + 32] == [want] * 32


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices(count: int, trans: str) -> None:
    """Lane l of a warp gets row l / 4, columns 2 (l % 4) and the next; or so of the transposed."""
    y = aligned(32 * count, np.uint32)
    fill = "".join(
        f"mad.lo.s32 %r1, %r11, 2, {64 * k}; cvt.u16.u32 %h1, %r1; shl.b32 %r2, %r1, 1;"
        "mad.lo.s32 %r3, %r11, 2, 1; cvt.u16.u32 %h2, %r1; add.u16 %h2, %h2, 1;"
        "st.shared.b16 [%r2], %h1; st.shared.b16 [%r2 + 2], %h2;"
        for k in range(count)
    )
    registers = ", ".join(f"%r{k + 4}" for k in range(count))
    vector = f".v{count} [%rd1], {{{registers}}}" if count > 1 else " [%rd1], %r4"
    vector = vector.replace(".v2 ", ".v2.b32 ").replace(".v4 ", ".v4.b32 ")
    store = f"st.global{vector}" if count > 1 else f"st.global.b32{vector}"
    launch(
        f"""ld.param.b64 %rd1, [at_0]; mad.wide.u32 %rd1, %r12, {4 * count}, %rd1; {fill}
        bar.sync 0; shl.b32 %r1, %r11, 4;
        ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r1];
        {store};""",
        [y],
        shared=512,
    )
    halves = np.arange(64 * count).reshape(count, 8, 8)
    halves = halves.swapaxes(1, 2) if trans else halves
    got = y.reshape(32, count)
    for lane in range(32):
        for k in range(count):
            low, high = halves[k, lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2]
            assert got[lane, k] == low | high << 16


@pytest.mark.parametrize(
    "line",
    [
        "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;",
        "vote.sync.any.pred %p2, %p1, -1;",
        "redux.sync.add.u32 %r2, %r1, -1;",
        "bar.warp.sync -1;",
    ],
)
def test_what_a_warp_does_together_needs_all_of_it(line: str) -> None:
    body = "mov.b32 %r1, 1; setp.lt.u32 %p1, %r12, {}; @%p1 bra $skip; " + line + " $skip: ret;"
    launch(body.format(0), [])
    launch(body.format(32), [], threads=64)
    with pytest.raises(Divergent, match="a part of a warp"):
        launch(body.format(3), [])
    with pytest.raises(Divergent, match="a part of a warp as members"):
        launch(body.format(0).replace("-1;", "0xffff;"), [])


# Branches ------------------------------------------------------------------------------------


def test_loops_of_different_lengths_meet_again() -> None:
    """Each lane goes around as often as its number says; then all shuffle."""
    x = np.zeros(64, np.uint32)
    kernel = launch(
        """ld.param.b64 %rd1, [at_0]; mad.wide.u32 %rd1, %r12, 4, %rd1; mov.b32 %r1, 0;
        mov.b32 %r2, 0; and.b32 %r4, %r12, 7;
        $loop: setp.ge.u32 %p1, %r1, %r4; @%p1 bra $end; add.s32 %r1, %r1, 1;
        add.s32 %r2, %r2, %r1; bra.uni $loop;
        $end: shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; st.global.b32 [%rd1], %r3;""",
        [x],
        programs=2,
    )
    turns = np.arange(64) % 8
    assert x.tolist() == (turns * (turns + 1) // 2)[np.arange(64) ^ 1].tolist()
    assert kernel.thread_steps < 64 * kernel.steps


def test_both_sides_of_a_branch() -> None:
    x = np.zeros(32, np.uint32)
    launch(
        """ld.param.b64 %rd1, [at_0]; mad.wide.u32 %rd1, %r12, 4, %rd1;
        setp.lt.u32 %p1, %r12, 10; @!%p1 bra $else; mov.b32 %r1, 1; bra.uni $store;
        $else: mov.b32 %r1, 2; $store: st.global.b32 [%rd1], %r1;
        setp.lt.u32 %p1, %r12, 20; @%p1 ret; st.global.b32 [%rd1], %r12;""",
        [x],
    )
    assert x.tolist() == [1] * 10 + [2] * 10 + list(range(20, 32))


@pytest.mark.parametrize("backwards", [False, True])
def test_programs_know_where_they_are(backwards: bool) -> None:
    """More threads than run at once, in a grid of three axes."""
    grid = (7, 11, 17)
    x = np.zeros(7 * 11 * 17 * 32, np.uint32)
    body = """ld.param.b64 %rd1, [at_0]; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.z;
    mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y; mad.lo.s32 %r5, %r2, %r4, %r1;
    mad.lo.s32 %r5, %r5, %r3, %r10; mad.lo.s32 %r5, %r5, 32, %r11;
    mad.wide.u32 %rd1, %r5, 4, %rd1; st.global.b32 [%rd1], %r5;"""
    kernel = Kernel(module(body, 1))
    kernel.launch(grid, [x.ctypes.data], memory_of([x]), backwards=backwards)
    assert x.tolist() == list(range(len(x)))


def test_an_order_of_programs_that_matters_shows() -> None:
    """Every program reads what the next one writes: backwards it finds something else."""
    results = []
    for backwards in (False, True):
        x = np.zeros(2**15 + 64, np.uint32)
        launch(
            """ld.param.b64 %rd1, [at_0]; mad.wide.u32 %rd2, %r12, 4, %rd1;
            ld.global.b32 %r1, [%rd2 + 128]; add.s32 %r1, %r1, 1; st.global.b32 [%rd2], %r1;""",
            [x],
            programs=2**10 + 1,
            backwards=backwards,
        )
        results.append(x.tolist())
    assert results[0] != results[1]


# Text ----------------------------------------------------------------------------------------


def test_registers_of_a_block_are_its_own() -> None:
    x = np.zeros(32, np.uint32)
    launch(
        """ld.param.b64 %rd1, [at_0]; mad.wide.u32 %rd1, %r12, 4, %rd1;
        { .reg .b32 t; mov.b32 t, 5; mov.b32 %r1, t; }
        { .reg .b64 t; mov.b64 t, 6; mov.b64 %rd2, t; }
        cvt.u32.u64 %r2, %rd2; add.s32 %r1, %r1, %r2; st.global.b32 [%rd1], %r1;""",
        [x],
    )
    assert x.tolist() == [11] * 32


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".address_size 64", ".address_size 32"),
        ("ret;", ".local .b8 stack[16]; ret;"),
        ("ret;", "call.uni (%r1), f, (%r2); ret;"),
        ("ret;", "trap; ret;"),
        ("ret;", "bar.sync 1; ret;"),
        (".reqntid 32", ""),
        (".param .u64 .ptr .global .align 1 at_0", ".param .align 8 .b8 at_0[16]"),
        ("\n}", "\n} .func f() { ret; }"),
        ("\n}", ""),
    ],
)
def test_other_modules_are_refused(old: str, new: str) -> None:
    text = module("ld.param.b64 %rd1, [at_0];", 1)
    Kernel(text)
    assert old in text
    with pytest.raises(Unsupported):
        Kernel(text.replace(old, new))


def test_a_parameter_has_one_width() -> None:
    with pytest.raises(PtxError):
        Kernel(module("ld.param.b32 %r1, [at_0];", 1))


def test_what_a_module_says_about_itself() -> None:
    read = parse(module("mov.b32 %r1, 0;", 2, threads=64))
    assert (read.entry, read.threads, len(read.parameters)) == ("snippet", 64, 2)
