"""One row of benchmarks/train.py, in a process of its own: trains for some seconds and prints one line of JSON.

    python benchmarks/train_row.py '{"peer": "hugging_face", "pairs": "pairs.npz", "size": {...}, ...}'

It runs in the virtual environment of the peer, which need not have Pellucid. Every peer trains as its users would: its
own batches of about the same number of target pieces, its own loss, Adam, dropout 0.1, label smoothing 0.1.
"""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

PADDING, BEGIN, WARM = 0, 2, 3
"""Ids of padding and of the start mark; updates that are not timed."""


class Clock:
    """Counts target pieces, without padding, from the fourth update on until the time is up."""

    def __init__(self, task: dict[str, Any]):
        self.task, self.updates, self.tokens = task, 0, 0
        self.first = self.begun = self.ended = 0.0

    def over(self, tokens: int) -> bool:
        """After each update: whether it was the last."""
        now, self.updates = time.time(), self.updates + 1
        if self.updates == 1:
            self.first = now - self.task["started"]
        if self.updates == WARM:
            self.begun = now
        elif self.updates > WARM:
            self.tokens += tokens
            self.ended = now
        return self.updates > WARM + 1 and now - self.begun > self.task["seconds"]

    def result(self) -> dict[str, float]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {"speed": self.tokens / (self.ended - self.begun), "first": self.first, "peak": peak}


def main() -> None:
    """Train as the task says."""
    task = json.loads(sys.argv[1])
    import torch

    torch.set_num_threads(task["cores"])
    clock = Clock(task)
    PEERS[task["peer"]](task, clock)
    print(json.dumps(clock.result()))


