#!/usr/bin/env python3
"""Time steps of mt-pretrain's BERT, T5 and ViT on a GPU beside compiled transformers and a compiled twin without padding.

All of a text's train on the same samples, which `mt-preprocess samples` prints: of made-up documents of words drawn at random, whose
tokens number from --lengths' first to its second, each as likely.  Peers do what one would write instead: bf16 weights and
gradients, fp32 masters and fused AdamW, clipping, each layer and each head compiled by torch.compile, PyTorch's own
attention.  Every run is a process of its own; in a round all ways of a case take turns.

  bert    BERT-large, 512 tokens, 32 samples a step.  "mt": padded; "mt-packed": --pack-sequences, 32 rows.
          "transformers": BertForPreTraining, padded.  "varlen": the model of mt without a padded token, the samples
          of mt-packed's rows one after another through torch.nn.attention.varlen, which has no dropout; words of
          masked tokens alone.  "mt-packed-plain" is mt-packed without dropout of attention, beside which it stands.
  t5      T5-base (1.0: ReLU, relative positions, tied words), 512 and 128 tokens, 32 samples a step.  "mt";
          "transformers": T5ForConditionalGeneration; "mt-learned": learned positions, which transformers has not.
  vit     ViT-L/16, 64 images a step, without dropout.  "mt" reads and turns photographs of noise, 256 x 256 JPEG,
          meanwhile; peers have a tensor of pixels: "transformers", ViTForImageClassification compiled as a whole, and
          "transformers-layers", layer by layer.

Dropout of the others is 0.1.  Prints a line for each run, then one JSON: for each way milliseconds of a step (median of the rounds' medians)
and real tokens a second (encoder's and decoder's; no padding; of an image its patches and one more), and the ratios of tokens a second.

Needs from PyPI: torch, transformers, Pillow.
Run:  scripts/bench-encoders.py build/release/cmd [--cases bert,t5,vit] [--ways mt,varlen] [--lengths 64,512]
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

WARM_UP = 5
WORDS = 30522
EXTRA_IDS = 100
MOST = 8  # samples of a row
CASES = {
    "bert": {"layers": 24, "hidden": 1024, "heads": 16, "ffn": 4096, "batch": 32, "seq": 512},
    "t5": {"layers": 12, "hidden": 768, "heads": 12, "ffn": 3072, "batch": 32, "seq": 512, "decoder_seq": 128},
    "vit": {"layers": 24, "hidden": 1024, "heads": 16, "ffn": 4096, "batch": 64, "side": 224, "patch": 16, "classes": 1000},
}
TINY = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "batch": 4, "seq": 128}
TINY_OF = {"t5": {"decoder_seq": 32}, "vit": {"side": 32, "patch": 8, "classes": 4}}
PACKED = ["--pack-sequences"]
PLAIN = ["--attention-dropout", "0"]
RELATIVE = ["--position-embedding-type", "relative", "--relative-attention-num-buckets", "32",
            "--relative-attention-max-distance", "128"]
WAYS = {  # mt's options, or None for a peer
    "bert": {"mt": [], "mt-packed": PACKED, "mt-packed-plain": PACKED + PLAIN, "transformers": None, "varlen": None},
    "t5": {"mt": RELATIVE, "mt-learned": [], "transformers": None},
    "vit": {"mt": [], "transformers": None, "transformers-layers": None},
}
RATIOS = {
    "bert": [("mt", "transformers"), ("mt-packed", "transformers"), ("mt-packed-plain", "varlen")],
    "t5": [("mt", "transformers"), ("mt-learned", "transformers")],
    "vit": [("mt", "transformers"), ("mt", "transformers-layers")],
}


def run(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-4000:], sep="", file=sys.stderr)
        sys.exit(f"bench-encoders: exit code {done.returncode} of {' '.join(map(str, command))[:500]}")
    return done.stdout


class Work:
    """A folder with token files, and what programs are told of them and of a case."""

    def __init__(self, args, name, folder):
        self.args, self.name, self.folder, self.c = args, name, folder, case(args, name)
        self.words = f"{folder}/vocab.txt"
        self.text = f"{folder}/text_text_sentence"
        self.count = self.c["batch"] * (args.steps + WARM_UP)

    def make(self):
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."] + [f"w{k}" for k in range(WORDS - 6)]
        pathlib.Path(self.words).write_text("\n".join(names) + "\n")
        draw = random.Random(1)
        low, high = (int(x) for x in self.args.lengths.split(","))
        with open(f"{self.folder}/text.jsonl", "w") as file:
            for _ in range(3 * self.count):
                left, sentences = draw.randint(low, high) - 3, []  # [CLS], [SEP], [SEP]
                while left > 0:
                    length = min(left, draw.randint(8, 24))
                    sentences.append(" ".join(f"w{draw.randrange(WORDS - 6)}" for _ in range(length - 1)).upper() + ".")
                    left -= length
                file.write(json.dumps({"text": " ".join(sentences)}) + "\n")
        run([f"{self.args.programs}/mt-preprocess", "--quiet", "--split-sentences", "--lang", "en", "--workers", 8,
             "--input", f"{self.folder}/text.jsonl", "--output-prefix", f"{self.folder}/text", *self.tokenizer()])

    def tokenizer(self):
        return ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", self.words]

    def data(self):
        lengths = ["--seq-length", self.c["seq"]]
        if self.name == "t5":
            lengths = ["--encoder-seq-length", self.c["seq"], "--decoder-seq-length", self.c["decoder_seq"],
                       "--vocab-extra-ids", EXTRA_IDS]
        return ["--data-path", self.text, "--split", "100,0,0", *lengths]

    def samples(self, packed):
        """Lists by Megatron's names of fields; those of a row together."""
        lines = run([f"{self.args.programs}/mt-preprocess", "samples", "--dataset", self.name, "--samples", self.count, "--count",
                     self.count, "--json", *self.data(), *(PACKED if packed else [])]).splitlines()
        return [json.loads(line) for line in lines]

    def tokens_of_row(self, packed):
        return real_tokens(self.samples(packed))

    def mt(self, more, steps):
        c = self.c
        layers = ["--num-layers", c["layers"]]
        if self.name == "t5":
            layers = ["--encoder-num-layers", c["layers"], "--decoder-num-layers", c["layers"], "--normalization", "RMSNorm",
                      "--disable-bias-linear", "--relu", "--kv-channels", c["hidden"] // c["heads"]]
        precision = ["--device", "cpu"] if self.args.tiny else ["--device", "cuda", "--bf16"]
        return [f"{self.args.programs}/mt-pretrain", "--model-type", self.name, *precision, *self.data(), *self.tokenizer(),
                *layers, "--hidden-size", c["hidden"], "--num-attention-heads", c["heads"], "--ffn-hidden-size", c["ffn"],
                "--max-position-embeddings", c["seq"], "--micro-batch-size", c["batch"], "--global-batch-size", c["batch"],
                "--eval-iters", 0, "--lr", 1e-4, "--lr-decay-style", "constant", "--adam-beta2", 0.95, "--weight-decay", 0.1,
                "--train-iters", steps, "--quiet", "--json", *more]

    def milliseconds(self, more):
        events = [json.loads(line) for line in run(self.mt(more, self.args.steps + WARM_UP)).splitlines()]
        return 1000 * statistics.median([e["step_seconds"] for e in events if e["event"] == "step"][WARM_UP:])


class ImageWork(Work):
    """The same of images, of four classes."""

    def make(self):
        import numpy
        from PIL import Image
        draw = numpy.random.default_rng(1)
        for part in ("train", "valid"):
            for number in range(4 * self.c["batch"]):
                folder = pathlib.Path(f"{self.folder}/{part}/{number % 4}")
                folder.mkdir(parents=True, exist_ok=True)
                noise = Image.fromarray(draw.integers(0, 256, (32, 32, 3), dtype=numpy.uint8))
                noise.resize((256, 256)).save(folder / f"{number}.jpg")

    def samples(self, packed):
        import torch
        side = self.c["side"]
        pixels = torch.randn(self.c["batch"], 3, side, side)
        return [{"pixels": pixels[k % len(pixels)], "label": k % self.c["classes"]} for k in range(self.count)]

    def tokens_of_row(self, packed):
        return (self.c["side"] // self.c["patch"]) ** 2 + 1

    def mt(self, more, steps):
        c = self.c
        precision = ["--device", "cpu"] if self.args.tiny else ["--device", "cuda", "--bf16"]
        return [f"{self.args.programs}/mt-pretrain", "--model-type", "vit", "--vision-pretraining-type", "classify", *precision,
                "--data-path", f"{self.folder}/train", f"{self.folder}/valid", "--num-layers", c["layers"], "--hidden-size", c["hidden"],
                "--num-attention-heads", c["heads"], "--ffn-hidden-size", c["ffn"], "--img-h", c["side"], "--img-w", c["side"],
                "--patch-dim", c["patch"], "--num-classes", c["classes"], "--hidden-dropout", 0, "--attention-dropout", 0,
                "--micro-batch-size", c["batch"], "--global-batch-size", c["batch"], "--eval-iters", 0, "--lr", 1e-4,
                "--lr-decay-style", "constant", "--adam-beta2", 0.95, "--weight-decay", 0.1, "--train-iters", steps, "--quiet", "--json",
                *more]


def work_of(args, name, folder):
    return (ImageWork if name == "vit" else Work)(args, name, folder)


def case(args, name):
    return CASES[name] | (TINY | TINY_OF.get(name, {}) if args.tiny else {})


def real_tokens(samples):
    """Mean of a sample or row."""
    def of(sample):
        return sum(sum(sample.get(name, ())) for name in ("padding_mask", "enc_mask", "dec_mask"))
    return statistics.mean(sum(map(of, s.get("row", [s]))) for s in samples)


def tensors(samples, names, device):
    import torch
    return [torch.tensor([s[name] for s in samples], device=device) for name in names]


def bert_of_transformers(c, device):
    import transformers
    config = transformers.BertConfig(
        vocab_size=WORDS + -WORDS % 128, hidden_size=c["hidden"], num_hidden_layers=c["layers"],
        num_attention_heads=c["heads"], intermediate_size=c["ffn"], max_position_embeddings=c["seq"],
        attn_implementation="sdpa")
    model = transformers.BertForPreTraining(config)
    for part in (model.bert.embeddings, *model.bert.encoder.layer, model.cls):
        part.compile()

    def batch(samples):
        ids, types, labels, mask, order = tensors(samples, ("text", "types", "labels", "padding_mask", "is_random"), device)
        return {"input_ids": ids, "token_type_ids": types, "attention_mask": mask, "next_sentence_label": order,
                "labels": labels.masked_fill(labels < 0, -100)}

    return model, batch, lambda fields: model(**fields).loss


def t5_of_transformers(c, device):
    import torch
    import torch.nn.functional as F
    import transformers
    config = transformers.T5Config(
        vocab_size=WORDS + EXTRA_IDS + 2 + -(WORDS + EXTRA_IDS + 2) % 128, d_model=c["hidden"],
        d_kv=c["hidden"] // c["heads"], d_ff=c["ffn"], num_layers=c["layers"], num_heads=c["heads"], dropout_rate=0.1,
        feed_forward_proj="relu", use_cache=False)
    model = transformers.T5ForConditionalGeneration(config)
    for part in (*model.encoder.block, *model.decoder.block):
        part.compile()

    @torch.compile
    def loss(logits, labels):
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=-1)

    def batch(samples):
        return tensors(samples, ("text_enc", "enc_mask", "text_dec", "labels"), device)

    def forward(fields):
        ids, mask, decoder_ids, labels = fields
        return loss(model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, use_cache=False).logits, labels)

    return model, batch, forward


