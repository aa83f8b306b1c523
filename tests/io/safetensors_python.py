"""The other side of python_test.cpp: loads the files `ours` and `checkpoint` of a folder and saves copies of them."""

import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

folder = Path(sys.argv[1])
for name in "ours", "checkpoint":
    tensors = load_file(folder / name)
    with safe_open(folder / name, framework="pt") as file:
        assert set(file.keys()) == set(tensors)
        save_file(tensors, folder / f"{name}.copy", file.metadata())
    if name == "ours":
        assert torch.equal(tensors["counted"], torch.tensor([[0.0, 1, 2], [3, 4, 5]]))
        assert torch.equal(tensors["half"], torch.tensor([0.5, -2.0], dtype=torch.bfloat16))
