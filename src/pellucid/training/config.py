"""Settings of a training run: data, model, length and optimizer; each default has its meaning."""

import codecs
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pellucid.config import apply_overrides, build_settings, field_meaning, read_toml
from pellucid.data.formats import PAIR_ENDINGS
from pellucid.data.formats.units import Sides
from pellucid.data.languages import is_language_code
from pellucid.data.lines import refuse_read_once
from pellucid.data.pair_noise import NoiseConfig
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.evaluate.score_words import TokenizerName
from pellucid.model import PRESETS, ModelConfig
from pellucid.model.config import REMOVED_SETTINGS, Activation, Norm, Positions, Tie
from pellucid.store.manifest_checks import LARGEST_BEAM, make_showable
from pellucid.training.initial_model import fill_from_initial_model

# Settings that were removed, each with the value that is what every run does now, and the last
# version that had it.
_REMOVED_SETTINGS = {
    "data.bpe_dropout": (0.0, "0.1"),
    "train.average": ("last", "0.1"),
    "train.compile": (False, "0.2"),
    "optim.r_drop": (0.0, "0.1"),
    **{f"model.{name}": (unused, "0.1") for name, unused in REMOVED_SETTINGS.items()},
}

# Settings of [data] and of a [[data.corpus]] that are paths.
DATA_PATHS = ("source", "target", "train", "dev_source", "dev_target", "dev", "shards")
_CORPUS_PATHS = ("source", "target", "pairs", "dev_source", "dev_target", "dev")

# What a number may be stands beside its meaning; pydantic checks it when a run is made.
POSITIVE = Field(gt=0)
SHARE = Field(ge=0, lt=1)

# Largest weight of a corpus: the order of an epoch is held in memory, with every pair as often as
# it is seen.
_MOST_WEIGHT = 1000


@dataclass(frozen=True)
class CorpusConfig:
    """Files of one of several corpora, and its weight among them."""

    source: Annotated[str | None, "sentences to translate from, one a line"] = None
    target: Annotated[str | None, "their translations, line by line"] = None
    pairs: Annotated[
        str | None, "instead of source and target: pairs in one file, in any of the formats"
    ] = None
    weight: Annotated[
        float,
        "how often an epoch shows each pair: 2 means twice; 0.5 half of the pairs, then the "
        "other half",
    ] = 1.0
    from_: Annotated[
        float, "share of the run that is over when this corpus begins to be shown", SHARE
    ] = 0.0
    until: Annotated[
        float, "share of the run that is over when it ends to be shown", Field(gt=0, le=1)
    ] = 1.0
    name: Annotated[str | None, "its name in reports; if left out, that of its first file"] = None
    source_language: Annotated[str | None, "as in [data], for the file of this corpus"] = None
    target_language: Annotated[str | None, "as in [data], for the file of this corpus"] = None
    languages: Annotated[
        tuple[str, ...],
        'codes of its source and its target, ["en", "de"]; corpora of several directions train one multilingual model',
    ] = ()
    dev_source: Annotated[
        str | None, "for a multilingual model: sentences held out, to measure this direction"
    ] = None
    dev_target: Annotated[str | None, "their translations"] = None
    dev: Annotated[
        str | None, "instead of dev_source and dev_target: held-out pairs in one file"
    ] = None

    def __post_init__(self) -> None:
        if bool(self.source) != bool(self.target) or bool(self.source) == bool(self.pairs):
            raise ValueError("data.corpus: name either source and target or pairs, for each corpus")
        if bool(self.dev_source) != bool(self.dev_target) or (self.dev_source and self.dev):
            raise ValueError("data.corpus: name either dev_source and dev_target or dev")

        are_two = len(set(self.languages)) == len(self.languages) == 2
        if self.languages and not (are_two and all(map(is_language_code, self.languages))):
            raise ValueError(
                f"data.corpus: languages is {list(self.languages)}; write the codes of the source "
                'and of the target, such as ["en", "de"]'
            )
        if not 0 < self.weight <= _MOST_WEIGHT:
            raise ValueError(
                f"data.corpus: {self.display_name} has weight {self.weight}; it must be above 0, "
                "up to 1000"
            )

    @property
    def files(self) -> tuple[str, str | None]:
        """Arguments for `read_pairs`: the files of sources and of targets, or one of pairs and None."""
        first = self.source or self.pairs
        assert first is not None
        return first, self.target

    @property
    def sides(self) -> Sides:
        """Languages or columns of the corpus; `read_pairs` writes into it what it finds."""
        source, target = self.languages or (None, None)
        return Sides(self.source_language or source, self.target_language or target, strict=True)

    @property
    def dev_files(self) -> tuple[str, str | None] | None:
        """Arguments for `read_pairs` of its dev set, if it names one."""
        first = self.dev_source or self.dev
        return None if first is None else (first, self.dev_target)

    @property
    def display_name(self) -> str:
        """Name of the corpus in reports."""
        # The manifest of the model names it, too.
        return make_showable(self.name or Path(self.files[0]).name)


