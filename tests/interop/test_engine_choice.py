"""The engine that is asked for runs, or an error says why it does not."""

import copy
import gc
import json
import sys
import weakref
from types import SimpleNamespace

import pytest
import torch

from pellucid import cpu
from pellucid.api import load
from pellucid.decode import torch_models
from pellucid.decode.torch_engine import TorchEngine
from pellucid.interop import ctranslate2_engine, ctranslate2_library
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.interop.ctranslate2_engine import CTranslate2Engine
from pellucid.interop.ctranslate2_library import import_ctranslate2
from pellucid.store.directory import load_bundle, save_bundle
from tests.decode.models import LINES, random_model, small_tokenizer


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "best"
    vocabulary = small_tokenizer().source_vocabulary
    save_bundle(directory, random_model(1, vocabulary, vocabulary, max_positions=31), small_tokenizer())
    return directory


@pytest.fixture
def export_directory(model_directory, tmp_path):
    loaded = load_bundle(model_directory)
    origin = {"exported": {"sha256": loaded.manifest["sha256"]}}
    convert_to_ctranslate2(loaded.model, loaded.tokenizer, tmp_path / "int8", "int8", vmap=None, **origin)  # pyright: ignore[reportArgumentType]
    return tmp_path / "int8"


@pytest.mark.parametrize(
    ("engine", "precision", "kind"),
    [
        ("torch", "float32", TorchEngine),
        ("torch", "bfloat16", TorchEngine),
        ("ctranslate2", "float32", CTranslate2Engine),
        ("ctranslate2", "int8", CTranslate2Engine),
        ("auto", "float32", CTranslate2Engine),
        ("auto", "int8", CTranslate2Engine),
        ("auto", "bfloat16", TorchEngine),
    ],
)
def test_auto_takes_what_is_fast_and_changes_no_text(model_directory, engine, precision, kind):
    loaded = load(model_directory, precision, engine)
    assert type(loaded.translator.engine) is kind
    assert loaded.translator.models.threads == (1 if kind is CTranslate2Engine else None)
    assert len(loaded.translate(LINES, max_extra=5)) == len(LINES)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_model_that_nobody_holds_leaves_the_memory_at_once(model_directory, engine):
    gc.disable()  # a server replaces models, and Python looks for cycles so seldom that several would be in memory
    try:
        loaded = load(model_directory, engine=engine)
        loaded.translate(LINES, max_extra=5)
        translator = weakref.ref(loaded.translator)
        del loaded
        assert translator() is None
    finally:
        gc.enable()


def test_auto_is_torch_where_ctranslate2_is_not_installed(model_directory, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    loaded = load(model_directory, engine="auto")
    assert type(loaded.translator.engine) is TorchEngine
    assert loaded.translator.models.threads is None, "it is not beside anything"
    for precision, engine in (("float32", "ctranslate2"), ("int8", "auto")):
        with pytest.raises(ValueError, match=r"pip install 'pellucid\[ctranslate2\]'"):
            load(model_directory, precision, engine)


def test_an_export_is_used_with_the_precision_it_has(model_directory, export_directory):
    loaded = load(model_directory, engine="auto", exported=export_directory)
    assert isinstance(loaded.translator.engine, CTranslate2Engine)
    assert loaded.translator.engine.offered is None
    assert len(loaded.translate(LINES, max_extra=5)) == len(LINES)
    with pytest.raises(ValueError, match="is of precision int8, not bfloat16; leave the precision out"):
        load(model_directory, "bfloat16", "auto", exported=export_directory)


def test_an_export_of_another_model_or_a_damaged_one_is_refused(model_directory, export_directory, tmp_path):
    vocabulary = small_tokenizer().source_vocabulary
    save_bundle(tmp_path / "other", random_model(2, vocabulary, vocabulary, max_positions=31), small_tokenizer())
    with pytest.raises(
        ValueError, match=r"int8 was not exported from .*other as it is now; export it again: pellucid export"
    ):
        load(tmp_path / "other", engine="auto", exported=export_directory)
    weights = bytearray((export_directory / "model.bin").read_bytes())
    weights[-9] ^= 1
    (export_directory / "model.bin").write_bytes(weights)
    with pytest.raises(ValueError, match=r"model\.bin was changed after it was written"):
        load(model_directory, engine="auto", exported=export_directory)
    with pytest.raises(ValueError, match="does not exist"):
        load(model_directory, engine="auto", exported=tmp_path / "nowhere")


def test_options_that_do_not_go_together_are_refused(model_directory, export_directory):
    with pytest.raises(ValueError, match="engine is 'onnx', it must be one of auto, torch, ctranslate2"):
        load(model_directory, engine="onnx")
    with pytest.raises(ValueError, match="precision is 'int8', it must be one of float32, bfloat16"):
        load(model_directory, "int8", "torch")
    with pytest.raises(ValueError, match="was exported for CTranslate2; leave it out"):
        load(model_directory, engine="torch", exported=export_directory)
    with pytest.raises(ValueError, match="several models translate together with engine = 'torch' only"):
        load(model_directory, engine="ctranslate2", others=[model_directory])


@pytest.fixture
def pretended_gpus(monkeypatch):
    """Pretend that there are two GPUs; what would go to one runs on the processor, and is listed."""
    asked: list[tuple[str, int, str]] = []
    library = import_ctranslate2()

    def load_on_processor(directory, *, device, device_index, compute_type, **options):
        asked.append((device, device_index, compute_type))
        stored = {"float16": "float32", "int8_float16": "int8"}.get(compute_type, compute_type)
        return library.Translator(directory, compute_type=stored, **options)

    stand_in = SimpleNamespace(
        get_supported_compute_types=lambda device, index: {"float32", "float16", "int8", "int8_float16"},
        Translator=load_on_processor,
    )
    monkeypatch.setattr(ctranslate2_engine, "import_ctranslate2", lambda: stand_in)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch_models, "copy_to_device", lambda model, device: copy.deepcopy(model))
    return asked


