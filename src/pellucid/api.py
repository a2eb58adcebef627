"""The Python API: `load`, `train`, and the `Model` they return, which translates, scores, traces and evaluates."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, Unpack, overload

from pellucid.config import SimpleRunOptions
from pellucid.data.source_profile import load_source_profile
from pellucid.decode.confidence import read_calibration
from pellucid.decode.corpus_sources import require_context, translate_sources
from pellucid.decode.request import BLOCK, SearchConfig, SearchOptions, refuse_unknown_options
from pellucid.decode.scoring import Score, score_pairs
from pellucid.decode.translation import NotTranslated, Translation
from pellucid.decode.translator import Translator
from pellucid.interop.ctranslate2_engine import CTranslate2Engine
from pellucid.interop.engine_choice import choose_engine, refuse_engine_options
from pellucid.store.directory import Bundle, load_bundle, trained_context
from pellucid.store.manifest_checks import read_languages

if TYPE_CHECKING:
    from pellucid.evaluate.reference import Verification
    from pellucid.interpret.influence.word_influence import WordInfluence
    from pellucid.interpret.trace.edits import EditSpec
    from pellucid.interpret.trace.session import Drawing, ModelQueries, Trace
    from pellucid.localize.terminology import Terms
    from pellucid.localize.translation_memory import TranslationMemory
    from pellucid.model import Transformer


TermsLike: TypeAlias = "Terms | Mapping[str, str] | Iterable[tuple[str, str]] | None"
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _check_arguments(function: Callable[Arguments, Result], options: Iterable[str] = ()) -> Callable[Arguments, Result]:
    """Make a function answer unknown and missing arguments with a ValueError that lists those it takes.

    `options` are the names that it takes as `**options`. Python itself raises a TypeError without the nearest name.
    """
    parameters = signature(function)
    named = [name for name, parameter in parameters.parameters.items() if parameter.kind is not parameter.VAR_KEYWORD]
    known = [name for name in (*named, *options) if name != "self"]

    @wraps(function)
    def call_checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        search_settings = [name for name in kwargs if name in SearchOptions.__annotations__.keys() - known]
        if search_settings:
            raise ValueError(
                f"{function.__name__} does not take {', '.join(search_settings)}, which a search takes: "
                f"give it to Model.translate or Model.evaluate (known here: {', '.join(known)})"
            )
        refuse_unknown_options(kwargs, known)
        try:
            parameters.bind(*args, **kwargs)
        except TypeError as error:
            raise ValueError(f"{function.__name__}: {error} (known: {', '.join(known)})") from None
        return function(*args, **kwargs)

    return call_checked


@dataclass(frozen=True)
class _LoadRequest:
    """The arguments of a call of `load`, with absolute paths, and the SHA-256 of the models that it loaded."""

    directory: str
    options: dict[str, Any]
    models: list[str]


@dataclass(frozen=True)
class Model:
    """A trained model with its tokenizer, and a manifest of its data, step, dev scores and versions."""

    bundle: Bundle
    translator: Translator
    load_request: "_LoadRequest | None" = None
    """The call of `load` that made it, by which it can be loaded again; None for one that was put together by hand."""

    def __repr__(self) -> str:
        sizes, pieces = self.bundle.config, len(self.translator.tokenizer.target_names)
        lines = [
            f"<pellucid.Model {self.directory}",
            f"{sizes.encoder_layers} + {sizes.decoder_layers} layers, d_model {sizes.d_model}, {pieces:,} pieces",
        ]
        if (languages := read_languages(self.manifest)) is not None:
            lines[1] += f", {languages[0]} to {languages[1]}"
        elif self.is_multilingual:
            lines[1] += f", into {self.bundle.tokenizer.language or ' or '.join(self.bundle.tokenizer.languages)}"
        if self.load_request is not None:
            engine = "CTranslate2" if isinstance(self.translator.engine, CTranslate2Engine) else "torch"
            options = self.load_request.options
            lines.append(f"{engine}, {options['exported'] or options['precision']}, {options['device']}")
            lines[2] += "".join(f", with {path}" for path in options["others"])
        return "\n  ".join(lines) + ">"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of `load` instead of the weights; unpickling loads the model again from its directory.

        Changes made in memory are lost. Raises TypeError for a model that was put together by hand.
        """
        # A worker of another process then reads the files itself: megabytes of weights do not go through a pipe.
        if self.load_request is None:
            raise TypeError("this model was put together by hand; only one from pellucid.load can be sent, as its path")
        return _reload_model, (self.load_request,)

    def into(self, language: str) -> "Model":
        """Return this multilingual model for one language to write; both share their weights.

        A model for one language returns itself for the language that it writes. Raises ValueError
        for any other, with the languages that there are.

            model.into("fr").translate("The ball is blue.").text
        """
        languages = read_languages(self.manifest)
        if not self.is_multilingual and languages is not None and languages[1] == language:
            return self
        request = self.load_request
        if request is not None:
            request = replace(request, options=request.options | {"target_language": language})
        return replace(
            self, bundle=self.bundle.into(language), translator=self.translator.into(language), load_request=request
        )

    @property
    def target_language(self) -> str | None:
        """Code of the language that the model writes; None where the model does not say it."""
        languages = read_languages(self.manifest)
        return self.bundle.tokenizer.language or (languages[1] if languages else None)

    @property
    def is_multilingual(self) -> bool:
        """Whether the model must be told which language to write (`into`)."""
        return bool(self.bundle.tokenizer.languages)

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json in the model directory."""
        return self.bundle.manifest

    @property
    def directory(self) -> Path:
        """The directory that the model was loaded from."""
        return self.bundle.directory

    @property
    def lowercase(self) -> bool:
        """Whether the model writes lower case only, so that its translations are scored without case."""
        return self.translator.tokenizer.lowercase

    @overload
    def translate(  # pyright: ignore[reportOverlappingOverload]  # a str is an Iterable[str], too
        self,
        lines: str,
        *,
        terms: TermsLike = None,
        prefixes: str | None = None,
        translation_memory: "TranslationMemory | None" = None,
        **search: Unpack[SearchOptions],
    ) -> Translation: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        *,
        terms: TermsLike = None,
        prefixes: Iterable[str] | None = None,
        translation_memory: "TranslationMemory | None" = None,
        **search: Unpack[SearchOptions],
    ) -> list[Translation]: ...

    def translate(
        self,
        lines: str | Iterable[str],
        *,
        terms: TermsLike = None,
        prefixes: str | Iterable[str] | None = None,
        translation_memory: "TranslationMemory | None" = None,
        **search: Unpack[SearchOptions],
    ) -> Translation | list[Translation]:
        """Translate one text, or several lines in their order.

        `search` takes the names of `SearchConfig`: beam, n_best, ... `terms` is a mapping from
        source terms to the target terms that must translate them, or such pairs. `prefixes` is the
        text that each translation must begin with: one for one text, otherwise one for each line. A
        line that cannot be translated as asked stays as it is, with stop = "failed" and the reason
        in its notes; a warning names it. Raises ValueError for invalid search settings, for a line
        that is not a text, and, naming them, for lines whose prefix leaves no room. A line that is
        in `translation_memory` gets the translation there, with stop = "memory"; `remembered` shows
        the entry, or the entry of a similar line, which is not used.
        """
        config = SearchConfig.from_options(search)
        texts, beginnings = lines, prefixes
        if isinstance(lines, str):
            if not isinstance(prefixes, str | None):
                raise ValueError("prefixes are several and lines is one text: give one prefix, as a text")
            texts, beginnings = [lines], None if prefixes is None else [prefixes]
        translations = self.translator.translate(
            list(_check_texts(texts)),
            config,
            terms=_as_terms(terms),
            prefixes=None if beginnings is None else list(_check_texts(beginnings, "prefixes")),
            translation_memory=translation_memory,
        )
        # Warnings are given when all lines are translated: one that is made an error does not stop the others.
        warned = list(_warn_of_failures(translations))
        return warned[0] if isinstance(lines, str) else warned

    def translate_stream(
        self,
        lines: Iterable[str],
        block: int = BLOCK,
        *,
        terms: TermsLike = None,
        prefixes: Iterable[str] | None = None,
        translation_memory: "TranslationMemory | None" = None,
        document: bool = False,
        **search: Unpack[SearchOptions],
    ) -> Iterator[Translation]:
        """Translate any number of lines in bounded memory, `block` of them at a time; arguments as of `translate`.

        With `document` the lines belong together: see `translate_document`.
        """
        # Not a generator itself: wrong arguments raise here, and not when the first translation is asked for.
        config = SearchConfig.from_options(search)
        if block < 1:
            raise ValueError(f"block is {block}, it must be 1 or more")
        if document:
            require_context(self.translator, "document (--document)")
        return _warn_of_failures(
            self.translator.translate_stream(
                _check_texts(lines),
                config,
                block,
                terms=_as_terms(terms),
                prefixes=None if prefixes is None else _check_texts(prefixes, "prefixes"),
                translation_memory=translation_memory,
                document=document,
            )
        )

    def translate_document(
        self,
        lines: Iterable[str],
        *,
        terms: TermsLike = None,
        translation_memory: "TranslationMemory | None" = None,
        **search: Unpack[SearchOptions],
    ) -> list[Translation]:
        """Translate the sentences of a document in their order, each read together with the one before it.

        A blank line begins another document. A sentence that is too long with the one before it is
        translated alone, and its notes say so. Raises ValueError for a model that was trained
        without context (`data.context`).

            model.translate_document(["The ball is red.", "It is big."])[1].text
        """
        return list(
            self.translate_stream(lines, terms=terms, translation_memory=translation_memory, document=True, **search)
        )

    @overload
    def score(  # pyright: ignore[reportOverlappingOverload]
        self, sources: str, targets: str, batch: int = 0, *, document: bool = False
    ) -> Score: ...

    @overload
    def score(
        self, sources: Iterable[str], targets: Iterable[str], batch: int = 0, *, document: bool = False
    ) -> list[Score]: ...

    def score(
        self, sources: str | Iterable[str], targets: str | Iterable[str], batch: int = 0, *, document: bool = False
    ) -> Score | list[Score]:
        """Return the log-probability of a given translation, or of each of several: how likely the model writes it.

        With `document` the sources belong together, as in `translate_document`. Raises ValueError
        for unequal numbers of sources and targets, and for anything that is not a text.
        """
        if batch < 0:
            raise ValueError(f"batch is {batch}, it must be 0 or more")
        if isinstance(sources, str) and isinstance(targets, str):
            return score_pairs(self.translator, [sources], [targets], batch, document)[0]
        texts = list(_check_texts(sources, "sources")), list(_check_texts(targets, "targets"))
        return score_pairs(self.translator, *texts, batch, document)

    @_check_arguments
    def trace(
        self,
        sentence: str,
        *,
        target: str | Sequence[int] | None = None,
        context: str = "",
        beam: int = 4,
        prefix_ids: Sequence[int] = (),
        edits: "Iterable[EditSpec | Mapping[str, Any]]" = (),
        keep: str | Iterable[str] | None = None,
        drawing: "Drawing | None" = None,
        segment: int | None = None,
        sentences: Literal["auto", "split", "keep"] = "auto",
        terms: TermsLike = None,
        translation_memory: "TranslationMemory | None" = None,
    ) -> "Trace":
        """Translate one sentence and record everything that led there: pieces, tensors, steps, and the beam's tree.

        The text, the score and the reason for stopping are the same as with `translate([sentence],
        beam=beam)`. A line that is translated in several segments, as one of several sentences is,
        is traced in the segment with the number `segment`, 1 first and the default;
        `trace.facts.part` lists all of them. With `sentences` = "keep" all its sentences are read
        together. With a `target` there is no search: the model reads that translation, a text or
        token ids with or without EOS, of the whole line, or of its part `segment`. `prefix_ids` are
        the tokens that the translation must begin with, `edits` are changes made during the run
        (see `Trace.edited`), and with a `drawing` the translation is drawn by chance instead of
        searched for.

        `context` is the sentence before, for a model that was trained with it: the source begins
        with its pieces, as a later segment begins with the segment before it. The translation has
        the `terms`, as with `translate`; a model that was trained with terms reads them in the
        source, between marks. One that was trained with a memory reads a similar unit of the
        `translation_memory` before the line; what the memory has for the very same line is to be
        given as the target.

        `keep` says which tensors are captured, by patterns of their names
        ("decoder.*.cross.pattern"); by default all of them up to 64 pieces a side, and the patterns
        up to 256. Raises ValueError, with the numbers, for a sentence that is longer, for one that
        takes more than 1 GiB, and for a segment that the line does not have.

            trace = model.trace("The ball is blue.")
            trace["decoder.3.cross.pattern"].at(H=2)      # an array: target positions by source positions
            trace.steps[1].top[:3]                        # what could have been written there
            trace.edited(Silence("decoder.3.cross", 2))   # a new trace, without that head
            trace.save_html("ball.html")                  # the page, in one file
        """
        from pellucid.interpret.trace.session import TraceOrigin, trace_sentence

        patterns = (keep,) if isinstance(keep, str) else None if keep is None else tuple(keep)
        origin = TraceOrigin(
            # A trace that is kept keeps what it was made with, and of the model only what can make another.
            self.translator.with_torch_alone(),
            self.bundle,
            beam,
            tuple(prefix_ids),
            patterns,
            _import_model_queries,
            drawing,
            context=context,
            sentences=sentences,
            terms=_as_terms(terms),
            similar="" if translation_memory is None else _find_similar(translation_memory, sentence),
            translation_memory=translation_memory,
            other_engine=self.translator.engine is not self.translator.torch,
        )
        return trace_sentence(origin, sentence, target, edits, segment)

    @_check_arguments
    def find_influence(
        self,
        sentence: str,
        word: str,
        *,
        target: str | None = None,
        context: str = "",
        beam: int = 4,
        pairs: int = 10,
        segment: int | None = None,
    ) -> "WordInfluence":
        """Find the training pairs that made a word of a translation likelier, and those that spoke against it.

        The translation is the one that a search with this `beam` finds, or the `target`; `context`
        is the sentence before it, for a model that was trained with it; `segment` is the part of
        the line that is meant, as in `trace`. Up to `pairs` of each kind are returned, with the
        file and line of each. The model's states over its training text must have been stored,
        once, by `pellucid remember`. Raises ValueError where they were not, and for a word that is
        not in the translation.

            found = model.find_influence("The ball is blue.", "azul")
            found.because[0].line, found.because[0].target        # the pair that taught it most
            found.agreement.rank_correlation                      # of the two ways by which pairs are found
        """
        from pellucid.interpret.influence.word_influence import find_word_influence
        from pellucid.training.state_store import open_state_store

        if pairs < 1:
            raise ValueError(f"pairs is {pairs}, it must be 1 or more")
        store = open_state_store(self.directory, self.manifest)
        trace = self.trace(sentence, target=target, context=context, beam=beam, keep="states", segment=segment)
        return find_word_influence(trace, store, word, pairs)

    def verify(self, tolerance: float | None = None) -> "Verification":
        """Translate the lines of the model's reference anew, and say whether the same texts and scores come out.

        Scores may differ by `tolerance`, in nats, by default 0.001. Raises ValueError for a model
        without a reference.
        """
        from pellucid.evaluate.reference import REFERENCE_FILE, TOLERANCE, compare_reference, read_reference

        about = self.manifest.get("reference")
        if REFERENCE_FILE not in self.manifest["files"] or not isinstance(about, Mapping):
            raise ValueError(
                f"{self.directory} has no {REFERENCE_FILE}: it was trained by version 0.2 or earlier, with "
                "train.keep_reference = false, or by another program"
            )
        lines = read_reference(self.directory / REFERENCE_FILE)
        # A model that does not say the penalty was saved when it was 0.6 for all.
        search = {"beam": SearchConfig.beam, "length_penalty": 0.6, **about}
        config = SearchConfig(beam=search["beam"], length_penalty=search["length_penalty"])
        found: dict[int, Translation] = {}
        for language in dict.fromkeys(line.language for line in lines):
            chosen = [i for i, line in enumerate(lines) if line.language == language]
            translator = self.translator if language is None else self.translator.into(language)
            sources = [lines[i].source for i in chosen]
            found |= zip(chosen, translate_sources(translator, sources, config), strict=True)
        texts, scores = [found[i].text for i in range(len(lines))], [found[i].score for i in range(len(lines))]
        return compare_reference(lines, texts, scores, TOLERANCE if tolerance is None else tolerance)

    def evaluate(
        self,
        sources: Iterable[str],
        references: Iterable[str] | Iterable[Sequence[str | None]],
        *,
        tokenize: str | None = None,
        **search: Unpack[SearchOptions],
    ) -> dict[str, dict[str, Any]]:
        """Translate the sources and return BLEU, chrF, TER and WER, each as {"score", "signature"}.

        `references` has one text for each source, or several lists as sacreBLEU takes them: the
        first reference of every source, then the second of every source, and so on; in a second or
        later list, None or a blank text means that there is no such reference. Scores distinguish
        upper and lower case, except for a model that writes lower case only
        (`tokenizer.lowercase`). The script of the references decides how words are cut, or
        `tokenize`, the name of a tokenizer of sacreBLEU. Warns of translations that look tokenized.
        Raises ValueError for unequal numbers, for anything that is not a text, and for a tokenizer
        that is unknown or not installed.
        """
        from pellucid.evaluate.score_words import explain_tokenized_text, require_score_tokenizer
        from pellucid.evaluate.scores import corpus_scores, reference_streams, refuse_unequal

        SearchConfig.from_options(search)  # wrong settings raise before the texts are read
        if tokenize is not None:
            require_score_tokenizer(tokenize)
        lines = list(_check_texts(sources, "sources"))
        first, *others = reference_streams(references)
        streams = [list(_check_texts(first, "references"))]
        for other in others:
            # None is a reference that does not exist; the scores leave out blank texts of these lists just so.
            texts = other if isinstance(other, str) else ("" if text is None else text for text in other)
            streams.append(list(_check_texts(texts, "references")))
        refuse_unequal(len(lines), "sources", streams)
        # Scores of the search cost time and are not needed here, unless they are asked for.
        options: SearchOptions = {"scores": False, **search}
        translations = self.translate(lines, **options)
        texts = [translation.text for translation in translations]
        if warning := explain_tokenized_text(texts, "translations"):
            warnings.warn(warning, stacklevel=2)
        return corpus_scores(texts, streams, lowercase=self.lowercase, tokenize=tokenize, language=self.target_language)


def study_heads(
    model: Model, sources: Sequence[str], targets: Sequence[str], on_progress: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Return role and importance of every attention head, measured on sentence pairs, as the page reads them.

    `on_progress` is called after each step of the work; what it raises ends the study.
    """
    from pellucid.interpret.studies.head_studies import study_heads_of

    return study_heads_of(model.bundle, sources, targets, on_progress)


