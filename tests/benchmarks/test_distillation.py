"""The whole script on a few letters: students of a model that copies."""

import gzip
import json

import pytest

from benchmarks import distillation
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


def test_the_student_has_less_than_a_third_of_the_teachers_parameters():
    import torch

    from training.settings.recipes import read_recipe

    shape = {
        name: value
        for name, value in read_recipe(distillation.RECIPE).items()
        if name in VaswaniConfig.__annotations__
    }
    with torch.device("meta"):
        teacher, student = (
            VaswaniForConditionalGeneration(VaswaniConfig(**{**shape, **fields})).num_parameters()
            for fields in ({}, distillation.STUDENT)
        )
    assert student < teacher / 3


@pytest.fixture
def data(tmp_path):
    """Text in the files of Multi30k: the German says less than the English."""
    lines = [" ".join("abcdefgh"[place % 5 : place % 5 + 4]) for place in range(16)]
    for split in distillation.SPLITS.values():
        for language, cut in (("en", 7), ("de", 5)):
            with gzip.open(tmp_path / f"{split}.{language}.gz", "wt") as file:
                file.writelines(f"{line[:cut]}\n" for line in lines)
    return tmp_path


@pytest.mark.usefixtures("few_trials")
def test_students_learn_from_the_teacher_or_from_the_references(
    data, copier_folder, tmp_path, commands
):
    pytest.importorskip("ctranslate2")
    work = tmp_path / "work"
    argv = [str(copier_folder), str(data), "--output_dir", str(work), "--results", str(tmp_path)]
    argv += ["--seeds", "1", "--rounds", "1", "--max_steps", "2", "--encoder_layers", "1"]
    argv += ["--d_model", "16", "--d_ff", "16", "--use_cpu", "--eval_strategy", "no"]
    distillation.main([*argv, "--sentences", "4"])
    assert (work / "best.de").read_text() == (work / "train.en").read_text()  # what it copies
    learnt = [command[command.index("--train_target") + 1] for command in commands]
    assert [name.rpartition("/")[2] for name in learnt] == ["train.de.gz", "best.de", "nearest.de"]
    (path,) = tmp_path.glob("*-distillation.json")
    report = json.loads(path.read_text())
    assert report["runs"] == "3 of 3"
    systems = report["scores"]["bleu"]["systems"]
    for system, name in (("references", "references"), ("the nearest of 8", "nearest")):
        results = json.loads((work / f"{name}-seed_1" / "results.json").read_text())
        assert systems[system]["mean"] == pytest.approx(results["scores"]["test"]["bleu"])
    (tests,) = report["scores"]["bleu"]["paired_tests"].values()
    assert [one["system"] for one in tests] == list(distillation.SYSTEMS)
    teacher, *_, student = report["speeds"]
    assert teacher["engine"] == distillation.PEER and teacher["times_teacher"] == 1
    assert student["engine"] == "student, int8, greedy" and student["times_teacher"] > 0
