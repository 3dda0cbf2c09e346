"""Executes PTX in NumPy: every thread of every program is a lane of an array.

Strict on purpose. What is not written here is an error: an opcode, a modifier, a rounding other
than to nearest even, a fused multiply-add, a flush to zero. So is what a GPU leaves undefined or
would fault at: an access outside of the memory that a launch was given or misaligned, a register
that nobody wrote, a barrier or a shuffle that not all threads reach, two threads that store
different values at one place. NaNs that arithmetic makes carry NVIDIA's bit patterns, and memory
that nobody wrote is poison, so that what the contract wants canonical has to be made so.

| | |
|---|---|
| `parse.py` | text to instructions |
| `operands.py` | types, registers, immediate values |
| `memory.py` | global and shared memory |
| `floats.py`, `integers.py`, `choices.py`, `moves.py`, `warps.py` | the instructions by group |
| `machine.py` | programs, threads, branches and barriers: a launch |
| `counts.py` | what launches have done: operations that round, bytes, instructions |
| `audit.py` | what must not stand in the PTX at all |
| `run.py` | a `Program` of the engine on NumPy arrays |
"""
