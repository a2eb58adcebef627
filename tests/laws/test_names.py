"""Every name says what it is: the check that `make check` runs, and what it refuses."""

import ast

import pytest

from tools import names


def test_every_name_is_defined_once_and_says_what_it_is():
    assert names.find_problems() == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def told(): ...", "function 'told' needs a verb and its object"),
        ("class Trace:\n    async def _cached(self): ...", "function '_cached' needs a verb and its object"),
        ("class Trace:\n    @property\n    def found(self): ...", "function 'found' needs a verb and its object"),
        ("def outer():\n    def kept(): ...", "function 'kept' needs a verb and its object"),
        ("class Pairs:\n    '''The same for pairs.'''", "the docstring of 'Pairs' begins with 'The same'"),
        ("def encode_pairs():\n    '''As `encode`.'''", "the docstring of 'encode_pairs' begins with 'As'"),
        ("'''What a search keeps.'''", "the docstring of 'the module' begins with 'What'"),
    ],
)
def test_a_bare_participle_and_a_docstring_without_its_noun_are_refused(text: str, problem: str):
    assert [fault for _, fault in names.tree_problems(ast.parse(text))] == [problem]


@pytest.mark.parametrize(
    "text",
    [
        "def encode_pairs():\n    '''Assemble encoded pairs.'''",
        "class Update:\n    @property\n    def skipped(self):\n        '''Whether nothing was changed.'''",
        "def embed(): ...",
        "class Stream:\n    def __next__(self): ...",
    ],
)
def test_a_verb_and_a_sentence_pass(text: str):
    assert list(names.tree_problems(ast.parse(text))) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("'''Links words with those of the source.'''", (1, "docstring", "those of")),
        ("def read():\n    '''Read it.\n\n    The codes are that\n    of the model.'''", (2, "docstring", "that of")),
        ("LIMIT = 7\n'''Pieces of which one is read.'''", (2, "docstring", "of which")),
        ("x = 1\n# Whatever stands here.", (2, "comment", "Whatever")),
        ("# A sign that is none\n# of these, and more.\nx = 1", (1, "comment", "is none of")),
        ("x = 1  # PyTorch's are such, too", (1, "comment", "such, too")),
        ("x = 1  # the sum is that\n# of Adam; and words of whom", (2, "comment", "of whom")),
    ],
)
def test_a_docstring_or_comment_that_leaves_out_its_noun_is_refused(text: str, problem: tuple[int, str, str]):
    line, kind, words = problem
    assert list(names.idiom_problems(text)) == [
        (line, f"the {kind} says '{words}'; name the thing again, in a plain sentence")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "def read():\n    '''Return what each of the readers finds; there is none in an empty file.'''",
        "message = 'whatever the file says'  # a message may say it",
        "# the names that offices use, and which a reader sees",
    ],
)
def test_plain_sentences_and_messages_pass(text: str):
    assert list(names.idiom_problems(text)) == []


def test_one_name_in_two_modules_is_refused(tmp_path, monkeypatch):
    package = tmp_path / "src" / "pellucid"
    for path, name in {"model/a.py": "attend", "decode/b.py": "attend", "cli/c.py": "run"}.items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(f"def {name}(): ...\n", encoding="utf-8")
    monkeypatch.setattr(names, "ROOT", tmp_path)
    monkeypatch.setattr(names, "PACKAGE", package)
    assert names.repeated_names() == [
        "src/pellucid/decode/b.py, src/pellucid/model/a.py all define attend; give each a name of its own"
    ]
