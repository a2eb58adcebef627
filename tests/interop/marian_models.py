"""Small random models as transformers writes them, with tokenizers learned from a few lines as OPUS-MT learns them."""

import io
import json
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
def sentencepiece(side: str, size: int = 71) -> bytes:
    """As the models of OPUS-MT: unigram pieces, text normalised by nmt_nfkc, no bytes."""
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


def pieces(*models: bytes) -> dict[str, int]:
    """Marian's numbers: end and unknown first, padding last; every seventh piece of the models is not among them."""
    sides = [SentencePieceProcessor(model_proto=model) for model in models]
    names = dict.fromkeys(side.id_to_piece(i) for side in sides for i in range(3, side.vocab_size()))
    known = [name for number, name in enumerate(names) if number % 7]
    return {name: i for i, name in enumerate(["</s>", "<unk>", *known, ">>spa<<", "<pad>"])}


def written(
    place: Path,
    kind: str = "marian",
    seed: int = 1,
    separate: bool = False,
    noise: float = 0.2,
    end: float = 0.0,
    **settings: Any,
) -> Path:
    """A directory as transformers would fill it; `noise` is on every weight, and `end` the bias of the end mark."""
    place.mkdir(parents=True)
    source, target = sentencepiece("source", 61), sentencepiece("target", 71)
    vocabularies = [pieces(source), pieces(target)] if separate else [pieces(source, target)] * 2
    (place / "source.spm").write_bytes(source)
    (place / "target.spm").write_bytes(target)
    write(place / "vocab.json", vocabularies[0])
    if separate:
        write(place / "target_vocab.json", vocabularies[1])
    write(place / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate})
    made = model(kind, seed, vocabularies, settings)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter), alpha=noise)
        made.final_logits_bias.normal_()
        made.final_logits_bias[0, 0] = end
        for side, vocabulary in zip((made.model.encoder, made.model.decoder), vocabularies, strict=True):
            side.embed_tokens.weight[vocabulary["<pad>"]] = 0.0
    made.save_pretrained(place)
    return place


def model(kind: str, seed: int, vocabularies: list[dict[str, int]], settings: dict[str, Any]) -> Any:
    """A model of transformers, as it begins."""
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


def write(place: Path, table: Any) -> None:
    place.write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def changed(place: Path, **changes: Any) -> None:
    """Other values in config.json; None takes a key out."""
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    write(place / "config.json", {key: value for key, value in {**config, **changes}.items() if value is not None})


def of_transformers(place: Path) -> tuple[Any, Any]:
    """The model and the tokenizer as any user would load them."""
    found = transformers.AutoModelForSeq2SeqLM.from_pretrained(place, dtype=torch.float32).eval()
    return found, transformers.AutoTokenizer.from_pretrained(place)


def filled(sentences: list[list[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Rows of one length, and which of their positions hold a piece."""
    width = max(map(len, sentences))
    ids = torch.tensor([row + [padding] * (width - len(row)) for row in sentences])
    return ids, torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in sentences])
