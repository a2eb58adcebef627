"""Documents that other programs wrote come back byte for byte, but for what was translated."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pellucid.localize.documents.formats import document_suffix
from pellucid.localize.documents.readers import read_document
from tests.documents.samples import SAMPLES

DATA = os.environ.get("PELLUCID_DATA")
MESSY = Path(DATA or "") / "messy"
OFFICE = shutil.which("soffice")
# What Debian's LibreOffice makes of these samples.
CONVERSIONS = {
    "a.odt": ("docx", "odt", "html", "epub"),
    "a.docx": ("docx", "odt", "html", "epub"),
    "a.ods": ("xlsx", "ods"),
}


def read_foreign_document(name: str, content: bytes):
    """Read a document in the direction that it names, or from English to Spanish."""
    try:
        return read_document(name, content, ("en", "es"))
    except ValueError as error:
        named = re.search(r"translates (\S+) to (\S+), not|is translated into ()(\S+?),", str(error))
        if named is None:
            raise
        return read_document(name, content, (named[1] or "en", named[2] or named[4]))


def assert_same_but_for_texts(name: str, content: bytes) -> int:
    """Assert that texts which stay leave a document as it was, and that others are all found again; return how many."""
    document = read_foreign_document(name, content)
    assert document.write(document.texts) == content
    capitals = [text.upper() for text in document.texts]
    written = document.write(capitals)
    assert read_foreign_document(name, written).texts == capitals
    return len(capitals)


@pytest.mark.skipif(not MESSY.is_dir(), reason="PELLUCID_DATA has no messy files")
@pytest.mark.parametrize("ending", [".srt", ".txt"])
def test_files_of_omegat_without_a_second_language_change_in_their_texts_alone(ending):
    files = [path for path in sorted(MESSY.rglob(f"*{ending}")) if "omegat" in path.parts]
    assert len(files) >= 2
    for path in files:
        document = read_foreign_document(path.name, path.read_bytes())
        assert document.write(document.texts) == path.read_bytes(), path


def read_or_refuse(path: Path):
    """Return a document; None where it is refused in a sentence that names it."""
    try:
        return read_foreign_document(path.name, path.read_bytes())
    except ValueError as error:
        if not str(error).startswith(path.name):
            raise
        return None


@pytest.mark.skipif(not MESSY.is_dir(), reason="PELLUCID_DATA has no messy files")
@pytest.mark.parametrize("ending", [".po", ".tmx", ".xlf"])
def test_files_for_translators_keep_all_that_was_in_them_and_ask_for_nothing_twice(ending):
    read = 0
    for path in sorted(MESSY.rglob(f"*{ending}")):
        content = path.read_bytes()
        document = read_or_refuse(path)
        if document is None:
            continue
        read += 1
        written = document.write([f"{text}!" for text in document.texts])
        again = read_foreign_document(path.name, written)
        assert again.texts == [], path
        assert again.kept["translated"] >= document.kept["translated"], path
        if not document.texts and ending == ".tmx":  # in others the language may be added, and a header completed
            assert written == content, path
    assert read >= {".po": 10, ".tmx": 30, ".xlf": 2}[ending]


@pytest.mark.slow
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
@pytest.mark.parametrize(("sample", "ending"), [(name, end) for name, ends in CONVERSIONS.items() for end in ends])
def test_what_libreoffice_writes_changes_in_its_texts_alone(sample, ending, tmp_path):
    (tmp_path / sample).write_bytes(SAMPLES[sample][0])
    home = f"-env:UserInstallation=file://{tmp_path}/home"
    command = [str(OFFICE), home, "--headless", "--convert-to", ending, "--outdir", str(tmp_path / "out"), sample]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    content = (tmp_path / "out" / f"a.{ending}").read_bytes()
    assert document_suffix(f"a.{ending}") is not None
    assert assert_same_but_for_texts(f"a.{ending}", content) > 0
