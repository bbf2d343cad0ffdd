"""Numbers out of their range are refused before any text is read."""

import pytest

from tests.training.settings.command_lines import check_refusal
from training.settings.fields import FIELDS
from training.settings.ranges import RANGES
from training.settings.reading import parse_arguments


OUT_OF_RANGE = [
    ("learning_rate -1", "learning_rate=-1"),
    ("learning_rate nan", "learning_rate=nan"),
    ("weight_decay -1", "weight_decay=-1"),
    ("adam_beta1 1.5", "adam_beta1=1.5"),
    ("adam_beta2 -1", "adam_beta2=-1"),
    ("adam_epsilon -1", "adam_epsilon=-1"),
    ("max_grad_norm nan", "max_grad_norm=nan"),
    ("warmup_steps -3", "warmup_steps=-3"),
    ("warmup_steps nan", "warmup_steps=nan"),
    ("max_steps -5", "max_steps=-5"),
    ("max_steps 0", "max_steps must be at least 1, or -1 for num_train_epochs"),
    ("num_train_epochs 0", "num_train_epochs=0"),
    ("num_train_epochs nan", "epochs=nan"),
    ("max_minutes -3", "max_minutes=-3"),
    ("save_minutes 0", "save_minutes=0"),
    ("save_steps -3", "save_steps=-3"),
    ("save_steps nan", "save_steps=nan"),
    ("eval_steps -3", "eval_steps=-3"),
    ("logging_steps -5", "logging_steps=-5"),
    ("eval_delay -3", "eval_delay=-3"),
    ("seed -1", "seed=-1"),
    ("data_seed -1", "data_seed=-1"),
    ("max_length 1", "max_length must be at least 2"),
    ("max_length -5", "max_length=-5"),
    ("target_tokens 0", "target_tokens=0"),
    ("gradient_accumulation_steps 0", "gradient_accumulation_steps=0"),
    ("num_beams 0", "num_beams=0"),
    ("generation_num_beams 0", "generation_num_beams=0"),
    ("generation_max_length -3", "max_length=-3"),
    ("max_extra_tokens -5", "tokens=-5"),
    ("length_penalty 1e30", "length_penalty=1e\\+30"),
    ("length_penalty nan", "length_penalty=nan"),
    ("max_padding nan", "max_padding=nan"),
    ("dataloader_num_workers -1", "dataloader_num_workers=-1"),
]


@pytest.mark.parametrize(
    ("options", "message"), OUT_OF_RANGE, ids=[case[0] for case in OUT_OF_RANGE]
)
def test_a_number_out_of_its_range_is_refused_before_the_text_is_read(
    folder, options, message, monkeypatch
):
    check_refusal(folder, options, message, monkeypatch)


def test_every_range_is_of_a_setting():
    # `max_length_ratio` and the like are of the data, the rest of training.
    assert set(RANGES) <= FIELDS.keys()


def test_a_share_of_padding_lies_between_0_and_1():
    with pytest.raises(ValueError, match=r"max_padding=3\.0"):
        parse_arguments(["demo", "--max_padding", "3"])
