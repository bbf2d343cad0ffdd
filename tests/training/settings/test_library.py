"""Settings that cannot work are refused before any text is read, by the name they have there."""

import dataclasses
import json

import pytest

from tests.training.runs import RECIPE, results_of, write_pairs
from training.data import files
from training.run import main
from training.settings.fields import FIELDS, VaswaniTrainingArguments
from training.settings.library import UNUSABLE, WITHOUT_EFFECT
from training.settings.ranges import RANGES
from training.settings.reading import parse_arguments


@pytest.fixture
def folder(tmp_path):
    """A recipe and text: 40 pairs to train on, 7 to validate on."""
    (tmp_path / "tiny.yaml").write_text(
        RECIPE.replace('eval_strategy: "no"', "eval_strategy: steps\neval_steps: 2")
        .replace("gradient_accumulation_steps: 2\n", "")
        .replace("average_last: 2", "average_last: 1")
    )
    write_pairs(tmp_path / "a.tsv", 40)
    write_pairs(tmp_path / "v.tsv", 7, seed=1)
    return tmp_path


def command(folder, *options, validation=True):
    text = ["--train_file", str(folder / "a.tsv")]
    text += ["--validation_file", str(folder / "v.tsv")] if validation else []
    output = ["--output_dir", str(folder / "out")]
    return [str(folder / "tiny.yaml"), *text, *output, "--max_steps", "2", *options]


def without(options, *names):
    """A command line that leaves out the options that others set."""
    kept, place = [], 0
    while place < len(options):
        if options[place].removeprefix("--") in names:
            place += 2
        else:
            kept.append(options[place])
            place += 1
    return kept


CANNOT_BE = [
    *[("num_heads 5", "multiple of num_heads"), ("d_model -64", "d_model=-64")],
    *[("d_model 31", "d_model=31"), ("dropout 1.5", "dropout=1.5"), ("dropout nan", "dropout=nan")],
    *[("vocab_size -5", "vocab_size=-5"), ("vocab_size 259", "vocab_size must be above 259")],
    *[("label_smoothing 2", "label_smoothing=2"), ("encoder_layers 0", "encoder_layers=0")],
    *[("learning_rate -1", "learning_rate=-1"), ("learning_rate nan", "learning_rate=nan")],
    *[("weight_decay -1", "weight_decay=-1"), ("adam_beta1 1.5", "adam_beta1=1.5")],
    *[("adam_beta2 -1", "adam_beta2=-1"), ("adam_epsilon -1", "adam_epsilon=-1")],
    *[("max_grad_norm nan", "max_grad_norm=nan"), ("warmup_steps -3", "warmup_steps=-3")],
    *[("warmup_steps nan", "warmup_steps=nan"), ("max_steps -5", "max_steps=-5")],
    *[("max_steps 0", "max_steps must be at least 1, or -1 for num_train_epochs")],
    *[("num_train_epochs 0", "num_train_epochs=0"), ("num_train_epochs nan", "epochs=nan")],
    *[("max_minutes -3", "max_minutes=-3"), ("save_minutes 0", "save_minutes=0")],
    *[("save_steps -3", "save_steps=-3"), ("save_steps nan", "save_steps=nan")],
    *[("eval_steps -3", "eval_steps=-3"), ("logging_steps -5", "logging_steps=-5")],
    *[("eval_delay -3", "eval_delay=-3"), ("seed -1", "seed=-1"), ("data_seed -1", "data_seed=-1")],
    *[("max_length 1", "max_length must be at least 2"), ("max_length -5", "max_length=-5")],
    *[("source_tokens 1", "source_tokens=1 over 1 batches an update leaves 1")],
    (
        "load_best_model_at_end true --eval_strategy steps --save_strategy epoch",
        "load_best_model_at_end requires the save and eval strategy to match.*EPOCH",
    ),
    ("device_tokens 1", "over 240 batches an update .* are 2; raise device_tokens"),
    *[("target_tokens 0", "target_tokens=0")],
    ("gradient_accumulation_steps 1000", "source_tokens=240 over 1000 batches"),
    ("gradient_accumulation_steps 0", "gradient_accumulation_steps=0"),
    *[("num_beams 0", "num_beams=0"), ("generation_num_beams 0", "generation_num_beams=0")],
    *[("generation_max_length -3", "max_length=-3"), ("max_extra_tokens -5", "tokens=-5")],
    *[("length_penalty 1e30", "length_penalty=1e\\+30")],
    *[("length_penalty nan", "length_penalty=nan"), ("max_padding nan", "max_padding=nan")],
    ("dataloader_num_workers -1", "dataloader_num_workers=-1"),
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
    ("streaming true --max_padding 0.5", "max_padding=0.5 has no effect on streaming"),
]


