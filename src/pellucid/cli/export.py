"""`pellucid export`: a model in another program's format, and no worse for it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import equal_lines, require_file, write_lines
from pellucid.cli.options import MODEL
from pellucid.cli.quality_gate import DevPairs, gate_table, judge_forms, refuse_failed_forms, refuse_long_dev_pairs

if TYPE_CHECKING:
    from pellucid.bundle import Bundle

EXAMPLES = """\
  pellucid export runs/demo/best demo-marian --to marian
  pellucid export runs/demo/best demo-ct2 --to ctranslate2
  pellucid export runs/demo/best demo-int8 --to ctranslate2 --precision int8 --dev-source dev.en --dev-target dev.es
  pellucid export runs/demo/best demo-short --to ctranslate2 --shortlist-source train.en --shortlist-target train.es"""

FORMAT_FILES = {"marian": "source.spm", "ctranslate2": "model.bin"}
"""The formats, each with a file that only it has."""

PRECISIONS = ("float32", "bfloat16", "int8")

MOST_SHORTLIST_PAIRS = 400_000
"""Read for a shortlist, evenly from all that there are."""


def run(
    model: Annotated[str, MODEL],
    out: Annotated[str, typer.Argument(metavar="OUT", help="directory to write; an earlier export there is replaced")],
    to: Annotated[str, typer.Option(metavar="marian|ctranslate2", help="the format")],
    precision: Annotated[
        str | None, typer.Option(metavar="|".join(PRECISIONS), help="of CTranslate2's weights; left out, float32")
    ] = None,
    dev_source: Annotated[
        str | None, typer.Option(metavar="FILE", help="sentences to measure the export with, none it was trained on")
    ] = None,
    dev_target: Annotated[str | None, typer.Option(metavar="FILE", help="their translations by people")] = None,
    no_gate: Annotated[bool, typer.Option("--no-gate", help="int8 or a shortlist without being measured")] = False,
    shortlist_source: Annotated[
        str | None, typer.Option(metavar="FILE", help="sentences to make a shortlist from: those it was trained on")
    ] = None,
    shortlist_target: Annotated[str | None, typer.Option(metavar="FILE", help="their translations")] = None,
) -> None:
    """A model in another program's format.

    marian: a directory that AutoModelForSeq2SeqLM and AutoTokenizer of Hugging Face transformers load. ctranslate2: a
    directory for CTranslate2, which translates several times faster.

    --precision int8 makes that a quarter of the size and faster still, but changes what is written. So the export
    translates --dev-source first, and is refused if chrF falls by more than 0.3 or more translations run in a loop
    than before; the parts of the model that cost most are named then.

    A shortlist (vmap.txt) lets CTranslate2 consider, for each batch, only what the pieces of its sentences may be
    translated by. It is used with use_vmap=True, and measured with --dev-source too.
    """
    files = {
        "--dev-source": dev_source,
        "--dev-target": dev_target,
        "--shortlist-source": shortlist_source,
        "--shortlist-target": shortlist_target,
    }
    check_options(to, precision, no_gate, files)
    refuse_other_than_export(Path(out), to)
    from pellucid.bundle import load_bundle

    dev = equal_lines(dev_source, dev_target) if dev_source and dev_target else None
    shortlist = equal_lines(shortlist_source, shortlist_target) if shortlist_source and shortlist_target else None
    found, report = load_bundle(model), list[str]()
    if dev:
        refuse_long_dev_pairs(found, dev, (str(dev_source), str(dev_target)))
    if to == "marian":
        from pellucid.interop.marian import export_marian

        export_marian(found, out)
    else:
        report = export_ctranslate2(found, Path(out), precision or "float32", dev, shortlist)
    write_lines([*report, *note_padded_heads(found), *describe_contents(Path(out))])


def note_padded_heads(found: "Bundle") -> list[str]:
    """What to know of a pruned model that was exported."""
    from pellucid.interop.padded_heads import NOTE, count_removed_heads

    count = count_removed_heads(found.model.config)
    return [f"note: {NOTE.format(count=count)}"] if count else []


def check_options(to: str, precision: str | None, no_gate: bool, files: dict[str, str | None]) -> None:
    """ValueError, before anything is read, with all that is wrong with the options."""
    given = [name for name, path in files.items() if path is not None]
    problems = []
    if to not in FORMAT_FILES:
        problems.append(f"--to is {to!r}, it must be {' or '.join(FORMAT_FILES)}")
    if precision not in (None, *PRECISIONS):
        problems.append(f"--precision is {precision!r}, it must be one of {', '.join(PRECISIONS)}")
    for one, other in (("--dev-source", "--dev-target"), ("--shortlist-source", "--shortlist-target")):
        if (one in given) != (other in given):
            problems.append(
                f"{one} and {other} belong together: line n of one is the translation of line n of the other"
            )
    if [files[name] for name in given].count("-") > 1:
        problems.append("only one file can be standard input")
    strangers = [*(["--precision"] if precision else []), *(["--no-gate"] if no_gate else []), *given]
    changes = precision in ("bfloat16", "int8") or "--shortlist-source" in given
    if to == "marian" and strangers:
        problems.append(
            f"{', '.join(strangers)}: only --to ctranslate2 takes that; marian is written in float32, as it is"
        )
    elif no_gate and "--dev-source" in given:
        problems.append("--no-gate leaves out what --dev-source is for; give one of them")
    elif (no_gate or "--dev-source" in given) and not changes:
        problems.append("float32 without a shortlist writes what the model writes: there is nothing to measure")
    elif precision == "int8" and not no_gate and "--dev-source" not in given:
        problems.append(
            "int8 changes what a model writes, so it is measured first: give --dev-source and --dev-target, some "
            "hundred sentences and their translations that it was not trained on; or --no-gate to go without"
        )
    if problems:
        raise ValueError("; ".join(problems))
    for name in given:
        require_file(str(files[name]))


def refuse_other_than_export(out: Path, to: str) -> None:
    """ValueError for a place where something other than an export to this format stands."""
    from pellucid import atomic

    atomic.refuse_non_model_directory(out)
    if (out / atomic.MANIFEST).exists():
        manifest = atomic.read_manifest(out)
        if FORMAT_FILES[to] not in manifest["files"] or manifest.get("exported") is None:
            raise ValueError(f"{out} is no export to {to} and is not replaced; choose another place")


def export_ctranslate2(
    found: "Bundle", out: Path, precision: str, dev: DevPairs | None, pairs: DevPairs | None
) -> list[str]:
    """Convert, measure, and only then write to `out`; what there is to say of it. ValueError where the gate refuses."""
    from pellucid.interop.ctranslate2 import convert_to_ctranslate2

    report: list[str] = []
    origin = {"from": found.directory.resolve().name, "sha256": found.manifest["sha256"]}
    about: dict[str, Any] = {"exported": {"format": "ctranslate2", **origin}}
    with TemporaryDirectory(prefix="pellucid-") as folder:
        vmap = Path(folder) / "vmap.txt" if pairs else None
        if vmap and pairs:
            report += write_shortlist(found, vmap, pairs, dev)
        if dev:
            seen = judge_forms(found, Path(folder), precision, vmap, dev)
            report += gate_table(seen)
            refuse_failed_forms(found, precision, seen, dev)
            about["measured"] = {name: vars(verdict) for name, verdict in seen.items()}
        elif precision != "float32" or pairs:
            report.append("not measured: how much worse it translates than the model, if at all, is not known")
            about["measured"] = "no"
        convert_to_ctranslate2(found.model, found.tokenizer, out, precision, vmap=vmap, **about)
    return report


def write_shortlist(found: "Bundle", path: Path, pairs: DevPairs, dev: DevPairs | None) -> list[str]:
    """The shortlist of these pairs, and how much of the references it has."""
    from pellucid.interop.lexicon import make_shortlist, measure_coverage, train_lexicon, write_vmap

    tokenizer, step = found.tokenizer, -(-len(pairs[0]) // MOST_SHORTLIST_PAIRS)
    read, written = tokenizer.encode_source(pairs[0][::step]), tokenizer.encode_target(pairs[1][::step])
    short = make_shortlist(train_lexicon(read, written), written, tokenizer)
    unwritable = write_vmap(path, short, tokenizer)
    if dev:
        read, written = tokenizer.encode_source(dev[0]), tokenizer.encode_target(dev[1])
    held = measure_coverage(short, read, written)
    report = [
        f"shortlist: {held.pieces:,.0f} of {tokenizer.target_vocabulary:,} pieces for a sentence on average, making "
        f"{held.share:.2%} of the text in {'--dev-target' if dev else '--shortlist-target'}"
    ]
    if unwritable:
        report.append(f"its file cannot hold {', '.join(map(repr, unwritable))}, which is never written with it")
    return report


def describe_contents(out: Path) -> list[str]:
    """What was written, and how large it is."""
    files = {path.name: path.stat().st_size for path in sorted(out.iterdir())}
    listed = ", ".join(f"{name} {size:,}" for name, size in files.items())
    return [f"{out}: {sum(files.values()):,} bytes ({listed})"]
