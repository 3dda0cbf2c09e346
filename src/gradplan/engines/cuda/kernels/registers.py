"""Kernels that are told how many registers they may use.

Without a limit ptxas aims at a number of threads on a multiprocessor, and for these it would rather
keep a few bytes in memory than miss it, on one generation of GPUs or another. With a limit it aims
at nothing and they stay in registers: 2 to 40 more of them than it would use. tools/gpu_table.py
says which kernels belong here: those that spill.
"""

from __future__ import annotations

LIMIT = 128
LIMITED = frozenset(
    {
        "gradient_lines/cumprod/f32/apply/unit",
        "gradient_lines/cumprod/f32/whole/unit",
        "gradient_lines/extreme/f16/apply/any",
        "gradient_lines/extreme/f64/local/unit",
        "gradient_lines/log_backward/f64/whole/unit",
        "index_lines/bf16/i64/whole/unit",
        "index_lines/f16/i64/whole/unit",
        "linear_gradient_lines/bf16/whole/unit",
        "linear_gradient_lines/f16/apply/unit",
        "linear_gradient_lines/f32/whole/any",
        "linear_gradient_lines/f32/whole/unit",
        "scan_lines/cumprod/f16/apply/any",
        "scan_lines/cumprod/f16/whole/any",
        "scan_lines/cumsum/f16/apply/any",
        "scan_rows/cummax/f16/whole/unit/8",
        "scan_rows/cummax/f32/whole/any",
        "scan_rows/cummax/f64/apply/unit",
        "scan_rows/cummax/f64/apply/unit/2",
        "scan_rows/cummax/f64/apply/unit/8",
        "scan_rows/cummax/f64/whole/unit",
        "scan_rows/cummax/f64/whole/unit/2",
        "scan_rows/cummax/f64/whole/unit/8",
        "scan_rows/cumprod/bf16/whole/unit",
        "scan_rows/cumprod/bf16/whole/unit/2",
        "scan_rows/cumprod/f16/whole/unit/8",
        "scan_rows/cumprod/f32/whole/any",
        "scan_rows/cumprod/f32/whole/unit/8",
        "scan_rows/cumprod/f64/whole/unit/8",
        "scan_rows/cumsum/f64/whole/unit/8",
        "segment_blocks/places/f64/any",
        "segment_blocks/weights/f64/any",
        "segment_results/matches/f16/any",
        "segment_results/max/bf16/vector",
        "segment_results/max/f16/vector",
        "segment_results/max/f32/vector",
        "segment_results/min/bf16/vector",
        "segment_results/min/f16/vector",
        "segment_results/min/f32/vector",
        "segment_results/places/f64/any",
        "sparsemax/bf16/long",
        "sparsemax/f64/long",
    }
)
