#!/usr/bin/env python3
"""Compares our checkpoints with PyTorch and Megatron-Core, in both directions.

Needs from PyPI: torch (tried with 2.15.0), numpy, megatron-core 0.12.1 and psutil.

  scripts/check-torch-checkpoint.py check CKPT_TOOL
      CKPT_TOOL (BUILD/tests/ckpt/ckpt_tool) writes a checkpoint; PyTorch's distributed checkpoint, its
      weights-only unpickler, zipfile and Megatron-Core open it and must find the elements that CKPT_TOOL
      finds.  Then PyTorch writes one with two processes, and CKPT_TOOL must find the same elements.
  scripts/check-torch-checkpoint.py golden FOLDER
      Writes what tests/ckpt/golden_test.cpp reads (testdata/ckpt): FOLDER/dcp by two processes of PyTorch,
      FOLDER/mcore by four of Megatron-Core, FOLDER/object.pt by torch.save, FOLDER/deflated.pt the same
      repacked with compression, FOLDER/pickles.pt the same in the form that PyTorch had before 1.6.
"""
import argparse
import io
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
import zipfile

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint import metadata as M

warnings.filterwarnings("ignore")
numpy.product = numpy.prod  # gone from numpy 2, which Megatron-Core 0.12.1 does not know


def fail(*words):
    sys.exit("check-torch-checkpoint: " + " ".join(map(str, words)))


def bits(tensor):
    """The elements' bytes, so that NaNs compare too."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def tool_dump(tool, folder):
    """{key: tensor} as CKPT_TOOL reads a distributed checkpoint."""
    found = {}
    with tempfile.TemporaryDirectory() as out:
        listing = subprocess.run([tool, "dump", folder, out], check=True, capture_output=True, text=True)
        for line in listing.stdout.splitlines():
            number, dtype, extents, key = line.split(" ", 3)
            shape = [int(e) for e in extents.split(",") if e]
            raw = bytearray(open(f"{out}/{number}.bin", "rb").read())
            dtype = getattr(torch, dtype)
            flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
            found[key] = flat.reshape(shape)
    return found


def load_all(folder):
    """{key: tensor or object} as PyTorch reads one."""
    reader = dcp.FileSystemReader(folder)
    metadata = reader.read_metadata()
    state = {}
    for key, entry in metadata.state_dict_metadata.items():
        tensor = isinstance(entry, M.TensorStorageMetadata)
        state[key] = torch.empty(entry.size, dtype=entry.properties.dtype) if tensor else None
    dcp.load(state, storage_reader=reader)
    return metadata, state


def check_items(folder, metadata):
    """Each item is an archive that the weights-only unpickler takes, its payloads stored and aligned."""
    for index, info in metadata.storage_data.items():
        with open(f"{folder}/{info.relative_path}", "rb") as file:
            file.seek(info.offset)
            item = file.read(info.length)
        value = torch.load(io.BytesIO(item), weights_only=True)
        chunks = getattr(metadata.state_dict_metadata[index.fqn], "chunks", None)
        if chunks is not None:
            size = next(c.sizes for c in chunks if c.offsets == index.offset)
            if value.shape != size:
                fail(index, "has shape", value.shape, "expected", size)
        elif value != [None]:
            fail(index, "is", value)
        check_zip(item)


def check_zip(archive):
    with zipfile.ZipFile(io.BytesIO(archive)) as z:
        if z.testzip() is not None:
            fail("a wrong checksum in", z.testzip())
        for entry in z.infolist():
            at = entry.header_offset
            lengths = [int.from_bytes(archive[at + n : at + n + 2], "little") for n in (26, 28)]
            if (at + 30 + sum(lengths)) % 64 or entry.compress_type != zipfile.ZIP_STORED:
                fail(entry.filename, "is not stored at a multiple of 64")


def records_of(archive):
    """Names, flags, methods and versions of an archive's records, in order."""
    with zipfile.ZipFile(io.BytesIO(archive)) as z:
        return [(e.filename, e.flag_bits, e.compress_type, e.extract_version) for e in z.infolist()]


