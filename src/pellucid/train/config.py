"""What a training run is: its data, sizes, steps and learning rate, each default written once with its meaning."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pellucid.config import apply_overrides, build_settings, read_toml
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.model import PRESETS, ModelConfig
from pellucid.sizes import Activation, Norm, Positions, Tie
from pellucid.train.initial_model import fill_from_initial_model

MOST_WEIGHT = 1000
"""Of a corpus among others. A weight takes memory: an epoch is put in order as a whole."""


@dataclass(frozen=True)
class CorpusConfig:
    """One of several corpora: two files line by line, or one of pairs, and how much it counts."""

    source: Annotated[str | None, "sentences to translate from, one a line"] = None
    target: Annotated[str | None, "their translations, line by line"] = None
    pairs: Annotated[str | None, "instead of the two: pairs in one file, .tsv or .jsonl"] = None
    weight: Annotated[float, "how often an epoch shows each pair: 2 twice; 0.5 half of them, then the other half"] = 1.0
    name: Annotated[str | None, "what reports call it; left out: the name of its first file"] = None

    def __post_init__(self) -> None:
        if bool(self.source) != bool(self.target) or bool(self.source) == bool(self.pairs):
            raise ValueError("data.corpus: name either source and target or pairs, for each corpus")
        if not 0 < self.weight <= MOST_WEIGHT:
            raise ValueError(
                f"data.corpus: {self.display_name} has weight {self.weight}; it must be above 0, up to 1000"
            )

    @property
    def files(self) -> tuple[str, str | None]:
        """As `read_pairs` takes them."""
        first = self.source or self.pairs
        assert first is not None
        return first, self.target

    @property
    def display_name(self) -> str:
        """Its name in reports."""
        return self.name or Path(self.files[0]).name


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs are: two files line by line, or one of pairs; each may be compressed with gzip."""

    source: Annotated[str | None, "sentences to translate from, one a line"] = None
    target: Annotated[str | None, "their translations, line by line"] = None
    train: Annotated[str | None, "instead of the two: pairs in one file, .tsv or .jsonl"] = None
    dev_source: Annotated[str | None, "sentences held out, to measure progress"] = None
    dev_target: Annotated[str | None, "their translations"] = None
    dev: Annotated[str | None, "instead of the two: held-out pairs in one file"] = None
    held_out: Annotated[int, "pairs taken out of the (first) corpus to measure progress, when no file is named"] = 500
    max_characters: Annotated[int, "a pair with a longer side is left out, counted and reported"] = 2000
    max_pieces: Annotated[int, "so is one with more pieces than this"] = 256
    bpe_dropout: Annotated[
        float, "share of BPE merges left out when training text is cut, anew each epoch (0.1, say); 0: none"
    ] = 0.0
    shards: Annotated[str | None, "directory that `pellucid prepare` wrote: the ids are read from there"] = None
    corpus: Annotated[tuple[CorpusConfig, ...], "instead of source and target: several corpora, each by weight"] = ()

    def __post_init__(self) -> None:
        problems = [
            f"data: name either {pair} or {one}, not {'both' if has_one and (a or b) else 'half of it'}"
            for a, b, has_one, pair, one in (
                (self.source, self.target, self.train, "source and target", "train"),
                (self.dev_source, self.dev_target, self.dev, "dev_source and dev_target", "dev"),
            )
            if bool(a) != bool(b) or (has_one and (a or b))
        ]
        if self.corpus and (self.source or self.target or self.train):
            problems.append("data: name either one corpus (source and target, or train) or [[data.corpus]], not both")
        if not (self.source or self.train or self.corpus) and not problems:
            problems.append("data: no sentences to train on; name source and target, or train, or [[data.corpus]]")
        names = [each.display_name for each in self.corpus]
        problems += [
            f"data.corpus: two are called {name!r}; give each a name"
            for name in dict.fromkeys(names)
            if names.count(name) > 1
        ]
        if self.held_out < 1 or self.max_characters < 1 or self.max_pieces < 2:
            problems.append("data: held_out and max_characters must be 1 or more, max_pieces 2 or more")
        if not 0 <= self.bpe_dropout < 1:
            problems.append(f"data.bpe_dropout is {self.bpe_dropout}, it must be at least 0 and below 1")
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def corpora(self) -> tuple[CorpusConfig, ...]:
        """What there is to train on; a single corpus has weight 1."""
        return self.corpus or (CorpusConfig(self.source, self.target, self.train),)


