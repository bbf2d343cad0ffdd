"""The tokenizer and model that a run starts with: what does not go together is told beforehand."""

import json
import shutil
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from tests.training.runs import RECIPE, results_of, write_pairs
from training.data import files
from training.loop.model import load_tokenizer, set_trained_length
from training.run import main
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, cli, train_tokenizer


SIZES = {"d_model": 32, "d_ff": 64, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trained model with its tokenizer, another tokenizer with fewer pieces, and text."""
    folder = tmp_path_factory.mktemp("start")
    (folder / "tiny.yaml").write_text(RECIPE.replace("steps: 2", "steps: 1"))
    write_pairs(folder / "a.tsv", 40)
    tokenizer = train_tokenizer([folder / "a.tsv"], 300, show_progress=False)
    tokenizer.save_pretrained(folder / "model")
    config = VaswaniConfig(vocab_size=len(tokenizer), **SIZES)
    VaswaniForConditionalGeneration(config).save_pretrained(folder / "model")
    train_tokenizer([folder / "a.tsv"], 270, show_progress=False).save_pretrained(folder / "other")
    (folder / "empty").mkdir()
    (folder / "torn").mkdir()
    (folder / "torn" / "tokenizer.json").write_text('{"version": ')
    (folder / "torn" / "tokenizer_config.json").write_text("{}")
    shutil.copytree(folder / "model", folder / "two")
    tokenizer.save_pretrained(folder / "two" / "target_tokenizer")
    shutil.copytree(folder / "two", folder / "small")
    few = VaswaniConfig(**SIZES, target_vocab_size=20, share_embeddings=False, vocab_size=300)
    VaswaniForConditionalGeneration(few).save_pretrained(folder / "small")
    return folder


def command(folder, *options):
    text = ["--train_file", str(folder / "a.tsv"), "--max_steps", "1", "--average_last", "1"]
    return [str(folder / "tiny.yaml"), *text, *options]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--model_name_or_path model --d_model 64", "d_model=64 differs from the 32 of .*model"),
        ("--model_name_or_path model --dropout 1.5", "dropout=1.5"),
        (
            "--model_name_or_path model --tokenizer other",
            "tokenizer=.*other is not that of",
        ),
        ("--model_name_or_path empty", "empty"),
        (
            "--model_name_or_path two --tokenizer model",
            "tokenizer=.*model is not that of .*two: one of them has a target_tokenizer/",
        ),
        ("--model_name_or_path small", "The tokenizer .*small has 300 pieces and .*small 20"),
        ("--tokenizer empty", "empty has no tokenizer that can be loaded"),
        ("--tokenizer torn", "torn has no tokenizer that can be loaded"),
        ("--tokenizer no/where/else", "tokenizer=no/where/else is neither a folder nor an id"),
        ("--tokenizer nobody/nothing", "Could not fetch the tokenizer nobody/nothing"),
        ("--model_name_or_path nobody/nothing", "Could not fetch nobody/nothing"),
    ],
)
def test_what_does_not_go_together_is_refused_before_the_text_is_read(
    folder, tmp_path, options, message, monkeypatch
):
    monkeypatch.setattr(files, "read_pairs", None)  # a call would be a TypeError
    given = [str(folder / word) if (folder / word).is_dir() else word for word in options.split()]
    with pytest.raises(SystemExit, match=f"^training/run.py: .*{message}"):
        main(command(folder, "--output_dir", str(tmp_path / "out"), *given))
    assert not (tmp_path / "out").exists()


def test_a_trained_model_that_is_damaged_is_told_before_training(folder, tmp_path):
    shutil.copytree(folder / "model", tmp_path / "torn")
    tensors = load_file(tmp_path / "torn" / "model.safetensors")
    tensors["model.encoder.layers.0.feed_forward.inner.bias"][3] = float("inf")
    save_file(tensors, tmp_path / "torn" / "model.safetensors", {"format": "pt"})
    start = ["--model_name_or_path", str(tmp_path / "torn")]
    with pytest.raises(SystemExit, match=r"1 of the 64 values of .* NaN or infinite"):
        main(command(folder, "--output_dir", str(tmp_path / "out"), *start))


def tagged(folder):
    place = {"name": "a", "train_file": str(folder / "a.tsv"), "source_tag": "<bt>"}
    corpora = ["--corpora", json.dumps(place)]
    return [str(folder / "tiny.yaml"), *corpora, "--max_steps", "1", "--average_last", "1"]


def test_a_tag_is_added_to_a_tokenizer_but_not_to_a_trained_model(folder, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        model = str(folder / "model")
        main([*tagged(folder), "--model_name_or_path", model, "--output_dir", str(tmp_path / "o")])
    told = str(ended.value)
    assert f"source_tag=<bt> is no piece of {model}; add it by" in told
    command = f"vocabulary extend {model} {tmp_path / 'new'} --source_tags <bt>"
    assert command.replace(str(tmp_path / "new"), "NEW").replace("<bt>", "'<bt>'") in told
    assert cli.main(command.split()) == 0
    for name, start in [
        ("--model_name_or_path", tmp_path / "new"),
        ("--tokenizer", folder / "model"),
    ]:
        output = tmp_path / name
        main([*tagged(folder), name, str(start), "--output_dir", str(output)])
        tokenizer = load_tokenizer(output)
        assert len(tokenizer) == len(load_tokenizer(folder / "model")) + 1
        assert tokenizer.convert_tokens_to_ids("<bt>") == len(tokenizer) - 1


def test_a_model_of_another_type_is_refused(folder, tmp_path):
    from transformers import MarianConfig, MarianMTModel

    sizes = {"encoder_attention_heads": 1, "decoder_attention_heads": 1, "vocab_size": 9}
    sizes |= {"encoder_layers": 1, "decoder_layers": 1, "pad_token_id": 0, "d_model": 8}
    MarianMTModel(
        MarianConfig(**sizes, decoder_start_token_id=0, encoder_ffn_dim=8, decoder_ffn_dim=8)
    ).save_pretrained(tmp_path / "marian")
    start = ["--model_name_or_path", str(tmp_path / "marian")]
    with pytest.raises(SystemExit, match="is a model of type marian; training needs type vaswani"):
        main(command(folder, "--output_dir", str(tmp_path / "out"), *start))


def test_the_models_own_tokenizer_may_be_named_beside_it(folder, tmp_path):
    start = ["--model_name_or_path", str(folder / "model"), "--tokenizer", str(folder / "model")]
    main(command(folder, "--output_dir", str(tmp_path / "out"), *start, "--learning_rate", "0"))
    assert results_of(tmp_path / "out")["training"]["updates"] == 1


LONG = "ab " * 40


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_pair_beyond_the_learned_positions_is_named_before_training(
    folder, tmp_path, split, side
):
    pair = f"{LONG}\tab\n" if side == "source" else f"ab\t{LONG}\n"
    (tmp_path / "long.tsv").write_text(f"ab\tba\n{pair}")
    learned = ["--position_encoding", "learned", "--max_position_embeddings", "30"]
    options = [*learned, "--output_dir", str(tmp_path / "out")]
    text = ["--train_file", str(folder / "a.tsv"), str(tmp_path / "long.tsv")]
    if split != "train":
        text = [
            "--train_file",
            str(folder / "a.tsv"),
            f"--{split}_file",
            str(tmp_path / "long.tsv"),
        ]
    place = 41 if split == "train" else 1  # 40 pairs are before it
    message = f"Pair {place} of split {split} has [4-9][0-9] {side} tokens but max_position_embeddi"
    with pytest.raises(SystemExit, match=message):
        main([str(folder / "tiny.yaml"), *text, *options, "--max_steps", "1"])
    assert not (tmp_path / "out" / "config.yaml").exists()


def test_learned_positions_bound_a_translation_too(folder, tmp_path):
    (tmp_path / "test.tsv").write_text(f"{'ab ' * 15}\tab\n")
    learned = ["--position_encoding", "learned", "--max_position_embeddings", "30"]
    text = ["--test_file", str(tmp_path / "test.tsv"), "--output_dir", str(tmp_path / "out")]
    main(command(folder, *text, *learned))
    assert results_of(tmp_path / "out")["scores"]["test"]["sentences"] == 1


def test_a_pair_longer_than_a_batch_is_named_before_the_folder_is_written(folder, tmp_path):
    small = ["--source_tokens", "5", "--output_dir", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match=r"Pair \d+ of split train has \d+ source tokens but a b"):
        main(command(folder, *small))
    assert not (tmp_path / "out" / "config.yaml").exists()


@pytest.mark.parametrize(("name", "expected"), [(None, 20), ("runs/before", 50)])
def test_a_trained_model_still_knows_the_longer_sources_of_before(folder, name, expected):
    tokenizer = load_tokenizer(folder / "model")
    tokenizer.model_max_length = 50
    training = SimpleNamespace(model_name_or_path=name)
    set_trained_length(tokenizer, 20, SimpleNamespace(training=training))
    assert tokenizer.model_max_length == expected


def test_dropout_of_a_tokenizer_that_is_named_is_turned_off(tmp_path):
    tokenizer = train_tokenizer(["a b ab"], 270, are_files=False, show_progress=False)
    tokenizer.backend_tokenizer.model.dropout = 0.5
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).backend_tokenizer.model.dropout == 0.5
    assert load_tokenizer(tmp_path).backend_tokenizer.model.dropout is None
