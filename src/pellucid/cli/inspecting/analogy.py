"""`pellucid inspect analogy`: king - man + woman, in this model's own vectors."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import name_file_in_errors, read_sentences, write_lines
from pellucid.cli.inspecting.output import JSON, write_objects, write_table
from pellucid.cli.inspecting.similar import SIDE
from pellucid.cli.options import MODEL

if TYPE_CHECKING:
    from pellucid.inspect.analogies import Accuracy, Analogy, SignedWord
    from pellucid.inspect.embeddings import Embeddings, SpelledWord

EXAMPLES = """\
  pellucid inspect analogy runs/demo/best king - man + woman
  pellucid inspect analogy runs/demo/best king man woman --expect queen
  pellucid inspect analogy runs/demo/best --file analogies.txt --json"""


def run(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD...]", help="king - man + woman, or three words a b c for a - b + c"),
    ] = None,
    expect: Annotated[
        str | None, typer.Option(metavar="WORD", help="the answer hoped for: where does it stand?")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="analogies to count, one a line: king - man + woman = queen, or man king woman queen"
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-k", help="answers shown")] = 5,
    side: Annotated[str, SIDE] = "source",
    seed: Annotated[int, typer.Option(help="of the tables of random numbers")] = 1,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Sums and differences of word vectors: king - man + woman.

    The answers are the nearest pieces, once with the words of the question left out, as published analogies do, and
    once with them. With --expect, and with --file, the answer is compared with tables of random numbers.
    """
    from pellucid.bundle import load_bundle
    from pellucid.inspect.analogies import can_be_asked, measure_accuracy, parse_question, solve_analogy
    from pellucid.inspect.embeddings import embedding_table

    if bool(words) == (file is not None):
        raise ValueError("give the words of one analogy, such as king - man + woman, or a file of them with --file")
    if file is not None and expect is not None:
        raise ValueError("each line of a file names its own answer; leave --expect out")
    table = embedding_table(load_bundle(model), side)
    if file is not None:
        with name_file_in_errors(file):
            every = list(read_questions(file, table))
            questions = [each for each in every if can_be_asked(*each)]
            found = measure_accuracy(table, questions, seed=seed)
        left_out = len(every) - len(questions)
        if json:
            write_objects([{**vars(found), "left_out": left_out, "verdict": found.verdict}])
        else:
            write_lines(accuracy_lines(found, left_out))
        return
    expected = None if expect is None else table.word(expect)
    answer = solve_analogy(table, parse_question(words or [], table), expected, count=count)
    if json:
        write_objects([{"question": answer.question, **vars(answer), "verdict": answer.verdict}])
    else:
        write_analogy(answer)


def read_questions(file: str, table: "Embeddings") -> "Iterator[tuple[tuple[SignedWord, ...], SpelledWord]]":
    """The analogies of a file; lines that begin with : or #, and blank ones, are titles."""
    from pellucid.inspect.analogies import parse_question

    for number, line in enumerate(read_sentences(file), start=1):
        if not line.strip() or line.startswith((":", "#")):
            continue
        question, equals, answer = line.partition("=")
        words = question.split() if equals else line.split()[:3]
        wanted = answer.split() if equals else line.split()[3:]
        if len(wanted) != 1:
            raise ValueError(f"line {number} is {line[:60]!r}; write the analogy as: king - man + woman = queen")
        try:
            # Without signs a line has the order of the published lists: man king woman queen.
            signed = words if equals else [words[1], "-", words[0], "+", words[2]]
            yield parse_question(signed, table), table.word(wanted[0])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def accuracy_lines(found: "Accuracy", left_out: int) -> Iterator[str]:
    """What came of a file."""
    yield f"{found.right:,} of {found.count:,} come out, the words of the question left out"
    yield f"{found.right_with_inputs:,} with the words of the question let in"
    if left_out:
        yield f"{left_out:,} left out: their answer shares a piece with the question"
    yield found.verdict


def write_analogy(answer: "Analogy") -> None:
    """The answers side by side, and what they amount to."""
    write_lines([answer.question, *(f"  {term.word.text}: {term.word.spelled}" for term in answer.terms), ""])
    rows = [["", "without its words", "cosine", "with them", "cosine"]]
    pairs = zip(answer.answers, answer.answers_with_inputs, strict=False)
    for place, (without, among) in enumerate(pairs, start=1):
        rows.append([str(place), without.piece, f"{without.cosine:.3f}", among.piece, f"{among.cosine:.3f}"])
    write_table(rows, "rlrlr", indent="  ")
    write_lines(["", answer.verdict])