@pytest.mark.parametrize(
    ("engine", "precision", "kind", "compute_type"),
    [
        ("auto", "float32", CTranslate2Engine, "float32"),
        ("auto", "float16", CTranslate2Engine, "float16"),
        ("ctranslate2", "int8_float16", CTranslate2Engine, "int8_float16"),
        ("auto", "bfloat16", TorchEngine, None),
        ("torch", "float32", TorchEngine, None),
    ],
)
@pytest.mark.filterwarnings("ignore:precision = bfloat16")
def test_a_gpu_is_given_to_the_engine_that_is_chosen(
    model_directory, pretended_gpus, monkeypatch, engine, precision, kind, compute_type
):
    monkeypatch.setattr(cpu, "has_native_bfloat16", lambda device: True)
    loaded = load(model_directory, precision, engine, device="cuda:1")
    assert type(loaded.translator.engine) is kind
    assert pretended_gpus == ([] if compute_type is None else [("cuda", 1, compute_type)])
    translations = loaded.translate(LINES, max_extra=5)
    if precision == "float32":
        expected = load(model_directory).translate(LINES, max_extra=5)
        assert [translation.text for translation in translations] == [translation.text for translation in expected]


def test_an_export_is_run_on_a_gpu(model_directory, export_directory, pretended_gpus):
    load(model_directory, engine="auto", exported=export_directory, device="cuda")
    assert pretended_gpus == [("cuda", 0, "int8")]


def test_who_looks_into_a_model_finds_it_on_the_processor(model_directory, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch_models, "copy_to_device", lambda model, device: copy.deepcopy(model).to("meta"))
    loaded = load(model_directory, device="cuda")
    [copied] = loaded.translator.models.loaded
    assert {parameter.device.type for parameter in copied.parameters()} == {"meta"}
    assert {parameter.device.type for parameter in loaded.bundle.model.parameters()} == {"cpu"}


def test_a_gpu_without_its_library_is_said_and_torch_takes_over(model_directory, pretended_gpus, monkeypatch):
    def fail(self, device):
        raise ValueError(f"CTranslate2 cannot translate on {device}: Library libcublas.so.12 is not found")

    monkeypatch.setattr(CTranslate2Engine, "_require_gpu_translation", fail)
    with pytest.raises(ValueError, match="libcublas"):
        load(model_directory, engine="ctranslate2", device="cuda")
    with pytest.warns(UserWarning, match="translating with torch, because CTranslate2 cannot translate on cuda"):
        loaded = load(model_directory, engine="auto", device="cuda")
    assert type(loaded.translator.engine) is TorchEngine


def test_a_gpu_that_is_not_there_is_refused(model_directory, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="device is 'cuda:2', and torch finds 2 CUDA devices here"):
        load(model_directory, device="cuda:2")
    for precision in ("float16", "int8_float16"):
        with pytest.raises(ValueError, match=f"precision is {precision}, which only a GPU computes in"):
            load(model_directory, precision)
    with pytest.raises(ValueError, match="precision is 'float16', it must be one of float32, bfloat16"):
        load(model_directory, "float16", "torch", device="cuda")


def test_a_manifest_says_what_sources_the_model_was_trained_on(model_directory, tmp_path):
    loaded = load_bundle(model_directory)
    save_bundle(tmp_path / "short", loaded.model, loaded.tokenizer, longest_source=20)
    assert json.loads((tmp_path / "short" / "manifest.json").read_text())["longest_source"] == 20
    assert load(tmp_path / "short").translator.lengths.longest_trained == 20
    assert load(model_directory).translator.lengths.longest_trained == 31


def test_nvidias_library_is_loaded_from_where_pip_put_it(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(ctranslate2_library.ctypes, "CDLL", lambda path, mode: opened.append(path))
    ctranslate2_library.load_cublas()
    assert opened == []  # a machine without a GPU does not have it

    folder = tmp_path / "nvidia" / "cublas"
    folder.mkdir(parents=True)
    for package in (folder.parent, folder):
        (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    ctranslate2_library.load_cublas()
    assert opened == [str(folder / "lib" / name) for name in ("libcublasLt.so.12", "libcublas.so.12")]
    for name in ("nvidia.cublas", "nvidia"):
        sys.modules.pop(name, None)
