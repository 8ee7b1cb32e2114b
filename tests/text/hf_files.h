// Small tokenizer.json files for tests, written into a folder of their own.
#pragma once

#include <fstream>
#include <string>

#include "tests/base/scratch.h"
#include "text/hf/hf_tokenizer.h"

namespace mt {

class HfFiles {
 public:
  // `config`: tokenizer_config.json; empty: there is none.
  explicit HfFiles(const std::string& tokenizer, const std::string& config = {}) {
    std::ofstream(json()) << tokenizer;
    if (!config.empty()) std::ofstream(folder_.path("tokenizer_config.json")) << config;
  }
  std::string json() const { return folder_.path("tokenizer.json"); }
  std::string folder() const { return folder_.path(""); }
  HfTokenizer load() const { return HfTokenizer(json()); }
  // What loading throws, without the folder's name; empty where it does not.
  std::string load_error() const {
    std::string line = error_of([&] { load(); });
    for (std::size_t at; (at = line.find(folder())) != std::string::npos;)
      line.erase(at, folder().size());
    return line;
  }

 private:
  Scratch folder_;
};

// The parts of a tokenizer.json; a model of seven letters and a few of their words.
struct HfParts {
  std::string added_tokens = "[]", normalizer = "null", pre_tokenizer = "null",
              post_processor = "null", decoder = "null";
  std::string model =
      R"({"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"c":2,"d":3,"ab":4,"abc":5,"\u0120":6,)"
      R"("\u0120ab":7,"\u2581":8},"merges":["a b","ab c","\u0120 ab"]})";
  std::string more = "";  // members, each with a comma behind it

  std::string text() const {
    return "{" + more + R"("version":"1.0","added_tokens":)" + added_tokens + R"(,"normalizer":)" +
           normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer + R"(,"post_processor":)" +
           post_processor + R"(,"decoder":)" + decoder + R"(,"model":)" + model + "}";
  }
};

// One entry of added_tokens.  `flags`: those that are true.
inline std::string hf_added(int id, const std::string& content, const std::string& flags = {}) {
  std::string entry = R"({"id":)" + std::to_string(id) + R"(,"content":")" + content + "\"";
  for (const std::string name : {"single_word", "lstrip", "rstrip", "normalized", "special"})
    entry += ",\"" + name + "\":" + (flags.find(name) != flags.npos ? "true" : "false");
  return entry + "}";
}

}  // namespace mt
