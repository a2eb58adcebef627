"""A small model that learns to copy in a second or two, so that the cause of every word it writes is known."""

from functools import cache
from itertools import pairwise

import torch
import torch.nn.functional as F

from pellucid.data.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig
from pellucid.model import ModelConfig, Transformer

WORDS = ["kima", "lopu", "tesa", "runo", "vadi", "behu", "goxi", "cyze", "mewo", "fajy"]
"""Words of no language; the tokenizer has one piece for each."""

LENGTHS = range(2, 7)


@cache
def word_tokenizer() -> Tokenizer:
    """A tokenizer with one piece for each word of `WORDS`."""
    lines = [f"{a} {b}" for a, b in pairwise([*WORDS, *WORDS[::-1]])]
    config = TokenizerConfig(kind="bpe", vocabulary=340, joint=True)
    tokenizer = Tokenizer.train(lines, lines, config, seed=1, max_sentences=100)
    assert all(len(ids) == 2 for ids in tokenizer.encode_source(WORDS))
    return tokenizer


@cache
def copying_model() -> Transformer:
    """A model in evaluation mode that copies sentences of two to six different words."""
    tokenizer = word_tokenizer()
    words = torch.tensor([ids[0] for ids in tokenizer.encode_source(WORDS)])
    with torch.random.fork_rng():
        torch.manual_seed(1)
        vocabulary = tokenizer.source_vocabulary
        model = Transformer(ModelConfig(vocabulary, vocabulary, 32, 64, 2, 1, 1, dropout=0.0))
        optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
        steps = 400
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = 5e-3 * min((step + 1) / 50, 1 - step / steps)
            ids = torch.zeros(24, 7, dtype=torch.int64)
            length = LENGTHS[step % len(LENGTHS)]
            ids[:, :length] = words[torch.rand(24, len(words)).argsort(dim=1)[:, :length]]
            ids[:, length] = EOS
            ids = ids[:, : length + 1]
            decoder_inputs = torch.cat([torch.full((24, 1), BOS), ids[:, :-1]], dim=1)
            states = model.decode(decoder_inputs, model.encode(ids))
            loss = F.cross_entropy(model.logits(states).flatten(0, 1), ids.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()
