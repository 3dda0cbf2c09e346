"""A jitted training step with gradplan inside: `python examples/jax_training_step.py`.

Bags of tokens are looked up, summed per bag and classified with sparsemax; all gradients come from
gradplan's kernels.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import gradplan.jax as gpj

VOCABULARY, FEATURES, BAGS, TOKENS, CLASSES = 1000, 32, 64, 640, 8


def loss(params, tokens, bags, labels):
    rows = gpj.embedding(params["table"], tokens, padding_idx=0)
    sums = gpj.segment_sum(rows, bags, BAGS, indices_are_sorted=True)
    guess = gpj.sparsemax(sums @ params["head"])
    return ((guess - jax.nn.one_hot(labels, CLASSES)) ** 2).sum(-1).mean()


@jax.jit
def step(params, *batch):
    value, grads = jax.value_and_grad(loss)(params, *batch)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), value


def main():
    rng = np.random.default_rng(0)
    params = {
        "table": jnp.asarray(rng.normal(size=(VOCABULARY, FEATURES)) * 0.1, jnp.float32),
        "head": jnp.asarray(rng.normal(size=(FEATURES, CLASSES)) * 0.1, jnp.float32),
    }
    tokens = jnp.asarray(rng.integers(0, VOCABULARY, TOKENS))
    bags = jnp.sort(jnp.asarray(rng.integers(0, BAGS, TOKENS)))
    labels = jnp.asarray(rng.integers(0, CLASSES, BAGS))
    for i in range(101):
        params, value = step(params, tokens, bags, labels)
        if i % 25 == 0:
            print(f"step {i:3d}  loss {value:.4f}")


if __name__ == "__main__":
    main()
