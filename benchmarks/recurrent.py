"""The Transformer beside a GRU encoder-decoder with attention: speed and quality for equal time, and copying.

    make bench-recurrent     # or: python -m benchmarks.recurrent phrasebook multi30k copy

Writes benchmarks/results/recurrent.md from what it measures now and what it measured before (runs/recurrent); half an
hour on a quiet core for all three. Multi30k needs PELLUCID_DATA and is left out without it.

Models are trained in turns of a few seconds for equal processor time, so that other programs disturb all alike.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from benchmarks.quality import HOUSE, RESULTS, lines, machine
from pellucid.cli.demo import DEMO_PAIRS, DEMO_RECIPE
from pellucid.data.batching import EncodedPairs, collate, epoch_batches, pack_sentences
from pellucid.data.stream import Stream
from pellucid.data.tokenizer import EOS, PAD
from pellucid.decode.greedy import greedy_search
from pellucid.decode.torch_engine import ModelState, model_step, pad_sentences
from pellucid.decode.torch_models import inference_only
from pellucid.demo import phrasebook
from pellucid.evaluate.scores import corpus_scores
from pellucid.model import ModelConfig, Transformer
from pellucid.model.dropout import Dropout, scale_dropout
from pellucid.training.config import OptimConfig, RunConfig, make_run, read_run
from pellucid.training.data import encode_with_note, read_data
from pellucid.training.initial_embeddings import embeddings_from_text
from pellucid.training.optimizer import Adam, Muon, Optimizer, make_optimizer
from pellucid.training.schedule import dropout_factor, learning_rate
from pellucid.training.update import batch_loss, update_weights

KEPT, PAGE = HOUSE / "runs" / "recurrent", RESULTS / "recurrent.md"

BATCH, TURN = 1024, 4.0
"""Target pieces of a batch, and seconds of a model's turn."""

PEAKS, COPY_PEAKS = (3e-3, 7e-3), (2e-3, 5e-3, 1e-2)
"""Learning rates that each model tries, with text and with copying."""

SYMBOLS, LONGEST, COPY_LINES, TESTED = 64, 30, 50_000, 100
"""Copying: kinds of pieces, the longest line in training, lines to train on, lines to test of each length."""

LENGTHS = (5, 10, 20, 30, 35, 40, 60)
"""Lengths of the lines that are tested; the last three are longer than any in training."""

Contenders = dict[str, Callable[[], nn.Module]]
"""Names of models, and how each is made."""


def main() -> None:
    """Measure the parts asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; left out: all of them")
    parser.add_argument("--seconds", type=float, default=180.0, help="processor time of each model's training")
    parser.add_argument("--tuning", type=float, default=15.0, help="the same of short runs that try rates for copying")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page again")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"{unknown[0]!r} is none of {', '.join(PARTS)}")
    torch.set_num_threads(1)
    for part in () if options.page else options.parts or PARTS:
        if part == "multi30k" and "PELLUCID_DATA" not in os.environ:
            print("multi30k is left out: PELLUCID_DATA is not set", file=sys.stderr)
            continue
        result = PARTS[part](options.seconds, options.tuning)
        KEPT.mkdir(parents=True, exist_ok=True)
        row = {"seconds": options.seconds, "tuning": options.tuning, "date": time.strftime("%Y-%m-%d"), **result}
        (KEPT / f"{part}.json").write_text(json.dumps(row), encoding="utf-8")
    text = "\n".join(page_lines()) + "\n"
    PAGE.write_text(text, encoding="utf-8")
    print(text)


def race_on_phrasebook(seconds: float, _: float) -> dict[str, Any]:
    """Race on the sentences of `pellucid demo`."""
    split = phrasebook.split_phrases(DEMO_PAIRS)
    with tempfile.TemporaryDirectory() as folder:
        paths = phrasebook.write_split(Path(folder), split)
        sides = {"source": "train.en", "target": "train.es", "dev_source": "dev.en", "dev_target": "dev.es"}
        data = {key: str(paths[name]) for key, name in sides.items()}
        run = make_run({**DEMO_RECIPE, "train": {**DEMO_RECIPE["train"], "minutes": 1.0}, "data": data})
        tests = [phrase.source for phrase in split.test], [phrase.target for phrase in split.test]
        return {"title": "Phrasebook, English-Spanish", **race_on_text(run, *tests, seconds)}


def race_on_multi30k(seconds: float, _: float) -> dict[str, Any]:
    """Race on image captions, with the recipe's settings but for what fits a short run."""
    changes = [f"optim.warmup={DEMO_RECIPE['optim']['warmup']}", "optim.weight_decay=0", "tokenizer.vocabulary=10000"]
    run = read_run(HOUSE / "recipes/multi30k-en-de.toml", changes)
    data = Path(os.environ["PELLUCID_DATA"]) / "multi30k"
    tests = (lines(data / f"test_2016_flickr.{language}.gz") for language in ("en", "de"))
    return {"title": "Multi30k, English-German", **race_on_text(run, *tests, seconds)}


