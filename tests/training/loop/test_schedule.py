import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.references import learning_rate
from training.loop.schedule import inverse_sqrt_schedule, learning_rate_at, peak_learning_rate


# Equation 3 by hand: d_model 512, warmup 4000: (512 * 4000)^-0.5 = 6.9877e-4.
@pytest.mark.parametrize(
    ("step", "rate"), [(1, 6.98771e-4 / 4000), (4000, 6.98771e-4), (16000, 6.98771e-4 / 2)]
)
def test_the_rate_is_the_papers(step, rate):
    peak = peak_learning_rate(512, 4000)
    assert learning_rate_at(step, 4000, peak) == pytest.approx(rate, rel=1e-5)


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.sampled_from([64, 512, 1024]))
def test_the_rate_equals_the_formula_everywhere(step, warmup_steps, d_model):
    ours = learning_rate_at(step, warmup_steps, peak_learning_rate(d_model, warmup_steps))
    assert ours == pytest.approx(learning_rate(step, d_model, warmup_steps), rel=1e-9)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_the_schedule_peaks_at_warmup_steps(step, warmup_steps):
    assert learning_rate_at(step, warmup_steps, 1.0) <= learning_rate_at(
        warmup_steps, warmup_steps, 1.0
    )


def test_step_counts_from_one():
    with pytest.raises(ValueError, match="step=0"):
        learning_rate_at(0, 10, 1.0)


def test_the_scheduler_gives_the_first_update_the_rate_of_step_one():
    # The library's `inverse_sqrt` gives it 0.
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = inverse_sqrt_schedule(optimizer, warmup_steps=4)
    rates = []
    for _ in range(16):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert rates[15] == pytest.approx(0.5)  # (4 / 16)^0.5


@pytest.mark.parametrize(
    ("asked", "peak"),
    [
        (None, 1 / 80),  # equation 3 by hand: (64 * 100)^-0.5
        (3e-3, 3e-3),
    ],
)
def test_the_trainer_takes_the_papers_peak_unless_told_another(tmp_path, asked, peak):
    from training.loop.trainer import VaswaniTrainer
    from training.settings.fields import VaswaniTrainingArguments
    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration

    widths = {"d_model": 64, "d_ff": 8, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    trainer = VaswaniTrainer(
        model=VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=9, **widths)),
        args=VaswaniTrainingArguments(
            output_dir=str(tmp_path),
            learning_rate=asked,
            lr_scheduler_type="inverse_sqrt",
            warmup_steps=100,
            max_steps=1000,
            use_cpu=True,
        ),
    )
    trainer.create_optimizer_and_scheduler(1000)
    rates = []
    for _ in range(400):
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
    # Steps 1, 100 and 400: a hundredth of the peak, the peak, and half of it.
    assert [rates[0], rates[99], rates[399]] == pytest.approx([peak / 100, peak, peak / 2])
    assert max(rates) == pytest.approx(peak)
