"""The arithmetic of the table, and the whole script with a tiny model."""

import json
import sys

import pytest

from benchmarks import all as benchmark
from benchmarks.contest import OURS, PEER
from tests.conftest import REPOSITORY


def test_a_ratio_is_of_the_same_round():
    seconds = {OURS: [1.0, 2.0, 4.0], PEER: [3.0, 2.0, 8.0]}
    figures = benchmark.figures_of(seconds, alone=1.5, num_flops=3e9)
    assert figures["seconds"] == 2.0
    # 3 / 1, 2 / 2 and 8 / 4; of the medians it would be 1.5.
    assert figures["ratios"] == {PEER: {"median": 2.0, "low": 1.0, "high": 3.0}}
    assert figures["products_share"] == 0.75
    assert figures["products_gflops_per_second"] == 2.0


def test_every_other_round_begins_with_the_last():
    order = []
    calls = {name: lambda number, name=name: order.append((name, number)) for name in "ab"}
    seconds = benchmark.time_by_turns(calls, rounds=2, repetitions=2)
    assert order == [
        *(("a", 1), ("a", 2), ("b", 1), ("b", 2)),
        *(("b", 3), ("b", 4), ("a", 3), ("a", 4)),
    ]
    assert {name: len(of_one) for name, of_one in seconds.items()} == {"a": 2, "b": 2}


def test_the_table_of_a_processor_has_a_column_for_each_number_of_threads():
    def row(work, threads, **ratios):
        return {
            **{"shape": "base", "work": work, "threads": threads, "products_share": 0.684},
            "ratios": {
                name: dict(zip(("median", "low", "high"), of_one, strict=True))
                for name, of_one in ratios.items()
            },
        }

    report = {
        "date": "2026-11-22",
        "cores": 4,
        "rounds": 3,
        "processor": {
            **{"name": "AMD EPYC", "family": "25", "model": "17"},
            **{"features": ["avx2", "avx512f"], "torch_capability": "AVX512"},
        },
        "versions": {"torch": "2.13.0"},
        "rows": [
            row("beam", 2, **{PEER: (1.4, 1.3, 1.5), "CTranslate2": (0.5, 0.4, 0.6)}),
            row("beam", 1, **{PEER: (1.2, 1.1, 1.25), "CTranslate2": (0.7, 0.6, 0.8)}),
            row("train", 1, **{PEER: (1.15, 1.1, 1.2)}),
        ],
    }
    assert benchmark.markdown(report) == (
        "### AMD EPYC, family 25, model 17\n\n"
        "4 cores, AVX512 (avx2, avx512f); torch 2.13.0; 2026-11-22, 3 rounds.\n\n"
        "| Work | 1 thread | 2 threads |\n|---|---|---|\n"
        "| Training step, `base` | 1.15 (1.10 to 1.20); 68 % | - |\n"
        "| Beam 4, `base` | 1.20 (1.10 to 1.25); 68 % | 1.40 (1.30 to 1.50); 68 % |\n"
        "| Beam 4, `base`, beside CTranslate2 | 0.70 (0.60 to 0.80) | 0.50 (0.40 to 0.60) |\n"
    )


def test_the_page_of_speeds_has_the_table_of_each_result():
    page = (REPOSITORY / "docs" / "speed.md").read_text(encoding="utf-8")
    paths = sorted((REPOSITORY / "benchmarks" / "results").glob("*-all-*.json"))
    assert paths
    for path in paths:
        assert benchmark.markdown(json.loads(path.read_text(encoding="utf-8"))) in page, path.name


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What the script writes of a tiny model."""
    folder = tmp_path_factory.mktemp("all")
    recipe = folder / "tiny.yaml"
    lines = ["extends: base", "vocab_size: 300", "d_model: 32", "d_ff: 64", "num_heads: 2"]
    recipe.write_text("\n".join([*lines, "encoder_layers: 1", "decoder_layers: 1"]))
    command = ["all.py", "--shapes", str(recipe), "--threads", "1", "--rounds", "2", "--quick"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(benchmark.SHAPES, str(recipe), (2, 4, 1, 1))
        patch.setattr(sys, "argv", [*command, "--results", str(folder)])
        benchmark.main()
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text())


def test_a_run_has_a_row_for_each_work_with_all_its_rounds(report):
    assert [row["work"] for row in report["rows"]] == ["train", "greedy", "beam"]
    for row in report["rows"]:
        assert row["threads"] == 1
        peers = {PEER, "CTranslate2"} if row["work"] == "beam" else {PEER}
        assert row["ratios"].keys() == peers
        assert {name: len(of_one) for name, of_one in row["rounds"].items()} == dict.fromkeys(
            {OURS, *peers}, 2
        )
        assert row["products_seconds"] > 0
        assert row["ratios"][PEER]["low"] > 0


def test_a_run_names_processor_cores_and_versions(report):
    assert report["processor"]["name"] and report["cores"] >= 1
    assert {"torch", "transformers"} <= report["versions"].keys()
