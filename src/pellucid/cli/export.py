"""`pellucid export`: converts a model to another format, or to a page, and measures what that costs."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from pellucid.cli.files import read_file_pair, require_file, write_lines
from pellucid.cli.options import MODEL, argument, file_option, flag, option
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.evaluate.scores import GateVerdict
    from pellucid.store.directory import Bundle

EXPORT_EXAMPLES = """\
  pellucid export runs/demo/best demo.html --to page
  pellucid export runs/demo/best demo-marian --to marian
  pellucid export runs/demo/best demo-ct2 --to ctranslate2
  pellucid export runs/demo/best demo.argosmodel --to argos
  pellucid export runs/demo/best demo-int8 --to ctranslate2 --precision int8 --dev-source dev.en --dev-target dev.es
  pellucid export runs/demo/best demo-short --to ctranslate2 --shortlist-source train.en --shortlist-target train.es"""

# Export formats, each with a file that only this format has.
_FORMAT_FILES = {"marian": "source.spm", "ctranslate2": "model.bin"}
_PRECISIONS = {  # precisions of each format, the default first; Marian's format keeps the model's precision
    "ctranslate2": ("float32", "bfloat16", "int8"),
    "argos": ("float32", "bfloat16", "int8"),
    "page": ("float16", "float32", "int8"),
    "marian": (),
}

_MEASURED = ("--precision", "--dev-source", "--dev-target", "--no-gate")
_SHORTLIST = ("--shortlist-source", "--shortlist-target")
_OPTIONS = {  # options that each format takes
    "ctranslate2": (*_MEASURED, *_SHORTLIST),
    "argos": (*_MEASURED, "--languages"),
    "page": (*_MEASURED, "--sentence"),
    "marian": (),
}

_MOST_SHORTLIST_PAIRS = 400_000  # sentence pairs read for a shortlist, spread evenly over the files
_GATE_BEAM = 4  # beam with which a smaller form is measured
# Dev sentences and their references, line by line.
DevPairs = tuple[list[str], list[str]]


def run_export(
    model: Annotated[str, MODEL],
    out: Annotated[
        str,
        argument("OUT", "directory, or file of a page; an earlier export is replaced"),
    ],
    to: Annotated[str, option("format to convert to", "marian|ctranslate2|argos|page")],
    precision: Annotated[
        str | None,
        option(
            "precision of the weights: ctranslate2 and argos float32 (the default), bfloat16 or int8; page float16 "
            "(the default), float32 or int8",
            "float32|bfloat16|int8|float16",
        ),
    ] = None,
    sentence: Annotated[
        list[str] | None,
        option(
            "page: sentence to show first; repeated, more to try  [default: some of the run's dev text]",
            "TEXT",
        ),
    ] = None,
    dev_source: Annotated[
        str | None,
        file_option("sentences to measure the export with; the model must not have been trained on them"),
    ] = None,
    dev_target: Annotated[str | None, file_option("their translations by people")] = None,
    no_gate: Annotated[
        bool,
        flag("--no-gate", "export int8 or a shortlist without measuring it"),
    ] = False,
    shortlist_source: Annotated[
        str | None,
        file_option("sentences to make a shortlist from: those the model was trained on"),
    ] = None,
    shortlist_target: Annotated[str | None, file_option("their translations")] = None,
    languages: Annotated[
        str | None,
        option(
            "argos: codes of the languages, such as en:es  [default: the model's]",
            "SOURCE:TARGET",
        ),
    ] = None,
) -> None:
    """Convert a model for another program, or to a page.

    marian: a directory that AutoModelForSeq2SeqLM and AutoTokenizer of Hugging Face transformers
    load. ctranslate2: a directory for CTranslate2, which translates several times faster; its
    README.md shows how to use it without Pellucid. argos: a package (OUT.argosmodel) that Argos
    Translate and LibreTranslate install. page: one HTML file with the model inside, which
    translates any sentence and shows every number of it in a browser, without a network or a
    server.

    --precision int8 makes the CTranslate2 model a quarter of the size and faster still, and a page
    smaller, but changes the translations. So --dev-source is translated first, and the export is
    refused if chrF falls by more than 0.3 or if more translations run in a loop than before.

    A shortlist (vmap.txt) lets CTranslate2 consider, for each sentence, only pieces that may
    translate a piece of it. translate, serve and evaluate use it with --exported. It is measured
    with --dev-source too.
    """
    files = {
        "--dev-source": dev_source,
        "--dev-target": dev_target,
        "--shortlist-source": shortlist_source,
        "--shortlist-target": shortlist_target,
    }
    others = {
        "--precision": precision,
        "--no-gate": no_gate,
        "--sentence": sentence,
        "--languages": languages,
    }

    # Options and OUT are checked before torch is imported and the model is loaded.
    _check_options(to, {name: path for name, path in files.items() if path is not None}, others)
    if to == "page":
        dev = read_file_pair(dev_source, dev_target) if dev_source and dev_target else None
        write_lines(export_page(model, Path(out), precision or "float16", sentence or [], dev))
        return

    if to != "argos":
        _refuse_other_than_export(Path(out), to)
    from pellucid.store.directory import load_bundle

    dev = read_file_pair(dev_source, dev_target) if dev_source and dev_target else None
    shortlist = read_file_pair(shortlist_source, shortlist_target) if shortlist_source and shortlist_target else None
    bundle = load_bundle(model)
    # No report on marian: nothing is changed, so nothing is measured.
    report = list[str]()
    if dev:
        _refuse_long_dev_pairs(bundle, dev, (str(dev_source), str(dev_target)))
    if to == "marian":
        from pellucid.interop.marian import export_marian

        export_marian(bundle, out)
    elif to == "argos":
        write_lines(export_argos(bundle, Path(out), precision or "float32", dev, languages))
        return
    else:
        report = export_ctranslate2(bundle, Path(out), precision or "float32", dev, shortlist)

    sizes = {path.name: path.stat().st_size for path in sorted(Path(out).iterdir())}
    contents = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    write_lines([*report, f"{out}: {sum(sizes.values()):,} bytes ({contents})"])


def export_page(
    model: str | Path, out: Path, precision: str, sentences: list[str], dev: DevPairs | None = None
) -> list[str]:
    """Write the page with the model inside, measured on `dev` if that is given; return the report.

    Without `sentences`, sentences to try are chosen from the dev text of the model's run. Raises
    ValueError where there is none, for a file that cannot be written, for a model that the page
    cannot compute, and if the gate refuses.
    """
    from pellucid.api import load
    from pellucid.interpret.trace.model_page import save_model_page
    from pellucid.serve.settings import Languages
    from pellucid.serve.training_text import TrainingText

    require_writable(out)
    loaded = load(model)
    text = TrainingText.find_beside(loaded.bundle.directory, loaded.bundle.manifest)
    codes = Languages.from_manifest(loaded.bundle.manifest).codes or text.languages
    examples = sentences or list(text.choose_examples(codes[0] if codes else None))
    if not examples:
        raise ValueError(f"no dev text stands beside {model}: say with --sentence what the page shall show first")

    report: list[str] = []
    if dev:
        verdicts = {precision: _judge_rounded(loaded, dev)}
        report += _gate_table(verdicts)
        _refuse_failed_forms(precision, verdicts, "float16")
    elif precision == "int8":
        report.append("not measured: it is not known how much worse it translates than the model, if at all")

    trace = loaded.trace(examples[0])
    size = save_model_page(trace, out, precision, examples[1:], codes)
    return [
        *report,
        f"{out}: {size:,} bytes; open it in a browser: it needs neither a network nor a server",
    ]


def _judge_rounded(model: "Model", dev: DevPairs) -> "GateVerdict":
    """Return a verdict on the model with its matrices rounded to int8: its translations beside those in float32."""
    from pellucid.decode.request import SearchConfig
    from pellucid.decode.translator import Translator
    from pellucid.evaluate.scores import judge_smaller_model
    from pellucid.interpret.trace.model_page import with_rounded_weights

    rounded = with_rounded_weights(model.bundle.model, "int8")
    texts = []
    for weights in (model.bundle.model, rounded):
        translator = Translator(
            weights,
            model.bundle.tokenizer,
            trained=model.translator.lengths.longest_trained,
            profile=model.translator.profile,
            target_language=model.translator.reader.target_language,
        )
        texts.append([line.text for line in translator.translate(dev[0], SearchConfig(beam=_GATE_BEAM))])

    full, small = texts
    return judge_smaller_model(full, small, dev[1], model.lowercase)


def _check_options(to: str, files: Mapping[str, str], others: Mapping[str, Any]) -> None:
    """Raise ValueError, before anything is read, naming everything that is wrong with the options."""
    precision = others["--precision"]
    languages = others["--languages"]
    no_gate = others["--no-gate"]
    given = [*(name for name, value in others.items() if value), *files]
    problems = []
    if to not in _OPTIONS:
        problems.append(f"--to is {to!r}, it must be marian, ctranslate2, argos or page")
    elif not_taken := [name for name in given if name not in _OPTIONS[to]]:
        problems.append(f"--to {to} does not take {', '.join(not_taken)}")
    elif precision is not None and precision not in _PRECISIONS[to]:
        problems.append(f"--precision is {precision!r}, for --to {to} it must be one of {', '.join(_PRECISIONS[to])}")

    if languages is not None and languages.count(":") != 1:
        problems.append(f"--languages is {languages!r}, it must be two codes: --languages en:es")
    for source, target in (("--dev-source", "--dev-target"), _SHORTLIST):
        if (source in files) != (target in files):
            pairs = "line n of one is the translation of line n of the other"
            problems.append(f"{source} and {target} belong together: {pairs}")

    if [*files.values()].count("-") > 1:
        problems.append("only one file can be standard input")
    changes_output = precision in ("bfloat16", "int8") or "--shortlist-source" in files
    if not problems and no_gate and "--dev-source" in files:
        problems.append("--no-gate skips the measurement that --dev-source is for; give only one of them")
    elif not problems and (no_gate or "--dev-source" in files) and not changes_output:
        problems.append("only bfloat16, int8 and a shortlist change translations: there is nothing to measure")
    elif not problems and precision == "int8" and not (no_gate or "--dev-source" in files):
        problems.append(
            "int8 changes a model's translations, so it is measured first: give --dev-source and --dev-target, some "
            "hundred sentences and their translations that it was not trained on; or --no-gate to skip this"
        )

    if problems:
        raise ValueError("; ".join(problems))
    for path in files.values():  # last, for each of these reports a missing file by an error of its own
        require_file(path)


def _refuse_other_than_export(out: Path, to: str) -> None:
    """Raise ValueError if `out` holds anything but an export to this format."""
    from pellucid.store import atomic

    atomic.refuse_non_model_directory(out)
    if (out / atomic.MANIFEST).exists():
        manifest = atomic.read_manifest(out)
        if _FORMAT_FILES[to] not in manifest["files"] or manifest.get("exported") is None:
            raise ValueError(f"{out} is not an export to {to} and is not replaced; choose another directory")


def _refuse_long_dev_pairs(bundle: "Bundle", dev: DevPairs, files: tuple[str, str]) -> None:
    """Raise ValueError for a dev sentence that has more pieces than the model takes, before anything is translated."""
    tokenizer, max_positions = bundle.tokenizer, bundle.model.config.max_positions
    for file, encoded in zip(files, (tokenizer.encode_source(dev[0]), tokenizer.encode_target(dev[1])), strict=True):
        for number, ids in enumerate(encoded, start=1):
            if len(ids) > max_positions:
                raise ValueError(
                    f"{file}:{number} has {len(ids):,} pieces, this model takes {max_positions:,}; leave the line out"
                )


def export_argos(
    bundle: "Bundle", out: Path, precision: str, dev: DevPairs | None, languages: str | None = None
) -> list[str]:
    """Convert, measure, and only then write a package for Argos Translate; return the report.

    `languages` is SOURCE:TARGET, by default the languages in the model's manifest. Raises
    ValueError for a model that Argos Translate cannot use, for languages that are not known, and if
    the gate refuses.
    """
    from pellucid.interop.argos import install_command, refuse_unfit_for_argos, write_argos_package
    from pellucid.serve.settings import Languages, language_name

    codes = Languages.from_manifest(bundle.manifest, *(languages.split(":") if languages else ())).codes
    if codes is None:
        raise ValueError(f"{bundle.directory} does not say its languages; name them: --languages en:es")
    refuse_unfit_for_argos(bundle.tokenizer, out)
    names = {"from_code": codes[0], "from_name": language_name(codes[0])}
    names |= {"to_code": codes[1], "to_name": language_name(codes[1])}
    with TemporaryDirectory(prefix="pellucid-") as folder:
        converted = Path(folder) / "model"
        report = export_ctranslate2(bundle, converted, precision, dev, None)
        size = write_argos_package(converted, bundle.tokenizer, out, names)
    return [*report, f"{out}: {size:,} bytes; to install it: {install_command(str(out))}"]


def export_ctranslate2(
    bundle: "Bundle", out: Path, precision: str, dev: DevPairs | None, pairs: DevPairs | None
) -> list[str]:
    """Convert, measure, and only then write to `out`.

    Return the report. Raise ValueError if the gate refuses.
    """
    from pellucid.interop.ctranslate2 import convert_to_ctranslate2, write_usage

    report: list[str] = []
    # The hash ties the export to its model: --exported is refused with any other.
    origin = {"from": bundle.directory.resolve().name, "sha256": bundle.manifest["sha256"]}
    about: dict[str, Any] = {"exported": {"format": "ctranslate2", **origin}}

    # What the gate measures is converted into a folder of
    # its own: a refused export leaves nothing at `out`.
    with TemporaryDirectory(prefix="pellucid-") as folder:
        vmap = Path(folder) / "vmap.txt" if pairs else None
        if vmap and pairs:
            report += _write_shortlist(bundle, vmap, pairs, dev)
        if dev:
            verdicts = _judge_forms(bundle, Path(folder), precision, vmap, dev)
            report += _gate_table(verdicts)
            _refuse_failed_forms(precision, verdicts)
            about["measured"] = {name: vars(verdict) for name, verdict in verdicts.items()}
        elif precision != "float32" or pairs:
            report.append("not measured: it is not known how much worse it translates than the model, if at all")
            about["measured"] = "no"
        usage = partial(
            write_usage,
            tokenizer=bundle.tokenizer,
            longest=bundle.model.config.max_positions,
            name=origin["from"],
            sha256=origin["sha256"],
            precision=precision,
            shortlist=pairs is not None,
        )
        convert_to_ctranslate2(
            bundle.model,
            bundle.tokenizer,
            out,
            precision,
            vmap=vmap,
            also=usage,
            **about,
        )

    return report


def _write_shortlist(
    bundle: "Bundle",
    path: Path,
    pairs: DevPairs,
    dev: DevPairs | None,
) -> list[str]:
    """Write the shortlist of these pairs to `path`.

    Return lines on its size and its share of the references.
    """
    from pellucid.interop.shortlists import (
        make_shortlist,
        measure_coverage,
        train_lexicon,
        write_vmap,
    )

    # Every step-th pair, the division rounded up: at
    # most MOST_SHORTLIST_PAIRS, from all over the files.
    tokenizer, step = bundle.tokenizer, -(-len(pairs[0]) // _MOST_SHORTLIST_PAIRS)
    source_ids = tokenizer.encode_source(pairs[0][::step])
    target_ids = tokenizer.encode_target(pairs[1][::step])
    shortlist = make_shortlist(train_lexicon(source_ids, target_ids), target_ids, tokenizer)
    unwritable = write_vmap(path, shortlist, tokenizer)
    if dev:  # coverage on text that the shortlist was not made from, where there is any
        source_ids, target_ids = tokenizer.encode_source(dev[0]), tokenizer.encode_target(dev[1])
    share, pieces = measure_coverage(shortlist, source_ids, target_ids)
    report = [
        f"shortlist: {pieces:,.0f} of {tokenizer.target_vocabulary:,} pieces for a sentence on average, which "
        f"cover {share:.2%} of the text in {'--dev-target' if dev else '--shortlist-target'}"
    ]
    if unwritable:
        report.append(
            f"the shortlist file cannot hold {', '.join(map(repr, unwritable))}, so they are never written with it"
        )
    return report


def _judge_forms(
    bundle: "Bundle", folder: Path, precision: str, vmap: Path | None, dev: DevPairs
) -> dict[str, "GateVerdict"]:
    """Return a verdict for each smaller form: its translations of the dev sentences beside those in float32."""
    from pellucid.evaluate.scores import judge_smaller_model
    from pellucid.interop.ctranslate2 import convert_to_ctranslate2

    # Both sides run in CTranslate2, so that the precision, or the shortlist, is all that differs.
    full, small = folder / "full", folder / "small"
    convert_to_ctranslate2(bundle.model, bundle.tokenizer, full, "float32")
    convert_to_ctranslate2(bundle.model, bundle.tokenizer, small, precision, vmap=vmap)
    texts, lowercase = translate_converted(bundle, full, dev[0]), bundle.tokenizer.lowercase

    # Form name: with the shortlist? Float32 without one
    # is the side that the others are compared with.
    forms = {precision: False} if precision != "float32" else {}
    if vmap:
        forms[f"{precision}, shortlist"] = True
    verdicts = {}
    for name, shortlist in forms.items():
        smaller_texts = translate_converted(bundle, small, dev[0], shortlist)
        verdicts[name] = judge_smaller_model(texts, smaller_texts, dev[1], lowercase)

    return verdicts


def translate_converted(
    bundle: "Bundle",
    directory: Path,
    lines: Sequence[str],
    shortlist: bool = False,
) -> list[str]:
    """Return what a converted model writes in CTranslate2 alone, as in other programs.

    Blank lines stay blank.
    """
    from pellucid.cpu import count_processors
    from pellucid.data.tokenizer import strip_eos
    from pellucid.decode.request import SearchConfig
    from pellucid.interop.ctranslate2_engine import load_translator

    tokenizer = bundle.tokenizer
    sources = tokenizer.encode_source(lines)
    results = load_translator(directory, count_processors(), 1).translate_batch(
        [tokenizer.source_pieces(strip_eos(source)) for source in sources],  # CTranslate2 adds EOS, where one belongs
        beam_size=_GATE_BEAM,
        # CTranslate2 offers each sentence of a batch what the shortlist has for any of them.
        max_batch_size=1 if shortlist else 32,
        max_input_length=0,  # no limit: otherwise CTranslate2 cuts long sentences without a word
        # One limit for all sentences, the longest one's;
        # in Pellucid's own search it follows each source.
        max_decoding_length=min(bundle.model.config.max_positions, max(map(len, sources)) + SearchConfig.max_extra),
        use_vmap=shortlist,
    )
    ids = {piece: i for i, piece in enumerate(tokenizer.target_names)}
    texts = []
    for line, result in zip(lines, results, strict=True):
        text = tokenizer.decode_target([ids[piece] for piece in result.hypotheses[0]])
        texts.append(text if line.strip() else "")

    return texts


def _gate_table(verdicts: Mapping[str, "GateVerdict"]) -> list[str]:
    """Return a line for each form of the model: its chrF and its share of translations that run in a loop."""
    first = next(iter(verdicts.values()))
    rows = [("float32", first.chrf_full, first.repetition_full)]
    rows += [(name, verdict.chrf_small, verdict.repetition_small) for name, verdict in verdicts.items()]
    return [
        f"{first.sentences:,} dev sentences, beam {_GATE_BEAM}:",
        *(f"  {name:20} chrF {chrf:6.2f}, {loops:.2%} run in a loop" for name, chrf, loops in rows),
    ]


def _refuse_failed_forms(
    precision: str,
    verdicts: Mapping[str, "GateVerdict"],
    instead: str = "bfloat16",
) -> None:
    """Raise ValueError, advising another precision, if a form of the model did not pass."""
    refused = {name: verdict for name, verdict in verdicts.items() if not verdict.passed}
    if not refused:
        return
    reasons = [f"{name}: {' and '.join(verdict.reasons)}" for name, verdict in refused.items()]
    advice = f"use --precision {instead} or float32" if precision in refused else "leave the shortlist out"
    raise ValueError(f"refused; {'; '.join(reasons)}; {advice}, or use --no-gate to export it all the same")
