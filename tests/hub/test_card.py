"""The model card: its metadata, its sentences, and who may change it."""

import re
import sys
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.constants import HF_HUB_CACHE

from tests.translation.ctranslate2_models import disturbed_model, save, talkative_model
from vaswani_hf import Translator
from vaswani_hf.hub.card import card_for_push, language_name, make_card, write_model_card


SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
RESULTS = {
    "recipe": "multi30k",
    "commit": "abc1234",
    "parameters": 1234567,
    "data": {"pairs_read": 40, "pairs_kept": 30, "dropped_empty": 8, "dropped_too_long": 2},
    "training": {"updates": 50, "seconds": 7.4, "target_tokens_per_second": 81.6},
    "hardware": {"processes": 1, "gpus": [], "cpu_cores": 2},
    "averaged_checkpoints": ["checkpoint-40", "checkpoint-50"],
    "scores": {
        "test": {
            **{"sentences": 3, "bleu": 27.345, "bleu_signature": SIGNATURE, "exact_match": 0.5},
            "perplexity_per_token": 4.5678,
        }
    },
    "samples": [{"source": "a | b", "translation": "c", "reference": "d"}],
}


@pytest.fixture
def folder(tmp_path):
    write_model_card(tmp_path, RESULTS, languages=["en", "de"], license="mit")
    return tmp_path


# Names of ISO 639's own table.
@pytest.mark.parametrize(
    ("code", "name"), [("en", "English"), ("ga", "Irish"), ("haw", "Hawaiian"), ("qzz", "qzz")]
)
def test_a_language_is_named(code, name):
    assert language_name(code) == name


def test_a_language_is_its_code_without_babel(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    assert language_name("en") == "en"


def test_sentences_name_languages_and_metadata_has_codes():
    card = make_card("lab/name", RESULTS, languages=["en", "de"], license="mit")
    assert "This model translates English to German. It is the Transformer" in card.text
    assert card.data.language == ["en", "de"]


def test_a_card_without_both_languages_names_none():
    assert "This is the Transformer" in make_card("name", RESULTS, languages=["de"]).text


def test_figures_of_the_results_are_in_the_card():
    text = " ".join(make_card("name", RESULTS).text.split())
    for part in (
        "with 1,234,567 parameters, trained with `vaswani_hf` by the recipe `multi30k`.",
        "| test | 3 | 27.34 |",  # 27.345 in binary is a little less
        "| 50.0 % | 4.568 |",
        SIGNATURE.replace("|", "\\|"),
        "| a \\| b | c | d |",
        "Pairs read 40, kept 30 (75.00 %); dropped with an empty side 8 (20.00 %)",
        "50 updates in 7 seconds, 82 target tokens per second, on 1 process, 2 CPU cores.",
        "Averaged checkpoints: checkpoint-40, checkpoint-50.",
        "the code was at commit abc1234.",
    ):
        assert part in text


def test_a_card_without_figures_has_no_empty_section():
    text = make_card("name", {}).text
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Use", "## Limits"]
    assert "{" not in text


def test_chrf_stands_in_the_metadata_beside_bleu():
    scores = {"test": {**RESULTS["scores"]["test"], "chrf++": 51.239, "chrf++_signature": "nw:2"}}
    data = make_card("name", RESULTS | {"scores": scores}).data
    assert data.metrics == ["sacrebleu", "chrf"]
    found = [(one.metric_type, one.metric_name, one.metric_value) for one in data.eval_results]
    assert found == [("sacrebleu", f"BLEU, {SIGNATURE}", 27.34), ("chrf", "chrF++, nw:2", 51.24)]
    assert make_card("name", RESULTS).data.metrics == ["sacrebleu"]


@pytest.mark.parametrize("part", RESULTS)
def test_any_part_of_the_results_may_be_missing(part):
    rest = {name: value for name, value in RESULTS.items() if name != part}
    text = make_card("name", rest).text
    assert "{" not in text and "## Limits" in text


@pytest.mark.parametrize("count", RESULTS["data"])
def test_any_count_of_the_data_may_be_missing(count):
    data = {name: value for name, value in RESULTS["data"].items() if name != count}
    text = make_card("name", RESULTS | {"data": data}).text
    shown = "kept 30 (75.00 %)" in text, "Pairs read 40" in text, "empty side 8" in text
    assert all(shown) == (count == "dropped_too_long")
    assert "50 updates in 7 seconds" in text


def test_a_generated_card_is_generated_again_under_the_new_name(folder):
    card = card_for_push(folder, "lab/name")
    assert 'name = "lab/name"' in card.text
    assert card.data.license == "mit" and card.data.language == ["en", "de"]


def test_a_generated_card_is_known_without_babel_and_with_windows_line_ends(folder, monkeypatch):
    path = folder / "README.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    monkeypatch.setitem(sys.modules, "babel", None)
    assert 'name = "lab/name"' in card_for_push(folder, "lab/name").text


def test_the_code_on_a_card_translates(tmp_path, capsys):
    one = save(disturbed_model(seed=1, noise=0.3), tmp_path / "one")
    two = save(talkative_model(), tmp_path / "two")
    for name, folder in (("lab/one", one), ("lab/two", two)):
        # What the Hub's client keeps of a repository that it has downloaded; tests are offline.
        repository = Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text("0" * 40)
        (repository / "snapshots").mkdir()
        (repository / "snapshots" / ("0" * 40)).symlink_to(folder, target_is_directory=True)
        card = card_for_push(folder, name, license="mit")
        code = re.search("```python\n(.+?)```", card.text, re.DOTALL)[1]
        exec(code.replace("A sentence.", "s1 s2 s3"), {})
        expected = Translator.from_pretrained(folder, device="cpu")(["s1 s2 s3"])
        assert expected[0]
        assert capsys.readouterr().out == f"{expected}\n"
        assert ("target_tokenizer" in code) == (folder == two)


@pytest.mark.parametrize("edit", [("English to German", "Scots to German"), ("## Limits", "## No")])
def test_an_edited_card_keeps_its_text(folder, edit):
    path = folder / "README.md"
    edited = path.read_text().replace(*edit)
    path.write_text(edited)
    card = card_for_push(folder, "lab/name", languages=["fr", None], license="other")
    assert card.text.strip() == ModelCard(edited).text.strip()
    assert card.data.license == "other" and card.data.language == ["fr", "de"]


def test_no_license_is_an_error_that_names_the_option(tmp_path):
    with pytest.raises(
        ValueError, match=r"has no license; pass `--license ID`, such as cc-by-4\.0"
    ):
        card_for_push(tmp_path, "lab/name")


def test_damaged_metadata_is_an_error_that_names_the_file(folder):
    (folder / "README.md").write_text("---\nlicense: [\n---\n\n# name\n")
    with pytest.raises(ValueError, match=r"README\.md"):
        card_for_push(folder, "lab/name")
