"""The other side of python_test.cpp: `copy FROM TO` loads and saves a file, `values FILE -` checks known values."""

import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

command, source, target = sys.argv[1:]
tensors = load_file(source)
if command == "copy":
    with safe_open(source, framework="pt") as file:
        assert set(file.keys()) == set(tensors)
        for name in tensors:
            assert file.get_tensor(name).shape == tensors[name].shape, name
        save_file(tensors, target, file.metadata())
else:
    assert torch.equal(tensors["counted"], torch.tensor([[0.0, 1, 2], [3, 4, 5]]))
    assert torch.equal(tensors["half"], torch.tensor([0.5, -2.0], dtype=torch.bfloat16))
    assert torch.equal(tensors["truth"], torch.tensor([True, False]))
    assert len(tensors) == 3
