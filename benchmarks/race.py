"""Race to a score: processor seconds of one core until the dev set is translated with a BLEU or chrF, beside peers.

    make race        # or: python -m benchmarks.race multi30k
    python -m benchmarks.race tatoeba --contestants pellucid-default nn_transformer-muon

Every run is complete, with a learning rate that falls to zero at its end; runs of more and more updates are made until
the last mark is reached. What was measured is kept in benchmarks/results/race-NAME.json and not measured again. Writes
benchmarks/results/race.md, which shows every race that has such a file. On another machine, `--machine amx` keeps its
measurements and its page beside them, as race-amx-NAME.json and race-amx.md. Seconds are processor seconds, so that
other programs disturb little; hours of one core. Needs PELLUCID_DATA.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from matplotlib.ticker import LogLocator, NullFormatter

import pellucid
from benchmarks.quality import HOUSE, RESULTS, lines, machine
from benchmarks.train import PACKAGES, write_pairs
from benchmarks.translate import make_environment
from pellucid.evaluate.scores import METRICS, corpus_scores
from pellucid.interpret.plots.figure import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY_BLUE,
    VERMILION,
    YELLOW,
    empty_figure,
    tidy_axes,
    write_figure,
)
from pellucid.model import PRESETS
from pellucid.training.data import read_data
from pellucid.training.defaults import run_settings

FOLDER = HOUSE / "runs" / "race"
BUDGETS = (100, 200, 400, 800, 1600, 3200, 6400, 12800)
"""Updates of the runs."""
RATES = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
"""Learning rates of a peer, of which the best is chosen, beginning with the third and the fourth."""
LITTLE_DROPOUT, LITTLE_UPDATES = 0.1, 3200
"""Dropout of peers in runs up to a number of updates; longer ones have what Pellucid ends with."""
COLOURS = (VERMILION, BLUE, GREEN, ORANGE, SKY_BLUE, YELLOW, PURPLE, BLACK)
"""Of the curves, Pellucid's first."""


@dataclass(frozen=True)
class Race:
    """A text, a metric, and the scores to reach."""

    title: str
    folder: str
    train: tuple[str, str]
    dev: tuple[str, str]
    metric: str
    marks: tuple[float, ...]
    tuning: int
    """Updates of the runs that choose a peer's learning rate."""
    short: int
    """Updates up to which a run is made with every seed; a longer one is made with the first."""

    @property
    def files(self) -> dict[str, Path]:
        """Files of the command, by option."""
        folder = Path(os.environ["PELLUCID_DATA"]) / self.folder
        names = zip(("source", "target", "dev_source", "dev_target"), (*self.train, *self.dev), strict=True)
        return {option: folder / f"{name}.gz" for option, name in names}

    @cached_property
    def dev_text(self) -> tuple[list[str], list[str]]:
        """Sources and references of the dev set."""
        return lines(self.files["dev_source"]), lines(self.files["dev_target"])

    def score(self, texts: list[str]) -> float:
        """Return the score of translations of the dev set."""
        return corpus_scores(texts, self.dev_text[1], (self.metric,))[self.metric]["score"]


RACES = {
    "multi30k": Race(
        "Multi30k English-German",
        "multi30k",
        ("train.en", "train.de"),
        ("val.en", "val.de"),
        "bleu",
        (10, 20, 25, 30, 33.8),
        tuning=800,
        short=800,
    ),
    "tatoeba": Race(
        "Tatoeba English-Spanish",
        "tatoeba_en-es",
        ("train.en", "train.es"),
        ("valid.en", "valid.es"),
        "chrf",
        (30, 40, 50),
        tuning=200,
        short=200,
    ),
}


@dataclass(frozen=True)
class Contestant:
    """A way to train; `is_tuned` says whether its learning rate is chosen by trial runs."""

    name: str
    peer: str
    optimizer: str = "adam"
    is_tuned: bool = True

    @property
    def key(self) -> str:
        """Name in file names."""
        return f"{self.peer}-{self.optimizer if self.is_tuned else 'default'}"


