"""The command line in a process that talks to the test's Hub, and what it pushes."""

import hashlib
import json
import subprocess
import sys

import yaml

from vaswani_hf.hub.card import write_model_card
from vaswani_hf.hub.folder import export


RESULTS = {
    "recipe": "multi30k",
    "parameters": 1234567,
    "data": {"pairs_read": 10, "pairs_kept": 8, "dropped_empty": 1, "dropped_too_long": 1},
    "training": {"updates": 50, "seconds": 61.5, "target_tokens_per_second": 1234.5},
    "averaged_checkpoints": ["checkpoint-40", "checkpoint-50"],
    "hardware": {"processes": 1, "gpus": [], "cpu_cores": 2},
    "commit": "abc1234",
    "scores": {
        "test": {
            "bleu": 27.345,
            "bleu_signature": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
            "exact_match": 0.125,
            "perplexity_per_token": 4.5678,
            "sentences": 1000,
        }
    },
}

# A process that cannot import the package: its own folder is the only one it looks into first.
WITHOUT_PACKAGE = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("vaswani_hf", "training"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
batch = tokenizer(["a b c", "h"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
print(type(AutoModel.from_pretrained(folder, trust_remote_code=True)).__name__)
print(type(AutoConfig.from_pretrained(folder, trust_remote_code=True)).__module__)
"""
# By the library's pipeline, its task named and then found; and what is saved of it.
PIPELINE_WITHOUT_PACKAGE = (
    WITHOUT_PACKAGE.partition("from transformers")[0]
    + """
import json, os
from transformers import pipeline
folder, saved = sys.argv[1:]
named = pipeline("vaswani-translation", model=folder, trust_remote_code=True, device="cpu")
print(named(["a b c", "", "h"], batch_size=2))
found = pipeline(model=folder, trust_remote_code=True, device="cpu")
print(found("d e", num_beams=1), type(found).__module__.partition(".")[0])
try:
    pipeline("vaswani-translation", model=folder, trust_remote_code=False)
except ValueError as error:
    print("trust_remote_code" in str(error))
named.save_pretrained(saved)
config = json.load(open(os.path.join(saved, "config.json")))
pipelines = config.get("custom_pipelines", {}).values()
classes = [*config["auto_map"].values(), *(entry["impl"] for entry in pipelines)]
print({name.partition(".")[0] + ".py" for name in classes} <= set(os.listdir(saved)))
"""
)

# Runs the command line again and again in one process, which spares the imports. One request a
# line: arguments, and the user whose token is set. Waits before another attempt are cut short.
CLIENT = """
import contextlib, io, json, os, sys, tempfile, time
from vaswani_hf.cli import main
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.01))
for line in sys.stdin:
    request = json.loads(line)
    os.environ.pop("HF_TOKEN", None)
    if request["token"]:
        os.environ["HF_TOKEN"] = request["token"]
    err = io.StringIO()
    with tempfile.TemporaryFile("w+") as out:  # a file, as translations go to its number
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(request["argv"])
        out.seek(0)
        print(json.dumps([status, out.read(), err.getvalue()]), flush=True)
"""


class Client:
    """The command line, as a user of the hub types it."""

    def __init__(self, environment):
        self.environment = environment
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __call__(self, *argv, user="alice"):
        token = None if user is None else f"hf_{user}_secret"
        self.process.stdin.write(json.dumps({"argv": [*map(str, argv)], "token": token}) + "\n")
        self.process.stdin.flush()
        status, out, err = json.loads(self.process.stdout.readline())
        assert "_secret" not in out + err
        return status, out, err

    def fails(self, *argv, user="alice"):
        """The message of a command that fails: one line, and nothing else."""
        status, out, err = self(*argv, user=user)
        assert status == 1 and not out, out
        assert err.startswith("vaswani-hf: "), err
        assert "Traceback" not in err
        return err

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def write_trained_folder(folder, copier, license="cc-by-4.0"):
    """What a training leaves behind."""
    export(*copier, folder)
    samples = [
        {"source": text, "translation": text, "reference": text} for text in ("a b c", "h g", "e")
    ]
    chosen = {"train_source": ["/home/somebody/data/train.en"], "dataset": None}
    results = {**RESULTS, "samples": samples, "chosen": chosen}
    (folder / "results.json").write_text(json.dumps(results))
    settings = {"recipe": "multi30k", "training": {"output_dir": "/home/somebody/runs/mine"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / "log_history.json").write_text("[]\n")
    write_model_card(folder, results, languages=["en", "de"], license=license)
    return folder


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def put_model(hub, folder, name, **changed):
    """Put a model's folder on the Hub, with files that are changed or, by `None`, left out."""
    files = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.suffix in (".json", ".py", ".safetensors")
    }
    files.update({key.replace("__", "."): value for key, value in changed.items()})
    hub.put(name, {key: value for key, value in files.items() if value is not None})
