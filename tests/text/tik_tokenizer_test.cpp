#include "text/bpe/tik_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/utf8.h"
#include "tests/text/gpt2_files.h"
#include "tests/text/hex.h"

namespace mt {

using Ids = std::vector<std::int32_t>;

static const std::string kFolder = MT_TESTDATA "/tiktoken/";

static std::string base64(std::string_view bytes) {
  static const char* const digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    unsigned bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0);
    for (std::size_t i = 0; i < 4; ++i)
      text += at + i <= bytes.size() ? digits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

// The single bytes and `more`, as Megatron's JSON or as tiktoken's lines.
static std::vector<std::string> ranks_of(const std::vector<std::string>& more) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

static std::string lines_of(const std::vector<std::string>& tokens) {
  std::string text;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank)
    text += base64(tokens[rank]) + " " + std::to_string(rank) + "\n";
  return text;
}

static std::string json_of(const std::vector<std::string>& tokens) {
  JsonWriter json;
  json.begin_array();
  for (std::size_t rank = 0; rank < tokens.size(); ++rank)
    json.begin_object()
        .member("rank", rank)
        .member("token_bytes", base64(tokens[rank]))
        .member("token_str", "")
        .end_object();
  return json.end_array().text();
}

// A rank file in a folder of its own.
class RankFile {
 public:
  explicit RankFile(const std::string& content) {
    write_file_atomically(folder_.path("ranks"), content, true);
  }
  TokenizerOptions options(std::int64_t vocab_size) const {
    TokenizerOptions options;
    options.type = TikTokenizer::kType;
    options.model = folder_.path("ranks");
    options.tiktoken_pattern = "v2";
    options.tiktoken_num_special_tokens = 4;
    options.vocab_size = vocab_size;
    return options;
  }
  std::string load_error(std::int64_t vocab_size = 260) const {
    std::string line = error_of([&] { TikTokenizer{options(vocab_size)}; });
    const std::string folder = folder_.path("");
    for (std::size_t at; (at = line.find(folder)) != std::string::npos;)
      line.erase(at, folder.size());
    return line;
  }

 private:
  Scratch folder_;
};

TEST(TikTokenizer, IdsOfTiktoken) {
  std::vector<std::unique_ptr<TikTokenizer>> tokenizers;
  for (const std::string& pattern : tiktoken_patterns()) {
    TokenizerOptions options;
    options.model = kFolder + "ranks.tiktoken";
    options.tiktoken_pattern = pattern;
    options.tiktoken_num_special_tokens = 3;
    options.vocab_size = 382;
    tokenizers.push_back(std::make_unique<TikTokenizer>(options));
  }
  std::ifstream cases(kFolder + "cases.txt");
  int count = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream columns(line);
    std::string hex, ids;
    columns >> hex;
    const std::string text = from_hex(hex);
    for (std::size_t i = 0; i < tokenizers.size(); ++i) {
      columns >> ids;
      EXPECT_EQ(encode(*tokenizers[i], text), from_list(ids))
          << tiktoken_patterns()[i] << " " << hex;
      EXPECT_EQ(tokenizers[i]->decode(from_list(ids)), replace_invalid_utf8(text));
    }
    ++count;
  }
  EXPECT_GT(count, 150);
}

TEST(TikTokenizer, SpecialTokensComeFirst) {
  const RankFile file(json_of(ranks_of({"lo", "low"})));
  const TikTokenizer tokenizer(file.options(262));
  EXPECT_EQ(tokenizer.vocab_size(), 262);
  EXPECT_EQ(tokenizer.eod(), 2);
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(encode(tokenizer, "low<s>"), (Ids{261, 64, 119, 66}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 261, 3, 2}), "<s>low<SPECIAL_3></s>");
  TokenizerOptions options = file.options(262);
  options.tiktoken_special_tokens = {"</s>", "<pad>", "<unk>", "<s>"};
  EXPECT_EQ(TikTokenizer(options).eod(), 0);
}