OURS = Contestant("Pellucid, two files and no settings", "pellucid", is_tuned=False)
PEERS = (
    Contestant("`torch.nn.Transformer` in a loop, Adam", "nn_transformer"),
    Contestant("`torch.nn.Transformer` in a loop, Muon", "nn_transformer", "muon"),
    Contestant("x-transformers in a loop, Adam", "x_transformers"),
    Contestant("x-transformers in a loop, Muon", "x_transformers", "muon"),
    Contestant("`eole train`", "eole"),
    Contestant("Hugging Face `Seq2SeqTrainer`, tuned", "hugging_face"),
    Contestant("Hugging Face `Seq2SeqTrainer`, its own settings", "hugging_face", is_tuned=False),
)


CONTESTANTS = (OURS, *PEERS)


@dataclass
class Track:
    """The runs of one race: where they lie, and what all peers are given."""

    name: str
    race: Race
    seeds: list[int]
    machine: str = ""
    """Name of the machine in file names; empty for the first one."""
    results: dict[str, dict[str, Any]] = field(init=False)
    """Processor seconds, score and learning rate of each run, by its name."""
    shared: dict[str, Any] = field(init=False)
    tokenizer: Any = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.results = self.read_results()
        run, _ = run_settings(steps=self.race.tuning, **self.race.files)
        data = read_data(run)
        self.tokenizer = data.tokenizer
        if not (self.folder / "pairs.npz").exists():
            write_pairs(self.folder / "pairs.npz", data.encoded)
        self.shared = {
            "pairs": str(self.folder / "pairs.npz"),
            "dev": data.tokenizer.encode_source(self.race.dev_text[0]),
            "scratch": str(self.folder / "scratch"),
            "vocabulary": data.tokenizer.target_vocabulary,
            "size": dict(PRESETS[run.model.size or "tiny"]),
            "batch_tokens": run.train.batch_tokens,
            "warmup": run.optim.warmup,
            "final_dropout": run.model.dropout,
        }

    @property
    def folder(self) -> Path:
        """Where the runs lie."""
        return FOLDER / self.machine / self.name

    @property
    def path(self) -> Path:
        """The file of what was measured."""
        return RESULTS / f"{page_name(self.machine)}-{self.name}.json"

    @property
    def contestants(self) -> list[Contestant]:
        """Contestants that were measured."""
        return [contestant for contestant in CONTESTANTS if self.points(contestant)]

    def read_results(self) -> dict[str, dict[str, Any]]:
        """Return what was measured until now, on any day."""
        return json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}

    def run_all(self, contestants: list[Contestant], most_seconds: float) -> None:
        """Make all runs, the short ones of all contestants first, until each has reached the last mark."""
        precisions = {peer: self.choose_precision(peer) for peer in contestants if peer in PEERS}
        rates = {peer: self.choose_rate(peer, precisions[peer]) for peer in contestants if peer.is_tuned}
        for updates in BUDGETS:
            for contestant in contestants:
                points = self.points(contestant)
                expected = points[-1][1] * updates / points[-1][0] if points else 0.0
                if expected > most_seconds or self.find_seconds(contestant, self.race.marks[-1]):
                    continue
                for seed in self.seeds if updates <= self.race.short else self.seeds[:1]:
                    result = self.run(
                        contestant, updates, seed, rates.get(contestant, 0.0), precisions.get(contestant, "")
                    )
                    # One seed is enough to know that a run is far from the first mark.
                    if result["score"] < self.race.marks[0] / 2:
                        break

    def choose_precision(self, peer: Contestant) -> str:
        """Return the precision in which a run of a hundred updates takes less time."""

        def seconds(precision: str) -> float:
            return self.run(peer, BUDGETS[0], 0, RATES[2], precision, f"precision-{precision}")["seconds"]

        return min(("bfloat16", "float32"), key=seconds)

    def choose_rate(self, peer: Contestant, precision: str) -> float:
        """Return the learning rate with which short runs of a peer score best, none beside it being better."""

        def score(rate: float) -> float:
            return self.run(peer, self.race.tuning, 0, rate, precision, f"tuning-{rate:g}")["score"]

        middle = len(RATES) // 2
        lower, upper = list(reversed(RATES[:middle])), list(RATES[middle:])
        best, *others = upper if score(upper[0]) > score(lower[0]) else lower
        for rate in others:
            if score(rate) <= score(best):
                break
            best = rate
        return best

    def run(
        self, contestant: Contestant, updates: int, seed: int, rate: float, precision: str, note: str = ""
    ) -> dict[str, Any]:
        """Make a run, unless it was made; return its processor seconds and its score on the dev set."""
        name = "-".join([contestant.key, *filter(None, [note]), str(updates), str(seed)])
        if name not in self.results:
            measure = self.run_ours if contestant is OURS else self.run_peer
            seconds, texts = measure(contestant, updates, seed, rate, precision)
            result: dict[str, Any] = {
                "seconds": round(seconds, 1),
                "score": round(self.race.score(texts), 3),
                "rate": rate,
            }
            if precision:
                result["precision"] = precision
            print(name, result, file=sys.stderr, flush=True)
            # Read anew: another process may measure other contestants.
            self.results = self.read_results() | {name: result}
            text = ",\n".join(f"{json.dumps(name)}: {json.dumps(run)}" for name, run in sorted(self.results.items()))
            self.path.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
        return self.results[name]

    def run_ours(self, _: Contestant, updates: int, seed: int, __: float, ___: str) -> tuple[float, list[str]]:
        """Run `pellucid train` on two files; count the processor time of the whole command."""
        run = self.folder / f"pellucid-{updates}-{seed}"
        files = [
            str(word) for option, path in self.race.files.items() for word in (f"--{option.replace('_', '-')}", path)
        ]
        command = [sys.executable, "-m", "pellucid", "train", *files, "--steps", str(updates), "--out", str(run)]
        # One evaluation, at the end: twelve, as it has else, take longer than a short training.
        for setting in (f"seed={seed}", f"train.evaluate_every={updates}"):
            command += ["--set", setting]
        process = subprocess.Popen(command, env=one_thread(), stdout=sys.stderr)
        _, status, used = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"pellucid train failed with {updates} updates")
        results = pellucid.load(run / "best").translate(self.race.dev_text[0], beam=1, scores=False)
        return used.ru_utime + used.ru_stime, [result.text for result in results]

    def run_peer(
        self, peer: Contestant, updates: int, seed: int, rate: float, precision: str
    ) -> tuple[float, list[str]]:
        """Train a peer in a process of its own."""
        dropout = LITTLE_DROPOUT if updates <= LITTLE_UPDATES or not peer.is_tuned else self.shared["final_dropout"]
        task = {"peer": peer.peer, "optimizer": peer.optimizer, "updates": updates, "seed": seed, "rate": rate}
        task["precision"] = precision
        # In a file, as the dev sentences are longer than a command line may be.
        path = self.folder / f"task-{os.getpid()}.json"
        path.write_text(json.dumps({**self.shared, **task, "dropout": dropout}), encoding="utf-8")
        environment = "eole" if peer.peer == "eole" else "train"
        command = [
            make_environment(environment, PACKAGES[environment]),
            "-W",
            "ignore",
            "-m",
            "benchmarks.race_row",
            path,
        ]
        output = subprocess.run(command, cwd=HOUSE, env=one_thread(), stdout=subprocess.PIPE, text=True, check=True)
        result = json.loads(output.stdout.splitlines()[-1])
        return result["seconds"], [self.tokenizer.decode_target(ids) for ids in result["outputs"]]

    def points(self, contestant: Contestant) -> list[tuple[int, float, list[float]]]:
        """Return, for each number of updates that was run, the mean seconds and the scores of the seeds."""
        points = []
        for updates in BUDGETS:
            names = [f"{contestant.key}-{updates}-{seed}" for seed in self.seeds]
            results = [self.results[name] for name in names if name in self.results]
            if results:
                seconds = statistics.fmean(result["seconds"] for result in results)
                points.append((updates, seconds, [result["score"] for result in results]))
        return points

    def find_seconds(self, contestant: Contestant, mark: float) -> float | None:
        """Return the seconds until a mark, or None if no run reached it: read off the line between two runs.

        The line is drawn between the last run below the mark and the one after it, over the logarithm of the time.
        """
        before: tuple[float, float] | None = None
        for _, seconds, scores in self.points(contestant):
            score = statistics.fmean(scores)
            if score >= mark:
                return seconds if before is None else interpolate(before, (seconds, score), mark)
            before = (seconds, score)
        return None


