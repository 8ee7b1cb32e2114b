// NullTokenizer: text that is token ids already, in decimal digits with blanks between them.  Of a
// --vocab-size of V the ids are 0 to V; V ends a document.
#pragma once

#include "text/tokenizer.h"

namespace mt {

class NullTokenizer : public Tokenizer {
 public:
  static constexpr std::string_view kType = "NullTokenizer";

  explicit NullTokenizer(std::int32_t vocab_size);

  // Throws Exit::bad_data for a word that is not an id.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;  // "3 1 4"
  std::unique_ptr<StreamDecoder> stream_decoder() const override;
  std::int32_t vocab_size() const override { return eod_ + 1; }
  std::int32_t eod() const override { return eod_; }
  bool is_special(std::int32_t) const override { return false; }  // each number is text
  std::string_view type() const override { return kType; }
  const std::string& identity() const override { return identity_; }

 private:
  std::int32_t eod_;
  std::string identity_;
};

}  // namespace mt
