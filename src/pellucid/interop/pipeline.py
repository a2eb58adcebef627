"""A stand-in for `pipeline("translation", ...)` of transformers, which version 5 removed, with a model of Pellucid."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.decode.request import refuse_unknown_options

if TYPE_CHECKING:
    from pellucid.api import Model

_SEARCH_NAMES = {"num_beams": "beam", "num_return_sequences": "n_best", "batch_size": "batch"}
_SAME_NAMES = ("temperature", "top_k", "top_p")
_WITHOUT_EFFECT = (
    "max_length",
    "max_new_tokens",
    "truncation",
    "early_stopping",
    "clean_up_tokenization_spaces",
)


def pipeline(
    task: str, model: "str | Path | Model", device: str | int = "cpu", **defaults: Any
) -> "TranslationPipeline":
    """Return a translator that is called as the pipeline of transformers was; `defaults` are options of each call.

    `task` is "translation" or "translation_en_to_es", `model` a model directory or a model,
    `device` a name or number.

        translator = pellucid.pipeline("translation", model="runs/demo/best")
        translator("The ball is blue.", num_beams=4)        # [{'translation_text': 'La bola es azul.'}]

    Raises ValueError for another task, for an unknown option, and as `load` does.
    """
    # A wing imports nothing that stands above it, but this one hands out what users hold.
    from pellucid.api import Model, load

    if not re.fullmatch(r"translation(_\w+_to_\w+)?", task):
        raise ValueError(
            f"task is {task!r:.60}, it must be 'translation' or such as 'translation_en_to_es'"
        )

    name = device if isinstance(device, str) else "cpu" if device < 0 else f"cuda:{device}"
    loaded = model if isinstance(model, Model) else load(model, device=name)
    return TranslationPipeline(loaded, defaults)


class TranslationPipeline:
    """Translates one text or several when it is called; the answer is a list of {"translation_text": ...}."""

    def __init__(self, model: "Model", defaults: dict[str, Any]):
        self.model, self.defaults = model, defaults
        _search_options(defaults)  # wrong ones raise here

    def __call__(self, texts: str | Iterable[str], **options: Any) -> list[Any]:
        """Translate; `options` are num_beams, num_return_sequences, do_sample, temperature, top_k, top_p, batch_size.

        max_length, truncation and their like are taken and have no effect: the limit of a
        translation follows the length of its source, and a long text is translated in parts. With
        several sequences, each text of a list has a list of its own.
        """
        search = _search_options({**self.defaults, **options})
        lines = [texts] if isinstance(texts, str) else list(texts)
        several = search.get("n_best", 1) > 1 and not isinstance(texts, str)
        answers: list[Any] = []
        for best in self.model.translate(lines, **search):
            sequences = [{"translation_text": one.text} for one in (best, *best.alternatives)]
            answers += [sequences] if several else sequences
        return answers


def _search_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the search options of Pellucid that options of transformers ask for."""
    refuse_unknown_options(options, [*_SEARCH_NAMES, "do_sample", *_SAME_NAMES, *_WITHOUT_EFFECT])
    search = {}
    for name in (*_SEARCH_NAMES, *_SAME_NAMES):
        if name in options:
            search[_SEARCH_NAMES.get(name, name)] = options[name]
    if options.get("do_sample"):
        search["method"] = "sample"
    return search
