"""Store of decoder states: for each token of the training text, the state from which the model predicts it.

It is a datastore as in Khandelwal et al. 2021, kept not to translate with but to ask. A state is
scaled to length 1 and stored in 8 bits a number with one scale, so that a product with the codes is
a cosine. Beside it stand the ids of the pairs and the lines they came from, as raw numbers, low
byte first, which are mapped into memory.
"""

import json
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs, collate, epoch_batches, id_type, pack_sentences
from pellucid.data.context import encode_with_context
from pellucid.data.corpus import SentencePairs
from pellucid.data.shards import map_numbers, map_shards
from pellucid.data.tokenizer import PAD, Tokenizer
from pellucid.model import Transformer
from pellucid.store.atomic import (
    MANIFEST,
    atomic_file,
    explain_unfinished_work,
    read_json,
    read_manifest,
    replace_directory,
    unfinished_folder,
    verify_directory,
    write_manifest,
    write_text_whole,
)
from pellucid.store.directory import WEIGHTS, load_bundle
from pellucid.training.config import RunConfig, read_run
from pellucid.training.data import combine_fingerprints, draw_dev_pairs, pair_blocks
from pellucid.training.log import read_log
from pellucid.training.shard_writing import CorpusFacts, count_rows

KIND, FORMAT = "pellucid states", 1

WIDTH = 128  # most numbers that are kept of a state; wider ones are projected
# Pairs after whose states the work is safe on the disk: a second or two of it for a small model.
PAIRS_PER_BLOCK = 2000

_BATCH_TOKENS = 4096
_PROGRESS = "progress.json"
_FILES = ("source.ids", "source.starts", "target.ids", "target.starts", "lines", "codes", "scales")
# States that are compared with the one in question at a time: a block of 32 MB in float32.
_STATES_AT_ONCE = 2**16


@dataclass(frozen=True)
class _NearStates:
    """Positions in the store with the cosine of their states, the nearest first."""

    positions: NDArray[np.int64]
    cosines: NDArray[np.float32]


@dataclass(frozen=True)
class StateStore:
    """Store of a model's states, mapped into memory: state i predicts `pairs.targets.ids[i]`."""

    directory: Path
    pairs: EncodedPairs
    lines: NDArray[np.int64]  # line, or unit, of each pair in the files of its corpus
    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    # Matrix (D, WIDTH) that states wider than WIDTH are multiplied with; None for others.
    projection: NDArray[np.float32] | None
    # Number of the first pair after each corpus, and the files of its two sides.
    corpora: tuple[tuple[int, tuple[str, str]], ...]

    def find_nearest(
        self, state: NDArray[np.float32], token: int, count: int
    ) -> tuple[_NearStates, _NearStates]:
        """Return the nearest states that predict `token`, and the nearest that predict another.

        There are up to `count` of each. Near is what has a large cosine with the `state`, a vector
        of D numbers.
        """
        [unit_state] = _unit_rows(torch.from_numpy(state)[None], self.projection)
        same_token: list[_NearStates] = []
        other_token: list[_NearStates] = []
        for first in range(0, len(self.scales), _STATES_AT_ONCE):
            rows = slice(first, first + _STATES_AT_ONCE)
            cosines = (self.codes[rows].astype(np.float32) @ unit_state) * self.scales[rows]
            is_same = self.pairs.targets.ids[rows] == token
            for nearest, mask in ((same_token, is_same), (other_token, ~is_same)):
                positions = np.flatnonzero(mask)
                nearest.append(_largest(positions + first, cosines[positions], count))

        return _join_nearest(same_token, count), _join_nearest(other_token, count)

    def pair_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.pairs.targets.starts, positions, side="right") - 1

    def place_of(self, pair: int) -> tuple[tuple[str, str], int]:
        """Return the files of a pair's two sides, and its line or unit in them."""
        files = next(files for end, files in self.corpora if pair < end)
        return files, int(self.lines[pair])


def _largest(positions: NDArray[np.int64], cosines: NDArray[np.float32], count: int) -> _NearStates:
    """Return the states with the largest cosines; among equal cosines, the earlier state goes first."""
    order = np.argsort(-cosines, kind="stable")[:count]
    return _NearStates(positions[order], cosines[order])


def _join_nearest(parts: list[_NearStates], count: int) -> _NearStates:
    """Return the states with the largest cosines of all parts."""
    positions = np.concatenate([part.positions for part in parts])
    cosines = np.concatenate([part.cosines for part in parts])
    return _largest(positions, cosines, count)


