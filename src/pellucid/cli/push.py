"""`pellucid push`: uploads a model to the Hugging Face Hub with a card that says what it is."""

from pathlib import Path
from typing import Annotated

from pellucid.cli.files import require_file, write_lines
from pellucid.cli.options import MODEL, argument, file_option, flag
from pellucid.store.atomic import write_text_whole

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
