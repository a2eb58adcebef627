"""load() and train(); the object a user holds: translate, score, trace, evaluate."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from pellucid import lazy_bundle
from pellucid.decode.assemble import NotTranslated, Translation
from pellucid.decode.config import SearchConfig, SearchOptions, refuse_unknown_options
from pellucid.decode.ctranslate2_engine import CTranslate2Engine
from pellucid.decode.engine_choice import choose_engine, refuse_engine_options
from pellucid.decode.terms import Terms
from pellucid.decode.translate import Score, Translator
from pellucid.lazy_bundle import LazyBundle

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.model import Transformer
    from pellucid.trace.edits import EditSpec
    from pellucid.trace.trace import ModelQueries, Trace
    from pellucid.train.config import RunConfig


GivenTerms = Terms | Mapping[str, str] | Iterable[tuple[str, str]] | None


@dataclass(frozen=True)
class LoadRequest:
    """What `load` was given, with whole paths that hold in another working directory, and the SHA-256 of its models."""

    directory: str
    options: dict[str, Any]
    models: list[str]


@dataclass(frozen=True)
class Model:
    """A trained model and its tokenizer. `manifest` says what is known of it: data, step, dev scores, versions."""

    lazy_bundle: "Bundle | LazyBundle"
    translator: Translator
    load_request: "LoadRequest | None" = None
    """How it was loaded, so that it can be loaded again; None for one that was put together by hand."""

    def __repr__(self) -> str:
        sizes, pieces = self.translator.models_or_bundles[0].config, len(self.translator.tokenizer.target_names)
        lines = [
            f"<pellucid.Model {self.directory}",
            f"{sizes.encoder_layers} + {sizes.decoder_layers} layers, d_model {sizes.d_model}, {pieces:,} pieces",
        ]
        languages = self.manifest.get("languages")
        if isinstance(languages, Mapping):
            lines[1] += f", {languages.get('source')} to {languages.get('target')}"
        if self.load_request is not None:
            engine = "CTranslate2" if isinstance(self.translator.engine, CTranslate2Engine) else "torch"
            given = self.load_request.options
            lines.append(f"{engine}, {given['exported'] or given['precision']}, {given['device']}")
            lines[2] += "".join(f", with {each}" for each in given["others"])
        return "\n  ".join(lines) + ">"

    def __reduce__(self) -> tuple[Any, ...]:
        """As a path and the options of `load`, so that whoever is sent it loads it there again, without its weights.

        What was changed in memory does not go with it. Raises TypeError for a model that was put together by hand.
        """
        if self.load_request is None:
            raise TypeError("this model was put together by hand; only one from pellucid.load can be sent, as its path")
        return reload_model, (self.load_request,)

    @cached_property
    def bundle(self) -> "Bundle":
        """The model itself, with what belongs to it; where CTranslate2 translates, only this has the weights read."""
        if not isinstance(self.lazy_bundle, LazyBundle):
            return self.lazy_bundle
        from pellucid.bundle import Bundle

        return Bundle(
            self.lazy_bundle.model, self.lazy_bundle.tokenizer, self.lazy_bundle.manifest, self.lazy_bundle.directory
        )

    @property
    def manifest(self) -> dict[str, Any]:
        """What stands in the model directory's manifest.json."""
        return self.lazy_bundle.manifest

    @property
    def directory(self) -> Path:
        """Where the model was loaded from."""
        return self.lazy_bundle.directory

    @property
    def lowercase(self) -> bool:
        """Whether it writes lower case only, so that its translations are scored without case."""
        return self.translator.tokenizer.lowercase

    @overload
    def translate(  # pyright: ignore[reportOverlappingOverload]  # a str is an Iterable[str], too
        self,
        lines: str,
        *,
        terms: GivenTerms = None,
        prefixes: str | None = None,
        **search: Unpack[SearchOptions],
    ) -> Translation: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        *,
        terms: GivenTerms = None,
        prefixes: Iterable[str] | None = None,
        **search: Unpack[SearchOptions],
    ) -> list[Translation]: ...

    def translate(
        self,
        lines: str | Iterable[str],
        *,
        terms: GivenTerms = None,
        prefixes: str | Iterable[str] | None = None,
        **search: Unpack[SearchOptions],
    ) -> Translation | list[Translation]:
        """The translation of one text, or of each of several lines, in their order.

        `search` takes the names of `SearchConfig`: beam, n_best, ... `terms` map a source term to the term that must
        translate it, or are such pairs; `prefixes` the text that each translation begins with: one for one text, else
        one for each line. A line that cannot be translated as asked stays as it is, with stop = "failed" and the reason
        in its notes; a warning names it. Raises ValueError for settings that are no search, for a line that is no text,
        and, naming them, for lines with a prefix that has no room.
        """
        config = SearchConfig.of(search)
        if isinstance(lines, str):
            if not isinstance(prefixes, str | None):
                raise ValueError("prefixes are several and lines is one text: give one prefix, as a text")
            begin = None if prefixes is None else [prefixes]
            return next(
                warn_of_failures(self.translator.translate([lines], config, terms=as_terms(terms), prefixes=begin))
            )
        begin = None if prefixes is None else list(check_texts(prefixes, "prefixes"))
        found = self.translator.translate(list(check_texts(lines)), config, terms=as_terms(terms), prefixes=begin)
        return list(warn_of_failures(found))

    def translate_stream(
        self,
        lines: Iterable[str],
        block: int = 2048,
        *,
        terms: GivenTerms = None,
        prefixes: Iterable[str] | None = None,
        **search: Unpack[SearchOptions],
    ) -> Iterator[Translation]:
        """As `translate`, for any number of lines in bounded memory: `block` of them at a time."""
        config = SearchConfig.of(search)
        if block < 1:
            raise ValueError(f"block is {block}, it must be 1 or more")
        begin = None if prefixes is None else check_texts(prefixes, "prefixes")
        given = as_terms(terms)
        return warn_of_failures(
            self.translator.translate_stream(check_texts(lines), config, block, terms=given, prefixes=begin)
        )

    @overload
    def score(  # pyright: ignore[reportOverlappingOverload]
        self, sources: str, targets: str, batch: int = 0
    ) -> Score: ...

    @overload
    def score(self, sources: Iterable[str], targets: Iterable[str], batch: int = 0) -> list[Score]: ...

    def score(self, sources: str | Iterable[str], targets: str | Iterable[str], batch: int = 0) -> Score | list[Score]:
        """The log-probability of a given translation, or of each: how likely the model is to write just that.

        Raises ValueError for unequal numbers of sources and targets, and for what is no text.
        """
        if batch < 0:
            raise ValueError(f"batch is {batch}, it must be 0 or more")
        if isinstance(sources, str) and isinstance(targets, str):
            return self.translator.score([sources], [targets], batch)[0]
        return self.translator.score(
            list(check_texts(sources, "sources")), list(check_texts(targets, "targets")), batch
        )

    def trace(
        self,
        sentence: str,
        *,
        target: str | Sequence[int] | None = None,
        beam: int = 4,
        prefix_ids: Sequence[int] = (),
        edits: "Iterable[EditSpec | Mapping[str, Any]]" = (),
        keep: str | Iterable[str] | None = None,
    ) -> "Trace":
        """One translation with everything that led to it: pieces, every named tensor, every step, the beam tree.

        The text, the score and the reason for stopping are those of `translate([sentence], beam=beam)`. With a `target`
        nothing is searched for: that translation is read, and where it comes as the ids of pieces, just these, with the
        end mark or without. `prefix_ids` are the pieces a translation shall begin with, `edits` what is changed in the
        run (see `Trace.edited`).
        `keep` says which tensors are captured, by patterns of their names ("decoder.*.cross.pattern"); by default all
        of them up to 64 pieces a side, and the patterns up to 256. Raises ValueError, with the numbers, for a sentence
        that is longer, for one that takes more than 1 GiB, and for one that is translated in several parts.

            trace = model.trace("The ball is blue.")
            trace["decoder.3.cross.pattern"].at(H=2)      # an array: target positions by source positions
            trace.steps[1].top[:3]                        # what could have been written there
            trace.edited(Silence("decoder.3.cross", 2))   # the same again without that head
            trace.save_html("ball.html")                  # the page, in one file
        """
        from pellucid.trace.edits import check_edits
        from pellucid.trace.tracing import trace_sentence

        return trace_sentence(
            self.translator,
            self.bundle,
            sentence,
            target=target,
            beam=beam,
            prefix_ids=prefix_ids,
            edits=check_edits(edits),
            keep=keep,
            model_queries=import_model_queries,
        )

    def evaluate(
        self,
        sources: Iterable[str],
        references: Iterable[str] | Iterable[Sequence[str]],
        **search: Unpack[SearchOptions],
    ) -> dict[str, dict[str, Any]]:
        """BLEU, chrF, TER and WER of the model's translations, each as {"score", "signature"}.

        `references` are one for each source; or several for each, as sacreBLEU takes them: a list of the first of every
        source, a list of the second, and so on. Upper and lower case are told apart, but for a model that writes lower
        case only (`tokenizer.lowercase`). Raises ValueError for unequal numbers, and for what is no text.
        """
        from pellucid.evaluate.scores import corpus_scores, reference_streams, refuse_unequal

        SearchConfig.of(search)
        lines = list(check_texts(sources, "sources"))
        streams = [list(check_texts(each, "references")) for each in reference_streams(references)]
        refuse_unequal(len(lines), "sources", streams)
        options: SearchOptions = {"scores": False, **search}
        translations = self.translate(lines, **options)
        return corpus_scores([each.text for each in translations], streams, lowercase=self.lowercase)


