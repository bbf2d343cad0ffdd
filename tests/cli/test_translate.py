import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.cli import main
from vaswani_hf.text import output


@pytest.fixture(scope="module")
def folder(copier, tmp_path_factory):
    from vaswani_hf.hub.folder import export

    path = tmp_path_factory.mktemp("copier")
    export(*copier, path)
    return path


@pytest.fixture
def translate(monkeypatch, capfd):
    """A function of a folder, standard input and options: status, standard output and error."""

    def run(folder, text, *options):
        data = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        status = main(["translate", "--model", str(folder), *options])
        return status, *capfd.readouterr()

    return run


def test_standard_input_goes_to_standard_output_line_by_line(folder, translate):
    status, out, _ = translate(folder, "a b c\n\nh g\n", "--chunk_sentences", "2")
    assert (status, out) == (0, "a b c\n\nh g\n")


def test_a_file_is_translated(folder, tmp_path, capfd):
    path = tmp_path / "text"
    path.write_text("d e\na\n")
    assert main(["translate", "--model", str(folder), str(path), "--device", "cpu"]) == 0
    assert capfd.readouterr().out == "d e\na\n"


def test_a_line_that_is_not_utf8_is_an_error_that_names_it(folder, translate):
    status, _, error = translate(folder, b"a b\n\xff\n")
    assert status == 1
    assert "standard input, line 2 is not UTF-8" in error


def test_what_came_before_a_bad_line_is_not_lost(folder, translate):
    assert translate(folder, b"a b\n\xff\n", "--chunk_sentences", "1")[1] == "a b\n"


def test_a_missing_file_is_an_error_that_names_it(folder, capsys):
    assert main(["translate", "--model", str(folder), "nowhere.txt"]) == 1
    assert "nowhere.txt" in capsys.readouterr().err


def test_a_missing_model_is_an_error_that_names_it(tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("a\n")
    assert main(["translate", "--model", str(tmp_path / "nowhere"), str(text)]) == 1
    assert "nowhere" in capsys.readouterr().err


def refusal(capsys, *command):
    """The one line that a command is refused with."""
    assert main([str(argument) for argument in command]) == 1
    line = capsys.readouterr().err
    assert line.startswith("vaswani-hf: ")
    assert line.count("\n") == 1
    return line


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("a b\nc\n")
    return path


@pytest.mark.parametrize("device", ["nonsense", "cuda:x", "meta", "cuda:99"])
def test_a_device_that_cannot_be_used_is_refused_by_name(folder, text, capsys, device):
    line = refusal(capsys, "translate", "--model", folder, text, "--device", device)
    assert f"device='{device}'" in line


@pytest.mark.parametrize("option", ["length_penalty=nan", "length_penalty=60.0"])
def test_numbers_that_cannot_be_are_refused_by_name(folder, text, capsys, option):
    assert option in refusal(capsys, "translate", "--model", folder, text, f"--{option}")


@pytest.mark.parametrize("option", ["--num_beams", "--batch_tokens", "--chunk_sentences"])
def test_counts_below_one_are_refused_as_they_were_typed(folder, text, capsys, option):
    line = refusal(capsys, "translate", "--model", folder, text, option, "-1")
    assert f"{option} must be at least 1, got -1" in line


def change_weight(folder, value):
    weights = load_file(folder / "model.safetensors")
    weights["model.shared.weight"][5, 7] = value
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_by_name(folder, text, tmp_path, capsys, value):
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine)
    change_weight(mine, value)
    line = refusal(capsys, "translate", "--model", mine, text)
    assert "1 of the " in line
    assert f"model.shared.weight of {mine} are NaN or infinite" in line


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    "name",
    [
        *("model.safetensors", "config.json", "generation_config.json"),
        *("tokenizer.json", "tokenizer_config.json"),
    ],
)
def test_a_torn_file_of_a_model_is_named(folder, text, tmp_path, capsys, name):
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine)
    cut(mine / name)
    assert name in refusal(capsys, "translate", "--model", mine, text)


def test_a_folder_without_a_tokenizer_is_refused_by_name(folder, text, tmp_path, capsys):
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine, ignore=shutil.ignore_patterns("tokenizer*"))
    assert f"{mine} holds no tokenizer" in refusal(capsys, "translate", "--model", mine, text)


def test_a_file_is_no_model(text, capsys):
    assert f"{text} is a file" in refusal(capsys, "translate", "--model", text, text)


