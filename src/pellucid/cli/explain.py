"""`pellucid explain`: one translation step by step, in the terminal or as one HTML file."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import (
    read_sentences,
    read_terms_and_memory,
    say_notes,
    write_report,
)
from pellucid.cli.options import (
    CONTEXT,
    JSON,
    LANGUAGE_TO_WRITE,
    MEMORY,
    MODEL,
    TERMS,
    argument,
    file_option,
    option,
    search_default,
    search_option,
)
from pellucid.cli.terminal import Terminal, escape_controls
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.decode.alignment import Links
    from pellucid.interpret.influence.word_influence import InfluentialPair, WordInfluence
    from pellucid.interpret.trace.session import Trace
    from pellucid.localize.translation_memory import TranslationMemory

EXPLAIN_EXAMPLES = """\
  pellucid explain runs/demo/best "The ball is blue."
  pellucid explain runs/demo/best "The ball is blue." --html ball.html
  pellucid explain runs/demo/best "The ball is blue." --html ball.html --keep weights
  pellucid explain runs/demo/best "The ball is blue." --target "La pelota es azul."
  pellucid explain runs/demo/best "The ball is blue." --because azul"""


def run_explain(
    model: Annotated[str, MODEL],
    sentence: Annotated[
        str,
        argument("SENTENCE", "the sentence to translate; - is standard input"),
    ],
    target: Annotated[
        str | None,
        option("explain this translation instead of searching for one", "TEXT"),
    ] = None,
    context: Annotated[str, CONTEXT] = "",
    terms: Annotated[str | None, TERMS] = None,
    memory: Annotated[str | None, MEMORY] = None,
    segment: Annotated[
        int | None,
        option(
            "show this part of a text that is translated in several; without it, the first",
            "N",
        ),
    ] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    html: Annotated[
        str | None,
        file_option("write the page and its numbers into this single file"),
    ] = None,
    keep: Annotated[
        str | None,
        option(
            "what the file keeps: attention patterns and every account (maps); all tensors, rounded to float16 or "
            "in full float32; or the weights too. By default float16, and maps where that would take more than 3 MB",
            "maps|float16|float32|weights",
        ),
    ] = None,
    because: Annotated[
        str | None,
        option("show the training pairs that taught this word of the translation", "WORD"),
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show every step of one translation, with its numbers.

    Show text, pieces and ids; the shape of every tensor; for each step which pieces were likely,
    which one was chosen and why it stopped; what each written word attends to; the beam and what it
    dropped; what adds to each logit; and the checks that these numbers passed. With --html the same
    and more becomes a page in one file, which opens without a network.

    With --because, show the training pairs that made one of its words likelier, and those that
    spoke against it, with file and line. They are found in two ways. "state": how alike the
    decoder's states are, from -1 to 1, below 0 where the pair wrote another piece from such a
    state. "gradient": how much training on the pair makes the word likelier, below 0 for less
    likely, summed over the run's checkpoints. Where both ways agree, trust them more. The model's
    training text must have been stored once, with `pellucid remember`.
    """
    from pellucid.api import load
    from pellucid.decode.request import SearchConfig
    from pellucid.interpret.page.html_file import (
        format_size,
        manifest_with_answers,
        require_keep_choice,
        save_html,
    )

    SearchConfig(beam=beam)
    require_writable(html)
    require_keep_choice(keep)
    if keep and not html:
        raise ValueError(f"--keep {keep} says what a file keeps; name one with --html FILE")

    lines = list(read_sentences("-")) if sentence == "-" else [sentence]
    if len(lines) != 1:
        raise ValueError(f"standard input has {len(lines):,} lines; explain takes one sentence")
    [line] = lines
    if because is not None:
        for name, given in (("--html", html), ("--terms", terms), ("--memory", memory)):
            if given:
                raise ValueError(f"--because and {name} exclude each other; ask for one at a time")
        found = load(model, target_language=language).find_influence(
            line, because, target=target, context=context, beam=beam, segment=segment
        )
        write_report(json, [found], _influence_lines(found, Terminal.of_stdout()))
        return

    if memory is not None and target is not None:
        raise ValueError("--memory and --target exclude each other: both say what the translation is")
    from pellucid.store.manifest_checks import read_languages

    loaded = load(model, target_language=language)
    terminology, units = read_terms_and_memory(terms, memory, read_languages(loaded.manifest))
    if units is not None:
        target, units = _look_up(line, loaded, units)
    trace = loaded.trace(
        line,
        target=target,
        beam=beam,
        context=context,
        segment=segment,
        terms=terminology,
        translation_memory=units,
    )
    if html:
        size = save_html(trace, html, keep, say=lambda words: typer.echo(words, err=True))
        typer.echo(f"{html}: {format_size(size)}", err=json)  # with --json, standard output is one object only

    if json or not html:
        write_report(json, map(manifest_with_answers, [trace]), walk_lines(trace))


