"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) in one file: model, training and search.

    python mini.py train train.en train.es --out mini.safetensors
    echo "The ball is blue." | python mini.py translate mini.safetensors

Line n of one file translates line n of the other. PyTorch is all that is needed; it runs on the
CPU, and is written to be read, not to be fast. Numbers such as (3.2.1) are sections of the paper,
https://arxiv.org/abs/1706.03762. Letters in comments are shapes: B sentences, S source and T target
positions, Q and K positions of queries and keys, D d_model, H heads, E = D / H, V vocabulary, W
width of a beam.

`translate` also takes a model directory of Pellucid, and computes the same logits, if the model is
of the plain kind: sines for positions, relu, LayerNorm before or after each sublayer, and a
tokenizer of the kind "bpe".

Written by `pellucid mini`. Licence: Apache-2.0.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Padding, unknown, start and end of a sentence: the first pieces of every vocabulary.
PAD, UNK, BOS, EOS = 0, 1, 2, 3
NEWLINE = 4 + ord("\n")  # the pieces behind these four are the 256 bytes
# A byte spells what is rare.
RESERVED = ["<pad>", "<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]


# --- The model: from pieces to logits -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Config:
    """The numbers that define a model; the paper's base model (table 3) has 512, 2048, 8, 6, 6, 0.1 and "post"."""

    source_vocabulary: int
    target_vocabulary: int
    d_model: int = 128
    d_ff: int = 512
    heads: int = 4
    encoder_layers: int = 3
    decoder_layers: int = 3
    dropout: float = 0.1
    # "post" is the paper's; with the norm before each sublayer, training is less delicate.
    norm: str = "pre"
    # Which of the two embeddings and the output share one matrix: "all" (3.4), "decoder" or "none".
    tie: str = "all"


def sinusoids(length: int, d_model: int) -> Tensor:  # (length D)
    """Return a vector for each position (3.5): PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same)."""
    wavelengths = 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)  # (D/2)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / wavelengths  # (length D/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