def store_directory(model_directory: Path) -> Path:
    """Return the directory of a model's store: beside the model, as best.states is beside best."""
    resolved = model_directory.resolve()
    return resolved.with_name(f"{resolved.name}.states")


def _describe_time(model_directory: Path, manifest: dict[str, Any]) -> str:
    """Return how long the store of a model will take to make, in brackets; empty where nothing says it.

    Estimated by the speed of its training: reading a pair once is a third of the work of learning
    from it.
    """
    log = model_directory.resolve().parent / "log.jsonl"
    if not log.is_file():
        return ""
    seen, target_tokens, speed = 0, 0, 0
    for row in read_log(log):
        if "tokens_per_second" in row and row.get("seen"):
            seen, target_tokens = sum(row["seen"].values()), row["target_tokens"]
            speed = row["tokens_per_second"]
    pairs = sum(account["trained_on"] for account in manifest.get("pairs", []))
    if not (seen and speed and pairs):
        return ""

    minutes = pairs * target_tokens / seen / speed / 3 / 60
    if minutes < 1.5:
        return " (about a minute for this model)"
    return f" (about {minutes:,.0f} minutes for this model)"


def open_state_store(model_directory: Path, manifest: dict[str, Any]) -> StateStore:
    """Open the store of the model with this manifest.

    Raises ValueError where there is none, or it is another model's.
    """
    folder = store_directory(model_directory)
    command = f"pellucid remember {model_directory}"
    if not (folder / MANIFEST).is_file():
        takes = _describe_time(model_directory, manifest)
        raise ValueError(
            f"{folder} is missing: before training lines can be found, run `{command}` once{takes}"
        )

    about = read_manifest(folder)
    if about.get("kind") != KIND or about.get("states_format") != FORMAT:
        raise ValueError(
            f"{folder} holds no states that this version can read; remove it and run `{command}`"
        )
    if about.get("weights") != manifest["files"][WEIGHTS]["sha256"]:
        raise ValueError(
            f"{folder} holds the states of another model than {model_directory}; run `{command}` "
            "again"
        )

    # Sizes only: a hash would read the whole store for every question.
    for name, entry in about["files"].items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != entry["bytes"]:
            raise ValueError(
                f"{folder} is damaged: a file is missing or was cut; run `{command}` again"
            )

    total, corpora = 0, []
    for corpus in about["corpora"]:
        total += corpus["pairs"]
        corpora.append((total, tuple(corpus["files"])))
    scales = map_numbers(folder / "scales", "<f4")
    projection = None
    if "projection" in about["files"]:
        projection = map_numbers(folder / "projection", "<f4").reshape(-1, WIDTH)
    return StateStore(
        folder,
        map_shards(folder, total, about["types"]),
        map_numbers(folder / "lines", "<i8"),
        map_numbers(folder / "codes", "<i1").reshape(len(scales), -1),
        scales,
        projection,
        tuple(corpora),
    )


def remember_states(path: Path, say: Callable[[str], None]) -> Path:
    """Store the states of a run's best model, or of the model at `path`, over its training text.

    Returns the store. Work that was cut off goes on behind the last block that was finished. Raises
    ValueError where the run's settings or its text are missing or have changed, and for a directory
    in the way that is no store.
    """
    bundle = load_bundle(path / "best" if (path / "run.toml").is_file() else path)
    folder = bundle.directory.resolve().parent
    out = store_directory(bundle.directory)
    if not (folder / "run.toml").is_file():
        raise ValueError(
            f"{folder / 'run.toml'} is missing: it names the text that {bundle.directory} was "
            "trained on"
        )

    run = read_run(folder / "run.toml", began=folder)
    dev = draw_dev_pairs(run.data, run.seed)
    facts = [CorpusFacts() for _ in run.data.corpora]
    deque(count_rows(run.data, dev, facts), maxlen=0)
    rows = sum(one.pairs for one in facts)
    fingerprint = combine_fingerprints([one.digest.hexdigest() for one in facts])
    if fingerprint != bundle.manifest.get("data"):
        raise ValueError(
            f"the text of {folder / 'run.toml'} is not what {bundle.directory} was trained on: it "
            "has changed since; restore it, or train again"
        )

    recipe = {"kind": KIND, "states_format": FORMAT, "data": fingerprint}
    recipe["weights"] = bundle.manifest["files"][WEIGHTS]["sha256"]
    if _is_of_recipe(out, MANIFEST, recipe):
        say(f"{out} holds the states of this model already")
        return out

    work = unfinished_folder(out)
    for place, is_ours in ((out, (out / MANIFEST).is_file()), (work, _holds_only_states(work))):
        if place.exists() and not is_ours:
            raise ValueError(
                f"{place} holds something other than states and is not replaced; move it away"
            )

    with explain_unfinished_work(out):
        if not _is_finished(work, recipe):
            if not _is_of_recipe(work, _PROGRESS, recipe):
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir()
                nothing = {"rows": 0, "corpora": [], "bytes": dict.fromkeys(_FILES, 0)}
                _write_progress(work, {**recipe, **nothing})
            _append_states(work, run, dev, bundle.model, bundle.tokenizer, rows, say)
            _write_store_manifest(work, recipe, bundle.tokenizer)
        (work / _PROGRESS).unlink(missing_ok=True)
        replace_directory(work, out)

    files = read_manifest(out)["files"]
    tokens, size = files["scales"]["bytes"] // 4, sum(entry["bytes"] for entry in files.values())
    say(f"{out}: {tokens:,} states, {size / 1e6:,.1f} MB, {size / tokens:.0f} bytes a token")
    return out