def race_on_text(run: RunConfig, sources: list[str], references: list[str], seconds: float) -> dict[str, Any]:
    """Train both models on the same batches for equal time; return speed, dev loss, BLEU and chrF of greedy search.

    Both have what Pellucid gives a small model: Muon, and embeddings that begin with the text.
    """
    data = read_data(run)
    config = run.model_config(data.tokenizer)
    sizes = Sizes(config.target_vocabulary, config.d_model, 128, 224, dropout=config.dropout)
    contenders: Contenders = {
        "Transformer": lambda: Transformer(config),
        "GRU with attention": lambda: Recurrent(sizes),
    }
    dev, _ = encode_with_note(data.dev, data.tokenizer, run.data.max_pieces)
    peaks = dict.fromkeys(contenders, PEAKS)
    rows = []
    for name, runners in race(contenders, peaks, run.optim, data.encoded, seconds, from_text=True).items():
        losses = [dev_loss(runner.model, dev) for runner in runners]
        best, encoded = runners[losses.index(min(losses))], data.tokenizer.encode_source(sources)
        outputs = greedy(best.model, encoded, [2 * len(ids) + 10 for ids in encoded])
        scores = corpus_scores([data.tokenizer.decode_target(ids) for ids in outputs], references, ("bleu", "chrf"))
        tried = {f"{runner.optim.peak:g}": loss for runner, loss in zip(runners, losses, strict=True)}
        texts = {metric: score["score"] for metric, score in scores.items()}
        rows.append(best.describe(name) | texts | {"tried": tried, "signature": scores["bleu"]["signature"]})
    facts = {"pairs": len(data.encoded), "vocabulary": config.target_vocabulary, "tested": len(sources)}
    return facts | {"dropout": config.dropout, "rise": run.optim.dropout_rise, "rows": rows}


def race_on_copying(seconds: float, tuning: float) -> dict[str, Any]:
    """Race on lines of random pieces that are to be written again; the models are small, so half the time is enough."""
    vocabulary = FIRST_SYMBOL + SYMBOLS
    sizes = ModelConfig(vocabulary, vocabulary, 64, 128, 4, encoder_layers=2, decoder_layers=2, dropout=0.0)
    contenders: Contenders = {
        "Transformer": lambda: Transformer(sizes),
        "GRU with attention": lambda: Recurrent(Sizes(vocabulary, 64, 64, 72, encoder_layers=1)),
        "GRU without attention": lambda: Recurrent(Sizes(vocabulary, 64, 64, 80, encoder_layers=1, attention=False)),
    }
    optim = OptimConfig(warmup=200, schedule="linear", label_smoothing=0.0)
    encoded, dev = make_lines(COPY_LINES, seed=1), make_lines(500, seed=2)
    short = race(contenders, dict.fromkeys(contenders, COPY_PEAKS), optim, encoded, tuning / 2)
    best = {name: min(runners, key=lambda runner: dev_loss(runner.model, dev)) for name, runners in short.items()}
    peaks = {name: [runner.optim.peak] for name, runner in best.items()}
    rows = []
    for name, [runner] in race(contenders, peaks, optim, encoded, seconds / 2).items():
        shares = {length: measure_copies(runner.model, length) for length in LENGTHS}
        pieces, whole = ({f"{n}": pair[kind] for n, pair in shares.items()} for kind in (0, 1))
        rows.append(runner.describe(name) | {"pieces": pieces, "lines": whole})
    return {"rows": rows}


