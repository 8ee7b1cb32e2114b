// The images that a chat's messages bring along, as OpenAI's API has them:
//   {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0..."}}
// or, as processors of transformers have them, {"type": "image", "image": "data:..."}
#include <utility>

#include "base/error.h"
#include "image/orientation.h"
#include "model/config/model_config.h"
#include "model/image_tiles.h"
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

void check_tokens(const Serving& serving, std::int64_t of_images) {
  if (of_images > serving.loop.max_tokens())
    throw ApiError{.message = concat("the images have ", of_images, " tokens, and the model takes ",
                                     serving.loop.max_tokens()),
                   .param = "messages",
                   .code = "context_length_exceeded"};
}

}  // namespace

std::vector<std::string> chat_images(const Serving& serving, const ChatValue& request) {
  if (serving.model.llava == nullptr) return {};
  std::vector<ChatValue> parts;
  for (const ChatValue& message : *request.find("messages")->items())
    if (const ChatValue* const content = message.find("content"); content && content->is_list())
      for (const ChatValue& part : *content->items())
        if (is_image_part(part)) parts.push_back(part);
  if (parts.empty()) return {};
  const ImageWords words(*serving.model.llava, serving.model.tokenizer);
  check_tokens(serving, std::ssize(parts) * words.count(1));  // or more
  std::vector<std::string> files;
  for (const ChatValue& part : parts) files.push_back(file_of(part, files.size() + 1));
  return files;
}

ImageInputs image_inputs(const Serving& serving, const std::vector<std::string>& files,
                         const std::function<bool()>& ends) {
  constexpr std::int64_t kMostPixels = 1 << 25;
  const ModelConfig& c = *serving.model.llava;
  const ImageWords words(c, serving.model.tokenizer);
  const auto each = static_cast<std::size_t>(tile_input_size(c));
  std::int64_t left = kMostPixels, tokens = 0;
  ImageInputs made;
  for (const std::string& file : files) try {
      const std::string where = concat("image ", made.tiles.size() + 1);
      const Image image = decode_upright(as_bytes(file), where,
                                         {.pixels = left, .aspect = kMostAspect, .ends = ends});
      left -= image.width * image.height;
      const std::int64_t tiles = grid_of(c, {image.width, image.height}).tiles();
      check_tokens(serving, tokens += words.count(tiles));
      std::vector<float> inputs(static_cast<std::size_t>(tiles) * each);
      make_tile_inputs(c, image, inputs);
      for (auto at = inputs.begin(); at != inputs.end(); at += static_cast<std::ptrdiff_t>(each))
        made.inputs.emplace_back(at, at + static_cast<std::ptrdiff_t>(each));
      made.tiles.push_back(tiles);
    } catch (const Error& error) {
      wrong(error.what());
    }
  return made;
}

}  // namespace mt
