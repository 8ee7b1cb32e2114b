#!/usr/bin/env python3
"""GGUF files of mt-convert, as llama.cpp computes with them.

    compare-llama-cpp.py build/release/cmd [NAME]     the models of model_folders.py, and BERTs, with NAME in their name

Of each tiny model with random weights that transformers makes, mt-convert writes a GGUF file in float32, and llama.cpp
says what follows a short and a longer text; the largest difference of log-probabilities from transformers' own is shown,
"refused" where mt says that llama.cpp has no such model, and what llama.cpp says where it does not read the file.
Of the file mt-convert makes a folder, and of that a GGUF file again, which has to have the same bytes.

Of BERTs llama.cpp makes embeddings, of texts that it cuts itself where their tokenizer is a WordPiece, and of ids of a
RoBERTa's.

Exits with 1 if any differs by more than 1e-4, or 6e-3 of a model with GeLU, which llama.cpp has from a table in float16,
in its tanh form.

Needs from PyPI: xllamacpp, whose wheel has llama.cpp in it, torch, transformers and safetensors (tried with
2026.10.11549, 2.15.0, 5.24.0 and 0.8.0).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MOST, MOST_OF_GELU = 1e-4, 6e-3
ROUNDED = ("gpt-oss",)  # the ends of whose ramp of YaRN llama.cpp rounds
MOST_OF_ROUNDED = 5e-2
LONGEST = {"phi3-window": 5}  # which has no windows there
NEXT = """
import json, sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.warmup = sys.argv[1], 64, 1, False
params.cpuparams.n_threads = 1
params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
server = xllamacpp.Server(params)
found = []
for ids in json.loads(sys.argv[2]):
    answer = server.handle_completions(dict(prompt=ids, n_predict=1, n_probs=int(sys.argv[3]), temperature=0,
                                            cache_prompt=False, logit_bias=[[65, 1e9]]))
    if "error" in answer:  # the prompt is longer than the model takes
        found.append(None)
        continue
    top = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    found.append({entry["id"]: entry["logprob"] for entry in top})
with open(sys.argv[4], "w") as file:
    json.dump(found, file)
"""


def followers(path, prompts, words):
    """What llama.cpp says follows each prompt: log-probabilities by token."""
    answers = path.parent / "answers.json"
    done = subprocess.run([sys.executable, "-c", NEXT, str(path), json.dumps(prompts), str(words), str(answers)],
                          capture_output=True, text=True, errors="replace", timeout=120)
    if answers.exists():
        return json.loads(answers.read_text())
    lines = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower() or "assert" in line.lower()]
    raise RuntimeError("llama.cpp: " + (lines or [f"ends with {done.returncode}"])[0])


def compare(folders, mt, name, scratch):
    """Largest difference of log-probabilities; None: mt has refused to write the file."""
    import torch

    place = pathlib.Path(scratch)
    model = folders.make_model(name, place / "model", torch.float32)
    tokenizer = folders.make_tokenizer(place / "model", bos=not name.startswith("gpt2"))
    try:
        mt("mt-convert", "--saver", "gguf", "--dtype", "fp32", place / "model", place / "gguf")
    except RuntimeError as error:
        if "llama.cpp" in str(error):
            return None
        raise
    prompts = [tokenizer(text).input_ids for text in (folders.PROMPT, folders.TEXT)]
    prompts = [ids for ids in [*prompts, prompts[0][:3]] if len(ids) <= LONGEST.get(name, len(ids))]
    words = model.get_input_embeddings().weight.shape[0]
    worst = 0.0
    for ids, found in zip(prompts, followers(place / "gguf/model.gguf", prompts, words)):
        with torch.no_grad():
            expected = torch.log_softmax(model(torch.tensor([ids])).logits[0, -1].double(), -1)
        if found is None and len(ids) > 3:
            continue
        if len(found) != words:
            raise RuntimeError(f"llama.cpp has {len(found)} tokens of {words}")
        worst = max(worst, max(abs(expected[int(token)].item() - value) for token, value in found.items()))
    mt("mt-convert", "--saver", "hf", place / "gguf", place / "again")
    mt("mt-convert", "--saver", "gguf", place / "again", place / "there" / "gguf")
    if (place / "gguf/model.gguf").read_bytes() != (place / "there/gguf/model.gguf").read_bytes():
        raise RuntimeError("the file that is made of the folder that is made of it has other bytes")
    most = MOST_OF_ROUNDED if name in ROUNDED else MOST_OF_GELU if "gelu" in str(model.config).lower() else MOST
    if not worst < most:
        raise RuntimeError(f"differs by {worst:.1e}")
    return worst

EMBEDDINGS = """
import json, sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.warmup, params.embedding = sys.argv[1], 64, 1, False, True
params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
server = xllamacpp.Server(params)
found = [server.handle_embeddings(dict(input=[each] if isinstance(each, list) else each))["data"][0]["embedding"]
         for each in json.loads(sys.argv[2])]