PARTS = {"phrasebook": race_on_phrasebook, "multi30k": race_on_multi30k, "copy": race_on_copying}

FIRST_SYMBOL = 4
"""Ids below it are the special tokens."""


def make_lines(number: int, seed: int) -> EncodedPairs:
    """Return lines of 1 to `LONGEST` random pieces, each its own translation."""
    random = np.random.default_rng(seed)
    rows = [make_line(random, int(random.integers(1, LONGEST + 1))) for _ in range(number)]
    return EncodedPairs(pack_sentences(rows, np.uint16), pack_sentences(rows, np.uint16))


def make_line(random: np.random.Generator, length: int) -> list[int]:
    """Return a line of random pieces with its end token."""
    return [*random.integers(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, length).tolist(), EOS]


def measure_copies(model: nn.Module, length: int) -> tuple[float, float]:
    """Return the share of pieces in their place, and of lines without a mistake, over lines of one length."""
    random = np.random.default_rng(1000 + length)
    sources = [make_line(random, length)[:-1] for _ in range(TESTED)]
    copies = greedy(model, [[*source, EOS] for source in sources], [length + 1] * TESTED)
    hits = sum(a == b for pair in zip(sources, copies, strict=True) for a, b in zip(*pair, strict=False))
    return 100 * hits / (length * TESTED), 100 * sum(map(list.__eq__, sources, copies)) / TESTED


