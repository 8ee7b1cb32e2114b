#!/usr/bin/env python3
"""Damaged images: each is counted by --on-error, or ends a run with one line that names it.

A thousand files are made of testdata's JPEG, PNG and WebP images: cut off, with bytes changed, left out, put in or filled with zeroes,
with numbers made large, or the end of one behind the beginning of another.  Some can be read all the same.  `mt-preprocess mm
--on-error quarantine=FILE` must count every one, as a sample or as a line that cannot be used, whatever the number of threads; by
itself each must become a sample, or end the run with exit code 65 and one line that names the file.

Run:  scripts/damaged-images.py BIN [--images 1000] [--seed 1]      BIN holds mt-preprocess
Exit codes: 0 all are, 1 one was not.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "testdata/images"


def damaged(whole, others, choose):
    """Returns the bytes of an image, changed in one of several ways."""
    image = bytearray(whole)
    at = choose.randrange(len(image))
    end = min(len(image), at + choose.choice([1, 2, 4, 16, 256]))
    way = choose.randrange(7)
    if way == 0:
        del image[at:]
    elif way == 1:
        for _ in range(choose.choice([1, 3, 20])):
            image[choose.randrange(len(image))] ^= 1 << choose.randrange(8)
    elif way == 2:
        del image[at:end]
    elif way == 3:
        image[at:at] = choose.randbytes(end - at)
    elif way == 4:
        image[at:end] = bytes(end - at)
    elif way == 5:
        at = choose.randrange(min(64, len(image) - 4))
        image[at:at + 4] = choose.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x01\x00\x00", b"\x80\x00\x00\x00"])
    else:
        other = choose.choice(others)
        image[at:] = other[min(at, len(other)):]
    return bytes(image)


def run(program, lines, output, *more):
    return subprocess.run([program, "mm", "--input", lines, "--output", output, "--quiet", *more], capture_output=True, text=True,
                          errors="replace", timeout=60, check=False)


def alone(program, folder, name):
    """Returns what is wrong with a run of one image, and whether the image could be read."""
    lines, output = folder / f"{name}.jsonl", folder / f"{name}.mm"
    lines.write_text(json.dumps({"image": name, "caption": "a"}) + "\n")
    made = run(program, lines, output)
    if made.returncode == 0:
        return None, True
    if made.returncode != 65 or made.stderr.count("\n") != 1 or name not in made.stderr or output.exists():
        return f"{name}: exit code {made.returncode}: {made.stderr}", False
    return None, False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    program, choose = args.bin / "mt-preprocess", random.Random(args.seed)
    whole = [path.read_bytes() for path in sorted(IMAGES.iterdir()) if path.suffix in (".jpg", ".png", ".webp")]
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        names = [f"{i:04}.image" for i in range(args.images)]
        for i, name in enumerate(names):
            (folder / name).write_bytes(damaged(whole[i % len(whole)], whole, choose))
        (folder / "all.jsonl").write_text("".join(json.dumps({"image": name, "caption": "a"}) + "\n" for name in names))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            results = list(threads.map(lambda name: alone(program, folder, name), names))
        failures += [wrong for wrong, _ in results if wrong]
        read = sum(is_read for _, is_read in results)
        for workers in ("1", "8"):
            bad = folder / f"bad-{workers}.jsonl"
            made = run(program, folder / "all.jsonl", folder / f"mm-{workers}", "--on-error", f"quarantine={bad}", "--json", "-j", workers)
            counts = json.loads(made.stdout) if made.returncode == 0 else {}
            quarantined = bad.read_text().splitlines() if bad.exists() else []
            expected = {"lines": args.images, "train": read, "bad_lines": args.images - read}
            if {key: counts.get(key) for key in expected} != expected or len(quarantined) != args.images - read:
                failures.append(f"{workers} threads: exit code {made.returncode}: {counts}, {len(quarantined)} quarantined, "
                                f"expected {expected}: {made.stderr}")
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{args.images} images, {read} of which can be read: {len(failures)} failures")
    sys.exit(1 if failures else 0)


main()
