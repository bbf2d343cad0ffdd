"""The settings of BLEU."""

import pytest

from training.settings.reading import parse_arguments


@pytest.mark.parametrize(
    ("name", "tokenizer", "message"),
    [
        ("bleu_tokenize", "banana", "sacrebleu's tokenizers"),
        ("compound_split_bleu", "13a", "would come after it; set tokenize to 'none'"),
    ],
)
def test_an_invalid_tokenizer_is_refused_by_its_setting(name, tokenizer, message):
    with pytest.raises(ValueError, match=f"^{name}={tokenizer}: .*{message}"):
        parse_arguments(["base", f"--{name}", tokenizer])
