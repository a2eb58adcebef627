"""What holds for the model whatever its options: time, padding, caches, callers, training."""

import pytest
import torch
from torch import nn

from pellucid.interpret.trace import Record
from pellucid.model import Transformer
from pellucid.model.cache import Cache
from pellucid.model.dropout import Dropout
from tests.model.models import every_option, sentences, small_config, small_model

pytestmark = pytest.mark.usefixtures("both_attentions")

SAME = {"rtol": 0, "atol": 1e-11}


@pytest.mark.article("A33", "X13")
@every_option
def test_future_tokens_never_change_the_past(options):
    model = small_model(**options)
    memory = model.encode(sentences([11, 5]))
    target, other = sentences([7, 7], seed=2), sentences([7, 7], seed=3)
    for now in range(7):
        changed = torch.cat([target[:, : now + 1], other[:, now + 1 :]], dim=1)
        before, after = model.decode(target, memory), model.decode(changed, memory)
        assert torch.equal(before[:, : now + 1], after[:, : now + 1])
        if now < 5:
            assert not torch.allclose(before[:, now + 1 :], after[:, now + 1 :])


@pytest.mark.article("E11")
@every_option
def test_padding_changes_nothing(options):
    model = small_model(**options)
    lengths = [(11, 3), (2, 7), (5, 5)]
    source, target = sentences([s for s, _ in lengths]), sentences([t for _, t in lengths], seed=2)
    together = model(source, target)
    for row, (s, t) in enumerate(lengths):
        alone = model(source[row : row + 1, :s], target[row : row + 1, :t])
        torch.testing.assert_close(together[row : row + 1, :t], alone, **SAME)


@pytest.mark.article("B29")
@every_option
def test_cached_decoding_equals_full_decoding(options):
    """A beam of 2 over 3 sentences, its rows shuffled within each sentence at each step, one sentence leaving."""
    torch.manual_seed(1)
    model = small_model(**options)
    with torch.no_grad():
        memory, cache = model.encode(sentences([11, 2, 5])), Cache()
        ids, staying = torch.full((6, 1), 2), torch.tensor([0, 2])
        for step in range(7):
            states = model.decode(ids[:, cache.length :], memory, cache)
            whole = model.decode(ids, memory.select(torch.arange(len(ids)) // 2))
            torch.testing.assert_close(states[:, -1], whole[:, -1], **SAME)
            assert cache.length == ids.shape[1]
            rows = torch.arange(0, len(ids), 2).repeat_interleave(2) + torch.randint(2, (len(ids),))
            if step == 3:
                rows = rows[[0, 1, 4, 5]]
                cache.select(rows, staying)
                memory = memory.select(staying)
            else:
                cache.select(rows)
            new = 2 if step == 4 else 1  # several positions at once are allowed too
            ids = torch.cat([ids[rows], torch.randint(4, 29, (len(rows), new))], dim=1)


@every_option
def test_two_callers_share_one_model(options):
    model = small_model(**options)
    with torch.no_grad():
        memories = [model.encode(sentences([11], seed=5)), model.encode(sentences([2, 7], seed=6))]
        targets = [sentences([7], seed=7), sentences([7, 7], seed=8)]
        alone = [model.decode(target, memory) for target, memory in zip(targets, memories, strict=True)]
        caches = [Cache(), Cache()]
        for at in range(7):
            for target, memory, cache, whole in zip(targets, memories, caches, alone, strict=True):
                states = model.decode(target[:, at : at + 1], memory, cache)
                torch.testing.assert_close(states[:, 0], whole[:, at], **SAME)


@every_option
def test_every_model_trains(options):
    torch.manual_seed(1)
    model = Transformer(small_config(**options, attention_dropout=0.1, activation_dropout=0.1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    source, target = sentences([7, 5]), sentences([5, 7], seed=2)

    def loss():
        logits = model(source, torch.cat([torch.full((2, 1), 2), target[:, :-1]], dim=1))
        return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0)

    with torch.no_grad():
        before = loss().item()
    for _ in range(4):
        optimizer.zero_grad()
        loss().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
    with torch.no_grad():
        assert loss().item() < before - 0.1


@pytest.mark.article("A39")
def test_dropout_stands_where_the_paper_puts_it(monkeypatch):
    """5.4: on the sum of embedding and position in both stacks, and on each sublayer's output before it is added."""
    assert dropped(monkeypatch, dropout=0.1) == [
        "dropout: encoder.input",
        "encoder.0.self_residual.dropout: encoder.0.self.output",
        "encoder.0.ffn_residual.dropout: encoder.0.ffn.output",
        "dropout: decoder.input",
        "decoder.0.self_residual.dropout: decoder.0.self.output",
        "decoder.0.cross_residual.dropout: decoder.0.cross.output",
        "decoder.0.ffn_residual.dropout: decoder.0.ffn.output",
    ]


def test_attention_and_activation_dropout_stand_inside_the_sublayers(monkeypatch):
    assert dropped(monkeypatch, dropout=0.0, attention_dropout=0.1, activation_dropout=0.1) == [
        "encoder.0.self.dropout: encoder.0.self.pattern",
        "encoder.0.ffn.dropout: encoder.0.ffn.active",
        "decoder.0.self.dropout: decoder.0.self.pattern",
        "decoder.0.cross.dropout: decoder.0.cross.pattern",
        "decoder.0.ffn.dropout: decoder.0.ffn.active",
    ]


def dropped(monkeypatch, **shares) -> list[str]:
    """Each module that drops, with the visible tensor it drops from (all are kept whole here, to tell them apart)."""
    model = small_model(**shares, decoder_layers=1).train()
    names = {module: name for name, module in model.named_modules()}
    inputs = []

    def keep_whole(self, x):
        if self.active:
            inputs.append((names[self], x.detach().clone()))
        return x

    monkeypatch.setattr(Dropout, "forward", keep_whole)
    record = Record()
    model(sentences([11, 5]), sentences([7, 3]), watch=record)
    return [f"{name}: {next(n for n in record if torch.equal(record[n], x))}" for name, x in inputs]


def test_nothing_random_happens_in_evaluation():
    model, source, target = small_model(dropout=0.5, attention_dropout=0.5), sentences([5]), sentences([3])
    assert torch.equal(model(source, target), model(source, target))
    assert not torch.equal(model.train()(source, target), model(source, target))


@pytest.mark.article("C26")
@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_a_source_without_a_piece_gives_numbers(norm):
    """Fully masked rows: no query finds a key, and still nothing is NaN, forward or backward."""
    model = small_model(norm=norm)
    logits = model(torch.zeros(2, 5, dtype=torch.int64), sentences([3, 2]))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    with torch.no_grad():
        torch.testing.assert_close(model(torch.zeros(2, 5, dtype=torch.int64), sentences([3, 2])), logits, **SAME)
