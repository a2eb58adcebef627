"""Settings for training on two files and nothing else, chosen from the number of pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from pellucid.config import SimpleRunOptions, apply_overrides
from pellucid.cpu import has_native_bfloat16
from pellucid.data.corpus import holds_pairs
from pellucid.data.formats import PAIR_ENDINGS
from pellucid.model import PRESETS
from pellucid.training.config import (
    DATA_PATHS,
    RunConfig,
    TrainConfig,
    make_run,
    override_run,
    read_run,
    read_run_tables,
)
from pellucid.training.distributed import ALONE
from pellucid.training.initial_model import initial_model_tables, read_learned_shares
from pellucid.training.shard_writing import count_training_pairs


@dataclass
class _ChosenSettings:
    """Tables of a run file, and the reason for each choice among them that was not the user's."""

    tables: dict[str, Any]
    # Names of settings, as in `--set`, and why they were chosen as they are.
    choices: list[tuple[set[str], str]] = field(default_factory=list)

    def choose(self, settings: Mapping[str, Any], reason: str) -> None:
        """Set settings for a reason."""
        for name, value in settings.items():
            *sections, key = name.split(".")
            table = self.tables
            for section in sections:
                table = table.setdefault(section, {})
            table[key] = value
        self.choices.append((set(settings), reason))

    def make_run(self, overrides: Sequence[str]) -> tuple[RunConfig, tuple[str, ...]]:
        """Return the run with overrides applied, and the reasons for all other settings."""
        overridden = {override.partition("=")[0].strip() for override in overrides}
        # A run has one length: steps take the place of minutes.
        if "train.steps" in overridden:
            overridden.add("train.minutes")
        reasons = tuple(reason for names, reason in self.choices if not names & overridden)
        return make_run(override_run(self.tables, overrides)), reasons


@dataclass(frozen=True)
class _CorpusScale:
    """Settings that suit corpora of up to `pairs` pairs."""

    pairs: float
    size: str
    dropout: float
    vocabulary: int
    batch_tokens: int
    # Of runs of `LONG_MINUTES` or more; left at these values where none were measured. Marked terms
    # cost quality on more text (benchmarks/results/terms.md).
    long_batch_tokens: int | None = None
    both_directions: float = 0.0
    terms: float = 0.0


# Settings by size of the corpus: little text needs a small model, small batches and dropout
# (benchmarks/results).
SCALES = (
    _CorpusScale(20_000, "tiny", 0.3, 4_000, 1024, both_directions=0.3),
    _CorpusScale(60_000, "tiny", 0.3, 8_000, 1024, 2048, both_directions=0.3, terms=0.1),
    _CorpusScale(500_000, "small", 0.2, 8_000, 4096),
    _CorpusScale(5_000_000, "base", 0.1, 16_000, 4096),
    _CorpusScale(float("inf"), "big", 0.1, 32_000, 4096),
)

# Epochs until dropout is at its full rate; a short run sees little text twice, and dropout would
# only slow it down.
_DROPOUT_RISE_EPOCHS = 20.0
# Peak learning rate of each optimizer for each size: the wider the model, the smaller the steps it
# bears (benchmarks/results/trials.md; Muon's rate at the size big was not measured).
PEAKS = {
    "muon": {"tiny": 5e-3, "small": 4e-3, "base": 3e-3, "big": 5e-4},
    "adam": {"tiny": 5e-3, "small": 2e-3, "base": 1e-3, "big": 5e-4},
}
# Updates until the learning rate is at its peak.
_WARMUP = {"tiny": 600, "small": 1000, "base": 4000, "big": 4000}
_MUON_DECAY = 0.1  # weight decay with Muon; with Adam none was measured
# Factor by which the steps of a trained model are smaller, for it would soon forget what it knows
# otherwise.
_FINE_TUNING_DIVISOR = 10
_DEFAULT_MINUTES = 30.0  # minutes of training where neither steps nor minutes are given
# Minutes from which a run is long. A shorter one translates fewer dev sentences, for training makes
# better use of the time, and sees too little of its text more than once to gain by what helps long
# runs.
LONG_MINUTES = 10.0
# What shares of sources are of, by the setting in [data].
_LEARNED = {"terms": "marked terms", "memory": "a similar sentence before them"}
# Dev sentences translated at each evaluation of a run that is not short.
_DEV_SENTENCES = TrainConfig.dev_sentences


