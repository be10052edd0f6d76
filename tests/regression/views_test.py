"""h5dump and h5py show whole tensors: the views of index.h5 equal the pieces in the shards."""

import math
import os
import re
import subprocess
import unittest

import h5py

import checkpoints
from program import ProgramTest

VOCABULARY = 257  # bytes and the end of text; 272 rows in memory


def shapes(family, width=32, mlp=128, context=16, layers=2):
    """Shapes of all weights by name, from the definition of the families."""
    matrix = {"attention/q": (width, width), "attention/k": (width, width),
              "attention/v": (width, width), "attention/output": (width, width),
              "mlp/down": (width, mlp)}
    matrix.update({"mlp/up": (mlp, width)} if family == "gpt2" else
                  {"mlp/up": (mlp, width), "mlp/gate": (mlp, width)})
    norms = {"attention_norm": (width,), "mlp_norm": (width,)}
    result = {"embedding/tokens/weight": (VOCABULARY, width), "final_norm/weight": (width,)}
    if family == "gpt2":
        result["embedding/positions/weight"] = (context, width)
        result["final_norm/bias"] = (width,)
    for layer in range(layers):
        for name, shape in {**matrix, **norms}.items():
            result[f"blocks/{layer:03d}/{name}/weight"] = shape
            if family == "gpt2":
                result[f"blocks/{layer:03d}/{name}/bias"] = shape[:1]
    return result


def pieces(path):
    """Rows of the table of pieces as dictionaries."""
    with h5py.File(os.path.join(path, "index.h5"), "r") as index:
        table = index["pieces"][()]
    return [{name: row[name] for name in table.dtype.names} for row in table]


class Views(ProgramTest):
    def checkpoint(self, family, ranks, *settings):
        directory = f"{family}-{ranks}"
        self.finish(ranks, f"model.family={family}", "train.steps=3",
                    "schedule.warmup_steps=1", *settings,
                    directory=directory)
        return checkpoints.newest(self.path(directory, "checkpoints"))

    def assembled(self, path):
        """Flat whole tensors from the pieces alone, each element filled exactly once."""
        names = checkpoints.shards(path)
        tensors = {}
        for row in pieces(path):
            name = f"{row['kind'].decode()}/{row['tensor'].decode()}"
            dims = row["dims"]
            shape = tuple(int(n) for n in row["global_shape"][:dims])
            self.assertEqual(tuple(row["box_offset"][:dims]), (0,) * dims, name)
            self.assertEqual(tuple(row["box_extent"][:dims]), shape, name)
            flat = tensors.setdefault(name, (shape, [None] * math.prod(shape)))[1]
            begin, end, position = int(row["begin"]), int(row["end"]), int(row["position"])
            with h5py.File(os.path.join(path, names[row["shard"]]), "r") as shard:
                held = shard[name][position:position + end - begin]
            self.assertEqual(len(held), end - begin, name)
            self.assertTrue(all(value is None for value in flat[begin:end]), f"{name} overlaps")
            flat[begin:end] = held.tolist()
        return tensors

    def compare(self, family, ranks, *settings):
        path = self.checkpoint(family, ranks, *settings)
        whole = checkpoints.views(path)
        expected = shapes(family)
        self.assertEqual(sorted(whole), sorted(f"{kind}/{name}" for kind in checkpoints.KINDS
                                               for name in expected))
        assembled = self.assembled(path)
        self.assertEqual(sorted(assembled), sorted(whole))
        for name, tensor in whole.items():
            self.assertEqual(tensor.shape, expected[name.split("/", 1)[1]], name)
            self.assertEqual(str(tensor.dtype), "float32", name)
            self.assertEqual(assembled[name][0], tensor.shape, name)
            self.assertEqual(tensor.reshape(-1).tolist(), assembled[name][1], name)
        return path, whole

    def test_llama_three_ranks(self):
        self.compare("llama", 3)

    def test_gpt2_two_ranks_stage_three(self):
        self.compare("gpt2", 2, "parallel.zero=3")

    def test_one_rank(self):
        self.compare("llama", 1)

    def test_h5dump(self):
        path, whole = self.compare("gpt2", 2)
        name = "weight/blocks/001/attention/q/bias"
        done = subprocess.run(["h5dump", "-m", "%.9g", "-y", "-w", "0", "-d", "/" + name,
                               os.path.join(path, "index.h5")],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        data = re.search(r"DATA \{\n(.*?)\n\s*\}", done.stdout, re.S)[1]
        numbers = [float(text) for text in data.replace(",", " ").split()]
        self.assertEqual(numbers, [float(f"{x:.9g}") for x in whole[name].tolist()])
        self.assertGreater(max(map(abs, numbers)), 0)

    def test_missing_shard_shows_as_not_a_number(self):
        path, _ = self.compare("llama", 2)
        os.remove(os.path.join(path, checkpoints.shards(path)[1]))
        values = [value for tensor in checkpoints.views(path).values()
                  for value in tensor.reshape(-1).tolist()]
        self.assertTrue(any(math.isnan(value) for value in values))
        self.assertNotEqual(checkpoints.fault(path), "")

    def test_progress_is_readable(self):
        path = self.checkpoint("llama", 2)
        progress = checkpoints.progress(path)
        self.assertEqual(progress["step"], 3)
        self.assertEqual(progress["samples"], 72)
        with h5py.File(os.path.join(path, "index.h5"), "r") as index:
            text = index["provenance/input"][()].decode()
            layout = index["provenance/layout"][()].decode()
        self.assertIn("width = 32", text)
        self.assertIn("2", layout)


if __name__ == "__main__":
    unittest.main()
