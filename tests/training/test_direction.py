"""The direction of a run is named by files, archives or settings; no order of members, columns or fields decides it."""

import json
import zipfile
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from pellucid.data.corpus import SkippedPairs, read_valid_units
from pellucid.training.config import CorpusConfig, DataConfig, make_run
from pellucid.training.data import find_languages, read_corpus, read_data
from pellucid.training.direction import describe_direction, read_dev_sides
from pellucid.training.loop import train_run
from pellucid.training.shard_writing import prepare_shards
from tests.training.corpora import small_run

ENGLISH = [f"The {n} lamps are on." for n in range(23)]
SPANISH = [f"Las {n} lámparas lucen." for n in range(23)]


def write_zip(path: Path, order: tuple[str, ...] = ("en", "es"), stem: str = "text") -> None:
    texts = {"en": ENGLISH, "es": SPANISH}
    with zipfile.ZipFile(path, "w") as archive:
        for language in order:
            archive.writestr(f"{stem}.{language}", "\n".join(texts[language]) + "\n")


def write_parquet(path: Path, order: tuple[str, ...] = ("en", "es"), nested: bool = True) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    texts = {"en": ENGLISH, "es": SPANISH}
    columns = {language: pyarrow.array(texts[language]) for language in order}
    if nested:
        columns = {"translation": pyarrow.StructArray.from_arrays([*columns.values()], [*columns])}
    parquet.write_table(pyarrow.table(columns), path)


def write_rows(path: Path, order: tuple[str, ...], separator: str = "\t") -> None:
    texts = {"en": ENGLISH, "es": SPANISH, "English": ENGLISH, "Spanish": SPANISH}
    rows = zip(*([name, *texts[name]] for name in order), strict=True)
    path.write_text("".join(separator.join(row) + "\n" for row in rows), encoding="utf-8")


def write_objects(path: Path, order: tuple[str, ...]) -> None:
    texts = {"en": ENGLISH, "es": SPANISH}
    objects = [{"translation": {name: texts[name][i] for name in order}} for i in range(23)]
    path.write_text("".join(json.dumps(row) + "\n" for row in objects), encoding="utf-8")


def write_memory(path: Path, order: tuple[str, ...], header: str = "", unit: str = "") -> None:
    texts = {"en": ENGLISH, "es": SPANISH, "es-MX": SPANISH, "en-US": ENGLISH}
    units = []
    for i in range(23):
        variants = [f'<tuv xml:lang="{name}"><seg>{texts[name][i]}</seg></tuv>' for name in order]
        units.append(f"<tu {unit}>{''.join(variants)}</tu>")
    path.write_text(f'<tmx version="1.4"><header {header}/><body>{"".join(units)}</body></tmx>', encoding="utf-8")


WRITERS: dict[str, Callable[[Path, tuple[str, ...]], None]] = {
    "zip": write_zip,
    "parquet": write_parquet,
    "tsv": write_rows,
    "jsonl": write_objects,
    "tmx": write_memory,
}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("order", [*permutations(("en", "es"))])
def test_no_order_inside_of_a_file_decides_the_direction(tmp_path: Path, ending: str, order: tuple[str, str]):
    write, unnamed = WRITERS[ending], tmp_path / f"mine.{ending}"
    write(unnamed, order)
    for read in (describe_direction, find_languages, lambda data: read_corpus(data, 1)):
        with pytest.raises(ValueError, match=r"does not say which of its .* choose with --from e. --to e., or --from"):
            read(DataConfig(train=str(unnamed)))
    asked = DataConfig(train=str(unnamed), source_language="es", target_language="en")
    assert describe_direction(asked) == "It learns Spanish (es) to English (en), as the settings say."
    assert read_corpus(asked, 1).train[0].sources[0].startswith("Las")
    named = tmp_path / f"Lamps.es-en.{ending}"
    write(named, order)
    data = DataConfig(train=str(named))
    assert (
        describe_direction(data) == f"It learns Spanish (es) to English (en), as the name of Lamps.es-en.{ending} says."
    )
    assert read_corpus(data, 1).train[0].sources[0].startswith("Las")
    assert find_languages(data) == {"source": "es", "target": "en"}


