// Answer: OpenAI's answers of completions, of chats and of responses, whole or as a stream of
// server-sent events.
#pragma once

#include <memory>
#include <string>

#include "serve/completion_request.h"
#include "serve/serving.h"

namespace mt {

// How many completions a request asks for; ApiError for more than the server takes at a time.
std::size_t completions_of(const Serving& serving, const CompletionRequest& request);

// Has the request's prompts continued and the client told, in the form of a chat or of completions.
// Throws ApiError where the model does not take it.
void answer_completions(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                        CompletionRequest request, bool chat);

// Does so for a request that came to /v1/responses, in its form (serve/response_answer.cpp).
void answer_response(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                     CompletionRequest request);

// A completion of one of the request's prompts; ApiError where the model has no room for it.
std::unique_ptr<Completion> make_completion(const Serving& serving,
                                            const CompletionRequest& request, std::size_t prompt,
                                            std::int64_t sample, bool chat);
// The id of a call of a tool, as the chat's template takes it: Mistral's take nine letters and
// digits alone.
std::string drawn_call_id(const ChatForm& form);

}  // namespace mt
