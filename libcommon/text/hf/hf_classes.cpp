#include "text/hf/hf_classes.h"

#include <algorithm>
#include <span>
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
constexpr Roles kAlbert = {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"};
constexpr Roles kDeberta = {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};

constexpr HfClass kGeneric = {"PreTrainedTokenizer", kNone, none};

// What several classes have in common.
constexpr std::uint32_t kAroundBytes = around | from_nothing,
                        kBertAnew = bert | around | from_nothing;
constexpr std::uint32_t kPieces = from_nothing | pieces, kFile5 = from_file | unread5;
constexpr std::uint8_t kAllFlagged = 0x3F, kMiddleFlagged = 0x17, kFirstFlagged = 0x07;

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
    {"WhisperTokenizer", kGpt2, kFile5, kFirstFlagged},
    {"Qwen2Tokenizer", {"", kEnd, kEnd, "", kEnd}, from_nothing, kMiddleFlagged},
    {"Qwen3_5Tokenizer", {"", kEnd, kEnd, "", kEnd}, from_nothing},  // of version 5 alone
    {"CLIPTokenizer", {"<|startoftext|>", kEnd, kEnd, "", kEnd}, kFile5},
    {"RobertaTokenizer", kRoberta, kAroundBytes | mask_left},
    {"BartTokenizer", kRoberta, kAroundBytes | mask_left | mask_normal},
    {"LongformerTokenizer", kRoberta, kAroundBytes | mask_left},
    {"LEDTokenizer", kRoberta, kAroundBytes | mask_left | mask_normal},
    {"MvpTokenizer", kRoberta, kAroundBytes | mask_left, kAllFlagged},
    {"BlenderbotTokenizer", kRoberta, from_file | from_nothing | mask_left | mask_left5},
    {"XLMRobertaTokenizer", kRoberta, kPieces | bos_eos5 | mask_left},
    {"CamembertTokenizer", kRoberta, kPieces | bos_eos5 | mask_left | mask_left5},
    {"XGLMTokenizer", {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>"}, kPieces},
    {"BarthezTokenizer", kRoberta, kPieces | from_file | mask_left | mask_left5},
    {"MBartTokenizer", kRoberta, kPieces | from_file | mask_left | mask_left5},
    {"MBart50Tokenizer",
     {"", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
     kPieces | from_file | mask_left | mask_left5},
    {"NllbTokenizer", kRoberta, from_file | from_nothing | mask_left | mask_left5 | mask_normal},
    {"HerbertTokenizer", {"", "", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}, kFile5},
    {"DebertaTokenizer", kDeberta, kAroundBytes},
    {"DebertaV2Tokenizer", kDeberta, kPieces | around5},
    {"AlbertTokenizer", kAlbert, kPieces | mask_left},
    {"RemBertTokenizer", kAlbert, kPieces | from_file | mask_left},
    {"FNetTokenizer",
     {"", "", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
     from_file | mask_left,
     0x28},
    {"BigBirdTokenizer",
     {"<s>", "</s>", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
     kPieces | around5 | from_file | mask_left | mask_left5,
     kAllFlagged},
    {"PegasusTokenizer",
     {"", "</s>", "<unk>", "", "<pad>", "", "<mask_2>"},
     kPieces | eos_behind5 | from_file},
    {"ReformerTokenizer", {"", "</s>", "<unk>"}, from_file | from_nothing},
    {"T5Tokenizer", kT5, own_prefix | from_nothing},
    {"MT5Tokenizer", kT5, own_prefix},
    {"OpenAIGPTTokenizer", {"", "", "<unk>"}, from_file | from_nothing},
    {"XLNetTokenizer",
     {"<s>", "</s>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"},
     kPieces | mask_left | mask_left5},
    {"MPNetTokenizer",
     {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"},
     kBertAnew | keeps_chinese | mask_left | mask_left5,
     kAllFlagged},
    {"FunnelTokenizer",
     {"<s>", "</s>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"},
     bert | unread5},
    {"BertTokenizer", kBert, kBertAnew},
    {"DistilBertTokenizer", kBert, kBertAnew},
    {"ElectraTokenizer", kBert, kBertAnew},
    {"MobileBertTokenizer", kBert, kBertAnew},
    {"ConvBertTokenizer", kBert, kBertAnew},
    {"LayoutLMTokenizer", kBert, kBertAnew},
    {"LxmertTokenizer", kBert, kBertAnew},
    {"SqueezeBertTokenizer", kBert, kBertAnew},
    {"DPRQuestionEncoderTokenizer", kBert, bert | unread5},
    {"DPRContextEncoderTokenizer", kBert, bert | unread5},
    {"DPRReaderTokenizer", kBert, bert | unread5},
    {"RealmTokenizer", kBert, bert},
    {"RetriBertTokenizer", kBert, bert},
    {"SplinterTokenizer", kBert, bert | keeps_chinese | unread5},
    {"NougatTokenizer", {"<s>", "</s>", "<unk>", "", "<pad>"}, kFile5},
};

// Classes without a tokenizer.json of their own, or of which version 4 makes nothing of it; and
// those that ask for more than a text, such as the boxes of its words.
constexpr std::string_view kUnreadNames[] = {
    "BartphoTokenizer",
    "BertGenerationTokenizer",
    "BertJapaneseTokenizer",
    "BertTokenizerLegacy",
    "BertweetTokenizer",
    "BioGptTokenizer",
    "BlenderbotSmallTokenizer",
    "ByT5Tokenizer",
    "CTRLTokenizer",
    "CanineTokenizer",
    "ClvpTokenizer",
    "CpmTokenizer",
    "CpmAntTokenizer",
    "DiaTokenizer",
    "ErnieMTokenizer",
    "EsmTokenizer",
    "EsmcTokenizer",
    "FSMTTokenizer",
    "FastSpeech2ConformerTokenizer",
    "FlaubertTokenizer",
    "GPTNeoXJapaneseTokenizer",
    "GPTSanJapaneseTokenizer",
    "GPTSw3Tokenizer",
    "JukeboxTokenizer",
    "LasrTokenizer",
    "LayoutLMv2Tokenizer",
    "LayoutLMv3Tokenizer",
    "LayoutXLMTokenizer",
    "LukeTokenizer",
    "M2M100Tokenizer",
    "MLukeTokenizer",
    "MarianTokenizer",
    "MarkupLMTokenizer",
    "MgpstrTokenizer",
    "MyT5Tokenizer",
    "PLBartTokenizer",
    "PerceiverTokenizer",
    "PhobertTokenizer",
    "Pop2PianoTokenizer",
    "ProphetNetTokenizer",
    "RagTokenizer",
    "RoCBertTokenizer",
    "RoFormerTokenizer",
    "SentencePieceBackend",
    "SiglipTokenizer",
    "SeamlessM4TTokenizer",
    "Siglip2Tokenizer",
    "Speech2TextTokenizer",
    "Speech2Text2Tokenizer",
    "SpeechT5Tokenizer",
    "TapasTokenizer",
    "TapexTokenizer",
    "Tipsv2Tokenizer",
    "TransfoXLTokenizer",
    "UdopTokenizer",
    "VideoPrismTokenizer",
    "VitsTokenizer",
    "Wav2Vec2CTCTokenizer",
    "Wav2Vec2PhonemeCTCTokenizer",
    "Wav2Vec2Tokenizer",
    "XLMTokenizer",
    "XLMProphetNetTokenizer",
};

constexpr auto kUnread = []<std::size_t N>(const std::string_view (&names)[N]) {
  std::array<HfClass, N> classes = {};
  for (std::size_t i = 0; i < N; ++i) classes[i] = {names[i], kNone, unread};
  return classes;
}(kUnreadNames);

// What version 5 has otherwise.
constexpr std::pair<std::string_view, Roles> kRoles5[] = {
    {"GPTNeoXTokenizer", {kEnd, kEnd, kEnd, "", "<|padding|>"}},
    {"GemmaTokenizer", {"<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"}},
    {"CohereTokenizer",
     {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>"}},
    {"BloomTokenizer", kNone},
    {"FNetTokenizer", kAlbert}};

// Those that stand for any tokenizer.json.
constexpr std::string_view kAnyNames[] = {"PreTrainedTokenizer", "TokenizersBackend",
                                          "PythonBackend", "MistralCommonBackend",
                                          "ParakeetTokenizer"};

// Those of the above that a version has not: the first that came with version 5, and those that
// went with it.
constexpr std::string_view kNot4[] = {"DiaTokenizer",       "EsmcTokenizer",    "LasrTokenizer",
                                      "Qwen3_5Tokenizer",   "Siglip2Tokenizer", "Tipsv2Tokenizer",
                                      "VideoPrismTokenizer"};
constexpr std::string_view kNot5[] = {
    "ErnieMTokenizer",    "GPTSanJapaneseTokenizer", "JukeboxTokenizer",      "MT5Tokenizer",
    "RealmTokenizer",     "RetriBertTokenizer",      "Speech2Text2Tokenizer", "TapexTokenizer",
    "TransfoXLTokenizer", "Wav2Vec2Tokenizer",       "XLMProphetNetTokenizer"};

std::string_view without_fast(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  return name;
}

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

const HfClass& hf_class(std::string_view name) {
  name = without_fast(name);
  for (const HfClass& kind : kClasses)
    if (kind.name == name) return kind;
  for (const HfClass& kind : kUnread)
    if (kind.name == name) return kind;
  return kGeneric;
}

bool hf_class_is_known(std::string_view name, int version) {
  name = without_fast(name);
  if (is_among(kAnyNames, name)) return true;
  const bool is_gone = version < 5 ? is_among(kNot4, name) : is_among(kNot5, name);
  return &hf_class(name) != &kGeneric && !is_gone;
}

HfClass::Roles hf_class_roles(const HfClass& kind, int version) {
  for (const auto& [name, roles] : kRoles5)
    if (version >= 5 && name == kind.name) return roles;
  return kind.roles;
}

}  // namespace mt
