"""Compiles `kernels.c` with the machine's C compiler, once, and loads what came of it."""

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from pellucid.store.user_cache import user_cache_folder

SOURCE = Path(__file__).with_name("kernels.c")

# Errors of C's mathematical functions and its exceptions are not used; without them loops become
# vector instructions. Sums keep the order in which they are written but for the marked loops.
_FLAGS = ("-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
# For the processor at hand: x86's with the widest registers it has, others, and ARM's.
_TARGETS = (("-march=native", "-mprefer-vector-width=512"), ("-march=native",), ("-mcpu=native",))
_COMPILERS = ("cc", "gcc", "clang")
_SECONDS = 120.0  # that a compiler may take; three are usual
# Name of the processor and what it can do, as Linux describes each of them.
_PROCESSOR_LINES = ("vendor_id", "model name", "flags", "Features", "CPU implementer", "CPU part")

Kernels = ctypes.CDLL
"""The compiled functions by their names."""

_POINTER, _COUNT, _FLOAT, _FLAG = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
_MASK = (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_float)  # seed, bound of the hash, factor
_ARGUMENTS = {
    "add_dropped": (*[_POINTER] * 4, _COUNT, _COUNT, *_MASK, _FLAG),
    "drop": (*[_POINTER] * 3, _COUNT, _COUNT, *_MASK, _FLAG),
    "relu_dropped": (*[_POINTER] * 3, _COUNT, _COUNT, *_MASK, _FLAG),
    "relu_dropped_gradient": (*[_POINTER] * 4, _COUNT, _COUNT, _FLOAT, _FLAG),
    "normalize": (*[_POINTER] * 6, _COUNT, _COUNT, _FLOAT, _FLAG),
    "normalize_gradient": (*[_POINTER] * 9, _COUNT, _COUNT, _FLAG),
    "attend": (*[_POINTER] * 10, *_MASK, _FLAG),
    "attend_gradient": (*[_POINTER] * 15, *_MASK, _FLAG),
    "loss_of_rows": (*[_POINTER] * 5, _COUNT, _COUNT, _FLOAT, _FLAG, _FLAG),
}


class NoKernels(Exception):
    """Why the kernels cannot be used here, in words that follow "because"."""


@cache
def load_kernels() -> Kernels:
    """Return the kernels: from the user's cache ($XDG_CACHE_HOME/pellucid), or compiled now.

    Raises NoKernels where there is no C compiler, and where what it makes cannot be loaded.
    """
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None or sys.platform == "win32":
        raise NoKernels("no C compiler (cc, gcc or clang) is installed")

    name = f"kernels-{_hash_what_decides(compiler)}.so"
    for folder in _private_folders():
        # A full or read-only disk is no reason to do without: the next folder is tried.
        with suppress(OSError):
            path = _compile_inside(folder, name, compiler)
            try:
                return _load(path)
            except OSError:  # damaged
                path.unlink()
                return _load(_compile_inside(folder, name, compiler))

    with tempfile.TemporaryDirectory(prefix="pellucid-") as folder:
        # A library that is loaded stays so when its file is gone.
        try:
            return _load(_compile_inside(Path(folder), name, compiler))
        except OSError as error:
            raise NoKernels(f"what {compiler} made of them cannot be loaded ({error})") from None


def _hash_what_decides(compiler: str) -> str:
    """Return a name for what decides what is made: text, options, compiler and processor."""
    processor = platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
        processor += "".join(line for line in lines if line.startswith(_PROCESSOR_LINES))

    program = Path(compiler).resolve()
    parts = [*_FLAGS, str(_TARGETS), str(program), str(program.stat().st_mtime_ns), processor]
    return hashlib.sha256(SOURCE.read_bytes() + "\n".join(parts).encode()).hexdigest()[:16]


def _private_folders() -> Iterator[Path]:
    """Yield the user's cache folder, if nobody else can write into it: what lies there is run."""
    if not hasattr(os, "getuid"):
        return
    # Not everyone has a home, and not every home can be written to.
    with suppress(RuntimeError, OSError):
        folder = user_cache_folder() / "kernels"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = folder.stat()
        if state.st_uid == os.getuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            yield folder


def _compile_inside(folder: Path, name: str, compiler: str) -> Path:
    """Return the path of the kernels in `folder`, where they are compiled if they are not there.

    Raises NoKernels where the compiler refuses them.
    """
    path = folder / name
    if path.is_file():
        return path

    with tempfile.TemporaryDirectory(prefix="new-", dir=folder) as scratch:
        made = Path(scratch) / name
        said = ""
        for target in _TARGETS:
            command = [compiler, *_FLAGS, *target, "-o", str(made), str(SOURCE), "-lm"]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=_SECONDS
                )
            except subprocess.TimeoutExpired:
                raise NoKernels(f"{compiler} took longer than {_SECONDS:.0f} seconds") from None
            if done.returncode == 0:
                # Each process compiles in a folder of its own: what is there is always whole.
                made.replace(path)
                return path
            said = said or done.stderr.strip().partition("\n")[0]
    raise NoKernels(f"{compiler} does not compile them ({said:.200})")


def _load(path: Path) -> Kernels:
    """Load compiled kernels; raise OSError where they are none."""
    kernels = ctypes.CDLL(str(path))

    for name, arguments in _ARGUMENTS.items():
        try:
            getattr(kernels, name).argtypes = arguments
        except AttributeError as error:
            raise OSError(str(error)) from None
    return kernels
