"""The tokenizers of BLEU, and the split of compounds."""

import os
import random
import shutil
import subprocess

import pytest

from vaswani_hf.evaluation.tokenizers import split_compounds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The example of the authors' script.
        ("rich-text format", "rich ##AT##-##AT## text format"),
        # By hand: a match is the hyphen and a character on either side, and matches share nothing.
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("-a b- - c", "-a b- - c"),
        # Of the two bytes of a letter, each serves one match.
        ("a-\u00e4-c", "a ##AT##-##AT## \u00e4 ##AT##-##AT## c"),
        ("10-\u00a0km", "10 ##AT##-##AT## \u00a0km"),
    ],
)
def test_compounds_are_cut_at_their_hyphens(text, expected):
    assert split_compounds(text) == expected


@pytest.mark.skipif(shutil.which("perl") is None, reason="perl is not installed")
def test_compounds_are_cut_as_by_perl():
    chooser = random.Random(0)
    lines = [
        "".join(chooser.choices("ab---\u00e4\u2013\u00a0 \u3000\t", k=12)) for _ in range(2000)
    ]
    done = subprocess.run(
        # The command of get_ende_bleu.sh, on bytes, as where nothing asks for more.
        ["perl", "-ple", "s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g"],
        input="\n".join(lines).encode(),
        env={name: value for name, value in os.environ.items() if not name.startswith("PERL")},
        capture_output=True,
        check=True,
    )
    assert [split_compounds(line) for line in lines] == done.stdout.decode().split("\n")[:-1]
