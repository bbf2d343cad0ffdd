"""Checkpoints of fairseq, against fairseq itself.

fairseq is no dependency: the source distribution of its last release is fetched once into the
temporary folder of this machine, and its model is run in a process of its own. Without a network
and without that copy, the tests that need it skip; the others compare with PyTorch's own layers.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, CTRLTokenizer

from tests.conversion import fairseq_reference as reference
from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.conversion.fairseq import from_fairseq, vaswani_from_fairseq


VERSION = "0.12.2"
FETCHED = Path(tempfile.gettempdir()) / f"vaswani-hf-fairseq-{VERSION}"
# Of `fairseq/models`, which imports whatever lies there.
NEEDED_MODELS = (
    r"(__init__|composite_encoder|distributed_fairseq_model|fairseq_\w+)\.py|transformer"
)

PAD, EOS, UNK = 1, 2, 3
CLOSE = {"rtol": 0, "atol": 1e-5}  # float32, in another order of operations, of logits up to 7


# fairseq itself


def fetch_fairseq() -> Path:
    """The folder with the package `fairseq`, without what its models do not need."""
    if FETCHED.is_dir():
        return FETCHED
    with tempfile.TemporaryDirectory(dir=FETCHED.parent, prefix="vaswani-hf-fetch-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "fairseq"]
        where = ["--dest", str(folder), "--retries", "1", "--timeout", "20"]
        try:
            result = subprocess.run(
                [*pip, *where, f"fairseq=={VERSION}"],
                env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
                capture_output=True,
                text=True,
                timeout=300,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"fetching fairseq {VERSION} took too long")
        if result.returncode != 0:
            reason = (result.stderr or result.stdout).strip().splitlines()[-1:]
            pytest.skip(f"cannot fetch fairseq {VERSION}: {reason}")
        with tarfile.open(folder / f"fairseq-{VERSION}.tar.gz") as archive:
            members = [
                member
                for member in archive.getmembers()
                if re.match(r"[^/]+/fairseq/(?!models/|examples/)", member.name)
                or re.match(rf"[^/]+/fairseq/models/({NEEDED_MODELS})(/|$)", member.name)
            ]
            archive.extractall(folder, members, filter="data")
        package = folder / f"fairseq-{VERSION}"
        (package / "fairseq" / "__init__.py").write_text("")  # which imports all tasks and criteria
        try:
            os.rename(package, FETCHED)
        except OSError:  # another process was faster
            if not FETCHED.is_dir():
                raise
    return FETCHED


@pytest.fixture(scope="module")
def fairseq_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of each case, and what fairseq makes of it."""
    fetched = fetch_fairseq()
    folder = tmp_path_factory.mktemp("fairseq")
    result = subprocess.run(
        [sys.executable, str(reference.__file__), str(fetched), str(folder)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return folder


def converted(folder: Path, case: str) -> tuple[VaswaniForConditionalGeneration, dict[str, Any]]:
    """The model of a case, and fairseq's results."""
    with torch.serialization.safe_globals([Namespace]):
        checkpoint = torch.load(folder / f"{case}.pt", weights_only=True)
    results = torch.load(folder / f"{case}.results", weights_only=True)
    return vaswani_from_fairseq(checkpoint), results


def logits_of(
    model: VaswaniForConditionalGeneration, source: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    mask = source.ne(PAD).long()
    with torch.no_grad():
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits


@pytest.mark.parametrize("case", reference.CASES)
def test_logits_are_those_of_fairseq(fairseq_results: Path, case: str) -> None:
    model, results = converted(fairseq_results, case)
    assert results["source"].eq(PAD).any(dim=1).sum() > 1  # padded on the left, by fairseq's habit
    found = logits_of(model, results["source"], results["target"])
    is_real = results["target"].ne(PAD)
    torch.testing.assert_close(found[is_real], results["logits"][is_real], **CLOSE)


@pytest.mark.parametrize("case", reference.CASES)
def test_translations_are_those_of_fairseq(fairseq_results: Path, case: str) -> None:
    model, results = converted(fairseq_results, case)
    mask = results["source"].ne(PAD).long()
    for exponent, expected in results["translations"].items():
        # 1.0 is fairseq's own, and all the rest comes from the generation config.
        penalty = {} if exponent == 1.0 else {"length_penalty": exponent}
        found = model.generate(
            results["source"],
            attention_mask=mask,
            return_dict_in_generate=True,
            output_scores=True,
            **penalty,
        )
        ids = [[token for token in row if token != PAD] for row in found.sequences[:, 1:].tolist()]
        assert ids == [best for best, _ in expected]
        scores = torch.tensor([score for _, score in expected])
        torch.testing.assert_close(found.sequences_scores, scores, **CLOSE)


def test_a_folder_of_fairseqs_own_checkpoint_loads_and_computes_the_same(
    fairseq_results: Path, tmp_path: Path
) -> None:
    case = "iwslt, no embeddings one"
    write_dictionary(tmp_path / "dict.de.txt", reference.PIECES)
    write_dictionary(tmp_path / "dict.en.txt", reference.OTHER_PIECES)
    shutil.copyfile(fairseq_results / f"{case}.pt", tmp_path / "model.pt")
    from_fairseq(tmp_path, tmp_path / "new")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "new")
    _, results = converted(fairseq_results, case)
    found = logits_of(model, results["source"], results["target"])
    is_real = results["target"].ne(PAD)
    torch.testing.assert_close(found[is_real], results["logits"][is_real], **CLOSE)


# Without fairseq


@pytest.fixture
def layers() -> reference.Layers:
    torch.manual_seed(0)
    return reference.Layers(is_tied=False).eval()


@pytest.fixture
def checkpoint(layers: reference.Layers) -> dict[str, Any]:
    return layers.checkpoint()


def write_dictionary(path: Path, size: int, pieces: tuple[str, ...] = ()) -> None:
    """A dictionary of fairseq with `size` pieces, its four special ones included."""
    fillers = [f"madeupword{number:04d}" for number in range(size - 4 - len(pieces))]
    lines = [f"{piece} {100 - place}\n" for place, piece in enumerate((*pieces, *fillers))]
    path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def archive(tmp_path: Path, checkpoint: dict[str, Any]) -> Path:
    """A folder as fairseq's archives are, without codes."""
    folder = tmp_path / "archive"
    folder.mkdir()
    torch.save(checkpoint, folder / "model.pt")
    write_dictionary(folder / "dict.de.txt", reference.PIECES)
    write_dictionary(folder / "dict.en.txt", reference.OTHER_PIECES)
    return folder


def batch_of(pieces: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    batch = reference.sentences(pieces)
    return batch["source"], batch["target"]


def assert_same_logits(
    model: VaswaniForConditionalGeneration, layers: reference.Layers, pieces: int
) -> None:
    source, target = batch_of(pieces)
    with torch.no_grad():
        expected = layers(source, target)
    is_real = target.ne(PAD)
    found = logits_of(model, source, target)
    torch.testing.assert_close(found[is_real], expected[is_real], **CLOSE)


@pytest.mark.parametrize("is_tied", [False, True])
def test_logits_are_those_of_pytorchs_layers(is_tied: bool) -> None:
    torch.manual_seed(0)
    layers = reference.Layers(is_tied).eval()
    model = vaswani_from_fairseq(layers.checkpoint())
    pieces = reference.PIECES if is_tied else reference.OTHER_PIECES
    assert_same_logits(model, layers, pieces)
    assert model.config.share_embeddings is is_tied
    assert model.config.tie_word_embeddings is is_tied


def test_names_of_before_2019_are_read(
    layers: reference.Layers, checkpoint: dict[str, Any]
) -> None:
    args = Namespace(share_all_embeddings=False)
    checkpoint["model"] = reference.old_names(checkpoint["model"], args)
    assert "decoder.embed_out" in checkpoint["model"]
    assert "encoder.layers.0.self_attn.in_proj_weight" in checkpoint["model"]
    assert "decoder.layers.0.layer_norms.2.bias" in checkpoint["model"]
    assert_same_logits(vaswani_from_fairseq(checkpoint), layers, reference.OTHER_PIECES)


def test_the_copies_for_pytorchs_fused_layer_are_passed_over(
    layers: reference.Layers, checkpoint: dict[str, Any]
) -> None:
    # What fairseq 0.12 writes beside the weights: zeros, as long as it trains.
    names = ("in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias")
    for name in (*names, "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"):
        checkpoint["model"][f"encoder.layers.1.{name}"] = torch.zeros(3, 2)
    assert_same_logits(vaswani_from_fairseq(checkpoint), layers, reference.OTHER_PIECES)


def test_weights_in_half_precision_become_single_precision(checkpoint: dict[str, Any]) -> None:
    checkpoint["model"] = {name: tensor.half() for name, tensor in checkpoint["model"].items()}
    model = vaswani_from_fairseq(checkpoint)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


# Settings


def settings_style(checkpoint: dict[str, Any], style: str) -> None:
    """Write a checkpoint's settings in another of the forms that fairseq has had."""
    args = vars(checkpoint.pop("args"))
    task = {"_name": args.pop("task"), "source_lang": "de", "target_lang": "en"}
    criterion = {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.2}
    cfg: dict[str, Any] = {"_name": None, "task": task, "criterion": criterion}
    if style == "dict":
        checkpoint["args"] = {**args, "label_smoothing": 0.2}
        return
    if style == "nested":
        model: dict[str, Any] = {"_name": args.pop("arch"), "encoder": {}, "decoder": {}}
        for key, value in args.items():
            side, _, inner = key.partition("_")
            if side in ("encoder", "decoder"):
                model[side][inner] = value
            else:
                model[key] = value
        cfg["model"] = model
    else:
        cfg["model"] = Namespace(**args)
    checkpoint.update(args=None, cfg=cfg)


@pytest.mark.parametrize("style", ["dict", "namespace", "nested"])
def test_settings_are_read_in_all_their_forms(
    layers: reference.Layers, checkpoint: dict[str, Any], style: str
) -> None:
    settings_style(checkpoint, style)
    model = vaswani_from_fairseq(checkpoint)
    assert_same_logits(model, layers, reference.OTHER_PIECES)
    assert model.config.label_smoothing == 0.2
    assert model.config.num_heads == 4  # of the architecture: the settings do not say it


@pytest.mark.parametrize(
    ("arch", "num_heads", "dropout", "attention_dropout"),
    [  # fairseq 0.12.2, models/transformer/transformer_legacy.py
        ("transformer", 8, 0.1, 0.0),
        ("transformer_wmt_en_de", 8, 0.1, 0.0),
        ("transformer_iwslt_de_en", 4, 0.1, 0.0),
        ("transformer_vaswani_wmt_en_de_big", 16, 0.3, 0.0),
        ("transformer_vaswani_wmt_en_fr_big", 16, 0.1, 0.0),
        ("transformer_wmt_en_de_big", 16, 0.3, 0.1),
    ],
)
def test_an_architecture_fills_in_what_the_settings_leave_out(
    checkpoint: dict[str, Any],
    arch: str,
    num_heads: int,
    dropout: float,
    attention_dropout: float,
) -> None:
    checkpoint["args"].arch = arch
    config = vaswani_from_fairseq(checkpoint).config
    assert config.num_heads == num_heads
    assert config.dropout == dropout
    assert config.attention_dropout == attention_dropout


def test_rates_and_ids_are_carried_over(checkpoint: dict[str, Any]) -> None:
    rates = {"dropout": 0.25, "attention_dropout": 0.15, "activation_dropout": 0.05}
    vars(checkpoint["args"]).update(rates, activation_fn="gelu", no_scale_embedding=True)
    config = vaswani_from_fairseq(checkpoint).config
    assert {name: getattr(config, name) for name in rates} == rates
    assert config.activation_function == "gelu"
    assert config.scale_embedding is False
    assert config.layer_norm_eps == 1e-5  # PyTorch's
    # fairseq's `Dictionary`: <s>, <pad>, </s>, <unk>; its targets begin with </s>
    assert (config.bos_token_id, config.pad_token_id, config.eos_token_id) == (0, 1, 2)
    assert config.decoder_start_token_id == 2
    assert config.label_smoothing == 0  # the settings name no criterion that smooths


def test_the_older_name_of_activation_dropout_is_read(checkpoint: dict[str, Any]) -> None:
    checkpoint["args"].relu_dropout = 0.05
    assert vaswani_from_fairseq(checkpoint).config.activation_dropout == 0.05


def test_sinusoids_last_for_the_longer_side(checkpoint: dict[str, Any]) -> None:
    model = vaswani_from_fairseq(checkpoint)
    assert model.config.max_position_embeddings == 40  # of 30 and 40
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embedding.positions.weight
        for position, dimension in ((0, 0), (1, 7), (17, 8), (39, 15)):
            expected = reference.sinusoid(position, dimension, 16)
            assert table[position, dimension].item() == pytest.approx(expected, abs=1e-6)


def test_one_limit_stands_for_both_sides_in_older_settings(checkpoint: dict[str, Any]) -> None:
    del checkpoint["args"].max_source_positions, checkpoint["args"].max_target_positions
    checkpoint["args"].max_positions = 23
    assert vaswani_from_fairseq(checkpoint).config.max_position_embeddings == 23


def test_layers_that_training_left_out_are_warned_of(
    checkpoint: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint["args"].encoder_layerdrop = 0.2
    vaswani_from_fairseq(checkpoint)
    assert "encoder_layerdrop=0.2 is not carried over" in caplog.text


def test_learned_positions_begin_after_the_padding_and_end_with_the_shorter_side(
    checkpoint: dict[str, Any],
) -> None:
    args, state = checkpoint["args"], checkpoint["model"]
    args.encoder_learned_pos = args.decoder_learned_pos = True
    del state["encoder.embed_positions._float_tensor"]
    state["encoder.embed_positions.weight"] = source = torch.randn(32, 16)
    state["decoder.embed_positions.weight"] = target = torch.randn(42, 16)
    model = vaswani_from_fairseq(checkpoint)
    assert model.config.max_position_embeddings == 30
    # fairseq's first position is that of the id after <pad>'s: row 2
    assert torch.equal(model.model.encoder.embedding.positions.weight, source[2:])
    assert torch.equal(model.model.decoder.embedding.positions.weight, target[2:32])


# What is refused


def assert_refused(
    checkpoint: dict[str, Any], folder: Path, message: str, number: int | None = 1
) -> None:
    """The message comes, counts so many differences, and nothing is written."""
    torch.save(checkpoint, folder / "model.pt")
    before = sorted(folder.parent.rglob("*"))
    with pytest.raises(ValueError, match=message) as error:
        from_fairseq(folder, folder.parent / "new")
    assert sorted(folder.parent.rglob("*")) == before
    if number is not None:
        assert str(error.value).count("\n  - ") == number, str(error.value)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("encoder_normalize_before", True, r"encoder_normalize_before=True: .*pre-norm"),
        ("decoder_normalize_before", True, r"decoder_normalize_before=True: .*pre-norm"),
        ("layernorm_embedding", True, "layernorm_embedding=True"),
        ("adaptive_input", True, "adaptive_input=True"),
        ("adaptive_softmax_cutoff", "10,20", "adaptive_softmax_cutoff='10,20'"),
        ("no_cross_attention", True, "no_cross_attention=True"),
        ("cross_self_attention", True, "cross_self_attention=True"),
        ("quant_noise_pq", 0.1, r"quant_noise_pq=0\.1"),
        ("quant_noise_scalar", 0.1, r"quant_noise_scalar=0\.1"),
        ("decoder_layers_to_keep", "0", "decoder_layers_to_keep='0'"),
        ("decoder_output_dim", 8, "decoder_output_dim=8 is not decoder_embed_dim=16"),
        ("decoder_attention_heads", 8, "encoder_attention_heads=4 and decoder_attention_heads=8"),
        ("activation_fn", "gelu_accurate", "activation_fn='gelu_accurate' is none of relu, gelu"),
        ("task", "translation_lev", "task='translation_lev' may begin"),
        ("arch", "fconv", "arch='fconv' is none of transformer, transformer_wmt_en_de"),
    ],
)
def test_a_setting_that_has_no_place_is_refused(
    archive: Path, checkpoint: dict[str, Any], setting: str, value: Any, message: str
) -> None:
    setattr(checkpoint["args"], setting, value)
    assert_refused(checkpoint, archive, message)


def test_the_task_of_newer_settings_is_looked_at(archive: Path, checkpoint: dict[str, Any]) -> None:
    settings_style(checkpoint, "namespace")
    checkpoint["cfg"]["task"]["_name"] = "translation_multi_simple_epoch"
    assert_refused(checkpoint, archive, "task='translation_multi_simple_epoch' may begin")


def test_sides_of_different_widths_are_refused(archive: Path, checkpoint: dict[str, Any]) -> None:
    checkpoint["args"].decoder_ffn_embed_dim = 20
    state = checkpoint["model"]
    state["decoder.layers.0.fc1.weight"] = torch.randn(20, 16)
    state["decoder.layers.0.fc1.bias"] = torch.randn(20)
    state["decoder.layers.0.fc2.weight"] = torch.randn(16, 20)
    message = "encoder_ffn_embed_dim=24 and decoder_ffn_embed_dim=20 differ"
    assert_refused(checkpoint, archive, message)


def test_all_differences_come_at_once(archive: Path, checkpoint: dict[str, Any]) -> None:
    args, state = checkpoint["args"], checkpoint["model"]
    args.encoder_normalize_before = True
    args.cross_self_attention = True
    state["encoder.layer_norm.weight"] = torch.ones(16)
    state["decoder.layers.0.fc1.bias"] = torch.ones(23)
    del state["encoder.layers.1.self_attn.k_proj.bias"]
    write_dictionary(archive / "dict.de.txt", 30)
    message = (
        r"(?s)model\.pt: 6 differences.*encoder_normalize_before=True.*cross_self_attention=True"
        r".*encoder\.layers\.1\.self_attn\.k_proj\.bias is missing"
        r".*decoder\.layers\.0\.fc1\.bias has shape \(23,\), expected \(24,\)"
        r".*encoder\.layer_norm\.weight \(16,\) has no place"
        r".*dict\.de\.txt has 30 pieces, .*encoder\.embed_tokens\.weight has 37 rows"
    )
    assert_refused(checkpoint, archive, message, number=6)


def test_tied_matrices_that_differ_are_refused(archive: Path) -> None:
    torch.manual_seed(0)
    checkpoint = reference.Layers(is_tied=True).checkpoint()
    shutil.copyfile(archive / "dict.de.txt", archive / "dict.en.txt")
    checkpoint["model"]["decoder.output_projection.weight"][5, 5] += 1
    message = r"decoder\.output_projection\.weight is not the .* though share_all_embeddings=True"
    assert_refused(checkpoint, archive, message)


def test_one_embedding_with_two_dictionaries_is_refused(archive: Path) -> None:
    torch.manual_seed(0)
    checkpoint = reference.Layers(is_tied=True).checkpoint()
    write_dictionary(archive / "dict.en.txt", reference.PIECES, ("another",))
    message = r"share_all_embeddings=True needs one dictionary, but .*dict\.de\.txt and .*dict\.en"
    assert_refused(checkpoint, archive, message)


def test_an_old_name_beside_its_new_one_is_refused(
    archive: Path, checkpoint: dict[str, Any]
) -> None:
    checkpoint["model"]["decoder.embed_out"] = torch.zeros(reference.OTHER_PIECES, 16)
    assert_refused(checkpoint, archive, r"decoder\.embed_out \(29, 16\) has no place")


def test_a_checkpoint_without_weights_is_refused(archive: Path, checkpoint: dict[str, Any]) -> None:
    del checkpoint["model"]
    assert_refused(checkpoint, archive, 'there is no state dict under "model"', number=None)


def test_a_checkpoint_without_settings_is_refused(
    archive: Path, checkpoint: dict[str, Any]
) -> None:
    message = r'must have its settings under "args", or under "cfg".*it has model\.'
    assert_refused({"model": checkpoint["model"]}, archive, message, number=0)


def test_a_target_that_exists_is_left_alone(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_text("mine")
    with pytest.raises(FileExistsError, match="name a new folder"):
        from_fairseq(archive, tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine"]


# Pickles


class Intruder:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("is_zip", [True, False])
def test_code_in_a_checkpoint_is_named_and_not_run(
    archive: Path, checkpoint: dict[str, Any], tmp_path: Path, is_zip: bool
) -> None:
    checkpoint["extra_state"] = Intruder(tmp_path / "intruded")
    torch.save(checkpoint, archive / "model.pt", _use_new_zipfile_serialization=is_zip)
    with pytest.raises(ValueError, match=rf"holds Python objects of {os.name}\.mkdir, which"):
        from_fairseq(archive, tmp_path / "new")
    assert not (tmp_path / "intruded").exists()
    assert not (tmp_path / "new").exists()


def test_all_foreign_classes_are_named_with_a_way_out(
    archive: Path, checkpoint: dict[str, Any]
) -> None:
    checkpoint["extra_state"] = [argparse.Action(["-x"], "x"), json.JSONDecodeError("", "", 0)]
    message = (
        r"(?s)objects of argparse\.Action, json\.decoder\.JSONDecodeError, which are not loaded"
        r'.*torch\.save\(\{"model": state\["model"\], "args": settings\}, "model\.pt"\)'
    )
    assert_refused(checkpoint, archive, message, number=0)


def test_a_file_that_is_no_checkpoint_is_refused(archive: Path, tmp_path: Path) -> None:
    (archive / "model.pt").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match=r"model\.pt is not a checkpoint that torch\.load reads"):
        from_fairseq(archive, tmp_path / "new")


# Files


def test_a_folder_with_several_checkpoints_must_say_which(archive: Path, tmp_path: Path) -> None:
    (archive / "model.pt").rename(archive / "model1.pt")
    shutil.copyfile(archive / "model1.pt", archive / "model2.pt")
    with pytest.raises(FileNotFoundError, match=r"it has model1\.pt, model2\.pt; name one"):
        from_fairseq(archive, tmp_path / "new")
    from_fairseq(archive / "model2.pt", tmp_path / "new")
    assert (tmp_path / "new" / "config.json").is_file()


def test_a_missing_dictionary_is_named(archive: Path, tmp_path: Path) -> None:
    (archive / "dict.en.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"dict\.en\.txt does not exist; give target_dict"):
        from_fairseq(archive, tmp_path / "new")


def test_dictionaries_without_known_languages_must_be_told_apart(
    archive: Path, checkpoint: dict[str, Any], tmp_path: Path
) -> None:
    del checkpoint["args"].source_lang, checkpoint["args"].target_lang
    torch.save(checkpoint, archive / "model.pt")
    with pytest.raises(ValueError, match=r"has dict\.de\.txt, dict\.en\.txt.*source_language"):
        from_fairseq(archive, tmp_path / "new")
    from_fairseq(archive, tmp_path / "new", source_language="de", target_language="en")
    assert AutoTokenizer.from_pretrained(tmp_path / "new").vocab_size == reference.PIECES


def test_one_dictionary_named_serves_both_sides(archive: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.save(reference.Layers(is_tied=True).checkpoint(), archive / "model.pt")
    (archive / "dict.de.txt").rename(tmp_path / "both.txt")
    from_fairseq(archive, tmp_path / "new", source_dictionary=tmp_path / "both.txt")
    assert not (tmp_path / "new" / "target_tokenizer").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("word", r"dict\.de\.txt, line 2 must be PIECE COUNT, got 'word'"),
        ("word many", r"dict\.de\.txt, line 2 must be PIECE COUNT, got 'word many'"),
        ("one 5", r"dict\.de\.txt, line 2: 'one' occurs twice"),
    ],
)
def test_a_line_that_is_no_entry_of_a_dictionary_is_refused(
    archive: Path, tmp_path: Path, line: str, message: str
) -> None:
    (archive / "dict.de.txt").write_text(f"one 7\n{line}\n")
    with pytest.raises(ValueError, match=message):
        from_fairseq(archive, tmp_path / "new")


def test_text_cut_by_sentencepiece_is_refused_unless_it_comes_cut(
    archive: Path, checkpoint: dict[str, Any], tmp_path: Path
) -> None:
    (archive / "sentencepiece.bpe.model").write_bytes(b"")
    message = r"sentencepiece\.bpe\.model segments the text.*is_segmented=True"
    assert_refused(checkpoint, archive, message)
    from_fairseq(archive, tmp_path / "new", is_segmented=True)
    assert (tmp_path / "new" / "tokenizer.json").is_file()


# Tokenizers

# Merges as subword-nmt learns them: of "low", "lower", "newest", "widest" and the like.
MERGES = ["e s", "es t</w>", "l o", "lo w</w>", "n e", "ne w", "lo w", "e r</w>", "new est</w>"]
WORDS = "low lower lowest new newer newest wow twin ox o owe snow\u2603 \u2603 \u2603low".split()


def codes_of(merges: list[str], header: str = "#version: 0.2\n", count: str = "") -> str:
    return header + "".join(f"{merge}{count}\n" for merge in merges)


def pieces_of(words: list[str], left_out: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Every letter of the words as a piece that goes on and as one that ends, and what merges."""
    letters = sorted(set("".join(words)) - {"\u2603"})
    merged = [merge.replace(" ", "") for merge in MERGES]
    pieces = [name.removesuffix("</w>") if "</w>" in name else f"{name}@@" for name in merged]
    every = [*pieces, *(f"{letter}@@" for letter in letters), *letters]
    return tuple(piece for piece in every if piece not in left_out)


def write_archive(
    folder: Path, pieces: tuple[str, ...], codes: str | None, is_tied: bool = True
) -> dict[str, int]:
    """A small archive whose dictionary has these pieces; their ids."""
    size = 4 + len(pieces)
    torch.manual_seed(0)
    checkpoint = reference.Layers(is_tied).checkpoint()
    embeddings = torch.randn(size, 16)
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        checkpoint["model"][f"{name}.weight"] = embeddings if is_tied else torch.randn(size, 16)
    folder.mkdir(exist_ok=True)
    torch.save(checkpoint, folder / "checkpoint_best.pt")
    for language in ("de", "en"):
        write_dictionary(folder / f"dict.{language}.txt", size, pieces)
    if codes is not None:
        (folder / "bpecodes").write_text(codes, encoding="utf-8")
    return {piece: place for place, piece in enumerate(pieces, start=4)}


def test_words_are_cut_by_the_codes_and_have_the_dictionarys_ids(tmp_path: Path) -> None:
    ids = write_archive(tmp_path / "archive", pieces_of(WORDS), codes_of(MERGES))
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "new")
    # By hand: lo|w</w> is the merge 4; l o w e r: lo, then low, then er</w>.
    cut = "low low@@ er newest t@@ w@@ i@@ n o"
    encoded = tokenizer("low lower newest twin o")
    assert encoded["input_ids"] == [*(ids[piece] for piece in cut.split()), EOS]
    assert list(encoded) == ["input_ids", "attention_mask"]
    assert tokenizer.model_max_length == 40  # the positions that the checkpoint has
    special = (tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id)
    assert (*special, tokenizer.unk_token_id) == (0, PAD, EOS, UNK)
    decoded = tokenizer.decode(encoded["input_ids"], skip_special_tokens=True)
    assert decoded == "low lower newest twin o"


@pytest.mark.parametrize("left_out", [(), ("es@@", "low@@", "w", "est")])
def test_ids_are_those_of_an_independent_encoder(tmp_path: Path, left_out: tuple[str, ...]) -> None:
    # The library's tokenizer of CTRL applies codes as subword-nmt does and looks its pieces up.
    pieces = pieces_of(WORDS, left_out)
    ids = write_archive(tmp_path / "archive", pieces, codes_of(MERGES))
    ids |= {"<unk>": UNK}
    (tmp_path / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (tmp_path / "merges.txt").write_text(codes_of(MERGES), encoding="utf-8")
    ctrl = CTRLTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "new")
    chooser = random.Random(0)
    letters = sorted(set("".join(WORDS)))
    words = ["".join(chooser.choices(letters, k=chooser.randint(1, 8))) for _ in range(300)]
    for word in [*WORDS, *words]:
        expected = ctrl.convert_tokens_to_ids(ctrl.tokenize(word))
        found = tokenizer(word)["input_ids"][:-1]
        assert [token if token < 4 + len(pieces) else UNK for token in found] == expected, word
        if UNK not in expected:
            assert tokenizer.decode(found) == word


@pytest.mark.parametrize("is_tied", [False, True])
def test_pieces_outside_the_dictionary_are_read_as_unknown(
    tmp_path: Path, is_tied: bool, caplog: pytest.LogCaptureFixture
) -> None:
    left_out = ("es@@", "low@@", "w", "est")
    pieces = pieces_of(WORDS, left_out)
    write_archive(tmp_path / "archive", pieces, codes_of(MERGES), is_tied)
    from_fairseq(tmp_path / "archive", tmp_path / "cutting")
    # The four left out: all else that the merges make is in the dictionary.
    assert "4 pieces that the codes make are not in" in caplog.text
    assert ("which the target no longer shares" in caplog.text) is is_tied
    from_fairseq(tmp_path / "archive", tmp_path / "segmented", is_segmented=True)
    model, cutter = load(tmp_path / "cutting")
    pristine, reader = load(tmp_path / "segmented")
    ours = cutter("lower lowest now ox", return_tensors="pt")["input_ids"]
    # What fairseq reads: pieces that are not in the dictionary are <unk>.
    theirs = reader("low@@ er low@@ est n@@ o@@ w o@@ x", return_tensors="pt")["input_ids"]
    assert theirs.eq(UNK).sum() == 4
    assert torch.equal(ours.masked_fill(ours >= 4 + len(pieces), UNK), theirs)
    target = torch.tensor([[EOS, 5, 9, 12]])
    torch.testing.assert_close(
        logits_of(model, ours, target), logits_of(pristine, theirs, target), **CLOSE
    )
    assert pristine.config.share_embeddings is is_tied


def load(folder: Path) -> tuple[Any, Any]:
    return (
        AutoModelForSeq2SeqLM.from_pretrained(folder),
        AutoTokenizer.from_pretrained(folder),
    )


def test_codes_that_make_only_pieces_of_the_dictionary_keep_the_embeddings_shared(
    tmp_path: Path,
) -> None:
    pieces = pieces_of(WORDS)
    write_archive(tmp_path / "archive", pieces, codes_of(MERGES))
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    model, tokenizer = load(tmp_path / "new")
    assert model.config.share_embeddings
    assert model.config.vocab_size == len(tokenizer) == 4 + len(pieces)


def test_a_character_that_occurs_nowhere_is_unknown(tmp_path: Path) -> None:
    ids = write_archive(tmp_path / "archive", pieces_of(WORDS), codes_of(MERGES))
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    _, tokenizer = load(tmp_path / "new")
    found = tokenizer("o\u2603 \u2603\u2603 o")["input_ids"]
    assert found == [ids["o@@"], UNK, UNK, UNK, ids["o"], EOS]
    assert tokenizer.decode(found) == "o<unk> <unk> <unk> o </s>"
    assert tokenizer.decode(found, skip_special_tokens=True) == "oo"


def test_codes_of_fastbpe_are_those_of_subword_nmt_with_counts(tmp_path: Path) -> None:
    found = []
    for name, codes in (
        ("subword-nmt", codes_of(MERGES)),
        ("fastbpe", codes_of(MERGES, header="", count=" 17")),
    ):
        write_archive(tmp_path / name, pieces_of(WORDS), codes)
        from_fairseq(tmp_path / name, tmp_path / f"new {name}")
        found.append((tmp_path / f"new {name}" / "tokenizer.json").read_bytes())
    assert found[0] == found[1]


def test_in_codes_of_before_2017_the_end_of_a_word_is_a_symbol_of_its_own(tmp_path: Path) -> None:
    # subword-nmt 0.1: "low" is l o w </w>. The merges l o, lo w, low </w>, e r, x </w>, q </w>.
    merges = ["l o", "lo w", "low </w>", "e r", "x </w>", "q </w>"]
    pieces = ("low", "low@@", "er", "x", "o@@", "o", "l@@", "er@@")
    ids = write_archive(tmp_path / "archive", pieces, codes_of(merges, header=""), is_tied=False)
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    _, tokenizer = load(tmp_path / "new")
    # By hand, and by subword-nmt 0.3.8: "er" is merged before the end, which then merges with
    # nothing and falls away; "q" is not in the dictionary, nor is the snowman.
    cut = "low low@@ er x o@@ o <unk> o@@ <unk> o l@@ er@@ low"
    text = "low lower x oo q o\u2603 o lerlow"
    found = [token if token < 4 + len(pieces) else UNK for token in tokenizer(text)["input_ids"]]
    assert found == [*((ids | {"<unk>": UNK})[piece] for piece in cut.split()), EOS]
    text = "low lower x oo o lerlow"
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_merges_are_split_at_spaces_only_and_the_first_of_two_counts(tmp_path: Path) -> None:
    # A merge of no-break spaces, as codes of real text have it, and "n e" again at the end.
    merges = ["\u00a0 \u00a0", "n e", "e w</w>", "n e"]
    pieces = ("ne@@", "n@@", "ew", "w", "\u00a0@@")
    ids = write_archive(tmp_path / "archive", pieces, codes_of(merges), is_tied=False)
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    _, tokenizer = load(tmp_path / "new")
    assert tokenizer("new")["input_ids"] == [ids["ne@@"], ids["w"], EOS]


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ("#version: 0.2\na b\na b c\n", r"bpecodes, line 3 must be two pieces.*got 'a b c'"),
        ("#version: 0.2\nab\n", r"bpecodes, line 2 must be two pieces, got"),
        ("a b 9\nab c\n", r"bpecodes, line 2 must be two pieces and a count, got 'ab c'"),
        ("a b 9\nab c d\n", r"bpecodes, line 2 must be two pieces and a count, got 'ab c d'"),
        ("#version: 0.3\na b\n", r"must be of version 0\.1 or 0\.2 of subword-nmt, got 0\.3"),
        ("#version: 0.2\n", r"bpecodes holds no codes"),
        ("#version: 0.2\n< s\n<s >\n", r"make '<s>', which is a special piece"),
    ],
)
def test_codes_that_are_none_are_refused(tmp_path: Path, codes: str, message: str) -> None:
    write_archive(tmp_path / "archive", pieces_of(WORDS), codes)
    with pytest.raises(ValueError, match=message):
        from_fairseq(tmp_path / "archive", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_piece_that_would_be_called_as_a_special_one_is_refused(tmp_path: Path) -> None:
    pieces = (*pieces_of(WORDS), "<s>@@")
    write_archive(tmp_path / "archive", pieces, codes_of(MERGES))
    with pytest.raises(ValueError, match="'<s>@@' would get the name of another piece, '<s>'"):
        from_fairseq(tmp_path / "archive", tmp_path / "new")


def test_text_that_comes_cut_has_the_dictionarys_ids_and_is_joined(tmp_path: Path) -> None:
    ids = write_archive(tmp_path / "archive", pieces_of(WORDS), codes=None)
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    _, tokenizer = load(tmp_path / "new")
    cut = "low@@ er never low"
    found = tokenizer(cut)["input_ids"]
    assert found == [ids["low@@"], ids["er"], UNK, ids["low"], EOS]
    assert tokenizer.decode(found, skip_special_tokens=True) == "lower low"


def test_segmented_text_and_codes_exclude_each_other(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is_segmented=True takes text that is cut already"):
        from_fairseq(archive, tmp_path / "new", is_segmented=True, bpe_codes="codes")


def test_a_target_dictionary_of_its_own_makes_a_second_tokenizer(
    archive: Path, tmp_path: Path
) -> None:
    write_dictionary(archive / "dict.de.txt", reference.PIECES, ("Haus",))
    write_dictionary(archive / "dict.en.txt", reference.OTHER_PIECES, ("small", "house"))
    from_fairseq(archive, tmp_path / "new")
    model, source = load(tmp_path / "new")
    target = AutoTokenizer.from_pretrained(tmp_path / "new" / "target_tokenizer")
    assert source("Haus")["input_ids"] == [4, EOS]
    assert target.decode([4, 5], skip_special_tokens=True) == "small house"
    assert len(source) == model.config.vocab_size == reference.PIECES
    assert len(target) == model.config.target_vocab_size == reference.OTHER_PIECES


def test_the_folder_translates_as_the_model_in_memory(
    archive: Path, checkpoint: dict[str, Any], tmp_path: Path
) -> None:
    from_fairseq(archive, tmp_path / "new")
    model, _ = load(tmp_path / "new")
    entries = ("num_beams", "length_penalty", "length_penalty_type", "early_stopping")
    # fairseq 0.12.2, dataclass/configs.py: beam, lenpen, no_early_stop
    assert [getattr(model.generation_config, entry) for entry in entries] == [5, 1, "power", True]
    source, _ = batch_of(reference.OTHER_PIECES)
    options = {"attention_mask": source.ne(PAD).long(), "max_new_tokens": 8}
    expected = vaswani_from_fairseq(checkpoint).generate(source, **options)
    assert torch.equal(model.generate(source, **options), expected)
