"""How Sphinx makes the book: pages in MyST, their cells executed while it is built, warnings are errors (make docs)."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools")]
# For the kernels that execute the pages: %load_ext book.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tools"), *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # the kernel's debugger talks on standard error otherwise
# Two pages are executed at a time. With a thread for each core as well, they waited for each other: a page
# that trains took 244 processor seconds, and takes 41 with one thread (a machine of two cores).
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "Pellucid"
author = "the Pellucid contributors"
html_title = "Pellucid: the book"
html_theme = "furo"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_math_renderer = "mathml"
templates_path: list[str] = []
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "book",
    "book_notebook",
]
nitpicky = False
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # a generated page may begin where it likes

nb_execution_mode = "force"  # a number that is in the book came out of this build
nb_execution_timeout = 900  # seconds for a cell: only a cell that hangs takes so long, even on a busy machine
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
nb_kernel_rgx_aliases = {".*": "python3"}
