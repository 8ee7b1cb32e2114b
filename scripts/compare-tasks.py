#!/usr/bin/env python3
"""Compare mt-eval's tasks with lm-evaluation-harness's own, document by document.

The documents are small ones that this script makes, in the fields of the data sets that the tasks name; they
take the place of datasets.load_dataset(), so that nothing is fetched.

  scripts/compare-tasks.py --goldens FILE
    writes what the harness asks of each document (testdata/eval/prompts.jsonl): no model is run.
  scripts/compare-tasks.py BIN MODEL [--server] [--lambada FILE [--limit N]]
    runs `mt-eval` and the harness's `hf` backend in fp32 on the CPU, and with --server its `local-completions` and, of
    generated texts as chats, where MODEL has a chat template, its `local-chat-completions` on `mt-generate serve`, on MODEL,
    a folder of Hugging Face's: each log-likelihood must agree to 1e-4,
    each metric of a document exactly, each generated text as it is, and the results to 1e-4 (errors that are
    resampled to 5 %).  A flag of greediness may differ where two logits are closer than 1e-5; it is listed.

Needs from PyPI: lm_eval, torch, transformers, datasets (tried with 0.4.13, 2.15.0, 5.24.0, 5.2.0), scikit-learn.
"""
import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"
import datasets
import lm_eval
import transformers
from lm_eval.tasks import TaskManager
from lm_eval.utils import hash_string
from local_server import serving

WORDS = "apple boat cloud drum egg fox grape hill iron jar kite lamp moon nest oak pear".split()


def word(i):
    return WORDS[i % len(WORDS)]


def rows(make, count, first=0):
    return [make(i) for i in range(first, first + count)]


def arc(i):
    labels = ["A", "B", "C", "D"] if i % 3 else ["1", "2", "3", "4"]
    texts = [f"the {word(i + k)}" for k in range(4)]
    return {"id": f"q{i}", "question": f"Which is {word(i)}, not {word(i + 5)}?", "choices": {"text": texts, "label": labels}, "answerKey": labels[i % 4]}


def book(i):
    doc = arc(i)
    return {"id": doc["id"], "question_stem": f"A {word(i)} grows near a", "choices": doc["choices"], "answerKey": " " + doc["answerKey"]}


def commonsense(i):
    return {"question": f" Where is the {word(i)}? ", "choices": {"label": list("ABCDE"), "text": [f"{word(i + k)} é" for k in range(5)]}, "answerKey": "ABCDE"[i % 5]}


def hellaswag(i):
    return {"ind": i, "activity_label": f"{word(i)} Removal", "ctx_a": f"A man is on a {word(i)}. He  [header] x", "ctx_b": "he STARTS [title] to sing",
            "endings": [f" pulls up  the {word(i + k)}. [substeps] Then [title] he  rests." for k in range(4)], "label": str(i % 4)}


def race(i):
    problems = [{"question": f"He is a  _  ." if (i + k) % 2 else f"Why is the {word(k)} 'red'?", "answer": "ABCD"[(i + k) % 4],
                 "options": [f"the {word(i + k + j)}" for j in range(4)]} for k in range(1 + i % 3)]
    return {"article": f"The {word(i)} stood.\n\nIt fell.", "problems": str(problems)}


def truthful(i):
    choices = [f"It is the {word(i + k)}." for k in range(2 + i % 3)]
    return {"question": f"What is a {word(i)}?", "mc1_targets": {"choices": choices, "labels": [1] + [0] * (len(choices) - 1)},
            "mc2_targets": {"choices": choices, "labels": [k % 2 == 0 and 1 or 0 for k in range(len(choices))]}}


def page(i):
    return {"page": f" = {word(i)} = \n\n The {word(i)} 's 3 @,@ 000 boats @-@ like \" big \" ( or small ) things ; he said : no ! \n = = Two = = \n 's 5 ° N x s ' . "}


