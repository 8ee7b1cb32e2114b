#!/usr/bin/env python3
"""Compares losses and gradients of transformers' T5, Megatron-BERT, BERT and RoBERTa with those of mt-pretrain over the
same samples.

Each model below is tiny and random.  mt-convert makes a checkpoint of it, of which mt-pretrain gives the losses of
sixteen samples of testdata's stories; transformers gives them in fp64 of what `mt-preprocess samples` prints of the
same samples.  They must be equal to 1e-5.  Then mt-pretrain takes a step of SGD over sixteen samples in fp64, and
mt-convert converts what came of it: what each weight has changed by is the learning rate times its gradient, which must
be that of transformers to 1e-5 of the largest of its tensor.

With --learn TEXT both also learn from TEXT, a file of WikiText-2, in 4,000 words made of it: 500 steps from the same
weights over the same samples, those of transformers with PyTorch's AdamW.  Over each fifty steps the mean losses must be
apart by less than what is left of the samples' own scatter in such a mean.

Needs from PyPI: torch, transformers (tried with 2.15.0, and 4.51.3 and 5.24.0), safetensors.

Run:  scripts/compare-encoders.py build/release/cmd [--learn TEXT] [CASE ...]
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

os.environ["MT_DEVICE"] = "cpu"
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

torch.set_num_threads(1)

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
T5 = dict(d_model=64, d_kv=16, d_ff=96, num_layers=2, num_decoder_layers=3, num_heads=4,
          dropout_rate=0, relative_attention_num_buckets=8, relative_attention_max_distance=20, pad_token_id=0,
          eos_token_id=242, decoder_start_token_id=241)
T5_FLAGS = """--model-type t5 --encoder-num-layers 2 --decoder-num-layers 3 --kv-channels 16 --ffn-hidden-size 96
  --normalization RMSNorm --norm-epsilon 1e-6 --disable-bias-linear
  --position-embedding-type relative --relative-attention-num-buckets 8 --relative-attention-max-distance 20
  --vocab-extra-ids 100 --encoder-seq-length 40 --decoder-seq-length 24"""
BERT = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
            max_position_embeddings=40, type_vocab_size=2, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
            layer_norm_eps=1e-5, hidden_act="gelu")
BERT_FLAGS = """--model-type bert --num-layers 3 --ffn-hidden-size 96 --seq-length 40 --no-bias-gelu-fusion"""
BATCH = 16
FLAGS = f"""--hidden-size 64 --num-attention-heads 4 --max-position-embeddings 40 --make-vocab-size-divisible-by 1
  --hidden-dropout 0 --attention-dropout 0 --micro-batch-size {BATCH} --global-batch-size {BATCH} --finetune --load ours
  --data-path text_text_sentence"""
RATE = 2.0**-10
STEP = f"--train-iters 1 --eval-iters 1 --lr {RATE} --lr-decay-style constant --weight-decay 0 --clip-grad 0 " \
       "--optimizer sgd --sgd-momentum 0"
STEPS, WINDOW = 500, 50
LEARNING = f"--train-iters {STEPS} --eval-iters 0 --lr 2e-3 --lr-decay-style cosine --min-lr 2e-4 --lr-warmup-iters 50"


def make_t5(words, mlp, tied=False):
    config = T5 | dict(vocab_size=words + 2 + 100, feed_forward_proj=mlp, tie_word_embeddings=tied)  # [BOS] and [EOS]
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**config))


def losses_of_t5(model, sample):
    logits = model(input_ids=sample("text_enc"), attention_mask=sample("enc_mask"),
                   decoder_input_ids=sample("text_dec")).logits
    return [F.cross_entropy(logits.transpose(1, 2), sample("labels"), ignore_index=-1)]


def make_bert(words):
    return transformers.MegatronBertForPreTraining(transformers.MegatronBertConfig(**BERT, vocab_size=words + 2))


def losses_of_bert(model, sample):
    output = model(input_ids=sample("text"), attention_mask=sample("padding_mask"), token_type_ids=sample("types"))
    return [F.cross_entropy(output.prediction_logits.transpose(1, 2), sample("labels"), ignore_index=-1),
            F.cross_entropy(output.seq_relationship_logits, sample("is_random"))]


def make_first_bert(words):
    return transformers.BertForPreTraining(transformers.BertConfig(**BERT, vocab_size=words + 2))


def make_masked_bert(words):
    return transformers.BertForMaskedLM(transformers.BertConfig(**BERT, vocab_size=words + 2))


def make_roberta(words):
    """Of one type of tokens, and whose positions begin at 2."""
    sizes = BERT | dict(max_position_embeddings=42, type_vocab_size=1, pad_token_id=1, vocab_size=words + 2)
    model = transformers.RobertaForMaskedLM(transformers.RobertaConfig(**sizes))
    model.roberta.embeddings.word_embeddings.padding_idx = None  # which is a word here, and learns
    return model


def losses_of_words(model, sample):
    ids, shown = sample("text"), sample("padding_mask")
    first = 2 if model.config.model_type == "roberta" else 0
    places = (torch.arange(ids.shape[1]) + first).expand_as(ids)  # mt's padding is another word
    output = model(input_ids=ids, attention_mask=shown, position_ids=places)
    return [F.cross_entropy(output.logits.transpose(1, 2), sample("labels"), ignore_index=-1)]


UNTIED = " --untie-embeddings-and-output-weights"
CASES = {
    "t5-1.0": (lambda words: make_t5(words, "relu", tied=True), losses_of_t5, T5_FLAGS + " --relu"),
    "t5-1.1": (lambda words: make_t5(words, "gated-gelu"), losses_of_t5, T5_FLAGS + " --gated-linear-unit" + UNTIED),
    "t5-swiglu": (lambda words: make_t5(words, "gated-silu"), losses_of_t5, T5_FLAGS + " --swiglu" + UNTIED),
    "megatron-bert": (make_bert, losses_of_bert, BERT_FLAGS),
    "bert": (make_first_bert, losses_of_bert, BERT_FLAGS),
    "bert-masked": (make_masked_bert, losses_of_words, BERT_FLAGS + " --bert-no-binary-head"),
    "roberta": (make_roberta, losses_of_words, BERT_FLAGS + " --bert-no-binary-head"),
}


PARTS = {"train": "100,0,0", "valid": "0,100,0"}  # how each is all there is


def draw(model):
    with torch.no_grad():
        for name, weights in model.named_parameters():
            norm = re.search(r"(layer_?norm|\.ln|LayerNorm)\.weight$", name) is not None
            weights.copy_(norm + torch.randn_like(weights) * (1 if "relative" in name else 0.1))


class Work:
    """A folder in which there are token files of a text, a model of a case, and mt's checkpoint of it."""

    def __init__(self, programs, case, folder, text, words):
        make, self.losses_of, flags = CASES[case]
        self.programs, self.folder = programs, folder
        torch.manual_seed(1)
        self.model = make(len(pathlib.Path(words).read_text().splitlines()))
        tied = self.model.config.tie_word_embeddings  # as transformers 5.24 makes those of every T5
        self.flags = flags.replace(UNTIED, "").split() if tied else flags.split()
        self.run("mt-preprocess", "--split-sentences", "--lang", "en", "--tokenizer-type", "BertWordPieceLowerCase",
                 "--vocab-file", words, "--input", text, "--output-prefix", "text")

    def run(self, program, *arguments):
        return subprocess.run([f"{self.programs}/{program}", *arguments], cwd=self.folder, check=True,
                              capture_output=True, text=True)

    def convert(self):
        self.model.save_pretrained(f"{self.folder}/theirs")
        self.run("mt-convert", "theirs", "ours")

    def convert_back(self):
        """From `after` to `back`, without the bias that Megatron-LM gives a T5's tied words, and transformers does not."""
        self.run("mt-convert", "after", "plain", "--ckpt-format", "torch")
        file = next(pathlib.Path(self.folder, "plain").rglob("model_optim_rng.pt"))
        state = torch.load(file, weights_only=False)
        for name, value in state["model"].items():
            if name in ("output_layer.bias", "lm_head.output_layer.bias") and self.flags[1] == "t5":
                value.zero_()
        torch.save(state, file)
        (file.parent.parent / "mt-manifest.json").unlink()  # which has the file's hash
        self.run("mt-convert", "plain", "back", "--saver", "hf")

    def pretrain(self, part, *options):
        return self.run("mt-pretrain", "--split", PARTS[part], *options, *self.flags, *FLAGS.split())

    def samples(self, part, count):
        """What mt-pretrain reads, by Megatron's names of fields."""
        known = ("--seq-length", "--encoder-seq-length", "--decoder-seq-length", "--vocab-extra-ids")
        lengths = [word for pair in zip(self.flags, self.flags[1:]) if pair[0] in known for word in pair]
        lengths += [flag for flag in self.flags if flag == "--bert-no-binary-head"]
        lines = self.run("mt-preprocess", "samples", "--dataset", self.flags[1], "--data-path", "text_text_sentence",
                         "--split", PARTS[part], "--part", part, "--samples", str(count), "--count", str(count), "--json",
                         *lengths).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def losses(self, samples):
        return self.losses_of(self.model, lambda name: torch.tensor([sample[name] for sample in samples]))


