"""A training on trees, from their files to a folder that parses."""

import pytest

from tests.parsing.treebank import SENTENCES
from tests.training.runs import RECIPE, results_of, run_here


PARSING = """
task: parsing
numbers_in_trees: true
numbers_from_end: true
guided_alignment_of_trees: true
train_trees: [{folder}/trees]
validation_trees: [{folder}/trees]
vocab_size: 740
d_model: 16
max_steps: 4
eval_strategy: steps
eval_steps: 4
max_extra_tokens: 16
constrained_search: true
metric_for_best_model: f1
save_total_limit: 3
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of four updates, and what it wrote to the log."""
    folder = tmp_path_factory.mktemp("parsing")
    (folder / "trees").write_text("".join(f"{line}\n" for line in SENTENCES * 5))
    recipe = RECIPE.replace('eval_strategy: "no"\n', "").replace("d_model: 32\n", "")
    recipe = recipe.replace("vocab_size: 300\n", "")
    (folder / "tiny.yaml").write_text(recipe + PARSING.format(folder=folder))
    done = run_here(str(folder / "tiny.yaml"), "--output_dir", str(folder / "run"))
    return folder / "run", done


def test_a_run_is_scored_by_f1(trained):
    output, done = trained
    scores = results_of(output)["scores"]["validation"]
    assert 0 <= scores["f1"] <= 100
    assert scores["sentences"] == 20 and "bleu" not in scores
    # The search was constrained.
    assert scores["well_formed"] == 1
    assert not any(scores["repairs"].values())
    assert [one["sentences"] for one in scores["by_words"]] == [20]
    assert results_of(output)["training"]["best_checkpoint"]["update"] == 4
    assert "validation: F1" in done.stdout and "vaswani-hf parse --model" in done.stdout
    assert results_of(output)["samples"][0]["reference"] == SENTENCES[0]


def test_the_card_is_that_of_a_parser(trained):
    card = (trained[0] / "README.md").read_text()
    assert "This model parses sentences" in card
    assert "| validation | 20 |" in card and "EVALB" in card
    assert "BLEU" not in card and "vaswani-hf translate" not in card


@pytest.mark.parametrize("constrained", [True, False])
def test_the_folder_parses(trained, constrained):
    from vaswani_hf.parsing import TreeParser

    parser = TreeParser.from_pretrained(trained[0], constrained=constrained)
    sentences = ["the cat ( sees ) unknown\u2581words .", "", "dog"]
    trees = parser(sentences, tokenized=True)
    words = "the cat -LRB- sees -RRB- unknown\u2581words .".split(" ")
    assert [tree and tree.words() for tree in trees] == [words, None, ["dog"]]
    assert list(parser.stream(sentences, tokenized=True, chunk_sentences=2)) == trees
