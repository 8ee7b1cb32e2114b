#!/usr/bin/env python3
"""Time steps of mt-finetune grpo on GPUs beside TRL's GRPOTrainer with its own generation on one of them, phase by phase.

Both draw random weights of the shape of a case, and take as many prompts of as many tokens, write as many texts of each, which
hardly ever end before they are as long as they may be, and learn from them in two steps, before the first of which training's own
pass says what ratios of probabilities are of: phases are the generation, the rewards (a regular expression), that pass, and
learning, with all else that a cycle takes.  mt keeps what it learns in fp32 beside bf16, and moments in fp32; TRL's model is in
bf16, and so are its moments, which is less.  TRL generates by transformers' generate(), or with --peer batching by its continuous
batching.  Every run is a process of its own, and its first cycle is not counted; TRL's texts are short in it.

With --gpus 2 two of mt's ranks share the texts of a step, or with --generation-ranks 1 and --max-lag 1 one of them draws
while the other learns: what the drawing takes then is no part of a cycle, but wait_s, for which who learns waits for it, is.

Prints one JSON: the machine, and for each case the shape, and of either the median seconds of each phase and of a cycle of two
steps, the mean of the tokens that are drawn, and these a second of generation and a second of the cycle, the most memory that
the GPU has held, and the ratios mt / peer.  What each run came to, and what each of TRL's phases takes, is told as it ends.

--tiny runs cases of two small layers on the CPU: a check of this script.

Needs from PyPI: torch, transformers, trl, peft (tried with 2.15.0, 5.24.0, 1.16.0, 0.21.2).
Run:  scripts/bench-grpo.py build/release/cmd/mt-finetune [--cases full-1.5B,lora-8B] [--cycles 3] [--peer generate|batching|none]
      scripts/bench-grpo.py build/release/cmd/mt-finetune --peer none --gpus 2 [--generation-ranks 1 --max-lag 1]
      scripts/bench-grpo.py build/release/cmd/mt-finetune --tiny [--peer none --gpus 2 --generation-ranks 1 --max-lag 1]
"""
import argparse
import json
import random
import re
import statistics
import sys
import tempfile
import time

from timed_runs import lines_of, output_of, with_memory

RANK, ALPHA, STEPS = 16, 32, 2  # steps: that learn from what is drawn at once
SHORT = 32  # new tokens of TRL's texts in the cycle that is not counted
REWARD = "[02468]$"
PHASES = ("gen", "reward", "logprob", "train")
WAITING = ("refit", "wait", "reward", "logprob")  # of a cycle where other ranks draw
RUN = {"prompts": 16, "group": 8, "prompt": 128, "completion": 512, "micro": 8}
QWEN_1_5B = {"layers": 28, "hidden": 1536, "heads": 12, "kv_heads": 2, "ffn": 8960, "vocab": 151936, "tied": True}
LLAMA_8B = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256, "tied": False}
CASES = {"full-1.5B": QWEN_1_5B | RUN | {"lora": False}, "lora-8B": LLAMA_8B | RUN | {"lora": True}}
TINY = {"layers": 2, "hidden": 128, "heads": 4, "kv_heads": 2, "ffn": 256, "vocab": 512, "tied": False, "prompts": 4, "group": 4,
        "prompt": 8, "completion": 16, "micro": 4}
TINY_CASES = {"full-tiny": TINY | {"lora": False}, "lora-tiny": TINY | {"lora": True}}


def texts_of(c):
    """That are drawn at once."""
    return c["prompts"] * c["group"]


def prompts_of(c, cycles):
    choose = random.Random(1)
    return [" ".join(str(choose.randrange(c["vocab"] - 1)) for _ in range(c["prompt"])) for _ in range(cycles * c["prompts"])]


# --- mt -----------------------------------------------------------------------------------------