@dataclass(frozen=True)
class DataConfig:
    """Files of sentence pairs: two files line by line, or one of pairs; each may be compressed."""

    source: Annotated[str | None, "sentences to translate from, one a line"] = None
    target: Annotated[str | None, "their translations, line by line"] = None
    train: Annotated[
        str | None, f"instead of source and target: pairs in one file ({PAIR_ENDINGS})"
    ] = None
    dev_source: Annotated[str | None, "sentences held out, to measure progress"] = None
    dev_target: Annotated[str | None, "their translations"] = None
    dev: Annotated[
        str | None, "instead of dev_source and dev_target: held-out pairs in one file"
    ] = None
    source_language: Annotated[
        str | None,
        "language of the sources in a file of pairs that names its languages, or the name or "
        "number of their column; needed if the file has more than two, or does not say its "
        "direction",
    ] = None
    target_language: Annotated[str | None, "language or column of the translations"] = None
    held_out: Annotated[
        int,
        "pairs taken out of the (first) corpus to measure progress, when no file is named",
        POSITIVE,
    ] = 500
    allow_overlap: Annotated[
        bool,
        "also train on pairs that share a sentence with the named dev set, which are left out "
        "otherwise; dev scores are then too good",
    ] = False
    max_characters: Annotated[
        int, "a pair with a longer side is left out, counted and reported", POSITIVE
    ] = 2000
    max_pieces: Annotated[
        int, "a pair with more pieces on a side is left out, too", Field(ge=2)
    ] = 256
    context: Annotated[
        int,
        "sentences before each that the source has, too; lines in order are a document, which an "
        "empty line ends; 1 lets a pronoun have the gender of a noun in the sentence before",
        Field(ge=0),
    ] = 0
    shards: Annotated[
        str | tuple[str, ...] | None,
        "directory that `pellucid prepare` wrote, or several that hold parts of the corpora "
        "(`prepare --corpora`): the ids are read from there",
    ] = None
    corpus: Annotated[
        tuple[CorpusConfig, ...], "instead of source and target: several corpora, each by weight"
    ] = ()
    terms: Annotated[
        float,
        "share of the pairs that are shown with marked terms, each with a translation beside it in "
        "the source, so that the model learns to use a glossary (translate --terms)",
        Field(ge=0, le=1),
    ] = 0.0
    memory: Annotated[
        float,
        "share of the pairs whose source is read after the translation of a similar sentence, if "
        "the text has one, so that the model learns to use a memory (translate --memory)",
        Field(ge=0, le=1),
    ] = 0.0
    noise: NoiseConfig = field(default_factory=NoiseConfig)

    def __post_init__(self) -> None:
        problems = [
            *_explain_files("source and target", self.source, self.target, "train", self.train),
            *_explain_files(
                "dev_source and dev_target", self.dev_source, self.dev_target, "dev", self.dev
            ),
        ]
        if self.corpus and (self.source or self.target or self.train):
            problems.append(
                "data: name either one corpus (source and target, or train) or [[data.corpus]], "
                "not both"
            )
        if not (self.source or self.train or self.corpus) and not problems:
            problems.append(
                "data: no sentences to train on; name source and target, or train, or "
                "[[data.corpus]]"
            )

        # The log counts the pairs seen by name, so no two corpora may share one.
        names = [corpus.display_name for corpus in self.corpus]
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                problems.append(f"data.corpus: two are called {name!r}; give each a name")
        problems += self._explain_stages()
        problems += self._explain_languages()
        if problems:
            raise ValueError("; ".join(problems))

    def _explain_stages(self) -> Iterator[str]:
        """Yield what is wrong with the parts of the run in which the corpora are shown."""
        for corpus in self.corpus:
            if corpus.from_ >= corpus.until:
                yield (
                    f"data.corpus: {corpus.display_name} begins at {corpus.from_:g} of the run "
                    f"and ends at {corpus.until:g}, before"
                )

        shown_until = 0.0
        for corpus in sorted(self.corpus, key=lambda corpus: corpus.from_):
            if corpus.from_ > shown_until:
                yield (
                    f"data.corpus: none is shown from {shown_until:g} to {corpus.from_:g} of the "
                    "run; let one begin earlier (from) or end later (until)"
                )
            shown_until = max(shown_until, corpus.until)

        if self.corpus and shown_until < 1:
            yield (
                f"data.corpus: none is shown from {shown_until:g} of the run to its end; let one "
                "end later (until)"
            )

    def _explain_languages(self) -> Iterator[str]:
        """Yield what is wrong with the directions of the corpora, and with their dev sets."""
        unnamed = [corpus.display_name for corpus in self.corpus if not corpus.languages]
        if 0 < len(unnamed) < len(self.corpus):
            yield (
                f"data.corpus: {', '.join(unnamed)} does not say its languages, others do; all "
                "must, or none"
            )
            return
        if not self.directions:
            if named := [corpus.display_name for corpus in self.corpus if corpus.dev_files]:
                yield (
                    f"data.corpus: {', '.join(named)} has a dev set of its own, which only "
                    "corpora of several directions have (languages); name data.dev_source and "
                    "data.dev_target instead"
                )
            return

        if self.dev_source or self.dev:
            yield (
                "data.dev_source and data.dev are for one direction; name a dev set in a "
                "[[data.corpus]] of each"
            )
        measured = [corpus.languages for corpus in self.corpus if corpus.dev_files]
        wrong = []
        for direction in self.directions:
            if measured.count(direction) != 1:
                wrong.append("-".join(direction))
        if wrong:
            yield (
                f"data.corpus: one dev set for {', '.join(wrong)}, in one of its corpora "
                "(dev_source and dev_target)"
            )
        if self.context:
            yield "data.context is for models of one direction; leave it out here"

    @property
    def directions(self) -> tuple[tuple[str, ...], ...]:
        """Source and target of each direction of a multilingual model; none for other models."""
        languages = [corpus.languages for corpus in self.corpus if corpus.languages]
        directions = tuple(dict.fromkeys(languages))
        return directions if len(directions) > 1 else ()

    @property
    def target_languages(self) -> list[str]:
        """Languages that a multilingual model learns to write."""
        return list(dict.fromkeys(target for _, target in self.directions))

    def tokenizer_of(self, languages: Sequence[str], tokenizer: Tokenizer) -> Tokenizer:
        """Return the tokenizer for the pairs of one direction."""
        return tokenizer.into(languages[1]) if self.directions else tokenizer

    @property
    def shard_folders(self) -> list[Path]:
        """Directories of shards that are named, in any order."""
        names = [self.shards] if isinstance(self.shards, str) else self.shards or ()
        return [Path(name) for name in names]

    @property
    def dev_files(self) -> list[Path]:
        """All files of dev sets."""
        names = [self.dev_source, self.dev_target, self.dev]
        names += [name for corpus in self.corpus for name in corpus.dev_files or ()]
        return [Path(name) for name in names if name is not None]

    @property
    def corpora(self) -> tuple[CorpusConfig, ...]:
        """Corpora to train on, each with its languages; a single one has weight 1."""
        # Readers of the data know several corpora only; a single one is a list of one.
        corpora = self.corpus or (CorpusConfig(self.source, self.target, self.train),)
        with_languages = []
        for corpus in corpora:
            source_language = corpus.source_language or self.source_language
            target_language = corpus.target_language or self.target_language
            with_languages.append(
                replace(corpus, source_language=source_language, target_language=target_language)
            )

        return tuple(with_languages)