def _is_of_recipe(folder: Path, name: str, recipe: dict[str, Any]) -> bool:
    """Whether a folder has a file of JSON that names this model and this text."""
    found = read_json(folder / name) if (folder / name).is_file() else {}
    return all(found.get(key) == value for key, value in recipe.items())


def _read_blocks(run: RunConfig, dev: SentencePairs | None) -> Iterator[tuple[int, SentencePairs]]:
    for number, corpus in enumerate(run.data.corpora):
        for block in pair_blocks(corpus, run.data, dev, PAIRS_PER_BLOCK):
            yield number, block


def _append_states(
    work: Path,
    run: RunConfig,
    dev: SentencePairs | None,
    model: Transformer,
    tokenizer: Tokenizer,
    rows: int,
    say: Callable[[str], None],
) -> None:
    """Write the blocks that are not in `work` yet, and record each when it is whole."""
    progress = read_json(work / _PROGRESS)
    if progress["rows"]:
        say(f"going on behind {progress['rows']:,} of {rows:,} pairs")
    for name in _FILES:
        # What a block wrote before it was cut off is written again.
        with (work / name).open("ab") as file:
            file.truncate(progress["bytes"][name])

    projection = output_directions(model) if model.config.d_model > WIDTH else None
    if projection is not None:
        with atomic_file(work / "projection") as write:
            write(projection.astype("<f4").tobytes())

    source_bytes, target_bytes = _id_bytes(tokenizer, "source"), _id_bytes(tokenizer, "target")
    done = 0
    for number, block in _read_blocks(run, dev):
        done += len(block)
        if done <= progress["rows"]:
            continue
        of_direction = run.data.tokenizer_of(run.data.corpora[number].languages, tokenizer)
        encoded, lines = _encode_block(block, of_direction, run.data.max_pieces)
        if number == len(progress["corpora"]):
            progress["corpora"].append({"files": block.files, "pairs": 0})
        progress["corpora"][number]["pairs"] += len(encoded)
        states = teacher_forced_states(model, encoded)
        codes, scales = _quantise_rows(_unit_rows(states, projection))

        # A file of starts begins with 0, once.
        first = np.zeros(int(progress["rows"] == 0), dtype="<i8")
        source_end = progress["bytes"]["source.ids"] // source_bytes
        target_end = progress["bytes"]["target.ids"] // target_bytes
        source_starts = np.append(first, encoded.sources.starts[1:] + source_end)
        target_starts = np.append(first, encoded.targets.starts[1:] + target_end)
        new_numbers = {
            "source.ids": encoded.sources.ids,
            "source.starts": source_starts.astype("<i8"),
            "target.ids": encoded.targets.ids,
            "target.starts": target_starts.astype("<i8"),
            "lines": np.array(lines, dtype="<i8"),
            "codes": codes,
            "scales": scales.astype("<f4"),
        }
        for name, numbers in new_numbers.items():
            with (work / name).open("ab") as file:
                file.write(numbers.tobytes())
            progress["bytes"][name] += numbers.nbytes

        progress["rows"] = done
        _write_progress(work, progress)
        say(f"{done:,} of {rows:,} pairs")


def _write_progress(work: Path, progress: dict[str, Any]) -> None:
    write_text_whole(work / _PROGRESS, json.dumps(progress) + "\n")


def _holds_only_states(work: Path) -> bool:
    """Whether a folder is one of unfinished states, and holds nothing else."""
    if not work.is_dir():
        return False
    # It is deleted as a whole.
    known = {*_FILES, "projection", MANIFEST, _PROGRESS}
    known |= {f".{name}.new" for name in known}
    return {path.name for path in work.iterdir()} <= known


