import pytest

from tests.training.runs import RECIPE, write_pairs


@pytest.fixture
def folder(tmp_path):
    """A recipe and text: 40 pairs to train on, 7 to validate on."""
    (tmp_path / "tiny.yaml").write_text(
        RECIPE.replace('eval_strategy: "no"', "eval_strategy: steps\neval_steps: 2")
        .replace("gradient_accumulation_steps: 2\n", "")
        .replace("average_last: 2", "average_last: 1")
    )
    write_pairs(tmp_path / "a.tsv", 40)
    write_pairs(tmp_path / "v.tsv", 7, seed=1)
    return tmp_path
