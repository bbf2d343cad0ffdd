import itertools
from collections import Counter

import pytest
import sacrebleu
import torch

from vaswani_hf import Translator
from vaswani_hf.pictures import measure_heads, plot_heads
from vaswani_hf.pictures.heads import HeadReport, HeadScore, without_head


pytest.importorskip("matplotlib")

SOURCES = ["a bead fed cab", "bad bed", "decade dad a cafe"]


@pytest.fixture(scope="module")
def greedy(translator):
    return Translator(translator.model, translator.tokenizer, num_beams=1, max_extra_tokens=2)


@pytest.fixture(scope="module")
def targets(greedy):
    """What the whole model says, so that its BLEU is 100."""
    return greedy(SOURCES)


@pytest.fixture(scope="module")
def report(greedy, targets):
    return measure_heads(greedy, SOURCES, targets)


def weights_of(model, source, target):
    """All weights, and the ids that were read, by the model itself."""
    model.set_attn_implementation("eager")
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        outputs = model(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([[start, *target[:-1]]]),
            output_attentions=True,
        )
    model.set_attn_implementation("sdpa")
    return outputs


def test_the_roles_of_a_head_are_counted_as_by_hand(greedy, targets, report):
    tokenizer, layer, head = greedy.tokenizer, 1, 2
    sources = [tokenizer(text)["input_ids"] for text in SOURCES]
    target_ids = [tokenizer(text)["input_ids"] for text in targets]
    counts = Counter(token for ids in sources for token in ids)
    found = {"previous": [], "next": [], "same word": [], "rarest": []}
    spoken, ends = [], []
    for ids, target in zip(sources, target_ids, strict=True):
        pieces = tokenizer.convert_ids_to_tokens(ids)
        word = list(itertools.accumulate(piece.startswith("▁") for piece in pieces))
        outputs = weights_of(greedy.model, ids, target)
        rows = outputs.encoder_attentions[layer][0, head].tolist()
        last = len(ids) - 1  # </s>
        least = min(counts[token] for token in ids[:last])
        for place in range(last):
            most = rows[place].index(max(rows[place]))
            found["rarest"].append(most < last and counts[ids[most]] == least)
            found["same word"].append(most < last and word[most] == word[place])
            if place > 0:
                found["previous"].append(most == place - 1)
            if place < last - 1:
                found["next"].append(most == place + 1)
        rows = outputs.decoder_attentions[layer][0, head].tolist()
        spoken += [rows[row].index(max(rows[row])) == row - 1 for row in range(2, len(rows))]
        rows = outputs.cross_attentions[layer][0, head].tolist()
        ends += [row.index(max(row)) == last for row in rows]
    by_place = {(one.kind, one.layer, one.head): one.roles for one in report.heads}
    expected = {role: sum(hits) / len(hits) for role, hits in found.items()}
    assert by_place["encoder", layer, head] == pytest.approx(expected)
    decoder, cross = by_place["decoder", layer, head], by_place["cross", layer, head]
    assert decoder["previous"] == pytest.approx(sum(spoken) / len(spoken))
    assert cross["</s>"] == pytest.approx(sum(ends) / len(ends))


def test_alignment_is_that_of_align(greedy, targets, report):
    from vaswani_hf.translation.alignment import Aligner

    aligner = Aligner(greedy.model, greedy.tokenizer, greedy.tokenizer, 4096)
    (pairs,) = greedy.pair_reader(10).chunks(SOURCES, targets)
    rates = aligner.agreement(pairs)
    for one in report.heads:
        if one.kind == "cross":
            both = [rates[one.layer, one.head, step] for step in ("reads", "predicts")]
            assert one.roles["alignment"] == pytest.approx(max(both))


def translate_by_hand(model, tokenizer, sentence, most):
    """The most probable piece after the other, by whole passes of the model."""
    ids, said = tokenizer(sentence, return_tensors="pt")["input_ids"], []
    while len(said) < ids.shape[1] + most and 2 not in said:
        read = torch.tensor([[model.config.decoder_start_token_id, *said]])
        with torch.no_grad():
            said.append(int(model(input_ids=ids, decoder_input_ids=read).logits[0, -1].argmax()))
    return tokenizer.decode(said, skip_special_tokens=True)


@pytest.mark.parametrize(
    ("kind", "layer", "head"), [("encoder", 0, 1), ("decoder", 1, 0), ("cross", 1, 2)]
)
def test_bleu_without_a_head_is_that_of_a_model_whose_head_says_nothing(
    greedy, targets, report, kind, layer, head
):
    model = greedy.model
    stack = model.model.encoder if kind == "encoder" else model.model.decoder
    name = "cross_attention" if kind == "cross" else "self_attention"
    d_v = model.config.d_v

    def silence(module, inputs):
        heads = inputs[0].clone()  # (B, T, H * d_v), before W^O mixes them
        heads[..., head * d_v : (head + 1) * d_v] = 0
        return (heads,)

    hook = getattr(stack.layers[layer], name).output_proj.register_forward_pre_hook(silence)
    by_hand = [translate_by_hand(model, greedy.tokenizer, one, 2) for one in SOURCES]
    hook.remove()
    whole = [translate_by_hand(model, greedy.tokenizer, one, 2) for one in SOURCES]
    assert by_hand != whole  # the head matters
    with without_head(model, kind, layer, head):
        assert greedy(SOURCES) == by_hand
    assert greedy(SOURCES) == whole  # it is back
    (score,) = [
        one.bleu for one in report.heads if (one.kind, one.layer, one.head) == (kind, layer, head)
    ]
    assert score == pytest.approx(sacrebleu.corpus_bleu(by_hand, [targets]).score)
    assert whole == targets and report.bleu == pytest.approx(100)


def test_a_model_that_fails_without_a_head_has_it_back(greedy):
    before = greedy.model.model.encoder.layers[0].self_attention.output_proj.weight.clone()
    with (
        pytest.raises(RuntimeError, match="on purpose"),
        without_head(greedy.model, "encoder", 0, 0),
    ):
        raise RuntimeError("on purpose")
    after = greedy.model.model.encoder.layers[0].self_attention.output_proj.weight
    assert torch.equal(before, after)


def test_every_rate_and_change_is_in_the_picture():
    roles = ["previous", "next", "same word", "rarest"]
    heads = (
        HeadScore("encoder", 0, 0, dict.fromkeys(roles, 0.25), 30.0),
        HeadScore("decoder", 0, 0, dict.fromkeys(roles, 0.5), 32.5),
        HeadScore("cross", 0, 0, dict.fromkeys(["alignment", "rarest", "</s>"], 0.75), 31.0),
    )
    figure = plot_heads(HeadReport(heads, 31.0, "signature", 9), theme="dark")
    texts = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert sorted(map(tuple, texts)) == sorted(
        [("25",) * 4, ("50",) * 3, ("75",) * 3, ("−1.0",), ("+1.5",), ("+0.0",)]
    )
    plain = tuple(HeadScore(one.kind, 0, 0, one.roles) for one in heads)
    assert len(plot_heads(HeadReport(plain, None, None, 9)).axes) == 3


def test_what_cannot_be_measured_is_refused(greedy):
    with pytest.raises(ValueError, match="at least one pair"):
        measure_heads(greedy, [], [])
