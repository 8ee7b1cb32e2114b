// PREFIX.manifest.json: where a token file comes from.  One JSON object:
//   {"schema":"mt-data/1","version":"0.1.0","arguments":["--input","a.jsonl",...],
//    "inputs":[{"path":"a.jsonl","bytes":123,"hash":"<XXH3-128>"}],     (hash of the bytes as
//    stored)
//    "tokenizer":{"type":"GPT2BPETokenizer","identity":"<hash>","vocab_size":50257,"eod":50256,
//                 "files":{"vocab-file":"vocab.json","merge-file":"merges.txt"},"settings":{}},
//    "dtype":"uint16","sequences":1,"documents":1,"tokens":5,
//    "bin_hash":"<XXH3-128 of .bin>","idx_hash":"<of .idx>"}
// "tokenizer" is null where none was used; "eod" is -1 where it has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/input/byte_source.h"

namespace mt {

class Tokenizer;
struct TokenizerOptions;

struct Manifest {
  struct Tokenizer {
    std::string type, identity;
    std::int64_t vocab_size = 0, eod = -1;
    std::vector<std::pair<std::string, std::string>> files;     // option without dashes, path
    std::vector<std::pair<std::string, std::string>> settings;  // other options: "vocab-size"
  };
  std::string version;
  std::vector<std::string> arguments;
  std::vector<InputFile> inputs;
  std::optional<Tokenizer> tokenizer;
  std::string dtype;
  std::int64_t sequences = 0, documents = 0, tokens = 0;
  std::string bin_hash, idx_hash;
};

std::string manifest_path(const std::string& prefix);

// Throws Exit::no_input where there is none, Exit::bad_data where a field is missing or of another
// type; unknown fields are passed over.
Manifest read_manifest(const std::string& prefix);

// Exit::usage for .bin or .idx of a token file where its prefix is meant.
void refuse_part_of_token_file(const std::string& path);

// Absent where the token file has no manifest, as upstream's have none.
std::optional<Manifest> find_manifest(const std::string& prefix);

std::string manifest_text(const Manifest& manifest);  // the file's content

// What a manifest keeps of a tokenizer; its files by their absolute paths.
Manifest::Tokenizer describe_tokenizer(const TokenizerOptions& options,
                                       const mt::Tokenizer& tokenizer);

// The options that load it again.
TokenizerOptions tokenizer_options(const Manifest::Tokenizer& tokenizer);

}  // namespace mt
