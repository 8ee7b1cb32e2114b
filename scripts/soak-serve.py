#!/usr/bin/env python3
"""Soak mt-generate serve: streams, cancels, slow readers, half-open sockets and wrong fields, all at once, for a while.

  scripts/soak-serve.py [--seconds 600] [--streams 256] [--half-open 2000] [--wrong 8] [--program build/release/cmd/mt-generate]

A server of two threads has testdata/trl's Llama, with more positions, and two adapters of it, and a cache that is far too small
for all that is asked: prompts share pages of it, and lose them.  STREAMS clients ask for completions one after another, greedy ones and drawn ones, of the model and its adapters;
some leave in the middle and some read a few bytes at a time.  HALF-OPEN sockets say nothing, or half a header, and
are opened anew once the server closes them.  WRONG clients send every field with every wrong type.

It must show: each stream that ends is, byte for byte, what mt-generate makes of the prompt alone; each wrong field is
answered by status 400, one JSON object of one line that names the field; the server lives, has no request open in the end,
stops at TERM with exit code 0; its memory, once a fifth of the time has gone by, stays within 2 % of what it was; and, from
Linux 6.18 on, there is no 2 % that the kernel could add by making large pages, unasked, of what is hardly used.
A client whose own request took five seconds and more to leave, as where the machine has too much to do, may find that the server
has given it up, which does after ten; those are counted as late.
Prints one line of figures.  Exit code 1 with a line for each thing that is otherwise.
"""
import argparse
import asyncio
import json
import os
import pathlib
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from local_server import PROGRAM, make_model, root, serving

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--seconds", type=float, default=600)
parser.add_argument("--streams", type=int, default=256)
parser.add_argument("--half-open", type=int, default=2000)
parser.add_argument("--wrong", type=int, default=8)
parser.add_argument("--program", default=PROGRAM)
options = parser.parse_args()
trl = root / "testdata/trl"
ADAPTERS = {"llama": None, "lora": trl / "llama-lora"}
LATE = 5  # seconds; half of what the server waits for a request's head
wrongs, counts = [], {"finished": 0, "left": 0, "slow": 0, "refused": 0, "half_open": 0, "late": 0}
random.seed(5)


def wrong(text):
    wrongs.append(text)
    if len(wrongs) <= 20:
        print(text, file=sys.stderr)


def offline(model, requests):
    """Adds to each request the text that mt-generate makes of it: greedy ones together, drawn ones, which depend on their
    number among the prompts, alone."""
    for name, adapter in ADAPTERS.items():
        command = [options.program, "--load", str(model), "--quiet", "--json", "--threads", "1"]
        if adapter:
            command += ["--adapter", str(adapter)]
        mine = [r for r in requests if r["model"] == name]
        for some in [[r for r in mine if r["temperature"] == 0], *([r] for r in mine if r["temperature"] > 0)]:
            lines = "".join(json.dumps({"prompt": r["prompt"], "num_tokens": r["max_tokens"], "temperature": r["temperature"],
                                        "seed": r["seed"], "ignore_eod": True}) + "\n" for r in some)
            made = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
            for r, line in zip(some, made, strict=True):
                r["text"] = json.loads(line)["text"]


def make_strong(folder):
    """The adapter again, three times as strong."""
    shutil.copytree(trl / "llama-lora", folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"lora_alpha": 24}))
    ADAPTERS["strong"] = folder


def make_requests(model):
    words = "Hello my dear friend what is the time of day and who are you to ask me so late in all this rain".split()
    beginnings = [" ".join(random.choices(words, k=100)) for _ in range(3)]
    requests = []
    for i in range(90):
        prompt = " ".join([*random.choice(beginnings).split()[: random.randrange(100)], *random.choices(words, k=1 + random.randrange(5))])
        requests.append({"model": random.choice(list(ADAPTERS)), "prompt": prompt, "max_tokens": random.randrange(1, 25),
                         "temperature": 1 if i % 6 == 0 else 0, "seed": i, "ignore_eos": True, "stream": True})
    offline(model, requests)
    return requests


def head(body, path="/v1/completions"):
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


async def connect(port):
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)


def unchunked(data):
    """The body of an answer in chunks; None where it is cut."""
    body, rest = b"", data
    while True:
        size, found, rest = rest.partition(b"\r\n")
        if not found:
            return None
        count = int(size, 16)
        if count == 0:
            return body
        body, rest = body + rest[:count], rest[count + 2:]