class Attention(nn.Module):
    """Multi-head attention (3.2.2): each head reads, at every position, a weighted mean of other positions."""

    def __init__(self, c: Config):
        super().__init__()
        self.heads = c.heads
        # W_Q, W_K and W_V of all heads, one below the other.
        self.qkv = nn.Linear(c.d_model, 3 * c.d_model)
        self.output = nn.Linear(c.d_model, c.d_model)  # W_O

    # (B Q D), (B K D), (B 1 Q K) -> (B Q D)
    def forward(self, x: Tensor, memory: Tensor, allowed: Tensor) -> Tensor:
        """Compute softmax(Q K^T / sqrt(E)) V (3.2.1), with queries from `x` and keys and values from `memory`."""
        (W_q, W_k, W_v), (b_q, b_k, b_v) = self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)
        q = self.split_heads(F.linear(x, W_q, b_q))
        k, v = self.split_heads(F.linear(memory, W_k, b_k)), self.split_heads(F.linear(memory, W_v, b_v))

        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # (B H Q K)
        # What may not be read gets the score -inf, and so the weight 0: padding, and in the decoder
        # the future (3.2.3). Each row of the pattern (B H Q K) sums to 1.
        pattern = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
        # Heads side by side again: (B Q D).
        return self.output((pattern @ v).transpose(1, 2).flatten(2))

    def split_heads(self, x: Tensor) -> Tensor:  # (B Q D) -> (B H Q E)
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, at each position by itself (3.3)."""

    def __init__(self, c: Config):
        super().__init__()
        self.inner, self.outer = nn.Linear(c.d_model, c.d_ff), nn.Linear(c.d_ff, c.d_model)

    def forward(self, x: Tensor) -> Tensor:  # (B Q D) -> (B Q D)
        return self.outer(F.relu(self.inner(x)))


class Residual(nn.Module):
    """A residual connection with its norm around a sublayer f: norm(x + f(x)) (3.1), or x + f(norm(x))."""

    def __init__(self, c: Config):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(c.d_model), nn.Dropout(c.dropout)
        self.norm_first = c.norm == "pre"

    def forward(self, x: Tensor, sublayer: Any) -> Tensor:  # (B Q D) -> (B Q D)
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))  # dropout before the sum (5.4)
        return self.norm(x + self.dropout(sublayer(x)))


class Layer(nn.Module):
    """A layer of either stack (3.1): self-attention, in the decoder cross-attention, and feed-forward."""

    def __init__(self, c: Config, has_cross: bool):
        super().__init__()
        self.self, self.self_residual = Attention(c), Residual(c)
        if has_cross:
            self.cross, self.cross_residual = Attention(c), Residual(c)
        self.ffn, self.ffn_residual = FeedForward(c), Residual(c)

    def forward(self, x: Tensor, allowed: Tensor, memory: Tensor | None = None, memory_allowed: Any = None) -> Tensor:
        """Let each position of x (B Q D) read the others of x, then the source `memory` (B S D), and compute on it."""
        x = self.self_residual(x, lambda y: self.self(y, y, allowed))
        if memory is not None:
            x = self.cross_residual(x, lambda y: self.cross(y, memory, memory_allowed))
        return self.ffn_residual(x, self.ffn)


class Transformer(nn.Module):
    """The encoder-decoder model (figure 1): pieces of both languages in, logits of the next target pieces out."""

    def __init__(self, c: Config):
        super().__init__()
        self.config = c
        source = nn.Embedding(c.source_vocabulary, c.d_model)
        target, output = (nn.Embedding(c.target_vocabulary, c.d_model) for _ in range(2))
        self.source_embedding = source
        self.target_embedding = source if c.tie == "all" else target
        self.output_embedding = output if c.tie == "none" else self.target_embedding

        self.dropout = nn.Dropout(c.dropout)
        self.encoder = nn.ModuleList(Layer(c, has_cross=False) for _ in range(c.encoder_layers))
        self.decoder = nn.ModuleList(Layer(c, has_cross=True) for _ in range(c.decoder_layers))
        # With the norm before each sublayer, the sum that leaves the last layer still needs one.
        self.encoder_norm = nn.LayerNorm(c.d_model) if c.norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(c.d_model) if c.norm == "pre" else nn.Identity()

        for name, weight in self.named_parameters():
            if "embedding" in name:
                nn.init.normal_(weight, std=c.d_model**-0.5)  # vectors of length about 1
            elif weight.dim() == 2:
                nn.init.xavier_uniform_(weight)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # (B S), (B T) -> (B T V)
        """Return the logits of the piece after each target position; `target` begins with BOS."""
        return self.decode(target, *self.encode(source))

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:  # (B S) -> (B S D), (B 1 1 S)
        """Return a vector for each source position, and which positions are pieces and not padding."""
        allowed = (source != PAD)[:, None, None, :]
        x = self.embed(source, self.source_embedding)
        for layer in self.encoder:
            x = layer(x, allowed)
        return self.encoder_norm(x), allowed

    # (B T), (B S D), (B 1 1 S) -> (B T V)
    def decode(self, target: Tensor, memory: Tensor, allowed: Tensor) -> Tensor:
        """Return the logits at every target position; no position sees a later one (3.2.3)."""
        length = target.shape[1]
        # (1 1 T T), True on and below the diagonal.
        past = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
        x = self.embed(target, self.target_embedding)
        for layer in self.decoder:
            x = layer(x, past, memory, allowed)
        return F.linear(self.decoder_norm(x), self.output_embedding.weight)  # (3.4)

    def embed(self, tokens: Tensor, table: nn.Module) -> Tensor:  # (B Q) -> (B Q D)
        """Return embeddings times sqrt(D) (3.4) plus positions (3.5), after dropout (5.4)."""
        d_model = self.config.d_model
        return self.dropout(table(tokens) * d_model**0.5 + sinusoids(tokens.shape[1], d_model))


# --- Training -------------------------------------------------------------------------------------------------------


# (B T V), (B T) -> one number
def smoothed_loss(logits: Tensor, targets: Tensor, smoothing: float = 0.1) -> Tensor:
    """Return the mean cross-entropy with label smoothing (5.4): 0.9 for the target, 0.1 for all pieces alike."""
    log_probs = logits.log_softmax(dim=-1)
    of_target = log_probs.gather(-1, targets[..., None])[..., 0]
    losses = -(1 - smoothing) * of_target - smoothing * log_probs.mean(dim=-1)
    return losses[targets != PAD].mean()


def train(model: Transformer, pairs: list[tuple[list[int], list[int]]], steps: int, warmup: int, batch: int) -> float:
    """Train on encoded pairs, both ending with EOS; print the mean loss now and then, and return the last one."""
    # Adam with the paper's numbers (5.3). Its rate, D^-0.5 min(step^-0.5, step warmup^-1.5), rises
    # and then falls.
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    losses, every = [], max(1, min(100, steps // 10))
    model.train()
    for step, (source, target) in zip(range(1, steps + 1), make_batches(pairs, batch), strict=False):
        rate = model.config.d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        optimizer.param_groups[0]["lr"] = rate

        # The decoder reads the target one place late: it sees BOS a b and is asked for a b EOS, all
        # places at once.
        first = torch.full((len(target), 1), BOS)
        loss = smoothed_loss(model(source, torch.cat([first, target[:, :-1]], dim=1)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        losses.append(loss.item())
        if step % every == 0:
            print(f"step {step:6,}  loss {sum(losses[-every:]) / every:.3f}", file=sys.stderr, flush=True)
    model.eval()
    return sum(losses[-every:]) / every


def make_batches(pairs: list[tuple[list[int], list[int]]], size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of pairs of like length, (B S) and (B T), in a new random order in each pass over the pairs."""
    while True:
        ordered = sorted(random.sample(pairs, len(pairs)), key=lambda pair: len(pair[0]) + len(pair[1]))
        batches = [ordered[first : first + size] for first in range(0, len(ordered), size)]
        for batch in random.sample(batches, len(batches)):
            yield pad([source for source, _ in batch]), pad([target for _, target in batch])


