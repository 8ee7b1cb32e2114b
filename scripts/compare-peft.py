#!/usr/bin/env python3
"""Compare adapters of mt-finetune sft with those of PEFT, which TRL's SFTTrainer trains, on the CPU in float32.

The models and conversations of compare-trl.py, with adapters of rank 4 on every linear layer, of a model of experts on those
of attention, of a Nemotron-H on all but out_proj, of which PEFT refuses them, plain, rank-stabilised and of DoRA, whose A and B are random numbers.  Of twenty steps losses must agree to 1e-5 and gradient norms to
1e-4.  The adapter that mt-finetune saves must load in PEFT, and the merged model in transformers, with the logits of
what TRL trained, to 1e-4, and with each other's to 1e-5.

A Llama of 64 channels is taught with its linear layers' weights rounded to bitsandbytes' NF4 with double quantisation, too:
TRL's as bitsandbytes makes them and back again, in float32, and ours by --quantize-base nf4, plain and of DoRA.  These are
compared with their base as it was: what is saved is its adapter.

With alpha 8 the rank-stabilised one is multiplied by 4: its gradients are so steep that after twenty steps in float32
PEFT's own norms are 8e-4 from those in float64, and ours are as far.  Both are compared in float64, where transformers
computes all but norms, angles and the loss, which are replaced here: to 1e-8.

  --program PATH   also run mt-finetune and compare
  --keep FOLDER    write the adapters and TRL's numbers there: testdata/trl is made so

Needs from PyPI: trl, peft, transformers, torch, bitsandbytes (tried with 1.16.0, 0.21.2, 5.24.0, 2.15.0, 0.50.2).
Run:  scripts/compare-peft.py --program build/release/cmd/mt-finetune
      scripts/compare-peft.py --keep testdata/trl
"""
import argparse
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import bitsandbytes.functional
import peft
import torch
import transformers
import trl
from datasets import Dataset

spec = importlib.util.spec_from_file_location("compare_trl", pathlib.Path(__file__).parent / "compare-trl.py")
compare_trl = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare_trl)
FORMS = {"llama-lora": ("llama", {}), "qwen3-lora": ("qwen3", {}),
         "llama-rslora": ("llama", {"use_rslora": True, "lora_alpha": 4}),
         "qwen3-dora": ("qwen3", {"use_dora": True}),
         "wide-qlora": ("wide", {}), "wide-qdora": ("wide", {"use_dora": True}),
         "bamba-lora": ("bamba", {}),
         "nemotron_h-lora": ("nemotron_h", {"target_modules": ["in_proj", "up_proj", "down_proj", *(f"{x}_proj" for x in "qkvo")]}),
         "qwen3_moe-lora": ("qwen3_moe", {"target_modules": [f"{x}_proj" for x in "qkvo"]})}


STEEP = "llama-rslora-steep"  # llama-rslora's A and B


def base_of(folder, dtype=torch.float32, rounded=False):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    for name, module in model.named_modules():
        if rounded and isinstance(module, torch.nn.Linear) and name != "lm_head":
            codes, state = bitsandbytes.functional.quantize_4bit(module.weight.data, quant_type="nf4", blocksize=64,
                                                                 compress_statistics=True)
            module.weight.data = bitsandbytes.functional.dequantize_4bit(codes, state)
    return model


def is_rounded(form):
    return "-q" in form


def make_adapter(base, settings, folder, rounded=False):
    torch.manual_seed(11)
    config = peft.LoraConfig(r=4, task_type="CAUSAL_LM", init_lora_weights=False,
                             **{"target_modules": "all-linear", "lora_alpha": 8} | settings)
    peft.get_peft_model(base_of(base, rounded=rounded), config).save_pretrained(folder)
    (pathlib.Path(folder) / "README.md").unlink(missing_ok=True)
    path = pathlib.Path(folder) / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = pathlib.Path(base).name
    path.write_text(json.dumps(config, indent=2, sort_keys=True))


def by_trl(base, adapter, scratch, rounded):
    model = peft.PeftModel.from_pretrained(base_of(base, rounded=rounded), adapter, is_trainable=True)
    config = trl.SFTConfig(
        output_dir=scratch, per_device_train_batch_size=compare_trl.BATCH, max_steps=compare_trl.STEPS,
        max_length=compare_trl.LENGTH, learning_rate=1e-3, lr_scheduler_type="constant", warmup_steps=0,
        weight_decay=0.0, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-8, max_grad_norm=1.0, packing=False,
        assistant_only_loss=True, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, bf16=False,
        gradient_checkpointing=False, disable_tqdm=True, router_aux_loss_coef=0.0)
    trainer = compare_trl.Recording(model=model, args=config,
                                    processing_class=transformers.AutoTokenizer.from_pretrained(base),
                                    train_dataset=Dataset.from_list(list(compare_trl.conversations())))
    trainer.losses = []
    trainer.train()
    norms = [float(entry["grad_norm"]) for entry in trainer.state.log_history if "grad_norm" in entry]
    return trainer.losses, norms, model


