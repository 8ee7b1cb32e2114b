#!/usr/bin/env python3
"""How long mt-convert takes beside cp of the same bytes, how long its ls takes, and how much memory.

Draws a Llama of 13.5 GB in bf16 with --mock (--layers: a smaller one).  Lists it, with an empty cache and again.
Then, by turns, copies a checkpoint with cp and sync, and converts it, which syncs what it writes: torch_dist to
Hugging Face's format and back, and, once, torch_dist to torch.  Prints seconds, cp's over ours, and the peak of the
process's memory, pages of mapped files among it.  The folder needs room for three such checkpoints.

Command: python3 scripts/bench-convert.py --bin build/release/cmd --folder /tmp
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time

CONFIG = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
          "num_key_value_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
          "tie_word_embeddings": False, "torch_dtype": "bfloat16"}


def sync():
    subprocess.run(["sync", "-f", "."], check=True)


def timed(*command, synced=False):
    """Seconds, to the end of a sync if asked for, and the process's resource usage."""
    sync()
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"{command}: status {status}"
    if synced:
        sync()
    return time.perf_counter() - start, usage


def files_of(folder):
    return [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]


def forget(folder):
    for path in files_of(folder):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(folder):
    block = bytearray(1 << 24)
    for path in files_of(folder):
        with open(path, "rb", 0) as file:
            while file.readinto(block):
                pass


def list_times(convert, folder):
    times = []
    for cold in (True, True, False, False, False):
        if cold:
            forget(folder)
        seconds, usage = timed(convert, "ls", folder)
        times.append(f"{'cold' if cold else 'warm'} {1000 * seconds:.0f} ms")
    settings, _ = timed(convert, "ls", "--settings", folder)
    print(f"ls {folder}: {', '.join(times)}, --settings {1000 * settings:.0f} ms, "
          f"peak {usage.ru_maxrss / 1024:.0f} MiB", flush=True)


def beside_cp(convert, source, target, *options):
    read(source)
    copying, _ = timed("cp", "-r", source, "copy", synced=True)
    shutil.rmtree("copy")
    seconds, usage = timed(convert, "--quiet", *options, source, target, synced=True)
    print(f"{source} to {target}: cp {copying:.2f} s, mt-convert {seconds:.2f} s, {copying / seconds:.2f} of cp's "
          f"speed, {usage.ru_utime + usage.ru_stime:.1f} s of CPU, peak {usage.ru_maxrss / 1024:.0f} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder with mt-convert")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="on the disk to be measured")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    convert = os.path.abspath(os.path.join(options.bin, "mt-convert"))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        os.chdir(folder)
        os.mkdir("config")
        with open("config/config.json", "w", encoding="utf-8") as file:
            json.dump(CONFIG | {"num_hidden_layers": options.layers}, file)
        seconds, usage = timed(convert, "--quiet", "--mock", "config", "torch_dist")
        size = sum(os.path.getsize(path) for path in files_of("torch_dist"))
        largest = 2 * CONFIG["vocab_size"] * CONFIG["hidden_size"] / 2**20
        print(f"{size / 1e9:.2f} GB drawn in {seconds:.0f} s, peak {usage.ru_maxrss / 1024:.0f} MiB; its largest tensor "
              f"has {largest:.0f} MiB", flush=True)
        list_times(convert, "torch_dist")
        for number in range(options.rounds):
            beside_cp(convert, "torch_dist", "hf", "--saver", "hf")
            if number == 0:
                list_times(convert, "hf")
            beside_cp(convert, "hf", "back")
            shutil.rmtree("back")
            shutil.rmtree("hf")
        beside_cp(convert, "torch_dist", "torch", "--ckpt-format", "torch")
        os.chdir("/")


if __name__ == "__main__":
    main()
