#!/usr/bin/env python3
"""Compares the folders that mt-preprocess mm writes with what Megatron-Energon finds in them, and the other way round.

Lines with captions, questions and conversations about pictures of odd sizes, in JPEG, PNG and WebP, become folders of several
shards; Energon opens each of their parts, gives every sample with the texts and the bytes of pictures that the line names, and its
`energon prepare` indexes the shards as they are indexed, and finds the same samples and files for index.sqlite; through ours Energon finds
files by their names, and it opens a Metadataset of two of ours.  Folders that Energon has prepared, of shards that Python's tarfile writes
in the formats of ustar, GNU and pax with long names, are as their .nv-meta says, and have the lines that were put in.

Needs from PyPI: megatron-energon, pillow, torch (made with 7.4.1, 13.0.0, 2.15.0).
Run:  scripts/compare-energon.py build/release/cmd
"""
import io
import json
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

import PIL.Image
from megatron.energon import WorkerConfig
from megatron.energon.cache.file_store import WebdatasetFileStore
from megatron.energon.dataset_config import get_dataset_from_config
from megatron.energon.epathlib import EPath
from megatron.energon.flavors.webdataset.config import MAIN_FOLDER_NAME
from megatron.energon.flavors.webdataset.sample_decoder import SampleDecoder
from megatron.energon.metadataset.loader import load_dataset

WORDS = "a cat and two red dogs \u00e9t\u00e9 \u732b \"quoted\" \\ \n \t <image> , . ? [0]".split(" ")


def call(*command, **options):
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if run.returncode != 0:
        sys.exit(f"{command[0]}: exit code {run.returncode}: {run.stderr}{run.stdout}")
    return run.stdout


def draw(folder, seed):
    rng = random.Random(seed)
    ending = rng.choice(["jpg", "png", "webp"])
    mode = "RGB" if ending != "png" else rng.choice(["RGB", "L", "RGBA", "P"])
    path = folder / f"{seed}.{ending}"
    small = PIL.Image.frombytes("RGB", (3, 2), rng.randbytes(18)).resize((rng.randint(1, 90), rng.randint(1, 90)))
    small.convert(mode).save(path)
    return path.name


def text(rng):
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))


def lines_of(kind, folder, rng, count):
    for i in range(count):
        images = [draw(folder, rng.randint(0, 10**9)) for _ in range(1 if kind != "talks" else rng.choice([0, 1, 1, 3]))]
        if kind == "captions":
            yield {"image": images[0], "caption": text(rng)}
        elif kind == "questions":
            answers = [text(rng) for _ in range(rng.randint(1, 10))]
            line = {"image": images[0], "context": text(rng), "answers": answers}
            if i % 2:
                line["answer_weights"] = [rng.randint(1, 9) / 3 for _ in answers]
            yield line
        else:
            yield {"messages": [{"role": "user", "content": "<image>" * len(images) + text(rng)},
                                {"role": "assistant", "content": text(rng)}], "images": images}


def samples_of(folder, part):
    """What Energon makes of a part of a folder, but for decoding pictures."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    factory = get_dataset_from_config(folder, split_part=part, training=False, worker_config=config,
                                      decoder=SampleDecoder(image_decode="pilrgb"))
    dataset = factory.build()
    config.worker_activate(0)
    try:
        samples = list(dataset)
    finally:
        config.worker_deactivate()
    if len(samples) != len(factory):
        sys.exit(f"{folder}: {part}: Energon gives {len(samples)} of {len(factory)} samples")
    return samples


def is_crude(folder):
    return "Crude" in (folder / MAIN_FOLDER_NAME / "dataset.yaml").read_text()


def indexed(folder):
    """What index.sqlite has of each shard, by the shard's name."""
    shards = list(json.loads((folder / MAIN_FOLDER_NAME / ".info.json").read_text())["shard_counts"])
    index = sqlite3.connect(f"file:{folder / MAIN_FOLDER_NAME / 'index.sqlite'}?mode=ro", uri=True)
    if index.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        sys.exit(f"{folder}: index.sqlite is damaged")
    tables = {"samples": "tar_file_id, sample_key, sample_index, byte_offset, byte_size",
              "sample_parts": "tar_file_id, sample_index, part_name, content_byte_offset, content_byte_size"}
    return {name: sorted((shards[shard], *rest) for shard, *rest in index.execute(f"SELECT {columns} FROM {name}"))
            for name, columns in tables.items()}


def check_names(folder):
    """Files of it by their names, as Energon finds them, are those that tarfile finds."""
    store = WebdatasetFileStore(EPath(str(folder)))
    for shard in folder.glob("*.tar"):
        with tarfile.open(shard) as tar:
            for member in tar:
                if store[member.name][0] != tar.extractfile(member).read():
                    sys.exit(f"{shard}: {member.name}: Energon finds another by its name")


def check_metadataset(folder, count):
    """Two of it, of which Energon gives all samples once each."""
    blend = folder.parent / "blend.yaml"
    blend.write_text("__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  val:\n    blend:\n"
                     f"    - {{weight: 2, path: {folder.name}, split_part: train}}\n    - {{path: {folder.name}, split_part: train}}\n")
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    loaded = load_dataset(blend).get_datasets(training=False, split_part="val", worker_config=config,
                                              decoder=SampleDecoder(image_decode="pilrgb"))
    found = sum(len(one.dataset) for one in loaded.datasets)
    if found != 2 * count:
        sys.exit(f"{blend}: Energon gives {found} of {2 * count} samples")


