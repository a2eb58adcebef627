"""The model directory of a server in a soak, replaced again and again: by another model, or by a damaged one."""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks.soak_clients import AGAIN, PATIENCE, Clients, get_request, translate_request
from pellucid.api import load
from pellucid.store.atomic import replace_directory

PAUSE = 0.2
"""Seconds between looks at what the server does with a new directory."""

GOOD, DAMAGED = "the model replaced", "the model replaced by a damaged one"


class ServedModels:
    """The directory that a server serves, the models of which a copy stands there in turn, and how to tell them apart.

    Raises ValueError for models that translate all of the sentences alike.
    """

    def __init__(self, directory: Path, models: Sequence[str], sentences: Sequence[str]):
        self.directory = directory
        self.models = models
        self.loaded = [load(model, engine="auto", workers=1) for model in models]
        for sentence in sentences:
            self.translations = [model.translate(sentence).text for model in self.loaded]
            if len(set(self.translations)) == len(models):
                self.sentence = sentence
                break
        else:
            raise ValueError(f"{' and '.join(models)} translate all sentences alike; name models that differ")
        self.current = 0
        self.replace(0)

    def replace(self, number: int, *, damaged: bool = False) -> None:
        """Put a copy of a model in place of what is there; in a damaged one, half of the weights are missing."""
        new = self.directory.with_name("copy")
        shutil.copytree(self.models[number], new)
        if damaged:
            weights = new / "model.safetensors"
            weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
        replace_directory(new, self.directory)
        self.current = number

    async def replace_until_served(self, number: int, clients: Clients) -> None:
        """Put a model in place, and wait until the server translates with it."""

        async def is_served() -> bool:
            answer = await clients.answer(translate_request(self.sentence))
            return answer.status == 200 and json.loads(answer.body)["translatedText"] == self.translations[number]

        await asyncio.to_thread(self.replace, number)
        await _note_when(is_served, GOOD, clients)

    async def damage_until_noticed(self, clients: Clients) -> None:
        """Put a damaged model in place, and wait until the server counts it as one that could not be loaded."""
        before = await _count_failed_reloads(clients)

        async def is_noticed() -> bool:
            return await _count_failed_reloads(clients) > before

        await asyncio.to_thread(self.replace, self.current, damaged=True)
        await _note_when(is_noticed, DAMAGED, clients)

    async def keep_replacing(self, clients: Clients, seconds: float) -> None:
        """Put a damaged model and the next good one in place in turn, with `seconds` after each, until cancelled."""
        while True:
            await self.damage_until_noticed(clients)
            await asyncio.sleep(seconds)
            await self.replace_until_served((self.current + 1) % len(self.models), clients)
            await asyncio.sleep(seconds)


async def _count_failed_reloads(clients: Clients) -> float:
    """Return the number of models that the server could not load, from its metrics."""
    while (metrics := await clients.answer(get_request("/metrics"))).status in AGAIN:
        await asyncio.sleep(PAUSE)
    count = re.search(rb"^pellucid_failed_reloads (\S+)", metrics.body, re.MULTILINE)
    assert count, "the metrics have the number of failed reloads"
    return float(count[1])


async def _note_when(has_happened: Callable[[], Awaitable[bool]], kind: str, clients: Clients) -> None:
    """Note that a replacement was noticed, or that it was not in the time that an answer may take."""
    end = time.monotonic() + PATIENCE
    while not await has_happened():
        if time.monotonic() > end:
            clients.tally.problems.append(f"{kind}: not noticed in {PATIENCE:g} s")
            return
        await asyncio.sleep(PAUSE)
    clients.tally.outcomes[kind, "noticed"] += 1
