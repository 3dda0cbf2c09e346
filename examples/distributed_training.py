"""A recommender whose training has the same bits on 1, 2 and 4 processes: `make distributed`.

Bags of items are looked up in a table that is cut over the processes, added up per bag, and rated
by dense layers under DistributedDataParallel. The same with PyTorch's own embedding, under DDP and
as a DTensor, stands beside it.

What DDP adds up for the dense layers would depend on the number of processes as well, and with it
every gradient that comes back to the table from the second step on. So dense layers take 32 bags at
a time, and a hook of DDP adds the gradients of these pieces in the order of the batch, for all
three tables: what differs then is the table's doing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel as DDP

import gradplan as gp
from gradplan import torch as gpt
from gradplan.torch import distributed as gpd

WORLDS = (1, 2, 4)
STEPS, BATCH, PIECE = 10, 512, 32
ITEMS, COLUMNS, BAG = 3000, 16, 24  # item 0 fills up bags that have fewer


def batch_of(step):
    """Bags and ratings of one step, of all processes together; some items are popular."""
    g = torch.Generator().manual_seed(step)
    items = (ITEMS ** torch.rand(BATCH, BAG, generator=g)).long() % ITEMS
    length = torch.randint(1, BAG + 1, (BATCH, 1), generator=g)
    items[torch.arange(BAG).expand(BATCH, BAG) >= length] = 0
    return items, (items % 7 == 3).any(1).float()


class GradplanTable(gpd.ShardedEmbedding):
    def gradient(self):
        return self.weight.grad.full_tensor()


class DDPTable(torch.nn.Module):
    """Each process has all of the table; DDP averages its gradient."""

    def __init__(self, *sizes, padding_idx):
        super().__init__()
        self.own = DDP(torch.nn.Embedding(*sizes, padding_idx=padding_idx))
        self.weight = self.own.module.weight

    def forward(self, items):
        return self.own(items)

    def gradient(self):
        self.weight.grad *= dist.get_world_size()  # exact: their number is a power of two
        return self.weight.grad


class DTensorTable(torch.nn.Module):
    """Each process has all of the table; the batch is cut, and DTensor adds up the gradient."""

    def __init__(self, *sizes, padding_idx):
        super().__init__()
        self.mesh, self.padding_idx = init_device_mesh("cpu", (dist.get_world_size(),)), padding_idx
        weight = distribute_tensor(torch.zeros(sizes), self.mesh, [Replicate()])
        self.weight = torch.nn.Parameter(weight)

    def forward(self, items):
        items = DTensor.from_local(items, self.mesh, [Shard(0)])
        return torch.nn.functional.embedding(items, self.weight, self.padding_idx).to_local()

    def gradient(self):
        self.weight.grad = self.weight.grad.redistribute(placements=[Replicate()])
        return self.weight.grad.to_local()


class PiecesInOrder:
    """For DDP: the gradients of all pieces of the batch, added one after the other."""

    def __init__(self):
        self.before = []  # this process's pieces before its last one

    def hook(self, _, bucket):
        pieces = [torch.cat([p[x].flatten() for x in bucket.parameters()]) for p in self.before]
        mine = torch.stack([*pieces, bucket.buffer()])
        every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(every, mine)
        every = torch.cat(every)
        future = torch.futures.Future()
        future.set_result(gpt.segment_sum(every, torch.zeros(len(every), dtype=int), 1)[0])
        return future


def train(kind, world, rank):
    """Digests of the table's first gradient and of all weights at last, and the losses."""
    torch.manual_seed(0)
    start = torch.randn(ITEMS, COLUMNS) * 0.1
    layers = [torch.nn.Linear(COLUMNS, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)]
    dense, pieces = DDP(torch.nn.Sequential(*layers)), PiecesInOrder()
    dense.register_comm_hook(None, pieces.hook)
    table = kind(ITEMS, COLUMNS, padding_idx=0)
    own = table.weight  # a DTensor of any kind, or a tensor
    with torch.no_grad():
        cut = isinstance(own, DTensor)
        own.copy_(distribute_tensor(start, own.device_mesh, own.placements) if cut else start)
    optimizers = [torch.optim.Adam(p, lr=0.02) for p in ([own], dense.parameters())]
    mine = slice(BATCH * rank // world, BATCH * (rank + 1) // world)
    losses = torch.zeros(STEPS)
    for step in range(STEPS):
        items, ratings = (x[mine] for x in batch_of(step))
        rows = table(items).flatten(0, 1)
        bag = torch.arange(len(items)).repeat_interleave(BAG)
        sums = gpt.segment_sum(rows, bag, len(items), sorted=True)
        inputs, pieces.before = sums.detach().requires_grad_(), []
        for first in range(0, len(items), PIECE):
            piece = slice(first, first + PIECE)
            is_last = piece.stop == len(items)
            with contextlib.nullcontext() if is_last else dense.no_sync():
                guess = dense(inputs[piece]).squeeze(1)
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    guess, ratings[piece], reduction="sum"
                )
                (loss / BATCH).backward()
            losses[step] += loss.detach() / BATCH
            if not is_last:
                pieces.before.append({p: p.grad for p in dense.parameters()})
                dense.zero_grad()
        sums.backward(inputs.grad)
        gradient = table.gradient()
        if step == 0:
            first_gradient = digest(gradient)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    weights = own.full_tensor() if isinstance(own, DTensor) else own
    dist.all_reduce(losses)  # to look at: the sum has an order
    return first_gradient, digest(weights, *dense.parameters()), losses.tolist()


def digest(*tensors):
    made = hashlib.sha256()
    for x in tensors:
        made.update(x.detach().contiguous().numpy().tobytes())
    return made.hexdigest()[:12]


KINDS = {"gradplan": GradplanTable, "PyTorch DDP": DDPTable, "PyTorch DTensor": DTensorTable}


def work(rank, world, file, answers):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all on this machine
    torch.set_num_threads(1)
    gp.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(file, world), rank=rank, world_size=world)
    made = {name: train(kind, world, rank) for name, kind in KINDS.items()}
    if rank == 0:
        answers.put(made)
    dist.barrier()
    dist.destroy_process_group()


def main():
    found = {}
    for world in WORLDS:
        print(f"training on {world} process{'es' * (world > 1)} ...", flush=True)
        answers = mp.get_context("fork").SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            given = (world, os.path.join(folder, "store"), answers)
            mp.start_processes(work, given, nprocs=world, start_method="fork")
        found[world] = answers.get()
    for at, what in enumerate(("the table's gradient in step 1", f"weights after {STEPS} steps")):
        print(f"\n{what:32}" + "".join(f"{name:17}" for name in KINDS))
        for world, made in found.items():
            row = "".join(f"{made[name][at]:17}" for name in KINDS)
            print(f"{world:>2} process{'es' * (world > 1):22}{row}")
    losses = found[1]["gradplan"][2]
    print(f"\nloss {losses[0]:.3f} -> {losses[-1]:.3f}")
    if len({made["gradplan"][:2] for made in found.values()}) > 1:
        raise SystemExit("gradplan: the bits depend on the number of processes")


if __name__ == "__main__":
    main()
