#include "eval/eval_input.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/data/support.h"

namespace mt {
namespace {

struct Text {
  std::vector<std::int32_t> tokens;
  std::int64_t words = 0, bytes = 0;
  bool operator==(const Text&) const = default;
};

class EvalInput : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    write_file_atomically(scratch_.path(name), content, true);
    return scratch_.path(name);
  }
  std::string write_gzip(const std::string& name, const std::string& content) const {
    const gzFile file = gzopen(scratch_.path(name).c_str(), "wb");
    EXPECT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())),
              static_cast<int>(content.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
    return scratch_.path(name);
  }
  std::string write_zstd(const std::string& name, const std::string& content) const {
    std::string packed(ZSTD_compressBound(content.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), 3));
    return write(name, packed);
  }
  std::vector<Text> texts_of(const std::string& input) const {
    std::vector<Text> texts;
    for_each_text(input, *tokenizer_, vocab_size_, [&](const EvalText& text) {
      texts.push_back({{text.tokens.begin(), text.tokens.end()}, text.words, text.bytes});
    });
    return texts;
  }
  std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::int32_t> ids;
    tokenizer_->encode(text, ids);
    return ids;
  }
  Text text(const std::string& content) const {
    return {encode(content), count_words(content), static_cast<std::int64_t>(content.size())};
  }

  Scratch scratch_;
  std::int64_t vocab_size_ = 380;  // that the model knows
  std::unique_ptr<Tokenizer> tokenizer_ =
      make_tokenizer({"GPT2BPETokenizer", std::string(MT_TESTDATA) + "/gpt2_bpe/vocab.json",
                      std::string(MT_TESTDATA) + "/gpt2_bpe/merges.txt"});
};

// len(text.strip().split(" ")) of Python, but 0 of nothing.
TEST(CountWords, AsMegatron) {
  const std::pair<const char*, std::int64_t> cases[] = {
      {"", 0},       {"  \n ", 0},           {"one", 1},
      {" one ", 1},  {"one two", 2},         {"one  two", 3},
      {"a\nb c", 2}, {"a \n b", 3},          {" = Valkyria Chronicles III = \n \n The game 's", 10},
      {"a\tb", 1},   {"\u00A0a b\u2003", 2}, {"\x1C a", 1}};
  for (const auto& [text, words] : cases) EXPECT_EQ(count_words(text), words) << text;
}

// A plain file is one text, with all its line ends, however long it is.
TEST_F(EvalInput, Plain) {
  EXPECT_EQ(texts_of(write("a", "one line\nand another\n\n")),
            std::vector<Text>{text("one line\nand another\n\n")});
  EXPECT_EQ(texts_of(write("b", "no newline")), std::vector<Text>{text("no newline")});
  EXPECT_EQ(texts_of(write("c", "")), std::vector<Text>{});
  EXPECT_EQ(texts_of(write("d", "[1, 2]\n")), std::vector<Text>{text("[1, 2]\n")});
  EXPECT_EQ(texts_of(write("e", "\xFF bytes")), std::vector<Text>{text("\xFF bytes")});
  std::string lines;
  while (lines.size() < 3000000) lines += "another line of several megabytes\n";
  EXPECT_EQ(texts_of(write("f", lines)), std::vector<Text>{text(lines)});
}

TEST_F(EvalInput, JsonLines) {
  const std::string lines =
      "{\"text\":\"one\\ntwo\"}\n{\"id\":1,\"text\":\"\"}\n{\"text\":\"a\\u00e9\"}\n";
  const std::vector<Text> expected{text("one\ntwo"), text(""), text("a\xC3\xA9")};
  EXPECT_EQ(texts_of(write("a.jsonl", lines)), expected);
  const std::string blank = write("b.jsonl", "  {\"text\":\"a\"}\n\n" + lines);
  EXPECT_EQ(error_of([&] { texts_of(blank); }),
            concat("65 ", blank, ":2: empty line, expected a JSON object"));
}