def choose_settings(
    data: dict[str, Any],
    pairs: int,
    size: str | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    optimizer: str = "muon",
    can_mark_terms: bool = True,
) -> _ChosenSettings:
    """Choose settings for training on `pairs` pairs from the files in `data`.

    Arguments that are given are kept. `can_mark_terms` says whether both languages have one
    vocabulary that is learned, which a translation in a source needs.
    """
    # The last scale has no upper bound, so one always matches.
    scale = next(scale for scale in SCALES if pairs <= scale.pairs)
    chosen = _ChosenSettings({"data": dict(data), "model": {"size": size}})
    if size is None:
        size = scale.size
        reason = (
            f"A model of size {size} is large enough for the {pairs:,} pairs left to train on "
            "(--size chooses another)."
        )
        chosen.choose({"model.size": size}, reason)

    chosen.choose(
        {"model.dropout": scale.dropout, "optim.dropout_rise": _DROPOUT_RISE_EPOCHS},
        f"Dropout grows to {scale.dropout} in {_DROPOUT_RISE_EPOCHS:.0f} epochs, so that the model "
        f"does not learn the {pairs:,} pairs by heart.",
    )

    is_long = steps is None and (_DEFAULT_MINUTES if minutes is None else minutes) >= LONG_MINUTES
    batch_tokens = scale.batch_tokens
    if is_long and scale.long_batch_tokens:
        batch_tokens = scale.long_batch_tokens
    chosen.choose(
        {"train.batch_tokens": batch_tokens},
        f"Each update learns from about {batch_tokens:,} target pieces: with little text, many "
        "small updates work best.",
    )
    if is_long and scale.both_directions:
        chosen.choose(
            {"train.both_directions": scale.both_directions},
            f"In the first {scale.both_directions:.0%} of the run, half of the batches are "
            "translated backwards: text that is seen often teaches more so.",
        )
    if is_long and scale.terms and can_mark_terms:
        chosen.choose(
            {"data.terms": scale.terms},
            f"In {scale.terms:.0%} of the sources, words carry their translation as a marked term, so "
            "that the model learns to use a glossary (translate --terms).",
        )
    chosen.choose(
        {"tokenizer.vocabulary": scale.vocabulary},
        f"The vocabulary has up to {scale.vocabulary:,} pieces: so many stand often enough in "
        "this much text to be learned.",
    )
    _choose_length_and_precision(chosen, steps, minutes)

    # An unknown size or optimizer is refused later, together with all other problems of the
    # settings.
    known_size = size if size in _WARMUP else "base"
    peak, warmup = PEAKS.get(optimizer, PEAKS["muon"])[known_size], _WARMUP[known_size]
    chosen.choose(
        {"optim.peak": peak, "optim.warmup": warmup, "optim.schedule": "linear"},
        f"The learning rate goes up to {peak:g} in {warmup} updates, and then straight down to "
        "zero at the end.",
    )

    # Measured at the sizes tiny, small and base (benchmarks/results/trials.md).
    chosen.choose(
        {"optim.kind": "muon"},
        "The optimizer Muon changes the matrices inside the layers: it needs fewer updates for the "
        "same loss (--set optim.kind=adam is the optimizer of the paper).",
    )
    if optimizer == "muon":
        chosen.choose(
            {"optim.weight_decay": _MUON_DECAY},
            f"Weight decay is {_MUON_DECAY:g}: short runs translate new text a little better with "
            "it.",
        )
    chosen.choose(
        {"train.initial_embeddings": "text"},
        "Words that often stand in the same pairs begin with similar vectors (--set "
        "train.initial_embeddings=random begins without).",
    )
    return chosen


