import pytest

from tests.conversion.pytorch.models import Translation, batch, convert, logits_of


@pytest.mark.parametrize("width", [{"num_heads": 2}, {"num_heads": 6}])
def test_another_number_of_heads_is_another_model(width: dict[str, int]) -> None:
    model, (source, target) = Translation(), batch()
    converted = convert(model, **width)
    assert (logits_of(converted, source, target) - model(source, target)).abs().max() > 0.01


def test_dropout_goes_wherever_torch_nn_transformer_drops() -> None:
    model = Translation(dropout=0.37)
    layer = model.transformer.encoder.layers[0]
    config = convert(model, dropout=0.37).config
    assert config.dropout == layer.dropout1.p == layer.dropout2.p
    assert config.attention_dropout == layer.self_attn.dropout
    assert config.activation_dropout == layer.dropout.p
