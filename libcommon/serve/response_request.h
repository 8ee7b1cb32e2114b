// What a client asks by POST /v1/responses, as the chat that it means.  Nothing is kept between two
// such requests: each brings its whole conversation.
#pragma once

#include <string>
#include <string_view>

namespace mt {

struct ResponseRequest {
  std::string chat;  // the body of POST /v1/chat/completions that asks the same
  std::string told;  // members of JSON that an answer repeats of its request, with a comma behind
};

// input (a text, or items: messages, function_call, function_call_output, reasoning), instructions,
// max_output_tokens, text, reasoning, tools and tool_choice become a chat's; what chats have by the
// same name stays.  ApiError, 400, for what is wrong or is not done: previous_response_id say.
ResponseRequest read_response_request(std::string_view body);

}  // namespace mt