def _find_similar(memory: "TranslationMemory", sentence: str) -> str:
    """Return the translation that a memory has of a similar sentence; ValueError where it has one of the same."""
    match = memory.find(sentence)
    if match is not None and match.is_exact:
        raise ValueError(f"{match.place} of the memory is this sentence; trace it with target={match.target!r:.200}")
    return match.target if match is not None else ""


def _import_model_queries() -> "ModelQueries":
    """Return the functions that answer a page's questions about the whole model, beside a trace."""
    from pellucid.interpret.influence import page_queries

    return page_queries


@_check_arguments
def load(
    directory: str | Path,
    precision: str = "float32",
    engine: str = "torch",
    *,
    others: Sequence[str | Path] = (),
    exported: str | Path | None = None,
    workers: int | None = None,
    device: str = "cpu",
    target_language: str | None = None,
) -> Model:
    """Load the model in a model directory, such as runs/demo/best, ready to translate.

    `engine` runs the model: "torch"; "ctranslate2", which is faster and must be installed; or "auto", which takes
    CTranslate2 where it gives the same text. `precision` is "float32", "bfloat16" or, with CTranslate2, "int8".
    `others` are models with the same tokenizer for an ensemble: the mean of their probabilities is used. `exported` is
    a directory that `pellucid export --to ctranslate2` made from this model. CTranslate2 runs `workers` batches at a
    time, by default one on each processor; 1 is quicker where sentences come one by one. With it, torch is imported
    only when it is first needed, and then has as many threads as one of the workers.

    A `device` such as "cuda" or "cuda:1" runs the model, with either engine; CTranslate2 has float16 and int8_float16
    there, too. Only on a CPU is a line sure to be translated alike in every batch. A multilingual model is told by
    `target_language` which language to write (see `Model.into`). Raises ValueError, saying what is wrong and what to
    do, for a directory without a sound model, and for options that exclude each other.
    """
    exported_path = None if exported is None else Path(exported)
    refuse_engine_options(engine, precision, exported_path, bool(others), device)
    # The torch engine alone is given bfloat16 weights; CTranslate2 converts its own.
    half = precision == "bfloat16" and engine != "ctranslate2"
    if engine == "torch" or others or half:
        bundles, models = _load_torch_models([directory, *others], half, device)
    else:
        # CTranslate2 translates: the weights stay bytes, and torch is not imported, until something asks for the model.
        models = bundles = [load_bundle(directory, lazy=True)]

    first = bundles[0]
    languages = read_languages(first.manifest)
    translator = Translator(
        models[0],
        first.tokenizer,
        *models[1:],
        trained=_longest_trained_source(first.manifest),
        profile=load_source_profile(first.directory, first.manifest),
        target_language=languages[1] if languages else None,
    )
    if not others:  # an ensemble's probabilities are not the ones that were calibrated
        translator.calibration = read_calibration(first.directory, first.manifest)
    # All of an ensemble read the same source.
    translator.context = min(trained_context(bundle.manifest) for bundle in bundles)
    if all(bundle.manifest.get("terms") for bundle in bundles):
        translator.term_marks = first.tokenizer.term_marks
    if all(bundle.manifest.get("memory") for bundle in bundles):
        translator.memory_mark = first.tokenizer.memory_mark
    translator.models.device = device
    translator.engine = choose_engine(engine, precision, first, translator, exported_path, workers, device)
    options = {
        "precision": precision,
        "engine": engine,
        "others": [str(Path(path).resolve()) for path in others],
        "exported": None if exported_path is None else str(exported_path.resolve()),
        "workers": workers,
        "device": device,
    }
    digests = [bundle.manifest["sha256"] for bundle in bundles]
    model = Model(first, translator, _LoadRequest(str(Path(directory).resolve()), options, digests))
    return model if target_language is None else model.into(target_language)


