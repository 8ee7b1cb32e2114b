"""Model folders as transformers makes them, and what it computes of them, beside what mt computes.

Tiny models with random weights of every family that mt computes with, in the forms that config.json has: both
spellings of rotary positions and every scaling of them, biases, heads and groups of odd sizes, tied and not,
padded vocabularies, 16 bits, shards.  Of each, with a byte-level tokenizer of 320 tokens:
  logits      log-probabilities of all tokens after a prompt, largest difference
  greedy      the first 20 tokens, how many differ
  perplexity  nats of a text, difference
  again       the folder that mt makes of a checkpoint after a training step of rate 0: transformers loads it,
              largest difference of its logits, and whether its generation ends at the same tokens
scripts/compare-folders.py --models prints them.

Needs from PyPI: transformers (tried with 4.45.2, 4.51.3 and 5.24.0), torch, safetensors.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import warnings

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["MT_DEVICE"] = "cpu"
warnings.filterwarnings("ignore")
import torch  # noqa: E402
import transformers  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

transformers.logging.set_verbosity_error()
WORDS = 320
LINES = ["the king is dead, long live the king", "a horse, a horse, my kingdom for a horse",
         "whoever reads this slowly will notice that nothing happens in between",
         "seven small boats crossed the quiet water", "tomorrow we shall bake bread again"] * 30
PROMPT, TEXT = "the king is", "seven small boats crossed the water, and nobody noticed"
SHAPE = dict(vocab_size=323, hidden_size=60, intermediate_size=97, num_hidden_layers=2, num_attention_heads=3,
             num_key_value_heads=1, max_position_embeddings=64, bos_token_id=1, eos_token_id=0,
             tie_word_embeddings=False)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)


def llama(**settings):
    return transformers.LlamaForCausalLM, transformers.LlamaConfig(**{**SHAPE, **settings})


def gpt2(**settings):
    sizes = dict(vocab_size=323, n_embd=36, n_layer=2, n_head=3, n_positions=64, bos_token_id=1, eos_token_id=0)
    return transformers.GPT2LMHeadModel, transformers.GPT2Config(**{**sizes, **settings})


CASES = {
    "llama": lambda: llama(),
    "llama-tied": lambda: llama(tie_word_embeddings=True),
    "llama-wide-heads": lambda: llama(head_dim=28),
    "llama-mha": lambda: llama(num_key_value_heads=3),
    "llama-attention-bias": lambda: llama(attention_bias=True),
    "llama-mlp-bias": lambda: llama(mlp_bias=True),
    "llama-both-biases": lambda: llama(attention_bias=True, mlp_bias=True),
    "llama-linear": lambda: llama(rope_scaling=dict(rope_type="linear", factor=4.0)),
    "llama-dynamic": lambda: llama(rope_scaling=dict(rope_type="dynamic", factor=4.0)),
    "llama-yarn": lambda: llama(rope_scaling=dict(rope_type="yarn", factor=4.0)),
    "llama-yarn-factors": lambda: llama(rope_scaling=dict(rope_type="yarn", factor=8.0, beta_fast=4.0, beta_slow=1.5,
                                                         attention_factor=1.3)),
    "llama-longrope": lambda: llama(rope_scaling=dict(rope_type="longrope", factor=2.0, attention_factor=1.1,
                                                     short_factor=[1 + i / 7 for i in range(10)],
                                                     long_factor=[1 + i / 7 for i in range(10)])),
    "llama3": lambda: llama(rope_theta=500000.0, rope_scaling=LLAMA3),
    "llama3-of-few-positions": lambda: llama(rope_scaling={**LLAMA3, "factor": 3.0, "low_freq_factor": 1.5,
                                                           "original_max_position_embeddings": 32}),
    "llama-odd-base": lambda: llama(rope_theta=777.0, rms_norm_eps=1e-3),
    "mistral": lambda: (transformers.MistralForCausalLM, transformers.MistralConfig(**SHAPE, sliding_window=None)),
    "qwen2": lambda: (transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**SHAPE)),
    "qwen2-tied": lambda: (transformers.Qwen2ForCausalLM,
                           transformers.Qwen2Config(**{**SHAPE, "tie_word_embeddings": True})),
    "nemotron": lambda: (transformers.NemotronForCausalLM, transformers.NemotronConfig(**SHAPE)),
    "gpt2": lambda: gpt2(),
    "gpt2-untied": lambda: gpt2(tie_word_embeddings=False),
    "gpt2-erf": lambda: gpt2(activation_function="gelu"),
    "gpt2-fast": lambda: gpt2(activation_function="gelu_fast", n_inner=50),
}


def make_tokenizer(folder, bos):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    special = ["<end>", "<begin>", "<turn>"]
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=WORDS, show_progress=False, special_tokens=special,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if bos:
        t.post_processor = processors.TemplateProcessing(single="<begin> $A", pair="<begin> $A $B",
                                                         special_tokens=[("<begin>", t.token_to_id("<begin>"))])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<end>", bos_token="<begin>")
    fast.model_max_length = 64
    fast.save_pretrained(folder)
    return fast


def make_model(case, folder, dtype):
    torch.manual_seed(0)
    kind, config = CASES[case]()
    model = kind(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.2 + ("norm" in name or "ln_" in name) * name.endswith("weight"))
    model = model.to(dtype).eval()
    model.config.torch_dtype = dtype
    model.save_pretrained(folder, max_shard_size="60KB" if case == "llama" else "5GB")
    return kind.from_pretrained(folder, torch_dtype=torch.float32).eval()


class Programs:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()

    def __call__(self, program, *words):
        done = subprocess.run([str(self.folder / program), *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.strip()[-300:]}")
        return done.stdout


def log_probs(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0][:, :WORDS].double(), -1)


def greedy(model, ids, count, ends):
    made = []
    while len(made) < count:
        token = int(log_probs(model, ids + made)[-1].argmax())
        if token in ends:
            break
        made.append(token)
    return made


def generated(mt, folder, count):
    line = mt("mt-generate", "--load", folder, "--dtype", "fp32", "--json", "--num-tokens", count, "--temperature", 0,
              "--logprobs", WORDS, PROMPT)
    return json.loads(line)


def compare_forward(mt, model, tokenizer, folder):
    """Largest difference of log-probabilities, tokens that differ, and difference of nats."""
    ids = tokenizer(PROMPT).input_ids
    expected = log_probs(model, ids)[-1]
    result = generated(mt, folder, 20)
    first = next(iter(result["logprobs"]), None)
    logits = max(abs(t["logprob"] - expected[t["id"]].item()) for t in first["top_logprobs"]) if first else 0.0
    wanted = greedy(model, ids, 20, [0])
    tokens = sum(a != b for a, b in zip(result["token_ids"], wanted)) + abs(len(result["token_ids"]) - len(wanted))
    (pathlib.Path(folder).parent / "text").write_text(TEXT)
    nats = json.loads(mt("mt-eval", "--load", folder, "--dtype", "fp32", "--json",
                         pathlib.Path(folder).parent / "text").splitlines()[0])
    ids = tokenizer(TEXT).input_ids
    if ids[0] != tokenizer.bos_token_id:
        ids = [tokenizer.eos_token_id] + ids
    p = log_probs(model, ids)
    nll = -sum(p[i][ids[i + 1]].item() for i in range(len(ids) - 1))
    return logits, tokens, abs(nats["nll"] - nll) / nll


def flags_of(mt, checkpoint):
    """The options of a run that goes on with a checkpoint's model."""
    settings = dict(line.split(None, 1) for line in mt("mt-convert", "ls", "--settings", checkpoint).splitlines())
    flags = []
    for name, flag in (("num_layers", 1), ("hidden_size", 1), ("ffn_hidden_size", 1), ("num_attention_heads", 1),
                       ("kv_channels", 1), ("max_position_embeddings", 1), ("position_embedding_type", 1),
                       ("rotary_base", 1), ("rotary_percent", 1), ("rope_scaling_factor", 1), ("normalization", 1),
                       ("norm_epsilon", 1), ("rope_frequency_factors", 1), ("rope_attention_factor", 1),
                       ("rotary_seq_len_interpolation_factor", 1), ("group_query_attention", 0),
                       ("use_rope_scaling", 0), ("swiglu", 0), ("squared_relu", 0), ("apply_layernorm_1p", 0),
                       ("qk_layernorm", 0), ("untie_embeddings_and_output_weights", 0), ("add_qkv_bias", 0)):
        value = settings.get(name, "null").strip().strip('"')
        option = "--" + name.replace("_", "-")
        if flag and value not in ("null", "None", ""):
            flags += [option, value]
        elif not flag and value.lower() == "true":
            flags.append(option)
    if settings.get("group_query_attention", "").strip().lower() == "true":
        flags += ["--num-query-groups", settings["num_query_groups"].strip()]
    if settings.get("add_bias_linear", "").strip().lower() == "false":
        flags.append("--disable-bias-linear")
    if settings.get("bias_gelu_fusion", "").strip().lower() == "false" and "--swiglu" not in flags:
        flags.append("--no-bias-gelu-fusion")
    return flags


