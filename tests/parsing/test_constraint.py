import math

import pytest
import torch
from transformers import LogitsProcessorList

from vaswani_hf import train_tokenizer
from vaswani_hf.parsing import Repairs, TreeConstraint, TreePieces, linearize, tree_of_text
from vaswani_hf.parsing.constraint import tree_words
from vaswani_hf.parsing.linearization import with_numbers
from vaswani_hf.parsing.words import numbers_of


START = 1


@pytest.fixture(scope="module")
def pieces(unlearned_parser):
    return TreePieces.of(unlearned_parser[1])


def ids_of(tokenizer, text):
    return tokenizer(text)["input_ids"][:-1]


def allowed_after(tokenizer, pieces, prefix, num_words, max_tokens=None):
    """The tokens that may follow a sequence, as texts."""
    limits = None if max_tokens is None else [max_tokens]
    constraint = TreeConstraint(pieces, [num_words], limits)
    return allowed_by(constraint, tokenizer, prefix)


def allowed_by(constraint, tokenizer, prefix):
    body = prefix.removesuffix(" </s>")
    end = [tokenizer.eos_token_id] * (body != prefix)
    ids = [START, *(ids_of(tokenizer, body) if body else []), *end]
    for length in range(1, len(ids) + 1):  # as a search calls it
        scores = constraint(torch.tensor([ids[:length]]), torch.zeros(1, len(tokenizer)))
    return {tokenizer.decode(int(token)) for token in (scores[0] > -math.inf).nonzero()}


def test_each_tag_and_bracket_is_one_piece_with_a_counterpart(unlearned_parser, pieces):
    tokenizer = unlearned_parser[1]
    text = "(S (NP DT NN )NP , (VP VBZ )VP . )S"
    assert len(ids_of(tokenizer, text)) == len(text.split())
    assert tokenizer.decode(ids_of(tokenizer, text)) == text
    assert set(pieces.tags.values()) == {"DT", "NN", "VBZ", ".", "NNP", ",", "PRP", "JJ"}
    assert set(pieces.opening.values()) == {"S", "NP", "VP", "FRAG", "ADJP"}
    assert set(pieces.closing.values()) == set(pieces.opening.values())


def test_words_are_counted_whatever_their_pieces(unlearned_parser, pieces):
    batch = unlearned_parser[1](
        ["the ßø#dog", ". , DT (NP"], return_tensors="pt", padding=True, return_token_type_ids=False
    )
    assert pieces.num_words(batch["input_ids"]) == [2, 4]


def test_an_ordinary_tokenizer_has_no_pieces_of_trees():
    tokenizer = train_tokenizer(["a b c"], 300, are_files=False, show_progress=False)
    with pytest.raises(ValueError, match=r"no pieces for tags and brackets.* task: parsing"):
        TreePieces.of(tokenizer)


OPENING = {"(S", "(NP", "(VP", "(FRAG", "(ADJP"}
TAGS = {"DT", "NN", "VBZ", ".", "NNP", ",", "PRP", "JJ"}
END = {"</s>"}


@pytest.mark.parametrize(
    ("prefix", "num_words", "max_tokens", "expected"),
    [
        ("", 2, None, OPENING),
        ("", 1, None, OPENING | TAGS),  # a word alone is a tree
        ("(S", 2, None, OPENING | TAGS),  # nothing is in it yet
        ("(S DT", 2, None, OPENING | TAGS),  # the root waits for its last word
        ("(S (NP DT", 2, None, OPENING | TAGS | {")NP"}),
        ("(S (NP DT NN", 2, None, {")NP"}),
        ("(S (NP DT NN )NP", 2, None, {")S"}),
        ("(S (NP DT NN )NP )S", 2, None, END),
        ("(S DT NN )S </s>", 2, None, END),
        ("(S DT NN NN", 2, None, END),  # a word too many: a beam that is lost
        # Room for 7: four are there, and a word, its bracket and the end need three.
        ("(S (NP DT )NP", 2, 7, TAGS),
        ("(S (NP DT )NP", 2, 9, OPENING | TAGS),
        ("(S (NP DT )NP", 2, 8, TAGS),
    ],
)
def test_only_what_can_become_a_tree_is_let_through(
    unlearned_parser, pieces, prefix, num_words, max_tokens, expected
):
    found = allowed_after(unlearned_parser[1], pieces, prefix, num_words, max_tokens)
    assert found == expected


