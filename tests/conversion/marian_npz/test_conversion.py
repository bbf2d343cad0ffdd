import json
import pickle
import shutil

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoTokenizer

from tests.conversion.marian_npz.models import (
    PIECES,
    arrays,
    options,
    write_model,
    write_npz,
)
from vaswani_hf import (
    Translator,
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    train_tokenizer,
)
from vaswani_hf.conversion import from_marian_npz, to_marian_npz
from vaswani_hf.conversion.positions import pairs_to_halves
from vaswani_hf.hub.folder import export


TIED = {"tied_embeddings_all": True, "dim_vocabs": [29, 29]}


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    """Two vocabularies, one longer than the other, nothing tied."""
    return write_model(tmp_path_factory.mktemp("marian"))


@pytest.fixture(scope="module")
def ours(marian, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours") / "folder"
    from_marian_npz(marian, folder)
    return folder


def load(folder):
    return VaswaniForConditionalGeneration.from_pretrained(folder).eval()


def translate(folder, texts, max_new_tokens=12):
    """Greedily, as pieces."""
    translator = Translator.from_pretrained(folder, device="cpu")
    model, source = translator.model, translator.tokenizer
    target = translator.target_tokenizer or source
    found = []
    for text in texts:
        ids = source(text, return_tensors="pt")["input_ids"]
        limits = {"max_new_tokens": max_new_tokens, "max_extra_tokens": None}
        row = model.generate(ids, num_beams=1, do_sample=False, **limits)[0, 1:].tolist()
        ends = (model.config.eos_token_id, model.config.pad_token_id)
        found.append(target.convert_ids_to_tokens([token for token in row if token not in ends]))
    return found


def test_a_folder_has_the_search_of_decoder_yml(ours):
    config = load(ours).generation_config
    assert (config.num_beams, config.length_penalty) == (6, 0.6)
    assert config.length_penalty_type == "power"
    assert config.suppress_tokens == [1]  # <unk>, which Marian never writes


def test_segmented_text_gets_the_ids_of_its_vocabulary(ours):
    tokenizer = AutoTokenizer.from_pretrained(ours)
    assert tokenizer("w3 w9 w30")["input_ids"] == [3, 9, 1, 0]  # the source has 29 pieces
    translator = Translator.from_pretrained(ours, device="cpu")
    assert translator.target_tokenizer("w3 w9 w30")["input_ids"] == [3, 9, 30, 0]
    assert (
        translator.target_tokenizer.decode([3, 9, 30, 0], skip_special_tokens=True) == "w3 w9 w30"
    )


def test_pieces_of_subword_nmt_and_sentencepiece_are_joined(tmp_path):
    write_model(tmp_path, options(**TIED))
    for pieces, joined in (
        (["ei@@", "n", "Haus"], "ein Haus"),
        (["\u2581ei", "n", "\u2581Haus"], "ein Haus"),
    ):
        entries = [*PIECES[:26], *pieces]
        text = "".join(f'"{piece}": {token}\n' for token, piece in enumerate(entries))
        (tmp_path / "vocab.yml").write_text(text)
        folder = tmp_path / joined.replace(" ", pieces[0])
        vocabulary = tmp_path / "vocab.yml"
        from_marian_npz(tmp_path / "model.npz", folder, source_vocabulary=vocabulary)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        assert tokenizer(" ".join(pieces))["input_ids"] == [26, 27, 28, 0]
        assert tokenizer.decode([26, 27, 28, 0], skip_special_tokens=True) == joined
        assert not (folder / "target_tokenizer").exists()


def test_ctranslate2_reads_the_same_file_alike(ours, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    to_marian_npz(ours, tmp_path / "npz")
    with np.load(tmp_path / "npz" / "model.npz") as archive:
        content = {name: archive[name] for name in archive.files}
    # Its reader has the paper's wavelengths, unless the file has a table of positions.
    half, position = 12, np.arange(64)[:, None]
    angle = position / 10000 ** (np.arange(half) / (half - 1))
    content["Wpos"] = np.concatenate((np.sin(angle), np.cos(angle)), axis=1).astype(np.float32)
    np.savez(tmp_path / "with_positions.npz", **content)
    vocabularies = yaml.safe_load((tmp_path / "npz" / "decoder.yml").read_text())["vocabs"]
    converter = ctranslate2.converters.MarianConverter(
        str(tmp_path / "with_positions.npz"),
        [str(tmp_path / "npz" / name) for name in vocabularies],
    )
    converter.convert(str(tmp_path / "ct2"))
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    texts = [" ".join(f"w{(3 * first + 5 * n) % 27 + 2}" for n in range(5)) for first in range(20)]
    found = engine.translate_batch(
        [text.split() for text in texts], beam_size=1, disable_unk=True, max_decoding_length=12
    )
    expected = translate(ours, texts)
    assert [result.hypotheses[0] for result in found] == expected
    assert len({tuple(pieces) for pieces in expected}) > 3


def test_a_folder_comes_back_as_it_was(marian, ours, tmp_path):
    to_marian_npz(ours, tmp_path / "back")
    with np.load(marian / "model.npz") as before, np.load(tmp_path / "back/model.npz") as after:
        assert set(before.files) == set(after.files)
        names = [name for name in before.files if not name.startswith("special:")]
        assert all(np.array_equal(before[name], after[name]) for name in names)
    for side in ("source", "target"):
        name = f"vocab.{side}.yml"
        entries = [
            yaml.safe_load((folder / name).read_text()) for folder in (marian, tmp_path / "back")
        ]
        assert entries[0] == entries[1]
    decoder = yaml.safe_load((tmp_path / "back" / "decoder.yml").read_text())
    assert decoder["vocabs"] == ["vocab.source.yml", "vocab.target.yml"]
    assert (decoder["beam-size"], decoder["normalize"], decoder["relative-paths"]) == (6, 0.6, True)


def test_our_own_tokenizer_goes_and_comes_back(tmp_path):
    text = ["a b c", "d e f", "a cab", "a bed"]
    own = train_tokenizer(text, 270, are_files=False, show_progress=False)
    config = VaswaniConfig(
        vocab_size=len(own), d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1
    )
    model = VaswaniForConditionalGeneration(config)
    export(model, own, tmp_path / "ours")
    to_marian_npz(tmp_path / "ours", tmp_path / "npz")
    from_marian_npz(tmp_path / "npz", tmp_path / "back")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "back")
    assert tokenizer("a bad cab") == own("a bad cab")
    before, after = model.state_dict(), load(tmp_path / "back").state_dict()
    order = pairs_to_halves(8)
    assert torch.equal(after["model.shared.weight"], before["model.shared.weight"][:, order])
    entries = yaml.safe_load((tmp_path / "npz" / "vocab.yml").read_text())
    assert entries == tokenizer.get_vocab()


@pytest.fixture(scope="module")
def spm(tmp_path_factory):
    """A SentencePiece model as Marian trains it."""
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("spm")
    (folder / "text").write_text(
        "a house on a hill\nthe green house\nein grünes Haus\nbooks, maps and trees\n" * 20
    )
    sentencepiece.SentencePieceTrainer.Train(
        f"--input={folder}/text --model_prefix={folder}/vocab --vocab_size=29 --bos_id=-1 "
        "--eos_id=0 --unk_id=1 --minloglevel=2"
    )
    (folder / "vocab.model").rename(folder / "vocab.spm")
    return folder / "vocab.spm"


def test_sentencepiece_takes_plain_text_and_comes_back(spm, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path / "marian"
    folder.mkdir()
    write_model(folder, options(**TIED), vocabs=["vocab.spm", "vocab.spm"])
    shutil.copyfile(spm, folder / "vocab.spm")
    from_marian_npz(folder, tmp_path / "ours")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    for text in ("a green house", "ein Haus on the hill </s> 7"):
        assert tokenizer(text)["input_ids"] == [*processor.encode(text), 0]
    assert tokenizer.decode(tokenizer("a green house")["input_ids"], skip_special_tokens=True) == (
        "a green house"
    )
    to_marian_npz(tmp_path / "ours", tmp_path / "back")
    assert (tmp_path / "back" / "source.spm").read_bytes() == spm.read_bytes()
    decoder = yaml.safe_load((tmp_path / "back" / "decoder.yml").read_text())
    assert decoder["vocabs"] == ["source.spm", "target.spm"]


def test_sentencepiece_beside_a_vocabulary_cuts_the_text_as_in_opus_mt(spm, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    folder = tmp_path / "marian"
    folder.mkdir()
    pieces = [processor.id_to_piece(token) for token in range(29)]
    pieces[2:] = pieces[:1:-1]  # other ids than in the model
    write_model(folder, options(**TIED), vocabs=["vocab.yml", "vocab.yml"])
    lines = (f'"{piece}": {token}\n' for token, piece in enumerate(pieces))
    (folder / "vocab.yml").write_text("".join(lines))
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(spm, folder / name)
    from_marian_npz(folder, tmp_path / "ours")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    expected = [pieces.index(piece) for piece in processor.encode("a house", out_type=str)]
    assert tokenizer("a house")["input_ids"] == [*expected, 0]
    to_marian_npz(tmp_path / "ours", tmp_path / "back")
    assert (tmp_path / "back" / "target.spm").read_bytes() == spm.read_bytes()
    assert yaml.safe_load((tmp_path / "back" / "vocab.yml").read_text()) == {
        piece: token for token, piece in enumerate(pieces)
    }


# Files


def refused(error_type, source, target, **names):
    with pytest.raises(error_type) as error:
        from_marian_npz(source, target, **names)
    assert not target.exists()
    return str(error.value)


def test_files_are_found_beside_each_other(marian, tmp_path):
    shutil.copytree(marian, tmp_path / "moved")
    decoder = {"models": ["/gone/model.npz"], "vocabs": ["/gone/vocab.source.yml"] * 2}
    (tmp_path / "moved" / "decoder.yml").rename(tmp_path / "moved" / "model.npz.decoder.yml")
    (tmp_path / "moved" / "model.npz.decoder.yml").write_text(yaml.safe_dump(decoder))
    (tmp_path / "moved" / "model.npz.optimizer.npz").write_bytes(b"")
    for number, name in enumerate(("", "model.npz", "model.npz.decoder.yml")):
        from_marian_npz(tmp_path / "moved" / name, tmp_path / str(number))


def test_several_models_are_refused(marian, tmp_path):
    shutil.copytree(marian, tmp_path / "two")
    text = yaml.safe_dump({"models": ["a.npz", "b.npz"], "vocabs": ["c.yml", "d.yml"]})
    (tmp_path / "two" / "decoder.yml").write_text(text)
    told = refused(ValueError, tmp_path / "two", tmp_path / "out")
    assert "must name one model, got a.npz, b.npz" in told


def test_what_is_missing_is_told(marian, tmp_path):
    told = refused(FileNotFoundError, tmp_path, tmp_path / "out")
    assert "must hold decoder.yml or one .npz file: it has neither" in told
    (tmp_path / "alone").mkdir()
    shutil.copyfile(marian / "model.npz", tmp_path / "alone" / "model.npz")
    told = refused(FileNotFoundError, tmp_path / "alone", tmp_path / "out")
    assert "name them by source_vocabulary and target_vocabulary" in told
    assert "absent is neither" in refused(FileNotFoundError, tmp_path / "absent", tmp_path / "out")


@pytest.mark.parametrize("damage", ["torn", "pickled", "one array", "no options", "binary"])
def test_a_damaged_file_is_told_by_its_name(damage, marian, tmp_path):
    shutil.copytree(marian, tmp_path / "mine")
    path = tmp_path / "mine" / "model.npz"
    whole = path.read_bytes()
    if damage == "torn":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "pickled":
        np.savez(path, **{"special:model.yml": np.array([object()], dtype=object)})
    elif damage == "one array":
        path.write_bytes(pickle.dumps(3))
    elif damage == "no options":
        np.savez(path, Wemb=np.zeros((2, 2)))
    else:
        path.rename(path.with_suffix(".bin"))
        path = path.with_suffix(".bin")
        entries = {"models": ["model.bin"], "vocabs": ["vocab.source.yml", "vocab.target.yml"]}
        (tmp_path / "mine" / "decoder.yml").write_text(yaml.safe_dump(entries))
    assert str(path) in refused(ValueError, tmp_path / "mine", tmp_path / "out")


def test_differences_of_options_and_vocabularies_are_refused(marian, tmp_path):
    shutil.copytree(marian, tmp_path / "mine")
    settings = options(transformer_decoder_autoreg="rnn", transformer_preprocess="n")
    write_npz(tmp_path / "mine" / "model.npz", settings, {})
    assert "2 differences" in refused(ValueError, tmp_path / "mine", tmp_path / "out")
    write_npz(tmp_path / "mine" / "model.npz", options(), arrays(options(dim_vocabs=[28, 31])))
    told = refused(ValueError, tmp_path / "mine", tmp_path / "out")
    assert "has 29 pieces, but encoder_Wemb has 28 rows" in told
    decoder = {"models": ["model.npz"], "vocabs": ["vocab.source.yml"] * 2, "word-penalty": 0.5}
    (tmp_path / "mine" / "decoder.yml").write_text(yaml.safe_dump(decoder))
    assert "word-penalty: 0.5" in refused(ValueError, tmp_path / "mine", tmp_path / "out")


def test_what_is_of_another_kind_is_told(marian, tmp_path):
    shutil.copytree(marian, tmp_path / "mine")
    path = tmp_path / "mine" / "decoder.yml"
    decoder = yaml.safe_load(path.read_text())
    for changes, told in (
        ({"vocabs": 3}, "vocabs must be a list of files, got 3"),
        ({"beam-size": "many", "normalize": "lots"}, "2 differences"),
    ):
        path.write_text(yaml.safe_dump(decoder | changes))
        assert told in refused(ValueError, tmp_path / "mine", tmp_path / "out")
    path.write_bytes(b"\xff\x00")
    assert f"{path} is not valid YAML" in refused(ValueError, tmp_path / "mine", tmp_path / "out")
    path.write_text(yaml.safe_dump(decoder))
    found = arrays(options()) | {"encoder_Wemb": np.float32(3)}
    write_npz(tmp_path / "mine" / "model.npz", options(), found)
    told = refused(ValueError, tmp_path / "mine", tmp_path / "out")
    assert "encoder_Wemb has shape (), expected a matrix" in told


def test_a_search_that_is_left_out_is_the_librarys(ours, tmp_path):
    shutil.copytree(ours, tmp_path / "mine")
    path = tmp_path / "mine" / "generation_config.json"
    config = json.loads(path.read_text())
    for name in ("num_beams", "length_penalty"):
        del config[name]
    path.write_text(json.dumps(config))
    to_marian_npz(tmp_path / "mine", tmp_path / "back")
    decoder = yaml.safe_load((tmp_path / "back" / "decoder.yml").read_text())
    assert (decoder["beam-size"], decoder["normalize"]) == (1, 1.0)  # of GenerationMixin


def test_weights_that_are_no_numbers_are_refused(marian, tmp_path):
    shutil.copytree(marian, tmp_path / "mine")
    found = arrays(options())
    found["encoder_Wemb"][3] = np.nan
    write_npz(tmp_path / "mine" / "model.npz", options(), found)
    assert "NaN" in refused(ValueError, tmp_path / "mine", tmp_path / "out")


def test_a_target_that_holds_something_stays_as_it_is(marian, ours, tmp_path):
    (tmp_path / "mine").write_text("precious")
    for convert, source in ((from_marian_npz, marian), (to_marian_npz, ours)):
        with pytest.raises(FileExistsError, match="exists already"):
            convert(source, tmp_path)