@dataclass(frozen=True)
class ModelSettings:
    """A named size, and what shall differ from it; or the model to start from, which then says all but dropout."""

    start: Annotated[
        str | None, "model directory to go on from: its weights, and its tokenizer; what it says is left out below"
    ] = None
    size: Annotated[Literal["tiny", "small", "base", "big"], "the five numbers below, as `PRESETS` names them"] = "tiny"
    d_model: Annotated[int | None, "width of every residual stream"] = None
    d_ff: Annotated[int | None, "inner width of the feed-forward"] = None
    heads: Annotated[int | None, "attention heads"] = None
    encoder_layers: Annotated[int | None, "layers that read"] = None
    decoder_layers: Annotated[int | None, "layers that write"] = None
    dropout: Annotated[float, "share dropped from embeddings and from each sublayer's output"] = 0.1
    attention_dropout: Annotated[float, "share dropped from attention patterns"] = 0.0
    activation_dropout: Annotated[float, "share dropped inside the feed-forward"] = 0.0
    norm: Annotated[
        Norm, "LayerNorm before each sublayer, LayerNorm after its sum as in the paper, or RMSNorm before each sublayer"
    ] = "pre"
    positions: Annotated[Positions, "how order enters the model"] = "sinusoidal"
    activation: Annotated[Activation, "between the feed-forward's two layers"] = "relu"
    tie: Annotated[Tie | None, "which embeddings share one matrix; left out: all if joint"] = None
    max_positions: Annotated[int, "longest sentence in pieces the model will take"] = 1024
    output_bias: Annotated[bool, "a number of its own for each target piece, added to its logit"] = False
    fewer_heads: Annotated[
        str, "attentions with fewer heads than that: 'encoder.0.self:2 decoder.2.cross:0'; left out: none"
    ] = ""

    def __post_init__(self) -> None:
        if self.size in PRESETS:
            self.config(5, 5, joint=self.tie != "decoder")

    def config(self, source_vocabulary: int, target_vocabulary: int, joint: bool) -> ModelConfig:
        """The model of this size for these vocabularies."""
        apart = ("start", "size")
        chosen = {name: value for name, value in asdict(self).items() if value is not None and name not in apart}
        tie = "all" if joint else "decoder"
        return ModelConfig(source_vocabulary, target_vocabulary, **{**PRESETS[self.size], "tie": tie, **chosen})