def pad(rows: list[list[int]]) -> Tensor:  # (B longest)
    """Make one tensor of rows of ids, the shorter ones filled up with PAD."""
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


# --- Search ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def greedy_search(model: Transformer, source: list[int], longest: int) -> list[int]:
    """Write the likeliest piece, again and again, until that is EOS."""
    encoded, tokens = model.encode(torch.tensor([source])), [BOS]
    while tokens[-1] != EOS and len(tokens) <= longest:
        tokens.append(int(next_log_probs(model, [tokens], encoded).argmax()))
    return [token for token in tokens[1:] if token != EOS]


@torch.no_grad()
def beam_search(model: Transformer, source: list[int], longest: int, width: int = 4, alpha: float = 1.0) -> list[int]:
    """Keep the `width` likeliest beginnings, and return the best sentence by log P / ((5 + length) / 6)^alpha (6.1)."""
    encoded = model.encode(torch.tensor([source]))
    live, finished = [(0.0, [BOS])], []  # each the log P, or the score, and the pieces
    for length in range(1, longest + 1):
        totals = torch.tensor([total for total, _ in live])[:, None]  # (W 1)
        totals = totals + next_log_probs(model, [tokens for _, tokens in live], encoded)  # (W V)

        # Of the best 2 W at most W end, one for each beginning, so that W remain to go on.
        values, places = totals.flatten().topk(min(2 * width, totals.numel()))
        beginnings, live = live, []
        for rank, (total, place) in enumerate(zip(values.tolist(), places.tolist(), strict=True)):
            parent, token = divmod(place, totals.shape[1])
            if token != EOS:
                live.append((total, [*beginnings[parent][1], token]))
            elif rank < width:
                finished.append((total / ((5 + length) / 6) ** alpha, beginnings[parent][1]))
        live = live[:width]

        # A beginning only becomes less likely: over when none can overtake the best, even at the
        # greatest length.
        best_to_come = live[0][0] / ((5 + longest) / 6) ** alpha
        if len(finished) >= width or (finished and max(finished)[0] >= best_to_come):
            break
    return max(finished or live, key=lambda hypothesis: hypothesis[0])[1][1:]


# -> (W V)
def next_log_probs(model: Transformer, rows: list[list[int]], encoded: tuple[Tensor, Tensor]) -> Tensor:
    """Return the log-probability of each piece after each row; some may never be written."""
    # All rows are of the same source.
    memory, allowed = (x.expand(len(rows), *x.shape[1:]) for x in encoded)
    log_probs = model.decode(torch.tensor(rows), memory, allowed)[:, -1].log_softmax(dim=-1)
    log_probs[:, [PAD, UNK, BOS, NEWLINE]] = -torch.inf
    return log_probs


# --- Text: byte-pair encoding (Sennrich et al. 2016), as in 5.1 ------------------------------------------------------


