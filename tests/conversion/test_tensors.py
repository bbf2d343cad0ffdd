import torch

from vaswani_hf.conversion.differences import Differences
from vaswani_hf.conversion.tensors import TensorReader


def reader_of(**tensors):
    return TensorReader(
        {name.replace("_", "."): tensor for name, tensor in tensors.items()}, Differences("x")
    )


def test_a_tensor_comes_in_float32():
    reader = reader_of(a=torch.ones(2, 3, dtype=torch.float16))
    assert torch.equal(reader.take("a", 2, 3), torch.ones(2, 3))
    assert reader.differences.found == []


def test_what_is_wrong_is_noted_and_zeros_stand_for_it():
    reader = reader_of(a=torch.ones(2), b=torch.ones(3, dtype=torch.long))
    for name, shape in (("a", (3,)), ("b", (3,)), ("c", (4,))):
        assert torch.equal(reader.take(name, *shape), torch.zeros(shape))
    assert reader.differences.found == [
        "a has shape (2,), expected (3,)",
        "b is of type torch.int64, expected floating point",
        "c is missing",
    ]


def test_a_layer_is_its_weight_and_bias_or_zeros():
    reader = reader_of(fc_weight=torch.ones(2, 3), fc_bias=torch.ones(2), out_weight=torch.ones(2))
    weights = reader.take_affine("fc", "inner", 2, 3)
    weights |= reader.take_affine("out", "norm", 2, has_bias=False)
    assert {name: tensor.sum().item() for name, tensor in weights.items()} == {
        "inner.weight": 6.0,
        "inner.bias": 2.0,
        "norm.weight": 2.0,
        "norm.bias": 0.0,
    }


def test_what_is_neither_taken_nor_ignored_is_refused():
    reader = reader_of(a=torch.ones(1), b=torch.ones(1), c=torch.ones(2))
    reader.take("a", 1)
    reader.ignore("b", "absent")
    reader.refuse_rest()
    assert reader.differences.found == ["c (2,) has no place in this model"]
