"""Sums of members' rows on the rank that owns them, with the bits of one process."""

from __future__ import annotations

from typing import NamedTuple

import torch

import gradplan as gp
from gradplan.torch.distributed.agreement import agree
from gradplan.torch.distributed.members import BLOCK, Finished, Members, occurrence
from gradplan.vocabulary import ElementKind


def _compute(dtype: torch.dtype) -> torch.dtype:
    kind = ElementKind.from_dtype_name(str(dtype).removeprefix("torch."))
    assert kind is not None
    made: torch.dtype = getattr(torch, kind.compute.dtype_name)
    return made


class _Sent(NamedTuple):
    """What a rank sends: rows of single members, and sums of whole blocks in the compute type."""

    ids: torch.Tensor
    rows: torch.Tensor
    block_ids: torch.Tensor
    blocks: torch.Tensor


def _cut(members: Members, rows: torch.Tensor) -> _Sent:
    """Members in their order, but those of whole blocks, whose sums are made here."""
    compute = _compute(rows.dtype)
    single = members.member
    whole = members.finished.whole
    if not bool(whole.any()):
        ids = members.ids if single is None else members.ids[single]
        own = rows if single is None else rows[single]
        return _Sent(ids, own, ids[:0], own[:0].to(compute))
    if single is None:
        single = torch.ones_like(members.ids, dtype=torch.bool)
    at = torch.nonzero((whole > 0)[members.inverse] & single).reshape(-1)
    row = members.inverse[at]
    place = occurrence(row) - members.finished.lead[row]
    inside = (place >= 0) & (place < BLOCK * whole[row])
    at, row, place = at[inside], row[inside], place[inside]
    first = torch.cumsum(whole, 0) - whole
    number = first[row] + place // BLOCK
    total = int(whole.sum())
    blocks = gp.unsorted_segment_sum(rows[at].to(compute), number, total)
    single = single.clone()
    single[at] = False
    return _Sent(
        members.ids[single],
        rows[single],
        torch.repeat_interleave(members.distinct, whole),
        blocks,
    )


def _serial_sums(blocks: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """The sums of `count[i]` consecutive blocks each, one after the other, however many.

    A kernel adds up to 256 in that order: so each round takes 255 more, and what there is so far.
    """
    first = torch.cumsum(count, 0) - count
    result = blocks[first]
    done = torch.ones_like(count)
    while bool((done < count).any()):
        more = torch.clamp(count - done, max=BLOCK - 1)
        segment = torch.repeat_interleave(torch.arange(len(count), device=count.device), more)
        taken = (first + done)[segment] + occurrence(segment)
        ids = torch.cat([torch.arange(len(count), device=count.device), segment])
        result = gp.unsorted_segment_sum(torch.cat([result, blocks[taken]]), ids, len(count))
        done = done + more
    return result


class _Ranks(NamedTuple):
    """The rank that each received row, or block, is from."""

    rows: torch.Tensor
    blocks: torch.Tensor


def _hot_sums(members: Members, hot: torch.Tensor, got: _Sent, rank: _Ranks) -> torch.Tensor:
    """The sums of the rows `hot`, of which blocks have come; `got.ids` are positions in `hot`."""
    # What every rank has of each hot row: [rank, hot].
    shape = (members.ranks.size, len(hot))
    asking = torch.repeat_interleave(
        torch.arange(members.ranks.size, device=hot.device),
        torch.tensor(members.asked, device=hot.device),
    )
    place = torch.searchsorted(hot, members.asked_rows).clamp(max=len(hot) - 1)
    is_hot = hot[place] == members.asked_rows
    at = asking[is_hot], place[is_hot]
    made = Finished.of(members.asked_before[is_hot], members.asked_count[is_hot])
    before, lead, whole = (
        torch.zeros(shape, dtype=torch.int64, device=hot.device).index_put(at, values)
        for values in (members.asked_before[is_hot], *made)
    )
    # The number of a single member: whole blocks of its rank stand between lead and rest.
    key = rank.rows * len(hot) + got.ids
    nth = occurrence(key)
    at = rank.rows, got.ids
    nth = before[at] + nth + torch.where(nth < lead[at], 0, BLOCK * whole[at])
    key = rank.blocks * len(hot) + got.block_ids
    at = rank.blocks, got.block_ids
    block = (before[at] + lead[at]) // BLOCK + occurrence(key)
    # One sum for each block: of single members, in their order, or as it came.
    most = 1 << 40
    order = torch.argsort(got.ids * most + nth, stable=True)
    keys, segment = torch.unique_consecutive(
        (got.ids * most + nth // BLOCK)[order], return_inverse=True
    )
    loose = gp.unsorted_segment_sum(got.rows[order].to(got.blocks.dtype), segment, len(keys))
    keys = torch.cat([keys, got.block_ids * most + block])
    sums = torch.cat([loose, got.blocks])
    keys, order = torch.sort(keys)
    _, count = torch.unique_consecutive(keys // most, return_counts=True)
    return _serial_sums(sums[order], count)


def sum_at_owners(
    members: Members, rows: torch.Tensor, error: BaseException | None = None
) -> torch.Tensor:
    """The sum of the members' rows for each of this rank's rows: `[local rows, columns]`.

    `rows` has one for each of the members' ids.
    """
    ranks, each = members.ranks, max(members.shards.each, 1)
    if error is not None:
        rows = rows.new_empty((len(members.ids), *members.shape), dtype=members.element)
    sent = _cut(members, rows)
    sizes, parts = [], []
    for ids, values in ((sent.ids, sent.rows), (sent.block_ids, sent.blocks)):
        owner = ids // each
        order = torch.argsort(owner, stable=True)
        size = torch.bincount(owner, minlength=ranks.size).tolist()
        sizes.append(size)
        parts += [ids[order].split(size), values[order].split(size)]
    shape = (members.shards.rows, *members.shape)
    told = agree(ranks, rows.dtype, shape, counts=sizes, error=error, device=rows.device)
    received = ranks.exchange(parts, [told[0], told[0], told[1], told[1]])
    got = _Sent(*(torch.cat(part) for part in received))
    own = got.ids - members.first_row
    if len(got.block_ids) == 0:
        return _cold_sums(members, got.rows, own)
    hot, block_ids = torch.unique(got.block_ids - members.first_row, return_inverse=True)
    place = torch.searchsorted(hot, own).clamp(max=len(hot) - 1)
    is_hot = hot[place] == own
    result = _cold_sums(members, got.rows[~is_hot], own[~is_hot])
    from_rank = [
        torch.repeat_interleave(
            torch.arange(ranks.size, device=own.device), torch.tensor(n, device=own.device)
        )
        for n in told
    ]
    result[hot] = _hot_sums(
        members,
        hot,
        _Sent(place[is_hot], got.rows[is_hot], block_ids, got.blocks),
        _Ranks(from_rank[0][is_hot], from_rank[1]),
    ).to(result.dtype)
    return result


def _cold_sums(members: Members, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return gp.embedding_backward(rows, ids, members.local_rows)
