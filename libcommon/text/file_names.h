// The names of the files that tokenizers lie in, by those who write them.
#pragma once

#include <array>
#include <string_view>

namespace mt {

// Files that hold tokens.
inline constexpr const char* kTokenizerJson = "tokenizer.json";  // Hugging Face's tokenizers
inline constexpr const char* kVocabJson = "vocab.json";          // GPT-2's two
inline constexpr const char* kMergesTxt = "merges.txt";
inline constexpr const char* kVocabTxt = "vocab.txt";      // BERT's
inline constexpr const char* kTekkenJson = "tekken.json";  // Mistral's ranks
// A SentencePiece model, or ranks as tiktoken writes them: the content tells which.
inline constexpr const char* kTokenizerModel = "tokenizer.model";
inline constexpr const char* kTiktokenModel = "tiktoken.model";
inline constexpr std::array kModelFiles = {kTokenizerModel, "spiece.model",
                                           "sentencepiece.bpe.model", "spm.model", kTiktokenModel};

// Ranks that code in a model's own folder reads, and transformers has no class for.
inline constexpr const char* kQwenRanks = "qwen.tiktoken";

// What is said of those, beside them.
inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
inline constexpr const char* kAddedTokensJson = "added_tokens.json";
inline constexpr const char* kChatTemplate = "chat_template.jinja";
inline constexpr std::string_view kMoreChatTemplates = "additional_chat_templates/";

}  // namespace mt
