"""Ask a server three times what it can answer, with clients of every bad habit, until it is told to stop in the midst.

    python -m benchmarks.soak                    # ten minutes, runs/demo/best; writes benchmarks/results/soak.md
    python -m benchmarks.soak --seconds 60 --page /tmp/soak.md

Before, every question is asked alone; what the server can answer is measured. Then more questions come than it can
answer, whether it answers or not: each must be answered whole and as it is alone, or be told to come again (429, 503).
How many come follows what it has answered lately, as other programs may take a part of the machine meanwhile.
Needs a system with several addresses of its own (127.0.0.2, ...), as Linux has.
"""

import argparse
import asyncio
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.quality import RESULTS, machine
from benchmarks.soak_clients import (
    AGAIN,
    JUST_BEFORE,
    Clients,
    Lost,
    Question,
    Tally,
    comparable,
    get,
    halves,
    hostile,
    questions,
    traces,
)
from pellucid.api import load
from pellucid.cli.files import read_sentences

ADDRESSES = [f"127.0.0.{number}" for number in range(1, 9)]
"""Where the clients are; half of what is asked comes from the first."""

EACH_SECOND = {
    "a hostile request": 3.0,
    "asked and gone": 5.0,
    "read slowly": 2.0,
    "half": 4.0,
    "a trace": 1.0,
    "asked and never read": 0.2,
}
"""How many of these come beside the load."""

CLIENTS = 24
LATELY = 10
"""Looks at what was answered, a second apart, from which the load follows."""

LEAST_LOAD = 0.1
"""The part of the load at the beginning that comes at least."""

WARM = 0.1
"""The part of the time after which memory must not grow any more."""

MOST_GROWTH = 0.1
"""By which part it may: what is asked together differs from moment to moment."""

LONG_ENOUGH = 300.0
"""Seconds from which a soak says something about memory."""


@dataclass
class Server:
    """A server in a process of its own, and what it says."""

    process: subprocess.Popen[str]
    port: int
    said: Path

    def memory(self) -> float:
        """Resident memory, in MB of a million bytes."""
        found = subprocess.run(["ps", "-o", "rss=", "-p", str(self.process.pid)], capture_output=True, text=True)
        return int(found.stdout or 0) * 1024 / 1e6


@dataclass
class Soak:
    """What was seen."""

    seconds: float
    capacity: float
    asked_alone: int
    tally: Tally
    memory: list[float] = field(default_factory=list)  # at equal distances
    drained: float = 0.0
    status: int | None = None

    @property
    def warm(self) -> float:
        """Memory after the warm-up."""
        first = int(WARM * len(self.memory))
        return statistics.median(self.memory[first : 2 * first] or [0.0])

    @property
    def end(self) -> float:
        """Memory at the end."""
        return statistics.median(self.memory[-max(1, int(WARM * len(self.memory))) :] or [0.0])


def main() -> None:
    """Carry out a soak and write its page; exit status 1 if anything was lost or wrong."""
    arguments = understood(sys.argv[1:])
    sentences = [line for line, _ in zip(read_sentences(arguments.source), range(arguments.lines), strict=False)]
    soak = run(arguments.model, sentences, arguments.seconds, factor=arguments.factor, seed=arguments.seed)
    arguments.page.write_text("\n".join(page(arguments, soak)) + "\n", encoding="utf-8")
    print(arguments.page.read_text(encoding="utf-8"))
    sys.exit(1 if soak.tally.problems else 0)


def understood(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="Ask a server too much for long.")
    parser.add_argument("--model", default="runs/demo/best", help="a model directory")
    parser.add_argument("--source", default="runs/demo/data/test.en", help="sentences to translate, one a line")
    parser.add_argument("--lines", type=int, default=200, help="how many of them")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--factor", type=float, default=3.0, help="how much it is asked of what it can answer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, default=RESULTS / "soak.md")
    return parser.parse_args(arguments)


def run(
    model: str, sentences: Sequence[str], seconds: float, *options: str, factor: float = 3.0, seed: int = 1
) -> Soak:
    """Start a server with these options, ask it, tell it to stop; what was seen."""
    with served(model, *options) as server:
        soak = asyncio.run(asked(server, model, sentences, seconds, factor, random.Random(seed)))
        said = server.said.read_text(encoding="utf-8")
        lines = said.splitlines()
        if "Traceback" in said or "Error" in said:
            soak.tally.problems.append(f"the server said: {said[-1000:]}")
        if soak.status != 0 or not lines or lines[-1] != "stopped":
            soak.tally.problems.append(f"the server ended with {soak.status}, and said last: {lines[-1:]}")
    if seconds >= LONG_ENOUGH and soak.end > (1 + MOST_GROWTH) * soak.warm:
        soak.tally.problems.append(f"memory grew from {soak.warm:,.0f} to {soak.end:,.0f} MB")
    return soak


