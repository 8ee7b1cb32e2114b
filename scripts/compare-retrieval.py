#!/usr/bin/env python3
"""Compares the vectors of mt-retro-index embed --ict-load and what mt-eval retrieval counts with transformers' and numpy's.

Passages, questions and a vocabulary are of scripts/make-topics' words.  A BERT that transformers writes becomes two towers
by mt-finetune ict --bert-load, of which a step of a learning rate of 1e-30 changes nothing.  Vectors are read by Python's own
pickle and must be those of transformers' MegatronBertModel, rounded to float16, to 2e-3 of the largest; what is retrieved by
them, and the answers that are found in it as DPR looks for them (a tokenizer of words by the expression of its
SimpleTokenizer, or re), must give the very lines that Megatron-LM's tasks/main.py prints.

Needs from PyPI: torch, transformers, regex, numpy (made with 2.15.0, 4.51.3, 2026.11.19 and 2.4.6).

Run:  scripts/compare-retrieval.py build/release/cmd
"""
import ast
import json
import os
import pathlib
import pickle
import random
import re
import subprocess
import sys
import tempfile
import unicodedata

os.environ["MT_DEVICE"] = "cpu"
import numpy  # noqa: E402
import regex  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
LENGTH, HIDDEN, TOP = 24, 32, 20
WORD = regex.compile(r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])", flags=regex.IGNORECASE + regex.UNICODE + regex.MULTILINE)


def call(*command):
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{command[0]}: exit code {run.returncode}: {run.stderr}")
    return run


def words_of(text):
    return [m.group().lower() for m in WORD.finditer(unicodedata.normalize("NFD", text))]


def has_answer(answers, text, match):
    if match == "regex":
        text = unicodedata.normalize("NFD", text)
        flags = re.IGNORECASE + re.UNICODE + re.MULTILINE
        return any(re.search(unicodedata.normalize("NFD", a), text, flags=flags) for a in answers)
    words = words_of(text)
    return any(words[i:i + len(a)] == a for a in map(words_of, answers) for i in range(len(words) - len(a) + 1))


def prepare(programs, folder):
    call(ROOT / "scripts/make-topics", folder / "topics", "--documents", 300)
    words = ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", folder / "topics/vocab.txt"]
    source = ["--quiet", "--input", folder / "topics/documents.jsonl"]
    call(programs / "mt-preprocess", *source, "--output-prefix", folder / "blocks", *words, "--split-sentences",
         "--lang", "en")
    call(programs / "mt-preprocess", *source, "--output-prefix", folder / "titles", "--json-keys", "title", *words)
    torch.manual_seed(1)
    vocabulary = (folder / "topics/vocab.txt").read_text().split("\n")[:-1]
    bert = transformers.MegatronBertForPreTraining(transformers.MegatronBertConfig(
        vocab_size=len(vocabulary), hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=4 * HIDDEN, max_position_embeddings=LENGTH, type_vocab_size=2, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, hidden_act="gelu", layer_norm_eps=1e-5, initializer_range=0.3))
    bert.save_pretrained(folder / "bert")
    call(programs / "mt-finetune", "ict", "--data-path", folder / "blocks_text_sentence", "--titles-data-path",
         folder / "titles_title_document", *words, "--bert-load", folder / "bert", "--seq-length", LENGTH,
         "--micro-batch-size", 2, "--train-iters", 1, "--lr", 1e-30, "--weight-decay", 0, "--split", "1,0,0",
         "--eval-iters", 0, "--quiet", "--save", folder / "ckpt")
    documents = [json.loads(line) for line in open(folder / "topics/documents.jsonl")]
    passages = []
    for i, document in enumerate(documents):
        text = document["text"].replace("the", 'the "old"', 1) if i % 3 == 0 else document["text"]
        passages.append((3 * i + 1, text, document["title"]))
    with open(folder / "evidence.tsv", "w") as out:
        print("id\ttext\ttitle", file=out)
        for i, text, title in passages:
            print(f'{i}\t"{text.replace(chr(34), 2 * chr(34))}"\t{title}', file=out)
    draw = random.Random(3)
    for name, count in (("dev", 40), ("test", 25)):
        with open(folder / f"{name}.csv", "w") as out:
            for _ in range(count):
                _, text, title = passages[draw.randrange(len(passages))]
                things = [w for w in text.replace(".", "").split() if w not in ("the", '"old"')]
                answers = draw.sample(things, 2) if draw.random() < 0.7 else [" ".join(text.replace(".", "").split()[2:5])]
                print(f"who has {title}?\t{answers!r}", file=out)
    return passages


