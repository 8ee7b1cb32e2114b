"""A tokenizer of bytes with a token for images, and its chat template, for tiny LLaVAs."""
import tokenizers
import transformers

TEMPLATE = ("{% for message in messages %}{{ message['role'].upper() + ': ' }}{% if message['content'] is string %}"
            "{{ message['content'] }}{% else %}{% for part in message['content'] %}{% if part['type'] == 'image' %}"
            "{{ '<image>' }}{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
            "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")


def make_tokenizer():
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = ["<s>", "</s>", "<pad>"] + letters
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    model.add_special_tokens(["<s>", "</s>", "<pad>", "<image>"])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, bos_token="<s>", eos_token="</s>",
                                                pad_token="<pad>", chat_template=TEMPLATE)
