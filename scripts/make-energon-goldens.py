#!/usr/bin/env python3
"""Makes testdata/energon: small folders of samples that Megatron-Energon itself has prepared.

  questions   VQASample, of lists of messages in JSON, as the LLaVA data have them; two shards, of GNU's and pax's tar,
              with names longer than a header's; an index of SQLite is left out
  choices     MultiChoiceVQASample, whose context is a text beside
  crude       CrudeWebdataset, with a text without an image, folders, and files that are of no sample

Needs from PyPI: megatron-energon, pillow (made with 7.4.1, 13.0.0).
Run:  scripts/make-energon-goldens.py; it calls `energon prepare`, which is to be in PATH.
"""
import io
import json
import pathlib
import shutil
import subprocess
import tarfile

import PIL.Image

OUT = pathlib.Path(__file__).resolve().parent.parent / "testdata" / "energon"


def picture(color, kind):
    out = io.BytesIO()
    PIL.Image.new("RGB", (4, 3), color).save(out, kind)
    return out.getvalue()


def write(path, members, form):
    with tarfile.open(path, "w", format=form) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content or b""))


def talk(question, answer):
    return json.dumps([{"from": "human", "value": question}, {"from": "gpt", "value": answer}]).encode()


def prepare(name, *options):
    subprocess.run(["energon", "prepare", "--non-interactive", "--no-progress", "--num-workers", "1", *options, str(OUT / name)],
                   check=True, stdout=subprocess.DEVNULL)
    for file in ("index.sqlite", "index.uuid"):
        (OUT / name / ".nv-meta" / file).unlink()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    for name in ("questions", "choices", "crude"):
        (OUT / name).mkdir(parents=True)
    long = "a-name-of-many-letters/" * 6 + "x"
    write(OUT / "questions" / "part_0.tar", [
        ("1.jpg", picture("red", "JPEG")), ("1.json", talk("<image>\nWhat?", "Red.")),
        (long + ".json", talk("Who?", "Blue \u00e9.")), (long + ".png", picture("blue", "PNG"))], tarfile.GNU_FORMAT)
    write(OUT / "questions" / "part_1.tar", [
        (long + "\u00e9.jpg", picture("green", "JPEG")), (long + "\u00e9.json", talk("<image>", "Green."))], tarfile.PAX_FORMAT)
    prepare("questions", "--split-ratio", "1,1,0", "--sample-type", "VQASample", "--field-map",
            '{"image": "jpg,png", "context": "json[0][value]", "answers": "json[1][value]"}')
    write(OUT / "choices" / "all.tar", [
        ("k.png", picture("red", "PNG")), ("k.txt", b"Which?"),
        ("k.json", json.dumps({"of": ["blue", "red"], "right": 1}).encode())], tarfile.USTAR_FORMAT)
    prepare("choices", "--split-ratio", "1,0,0", "--sample-type", "MultiChoiceVQASample", "--field-map",
            '{"image": "png", "context": "txt", "choices": "json[of]", "correct_choice_idx": "json[right]"}')
    write(OUT / "crude" / "shard.tar", [
        ("d", None), ("README", b"of no sample"), ("__meta__/x.txt", b"nor this"),
        ("d/1.1.png", picture("red", "PNG")), ("d/1.2.jpg", picture("blue", "JPEG")),
        ("d/1.json", json.dumps({"messages": [{"role": "user", "content": "<image><image>?"},
                                              {"role": "assistant", "content": "Two."}]}).encode()),
        ("d/2.json", talk("Hi", "Hello."))], tarfile.PAX_FORMAT)
    prepare("crude", "--split-ratio", "1,0,0", "--sample-type", "CrudeWebdataset")


main()
