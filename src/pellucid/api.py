"""load() and train(); the object a user holds: translate, score, trace, evaluate."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid import stored
from pellucid.decode.assemble import Translation
from pellucid.decode.choose import choose, refuse
from pellucid.decode.config import SearchConfig
from pellucid.decode.terms import Terms
from pellucid.decode.translate import Score, Translator
from pellucid.stored import Stored

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.model import Transformer
    from pellucid.trace.trace import Beside, Trace
    from pellucid.train.config import RunConfig


@dataclass(frozen=True)
class Model:
    """A trained model and its tokenizer. `manifest` says what is known of it: data, step, dev scores, versions."""

    found: "Bundle | Stored"
    translator: Translator

    @cached_property
    def bundle(self) -> "Bundle":
        """The model itself, with what belongs to it; where CTranslate2 translates, only this has the weights read."""
        if not isinstance(self.found, Stored):
            return self.found
        from pellucid.bundle import Bundle

        return Bundle(self.found.model, self.found.tokenizer, self.found.manifest, self.found.directory)

    @property
    def manifest(self) -> dict[str, Any]:
        """What stands in the model directory's manifest.json."""
        return self.found.manifest

    @property
    def directory(self) -> Path:
        """Where the model was loaded from."""
        return self.found.directory

    @property
    def lowercase(self) -> bool:
        """Whether it writes lower case only, so that its translations are scored without case."""
        return self.translator.tokenizer.lowercase

    def translate(
        self,
        lines: Sequence[str],
        *,
        terms: Terms | Iterable[tuple[str, str]] | None = None,
        prefixes: Sequence[str] | None = None,
        **search: Any,
    ) -> list[Translation]:
        """One translation for each line, in their order; `search` takes the names of `SearchConfig`: beam, n_best, ...

        `terms` are pairs of a source term and the term that must translate it; `prefixes` the text that each
        translation begins with. Raises ValueError for settings that are no search, and, naming them, for lines that
        cannot be translated as asked.
        """
        config = SearchConfig(**search)
        return self.translator.translate(several(lines, "lines"), config, terms=terminology(terms), prefixes=prefixes)

    def translate_stream(
        self,
        lines: Iterable[str],
        block: int = 2048,
        *,
        terms: Terms | Iterable[tuple[str, str]] | None = None,
        prefixes: Iterable[str] | None = None,
        **search: Any,
    ) -> Iterator[Translation]:
        """As `translate`, for any number of lines in bounded memory: `block` of them at a time."""
        config = SearchConfig(**search)
        return self.translator.translate_stream(lines, config, block, terms=terminology(terms), prefixes=prefixes)

    def score(self, sources: Sequence[str], targets: Sequence[str], batch: int = 0) -> list[Score]:
        """The log-probability of each given translation: how likely the model is to write just that."""
        if batch < 0:
            raise ValueError(f"batch is {batch}, it must be 0 or more")
        return self.translator.score(several(sources, "sources"), several(targets, "targets"), batch)

    def trace(
        self,
        sentence: str,
        *,
        target: str | None = None,
        beam: int = 4,
        prefix_ids: Sequence[int] = (),
        keep: str | Iterable[str] | None = None,
    ) -> "Trace":
        """One translation with everything that led to it: pieces, every named tensor, every step, the beam tree.

        The text, the score and the reason for stopping are those of `translate([sentence], beam=beam)`. With a `target`
        nothing is searched for: that translation is read. `prefix_ids` are the pieces a translation shall begin with.
        `keep` says which tensors are captured, by patterns of their names ("decoder.*.cross.pattern"); by default all
        of them up to 64 pieces a side, and the patterns up to 256. Raises ValueError, with the numbers, for a sentence
        that is longer, for one that takes more than 1 GiB, and for one that is translated in several parts.

            trace = model.trace("The ball is blue.")
            trace["decoder.3.cross.pattern"].at(H=2)      # an array: target positions by source positions
            trace.steps[1].top[:3]                        # what could have been written there
            trace.edited(Silence("decoder.3.cross", 2))   # the same again without that head
            trace.save_html("ball.html")                  # the page, in one file
        """
        from pellucid.trace.tracing import trace

        return trace(
            self.translator,
            self.bundle,
            sentence,
            target=target,
            beam=beam,
            prefix_ids=prefix_ids,
            keep=keep,
            beside=beside,
        )

    def evaluate(self, sources: Sequence[str], references: Sequence[str], **search: Any) -> dict[str, dict[str, Any]]:
        """BLEU, chrF, TER and WER of the model's translations, each as {"score", "signature"}.

        Upper and lower case are told apart, but for a model that writes lower case only (`tokenizer.lowercase`).
        """
        from pellucid.evaluate.scores import corpus_scores

        if len(sources) != len(references):
            raise ValueError(f"{len(sources):,} sources and {len(references):,} references: each source needs its own")
        translations = self.translate(sources, **{"scores": False, **search})
        texts = [each.text for each in translations]
        return corpus_scores(texts, several(references, "references"), lowercase=self.lowercase)