def test_a_misspelt_folder_is_not_looked_for_on_the_hub(text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    line = refusal(capsys, "translate", "--model", "runs/absent", text)
    assert "There is no absent in the folder runs" in line


@pytest.mark.parametrize("engine", ["transformers", "ctranslate2"])
def test_a_sentence_beyond_the_positions_is_named_by_its_line(copier, tmp_path, capfd, engine):
    from vaswani_hf.hub.folder import export

    tokenizer = copier[1]
    config = VaswaniConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        d_ff=16,
        num_heads=2,
        encoder_layers=1,
        decoder_layers=1,
        position_encoding="learned",
        max_position_embeddings=6,
    )
    learned = tmp_path / "learned"
    export(VaswaniForConditionalGeneration(config), tokenizer, learned)
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
        assert main(["convert", str(learned), str(tmp_path / "c"), "--to", "ctranslate2"]) == 0
        learned = tmp_path / "c"
    text = tmp_path / "text"
    text.write_text("a\n\nb c\nd e f g h a\nb\n")
    capfd.readouterr()
    line = refusal(
        capfd,
        *("translate", "--model", learned, text),
        *("--engine", engine, "--chunk_sentences", "2"),
    )
    # With </s>: 7 tokens.
    assert f"{text}, line 4: A sentence of 7 tokens" in line


class Typist(io.BytesIO):
    """A terminal, at which somebody waits for the answer before the next line is typed."""

    def __init__(self, lines, look):
        super().__init__()
        self.lines, self.look, self.seen = lines, look, []

    def isatty(self):
        return True

    def __iter__(self):
        for line in self.lines:
            yield line
            self.seen.append(self.look())


def test_what_is_typed_is_answered_line_by_line(folder, capfd, monkeypatch):
    typist = Typist([b"a b\n", b"\n", b"c\n"], lambda: capfd.readouterr().out)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=typist))
    assert main(["translate", "--model", str(folder)]) == 0
    assert typist.seen == ["a b\n", "\n", "c\n"]


def test_an_interrupt_ends_without_a_word(folder, capfd, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    typist = Typist([b"a b\n"], interrupt)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=typist))
    assert main(["translate", "--model", str(folder)]) == 130  # 128 and SIGINT's number
    assert capfd.readouterr() == ("a b\n", "")


