import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, GenerationConfig, MarianConfig

from tests import references
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.conversion import onnx as conversion
from vaswani_hf.conversion.onnx import OnnxModel, to_onnx
from vaswani_hf.hub.folder import export


onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

ENCODER, FIRST_STEP, LATER_STEPS = "encoder_model", "decoder_model", "decoder_with_past_model"
GRAPHS = (ENCODER, FIRST_STEP, LATER_STEPS)
# Both sides compute in float32, in another order, and logits here reach 10.
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
TEXTS = ["A cat sat on the mat .", "Eine Katze sitzt auf der Matte !"]

# More pieces than the exporter writes the transpose of a tied matrix for.
PAPER = {
    "vocab_size": 300,
    "d_model": 32,
    "d_ff": 48,
    "num_heads": 4,
    "d_k": 6,
    "d_v": 10,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "max_position_embeddings": 24,
}
# Whatever else a configuration can say.
IMPORTED = {
    "vocab_size": 40,
    "target_vocab_size": 30,
    "d_model": 16,
    "d_ff": 20,
    "num_heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "activation_function": "gelu",
    "attention_bias": True,
    "output_bias": True,
    "final_norm": True,
    "scale_embedding": False,
    "position_encoding": "learned",
    "max_position_embeddings": 20,
    "share_embeddings": False,
    "tie_word_embeddings": False,
    "layer_norm_eps": 1e-3,
}


class Exported(NamedTuple):
    model: VaswaniForConditionalGeneration  # in PyTorch
    source: Path
    folder: Path
    runner: OnnxModel