def saved(value):
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def check_ours(tool):
    with tempfile.TemporaryDirectory() as save:
        subprocess.run([tool, "make", save, "1000"], check=True)
        folder = f"{save}/iter_0001000"
        ours = tool_dump(tool, folder)
        metadata, theirs = load_all(folder)
        for key, tensor in ours.items():
            if tensor.dtype != theirs[key].dtype or bits(tensor) != bits(theirs[key]):
                fail(key, "differs")
        print(f"PyTorch {torch.__version__} finds the same {len(ours)} tensors")
        check_items(folder, metadata)
        with open(f"{folder}/.metadata", "rb") as file:
            if type(pickle.load(file)) is not M.Metadata:
                fail(".metadata has another class")
        first = next(i for k, i in metadata.storage_data.items() if k.fqn == "long")
        with open(f"{folder}/{first.relative_path}", "rb") as file:
            file.seek(first.offset)
            records = records_of(file.read(first.length))
        if records != records_of(saved(theirs["long"])):
            fail("records", records, "expected", records_of(saved(theirs["long"])))
        print(f"{len(metadata.storage_data)} items: weights_only, stored, aligned, records as torch.save's")
        torch.serialization.add_safe_globals([argparse.Namespace])
        common = torch.load(f"{folder}/common.pt", weights_only=True)
        if common["iteration"] != 1000 or common["args"].params_dtype != torch.bfloat16:
            fail("common.pt is", common)
        with open(f"{folder}/common.pt", "rb") as file:
            check_zip(file.read())
        print("common.pt: weights_only, stored, aligned")
        check_with_megatron(folder, theirs)


def check_with_megatron(folder, expected):
    start(0, 1, "29611")
    from megatron.core import dist_checkpointing as mcore

    if mcore.load_common_state_dict(folder)["checkpoint_version"] != 3.0:
        fail("Megatron-Core reads another common state")
    key = "decoder.layers.mlp.linear_fc2.weight"
    request = {i: mcore.ShardedTensor.from_rank_offsets(key, torch.empty(4, 5), (0, i, 3), prepend_axis_num=1)
               for i in range(3)}
    moment = "optimizer.state.exp_avg." + key  # as a distributed optimizer asks for it
    for i in range(3):
        request[f"m{i}"] = mcore.ShardedTensor.from_rank_offsets_flat(
            moment, torch.empty(20), (4, 5), (0, i, 3), prepend_axis_num=1, flattened_range=slice(0, 20))
    found = mcore.load(request, folder)
    for i in range(3):
        if bits(found[i]) != bits(expected[key][i]):
            fail("Megatron-Core finds another layer", i)
        if bits(found[f"m{i}"]) != bits(expected[moment][i]):
            fail("Megatron-Core finds another moment of layer", i)
    dist.destroy_process_group()
    print("Megatron-Core finds the same stacked layers, and the reformulated moments across its own cuts")


def start(rank, size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=size)


def golden_tensor(number, shape, dtype):
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 3 + number).to(dtype).reshape(shape)