def text_of(data):
    """What a stream says; None unless it ends as it should."""
    start, _, rest = data.partition(b"\r\n\r\n")
    if not start.startswith(b"HTTP/1.1 200"):
        return None
    body = unchunked(rest)
    if body is None:
        return None
    events = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        return None
    return "".join(choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"])


async def stream(port, requests, end):
    while time.monotonic() < end:
        request = random.choice(requests)
        kind = random.choices(["whole", "leaves", "slow"], [7, 2, 1])[0]
        body = {key: value for key, value in request.items() if key != "text"}
        begun = time.monotonic()
        reader, writer = await connect(port)
        try:
            writer.write(head(json.dumps(body).encode()))
            await writer.drain()
            is_late = time.monotonic() - begun > LATE
            if kind == "leaves":
                await asyncio.wait_for(reader.read(random.randrange(1, 600)), 120)
                counts["left"] += 1
                continue
            data = b""
            while part := await asyncio.wait_for(reader.read(40 if kind == "slow" else 1 << 16), 300):
                data += part
                if kind == "slow":
                    await asyncio.sleep(0.01)
            if is_late and not data:
                counts["late"] += 1
                continue
            if data.startswith(b"HTTP/1.1 429"):
                counts["refused"] += 1
                await asyncio.sleep(0.2)
                continue
            text = text_of(data)
            if text != request["text"]:
                wrong(f"{json.dumps(body)}: {text!r}, alone {request['text']!r}")
            counts["finished"] += 1
            counts["slow"] += kind == "slow"
        except (OSError, asyncio.TimeoutError) as error:
            wrong(f"a stream: {type(error).__name__} {error}")
        finally:
            writer.close()


async def half_open(port, end):
    while time.monotonic() < end:
        reader, writer = await connect(port)
        counts["half_open"] += 1
        try:
            writer.write(random.choice([b"", b"POST /v1/comp", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"]))
            await asyncio.wait_for(reader.read(1 << 16), max(0.1, end - time.monotonic()))
        except (OSError, asyncio.TimeoutError):
            pass
        finally:
            writer.close()


# Of each route: its fields, and the types of JSON that are right.
COMPLETIONS = {"prompt": "text list", "model": "text", "max_tokens": "number", "temperature": "number", "top_p": "number",
               "top_k": "number", "min_p": "number", "n": "number", "best_of": "number", "seed": "number", "stop": "text list",
               "stop_token_ids": "list", "ignore_eos": "truth", "echo": "truth", "logprobs": "number", "logit_bias": "object",
               "frequency_penalty": "number", "presence_penalty": "number", "repetition_penalty": "number",
               "min_tokens": "number", "prompt_logprobs": "number", "include_stop_str_in_output": "truth", "add_special_tokens": "truth",
               "structured_outputs": "object", "guided_regex": "text", "guided_choice": "list", "stream": "truth", "stream_options": "object"}
CHAT = {"messages": "list", "max_tokens": "number", "max_completion_tokens": "number", "logprobs": "truth",
        "top_logprobs": "number", "n": "number", "response_format": "object", "tools": "list",
        **{name: kind for name, kind in COMPLETIONS.items() if name not in ("prompt", "best_of", "echo", "logprobs")}}
RESPONSES = {"input": "text list", "instructions": "text", "max_output_tokens": "number", "text": "object", "reasoning": "object",
             "tools": "list", "temperature": "number", "top_p": "number", "stream": "truth", "parallel_tool_calls": "truth"}
EMBEDDINGS = {"input": "text list", "model": "text", "encoding_format": "text", "dimensions": "number"}
VALUES = {"text": '"\\ud83d\\ude00 x"', "number": "0.5", "truth": "true", "list": "[{}]", "object": '{"a":[1]}'}
ROUTES = {"/v1/completions": (COMPLETIONS, {"prompt": '"a"', "max_tokens": "1"}),
          "/v1/chat/completions": (CHAT, {"messages": '[{"role":"user","content":"a"}]', "max_tokens": "1"}),
          "/v1/responses": (RESPONSES, {"input": '"a"', "max_output_tokens": "1"}),
          "/v1/embeddings": (EMBEDDINGS, {"input": '"a"'}), "/tokenize": ({"prompt": "text", "messages": "list", "add_special_tokens": "truth"}, {"prompt": '"a"'}),
          "/detokenize": ({"tokens": "list"}, {})}


async def send_wrong(port, end):
    cases = [(path, field, value, members) for path, (fields, members) in ROUTES.items() for field, kinds in fields.items()
             for kind, value in VALUES.items() if kind not in kinds.split()]
    while True:
        for path, field, value, members in random.sample(cases, len(cases)):
            if time.monotonic() >= end:
                return
            body = "{" + ",".join(f'"{name}":{text}' for name, text in {**members, field: value}.items()) + "}"
            begun = time.monotonic()
            reader, writer = await connect(port)
            try:
                writer.write(head(body.encode(), path))
                await writer.drain()
                is_late = time.monotonic() - begun > LATE
                data = await asyncio.wait_for(reader.read(-1), 300)
                if is_late and not data:
                    counts["late"] += 1
                    continue
                status, text = data[9:12], data.partition(b"\r\n\r\n")[2].decode()
                message = json.loads(text)["error"]["message"]
                if status == b"404" and field == "model":
                    pass
                elif status != b"400" or "\n" in text.strip() or "\n" in message or field.split("_")[0] not in message:
                    wrong(f"{path} {body}: {status.decode()} {text}")
                counts["wrong_fields"] = counts.get("wrong_fields", 0) + 1
            except (OSError, asyncio.TimeoutError, ValueError, KeyError, TypeError) as error:
                wrong(f"{path} {body}: {type(error).__name__} {error}")
            finally:
                writer.close()


def fillable(process):
    """KiB that the kernel adds to a process's memory if it makes large pages of what is in use, but for what asks for them."""
    large, small, kib = 2 << 20, 4096, 0
    smaps = pathlib.Path(f"/proc/{process.pid}/smaps").read_text()
    mappings = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*?^THPeligible:\s+(\d).*?^VmFlags:(.*?)$", smaps, re.MULTILINE | re.DOTALL)
    with open(f"/proc/{process.pid}/pagemap", "rb", buffering=0) as pagemap:
        for begin, end, may, flags in mappings:
            if may != "1" or "hg" in flags.split():
                continue
            for at in range(-(-int(begin, 16) // large) * large, int(end, 16) - large + 1, large):
                pagemap.seek(at // small * 8)
                used = sum(page >> 63 for page in struct.unpack("<512Q", pagemap.read(512 * 8)))
                kib += (512 - used) * 4 if used else 0
    return kib


def resident(process):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1])


async def watch(process, begin, end, sizes):
    while time.monotonic() < end:
        await asyncio.sleep(min(1, options.seconds / 50))
        if process.poll() is not None:
            wrong(f"the server ended with {process.returncode}")
            return
        if time.monotonic() - begin >= options.seconds / 5:
            sizes.append(resident(process))


async def soak(process, port, requests):
    begin, sizes = time.monotonic(), []
    end = begin + options.seconds
    await asyncio.gather(watch(process, begin, end, sizes), *(stream(port, requests, end) for _ in range(options.streams)),
                         *(half_open(port, end) for _ in range(options.half_open)),
                         *(send_wrong(port, end) for _ in range(options.wrong)))
    for _ in range(100):  # those who left are found out soon
        reader, writer = await connect(port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        metrics = (await reader.read(-1)).decode()
        writer.close()
        held = {name: float(re.search(rf"^mt_{name} (.*)$", metrics, re.M)[1])
                for name in ("requests_running", "requests_waiting", "cache_pages_held", "preemptions_total", "prefix_hit_tokens_total")}
        if held["requests_running"] == held["requests_waiting"] == held["cache_pages_held"] == 0:
            break
        await asyncio.sleep(0.1)
    else:
        wrong(f"requests are open in the end: {held}")
    return sizes, held


def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    scratch = tempfile.TemporaryDirectory()
    make_strong(pathlib.Path(scratch.name) / "strong")
    model = make_model(pathlib.Path(scratch.name) / "llama", 512)  # for prompts of several of a cache's pages
    requests = make_requests(model)
    with serving(options.program, model, "--threads", "2", "--inference-max-requests", "32", "--cache-tokens", "2048", "--draft-tokens", "2",
                 "--adapter", *(f"{name}={folder}" for name, folder in ADAPTERS.items() if folder)) as (process, url):
        sizes, held = asyncio.run(soak(process, int(url.rpartition(":")[2]), requests))
        could_add = fillable(process)
    middle = (max(sizes) + min(sizes)) / 2
    away = 100 * (max(sizes) - middle) / middle
    # The first seconds are no measure: only a longer run says whether memory grows.
    if options.seconds >= 60 and away > 2:
        wrong(f"memory: {min(sizes)} to {max(sizes)} KiB, {away:.1f} % around their middle")
    knows = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 18)
    if knows and could_add > max(sizes) / 50:
        wrong(f"memory: {max(sizes)} KiB, to which the kernel may add {could_add} in large pages")
    if options.seconds >= 60 and 0 in (held["preemptions_total"], held["prefix_hit_tokens_total"]):
        wrong("no prompt was preempted, or none shared")
    if counts["finished"] == 0:
        wrong("no stream has ended")
    print(f"seconds={options.seconds:g}", *(f"{name}={count}" for name, count in counts.items()),
          f"preempted={held['preemptions_total']:g} shared_tokens={held['prefix_hit_tokens_total']:g}",
          f"memory_mib={min(sizes) / 1024:.1f}..{max(sizes) / 1024:.1f} around_middle={away:.2f}% could_add_kib={could_add} wrong={len(wrongs)}")
    sys.exit(1 if wrongs else 0)


main()
