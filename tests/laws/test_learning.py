"""A tiny model learns, with the real model, loss and cache."""

import torch

from pellucid.model import ModelConfig, Transformer
from pellucid.model.cache import Cache
from pellucid.training.loss import loss_sum

BOS_ID, EOS_ID, VOCABULARY = 2, 3, 13


def random_sentences(sentences: int, generator: torch.Generator) -> torch.Tensor:
    """Return sentences of six tokens and EOS."""
    ids = torch.randint(4, VOCABULARY, (sentences, 7), generator=generator)
    ids[:, 6] = EOS_ID
    return ids


def test_a_tiny_model_learns_to_copy():
    """Sentences it has never seen are copied token by token from the cache, by greedy search."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, 32, 64, 2, 1, 1, dropout=0.0))
    steps = 300
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min((step + 1) / 50, 1 - step / steps)
        ids = random_sentences(64, generator)
        states = model.decode(with_bos(ids)[:, :-1], model.encode(ids))
        loss = loss_sum(states.flatten(0, 1), model.output_embedding.weight, ids.flatten(), 0.1) / ids.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    unseen = random_sentences(101, torch.Generator().manual_seed(3))
    with torch.no_grad():
        model.eval()
        memory, cache, tokens = model.encode(unseen), Cache(), with_bos(unseen)[:, :1]
        for _ in range(7):
            states = model.decode(tokens[:, -1:], memory, cache)
            tokens = torch.cat([tokens, model.logits(states).argmax(-1)], dim=1)
    assert (tokens[:, 1:] == unseen).all(1).float().mean() > 0.95


def with_bos(ids: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.full((len(ids), 1), BOS_ID), ids], dim=1)
