"""Part 2 of the book as a notebook: every page in order, no directive that only Sphinx reads, and cells that run."""

import re

import nbformat
import pytest

from tools import book_notebook as notebook

PAGE = """\
---
file_format: mystnb
kernelspec:
  name: python3
---

# A page

:::{rows} A1 X2
:::

Some {cited}`0.5`, a [page](other.md#there), a [file](../../README.md), an [anchor](#here), $x^2$.

```{code-cell}
:tags: [remove-cell]
%cd -q ../..
```

```{code-cell}
:tags: [hide-input]
%cd -q elsewhere
a = 1
```

```{literalinclude} code.py
:pyobject: Shape.area
```

```{note}
Mind this.
```

:::{admonition} Answer
:collapsible: closed

It is $x$.
:::
"""
CODE = "class Shape:\n    @property\n    def area(self):\n        return 0\n\n    def other(self): ...\n"


@pytest.fixture
def cells(tmp_path, monkeypatch):
    monkeypatch.setattr(notebook, "DOCS", tmp_path)
    part = tmp_path / "transformer"
    part.mkdir()
    for name, text in (
        ("index.md", "# I\n\n```{toctree}\n:hidden:\npage\nnot-there\n```\n"),
        ("page.md", PAGE),
        ("code.py", CODE),
    ):
        (part / name).write_text(text, encoding="utf-8")
    return notebook.make_notebook().cells


def test_text_stays_and_directives_become_markdown(cells):
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert "# A page" in text
    assert "*In the articles: A1, X2*" in text
    assert "Some 0.5, a [page](transformer/other.html#there), a file, an anchor, $x^2$." in text
    assert "```python\n@property\ndef area(self):\n    return 0\n```" in text
    assert "> **Note**\n> \n> Mind this." in text
    assert "<details><summary>Answer</summary>\n\nIt is $x$.\n\n</details>" in text


def test_code_runs_in_one_folder(cells):
    assert [cell.source for cell in cells if cell.cell_type == "code"] == ["a = 1"]


def test_a_notebook_of_the_real_pages_is_valid_and_in_order():
    part_2 = notebook.make_notebook()
    nbformat.validate(part_2)
    pages = [cell.metadata["page"] for cell in part_2.cells if cell.cell_type == "code"]
    order = [
        path.relative_to(notebook.DOCS).as_posix()
        for path in notebook.list_pages(notebook.DOCS / "transformer/index.md")
    ]
    assert list(dict.fromkeys(pages)) == [name for name in order if name in pages]
    assert nbformat.writes(part_2) == nbformat.writes(notebook.make_notebook())
    directives = [
        cell.source
        for cell in part_2.cells
        if cell.cell_type == "markdown" and re.search(r"^[`:]{3,}\{", cell.source, re.M)
    ]
    assert directives == []


def test_a_cell_that_fails_is_named_with_its_page(cells):
    broken = nbformat.v4.new_notebook(cells=cells)
    broken.cells[-1 if broken.cells[-1].cell_type == "code" else -2].source = "assert 1 == 2, 'no'"
    assert notebook.run_notebook(broken) == "transformer/page.md: AssertionError: no"


def test_an_object_that_is_not_there_is_named(tmp_path):
    (tmp_path / "code.py").write_text(CODE, encoding="utf-8")
    assert notebook.read_source(tmp_path / "code.py", "") == CODE.rstrip()
    with pytest.raises(ValueError, match=r"code.py has no Shape.volume"):
        notebook.read_source(tmp_path / "code.py", "Shape.volume")