def test_closed_input_is_told(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert "Standard input is closed" in refusal(capsys, "translate", "--model", folder)


@pytest.fixture(scope="module")
def ctranslate2_folder(folder, tmp_path_factory):
    pytest.importorskip("ctranslate2")
    from vaswani_hf.conversion.ctranslate2 import to_ctranslate2

    path = tmp_path_factory.mktemp("engine") / "ctranslate2"
    to_ctranslate2(folder, path)
    return path


def test_both_engines_translate(folder, ctranslate2_folder, translate):
    text, options = "a b c\n\nh g\n", ["--length_penalty_type", "power", "--num_beams", "3"]
    assert translate(folder, text, *options)[:2] == (0, text)
    options += ["--engine", "ctranslate2", "--compute_type", "float32", "--threads", "1"]
    assert translate(ctranslate2_folder, text, *options)[:2] == (0, text)


def test_the_engine_must_be_that_of_the_folder(folder, ctranslate2_folder, capsys):
    command = ["translate", os.devnull, "--model"]
    assert main([*command, str(ctranslate2_folder)]) == 1
    assert "--engine ctranslate2" in capsys.readouterr().err
    assert main([*command, str(folder), "--engine", "ctranslate2"]) == 1
    assert "--engine transformers" in capsys.readouterr().err


def test_a_type_of_ctranslate2_is_refused_without_it(folder, capsys):
    line = refusal(capsys, "translate", "--model", folder, os.devnull, "--compute_type=int8")
    assert "--compute_type is for --engine ctranslate2" in line


@pytest.mark.parametrize("engine", ["transformers", "ctranslate2"])
def test_no_threads_are_refused(folder, capsys, engine):
    command = ("translate", "--model", folder, os.devnull, "--engine", engine, "--threads", "0")
    assert "--threads must be at least 1, got 0" in refusal(capsys, *command)


@pytest.fixture
def large_machine(monkeypatch):
    """Eight cores, and nobody has said how many threads to take."""
    monkeypatch.setattr("vaswani_hf.cli.engines.available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield
    torch.set_num_threads(1)


def test_threads_are_those_that_are_asked_for(folder, translate, large_machine, monkeypatch):
    assert translate(folder, "a b\n", "--threads", "3")[1] == "a b\n"
    assert torch.get_num_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    translate(folder, "a b\n")
    assert torch.get_num_threads() == 2


def test_a_small_model_is_not_spread_over_many_threads(folder, translate, large_machine):
    torch.set_num_threads(4)
    translate(folder, "a b\n")  # d_model is 64: 64 sentences of 2 beams are half a million
    assert torch.get_num_threads() == 1


def test_the_threads_are_told_where_somebody_looks(folder, translate, large_machine, monkeypatch):
    assert translate(folder, "a b\n", "--threads", "3")[2] == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    told = translate(folder, "a\n", "--threads=3")[2]
    assert "vaswani-hf: CPU threads: 3; cores: 8." in told


def test_an_unknown_compute_type_is_refused_by_name(ctranslate2_folder, capsys):
    command = ["translate", "--model", str(ctranslate2_folder), "--engine", "ctranslate2"]
    assert main([*command, os.devnull, "--compute_type", "int4"]) == 1
    assert "int4" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["nonsense", "cpu:x", "cuda:99"])
def test_ctranslate2_refuses_such_devices_by_name(ctranslate2_folder, text, capsys, device):
    command = ("translate", "--engine", "ctranslate2", "--model", ctranslate2_folder, text)
    assert f"device='{device.partition(':99')[0]}" in refusal(capsys, *command, "--device", device)


@pytest.mark.parametrize("name", ["model.bin", "config.json", "shared_vocabulary.json"])
def test_a_torn_file_of_ctranslate2_is_named(ctranslate2_folder, text, tmp_path, capsys, name):
    mine = tmp_path / "mine"
    shutil.copytree(ctranslate2_folder, mine)
    cut(mine / name)
    line = refusal(capsys, "translate", "--engine", "ctranslate2", "--model", mine, text)
    assert str(mine if name == "model.bin" else mine / name) in line


def test_what_is_no_model_of_ctranslate2_is_told(ctranslate2_folder, text, tmp_path, capsys):
    mine = tmp_path / "mine"
    shutil.copytree(ctranslate2_folder, mine)
    (mine / "model.bin").write_bytes(b"something else")
    line = refusal(capsys, "translate", "--engine", "ctranslate2", "--model", mine, text)
    assert f"CTranslate2 cannot load {mine}" in line


def test_ctranslate2_that_computes_no_numbers_is_told(ctranslate2_folder, folder, tmp_path):
    from vaswani_hf.conversion.ctranslate2 import _SpecBuilder
    from vaswani_hf.translation.ctranslate2 import CTranslate2Translator
    from vaswani_hf.translation.loading import check_finite

    mine = tmp_path / "mine"
    shutil.copytree(ctranslate2_folder, mine)
    model = VaswaniForConditionalGeneration.from_pretrained(folder)
    with torch.no_grad():
        model.model.encoder.layers[0].self_attention_norm.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="are NaN or infinite"):
        check_finite(model)
    spec = _SpecBuilder(model).spec
    pieces = list(CTranslate2Translator(mine).source_pieces)
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.validate()
    spec.save(str(mine))
    with pytest.raises(ValueError, match="The model computes NaN"):
        CTranslate2Translator(mine, device="cpu")(["a b"])


