"""`pellucid demo`: the whole path on the built-in phrasebook."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import write_lines

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.train.config import RunConfig

EXAMPLES = """\
  pellucid demo
  pellucid demo --out runs/quick --minutes 1"""

DEMO_PAIRS = 120_000
DEMO_STEPS = 1500
"""A number of updates and not of minutes, so that a slow or busy machine trains the same model as a fast one."""

DEMO_RECIPE: dict[str, Any] = {
    "seed": 1,
    "tokenizer": {"vocabulary": 2000},
    "model": {"size": "tiny", "dropout": 0.0},
    "train": {"batch_tokens": 1024, "dev_sentences": 200},
    "optim": {"peak": 3e-3, "warmup": 300, "schedule": "linear"},
}


def run(
    out: Annotated[str, typer.Option(metavar="DIR", help="directory of the run")] = "runs/demo",
    steps: Annotated[int | None, typer.Option(help=f"updates to train for  [default: {DEMO_STEPS}]")] = None,
    minutes: Annotated[float | None, typer.Option(help="or minutes to train for: few of them teach little")] = None,
) -> None:
    """The whole path on built-in sentences.

    Train on an English-Spanish phrasebook, translate, score: minutes on two cores, nothing to fetch. The phrasebook is
    a small grammar that writes sentence pairs; the model is tested on some it has not seen. A demo that was interrupted
    goes on where it stopped, and one that is done shows its results again.
    """
    from pellucid.api import load
    from pellucid.cli.train import train_and_plot

    directory = Path(out)
    folder = directory / "data"
    settings = demo_settings(directory, {"steps": steps, "minutes": minutes})
    write_data(folder)
    if not (directory / "average").is_dir():
        train_and_plot(settings, directory, resume=(directory / "run.toml").is_file())
    model = load(directory / "best")
    write_lines([*score_test_set(model, folder), "", *held_out_lines(model), "", *next_step_lines(directory)])


def demo_settings(directory: Path, length: dict[str, float | None]) -> "RunConfig":
    """The settings of the run that began there, else the recipe for the length given."""
    from pellucid.api import run_settings
    from pellucid.train.config import read_run

    if (directory / "run.toml").is_file():
        return read_run(directory / "run.toml")
    given = {key: value for key, value in length.items() if value is not None}
    files = {
        f"{prefix}{side}": str(directory / "data" / f"{part}.{language}")
        for prefix, part in (("", "train"), ("dev_", "dev"))
        for side, language in (("source", "en"), ("target", "es"))
    }
    return run_settings(
        {**DEMO_RECIPE, "train": {**DEMO_RECIPE["train"], **(given or {"steps": DEMO_STEPS})}, "data": files}
    )[0]


def write_data(folder: Path) -> None:
    """The phrasebook as files, written once; the names are train.en, train.es, train.align, dev.en and so on."""
    from pellucid.data.phrasebook import split_phrases, write_split

    names = [f"{part}.{language}" for part in ("train", "dev", "test") for language in ("en", "es", "align")]
    if not all((folder / name).exists() for name in names):
        typer.echo(f"writing {DEMO_PAIRS:,} sentence pairs of the phrasebook into {folder}", err=True)
        write_split(folder, split_phrases(DEMO_PAIRS))


def score_test_set(model: "Model", folder: Path) -> list[str]:
    """BLEU of the test sentences, none of which was trained on."""
    from pellucid.data.corpus import read_lines
    from pellucid.evaluate.scores import corpus_scores

    sources, references = (list(read_lines(folder / name)) for name in ("test.en", "test.es"))
    texts = [each.text for each in model.translate(sources)]
    bleu = corpus_scores(texts, references, metrics=["bleu"])["bleu"]
    right = sum(text == reference for text, reference in zip(texts, references, strict=True))
    return [
        f"BLEU {bleu['score']:.2f} on {len(sources):,} sentences the model has never seen ({bleu['signature']}); "
        f"{right:,} of them are exactly right"
    ]


def held_out_lines(model: "Model") -> list[str]:
    """The six sentences held out by hand: source, translation and, where it differs, reference."""
    from pellucid.data.phrasebook import HELD_OUT

    translations = model.translate([phrase.source for phrase in HELD_OUT])
    lines = ["Six more it has never seen (✓ exactly right, ✗ not):"]
    for phrase, translation in zip(HELD_OUT, translations, strict=True):
        right = translation.text == phrase.target
        lines += ["", f"    {phrase.source}", f"  {'✓' if right else '✗'} {translation.text}"]
        lines += [] if right else [f"    {phrase.target}  (reference)"]
    return lines


def next_step_lines(directory: Path) -> list[str]:
    """Where the plot is, and three commands to go on with."""
    plot, program, data = directory / "training.png", program_name(), directory / "data"
    return [
        *([f"The loss and the dev scores, drawn: {plot}"] if plot.exists() else []),
        "Next, try:",
        f'  echo "The white dog drank the water." | {program} translate {directory / "best"} --n-best 3',
        f'  {program} explain {directory / "best"} "The ball is blue."',
        f"  {program} serve {directory / 'best'} --open",
        f"  {program} evaluate {directory / 'best'} --source {data / 'test.en'} --reference {data / 'test.es'}",
        f"  {program} train --source YOURS.en --target YOURS.es --out runs/yours --minutes 20",
    ]


def program_name() -> str:
    """How this program was called, in a form that can be called again."""
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{sys.executable} -m pellucid"
    return "pellucid" if shutil.which("pellucid") else sys.argv[0]
