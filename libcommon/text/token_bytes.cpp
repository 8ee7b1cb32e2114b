#include "text/token_bytes.h"

#include "base/error.h"
#include "text/unicode/utf8_stream.h"

namespace mt {

const std::string& TokenBytes::of(std::int32_t id) const {
  if (id < 0 || id >= size()) fail(Exit::bad_data, "token id ", id, ", expected 0 to ", size() - 1);
  return tokens_[id];
}

std::string TokenBytes::decode(std::span<const std::int32_t> ids) const {
  std::string bytes;
  for (const std::int32_t id : ids) bytes += of(id);
  return bytes;
}

namespace {

class BytesDecoder : public StreamDecoder {
 public:
  explicit BytesDecoder(const TokenBytes& tokens) : tokens_(tokens) {}
  void push(std::int32_t id, std::string& text) override { stream_.push(tokens_.of(id), text); }
  void finish(std::string& text) override { stream_.finish(text); }

 private:
  const TokenBytes& tokens_;
  Utf8Stream stream_;
};

}  // namespace

std::unique_ptr<StreamDecoder> TokenBytes::stream_decoder() const {
  return std::make_unique<BytesDecoder>(*this);
}

}  // namespace mt
