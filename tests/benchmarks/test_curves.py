"""The parts of the paper's training: places on curves, and the whole script on a little text."""

import gzip
import json
from pathlib import Path

import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from benchmarks import curves, library_training
from tests.docs.pages import read
from tests.training.runs import run_here, write_pairs
from training import sweep
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.evaluation import SeedScore


def test_ours_is_the_base_model_and_its_batches_at_a_tenth():
    shape = {name: curves.TENTH[name] for name in curves.TENTH if name in VaswaniConfig().to_dict()}
    with torch.device("meta"):
        base = VaswaniForConditionalGeneration(VaswaniConfig())
        tenth = VaswaniForConditionalGeneration(VaswaniConfig(**shape))
    counts = f"| {base.num_parameters():,} | {tenth.num_parameters():,} |"
    assert counts in read("docs/curves.md")
    assert tenth.num_parameters() / base.num_parameters() == pytest.approx(0.1, abs=0.005)
    # Sections 5.1 and 5.3.
    assert (curves.TENTH["source_tokens"], curves.TENTH["target_tokens"]) == (2500, 2500)
    assert curves.TENTH["warmup_steps"] == 400
    assert not curves.TENTH.keys() & {"dropout", "label_smoothing", "learning_rate"}  # the paper's


def test_each_row_has_the_papers_highest_rate_but_the_librarys_own_settings():
    common = {**curves.TENTH, "max_steps": 9}
    peak = (256 * 400) ** -0.5  # equation 3 at its peak
    for name in [name for name, row in curves.ROWS.items() if not row.run]:
        fields = curves.run_of(name, 1, Path(), common).fields
        is_library = name == "marian_defaults"
        assert fields["learning_rate"] == pytest.approx(5e-5 if is_library else peak), name
        assert fields["max_steps"] == (-1 if is_library else 9), name


def test_marian_initial_values_have_the_spread_of_marians_own():
    shape = {"vocab_size": 300, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
    model = VaswaniForConditionalGeneration(VaswaniConfig(**shape, d_ff=64, num_heads=2))
    curves.draw_as_marian(model, 1)
    peer = MarianMTModel(
        MarianConfig(**shape, encoder_ffn_dim=64, decoder_ffn_dim=64, pad_token_id=1)
    )
    embedding, own = (each.get_input_embeddings().weight for each in (model, peer))
    assert embedding.std().item() == pytest.approx(own.std().item(), rel=0.05)  # of 9,600 numbers
    assert not embedding[1].any() and not own[1].any()
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.1), name


def test_points_are_spread_over_the_time_and_one_is_at_the_updates_of_the_others():
    seconds = [3.0 * number for number in range(1, 21)]
    updates = [100 * number for number in range(1, 21)]
    # By hand: every second one of 20 makes 10.
    assert curves.places_of_points(updates, seconds, 2000) == [*range(1, 20, 2)]
    assert curves.places_of_points(updates, seconds, 320) == [1, 2, *range(3, 20, 2)]
    assert curves.places_of_points([7], [3.0], 9) == [0]


def point(updates, minutes, bleu):
    scores = {name: SeedScore(bleu, [bleu - 1, bleu + 3]) for name in curves.FIGURES}
    return curves.Point(updates, minutes, scores)


def test_a_place_between_two_points_is_on_the_line_between_them():
    curve = [point(100, 1.0, 2.0), point(300, 2.0, 10.0), point(400, 4.0, 12.0)]
    # By hand: a quarter of the way from 2 to 10, half of it from 10 to 12.
    found = curves.at(curve, "updates", 150)["bleu"]
    assert (found.score, found.resampled) == (4.0, [3.0, 7.0])
    assert curves.at(curve, "minutes", 3.0)["bleu"].score == 11.0
    assert curves.at(curve, "updates", 400)["bleu"].score == 12.0
    assert curves.at(curve, "updates", 50)["bleu"].score == 2.0
    with pytest.raises(ValueError, match="ends at 400 updates, before 401"):
        curves.at(curve, "updates", 401)


