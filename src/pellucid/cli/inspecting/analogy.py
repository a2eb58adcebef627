"""`pellucid inspect analogy`: sums and differences of a model's word vectors, such as king - man + woman."""

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
        typer.Argument(
            metavar="[WORD...]", help="words of the analogy: king - man + woman, or three words a b c for a - b + c"
        ),
    ] = None,
    expect: Annotated[
        str | None, typer.Option(metavar="WORD", help="expected answer; shows its rank among all answers")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="count how many analogies come out; one per line: king - man + woman = queen, or man king woman queen",
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-k", help="number of answers to show")] = 5,
    side: Annotated[str, SIDE] = "source",
    seed: Annotated[int, typer.Option(help="random seed of the tables of random numbers")] = 1,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Add and subtract word vectors: king - man + woman.

    The answers are the nearest pieces, once without the words of the question, as in published analogies, and once
    with them. With --expect or --file, the result is compared with tables of random numbers.
    """
    from pellucid.inspect.analogies import can_be_asked, measure_accuracy, parse_question, solve_analogy
    from pellucid.inspect.embeddings import embedding_table
    from pellucid.store.directory import load_bundle

    if bool(words) == (file is not None):
        raise ValueError("give the words of one analogy, such as king - man + woman, or a file of them with --file")
    if file is not None and expect is not None:
        raise ValueError("each line of a file names its own answer; leave --expect out")
    table = embedding_table(load_bundle(model), side)
    if file is not None:
        with name_file_in_errors(file):
            all_questions = list(read_questions(file, table))
            questions = [question for question in all_questions if can_be_asked(*question)]
            accuracy = measure_accuracy(table, questions, seed=seed)
        left_out = len(all_questions) - len(questions)
        if json:
            write_objects([{**vars(accuracy), "left_out": left_out, "verdict": accuracy.verdict}])
        else:
            write_lines(accuracy_lines(accuracy, left_out))
        return
    expected = None if expect is None else table.word(expect)
    answer = solve_analogy(table, parse_question(words or [], table), expected, count=count)
    if json:
        write_objects([{"question": answer.question, **vars(answer), "verdict": answer.verdict}])
    else:
        write_analogy(answer)


def read_questions(file: str, table: "Embeddings") -> "Iterator[tuple[tuple[SignedWord, ...], SpelledWord]]":
    """Yield the analogies of a file; blank lines and titles, which begin with : or #, are skipped."""
    from pellucid.inspect.analogies import parse_question

    for number, line in enumerate(read_sentences(file), start=1):
        if not line.strip() or line.startswith((":", "#")):
            continue
        question, equals, answer = line.partition("=")
        # Two forms: with = and signs, or the four bare words of published lists.
        words = question.split() if equals else line.split()[:3]
        answer_words = answer.split() if equals else line.split()[3:]
        if len(answer_words) != 1:
            raise ValueError(f"line {number} is {line[:60]!r}; write the analogy as: king - man + woman = queen")
        try:
            # Without signs a line has the order of the published lists: man king woman queen.
            signed = words if equals else [words[1], "-", words[0], "+", words[2]]
            yield parse_question(signed, table), table.word(answer_words[0])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def accuracy_lines(accuracy: "Accuracy", left_out: int) -> Iterator[str]:
    """Yield lines on how many analogies of a file come out."""
    yield f"{accuracy.right:,} of {accuracy.count:,} come out, the words of the question left out"
    yield f"{accuracy.right_with_inputs:,} with the words of the question let in"
    if left_out:
        yield f"{left_out:,} left out: their answer shares a piece with the question"
    yield accuracy.verdict


def write_analogy(answer: "Analogy") -> None:
    """Write the answers with and without the words of the question side by side, and the verdict."""
    write_lines([answer.question, *(f"  {term.word.text}: {term.word.spelled}" for term in answer.terms), ""])
    rows = [["", "without its words", "cosine", "with them", "cosine"]]
    # A small vocabulary may have fewer answers without the words of the question than with them.
    pairs = zip(answer.answers, answer.answers_with_inputs, strict=False)
    for rank, (excluding, including) in enumerate(pairs, start=1):
        rows.append([str(rank), excluding.piece, f"{excluding.cosine:.3f}", including.piece, f"{including.cosine:.3f}"])
    write_table(rows, "rlrlr", indent="  ")
    write_lines(["", answer.verdict])