def squares(name, config):
    """What a gradient is of the change that conversion makes of one: of a T5 it multiplies queries by the root of their
    width and, where transformers scales what words are compared with, the decoder's last norm by 1 / that of the model's."""
    if re.search(r"(Self|EncDec)Attention\.q\.weight$", name):
        return T5["d_kv"]
    scales = getattr(config, "scale_decoder_outputs", config.tie_word_embeddings)
    return 1 / T5["d_model"] if scales and name == "decoder.final_layer_norm.weight" else 1


def worst_gradient(model, before, after):
    """The largest difference, over the largest of its tensor."""
    worst = 0
    for name, weights in model.named_parameters():
        ours = (before[name].double() - after[name].double()) / RATE * squares(name, model.config)
        largest = max(weights.grad.abs().max().item(), 1e-6)  # those of biases of keys are zeros
        worst = max(worst, (ours - weights.grad).abs().max().item() / largest)
    return worst


def compare(programs, name):
    with tempfile.TemporaryDirectory() as folder:
        work = Work(programs, name, folder, f"{TESTDATA}/stories/stories.jsonl", f"{TESTDATA}/wordpiece/vocab.txt")
        model = work.model.eval()
        draw(model)
        work.convert()
        model.double()
        log = work.pretrain("valid", "--skip-train", *STEP.split())
        ours = [float(loss) for loss in re.findall(r"loss value: (\S+)", log.stdout + log.stderr)]
        theirs = work.losses(work.samples("valid", BATCH))
        loss = max(abs(a - b.item()) for a, b in zip(ours, theirs, strict=True))
        work.pretrain("train", "--dtype", "fp64", "--save", "after", *STEP.split())
        work.convert_back()
        sum(work.losses(work.samples("train", BATCH))).backward()
        gradient = worst_gradient(model, load_file(f"{folder}/theirs/model.safetensors"),
                                  load_file(f"{folder}/back/model.safetensors"))
    good = max(loss, gradient) <= 1e-5
    print(f"{name}: losses {' '.join(f'{each:.6f}' for each in ours)}; largest difference of losses {loss:.1e}, of "
          f"gradients {gradient:.1e}{'' if good else '  NOT EQUAL'}", flush=True)
    return good


