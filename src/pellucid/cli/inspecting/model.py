"""`pellucid inspect model`, `positions`, `step` and `length`: arrays, positions, optimizer's step, limits."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import (
    FIGURES,
    name_file_in_errors,
    read_file_pair,
    save_figure,
    show_progress,
    write_report,
)
from pellucid.cli.inspecting.study_views import (
    Column,
    column_lines,
    column_rows,
    column_sides,
    row_objects,
)
from pellucid.cli.options import (
    JSON,
    LANGUAGE_TO_WRITE,
    MODEL,
    PLOT,
    SOURCE,
    TRANSLATIONS,
    argument,
    option,
)
from pellucid.cli.terminal import table_lines
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.interpret.studies.anatomy import Array
    from pellucid.interpret.studies.lengths import LengthBucket, MeasuredSentence
    from pellucid.interpret.studies.position_tables import PositionTable, WrongTable
    from pellucid.training.step_strengths import BlockStrengths

MODEL_EXAMPLES = """\
  pellucid inspect model runs/demo/best
  pellucid inspect model runs/demo/best --plot architecture.svg"""


def show_model(
    model: Annotated[str, MODEL],
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """List the modules of a model, with their shapes.

    Show every module with its shapes, whether training changes it, and which arrays are shared. A
    layer with the shapes of the one before is left out; --json has them all. All of this, and the
    picture that --plot draws, is read from the loaded weights.
    """
    from pellucid.interpret.studies.anatomy import (
        count_fixed,
        count_trained,
        list_arrays,
        read_architecture,
    )
    from pellucid.store.directory import load_bundle

    require_writable(plot, FIGURES)
    loaded = load_bundle(model).model
    arrays = list_arrays(loaded)

    if plot:
        from pellucid.interpret.plots.architecture import draw_architecture

        architecture = read_architecture(loaded)
        title = f"{model}: {architecture.parameters:,} parameters"
        stacks = architecture.encoder, architecture.decoder
        save_figure(plot, draw_architecture, *stacks, title=title, notes=architecture.shared)

    trained, fixed = count_trained(arrays), count_fixed(arrays)
    totals = f"{trained:,} parameters, trained; {fixed:,} numbers computed and fixed"
    write_report(json, row_objects(arrays, "numbers"), [*_array_lines(arrays), totals])


def _array_state(array: "Array") -> str:
    """Return whether an array is trained.

    A shared one counts where it stands first, and says where.
    """
    if array.shared_with:
        return f"is {array.shared_with}"
    return "trained" if array.trained else "fixed"


ARRAY_COLUMNS: "Sequence[Column[Array]]" = (
    Column("module", lambda array: array.module, side="l"),
    Column("kind", lambda array: array.kind, side="l"),
    Column("array", lambda array: array.name.rpartition(".")[2], side="l"),
    Column("shape", lambda array: " × ".join(f"{n:,}" for n in array.shape)),
    Column("", _array_state, side="l"),
    Column("numbers", lambda array: array.numbers or "", ","),
)


def _array_lines(arrays: "Sequence[Array]") -> Iterator[str]:
    """Yield a table of the arrays, and which layers are left out of it."""
    shown, repeats = _leave_out_repeats(arrays)
    rows = column_rows(shown, ARRAY_COLUMNS)
    # From the last row up, so that each row is still compared with a full one.
    for number in range(len(rows) - 1, 1, -1):
        if rows[number][:2] == rows[number - 1][:2]:
            rows[number][:2] = ["", ""]

    yield from table_lines(rows, column_sides(ARRAY_COLUMNS))
    yield from ("", *repeats)


def _leave_out_repeats(arrays: "Sequence[Array]") -> "tuple[list[Array], list[str]]":
    """Leave out layers whose shapes equal the layer before.

    Return the other arrays, and a sentence for each run of equal layers.
    """
    shown: list[Array] = []
    repeats: dict[str, list[str]] = {}
    first, previous = "", list[tuple]()
    # groupby joins neighbours only, and arrays of a layer follow one another.
    for (stack, number), group in groupby(arrays, key=_layer_of_array):
        layer = list(group)
        signature = []
        for array in layer:
            name_in_layer = re.sub(r"^(\w+)\.\d+\.", r"\1.", array.name)
            signature.append((name_in_layer, array.shape, array.trained))

        # Embeddings and norms outside of layers are always listed.
        if stack and signature == previous:
            # The first layer of the run gives its name, however many follow it.
            repeats.setdefault(first, []).append(f"{stack}.{number}")
        else:
            first = f"{stack}.{number}"
            shown += layer
        previous = signature

    sentences = []
    for name, layers in repeats.items():
        if len(layers) == 1:
            sentences.append(f"{layers[0]} has the shapes of {name}")
        else:
            sentences.append(f"{layers[0]} to {layers[-1]} have the shapes of {name}")

    return shown, sentences


def _layer_of_array(array: "Array") -> tuple[str, str]:
    """Return the stack and the number of the layer; outside of layers no stack, and the module."""
    match = re.match(r"(encoder|decoder)\.(\d+)\.", array.name)
    return (match[1], match[2]) if match else ("", array.module)


POSITIONS_EXAMPLES = """\
  pellucid inspect positions runs/demo/best
  pellucid inspect positions runs/demo/best --text "The sky is blue" --plot positions.png"""

DISTANCES_SHOWN = (1, 2, 5, 10, 20, 50)
PAPER_D_MODEL = 512  # of the base model in the paper
DIMENSIONS_SHOWN = 6
"""First dimensions that the table shows if there are more than twice as many; two of the last follow."""


def show_positions(
    model: Annotated[str, MODEL],
    text: Annotated[
        str | None,
        option("show the positions of this text's pieces, not the first 64", "TEXT"),
    ] = None,
    side: Annotated[
        str,
        option("positions of the encoder or of the decoder", "source|target"),
    ] = "source",
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show the position vectors and how they differ.

    Show the table, its wavelengths and the similarity of positions; then, compared with the paper's
    formula, the table that results if code doubles the exponent by mistake, as in an article.
    """
    from pellucid.interpret.studies.position_tables import (
        compare_with_wrong_table,
        doubled_exponent_table,
        paper_table,
        position_vectors,
        wavelengths,
    )
    from pellucid.interpret.studies.word_vectors import cut_into_pieces
    from pellucid.store.directory import load_bundle

    require_writable(plot, FIGURES)
    loaded = load_bundle(model)
    pieces: list[str] = []
    count = min(64, loaded.model.config.max_positions)
    if text is not None:
        pieces = cut_into_pieces(loaded.tokenizer, text, side).pieces
        count = len(pieces)

    table = position_vectors(loaded.model, count, side)
    width = table.values.shape[1]
    # Learned positions have no wavelengths.
    waves = wavelengths(width) if table.kind in ("sinusoidal", "rotary") else None

    # At the paper's width and at this model's; sines and
    # cosines come in pairs, which an odd width cannot hold.
    widths = dict.fromkeys((PAPER_D_MODEL, width))
    comparisons = [compare_with_wrong_table(d_model) for d_model in widths if d_model % 2 == 0]

    if plot:
        from pellucid.interpret.plots.charts import draw_positions

        curves = None
        if width % 2 == 0:
            curves = paper_table(4, width)[3], doubled_exponent_table(4, width)[3]
        vectors = table.values, table.similarity
        save_figure(plot, draw_positions, *vectors, wavelengths=waves, curves=curves)

    study = {
        "kind": table.kind,
        "trained": table.trained,
        "pieces": pieces or None,
        "values": table.values,
        "wavelengths": waves,
        "cosine_by_distance": table.by_distance(),
        "first_rise": table.first_rise,
        "wrong_code": comparisons,
    }
    lines = list(_position_lines(table, pieces))
    if waves is not None:
        shortest = f"{waves[0]:.2f} positions (dims 0, 1)"
        lines += ["", f"wavelengths: {shortest} to {waves[-1]:,.0f} (the last two)"]

    lines += ["", _distance_line(table)]
    for comparison in comparisons:
        lines += _wrong_lines(comparison)
    write_report(json, [study], lines)


