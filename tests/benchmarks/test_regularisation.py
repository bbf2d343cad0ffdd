"""The whole script on a little text."""

import json

from benchmarks import regularisation
from tests.training.runs import write_sides
from vaswani_hf.text.lines import read_lines


def test_rows_are_trained_and_compared_with_base(tmp_path, commands):
    write_sides(tmp_path, {"train": 60, "val": 8, "test_2016": 8})
    runs = tmp_path / "runs"
    argv = [str(tmp_path), "--output_dir", str(runs), "--results", str(tmp_path)]
    argv += ["--vocab_size", "300", "--d_model", "16", "--d_ff", "16", "--encoder_layers", "1"]
    argv += ["--decoder_layers", "1", "--max_steps", "2", "--max_extra_tokens", "3", "--use_cpu"]
    argv += ["--rows", "base", "stages", "--seeds", "1"]
    regularisation.main(argv)
    regularisation.main([*argv, "--only_report"])
    assert len(commands) == 2
    # By hand: 60 pairs of one to six words; the halves are parallel, the first one shorter.
    short, long = (
        [list(read_lines(runs / f"{name}.{language}.gz")) for language in ("en", "de")]
        for name in ("short", "long")
    )
    assert [len(side) for side in (*short, *long)] == [30] * 4
    assert max(len(text.split()) for text in short[0]) <= min(len(text.split()) for text in long[0])
    (path,) = tmp_path.glob("*-regularisation.json")
    report = json.loads(path.read_text())
    base, stages = report["rows"]
    for row in (base, stages):
        results = json.loads((runs / f"{row['row']}-seed_1" / "results.json").read_text())
        assert row["test_bleu"] == [results["scores"]["test"]["bleu"]]
        assert row["pairs_kept"] == 60 and row["updates"] == [2]
    assert [stage["updates"] for stage in results["training"]["stages"]] == [1, 1]
    assert stages["less_base"]["value"] == stages["bleu"] - base["bleu"]
    assert regularisation.markdown(report).count("\n| stages | 1 | 60 | 2 |") == 1
