"""A tokenizer of bytes with a token for images, its chat template, and processors of tiles, for tiny LLaVAs and InternVLs."""
import tokenizers
import transformers

TEMPLATE = ("{% for message in messages %}{{ message['role'].upper() + ': ' }}{% if message['content'] is string %}"
            "{{ message['content'] }}{% else %}{% for part in message['content'] %}{% if part['type'] == 'image' %}"
            "{{ '<image>' }}{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
            "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")


def make_tokenizer(added=("<image>",), template=TEMPLATE, **special):
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = ["<s>", "</s>", "<pad>"] + letters
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    model.add_special_tokens(["<s>", "</s>", "<pad>", *added])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, bos_token="<s>", eos_token="</s>",
                                                pad_token="<pad>", chat_template=template, **special)


def tiles_tokenizer():
    """With the tokens around images that InternVL's processor asks for by their names."""
    names = {"context_image_token": "<IMG_CONTEXT>", "start_image_token": "<img>", "end_image_token": "</img>",
             "video_token": "<video>"}
    return make_tokenizer(names.values(), TEMPLATE.replace("<image>", "<IMG_CONTEXT>"), extra_special_tokens=names)


def internvl_processor(vision, tokenizer, tiles):
    """Cuts images into at most so many tiles; resizes by Pillow."""
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
    side, patches = vision.image_size[0], vision.image_size[0] // vision.patch_size[0]
    images = GotOcr2ImageProcessorPil(size={"height": side, "width": side}, max_patches=tiles,
                                      image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
    return transformers.InternVLProcessor(
        image_processor=images, tokenizer=tokenizer, image_seq_length=(patches // 2) ** 2,
        video_processor=transformers.InternVLVideoProcessor(size={"height": side, "width": side}),
        chat_template=tokenizer.chat_template)