def _position_lines(table: "PositionTable", pieces: Sequence[str]) -> Iterator[str]:
    """Yield the first and last dimensions of the first positions."""
    count, width = table.values.shape
    yield f"{table.kind} positions, {'trained' if table.trained else 'fixed'}; {width} numbers each"
    yield ""

    shown = list(range(width))
    if width > 2 * DIMENSIONS_SHOWN:
        shown = [*range(DIMENSIONS_SHOWN), *range(width - 2, width)]
    columns = [Column[int]("position", lambda position: position)]
    if pieces:
        columns.append(Column("piece", lambda position: pieces[position], side="l"))
    for d in shown:
        columns.append(Column(f"dim {d}", lambda position, d=d: table.values[position, d], ".4f"))
    if len(shown) < width:  # dots stand before the last two dimensions
        columns.insert(-2, Column("", lambda position: "..."))
    yield from column_lines(range(min(count, 12)), columns)  # --json has all positions


def _distance_line(table: "PositionTable") -> str:
    by_distance, rise = table.by_distance(), table.first_rise
    near = [f"{by_distance[d]:.3f} at {d}" for d in DISTANCES_SHOWN if d < len(by_distance)]
    rises = "never rises" if rise is None else f"first rises from {rise - 1} to {rise}"
    return f"mean cosine of positions by distance: {', '.join(near)}; it {rises}" if near else ""


