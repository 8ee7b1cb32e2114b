#!/usr/bin/env python3
"""replay-save.py: whatever moment a save is cut off at, the old checkpoint is there or the new one.

  scripts/replay-save.py [--bin DIR] [--every N]

Trains a tiny model, saves a checkpoint of it, and traces the save of a second one (strace).  After
each prefix of the calls that change the folder, three states that a machine can come up with are
made again:
  killed    all that was called took place
  torn      names changed as was called, but of the files only what was synced is there
  lost      only what was synced took place: data of files, and names of synced folders
In each, mt-convert verify must find a whole checkpoint, the old or the new one, and never the old
one after the new one; when the save has ended it must be the new one in all.
  --bin DIR    where the programs are (build/release/cmd)
  --every N    only every N-th prefix, and the last (1)
Exit codes: 0 all is well, 1 a state without a checkpoint, 64 usage, 66 no programs, 69 no strace.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
CALLS = "openat,mkdir,mkdirat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,rmdir,ftruncate"
TRACKER = "latest_checkpointed_iteration.txt"


def fail(code, text):
    print(f"replay-save: {text}", file=sys.stderr)
    sys.exit(code)


class Folder:
    """Files and folders below a root, path -> (serial number, content or None), as they are now; the data
    of files, by serial number, and the names in folders, by the folder's, as they were when last synced."""

    def __init__(self, root):
        self.now, self.synced_data, self.synced_names = {}, {}, {}
        self.serial = 0
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            self.now[name] = self.new(None if path.is_dir() else path.read_bytes())
        for name, (serial, content) in self.now.items():
            if content is None:
                self.sync_names(name)
            else:
                self.synced_data[serial] = bytes(content)
        self.sync_names(".")

    def new(self, content):
        self.serial += 1
        return [self.serial, bytearray(content) if content is not None else None]

    def apply(self, call, paths, data, arguments):
        first = paths[0]
        if call == "openat":
            if "O_CREAT" in arguments and first not in self.now:
                self.now[first] = self.new(b"")
            elif "O_TRUNC" in arguments and first in self.now:
                self.now[first][1].clear()
        elif call in ("mkdir", "mkdirat"):
            self.now[first] = self.new(None)
        elif call == "write":
            self.now[first][1].extend(data)
        elif call == "pwrite64":
            offset = int(arguments.rsplit(",", 1)[1].strip(" )"))
            content = self.now[first][1]
            content.extend(b"\0" * max(0, offset + len(data) - len(content)))
            content[offset : offset + len(data)] = data
        elif call == "ftruncate":
            length = int(arguments.rsplit(",", 1)[1].strip(" )"))
            content = self.now[first][1]
            content[:] = content[:length].ljust(length, b"\0")
        elif call in ("fsync", "fdatasync"):
            serial, content = self.now.get(first, (0, None))
            if content is not None:
                self.synced_data[serial] = bytes(content)
            else:
                self.sync_names(first)
        elif call.startswith("rename"):
            self.rename(first, paths[1], "RENAME_EXCHANGE" in arguments)
        elif call in ("unlink", "unlinkat", "rmdir"):
            self.now.pop(first, None)
        else:
            fail(1, f"{call}: not understood")

    def rename(self, source, target, exchange):
        moved = {n: e for n, e in self.now.items() if n == source or n.startswith(source + "/")}
        others = {n: e for n, e in self.now.items() if n == target or n.startswith(target + "/")}
        for name in list(moved) + list(others):
            del self.now[name]
        for name, entry in moved.items():
            self.now[target + name[len(source) :]] = entry
        if exchange:
            for name, entry in others.items():
                self.now[source + name[len(target) :]] = entry

    def sync_names(self, folder):
        inside = lambda name: (os.path.dirname(name) or ".") == folder
        serial = self.now[folder][0] if folder != "." else 0
        self.synced_names[serial] = {
            os.path.basename(name): (entry[0], entry[1] is None) for name, entry in self.now.items() if inside(name)
        }

    def state(self, kind):
        if kind == "killed":
            return {name: None if content is None else bytes(content) for name, (_, content) in self.now.items()}
        if kind == "torn":
            synced = self.synced_data
            return {n: None if content is None else synced.get(serial, b"") for n, (serial, content) in self.now.items()}
        state = {}
        self.collect(0, "", state)
        return state

    def collect(self, folder, prefix, state):
        for name, (serial, is_folder) in self.synced_names.get(folder, {}).items():
            state[prefix + name] = None if is_folder else self.synced_data.get(serial, b"")
            if is_folder:
                self.collect(serial, prefix + name + "/", state)


def decoded(text):
    return bytes(int(pair, 16) for pair in re.findall(r"\\x([0-9a-f]{2})", text))


