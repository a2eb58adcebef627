"""The model that a run starts from: its weights, sizes and tokenizer become the run's; all else is of the run."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pellucid import bundle
from pellucid.atomic import join_problems, read_manifest
from pellucid.config import read_toml
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.lazy_bundle import CONFIG, WEIGHTS, read_config, read_description, read_unreplaced
from pellucid.model import PRESETS, ModelConfig, Transformer

if TYPE_CHECKING:
    from pellucid.train.config import RunConfig

Result = TypeVar("Result")

DROPOUT_SETTINGS = ("dropout", "attention_dropout", "activation_dropout")
"""What keeps a model from learning by heart: each run chooses it anew."""

VOCABULARY_SETTINGS = ("source_vocabulary", "target_vocabulary")
"""What follows from the tokenizer."""


@dataclass(frozen=True)
class InitialModel:
    """A model to train on."""

    model: Transformer
    tokenizer: Tokenizer
    sha256: str
    """Of its weights."""
    about: dict[str, Any]
    """What the models of the run say of it: its name, the SHA-256 of its weights, and what it was trained on."""

    def fill(self, model: Transformer) -> Transformer:
        """`model`, which has the same parameters and perhaps another dropout, with these weights."""
        model.load_state_dict(self.model.state_dict())
        return model


def open_initial_model(run: "RunConfig") -> InitialModel | None:
    """The model that `run` starts from, read whole and checked; None for a run that starts from nothing.

    Raises ValueError for a directory that holds no sound model, and for one that is not what the settings say.
    """
    if run.model.start is None:
        return None
    found = read_initial_model(bundle.load_bundle, run.model.start)
    said = {"model": asdict(run.model_config(found.tokenizer)), "tokenizer": asdict(run.tokenizer)}
    refuse_contradictions(said, tables_of_config(found.model.config, found.tokenizer.config), run.model.start)
    weights = found.manifest["files"][WEIGHTS]["sha256"]
    known = {key: found.manifest[key] for key in ("step", "longest_source") if key in found.manifest}
    name = "/".join(found.directory.resolve().parts[-2:])
    return InitialModel(found.model, found.tokenizer, weights, {"from": name, "sha256": weights, **known})


def ancestry_notes(start: Mapping[str, Any] | None, longest: int) -> dict[str, Any]:
    """What a model says of the one that its run started from, if it did, and the longest source that taught it.

    `longest` is that of the run, in pieces. It is unknown where the start does not say what taught it.
    """
    if start is None:
        return {"longest_source": longest}
    before = start.get("longest_source")
    return {"longest_source": max(longest, before) if isinstance(before, int) else None, "start": start}


def initial_tokenizer(run: "RunConfig") -> Tokenizer | None:
    """The tokenizer of the model that `run` starts from; None where the run learns its own."""
    if run.model.start is None:
        return None
    return read_initial_model(lambda place: read_unreplaced(place, read_description).tokenizer, run.model.start)


def read_initial_model(read: Callable[[str], Result], start: str) -> Result:
    """What `read` makes of the model in `start`; what is wrong with that is said to be of this setting."""
    try:
        return read(start)
    except ValueError as error:
        raise ValueError(f"model.start: {error}") from None


def fill_from_initial_model(tables: Mapping[str, Any], start: str, began: Path | None = None) -> dict[str, Any]:
    """The tables of a run, those of [model] and [tokenizer] filled in with what the model in `start` is.

    `began` is the directory of a run that goes on. Raises ValueError for a directory that is no model, and, naming both
    values, for settings that it contradicts.
    """
    theirs = initial_model_tables(start, began)
    given = {name: dict(table) for name in theirs if isinstance(table := tables.get(name, {}), Mapping)}
    sizes = PRESETS.get(str(given["model"].get("size")), {})
    refuse_contradictions({**given, "model": {**sizes, **given["model"]}}, theirs, start)
    return {**tables, **{name: {**theirs[name], **table} for name, table in given.items()}}


def initial_model_tables(start: str, began: Path | None = None) -> dict[str, dict[str, Any]]:
    """What the model in `start` is, its weights unread, as the tables [model] and [tokenizer] of a run.

    A run that goes on in the directory `began` wrote that down, and needs the model no more.
    """
    if began and (kept := tables_of_run(began, start)):
        return kept
    return read_initial_model(lambda place: read_unreplaced(place, tables_of_directory), start)


def tables_of_directory(place: Path) -> dict[str, dict[str, Any]]:
    """What a model directory says it is; whether it is sound shows when the model is opened."""
    read_manifest(place)
    return tables_of_config(*read_config(place / CONFIG))


def tables_of_config(model: ModelConfig, tokenizer: TokenizerConfig) -> dict[str, dict[str, Any]]:
    """The same for any model."""
    sizes = [name for name, numbers in PRESETS.items() if numbers.items() <= asdict(model).items()]
    chosen = {
        key: value for key, value in asdict(model).items() if key not in (*DROPOUT_SETTINGS, *VOCABULARY_SETTINGS)
    }
    return {"model": {**({"size": sizes[0]} if sizes else {}), **chosen}, "tokenizer": asdict(tokenizer)}


def tables_of_run(began: Path, start: str) -> dict[str, dict[str, Any]] | None:
    """The same as a run has it in its run.toml that began from that model; None where there is no such run."""
    if not (began / "run.toml").is_file():
        return None
    tables = read_toml(began / "run.toml")
    model, tokenizer = tables.get("model", {}), tables.get("tokenizer", {})
    if model.get("start") != start:
        return None
    keys = [each.name for each in fields(ModelConfig) if each.name not in (*DROPOUT_SETTINGS, *VOCABULARY_SETTINGS)]
    return {"model": {key: model[key] for key in ("size", *keys) if key in model}, "tokenizer": tokenizer}


def refuse_contradictions(
    given: Mapping[str, Mapping[str, Any]], theirs: Mapping[str, Mapping[str, Any]], start: str
) -> None:
    """ValueError, naming both values of each, for given settings that are not those of the model to start from."""
    problems = [
        f"{section}.{key} is {given[section][key]!r}, that model has {value!r}"
        for section, table in theirs.items()
        for key, value in table.items()
        if key != "size" and key in given.get(section, {}) and not same_setting(given[section][key], value)
    ]
    if problems:
        raise ValueError(
            f"{start} is another model than the settings say: {join_problems(problems)}; leave these "
            "out, for they are the "
            "model's, or start from another"
        )


def same_setting(one: Any, other: Any) -> bool:
    """Whether two settings say the same; heads that were removed may be named in any order."""
    if isinstance(one, str) and isinstance(other, str):
        return sorted(one.split()) == sorted(other.split())
    return one == other
