// Folders as people have them (testdata/folders), against what AutoTokenizer of transformers makes
// of them, by both of its versions.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <fstream>

#include "base/file.h"
#include "tests/base/scratch.h"
#include "text/bpe/base64.h"
#include "text/hf/hf_tokenizer.h"

namespace mt {

using Ids = std::vector<std::int32_t>;
namespace dom = simdjson::dom;

class HfFolders : public testing::Test {
 protected:
  void load(const std::string& name) {
    root_ = parser_.load(MT_TESTDATA "/folders/" + name).value();
  }

  // A file's content by its number among those that cases share.
  std::string content(std::uint64_t index) const {
    const dom::element shared = root_["shared"].at(index).value();
    std::string_view text;
    dom::object parts;
    if (!shared.get(text)) return std::string(text);
    if (!shared["base64"].get(text)) return *from_base64(text);
    if (shared["parts"].get(parts)) return simdjson::minify(shared);
    std::string json;
    for (const auto& [key, part] : parts)
      json +=
          concat(json.empty() ? "{" : ",", "\"", key,
                 "\":", simdjson::minify(root_["shared"].at(part.get_uint64())["value"].value()));
    return json + "}";
  }

  void write(dom::object files, const Scratch& folder) const {
    for (const auto& [name, index] : files)
      std::ofstream(folder.path(std::string(name))) << content(index.get_uint64());
  }

  dom::parser parser_;
  dom::element root_;
};

static Ids ids_of(dom::array list) {
  Ids ids;
  for (const std::int64_t id : list) ids.push_back(static_cast<std::int32_t>(id));
  return ids;
}

static void expect_same(const HfTokenizer& tokenizer, dom::array texts, dom::element right,
                        const std::string& name) {
  std::int64_t eos = -1;
  if (right["eos"].get(eos)) eos = -1;  // null
  EXPECT_EQ(tokenizer.eod(), eos) << name;
  std::size_t i = 0;
  for (const std::string_view text : texts) {
    const Ids expected = ids_of(right["ids"].at(i).get_array());
    Ids ids;
    tokenizer.encode(text, ids);
    EXPECT_EQ(ids, expected) << name << ": " << text;
    EXPECT_EQ(tokenizer.decode_text(expected), right["texts"].at(i).get_string().value()) << name;
    const auto decoder = tokenizer.stream_decoder();
    std::string streamed;
    for (const std::int32_t id : expected) decoder->push(id, streamed);
    decoder->finish(streamed);
    EXPECT_EQ(streamed, tokenizer.decode_text(expected)) << name;
    ++i;
  }
}

TEST_F(HfFolders, GiveTheIdsOfAutoTokenizer) {
  load("cases.json");
  int compared = 0;
  for (const auto& [key, value] : root_["cases"].get_object()) {
    const Scratch folder;
    write(value["files"].get_object(), folder);
    for (const int version : {4, 5}) {
      const std::string name = concat(key, ", version ", version);
      dom::element right;
      if (value[concat("version ", version)].get(right)) continue;
      try {
        expect_same(HfTokenizer(folder.path(""), version), root_["texts"].get_array(), right, name);
      } catch (const Error& error) {
        ADD_FAILURE() << name << ": " << error.what();
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 400);
}

// Made after public reports, each with texts of its own.
TEST_F(HfFolders, ThatWereReportedGiveTheirIds) {
  load("reported.json");
  for (const auto& [key, value] : root_["cases"].get_object()) {
    const Scratch folder;
    write(value["files"].get_object(), folder);
    for (const int version : {4, 5}) {
      const HfTokenizer tokenizer(folder.path(""), version);
      std::size_t i = 0;
      for (const std::string_view text : value["texts"].get_array()) {
        Ids ids;
        tokenizer.encode(text, ids);
        EXPECT_EQ(ids, ids_of(value[concat("version ", version)]["ids"].at(i++).get_array()))
            << key << ", version " << version << ": " << text;
      }
    }
  }
}

static std::string refusal_of(const Scratch& folder, int version) {
  try {
    const HfTokenizer tokenizer(folder.path(""), version);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
    return error.what();
  }
  return "";
}

// Code of transformers makes these of their files, so that no ids are better than others.
TEST(HfClasses, WithoutRulesAreRefused) {
  const auto write = [](const Scratch& folder, const char* name, std::string_view text) {
    std::ofstream(folder.path(name)) << text;
  };
  const char* const model = R"({"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}})";
  for (const char* name :
       {"MarianTokenizer", "EsmTokenizer", "ByT5Tokenizer", "LayoutLMv3TokenizerFast",
        "RoFormerTokenizer", "CpmTokenizerFast", "M2M100Tokenizer"}) {
    const Scratch folder;
    write(folder, "tokenizer.json", model);
    write(folder, "tokenizer_config.json", concat(R"({"tokenizer_class":")", name, "\"}"));
    for (const int version : {4, 5})
      EXPECT_NE(refusal_of(folder, version).find("by code that stands in no file"),
                std::string::npos)
          << name;
  }
  const Scratch of_model;
  write(of_model, "tokenizer.json", model);
  write(of_model, "config.json", R"({"model_type":"marian"})");
  EXPECT_NE(refusal_of(of_model, 4).find("MarianTokenizer"), std::string::npos);
  for (const char* name : {"WhisperTokenizer", "CLIPTokenizer", "SplinterTokenizer",
                           "HerbertTokenizer", "FunnelTokenizer", "DPRReaderTokenizer"}) {
    const Scratch folder;
    write(folder, "tokenizer.json", model);
    write(folder, "tokenizer_config.json", concat(R"({"tokenizer_class":")", name, "\"}"));
    EXPECT_NE(refusal_of(folder, 5).find("--transformers-version 4 reads it"), std::string::npos)
        << name;
  }
  const Scratch files;
  write(files, "vocab.json", R"({"a":0,"b":1})");
  write(files, "merges.txt", "#version: 0.2\n");
  write(files, "tokenizer_config.json", R"({"tokenizer_class":"CLIPTokenizer"})");
  EXPECT_NE(refusal_of(files, 4).find("a tokenizer.json alone"), std::string::npos);
}

}  // namespace mt
