"""`pellucid demo`: the whole path on the built-in phrasebook."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import write_lines

if TYPE_CHECKING:
    from pellucid.api import Model

EXAMPLES = """\
  pellucid demo
  pellucid demo --out runs/quick --minutes 1"""

PAIRS = 120_000
RECIPE: dict[str, Any] = {
    "seed": 1,
    "tokenizer": {"vocabulary": 2000},
    "model": {"size": "tiny", "dropout": 0.0},
    "train": {"batch_tokens": 1024, "dev_sentences": 200},
    "optim": {"peak": 3e-3, "warmup": 300, "schedule": "linear"},
}


def run(
    out: Annotated[str, typer.Option(metavar="DIR", help="directory of the run")] = "runs/demo",
    minutes: Annotated[float, typer.Option(help="minutes to train")] = 3.5,
) -> None:
    """The whole path on built-in sentences.

    Train on an English-Spanish phrasebook, translate, score: minutes on two cores, nothing to fetch. The phrasebook is
    a small grammar that writes sentence pairs; the model is tested on some it has not seen. A demo that was interrupted
    goes on where it stopped, and one that is done shows its results again.
    """
    from pellucid.api import load

    directory = Path(out)
    data = written_data(directory)
    if not (directory / "average").is_dir():
        train(directory, data, minutes)
    model = load(directory / "best")
    write_lines([*test_scores(model, data), "", *shown(model), "", *next_steps(directory)])


def written_data(directory: Path) -> dict[str, Path]:
    """The phrasebook as files, written once; the names are train.en, train.es, dev.en and so on."""
    from pellucid.data.phrasebook import split, write

    folder = directory / "data"
    names = [f"{part}.{language}" for part in ("train", "dev", "test") for language in ("en", "es")]
    if not all((folder / name).exists() for name in names):
        typer.echo(f"writing {PAIRS:,} sentence pairs of the phrasebook into {folder}", err=True)
        write(folder, split(PAIRS))
    return {name: folder / name for name in names}


def train(directory: Path, data: dict[str, Path], minutes: float) -> None:
    """The recipe, begun or gone on with."""
    from pellucid.api import run_settings
    from pellucid.cli.train import trained
    from pellucid.train.config import read_run

    tables = {
        **RECIPE,
        "train": {**RECIPE["train"], "minutes": minutes},
        "data": {
            "source": str(data["train.en"]),
            "target": str(data["train.es"]),
            "dev_source": str(data["dev.en"]),
            "dev_target": str(data["dev.es"]),
        },
    }
    resume = any(directory.glob("checkpoints/*"))
    trained(read_run(directory / "run.toml") if resume else run_settings(tables)[0], directory, resume)


def test_scores(model: "Model", data: dict[str, Path]) -> list[str]:
    """BLEU of the test sentences, none of which was trained on."""
    from pellucid.data.corpus import read_lines
    from pellucid.evaluate.scores import corpus_scores

    sources, references = (list(read_lines(data[name])) for name in ("test.en", "test.es"))
    texts = [each.text for each in model.translate(sources)]
    bleu = corpus_scores(texts, references, metrics=["bleu"])["bleu"]
    right = sum(text == reference for text, reference in zip(texts, references, strict=True))
    return [
        f"BLEU {bleu['score']:.2f} on {len(sources):,} sentences the model has never seen ({bleu['signature']}); "
        f"{right:,} of them are exactly right"
    ]


def shown(model: "Model") -> list[str]:
    """The six sentences held out by hand: source, translation and, where it differs, reference."""
    from pellucid.data.phrasebook import HELD_OUT

    translations = model.translate([phrase.source for phrase in HELD_OUT])
    lines = ["Six more it has never seen (✓ exactly right, ✗ not):"]
    for phrase, translation in zip(HELD_OUT, translations, strict=True):
        right = translation.text == phrase.target
        lines += ["", f"    {phrase.source}", f"  {'✓' if right else '✗'} {translation.text}"]
        lines += [] if right else [f"    {phrase.target}  (reference)"]
    return lines


def next_steps(directory: Path) -> list[str]:
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
