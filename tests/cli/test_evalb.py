from vaswani_hf.cli import main


GOLD = ["(S (NP (NN a)) (NN b))", "(S (NN a) (NN b))"]
TEST = ["(S (VP (NN a)) (NN b))", "(S (NN a))"]
# Counted by hand: of two brackets one is right; the second sentence lacks a word.
LINES = """\
Number of sentence        =      2
Number of Error sentence  =      1
Number of Skip  sentence  =      0
Number of Valid sentence  =      1
Bracketing Recall         =  50.00
Bracketing Precision      =  50.00
Bracketing FMeasure       =  50.00
Complete match            =   0.00
Average crossing          =   0.00
No crossing               = 100.00
2 or less crossing        = 100.00
Tagging accuracy          = 100.00
"""


def write(folder, **files):
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return [str(folder / name) for name in files]


def test_the_summary_is_in_evalbs_lines(tmp_path, capsys):
    assert main(["evalb", *write(tmp_path, gold=GOLD, test=TEST)]) == 0
    assert (
        capsys.readouterr().out == f"=== Summary ===\n\n-- All --\n{LINES}\n-- len<=40 --\n{LINES}"
    )


def test_a_parameter_file_is_heeded(tmp_path, capsys):
    files = write(tmp_path, gold=GOLD, test=TEST)
    params = write(tmp_path, params=["LABELED 0", "CUTOFF_LEN 1"])
    assert main(["evalb", *files, "--params", *params]) == 0
    out = capsys.readouterr().out
    assert "Bracketing FMeasure       = 100.00" in out
    assert "-- len<=1 --\nNumber of sentence        =      0\n" in out


def test_too_many_errors_are_told_with_the_first(tmp_path, capsys):
    # MAX_ERROR is 10, and EVALB lets one more pass.
    assert main(["evalb", *write(tmp_path, gold=GOLD[1:] * 11, test=TEST[1:] * 11)]) == 0
    capsys.readouterr()
    files = write(tmp_path, gold=GOLD[:1] + GOLD[1:] * 12, test=TEST[:1] + TEST[1:] * 12)
    assert main(["evalb", *files]) == 1
    error = capsys.readouterr().err
    assert "12 trees of" in error and "first in line 2 (2 words in the gold tree, 1 in" in error
    assert "MAX_ERROR=10" in error


def test_files_of_different_length_are_refused(tmp_path, capsys):
    assert main(["evalb", *write(tmp_path, gold=GOLD, test=TEST[:1])]) == 1
    assert "equally many lines" in capsys.readouterr().err
