#!/usr/bin/env python3
"""Writes tiny models as other libraries save them, for tests/model/golden_test.cpp.

  FOLDER/llama/config.json, model.safetensors   a Llama, by transformers' save_pretrained()
  FOLDER/llama-bin/pytorch_model.bin            the same tensors by torch.save, with the same config.json
  FOLDER/llama.gguf                             the same by the names of gguf's tables, by its GGUFWriter, in
                                                float32, bfloat16 and q8_0, with rows of queries and keys in
                                                the order of llama.cpp's convert_hf_to_gguf.py

Needs from PyPI: torch, transformers, gguf (tried with 2.15.0, 5.23.0, 0.19).
Run:  scripts/make-model-folder-goldens.py testdata/models
"""
import os
import shutil
import sys

import gguf
import torch
import transformers

folder = sys.argv[1]
config = transformers.LlamaConfig(vocab_size=21, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
                                  num_key_value_heads=2, intermediate_size=32, max_position_embeddings=16)
torch.manual_seed(1)
model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
model.save_pretrained(f"{folder}/llama")
os.remove(f"{folder}/llama/generation_config.json")
os.makedirs(f"{folder}/llama-bin")
torch.save(model.state_dict(), f"{folder}/llama-bin/pytorch_model.bin")
shutil.copy(f"{folder}/llama/config.json", f"{folder}/llama-bin/config.json")

names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
types = {"norm": gguf.GGMLQuantizationType.F32, "mlp": gguf.GGMLQuantizationType.Q8_0}
writer = gguf.GGUFWriter(f"{folder}/llama.gguf", "llama")
writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
writer.add_block_count(config.num_hidden_layers)
writer.add_context_length(config.max_position_embeddings)
writer.add_embedding_length(config.hidden_size)
writer.add_feed_forward_length(config.intermediate_size)
writer.add_head_count(config.num_attention_heads)
writer.add_head_count_kv(config.num_key_value_heads)
writer.add_layer_norm_rms_eps(config.rms_norm_eps)
writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
writer.add_rope_freq_base(10000.0)
writer.add_vocab_size(config.vocab_size)
writer.add_tokenizer_model("no_vocab")
for name, tensor in model.state_dict().items():
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads:
        tensor = tensor.view(heads, 2, -1, tensor.shape[1]).swapaxes(1, 2).reshape(tensor.shape)
    kind = next((t for part, t in types.items() if part in name), gguf.GGMLQuantizationType.BF16)
    data = gguf.quants.quantize(tensor.float().numpy(), kind)
    writer.add_tensor(names.get_name(name, (".weight",)), data, raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
