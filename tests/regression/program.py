"""Runs of the real executable under the real launcher, for the regression tests.

The paths come from the environment: LLMTRAIN (the executable), LLMTRAIN_CHECKPOINT (the tool
that verifies checkpoints; may be absent), MPIEXEC (default: mpirun).
"""

import csv
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

EXECUTABLE = os.environ.get("LLMTRAIN", "llmtrain")
LAUNCHER = os.environ.get("MPIEXEC", "mpirun")

# A model that takes about two milliseconds a step.
TINY = """\
[run]
directory = run
threads = 1
[model]
family = llama
layers = 2
heads = 2
width = 32
context = 16
vocabulary_multiple = 16
[data]
train = text.txt
[batch]
global = 24
[optimizer]
learning_rate = 3e-3
[schedule]
warmup_steps = 10
[train]
steps = 30
log_every = 1
"""


def english(words, seed=1):
    """Text that a model can learn from: sentences over a small vocabulary, always the same."""
    rng = random.Random(seed)
    nouns = "river mountain king shepherd city stone garden lion vessel harvest".split()
    verbs = "sees keeps follows builds remembers finds carries".split()
    places = ["by the sea", "in the morning", "under the tree", "after the rain", "at home"]
    lines = []
    count = 0
    while count < words:
        line = (f"The {rng.choice(nouns)} {rng.choice(verbs)} the {rng.choice(nouns)} "
                f"{rng.choice(places)}.")
        count += len(line.split())
        lines.append(line)
    return "\n".join(lines) + "\n"


def launch_environment():
    env = dict(os.environ)
    for key, value in {
            "OMP_NUM_THREADS": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    }.items():
        env.setdefault(key, value)
    return env


def alive(pid):
    """Whether the process still runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Run:
    """One start of the program. `ranks` 0: without the launcher."""

    def __init__(self, folder, ranks, arguments, prefix=()):
        self.ranks = ranks
        self.log_path = tempfile.mktemp(prefix="log-", suffix=".txt", dir=folder)
        self.error_path = self.log_path.replace("log-", "errors-")
        launcher = [LAUNCHER, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
        command = list(prefix) + (launcher if ranks else []) + [EXECUTABLE] + list(arguments)
        self.command = " ".join(command)
        self.started = time.monotonic()
        with open(self.log_path, "wb") as log, open(self.error_path, "wb") as errors:
            # Its own session: a signal to its group reaches nobody else.
            self.process = subprocess.Popen(command, cwd=folder, env=launch_environment(),
                                            stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=errors, start_new_session=True)
        self.seconds = None

    @property
    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    @property
    def errors(self):
        with open(self.error_path, errors="replace") as errors:
            return errors.read()

    def wait(self, timeout=120):
        """The exit status; a death by signal N is -N."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise AssertionError(f"still running after {timeout} s: {self}") from None
        self.seconds = time.monotonic() - self.started
        return status

    def rank_pids(self):
        """Process ids of the ranks that live, by rank."""
        if not self.ranks:
            return {0: self.process.pid}
        pids = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat") as stat:
                    parent = int(stat.read().rsplit(")", 1)[1].split()[1])
                if parent != self.process.pid:
                    continue
                with open(f"/proc/{name}/environ", "rb") as environment:
                    variables = environment.read().split(b"\0")
            except OSError:
                continue
            for variable in variables:
                if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                    pids[int(variable.split(b"=")[1])] = int(name)
        return pids

    def wait_until(self, condition, timeout=60):
        """Waits until `condition()` holds; false when the program has ended before."""
        limit = time.monotonic() + timeout
        while not condition():
            if self.process.poll() is not None:
                return bool(condition())
            if time.monotonic() > limit:
                self.kill_all()
                raise AssertionError(f"nothing happened for {timeout} s: {self}")
            time.sleep(0.001)
        return True

    def kill_all(self):
        pids = list(self.rank_pids().values()) + [self.process.pid]
        for pid in pids:
            send(pid, signal.SIGKILL)
        self.process.wait()
        self.wait_for_ranks(pids)

    @staticmethod
    def wait_for_ranks(pids, timeout=30):
        limit = time.monotonic() + timeout
        while any(alive(pid) for pid in pids):
            if time.monotonic() > limit:
                raise AssertionError(f"ranks outlive their launcher by {timeout} s")
            time.sleep(0.005)

    def __str__(self):
        return f"{self.command}\n--- output\n{self.log[-3000:]}\n--- errors\n{self.errors[-3000:]}"


class ProgramTest(unittest.TestCase):
    """A temporary folder with text.txt and run.ini for each test."""

    WORDS = 5000  # about 26 KB: 70 steps of 24 samples in an epoch

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="llmtrain-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.write("text.txt", english(self.WORDS))
        self.write("run.ini", TINY)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb" if isinstance(content, bytes) else "w") as out:
            out.write(content)

    def start(self, ranks, *settings, directory="run", prefix=()):
        """Starts with `section.key=value` settings, the last of a key counts."""
        last = {setting.split("=")[0]: setting for setting in settings}
        last = {"input": "input=run.ini", "run.directory": f"run.directory={directory}", **last}
        arguments = ["--" + setting for setting in last.values()]
        run = Run(self.folder, ranks, arguments, prefix)
        self.addCleanup(run.kill_all)
        return run

    def finish(self, ranks, *settings, directory="run", expect=0, prefix=()):
        """Runs to the end and returns the Run; fails unless it ends with status `expect`."""
        run = self.start(ranks, *settings, directory=directory, prefix=prefix)
        self.assertEqual(run.wait(), expect, str(run))
        return run

    def metrics(self, directory="run"):
        """Rows of metrics.csv by step, as text; fails unless each step is there once, in order."""
        with open(self.path(directory, "metrics.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        steps = [int(row["step"]) for row in rows]
        self.assertEqual(steps, sorted(set(steps)), "metrics.csv repeats or mixes up steps")
        return dict(zip(steps, rows))

    def losses(self, directory="run"):
        """What must be equal bit for bit; the text reads back exactly, so text is compared."""
        columns = ["tokens", "loss", "gradient_norm", "learning_rate"]
        return {step: tuple(row[column] for column in columns)
                for step, row in self.metrics(directory).items()}

    def rows_written(self, directory="run"):
        """How many steps metrics.csv holds now, while the program runs."""
        try:
            with open(self.path(directory, "metrics.csv"), "rb") as file:
                return max(0, file.read().count(b"\n") - 1)
        except OSError:
            return 0

    def assert_same_losses(self, directory, reference):
        ours, theirs = self.losses(directory), self.losses(reference)
        self.assertEqual(sorted(ours), sorted(theirs))
        different = [step for step in sorted(ours) if ours[step] != theirs[step]]
        self.assertEqual(different, [], "" if not different else
                         f"first at step {different[0]}: {ours[different[0]]} instead of "
                         f"{theirs[different[0]]}")