TASKS = {
    "arc_easy": arc, "arc_challenge": arc, "openbookqa": book, "commonsense_qa": commonsense, "hellaswag": hellaswag, "race": race,
    "piqa": lambda i: {"goal": f"Cut a {word(i)}", "sol1": f"Use a {word(i + 1)}.", "sol2": f"Use no {word(i + 2)} at all.", "label": i % 2},
    "winogrande": lambda i: {"sentence": f"The {word(i)} hit the jar because _ was too large. ", "option1": f"the {word(i)}", "option2": "the jar", "answer": str(1 + i % 2)},
    "boolq": lambda i: {"question": f"is the {word(i)} red", "passage": f"The {word(i)} is red.\nIt is.", "label": i % 2},
    "mmlu_anatomy": lambda i: {"question": f" What is a {word(i)}?\n", "subject": "anatomy", "choices": [word(i + k) for k in range(4)], "answer": i % 4},
    "mmlu_high_school_us_history": lambda i: {"question": f"Who had a {word(i)}?", "subject": "us history", "choices": [word(i + k) for k in range(4)], "answer": i % 4},
    "sciq": lambda i: {"question": f"What is {word(i)}?", "distractor1": word(i + 1), "distractor2": word(i + 2), "distractor3": word(i + 3), "correct_answer": word(i),
                       "support": " " * (i % 2) + f"A {word(i)} is there."},
    "copa": lambda i: {"premise": f"The {word(i)} fell. ", "choice1": f"The {word(i + 1)} hit it.", "choice2": "Élan moved it.", "question": ["cause", "effect"][i % 2], "label": i % 2},
    "mnli": lambda i: {"premise": f"A {word(i)} is here.", "hypothesis": [" It is so ", "It is so."][i % 2], "label": i % 3},
    "qqp": lambda i: {"question1": f"What is a {word(i)}?", "question2": f"Is a {word(i + i % 2)} what?", "label": i % 2},
    "rte": lambda i: {"sentence1": f"A {word(i)} is here.", "sentence2": f"There is a {word(i)}.", "label": i % 2},
    "truthfulqa_mc1": truthful, "truthfulqa_mc2": truthful,
    "gsm8k": lambda i: {"question": f"Tom has {i} {word(i)}s and gets 3 more. How many?", "answer": f"He has {i}+3={i + 3}.\n#### {i + 3}"},
    "triviaqa": lambda i: {"question": f"Which {word(i)} is [it]", "answer": {"aliases": [word(i), f"The {word(i)}"], "value": word(i)}},
    "nq_open": lambda i: {"question": f"which {word(i)} is it", "answer": [f"the {word(i)}", word(i + 1)]},
    "lambada_openai": lambda i: {"text": f"He had a {word(i)}.  \"No,\" he said to the {word(i)}"},
    "wikitext": page,
}
SHOTS = {"truthfulqa_mc1": [0], "truthfulqa_mc2": [0], "lambada_openai": [0], "wikitext": [0], "race": [0]}  # others: 0 and 3
GENERATED = ("gsm8k", "triviaqa", "nq_open")
COUNT, POOL = 4, 24


def documents(task):
    """What is asked, and what examples are drawn from; the last of the former is among the latter."""
    docs, pool = rows(TASKS[task], COUNT), rows(TASKS[task], POOL, COUNT)
    return docs, pool[:-1] + [docs[-1]] if len(SHOTS.get(task, [0, 3])) > 1 else pool


def lines(docs):
    return "".join(json.dumps(doc, ensure_ascii=False) + "\n" for doc in docs)


def patch(folder, given):
    """Every data set is what is in the folder for the task that is loaded."""

    def load(path=None, name=None, **_):
        docs, pool = given[(path, name)]
        splits = {"train": pool, "dev": pool, "validation": docs, "validation_matched": docs, "test": docs}
        for split, some in splits.items():
            with open(f"{folder}/{split}.jsonl", "w") as file:
                file.write(lines(some))
        return datasets.DatasetDict({split: datasets.Dataset.from_list(some) for split, some in splits.items()})

    lm_eval.api.task.datasets.load_dataset = load


def config_key(manager, task):
    """The data set that a task names."""
    import yaml
    from lm_eval.tasks._yaml_loader import load_yaml
    config = load_yaml(manager.task_index[task].yaml_path, resolve_func=False)
    return config.get("dataset_path"), config.get("dataset_name")


