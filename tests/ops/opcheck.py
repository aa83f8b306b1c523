"""torch.library.opcheck over every operator of comera. Usage: opcheck.py LIBRARY"""
import sys
import unittest

import torch
from torch.library import opcheck

torch.ops.load_library(sys.argv.pop(1))
ops = torch.ops.comera


def leaf(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)), dtype=torch.float64).requires_grad_()


IDS = torch.tensor([3, 4])
FACTORS = (leaf(3, 4), leaf(4, 5))
CORES = [leaf(1, 2, 3), leaf(3, 3, 4), leaf(4, 2, 2), leaf(2, 5, 1)]
SCALES = [leaf(3), leaf(4), leaf(2)]
TABLE = [leaf(1, 3, 2, 2), leaf(2, 4, 3, 1)]
HEADS = [leaf(2, 5, 6) for _ in range(3)]
SAMPLES = {
    "factored_linear": [(leaf(2, 3), *FACTORS, leaf(5)), (leaf(2, 7, 3), *FACTORS, None)],
    "build_factors": [(CORES, SCALES, 1, 2)],
    "ttm_embedding": [(torch.tensor([[0, 11, 4], [4, 4, 2]]), TABLE, [leaf(2)], 12)],
    "dropout": [(leaf(2, 3, 8), IDS, 0.3, 7)],
    "dropout_add": [(leaf(2, 3, 8), leaf(2, 3, 8), IDS, 0.3, 7)],
    "layer_norm": [(leaf(2, 3, 8), leaf(8), leaf(8), 1e-5)],
    "attention": [(*HEADS, 2, torch.tensor([5, 3]), False, IDS, 0.2, 7), (*HEADS, 3, None, True, None, 0.0, 0)],
}


class OpCheck(unittest.TestCase):
    def test_every_operator_has_samples(self):
        names = {s.name.split("::")[1] for s in torch._C._jit_get_all_schemas() if s.name.startswith("comera::")}
        # The two halves of an operator are reached through it.
        self.assertEqual({n for n in names if not n.endswith(("_forward", "_backward"))}, set(SAMPLES))

    def test_samples(self):
        for name, samples in SAMPLES.items():
            for arguments in samples:
                with self.subTest(name):
                    opcheck(getattr(ops, name).default, arguments)


if __name__ == "__main__":
    unittest.main(verbosity=2)
