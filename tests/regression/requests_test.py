"""Requests to a running program: signals, the files STOP and SAVE, the wall-time limit."""

import os
import re
import signal
import time
import unittest

import checkpoints
from program import ProgramTest, send

ENDLESS = ["train.steps=1000000", "train.log_every=1000", "checkpoint.keep=100"]
# A step of about a second, so that two signals arrive within one.
SLOW = ["model.width=256", "model.heads=4", "model.layers=4", "model.context=256",
        "train.steps=1000000"]


class Requests(ProgramTest):
    def start_endless(self, ranks, *settings):
        run = self.start(ranks, *ENDLESS, *settings)
        self.assertTrue(run.wait_until(lambda: self.rows_written() >= 1), str(run))
        return run

    def checkpoints(self):
        return checkpoints.steps(self.path("run", "checkpoints"))

    def saved(self, run, count):
        return run.wait_until(lambda: len(checkpoints.announced(run.log)) >= count)

    def assert_stopped(self, run, reason):
        self.assertEqual(run.wait(), 75, str(run))
        self.assertIn(f"end: stopped early by {reason}", run.log)
        self.assertEqual(self.checkpoints(), checkpoints.announced(run.log))
        newest = checkpoints.newest(self.path("run", "checkpoints"))
        self.assertEqual(checkpoints.fault(newest), "")

    def test_save_and_go_on(self):
        run = self.start_endless(2)
        send(run.process.pid, signal.SIGUSR2)
        self.assertTrue(self.saved(run, 1), str(run))
        self.write("run/SAVE", "")
        self.assertTrue(self.saved(run, 2), str(run))
        self.assertFalse(os.path.exists(self.path("run", "SAVE")))
        send(run.rank_pids()[1], signal.SIGUSR2)
        self.assertTrue(self.saved(run, 3), str(run))
        self.write("run/STOP", "")
        self.assert_stopped(run, "the file STOP")
        self.assertFalse(os.path.exists(self.path("run", "STOP")))
        self.assertEqual(len(self.checkpoints()), 4)

    def test_stop_and_save_at_once(self):
        run = self.start_endless(2)
        self.write("run/SAVE", "")
        self.write("run/STOP", "")
        self.assertEqual(run.wait(), 75, str(run))
        self.assertIn(len(self.checkpoints()), (1, 2))

    def test_terminate_without_launcher(self):
        run = self.start_endless(0)
        send(run.process.pid, signal.SIGTERM)
        self.assert_stopped(run, "a signal")

    def test_terminate_each_rank(self):
        """What a launcher that leaves time does."""
        run = self.start_endless(2)
        for pid in run.rank_pids().values():
            send(pid, signal.SIGTERM)
        self.assert_stopped(run, "a signal")

    def test_terminate_the_launcher(self):
        """The ranks have one second between SIGTERM and SIGKILL: whatever is left is good."""
        run = self.start_endless(2)
        send(run.process.pid, signal.SIGUSR2)
        self.assertTrue(self.saved(run, 1), str(run))
        pids = run.rank_pids().values()
        send(run.process.pid, signal.SIGTERM)
        self.assertNotEqual(run.wait(), 0, str(run))
        run.wait_for_ranks(pids)
        newest = checkpoints.newest(self.path("run", "checkpoints"))
        self.assertEqual(checkpoints.fault(newest), "")

    def test_interrupt_once(self):
        run = self.start_endless(0)
        send(run.process.pid, signal.SIGINT)
        self.assert_stopped(run, "a signal")

    def test_second_interrupt_ends_at_once(self):
        run = self.start(0, *SLOW)
        run.wait_until(lambda: self.rows_written() >= 1)
        send(run.process.pid, signal.SIGINT)
        time.sleep(0.05)
        asked = time.monotonic()
        send(run.process.pid, signal.SIGINT)
        self.assertEqual(run.wait(), 130, str(run))
        self.assertLess(time.monotonic() - asked, 0.5)
        self.assertEqual(self.checkpoints(), [])

    def test_second_interrupt_of_one_rank_ends_the_job(self):
        run = self.start(2, *SLOW)
        run.wait_until(lambda: self.rows_written() >= 1)
        pids = run.rank_pids()
        send(pids[1], signal.SIGINT)
        time.sleep(0.05)
        send(pids[1], signal.SIGINT)
        self.assertNotEqual(run.wait(30), 0, str(run))
        run.wait_for_ranks(pids.values())
        self.assertEqual(self.checkpoints(), [])

    def test_wall_time(self):
        run = self.start(2, *ENDLESS, "run.wall_time=00:00:08")
        self.assert_stopped(run, "run.wall_time")
        self.assertLess(run.seconds, 8 + 1, "mpirun itself takes a part of the last second")
        self.assertGreater(run.seconds, 2)
        self.assertGreater(self.checkpoints()[-1], 1)

    def test_wall_time_from_the_start_of_the_process(self):
        """Too short for two steps: each start advances one step, none hangs, none is lost."""
        for step in (1, 2, 3):
            run = self.finish(2, *ENDLESS, "run.wall_time=00:00:01", expect=75)
            self.assertIn("end: stopped early by run.wall_time", run.log)
            self.assertEqual(self.checkpoints()[-1], step)

    def test_stop_in_the_last_step_finishes(self):
        self.write("run/STOP", "")
        run = self.finish(2, "train.steps=1", "schedule.warmup_steps=0")
        self.assertIn("end: finished", run.log)

    def test_requests_are_agreed_among_many_ranks(self):
        """Signals to single ranks at different times never leave one waiting for the others."""
        run = self.start_endless(4)
        for rank, pid in sorted(run.rank_pids().items()):
            send(pid, signal.SIGUSR1 if rank == 2 else signal.SIGUSR2)
        self.assertEqual(run.wait(), 75, str(run))
        stopped = int(re.search(r"^steps \d+ to (\d+) of", run.log, re.M)[1])
        self.assertEqual(self.checkpoints()[-1], stopped)


if __name__ == "__main__":
    unittest.main()