def write_articles(text, path):
    """A JSON line for each article of a file of WikiText's."""
    articles = re.split(r"^ = [^=].*[^=] = $", pathlib.Path(text).read_text(), flags=re.MULTILINE)
    with open(path, "w") as out:
        for article in filter(str.strip, articles):
            out.write(json.dumps({"text": " ".join(article.split())}) + "\n")


def steps_of_twin(work, rates):
    """The losses of PyTorch's steps, which are of the weights that mt-convert makes of them: what it divides by a root
    steps by as much less, and has gradients that are larger by as much."""
    groups = []
    for name, weights in work.model.named_parameters():
        root = squares(name, work.model.config) ** 0.5
        groups.append(dict(params=[weights], root=root, weight_decay=0.01 * root if weights.dim() > 1 else 0))
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8)
    samples = work.samples("train", STEPS * BATCH)
    for step, rate in enumerate(rates):
        losses = work.losses(samples[step * BATCH : (step + 1) * BATCH])
        optimizer.zero_grad()
        sum(losses).backward()
        norm = sum((group["params"][0].grad.norm() / group["root"]) ** 2 for group in optimizer.param_groups) ** 0.5
        for group in optimizer.param_groups:
            group["lr"] = rate / group["root"]
            group["params"][0].grad *= min(1, 1 / (norm + 1e-6))
        optimizer.step()
        yield [loss.item() for loss in losses]


