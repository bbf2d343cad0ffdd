"""The scripts of the tour print what their pages show, and the numbers are right; so the notebook.

One file, so that the tiny model is trained once.
"""

import ast
import contextlib
import importlib
import io
import json
import math
import re
import shlex
from types import SimpleNamespace

import pytest
import torch

from tests.conftest import REPOSITORY
from tests.docs.pages import blocks, commands, read
from tests.references import attention_of_one_head


pytest.importorskip("matplotlib")
from tiny_model import SENTENCE, is_held_out, sentence_pairs, trained_model

from examples import attention, masks, positions, scaling, steps
from vaswani_hf.hub.folder import export


PAGES = ("attention", "scaling", "masks", "positions", "steps")
NUMBER = re.compile(r"-?\d+(?:\.(\d+))?(?:e([+-]\d+))?")
GERMAN = "heute hat die Katze den Vogel gesehen"


# What the pages show


def run(command, monkeypatch):
    """Type `python examples/NAME.py ...` in this process, and return what is printed."""
    program, script, *options = shlex.split(command)
    name = re.fullmatch(r"examples/(\w+)\.py", script)[1]
    assert program == "python"
    monkeypatch.setattr("sys.argv", [script, *options])
    with contextlib.redirect_stdout(io.StringIO()) as output:
        importlib.import_module(f"examples.{name}").main()
    return output.getvalue()


