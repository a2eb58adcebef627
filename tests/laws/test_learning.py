"""The whole of it: a tiny model learns."""

import torch

from pellucid.model import ModelConfig, Transformer
from pellucid.model.cache import Cache
from pellucid.train.loss import loss_sum

START, END, VOCABULARY = 2, 3, 13


def pieces(sentences: int, generator: torch.Generator) -> torch.Tensor:
    """Sentences of six pieces and the end mark."""
    ids = torch.randint(4, VOCABULARY, (sentences, 7), generator=generator)
    ids[:, 6] = END
    return ids


def test_a_tiny_model_learns_to_copy():
    """Sentences it has never seen, piece by piece from the cache, each choosing the likeliest."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, 32, 64, 2, 1, 1, dropout=0.0))
    steps = 300
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min((step + 1) / 50, 1 - step / steps)
        ids = pieces(64, generator)
        states = model.decode(started(ids)[:, :-1], model.encode(ids))
        loss = loss_sum(states.flatten(0, 1), model.output_embedding.weight, ids.flatten(), 0.1) / ids.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    unseen = pieces(101, torch.Generator().manual_seed(3))
    with torch.no_grad():
        model.eval()
        memory, cache, written = model.encode(unseen), Cache(), started(unseen)[:, :1]
        for _ in range(7):
            states = model.decode(written[:, -1:], memory, cache)
            written = torch.cat([written, model.logits(states).argmax(-1)], dim=1)
    assert (written[:, 1:] == unseen).all(1).float().mean() > 0.95


def started(ids: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.full((len(ids), 1), START), ids], dim=1)
