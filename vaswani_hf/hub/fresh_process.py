# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -P fresh_process.py NAME REVISION SENTENCES: translate without this package.

`SENTENCES` is a list in JSON, and so is what is printed. This file imports nothing of the package:
the model's code comes from the Hub like its weights.
"""

import json
import sys
from typing import Any

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import cached_file, has_file


SUBFOLDER = "target_tokenizer"
ADAPTER_CONFIG = "adapter_config.json"


def load(name: str, **options: Any) -> tuple[PreTrainedModel, Any, Any]:
    """The model of a folder or Hub id, or an adapter's with its base; and both tokenizers.

    The tokenizers of an adapter that has none are its base's.
    """
    if has_file(name, ADAPTER_CONFIG, **options):
        # The library would look for the adapter's revision among those of the base.
        path = cached_file(name, ADAPTER_CONFIG, **options)
        with open(str(path), encoding="utf-8") as file:
            settings = json.load(file)
        base = settings["base_model_name_or_path"]
        of_base = {"revision": settings.get("revision") or "main"}
        model = AutoModelForSeq2SeqLM.from_pretrained(base, trust_remote_code=True, **of_base)
        model.load_adapter(name, adapter_kwargs=options)
        if not has_file(name, "tokenizer_config.json", **options):
            name, options = base, of_base
    else:
        model = AutoModelForSeq2SeqLM.from_pretrained(name, trust_remote_code=True, **options)
    tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **options)
    if not has_file(name, f"{SUBFOLDER}/tokenizer_config.json", **options):
        return model, tokenizer, tokenizer
    # An empty config keeps the library from looking for one in the subfolder.
    return (
        model,
        tokenizer,
        AutoTokenizer.from_pretrained(
            name, subfolder=SUBFOLDER, config=PreTrainedConfig(), **options
        ),
    )


@torch.inference_mode()
def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    target_tokenizer: PreTrainedTokenizerBase,
    sentences: list[str],
) -> list[str]:
    """Translations by the model's generation config, one batch."""
    batch = tokenizer(sentences, return_tensors="pt", padding=True)
    return target_tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)


if __name__ == "__main__":
    translations = translate(*load(sys.argv[1], revision=sys.argv[2]), json.loads(sys.argv[3]))
    sys.stdout.write(json.dumps(translations) + "\n")