@pytest.mark.parametrize("order", [*permutations(("English", "Spanish"))])
def test_columns_named_by_languages_do_not_decide_and_columns_named_by_sides_do(tmp_path: Path, order: tuple[str, str]):
    path = tmp_path / "mine.csv"
    write_rows(path, order, ",")
    with pytest.raises(ValueError, match="does not say which of its columns"):
        describe_direction(DataConfig(train=str(path)))
    assert read_corpus(DataConfig(train=str(path), source_language="es"), 1).train[0].targets[0].startswith("The")
    path.write_text("tgt,src\n" + "".join(f"{t},{s}\n" for s, t in zip(ENGLISH, SPANISH, strict=True)), "utf-8")
    data = DataConfig(train=str(path))
    assert describe_direction(data).startswith("It learns to translate the sources in mine.csv into its targets; ")
    assert read_corpus(data, 1).train[0].sources[0].startswith("The")
    write_parquet(tmp_path / "flat.parquet", nested=False)
    with pytest.raises(ValueError, match="does not say which of its columns en and es"):
        describe_direction(DataConfig(train=str(tmp_path / "flat.parquet")))


@pytest.mark.parametrize("order", [*permutations(("en-US", "es-MX"))])
@pytest.mark.parametrize(
    ("header", "unit", "line"),
    [
        ('srclang="es"', "", "It learns Spanish (es-MX) to English (en-US), as srclang in m.tmx says."),
        ('srclang="EN-us"', "", "It learns English (en-US) to Spanish (es-MX), as srclang in m.tmx says."),
        ('srclang="*all*"', 'srclang="eng"', "It learns English (en-US) to Spanish (es-MX), as srclang in m.tmx says."),
        ('srclang="*all*"', "", None),
        ('srclang="de"', "", None),
    ],
)
def test_a_memory_says_the_language_of_its_sources(
    tmp_path: Path, order: tuple[str, str], header: str, unit: str, line: str | None
):
    path = tmp_path / "m.tmx"
    write_memory(path, order, header, unit)
    if line is None:
        with pytest.raises(ValueError, match="does not say which of its languages"):
            describe_direction(DataConfig(train=str(path)))
    else:
        assert describe_direction(DataConfig(train=str(path))) == line


@pytest.mark.parametrize(
    ("source", "target", "line"),
    [
        ("a.en", "a.es", "It learns English (en) to Spanish (es), as the names of a.en and a.es say."),
        ("a.zh-Hans.xz", "a.es-MX.gz", "It learns Chinese (zh-Hans) to Spanish (es-MX), as the names of "),
        ("a.eng", "a.spa", "It learns English (eng) to Spanish (spa), as the names of a.eng and a.spa say."),
        ("en.txt", "de.txt", "It learns English (en) to German (de), as the names of en.txt and de.txt say."),
        ("one.src", "one.tgt", "It learns to translate one.src into one.tgt; no language is named"),
    ],
)
def test_the_names_of_two_files_say_the_direction(source: str, target: str, line: str):
    assert describe_direction(DataConfig(source=source, target=target)).startswith(line)


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_the_name_of_a_table_without_a_header_says_which_column_is_which(tmp_path: Path, ending: str):
    path = tmp_path / f"mine.es-en.{ending}"
    delimiter = "\t" if ending == "tsv" else ","
    rows = zip(SPANISH, ENGLISH, strict=True)
    path.write_text("".join(f"{spanish}{delimiter}{english}\n" for spanish, english in rows), "utf-8")
    name = f"the name of mine.es-en.{ending}"
    as_named = DataConfig(train=str(path))
    assert describe_direction(as_named) == f"It learns Spanish (es) to English (en), as {name} says."
    assert read_corpus(as_named, 1).train[0].sources[0] in SPANISH
    # Whoever asks for the other direction gets it, and not the first column under another name.
    asked = DataConfig(train=str(path), source_language="eng", target_language="es")
    assert describe_direction(asked) == f"It learns English (eng) to Spanish (es), as the settings and {name} say."
    assert read_corpus(asked, 1).train[0].sources[0] in ENGLISH
    dev = DataConfig(source="a.en", target="a.es", dev=str(path))
    assert (
        next(iter(read_valid_units(str(path), None, 999, SkippedPairs(), read_dev_sides(dev, ("en", "es"))))).source
        in ENGLISH
    )
    # A name that fits neither way says nothing.
    other = DataConfig(train=str(path), source_language="de", target_language="fr")
    assert read_corpus(other, 1).train[0].sources[0] in SPANISH


