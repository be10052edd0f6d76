#!/usr/bin/env python3
"""Times llmtrain beside PyTorch on this machine: `make bench`, or

  utils/bench/bench.py [--presets P ...] [--dtypes f32 bf16] [--pairs N] [--json FILE]

Every program of a row is started once and makes one step when it is its turn (A B C A B C ...);
those that wait are stopped, so that none takes time from another. Medians over the pairs; a ratio is
the median of the pairs' ratios of times, above 1 where llmtrain is faster. Without PyTorch (2.x,
importable by this Python) only llmtrain is timed.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BATCH = {"shakespeare": 16, "gpt2-124m": 1, "llama-15m": 16, "llama-110m": 1}  # of a rank
WARM_UP = 3
LAYOUTS = {"1x2": (1, 2), "2x1": (2, 1)}  # ranks x threads


def children(pid):
    """The process and all its descendants."""
    found = [pid]
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += children(int(child))
    return found


class Worker:
    """A program that makes one step for each line it is sent."""

    def __init__(self, name, commands, environment=()):
        self.name, self.samples = name, []
        self.processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL, text=True,
                                           env=dict(os.environ, **extra))
                          for command, extra in zip(commands, environment)]

    def signal(self, number):
        for process in self.processes:
            for pid in children(process.pid):
                os.kill(pid, number)

    def step(self, keep=True):
        self.signal(signal.SIGCONT)
        for process in self.processes:
            process.stdin.write("\n")
            process.stdin.flush()
        lines = [process.stdout.readline() for process in self.processes]
        if not all(lines):
            sys.exit(f"bench.py: {self.name} ended early: {' '.join(self.processes[0].args)}")
        self.signal(signal.SIGSTOP)
        samples = [json.loads(line) for line in lines]
        sample = max(samples, key=lambda s: s["ms"])
        sample["peak_rss"] = max(s["peak_rss"] for s in samples)
        if keep:
            self.samples.append(sample)

    def close(self):
        self.signal(signal.SIGCONT)
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.kill()
            process.wait()

    def median(self, key):
        return statistics.median(s[key] for s in self.samples)


def llmtrain(build, preset, dtype, ranks, threads, *settings, name="llmtrain"):
    program = [f"{build}/bin/llmtrain-bench", "--interactive", f"--model.preset={preset}",
               f"--batch.global={BATCH[preset] * ranks}", f"--run.threads={threads}",
               f"--precision.dtype={dtype}", "--train.steps=1000000", *settings]
    binding = ["--bind-to", "core"] if ranks > 1 else ["--bind-to", "none"]
    command = ["mpirun", "-np", str(ranks), *binding, *program]
    return Worker(name, [command], [{}])


def torch(preset, dtype, ranks, threads, *flags, name):
    command = [sys.executable, str(HERE / "torch_step.py"), "--preset", preset, "--dtype", dtype,
               "--threads", str(threads), *flags]
    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    world = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    return Worker(name, [command] * ranks, [dict(world, RANK=str(r)) for r in range(ranks)])


def measure(workers, pairs):
    for worker in workers:
        for _ in range(WARM_UP):
            worker.step(keep=False)
    for _ in range(pairs):
        for worker in workers:
            worker.step()


def row(build, preset, dtype, layout, with_torch, pairs):
    ranks, threads = LAYOUTS[layout]
    workers = [llmtrain(build, preset, dtype, ranks, threads)]
    if with_torch:
        workers += [torch(preset, dtype, ranks, threads, name="eager"),
                    torch(preset, dtype, ranks, threads, "--compile", name="compiled")]
    try:
        measure(workers, pairs)
    finally:
        for worker in workers:
            worker.close()
    ours = workers[0]
    result = {"preset": preset, "dtype": dtype, "layout": layout, "pairs": pairs}
    for key in ("tokens_per_second", "ms", "ms_forward_backward", "ms_optimizer",
                "ms_communication", "peak_share"):
        result[key] = ours.median(key)
    result["peak_rss_mib"] = ours.median("peak_rss") / 2**20
    for peer in workers[1:]:
        ratios = sorted(b["ms"] / a["ms"] for a, b in zip(ours.samples, peer.samples))
        result[peer.name] = {"ms": peer.median("ms"), "ratio": statistics.median(ratios),
                             "lowest": ratios[0], "highest": ratios[-1],
                             "peak_rss_mib": peer.median("peak_rss") / 2**20}
    return result


def scaling(build, preset, pairs):
    """Two ranks of a thread against one of two, and the ZeRO stages against stage 0."""
    workers = [llmtrain(build, preset, "f32", 1, 2, f"--batch.global={2 * BATCH[preset]}",
                        name="1x2")]
    workers += [llmtrain(build, preset, "f32", 2, 1, f"--parallel.zero={zero}", name=f"zero {zero}")
                for zero in range(4)]
    try:
        measure(workers, pairs)
    finally:
        for worker in workers:
            worker.close()

    def share(worker, reference):
        return statistics.median(b["ms"] / a["ms"]
                                 for a, b in zip(worker.samples, reference.samples))

    result = {"preset": preset, "2x1 of 1x2": share(workers[1], workers[0])}
    for worker in workers[2:]:
        result[f"{worker.name} of zero 0"] = share(worker, workers[1])
    return result


def text(result):
    line = (f"{result['preset']:<12}{result['dtype']:<6}{result['layout']:<5}"
            f"{result['tokens_per_second']:9.0f}{result['ms']:10.1f}{result['ms_optimizer']:8.1f}"
            f"{result['ms_communication']:8.1f}{100 * result['peak_share']:7.0f} %"
            f"{result['peak_rss_mib']:8.0f}")
    for peer in ("eager", "compiled"):
        if peer in result:
            p = result[peer]
            line += (f"   {p['ratio']:5.2f} ({p['lowest']:.2f}-{p['highest']:.2f})"
                     f"{p['peak_rss_mib']:7.0f}")
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--presets", nargs="+", choices=BATCH, default=list(BATCH))
    parser.add_argument("--dtypes", nargs="+", choices=["f32", "bf16"], default=["f32", "bf16"])
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--without-torch", action="store_true")
    parser.add_argument("--scaling", nargs="*", choices=BATCH, default=["gpt2-124m"])
    parser.add_argument("--json", help="also written there")
    a = parser.parse_args()
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        os.environ.setdefault(name, "1")
    with_torch = not a.without_torch and importlib.util.find_spec("torch") is not None
    print("preset      dtype ranks  tok/s   ms/step   optim    comm   of peak     MiB"
          + ("   times as fast as eager, its MiB; as compiled, its MiB" if with_torch
             else "   (no PyTorch to compare with)"), flush=True)
    results = {"rows": [], "scaling": []}
    for dtype in a.dtypes:
        for preset in a.presets:
            for layout in a.layouts:
                result = row(a.build, preset, dtype, layout, with_torch, a.pairs)
                results["rows"].append(result)
                print(text(result), flush=True)
    for preset in a.scaling:
        result = scaling(a.build, preset, a.pairs)
        results["scaling"].append(result)
        print(", ".join(f"{k} {v:.1%}" if isinstance(v, float) else v
                        for k, v in result.items()), flush=True)
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