def calls_of(trace, root):
    """(call, paths below root, data, arguments) of each that succeeded, as they ended."""
    begun = {}
    for line in trace.read_text().splitlines():
        pid, text = line.split(None, 1)
        if text.endswith("<unfinished ...>"):
            begun[pid] = text[: -len("<unfinished ...>")]
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
        if resumed:
            text = begun.pop(pid, "") + resumed.group(1)
        match = re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", text)
        if not match or match.group(3).startswith("-"):
            continue
        call, arguments = match.group(1), match.group(2)
        strings = re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)
        descriptor = re.match(r"\d+<([^>]*)>", arguments)
        data = b""
        if call in ("write", "pwrite64", "fsync", "fdatasync", "ftruncate"):
            if not descriptor:
                continue
            paths, data = [decoded(descriptor.group(1)).decode()], decoded(strings[0]) if strings else b""
            data = data[: int(match.group(3))] if call != "fsync" else b""
        else:
            base = descriptor.group(1) if descriptor else ""
            base = decoded(base).decode() if "\\x" in base else base
            paths = [os.path.join(base, decoded(s).decode()) for s in strings]
        below = [os.path.relpath(os.path.join(root.parent, p), root) for p in paths]
        if below and not below[0].startswith(".."):
            yield call, below, data, arguments


def check(state, scratch, convert):
    """The iteration of the checkpoint in a state; a text if there is none that is whole."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for name in sorted(state):
        path = scratch / name
        if state[name] is None:
            path.mkdir()
        else:
            path.write_bytes(state[name])
    done = subprocess.run([convert, "verify", scratch], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    return int((scratch / TRACKER).read_text())


def main():
    parser = argparse.ArgumentParser(usage="replay-save.py [--bin DIR] [--every N]")
    parser.add_argument("--bin", default=REPOSITORY / "build/release/cmd")
    parser.add_argument("--every", type=int, default=1)
    try:
        options = parser.parse_args()
    except SystemExit as end:
        sys.exit(64 if end.code else 0)
    programs = pathlib.Path(options.bin).resolve()
    if not (programs / "mt-pretrain").exists() or not (programs / "mt-convert").exists():
        fail(66, "no programs; see --bin")
    if not shutil.which("strace"):
        fail(69, "no strace; on Debian: scripts/setup strace")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder).resolve()
        sys.exit(replay(work, programs, options.every))


def replay(work, programs, every):
    os.environ["MT_DEVICE"] = "cpu"
    vocabulary = REPOSITORY / "testdata/gpt2_bpe"
    subprocess.run(
        [programs / "mt-preprocess", "--quiet", "--input", REPOSITORY / "testdata/stories/stories.jsonl", "--output-prefix",
         work / "data", "--append-eod", "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", vocabulary / "vocab.json",
         "--merge-file", vocabulary / "merges.txt"], check=True)  # fmt: skip
    root = work / "ckpt"
    train = [programs / "mt-pretrain", "--num-layers", "1", "--hidden-size", "16", "--num-attention-heads", "2", "--seq-length",
             "16", "--max-position-embeddings", "16", "--micro-batch-size", "2", "--global-batch-size", "2", "--lr", "0.01",
             "--eval-iters", "0", "--data-path", work / "data_text_document", "--split", "8,1,1", "--threads", "1", "--quiet",
             "--use-distributed-optimizer", "--ranks", "2", "--save", root, "--load", root, "--override-opt_param-scheduler"]  # fmt: skip
    subprocess.run([*train, "--global-batch-size", "4", "--train-iters", "2"], check=True)
    folder = Folder(root)
    trace = work / "trace"
    subprocess.run(["strace", "-f", "-y", "-xx", "-s", "100000000", "-qq", "-o", trace, "-e", f"trace={CALLS}", *train,
                    "--global-batch-size", "4", "--train-iters", "3"], check=True)  # fmt: skip
    calls = list(calls_of(trace, root))
    checked, newest, seen = 0, {"killed": 2, "torn": 2, "lost": 2}, {}
    for number in range(len(calls) + 1):
        if number > 0:
            folder.apply(*calls[number - 1])
        last = number == len(calls)
        if number % every and not last:
            continue
        for kind in newest:
            state = folder.state(kind)
            key = tuple(sorted((n, None if c is None else hash(c)) for n, c in state.items() if n != "run.jsonl"))
            if key not in seen:
                seen[key] = check(state, work / "state", programs / "mt-convert")
            found = seen[key]
            checked += 1
            where = f"{kind} after {number} of {len(calls)} calls ({calls[number - 1][0] if number else 'none'})"
            if found not in (2, 3):
                fail(1, f"{where}: {found}")
            if found < newest[kind] or (last and found != 3):
                fail(1, f"{where}: iteration {found}")
            newest[kind] = found
    print(f"replay-save: {len(calls)} calls, {checked} states, {len(seen)} of them different, all with a whole checkpoint")
    return 0


if __name__ == "__main__":
    main()
