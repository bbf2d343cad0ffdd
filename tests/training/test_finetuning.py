"""Other people's models, trained further: two vocabularies, or a tokenizer that is slow."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoTokenizer, ByT5Tokenizer, MarianConfig, MarianMTModel

from tests.conversion.marian_tokenizers import marian_tokenizer_of
from tests.training.runs import RECIPE, results_of, run_here, write_pairs
from training.data import encoding
from training.data.corpus import load_corpus
from training.data.encoding import encode_pairs
from training.data.streaming import TokenBatchStream
from training.settings.fields import DataArguments
from training.settings.reading import parse_arguments
from vaswani_hf import Translator, VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.conversion import from_marian, to_ctranslate2, to_marian
from vaswani_hf.translation.ctranslate2 import CTranslate2Translator
from vaswani_hf.translation.loading import load_tokenizers


SMALL = [
    *("--source_tokens", "200", "--target_tokens", "200", "--use_cpu", "true", "--num_beams", "2"),
    *("--disable_tqdm", "true", "--eval_steps", "3", "--save_steps", "3", "--warmup_steps", "2"),
    *("--max_extra_tokens", "3", "--learning_rate", "1e-3", "--length_penalty_type", "power"),
]


STREAMING = [
    *("base", "--streaming", "true", "--max_steps", "3", "--max_length", "100", "--use_cpu"),
    *("true", "--source_tokens", "200", "--target_tokens", "200"),
]


def marian_model(tokenizer, **settings):
    """One as OPUS-MT's are: swish, a bias of the output; of random weights."""
    torch.manual_seed(0)
    both = {"attention_heads": 2, "ffn_dim": 24}
    sides = {f"{side}_{key}": both[key] for side in ("encoder", "decoder") for key in both}
    model = MarianMTModel(
        MarianConfig(
            **{
                **{"vocab_size": len(tokenizer.encoder), "d_model": 16, **sides},
                **{"encoder_layers": 1, "decoder_layers": 1, "activation_function": "swish"},
                **{
                    "forced_eos_token_id": None,
                    "max_position_embeddings": 100,
                    "scale_embedding": True,
                    "eos_token_id": 0,
                },
                "pad_token_id": tokenizer.pad_token_id,
                "decoder_start_token_id": tokenizer.pad_token_id,
                **settings,
            }
        )
    )
    with torch.no_grad():
        model.final_logits_bias.normal_()
    return model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Text, a Marian folder with two vocabularies, and what `convert --from marian` makes of it."""
    folder = tmp_path_factory.mktemp("tuning")
    for number, name in enumerate(("mine", "general", "valid", "test")):
        write_pairs(folder / f"{name}.tsv", 60 if number < 2 else 5, seed=number)
    pairs = [line.split("\t") for line in (folder / "mine.tsv").read_text().splitlines()]
    sources, targets = zip(*pairs, strict=True)
    (folder / "spm").mkdir()
    tokenizer = marian_tokenizer_of(
        folder / "spm", sources, [*targets, "fgh hgf"], separate_vocabs=True, vocab_size=40
    )
    sizes = {"decoder_vocab_size": len(tokenizer.target_encoder)}
    model = marian_model(tokenizer, **sizes, share_encoder_decoder_embeddings=False)
    model.save_pretrained(folder / "marian")
    tokenizer.save_pretrained(folder / "marian")
    from_marian(folder / "marian", folder / "model")
    return folder


def finetune(place, output, *more, status=0):
    text = [
        *("--validation_file", str(place / "valid.tsv"), "--test_file", str(place / "test.tsv")),
        *("--general_file", str(place / "test.tsv"), "--output_dir", str(output)),
    ]
    return run_here("finetune", *text, *SMALL, *more, status=status)


@pytest.fixture(scope="module")
def tuned(place):
    """That model, trained further on text of one's own with general text mixed in."""
    corpora = [
        {"name": name, "weight": weight, "train_file": str(place / f"{name}.tsv")}
        for name, weight in (("mine", 2), ("general", 1))
    ]
    done = finetune(
        place,
        *(place / "tuned", "--model_name_or_path", str(place / "model"), "--max_steps", "6"),
        *("--corpora", *map(json.dumps, corpora)),
    )
    return SimpleNamespace(folder=place / "tuned", done=done, results=results_of(place / "tuned"))


def test_the_tokenizers_of_both_sides_go_through_a_run(place, tuned):
    marian = AutoTokenizer.from_pretrained(place / "marian")
    texts = ["ab cd", "dcba ed"]
    for folder in (place / "model", tuned.folder, *tuned.folder.glob("checkpoint-*")):
        tokenizer, target_tokenizer = load_tokenizers(folder)
        assert tokenizer(texts)["input_ids"] == marian(texts)["input_ids"], folder
        assert target_tokenizer(texts)["input_ids"] == marian(text_target=texts)["input_ids"]


def test_the_scores_before_and_after_are_told(place, tuned):
    results = tuned.results
    assert set(results["scores_before"]) == {"general", "test"}
    # The same sentences, by the model as it came and as it went.
    before = Translator.from_pretrained(place / "model", device="cpu")
    after = Translator.from_pretrained(tuned.folder, device="cpu")
    lines = (place / "test.tsv").read_text().splitlines()
    sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
    for translator, key in ((before, "scores_before"), (after, "scores")):
        found = translator.score(list(sources), list(targets))
        loss = -sum(each.log_prob for each in found) / sum(len(each.ids) for each in found)
        for split in ("general", "test"):
            assert results[key][split]["loss_nats_per_token"] == pytest.approx(loss, abs=1e-4)
    told = results["scores_before"]["general"]["bleu"], results["scores"]["general"]["bleu"]
    assert f"general: BLEU {told[0]:.2f} before, {told[1]:.2f} after" in tuned.done.stdout
    card = (tuned.folder / "README.md").read_text()
    assert f"| general | {told[0]:.2f} | {told[1]:.2f} |" in card


