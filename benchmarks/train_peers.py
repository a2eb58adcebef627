"""Peers of benchmarks/train_row.py, each training as its users would; nothing here needs Pellucid.

All have dropout 0.1 of embeddings and sublayers' outputs (x-transformers: inside the feed-forward), label smoothing
0.1, Adam, gradients no longer than 1, and make batches of about the same number of target pieces in their own way.
"""

import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

PADDING, BEGIN, END = 0, 2, 3
"""Ids of padding and of the special tokens at both ends."""
LONGEST, CLIP, BETAS, EPSILON = 512, 1.0, (0.9, 0.98), 1e-9

Logits = Callable[[Tensor, Tensor], Tensor]


class Watcher(Protocol):
    """Observer of a training: it measures speed (`train_row`) or loss (`train_curves_row`)."""

    def takes(self, model: nn.Module, logits: Logits) -> None:
        """Take the model before the first update; `logits` gives those of every target position from the ids."""

    def rate(self, update: int) -> float:
        """Return the learning rate of an update, counted from 0."""
        ...

    def count_update(self, tokens: int) -> bool:
        """Count an update with its target pieces; return whether it was the last."""
        ...


def read_pairs(task: dict[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Read sources and targets as ids, end mark last."""
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
    """Return the decoder's input: the start mark, then all but the last piece."""
    return torch.cat([torch.full((len(target), 1), BEGIN), target[:, :-1]], dim=1)


def train_in_loop(task: dict[str, Any], watcher: Watcher, model: nn.Module, logits: Logits) -> None:
    """Train in the loop of tutorials: cross-entropy of all logits, Adam."""
    watcher.takes(model, logits)
    optimizer = torch.optim.Adam(model.parameters(), betas=BETAS, eps=EPSILON)
    model.train()
    for update, (source, target) in enumerate(make_batches(task)):
        with torch.autocast("cpu", torch.bfloat16, enabled=task["precision"] == "bfloat16"):
            scores = logits(source, shift_right(target))
            loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=PADDING, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        # Set by hand before each step, as the watcher gives the rate.
        optimizer.param_groups[0]["lr"] = watcher.rate(update)
        optimizer.step()
        # Tutorials read the loss to print it, and reading it takes time.
        loss.item()
        if watcher.count_update(int((target != PADDING).sum())):
            return


class Plain(nn.Module):
    """`torch.nn.Transformer` with shared embeddings and sines, norm before each sublayer."""

    positions: Tensor

    def __init__(self, vocabulary: int, size: dict[str, int]):
        super().__init__()
        width = size["d_model"]
        self.table = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        angles = torch.arange(LONGEST)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))
        depth = size["encoder_layers"], size["decoder_layers"]
        self.inner = nn.Transformer(
            width, size["heads"], *depth, size["d_ff"], dropout=0.1, batch_first=True, norm_first=True
        )
        self.dropout = nn.Dropout(0.1)
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


def nn_transformer(task: dict[str, Any], watcher: Watcher) -> None:
    """Train `torch.nn.Transformer` in a loop."""
    model = Plain(task["vocabulary"], task["size"])
    train_in_loop(task, watcher, model, model)


def x_transformers(task: dict[str, Any], watcher: Watcher) -> None:
    """Train `x_transformers.XTransformer` in a loop, with the embeddings of its two sides tied."""
    from x_transformers import XTransformer

    size = task["size"]
    shared = {
        "num_tokens": task["vocabulary"],
        "heads": size["heads"],
        "max_seq_len": LONGEST,
        "attn_dim_head": size["d_model"] // size["heads"],
        "ff_mult": size["d_ff"] / size["d_model"],
        "attn_dropout": 0.0,
        "ff_dropout": 0.1,
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

    train_in_loop(task, watcher, model, logits)


def hugging_face(task: dict[str, Any], watcher: Watcher) -> None:
    """Train transformers' Marian with `Seq2SeqTrainer`, batches grouped by length, sentences for about the budget."""
    from transformers import MarianConfig, MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    size, (sources, targets) = task["size"], read_pairs(task)
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
        dropout=0.1,
        pad_token_id=PADDING,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        forced_eos_token_id=END,
        max_position_embeddings=LONGEST,
        scale_embedding=True,
    )
    rows = [
        {"input_ids": source.tolist(), "labels": target.tolist()}
        for source, target in zip(sources, targets, strict=True)
    ]
    # A list, so that the callback sees the number that `collate` has counted.
    batch_pieces = [0]

    def collate(examples: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        source = torch.from_numpy(pad([np.array(example["input_ids"]) for example in examples]))
        # -100 is the label that transformers leaves out of the loss.
        labels = torch.from_numpy(pad([np.array(example["labels"]) for example in examples], value=-100))
        batch_pieces[0] = int((labels != -100).sum())
        read, mask = shift_right(labels.clamp(min=PADDING)), (source != PADDING).long()
        return {"input_ids": source, "attention_mask": mask, "decoder_input_ids": read, "labels": labels}

    class Stop(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = watcher.count_update(batch_pieces[0])

    model = MarianMTModel(config)
    watcher.takes(
        model,
        lambda source, read: (
            model(input_ids=source, attention_mask=(source != PADDING).long(), decoder_input_ids=read).logits
        ),
    )
    arguments = Seq2SeqTrainingArguments(
        output_dir=task["scratch"],
        per_device_train_batch_size=round(task["batch_tokens"] / np.mean([len(target) for target in targets])),
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
    # The scheduler multiplies this rate of 1 by the watcher's.
    adam = torch.optim.Adam(model.parameters(), lr=1.0, betas=BETAS, eps=EPSILON, fused=True)
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=collate,
        callbacks=[Stop()],
        optimizers=(adam, torch.optim.lr_scheduler.LambdaLR(adam, watcher.rate)),
    )
    trainer.train()


def eole(task: dict[str, Any], watcher: Watcher) -> None:
    """Train with `eole train`, successor of OpenNMT-py, with files of its own kinds: a word of text for each id."""
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
    (folder / "run.yaml").write_text(yaml.safe_dump(eole_settings(task, folder)), encoding="utf-8")
    # Wrapped below, to count the pieces of each update and to stop.
    train_step = Trainer._train_step

    def watched_step(self: Any, batches: list[dict[str, Any]], *positional: Any, **keywords: Any) -> None:
        train_step(self, batches, *positional, **keywords)
        padding = self.train_loss.padding_idx
        if watcher.count_update(sum(int((batch["tgt"][:, 1:] != padding).sum()) for batch in batches)):
            raise KeyboardInterrupt  # as its users end a training

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
            "learning_rate": 1e-4,
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
