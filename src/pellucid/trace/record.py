"""The watchers: one keeps what it sees, one returns something else, one asks two others in turn."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase

from torch import Tensor

from pellucid.model.watch import Watch


class Watcher:
    """A watcher that hands each value with its full name to `see`, and the model what comes back."""

    seeing = True

    def __init__(self, see: Callable[[str, Tensor], Tensor], prefix: str = ""):
        self._see = see
        self._prefix = prefix

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return self._see(self._prefix + name, value)

    def within(self, part: str) -> "Watcher":
        return Watcher(self._see, f"{self._prefix}{part}.")


class Record(Watcher, Mapping[str, Tensor]):
    """Keeps a detached copy of every value whose full name fits a pattern: `record["decoder.3.cross.pattern"]`.

    The names are those of `model/glossary.py`, in the order they were said; `*` in a pattern stands for any text. A
    name said again, by the next step of decoding, replaces its value.
    """

    def __init__(self, only: str | Iterable[str] = "*"):
        super().__init__(self._keep)
        self._only = (only,) if isinstance(only, str) else tuple(only)
        self._kept: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        """KeyError, naming the nearest recorded name, for one that was not recorded."""
        if name not in self._kept:
            raise KeyError(f"{name!r} was not recorded{_nearest(name, self._kept)}")
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def _keep(self, name: str, value: Tensor) -> Tensor:
        if any(fnmatchcase(name, pattern) for pattern in self._only):
            self._kept[name] = value.detach().clone()
        return value


class Edit(Watcher):
    """Replaces each value whose full name fits a pattern by what its function makes of it.

    Raises ValueError when that has another shape or type.
    """

    def __init__(self, edits: Mapping[str, Callable[[Tensor], Tensor]]):
        super().__init__(self._change)
        self._edits = dict(edits)
        self._heard: dict[str, None] = {}

    def require_used(self) -> None:
        """ValueError, naming the nearest name there is, if a pattern has fitted no value so far."""
        unused = [pattern for pattern in self._edits if not any(fnmatchcase(name, pattern) for name in self._heard)]
        problems = [f"{pattern!r} fits nothing that was computed{_nearest(pattern, self._heard)}" for pattern in unused]
        if problems:
            raise ValueError("; ".join(problems))

    def _change(self, name: str, value: Tensor) -> Tensor:
        self._heard[name] = None
        for pattern, change in self._edits.items():
            if fnmatchcase(name, pattern):
                before, value = value, change(value)
                if (value.shape, value.dtype) != (before.shape, before.dtype):
                    came, left = (f"{t.dtype} {tuple(t.shape)}" for t in (before, value))
                    raise ValueError(f"the edit of {name} made {left} of {came}; it must keep both")
        return value


class Chain(Watcher):
    """Asks one watcher after the other: `Chain(Edit(...), record)` records what an edit leads to."""

    def __init__(self, *watchers: Watch):
        super().__init__(self._ask)
        self._watchers = watchers

    def _ask(self, name: str, value: Tensor) -> Tensor:
        for watcher in self._watchers:
            value = watcher(name, value)
        return value


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
