"""Checked by mypy in test_typing.py, not run: calls of the bridges, right ones and wrong ones.

`error: code` marks the lines on which mypy has to complain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax
    import numpy as np
    import torch
    from typing_extensions import assert_type

    import gradplan as gp
    import gradplan.torch as gpt
    from gradplan import jax as gpj
    from gradplan.torch.functions import ValuesAndIndices

    Tensor = torch.Tensor

    def right_calls_of_torch(x: Tensor, ids: Tensor, flag: bool) -> None:
        assert_type(gpt.cumsum(x, 1), Tensor)
        assert_type(gpt.cumsum(x, dim=-1, reverse=True, dtype=torch.float64), Tensor)
        assert_type(gpt.lerp(x, x, 0.5), Tensor)
        assert_type(gpt.sparsemax(x), Tensor)
        assert_type(gpt.embedding(ids, x, padding_idx=0, bounds="skip"), Tensor)
        assert_type(gpt.segment_sum(x, ids, 3, bounds=gp.Bounds.RAISE), Tensor)
        assert_type(gpt.cummax(x, 1), ValuesAndIndices)
        assert_type(gpt.cummin(x, 1, return_indices=True), ValuesAndIndices)
        assert_type(gpt.cummax(x, 1, return_indices=False), Tensor)
        assert_type(gpt.cummax(x, 1, return_indices=flag), ValuesAndIndices | Tensor)
        values, indices = gpt.cummax(x, np.int64(0))
        assert_type((values, indices), tuple[Tensor, Tensor])
        assert_type(gpt.cummax(x, 1).indices, Tensor)
        layer: torch.nn.Module = gpt.nn.Sparsemax(dim=1)
        assert_type(layer.training, bool)
        gpt.release_memory()

    def wrong_calls_of_torch(x: Tensor, ids: Tensor, array: jax.Array) -> None:
        gpt.cumsum(x)  # error: call-arg
        gpt.lerp(x, x)  # error: call-arg
        gpt.cumsum(x, axis=1)  # error: call-arg
        gpt.sparsemax(x, dimension=1)  # error: call-arg
        gpt.cumsum(x, 1, False, True)  # error: call-arg
        gpt.cumsum([1.0, 2.0], 0)  # error: arg-type
        gpt.cumsum(array, 0)  # error: arg-type
        gpt.cumsum(x, "0")  # error: arg-type
        gpt.cumsum(x, 1.5)  # error: arg-type
        gpt.lerp(x, x, "half")  # error: arg-type
        gpt.segment_sum(x, ids, 3, bounds="explode")  # error: arg-type
        gpt.embedding(ids, None)  # error: arg-type
        print(gpt.cummax(x, 1).position)  # error: attr-defined
        gpt.cummax(x, 1) @ x  # error: operator
        total: float = gpt.cumsum(x, 1)  # error: assignment
        gpt.cumsun(x, 1)  # error: attr-defined
        gpt.cumsum_backward(x, 1)  # error: attr-defined
        gpt.nn.Sparsemaxx()  # error: attr-defined
        gpt.nn.Sparsemax(axis=1)  # error: call-arg
        print(total)

    def right_calls_of_jax(x: jax.Array, ids: jax.Array) -> None:
        assert_type(gpj.cumsum(x), jax.Array)
        assert_type(gpj.cumsum(np.ones(3), axis=0, reverse=True), jax.Array)
        assert_type(gpj.cummax(x), jax.Array)
        assert_type(gpj.cummax_indices(x), jax.Array)
        assert_type(gpj.embedding(x, ids, bounds="raise"), jax.Array)
        assert_type(gpj.segment_sum(x, ids, num_segments=3), jax.Array)

    def wrong_calls_of_jax(x: jax.Array, ids: jax.Array) -> None:
        gpj.cumsum()  # error: call-arg
        gpj.embedding(x)  # error: call-arg
        gpj.cumsum(x, dim=0)  # error: call-arg
        gpj.cumsum("x")  # error: arg-type
        gpj.cumsum([x, x])  # error: arg-type
        gpj.cumsum(x, axis="rows")  # error: arg-type
        gpj.embedding(x, ids, bounds="explode")  # error: arg-type
        values, indices = gpj.lerp(x, x, 0.5), gpj.lerp(x, x, None)  # error: arg-type
        number: int = gpj.cumsum(x)  # error: assignment
        gpj.cumsun(x)  # error: attr-defined
        print(values, indices, number)

    def misspelt(x: Tensor) -> None:
        gp.cumsun(x)  # error: attr-defined
        print(gp.ScanPlam)  # error: attr-defined
