#include "text/bpe/gpt2_bpe.h"

#include <simdjson.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "text/bpe/byte_map.h"
#include "text/bpe/gpt2_files.h"
#include "text/bpe/gpt2_split.h"

namespace mt {

static std::string hash_of_files(std::string_view vocabulary, std::string_view merges) {
  Hasher hasher;
  hasher.update(Gpt2Bpe::kType);
  hasher.update(hash_hex(as_bytes(vocabulary)));
  hasher.update(hash_hex(as_bytes(merges)));
  return hasher.hex();
}

Gpt2Bpe::Gpt2Bpe(const std::string& vocab_path, const std::string& merges_path) {
  const std::string vocabulary = read_regular_file(vocab_path),
                    merges = read_regular_file(merges_path);
  const TokenIds ids = parse_vocabulary(vocabulary, vocab_path);
  std::vector<std::string> tokens(ids.size());
  for (const auto& [token, id] : ids) tokens[id] = from_byte_chars(token).value_or(token);
  tokens_ = TokenBytes(std::move(tokens));
  const auto eod = ids.find(kEndOfText);
  if (eod == ids.end()) fail(Exit::bad_data, vocab_path, ": no token ", kEndOfText);
  eod_ = eod->second;
  bpe_.emplace(parse_merges(merges, merges_path, ids));
  identity_ = hash_of_files(vocabulary, merges);
}

void Gpt2Bpe::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (simdjson::validate_utf8(text.data(), text.size()))
    encode_utf8(text, ids);
  else
    encode_utf8(replace_invalid_utf8(text), ids);
}

void Gpt2Bpe::encode_utf8(std::string_view text, std::vector<std::int32_t>& ids) const {
  bpe_->encode(text, gpt2_split, ids);
}

}  // namespace mt