def import_model_queries() -> "ModelQueries":
    """What a page may ask of the whole model, beside a trace."""
    from pellucid.inspect import model_queries

    return model_queries


def load(
    directory: str | Path,
    precision: str = "float32",
    engine: str = "torch",
    *,
    others: Sequence[str | Path] = (),
    exported: str | Path | None = None,
    workers: int | None = None,
    device: str = "cpu",
) -> Model:
    """The model in a model directory, such as runs/demo/best, ready to translate.

    `engine` is what runs it: "torch"; "ctranslate2", which is faster and must be installed; or "auto", which takes
    CTranslate2 where that gives the same text. `precision` is "float32", "bfloat16" or, with CTranslate2, "int8".
    `others` are models with the same tokenizer that translate together with it: the mean of their probabilities.
    `exported` is a directory that `pellucid export --to ctranslate2` made of it. CTranslate2 runs `workers` batches at
    a time, by default one on each processor; 1 is quicker where sentences come one by one. Beside it torch is imported
    when it is first needed, and then has as many threads as one of the workers. On a `device` such as "cuda" torch
    runs the model; that a line is translated alike in every batch is promised on a CPU only. Raises ValueError, saying
    what is wrong and what to do, for a directory that holds no sound model, and for what does not go together.
    """
    place = None if exported is None else Path(exported)
    refuse_engine_options(engine, precision, place, bool(others), device)
    half = precision == "bfloat16" and engine != "ctranslate2"
    if device != "cpu":
        engine = "torch"
    if engine == "torch" or others or half:
        every, models = load_torch_models([directory, *others], half, device)
        found, *_ = every
        translator = Translator(models[0], found.tokenizer, *models[1:], trained=longest_trained_source(found.manifest))
    else:
        found, *_ = every = [lazy_bundle.load_lazy_bundle(directory)]
        translator = Translator(found, found.tokenizer, trained=longest_trained_source(found.manifest))
    translator.engine = choose_engine(engine, precision, found, translator, place, workers)
    options = {
        "precision": precision,
        "engine": engine,
        "others": [str(Path(each).resolve()) for each in others],
        "exported": None if place is None else str(place.resolve()),
        "workers": workers,
        "device": device,
    }
    digests = [each.manifest["sha256"] for each in every]
    return Model(found, translator, LoadRequest(str(Path(directory).resolve()), options, digests))


