"""A checkpoint of one layout goes on in any other: tensors, data position, losses."""

import os
import re
import unittest

import checkpoints
from program import ProgramTest

SAVED = 20
STEPS = 26
TOLERANCE = 2e-6  # of a loss, relative, between layouts


class ReshardTest(ProgramTest):
    settings = [f"train.steps={STEPS}", f"checkpoint.every={SAVED}", "model.dropout=0.1"]

    def write_checkpoint(self, ranks, zero, *more):
        """An unbroken run that also saves on its way; returns its directory."""
        directory = f"from-{ranks}-{zero}-{len(os.listdir(self.folder))}"
        self.finish(ranks, *self.settings, f"parallel.zero={zero}", *more, directory=directory)
        return directory

    def saved(self, directory):
        return "./" + checkpoints.folder(f"{directory}/checkpoints", SAVED)

    def go_on(self, source, ranks, zero, *more):
        directory = f"{source}-to-{ranks}-{zero}-{len(os.listdir(self.folder))}"
        run = self.finish(ranks, *self.settings, f"parallel.zero={zero}", *more,
                          f"checkpoint.resume={self.saved(source)}", directory=directory)
        self.assertIn(f"step {SAVED}, {SAVED * 24} samples read", run.log)
        return directory

    def compare(self, source, source_ranks, ranks, zero, *more):
        directory = self.go_on(source, ranks, zero, *more)
        ours, theirs = self.losses(directory), self.losses(source)
        steps = list(range(SAVED + 1, STEPS + 1))
        self.assertEqual(sorted(ours), steps)
        ends = [self.path(name, "checkpoints") for name in (directory, source)]
        ours_end, theirs_end = (checkpoints.folder(end, STEPS) for end in ends)
        if ranks == source_ranks:
            self.assertEqual(ours, {step: theirs[step] for step in steps})
            self.assertEqual(checkpoints.different_files(ours_end, theirs_end), [])
            self.assertEqual(checkpoints.progress(ours_end), checkpoints.progress(theirs_end))
            return
        for step in steps:
            self.assertEqual(ours[step][0], theirs[step][0], "tokens trained on")
            ratio = float(ours[step][1]) / float(theirs[step][1])
            self.assertLess(abs(ratio - 1), TOLERANCE, f"loss of step {step}")
        positions = [{key: value for key, value in checkpoints.progress(end).items()
                      if "loss" not in key} for end in (ours_end, theirs_end)]
        self.assertEqual(*positions)

    def compare_all(self, writers, readers, *more):
        for source_ranks, source_zero in writers:
            source = self.write_checkpoint(source_ranks, source_zero, *more)
            for ranks, zero in readers(source_ranks, source_zero):
                with self.subTest(written=(source_ranks, source_zero), read=(ranks, zero)):
                    self.compare(source, source_ranks, ranks, zero, *more)


