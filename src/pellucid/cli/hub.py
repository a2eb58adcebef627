"""`pellucid import` and `push`: models of Hugging Face transformers, and models on the Hub."""

from pathlib import Path
from typing import Annotated

from pellucid.cli.files import require_file, write_lines
from pellucid.cli.options import MODEL, argument, file_option, flag, option
from pellucid.store.atomic import write_text_whole

IMPORT_EXAMPLES = """\
  pellucid import Helsinki-NLP/opus-mt-en-es runs/opus-en-es
  pellucid import opus-mt-en-de runs/opus-en-de
  pellucid translate runs/opus-en-de news.en --beam 6"""


def run_import(
    directory: Annotated[
        str,
        argument("DIR", "directory of a Marian model, as Hugging Face transformers saves it, or its name on the Hub"),
    ],
    out: Annotated[str, argument("OUT", "model directory to write; a model that is already there is replaced")],
    revision: Annotated[
        str | None, option("of a model on the Hub: branch, tag, commit or refs/pr/NUMBER", "NAME")
    ] = None,
) -> None:
    """Convert another program's model to a model directory.

    DIR holds a translation model as transformers saves it: config.json, model.safetensors, vocab.json, source.spm and
    target.spm, such as a model of OPUS-MT. It may be a Marian model, or a Pegasus model with Marian's tokenizer, which
    is how `pellucid export` writes models with a norm before each sublayer.

    A name such as Helsinki-NLP/opus-mt-en-es, where there is no such directory, is that of a model on the Hugging Face
    Hub: with the extra `hub` (pip install 'pellucid[hub]') the files above are fetched, once, into the Hub's cache.

    The result translates as the original does: the same pieces, the same numbers; `pellucid export OUT DIR2 --to
    marian` gives the original back. For a model with several target languages, begin each line with one: >>fra<<.

    Weights in a pickle (pytorch_model.bin) are not opened, because a pickle can run any program. A model that cannot be
    converted exactly is refused, with every reason, and nothing is written.
    """
    from pellucid.interop.hub import fetch_marian_model, is_hub_name
    from pellucid.interop.marian import import_marian
    from pellucid.store.atomic import refuse_non_model_directory

    if is_hub_name(directory):
        refuse_non_model_directory(Path(out))  # before anything is fetched
        bundle = import_marian(fetch_marian_model(directory, revision), Path(out), directory)
    elif revision is not None:
        raise ValueError(f"--revision is of a model on the Hub, such as Helsinki-NLP/opus-mt-en-es, not of {directory}")
    else:
        bundle = import_marian(Path(directory), Path(out))
    c = bundle.model.config  # of the directory just written, loaded again
    weights = sum(parameter.numel() for parameter in bundle.model.parameters())
    write_lines(
        [
            f"{out}: {weights / 1e6:.1f} million weights, {c.encoder_layers} + {c.decoder_layers} layers, "
            f"{c.source_vocabulary:,} pieces to read and {c.target_vocabulary:,} to write",
            f"try: pellucid translate {out}",
        ]
    )


PUSH_EXAMPLES = """\
  pellucid push runs/demo/best someone/demo-en-es --card-only card.md
  pellucid push runs/demo/best someone/demo-en-es --card card.md --private"""


def run_push(
    model: Annotated[str, MODEL],
    name: Annotated[str, argument("NAME", "name on the Hub: OWNER/MODEL")],
    private: Annotated[bool, flag("--private", "a new repository can be seen by you alone")] = False,
    card: Annotated[str | None, file_option("card to upload instead of the one made from the model")] = None,
    card_only: Annotated[str | None, file_option("write the card there, to be completed, and upload nothing")] = None,
) -> None:
    """Upload a model to the Hugging Face Hub, with a card.

    All files of the model directory are uploaded, among them reference.jsonl, which holds lines of the dev text. The
    card, README.md there, says the languages, the size, the scores on the dev set with their signatures, the SHA-256 of
    the training text and of the model, and how to load it. It replaces the one that is there.

    It needs the extra `hub` (pip install 'pellucid[hub]') and your token: hf auth login, or the variable HF_TOKEN.
    With --card-only it needs neither, nor a network.
    """
    from pellucid.interop.hub import is_hub_name, push_model, write_model_card
    from pellucid.store.directory import load_bundle

    problems = [f"{name!r:.80} is not a name on the Hub: OWNER/MODEL"] if not is_hub_name(name) else []
    if card is not None and card_only is not None:
        problems.append("--card is uploaded and --card-only uploads nothing; give only one of them")
    if problems:
        raise ValueError("; ".join(problems))
    text = None if card is None else Path(require_file(card)).read_text(encoding="utf-8")
    bundle = load_bundle(model)  # which checks everything
    text = text if text is not None else write_model_card(bundle, name)
    if card_only is not None:
        write_text_whole(card_only, text)
        write_lines([f"{card_only}: the card; complete it, then: pellucid push {model} {name} --card {card_only}"])
        return
    write_lines([push_model(bundle.directory, name, text, private)])