def _reload_model(request: _LoadRequest) -> Model:
    """Load a model again, perhaps in another process; ValueError if its directories hold other models by now."""
    model = load(request.directory, **request.options)
    # The requests compare the SHA-256 of the models, too.
    if model.load_request != request:
        directories = " or ".join([request.directory, *request.options["others"]])
        raise ValueError(f"{directories} holds another model than the one that was sent; load it again and send that")
    return model


def _load_torch_models(
    directories: Sequence[str | Path], bfloat16: bool, device: str = "cpu"
) -> "tuple[list[Bundle], list[Transformer]]":
    """Load model directories that share one tokenizer; return them and their models, in bfloat16 if asked for.

    They stay on the CPU. For a `device` on which torch only emulates bfloat16, it warns.
    """
    from pellucid.cpu import explain_emulated_bfloat16
    from pellucid.decode.torch_engine import require_one_vocabulary

    bundles = [load_bundle(directory) for directory in directories]
    require_one_vocabulary(bundles)
    if bfloat16 and (reason := explain_emulated_bfloat16(device)):
        # The warning is for the caller of `load`, which is wrapped in `_check_arguments`.
        warnings.warn(f"precision = {reason}", stacklevel=4)
    return bundles, [bundle.model.bfloat16() if bfloat16 else bundle.model for bundle in bundles]


