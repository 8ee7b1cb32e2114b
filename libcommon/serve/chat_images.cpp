// The images that a chat's messages bring along, as OpenAI's API has them:
//   {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0..."}}
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "image/image.h"
#include "model/config/model_config.h"
#include "model/image_input.h"
#include "serve/request_fields.h"
#include "serve/serving.h"
#include "text/bpe/base64.h"
#include "text/chat/chat_value.h"

namespace mt {
namespace {

// So many times as long as it is wide, or wide as it is long, an image may be: what it is resized
// to, before its middle is cut out, is as long.
constexpr std::int64_t kMostAspect = 200;

[[noreturn]] void wrong(const std::string& what) {
  throw ApiError{.message = "messages: image_url: " + what, .param = "messages"};
}

const ChatValue* url_of(const ChatValue& part) {
  const ChatValue* const image = part.find("image_url");
  return image != nullptr && image->is_dict() ? image->find("url") : image;
}

// The server opens no file and no connection for a client.
std::string file_of(const ChatValue& part, std::size_t number) {
  const ChatValue* const url = url_of(part);
  const std::string where = concat("image ", number);
  if (url == nullptr || !url->is_text()) wrong(where + ": no \"url\"");
  const std::string_view text = *url->text();
  constexpr std::string_view kForm = ";base64,";
  const std::size_t at = text.find(kForm);
  if (!text.starts_with("data:") || at == text.npos || text.find(',') < at)
    wrong(where + ": expected a data URL in base64, data:image/png;base64,...");
  auto bytes = from_base64(text.substr(at + kForm.size()));
  if (!bytes) wrong(where + ": is no base64");
  return *std::move(bytes);
}

bool is_image(const ChatValue& part) {
  const ChatValue* const type = part.is_dict() ? part.find("type") : nullptr;
  return type != nullptr && type->is_text() &&
         (*type->text() == "image_url" || *type->text() == "image");
}

}  // namespace

std::vector<std::string> chat_images(const Serving& serving, const Exchange& exchange) {
  if (serving.model.llava == nullptr) return {};
  const ChatValue request = chat_value_of_json(exchange.request().body, "request");
  std::vector<ChatValue> parts;
  for (const ChatValue& message : *request.find("messages")->items())
    if (const ChatValue* const content = message.find("content"); content && content->is_list())
      for (const ChatValue& part : *content->items())
        if (is_image(part)) parts.push_back(part);
  const std::int64_t tokens = std::ssize(parts) * tokens_of_image(*serving.model.llava);
  if (tokens > serving.loop.max_tokens())
    throw ApiError{.message = concat("the images have ", tokens, " tokens, and the model takes ",
                                     serving.loop.max_tokens()),
                   .param = "messages",
                   .code = "context_length_exceeded"};
  std::vector<std::string> files;
  for (const ChatValue& part : parts) files.push_back(file_of(part, files.size() + 1));
  return files;
}

void ImageReader::read(std::int64_t number, std::span<float> to) {
  const std::string where = concat("image ", number + 1);
  const std::string file = std::exchange(files_.at(static_cast<std::size_t>(number)), {});
  try {
    const Image image = decode_image(as_bytes(file), where, {.pixels = pixels_});
    pixels_ -= image.width * image.height;
    if (std::max(image.width, image.height) / std::min(image.width, image.height) >= kMostAspect)
      fail(Exit::bad_data, where, ": an image of ", image.width, " x ", image.height,
           ", expected one side less than ", kMostAspect, " times the other");
    make_image_input(*serving_.model.llava, image, to);
  } catch (const Error& error) {
    wrong(error.what());
  }
}

}  // namespace mt
