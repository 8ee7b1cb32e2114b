"""GGUF files of mt-convert beside the package gguf, transformers and SentencePiece, for compare-convert.py."""
import json
import shutil

import gguf
import numpy
import sentencepiece
import torch

from convert_checks import LLAMA, T, TESTDATA, VOCAB, build, fail, run

GGUF_TYPES = {"fp32": (0, gguf.GGMLQuantizationType.F32), "fp16": (1, gguf.GGMLQuantizationType.F16),
              "bf16": (32, gguf.GGMLQuantizationType.BF16), "q8_0": (7, gguf.GGMLQuantizationType.Q8_0)}
GGUF_ARCHITECTURES = {"gpt2": "gpt2", "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3",
                      "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe",
                      "olmoe": "olmoe"}
GGUF_TOKENIZERS = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "nemo": "tekken", "o200k": "gpt-4o",
                   "mistral": None, "llama2": None}


def key_values(reader):
    return {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}


def tensors_of(model):
    """transformers' tensors; of the gates and their partners that it has in one, each."""
    for name, tensor in model.state_dict().items():
        if name.endswith("experts.gate_up_proj"):
            gate, up = tensor.chunk(2, 1)
            yield name.replace("gate_up_proj", "gate_proj.weight"), gate
            yield name.replace("gate_up_proj", "up_proj.weight"), up
        else:
            yield name + ".weight" * name.endswith("experts.down_proj"), tensor


