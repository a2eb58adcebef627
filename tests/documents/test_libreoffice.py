import shutil
import subprocess

import pytest

from pellucid.localize.documents.readers import read_document
from tests.documents.samples import DOCX, ODT

pytestmark = pytest.mark.skipif(
    shutil.which("soffice") is None, reason="LibreOffice is not installed (Debian: libreoffice-writer-nogui)"
)


def test_libreoffice_opens_what_was_translated_and_shows_the_translations(tmp_path):
    for name, content, changed in (("a.docx", DOCX, "La bola."), ("b.odt", ODT, "La bola.")):
        document = read_document(name, content)
        (tmp_path / name).write_bytes(
            document.write([text.replace("The ball.", changed) + " ¡Sí!" for text in document.texts])
        )
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    convert = ["soffice", profile, "--headless", "--convert-to", "txt:Text (encoded):UTF8", "--outdir", tmp_path]
    subprocess.run([*convert, tmp_path / "a.docx", tmp_path / "b.odt"], check=True, capture_output=True, timeout=120)
    word, writer = ((tmp_path / f"{stem}.txt").read_text("utf-8-sig") for stem in "ab")
    assert word.startswith("La bola. ¡Sí!\nThe red ball is here1. ¡Sí!\n")
    assert "A cell & more\tafter a tab ¡Sí!" in word
    assert writer.startswith("La bola. ¡Sí!\nThe red ball is  here.")