class Tokenizer:
    """A list of pieces: a piece's index is its id; reserved pieces come first, then the others in order of merging."""

    def __init__(self, pieces: list[str]):
        self.pieces, self.words = pieces, {}  # the pieces of each word that was met before
        self.ids = {piece: number for number, piece in enumerate(pieces) if number >= len(RESERVED)}

    def encode(self, line: str) -> list[int]:
        """Return the ids of a sentence, with EOS last."""
        return [number for word in split_words(line) for number in self.encode_word(word)] + [EOS]

    def encode_word(self, word: str) -> list[int]:
        """Begin with characters, and join the neighbours that were joined earliest when the pieces were learned."""
        if word not in self.words:
            parts = list(word)
            while joined := [self.ids[a + b] for a, b in pairwise(parts) if a + b in self.ids]:
                parts = join_pair(parts, self.pieces[min(joined)])
            self.words[word] = numbers = []
            for part in parts:
                # A character that has no piece is spelled in its bytes, whose ids begin behind the
                # four special ones.
                numbers += [self.ids[part]] if part in self.ids else [4 + b for b in part.encode()]
        return self.words[word]

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids; bytes that are not UTF-8 become the replacement character."""
        parts = (bytes([n - 4]) if n < len(RESERVED) else self.pieces[n].encode() for n in ids if n > EOS)
        return b"".join(parts).decode("utf-8", "replace").replace("▁", " ").removeprefix(" ")


def split_words(line: str) -> list[str]:
    """Split at spaces, and mark each word with the space before it: "The ball" becomes ["▁The", "▁ball"]."""
    return [f"▁{word}" for word in line.split(" ") if word]


def join_pair(parts: list[str], piece: str) -> list[str]:
    """Join the neighbours that make up `piece`, from the left: "th" makes ["th", "e"] of ["t", "h", "e"]."""
    result = parts[:1]
    for part in parts[1:]:
        if result[-1] + part == piece:
            result[-1] = piece
        else:
            result.append(part)
    return result


def learn_pieces(lines: list[str], size: int) -> list[str]:
    """Learn at most `size` pieces: begin with characters, and again and again join the commonest neighbours."""
    counts = Counter(word for line in lines for word in split_words(line))
    words, pairs = {word: list(word) for word in counts}, Counter()
    merges, characters = [], sorted({character for word in words for character in word})

    def count_pairs(word: str, sign: int) -> None:
        for a, b in pairwise(words[word]):
            pairs[a + b] += sign * counts[word]

    for word in words:
        count_pairs(word, 1)

    most = size - len(RESERVED) - len(characters)
    while len(merges) < most and max(pairs.values(), default=0) > 1:
        merges.append(pairs.most_common(1)[0][0])
        for word in [word for word in words if merges[-1] in word]:
            count_pairs(word, -1)
            words[word] = join_pair(words[word], merges[-1])
            count_pairs(word, 1)
    return [*RESERVED, *merges, *characters]


# --- Files ----------------------------------------------------------------------------------------------------------

# Settings of a Pellucid model and its tokenizer for which this file does not know all values, with
# the known ones.
PLAIN = {"norm": ["pre", "post"], "positions": ["sinusoidal"], "activation": ["relu"],
         "output_bias": [False], "fewer_heads": [""], "kind": ["bpe"], "lowercase": [False],
         "source_end": [True]}  # fmt: skip


def save(path: str, model: Transformer, tokenizer: Tokenizer) -> None:
    """Write one file in the format safetensors: the length of a JSON header in 8 bytes, the header, the numbers."""
    about = {"config": json.dumps(asdict(model.config)), "pieces": json.dumps(tokenizer.pieces)}
    header: dict[str, Any] = {"__metadata__": about}
    content = bytearray()
    for name, weight in model.named_parameters():  # a matrix that is shared comes once
        start, _ = len(content), content.extend(weight.detach().numpy().tobytes())
        header[name] = {"dtype": "F32", "shape": list(weight.shape), "data_offsets": [start, len(content)]}

    head = json.dumps(header).encode()
    whole = len(head).to_bytes(8, "little") + head + content
    # A device or a FIFO is written to and stays.
    if Path(path).exists() and not Path(path).is_file():
        Path(path).write_bytes(whole)
        return

    place = Path(path).resolve()  # a link goes on pointing to it
    new = place.with_name(f".{place.name}.new")
    try:
        new.write_bytes(whole)
        new.replace(place)  # at once, so that a full disk leaves what stood there
    except OSError as error:
        raise OSError(f"{path} could not be written: {error.strerror}; what stood there is as it was") from None
    finally:
        new.unlink(missing_ok=True)


def load(path: str) -> tuple[Transformer, Tokenizer, Tokenizer]:
    """Load a file of `save` or a model directory of Pellucid, with its tokenizers; ValueError for any other."""
    folder = Path(path)
    try:
        if folder.is_dir():
            table = json.loads((folder / "config.json").read_text("utf-8"))
            settings = {**table["model"], **table["tokenizer"]}
            if odd := [f"{key} {value!r}" for key, value in settings.items() if value not in PLAIN.get(key, [value])]:
                raise ValueError(f"it has {', '.join(odd)}, which mini.py does not know; use `pellucid translate`")
            names = ["tokenizer.model"] if settings["joint"] else ["tokenizer.source.model", "tokenizer.target.model"]
            tokenizers = [Tokenizer(read_sentencepiece(folder / name)) for name in names]
            weights, _ = read_safetensors(folder / "model.safetensors")
        else:
            weights, about = read_safetensors(folder)
            settings, tokenizers = json.loads(about["config"]), [Tokenizer(json.loads(about["pieces"]))]
        model = Transformer(Config(**{field.name: settings[field.name] for field in fields(Config)}))
        if weights.keys() != dict(model.named_parameters()).keys():
            raise ValueError("the names of its weights are those of another model")
        # A shared matrix has several names in the model, one in the file.
        model.load_state_dict(weights, strict=False)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be loaded as a model: {error!s:.300}") from None
    return model.eval(), tokenizers[0], tokenizers[-1]


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a safetensors file by their names, and the texts in its header."""
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start].decode())
    about, weights = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        first, end = (start + offset for offset in entry["data_offsets"])
        if entry["dtype"] != "F32":
            raise TypeError(f"{name} is not in float32")
        weights[name] = torch.frombuffer(data[first:end], dtype=torch.float32).view(entry["shape"])
    return weights, about