def learn(programs, name, text):
    with tempfile.TemporaryDirectory() as folder:
        articles = f"{folder}/articles.jsonl"
        write_articles(text, articles)
        subprocess.run([f"{programs}/mt-preprocess", "vocab", "--quiet", "--tokenizer-type", "BertWordPieceLowerCase",
                        "--vocab-size", "4000", "--input", articles, "--output-dir", folder], check=True)
        work = Work(programs, name, folder, articles, f"{folder}/vocab.txt")
        work.convert()
        if work.flags[1] == "t5" and work.model.config.tie_word_embeddings:  # to whose words Megatron-LM gives a bias
            work.model.lm_head.bias = torch.nn.Parameter(torch.zeros(work.model.config.vocab_size))
        work.pretrain("train", "--quiet", "--save", "learnt", *LEARNING.split())
        steps = [json.loads(line) for line in open(f"{folder}/learnt/run.jsonl")]
        steps = [step for step in steps if step["event"] == "step"]
        theirs = list(steps_of_twin(work, [step["lr"] for step in steps]))
    ours = [[step[loss] for loss in ("loss", "sop_loss") if loss in step] for step in steps]
    worst, good = 0, len(ours) == STEPS
    for begin in range(0, STEPS, WINDOW):
        for term in range(len(ours[0])):
            a, b = ([step[term] for step in steps[begin : begin + WINDOW]] for steps in (ours, theirs))
            scatter = statistics.stdev(b) / WINDOW**0.5
            worst = max(worst, abs(statistics.mean(a) - statistics.mean(b)) / scatter)
    good = good and worst < 1
    first, last = (" ".join(f"{statistics.mean(step[0] for step in steps[at]):.4f}" for steps in (ours, theirs))
                   for at in (slice(0, WINDOW), slice(STEPS - WINDOW, STEPS)))
    print(f"{name}: {STEPS} steps on WikiText-2, ours and PyTorch's: mean loss of the first {WINDOW} {first}, of the last "
          f"{last}; largest difference {worst:.2f} of the scatter of a mean{'' if good else '  NOT EQUAL'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", help="folder of mt-preprocess, mt-convert and mt-pretrain")
    parser.add_argument("--learn", metavar="TEXT", help="learn from this file of WikiText-2, too")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default all")
    args = parser.parse_args()
    programs = pathlib.Path(args.programs).resolve()
    cases = args.cases or list(CASES)
    results = [compare(programs, name) for name in cases]
    if args.learn:
        results += [learn(programs, name, pathlib.Path(args.learn).resolve()) for name in cases]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
