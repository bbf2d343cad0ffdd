"""Command lines that train a tiny model on a few pairs, and others that are refused."""

import pytest

from training.data import files
from training.run import main


def command(folder, *options, validation=True):
    """Train by the recipe and the text of a folder, in whose `out` the output goes."""
    text = ["--train_file", str(folder / "a.tsv")]
    text += ["--validation_file", str(folder / "v.tsv")] if validation else []
    output = ["--output_dir", str(folder / "out")]
    return [str(folder / "tiny.yaml"), *text, *output, "--max_steps", "2", *options]


def without(options, *names):
    """A command line that leaves out the options that others set."""
    kept, place = [], 0
    while place < len(options):
        if options[place].removeprefix("--") in names:
            place += 2
        else:
            kept.append(options[place])
            place += 1
    return kept


def check_refusal(folder, options, message, monkeypatch):
    """A run with these options ends with a line, before any text is read or anything is written.

    Args:
        folder: has the recipe and the text.
        options: a name and its value, and maybe more options, as they are typed after `--`.
        message: a pattern of the line.
        monkeypatch: pytest's.
    """
    monkeypatch.setattr(files, "read_pairs", None)  # a call would be a TypeError
    given = f"--{options}".split()
    names = [option.removeprefix("--") for option in given if option.startswith("--")]
    with pytest.raises(SystemExit, match=f"^training/run.py: .*{message}") as ended:
        main([*without(command(folder), *names), *given])
    assert "\n" not in ended.value.code
    assert not (folder / "out").exists()