def check_same(printed, shown, least=0.0):
    """The same words, and the same numbers up to two units of the last digit, or up to `least`."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    for one, other in zip(NUMBER.finditer(printed), NUMBER.finditer(shown), strict=True):
        digits, exponent = other.groups()
        unit = 10.0 ** (int(exponent or 0) - len(digits)) if digits else 0.0
        assert float(one[0]) == pytest.approx(float(other[0]), abs=max(2 * unit, least))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_its_script_prints(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name == "steps":
        export(*trained_model()[:2], tmp_path / "runs" / "demo")
    page, least = f"docs/tour/{name}.md", 0.0
    found = blocks(page)
    printed = [
        run(command, monkeypatch)
        for block in found
        if block.language == "sh"
        for command in commands(block)
    ]
    (shown,) = [block.text for block in found if block.language == "text"]
    output = printed[0]
    if name == "steps":
        # What a training ends with differs between processors: probabilities, and where it looks.
        output, shown = (re.sub(r"(?m)(\d\.\d\d  ).*$", r"\1", text) for text in (output, shown))
        least = 0.2
    check_same(output, shown, least)
    for picture in re.findall(r"!\[.*\]\((.*)\)", read(page)):
        assert (tmp_path / picture).stat().st_size > 1000
        assert (REPOSITORY / "docs" / "tour" / picture).is_file()


# What the scripts compute


def test_the_worked_example_is_that_of_a_sum_by_hand():
    found = attention.attend()
    # By hand: cosines of the angles between, 60, 15 and 30 degrees.
    products = [1 / 2, (math.sqrt(6) + math.sqrt(2)) / 4, math.sqrt(3) / 2]
    exponentials = [math.exp(product / math.sqrt(2)) for product in products]
    weights = [one / sum(exponentials) for one in exponentials]
    for name, expected in (
        ("products", products),
        ("exponentials", exponentials),
        ("weights", weights),
        ("mixed", [45 * weights[1] + 90 * weights[2]]),
    ):
        assert found[name].tolist() == pytest.approx(expected, abs=1e-12), name
    mixed, (row,) = attention_of_one_head(
        [found["query"].tolist()], found["keys"].tolist(), [[0], [45], [90]]
    )
    assert found["weights"].tolist() == pytest.approx(row, abs=1e-12)
    assert found["mixed"].tolist() == pytest.approx(mixed[0], abs=1e-12)


def test_the_gradient_of_a_softmax_is_that_of_a_sum_by_hand():
    # Weights 3/4 and 1/4: four derivatives of 3/16 each, so a length of 2 * 3/16.
    found = scaling.softmax_gradient(torch.tensor([[math.log(3), 0.0]]))
    assert found.tolist() == pytest.approx([0.375])


def test_the_variance_of_dot_products_is_d_k():
    plain, scaled = scaling.compare(64)
    # Footnote 4. Of 20,000 products the variance has a standard error of a hundredth.
    assert plain.variance == pytest.approx(64, rel=0.05)
    assert scaled.variance == pytest.approx(1, rel=0.05)
    assert plain.gradient < scaled.gradient / 3


@pytest.mark.parametrize("offset", [1, 17])
def test_the_matrix_of_a_shift_turns_each_pair_of_dimensions(offset):
    from vaswani_hf.modeling_vaswani import sinusoidal_positions

    found = positions.fitted_shift(sinusoidal_positions(200, 6).double(), offset)
    for row in range(6):
        for column in range(6):
            angle = offset / 10000 ** (row // 2 * 2 / 6)  # sin(a + b), cos(a + b), by hand
            signs = {(0, 0): math.cos, (1, 1): math.cos, (0, 1): math.sin}
            signs[1, 0] = lambda angle: -math.sin(angle)
            is_block = row // 2 == column // 2
            expected = signs[row % 2, column % 2](angle) if is_block else 0.0
            assert found[row, column].item() == pytest.approx(expected, abs=1e-4)
    assert torch.allclose(found, positions.rotations(6, offset), atol=1e-4)


def test_vectors_that_are_learned_have_no_such_matrix():
    table = torch.randn(200, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = positions.fitted_shift(table, 3)
    assert (table[:-3] @ found.T - table[3:]).norm() > 0.9 * table[3:].norm()


def test_gradients_between_positions_are_lengths_of_the_jacobian():
    # The first output has 3 and 4 times the first input; the second has nothing of it.
    def function(x):
        return torch.stack((torch.cat((3 * x[0, 0], 4 * x[0, 0])), x[0, 1].repeat(2)))[None]

    found = masks.gradients(function, torch.ones(1, 2, 1))
    assert found.tolist() == [[5.0, 0.0], [0.0, pytest.approx(math.sqrt(2))]]


def test_the_tiny_model_translates_what_it_has_not_read():
    pairs = [pair for pair in sentence_pairs() if is_held_out(pair[0])]
    # By hand: 3 times, 4 verbs, 2 tenses.
    assert len(pairs) == 24 and (SENTENCE, GERMAN) in pairs
    assert ("now the cat hears the bird", "jetzt hört die Katze den Vogel") in pairs
    assert len(set(sentence_pairs())) == 720
    model, tokenizer, _ = trained_model()
    batch = tokenizer([english for english, _ in pairs], padding=True, return_tensors="pt")
    found = model.generate(**batch, num_beams=1, max_new_tokens=10)
    said = tokenizer.batch_decode(found, skip_special_tokens=True)
    assert sum(one == german for one, (_, german) in zip(said, pairs, strict=True)) >= 20


def test_steps_end_with_the_translation(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["steps.py", "the cat sees the bird"])
    steps.main()
    assert capsys.readouterr().out.endswith("translation: die Katze sieht den Vogel\n")


def test_steps_refuse_a_model_of_another_kind(capsys, monkeypatch):
    other = SimpleNamespace(model=torch.nn.Linear(1, 1))
    monkeypatch.setattr(steps.Translator, "from_pretrained", lambda folder: other)
    monkeypatch.setattr("sys.argv", ["steps.py", "--model", "marian"])
    with pytest.raises(SystemExit):
        steps.main()
    assert "--model marian" in capsys.readouterr().err


# The notebook


@pytest.fixture(scope="module")
def notebook():
    path = REPOSITORY / "examples" / "the_transformer.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_notebook_has_the_papers_order_and_no_outputs(notebook):
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    sections = [
        [int(number) for number in found.split(".")]
        for found in re.findall(r"(?m)^##+ (\d(?:\.\d)*) ", text)
    ]
    assert sections == sorted(sections) and [3, 2, 1] in sections and len(sections) >= 11
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


def test_the_cells_of_the_notebook_run_in_order(notebook):
    names, shown = {"__name__": "__main__"}, []
    with contextlib.redirect_stdout(io.StringIO()) as output:
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            *statements, last = ast.parse("".join(cell["source"])).body
            if not isinstance(last, ast.Expr):
                statements, last = [*statements, last], None
            exec(compile(ast.Module(statements, []), cell["id"], "exec"), names)
            if last is not None:  # as in a notebook, its value is shown
                shown.append(eval(compile(ast.Expression(last.value), cell["id"], "eval"), names))
    printed = output.getvalue()
    figures = [value for value in shown if value is not None]
    assert len(figures) == 7 and all(callable(figure._repr_png_) for figure in figures)
    for name in ("EncoderLayer", "DecoderLayer", "MultiHeadAttention", "FeedForward"):
        assert f"class {name}(" in printed
    for fact in ("[0.2713, 0.3772, 0.3515]", "the same? True", "one matrix? True", GERMAN):
        assert fact in printed