class Reshard(ReshardTest):
    def test_llama(self):
        self.compare_all([(1, 0), (2, 1), (3, 3)], lambda ranks, zero:
                         [(1, 2), (2, (zero + 2) % 4), (3, (zero + 1) % 4)])

    def test_gpt2(self):
        self.compare_all([(4, 2), (2, 3)], lambda ranks, zero: [(1, 0), (3, 1), (4, 3)],
                         "model.family=gpt2")

    def test_tensor_parallel(self):
        """Rows cut by outputs, inputs and vocabulary; copies of key/value heads."""
        for family in ("gpt2", "llama"):
            model = [f"model.family={family}", "model.heads=4", "model.kv_heads=2"]
            source = self.write_checkpoint(2, 0, *model, "parallel.tensor=2")
            for ranks, tensor, zero in [(2, 2, 0), (1, 1, 0), (2, 1, 3), (4, 2, 2), (4, 4, 0)]:
                with self.subTest(family=family, ranks=ranks, tensor=tensor, zero=zero):
                    same = ranks == 2 and tensor == 2
                    self.compare(source, 2 if same else 0, ranks, zero, *model,
                                 f"parallel.tensor={tensor}")

    def test_pipelines(self):
        """Layers and the tied embedding move between layouts of all axes."""
        for family in ("gpt2", "llama"):
            model = [f"model.family={family}", "model.layers=4", "batch.micro=3"]
            source = self.write_checkpoint(4, 1, *model, "parallel.pipeline=2",
                                           "parallel.tensor=2")
            for ranks, zero, layout in [
                    (1, 0, []), (2, 3, []), (2, 0, ["parallel.tensor=2"]),
                    (4, 2, ["parallel.pipeline=2"]), (4, 0, ["parallel.pipeline=4"]),
                    (2, 0, ["parallel.pipeline=2", "parallel.schedule=interleaved",
                            "parallel.chunks=2"])]:
                with self.subTest(family=family, ranks=ranks, layout=layout):
                    self.compare(source, 0, ranks, zero, *model, *layout)

    def test_loaded_tensors_are_the_saved_ones(self):
        """After a step that changes next to nothing, all elements are as they were saved.

        The learning rate vanishes in f32, and 1 - beta is 1.2e-7; the gradient is clipped to 1.
        """
        frozen = ["optimizer.learning_rate=1e-300", "optimizer.beta1=0.9999999",
                  "optimizer.beta2=0.9999999", "run.wall_time=00:00:01"]
        allowed = {"weight": 0, "exp_avg": 2e-7, "exp_avg_sq": 2e-8}
        source = self.write_checkpoint(3, 1)
        before = checkpoints.views(self.path(self.saved(source)))
        for ranks, zero in [(1, 0), (2, 2), (4, 3)]:
            with self.subTest(ranks=ranks, zero=zero):
                directory = f"frozen-{ranks}"
                self.finish(ranks, *self.settings, *frozen, f"parallel.zero={zero}",
                            f"checkpoint.resume={self.saved(source)}", directory=directory,
                            expect=75)
                path = checkpoints.newest(self.path(directory, "checkpoints"))
                after = checkpoints.views(path)
                self.assertEqual(sorted(after), sorted(before))
                for name, tensor in before.items():
                    self.assertEqual(after[name].shape, tensor.shape, name)
                    error = abs(after[name] - tensor).max()
                    self.assertLessEqual(error, allowed[name.split("/")[0]], name)

    def test_order_of_torch_refuses_another_rank_count(self):
        order = "data.order=torch"
        source = self.write_checkpoint(2, 0, order)
        self.compare(source, 2, 2, 3, order)
        run = self.finish(3, *self.settings, order, f"checkpoint.resume={self.saved(source)}",
                          directory="refused", expect=2)
        self.assertIn("data.order = torch", run.errors)
        self.assertRegex(run.errors, "this run has 3, the checkpoint needs 2")
        self.assertEqual(len(re.findall("the checkpoint needs 2", run.errors)), 1)

    def test_stages_write_the_same_bytes(self):
        for family in ("gpt2", "llama"):
            for ranks in (2, 3):
                settings = [*self.settings, f"model.family={family}"]
                for zero in (0, 1, 2, 3):
                    directory = f"{family}-{ranks}-{zero}"
                    self.finish(ranks, *settings, f"parallel.zero={zero}", directory=directory)
                    with self.subTest(family=family, ranks=ranks, zero=zero):
                        reference = f"{family}-{ranks}-0"
                        self.assert_same_losses(directory, reference)
                        ours, theirs = (checkpoints.newest(self.path(name, "checkpoints"))
                                        for name in (directory, reference))
                        self.assertEqual(len(checkpoints.shards(ours)), ranks)
                        self.assertEqual(checkpoints.different_files(ours, theirs), [])


class LongReshard(ReshardTest):
    def test_all_rank_counts_and_stages(self):
        everywhere = [(ranks, zero) for ranks in (1, 2, 3, 4, 8) for zero in (0, 1, 2, 3)]
        self.compare_all([(ranks, 1) for ranks in (1, 2, 3, 4, 8)],
                         lambda ranks, zero: everywhere)

    def test_gpt2_untied(self):
        self.compare_all([(8, 3), (3, 0), (1, 2)], lambda ranks, zero:
                         [(1, 0), (2, 3), (4, 1), (6, 2), (8, 0)],
                         "model.family=gpt2", "model.tied=false")


if __name__ == "__main__":
    unittest.main()
