// A tokenizer.json for a folder that has none, made of the files that it has, as the converters of
// transformers make it.  In this order the first is taken that is there, a tokenizer.json before
// them all:
//   vocab.json and merges.txt    GPT-2's byte-pair encoding, and that of the classes like it
//   vocab.txt                    BERT's WordPiece
//   tokenizer.model              a SentencePiece model, or ranks as tiktoken writes them: its
//   (or spiece.model,            content tells which
//   sentencepiece.bpe.model,
//   spm.model, tiktoken.model)
//   tekken.json                  Mistral's ranks
#pragma once

#include <string>
#include <vector>

#include "text/hf/hf_config.h"

namespace mt {

// The names of the files in a folder that hold its tokenizer: its tokenizer.json, or those that one
// would be made of; none: there are none.
std::vector<std::string> hf_vocabulary_files(const HfIsThere& is_there);
std::vector<std::string> hf_vocabulary_files(const std::string& folder);

// The files that one of those names means when it is given by itself: vocab.json and merges.txt go
// together, any other stands alone.
std::vector<std::string> hf_vocabulary_of(const std::string& path);

// Is a path's last part one of those that a tokenizer.json would be made of?
bool is_hf_vocabulary_file(const std::string& path);

// The class that a folder of such files is of where nothing says it.
std::string_view hf_class_of_files(const std::vector<HfConfigFile>& files);

// `files`: those of hf_vocabulary_files() and their content.
std::string hf_json_from(const std::vector<HfConfigFile>& files, const HfConfig& config,
                         int version);

}  // namespace mt
