"""Reads and writes Parquet with two columns of text, or with "translation", a field for each language."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from pellucid.data.formats.tables import choose_names, list_side_names
from pellucid.data.formats.units import Sides, Skip, Unit

_ROWS_READ, _ROWS_WRITTEN = 1000, 20_000  # rows that are in memory at a time


def read_parquet(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the pairs of a Parquet file, row by row.

    Raises ValueError for a file without two columns of text, and for one that is damaged.
    """
    pyarrow, parquet = _import_pyarrow(path)
    try:
        with Path(path).open("rb") as stream, parquet.ParquetFile(stream) as file:
            fields = {field.name: field.type for field in file.schema_arrow}
            nested = "translation" in fields and pyarrow.types.is_struct(fields["translation"])
            if nested:
                fields = {field.name: field.type for field in fields["translation"]}

            texts = [name for name, kind in fields.items() if _holds_text(pyarrow.types, kind)]
            names = texts if nested else list_side_names(texts, sides)

            if len(names) < 2:
                listed = f"the columns of text {', '.join(texts)}" if texts else "no column of text"
                raise ValueError(
                    f"{path} has {listed}; pairs need two, chosen by --from COLUMN --to COLUMN"
                )

            chosen = choose_names(path, names, sides)
            columns = [f"translation.{name}" if nested else name for name in chosen]
            number = 0
            for batch in file.iter_batches(_ROWS_READ, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    row = (row["translation"] or {}) if nested else row
                    try:
                        source, target = (_read_text(row.get(name)) for name in chosen)
                    except UnicodeDecodeError:
                        yield Unit(number, problem="bytes that are no UTF-8")
                        continue
                    problem = "a NUL character" if "\0" in source or "\0" in target else None
                    yield Unit(number, source, target, problem=problem)
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        # A file that cannot be opened has a number of its error, one that Arrow cannot read has
        # none.
        if isinstance(error, OSError) and error.errno is not None:
            raise

        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is no Parquet file, or a damaged one: {reason}") from None


def _holds_text(types: Any, kind: Any) -> bool:
    """Whether a column of this type of Arrow may hold sentences: text, bytes of text, or categories of either."""
    if types.is_dictionary(kind):
        return _holds_text(types, kind.value_type)
    names = ["string", "large_string", "string_view", "binary", "large_binary", "binary_view"]

    # Older versions of pyarrow know no views.
    return any(getattr(types, f"is_{name}", lambda kind: False)(kind) for name in names)


def _read_text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def _import_pyarrow(path: str) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        install = "pip install 'pellucid[hub]'"
        raise ValueError(f"{path}: Parquet needs the package pyarrow: {install}") from None
    return pyarrow, parquet


def encode_parquet(units: Iterable[Unit], sides: Sides, skip: Skip) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file with these pairs: as Hugging Face has it if the languages are known."""
    pyarrow, parquet = _import_pyarrow("the result")
    languages = sides.languages
    names = languages or ("source", "target")
    schema = pyarrow.schema([(name, pyarrow.string()) for name in names])

    if languages:
        schema = pyarrow.schema([("translation", pyarrow.struct(list(schema)))])

    rows = iter(units)
    # A writer goes back in its file and forward again, so the bytes are taken from a file when it is
    # done.
    with TemporaryFile() as file:
        with parquet.ParquetWriter(file, schema) as writer:
            while block := list(islice(rows, _ROWS_WRITTEN)):
                objects = []
                for unit in block:
                    pair = {names[0]: unit.source, names[1]: unit.target}
                    objects.append({"translation": pair} if languages else pair)
                writer.write_table(pyarrow.Table.from_pylist(objects, schema))
        file.seek(0)
        yield from iter(lambda: file.read(2**20), b"")
