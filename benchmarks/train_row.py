"""Run one row of benchmarks/train.py in a process of its own: train for some seconds and print one line of JSON.

    python -m benchmarks.train_row '{"peer": "hugging_face", "pairs": "pairs.npz", "size": {...}, ...}'

It runs in the virtual environment of the peer, which need not have Pellucid. Each peer trains as its users would.
All have dropout 0.1 of embeddings and sublayers' outputs (x-transformers: inside the feed-forward), label smoothing
0.1, Adam, gradients no longer than 1, and make batches of about the same number of target pieces in their own way.
"""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

PADDING, BEGIN, END = 0, 2, 3
"""Ids of padding and of the special tokens at both ends."""
LONGEST, CLIP, BETAS, EPSILON = 512, 1.0, (0.9, 0.98), 1e-9
RATE = 1e-4
WARM = 3
"""Number of updates that are not timed."""

NO_LABEL = -100
"""The label that transformers leaves out of the loss."""

Example = dict[str, list[int]]
Logits = Callable[[Tensor, Tensor], Tensor]
"""Scores of all pieces at each place, from padded sources and what the decoder reads."""


def main() -> None:
    """Train as the task says and print what the clock counted."""
    task = json.loads(sys.argv[1])
    torch.set_num_threads(task["cores"])
    torch.manual_seed(task["seed"])
    clock = Clock(task)
    ROWS[task["peer"]](task, clock)
    print(json.dumps(clock.result()))


class Clock:
    """Counts target pieces, without padding, from the fourth update on until the time is up."""

    def __init__(self, task: dict[str, Any]):
        self.task, self.updates, self.tokens = task, 0, 0
        self.first = self.start = self.end = 0.0

    def count_update(self, tokens: int) -> bool:
        """Count an update; return whether it was the last."""
        now, self.updates = time.time(), self.updates + 1
        # The first update is where everything is loaded and allocated.
        if self.updates == 1:
            self.first = now - self.task["started"]
        if self.updates == WARM:
            self.start = now
        elif self.updates > WARM:
            self.tokens += tokens
            self.end = now
        return self.updates > WARM + 1 and now - self.start > self.task["seconds"]

    def result(self) -> dict[str, float]:
        # Kilobytes on Linux, bytes on macOS.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {"speed": self.tokens / (self.end - self.start), "first": self.first, "peak": peak}


def train_pellucid(task: dict[str, Any], clock: Clock) -> None:
    """Train with the updates of `pellucid train`."""
    from pellucid.data.batching import EncodedPairs, PackedSentences
    from pellucid.data.stream import Stream
    from pellucid.model import ModelConfig, Transformer
    from pellucid.training.config import OptimConfig
    from pellucid.training.fused.choice import choose_kernels
    from pellucid.training.optimizer import make_optimizer
    from pellucid.training.process import tune_memory
    from pellucid.training.update import update_weights

    # As every training process of Pellucid does first.
    tune_memory()
    with np.load(task["pairs"]) as arrays:
        sides = [PackedSentences(arrays[side], arrays[f"{side}_starts"]) for side in ("source", "target")]
    vocabulary = task["vocabulary"]
    model = Transformer(ModelConfig(vocabulary, vocabulary, dropout=0.1, **task["size"]))
    model.train()
    c = OptimConfig(clip=CLIP, epsilon=EPSILON)
    optimizer = make_optimizer(model, c)
    kernels = choose_kernels("auto", task["precision"], model.config, torch.device("cpu"), in_lockstep=False).kernels
    for batch in Stream(EncodedPairs(*sides), task["batch_tokens"], seed=task["seed"]):
        result = update_weights(model, optimizer, [batch], RATE, c, task["precision"], kernels=kernels)
        if clock.count_update(result.target_tokens):
            return


def nn_transformer(task: dict[str, Any], clock: Clock) -> None:
    """Train `torch.nn.Transformer` in a loop."""
    model = Plain(task["vocabulary"], task["size"])
    train_in_loop(task, clock, model, model)


