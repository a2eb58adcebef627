"""Quality against minutes of training: trains a recipe, keeps every checkpoint's model, scores all on a test set.

    python -m benchmarks.quality multi30k            # runs/multi30k, then benchmarks/results/multi30k.md
    python -m benchmarks.quality tatoeba

A run that exists already is scored as it is. Needs PELLUCID_DATA and, for tokenised BLEU, sacremoses.
"""

import gzip
import json
import os
import platform
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pellucid
from pellucid.evaluate.scores import corpus_scores
from pellucid.training.checkpoint import list_checkpoints

HOUSE = Path(__file__).parent.parent
RESULTS = HOUSE / "benchmarks" / "results"
BEAM, ROWS = 5, 15


@dataclass(frozen=True)
class Task:
    """A recipe and a test set for one page of results."""

    title: str
    recipe: str
    source: str
    reference: str
    tokenised: str | None = None
    """File of the reference for published tokenised BLEU: lower case, Moses tokens."""
    examples: int = 0
    length_penalty: float = 0.6
    source_of_examples: str = ""
    """Credit for the sentences that are shown, where their licence allows it."""
    remark: str = ""


TASKS = {
    "multi30k": Task(
        "Multi30k English-German",
        "recipes/multi30k-en-de.toml",
        "multi30k/test_2016_flickr.en.gz",
        "multi30k/test_2016_flickr.de.gz",
        "multi30k/tok/test_2016_flickr.lc.norm.tok.de.gz",
        length_penalty=1.0,
        remark="Of the length penalties 0.6 and 1.0, this one gave an earlier model the better score on the dev set.",
    ),
    "tatoeba": Task(
        "Tatoeba English-Spanish",
        "recipes/tatoeba-en-es.toml",
        "tatoeba_en-es/test.en.gz",
        "tatoeba_en-es/test.es.gz",
        examples=20,
        length_penalty=1.0,
        source_of_examples="Sources and references: tatoeba.org, by way of www.manythings.org/anki, CC BY 2.0.",
        remark="The run used one of the two cores: OMP_NUM_THREADS=1.",
    ),
}


