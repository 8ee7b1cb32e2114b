// Answer: OpenAI's answers of completions and of chats, whole or as a stream of server-sent events.
#pragma once

#include <memory>

#include "serve/completion_request.h"
#include "serve/serving.h"

namespace mt {

// How many completions a request asks for; ApiError for more than the server takes at a time.
std::size_t completions_of(const Serving& serving, const CompletionRequest& request);

// Has the request's prompts continued and the client told, in the form of a chat or of completions.
// Throws ApiError where the model does not take it.
void answer_completions(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                        CompletionRequest request, bool chat);

}  // namespace mt
