#!/usr/bin/env python3
"""Makes testdata/huggingface: a small tokenizer.json of each kind that scripts/huggingface_kinds.py
knows, and cases.txt with the ids and texts that Hugging Face's tokenizers makes with them.

Needs tokenizers (0.23.3), sentencepiece (0.2.3) and tiktoken from PyPI:

    python scripts/make-huggingface-goldens.py testdata
"""

import json
import pathlib
import runpy
import sys
import tempfile

import tokenizers

from huggingface_kinds import Sources, all_files

HERE = pathlib.Path(__file__).parent
CASES = """|boat|  boat  |\\n\\n boat|don't  'LL he'S|the 12345 boats\\t\\r\\n|\u00e9t\u00c9 e\u0301t|
\uac00\u1100\u1161\u11a8|\u1e9b\u0323 \ufb01 \u2460|\u4f60\u597d\uff0c\u4e16\u754c\uff01|\u0939\u093f\u0928\u094d\u0926\u0940|\U0001f600\u200d\U0001f1e9\U0001f1ea x|
XMLHttp iOS/\\n/|  <pad>  x|x <mask> y|<|endoftext|>the<|endoftext|>|<|eot_id|><|eot|<|im_start|>the|
Someday, Somedays someday|e\u0301\u00e9e\u0301|\u2581a \u2581 \u2581\u2581b|\u0130\u03a3A\u03a3 \u00df\u1e9e|(a)[b]{c}! $^~`|a\u0301\u0323 \u0344|
\u3000x\u2028y\u0085|\u200bz\ufeff|<think> <tool_call>|\u2167\u00bd\u0663 12|a_b-c  d|<s> [INST]a [/INST]b</s>|``e'' \ufb01 \u2460\u2026|Tom has a cat.  x<extra_id_0> <extra_id_1> y|[MASK] [mask]do not|\u00ad \u0600a|\u2581\u007f\u2581""".replace("\n", "")
CASES = CASES.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").replace("<|", "<\0")
CASES = CASES.replace("|>", "\0>").split("|")
CASES = [case.replace("\0", "|").encode() for case in CASES] + [b"a\xff\xe2\x82b\xf0\x9f", b"a\0b"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    testdata = pathlib.Path(sys.argv[1])
    folder = testdata / "huggingface"
    folder.mkdir(exist_ok=True)
    lines = [
        f"# scripts/make-huggingface-goldens.py, tokenizers {tokenizers.__version__}:",
        "# the file beside this one, text in hexadecimal, its ids, their text in hexadecimal; '-' is",
        "# nothing.",
    ]
    lines_of = (testdata / "stories" / "stories.jsonl").read_text("utf-8").splitlines()
    stories = [json.loads(line)["text"].replace("\n", " ") for line in lines_of]
    rules = tempfile.NamedTemporaryFile("w", suffix=".tsv")
    for pair in runpy.run_path(str(HERE / "make-sentencepiece-goldens.py"))["RULES"].items():
        print(*(" ".join(f"{ord(c):X}" for c in text) for text in pair), sep="\t", file=rules, flush=True)
    sources = Sources(testdata / "gpt2_bpe", stories, 400, rules.name)
    for kind in all_files(sources):
        file = folder / (kind.name + ".json")
        file.write_text(json.dumps(kind.parts, ensure_ascii=False, separators=(",", ":")), "utf-8")
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        for case in CASES:
            ids = tokenizer.encode(case.decode("utf-8", errors="replace")).ids
            text = tokenizer.decode(ids, skip_special_tokens=False) if ids else ""
            columns = [case.hex(), ",".join(map(str, ids)), text.encode().hex()]
            lines.append(" ".join([kind.name, *(column or "-" for column in columns)]))
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