def _longest_trained_source(manifest: Mapping[str, Any]) -> int | None:
    """Return the length in pieces of the longest source in training, or None if the manifest does not say."""
    longest = manifest.get("longest_source")
    return longest if isinstance(longest, int) and longest > 1 else None


def _as_terms(terms: TermsLike) -> "Terms | None":
    """Return terms given as a mapping or as pairs as `Terms`."""
    if terms is None:
        return None
    # Imported here because most translations have no terms.
    from pellucid.localize.terminology import Terms

    return terms if isinstance(terms, Terms) else Terms.from_pairs(terms)


@partial(_check_arguments, options=SimpleRunOptions.__annotations__)
def train(
    run: str | Path | Mapping[str, Any] | None = None,
    *,
    out: str | Path,
    resume: bool = False,
    **options: Unpack[SimpleRunOptions],
) -> Model:
    """Train a model, with everything written to the directory `out`, and return the best one.

    `run` is a run file, or its tables as a mapping. Instead of it, `options` may name source, target (left out where
    the source is a file of pairs), dev_source, dev_target, source_language and target_language (for a file of more
    than two languages), size or start (a model to start from); settings that are left out follow from the size of the
    corpus. Both ways take steps or minutes. Raises ValueError for settings or data that cannot be trained with, and
    KeyboardInterrupt for a run that was interrupted: it is saved, and `resume` continues it; where there is no run yet,
    `resume` begins one.
    """
    from pellucid.training.defaults import run_settings
    from pellucid.training.loop import train_run
    from pellucid.workflows.check.examine import glance_at_corpus

    settings, reasons = run_settings(run, began=Path(out) if resume else None, **options)
    outcome = train_run(settings, Path(out), resume=resume, reasons=reasons, glance=glance_at_corpus)
    if outcome.evaluation is None:
        raise KeyboardInterrupt(f"{outcome.stop}; everything is saved in {out}, go on with resume=True")
    return load(outcome.best)


