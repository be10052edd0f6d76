"""Every refusal: its exit status, its message, once and not once for each rank."""

import os
import re
import shutil
import struct
import unittest

import checkpoints
from program import ProgramTest

LLMC = 20240520  # magic number of token shards of llm.c


def raw(ids, form="H"):
    return struct.pack(f"<{len(ids)}{form}", *ids)


def llmc(tokens, magic=LLMC, version=1, claimed=None):
    header = [magic, version, len(tokens) if claimed is None else claimed] + [0] * 253
    return struct.pack("<256i", *header) + raw(tokens)


LLMC_FORMAT = ["data.format=llmc", "model.vocabulary=50304"]

# name, settings, status, what the message must hold (regular expressions)
REFUSALS = [
    ("no such input", ["input=missing.ini"], 2, ["missing.ini", "cannot be read"]),
    ("input is a folder", ["input=folder"], 2, ["folder"]),
    ("unknown key", ["model.widht=64"], 2, ["model.widht", "model.width"]),
    ("not an integer", ["model.layers=two"], 2, ["model.layers", "two", "integer from"]),
    ("out of range", ["model.heads=-1"], 2, ["model.heads", "-1", "1 to 1024"]),
    ("not a number", ["optimizer.learning_rate=nan"], 2, ["optimizer.learning_rate", "nan"]),
    ("width and heads", ["model.heads=3"], 2, ["model.width = 32", "multiple of model.heads"]),
    ("batch and ranks", ["batch.global=25"], 2, ["batch.global = 25", "data-parallel ranks, 2"]),
    ("tensor and ranks", ["parallel.tensor=4"], 2, ["parallel.tensor = 4", "job has [12] ranks",
                                                   "mpirun -np 4"]),
    ("no length", ["train.steps=0"], 2, ["exactly one of train.steps"]),
    ("choice", ["parallel.zero=4"], 2, ["parallel.zero", "0 to 3"]),
    ("family", ["model.family=lama"], 2, ["lama", "gpt2", "llama"]),
    ("no data", ["data.train=nothing*.bin"], 65, ["nothing\\*.bin"]),
    ("data is a folder", ["data.train=folder"], 65, ["folder"]),
    ("empty data", ["data.train=empty.txt"], 65, ["empty.txt", "at least"]),
    ("not llm.c", [*LLMC_FORMAT, "data.train=text.txt"], 65, ["text.txt"]),
    ("llm.c of a version", [*LLMC_FORMAT, "data.train=version.bin"], 65,
     ["version.bin", "ersion"]),
    ("llm.c cut", [*LLMC_FORMAT, "data.train=cut.bin"], 65, ["cut.bin"]),
    ("raw of odd size", ["data.format=raw", "model.vocabulary=64", "data.train=odd.bin"], 65,
     ["odd.bin"]),
    ("id beyond vocabulary", ["data.format=raw", "model.vocabulary=64", "data.train=beyond.bin"],
     65, ["beyond.bin", "64"]),
    ("no raw vocabulary", ["data.format=raw", "data.train=beyond.bin"], 2, ["model.vocabulary"]),
    ("run directory below a file", ["run.directory=text.txt/run"], 74, ["text.txt/run"]),
    ("no such checkpoint", ["checkpoint.resume=17"], 65, ["checkpoint.resume = 17", "step-0*17"]),
    ("resume is nothing", ["checkpoint.resume=newest"], 2, ["checkpoint.resume", "newest"]),
    ("cuda", ["run.device=cuda"], 2, ["run.device", "CPU"]),
    ("warm-up beyond the end", ["schedule.warmup_steps=31"], 2, ["schedule.warmup_steps = 31"]),
]


