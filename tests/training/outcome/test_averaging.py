import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from training.outcome import averaging
from training.outcome.averaging import average_checkpoints


def checkpoint(folder, **tensors):
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_the_mean_is_that_of_the_numbers(tmp_path):
    folders = [
        checkpoint(tmp_path / str(n), w=torch.tensor([float(n), 10.0 * n])) for n in (1, 2, 6)
    ]
    assert average_checkpoints(folders)["w"].tolist() == [3.0, 30.0]  # by hand


@given(st.integers(1, 7))
@settings(max_examples=7, deadline=None)
def test_the_average_of_copies_is_the_copy(tmp_path_factory, count):
    tensor = torch.randn(50, generator=torch.Generator().manual_seed(count))
    folder = tmp_path_factory.mktemp("copies")
    folders = [checkpoint(folder / str(n), w=tensor) for n in range(count)]
    assert torch.equal(average_checkpoints(folders)["w"], tensor)


def test_half_precision_checkpoints_are_averaged_in_float32(tmp_path):
    # 1 and 1 + 2^-7 are neighbours in bfloat16; their mean is not a bfloat16 number.
    values = [torch.tensor([1.0]), torch.tensor([1 + 2**-7])]
    folders = [checkpoint(tmp_path / str(n), w=value.bfloat16()) for n, value in enumerate(values)]
    mean = average_checkpoints(folders)["w"]
    assert mean.dtype == torch.float32
    assert mean.item() == 1 + 2**-8


def test_every_difference_is_named(tmp_path):
    first = checkpoint(tmp_path / "a", w=torch.zeros(3, 2), b=torch.zeros(1))
    second = checkpoint(tmp_path / "b", w=torch.zeros(4, 2), c=torch.zeros(1))
    message = (
        f"Checkpoints {first} and {second} differ in 3 parameters: b only in {first}, "
        f"c only in {second}, w has (3, 2) and (4, 2)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        average_checkpoints([first, second])


def test_a_folder_without_weights_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path))):
        average_checkpoints([tmp_path])


def test_no_checkpoints_are_an_error():
    with pytest.raises(ValueError, match="no checkpoints"):
        average_checkpoints([])


def test_the_command_writes_a_folder_and_overwrites_none(tmp_path, capsys):
    folders = [checkpoint(tmp_path / str(n), w=torch.tensor([float(n)])) for n in (1, 3)]
    for name in ("config.json", "source.spm", "target_tokenizer/tokenizer.json"):
        (folders[-1] / name).parent.mkdir(exist_ok=True)
        (folders[-1] / name).write_text("{}")
    (folders[-1] / "trainer_state.json").write_text("{}")
    command = [*map(str, folders), "--output", str(tmp_path / "mean")]
    averaging.main(command)
    assert load_file(tmp_path / "mean" / "model.safetensors")["w"].item() == 2.0
    mean = tmp_path / "mean"
    assert (mean / "config.json").read_text() == "{}"
    assert (mean / "source.spm").exists() and (mean / "target_tokenizer/tokenizer.json").exists()
    assert not (mean / "trainer_state.json").exists()
    with pytest.raises(SystemExit):
        averaging.main(command)
    assert "exists already" in capsys.readouterr().err