def _warn_of_failures(translations: Iterable[Translation]) -> Iterator[Translation]:
    """Yield the translations, and warn of each line that was not translated, with its number and the reason."""
    for number, translation in enumerate(translations, start=1):
        if translation.stop == "failed":
            reason = "; ".join(translation.notes)
            warnings.warn(f"line {number} is not translated and stays as it is: {reason}", NotTranslated, stacklevel=2)
        yield translation


def _check_texts(texts: Iterable[str], name: str = "lines") -> Iterator[str]:
    """Yield texts after checking them: the argument at once, each text when it is reached; ValueError for another type.

    >>> list(_check_texts(["Yes.", None]))
    Traceback (most recent call last):
    ValueError: line 2 is None (NoneType); a text is expected
    """
    # A str is an iterable of str, too: its letters would be taken for lines.
    if isinstance(texts, str):
        raise ValueError(f"{name} is one text; give a list, with one text in it: [{texts[:20]!r}]")
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise ValueError(f"{name} is {texts!r:.40} ({type(texts).__name__}); a list of texts is expected")
    singular = {"prefixes": "prefix"}.get(name, name.removesuffix("s"))
    # A generator expression and no `yield` in this function, so that the checks above run at the call.
    return (_check_text(text, f"{singular} {number}") for number, text in enumerate(texts, start=1))


def _check_text(text: str, name: str) -> str:
    """Return the text; ValueError, which calls it `name`, for anything that is not a str."""
    if not isinstance(text, str):
        raise ValueError(f"{name} is {text!r:.40} ({type(text).__name__}); a text is expected")
    return text
