import copy
import gzip
import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.cli import main
from vaswani_hf.hub.folder import export
from vaswani_hf.vocabulary import extend_vocabulary, trim_vocabulary


GENERAL = [
    "the house of the mouse is a green house",
    "there is another mouse in the other house",
    "das Haus der Maus ist ein grünes Haus",
    "da ist noch eine andere Maus im Haus",
]
DOMAIN = ["the mouse is there", "in the green house"]
TARGETS = ["die Maus ist da", "im Haus"]


def make_model(num_source, num_target=None, **settings):
    torch.manual_seed(0)
    fields = {"d_model": 16, "d_ff": 24, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    if num_target is not None:
        fields |= {"target_vocab_size": num_target, "share_embeddings": False}
    fields |= settings
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=num_source, **fields))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape)
    return model.eval()


def learned(lines, size, **options):
    return train_tokenizer(lines, size, are_files=False, show_progress=False, **options)


@pytest.fixture(scope="module")
def tokenizer():
    return learned(GENERAL, 330)


def load(folder):
    model = VaswaniForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    source = AutoTokenizer.from_pretrained(folder)
    if not (folder / "target_tokenizer").is_dir():
        return model, source, source
    return model, source, AutoTokenizer.from_pretrained(folder / "target_tokenizer")


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def texts(tmp_path):
    return {
        "source_text": [write(tmp_path / "source.txt", DOMAIN)],
        "target_text": [write(tmp_path / "target.txt", TARGETS)],
    }


@torch.no_grad()
def logits(model, source, target, pieces):
    """The logits of some pieces of the target, for two sentences given as pieces."""
    found = []
    for first, second in zip(DOMAIN, TARGETS, strict=True):
        ids = torch.tensor([source(first)["input_ids"]])
        start = model.config.decoder_start_token_id
        targets = torch.tensor([[start, *target(second)["input_ids"]]])
        assert targets[0, -1] == model.config.eos_token_id
        each = model(input_ids=ids, decoder_input_ids=targets).logits[0]
        found.append(each[:, target.convert_tokens_to_ids(pieces)])
    return torch.cat(found)


def assert_same(before, after):
    """The same pieces of the text, and the same logits of the pieces that are on both sides."""
    (old_model, *old), (new_model, *new) = before, after
    for lines, one, other in zip((DOMAIN, TARGETS), old, new, strict=True):
        for line in lines:
            pieces = other.convert_ids_to_tokens(other(line)["input_ids"])
            assert one.convert_ids_to_tokens(one(line)["input_ids"]) == pieces
            assert other.decode(other(line)["input_ids"], skip_special_tokens=True) == line
    pieces = sorted(old[1].get_vocab().keys() & new[1].get_vocab().keys())
    assert len(pieces) > 10
    expected, found = logits(old_model, *old, pieces), logits(new_model, *new, pieces)
    # A matrix product of another size may add up in another order.
    assert torch.allclose(found, expected, atol=1e-5, rtol=0)
    rows = [
        model.lm_head.weight[tokenizers[1].convert_tokens_to_ids(pieces)]
        for model, tokenizers in ((old_model, old), (new_model, new))
    ]
    assert torch.equal(*rows)