@dataclass
class Runner:
    """A model in training, with Pellucid's own update, loss, schedule and batches, whichever model it is."""

    model: Any
    optim: OptimConfig
    stream: Stream
    seconds: float = 0.0
    updates: int = 0
    pieces: int = 0
    optimizer: Optimizer = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = make_any_optimizer(self.model, self.optim)
        self.model.train()

    def run(self, until: float, total: float) -> None:
        """Go on until so many seconds of `total` are used up."""
        while self.seconds < until:
            began = time.process_time()
            rate = learning_rate(self.updates, self.seconds / total, self.optim)
            scale_dropout(self.model, dropout_factor(self.stream.epochs, self.optim))
            result = update_weights(self.model, self.optimizer, [next(self.stream)], rate, self.optim, "float32")
            self.seconds += time.process_time() - began
            self.updates += 1
            self.pieces += result.target_tokens

    def describe(self, name: str) -> dict[str, Any]:
        """Return the cells that every table has; speed is target pieces, padding not counted, a second."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        cells = {"name": name, "parameters": parameters, "peak": self.optim.peak, "updates": self.updates}
        return cells | {"speed": self.pieces / self.seconds}


def make_any_optimizer(model: Any, c: OptimConfig) -> Optimizer:
    """Return the optimizer of a Transformer, or the same for a GRU network: Muon for its matrices, gate by gate."""
    if isinstance(model, Transformer):
        return make_optimizer(model, c)
    if c.kind == "adam":
        return Adam(model.parameters(), c)
    matrices = {
        name: p for name, p in model.named_parameters() if p.dim() == 2 and p is not model.output_embedding.weight
    }
    # PyTorch keeps the reset gate, the update gate and the new state of a GRU one below the other in one matrix.
    grids = {p: (3 if "weight_" in name else 1, 1) for name, p in matrices.items()}
    return Muon(grids, Adam((p for p in model.parameters() if p not in grids), c))


def race(
    contenders: Contenders,
    peaks: dict[str, Sequence[float]],
    optim: OptimConfig,
    encoded: EncodedPairs,
    total: float,
    batch_tokens: int = BATCH,
    from_text: bool = False,
) -> dict[str, list[Runner]]:
    """Train each model with each of its learning rates for so many seconds, all in turns, from the same seed."""
    runners: dict[str, list[Runner]] = {}
    for name, make in contenders.items():
        for peak in peaks[name]:
            torch.manual_seed(1)
            model: Any = make()
            if from_text:
                table = model.output_embedding.weight.detach()
                table.copy_(embeddings_from_text(table, encoded, seed=1))
            runner = Runner(model, replace(optim, peak=peak), Stream(encoded, batch_tokens, seed=1))
            runners.setdefault(name, []).append(runner)
    turns = max(1, round(total / TURN))
    for turn in range(1, turns + 1):
        for runner in [runner for trials in runners.values() for runner in trials]:
            runner.run(total * turn / turns, total)
            if turn == turns:
                runner.model.eval()
        print(f"turn {turn} of {turns} is over", file=sys.stderr)
    return runners


def dev_loss(model: Any, dev: EncodedPairs) -> float:
    """Return the nats of a piece, without smoothing."""
    order = epoch_batches(dev.sources.lengths, dev.targets.lengths, 4096, seed=0, epoch=0)
    batches = [collate(dev, indices) for indices in order]
    with inference_only(model):
        total = sum(batch_loss(model, batch, smoothing=0.0).item() for batch in batches)
    return total / sum(batch.target_tokens for batch in batches)


def greedy(model: Any, sources: Sequence[Sequence[int]], limits: Sequence[int], at_once: int = 64) -> list[list[int]]:
    """Return the output of greedy search without the end token, at most so many pieces for each source."""
    outputs: list[list[int]] = [[] for _ in sources]
    order = sorted(range(len(sources)), key=lambda n: len(sources[n]))
    with inference_only(model):
        for first in range(0, len(order), at_once):
            indices = order[first : first + at_once]
            memory = model.encode(pad_sentences([list(sources[n]) for n in indices], torch.device("cpu")))
            if isinstance(model, Transformer):
                start = model_step(model), ModelState(memory)
            else:
                start = model.search_step, memory
            hypotheses = greedy_search(*start, torch.tensor([limits[n] for n in indices]), length_penalty=0.0)
            for n, [best] in zip(indices, hypotheses, strict=True):
                outputs[n] = best.tokens
    return outputs


@dataclass(frozen=True)
class Sizes:
    """Widths of the embeddings, of each direction of the encoder, and of each GRU of the decoder."""

    vocabulary: int
    width: int
    encoder_width: int
    decoder_width: int
    encoder_layers: int = 2
    dropout: float = 0.0
    attention: bool = True


@dataclass
class Memory:
    """States of the encoder, and of both GRUs of the decoder, which move on with each piece."""

    states: Float[Tensor, "B S E2"]
    present: Bool[Tensor, "B S"]
    ends: Float[Tensor, "B E2"]
    lower: Float[Tensor, "1 R D"]
    upper: Float[Tensor, "1 R D"]

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        """Keep these rows and sentences; greedy search has a row for each sentence."""
        self.states, self.present, self.ends = self.states[sentences], self.present[sentences], self.ends[sentences]
        self.lower, self.upper = self.lower[:, rows], self.upper[:, rows]


class BothWays(nn.Module):
    """A GRU from the first piece to the last, and one back."""

    def __init__(self, into: int, width: int):
        super().__init__()
        self.forwards, self.backwards = gru(into, width), gru(into, width)

    def forward(self, x: Float[Tensor, "B S I"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B S E2"]:
        """Padding comes last in both directions, so no state of a piece has seen any."""
        back = reverse_rows(self.backwards(reverse_rows(x, lengths))[0], lengths)
        return torch.cat([self.forwards(x)[0], back], dim=-1)


class Recurrent(nn.Module):
    """A GRU encoder-decoder with the methods of the Transformer that the update calls.

    The encoder reads in both directions (Bahdanau et al. 2015). The decoder is two GRUs with attention between them
    (Luong et al. 2015, "general"): the lower one reads the pieces written so far and asks, the upper one reads the
    question and the answer, so each step knows where the steps before it looked. Nothing goes from the upper GRU back
    into the lower one, as in Wu et al. 2016, so that in training each GRU runs over a whole target in one call. With
    `attention=False` every step is given the two ends of the encoder instead, as in Cho et al. 2014.
    """

    output_bias = None

    def __init__(self, c: Sizes):
        super().__init__()
        self.sizes, both_ways = c, 2 * c.encoder_width
        self.output_embedding = nn.Embedding(c.vocabulary, c.width)
        nn.init.normal_(self.output_embedding.weight, std=c.width**-0.5)
        into = [c.width, *[both_ways] * (c.encoder_layers - 1)]
        self.encoder = nn.ModuleList(BothWays(width_in, c.encoder_width) for width_in in into)
        self.begin = linear(both_ways, 2 * c.decoder_width)
        self.lower = gru(c.width, c.decoder_width)
        self.query = linear(c.decoder_width, both_ways) if c.attention else None
        self.upper = gru(c.decoder_width + both_ways, c.decoder_width)
        self.output = linear(c.decoder_width + both_ways, c.width)
        self.dropout = Dropout(c.dropout)

    def encode(self, source: Int[Tensor, "B S"]) -> Memory:
        """Read the source, whose rows end with the end token and are filled with padding."""
        present = source != PAD
        lengths = present.sum(dim=1)
        x = self.embed(source)
        for layer in self.encoder:
            x = self.dropout(layer(x, lengths))
        forwards, backwards = x.chunk(2, dim=-1)
        # The last state forwards and the first back: each has read the whole source.
        ends = torch.cat([forwards[torch.arange(len(x), device=x.device), lengths - 1], backwards[:, 0]], dim=-1)
        lower, upper = torch.tanh(self.begin(ends))[None].chunk(2, dim=-1)
        return Memory(x, present, ends, lower.contiguous(), upper.contiguous())

    def decode(self, target: Int[Tensor, "B T"], memory: Memory) -> Float[Tensor, "B T D"]:
        """Return the state at each target position, the pieces before it given."""
        return self.go_on(target, replace(memory))

    def states(self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the states at each target position, from the source; training learns from these."""
        return self.decode(target, self.encode(source))

    def go_on(self, target: Int[Tensor, "B T"], state: Memory) -> Float[Tensor, "B T D"]:
        """Return the states that follow `state`, which moves on."""
        queries, state.lower = self.lower(self.embed(target), state.lower)
        context = self.attend(queries, state)
        outputs, state.upper = self.upper(self.dropout(torch.cat([queries, context], dim=-1)), state.upper)
        return self.dropout(torch.tanh(self.output(torch.cat([outputs, context], dim=-1))))

    def attend(self, queries: Float[Tensor, "B T D"], memory: Memory) -> Float[Tensor, "B T E2"]:
        """Return what each step gets of the source: a mean of its states by how well they fit the question."""
        if self.query is None:
            return memory.ends[:, None].expand(-1, queries.shape[1], -1)
        scores = self.query(queries) @ memory.states.transpose(1, 2) / memory.states.shape[-1] ** 0.5
        return scores.masked_fill(~memory.present[:, None], -torch.inf).softmax(dim=-1) @ memory.states

    def embed(self, ids: Int[Tensor, "B Q"]) -> Float[Tensor, "B Q W"]:
        return self.dropout(self.output_embedding(ids) * self.sizes.width**0.5)

    def search_step(self, ids: Int[Tensor, " R"], state: Memory) -> Float[Tensor, "R V"]:
        """Return the logits of one more piece for each row, as searches want them."""
        return self.logits(self.go_on(ids[:, None], state))[:, 0]

    def logits(self, states: Float[Tensor, "B T W"]) -> Float[Tensor, "B T V"]:
        return F.linear(states, self.output_embedding.weight)


