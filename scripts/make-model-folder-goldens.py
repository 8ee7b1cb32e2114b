#!/usr/bin/env python3
"""Writes tiny models as other libraries save them, for tests/model/golden_test.cpp.

  FOLDER/llama/config.json, model.safetensors   a Llama, by transformers' save_pretrained()
  FOLDER/llama-bin/pytorch_model.bin            the same tensors by torch.save, with the same config.json
  FOLDER/llama.gguf                             tensors by the names of gguf's tables, by its GGUFWriter, in
                                                float32, bfloat16 and q8_0

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
writer.add_block_count(1)
writer.add_tokenizer_model("no_vocab")
for name, tensor in model.state_dict().items():
    kind = next((t for part, t in types.items() if part in name), gguf.GGMLQuantizationType.BF16)
    data = gguf.quants.quantize(tensor.float().numpy(), kind)
    writer.add_tensor(names.get_name(name, (".weight",)), data, raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
