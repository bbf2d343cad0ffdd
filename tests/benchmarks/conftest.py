import pytest
from sacrebleu.significance import PairedTest

from tests.training.runs import run_here
from training import sweep


@pytest.fixture
def commands(monkeypatch):
    """The commands of the trainings so far, each of which is done in this process."""
    done = []

    def train(command, *_):
        done.append(command)
        return run_here(*command[2:]).returncode

    monkeypatch.setattr(sweep, "_wait_for", train)
    return done


@pytest.fixture
def few_trials(monkeypatch):
    """Short randomization tests, where nobody looks at what they say."""
    monkeypatch.setitem(PairedTest._DEFAULT_SAMPLES, "ar", 100)