def x_transformers(task: dict[str, Any], clock: Clock) -> None:
    """Train `x_transformers.XTransformer` in a loop."""
    train_in_loop(task, clock, *make_x_transformers(task))


def make_x_transformers(task: dict[str, Any], dropout: float = 0.1) -> tuple[nn.Module, Logits]:
    """Return an `XTransformer` with the embeddings of its two sides tied, and what gives its logits."""
    from x_transformers import XTransformer

    size = task["size"]
    shared = {
        "num_tokens": task["vocabulary"],
        "heads": size["heads"],
        "max_seq_len": LONGEST,
        "attn_dim_head": size["d_model"] // size["heads"],
        "ff_mult": size["d_ff"] / size["d_model"],
        "attn_dropout": 0.0,
        "ff_dropout": dropout,
    }
    sides = {"enc": size["encoder_layers"], "dec": size["decoder_layers"]}
    options = {
        f"{side}_{key}": value for side, depth in sides.items() for key, value in {**shared, "depth": depth}.items()
    }
    model = XTransformer(dim=size["d_model"], tie_token_emb=True, **options)

    def logits(source: Tensor, read: Tensor) -> Tensor:
        is_piece = source != PADDING
        memory = model.encoder(source, mask=is_piece, return_embeddings=True)
        return model.decoder.net(read, context=memory, context_mask=is_piece)

    return model, logits


def hugging_face(task: dict[str, Any], clock: Clock) -> None:
    """Train transformers' Marian with `Seq2SeqTrainer`, batches grouped by length, sentences for about the budget."""
    from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    # A list, so that the callback sees the number that `collate` has counted.
    batch_pieces = [0]

    def collate(examples: list[Example]) -> dict[str, Tensor]:
        batch = collate_examples(examples)
        batch_pieces[0] = int((batch["labels"] != NO_LABEL).sum())
        return batch

    class Stop(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = clock.count_update(batch_pieces[0])

    model, _ = make_marian(task)
    arguments = Seq2SeqTrainingArguments(
        output_dir=task["scratch"],
        per_device_train_batch_size=sentences_of_batch(task),
        train_sampling_strategy="group_by_length",
        label_smoothing_factor=0.1,
        max_grad_norm=CLIP,
        max_steps=100_000,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=task["precision"] == "bfloat16",
        disable_tqdm=True,
        seed=task["seed"],
    )
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, fused=True)
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=make_examples(task),
        data_collator=collate,
        callbacks=[Stop()],
        optimizers=(adam, torch.optim.lr_scheduler.ConstantLR(adam, factor=1.0)),
    )
    trainer.train()


def make_examples(task: dict[str, Any]) -> list[Example]:
    """Return the pairs as `Seq2SeqTrainer` takes them."""
    return [
        {"input_ids": source.tolist(), "labels": target.tolist()}
        for source, target in zip(*read_pairs(task), strict=True)
    ]


def collate_examples(examples: list[Example]) -> dict[str, Tensor]:
    """Pad examples to what Marian reads."""
    source = torch.from_numpy(pad([np.array(example["input_ids"]) for example in examples]))
    labels = torch.from_numpy(pad([np.array(example["labels"]) for example in examples], value=NO_LABEL))
    read, mask = shift_right(labels.clamp(min=PADDING)), (source != PADDING).long()
    return {"input_ids": source, "attention_mask": mask, "decoder_input_ids": read, "labels": labels}


def sentences_of_batch(task: dict[str, Any]) -> int:
    """Return the number of sentences that have about as many target pieces as a batch."""
    _, targets = read_pairs(task)
    return round(task["batch_tokens"] / np.mean([len(target) for target in targets]))


