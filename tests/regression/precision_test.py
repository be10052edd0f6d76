"""16-bit runs of the quickstart learn what the f32 run learns."""

import os
import subprocess
import unittest

from program import ProgramTest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


SEEDS = (1, 2, 3)  # the last digits of a loss are chance: half a percent between equal runs


class LongPrecision(ProgramTest):
    def validation_loss(self, dtype, seed):
        directory = f"{dtype}-{seed}"
        run = self.start(2, f"input={ROOT}/inputs/quickstart.ini", "data.train=kjv.txt",
                         "train.sample_tokens=0", f"precision.dtype={dtype}", f"run.seed={seed}",
                         directory=directory)
        self.assertEqual(run.wait(timeout=1200), 0, str(run))
        rows = self.metrics(directory)
        return float(rows[max(rows)]["validation_loss"])

    def mean_loss(self, dtype):
        losses = [self.validation_loss(dtype, seed) for seed in SEEDS]
        print(f"{dtype}: validation losses {losses}", flush=True)
        return sum(losses) / len(losses)

    def test_quickstart_reaches_the_loss_of_f32(self):
        subprocess.run([f"{ROOT}/utils/make-corpus.sh", self.path("kjv.txt")], check=True)
        f32 = self.mean_loss("f32")
        self.assertLess(f32, 1.75)
        for dtype in ("bf16", "fp16"):
            self.assertLess(self.mean_loss(dtype), 1.01 * f32, dtype)


if __name__ == "__main__":
    unittest.main()