def bert_without_padding(c, device):
    """mt's BERT on rows of samples, one after another."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.nn.attention.varlen import varlen_attn

    hidden, heads, vocab = c["hidden"], c["heads"], WORDS + -WORDS % 128
    total, most = c["batch"] * c["seq"], c["batch"] * MOST
    masked = c["batch"] * (c["seq"] * 3 // 20 + MOST)  # at most so many: shapes are the same in all steps

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.fc1, self.fc2 = nn.Linear(hidden, c["ffn"]), nn.Linear(c["ffn"], hidden)

        def forward(self, x, ends):
            q, k, v = self.qkv(self.norm1(x)).view(len(x), 3, heads, hidden // heads).unbind(1)
            o = varlen_attn(q, k, v, ends, ends, c["seq"], c["seq"])
            x = x + F.dropout(self.proj(o.flatten(1)), 0.1)
            return x + F.dropout(self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh")), 0.1)

    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(c["seq"], hidden)
            self.types = nn.Embedding(2, hidden)

        def forward(self, ids, positions, types):
            return F.dropout(self.words(ids) + self.positions(positions) + self.types(types), 0.1)

    class Heads(nn.Module):
        def __init__(self, words):
            super().__init__()
            self.last, self.norm, self.words = nn.LayerNorm(hidden), nn.LayerNorm(hidden), words
            self.dense, self.pooler = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
            self.order, self.bias = nn.Linear(hidden, 2), nn.Parameter(torch.zeros(vocab))

        def forward(self, x, places, labels, firsts, order):
            x = self.last(x)
            logits = F.linear(self.norm(F.gelu(self.dense(x[places]))), self.words.weight, self.bias)
            classes = self.order(torch.tanh(self.pooler(x[firsts])))
            return (F.cross_entropy(logits.float(), labels, ignore_index=-1) +
                    F.cross_entropy(classes.float(), order, ignore_index=-1))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = Embedding()
            self.layers = nn.ModuleList(Layer() for _ in range(c["layers"]))
            self.heads = Heads(self.embedding.words)

        def forward(self, ids, positions, types, ends, *of_heads):
            x = self.embedding(ids, positions, types)
            for layer in self.layers:
                x = layer(x, ends)
            return self.heads(x, *of_heads)

    model = Model()
    for part in (model.embedding, *model.layers, model.heads):
        part.compile()

    def batch(rows):
        ids, positions, types, ends, places, labels, firsts, order = [], [], [], [0], [], [], [], []
        for sample in (s for row in rows for s in row["row"]):
            length = sum(sample["padding_mask"])
            firsts.append(len(ids))
            order.append(sample["is_random"])
            places += [len(ids) + k for k, label in enumerate(sample["labels"]) if label >= 0]
            labels += [label for label in sample["labels"] if label >= 0]
            ids += sample["text"][:length]
            types += sample["types"][:length]
            positions += range(length)
            ends.append(len(ids))
        assert len(ids) <= total and len(places) <= masked and len(ends) <= most + 1

        def filled(values, size, value=0):
            return torch.tensor(values + [value] * (size - len(values)), device=device)

        return (filled(ids, total), filled(positions, total), filled(types, total),
                filled(ends, most + 1, ends[-1]).int(), filled(places, masked), filled(labels, masked, -1),
                filled(firsts, most), filled(order, most, -1))

    return model, batch, lambda fields: model(*fields)


def vit_of_transformers(c, device, by_layers=False):
    import torch
    import transformers
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=c["hidden"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"], intermediate_size=c["ffn"],
        image_size=c["side"], patch_size=c["patch"], num_labels=c["classes"], attn_implementation="sdpa"))
    if by_layers:
        for part in (model.vit.embeddings, *getattr(model.vit, "encoder", model.vit).get_submodule("layers")):
            part.compile()
    else:
        model.compile()

    def batch(samples):
        return {"pixel_values": torch.stack([sample["pixels"] for sample in samples]).to(device, torch.bfloat16),
                "labels": torch.tensor([sample["label"] for sample in samples], device=device)}

    return model, batch, lambda fields: model(**fields).loss


def vit_by_layers(c, device):
    return vit_of_transformers(c, device, by_layers=True)


PEERS = {("vit", "transformers"): vit_of_transformers, ("vit", "transformers-layers"): vit_by_layers,
         ("bert", "transformers"): bert_of_transformers, ("bert", "varlen"): bert_without_padding,
         ("t5", "transformers"): t5_of_transformers}


def peer(args):
    """Prints milliseconds of each step."""
    import torch
    name, way = args.cases, args.ways
    device = "cpu" if args.tiny else "cuda"
    c = case(args, name)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model, batch, loss = PEERS[name, way](c, device)
    model.to(device).bfloat16().train()
    weights = list(model.parameters())
    masters = [weight.detach().float().requires_grad_() for weight in weights]
    optimizer = torch.optim.AdamW(masters, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=not args.tiny)
    work = work_of(args, name, args.peer)
    samples = work.samples(way == "varlen")
    parts = [batch(samples[k:k + c["batch"]]) for k in range(0, len(samples), c["batch"])]
    times = []
    for fields in parts:
        if not args.tiny:
            torch.cuda.synchronize()
        start = time.perf_counter()
        loss(fields).backward()
        for weight, master in zip(weights, masters):
            master.grad, weight.grad = weight.grad.float(), None
        torch.nn.utils.clip_grad_norm_(masters, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_copy_(weights, masters)
        if not args.tiny:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    print(json.dumps({"ms": 1000 * statistics.median(times[WARM_UP:]), "first_seconds": times[0]}))


def measure(args, name, folder):
    work = work_of(args, name, folder)
    work.make()
    ways = {way: more for way, more in WAYS[name].items() if not args.ways or way in args.ways.split(",")}
    ours = [more for more in ways.values() if more is not None]
    if ours and not args.tiny:  # a run of hours begins with a search for the fastest matrix products, which all ways share
        run(work.mt([*ours[0], "--exit-interval", "12"], 100000))
    rounds = []
    for _ in range(args.rounds):
        rounds.append({})
        for way, more in ways.items():
            again = [sys.executable, __file__, args.programs, "--cases", name, "--ways", way, "--steps", args.steps,
                     "--peer", folder, *(["--tiny"] if args.tiny else [])]
            start = time.perf_counter()
            rounds[-1][way] = work.milliseconds(more) if more is not None else json.loads(run(again).splitlines()[-1])["ms"]
            print(f"{name} {way}: {rounds[-1][way]:.2f} ms, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    a_row = {packed: work.tokens_of_row(packed) for packed in ([False, True] if name == "bert" else [False])}
    ms = {way: statistics.median(times[way] for times in rounds) for way in ways}
    tokens = {way: work.c["batch"] * a_row["packed" in way or way == "varlen"] / ms[way] * 1000 for way in ways}
    return {"rounds_ms": rounds, "ms": ms, "real_tokens_per_second": tokens,
            "ratio": {f"{ours} / {theirs}": tokens[ours] / tokens[theirs] for ours, theirs in RATIOS[name]
                      if ours in ways and theirs in ways}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", help="the folder with mt-pretrain and mt-preprocess")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--ways", help="of a case, separated by commas; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lengths", default="64,512", help="least and most tokens of a document")
    parser.add_argument("--tiny", action="store_true", help="toys on the CPU: does the script work?")
    parser.add_argument("--peer", metavar="FOLDER", help="time one way alone, in this process, on data made before")
    args = parser.parse_args()
    if args.peer:
        return peer(args)
    result = {}
    for name in args.cases.split(","):
        with tempfile.TemporaryDirectory() as folder:
            result[name] = measure(args, name, folder)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