def load_tasks(folder, names, docs_of):
    manager = manager_of_these()
    patch(folder, {config_key(manager, name): docs_of[name] for name in names})
    return manager


@functools.cache
def manager_of_these():
    """Indexing all tasks of the harness takes a minute."""
    folders = "arc openbookqa commonsense_qa hellaswag race piqa winogrande super_glue/boolq super_glue/copa mmlu/default sciq glue truthfulqa gsm8k triviaqa nq_open lambada wikitext"
    root = os.path.join(os.path.dirname(lm_eval.__file__), "tasks")
    return TaskManager(include_defaults=False, include_path=[os.path.join(root, folder) for folder in folders.split()])


def one_task(manager, name):
    return manager.load([name])["tasks"][name]


def goldens(path):
    with tempfile.TemporaryDirectory() as folder, open(path, "w") as out:
        out.write(json.dumps({"made_by": "scripts/compare-tasks.py --goldens", "lm_eval": lm_eval.__version__}) + "\n")
        for name in TASKS:
            docs, pool = documents(name)
            for shots in SHOTS.get(name, [0, 3]):
                task = one_task(load_tasks(folder, [name], {name: (docs, pool)}), name)
                task.set_config("num_fewshot", shots)
                task.set_fewshot_seed(1234)
                task.build_all_requests(rank=0, world_size=1)
                asked = {}
                for instance in task.instances:
                    asked.setdefault(instance.doc_id, []).append(instance)
                items = [asked[k] for k in sorted(asked)]
                requests = [[list(i.args) if i.request_type != "generate_until" else [i.args[0]] for i in item] for item in items]
                seen = [item[0].doc for item in items]
                out.write(json.dumps({
                    "task": name, "num_fewshot": shots, "documents": docs, "pool": pool if shots else [], "requests": requests,
                    "targets": [task.doc_to_target(doc) for doc in seen],
                    "hashes": [hash_string(json.dumps(doc, indent=2, ensure_ascii=False)) for doc in seen],
                }, ensure_ascii=False) + "\n")
                print(name, shots, len(requests))


# --- Models --------------------------------------------------------------------------------------


def numbers(value):
    return [float(x) for x in (value if isinstance(value, (list, tuple)) else [value])]


class Check:
    def __init__(self):
        self.compared = self.wrong = 0
        self.worst = 0.0

    def near(self, what, a, b, close):
        self.compared += 1
        if abs(a - b) > close * max(1.0, abs(b)):
            self.wrong += 1
            print(f"DIFFERENT {what}: {a} and {b}")

    def same(self, what, a, b):
        self.compared += 1
        if a != b:
            self.wrong += 1
            print(f"DIFFERENT {what}: {a!r} and {b!r}")


def compare(check, ours, results, theirs, side):
    """ours: the lines and the summary of mt-eval; theirs: what simple_evaluate() returns."""
    for task, samples in theirs["samples"].items():
        mine = {(line["doc_id"], line["filter"]): line for line in ours if line["task"] == task}
        check.same(f"{side} {task}: lines", len(mine), len(samples))
        for sample in samples:
            line, where = mine[(sample["doc_id"], sample["filter"])], f"{side} {task} document {sample['doc_id']}"
            for key in ("doc_hash", "prompt_hash", "target_hash"):
                if key == "prompt_hash" and side == "local-chat-completions":
                    continue  # which is of messages
                check.same(f"{where} {key}", line[key], sample[key])
            for i, (a, b) in enumerate(zip(line["resps"], sample["resps"], strict=True)):
                if isinstance(b[0], str):
                    check.same(f"{where} text", a, list(b))
                    continue
                a, b = (a[0], b[0]) if isinstance(b[0], (list, tuple)) else ([a[0]], [b[0]])
                check.near(f"{where} log-likelihood {i}", a[0], float(b[0]), 1e-4)
                check.worst = max(check.worst, abs(a[0] - float(b[0])))
                if len(b) > 1 and bool(a[1]) != bool(b[1]):
                    print(f"another greedy flag: {where} {i}")
            for metric in sample["metrics"]:
                a, b = numbers(line[metric]) if not isinstance(line[metric], list) else line[metric], sample[metric]
                for x, y in zip(numbers(a), numbers(b), strict=True):
                    check.near(f"{where} {metric}", x, y, 1e-4)
        for key, value in theirs["results"][task].items():
            if "," not in key:
                continue
            mine = results["results"][task][key]
            if isinstance(value, str) or isinstance(mine, str):
                check.same(f"{side} {task} {key}", mine, value)
            else:
                resampled = "_stderr" in key and key.split("_stderr")[0] in ("perplexity", "f1", "mcc")
                check.near(f"{side} {task} {key}", mine, value, 0.05 if resampled else 1e-4)


