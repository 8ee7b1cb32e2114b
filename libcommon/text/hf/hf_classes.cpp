#include "text/hf/hf_classes.h"

#include <algorithm>
#include <utility>

namespace mt {
namespace {

using enum HfClass::Effect;
using Roles = HfClass::Roles;

constexpr Roles kNone = {};
constexpr std::string_view kEnd = "<|endoftext|>";
constexpr Roles kGpt2 = {kEnd, kEnd, kEnd};
constexpr Roles kLlama = {"<s>", "</s>", "<unk>"};
constexpr Roles kBert = {"", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
constexpr Roles kRoberta = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"};
constexpr Roles kT5 = {"", "</s>", "<unk>", "", "<pad>"};
constexpr Roles kDeberta = {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};

constexpr HfClass kGeneric = {"PreTrainedTokenizer", kNone, none};

// As of transformers 4.51.3.
constexpr HfClass kClasses[] = {
    {"GPT2Tokenizer", kGpt2, from_nothing},
    {"GPTNeoXTokenizer", kGpt2, ends | from_nothing},
    {"LlamaTokenizer", kLlama, ends | begins | own_prefix | marks | from_nothing},
    {"CodeLlamaTokenizer", kLlama, ends | begins | from_nothing},
    {"GemmaTokenizer", {"<bos>", "<eos>", "<unk>", "", "<pad>"}, ends | begins | from_nothing},
    {"CohereTokenizer",
     {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>"},
     ends | begins | deep_prefix | from_nothing},
    {"BloomTokenizer", {"<s>", "</s>", "<unk>", "", "<pad>"}, deep_prefix},
    {"CodeGenTokenizer", kGpt2, from_nothing},
    {"WhisperTokenizer", kGpt2, none},
    {"Qwen2Tokenizer", {"", kEnd, kEnd, "", kEnd}, from_nothing},
    {"CLIPTokenizer", {"<|startoftext|>", kEnd, kEnd, "", kEnd}, none},
    {"RobertaTokenizer", kRoberta, around | from_nothing},
    {"BartTokenizer", kRoberta, around | from_nothing},
    {"LongformerTokenizer", kRoberta, around | from_nothing},
    {"XLMRobertaTokenizer", kRoberta, none},
    {"CamembertTokenizer", kRoberta, none},
    {"XGLMTokenizer", {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>"}, none},
    {"DebertaTokenizer", kDeberta, none},
    {"DebertaV2Tokenizer", kDeberta, none},
    {"AlbertTokenizer", {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"}, none},
    {"T5Tokenizer", kT5, own_prefix | from_nothing},
    {"MT5Tokenizer", kT5, own_prefix},
    {"OpenAIGPTTokenizer", {"", "", "<unk>"}, none},
    {"XLNetTokenizer", {"<s>", "</s>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"}, none},
    {"MPNetTokenizer", {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"}, bert},
    {"FunnelTokenizer", {"<s>", "</s>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"}, bert},
    {"BertTokenizer", kBert, bert | around | from_nothing},
    {"DistilBertTokenizer", kBert, bert | around | from_nothing},
    {"ElectraTokenizer", kBert, bert | around | from_nothing},
    {"MobileBertTokenizer", kBert, bert | around | from_nothing},
    {"ConvBertTokenizer", kBert, bert | around | from_nothing},
    {"LayoutLMTokenizer", kBert, bert},
    {"LxmertTokenizer", kBert, bert},
    {"RealmTokenizer", kBert, bert},
    {"RetriBertTokenizer", kBert, bert},
    {"RoFormerTokenizer", kBert, bert},
    {"SplinterTokenizer", kBert, bert},
    {"SqueezeBertTokenizer", kBert, bert},
    {"DPRQuestionEncoderTokenizer", kBert, bert},
    {"DPRContextEncoderTokenizer", kBert, bert},
    {"DPRReaderTokenizer", kBert, bert},
};

// What version 5 has otherwise.
constexpr std::pair<std::string_view, Roles> kRoles5[] = {
    {"GPTNeoXTokenizer", {kEnd, kEnd, kEnd, "", "<|padding|>"}},
    {"GemmaTokenizer", {"<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"}},
    {"CohereTokenizer",
     {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>"}},
    {"BloomTokenizer", kNone},
    {"MT5Tokenizer", kNone},
    {"RealmTokenizer", kNone},
    {"RetriBertTokenizer", kNone}};

constexpr std::pair<std::string_view, std::string_view> kModels[] = {
    {"albert", "AlbertTokenizer"},
    {"bart", "BartTokenizer"},
    {"bert", "BertTokenizer"},
    {"bloom", "BloomTokenizer"},
    {"camembert", "CamembertTokenizer"},
    {"code_llama", "CodeLlamaTokenizer"},
    {"codegen", "CodeGenTokenizer"},
    {"cohere", "CohereTokenizer"},
    {"cohere2", "CohereTokenizer"},
    {"convbert", "ConvBertTokenizer"},
    {"dbrx", "GPT2Tokenizer"},
    {"deberta", "DebertaTokenizer"},
    {"deberta-v2", "DebertaV2Tokenizer"},
    {"deepseek_v3", "LlamaTokenizer"},
    {"diffllama", "LlamaTokenizer"},
    {"distilbert", "DistilBertTokenizer"},
    {"electra", "ElectraTokenizer"},
    {"ernie", "BertTokenizer"},
    {"falcon_mamba", "GPTNeoXTokenizer"},
    {"funnel", "FunnelTokenizer"},
    {"gemma", "GemmaTokenizer"},
    {"gemma2", "GemmaTokenizer"},
    {"gemma3", "GemmaTokenizer"},
    {"gemma3_text", "GemmaTokenizer"},
    {"gpt2", "GPT2Tokenizer"},
    {"gpt_bigcode", "GPT2Tokenizer"},
    {"gpt_neo", "GPT2Tokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer"},
    {"gptj", "GPT2Tokenizer"},
    {"jamba", "LlamaTokenizer"},
    {"jetmoe", "LlamaTokenizer"},
    {"llama", "LlamaTokenizer"},
    {"longformer", "LongformerTokenizer"},
    {"longt5", "T5Tokenizer"},
    {"mamba", "GPTNeoXTokenizer"},
    {"mamba2", "GPTNeoXTokenizer"},
    {"megatron-bert", "BertTokenizer"},
    {"mistral", "LlamaTokenizer"},
    {"mixtral", "LlamaTokenizer"},
    {"mobilebert", "MobileBertTokenizer"},
    {"mpnet", "MPNetTokenizer"},
    {"mpt", "GPTNeoXTokenizer"},
    {"mt5", "MT5Tokenizer"},
    {"olmo", "GPTNeoXTokenizer"},
    {"olmo2", "GPTNeoXTokenizer"},
    {"olmoe", "GPTNeoXTokenizer"},
    {"openai-gpt", "OpenAIGPTTokenizer"},
    {"opt", "GPT2Tokenizer"},
    {"persimmon", "LlamaTokenizer"},
    {"phi", "CodeGenTokenizer"},
    {"phi3", "LlamaTokenizer"},
    {"phimoe", "LlamaTokenizer"},
    {"qwen2", "Qwen2Tokenizer"},
    {"qwen2_moe", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer"},
    {"recurrent_gemma", "GemmaTokenizer"},
    {"roberta", "RobertaTokenizer"},
    {"rwkv", "GPTNeoXTokenizer"},
    {"squeezebert", "SqueezeBertTokenizer"},
    {"stablelm", "GPTNeoXTokenizer"},
    {"starcoder2", "GPT2Tokenizer"},
    {"t5", "T5Tokenizer"},
    {"umt5", "T5Tokenizer"},
    {"whisper", "WhisperTokenizer"},
    {"xglm", "XGLMTokenizer"},
    {"xlm-roberta", "XLMRobertaTokenizer"},
    {"xlnet", "XLNetTokenizer"},
    {"zamba", "LlamaTokenizer"},
    {"zamba2", "LlamaTokenizer"},
};

// Those to which version 5 gives no class of their own.
constexpr std::string_view kGeneric5[] = {
    "bloom", "deepseek_v3", "diffllama", "gpt_bigcode", "jamba", "jetmoe",
    "llama", "longt5",      "mistral",   "mixtral",     "olmo2", "persimmon",
    "phi3",  "phimoe",      "stablelm",  "umt5",        "zamba", "zamba2"};

// Those that version 5 has registered with the generic class; the others of kGeneric5 it does not
// know at all.
constexpr std::string_view kRegisteredGeneric5[] = {"arctic",
                                                    "ernie4_5",
                                                    "ernie4_5_moe",
                                                    "flex_olmo",
                                                    "glm",
                                                    "glm4",
                                                    "glm4_moe",
                                                    "gpt_bigcode",
                                                    "granite",
                                                    "granitemoe",
                                                    "granitemoehybrid",
                                                    "granitemoeshared",
                                                    "internlm2",
                                                    "internlm3",
                                                    "jamba",
                                                    "kimi_linear",
                                                    "minicpm3",
                                                    "minimax_m2",
                                                    "ministral",
                                                    "ministral3",
                                                    "mistral",
                                                    "mistral3",
                                                    "mixtral",
                                                    "nemotron",
                                                    "olmo2",
                                                    "olmo3",
                                                    "persimmon",
                                                    "phi3",
                                                    "phimoe",
                                                    "stablelm",
                                                    "umt5"};

}  // namespace

const HfClass& hf_class(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const auto* const found = std::ranges::find(kClasses, name, &HfClass::name);
  return found == std::end(kClasses) ? kGeneric : *found;
}

HfClass::Roles hf_class_roles(const HfClass& kind, int version) {
  for (const auto& [name, roles] : kRoles5)
    if (version >= 5 && name == kind.name) return roles;
  return kind.roles;
}

std::string_view hf_class_beside(std::string_view named, std::string_view model_type, int version) {
  if (version < 5) return named;
  const auto* const end = std::end(kRegisteredGeneric5);
  if (std::find(std::begin(kRegisteredGeneric5), end, model_type) != end) return kGeneric.name;
  return model_type == "qwen2" ? hf_class_of_model(model_type, version) : named;
}

std::string_view hf_class_of_model(std::string_view model_type, int version) {
  if (version >= 5 && std::ranges::find(kGeneric5, model_type) != std::end(kGeneric5))
    return kGeneric.name;
  for (const auto& [model, name] : kModels)
    if (model == model_type) return name;
  return {};
}

}  // namespace mt
