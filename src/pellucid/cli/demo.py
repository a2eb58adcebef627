"""`pellucid demo`: trains, translates and scores on the built-in phrasebook."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.next_steps import program_name
from pellucid.cli.options import option

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.training.config import RunConfig

DEMO_EXAMPLES = """\
  pellucid demo
  pellucid demo --out runs/quick --minutes 1"""

DEMO_PAIRS = 120_000
# Updates, not minutes: so a slow or busy machine trains the same model as a fast one.
DEMO_STEPS = 1000  # updates of a demo whose length is not given

DEMO_RECIPE: dict[str, Any] = {
    "seed": 1,
    "tokenizer": {"vocabulary": 2000},
    "model": {"size": "tiny", "dropout": 0.0},
    "train": {"batch_tokens": 1024, "dev_sentences": 200, "initial_embeddings": "text"},
    "optim": {"kind": "muon", "peak": 5e-3, "warmup": 100, "schedule": "linear"},
}


def run_demo(
    out: Annotated[str, option("directory to write the run to", "DIR")] = "runs/demo",
    steps: Annotated[
        int | None,
        option(f"number of updates to train for  [default: {DEMO_STEPS}]"),
    ] = None,
    minutes: Annotated[
        float | None,
        option("train for so many minutes instead; a few minutes teach little"),
    ] = None,
) -> None:
    """Train, translate and score on built-in sentences.

    Train on an English-Spanish phrasebook, translate, score: minutes on two cores, nothing to
    download. The phrasebook is a small grammar that writes sentence pairs; the model is tested on
    pairs it has not seen. An interrupted demo continues where it stopped, and a finished one shows
    its results again.
    """
    from pellucid.api import load
    from pellucid.cli.train import train_unless_finished

    directory = Path(out)
    folder = directory / "data"
    settings = demo_settings(directory, {"steps": steps, "minutes": minutes})
    write_data(folder)
    train_unless_finished(settings, directory)
    model = load(directory / "best")
    write_lines(
        [
            *_score_test_set(model, folder),
            "",
            *_held_out_lines(model),
            "",
            *_next_step_lines(directory),
        ]
    )


def demo_settings(directory: Path, length: dict[str, float | None]) -> "RunConfig":
    """Return the settings of the run in `directory`, or else the recipe with the length that was asked for."""
    from pellucid.training.config import read_run
    from pellucid.training.defaults import run_settings

    # A run that was begun keeps its settings: others would be refused on resuming.
    if (directory / "run.toml").is_file():
        return read_run(directory / "run.toml")
    length_settings = {key: value for key, value in length.items() if value is not None}
    folder = directory / "data"
    files = {
        "source": str(folder / "train.en"),
        "target": str(folder / "train.es"),
        "dev_source": str(folder / "dev.en"),
        "dev_target": str(folder / "dev.es"),
    }
    train = {**DEMO_RECIPE["train"], **(length_settings or {"steps": DEMO_STEPS})}
    return run_settings({**DEMO_RECIPE, "train": train, "data": files})[0]


def write_data(folder: Path) -> None:
    """Write the phrasebook, unless it is there, as train.en, train.es, train.align, dev.en and so on."""
    from pellucid.demo.phrasebook import split_phrases, write_split

    names = [f"{split}.{language}" for split in ("train", "dev", "test") for language in ("en", "es", "align")]
    # All files, so that a demo that was killed while writing them writes them again.
    if not all((folder / name).exists() for name in names):
        typer.echo(f"writing {DEMO_PAIRS:,} sentence pairs of the phrasebook into {folder}", err=True)
        write_split(folder, split_phrases(DEMO_PAIRS))


def _score_test_set(model: "Model", folder: Path) -> list[str]:
    """Return the line with the BLEU score on the test sentences, which the model was not trained on."""
    from pellucid.data.lines import read_lines
    from pellucid.evaluate.scores import corpus_scores

    sources, references = (list(read_lines(folder / name)) for name in ("test.en", "test.es"))
    texts = [translation.text for translation in model.translate(sources)]
    bleu = corpus_scores(texts, references, metrics=["bleu"])["bleu"]
    exact = sum(text == reference for text, reference in zip(texts, references, strict=True))
    return [
        f"BLEU {bleu['score']:.2f} on {len(sources):,} sentences the model has never seen ({bleu['signature']}); "
        f"{exact:,} of them are exactly right"
    ]


def _held_out_lines(model: "Model") -> list[str]:
    """Return the six sentences held out by hand: source, translation and, where it differs, reference."""
    from pellucid.demo.phrasebook import HELD_OUT

    translations = model.translate([phrase.source for phrase in HELD_OUT])
    lines = ["Six more it has never seen (✓ exactly right, ✗ not):"]
    for phrase, translation in zip(HELD_OUT, translations, strict=True):
        exact = translation.text == phrase.target
        lines += ["", f"    {phrase.source}", f"  {'✓' if exact else '✗'} {translation.text}"]
        lines += [] if exact else [f"    {phrase.target}  (reference)"]
    return lines


def _next_step_lines(directory: Path) -> list[str]:
    """Return lines that say where the plot is and which commands to try next."""
    plot, program, data = directory / "training.png", program_name(), directory / "data"
    return [
        *([f"The loss and the dev scores, drawn: {plot}"] if plot.exists() else []),
        "Next, try:",
        f'  echo "The white dog drank the water." | {program} translate {directory / "best"} --n-best 3',
        f'  {program} explain {directory / "best"} "The ball is blue."',
        f"  {program} serve {directory / 'best'} --open",
        f"  {program} export {directory / 'best'} demo.html --to page",
        f"  {program} evaluate {directory / 'best'} --source {data / 'test.en'} --reference {data / 'test.es'}",
        f"  {program} train --source YOURS.en --target YOURS.es --out runs/yours --minutes 20",
    ]