def mt(args, c, scratch):
    lines = f"{scratch}/prompts.jsonl"
    with open(lines, "w", encoding="ascii") as out:
        out.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts_of(c, args.cycles + 1))
    length = c["prompt"] + c["completion"]
    command = [args.program, "grpo", "--prompts", lines, "--reward", f"regex:{REWARD}", "--num-generations", c["group"],
               "--max-completion-length", c["completion"], "--steps-per-generation", STEPS, "--num-layers", c["layers"],
               "--hidden-size", c["hidden"], "--ffn-hidden-size", c["ffn"], "--num-attention-heads", c["heads"],
               "--group-query-attention", "--num-query-groups", c["kv_heads"], "--swiglu", "--normalization", "RMSNorm",
               "--disable-bias-linear", "--position-embedding-type", "rope", "--rotary-base", "500000",
               "--max-position-embeddings", length, "--seq-length", length, "--micro-batch-size", c["micro"],
               "--global-batch-size", texts_of(c) // STEPS, "--train-iters", STEPS * (args.cycles + 1),
               "--tokenizer-type", "NullTokenizer", "--vocab-size", c["vocab"] - 1, "--log-interval", "1", "--json"]
    command += [] if c["tied"] else ["--untie-embeddings-and-output-weights"]
    command += ["--lora-rank", RANK, "--lora-alpha", ALPHA] if c["lora"] else []
    command += ["--device", "cpu", "--dtype", "fp32"] if args.tiny else ["--device", "cuda", "--bf16"]
    command += (["--ranks", args.gpus] if args.tiny else ["--gpus", args.gpus]) if args.gpus > 1 else []
    command += ["--max-lag", args.max_lag, "--importance-correction", "truncate"] if args.max_lag else []
    command += ["--rl-generation-ranks", args.generation_ranks] if args.generation_ranks else []
    lines, told = lines_of(command)
    steps = [second for second, line in lines if json.loads(line)["event"] == "step"]
    cycles = [b - a for a, b in zip(steps[STEPS - 1::STEPS], steps[2 * STEPS - 1::STEPS])]
    drawn = re.findall(r"^rollouts .*", told, re.MULTILINE)[1:]
    seconds = lambda line, name: float(re.search(rf" {name}_s=(\S+)", line)[1])
    phases = [{name: seconds(line, name) for name in (WAITING if args.generation_ranks else PHASES[:-1])} for line in drawn]
    result = summary(phases, cycles, [texts_of(c) * float(re.search(r" tokens=(\S+)", line)[1]) for line in drawn])
    return {"gen_s": statistics.median(seconds(line, "gen") for line in drawn)} | result


# --- The peer -----------------------------------------------------------------------------------

def tokenizer_of(c):
    """Of texts that are token ids already, as mt's NullTokenizer."""
    import tokenizers
    import transformers
    words = {str(i): i for i in range(c["vocab"] - 1)} | {"<eod>": c["vocab"] - 1}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<eod>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<eod>", pad_token="<eod>")


def timed(trainer_class, synchronize):
    """TRL's trainer, which notes when its phases begin and how long those take that others do not contain."""
    class Timed(trainer_class):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.begins, self.phases = [], []

        def clock(self):
            synchronize()
            return time.perf_counter()

        def within(self, phase, run):
            begin = self.clock()
            result = run()
            self.phases[-1][phase] += self.clock() - begin
            print(f"cycle {len(self.begins)}: {phase} {self.clock() - begin:.3f} s", file=sys.stderr, flush=True)
            return result

        def _generate(self, *args, **kwargs):
            longest = self.args.max_completion_length
            self.generation_config.max_new_tokens = longest if self.begins else min(longest, SHORT)
            self.begins.append(self.clock())
            self.phases.append(dict.fromkeys(PHASES[:-1], 0.0))
            return self.within("gen", lambda: super(Timed, self)._generate(*args, **kwargs))

        def _calculate_rewards(self, *args, **kwargs):
            return self.within("reward", lambda: super(Timed, self)._calculate_rewards(*args, **kwargs))

        def _get_per_token_logps_and_entropies(self, *args, **kwargs):
            import torch
            ask = super()._get_per_token_logps_and_entropies
            return ask(*args, **kwargs) if torch.is_grad_enabled() else self.within("logprob", lambda: ask(*args, **kwargs))
    return Timed