def test_a_missing_ctranslate2_is_told_with_its_extra(
    ctranslate2_folder, text, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    line = refusal(
        capsys, "translate", "--engine", "ctranslate2", "--model", ctranslate2_folder, text
    )
    assert 'ctranslate2 is needed for this: pip install "vaswani-hf[export]"' in line


# Texts of any length


@pytest.fixture
def sentences():
    return pytest.importorskip("sentencex")


TEXT = "\ufeffa b\r\n\r\n  c d \te f\n* * *\n\u2028h g"


def test_a_split_text_keeps_every_separator(folder, translate, sentences):
    options = ["--split", "sentences", "--language", "en"]
    for chunk_sentences in ("1", "3", "10000"):
        status, out, _ = translate(folder, TEXT, *options, "--chunk_sentences", chunk_sentences)
        assert (status, out) == (0, TEXT)


def test_both_engines_split(ctranslate2_folder, translate, sentences):
    options = ["--split", "sentences", "--language", "en", "--engine", "ctranslate2"]
    assert translate(ctranslate2_folder, TEXT, *options)[:2] == (0, TEXT)


def test_long_sentences_are_cut_as_they_are_told_to_be(folder, translate, sentences, caplog):
    text = "a b c d e f g h\na b\n"
    options = ["--split", "sentences", "--language", "en", "--max_source_tokens", "6"]
    assert translate(folder, text, *options, "--chunk_sentences", "1")[:2] == (0, text)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "1 sentence was cut at clauses, for being longer than 6 source tokens" in message


@pytest.mark.parametrize("engine", ["transformers", "ctranslate2"])
def test_the_limit_is_what_the_tokenizer_tells(
    folder, ctranslate2_folder, tmp_path, translate, sentences, caplog, engine
):
    mine = tmp_path / "mine"
    shutil.copytree(folder if engine == "transformers" else ctranslate2_folder, mine)
    path = mine / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 6}))
    options = ["--engine", engine, "--split", "sentences", "--language", "en"]
    text = "a b c d e f g h\na b\n"
    assert translate(mine, text, *options)[:2] == (0, text)
    messages = [record.getMessage() for record in caplog.records]
    assert any("for being longer than 6 source tokens; the longest has 9" in m for m in messages)
    assert not any("indexing errors" in message for message in messages)


def test_the_language_comes_from_the_card(folder, text, tmp_path, capfd, sentences):
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine)
    line = refusal(capfd, "translate", "--model", mine, text, "--split", "sentences")
    assert "language of the text is needed" in line
    assert "--language en" in line
    (mine / "README.md").write_text("---\nlanguage:\n- en\n- de\n---\n")
    assert main(["translate", "--model", str(mine), str(text), "--split", "sentences"]) == 0
    assert capfd.readouterr().out == text.read_text()


def test_a_language_without_split_is_refused(folder, text, capsys):
    line = refusal(capsys, "translate", "--model", folder, text, "--language=en")
    assert "--language is for --split sentences, --format html and xliff only" in line


@pytest.mark.parametrize("engine", ["transformers", "ctranslate2"])
def test_a_sentence_that_is_too_long_is_named(folder, ctranslate2_folder, tmp_path, capfd, engine):
    model = folder if engine == "transformers" else ctranslate2_folder
    text = tmp_path / "text"
    text.write_text("a b\nc\na b c d\n")
    command = ("translate", "--model", model, text, "--engine", engine, "--max_source_tokens", "4")
    line = refusal(capfd, *command, "--num_beams", "1", "--chunk_sentences", "2")
    assert f"{text}, line 3: A sentence of 5 tokens is longer than the 4 that one may" in line


# Large jobs


@pytest.fixture
def long_text(tmp_path):
    """Forty lines, some blank, of up to five letters."""
    path = tmp_path / "long"
    lines = [" ".join("abcdefgh"[number % 4 : number % 9]) for number in range(40)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_the_outputs_of_all_shards_are_that_of_the_file(folder, long_text, tmp_path, capfd):
    command = ["translate", "--model", str(folder), str(long_text)]
    for number in ("1", "2", "3"):
        part = str(tmp_path / f"part.{number}")
        assert main([*command, "--shard", f"{number}/3", "--output", part]) == 0
    parts = [(tmp_path / f"part.{number}").read_text() for number in (1, 2, 3)]
    assert all(parts)
    assert "".join(parts) == long_text.read_text()


def test_a_bad_line_of_a_shard_is_named(folder, tmp_path, capfd):
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\nc\n\xff\n")
    line = refusal(capfd, "translate", "--model", folder, path, "--shard", "2/2")
    assert f"{path}, shard 2/2, line 2 is not UTF-8" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "1/2"], "--shard needs a FILE"),
        (["--shard", "1/2", "-"], "--shard needs a FILE"),
        (["--shard", "3/2", os.devnull], "A shard is written I/N, such as 1/8 up to 8/8, got 3/2"),
        (["--resume", os.devnull], "--resume needs --output OUTPUT and a FILE"),
        (["--resume", "--output", "out"], "--resume needs --output OUTPUT and a FILE"),
    ],
)
def test_what_cannot_be_shared_or_resumed_is_refused(
    folder, tmp_path, capsys, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, "translate", "--model", folder, *options)
    assert not list(tmp_path.iterdir())