def make_marian(task: dict[str, Any], dropout: float = 0.1) -> tuple[nn.Module, Logits]:
    """Return transformers' Marian, and what gives its logits."""
    from transformers import MarianConfig, MarianMTModel

    size = task["size"]
    config = MarianConfig(
        vocab_size=task["vocabulary"],
        d_model=size["d_model"],
        encoder_layers=size["encoder_layers"],
        decoder_layers=size["decoder_layers"],
        encoder_attention_heads=size["heads"],
        decoder_attention_heads=size["heads"],
        encoder_ffn_dim=size["d_ff"],
        decoder_ffn_dim=size["d_ff"],
        activation_function="relu",
        dropout=dropout,
        pad_token_id=PADDING,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        forced_eos_token_id=END,
        max_position_embeddings=LONGEST,
        scale_embedding=True,
    )
    model = MarianMTModel(config)

    def logits(source: Tensor, read: Tensor) -> Tensor:
        return model(input_ids=source, attention_mask=(source != PADDING).long(), decoder_input_ids=read).logits

    return model, logits


def eole(task: dict[str, Any], clock: Clock) -> None:
    """Train with `eole train`, successor of OpenNMT-py."""

    def count_update(trainer: Any, batches: list[dict[str, Any]]) -> None:
        padding = trainer.train_loss.padding_idx
        if clock.count_update(sum(int((batch["tgt"][:, 1:] != padding).sum()) for batch in batches)):
            raise KeyboardInterrupt  # as its users end a training

    run_eole(task, {}, count_update)


def run_eole(task: dict[str, Any], settings: dict[str, Any], after_update: Callable[[Any, Any], None]) -> None:
    """Run `eole train` on files of its own kinds, with some settings of training changed.

    A word `w7` of the text stands for the piece 7. After each update `after_update` gets the trainer and the batches.
    """
    import yaml
    from eole.bin.main import main as command
    from eole.trainer import Trainer

    folder = Path(task["scratch"]) / f"eole-{os.getpid()}"
    folder.mkdir(parents=True)
    words = [f"w{n}" for n in range(task["vocabulary"])]
    (folder / "vocabulary").write_text("\n".join(words[END + 1 :]) + "\n", encoding="utf-8")
    for name, side in zip(("source", "target"), read_pairs(task), strict=True):
        lines = (" ".join(words[i] for i in ids[:-1]) for ids in side)
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    all_settings = eole_settings(task, folder)
    all_settings["training"] |= settings
    (folder / "run.yaml").write_text(yaml.safe_dump(all_settings), encoding="utf-8")
    train_step = Trainer._train_step

    def watched_step(self: Any, batches: list[dict[str, Any]], *positional: Any, **keywords: Any) -> None:
        train_step(self, batches, *positional, **keywords)
        after_update(self, batches)

    Trainer._train_step = watched_step
    sys.argv = ["eole", "train", "-config", str(folder / "run.yaml")]
    command()