def reverse_rows(x: Float[Tensor, "B S I"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B S I"]:
    """Turn each row, from its last piece to its first; padding stays where it is."""
    at = torch.arange(x.shape[1], device=x.device)
    last = lengths[:, None] - 1
    where = torch.where(at <= last, last - at, at)
    return x.gather(1, where[:, :, None].expand_as(x))


def gru(into: int, width: int) -> nn.GRU:
    """One layer; what comes in by Xavier, what goes round orthogonal, gate by gate, and no bias at first."""
    layer = nn.GRU(into, width, batch_first=True)
    for name, parameter in layer.named_parameters():
        for block in parameter.split(width):
            if name.startswith("bias"):
                nn.init.zeros_(block)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(block)
            else:
                nn.init.xavier_uniform_(block)
    return layer


def linear(into: int, out: int) -> nn.Linear:
    layer = nn.Linear(into, out)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def page_lines() -> Iterator[str]:
    """Yield the page again, with the results of all parts and the text that explains them."""
    files = {part: KEPT / f"{part}.json" for part in PARTS if (KEPT / f"{part}.json").exists()}
    results = {part: json.loads(path.read_text("utf-8")) for part, path in files.items()}
    first = next(iter(results.values()))
    yield "# The Transformer beside a recurrent network\n"
    options = f"--seconds {first['seconds']:g} --tuning {first['tuning']:g}"
    yield f"    python -m benchmarks.recurrent {' '.join(results)} {options}\n"
    yield f"{machine()}; {first['date']}.\n"
    # The explanation is written by hand: what stands between these three lines and the first heading.
    yield PAGE.read_text(encoding="utf-8").split("\n\n", 3)[3].partition("\n## ")[0]
    for part, result in results.items():
        yield from copying_lines(result) if part == "copy" else text_lines(result)


def text_lines(result: dict[str, Any]) -> Iterator[str]:
    """Yield the table of one corpus, and the ratios of its rows."""
    yield f"## {result['title']}\n"
    rising = (
        f"rising to {result['dropout']:g} in {result['rise']:g} epochs" if result["rise"] else f"{result['dropout']:g}"
    )
    yield f"{result['pairs']:,} pairs, joint vocabulary of {result['vocabulary']:,} pieces, dropout {rising},"
    yield f"{result['tested']:,} test sentences. {result['seconds'] / 60:g} minutes for each model and rate.\n"
    yield "| | parameters | pieces/s | updates | BLEU | chrF | rates tried (dev loss) |"
    yield "|---|---|---|---|---|---|---|"
    for row in result["rows"]:
        tried = ", ".join(
            f"**{rate}** ({loss:.2f})" if float(rate) == row["peak"] else f"{rate} ({loss:.2f})"
            for rate, loss in row["tried"].items()
        )
        yield (
            f"| {row['name']} | {row['parameters'] / 1e6:.2f} M | {row['speed']:,.0f} | {row['updates']:,} | "
            f"{row['bleu']:.1f} | {row['chrf']:.1f} | {tried} |"
        )
    first, recurrent = result["rows"]
    apart = round(first["bleu"], 1) - round(recurrent["bleu"], 1)
    yield f"\nThe Transformer trained on {first['speed'] / recurrent['speed']:.2f} times as many pieces a second as the"
    yield f"GRU; its BLEU is {abs(apart):.1f} {'higher' if apart >= 0 else 'lower'}. Signature of BLEU:"
    yield f"`{first['signature']}`.\n"


def copying_lines(part: dict[str, Any]) -> Iterator[str]:
    """Yield the tables of copying."""
    yield "## Copying, with growing distance\n"
    yield f"{part['seconds'] / 120:g} minutes for each model, {part['tuning'] / 2:g} seconds for each short run before;"
    yield f"{TESTED} new lines of each length.\n"
    yield "| | parameters | pieces/s | updates | rate |\n|---|---|---|---|---|"
    for row in part["rows"]:
        yield (
            f"| {row['name']} | {row['parameters'] / 1e3:.0f} K | {row['speed']:,.0f} | {row['updates']:,} | "
            f"{row['peak']:g} |"
        )
    yield ""
    lengths = [f"{n}" if n <= LONGEST else f"({n})" for n in LENGTHS]
    for key, what in (("pieces", "Pieces in their right place"), ("lines", "Lines without a mistake")):
        yield f"{what}, in per cent, by length (in brackets: longer than any line in training):\n"
        yield f"| | {' | '.join(lengths)} |"
        yield "|---|" + "---|" * len(lengths)
        for row in part["rows"]:
            yield f"| {row['name']} | {' | '.join(f'{row[key][str(n)]:.0f}' for n in LENGTHS)} |"
        yield ""


if __name__ == "__main__":
    main()
