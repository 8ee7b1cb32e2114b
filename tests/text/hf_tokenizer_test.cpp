#include "text/hf/hf_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/utf8.h"
#include "tests/text/gpt2_files.h"
#include "tests/text/hex.h"
#include "tests/text/hf_files.h"

namespace mt {

using Ids = std::vector<std::int32_t>;

static const std::string kFolder = MT_TESTDATA "/huggingface/";

static std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  const auto decoder = tokenizer.stream_decoder();
  for (int round = 0; round < 2; ++round) {  // the second starts anew
    text.clear();
    for (const std::int32_t id : ids) decoder->push(id, text);
    decoder->finish(text);
  }
  return text;
}

// As version 5 of transformers has them, whose tokenizers write normalized tokens normalized.
TEST(HfTokenizer, IdsAndTextsOfHuggingFace) {
  std::map<std::string, HfTokenizer> tokenizers;
  std::ifstream cases(kFolder + "cases.txt");
  for (std::string line; std::getline(cases, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream columns(line);
    std::string kind, hex, list, text;
    columns >> kind >> hex >> list >> text;
    const auto [place, is_new] = tokenizers.try_emplace(kind, kFolder + kind + ".json", 5);
    const Ids ids = from_list(list);
    EXPECT_EQ(encode(place->second, from_hex(hex)), ids) << kind << " " << hex;
    if (list == "-") continue;
    EXPECT_EQ(place->second.decode_text(ids), from_hex(text)) << kind << " " << hex;
    EXPECT_EQ(streamed(place->second, ids), from_hex(text)) << kind << " " << hex;
  }
  EXPECT_GE(tokenizers.size(), 21u);
}

TEST(HfTokenizer, RefusesByName) {
  const auto error = [](auto&& change) {
    HfParts parts;
    change(parts);
    return HfFiles(parts.text()).load_error();
  };
  using Parts = HfParts;
  EXPECT_EQ(error([](Parts&) {}), "");
  EXPECT_EQ(error([](Parts& p) { p.normalizer = R"({"type":"Other"})"; }),
            "65 tokenizer.json: normalizer: the normalizer \"Other\" is not known");
  EXPECT_EQ(error([](Parts& p) {
              p.normalizer =
                  R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"A\nB"}]})";
            }),
            "65 tokenizer.json: normalizer: normalizers[1]: the normalizer \"A\\nB\" is not known");
  EXPECT_EQ(error([](Parts& p) { p.pre_tokenizer = R"({"type":"Other"})"; }),
            "65 tokenizer.json: pre_tokenizer: the pre-tokenizer \"Other\" is not known");
  EXPECT_EQ(error([](Parts& p) { p.decoder = R"({"type":"CTC"})"; }),
            "65 tokenizer.json: decoder: the decoder \"CTC\" is not known");
  EXPECT_EQ(error([](Parts& p) { p.post_processor = R"({"type":"Other"})"; }),
            "65 tokenizer.json: post_processor: the post-processor \"Other\" is not known");
  EXPECT_EQ(error([](Parts& p) { p.model = R"({"type":"Other","vocab":{}})"; }),
            "65 tokenizer.json: model: the model \"Other\" is not known");
  EXPECT_EQ(error([](Parts& p) { p.more = R"("decoder":null,)"; }),
            "65 tokenizer.json: \"decoder\" is there twice");
  EXPECT_EQ(error([](Parts& p) { p.pre_tokenizer = R"({"type":"FixedLength","length":0})"; }),
            "65 tokenizer.json: pre_tokenizer: \"length\": 0, expected 1 at least");
  EXPECT_EQ(error([](Parts& p) {
              p.pre_tokenizer = R"({"type":"CharDelimiterSplit","delimiter":"ab"})";
            }),
            "65 tokenizer.json: pre_tokenizer: \"delimiter\": \"ab\", expected one character");
  EXPECT_EQ(
      error([](Parts& p) {
        p.pre_tokenizer = R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first"})";
        p.normalizer = R"({"type":"Strip","strip_left":true,"strip_right":true})";
      }),
      "65 tokenizer.json: \"prepend_scheme\" is \"first\" behind a normalizer that may take the "
      "start away");
  EXPECT_EQ(error([](Parts& p) {
              p.normalizer = R"({"type":"Precompiled","precompiled_charsmap":"AAAA"})";
            }),
            "65 tokenizer.json: normalizer: the map of characters: 3 bytes, expected a trie and "
            "replacements");
  EXPECT_EQ(error([](Parts& p) {
              p.normalizer = R"({"type":"Precompiled","precompiled_charsmap":"A"})";
            }),
            "65 tokenizer.json: normalizer: \"precompiled_charsmap\": not the base64 of any bytes");
  EXPECT_EQ(error([](Parts& p) { p.pre_tokenizer = R"({"type":"ByteLevel"})"; }),
            "65 tokenizer.json: pre_tokenizer: no \"add_prefix_space\"");
  const auto error_with_accent = [&](const char* flags) {
    return error([&](Parts& p) {
      p.normalizer = R"({"type":"StripAccents"})";
      p.added_tokens = concat("[", hf_added(9, "\u0301", flags), "]");
    });
  };
  EXPECT_EQ(error_with_accent(""), "");
  EXPECT_EQ(
      error_with_accent("normalized"),
      "65 tokenizer.json: the added token \"\u0301\" is nothing when it is normalized, which "
      "transformers finds between all characters, or fails at; \"normalized\": false finds it "
      "as it stands");
}