def compare_ours(programs, scratch, kind, seed):
    rng = random.Random(seed)
    data = scratch / "data"
    data.mkdir()
    lines = list(lines_of(kind, data, rng, 60))
    (data / "lines.jsonl").write_text("".join(json.dumps(line, ensure_ascii=bool(i % 2)) + "\n" for i, line in enumerate(lines)))
    folder = scratch / "ours"
    summary = json.loads(call(programs / "mt-preprocess", "mm", "--input", data / "lines.jsonl", "--output", folder, "--split",
                              "7,2,1", "--samples-per-shard", "11", "--json"))
    found = {}
    for part in ("train", "val", "test"):
        if summary[part]:
            for sample in samples_of(folder, part):
                found[int(sample["__key__"] if is_crude(folder) else sample.__key__)] = sample
    if sorted(found) != list(range(60)):
        sys.exit(f"{kind}: Energon finds the keys {sorted(found)}")
    for i, line in enumerate(lines):
        sample, images = found[i], line.get("images", [line.get("image")])
        if kind == "talks":
            stored = sample["json"]
            stored = json.loads(stored) if isinstance(stored, bytes) else stored
            same = stored["messages"] == line["messages"] and len(stored["images"]) == len(images)
            with tarfile.open(folder / sample["__shard__"]) as tar:
                for name, image in zip(stored["images"], images, strict=True):
                    same &= tar.extractfile(name).read() == (data / image).read_bytes()
        else:
            same = sample.image.tobytes() == PIL.Image.open(data / images[0]).convert("RGB").tobytes()
            if kind == "captions":
                same &= sample.caption == line["caption"]
            else:
                weights = line.get("answer_weights", [1] * len(line["answers"]))
                same &= (sample.context, sample.answers) == (line["context"], line["answers"])
                same &= [float(w) for w in sample.answer_weights] == weights
        if not same:
            sys.exit(f"{kind}: line {i + 1}: {line} became {sample}")
    call(programs / "mt-preprocess", "verify", folder)
    # The same shards, indexed by Energon.
    theirs = scratch / "theirs"
    shutil.copytree(folder, theirs, ignore=lambda _, names: [n for n in names if n.endswith(".idx") or n == MAIN_FOLDER_NAME])
    parts = [f"--split-parts={part}:{part}_.*" for part in ("train", "val", "test")]
    call(pathlib.Path(sys.executable).parent / "energon", "prepare", "--non-interactive", "--no-progress", "--num-workers", "1",
         *parts, "--sample-type", "CrudeWebdataset", theirs)
    for index in folder.glob("*.idx"):
        if index.read_bytes() != (theirs / index.name).read_bytes():
            sys.exit(f"{index.name}: Energon's is another")
    counts = [json.loads((f / MAIN_FOLDER_NAME / ".info.json").read_text())["shard_counts"] for f in (folder, theirs)]
    if counts[0] != counts[1]:
        sys.exit(f"{kind}: counts {counts[0]}, Energon's {counts[1]}")
    ours, others = indexed(folder), indexed(theirs)
    for table, rows in ours.items():
        if rows != others[table]:
            sys.exit(f"{kind}: index.sqlite: {table}: {next((a, b) for a, b in zip(rows, others[table]) if a != b)}")
    check_names(folder)
    if summary["train"]:
        check_metadataset(folder, summary["train"])
    # Energon indexes what has an index.
    call(pathlib.Path(sys.executable).parent / "energon", "prepare", "--non-interactive", "--no-progress", "--num-workers", "1",
         "--tar-index-only", folder)
    call(programs / "mt-preprocess", "verify", folder)
    print(f"{kind}: 60 samples of {summary['shards']} shards, as Energon finds and indexes them")


def compare_theirs(programs, scratch, form, name):
    rng = random.Random(name)
    folder, expected = scratch / name, []
    folder.mkdir()
    for shard in range(3):
        with tarfile.open(folder / f"part_{shard}.tar", "w", format=form) as tar:
            for _ in range(rng.randint(1, 20)):
                depth = rng.randint(0, 3 if form == tarfile.USTAR_FORMAT else 12)
                key = "/".join([f"folder{rng.randint(0, 9)}"] * depth + [f"{len(expected):04d}" + "k" * rng.randint(0, 60)])
                asked, said = text(rng), text(rng)
                files = {"json": json.dumps([{"from": "human", "value": asked}, {"from": "gpt", "value": said}]).encode()}
                picture = io.BytesIO()
                PIL.Image.new("RGB", (rng.randint(1, 50), 2), "red").save(picture, "JPEG")
                files["jpg"] = picture.getvalue()
                for part in rng.sample(sorted(files), 2):
                    info = tarfile.TarInfo(f"{key}.{part}")
                    info.size, info.mtime = len(files[part]), rng.random() * 1e9
                    tar.addfile(info, io.BytesIO(files[part]))
                expected.append({"context": asked, "answers": said, "images": [key + ".jpg"]})
    call(pathlib.Path(sys.executable).parent / "energon", "prepare", "--non-interactive", "--no-progress", "--num-workers", "1",
         "--split-ratio", "1,1,1", "--sample-type", "VQASample", "--field-map",
         '{"image": "jpg", "context": "json[0][value]", "answers": "json[1][value]"}', folder)
    call(programs / "mt-preprocess", "verify", folder)
    ours = [json.loads(line) for line in call(programs / "mt-preprocess", "cat", folder).splitlines()]
    if sorted(ours, key=lambda s: s["images"]) != sorted(expected, key=lambda s: s["images"]):
        sys.exit(f"{name}: other samples than were put in")
    print(f"{name}: {len(expected)} samples that Energon has prepared")


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    for seed, kind in enumerate(("captions", "questions", "talks")):
        with tempfile.TemporaryDirectory() as scratch:
            compare_ours(programs, pathlib.Path(scratch), kind, seed)
    with tempfile.TemporaryDirectory() as scratch:
        for name, form in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
            compare_theirs(programs, pathlib.Path(scratch), form, name)


main()
