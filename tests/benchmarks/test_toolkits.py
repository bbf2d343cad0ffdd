"""What the toolkits are told, what is read of their logs, and the whole script without them."""

import gzip
import json
import math
import sys
from pathlib import Path

import pytest
import torch
import yaml
from sacrebleu.metrics import BLEU

from benchmarks import toolkit_entry, toolkits
from tests.training.runs import run_here, write_pairs
from training import sweep
from vaswani_hf.text.lines import read_lines


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Text in the files of Multi30k."""
    folder = tmp_path_factory.mktemp("multi30k")
    for name, count in (("train", 60), ("val", 8), ("test_2016", 8)):
        write_pairs(folder / name, count)
        pairs = [line.split("\t") for line in (folder / name).read_text().splitlines()]
        for place, language in enumerate(("en", "de")):
            with gzip.open(folder / f"{name}.{language}.gz", "wt") as file:
                file.writelines(f"{pair[place]}\n" for pair in pairs)
    return folder


@pytest.fixture(scope="module")
def text(data, tmp_path_factory):
    return toolkits.write_text(data, tmp_path_factory.mktemp("text"))


def test_text_comes_back_from_its_pieces(text, data):
    lines = list(read_lines(data / "train.de.gz"))
    assert text.lines("train", "de") == lines
    pieces = (text.folder / "pieces" / "train.de").read_text().splitlines()
    assert text.decode(pieces) == lines
    vocabulary = text.vocabulary.read_text().splitlines()
    assert {piece for line in pieces for piece in line.split()} <= set(vocabulary)
    assert not {"<unk>", "<s>", "</s>"} & set(vocabulary)  # each toolkit adds its own


# Of logs of JoeyNMT 2.3.0, OpenNMT-py 3.5.1 and fairseq 0.12.2.
LOGS = {
    "joeynmt": (
        "2026-11-22 22:30:12,083 - INFO - joeynmt.training - EPOCH 1",
        "2026-11-22 22:30:40,100 - INFO - joeynmt.training - Epoch   1, Step:       50, Batch "
        "Loss:     6.210000, Batch Acc: 0.110000, Tokens per Sec:     2011, Lr: 0.000300",
        2011,
    ),
    "opennmt": (
        "[2026-11-22 22:30:12,083 INFO] Starting training on CPU, could be very slow",
        "[2026-11-22 22:30:40,100 INFO] Step 50/1000000; acc: 4.1; ppl: 3021.1; xent: 8.0; "
        "lr: 0.00001; sents:    5612; bsz: 1512/1721/112; 1980/2254 tok/s;     38 sec;",
        2254,
    ),
    "fairseq": (
        "2026-11-22 22:30:12 | INFO | fairseq.trainer | begin training epoch 1\n"
        "2026-11-22 22:30:12 | INFO | fairseq_cli.train | Start iterating over samples",
        "2026-11-22 22:30:40 | INFO | train_inner | epoch 001:     50 / 240 loss=12.1, "
        "nll_loss=11.9, ppl=3900, wps=2420.5, ups=1.4, wpb=1728, bsz=121, num_updates=50, lr=6e-06",
        2420.5,
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_tells_when_training_begins_and_how_fast_it_is(name):
    kind = toolkits.TOOLKITS[name]
    begin, step, speed = LOGS[name]
    assert kind.begins.search(begin) and not kind.begins.search(step)
    assert float(kind.progress.search(step)["speed"]) == speed
    assert not kind.progress.search(begin)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("joeynmt", ["100.ckpt", "50.ckpt", "best.ckpt", "50.hyps"]),
        ("opennmt", ["step_step_100.pt", "step_step_50.pt", "step_step_50.tmp"]),
        ("fairseq", ["checkpoint_2_100.pt", "checkpoint_1_50.pt", "checkpoint_best.pt"]),
    ],
)
def test_checkpoints_come_in_the_order_of_their_updates(name, files, text, tmp_path):
    toolkit = toolkits.TOOLKITS[name]("python", text, tmp_path, toolkits.DOCUMENTED, 50)
    (toolkit.folder / "model").mkdir(parents=True)
    for file in files:
        (toolkit.folder / "model" / file).touch()
    assert list(toolkit.checkpoints().values()) == [50, 100]


def test_all_toolkits_get_the_shape_of_the_recipe(text, tmp_path):
    # training/recipes/multi30k_small.yaml, as it is read.
    expected = {"layers": 3, "d_model": 256, "d_ff": 1024, "heads": 4, "dropout": 0.2}
    joeynmt, opennmt, fairseq = (
        kind("python", text, tmp_path, toolkits.DOCUMENTED, 150)
        for kind in toolkits.TOOLKITS.values()
    )
    for side in joeynmt.settings()["model"]["encoder"], joeynmt.settings()["model"]["decoder"]:
        names = ("num_layers", "hidden_size", "ff_size", "num_heads", "dropout")
        assert [side[name] for name in names] == list(expected.values())
    told = opennmt.settings()
    names = ("enc_layers", "hidden_size", "transformer_ff", "heads")
    assert [told[name] for name in names] == [3, 256, 1024, 4] and told["dropout"] == [0.2]
    words = fairseq.training()
    for side in ("encoder", "decoder"):
        for option, value in (("layers", 3), ("embed-dim", 256), ("ffn-embed-dim", 1024)):
            assert words[words.index(f"--{side}-{option}") + 1] == str(value)
    assert words[words.index("--dropout") + 1] == "0.2"


def test_rates_of_the_recipe_peak_alike(text, tmp_path):
    joeynmt, opennmt, fairseq = (
        kind("python", text, tmp_path, toolkits.AS_RECIPE, 150)
        for kind in toolkits.TOOLKITS.values()
    )
    assert joeynmt.rates()["learning_rate"] == 1.5e-3
    words = fairseq.rates()
    assert words[words.index("--lr") + 1] == "0.0015"
    # Equation 3 of the paper, times a factor: its peak is at the last update of the warm-up.
    rates = opennmt.rates()
    assert rates["learning_rate"] / math.sqrt(256 * rates["warmup_steps"]) == pytest.approx(1.5e-3)
    assert {rate["adam_beta2"] for rate in (rates,)} == {0.98}


def test_checkpoints_of_a_mark_are_apart_and_none_is_later():
    seconds = {Path(str(minute)): minute * 60.0 + 5 for minute in range(1, 31)}
    chosen = toolkits.choose(seconds, mark=15, apart_minutes=2.5)
    # 15 minutes and 5 s are within the tolerance; then 2.5 minutes before each.
    assert [path.name for path in chosen] == ["3", "6", "9", "12", "15"]
    assert [path.name for path in toolkits.choose(seconds, 1, 2.5)] == ["1"]
    assert toolkits.choose(seconds, 0.5, 2.5) == []


def test_the_mean_is_that_of_all_checkpoints_and_tied_weights_count_once(tmp_path):
    paths = []
    for value in (1.0, 2.0, 6.0):
        weight = torch.full((2, 3), value)
        state = {"embedding.weight": weight, "tied.weight": weight, "pe": torch.ones(9)}
        state["steps"] = torch.tensor(int(value))
        paths.append(str(tmp_path / f"{value}.pt"))
        torch.save({"model": state, "epoch": value}, paths[-1])
    average, parameters = toolkit_entry.mean_of(paths, ["model"])
    assert average["model"]["tied.weight"].tolist() == [[3.0] * 3] * 2  # (1 + 2 + 6) / 3
    assert average["model"]["steps"] == 6 and average["epoch"] == 6.0  # the last one's
    assert parameters == 6


def test_a_toolkit_without_its_python_is_refused():
    with pytest.raises(ValueError, match="joeynmt=PYTHON"):
        toolkits.contestant_of("joeynmt")
    with pytest.raises(ValueError, match="--toolkit marian is unknown"):
        toolkits.contestant_of("marian=python")


# In place of toolkit_entry.py: a toolkit that translates as the references do, and needs no torch.
ENTRY = """\
import json, pathlib, sys, time
if sys.argv[1] == "average":
    pathlib.Path(sys.argv[2]).write_text("")
    print(json.dumps({"parameters": 4}))