def random_model(settings, seed):
    """A model whose every parameter is random: initial biases of 0 and gains of 1 hide mistakes."""
    torch.manual_seed(seed)
    model = VaswaniForConditionalGeneration(VaswaniConfig(**settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    # A random model hardly ever says `</s>`: let a piece that it says often end a translation too.
    ids, mask = random_sources(model, 16, 7)
    outputs = model.generate(ids, attention_mask=mask, num_beams=1, max_new_tokens=3)
    model.generation_config.eos_token_id = [2, int(outputs[:, 2].mode().values)]
    return model


@pytest.fixture(scope="module")
def paper_folders(tmp_path_factory):
    """The paper's model, its folder, and what becomes of that without and with quantization."""
    place = tmp_path_factory.mktemp("paper")
    model = random_model(PAPER, seed=0)
    tokenizers = [
        train_tokenizer([text] * 9, 300, are_files=False, show_progress=False) for text in TEXTS
    ]
    export(model, tokenizers[0], place / "source")
    tokenizers[1].save_pretrained(place / "source" / "target_tokenizer")
    trace, traced = conversion._export, {}

    def trace_once(graph):  # which takes seconds
        kind = type(graph.module)
        if kind not in traced:
            traced[kind] = trace(graph)
        return traced[kind]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "_export", trace_once)
        to_onnx(place / "source", place / "exact")
        to_onnx(str(place / "source"), str(place / "int8"), quantization="int8")
    return model, place


@pytest.fixture(scope="module")
def paper(paper_folders):
    model, place = paper_folders
    runner = OnnxModel(place / "exact", num_threads=1)
    return Exported(model, place / "source", place / "exact", runner)


@pytest.fixture(scope="module")
def quantized(paper_folders):
    model, place = paper_folders
    runner = OnnxModel(place / "int8", num_threads=1)
    return Exported(model, place / "source", place / "int8", runner)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A model with everything that the paper's has not, from a checkpoint in bfloat16."""
    place = tmp_path_factory.mktemp("imported")
    model = random_model(IMPORTED, seed=1).bfloat16()
    model.save_pretrained(place / "source")
    to_onnx(place / "source", place / "exact")
    runner = OnnxModel(place / "exact", num_threads=1)
    return Exported(model.float(), place / "source", place / "exact", runner)


@pytest.fixture(params=["paper", "imported"])
def exported(request):
    return request.getfixturevalue(request.param)


def random_sources(model, batch_size, length, seed=0):
    """Ids and a mask with padding on the right of the first row and on the left of the last."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, model.config.vocab_size, (batch_size, length), generator=generator)
    mask = torch.ones_like(ids)
    if batch_size > 1:
        mask[0, (length + 1) // 2 :] = 0
        mask[-1, : length // 3] = 0
    return ids.masked_fill(mask == 0, model.config.pad_token_id), mask


def random_targets(model, batch_size, length):
    generator = torch.Generator().manual_seed(length)
    return torch.randint(
        3, model.config.num_target_pieces, (batch_size, length), generator=generator
    )


def encode(runner, ids, mask):
    outputs = runner.run(ENCODER, input_ids=ids.numpy(), attention_mask=mask.numpy())
    return outputs["last_hidden_state"]


def decode(runner, ids, mask, targets, steps):
    """Logits of `targets`, `(B, T, V)`, of which each step takes so many more tokens."""
    inputs = {
        "encoder_hidden_states": encode(runner, ids, mask),
        "encoder_attention_mask": mask.numpy(),
    }
    logits, graph = [], FIRST_STEP
    for part in targets.split(steps, dim=1):
        outputs = runner.run(graph, input_ids=part.numpy(), **inputs)
        logits.append(outputs.pop("logits"))
        inputs |= {
            name.replace("present", "past_key_values"): kept for name, kept in outputs.items()
        }
        graph = LATER_STEPS
    return np.concatenate(logits, axis=1)


@pytest.mark.parametrize(("batch_size", "length"), [(1, 1), (1, 4), (3, 1), (4, 11)])
def test_encoder_states_are_those_of_pytorch(exported, batch_size, length):
    ids, mask = random_sources(exported.model, batch_size, length)
    with torch.no_grad():
        expected = exported.model.model.encoder(ids, mask).last_hidden_state
    is_real = mask.bool().numpy()
    states = encode(exported.runner, ids, mask)
    np.testing.assert_allclose(states[is_real], expected.numpy()[is_real], **CLOSE)


@pytest.mark.parametrize(
    ("batch_size", "length", "steps"),
    [(1, 1, [1, 1, 1]), (3, 9, [1, 1, 1, 1]), (2, 1, [4]), (4, 6, [3, 1, 2, 1])],
)
def test_logits_of_cached_steps_are_those_of_pytorch_at_once(exported, batch_size, length, steps):
    ids, mask = random_sources(exported.model, batch_size, length)
    targets = random_targets(exported.model, batch_size, sum(steps))
    with torch.no_grad():
        expected = exported.model(ids, mask, decoder_input_ids=targets, use_cache=False).logits
    logits = decode(exported.runner, ids, mask, targets, steps)
    np.testing.assert_allclose(logits, expected.numpy(), **CLOSE)


def test_padding_on_either_side_changes_no_logits(exported):
    source, _ = random_sources(exported.model, 1, 5)
    targets = random_targets(exported.model, 1, 4)
    steps = [2, 1, 1]
    alone = decode(exported.runner, source, torch.ones_like(source), targets, steps)
    pad = torch.full((1, 3), exported.model.config.pad_token_id)
    ids = torch.cat((torch.cat((source, pad), dim=1), torch.cat((pad, source), dim=1)))
    mask = torch.tensor([[1] * 5 + [0] * 3, [0] * 3 + [1] * 5])
    padded = decode(exported.runner, ids, mask, targets.expand(2, -1), steps)
    np.testing.assert_allclose(padded, np.concatenate((alone, alone)), **CLOSE)


def test_greedy_translations_are_those_of_generate(exported):
    ids, mask = random_sources(exported.model, 16, 7)
    expected = exported.model.generate(ids, attention_mask=mask, num_beams=1, max_new_tokens=12)
    found = exported.runner.generate_greedy(ids.numpy(), mask.numpy(), 12)
    assert found.tolist() == expected.tolist()
    has_ended = expected[:, -1] == exported.model.config.pad_token_id
    assert has_ended.any() and not has_ended.all()  # or the test says nothing of the end


def test_greedy_translations_end_with_the_longest(exported):
    ids, mask = random_sources(exported.model, 16, 7)
    outputs = exported.model.generate(ids, attention_mask=mask, num_beams=1, max_new_tokens=12)
    ended = outputs[:, -1] == exported.model.config.pad_token_id
    ids, mask = ids[ended], mask[ended]
    expected = exported.model.generate(ids, attention_mask=mask, num_beams=1, max_new_tokens=12)
    assert expected.shape[1] < 13
    found = exported.runner.generate_greedy(ids.numpy(), mask.numpy(), 12)
    assert found.tolist() == expected.tolist()


def test_inputs_and_outputs_have_the_names_of_optimum(paper):
    # The names are those that optimum.onnxruntime looks for in a translator's folder.
    def kept(prefix, sides):
        return {
            f"{prefix}.{layer}.{side}.{part}"
            for layer in range(2)
            for side in sides
            for part in ("key", "value")
        }

    both, target = ("decoder", "encoder"), ("decoder",)
    expected = {
        ENCODER: ({"input_ids", "attention_mask"}, {"last_hidden_state"}),
        FIRST_STEP: (
            {"input_ids", "encoder_hidden_states", "encoder_attention_mask"},
            {"logits"} | kept("present", both),
        ),
        LATER_STEPS: (
            {"input_ids", "encoder_attention_mask"} | kept("past_key_values", both),
            {"logits"} | kept("present", target),
        ),
    }
    for name, (inputs, outputs) in expected.items():
        graph = onnx.load(paper.folder / f"{name}.onnx").graph
        assert {node.name for node in graph.input} == inputs
        assert {node.name for node in graph.output} == outputs


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_say_nothing_of_the_machine_that_made_them(paper, name):
    content = (paper.folder / f"{name}.onnx").read_bytes()
    assert b".py" not in content
    assert str(Path(conversion.__file__).parent).encode() not in content


def test_a_tied_matrix_is_written_once_in_a_graph(paper):
    for name in GRAPHS:
        initializers = onnx.load(paper.folder / f"{name}.onnx").graph.initializer
        sizes = [int(np.prod(tensor.dims)) for tensor in initializers]
        assert sizes.count(300 * 32) == 1


def test_a_source_may_have_as_many_real_tokens_as_positions(paper):
    ids, mask = torch.full((1, 27), 5), torch.ones(1, 27, dtype=torch.long)
    mask[:, 24:] = 0
    with torch.no_grad():
        expected = paper.model.model.encoder(ids, mask).last_hidden_state
    states = encode(paper.runner, ids, mask)
    np.testing.assert_allclose(states[:, :24], expected[:, :24].numpy(), **CLOSE)


def test_a_source_beyond_the_positions_is_an_error(paper):
    ids = torch.full((1, 25), 5)
    with pytest.raises(Exception, match=r"idx=24 must be within the inclusive range \[-24,23\]"):
        encode(paper.runner, ids, torch.ones_like(ids))


def test_a_target_beyond_the_positions_is_an_error(paper):
    ids, mask = random_sources(paper.model, 1, 3)
    targets = random_targets(paper.model, 1, 25)
    decode(paper.runner, ids, mask, targets[:, :24], [23, 1])
    with pytest.raises(Exception, match=r"idx=24 must be within the inclusive range \[-24,23\]"):
        decode(paper.runner, ids, mask, targets, [24, 1])


def test_configurations_come_along(paper):
    config = VaswaniConfig.from_pretrained(paper.folder)
    for name, value in PAPER.items():
        assert getattr(config, name) == value
    generation = GenerationConfig.from_pretrained(paper.folder)
    assert generation.num_beams == 4  # section 6.1
    assert generation.length_penalty_type == "wu"


def test_configuration_points_at_no_code_that_stays_behind(paper):
    entries = {"auto_map", "custom_pipelines"}
    assert entries <= json.loads((paper.source / "config.json").read_text()).keys()
    assert not entries & json.loads((paper.folder / "config.json").read_text()).keys()


@pytest.mark.parametrize("subfolder", ["", "target_tokenizer"])
def test_tokenizers_come_along(paper, subfolder):
    source, target = (
        AutoTokenizer.from_pretrained(folder, subfolder=subfolder)
        for folder in (paper.source, paper.folder)
    )
    assert source.get_vocab() == target.get_vocab()
    assert source(TEXTS)["input_ids"] == target(TEXTS)["input_ids"]


def test_int8_files_are_smaller(paper, quantized):
    for name in GRAPHS:
        exact, rounded = (
            (folder / f"{name}.onnx").stat().st_size for folder in (paper.folder, quantized.folder)
        )
        assert rounded < exact


def test_int8_rounds_every_matrix_of_the_paper(quantized):
    # An attention has 4 matrices, a feed-forward network 2, the logits 1 (sections 3.2 to 3.4).
    # The memory's keys and values are made in the first step.
    expected = {ENCODER: 6, FIRST_STEP: 2 * 10 + 1, LATER_STEPS: 2 * 8 + 1}
    for name, count in expected.items():
        nodes = onnx.load(quantized.folder / f"{name}.onnx").graph.node
        assert sum(node.op_type == "MatMulInteger" for node in nodes) == count


def test_int8_rounds_embeddings(quantized):
    for name in GRAPHS:
        initializers = onnx.load(quantized.folder / f"{name}.onnx").graph.initializer
        exact = [tensor for tensor in initializers if tensor.data_type == onnx.TensorProto.FLOAT]
        assert not any(np.prod(tensor.dims) == 300 * 32 for tensor in exact)


def test_int8_leaves_positions_as_they_are(quantized):
    expected = np.array(references.sinusoid_table(24, 32))
    for name in (ENCODER, FIRST_STEP, LATER_STEPS):
        initializers = onnx.load(quantized.folder / f"{name}.onnx").graph.initializer
        tables = [
            onnx.numpy_helper.to_array(tensor)
            for tensor in initializers
            if tuple(tensor.dims) == expected.shape
        ]
        assert any(np.allclose(table, expected, atol=1e-6) for table in tables)


def test_int8_weights_leave_a_bit_free(quantized):
    # Two products of 7 and 8 bits fit the 16 bits that older processors add them in:
    # 2 * 64 * 255 < 2^15. Of 8 and 8 bits they do not: 2 * 128 * 255 > 2^15.
    for name in GRAPHS:
        graph = onnx.load(quantized.folder / f"{name}.onnx").graph
        tensors = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "MatMulInteger":
                weight = onnx.numpy_helper.to_array(tensors[node.input[1]])
                assert 32 < np.abs(weight.astype(int)).max() <= 64


def test_int8_mostly_chooses_the_same_pieces(quantized):
    ids, mask = random_sources(quantized.model, 16, 9)
    targets = random_targets(quantized.model, 16, 12)
    with torch.no_grad():
        exact = quantized.model(ids, mask, decoder_input_ids=targets).logits.numpy()
    rounded = decode(quantized.runner, ids, mask, targets, [6, 5, 1])
    assert (exact.argmax(-1) == rounded.argmax(-1)).mean() > 0.9
    assert np.abs(exact - rounded).max() > 1e-3  # or nothing was rounded


def test_unknown_quantization_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"None, 'int8', got quantization='int4'"):
        to_onnx(tmp_path / "absent", tmp_path / "target", quantization="int4")
    assert not any(tmp_path.iterdir())


def test_other_models_are_refused_and_nothing_is_written(tmp_path):
    MarianConfig(vocab_size=20, pad_token_id=1, decoder_start_token_id=1).save_pretrained(
        tmp_path / "source"
    )
    with pytest.raises(ValueError, match="of type 'marian', expected 'vaswani'"):
        to_onnx(tmp_path / "source", tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_missing_weights_are_refused_all_at_once(tmp_path):
    random_model(IMPORTED, seed=2).save_pretrained(tmp_path / "source")
    weights = tmp_path / "source" / "model.safetensors"
    tensors = load_file(weights)
    for name in ("lm_head.bias", "model.encoder.final_norm.bias"):
        del tensors[name]
    save_file(tensors, weights, metadata={"format": "pt"})
    missing = r"(?s)do not fit its config\.json.*encoder\.final_norm.*lm_head\.bias"
    with pytest.raises(ValueError, match=missing):
        to_onnx(tmp_path / "source", tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already"):
        to_onnx(tmp_path / "absent", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_without_a_graph_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"encoder_model\.onnx is missing"):
        OnnxModel(tmp_path)
