// Folders as people have them (testdata/folders), against what AutoTokenizer of transformers makes
// of them, by both of its versions.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <filesystem>
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

// A class that transformers has not: version 4 refuses it and version 5 reads the file as it
// stands, so does this, with a word.  A model whose tokenizer version 5 knows better does not ask
// for the name.  Which there are: tokenizer_class_from_name() of 4.51.3 and 5.24.0.
TEST(HfClasses, ThatTransformersHasNotAreNamed) {
  const auto said = [](std::string_view name, int version, std::string_view model = {},
                       const char* file = "tokenizer_config.json") {
    const Scratch folder;
    std::ofstream(folder.path("tokenizer.json"))
        << R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";
    if (!model.empty())
      std::ofstream(folder.path("config.json")) << concat(R"({"model_type":")", model, "\"}");
    if (!name.empty())
      std::ofstream(folder.path(file)) << concat(R"({"tokenizer_class":")", name, "\"}");
    const HfTokenizer tokenizer(folder.path(""), version);
    EXPECT_EQ(HfTokenizer(folder.path("tokenizer.json"), version).note().empty(),
              tokenizer.note().empty());
    const std::string& note = tokenizer.note();
    const std::size_t at = note.find(": transformers ");
    return at == note.npos ? note : note.substr(at + 2);
  };
  const auto lacking = [](int version, std::string_view name) {
    return concat("transformers ", version, " has no class \"", name,
                  "\": the tokenizer is read as its files stand, without the code of that class");
  };
  for (const int version : {4, 5}) {
    for (const char* name :
         {"FooTokenizer", "FooTokenizerFast", "InternLM2Tokenizer", "MistralCommonTokenizer", "A"})
      for (const char* model : {"", "llama", "bert", "falcon", "gpt2"})
        EXPECT_EQ(said(name, version, model), lacking(version, name)) << model;
    EXPECT_EQ(said("FooTokenizer", version, "", "config.json"), lacking(version, "FooTokenizer"));
    for (const char* model : {"", "llama", "falcon", "no_such_model"})
      EXPECT_EQ(said("", version, model), "") << model;
    for (const char* name :
         {"PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend", "PythonBackend",
          "GPT2TokenizerFast", "LlamaTokenizer", "MistralCommonBackend", "BloomTokenizerFast"})
      EXPECT_EQ(said(name, version), "") << name;
  }
  for (const char* model : {"qwen2", "internlm2", "mistral"}) {
    EXPECT_EQ(said("InternLM2Tokenizer", 4, model), lacking(4, "InternLM2Tokenizer"));
    EXPECT_EQ(said("InternLM2Tokenizer", 5, model), "") << model;
  }
  EXPECT_EQ(said("Qwen3_5Tokenizer", 4), lacking(4, "Qwen3_5Tokenizer") + "; version 5 has it");
  EXPECT_EQ(said("Qwen3_5Tokenizer", 5), "");
  // Version 5 reads as it stands what version 4 makes by code.
  for (const char* name :
       {"ErnieMTokenizer", "JukeboxTokenizer", "TransfoXLTokenizer", "TapexTokenizer",
        "XLMProphetNetTokenizer", "MT5Tokenizer", "RealmTokenizerFast", "Wav2Vec2Tokenizer"})
    EXPECT_EQ(said(name, 5), lacking(5, name) + "; version 4 has it") << name;
}

TEST(HfFolder, ModelsOfCharactersAndWordsAreRefused) {
  for (const std::string kind : {"characters", "words"}) {
    const Scratch folder;
    std::filesystem::copy(concat(MT_TESTDATA "/sentencepiece/", kind, ".model"),
                          folder.path("tokenizer.model"));
    EXPECT_EQ(error_of([&] { HfTokenizer{folder.path("")}; }),
              concat("65 ", folder.path(""), "/tokenizer.model", ": a model of ", kind,
                     ", of which transformers makes no tokenizer; expected unigram or BPE, or "
                     "--tokenizer-type GPTSentencePieceTokenizer"));
  }
}

}  // namespace mt