def as_llama_cpp(name, tensor, config):
    """What convert_hf_to_gguf.py makes of one of transformers' tensors."""
    value = tensor.float().numpy()
    if config.model_type == "gpt2" and any(x in name for x in (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
        return value.T
    if config.model_type in ("llama", "mistral", "mixtral") and (".q_proj." in name or ".k_proj." in name):
        heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
        return value.reshape(heads, 2, value.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(value.shape)
    return value


def gguf_settings(config, architecture, vocab):
    gpt2, c = architecture == "gpt2", config
    windows = [w for w in [getattr(c, "sliding_window", None)] if w]
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    kv = {"block_count": c.num_hidden_layers, "context_length": min([c.max_position_embeddings] + windows),
          "embedding_length": c.hidden_size, "vocab_size": vocab, "attention.head_count": c.num_attention_heads,
          "attention.head_count_kv": c.num_attention_heads if gpt2 else c.num_key_value_heads,
          "feed_forward_length": (c.n_inner or 4 * c.n_embd) if gpt2 else c.intermediate_size}
    if gpt2:
        kv["attention.layer_norm_epsilon"] = c.layer_norm_epsilon
    else:
        kv |= {"attention.layer_norm_rms_epsilon": c.rms_norm_eps, "attention.key_length": head,
               "attention.value_length": head, "rope.dimension_count": head,
               "rope.freq_base": c.rope_parameters["rope_theta"]}
        if c.rope_parameters["rope_type"] == "linear":
            kv |= {"rope.scaling.type": "linear", "rope.scaling.factor": c.rope_parameters["factor"]}
    if c.model_type in ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe"):
        kv |= {"expert_count": c.num_local_experts if c.model_type == "mixtral" else c.num_experts,
               "expert_used_count": c.num_experts_per_tok}
    if c.model_type in ("qwen2_moe", "qwen3_moe"):
        kv["expert_feed_forward_length"] = c.moe_intermediate_size
    if c.model_type == "qwen2_moe":
        kv["expert_shared_feed_forward_length"] = c.shared_expert_intermediate_size
    return {f"{architecture}.{k}": v for k, v in kv.items()}


def check_gguf(options, name, model, tokenizer, core, scratch):
    config, architecture = model.config, GGUF_ARCHITECTURES[model.config.model_type]
    arch = {text: number for number, text in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    tied = config.tie_word_embeddings
    for kind, (file_type, wanted) in GGUF_TYPES.items():
        folder = f"{scratch}/gguf-{kind}"
        run(f"{options.bin}/mt-convert", "--quiet", "--saver", "gguf", "--dtype", kind, core, folder)
        reader = gguf.GGUFReader(f"{folder}/model.gguf")
        found = {tensor.name: tensor for tensor in reader.tensors}
        for theirs, tensor in tensors_of(model):
            if tied and theirs == "lm_head.weight":
                continue
            own = names.get_name(theirs, try_suffixes=(".weight", ".bias"))
            expected = as_llama_cpp(theirs, tensor, config)
            single = expected.ndim == 1 or own == "position_embd.weight" or "ffn_gate_inp" in own
            quant = gguf.GGMLQuantizationType.F32 if single else wanted
            if quant == gguf.GGMLQuantizationType.Q8_0 and expected.shape[-1] % 32:
                quant = gguf.GGMLQuantizationType.F16
            got = found.pop(own, None)
            if got is None or got.tensor_type != quant or list(got.shape) != list(expected.shape[::-1]):
                fail(kind, own, "is", got and (got.tensor_type, got.shape), "expected", quant, expected.shape[::-1])
            elif gguf.quants.quantize(numpy.ascontiguousarray(expected), quant).tobytes() != got.data.tobytes():
                fail(kind, own, "differs")
        if "rope_freqs.weight" in found:
            inv_freq = model.model.rotary_emb.inv_freq.double().numpy()
            plain = config.rope_parameters["rope_theta"] ** -(numpy.arange(len(inv_freq)) / len(inv_freq))
            if not numpy.allclose(found.pop("rope_freqs.weight").data, plain / inv_freq, rtol=1e-6):
                fail("rope_freqs.weight differs")
        if found:
            fail("left over:", list(found))
        kv = key_values(reader)
        special = {"pre": "gpt-2", "bos_token_id": VOCAB - 1, "eos_token_id": VOCAB - 1}
        if config.model_type.startswith("qwen"):
            special = {"pre": "qwen2", "eos_token_id": tokenizer.eos_token_id, "unknown_token_id": tokenizer.unk_token_id,
                       "padding_token_id": tokenizer.pad_token_id, "add_bos_token": False, "add_eos_token": False}
        expected = gguf_settings(config, architecture, VOCAB) | {
            "general.architecture": architecture, "general.type": "model", "general.name": f"gguf-{kind}",
            "general.file_type": file_type, "general.quantization_version": 2, "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.tokens": list(json.load(open(TESTDATA / "gpt2_bpe/vocab.json"))),
            "tokenizer.ggml.merges": gguf.SpecialVocab(TESTDATA / "gpt2_bpe", load_merges=True).merges,
            "tokenizer.ggml.token_type": [1] * (VOCAB - 1) + [3]} | {f"tokenizer.ggml.{k}": v for k, v in special.items()}
        for key in kv.keys() | expected.keys():
            a, b = kv.get(key), expected.get(key)
            if a != b and not (isinstance(b, float) and abs(a - b) <= 1e-6 * abs(b)):
                fail(kind, key, "is", a, "expected", b)
    # A GGUF file calls the first two a llama; of the third transformers expects the shared experts' gate as llama.cpp had it
    # before, without its dimension of 1.
    if config.model_type in ("mistral", "mixtral", "qwen2_moe"):
        return ", GGUF"
    # What transformers does not take from a GGUF file's settings: GPT-2's positions, windows, scaling,
    # biases, Qwen 3's head_dim, the width of its experts.
    told = config.model_type in ("gpt2", "qwen3", "qwen3_moe") or name in ("llama with biases", "llama 3.1", "llama, stretched",
                                                   "qwen2 with windows")
    loaded = type(model).from_pretrained(f"{scratch}/gguf-fp32", gguf_file="model.gguf", dtype=torch.float32,
                                         **{"config": config} if told else {}).eval()
    ids = torch.arange(1, 5)[None] * 7 % VOCAB
    with torch.no_grad():
        expected, logits = model.float()(ids).logits, loaded(ids).logits
    worst = ((logits - expected).abs().max() / expected.abs().max()).item()
    if not worst < 1e-5:
        fail("logits of the GGUF file differ by", worst)
    return f", GGUF with logits {worst:.1e}"


def check_gguf_tokenizer(options, name, pre, scratch):
    """A tokenizer.json is in the key-values token by token; transformers reads it and finds the same ids."""
    original, core, folder = (f"{scratch}/{name}-{x}" for x in ("hf", "core", "gguf"))
    path = TESTDATA / f"huggingface/{name}.json"
    stored = json.load(open(path))
    added = {token["id"]: token for token in stored["added_tokens"]}
    tokens = {i: t for t, i in stored["model"]["vocab"].items()} | {i: t["content"] for i, t in added.items()}
    vocab = max(tokens) + 3
    model = build(T.LlamaConfig(**LLAMA | dict(vocab_size=vocab, bos_token_id=1, eos_token_id=2)), torch.float32)
    model.save_pretrained(original)
    shutil.copy(path, f"{original}/tokenizer.json")
    special = [t["content"] for t in added.values() if t["special"]]
    json.dump({"bos_token": special[0], "eos_token": {"content": special[-1]}, "chat_template": "{{ messages }}"},
              open(f"{original}/tokenizer_config.json", "w"))
    run(f"{options.bin}/mt-convert", "--quiet", original, core)
    run(f"{options.bin}/mt-convert", "--quiet", "--saver", "gguf", core, folder)
    kv = key_values(gguf.GGUFReader(f"{folder}/model.gguf"))
    theirs = gguf.SpecialVocab(original, load_merges=pre is not None, n_vocab=vocab)
    unknown = stored["model"].get("unk_token")
    expected = {"model": "gpt2" if pre else "llama", "pre": pre or "default",
                "tokens": [tokens.get(i, f"[PAD{i}]") for i in range(vocab)],
                "token_type": [5 if i not in tokens else 2 if tokens[i] == unknown and not pre else
                               (3 if added[i]["special"] else 4) if i in added else
                               6 if not pre and tokens[i].startswith("<0x") else 1 for i in range(vocab)]}
    expected |= {f"{k}_token_id": v for k, v in theirs.special_token_ids.items()}
    expected |= {f"add_{k}_token": v for k, v in theirs.add_special_token.items() if k != "sep"}
    if pre:
        expected["merges"] = theirs.merges
    for key, value in expected.items():
        if kv.get(f"tokenizer.ggml.{key}") != value:
            fail(name, key, "is", kv.get(f"tokenizer.ggml.{key}"), "expected", value)
    if kv.get("tokenizer.chat_template") != theirs.chat_template:
        fail(name, "chat template is", kv.get("tokenizer.chat_template"))
    print(f"tokenizer {name}: {vocab} tokens, {len(expected)} key-values")


def check_gguf_tokenizers(options, scratch):
    for name, pre in GGUF_TOKENIZERS.items():
        check_gguf_tokenizer(options, name, pre, scratch)


def check_gguf_sentencepiece(options, scratch):
    """Of a tokenizer.model: pieces, scores and types as SentencePiece's own package says."""
    original, folder = f"{scratch}/pieces-hf", f"{scratch}/pieces-gguf"
    model = sentencepiece.SentencePieceProcessor(str(TESTDATA / "sentencepiece/bpe.model"))
    vocab = model.vocab_size() + 2
    build(T.LlamaConfig(**LLAMA | dict(vocab_size=vocab)), torch.float32).save_pretrained(original)
    shutil.copy(TESTDATA / "sentencepiece/bpe.model", f"{original}/tokenizer.model")
    run(f"{options.bin}/mt-convert", "--quiet", "--saver", "gguf", original, folder)
    kv = key_values(gguf.GGUFReader(f"{folder}/model.gguf"))
    ids = range(model.vocab_size())
    kind = [6 if model.is_byte(i) else 3 if model.is_control(i) else 2 if model.is_unknown(i) else
            5 if model.is_unused(i) else 1 for i in ids]
    expected = {"model": "llama", "pre": "default", "tokens": [model.id_to_piece(i) for i in ids] + [
                    f"[PAD{i}]" for i in range(model.vocab_size(), vocab)], "token_type": kind + [5] * 2,
                "scores": [model.get_score(i) for i in ids] + [-10000.0] * 2, "bos_token_id": model.bos_id(),
                "eos_token_id": model.eos_id(), "unknown_token_id": model.unk_id()}
    for key, value in expected.items():
        got = kv.get(f"tokenizer.ggml.{key}")
        if key == "token_type":  # the package does not tell user-defined pieces from normal ones
            got = [1 if t == 4 else t for t in got]
        if got != value:
            fail("tokenizer.model:", key, "is", got, "expected", value)
    print(f"tokenizer.model: {vocab} tokens")
