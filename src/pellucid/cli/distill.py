"""`pellucid distill`: makes a small, fast student of a model."""

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.cluster_distillation import write_translations_on_cluster
from pellucid.cli.files import read_file_pair, require_file, say_notes, show_progress, write_lines
from pellucid.cli.options import (
    CLUSTER,
    CORES,
    LANGUAGE_TO_WRITE,
    LINES_PER_PART,
    PART_LINES,
    SETTINGS,
    TOKENIZE,
    WORKERS,
    argument,
    file_option,
    flag,
    option,
    search_default,
    search_option,
)

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.training.config import RunConfig
    from pellucid.workflows.distillation import TeacherText, Translate

DISTILL_EXAMPLES = """\
  pellucid distill runs/mine/best --source train.en --source news.en --dev-source dev.en --dev-target dev.es \
--out runs/student
  pellucid distill runs/a/best runs/b/best --source train.en --dev-source dev.en --dev-target dev.es --out runs/student
  pellucid distill runs/es-en/best --backward --source news.es --pairs-source train.en --pairs-target train.es \
--dev-source dev.en --dev-target dev.es --out runs/en-es"""


def run_distill(
    out: Annotated[
        str,
        option("directory of the student's run; go on with the same command", "DIR"),
    ],
    source: Annotated[
        list[str],
        file_option(
            "sentences for the teacher to translate, one per line, plain or .gz; can be repeated: the text it was "
            "trained on, and any further text of its source language"
        ),
    ],
    dev_source: Annotated[str, file_option("sentences to evaluate the student on")],
    dev_target: Annotated[str, file_option("their translations by people")],
    teachers: Annotated[
        list[str] | None,
        argument("TEACHER...", "a model directory, or several with the same tokenizer, as one"),
    ] = None,
    command: Annotated[
        str | None,
        option("a program as the teacher: it reads a sentence a line, and writes its translation a line"),
    ] = None,
    backward: Annotated[
        bool,
        flag(
            "--backward",
            "the teacher translates the other way: the student learns to write the text it is given",
        ),
    ] = False,
    pairs_source: Annotated[
        str | None,
        file_option("sentences that people translated, to learn from as well"),
    ] = None,
    pairs_target: Annotated[str | None, file_option("their translations")] = None,
    size: Annotated[str | None, option("size of the student", "tiny|small|base|big")] = None,
    steps: Annotated[int | None, option("number of updates to train for")] = None,
    minutes: Annotated[float | None, option("train for so many minutes instead")] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    length_penalty: Annotated[float, search_option("length_penalty")] = search_default("length_penalty"),
    tokenize: Annotated[str | None, TOKENIZE] = None,
    cluster: Annotated[str | None, CLUSTER] = None,
    workers: Annotated[int | None, WORKERS] = None,
    cores: Annotated[int, CORES] = 1,
    part_lines: Annotated[int, PART_LINES] = LINES_PER_PART,
    no_export: Annotated[bool, flag("--no-export", "do not export the student in int8")] = False,
    change: Annotated[list[str] | None, SETTINGS] = None,
) -> None:
    """Make a small, fast student of a model.

    The teacher translates the text, a student with a deep encoder and one decoder layer learns from
    its translations, and is exported to CTranslate2 in int8 with a shortlist, if the export passes
    on the dev sentences. At the end a table compares teacher and student. Translations that were
    cut off, run in a loop or are missing are left out, and listed in DIR/data/left_out.tsv.

    If the teacher's translations are too short, a larger --length-penalty makes both longer:
    compare some with `pellucid evaluate TEACHER --set length_penalty=...` first.

    With --cluster, the teacher's text is shared among workers, as in `pellucid translate
    --cluster`; the student is trained here. A command that was interrupted continues where it
    stopped.
    """
    options = locals()
    # Mistakes in the options and files are reported before a model is loaded.
    _check_options(options)
    _check_files([*source, dev_source, dev_target], pairs_source, pairs_target)
    dev = read_file_pair(dev_source, dev_target)

    search = {"beam": beam, "length_penalty": length_penalty}
    teacher = None
    if teachers:
        teacher = _load_teacher(teachers, language)

    directory = Path(out)
    text = _write_teacher_text(options, teacher, search, directory / "data")
    settings = _train_student(options, text, directory)

    student = directory / "best"
    exported = None
    if not no_export:
        exported = _export(student, directory / "int8", dev, text.source, text.target)
    compared = None if backward else teacher
    words = {"tokenize": tokenize or settings.train.dev_tokenize}
    write_lines(_comparison_lines(compared, student, exported, dev, search, words))


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError for options that do not go together, and for an unknown tokenizer."""
    command, tokenize = options["command"], options["tokenize"]
    if (command is None) == (not options["teachers"]):
        raise ValueError("name either a teacher, a model directory, or --command with a program that translates")
    if options["cluster"] is not None and command is not None:
        raise ValueError("--cluster gives each worker a teacher; --command is one program, so leave out one of them")
    if tokenize is not None:
        from pellucid.evaluate.score_words import require_score_tokenizer

        require_score_tokenizer(tokenize)


def _check_files(files: list[str], pairs_source: str | None, pairs_target: str | None) -> None:
    """Raise ValueError or OSError, before a model is loaded, for files that cannot be used."""
    from pellucid.data.lines import refuse_read_once

    if (pairs_source is None) != (pairs_target is None):
        raise ValueError("--pairs-source and --pairs-target belong together: line n of each is a pair")
    for path in (*files, pairs_source, pairs_target):
        refuse_read_once(path, "distillation reads its text several times, and again when it goes on")
        if path is not None:
            require_file(path)


def _load_teacher(teachers: Sequence[str], language: str | None) -> "Model":
    """Load a teacher of one model or several.

    Raises ValueError, before anything is written, for a multilingual one that was not told which
    language to write.
    """
    from pellucid.api import load

    first, *others = teachers
    teacher = load(first, others=others, target_language=language)
    teacher.translator.tokenizer.encode_source([])  # raises the ValueError
    return teacher


def _write_teacher_text(
    options: Mapping[str, Any],
    teacher: "Model | None",
    search: dict[str, Any],
    data: Path,
) -> "TeacherText":
    """Write the translations of the teacher, unless they are there, and the pairs made of them.

    Without a model the teacher is the program of --command.
    """
    from pellucid.workflows.distillation import (
        fingerprint_text,
        translate_with_command,
        write_pairs,
        write_translations,
    )

    source, command = options["source"], options["command"]
    identity: dict[str, Any] = {"text": fingerprint_text(source)}
    if teacher is not None:
        assert teacher.load_request
        identity |= {"models": teacher.load_request.models, **search}
        if options["language"]:
            identity["language"] = options["language"]
        translate = _translate_with_model(teacher, search)
    else:
        identity["command"] = command
        translate = translate_with_command(shlex.split(command))

    if options["cluster"] is not None:
        write_translations_on_cluster(options, data, identity, search)
    else:
        for _ in show_progress(write_translations(source, translate, data, identity)):
            pass

    text = write_pairs(source, data, options["backward"])
    summary = f"{text.pairs:,} pairs of the teacher"
    if text.left_out:
        counts = [f"{count:,} {reason}" for reason, count in sorted(text.left_out.items())]
        summary += f"; left out: {', '.join(counts)}"
    typer.echo(summary, err=True)
    return text


def _train_student(options: Mapping[str, Any], text: "TeacherText", directory: Path) -> "RunConfig":
    """Train the student, unless its run is over, and return the settings of the run."""
    from pellucid.cli.train import train_unless_finished
    from pellucid.training.config import read_run
    from pellucid.workflows.distillation import choose_student_settings

    if (directory / "run.toml").is_file():
        # As in `pellucid demo`: a run that was begun keeps its settings.
        settings = read_run(directory / "run.toml")
        train_unless_finished(settings, directory, ())
        return settings

    people = None
    if options["pairs_source"] and options["pairs_target"]:
        people = options["pairs_source"], options["pairs_target"]
    overrides = [*(options["change"] or ())]
    if options["tokenize"]:
        overrides.append(f"train.dev_tokenize={options['tokenize']}")
    settings, reasons = choose_student_settings(
        text,
        (options["dev_source"], options["dev_target"]),
        people=people,
        size=options["size"],
        steps=options["steps"],
        minutes=options["minutes"],
        overrides=overrides,
    )
    train_unless_finished(settings, directory, reasons)
    return settings


def _translate_with_model(teacher: "Model", search: dict[str, Any]) -> "Translate":
    """Return a function that translates with a model.

    Only the text counts, so scores are not asked for.
    """
    stream = partial(teacher.translate_stream, **search, scores=False)
    return lambda lines: ((translation.text, translation.stop) for translation in stream(lines))


def _export(
    student: Path,
    out: Path,
    dev: tuple[list[str], list[str]],
    source: Path,
    target: Path,
) -> Path | None:
    """Export the student in int8 with a shortlist.

    Return where it is, or None where the gate refuses it.
    """
    from pellucid.cli.export import export_ctranslate2
    from pellucid.store.directory import load_bundle

    pairs = read_file_pair(str(source), str(target))
    try:
        report = export_ctranslate2(load_bundle(student), out, "int8", dev, pairs)
    except ValueError as error:
        typer.echo(f"pellucid: no export in int8: {error}", err=True)
        return None

    for line in report:
        typer.echo(line, err=True)
    return out


def _comparison_lines(
    teacher: "Model | None",
    student: Path,
    exported: Path | None,
    dev: tuple[list[str], list[str]],
    search: dict[str, Any],
    words: dict[str, Any],
) -> Iterator[str]:
    """Yield a table of scores, speed and size of teacher and student, and which scores differ by more than luck.

    `words` are arguments of `corpus_scores` and `compare_translations` that say how text is cut
    into words.
    """
    from pellucid.api import load
    from pellucid.evaluate.comparison import compare_translations
    from pellucid.evaluate.report import headline
    from pellucid.evaluate.scores import NO_NGRAM, corpus_scores, score_notes

    sources, references = dev
    forms: dict[str, tuple[Model, dict[str, Any], Path]] = {}
    if teacher is not None:
        forms[f"teacher, beam {search['beam']}"] = teacher, search, teacher.directory
    student_model = load(student)
    forms[f"student, beam {search['beam']}"] = student_model, search, student
    if exported is not None:
        small = load(student, engine="ctranslate2", exported=exported)
        forms["student, int8, greedy"] = small, search | {"beam": 1}, exported

    words = {**words, "language": student_model.target_language}
    yield f"{'':24} {'BLEU':>6} {'chrF':>6} {'sentences/s':>12} {'MB':>7}"
    texts, notes, signatures = {}, dict[str, None](), dict[str, None]()
    for name, (model, options, directory) in forms.items():
        # What is loaded at the first sentence is not part of the speed.
        model.translate(sources[:1], **options)
        began = time.perf_counter()
        texts[name] = [result.text for result in model.translate(sources, **options, scores=False)]
        speed = len(sources) / (time.perf_counter() - began)
        scores = corpus_scores(texts[name], references, ["bleu", "chrf"], model.lowercase, **words)
        notes_of_model = score_notes(texts[name], references, **words)
        notes |= dict.fromkeys(notes_of_model)
        signatures[scores["bleu"]["signature"]] = None
        bleu = "-" if NO_NGRAM in notes_of_model else f"{scores['bleu']['score']:.2f}"
        size = sum(path.stat().st_size for path in directory.iterdir()) / 1e6
        yield f"{name:24} {bleu:>6} {scores['chrf']['score']:6.2f} {speed:12.1f} {size:7.1f}"

    say_notes([*notes, *(f"BLEU is {signature}" for signature in signatures)])
    if teacher is not None:
        first, *_, last = texts
        comparison = compare_translations(
            texts[first],
            texts[last],
            references,
            lowercase=teacher.lowercase,
            **words,
        )
        yield f"A is the {first}; B is the {last}: {headline(comparison)}"

    yield str(exported or student)
