"""16-bit runs of the quickstart learn what the f32 run learns."""

import os
import subprocess
import unittest

from program import ProgramTest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class LongPrecision(ProgramTest):
    def validation_loss(self, dtype):
        run = self.start(2, f"input={ROOT}/inputs/quickstart.ini", "data.train=kjv.txt",
                         "train.sample_tokens=0", f"precision.dtype={dtype}", directory=dtype)
        self.assertEqual(run.wait(timeout=1200), 0, str(run))
        rows = self.metrics(dtype)
        loss = float(rows[max(rows)]["validation_loss"])
        print(f"{dtype}: validation loss {loss}", flush=True)
        return loss

    def test_quickstart_reaches_the_loss_of_f32(self):
        subprocess.run([f"{ROOT}/utils/make-corpus.sh", self.path("kjv.txt")], check=True)
        f32 = self.validation_loss("f32")
        self.assertLess(f32, 1.75)
        for dtype in ("bf16", "fp16"):
            self.assertLess(abs(self.validation_loss(dtype) - f32), 0.01 * f32)


if __name__ == "__main__":
    unittest.main()