def _explain_files(
    pair: str, source: str | None, target: str | None, single: str, file: str | None
) -> Iterator[str]:
    """Yield what is wrong where half of a pair of files is named, or a pair and a single file."""
    if file and (source or target):
        yield f"data: name either {pair} or {single}, not both"
    elif bool(source) != bool(target):
        yield f"data: name either {pair} or {single}, not half of it"


# A setting of a model means the same in a run file, so its meaning is written once.
_meaning = partial(field_meaning, ModelConfig)


@dataclass(frozen=True)
class _ModelSettings:
    """A named size and what differs from it, or an initial model, which fixes all but dropout."""

    start: Annotated[
        str | None,
        "model directory to start from: its weights and its tokenizer; leave out below what it "
        "determines",
    ] = None
    size: Annotated[
        Literal["tiny", "small", "base", "big"], "a name for the five numbers below (see `PRESETS`)"
    ] = "tiny"
    d_model: Annotated[int | None, _meaning("d_model")] = None
    d_ff: Annotated[int | None, _meaning("d_ff")] = None
    heads: Annotated[int | None, _meaning("heads")] = None
    encoder_layers: Annotated[int | None, _meaning("encoder_layers")] = None
    decoder_layers: Annotated[int | None, _meaning("decoder_layers")] = None
    dropout: Annotated[float, _meaning("dropout")] = ModelConfig.dropout
    attention_dropout: Annotated[float, _meaning("attention_dropout")] = (
        ModelConfig.attention_dropout
    )
    activation_dropout: Annotated[float, _meaning("activation_dropout")] = (
        ModelConfig.activation_dropout
    )
    norm: Annotated[Norm, _meaning("norm")] = ModelConfig.norm
    positions: Annotated[Positions, _meaning("positions")] = ModelConfig.positions
    activation: Annotated[Activation, _meaning("activation")] = ModelConfig.activation
    tie: Annotated[
        Tie | None, f"{_meaning('tie')}; if left out, all where the vocabulary is joint"
    ] = None
    max_positions: Annotated[int, _meaning("max_positions")] = ModelConfig.max_positions
    output_bias: Annotated[bool, _meaning("output_bias")] = ModelConfig.output_bias

    def __post_init__(self) -> None:
        if self.size in PRESETS:
            # Building a config checks the numbers now; the vocabularies are not known yet, any size
            # does.
            self.config(5, 5, joint=self.tie != "decoder")

    def config(self, source_vocabulary: int, target_vocabulary: int, joint: bool) -> ModelConfig:
        """Return the configuration of this model for vocabularies of these sizes."""
        # The paper shares one matrix among all embeddings (3.4), which needs a joint vocabulary.
        numbers = {**PRESETS[self.size], "tie": "all" if joint else "decoder"}
        for name, value in asdict(self).items():
            if value is not None and name not in ("start", "size"):
                numbers[name] = value
        return ModelConfig(source_vocabulary, target_vocabulary, **numbers)