KINDS = {
    "one matrix": {},
    "output untied": {"tie_word_embeddings": False, "output_bias": True},
    "target tied": {"share_embeddings": False},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_text_uses_stays_as_it_was(kind, tokenizer, texts, tmp_path):
    model = make_model(len(tokenizer) + 3, **KINDS[kind])  # three rows without a piece
    export(model, tokenizer, tmp_path / "old")
    trim_vocabulary(tmp_path / "old", tmp_path / "new", **texts)
    new, trimmed, _ = load(tmp_path / "new")
    assert_same((model, tokenizer, tokenizer), (new, trimmed, trimmed))
    assert len(trimmed) == new.config.vocab_size == new.config.target_vocab_size < len(tokenizer)
    assert "another" not in "".join(trimmed.get_vocab())
    # Any other text can still be cut, into more pieces.
    for line in (*GENERAL, "ß 語"):
        assert trimmed.decode(trimmed(line)["input_ids"], skip_special_tokens=True) == line


def test_forbidden_words_whose_pieces_are_gone_forbid_nothing(tokenizer, texts, tmp_path):
    model = make_model(len(tokenizer))
    model.generation_config.bad_words_ids = [tokenizer("another")["input_ids"][:1]]
    export(model, tokenizer, tmp_path / "old")
    trim_vocabulary(tmp_path / "old", tmp_path / "new", **texts)
    new, trimmed, _ = load(tmp_path / "new")
    assert new.generation_config.bad_words_ids is None
    new.generate(**trimmed(GENERAL[0], return_tensors="pt"), max_new_tokens=2)


def test_other_pieces_are_those_of_no_sentencepiece_model(tokenizer, texts, tmp_path):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.init_kwargs["sentencepiece_model"] = "tokenizer.model"
    export(make_model(len(tokenizer)), tokenizer, tmp_path / "old")
    trim_vocabulary(tmp_path / "old", tmp_path / "new", **texts)
    for folder, is_named in (("old", True), ("new", False)):
        entries = json.loads((tmp_path / folder / "tokenizer_config.json").read_text())
        assert ("sentencepiece_model" in entries) == is_named


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_tag_is_a_piece_that_no_text_has(kind, tokenizer, tmp_path):
    model = make_model(len(tokenizer), **KINDS[kind])
    export(model, tokenizer, tmp_path / "old")
    path, size = write(tmp_path / "source.txt", ["grune grune"] * 2), len(tokenizer)
    extend_vocabulary(tmp_path / "old", tmp_path / "tagged", source_tags=["<bt>"])
    extend_vocabulary(tmp_path / "tagged", tmp_path / "new", num_pieces=1, source_text=[path])
    parts = tokenizer("<bt>", add_special_tokens=False)["input_ids"]
    for folder, num_added in (("tagged", 1), ("new", 2)):
        new, extended, _ = load(tmp_path / folder)
        assert_same((model, tokenizer, tokenizer), (new, extended, extended))
        assert extended.convert_tokens_to_ids("<bt>") == size
        assert extended("<bt>", add_special_tokens=False)["input_ids"] == parts
        rows = new.get_input_embeddings().weight
        assert torch.allclose(rows[size], model.get_input_embeddings().weight[parts].mean(dim=0))
        assert new.config.vocab_size == len(rows) == len(extended) == size + num_added
    with pytest.raises(ValueError, match="tagged has a piece <bt> already"):
        extend_vocabulary(tmp_path / "tagged", tmp_path / "again", source_tags=["<bt>"])


def test_two_vocabularies_are_trimmed_each_by_its_own_text(texts, tmp_path):
    source, target = learned(GENERAL[:2], 310), learned(GENERAL[2:], 300)
    model = make_model(len(source), len(target))
    model.generation_config.suppress_tokens = [0, target.convert_tokens_to_ids("\u2581Haus")]
    model.generation_config.bad_words_ids = [[5, 6], [len(target) - 1, len(target) - 2]]
    export(model, source, tmp_path / "old", target_tokenizer=target)
    trim_vocabulary(tmp_path / "old", tmp_path / "new", **texts)
    new, *tokenizers = load(tmp_path / "new")
    assert_same((model, source, target), (new, *tokenizers))
    assert [len(each) for each in tokenizers] == [
        new.config.vocab_size,
        new.config.target_vocab_size,
    ]
    assert new.config.pad_token_id == tokenizers[0].pad_token_id == tokenizers[1].pad_token_id
    config = new.generation_config
    assert config.eos_token_id == tokenizers[1].eos_token_id == new.config.eos_token_id
    names = tokenizers[1].convert_ids_to_tokens(config.suppress_tokens)
    assert names == target.convert_ids_to_tokens([0, target.convert_tokens_to_ids("\u2581Haus")])
    assert tokenizers[1].convert_ids_to_tokens(config.bad_words_ids[0]) == (
        target.convert_ids_to_tokens([5, 6])
    )


def unigram():
    words = [
        "\u2581the",
        "\u2581mouse",
        "\u2581is",
        "\u2581there",
        "\u2581house",
        "\u2581green",
        "\u2581other",
    ]
    pieces = [("<unk>", 0.0), ("</s>", 0.0), *((word, -2.0) for word in words)]
    pieces += [(letter, -9.0) for letter in "\u2581abcdefghimnorstuDMH"]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        "$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>", pad_token="<pad>"
    )