def _wrong_lines(wrong: "WrongTable") -> Iterator[str]:
    """Yield lines on the table with a doubled exponent, compared with the paper's."""
    at = f"at d = {wrong.d_model}, position {wrong.position}"
    first_right = f"{wrong.first_right:.6f} by the paper"
    longest_right = f"{wrong.longest_wavelength_right:.3g} by the paper"
    sines = f"{wrong.nearly_zero_wrong} of {wrong.d_model // 2} sines"
    dims = f"{wrong.constant_wrong} of {wrong.d_model} dims"
    yield ""
    yield f"10000^(2i/d) with i = 0, 2, 4, ... instead of 10000^(i/d), {at}:"
    yield f"  {wrong.different} of {wrong.entries} entries differ, by up to {wrong.largest:.2f}"
    yield f"  the first is dim {wrong.first_dimension}: {wrong.first_wrong:.6f}, and {first_right}"
    yield (f"  longest wavelength {wrong.longest_wavelength_wrong:.3g} positions, and {longest_right}")
    yield f"  {sines} are below 0.001, and {wrong.nearly_zero_right} by the paper"
    yield (f"  {dims} stay within 0.01 over {wrong.positions} positions, and {wrong.constant_right} by the paper")


STEP_EXAMPLES = """\
  pellucid inspect step runs/demo
  pellucid inspect step runs/demo --tensor decoder.0.cross.qkv.weight
  pellucid inspect step runs/demo/checkpoints/step-00000500 --plot step.png"""