def reload_model(loaded: LoadRequest) -> Model:
    """A model as it was loaded before, perhaps in another process; ValueError if other models stand there now."""
    found = load(loaded.directory, **loaded.options)
    if found.load_request != loaded:
        places = " or ".join([loaded.directory, *loaded.options["others"]])
        raise ValueError(f"{places} holds another model than the one that was sent; load it again and send that")
    return found


def load_torch_models(
    directories: Sequence[str | Path], bfloat16: bool, device: str = "cpu"
) -> "tuple[list[Bundle], list[Transformer]]":
    """These model directories and their models, which have one tokenizer; half: in bfloat16."""
    from pellucid import bundle
    from pellucid.decode.ensemble import require_one_vocabulary
    from pellucid.model.bfloat16 import describe_missing_bfloat16, has_native_bfloat16

    found = [bundle.load_bundle(each) for each in directories]
    require_one_vocabulary(found)
    models = [each.model.to(device) for each in found]
    place = models[0].output_embedding.weight.device
    if bfloat16 and not has_native_bfloat16(place):
        said = (
            f"precision = bfloat16, which {describe_missing_bfloat16(place)}: torch imitates it, and float32 is faster"
        )
        warnings.warn(said, stacklevel=3)
    return found, [each.bfloat16() if bfloat16 else each for each in models]


