"""What scripts/compare-retro-*.py have in common: megatron-core 0.12.1 on a CPU without its extensions, and cases at random, each a
project of testdata's stories that mt-retro-index build-db has cut into chunks."""
import argparse
import importlib.machinery
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
os.environ.update(MT_DEVICE="cpu", NVTE_FLASH_ATTN="0", NVTE_FUSED_ATTN="0")
import torch  # noqa: E402

for name in ("faiss", "psutil"):  # the first is not needed to read, the second tells of memory alone
    try:
        __import__(name)
    except ImportError:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)  # which transformers looks at
torch.cuda.current_device = lambda: "cpu"  # before megatron.core asks
torch.Tensor.cuda = lambda self, *args, **kwargs: self
from megatron.core import parallel_state  # noqa: E402
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder  # noqa: E402
from megatron.core.datasets.retro import utils as retro_utils  # noqa: E402
from megatron.core.datasets.retro.query.multi_split_gpt_dataset import (  # noqa: E402
    MultiSplitGPTDataset, MultiSplitGPTDatasetConfig)
from megatron.core.datasets.utils import get_blend_from_list  # noqa: E402

logging.disable(logging.WARNING)
TESTDATA = (Path(__file__).parent.parent / "testdata").resolve()
VOCAB, MERGES = (TESTDATA / "gpt2_bpe" / name for name in ("vocab.json", "merges.txt"))
EOD = 379


class RetroCase:
    def __init__(self, programs, folder, seed, chunks, blocks):
        self.rng = rng = random.Random(seed)
        self.programs, self.folder, self.project = programs, folder, folder / "project"
        self.chunk, self.block = rng.choice(chunks), rng.choice(blocks)
        self.length = self.chunk * rng.choice([2, 3, 4])
        self.batch, self.samples = 4, 4 * rng.choice([3, 5])
        self.interval, self.evaluations, self.order = rng.choice([2, 3]), 2, rng.randrange(1000)
        self.paths = ["0.75", "a_text_document", "0.25", "b_text_document"]
        valid = (self.samples // self.batch // self.interval + 1) * self.evaluations * self.batch
        self.counts = {"train": self.samples, "valid": valid}

    def run(self, program, *words):
        """Its lines of JSON."""
        done = subprocess.run([self.programs / program, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{done.stderr}exit code {done.returncode} of {program} {words}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def build_db(self, bert_vocab, trained):
        """The chunks, of which so many are set aside for an index to be trained on."""
        (self.project / "data").mkdir(parents=True, exist_ok=True)
        for name, part in (("a", slice(0, 40)), ("b", slice(40, 60))):
            lines = (TESTDATA / "stories" / "stories.jsonl").read_text().splitlines(True)[part]
            (self.folder / "lines.jsonl").write_text("".join(lines))
            self.run("mt-preprocess", "--input", "lines.jsonl", "--output-prefix", self.project / "data" / name, "--append-eod",
                     "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", VOCAB, "--merge-file", MERGES)
        self.run("mt-retro-index", "build-db", "--retro-project-dir", self.project, "--retro-gpt-data-path", *self.paths,
                 "--retro-gpt-split", "80,20,0", "--retro-gpt-chunk-length", self.chunk, "--retro-bert-tokenizer-type",
                 "BertWordPieceLowerCase", "--retro-bert-vocab-file", bert_vocab, "--retro-index-ntrain", trained,
                 "--retro-gpt-seq-length", self.length, "--retro-gpt-train-samples", self.samples,
                 "--retro-gpt-global-batch-size", self.batch, "--retro-gpt-eval-interval", self.interval,
                 "--retro-gpt-eval-iters", self.evaluations, "--retro-gpt-seed", self.order, "--retro-block-size", self.block)

    def gpt_datasets(self, **settings):
        """Megatron's own, of training and validation."""
        blend = get_blend_from_list([word if i % 2 == 0 else str(self.project / "data" / word)
                                     for i, word in enumerate(self.paths)])
        config = MultiSplitGPTDatasetConfig(
            random_seed=self.order, sequence_length=self.length, blend=blend, split="80,20,0", split_preprocessing="80,20,0",
            path_to_cache=None, reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
            tokenizer=types.SimpleNamespace(eod=EOD, unique_identifiers={}, pad=EOD), **settings)
        built = BlendedMegatronDatasetBuilder(MultiSplitGPTDataset, [*self.counts.values(), 0], lambda: True, config).build()
        return {key: (built[i], self.counts[key]) for i, key in enumerate(self.counts)}


def compare_cases(doc, Case):
    """Case(programs, folder, seed).compare() says what differs."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="the folder with the programs")
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    retro_utils.tqdm = lambda items, *_, **__: items
    wrong = 0
    for case in range(options.seed, options.seed + options.cases):
        with tempfile.TemporaryDirectory() as folder:
            differs = Case(options.programs.resolve(), Path(folder), case).compare()
        wrong += differs != ""
        print(f"project {case:4} {'differs: ' + differs if differs else 'equal'}", flush=True)
    print(f"{options.cases} compared, {wrong} differ")
    sys.exit(1 if wrong else 0)
