# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Names of what a model's folder holds, of folders and of repositories."""

from os import PathLike
from pathlib import Path


# The model's code, which `trust_remote_code=True` loads. The files import only each other, torch,
# transformers and huggingface_hub.
REMOTE_CODE = (
    "configuration_vaswani.py",
    "modeling_vaswani.py",
    "pipeline_vaswani.py",
    "generation_vaswani.py",
    "beam_search_vaswani.py",
    "beam_cache_vaswani.py",
    "search_settings_vaswani.py",
    "greedy_search_vaswani.py",
    "decoding_vaswani.py",
    "layers_vaswani.py",
    "loss_vaswani.py",
)
AUTO_MAP = {
    "AutoConfig": "configuration_vaswani.VaswaniConfig",
    "AutoModel": "modeling_vaswani.VaswaniModel",
    "AutoModelForSeq2SeqLM": "modeling_vaswani.VaswaniForConditionalGeneration",
}
# The entry of `custom_pipelines` in a configuration, as the library writes it.
PIPELINE = {
    "impl": "pipeline_vaswani.VaswaniTranslationPipeline",
    "pt": ["AutoModelForSeq2SeqLM"],
    "type": "text",
}
TARGET_TOKENIZER = "target_tokenizer"  # the subfolder, where the target has one of its own
# Entries of a tokenizer's configuration that was made of Marian's, so that Marian's can be made of
# it again: the file beside it that is the SentencePiece model, and settings.
SENTENCEPIECE, SETTINGS_OF_MARIAN = "sentencepiece_model", ("source_lang", "target_lang")
# What PEFT writes of an adapter, in place of a model's config.json and weights.
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# What training/run.py leaves beside a model.
RESULTS, RECIPE, CURVES = "results.json", "config.yaml", "log_history.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")  # reading such files can run code


def check_name(name: str | PathLike[str], revision: str | None = None) -> None:
    """Refuse what cannot name a model, before anything is loaded or fetched.

    Args:
        name: a folder, or an id on the Hub, such as `org/name`.
        revision: branch, tag or commit on the Hub.

    Raises:
        ValueError: if there is no such folder and the name is no possible id, or `revision` is
            given with a folder.
    """
    if Path(name).is_dir():
        if revision is not None:
            raise ValueError(f"revision={revision} is for models on the Hub; {name} is a folder.")
        return
    if Path(name).exists():
        raise ValueError(f"{name} is a file; name a model's folder.")
    repo_id = str(name)
    try:
        check_repo_id(repo_id)
    except ValueError:
        raise ValueError(
            f"There is no folder {name}, and {name!r} is not a valid id on the Hub."
        ) from None
    owner, slash, rest = repo_id.partition("/")
    if slash and Path(owner).is_dir():  # most likely a misspelt path
        raise ValueError(
            f"There is no {rest} in the folder {owner}. If {name} is an id on the Hub, run this "
            f"where no folder is called {owner}."
        )


def check_push(folder: str | PathLike[str], repo_id: str) -> None:
    """Refuse what cannot be pushed by its name, before anything is loaded.

    Raises:
        ValueError: if there is no such folder, or the name of the repository is invalid.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"There is no folder {folder}.")
    check_repo_id(repo_id)


def check_repo_id(repo_id: str) -> None:
    """Raise a `ValueError` if the Hub would not take this name of a repository."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(f"{repo_id} is not a valid name of a repository: {error}") from None