@dataclass(frozen=True)
class TrainConfig:
    """How long to train, on how much at a time, and how often to look and to save."""

    steps: Annotated[int | None, "updates to make; name either this or minutes"] = None
    minutes: Annotated[float | None, "or time to spend, evaluations and saving counted"] = None
    batch_tokens: Annotated[int, "target positions in a batch, padding counted"] = 4096
    accumulate: Annotated[int, "batches whose gradients are summed for one update"] = 1
    precision: Annotated[
        Literal["float32", "bfloat16"],
        "of the products, bfloat16 where that is built in; weights, sums and the optimiser stay float32",
    ] = "float32"
    shard_model: Annotated[
        bool, "several workers keep a part each of weights, gradients and Adam's memory: for a model too large for one"
    ] = False
    compile: Annotated[bool, "fuse the layers by torch.compile first: minutes at the start, faster on a GPU"] = False
    evaluate_every: Annotated[
        int | None,
        "updates between evaluations; left out: a twelfth of the run, and in one of minutes none in the first half "
        "minute, nor more than take a fifth of the time",
    ] = None
    save_every: Annotated[int | None, "updates between checkpoints; left out: those, or a twelfth of the run"] = None
    patience: Annotated[int | None, "evaluations without a better dev score before stopping; left out: never stop"] = (
        None
    )
    dev_sentences: Annotated[int, "dev sentences translated for BLEU and chrF at each evaluation"] = 500
    dev_beam: Annotated[int, "beam of those translations"] = 4
    average: Annotated[Literal["last", "best"], "which checkpoints the averaged model is made of"] = "last"
    keep: Annotated[int, "checkpoints kept, and averaged at the end"] = 5

    def __post_init__(self) -> None:
        problems = [
            f"train.{name} is {value}, it must be above 0"
            for name, value in asdict(self).items()
            if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0
        ]
        if self.steps is not None and self.minutes is not None:
            problems.append("train.steps and train.minutes are both given; name one")
        if self.steps is None and self.minutes is None:
            problems.append("neither train.steps nor train.minutes is given; name one")
        if self.compile and self.shard_model:
            problems.append("train.compile and train.shard_model are both true, and do not go together; choose one")
        if problems:
            raise ValueError("; ".join(problems))


@dataclass(frozen=True)
class OptimConfig:
    """Adam and its learning rate (paper, 5.3)."""

    peak: Annotated[float, "learning rate at the top of the warm-up"] = 1e-3
    warmup: Annotated[int, "updates until the top"] = 1000
    schedule: Annotated[
        Literal["inverse_sqrt", "linear"], "after the top: fall as 1 / sqrt(step), or straight to zero at the end"
    ] = "inverse_sqrt"
    beta1: Annotated[float, "Adam's memory of gradients"] = 0.9
    beta2: Annotated[float, "Adam's memory of their squares"] = 0.98
    epsilon: Annotated[float, "keeps Adam's division finite"] = 1e-9
    clip: Annotated[float, "longest gradient, over all weights together; a longer one is scaled down"] = 1.0
    label_smoothing: Annotated[float, "share of the target's probability spread over the vocabulary"] = 0.1
    r_drop: Annotated[
        float, "every pair goes through twice, and this (5, say) pulls the two together (R-Drop); 0: once"
    ] = 0.0
    dropout_rise: Annotated[
        float, "epochs in which dropout grows from nothing to what the model says; 0: all of it from the start"
    ] = 0.0

    @property
    def passes(self) -> int:
        """Times that a pair goes through the model in an update."""
        return 2 if self.r_drop else 1

    def __post_init__(self) -> None:
        rules = (
            ("peak", self.peak > 0, "above 0"),
            ("warmup", self.warmup >= 1, "1 or more"),
            ("beta1", 0 <= self.beta1 < 1, "at least 0 and below 1"),
            ("beta2", 0 <= self.beta2 < 1, "at least 0 and below 1"),
            ("epsilon", self.epsilon > 0, "above 0"),
            ("clip", self.clip > 0, "above 0"),
            ("label_smoothing", 0 <= self.label_smoothing < 1, "at least 0 and below 1"),
            ("r_drop", self.r_drop >= 0, "0 or more"),
            ("dropout_rise", self.dropout_rise >= 0, "0 or more"),
        )
        problems = [
            f"optim.{name} is {getattr(self, name)}, it must be {wanted}" for name, ok, wanted in rules if not ok
        ]
        if problems:
            raise ValueError("; ".join(problems))


