"""`vaswani-hf convert`, as it is typed."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_hf import VaswaniConfig
from vaswani_hf.cli import CONVERT_OPTIONS, main
from vaswani_hf.hub import export


@pytest.fixture(scope="module")
def folder(copier, tmp_path_factory):
    path = tmp_path_factory.mktemp("copier")
    export(*copier, path)
    return path


def translations(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    batch = tokenizer(["a b c", "h g f e"], return_tensors="pt", padding=True)
    return tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)


def test_marian_and_back(folder, tmp_path, capfd, caplog):
    assert main(["convert", str(folder), str(tmp_path / "marian"), "--to", "marian"]) == 0
    assert capfd.readouterr().out == f"Wrote {tmp_path / 'marian'}.\n"
    assert "logits up to" in caplog.text  # what was measured in converting
    assert translations(tmp_path / "marian") == ["a b c", "h g f e"]
    back = ["convert", str(tmp_path / "marian"), str(tmp_path / "back"), "--from", "marian"]
    assert main(back) == 0
    assert translations(tmp_path / "back") == ["a b c", "h g f e"]


def test_ctranslate2_translates_what_convert_wrote(folder, tmp_path):
    pytest.importorskip("ctranslate2")
    command = [sys.executable, "-m", "vaswani_hf.cli"]
    subprocess.run(
        [
            *(*command, "convert", str(folder), str(tmp_path / "int8")),
            *("--to", "ctranslate2", "--quantization", "int8"),
        ],
        check=True,
        capture_output=True,
    )
    done = subprocess.run(
        [*command, "translate", "--engine", "ctranslate2", "--model", str(tmp_path / "int8")],
        input="a b c\n\nh g f e\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "a b c\n\nh g f e\n"


def test_a_state_dict_with_what_it_does_not_say(tmp_path, capfd, caplog):
    torch.manual_seed(0)
    stacks = torch.nn.Transformer(16, 2, 1, 1, 24)
    weights = {f"transformer.{name}": tensor for name, tensor in stacks.state_dict().items()}
    for name in ("src_tok_emb.embedding", "tgt_tok_emb.embedding", "generator"):
        weights[f"{name}.weight"] = torch.randn(20, 16)
    save_file(weights, tmp_path / "model.safetensors")
    command = ["convert", str(tmp_path / "model.safetensors"), str(tmp_path / "out")]
    command += ["--from", "torch", "--pad_token_id", "0", "--eos_token_id", "3"]
    assert main([*command, "--decoder_start_token_id", "2"]) == 1
    assert "--from torch needs --num_heads" in capfd.readouterr().err
    assert main([*command, "--num_heads", "2"]) == 1
    assert "decoder_start_token_id" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()
    options = ["--num_heads", "2", "--decoder_start_token_id", "2", "--no-scale_embedding"]
    assert main([*command, *options]) == 0
    assert "taken as given" in caplog.text
    config = VaswaniConfig.from_pretrained(tmp_path / "out")
    assert (config.num_heads, config.final_norm, config.scale_embedding) == (2, True, False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--to", "marian", "--quantization", "int8"],
            "--quantization is for ctranslate2 and onnx",
        ),
        (["--from", "fairseq", "--num_heads", "4"], "--num_heads is for torch, not for --from"),
    ],
)
def test_an_option_of_another_format_is_refused(options, told, tmp_path, capfd):
    assert main(["convert", "anything", str(tmp_path / "out"), *options]) == 1
    assert told in capfd.readouterr().err


def test_a_target_that_holds_something_stays_as_it_is(folder, tmp_path, capfd):
    (tmp_path / "mine").write_text("precious")
    assert main(["convert", str(folder), str(tmp_path), "--to", "marian"]) == 1
    assert f"{tmp_path} exists already" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_every_option_is_an_argument_of_its_formats_functions():
    import inspect

    from vaswani_hf import conversion
    from vaswani_hf.conversion.pytorch import vaswani_from_torch

    known = {
        "ctranslate2": inspect.signature(conversion.to_ctranslate2).parameters,
        "onnx": inspect.signature(conversion.to_onnx).parameters,
        "fairseq": inspect.signature(conversion.from_fairseq).parameters,
        "torch": {
            **inspect.signature(conversion.from_torch).parameters,
            **inspect.signature(vaswani_from_torch).parameters,
        },
    }
    for option, (formats, _, _) in CONVERT_OPTIONS.items():
        for name in formats:
            assert option in known[name]
