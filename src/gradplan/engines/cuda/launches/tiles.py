"""What kernels are compiled for and launches count with: how many elements a program takes."""

from __future__ import annotations

FLAT = 1024
"""Elements of a program where tensors are one axis."""
TILE = (8, 128)
"""Lines and elements of a line, where they have strides."""