@dataclass(frozen=True)
class TrainConfig:
    """Length of the training, size of its updates, and how often to evaluate and to save."""

    steps: Annotated[int | None, "updates to make; name either this or minutes", POSITIVE] = None
    minutes: Annotated[
        float | None, "or minutes to train, evaluations and saving included", POSITIVE
    ] = None
    batch_tokens: Annotated[int, "target positions in a batch, padding counted", POSITIVE] = 4096
    accumulate: Annotated[int, "batches whose gradients are summed for one update", POSITIVE] = 1
    initial_embeddings: Annotated[
        Literal["random", "text"],
        "embeddings that a new model begins with: random vectors, or from the training pairs, so "
        "that a word and its translation begin as neighbours (where both languages share one "
        "table)",
    ] = "random"
    both_directions: Annotated[
        float,
        "share of the run, at its start, in which half of the batches are translated backwards, "
        "from target to source (where both languages share one table)",
        Field(ge=0, le=1),
    ] = 0.0
    precision: Annotated[
        Literal["float32", "bfloat16"],
        "number format of products: bfloat16 only where that is built in; weights, sums and the "
        "optimiser stay float32",
    ] = "float32"
    fused: Annotated[
        Literal["auto", "always", "never"],
        "whether a processor trains with operations that this machine's C compiler has fused: "
        "auto, where products are in bfloat16; the same formulas, other masks of dropout",
    ] = "auto"
    shard_model: Annotated[
        bool,
        "each worker keeps only a part of the weights, gradients and running means: for a model "
        "too large for one",
    ] = False
    evaluate_every: Annotated[
        int | None,
        "updates between evaluations; if left out, a twelfth of the run; a run in minutes then "
        "has none in its first half minute and spends at most a fifth of its time on them",
        POSITIVE,
    ] = None
    save_every: Annotated[
        int | None,
        "updates between checkpoints; if left out, one at each evaluation that is due",
        POSITIVE,
    ] = None
    patience: Annotated[
        int | None,
        "evaluations without a better model before stopping; if left out, never stop",
        POSITIVE,
    ] = None
    dev_sentences: Annotated[
        int, "dev sentences translated for BLEU and chrF at each evaluation", POSITIVE
    ] = 500
    dev_beam: Annotated[int, "beam width of those translations", Field(gt=0, le=LARGEST_BEAM)] = 4
    dev_tokenize: Annotated[
        TokenizerName | None,
        "how BLEU cuts those translations into words, a tokenizer of sacreBLEU; if left out, the "
        "script of the dev references decides",
    ] = None
    keep_reference: Annotated[
        bool,
        "keep up to 200 of those sentences with their translations in each model, for `pellucid "
        "verify`",
    ] = True
    log: Annotated[
        Literal["none", "tensorboard", "mlflow"],
        "send the reports of log.jsonl to TensorBoard's files in the run's directory, or to "
        "MLflow as well",
    ] = "none"
    keep: Annotated[
        int,
        "checkpoints kept; those from the last quarter of the run are averaged at the end",
        POSITIVE,
    ] = 5

    def __post_init__(self) -> None:
        if self.steps is not None and self.minutes is not None:
            raise ValueError("train.steps and train.minutes are both given; name one")
        if self.steps is None and self.minutes is None:
            raise ValueError("neither train.steps nor train.minutes is given; name one")