with open(sys.argv[3], "w") as file:
    json.dump(found, file)
"""
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz,.'!0123456789",
         *("##" + c for c in "abcdefghijklmnopqrstuvwxyz0123456789"), "the", "king", "seven", "boat", "##ing", "##ed", "read"]
TEXTS = ["The king reading, the horse crossed!", "Seven small boats 42 \u00e9 \u00dcber"]


def make_bert(kind, folder):
    import torch
    import transformers as t

    sizes = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, max_position_embeddings=66)
    config = {"bert": lambda: t.BertConfig(vocab_size=len(WORDS), **sizes),
              "distilbert": lambda: t.DistilBertConfig(vocab_size=len(WORDS), dim=64, n_layers=2, n_heads=4, hidden_dim=96),
              "roberta": lambda: t.RobertaConfig(vocab_size=323, pad_token_id=1, **sizes)}[kind]()
    torch.manual_seed(0)
    model = t.AutoModel.from_config(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.2 + ("orm" in name and name.endswith("weight")))
    model.eval().save_pretrained(folder)
    return model


def compare_bert(folders, mt, kind, scratch):
    """Largest difference of embeddings of length 1."""
    import torch
    import transformers

    place = pathlib.Path(scratch)
    model = make_bert(kind, place / "model")
    if kind == "roberta":
        tokenizer = folders.make_tokenizer(place / "model", bos=False)
        inputs = [tokenizer(text).input_ids for text in TEXTS]
    else:
        (place / "vocab.txt").write_text("\n".join(WORDS) + "\n")
        tokenizer = transformers.BertTokenizer(vocab=str(place / "vocab.txt"))
        tokenizer.save_pretrained(place / "model")
        inputs = TEXTS
    mt("mt-convert", "--saver", "gguf", "--dtype", "fp32", place / "model", place / "gguf")
    answers = place / "answers.json"
    subprocess.run([sys.executable, "-c", EMBEDDINGS, str(place / "gguf/model.gguf"), json.dumps(inputs), str(answers)],
                   capture_output=True, timeout=120)
    worst = 0.0
    for text, found in zip(TEXTS, json.loads(answers.read_text())):
        with torch.no_grad():
            mean = model(torch.tensor([tokenizer(text).input_ids])).last_hidden_state[0].mean(0)
        worst = max(worst, (mean / mean.norm() - torch.tensor(found)).abs().max().item())
    if not worst < MOST_OF_GELU:
        raise RuntimeError(f"differs by {worst:.1e}")
    return worst


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import model_folders
    import transformers

    transformers.utils.logging.disable_progress_bar()
    mt, only = model_folders.Programs(sys.argv[1]), (sys.argv[2:] or [""])[0]
    failures = 0
    berts = ("bert", "distilbert", "roberta")
    for name in (*model_folders.CASES, *berts):
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            try:
                worst = (compare_bert if name in berts else compare)(model_folders, mt, name, scratch)
            except Exception as error:  # a program's or a library's
                failures += 1
                print(f"{name:28} {error}", flush=True)
                continue
        print(f"{name:28} {'refused' if worst is None else f'{worst:.1e}'}", flush=True)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