def interpolate(before: tuple[float, float], after: tuple[float, float], mark: float) -> float:
    """Return the time at which a score is reached between two points (time, score).

    >>> interpolate((100.0, 10.0), (400.0, 30.0), 20.0)
    200.0
    """
    share = (mark - before[1]) / (after[1] - before[1])
    return round(math.exp(math.log(before[0]) * (1 - share) + math.log(after[0]) * share), 6)


def page_name(machine_name: str) -> str:
    """Return the name of a machine's page, without its ending.

    >>> page_name(""), page_name("amx")
    ('race', 'race-amx')
    """
    return "-".join(filter(None, ("race", machine_name)))


def one_thread() -> dict[str, str]:
    """Return the environment of a process that computes with one thread."""
    return os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


# The page


def page_lines(tracks: list[Track], name: str) -> Iterator[str]:
    """Yield the lines of the results page."""
    yield "# The race to a score\n"
    option = f" --machine {tracks[0].machine}" if tracks[0].machine else ""
    yield f"`python -m benchmarks.race{option}` on {machine()}, one of them used; {time.strftime('%Y-%m-%d')}.\n"
    yield METHOD.format(little=LITTLE_DROPOUT, long=LITTLE_UPDATES)
    yield f"![score against seconds]({name}.svg)"
    for track in tracks:
        race, metric = track.race, METRICS[track.race.metric]
        size, dropout = track.shared["size"], track.shared["final_dropout"]
        yield f"\n## {race.title}: seconds until {metric} on {race.dev[0].split('.')[0]}\n"
        layers = f"{size['encoder_layers']} + {size['decoder_layers']} layers"
        yield f"Seeds {', '.join(map(str, track.seeds))}; width {size['d_model']}, {layers},"
        yield f"batches of about {track.shared['batch_tokens']:,} target pieces, dropout {dropout} in long runs; rates"
        yield f"chosen in runs of {race.tuning:,} updates; all seeds up to {race.short:,} updates, then the first.\n"
        yield f"| | {' | '.join(f'{metric} {mark:g}' for mark in race.marks)} |"
        yield "|---" * (len(race.marks) + 1) + "|"
        for contestant in track.contestants:
            seconds = [track.find_seconds(contestant, mark) for mark in race.marks]
            yield f"| {contestant.name} | {' | '.join('-' if s is None else f'{s:,.0f}' for s in seconds)} |"
        yield f"| the fastest peer divided by Pellucid | {' | '.join(map(track_ratio(track), race.marks))} |"
        yield "\nAll runs: updates, processor seconds, score (the mean, and the lowest and the highest of the seeds).\n"
        yield "| | learning rate | runs |"
        yield "|---|---|---|"
        for contestant in track.contestants:
            rate = describe_rates(track, contestant) if contestant.is_tuned else "its own"
            yield f"| {contestant.name} | {rate} | {'; '.join(map(describe_point, track.points(contestant)))} |"


