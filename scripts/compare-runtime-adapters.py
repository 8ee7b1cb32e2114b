#!/usr/bin/env python3
"""Compare adapters that clients have mt-generate serve load and forget on a GPU with the same on the CPU, both in float32.

A server on --device and one on the CPU, of the Llama of testdata/trl, are told the same: adapters are loaded, one name gets another
adapter, one is forgotten while a text is made with it, and one comes and goes --times times. Random prompts, in tokens, are asked of
whatever is there, several at a time; both must give the same tokens, with log-probabilities that agree to 1e-4. Prints one line,
or ends with one that says what differs.

  --program PATH   mt-generate (build/release/cmd/mt-generate)
  --device NAME    beside which the CPU is (cuda)
  --times N        that an adapter comes and goes (20)
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

root = pathlib.Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", default=str(root / "build/release/cmd/mt-generate"))
parser.add_argument("--device", default="cuda")
parser.add_argument("--times", type=int, default=20)
options = parser.parse_args()
DATA = root / "testdata/trl"


class Server:
    def __init__(self, device, folder):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [options.program, "serve", "--load", DATA / "llama", "--port", "0", "--device", device, "--dtype", "fp32", "--inference-max-requests",
             "16", "--allow-runtime-adapters", "--adapter-dir", folder, "--max-lora-rank", "16"], stderr=self.log)
        self.url = None
        while self.url is None and self.process.poll() is None:
            time.sleep(0.1)
            self.log.seek(0)
            found = re.search(r"url=(\S+)", text := self.log.read())
            self.url = found and found[1]
        if self.url is None:
            sys.exit(f"{device}: {text}")

    def post(self, path, body):
        """The status, and what is said."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def change(self, what, **body):
        status, said = self.post(f"/v1/{what}_lora_adapter", body)
        if status != 200:
            sys.exit(f"{what} {body}: {status} {said}")

    def ask(self, model, prompt, tokens=12):
        status, said = self.post("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                                                     "logprobs": 0})
        if status != 200:
            return status
        made = json.loads(said)["choices"][0]["logprobs"]
        return made["tokens"], made["token_logprobs"]

    def ask_all(self, requests):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            return list(pool.map(lambda request: self.ask(*request), requests))


def prompts_of(models, count):
    return [(random.choice(models), [random.randrange(5, 90) for _ in range(random.randrange(1, 40))]) for _ in range(count)]


def run(server):
    """What is said, in an order that is the same for each server."""
    random.seed(1)
    said = server.ask_all(prompts_of(["llama"], 16))
    server.change("load", lora_name="one", lora_path="lora")
    server.change("load", lora_name="two", lora_path="rslora")
    said += server.ask_all(prompts_of(["llama", "one", "two"], 48))
    prompt = prompts_of(["one"], 1)[0][1]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        long = pool.submit(server.ask, "one", prompt, 60)
        while b"requests_running 1" not in urllib.request.urlopen(server.url + "/metrics").read() and not long.done():
            pass
        server.change("unload", lora_name="one")
        said.append(long.result())
    said.append(server.ask("one", prompt))  # 404
    server.change("load", lora_name="one", lora_path="strong")
    said += server.ask_all(prompts_of(["llama", "one", "two"], 48))
    for _ in range(options.times):
        server.change("load", lora_name="guest", lora_path="lora")
        said += server.ask_all(prompts_of(["guest", "one"], 2))
        server.change("unload", lora_name="guest")
    return said


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for adapter in ("lora", "rslora"):
            shutil.copytree(DATA / f"llama-{adapter}", folder / adapter)
        shutil.copytree(DATA / "llama-lora", folder / "strong")
        config = json.loads((DATA / "llama-lora/adapter_config.json").read_text())
        (folder / "strong/adapter_config.json").unlink()
        (folder / "strong/adapter_config.json").write_text(json.dumps({**config, "lora_alpha": 24}))
        found = []
        for device in (options.device, "cpu"):
            server = Server(device, folder)
            try:
                found.append(run(server))
            finally:
                server.process.terminate()
                server.process.wait()
    farthest = 0
    for here, there in zip(*found, strict=True):
        if isinstance(here, int) or isinstance(there, int):
            if here != 404 or there != 404:
                sys.exit(f"{here}, on the CPU {there}")
            continue
        if here[0] != there[0]:
            sys.exit(f"{here}, on the CPU {there}")
        farthest = max(farthest, max(abs(a - b) for a, b in zip(here[1], there[1], strict=True)))
    if farthest > 1e-4:
        sys.exit(f"log-probabilities are {farthest:.1e} apart")
    print(f"{len(found[0])} answers of adapters that come and go, the same tokens, log-probabilities within {farthest:.1e}")


main()
