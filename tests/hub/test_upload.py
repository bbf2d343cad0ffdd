"""Pushes by huggingface_hub's own client, to a server that keeps what it gets."""

import json
import shutil

import pytest
import torch
import yaml
from huggingface_hub import ModelCard

from tests.hub.client import RESULTS, write_trained_folder
from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.hub.folder import REMOTE_CODE, export
from vaswani_hf.hub.upload import stage
from vaswani_hf.translation.loading import load_tokenizers


def card_of(hub, name, tmp_path):
    path = tmp_path / "README.md"
    path.write_bytes(hub.files(name)["README.md"])
    return ModelCard.load(path)


def test_a_push_is_fetched_again_and_says_the_same(hub, client, trained, tmp_path):
    status, out, err = client("push", trained, "--to", "lab/copier")
    assert status == 0, err
    assert "a b c\n    a b c\n" in out and f"{hub.url}/lab/copier" in out
    files = hub.files("lab/copier")
    assert set(files) - {".gitattributes"} == {
        *REMOTE_CODE,
        "README.md",
        "beam_cache_vaswani.py",
        "beam_search_vaswani.py",
        "config.json",
        "config.yaml",
        "generation_config.json",
        "log_history.json",
        "model.safetensors",
        "results.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert files["model.safetensors"] == (trained / "model.safetensors").read_bytes()
    assert set(json.loads(files["config.json"])["auto_map"]) == {
        "AutoConfig",
        "AutoModel",
        "AutoModelForSeq2SeqLM",
    }
    everything = b"".join(files.values())
    assert b"/home" not in everything and b"_secret" not in everything
    assert json.loads(files["results.json"])["scores"] == RESULTS["scores"]
    assert yaml.safe_load(files["config.yaml"])["training"]["output_dir"] == "mine"

    card = card_of(hub, "lab/copier", tmp_path)
    assert card.data.license == "cc-by-4.0" and card.data.language == ["en", "de"]
    assert card.data.eval_results[0].metric_value == pytest.approx(27.345, abs=0.01)
    assert 'name = "lab/copier"' in card.text and "a b c | a b c" in card.text

    # Nothing has changed: no commit, no upload.
    hub.requests.clear()
    number = len(hub.commits("lab/copier"))
    assert client("push", trained, "--to", "lab/copier", "--no-verify")[0] == 0
    assert len(hub.commits("lab/copier")) == number
    assert not [request for request in hub.requests if request.method == "PUT"]


def test_large_weights_go_into_several_files_and_replace_one_another(hub, client, trained):
    argv = ("push", trained, "--to", "lab/sharded", "--no-verify")
    assert client(*argv, "--max_shard_size", "100KB")[0] == 0
    files = hub.files("lab/sharded")
    shards = [name for name in files if name.endswith(".safetensors")]
    assert len(shards) > 1 and "model.safetensors.index.json" in files
    assert client(*argv)[0] == 0
    files = hub.files("lab/sharded")
    assert [name for name in files if ".safetensors" in name] == ["model.safetensors"]


def test_a_push_that_the_hub_breaks_off_is_finished_by_the_next(hub, client, trained):
    hub.fail("POST", "/commit/", status=500, times=10)
    message = client.fails("push", trained, "--to", "lab/broken", "--no-verify")
    assert "answered 500" in message and "Run the same again" in message
    hub.faults.clear()
    hub.requests.clear()
    assert client("push", trained, "--to", "lab/broken", "--no-verify")[0] == 0
    assert not [request for request in hub.requests if request.method == "PUT"]  # is there already
    files = hub.files("lab/broken")
    assert files["model.safetensors"] == (trained / "model.safetensors").read_bytes()


def test_a_hub_that_fails_once_does_not_end_a_push(hub, client, trained):
    hub.fail("POST", "/repos/create", status=503)
    hub.fail("POST", "/commit/", status=502)
    hub.drop("PUT", "", after_bytes=1000)
    assert client("push", trained, "--to", "lab/shaky", "--no-verify")[0] == 0
    assert len(hub.commits("lab/shaky")) == 2  # the repository's own, and one


# The card


def test_a_push_asks_for_a_license(hub, client, copier, tmp_path):
    bare = write_trained_folder(tmp_path / "bare", copier, license=None)
    message = client.fails("push", bare, "--to", "lab/bare")
    assert "license" in message and "--license" in message
    assert hub.requests == []  # before anything is sent
    argv = ("push", bare, "--to", "lab/bare", "--no-verify")
    assert client(*argv, "--license", "cc0-1.0")[0] == 0
    assert card_of(hub, "lab/bare", tmp_path).data.license == "cc0-1.0"
    message = client.fails(*argv, "--license", "my own")
    assert "license: my own" in message and "cc0-1.0" in message


def test_a_model_without_a_training_gets_a_card(hub, client, copier, tmp_path):
    export(*copier, tmp_path / "converted")
    argv = ("push", tmp_path / "converted", "--to", "lab/converted", "--license", "mit")
    argv += ("--source_language", "en", "--target_language", "de", "--no-verify")
    assert client(*argv)[0] == 0
    card = card_of(hub, "lab/converted", tmp_path)
    assert card.data.language == ["en", "de"] and "translates English to German" in card.text
    assert "## Scores" not in card.text
    assert "no language code" in client.fails(*argv, "--source_language", "English")


def test_a_card_that_somebody_wrote_stays(hub, client, copier, tmp_path):
    mine = write_trained_folder(tmp_path / "mine", copier)
    text = (mine / "README.md").read_text() + "\nTrained for my thesis.\n"
    (mine / "README.md").write_text(text)
    assert client("push", mine, "--to", "lab/mine", "--no-verify")[0] == 0
    assert "Trained for my thesis." in hub.files("lab/mine")["README.md"].decode()


# What is not pushed


@pytest.mark.parametrize("name", ["a/b/c", "lab/two--dashes", "lab/with space"])
def test_a_name_that_cannot_be_is_refused(hub, client, trained, name):
    assert name in client.fails("push", trained, "--to", name)
    assert hub.requests == []


def test_a_repository_of_another_model_is_not_overwritten(hub, client, trained):
    hub.put("lab/taken", {"config.json": b'{"model_type": "marian"}'})
    number = len(hub.commits("lab/taken"))
    assert "marian" in client.fails("push", trained, "--to", "lab/taken")
    assert len(hub.commits("lab/taken")) == number


def test_nothing_private_goes_into_a_public_repository(hub, client, trained):
    hub.put("lab/public", {"notes": b"here"})
    message = client.fails("push", trained, "--to", "lab/public", "--private")
    assert "is public" in message
    assert not [request for request in hub.requests if request.path.endswith("preupload/main")]


def test_a_folder_that_is_not_whole_is_not_pushed(hub, client, trained, tmp_path):
    assert "no folder" in client.fails("push", tmp_path / "nowhere", "--to", "lab/x")
    broken = tmp_path / "broken"
    shutil.copytree(trained, broken)
    weights = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(weights[:-100])
    assert "model.safetensors" in client.fails("push", broken, "--to", "lab/x")
    (broken / "model.safetensors").unlink()
    assert "training_args.bin" in client.fails("push", broken, "--to", "lab/x")
    shutil.copyfile(trained / "model.safetensors", broken / "model.safetensors")
    for path in broken.glob("tokenizer*"):
        path.unlink()
    assert "tokenizer" in client.fails("push", broken, "--to", "lab/x")
    assert hub.requests == []


@pytest.fixture(scope="module")
def adapter(exported, tmp_path_factory):
    """A LoRA of drawn numbers, as a training exports it."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration.from_pretrained(exported)
    settings = peft.LoraConfig(
        target_modules=["outer"], init_lora_weights=False, base_model_name_or_path=str(exported)
    )
    model.add_adapter(settings)
    tokenizer, _ = load_tokenizers(exported)
    path = tmp_path_factory.mktemp("adapter")
    export(model, tokenizer, path)
    return path


def test_an_adapter_is_pushed_alone_and_names_its_base(hub, client, exported, adapter):
    push = ("push", adapter, "--to", "lab/adapter", "--license", "cc-by-4.0", "--no-verify")
    assert "push that first" in client.fails(*push)
    model = ("push", exported, "--to", "lab/adapter", "--license", "mit", "--no-verify")
    assert client(*model)[0] == 0  # what was there before is not beside it
    status, _, err = client(*push, "--base_model", "lab/base")
    assert status == 0, err
    files = hub.files("lab/adapter")
    assert set(files) - {".gitattributes"} == {
        *("README.md", "adapter_config.json", "adapter_model.safetensors"),
        *("generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    }
    assert json.loads(files["adapter_config.json"])["base_model_name_or_path"] == "lab/base"
    assert str(exported).encode() not in b"".join(files.values())
    refused = client.fails("push", exported, "--to", "lab/base", "--base_model", "lab/base")
    assert "is for adapters" in refused
    assert client(*model)[0] == 0
    assert set(files) - set(hub.files("lab/adapter")) == {
        *("adapter_config.json", "adapter_model.safetensors")
    }


def test_an_adapter_without_tokenizers_is_pushed_with_those_of_its_base(
    exported, adapter, tmp_path
):
    bare = tmp_path / "bare"  # as PEFT alone leaves it
    shutil.copytree(adapter, bare, ignore=shutil.ignore_patterns("tokenizer*"))
    _, tokenizer, _ = stage(bare, tmp_path / "staged")
    assert tokenizer.get_vocab() == load_tokenizers(exported)[0].get_vocab()
    assert (tmp_path / "staged" / "tokenizer.json").is_file()


@pytest.mark.slow  # it starts a process that loads both
def test_an_adapter_is_fetched_with_its_base_and_says_the_same(hub, client, exported, adapter):
    status, _, err = client("push", exported, "--to", "lab/base", "--license", "mit", "--no-verify")
    assert status == 0, err
    push = ("push", adapter, "--to", "lab/verified", "--license", "mit", "--base_model", "lab/base")
    status, out, err = client(*push)
    assert status == 0, err
    assert "Fetched into an empty cache" in out