TEST(HfTokenizer, LeftoversOfOneCallArePassedOver) {
  HfParts parts;
  parts.more = R"("truncation":{"direction":"Right","max_length":1,"strategy":"LongestFirst",)"
               R"("stride":0},"padding":{"strategy":{"Fixed":8},"direction":"Right",)"
               R"("pad_to_multiple_of":null,"pad_id":0,"pad_type_id":0,"pad_token":"a"},)";
  EXPECT_EQ(encode(HfFiles(parts.text()).load(), "abcd"), (Ids{5, 3}));
}

TEST(HfTokenizer, NumbersOfAnySizeAreRead) {
  HfParts parts;
  parts.more = R"("note":[100000000000000000000000000000,1e999,-Infinity,NaN],)";
  const HfFiles files(parts.text(), R"({"model_max_length":1000000000000000019884624838656})");
  EXPECT_EQ(encode(files.load(), "abcd"), (Ids{5, 3}));
}

// As a BERT's whole words are masked.
TEST(HfTokenizer, PiecesThatContinueAWord) {
  HfParts parts;
  parts.model = R"({"type":"WordPiece","unk_token":"a","continuing_subword_prefix":"##",)"
                R"("max_input_chars_per_word":9,"vocab":{"a":0,"b":1,"##b":2}})";
  parts.decoder = R"({"type":"WordPiece","prefix":"##","cleanup":true})";
  const HfTokenizer tokenizer = HfFiles(parts.text()).load();
  EXPECT_FALSE(tokenizer.continues_word(1));
  EXPECT_TRUE(tokenizer.continues_word(2));
}

// Ids of tokenizers 0.23.3, whose sums of these scores are equal but for how they are rounded; of a
// file, and of a T5Tokenizer, which transformers 5.24 gives the numbers that Python has read.
TEST(HfTokenizer, ReadsScoresAsSerdeDoes) {
  HfParts parts;
  parts.model = R"({"type":"Unigram","unk_id":2,"vocab":[["<pad>",0.0],["</s>",0.0],["<unk>",0.0],)"
                R"(["\u2581",-2.0],["aaaa",-4.927039122700032],["aaaaaaaa",-3.7811078533341322]]})";
  const HfFiles files(parts.text(), R"({"tokenizer_class":"T5Tokenizer","extra_ids":0})");
  const auto ids = [&](int version) {
    Ids found;
    HfTokenizer(files.folder(), version).encode(std::string(57, 'a'), found);
    return found;
  };
  EXPECT_EQ(ids(4), (Ids{5, 5, 5, 5, 5, 5, 5, 2}));
  EXPECT_EQ(ids(5), (Ids{3, 2, 5, 5, 5, 5, 5, 5, 5, 1}));
}

TEST(HfTokenizer, RefusesModels) {
  const auto error = [](const std::string& members, const std::string& merges = "[]") {
    HfParts parts;
    parts.model =
        R"({"type":"BPE",)" + members + R"("vocab":{"a":0,"b":1},"merges":)" + merges + "}";
    return HfFiles(parts.text()).load_error();
  };
  EXPECT_EQ(error(""), "");
  EXPECT_EQ(
      error(R"("dropout":0.1,)"),
      "65 tokenizer.json: model: \"dropout\": 0.1 would give other tokens each time; expected "
      "null");
  EXPECT_EQ(error(R"("unk_token":"?",)"),
            "65 tokenizer.json: model: \"unk_token\": \"?\" is no token of the vocabulary");
  EXPECT_EQ(error("", R"(["a b"])"),
            "65 tokenizer.json: model: \"merges\": \"ab\" is no token of the vocabulary");
  EXPECT_EQ(error("", R"(["a  b"])"),
            "65 tokenizer.json: model: \"merges\": \"a  b\", expected two tokens");
  EXPECT_EQ(error("", R"([["a"]])"),
            "65 tokenizer.json: model: \"merges\": [\"a\"], expected two tokens");
}

