"""One row of benchmarks/translate.py, in a process of its own: load an engine, time it, print one line of JSON.

    python benchmarks/translate_row.py '{"engine": "ctranslate2", "model": ..., "source": ..., ...}'

It runs in the virtual environment of the engine, which need not have Pellucid: only the standard library at the top.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

Translate = Callable[[list[str], int, int], list[str]]
"""Lines, beam (1 is greedy), and how many sentences the engine may take at a time."""

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MORE = 50
"""Pieces a translation may have more than its source, in all engines that can be told so."""

PUT_OFF: list[Callable[[], Any]] = []
"""What an engine loads only when some sentence needs it; done after `ready` and before anything is timed."""


def main() -> None:
    """`started` of the job is when the process was started, by `time.monotonic` of the one that did."""
    job = json.loads(sys.argv[1])
    lines = Path(job["source"]).read_text(encoding="utf-8").split("\n")[:-1]
    beams = {"greedy": 1, "beam": job["beam"]}
    translate = ENGINES[job["engine"]](job)
    translate(lines[:2], 1, 2)
    result: dict[str, Any] = {"ready": time.monotonic() - job["started"]}
    for load in PUT_OFF:
        load()
    for search, beam in beams.items():
        result[search] = together(translate, lines, beam, job)
    result["megabytes"] = peak_megabytes()
    for search, beam in beams.items():
        result[search] |= one_by_one(translate, lines[: job["single"]], beam)
    print(json.dumps(result))


def together(translate: Translate, lines: list[str], beam: int, job: dict[str, Any]) -> dict[str, Any]:
    """Sentences a second in batches of 32, and for all lines in the batches that suit the engine; their texts."""
    translate(lines[:32], beam, 32)
    found: dict[str, Any] = {"batches": rate(translate, lines[: job["batched"]], beam, 32)[0]}
    if job["whole"]:
        found["whole"], found["texts"] = rate(translate, lines, beam, job["batch"])
    return found


def rate(translate: Translate, lines: list[str], beam: int, batch: int, least: float = 0.5) -> tuple[float, list[str]]:
    """Sentences a second, text to text, over as many passes as take `least` seconds; the texts."""
    begun, done, texts = time.perf_counter(), 0, []
    while (seconds := time.perf_counter() - begun) < least:
        texts = translate(lines, beam, batch)
        done += len(lines)
    return done / seconds, texts


def one_by_one(translate: Translate, lines: list[str], beam: int) -> dict[str, float]:
    """Milliseconds from text to text for one sentence, half and 95 % of them."""
    translate(lines[:1], beam, 1)
    spent = []
    for line in lines:
        begun = time.perf_counter()
        translate([line], beam, 1)
        spent.append(1000 * (time.perf_counter() - begun))
    return {"p50": statistics.median(spent), "p95": statistics.quantiles(spent, n=20)[-1]}


def peak_megabytes() -> float:
    """The most memory this process has held, in RAM."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says there begins with the memory of the process that started this one
        [line] = [each for each in status.read_text(encoding="utf-8").splitlines() if each.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


# The engines


def hugging_face(job: dict[str, Any]) -> Translate:
    """A model of transformers."""
    from transformers import AutoModelForSeq2SeqLM

    return by_generate(job["model"], AutoModelForSeq2SeqLM.from_pretrained(job["model"]).eval())


def onnx(job: dict[str, Any]) -> Translate:
    """The same, run by ONNX Runtime."""
    from optimum.onnxruntime import ORTModelForSeq2SeqLM

    return by_generate(job["model"], ORTModelForSeq2SeqLM.from_pretrained(job["model"]))


def by_generate(directory: str, model: Any) -> Translate:
    """`generate` with every core, sentences of about one length together."""
    import torch
    from transformers import AutoTokenizer

    torch.set_num_threads(CORES)
    tokenizer = AutoTokenizer.from_pretrained(directory)

    def translate(lines: list[str], beam: int, batch: int) -> list[str]:
        texts = [""] * len(lines)
        pieces = tokenizer(lines)["input_ids"]
        order = sorted(range(len(lines)), key=lambda i: -len(pieces[i]))
        for at in range(0, len(order), batch):
            some = order[at : at + batch]
            given = tokenizer.pad({"input_ids": [pieces[i] for i in some]}, return_tensors="pt")
            with torch.inference_mode():
                ids = model.generate(
                    **given,
                    num_beams=beam,
                    do_sample=False,
                    length_penalty=1.0,
                    max_length=None,
                    max_new_tokens=given["input_ids"].shape[1] + MORE,
                )
            for i, text in zip(some, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
                texts[i] = text
        return texts

    return translate


def ctranslate2_api(job: dict[str, Any]) -> Translate:
    """As its documentation shows: SentencePiece, `translate_batch`, SentencePiece; a worker for each core.

    A float32 sentence by itself is faster with all cores at work on it, an int8 one with a single core.
    """
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    source, target = (
        SentencePieceProcessor(model_file=f"{job['vocabulary']}/{side}.spm") for side in ("source", "target")
    )

    @cache
    def opened(workers: int, threads: int) -> Any:
        return ctranslate2.Translator(job["model"], device="cpu", inter_threads=workers, intra_threads=threads)

    many = opened(CORES, 1)

    def translate(lines: list[str], beam: int, batch: int) -> list[str]:
        translator = opened(1, CORES) if len(lines) == 1 and not job["model"].endswith("int8") else many
        tokens = source.encode(lines, out_type=str, add_eos=True)
        results = translator.translate_batch(tokens, beam_size=beam, max_batch_size=batch)
        return [target.decode(each.hypotheses[0]) for each in results]

    return translate


def pellucid_load(job: dict[str, Any]) -> Translate:
    """`pellucid.load` and `translate`."""
    import pellucid

    model = pellucid.load(
        job["model"], job["precision"], job["engine"].removeprefix("pellucid "), exported=job["exported"]
    )

    PUT_OFF.append(lambda: model.translator.torch)

    def translate(lines: list[str], beam: int, batch: int) -> list[str]:
        method = "beam" if beam > 1 else "greedy"
        search = {"method": method, "beam": beam, "batch": batch, "length_penalty": 1.0, "scores": False}
        found = model.translate(lines, **search)
        return [each.text for each in found]

    return translate


ENGINES = {
    "hugging_face": hugging_face,
    "onnx": onnx,
    "ctranslate2": ctranslate2_api,
    "pellucid torch": pellucid_load,
    "pellucid ctranslate2": pellucid_load,
}


if __name__ == "__main__":
    main()