def pairs(task: dict[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sources and targets as ids, end mark last."""
    with np.load(task["pairs"]) as found:
        return tuple(np.split(found[side], found[f"{side}_starts"][1:-1]) for side in ("source", "target"))


def batches(task: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Padded rectangles of pairs of like target length, shuffled: what a careful user writes himself."""
    import torch

    sources, targets = pairs(task)
    random = np.random.default_rng(1)
    order = sorted(range(len(targets)), key=lambda i: (len(targets[i]), len(sources[i])))
    groups, group = [], []
    for i in order:
        if group and len(targets[i]) * (len(group) + 1) > task["batch_tokens"]:
            groups.append(group)
            group = []
        group.append(i)
    while True:
        for n in random.permutation(len(groups)):
            yield tuple(torch.from_numpy(padded([side[i] for i in groups[n]])) for side in (sources, targets))


def padded(rows: list[np.ndarray], value: int = PADDING) -> np.ndarray:
    """One sentence a row."""
    rectangle = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for row, ids in zip(rectangle, rows, strict=True):
        row[: len(ids)] = ids
    return rectangle


def loop(task: dict[str, Any], clock: Clock, model: Any, logits: Callable[[Any, Any], Any]) -> None:
    """The training loop of tutorials: cross-entropy of all logits, Adam."""
    import torch
    import torch.nn.functional as F

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
    model.train()
    for source, target in batches(task):
        begin = torch.full((len(target), 1), BEGIN)
        read = torch.cat([begin, target[:, :-1]], dim=1)
        with torch.autocast("cpu", torch.bfloat16, enabled=task["precision"] == "bfloat16"):
            scores = logits(source, read)
            loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=PADDING, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        if clock.over(int((target != PADDING).sum())):
            return


def nn_transformer(task: dict[str, Any], clock: Clock) -> None:
    """`torch.nn.Transformer`, with shared embeddings and sines."""
    import torch
    from torch import nn

    size = task["size"]
    width = size["d_model"]

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(task["vocabulary"], width, padding_idx=PADDING)
            angles = torch.arange(512)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
            self.register_buffer("places", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))
            self.inner = nn.Transformer(
                width,
                size["heads"],
                size["encoder_layers"],
                size["decoder_layers"],
                size["d_ff"],
                dropout=0.1,
                batch_first=True,
                norm_first=True,
            )
            self.dropout = nn.Dropout(0.1)

        def embed(self, ids: Any) -> Any:
            return self.dropout(self.table(ids) * math.sqrt(width) + self.places[: ids.shape[1]])

        def forward(self, source: Any, read: Any) -> Any:
            future = nn.Transformer.generate_square_subsequent_mask(read.shape[1]) == -math.inf
            states = self.inner(
                self.embed(source),
                self.embed(read),
                tgt_mask=future,
                src_key_padding_mask=source == PADDING,
                memory_key_padding_mask=source == PADDING,
                tgt_is_causal=True,
            )
            return states @ self.table.weight.T

    model = Plain()
    loop(task, clock, model, model)


def x_transformers(task: dict[str, Any], clock: Clock) -> None:
    """`x_transformers.XTransformer`, with embeddings of its two sides tied."""
    from x_transformers import XTransformer

    size = task["size"]
    shared = {"num_tokens": task["vocabulary"], "heads": size["heads"], "max_seq_len": 512}
    inner = {"attn_dim_head": size["d_model"] // size["heads"], "ff_mult": size["d_ff"] / size["d_model"]}
    dropped = {"attn_dropout": 0.0, "ff_dropout": 0.1}
    model = XTransformer(
        dim=size["d_model"],
        tie_token_emb=True,
        **{
            f"enc_{key}": value
            for key, value in {**shared, **inner, **dropped, "depth": size["encoder_layers"]}.items()
        },
        **{
            f"dec_{key}": value
            for key, value in {**shared, **inner, **dropped, "depth": size["decoder_layers"]}.items()
        },
    )

    def logits(source: Any, read: Any) -> Any:
        there = source != PADDING
        memory = model.encoder(source, mask=there, return_embeddings=True)
        return model.decoder.net(read, context=memory, context_mask=there)

    loop(task, clock, model, logits)


def hugging_face(task: dict[str, Any], clock: Clock) -> None:
    """transformers' Marian and its `Seq2SeqTrainer`, batches grouped by length, sentences for about the budget."""
    import torch
    from transformers import MarianConfig, MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    size, (sources, targets) = task["size"], pairs(task)
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
        eos_token_id=3,
        decoder_start_token_id=BEGIN,
        forced_eos_token_id=3,
        max_position_embeddings=512,
        scale_embedding=True,
    )
    rows = [
        {"input_ids": source.tolist(), "labels": target.tolist()}
        for source, target in zip(sources, targets, strict=True)
    ]
    seen = [0]

    def collate(some: list[dict[str, list[int]]]) -> dict[str, Any]:
        source = torch.from_numpy(padded([np.array(each["input_ids"]) for each in some]))
        labels = torch.from_numpy(padded([np.array(each["labels"]) for each in some], value=-100))
        seen[0] = int((labels != -100).sum())
        read = torch.cat([torch.full((len(labels), 1), BEGIN), labels[:, :-1].clamp(min=PADDING)], dim=1)
        mask = (source != PADDING).long()
        return {"input_ids": source, "attention_mask": mask, "decoder_input_ids": read, "labels": labels}

    class Stop(TrainerCallback):
        def on_step_end(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = clock.over(seen[0])

    arguments = Seq2SeqTrainingArguments(
        output_dir=task["scratch"],
        per_device_train_batch_size=round(task["batch_tokens"] / np.mean([len(each) for each in targets])),
        train_sampling_strategy="group_by_length",
        learning_rate=1e-4,
        label_smoothing_factor=0.1,
        max_steps=100_000,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=task["precision"] == "bfloat16",
        disable_tqdm=True,
    )
    trainer = Seq2SeqTrainer(
        model=MarianMTModel(config), args=arguments, train_dataset=rows, data_collator=collate, callbacks=[Stop()]
    )
    trainer.train()


def ours(task: dict[str, Any], clock: Clock) -> None:
    """What `pellucid train` does in each update."""
    import torch

    from pellucid.data.batching import Encoded, Sentences
    from pellucid.data.stream import Stream
    from pellucid.model import ModelConfig, Transformer
    from pellucid.train.config import OptimConfig
    from pellucid.train.optim import adam
    from pellucid.train.process import keep_memory
    from pellucid.train.update import update

    keep_memory()
    with np.load(task["pairs"]) as found:
        sides = [Sentences(found[side], found[f"{side}_starts"]) for side in ("source", "target")]
    torch.manual_seed(1)
    vocabulary = task["vocabulary"]
    model = Transformer(ModelConfig(vocabulary, vocabulary, dropout=0.1, **task["size"])).train()
    c = OptimConfig()
    optimizer, stream = adam(model, c), Stream(Encoded(*sides), task["batch_tokens"], seed=1)
    while not clock.over(update(model, optimizer, [next(stream)], 1e-4, c, task["precision"]).target_tokens):
        pass


PEERS = {
    "pellucid": ours,
    "nn_transformer": nn_transformer,
    "x_transformers": x_transformers,
    "hugging_face": hugging_face,
}

if __name__ == "__main__":
    main()