elif sys.argv[2].endswith("train"):
    pathlib.Path("model").mkdir()
    print("Start iterating over samples", flush=True)
    for step in range(1, 13):
        pathlib.Path(f"model/checkpoint_1_{step}.pt").touch()
        print(f"train_inner | wps={step}, ups=1", flush=True)
    time.sleep(600)
elif sys.argv[2].endswith("generate"):
    lines = pathlib.Path("../text/pieces/test.de").read_text().splitlines()
    for number, line in reversed(list(enumerate(lines))):
        print(f"S-{number}\\tsource\\nH-{number}\\t-0.5\\t{line}")
"""


def in_order(seconds, mark, apart_minutes):
    """As `choose`, whatever the clock said: the first checkpoint, and the last ones."""
    return list(seconds)[:1] if mark == 0.01 else list(seconds)[-5:]


def test_a_contest_is_trained_once_scored_at_each_mark_and_told(data, tmp_path, monkeypatch):
    entry = tmp_path / "entry.py"
    entry.write_text(ENTRY)
    monkeypatch.setattr(toolkits, "ENTRY", entry)
    monkeypatch.setattr(toolkits.Fairseq, "packages", ("torch",))
    monkeypatch.setattr(toolkits, "choose", in_order)
    for name in ("TOLERANCE_SECONDS", "SECONDS_TO_WRITE"):
        monkeypatch.setattr(toolkits, name, 0.2)
    commands = []

    def train(command, _log):
        commands.append(command)
        return run_here(*command[2:]).returncode

    monkeypatch.setattr(sweep, "_wait_for", train)
    argv = [str(data), "--output_dir", str(tmp_path / "runs"), "--results", str(tmp_path)]
    argv += ["--toolkit", f"fairseq={sys.executable}", "--toolkit", "vaswani_hf"]
    argv += ["--marks", "0.01", "0.02", "--apart_minutes", "0.002", "--vocab_size", "290"]
    argv += ["--max_extra_tokens", "3", "--d_model", "16", "--d_ff", "16", "--use_cpu"]
    argv += ["--save_minutes", "0.001", "--num_heads", "2"]
    toolkits.main(argv)
    log = tmp_path / "runs" / "fairseq-documented" / "training.log"
    written = log.stat().st_mtime_ns
    toolkits.main(argv)
    assert len(commands) == 1 and log.stat().st_mtime_ns == written  # neither is trained again
    (path,) = tmp_path.glob("*-toolkits.json")
    peer, ours = json.loads(path.read_text())["rows"]
    assert (peer["toolkit"], ours["toolkit"]) == ("fairseq", "vaswani_hf")
    assert str(tmp_path) not in json.dumps(peer) + json.dumps(ours)
    assert list(peer["marks"]) == list(ours["marks"]) == ["0.01", "0.02"]
    first, second = peer["marks"].values()
    assert first["bleu_last"] == second["bleu_mean"] == 100.0  # it copies the references
    assert first["updates"] < second["updates"] and second["averaged"] == 5
    assert peer["parameters"] == 4
    hypotheses = (tmp_path / "runs" / "vaswani_hf" / "test.0.02.last.de").read_text()
    references = list(read_lines(data / "test_2016.de.gz"))
    expected = BLEU().corpus_score(hypotheses.splitlines(), [references]).score
    assert ours["marks"]["0.02"]["bleu_last"] == pytest.approx(expected, abs=0.01)


def test_configurations_are_files_that_others_can_read(text, tmp_path):
    toolkit = toolkits.JoeyNMT("python", text, tmp_path, toolkits.AS_RECIPE, 150)
    toolkit.folder.mkdir()
    toolkit.prepare()
    read = yaml.safe_load((toolkit.folder / "train.yaml").read_text())
    assert read == toolkit.settings()
    assert read["training"]["learning_rate_min"] == 1e-8  # a number, not a text
    assert read["training"]["validation_freq"] % read["training"]["logging_freq"] == 0
