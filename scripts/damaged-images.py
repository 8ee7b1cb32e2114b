#!/usr/bin/env python3
"""Damaged images: each is counted by --on-error, or ends a run with one line that names it.

A thousand files are made of testdata's JPEG, PNG and WebP images: cut off, with bytes changed, left out, put in or filled with zeroes,
with numbers made large, or the end of one behind the beginning of another.  Some can be read all the same.  `mt-preprocess mm
--on-error quarantine=FILE` must count every one, as a sample or as a line that cannot be used, whatever the number of threads; by
itself each must become a sample, or end the run with exit code 65 and one line that names the file.

Of each tenth, or each --every-th, so must the other programs: mt-generate --image, mt-eval, which names the document, mt-finetune sft,
mt-pretrain of a LLaVA and of a ViT; and a server must answer each with a completion, or refuse it with 400, and go on.

Run:  scripts/damaged-images.py BIN [--images 1000] [--every 10] [--seed 1]      BIN holds the programs
Exit codes: 0 all are, 1 one was not.
"""
import argparse
import base64
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from local_server import serving

LLAVA = pathlib.Path(__file__).resolve().parent.parent / "testdata/models/llava"
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


STEP = ["--micro-batch-size", 2, "--global-batch-size", 2, "--lr", 0.001, "--train-iters", 1, "--eval-iters", 0, "--threads", 1,
        "--quiet"]
TASK = """task: damaged
output_type: generate_until
doc_to_text: "<image>What?"
doc_to_image: image
doc_to_target: answer
generation_kwargs: {until: ["."], max_gen_toks: 1}
metric_list:
  - metric: exact_match
"""


def commands(folder, name):
    """Each program's command, and what its line must name."""
    line = {"messages": [{"role": "user", "content": "<image>What?"}, {"role": "assistant", "content": "a"}], "images": [name]}
    (folder / f"{name}.sft").write_text(2 * (json.dumps(line) + "\n"))
    (folder / f"{name}.doc").write_text(json.dumps({"image": name, "answer": "a"}) + "\n")
    tree = folder / f"{name}.tree"
    for kind, image in (("damaged", folder / name), ("whole", IMAGES / "rgb8.png")):
        (tree / kind).mkdir(parents=True)
        (tree / kind / "a.png").write_bytes(image.read_bytes())
    learns = ["--seq-length", 32, "--packing", "none", "--load", LLAVA, "--dtype", "fp32", *STEP]
    return {
        "mt-generate": (["--load", LLAVA, "--dtype", "fp32", "--temperature", 0, "--num-tokens", 1, "--quiet", "--image", folder / name,
                         "<image>"], name),
        "mt-eval": (["--load", LLAVA, "--dtype", "fp32", "--quiet", "--task", folder / "damaged.task", folder / f"{name}.doc"],
                    f"{name}.doc:1: "),
        "mt-finetune": (["sft", "--train-data", folder / f"{name}.sft", "--valid-split", 0, *learns], name),
        "mt-pretrain": (["--model-type", "multimodal", "--data-path", folder / f"{name}.sft", *learns], name),
        "mt-pretrain, a ViT": (["--model-type", "vit", "--num-layers", 1, "--hidden-size", 16, "--num-attention-heads", 2, "--img-h", 16,
                                "--img-w", 16, "--patch-dim", 8, "--num-classes", 2, "--data-path", tree, tree, *STEP],
                               f"{name}.tree/damaged/a.png")}


def in_programs(programs, folder, name, is_read):
    """What is wrong with the runs of the other programs, lines."""
    wrong = []
    for program, (arguments, named) in commands(folder, name).items():
        made = subprocess.run([programs / program.split(",")[0], *map(str, arguments)], capture_output=True, text=True, errors="replace",
                              timeout=60, check=False)
        as_read = made.returncode == 0 and not made.stderr
        refused = made.returncode == 65 and made.stderr.count("\n") == 1 and named in made.stderr
        if not (as_read if is_read else refused):
            wrong.append(f"{program}: {name}, {'readable' if is_read else 'damaged'}: exit code {made.returncode}: {made.stderr}")
    return wrong


def in_server(url, folder, name, is_read):
    """What is wrong with the answer of a server."""
    image = "data:image/png;base64," + base64.b64encode((folder / name).read_bytes()).decode()
    parts = [{"type": "image_url", "image_url": {"url": image}}]
    asked = json.dumps({"messages": [{"role": "user", "content": parts}], "max_tokens": 1}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/chat/completions", asked), timeout=60) as answer:
            status, said = answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        status, said = error.code, json.load(error)
    right = status == 200 and "choices" in said if is_read else status == 400 and "message" in said["error"]
    return [] if right else [f"server: {name}, {'readable' if is_read else 'damaged'}: {status}: {said}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--every", type=int, default=10)
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
        (folder / "damaged.task").write_text(TASK)
        some = [(name, is_read) for name, (_, is_read) in zip(names, results, strict=True)][::args.every]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            for wrong in threads.map(lambda one: in_programs(args.bin, folder, *one), some):
                failures += wrong
        with serving(args.bin / "mt-generate", LLAVA, "--dtype", "fp32", "--threads", "1") as (_, url):
            for name, is_read in some:
                failures += in_server(url, folder, name, is_read)
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
    print(f"{args.images} images, {read} of which can be read, {len(some)} in all programs: {len(failures)} failures")
    sys.exit(1 if failures else 0)


main()
