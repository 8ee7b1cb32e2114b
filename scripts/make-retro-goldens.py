#!/usr/bin/env python3
"""Writes testdata/model/retro.golden, retro_llama.golden and retro.keys: tiny Retros of megatron-core on a CPU.

    python scripts/make-retro-goldens.py testdata/model     needs megatron-core 0.12.1 and torch

Weights are functions of the order of their names and of their elements, tokens of their places;
all is computed in fp64.  Lines of the files, but for the first, are a name and numbers: `losses` of
all tokens, `gradient NAME` of their mean, and for each of twenty steps of AdamW `step`, the loss
and the gradients' norm before it is clipped.  Lines of retro.keys are the keys that the first one
asks of a torch_dist checkpoint, of tensors with their shapes.
"""
import contextlib
import os
import socket
import sys
import warnings

warnings.filterwarnings('ignore')
os.environ.update(NVTE_FLASH_ATTN='0', NVTE_FUSED_ATTN='0')
import torch

torch.cuda.current_device = lambda: 'cpu'  # before megatron.core asks
torch.Tensor.cuda = lambda self, *args, **kwargs: self
import megatron.core
import megatron.core.tensor_parallel.random as random
from megatron.core import parallel_state
from megatron.core.dist_checkpointing import mapping
from megatron.core.models.retro import RetroConfig, RetroModel
from megatron.core.models.retro import config as retro_config
from megatron.core.models.retro.decoder_spec import get_retro_decoder_block_spec

retro_config.is_te_min_version = lambda version: False  # there is none
random.CudaRNGStatesTracker.fork = lambda self, name=None: contextlib.nullcontext()

WAVE, STEPS, VOCABULARY, SEQUENCES, NEIGHBORS, RETRIEVED = 0.3, 20, 24, 2, 2, 2
# Length of sequences and of chunks, and what makes the model.
CASES = {
    'retro': (8, 3, {'bias_activation_fusion': True}, {}),
    'retro_llama': (8, 4, {'gated_linear_unit': True, 'activation_func': torch.nn.functional.silu,
                           'normalization': 'RMSNorm', 'add_bias_linear': False},
                    {'position_embedding_type': 'rope',
                     'share_embeddings_and_output_weights': False}),
}


def begin():
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), RANK='0', WORLD_SIZE='1')
    torch.distributed.init_process_group('gloo', rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)


def make_model(chunk, settings, more):
    config = RetroConfig(
        num_layers=9, hidden_size=8, num_attention_heads=2, ffn_hidden_size=12,
        use_cpu_initialization=True, hidden_dropout=0.0, attention_dropout=0.0,
        layernorm_epsilon=1e-5, retro_encoder_hidden_dropout=0.0,
        retro_encoder_attention_dropout=0.0, retro_chunk_length=chunk,
        retro_num_neighbors=NEIGHBORS, retro_num_retrieved_chunks=RETRIEVED,
        retro_split_preprocessing='98,2,0', **settings)
    model = RetroModel(
        config=config, transformer_layer_spec=get_retro_decoder_block_spec(config, False),
        vocab_size=VOCABULARY, max_sequence_length=8, parallel_output=True,
        **{'share_embeddings_and_output_weights': True, **more}).double()
    with torch.no_grad():
        for t, (name, row) in enumerate(sorted(model.named_parameters())):
            i = torch.arange(1, row.numel() + 1, dtype=torch.float64)
            wave = torch.sin(0.7 * i + 0.9 * t).reshape(row.shape)
            scale = 'norm' in name and name.endswith('weight')
            row.copy_(1 + WAVE / 2 * wave if scale else WAVE * wave)
    return model


class Batch:
    def __init__(self, length, chunk):
        chunks, retrieved = -(-length // chunk), RETRIEVED * chunk
        tokens = torch.tensor([[(7 * t + 5 * s + t * t) % VOCABULARY for t in range(length + 1)]
                               for s in range(SEQUENCES)])
        count = SEQUENCES * chunks * NEIGHBORS * retrieved
        self.ids, self.labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        self.neighbors = torch.tensor([(3 * i + i * i // 5) % VOCABULARY for i in range(count)])
        self.neighbors = self.neighbors.view(-1, retrieved)
        self.hidden = torch.triu(torch.ones(1, 1, length, length, dtype=torch.bool), 1)

    def losses(self, model):
        def positions(ids):
            return torch.arange(ids.shape[1]).expand(ids.shape)

        return model(self.ids, positions(self.ids), self.hidden, self.neighbors,
                     positions(self.neighbors), torch.zeros(1, 1, dtype=torch.bool),
                     labels=self.labels)


def write_case(name, folder):
    length, chunk, settings, more = CASES[name]
    model, batch = make_model(chunk, settings, more), Batch(length, chunk)
    rows = sorted(model.named_parameters())
    with open(os.path.join(folder, f'{name}.golden'), 'w') as out:
        def write(what, numbers):
            print(what, *(f'{float(x):.9g}' for x in numbers), file=out)

        print(f'# megatron-core {megatron.core.__version__}, torch {torch.__version__}', file=out)
        losses = batch.losses(model)
        write('losses', losses.flatten())
        losses.mean().backward()
        for row_name, row in rows:
            write(f'gradient {row_name}', row.grad.flatten())
        decays = [row for _, row in rows if row.dim() > 1]
        others = [row for _, row in rows if row.dim() == 1]
        optimizer = torch.optim.AdamW(
            [{'params': decays, 'weight_decay': 0.01}, {'params': others, 'weight_decay': 0}],
            lr=1e-2, betas=(0.9, 0.999), eps=1e-8)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = batch.losses(model).mean()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_([row for _, row in rows], 1.0)
            write('step', [loss, norm])
            optimizer.step()


def write_keys(name, folder):
    _, chunk, settings, more = CASES[name]
    wanted = make_model(chunk, settings, more).sharded_state_dict()
    objects, tensors = set(), {}
    for value in wanted.values():
        if isinstance(value, mapping.ShardedObject):
            objects.add(value.unique_key)
            continue
        if isinstance(value, mapping.ShardedTensorFactory):
            value = value.build()
        for part in value if isinstance(value, list) else [value]:
            tensors[part.key] = part.global_shape
    with open(os.path.join(folder, f'{name}.keys'), 'w') as out:
        print(f'# megatron-core {megatron.core.__version__}', file=out)
        out.writelines(f'{key} {list(shape)}\n' for key, shape in sorted(tensors.items()))
        out.writelines(f'{key}\n' for key in sorted(objects))


begin()
write_keys('retro', sys.argv[1])
for case in CASES:
    write_case(case, sys.argv[1])