def choose_settings_for_data(
    data: dict[str, Any],
    overrides: Sequence[str],
    size: str | None = None,
    steps: int | None = None,
    minutes: float | None = None,
) -> _ChosenSettings:
    """Count the pairs of a [data] table, which overrides may change, and choose settings by it."""
    counting_run = make_run(override_run({"data": data, "train": {"steps": 1}}, overrides))
    pairs = count_training_pairs(counting_run.data, counting_run.seed)

    # A size that is named as an override decides the learning rate as --size does; so do an
    # optimizer and a length.
    tables = apply_overrides({}, overrides)
    train = tables.get("train", {})
    if "steps" in train:
        steps, minutes = train["steps"], None
    elif isinstance(train.get("minutes"), int | float):
        minutes = train["minutes"]
    optimizer = str(tables.get("optim", {}).get("kind", "muon"))
    size = tables.get("model", {}).get("size", size)
    tokenizer = tables.get("tokenizer", {})
    can_mark = tokenizer.get("joint", True) is True and tokenizer.get("kind") != "marian"
    return choose_settings(data, pairs, size, steps, minutes, optimizer, can_mark)


def _choose_fine_tuning_settings(
    data: dict[str, str],
    model: dict[str, Any],
    config: Mapping[str, Any],
    learned: Mapping[str, float],
    steps: int | None = None,
    minutes: float | None = None,
) -> _ChosenSettings:
    """Choose settings for a run from an initial model.

    `model` is the run's [model] table, `config` the model's own, and `learned` the shares of terms
    and similar sentences in its training.
    """
    # The model may have any width: the smallest named size that is as wide decides.
    wide_enough = [name for name in PRESETS if config["d_model"] <= PRESETS[name]["d_model"]]
    size = wide_enough[0] if wide_enough else "big"
    peak, warmup = PEAKS["adam"][size] / _FINE_TUNING_DIVISOR, _WARMUP[size]
    chosen = _ChosenSettings({"data": dict(data), "model": model})
    _choose_length_and_precision(chosen, steps, minutes)
    if learned:
        chosen.choose(
            {f"data.{name}": share for name, share in learned.items()},
            f"As many sources have {' and '.join(_LEARNED[name] for name in learned)} as in the "
            "training of the model that this one starts from, or it would forget what they mean.",
        )
    chosen.choose(
        {"optim.peak": peak, "optim.warmup": warmup, "optim.schedule": "linear"},
        f"The learning rate goes up to {peak:g}, {_FINE_TUNING_DIVISOR} times less than Adam's for "
        "a new model of this width, then straight down to zero: larger steps learn faster and "
        "forget more (--set optim.peak=...).",
    )
    return chosen


def _choose_length_and_precision(
    chosen: _ChosenSettings, steps: int | None, minutes: float | None
) -> None:
    """Choose the length of the run, unless it is given, and the format of its products."""
    train = chosen.tables.setdefault("train", {})
    if steps is not None:
        train["steps"] = steps
    if minutes is not None:
        train["minutes"] = minutes

    if steps is None and minutes is None:
        chosen.choose(
            {"train.minutes": _DEFAULT_MINUTES},
            f"The run takes {_DEFAULT_MINUTES:.0f} minutes, enough for a first result (--minutes "
            "or --steps chooses; longer is better).",
        )
    elif minutes is not None and minutes < LONG_MINUTES:
        sentences = max(100, round(_DEV_SENTENCES * minutes / LONG_MINUTES))
        chosen.choose(
            {"train.dev_sentences": sentences},
            f"Progress is measured on {sentences} sentences only, because the run is short.",
        )
    if has_native_bfloat16(ALONE.device):
        chosen.choose(
            {"train.precision": "bfloat16"},
            "It computes in bfloat16, which this processor is fast at (--set "
            "train.precision=float32 for more digits).",
        )