def norm_in_fp64(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def angles_in_fp64(self, x, position_ids):
    size = self.config.head_dim
    frequencies = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = position_ids[:, :, None].double() * frequencies
    return torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()


def in_fp64(base, adapter):
    """Losses and gradient norms of the same steps, every number of which is of float64."""
    llama = transformers.models.llama.modeling_llama
    kept = llama.LlamaRMSNorm.forward, llama.LlamaRotaryEmbedding.forward
    llama.LlamaRMSNorm.forward, llama.LlamaRotaryEmbedding.forward = norm_in_fp64, angles_in_fp64
    model = peft.PeftModel.from_pretrained(base_of(base, torch.float64), adapter, is_trainable=True).double()
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    lines, losses, norms = list(compare_trl.conversations()), [], []
    for step in range(compare_trl.STEPS):
        total, count = 0, 0
        for line in lines[step * compare_trl.BATCH:(step + 1) * compare_trl.BATCH]:
            made = tokenizer.apply_chat_template(line["messages"], return_dict=True, return_assistant_tokens_mask=True,
                                                 return_tensors="pt")
            ids, learnt = made["input_ids"][0], torch.as_tensor(made["assistant_masks"]).reshape(-1)[1:] == 1
            said = model(input_ids=ids[None]).logits[0, :-1].log_softmax(-1)
            total = total - said[torch.arange(len(ids) - 1), ids[1:]][learnt].sum()
            count += int(learnt.sum())
        loss = total / count
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(trained, 1.0).item())
        optimizer.step()
    llama.LlamaRMSNorm.forward, llama.LlamaRotaryEmbedding.forward = kept
    return losses, norms


def steep(base, keep, top, program, lines):
    """Whether the program differs."""
    adapter = f"{top}/{STEEP}"
    make_adapter(base, {"use_rslora": True, "lora_alpha": 8}, adapter)
    losses, norms = in_fp64(base, adapter)
    with open(keep / f"{STEEP}.golden", "w", encoding="ascii") as golden:
        golden.write(f"# scripts/compare-peft.py; peft {peft.__version__}, transformers {transformers.__version__}, torch "
                     f"{torch.__version__}, in float64: losses, gradient norms\n")
        golden.writelines(f"{loss:.12f} {norm:.12f}\n" for loss, norm in zip(losses, norms, strict=True))
    if not program:
        return False
    run = subprocess.run([program, "sft", "--load", base, "--adapter", adapter, "--train-data", lines, "--json", "--quiet",
                          *compare_trl.options_of("llama"), *compare_trl.OPTIONS, "--dtype", "fp64"], capture_output=True, text=True, check=True)
    steps = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]
    apart = [max(abs(a - b) for a, b in zip(x, y, strict=True))
             for x, y in (([e["loss"] for e in steps], losses), ([e["grad_norm"] for e in steps], norms))]
    print(f"{STEEP}: largest differences: loss {apart[0]:.1e}, norm {apart[1]:.1e}")
    return max(apart) > 1e-8


def logits_of(model):
    ids = torch.arange(64).reshape(2, 32) * 5 % 370
    with torch.no_grad():
        return model.eval()(ids).logits


def by_program(program, kind, base, adapter, lines, scratch, rounded):
    save = f"{scratch}/save"
    quantize = ["--quantize-base", "nf4"] if rounded else []
    run = subprocess.run([program, "sft", "--load", base, "--adapter", adapter, "--train-data", lines, "--save", save,
                          "--json", "--quiet", *quantize, *compare_trl.options_of(kind), *compare_trl.OPTIONS], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    steps = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]
    subprocess.run([program, "merge", "--load", save, "--save", f"{scratch}/merged", "--dtype", "fp32",
                    "--quiet"], check=True)
    saved = f"{save}/iter_{compare_trl.STEPS:07}"
    return ([e["loss"] for e in steps], [e["grad_norm"] for e in steps],
            logits_of(peft.PeftModel.from_pretrained(base_of(base), saved)), logits_of(base_of(f"{scratch}/merged")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program")
    parser.add_argument("--keep")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    differs = False
    with tempfile.TemporaryDirectory() as top:
        keep = pathlib.Path(args.keep or f"{top}/keep")
        keep.mkdir(parents=True, exist_ok=True)
        lines = keep / "conversations.jsonl"
        lines.write_text("".join(json.dumps(line) + "\n" for line in compare_trl.conversations()))
        for form, (kind, settings) in FORMS.items():
            base, adapter, scratch = str(keep / kind), str(keep / form), f"{top}/{form}"
            if not pathlib.Path(base).exists():
                compare_trl.make_folder(kind, base)
            shutil.rmtree(adapter, ignore_errors=True)
            make_adapter(base, settings, adapter, is_rounded(form))
            losses, norms, trained = by_trl(base, adapter, f"{scratch}/trl", is_rounded(form))
            with open(keep / f"{form}.golden", "w", encoding="ascii") as golden:
                golden.write(f"# scripts/compare-peft.py; peft {peft.__version__}, trl {trl.__version__}, transformers "
                             f"{transformers.__version__}, torch {torch.__version__}: losses, gradient norms\n")
                golden.writelines(f"{loss:.8f} {norm:.7f}\n" for loss, norm in zip(losses, norms, strict=True))
            if not args.program:
                continue
            got = by_program(args.program, kind, base, adapter, str(lines), scratch, is_rounded(form))
            apart = [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in ((got[0], losses), (got[1], norms))]
            expected = logits_of(trained) if not is_rounded(form) else got[2]
            apart += [(x - y).abs().max().item() for x, y in ((got[2], expected), (got[3], got[2]))]
            print(f"{form}: {compare_trl.STEPS} steps, losses {losses[0]:.4f} to {losses[-1]:.4f}; largest "
                  f"differences: loss {apart[0]:.1e}, norm {apart[1]:.1e}, logits of the saved adapter {apart[2]:.1e}, "
                  f"of the merged model {apart[3]:.1e}")
            differs |= any(a > most for a, most in zip(apart, (1e-5, 1e-4, 1e-4, 1e-5), strict=True))
        differs |= steep(str(keep / "llama"), keep, top, args.program, str(lines))
    sys.exit(differs)


if __name__ == "__main__":
    main()
