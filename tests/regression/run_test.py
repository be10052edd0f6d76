"""What a finished run leaves behind, modes that leave nothing, and numbers that blow up."""

import math
import os
import re
import subprocess
import unittest

import checkpoints
from program import EXECUTABLE, ProgramTest, launch_environment


class Finished(ProgramTest):
    def test_loss_falls_and_the_sample_is_printable(self):
        run = self.finish(2, "train.steps=300", "train.sample_tokens=120",
                          "train.sample_prompt=The king", "data.validation_fraction=0.05",
                          "train.sample_temperature=1.5")
        losses = {step: float(row["loss"]) for step, row in self.metrics().items()}
        self.assertEqual(sorted(losses), list(range(1, 301)))
        self.assertAlmostEqual(losses[1], math.log(257), delta=0.1)
        mean = sum(losses[step] for step in range(281, 301)) / 20
        self.assertLess(mean, 1.6)
        validation = float(self.metrics()[300]["validation_loss"])
        self.assertLess(validation, 1.8)
        self.assertGreater(validation, 0.1)
        sample = re.search(r"^sample     (.*?)^phase", run.log, re.M | re.S)[1]
        self.assertTrue(sample.startswith("The king"), sample)
        self.assertGreater(len(sample), 60)
        with open(run.log_path, "rb") as log:
            text = log.read().decode("utf-8")  # strict: invalid text fails
        bad = [c for c in text if not c.isprintable() and c not in "\n\t"]
        self.assertEqual(bad, [])

    def test_untrained_sample_is_printable(self):
        run = self.finish(2, "train.steps=1", "schedule.warmup_steps=0",
                          "train.sample_tokens=400", "train.sample_temperature=5")
        with open(run.log_path, "rb") as log:
            text = log.read().decode("utf-8")
        self.assertEqual([c for c in text if not c.isprintable() and c not in "\n\t"], [])

    def test_the_same_run_twice(self):
        for directory in ("first", "second"):
            self.finish(3, "model.dropout=0.2", "parallel.zero=2", directory=directory)
        self.assert_same_losses("first", "second")
        paths = [checkpoints.newest(self.path(name, "checkpoints"))
                 for name in ("first", "second")]
        self.assertEqual(checkpoints.different_files(*paths), [])

    def test_another_seed_is_another_run(self):
        self.finish(2, directory="first")
        self.finish(2, "run.seed=2", directory="second")
        self.assertNotEqual(self.losses("first")[1], self.losses("second")[1])

    def test_check_leaves_nothing(self):
        for ranks in (0, 2):
            before = set(os.listdir(self.folder))
            run = self.finish(ranks, "check")
            self.assertIn("the input is valid", run.log)
            created = set(os.listdir(self.folder)) - before
            self.assertEqual([name for name in created
                              if not name.startswith(("log-", "errors-"))], [])
            self.assertNotIn("step       1/", run.log)

    def test_check_refuses_as_a_run_does(self):
        run = self.finish(2, "check", "data.train=none.txt", expect=65)
        self.assertIn("none.txt", run.errors)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_help_and_version_without_launcher(self):
        for argument, pattern in [("--help", r"--input"), ("--version", r"llmtrain \d+\.\d+"),
                                  ("--print-reference", r"(?m)^\[optimizer\]")]:
            with self.subTest(argument=argument):
                done = subprocess.run([EXECUTABLE, argument], capture_output=True, text=True,
                                      cwd=self.folder, env=launch_environment(), timeout=30)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, pattern)
                self.assertEqual(done.stderr, "")
        self.assertEqual(sorted(os.listdir(self.folder)), ["run.ini", "text.txt"])

    def test_reference_input_is_accepted(self):
        done = subprocess.run([EXECUTABLE, "--print-reference"], capture_output=True, text=True,
                              env=launch_environment(), timeout=30)
        self.write("reference.ini", done.stdout)
        self.finish(0, "check", "input=reference.ini", "data.train=text.txt", "train.steps=5",
                    "train.epochs=0", "train.tokens=0")

    def test_resolved_input_gives_the_same_run(self):
        """The input that a checkpoint stores repeats the run."""
        self.finish(2, "model.dropout=0.1", directory="first")
        import h5py
        path = checkpoints.newest(self.path("first", "checkpoints"))
        with h5py.File(os.path.join(path, "index.h5"), "r") as index:
            text = index["provenance/input"][()].decode()
        self.write("resolved.ini", text)
        self.finish(2, "input=resolved.ini", "checkpoint.directory=second/checkpoints",
                    directory="second")
        self.assert_same_losses("second", "first")


class Numerics(ProgramTest):
    def assert_finite_checkpoints(self, directory="run"):
        for step in checkpoints.steps(self.path(directory, "checkpoints")):
            path = checkpoints.folder(self.path(directory, "checkpoints"), step)
            self.assertEqual(checkpoints.fault(path), "")
            self.assertTrue(math.isfinite(checkpoints.progress(path)["last_loss"]))
            for name, tensor in checkpoints.views(path).items():
                finite = all(map(math.isfinite, tensor.reshape(-1).tolist()))
                self.assertTrue(finite, f"step {step}: {name} holds values that are not finite")

    # Weights grow by a factor of 1e5 in each step.
    explosive = ["optimizer.learning_rate=100", "optimizer.weight_decay=1000",
                 "optimizer.clip_norm=0", "schedule.kind=constant", "schedule.warmup_steps=0",
                 "train.steps=100", "optimizer.max_skipped=3", "checkpoint.every=1",
                 "checkpoint.keep=100"]

    def explode(self, ranks, *settings):
        run = self.finish(ranks, *self.explosive, *settings, expect=76)
        self.assertRegex(run.errors, r"3 steps in a row without a finite loss")
        self.assertEqual(len(re.findall("^llmtrain: ", run.errors, re.M)), 1, run.errors)
        return run

    def test_explosion_ends_with_its_status(self):
        for ranks, family in [(1, "gpt2"), (2, "gpt2"), (2, "llama")]:
            with self.subTest(ranks=ranks, family=family):
                self.explode(ranks, f"model.family={family}", "checkpoint.resume=none")
                self.assert_finite_checkpoints()

    def test_loss_scale_that_collapses_ends_with_its_status(self):
        """Overflows shrink the scale to its floor; what is left then is no matter of scale."""
        run = self.explode(2, "precision.dtype=fp16", "precision.loss_scale=64")
        self.assertIn("the update is skipped, loss scale 2 -> 1", run.log)
        self.assert_finite_checkpoints()

    def test_beta_that_is_one_in_single_precision(self):
        run = self.start(1, "optimizer.beta1=0.9999999999999999", "checkpoint.every=1")
        self.assertIn(run.wait(), (0, 2), str(run))
        self.assert_finite_checkpoints()


if __name__ == "__main__":
    unittest.main()
