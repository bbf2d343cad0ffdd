"""`vaswani-hf convert`, as it is typed."""

import pickle
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_hf import VaswaniConfig
from vaswani_hf.cli import main
from vaswani_hf.cli.convert import CONVERT_OPTIONS
from vaswani_hf.hub.folder import export


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


def test_ctranslate2_translates_what_convert_wrote(folder, tmp_path, capfd):
    pytest.importorskip("ctranslate2")
    target = tmp_path / "int8"
    options = ["--to", "ctranslate2", "--quantization", "int8"]
    assert main(["convert", str(folder), str(target), *options]) == 0
    (tmp_path / "text").write_text("a b c\n\nh g f e\n")
    capfd.readouterr()
    command = ["translate", "--engine", "ctranslate2", "--model", str(target)]
    assert main([*command, str(tmp_path / "text")]) == 0
    assert capfd.readouterr().out == "a b c\n\nh g f e\n"


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
        (
            ["--to", "marian_npz", "--source_vocabulary", "a.yml"],
            "--source_vocabulary is for --from marian_npz",
        ),
        (
            ["--to", "marian", "--sample_source", "a"],
            "--sample_source is for --from marian, not for --to",
        ),
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


def refusal(capsys, *command):
    """The one line that a command is refused with."""
    assert main([str(argument) for argument in command]) == 1
    line = capsys.readouterr().err
    assert line.startswith("vaswani-hf: ")
    assert line.count("\n") == 1
    return line


WAYS = [
    *(["--from", "marian"], ["--from", "fairseq"], ["--from", "torch", "--num_heads", "2"]),
    *(["--to", "marian"], ["--to", "marian_npz"], ["--to", "ctranslate2"], ["--to", "onnx"]),
]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_a_full_target_is_refused_before_the_source_is_looked_at(way, tmp_path, capsys):
    (tmp_path / "README.md").write_text("mine")
    line = refusal(capsys, "convert", tmp_path / "absent", tmp_path, *way)
    assert f"{tmp_path} exists already" in line
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize("source", ["./absent", "absent/", "a/b/c", "~/absent", "runs/absent"])
@pytest.mark.parametrize("way", [["--from", "marian"], *WAYS[3:]], ids=" ".join)
def test_an_absent_folder_is_not_looked_for_on_the_hub(way, source, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert "There is no " in refusal(capsys, "convert", source, tmp_path / "new", *way)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("way", WAYS[3:], ids=" ".join)
def test_weights_that_are_torn_or_pickled_are_told(way, folder, tmp_path, capsys):
    torn, pickled = tmp_path / "torn", tmp_path / "pickled"
    shutil.copytree(folder, torn)
    content = (torn / "model.safetensors").read_bytes()
    (torn / "model.safetensors").write_bytes(content[: len(content) // 2])
    shutil.copytree(folder, pickled, ignore=shutil.ignore_patterns("*.safetensors"))
    (pickled / "pytorch_model.bin").write_bytes(pickle.dumps({"model": Path("any object")}))
    for source in (torn, pickled):
        line = refusal(capsys, "convert", source, tmp_path / "new", *way)
        assert str(source) in line
        assert "weights_only" not in line


@pytest.mark.parametrize("way", WAYS[3:], ids=" ".join)
def test_weights_that_are_no_numbers_are_not_converted(way, folder, tmp_path, capsys):
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine)
    weights = load_file(mine / "model.safetensors")
    weights["model.shared.weight"][0] = float("nan")
    save_file(weights, mine / "model.safetensors", {"format": "pt"})
    line = refusal(capsys, "convert", mine, tmp_path / "new", *way)
    assert "model.shared.weight" in line
    assert "NaN" in line


def state_dict(*, num_pieces, d_model, nhead):
    stacks = torch.nn.Transformer(d_model, nhead, 1, 1, 24, batch_first=True)
    weights = {f"transformer.{name}": tensor for name, tensor in stacks.state_dict().items()}
    for name in ("src_tok_emb.embedding", "tgt_tok_emb.embedding", "generator"):
        weights[f"{name}.weight"] = torch.randn(num_pieces, d_model)
    return weights


DAMAGES = {
    "cut.pt": lambda whole: whole[: len(whole) // 2],
    "empty.pt": lambda whole: b"",
    "text.pt": lambda whole: b"hello world",
    "objects.pt": lambda whole: pickle.dumps({"model": Path("any object")}, protocol=2),
    "text.bin": lambda whole: b"\x80\x02}q\x00(X\xff",
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("way", WAYS[1:3], ids=" ".join)
def test_a_damaged_or_pickled_file_is_told_by_its_name(way, name, tmp_path, capsys):
    torch.save(state_dict(num_pieces=20, d_model=16, nhead=2), tmp_path / "whole.pt")
    path = tmp_path / name
    path.write_bytes(DAMAGES[name]((tmp_path / "whole.pt").read_bytes()))
    assert main(["convert", str(path), str(tmp_path / "new"), *way]) == 1
    told = capsys.readouterr().err
    assert str(path) in told
    assert "weights_only" not in told
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("damage", ["torn", "pickled", "absent"])
def test_marian_weights_that_cannot_be_read_are_told(folder, damage, tmp_path, capsys):
    mine = tmp_path / "mine"
    assert main(["convert", str(folder), str(mine), "--to", "marian"]) == 0
    capsys.readouterr()
    weights = mine / "model.safetensors"
    if damage == "torn":
        weights.write_bytes(weights.read_bytes()[:1000])
    else:
        weights.unlink()
    if damage == "pickled":
        (mine / "pytorch_model.bin").write_bytes(pickle.dumps({"model": Path("any object")}))
    line = refusal(capsys, "convert", mine, tmp_path / "new", "--from", "marian")
    assert str(mine) in line
    assert "weights_only" not in line


@pytest.mark.parametrize(
    ("way", "package"), [("ctranslate2", "ctranslate2.converters"), ("onnx", "onnx")]
)
def test_a_missing_package_is_told_with_its_extra(
    way, package, folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, package, None)
    line = refusal(capsys, "convert", folder, tmp_path / "new", "--to", way)
    assert f'{package} is needed for this: pip install "vaswani-hf[export]"' in line


def test_the_command_of_the_documentation_converts_a_state_dict(copier, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "conversion.md"
    lines = page.read_text().replace("\\\n", " ")
    (command,) = re.findall(r"^vaswani-hf (convert seq2seq\.pt .*)$", lines, re.M)
    monkeypatch.chdir(tmp_path)
    copier[1].save_pretrained("my_tokenizer")
    torch.save(state_dict(num_pieces=len(copier[1]), d_model=16, nhead=8), "seq2seq.pt")
    assert main(shlex.split(command)) == 0
    assert AutoModelForSeq2SeqLM.from_pretrained("mine").config.num_heads == 8


def test_every_option_is_an_argument_of_its_formats_functions():
    import inspect

    from vaswani_hf import conversion
    from vaswani_hf.conversion.pytorch import vaswani_from_torch

    known = {
        "marian": inspect.signature(conversion.from_marian).parameters,
        "ctranslate2": inspect.signature(conversion.to_ctranslate2).parameters,
        "onnx": inspect.signature(conversion.to_onnx).parameters,
        "fairseq": inspect.signature(conversion.from_fairseq).parameters,
        "marian_npz": inspect.signature(conversion.from_marian_npz).parameters,
        "torch": {
            **inspect.signature(conversion.from_torch).parameters,
            **inspect.signature(vaswani_from_torch).parameters,
        },
    }
    for option, (formats, _, _) in CONVERT_OPTIONS.items():
        for name in formats:
            assert option in known[name]
