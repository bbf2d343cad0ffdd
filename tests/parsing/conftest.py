import pytest
import torch

from tests.parsing.treebank import SENTENCES
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.parsing import linearize, tree_of_text
from vaswani_hf.parsing.constraint import tree_words


@pytest.fixture(scope="session")
def unlearned_parser():
    """A model that has learned nothing, and a tokenizer that knows the words of trees."""
    trees = [tree_of_text(text) for text in SENTENCES]
    tokenizer = train_tokenizer(
        [" ".join(tree.words()) for tree in trees] * 3,
        vocab_size=340,
        are_files=False,
        whole_words=tree_words([linearize(tree) for tree in trees]),
        show_progress=False,
    )
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(
            vocab_size=len(tokenizer),
            d_model=16,
            d_ff=32,
            num_heads=2,
            encoder_layers=1,
            decoder_layers=1,
        )
    )
    model.generation_config.max_extra_tokens = 40
    return model.eval(), tokenizer