def test_a_limit_without_room_for_a_tree_is_refused(pieces):
    with pytest.raises(ValueError, match=r"4 words needs 7 tokens, and sentence 1 .* may have 6"):
        TreeConstraint(pieces, [3, 4], [6, 6])
    with pytest.raises(ValueError, match=r"Sentence 0 .* has no words"):
        TreeConstraint(pieces, [0])


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", OPENING),
        ("(S", OPENING | {"the"}),
        ("(S the", {f"/{tag}" for tag in TAGS}),
        ("(S the /DT", OPENING | {""}),  # the mark alone, of a word that is spelled
        ("(S the /DT z", {"w"}),
        ("(S the /DT zw", {f"/{tag}" for tag in TAGS}),
        ("(S the /DT zw /NN", {")S"}),
        ("(S the /DT zw /NN )S", END),
        ("(S zw", set()),  # not the word that comes next
    ],
)
def test_words_in_trees_are_those_of_the_sentence(unlearned_parser_with_words, prefix, expected):
    tokenizer = unlearned_parser_with_words[1]
    pieces = TreePieces.of(tokenizer)
    assert set(pieces.tags.values()) == TAGS
    constraint = TreeConstraint.of(pieces, torch.tensor([tokenizer("the zw")["input_ids"]]))
    ids = [START, *(ids_of(tokenizer, prefix) if prefix else [])]
    for length in range(1, len(ids) + 1):
        scores = constraint(torch.tensor([ids[:length]]), torch.zeros(1, len(tokenizer)))
    found = {tokenizer.decode(int(token)) for token in (scores[0] > -math.inf).nonzero()}
    assert found == (expected or END)


def at_depth(digit):
    return {f"({digit}{bracket[1:]}" for bracket in OPENING}


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", at_depth(0)),
        ("(0S", at_depth(1) | {"{0}"}),
        ("(0S {0}", {"the"}),
        ("(0S {0} the", {f"/{tag}" for tag in TAGS}),
        ("(0S {0} the /DT", at_depth(1) | {"{1}"}),
        ("(0S (1NP {0} the /DT", at_depth(2) | {"{1}", ")1"}),
        ("(0S {0} the /DT {1} cat /NN", {")0"}),
        ("(0S {1}", set()),  # not the number that comes next
    ],
)
def test_numbers_in_trees_are_those_of_the_words(unlearned_parser_with_numbers, prefix, expected):
    tokenizer, words = unlearned_parser_with_numbers[1], ["the", "cat"]
    pieces, numbers = TreePieces.of(tokenizer), numbers_of(words)
    source = tokenizer(pieces.sentence_of(words))["input_ids"]
    assert set(pieces.tags.values()) == TAGS
    assert pieces.num_words(torch.tensor([source])) == [2]
    constraint = TreeConstraint.of(pieces, torch.tensor([source]))
    found = allowed_by(constraint, tokenizer, prefix.format(*numbers))
    assert found == ({token.format(*numbers) for token in expected} or END)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("(0S", at_depth(1) | {"{0}"}),
        ("(0S {0}", TAGS),
        ("(0S {0} DT", at_depth(1) | {"{1}"}),
        ("(0S {0} DT {1} NN", {")0"}),
        ("(0S {0} DT {0}", set()),
        ("(0S {0} DT {1} NN )0", set()),
    ],
)
def test_numbers_may_stand_for_words(unlearned_parser_with_numbers_alone, prefix, expected):
    tokenizer, words = unlearned_parser_with_numbers_alone[1], ["the", "low-priced"]
    pieces, numbers = TreePieces.of(tokenizer), ["-2)", "-1)"]
    assert set(pieces.tags.values()) == TAGS and not pieces.has_words
    source = torch.tensor([tokenizer(pieces.sentence_of(words))["input_ids"]])
    assert [len(word) for word in pieces.words(source)[0]] == [1, 1]
    found = allowed_by(TreeConstraint.of(pieces, source), tokenizer, prefix.format(*numbers))
    assert found == ({token.format(*numbers) for token in expected} or END)