def mt_eval(bin_dir, model, arguments):
    command = [f"{bin_dir}/mt-eval", "--quiet", "--load", model, "--json", "--device", "cpu", "--dtype", "fp32", *arguments]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"{' '.join(command)}: {made.stderr}")
    all_lines = [json.loads(line) for line in made.stdout.splitlines()]
    return all_lines[:-1], all_lines[-1]


def has_template(model):
    return transformers.AutoTokenizer.from_pretrained(model).chat_template is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--goldens", metavar="FILE")
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--lambada", metavar="FILE")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--tasks", default="")
    o = parser.parse_args()
    if o.goldens:
        return goldens(o.goldens)
    check = Check()
    names = [n for n in TASKS if not o.tasks or n in o.tasks.split(",")]
    sides = [("hf", {"pretrained": o.model, "dtype": "float32", "device": "cpu"})]
    chats = sides[:]
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        if o.server:
            _, url = stack.enter_context(serving(f"{o.bin}/mt-generate", o.model, "--device", "cpu", "--dtype", "fp32"))
            of_server = {"model": os.path.basename(o.model.rstrip("/")), "max_length": 1024, "num_concurrent": 1}
            sides.append(("local-completions", {**of_server, "base_url": f"{url}/v1/completions", "tokenizer": o.model}))
            chats.append(("local-chat-completions", {**of_server, "base_url": f"{url}/v1/chat/completions"}))
        runs = []
        for shots in (0, 3):
            some = {name: documents(name) for name in names if shots in SHOTS.get(name, [0, 3])}
            if some:
                runs.append((shots, some, None, False))
            if some := {name: docs for name, docs in some.items() if name in GENERATED and has_template(o.model)}:
                runs.append((shots, some, None, True))
        if o.lambada:
            docs = [json.loads(line) for line in open(o.lambada)]
            runs.append((0, {"lambada_openai": (docs, docs)}, o.limit, False))
        for shots, some, limit, chat in runs:
            for name, (docs, pool) in some.items():
                with open(f"{folder}/{name}.jsonl", "w") as a, open(f"{folder}/{name}.fewshot.jsonl", "w") as b:
                    a.write(lines(docs))
                    b.write(lines(pool))
            arguments = ["--task", ",".join(some), "--data", folder, "--num-fewshot", str(shots)] + (["--limit", str(limit)] if limit else [])
            arguments += ["--apply-chat-template", "--fewshot-as-multiturn"] if chat else []
            begin = time.time()
            ours, results = mt_eval(o.bin, o.model, arguments)
            print(f"{shots} examples{' of a chat' * chat}, {len(ours)} lines, mt-eval {time.time() - begin:.1f} s")
            for side, model_args in chats if chat else sides:
                begin = time.time()
                theirs = lm_eval.simple_evaluate(side, model_args, tasks=list(some), num_fewshot=shots, limit=limit, batch_size=1, apply_chat_template=chat,
                                                 bootstrap_iters=2000, task_manager=load_tasks(folder, list(some), some))
                print(f"{side} {time.time() - begin:.1f} s")
                compare(check, ours, results, theirs, side)
    print(f"{check.compared} compared, {check.wrong} different, log-likelihoods within {check.worst:.2e}")
    return 1 if check.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