// Mistral's file says how many there are, and names them; one that names none has its first ones.
TEST(TikTokenizer, TekkenNamesItsSpecialTokens) {
  const auto tekken = [](const std::string& named, int count) {
    return concat(R"({"config":{"pattern":"","default_num_special_tokens":)", count, "},", named,
                  R"("vocab":)", json_of(ranks_of({"ab"})), "}");
  };
  const auto words = [](const std::string& content, TokenizerOptions options = {}) {
    const RankFile file(content);
    options.type = "TikTokenizer";
    options.model = file.options(0).model;
    options.tiktoken_pattern = "v2";
    const std::int64_t special = options.tiktoken_num_special_tokens == 3 ? 3 : 6;
    options.vocab_size = 257 + special;
    const auto tokenizer = make_tokenizer(options);
    std::string names;
    for (std::int32_t id = 0; id < special; ++id) names += tokenizer->decode({&id, 1}) + " ";
    const std::int32_t last = tokenizer->vocab_size() - 1;
    return names + tokenizer->decode({&last, 1});
  };
  const std::string named =
      R"("special_tokens":[{"rank":1,"token_str":"<s>"},{"rank":0,"token_str":"<unk>"},)"
      R"({"rank":2,"token_str":"</s>"},{"rank":3,"token_str":"[INST]"}],)";
  EXPECT_EQ(words(tekken(named, 6)), "<unk> <s> </s> [INST] <SPECIAL_4> <SPECIAL_5> ab");
  TokenizerOptions three, own;
  three.tiktoken_num_special_tokens = 3;
  own.tiktoken_num_special_tokens = 6;
  own.tiktoken_special_tokens = {"<s>", "</s>", "<unk>"};
  EXPECT_EQ(words(tekken(named, 6), three), "<unk> <s> </s> ab");
  EXPECT_EQ(words(tekken(named, 6), own), "<s> </s> <unk> <SPECIAL_3> <SPECIAL_4> <SPECIAL_5> ab");
  own.tiktoken_special_tokens.clear();
  EXPECT_EQ(words(tekken("", 6), own), "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] ab");
  const std::string twice =
      R"("special_tokens":[{"rank":0,"token_str":"<unk>"},{"rank":0,"token_str":"<s>"}],)";
  EXPECT_NE(error_of([&] { words(tekken(twice, 6)); }).find("\"rank\" 0 is there twice"),
            std::string::npos);
}

TEST(TikTokenizer, TheVocabularyIsCut) {
  const RankFile file(json_of(ranks_of({"lo", "low"})));
  EXPECT_EQ(encode(TikTokenizer(file.options(261)), "low"), (Ids{260, 123}));
  EXPECT_EQ(
      file.load_error(263),
      "65 ranks: 258 tokens, expected 259 for --vocab-size 263; all of them: --vocab-size 262");
  EXPECT_EQ(file.load_error(0).substr(0, 41), "65 ranks: 258 tokens, expected 131068 for");
}

TEST(TikTokenizer, BothFormatsAreTheSame) {
  const auto tokens = ranks_of({"lo", "low"});
  const RankFile json(json_of(tokens)), lines(lines_of(tokens));
  const TikTokenizer a(json.options(262)), b(lines.options(262));
  EXPECT_EQ(a.identity(), b.identity());
  EXPECT_EQ(encode(a, "lowlo"), encode(b, "lowlo"));
  TokenizerOptions other = json.options(262);
  other.tiktoken_pattern = "v1";
  EXPECT_NE(TikTokenizer(other).identity(), a.identity());
  EXPECT_NE(TikTokenizer(json.options(261)).identity(), a.identity());
}

// tiktoken takes the pair whose bytes have the lowest rank whatever it is made of.
TEST(TikTokenizer, RanksNeedNotComeFromMerges) {
  const RankFile file(lines_of(ranks_of({"abc", "ab", "wxyz", "cab", "bc"})));
  const TikTokenizer tokenizer(file.options(265));
  EXPECT_EQ(encode(tokenizer, "abc"), (Ids{260}));   // by ab, which ranks behind it
  EXPECT_EQ(encode(tokenizer, "wxyz"), (Ids{262}));  // by no merge: the whole piece
  EXPECT_EQ(encode(tokenizer, "awxyz").size(), 5u);  // not within a piece
  EXPECT_EQ(encode(tokenizer, "abcab"), (Ids{260, 261}));
}

