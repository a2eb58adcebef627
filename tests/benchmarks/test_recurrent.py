"""Recurrent network of the race against the Transformer: what it computes, how it learns, and its equal time."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from benchmarks.recurrent import (
    LONGEST,
    BothWays,
    Recurrent,
    Runner,
    Sizes,
    dev_loss,
    greedy,
    make_line,
    make_lines,
    race,
    reverse_rows,
)
from pellucid.data.batching import EncodedPairs, pack_sentences
from pellucid.data.stream import Stream
from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.model import ModelConfig, Transformer
from pellucid.training.config import OptimConfig
from pellucid.training.loss import smoothed_cross_entropy
from tests.tolerances import assert_same_sums

KINDS = [True, False]


def make_model(attention: bool, dropout: float = 0.0, layers: int = 2) -> Recurrent:
    torch.manual_seed(1)
    sizes = Sizes(23, 7, 5, 11, encoder_layers=layers, dropout=dropout, attention=attention)
    return Recurrent(sizes).double().eval()


def make_sentences(lengths: list[int], padding: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    tokens = torch.full((len(lengths), max(lengths) + 1 + padding), PAD)
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = torch.randint(4, 23, (length,), generator=generator)
        row[length] = EOS
    return tokens


@pytest.mark.parametrize("attention", KINDS)
def test_padding_changes_no_output_of_the_recurrent_network(attention: bool):
    model = make_model(attention)
    source, target = make_sentences([3, 7, 1, 5]), make_sentences([2, 6, 4, 1])
    together = model.decode(target, model.encode(source))
    padded = model.decode(F.pad(target, (0, 3)), model.encode(F.pad(source, (0, 4))))
    assert_same_sums(padded[:, : target.shape[1]], together)
    for row, (source_tokens, target_tokens) in enumerate(zip(source, target, strict=True)):
        source_tokens, target_tokens = source_tokens[source_tokens != PAD], target_tokens[target_tokens != PAD]
        single = model.decode(target_tokens[None], model.encode(source_tokens[None]))
        assert_same_sums(together[row, : len(target_tokens)], single[0])


@pytest.mark.parametrize("attention", KINDS)
def test_later_target_pieces_do_not_change_earlier_states_and_the_whole_source_is_read(attention: bool):
    model = make_model(attention)
    source, target = make_sentences([6]), make_sentences([5])
    before = model.decode(target, model.encode(source))
    changed_target = target.clone()
    changed_target[0, 3] = 4 if target[0, 3] != 4 else 5
    after = model.decode(changed_target, model.encode(source))
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3:], after[:, 3:])
    for position in range(source.shape[1]):
        changed_source = source.clone()
        changed_source[0, position] = 4 if source[0, position] != 4 else 5
        assert (model.decode(target, model.encode(changed_source))[0, 0] - before[0, 0]).abs().max() > 1e-9


@pytest.mark.parametrize("attention", KINDS)
def test_decoding_step_by_step_is_decoding_all_at_once(attention: bool):
    model = make_model(attention)
    source, target = make_sentences([3, 7, 1]), make_sentences([6, 6, 6])
    memory = model.encode(source)
    at_once, search_state = model.decode(target, memory), memory
    for position in range(target.shape[1]):
        state = model.go_on(target[:, position : position + 1], search_state)
        assert_same_sums(state[:, 0], at_once[:, position])


def test_both_directions_are_torchs_own_on_packed_lines():
    torch.manual_seed(3)
    ours, theirs = BothWays(5, 7), torch.nn.GRU(5, 7, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for name, weight in ours.forwards.named_parameters():
            theirs.get_parameter(name).copy_(weight)
            theirs.get_parameter(f"{name}_reverse").copy_(ours.backwards.get_parameter(name))
    x, lengths = torch.randn(3, 6, 5), torch.tensor([2, 6, 4])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    is_token = torch.arange(6) < lengths[:, None]
    assert_same_sums(ours(x, lengths)[is_token], expected[is_token], terms=100)


def test_reversed_rows_leave_padding_where_it_is():
    rows = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7]])[:, :, None]
    assert reverse_rows(rows, torch.tensor([3, 4]))[:, :, 0].tolist() == [[3, 2, 1, 0], [7, 6, 5, 4]]


def test_the_update_asks_the_recurrent_network_for_its_cross_entropy():
    model = make_model(attention=True)
    encoded = EncodedPairs(
        pack_sentences([[4, 9, EOS], [7, EOS]], np.uint16), pack_sentences([[5, EOS], [6, 8, 9, EOS]], np.uint16)
    )
    logits = [
        model.logits(model.decode(torch.tensor([[BOS, *ids[:-1]]]), model.encode(torch.tensor([source_ids]))))[0]
        for source_ids, ids in (([4, 9, EOS], [5, EOS]), ([7, EOS], [6, 8, 9, EOS]))
    ]
    expected = smoothed_cross_entropy(torch.cat(logits), torch.tensor([5, EOS, 6, 8, 9, EOS]), 0.0) / 6
    assert dev_loss(model, encoded) == pytest.approx(expected.item(), rel=1e-9)


def test_lines_to_copy_are_their_own_translation_and_have_every_length():
    encoded = make_lines(2000, seed=4)
    assert all(encoded.sources[n].tolist() == encoded.targets[n].tolist() for n in range(2000))
    assert set(encoded.sources.lengths.tolist()) == set(range(2, LONGEST + 2))
    assert encoded.sources.ids[encoded.sources.starts[1:] - 1].tolist() == [EOS] * 2000


def run_race(total: float, longest: int = 4) -> list[Runner]:
    random = np.random.default_rng(5)
    rows = [make_line(random, int(random.integers(1, longest + 1))) for _ in range(2000)]
    rows = [[4 + (i - 4) % 8 if i != EOS else i for i in row] for row in rows]
    encoded = EncodedPairs(pack_sentences(rows, np.uint16), pack_sentences(rows, np.uint16))
    optim = OptimConfig(warmup=20, schedule="linear", label_smoothing=0.0)
    config = ModelConfig(12, 12, 32, 64, 4, encoder_layers=1, decoder_layers=1, dropout=0.0)
    contenders = {
        "GRU": lambda: Recurrent(Sizes(12, 32, 24, 32, encoder_layers=1)),
        "Transformer": lambda: Transformer(config),
    }
    peaks: dict[str, Sequence[float]] = dict.fromkeys(contenders, (0.01,))
    return [runner for [runner] in race(contenders, peaks, optim, encoded, total, batch_tokens=256).values()]


@pytest.mark.article("A2", "B1", "C1")
def test_a_recurrent_network_learns_to_copy_and_both_get_the_same_time():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    lines = [[5, 9, 7, EOS], [11, 11, EOS], [4, EOS], [6, 10, 8, 5, EOS]]
    copies: list[list[int]] = []
    try:
        for seconds in (2.5, 10.0, 40.0):  # a busy machine makes fewer updates in as much time
            gru, transformer = run_race(seconds)
            for contestant in (gru, transformer):
                assert seconds <= contestant.seconds < 1.2 * seconds
            copies = greedy(gru.model, lines, [8] * 4)
            if copies == [ids[:-1] for ids in lines]:
                break
    finally:
        torch.set_num_threads(threads)
    for contestant in (gru, transformer):
        assert contestant.pieces > contestant.updates > 20
    assert copies == [ids[:-1] for ids in lines]


def test_dropout_rises_with_the_epochs_in_both_networks():
    encoded = make_lines(50, seed=4)
    rates = {}
    for kind, make in {
        "GRU": lambda: Recurrent(Sizes(70, 8, 4, 8, encoder_layers=1, dropout=0.5)),
        "Transformer": lambda: Transformer(ModelConfig(70, 70, 8, 16, 2, 1, 1, dropout=0.5)),
    }.items():
        contestant = Runner(make(), OptimConfig(peak=0.01, dropout_rise=10.0), Stream(encoded, 256, seed=1))
        for update in range(3):
            contestant.run(contestant.seconds + 1e-9, 1.0)
            rates[kind, update] = contestant.model.dropout.rate, len(contestant.stream.order)
    for (_, update), (rate, epoch) in rates.items():
        assert rate == pytest.approx(0.5 * update / epoch / 10)
