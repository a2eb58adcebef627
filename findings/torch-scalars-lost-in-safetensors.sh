#!/usr/bin/env bash
# PyTorch's sharded writer of safetensors turns numbers into zeros when it joins its shards.
#
# One would expect: `HuggingFaceStorageWriter` of torch.distributed.checkpoint writes a state as safetensors, with
# `save_distributed=True` as one shard for each process, and with `enable_consolidation=True` also as joined files. The
# joined files hold the same tensors as the shards, or there is an error.
#
# What happens (torch 2.13.0, safetensors 0.8.0, Python 3.11, Linux x86_64, one process): a tensor without dimensions,
# such as the count of steps that Adam keeps for each weight, is right in the shard and 0 in the joined file. Tensors of
# one and two dimensions are right in both. There is no error and no warning about it. An optimizer that is resumed from
# the joined file begins its bias correction anew.
#
# Seen: "shard: step 3.0, one 5.0" and "joined: step 0.0, one 5.0".
#
# The script installs PyTorch in a temporary folder (1 GB or more), and fails where PyTorch does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 safetensors==0.8.0

cat > "$folder/join.py" <<'PYTHON'
import sys
import warnings
from pathlib import Path

import safetensors
import torch
import torch.distributed.checkpoint as checkpoint
from safetensors.torch import load_file

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
state = {"weight": torch.arange(6.0).reshape(2, 3), "step": torch.tensor(3.0), "one": torch.tensor([5.0])}
writer = checkpoint.HuggingFaceStorageWriter(str(folder), save_distributed=True, enable_consolidation=True)
checkpoint.save(state, storage_writer=writer, no_dist=True)

print(f"torch {torch.__version__}, safetensors {safetensors.__version__}, Python {sys.version.split()[0]}")
found = {}
for name, pattern in (("shard", "sharded/*.safetensors"), ("joined", "*.safetensors")):
    [file] = folder.glob(pattern)
    found[name] = load_file(file)
    print(f"{name}: step {found[name]['step'].item()}, one {found[name]['one'].item()}")

for name in ("shard", "joined"):
    if not all(torch.equal(found[name][key], state[key]) for key in ("weight", "one")):
        sys.exit(f"changed: the {name} file has other tensors of one and two dimensions")
if found["shard"]["step"].item() != 3:
    sys.exit("changed: the shard has another number")
if found["joined"]["step"].item() != 0:
    sys.exit("changed: the joined file has the number")
print("as described")
PYTHON

"$folder/venv/bin/python" "$folder/join.py" "$folder/state"