def longest_trained_source(manifest: Mapping[str, Any]) -> int | None:
    """Pieces of the longest source the model was trained on, where its directory says so."""
    longest = manifest.get("longest_source")
    return longest if isinstance(longest, int) and longest > 1 else None


def as_terms(terms: GivenTerms) -> Terms | None:
    """Pairs as terms."""
    return terms if terms is None or isinstance(terms, Terms) else Terms.of(terms)


class SimpleRunOptions(TypedDict, total=False):
    """What `run_settings` takes instead of a run file, for type checkers and completion; a test keeps them equal."""

    source: str | Path | None
    target: str | Path | None
    dev_source: str | Path | None
    dev_target: str | Path | None
    size: str | None
    start: str | Path | None
    steps: int | None
    minutes: float | None


def train(
    run: str | Path | Mapping[str, Any] | None = None,
    *,
    out: str | Path,
    resume: bool = False,
    **form: Unpack[SimpleRunOptions],
) -> Model:
    """Train and return the best model; what is written stands in the directory `out`.

    `run` is a run file, or its tables as a mapping; instead of it `form` may name source, target (left out where the
    source is a file of pairs), dev_source, dev_target, size or start (a model to go on from); what is left out follows
    from the size of the corpus. Either takes steps or minutes. Raises ValueError for settings or data that cannot be
    trained with, KeyboardInterrupt when the run was interrupted: it is saved then, and goes on with `resume`.
    """
    from pellucid.train.loop import train_run as train_run

    refuse_unknown_options(form, list(SimpleRunOptions.__annotations__))
    settings, reasons = run_settings(run, began=Path(out) if resume else None, **form)
    outcome = train_run(settings, Path(out), resume=resume, reasons=reasons)
    if outcome.evaluation is None:
        raise KeyboardInterrupt(f"{outcome.stop}; everything is saved in {out}, go on with resume=True")
    return load(outcome.best)


