"""torch.library.opcheck over every operator of comera. Usage: opcheck.py LIBRARY"""
import sys
import unittest

import torch
from torch.library import opcheck

torch.ops.load_library(sys.argv.pop(1))
ops = torch.ops.comera
CHECKED = {"build_factors", "factored_linear", "ttm_embedding", "dropout", "dropout_add", "layer_norm", "attention"}


def leaf(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)), requires_grad=True)


class OpCheck(unittest.TestCase):
    def test_every_operator_is_here(self):
        registered = {s.name.split("::")[1] for s in torch._C._jit_get_all_schemas() if s.name.startswith("comera::")}
        self.assertEqual(registered, CHECKED)