class Refusals(ProgramTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("folder"))
        self.write("empty.txt", "")
        tokens = [i % 50 for i in range(2000)]
        self.write("version.bin", llmc(tokens, version=7))
        self.write("cut.bin", llmc(tokens, claimed=4000))
        self.write("odd.bin", raw(tokens) + b"x")
        self.write("beyond.bin", raw(tokens[:-30] + [64] * 30))

    def refused(self, ranks, settings, status, patterns, directory="run"):
        run = self.finish(ranks, *settings, directory=directory, expect=status)
        said = "\n".join(line for line in run.errors.splitlines() if line.startswith("llmtrain:")
                         or not re.match(r"-{20}|mpirun|Process|Exit|Primary|a non-zero|the job",
                                         line.strip()))
        for pattern in patterns:
            self.assertRegex(said, pattern, str(run))
        told = re.findall(r"^llmtrain: .*", run.errors, re.M)
        self.assertEqual(len(told), 1, f"told {len(told)} times: {told}")
        if "[rank " not in told[0]:  # a fault that one rank alone has found ends the others
            self.assertNotIn("MPI_ABORT was invoked", run.errors, "ended by an abort")
        return run

    def test_table(self):
        for name, settings, status, patterns in REFUSALS:
            for ranks in (0, 2):
                settings_of = [s if "batch.global" not in s or ranks else "batch.global=0"
                               for s in settings]
                patterns_of = patterns if ranks or name != "batch and ranks" else ["batch.global"]
                with self.subTest(name=name, ranks=ranks):
                    self.refused(ranks, settings_of, status, patterns_of)

    def test_tensor_parallel_shapes(self):
        for change, words in [(["model.heads=1"], "must divide model.heads = 1"),
                              (["model.mlp_width=65"], "must divide model.mlp_width = 65"),
                              (["model.vocabulary_multiple=1"], "the padded vocabulary, 257")]:
            with self.subTest(change=change):
                self.refused(2, ["parallel.tensor=2", *change], 2, [words])

    def test_pipeline_shapes(self):
        for change, words in [
                (["parallel.chunks=2"], "needs parallel.schedule = interleaved"),
                (["model.layers=1"], "more parts than model.layers = 1"),
                (["parallel.blocks=2"], "must be 2 numbers"),
                (["parallel.schedule=interleaved", "batch.micro=8"], "micro-batches, now 3")]:
            with self.subTest(change=change):
                self.refused(2, ["parallel.pipeline=2", *change], 2, [words])

    def test_all_faults_at_once(self):
        self.write("faults.ini", "[model]\nheads = -1\nwidht = 3\n[train]\nsteps = x\n")
        self.refused(2, ["input=faults.ini", "batch.global=0"], 2,
                     ["faults.ini:2: model.heads", "faults.ini:3: model.widht",
                      "faults.ini:5: train.steps", "batch.global = 0"])
        self.assertFalse(os.path.exists(self.path("run")))

    def test_data_changed_since_the_checkpoint(self):
        self.finish(2)
        for name, change in [("longer", lambda text: text + "Another line.\n" * 9),
                             ("edited", lambda text: text.replace("king", "cook"))]:
            with self.subTest(change=name):
                with open(self.path("text.txt")) as file:
                    before = file.read()
                self.write("text.txt", change(before))
                self.refused(2, ["train.steps=40"], 2, ["fingerprint", "checkpoint.resume = none"])
                self.write("text.txt", before)
        with self.subTest(change="seed"):
            self.refused(2, ["train.steps=40", "run.seed=2"], 2, ["run.seed = 2"])

    def test_another_model_or_order(self):
        """Also what the tensors' shapes do not tell."""
        self.finish(2)
        for change, words in [("model.width=64", "width 64"), ("model.layers=3", "layers 3"),
                              ("model.heads=1", "heads 1"), ("model.rope_theta=5e5", "rope_theta"),
                              ("model.norm_epsilon=1e-6", "norm_epsilon"),
                              ("data.order=sequential", "data.order = sequential")]:
            with self.subTest(change=change):
                self.refused(2, ["train.steps=40", change], 2, [words])

    def damage(self, path, name):
        with open(os.path.join(path, name), "r+b") as file:
            file.seek(-100, os.SEEK_END)
            byte = file.read(1)
            file.seek(-100, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))

    def test_damaged_checkpoints(self):
        """One flipped bit: the one before is taken; with all damaged the run stops."""
        self.finish(2, "checkpoint.every=10", "checkpoint.keep=3")
        directory = self.path("run", "checkpoints")
        self.assertEqual(checkpoints.steps(directory), [10, 20, 30])
        reference = self.path("whole")
        shutil.copytree(checkpoints.newest(directory), reference)
        self.damage(checkpoints.newest(directory), "shard-00001-of-00002.h5")
        run = self.finish(2, "checkpoint.every=10", "checkpoint.keep=3")
        self.assertRegex(run.log + run.errors, r"step 30 is passed over: .*shard-00001.*digest")
        self.assertIn("step 20, ", run.log)
        self.assertEqual(checkpoints.different_files(checkpoints.newest(directory), reference), [])
        for step in checkpoints.steps(directory):
            self.damage(checkpoints.folder(directory, step), "index.h5")
        run = self.refused(2, [], 65, ["none of its 3 checkpoints is good",
                                       "checkpoint.resume = none"])
        self.assertEqual(checkpoints.steps(directory), [10, 20, 30])

    def test_second_run_in_the_same_directory(self):
        first = self.start(2, "train.steps=1000000", "train.log_every=1000")
        first.wait_until(lambda: self.rows_written() >= 1)
        second = self.start(2)
        self.assertNotEqual(second.wait(), 0, str(second))
        self.assertIn("run", second.errors)
        self.assertIsNone(first.process.poll(), "the first run must go on")


if __name__ == "__main__":
    unittest.main()
