#include "train/options/multimodal_options.h"

#include <utility>

#include "base/command.h"
#include "base/file.h"
#include "data/samples/train_data.h"
#include "text/chat/chat_value.h"

namespace mt {

void MultimodalOptions::add_to(CommandLine& cl, std::vector<std::string> packings) {
  cl.section("Images and text (LLaVA)");
  cl.flag("--freeze-LM", &freeze_lm, "multimodal: the language model stays as it is");
  cl.flag("--freeze-ViT", &freeze_vit,
          "multimodal: the tower of images stays as it is; the projector learns in any case");
  tiles.add_to(cl);
  cl.option("--prompt-path", &prompt_path, "FILE",
            "multimodal: JSON with a list CaptioningPretraining.raw, of which each caption has one "
            "between its image and itself");
  cl.option("--chat-template", &chat_template, "NAME|FILE|-",
            "multimodal: how conversations are written: a template of the model's folder, of a "
            "family (chatml, llama3), or in a file; default: that of the model's folder");
  cl.option("--packing", &packing, "HOW",
            "multimodal: which texts share a sample; no text sees another",
            one_of(std::move(packings)));
  cl.flag(
      "--train-after-image", &train_after_image,
      "multimodal: the first token of a text behind an image is learnt, too, which it is not in "
      "Megatron-LM");
  cl.option("--on-error", &on_error, "POLICY",
            "multimodal: a sample that cannot be used: stop, skip it, or quarantine=FILE, which "
            "collects such");
}

void MultimodalOptions::add_fallbacks(CommandLine& cl) const {
  cl.fallback("--dataloader-type", {"cyclic"}, "default with --model-type multimodal");
}

void MultimodalOptions::check_given(const CommandLine& cl) const {
  for (const char* flag :
       {"--split", "--test-data-path", "--data-args-path", "--per-split-data-args-path",
        "--mock-data", "--data-cache-path", "--reset-position-ids", "--reset-attention-mask",
        "--no-create-attention-mask-in-dataloader", "--eod-mask-loss", "--no-data-sharding",
        "--multiple-validation-sets"})
    if (cl.given(flag)) fail(Exit::usage, flag, ": is not for --model-type multimodal");
}

void MultimodalOptions::take_length(DataOptions& data) const {
  if (data.masks.decoder_seq_length)
    data.seq_length = *std::exchange(data.masks.decoder_seq_length, {});
  data.masks.check(SampleType::gpt, "--model-type multimodal");
}

void MultimodalOptions::check_unused(const std::string& run) const {
  tiles.check_unused(run);
  const MultimodalOptions defaults;
  for (const auto& [says, name] :
       {std::pair{freeze_lm, "--freeze-LM"}, std::pair{freeze_vit, "--freeze-ViT"},
        std::pair{!prompt_path.empty(), "--prompt-path"},
        std::pair{!chat_template.empty(), "--chat-template"},
        std::pair{packing != defaults.packing, "--packing"},
        std::pair{train_after_image, "--train-after-image"},
        std::pair{on_error != defaults.on_error, "--on-error"}})
    if (says) fail(Exit::usage, name, ": has no effect with ", run);
}

std::vector<std::string> MultimodalOptions::caption_prompts() const {
  std::vector<std::string> prompts;
  if (prompt_path.empty()) return prompts;
  const ChatValue all = chat_value_of_json(read_file(prompt_path), prompt_path);
  const ChatValue* const kind = all.find("CaptioningPretraining");
  const ChatValue* const raw = kind == nullptr ? nullptr : kind->find("raw");
  if (raw != nullptr && raw->is_list())
    for (const ChatValue& one : *raw->items())
      if (one.text() != nullptr) prompts.push_back(*one.text());
  if (prompts.empty() || std::size(prompts) != raw->items()->size())
    fail(Exit::bad_data, prompt_path, ": CaptioningPretraining.raw: expected a list of texts");
  return prompts;
}

}  // namespace mt
