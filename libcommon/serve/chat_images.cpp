// The images that a chat's messages bring along, as OpenAI's API has them:
//   {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0..."}}
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

// As a photograph has them; half a GiB while it is read.
constexpr ImageLimits kLimits{.pixels = 1 << 25};

[[noreturn]] void wrong(const std::string& what) {
  throw ApiError{.message = "messages: image_url: " + what, .param = "messages"};
}

const ChatValue* url_of(const ChatValue& part) {
  const ChatValue* const image = part.find("image_url");
  return image != nullptr && image->is_dict() ? image->find("url") : image;
}

// The server opens no file and no connection for a client.
Image image_of(const ChatValue& part, std::size_t number) {
  const ChatValue* const url = url_of(part);
  const std::string where = concat("image ", number);
  if (url == nullptr || !url->is_text()) wrong(where + ": no \"url\"");
  const std::string_view text = *url->text();
  constexpr std::string_view kForm = ";base64,";
  const std::size_t at = text.find(kForm);
  if (!text.starts_with("data:") || at == text.npos || text.find(',') < at)
    wrong(where + ": expected a data URL in base64, data:image/png;base64,...");
  const auto bytes = from_base64(text.substr(at + kForm.size()));
  if (!bytes) wrong(where + ": is no base64");
  try {
    return decode_image(as_bytes(*bytes), where, kLimits);
  } catch (const Error& error) {
    wrong(error.what());
  }
}

bool is_image(const ChatValue& part) {
  const ChatValue* const type = part.is_dict() ? part.find("type") : nullptr;
  return type != nullptr && type->is_text() &&
         (*type->text() == "image_url" || *type->text() == "image");
}

}  // namespace

std::vector<Image> chat_images(const Serving& serving, const Exchange& exchange) {
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
  std::vector<Image> images;
  for (const ChatValue& part : parts) images.push_back(image_of(part, images.size() + 1));
  return images;
}

}  // namespace mt
