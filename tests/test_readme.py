"""What README.md tells a reader to type is typed here."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
# A recipe for large machines, cut down to two updates of a model that fits anywhere.
SMALL = (
    "--vocab_size 300 --d_model 32 --d_ff 64 --num_heads 2 --encoder_layers 1 --decoder_layers 1 "
    "--source_tokens 200 --target_tokens 200 --max_steps 2 --save_minutes 9 --use_cpu true"
)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(scope="module")
def workplace(copier, tmp_path_factory):
    """A folder with the files that the README speaks of."""
    from vaswani_hf.hub.folder import export

    folder = tmp_path_factory.mktemp("reader")
    for name in ("demo", "mine"):
        export(*copier, folder / "runs" / name)
    for split, count in [("train", 60), ("valid", 3), ("test", 3)]:
        for side in ("en", "de"):
            (folder / f"{split}.{side}").write_text("a b c d\n" * count)
    return folder


def run(command, folder, variables=os.environ):
    environment = {
        **variables,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_python_blocks_run(workplace):
    assert len(blocks("python")) >= 2
    for block in blocks("python"):
        run([sys.executable, "-c", block.replace("vocab_size=37000", "vocab_size=300")], workplace)
    assert (workplace / "tokenizer" / "tokenizer.json").is_file()


def test_translate_commands_run(workplace):
    (block,) = [block for block in blocks("sh") if "test.hypotheses" in block]
    run(block, workplace)
    assert (workplace / "test.hypotheses").read_text() == "a b c d\n" * 3


def test_the_plot_command_runs(workplace):
    pytest.importorskip("matplotlib")
    log = [{"step": step, "loss_nats_per_token": 5.0 / step} for step in (1, 2, 3)]
    (workplace / "runs" / "mine" / "log_history.json").write_text(json.dumps(log))
    (block,) = [block for block in blocks("sh") if "vaswani-hf plot" in block]
    run(block, workplace)
    assert (workplace / "curves.png").stat().st_size > 1000


def test_convert_commands_run(workplace):
    (block,) = [block for block in blocks("sh") if "vaswani-hf convert" in block]
    lines = [line for line in block.splitlines() if "Helsinki-NLP" not in line]  # on the Hub
    assert len(lines) == 2
    assert run(" && ".join(["set -e", *lines]), workplace).endswith("a b c d\n" * 3)


def test_the_hub_commands_run(workplace, hub_server, hub_environment):
    (block,) = [block for block in blocks("sh") if "vaswani-hf push" in block]
    login, *lines = block.replace("ORG", "lab").splitlines()
    assert login.startswith("hf auth login") and len(lines) == 2
    shown = run(" && ".join(["set -e", *lines]), workplace, hub_environment("alice"))
    assert "it says the same" in shown and shown.endswith("a b c d\n" * 3)
    assert "model.safetensors" in hub_server.files("lab/NAME")


def test_the_training_command_runs_from_the_repository(workplace):
    (block,) = [block for block in blocks("sh") if "accelerate launch" in block]
    words = shlex.split(block.replace("\\\n", " "))
    text = {path.name: str(path) for path in workplace.iterdir() if path.is_file()}
    words = [text.get(word, word) for word in words]
    output = workplace / "trained"
    words[words.index("--output_dir") + 1] = str(output)
    run(
        [sys.executable, "-m", "accelerate.commands.launch", *words[2:], *SMALL.split()], REPOSITORY
    )
    assert (output / "results.json").is_file()


def test_make_knows_the_two_commands():
    (block,) = [block for block in blocks("sh") if "make demo" in block]
    for line in block.splitlines():
        run(f"make --dry-run {line.split()[1]}", REPOSITORY)


def test_every_recipe_is_in_the_table():
    from training.settings.recipes import recipe_names

    for name in recipe_names():
        folder, _, _ = name.rpartition("/")
        shown = f"{folder}/..." if folder else name
        assert f"| `{shown}` |" in README


def test_the_parameter_counts_are_the_models():
    import torch

    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration

    for config in (VaswaniConfig.base(), VaswaniConfig.big()):
        with torch.device("meta"):
            count = VaswaniForConditionalGeneration(config).num_parameters()
        assert f"{count:,}" in README
