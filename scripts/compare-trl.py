#!/usr/bin/env python3
"""Compare twenty steps of mt-finetune sft with those of TRL's SFTTrainer, on the CPU in float32.

A tiny Llama and a tiny Qwen3 with the tokenizer of testdata/gpt2_bpe and a chat template with a generation block
learn 80 conversations of one or two turns, four a step, in order, with a constant learning rate, by the likelihood of
what the assistant says and by dynamic finetuning's loss (dft).  Losses must agree to 1e-5 and gradient norms to 1e-4; the weights at the end are compared, too, to 1e-4.

  --program PATH   also run mt-finetune (its folder on $PATH has mt-convert), and compare
  --keep FOLDER    write the models, the conversations and TRL's numbers there: testdata/trl is made so

Needs from PyPI: trl, transformers, torch (tried with 1.16.0, 5.24.0, 2.15.0).
Run:  scripts/compare-trl.py --program build/release/cmd/mt-finetune
      scripts/compare-trl.py --keep testdata/trl
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
import trl
from datasets import Dataset
from trl_recording import in_order

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
STEPS, BATCH, LENGTH = 20, 4, 128
TEMPLATE = """{% for m in messages %}{% if m.role == 'assistant' %}{{ 'Assistant: ' }}{% generation %}\
{{ m.content + eos_token }}{% endgeneration %}{{ '\\n' }}{% else %}{{ m.role + ': ' + m.content + '\\n' }}{% endif %}\
{% endfor %}{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}"""
OPTIONS = ["--seq-length", str(LENGTH), "--micro-batch-size", "2", "--global-batch-size", str(BATCH), "--packing", "none",
           "--no-shuffle", "--valid-split", "0", "--lr", "1e-3", "--lr-decay-style", "constant", "--lr-warmup-fraction",
           "0", "--train-iters", str(STEPS), "--dtype", "fp32", "--device", "cpu"]


def conversations():
    stories = [json.loads(line)["text"].split(". ") for line in open(REPOSITORY / "testdata/stories/stories.jsonl")]
    choose = random.Random(1)
    for _ in range(STEPS * BATCH):
        messages = [{"role": "system", "content": "Be brief."}] if choose.random() < 0.3 else []
        for _ in range(choose.randint(1, 2)):
            messages.append({"role": "user", "content": choose.choice(["Who?", "What then?", "And?"])})
            messages.append({"role": "assistant", "content": choose.choice(choose.choice(stories))[:24].strip()})
        yield {"messages": messages}


def make_folder(kind, folder):
    sizes = dict(vocab_size=380, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 intermediate_size=32, max_position_embeddings=LENGTH, bos_token_id=379, eos_token_id=379,
                 pad_token_id=None, initializer_range=0.1)
    config = transformers.LlamaConfig(**sizes) if kind == "llama" else \
        transformers.Qwen3Config(**sizes, head_dim=8, tie_word_embeddings=True)
    torch.manual_seed(7)
    transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(folder)
    words = REPOSITORY / "testdata/gpt2_bpe"
    tokenizer = transformers.GPT2TokenizerFast(str(words / "vocab.json"), str(words / "merges.txt"),
                                               pad_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)


Recording = in_order(trl.SFTTrainer)


def by_trl(folder, scratch, loss):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    config = trl.SFTConfig(
        output_dir=scratch, per_device_train_batch_size=BATCH, max_steps=STEPS, max_length=LENGTH, learning_rate=1e-3,
        lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95,
        adam_epsilon=1e-8, max_grad_norm=1.0, **({} if loss == "nll" else {"loss_type": loss}), packing=False, assistant_only_loss=True, logging_steps=1,
        save_strategy="no", report_to=[], use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    trainer = Recording(model=model, args=config, processing_class=tokenizer,
                        train_dataset=Dataset.from_list(list(conversations())))
    trainer.losses = []
    trainer.train()
    norms = [float(entry["grad_norm"]) for entry in trainer.state.log_history if "grad_norm" in entry]
    return trainer.losses, norms, {name: p.detach() for name, p in model.named_parameters()}


def by_program(program, folder, lines, scratch, loss):
    save = f"{scratch}/save"
    run = subprocess.run([program, "sft", "--load", folder, "--train-data", lines, "--save", save, "--json", "--quiet",
                          "--loss", loss, *OPTIONS], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    steps = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]
    convert = str(pathlib.Path(program).parent / "mt-convert")
    subprocess.run([convert, "--saver", "hf", "--quiet", save, f"{scratch}/hf"], check=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(f"{scratch}/hf", dtype=torch.float32)
    return [e["loss"] for e in steps], [e["grad_norm"] for e in steps], dict(model.named_parameters())


def write_golden(path, losses, norms):
    with open(path, "w", encoding="ascii") as golden:
        golden.write(f"# scripts/compare-trl.py; trl {trl.__version__}, transformers {transformers.__version__}, torch "
                     f"{torch.__version__}: losses, gradient norms\n")
        golden.writelines(f"{loss:.8f} {norm:.7f}\n" for loss, norm in zip(losses, norms, strict=True))


def differ(what, got, expected):
    losses, norms, weights = expected
    apart = [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in ((got[0], losses), (got[1], norms))]
    apart.append(max((got[2][name] - weight).abs().max().item() for name, weight in weights.items()))
    print(f"{what}: {STEPS} steps, losses {losses[0]:.4f} to {losses[-1]:.4f}; largest differences: "
          f"loss {apart[0]:.1e}, norm {apart[1]:.1e}, weight {apart[2]:.1e}")
    return apart[0] > 1e-5 or apart[1] > 1e-4 or apart[2] > 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program")
    parser.add_argument("--keep")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # which such models are fastest with
    differs = False
    with tempfile.TemporaryDirectory() as top:
        keep = pathlib.Path(args.keep or f"{top}/keep")
        os.makedirs(keep, exist_ok=True)
        lines = keep / "conversations.jsonl"
        lines.write_text("".join(json.dumps(line) + "\n" for line in conversations()))
        for kind in ("llama", "qwen3"):
            folder, scratch = str(keep / kind), f"{top}/{kind}"
            shutil.rmtree(folder, ignore_errors=True)
            make_folder(kind, folder)
            for loss in ("nll", "dft"):
                expected = by_trl(folder, f"{scratch}/trl-{loss}", loss)
                write_golden(keep / (f"{kind}.golden" if loss == "nll" else f"{kind}-{loss}.golden"), *expected[:2])
                if args.program:
                    got = by_program(args.program, folder, str(lines), f"{scratch}/{loss}", loss)
                    differs |= differ(f"{kind}, {loss}", got, expected)
    sys.exit(differs)


if __name__ == "__main__":
    main()
