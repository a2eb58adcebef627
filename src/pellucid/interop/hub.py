"""The Hugging Face Hub: fetches a Marian model by its name, writes the card of a model, and uploads both."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from pellucid.interop.marian import JSON_FILES
from pellucid.interop.marian_files import SENTENCEPIECE_FILES
from pellucid.interop.marian_weights import WEIGHTS
from pellucid.store.atomic import MANIFEST, verify_directory
from pellucid.store.directory import Bundle
from pellucid.store.manifest_checks import read_languages


def is_hub_name(text: str) -> bool:
    """Whether a text names a model of the Hub, such as Helsinki-NLP/opus-mt-en-es, and not a path on this machine.

    >>> is_hub_name("Helsinki-NLP/opus-mt-en-es"), is_hub_name("/models/opus"), is_hub_name("opus-mt-en-es")
    (True, False, False)
    """
    # A path in a folder that is here was probably misspelled, and is not looked for elsewhere.
    return re.fullmatch(r"[\w.-]+/[\w.-]+", text) is not None and not Path(text).parent.is_dir()


def fetch_marian_model(name: str, revision: str | None = None) -> Path:
    """Fetch the files of a Marian model that are not in the Hub's cache on this machine; return their directory there.

    Weights in a pickle are not fetched. Raises ValueError, saying what
    to do, without huggingface_hub or a network, and for a model that is
    not there or has no weights in safetensors.
    """
    by_hand = f"hf download {name} --local-dir {name.rpartition('/')[2]}"
    purpose = f"{name} is not a directory here, and to fetch the model of that name"
    library = _import_hub(purpose, by_hand)
    undone = f"fetched; on a machine with a network: {by_hand}, and import that directory"
    with _explain_refusals(name, undone):
        files = [*JSON_FILES, *SENTENCEPIECE_FILES, WEIGHTS]
        folder = Path(library.snapshot_download(name, revision=revision, allow_patterns=files))

    if not (folder / WEIGHTS).is_file():
        raise ValueError(
            f"{name} has no {WEIGHTS} at its revision {revision or 'main'}, and pickles are not fetched; if a pull "
            f"request on its page adds one: {name}@refs/pr/NUMBER; or {by_hand}, and import that directory, which "
            "says how to convert it"
        )
    return folder


def push_model(directory: Path, name: str, card: str, private: bool = False) -> str:
    """Upload the files of a model directory, and the card as README.md, in one commit; return the address.

    The repository is made if it is not there. Raises ValueError, saying what to do, without
    huggingface_hub, a network or a token that may write there, and for a directory that is damaged.
    """

    library = _import_hub("to upload a model", f"hf upload {name} {directory}")
    files = [MANIFEST, *verify_directory(directory)["files"]]
    changes = [library.CommitOperationAdd(file, directory / file) for file in files]
    changes.append(library.CommitOperationAdd("README.md", card.encode()))
    with _explain_refusals(name, "uploaded"):
        api = library.HfApi(library_name="pellucid")
        address = api.create_repo(name, private=private, exist_ok=True)
        api.create_commit(name, changes, commit_message="Upload a model of Pellucid with its card")
    return str(address)


def _import_hub(purpose: str, by_hand: str) -> ModuleType:
    try:
        import huggingface_hub
        from huggingface_hub.utils import disable_progress_bars
    except ImportError:
        install = "pip install 'pellucid[hub]'"
        raise ValueError(f"{purpose}: {install}; or, by hand: {by_hand}") from None

    if not sys.stderr.isatty():
        disable_progress_bars()
    return huggingface_hub


@contextmanager
def _explain_refusals(name: str, undone: str) -> Iterator[None]:
    """Turn the errors of the Hub and of the network into a ValueError of one sentence."""
    from huggingface_hub import errors

    # The error of the library that it speaks through, which differs between its versions.
    network_error: type[Exception] = errors.HTTPError  # pyright: ignore[reportPrivateImportUsage]
    try:
        yield
    except errors.RevisionNotFoundError:
        raise ValueError(f"the Hub's model {name} has no such revision") from None
    except (network_error, OSError) as error:  # without a token huggingface_hub raises an OSError
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403, 404) or isinstance(error, errors.LocalTokenNotFoundError):
            raise ValueError(
                f"the Hub has no model {name} that is open to you: check its name, or log in with a token that may "
                "read it, or write it for an upload: hf auth login"
            ) from None

        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{name} cannot be {undone} ({reason:.200})") from None


def write_model_card(bundle: Bundle, name: str) -> str:
    """Return the card of a model in Markdown, for people who find it on the Hub: its size, scores and data.

    The Hub's description stands in its head; `name` is the model's on the Hub.
    """
    c, about = bundle.config, bundle.manifest
    codes = read_languages(about)
    weights = sum(parameter.numel() for parameter in bundle.model.parameters())
    return "\n".join(
        [
            "---",
            "library_name: pellucid",
            "pipeline_tag: translation",
            *(["language:", *(f"- {code}" for code in codes)] if codes else []),
            "---",
            f"# {name}",
            "",
            f"A translation model of Pellucid{f', from {codes[0]} to {codes[1]}' if codes else ''}: "
            f"{weights:,} weights, {c.encoder_layers} + {c.decoder_layers} layers, d_model {c.d_model}, "
            f"{c.source_vocabulary:,} pieces to read and {c.target_vocabulary:,} to write.",
            "",
            "```",
            "pip install 'pellucid[hub]'",
            f"hf download {name} --local-dir model",
            "pellucid translate model",
            "```",
            "",
            "In Python: `pellucid.load('model').translate('...').text`.",
            "",
            *_score_lines(about.get("dev")),
            *_data_lines(about),
            "## Not known to this card",
            "",
            "What the training text is and whose, what the model is meant for, and its licence.",
            "",
        ]
    )


def _score_lines(dev: object) -> list[str]:
    """Return the scores on the dev set, each with its signature."""
    if not isinstance(dev, Mapping):
        return []
    signatures = dev.get("signatures", {})
    rows = []
    for name, value in dev.items():
        if isinstance(value, float):
            signature = f", `{signatures[name]}`" if name in signatures else ""
            rows.append(f"- {name} {value:.4g}{signature}")
    return ["## Scores on the dev set", "", *rows, ""]


def _data_lines(about: Mapping[str, Any]) -> list[str]:
    """Return the corpora, the fingerprints of the text and of the model, and where the model came from."""
    facts = []
    for corpus in about.get("pairs", []):
        trained_on, read = corpus["trained_on"], corpus["read"]
        facts.append(f"- `{corpus['corpus']}`: {trained_on:,} pairs trained on of {read:,} read")
    if "data" in about:
        facts.append(f"- SHA-256 of the training text: `{about['data']}`")
    if "step" in about:
        facts.append(f"- updates: {about['step']:,}")
    for key in ("start", "imported"):
        if key in about:
            facts.append(f"- {key}: `{json.dumps(about[key], ensure_ascii=False)}`")

    versions = [f"{name} {number}" for name, number in about["versions"].items()]
    facts.append(f"- SHA-256 of the manifest: `{about['sha256']}`")
    facts.append(f"- versions: {', '.join(versions)}")
    return ["## Data and origin", "", *facts, ""]
