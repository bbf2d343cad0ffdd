"""A model that FSDP2 shards over two processes does what a whole one does."""

import json
import os

import pytest

from tests.training.runs import warm_start
from tests.training.warm import together


SHARDED = """\
import json, sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from training.loop.sharding import is_sharded, unsharded
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.modeling_vaswani import DecoderLayer, EncoderLayer

dist.init_process_group("gloo")
rank, mesh = dist.get_rank(), init_device_mesh("cpu", (dist.get_world_size(),))
config = VaswaniConfig(
    **{"vocab_size": 41, "d_model": 16, "d_ff": 24, "num_heads": 2, "dropout": 0.0},
    **{"encoder_layers": 2, "decoder_layers": 2, "label_smoothing": 0.1},
)
torch.manual_seed(0)
whole = VaswaniForConditionalGeneration(config)
sharded = VaswaniForConditionalGeneration(config)
sharded.load_state_dict(whole.state_dict())
for layer in list(sharded.modules()):
    if isinstance(layer, EncoderLayer | DecoderLayer):
        fully_shard(layer, mesh=mesh)
fully_shard(sharded, mesh=mesh)
register_fsdp_forward_method(sharded, "generate")

source = torch.randint(5, 41, (6, 7))
labels = torch.randint(5, 41, (6, 5))
labels[:3, 3:] = -100  # the processes' halves differ in target tokens
mine = slice(3 * rank, 3 * rank + 3)
tokens = int((labels >= 0).sum())
losses = {"whole": [], "sharded": []}
models = {"whole": (whole, slice(0, 6), 1), "sharded": (sharded, mine, dist.get_world_size())}
for name, (model, rows, processes) in models.items():
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-4)
    for _ in range(5):
        share = int((labels[rows] >= 0).sum()) / tokens
        loss = share * model(input_ids=source[rows], labels=labels[rows]).loss
        (processes * loss).backward()  # FSDP takes the mean over processes
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        if processes > 1:
            dist.all_reduce(total)
        losses[name].append(float(total))
parameters = list(sharded.parameters())
gathered = unsharded(sharded)
differences = {
    name: float((tensor - whole.state_dict()[name]).abs().max())
    for name, tensor in gathered.state_dict().items()
}
options = {"max_new_tokens": 4 + 5 * rank, "num_beams": 2}  # one process is done before the other
alone = whole.eval().generate(source[mine], **options)
together = sharded.eval().generate(source[mine], **options)
same = [None] * dist.get_world_size()
dist.all_gather_object(same, torch.equal(alone, together))
if rank == 0:
    report = {
        "losses": losses,
        "differences": differences,
        "is_split": all(p.to_local().numel() < p.numel() for p in parameters),
        "num_parameters": sum(p.numel() for p in parameters) / whole.num_parameters(),
        "is_sharded": [is_sharded(sharded), is_sharded(gathered)],
        "is_tied": gathered.lm_head.weight is gathered.get_input_embeddings().weight,
        "same_translations": same,
    }
    with open(sys.argv[1], "w") as file:
        json.dump(report, file)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def sharding(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    (folder / "sharded.py").write_text(SHARDED)
    done = warm_start().run(
        *(str(folder / "sharded.py"), str(folder / "report.json")),
        environments=together(os.environ, 2),
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads((folder / "report.json").read_text())


def test_a_sharded_model_learns_as_a_whole_one(sharding):
    assert sharding["is_split"]
    assert sharding["num_parameters"] == 1  # the tied embeddings once
    assert sharding["losses"]["sharded"] == pytest.approx(sharding["losses"]["whole"], abs=1e-6)
    assert sharding["losses"]["whole"][-1] < sharding["losses"]["whole"][0]


def test_the_gathered_weights_of_a_sharded_model_are_those_of_a_whole_one(sharding):
    assert sharding["is_sharded"] == [True, False]
    assert sharding["is_tied"]
    assert max(sharding["differences"].values()) < 1e-6


def test_a_sharded_model_translates_where_one_process_is_done_before_the_other(sharding):
    assert sharding["same_translations"] == [True, True]