def _is_finished(work: Path, recipe: dict[str, Any]) -> bool:
    """Whether everything is written, and only the last step is missing."""
    try:
        return _is_of_recipe(work, MANIFEST, recipe) and bool(verify_directory(work))
    except ValueError:
        return False


def _write_store_manifest(work: Path, recipe: dict[str, Any], tokenizer: Tokenizer) -> None:
    corpora = read_json(work / _PROGRESS)["corpora"]
    if not sum(corpus["pairs"] for corpus in corpora):
        raise ValueError(
            "no training pair is short enough for the model; there is nothing to store"
        )

    for left_over in work.glob(".*.new"):  # by a write that failed
        left_over.unlink()
    types = {}
    for side in ("source", "target"):
        types[side] = "<u2" if _id_bytes(tokenizer, side) == 2 else "<i4"
    write_manifest(work, {**recipe, "corpora": corpora, "types": types}, leave_out=_PROGRESS)


def _id_bytes(tokenizer: Tokenizer, side: str) -> int:
    vocabulary = tokenizer.source_vocabulary if side == "source" else tokenizer.target_vocabulary
    return np.dtype(id_type(vocabulary)).itemsize


def _encode_block(
    block: SentencePairs, tokenizer: Tokenizer, limit: int
) -> tuple[EncodedPairs, list[int]]:
    """Encode the pairs that training took, at most `limit` pieces long, and return their lines, too."""
    all_sources = encode_with_context(tokenizer, block.sources)
    all_targets = tokenizer.encode_target(block.targets)
    sources, targets, lines = [], [], []
    for source, target, line in zip(all_sources, all_targets, block.lines, strict=True):
        if max(len(source), len(target)) <= limit:
            sources.append(source)
            targets.append(target)
            lines.append(line)

    packed_sources = pack_sentences(sources, id_type(tokenizer.source_vocabulary))
    packed_targets = pack_sentences(targets, id_type(tokenizer.target_vocabulary))
    return EncodedPairs(packed_sources, packed_targets), lines


@torch.no_grad()
def teacher_forced_states(model: Transformer, encoded: EncodedPairs) -> torch.Tensor:
    """Return the state before each target token, given the pair up to it.

    They are (N D), in the order of `encoded.targets.ids`. The model must be in evaluation mode.
    """
    assert not model.training  # dropout would change the states
    targets = encoded.targets
    states = torch.empty(len(targets.ids), model.config.d_model)
    if not len(encoded):
        return states

    lengths = encoded.sources.lengths, targets.lengths
    for indices in epoch_batches(*lengths, _BATCH_TOKENS, seed=0, epoch=0):
        batch = collate(encoded, indices)
        is_token = batch.target_out != PAD
        steps = torch.arange(is_token.shape[1])
        places = torch.from_numpy(targets.starts[indices])[:, None] + steps
        states[places[is_token]] = model.states(batch.source, batch.target_in)[is_token].float()

    return states


def output_directions(model: Transformer) -> NDArray[np.float32]:
    """Return the WIDTH orthonormal directions of a state, (D WIDTH), that change the logits most.

    They are the eigenvectors of W^T W with the largest eigenvalues, W being the output embedding:
    of all projections to so many numbers, this one loses least of the logits of a state of unknown
    direction. They depend on the weights alone, so that a store that is cut off goes on with the
    same.
    """
    weight = model.output_embedding.weight.detach().double()
    eigenvectors = torch.linalg.eigh(weight.T @ weight).eigenvectors
    return eigenvectors[:, -WIDTH:].float().contiguous().numpy()


def _unit_rows(states: torch.Tensor, projection: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return states, projected where they are too wide, at length 1."""
    rows = states.float().numpy() if projection is None else states.float().numpy() @ projection
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


def _quantise_rows(rows: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return 8-bit codes of the rows, and for each the scale that gives its codes the length 1.

    >>> codes, scales = _quantise_rows(np.array([[0.6, -0.8]], dtype=np.float32))
    >>> codes.tolist(), (codes * scales[:, None]).astype(float).round(3).tolist()
    ([[95, -127]], [[0.599, -0.801]])
    """
    largest = np.abs(rows).max(axis=1, keepdims=True)
    codes = np.rint(rows * (127 / np.maximum(largest, 1e-30)))
    # Not the row's own length: rounding changes it, and no cosine shall be more than 1.
    lengths = np.linalg.norm(codes, axis=1)
    return codes.astype(np.int8), (1 / np.maximum(lengths, 1e-30)).astype(np.float32)