def killed_at(num_bytes, command):
    """Run a command in a process that is killed once it has written so many bytes of output."""
    process = os.fork()
    if not process:
        left, system_write = num_bytes, os.write

        def write(descriptor, data):
            nonlocal left
            left -= system_write(descriptor, data[:left])
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return len(data)

        output.os.write = write
        os._exit(main(command))
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


@pytest.mark.parametrize("split", [[], ["--split", "sentences", "--language", "en"]])
def test_a_killed_run_goes_on_at_the_next_whole_line(folder, long_text, tmp_path, capfd, split):
    if split:
        pytest.importorskip("sentencex")
    path = tmp_path / "out"
    command = ["translate", "--model", str(folder), str(long_text), "--output", str(path), *split]
    command += ["--chunk_sentences", "3"]
    assert killed_at(51, command)
    assert killed_at(70, [*command, "--resume"])
    # In whole lines and the beginning of another, none of them twice.
    assert long_text.read_text().startswith(path.read_text())
    assert 100 < len(path.read_text()) < len(long_text.read_text())
    assert main([*command, "--resume", "--batch_tokens", "100"]) == 0
    assert path.read_text() == long_text.read_text()
    assert {file.name for file in tmp_path.iterdir()} == {"out", "long"}


def test_a_finished_output_is_told_and_left(folder, long_text, tmp_path, capfd):
    path = tmp_path / "out"
    command = ["translate", "--model", str(folder), str(long_text), "--output", str(path)]
    assert main(command) == 0
    assert "out is there already; delete it" in refusal(capfd, *command)
    assert main([*command, "--resume"]) == 0
    assert "out is finished; nothing is left to do" in capfd.readouterr().err
    path.write_text("mine\n")
    assert "out is no output that can be resumed" in refusal(capfd, *command, "--resume")
    assert path.read_text() == "mine\n"


@pytest.mark.parametrize("change", ["option", "model", "input"])
def test_the_output_of_another_command_model_or_input_is_not_gone_on_with(
    folder, long_text, tmp_path, capfd, change
):
    path, mine = tmp_path / "out", tmp_path / "mine"
    shutil.copytree(folder, mine)
    command = ["translate", "--model", str(mine), str(long_text), "--output", str(path)]
    assert killed_at(20, command)
    command += ["--resume"]
    if change == "option":
        command += ["--num_beams", "1"]
    elif change == "model":
        change_weight(mine, 1.0)
    else:
        long_text.write_text(long_text.read_text() + "a\n")
    line = refusal(capfd, *command)
    differing = {"option": "num_beams=None there and num_beams=1 here", "model": "model_sha256="}
    assert differing.get(change, "input_bytes=") in line
    assert path.stat().st_size == 20


def test_a_run_that_cannot_begin_leaves_no_output(long_text, tmp_path, capfd):
    command = ["translate", "--model", tmp_path / "nowhere", long_text]
    assert "nowhere" in refusal(capfd, *command, "--output", tmp_path / "out")
    refusal(capfd, *command, "--engine", "ctranslate2", "--output", tmp_path / "out")
    assert {file.name for file in tmp_path.iterdir()} == {"long"}


@pytest.mark.slow
def test_twenty_kills_of_the_command_lose_and_repeat_no_line(folder, tmp_path):
    chooser = random.Random(0)
    text, path, undisturbed = (tmp_path / name for name in ("text", "out", "undisturbed"))
    lines = [" ".join(chooser.choices("abcdefgh", k=chooser.randint(0, 9))) for _ in range(3000)]
    text.write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "vaswani_hf.cli", "translate", "--model", str(folder)]
    command += [str(text), "--chunk_sentences", "7"]
    subprocess.run([*command, "--output", str(undisturbed)], check=True)
    command += ["--output", str(path), "--resume"]
    for _ in range(20):
        process = subprocess.Popen(command)
        enough = (path.stat().st_size if path.exists() else 0) + chooser.randint(1, 1500)
        while process.poll() is None and not (path.exists() and path.stat().st_size >= enough):
            time.sleep(0.001)
        assert process.poll() is None, "the text is too short for so many kills"
        process.kill()
        process.wait()
    subprocess.run(command, check=True)
    assert path.read_text() == undisturbed.read_text()
    assert {file.name for file in tmp_path.iterdir()} == {"out", "text", "undisturbed"}
