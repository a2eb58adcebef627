"""The quality gate of an export: what changes translations is measured on dev sentences before it is written."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.evaluate.scores import GateVerdict
    from pellucid.store.directory import Bundle

_GATE_BEAM = 4
_PAIRS_FOR_COSTS = 200
"""Sentence pairs that measure the cost of int8 in each part of a refused model."""

_COSTS_SHOWN = 5  # in the message that refuses a model

# Dev sentences and their references, line by line.
DevPairs = tuple[list[str], list[str]]


def judge_forms(
    bundle: "Bundle", folder: Path, precision: str, vmap: Path | None, dev: DevPairs
) -> dict[str, "GateVerdict"]:
    """Return a verdict for each smaller form: its translations of the dev sentences beside those in float32."""
    from pellucid.evaluate.scores import judge_smaller_model
    from pellucid.interop.ctranslate2 import convert_to_ctranslate2

    # Both sides run in CTranslate2, so that the precision, or the shortlist, is all that differs.
    full, small = folder / "full", folder / "small"
    convert_to_ctranslate2(bundle.model, bundle.tokenizer, full, "float32")
    convert_to_ctranslate2(bundle.model, bundle.tokenizer, small, precision, vmap=vmap)
    texts, lowercase = translate_converted(bundle, full, dev[0]), bundle.tokenizer.lowercase
    # Form name: with the shortlist? Float32 without one is the side that the others are compared with.
    forms = {precision: False} if precision != "float32" else {}
    if vmap:
        forms[f"{precision}, shortlist"] = True
    return {
        name: judge_smaller_model(texts, translate_converted(bundle, small, dev[0], shortlist), dev[1], lowercase)
        for name, shortlist in forms.items()
    }


def translate_converted(bundle: "Bundle", directory: Path, lines: Sequence[str], shortlist: bool = False) -> list[str]:
    """Return what a converted model writes in CTranslate2 alone, as in other programs; blank lines stay blank."""
    from pellucid.decode.config import SearchConfig
    from pellucid.decode.ctranslate2_engine import count_processors, load_translator

    tokenizer = bundle.tokenizer
    sources = tokenizer.encode_source(lines)
    results = load_translator(directory, count_processors(), 1).translate_batch(
        [tokenizer.source_pieces(source) for source in sources],
        beam_size=_GATE_BEAM,
        max_batch_size=32,
        max_input_length=0,  # no limit: otherwise CTranslate2 cuts long sentences without a word
        # One limit for all sentences, the longest one's; in Pellucid's own search it follows each source.
        max_decoding_length=min(bundle.model.config.max_positions, max(map(len, sources)) + SearchConfig.max_extra),
        use_vmap=shortlist,
    )
    ids = {piece: i for i, piece in enumerate(tokenizer.target_names)}
    texts = (tokenizer.decode_target([ids[piece] for piece in result.hypotheses[0]]) for result in results)
    return [text if line.strip() else "" for line, text in zip(lines, texts, strict=True)]


def gate_table(verdicts: Mapping[str, "GateVerdict"]) -> list[str]:
    """Return a line for each form of the model: its chrF and its share of translations that run in a loop."""
    first = next(iter(verdicts.values()))
    rows = [("float32", first.chrf_full, first.repetition_full)]
    rows += [(name, verdict.chrf_small, verdict.repetition_small) for name, verdict in verdicts.items()]
    return [
        f"{first.sentences:,} dev sentences, beam {_GATE_BEAM}:",
        *(f"  {name:20} chrF {chrf:6.2f}, {loops:.2%} run in a loop" for name, chrf, loops in rows),
    ]


def refuse_failed_forms(bundle: "Bundle", precision: str, verdicts: Mapping[str, "GateVerdict"], dev: DevPairs) -> None:
    """Raise ValueError if a form of the model did not pass, naming for int8 the parts that cost most."""
    refused = {name: verdict for name, verdict in verdicts.items() if not verdict.passed}
    if not refused:
        return
    reasons = [f"{name}: {' and '.join(verdict.reasons)}" for name, verdict in refused.items()]
    if precision == "int8" and precision in refused:  # not if only the shortlist failed
        costliest = ", ".join(f"{name} {cost:+.3f}" for name, cost in _rank_costs(bundle, dev)[:_COSTS_SHOWN])
        reasons.append(
            f"the parts that cost most, in log-probability per piece when only this part is int8: {costliest}"
        )
    advice = "use --precision bfloat16 or float32" if precision in refused else "leave the shortlist out"
    raise ValueError(f"refused; {'; '.join(reasons)}; {advice}, or use --no-gate to export it all the same")


def _rank_costs(bundle: "Bundle", dev: DevPairs) -> list[tuple[str, float]]:
    """Return each part of the model with the log-probability per reference piece that int8 there costs."""
    from pellucid.decode.translate import Translator
    from pellucid.interop.int8 import rank_int8_losses

    # Each part needs a pass over all pairs, so a sample spread over the dev set has to do.
    step = -(-len(dev[0]) // _PAIRS_FOR_COSTS)
    sources, targets = dev[0][::step], dev[1][::step]
    translator = Translator(bundle.model, bundle.tokenizer)

    def loss() -> float:
        scores = translator.score(sources, targets, batch=64)
        return -sum(score.log_prob for score in scores) / sum(len(score.per_piece) for score in scores)

    return rank_int8_losses(bundle.model, loss)


def refuse_long_dev_pairs(bundle: "Bundle", dev: DevPairs, files: tuple[str, str]) -> None:
    """Raise ValueError for a dev sentence that has more pieces than the model takes, before anything is translated."""
    tokenizer, max_positions = bundle.tokenizer, bundle.model.config.max_positions
    for file, encoded in zip(files, (tokenizer.encode_source(dev[0]), tokenizer.encode_target(dev[1])), strict=True):
        for number, ids in enumerate(encoded, start=1):
            if len(ids) > max_positions:
                raise ValueError(
                    f"{file}:{number} has {len(ids):,} pieces, this model takes {max_positions:,}; leave the line out"
                )