def beside() -> "Beside":
    """What a page may ask of the whole model, beside a trace."""
    from pellucid.inspect import asked

    return asked


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
    refuse(engine, precision, place, bool(others), device)
    half = precision == "bfloat16" and engine != "ctranslate2"
    if device != "cpu":
        engine = "torch"
    if engine == "torch" or others or half:
        found, models = in_torch([directory, *others], half, device)
        translator = Translator(models[0], found.tokenizer, *models[1:], trained=trained_on(found.manifest))
    else:
        found = stored.load(directory)
        translator = Translator(found, found.tokenizer, trained=trained_on(found.manifest))
    translator.engine = choose(engine, precision, found, translator, place, workers)
    return Model(found, translator)


def in_torch(directories: Sequence[str | Path], half: bool, device: str = "cpu") -> "tuple[Bundle, list[Transformer]]":
    """The first of these model directories, and the models of all, which have one tokenizer; half: in bfloat16."""
    from pellucid import bundle
    from pellucid.decode.ensemble import require_one_vocabulary
    from pellucid.model.bfloat16 import built_in, lacking

    found = [bundle.load(each) for each in directories]
    require_one_vocabulary(found)
    models = [each.model.to(device) for each in found]
    place = models[0].output_embedding.weight.device
    if half and not built_in(place):
        said = f"precision = bfloat16, which {lacking(place)}: torch imitates it, and float32 is faster"
        warnings.warn(said, stacklevel=3)
    return found[0], [each.bfloat16() if half else each for each in models]


def trained_on(manifest: Mapping[str, Any]) -> int | None:
    """Pieces of the longest source the model was trained on, where its directory says so."""
    longest = manifest.get("longest_source")
    return longest if isinstance(longest, int) and longest > 1 else None


def terminology(terms: Terms | Iterable[tuple[str, str]] | None) -> Terms | None:
    """Pairs as terms."""
    return terms if terms is None or isinstance(terms, Terms) else Terms.of(terms)


def train(
    run: str | Path | Mapping[str, Any] | None = None, *, out: str | Path, resume: bool = False, **form: Any
) -> Model:
    """Train and return the best model; what is written stands in the directory `out`.

    `run` is a run file, or its tables as a mapping; instead of it `form` may name source, target, dev_source,
    dev_target, size or start (a model to go on from), and steps or minutes; what is left out follows from the size of
    the corpus. Raises ValueError for settings or data that cannot be trained with, KeyboardInterrupt when the run was
    interrupted: it is saved then, and goes on with `resume`.
    """
    from pellucid.train.loop import train as train_run

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
    """The settings of a run from a file, from tables or from a few names; ValueError for a mixture of them.

    `overrides` are written over them as `section.key=value`; `began` is the directory of a run that goes on, which
    knows what the model said that it started from. What follows from a few names is chosen by the size of the corpus:
    the reasons come back beside the settings.
    """
    from pellucid.train.config import changed, make_run, read_run
    from pellucid.train.defaults import choose, choose_on
    from pellucid.train.start import said_by

    tables = {
        "data": {"source": source, "target": target, "dev_source": dev_source, "dev_target": dev_target},
        "model": {"size": size, "start": None if start is None else str(start)},
        "train": {"steps": steps, "minutes": minutes},
    }
    given = {section: {k: v for k, v in table.items() if v is not None} for section, table in tables.items()}
    names = [key for table in given.values() for key in table]
    if run is None:
        if "source" not in names or "target" not in names:
            raise ValueError("nothing to train on: name a run file, or source and target")
        if "-" in map(str, given["data"].values()):
            raise ValueError("training reads its files more than once, so none of them can be standard input")
        data = {key: str(value) for key, value in given["data"].items()}
        if start is None:
            choice = choose(data, size, steps, minutes)
        else:
            known = said_by(str(Path(start).resolve()), began)["model"]
            choice = choose_on(data, given["model"], known, steps, minutes)
        return make_run(changed(choice.tables, overrides), began=began), choice.reasons
    if names:
        override = next(f"{section}.{key}={value}" for section, t in given.items() for key, value in t.items())
        raise ValueError(
            f"a run file and {', '.join(names)} are both given; write it into the file, or override: --set {override}"
        )
    if isinstance(run, Mapping):
        return make_run(changed(run, overrides), began=began), ()
    return read_run(Path(run), list(overrides), began), ()


def several(lines: Sequence[str], name: str) -> Sequence[str]:
    """The same lines; ValueError for one text, whose letters would be taken for lines."""
    if isinstance(lines, str):
        raise ValueError(f"{name} is one text; give a list, with one text in it: [{lines[:20]!r}]")
    return lines
