"""`pellucid push`: uploads a model to the Hugging Face Hub with a card that says what it is."""

from pathlib import Path
from typing import Annotated

from pellucid.cli.files import write_lines
from pellucid.cli.options import MODEL, argument, file_option, flag
from pellucid.store.atomic import write_text_whole

PUSH_EXAMPLES = """\
  pellucid push runs/demo/best someone/demo-en-es --card card.md
  pellucid push runs/demo/best someone/demo-en-es --card card.md --private"""


def run_push(
    model: Annotated[str, MODEL],
    name: Annotated[str, argument("NAME", "name on the Hub: OWNER/MODEL")],
    private: Annotated[
        bool,
        flag("--private", "a new repository can be seen by you alone"),
    ] = False,
    card: Annotated[
        str | None,
        file_option("card to upload; where there is no such file, write it, to be completed, and upload nothing"),
    ] = None,
) -> None:
    """Upload a model to the Hugging Face Hub, with a card.

    All files of the model directory are uploaded, among them reference.jsonl, which holds lines of
    the dev text. The card, README.md there, says the languages, the size, the scores on the dev
    set, the SHA-256 of the training text and of the model, and how to load it. It replaces an older
    one.

    It needs the extra `hub` (pip install 'pellucid[hub]') and your token: hf auth login, or the
    variable HF_TOKEN. To write the card into a new file (--card) it needs neither, nor a network.
    """
    from pellucid.interop.hub import is_hub_name, push_model, write_model_card
    from pellucid.store.directory import load_bundle

    if not is_hub_name(name):
        raise ValueError(f"{name!r:.80} is not a name on the Hub: OWNER/MODEL")
    is_written = card is not None and Path(card).exists()
    text = Path(card).read_text(encoding="utf-8") if card is not None and is_written else None
    bundle = load_bundle(model)  # which checks everything
    text = text if text is not None else write_model_card(bundle, name)
    if card is not None and not is_written:
        write_text_whole(card, text)
        write_lines([f"{card}: the card; complete it, then give the same command again to upload both"])
        return

    write_lines([push_model(bundle.directory, name, text, private)])
