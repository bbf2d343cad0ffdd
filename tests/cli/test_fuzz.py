"""Whatever the lines: `vaswani-hf translate` gives a line for each, or one line of error."""

import gzip
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.cli import main
from vaswani_hf.hub.folder import export


ODD = [
    *("", " ", "     ", "\t", "a\tb", "\r", "a\rb", "\x00", "\x1b[31m", "\x85", "\xa0", "\x0b"),
    *("\x0c", "\x1c", "\ufeff", "\ufeffa", "\u2028", "\u2029", "\u2581", "a\u2581b", "\u0301"),
    *("\ufffd", "</s>", "<pad>", "<unk>", "a</s>b", "@@ a", "a@@", "a@@ b", "{}", '"', "\\"),
    *("\U0001f3f3\ufe0f\u200d\U0001f308", "\u202eabc", "ab" * 100, "a b " * 100, "\U0010ffff"),
]
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SENTENCES = (st.text("abcde ", max_size=20) | ANY_TEXT | st.sampled_from(ODD)).map(
    lambda text: text.replace("\n", " ")
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "num_beams": st.sampled_from(["1", "2", "4"]),
        "length_penalty": st.sampled_from(["0", "0.6", "1", "-1", "50", "-50"]),
        "length_penalty_type": st.sampled_from(["wu", "power"]),
        "batch_tokens": st.sampled_from(["1", "7", "100"]),
        "chunk_sentences": st.sampled_from(["1", "2", "1000"]),
    },
).map(lambda chosen: [f"--{name}={value}" for name, value in chosen.items()])
RANDOM = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


def untrained(folder: Path, **options) -> Path:
    """A tiny model that says anything at all, and mostly pieces that end lines."""
    text = [*ODD, "abcde " * 3, "\x0b\x0c\x1c\x85\u2028\u2029 \r"] * 3
    tokenizer = train_tokenizer(text, 400, are_files=False, show_progress=False)
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(vocab_size=len(tokenizer), output_bias=True, **sizes, **options)
    )
    torch.nn.init.normal_(model.get_input_embeddings().weight)  # so that it says various things
    for piece in range(len(tokenizer)):
        if len(f"a{tokenizer.decode([piece])}a".splitlines()) > 1:
            model.lm_head.bias.data[piece] += 5
    model.generation_config.max_extra_tokens = 5
    export(model, tokenizer, folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def model_of_ten_positions(tmp_path_factory):
    options = {"position_encoding": "learned", "max_position_embeddings": 10}
    return untrained(tmp_path_factory.mktemp("ten"), **options)


def translate(capfd, model, lines, options, is_gzip=False, ends_in_newline=True):
    """Status, output and errors of the command for these lines."""
    content = "\n".join(lines).encode() + (b"\n" if ends_in_newline and lines else b"")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("text.gz" if is_gzip else "text")
        path.write_bytes(gzip.compress(content) if is_gzip else content)
        capfd.readouterr()
        status = main(["translate", f"--model={model}", "--device=cpu", str(path), *options])
    return status, *capfd.readouterr()


def check_lines(capfd, model, lines, options, ends_in_newline):
    has_end = ends_in_newline or not lines or not lines[-1]
    status, output, errors = translate(capfd, model, lines, options, ends_in_newline=has_end)
    assert status == 0, errors
    assert output.count("\n") == len(lines)
    assert len(output.splitlines()) == len(lines)  # as other readers of lines count them
    for line, translation in zip(lines, output.split("\n"), strict=False):
        assert line.strip() or not translation


@given(st.lists(SENTENCES, max_size=12), OPTIONS, st.booleans())
@example(ODD, [], True)
@settings(max_examples=25, derandomize=True, **RANDOM)
def test_there_is_a_line_for_each_line(capfd, model, lines, options, ends_in_newline):
    check_lines(capfd, model, lines, options, ends_in_newline)


@pytest.mark.slow
@given(st.lists(SENTENCES, max_size=40), OPTIONS, st.booleans())
@settings(max_examples=500, **RANDOM)
def test_there_is_a_line_for_each_of_many_lines(capfd, model, lines, options, ends_in_newline):
    check_lines(capfd, model, lines, options, ends_in_newline)


@given(st.lists(SENTENCES, max_size=6), OPTIONS)
@example(["a", "ab" * 100], [])
@settings(max_examples=10, derandomize=True, **RANDOM)
def test_too_long_a_line_for_learned_positions_is_one_line_of_error(
    capfd, model_of_ten_positions, lines, options
):
    status, output, errors = translate(capfd, model_of_ten_positions, lines, options)
    if status == 0:
        assert output.count("\n") == len(lines)
    else:
        assert status == 1
        assert errors.startswith("vaswani-hf: ") and len(errors.splitlines()) == 1