TEST_F(EvalInput, ListsAreTokenizedTextByText) {
  std::vector<std::int32_t> ids = encode("one");
  for (const std::int32_t id : encode("two")) ids.push_back(id);
  EXPECT_EQ(texts_of(write("a.jsonl", "{\"text\":[\"one\",\"two\"]}\n")),
            (std::vector<Text>{{ids, 2, 6}}));
}

TEST_F(EvalInput, Compressed) {
  const std::string lines = "{\"text\":\"one\"}\n{\"text\":\"two\"}\n";
  const std::vector<Text> expected{text("one"), text("two")};
  EXPECT_EQ(texts_of(write_gzip("a", lines)), expected);
  EXPECT_EQ(texts_of(write_zstd("b", lines)), expected);
  EXPECT_EQ(texts_of(write_gzip("c", "plain")), std::vector<Text>{text("plain")});
  EXPECT_EQ(texts_of(write_zstd("d", "plain")), std::vector<Text>{text("plain")});
}

// Documents without the token that ends them; empty ones too; several sequences are one text.
TEST_F(EvalInput, TokenFile) {
  const std::int32_t eod = tokenizer_->eod();
  const std::vector<std::int32_t> one = encode("one"), two = encode("two");
  std::vector<std::int32_t> ended = one;
  ended.push_back(eod);
  write_documents(scratch_.path("data"), TokenType::u16, {one, {}, ended, {eod}, {two[0]}});
  EXPECT_EQ(
      texts_of(scratch_.path("data")),
      (std::vector<Text>{{one, 1, 3}, {{}, 0, 0}, {one, 1, 3}, {{}, 0, 0}, {{two[0]}, 1, 1}}));

  IndexedDatasetWriter writer(scratch_.path("parts"), TokenType::i32, {});
  std::vector<std::int32_t> both = one;
  both.insert(both.end(), two.begin(), two.end());
  std::vector<std::int32_t> both_ended = both;
  both_ended.push_back(eod);
  writer.add_document(both_ended,
                      std::vector<std::int32_t>{static_cast<std::int32_t>(one.size()),
                                                static_cast<std::int32_t>(two.size()) + 1});
  writer.finish();
  writer.commit({});
  EXPECT_EQ(texts_of(scratch_.path("parts")), (std::vector<Text>{{both, 1, 6}}));
}

TEST_F(EvalInput, AByteOrderMarkIsPassedOver) {
  EXPECT_EQ(texts_of(write("bom.jsonl", "\xEF\xBB\xBF{\"text\":\"a\"}\n")),
            std::vector<Text>{text("a")});
}

TEST_F(EvalInput, WrongInputsAreNamed) {
  EXPECT_EQ(error_of([&] { texts_of(scratch_.path("none")); }).substr(0, 3), "66 ");
  const std::string bad = write("bad.jsonl", "{\"text\":\"a\"}\n{\"text\":1}\n");
  const std::string error = error_of([&] { texts_of(bad); });
  EXPECT_TRUE(error.starts_with("65 " + bad + ":2: ")) << error;
  const std::string wide = write("wide.jsonl", "\xFF\xFE{");
  EXPECT_TRUE(error_of([&] { texts_of(wide); }).starts_with("65 " + wide + ": is UTF-16"));
  write_documents(scratch_.path("data"), TokenType::u16, {{1}});
  for (const char* part : {".bin", ".idx"})
    EXPECT_EQ(error_of([&] { texts_of(scratch_.path("data") + part); }),
              concat("64 ", scratch_.path("data"), part,
                     ": is part of a token file; give its prefix, ", scratch_.path("data")));
  write_documents(scratch_.path("large"), TokenType::u16, {{1}, {5, 60000}});
  EXPECT_EQ(error_of([&] { texts_of(scratch_.path("large")); }),
            concat("65 ", scratch_.path("large"), ": document 1: token 60000, expected 0 to ",
                   tokenizer_->vocab_size() - 1));
  const std::string packed = read_file(write_gzip("a.gz", std::string(5000, 'x')));
  EXPECT_EQ(error_of([&] { texts_of(write("cut.gz", packed.substr(0, 30))); }).substr(0, 3), "65 ");
}

}  // namespace
}  // namespace mt
