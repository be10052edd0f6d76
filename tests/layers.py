#!/usr/bin/env python3
"""The layer rule: a folder includes only folders below it, its own, and none beside it, but for
train -> io and cuda -> ops. ops and comm are strangers. No vendor header under include/. Also: every source is
listed in CMake, and no file is longer than it should be."""
import pathlib
import re
import sys

RUNG = {"core": 0, "config": 0, "tensor": 1, "device": 1, "ops": 2, "comm": 2, "cuda": 2,
        "layers": 3, "parallel": 4, "model": 5, "optim": 5, "data": 5, "train": 6, "io": 6,
        "app": 7}
SIDEWAYS = {("train", "io"), ("device", "tensor"), ("cuda", "ops"), ("config", "core"),
            ("core", "config")}
VENDOR = re.compile(r"#include\s*[<\"](mpi|nccl|cuda|cublas|cudnn|hdf5|H5|dnnl|boost/|omp)")
INCLUDE = re.compile(r'#include "(?:llmtrain/)?([a-z]+)/')
MAX_LINES = 450


def faults(root):
    for path in [*sorted(root.glob("include/**/*.hpp")), *sorted(root.glob("src/**/*.[ch]pp")),
                 *sorted(root.glob("src/**/*.cu"))]:
        where = path.relative_to(root)
        text = path.read_text()
        lines = text.count("\n")
        if lines > MAX_LINES:
            yield f"{where}: {lines} lines, more than {MAX_LINES}"
        if path.suffix == ".cpp":
            listing = (path.parent / "CMakeLists.txt").read_text()
            if path.stem.removesuffix("_cpu") not in listing:
                yield f"{where}: not listed in its CMakeLists.txt"
        if path.suffix == ".cu" and path.name not in (path.parent / "sources.cmake").read_text():
            yield f"{where}: not listed in its sources.cmake"
        if where.parts[0] == "include" and VENDOR.search(text):
            yield f"{where}: includes a vendor header"
        folder = where.parts[2] if where.parts[0] == "include" else where.parts[1]
        if folder not in RUNG:  # main.cpp stands above all
            continue
        for other in INCLUDE.findall(text):
            if other == folder or other not in RUNG:
                continue
            if RUNG[other] >= RUNG[folder] and (folder, other) not in SIDEWAYS:
                yield f"{where}: {folder} (rung {RUNG[folder]}) includes {other} ({RUNG[other]})"


found = list(faults(pathlib.Path(sys.argv[1])))
print("\n".join(found) or "the layers hold")
sys.exit(1 if found else 0)
