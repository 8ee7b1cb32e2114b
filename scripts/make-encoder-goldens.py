#!/usr/bin/env python3
"""Writes testdata/model/bert.golden: a tiny BERT of megatron-core on a CPU.

    python scripts/make-encoder-goldens.py testdata/model     needs megatron-core 0.12.1 and torch

Weights are functions of the order of their names and of their elements.  Lines of the file, but
for the first, are a name and numbers: `losses` of the masked tokens, in order, `classes`, the two
logits of each sequence's order, `gradient NAME` of the sum of both mean losses, and for each of
twenty steps of AdamW `step`, the two losses and the gradients' norm before it is clipped.
"""
import contextlib
import os
import socket
import sys

import torch

torch.cuda.current_device = lambda: 'cpu'  # before megatron.core asks
torch.Tensor.cuda = lambda self, *args, **kwargs: self
import megatron.core
import megatron.core.tensor_parallel.random as random
from megatron.core import parallel_state
from megatron.core.models.bert.bert_layer_specs import bert_layer_local_spec
from megatron.core.models.bert.bert_model import BertModel
from megatron.core.transformer import TransformerConfig

random.CudaRNGStatesTracker.fork = lambda self, name=None: contextlib.nullcontext()

WAVE, STEPS = 0.2, 20
IDS = [[1, 5, 7, 2, 9, 2, 0, 0], [1, 4, 2, 6, 8, 11, 2, 0]]
TYPES = [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 1, 0]]
LENGTHS, ORDER = [6, 7], [0, 1]
LABELS = {(0, 2): 3, (0, 4): 10, (1, 1): 12}


def begin():
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), RANK='0', WORLD_SIZE='1')
    torch.distributed.init_process_group('gloo', rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)


def make_model():
    config = TransformerConfig(
        num_layers=2, hidden_size=8, num_attention_heads=2, ffn_hidden_size=32,
        use_cpu_initialization=True, hidden_dropout=0.0, attention_dropout=0.0,
        layernorm_epsilon=1e-5, bias_activation_fusion=True)
    model = BertModel(
        config=config, num_tokentypes=2, transformer_layer_spec=bert_layer_local_spec,
        vocab_size=16, max_sequence_length=8, share_embeddings_and_output_weights=True,
        add_binary_head=True, parallel_output=True)
    with torch.no_grad():
        for t, (name, row) in enumerate(sorted(model.named_parameters())):
            i = torch.arange(1, row.numel() + 1, dtype=torch.float64)
            wave = torch.sin(0.7 * i + 0.9 * t).reshape(row.shape)
            scale = 'norm' in name and name.endswith('weight')
            row.copy_(1 + WAVE / 2 * wave if scale else WAVE * wave)
    return model


class Batch:
    def __init__(self):
        self.ids, self.types = torch.tensor(IDS), torch.tensor(TYPES)
        self.order = torch.tensor(ORDER)
        self.labels = torch.full(self.ids.shape, -1)
        for place, label in LABELS.items():
            self.labels[place] = label
        self.mask = torch.tensor([[1] * n + [0] * (len(IDS[0]) - n) for n in LENGTHS])

    def losses(self, model):
        tokens, classes = model(self.ids, self.mask, tokentype_ids=self.types,
                                lm_labels=self.labels)
        masked = tokens.float()[self.labels >= 0]
        order = torch.nn.functional.cross_entropy(classes.float(), self.order, ignore_index=-1)
        return masked, classes, masked.mean(), order


def main():
    begin()
    model, batch = make_model(), Batch()
    rows = sorted(model.named_parameters())
    with open(os.path.join(sys.argv[1], 'bert.golden'), 'w') as out:
        def write(name, numbers):
            print(name, *(f'{float(x):.8g}' for x in numbers), file=out)

        print(f'# megatron-core {megatron.core.__version__}, torch {torch.__version__}', file=out)
        masked, classes, words, order = batch.losses(model)
        write('losses', masked)
        write('classes', classes.flatten())
        (words + order).backward()
        for name, row in rows:
            write(f'gradient {name}', row.grad.flatten())
        decays = [row for _, row in rows if row.dim() > 1]
        others = [row for _, row in rows if row.dim() == 1]
        optimizer = torch.optim.AdamW(
            [{'params': decays, 'weight_decay': 0.01}, {'params': others, 'weight_decay': 0}],
            lr=1e-2, betas=(0.9, 0.999), eps=1e-8)
        for _ in range(STEPS):
            optimizer.zero_grad()
            _, _, words, order = batch.losses(model)
            (words + order).backward()
            norm = torch.nn.utils.clip_grad_norm_([row for _, row in rows], 1.0)
            write('step', [words, order, norm])
            optimizer.step()


main()