@contextmanager
def served(model: str, *options: str) -> Iterator[Server]:
    """A server with the limits that it has by default, but for those in `options`."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said.txt"
        with said.open("w", encoding="utf-8") as log:
            words = [sys.executable, "-m", "pellucid", "serve", model, "--port", "0", *options]
            process = subprocess.Popen(words, stderr=log, text=True)
        try:
            while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", said.read_text(encoding="utf-8"))):
                if process.poll() is not None:
                    raise SystemExit(said.read_text(encoding="utf-8"))
                time.sleep(0.1)
            yield Server(process, int(found[1]), said)
        finally:
            process.kill()
            process.wait()


async def asked(
    server: Server, model: str, sentences: Sequence[str], seconds: float, factor: float, draw: random.Random
) -> Soak:
    """Every question alone; what the server can answer; then too much, to the end."""
    tally, alone = Tally(), dict[bytes, bytes]()
    clients = Clients(server.port, ADDRESSES, tally, alone)
    plain, looks = questions(sentences, draw), traces(sentences[:: max(1, len(sentences) // 40)])
    for question in (*plain, *looks):
        found = await clients.answer(question.sent)
        if found.status == 200:
            alone[question.sent] = comparable(found.body)
        elif question in plain:
            tally.problems.append(f"alone, {question.kind}: {found.status} {found.body[:200]!r}")
    looks = [question for question in looks if question.sent in alone]  # not every sentence can be shown as one trace
    tally.problems += differences(model, sentences, plain, alone)
    # One trace is looked at again and again, so that it is not forgotten.
    kept = json.loads((await clients.answer(looks[0].sent)).body)["id"]
    numbers = Question("the numbers of a trace", get(f"/trace/{kept}/tensors.npz"))
    alone[numbers.sent] = comparable((await clients.answer(numbers.sent)).body)

    measured = max(2.0, seconds / 40)
    await answered(clients, plain, measured / 4)  # the first are slower
    soak = Soak(seconds, await answered(clients, plain, measured), len(alone), tally)
    sources = Sources(clients, plain, looks, numbers, draw)
    await sources.soak(server, soak, factor)
    return soak


def differences(
    model: str, sentences: Sequence[str], plain: Sequence[Question], alone: Mapping[bytes, bytes]
) -> list[str]:
    """Where the server answers alone otherwise than the model translates in this process, sentence by sentence."""
    loaded = load(model, engine="auto", workers=1)
    asked = [question for question in plain if question.kind == "a sentence"]
    return [
        f"alone, {sentence!r} became {text!r}"
        for sentence, question in zip(sentences, asked, strict=True)
        if (text := json.loads(alone[question.sent])["translatedText"]) != loaded.translate(sentence).text
    ]


async def answered(clients: Clients, plain: Sequence[Question], seconds: float) -> float:
    """How many questions are answered in a second, by as many clients as keep the server busy."""
    end, numbers, done = time.monotonic() + seconds, count(), 0

    async def client(address: str) -> None:
        nonlocal done
        while time.monotonic() < end:
            try:
                found = await clients.answer(plain[next(numbers) * 7 % len(plain)].sent, address)
            except Lost as lost:
                clients.tally.problems.append(f"while its capacity was measured: lost, {lost}")
                return
            done += found.status not in AGAIN

    await asyncio.gather(*(client(ADDRESSES[number % len(ADDRESSES)]) for number in range(CLIENTS)))
    return done / seconds


class Sources:
    """Where requests come from: of every kind so many in a second, at moments drawn at random."""

    def __init__(
        self,
        clients: Clients,
        plain: Sequence[Question],
        looks: Sequence[Question],
        numbers: Question,
        draw: random.Random,
    ):
        self.clients, self.plain, self.looks, self.numbers, self.draw = clients, plain, looks, numbers, draw
        self.hostile = hostile("The ball is blue.")
        self.halves = halves("The ball is blue.")
        self.open: set[asyncio.Task[None]] = set()
        self.each_second = dict(EACH_SECOND)

    async def soak(self, server: Server, soak: Soak, factor: float) -> None:
        """Ask for so long, tell the server to stop while it is asked, and wait for all that was asked."""
        tally, end, first = soak.tally, time.monotonic() + soak.seconds, factor * soak.capacity
        self.each_second["load"] = first
        sources = [asyncio.create_task(self.come(kind)) for kind in self.each_second]
        health = asyncio.create_task(self.clients.watch_health(1.0))
        looks = deque([(time.monotonic(), 0)], maxlen=LATELY)
        while time.monotonic() < end:
            soak.memory.append(await asyncio.to_thread(server.memory))
            await asyncio.sleep(min(1.0, soak.seconds / 20))
            looks.append((time.monotonic(), len(tally.waits)))
            if len(looks) == LATELY:
                (since, before), (now, after) = looks[0], looks[-1]
                lately = factor * (after - before) / (now - since)
                self.each_second["load"] = max(LEAST_LOAD * first, lately)
        began = tally.stopping = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(1.0)  # who comes now comes too late
        for source in sources:
            source.cancel()
        soak.status = await asyncio.to_thread(server.process.wait)
        soak.drained = time.monotonic() - began
        await asyncio.gather(health, *self.open)

    async def come(self, kind: str) -> None:
        """Clients of a kind, until this is cancelled."""
        due = time.monotonic()
        while True:
            # What could not come in time, because this process had no processor, does not come at once afterwards.
            due = max(due, time.monotonic() - 1.0) + self.draw.expovariate(self.each_second[kind])
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            task = asyncio.create_task(self.client(kind))
            self.open.add(task)
            task.add_done_callback(self.open.discard)

    def client(self, kind: str) -> Coroutine[Any, Any, None]:
        """The next of a kind."""
        draw, clients = self.draw, self.clients
        address = ADDRESSES[0] if draw.random() < 0.5 else draw.choice(ADDRESSES[1:])
        question = draw.choice(self.plain)
        match kind:
            case "load":
                return clients.ask(question, address)
            case "a hostile request":
                return clients.ask(draw.choice(self.hostile), address)
            case "asked and gone":
                return clients.leave(question, address, draw.uniform(0, 0.5))
            case "read slowly":
                return clients.ask(draw.choice((question, self.numbers)), address, pause=0.02)
            case "half":
                return clients.send_half(*draw.choice(self.halves), address)
            case "a trace":
                return clients.ask(draw.choice(self.looks), address)
        return clients.never_read(self.numbers, address, draw.uniform(1, 60))


def page(arguments: argparse.Namespace, soak: Soak) -> Iterator[str]:
    """What was done, and what was found."""
    tally = soak.tally
    kinds = dict.fromkeys(kind for kind, _ in sorted(tally.outcomes))
    answered, asked = tally.total("answered"), sum(tally.outcomes.values())
    yield "# A server that is asked too much\n"
    command = f"python -m benchmarks.soak --seconds {soak.seconds:g} --factor {arguments.factor:g}"
    yield f"Made by `{command} --seed {arguments.seed}` on {machine()}, with {arguments.model}.\n"
    yield fill(
        f"`pellucid serve` with the limits it has by default answers {soak.capacity:.0f} questions a second when it "
        f"is asked by {CLIENTS} clients. For {soak.seconds:g} seconds it is then asked {arguments.factor:g} times as "
        "many as it has answered lately, from eight addresses, half of them from one; beside that come clients "
        "that go away, read slowly or not at all, send halves of requests, and mean harm. In the midst of it the "
        f"server is told to stop (SIGTERM). The {soak.asked_alone:,} questions were asked alone before, and those of "
        "single sentences compared with what the model translates without a server. Every answer must be whole and "
        "the same as alone, or say that there is no room now (429, 503).\n",
        120,
    )
    yield ""
    yield "| what | number |"
    yield "|---|---|"
    waits = sorted(tally.waits) or [0.0]
    rows = {
        "requests": f"{asked:,}",
        "answered, each as alone": f"{answered:,}",
        "told that too many from one address are open (429)": f"{tally.total('told to come again (429)'):,}",
        "told that too many wait or are open (503)": f"{tally.total('told to come again (503)'):,}",
        "lost: without a whole answer": f"{tally.total('lost'):,}",
        "wrong: another answer than alone": f"{tally.total('wrong'):,}",
        "of another status than it should be": f"{tally.total('another status'):,}",
        "seconds until an answer: half of them, 99 of 100, the longest": " / ".join(
            f"{waits[int(part * (len(waits) - 1))]:.2f}" for part in (0.5, 0.99, 1.0)
        ),
        "seconds until `/health` was answered, the longest": f"{max(tally.health, default=0.0):.2f}",
        "memory after the first tenth of the time, at the end, the most (MB)": (
            f"{soak.warm:,.0f} / {soak.end:,.0f} / {max(soak.memory, default=0.0):,.0f}"
        ),
        f"came in the last {JUST_BEFORE:g} s before SIGTERM, and were not accepted any more": (
            f"{tally.total('came too late'):,}"
        ),
        "came after SIGTERM": f"{tally.total('came after SIGTERM'):,}",
        "seconds from SIGTERM to the end of the process": f"{soak.drained:.1f}",
        "its exit code": f"{soak.status}",
        "problems": f"{len(tally.problems):,}",
    }
    for what, number in rows.items():
        yield f"| {what} | {number} |"
    yield "\n| request | what became of it |"
    yield "|---|---|"
    for kind in kinds:
        became = [f"{n:,} {outcome}" for (each, outcome), n in sorted(tally.outcomes.items()) if each == kind]
        yield f"| {kind} | {', '.join(became)} |"
    for problem in tally.problems[:40]:
        yield f"\n- `{problem}`"


if __name__ == "__main__":
    main()
