"""`pellucid mini`: writes the whole Transformer as one Python file that needs nothing but PyTorch."""

from pathlib import Path
from typing import Annotated

from pellucid.cli.files import write_lines
from pellucid.cli.options import argument
from pellucid.store.atomic import atomic_file

MINI_EXAMPLES = """\
  pellucid mini mini.py
  python mini.py train train.en train.es --out mini.safetensors
  python mini.py translate mini.safetensors < new.en
  python mini.py translate runs/demo/best < new.en"""


def run_mini(
    out: Annotated[str, argument("OUT", "Python file to write")] = "mini.py",
) -> None:
    """Write a whole Transformer as one Python file.

    The file is there to be read and changed. It has the model of "Attention Is All You Need", its
    loss, its training and its searches, each formula with its section of the paper and each tensor
    with its shape. It imports only PyTorch and Python's standard library. It trains on two text
    files and translates.

    It also translates with a model directory of Pellucid if the model is of the plain kind:
    sinusoidal positions, relu, LayerNorm before or after each sublayer, and a tokenizer of the kind
    bpe.
    """
    path = Path(out)
    if path.is_dir():
        raise ValueError(f"{out} is a directory; name the Python file to write, such as {path / 'mini.py'}")
    if path.is_file():
        raise ValueError(f"{out} is already there; name another file, or remove it first")

    # Read as a file and not imported: an import would load torch.
    content = (Path(__file__).parent.parent / "demo" / "mini.py").read_bytes()
    with atomic_file(path) as write:
        write(content)
    write_lines([out])