def show_step(
    directory: Annotated[
        str,
        argument("RUN", "directory of a run, whose newest checkpoint is read; or a checkpoint"),
    ],
    tensor: Annotated[
        str,
        option("a matrix of a layer, by its name (`pellucid inspect model` lists them)", "NAME"),
    ] = "decoder.0.ffn.outer.weight",
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show how strong the optimizer's step is in each direction of a matrix.

    A matrix turns directions of its input into directions of its output, each with a strength, its
    singular value. The running mean of the gradients is strong in few directions, and so are Adam's
    steps; Muon's step is about equally strong in all. Show both for a matrix of a run that was
    trained: the median strength as a share of the largest, and how many of the directions make nine
    tenths of the sum of squares. --plot draws all strengths.
    """
    from pellucid.training.step_strengths import measure_step_strengths

    require_writable(plot, FIGURES)
    checkpoint, kind, blocks = measure_step_strengths(directory, tensor)
    optimizer = kind.capitalize()

    if plot:
        from pellucid.interpret.plots.charts import draw_step_strengths

        title = f"{tensor}, {checkpoint.name}, {optimizer}"
        save_figure(plot, draw_step_strengths, blocks, title=title)

    measured = f"the running mean of its gradients, and the step of {optimizer}"
    title = f"{tensor} in {checkpoint.name}: {measured}"
    objects = row_objects(blocks, tensor=tensor, optimizer=kind)
    write_report(json, objects, [title, *column_lines(blocks, STEP_COLUMNS)])


def _median_share(strengths: Sequence[float]) -> float:
    """Return the median of strengths, which are sorted, as a share of the largest."""
    return sorted(strengths)[len(strengths) // 2] / (strengths[0] or 1.0)


def _strong_share(strengths: tuple[float, ...]) -> str:
    """Return how many directions are strong, of how many."""
    from pellucid.training.step_strengths import count_strong_directions

    return f"{count_strong_directions(strengths)} of {len(strengths)}"


STEP_COLUMNS: "Sequence[Column[BlockStrengths]]" = (
    Column("", lambda block: block.name, side="l"),
    Column("median of gradient", lambda block: _median_share(block.gradient), ".3f"),
    Column("of step", lambda block: _median_share(block.step), ".3f"),
    Column("strong in gradient", lambda block: _strong_share(block.gradient)),
    Column("in step", lambda block: _strong_share(block.step)),
)

LENGTH_EXAMPLES = """\
  pellucid inspect length runs/demo/best --source test.en --target test.es
  pellucid inspect length runs/demo/best --source test.en --target test.es --join 4 --plot length.png"""


def show_lengths(
    model: Annotated[str, MODEL],
    source: Annotated[str, SOURCE],
    target: Annotated[str, TRANSLATIONS],
    join: Annotated[
        int,
        option("also join up to N neighbouring lines, to get longer ones", "N"),
    ] = 1,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Measure loss and chrF by the length of the source.

    See whether the model stays good beyond the longest source it was trained on. Lines are
    translated whole, however long they are, by greedy search; `pellucid translate` would split them
    at sentence ends. A model that was trained with data.context reads each line alone here, without
    the sentence before.
    """
    from pellucid.api import load
    from pellucid.evaluate.scores import make_metric
    from pellucid.interpret.studies.lengths import bucket_by_length, join_lines

    require_writable(plot, FIGURES)
    if join < 1:
        raise ValueError(f"--join is {join}, it must be 1 or more")
    sources, references = read_file_pair(source, target)
    source_lines, target_lines = join_lines(sources, join), join_lines(references, join)
    loaded = load(model, target_language=language)
    trained = loaded.manifest.get("longest_source")

    # An entry that is missing or None says that nobody
    # knows, as after training on from such a model.
    longest = trained if isinstance(trained, int) else None
    chrf = make_metric("chrf", loaded.lowercase)
    with name_file_in_errors(f"{source} and {target}"):
        measured, left_out = _measure_sentences(loaded, source_lines, target_lines)
        buckets = bucket_by_length(
            measured,
            lambda texts, references: chrf.corpus_score(texts, references).score,
            longest,
        )

    if plot:
        from pellucid.interpret.plots.charts import draw_by_length

        # A bucket is drawn at the middle of its lengths.
        middles = [(bucket.first + bucket.last) / 2 for bucket in buckets]
        losses, scores = [bucket.loss for bucket in buckets], [bucket.chrf for bucket in buckets]
        save_figure(plot, draw_by_length, middles, losses, scores, longest_seen=longest)

    trained_on = "the model directory does not say how long the sources of training were"
    if longest:
        trained_on = f"the longest source of training had {longest} pieces"
    note = f"loss in nats a piece; length ratio in characters; {trained_on}"
    objects = row_objects(buckets, longest_seen=longest)
    write_report(json, objects, [*column_lines(buckets, LENGTH_COLUMNS), "", note])
    if left_out:
        many = f"{left_out:,} lines have more pieces than this model takes"
        typer.echo(f"{many}, and were left out", err=True)


LENGTH_COLUMNS: "Sequence[Column[LengthBucket]]" = (
    Column("pieces", lambda bucket: f"{bucket.first}-{bucket.last}"),
    Column("sentences", lambda bucket: bucket.sentences, ","),
    Column("loss", lambda bucket: bucket.loss, ".3f"),
    Column("chrF", lambda bucket: bucket.chrf, ".1f"),
    Column("length ratio", lambda bucket: bucket.ratio, ".2f"),
    Column("", lambda bucket: "longer than any seen in training" * bool(bucket.unseen), side="l"),
)


def _measure_sentences(
    loaded: "Model", sources: Sequence[str], references: Sequence[str]
) -> "tuple[list[MeasuredSentence], int]":
    """Measure each line that the model can take.

    Return the measurements and the number of lines it cannot take.
    """
    from pellucid.interpret.studies.lengths import MeasuredSentence

    tokenizer, limit = loaded.bundle.tokenizer, loaded.translator.lengths.longest
    source_ids = tokenizer.encode_source(sources)
    target_ids = tokenizer.encode_target(references)
    fits: list[int] = []
    for n, source in enumerate(sources):
        longest = max(len(source_ids[n]), len(target_ids[n]))
        if longest <= limit and source.strip():
            fits.append(n)

    lines, line_references = [sources[n] for n in fits], [references[n] for n in fits]
    scores = loaded.score(lines, line_references)  # of the references: loss needs no search
    # Each line whole: what is measured is the length, so a line that is too long is refused, not
    # translated in parts. 64 at a time, so that the bar moves.
    translations = loaded.translate_stream(lines, 64, beam=1, too_long="refuse", sentences="keep")

    measured = []
    finished = show_progress(translations, len(fits))
    for n, score, translation in zip(fits, scores, finished, strict=True):
        sentence = MeasuredSentence(
            pieces=len(source_ids[n]),
            log_prob=score.log_prob,
            target_pieces=len(score.pieces),
            translation=translation.text,
            reference=references[n],
        )
        measured.append(sentence)

    written = sum(bool(line.strip()) for line in sources)
    return measured, written - len(fits)
