"""Tables, segments and scans over the ranks of torch.distributed, with the bits of one process.

docs/distributed.md says what is sent, and how much. Importing this package imports
torch.distributed.tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradplan.public import public
from gradplan.torch.distributed.embedding import ShardedEmbedding, embedding
from gradplan.torch.distributed.norm import clip_grad_norm_, grad_norm
from gradplan.torch.distributed.ranks import RankLost, Traffic, count_traffic
from gradplan.torch.distributed.scan import cummax, cummin, cumprod, cumsum, logcumsumexp
from gradplan.torch.distributed.segment import segment_sum

__all__ = [
    "RankLost",
    "ShardedEmbedding",
    "Traffic",
    "clip_grad_norm_",
    "count_traffic",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "embedding",
    "grad_norm",
    "logcumsumexp",
    "segment_sum",
]

if not TYPE_CHECKING:  # which would take every name for one of the module's
    __getattr__, __dir__ = public(__name__, __all__)