def test_several_files_that_name_no_language_are_said_together(tmp_path: Path):
    corpora = []
    for name in ("old", "new", "more"):
        (tmp_path / f"{name}.jsonl").write_text('{"source": "The lamp is on.", "target": "La lampe luit."}\n', "utf-8")
        corpora.append(CorpusConfig(pairs=str(tmp_path / f"{name}.jsonl")))
    corpora.append(CorpusConfig(source="one.src", target="one.tgt"))
    data = DataConfig(corpus=tuple(corpora))
    assert describe_direction(data) == (
        "It learns to translate one.src into one.tgt and the sources in old.jsonl, new.jsonl and more.jsonl into their "
        "targets; no language is named (--from and --to do)."
    )
    # The model that a run starts from says what the files do not.
    assert describe_direction(data, initial={"languages": {"source": "en", "target": "fr"}}) == (
        "It goes on learning English (en) to French (fr), as the model that it starts from does."
    )
    assert describe_direction(data, initial={}) == (
        "It goes on in the direction of the model that it starts from; no language is named."
    )
    named = DataConfig(source="a.en", target="a.es")
    assert describe_direction(named, initial={"languages": {"source": "en", "target": "es"}}) == (
        "It learns English (en) to Spanish (es), as the names of a.en and a.es say."
    )


def test_names_that_say_the_opposite_are_refused():
    data = DataConfig(source="a.en", target="a.es", source_language="spa", target_language="eng")
    with pytest.raises(ValueError, match=r"by their names a\.en is English \(en\) and a\.es Spanish \(es\); exchange"):
        describe_direction(data)
    corpora = [{"source": "a.en", "target": "a.es"}, {"source": "b.es", "target": "b.en"}]
    mixed = make_run({"data": {"corpus": corpora}, "train": {"steps": 1}})
    with pytest.raises(ValueError, match=r"b\.es goes from Spanish \(es\) to English \(en\) and a\.en from English"):
        describe_direction(mixed.data)


@pytest.mark.parametrize("order", [*permutations(("en", "es"))])
def test_a_dev_set_has_the_direction_of_the_training_text(tmp_path: Path, order: tuple[str, str]):
    write_zip(tmp_path / "Lamps.es-en.zip", order)
    write_memory(tmp_path / "dev.tmx", order, 'srclang="en"')
    write_zip(tmp_path / "dev.zip", order)
    for name in ("dev.tmx", "dev.zip"):
        data = DataConfig(train=str(tmp_path / "Lamps.es-en.zip"), dev=str(tmp_path / name), allow_overlap=True)
        [dev] = read_corpus(data, 1).dev_sets
        assert (dev.sources, dev.targets) == (SPANISH, ENGLISH)
    for name, lines in (("dev.en", ENGLISH), ("dev.es", SPANISH)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = DataConfig(
        train=str(tmp_path / "Lamps.es-en.zip"),
        dev_source=str(tmp_path / "dev.en"),
        dev_target=str(tmp_path / "dev.es"),
    )
    with pytest.raises(ValueError, match=r"the sources are to be Spanish \(es\) .* exchange the two files"):
        read_corpus(data, 1)


def test_a_run_says_its_direction_first_and_again_when_it_is_resumed(tmp_path: Path, capsys):
    texts = small_run(tmp_path / "data").data
    with zipfile.ZipFile(tmp_path / "data" / "Numbers.en-es.zip", "w") as archive:
        archive.write(texts.target or "", "Numbers.en-es.es")
        archive.write(texts.source or "", "Numbers.en-es.en")
    files = {"source": None, "target": None, "train": str(tmp_path / "data" / "Numbers.en-es.zip")}
    quick = {"steps": 2, "evaluate_every": 2, "save_every": 1, "dev_sentences": 1}
    run = small_run(tmp_path / "data", data=files, train=quick)
    line = "It learns English (en) to Spanish (es), as the name of Numbers.en-es.zip says."
    train_run(run, tmp_path / "out")
    assert capsys.readouterr().err.splitlines()[0] == line
    train_run(run, tmp_path / "out", resume=True)
    assert capsys.readouterr().err.splitlines()[0] == line
    # Shards know it after the text is gone.
    said = []
    prepare_shards(run, tmp_path / "shards", 1, said.append)
    assert said[0] == line
    (tmp_path / "data" / "Numbers.en-es.zip").unlink()
    sharded = small_run(tmp_path / "data", data={**files, "shards": str(tmp_path / "shards")}, train=quick)
    assert read_data(sharded).languages == {"source": "en", "target": "es"}
    train_run(sharded, tmp_path / "mapped")
    assert (
        capsys.readouterr().err.splitlines()[0] == f"It learns English (en) to Spanish (es), as {tmp_path}/shards says."
    )
