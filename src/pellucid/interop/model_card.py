"""The card of a model, for people who find it on the Hub: languages, size, scores, data, and how to load it."""

import json
from collections.abc import Mapping
from typing import Any

from pellucid.store.directory import Bundle


def write_model_card(bundle: Bundle, name: str) -> str:
    """Return the card in Markdown, with the Hub's description in its head; `name` is the model's on the Hub."""
    c, about = bundle.config, bundle.manifest
    languages = about.get("languages")
    codes = [languages["source"], languages["target"]] if isinstance(languages, Mapping) else []
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
    rows = [
        f"- {name} {value:.4g}{f', `{signatures[name]}`' if name in signatures else ''}"
        for name, value in dev.items()
        if isinstance(value, float)
    ]
    return ["## Scores on the dev set", "", *rows, ""]


def _data_lines(about: Mapping[str, Any]) -> list[str]:
    """Return the corpora, the fingerprints of the text and of the model, and where the model came from."""
    facts = [
        *(
            f"- `{c['corpus']}`: {c['trained_on']:,} pairs trained on of {c['read']:,} read"
            for c in about.get("pairs", [])
        ),
        *([f"- SHA-256 of the training text: `{about['data']}`"] if "data" in about else []),
        *([f"- updates: {about['step']:,}"] if "step" in about else []),
        *(f"- {key}: `{json.dumps(about[key], ensure_ascii=False)}`" for key in ("start", "imported") if key in about),
        f"- SHA-256 of the manifest: `{about['sha256']}`",
        f"- versions: {', '.join(f'{name} {number}' for name, number in about['versions'].items())}",
    ]
    return ["## Data and origin", "", *facts, ""]