def words():
    entries = [
        "<pad>",
        "<unk>",
        "</s>",
        *sorted({word for line in GENERAL for word in line.split()}),
    ]
    entries += ["die"]
    tokenizer = Tokenizer(
        models.WordLevel({word: place for place, word in enumerate(entries)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        "$A </s>", special_tokens=[("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>", pad_token="<pad>"
    )


@pytest.mark.parametrize("make", [unigram, words])
def test_other_kinds_of_tokenizers_are_trimmed(make, texts, tmp_path):
    old = make()
    ids = {"pad_token_id": old.pad_token_id, "eos_token_id": old.eos_token_id}
    model = make_model(len(old), **ids)
    export(model, old, tmp_path / "old")
    trim_vocabulary(tmp_path / "old", tmp_path / "new", **texts)
    new, trimmed, _ = load(tmp_path / "new")
    assert_same((model, old, old), (new, trimmed, trimmed))
    assert len(trimmed) == new.config.vocab_size < len(old)


# More pieces

MEDICAL = ["pneumothorax and pneumonia", "a pneumothorax of the mouse", "Ωμέγα 3 Ωμέγα"] * 3


def test_new_pieces_are_means_of_their_parts_and_change_nothing_old(tokenizer, texts, tmp_path):
    model = make_model(len(tokenizer))
    export(model, tokenizer, tmp_path / "old")
    path = write(tmp_path / "medical.txt", MEDICAL)
    extend_vocabulary(tmp_path / "old", tmp_path / "new", num_pieces=24, source_text=[path])
    new, extended, _ = load(tmp_path / "new")
    assert len(extended) == len(tokenizer) + 24 == new.config.vocab_size
    assert_same((model, tokenizer, tokenizer), (new, extended, extended))
    for line in MEDICAL:
        before, after = tokenizer(line)["input_ids"], extended(line)["input_ids"]
        assert len(after) < len(before)
        assert extended.decode(after, skip_special_tokens=True) == line
    matrix, old = new.model.shared.weight, model.model.shared.weight
    assert torch.equal(matrix[: len(tokenizer)], old)
    for token in range(len(tokenizer), len(extended)):
        piece = extended.convert_ids_to_tokens(token)
        # By the old tokenizer, without the mark of a word's start that it puts first.
        parts = tokenizer.backend_tokenizer.model.tokenize(piece)
        ids = [part.id for part in parts]
        assert torch.allclose(matrix[token], old[ids].mean(dim=0), atol=1e-6), piece


def test_characters_that_were_spelled_in_bytes_become_pieces(tokenizer, tmp_path):
    export(make_model(len(tokenizer)), tokenizer, tmp_path / "old")
    path = write(tmp_path / "greek.txt", ["Ωμέγα"] * 5)
    extend_vocabulary(tmp_path / "old", tmp_path / "new", num_pieces=8, target_text=[path])
    _, extended, _ = load(tmp_path / "new")
    ids = extended("Ωμέγα")["input_ids"]
    assert not any(piece.startswith("<0x") for piece in extended.convert_ids_to_tokens(ids))
    assert len(ids) <= 4


def test_only_the_side_with_text_grows(tmp_path):
    source, target = learned(GENERAL[:2], 310), learned(GENERAL[2:], 300)
    model = make_model(len(source), len(target))
    export(model, source, tmp_path / "old", target_tokenizer=target)
    path = tmp_path / "medical.gz"
    path.write_bytes(gzip.compress("\n".join(MEDICAL).encode()))
    extend_vocabulary(tmp_path / "old", tmp_path / "new", num_pieces=5, source_text=[path])
    new, *tokenizers = load(tmp_path / "new")
    assert [len(each) for each in tokenizers] == [len(source) + 5, len(target)]
    assert (new.config.vocab_size, new.config.target_vocab_size) == (len(source) + 5, len(target))
    assert_same((model, source, target), (new, *tokenizers))


# What is refused


def test_what_cannot_be_edited_is_told(tokenizer, texts, tmp_path):
    export(make_model(len(tokenizer)), tokenizer, tmp_path / "old")
    empty = {"source_text": [write(tmp_path / "empty.txt", ["", ""])], "target_text": []}
    with pytest.raises(ValueError, match="The source's text uses no piece of the vocabulary"):
        trim_vocabulary(tmp_path / "old", tmp_path / "new", **empty)
    with pytest.raises(ValueError, match=r"num_pieces=3, but the source's text has only 0"):
        extend_vocabulary(tmp_path / "old", tmp_path / "new", num_pieces=3, **empty)
    with pytest.raises(ValueError, match="num_pieces must be at least 1, got 0"):
        extend_vocabulary(tmp_path / "old", tmp_path / "new", num_pieces=0, **texts)
    with pytest.raises(ValueError, match="give source_text or target_text"):
        extend_vocabulary(tmp_path / "old", tmp_path / "new", num_pieces=3)
    with pytest.raises(ValueError, match=r"num_pieces=500, but the source's text has only"):
        extend_vocabulary(tmp_path / "old", tmp_path / "new", num_pieces=500, **texts)
    own = words()
    model = make_model(len(own), pad_token_id=0)
    export(model, own, tmp_path / "words")
    with pytest.raises(ValueError, match="model of type 'WordLevel'; only byte-pair"):
        extend_vocabulary(tmp_path / "words", tmp_path / "new", num_pieces=3, **texts)
    other = copy.deepcopy(tokenizer)
    other.backend_tokenizer.post_processor = processors.ByteLevel()
    export(make_model(len(other)), other, tmp_path / "bytes")
    with pytest.raises(ValueError, match="ends sentences by ByteLevel"):
        trim_vocabulary(tmp_path / "bytes", tmp_path / "new", **texts)
    assert not (tmp_path / "new").exists()


def test_the_commands_trim_and_extend(tokenizer, texts, tmp_path, capsys, caplog):
    export(make_model(len(tokenizer)), tokenizer, tmp_path / "old")
    files = [option for side in texts for option in (f"--{side}", str(texts[side][0]))]
    command = ["vocabulary", "trim", str(tmp_path / "old"), str(tmp_path / "small"), *files]
    assert main(command) == 0
    assert capsys.readouterr().out == f"Wrote {tmp_path / 'small'}.\n"
    size = load(tmp_path / "small")[0].config.vocab_size
    assert f"{size} source pieces and {size} target pieces" in caplog.text
    path = write(tmp_path / "medical.txt", MEDICAL)
    command = ["vocabulary", "extend", str(tmp_path / "small"), str(tmp_path / "new")]
    assert main([*command, "--num_pieces", "4", "--source_text", str(path)]) == 0
    assert load(tmp_path / "new")[0].config.vocab_size == size + 4
    assert main([*command, "--num_pieces", "4"]) == 1
    assert "exists already" in capsys.readouterr().err
