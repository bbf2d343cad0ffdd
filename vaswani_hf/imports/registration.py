# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Registration with the library's Auto classes and with `pipeline()`, as late as it can be.

The library's modules of these take seconds to import, our model's as long again. So nothing is
imported for the registration: it waits until the library's modules are imported by somebody. The
mappings of models then hold stand-ins, because modules that our model's file imports may be half
imported at that moment; once that file is imported too, they hold the classes themselves.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


AUTO_CONFIG = "transformers.models.auto.configuration_auto"
AUTO_MODELS = "transformers.models.auto.modeling_auto"
PIPELINES = "transformers.pipelines"
CONFIGURATION = "vaswani_hf.configuration_vaswani"
MODELS = "vaswani_hf.modeling_vaswani"
PIPELINE = "vaswani_hf.pipeline_vaswani"
WATCHED = (AUTO_CONFIG, AUTO_MODELS, MODELS, PIPELINES, PIPELINE)
CLASSES = {
    "AutoModel": "VaswaniModel",
    "AutoModelForSeq2SeqLM": "VaswaniForConditionalGeneration",
}


def register() -> None:
    """Make model and pipeline known to the library, or see to it that they will be in time."""
    watch = Watch()
    # First of all finders, and before the question what is imported: another thread may import it.
    sys.meta_path.insert(0, watch)
    for name in WATCHED:
        if name in sys.modules:
            importlib.import_module(name)  # waits for a thread that is still at it
            watch.note(name)


class Watch:
    """A finder of modules that registers the model when those that it waits for are imported."""

    def __init__(self) -> None:
        self.imported: set[str] = set()

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders after this one find, with our `Loader` for what is waited for."""
        if name not in WATCHED:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = Loader(spec.loader, self)  # type: ignore[assignment]
                return spec
        return None

    def note(self, name: str) -> None:
        """Register what can be, when the module of this name is imported."""
        self.imported.add(name)
        if name == AUTO_CONFIG:
            config = importlib.import_module(CONFIGURATION).VaswaniConfig
            sys.modules[AUTO_CONFIG].AutoConfig.register(config.model_type, config, exist_ok=True)
        elif name == PIPELINES:
            if PIPELINE not in sys.modules:  # which else is what imports the library's
                importlib.import_module(PIPELINE)
        elif name == PIPELINE:
            self._register_pipeline()
        elif AUTO_MODELS in self.imported:
            config = importlib.import_module(CONFIGURATION).VaswaniConfig
            for auto_class, model_class in CLASSES.items():
                model = (
                    getattr(sys.modules[MODELS], model_class)
                    if MODELS in self.imported
                    else StandIn(model_class, (), {"__module__": MODELS, "config_class": config})
                )
                getattr(sys.modules[AUTO_MODELS], auto_class).register(config, model, exist_ok=True)

    def _register_pipeline(self) -> None:
        registry = sys.modules[PIPELINES].PIPELINE_REGISTRY
        task = importlib.import_module(CONFIGURATION).TRANSLATION_TASK
        if task not in registry.supported_tasks:  # the library warns of a second time
            registry.register_pipeline(
                task,
                pipeline_class=sys.modules[PIPELINE].VaswaniTranslationPipeline,
                pt_model=sys.modules[AUTO_MODELS].AutoModelForSeq2SeqLM,
                type="text",
            )


class Loader:
    """Loads a module as its own loader does, and then tells the watch."""

    def __init__(self, loader: Any, watch: Watch) -> None:
        self.loader = loader
        self.watch = watch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.watch.note(module.__name__)


class StandIn(type):
    """A class of the model's that is not imported yet; any use of it imports the class."""

    def __getattr__(cls, name: str) -> Any:
        return getattr(getattr(importlib.import_module(MODELS), cls.__name__), name)