@pytest.mark.parametrize(
    ("sequence", "repairs"),
    [
        ("(0S {0} DT {1} NN )0", {}),
        ("(0S {0} {1} NN )0", {"changed_words": 1}),
        ("(0S {0} DT {0} NN )0", {"changed_words": 1}),
        ("(0S {0} DT )0", {"missing_words": 1}),
        ("(0S {0} DT NN )0", {"changed_words": 1}),
        ("(0S {0} DT {1} NN {1} NN )0", {"extra_words": 1}),
    ],
)
def test_numbers_alone_say_which_word_a_leaf_is(
    unlearned_parser_with_numbers_alone, sequence, repairs
):
    pieces, words = TreePieces.of(unlearned_parser_with_numbers_alone[1]), ["a", "/"]
    found, mended = pieces.tree_of(sequence.format("-2)", "-1)"), words)
    assert mended == Repairs(**repairs)
    assert found.words() == words


@pytest.mark.parametrize(
    ("sequence", "repairs"),
    [
        ("(0S {0} a /DT {1} / /NN )0", {}),
        ("(0S {0} x /DT {1} {1} /NN )0", {}),  # by its number a word is known
        ("(0S {0} /DT {1} / /NN )0", {"changed_words": 1}),  # the word is missing, not the tag
        ("(0S {1} a /DT {1} / /NN )0", {"changed_words": 1}),
        ("(0S {0} a x /DT {1} / /NN )0", {"changed_words": 2, "extra_words": 1}),
        ("(0S {0} a /DT {1} / /NN )1 )0", {"surplus_brackets": 1}),  # closes what is not open
        ("(0S (1NP {0} a /DT {1} / /NN )0", {"missing_brackets": 1}),
    ],
)
def test_the_numbers_say_which_word_a_leaf_is(unlearned_parser_with_numbers, sequence, repairs):
    pieces, words = TreePieces.of(unlearned_parser_with_numbers[1]), ["a", "/"]
    found, mended = pieces.tree_of(sequence.format(*numbers_of(words)), words)
    assert mended == Repairs(**repairs)
    assert found.words() == words
    if not repairs:
        assert str(found) == "(S (DT a) (NN /))"


@pytest.mark.parametrize("parser", ["with_numbers", "with_numbers_alone"])
def test_a_training_pair_is_of_the_tree_that_it_was_made_of(request, parser):
    pieces = TreePieces.of(request.getfixturevalue(f"unlearned_parser_{parser}")[1])
    tree = tree_of_text("(S (NP (DT /) (NN /NN)) (VP (VBZ 7)))")
    words = tree.words()
    tokens = linearize(tree, has_words=pieces.has_words)
    form = {"has_words": pieces.has_words, "from_end": pieces.from_end}
    sequence = " ".join(with_numbers(tokens, words, **form))
    assert pieces.gold_tree_of(sequence, words) == tree
    assert pieces.words_of(pieces.sentence_of(words)) == words
    with pytest.raises(ValueError, match="is no tree over 2 words"):
        pieces.gold_tree_of(sequence, words[:2])


