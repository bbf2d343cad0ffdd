import json
import random
import shutil

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from tests.training.runs import RECIPE, results_of, run_here, write_pairs
from training.data.collating import ArrowPairs, PairCollator
from training.data.corpus import load_corpus
from training.data.encoding import encode_pairs
from training.data.mixing import clean_and_mix
from training.loop import distillation
from training.loop.distillation import with_teacher
from training.loop.model import load_tokenizers
from training.settings.budget import TokenBudget
from training.settings.fields import DataArguments, VaswaniTrainingArguments
from training.settings.reading import parse_arguments
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.hub.folder import export


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with text, its links, and a teacher that nobody has trained."""
    folder = tmp_path_factory.mktemp("teacher")
    write_pairs(folder / "pairs.tsv", 40)
    pairs = [line.split("\t") for line in (folder / "pairs.tsv").read_text().splitlines()]
    for side, name in enumerate(("source", "target")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    (folder / "links").write_text("0-0\n" * 40)
    tokenizer = train_tokenizer(
        [text for pair in pairs for text in pair], 300, are_files=False, show_progress=False
    )
    torch.manual_seed(0)
    widths = {"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **widths))
    export(model, tokenizer, folder / "teacher")
    (folder / "tiny.yaml").write_text(RECIPE)
    return folder


def settings(place, **fields):
    named = {"output_dir": "out", "use_cpu": True, "distillation_teacher": str(place / "teacher")}
    return VaswaniTrainingArguments(
        **(named | {"distillation_top_k": 5, "eval_batch_tokens": 64} | fields)
    )


def read_pairs(place):
    data = DataArguments(train_file=[str(place / "pairs.tsv")])
    corpus, tokenizers = load_corpus(data), load_tokenizers(place / "teacher")
    return clean_and_mix(corpus, encode_pairs(corpus.splits["train"], tokenizers[0]), seed=0)


@pytest.fixture(scope="module")
def pairs(place):
    return read_pairs(place)


def test_what_is_stored_is_the_teachers_distribution_of_each_target_piece(place, pairs):
    tokenizers = load_tokenizers(place / "teacher")
    found = with_teacher(pairs, settings(place), tokenizers)
    teacher = AutoModelForSeq2SeqLM.from_pretrained(place / "teacher").eval()
    for row in random.Random(0).sample(range(len(found)), 8):
        pair = found[row]
        with torch.no_grad():
            logits = teacher(
                input_ids=torch.tensor([pair["input_ids"]]), labels=torch.tensor([pair["labels"]])
            ).logits[0]
        best = logits.softmax(dim=-1).topk(5)
        expected = best.values / best.values.sum(dim=-1, keepdim=True)
        assert pair["teacher_ids"] == best.indices.flatten().tolist()
        # Of float16.
        assert pair["teacher_probs"] == pytest.approx(expected.flatten().tolist(), rel=1e-3)


def test_a_second_run_finds_it(place, pairs, monkeypatch):
    tokenizers = load_tokenizers(place / "teacher")
    first = with_teacher(pairs, settings(place, distillation_top_k=3), tokenizers)
    monkeypatch.setattr(distillation, "Teacher", None)
    again = with_teacher(read_pairs(place), settings(place, distillation_top_k=3), tokenizers)
    assert again[:]["teacher_ids"] == first[:]["teacher_ids"]
    with pytest.raises(TypeError, match="NoneType"):  # another teacher would be asked
        with_teacher(pairs, settings(place, distillation_top_k=2), tokenizers)


@pytest.mark.parametrize("in_few_shapes", [False, True])
def test_a_batch_has_the_shares_of_the_target(place, pairs, in_few_shapes):
    tokenizers = load_tokenizers(place / "teacher")
    found = with_teacher(pairs, settings(place), tokenizers)
    model = AutoModelForSeq2SeqLM.from_pretrained(place / "teacher")
    collate = PairCollator(tokenizers[0], model, teacher_weight=0.25)
    if in_few_shapes:
        collate = collate.in_few_shapes(TokenBudget(400, 400, pad_to_multiple_of=8))
    rows = [3, 0, 7]
    batch = collate(ArrowPairs(found).__getitems__(rows))
    ids, shares = batch["soft_target_ids"], batch["soft_target_shares"]
    assert ids.shape == shares.shape == (*batch["labels"].shape, 5)
    assert shares.dtype == torch.float32
    is_real = batch["labels"] >= 0
    torch.testing.assert_close(shares.sum(dim=-1), 0.25 * is_real.float(), atol=1e-3, rtol=0)
    for place_in_batch, row in enumerate(rows):
        pair = found[row]
        count = len(pair["labels"])
        assert ids[place_in_batch, :count].flatten().tolist() == pair["teacher_ids"]
    lists = collate([found[row] for row in rows])
    assert all(torch.equal(lists[name], batch[name]) for name in batch)
    loss = model.train()(**batch).loss
    assert loss.isfinite()


def test_a_teacher_with_other_pieces_is_refused(place, pairs):
    other = train_tokenizer(["x y z"], 300, are_files=False, show_progress=False)
    told = r"distillation_teacher=.*teacher has another source vocabulary: of \d+ pieces there and"
    with pytest.raises(ValueError, match=told) as error:
        with_teacher(pairs, settings(place), (other, None))
    assert f"Set tokenizer={place / 'teacher'}" in str(error.value)


def test_a_run_learns_from_a_teacher_and_from_alignments_together(place):
    options = [
        *(str(place / "tiny.yaml"), "--max_steps", "4", "--decoder_layers", "2"),
        *("--train_source", str(place / "source"), "--train_target", str(place / "target")),
        *("--guided_alignment", str(place / "links")),
        *("--distillation_teacher", str(place / "teacher"), "--distillation_top_k", "4"),
        *("--output_dir", str(place / "out")),
    ]
    run_here(*options)
    config = json.loads((place / "out" / "config.json").read_text())
    assert config["alignment_layer"] == 0
    assert results_of(place / "out")["training"]["updates"] == 4
    (tokenizer, _), (theirs, _) = (load_tokenizers(place / name) for name in ("out", "teacher"))
    assert tokenizer.get_vocab() == theirs.get_vocab()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--distillation_weight 0.1", "distillation_weight=0.1 needs a teacher, and none is named"),
        ("--distillation_top_k 4", "distillation_top_k=4 needs a teacher"),
        ("--distillation_teacher a --distillation_weight 1.5", "above 0 and at most 1, got"),
        ("--distillation_teacher a --streaming true --max_steps 2", "and streaming reads or"),
        ("--distillation_teacher a --bpe_dropout 0.1", "and bpe_dropout reads or draws them"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(options, told):
    files = ["--train_source", "a", "--train_target", "b", "--use_cpu", "true"]
    with pytest.raises(ValueError, match=told):
        parse_arguments(["base", *files, *options.split()])


def test_a_model_of_another_kind_is_no_teacher(place, tmp_path):
    other = shutil.copytree(place / "teacher", tmp_path / "other")
    config = (other / "config.json").read_text()
    (other / "config.json").write_text(config.replace('"vaswani"', '"marian"'))
    options = [str(place / "tiny.yaml"), "--train_file", str(place / "pairs.tsv")]
    options += ["--distillation_teacher", str(other), "--output_dir", str(tmp_path / "out")]
    told = run_here(*options, "--max_steps", "1", status=1).stderr
    assert f"distillation_teacher={other} is a model of type marian" in told
