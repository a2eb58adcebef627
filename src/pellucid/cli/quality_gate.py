"""An export that changes what is written, measured before it is handed over."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.evaluate.quality_gate import GateVerdict

GATE_BEAM = 4
PAIRS_FOR_COSTS = 200
"""Sentence pairs the parts of a refused model are measured on, each part by itself."""

COSTS_SHOWN = 5

DevPairs = tuple[list[str], list[str]]


def judge_forms(
    found: "Bundle", folder: Path, precision: str, vmap: Path | None, dev: DevPairs
) -> dict[str, "GateVerdict"]:
    """The dev sentences translated in float32 and in `precision`, with and without the shortlist, and compared."""
    from pellucid.evaluate.quality_gate import judge_smaller_model
    from pellucid.interop.ctranslate2 import convert_to_ctranslate2

    full, small = folder / "full", folder / "small"
    convert_to_ctranslate2(found.model, found.tokenizer, full, "float32")
    convert_to_ctranslate2(found.model, found.tokenizer, small, precision, vmap=vmap)
    texts, lowercase = translate_converted(found, full, dev[0]), found.tokenizer.lowercase
    forms = {precision: False} if precision != "float32" else {}
    if vmap:
        forms[f"{precision}, shortlist"] = True
    return {
        name: judge_smaller_model(texts, translate_converted(found, small, dev[0], shortlist), dev[1], lowercase)
        for name, shortlist in forms.items()
    }


def translate_converted(found: "Bundle", directory: Path, lines: Sequence[str], shortlist: bool = False) -> list[str]:
    """What a converted model writes by CTranslate2 alone, as it will elsewhere; blank lines stay blank."""
    from pellucid.decode.config import SearchConfig
    from pellucid.decode.ctranslate2_engine import count_processors, load_translator

    tokenizer = found.tokenizer
    sources = tokenizer.encode_source(lines)
    results = load_translator(directory, count_processors(), 1).translate_batch(
        [tokenizer.source_pieces(source) for source in sources],
        beam_size=GATE_BEAM,
        max_batch_size=32,
        max_input_length=0,
        max_decoding_length=min(found.model.config.max_positions, max(map(len, sources)) + SearchConfig.max_extra),
        use_vmap=shortlist,
    )
    ids = {piece: i for i, piece in enumerate(tokenizer.target_names)}
    texts = (tokenizer.decode_target([ids[piece] for piece in each.hypotheses[0]]) for each in results)
    return [text if line.strip() else "" for line, text in zip(lines, texts, strict=True)]


def gate_table(seen: Mapping[str, "GateVerdict"]) -> list[str]:
    """A row for each form of the model."""
    first = next(iter(seen.values()))
    rows = [("float32", first.chrf_full, first.repetition_full)]
    rows += [(name, each.chrf_small, each.repetition_small) for name, each in seen.items()]
    return [
        f"{first.sentences:,} dev sentences, beam {GATE_BEAM}:",
        *(f"  {name:20} chrF {chrf:6.2f}, {loops:.2%} run in a loop" for name, chrf, loops in rows),
    ]


def refuse_failed_forms(found: "Bundle", precision: str, seen: Mapping[str, "GateVerdict"], dev: DevPairs) -> None:
    """ValueError if a form of the model did not pass, with the parts that cost most."""
    refused = {name: verdict for name, verdict in seen.items() if not verdict.passed}
    if not refused:
        return
    reasons = [f"{name}: {' and '.join(verdict.reasons)}" for name, verdict in refused.items()]
    if precision == "int8" and precision in refused:
        shown = ", ".join(f"{name} {cost:+.3f}" for name, cost in rank_costs(found, dev)[:COSTS_SHOWN])
        reasons.append(f"what costs most, in log-probability a piece when it alone is int8: {shown}")
    advice = "take --precision bfloat16 or float32" if precision in refused else "leave the shortlist out"
    raise ValueError(f"refused; {'; '.join(reasons)}; {advice}, or --no-gate to have it as it is")


def rank_costs(found: "Bundle", dev: DevPairs) -> list[tuple[str, float]]:
    """Each part of the model, with the log-probability a piece of the references that int8 there takes away."""
    from pellucid.decode.translate import Translator
    from pellucid.interop.int8 import rank_int8_losses

    step = -(-len(dev[0]) // PAIRS_FOR_COSTS)
    sources, targets = dev[0][::step], dev[1][::step]
    translator = Translator(found.model, found.tokenizer)

    def loss() -> float:
        scores = translator.score(sources, targets, batch=64)
        return -sum(each.log_prob for each in scores) / sum(len(each.per_piece) for each in scores)

    return rank_int8_losses(found.model, loss)


def refuse_long_dev_pairs(found: "Bundle", dev: DevPairs, files: tuple[str, str]) -> None:
    """ValueError for sentences with more pieces than the model takes, before minutes are spent."""
    tokenizer, most = found.tokenizer, found.model.config.max_positions
    for file, encoded in zip(files, (tokenizer.encode_source(dev[0]), tokenizer.encode_target(dev[1])), strict=True):
        for number, ids in enumerate(encoded, start=1):
            if len(ids) > most:
                raise ValueError(
                    f"{file}:{number} has {len(ids):,} pieces, this model takes {most:,}; leave the line out"
                )
