"""Run one row of benchmarks/translate.py in a process of its own: load an engine, time it, print one line of JSON.

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
"""Function of lines, beam (1 is greedy) and the number of sentences that the engine may take at a time."""

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MORE = 50
"""Number of pieces by which a translation may exceed its source, in all engines that have such a limit."""

LENGTH_PENALTY = 1.0
"""Unless a job says otherwise; each engine has a formula of its own."""

LAZY_LOADS: list[Callable[[], Any]] = []
"""Parts that an engine loads only when a sentence needs them; loaded after `ready`, before anything is timed."""


def main() -> None:
    """Measure the engine of the job; `started` is the `time.monotonic` at which this process was started."""
    job = json.loads(sys.argv[1])
    lines = Path(job["source"]).read_text(encoding="utf-8").split("\n")[:-1]
    beams = {"greedy": 1, "beam": job["beam"]}
    translate = ENGINES[job["engine"]](job)
    # Two sentences, so that loading that is put off until use is counted in `ready`.
    translate(lines[:2], 1, 2)
    result: dict[str, Any] = {"ready": time.monotonic() - job["started"]}
    for load in LAZY_LOADS:
        load()
    for search, beam in beams.items():
        result[search] = measure_batches(translate, lines, beam, job)
    # Before the single sentences, for which CTranslate2 loads a second translator.
    result["megabytes"] = peak_megabytes()
    for search, beam in beams.items():
        result[search] |= measure_latency(translate, lines[: job["single"]], beam)
    print(json.dumps(result))


def measure_batches(translate: Translate, lines: list[str], beam: int, job: dict[str, Any]) -> dict[str, Any]:
    """Measure sentences per second in batches of 32, and for all lines in batches that suit the engine; their texts."""
    # Not timed: the first batch of a size allocates memory.
    translate(lines[:32], beam, 32)
    result: dict[str, Any] = {"batches": measure_rate(translate, lines[: job["batched"]], beam, 32)[0]}
    if job["whole"]:
        result["whole"], result["texts"] = measure_rate(translate, lines, beam, job["batch"])
    return result


def measure_rate(
    translate: Translate, lines: list[str], beam: int, batch: int, least: float = 0.5
) -> tuple[float, list[str]]:
    """Return sentences per second over as many passes as take `least` seconds, and the texts."""
    start, translated, texts = time.perf_counter(), 0, []
    while (seconds := time.perf_counter() - start) < least:
        texts = translate(lines, beam, batch)
        translated += len(lines)
    return translated / seconds, texts


def measure_latency(translate: Translate, lines: list[str], beam: int) -> dict[str, float]:
    """Measure the milliseconds for one sentence: the median and the 95th percentile."""
    translate(lines[:1], beam, 1)
    durations = []
    for line in lines:
        start = time.perf_counter()
        translate([line], beam, 1)
        durations.append(1000 * (time.perf_counter() - start))
    return {"p50": statistics.median(durations), "p95": statistics.quantiles(durations, n=20)[-1]}


def peak_megabytes() -> float:
    """Return the most memory this process has held, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage begins with the memory of the parent process
        [line] = [
            status_line
            for status_line in status.read_text(encoding="utf-8").splitlines()
            if status_line.startswith("VmHWM")
        ]
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


# The engines


def load_hugging_face(job: dict[str, Any]) -> Translate:
    """Load a model of transformers."""
    from transformers import AutoModelForSeq2SeqLM

    return make_generate(job["model"], AutoModelForSeq2SeqLM.from_pretrained(job["model"]).eval())


def load_onnx(job: dict[str, Any]) -> Translate:
    """Load a model of ONNX Runtime."""
    from optimum.onnxruntime import ORTModelForSeq2SeqLM

    return make_generate(job["model"], ORTModelForSeq2SeqLM.from_pretrained(job["model"]))


def make_generate(directory: str, model: Any) -> Translate:
    """Make a function that calls `generate` with every core, sentences of similar length together."""
    import torch
    from transformers import AutoTokenizer

    torch.set_num_threads(CORES)
    tokenizer = AutoTokenizer.from_pretrained(directory)

    def translate(lines: list[str], beam: int, batch: int) -> list[str]:
        texts = [""] * len(lines)
        pieces = tokenizer(lines)["input_ids"]
        # By length, so that a batch has little padding; the longest first, which needs the most memory.
        order = sorted(range(len(lines)), key=lambda i: -len(pieces[i]))
        for start in range(0, len(order), batch):
            batch_indices = order[start : start + batch]
            inputs = tokenizer.pad({"input_ids": [pieces[i] for i in batch_indices]}, return_tensors="pt")
            with torch.inference_mode():
                ids = model.generate(
                    **inputs,
                    num_beams=beam,
                    do_sample=False,
                    length_penalty=LENGTH_PENALTY,
                    max_length=None,
                    max_new_tokens=inputs["input_ids"].shape[1] + MORE,
                )
            for i, text in zip(batch_indices, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
                texts[i] = text
        return texts

    return translate


def load_ctranslate2(job: dict[str, Any]) -> Translate:
    """Load CTranslate2 as its documentation shows, with SentencePiece and as many workers as the job says, or cores.

    A float32 sentence by itself is faster with all cores at work on it, an int8 one with a single core.
    """
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    source, target = (
        SentencePieceProcessor(model_file=f"{job['vocabulary']}/{side}.spm") for side in ("source", "target")
    )

    @cache
    def open_translator(workers: int, threads: int) -> Any:
        return ctranslate2.Translator(job["model"], device="cpu", inter_threads=workers, intra_threads=threads)

    workers, shortlist = job.get("workers", CORES), job.get("shortlist", False)
    penalty = job.get("length_penalty", LENGTH_PENALTY)
    many = open_translator(workers, CORES // workers)

    def translate(lines: list[str], beam: int, batch: int) -> list[str]:
        translator = open_translator(1, CORES) if len(lines) == 1 and not job["model"].endswith("int8") else many
        tokens = source.encode(lines, out_type=str)  # CTranslate2 adds the end of the sentence
        results = translator.translate_batch(
            tokens, beam_size=beam, max_batch_size=batch, use_vmap=shortlist, length_penalty=penalty
        )
        return [target.decode(result.hypotheses[0]) for result in results]

    return translate


def load_pellucid(job: dict[str, Any]) -> Translate:
    """Load a model with `pellucid.load`."""
    import pellucid

    model = pellucid.load(
        job["model"], job["precision"], job["engine"].removeprefix("pellucid "), exported=job["exported"]
    )

    penalty = job.get("length_penalty", LENGTH_PENALTY)
    LAZY_LOADS.append(lambda: model.translator.torch)

    def translate(lines: list[str], beam: int, batch: int) -> list[str]:
        method = "beam" if beam > 1 else "greedy"
        search = {"method": method, "beam": beam, "batch": batch, "length_penalty": penalty, "scores": False}
        translations = model.translate(lines, **search)
        return [translation.text for translation in translations]

    return translate


ENGINES = {
    "hugging_face": load_hugging_face,
    "onnx": load_onnx,
    "ctranslate2": load_ctranslate2,
    "pellucid torch": load_pellucid,
    "pellucid ctranslate2": load_pellucid,
}


if __name__ == "__main__":
    main()