TEST(HfTokenizer, RefusesModelsOfOtherKinds) {
  const auto error = [](const std::string& model) {
    HfParts parts;
    parts.model = model;
    return HfFiles(parts.text()).load_error();
  };
  EXPECT_EQ(error(R"({"type":"Unigram","unk_id":0,"vocab":[["a",-1]]})"), "");
  EXPECT_EQ(error(R"({"type":"Unigram","unk_id":1,"vocab":[["a",-1]]})"),
            "65 tokenizer.json: model: \"unk_id\": expected a number from 0 to 0");
  EXPECT_EQ(error(R"({"type":"Unigram","unk_id":null,"vocab":[["a",-1]]})"),
            "65 tokenizer.json: model: \"unk_id\": expected a number from 0 to 0");
  EXPECT_EQ(error(R"({"type":"Unigram","unk_id":0,"vocab":[["a","b"]]})"),
            "65 tokenizer.json: model: \"vocab\": [\"a\",\"b\"], expected a piece and its score");
  EXPECT_EQ(error(R"({"type":"Unigram","unk_id":0,"vocab":[]})"),
            "65 tokenizer.json: model: \"vocab\": no pieces");
  const std::string piece = R"({"type":"WordPiece","unk_token":"a","vocab":{"a":0},)";
  EXPECT_EQ(error(piece + R"("continuing_subword_prefix":"","max_input_chars_per_word":9})"),
            "65 tokenizer.json: model: \"continuing_subword_prefix\": empty, expected \"##\", say");
  EXPECT_EQ(error(piece + R"("continuing_subword_prefix":"##"})"),
            "65 tokenizer.json: model: no \"max_input_chars_per_word\"");
  EXPECT_EQ(error(R"({"type":"WordLevel","unk_token":"b","vocab":{"a":0}})"),
            "65 tokenizer.json: model: \"unk_token\": \"b\" is no token of the vocabulary");
  EXPECT_EQ(error(R"({"type":"WordLevel","unk_token":"a","vocab":{"a":262145}})"),
            "65 tokenizer.json: model: vocab: token a: id 262145, expected a number from 0 to "
            "262144, for 1 tokens");
}

TEST(HfTokenizer, AFileCutAnywhereIsRefused) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string whole = read_file(entry.path().string());
    for (std::size_t i = 0; i < 200; ++i) {
      const std::string cut = whole.substr(0, whole.size() * i / 200);
      const std::string line = error_of([&] { HfTokenizer(cut, "cut", {}); });
      EXPECT_TRUE(line.starts_with("65 cut: byte ")) << line << entry.path() << " " << i;
      EXPECT_EQ(line.find('\n'), line.npos) << entry.path() << " " << i;
    }
    ++files;
  }
  EXPECT_GE(files, 21);
}

// As large as Gemma's, without a space between its parts.
TEST(HfTokenizer, LargeCompactFilesAreRead) {
  constexpr std::size_t kTokens = 1 << 18;
  std::vector<std::string> tokens = {""};
  for (std::size_t i = 0; tokens.size() <= kTokens; ++i)  // one letter, then two, ...
    for (char letter = 'a'; letter <= 'z'; ++letter) tokens.push_back(tokens[i] + letter);
  std::string vocab, merges;
  for (std::size_t id = 0; id < kTokens; ++id) {
    const std::string& token = tokens[id + 1];
    vocab += concat(id > 0 ? "," : "", "\"", token, "\":", id);
    for (const std::size_t cut : {std::size_t{1}, token.size() - 1})
      if (cut > 0 && cut < token.size())
        merges += concat(merges.empty() ? "" : ",", "[\"", token.substr(0, cut), "\",\"",
                         token.substr(cut), "\"]");
  }
  HfParts parts;
  parts.model =
      concat(R"({"type":"BPE","unk_token":null,"vocab":{)", vocab, R"(},"merges":[)", merges, "]}");
  EXPECT_EQ(HfTokenizer(parts.text(), "large", {}).vocab_size(), kTokens);
}