def compare_again(mt, model, tokenizer, folder, place):
    """HF -> mt -> a step of rate 0 -> HF: largest difference of logits, and whether the ends are the same."""
    mt("mt-convert", folder, place / "core")
    with open(place / "corpus.jsonl", "w") as f:
        f.writelines(json.dumps({"text": line}) + "\n" for line in LINES)
    mt("mt-preprocess", "--input", place / "corpus.jsonl", "--output-prefix", place / "data", "--append-eod",
       "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", folder)
    mt("mt-pretrain", *flags_of(mt, place / "core"), "--seq-length", 64, "--micro-batch-size", 1, "--train-iters", 1,
       "--lr", 1e-30, "--weight-decay", 0, "--attention-dropout", 0, "--hidden-dropout", 0, "--split", "1,0,0", "--eval-iters", 0,
       "--data-path", place / "data_text_document", "--load", place / "core", "--finetune", "--save", place / "trained")
    mt("mt-convert", "--saver", "hf", place / "trained", place / "back")
    again = transformers.AutoModelForCausalLM.from_pretrained(place / "back", torch_dtype=torch.float32).eval()
    same = transformers.AutoTokenizer.from_pretrained(place / "back")
    ids = tokenizer(PROMPT).input_ids
    if same(PROMPT).input_ids != ids:
        return float("inf"), False
    ends = again.generation_config.eos_token_id == model.generation_config.eos_token_id
    rows = again.get_input_embeddings().weight.shape == model.get_input_embeddings().weight.shape
    return (log_probs(again, ids) - log_probs(model, ids)).abs().max().item(), ends and rows


def version():
    return transformers.__version__


def compare(programs, only=""):
    """Of each whose name has `only` in it: name, differences, whether all is well."""
    mt = Programs(programs)
    if torch.__version__ < "2":
        CASES.pop("nemotron", None)  # whose norm that PyTorch does not have
    for name in CASES:
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            place = pathlib.Path(scratch)
            folder = place / "model"
            dtype = torch.bfloat16 if name in ("llama-tied", "qwen2") else torch.float32
            model = make_model(name, folder, dtype)
            tokenizer = make_tokenizer(folder, bos=not name.startswith("gpt2"))
            try:
                logits, tokens, nats = compare_forward(mt, model, tokenizer, folder)
                again, ends = compare_again(mt, model, tokenizer, folder, place)
            except Exception as error:  # a program's or a library's
                yield name, str(error), False
                continue
            fine = logits < 1e-5 and tokens == 0 and nats < 1e-6 and again < 1e-5 and ends
            yield name, f"logits {logits:.1e}  greedy {tokens}  nats {nats:.1e}  again {again:.1e}  ends {ends}", fine
