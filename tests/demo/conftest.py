import sys

import pytest

from tests.conftest import REPOSITORY
from tests.small_models import small_model
from vaswani_hf import train_tokenizer
from vaswani_hf.hub.folder import export


# As for `python demo/app.py`.
sys.path.insert(0, str(REPOSITORY / "demo"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that has learned nothing; what it says differs from sentence to sentence."""
    tokenizer = train_tokenizer(["a b c d e f g"] * 3, 300, are_files=False, show_progress=False)
    model = small_model(
        vocab_size=len(tokenizer), position_encoding="sinusoidal", max_position_embeddings=512
    )
    model.generation_config.max_extra_tokens = 3
    path = tmp_path_factory.mktemp("untrained")
    export(model, tokenizer, path)
    return path
