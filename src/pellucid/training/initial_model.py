"""Initial model of a run: its weights, sizes and tokenizer become the run's."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pellucid.config import read_toml
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.store.atomic import join_problems, read_manifest
from pellucid.store.directory import (
    CONFIG,
    WEIGHTS,
    load_bundle,
    read_config,
    read_description,
    read_unreplaced,
)
from pellucid.store.manifest_checks import make_showable

if TYPE_CHECKING:
    from pellucid.training.config import RunConfig

Result = TypeVar("Result")

# Settings that are not the initial model's: each run chooses its dropout anew, and the rest is the
# tokenizer's.
_OWN_SETTINGS = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "source_vocabulary",
    "target_vocabulary",
)


@dataclass(frozen=True)
class InitialModel:
    """A model to train further."""

    model: Transformer
    tokenizer: Tokenizer
    sha256: str  # SHA-256 of its weights
    # Facts that the models of the run record of it: its name, the SHA-256 of its weights, and its
    # training.
    about: dict[str, Any]


def open_initial_model(run: "RunConfig") -> InitialModel | None:
    """Read and check the model that `run` starts from; None for a run that starts from nothing.

    Raises ValueError for a directory that holds no sound model, and for one that contradicts the
    settings.
    """
    if run.model.start is None:
        return None

    saved = _read_initial_model(load_bundle, run.model.start)
    _refuse_other_languages(run, saved.tokenizer)
    settings = {
        "model": asdict(run.model_config(saved.tokenizer)),
        "tokenizer": asdict(run.tokenizer),
    }
    # Settings that were not filled in from this directory, or before it changed, may describe
    # another model.
    model_tables = _tables_of_config(saved.model.config, saved.tokenizer.config)
    _refuse_contradictions(settings, model_tables, run.model.start)

    # As people name a model: run/best. The whole path would say where it once lay.
    name = make_showable("/".join(saved.directory.resolve().parts[-2:]))
    weights = saved.manifest["files"][WEIGHTS]["sha256"]
    about = {"from": name, "sha256": weights}
    for key in ("step", "longest_source", "languages", "context", "terms", "memory"):
        if key in saved.manifest:
            about[key] = saved.manifest[key]
    return InitialModel(saved.model, saved.tokenizer, weights, about)


def ancestry_notes(initial: Mapping[str, Any] | None, longest: int) -> dict[str, Any]:
    """Return the manifest entries on the initial model and on the longest source seen in training.

    `longest` is the longest source sentence of this run, in tokens.
    """
    if initial is None:
        return {"longest_source": longest}
    longest_before = initial.get("longest_source")
    # Unknown where the initial model does not record it: then the longest is unknown, too.
    longest_ever = max(longest, longest_before) if isinstance(longest_before, int) else None
    return {"longest_source": longest_ever, "start": initial}


def initial_tokenizer(run: "RunConfig") -> Tokenizer | None:
    """Return the tokenizer of the model that a run starts from; None where it learns its own."""
    if run.model.start is None:
        return None

    def read_tokenizer(directory: str) -> Tokenizer:
        _, tokenizer, _ = read_unreplaced(directory, read_description)
        return tokenizer

    tokenizer = _read_initial_model(read_tokenizer, run.model.start)
    _refuse_other_languages(run, tokenizer)
    return tokenizer


def _refuse_other_languages(run: "RunConfig", tokenizer: Tokenizer) -> None:
    """Raise ValueError unless a run and the model that it starts from write the same languages."""
    ours = ", ".join(sorted(run.data.target_languages)) or "one language"
    theirs = ", ".join(sorted(tokenizer.languages)) or "one language"
    if ours != theirs:
        raise ValueError(
            f"model.start: {run.model.start} was trained to write {theirs}, the corpora of this "
            f"run are into {ours}; both must choose among the same languages (languages of each "
            "[[data.corpus]])"
        )


def _read_initial_model(read: Callable[[str], Result], start: str) -> Result:
    """Apply `read` to the model directory `start`; errors are faults of the setting model.start."""
    try:
        return read(start)
    except ValueError as error:
        raise ValueError(f"model.start: {error}") from None


def fill_from_initial_model(
    tables: Mapping[str, Any], start: str, began: Path | None = None
) -> dict[str, Any]:
    """Return the tables of a run with [model] and [tokenizer] filled in from the model in `start`.

    `began` is the directory of a run that is resumed. Raises ValueError for a directory that is no
    model, and, naming both values, for settings that contradict it.
    """
    model_tables = initial_model_tables(start, began)
    run_tables = {}
    for name in model_tables:
        table = tables.get(name, {})
        if isinstance(table, Mapping):
            run_tables[name] = dict(table)

    # A named size stands for five numbers, which must not contradict the model either.
    sizes = PRESETS.get(str(run_tables["model"].get("size")), {})
    settings = {**run_tables, "model": {**sizes, **run_tables["model"]}}
    _refuse_contradictions(settings, model_tables, start)

    filled = dict(tables)
    for name, table in run_tables.items():
        filled[name] = {**model_tables[name], **table}
    return filled


def initial_model_tables(start: str, began: Path | None = None) -> dict[str, dict[str, Any]]:
    """Describe the model in `start` as the tables [model] and [tokenizer] of a run.

    Its weights are not read.
    """
    # A run that is resumed in `began` recorded these tables, and no longer needs the model.
    if began and (recorded := _tables_of_run(began, start)):
        return recorded

    def read_tables(directory: Path) -> dict[str, dict[str, Any]]:
        # Refuses what is no model; whether it is sound shows when it is opened.
        read_manifest(directory)
        return _tables_of_config(*read_config(directory / CONFIG))

    return _read_initial_model(lambda directory: read_unreplaced(directory, read_tables), start)


def read_learned_shares(start: str) -> dict[str, float]:
    """Return in what share of the sources the model in `start` learned terms and similar sentences.

    What it did not learn is left out.
    """

    def read_shares(directory: Path) -> dict[str, float]:
        manifest, shares = read_manifest(directory), {}
        for name in ("terms", "memory"):
            share = manifest.get(name)
            if isinstance(share, int | float) and 0 < share <= 1:
                shares[name] = float(share)
        return shares

    return _read_initial_model(lambda directory: read_unreplaced(directory, read_shares), start)


def _tables_of_config(model: ModelConfig, tokenizer: TokenizerConfig) -> dict[str, dict[str, Any]]:
    """Describe a model configuration as the tables of a run."""
    # A preset fits when its five numbers are all in the configuration.
    numbers, table = asdict(model), {}
    sizes = [name for name, preset in PRESETS.items() if preset.items() <= numbers.items()]
    if sizes:
        table["size"] = sizes[0]
    for key, value in numbers.items():
        if key not in _OWN_SETTINGS:
            table[key] = value
    return {"model": table, "tokenizer": asdict(tokenizer)}


def _tables_of_run(began: Path, start: str) -> dict[str, dict[str, Any]] | None:
    """Return the tables that the run in `began` recorded for this model; None if there is none."""
    if not (began / "run.toml").is_file():
        return None
    tables = read_toml(began / "run.toml")
    model, tokenizer = tables.get("model", {}), tables.get("tokenizer", {})
    if model.get("start") != start:
        return None
    keys = {"size", *(setting.name for setting in fields(ModelConfig))} - {*_OWN_SETTINGS}
    recorded = {key: value for key, value in model.items() if key in keys}
    return {"model": recorded, "tokenizer": tokenizer}


def _refuse_contradictions(
    run_tables: Mapping[str, Mapping[str, Any]],
    model_tables: Mapping[str, Mapping[str, Any]],
    start: str,
) -> None:
    """Raise ValueError, naming both values, for settings that the initial model contradicts."""
    problems = []
    for section, table in model_tables.items():
        ours = run_tables.get(section, {})
        for key, value in table.items():
            # The name of a size is no property of the model; its five numbers are compared one by
            # one.
            if key != "size" and key in ours and ours[key] != value:
                problems.append(f"{section}.{key} is {ours[key]!r}, that model has {value!r}")

    if problems:
        raise ValueError(
            f"{start} is not the model that the settings describe: {join_problems(problems)}; "
            "leave these settings out, for the model determines them, or start from another"
        )
