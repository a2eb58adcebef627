"""`pellucid import`: another program's model as a model directory."""

from pathlib import Path
from typing import Annotated

import typer

from pellucid.cli.files import write_lines

EXAMPLES = """\
  pellucid import opus-mt-en-de runs/opus-en-de
  pellucid translate runs/opus-en-de news.en --beam 6"""


def run(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="a directory of Hugging Face transformers with a Marian model")
    ],
    out: Annotated[str, typer.Argument(metavar="OUT", help="model directory to write; a model there is replaced")],
) -> None:
    """Another program's model as a model directory.

    DIR holds a translation model as transformers saves it: config.json, model.safetensors, vocab.json, source.spm and
    target.spm, such as a model of OPUS-MT. It may be a Marian model, or a Pegasus model with Marian's tokenizer, which
    is how pellucid export writes models with their norms before each part.

    What is written translates as the original does: the same pieces, the same numbers; `pellucid export OUT DIR2 --to
    marian` gives the original back. A model for several languages is told which one by how a line begins: >>fra<<.

    Weights in a pickle (pytorch_model.bin) are not opened, as a pickle can run any program. What a model here cannot
    be is refused, with every reason, and nothing is written.
    """
    from pellucid.interop.marian import import_marian

    found = import_marian(Path(directory), Path(out))
    c = found.model.config
    weights = sum(parameter.numel() for parameter in found.model.parameters())
    write_lines(
        [
            f"{out}: {weights / 1e6:.1f} million weights, {c.encoder_layers} + {c.decoder_layers} layers, "
            f"{c.source_vocabulary:,} pieces to read and {c.target_vocabulary:,} to write",
            f"try: pellucid translate {out}",
        ]
    )
