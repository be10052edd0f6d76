"""A run that was stopped and goes on equals an unbroken one, bit for bit."""

import os
import re
import shutil
import signal
import unittest

import checkpoints
from program import ProgramTest, send

STEPS = 300  # over four epochs; long enough for a request to arrive on the way


def by_file(test, run, directory):
    del run
    test.write(f"{directory}/STOP", "")


def by_launcher(test, run, directory):
    del test, directory
    send(run.process.pid, signal.SIGUSR1)


def by_last_rank(test, run, directory):
    del test, directory
    pids = run.rank_pids()
    send(pids[max(pids)], signal.SIGUSR1)


class ResumeTest(ProgramTest):
    def settings(self, family, *more):
        return [f"model.family={family}", f"train.steps={STEPS}", "model.dropout=0.1",
                "data.validation_fraction=0.02", "train.evaluate_every=70", *more]

    def stopped_step(self, run):
        self.assertIn("end: stopped early", run.log)
        return int(re.search(r"^steps \d+ to (\d+) of", run.log, re.M)[1])

    def stop_after(self, way, step, ranks, settings, directory="run"):
        """Starts, asks to stop once `step` is logged, and returns where it did."""
        run = self.start(ranks, *settings, directory=directory)
        run.wait_until(lambda: self.rows_written(directory) >= step)
        way(self, run, directory)
        self.assertEqual(run.wait(), 75, str(run))
        self.assertFalse(os.path.exists(self.path(directory, "STOP")))
        stopped = self.stopped_step(run)
        self.assertGreaterEqual(stopped, step)
        self.assertEqual(checkpoints.steps(self.path(directory, "checkpoints"))[-1], stopped)
        return stopped

    def assert_equal_runs(self, directory, reference="reference"):
        self.assert_same_losses(directory, reference)
        ours, theirs = (checkpoints.newest(self.path(name, "checkpoints"))
                        for name in (directory, reference))
        self.assertEqual(checkpoints.different_files(ours, theirs), [])
        self.assertEqual(checkpoints.progress(ours), checkpoints.progress(theirs))

    def go_on(self, ranks, settings, stops, directory="run"):
        """Stops at each (way, step) in turn, goes on to the end, and once more."""
        stopped = [self.stop_after(way, step, ranks, settings, directory)
                   for way, step in stops]
        run = self.finish(ranks, *settings, directory=directory)
        self.assertIn(f"step {stopped[-1]}, ", run.log)
        self.assert_equal_runs(directory)
        again = self.finish(ranks, *settings, directory=directory)
        self.assertRegex(again.log, r"(?m)^finished: .* nothing is left to train$")
        self.assert_equal_runs(directory)
        print(f"np {ranks}: stopped at {stopped}", flush=True)
        return stopped


class Resume(ResumeTest):
    def compare(self, family, ranks, stops, *more):
        settings = self.settings(family, *more)
        self.finish(ranks, *settings, directory="reference")
        self.go_on(ranks, settings, stops)

    def test_llama_one_rank_by_file(self):
        self.compare("llama", 1, [(by_file, 5), (by_file, 100)])

    def test_gpt2_two_ranks_by_signal_to_the_launcher(self):
        self.compare("gpt2", 2, [(by_launcher, 3), (by_launcher, 80), (by_launcher, 150)])

    def test_llama_three_ranks_by_signal_to_one_rank(self):
        self.compare("llama", 3, [(by_last_rank, 7), (by_file, 120)], "parallel.zero=3")

    def test_gpt2_with_accumulation(self):
        self.compare("gpt2", 2, [(by_file, 40)], "batch.micro=3", "parallel.zero=2",
                     "model.tied=false")

    def test_llama_in_bf16_and_gpt2_in_fp16(self):
        """fp16 with a scale that overflows on the way: its state is in the checkpoint."""
        self.compare("llama", 2, [(by_file, 50)], "precision.dtype=bf16", "parallel.zero=2",
                     "precision.reduction=bf16")
        shutil.rmtree(self.path("run"))
        shutil.rmtree(self.path("reference"))
        self.compare("gpt2", 2, [(by_file, 5), (by_file, 90)], "precision.dtype=fp16",
                     "precision.loss_scale=1e9", "precision.loss_scale_interval=20",
                     "parallel.zero=1")
        progress = checkpoints.progress(checkpoints.newest(self.path("run", "checkpoints")))
        self.assertLess(progress["applied_steps"], STEPS)
        self.assertGreater(progress["loss_scale"], 1)

    def test_without_launcher(self):
        settings = self.settings("gpt2")
        self.finish(0, *settings, directory="reference")
        self.go_on(0, settings, [(by_launcher, 60)])

    def test_each_of_the_first_steps_alone(self):
        """A wall time shorter than a save and a step ends every start after one step."""
        settings = self.settings("llama", "train.steps=16", "schedule.warmup_steps=9")
        self.finish(2, *settings, directory="reference")
        for step in range(1, 16):
            run = self.finish(2, *settings, "run.wall_time=00:00:01", expect=75)
            self.assertEqual(self.stopped_step(run), step)
            self.assertIn("run.wall_time", run.log)
        self.finish(2, *settings)
        self.assert_equal_runs("run")


class LongResume(ResumeTest):
    def test_every_family_stage_rank_count_and_way(self):
        ways = [by_file, by_launcher, by_last_rank]
        case = 0
        for ranks in (1, 2, 3, 4):
            for family in ("gpt2", "llama"):
                for zero in (0, 1, 2, 3):
                    case += 1
                    settings = self.settings(family, f"parallel.zero={zero}")
                    if zero == 0:
                        self.finish(ranks, *settings, directory="reference",
                                    *["checkpoint.resume=none"])
                    directory = f"run-{ranks}-{family}-{zero}"
                    with self.subTest(ranks=ranks, family=family, zero=zero):
                        stops = [(ways[case % 3], 2 + 3 * case % 11), (ways[(case + 1) % 3], 75),
                                 (ways[(case + 2) % 3], 140)]
                        self.go_on(ranks, settings, stops, directory)


if __name__ == "__main__":
    unittest.main()
