"""Settings of the library that cannot work are refused by their name."""

import dataclasses

import pytest

from tests.training.settings.command_lines import check_refusal, command
from training.settings.fields import VaswaniTrainingArguments
from training.settings.library import UNUSABLE, WITHOUT_EFFECT
from training.settings.reading import parse_arguments


REFUSED = [
    ("dataloader_persistent_workers true", "set dataloader_num_workers"),
    ("report_to wandb", "report_to=wandb.*wandb to be installed"),
    ("report_to banana", "report_to=banana"),
    ("optim lion_8bit", "optim=lion_8bit.*bitsandbytes"),
    ("lr_scheduler_type cosine_with_min_lr", "lr_scheduler_type=cosine_with_min_lr.*min_lr"),
    ('lr_scheduler_kwargs {"min_lr":0.1}', "lr_scheduler_kwargs=.*no effect on.*inverse_sqrt"),
    ("lr_scheduler_kwargs banana", "lr_scheduler_kwargs must be a mapping"),
    ("torch_compile_mode banana", "torch_compile_mode=banana"),
    ("torch_compile_backend banana", "torch_compile_backend=banana"),
    ("fsdp full_shard", "fsdp=.*several processes"),
    ('accelerator_config {"split_batches":true}', "accelerator_config: split_batches=True"),
    ('accelerator_config {"dispatch_batches":true}', "accelerator_config: dispatch_batches=True"),
    ("label_smoothing_factor 2", "label_smoothing_factor=2 .*set label_smoothing"),
    ("neftune_noise_alpha 5", "neftune_noise_alpha=5 would have no effect"),
    ("deepspeed x.json", "deepspeed=x.json cannot be used"),
    ("debug underflow_overflow", "debug=underflow_overflow cannot be used"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_the_library_would_refuse_later_is_refused_before_the_text_is_read(
    folder, options, message, monkeypatch
):
    check_refusal(folder, options, message, monkeypatch)


@pytest.mark.parametrize("name", sorted({**WITHOUT_EFFECT, **UNUSABLE}))
def test_a_setting_of_the_library_that_is_not_heeded_is_refused_by_name(folder, name):
    spec = {spec.name: spec for spec in dataclasses.fields(VaswaniTrainingArguments)}[name]
    value = str(not spec.default) if isinstance(spec.default, bool) else "7"
    with pytest.raises(ValueError, match=f"^{name}={value} (would have no effect|cannot be used)"):
        parse_arguments(command(folder, f"--{name}", value))


def test_a_switch_of_the_library_may_be_left_as_it_is(folder):
    parse_arguments(command(folder, "--remove_unused_columns", "yes", "--do_train", "no"))


def test_a_batch_size_in_sentences_is_refused_and_not_dropped(tmp_path):
    message = "per_device_train_batch_size=4 would have no effect.*set source_tokens and target"
    with pytest.raises(ValueError, match=message):
        parse_arguments(["base", "--per_device_train_batch_size", "4"])


def test_bf16_needs_no_word_about_the_cpu(folder):
    recipe = folder / "tiny.yaml"
    recipe.write_text(recipe.read_text().replace("use_cpu: true\n", ""))
    assert parse_arguments(command(folder, "--bf16")).training.bf16