def eole_settings(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings as its users write them, after recipes/wmt17 of eole-nlp/eole, with the other rows' sizes."""
    size = task["size"]
    assert size["encoder_layers"] == size["decoder_layers"]
    return {
        "src_vocab": str(folder / "vocabulary"),
        "tgt_vocab": str(folder / "vocabulary"),
        "share_vocab": True,
        "n_sample": 0,
        "report_every": 100,
        "seed": task["seed"],
        "data": {"corpus": {"path_src": str(folder / "source"), "path_tgt": str(folder / "target")}},
        "training": {
            "model_path": str(folder / "model"),
            "train_steps": 100_000,
            "save_checkpoint_steps": 100_000,
            "bucket_size": len(read_pairs(task)[0]),
            "num_workers": 0,
            "gpu_ranks": [],
            "batch_type": "tokens",
            "batch_size": task["batch_tokens"],
            "normalization": "tokens",
            "compute_dtype": {"float32": "fp32", "bfloat16": "bf16"}[task["precision"]],
            "dropout": [0.1],
            "attention_dropout": [0.0],
            "label_smoothing": 0.1,
            "optim": "adam",
            "adam_beta2": BETAS[1],
            "learning_rate": RATE,
            "max_grad_norm": CLIP,
            "param_init_method": "xavier_uniform",
        },
        "model": {
            "architecture": "transformer",
            "hidden_size": size["d_model"],
            "layers": size["encoder_layers"],
            "heads": size["heads"],
            "transformer_ff": size["d_ff"],
            "add_qkvbias": True,
            "add_ffnbias": True,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {"word_vec_size": size["d_model"], "position_encoding": True},
        },
    }


def read_pairs(task: dict[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Read sources and targets as ids, end token last."""
    with np.load(task["pairs"]) as arrays:
        sources, targets = (np.split(arrays[side], arrays[f"{side}_starts"][1:-1]) for side in ("source", "target"))
    return sources, targets


def make_batches(task: dict[str, Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield padded rectangles of pairs of like target length, shuffled, as a careful user would write it."""
    sources, targets = read_pairs(task)
    random = np.random.default_rng(task["seed"])
    # By target length first, then by source length: rectangles then have little padding on both sides.
    order = sorted(range(len(targets)), key=lambda i: (len(targets[i]), len(sources[i])))
    groups, group = [], []
    for i in order:
        if group and len(targets[i]) * (len(group) + 1) > task["batch_tokens"]:
            groups.append(group)
            group = []
        group.append(i)
    groups.append(group)
    while True:
        for n in random.permutation(len(groups)):
            source, target = (pad([side[i] for i in groups[n]]) for side in (sources, targets))
            yield torch.from_numpy(source), torch.from_numpy(target)


def pad(rows: list[np.ndarray], value: int = PADDING) -> np.ndarray:
    """Pad sentences to a rectangle, one sentence a row."""
    rectangle = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for row, ids in zip(rectangle, rows, strict=True):
        row[: len(ids)] = ids
    return rectangle


def shift_right(target: Tensor) -> Tensor:
    """Return the decoder's input: the start token, then all but the last piece."""
    return torch.cat([torch.full((len(target), 1), BEGIN), target[:, :-1]], dim=1)


def train_in_loop(task: dict[str, Any], clock: Clock, model: nn.Module, logits: Logits) -> None:
    """Train in the loop of tutorials: cross-entropy of all logits, Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON)
    model.train()
    for source, target in make_batches(task):
        with torch.autocast("cpu", torch.bfloat16, enabled=task["precision"] == "bfloat16"):
            scores = logits(source, shift_right(target))
            loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=PADDING, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        # Tutorials read the loss to print it, and reading it takes time.
        loss.item()
        if clock.count_update(int((target != PADDING).sum())):
            return


class Plain(nn.Module):
    """`torch.nn.Transformer` with shared embeddings and sines, norm before each sublayer."""

    positions: Tensor

    def __init__(self, vocabulary: int, size: dict[str, int], dropout: float = 0.1):
        super().__init__()
        width = size["d_model"]
        self.table = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        angles = torch.arange(LONGEST)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))
        depth = size["encoder_layers"], size["decoder_layers"]
        self.inner = nn.Transformer(
            width, size["heads"], *depth, size["d_ff"], dropout=dropout, batch_first=True, norm_first=True
        )
        self.dropout = nn.Dropout(dropout)
        for layer in (*self.inner.encoder.layers, *self.inner.decoder.layers):
            # its one `dropout` also drops attention weights and inside the feed-forward; the paper drops neither
            layer.dropout.p = layer.self_attn.dropout = 0.0
        for layer in self.inner.decoder.layers:
            layer.multihead_attn.dropout = 0.0

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.table(ids) * math.sqrt(self.table.embedding_dim) + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, read: Tensor) -> Tensor:
        # True where attention is forbidden, which is the opposite of Pellucid's masks.
        future = torch.ones(read.shape[1], read.shape[1], dtype=torch.bool).triu(1)
        states = self.inner(
            self.embed(source),
            self.embed(read),
            tgt_mask=future,
            src_key_padding_mask=source == PADDING,
            memory_key_padding_mask=source == PADDING,
            tgt_is_causal=True,
        )
        return states @ self.table.weight.T


ROWS: dict[str, Callable[[dict[str, Any], Clock], None]] = {
    "pellucid": train_pellucid,
    "nn_transformer": nn_transformer,
    "x_transformers": x_transformers,
    "hugging_face": hugging_face,
    "eole": eole,
}

if __name__ == "__main__":
    main()