def read_sentencepiece(path: Path) -> list[str]:
    """Return the pieces with which the file of a SentencePiece model begins, in the order of their ids."""
    data, at, pieces = path.read_bytes(), 0, []
    # An entry: 10, its bytes, another 10, the bytes of the text, the text, and its score.
    while data[at] == 10:
        pieces.append(data[at + 4 : at + 4 + data[at + 3]].decode())
        at += 2 + data[at + 1]
    if pieces[: len(RESERVED)] != RESERVED:
        raise TypeError(f"{path.name} does not begin with the pieces {RESERVED[:5]}")
    return pieces


def main() -> None:
    """Train or translate, as the command line asks."""
    parser = argparse.ArgumentParser(description="Train a small Transformer on two files, or translate with one.")
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="learn from two files; line n of one translates line n of the other")
    for name in ("source", "target"):
        training.add_argument(name, help="a text file with a sentence on each line")
    training.add_argument("--out", default="mini.safetensors", help="file to write; default: mini.safetensors")
    for name, default in {"steps": 3000, "warmup": 400, "batch": 64, "vocabulary": 2000, "d-model": 128}.items():
        training.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    translating = commands.add_parser("translate", help="translate the lines of standard input")
    translating.add_argument("model", help="a file that `train` wrote, or a model directory of Pellucid")
    translating.add_argument("--beam", type=int, default=4, help="width of the beam; default: 4")
    options = parser.parse_args()
    try:
        run_training(options) if options.command == "train" else run_translation(options)
    except (ValueError, OSError) as error:
        parser.error(str(error))


def run_training(options: argparse.Namespace) -> None:
    """Learn pieces from two files, then a model; write both to the file `out`."""
    # Not after hours of training.
    if Path(options.out).is_dir() or not Path(options.out).resolve().parent.is_dir():
        raise ValueError(f"{options.out} cannot be written: it is a folder, or in none that exists")

    source = Path(options.source).read_text("utf-8").split("\n")
    target = Path(options.target).read_text("utf-8").split("\n")
    if len(source) != len(target) or not any(source):
        raise ValueError(f"line n must translate line n, but the files have {len(source):,} and {len(target):,} lines")

    tokenizer = Tokenizer(learn_pieces(source + target, options.vocabulary))
    pairs = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in zip(source, target, strict=True) if a and b]
    torch.manual_seed(1)
    random.seed(1)
    model = Transformer(Config(*[len(tokenizer.pieces)] * 2, d_model=options.d_model, d_ff=4 * options.d_model))
    train(model, pairs, options.steps, options.warmup, options.batch)
    save(options.out, model, tokenizer)


def run_translation(options: argparse.Namespace) -> None:
    """Translate standard input line by line; a translation has at most 50 pieces more than its source (6.1)."""
    model, source, target = load(options.model)
    for line in sys.stdin:
        ids = source.encode(line.rstrip("\r\n"))
        print(target.decode(beam_search(model, ids, len(ids) + 49, options.beam)), flush=True)


if __name__ == "__main__":
    main()
