"""A training step whose loss has the same bits for every number of threads."""

import torch

import gradplan as gp
from gradplan import torch as gpt

for threads in (1, 2):
    gp.set_num_threads(threads)
    torch.manual_seed(0)
    table = gpt.nn.Embedding(1000, 64)
    words = torch.randint(0, 1000, (256, 128))
    for _ in range(3):
        attention = gpt.sparsemax(gpt.cumsum(table(words), dim=1))
        loss = gpt.cumsum(attention.square().flatten(), dim=0)[-1]
        (gradient,) = torch.autograd.grad(loss, table.parameters())
        table.weight.data -= 0.1 * gradient
    print(f"{threads} threads: loss {loss.item().hex()}")