@dataclass(frozen=True)
class OptimConfig:
    """The optimizer and its learning rate (paper, 5.3)."""

    kind: Annotated[
        Literal["adam", "muon"],
        "Adam for all weights, as in the paper, or Muon for the matrices inside the layers and "
        "Adam for the others",
    ] = "adam"
    peak: Annotated[float, "learning rate at the end of the warm-up", POSITIVE] = 1e-3
    warmup: Annotated[int, "updates until the learning rate is at its peak", POSITIVE] = 1000
    schedule: Annotated[
        Literal["inverse_sqrt", "linear"],
        "after the peak: fall as 1 / sqrt(step), or straight to zero at the end",
    ] = "inverse_sqrt"
    beta1: Annotated[float, "Adam's memory of gradients", SHARE] = 0.9
    beta2: Annotated[float, "Adam's memory of their squares", SHARE] = 0.98
    epsilon: Annotated[float, "keeps Adam's division finite", POSITIVE] = 1e-9
    clip: Annotated[
        float,
        "largest norm of the gradient, all weights together; a larger one is scaled down",
        POSITIVE,
    ] = 1.0
    weight_decay: Annotated[
        float,
        "share of each matrix inside the layers that an update takes away, times the learning "
        "rate; 0: none",
        Field(ge=0),
    ] = 0.0
    label_smoothing: Annotated[
        float, "share of the target's probability spread over the vocabulary", SHARE
    ] = 0.1
    dropout_rise: Annotated[
        float,
        "epochs over which dropout grows from 0 to the model's; 0: all of it from the start",
        Field(ge=0),
    ] = 0.0