def main() -> None:
    """Train if needed, score, and write the page."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TASKS or "PELLUCID_DATA" not in os.environ:
        sys.exit(f"usage: PELLUCID_DATA=... python -m benchmarks.quality {'|'.join(TASKS)} [RUN]")
    task = TASKS[name]
    run = Path(sys.argv[2]) if len(sys.argv) > 2 else HOUSE / "runs" / name
    if not (run / "curve").exists():
        train_recipe(task, run)
    page = "\n".join(report_lines(name, task, run))
    (RESULTS / f"{name}.md").write_text(page + "\n", encoding="utf-8")
    print(page)


def train_recipe(task: Task, run: Path) -> None:
    """Run `pellucid train`, while the model of each checkpoint is linked into `curve/` before it is pruned."""
    training = subprocess.Popen([sys.executable, "-m", "pellucid", "train", HOUSE / task.recipe, "--out", run])
    finished = threading.Event()
    linking = threading.Thread(target=keep_models, args=(run, finished))
    linking.start()
    code = training.wait()
    finished.set()
    linking.join()
    if code:
        sys.exit(code)


def keep_models(run: Path, finished: threading.Event) -> None:
    """Make hard links to the files of every checkpoint as soon as it is there."""
    while True:
        # Looks once more after the end, for the checkpoint that was written last.
        last_look = finished.wait(timeout=3)
        for checkpoint in list_checkpoints(run):
            copy = run / "curve" / checkpoint.name
            if not copy.exists():
                copy.mkdir(parents=True)
                for file in checkpoint.iterdir():
                    # Links take no room, and stay when the checkpoint is pruned.
                    os.link(file, copy / file.name)
        if last_look:
            return


def report_lines(name: str, task: Task, run: Path) -> Iterator[str]:
    """Yield the lines of the page."""
    data = Path(os.environ["PELLUCID_DATA"])
    sources, references = lines(data / task.source), lines(data / task.reference)
    yield f"# {task.title}\n"
    yield f"Made by `python -m benchmarks.quality {name}` with [{task.recipe}](../../{task.recipe}) on {machine()}."
    yield f"Test set: {len(sources):,} sentences of `{task.source}`; beam {BEAM},"
    yield f"length penalty {task.length_penalty}. Minutes are of the whole run: updates, evaluations and checkpoints."
    yield f"{task.remark}\n"
    yield "| minutes | update | target tokens | test BLEU | test chrF |"
    yield "|---|---|---|---|---|"
    for checkpoint in select_evenly(sorted((run / "curve").iterdir()), ROWS):
        numbers = json.loads((checkpoint / "training.json").read_text(encoding="utf-8"))["counts"]
        scores, _ = score_model(checkpoint, task, sources, references)
        yield (
            f"| {numbers['seconds'] / 60:.1f} | {numbers['step']:,} | {numbers['target_tokens']:,} | "
            f"{scores['bleu']['score']:.2f} | {scores['chrf']['score']:.2f} |"
        )
    for kind in ("best", "average"):
        scores, texts = score_model(run / kind, task, sources, references)
        yield f"| | `{kind}/` | | {scores['bleu']['score']:.2f} | {scores['chrf']['score']:.2f} |"
    yield "\n`best/` was chosen on the dev set; nothing was chosen on the test set."
    yield f"Signature: `{scores['bleu']['signature']}`."
    if task.tokenised:
        score, share = tokenised_bleu(texts, references, lines(data / task.tokenised))
        yield (
            f"\n`average/`, lower-cased and Moses-tokenised, against `{task.tokenised}`: **{score:.2f}** BLEU "
            "(published for this model and test set: 41.02, Wu et al. 2021). The same normalisation gives back "
            f"{share:.1%} of the published reference's lines from the raw reference."
        )
    if not task.examples:
        return
    yield f"\n## {task.examples} random test sentences\n\n{task.source_of_examples}\n"
    yield "| source | translation | reference |\n|---|---|---|"
    for i in sorted(random.Random(1).sample(range(len(sources)), task.examples)):
        yield f"| {sources[i]} | {texts[i]} | {references[i]} |"


def select_evenly(checkpoints: list[Path], limit: int) -> list[Path]:
    """Select at most `limit` of the checkpoints at equal distances, the last among them."""
    # Rounded up, so that no more than the limit are left; reversed, so that the last is among them.
    step = -(-len(checkpoints) // limit)
    return checkpoints[::-1][::step][::-1]


def score_model(
    model: Path, task: Task, sources: list[str], references: list[str], beam: int = BEAM
) -> tuple[dict, list[str]]:
    """Return the test scores of a model directory, without case if it writes lower case only; and its translations."""
    loaded = pellucid.load(model)
    texts = [
        translation.text for translation in loaded.translate(sources, beam=beam, length_penalty=task.length_penalty)
    ]
    return corpus_scores(texts, references, metrics=("bleu", "chrf"), lowercase=loaded.lowercase), texts


def tokenised_bleu(
    texts: list[str], raw: list[str], references: list[str], language: str = "de"
) -> tuple[float, float]:
    """Return BLEU of lower-cased Moses tokens, and the share of reference lines that these steps reproduce."""
    from sacrebleu.metrics.bleu import BLEU

    tokens = moses(language)
    share = sum(tokens(line) == reference for line, reference in zip(raw, references, strict=True)) / len(raw)
    # The texts are tokens already.
    score = BLEU(tokenize="none", force=True).corpus_score([tokens(text) for text in texts], [references]).score
    return score, share


def moses(language: str, lowercase: bool = True, normalise: bool = True) -> Callable[[str], str]:
    """Return a function that writes a line as tokens with spaces between them, like the Moses scripts."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer  # pyright: ignore[reportMissingImports]  # no package of the project needs it

    normal, tokenise = MosesPunctNormalizer(lang=language).normalize, MosesTokenizer(lang=language).tokenize

    def tokens(line: str) -> str:
        line = line.lower() if lowercase else line
        return " ".join(tokenise(normal(line) if normalise else line))

    return tokens


def lines(path: Path) -> list[str]:
    """Read the lines of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def machine() -> str:
    """Describe the processor, and whether training in bfloat16 is done in bfloat16 there."""
    import torch

    from pellucid.cpu import has_native_bfloat16

    name, cpu_info = platform.processor(), Path("/proc/cpuinfo")
    if cpu_info.exists():
        match = re.search(r"model name\s*: (.*)", cpu_info.read_text(encoding="utf-8"))
        name = match[1] if match else name
    without_bfloat16 = (
        ""
        if has_native_bfloat16(torch.device("cpu"))
        else " without bfloat16 (trained in float32 where it is asked for)"
    )
    return f"{name}, {os.cpu_count()} cores{without_bfloat16}, torch {torch.__version__}"


if __name__ == "__main__":
    main()