WORDS = [words.split() for words in ("the cat sees dog", "John", "it is low-priced , the cat .")]


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize(
    ("parser", "extra"),
    [
        ("unlearned_parser", 3),
        ("unlearned_parser", 40),
        ("unlearned_parser_with_words", 9),  # six words have six tags, and a bracket around them
        ("unlearned_parser_with_words", 40),
        ("unlearned_parser_with_numbers", 40),
        ("unlearned_parser_with_numbers_alone", 9),
        ("unlearned_parser_with_numbers_alone", 40),
    ],
)
@pytest.mark.parametrize("length_penalty_type", ["wu", "power"])
def test_whatever_the_model_says_every_output_is_a_tree(
    request, parser, num_beams, extra, length_penalty_type
):
    model, tokenizer = request.getfixturevalue(parser)
    pieces = TreePieces.of(tokenizer)
    sentences = [pieces.sentence_of(words) for words in WORDS]
    batch = tokenizer(sentences, return_tensors="pt", padding=True)
    limits = batch["attention_mask"].sum(dim=1) + extra
    constraint = TreeConstraint.of(pieces, batch["input_ids"], limits.tolist())
    found = model.generate(
        **batch,
        logits_processor=LogitsProcessorList([constraint]),
        max_extra_tokens=extra,
        num_beams=num_beams,
        length_penalty_type=length_penalty_type,
    )
    for words, text in zip(
        WORDS, tokenizer.batch_decode(found, skip_special_tokens=True), strict=True
    ):
        tree, repairs = pieces.tree_of(text, words)
        assert not repairs
        tokens = linearize(tree, has_words=pieces.has_words)
        if pieces.has_numbers:
            form = {"has_words": pieces.has_words, "from_end": pieces.from_end}
            tokens = with_numbers(tokens, words, **form)
        assert tokens == text.split()


def test_a_constraint_is_used_again_from_the_start(unlearned_parser, pieces):
    constraint = TreeConstraint(pieces, [2])
    tokenizer = unlearned_parser[1]
    ids = torch.tensor([[START, *ids_of(tokenizer, "(S DT NN )S")]])
    scores = torch.zeros(1, len(tokenizer))
    expected = constraint(ids[:, :1], scores)
    for length in range(2, ids.shape[1] + 1):
        constraint(ids[:, :length], scores)
    torch.testing.assert_close(constraint(ids[:, :1], scores), expected)


def test_a_word_has_the_score_of_all_words(unlearned_parser_with_words):
    tokenizer = unlearned_parser_with_words[1]
    pieces = TreePieces.of(tokenizer)
    sentence = torch.tensor([tokenizer("the cat")["input_ids"]])
    ids = torch.tensor([[START, *ids_of(tokenizer, "(S")]])
    torch.manual_seed(0)
    scores = torch.randn(1, len(tokenizer)).log_softmax(dim=1)
    constraint = TreeConstraint.of(pieces, sentence)
    constraint(ids[:, :1], scores)
    found = constraint(ids, scores)[0]
    # By hand: all that is neither tag nor bracket nor the end.
    others = {*pieces.tags, *pieces.opening, *pieces.closing, pieces.end}
    total = sum(
        math.exp(scores[0, token]) for token in range(len(tokenizer)) if token not in others
    )
    assert float(found[sentence[0, 0]]) == pytest.approx(math.log(total), abs=1e-5)
    bracket = next(iter(pieces.opening))
    assert found[bracket] == scores[0, bracket]


def test_a_vocabulary_with_words_in_its_trees_needs_those_of_the_sentence(
    unlearned_parser_with_words,
):
    with pytest.raises(ValueError, match=r"use TreeConstraint\.of"):
        TreeConstraint(TreePieces.of(unlearned_parser_with_words[1]), [2])


def test_words_of_trees_come_in_the_order_of_a_vocabulary():
    trees = ["(S (NP (NN a)) (VP (VBZ b)))", "(FRAG (NN c))"]
    assert tree_words([linearize(tree_of_text(tree)) for tree in trees]) == (
        "NN VBZ (FRAG (NP (S (VP )FRAG )NP )S )VP".split()
    )