TEST(HfTokenizer, HostileJsonIsRefused) {
  const auto error = [](std::string_view before, std::string_view behind) {
    return error_of([&] { HfTokenizer(concat(before, behind), "file", {}); });
  };
  const std::string brackets(10000, '['), objects = R"({"model":{"a":)";
  EXPECT_EQ(error(objects + brackets, ""),
            "65 file: byte 10014: The JSON document has an improper structure: missing or "
            "superfluous commas, braces, missing keys, etc.");
  EXPECT_EQ(error(objects + brackets, std::string(10000, ']') + "}}"),
            "65 file: The JSON document was too deep (too many nested objects and arrays)");
  HfParts parts;  // a newline in a token, which stays on the line
  parts.model = R"({"type":"BPE","vocab":{"\n":-1},"merges":[]})";
  EXPECT_EQ(
      HfFiles(parts.text()).load_error(),
      "65 tokenizer.json: model: vocab: token \\n: id -1, expected a number from 0 to 262144, "
      "for 1 tokens");
  const std::string vocabulary = R"({"model":{"vocab":{"a)";
  for (const std::string_view behind :
       {std::string_view("\0\":0}}}", 7), std::string_view("\xFF\":0}}}")})
    EXPECT_TRUE(
        error(vocabulary, behind).starts_with(concat("65 file: byte ", vocabulary.size(), ": ")))
        << error(vocabulary, behind);
  EXPECT_TRUE(error(vocabulary + "\\ud800", "\":0}}}")
                  .starts_with(concat("65 file: byte ", vocabulary.size() + 6, ": ")));
  EXPECT_EQ(error("", std::string(1000, '\0')), "65 file: is no JSON, expected a tokenizer.json");
}

TEST(HfTokenizer, TheConfigurationNamesItsEnds) {
  HfParts parts;
  parts.added_tokens =
      "[" + hf_added(9, "<s>", "special") + "," + hf_added(10, "</s>", "special") + "]";
  EXPECT_EQ(HfFiles(parts.text()).load().eod(), -1);
  const std::string names = R"("bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false})";
  const HfTokenizer plain = HfFiles(parts.text(), "{" + names + "}").load();
  EXPECT_EQ(plain.bos(), 9);
  EXPECT_EQ(plain.eod(), 10);
  EXPECT_EQ(encode(plain, "ab"), (Ids{4}));
  EXPECT_NE(plain.identity(), HfFiles(parts.text()).load().identity());
  const auto llama = [&](const std::string& more) {
    return HfFiles(parts.text(),
                   R"({"tokenizer_class":"LlamaTokenizerFast",)" + names + more + "}");
  };
  EXPECT_EQ(encode(llama("").load(), "ab"), (Ids{9, 4}));
  EXPECT_EQ(encode(llama(R"(,"add_bos_token":false,"add_eos_token":true)").load(), "ab"),
            (Ids{4, 10}));
  EXPECT_EQ(HfFiles(parts.text(), R"({"eos_token":"<e>"})").load().eod(), 11);  // a new one
  EXPECT_EQ(llama(R"(,"bos_token":null)").load_error(),
            "65 tokenizer_config.json: \"bos_token\" is there twice");
}

TEST(HfTokenizer, IsTheSameFromItsFolder) {
  const HfFiles files(HfParts().text(), R"({"eos_token":"d"})");
  const HfTokenizer tokenizer(files.folder());
  EXPECT_EQ(tokenizer.identity(), files.load().identity());
  EXPECT_EQ(tokenizer.eod(), 3);
  EXPECT_EQ(HfTokenizer::files(files.folder()).size(), 2u);
  TokenizerOptions options;
  options.type = HfTokenizer::kType;
  options.model = files.json();
  EXPECT_EQ(make_tokenizer(options)->identity(), tokenizer.identity());
}

TEST(HfTokenizer, IdsOutOfRangeAreRefused) {
  const HfTokenizer tokenizer = HfFiles(HfParts().text()).load();
  EXPECT_EQ(tokenizer.decode(Ids{0, 4}), "a ab");  // no decoder: spaces
  EXPECT_THROW(tokenizer.decode(Ids{9}), Error);
  EXPECT_THROW(tokenizer.decode(Ids{-1}), Error);
}

}  // namespace mt