@dataclass(frozen=True)
class RunConfig:
    """All settings of one training run."""

    data: DataConfig
    train: TrainConfig
    seed: Annotated[int, "seed of the weights, the order of the data and dropout", Field(ge=0)] = 1
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: _ModelSettings = field(default_factory=_ModelSettings)
    optim: OptimConfig = field(default_factory=OptimConfig)

    def __post_init__(self) -> None:
        if self.data.noise.pieces and self.tokenizer.kind in ("char", "word"):
            raise ValueError(
                f"data.noise.pieces is {self.data.noise.pieces:g}, but pieces of kind "
                f"{self.tokenizer.kind!r} have no halves; take tokenizer.kind = 'bpe' or "
                "'unigram', or leave it out"
            )
        if self.model.tie == "all" and not self.tokenizer.joint and self.tokenizer.kind != "marian":
            raise ValueError(
                "model.tie = 'all' shares one matrix, which needs tokenizer.joint = true"
            )
        for name in ("terms", "memory"):
            share = getattr(self.data, name)
            if share and not self.tokenizer.joint and self.tokenizer.kind != "marian":
                raise ValueError(
                    f"data.{name} = {share:g} puts translations into sources, which needs "
                    "tokenizer.joint = true"
                )
        # Otherwise a sentence that the data lets through would not fit the model.
        if self.data.max_pieces > self.model.max_positions:
            raise ValueError(
                f"data.max_pieces {self.data.max_pieces} is more than model.max_positions "
                f"{self.model.max_positions}"
            )

    def model_config(self, tokenizer: Tokenizer) -> ModelConfig:
        """Return the configuration of the run's model, for the vocabularies of a tokenizer."""
        sizes = tokenizer.source_vocabulary, tokenizer.target_vocabulary
        return self.model.config(*sizes, self.tokenizer.joint)


def read_run(
    path: Path, overrides: tuple[str, ...] | list[str] = (), began: Path | None = None
) -> RunConfig:
    """Read a run file, changed by `section.key=value` overrides.

    Relative names of data files and of the initial model are looked up beside the run file;
    `${NAME}` in them stands for an environment variable. Settings that the initial model determines
    are filled in; a run that is resumed in the directory `began` has them there already. Raises
    ValueError, naming every problem at once, for unknown keys and impossible values.
    """
    return make_run(override_run(read_run_tables(path), overrides), str(path), path.parent, began)


def read_run_tables(path: Path) -> dict[str, Any]:
    """Read the tables of a run file; ValueError, with advice, for one that is not TOML."""
    try:
        return read_toml(path)
    except ValueError as error:
        # In a run file by its name the place of the fault is all that is wanted.
        if path.suffix.lower() == ".toml":
            raise
        start = path.read_bytes()[:1000].removeprefix(codecs.BOM_UTF8)
        first_line = start.partition(b"\n")[0].decode("utf-8", "replace")
        raise ValueError(
            f"{error}. A run file holds settings, such as steps = 5000 under [train]; this file "
            f"begins with {first_line.strip()[:40]!r}. To train on sentences, give --source "
            f"{path} and their translations as --target; if it holds pairs with a tab between "
            "source and target, let its name end in .tsv and give it as --source"
        ) from None