METHOD = """\
Seconds are processor seconds of one thread. Of Pellucid they are those of the whole command `pellucid train` on two
files with `--steps` and one evaluation at the end: imports, learning the vocabulary, that evaluation, checkpoints,
drawing. A peer is given the text as the pieces of Pellucid's vocabulary and evaluates nothing: its seconds are imports
and updates. Peers have the same size, batches of as many target pieces, label smoothing 0.1, tied embeddings, and the
precision that the last table names, in which a hundred of their updates took less time (bfloat16 where none is named);
their learning rate rises as long as Pellucid's and then falls straight to zero (eole's along a cosine, the nearest it
has), and its peak is the best of those that the last table names, by the same dev set. Their dropout is
{little} up to {long:,} updates. The loops with Muon have PyTorch's (`torch.optim.Muon`) for the matrices inside the
layers. "Its own settings" are those of `Seq2SeqTrainingArguments`: batches of 8 sentences, a rate of 5e-5, no label
smoothing. Other programs ran on the machine, so seconds that differ by less than a tenth say nothing.

Every run is complete: its learning rate has fallen to zero when its last weights (of Pellucid: those of `best/`)
translate the dev set greedily. The time to a mark is read off a straight line, over the logarithm of the time, between
the longest run below the mark and the next longer one. Short runs are means of the seeds that were run; one without a
range had one seed, as has every run that scores less than half of the first mark. A dash: not reached in the runs that
were made.
"""