def write_dcp(rank, folder):
    """Two processes: rows cut unevenly (3 and 2 of 5), a replicated one, objects."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    start(rank, 2, "29612")
    mesh = init_device_mesh("cpu", (2,))
    state = {
        "rows": distribute_tensor(golden_tensor(1, (5, 3), torch.float32), mesh, [Shard(0)]),
        "columns": distribute_tensor(golden_tensor(2, (2, 4), torch.bfloat16), mesh, [Shard(1)]),
        "same": distribute_tensor(golden_tensor(3, (4,), torch.int64), mesh, [Replicate()]),
        "scalar": torch.tensor(7.5, dtype=torch.float64),
        "transposed": golden_tensor(4, (2, 3), torch.float32).t(),
        "nested": {"name": "text", "list": [1, None, 2.5]},
    }
    dcp.save(state, checkpoint_id=folder)
    dist.destroy_process_group()


def write_mcore(rank, folder):
    """Four processes: a stacked matrix cut by columns among two, its moments cut again among two more."""
    start(rank, 4, "29613")
    from megatron.core import dist_checkpointing as mcore

    torch.cuda.synchronize = lambda *_: None  # there is nothing to wait for without a GPU
    torch.cuda.current_device = lambda: "cpu"
    # An argument that newer PyTorch has added and Megatron-Core 0.12.1 does not give.
    filesystem._write_item.__defaults__ = (filesystem.SerializationFormat.TORCH_SAVE,)
    tensor_rank, data_rank = rank % 2, rank // 2
    part = slice(0, 4) if data_rank == 0 else slice(4, 6)
    key = "decoder.layers.mlp.linear_fc2.weight"
    state = {"args": argparse.Namespace(num_layers=2), "iteration": 5, "checkpoint_version": 3.0}
    for layer in range(2):
        cut = ((0, layer, 2), (2, tensor_rank, 2))
        whole = golden_tensor(100 * layer, (3, 4), torch.float32)
        local = whole[:, 2 * tensor_rank : 2 * tensor_rank + 2].contiguous()
        state[f"w{layer}"] = mcore.ShardedTensor.from_rank_offsets(
            key, local, *cut, prepend_axis_num=1, replica_id=data_rank)
        state[f"m{layer}"] = mcore.ShardedTensor.from_rank_offsets_flat(
            "optimizer.state.exp_avg." + key, -local.flatten()[part], (3, 2), *cut, prepend_axis_num=1,
            flattened_range=part)
        state[f"e{layer}"] = mcore.mapping.ShardedObject(
            "decoder.layers.mlp.linear_fc2._extra_state", None, (2,), (layer,), replica_id=rank)
    if rank == 0:
        os.makedirs(folder)
    dist.barrier()
    mcore.save(state, folder)
    dist.destroy_process_group()


def repack(source, target):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry), zipfile.ZIP_DEFLATED)


def write_object(path, archive=True):
    shared = golden_tensor(0, (12,), torch.float32)
    torch.save({
        "view": shared[2:8].reshape(2, 3), "columns": shared.reshape(3, 4)[:, 1:3], "whole": shared,
        "parameter": torch.nn.Parameter(golden_tensor(5, (2,), torch.float32)),
        "unsigned": golden_tensor(6, (3,), torch.int32).to(torch.uint16),
        "state": torch.nn.Linear(2, 1, bias=False).state_dict().__class__(a=torch.zeros(1)),
        "plain": [True, None, -1, 1 << 40, 1 << 80, 2.5, "\u00e9\u4e2d", b"\x00\xff", (1, 2, 3, 4), {1, 2}],
        "dtype": torch.bfloat16, "size": torch.Size([2, 3]), "device": torch.device("cpu"),
        "args": argparse.Namespace(num_layers=2, lr=0.5),
    }, path, _use_new_zipfile_serialization=archive)


def write_goldens(folder):
    os.makedirs(folder, exist_ok=True)
    torch.multiprocessing.spawn(write_dcp, (f"{folder}/dcp",), 2)
    torch.multiprocessing.spawn(write_mcore, (f"{folder}/mcore",), 4)
    write_object(f"{folder}/object.pt")
    repack(f"{folder}/object.pt", f"{folder}/deflated.pt")
    write_object(f"{folder}/pickles.pt", archive=False)


def check_theirs(tool):
    with tempfile.TemporaryDirectory() as folder:
        write_goldens(folder)
        for name in ("dcp", "mcore"):
            ours = tool_dump(tool, f"{folder}/{name}")
            metadata, theirs = load_all(f"{folder}/{name}")
            for key, tensor in ours.items():
                other = theirs[key]
                if key.startswith("optimizer."):  # reformulated: (layers, 1, columns, elements)
                    other = other.reshape(2, 2, 3, 2).transpose(1, 2).reshape(2, 3, 4)
                if bits(tensor) != bits(other):
                    fail(name, key, "differs:", tensor, other)
            tensors = [v for v in metadata.state_dict_metadata.values() if hasattr(v, "size")]
            if len(ours) != len(tensors):
                fail(name, "has", len(tensors), "tensors, found", len(ours))
            print(f"ckpt_tool finds the same {len(ours)} tensors in a checkpoint of {name}")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "golden"):
        fail("usage: check CKPT_TOOL | golden FOLDER")
    if sys.argv[1] == "golden":
        write_goldens(sys.argv[2])
    else:
        check_ours(sys.argv[2])
        check_theirs(sys.argv[2])


if __name__ == "__main__":
    main()
