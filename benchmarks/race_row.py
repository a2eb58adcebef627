"""Train one contestant of benchmarks/race.py in a process of its own, and print its time and what it translates.

    python -m benchmarks.race_row TASK.json

It runs in the virtual environment of the peer, which need not have Pellucid. Seconds are processor seconds of the
process, from its start, with all imports, to the last update; translating comes after that and does not count.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.train_row import (
    BEGIN,
    BETAS,
    CLIP,
    END,
    PADDING,
    Logits,
    Plain,
    collate_examples,
    make_batches,
    make_examples,
    make_marian,
    make_x_transformers,
    pad,
    run_eole,
    sentences_of_batch,
    shift_right,
)

DECAY = 0.01
"""Weight decay of Muon in the loops; the learning rate is scaled as for AdamW."""


def main() -> None:
    """Train as the task says, translate its dev sentences greedily, and print both."""
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    torch.manual_seed(task["seed"])
    if task["peer"] == "eole":
        model, logits = train_with_eole(task)
    else:
        model, logits = MODELS[task["peer"]](task)
        train = train_with_trainer if task["peer"] == "hugging_face" else train_in_loop
        train(task, model, logits)
    seconds = time.process_time()
    model.eval()
    with torch.inference_mode():
        outputs = translate_greedily(logits, task["dev"])
    print(json.dumps({"seconds": seconds, "outputs": outputs}))


def make_plain(task: dict[str, Any]) -> tuple[nn.Module, Logits]:
    """Return `torch.nn.Transformer` with embeddings, and what gives its logits."""
    model = Plain(task["vocabulary"], task["size"], task["dropout"])
    return model, model


MODELS = {
    "nn_transformer": make_plain,
    "x_transformers": lambda task: make_x_transformers(task, task["dropout"]),
    "hugging_face": lambda task: make_marian(task, task["dropout"]),
}


def train_in_loop(task: dict[str, Any], model: nn.Module, logits: Logits) -> None:
    """Train in the loop of tutorials, with a warm-up and a learning rate that falls to zero at the end."""
    optimizers = list(make_optimizers(task, model))
    schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, rate_factor(task)) for optimizer in optimizers]
    model.train()
    for _, (source, target) in zip(range(task["updates"]), make_batches(task), strict=False):
        with torch.autocast("cpu", torch.bfloat16, enabled=task["precision"] == "bfloat16"):
            scores = logits(source, shift_right(target))
            loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=PADDING, label_smoothing=0.1)
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for each in (*optimizers, *schedules):
            each.step()


def count_warmup(task: dict[str, Any]) -> int:
    """Return the updates until the learning rate is at its peak, a quarter of a short run."""
    return min(task["warmup"], task["updates"] // 4)


def rate_factor(task: dict[str, Any]) -> Any:
    """Return the function from the number of an update to the share of the peak that its learning rate is.

    >>> factor = rate_factor({"updates": 400, "warmup": 100})
    >>> factor(49), factor(99), factor(249)
    (0.5, 1.0, 0.5)
    """
    updates, warmup = task["updates"], count_warmup(task)
    return lambda n: min((n + 1) / warmup, (updates - n - 1) / (updates - warmup))


def make_optimizers(task: dict[str, Any], model: nn.Module) -> Iterator[torch.optim.Optimizer]:
    """Yield Adam for all weights; or PyTorch's Muon for the matrices inside the layers and Adam for the rest."""
    rest = dict(model.named_parameters())
    if task["optimizer"] == "muon":
        names = [name for name, value in rest.items() if value.ndim == 2 and len(value) != task["vocabulary"]]
        matrices = [rest.pop(name) for name in names]
        yield torch.optim.Muon(matrices, lr=task["rate"], weight_decay=DECAY, adjust_lr_fn="match_rms_adamw")
    yield torch.optim.Adam(rest.values(), lr=task["rate"], betas=BETAS, fused=True)


def train_with_trainer(task: dict[str, Any], model: Any, _: Logits) -> None:
    """Train with `Seq2SeqTrainer`: with its own settings, or with those that the loops have, and groups by length."""
    from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

    sentences = sentences_of_batch(task)
    settings: dict[str, Any] = {"max_steps": task["updates"]}
    if task["rate"]:
        settings |= {
            "per_device_train_batch_size": sentences,
            "train_sampling_strategy": "group_by_length",
            "label_smoothing_factor": 0.1,
            "learning_rate": task["rate"],
            "warmup_steps": count_warmup(task),
            "adam_beta2": BETAS[1],
        }
    else:
        # With its own settings a batch is 8 sentences: as many sentences in all, then.
        settings["max_steps"] = round(task["updates"] * sentences / 8)
    arguments = Seq2SeqTrainingArguments(
        output_dir=task["scratch"],
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=task["precision"] == "bfloat16",
        disable_tqdm=True,
        seed=task["seed"],
        **settings,
    )
    examples = make_examples(task)
    Seq2SeqTrainer(model=model, args=arguments, train_dataset=examples, data_collator=collate_examples).train()


def train_with_eole(task: dict[str, Any]) -> tuple[nn.Module, Logits]:
    """Train with `eole train`; its learning rate rises and then falls to zero along a cosine, the nearest it has."""
    trainers = []
    settings = {
        "train_steps": task["updates"],
        "learning_rate": task["rate"],
        "decay_method": "cosine",
        "warmup_steps": count_warmup(task),
        "dropout": [task["dropout"]],
    }
    run_eole(task, settings, lambda trainer, _: trainers.append(trainer))
    model, tokens = trainers[-1].model, trainers[-1].train_loss.vocabs["tgt"].tokens_to_ids
    words = ["<blank>", "<unk>", "<s>", "</s>", *(f"w{n}" for n in range(END + 1, task["vocabulary"]))]
    ids = torch.tensor([tokens[word] for word in words])

    def logits(source: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        # Its sources have no end token; it leaves the last token of the target away, and takes at least two others.
        source = source.masked_fill(source == END, PADDING)
        lengths = (source != PADDING).sum(dim=1)
        target = F.pad(ids[read], (0, 2), value=int(ids[PADDING]))
        with torch.autocast("cpu", torch.bfloat16, enabled=task["precision"] == "bfloat16"):
            states = model(ids[source], target, lengths).dec_out[:, : read.shape[1]]
            return model.generator(states)[..., ids]

    return model, logits


def translate_greedily(logits: Logits, sentences: list[list[int]], at_once: int = 64) -> list[list[int]]:
    """Return the most probable piece at each place until the end token, at most 1.5 times the source and 10 pieces."""
    outputs: list[list[int]] = [[] for _ in sentences]
    order = sorted(range(len(sentences)), key=lambda n: len(sentences[n]))
    for start in range(0, len(order), at_once):
        group = order[start : start + at_once]
        source = torch.from_numpy(pad([np.array(sentences[n]) for n in group]))
        read = torch.full((len(group), 1), BEGIN)
        ended = torch.zeros(len(group), dtype=torch.bool)
        for _ in range(source.shape[1] * 3 // 2 + 10):
            best = logits(source, read)[:, -1].argmax(dim=-1)
            read = torch.cat([read, best[:, None]], dim=1)
            ended |= best == END
            if ended.all():
                break
        for n, ids in zip(group, read[:, 1:].tolist(), strict=True):
            outputs[n] = ids[: ids.index(END)] if END in ids else ids
    return outputs


if __name__ == "__main__":
    main()