def override_run(tables: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Apply overrides to the tables of a run; train.steps and train.minutes replace each other.

    >>> override_run({"train": {"minutes": 30, "keep": 5}}, ["train.steps=500"])
    {'train': {'keep': 5, 'steps': 500}}
    """
    # With no overrides this is a copy: the caller's tables stay as they are.
    result = apply_overrides(tables, [])
    for override in overrides:
        train, name = result.get("train"), override.partition("=")[0].strip()
        if isinstance(train, dict) and name in ("train.steps", "train.minutes"):
            # A run has either length, never both.
            train.pop("steps", None)
            train.pop("minutes", None)
        result = apply_overrides(result, [override])

    return result


def make_run(
    tables: dict[str, Any],
    where: str = "the settings",
    folder: Path = Path(),
    began: Path | None = None,
) -> RunConfig:
    """Build a run from tables in memory; its files are looked up in `folder`."""
    tables = _without_removed_settings(tables, where)
    data, model = tables.get("data"), tables.get("model")
    if began is not None and isinstance(data, dict) and _began_with_overlap(began):
        tables["data"] = {"allow_overlap": True, **data}

    # Before the tables are checked, for the initial model fills in some of them.
    if isinstance(model, dict) and isinstance(model.get("start"), str):
        start = _resolve_path(folder, model["start"])
        tables["model"] = {**model, "start": start}
        tables = fill_from_initial_model(tables, start, began)

    run = build_settings(RunConfig, tables, where)
    corpora = tuple(_resolve_paths(corpus, _CORPUS_PATHS, folder) for corpus in run.data.corpus)
    data = _resolve_paths(replace(run.data, corpus=corpora), DATA_PATHS, folder)
    return replace(run, data=data)


def _began_with_overlap(began: Path) -> bool:
    """Whether a directory holds a run of a version that always trained on pairs of the dev set."""
    # A run.toml names every setting of its version.
    data = None
    if (began / "run.toml").is_file():
        data = read_toml(began / "run.toml").get("data")
    return isinstance(data, dict) and "allow_overlap" not in data


def _without_removed_settings(tables: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the tables without removed settings; ValueError for one that had another value."""
    # The run.toml of a run that an older version began names every setting, these too, and it can
    # still be resumed.
    kept, problems = dict(tables), []
    for key, (unused, version) in _REMOVED_SETTINGS.items():
        section, _, name = key.partition(".")
        table = kept.get(section)
        if not isinstance(table, dict) or name not in table:
            continue
        kept[section] = {other: value for other, value in table.items() if other != name}
        if table[name] != unused:
            problems.append(
                f"{key} = {table[name]!r:.60}: this setting was removed, version {version} was "
                "the last that had it; leave it out, or train with that version"
            )

    if problems:
        raise ValueError(f"{where}: {'; '.join(problems)}")

    return kept


def _resolve_paths(settings: Any, names: Sequence[str], folder: Path) -> Any:
    """Return settings with these paths made absolute; relative ones are looked up in `folder`.

    Raises ValueError for a path whose text can be read only once.
    """
    reason = "a run reads its text several times, and again when it is resumed"
    given = [name for name in names if getattr(settings, name) is not None]
    paths = {}
    for name in given:
        value = getattr(settings, name)
        if isinstance(value, tuple):
            paths[name] = tuple(_resolve_path(folder, path) for path in value)
            continue
        # Before it is made absolute: a pipe has no path of its own.
        if value != "-":
            refuse_read_once(folder / value, reason)
        paths[name] = _resolve_path(folder, value)
    return replace(settings, **paths)


def _resolve_path(folder: Path, name: str) -> str:
    """Return an absolute path, with each `${NAME}` replaced by that environment variable."""

    def expand(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(
                f"{name!r} needs the environment variable {match[1]}, which is not set"
            )
        return os.environ[match[1]]

    # Only ${NAME} in braces: a lone $ may be part of a file name. Absolute, for the settings are
    # also written to run.toml in the run's directory, which is another folder.
    return str((folder / re.sub(r"\$\{(\w+)\}", expand, name)).resolve())
