import pytest
import torch
from transformers import MarianConfig

from vaswani_hf import VaswaniConfig
from vaswani_hf.conversion.folders import load_config, load_vaswani
from vaswani_hf.hub.folder import export


def test_a_vaswani_folder_is_loaded_in_float32_for_evaluation(copier, tmp_path):
    export(copier[0], None, tmp_path)
    model = load_vaswani(tmp_path, "mine")
    assert not model.training and model.dtype == torch.float32
    for name, parameter in copier[0].named_parameters():
        assert torch.equal(parameter, model.get_parameter(name))


def test_another_kind_of_model_is_named(tmp_path):
    MarianConfig(pad_token_id=1).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"mine .*'marian', expected 'vaswani'.*convert --from"):
        load_vaswani(tmp_path, "mine")
    VaswaniConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"mine .*'vaswani', expected 'marian'"):
        load_config(tmp_path, "mine", MarianConfig)


def test_a_folder_without_a_config_or_with_a_damaged_one_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"mine is not a model's folder: it has no config\.json"):
        load_config(tmp_path, "mine", VaswaniConfig)
    (tmp_path / "config.json").write_text('{"model_type": "vas')
    with pytest.raises(ValueError, match=r"config\.json of mine cannot be read"):
        load_config(tmp_path, "mine", VaswaniConfig)
