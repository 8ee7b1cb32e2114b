// A byte that names a route, and then any bytes as the body of a request: each is read, or refused
// with one line that is text.
//
// Parser: libcommon/serve/request_fields.cpp
// Parser: libcommon/serve/completion_request.cpp
// Parser: libcommon/serve/megatron_request.cpp
// Parser: libcommon/serve/tools.cpp
// Parser: libcommon/serve/tool_reader.cpp
// Parser: libcommon/serve/chat_reader.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json_parse.h"
#include "serve/completion_request.h"
#include "serve/megatron_request.h"
#include "serve/tools.h"

namespace mt {
namespace {

// A tokenizer of bytes, for the options of Megatron's server.
class Bytes256 : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (const char c : text) ids.push_back(static_cast<std::uint8_t>(c));
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += static_cast<char>(id);
    return text;
  }
  std::int32_t vocab_size() const override { return 256; }
  std::int32_t eod() const override { return 0; }
  std::string_view type() const override { return "Bytes"; }
  std::unique_ptr<StreamDecoder> stream_decoder() const override { return nullptr; }
  const std::string& identity() const override { return identity_; }

 private:
  std::string identity_;
};

void check_line(std::string_view text) {
  if (text.empty() || text.find('\n') != text.npos) std::abort();
}

constexpr ToolForm kForms[] = {ToolForm::hermes,       ToolForm::llama3,   ToolForm::mistral,
                               ToolForm::mistral_args, ToolForm::deepseek, ToolForm::deepseek_bare,
                               ToolForm::qwen_coder,   ToolForm::glm,      ToolForm::channels};

void read_tools_of(std::string_view body) {
  RequestFields fields(body);
  CompletionOptions options;
  read_sampling(fields, options);
  const Tools tools = read_tools(fields);
  for (const ToolForm form : kForms) try {
      if (!tools.must_call.empty()) grammar_of_calls(tools, form);
    } catch (const Error& error) {
      check_line(error.what());
    }
  fields.unknown();
}

// What a model says, in two pieces: all of it comes out, as a thought, as text or in calls.
void read_said(std::string_view said) {
  for (const ToolForm calls : kForms)
    for (const ThoughtForm thoughts :
         {ThoughtForm::think, ThoughtForm::mistral, ThoughtForm::channels}) {
      ChatReader reader({.thoughts = thoughts,
                         .calls = calls,
                         .functions = {{"f", R"({"properties":{"a":{"type":"integer"}}})"}}},
                        said.substr(0, said.size() / 4));
      const std::string_view first = said.substr(0, said.size() / 2);
      reader.take(first, false);
      for (const ToolCall& call : reader.take(said.substr(first.size()), true).calls) {
        simdjson::dom::parser parser;
        if (call.name.empty() || !parse_json(parser, call.arguments).is_object()) std::abort();
      }
    }
}

void read(std::uint8_t route, std::string_view body) {
  switch (route % 4) {
    case 0: {
      RequestFields fields(body);
      read_completion_request(fields, 1);
      fields.unknown();
      return;
    }
    case 1:
      return read_tools_of(body);
    case 2: {
      static const Bytes256 tokenizer;
      parse_megatron_request(body).completion(tokenizer, 1);
      return;
    }
    default:
      return read_said(body);
  }
}

}  // namespace
}  // namespace mt

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  try {
    mt::read(bytes[0], body);
  } catch (const mt::ApiError& error) {
    mt::check_line(error.message);
  } catch (const mt::MegatronRefusal& refusal) {
    mt::check_line(refusal.text);
  } catch (const mt::Error& error) {
    mt::check_line(error.what());
  }
  return 0;
}
