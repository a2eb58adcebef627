"""The model and the search of `pellucid translate`, as its options ask for them."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.cli.files import read_terms_and_memory, require_file, set_language
from pellucid.cli.options import search_settings

if TYPE_CHECKING:
    from pellucid.api import Model


@dataclass(frozen=True)
class TranslationSetup:
    """A model for the language to write, both languages of a file, and the arguments of a search."""

    model: "Model"
    languages: tuple[str, str] | None
    search: dict[str, Any]


def holds_document(file: str) -> bool:
    """Return whether a name has the ending of a document.

    A .txt file is translated line by line.
    """
    from pellucid.localize.documents.formats import document_suffix

    return document_suffix(file) not in (None, ".txt")


def refuse_unfit_options(options: Mapping[str, Any], file: str, is_document: bool) -> None:
    """Raise ValueError for options that do not go with the kind of this file, or with each other."""
    from pellucid.localize.documents.formats import COMMENTED_FORMATS, MARKED_FORMATS

    name = file.lower()
    if options["mark"] and not name.endswith(MARKED_FORMATS):
        raise ValueError(f"{file} cannot be marked; --mark is for {', '.join(MARKED_FORMATS)}")
    if options["comments"] and not name.endswith(COMMENTED_FORMATS):
        formats = ", ".join(COMMENTED_FORMATS)
        raise ValueError(f"{file} has no comments to translate; --comments is for {formats}")

    if is_document:
        _refuse_options_of_lines(options, file)
    if options["provenance"] and not options["json"]:
        raise ValueError("--provenance is told by --json; add --json")
    if options["only_above"] is not None and options["json"]:
        reason = "--json writes the confidence of every line"
        raise ValueError(f"{reason}; leave out --only-above, or --json")


def _refuse_options_of_lines(options: Mapping[str, Any], file: str) -> None:
    """Raise ValueError for options that only make sense for a file of lines."""
    from pellucid.localize.documents.formats import DOCUMENT_FORMATS, document_suffix

    used = []
    for name in ("only_above", "prefix", "alignments", "provenance"):
        if options[name] not in (None, False):
            used.append(f"--{name.replace('_', '-')}")

    if options["n_best"] > 1:
        used.append("--n-best")
    if used:
        raise ValueError(f"{file} is a document; {' and '.join(used)}: only for a file of lines")

    if options["out"] is not None:
        return
    advice = "name a file for the translation: --out FILE"
    if options["json"]:
        raise ValueError(f"{file} is a document; --json writes its account, so {advice}")

    document_format = DOCUMENT_FORMATS[document_suffix(file) or ""]
    if sys.stdout.isatty() and not document_format.is_text:
        reason = f"{file} becomes a document that no terminal shows"
        raise ValueError(f"{reason}; name a file for it: --out FILE")


def choose_search(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a search that the options of the command ask for.

    Raises ValueError for what no search can have.
    """
    # A greedy search is faster where nobody reads the scores.
    with_scores = options["json"] or options["n_best"] > 1 or options["only_above"] is not None
    return search_settings(
        options["change"],
        beam=options["beam"],
        n_best=options["n_best"],
        alignments=options["alignments"] is not None,
        provenance=options["provenance"],
        scores=with_scores,
    )


def load_for_translation(options: Mapping[str, Any], workers: int | None) -> "Model":
    """Load the model that the options of the command name; `workers` as in `pellucid.load`.

    Raises OSError, before that, for a terminology that cannot be read.
    """
    from pellucid.api import load

    if options["terms"] is not None:
        require_file(options["terms"])
    return load(
        options["model"],
        options["precision"],
        options["engine"],
        others=options["others"] or (),
        exported=options["exported"],
        workers=workers,
        device=options["device"],
    )


def set_up_translation(loaded: "Model", options: Mapping[str, Any], is_document: bool) -> TranslationSetup:
    """Return a loaded model and its search as the options ask for them, for a document or for lines.

    Raises ValueError for languages that the model or a file does not have, and for a confidence of
    a model that was not calibrated.
    """
    from pellucid.data.corpus import holds_pairs

    terms, memory = options["terms"], options["memory"]
    has_languages = is_document or memory is not None or (terms is not None and holds_pairs(terms))
    named = options["source"], options["target"]
    model, languages = _choose_languages(loaded, *named, is_of_file=has_languages)
    is_calibrated = model.translator.calibration is not None
    if options["only_above"] is not None and not is_calibrated:
        directory = options["model"]
        advice = f"pellucid calibrate {directory}"
        raise ValueError(f"{directory} has no calibration, so its confidence is not known: {advice}")

    terminology, remembered = read_terms_and_memory(terms, memory, languages)
    search = choose_search(options)
    # Grades follow from the log-probabilities, unless speed was asked for.
    if is_calibrated and not any(text.startswith("scores") for text in options["change"] or ()):
        search["scores"] = True
    search |= {
        "terms": terminology,
        "translation_memory": remembered,
        "document": options["document"],
    }
    return TranslationSetup(model, languages, search)


def _choose_languages(
    model: "Model", source: str | None, target: str | None, is_of_file: bool
) -> "tuple[Model, tuple[str, str] | None]":
    """Return the model for the language to write, and both languages of a file, if it has any.

    They are those that are named, or the model's. Raises ValueError for languages that the model
    does not translate, and where one is named and a file needs both.
    """
    from pellucid.store.manifest_checks import read_directions, read_languages

    # Both languages may be named for any file: where a
    # model does not say its own, nothing can be compared.
    is_unknown = source is not None and "languages" not in model.manifest
    model = set_language(model, target, is_of_file or is_unknown)
    if model.is_multilingual and target is not None:
        directions = read_directions(model.manifest)
        if source is not None and (source, target) not in directions:
            from pellucid.serve.settings import Languages, describe_missing_direction

            offered = (Languages(*direction) for direction in directions)
            raise ValueError(describe_missing_direction(offered, source, target))
        if source is None:  # then the manifest says both
            target = None

    if not is_of_file:
        return model, None
    if (source is None) != (target is None):
        raise ValueError("one language is named; name both: --from en --to es")
    if source is not None and target is not None:
        return model, (source, target)
    return model, read_languages(model.manifest)
