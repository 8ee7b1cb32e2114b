#!/usr/bin/env python3
"""Files that ask for more memory than they have, of every format that mt-convert reads.

Each is a few MiB of what its format lets grow most when it is read: values that take two bytes of a pickle, chunks that
share all they are, archives that are packed a thousandfold, JSON of single digits.  `mt-convert ls` (of a model's folder
`verify`) must refuse it with exit code 65 (66 where it names files that are not there), or list what there is, within 2
seconds and with a peak of memory, its pages among it, of no more than the file and 64 MiB.

Run:  scripts/hostile-files.py BIN [--mebibytes N]...      BIN holds mt-convert; of about 1, 8 and 64 MiB each
Exit codes: 0 all are, 1 one was not.
"""
import argparse
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MODULE = "torch.distributed.checkpoint.metadata"


# --- Pickles --------------------------------------------------------------------------------------

def number(value):
    return struct.pack("<I", value)


def text(value):
    return b"X" + number(len(value)) + value.encode()


def name(module, of):
    return f"c{module}\n{of}\n".encode()


def made(of, fields, module=MODULE):
    return name(module, of) + b")\x81}(" + b"".join(text(key) + value for key, value in fields.items()) + b"ub"


def shape(*extents):
    return name("torch", "Size") + b"(" + b"".join(b"K" + bytes([extent]) for extent in extents) + b"t\x85R"


