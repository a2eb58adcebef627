"""`pellucid import`: converts a model of transformers, CTranslate2 or Argos Translate to a model directory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pellucid.cli.files import write_lines
from pellucid.cli.options import argument

if TYPE_CHECKING:
    from pellucid.store.directory import Bundle

IMPORT_EXAMPLES = """\
  pellucid import Helsinki-NLP/opus-mt-en-es runs/opus-en-es
  pellucid import opus-mt-en-de runs/opus-en-de
  pellucid import translate-en_es-1_0.argosmodel runs/argos-en-es
  pellucid translate runs/opus-en-de news.en --beam 6"""


def run_import(
    directory: Annotated[
        str,
        argument(
            "DIR",
            "directory of a Marian model, as Hugging Face transformers saves it, or its name on the Hub; a package of "
            "Argos Translate; a directory of CTranslate2",
        ),
    ],
    out: Annotated[
        str,
        argument("OUT", "model directory to write; a model that is already there is replaced"),
    ],
) -> None:
    """Convert another program's model to a model directory.

    DIR may be of three kinds. First, it holds a translation model as transformers saves it:
    config.json, model.safetensors, vocab.json, source.spm and target.spm, such as a model of
    OPUS-MT. It may be a Marian model, or a Pegasus model with Marian's tokenizer, which is how
    `pellucid export` writes models with a norm before each sublayer. For a model with several
    target languages, begin each line with one: >>fra<<.

    A name such as Helsinki-NLP/opus-mt-en-es, where there is no such directory, names a model on
    the Hugging Face Hub: with the extra `hub` (pip install 'pellucid[hub]') the files above are
    fetched, once, into the Hub's cache. A branch, tag, commit or pull request stands behind it:
    NAME@v2, NAME@refs/pr/NUMBER.

    Second, it is a package of Argos Translate, a file that ends in .argosmodel or its folder.
    Third, it is the directory of a translation Transformer that was converted for CTranslate2
    (model.bin and its vocabularies), with its SentencePiece model beside. Their weights are often
    rounded to bytes, and stay so; Pellucid computes with them in float32.

    The result translates as the original does. Weights in a pickle (pytorch_model.bin) are not
    opened, because a pickle can run any program. A model that cannot be converted exactly is
    refused, with every reason, and nothing is written.
    """
    bundle = _import_model(directory, Path(out))
    c = bundle.model.config  # of the directory just written, loaded again
    weights = sum(parameter.numel() for parameter in bundle.model.parameters())
    write_lines(
        [
            f"{out}: {weights / 1e6:.1f} million weights, {c.encoder_layers} + {c.decoder_layers} layers, "
            f"{c.source_vocabulary:,} pieces to read and {c.target_vocabulary:,} to write",
            f"try: pellucid translate {out}",
        ]
    )


def _import_model(directory: str, out: Path) -> "Bundle":
    """Import a model of any known program, from this machine or from the Hub."""
    from pellucid.interop.argos import import_argos_package, is_argos_package
    from pellucid.interop.ctranslate2_import import (
        import_ctranslate2_model,
        is_ctranslate2_directory,
    )
    from pellucid.interop.hub import fetch_marian_model, is_hub_name
    from pellucid.interop.marian import import_marian
    from pellucid.store.atomic import refuse_non_model_directory

    name, _, revision = directory.partition("@")
    path = Path(directory)
    if is_hub_name(name):
        refuse_non_model_directory(out)  # before anything is fetched
        return import_marian(fetch_marian_model(name, revision or None), out, name)

    if path.exists() and is_argos_package(path):
        return import_argos_package(path, out)
    if is_ctranslate2_directory(path):
        return import_ctranslate2_model(path, out)
    return import_marian(path, out)