def run_settings(
    run: str | Path | Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    *,
    began: Path | None = None,
    **options: Unpack[SimpleRunOptions],
) -> tuple[RunConfig, tuple[str, ...]]:
    """Return the settings of a run, from its file or tables, or chosen for the files in `options`.

    Settings that are not named are chosen by the size of the corpus; the reasons for those that
    were not overridden are returned beside them. `overrides` are applied last, as
    `section.key=value`. `began` is the directory of a run to resume, which recorded its settings:
    those that are not named stay as they were chosen when it began, although another length,
    machine or version might choose others. Raises ValueError for a run file together with other
    names.
    """
    if began is not None and not (began / "run.toml").is_file():
        began = None  # nothing was begun there yet: the run is a new one

    # What was given, by the table of the run that it belongs to.
    data, model, length = {}, {}, {}
    for name, value in options.items():
        if value is None:
            continue
        if name in ("steps", "minutes"):
            length[name] = value
        elif name in ("size", "start"):
            model[name] = str(value)
        else:
            data[name] = str(value)

    if len(length) == 2:
        raise ValueError("steps and minutes are both given; name one")

    # Before the overrides, so that --set train.steps wins over steps.
    all_overrides = [*(f"train.{name}={value}" for name, value in length.items()), *overrides]

    if run is None:
        data = _data_table(data)
        if began is not None:
            tables = _recorded_tables(began, data, model)
            where = str(began / "run.toml")
            return make_run(override_run(tables, all_overrides), where, began=began), ()
        if "start" not in model:
            chosen = choose_settings_for_data(data, overrides, model.get("size"), **length)
        else:
            start = str(Path(model["start"]).resolve())
            initial_settings = initial_model_tables(start)["model"]
            learned = read_learned_shares(start)
            chosen = _choose_fine_tuning_settings(data, model, initial_settings, learned, **length)
        return chosen.make_run(overrides)

    if data or model:
        given = data | model
        section, name = "data" if data else "model", next(iter(given))
        raise ValueError(
            f"a run file and {', '.join(given)} are both given; write it into the file, or "
            f"override: --set {section}.{name}={given[name]}"
        )
    if isinstance(run, Mapping):
        return make_run(override_run(run, all_overrides), began=began), ()
    if holds_pairs(run):
        raise ValueError(
            f"{run} is a file of pairs, not a run file; name it as the source: --source {run}"
        )

    return read_run(Path(run), all_overrides, began), ()


def _recorded_tables(began: Path, data: dict[str, str], model: dict[str, str]) -> dict[str, Any]:
    """Return the tables that a run recorded when it began, with the files and the model given now."""
    tables = read_run_tables(began / "run.toml")
    if isinstance(recorded := tables.get("data"), Mapping):
        # The files are the named ones alone: a dev set beside them would be another dev set.
        kept = {name: value for name, value in recorded.items() if name not in DATA_PATHS}
        tables["data"] = kept | data
    if isinstance(recorded := tables.get("model"), Mapping):
        tables["model"] = {**recorded, **model}
    return tables


def _data_table(data: dict[str, str]) -> dict[str, str]:
    """Return the table [data] with each single file of pairs under the key of such files."""
    if not {"source", "target"} & data.keys():
        raise ValueError("nothing to train on: name a run file, or source and target")

    data = dict(data)
    for source, target, pairs_key in (
        ("source", "target", "train"),
        ("dev_source", "dev_target", "dev"),
    ):
        files = {name: data[name] for name in (source, target) if name in data}
        if "-" in files.values():
            raise ValueError(
                "training reads its files more than once, so none of them can be standard input"
            )
        if list(files) == [source] and holds_pairs(files[source]):
            data[pairs_key] = data.pop(source)
        elif len(files) == 1:
            [file], [missing] = files.values(), {source, target} - files.keys()
            if Path(file).suffix.lower() in (".xlsx", ".xls", ".ods"):
                raise ValueError(
                    f"{file} is a spreadsheet, which training cannot read; save it as CSV, and "
                    f"name that file as {source}"
                )
            raise ValueError(
                f"{missing} is missing: name the file that belongs to {file}, line by line; or, "
                f"as {source} alone, one file of pairs, which ends in {PAIR_ENDINGS}"
            )

    return data
