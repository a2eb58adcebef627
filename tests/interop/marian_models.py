"""Small random models as transformers writes them, with tokenizers learned from a few lines as OPUS-MT learns them."""

import atexit
import io
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor

SOURCES = [
    "The ball is blue.",
    "The black cat drank the milk, and the dog drank the water: 1,234 litres!",
    "Where is the house?  It isn't here.",
    "Yes.",
    "She said “no” to the ½ price.",
]
TARGETS = [
    "La bola es azul.",
    "El gato negro bebió la leche y el perro bebió el agua: ¡1.234 litros!",
    "¿Dónde está la casa? No está aquí.",
    "Sí.",
    "Dijo «no» al ½ del precio.",
]
CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
quiet = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


@cache
def train_sentencepiece(side: str, size: int = 71) -> bytes:
    """Train a model like those of OPUS-MT: unigram pieces, text normalised by nmt_nfkc, no bytes."""
    lines = {"source": SOURCES, "target": TARGETS, "joint": SOURCES + TARGETS}[side]
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 3),
        model_writer=model,
        vocab_size=size,
        normalization_rule_name="nmt_nfkc",
        hard_vocab_limit=False,
        character_coverage=0.98,
        minloglevel=2,
    )
    return model.getvalue()


def marian_vocabulary(*models: bytes) -> dict[str, int]:
    """Return Marian's ids: end and unknown first, padding last; every seventh piece of the models is left out."""
    sides = [SentencePieceProcessor(model_proto=model) for model in models]
    names = dict.fromkeys(side.id_to_piece(i) for side in sides for i in range(3, side.vocab_size()))
    included = [name for number, name in enumerate(names) if number % 7]
    return {name: i for i, name in enumerate(["</s>", "<unk>", *included, ">>spa<<", "<pad>"])}


def write_marian_model(
    directory: Path,
    kind: str = "marian",
    seed: int = 1,
    separate: bool = False,
    noise: float = 0.2,
    end: float = 0.0,
    **settings: Any,
) -> Path:
    """Write a directory as transformers would, `noise` on every weight, and `end` the bias of the end token.

    Each is made once, and copied from then on. What a test draws afterwards is the same in both cases.
    """
    choices = (kind, seed, separate, noise, end, tuple(sorted(settings.items())))
    if choices not in MADE:
        MADE[choices] = Path(tempfile.mkdtemp(prefix="marian-"), "model")
        atexit.register(shutil.rmtree, MADE[choices].parent)
        make_marian_directory(MADE[choices], kind, seed, separate, noise, end, settings)
    shutil.copytree(MADE[choices], directory)
    torch.manual_seed(seed)
    return directory


MADE: dict[tuple[Any, ...], Path] = {}
"""Directories that were made, by what was asked for."""


def make_marian_directory(
    directory: Path, kind: str, seed: int, separate: bool, noise: float, end: float, settings: dict[str, Any]
) -> None:
    """Make the files of such a model."""
    directory.mkdir(parents=True)
    source, target = train_sentencepiece("source", 61), train_sentencepiece("target", 71)
    vocabularies = (
        [marian_vocabulary(source), marian_vocabulary(target)] if separate else [marian_vocabulary(source, target)] * 2
    )
    (directory / "source.spm").write_bytes(source)
    (directory / "target.spm").write_bytes(target)
    write_json(directory / "vocab.json", vocabularies[0])
    if separate:
        write_json(directory / "target_vocab.json", vocabularies[1])
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate})
    transformer = make_model(kind, seed, vocabularies, settings)
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter), alpha=noise)
        transformer.final_logits_bias.normal_()
        transformer.final_logits_bias[0, 0] = end
        for side, vocabulary in zip((transformer.model.encoder, transformer.model.decoder), vocabularies, strict=True):
            side.embed_tokens.weight[vocabulary["<pad>"]] = 0.0
    transformer.save_pretrained(directory)


def make_model(kind: str, seed: int, vocabularies: list[dict[str, int]], settings: dict[str, Any]) -> Any:
    """Return an untrained model of transformers."""
    sizes: dict[str, Any] = {"d_model": 14, "encoder_layers": 2, "decoder_layers": 3, "max_position_embeddings": 61}
    sizes |= {f"{side}_ffn_dim": 11 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_attention_heads": 2 for side in ("encoder", "decoder")}
    sizes |= {"vocab_size": len(vocabularies[0]), "scale_embedding": True, "activation_function": "swish"}
    sizes |= {"pad_token_id": vocabularies[0]["<pad>"], "decoder_start_token_id": vocabularies[1]["<pad>"]}
    sizes |= {"eos_token_id": 0, "forced_eos_token_id": None}
    if kind == "marian":
        sizes["decoder_vocab_size"] = len(vocabularies[1])
    config = getattr(transformers, f"{kind.title()}Config")(**{**sizes, **settings})
    torch.manual_seed(seed)
    return getattr(transformers, CLASSES[kind])(config).eval()


def write_json(path: Path, table: Any) -> None:
    path.write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def change_config(directory: Path, **changes: Any) -> None:
    """Change values in config.json; None takes a key out."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    write_json(
        directory / "config.json", {key: value for key, value in {**config, **changes}.items() if value is not None}
    )


def load_with_transformers(directory: Path) -> tuple[Any, Any]:
    """Load the model and the tokenizer as any user of transformers would."""
    transformer = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory, dtype=torch.float32).eval()
    return transformer, transformers.AutoTokenizer.from_pretrained(directory)


def pad_rows(sentences: list[list[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Pad sentences to one length, and return them with the mask of the positions that hold a piece."""
    width = max(map(len, sentences))
    ids = torch.tensor([row + [padding] * (width - len(row)) for row in sentences])
    return ids, torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in sentences])
