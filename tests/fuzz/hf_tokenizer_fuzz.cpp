// Any bytes as a tokenizer.json, and what follows a NUL as the tokenizer_config.json beside it:
// refused with one line, or a tokenizer whose ids are its own and whose text comes out alike in
// parts and at once.
//
// Seeds: testdata/huggingface
// Parser: libcommon/base/json_object.cpp
// Parser: libcommon/base/json_parse.cpp
// Parser: libcommon/text/hf/hf_tokenizer.cpp
// Parser: libcommon/text/hf/hf_model.cpp
// Parser: libcommon/text/hf/hf_bpe.cpp
// Parser: libcommon/text/hf/hf_unigram.cpp
// Parser: libcommon/text/hf/hf_whole_words.cpp
// Parser: libcommon/text/hf/hf_normalizer.cpp
// Parser: libcommon/text/hf/hf_pre_tokenizer.cpp
// Parser: libcommon/text/hf/hf_regex_class.cpp
// Parser: libcommon/text/hf/hf_regex_syntax.cpp
// Parser: libcommon/text/hf/hf_decoder.cpp
// Parser: libcommon/text/hf/hf_config.cpp
// Parser: libcommon/text/hf/hf_adapt.cpp
// Parser: libcommon/text/hf/hf_added_tokens.cpp
// Parser: libcommon/text/hf/hf_template.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/hf/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(input), size);
  const std::string_view content = all.substr(0, all.find('\0'));
  std::vector<mt::HfConfigFile> config_files;
  if (content.size() < size)
    config_files.push_back({"config", std::string(all.substr(content.size() + 1))});
  try {
    const mt::HfTokenizer tokenizer(content, "fuzz", config_files);
    std::vector<std::int32_t> ids;
    for (const std::string_view text :
         {"", "aaaaaaaa",
          " Tom's  12 cats,\tof\r\n-\xC3\xA9 e\xCC\x81\xFF <s></s>[INST]\xE2\x96\x81"})
      tokenizer.encode(text, ids);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    std::string streamed;
    const auto decoder = tokenizer.stream_decoder();
    for (const std::int32_t id : ids) decoder->push(id, streamed);
    decoder->finish(streamed);
    if (streamed != tokenizer.decode_text(ids)) std::abort();
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