def vectors(folder, tokenizer, texts):
    model = transformers.MegatronBertModel.from_pretrained(folder / "bert", add_pooling_layer=False).eval()
    found = []
    for ids in texts:
        ids = ids[:LENGTH - 1] + [tokenizer.sep_token_id]
        with torch.no_grad():
            found.append(model(torch.tensor([ids])).last_hidden_state[0, 0].numpy())
    return numpy.stack(found)


def expected_lines(folder, name, match, ids, embedded, passages, tokenizer):
    questions = [line.rstrip("\n").split("\t") for line in open(folder / f"{name.lower()}.csv")]
    tokens = [[tokenizer.cls_token_id] + tokenizer.convert_tokens_to_ids(tokenizer.tokenize(q)) for q, _ in questions]
    scores = vectors(folder, tokenizer, tokens) @ embedded.astype(numpy.float32).T
    texts = {i: text for i, text, _ in passages}
    hits = numpy.zeros(TOP, dtype=int)
    for row, (_, answers) in zip(scores, questions):
        best = [ids[i] for i in numpy.argsort(-row, kind="stable")[:TOP]]
        first = next((k for k, i in enumerate(best) if has_answer(ast.literal_eval(answers), texts[i], match)), TOP)
        hits[first:] += 1
    shares = [int(h) / len(questions) for h in hits]
    return [f"{name} SET RESULTS", f"topk-{TOP} documents hits {[int(h) for h in hits]}",
            f"top-k documents hits accuracy {shares}"] + [f"top-{k}: {100 * shares[k - 1]:.2f}" for k in (1, 5, 20)]


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        passages = prepare(programs, folder)
        tokenizer = transformers.BertTokenizer(str(folder / "topics/vocab.txt"))
        common = ["--ict-load", folder / "ckpt", "--evidence-data-path", folder / "evidence.tsv", "--embedding-path",
                  folder / "vectors.pkl", "--retriever-seq-length", LENGTH, "--threads", 2]
        call(programs / "mt-retro-index", "embed", *common)
        data = pickle.load(open(folder / "vectors.pkl", "rb"))["embed_data"]
        assert list(data) == [i for i, _, _ in passages]
        assert all(v.dtype == numpy.float16 and v.shape == (HIDDEN,) for v in data.values())
        got = numpy.stack(list(data.values()))

        def ids(text):
            return tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))

        expected = vectors(folder, tokenizer, [[tokenizer.cls_token_id] + ids(title) + [tokenizer.sep_token_id] + ids(text)
                                               for _, text, title in passages])
        worst = numpy.abs(got.astype(numpy.float64) - expected).max() / numpy.abs(expected).max()
        print(f"{len(data)} passages: vectors differ by {worst:.2g} of the largest number")
        failed = worst > 2e-3
        for match in ("string", "regex"):
            run = call(programs / "mt-eval", "retrieval", *common, "--qa-data-dev", folder / "dev.csv", "--qa-data-test",
                       folder / "test.csv", "--faiss-topk-retrievals", TOP, "--faiss-match", match,
                       "--retriever-report-topk-accuracies", 1, 5, 20)
            lines = [line for s in ("DEV", "TEST")
                     for line in expected_lines(folder, s, match, list(data), got, passages, tokenizer)]
            failed |= run.stdout.splitlines() != lines
            print(f"{match}: {'the same lines' if run.stdout.splitlines() == lines else 'other lines'}")
            for ours, theirs in zip(run.stdout.splitlines(), lines):
                if ours != theirs:
                    print(f"  {ours}\n  {theirs}")
        # What numpy pickles is read, whatever the protocol.
        for protocol in range(2, 6):
            pickle.dump({"embed_data": data}, open(folder / "vectors.pkl", "wb"), protocol=protocol)
            again = call(programs / "mt-eval", "retrieval", *common, "--qa-data-dev", folder / "dev.csv",
                         "--faiss-topk-retrievals", TOP, "--faiss-match", "regex", "--retriever-report-topk-accuracies", 1, 5, 20)
            same = again.stdout.splitlines() == lines[:6]
            failed |= not same
            print(f"protocol {protocol}: {'read' if same else 'other lines'}")
    sys.exit(bool(failed))


main()