def run_settings(
    run: str | Path | Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    *,
    began: Path | None = None,
    source: str | Path | None = None,
    target: str | Path | None = None,
    dev_source: str | Path | None = None,
    dev_target: str | Path | None = None,
    size: str | None = None,
    start: str | Path | None = None,
    steps: int | None = None,
    minutes: float | None = None,
) -> tuple["RunConfig", tuple[str, ...]]:
    """The settings of a run from a file or from tables, with another length perhaps, or from a few names.

    Raises ValueError for a mixture of them. `overrides` are written over them as `section.key=value`; `began` is the
    directory of a run that goes on, which knows what the model said that it started from. What follows from a few names
    is chosen by the size of the corpus: the reasons come back beside the settings.
    """
    from pellucid.data.corpus import holds_pairs
    from pellucid.train.config import make_run, override_run, read_run
    from pellucid.train.defaults import choose_fine_tuning_settings, choose_settings
    from pellucid.train.initial_model import initial_model_tables
    from pellucid.train.text_reading import count_training_pairs

    if run is None:
        data = data_table(source, target, dev_source, dev_target)
        model = {"size": size, "start": None if start is None else str(start)}
        model = {key: value for key, value in model.items() if value is not None}
        if start is None:
            # What says which pairs are trained on; all else is still to be chosen.
            known = make_run(override_run({"data": data, "train": {"steps": 1}}, overrides))
            choice = choose_settings(data, count_training_pairs(known.data, known.seed), size, steps, minutes)
        else:
            its = initial_model_tables(str(Path(start).resolve()), began)["model"]
            choice = choose_fine_tuning_settings(data, model, its, steps, minutes)
        return make_run(override_run(choice.tables, overrides), began=began), choice.reasons
    tables = {
        "data": {"source": source, "target": target, "dev_source": dev_source, "dev_target": dev_target},
        "model": {"size": size, "start": start},
    }
    given = {(section, k): v for section, table in tables.items() for k, v in table.items() if v is not None}
    if given:
        names = [name for _, name in given]
        override = next(f"{section}.{name}={value}" for (section, name), value in given.items())
        raise ValueError(
            f"a run file and {', '.join(names)} are both given; write it into the file, or override: --set {override}"
        )
    if steps is not None and minutes is not None:
        raise ValueError("steps and minutes are both given; name one")
    length = [f"train.{name}={value}" for name, value in (("steps", steps), ("minutes", minutes)) if value is not None]
    overrides = [*length, *overrides]
    if isinstance(run, Mapping):
        return make_run(override_run(run, overrides), began=began), ()
    if holds_pairs(run):
        raise ValueError(f"{run} is a file of pairs, not a run file; name it as the source: --source {run}")
    return read_run(Path(run), overrides, began), ()


def data_table(
    source: str | Path | None, target: str | Path | None, dev_source: str | Path | None, dev_target: str | Path | None
) -> dict[str, str]:
    """The table [data] of two files for training and two to measure with; instead of any two, one may hold pairs."""
    from pellucid.data.corpus import holds_pairs

    if source is None and target is None:
        raise ValueError("nothing to train on: name a run file, or source and target")
    data = {}
    for first, second, one, names in (
        (source, target, "train", ("source", "target")),
        (dev_source, dev_target, "dev", ("dev_source", "dev_target")),
    ):
        given = {name: str(file) for name, file in zip(names, (first, second), strict=True) if file is not None}
        if "-" in given.values():
            raise ValueError("training reads its files more than once, so none of them can be standard input")
        if list(given) == [names[0]] and holds_pairs(given[names[0]]):
            given = {one: given[names[0]]}
        elif len(given) == 1:
            [file], [missing] = given.values(), set(names) - given.keys()
            raise ValueError(
                f"{missing} is missing: name the file that belongs to {file}, line by line; or, as {names[0]} alone, "
                "one file of pairs, which ends in .tsv or .jsonl"
            )
        data |= given
    return data


def warn_of_failures(translations: Iterable[Translation]) -> Iterator[Translation]:
    """The same; of a line that could not be translated, a warning says its number and why."""
    for number, each in enumerate(translations, start=1):
        if each.stop == "failed":
            reason = "; ".join(each.notes)
            warnings.warn(f"line {number} is not translated and stays as it is: {reason}", NotTranslated, stacklevel=2)
        yield each


def check_texts(given: Iterable[str], name: str = "lines") -> Iterator[str]:
    """Several texts as they come; ValueError at once for what is not several texts, and later for one that is none.

    >>> list(check_texts(["Yes.", None]))
    Traceback (most recent call last):
    ValueError: line 2 is None (NoneType); a text is expected
    """
    if isinstance(given, str):
        raise ValueError(f"{name} is one text; give a list, with one text in it: [{given[:20]!r}]")
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise ValueError(f"{name} is {given!r:.40} ({type(given).__name__}); a list of texts is expected")
    one = {"prefixes": "prefix"}.get(name, name.removesuffix("s"))
    return (check_text(each, f"{one} {number}") for number, each in enumerate(given, start=1))


def check_text(given: str, name: str) -> str:
    """The same text; ValueError for what is none."""
    if not isinstance(given, str):
        raise ValueError(f"{name} is {given!r:.40} ({type(given).__name__}); a text is expected")
    return given