def test_rows_are_compared_after_what_all_have_reached():
    ours = {1: [point(100, 1.0, 2.0), point(300, 3.0, 10.0)]}
    marian = {1: [point(100, 2.0, 1.0), point(200, 4.0, 3.0)]}
    results = {"commit": "c", "parameters": 7}
    report = curves.report_of(
        {"ours": ours, "marian": marian}, {"ours": {1: results}, "marian": {1: results}}
    )
    updates, minutes = report["equal"]["updates"], report["equal"]["minutes"]
    assert (updates["place"], minutes["place"]) == (200, 3.0)
    # By hand, on the lines between the points.
    assert [row["bleu"] for row in updates["rows"].values()] == [6.0, 3.0]
    assert [row["bleu"] for row in minutes["rows"].values()] == [10.0, 2.0]
    assert minutes["rows"]["marian"]["bleu_less_ours"]["value"] == -8.0
    assert [row["updates_per_minute"] for row in report["rows"]] == [100, 50]
    with pytest.raises(ValueError, match="compared with ours, of which no run"):
        curves.report_of({"marian": marian}, {"marian": {1: results}})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Text in the files of Tatoeba."""
    folder = tmp_path_factory.mktemp("tatoeba")
    for name, count in (("train", 60), ("valid", 8)):
        write_pairs(folder / name, count)
        pairs = [line.split("\t") for line in (folder / name).read_text().splitlines()]
        for place, language in enumerate(("en", "de")):
            text = "".join(f"{pair[place]}\n" for pair in pairs)
            (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    return folder


SMALL = (
    "--vocab_size 300 --d_model 16 --d_ff 16 --num_heads 2 --encoder_layers 1 --decoder_layers 1 "
    "--source_tokens 100 --target_tokens 100 --use_cpu"
).split()


def test_a_training_in_the_librarys_trainer_goes_on_where_it_was_stopped(data, tmp_path):
    files = [f"--train_{side}={data}/train.{name}.gz" for side, name in curves.SIDES.items()]
    argv = ["marian", "--sentences", "5", "base", *files, *SMALL, "--output_dir", str(tmp_path)]
    argv += ["--disable_tqdm", "--eval_strategy=no", "--resume_from_checkpoint", "auto"]
    for updates in (2, 15):  # an epoch has 12
        library_training.main([*argv, "--max_steps", str(updates)])
        results = json.loads((tmp_path / "results.json").read_text())["training"]
        assert results == {"updates": updates, "epochs": updates / 12}
        path = tmp_path / f"checkpoint-{updates}" / "trainer_state.json"
        state = json.loads(path.read_text())
        spent = state["stateful_callbacks"]["CheckpointClock"]["attributes"]
        if updates == 2:  # as if these had taken longer
            spent["processor_seconds_before"] += 1000
            path.write_text(json.dumps(state))
    assert state["train_batch_size"] == 5
    assert 1000 < curves.seconds_of(path.parent) < 2000


def test_rows_are_trained_judged_and_drawn(data, tmp_path, monkeypatch):
    commands = []

    def train(command):
        commands.append(command)
        if command[1] != "-m":
            return run_here(*command[2:]).returncode
        library_training.main(command[3:])
        return 0

    monkeypatch.setattr(sweep, "_wait_for", train)
    runs, picture = tmp_path / "runs", tmp_path / "curves.svg"
    argv = [str(data), "--output_dir", str(runs), "--results", str(tmp_path), *SMALL]
    argv += ["--updates", "3", "--sentences", "5"]
    rows = ["ours", "no_averaging", "sentence_batches", "initial_values", "marian"]
    argv += ["--rows", *rows]
    curves.main(argv)
    curves.main([*argv, "--only_report", "--picture", str(picture)])
    assert len(commands) == 4
    (path,) = tmp_path.glob("*-curves.json")
    report = json.loads(path.read_text())
    assert [row["row"] for row in report["rows"]] == rows
    for row in report["rows"]:
        assert row["curves"]["1"]["updates"] == [3]
    results = json.loads((runs / "marian-seed_1" / "results.json").read_text())
    own = json.loads((runs / "ours-seed_1" / "results.json").read_text())
    assert results["sampling"] == "group_by_length"
    assert results["data"] == own["data"]
    start = VaswaniForConditionalGeneration.from_pretrained(runs / "initial_values_1")
    assert start.model.decoder.layers[0].feed_forward.inner.weight.std() < 0.025
    labels = [row["label"] for row in report["rows"]]
    assert all(label in picture.read_text() for label in labels)
    assert curves.markdown(report).count("\n| Marian, our settings | 1 |") == 1