def test_a_resumed_run_keeps_the_scores_of_before(place, tuned, tmp_path):
    shutil.copytree(tuned.folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint-6")
    (tmp_path / "run" / "results.json").unlink()
    corpora = json.loads(json.dumps(tuned.results["chosen"]["corpora"]))
    finetune(
        place,
        *(tmp_path / "run", "--model_name_or_path", str(place / "model"), "--max_steps", "6"),
        *("--corpora", *corpora, "--resume_from_checkpoint", "auto"),
    )
    resumed = results_of(tmp_path / "run")
    assert resumed["training"]["resumed_from"].endswith("checkpoint-3")
    assert resumed["scores_before"] == tuned.results["scores_before"]
    assert resumed["training"]["elapsed_seconds"] > resumed["training"]["seconds"] > 0


def test_the_tuned_model_goes_back_to_marian_and_to_ctranslate2(place, tuned, tmp_path):
    sources = [line.split("\t")[0] for line in (place / "mine.tsv").read_text().splitlines()]
    to_marian(tuned.folder, tmp_path / "marian")
    marian = MarianMTModel.from_pretrained(tmp_path / "marian")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "marian")
    assert type(tokenizer).__name__ == "MarianTokenizer"
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "marian" / name).read_bytes() == (place / "marian" / name).read_bytes()
    batch = tokenizer(sources, return_tensors="pt", padding=True)
    assert marian.config.activation_function == "swish" and marian.final_logits_bias.any()
    theirs = marian.generate(**batch, max_new_tokens=10, num_beams=1)
    ours = Translator.from_pretrained(tuned.folder, device="cpu", num_beams=1)
    ids = ours.model.generate(**batch, max_new_tokens=10, num_beams=1)
    assert theirs.tolist() == ids.tolist()
    to_ctranslate2(tuned.folder, tmp_path / "fast")
    options = {"num_beams": 1, "max_extra_tokens": 4}
    found = CTranslate2Translator(tmp_path / "fast", **options)(sources)
    assert found == Translator.from_pretrained(tuned.folder, device="cpu", **options)(sources)
    assert any(found)


def test_a_stream_encodes_the_targets_by_their_own_tokenizer(place):
    arguments = parse_arguments([*STREAMING, "--train_file", str(place / "mine.tsv")])
    tokenizers = load_tokenizers(place / "model")
    stream = TokenBatchStream(
        *(load_corpus(arguments.data), tokenizers[0], arguments.data, arguments.training),
        target_tokenizer=tokenizers[1],
    )
    batches = iter(stream)
    rows = next(batches)
    batches.close()
    lines = [line.split("\t") for line in (place / "mine.tsv").read_text().splitlines()]
    marian = AutoTokenizer.from_pretrained(place / "marian")
    known = {
        tuple(marian(source)["input_ids"]): marian(text_target=target)["input_ids"]
        for source, target in lines
    }
    for row in rows:
        assert row["labels"] == known[tuple(row["input_ids"])]


def test_another_target_tokenizer_does_not_find_the_encoded_text(place):
    pairs = load_corpus(DataArguments(train_file=[str(place / "mine.tsv")])).splits["train"]
    tokenizer, target_tokenizer = load_tokenizers(place / "model")
    labels = [
        encode_pairs(pairs, tokenizer, target_tokenizer=own)["labels"][:5]
        for own in (None, target_tokenizer)
    ]
    assert labels[0] != labels[1]


def test_what_a_slow_tokenizer_encoded_is_found_again(place, monkeypatch):
    pairs = load_corpus(DataArguments(train_file=[str(place / "mine.tsv")])).splits["train"]
    first, again = (AutoTokenizer.from_pretrained(place / "marian") for _ in range(2))
    expected = encode_pairs(pairs, first)[:]
    assert expected["labels"] == first(text_target=pairs["target"][:])["input_ids"]
    monkeypatch.setattr(encoding, "encode_texts", None)  # a call would be a TypeError
    assert encode_pairs(pairs, again)[:] == expected


def test_a_slow_tokenizer_trains_too(place, tmp_path):
    tokenizer = ByT5Tokenizer()
    sizes = {"d_model": 16, "d_ff": 24, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(vocab_size=len(tokenizer), **sizes, **ids)
    )
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    text = ["--train_file", str(place / "mine.tsv"), "--test_file", str(place / "test.tsv")]
    start = ["--model_name_or_path", str(tmp_path / "model"), "--output_dir", str(tmp_path / "out")]
    for name in sizes:
        start += [f"--{name}", str(sizes[name])]
    run_here(str(tmp_path / "tiny.yaml"), *text, *start, "--max_steps", "4")
    assert results_of(tmp_path / "out")["scores"]["test"]["sentences"] == 5
    found = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert found("ab")["input_ids"] == tokenizer("ab")["input_ids"]


def test_the_recipe_needs_a_model_and_a_validation_set(place, tmp_path):
    done = finetune(place, tmp_path / "out", "--train_file", str(place / "mine.tsv"), status=1)
    assert "The recipe finetune goes on from a trained model: set model_name_or_path" in done.stderr
    with pytest.raises(ValueError, match="early_stopping_patience=5 needs a validation set"):
        parse_arguments(
            ["finetune", "--model_name_or_path", "x", "--train_file", str(place / "mine.tsv")]
        )