def peer(c, args, scratch):
    import peft
    import torch
    import transformers
    import trl
    from datasets import Dataset
    length, device = c["prompt"] + c["completion"], "cpu" if args.tiny else "cuda"
    config = transformers.LlamaConfig(
        vocab_size=c["vocab"], hidden_size=c["hidden"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
        num_key_value_heads=c["kv_heads"], intermediate_size=c["ffn"], max_position_embeddings=length, bos_token_id=None,
        eos_token_id=c["vocab"] - 1, pad_token_id=c["vocab"] - 1, tie_word_embeddings=c["tied"],
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float32 if args.tiny else torch.bfloat16)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    steps = texts_of(c) // c["micro"]  # micro-batches of what is drawn at once
    settings = trl.GRPOConfig(
        output_dir=scratch, per_device_train_batch_size=c["micro"], gradient_accumulation_steps=steps // STEPS,
        steps_per_generation=steps, num_generations=c["group"], max_completion_length=c["completion"], beta=0.0,
        max_steps=STEPS * (args.cycles + 1), learning_rate=1e-6, gradient_checkpointing=False, bf16=not args.tiny,
        use_cpu=args.tiny, use_transformers_continuous_batching=args.peer == "batching", logging_steps=1, report_to=[],
        save_strategy="no", disable_tqdm=True)
    adapters = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM") if c["lora"] else None
    trainer = timed(trl.GRPOTrainer, (lambda: None) if args.tiny else torch.cuda.synchronize)(
        model=model, args=settings, peft_config=adapters, processing_class=tokenizer_of(c),
        reward_funcs=lambda completions, **_: [float(re.search(REWARD, text) is not None) for text in completions],
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts_of(c, args.cycles + 1)]))
    trainer.train()
    begins = [*trainer.begins, trainer.clock()]
    written = [texts_of(c) * entry["completions/mean_length"] for entry in trainer.state.log_history
               if "completions/mean_length" in entry]
    return summary(trainer.phases[1:], [b - a for a, b in zip(begins[1:], begins[2:])], written[1:]) | {"trl": trl.__version__}


# --- Both ---------------------------------------------------------------------------------------

def summary(phases, cycles, tokens):
    """Medians; what a cycle takes beside the phases that are measured is learning's."""
    for one, cycle in zip(phases, cycles, strict=True):
        one["train"] = cycle - sum(one.values())
    medians = {f"{name}_s": statistics.median(one[name] for one in phases) for name in phases[0]}
    return medians | {"cycle_s": statistics.median(cycles), "tokens": statistics.mean(tokens)}


def time_case(args, name, c):
    with tempfile.TemporaryDirectory() as scratch:
        ways = {"mt": lambda: mt(args, c, scratch)}
        if args.peer != "none":
            again = [sys.executable, __file__, *sys.argv[1:], "--as-peer", name]
            ways["peer"] = lambda: json.loads(output_of(again)[0].splitlines()[-1])
        results = {}
        for way, run in ways.items():
            results[way] = run() if args.tiny else with_memory(run)
            print(f"{name}, {way}: {json.dumps(results[way])}", file=sys.stderr, flush=True)
    for result in results.values():
        result["gen_tokens_per_second"] = result["tokens"] / result["gen_s"]
        result["tokens_per_second"] = result["tokens"] / result["cycle_s"]
    ratios = {f"ratio_{key}": results["mt"][key] / results["peer"][key] for key in results["mt"]
              if "peer" in results and results["peer"][key]}
    return c | results | ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", help="names, separated by commas; default: all")
    parser.add_argument("--cycles", type=int, default=3, help="of two steps, that are counted")
    parser.add_argument("--gpus", type=int, default=1, help="ranks of mt; of --tiny the CPU's")
    parser.add_argument("--generation-ranks", type=int, default=0, help="of these, that draw while the others learn")
    parser.add_argument("--max-lag", type=int, default=0, help="draws that mt draws ahead")
    parser.add_argument("--peer", choices=("generate", "batching", "none"), default="generate")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--as-peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    cases = TINY_CASES if args.tiny else CASES
    if args.as_peer:
        with tempfile.TemporaryDirectory() as scratch:
            return print(json.dumps(peer(cases[args.as_peer], args, scratch)))
    machine = "CPU" if args.tiny else output_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "-i", "0"])[0].strip()
    results = {"machine": machine, "cycles": args.cycles}
    for name in (args.cases or ",".join(cases)).split(","):
        results[name] = time_case(args, name, cases[name])
    return print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
