// The images that a chat's messages bring along, as OpenAI's API has them:
//   {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0..."}}
// or, as processors of transformers have them, {"type": "image", "image": "data:..."}
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "image/orientation.h"
#include "model/config/model_config.h"
#include "model/image_input.h"
#include "serve/request_fields.h"
#include "serve/serving.h"
#include "text/bpe/base64.h"
#include "text/chat/chat_template.h"

namespace mt {
namespace {

// So many times as long as it is wide, or wide as it is long, an image may be: what it is resized
// to, before its middle is cut out, is as long.
constexpr std::int64_t kMostAspect = 200;

[[noreturn]] void wrong(const std::string& what) {
  throw ApiError{.message = "messages: " + what, .param = "messages"};
}

const ChatValue* url_of(const ChatValue& part) {
  const ChatValue* const image = part.find(part.has("image_url") ? "image_url" : "image");
  return image != nullptr && image->is_dict() ? image->find("url") : image;
}

// The server opens no file and no connection for a client.
std::string file_of(const ChatValue& part, std::size_t number) {
  const ChatValue* const url = url_of(part);
  const std::string where = concat("image ", number);
  if (url == nullptr || !url->is_text())
    wrong(where + R"(: expected "image_url": {"url": "data:..."})");
  const std::string_view text = *url->text();
  constexpr std::string_view kForm = ";base64,";
  const std::size_t at = text.find(kForm);
  if (!text.starts_with("data:") || at == text.npos || text.find(',') < at)
    wrong(where + ": expected a data URL in base64, data:image/png;base64,...");
  auto bytes = from_base64(text.substr(at + kForm.size()));
  if (!bytes) wrong(where + ": is no base64");
  return *std::move(bytes);
}

}  // namespace

std::vector<std::string> chat_images(const Serving& serving, const ChatValue& request) {
  if (serving.model.llava == nullptr) return {};
  std::vector<ChatValue> parts;
  for (const ChatValue& message : *request.find("messages")->items())
    if (const ChatValue* const content = message.find("content"); content && content->is_list())
      for (const ChatValue& part : *content->items())
        if (is_image_part(part)) parts.push_back(part);
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

std::vector<std::vector<float>> image_inputs(const Serving& serving,
                                             const std::vector<std::string>& files,
                                             const std::function<bool()>& ends) {
  constexpr std::int64_t kMostPixels = 1 << 25;
  const ModelConfig& c = *serving.model.llava;
  std::int64_t left = kMostPixels;
  std::vector<std::vector<float>> inputs;
  for (const std::string& file : files) try {
      const std::string where = concat("image ", inputs.size() + 1);
      const Image image = decode_upright(as_bytes(file), where,
                                         {.pixels = left, .aspect = kMostAspect, .ends = ends});
      left -= image.width * image.height;
      auto& input =
          inputs.emplace_back(static_cast<std::size_t>(c.image_tokens() * c.patch_width()));
      make_image_input(c, image, input);
    } catch (const Error& error) {
      wrong(error.what());
    }
  return inputs;
}

}  // namespace mt