@pytest.mark.parametrize(("options", "message"), CANNOT_BE, ids=[case[0] for case in CANNOT_BE])
def test_what_cannot_work_is_refused_before_the_text_is_read(folder, options, message, monkeypatch):
    monkeypatch.setattr(files, "read_pairs", None)  # a call would be a TypeError
    given = f"--{options}".split()
    names = [option.removeprefix("--") for option in given if option.startswith("--")]
    with pytest.raises(SystemExit, match=f"^training/run.py: .*{message}") as ended:
        main([*without(command(folder), *names), *given])
    assert "\n" not in ended.value.code
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", sorted({**WITHOUT_EFFECT, **UNUSABLE}))
def test_a_setting_of_the_library_that_is_not_heeded_is_refused_by_name(folder, name):
    spec = {spec.name: spec for spec in dataclasses.fields(VaswaniTrainingArguments)}[name]
    value = str(not spec.default) if isinstance(spec.default, bool) else "7"
    with pytest.raises(ValueError, match=f"^{name}={value} (would have no effect|cannot be used)"):
        parse_arguments(command(folder, f"--{name}", value))


def test_a_switch_of_the_library_may_be_left_as_it_is(folder):
    parse_arguments(command(folder, "--remove_unused_columns", "yes", "--do_train", "no"))


def test_every_range_is_of_a_setting():
    # `max_length_ratio` and the like are of the data, the rest of training.
    assert set(RANGES) <= FIELDS.keys()


def test_a_share_of_the_updates_to_warm_up_needs_their_number(folder):
    options = without(command(folder), "max_steps")
    share = ["--num_train_epochs", "1", "--warmup_steps", "0.5"]
    recipe = folder / "tiny.yaml"
    recipe.write_text(recipe.read_text().replace("learning_rate: 1.0e-3\n", ""))
    with pytest.raises(ValueError, match=r"warmup_steps=0\.5 is a share.*set learning_rate or max"):
        parse_arguments([*options, *share])
    parse_arguments([*options, *share, "--learning_rate", "1e-3"])


# Text


def test_two_files_are_enough(folder, caplog):
    """No validation set: the run trains, averages and writes what it has."""
    options = without(command(folder, validation=False), "max_steps")
    with caplog.at_level("INFO", logger="training"):
        main([*options, "--max_steps", "4", "--average_last", "2", "--save_steps", "2"])
    assert "There is no validation set: nothing is evaluated during training." in caplog.messages
    results = results_of(folder / "out")
    assert results["scores"] == {} and results["training"]["updates"] == 4
    assert results["averaged_checkpoints"] == ["checkpoint-2", "checkpoint-4"]
    assert (folder / "out" / "model.safetensors").is_file()
    assert "BLEU" not in (folder / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    "asked",
    [
        "eval_strategy steps",
        "early_stopping_patience 3",
        "load_best_model_at_end true",
        "eval_on_start true",
        "lr_scheduler_type reduce_lr_on_plateau",
    ],
)
def test_what_compares_evaluations_needs_a_validation_set(folder, asked):
    name, value = asked.split()
    more = ["--save_strategy", "best"] if "best" in name or "stopping" in name else []
    with pytest.raises(
        SystemExit, match=f"(?i){name}={value} needs a validation set.*--validation"
    ):
        main(command(folder, f"--{name}", value, *more, validation=False))
    assert not (folder / "out").exists()


def test_a_dataset_without_a_validation_split_is_trained_on(folder):
    rows = [json.dumps({"source": f"a{place} b", "target": f"b a{place}"}) for place in range(40)]
    (folder / "set").mkdir()
    (folder / "set" / "train.jsonl").write_text("\n".join(rows))
    options = without(command(folder, validation=False), "train_file")
    main([*options, "--dataset", str(folder / "set")])
    assert results_of(folder / "out")["scores"] == {}
    options[options.index("--output_dir") + 1] += "2"
    with pytest.raises(SystemExit, match="eval_strategy=steps needs a validation set"):
        main([*options, "--dataset", str(folder / "set"), "--eval_strategy", "steps"])


def test_an_option_that_is_a_list_grows_and_any_other_is_given_once(folder):
    options = ["base", "--train_source", "a", "--train_source", "b", "--train_target", "c", "d"]
    parsed = parse_arguments(options).data
    assert (parsed.train_source, parsed.train_target) == (["a", "b"], ["c", "d"])
    with pytest.raises(ValueError, match="command line: --d_model is given twice"):
        parse_arguments(["base", "--d_model", "64", "--d_model=32"])


def test_files_take_the_place_of_the_recipes_dataset(folder):
    arguments = parse_arguments(["demo", "--train_source", "a", "--train_target", "b"])
    assert arguments.data.dataset is None
    assert "dataset=demo of the recipe gives way to the training files." in arguments.notes
    both = ["demo", "--train_source", "a", "--train_target", "b", "--dataset", "demo"]
    assert parse_arguments(both).data.dataset == "demo"


def test_a_dataset_takes_the_place_of_the_recipes_files():
    arguments = parse_arguments(["iwslt14_de_en", "--dataset", "demo"])
    assert arguments.data.dataset == "demo"
    assert arguments.data.train_source == arguments.data.test_target == []
    assert any(note.startswith("test_source=iwslt14") for note in arguments.notes)


def test_bf16_needs_no_word_about_the_cpu(folder):
    recipe = folder / "tiny.yaml"
    recipe.write_text(recipe.read_text().replace("use_cpu: true\n", ""))
    assert parse_arguments(command(folder, "--bf16")).training.bf16
