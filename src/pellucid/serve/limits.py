"""Bounds on what one server accepts: every bound has a default, and none is off unless somebody says so."""

from dataclasses import dataclass
from math import inf
from typing import Annotated


@dataclass(frozen=True)
class Limits:
    """Bounds on requests, queues and stored traces. Raises ValueError that names every problem at once."""

    characters: Annotated[int, "characters in all texts of a request together"] = 5000
    texts: Annotated[int, "texts in a request"] = 64
    alternatives: Annotated[int, "other translations of a text"] = 7
    request_terms: Annotated[int, "terms in a request"] = 200
    term_characters: Annotated[int, "characters of a source term or a target term in a request"] = 200
    body: Annotated[int, "bytes in the body of a request"] = 2**20
    waiting: Annotated[int, "requests that wait for the model; one more is told to come again (503)"] = 64
    connections: Annotated[
        int, "connections open at the same time; those without a complete request give way to others"
    ] = 512
    open_requests: Annotated[int, "requests open at the same time"] = 256
    each: Annotated[int, "requests open at the same time from one address (429); 0: as many as from all"] = 32
    seconds: Annotated[float, "until a request that is not answered is given up (504)"] = 30.0
    arrival: Annotated[float, "seconds the header of a request may take to arrive, and then its body (408)"] = 10.0
    beam: Annotated[int, "beam of a trace"] = 16
    traces: Annotated[int, "traces kept; the one not looked at for longest goes first"] = 32
    trace_bytes: Annotated[int, "bytes of all traces kept"] = 2**30
    trace_minutes: Annotated[float, "until a trace that nobody looks at is forgotten"] = 30.0

    def __post_init__(self) -> None:
        # Zero has a meaning for these two: no alternatives at all, and no bound for a single address.
        minima = {"alternatives": 0, "each": 0}
        problems = [
            f"{name} is {value!r}, it must be {minima.get(name, 1)} or more"
            for name, value in vars(self).items()
            if name not in TIMES and value < minima.get(name, 1)
        ]
        problems += [
            f"{name} is {getattr(self, name)!r}, it must be above 0"
            for name in TIMES
            # Also false for NaN, which every other comparison would let through.
            if not 0 < getattr(self, name) < inf
        ]
        if problems:
            raise ValueError("these limits let nothing through: " + "; ".join(problems))

    @property
    def from_one_address(self) -> int:
        """Number of requests that one address may have open."""
        return self.each or self.open_requests


TIMES = ("seconds", "arrival", "trace_minutes")
