// Which tokens are put around a text: the post_processor of a tokenizer.json.
#pragma once

#include <cstdint>
#include <vector>

namespace mt {

class JsonObject;

// The ids around each text.
struct HfTemplate {
  std::vector<std::int32_t> before = {}, after = {};
};

// Known are TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing and Sequence; others
// are refused by name, and so are templates that have not the one text they are for once.
HfTemplate read_hf_template(const JsonObject& post_processor, std::int32_t vocab_size);

}  // namespace mt
