#!/usr/bin/env python3
"""Compare mt-generate serve with adapters beside one model with PEFT, which has them all loaded, on the CPU in float32.

Of each model of testdata/trl that has adapters there, a server has all of them, and an adapter more whose numbers are drawn
here. Random prompts, in tokens, of the model and of its adapters are asked at a time; each greedy continuation must have the
log-probabilities of PEFT's model with that adapter, to 1e-4, and its text, where that is of whole characters.

  --program PATH   mt-generate (build/release/cmd/mt-generate)
  --prompts N      of each model (60)

Needs from PyPI: peft, transformers, torch (tried with 0.21.2, 5.24.0, 2.15.0).
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
import urllib.request

import peft
import torch
import transformers

root = pathlib.Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", default=str(root / "build/release/cmd/mt-generate"))
parser.add_argument("--prompts", type=int, default=60)
options = parser.parse_args()
BASES = {"llama": ["llama-lora", "llama-rslora"], "qwen3": ["qwen3-lora"], "qwen3_moe": ["qwen3_moe-lora"], "bamba": ["bamba-lora"],
         "nemotron_h": ["nemotron_h-lora"]}
TARGETS = {"bamba": ["q_proj", "in_proj"], "nemotron_h": ["q_proj", "up_proj"], "qwen3_moe": ["v_proj"]}
TOKENS = 12


def draw_adapter(base, folder):
    torch.manual_seed(3)
    config = peft.LoraConfig(r=2, lora_alpha=6, task_type="CAUSAL_LM", init_lora_weights=False,
                             target_modules=TARGETS.get(base.name, ["q_proj", "down_proj"]))
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    peft.get_peft_model(model, config).save_pretrained(folder)


def by_peft(model, prompt):
    ids, made, probs = list(prompt), [], []
    with torch.no_grad():
        for _ in range(TOKENS):
            logits = torch.log_softmax(model(torch.tensor([ids])).logits[0, -1], -1)
            made.append(int(logits.argmax()))
            probs.append(float(logits.max()))
            ids.append(made[-1])
    return made, probs


def ask(url, request):
    body = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)["choices"][0]


def compare(name, scratch):
    base = root / "testdata/trl" / name
    folders = {one: root / "testdata/trl" / one for one in BASES[name]}
    folders["drawn"] = pathlib.Path(scratch) / f"{name}-drawn"
    draw_adapter(base, folders["drawn"])
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    adapted = None
    for one, folder in folders.items():
        if adapted is None:
            adapted = peft.PeftModel.from_pretrained(model, folder, adapter_name=one).eval()
        else:
            adapted.load_adapter(folder, adapter_name=one)
    adapted.eval()
    random.seed(1)
    vocabulary = model.config.vocab_size
    requests = [(random.choice([name, *folders]), [random.randrange(5, vocabulary) for _ in range(random.randrange(1, 40))])
                for _ in range(options.prompts)]
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen([options.program, "serve", "--load", base, "--port", "0", "--inference-max-requests", "16", "--adapter",
                                   *(f"{one}={folder}" for one, folder in folders.items())], stderr=log)
        try:
            url = None
            while url is None and server.poll() is None:
                time.sleep(0.1)
                log.seek(0)
                found = re.search(r"url=(\S+)", text := log.read())
                url = found and found[1]
            if url is None:
                sys.exit(f"{name}: {text}")
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(lambda r: ask(url, {"model": r[0], "prompt": r[1], "max_tokens": TOKENS, "temperature": 0,
                                                            "ignore_eos": True, "logprobs": 0}), requests))
        finally:
            server.terminate()
            server.wait()
    farthest = 0
    for (which, prompt), answer in zip(requests, answers):
        if which != name:
            adapted.set_adapter(which)
        made, probs = by_peft(plain if which == name else adapted, prompt)
        text = tokenizer.decode(prompt + made)[len(tokenizer.decode(prompt)):]
        found = answer["logprobs"]["token_logprobs"]
        farthest = max(farthest, max(abs(a - b) for a, b in zip(found, probs, strict=True)))
        differs = answer["text"] != text and "\ufffd" not in answer["text"] + text  # characters that are cut
        if farthest > 1e-4 or differs:
            sys.exit(f"{name}: {which} {prompt}: {answer['text']!r} {found}, PEFT {text!r} {probs}")
    print(f"{name}: {len(requests)} prompts of {1 + len(folders)} models, log-probabilities within {farthest:.1e}")


def main():
    scratch = tempfile.mkdtemp()
    try:
        for name in BASES:
            compare(name, scratch)
    finally:
        shutil.rmtree(scratch)


main()