TEST(TikTokenizer, RefusesRanks) {
  const auto json = [](const std::string& entry) {
    std::string list = json_of(ranks_of({}));
    list.back() = ',';
    return RankFile(list + entry + "]").load_error(261);
  };
  EXPECT_EQ(json("{\"rank\":256,\"token_bytes\":\"YWI=\",\"token_str\":\"\"}"), "");
  const std::string members = ": expected \"rank\", \"token_bytes\" and \"token_str\"";
  EXPECT_EQ(json("{\"rank\":256,\"token_bytes\":\"YWI=\"}"), "65 ranks: token 256" + members);
  EXPECT_EQ(json("7"), "65 ranks: token 256" + members);
  EXPECT_EQ(json("{\"rank\":257,\"token_bytes\":\"YWI=\",\"token_str\":\"\"}"),
            "65 ranks: token 256: rank 257, expected 256");
  EXPECT_EQ(json("{\"rank\":256,\"token_bytes\":\"YWI\",\"token_str\":\"\"}"),
            "65 ranks: token 256: \"YWI\" is not the base64 of any bytes");
  const auto lines = [](const std::string& more) {
    return RankFile(lines_of(ranks_of({})) + more).load_error(261);
  };
  EXPECT_EQ(lines("\r\nYWI= 256"), "");
  EXPECT_EQ(lines("YWI=256\n"), "65 ranks:257: expected a token in base64, a space and its rank");
  EXPECT_EQ(lines("YWI= 256x\n"), "65 ranks:257: expected a token in base64, a space and its rank");
  EXPECT_EQ(lines("YQ== 256\n"), "65 ranks:257: the token is there twice");
  EXPECT_EQ(lines("Y=I= 256\n"), "65 ranks:257: \"Y=I=\" is not the base64 of any bytes");
  EXPECT_EQ(lines(base64(std::string(1025, 'a')) + " 256\n"),
            "65 ranks:257: a token of 1025 bytes, expected at most 1024");
  EXPECT_EQ(RankFile("AA== 0\n").load_error(), "65 ranks: byte 1 is none of the first 1 tokens");
  EXPECT_EQ(RankFile("[]").load_error(), "65 ranks: byte 0 is none of the first 0 tokens");
  auto swapped = ranks_of({});
  std::swap(swapped[0], swapped[1]);
  EXPECT_EQ(RankFile(json_of(swapped)).load_error(), "65 ranks: token 0: expected the byte 0");
  EXPECT_EQ(RankFile(lines_of(swapped)).load_error(), "");  // tiktoken's own are in another order
}

TEST(TikTokenizer, AFileCutAnywhereIsRefused) {
  for (const std::string& whole :
       {json_of(ranks_of({"lo", "low"})), lines_of(ranks_of({"lo", "low"}))}) {
    for (std::size_t i = 0; i < 200; ++i) {
      const std::string line = RankFile(whole.substr(0, whole.size() * i / 200)).load_error(262);
      EXPECT_EQ(line.substr(0, 8), "65 ranks") << i;
      EXPECT_EQ(line.find('\n'), line.npos) << i;
    }
  }
}

TEST(TikTokenizer, RefusesOptions) {
  const RankFile file(json_of(ranks_of({})));
  const auto error = [&](auto&& change) {
    TokenizerOptions options = file.options(260);
    change(options);
    return error_of([&] { make_tokenizer(options); });
  };
  using Options = TokenizerOptions;
  EXPECT_EQ(error([](Options& o) { o.model.clear(); }),
            "64 --tokenizer-model: not given, --tokenizer-type TikTokenizer needs it");
  EXPECT_EQ(error([](Options& o) { o.tiktoken_pattern.clear(); }),
            "64 --tiktoken-pattern: not given, --tokenizer-type TikTokenizer needs it: one of v1, "
            "v2, cl100k, o200k, llama3");
  EXPECT_EQ(error([](Options& o) { o.vocab_size = 4; }),
            "64 --vocab-size 4: expected 5 to 1073741824, with --tiktoken-num-special-tokens 4");
  const auto special = [&](std::vector<std::string> tokens) {
    return error([&](Options& o) { o.tiktoken_special_tokens = std::move(tokens); });
  };
  EXPECT_EQ(special({"<s>", "</s>"}), "64 --tiktoken-special-tokens: <unk> is not among them");
  EXPECT_EQ(special({"<unk>", "<s>", "</s>", "<s>"}),
            "64 --tiktoken-special-tokens: <s> is there twice");
  EXPECT_EQ(special({"<unk>", "<s>", "</s>", "a b"}),
            "64 --tiktoken-special-tokens: \"a b\", expected a word without white space");
  EXPECT_EQ(special({"<unk>", "<s>", "</s>", "a", "b"}),
            "64 --tiktoken-special-tokens: 5, expected at most 4, as --tiktoken-num-special-tokens "
            "says");
}

TEST(TikTokenizer, ItsFieldsMakeItAgain) {
  const RankFile file(json_of(ranks_of({"lo", "low"})));
  TokenizerOptions options = file.options(262), again;
  options.tiktoken_special_tokens = {"<unk>", "</s>", "<s>"};
  again.type = options.type;
  for (const TokenizerField& field : tokenizer_fields(options.type))
    field.set(again, field.get(options));
  EXPECT_EQ(make_tokenizer(again)->identity(), make_tokenizer(options)->identity());
  EXPECT_EQ(again.tiktoken_special_tokens, options.tiktoken_special_tokens);
}

}  // namespace mt