def track_ratio(track: Track) -> Any:
    """Return what describes how much later the fastest peer reaches a mark."""

    def describe(mark: float) -> str:
        ours, peers = track.find_seconds(OURS, mark), [track.find_seconds(peer, mark) for peer in PEERS]
        times = [seconds for seconds in peers if seconds is not None]
        return f"{min(times) / ours:.1f}" if ours and times else "-"

    return describe


def describe_rates(track: Track, peer: Contestant) -> str:
    """Return the learning rates that were tried, with their scores."""
    prefix = f"{peer.key}-tuning-"
    trials = [run for name, run in sorted(track.results.items()) if name.startswith(prefix)]
    best = max(trials, key=lambda run: run["score"])["rate"]
    tried = ", ".join(f"{run['rate']:g}: {run['score']:.2f}" for run in sorted(trials, key=lambda run: run["rate"]))
    counted = [f"{peer.key}-{updates}-{track.seeds[0]}" for updates in BUDGETS]
    precisions = {track.results[name].get("precision", "") for name in counted if name in track.results}
    return ", ".join(filter(None, (f"{best:g} ({tried})", *precisions)))


def describe_point(point: tuple[int, float, list[float]]) -> str:
    """Return a run in words.

    >>> describe_point((800, 161.4, [29.0, 30.0]))
    '800: 161 s, 29.50 (29.00-30.00)'
    """
    updates, seconds, scores = point
    spread = f" ({min(scores):.2f}-{max(scores):.2f})" if len(scores) > 1 else ""
    return f"{updates:,}: {seconds:,.0f} s, {statistics.fmean(scores):.2f}{spread}"


def draw_curves(tracks: list[Track], path: Path) -> None:
    """Draw the score against the seconds, a curve for each contestant."""
    figure = empty_figure(7.5, 4.2 * len(tracks))
    for axes, track in zip(figure.subplots(len(tracks), 1, squeeze=False)[:, 0], tracks, strict=True):
        for contestant, colour in zip(CONTESTANTS, COLOURS, strict=True):
            points = track.points(contestant)
            if not points:
                continue
            scores = [statistics.fmean(scores) for _, _, scores in points]
            axes.plot(
                [seconds for _, seconds, _ in points],
                scores,
                "o-",
                color=colour,
                label=contestant.name.replace("`", ""),
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_title(track.race.title)
        axes.set_xlabel("processor seconds")
        axes.set_ylabel(METRICS[track.race.metric])
        tidy_axes(axes)
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    write_figure(figure, path)


def main() -> None:
    """Make the runs that are missing, and write the page and its figure."""
    keys = [contestant.key for contestant in CONTESTANTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    # argparse compares the default with the choices, as a whole.
    parser.add_argument("races", nargs="*", default=[], choices=[*RACES, []], metavar="RACE", help=", ".join(RACES))
    parser.add_argument("--contestants", nargs="+", default=keys, choices=keys, metavar="NAME", help=", ".join(keys))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--most-seconds", type=float, default=1500, help="of the longest run of a contestant")
    parser.add_argument("--machine", default="", metavar="NAME", help="in file names, where it is not the first one")
    parser.add_argument("--page", action="store_true", help="make no run, write the page of those that were made")
    options = parser.parse_args()
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("PELLUCID_DATA must name the folder that holds multi30k and tatoeba_en-es")
    contestants = [contestant for contestant in CONTESTANTS if contestant.key in options.contestants]
    for name in () if options.page else options.races or RACES:
        Track(name, RACES[name], options.seeds, options.machine).run_all(contestants, options.most_seconds)
    every = (Track(name, RACES[name], options.seeds, options.machine) for name in RACES)
    tracks = [track for track in every if track.results]
    page_file = RESULTS / f"{page_name(options.machine)}.md"
    draw_curves(tracks, page_file.with_suffix(".svg"))
    page = "\n".join(page_lines(tracks, page_file.stem)) + "\n"
    page_file.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
