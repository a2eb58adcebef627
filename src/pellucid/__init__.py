"""A Transformer you can see through: train, translate, serve and inspect one on your own sentence pairs."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from pellucid.api import Model as Model
    from pellucid.api import load as load
    from pellucid.api import train as train
    from pellucid.interop.pipeline import pipeline as pipeline

__all__ = ["Model", "load", "pipeline", "train"]


def __getattr__(name: str) -> Any:
    # importlib.metadata and torch are loaded when these names are used, not by `import pellucid`.
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("pellucid")
        except PackageNotFoundError:
            return "0+source"  # run from its source and not installed; PEP 440 reads this, too
    if name == "pipeline":
        from pellucid.interop.pipeline import pipeline

        return pipeline
    if name in __all__:
        from pellucid import api

        return getattr(api, name)
    raise AttributeError(f"module 'pellucid' has no attribute {name!r}; it has {', '.join(__all__)}")


# Modules and folders that stand elsewhere since version 0.3. The old names go with the version after it.
_MOVED = {
    "calibrate": "workflows.calibration",
    "check": "workflows.check",
    "data.noise": "data.pair_noise",
    "decode.ctranslate2_engine": "interop.ctranslate2_engine",
    "decode.engine_choice": "interop.engine_choice",
    "decode.lines": "decode.translation",
    "decode.prepared_lines": "decode.translation",
    "decode.reading": "decode.source_reader",
    "decode.repetition": "decode.stages.repetition",
    "decode.terms.glossary": "localize.terminology",
    "decode.terms.placement": "decode.stages.term_placement",
    "decode.terms.terminology": "localize.terminology",
    "decode.translate": "decode.translator",
    "decode.translation_memory": "localize.translation_memory",
    "distill": "workflows.distillation",
    "documents": "localize.documents",
    "evaluate.alignment": "evaluate.alignment_rates",
    "evaluate.compare": "evaluate.comparison",
    "evaluate.page": "evaluate.comparison_page",
    "evaluate.words": "evaluate.score_words",
    "improve": "workflows.improvement",
    "influence": "interpret.influence",
    "influence.state_store": "training.state_store",
    "inspect": "interpret.studies",
    "interop.lexicon": "interop.shortlists",
    "interpret.page.html": "interpret.page.html_file",
    "interpret.studies.alignment": "interpret.studies.alignment_readings",
    "interpret.studies.attention": "interpret.studies.attention_tables",
    "interpret.studies.heads": "interpret.studies.head_studies",
    "interpret.studies.positions": "interpret.studies.position_tables",
    "interpret.studies.probes": "interpret.studies.probing",
    "interpret.studies.words": "interpret.studies.word_vectors",
    "mini": "demo.mini",
    "page": "interpret.page",
    "phrasebook": "demo.phrasebook",
    "plan": "workflows.plan",
    "plots": "interpret.plots",
    "processor": "cpu",
    "serve.files": "serve.uploads",
    "text": "data.text",
    "trace": "interpret.trace",
    "train": "training",
    "training.evaluate": "training.dev_evaluation",
    "training.prepare": "training.shard_writing",
    "training.stages": "training.schedule",
    "translation_pipeline": "interop.pipeline",
    "workflows.calibrate": "workflows.calibration",
    "workflows.check.page": "workflows.check.check_page",
    "workflows.distill": "workflows.distillation",
    "workflows.improve": "workflows.improvement",
}


def _find_new_name(name: str) -> str | None:
    """Return where a module stands that has moved, perhaps twice; None for any other."""
    new = None
    parts = name.split(".")
    end = len(parts)
    while end:
        moved = _MOVED.get(".".join(parts[:end]))
        if moved is None:
            end -= 1
            continue
        # The folder has moved, and in it the file may have another name.
        parts = [*moved.split("."), *parts[end:]]
        new = ".".join(parts)
        end = len(parts)
    return new


class _OldNames:
    """Imports moved modules under their old names, and says the new ones: a finder and loader of importlib."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to import a module that has moved; None for any other."""
        package, _, name = fullname.partition(".")
        if package != "pellucid":
            return None
        new = _find_new_name(name)
        if new is None:
            return None
        loader: Any = self
        return ModuleSpec(fullname, loader, origin=f"pellucid.{new}", is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, or for the folder train/ a module that can still be called."""
        import warnings
        from importlib import import_module

        new = str(spec.origin)
        if spec.name != "pellucid.train":  # which is a function, too, and is not named here
            sentence = f"{spec.name} is {new} now; the old name goes with the next version"
            warnings.warn(sentence, FutureWarning, stacklevel=5)
        module = import_module(new)
        self.kept_spec = module.__spec__
        return _CallableFolder(spec.name) if spec.name == "pellucid.train" else module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing but put the module's own description back: it was executed under its new name."""
        if not isinstance(module, _CallableFolder):
            module.__spec__ = self.kept_spec


class _CallableFolder(ModuleType):
    """The old folder train/, whose import must not take the place of the function `pellucid.train`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from pellucid import api

        return api.train(*arguments, **options)


# First: the usual finder would find a file by the path of a moved folder, and load it a second time.
sys.meta_path.insert(0, _OldNames())
