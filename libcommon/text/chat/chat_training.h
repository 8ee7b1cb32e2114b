// What of a conversation a model learns: which bytes of the text that a template makes, and which
// of its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_template.h"

namespace mt {

class Tokenizer;

enum class TrainOn : std::uint8_t {
  all,       // what the assistant says
  last,      // its last turn
  all_text,  // everything
};

struct ChatTrainOptions {
  TrainOn train_on = TrainOn::all;
  bool mask_reasoning = false;  // what stands from <think> to </think> is not learnt
};

struct TrainedText {
  std::string text;
  std::vector<ByteSpan> spans;  // what is learnt: in order, apart from each other, none is empty
};

// Renders a conversation and finds what is learnt of it: what the template has in `generation`
// blocks; where it has none, what each turn of the assistant adds to the text beyond the generation
// prompt.  A message with a `weight` of 0 is not learnt.  Throws Exit::bad_data where the template
// raises an error and where a turn cannot be found in the text.
TrainedText trained_text(const ChatTemplate& chat, const ChatInput& input,
                         const ChatTrainOptions& options = {});

// Where in `text` each token begins, given what the tokenizer made of it.  A token that holds only
// a part of a character begins where that does.  Throws Exit::bad_config, naming the first place,
// where the tokens do not give the text back, so that no token's place in it is known.
std::vector<std::size_t> token_starts(const Tokenizer& tokenizer, std::string_view text,
                                      std::span<const std::int32_t> ids);

// Whether each token shares a byte with a span; `size`: of the text.
std::vector<bool> tokens_in(std::span<const std::size_t> starts, std::size_t size,
                            std::span<const ByteSpan> spans);

}  // namespace mt
