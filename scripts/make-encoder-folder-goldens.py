#!/usr/bin/env python3
"""Writes tiny random models with encoders as transformers saves them, and what it makes with them.

  FOLDER/t5/             a T5 (config.json, generation_config.json, model.safetensors in bf16)
  FOLDER/t5.jsonl        what generate() makes of prompts with it in fp32, greedily, as mt-generate --json prints it
  FOLDER/megatron-bert/  a Megatron-BERT with pooler and heads
  FOLDER/megatron-bert.jsonl   of texts: their ids, the mean of the last hidden states between the first and the
                         last token, and what the pooler makes of the first, in fp32; and the sum of -log p of each
                         token between those when it alone is masked, and how many are the likeliest there
  FOLDER/bert/           a BertModel, as sentence-transformers has them
  FOLDER/bert.jsonl      of the same texts the mean of all last hidden states, the first of them, and that at length 1

Their tokenizers are testdata/huggingface/t5.json and bert-lower.json.
Needs from PyPI: torch, transformers (made with the versions that stand in the first line of the .jsonl files).
Run:  scripts/make-encoder-folder-goldens.py testdata
"""
import json
import sys

import torch
import transformers

testdata = sys.argv[1]
folder = f"{testdata}/models"
versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
PROMPTS = ["", "Tom has a red ball.", "Anna", "The dog <extra_id_0> in the <extra_id_1>.", "one two three " * 5,
           "a b c d e f g", "Where is the cat?", "x"]
TEXTS = ["", "Tom has a red ball.", "Anna", "the dog [MASK] in the house", "one two three " * 8, "Where is the cat?"]


def tokenizer_of(name, **tokens):
    return transformers.PreTrainedTokenizerFast(tokenizer_file=f"{testdata}/huggingface/{name}.json", **tokens)


def randomize(model, scale):
    with torch.no_grad():
        for name, tensor in sorted(model.named_parameters()):
            noise = torch.randn(tensor.shape) * scale
            tensor.copy_((1 + noise / 2 if "norm" in name.lower() and name.endswith("weight") or ".ln." in name and
                          name.endswith("weight") else noise).bfloat16())


def save(model, name):
    path = f"{folder}/{name}"
    model.to(torch.bfloat16).save_pretrained(path)
    model.float()
    return path


def write_lines(name, lines):
    with open(f"{folder}/{name}.jsonl", "w", encoding="utf-8") as file:
        for line in [versions] + lines:
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def make_t5():
    tokenizer = tokenizer_of("t5", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=4, d_ff=24, num_layers=2, num_decoder_layers=3, num_heads=4,
        relative_attention_num_buckets=8, relative_attention_max_distance=12, feed_forward_proj="relu",
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, n_positions=48, initializer_factor=1.0)
    torch.manual_seed(1)
    model = transformers.T5ForConditionalGeneration(config).eval()
    randomize(model, 0.45)
    with torch.no_grad():
        model.shared.weight[1] *= 2  # so that some texts end early
    save(model, "t5")
    lines = []
    for prompt in PROMPTS:
        inputs = {"input_ids": torch.tensor([tokenizer(prompt)["input_ids"]])}
        ids = model.generate(**inputs, max_new_tokens=24, do_sample=False, num_beams=1)[0].tolist()[1:]
        stops = ids[-1] == config.eos_token_id
        if stops:
            ids.pop()
        text = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        lines.append({"schema": "mt-generate/1", "prompt": prompt, "text": text, "tokens": len(ids),
                      "finish_reason": "stop" if stops else "length", "token_ids": ids})
    write_lines("t5", lines)


BERT = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, max_position_embeddings=64,
            hidden_act="gelu", hidden_dropout_prob=0, attention_probs_dropout_prob=0)


def bert_tokenizer():
    return tokenizer_of("bert-lower", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", pad_token="[PAD]",
                        unk_token="[UNK]")


def make_first_bert():
    tokenizer = bert_tokenizer()
    torch.manual_seed(4)
    model = transformers.BertModel(transformers.BertConfig(**BERT, vocab_size=len(tokenizer))).eval()
    randomize(model, 0.25)
    save(model, "bert")
    lines = []
    with torch.no_grad():
        for text in TEXTS:
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
            lines.append({"text": text, "mean": hidden.mean(0).tolist(), "cls": hidden[0].tolist(),
                          "length1": torch.nn.functional.normalize(hidden[0], dim=0).tolist()})
    write_lines("bert", lines)


def make_bert():
    tokenizer = bert_tokenizer()
    config = transformers.MegatronBertConfig(**BERT, vocab_size=len(tokenizer))
    torch.manual_seed(3)
    model = transformers.MegatronBertForPreTraining(config).eval()
    randomize(model, 0.25)
    save(model, "megatron-bert")
    lines = []
    with torch.no_grad():
        for text in TEXTS:
            inputs = tokenizer(text, return_tensors="pt")
            out = model.bert(**inputs)
            hidden = out.last_hidden_state[0]
            mean = hidden[1:-1].mean(0) if len(hidden) > 2 else torch.zeros(config.hidden_size)
            ids = inputs["input_ids"][0]
            nll, right = 0.0, 0
            for i in range(1, len(ids) - 1):
                masked = ids.clone()
                masked[i] = tokenizer.mask_token_id
                logits = model(masked[None]).prediction_logits[0, i].double()
                nll -= logits.log_softmax(-1)[ids[i]].item()
                right += int(logits.argmax() == ids[i])
            lines.append({"text": text, "ids": ids.tolist(), "mean": mean.tolist(),
                          "pooled": out.pooler_output[0].tolist(), "nll": nll, "tokens": len(ids) - 2,
                          "right": right})
    write_lines("megatron-bert", lines)


if __name__ == "__main__":
    make_t5()
    make_bert()
    make_first_bert()