@dataclass(frozen=True)
class RunConfig:
    """One training run, whole."""

    data: DataConfig
    train: TrainConfig
    seed: Annotated[int, "of the weights, the order of the data and dropout"] = 1
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelSettings = field(default_factory=ModelSettings)
    optim: OptimConfig = field(default_factory=OptimConfig)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}, it must be 0 or more")
        if self.model.tie == "all" and not self.tokenizer.joint and self.tokenizer.kind != "marian":
            raise ValueError("model.tie = 'all' shares one matrix, which needs tokenizer.joint = true")
        if self.data.bpe_dropout and self.tokenizer.kind != "bpe":
            raise ValueError(
                f"data.bpe_dropout leaves out merges, and tokenizer.kind {self.tokenizer.kind!r} has none; "
                "set it to 0, or tokenizer.kind to 'bpe'"
            )
        m = self.model
        if self.optim.r_drop and not (m.dropout or m.attention_dropout or m.activation_dropout):
            raise ValueError("optim.r_drop compares two passes with other dropout; give model.dropout, or set it to 0")
        if self.optim.dropout_rise and self.train.compile:
            raise ValueError(
                "optim.dropout_rise changes the layers at every update, and train.compile would fuse them anew each "
                "time; set one of them to 0 or false"
            )
        if self.data.max_pieces > self.model.max_positions:
            raise ValueError(
                f"data.max_pieces {self.data.max_pieces} is more than model.max_positions {self.model.max_positions}"
            )

    def model_config(self, tokenizer: Tokenizer) -> ModelConfig:
        """The model this run trains, for a tokenizer's vocabularies."""
        return self.model.config(tokenizer.source_vocabulary, tokenizer.target_vocabulary, self.tokenizer.joint)


def read_run(path: Path, overrides: tuple[str, ...] | list[str] = (), began: Path | None = None) -> RunConfig:
    """A run file, with `section.key=value` overrides.

    Data files, and the model to start from, are looked for beside the run file; `${NAME}` in their names stands for an
    environment variable. What that model says is filled in; a run that goes on in the directory `began` knows it
    already. Raises ValueError, naming every problem at once, for keys and values that are none.
    """
    return make_run(override_run(read_toml(path), overrides), str(path), path.parent, began)


def override_run(tables: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """`apply_overrides`, but that one length of the run takes the place of the other: steps of minutes, minutes of
    steps.

    >>> override_run({"train": {"minutes": 30, "keep": 5}}, ["train.steps=500"])
    {'train': {'keep': 5, 'steps': 500}}
    """
    found = apply_overrides(tables, [])
    for override in overrides:
        train, name = found.get("train"), override.partition("=")[0].strip()
        if isinstance(train, dict) and name in ("train.steps", "train.minutes"):
            found["train"] = {key: value for key, value in train.items() if key not in ("steps", "minutes")}
        found = apply_overrides(found, [override])
    return found


def make_run(
    tables: dict[str, Any], where: str = "the settings", folder: Path = Path(), began: Path | None = None
) -> RunConfig:
    """The same from tables in memory; files are looked for in `folder`, the working directory if it is left out."""
    model = tables.get("model")
    if isinstance(model, dict) and isinstance(model.get("start"), str):
        start = _resolve_path(folder, model["start"])
        tables = fill_from_initial_model({**tables, "model": {**model, "start": start}}, start, began)
    run = build_settings(RunConfig, tables, where)
    return replace(run, data=_resolve_data_paths(run.data, folder))


def _resolve_data_paths(data: DataConfig, folder: Path) -> DataConfig:
    def located(settings: Any, *names: str) -> Any:
        found = {name: getattr(settings, name) for name in names if getattr(settings, name) is not None}
        return replace(settings, **{name: _resolve_path(folder, value) for name, value in found.items()})

    found = located(data, "source", "target", "train", "dev_source", "dev_target", "dev", "shards")
    return replace(found, corpus=tuple(located(each, "source", "target", "pairs") for each in data.corpus))


def _resolve_path(folder: Path, name: str) -> str:
    return str((folder / _expand_variables(name)).resolve())


def _expand_variables(text: str) -> str:
    """`${NAME}` replaced by the environment variable of that name; ValueError where there is none."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(f"{text!r} needs the environment variable {match[1]}, which is not set")
        return os.environ[match[1]]

    return re.sub(r"\$\{(\w+)\}", value, text)
