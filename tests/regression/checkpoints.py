"""Looks into checkpoints from outside: folders, MANIFEST, shards, whole tensors."""

import os
import re
import subprocess

import h5py

TOOL = os.environ.get("LLMTRAIN_CHECKPOINT", "")
KINDS = ("weight", "exp_avg", "exp_avg_sq")


def steps(directory):
    """Steps of the committed checkpoints, in order."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    found = (re.fullmatch(r"step-(\d{10})", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def folder(directory, step):
    return os.path.join(directory, f"step-{step:010d}")


def newest(directory):
    return folder(directory, steps(directory)[-1])


def announced(log):
    """Steps of the lines `saved ...` of a log, in order; a line that was cut does not count."""
    return [int(step) for step in re.findall(r"^saved \S*step-(\d{10}): .* ms$", log, re.M)]


def shards(path):
    return sorted(name for name in os.listdir(path) if name.startswith("shard-"))


def fault(path):
    """What is wrong with a checkpoint; empty: nothing. Needs the checkpoint tool."""
    done = subprocess.run([TOOL, "verify", path], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"status {done.returncode}: {done.stdout}{done.stderr}"


def different_files(path, other):
    """Names of shards that are not the same bytes in two checkpoints."""
    if shards(path) != shards(other):
        return [f"{shards(path)} and {shards(other)}"]
    return [name for name in shards(path)
            if subprocess.run(["cmp", "-s", os.path.join(path, name),
                               os.path.join(other, name)]).returncode != 0]


def progress(path):
    """Everything under /progress, by name."""
    with h5py.File(os.path.join(path, "index.h5"), "r") as index:
        return {name: value[()] for name, value in index["progress"].items()}


def views(path):
    """Whole tensors through the views of index.h5: 'weight/...' -> array."""
    tensors = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and name.split("/")[0] in KINDS:
            tensors[name] = item[()]

    with h5py.File(os.path.join(path, "index.h5"), "r") as index:
        index.visititems(visit)
    return tensors
