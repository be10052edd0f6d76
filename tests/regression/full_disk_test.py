"""A full disk: a failed save is a warning, training goes on, and ends with 74 after too many."""

import os
import re
import resource
import shutil
import subprocess
import unittest

import checkpoints
from program import ProgramTest

LIMIT = 100 * 1024  # bytes of a file: less than a shard, more than metrics.csv and index.h5


class FullDisk(ProgramTest):
    settings = ["train.steps=30", "checkpoint.every=5"]
    endless = ["train.steps=1000000", "train.log_every=200", "checkpoint.keep=9"]

    def start_limited(self, ranks, *settings):
        """Starts; once steps run, no rank can write a file larger than LIMIT."""
        run = self.start(ranks, *self.endless, *settings)
        self.assertTrue(run.wait_until(lambda: re.search("^step ", run.log, re.M)), str(run))
        pids = run.rank_pids().values()
        self.assertEqual(len(pids), max(1, ranks))
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (LIMIT, resource.RLIM_INFINITY))
        return run

    def assert_failed(self, run, failures):
        self.assertEqual(run.wait(), 74, str(run))
        told = run.log + run.errors
        faults = re.findall(r"checkpoint of step (\d+) was not saved: .*File too large", run.errors)
        self.assertEqual(len(set(faults)), failures, told)
        self.assertRegex(run.errors, rf"(?m)^llmtrain: {failures} saves in a row failed")
        self.assertEqual(len(re.findall("^llmtrain: ", run.errors, re.M)), 1, run.errors)
        self.assertEqual([name for name in os.listdir(self.path("run", "checkpoints"))
                          if "partial" in name or "trash" in name], [])

    def test_ends_after_several_failures(self):
        run = self.start_limited(2, "checkpoint.every=600", "checkpoint.max_failures=3")
        self.assert_failed(run, 3)
        self.assertEqual(os.listdir(self.path("run", "checkpoints")), [])

    def test_without_launcher(self):
        run = self.start_limited(0, "checkpoint.every=600", "checkpoint.max_failures=1")
        self.assert_failed(run, 1)

    def test_training_goes_on_and_saves_when_there_is_room_again(self):
        run = self.start_limited(2, "checkpoint.every=0", "checkpoint.max_failures=3")
        for failures in (1, 2):
            self.write("run/SAVE", "")
            run.wait_until(lambda: run.errors.count("was not saved") >= failures)
        for pid in run.rank_pids().values():
            hard = resource.RLIM_INFINITY
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        self.write("run/STOP", "")
        self.assertEqual(run.wait(), 75, str(run))
        newest = checkpoints.newest(self.path("run", "checkpoints"))
        self.assertEqual(checkpoints.fault(newest), "")

    def test_older_checkpoints_survive(self):
        self.finish(2, *self.endless, "run.wall_time=00:00:01", expect=75)
        run = self.start_limited(2, "checkpoint.every=600", "checkpoint.max_failures=1")
        self.assert_failed(run, 1)
        self.assertEqual(checkpoints.steps(self.path("run", "checkpoints")), [1])
        self.assertEqual(checkpoints.fault(checkpoints.newest(self.path("run", "checkpoints"))),
                         "")

    def test_stopped_but_not_saved_is_not_resumable(self):
        run = self.start_limited(2, "checkpoint.max_failures=9")
        self.write("run/STOP", "")
        self.assertEqual(run.wait(), 74, str(run))
        self.assertRegex(run.errors, "(?m)^llmtrain: stopping for the file STOP")

    def test_real_full_disk(self):
        """A file system of 2 MiB, in which a third checkpoint does not fit."""
        full = self.path("full")
        os.mkdir(full)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2000k", "none", full],
                                 capture_output=True)
        if mounted.returncode != 0:
            print("no right to mount a small file system: this case is left out", flush=True)
            return
        self.addCleanup(subprocess.run, ["umount", "-l", full])
        more = ["checkpoint.keep=5", "train.steps=40"]
        run = self.finish(2, *self.settings, *more, "checkpoint.max_failures=4",
                          directory="full/run", expect=74)
        saved = checkpoints.steps(self.path("full/run/checkpoints"))
        self.assertEqual(saved, checkpoints.announced(run.log))
        self.assertTrue(saved, str(run))
        for step in saved:
            path = checkpoints.folder(self.path("full/run/checkpoints"), step)
            self.assertEqual(checkpoints.fault(path), "")
        self.assertRegex(run.log + run.errors, "(has room for|No space left)")
        # Two fit: enough when one is kept only until the next is complete.
        shutil.rmtree(self.path("full/run"))
        self.finish(2, *self.settings, "checkpoint.keep=1", directory="full/run")

    def test_metrics_on_a_full_disk(self):
        """The metrics' disk is full, that of the checkpoints is not: nothing is lost."""
        full = self.path("full")
        os.mkdir(full)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", full],
                                 capture_output=True)
        if mounted.returncode != 0:
            print("no right to mount a small file system: this case is left out", flush=True)
            return
        self.addCleanup(subprocess.run, ["umount", "-l", full])
        run = self.start(2, "train.steps=200", "checkpoint.directory=checkpoints",
                         "checkpoint.every=150", directory="full")
        status = run.wait()
        self.assertIn(status, (0, 74), str(run))
        self.assertEqual(len(re.findall("^llmtrain: .*metrics.csv", run.errors, re.M)),
                         1 if status else 0, run.errors)
        self.assertEqual(checkpoints.steps(self.path("checkpoints"))[-1:], [200],
                         f"status {status}: training was lost\n{run}")


if __name__ == "__main__":
    unittest.main()