def batches(item, count):
    """A list that is appended to by a thousand."""
    return b"\x80\x04]" + (b"(" + item * 1000 + b"e") * (count // 1000 + 1) + b"."


def pickles(size):
    """Streams, by what repeats in them."""
    def times(bytes_each):
        return size // bytes_each

    yield "numbers to remember", b"\x80\x02N" + b"".join(b"r" + number(i) for i in range(times(5))) + b"."
    yield "the same as lines", b"\x80\x02N" + b"".join(b"p%d\n" % i for i in range(times(9))) + b"."
    yield "what is memoized", b"\x80\x04N" + b"\x94" * size + b"."
    yield "marks", b"\x80\x02" + b"(" * size + b"."
    yield "one string", b"\x80\x02X" + number(size) + b"a" * size + b"."
    yield "encoded again", (b"\x80\x02c_codecs\nencode\nq\0000X" + number(size // 8) + b"a" * (size // 8) +
                            b"q\x010X\x06\0\0\0latin1q\x02" + b"h\0h\x01h\x02\x86R" * 60)
    for what, item in (("tuples", b")"), ("lists", b"]"), ("dicts", b"}"), ("nothing", b"N"), ("persistent ids", b"NQ"),
                       ("classes", b"c\n\n"), ("short strings", b"\x8c\0"), ("strings", b"\x8c\x10" + b"a" * 16),
                       ("objects", b"cx\ny\n)R"), ("objects with items", b"cx\ny\n)\x81NNs"),
                       ("objects with states", b"cx\ny\n)\x81Nb")):
        yield what, batches(item, times(len(item)))


def metadata(tensors, places):
    """The index of a distributed checkpoint."""
    return (b"\x80\x02" + name(MODULE, "Metadata") + b")\x81}(" + text("state_dict_metadata") + b"}(" + tensors + b"u" +
            text("storage_data") + b"}(" + places + b"uub.")


def index_of(key, *offset):
    return made("MetadataIndex", {"fqn": key, "offset": shape(*offset)})


def indexes(size):
    place = made("_StorageInfo", {"relative_path": text("__0_0.distcp"), "offset": b"K\0", "length": b"K\x09"},
                 "torch.distributed.checkpoint.filesystem")
    properties = name(MODULE, "TensorProperties") + b")\x81(" + name("torch", "float32") + b"tb"
    chunk = made("ChunkStorageMetadata", {"offsets": shape(0), "sizes": shape(0)})

    def tensor(chunks):
        return made("TensorStorageMetadata", {"properties": properties, "size": shape(0), "chunks": b"]" + chunks})

    empty = b"(" + chunk + b"q\x01e" + (b"(" + b"h\x01" * 1000 + b"e") * (size // 2000)
    yield "empty chunks", metadata(text("k") + tensor(empty), index_of(text("k"), 0) + place)
    yield "tensors that are one", metadata(
        text("k") + tensor(b"(" + chunk + b"q\x01" + b"h\x01" * 1000 + b"e") + b"q\x02" +
        b"".join(text(str(i)) + b"h\x02" for i in range(size // 7)),
        b"".join(index_of(text(key), 0) + place for key in ["k", *map(str, range(1000))]))
    yield "a long name", metadata(text("k") + tensor(b"(" + chunk + b"e"),
                                  index_of(text("a" * (size // 2)) + b"q\x05", 0) + place +
                                  b"".join(index_of(b"h\x05", i) + place for i in range(1, 200)))
    count = size // 400
    yield "objects without files", metadata(
        b"".join(text(f"layer.{i}.weight") + made("BytesStorageMetadata", {}) for i in range(count)),
        b"".join(made("MetadataIndex", {"fqn": text(f"layer.{i}.weight"), "offset": b"N"}) + place for i in range(count)))


# --- Files ----------------------------------------------------------------------------------------

def archive(path, content, compression=zipfile.ZIP_STORED, more=()):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("a/data.pkl", content)
        file.writestr("a/version", "3\n")
        for record, bytes_of in more:
            file.writestr(record, bytes_of)


def torch_files(path, size):
    storage = (b"(" + text("storage") + name("torch", "FloatStorage") + text("0") + text("cpu") + b"K\x04tQ")
    tensor = (b"\x80\x02" + name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage + b"K\0K\x04\x85K\x01\x85\x89" +
              name("collections", "OrderedDict") + b")RtRq\x010")
    data = [("a/data/0", b"\0" * 16)]
    archive(path, tensor + b"]" + (b"(" + b"h\x01" * 1000 + b"e") * (size // 2000) + b".", more=data)
    yield "one tensor in a list"
    keys = (b"".join(text(str(i + j)) + b"h\x01" for j in range(1000)) for i in range(0, size // 14, 1000))
    archive(path, tensor + b"}" + b"".join(b"(" + batch + b"u" for batch in keys) + b".", more=data)
    yield "one tensor by many names"
    archive(path, tensor + b"}" + text("a" * (size // 2)) + b"](" + b"h\x01" * 5000 + b"es.", more=data)
    yield "a long name above many"
    archive(path, b"N.", more=((f"a/{i}", b"") for i in range(size // 120)))
    yield "records"
    archive(path, b"N.", more=((f"a/{i}" + "x" * 65000, b"") for i in range(size // 140000)))
    yield "records of long names"
    for what, content in (("packed string", b"X" + number(40 << 20) + b"a" * (40 << 20)),
                          ("packed tuples", b"]" + (b"(" + b")" * 1000 + b"e") * (40 << 10))):
        archive(path, b"\x80\x02" + content + b".", zipfile.ZIP_DEFLATED)
        yield what


def headers(size):
    """Of safetensors."""
    yield "brackets", b'{"a":' + b"[" * size
    yield "numbers", b'{"a":[' + b"1," * (size // 2) + b"1]}"
    yield "strings", b'{"a":[' + b'"",' * (size // 3) + b"1]}"
    yield "objects", b'{"a":[' + b"{}," * (size // 3) + b"1]}"
    yield "one string", b'{"' + b"a" * size + b'":1}'
    yield "metadata", b'{"__metadata__":{' + b",".join(b'"%d":""' % i for i in range(size // 11)) + b"}}"
    yield "tensors", b"{" + b",".join(b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i
                                      for i in range(size // 60)) + b"}"


def gguf_files():
    """As many things as there may be, with short names and with long ones."""
    def counted(content):
        return struct.pack("<Q", len(content)) + content

    for length in (1, 1000):
        yield f"values, names of {length}", (0, 1 << 14), b"".join(
            counted(b"%d" % i + b"k" * length) + struct.pack("<IB", 7, 1) for i in range(1 << 14))
    for length in (1, 240):
        yield f"tensors, names of {length}", (1 << 15, 0), b"".join(
            counted(b"%d" % i + b"k" * length) + struct.pack("<IQIQ", 1, 0, 0, 0) for i in range(1 << 15))


def of_all_formats(folder, size):
    """Makes a file or folder after another, and yields what it is called, its path, and the verb."""
    for what, stream in [*pickles(size), *indexes(size)]:
        path = folder / "checkpoint"
        path.mkdir()
        (path / ".metadata").write_bytes(stream)
        yield f".metadata: {what}", path, "ls"
    for what, stream in pickles(size):
        archive(folder / "x.pt", stream)
        yield f"torch: {what}", folder / "x.pt", "ls"
    for what in torch_files(folder / "x.pt", size):
        yield f"torch: {what}", folder / "x.pt", "ls"
    for what, header in headers(size):
        (folder / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
        yield f"safetensors: {what}", folder / "x.safetensors", "ls"
    for what, counts, content in gguf_files():
        (folder / "x.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, *counts) + content + b"\0" * 32)
        yield f"gguf: {what}", folder / "x.gguf", "ls"
    numbers = b'{"weight_map":[' + b"1," * (size // 2) + b"1]}"
    for what, content in (("numbers", numbers),
                          ("names", b'{"weight_map":{' + b",".join(b'"%d":"f"' % i for i in range(size // 12)) + b"}}")):
        (folder / "x.json").write_bytes(content)
        yield f"index: {what}", folder / "x.json", "ls"
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        path = folder / "model"
        shutil.copytree(REPOSITORY / "testdata/models/llama", path)
        (path / file).write_bytes(numbers)
        yield f"{file}: numbers", path, "verify"


# --- Reading them ---------------------------------------------------------------------------------

def size_of(path):
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def measure(program, verb, path):
    """Exit code, seconds, and the peak in bytes: of a child of a small process, which does not inherit ours."""
    start = time.monotonic()
    result = subprocess.run(["/usr/bin/env", "python3", "-c", "import os, resource, sys\n"
                             "child = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])\n"
                             "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
                             "print(child, peak, file=sys.stderr)", program, verb, str(path)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120)
    code, peak = map(int, result.stderr.splitlines()[-1].split())
    return code, time.monotonic() - start, peak * 1024, result.stderr.splitlines()[:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--mebibytes", type=int, action="append")
    arguments = parser.parse_args()
    program = os.path.join(os.path.abspath(arguments.bin), "mt-convert")
    count = failed = 0
    worst = 0.0
    for mebibytes in arguments.mebibytes or [1, 8, 64]:
        with tempfile.TemporaryDirectory() as folder:
            for what, path, verb in of_all_formats(pathlib.Path(folder), mebibytes << 20):
                size = size_of(path)
                code, seconds, peak, lines = measure(program, verb, path)
                count += 1
                worst = max(worst, (peak - size) / 2**20)
                if code not in (0, 65, 66) or (code != 0) != (len(lines) == 1) or seconds > 2 or peak > size + (64 << 20):
                    failed += 1
                    print(f"{what}, {size / 2**20:.1f} MiB: exit code {code}, {seconds:.1f} s, peak {peak / 2**20:.1f} MiB: "
                          f"{' '.join(lines)[-200:]}")
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    print(f"{count} files, {failed} failed; the largest peak is the file and {worst:.1f} MiB")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
