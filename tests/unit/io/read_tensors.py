"""read_tensors.py CHECKPOINT OUT: writes each tensor of index.h5 as OUT/<path with dots>,
raw little-endian floats, as h5py reads it; with --craft KIND SHARD changes a shard instead."""

import os
import sys

import h5py
import numpy


def export(checkpoint, out):
    with h5py.File(os.path.join(checkpoint, "index.h5"), "r") as index:
        def visit(name, item):
            if isinstance(item, h5py.Dataset) and name.split("/")[0] in (
                    "weight", "exp_avg", "exp_avg_sq"):
                shape = "x".join(map(str, item.shape))
                path = os.path.join(out, name.replace("/", ".") + "." + shape)
                item[...].astype("<f4", casting="equiv").tofile(path)
        index.visititems(visit)
        assert index["pieces"].dtype["tensor"].kind == "S"
        assert index["progress/step"][()] == 7
        print(repr(float(index["progress/last_loss"][()])))
        print(index["provenance/layout"][()].decode())


def craft(kind, shard):
    name = "weight/one/weight"
    with h5py.File(shard, "r+", libver=("v110", "v110")) as file:
        attributes = dict(file[name].attrs)
        del file[name]
        if kind == "external-link":
            file[name] = h5py.ExternalLink("/etc/elsewhere.h5", "/x")
        elif kind == "soft-link":
            file[name] = h5py.SoftLink("/weight/cube/weight")
        elif kind == "external-storage":
            file.create_dataset(name, (1,), "<f4", external=[("/etc/hostname", 0, 4)])
        elif kind == "chunked":
            file.create_dataset(name, (1,), "<f4", chunks=(1,), compression="gzip")
        elif kind == "double":
            file.create_dataset(name, (1,), "<f8")
        elif kind == "two-dimensions":
            file.create_dataset(name, (1, 1), "<f4")
        elif kind == "virtual":
            layout = h5py.VirtualLayout((1,), "<f4")
            layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (1,))
            file.create_virtual_dataset(name, layout)
        elif kind == "huge":
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
            space = h5py.h5s.create_simple((1 << 44,))
            h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F32LE, space, plist)
        else:
            raise ValueError(kind)
        if not kind.endswith("link"):
            for key, value in attributes.items():
                file[name].attrs[key] = value


if sys.argv[1] == "--craft":
    craft(sys.argv[2], sys.argv[3])
else:
    export(sys.argv[1], sys.argv[2])
