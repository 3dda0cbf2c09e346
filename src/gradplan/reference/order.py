"""The lengths that the contract's orders are made of, for everybody.

Kernels for GPUs import them; `tools/contract.py` writes them into csrc/lanes/order.h.
"""

from __future__ import annotations

FAN = 16
"""Members of a group, groups of a block, blocks of a chunk."""
BLOCK = FAN * FAN
"""Elements of a block; members of a segment that are combined serially."""
LANES = FAN
"""Serial chains of a row reduction."""
