// A tokenizer of 26 letters and an end, for tests of what is said in tokens: token i is the i-th
// letter, 26 "é" cut in two bytes (26, 27), 28 ends a document and 29 is a word.
#pragma once

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/unicode/utf8_stream.h"

namespace mt {

class Letters : public Tokenizer {
 public:
  static constexpr std::int32_t kEod = 28;

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (const char c : text) ids.push_back(c - 'a');
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += piece(id);
    return text;
  }
  std::unique_ptr<StreamDecoder> stream_decoder() const override {
    return std::make_unique<Decoder>();
  }
  std::int32_t vocab_size() const override { return 30; }
  std::int32_t eod() const override { return kEod; }
  std::string_view type() const override { return "Letters"; }
  const std::string& identity() const override { return identity_; }

 private:
  static std::string piece(std::int32_t id) {
    if (id < 0 || id > 29) fail(Exit::bad_data, "token id ", id);
    if (id < 26) return {static_cast<char>('a' + id)};
    return id == 26 ? "\xC3" : id == 27 ? "\xA9" : id == 28 ? "<end>" : "word";
  }
  class Decoder : public StreamDecoder {
    void push(std::int32_t id, std::string& text) override { stream_.push(piece(id), text); }
    void finish(std::string& text) override { stream_.finish(text); }
    Utf8Stream stream_;
  };
  std::string identity_ = "letters";
};

}  // namespace mt
