"""Watchers of the model: `Record` keeps values, `Edit` replaces them, `Chain` calls several watchers in turn."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import reduce

from torch import Tensor

from pellucid.model.watch import Watch, Watcher


class Record(Watcher, Mapping[str, Tensor]):
    """Keeps a detached copy of every value whose full name fits a pattern: `record["decoder.3.cross.pattern"]`.

    The names are those of `model/glossary.py`, in the order of computation; `*` in a pattern stands for any text. A
    value shown again under its name, by the next step of decoding, replaces the earlier one.
    """

    def __init__(self, only: str | Iterable[str] = "*"):
        super().__init__(self._keep)
        self._only = (only,) if isinstance(only, str) else tuple(only)
        self._values: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        """Return a recorded value; KeyError, naming the nearest recorded name, for one that was not recorded."""
        if name not in self._values:
            raise KeyError(f"{name!r} was not recorded{suggest_nearest(name, self._values)}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _keep(self, name: str, value: Tensor) -> Tensor:
        # fnmatchcase, because fnmatch ignores case on some systems.
        if any(fnmatchcase(name, pattern) for pattern in self._only):
            self._values[name] = value.detach().clone()  # a view would change with whatever it is a view of
        return value


class Edit(Watcher):
    """Replaces each value whose full name fits a pattern by what the pattern's function returns for it.

    Raises ValueError if the function returns another shape or type.
    """

    def __init__(self, edits: Mapping[str, Callable[[Tensor], Tensor]]):
        super().__init__(self._change)
        self._edits = dict(edits)
        self._names_seen: dict[str, None] = {}  # a dict, since a set has no order

    def require_used(self) -> None:
        """Raise ValueError, with the nearest name that was seen, if a pattern has fitted no value so far."""
        problems = [
            f"{pattern!r} fits nothing that was computed{suggest_nearest(pattern, self._names_seen)}"
            for pattern in self._edits
            if not any(fnmatchcase(name, pattern) for name in self._names_seen)
        ]
        if problems:
            raise ValueError("; ".join(problems))

    def _change(self, name: str, value: Tensor) -> Tensor:
        self._names_seen[name] = None
        # Several patterns may fit one name; each function gets the result of the one before.
        for pattern, change in self._edits.items():
            if fnmatchcase(name, pattern):
                before, value = value, change(value)
                if (value.shape, value.dtype) != (before.shape, before.dtype):
                    old_type, new_type = (f"{t.dtype} {tuple(t.shape)}" for t in (before, value))
                    raise ValueError(f"the edit of {name} made {new_type} of {old_type}; it must keep shape and type")
        return value


class Chain(Watcher):
    """Calls several watchers in turn: `Chain(Edit(...), record)` records what an edit leads to."""

    def __init__(self, *watchers: Watch):
        # Later watchers see what earlier ones returned, so an `Edit` must stand before the `Record`.
        super().__init__(lambda name, value: reduce(lambda seen, watcher: watcher(name, seen), watchers, value))


def suggest_nearest(name: str, known_names: Iterable[str]) -> str:
    """Return the clause that suggests the nearest known name, as the end of a sentence; empty if none is near."""
    near = get_close_matches(name, list(known_names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
