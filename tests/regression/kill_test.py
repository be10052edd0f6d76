"""kill -9 at random instants: what was announced is there, and the run goes on bit for bit."""

import os
import random
import signal
import time
import unittest

import checkpoints
from program import ProgramTest, alive, send


def kill_one_rank(run, rng):
    pids = run.rank_pids()
    if pids:
        send(rng.choice(sorted(pids.values())), signal.SIGKILL)


def kill_all_ranks(run, rng):
    del rng
    for pid in run.rank_pids().values():
        send(pid, signal.SIGKILL)


def kill_launcher(run, rng):
    """The launcher's process group; the ranks have groups of their own and notice."""
    del rng
    os.killpg(run.process.pid, signal.SIGKILL)


def kill_everything(run, rng):
    kill_all_ranks(run, rng)
    kill_launcher(run, rng)


WAYS = [kill_one_rank, kill_all_ranks, kill_launcher, kill_everything]


class KillTest(ProgramTest):
    def kill_once(self, way, rng, ranks, settings):
        """Starts, kills after a random while; returns whether the kill came before the end."""
        before = checkpoints.steps(self.path("run", "checkpoints"))
        run = self.start(ranks, *settings)
        # A third of the kills fall into start-up and loading, the others among steps and saves.
        if rng.random() < 0.67:
            run.wait_until(lambda: checkpoints.announced(run.log))
        time.sleep(rng.uniform(0, 0.4))
        # The launcher may not have made the ranks yet: a kill must have something to hit.
        run.wait_until(lambda: run.rank_pids() or run.process.poll() is not None)
        pids = list(run.rank_pids().values())
        if run.process.poll() is not None:
            self.assertEqual(run.wait(), 0, str(run))
            return False
        way(run, rng)
        status = run.wait(timeout=30)
        run.wait_for_ranks(pids)
        announced = checkpoints.announced(run.log)
        if status == 0:
            return False
        directory = self.path("run", "checkpoints")
        steps = checkpoints.steps(directory)
        self.assertTrue(not announced or steps, "no checkpoint, though one was announced")
        if not steps:
            return True
        promised = max([*announced, *before, 0])
        self.assertGreaterEqual(steps[-1], promised, str(run))
        self.assertEqual(checkpoints.fault(checkpoints.folder(directory, steps[-1])), "")
        return True

    def campaign(self, kills, ranks, settings, seed):
        self.finish(ranks, *settings, directory="reference")
        rng = random.Random(seed)
        killed = 0
        for round_number in range(10 * kills):
            if killed == kills:
                break
            way = WAYS[round_number % len(WAYS)]
            with self.subTest(round=round_number, way=way.__name__, seed=seed):
                killed += self.kill_once(way, rng, ranks, settings)
        self.assertEqual(killed, kills, "the runs were too short to kill them so often")
        last = checkpoints.steps(self.path("run", "checkpoints"))
        print(f"np {ranks}: {kills} kills, the last checkpoint is {last[-1:]}", flush=True)
        self.finish(ranks, *settings)
        self.assert_same_losses("run", "reference")
        ours, theirs = (checkpoints.newest(self.path(name, "checkpoints"))
                        for name in ("run", "reference"))
        self.assertEqual(checkpoints.different_files(ours, theirs), [])
        left = sorted(name for name in os.listdir(self.path("run", "checkpoints"))
                      if not name.startswith("step-"))
        self.assertEqual(left, ["latest"], "leftovers of killed saves")


class Kill(KillTest):
    def test_two_ranks_saving_every_step(self):
        self.campaign(12, 2, ["train.steps=120", "checkpoint.every=1", "model.dropout=0.1",
                              "parallel.zero=2"], seed=1)

    def test_launcher_gone_ends_the_ranks(self):
        run = self.start(2, "train.steps=1000000", "train.log_every=1000")
        run.wait_until(lambda: self.rows_written() >= 1)
        pids = list(run.rank_pids().values())
        self.assertEqual(len(pids), 2)
        kill_launcher(run, None)
        run.wait()
        try:
            run.wait_for_ranks(pids, timeout=15)
        finally:
            for pid in filter(alive, pids):
                send(pid, signal.SIGKILL)


class LongKill(KillTest):
    def test_one_rank(self):
        self.campaign(40, 1, ["train.steps=1500", "checkpoint.every=1",
                              "model.family=gpt2"], seed=2)

    def test_three_ranks_saving_every_second_step(self):
        self.campaign(60, 3, ["train.steps=2000", "checkpoint.every=2", "model.dropout=0.1",
                              "parallel.zero=3", "checkpoint.keep=1"], seed=3)


if __name__ == "__main__":
    unittest.main()