def _look_up(line: str, model: "Model", units: "TranslationMemory") -> "tuple[str | None, TranslationMemory | None]":
    """Return what a memory has for a line: its translation, or itself, if the model reads a similar unit.

    A note says what was found, and what becomes of it.
    """
    match = units.find(line)
    if match is None:
        note, found = "the memory has no unit like this sentence", (None, None)
    elif match.is_exact:
        note, found = f"{match.place} is this sentence, so its translation is explained", (match.target, None)
    elif model.translator.memory_mark is None:
        note, found = f"{match.place} is similar, which this model cannot use (data.memory = 0)", (None, None)
    else:
        note, found = f"{match.place} is similar, and is read before the sentence", (None, units)
    say_notes([note])
    return found


def walk_lines(trace: "Trace") -> Iterator[str]:
    """Return the lines of the walk through a trace, fitted to the terminal."""
    from pellucid.cli.walk import walk_trace
    from pellucid.interpret.page.html_file import manifest_with_answers

    return walk_trace(
        manifest_with_answers(trace),
        trace.tensor,
        _align_trace(trace),
        Terminal.of_stdout(),
    )


def _align_trace(trace: "Trace") -> "Links":
    """Return the links between source words and words of the translation."""
    from pellucid.data.text.word_pieces import words_without_punctuation
    from pellucid.data.tokenizer import strip_eos
    from pellucid.decode.alignment import link_words, piece_alignments

    # A second pass over the sentence, so that the links are the same as with `translate
    # --alignments`.
    [norms] = piece_alignments(trace.model, [trace.source.ids], [trace.target.ids])
    words_of_sides = []
    for side in (trace.source, trace.target):
        pieces = side.pieces[: len(strip_eos(side.ids))]
        words_of_sides.append(words_without_punctuation(pieces, side.text))
    return link_words(norms, *words_of_sides)


def _influence_lines(found: "WordInfluence", terminal: Terminal) -> Iterator[str]:
    """Yield the pairs for a word and against it, and how far the two ways that found them agree."""
    yield f"{escape_controls(found.source)} → {escape_controls(found.translation)}"
    yield (
        f"{terminal.bold(escape_controls(found.word))} was decided at its piece {escape_controls(found.piece)}, which "
        f"had a probability of {found.probability:.3f}."
    )

    for title, pairs in (("made it likelier", found.because), ("spoke against it", found.against)):
        yield ""
        yield f"Training pairs that {title}" + ("" if pairs else ": none among those looked at")
        for pair in pairs:
            yield from _pair_lines(pair, terminal)

    agreement, steps = found.agreement, len(found.steps)
    yield ""
    yield (
        f"Of {found.candidates:,} pairs with states like this one, both ways have {agreement.both_on_top} of their "
        f"first {agreement.of} in common; their rank correlation is {agreement.rank_correlation:.2f}."
    )
    models = "the model itself" if not steps else "1 checkpoint" if steps == 1 else f"{steps} checkpoints"
    yield terminal.dim(f"state: how like the state is from which it was written; gradient: influence, by {models}")


def _pair_lines(pair: "InfluentialPair", terminal: Terminal) -> Iterator[str]:
    """Yield the place of a pair with its numbers, and both of its sentences with the word and what it translates."""
    place = escape_controls(f"{Path(pair.file).name}:{pair.line}")
    yield terminal.dim(f"  {place}  state {pair.state:+.3f}  gradient {pair.gradient:+.4f}")
    yield f"    {_mark_words(pair.source, pair.source_words, terminal)}"
    yield f"    {_mark_words(pair.target, (pair.word,), terminal)}" + (" [end]" if pair.word < 0 else "")


def _mark_words(text: str, marked: Collection[int], terminal: Terminal) -> str:
    """Return a text with some words in bold or, where there are no colours, in brackets."""
    words = [escape_controls(word) for word in text.split()]
    for i in marked:
        if 0 <= i < len(words):
            words[i] = terminal.bold(words[i]) if terminal.colour else f"[{words[i]}]"
    return " ".join(words)
